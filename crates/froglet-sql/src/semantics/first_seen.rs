//! WITH RECURSIVE … UNION over values that are equal and not the same.
//!
//! DataFusion tells the rows of a recursive query by their bytes, so that 1.0 and 1.00 would be two, and
//! `SELECT 1.0 UNION SELECT x * 1.0` would never end. Both terms put in the place of each value the first one of
//! this run that is equal to it: what is equal is then the same.
//!
//! ```text
//!   RecursiveQuery ─ A, B     ─▶     RecursiveQuery ─ Projection first(x) ─ A
//!                                                  └─ Projection first(x) ─ B
//! ```

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, Expr, LogicalPlan, Projection, RecursiveQuery, ReturnFieldArgs,
    ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use parking_lot::Mutex;

use super::measures;
use crate::subplan::ScopeRef;
use crate::types::cell::{Cell, cell_at};
use crate::types::json;

/// What each recursive column of a run has seen, by what it is compared by.
pub(crate) type FirstSeen = Mutex<HashMap<(String, Vec<u8>), ScalarValue>>;

/// A recursive query that keeps one of equal rows.
pub fn distinct(mut query: RecursiveQuery) -> Result<RecursiveQuery> {
    let schema = query.static_term.schema().clone();
    let is_measured: Vec<bool> =
        schema.iter().map(|column| measures::is_measured(&Expr::from(column), &schema)).collect();
    if !is_measured.contains(&true) {
        return Ok(query);
    }
    for term in [&mut query.static_term, &mut query.recursive_term] {
        let columns = term.schema().iter().zip(&is_measured).enumerate();
        let columns = columns.map(|(at, ((qualifier, field), is_measured))| {
            let column = Expr::from((qualifier, field));
            match is_measured {
                true => first(format!("{}.{at}", query.name))
                    .call(vec![column])
                    .alias_qualified(qualifier.cloned(), field.name()),
                false => column,
            }
        });
        let plan = Projection::try_new(columns.collect(), term.clone())?;
        *term = Arc::new(LogicalPlan::Projection(plan));
    }
    Ok(query)
}

fn first(column: String) -> ScalarUDF {
    let signature = Signature::any(1, Volatility::Volatile);
    ScalarUDF::new_from_impl(First { column, signature })
}

/// The first value of a run that is equal to the one given.
#[derive(Debug, PartialEq, Eq, Hash)]
struct First {
    column: String,
    signature: Signature,
}

impl ScalarUDFImpl for First {
    fn name(&self) -> &str {
        "froglet_first_seen"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, given: &[DataType]) -> Result<DataType> {
        Ok(given.first().cloned().unwrap_or(DataType::Null))
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        Ok(args.arg_fields[0].clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let values = args.args[0].to_array(args.number_rows)?;
        let seen = ScopeRef::first_seen(&args.config_options)?;
        let mut seen = seen.lock();
        let firsts = (0..values.len()).map(|row| {
            let value = ScalarValue::try_from_array(&values, row)?;
            Ok(match measure(&values, row)? {
                Some(measure) => {
                    seen.entry((self.column.clone(), measure)).or_insert(value).clone()
                }
                None => value,
            })
        });
        let firsts = firsts.collect::<Result<Vec<ScalarValue>>>()?;
        let array = match firsts.is_empty() {
            true => values,
            false => ScalarValue::iter_to_array(firsts)?,
        };
        Ok(ColumnarValue::Array(array))
    }
}

/// What a value is compared by, as bytes; none of NULL.
fn measure(values: &ArrayRef, row: usize) -> Result<Option<Vec<u8>>> {
    Ok(match cell_at(values.as_ref(), row) {
        Cell::Text(text) => Some(json::key::of(&json::read(text)?)),
        cell => measures::of_cell(&cell),
    })
}
