//! A table's rows, each with columns that are computed of others: how they are made where the table moves for it.
//!
//! ```text
//!   the table as it was     a   b   c
//!   computed, in order              d = f(a, b)   e = g(d)
//!   the table as it is      a       c   d   e
//! ```
//! W1: of a row the same is made, whenever and at whichever server that is: nothing is drawn, and what computes a column
//!     is compiled of its recipe over the table as it was then.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use froglet_engine::ColumnId;
use froglet_engine::batch::array_of;
use serde::{Deserialize, Serialize};

use crate::change::{Made, RowQuery, Transform};
use crate::def::TableDef;
use crate::error::SchemaError;
use crate::lazy::batch_with;
use crate::lazy_driver::{Recompile, not_as_it_was};

/// A column that is computed of others of its row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Computed {
    /// The column, under an id that the table never had before.
    pub column: ColumnId,
    /// What the expression can be compiled of again, over `table`.
    pub recipe: String,
    /// The table when the column was added: it may have columns that were computed before.
    pub table: Box<TableDef>,
    /// It is this column in another type: equal values are equal, different ones different, and NULL is NULL.
    pub converts: Option<ColumnId>,
}

/// A column, and what computes it.
pub(crate) type Compiled = (Computed, Arc<dyn Transform>);

/// See the module.
pub(crate) struct Rewritten {
    /// Columns of the source, all of them.
    inputs: Vec<ColumnId>,
    computed: Vec<Compiled>,
}

impl Rewritten {
    /// Of a table, under the definition that it had.
    pub fn of(source: &TableDef, computed: Vec<Compiled>) -> Rewritten {
        Rewritten { inputs: source.all_columns().map(|column| column.id).collect(), computed }
    }

    /// The same, of recipes.
    pub fn compile(
        source: &TableDef,
        computed: &[Computed],
        recompile: &dyn Recompile,
    ) -> Result<Rewritten, SchemaError> {
        let compile = |computed: &Computed| {
            Ok((computed.clone(), recompile.column(&computed.recipe, &computed.table)?))
        };
        let computed = computed.iter().map(compile).collect::<Result<_, SchemaError>>()?;
        let query = Rewritten::of(source, computed);
        let mut known = query.inputs.clone();
        for (computed, transform) in &query.computed {
            let is_there = |id| known.contains(id) || computed.table.column_by_id(*id).is_some();
            if !transform.inputs().iter().all(is_there) || transform.is_volatile() {
                return Err(not_as_it_was("computes a column of others"));
            }
            known.push(computed.column);
        }
        Ok(query)
    }

    /// The part of it that makes some columns, of a table that has what these are computed of and nothing else.
    pub fn only(&self, source: &TableDef, wanted: &[ColumnId]) -> (Rewritten, TableDef) {
        let (mut needed, mut computed) = (wanted.to_vec(), Vec::new());
        // A column is computed of those before it.
        for one @ (column, transform) in self.computed.iter().rev() {
            if needed.contains(&column.column) {
                needed.extend(transform.inputs());
                computed.push(one.clone());
            }
        }
        computed.reverse();
        let source = source.of_columns(|id| needed.contains(&id));
        (Rewritten::of(&source, computed), source)
    }

    /// Its columns, each with what computes it.
    pub fn into_compiled(self) -> Vec<Compiled> {
        self.computed
    }

    /// What computes its columns.
    pub fn computed(&self) -> Vec<Computed> {
        self.computed.iter().map(|(computed, _)| computed.clone()).collect()
    }

    /// What it makes: all columns that the table had, and those that are computed.
    pub fn outputs(&self) -> Vec<ColumnId> {
        let computed = self.computed.iter().map(|(computed, _)| computed.column);
        self.inputs.iter().copied().chain(computed).collect()
    }
}

impl RowQuery for Rewritten {
    fn inputs(&self) -> &[ColumnId] {
        &self.inputs
    }

    fn eval(&self, batch: &RecordBatch) -> Result<Made, SchemaError> {
        let (mut ids, mut columns) = (self.inputs.clone(), batch.columns().to_vec());
        for (computed, transform) in &self.computed {
            let rows = batch.num_rows();
            let input = |id: &ColumnId| -> ArrayRef {
                if let Some(at) = ids.iter().position(|known| known == id) {
                    return columns[at].clone();
                }
                // It was added in between.
                let column = computed.table.column_by_id(*id).expect("looked at before");
                array_of(column.ty, std::iter::repeat_n(&column.missing, rows))
            };
            let inputs = transform.inputs().iter().map(input).collect();
            columns.push(transform.eval(&batch_with(inputs, rows))?);
            ids.push(computed.column);
        }
        Ok(Made { rows: (0..batch.num_rows()).collect(), columns })
    }

    fn plain(&self, output: usize) -> Option<ColumnId> {
        self.inputs.get(output).copied()
    }

    fn converted(&self, output: usize) -> Option<ColumnId> {
        let mut id = self.outputs().get(output).copied()?;
        while let Some((computed, _)) = self.computed.iter().find(|(c, _)| c.column == id) {
            id = computed.converts?;
        }
        Some(id)
    }
}
