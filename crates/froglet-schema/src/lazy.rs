//! The lazy driver: a new table is there at once, its rows follow (BullFrog, sections 4.2 and 4.3).
//!
//! ```text
//!            CREATE TABLE AS          commit at F                     all is migrated
//!   owner    ├─ reads the query of the source as it sees it ─┤
//!   others                            ├─ read, write: what they touch is migrated first ─┤ an ordinary table
//!   background                             ├─ block after block, what is left ──────────┤
//! ```
//!
//! What is made at once, and what remembers it, depends on the query: rows of a table (`lazy_rows.rs`), or groups
//! and keys (`lazy_units.rs`). The table itself knows that it is not whole, and makes what is asked of it
//! (`lazy_table.rs`, `lazy_units_table.rs`). Here is what both have.
//!
//! L1: of a unit that is not migrated nobody has changed what it makes: whoever writes migrates first. So
//!     who has taken a snapshot at or after F and then finds it unmigrated sees what the query makes of
//!     the source as of F, whether he migrates it or not.
//! L2: a migrated row is installed without a version (`Table::install`): every snapshot sees it. It
//!     counts as committed at F, and no older snapshot knows the table.
//! L3: rows and the note that they are migrated are one record of the log. What a crash takes away is
//!     made again, and is the same: the query depends on nothing else (no volatile functions), and
//!     nobody's commit that came after is left without it, for it is later in the log.
//! L4: claims (`tracker.rs`) are held while rows are read, computed and installed, and never while
//!     anything is waited for. The background, whose thread may be kept from running, computes before: what
//!     is made of a unit is the same, whoever else is at it [L1], and is thrown away if he was first.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::{Field, Schema};
use froglet_engine::{
    ColumnId, ColumnSpec, ColumnType, Engine, EngineError, Layout, Snapshot, SpaceId, SqlState,
    Table, TxnId, Value, batch,
};
use froglet_txn::{Limits, aside};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::def::{ObjectId, TableDef};
use crate::error::SchemaError;
use crate::lazy_rows::LazyRows;
use crate::migration::now_us;
use crate::pace::Pace;
use crate::status::{Control, Detection, MigrationPhase, MigrationStatus};

/// What a query may fail at was looked for before the commit.
pub(crate) const VERIFIED: &str = "a query that may fail is verified before its table is committed";

/// What a table's definition says of the migration that is making its rows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LazyDef {
    /// The migration's number.
    pub migration: u64,
    /// The statement that began it.
    pub statement: String,
    /// What the query can be compiled of again.
    pub recipe: String,
    /// The source, as it was.
    pub source: Box<TableDef>,
    /// The tables whose rows go with the source's, as they were.
    pub lookups: Vec<TableDef>,
    /// The columns that the query makes.
    pub outputs: Vec<ColumnId>,
    /// Blocks that the source had at the commit: the rest belongs to nobody's snapshot, whatever writers
    /// that are carried over still put there.
    pub blocks: u32,
    /// Rows of a granule.
    pub granule_rows: u32,
    /// How it is found out that somebody else is at them.
    pub detection: Detection,
    /// How long after the commit, or a restart, the background begins.
    pub delay_ms: u64,
    /// The background begins at once, and does not rest.
    pub is_hybrid: bool,
    /// Microseconds since 1970 UTC.
    pub started_us: i64,
}

impl LazyDef {
    /// All tables that are read.
    pub fn sources(&self) -> impl Iterator<Item = &TableDef> {
        std::iter::once(&*self.source).chain(&self.lookups)
    }
}

/// A table that is read.
#[derive(Clone)]
pub(crate) struct LazySource {
    /// As everybody has it.
    pub table: Arc<dyn Table>,
    /// As the owner sees it.
    pub seen: Arc<dyn Table>,
}

/// What every lazy migration has, whatever its units are.
pub(crate) struct LazyState {
    pub def: LazyDef,
    /// The table that is made.
    pub table: ObjectId,
    table_name: String,
    /// Its row space.
    pub space: SpaceId,
    /// Types of what the query makes.
    pub output_types: Vec<ColumnType>,
    /// Whose it is until the commit.
    pub owner: TxnId,
    pub pace: Pace,
    /// There is nothing left, or nobody who would want it.
    ended: AtomicBool,
    rows_on_access: AtomicU64,
    rows_in_background: AtomicU64,
    in_background: AtomicBool,
    /// Its transaction has said that the sources are to be kept.
    is_keeping: AtomicBool,
    failure: Mutex<Option<String>>,
}

/// A lazy migration, as the catalog drives it.
pub(crate) trait LazyMigration: Send + Sync {
    /// What all have.
    fn state(&self) -> &LazyState;
    /// From now on everybody has the table. The engine keeps the sources for it as of the commit, when the
    /// first had so many blocks; `target` is the table with all its indexes, bare.
    fn go_live(
        &self,
        engine: Arc<dyn Engine>,
        target: Arc<dyn Table>,
        blocks: u32,
    ) -> Result<(), SchemaError>;
    /// Blocks of the first source.
    fn source_blocks(&self) -> u32;
    /// Whether it is committed.
    fn is_live(&self) -> bool;
    /// Whether every row is there.
    fn is_complete(&self) -> bool;
    /// Blocks of the source whose rows may be left.
    fn blocks(&self) -> u32;
    /// Makes sure that what is made of a block of the source is there: a little at a time, for as long as
    /// `goes_on`, which is asked while nothing is claimed.
    fn migrate_block(
        &self,
        block: u32,
        who: Who,
        goes_on: &mut dyn FnMut() -> bool,
    ) -> Result<(), SchemaError>;
    /// Makes sure that every row is there.
    fn migrate_all(&self, limits: &Limits) -> Result<(), SchemaError> {
        aside(|| {
            (0..self.blocks()).try_for_each(|block| {
                self.migrate_block(block, Who::Access, &mut || limits.check().is_ok())?;
                limits.check().map_err(SchemaError::from)
            })
        })
    }
    /// Blocks that are done, and all of them.
    fn progress(&self) -> (u64, u64);
    /// About how many rows are not there yet.
    fn rows_left(&self) -> u64;
    /// The column of a source, by its number, that a column of the target is, if it is just that.
    fn origin(&self, id: ColumnId) -> Option<(usize, ColumnId)>;
    /// Whether no two rows of the target have the same values in these columns.
    fn is_unique(&self, columns: &[ColumnId]) -> bool;
    /// The table as everybody reads and writes it.
    fn over(self: Arc<Self>, table: Arc<dyn Table>) -> Arc<dyn Table>;
    /// What a writer that has written to the source, and commits after the commit, is carried over to.
    fn takes_writers(self: Arc<Self>) -> Option<Arc<LazyRows>>;

    /// One row of `froglet.migrations`.
    fn status(&self) -> MigrationStatus {
        let (blocks_done, blocks) = self.progress();
        self.state().status(blocks_done, blocks, self.rows_left())
    }

    /// What is to be remembered of it if the transaction that ends it commits now.
    fn status_at_end(&self) -> MigrationStatus {
        let ended = MigrationStatus { ended_us: Some(now_us()), backlog: 0, ..self.status() };
        if self.is_complete() {
            return MigrationStatus { phase: MigrationPhase::Done, ..ended };
        }
        let error =
            Some("the table was dropped, or lost its rows, before all were moved".to_owned());
        MigrationStatus { phase: MigrationPhase::Aborted, error, ..ended }
    }
}

impl LazyState {
    pub fn new(def: LazyDef, target: &TableDef, owner: TxnId) -> LazyState {
        LazyState {
            def,
            table: target.id,
            table_name: target.name.clone(),
            space: target.space,
            output_types: target.columns.iter().map(|column| column.ty).collect(),
            owner,
            pace: Pace::default(),
            ended: AtomicBool::new(false),
            rows_on_access: AtomicU64::new(0),
            rows_in_background: AtomicU64::new(0),
            in_background: AtomicBool::new(false),
            is_keeping: AtomicBool::new(false),
            failure: Mutex::default(),
        }
    }

    /// How long after the commit the background begins.
    pub fn delay_ms(&self) -> u64 {
        if self.def.is_hybrid { 0 } else { self.def.delay_ms }
    }

    /// For whom the engine keeps the sources.
    pub fn keeper(&self) -> u64 {
        u64::from(self.space.0)
    }

    /// The view of the sources as of the commit: for one use.
    pub fn kept(&self, engine: &dyn Engine) -> Arc<Snapshot> {
        engine.kept(self.keeper()).expect("sources are kept while somebody may read them")
    }

    /// Whether the sources are to be kept from now on: true once.
    pub fn begins_to_keep(&self) -> bool {
        !self.is_keeping.swap(true, Ordering::SeqCst)
    }

    /// Whether it reads a row space.
    pub fn reads(&self, space: SpaceId) -> bool {
        self.def.sources().any(|source| source.space == space)
    }

    /// Nobody needs it any more.
    pub fn end(&self) {
        self.ended.store(true, Ordering::SeqCst);
    }

    /// Whether somebody still needs it.
    pub fn goes_on(&self) -> bool {
        !self.ended.load(Ordering::SeqCst)
    }

    /// Whether it makes the rows of a table under a definition.
    pub fn is_of(&self, def: Option<&TableDef>) -> bool {
        def.is_some_and(|def| def.space == self.space && def.lazy.is_some())
    }

    /// So many rows were made.
    pub fn count(&self, who: Who, rows: usize) {
        let counter = match who {
            Who::Access => &self.rows_on_access,
            Who::Background => &self.rows_in_background,
        };
        counter.fetch_add(rows as u64, Ordering::Relaxed);
    }

    /// It migrates what nobody has asked for.
    pub fn set_in_background(&self) {
        self.in_background.store(true, Ordering::Relaxed);
    }

    /// Rows that it has migrated so.
    pub fn rows_in_background(&self) -> u64 {
        self.rows_in_background.load(Ordering::Relaxed)
    }

    /// The background has failed, or goes on; what is touched is migrated all the same.
    pub fn fail(&self, error: Option<&SchemaError>) {
        *self.failure.lock() = error.map(ToString::to_string);
    }

    /// The place of a column of the table among what the query makes.
    pub fn output(&self, id: ColumnId) -> Option<usize> {
        self.def.outputs.iter().position(|output| *output == id)
    }

    /// What a note that cannot be read means.
    pub fn broken(&self) -> SchemaError {
        SchemaError::refused(
            SqlState::DATA_CORRUPTED,
            format!("what is migrated of table \"{}\" cannot be read", self.table_name),
        )
    }

    /// Does what an operator says.
    pub fn control(&self, control: Control) -> Result<(), SchemaError> {
        match control {
            Control::Pause => self.pace.pause(true),
            Control::Resume => self.pace.pause(false),
            Control::Throttle(rows_per_second) => self.pace.throttle(rows_per_second),
            Control::Cancel => {
                let (id, table) = (self.def.migration, &self.table_name);
                return Err(SchemaError::refused(
                    SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
                    format!("lazy migration {id} of table \"{table}\" cannot be cancelled"),
                )
                .with_detail(
                    "Its schema change is committed, and in use; rows are still to be moved.",
                )
                .with_hint(format!(
                    "froglet.pause_migration({id}) leaves them until they are touched."
                )));
            }
        }
        Ok(())
    }

    /// One row of `froglet.migrations`.
    fn status(&self, blocks_done: u64, blocks: u64, backlog: u64) -> MigrationStatus {
        MigrationStatus {
            id: self.def.migration,
            txn: self.owner.0,
            table: self.table,
            table_name: self.table_name.clone(),
            kind: "table".to_owned(),
            statement: self.def.statement.clone(),
            phase: match self.in_background.load(Ordering::Relaxed) {
                true => MigrationPhase::Background,
                false => MigrationPhase::Lazy,
            },
            blocks_done,
            blocks,
            rows_scanned: self.rows_in_background.load(Ordering::Relaxed),
            rows_on_access: self.rows_on_access.load(Ordering::Relaxed),
            rows_to_load: 0,
            rows_loaded: 0,
            rows_captured: 0,
            backlog,
            started_us: self.def.started_us,
            ended_us: None,
            error: self.failure.lock().clone(),
            is_paused: self.pace.is_paused(),
            rows_per_second: self.pace.limit(),
        }
    }
}

/// A batch of columns that are named anyhow.
pub(crate) fn batch_with(columns: Vec<ArrayRef>, rows: usize) -> RecordBatch {
    let field = |(at, array): (usize, &ArrayRef)| {
        Field::new(format!("c{at}"), array.data_type().clone(), true)
    };
    let fields: Vec<Field> = columns.iter().enumerate().map(field).collect();
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options)
        .expect("every column has a value for each row")
}

/// For each column of a layout the query's output that it is, or what it has of rows that were made
/// before it was added.
pub(crate) struct Columns(Vec<Result<usize, Value>>);

impl Columns {
    /// The columns of a layout.
    pub fn of(layout: &Layout, outputs: &[ColumnId]) -> Columns {
        let column = |c: &ColumnSpec| {
            outputs.iter().position(|output| *output == c.id).ok_or_else(|| c.missing.clone())
        };
        Columns(layout.columns.iter().map(column).collect())
    }

    /// What was made, in all columns of the layout.
    pub fn whole(&self, layout: &Layout, made: &[ArrayRef], rows: usize) -> RecordBatch {
        let all: Vec<usize> = (0..layout.columns.len()).collect();
        self.project(layout, &all, made, rows)
    }

    /// What was made, in the columns at these places of the layout.
    pub fn project(
        &self,
        layout: &Layout,
        places: &[usize],
        made: &[ArrayRef],
        rows: usize,
    ) -> RecordBatch {
        let array = |&at: &usize| match &self.0[at] {
            Ok(output) => made[*output].clone(),
            Err(missing) => {
                batch::array_of(layout.columns[at].ty, std::iter::repeat_n(missing, rows))
            }
        };
        let arrays: Vec<ArrayRef> = places.iter().map(array).collect();
        batch_with(arrays, rows)
    }
}

/// Who migrates.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Who {
    /// A statement that needs the rows.
    Access,
    Background,
}

/// For who has only an engine's errors.
pub(crate) fn as_engine(error: &SchemaError) -> EngineError {
    match error {
        SchemaError::Engine(e) => e.clone(),
        other => EngineError::Refused { state: other.sqlstate(), message: other.to_string() },
    }
}
