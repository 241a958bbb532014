//! A new table made of the rows of another: CREATE TABLE AS over one table (Tesseract, section 5).
//!
//! ```text
//!   source, block b        places of b        target
//!   slot 0 ──▶ query ──▶   row 17             row 17    a row made of the source row
//!   slot 1 ──▶ query       –                            the query does not keep it
//!   slot 2 ──▶ query ──▶   row 18             row 18
//! ```
//!
//! The unit is a source row, of which the query makes one row or none. The target is a row space that
//! no committed schema has (`target.rs`).
//!
//! T1: the latch of a source block is held from the read of its rows to the commit of what was made
//!     of them. So of two calls for one row the later one reads the later version, and stands.
//! T2: `places` says which row was made of each source row; so a row is made once, and goes when its
//!     source goes.
//! T3: the scan reads what the owner has written to the source before the copy. Nobody else changes
//!     those rows before the owner ends, and capture leaves them alone (the feed has rows, too, whose
//!     newest write was taken back). What the owner writes to the source afterwards does not concern
//!     the target: capture reads what is committed.
//! T4: the owner writes to a row that was made of another only when it holds that one and the row is in
//!     line with it ([`Copy::hold`]). Where capture meets a row that the owner has written, there is
//!     nothing to do.
//! T5: under a fixed snapshot the copy is made of what that sees, and capture waits for a read view
//!     of the copy as it is then. The owner reads the target in that view ([`Target::as_seen`]). Rows
//!     that had changed by then are looked at again.
//! T6: what is drawn for a row (random(), nextval()) is drawn once, as in `drawn.rs`: whether a row is made of it,
//!     and the values that are computed of nothing else, or of the same as before.

use std::collections::hash_map::RandomState;
use std::collections::{HashMap, HashSet};
use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow_array::RecordBatch;
use froglet_engine::id::ROWS_PER_BLOCK;
use froglet_engine::{
    BlockRows, CrashPoint, EngineTxn, Row, RowId, Snapshot, SpaceId, Table, Ts, WriteStop, batch,
};
use froglet_txn::{Strength, Transaction};
use parking_lot::{Mutex, MutexGuard};

use crate::change::RowQuery;
use crate::eager::places::{BlockPlaces, Places};
use crate::error::SchemaError;
use crate::rows::{differing, made_of, read_rows, row_at};
use crate::target::{Maker, Source, Target, Writes, stop_of};

/// Captured rows that are read, computed and written at once.
const BATCH_ROWS: usize = 1024;

/// What is made of a source row.
struct MadeRow {
    row: Row,
    /// Of what its drawn values were computed of beside.
    print: u64,
}

/// One copy: from where, how, to where, and how far it is.
pub struct Copy {
    source: Source,
    /// Layout positions of the query's inputs.
    inputs: Vec<usize>,
    /// Source rows that the owner had written before the copy [T3].
    own: HashSet<RowId>,
    query: Arc<dyn RowQuery>,
    target: Target,
    /// The target row of each source row. Those of a block are its latch.
    places: Places,
    /// The source row of each target row: from the start, if writers will ask for it, else once the owner has.
    sources: Mutex<Option<Places>>,
    /// They will.
    is_move: bool,
    /// What places take.
    bytes: AtomicU64,
    /// Of source rows of which a row may be made: prints of what their drawn values were computed of beside, if the
    /// query draws any [T6].
    draws: Mutex<HashMap<RowId, u64>>,
    printer: RandomState,
    /// Rows to be looked at again once the copy of what a fixed snapshot sees is done; `None` from
    /// then on [T5].
    waiting: Mutex<Option<Vec<RowId>>>,
}

impl Copy {
    /// A copy for a transaction, of nothing yet. `target` is the table as anybody reads and writes it.
    pub fn new(
        txn: &mut Transaction,
        source: Source,
        query: Arc<dyn RowQuery>,
        target: Arc<dyn Table>,
    ) -> Copy {
        let target = Target::new(txn, target);
        Copy {
            own: txn.part().rows_written(source.table.space()).into_iter().collect(),
            inputs: crate::step::positions(&*source.table, query.inputs()),
            source,
            query,
            waiting: Mutex::new(target.fixed.is_some().then(Vec::new)),
            target,
            places: Places::default(),
            sources: Mutex::default(),
            is_move: false,
            bytes: AtomicU64::new(0),
            draws: Mutex::default(),
            printer: RandomState::new(),
        }
    }

    /// The same of a table that its rows are moved to: whoever writes to them after the commit asks for the rows that
    /// they were [V1 of `flip/moved.rs`].
    pub fn into_moved(mut self) -> Copy {
        self.sources = Mutex::new(Some(Places::default()));
        self.is_move = true;
        self
    }

    /// Whether its target is the table that its source was.
    pub fn is_move(&self) -> bool {
        self.is_move
    }

    /// The rows that are copied, as anybody writes them.
    pub fn source_table(&self) -> &Arc<dyn Table> {
        &self.source.table
    }

    /// The rows that are made, without indexes.
    pub fn target_table(&self) -> &Arc<dyn Table> {
        self.target.table()
    }

    /// The row space that is written.
    pub fn target_space(&self) -> SpaceId {
        self.target.space()
    }

    /// Rows of the target that were made of others.
    pub fn rows(&self) -> u64 {
        self.target.rows()
    }

    /// Whether its scan reads what a fixed snapshot sees.
    pub fn is_fixed(&self) -> bool {
        self.target.fixed.is_some()
    }

    /// Copies a block: the scan. Returns how many source rows there were.
    pub fn run_block(&self, number: u32) -> Result<u64, SchemaError> {
        let latch = self.places.of_block(number);
        let mut latched = [(number, latch.lock())];
        let (mut from, mut rows) = (Some(RowId::of(number, 0)), 0);
        while let Some(at) = from {
            let (read, changed, next) = self.target.scan_part(&self.source, at, &self.inputs)?;
            let end = next.map_or(ROWS_PER_BLOCK, RowId::slot);
            let part = (at.slot()..end).map(|slot| RowId::of(number, slot));
            self.place(&mut latched, part, &read)?;
            if let Some(waiting) = &mut *self.waiting.lock() {
                waiting.extend(changed);
            }
            rows += read.rids.len() as u64;
            from = next;
        }
        Ok(rows)
    }

    /// Brings target rows in line with the latest committed version of these source rows, ascending:
    /// capture.
    pub fn run_rows(&self, rows: &[RowId]) -> Result<(), SchemaError> {
        if let Some(waiting) = &mut *self.waiting.lock() {
            waiting.extend_from_slice(rows);
            return Ok(());
        }
        let others: Vec<RowId> =
            rows.iter().filter(|rid| !self.own.contains(rid)).copied().collect();
        others.chunks(BATCH_ROWS).try_for_each(|rows| self.run_batch(rows))
    }

    fn run_batch(&self, rows: &[RowId]) -> Result<(), SchemaError> {
        let by_block = || rows.chunk_by(|a, b| a.block() == b.block());
        let blocks = by_block().map(|rows| rows[0].block());
        let latches: Vec<_> = blocks.map(|block| (block, self.places.of_block(block))).collect();
        let mut latched: Vec<_> =
            latches.iter().map(|(number, latch)| (*number, latch.lock())).collect();
        let read = read_rows(&*self.source.table, &self.target.committed(), rows, &self.inputs);
        self.place(&mut latched, rows.iter().copied(), &read)
    }

    /// The scan is over. Returns the rows that are to be captured now.
    pub fn end_scan(&self) -> Vec<RowId> {
        let mut waiting = self.waiting.lock();
        self.target.end_scan();
        waiting.take().unwrap_or_default()
    }

    /// The owner has ended: its read views keep nothing any more.
    pub fn release(&self) {
        self.target.release();
        if !self.is_move {
            *self.sources.lock() = None;
        }
    }

    /// Makes the target rows of some source rows, ascending, what the query makes of those of them that
    /// were read [T2]. Their blocks are latched, ascending.
    fn place(
        &self,
        latched: &mut [(u32, MutexGuard<'_, BlockPlaces>)],
        rows: impl Iterator<Item = RowId>,
        read: &BlockRows,
    ) -> Result<(), SchemaError> {
        let made = self.query.eval_keeping(&read.batch)?;
        let mut let_in = HashSet::new();
        if self.query.draws_rows() {
            let_in.extend(self.query.eval(&read.batch)?.rows.into_iter().map(|at| read.rids[at]));
        }
        let types = self.target.types();
        let committed = self.target.committed();

        let mut writes = Writes::default();
        let (mut new_places, mut gone_places) = (Vec::new(), Vec::new());
        let mut draws = self.draws().then(|| self.draws.lock());
        let mut kept = made.rows.iter().map(|&at| (at, read.rids[at])).enumerate().peekable();
        let mut in_block = 0;
        for source in rows {
            while latched[in_block].0 != source.block() {
                in_block += 1;
            }
            let place = latched[in_block].1.get(source);
            let kept = kept.next_if(|(_, (_, kept))| *kept == source);
            let (before, print) = match (&mut draws, kept) {
                (None, _) => (None, 0),
                (Some(draws), None) => (draws.remove(&source), 0),
                (Some(draws), Some((_, (at, _)))) => {
                    let print = self.print(&read.batch, at);
                    (draws.insert(source, print), print)
                }
            };
            let is_out = self.query.draws_rows()
                && place.is_none()
                && (before.is_some() || !let_in.contains(&source));
            match (kept.filter(|_| !is_out), place) {
                (None, None) => {}
                (None, Some(rid)) => {
                    writes.gone.push(rid);
                    gone_places.push((in_block, source));
                }
                (Some((at, _)), None) => {
                    writes.new.push(row_at(&made.columns, &types, at));
                    new_places.push((in_block, source));
                }
                (Some((at, _)), Some(rid)) => {
                    let mut row = row_at(&made.columns, &types, at);
                    let was = self.target.row(&committed, rid);
                    self.keep_drawn(&was, before == Some(print), &mut row);
                    if was != row {
                        writes.changed.push((rid, row));
                    }
                }
            }
        }
        drop(draws);
        if writes.is_empty() {
            return Ok(());
        }
        // What the owner has written is in line, and its source is held [T4].
        let rids = self.target.write(&writes, || Ok(()))?;
        CrashPoint::CopyWritten.reached();

        let (sources, mut taken) = (self.sources.lock(), 0);
        for ((in_block, source), rid) in new_places.into_iter().zip(rids) {
            taken += latched[in_block].1.set(source, Some(rid));
            if let Some(sources) = &*sources {
                taken += sources.set(rid, Some(source));
            }
        }
        self.take_memory(taken);
        for ((in_block, source), rid) in gone_places.into_iter().zip(&writes.gone) {
            latched[in_block].1.set(source, None);
            if let Some(sources) = &*sources {
                sources.set(*rid, None);
            }
        }
        Ok(())
    }

    /// Whether its query draws anything.
    fn draws(&self) -> bool {
        self.query.draws_rows() || !self.query.drawn().is_empty()
    }

    /// A number for what the drawn values of a row are computed of beside.
    fn print(&self, batch: &RecordBatch, at: usize) -> u64 {
        let mut inputs = self.query.drawn().iter().flat_map(|drawn| &drawn.inputs).peekable();
        if inputs.peek().is_none() {
            return 0;
        }
        let layout = self.source.table.layout();
        let value = |input: &usize| {
            let ty = layout.columns[self.inputs[*input]].ty;
            batch::value_at(batch.column(*input), at, ty)
        };
        self.printer.hash_one(format!("{:?}", inputs.map(value).collect::<Vec<_>>()))
    }

    /// Puts what was drawn for a target row into it as it is made again, where it is the same [T6].
    fn keep_drawn(&self, was: &Row, is_same: bool, row: &mut Row) {
        for drawn in self.query.drawn() {
            if (is_same || drawn.inputs.is_empty())
                && let Some(value) = was.get(drawn.output)
            {
                row[drawn.output] = value.clone();
            }
        }
    }

    /// What a writer's own version of source rows makes of their target rows. Not of those that it
    /// has only held, or changed in nothing that the query reads.
    pub fn changes_of(
        &self,
        own: &Snapshot,
        rows: &[RowId],
    ) -> Result<Vec<(RowId, Option<Row>)>, SchemaError> {
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        let committed = self.target.committed();
        let (mut was, mut now) = (self.make(&committed, rows)?, self.make(own, rows)?);
        if self.draws() {
            for ((rid, was), now) in rows.iter().zip(&mut was).zip(&mut now) {
                self.keep_published(own, &committed, *rid, was, now)?;
            }
        }
        let row = |made: Option<MadeRow>| made.map(|made| made.row);
        let (was, now) = (was.into_iter().map(row).collect(), now.into_iter().map(row).collect());
        Ok(differing(rows, was, now))
    }

    /// What was drawn for a source row stays what the target has of it [T6].
    fn keep_published(
        &self,
        own: &Snapshot,
        committed: &Snapshot,
        source: RowId,
        was: &mut Option<MadeRow>,
        now: &mut Option<MadeRow>,
    ) -> Result<(), SchemaError> {
        match (self.places.get(source), &mut *was, &mut *now) {
            // It was kept out.
            (None, Some(_), _) => (*was, *now) = (None, None),
            (None, None, Some(_)) => {
                let read = read_rows(&*self.source.table, own, &[source], &self.inputs);
                if self.query.eval(&read.batch)?.rows.is_empty() {
                    *now = None;
                }
            }
            (Some(place), Some(was), Some(now)) => {
                let published = self.target.row(committed, place);
                let is_same = was.print == now.print;
                self.keep_drawn(&published, true, &mut was.row);
                self.keep_drawn(&published, is_same, &mut now.row);
            }
            _ => {}
        }
        Ok(())
    }

    /// What the query makes of each of some source rows, if what is drawn keeps none of them out.
    fn make(
        &self,
        snapshot: &Snapshot,
        rows: &[RowId],
    ) -> Result<Vec<Option<MadeRow>>, SchemaError> {
        let read = read_rows(&*self.source.table, snapshot, rows, &self.inputs);
        let (made, types) = (self.query.eval_keeping(&read.batch)?, self.target.types());
        let rids = made.rows.iter().map(|&at| read.rids[at]);
        let mut prints = made.rows.iter().map(|&at| self.print(&read.batch, at));
        let made = made_of(rows, rids, &made.columns, &types).into_iter();
        let with_print = |row: Option<Row>| {
            row.map(|row| MadeRow { row, print: prints.next().expect("a print for each row") })
        };
        Ok(made.map(with_print).collect())
    }

    /// Makes the target row of a source row this, for a writer, if nobody has written it after `base`.
    /// Returns the row that it wrote.
    pub fn apply(
        &self,
        txn: &mut dyn EngineTxn,
        base: Ts,
        source: RowId,
        made: &Option<Row>,
    ) -> Result<Option<RowId>, WriteStop> {
        self.target.write_for(txn, base, self.places.get(source), made)
    }

    /// The target row of a source row.
    pub fn place_of(&self, source: RowId) -> Option<RowId> {
        self.places.get(source)
    }

    /// Whether somebody has written the target row after `ts`.
    pub fn is_changed_since(&self, target: RowId, ts: Ts) -> bool {
        self.target.is_changed_since(target, ts)
    }

    /// Puts what places take on the account of the memory limit.
    fn take_memory(&self, bytes: usize) {
        if bytes > 0 {
            self.target.manager.engine().borrow_memory_anyway(bytes as u64);
            self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        }
    }

    /// The source row of a target row.
    pub fn source_of(&self, target: RowId) -> Option<RowId> {
        if self.sources.lock().is_none() {
            // Latches come before `sources`, as in `place`; who places meanwhile waits at the last.
            let latches = self.places.blocks();
            let latched: Vec<_> = latches.iter().map(|latch| latch.lock()).collect();
            let sources = Places::default();
            for (number, places) in latched.iter().enumerate() {
                let number = u32::try_from(number).expect("a space has at most 2^32 blocks");
                let set = |(slot, rid)| sources.set(rid, Some(RowId::of(number, slot)));
                self.take_memory(places.iter().map(set).sum());
            }
            *self.sources.lock() = Some(sources);
        }
        self.sources.lock().as_ref()?.get(target)
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        let bytes = self.bytes.load(Ordering::Relaxed);
        self.target.manager.engine().return_memory(bytes);
    }
}

impl Maker for Copy {
    fn target(&self) -> &Target {
        &self.target
    }

    fn hold(&self, txn: &mut dyn EngineTxn, base: Ts, row: RowId) -> Result<(), WriteStop> {
        let Some(source) = self.source_of(row) else { return Ok(()) };
        if self.is_move {
            let (locks, place) = (self.target.manager.row_locks(), self.source.table.space());
            if let Some(holder) = locks.other_holder((place, source), txn.id(), Strength::Share) {
                return Err(WriteStop::Busy { holder });
            }
        }
        if self.target.hold_source(txn, base, &self.source, source)? {
            self.run_rows(&[source]).map_err(stop_of)?;
        }
        Ok(())
    }
}
