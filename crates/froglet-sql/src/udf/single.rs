//! The one value of a scalar subquery, as an aggregate.
//!
//! DataFusion decorrelates a scalar subquery only where it is an aggregate, so that it returns one
//! row for sure. `rewrite.rs` wraps what a subquery selects into this aggregate: NULL of no row,
//! the value of one row, 21000 of more.

use std::fmt::Debug;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{DataType, Field, FieldRef, Int64Type};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{Accumulator, AggregateUDFImpl, Signature, Volatility};
use froglet_engine::SqlState;
use std::sync::Arc;

use crate::error::SqlError;

/// The aggregate's name.
pub const NAME: &str = "froglet_single_value";

/// The aggregate.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct SingleValue {
    signature: Signature,
}

impl Default for SingleValue {
    fn default() -> Self {
        SingleValue { signature: Signature::any(1, Volatility::Immutable) }
    }
}

impl AggregateUDFImpl for SingleValue {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(types.first().cloned().unwrap_or(DataType::Null))
    }

    fn return_field(&self, fields: &[FieldRef]) -> Result<FieldRef> {
        Ok(match fields.first() {
            // The field's metadata says which SQL type it is.
            Some(field) => Arc::new(field.as_ref().clone().with_name(NAME).with_nullable(true)),
            None => Arc::new(Field::new(NAME, DataType::Null, true)),
        })
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let value = ScalarValue::try_from(args.return_field.data_type())?;
        Ok(Box::new(Single { value, rows: 0 }))
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let value = args.return_field.as_ref().clone().with_name(format!("{}[value]", args.name));
        let rows = Field::new(format!("{}[rows]", args.name), DataType::Int64, false);
        Ok(vec![Arc::new(value), Arc::new(rows)])
    }
}

#[derive(Debug)]
struct Single {
    value: ScalarValue,
    rows: i64,
}

impl Single {
    fn take(&mut self, values: &ArrayRef, rows: i64, at: usize) -> Result<()> {
        self.rows += rows;
        if self.rows > 1 {
            return Err(SqlError::new(
                SqlState::CARDINALITY_VIOLATION,
                "more than one row returned by a subquery used as an expression",
            )
            .into());
        }
        if rows == 1 {
            self.value = ScalarValue::try_from_array(values, at)?;
        }
        Ok(())
    }
}

impl Accumulator for Single {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let rows = i64::try_from(values[0].len()).unwrap_or(i64::MAX);
        self.take(&values[0], rows, 0)
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let counts = states[1].as_primitive::<Int64Type>();
        for at in 0..counts.len() {
            self.take(&states[0], counts.value(at), at)?;
        }
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(self.value.clone())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.value.clone(), ScalarValue::Int64(Some(self.rows))])
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.value.size()
    }
}
