//! Aggregates of ordered sets: `percentile_disc(f) WITHIN GROUP (ORDER BY v)` and `mode()`.
//!
//! The values are kept and sorted at the end. The planner puts what is ordered before the other
//! arguments.

use std::cmp::Ordering;
use std::fmt::Debug;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility,
};
use datafusion::physical_expr::expressions::Literal;

use super::math::out_of_range;
use crate::error::SqlError;
use crate::semantics::measures;
use crate::types::cell::cell_at;

/// The aggregates.
pub fn functions() -> Vec<Arc<AggregateUDF>> {
    let kinds = [("percentile_disc", 2), ("mode", 1)];
    let of = |(name, arguments)| {
        let signature = Signature::any(arguments, Volatility::Immutable);
        Arc::new(AggregateUDF::new_from_impl(Ordered { name, labels: None, signature }))
    };
    kinds.map(of).into()
}

/// An aggregate as that of an enum with these labels; `None` if it is another aggregate.
pub fn of_enum(function: &AggregateUDF, labels: Arc<[String]>) -> Option<Arc<AggregateUDF>> {
    let planned = function.inner().downcast_ref::<Ordered>()?;
    let signature = planned.signature.clone();
    let of_enum = Ordered { name: planned.name, labels: Some(labels), signature };
    Some(Arc::new(AggregateUDF::new_from_impl(of_enum)))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Ordered {
    name: &'static str,
    /// Of an enum, in its order.
    labels: Option<Arc<[String]>>,
    signature: Signature,
}

impl AggregateUDFImpl for Ordered {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn supports_within_group_clause(&self) -> bool {
        true
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(types.first().cloned().unwrap_or(DataType::Null))
    }

    fn return_field(&self, fields: &[FieldRef]) -> Result<FieldRef> {
        Ok(match fields.first() {
            // The field's metadata says which SQL type it is.
            Some(field) => {
                Arc::new(field.as_ref().clone().with_name(self.name).with_nullable(true))
            }
            None => Arc::new(Field::new(self.name, DataType::Null, true)),
        })
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let fraction = match args.exprs.get(1) {
            Some(expr) => Some(fraction_of(expr.downcast_ref::<Literal>().map(|l| l.value()))?),
            None => None,
        };
        let descending = args.order_bys.first().is_some_and(|key| key.options.descending);
        let item = args.return_field.data_type().clone();
        let labels = self.labels.clone();
        Ok(Box::new(Values { fraction, descending, labels, item, values: Vec::new() }))
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let item = Field::new_list_field(args.return_field.data_type().clone(), true);
        let list = DataType::List(Arc::new(item));
        Ok(vec![Arc::new(Field::new(format!("{}[values]", args.name), list, true))])
    }
}

fn fraction_of(value: Option<&ScalarValue>) -> Result<f64> {
    let float = value.and_then(|value| value.cast_to(&DataType::Float64).ok());
    let Some(ScalarValue::Float64(Some(fraction))) = float else {
        return Err(SqlError::unsupported("a percentile that is no constant").into());
    };
    if !(0.0..=1.0).contains(&fraction) {
        let message = format!("percentile value {fraction} is not between 0 and 1");
        return Err(out_of_range(message).into());
    }
    Ok(fraction)
}

#[derive(Debug)]
struct Values {
    /// Of a percentile; a mode has none.
    fraction: Option<f64>,
    descending: bool,
    labels: Option<Arc<[String]>>,
    item: DataType,
    values: Vec<ScalarValue>,
}

impl Values {
    fn take(&mut self, array: &dyn Array) -> Result<()> {
        for row in (0..array.len()).filter(|row| array.is_valid(*row)) {
            self.values.push(ScalarValue::try_from_array(array, row)?);
        }
        Ok(())
    }

    /// The values beside what they are compared by.
    fn measured(&self) -> Result<Vec<(ScalarValue, &ScalarValue)>> {
        let measure = |value: &ScalarValue| -> Result<ScalarValue> {
            if let Some(labels) = &self.labels {
                let place = labels.iter().position(|label| value.try_as_str() == Some(Some(label)));
                return Ok(ScalarValue::UInt64(place.map(|at| at as u64)));
            }
            if !measures::has_bytes(&value.data_type()) {
                return Ok(value.clone());
            }
            let array = value.to_array()?;
            Ok(ScalarValue::Binary(measures::of_cell(&cell_at(array.as_ref(), 0))))
        };
        self.values.iter().map(|value| Ok((measure(value)?, value))).collect()
    }
}

impl Accumulator for Values {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.take(values[0].as_ref())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        for list in states[0].as_list::<i32>().iter().flatten() {
            self.take(list.as_ref())?;
        }
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let mut values = self.measured()?;
        values.sort_by(|(a, _), (b, _)| a.partial_cmp(b).unwrap_or(Ordering::Equal));
        if self.descending {
            values.reverse();
        }
        let chosen = match self.fraction {
            Some(fraction) => {
                let rank = (fraction * values.len() as f64).ceil() as usize;
                values.get(rank.max(1) - 1)
            }
            None => most_frequent(&values),
        };
        chosen.map_or_else(|| ScalarValue::try_from(&self.item), |(_, value)| Ok((*value).clone()))
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![ScalarValue::List(ScalarValue::new_list_nullable(&self.values, &self.item))])
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.values.iter().map(ScalarValue::size).sum::<usize>()
    }
}

/// Of those that are as frequent, the first.
fn most_frequent<'v, 's>(
    sorted: &'s [(ScalarValue, &'v ScalarValue)],
) -> Option<&'s (ScalarValue, &'v ScalarValue)> {
    let mut best: Option<&[(ScalarValue, &ScalarValue)]> = None;
    for run in sorted.chunk_by(|(a, _), (b, _)| a == b) {
        if best.is_none_or(|best| run.len() > best.len()) {
            best = Some(run);
        }
    }
    best.and_then(|run| run.first())
}
