//! A schema change, bound and compiled: what the SQL crate hands down.

use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, RecordBatch};
use froglet_engine::{BlockRows, ColumnId, ColumnType, Dictionary, Home, KeyPart, Snapshot, Value};

use crate::catalog::TableVersion;
use crate::def::{
    ColumnDef, Expression, ForeignKeyAction, IndexNotes, ObjectId, SequenceDef, SqlType, Timing,
};
use crate::plain::PlainDef;
use crate::role::RoleChange;

/// An error of a transform or check: carries its own SQLSTATE.
pub type CompiledError = crate::error::SchemaError;

/// Computes a column from others of the same row.
pub trait Transform: Send + Sync {
    /// The columns it reads. It is given batches of exactly these, in this order, named anyhow.
    fn inputs(&self) -> &[ColumnId];
    /// As many values as the batch has rows, in the target column's Arrow type.
    fn eval(&self, batch: &RecordBatch) -> Result<ArrayRef, CompiledError>;
    /// Whether it may give another value for the same row each time.
    fn is_volatile(&self) -> bool {
        false
    }
}

/// A condition on a row.
pub trait Check: Send + Sync {
    /// The columns it reads, as for [`Transform::inputs`].
    fn inputs(&self) -> &[ColumnId];
    /// For each row: true or NULL, it holds; false, it is violated.
    fn eval(&self, batch: &RecordBatch) -> Result<BooleanArray, CompiledError>;
    /// The error for a violating row, which is given in the order of `inputs`.
    fn violation(&self, row: &[Value]) -> CompiledError;
    /// What another server makes it of ([`Recompile::check`](crate::Recompile::check)).
    fn recipe(&self) -> Option<&str> {
        None
    }
}

/// Makes at most one row from each row of a table.
pub trait RowQuery: Send + Sync {
    /// The columns it reads, as for [`Transform::inputs`]; behind them come those of its lookups.
    fn inputs(&self) -> &[ColumnId];
    /// What it makes of a batch.
    fn eval(&self, batch: &RecordBatch) -> Result<Made, CompiledError>;
    /// Tables whose rows go with those of the table, in order.
    fn lookups(&self) -> &[Lookup] {
        &[]
    }
    /// Columns of what it makes that may be other values each time, for the same row.
    fn drawn(&self) -> &[DrawnOutput] {
        &[]
    }
    /// Whether it may make a row of a row one time, and none the next.
    fn draws_rows(&self) -> bool {
        false
    }
    /// What it makes of a batch if what is drawn keeps none of its rows out.
    fn eval_keeping(&self, batch: &RecordBatch) -> Result<Made, CompiledError> {
        self.eval(batch)
    }
    /// The column of the table that a column of what it makes is, if it is just that.
    fn plain(&self, output: usize) -> Option<ColumnId>;
    /// The column of the table that a column of what it makes is, maybe in another type: equal values are equal there,
    /// different ones different, and NULL is NULL.
    fn converted(&self, output: usize) -> Option<ColumnId> {
        self.plain(output)
    }
    /// The column of the table of its one lookup that a column of what it makes is, if it is just that.
    fn looked_up(&self, _output: usize) -> Option<ColumnId> {
        None
    }
    /// If it makes one row of every row, and each of its columns is one of that row (inputs, and then
    /// those of lookups): their places there. Values are then moved one by one, without a batch.
    fn copies(&self) -> Option<&[usize]> {
        None
    }
}

/// A column of what a [`RowQuery`] makes that is drawn: by random(), nextval().
#[derive(Clone, Debug)]
pub struct DrawnOutput {
    /// Which.
    pub output: usize,
    /// Places among the inputs of what it is computed from beside.
    pub inputs: Vec<usize>,
}

/// A table of which at most one row goes with the row so far: its columns are appended. Where there is
/// none, nothing is made.
#[derive(Clone, Debug)]
pub struct Lookup {
    /// The table.
    pub table: ObjectId,
    /// Its columns that are appended.
    pub columns: Vec<ColumnId>,
    /// A unique key of it, in the key's order: the place in the row so far of each value, of the same
    /// type, and the column. For [`LazyQuery::Pairs`] any columns, and all that are equal to the table's.
    pub key: Vec<(usize, ColumnId)>,
}

/// What a [`RowQuery`] has made of a batch.
#[derive(Clone, Debug)]
pub struct Made {
    /// The rows of the batch of which it makes one, ascending.
    pub rows: Vec<usize>,
    /// As many values for each new column, in its Arrow type.
    pub columns: Vec<ArrayRef>,
}

/// Makes rows of those of several tables, unit by unit: what it makes of the rows of some units has
/// nothing to do with the rows of others.
pub trait UnitQuery: Send + Sync {
    /// What it reads. A table that it reads twice is here twice.
    fn inputs(&self) -> &[UnitInput];
    /// The unit of each of some rows of an input, the columns of which are given; never the greatest
    /// number.
    fn units(&self, input: usize, rows: &BlockRows) -> Result<Vec<u64>, CompiledError>;
    /// A number for each of some rows of an input, another one if any of its values is another: but for
    /// one of 2^64 changes.
    fn prints(&self, input: usize, rows: &BlockRows) -> Result<Vec<u64>, CompiledError>;
    /// The input of which each row makes rows of its own, of the other inputs' rows that are of its
    /// unit, if there is such. Then the unit of a row that it makes is the id of that row.
    fn driver(&self) -> Option<usize>;
    /// The columns of an input by whose values its rows are told apart into units, in an order that all
    /// inputs have, if that is how: for a table that is made lazily.
    fn key(&self, input: usize) -> Option<Vec<ColumnId>>;
    /// Whether a table that is made lazily is made all at once: nothing is asked of keys, origins and covers then.
    fn is_whole(&self) -> bool {
        false
    }
    /// The column of an input that a column of what it makes is, if it is just that, and every row that is
    /// made is made of a row of that input.
    fn origin(&self, output: usize) -> Option<(usize, ColumnId)>;
    /// Columns of what it makes of which no two rows have the same values, NULL being one; if there are such.
    fn unique(&self) -> Option<&[usize]>;
    /// Inputs such that every row that is made is made of a row of one of them; none, if there are none.
    fn covers(&self) -> &[usize];
    /// Hands over what it makes of these rows: the unit of each row that it makes, and the new columns
    /// in their Arrow types. It may also make rows of units of which it is given none.
    fn eval(&self, rows: Arc<dyn UnitRows>, make: &mut Makes<'_>) -> Result<(), CompiledError>;
}

/// Takes what a [`UnitQuery`] has made: units, columns.
pub type Makes<'a> = dyn FnMut(&[u64], &[ArrayRef]) -> Result<(), CompiledError> + 'a;

/// What a [`UnitQuery`] reads.
#[derive(Clone, Debug)]
pub enum UnitInput {
    /// Columns of a table, as for [`Transform::inputs`].
    Table(ObjectId, Vec<ColumnId>),
    /// All that an earlier stage has made.
    Stage(usize),
}

impl UnitInput {
    /// The table, if it is one.
    fn table(&self) -> Option<ObjectId> {
        match self {
            UnitInput::Table(table, _) => Some(*table),
            UnitInput::Stage(_) => None,
        }
    }
}

/// Rows for a [`UnitQuery`], in parts that may be read in any order, on any thread, once each.
pub trait UnitRows: Send + Sync {
    /// How many parts an input has.
    fn parts(&self, input: usize) -> u32;
    /// A part: rows, and the unit of each; of the driver's rows their ids.
    fn part(&self, input: usize, number: u32) -> Result<(RecordBatch, Vec<u64>), CompiledError>;
    /// On how many threads they are to be read.
    fn threads(&self) -> usize;
    /// For tables that are read and are no inputs.
    fn snapshot(&self) -> Arc<Snapshot>;
}

/// The query of a table that is made of others.
#[derive(Clone)]
pub enum TableQuery {
    /// The unit is a row of one table.
    Rows {
        /// The table.
        source: ObjectId,
        /// What is made of each row.
        query: Arc<dyn RowQuery>,
    },
    /// Rows are made when they are needed, after the commit.
    Lazy {
        /// What is made: always the same.
        query: LazyQuery,
        /// What keeps it from failing for some row.
        verify: LazyVerify,
        /// What it can be compiled of after a restart.
        recipe: String,
        /// What makes them before the commit, if its transaction turns out to need them there.
        fallback: Option<Arc<TableQuery>>,
    },
    /// The query has units of its own.
    Units {
        /// What is made before it, in order: a stage may read those before it.
        stages: Vec<Stage>,
        /// What makes the table.
        query: Arc<dyn UnitQuery>,
    },
}

impl TableQuery {
    /// The tables that it reads.
    pub(crate) fn tables(&self) -> Vec<ObjectId> {
        match self {
            TableQuery::Rows { source, .. } => vec![*source],
            TableQuery::Lazy { query, .. } => query.tables(),
            TableQuery::Units { stages, query } => {
                let queries = stages.iter().map(|stage| &stage.query).chain([query]);
                queries.flat_map(|query| query.inputs()).filter_map(UnitInput::table).collect()
            }
        }
    }
}

/// The query of a table that is made lazily.
#[derive(Clone)]
pub enum LazyQuery {
    /// Row by row of a table.
    Rows(ObjectId, Arc<dyn RowQuery>),
    /// Pair by pair, of a row of a table and one of those that its one lookup finds.
    Pairs(ObjectId, Arc<dyn RowQuery>),
    /// Key by key: it reads tables alone, and no stages.
    Units(Arc<dyn UnitQuery>),
}

/// What has to hold of all rows for a query not to fail for any, after its table is committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LazyVerify {
    /// Nothing.
    Nothing,
    /// That it does not: it is run over every row of its one table.
    Query,
    /// These integers are at most so far from 0.
    Within(Vec<(ObjectId, ColumnId)>, i64),
}

impl LazyQuery {
    /// The tables that it reads, in its order.
    pub fn tables(&self) -> Vec<ObjectId> {
        match self {
            LazyQuery::Rows(source, query) | LazyQuery::Pairs(source, query) => {
                let lookups = query.lookups().iter().map(|lookup| lookup.table);
                std::iter::once(*source).chain(lookups).collect()
            }
            LazyQuery::Units(query) => query.inputs().iter().filter_map(UnitInput::table).collect(),
        }
    }
}

/// The new type of a column.
#[derive(Clone)]
pub struct NewType {
    /// The column.
    pub column: String,
    /// As stored.
    pub ty: ColumnType,
    /// As declared.
    pub sql_type: SqlType,
    /// How cells are converted; `None` where they stay as they are.
    pub using: Option<Arc<dyn Transform>>,
    /// They are converted after the commit.
    pub lazily: Option<LazyFill>,
    /// Equal values stay equal, to each other and to values of other columns, and different ones different.
    pub is_exact: bool,
    /// The default, converted.
    pub default: Option<Expression>,
}

/// A table between those that a query reads and the one that it makes: it follows the ones, and is
/// followed by the other, until the commit. Nobody else sees it.
#[derive(Clone)]
pub struct Stage {
    /// Its columns.
    pub columns: Vec<NewColumn>,
    /// What makes it.
    pub query: Arc<dyn UnitQuery>,
}

/// Where the values of a new column come from.
#[derive(Clone)]
pub enum Fill {
    /// The same for every row: nothing is copied.
    Constant(Value),
    /// Computed for each row (volatile defaults too).
    Compute(Arc<dyn Transform>, Option<LazyFill>),
}

/// A column is to be computed lazily: it gives the same whenever it is.
#[derive(Clone, Debug)]
pub struct LazyFill {
    /// What the transform can be compiled of after a restart.
    pub recipe: String,
    /// It may fail for some row.
    pub may_fail: bool,
    /// Where it gives NULL, that must not be.
    pub not_null: bool,
}

impl LazyFill {
    /// Whether it is run over every row before the commit.
    pub fn is_verified(&self) -> bool {
        self.may_fail || self.not_null
    }
}

/// A column to be made.
#[derive(Clone, Debug)]
pub struct NewColumn {
    /// Its name.
    pub name: String,
    /// As stored.
    pub ty: ColumnType,
    /// As declared.
    pub sql_type: SqlType,
    /// NOT NULL
    pub not_null: bool,
    /// DEFAULT
    pub default: Option<Expression>,
}

/// An index to be made. `None` names are chosen as PostgreSQL does.
#[derive(Clone, Default)]
pub struct NewIndex {
    /// Its name.
    pub name: Option<String>,
    /// Column names with their order, for tables that are made in the same breath; see
    /// [`NewTable`]. For existing tables the ids are taken from the table's version.
    pub columns: Vec<NewKeyPart>,
    /// UNIQUE
    pub unique: bool,
    /// Of a deferrable constraint: in place of `unique`.
    pub unique_at_commit: bool,
    /// NULLS NOT DISTINCT
    pub nulls_equal: bool,
    /// Hidden columns, by whose names `columns` may name them.
    pub hidden: Vec<NewHidden>,
    /// What its name is made of, if it has none; the columns', if this is empty.
    pub name_parts: Vec<String>,
    /// What else is said of it.
    pub notes: IndexNotes,
}

/// A hidden column of a new index.
#[derive(Clone)]
pub struct NewHidden {
    /// The column. Its name begins with a NUL.
    pub column: NewColumn,
    /// What computes it.
    pub transform: Arc<dyn Transform>,
    /// Its expression, as errors show it.
    pub shown: String,
}

/// One part of a new index, by column name.
#[derive(Clone, Debug)]
pub struct NewKeyPart {
    /// The column.
    pub column: String,
    /// DESC
    pub descending: bool,
    /// NULLS FIRST
    pub nulls_first: bool,
}

impl NewKeyPart {
    /// Ascending, NULLs last.
    pub fn plain(column: impl Into<String>) -> NewKeyPart {
        NewKeyPart { column: column.into(), descending: false, nulls_first: false }
    }

    /// With the column resolved.
    pub fn bound(&self, column: ColumnId) -> KeyPart {
        KeyPart { column, descending: self.descending, nulls_first: self.nulls_first }
    }
}

/// A primary or unique key to be made.
#[derive(Clone, Debug, Default)]
pub struct NewKey {
    /// Its name.
    pub name: Option<String>,
    /// Its columns.
    pub columns: Vec<String>,
    /// NULLS NOT DISTINCT
    pub nulls_equal: bool,
    /// When it is checked.
    pub timing: Timing,
}

impl NewKey {
    /// Of these columns, checked with each row.
    pub fn of<S: Into<String>>(columns: impl IntoIterator<Item = S>) -> NewKey {
        NewKey { columns: columns.into_iter().map(Into::into).collect(), ..NewKey::default() }
    }
}

/// A foreign key to be made.
#[derive(Clone, Debug)]
pub struct NewForeignKey {
    /// The child's columns.
    pub columns: Vec<String>,
    /// The parent table; `None` is the table itself.
    pub parent: Option<ObjectId>,
    /// The parent's columns; empty is its primary key.
    pub parent_columns: Vec<String>,
    /// ON DELETE
    pub on_delete: ForeignKeyAction,
    /// ON UPDATE
    pub on_update: ForeignKeyAction,
    /// DEFERRABLE
    pub timing: Timing,
}

/// A constraint to be made.
#[derive(Clone)]
pub enum NewConstraint {
    /// PRIMARY KEY
    PrimaryKey(NewKey),
    /// UNIQUE
    Unique(NewKey),
    /// CHECK
    Check {
        /// Its name.
        name: Option<String>,
        /// The condition.
        expression: Expression,
        /// The columns it reads.
        columns: Vec<String>,
        /// The condition, compiled; `None` for a table without rows (CREATE TABLE).
        check: Option<Arc<dyn Check>>,
    },
    /// FOREIGN KEY
    ForeignKey {
        /// Its name.
        name: Option<String>,
        /// What it demands.
        key: NewForeignKey,
    },
}

/// A table to be made.
#[derive(Clone)]
pub struct NewTable {
    /// Its schema.
    pub schema: String,
    /// Its name.
    pub name: String,
    /// Its columns.
    pub columns: Vec<NewColumn>,
    /// Its constraints.
    pub constraints: Vec<NewConstraint>,
    /// Its option `dictionary`.
    pub dictionary: Option<Dictionary>,
    /// Where its rows are to be.
    pub home: Home,
}

/// One change. Tables are named by the id that the statement's catalog version gave; columns and
/// constraints of them by name.
#[derive(Clone)]
#[allow(missing_docs)] // the fields are what their SQL says
pub enum Change {
    CreateTable(NewTable),
    /// CREATE TABLE AS: the new table has the rows that `query` makes of those of others, as they are
    /// when the transaction commits.
    CreateTableAs {
        table: NewTable,
        query: TableQuery,
    },
    DropTable {
        table: ObjectId,
        cascade: bool,
    },
    /// Rows go at commit, whatever their number.
    Truncate {
        table: ObjectId,
    },
    /// To this schema and name, with its indexes.
    RenameTable {
        table: ObjectId,
        schema: String,
        name: String,
    },
    AddColumn {
        table: ObjectId,
        column: NewColumn,
        fill: Fill,
    },
    DropColumn {
        table: ObjectId,
        column: String,
        cascade: bool,
    },
    /// A column that was dropped comes back to this place, with the values that rows still have.
    RestoreColumn {
        table: ObjectId,
        column: ColumnDef,
        at: usize,
    },
    RenameColumn {
        table: ObjectId,
        column: String,
        name: String,
    },
    /// `using` computes the new cells; `None` where the stored type stays and every old value
    /// fits (varchar(10) to text). `checks` are the conditions over the column, compiled for its
    /// new type: among their inputs is the column under its old id.
    /// Other types of columns, each once. What converts them reads rows as they were before the whole statement.
    AlterTypes {
        table: ObjectId,
        columns: Vec<NewType>,
        /// Conditions over any of them, to be verified for their new cells, by the ids that they had.
        checks: Vec<Arc<dyn Check>>,
        /// The table before the statement, if that has changed it since: it may have lost columns.
        before: Option<Arc<TableVersion>>,
    },
    /// `check` is true where the column is not NULL.
    SetNotNull {
        table: ObjectId,
        column: String,
        check: Arc<dyn Check>,
    },
    DropNotNull {
        table: ObjectId,
        column: String,
    },
    SetDefault {
        table: ObjectId,
        column: String,
        default: Option<Expression>,
    },
    /// SET ACCESS METHOD: where the table's rows are; `lazily`: they go there after the commit.
    SetHome {
        table: ObjectId,
        home: Home,
        lazily: bool,
    },
    /// The option `dictionary` of the table, or of a column.
    SetDictionary {
        table: ObjectId,
        column: Option<String>,
        dictionary: Option<Dictionary>,
    },
    /// NOT VALID: rows that are there are not looked at.
    AddNotValid {
        table: ObjectId,
        constraint: NewConstraint,
    },
    /// VALIDATE CONSTRAINT, with the check's condition.
    ValidateConstraint {
        table: ObjectId,
        name: String,
        check: Option<Arc<dyn Check>>,
    },
    /// A constraint by a unique index that is there, under the name of the constraint.
    AddConstraintOfIndex {
        table: ObjectId,
        index: ObjectId,
        name: String,
        primary: bool,
    },
    AddConstraint {
        table: ObjectId,
        constraint: NewConstraint,
    },
    DropConstraint {
        table: ObjectId,
        name: String,
        cascade: bool,
    },
    /// When a foreign key is checked.
    AlterConstraint {
        table: ObjectId,
        name: String,
        timing: Timing,
    },
    RenameConstraint {
        table: ObjectId,
        constraint: String,
        name: String,
    },
    CreateIndex {
        table: ObjectId,
        index: NewIndex,
    },
    /// By the index's own object id.
    DropIndex {
        table: ObjectId,
        index: ObjectId,
    },
    RenameIndex {
        table: ObjectId,
        index: ObjectId,
        name: String,
    },
    CreateSequence(SequenceDef),
    DropSequence {
        sequence: ObjectId,
    },
    AlterSequence(SequenceDef),
    /// An object without rows, under an id that it gets.
    CreatePlain(PlainDef),
    ReplacePlain(PlainDef),
    DropPlain {
        object: ObjectId,
    },
    /// Something of which recovery could make nothing.
    DropUnreadable {
        object: ObjectId,
        cascade: bool,
    },
    Role(RoleChange),
}
