//! From an accepted socket to a session.
//!
//! ```text
//!   accepted ──SSLRequest──▶ 'S', TLS; 'N' where there is no certificate ─┐
//!      ▲──────────────────────────────────────────────────────────────────┘
//!      ├──CancelRequest──▶ the other session's token; closed
//!      └──StartupMessage─▶ a slot? ─▶ authenticated? (login.rs) ─▶ a session ─▶ Connection::serve
//! ```
//! All of it has [`STARTUP_TIMEOUT`] in all.

use std::sync::Arc;
use std::time::Duration;

use froglet_engine::SqlState;
use froglet_sql::database::Ends;
use froglet_sql::{ConnectOptions, Database, Session, SqlError};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::Connection;
use super::channel::{Budget, Channel, End};
use super::login;
use crate::auth::rules::{Peer, Rules};
use crate::tls::Tls;
use crate::wire::startup::{self, SessionStart, Startup};

/// PostgreSQL's `authentication_timeout`.
const STARTUP_TIMEOUT: Duration = Duration::from_secs(60);

/// What every connection needs.
pub(crate) struct Shared {
    pub(crate) db: Arc<Database>,
    /// One permit for each session.
    pub(crate) slots: Arc<Semaphore>,
    /// Memory for long messages.
    pub(crate) budget: Arc<Budget>,
    /// Who may connect, and how they prove it.
    pub(crate) rules: Rules,
    /// The certificate, for clients that ask for TLS.
    pub(crate) tls: Option<Tls>,
    /// The configured one, for clients that send none.
    pub(crate) application_name: String,
}

/// Serves an accepted socket to its end.
pub(crate) async fn serve(stream: std::net::TcpStream, shared: Arc<Shared>) {
    let stream = match TcpStream::from_std(stream) {
        Ok(stream) => stream,
        Err(error) => return tracing::warn!(%error, "a connection could not be served"),
    };
    // Failing to disable Nagle's algorithm costs time, nothing else.
    let _ = stream.set_nodelay(true);
    let Ok(client) = stream.peer_addr() else { return };
    let ends = Ends { client: Some(client), server: stream.local_addr().ok(), is_tls: false };
    let mut channel = Channel::new(stream, shared.budget.clone());
    let started =
        match tokio::time::timeout(STARTUP_TIMEOUT, start(&mut channel, &shared, ends)).await {
            Ok(started) => started,
            Err(_) => Err(End::fatal(
                SqlState::CONNECTION_EXCEPTION,
                "canceling authentication due to timeout",
            )),
        };
    match started {
        Ok((session, _slot)) => Connection::new(channel, session).serve().await,
        Err(End::Closed) => {}
        Err(End::Fatal(error)) => {
            channel.output.error(&error);
            let _ = tokio::time::timeout(STARTUP_TIMEOUT, channel.flush_plain()).await;
        }
    }
}

async fn start(
    channel: &mut Channel,
    shared: &Shared,
    ends: Ends,
) -> Result<(Session, OwnedSemaphorePermit), End> {
    loop {
        let body = channel.receive_startup().await?;
        match startup::decode(&body).map_err(|e| SqlError::from(&e))? {
            Startup::Ssl if shared.tls.is_some() && !channel.is_tls() => {
                channel.output.encryption_accepted();
                channel.flush_plain().await?;
                let tls = shared.tls.as_ref().expect("looked at just now");
                channel.secure(&tls.acceptor).await?;
            }
            Startup::Ssl | Startup::Gss => {
                channel.output.encryption_declined();
                channel.flush_plain().await?;
            }
            Startup::Cancel { process, secret } => {
                shared.db.cancel(process, secret);
                return Err(End::Closed);
            }
            Startup::Session(start) => {
                let ends = Ends { is_tls: channel.is_tls(), ..ends };
                return session(channel, shared, start, ends).await;
            }
        }
    }
}

async fn session(
    channel: &mut Channel,
    shared: &Shared,
    start: SessionStart,
    ends: Ends,
) -> Result<(Session, OwnedSemaphorePermit), End> {
    let Ok(slot) = shared.slots.clone().try_acquire_owned() else {
        return Err(SqlError::new(
            SqlState::TOO_MANY_CONNECTIONS,
            "sorry, too many clients already",
        )
        .hint("Close connections, or start the server with a larger max_connections.")
        .into());
    };
    if start.minor > 0 || !start.protocol_options.is_empty() {
        channel.output.negotiate_protocol_version(start.protocol_options);
    }
    let Some(user) = start.user.filter(|user| !user.is_empty()) else {
        return Err(End::fatal(
            SqlState::INVALID_AUTHORIZATION,
            "no PostgreSQL user name specified in startup packet",
        ));
    };
    let database = start.database.filter(|name| !name.is_empty());
    let mut options = ConnectOptions {
        database: database.unwrap_or_else(|| user.clone()),
        user,
        application_name: shared.application_name.clone(),
        settings: start.settings,
        ends,
    };
    let client = ends.client.expect("a socket has two ends");
    let peer = Peer { address: client.ip(), is_tls: ends.is_tls };
    login::authenticate(channel, shared, peer, &options.database, &options.user).await?;
    options.settings.retain(|(name, value)| {
        let is_name = name == "application_name";
        if is_name {
            options.application_name.clone_from(value);
        }
        !is_name
    });
    let session = shared.db.connect(options)?;
    Ok((session, slot))
}
