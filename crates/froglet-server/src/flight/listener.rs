//! From an accepted socket to calls.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use arrow_flight::flight_service_server::FlightServiceServer;
use froglet_sql::database::Ends;
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::{Notify, watch};
use tonic::codegen::Service;

use super::get::{self, AnswerBody};
use super::service::FlightCalls;
use super::sessions::{Guest, Registry};
use crate::config::Config;
use crate::connection::startup::Shared;
use crate::error::ServerError;
use crate::tls::Tls;

const DO_GET: &str = "/arrow.flight.protocol.FlightService/DoGet";
const DO_PUT: &str = "/arrow.flight.protocol.FlightService/DoPut";
/// Of all calls but DoPut: statements are in them.
const MOST_REQUEST_BYTES: usize = 16 << 20;
/// A batch that a client sends. It knows no other limit than its memory; ours is shared.
const MOST_BATCH_BYTES: usize = 256 << 20;
/// What a client may send before it is read, for each call and for all of a connection.
const CALL_WINDOW_BYTES: u32 = 1 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 4 << 20;
/// Calls under way of one connection.
const MOST_CALLS: u32 = 200;
/// Whether a silent client is there is asked so often, and it has so long to answer.
const KEEP_ALIVE: Duration = Duration::from_secs(20);
const KEEP_ALIVE_ANSWER: Duration = Duration::from_secs(20);
/// How long a client may take to speak TLS, and then to ask for something: until then nothing tells
/// whether it is there.
const GREETING: Duration = Duration::from_secs(30);
/// How long calls may go on when the server ends.
const PATIENCE: Duration = Duration::from_secs(3);

/// What serves Flight's connections.
pub(crate) struct Flight {
    tls: Option<Tls>,
    registry: Arc<Registry>,
    stop: watch::Receiver<bool>,
}

impl Flight {
    pub(crate) fn new(
        config: &Config,
        shared: &Shared,
        stop: watch::Receiver<bool>,
    ) -> Result<Arc<Flight>, ServerError> {
        let files = config.flight_tls.as_ref().or(config.tls.as_ref());
        let tls = files.map(|files| Tls::open(files, b"h2")).transpose()?;
        let (db, slots) = (shared.db.clone(), shared.slots.clone());
        let registry = Registry::new(db, slots, shared.rules.clone(), config.flight_result_timeout);
        Ok(Arc::new(Flight { tls, registry, stop }))
    }

    /// Lets go what nobody comes back to, for ever.
    pub(crate) fn sweep(&self) -> impl Future<Output = ()> + use<> {
        self.registry.clone().sweep()
    }

    /// Serves an accepted socket to its end.
    pub(crate) async fn serve(self: Arc<Flight>, stream: std::net::TcpStream) {
        let stream = match TcpStream::from_std(stream) {
            Ok(stream) => stream,
            Err(error) => return tracing::warn!(%error, "a connection could not be served"),
        };
        // Failing to disable Nagle's algorithm costs time, nothing else.
        let _ = stream.set_nodelay(true);
        let Ok(client) = stream.peer_addr() else { return };
        let server = stream.local_addr().ok();
        let ends = Ends { client: Some(client), server, is_tls: self.tls.is_some() };
        let Some(tls) = &self.tls else { return self.calls(stream, ends).await };
        match tokio::time::timeout(GREETING, tls.acceptor.accept(stream)).await {
            Ok(Ok(stream)) => self.calls(stream, ends).await,
            Ok(Err(error)) => tracing::debug!(%error, "a client does not speak TLS"),
            Err(_) => tracing::debug!("a client does not go on with TLS"),
        }
    }

    async fn calls(
        &self,
        stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
        ends: Ends,
    ) {
        let guest = Arc::new(Guest::new(self.registry.clone(), ends));
        let service = FlightServiceServer::new(FlightCalls);
        let calls = service.clone().max_decoding_message_size(MOST_REQUEST_BYTES);
        let puts = service.max_decoding_message_size(MOST_BATCH_BYTES);
        let asked = Arc::new(Notify::new());
        let first = asked.clone();
        let service = service_fn(move |mut request: Request<Incoming>| {
            first.notify_one();
            let (guest, mut calls, mut puts) = (guest.clone(), calls.clone(), puts.clone());
            async move {
                let path = request.uri().path();
                if path == DO_GET {
                    return Ok::<Response<AnswerBody>, Infallible>(
                        get::answer(&guest, request).await,
                    );
                }
                let put = path == DO_PUT;
                request.extensions_mut().insert(guest);
                let answered =
                    if put { puts.call(request).await } else { calls.call(request).await };
                Ok(answered?.map(AnswerBody::Tonic))
            }
        });
        let mut http = http2::Builder::new(TokioExecutor::new());
        http.timer(TokioTimer::new())
            .initial_stream_window_size(CALL_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .max_concurrent_streams(MOST_CALLS)
            .keep_alive_interval(KEEP_ALIVE)
            .keep_alive_timeout(KEEP_ALIVE_ANSWER);
        let mut connection = std::pin::pin!(http.serve_connection(TokioIo::new(stream), service));
        let mut stop = self.stop.clone();
        tokio::select! {
            ended = connection.as_mut() => return log_end(ended),
            () = silent(&asked) => return tracing::debug!("a client does not ask for anything"),
            _ = stop.wait_for(|stop| *stop) => connection.as_mut().graceful_shutdown(),
        }
        if let Ok(ended) = tokio::time::timeout(PATIENCE, connection).await {
            log_end(ended);
        }
    }
}

/// Resolves if nothing is asked for in time.
async fn silent(asked: &Notify) {
    if tokio::time::timeout(GREETING, asked.notified()).await.is_ok() {
        std::future::pending().await
    }
}

fn log_end(ended: hyper::Result<()>) {
    if let Err(error) = ended {
        tracing::debug!(%error, "a Flight connection ended");
    }
}
