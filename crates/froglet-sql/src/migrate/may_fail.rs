//! Whether evaluating an expression may fail for some row: the one table of what cannot.
//!
//! ```text
//!   function, by name and arguments       FUNCTIONS      length(text), i % 7, date_trunc('day', timestamp)
//!   cast, from one type to another        cast           integer → text, timestamp → date
//!   operator                              operator       =, AND, ||, LIKE 'a%'
//!   aggregate, by name and argument       AGGREGATES     sum(bigint), avg(int), max(text), array_agg
//!   everything else                       may fail
//! ```
//!
//! What is made lazily is made when nobody can roll the schema change back. So its query is run over all rows
//! before the commit, unless it stands here that it has a value for every input of its arguments' types: NaN,
//! infinities, the ends of every range, and every text. `tests/it/total.rs` evaluates each entry over these.
//!
//! Two limits do not count. A text that is no longer than a constant times its arguments together is one that can be
//! made (`||` of two that can be stored; but not repeat()). And no sum of numerics that are stored comes to 131,072
//! digits. Where a row cannot be made after all (`||` of two texts of 600 MB, no memory), whoever asks for it gets
//! the error, and the row is made when it is asked for again; the background leaves it and says so in
//! froglet.migrations.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{Expr, LogicalPlan, Operator};
use froglet_schema::SqlType;
use froglet_schema::def::FIRST_USER_ID;

use crate::semantics::casts::CastFunction;
use crate::semantics::fields::field_of;
use crate::semantics::numerics;
use crate::types::oids::*;
use crate::types::{EXACT, sql_type_of_field};
use crate::udf::case;
use crate::udf::fields::{is_part, truncates};

/// An argument of a call.
struct Arg {
    ty: DataType,
    /// Its SQL type.
    oid: u32,
    /// Its value, if it is the same for all rows, and not NULL.
    constant: Option<ScalarValue>,
}

impl Arg {
    fn of(expr: &Expr, schema: &DFSchema) -> Option<Arg> {
        let field = field_of(expr, schema).ok()?;
        let constant = constant(expr).filter(|value| !value.is_null());
        Some(Arg { ty: field.data_type().clone(), oid: sql_type_of_field(&field).oid, constant })
    }

    fn is_integer(&self) -> bool {
        matches!(self.ty, DataType::Int16 | DataType::Int32 | DataType::Int64)
    }

    fn is_text(&self) -> bool {
        self.ty.is_string() && matches!(self.oid, TEXT | VARCHAR | BPCHAR | NAME | CHAR)
    }

    fn int(&self) -> Option<i64> {
        match self.constant.as_ref()? {
            ScalarValue::Int16(value) => value.map(i64::from),
            ScalarValue::Int32(value) => value.map(i64::from),
            ScalarValue::Int64(value) => *value,
            _ => None,
        }
    }

    fn text(&self) -> Option<&str> {
        self.constant.as_ref()?.try_as_str().flatten()
    }
}

/// The value of an expression without columns, where that is plain to see.
fn constant(expr: &Expr) -> Option<ScalarValue> {
    match expr {
        Expr::Literal(value, _) => Some(value.clone()),
        Expr::Alias(alias) => constant(&alias.expr),
        Expr::Cast(cast) => constant(&cast.expr)?.cast_to(cast.field.data_type()).ok(),
        Expr::Negative(inner) => constant(inner)?.arithmetic_negate().ok(),
        Expr::ScalarFunction(call) if call.func.name() == crate::semantics::arith::NEGATIVE => {
            constant(call.args.first()?)?.arithmetic_negate().ok()
        }
        _ => None,
    }
}

/// When a function has a value for all other arguments.
type When = fn(&[Arg]) -> bool;

const ALWAYS: When = |_| true;
const OF_TEXTS: When = |args| args.iter().all(Arg::is_text);
const OF_TEXT_OR_BYTES: When = |args| args.iter().all(|a| a.is_text() || a.oid == BYTEA);
const OF_FLOATS: When = |args| args.iter().all(|a| a.ty.is_floating());
/// Divisors that are no constants may be 0.
const BY_A_CONSTANT: When = |args| {
    let by = args.get(1).and_then(Arg::int);
    args.iter().all(Arg::is_integer) && by.is_some_and(|by| by != 0)
};
/// A length that is no constant may be negative.
const OF_A_LENGTH: When = |args| match args {
    [text, from] => text.is_text() && from.is_integer(),
    [text, from, length] => {
        text.is_text() && from.is_integer() && length.int().is_some_and(|length| length >= 0)
    }
    _ => false,
};
const OF_ONE_SCALAR: When = |args| args.iter().all(|a| !matches!(a.ty, DataType::List(_)));
/// As long as a constant says.
const PADDED: When = |args| {
    args.first().is_some_and(Arg::is_text)
        && args.get(1).and_then(Arg::int).is_some_and(|length| length <= 1_000_000)
};

/// Functions that have a value for all arguments, by name. A name that is not here may fail.
const FUNCTIONS: &[(&str, When)] = &[
    // Choices.
    ("coalesce", ALWAYS),
    ("greatest", ALWAYS),
    ("least", ALWAYS),
    ("nullif", ALWAYS),
    ("num_nonnulls", ALWAYS),
    ("num_nulls", ALWAYS),
    // Text.
    ("ascii", OF_TEXTS),
    ("btrim", OF_TEXTS),
    ("char_length", OF_TEXTS),
    ("character_length", OF_TEXTS),
    ("concat", ALWAYS),
    ("concat_ws", ALWAYS),
    ("initcap", OF_TEXTS),
    ("left", |args| args.first().is_some_and(Arg::is_text)),
    ("length", OF_TEXT_OR_BYTES),
    ("lower", OF_TEXTS),
    (case::LOWER, OF_TEXTS),
    ("lpad", PADDED),
    ("ltrim", OF_TEXTS),
    ("md5", OF_TEXT_OR_BYTES),
    ("octet_length", OF_TEXT_OR_BYTES),
    ("position", OF_TEXTS),
    // What is put in is no longer than what goes.
    ("replace", |args| match args {
        [text, from, to] => match (from.text(), to.text()) {
            (Some(from), Some(to)) => text.is_text() && to.len() <= from.len(),
            _ => false,
        },
        _ => false,
    }),
    ("reverse", OF_TEXTS),
    ("right", |args| args.first().is_some_and(Arg::is_text)),
    ("rpad", PADDED),
    ("rtrim", OF_TEXTS),
    ("split_part", |args| args.get(2).and_then(Arg::int).is_some_and(|part| part != 0)),
    ("starts_with", OF_TEXTS),
    ("strpos", OF_TEXTS),
    ("substr", OF_A_LENGTH),
    ("substring", OF_A_LENGTH),
    ("upper", OF_TEXTS),
    // Numbers.
    ("abs", OF_FLOATS),
    ("ceil", OF_FLOATS),
    ("floor", OF_FLOATS),
    ("sign", OF_FLOATS),
    ("%", BY_A_CONSTANT),
    ("mod", BY_A_CONSTANT),
    ("to_hex", ALWAYS),
    // Times.
    ("date_part", |args| match args {
        [field, of] => field.text().is_some_and(|field| is_part(field, of.oid, false)),
        _ => false,
    }),
    ("extract", |args| match args {
        [field, of] => field.text().is_some_and(|field| is_part(field, of.oid, true)),
        _ => false,
    }),
    ("date_trunc", |args| match args {
        [unit, of] => {
            matches!(of.oid, TIMESTAMP | TIMESTAMPTZ) && unit.text().is_some_and(truncates)
        }
        _ => false,
    }),
    ("isfinite", ALWAYS),
    // json; of an array of parts, and a part of what is no array.
    ("froglet_json_agg", ALWAYS),
    ("froglet_jsonb_agg", ALWAYS),
    ("froglet_json_part", OF_ONE_SCALAR),
    ("json_object_field", ALWAYS),
    ("json_object_field_text", ALWAYS),
    ("jsonb_object_field", ALWAYS),
    ("jsonb_object_field_text", ALWAYS),
    ("json_array_element", ALWAYS),
    ("json_array_element_text", ALWAYS),
    ("jsonb_array_element", ALWAYS),
    ("jsonb_array_element_text", ALWAYS),
    ("jsonb_contains", ALWAYS),
    ("jsonb_exists", ALWAYS),
];

const OF_EXACT_NUMBERS: When = |args| {
    let is_exact =
        |a: &Arg| a.is_integer() || a.ty == EXACT || matches!(a.ty, DataType::Decimal128(..));
    args.iter().all(is_exact)
};

/// Aggregates that have a value for all rows, by name. A sum has more digits than any number of integers can fill,
/// which a sum of floats overflows.
const AGGREGATES: &[(&str, When)] = &[
    ("array_agg", OF_ONE_SCALAR),
    ("avg", OF_EXACT_NUMBERS),
    ("bool_and", ALWAYS),
    ("bool_or", ALWAYS),
    ("count", ALWAYS),
    ("every", ALWAYS),
    ("max", ALWAYS),
    ("min", ALWAYS),
    ("string_agg", OF_TEXTS),
    ("sum", OF_EXACT_NUMBERS),
];

fn stands(table: &[(&str, When)], name: &str, args: &[Expr], schema: &DFSchema) -> bool {
    let Some((_, when)) = table.iter().find(|(known, _)| *known == name) else { return false };
    let args: Option<Vec<Arg>> = args.iter().map(|arg| Arg::of(arg, schema)).collect();
    args.is_some_and(|args| when(&args))
}

/// How a value is cast.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CastKind {
    /// It is written: a text is cut to its new length.
    Explicit,
    /// An assignment does: a text that is too long is an error.
    Assigned,
}

/// Whether every value of one SQL type has one of another.
pub(crate) fn cast(from: u32, to: SqlType, kind: CastKind) -> bool {
    let is_bounded = to.modifier >= 4;
    let has_text = |oid| {
        matches!(
            oid,
            INT2 | INT4
                | INT8
                | FLOAT4
                | FLOAT8
                | NUMERIC
                | BOOL
                | DATE
                | TIME
                | TIMESTAMP
                | TIMESTAMPTZ
                | INTERVAL
                | UUID
                | JSON
                | JSONB
                | TEXT
                | VARCHAR
                | BPCHAR
                | NAME
        ) || oid >= FIRST_USER_ID
    };
    match (from, to.oid) {
        (from, TEXT) => has_text(from),
        (from, VARCHAR | BPCHAR) => has_text(from) && (!is_bounded || kind == CastKind::Explicit),
        (INT2, INT4 | INT8) | (INT4, INT8) | (INT2 | INT4 | INT8, FLOAT4 | FLOAT8) => true,
        (FLOAT4, FLOAT8) | (BOOL, INT4) | (INT4, BOOL) => true,
        (INT2 | INT4 | INT8 | NUMERIC, NUMERIC) => !is_bounded,
        (TIMESTAMP | TIMESTAMPTZ, DATE) => true,
        (from, to) => from == to && !is_bounded,
    }
}

/// The same of Arrow types, as DataFusion brings operands to one type.
pub(crate) fn cast_of_arrow(from: &DataType, to: &DataType) -> bool {
    use DataType::{Decimal128, Float32, Float64, Int16, Int32, Int64};
    let digits = |ty: &DataType| match ty {
        Int16 => Some((5, 0)),
        Int32 => Some((10, 0)),
        Int64 => Some((19, 0)),
        Decimal128(precision, scale) => Some((i16::from(*precision), i16::from(*scale))),
        _ => None,
    };
    match (from, to) {
        (from, to) if from == to => true,
        (from, to) if from.is_string() && to.is_string() => true,
        (Int16, Int32 | Int64) | (Int32, Int64) | (Float32, Float64) => true,
        (Int16 | Int32 | Int64, Float32 | Float64) => true,
        (from, Decimal128(precision, scale)) => digits(from).is_some_and(|(all, after)| {
            let (precision, scale) = (i16::from(*precision), i16::from(*scale));
            after <= scale && all - after <= precision - scale
        }),
        (from, to) => *to == EXACT && digits(from).is_some(),
    }
}

fn operator(op: Operator) -> bool {
    use Operator::*;
    matches!(
        op,
        Eq | NotEq
            | Lt
            | LtEq
            | Gt
            | GtEq
            | IsDistinctFrom
            | IsNotDistinctFrom
            | And
            | Or
            | StringConcat
    )
}

/// Whether a pattern of LIKE ends in a character that escapes nothing.
fn is_whole_pattern(pattern: &str, escape: char) -> bool {
    let mut rest = pattern.chars();
    while let Some(c) = rest.next() {
        if c == escape && rest.next().is_none() {
            return false;
        }
    }
    true
}

/// A pattern of ILIKE, which is put into lower case.
fn as_written(pattern: &Expr) -> &Expr {
    match pattern {
        Expr::ScalarFunction(call) if call.func.name() == case::LOWER => &call.args[0],
        pattern => pattern,
    }
}

fn call(function: &ScalarFunction, schema: &DFSchema) -> bool {
    let of_first = function.args.first().and_then(|arg| Arg::of(arg, schema));
    if let Some(to) = function.func.inner().downcast_ref::<CastFunction>() {
        let is_number = |ty: &DataType| numerics::is_number(ty) && !ty.is_floating();
        return of_first.is_some_and(|from| {
            cast(from.oid, to.target(), CastKind::Explicit)
                || to.is_to_exact() && is_number(&from.ty)
        });
    }
    if numerics::is_total(&function.func) {
        return of_first
            .is_some_and(|from| numerics::is_number(&from.ty) && !from.ty.is_floating());
    }
    stands(FUNCTIONS, function.func.name(), &function.args, schema)
}

/// Whether an expression has a value for all values of its parts.
pub(crate) fn is_total(expr: &Expr, schema: &DFSchema) -> bool {
    match expr {
        Expr::Column(_) | Expr::Literal(..) | Expr::Alias(_) | Expr::Not(_) | Expr::Case(_) => true,
        Expr::IsNull(_) | Expr::IsNotNull(_) | Expr::Between(_) | Expr::InList(_) => true,
        Expr::IsTrue(_) | Expr::IsFalse(_) | Expr::IsUnknown(_) => true,
        Expr::IsNotTrue(_) | Expr::IsNotFalse(_) | Expr::IsNotUnknown(_) => true,
        Expr::BinaryExpr(binary) => operator(binary.op),
        Expr::Like(like) => {
            let pattern = constant(as_written(&like.pattern));
            let pattern = pattern.as_ref().and_then(|pattern| pattern.try_as_str().flatten());
            pattern.is_some_and(|p| is_whole_pattern(p, like.escape_char.unwrap_or('\\')))
        }
        Expr::Cast(to) => field_of(&to.expr, schema).is_ok_and(|from| {
            let oid = sql_type_of_field(&from).oid;
            cast_of_arrow(from.data_type(), to.field.data_type())
                || cast(oid, sql_type_of_field(&to.field), CastKind::Explicit)
        }),
        Expr::ScalarFunction(function) => call(function, schema),
        Expr::AggregateFunction(function) => {
            stands(AGGREGATES, function.func.name(), &function.params.args, schema)
        }
        _ => false,
    }
}

/// Whether evaluating an expression over rows of a schema may fail for some.
pub(crate) fn of_expr(expr: &Expr, schema: &DFSchema) -> bool {
    expr.exists(|part| Ok(!is_total(part, schema))).expect("nothing here fails")
}

/// The same of a plan.
pub(crate) fn of_plan(plan: &LogicalPlan) -> Result<bool> {
    let mut fails = false;
    plan.apply(|node| {
        let inputs = node.inputs();
        for expr in node.expressions() {
            // Each part is of one of the inputs, or of all of them.
            let schemas = inputs.iter().map(|input| &**input.schema()).chain([&**node.schema()]);
            let is_total = |part: &Expr| schemas.clone().any(|schema| is_total(part, schema));
            fails |= expr.exists(|part| Ok(!is_total(part)))?;
        }
        Ok(if fails { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(fails)
}
