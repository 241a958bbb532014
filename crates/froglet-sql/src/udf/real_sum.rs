//! `sum(real)`, which is real and is added up as real: DataFusion makes double precision of it.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Float32Array};
use arrow::datatypes::{DataType, Field, FieldRef, Float32Type};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, GroupsAccumulator, Signature, Volatility,
};
use froglet_engine::SqlState;

use super::distinct;
use crate::error::SqlError;

const REAL: DataType = DataType::Float32;

/// What computes `sum` of such an argument; `None` if that is another's.
pub fn computed(function: &AggregateUDF, argument: &DataType) -> Option<Arc<AggregateUDF>> {
    let is_it = function.name() == "sum" && *argument == REAL;
    let signature = Signature::any(1, Volatility::Immutable);
    is_it.then(|| Arc::new(AggregateUDF::new_from_impl(RealSum { signature })))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct RealSum {
    signature: Signature,
}

impl AggregateUDFImpl for RealSum {
    fn name(&self) -> &str {
        "sum"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(REAL)
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let sum = Box::new(Sum::default());
        Ok(match args.is_distinct {
            true => distinct::accumulator(sum, vec![REAL]),
            false => sum,
        })
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        match args.is_distinct {
            true => self.accumulator(args),
            false => Ok(Box::new(Sliding::default())),
        }
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        if args.is_distinct {
            return Ok(distinct::state_fields(&args));
        }
        Ok(vec![Arc::new(Field::new(format!("{}[sum]", args.name), REAL, true))])
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        !args.is_distinct
    }

    fn create_groups_accumulator(
        &self,
        _args: AccumulatorArgs,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        Ok(Box::new(Groups::default()))
    }
}

fn add(sum: &mut Option<f32>, value: f32) -> Result<()> {
    let before = sum.unwrap_or(0.0);
    let after = before + value;
    if after.is_infinite() && before.is_finite() && value.is_finite() {
        let message = "value out of range: overflow";
        return Err(SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, message).into());
    }
    // A sum begins with its first value: that of -0 is -0.
    *sum = Some(if sum.is_some() { after } else { value });
    Ok(())
}

#[derive(Debug, Default)]
struct Sum(Option<f32>);

impl Accumulator for Sum {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        values[0]
            .as_primitive::<Float32Type>()
            .iter()
            .flatten()
            .try_for_each(|v| add(&mut self.0, v))
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(ScalarValue::Float32(self.0))
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![ScalarValue::Float32(self.0)])
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}

/// The values of a moving frame: what one of them has lost to rounding, taking it back does not restore.
#[derive(Debug, Default)]
struct Sliding(VecDeque<Option<f32>>);

impl Accumulator for Sliding {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.0.extend(values[0].as_primitive::<Float32Type>().iter());
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.0.drain(..values[0].len().min(self.0.len()));
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let mut sum = None;
        self.0.iter().flatten().try_for_each(|v| add(&mut sum, *v))?;
        Ok(ScalarValue::Float32(sum))
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.evaluate()?])
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.0.capacity() * size_of::<Option<f32>>()
    }
}

/// The sums of groups.
#[derive(Debug, Default)]
struct Groups(Vec<Option<f32>>);

impl GroupsAccumulator for Groups {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        opt_filter: Option<&BooleanArray>,
        total_num_groups: usize,
    ) -> Result<()> {
        self.0.resize(total_num_groups, None);
        let values = values[0].as_primitive::<Float32Type>();
        for (row, group) in group_indices.iter().enumerate() {
            let counts = opt_filter.is_none_or(|f| f.is_valid(row) && f.value(row));
            if counts && values.is_valid(row) {
                add(&mut self.0[*group], values.value(row))?;
            }
        }
        Ok(())
    }

    fn merge_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        total_num_groups: usize,
    ) -> Result<()> {
        self.update_batch(values, group_indices, None, total_num_groups)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        Ok(Arc::new(Float32Array::from(emit_to.take_needed(&mut self.0))))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.evaluate(emit_to)?])
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        opt_filter: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        let values = values[0].as_primitive::<Float32Type>();
        let counts = |row| opt_filter.is_none_or(|f| f.is_valid(row) && f.value(row));
        let kept = values.iter().enumerate().map(|(row, value)| value.filter(|_| counts(row)));
        Ok(vec![Arc::new(Float32Array::from_iter(kept))])
    }

    fn size(&self) -> usize {
        self.0.capacity() * size_of::<Option<f32>>()
    }
}
