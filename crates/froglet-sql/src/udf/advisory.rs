//! pg_advisory_lock and its kind.

use std::sync::Arc;

use datafusion::logical_expr::ScalarUDF;
use froglet_txn::{AdvisoryKey, AdvisoryMode};

use super::VOID;
use super::simple::{Out, Simple, int};
use crate::advisory::Lasts;
use crate::context::SessionFunctions;
use crate::error::SqlError;
use crate::types::cell::Cell;
use crate::types::oids::*;
use froglet_engine::SqlState;

/// The functions.
pub fn functions() -> Vec<Arc<ScalarUDF>> {
    use AdvisoryMode::{Exclusive, Shared};
    use Lasts::{Session, Transaction};
    macro_rules! lock {
        ($name:literal, $try_name:literal, $mode:expr, $lasts:expr) => {
            [
                Simple::new($name, KEYS, VOID, |s, cells| {
                    s.lock_advisory(key(cells)?, $mode, $lasts, true).map(|_| nothing())
                }),
                Simple::new($try_name, KEYS, BOOL, |s, cells| {
                    s.lock_advisory(key(cells)?, $mode, $lasts, false).map(Out::Bool)
                }),
            ]
        };
    }
    let locks = [
        lock!("pg_advisory_lock", "pg_try_advisory_lock", Exclusive, Session),
        lock!("pg_advisory_lock_shared", "pg_try_advisory_lock_shared", Shared, Session),
        lock!("pg_advisory_xact_lock", "pg_try_advisory_xact_lock", Exclusive, Transaction),
        lock!(
            "pg_advisory_xact_lock_shared",
            "pg_try_advisory_xact_lock_shared",
            Shared,
            Transaction
        ),
    ];
    let unlocks = [
        Simple::new("pg_advisory_unlock", KEYS, BOOL, |s, c| {
            unlock(s, c, Exclusive, "ExclusiveLock")
        }),
        Simple::new("pg_advisory_unlock_shared", KEYS, BOOL, |s, c| {
            unlock(s, c, Shared, "ShareLock")
        }),
    ];
    let all = Simple::new("pg_advisory_unlock_all", &[], VOID, |s, _| {
        s.unlock_all_advisory();
        Ok(nothing())
    });
    let with_keys = locks.into_iter().flatten().chain(unlocks);
    let built =
        with_keys.map(|function| function.optional(1).together(&[INT4, INT4]).changing().build());
    built.chain([all.changing().build()]).collect()
}

/// One bigint or two integers.
const KEYS: &[u32] = &[INT8, INT8];

/// What a function answers that answers nothing.
fn nothing() -> Out {
    Out::Text(String::new())
}

fn key(cells: &[Cell<'_>]) -> Result<AdvisoryKey, SqlError> {
    let part = |at| {
        let value = int(cells, at).unwrap_or(0);
        i32::try_from(value).map_err(|_| {
            let message = format!("advisory locks have one bigint or two integers, not {value}");
            SqlError::new(SqlState::UNDEFINED_FUNCTION, message)
        })
    };
    Ok(match cells.len() {
        1 => AdvisoryKey::One(int(cells, 0).unwrap_or(0)),
        _ => AdvisoryKey::Two(part(0)?, part(1)?),
    })
}

fn unlock(
    session: &dyn SessionFunctions,
    cells: &[Cell<'_>],
    mode: AdvisoryMode,
    name: &str,
) -> Result<Out, SqlError> {
    let was_held = session.unlock_advisory(key(cells)?, mode);
    if !was_held {
        session.warn(format!("you don't own a lock of type {name}"));
    }
    Ok(Out::Bool(was_held))
}
