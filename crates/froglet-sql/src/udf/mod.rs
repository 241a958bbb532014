//! Functions that PostgreSQL's clients expect and DataFusion has not, or has otherwise.

pub mod advisory;
pub(crate) mod arguments;
pub mod array_agg;
pub mod arrays;
pub mod average;
pub mod bytes;
pub mod case;
pub mod catalog;
pub mod decimal;
mod distinct;
pub mod enum_range;
pub mod extremes;
pub mod fields;
pub mod format;
pub mod from_char;
mod guarded;
pub mod hash;
mod idents;
pub mod intervals;
mod items;
pub mod json;
pub mod json_path;
pub(crate) mod lists;
pub mod lookup;
pub mod math;
pub mod moments;
pub mod nothing;
pub mod notify;
pub mod ntile;
pub mod number_format;
pub mod numbers;
pub mod ordered;
pub mod overload;
pub mod pattern;
mod polymorphic;
pub mod ranks;
pub mod real_sum;
pub mod regexp;
pub mod row_key;
pub mod session;
pub mod sets;
pub mod simple;
pub mod single;
mod sizes;
pub mod spans;
pub mod statistics;
pub mod string_agg;
pub mod strings;
pub mod template;
pub mod to_char;
pub mod typed;

use std::sync::Arc;

use datafusion::logical_expr::{AggregateUDF, ScalarUDF, WindowUDF};

use crate::plan::rewrite::alike_in_sets;
use crate::semantics::arith::Negative;
use crate::semantics::{cast_names, common, identity, merged_columns, named, quantified};
use crate::types::oids;
use simple::{Out, Simple};

/// The name of the function that pads a string to the width of a char(n).
pub const PAD: &str = "froglet_pad";

/// The name of the function that is true of every value: whoever asks has the value computed.
pub const CALLED: &str = "froglet_called";

fn called() -> Arc<ScalarUDF> {
    typed::Typed::new(CALLED, 1, oids::BOOL, |_| Ok(Out::Bool(true))).not_strict().build()
}

/// The type of what answers nothing.
pub const VOID: u32 = 2278;

fn pad() -> Arc<ScalarUDF> {
    Simple::new(PAD, &[oids::TEXT, oids::INT4], oids::TEXT, |_, cells| {
        let text = simple::text(cells, 0).trim_end_matches(' ');
        let width = simple::int(cells, 1).and_then(|w| usize::try_from(w).ok()).unwrap_or(0);
        Ok(Out::Text(format!("{text:width$}")))
    })
    .build()
}

/// The tables of functions with PostgreSQL's signatures.
static SIGNATURES: &[&[overload::Overload]] = &[
    bytes::ALL,
    case::ALL,
    decimal::ALL,
    fields::ALL,
    from_char::ALL,
    idents::ALL,
    json_path::ALL,
    math::ALL,
    moments::ALL,
    number_format::ALL,
    regexp::ALL,
    sets::ALL,
    sizes::ALL,
    strings::ALL,
    to_char::ALL,
];

/// Whether a function returns a set, as a list.
pub fn is_set(name: &str) -> bool {
    name == lists::EXPAND
        || SIGNATURES.iter().flat_map(|table| table.iter()).any(|o| o.is_set_named(name))
}

/// Scalar functions.
pub fn scalar_functions() -> Vec<Arc<ScalarUDF>> {
    let mut all = session::functions();
    all.extend(catalog::functions());
    all.extend(spans::functions());
    all.extend(json::functions());
    all.extend(arrays::functions());
    all.extend(lists::functions());
    all.extend(enum_range::functions());
    all.extend(guarded::functions());
    all.extend(polymorphic::functions());
    all.extend(advisory::functions());
    all.extend(nothing::functions());
    all.extend(notify::functions());
    all.push(Arc::new(ScalarUDF::new_from_impl(Negative::default())));
    all.push(pad());
    all.push(called());
    all.push(row_key::function());
    all.push(crate::exported::function());
    all.extend(overload::functions(SIGNATURES));
    all.extend(common::functions());
    all.extend(quantified::functions());
    all.extend(named::functions());
    all.push(identity::function(cast_names::NAME));
    all.push(identity::function(alike_in_sets::APART));
    all.push(identity::function(merged_columns::OWN));
    all
}

/// Aggregate functions.
pub fn aggregate_functions() -> Vec<Arc<AggregateUDF>> {
    let mut all = intervals::planned();
    all.extend(extremes::functions());
    all.push(array_agg::function());
    all.push(string_agg::function());
    all.extend(ordered::functions());
    all.extend(statistics::functions());
    all.push(Arc::new(AggregateUDF::new_from_impl(single::SingleValue::default())));
    all
}

/// Every window function.
pub fn window_functions() -> Vec<Arc<WindowUDF>> {
    ranks::functions().into_iter().chain([ntile::function()]).collect()
}
