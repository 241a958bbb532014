//! `min` and `max`, which are DataFusion's but for the SQL type of what they return, where Arrow's does not tell it; of
//! an enum they go by the order of its labels.

use std::fmt::Debug;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray};
use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::functions_aggregate::min_max::{max_udaf, min_udaf};
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, GroupsAccumulator, ReversedUDAF, SetMonotonicity,
    Signature,
};
use froglet_schema::def::FIRST_USER_ID;

use crate::types::{oids, plain, sql_field, sql_type_of_field};

/// The aggregates.
pub fn functions() -> Vec<Arc<AggregateUDF>> {
    let of = |inner| Arc::new(AggregateUDF::new_from_impl(Extreme { inner, labels: None }));
    [min_udaf(), max_udaf()].map(of).into()
}

/// An aggregate as that of an enum with these labels; `None` if it is another aggregate.
pub fn of_enum(function: &AggregateUDF, labels: Arc<[String]>) -> Option<Arc<AggregateUDF>> {
    let planned = function.inner().downcast_ref::<Extreme>()?;
    let of_enum = Extreme { inner: planned.inner.clone(), labels: Some(labels) };
    Some(Arc::new(AggregateUDF::new_from_impl(of_enum)))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Extreme {
    inner: Arc<AggregateUDF>,
    /// Of an enum.
    labels: Option<Arc<[String]>>,
}

impl Extreme {
    fn by_labels(&self) -> Option<Box<dyn Accumulator>> {
        let labels = self.labels.clone()?;
        let counts = vec![0; labels.len()];
        Some(Box::new(ByLabels { is_max: self.name() == "max", labels, counts }))
    }
}

impl AggregateUDFImpl for Extreme {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(types)
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(types)
    }

    fn return_field(&self, fields: &[FieldRef]) -> Result<FieldRef> {
        let field = self.inner.return_field(fields)?;
        let given = fields.first().map(|given| sql_type_of_field(given).oid);
        Ok(match given.filter(|oid| *oid == oids::BPCHAR || *oid >= FIRST_USER_ID) {
            Some(oid) => sql_field(field.name(), plain(oid), field.data_type().clone(), true),
            None => field,
        })
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        self.by_labels().map_or_else(|| self.inner.accumulator(args), Ok)
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        self.by_labels().map_or_else(|| self.inner.create_sliding_accumulator(args), Ok)
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        self.labels.is_none() && self.inner.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(
        &self,
        args: AccumulatorArgs,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        self.inner.create_groups_accumulator(args)
    }

    fn is_descending(&self) -> Option<bool> {
        if self.labels.is_some() { None } else { self.inner.is_descending() }
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        self.inner.order_sensitivity()
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }

    fn set_monotonicity(&self, ty: &DataType) -> SetMonotonicity {
        match self.labels {
            Some(_) => SetMonotonicity::NotMonotonic,
            None => self.inner.inner().set_monotonicity(ty),
        }
    }
}

/// How often each label is there.
#[derive(Debug)]
struct ByLabels {
    is_max: bool,
    labels: Arc<[String]>,
    counts: Vec<u64>,
}

impl ByLabels {
    fn each(&mut self, values: &ArrayRef, change: impl Fn(&mut u64)) -> Result<()> {
        let texts = arrow::compute::cast(values, &DataType::Utf8View)?;
        for text in texts.as_string_view().iter().flatten() {
            // A label is one of the type's when it becomes a value of it.
            if let Some(at) = self.labels.iter().position(|label| label == text) {
                change(&mut self.counts[at]);
            }
        }
        Ok(())
    }

    fn value(&self) -> ScalarValue {
        let is_there = |count: &u64| *count > 0;
        let at = match self.is_max {
            true => self.counts.iter().rposition(is_there),
            false => self.counts.iter().position(is_there),
        };
        ScalarValue::Utf8View(at.map(|at| self.labels[at].clone()))
    }
}

impl Accumulator for ByLabels {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.each(&values[0], |count| *count += 1)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.each(&values[0], |count| *count -= 1)
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(self.value())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.value()])
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.counts.capacity() * size_of::<u64>()
    }
}
