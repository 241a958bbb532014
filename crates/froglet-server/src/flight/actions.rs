//! Actions: prepared statements, transactions, savepoints, cancel, the end of a session.

use std::sync::Arc;

use arrow_flight::sql::{
    ActionBeginSavepointRequest, ActionBeginSavepointResult, ActionBeginTransactionRequest,
    ActionBeginTransactionResult, ActionCancelQueryRequest, ActionCancelQueryResult,
    ActionClosePreparedStatementRequest, ActionCreatePreparedStatementRequest,
    ActionCreatePreparedStatementResult, ActionEndSavepointRequest, ActionEndTransactionRequest,
    Any, Command, EndTransaction, ProstMessageExt,
};
use arrow_flight::{
    Action, ActionType, CancelFlightInfoRequest, CancelFlightInfoResult, CancelStatus, FlightInfo,
};
use bytes::Bytes;
use froglet_sql::{SqlError, quoted};
use futures::FutureExt;
use hyper::HeaderMap;
use prost::Message;
use tonic::Status;

use super::handles::{BYTES, Handle, PartHandle};
use super::put::command;
use super::results::Held;
use super::sessions::{FlightSession, Guest};
use super::{statements, status};

/// What is done to a savepoint: `ActionEndSavepointRequest.EndSavepoint`.
const RELEASE: i32 = 1;
const ROLLBACK: i32 = 2;

/// Name and explanation of each.
const ACTIONS: [(&str, &str); 9] = [
    ("CreatePreparedStatement", "Prepares a statement."),
    ("ClosePreparedStatement", "Forgets a prepared statement."),
    ("BeginTransaction", "Begins a transaction."),
    ("EndTransaction", "Commits a transaction, or rolls it back."),
    ("BeginSavepoint", "Sets a savepoint in a transaction."),
    ("EndSavepoint", "Releases a savepoint, or rolls back to it."),
    ("CancelQuery", "Cancels a result (the older form of CancelFlightInfo)."),
    ("CancelFlightInfo", "Cancels a result."),
    ("CloseSession", "Ends what this connection has."),
];

/// All that there are.
pub(super) fn all() -> Vec<ActionType> {
    let action = |(name, text): &(&str, &str)| ActionType {
        r#type: (*name).to_owned(),
        description: (*text).to_owned(),
    };
    ACTIONS.iter().map(action).collect()
}

/// Does an action. Most have one result.
pub(super) async fn act(
    guest: &Guest,
    headers: &HeaderMap,
    action: Action,
) -> Result<Option<Bytes>, Status> {
    let session = guest.session(headers)?;
    let body = &action.body;
    let result = match action.r#type.as_str() {
        "CreatePreparedStatement" => prepare(&session, unpack(body)?, headers).await?,
        "ClosePreparedStatement" => {
            let request: ActionClosePreparedStatementRequest = unpack(body)?;
            let handle = Handle::read(&request.prepared_statement_handle)?;
            session.statements.lock().remove(&handle);
            return Ok(None);
        }
        "BeginTransaction" => {
            let _: ActionBeginTransactionRequest = unpack(body)?;
            let transaction_id = session.begin().await?.bytes();
            packed(&ActionBeginTransactionResult { transaction_id })
        }
        "EndTransaction" => {
            let request: ActionEndTransactionRequest = unpack(body)?;
            let commit = match request.action() {
                EndTransaction::Commit => true,
                EndTransaction::Rollback => false,
                EndTransaction::Unspecified => {
                    return Err(status::malformed("neither commit nor rollback"));
                }
            };
            session.end(&request.transaction_id, commit).await?;
            return Ok(None);
        }
        "BeginSavepoint" => begin_savepoint(&session, unpack(body)?).await?,
        "EndSavepoint" => {
            end_savepoint(&session, unpack(body)?).await?;
            return Ok(None);
        }
        "CancelQuery" => {
            let request: ActionCancelQueryRequest = unpack(body)?;
            let info = FlightInfo::decode(request.info)
                .map_err(|e| status::malformed(format_args!("a FlightInfo: {e}")))?;
            cancel(&session, &info)?;
            // The numbers of the two forms are the same.
            packed(&ActionCancelQueryResult { result: CancelStatus::Cancelled as i32 })
        }
        "CancelFlightInfo" => {
            let request = CancelFlightInfoRequest::decode(action.body)
                .map_err(|e| status::malformed(format_args!("a request to cancel: {e}")))?;
            cancel(&session, &request.info.unwrap_or_default())?;
            CancelFlightInfoResult::new(CancelStatus::Cancelled).encode_to_vec().into()
        }
        "CloseSession" => {
            guest.leave(headers)?;
            // CloseSessionResult { status: CLOSED }
            Bytes::from_static(&[0x08, 0x01])
        }
        other => return Err(status::unsupported(format_args!("action {other:?}"))),
    };
    Ok(Some(result))
}

fn unpack<M: ProstMessageExt + Default>(body: &[u8]) -> Result<M, Status> {
    let bad = |e: &dyn std::fmt::Display| status::malformed(format_args!("an action: {e}"));
    let any = Any::decode(body).map_err(|e| bad(&e))?;
    let message = any.unpack().map_err(|e| bad(&e))?;
    message.ok_or_else(|| bad(&format_args!("{} is not {}", any.type_url, M::type_url())))
}

fn packed<M: ProstMessageExt>(message: &M) -> Bytes {
    message.as_any().encode_to_vec().into()
}

async fn prepare(
    session: &Arc<FlightSession>,
    request: ActionCreatePreparedStatementRequest,
    headers: &HeaderMap,
) -> Result<Bytes, Status> {
    let strings = statements::strings(headers)?;
    let (handle, prepared) = session.prepare(request.query, request.transaction_id).await?;
    let (dataset_schema, parameter_schema) = statements::described(&prepared, strings)?;
    Ok(packed(&ActionCreatePreparedStatementResult {
        prepared_statement_handle: handle.bytes(),
        dataset_schema,
        parameter_schema,
    }))
}

/// A savepoint's handle is its transaction's, and its name.
async fn begin_savepoint(
    session: &Arc<FlightSession>,
    request: ActionBeginSavepointRequest,
) -> Result<Bytes, Status> {
    let (handle, transaction) = session.transaction(&request.transaction_id)?;
    let text = format!("SAVEPOINT {}", quoted(&request.name));
    transaction.run(move |session| statement(session, text)).await?;
    let savepoint_id = [&handle.bytes()[..], request.name.as_bytes()].concat().into();
    Ok(packed(&ActionBeginSavepointResult { savepoint_id }))
}

async fn end_savepoint(
    session: &Arc<FlightSession>,
    request: ActionEndSavepointRequest,
) -> Result<(), Status> {
    let id = &request.savepoint_id;
    let (transaction, name) = id
        .split_at_checked(BYTES)
        .and_then(|(transaction, name)| Some((transaction, std::str::from_utf8(name).ok()?)))
        .ok_or_else(|| status::malformed(format_args!("a savepoint of {} bytes", id.len())))?;
    let (_, transaction) = session.transaction(transaction)?;
    let text = match request.action {
        RELEASE => format!("RELEASE SAVEPOINT {}", quoted(name)),
        ROLLBACK => format!("ROLLBACK TO SAVEPOINT {}", quoted(name)),
        _ => return Err(status::malformed("neither release nor rollback")),
    };
    transaction.run(move |session| statement(session, text)).await
}

fn statement(
    session: &mut froglet_sql::Session,
    text: String,
) -> futures::future::BoxFuture<'_, Result<(), SqlError>> {
    async move { session.run_text(&text).await }.boxed()
}

/// Cancels the results that a FlightInfo has tickets of.
fn cancel(session: &Arc<FlightSession>, info: &FlightInfo) -> Result<(), Status> {
    for endpoint in &info.endpoint {
        let Some(ticket) = &endpoint.ticket else { continue };
        if let Command::TicketStatementQuery(ticket) = command(&ticket.ticket)? {
            let handle = PartHandle::read(&ticket.statement_handle)?.result;
            if let Ok(held) = Held::find(session.registry(), handle, &session.caller.user) {
                held.cancel();
            }
        }
    }
    Ok(())
}
