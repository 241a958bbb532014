//! An index over rows that are there, of a table that several servers write: built while they go on.
//!
//! ```text
//!   build ─▶ every server keeps its entries ─▶ entries of all rows ─▶ enter_own ─▶ commit: it is there for all
//! ```

use std::pin::Pin;

use crate::{EngineError, EngineTxn, Row, WriteStop};

/// How a build has ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Built {
    /// Every row that is committed has its entry.
    Whole,
    /// Two rows share a key of an index that is to be unique: its values.
    Duplicate(Row),
}

/// A build under way. It goes on when this is dropped, until its transaction ends.
pub type OnlineBuild = Pin<Box<dyn Future<Output = Result<Built, EngineError>> + Send>>;

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
    fn enter_own(&self, txn: &mut dyn EngineTxn, index: usize) -> Result<(), WriteStop>;
}
