//! VACUUM and its kind.
//!
//! ```text
//!   VACUUM ─┬─ of tables in memory ─▶ rows of sparse blocks move together ─▶ blocks are frozen, however lately written
//!           └─ of tables on disk ───▶ old versions go ─▶ files are written again without what was removed
//! ```
//! Nobody waits for it, but who has asked. Of tables on disk it is one pass over all that are asked for: they share their
//! files. ANALYZE, REINDEX, CLUSTER: indexes are kept all the time, so only the names are looked at.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use datafusion::sql::sqlparser::ast::ObjectName;
use froglet_engine::{SpaceId, SqlState, Vacuum};
use froglet_schema::access::PG_CLASS;
use froglet_schema::{Catalog, ObjectId, TableDef};
use futures::future::{Either, select};

use super::{Block, Session};
use crate::context::SessionFunctions;
use crate::error::{Notice, SqlError};
use crate::privileges::{Who, not_owner};
use crate::resolve::{Names, Relation};
use crate::stream::Outcome;

/// See the module.
pub(crate) async fn run(
    session: &mut Session,
    tag: &'static str,
    full: bool,
    tables: &[ObjectName],
) -> Result<Outcome, SqlError> {
    if tag == "VACUUM" && session.block == Block::Explicit {
        return Err(SqlError::new(
            SqlState::ACTIVE_SQL_TRANSACTION,
            "VACUUM cannot run inside a transaction block",
        ));
    }
    let catalog = match &mut session.txn {
        Some(txn) => session.db.catalog().view(txn),
        None => session.db.catalog().latest(),
    };
    let path = session.settings.hot().search_path.clone();
    let names = Names { catalog: &catalog, path: &path };
    let mut found = Vec::with_capacity(tables.len());
    let mut warnings = Vec::new();
    let who = Who::named(&catalog, &session.state.user());
    for name in tables {
        if let Some(warning) = no_table(&names, tag, name)? {
            warnings.push(warning);
            continue;
        }
        let table = names.table(name)?;
        if !who.superuser
            && let Some(warning) = may_maintain(&who, tag, &table.def)?
        {
            warnings.push(warning);
            continue;
        }
        found.push(table.def.id);
    }
    session.notices.extend(warnings);
    if tag == "VACUUM" {
        if tables.is_empty() {
            let all = catalog.tables.keys().copied();
            found.extend(all.filter(|table| who.owns(PG_CLASS, *table)));
        }
        // What is dropped meanwhile is not kept.
        drop(catalog);
        let catalog = session.db.catalog().clone();
        let extent = if full { Vacuum::Everything } else { Vacuum::Worthwhile };
        let (limits, is_stopped) = (session.limits(), Arc::new(AtomicBool::new(false)));
        let stopped = is_stopped.clone();
        let work = tokio::task::spawn_blocking(move || vacuum(&catalog, &found, extent, &stopped));
        match select(work, pin!(limits.exceeded())).await {
            Either::Left((done, _)) => {
                done.map_err(|e| SqlError::new(SqlState::INTERNAL_ERROR, e.to_string()))??;
            }
            Either::Right((why, _)) => {
                // What is being written is written to its end.
                is_stopped.store(true, Ordering::Relaxed);
                return Err(why.into());
            }
        }
    }
    Ok(Outcome::Done(tag.into()))
}

/// Until it is told to stop.
fn vacuum(
    catalog: &Catalog,
    tables: &[ObjectId],
    extent: Vacuum,
    is_stopped: &AtomicBool,
) -> Result<(), SqlError> {
    for table in tables {
        if is_stopped.load(Ordering::Relaxed) {
            return Ok(());
        }
        catalog.compact(*table, false)?;
    }
    // Where they are now: one may have been moved meanwhile.
    let now = catalog.latest();
    let found = tables.iter().filter_map(|table| now.tables.get(table));
    let spaces: Vec<SpaceId> = found.map(|table| table.def.space).collect();
    drop(now);
    if is_stopped.load(Ordering::Relaxed) {
        return Ok(());
    }
    Ok(catalog.engine().vacuum(&spaces, extent)?)
}

/// The warning of who names a view, or the like, where that is passed over.
fn no_table(names: &Names<'_>, tag: &str, name: &ObjectName) -> Result<Option<Notice>, SqlError> {
    let verb = match tag {
        "VACUUM" => "vacuum",
        "ANALYZE" => "analyze",
        _ => return Ok(None),
    };
    match names.relation(name)? {
        None | Some(Relation::Table(_)) => Ok(None),
        Some(_) => Ok(Some(skipping(
            &Names::parts(name)?.1,
            &format!("cannot {verb} non-tables or special system tables"),
        ))),
    }
}

/// 42501, or a warning, if the user may not do this to a table.
fn may_maintain(who: &Who<'_>, tag: &str, table: &TableDef) -> Result<Option<Notice>, SqlError> {
    if who.owns(PG_CLASS, table.id) {
        return Ok(None);
    }
    let verb = match tag {
        "VACUUM" => "vacuum",
        "ANALYZE" => "analyze",
        _ => return Err(not_owner("table", &table.name)),
    };
    Ok(Some(skipping(&table.name, &format!("only table or database owner can {verb} it"))))
}

fn skipping(name: &str, why: &str) -> Notice {
    Notice::new("WARNING", SqlState::WARNING, format!("skipping \"{name}\" --- {why}"))
}
