//! Functions that PostgreSQL's clients expect and DataFusion has not.
pub mod lookup;

use std::sync::Arc;
use datafusion::logical_expr::{AggregateUDF, ScalarUDF};

/// Ours.
pub fn scalar_functions() -> Vec<Arc<ScalarUDF>> { vec![Arc::new(ScalarUDF::new_from_impl(crate::semantics::arith::Negative::default()))] }
/// Ours.
pub fn aggregate_functions() -> Vec<Arc<AggregateUDF>> { Vec::new() }
