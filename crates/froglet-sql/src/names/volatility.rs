//! Whether an expression has the same value whoever asks, and whenever: what an index, its predicate and a generated
//! column must have.
//!
//! ```text
//!   functions    pg_proc.provolatile, by name and arguments (pgcatalog/functions.txt); others by what they say
//!   casts        [`of_cast`]: those of pg_cast, and those by way of a text by how the types are written and read
//!   operators    [`of_operator`]: times are compared and moved in the session's zone
//! ```
//!
//! All three have what PostgreSQL 15 has, asked of it: `tests/test_volatility.py` asks again. An expression is looked at
//! as it was written, and again with the casts that it gets.

use datafusion::common::DFSchema;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Expr, Operator, Volatility};
use froglet_schema::def::FIRST_USER_ID;

use crate::pgcatalog::procs;
use crate::semantics::casts::CastFunction;
use crate::semantics::fields::field_of;
use crate::types::{self, oids, sql_type_of_field};

/// Whether nothing in a planned expression, whose casts are rewritten, is less than immutable.
pub(crate) fn is_immutable(expr: &Expr, schema: &DFSchema) -> bool {
    let mut immutable = true;
    let walked = expr.apply(|node| {
        immutable = of_node(node, schema) == Volatility::Immutable;
        Ok(if immutable { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    });
    immutable && walked.is_ok()
}

/// Functions of our own that stand for others which depend on the session.
const STABLE: &[&str] = &[
    "froglet_json_row",
    "froglet_listening_channels",
    "froglet_record_array",
    "froglet_record_json",
    "froglet_record_text",
    "froglet_row_text",
];

/// Functions behind PostgreSQL's operators that have other names there.
const IMMUTABLE: &[&str] = &[
    "json_path",
    "json_path_text",
    "jsonb_path",
    "jsonb_path_exists_opr",
    "jsonb_path_match_opr",
    "jsonb_path_text",
];

/// What a function that is none of pg_proc's says of itself; of our own few depend on the session.
fn said_by(name: &str, volatility: Volatility) -> Volatility {
    match volatility {
        Volatility::Volatile => volatility,
        _ if IMMUTABLE.contains(&name) => Volatility::Immutable,
        _ if STABLE.contains(&name) || name.ends_with("_tz") => Volatility::Stable,
        _ if name.starts_with("froglet_shown_") => Volatility::Stable,
        _ if name.starts_with("froglet_") => Volatility::Immutable,
        said => said,
    }
}

fn oid_of(expr: &Expr, schema: &DFSchema) -> u32 {
    match expr {
        Expr::Literal(value, _) if value.is_null() => oids::UNKNOWN,
        _ => field_of(expr, schema).map_or(oids::UNKNOWN, |field| sql_type_of_field(&field).oid),
    }
}

fn of_node(node: &Expr, schema: &DFSchema) -> Volatility {
    let of = |expr: &Expr| oid_of(expr, schema);
    match node {
        Expr::Cast(cast) => {
            let to = sql_type_of_field(&cast.field).oid;
            constant_or(&cast.expr, || of_cast(of(&cast.expr), to))
        }
        Expr::TryCast(cast) => of_cast(of(&cast.expr), sql_type_of_field(&cast.field).oid),
        Expr::BinaryExpr(binary) => of_operator(binary.op, of(&binary.left), of(&binary.right)),
        Expr::Between(between) => {
            let of_pair = |other: &Expr| of_operator(Operator::Lt, of(&between.expr), of(other));
            worse(of_pair(&between.low), of_pair(&between.high))
        }
        Expr::InList(list) => {
            let of_pair = |other: &Expr| of_operator(Operator::Eq, of(&list.expr), of(other));
            list.list.iter().map(of_pair).fold(Volatility::Immutable, worse)
        }
        Expr::ScalarFunction(call) => match call.func.inner().downcast_ref::<CastFunction>() {
            Some(cast) => match call.args.first() {
                Some(arg) => constant_or(arg, || of_cast(of(arg), cast.oid())),
                None => Volatility::Immutable,
            },
            None => {
                let arguments: Vec<u32> = call.args.iter().map(of).collect();
                let said = || said_by(call.func.name(), call.func.signature().volatility);
                of_function(call.func.name(), &arguments).unwrap_or_else(said)
            }
        },
        _ => Volatility::Immutable,
    }
}

/// What is written as it is is read once, when it is written.
fn constant_or(arg: &Expr, otherwise: impl FnOnce() -> Volatility) -> Volatility {
    if matches!(arg, Expr::Literal(..)) { Volatility::Immutable } else { otherwise() }
}

fn worse(a: Volatility, b: Volatility) -> Volatility {
    use Volatility::{Immutable, Stable, Volatile};
    match (a, b) {
        (Volatile, _) | (_, Volatile) => Volatile,
        (Stable, _) | (_, Stable) => Stable,
        (Immutable, Immutable) => Immutable,
    }
}

fn is_text(oid: u32) -> bool {
    matches!(oid, oids::TEXT | oids::VARCHAR | oids::BPCHAR | oids::NAME | oids::CHAR)
}

/// Types whose texts depend on a setting, or on what there is in the catalog, whichever way.
fn is_written_by_settings(oid: u32) -> bool {
    oid >= FIRST_USER_ID
        || types::element_oid(oid).is_some()
        || matches!(
            oid,
            oids::DATE
                | oids::INTERVAL
                | oids::TIMESTAMP
                | oids::TIMESTAMPTZ
                | oids::REGCLASS
                | oids::REGTYPE
                | oids::REGPROC
                | oids::REGPROCEDURE
                | oids::REGNAMESPACE
                | oids::REGROLE
                | oids::RECORD
        )
}

/// A cast of what is no constant.
pub(crate) fn of_cast(from: u32, to: u32) -> Volatility {
    use oids::{DATE, TIME, TIMESTAMP, TIMESTAMPTZ};
    let by_zone = matches!(
        (from, to),
        (DATE | TIMESTAMP, TIMESTAMPTZ) | (TIMESTAMPTZ, DATE | TIME | TIMESTAMP)
    );
    let stable = match (types::element_oid(from), types::element_oid(to)) {
        _ if from == to || from == oids::UNKNOWN => false,
        (Some(from), Some(to)) => return of_cast(from, to),
        _ if is_text(from) && is_text(to) => false,
        // A time of day is read with a date, and written without.
        _ if is_text(from) => is_written_by_settings(to) || to == TIME,
        _ if is_text(to) => is_written_by_settings(from),
        _ => by_zone,
    };
    if stable { Volatility::Stable } else { Volatility::Immutable }
}

/// An operator of two operands.
pub(crate) fn of_operator(op: Operator, left: u32, right: u32) -> Volatility {
    use Operator::{
        Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, Minus, NotEq, Plus, StringConcat,
    };
    use oids::{DATE, INTERVAL, TIMESTAMP, TIMESTAMPTZ};
    let stable = match op {
        Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom => matches!(
            (left, right),
            (TIMESTAMPTZ, DATE | TIMESTAMP) | (DATE | TIMESTAMP, TIMESTAMPTZ)
        ),
        Plus => matches!((left, right), (TIMESTAMPTZ, INTERVAL) | (INTERVAL, TIMESTAMPTZ)),
        // One of two moments is brought to the other's type.
        Minus => matches!(
            (left, right),
            (TIMESTAMPTZ, INTERVAL | DATE | TIMESTAMP) | (DATE | TIMESTAMP, TIMESTAMPTZ)
        ),
        StringConcat if is_text(left) => return of_cast(right, oids::TEXT),
        StringConcat if is_text(right) => return of_cast(left, oids::TEXT),
        _ => false,
    };
    if stable { Volatility::Stable } else { Volatility::Immutable }
}

/// A function of pg_proc; `None` for what is none of these.
fn of_function(name: &str, arguments: &[u32]) -> Option<Volatility> {
    // Sums of times are calls of functions under the names of operators.
    let op = match name {
        "+" => Some(Operator::Plus),
        "-" => Some(Operator::Minus),
        "*" | "/" | "%" => Some(Operator::Multiply),
        _ => None,
    };
    match (op, arguments) {
        (Some(op), [left, right]) => return Some(of_operator(op, *left, *right)),
        (None, [argument]) if matches!(name, "quote_literal" | "quote_nullable") => {
            return Some(of_cast(*argument, oids::TEXT));
        }
        _ => {}
    }
    let takes = |proc: &&'static procs::Proc| proc.takes_count(arguments.len());
    let known: Vec<_> = procs::named(name).filter(takes).collect();
    let worst = |procs: &mut dyn Iterator<Item = &&'static procs::Proc>| {
        procs.map(|proc| proc.volatility()).reduce(worse)
    };
    let exactly = |proc: &&&'static procs::Proc| {
        arguments.iter().zip(proc.arguments()).all(|(given, wanted)| {
            *given == oids::UNKNOWN
                || i64::from(*given) == *wanted
                || is_text(*given) && *wanted == i64::from(oids::TEXT)
        })
    };
    // What is taken by none as it is may be brought to any.
    worst(&mut known.iter().filter(exactly)).or_else(|| worst(&mut known.iter()))
}
