//! Aggregates of intervals, which DataFusion has not or orders otherwise: sum, avg, min, max.
//!
//! DataFusion's `sum` and `avg` refuse an interval while a statement is planned. [`Planned`] stands in
//! for them until then and takes it; [`crate::semantics::aggregates`] then puts what is computed in its
//! place: DataFusion's own, or [`OfIntervals`].

use std::fmt::Debug;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{DataType, Field, FieldRef, Int64Type};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::functions_aggregate::average::avg_udaf;
use datafusion::functions_aggregate::sum::sum_udaf;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility,
};
use froglet_engine::{ColumnType, Interval, Value};

use super::{distinct, numbers};
use crate::semantics::time_arith::INTERVAL;
use crate::semantics::{aggregates, numerics};
use crate::types::cell::{Cell, cell_at};
use crate::types::{interval, scalar_of};

/// What is made of the intervals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum What {
    Sum,
    Average,
    Least,
    Greatest,
}

/// Aggregates that take numbers and intervals while a statement is planned.
pub fn planned() -> Vec<Arc<AggregateUDF>> {
    [sum_udaf(), avg_udaf()]
        .map(|inner| Arc::new(AggregateUDF::new_from_impl(Planned::new(inner))))
        .into()
}

/// What computes an aggregate of such an argument; `None`: what is planned.
pub fn computed(function: &AggregateUDF, argument: &DataType) -> Option<Arc<AggregateUDF>> {
    let planned = function.inner().downcast_ref::<Planned>();
    if !matches!(argument, DataType::Interval(_)) {
        return planned.map(|planned| planned.inner.clone());
    }
    let what = match function.name() {
        "sum" => What::Sum,
        "avg" => What::Average,
        "min" => What::Least,
        "max" => What::Greatest,
        _ => return None,
    };
    let signature = Signature::any(1, Volatility::Immutable);
    Some(Arc::new(AggregateUDF::new_from_impl(OfIntervals { what, signature })))
}

/// An aggregate of DataFusion's that takes intervals, too.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Planned {
    inner: Arc<AggregateUDF>,
    signature: Signature,
}

impl Planned {
    fn new(inner: Arc<AggregateUDF>) -> Planned {
        Planned { inner, signature: Signature::user_defined(Volatility::Immutable) }
    }
}

impl AggregateUDFImpl for Planned {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    /// Numbers stay what they are, because the result's type depends on it.
    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match types {
            [DataType::Interval(_)] => Ok(vec![INTERVAL]),
            [ty] if numerics::is_number(ty) => Ok(types.to_vec()),
            [DataType::Null] => Ok(vec![DataType::Float64]),
            _ => Err(crate::df_error::no_function(self.name()).into()),
        }
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let [ty] = types else {
            return Err(crate::df_error::no_function(self.name()).into());
        };
        if matches!(ty, DataType::Interval(_)) {
            return Ok(INTERVAL);
        }
        if let Some(other) = numbers::computed(&self.inner, ty) {
            return other.return_type(types);
        }
        let ty = match aggregates::wider(self.name(), ty) {
            Some(wider) => wider,
            None if self.name() == "sum" && *ty == DataType::Float32 => return Ok(ty.clone()),
            None if ty.is_integer() => DataType::Int64,
            None if ty.is_floating() => DataType::Float64,
            None => ty.clone(),
        };
        self.inner.return_type(&[ty])
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        self.inner.accumulator(args)
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        self.inner.state_fields(args)
    }
}

/// An aggregate of intervals.
#[derive(Debug, PartialEq, Eq, Hash)]
struct OfIntervals {
    what: What,
    signature: Signature,
}

impl AggregateUDFImpl for OfIntervals {
    fn name(&self) -> &str {
        match self.what {
            What::Sum => "sum",
            What::Average => "avg",
            What::Least => "min",
            What::Greatest => "max",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(INTERVAL)
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let state = Box::new(State { what: self.what, value: None, count: 0 });
        Ok(match args.is_distinct {
            true => distinct::accumulator(state, vec![INTERVAL]),
            false => state,
        })
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        self.accumulator(args)
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        if args.is_distinct {
            return Ok(distinct::state_fields(&args));
        }
        let value = Field::new(format!("{}[value]", args.name), INTERVAL, true);
        let count = Field::new(format!("{}[count]", args.name), DataType::Int64, false);
        Ok(vec![Arc::new(value), Arc::new(count)])
    }
}

#[derive(Debug)]
struct State {
    what: What,
    value: Option<Interval>,
    count: i64,
}

impl State {
    fn take(&mut self, next: Interval, count: i64) -> Result<()> {
        let kept = match (self.what, self.value) {
            (_, None) => next,
            (What::Sum | What::Average, Some(value)) => interval::add(value, next)?,
            (What::Least, Some(value)) if value.span_us() <= next.span_us() => value,
            (What::Greatest, Some(value)) if value.span_us() >= next.span_us() => value,
            _ => next,
        };
        self.value = Some(kept);
        self.count += count;
        Ok(())
    }

    fn take_all(&mut self, values: &ArrayRef, count: impl Fn(usize) -> i64) -> Result<()> {
        for row in 0..values.len() {
            if let Cell::Interval(months, days, us) = cell_at(values.as_ref(), row) {
                self.take(Interval { months, days, us }, count(row))?;
            }
        }
        Ok(())
    }
}

fn scalar(value: Option<Interval>) -> ScalarValue {
    scalar_of(&value.map_or(Value::Null, Value::Interval), ColumnType::Interval)
}

impl Accumulator for State {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.take_all(&values[0], |_| 1)
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let counts = states[1].as_primitive::<Int64Type>();
        self.take_all(&states[0], |row| counts.value(row))
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let count = self.count as f64;
        Ok(scalar(match (self.what, self.value) {
            (What::Average, Some(value)) => Some(interval::scale(value, |v| v / count)?),
            (_, value) => value,
        }))
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![scalar(self.value), ScalarValue::Int64(Some(self.count))])
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}
