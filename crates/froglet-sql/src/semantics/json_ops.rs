//! Operators of json and jsonb as calls of functions ([`crate::udf::json`]).
//!
//! | operator | of json, too | function |
//! |---|---|---|
//! | `->` `->>` | yes | `json[b]_object_field[_text]` |
//! | `#>` `#>>` | yes | `json[b]_path[_text]` |
//! | `@>` `<@` | | `jsonb_contains` |
//! | `?` `?\|` `?&` | | `jsonb_exists`, `_any`, `_all` |
//! | `@?` `@@` | | `jsonb_path_exists_opr`, `jsonb_path_match_opr` |
//! | `\|\|` `-` `#-` | | `jsonb_concat`, `jsonb_delete`, `jsonb_delete_path` |

use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::expr::{Placeholder, ScalarFunction};
use datafusion::sql::sqlparser::ast::BinaryOperator;

use super::fields::field_of;
use super::{casts, operators};
use crate::planning::registry;
use crate::types::{self, oids, plain, sql_type_of_field};

/// The oid of an expression's type, as far as it has one.
pub(super) fn oid_of(expr: &Expr, schema: &DFSchema) -> Option<u32> {
    match expr {
        Expr::Placeholder(Placeholder { field: None, .. }) => None,
        _ if operators::unknown_literal(expr).is_some() => None,
        // Its field would have what the operand's says of its type, too.
        Expr::Cast(cast) => Some(sql_type_of_field(&cast.field).oid),
        _ => field_of(expr, schema).ok().map(|field| sql_type_of_field(&field).oid),
    }
}

/// Gives a literal, NULL, or parameter without a type this one.
pub(super) fn typed(expr: Expr, oid: u32) -> Result<Expr> {
    let text = operators::unknown_literal(&expr);
    if text.is_some() || operators::is_null(&expr) {
        let text = ScalarValue::Utf8(text.map(str::to_owned));
        return Ok(casts::literal(&text, plain(oid))?.unwrap_or(expr));
    }
    Ok(match expr {
        Expr::Placeholder(Placeholder { id, field: None }) => {
            let field = types::arrow_of(plain(oid))
                .map(|arrow| types::sql_field("", plain(oid), arrow, true));
            Expr::Placeholder(Placeholder { id, field })
        }
        other => other,
    })
}

/// A call of a registered function.
pub(super) fn call(name: &str, args: Vec<Expr>) -> Option<Expr> {
    let function = registry().scalar(name)?.clone();
    Some(Expr::ScalarFunction(ScalarFunction::new_udf(function, args)))
}

/// The call that an operator is, if it is one of json or jsonb.
pub(super) fn plan(
    op: &BinaryOperator,
    left: &Expr,
    right: &Expr,
    schema: &DFSchema,
) -> Result<Option<Expr>> {
    use BinaryOperator as B;
    let json = |oid| matches!(oid, Some(oids::JSON | oids::JSONB));
    let (l, r) = (oid_of(left, schema), oid_of(right, schema));
    let is_path = match op {
        B::AtQuestion => l.is_none() && matches!(r, None | Some(oids::JSONPATH)),
        B::AtAt => l.is_none() && r == Some(oids::JSONPATH),
        _ => false,
    };
    if !json(l) && !json(r) && !is_path {
        return Ok(None);
    }
    // What the other operand is, if nothing says so.
    let (name, swapped, other) = match op {
        B::Arrow => ("_object_field", false, oids::TEXT),
        B::LongArrow => ("_object_field_text", false, oids::TEXT),
        B::HashArrow => ("_path", false, oids::TEXT_ARRAY),
        B::HashLongArrow => ("_path_text", false, oids::TEXT_ARRAY),
        B::AtArrow => ("_contains", false, oids::JSONB),
        B::ArrowAt => ("_contains", true, oids::JSONB),
        B::Question => ("_exists", false, oids::TEXT),
        B::QuestionPipe => ("_exists_any", false, oids::TEXT_ARRAY),
        B::QuestionAnd => ("_exists_all", false, oids::TEXT_ARRAY),
        B::HashMinus => ("_delete_path", false, oids::TEXT_ARRAY),
        B::StringConcat if l == Some(oids::JSONB) && matches!(r, None | Some(oids::JSONB)) => {
            ("_concat", false, oids::JSONB)
        }
        B::StringConcat if l.is_none() && r == Some(oids::JSONB) => ("_concat", false, oids::JSONB),
        B::AtQuestion => ("_path_exists_opr", false, oids::JSONPATH),
        B::AtAt => ("_path_match_opr", false, oids::JSONPATH),
        B::Minus => ("_delete", false, oids::TEXT),
        _ => return Ok(None),
    };
    let prefix = if l.or(r) == Some(oids::JSON) { "json" } else { "jsonb" };
    let (a, b) = if swapped { (right, left) } else { (left, right) };
    let first = if json(if swapped { r } else { l }) { oids::JSON } else { oids::JSONB };
    let args = vec![typed(a.clone(), first)?, typed(b.clone(), other)?];
    // What json has not is an operator that does not exist.
    call(&format!("{prefix}{name}"), args)
        .map(Some)
        .ok_or_else(|| operators::no_operator(op, left, right, schema).into())
}
