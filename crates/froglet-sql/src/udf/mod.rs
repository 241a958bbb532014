//! Functions that PostgreSQL's clients expect and DataFusion has not, or has otherwise.

pub mod catalog;
pub mod lookup;
pub mod session;
pub mod simple;
pub mod single;

use std::sync::Arc;

use datafusion::logical_expr::{AggregateUDF, ScalarUDF};

use crate::semantics::arith::Negative;

/// Scalar functions.
pub fn scalar_functions() -> Vec<Arc<ScalarUDF>> {
    let mut all = session::functions();
    all.extend(catalog::functions());
    all.push(Arc::new(ScalarUDF::new_from_impl(Negative::default())));
    all
}

/// Aggregate functions.
pub fn aggregate_functions() -> Vec<Arc<AggregateUDF>> {
    vec![Arc::new(AggregateUDF::new_from_impl(single::SingleValue::default()))]
}
