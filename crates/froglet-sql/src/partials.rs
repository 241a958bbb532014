//! An aggregate in two halves: over the rows of each block, and over what that has made.
//!
//! ```text
//!   avg(price)      count(price), sum(price)  by block      average of those
//!   count(*)        count(*)                  by block      sum of those, 0 of none
//! ```
//!
//! P1: the second half makes exactly what the aggregate makes. So sums and averages of floating-point
//!     numbers, which depend on the order, have no halves; nor has what keeps every value.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::{Column, DFSchema};
use datafusion::error::Result;
use datafusion::functions_aggregate::count::count_udaf;
use datafusion::functions_aggregate::sum::sum_udaf;
use datafusion::logical_expr::expr::{AggregateFunction, AggregateFunctionParams};
use datafusion::logical_expr::{Aggregate, AggregateUDF, Expr, ExprSchemable, cast, lit, when};

use crate::udf::average::merged_average;

/// See the module.
pub(crate) struct Halves {
    /// Over rows; named, as two may be the same but for a cast.
    pub first: Vec<Expr>,
    /// Over the columns that those make.
    pub second: Vec<Expr>,
    /// Of each aggregate, over the columns that these make.
    pub values: Vec<Expr>,
}

/// One aggregate in two.
struct Split {
    first: Vec<Expr>,
    /// Over what those make.
    second: Arc<AggregateUDF>,
    value: ValueOf,
}

/// What the aggregate's value is of what the second half makes.
enum ValueOf {
    /// That.
    Same,
    /// That, in the aggregate's type.
    Cast,
    /// That, or 0 where there were no rows.
    OrZero,
}

/// The halves of a node's aggregates; `None` if one has none. `column`: what makes number `n` of the first
/// half is called by the second.
pub(crate) fn halves(
    aggregate: &Aggregate,
    column: impl Fn(usize) -> Expr,
) -> Result<Option<Halves>> {
    let schema = aggregate.input.schema();
    let mut halves = Halves { first: Vec::new(), second: Vec::new(), values: Vec::new() };
    for expr in &aggregate.aggr_expr {
        let Some(Split { first, second, value }) = split(expr, schema)? else { return Ok(None) };
        let mut columns = Vec::with_capacity(first.len());
        for first in first {
            columns.push(column(entered(&mut halves.first, first).0));
        }
        let name = entered(&mut halves.second, function_of(second, columns, None)).1;
        let made = Expr::Column(Column::new_unqualified(name));
        halves.values.push(match value {
            ValueOf::Same => made,
            ValueOf::Cast => cast(made, expr.get_type(schema)?),
            ValueOf::OrZero => when(made.clone().is_null(), lit(0_i64)).otherwise(made)?,
        });
    }
    Ok(Some(halves))
}

/// The halves of an aggregate; `None` if it has none.
fn split(expr: &Expr, schema: &DFSchema) -> Result<Option<Split>> {
    let Expr::AggregateFunction(call) = expr else { return Ok(None) };
    let AggregateFunctionParams { args, distinct, filter, order_by, null_treatment } = &call.params;
    if !order_by.is_empty() || null_treatment.is_some() {
        return Ok(None);
    }
    let ty = match args.first() {
        Some(arg) => arg.get_type(schema)?,
        None => DataType::Null,
    };
    let is_decimal = matches!(ty, DataType::Decimal128(..));
    let (second, value) = match (call.func.name(), distinct) {
        ("min" | "max", _) if !ty.is_floating() => (call.func.clone(), ValueOf::Same),
        ("bool_and" | "bool_or" | "bit_and" | "bit_or", _) => (call.func.clone(), ValueOf::Same),
        ("count", false) => (sum_udaf(), ValueOf::OrZero),
        ("sum", false) if ty.is_integer() || is_decimal => (sum_udaf(), ValueOf::Cast),
        ("avg", false) if is_decimal => {
            let half = |function| function_of(function, args.clone(), filter.clone());
            let first = vec![half(count_udaf()), half(sum_udaf())];
            let (argument, result) = (args[0].to_field(schema)?.1, expr.to_field(schema)?.1);
            let second = merged_average(argument, result);
            return Ok(Some(Split { first, second, value: ValueOf::Same }));
        }
        _ => return Ok(None),
    };
    Ok(Some(Split { first: vec![expr.clone()], second, value }))
}

fn function_of(function: Arc<AggregateUDF>, args: Vec<Expr>, filter: Option<Box<Expr>>) -> Expr {
    let function = AggregateFunction::new_udf(function, args, false, filter, Vec::new(), None);
    Expr::AggregateFunction(function)
}

/// Where an expression is among others, once it is, and under which name.
fn entered(exprs: &mut Vec<Expr>, expr: Expr) -> (usize, String) {
    let is_it = |other: &Expr| matches!(other, Expr::Alias(alias) if *alias.expr == expr);
    let at = exprs.iter().position(is_it).unwrap_or(exprs.len());
    let name = format!("half {at}");
    if at == exprs.len() {
        exprs.push(expr.alias(&name));
    }
    (at, name)
}
