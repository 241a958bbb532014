//! Aggregates that make exact numerics: averages, and sums of exact numerics.
//!
//! ```text
//!   avg(decimal)   DataFusion's counts and sums, by group ─▶ sum / count, as `/` of two numerics
//!   avg, sum of exact numerics                            ─▶ exact::Sum
//! ```

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, new_empty_array};
use arrow::datatypes::{DataType, Field, FieldRef, UInt64Type};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::functions_aggregate::average::avg_udaf;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, GroupsAccumulator, Signature, Volatility,
};

use crate::error::SqlError;
use crate::semantics::numerics;
use crate::types::EXACT;
use crate::types::cell::cell_at;
use crate::types::exact::{Exact, Moments, NumericError, Sum, order};
use crate::types::numeric::exact_of;

/// What is made of the numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum What {
    /// Their sum.
    Sum,
    /// Their average.
    Average,
    /// The variance of what they are a sample of.
    Variance,
    /// Their variance.
    PopulationVariance,
    /// The standard deviation of what they are a sample of.
    Deviation,
    /// Their standard deviation.
    PopulationDeviation,
}

/// What computes an aggregate of such an argument; `None`: what is planned.
pub fn computed(function: &AggregateUDF, argument: &DataType) -> Option<Arc<AggregateUDF>> {
    let numeric = matches!(argument, DataType::Decimal128(..) | &EXACT) || argument.is_integer();
    let what = match function.name() {
        "sum" if *argument == EXACT => What::Sum,
        "avg" if numeric => What::Average,
        _ => return None,
    };
    Some(of_numbers(what))
}

fn of_numbers(what: What) -> Arc<AggregateUDF> {
    let signature = Signature::any(1, Volatility::Immutable);
    Arc::new(AggregateUDF::new_from_impl(OfNumbers { what, signature }))
}

/// An aggregate of numbers.
#[derive(Debug, PartialEq, Eq, Hash)]
struct OfNumbers {
    what: What,
    signature: Signature,
}

impl AggregateUDFImpl for OfNumbers {
    fn name(&self) -> &str {
        match self.what {
            What::Average => "avg",
            _ => "sum",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(EXACT)
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        Ok(match averaged(&args) {
            Some(returns) => Box::new(Averaged(avg_udaf().accumulator(within(args, returns))?)),
            None => accumulator(self.what, args.is_distinct),
        })
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        match decimal(args.input_fields[0].data_type(), args.is_distinct) {
            Some(returns) => {
                avg_udaf().state_fields(StateFieldsArgs { return_field: returns, ..args })
            }
            None => Ok(vec![state_field(args.name)]),
        }
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        averaged(&args)
            .is_some_and(|returns| avg_udaf().groups_accumulator_supported(within(args, returns)))
    }

    fn create_groups_accumulator(
        &self,
        args: AccumulatorArgs,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        let returns = averaged(&args).ok_or_else(|| crate::planning::internal("of decimals"))?;
        Ok(Box::new(AveragedGroups(avg_udaf().create_groups_accumulator(within(args, returns))?)))
    }
}

/// What DataFusion's average of a decimal returns; `None` of other types.
pub fn decimal(argument: &DataType, is_distinct: bool) -> Option<FieldRef> {
    let is_decimal = matches!(argument, DataType::Decimal128(..)) && !is_distinct;
    let returns = is_decimal.then(|| avg_udaf().return_type(std::slice::from_ref(argument)).ok());
    returns.flatten().map(|ty| Arc::new(Field::new("avg", ty, true)))
}

/// The same for the arguments of an accumulator.
fn averaged(args: &AccumulatorArgs) -> Option<FieldRef> {
    decimal(args.expr_fields[0].data_type(), args.is_distinct)
}

fn within(args: AccumulatorArgs<'_>, return_field: FieldRef) -> AccumulatorArgs<'_> {
    AccumulatorArgs { return_field, ..args }
}

/// A count and a sum as they are in the states of DataFusion's average.
fn quotient(count: u64, sum: &ScalarValue) -> Result<ScalarValue> {
    let sum = match sum {
        ScalarValue::Decimal128(Some(sum), _, scale) => Exact::from_unscaled(*sum, *scale),
        ScalarValue::Decimal256(Some(sum), _, scale) => match sum.to_i128() {
            Some(sum) => Exact::from_unscaled(sum, *scale),
            None => Exact::parse(&format!("{sum}e-{scale}")).map_err(SqlError::from)?,
        },
        _ => return Ok(numerics::scalar(None)),
    };
    if count == 0 {
        return Ok(numerics::scalar(None));
    }
    let average = sum.div(&Exact::from(i128::from(count))).map_err(SqlError::from)?;
    Ok(numerics::scalar(Some(&average)))
}

/// The average of decimals: DataFusion's, whose state is divided here.
#[derive(Debug)]
pub struct Averaged(pub Box<dyn Accumulator>);

impl Accumulator for Averaged {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.0.update_batch(values)
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.0.merge_batch(states)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.0.retract_batch(values)
    }

    fn supports_retract_batch(&self) -> bool {
        self.0.supports_retract_batch()
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        match &self.0.state()?[..] {
            [ScalarValue::UInt64(Some(count)), sum] => quotient(*count, sum),
            _ => Err(crate::planning::internal("an average is of a count and a sum")),
        }
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.0.state()
    }

    fn size(&self) -> usize {
        self.0.size()
    }
}

/// The same, of many groups.
struct AveragedGroups(Box<dyn GroupsAccumulator>);

impl GroupsAccumulator for AveragedGroups {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total: usize,
    ) -> Result<()> {
        self.0.update_batch(values, groups, filter, total)
    }

    fn merge_batch(&mut self, values: &[ArrayRef], groups: &[usize], total: usize) -> Result<()> {
        self.0.merge_batch(values, groups, total)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let states = self.0.state(emit_to)?;
        let counts = states[0].as_primitive::<UInt64Type>();
        let average = |row: usize| match counts.is_valid(row) {
            true => quotient(counts.value(row), &ScalarValue::try_from_array(&states[1], row)?),
            false => Ok(numerics::scalar(None)),
        };
        if counts.is_empty() {
            return Ok(new_empty_array(&EXACT));
        }
        let averages = (0..counts.len()).map(average).collect::<Result<Vec<_>>>()?;
        ScalarValue::iter_to_array(averages)
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        self.0.state(emit_to)
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        self.0.convert_to_state(values, filter)
    }

    fn size(&self) -> usize {
        self.0.size()
    }
}

/// Makes something of numbers, value by value.
pub fn accumulator(what: What, is_distinct: bool) -> Box<dyn Accumulator> {
    let state = match what {
        What::Sum | What::Average => State::Sum(Sum::default()),
        _ => State::Moments(Moments::default()),
    };
    Box::new(Kept { what, state, seen: is_distinct.then(BTreeMap::new) })
}

/// What an [`accumulator`] passes on.
pub fn state_field(name: &str) -> FieldRef {
    Arc::new(Field::new(format!("{name}[numbers]"), DataType::Binary, true))
}

#[derive(Debug)]
enum State {
    Sum(Sum),
    Moments(Moments),
}

#[derive(Debug)]
struct Kept {
    what: What,
    state: State,
    /// With DISTINCT: the first of the numbers that are equal, by what they are compared by.
    seen: Option<BTreeMap<Vec<u8>, Vec<u8>>>,
}

impl Kept {
    fn add(&mut self, value: &Exact) {
        if let Some(seen) = &mut self.seen {
            let bytes = value.encode();
            if seen.contains_key(order(&bytes)) {
                return;
            }
            seen.insert(order(&bytes).to_vec(), bytes);
        }
        match &mut self.state {
            State::Sum(sum) => sum.add(value),
            State::Moments(moments) => moments.add(value),
        }
    }

    fn merge(&mut self, bytes: &[u8]) -> Result<(), SqlError> {
        if self.seen.is_some() {
            let mut rest = bytes;
            while let Some((length, tail)) = rest.split_first_chunk() {
                let length = u32::from_le_bytes(*length) as usize;
                let (value, tail) = tail.split_at_checked(length).ok_or(NumericError::Corrupt)?;
                self.add(&Exact::decode(value)?);
                rest = tail;
            }
            return Ok(());
        }
        match &mut self.state {
            State::Sum(sum) => sum.merge(&Sum::from_bytes(bytes)?),
            State::Moments(moments) => moments.merge(&Moments::from_bytes(bytes)?),
        }
        Ok(())
    }

    fn bytes(&self) -> Vec<u8> {
        match (&self.seen, &self.state) {
            (Some(seen), _) => {
                let mut out = Vec::new();
                for value in seen.values() {
                    out.extend_from_slice(&(value.len() as u32).to_le_bytes());
                    out.extend_from_slice(value);
                }
                out
            }
            (None, State::Sum(sum)) => sum.to_bytes(),
            (None, State::Moments(moments)) => moments.to_bytes(),
        }
    }

    fn result(&self) -> Result<Option<Exact>, NumericError> {
        match (&self.state, self.what) {
            (State::Sum(sum), What::Average) => sum.average(),
            (State::Sum(sum), _) => sum.sum(),
            (State::Moments(moments), What::Variance) => moments.var_samp(),
            (State::Moments(moments), What::PopulationVariance) => moments.var_pop(),
            (State::Moments(moments), What::Deviation) => moments.stddev_samp(),
            (State::Moments(moments), _) => moments.stddev_pop(),
        }
    }
}

fn numbers(values: &ArrayRef) -> impl Iterator<Item = Exact> {
    (0..values.len()).filter_map(|row| exact_of(&cell_at(values.as_ref(), row)))
}

impl Accumulator for Kept {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        numbers(&values[0]).for_each(|value| self.add(&value));
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let states = states[0].as_binary::<i32>();
        Ok(states.iter().flatten().try_for_each(|state| self.merge(state))?)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        numbers(&values[0]).for_each(|value| match &mut self.state {
            State::Sum(sum) => sum.remove(&value),
            State::Moments(moments) => moments.remove(&value),
        });
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        self.seen.is_none()
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(numerics::scalar(self.result().map_err(SqlError::from)?.as_ref()))
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![ScalarValue::Binary(Some(self.bytes()))])
    }

    fn size(&self) -> usize {
        let seen = self.seen.iter().flatten().map(|(order, value)| order.len() + value.len() + 64);
        size_of_val(self) + seen.sum::<usize>()
    }
}
