//! Compiled expressions bound to the places of a statement's rows.
//!
//! A statement reads only the columns it needs; a [`RowExpr`] reads only its inputs. A
//! [`BoundExpr`] knows where in the former the latter are.

use arrow::array::{ArrayRef, RecordBatch};
use froglet_engine::Value;
use smallvec::SmallVec;

use crate::context::EvalContext;
use crate::error::SqlError;
use crate::expr::RowExpr;

/// An expression over a row of a statement's projection.
#[derive(Debug)]
pub(crate) struct BoundExpr {
    expr: RowExpr,
    /// For each input its place in the row.
    places: SmallVec<[usize; 4]>,
}

impl BoundExpr {
    /// `projection`: scope positions of the row's columns, each once.
    pub(crate) fn new(expr: RowExpr, projection: &[usize]) -> BoundExpr {
        let places = expr
            .inputs()
            .iter()
            .map(|input| {
                projection
                    .iter()
                    .position(|column| column == input)
                    .expect("a statement projects what its expressions read")
            })
            .collect();
        BoundExpr { expr, places }
    }

    /// For a row in layout order.
    pub(crate) fn whole(expr: RowExpr) -> BoundExpr {
        let places = expr.inputs().iter().copied().collect();
        BoundExpr { expr, places }
    }

    pub(crate) fn eval(&self, row: &[Value], context: &EvalContext) -> Result<Value, SqlError> {
        match self.places.as_slice() {
            [] => self.expr.eval_row(&[], context),
            [place] => self.expr.eval_row(std::slice::from_ref(&row[*place]), context),
            places => {
                let inputs: SmallVec<[Value; 4]> =
                    places.iter().map(|place| row[*place].clone()).collect();
                self.expr.eval_row(&inputs, context)
            }
        }
    }

    /// For every row of a batch of the projection.
    pub(crate) fn eval_batch(
        &self,
        batch: &RecordBatch,
        context: &EvalContext,
    ) -> Result<ArrayRef, SqlError> {
        let columns = self.places.iter().map(|place| batch.column(*place).clone()).collect();
        self.expr.eval(&self.expr.batch(columns, batch.num_rows())?, context)
    }

    /// As a condition: NULL is not true.
    pub(crate) fn holds(&self, row: &[Value], context: &EvalContext) -> Result<bool, SqlError> {
        Ok(matches!(self.eval(row, context)?, Value::Bool(true)))
    }

    /// The place in the row of the column that it is, if it is just that.
    pub(crate) fn as_place(&self) -> Option<usize> {
        self.expr.is_column().then(|| self.places[0])
    }

    /// The scope position of the column that it is, if it is just that.
    pub(crate) fn as_column(&self) -> Option<usize> {
        self.expr.is_column().then(|| self.expr.inputs()[0])
    }
}

/// The union of what expressions read, ascending.
pub(crate) fn projection_of<'e>(
    exprs: impl IntoIterator<Item = &'e RowExpr>,
    more: impl IntoIterator<Item = usize>,
) -> Vec<usize> {
    let mut columns: Vec<usize> =
        exprs.into_iter().flat_map(|e| e.inputs().iter().copied()).chain(more).collect();
    columns.sort_unstable();
    columns.dedup();
    columns
}
