//! Multi-step: the application migrates by itself (BullFrog, section 4.4's peer).
//!
//! ```text
//!   clients   old ──┬── read old, write both ──────────────┬── new
//!   filler          └ empty tables ─ part ─ part ─ … ─ part ┴ DROP of the old
//! ```
//!
//! When clients begin to write to both, none may still write to the old tables alone, because the
//! filler may have been past its rows: for that moment they wait at the gate. A part locks what it
//! copies, so a writer is before it, and copied, or after it, and finds the copy.

use std::collections::HashMap;
use std::time::Instant;

use anyhow::{Context, Result};
use tokio_postgres::{Client, SimpleQueryMessage};

use super::super::clients::Clients;
use super::super::cutover::Cutover;
use super::super::statements::Place;
use super::change::{Change, Range};
use crate::tpcc::db::{DISTRICTS, Scale};

/// Customers, orders or items of a part.
const PART: i32 = 250;

/// Migrates, up to the moment before the old tables are dropped. Returns the rows that were copied,
/// and the parts that a deadlock with a client made it begin again.
pub async fn fill(
    change: &Change,
    scale: Scale,
    ddl: &Client,
    clients: &Clients,
    cutover: &Cutover,
) -> Result<(u64, u64)> {
    let orders = {
        let _alone = clients.gate().write().await;
        ddl.batch_execute("BEGIN").await?;
        for sql in change.empty() {
            ddl.batch_execute(&sql).await.context(sql)?;
        }
        ddl.batch_execute("COMMIT").await?;
        cutover.tell(change.version(Place::Both));
        last_orders(ddl).await?
    };
    let (mut rows, mut again) = (0, 0);
    for w in 1..=scale.warehouses {
        let districts = if change.fill.range == Range::Items { 1 } else { DISTRICTS };
        for d in 1..=districts {
            let last = match change.fill.range {
                Range::Customers => scale.customers,
                Range::Items => scale.items,
                Range::Orders => orders.get(&(w, d)).copied().unwrap_or(0),
            };
            for from in (1..=last).step_by(PART as usize) {
                let to = last.min(from + PART - 1);
                loop {
                    match part(change, ddl, [w, d, from, to]).await {
                        Ok(copied) => break rows += copied,
                        Err(e) if is_deadlock(&e) => again += 1,
                        Err(e) => return Err(e),
                    }
                    ddl.batch_execute("ROLLBACK").await?;
                }
            }
        }
    }
    Ok((rows, again))
}

/// The last order of each district: those after it are written to both tables.
async fn last_orders(ddl: &Client) -> Result<HashMap<(i32, i32), i32>> {
    let sql = "SELECT d_w_id, d_id, d_next_o_id - 1 FROM district";
    let rows = ddl.query(sql, &[]).await.context(sql)?;
    Ok(rows.into_iter().map(|row| ((row.get(0), row.get(1)), row.get(2))).collect())
}

async fn part(change: &Change, ddl: &Client, [w, d, from, to]: [i32; 4]) -> Result<u64> {
    let begun = Instant::now();
    ddl.batch_execute("BEGIN").await?;
    let mut rows = 0;
    for sql in change.fill.statements {
        let sql = sql
            .replace("{w}", &w.to_string())
            .replace("{d}", &d.to_string())
            .replace("{from}", &from.to_string())
            .replace("{to}", &to.to_string());
        let answers = ddl.simple_query(&sql).await.with_context(|| sql.clone())?;
        if sql.starts_with("INSERT")
            && let Some(SimpleQueryMessage::CommandComplete(count)) = answers.last()
        {
            rows += count;
        }
    }
    ddl.batch_execute("COMMIT").await?;
    // As long again is left to the clients: the filler has half of one core at most.
    tokio::time::sleep(begun.elapsed()).await;
    Ok(rows)
}

fn is_deadlock(error: &anyhow::Error) -> bool {
    let code = error.downcast_ref::<tokio_postgres::Error>().and_then(tokio_postgres::Error::code);
    code.is_some_and(|code| ["40P01", "40001"].contains(&code.code()))
}
