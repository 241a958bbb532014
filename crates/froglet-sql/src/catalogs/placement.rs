//! froglet.placement: which tables could be on disk and what that would free, and which might be worth memory.
//!
//! ```text
//!   in memory, least work for a byte first ─▶ "disk"   as long as all of these have little of the work together
//!   on disk, most work for a byte first ────▶ "memory" where one has much of the work, and as long as there is room
//! ```
//! Work is what was read and written lately (`froglet_schema::Accesses`). Nothing is moved without being told: a proposal is a
//! statement to run. There is none while hardly anything was seen: shortly after a start, or of a table that is new.
//! Temporary tables, and those that are being moved or made, are shown without one.

use std::collections::HashSet;
use std::time::{Duration, UNIX_EPOCH};

use froglet_engine::Home;
use froglet_schema::{CatalogVersion, ObjectId, Recent, TableVersion};

use crate::pgcatalog::relations::tables;
use crate::pgcatalog::{Rows, V};
use crate::provider::QueryScope;
use crate::settings::parse_time_ms;
use crate::system_row as row;
use crate::temporary::is_temporary;
use crate::udf::lookup::quote_ident;

/// The setting of how long something is to have been observed.
const AFTER: &str = "froglet.placement_after";
/// What is smaller is not worth a move.
const MOVED_BYTES_MIN: u64 = 1 << 20;
/// All tables that could be on disk have no more of the work together.
const COLD_SHARE: f64 = 0.05;
/// A table that might be worth memory has at least so much of it.
const HOT_SHARE: f64 = 0.2;
/// Less work than this was seen: nothing follows from it.
const WORK_MIN: f64 = 1_000.0;
/// Of the memory's limit, so much may be used after what is proposed.
const FILLED: (u64, u64) = (3, 4);
/// What an entry of an index takes in memory, about.
const ENTRY_BYTES: u64 = 24;

/// A table, as far as its place is concerned.
#[derive(Clone, Copy, Debug)]
struct Placed {
    home: Home,
    /// What it takes in memory, or would take there.
    memory_bytes: u64,
    work: f64,
    /// It may be proposed.
    is_open: bool,
}

/// For each table, where it could be instead.
fn propose(placed: &[Placed], room_bytes: u64) -> Vec<Option<Home>> {
    let mut proposals = vec![None; placed.len()];
    let all: f64 = placed.iter().map(|table| table.work).sum();
    if all < WORK_MIN {
        return proposals;
    }
    let density = |at: usize| placed[at].work / placed[at].memory_bytes.max(1) as f64;
    let of = |home: Home| {
        let is_of = move |table: &Placed| {
            table.home == home && table.is_open && table.memory_bytes >= MOVED_BYTES_MIN
        };
        let mut found: Vec<usize> = (0..placed.len()).filter(|at| is_of(&placed[*at])).collect();
        found.sort_by(|a, b| density(*a).total_cmp(&density(*b)));
        found
    };
    let mut share = 0.0;
    for at in of(Home::Memory) {
        share += placed[at].work / all;
        if share > COLD_SHARE {
            break;
        }
        proposals[at] = Some(Home::Disk);
    }
    let mut room_bytes = room_bytes;
    for at in of(Home::Disk).into_iter().rev() {
        let table = placed[at];
        if table.work / all >= HOT_SHARE && table.memory_bytes <= room_bytes {
            room_bytes -= table.memory_bytes;
            proposals[at] = Some(Home::Memory);
        }
    }
    proposals
}

pub(crate) fn placement(scope: &QueryScope, rows: &mut Rows) {
    let found = tables(&scope.catalog);
    let after = scope.session.setting(AFTER).and_then(|after| parse_time_ms(&after));
    let after = Duration::from_millis(after.unwrap_or(0));
    let recent: Vec<Recent> = found.iter().map(|table| table.accesses().recent()).collect();
    let under_way = under_way(scope);
    let placed: Vec<Placed> = found
        .iter()
        .zip(&recent)
        .map(|(table, recent)| Placed {
            home: table.def.space.home(),
            memory_bytes: memory_bytes(scope, table),
            work: recent.work,
            is_open: recent.observed >= after
                && !is_temporary(&table.def.schema)
                && !table.def.is_being_made()
                && !under_way.contains(&table.def.id),
        })
        .collect();
    let (used, limit) = scope.session.memory();
    let room_bytes = (limit / FILLED.1 * FILLED.0).saturating_sub(used);
    let proposals = propose(&placed, room_bytes);
    let work: f64 = recent.iter().map(|recent| recent.work).sum();
    for (((table, recent), placed), proposal) in
        found.iter().zip(&recent).zip(&placed).zip(proposals)
    {
        let in_memory = placed.home == Home::Memory;
        let bytes = i64::try_from(placed.memory_bytes).unwrap_or(i64::MAX);
        let last_us = recent.last.and_then(|last| last.duration_since(UNIX_EPOCH).ok());
        row!(rows;
            schema_name: &table.def.schema,
            table_name: &table.def.name,
            method: placed.home.name(),
            rows: table.table.row_estimate(),
            row_bytes: table.table.bytes_estimate(),
            memory_bytes: in_memory.then_some(placed.memory_bytes),
            recent_reads: recent.reads.round() as u64,
            recent_writes: recent.writes.round() as u64,
            share: if work > 0.0 { recent.work / work } else { 0.0 },
            last_access: last_us.map_or(V::Null, |last| V::Time(last.as_micros() as i64)),
            proposal: proposal.map(Home::name),
            would_free_bytes: proposal.map(|_| if in_memory { bytes } else { -bytes }),
            statement: proposal.map(|home| statement(&scope.catalog, table, home)),
        );
    }
}

/// The tables that are being changed.
fn under_way(scope: &QueryScope) -> HashSet<ObjectId> {
    let migrations = scope.session.migrations();
    let running = migrations.iter().filter(|migration| migration.ended_us.is_none());
    running.map(|migration| migration.table).collect()
}

/// What a table takes in memory with its indexes; of one on disk, what it would take, about.
fn memory_bytes(scope: &QueryScope, table: &TableVersion) -> u64 {
    match table.def.space.home() {
        Home::Cluster => 0,
        Home::Memory => {
            let counts = scope.session.block_counts(table.def.space);
            counts.bytes + counts.index_bytes
        }
        Home::Disk => {
            let entries = table.table.row_estimate() * table.def.indexes.len() as u64;
            table.table.bytes_estimate() + entries * ENTRY_BYTES
        }
    }
}

fn statement(catalog: &CatalogVersion, table: &TableVersion, home: Home) -> String {
    let kind = match catalog.materialized(table.def.id) {
        Some(_) => "MATERIALIZED VIEW",
        None => "TABLE",
    };
    let (schema, name) = (quote_ident(&table.def.schema), quote_ident(&table.def.name));
    format!("ALTER {kind} {schema}.{name} SET ACCESS METHOD {}", home.name())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: u64 = 1 << 20;

    fn table(home: Home, megabytes: u64, work: f64) -> Placed {
        Placed { home, memory_bytes: megabytes * MB, work, is_open: true }
    }

    #[test]
    fn what_is_hardly_used_could_be_on_disk() {
        let mut placed = vec![
            table(Home::Memory, 100, 1_000_000.0),
            table(Home::Memory, 1_000, 40_000.0),
            table(Home::Memory, 10, 0.0),
            table(Home::Memory, 0, 0.0),
            // Less for a byte than the first, but with the second too much.
            table(Home::Memory, 500, 30_000.0),
        ];
        let disk = Some(Home::Disk);
        assert_eq!(propose(&placed, 0), [None, disk, disk, None, None]);
        placed[1].is_open = false;
        assert_eq!(propose(&placed, 0), [None, None, disk, None, disk]);
    }

    #[test]
    fn what_is_used_much_might_be_worth_memory_if_there_is_room() {
        let placed = vec![
            table(Home::Memory, 100, 10_000.0),
            table(Home::Disk, 200, 9_000.0),
            table(Home::Disk, 100, 9_000.0),
            table(Home::Disk, 10, 500.0),
        ];
        let memory = Some(Home::Memory);
        assert_eq!(propose(&placed, 400 * MB), [None, memory, memory, None]);
        assert_eq!(propose(&placed, 250 * MB), [None, None, memory, None]);
        assert_eq!(propose(&placed, 50 * MB), [None; 4]);
    }

    #[test]
    fn nothing_follows_from_hardly_anything() {
        let placed = vec![table(Home::Memory, 100, 900.0), table(Home::Memory, 100, 0.0)];
        assert_eq!(propose(&placed, u64::MAX), [None, None]);
        assert_eq!(propose(&[], 0), []);
    }
}
