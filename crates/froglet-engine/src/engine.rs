//! The contract between an engine and the crates above it.
//!
//! Life of a transaction on an engine:
//!
//! ```text
//!            begin
//!              │
//!   ┌──────▶ active ───────────────▶ aborted     abort: before-images restored
//!   │          │ pre_commit
//! retreat  committing(ts)                        readers at or above ts wait for the verdict
//!   │          │
//!   └──────────┤ post_commit
//!              ▼
//!          committed(ts)                         logged; versions stamped
//! ```
//!
//! There is nothing to wait for between `pre_commit` and `post_commit` or `retreat`: whoever has
//! to wait does so before or retreats first. That keeps the time a reader may spin to moments.

use std::any::Any;
use std::ops::ControlFlow;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use arrow_array::{Array, ArrayRef, RecordBatch};

use crate::error::EngineError;
use crate::figures::{BlockCounts, EngineFigures, TableRegions};
use crate::id::{ColumnId, Home, IndexId, Lsn, RowId, SpaceId, Ts, TxnId};
use crate::layout::{Dictionary, Layout};
use crate::moving::Moving;
use crate::online::{BuildOf, OnlineIndexes, Referenced};
use crate::range::{Direction, KeyRange};
use crate::snapshot::{HeldBack, Snapshot};
use crate::value::{ColumnType, Row, Value};

/// Why a write stopped.
#[derive(Debug)]
pub enum WriteStop {
    /// Another transaction holds the row (or the unique key): wait for its outcome, then retry.
    Busy {
        /// Who holds it.
        holder: TxnId,
    },
    /// A version newer than the base the new values were derived from is committed.
    /// READ COMMITTED reads again and re-checks; REPEATABLE READ fails with 40001.
    Changed,
    /// The row is deleted: by a commit newer than the base, or by this transaction.
    Gone,
    /// The row is at another place since the base: compaction has moved it. Whoever found it here looks for
    /// it again.
    Moved,
    /// Another row has the key.
    Duplicate {
        /// In this index.
        index: IndexId,
        /// This row.
        other: RowId,
    },
    /// The engine failed.
    Engine(EngineError),
}

impl From<EngineError> for WriteStop {
    fn from(e: EngineError) -> Self {
        WriteStop::Engine(e)
    }
}

/// One row of an UPDATE or DELETE.
#[derive(Debug)]
pub enum RowWrite<'a> {
    /// Set the columns at these layout positions.
    Update {
        /// Which row.
        rid: RowId,
        /// Layout positions, ascending, none twice.
        columns: &'a [usize],
        /// As many values.
        values: &'a [Value],
    },
    /// Delete the row.
    Delete {
        /// Which row.
        rid: RowId,
    },
    /// Hold the row as an update would, and change nothing (SELECT … FOR UPDATE).
    Lock {
        /// Which row.
        rid: RowId,
    },
}

impl RowWrite<'_> {
    /// Which row.
    pub fn rid(&self) -> RowId {
        match self {
            RowWrite::Update { rid, .. } | RowWrite::Delete { rid } | RowWrite::Lock { rid } => {
                *rid
            }
        }
    }
}

/// The rows of one block that a snapshot sees.
#[derive(Debug)]
pub struct BlockRows {
    /// One for each row of `batch`, ascending.
    pub rids: Vec<RowId>,
    /// The projected columns.
    pub batch: RecordBatch,
}

/// What is known of the values of one column in one block.
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnStats {
    /// Rows that are counted here: those that are there, and perhaps some that were.
    pub rows: usize,
    /// Of them NULL.
    pub nulls: usize,
    /// No value is less, in the order of Arrow; `None` without a value.
    pub min: Option<Value>,
    /// No value is greater; `None` without a value, or a bound.
    pub max: Option<Value>,
}

/// What a migration computes for the rows of one block.
#[derive(Debug)]
pub struct ColumnFill {
    /// The rows of the batch it was given that are filled, ascending; `None`: all of them.
    pub rows: Option<Vec<usize>>,
    /// For each target column as many values.
    pub columns: Vec<ArrayRef>,
}

impl ColumnFill {
    /// Whether there are `count` values for each target, of its type.
    pub fn check(
        columns: &[ArrayRef],
        targets: impl ExactSizeIterator<Item = ColumnType>,
        count: usize,
    ) -> Result<(), MigrateError> {
        let wrong = |what: String| Err(MigrateError::Transform(what.into()));
        let targets_are = targets.len();
        if columns.len() != targets_are {
            let computed = columns.len();
            return wrong(format!("{computed} columns computed for {targets_are} targets"));
        }
        for (array, ty) in columns.iter().zip(targets) {
            let ty = ty.arrow();
            if array.len() != count {
                return wrong(format!("{} values computed for {count} rows", array.len()));
            }
            if array.data_type() != &ty {
                let found = array.data_type();
                return wrong(format!("values of type {found} computed for a column of {ty}"));
            }
        }
        Ok(())
    }
}

impl From<Vec<ArrayRef>> for ColumnFill {
    fn from(columns: Vec<ArrayRef>) -> ColumnFill {
        ColumnFill { rows: None, columns }
    }
}

/// Changes of a row space since the feed was opened: the ids of the rows that committed
/// transactions inserted, updated or deleted, in no particular order, repeats allowed.
pub trait Feed: Send {
    /// Moves what has arrived into `out`.
    fn drain(&mut self, out: &mut Vec<RowId>);
    /// How much waits.
    fn backlog(&self) -> usize;
}

/// Rows that a row space is given late, and which count as if they had always been there: a lazy
/// migration's. Nobody may have written to their row ids, or may before this is done.
#[derive(Debug)]
pub struct Install<'a> {
    /// Reserved row ids of the rows, ascending.
    pub rids: &'a [RowId],
    /// Row by row every column of the layout.
    pub values: &'a [Value],
    /// Reserved row ids that stay without a row: they are handed out from now on.
    pub empty: &'a [RowId],
    /// What recovery is to know of it. Logged with the rows: both are there after a crash, or neither.
    pub note: &'a [u8],
}

/// Knows what has been installed in a row space.
pub trait Installs: Send + Sync {
    /// One note in place of those of all installs that are done.
    fn note(&self) -> Vec<u8>;
}

/// A row space seen under one layout. Cheap to share; bound once per schema version.
pub trait Table: Send + Sync {
    /// The row space.
    fn space(&self) -> SpaceId;
    /// The layout.
    fn layout(&self) -> &Arc<Layout>;
    /// Rows that exist, about.
    fn row_estimate(&self) -> u64;
    /// The same, for whoever chooses between ways to rows: it may be more exact, and another number a moment later.
    fn rows_for_plans(&self) -> u64 {
        self.row_estimate()
    }
    /// Bytes of the rows, about, indexes apart.
    fn bytes_estimate(&self) -> u64;
    /// Blocks that exist now; a scan visits `0..block_count()` as of its start.
    fn block_count(&self) -> u32;

    /// The same for whoever is about to visit them all: whatever has to be made for that is made first.
    fn scan_blocks(&self) -> u32 {
        self.block_count()
    }

    /// The rows of one block visible to `snapshot`, the columns at the given layout positions.
    fn read_block(
        &self,
        snapshot: &Snapshot,
        block: u32,
        projection: &[usize],
    ) -> Result<BlockRows, EngineError>;

    /// Some rows of a block, from one on, and where the next part begins, if there is one. What is read is as large as an
    /// engine has in hand at once.
    fn read_part(
        &self,
        snapshot: &Snapshot,
        from: RowId,
        projection: &[usize],
    ) -> Result<(BlockRows, Option<RowId>), EngineError> {
        assert_eq!(from.slot(), 0, "a block is one part");
        Ok((self.read_block(snapshot, from.block(), projection)?, None))
    }

    /// Whether blocks may have several parts.
    fn has_parts(&self) -> bool {
        false
    }

    /// [`Table::read_block`] without row ids: what a frozen block has is handed out as it is.
    fn read_batch(
        &self,
        snapshot: &Snapshot,
        block: u32,
        projection: &[usize],
    ) -> Result<RecordBatch, EngineError> {
        Ok(self.read_block(snapshot, block, projection)?.batch)
    }

    /// What is known of the values that a block has in the column at a layout position: of every row that
    /// a snapshot sees which was taken before this is asked.
    fn block_stats(&self, _block: u32, _column: usize) -> Option<ColumnStats> {
        None
    }

    /// About how many different values a column has in a block; `None` as above.
    fn block_distinct(&self, _block: u32, _column: usize) -> Option<usize> {
        None
    }

    /// One row, the columns at the given layout positions appended to `out`; false where the
    /// snapshot sees no such row (`out` is then as before).
    fn read_row(
        &self,
        snapshot: &Snapshot,
        rid: RowId,
        projection: &[usize],
        out: &mut Row,
    ) -> bool;

    /// Visits those of some rows, of any blocks, that `snapshot` sees, in the order given, as
    /// [`Table::read_row`] reads them: one after the other, if the table has no better way.
    fn read_rows(
        &self,
        snapshot: &Snapshot,
        rids: &[RowId],
        projection: &[usize],
        visit: &mut dyn FnMut(RowId, &mut Row),
    ) {
        let mut row = Row::new();
        for rid in rids {
            row.clear();
            if self.read_row(snapshot, *rid, projection, &mut row) {
                visit(*rid, &mut row);
            }
        }
    }

    /// The first row with exactly this key in the index at a layout position that `snapshot` sees:
    /// its projected values are appended to `out`.
    fn get_by_key(
        &self,
        snapshot: &Snapshot,
        index: usize,
        key: &[u8],
        projection: &[usize],
        out: &mut Row,
    ) -> Option<RowId>;

    /// Visits the rows that `snapshot` sees in the key order of the index at `index` (a position in the layout).
    /// Each row once: stale index entries are checked against the visible version.
    fn seek(
        &self,
        snapshot: &Snapshot,
        index: usize,
        range: &KeyRange,
        direction: Direction,
        projection: &[usize],
        visit: &mut dyn FnMut(RowId, &mut Row) -> ControlFlow<()>,
    );

    /// The same forward in each of several ranges, in any order among them, each row with the number of its
    /// range.
    fn seek_all(
        &self,
        snapshot: &Snapshot,
        index: usize,
        ranges: &[KeyRange],
        projection: &[usize],
        visit: &mut dyn FnMut(usize, RowId, &mut Row),
    ) {
        for (number, range) in ranges.iter().enumerate() {
            let mut visit = |rid: RowId, row: &mut Row| {
                visit(number, rid, row);
                ControlFlow::Continue(())
            };
            self.seek(snapshot, index, range, Direction::Forward, projection, &mut visit);
        }
    }

    /// Visits the entries that an index has in a range of keys, without a look at the rows: of each row
    /// that [`Table::seek`] finds there at least one, and maybe of others. A row may come more than once.
    fn seek_entries(
        &self,
        index: usize,
        range: &KeyRange,
        direction: Direction,
        visit: &mut dyn FnMut(RowId) -> ControlFlow<()>,
    );

    /// Inserts rows given in layout order. On `Err((n, stop))` the first n are in and the rest
    /// untouched; after `Busy` the caller waits and goes on with `rows[n..]`.
    /// `rids` receives the ids of the rows that are in.
    fn insert(
        &self,
        txn: &mut dyn EngineTxn,
        rows: &[Row],
        rids: &mut Vec<RowId>,
    ) -> Result<(), (usize, WriteStop)>;

    /// Updates, deletes or locks rows whose new values were derived from what was visible at
    /// `base`. On `Err((n, stop))` the first n are done.
    fn write(
        &self,
        txn: &mut dyn EngineTxn,
        base: Ts,
        writes: &[RowWrite<'_>],
    ) -> Result<(), (usize, WriteStop)>;

    /// The transaction other than `own` whose unfinished write deletes the row or changes one of
    /// the columns at these layout positions. Row locks and changes of other columns do not
    /// count. A foreign key's child asks this of its parent's key, after it has entered its
    /// shared lock (sequentially consistent with the write's linking).
    fn changer(&self, rid: RowId, columns: &[usize], own: TxnId) -> Option<TxnId>;

    /// Whether a transaction that committed after `ts` has inserted, updated or deleted the row.
    /// A registered snapshot is at or below `ts`. Waits for whoever has taken a commit timestamp.
    fn changed_since(&self, rid: RowId, ts: Ts) -> bool;

    /// Moves of rows, each from a place to a free one, which leave fewer and fuller blocks if they are made
    /// in this order; of blocks that nobody has written to for long, or of all. None where there is
    /// nothing to gain.
    fn plan_moves(&self, _cold_only: bool) -> Vec<(RowId, RowId)> {
        Vec::new()
    }

    /// Moves a row that nobody is writing to: deletes it at one place and inserts it at another, with every
    /// column and index entry. Whoever writes to the old place after the commit is told
    /// [`WriteStop::Moved`]. [`WriteStop::Gone`]: the row has versions, or the place is taken.
    fn move_row(
        &self,
        _txn: &mut dyn EngineTxn,
        _from: RowId,
        _to: RowId,
    ) -> Result<(), WriteStop> {
        Err(WriteStop::Gone)
    }

    /// Where it is in a distributed store; nothing of another engine.
    fn regions(&self) -> Result<TableRegions, EngineError> {
        Ok(TableRegions::default())
    }

    /// How rows move out of it and into it, if it is of an engine that has that.
    fn moving(&self) -> Option<&dyn Moving> {
        None
    }

    /// Indexes that are built while other servers write, of an engine whose tables several of them write.
    fn online_indexes(&self) -> Option<&dyn OnlineIndexes> {
        None
    }

    /// How others refer to its rows, of an engine that has no row locks which several transactions may have at once.
    fn referenced(&self) -> Option<&dyn Referenced> {
        None
    }

    /// Opens a change feed. Every commit not visible to a view that is taken after this
    /// returns reaches the feed before it becomes visible.
    fn open_feed(&self) -> Box<dyn Feed>;

    /// Migration, scan and capture alike: reads the latest committed (or `txn`'s own) version of
    /// rows of a block (`None`: of every row), hands them to `transform`, in one part or several, in the columns of
    /// `source` (layout positions of *this* table's layout), and stores what it returns in the
    /// columns at the positions `target` of this layout, without versions: the target columns
    /// are not yet in any committed schema, or nobody has written these rows under one that has them. Rows
    /// that `owner` wrote after its statement number `since` keep what it wrote. Blocks migrate under a
    /// latch of their own, so that the last call for a row, in log order too, is the one that stands.
    /// Returns how many rows it has read.
    #[allow(clippy::too_many_arguments)]
    fn migrate_block(
        &self,
        owner: TxnId,
        since: Savepoint,
        block: u32,
        rows: Option<&[RowId]>,
        source: &[usize],
        target: &[usize],
        transform: &mut dyn FnMut(&BlockRows) -> Result<ColumnFill, MigrateError>,
    ) -> Result<u64, MigrateError>;

    /// Adds the latest committed (or `owner`'s own) version of every row of a block to the index
    /// at this layout position. With a unique index, `duplicates` receives for each row that
    /// shares its key with one that was entered before the two of them, the row first. They share
    /// it as [`Table::share_key`] says, at a timestamp later than the row was read.
    fn index_block(
        &self,
        owner: TxnId,
        index: usize,
        block: u32,
        duplicates: &mut Vec<(RowId, RowId)>,
    ) -> Result<u64, EngineError>;

    /// The same for some rows of any blocks, ascending, none twice.
    fn index_rows(
        &self,
        owner: TxnId,
        index: usize,
        rows: &[RowId],
        duplicates: &mut Vec<(RowId, RowId)>,
    ) -> Result<u64, EngineError>;

    /// Whether two rows have the same key, without a NULL, in the index at this layout position:
    /// both in the version committed at one timestamp, now, or `owner`'s own. What other
    /// transactions have not committed does not count.
    fn share_key(&self, owner: TxnId, index: usize, a: RowId, b: RowId) -> bool;

    /// Why a row, as it is committed or as `own` has it, may not keep its key of the index at this layout
    /// position: another committed or own row has it (`Duplicate`), or one that somebody else is writing
    /// has or had it (`Busy`). None for a row that is not there, or has a NULL in its key. Who has asked
    /// this of every row that it wrote, and commits, leaves no two with one key
    /// ([`IndexSpec::unique_at_commit`]): of two that ask, the later meets what the earlier has written.
    fn rival(&self, own: TxnId, index: usize, row: RowId) -> Option<WriteStop>;

    /// Begins to build the index at this layout position from all rows at once, instead of calling
    /// `index_block` for each block. Until the build is loaded or dropped nobody enters anything
    /// into the index. `None` where the index has entries, or another build is under way.
    fn build_index(self: Arc<Self>, index: usize) -> Option<Box<dyn IndexBuild>>;
    /// Whether recovery has found all entries of the index at this layout position, which needs no build then.
    fn has_recovered(&self, index: usize) -> bool {
        let _ = index;
        false
    }

    /// Carry-over at commit: for a row that `txn` wrote under an older layout, enters the keys
    /// of its own version into the indexes at these layout positions.
    fn index_row(
        &self,
        txn: &mut dyn EngineTxn,
        rid: RowId,
        indexes: &[usize],
    ) -> Result<(), WriteStop>;

    /// Keeps the row ids below `tail` for [`Table::install`], but for those that are free: nobody else is
    /// given one. To be said again after a restart, before anybody inserts.
    fn reserve(&self, tail: RowId, is_free: &dyn Fn(RowId) -> bool) -> Result<(), EngineError>;

    /// As many row ids that nobody else is given, ascending, for [`Table::install`]. A crash gives back
    /// those that were not used.
    fn take_row_ids(&self, n: usize) -> Result<Vec<RowId>, EngineError>;

    /// Puts rows in place, in every index of this layout, too. `done` is called before a checkpoint can
    /// ask for a note ([`Installs::note`]) in place of this one. An error has done nothing.
    fn install(&self, install: &Install<'_>, done: &mut dyn FnMut()) -> Result<(), EngineError>;

    /// Who knows, for checkpoints, what has been installed. Returns the notes that recovery has found,
    /// oldest first.
    fn follow_installs(&self, installs: Arc<dyn Installs>) -> Vec<Vec<u8>>;

    /// For downcasts inside an engine.
    fn as_any(&self) -> &dyn Any;
}

/// An index that is being built. Dropped before it is loaded, it leaves the index as it was.
pub trait IndexBuild: Send + Sync {
    /// Takes the keys of the latest committed (or `owner`'s own) version of every row of a block.
    /// Each block once, in any order, on any thread. Returns how many rows there were.
    fn scan_block(&self, owner: TxnId, block: u32) -> Result<u64, EngineError>;

    /// Loads what was scanned into the index, after every block was. `go_on` is asked again and
    /// again, at last before the index is published, and may take the duplicates so far.
    fn load(&self, go_on: &mut dyn FnMut(&mut Loading) -> bool) -> Result<Loaded, EngineError>;
}

/// How far the loading of an index is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Loading {
    /// Entries loaded.
    pub entries: u64,
    /// Rows that had the same key of a unique index, without a NULL, when they were scanned, each
    /// with the next of them: candidates, for they were not scanned at one timestamp.
    pub duplicates: Vec<(RowId, RowId)>,
}

/// How loading an index ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Loaded {
    /// The index has an entry for every row as it was scanned. These duplicates nobody took.
    Whole(Loading),
    /// The index is empty: it was asked not to go on.
    Stopped,
}

/// An engine error or one from the transform that a migration ran.
#[derive(Debug)]
pub enum MigrateError {
    /// The engine failed.
    Engine(EngineError),
    /// The transform failed: a value that does not convert, a violated check.
    Transform(Box<dyn std::error::Error + Send + Sync>),
}

impl From<EngineError> for MigrateError {
    fn from(e: EngineError) -> Self {
        MigrateError::Engine(e)
    }
}

/// A point in a transaction to which it can roll back: the number of writes before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Savepoint(pub u32);

/// Whether a commit has its place in the log.
pub enum LogRoom {
    /// It has.
    Reserved,
    /// When this is ready, ask again.
    Wait(Pin<Box<dyn Future<Output = ()> + Send>>),
}

/// A transaction's part on one engine.
pub trait EngineTxn: Send + Sync + Any {
    /// Its id.
    fn id(&self) -> TxnId;
    /// Its current read view.
    fn snapshot(&self) -> &Arc<Snapshot>;
    /// Takes a new read view at the present (READ COMMITTED: before every statement).
    fn refresh(&mut self);
    /// Where it stands.
    fn savepoint(&self) -> Savepoint;
    /// Undoes every write after `to`. The rows are released.
    fn rollback_to(&mut self, to: Savepoint);
    /// Whether it has written anything (row locks count).
    fn wrote(&self) -> bool;
    /// The rows it has written in a space, each once.
    fn rows_written(&self, space: SpaceId) -> Vec<RowId>;
    /// Whether it has written or locked rows of a table, so that nobody else can write them.
    fn has_touched(&self, table: &dyn Table) -> bool {
        !self.rows_written(table.space()).is_empty()
    }
    /// The spaces it has written.
    fn spaces_written(&self) -> Vec<SpaceId>;
    /// From its commit on, the rows of these spaces are kept for `keeper` as of that commit, until
    /// [`Engine::release`]: across restarts, and without holding other spaces' garbage back.
    /// A write like any other: it is undone by a rollback to an earlier savepoint, and may fail.
    /// Keepers are the caller's numbers; none keeps twice, not even when it has been released.
    fn keep(&mut self, keeper: u64, spaces: &[SpaceId]) -> Result<(), EngineError>;
    /// From its commit on these spaces are closed to everybody but those who open them by [`Engine::open_closed`],
    /// for their rows go elsewhere: nobody else writes them at a later timestamp, or reads them at one. A write like
    /// any other: it is undone by a rollback to an earlier savepoint. Of engines that are shared.
    fn close(&mut self, spaces: &[SpaceId]) -> Result<(), EngineError> {
        let _ = spaces;
        Err(EngineError::Refused {
            state: crate::error::SqlState::FEATURE_NOT_SUPPORTED,
            message: "this engine closes no tables to other servers".into(),
        })
    }
    /// The longest single wait for a lock that its commit may need; none: as long as it takes.
    fn set_lock_timeout(&mut self, _timeout: Option<Duration>) {}

    /// Before its commit: which of what is built for it ([`Table::online_indexes`]) it still has. The rest is given up.
    fn retain_builds(&mut self, _is_kept: &dyn Fn(SpaceId, BuildOf) -> bool) {}
    /// Makes certain that what the commit logs has its place, so that nothing waits between
    /// [`EngineTxn::pre_commit`] and the verdict. Whoever is told to wait waits, and asks again; nothing is
    /// written in between. A retreat gives the place back.
    fn reserve_log(&mut self) -> Result<LogRoom, EngineError>;
    /// Takes a commit timestamp. Readers that meet its versions at or above it wait from now on.
    fn pre_commit(&mut self) -> Ts;
    /// Gives the commit timestamp back and goes on as if `pre_commit` had not been called.
    fn retreat(&mut self);
    /// Logs the transaction, makes it visible, stamps its versions. Returns the log position at
    /// which it is durable. With nothing written there is nothing to log.
    fn post_commit(self: Box<Self>) -> Result<Lsn, EngineError>;
    /// Restores every row.
    fn abort(self: Box<Self>);
    /// The transaction's part on the engine beside the anchor, for that engine's tables; begun here if there is none.
    fn beside(&mut self) -> Result<&mut dyn Any, EngineError> {
        Err(EngineError::Refused {
            state: crate::error::SqlState::INTERNAL_ERROR,
            message: "this transaction has one engine".into(),
        })
    }
    /// For downcasts inside an engine.
    fn as_any_mut(&mut self) -> &mut dyn Any;
}

/// A wait for what another server has.
pub type Elsewhere = Pin<Box<dyn Future<Output = Result<(), EngineError>> + Send>>;

/// See [`Engine::unknown_change`].
pub type UnknownChange = Pin<Box<dyn Future<Output = Result<bool, EngineError>> + Send>>;

/// How much [`Engine::vacuum`] does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vacuum {
    /// Files are written again where that may free a tenth of them.
    Worthwhile,
    /// Files are written again wherever that may free anything.
    Everything,
}

/// An engine.
pub trait Engine: Send + Sync + 'static {
    /// `memory`, `disk`: the word after USING.
    fn name(&self) -> &'static str;
    /// Where rows can be.
    fn homes(&self) -> &[Home] {
        &[Home::Memory]
    }

    /// Makes an empty row space. Not transactional: the catalog decides who sees it.
    fn create_space(&self, space: SpaceId) -> Result<(), EngineError>;
    /// Forgets a row space and its indexes. Readers that still have it open keep it alive.
    fn drop_space(&self, space: SpaceId);
    /// Every row space that exists.
    fn spaces(&self) -> Vec<SpaceId>;
    /// A space under a layout. Columns and indexes it has not met yet are declared (durably,
    /// before any row that uses them); a new index is empty.
    fn open(&self, space: SpaceId, layout: Arc<Layout>) -> Result<Arc<dyn Table>, EngineError>;
    /// The same for whoever moves the rows of a space that is closed ([`EngineTxn::close`]), or may be.
    fn open_closed(
        &self,
        space: SpaceId,
        layout: Arc<Layout>,
    ) -> Result<Arc<dyn Table>, EngineError> {
        self.open(space, layout)
    }
    /// Takes a column away from every block. No snapshot may need it any more.
    fn drop_column(&self, space: SpaceId, column: ColumnId);
    /// Forgets an index. No snapshot may need it any more.
    fn drop_index(&self, space: SpaceId, index: IndexId);
    /// After recovery: forgets the indexes of a space but these, which nobody else knows.
    fn retain_indexes(&self, space: SpaceId, known: &[IndexId]) {
        let _ = (space, known);
    }

    /// Begins a transaction with a read view at the present. Ids are the caller's and unique.
    fn begin(&self, id: TxnId) -> Box<dyn EngineTxn>;
    /// A registered read view at the present that belongs to no transaction. It is read as of its timestamp only:
    /// what is between it and the next view may go.
    fn snapshot(&self) -> Arc<Snapshot> {
        self.snapshot_for(TxnId(0))
    }
    /// The same, taken for a transaction, so that people can see whose it is.
    fn snapshot_for(&self, holder: TxnId) -> Arc<Snapshot>;
    /// A registered read view at the present, while which lives any later timestamp can be read as of, too.
    fn onward_snapshot(&self) -> Arc<Snapshot>;
    /// Who keeps old versions from being collected.
    fn held_back(&self) -> Vec<HeldBack>;
    /// A registered read view at the present with what `own` has written (0: nobody's), now and later. A check that
    /// looks at several rows takes one and reads them all in it: rows that move, or pass a key on, are then seen
    /// once, and at one time. What it has seen may have changed since ([`Table::changed_since`], [`Table::changer`]).
    fn fresh(&self, own: TxnId) -> Arc<Snapshot>;
    /// The newest timestamp.
    fn now(&self) -> Ts;
    /// No registered snapshot is older than this, but for those of [`Engine::kept`].
    fn oldest_snapshot(&self) -> Ts;
    /// The view that is kept for a keeper, at the commit timestamp of the transaction that kept:
    /// for reads of the kept spaces only. None if there is none (yet). It sees the same for as
    /// long as it lives, even beyond the release; like every view it holds back the garbage of
    /// its own lifetime in all spaces, so a long reader takes a new one now and then.
    fn kept(&self, keeper: u64) -> Option<Arc<Snapshot>>;
    /// The keepers for whom something is kept.
    fn keepers(&self) -> Vec<u64>;
    /// Nothing is kept for a keeper any more. Idempotent; logged, and durable with the log: a
    /// crash before that may leave the keeper as it was.
    fn release(&self, keeper: u64) -> Result<(), EngineError>;
    /// Waits until every transaction that has taken a commit timestamp so far is decided.
    fn settle(&self);
    /// Takes a timestamp that separates what came before from what comes after.
    fn barrier(&self) -> Ts;

    /// The log position up to which commits survive a crash.
    fn durable(&self) -> Lsn;
    /// The log position after everything committed so far.
    fn appended(&self) -> Lsn;
    /// The newest commit timestamp that surely survives a crash.
    fn durable_ts(&self) -> Ts;
    /// Makes the log durable up to a position in the caller's thread, which waits for the disk.
    /// False if that is under way already, perhaps without this position.
    fn make_durable(&self, lsn: Lsn) -> Result<bool, EngineError>;
    /// Calls back when the log is durable up to a position, or has failed. Wakes the flusher.
    fn when_durable(&self, lsn: Lsn, done: Box<dyn FnOnce(Result<(), EngineError>) + Send>);

    /// What to wait for that a [`WriteStop::Busy`] stands for, if its holder is no transaction of this server's.
    fn wait_elsewhere(&self, _holder: TxnId) -> Option<Elsewhere> {
        None
    }

    /// Of a view that was just taken: what to wait for if another server may have committed a change before it that closes
    /// rows, and that is not known here yet. True: one was, and is known by now, so the view is to be taken anew.
    fn unknown_change(&self, _ts: Ts) -> Option<UnknownChange> {
        None
    }

    /// Whether other servers have the same database, and change what is there.
    fn is_shared(&self) -> bool {
        false
    }

    /// Rows of a space are to be with those of another ([`Layout::row_key`]): to be said before there are any.
    fn place_within(&self, _space: SpaceId, _other: SpaceId) -> Result<(), EngineError> {
        Ok(())
    }

    /// Whether this server does now what one of those that have the database is to do. Two may take themselves for it for a
    /// while.
    fn leads(&self) -> bool {
        true
    }

    /// Makes a note of what it is now, by whomever (nothing: there is none), and is durable when it returns. Of engines
    /// that are shared.
    fn change_note(
        &self,
        _key: u64,
        _change: &mut (dyn FnMut(Option<&[u8]>) -> Vec<u8> + Send),
    ) -> Result<(), EngineError> {
        unreachable!("nobody else changes its notes")
    }

    /// Writes a note of the upper crates into the log (sequence values), outside transactions.
    /// Recovery hands back the newest note of each key. An empty note is none.
    fn put_note(&self, key: u64, value: &[u8]) -> Result<Lsn, EngineError>;
    /// Takes a note back, of whatever is not there any more.
    fn drop_note(&self, key: u64) -> Result<Lsn, EngineError> {
        self.put_note(key, &[])
    }
    /// The newest note of each key, as recovered.
    fn notes(&self) -> Vec<(u64, Vec<u8>)>;

    /// Writes a checkpoint and cuts the log before it.
    fn checkpoint(&self) -> Result<(), EngineError>;
    /// Freezes those blocks of a space that can be now, however recently they were written to; returns
    /// how many there were.
    fn freeze(&self, _space: SpaceId) -> u64 {
        0
    }
    /// Gives back what spaces take for what nobody sees: freezes blocks of those in memory, collects old versions of
    /// those on disk and compacts their files, all or where it is worth it. Readers and writers go on.
    fn vacuum(&self, spaces: &[SpaceId], extent: Vacuum) -> Result<(), EngineError> {
        let _ = extent;
        for space in spaces {
            self.freeze(*space);
        }
        Ok(())
    }
    /// Whether equal strings are kept once in blocks that are frozen from now on, of these columns of a space;
    /// of all others the engine decides.
    fn set_dictionaries(&self, _space: SpaceId, _choices: Vec<(ColumnId, Dictionary)>) {}
    /// The state of a space's blocks; nothing but zeros if there is no such space.
    fn block_counts(&self, _space: SpaceId) -> BlockCounts {
        BlockCounts::default()
    }
    /// How it is doing, and each engine that is joined with it.
    fn figures(&self) -> Vec<EngineFigures> {
        vec![EngineFigures { memory_bytes: self.memory().0, ..EngineFigures::default() }]
    }
    /// Bytes in use and their limit.
    fn memory(&self) -> (u64, u64);
    /// Puts memory of a query on the same account, until [`Engine::return_memory`]; an error if there is no room.
    /// A part of the limit is always to be had: who has filled it finds what to delete.
    fn borrow_memory(&self, bytes: u64) -> Result<(), EngineError>;
    /// The same of memory that is in use already.
    fn borrow_memory_anyway(&self, bytes: u64);
    /// Takes it off the account again.
    fn return_memory(&self, bytes: u64);
    /// For downcasts by whoever made it.
    fn as_any(&self) -> &dyn Any;
}
