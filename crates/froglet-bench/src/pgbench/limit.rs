//! What pgbench and the kernel leave to a server: one that answers without doing anything.
//!
//! It reads each message, looks nothing up, and sends what pgbench needs to go on: a row of
//! constants for a SELECT, a tag for anything else. No server can be faster under this client on
//! this machine, so its figure is the limit against which the others are read.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::thread;

use anyhow::Result;

use super::server::Server;

/// A server of canned answers, on threads of this process. They end with it.
pub struct Limit {
    port: u16,
}

impl Limit {
    /// Listens.
    pub fn start() -> Result<Limit> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let port = listener.local_addr()?.port();
        thread::Builder::new().name("limit".to_owned()).spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                // A client that goes away ends its thread.
                thread::spawn(move || serve(stream));
            }
        })?;
        Ok(Limit { port })
    }
}

impl Server for Limit {
    fn port(&self) -> u16 {
        self.port
    }

    fn prepare(&self, _pgbench: &Path, _scale: u16) -> Option<Command> {
        None
    }
}

fn serve(mut stream: TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let (mut input, mut output) = (Vec::new(), Vec::new());
    let mut session = Session::default();
    let mut chunk = [0; 16 << 10];
    loop {
        let read = stream.read(&mut chunk)?;
        if read == 0 {
            return Ok(());
        }
        input.extend_from_slice(&chunk[..read]);
        let mut at = 0;
        while let Some(bytes) = session.answer(&input[at..], &mut output) {
            at += bytes;
        }
        input.drain(..at);
        stream.write_all(&output)?;
        output.clear();
    }
}

#[derive(Default)]
struct Session {
    started: bool,
    /// Statement name → whether it has rows.
    statements: HashMap<Vec<u8>, bool>,
    rows: bool,
}

impl Session {
    /// Answers the first message of the input; its length, if it is all there.
    fn answer(&mut self, input: &[u8], out: &mut Vec<u8>) -> Option<usize> {
        let header = usize::from(self.started);
        let length = u32::from_be_bytes(input.get(header..header + 4)?.try_into().ok()?);
        let total = header + length as usize;
        let body = input.get(header + 4..total)?;
        if !self.started {
            self.start(body, out);
            return Some(total);
        }
        match input[0] {
            b'Q' => {
                // The scale, and that pgbench_accounts has no partitions.
                put(out, b'T', &columns(3));
                put(out, b'D', b"\0\x03\0\0\0\x0210\xff\xff\xff\xff\0\0\0\x010");
                put(out, b'C', b"SELECT 1\0");
                put(out, b'Z', b"I");
            }
            b'P' => {
                let (name, text) = split(body);
                let rows = text.to_ascii_uppercase().starts_with(b"SELECT");
                self.statements.insert(name.to_vec(), rows);
                put(out, b'1', b"");
            }
            b'B' => {
                let (name, _) = split(split(body).1);
                self.rows = self.statements.get(name).copied().unwrap_or(false);
                put(out, b'2', b"");
            }
            b'D' if self.rows => put(out, b'T', &columns(1)),
            b'D' => put(out, b'n', b""),
            b'E' if self.rows => {
                put(out, b'D', b"\0\x01\0\0\0\x06-12345");
                put(out, b'C', b"SELECT 1\0");
            }
            b'E' => put(out, b'C', b"UPDATE 1\0"),
            b'S' => put(out, b'Z', b"I"),
            _ => {}
        }
        Some(total)
    }

    fn start(&mut self, body: &[u8], out: &mut Vec<u8>) {
        // Anything but protocol 3.0 asks for encryption.
        if !body.starts_with(&[0, 3, 0, 0]) {
            out.push(b'N');
            return;
        }
        self.started = true;
        put(out, b'R', &[0; 4]);
        put(out, b'S', b"server_version\x0015.0\0");
        put(out, b'S', b"client_encoding\0UTF8\0");
        put(out, b'S', b"standard_conforming_strings\0on\0");
        put(out, b'K', &[0; 8]);
        put(out, b'Z', b"I");
    }
}

/// What is before the first zero, and what is behind it.
fn split(bytes: &[u8]) -> (&[u8], &[u8]) {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    (&bytes[..end], bytes.get(end + 1..).unwrap_or_default())
}

fn put(out: &mut Vec<u8>, kind: u8, body: &[u8]) {
    out.push(kind);
    out.extend_from_slice(&(body.len() as u32 + 4).to_be_bytes());
    out.extend_from_slice(body);
}

/// A RowDescription of integers.
fn columns(n: u8) -> Vec<u8> {
    let column = b"c\0\0\0\0\0\0\0\0\0\0\x17\0\x04\xff\xff\xff\xff\0\0";
    let mut body = vec![0, n];
    (0..n).for_each(|_| body.extend_from_slice(column));
    body
}
