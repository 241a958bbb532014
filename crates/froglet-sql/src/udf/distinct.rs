//! DISTINCT of aggregates that do not look at it themselves: `sum(DISTINCT interval)`, `corr(DISTINCT y, x)`.
//!
//! The rows of arguments that differ are kept, the first of those that are equal, and each is given to the aggregate
//! once. What is passed on between the steps of an aggregate are these rows, a list for each argument.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::Accumulator;
use datafusion::logical_expr::function::StateFieldsArgs;

type Row = Vec<ScalarValue>;

#[derive(Debug)]
struct Distinct {
    inner: Box<dyn Accumulator>,
    types: Vec<DataType>,
    /// By what they are compared by.
    seen: HashMap<Row, Row>,
}

/// An aggregate of the rows that differ among those of its arguments, which are of these types.
pub fn accumulator(inner: Box<dyn Accumulator>, types: Vec<DataType>) -> Box<dyn Accumulator> {
    Box::new(Distinct { inner, types, seen: HashMap::new() })
}

/// What it passes on.
pub fn state_fields(args: &StateFieldsArgs) -> Vec<FieldRef> {
    let field = |(at, input): (usize, &FieldRef)| -> FieldRef {
        let item = Field::new("item", input.data_type().clone(), true);
        Arc::new(Field::new(format!("{}[{at}]", args.name), DataType::List(Arc::new(item)), true))
    };
    args.input_fields.iter().enumerate().map(field).collect()
}

/// What a value is compared by: a month is 30 days, and there is one zero.
fn key(value: &ScalarValue) -> ScalarValue {
    match value {
        ScalarValue::IntervalMonthDayNano(Some(v)) => {
            let days = i128::from(v.months) * 30 + i128::from(v.days);
            let ns = days * 86_400_000_000_000 + i128::from(v.nanoseconds);
            ScalarValue::Decimal128(Some(ns), 38, 0)
        }
        ScalarValue::Float64(Some(v)) if *v == 0.0 => ScalarValue::Float64(Some(0.0)),
        ScalarValue::Float32(Some(v)) if *v == 0.0 => ScalarValue::Float32(Some(0.0)),
        other => other.clone(),
    }
}

impl Accumulator for Distinct {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let mut fresh: Vec<Row> = Vec::new();
        for row in 0..values.first().map_or(0, |first| first.len()) {
            let row = values.iter().map(|array| ScalarValue::try_from_array(array, row));
            let row: Row = row.collect::<Result<_>>()?;
            let keys: Row = row.iter().map(key).collect();
            if let std::collections::hash_map::Entry::Vacant(place) = self.seen.entry(keys) {
                place.insert(row.clone());
                fresh.push(row);
            }
        }
        if fresh.is_empty() {
            return Ok(());
        }
        let column =
            |at: usize| ScalarValue::iter_to_array(fresh.iter().map(|row| row[at].clone()));
        let columns = (0..values.len()).map(column).collect::<Result<Vec<ArrayRef>>>()?;
        self.inner.update_batch(&columns)
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        for row in 0..states.first().map_or(0, |first| first.len()) {
            let rows: Vec<ArrayRef> =
                states.iter().map(|state| state.as_list::<i32>().value(row)).collect();
            self.update_batch(&rows)?;
        }
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.inner.evaluate()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let list = |(at, ty): (usize, &DataType)| {
            let items: Vec<ScalarValue> = self.seen.values().map(|row| row[at].clone()).collect();
            ScalarValue::List(ScalarValue::new_list_nullable(&items, ty))
        };
        Ok(self.types.iter().enumerate().map(list).collect())
    }

    fn size(&self) -> usize {
        let row = |row: &Row| row.iter().map(ScalarValue::size).sum::<usize>();
        let rows = self.seen.iter().map(|(keys, values)| row(keys) + row(values));
        size_of_val(self) + self.inner.size() + rows.sum::<usize>()
    }
}
