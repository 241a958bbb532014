//! Sizes of regions, which the placement driver tells over HTTP alone.

use std::fmt::Write;
use std::time::Duration;

use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Bytes;
use hyper::{Request, StatusCode, Uri, header};
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use tokio::net::TcpStream;

use super::grpc::{ordered, unreachable};
use super::{RegionSize, Unreachable};

/// Regions of an answer.
const PAGE: usize = 256;
/// What is answered at most, in bytes.
const LARGEST_ANSWER: usize = 8 << 20;
const MEBIBYTE: u64 = 1 << 20;

#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    regions: Option<Vec<Region>>,
}

#[derive(Deserialize)]
struct Region {
    id: u64,
    /// In hexadecimal; empty: there is none.
    end_key: String,
    /// In mebibytes.
    #[serde(default)]
    approximate_size: u64,
    #[serde(default)]
    approximate_keys: u64,
}

/// Asks a driver, by its address, for regions from a key on up to another.
pub(super) async fn ask(
    driver: &str,
    start: &[u8],
    end: &[u8],
    timeout: Duration,
) -> Result<Vec<RegionSize>, Unreachable> {
    let (mut from, end) = (ordered(start), ordered(end));
    let mut sizes = Vec::new();
    loop {
        let mut path = "/pd/api/v1/regions/key?key=".to_owned();
        from.iter().for_each(|byte| write!(path, "%{byte:02X}").expect("a text takes it"));
        write!(path, "&limit={PAGE}").expect("a text takes it");
        let asked = tokio::time::timeout(timeout, get(driver, &path));
        let answer = asked.await.unwrap_or_else(|_| Err("no answer in time".to_owned()));
        let answer = answer.map_err(|why| unreachable(driver, why))?;
        let answer: Answer = serde_json::from_slice(&answer).map_err(|e| unreachable(driver, e))?;
        let regions = answer.regions.unwrap_or_default();
        let Some(next) = regions.last().map(|last| of_hex(&last.end_key)) else {
            return Ok(sizes);
        };
        let next = next.ok_or_else(|| unreachable(driver, "a bound is no hexadecimal number"))?;
        sizes.extend(regions.iter().map(|found| RegionSize {
            region: found.id,
            bytes: found.approximate_size * MEBIBYTE,
            keys: found.approximate_keys,
        }));
        if next.is_empty() || next >= end || next <= from {
            return Ok(sizes);
        }
        from = next;
    }
}

async fn get(driver: &str, path: &str) -> Result<Bytes, String> {
    let uri: Uri = driver.parse().map_err(|e| format!("{e}"))?;
    let authority = uri.authority().ok_or("the driver has no address")?.as_str();
    let stream = TcpStream::connect(authority).await.map_err(|e| e.to_string())?;
    let opened = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = opened.map_err(|e| e.to_string())?;
    // It ends when what it was made for has ended; what is wrong with it is told there.
    tokio::spawn(connection);
    let request = Request::get(path).header(header::HOST, authority).body(Empty::<Bytes>::new());
    let request = request.map_err(|e| e.to_string())?;
    let answer = sender.send_request(request).await.map_err(|e| e.to_string())?;
    match answer.status() {
        StatusCode::OK => {}
        status => return Err(format!("it answers {status}")),
    }
    let body = Limited::new(answer.into_body(), LARGEST_ANSWER).collect().await;
    Ok(body.map_err(|e| e.to_string())?.to_bytes())
}

fn of_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |digit: &u8| char::from(*digit).to_digit(16).and_then(|n| u8::try_from(n).ok());
    let byte = |pair: &[u8]| Some(digit(pair.first()?)? << 4 | digit(pair.get(1)?)?);
    text.as_bytes().chunks(2).map(byte).collect()
}
