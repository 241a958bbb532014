//! A table that is being made by queries of others, before anybody has it but its owner.
//!
//! Its rows are written by transactions of the engine, a block or a batch each, as any writer writes:
//! so they are logged, recovered, versioned, and fed to the migration of the target itself, if that is
//! given keys and constraints before it is committed. How they are made: `copy.rs`, `derive.rs`.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use froglet_engine::id::ROWS_PER_BLOCK;
use froglet_engine::{
    BlockRows, ColumnType, EngineError, EngineTxn, Row, RowId, RowWrite, Snapshot, SpaceId,
    SqlState, Table, Ts, TxnId, WriteStop,
};
use froglet_txn::{Isolation, Transaction, TxnManager};
use parking_lot::Mutex;

use crate::error::SchemaError;
use crate::rows::read_rows;

/// What makes the rows of a target, as its owner meets it.
pub(crate) trait Maker: Send + Sync {
    /// What it makes.
    fn target(&self) -> &Target;

    /// Before the owner writes to a target row: holds the source rows that it was made of, and brings
    /// it in line with them.
    fn hold(&self, txn: &mut dyn EngineTxn, base: Ts, row: RowId) -> Result<(), WriteStop>;
}

/// See the module.
pub(crate) struct Target {
    /// Whose.
    pub owner: TxnId,
    /// The transactions that write it.
    pub manager: Arc<TxnManager>,
    table: Arc<dyn Table>,
    /// Of an owner whose snapshot stays.
    pub fixed: Option<Fixed>,
    rows: AtomicU64,
    /// Rows of a source that are read at once.
    part_rows: OnceLock<usize>,
}

/// A table that the rows of a target are made of.
#[derive(Clone)]
pub struct Source {
    /// As anybody reads and writes it.
    pub table: Arc<dyn Table>,
    /// As the owner sees it: it may itself be made or changed by the same transaction.
    pub seen: Arc<dyn Table>,
}

/// The target of an owner whose snapshot stays is first made of what that sees, while capture waits for
/// a read view of the target as it is then. The owner reads it in that view.
pub(crate) struct Fixed {
    /// The timestamp of the owner's snapshot.
    ts: Ts,
    /// In which the sources are read, until the scan is over.
    snapshot: Mutex<Option<Arc<Snapshot>>>,
    /// The target as it was then, until the owner ends.
    view: Mutex<Option<Arc<Snapshot>>>,
    view_ts: OnceLock<Ts>,
}

/// What is to be written to a target at once.
#[derive(Default)]
pub(crate) struct Writes {
    /// Rows to be inserted.
    pub new: Vec<Row>,
    /// Rows to be updated, whole.
    pub changed: Vec<(RowId, Row)>,
    /// Rows to be deleted.
    pub gone: Vec<RowId>,
}

impl Writes {
    /// Whether there is nothing to be written.
    pub fn is_empty(&self) -> bool {
        self.new.is_empty() && self.changed.is_empty() && self.gone.is_empty()
    }
}

impl Target {
    /// A target for a transaction. `table` has the layout that the query gave it.
    pub fn new(txn: &mut Transaction, table: Arc<dyn Table>) -> Target {
        let snapshot = txn.snapshot();
        let is_fixed = txn.isolation() != Isolation::ReadCommitted;
        let fixed = is_fixed.then(|| Fixed {
            ts: snapshot.ts,
            snapshot: Mutex::new(Some(snapshot)),
            view: Mutex::default(),
            view_ts: OnceLock::new(),
        });
        let (owner, manager) = (txn.id(), txn.manager().clone());
        let (rows, part_rows) = (AtomicU64::new(0), OnceLock::new());
        Target { owner, manager, table, fixed, rows, part_rows }
    }

    /// Its rows.
    pub fn table(&self) -> &Arc<dyn Table> {
        &self.table
    }

    /// Its row space.
    pub fn space(&self) -> SpaceId {
        self.table.space()
    }

    /// The types of its columns.
    pub fn types(&self) -> Vec<ColumnType> {
        self.table.layout().columns.iter().map(|c| c.ty).collect()
    }

    /// Rows that were made, and are there.
    pub fn rows(&self) -> u64 {
        self.rows.load(Ordering::Relaxed)
    }

    /// A view of what is committed now.
    pub fn committed(&self) -> Arc<Snapshot> {
        self.manager.engine().fresh(TxnId(0))
    }

    /// A row as it was made last.
    pub fn row(&self, committed: &Snapshot, rid: RowId) -> Row {
        let (all, mut row) = (self.all(), Row::new());
        self.table.read_row(committed, rid, &all, &mut row);
        row
    }

    fn all(&self) -> Vec<usize> {
        (0..self.table.layout().columns.len()).collect()
    }

    /// Writes and commits. Returns the ids of the new rows. `busy` decides of a row that the owner has
    /// written, or holds.
    pub fn write(
        &self,
        writes: &Writes,
        busy: impl Fn() -> Result<(), SchemaError>,
    ) -> Result<Vec<RowId>, SchemaError> {
        let Writes { new, changed, gone } = writes;
        let all = self.all();
        let mut txn = self.manager.begin(Isolation::ReadCommitted);
        let mut rids = Vec::with_capacity(new.len());
        let inserted = self.table.insert(txn.part(), new, &mut rids);
        inserted.map_err(|(_, stop)| unexpected(&stop))?;
        let updates = changed.iter().map(|(rid, values)| RowWrite::Update {
            rid: *rid,
            columns: &all,
            values,
        });
        let deletes = gone.iter().map(|rid| RowWrite::Delete { rid: *rid });
        let writes: Vec<RowWrite<'_>> = updates.chain(deletes).collect();
        let mut done = 0;
        while let Err((n, stop)) = self.table.write(txn.part(), Ts::LATEST, &writes[done..]) {
            match stop {
                WriteStop::Busy { holder } if holder == self.owner => busy()?,
                stop => return Err(unexpected(&stop)),
            }
            done += n + 1;
        }
        let committed = self.manager.commit_here(&mut txn);
        committed.expect("a transaction of no table's schema has nothing to prepare")?;
        self.rows.fetch_add(new.len() as u64, Ordering::Relaxed);
        self.rows.fetch_sub(gone.len() as u64, Ordering::Relaxed);
        Ok(rids)
    }

    /// Makes a target row this, for a writer, if nobody has written it after `base`. Returns the row
    /// that it wrote.
    pub fn write_for(
        &self,
        txn: &mut dyn EngineTxn,
        base: Ts,
        place: Option<RowId>,
        made: &Option<Row>,
    ) -> Result<Option<RowId>, WriteStop> {
        let all = self.all();
        let (place, write) = match (made, place) {
            (None, None) => return Ok(None),
            (None, Some(rid)) => (rid, RowWrite::Delete { rid }),
            (Some(row), None) => {
                let mut rids = Vec::new();
                let inserted = self.table.insert(txn, std::slice::from_ref(row), &mut rids);
                return inserted.map(|()| rids.pop()).map_err(|(_, stop)| stop);
            }
            (Some(values), Some(rid)) => (rid, RowWrite::Update { rid, columns: &all, values }),
        };
        let written = self.table.write(txn, base, std::slice::from_ref(&write));
        written.map(|()| Some(place)).map_err(|(_, stop)| stop)
    }

    /// Whether somebody has written a target row after `ts`.
    pub fn is_changed_since(&self, row: RowId, ts: Ts) -> bool {
        self.table.changed_since(row, ts)
    }

    /// A block of a source, for the scan: as the owner's snapshot sees it, if that stays, and then
    /// with what has changed since, to be looked at again (the more so if it was before the feed was
    /// open). Else what is committed, and what the owner has written.
    pub fn scan_block(
        &self,
        source: &Source,
        block: u32,
        columns: &[usize],
    ) -> Result<(BlockRows, Vec<RowId>), EngineError> {
        let Some(snapshot) = self.scan_snapshot() else {
            let now = self.manager.engine().fresh(self.owner);
            return Ok((source.table.read_block(&now, block, columns)?, Vec::new()));
        };
        let read = source.seen.read_block(&snapshot, block, columns)?;
        let rows = (0..ROWS_PER_BLOCK).map(|slot| RowId::of(block, slot));
        let is_changed = |rid: &RowId| source.seen.changed_since(*rid, snapshot.ts);
        Ok((read, rows.filter(is_changed).collect()))
    }

    /// The same of a part of a block, from a row on, and where the next part begins, if there is one: about a megabyte of
    /// long rows.
    pub fn scan_part(
        &self,
        source: &Source,
        from: RowId,
        columns: &[usize],
    ) -> Result<(BlockRows, Vec<RowId>, Option<RowId>), EngineError> {
        let snapshot = self.scan_snapshot();
        let (table, snapshot) = match &snapshot {
            Some(snapshot) => (&source.seen, snapshot.clone()),
            None => (&source.table, self.manager.engine().fresh(self.owner)),
        };
        let rows = match table.has_parts() {
            true => ROWS_PER_BLOCK,
            false => *self.part_rows.get_or_init(|| rows_of_part(&**table)),
        };
        let (read, next) = match rows {
            ROWS_PER_BLOCK => table.read_part(&snapshot, from, columns)?,
            rows => {
                let end = (from.slot() + rows).min(ROWS_PER_BLOCK);
                let part = (from.slot()..end).map(|slot| RowId::of(from.block(), slot));
                let read = read_rows(&**table, &snapshot, &part.collect::<Vec<_>>(), columns);
                (read, (end < ROWS_PER_BLOCK).then(|| RowId::of(from.block(), end)))
            }
        };
        let end = next.map_or(ROWS_PER_BLOCK, RowId::slot);
        let part = (from.slot()..end).map(|slot| RowId::of(from.block(), slot));
        let is_changed =
            |rid: &RowId| self.fixed.is_some() && source.seen.changed_since(*rid, snapshot.ts);
        Ok((read, part.filter(is_changed).collect(), next))
    }

    /// The snapshot in which the sources are read, if it stays and the scan is not over.
    pub fn scan_snapshot(&self) -> Option<Arc<Snapshot>> {
        self.fixed.as_ref()?.snapshot.lock().clone()
    }

    /// The sources have been read.
    pub fn end_scan(&self) {
        let Some(fixed) = &self.fixed else { return };
        let now = self.manager.engine().snapshot();
        assert!(fixed.view_ts.set(now.ts).is_ok(), "a scan ends once");
        *fixed.view.lock() = Some(Arc::new(Snapshot::new(now.ts, self.owner, Box::new(now))));
        *fixed.snapshot.lock() = None;
    }

    /// The owner has ended: its read views keep nothing any more.
    pub fn release(&self) {
        if let Some(fixed) = &self.fixed {
            *fixed.snapshot.lock() = None;
            *fixed.view.lock() = None;
        }
    }

    /// The read view in which the owner sees it; `None` for one that is right as it is: others', and the owner's of
    /// a later time.
    pub fn as_seen(&self, snapshot: &Snapshot) -> Option<Arc<Snapshot>> {
        let fixed = self.fixed.as_ref()?;
        match snapshot.own == self.owner && snapshot.ts == fixed.ts {
            true => fixed.view.lock().clone(),
            false => None,
        }
    }

    /// The same for a timestamp of the owner's read view.
    pub fn ts_as_seen(&self, ts: Ts) -> Ts {
        self.fixed.as_ref().and_then(|fixed| fixed.view_ts.get()).copied().unwrap_or(ts)
    }

    /// For the owner: holds a source row, as it sees it or as it is. Returns whether it has changed
    /// since `base`.
    pub fn hold_source(
        &self,
        txn: &mut dyn EngineTxn,
        base: Ts,
        source: &Source,
        row: RowId,
    ) -> Result<bool, WriteStop> {
        let lock = [RowWrite::Lock { rid: row }];
        // As the owner sees it: what the source itself was made of is held, too.
        let held = match source.seen.write(txn, base, &lock) {
            Err((_, WriteStop::Changed)) if self.fixed.is_none() => {
                source.table.write(txn, Ts::LATEST, &lock)
            }
            held => held,
        };
        match held {
            Ok(()) | Err((_, WriteStop::Gone)) => {}
            Err((_, stop)) => return Err(stop),
        }
        let changed = source.seen.changed_since(row, base);
        if changed && self.fixed.is_some() {
            return Err(WriteStop::Changed);
        }
        Ok(changed)
    }
}

/// So many bytes of rows are read and written at once, about.
const PART_BYTES: u64 = 1 << 20;

/// Rows of a part of a block of a table.
fn rows_of_part(table: &dyn Table) -> usize {
    let row_bytes = (table.bytes_estimate() / table.row_estimate().max(1)).max(1);
    usize::try_from(PART_BYTES / row_bytes).map_or(ROWS_PER_BLOCK, |n| n.clamp(16, ROWS_PER_BLOCK))
}

/// Nobody but the maker and the owner writes to the rows.
pub(crate) fn unexpected(stop: &WriteStop) -> SchemaError {
    match stop {
        WriteStop::Engine(e) => SchemaError::Engine(e.clone()),
        stop => SchemaError::refused(
            SqlState::INTERNAL_ERROR,
            format!("a row of a table that is being made was in the way: {stop:?}"),
        ),
    }
}

/// What an error of bringing a row in line means to the owner's write.
pub(crate) fn stop_of(error: SchemaError) -> WriteStop {
    match error {
        SchemaError::Engine(e) => WriteStop::Engine(e),
        // Capture meets the same error, and with it the transaction fails.
        _ => WriteStop::Changed,
    }
}
