//! `array_agg`, which is DataFusion's but for its type: that of PostgreSQL's arrays of such elements, where Arrow's
//! does not tell it (`name[]`, `record[]`). With DISTINCT numerics and intervals are told by their measures: 1.0 and
//! 1.00 are one, '1 mon' and '30 days', too.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::SortOptions;
use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::functions_aggregate::array_agg::array_agg_udaf;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, GroupsAccumulator, ReversedUDAF, Signature,
};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};

use crate::semantics::measures;
use crate::types::cell::cell_at;
use crate::types::{array_type_of, plain, record, sql_field, sql_type_of_field};

/// The aggregate.
pub fn function() -> Arc<AggregateUDF> {
    around(array_agg_udaf())
}

fn around(inner: Arc<AggregateUDF>) -> Arc<AggregateUDF> {
    Arc::new(AggregateUDF::new_from_impl(ArrayAgg { inner }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct ArrayAgg {
    inner: Arc<AggregateUDF>,
}

impl AggregateUDFImpl for ArrayAgg {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(types)
    }

    fn return_field(&self, fields: &[FieldRef]) -> Result<FieldRef> {
        let field = self.inner.return_field(fields)?;
        let array = fields.first().and_then(|item| array_type_of(sql_type_of_field(item).oid));
        Ok(match array {
            Some(oid) => {
                let nullable = field.is_nullable();
                let typed =
                    sql_field(field.name(), plain(oid), field.data_type().clone(), nullable);
                record::array_of(typed, &fields[0])
            }
            None => field,
        })
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        self.inner.state_fields(args)
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        self.inner.order_sensitivity()
    }

    fn with_beneficial_ordering(
        self: Arc<Self>,
        beneficial_ordering: bool,
    ) -> Result<Option<Arc<dyn AggregateUDFImpl>>> {
        let inner = (*self.inner).clone().with_beneficial_ordering(beneficial_ordering)?;
        Ok(inner.map(|inner| Arc::new(ArrayAgg { inner: Arc::new(inner) }) as _))
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let item = args.expr_fields[0].data_type();
        // With DISTINCT an order can only be the values' own.
        let order = match args.order_bys {
            [] => Some(SortOptions { descending: false, nulls_first: false }),
            [key] if is_of_value(&key.expr, &args.exprs[0]) => Some(key.options),
            _ => None,
        };
        if let Some(order) = order
            && args.is_distinct
            && measures::has_bytes(item)
        {
            let (item, seen) = (item.clone(), BTreeMap::new());
            return Ok(Box::new(DistinctValues { item, order, seen, has_null: false }));
        }
        self.inner.accumulator(args)
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        self.inner.create_sliding_accumulator(args)
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        match self.inner.reverse_udf() {
            ReversedUDAF::Reversed(inner) => ReversedUDAF::Reversed(around(inner)),
            other => other,
        }
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        self.inner.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(
        &self,
        args: AccumulatorArgs,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        self.inner.create_groups_accumulator(args)
    }

    fn supports_null_handling_clause(&self) -> bool {
        self.inner.supports_null_handling_clause()
    }
}

/// Whether a key is the value itself, or what that is compared by.
fn is_of_value(key: &Arc<dyn PhysicalExpr>, value: &Arc<dyn PhysicalExpr>) -> bool {
    let measured = key.downcast_ref::<ScalarFunctionExpr>().is_some_and(|call| {
        measures::is_measure(call.fun()) && matches!(call.args(), [of] if of == value)
    });
    key == value || measured
}

/// Values that are told by their measures, in the order of these.
#[derive(Debug)]
struct DistinctValues {
    item: DataType,
    order: SortOptions,
    seen: BTreeMap<Vec<u8>, ScalarValue>,
    has_null: bool,
}

impl DistinctValues {
    fn take(&mut self, values: &dyn Array) -> Result<()> {
        for row in 0..values.len() {
            let Some(measure) = measures::of_cell(&cell_at(values, row)) else {
                self.has_null = true;
                continue;
            };
            if let Entry::Vacant(free) = self.seen.entry(measure) {
                free.insert(ScalarValue::try_from_array(values, row)?);
            }
        }
        Ok(())
    }
}

impl Accumulator for DistinctValues {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.take(values[0].as_ref())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        states[0].as_list::<i32>().iter().flatten().try_for_each(|list| self.take(list.as_ref()))
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let mut values: Vec<ScalarValue> = self.seen.values().cloned().collect();
        if self.order.descending {
            values.reverse();
        }
        if self.has_null {
            let at = if self.order.nulls_first { 0 } else { values.len() };
            values.insert(at, ScalarValue::try_from(&self.item)?);
        }
        if values.is_empty() {
            return Ok(ScalarValue::new_null_list(self.item.clone(), true, 1));
        }
        Ok(ScalarValue::List(ScalarValue::new_list_nullable(&values, &self.item)))
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.evaluate()?])
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.seen.values().map(|value| 2 * value.size()).sum::<usize>()
    }
}
