//! Indexes over rows that are there, and conditions on them, of a table that several servers write: they go on.
//!
//! ```text
//!   build    ─▶ every server keeps its entries ─▶ entries of all rows ─▶ enter_own ─▶ commit: it is there for all
//!   verify   ─▶ every server looks at what it writes ─▶ all rows are looked at     ─▶ commit: it holds for all
//! ```
//! A foreign key is verified so, too: what is looked at are parents of what is written, and children of what goes.

use std::pin::Pin;
use std::sync::Arc;

use crate::{ColumnId, EngineError, EngineTxn, IndexId, Row, Snapshot, Table, Value};

/// What is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum BuildOf {
    /// An index.
    Index(IndexId),
    /// A constraint is verified, of this object id.
    Constraint(u32),
    /// That a column is not NULL.
    NotNull(ColumnId),
    /// That something can be made of each row, under a number of its own.
    Made(u32),
    /// A foreign key, of this object id.
    ForeignKey(u32),
}

/// How a build has ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Built {
    /// Every row that is committed has its entry, or was looked at.
    Whole,
    /// Two rows share a key of an index that is to be unique: its values.
    Duplicate(Row),
    /// The condition is false for a row: its columns.
    Violated(Row),
}

/// A build under way. It goes on when this is dropped, until its transaction ends.
pub type OnlineBuild = Pin<Box<dyn Future<Output = Result<Built, EngineError>> + Send>>;

/// A condition on each row.
pub trait RowCheck: Send + Sync {
    /// The first of some rows, each of the columns that it reads, for which it is false.
    fn first_violated(&self, rows: &[Row]) -> Result<Option<usize>, EngineError>;
}

/// No column is NULL.
pub struct NoNull;

impl RowCheck for NoNull {
    fn first_violated(&self, rows: &[Row]) -> Result<Option<usize>, EngineError> {
        Ok(rows.iter().position(|row| row.iter().any(Value::is_null)))
    }
}

/// A condition that is to hold from a commit on.
pub struct OnlineCheck {
    /// What it is for.
    pub of: BuildOf,
    /// The columns that it reads, by layout positions.
    pub columns: Vec<usize>,
    /// It.
    pub check: Arc<dyn RowCheck>,
    /// What another server makes it of; none: no column is NULL.
    pub recipe: Option<String>,
    /// The error of its transaction where it is false.
    pub violated: EngineError,
}

/// A foreign key that is to hold from a commit on.
pub struct OnlineForeignKey<'a> {
    /// Its constraint's object id.
    pub id: u32,
    /// The child's columns, by layout positions, in the order of the parent's key.
    pub columns: Vec<usize>,
    /// The parent, of the same engine.
    pub parent: &'a dyn Table,
    /// The layout position of its unique index.
    pub parent_index: usize,
    /// Everybody knows of it, and keeps to it: only rows that are there are looked at.
    pub is_known: bool,
    /// It is to hold for rows that are there, and for what is written meanwhile; else only for what is written from then on.
    pub is_verified: bool,
    /// The error of its transaction where it has become false.
    pub violated: EngineError,
}

/// Rows that others refer to, of an engine in which no two transactions hold a row at once.
pub trait Referenced {
    /// Of some keys of a unique index, each of them whole and without NULLs, the first that no row has, as a view sees it.
    /// Where all are there they are to be when the transaction commits, too: else that fails.
    fn require(
        &self,
        txn: &mut dyn EngineTxn,
        view: &Snapshot,
        index: usize,
        keys: &[Vec<u8>],
    ) -> Result<Option<usize>, EngineError>;
}

/// See the module. Behind [`Table`](crate::Table).
pub trait OnlineIndexes {
    /// Begins to build the index at a layout position, which nobody knows of yet. It is the transaction's: gone if that
    /// is rolled back to before this, and everybody's from its commit on, which fails if a key of a unique index was
    /// taken twice meanwhile. `name` is for that error.
    fn build_online(
        &self,
        txn: &mut dyn EngineTxn,
        index: usize,
        name: &str,
    ) -> Result<OnlineBuild, EngineError>;

    /// Enters what the transaction itself has written, once the build is whole. Its views from then on find all rows by
    /// the index, and those from before not.
    fn enter_own(&self, txn: &mut dyn EngineTxn, index: usize) -> Result<(), EngineError>;

    /// Enters what the transaction has written under an older layout into all indexes of this one: it goes on under it.
    fn enter_newer(&self, txn: &mut dyn EngineTxn) -> Result<(), EngineError>;

    /// Begins to verify a condition, as an index is built. The transaction fails to commit where it has become false.
    fn verify_online(
        &self,
        txn: &mut dyn EngineTxn,
        check: OnlineCheck,
    ) -> Result<OnlineBuild, EngineError>;

    /// Begins to see to it that a foreign key of this table holds, whoever writes it or the parent, and does not know of it.
    fn refer_online(
        &self,
        txn: &mut dyn EngineTxn,
        key: OnlineForeignKey<'_>,
    ) -> Result<OnlineBuild, EngineError>;
}
