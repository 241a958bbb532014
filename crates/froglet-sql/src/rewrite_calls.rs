//! Syntax of its own that is a call of a function, and operators that are: PostgreSQL's parser does the
//! same, with the same functions.
//!
//! | written | becomes |
//! |---|---|
//! | `extract(f from x)`, `position(a in b)`, `overlay(…)`, `substring(x from a for b)` | `extract('f', x)`, … |
//! | `x at time zone z` | `timezone(z, x)` |
//! | `x like p escape e` | `x like like_escape(p, e)` |
//! | `x ilike p` | `froglet_lower(x) like froglet_lower(p)` |
//! | `x similar to p` | `froglet_similar(x, similar_to_escape(p))`: the blanks of a char(n) count |
//! | `(a, b) overlaps (c, d)` | `overlaps(a, b, c, d)` |
//! | `a ^ b`, `\|/ a`, `@ a`, `a # b`, `~ a`, `a ^@ b` | `power(a, b)`, `sqrt(a)`, `abs(a)`, … |
//! | `date(x)`, `int4(x)` | `x::date`, `x::int4` |
//! | `make_interval(days => 3)` | `make_interval(0, 0, 0, 3)` |

use datafusion::sql::sqlparser::ast::{self, BinaryOperator, Expr, UnaryOperator};

use crate::error::SqlError;
use crate::planning::registry;
use crate::rewrite::{call, folded, null};
use crate::types::names::type_by_name;
use crate::udf::case;
use crate::udf::regexp::SIMILAR;

/// Rewrites one expression whose parts have been rewritten.
pub fn rewrite(expr: &mut Expr) -> Result<(), SqlError> {
    let part = |part: &mut Box<Expr>| std::mem::replace(&mut **part, null());
    *expr = match expr {
        Expr::Extract { field, expr, .. } => {
            let name = field.to_string();
            call("extract", vec![literal(name.trim_matches(['"', '\''])), part(expr)])
        }
        Expr::Position { expr, r#in } => call("position", vec![part(r#in), part(expr)]),
        Expr::Overlay { expr, overlay_what, overlay_from, overlay_for } => {
            let mut args = vec![part(expr), part(overlay_what), part(overlay_from)];
            args.extend(overlay_for.as_mut().map(part));
            call("overlay", args)
        }
        Expr::Substring { expr, substring_from, substring_for, .. } => {
            let from = substring_from.as_mut().map(part);
            let mut args = vec![part(expr), from.unwrap_or_else(|| integer(1))];
            args.extend(substring_for.as_mut().map(part));
            call("substring", args)
        }
        Expr::Ceil { expr, field } => of_scale("ceil", part(expr), field)?,
        Expr::Floor { expr, field } => of_scale("floor", part(expr), field)?,
        Expr::AtTimeZone { timestamp, time_zone } => {
            call("timezone", vec![part(time_zone), part(timestamp)])
        }
        Expr::Like { pattern, escape_char, .. }
        | Expr::ILike { any: true, pattern, escape_char, .. } => {
            if let Some(escape) = escape_char.take() {
                **pattern = call("like_escape", vec![part(pattern), Expr::Value(escape)]);
            }
            return Ok(());
        }
        Expr::ILike { negated, expr, pattern, escape_char, .. } => {
            let pattern = match escape_char.take() {
                Some(escape) => call("like_escape", vec![part(pattern), Expr::Value(escape)]),
                None => part(pattern),
            };
            let lower = |expr| Box::new(call(case::LOWER, vec![expr]));
            Expr::Like {
                negated: *negated,
                any: false,
                expr: lower(part(expr)),
                pattern: lower(pattern),
                escape_char: None,
            }
        }
        Expr::SimilarTo { negated, expr, pattern, escape_char } => {
            let mut args = vec![part(pattern)];
            args.extend(escape_char.take().map(Expr::Value));
            let pattern = call("similar_to_escape", args);
            let like = call(SIMILAR, vec![part(expr), pattern]);
            match negated {
                true => Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(like) },
                false => like,
            }
        }
        Expr::IsNormalized { expr, form, negated } => {
            let form = form.map_or_else(|| "NFC".to_owned(), |form| form.to_string());
            let holds = call("is_normalized", vec![part(expr), literal(&form)]);
            match negated {
                true => Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(holds) },
                false => holds,
            }
        }
        Expr::UnaryOp { op: UnaryOperator::PGSquareRoot, expr } => {
            // Of double precision alone, unlike the function.
            call("sqrt", vec![float(part(expr))])
        }
        Expr::UnaryOp { op, expr } => match unary(op) {
            Some(name) => call(name, vec![part(expr)]),
            None => return Ok(()),
        },
        Expr::BinaryOp { left, op: BinaryOperator::Overlaps, right } => {
            let (Expr::Tuple(first), Expr::Tuple(second)) = (part(left), part(right)) else {
                return Err(SqlError::unsupported("OVERLAPS without two pairs"));
            };
            call("overlaps", [first, second].concat())
        }
        Expr::BinaryOp { left, op, right } => match binary(op) {
            Some(name) => call(name, vec![part(left), part(right)]),
            None => return Ok(()),
        },
        Expr::Function(function) => {
            named_arguments(function)?;
            normal_form(function);
            if let Some(repeated) = array_fill(function)? {
                *expr = repeated;
                return Ok(());
            }
            if let Some(cast) = type_call(function) {
                *expr = cast;
                return Ok(());
            }
            of_floats(function);
            no_positions(function);
            sorted_if_distinct(expr);
            return Ok(());
        }
        _ => return Ok(()),
    };
    Ok(())
}

/// A type's name called as a function, where there is no such function, is a cast.
fn type_call(function: &ast::Function) -> Option<Expr> {
    let name = function.name.0.last()?.as_ident()?;
    let system = match &function.name.0[..] {
        [_] => true,
        [schema, _] => folded(schema.as_ident()?) == "pg_catalog",
        _ => false,
    };
    let row = type_by_name(&folded(name)).filter(|row| row.name == folded(name) && system)?;
    let ast::FunctionArguments::List(list) = &function.args else { return None };
    let [ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(value))] = &list.args[..] else {
        return None;
    };
    if registry().scalar(row.name).is_some() || registry().is_aggregate(row.name) {
        return None;
    }
    Some(Expr::Cast {
        kind: ast::CastKind::DoubleColon,
        expr: Box::new(value.clone()),
        data_type: ast::DataType::Custom(ast::Ident::new(row.name).into(), Vec::new()),
        array: false,
        format: None,
    })
}

fn literal(text: &str) -> Expr {
    Expr::Value(ast::Value::SingleQuotedString(text.to_owned()).with_empty_span())
}

/// `n::int4`
fn integer(n: i32) -> Expr {
    Expr::Cast {
        kind: ast::CastKind::DoubleColon,
        expr: Box::new(Expr::Value(ast::Value::Number(n.to_string(), false).with_empty_span())),
        data_type: ast::DataType::Int4(None),
        array: false,
        format: None,
    }
}

/// Numbers in the order of an aggregate or a window are values, not positions of columns.
fn no_positions(function: &mut ast::Function) {
    let mut keys: Vec<&mut ast::OrderByExpr> = function.within_group.iter_mut().collect();
    if let ast::FunctionArguments::List(list) = &mut function.args {
        for clause in &mut list.clauses {
            if let ast::FunctionArgumentClause::OrderBy(order) = clause {
                keys.extend(order);
            }
        }
    }
    if let Some(ast::WindowType::WindowSpec(window)) = &mut function.over {
        keys.extend(&mut window.order_by);
    }
    for key in keys {
        if matches!(key.expr, Expr::Value(_)) {
            let value = std::mem::replace(&mut key.expr, null());
            key.expr = Expr::Nested(Box::new(value));
        }
    }
}

/// percentile_cont's values are double precision.
fn of_floats(function: &mut ast::Function) {
    let name = function.name.0.last().and_then(ast::ObjectNamePart::as_ident);
    if name.is_some_and(|name| folded(name) == "percentile_cont") {
        for key in &mut function.within_group {
            key.expr = float(std::mem::replace(&mut key.expr, null()));
        }
    }
}

/// `expr::float8`
fn float(expr: Expr) -> Expr {
    Expr::Cast {
        kind: ast::CastKind::DoubleColon,
        expr: Box::new(expr),
        data_type: ast::DataType::Float8,
        array: false,
        format: None,
    }
}

fn of_scale(name: &str, expr: Expr, field: &ast::CeilFloorKind) -> Result<Expr, SqlError> {
    match field {
        ast::CeilFloorKind::DateTimeField(ast::DateTimeField::NoDateTime) => {
            Ok(call(name, vec![expr]))
        }
        _ => Err(crate::df_error::no_function(name)),
    }
}

fn unary(op: &UnaryOperator) -> Option<&'static str> {
    Some(match op {
        UnaryOperator::PGCubeRoot => "cbrt",
        UnaryOperator::PGAbs => "abs",
        UnaryOperator::BitwiseNot => "froglet_not",
        _ => return None,
    })
}

fn binary(op: &BinaryOperator) -> Option<&'static str> {
    Some(match op {
        BinaryOperator::PGExp => "power",
        BinaryOperator::PGBitwiseXor => "froglet_xor",
        BinaryOperator::PGStartsWith => "starts_with",
        _ => return None,
    })
}

/// The functions whose arguments are given by names, with the names.
const NAMED: &[(&str, &[&str])] =
    &[("make_interval", &["years", "months", "weeks", "days", "hours", "mins", "secs"])];

/// PostgreSQL sorts values to find those that are the same, and so a list of distinct ones is sorted:
/// `array_agg(DISTINCT x)` as `array_sort(array_agg(DISTINCT x))`, and of its texts `string_agg`.
fn sorted_if_distinct(expr: &mut Expr) {
    let Expr::Function(function) = expr else { return };
    let ast::FunctionArguments::List(list) = &mut function.args else { return };
    let distinct = Some(ast::DuplicateTreatment::Distinct);
    if list.duplicate_treatment != distinct || !list.clauses.is_empty() || function.over.is_some() {
        return;
    }
    let name = function.name.0.last().and_then(|part| part.as_ident()).map(folded);
    let separator = match (name.as_deref(), list.args.len()) {
        (Some("array_agg"), 1) => None,
        (Some("string_agg"), 2) => {
            let Some(ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(separator))) =
                list.args.pop()
            else {
                return;
            };
            let Some(ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(value))) =
                list.args.first()
            else {
                return;
            };
            let known = Expr::IsNotNull(Box::new(value.clone()));
            function.filter = Some(Box::new(match function.filter.take() {
                Some(filter) => Expr::BinaryOp {
                    left: Box::new(Expr::Nested(filter)),
                    op: BinaryOperator::And,
                    right: Box::new(known),
                },
                None => known,
            }));
            function.name = ast::Ident::new("array_agg").into();
            Some(separator)
        }
        _ => return,
    };
    let word =
        |text: &str| Expr::Value(ast::Value::SingleQuotedString(text.to_owned()).with_empty_span());
    let values = std::mem::replace(expr, crate::rewrite::null());
    let sorted = call("array_sort", vec![values, word("ASC"), word("NULLS LAST")]);
    *expr = match separator {
        Some(separator) => call("array_to_string", vec![sorted, separator]),
        None => sorted,
    };
}

/// `normalize(x, NFC)` with the form as a text.
fn normal_form(function: &mut ast::Function) {
    let ast::FunctionArguments::List(list) = &mut function.args else { return };
    let [_, ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(form))] = &mut list.args[..]
    else {
        return;
    };
    if let Expr::Identifier(ident) = form
        && is_named(&function.name, "normalize")
    {
        *form = literal(&ident.value.clone());
    }
}

/// `array_fill(x, ARRAY[n])` as `array_repeat(x, n)`; arrays have one dimension, which begins at 1.
fn array_fill(function: &ast::Function) -> Result<Option<Expr>, SqlError> {
    if !is_named(&function.name, "array_fill") {
        return Ok(None);
    }
    let several = || SqlError::unsupported("array_fill but for ARRAY[n]");
    let ast::FunctionArguments::List(list) = &function.args else { return Err(several()) };
    let args = list.args.iter().map(|arg| match arg {
        ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(expr)) => Some(expr),
        _ => None,
    });
    match args.collect::<Option<Vec<_>>>().as_deref() {
        Some([value, Expr::Array(ast::Array { elem, .. })]) if elem.len() == 1 => {
            Ok(Some(call("array_repeat", vec![(*value).clone(), elem[0].clone()])))
        }
        _ => Err(several()),
    }
}

fn is_named(name: &ast::ObjectName, wanted: &str) -> bool {
    name.0.last().and_then(|part| part.as_ident()).is_some_and(|ident| folded(ident) == wanted)
}

fn named_arguments(function: &mut ast::Function) -> Result<(), SqlError> {
    let ast::FunctionArguments::List(list) = &mut function.args else { return Ok(()) };
    let is_named = |arg: &ast::FunctionArg| !matches!(arg, ast::FunctionArg::Unnamed(_));
    if !list.args.iter().any(is_named) {
        return Ok(());
    }
    let name = function.name.0.last().and_then(|part| part.as_ident()).map(folded);
    let name = name.unwrap_or_default();
    let Some((_, names)) = NAMED.iter().find(|(known, _)| *known == name) else {
        return Err(SqlError::unsupported(format!("named arguments of {name}()")));
    };
    let mut args = vec![integer(0); names.len()];
    for (at, arg) in list.args.drain(..).enumerate() {
        let (at, value) = match arg {
            ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(value)) => (Some(at), value),
            ast::FunctionArg::Named { name, arg: ast::FunctionArgExpr::Expr(value), .. } => {
                (names.iter().position(|known| *known == folded(&name)), value)
            }
            other => return Err(SqlError::unsupported(format!("the argument {other}"))),
        };
        let place = at.and_then(|at| args.get_mut(at));
        *place.ok_or_else(|| crate::df_error::no_function(&name))? = value;
    }
    let unnamed = |arg| ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(arg));
    list.args = args.into_iter().map(unnamed).collect();
    Ok(())
}
