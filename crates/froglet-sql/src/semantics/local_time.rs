//! Functions that look at the clock: `extract`, `date_trunc`, `to_char`.
//!
//! Of a timestamp with time zone they mean the clock of the session's zone, while DataFusion's look at
//! the array's, which is UTC. So they are given the local time; what they truncate becomes a point in
//! time again. Under UTC nothing changes.

use arrow::datatypes::DataType;
use datafusion::common::DFSchema;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{Expr, ExprSchemable};

use super::casts::call;
use crate::types::{self, Zone, oids};

/// Whether a call looks at the clock of the session's zone.
pub(super) fn is_read(call: &ScalarFunction, schema: &DFSchema) -> bool {
    if Zone::current().is_utc() || call.args.len() != 2 {
        return false;
    }
    let time = match call.func.name() {
        "date_part" => match &call.args[0] {
            Expr::Literal(field, _) => !field.to_string().to_lowercase().contains("epoch"),
            _ => return false,
        },
        "date_trunc" => true,
        "to_char" => return is_timestamptz(&call.args[0], schema),
        _ => return false,
    };
    time && is_timestamptz(&call.args[1], schema)
}

fn is_timestamptz(expr: &Expr, schema: &DFSchema) -> bool {
    matches!(expr.get_type(schema), Ok(DataType::Timestamp(_, Some(_))))
}

/// The call over the local time, and a truncated time back where it came from.
pub(super) fn read(mut function: ScalarFunction) -> Expr {
    let local = |expr: Expr| call(expr, types::plain(oids::TIMESTAMP));
    let at = usize::from(function.func.name() != "to_char");
    let time = function.args.remove(at);
    function.args.insert(at, local(time));
    let truncated = function.func.name() == "date_trunc";
    let function = Expr::ScalarFunction(function);
    if truncated { call(function, types::plain(oids::TIMESTAMPTZ)) } else { function }
}
