//! Functions of the session: who, where, when, settings, sequences, waiting.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use datafusion::logical_expr::ScalarUDF;
use froglet_engine::SqlState;
use froglet_schema::Control;
use std::sync::Arc;

use super::lookup;
use super::simple::{ANY, Out, Simple, int, text, truth};
use crate::context::SessionFunctions;
use crate::error::SqlError;
use crate::resolve::is_system_schema;
use crate::temporary::is_temporary;
use crate::types::cell::Cell;
use crate::types::datetime::{DAY_US, now_us};
use crate::types::oids::*;

/// As version() prints it: the PostgreSQL whose dialect is spoken, then who speaks it.
pub const VERSION: &str = concat!("PostgreSQL 15.0 (Froglet ", env!("CARGO_PKG_VERSION"), ")");

/// The functions.
pub fn functions() -> Vec<Arc<ScalarUDF>> {
    let mut all = identity();
    all.extend(clocks());
    all.extend(settings());
    all.extend(sequences());
    all.extend(control());
    all
}

fn identity() -> Vec<Arc<ScalarUDF>> {
    vec![
        Simple::new("version", &[], TEXT, |_, _| Ok(Out::Text(VERSION.to_owned()))).build(),
        Simple::new("current_database", &[], NAME, |s, _| Ok(Out::Text(s.database())))
            .alias(&["current_catalog"])
            .volatile()
            .build(),
        Simple::new("current_schema", &[], NAME, |s, _| {
            let catalog = s.catalog();
            let there = |name: &String| !is_temporary(name) && catalog.schema(name).is_some();
            Ok(s.search_path().into_iter().find(there).into())
        })
        .volatile()
        .build(),
        Simple::new("current_schemas", &[BOOL], NAME_ARRAY, |s, cells| {
            let catalog = s.catalog();
            let mut path = s.search_path();
            path.retain(|name| is_system_schema(name) || catalog.schema(name).is_some());
            if truth(cells, 0) == Some(true) {
                if !path.iter().any(|p| p == "pg_catalog") {
                    let at = usize::from(path.first().is_some_and(|name| is_temporary(name)));
                    path.insert(at, "pg_catalog".to_owned());
                }
            } else {
                path.retain(|name| !is_temporary(name));
            }
            Ok(Out::Texts(path))
        })
        .volatile()
        .build(),
        Simple::new("current_user", &[], NAME, |s, _| Ok(Out::Text(s.user())))
            .alias(&["user", "current_role"])
            .volatile()
            .build(),
        Simple::new("session_user", &[], NAME, |s, _| Ok(Out::Text(s.session_user())))
            .volatile()
            .build(),
        Simple::new("inet_server_port", &[], INT4, |s, _| Ok(port(s.ends().server))).build(),
        Simple::new("inet_client_port", &[], INT4, |s, _| Ok(port(s.ends().client))).build(),
        Simple::new("inet_server_addr", &[], TEXT, |s, _| Ok(address(s.ends().server))).build(),
        Simple::new("inet_client_addr", &[], TEXT, |s, _| Ok(address(s.ends().client))).build(),
        Simple::new("pg_backend_pid", &[], INT4, |s, _| Ok(Out::Int(s.backend_pid().into())))
            .volatile()
            .build(),
        Simple::new("txid_current", &[], INT8, |s, _| {
            Ok(Out::Int(s.transaction_id().try_into().unwrap_or(i64::MAX)))
        })
        .alias(&["pg_current_xact_id", "txid_current_if_assigned"])
        .volatile()
        .build(),
        Simple::new("gen_random_uuid", &[], UUID, |_, _| {
            Ok(Out::Uuid(uuid::Uuid::new_v4().into_bytes()))
        })
        .volatile()
        .build(),
        Simple::new("pg_postmaster_start_time", &[], TIMESTAMPTZ, |s, _| {
            Ok(Out::Time(s.server_start_us()))
        })
        .alias(&["pg_conf_load_time"])
        .volatile()
        .build(),
    ]
}

fn port(end: Option<SocketAddr>) -> Out {
    end.map_or(Out::Null, |end| Out::Int(end.port().into()))
}

fn address(end: Option<SocketAddr>) -> Out {
    end.map(|end| end.ip().to_canonical().to_string()).into()
}

fn clocks() -> Vec<Arc<ScalarUDF>> {
    vec![
        Simple::new("now", &[], TIMESTAMPTZ, |s, _| Ok(Out::Time(s.transaction_time_us())))
            .alias(&["current_timestamp", "transaction_timestamp"])
            .volatile()
            .build(),
        Simple::new("statement_timestamp", &[], TIMESTAMPTZ, |s, _| {
            Ok(Out::Time(s.statement_time_us()))
        })
        .volatile()
        .build(),
        Simple::new("clock_timestamp", &[], TIMESTAMPTZ, |_, _| Ok(Out::Time(now_us())))
            .volatile()
            .build(),
        Simple::new("localtimestamp", &[], TIMESTAMP, |s, _| {
            Ok(Out::Time(s.zone().to_local(s.transaction_time_us())))
        })
        .volatile()
        .build(),
        Simple::new("current_date", &[], DATE, |s, _| {
            let local = s.zone().to_local(s.transaction_time_us());
            Ok(Out::Time(local.div_euclid(DAY_US)))
        })
        .alias(&["today"])
        .volatile()
        .build(),
        // There is no time with time zone.
        Simple::new("localtime", &[], TIME, |s, _| {
            let local = s.zone().to_local(s.transaction_time_us());
            Ok(Out::Time(local.rem_euclid(DAY_US)))
        })
        .alias(&["current_time"])
        .volatile()
        .build(),
    ]
}

fn settings() -> Vec<Arc<ScalarUDF>> {
    vec![
        Simple::new("current_setting", &[TEXT, BOOL], TEXT, |s, cells| {
            let name = text(cells, 0);
            match s.setting(name) {
                Some(value) => Ok(Out::Text(value)),
                None if truth(cells, 1) == Some(true) => Ok(Out::Null),
                None => Err(SqlError::new(
                    SqlState::UNDEFINED_OBJECT,
                    format!("unrecognized configuration parameter \"{name}\""),
                )),
            }
        })
        .optional(1)
        .volatile()
        .build(),
        Simple::new("set_config", &[TEXT, TEXT, BOOL], TEXT, |s, cells| {
            let local = truth(cells, 2) == Some(true);
            s.set_setting(text(cells, 0), text(cells, 1), local).map(Out::Text)
        })
        .not_strict()
        .changing()
        .build(),
    ]
}

/// The sequence an argument names or is.
fn sequence(session: &dyn SessionFunctions, cell: &Cell<'_>) -> Result<u32, SqlError> {
    let oid = match cell {
        Cell::Text(name) => lookup::relation_oid(session, name)?,
        Cell::Oid(oid) => *oid,
        Cell::Int32(oid) => u32::try_from(*oid).unwrap_or(0),
        Cell::Int64(oid) => u32::try_from(*oid).unwrap_or(0),
        _ => 0,
    };
    if session.catalog().sequences.contains_key(&oid) {
        return Ok(oid);
    }
    Err(SqlError::new(
        SqlState::WRONG_OBJECT_TYPE,
        format!("\"{}\" is not a sequence", lookup::relation_text(session, oid)),
    ))
}

fn sequences() -> Vec<Arc<ScalarUDF>> {
    vec![
        Simple::new("nextval", &[ANY], INT8, |s, cells| {
            s.next_value(sequence(s, &cells[0])?).map(Out::Int)
        })
        .changing()
        .build(),
        Simple::new("currval", &[ANY], INT8, |s, cells| {
            s.current_value(sequence(s, &cells[0])?).map(Out::Int)
        })
        .volatile()
        .build(),
        Simple::new("lastval", &[], INT8, |s, _| s.last_value().map(Out::Int)).volatile().build(),
        Simple::new("setval", &[ANY, INT8, BOOL], INT8, |s, cells| {
            let value = int(cells, 1).unwrap_or(0);
            s.set_value(sequence(s, &cells[0])?, value, truth(cells, 2) != Some(false))?;
            Ok(Out::Int(value))
        })
        .optional(1)
        .changing()
        .build(),
        Simple::new("pg_sequence_last_value", &[ANY], INT8, |s, cells| {
            let state = s.sequence_state(sequence(s, &cells[0])?);
            Ok(state.filter(|(_, called)| *called).map_or(Out::Null, |(v, _)| Out::Int(v)))
        })
        .volatile()
        .build(),
    ]
}

/// How long a sleeping function goes without asking whether it should stop.
const NAP: Duration = Duration::from_millis(10);

fn sleep(session: &dyn SessionFunctions, seconds: f64) -> Result<(), SqlError> {
    let wanted = Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX);
    let started = Instant::now();
    // The other tasks of this thread go on elsewhere meanwhile.
    let nap = || loop {
        session.check_limits()?;
        let left = wanted.saturating_sub(started.elapsed());
        if left.is_zero() {
            return Ok(());
        }
        std::thread::sleep(left.min(NAP));
    };
    let threaded = tokio::runtime::Handle::try_current()
        .is_ok_and(|handle| handle.runtime_flavor() == tokio::runtime::RuntimeFlavor::MultiThread);
    if threaded { tokio::task::block_in_place(nap) } else { nap() }
}

fn control() -> Vec<Arc<ScalarUDF>> {
    vec![
        Simple::new("pg_sleep", &[FLOAT8], VOID, |s, cells| {
            let seconds = match &cells[0] {
                Cell::Float64(v) => *v,
                _ => 0.0,
            };
            sleep(s, seconds).map(|()| Out::Text(String::new()))
        })
        .volatile()
        .build(),
        Simple::new("pg_cancel_backend", &[INT4], BOOL, |s, cells| {
            let pid = int(cells, 0).and_then(|p| i32::try_from(p).ok()).unwrap_or(0);
            s.signal_backend(pid, false).map(Out::Bool)
        })
        .changing()
        .build(),
        Simple::new("pg_terminate_backend", &[INT4], BOOL, |s, cells| {
            let pid = int(cells, 0).and_then(|p| i32::try_from(p).ok()).unwrap_or(0);
            s.signal_backend(pid, true).map(Out::Bool)
        })
        .changing()
        .build(),
        Simple::new("froglet_cancel_migration", &[INT8], BOOL, |s, cells| {
            Ok(Out::Bool(s.control_migration(number(cells, 0), Control::Cancel)?))
        })
        .alias(&["froglet.cancel_migration"])
        .changing()
        .build(),
        Simple::new("froglet_revert_migration", &[INT8, BOOL], INT8, |_, _| {
            Err(crate::revert::run::misplaced())
        })
        .optional(1)
        .alias(&["froglet.revert_migration"])
        .changing()
        .build(),
        Simple::new("froglet_pause_migration", &[INT8], BOOL, |s, cells| {
            Ok(Out::Bool(s.control_migration(number(cells, 0), Control::Pause)?))
        })
        .alias(&["froglet.pause_migration"])
        .changing()
        .build(),
        Simple::new("froglet_resume_migration", &[INT8], BOOL, |s, cells| {
            Ok(Out::Bool(s.control_migration(number(cells, 0), Control::Resume)?))
        })
        .alias(&["froglet.resume_migration"])
        .changing()
        .build(),
        Simple::new("froglet_throttle_migration", &[INT8, INT8], BOOL, |s, cells| {
            let throttle = Control::Throttle(number(cells, 1));
            Ok(Out::Bool(s.control_migration(number(cells, 0), throttle)?))
        })
        .alias(&["froglet.throttle_migration"])
        .changing()
        .build(),
    ]
}

/// A number that is not negative; 0 for all others.
fn number(cells: &[Cell], at: usize) -> u64 {
    int(cells, at).and_then(|n| u64::try_from(n).ok()).unwrap_or(0)
}
