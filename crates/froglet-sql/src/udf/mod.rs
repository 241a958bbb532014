//! Functions that PostgreSQL's clients expect and DataFusion has not, or has otherwise.

pub mod average;
pub mod catalog;
pub mod lookup;
pub mod session;
pub mod simple;
pub mod single;

use std::sync::Arc;

use datafusion::logical_expr::{AggregateUDF, ScalarUDF};

use crate::semantics::arith::Negative;
use crate::types::oids;
use simple::{Out, Simple};

/// The name of the function that pads a string to the width of a char(n).
pub const PAD: &str = "froglet_pad";

fn pad() -> Arc<ScalarUDF> {
    Simple::new(PAD, &[oids::TEXT, oids::INT4], oids::TEXT, |_, cells| {
        let text = simple::text(cells, 0).trim_end_matches(' ');
        let width = simple::int(cells, 1).and_then(|w| usize::try_from(w).ok()).unwrap_or(0);
        Ok(Out::Text(format!("{text:width$}")))
    })
    .build()
}

/// Scalar functions.
pub fn scalar_functions() -> Vec<Arc<ScalarUDF>> {
    let mut all = session::functions();
    all.extend(catalog::functions());
    all.push(Arc::new(ScalarUDF::new_from_impl(Negative::default())));
    all.push(pad());
    all
}

/// Aggregate functions.
pub fn aggregate_functions() -> Vec<Arc<AggregateUDF>> {
    vec![Arc::new(AggregateUDF::new_from_impl(single::SingleValue::default()))]
}
