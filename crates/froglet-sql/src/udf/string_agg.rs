//! `string_agg`, which is DataFusion's where nothing orders its texts. Ordered, it is a list of them, joined: DataFusion
//! would have the rows in the one order of all such aggregates of a select, where a list sorts what it has itself.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::functions_aggregate::array_agg::array_agg_udaf;
use datafusion::functions_aggregate::string_agg::string_agg_udaf;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, GroupsAccumulator, ReversedUDAF, Signature,
};
use datafusion::physical_expr::expressions::Literal;

use crate::error::SqlError;
use crate::planning::internal;

/// The aggregate.
pub fn function() -> Arc<AggregateUDF> {
    Arc::new(AggregateUDF::new_from_impl(StringAgg {
        plain: string_agg_udaf(),
        list: array_agg_udaf(),
    }))
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct StringAgg {
    plain: Arc<AggregateUDF>,
    list: Arc<AggregateUDF>,
}

impl AggregateUDFImpl for StringAgg {
    fn name(&self) -> &str {
        self.plain.name()
    }

    fn signature(&self) -> &Signature {
        self.plain.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.plain.return_type(types)
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        // Of an ordered one it is the list's.
        self.plain.state_fields(args)
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        self.list.order_sensitivity()
    }

    fn with_beneficial_ordering(
        self: Arc<Self>,
        beneficial_ordering: bool,
    ) -> Result<Option<Arc<dyn AggregateUDFImpl>>> {
        let list = (*self.list).clone().with_beneficial_ordering(beneficial_ordering)?;
        let with = |list| StringAgg { list: Arc::new(list), ..(*self).clone() };
        Ok(list.map(|list| Arc::new(with(list)) as _))
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        if !args.is_distinct && args.order_bys.is_empty() {
            return self.plain.accumulator(args);
        }
        let (Some(value), Some(field)) = (args.exprs.first(), args.expr_fields.first()) else {
            return Err(internal("string_agg of nothing"));
        };
        let delimiter = match args.exprs[1].downcast_ref::<Literal>() {
            Some(literal) => literal.value().try_as_str().flatten().unwrap_or_default().to_owned(),
            None => return Err(SqlError::unsupported("string_agg by an expression").into()),
        };
        let item = field.data_type().clone();
        let list = self.list.accumulator(AccumulatorArgs {
            return_field: Arc::new(Field::new("list", DataType::new_list(item, true), true)),
            exprs: std::slice::from_ref(value),
            expr_fields: std::slice::from_ref(field),
            ..args
        })?;
        Ok(Box::new(Joined { list, delimiter }))
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Reversed(Arc::new(AggregateUDF::new_from_impl(self.clone())))
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        self.plain.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(
        &self,
        args: AccumulatorArgs,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        self.plain.create_groups_accumulator(args)
    }
}

/// A list of texts, joined when it is complete.
#[derive(Debug)]
struct Joined {
    list: Box<dyn Accumulator>,
    delimiter: String,
}

impl Accumulator for Joined {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        // The texts, and what they are sorted by; the delimiter stands between.
        let keys = values.iter().skip(2);
        self.list.update_batch(&values.iter().take(1).chain(keys).cloned().collect::<Vec<_>>())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let ScalarValue::List(list) = self.list.evaluate()? else {
            return Err(internal("a list of texts is none"));
        };
        let texts = cast(list.values(), &DataType::LargeUtf8)?;
        let texts: Vec<&str> = texts.as_string::<i64>().iter().flatten().collect();
        let joined = (!texts.is_empty()).then(|| texts.join(&self.delimiter));
        Ok(ScalarValue::LargeUtf8(joined))
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.list.size() + self.delimiter.capacity()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.list.state()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.list.merge_batch(states)
    }
}
