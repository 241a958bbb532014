//! An average of counts and sums that were made of its rows in parts: what `avg` makes of all of them.

use std::fmt::Debug;
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::compute::cast;
use arrow::datatypes::{DataType, FieldRef, Schema};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::functions_aggregate::average::avg_udaf;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility,
};

use super::numbers::{self, Averaged};

/// Its arguments are a bigint and a sum of what was averaged.
#[derive(Debug, PartialEq, Eq, Hash)]
struct MergedAverage {
    /// What was averaged.
    argument: FieldRef,
    /// The average.
    returns: FieldRef,
    signature: Signature,
}

/// The average of this argument, of counts and sums.
pub fn merged_average(argument: FieldRef, returns: FieldRef) -> Arc<AggregateUDF> {
    let signature = Signature::any(2, Volatility::Immutable);
    Arc::new(AggregateUDF::new_from_impl(MergedAverage { argument, returns, signature }))
}

impl AggregateUDFImpl for MergedAverage {
    fn name(&self) -> &str {
        "froglet_merged_average"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(self.returns.data_type().clone())
    }

    fn return_field(&self, _fields: &[FieldRef]) -> Result<FieldRef> {
        Ok(self.returns.clone())
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let return_field = self.within()?;
        let average = avg_udaf().accumulator(AccumulatorArgs {
            return_field,
            schema: &Schema::empty(),
            ignore_nulls: false,
            order_bys: &[],
            is_reversed: false,
            name: args.name,
            is_distinct: false,
            exprs: &[],
            expr_fields: std::slice::from_ref(&self.argument),
        })?;
        let states = self.states(args.name)?;
        Ok(Box::new(Merged { average: Averaged(average), states }))
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        self.states(args.name)
    }
}

impl MergedAverage {
    /// What DataFusion's average returns.
    fn within(&self) -> Result<FieldRef> {
        let returns = numbers::decimal(self.argument.data_type(), false);
        returns.ok_or_else(|| crate::planning::internal("an average of decimals"))
    }

    /// What an average keeps: a count and a sum.
    fn states(&self, name: &str) -> Result<Vec<FieldRef>> {
        avg_udaf().state_fields(StateFieldsArgs {
            name,
            input_fields: std::slice::from_ref(&self.argument),
            return_field: self.within()?,
            ordering_fields: &[],
            is_distinct: false,
        })
    }
}

#[derive(Debug)]
struct Merged {
    average: Averaged,
    states: Vec<FieldRef>,
}

impl Accumulator for Merged {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let states = values.iter().zip(&self.states);
        let states = states.map(|(value, state)| Ok(cast(value, state.data_type())?));
        self.average.merge_batch(&states.collect::<Result<Vec<_>>>()?)
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.average.merge_batch(states)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.average.evaluate()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.average.state()
    }

    fn size(&self) -> usize {
        self.average.size()
    }
}
