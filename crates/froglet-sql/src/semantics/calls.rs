//! Calls of functions with several signatures: the one is chosen, the arguments are brought to its
//! types as PostgreSQL brings them.
//!
//! ```text
//!   round($1, 2)   ─ types of the arguments: unknown, integer ─▶ round(numeric, integer)
//!                  ─ $1 is a numeric; a literal is read as its type; the rest is cast
//! ```

use arrow::datatypes::FieldRef;
use datafusion::common::metadata::FieldMetadata;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{Placeholder, ScalarFunction};
use datafusion::logical_expr::{Cast, Expr};

use super::fields::field_of;
use super::operators::unknown_literal;
use super::{casts, named, records};
use crate::error::SqlError;
use crate::types::oids::{FLOAT8, INT2, INT4, INT8, NUMERIC, OID};
use crate::types::{self, plain, sql_field, sql_type_of_field};
use crate::udf::overload::{Given, Overloads, Resolved};
use crate::udf::simple::{ANY, Simple};
use crate::udf::typed::Typed;

/// Resolves a call, if it is of such a function and its arguments' types are known here.
pub fn resolve(mut call: ScalarFunction, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let Some(overloads) = call.func.inner().downcast_ref::<Overloads>() else {
        return Ok(Transformed::no(Expr::ScalarFunction(call)));
    };
    let mut given = Vec::with_capacity(call.args.len());
    for arg in &call.args {
        given.push(match type_of(arg, schema) {
            Known::Type(oid) => Some(oid),
            Known::Untyped => None,
            Known::Elsewhere => return Ok(Transformed::no(Expr::ScalarFunction(call))),
        });
    }
    let overload = overloads.choose(&given)?;
    let mut args = Vec::with_capacity(call.args.len());
    for (at, (arg, given)) in std::mem::take(&mut call.args).into_iter().zip(given).enumerate() {
        args.push(brought_to(arg, given, overload.argument(at), schema)?);
    }
    let fields: Vec<FieldRef> =
        args.iter().map(|arg| field_of(arg, schema)).collect::<Result<_>>()?;
    let constants: Vec<Option<&ScalarValue>> = args
        .iter()
        .map(|arg| match arg {
            Expr::Literal(value, _) => Some(value),
            _ => None,
        })
        .collect();
    let scale = overload.scale(&Given { fields: &fields, constants: &constants });
    let function = Resolved::function(overload, scale);
    Ok(Transformed::yes(Expr::ScalarFunction(ScalarFunction::new_udf(function, args))))
}

/// Gives parameters the types of the arguments that they are, where values of these are numbers; texts are what
/// they are without.
pub fn type_parameters(call: &mut ScalarFunction) -> bool {
    let Some(simple) = call.func.inner().downcast_ref::<Simple>() else { return false };
    let count = call.args.len();
    let mut typed = false;
    for (at, arg) in call.args.iter_mut().enumerate() {
        let Some(oid) = simple.parameter(at, count).filter(|oid| is_number(*oid)) else { continue };
        if let Expr::Placeholder(Placeholder { id, field: None }) = arg {
            *arg = placeholder(std::mem::take(id), oid);
            typed = true;
        }
    }
    typed
}

/// DataFusion's functions of text. A char(n) is a text to them, without the blanks that fill it.
const OF_TEXT: &[&str] = &[
    "btrim",
    "decode",
    "levenshtein",
    "ltrim",
    "md5",
    "replace",
    "reverse",
    "rtrim",
    "sha224",
    "sha256",
    "sha384",
    "sha512",
    "starts_with",
    "string_to_array",
    "translate",
    "trim",
];

/// Makes texts of the char(n) that such a function is given; whether there were any.
pub fn without_blanks(call: &mut ScalarFunction, schema: &DFSchema) -> bool {
    OF_TEXT.contains(&call.func.name()) && texts_of(&mut call.args, schema)
}

/// Makes texts of the names of objects that a function of json is given, and json of rows; whether there were any.
pub fn printed_in_json(call: &mut ScalarFunction, schema: &DFSchema) -> Result<bool> {
    if !call.func.inner().is::<Typed>() || !call.func.name().contains("json") {
        return Ok(false);
    }
    let mut changed = false;
    for arg in &mut call.args {
        let Known::Type(oid) = type_of(arg, schema) else { continue };
        *arg = match oid {
            types::oids::RECORD => records::json_of(std::mem::take(arg))?,
            types::oids::RECORD_ARRAY => {
                return Err(SqlError::unsupported("json of an array of rows").into());
            }
            _ if named::shower(oid).is_some() => printed(std::mem::take(arg)),
            _ => continue,
        };
        changed = true;
    }
    Ok(changed)
}

fn printed(expr: Expr) -> Expr {
    casts::call(expr, plain(types::oids::TEXT))
}

/// Makes texts of those arguments that are char(n).
pub fn texts_of(args: &mut [Expr], schema: &DFSchema) -> bool {
    let mut changed = false;
    for arg in args {
        if matches!(type_of(arg, schema), Known::Type(types::oids::BPCHAR)) {
            let given = std::mem::replace(arg, Expr::Literal(ScalarValue::Null, None));
            *arg = printed(given);
            changed = true;
        }
    }
    changed
}

fn is_number(oid: u32) -> bool {
    matches!(oid, INT2 | INT4 | INT8 | FLOAT8 | OID)
}

/// `pg_typeof(x)`, which the types of the plan tell.
pub fn type_named(call: ScalarFunction, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let oid = match &call.args[..] {
        [arg] => match type_of(arg, schema) {
            Known::Type(oid) => oid,
            Known::Untyped => types::oids::UNKNOWN,
            Known::Elsewhere => return Ok(Transformed::no(Expr::ScalarFunction(call))),
        },
        _ => return Ok(Transformed::no(Expr::ScalarFunction(call))),
    };
    let value = ScalarValue::UInt32(Some(oid));
    let field = sql_field("", plain(types::oids::REGTYPE), value.data_type(), false);
    let metadata = FieldMetadata::from(field.as_ref());
    Ok(Transformed::yes(Expr::Literal(value, Some(metadata))))
}

/// What is known of an argument's type.
enum Known {
    Type(u32),
    /// A literal, NULL or parameter without a type of its own.
    Untyped,
    /// Its columns are not of this schema.
    Elsewhere,
}

fn type_of(expr: &Expr, schema: &DFSchema) -> Known {
    if unknown_literal(expr).is_some() || is_untyped(expr) {
        return Known::Untyped;
    }
    match field_of(expr, schema) {
        Ok(field) if field.data_type().is_null() => Known::Untyped,
        Ok(field) => Known::Type(sql_type_of_field(&field).oid),
        Err(_) => Known::Elsewhere,
    }
}

fn is_untyped(expr: &Expr) -> bool {
    matches!(expr, Expr::Placeholder(Placeholder { field: None, .. }))
}

/// An argument as a value of the type that the function wants.
fn brought_to(expr: Expr, given: Option<u32>, wanted: u32, schema: &DFSchema) -> Result<Expr> {
    if wanted == ANY {
        return Ok(match (given, expr) {
            // What takes any type takes an unknown one as text.
            (None, Expr::Placeholder(Placeholder { id, field: None })) => {
                placeholder(id, types::oids::TEXT)
            }
            (Some(oid), expr) if named::shower(oid).is_some() => printed(expr),
            (_, expr) => expr,
        });
    }
    if let (NUMERIC, Expr::Literal(value, _)) = (wanted, &expr)
        && let Some(whole) = integer(value)
    {
        // A literal keeps its digits: none after the point.
        let exact = ScalarValue::Decimal128(Some(whole), 38, 0);
        return Ok(Expr::Literal(exact, None));
    }
    match (given, expr) {
        (Some(oid), expr) if oid == wanted => Ok(expr),
        (None, Expr::Placeholder(Placeholder { id, field: None })) => Ok(placeholder(id, wanted)),
        (_, expr) => {
            let arrow = types::arrow_of(plain(wanted)).ok_or_else(|| {
                crate::error::SqlError::unsupported(types::type_name(plain(wanted)))
            })?;
            let cast =
                Cast::new_from_field(Box::new(expr), sql_field("", plain(wanted), arrow, true));
            Ok(casts::rewrite_cast(cast, schema)?.data)
        }
    }
}

fn placeholder(id: String, oid: u32) -> Expr {
    let field = types::arrow_of(plain(oid)).map(|arrow| sql_field("", plain(oid), arrow, true));
    Expr::Placeholder(Placeholder { id, field })
}

fn integer(value: &ScalarValue) -> Option<i128> {
    match value {
        ScalarValue::Int16(v) => v.map(i128::from),
        ScalarValue::Int32(v) => v.map(i128::from),
        ScalarValue::Int64(v) => v.map(i128::from),
        _ => None,
    }
}
