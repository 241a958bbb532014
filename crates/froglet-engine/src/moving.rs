//! Rows that move from table to table, where the rows that are left are all that is known of how far it is.
//!
//! ```text
//!   a row of the source     ── in one transaction ──▶     rows of one table, or several
//!   there, or not: it is left, or has moved               there, or not yet
//! ```
//! What is made of a row depends on the row alone, or on those that move with it, so whoever sees it left knows what it
//! will be. Whoever moves it holds it: nobody else makes the same rows meanwhile.

use crate::{EngineError, EngineTxn, KeyRange, Row, RowId, Snapshot, Table, Ts, Value, WriteStop};

/// What is asked of a table.
#[derive(Clone, Copy, Debug)]
pub enum Which<'a> {
    /// Ranges of the key of the index at a layout position.
    Ranges(usize, &'a [KeyRange]),
    /// Rows.
    Rows(&'a [RowId]),
}

impl Which<'_> {
    /// How many are asked for.
    pub fn count(&self) -> usize {
        match self {
            Which::Ranges(_, ranges) => ranges.len(),
            Which::Rows(rows) => rows.len(),
        }
    }
}

/// A question to a table: which rows, and which columns, by layout positions.
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    /// Which rows.
    pub which: Which<'a>,
    /// Which columns.
    pub projection: &'a [usize],
}

impl Ask<'_> {
    /// What a table answers.
    pub fn of(&self, table: &dyn Table, snapshot: &Snapshot) -> Found {
        let mut found = vec![Vec::new(); self.which.count()];
        match self.which {
            Which::Ranges(index, ranges) => {
                table.seek_all(snapshot, index, ranges, self.projection, &mut |at, rid, row| {
                    found[at].push((rid, std::mem::take(row)));
                });
            }
            Which::Rows(rows) => {
                let mut at = rows.iter().zip(&mut found);
                table.read_rows(snapshot, rows, self.projection, &mut |rid, row| {
                    let (_, found) =
                        at.find(|(wanted, _)| **wanted == rid).expect("in the order given");
                    found.push((rid, std::mem::take(row)));
                });
            }
        }
        found
    }
}

/// The rows of each range, or each row that was asked for, if it is there.
pub type Found = Vec<Vec<(RowId, Row)>>;

/// A row that moves.
pub struct Moved<'a> {
    /// Which.
    pub from: RowId,
    /// The rows that it becomes, in the layouts of their tables.
    pub into: Vec<(&'a dyn Table, Row)>,
}

/// A table that rows move out of, or into.
pub trait Moving: Send + Sync {
    /// Whether it is no row, but where a part of this table begins ([`Table::read_part`]).
    fn is_part(&self, rid: RowId) -> bool;

    /// The row of this table that is made, or to be made, of a row of another: with these values, in layout order. It is
    /// the same before and after it has moved.
    fn row_made_of(&self, from: RowId, row: &[Value]) -> RowId;

    /// Of which row of another table a row of this one is made, or to be made. None: it was here when it was found.
    fn made_of(&self, rid: RowId) -> Option<RowId>;

    /// Asks this table and another at once.
    fn ask_both(
        &self,
        snapshot: &Snapshot,
        here: Ask<'_>,
        other: &dyn Table,
        there: Ask<'_>,
    ) -> (Found, Found);

    /// Holds rows for the transaction, as they were at `base` ([`Ts::LATEST`]: as they are), and visits those that are
    /// there with the columns at these layout positions.
    fn hold(
        &self,
        txn: &mut dyn EngineTxn,
        base: Ts,
        rows: &[RowId],
        projection: &[usize],
        visit: &mut dyn FnMut(RowId, Row),
    ) -> Result<(), WriteStop>;

    /// Moves rows out of this table that the transaction holds.
    fn move_out(&self, txn: &mut dyn EngineTxn, moved: &[Moved<'_>]) -> Result<(), EngineError>;

    /// The same in a transaction of its own, of rows as they were in a view. False: somebody else is at one of them, or was,
    /// and nothing is done.
    fn move_out_alone(&self, view: &Snapshot, moved: &[Moved<'_>]) -> Result<bool, EngineError>;
}
