//! Values of a volatile expression: each row's is drawn once, and stays.
//!
//! ```text
//!   scan         row 7 → 0.25                     noted: row 7, of these inputs
//!   capture      row 7 has changed elsewhere      0.25 stays
//!                row 7's inputs have changed      drawn again, noted
//!                row 9 is new                     drawn
//!   carry-over   the writer's own version of row 7 keeps 0.25; what it inserted gets a value
//! ```
//!
//! Somebody may have read the value that a row was given: the migrating transaction before the commit, anybody
//! after it. So running a volatile fill again must not give another one.
//!
//! V1: a cell that is not NULL has been filled, unless it was given up: an insert into a slot that is used again
//!     stores the missing value, NULL, and a row that is moved takes its cells along.
//! V2: what a row was given for other inputs than it has now is remembered as long as the migrating
//!     transaction may read an older version of the row.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

use arrow_array::{Array, RecordBatch, RecordBatchOptions, UInt32Array};
use arrow_select::take::take_record_batch;
use froglet_engine::id::ROWS_PER_BLOCK;
use froglet_engine::{BlockRows, ColumnFill, ColumnType, RowId, Value, batch};
use parking_lot::Mutex;

use crate::change::Transform;
use crate::error::SchemaError;
use crate::rows::row_at;

/// A number for the inputs of a row, even; 0 for none.
type Print = u64;
/// Beside a print: the value was NULL.
const WAS_NULL: u64 = 1;

/// See the module.
pub struct Drawn {
    types: Vec<ColumnType>,
    printer: RandomState,
    /// By block and slot, [`WAS_NULL`] added.
    noted: Mutex<HashMap<u32, Box<[u64]>>>,
    /// Of rows whose inputs were others [V2], and of those that only an older version has.
    known: Mutex<HashMap<(RowId, Print), Value>>,
}

impl Drawn {
    /// For an expression over columns of these types.
    pub(crate) fn new(types: Vec<ColumnType>) -> Drawn {
        let printer = RandomState::new();
        Drawn { types, printer, noted: Mutex::default(), known: Mutex::default() }
    }

    fn print(&self, inputs: &[Value]) -> Print {
        match inputs {
            [] => 2,
            inputs => (self.printer.hash_one(format!("{inputs:?}")) & !WAS_NULL).max(2),
        }
    }

    /// Whether two versions of a row have the same inputs, so that one's value is the other's.
    pub(crate) fn are_same(&self, one: &[Value], other: &[Value]) -> bool {
        self.print(one) == self.print(other)
    }

    /// What is to be stored for rows of a block that were read in the columns of the inputs, and in the one that is
    /// filled. The caller holds the latch of the block.
    pub(crate) fn fill(
        &self,
        rows: &BlockRows,
        ty: ColumnType,
        transform: &dyn Transform,
    ) -> Result<ColumnFill, SchemaError> {
        let width = self.types.len();
        let (inputs, cells) = (&rows.batch.columns()[..width], rows.batch.column(width));
        let mut drawn = Vec::new();
        let mut noted = self.noted.lock();
        for (at, rid) in rows.rids.iter().enumerate() {
            let block = noted.entry(rid.block()).or_insert_with(|| [0; ROWS_PER_BLOCK].into());
            let (was, is_null) = (block[rid.slot()], cells.is_null(at));
            let print = self.print(&row_at(inputs, &self.types, at));
            let stays = match was {
                0 => width == 0 && !is_null,
                was => was & !WAS_NULL == print && (was & WAS_NULL != 0) == is_null,
            };
            match stays {
                true => block[rid.slot()] = print | u64::from(is_null),
                false => drawn.push((at, was & !WAS_NULL, print)),
            }
        }
        drop(noted);
        if drawn.is_empty() {
            return Ok(ColumnFill { rows: Some(Vec::new()), columns: Vec::new() });
        }
        let places = drawn.iter().map(|(at, ..)| u32::try_from(*at).expect("a block is small"));
        let places: UInt32Array = places.collect();
        let of_inputs: Vec<usize> = (0..width).collect();
        let batch = rows.batch.project(&of_inputs).expect("these columns were read");
        let batch = match width {
            0 => {
                let options = RecordBatchOptions::new().with_row_count(Some(drawn.len()));
                RecordBatch::try_new_with_options(batch.schema(), Vec::new(), &options)
            }
            _ => take_record_batch(&batch, &places),
        };
        let values = transform.eval(&batch.expect("rows of a batch are a batch"))?;
        let (mut noted, mut known) = (self.noted.lock(), self.known.lock());
        for (i, &(at, before, print)) in drawn.iter().enumerate() {
            let rid = rows.rids[at];
            let block = noted.get_mut(&rid.block()).expect("its rows were looked for above");
            block[rid.slot()] = print | u64::from(values.is_null(i));
            if before != 0 && before != print {
                known.insert((rid, before), batch::value_at(cells, at, ty));
                known.insert((rid, print), batch::value_at(&values, i, ty));
            }
        }
        let rows = drawn.into_iter().map(|(at, ..)| at).collect();
        Ok(ColumnFill { rows: Some(rows), columns: vec![values] })
    }

    /// The value of a version of a row with these inputs; `None` where that is the one that is stored, or where
    /// there is none.
    pub(crate) fn of_version(
        &self,
        rid: RowId,
        inputs: &[Value],
        draw: impl FnOnce() -> Option<Value>,
    ) -> Option<Value> {
        let print = self.print(inputs);
        if let Some(value) = self.known.lock().get(&(rid, print)) {
            return Some(value.clone());
        }
        let noted = self.noted.lock().get(&rid.block()).map_or(0, |block| block[rid.slot()]);
        if noted & !WAS_NULL == print {
            return None;
        }
        let value = draw()?;
        Some(self.known.lock().entry((rid, print)).or_insert(value).clone())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicI64, Ordering};

    use arrow_array::{ArrayRef, Int64Array};
    use froglet_engine::ColumnId;

    use super::*;

    /// 1, 2, 3, …
    struct Counter(Vec<ColumnId>, AtomicI64);

    impl Transform for Counter {
        fn inputs(&self) -> &[ColumnId] {
            &self.0
        }

        fn eval(&self, batch: &RecordBatch) -> Result<ArrayRef, SchemaError> {
            let next = |_| self.1.fetch_add(1, Ordering::Relaxed) + 1;
            Ok(Arc::new(Int64Array::from_iter_values((0..batch.num_rows()).map(next))))
        }
    }

    const INT: ColumnType = ColumnType::Int64;

    fn rows(cells: &[(usize, &[Value])]) -> BlockRows {
        let types = vec![INT; cells[0].1.len()];
        let values: Vec<Vec<Value>> = cells.iter().map(|(_, row)| row.to_vec()).collect();
        let values: Vec<froglet_engine::Row> = values;
        let rids = cells.iter().map(|(slot, _)| RowId::of(0, *slot)).collect();
        BlockRows { rids, batch: batch::batch_of(&types, &values) }
    }

    fn filled(drawn: &Drawn, counter: &Counter, cells: &[(usize, &[Value])]) -> Vec<(usize, i64)> {
        let fill = drawn.fill(&rows(cells), INT, counter).unwrap();
        let places = fill.rows.unwrap();
        let value = |i: usize| match batch::value_at(&fill.columns[0], i, INT) {
            Value::Int64(value) => value,
            other => panic!("{other:?}"),
        };
        places.iter().enumerate().map(|(i, at)| (*at, value(i))).collect()
    }

    #[test]
    fn a_value_is_drawn_once() {
        let (drawn, counter) = (Drawn::new(vec![]), Counter(vec![], AtomicI64::new(0)));
        let null = Value::Null;
        assert_eq!(
            filled(
                &drawn,
                &counter,
                &[(0, std::slice::from_ref(&null)), (1, std::slice::from_ref(&null))]
            ),
            [(0, 1), (1, 2)]
        );
        assert!(filled(&drawn, &counter, &[(0, &[Value::Int64(1)])]).is_empty());
        // A row that was moved, and one in a place that another has left.
        assert!(filled(&drawn, &counter, &[(5, &[Value::Int64(9)])]).is_empty());
        assert_eq!(filled(&drawn, &counter, &[(1, &[null])]), [(0, 3)]);
    }

    #[test]
    fn other_inputs_have_another_value_and_the_former_is_known() {
        let (drawn, counter) =
            (Drawn::new(vec![INT]), Counter(vec![ColumnId(1)], AtomicI64::new(0)));
        let (seven, eight) = (Value::Int64(7), Value::Int64(8));
        assert_eq!(filled(&drawn, &counter, &[(0, &[seven.clone(), Value::Null])]), [(0, 1)]);
        assert!(filled(&drawn, &counter, &[(0, &[seven.clone(), Value::Int64(1)])]).is_empty());
        assert_eq!(filled(&drawn, &counter, &[(0, &[eight.clone(), Value::Int64(1)])]), [(0, 2)]);
        let rid = RowId::of(0, 0);
        assert_eq!(drawn.of_version(rid, &[seven], || panic!()), Some(Value::Int64(1)));
        assert_eq!(drawn.of_version(rid, &[eight], || panic!()), Some(Value::Int64(2)));
        let new = [Value::Int64(9)];
        assert_eq!(drawn.of_version(rid, &new, || Some(Value::Int64(3))), Some(Value::Int64(3)));
        assert_eq!(drawn.of_version(rid, &new, || panic!()), Some(Value::Int64(3)));
    }
}
