//! A server's life.
//!
//! ```text
//!   check ▶ bind ▶ recover ▶ listen ══ accept … ══ stop ▶ cancel all ▶ goodbyes ▶ checkpoint
//!                                        │
//!                                        └ the log failed ▶ cancel all ▶ error, no checkpoint
//! ```
//! The address is taken before recovery, so that a taken one is reported at once, and listened on
//! after it, so that whoever can connect is served.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use froglet_engine::EngineError;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::{JoinHandle, JoinSet};

use crate::checkpoint::{self, Checkpointer};
use crate::config::Config;
use crate::connection::channel::Budget;
use crate::connection::startup::{self, Shared};
use crate::error::ServerError;
use crate::flight::Flight;
use crate::loops::Loops;
use crate::open::{self, Opened};
use crate::tls::Tls;

/// Connections the kernel may hold for us.
const BACKLOG: u32 = 1024;
/// How long sessions may take to end when the server does.
const PATIENCE: Duration = Duration::from_secs(10);
/// The share of the memory limit that long messages may take: one part in so many.
const MESSAGE_SHARE: u64 = 4;

/// A running server.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    flight_address: Option<SocketAddr>,
    stop: watch::Sender<bool>,
    task: JoinHandle<Result<(), ServerError>>,
}

impl Server {
    /// Opens the data directory and listens. Resolves when clients can connect.
    pub async fn start(config: Config) -> Result<Server, ServerError> {
        // Two servers on one directory often have one address too: the directory is the news.
        open::check(&config)?;
        let socket = bind("listen", config.listen)?;
        let flight_socket = match config.flight_listen {
            Some(address) => Some(bind("flight-listen", address)?),
            None => None,
        };
        let tls = config.tls.as_ref().map(|files| Tls::open(files, b"postgresql")).transpose()?;
        let loops = Loops::start(config.worker_threads, config.max_connections);
        let loops = loops.map_err(ServerError::Start)?;
        let opened = open::open(&config).await?;
        let (stop, stopped) = watch::channel(false);
        let shared = Arc::new(Shared {
            db: opened.db.clone(),
            slots: Arc::new(Semaphore::new(config.max_connections)),
            budget: Budget::new(config.memory_limit_bytes / MESSAGE_SHARE),
            application_name: configured_name(&config),
            rules: config.rules(),
            tls,
        });
        let flight = match flight_socket {
            Some(socket) => {
                let flight = Flight::new(&config, &shared, stopped.clone())?;
                Some((listen(socket, "flight-listen")?, flight))
            }
            None => None,
        };
        let listeners = Listeners { postgres: listen(socket, "listen")?, flight };
        let address = local_address(&listeners.postgres)?;
        let flight_address =
            listeners.flight.as_ref().map(|(listener, _)| local_address(listener)).transpose()?;
        let task = tokio::spawn(run(config, opened, shared, listeners, loops, stopped));
        Ok(Server { address, flight_address, stop, task })
    }

    /// Where it listens; the port it chose where it was given port 0.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where it listens for Flight clients, if it does.
    pub fn flight_address(&self) -> Option<SocketAddr> {
        self.flight_address
    }

    /// Asks it to stop. [`Server::ended`] says when it has.
    pub fn stop(&self) {
        self.stop.send_replace(true);
    }

    /// Resolves when it has stopped, as asked or because its log failed.
    pub async fn ended(&mut self) -> Result<(), ServerError> {
        (&mut self.task).await.map_err(ServerError::task)?
    }
}

/// What clients connect to.
struct Listeners {
    postgres: TcpListener,
    flight: Option<(TcpListener, Arc<Flight>)>,
}

impl Listeners {
    /// The next connection, and how it is served.
    async fn accept(&self) -> std::io::Result<(TcpStream, Option<&Arc<Flight>>)> {
        let flight = async {
            match &self.flight {
                Some((listener, flight)) => Ok((listener.accept().await?.0, Some(flight))),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            accepted = self.postgres.accept() => Ok((accepted?.0, None)),
            accepted = flight => accepted,
        }
    }
}

async fn run(
    config: Config,
    opened: Opened,
    shared: Arc<Shared>,
    listeners: Listeners,
    loops: Loops,
    mut stopped: watch::Receiver<bool>,
) -> Result<(), ServerError> {
    let mut sweeper = JoinSet::new();
    if let Some((_, flight)) = &listeners.flight {
        sweeper.spawn(flight.sweep());
    }
    let mut sessions = JoinSet::new();
    // Whoever is too many is told so, which takes a connection for a moment.
    let most = config.max_connections.saturating_mul(2).saturating_add(64);
    let checkpointer = Checkpointer::new(&opened, &config);
    let failed: Option<EngineError> = tokio::select! {
        // A dropped Server is one that was asked to stop.
        _ = stopped.wait_for(|stop| *stop) => None,
        error = checkpointer.run() => Some(error),
        () = accept(&listeners, &shared, &loops, &mut sessions, most) => unreachable!("it never ends"),
    };
    drop(listeners);
    if let Some(error) = &failed {
        tracing::error!(%error, "nothing can be acknowledged any more: the server ends");
    }
    end_sessions(&opened, sessions).await;
    sweeper.shutdown().await;
    drop(shared);
    match failed {
        Some(error) => Err(error.into()),
        None => {
            opened.db.catalog().bury_migrations();
            tracing::info!("writing the last checkpoint");
            checkpoint::checkpoint(&opened.engine).await?;
            Ok(())
        }
    }
}

fn configured_name(config: &Config) -> String {
    let set = config.settings.iter().rfind(|s| s.name == "application_name");
    set.map_or_else(String::new, |s| s.value.clone())
}

async fn accept(
    listeners: &Listeners,
    shared: &Arc<Shared>,
    loops: &Loops,
    sessions: &mut JoinSet<()>,
    most: usize,
) {
    loop {
        match listeners.accept().await {
            Ok((stream, _)) if sessions.len() >= most => drop(stream),
            Ok((stream, flight)) => match (stream.into_std(), flight) {
                (Ok(stream), None) => {
                    loops.spawn(sessions, startup::serve(stream, shared.clone()));
                }
                (Ok(stream), Some(flight)) => loops.spawn(sessions, flight.clone().serve(stream)),
                (Err(error), _) => tracing::warn!(%error, "a connection was lost as it came"),
            },
            Err(error) => {
                // Out of file descriptors, mostly: some will come back as sessions end.
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
        while sessions.try_join_next().is_some() {}
    }
}

/// Tells every session to end and waits for them, but not for ever: what a session that does not
/// end has not committed is lost with it, as it must be.
async fn end_sessions(opened: &Opened, mut sessions: JoinSet<()>) {
    opened.db.shutdown();
    let all_ended = async { while sessions.join_next().await.is_some() {} };
    if tokio::time::timeout(PATIENCE, all_ended).await.is_err() {
        tracing::warn!(sessions = sessions.len(), "sessions do not end: leaving them");
        sessions.shutdown().await;
    }
}

fn listen(socket: TcpSocket, option: &'static str) -> Result<TcpListener, ServerError> {
    let address = socket.local_addr().map_err(ServerError::Start)?;
    socket.listen(BACKLOG).map_err(|e| listen_error(option, address, e))
}

fn local_address(listener: &TcpListener) -> Result<SocketAddr, ServerError> {
    listener.local_addr().map_err(ServerError::Start)
}

fn bind(option: &'static str, address: SocketAddr) -> Result<TcpSocket, ServerError> {
    let bound = || {
        let socket = match address {
            SocketAddr::V4(_) => TcpSocket::new_v4()?,
            SocketAddr::V6(_) => TcpSocket::new_v6()?,
        };
        // The port of a server that has just ended is free at once.
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        Ok(socket)
    };
    bound().map_err(|e| listen_error(option, address, e))
}

fn listen_error(option: &'static str, address: SocketAddr, source: std::io::Error) -> ServerError {
    if source.kind() != std::io::ErrorKind::AddrInUse {
        return ServerError::Listen { address, source };
    }
    let port = address.port().checked_add(1).unwrap_or(15_432);
    ServerError::AddressTaken { option, address, other: SocketAddr::new(address.ip(), port) }
}
