//! The writing operations of a history: each answer is what the model says it must be.

use std::sync::Arc;

use froglet_engine::{Row, RowWrite, Snapshot, Ts, TxnId, Value, WriteStop};

use crate::check::{Outcome, ascending, ensure};
use crate::history::Codes;
use crate::model::{Event, Stop, Write};
use crate::replay::{Run, engine_error};
use crate::tables::{TABLES, row_of, value};

/// Rows of a straddling table's first block that are left free for the history.
const LEFT_IN_BLOCK: usize = 3;
/// Rows that stay of those that fill the block.
const KEPT_IN_BLOCK: usize = 5;

impl Run<'_> {
    pub fn insert(&mut self, txn: u8, table: u8, wide: bool, rows: u8, codes: Codes) -> Outcome {
        let at = self.pick(txn);
        let (place, table) = self.table(table, wide);
        let spec = &self.model.specs[place];
        let nth = |n: u8| codes.map(|code| code.wrapping_add(n.wrapping_mul(5)));
        let whole: Vec<Row> = (0..rows).map(|n| row_of(spec, wide, &nth(n))).collect();
        let width = table.layout().columns.len();
        let given: Vec<Row> = whole.iter().map(|row| row[..width].to_vec()).collect();
        let id = self.txns[at].txn.id();
        let mut rids = Vec::new();
        let outcome = table.insert(&mut *self.txns[at].txn, &given, &mut rids);
        for (n, row) in whole.into_iter().enumerate() {
            let stops = self.model.rivals(id, place, &row, None);
            let stop = match &outcome {
                Err((stopped, stop)) if *stopped == n => Some(Stop::of(stop)?),
                _ => None,
            };
            agrees(stop, &stops).map_err(|what| format!("row {n}, {row:?}: {what}"))?;
            if stop.is_some() {
                ensure!(rids.len() == n, "{} row ids for {n} rows", rids.len());
                return Ok(());
            }
            ensure!(rids.len() > n, "{} row ids, and row {n} is in", rids.len());
            self.reader(place, &*table).is_free(rids[n], &self.all_views())?;
            let kept = self.kept_views(place)?;
            let kept: Vec<&Snapshot> = kept.iter().map(|view| &**view).collect();
            self.reader(place, &*table).is_free(rids[n], &kept)?;
            self.model.write(id, (place, rids[n]), Write::Insert(row));
        }
        Ok(())
    }

    pub fn update(
        &mut self,
        txn: u8,
        table: u8,
        wide: bool,
        row: u8,
        columns: u8,
        codes: Codes,
    ) -> Outcome {
        let at = self.pick(txn);
        let (place, table) = self.table(table, wide);
        let Some(rid) = self.pick_row(place, row) else { return Ok(()) };
        let specs = &table.layout().columns;
        let chosen: Vec<usize> = (0..specs.len()).filter(|at| columns & (1 << at) != 0).collect();
        let values: Vec<Value> = chosen.iter().map(|&at| value(specs[at].ty, codes[at])).collect();
        let (id, base) = (self.txns[at].txn.id(), self.txns[at].txn.snapshot().ts);
        let (mut stops, mut new) = (Vec::new(), Row::new());
        match self.model.claim(id, base, (place, rid)) {
            Err(stop) => stops.push(stop),
            Ok(old) => {
                new = old.clone();
                chosen.iter().zip(&values).for_each(|(&at, value)| new[at] = value.clone());
                stops = self.model.rivals(id, place, &new, Some((place, rid)));
            }
        }
        let write = RowWrite::Update { rid, columns: &chosen, values: &values };
        let outcome = table.write(&mut *self.txns[at].txn, base, &[write]);
        if stopped(outcome, &stops).map_err(|what| format!("row {rid}: {what}"))? {
            return Ok(());
        }
        self.model.write(id, (place, rid), Write::Update(chosen, new));
        Ok(())
    }

    /// Deletes or locks.
    pub fn mark_row(&mut self, txn: u8, table: u8, row: u8, lock: bool) -> Outcome {
        let at = self.pick(txn);
        let (place, table) = self.table(table, row.is_multiple_of(2));
        let Some(rid) = self.pick_row(place, row) else { return Ok(()) };
        let (id, base) = (self.txns[at].txn.id(), self.txns[at].txn.snapshot().ts);
        let stops: Vec<Stop> = self.model.claim(id, base, (place, rid)).err().into_iter().collect();
        let write = if lock { RowWrite::Lock { rid } } else { RowWrite::Delete { rid } };
        let outcome = table.write(&mut *self.txns[at].txn, base, &[write]);
        if !stopped(outcome, &stops).map_err(|what| format!("row {rid}: {what}"))? {
            let write = if lock { Write::Lock } else { Write::Delete };
            self.model.write(id, (place, rid), write);
        }
        Ok(())
    }

    pub fn keep(&mut self, txn: u8, tables: u8) -> Outcome {
        let at = self.pick(txn);
        let chosen: Vec<usize> = (0..TABLES).filter(|at| tables & (1 << at) != 0).collect();
        if chosen.is_empty() {
            return Ok(());
        }
        let keeper = self.keepers.len() as u64;
        self.keepers.push(chosen.clone());
        let spaces: Vec<_> = chosen.iter().map(|at| self.model.specs[*at].space).collect();
        let open = &mut self.txns[at].txn;
        open.keep(keeper, &spaces).map_err(engine_error)?;
        let id = open.id();
        self.model.keep(id, keeper, chosen);
        self.check_kept()
    }

    pub fn release(&mut self, keeper: u64) -> Outcome {
        self.engine().release(keeper).map_err(engine_error)?;
        self.model.kept.remove(&keeper);
        let lsn = self.engine().appended();
        self.model.events.push((lsn, Event::Release(keeper)));
        self.check_kept()
    }

    /// The views that are kept of a table.
    fn kept_views(&self, table: usize) -> Result<Vec<Arc<Snapshot>>, String> {
        let of_table = self.model.kept.iter().filter(|(_, (_, tables))| tables.contains(&table));
        of_table.map(|(keeper, (ts, _))| self.kept_view(*keeper, *ts)).collect()
    }

    fn kept_view(&self, keeper: u64, ts: Ts) -> Result<Arc<Snapshot>, String> {
        let view = self.engine().kept(keeper);
        let view = view.ok_or(format!("nothing is kept for {keeper}, kept at {ts}"))?;
        ensure!(view.ts == ts, "{view:?} is kept for {keeper}, kept at {ts}");
        Ok(view)
    }

    /// What is kept reads as it was, and for nobody else anything is kept.
    pub fn check_kept(&self) -> Outcome {
        for keeper in 0..self.keepers.len() as u64 {
            let Some((ts, tables)) = self.model.kept.get(&keeper) else {
                ensure!(self.engine().kept(keeper).is_none(), "something is kept for {keeper}");
                continue;
            };
            for &at in tables {
                let view = self.kept_view(keeper, *ts)?;
                let (_, table) = self.table(at as u8, keeper.is_multiple_of(2));
                self.reader(at, &*table).everything(&view)?;
            }
        }
        Ok(())
    }

    pub fn commit(&mut self, at: usize, retreats: bool) -> Outcome {
        let mut open = self.txns.swap_remove(at);
        let id = open.txn.id();
        let before = self.engine().now();
        let mut ts = open.txn.pre_commit();
        ascending("a commit timestamp", before, ts)?;
        if retreats {
            open.txn.retreat();
            let first = std::mem::replace(&mut ts, open.txn.pre_commit());
            ascending("a commit timestamp after a retreat", first, ts)?;
        }
        self.drain_feeds();
        let lsn = open.txn.post_commit().map_err(engine_error)?;
        self.check_feeds(id)?;
        self.model.commit(id, ts, lsn);
        self.check_views()
    }

    pub fn commit_crossed(&mut self, txn: u8, other: u8) -> Outcome {
        if self.txns.len() < 2 {
            return Ok(());
        }
        let at = self.pick(txn);
        let mut one = self.txns.swap_remove(at);
        let at = self.pick(other);
        let mut two = self.txns.swap_remove(at);
        let (first, second) = (one.txn.pre_commit(), two.txn.pre_commit());
        ascending("the later commit timestamp", first, second)?;
        for (open, ts) in [(two, second), (one, first)] {
            let id = open.txn.id();
            let lsn = open.txn.post_commit().map_err(engine_error)?;
            self.model.commit(id, ts, lsn);
        }
        self.check_views()
    }

    pub fn drain_feeds(&mut self) {
        let mut nothing = Vec::new();
        self.feeds.iter_mut().for_each(|(_, feed)| feed.drain(&mut nothing));
    }

    /// Every feed has had the rows that `txn` is about to show.
    pub fn check_feeds(&mut self, txn: TxnId) -> Outcome {
        let changed = self.model.changed(txn);
        for (table, feed) in &mut self.feeds {
            let mut fed = Vec::new();
            feed.drain(&mut fed);
            let missed = changed.iter().find(|(at, rid)| at == table && !fed.contains(rid));
            ensure!(missed.is_none(), "{missed:?} is missing in a feed that was given {fed:?}");
            ensure!(feed.backlog() == 0, "a drained feed has a backlog of {}", feed.backlog());
        }
        Ok(())
    }

    /// Rows of the first table up to a few before its second block, most of them deleted again.
    pub fn fill_block(&mut self) -> Outcome {
        let rows = froglet_engine::id::ROWS_PER_BLOCK - LEFT_IN_BLOCK;
        let row = |n: usize| -> Row {
            let key = 1000 + n as i64;
            vec![Value::Int64(key), Value::text(key.to_string()), Value::Int32(0)]
        };
        let (place, table) = self.table(0, false);
        self.begin();
        let mut open = self.txns.pop().expect("just begun");
        let (id, base) = (open.txn.id(), open.txn.snapshot().ts);
        let given: Vec<Row> = (0..rows).map(row).collect();
        let mut rids = Vec::new();
        let outcome = table.insert(&mut *open.txn, &given, &mut rids);
        ensure!(outcome.is_ok(), "rows with keys of their own: {outcome:?}");
        let (kept, deleted) = (&rids[rows - KEPT_IN_BLOCK..], &rids[..rows - KEPT_IN_BLOCK]);
        let deletes: Vec<_> = deleted.iter().map(|&rid| RowWrite::Delete { rid }).collect();
        let outcome = table.write(&mut *open.txn, base, &deletes);
        ensure!(outcome.is_ok(), "own rows are deleted: {outcome:?}");
        let spec = &self.model.specs[place];
        let missing = spec.wide.columns[given[0].len()..].iter().map(|c| c.missing.clone());
        let missing: Vec<Value> = missing.collect();
        for (rid, row) in kept.iter().zip(&given[rows - KEPT_IN_BLOCK..]) {
            let row = row.iter().chain(&missing).cloned().collect();
            self.model.write(id, (place, *rid), Write::Insert(row));
        }
        self.txns.push(open);
        self.commit(0, false)
    }
}

/// A write did what the model says; whether it stopped.
fn stopped(outcome: Result<(), (usize, WriteStop)>, stops: &[Stop]) -> Result<bool, String> {
    let stop = match &outcome {
        Ok(()) => None,
        Err((_, stop)) => Some(Stop::of(stop)?),
    };
    agrees(stop, stops).map(|()| stop.is_some())
}

fn agrees(stop: Option<Stop>, stops: &[Stop]) -> Outcome {
    match stop {
        None if stops.is_empty() => Ok(()),
        Some(stop) if stops.contains(&stop) => Ok(()),
        other => Err(format!("the write ends with {other:?}; it should be one of {stops:?}")),
    }
}
