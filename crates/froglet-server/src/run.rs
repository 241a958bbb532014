//! A server as a process: its runtime, its signals, what it prints.

use std::io::Write;

use rustix::process::{Resource, getrlimit, setrlimit};
use tokio::signal::unix::{SignalKind, signal};

use crate::config::Config;
use crate::error::ServerError;
use crate::server::Server;

/// Serves until a signal or the log ends it.
pub fn run(config: Config) -> Result<(), ServerError> {
    raise_file_limit();
    // It accepts, listens to signals and starts checkpoints; sessions have their own loops.
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().build().map_err(ServerError::Start)?;
    let outcome = runtime.block_on(serve(config));
    // A session that did not end in time does not keep the process.
    runtime.shutdown_background();
    outcome
}

async fn serve(config: Config) -> Result<(), ServerError> {
    let mut interrupt = signal(SignalKind::interrupt()).map_err(ServerError::Start)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(ServerError::Start)?;
    // A file that may not grow is an error of whoever writes it, and no reason to die, which is what this signal
    // does to a process that does not take it.
    let too_large = SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw());
    let _taken = signal(too_large).map_err(ServerError::Start)?;
    let mut server = tokio::select! {
        server = Server::start(config) => server?,
        // Nothing has been acknowledged yet: recovery may be left and begun anew.
        _ = interrupt.recv() => return Ok(()),
        _ = terminate.recv() => return Ok(()),
    };
    ready(&server);
    tokio::select! {
        ended = server.ended() => return ended,
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    tracing::info!("stopping");
    server.stop();
    tokio::select! {
        ended = server.ended() => ended,
        // Asked twice, the process ends at once; what it acknowledged is in the log.
        _ = interrupt.recv() => Ok(()),
        _ = terminate.recv() => Ok(()),
    }
}

/// What a person waits for.
fn ready(server: &Server) {
    let address = server.address();
    let (host, port) = (address.ip(), address.port());
    let version = env!("CARGO_PKG_VERSION");
    let mut lines = format!(
        "froglet {version} listening on {address}\npsql -h {host} -p {port} -U postgres postgres\n"
    );
    if let Some(flight) = server.flight_address() {
        lines.push_str(&format!("Arrow Flight SQL on {flight}\n"));
    }
    // Nobody may be listening to standard output.
    let _ = std::io::stdout().write_all(lines.as_bytes());
}

/// Lets the process have as many files (and connections) open as the system lets it ask for: the
/// customary 1024 are fewer than `max_connections`.
pub fn raise_file_limit() {
    let limit = getrlimit(Resource::Nofile);
    let raised = rustix::process::Rlimit { current: limit.maximum, ..limit };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::warn!(%error, "the limit of open files stays as it is");
    }
}
