//! A row as it is stored outside memory: its cells by column id, so that adding a column, or dropping one, touches none.
//!
//! ```text
//!   n (column value)…        as `redo` writes cells
//! ```
//! A column that is not there has the value that its layout says is missing.

use std::sync::Arc;

use froglet_engine::{ColumnId, EngineError, Layout, Row, Value};

use crate::redo::{self, Malformed};

/// Cells, shared by whoever reads them.
pub type Cells = Arc<[u8]>;

/// What cannot be read, as an error of the engine.
pub fn corrupt(malformed: &Malformed) -> EngineError {
    EngineError::Corrupt {
        file: "a stored row".into(),
        offset: malformed.offset as u64,
        what: malformed.what.clone(),
    }
}

/// The cells of a row in the order of a layout.
pub fn of_row(layout: &Layout, row: &[Value]) -> Cells {
    let mut bytes = Vec::new();
    redo::put_cells(&mut bytes, layout.columns.iter().map(|c| c.id).zip(row));
    bytes.into()
}

/// The cells with some set to other values, and without columns that are not kept.
pub fn with(
    cells: &[u8],
    set: &[(ColumnId, &Value)],
    keeps: impl Fn(ColumnId) -> bool,
) -> Result<Cells, EngineError> {
    let mut bytes = Vec::with_capacity(cells.len() + 16);
    redo::put_changed_cells(&mut bytes, cells, set, keeps).map_err(|e| corrupt(&e))?;
    Ok(bytes.into())
}

/// Which columns are wanted, and what they are where a row does not have them.
#[derive(Clone, Debug)]
pub struct Wanted {
    columns: Vec<(ColumnId, Value)>,
    /// So many different ones.
    different: usize,
}

impl Wanted {
    /// Of these, each with its missing value.
    pub fn new(columns: impl Iterator<Item = (ColumnId, Value)>) -> Wanted {
        let columns: Vec<_> = columns.collect();
        let mut ids: Vec<ColumnId> = columns.iter().map(|(id, _)| *id).collect();
        ids.sort_unstable();
        ids.dedup();
        Wanted { columns, different: ids.len() }
    }

    /// Appends the values of a row, in order. Behind the last column that is wanted nothing is read.
    pub fn read(&self, cells: &[u8], out: &mut Row) -> Result<(), EngineError> {
        let (first, mut left) = (out.len(), self.different);
        out.extend(self.columns.iter().map(|(_, missing)| missing.clone()));
        if left == 0 {
            return Ok(());
        }
        let mut read = redo::Cells::new(cells).map_err(|e| corrupt(&e))?;
        // As a rule rows have their columns in the order in which they are wanted.
        let mut expected = 0;
        while left > 0
            && let Some(column) = read.column().map_err(|e| corrupt(&e))?
        {
            let is_wanted = |(id, _): &(ColumnId, Value)| *id == column;
            let at = match self.columns.get(expected).is_some_and(is_wanted) {
                true => Some(expected),
                false => self.columns.iter().position(is_wanted),
            };
            let Some(at) = at else {
                read.skip().map_err(|e| corrupt(&e))?;
                continue;
            };
            let value = read.take().map_err(|e| corrupt(&e))?;
            if self.different < self.columns.len() {
                for (other, _) in self.columns.iter().enumerate().filter(|(_, of)| is_wanted(of)) {
                    out[first + other] = value.clone();
                }
            }
            out[first + at] = value;
            (expected, left) = (at + 1, left - 1);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    /// Columns set, not kept, wanted once or twice, in any order, there or not: as from a map.
    #[test]
    fn a_row_is_what_was_put_last() {
        let mut random = StdRng::seed_from_u64(0x5EED_C0DE);
        for _ in 0..2_000 {
            let mut below = |limit: usize| random.random_range(0..limit);
            let mut ids: Vec<ColumnId> = (0..9).map(ColumnId).collect();
            ids.retain(|_| below(3) > 0);
            let first = below(ids.len() + 1);
            ids.rotate_left(first);
            let some_value = |n: usize| match n % 3 {
                0 => Value::Null,
                1 => Value::Int64(n as i64),
                _ => Value::text("a text that is longer than what is kept in place"),
            };
            let row: Vec<(ColumnId, Value)> =
                ids.iter().map(|id| (*id, some_value(below(30)))).collect();
            let mut cells = Vec::new();
            redo::put_cells(&mut cells, row.iter().map(|(id, value)| (*id, value)));
            let mut expected: std::collections::BTreeMap<ColumnId, Value> =
                row.into_iter().collect();

            let mut set: Vec<(ColumnId, Value)> = Vec::new();
            for id in [0, 3, 6, 9].map(ColumnId) {
                if below(2) == 0 {
                    set.push((id, some_value(below(30))));
                }
            }
            let kept_from = ColumnId(below(4) as u32);
            expected.retain(|id, _| *id >= kept_from);
            expected.extend(set.iter().cloned());
            let set: Vec<(ColumnId, &Value)> = set.iter().map(|(id, value)| (*id, value)).collect();
            let cells = with(&cells, &set, |id| id >= kept_from).expect("whole");

            let missing = Value::Int16(7);
            let asked: Vec<ColumnId> = (0..below(12)).map(|_| ColumnId(below(10) as u32)).collect();
            let mut found = vec![Value::Bool(true)];
            let wanted = Wanted::new(asked.iter().map(|id| (*id, missing.clone())));
            wanted.read(&cells, &mut found).expect("whole");
            let of = |id: &ColumnId| expected.get(id).unwrap_or(&missing).clone();
            let expected: Vec<Value> =
                [Value::Bool(true)].into_iter().chain(asked.iter().map(of)).collect();
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn what_ends_early_is_an_error() {
        let mut cells = Vec::new();
        let (one, text) = (Value::Int64(1), Value::text("text"));
        redo::put_cells(&mut cells, [(ColumnId(1), &one), (ColumnId(2), &text)].into_iter());
        let wanted = Wanted::new([(ColumnId(2), Value::Null)].into_iter());
        for end in 0..cells.len() {
            wanted.read(&cells[..end], &mut Row::new()).expect_err("a part of it");
            with(&cells[..end], &[(ColumnId(3), &one)], |_| true).expect_err("a part of it");
        }
    }
}
