//! Rows as values: `row(a, b)`, whose value is its text. What they are compared by, and their json, are made of their
//! fields, where these stand there; of other rows they are refused.

use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{Expr, lit};

use super::fields::field_of;
use super::{enums, json_ops};
use crate::error::SqlError;
use crate::types::{oids, sql_type_of_field};
use crate::udf::json::{ROW, ROW_TO_JSON};
use crate::udf::row_key::ROW_KEY;
use crate::udf::typed::no_function;

/// What a row is compared by.
pub fn key_of(row: Expr, schema: &DFSchema) -> Result<Expr> {
    made(row, "comparing such rows", &|mut fields| {
        enums::rank_all(&mut fields, schema);
        json_ops::call(ROW_KEY, fields)
    })
}

/// A row as json.
pub fn json_of(row: Expr) -> Result<Expr> {
    made(row, "json of such a row", &|fields| {
        let named = fields.into_iter().enumerate();
        let members = named.flat_map(|(at, field)| [lit(format!("f{}", at + 1)), field]);
        json_ops::call(ROW, members.collect())
    })
}

/// `row_to_json(row)`; 42883 of anything else.
pub fn row_to_json(mut call: ScalarFunction, schema: &DFSchema) -> Result<Expr> {
    let fields = call.args.iter().map(|arg| field_of(arg, schema)).collect::<Result<Vec<_>>>()?;
    match (call.args.pop(), &fields[..]) {
        (Some(row), [field]) if sql_type_of_field(field).oid == oids::RECORD => json_of(row),
        _ => Err(no_function(ROW_TO_JSON, &fields).into()),
    }
}

fn made(row: Expr, what: &str, make: &dyn Fn(Vec<Expr>) -> Option<Expr>) -> Result<Expr> {
    match row {
        Expr::ScalarFunction(call) if call.func.name() == "row" => {
            Ok(make(call.args).expect("the function is registered"))
        }
        Expr::Literal(value, _) if value.is_null() => Ok(Expr::Literal(ScalarValue::Null, None)),
        _ => Err(SqlError::unsupported(what).into()),
    }
}

/// 0A000 for a test of a row for NULL that is not known to be made of its fields: it is one of theirs.
pub fn refuse_null_test(tested: &Expr, schema: &DFSchema) -> Result<()> {
    match json_ops::oid_of(tested, schema) {
        Some(oids::RECORD) => Err(SqlError::unsupported("IS NULL of such a row").into()),
        _ => Ok(()),
    }
}

/// Fields of enum types as their places, by which they are compared; whether there were any.
pub fn rank_fields(call: &mut ScalarFunction, schema: &DFSchema) -> bool {
    call.func.name() == ROW_KEY && enums::rank_all(&mut call.args, schema)
}
