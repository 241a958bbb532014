//! `array_agg`, which is DataFusion's but for its type: that of PostgreSQL's arrays of such elements, where Arrow's
//! does not tell it (`name[]`, `record[]`).

use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef};
use datafusion::error::Result;
use datafusion::functions_aggregate::array_agg::array_agg_udaf;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, GroupsAccumulator, ReversedUDAF, Signature,
};

use crate::types::{array_type_of, plain, sql_field, sql_type_of_field};

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
                sql_field(field.name(), plain(oid), field.data_type().clone(), nullable)
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
