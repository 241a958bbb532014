//! From a startup message to a user who has proved to be one.
//!
//! ```text
//!   rule? ─┬─ trust ──────────────────────────────────────────────────────────▶ go on
//!          ├─ scram ─▶ AuthenticationSASL ◀─ 'p' mechanism, first message
//!          │                    Continue ─▶ ◀─ 'p' final message ─▶ Final ───▶ go on
//!          └─ reject, none ─▶ 28000                              └─▶ 28P01
//! ```
//! Until then a client may send nothing but messages of type `p`, of at most [`crate::wire::frame::SHORT_LIMIT_BYTES`].

use froglet_engine::SqlState;
use froglet_sql::roles::login::Login;
use froglet_sql::{Database, SqlError};

use super::channel::{Channel, End};
use super::startup::Shared;
use crate::auth::rules::{Method, Peer, Rules};
use crate::auth::scram::{Exchange, PLAIN, PLUS, Refusal};

/// Lets a user in, or tells why not.
pub(super) async fn authenticate(
    channel: &mut Channel,
    shared: &Shared,
    peer: Peer,
    database: &str,
    user: &str,
) -> Result<(), End> {
    let method = allowed(&shared.db, &shared.rules, peer, database, user)?;
    if method == Method::Trust {
        return Ok(());
    }
    let login = shared.db.login(user);
    let tls = shared.tls.as_ref().filter(|_| peer.is_tls);
    let end_point = tls.and_then(|tls| tls.end_point.clone());
    let mechanisms = if end_point.is_some() { &[PLUS, PLAIN][..] } else { &[PLAIN] };
    channel.output.sasl(mechanisms);
    channel.flush_plain().await?;
    let initial = channel.receive_password().await?;
    let (mechanism, first) = split_initial(&initial)?;
    let exchange = Exchange::begin(mechanism, first, &login.verifier, end_point.as_deref());
    let exchange = exchange.map_err(refused)?;
    channel.output.sasl_step(11, &exchange.server_first);
    channel.flush_plain().await?;
    let last = channel.receive_password().await?;
    let answer = exchange.finish(&last, &login.verifier).map_err(refused)?;
    match answer.filter(|_| login.is_real) {
        Some(answer) => {
            channel.output.sasl_step(12, &answer);
            Ok(())
        }
        None => {
            tracing::warn!(?user, address = %peer.address, "a password was wrong");
            Err(Login::failure(user).into())
        }
    }
}

/// How a client of a database has to prove that it is a user, by the rules.
pub(crate) fn allowed(
    db: &Database,
    rules: &Rules,
    peer: Peer,
    database: &str,
    user: &str,
) -> Result<Method, SqlError> {
    let is_member = |user: &str, role: &str| db.is_member(user, role);
    let rule = rules.find(peer, database, user, is_member);
    let method = rule.map(|rule| rule.method);
    if let Some(method @ (Method::Trust | Method::Scram)) = method {
        return Ok(method);
    }
    let why = match method {
        None => "no rule of authentication for",
        Some(_) => "a rule of authentication rejects",
    };
    let encryption = if peer.is_tls { "TLS encryption" } else { "no encryption" };
    let place = rule.map_or("authentication", |rule| &rule.place);
    tracing::warn!(?user, ?database, address = %peer.address, place, "a client may not connect");
    let message = format!(
        "{why} host \"{}\", user \"{user}\", database \"{database}\", {encryption}",
        peer.address
    );
    Err(SqlError { fatal: true, ..SqlError::new(SqlState::INVALID_AUTHORIZATION, message) })
}

/// Mechanism and first message of a SASLInitialResponse.
fn split_initial(body: &[u8]) -> Result<(&str, &[u8]), End> {
    let malformed = || refused(Refusal::Malformed("no mechanism or no first message"));
    let end = body.iter().position(|&b| b == 0).ok_or_else(malformed)?;
    let mechanism = std::str::from_utf8(&body[..end]).map_err(|_| malformed())?;
    let (length, first) = body[end + 1..].split_first_chunk().ok_or_else(malformed)?;
    if usize::try_from(i32::from_be_bytes(*length)) != Ok(first.len()) {
        return Err(malformed());
    }
    if ![PLAIN, PLUS].contains(&mechanism) {
        let message = "client selected an invalid SASL authentication mechanism";
        return Err(End::fatal(SqlState::PROTOCOL_VIOLATION, message));
    }
    Ok((mechanism, first))
}

fn refused(refusal: Refusal) -> End {
    match refusal {
        Refusal::Malformed(what) => {
            let error = SqlError::new(SqlState::PROTOCOL_VIOLATION, "malformed SCRAM message");
            End::from(error.detail(what))
        }
        Refusal::Binding(what) => End::fatal(SqlState::INVALID_AUTHORIZATION, what),
    }
}
