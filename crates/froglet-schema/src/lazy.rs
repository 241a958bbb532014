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

pub(crate) mod moved;
pub(crate) mod moved_query;
mod moved_table;
pub(crate) mod rewritten;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::{Field, Schema};
use arrow_select::concat::concat;
use froglet_engine::{
    ColumnId, ColumnSpec, ColumnType, Engine, EngineError, Layout, ReadFailed, Row, Snapshot,
    SpaceId, SqlState, Table, TxnId, Value, batch,
};
use serde::{Deserialize, Serialize};

use crate::background::Background;
use crate::change::RowQuery;
use crate::course::{Begun, Course, ended};
use crate::def::{ObjectId, TableDef};
use crate::error::SchemaError;
use crate::lazy::rewritten::Computed;
use crate::lazy_rows::LazyRows;
use crate::status::{Detection, MigrationStatus};

/// Why a table is not made lazily, key by key.
pub const NO_WAY: &str = "no index begins with a column of the key that its rows share";

/// What a table's definition says of the migration that is making its rows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LazyDef {
    /// How it was begun.
    pub begun: Begun,
    /// What the query can be compiled of again; of a move nothing, as that makes every row what it is, but for what is
    /// computed.
    pub recipe: String,
    /// Of a move: columns that are computed, in order.
    #[serde(default)]
    pub computed: Vec<Computed>,
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
    /// In a cluster: whoever wants rows moves them in his own transaction, and in none before it.
    #[serde(default)]
    pub is_fused: bool,
    /// In a cluster: its rows are to be with those that they are made of.
    #[serde(default)]
    pub colocates: bool,
}

impl LazyDef {
    /// Whether it makes the rows of a table of those that the table has had elsewhere.
    pub fn is_move_of(&self, table: ObjectId) -> bool {
        self.source.id == table
    }

    /// Whether it computes what another does, and then more, of the same rows.
    pub fn goes_on_from(&self, earlier: &LazyDef) -> bool {
        self.source.space == earlier.source.space
            && !self.computed.is_empty()
            && self.computed.starts_with(&earlier.computed)
    }

    /// All tables that are read.
    pub fn sources(&self) -> impl Iterator<Item = &TableDef> {
        std::iter::once(&*self.source).chain(&self.lookups)
    }

    /// How many lazy migrations a row goes through at most, this one included.
    pub fn depth(&self) -> usize {
        let through = self.sources().filter_map(|source| source.lazy.as_ref());
        1 + through.map(|lazy| lazy.depth()).max().unwrap_or(0)
    }

    /// The row spaces that are read, those that it reads through included.
    pub fn spaces_read(&self) -> Vec<SpaceId> {
        let through = |source: &TableDef| source.lazy.as_ref().map(|lazy| lazy.spaces_read());
        let spaces = |source| through(source).unwrap_or_default().into_iter().chain([source.space]);
        self.sources().flat_map(spaces).collect()
    }
}

/// A table that is read.
#[derive(Clone)]
pub(crate) struct LazySource {
    /// As everybody has it.
    pub table: Arc<dyn Table>,
    /// As the owner sees it.
    pub seen: Arc<dyn Table>,
    /// What makes its rows, if they are being made lazily themselves.
    pub made_by: Option<Arc<LazyRows>>,
}

impl LazySource {
    /// Whether all its rows are where they are stored.
    pub fn is_whole(&self) -> bool {
        self.made_by.as_ref().is_none_or(|lazy| lazy.is_complete())
    }
}

/// What every lazy migration of a table has, whatever its units are.
pub(crate) struct LazyState {
    pub def: LazyDef,
    pub course: Course,
    /// Types of what the query makes.
    pub output_types: Vec<ColumnType>,
    /// Its transaction has said that the sources are to be kept.
    is_keeping: AtomicBool,
    /// Its owner has asked for what only a table whose rows are there can do.
    is_outgrown: AtomicBool,
}

/// A lazy migration, as the catalog drives it.
pub(crate) trait LazyMigration: Background {
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
    /// The table that rows are moved out of.
    fn moved_source(&self) -> Option<&LazySource> {
        None
    }
    /// What becomes of each row that is moved, if that is made of nothing else.
    fn moved_rows(&self) -> Option<Arc<dyn RowQuery>> {
        None
    }
    /// Blocks of the first source.
    fn source_blocks(&self) -> u32;
    /// Whether it is committed.
    fn is_live(&self) -> bool;
    /// Blocks that are done, and all of them.
    fn progress(&self) -> (u64, u64);
    /// About how many rows are not there yet.
    fn rows_left(&self) -> u64;
    /// The column of a source, by its number, that a column of the target is, if it is just that.
    fn origin(&self, id: ColumnId) -> Option<(usize, ColumnId)>;
    /// Whether its sources are closed to all others from the commit on, instead of being kept as they were.
    fn closes_sources(&self) -> bool {
        false
    }
    /// Whether no two rows of the target have the same values in these columns.
    fn is_unique(&self, columns: &[ColumnId]) -> bool;
    /// The table as everybody reads and writes it.
    fn over(self: Arc<Self>, table: Arc<dyn Table>) -> Arc<dyn Table>;
    /// It, if each row of the target has a place from the beginning: so that the table can be read past what
    /// is migrated.
    fn by_rows(self: Arc<Self>) -> Option<Arc<LazyRows>> {
        None
    }

    /// One row of `froglet.migrations`.
    fn status(&self) -> MigrationStatus {
        self.course().status(self.progress(), self.rows_left())
    }

    /// What is to be remembered of it if the transaction that ends it commits now. Where others read through
    /// it, what is left is made with what they make.
    fn status_at_end(&self, has_readers: bool) -> MigrationStatus {
        let left = "the table was dropped, or lost its rows, before all were moved";
        ended(self.status(), (!self.is_complete() && !has_readers).then_some(left))
    }
}

impl LazyState {
    pub fn new(def: LazyDef, target: &TableDef, owner: TxnId) -> LazyState {
        // Of one that the table has no more nobody asks for the values.
        let type_of = |id: &ColumnId| {
            let column = target.all_columns().find(|column| column.id == *id);
            column.map_or(ColumnType::Bool, |column| column.ty)
        };
        LazyState {
            output_types: def.outputs.iter().map(type_of).collect(),
            course: Course::new(def.begun.clone(), "table", target, owner),
            def,
            is_keeping: AtomicBool::new(false),
            is_outgrown: AtomicBool::new(false),
        }
    }

    /// Its owner is refused something, as the rows are not there yet: `lazy_fallback.rs` may do better.
    pub fn outgrow(&self) {
        self.is_outgrown.store(true, Ordering::SeqCst);
    }

    /// Whether its owner was refused something.
    pub fn is_outgrown(&self) -> bool {
        self.is_outgrown.load(Ordering::SeqCst)
    }

    /// For whom the engine keeps the sources.
    pub fn keeper(&self) -> u64 {
        u64::from(self.course.space.0)
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

    /// Whether it makes the rows of its source itself, elsewhere.
    pub fn is_move(&self) -> bool {
        self.def.is_move_of(self.course.table)
    }

    /// Whether it moves a table's rows out of a space into the one that a definition has.
    pub fn moves(&self, from: SpaceId, def: &TableDef) -> bool {
        self.is_move() && self.is_of(Some(def)) && self.def.source.space == from
    }

    /// Whether it makes the rows of a table under a definition.
    pub fn is_of(&self, def: Option<&TableDef>) -> bool {
        def.is_some_and(|def| def.space == self.course.space && def.lazy.is_some())
    }

    /// A definition without it, of its table.
    pub fn struck_from(&self, def: &TableDef) -> Option<TableDef> {
        self.is_of(Some(def)).then(|| TableDef { lazy: None, ..def.clone() })
    }

    /// The place of a column of the table among what the query makes.
    pub fn output(&self, id: ColumnId) -> Option<usize> {
        self.def.outputs.iter().position(|output| *output == id)
    }

    /// What a note that cannot be read means.
    pub fn broken(&self) -> SchemaError {
        SchemaError::refused(
            SqlState::DATA_CORRUPTED,
            format!("what is migrated of table \"{}\" cannot be read", self.course.table_name),
        )
    }
}

/// Columns that were made in parts.
pub(crate) fn whole_columns(made: &[Vec<ArrayRef>], types: &[ColumnType]) -> Vec<ArrayRef> {
    let whole = made.iter().zip(types).map(|(parts, ty)| {
        let parts: Vec<&dyn Array> = parts.iter().map(AsRef::as_ref).collect();
        match parts.is_empty() {
            true => batch::array_of(*ty, std::iter::empty()),
            false => concat(&parts).expect("parts are of one type"),
        }
    });
    whole.collect()
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

    /// Appends the columns at these places of the layout of one row, of which `made` gives what the query
    /// makes.
    pub fn append(&self, places: &[usize], made: impl Fn(usize) -> Value, out: &mut Row) {
        let value = |at: &usize| match &self.0[*at] {
            Ok(output) => made(*output),
            Err(missing) => missing.clone(),
        };
        out.extend(places.iter().map(value));
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

/// What is made for a reader. What a query may fail at was looked for before the commit, but it needs memory.
pub(crate) fn made<T>(made: Result<T, SchemaError>) -> T {
    made.unwrap_or_else(|error| ReadFailed::unwind(as_engine(&error)))
}

/// For who has only an engine's errors.
pub(crate) fn as_engine(error: &SchemaError) -> EngineError {
    match error {
        SchemaError::Engine(e) => e.clone(),
        other => EngineError::Refused { state: other.sqlstate(), message: other.to_string() },
    }
}
