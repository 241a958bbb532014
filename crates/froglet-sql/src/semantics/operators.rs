//! Binary operators as PostgreSQL resolves them.
//!
//! A string literal beside a value of another type is a literal of that type (`a = '5'`), an
//! untyped parameter has the type of the other side, text and number do not meet (42883), and
//! arithmetic is checked ([`super::arith`]).

use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{InSubquery, Placeholder, ScalarFunction};
use datafusion::logical_expr::planner::{
    ExprPlanner, PlannerResult, RawBinaryExpr, RawFieldAccessExpr,
};
use datafusion::logical_expr::{Case, Cast, Expr, Operator};
use datafusion::logical_expr::{GetFieldAccess, lit};
use datafusion::sql::sqlparser::ast::BinaryOperator;
use froglet_engine::SqlState;
use froglet_schema::SqlType;

use super::arith::{self, Op};
use super::fields::{arrow_type_of, field_of};
use super::{array_ops, casts, common, json_ops, measures, numerics, time_arith};
use crate::error::SqlError;
use crate::expr::param_index;
use crate::types::{self, oids, sql_type_of_field};

/// Plans binary operators.
#[derive(Debug)]
pub struct Operators;

impl ExprPlanner for Operators {
    fn plan_binary_op(
        &self,
        raw: RawBinaryExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawBinaryExpr>> {
        let RawBinaryExpr { op, left, right } = raw;
        if matches!(op, BinaryOperator::And | BinaryOperator::Or) {
            let clause = op.to_string();
            common::boolean(&clause, &left, schema)?;
            common::boolean(&clause, &right, schema)?;
        }
        if let Some(call) = json_ops::plan(&op, &left, &right, schema)? {
            return Ok(PlannerResult::Planned(call));
        }
        if let Some(call) = array_ops::plan(&op, &left, &right, schema)? {
            return Ok(PlannerResult::Planned(call));
        }
        only_of_documents_and_arrays(&op, &left, &right, schema)?;
        let (left, right) = match shape_of(&op) {
            Shape::Other if op == BinaryOperator::StringConcat => {
                return concatenated(op, left, right, schema);
            }
            Shape::Other if is_bitwise(&op) => bits(&op, left, right, schema)?,
            Shape::Other => match regexp(&op) {
                Some(options) => return matched(op, left, right, options),
                None => (left, right),
            },
            Shape::Comparison | Shape::Arithmetic(_) => unify(&op, left, right, schema)?,
        };
        if let Shape::Arithmetic(arithmetic) = shape_of(&op) {
            return plan_arithmetic(op, arithmetic, left, right, schema);
        }
        let (left, right) = match shape_of(&op) {
            // DataFusion would ask for a type that both come to.
            Shape::Comparison => {
                let compared = match op {
                    BinaryOperator::NotEq => Operator::NotEq,
                    BinaryOperator::Lt => Operator::Lt,
                    BinaryOperator::LtEq => Operator::LtEq,
                    BinaryOperator::Gt => Operator::Gt,
                    BinaryOperator::GtEq => Operator::GtEq,
                    _ => Operator::Eq,
                };
                measures::pair(left, compared, right, schema)?
            }
            _ => (left, right),
        };
        Ok(PlannerResult::Original(RawBinaryExpr { op, left, right }))
    }

    fn plan_field_access(
        &self,
        raw: RawFieldAccessExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawFieldAccessExpr>> {
        subscript(raw, schema)
    }

    fn plan_array_literal(
        &self,
        exprs: Vec<Expr>,
        schema: &DFSchema,
    ) -> Result<PlannerResult<Vec<Expr>>> {
        common::array(exprs, schema).map(PlannerResult::Planned)
    }
}

/// `j['a']` of jsonb is `j -> 'a'`; an array has no element before the first.
fn subscript(
    raw: RawFieldAccessExpr,
    schema: &DFSchema,
) -> Result<PlannerResult<RawFieldAccessExpr>> {
    let RawFieldAccessExpr { expr, field_access } = raw;
    if json_ops::oid_of(&expr, schema) == Some(oids::JSONB) {
        let key = match field_access {
            GetFieldAccess::NamedStructField { name } => Expr::Literal(name, None),
            GetFieldAccess::ListIndex { key } => *key,
            GetFieldAccess::ListRange { .. } => {
                return Err(SqlError::new(
                    SqlState::DATATYPE_MISMATCH,
                    "jsonb subscript does not support slices",
                )
                .into());
            }
        };
        // As of a path: of an array an element, of an object a field, of anything else nothing.
        let key = match unknown_literal(&key) {
            Some(_) => key,
            None => casts::call(key, types::plain(oids::TEXT)),
        };
        let call = json_ops::call("jsonb_extract_path", vec![expr, key]);
        return Ok(PlannerResult::Planned(call.expect("the function is registered")));
    }
    let field = field_of(&expr, schema)?;
    let field_access = match field_access {
        // DataFusion would make of `(array_agg(x))[1]` an nth_value, which is not always one.
        GetFieldAccess::ListIndex { key } if matches!(expr, Expr::AggregateFunction(_)) => {
            return Ok(PlannerResult::Planned(of_array("array_element", vec![expr, *key])));
        }
        // A name is an array of characters there; it and these are counted from 0.
        GetFieldAccess::ListIndex { key } if sql_type_of_field(&field).oid == oids::NAME => {
            let call = crate::udf::lists::name_char().call(vec![expr, *key]);
            return Ok(PlannerResult::Planned(call));
        }
        GetFieldAccess::ListIndex { key }
            if matches!(sql_type_of_field(&field).oid, oids::INT2VECTOR | oids::OIDVECTOR) =>
        {
            let args = vec![expr, *key + lit(1_i64)];
            return Ok(PlannerResult::Planned(of_array("array_element", args)));
        }
        GetFieldAccess::ListIndex { key } => {
            let first = |key: Expr| {
                let none = Expr::Literal(ScalarValue::Int64(Some(0)), None);
                common::case(vec![(key.clone().gt(none.clone()), key)], none)
            };
            let key = match *key {
                one @ Expr::Literal(
                    ScalarValue::Int32(Some(1..)) | ScalarValue::Int64(Some(1..)),
                    _,
                ) => one,
                other => first(other),
            };
            return Ok(PlannerResult::Planned(of_array("array_element", vec![expr, key])));
        }
        GetFieldAccess::ListRange { start, stop, stride } => {
            let args = vec![expr, *start, *stop, *stride];
            return Ok(PlannerResult::Planned(of_array("array_slice", args)));
        }
        other => {
            refuse_field(&field, &other)?;
            other
        }
    };
    Ok(PlannerResult::Original(RawFieldAccessExpr { expr, field_access }))
}

/// A call of a function of arrays, whose result knows its SQL type.
fn of_array(name: &str, args: Vec<Expr>) -> Expr {
    json_ops::call(name, args).expect("the function is registered")
}

/// 42809 for `(x).y` where x has no fields, and 42703 where it has no such one.
fn refuse_field(field: &Field, access: &GetFieldAccess) -> Result<()> {
    let GetFieldAccess::NamedStructField { name } = access else { return Ok(()) };
    let Some(Some(name)) = name.try_as_str() else { return Ok(()) };
    let error = match field.data_type() {
        DataType::Struct(fields) if fields.find(name).is_some() => return Ok(()),
        DataType::Struct(_) => SqlError::new(
            SqlState::UNDEFINED_COLUMN,
            format!("could not identify column \"{name}\" in record data type"),
        ),
        _ => SqlError::new(
            SqlState::WRONG_OBJECT_TYPE,
            format!(
                "column notation .{name} applied to type {}, which is not a composite type",
                types::type_name(sql_type_of_field(field))
            ),
        ),
    };
    Err(error.into())
}

enum Shape {
    Comparison,
    Arithmetic(Op),
    Other,
}

fn shape_of(op: &BinaryOperator) -> Shape {
    use BinaryOperator::*;
    match op {
        Eq | NotEq | Lt | LtEq | Gt | GtEq | Spaceship => Shape::Comparison,
        Plus => Shape::Arithmetic(Op::Add),
        Minus => Shape::Arithmetic(Op::Sub),
        Multiply => Shape::Arithmetic(Op::Mul),
        Divide => Shape::Arithmetic(Op::Div),
        Modulo => Shape::Arithmetic(Op::Rem),
        _ => Shape::Other,
    }
}

/// The options of an operator that matches a regular expression.
fn regexp(op: &BinaryOperator) -> Option<&'static str> {
    use BinaryOperator::*;
    match op {
        PGRegexMatch | PGRegexNotMatch => Some(""),
        PGRegexIMatch | PGRegexNotIMatch => Some("i"),
        _ => None,
    }
}

/// A match of a pattern that stands there is DataFusion's, of the pattern in its syntax; of another one
/// it is ours.
fn matched(
    op: BinaryOperator,
    left: Expr,
    right: Expr,
    options: &str,
) -> Result<PlannerResult<RawBinaryExpr>> {
    if let Some(pattern) = unknown_literal(&right) {
        let pattern = crate::udf::pattern::for_operator(pattern)?;
        let right = Expr::Literal(ScalarValue::Utf8(Some(pattern)), None);
        return Ok(PlannerResult::Original(RawBinaryExpr { op, left, right }));
    }
    let Some(function) = crate::planning::registry().scalar("regexp_like") else {
        return Ok(PlannerResult::Original(RawBinaryExpr { op, left, right }));
    };
    let options = Expr::Literal(ScalarValue::Utf8(Some(options.to_owned())), None);
    let call = ScalarFunction::new_udf(function.clone(), vec![left, right, options]);
    let like = Expr::ScalarFunction(call);
    let negated = matches!(op, BinaryOperator::PGRegexNotMatch | BinaryOperator::PGRegexNotIMatch);
    Ok(PlannerResult::Planned(if negated { Expr::Not(Box::new(like)) } else { like }))
}

/// `||` of bytea, and of char(n) without the blanks at its end.
fn concatenated(
    op: BinaryOperator,
    left: Expr,
    right: Expr,
    schema: &DFSchema,
) -> Result<PlannerResult<RawBinaryExpr>> {
    let oid = |expr: &Expr| field_of(expr, schema).ok().map(|f| sql_type_of_field(&f).oid);
    let (l, r) = (oid(&left), oid(&right));
    // A CASE gets its type when its branches do.
    let of_case = |expr: &Expr| match expr {
        Expr::Case(case) => common::branches(&mut case.clone(), schema).ok()?.map(|ty| ty.oid),
        _ => None,
    };
    let (l, r) = (of_case(&left).or(l), of_case(&right).or(r));
    let bytes = crate::planning::registry().scalar("froglet_bytes");
    if let (Some(function), true) = (bytes, l == Some(oids::BYTEA) || r == Some(oids::BYTEA)) {
        let left = adopt(&op, left, &right, schema)?;
        let right = adopt(&op, right, &left, schema)?;
        let call = ScalarFunction::new_udf(function.clone(), vec![left, right]);
        return Ok(PlannerResult::Planned(Expr::ScalarFunction(call)));
    }
    // Of two values one is a text; the other becomes what it is printed as.
    let is_text = |expr: &Expr| type_of(expr, schema).is_some_and(|ty| ty.is_string());
    let printed = is_text(&left) || is_text(&right);
    let text = |expr: Expr, oid| match type_of(&expr, schema) {
        _ if oid == Some(oids::BPCHAR) => casts::call(expr, types::plain(oids::TEXT)),
        Some(ty) if printed && !ty.is_string() && !ty.is_null() && !is_nested(&ty) => {
            casts::call(expr, types::plain(oids::TEXT))
        }
        _ => expr,
    };
    let (left, right) = (text(left, l), text(right, r));
    Ok(PlannerResult::Original(RawBinaryExpr { op, left, right }))
}

fn is_nested(ty: &DataType) -> bool {
    ty.is_nested() || matches!(ty, DataType::UInt32)
}

fn plan_arithmetic(
    op: BinaryOperator,
    arithmetic: Op,
    left: Expr,
    right: Expr,
    schema: &DFSchema,
) -> Result<PlannerResult<RawBinaryExpr>> {
    let (l, r) = (type_of(&left, schema), type_of(&right, schema));
    let (Some(l), Some(r)) = (l, r) else {
        return Ok(PlannerResult::Original(RawBinaryExpr { op, left, right }));
    };
    if arith::operand_types(arithmetic, &l, &r).is_some() {
        let (mut left, mut right) = (left, right);
        if l.is_floating() || r.is_floating() {
            numerics::to_one(vec![&mut left, &mut right], schema);
        }
        let call = ScalarFunction::new_udf(arith::function(arithmetic), vec![left, right]);
        return Ok(PlannerResult::Planned(Expr::ScalarFunction(call)));
    }
    let is_interval = |ty: &DataType| matches!(ty, DataType::Interval(_));
    let (left, l) = factor(left, l, is_interval(&r));
    let (right, r) = factor(right, r, is_interval(&l));
    let Some([to_left, to_right, _]) = time_arith::operand_types(arithmetic, &l, &r) else {
        return Err(no_operator(&op, &left, &right, schema).into());
    };
    let brought = |expr: Expr, from: DataType, to: DataType| match from == to {
        true => expr,
        false => Expr::Cast(Cast::new(Box::new(expr), to)),
    };
    let operands = vec![brought(left, l, to_left), brought(right, r, to_right)];
    let call = ScalarFunction::new_udf(time_arith::function(arithmetic), operands);
    Ok(PlannerResult::Planned(Expr::ScalarFunction(call)))
}

/// What an interval is multiplied with, which is a double precision.
fn factor(expr: Expr, ty: DataType, of_interval: bool) -> (Expr, DataType) {
    match of_interval && ty == types::EXACT {
        true => (casts::call(expr, types::plain(oids::FLOAT8)), DataType::Float64),
        false => (expr, ty),
    }
}

fn is_time(ty: &DataType) -> bool {
    matches!(
        ty,
        DataType::Date32
            | DataType::Timestamp(..)
            | DataType::Interval(_)
            | DataType::Duration(_)
            | DataType::Time64(_)
    )
}

/// The type of an operand; `None` for an untyped parameter.
fn type_of(expr: &Expr, schema: &DFSchema) -> Option<DataType> {
    match expr {
        Expr::Placeholder(Placeholder { field: None, .. }) => None,
        _ => arrow_type_of(expr, schema).ok(),
    }
}

/// Gives literals and parameters of no type of their own the type of the other side.
/// 42883 for `x IN (SELECT …)` of a type that x is not compared with.
pub(super) fn compared_with_subquery(found: &InSubquery, schema: &DFSchema) -> Result<()> {
    let inner = found.subquery.subquery.schema();
    if inner.fields().len() != 1 || unknown_literal(&found.expr).is_some() {
        return Ok(());
    }
    let column = Expr::from(inner.qualified_field(0));
    let mut both = schema.clone();
    both.merge(inner);
    unify(&BinaryOperator::Eq, (*found.expr).clone(), column, &both)?;
    Ok(())
}

fn is_bitwise(op: &BinaryOperator) -> bool {
    use BinaryOperator::*;
    matches!(
        op,
        BitwiseAnd
            | BitwiseOr
            | BitwiseXor
            | PGBitwiseXor
            | PGBitwiseShiftLeft
            | PGBitwiseShiftRight
    )
}

/// Operands of `&` and the like, which are integers; 42883 for others.
fn bits(op: &BinaryOperator, left: Expr, right: Expr, schema: &DFSchema) -> Result<(Expr, Expr)> {
    let (left, right) = unify(op, left, right, schema)?;
    let is_strange = |expr: &Expr| match unknown_literal(expr) {
        Some(_) => false,
        None => type_of(expr, schema).is_some_and(|ty| !ty.is_integer() && !ty.is_null()),
    };
    match is_strange(&left) || is_strange(&right) {
        true => Err(no_operator(op, &left, &right, schema).into()),
        false => Ok((left, right)),
    }
}

/// Operands whose types go together: 42883 for others.
pub(super) fn unify(
    op: &BinaryOperator,
    left: Expr,
    right: Expr,
    schema: &DFSchema,
) -> Result<(Expr, Expr)> {
    let (mut left, mut right) = (left, right);
    without_width(&mut [&mut left, &mut right], schema);
    let left = padded(adopt(op, left, &right, schema)?, &right, schema);
    let right = padded(adopt(op, right, &left, schema)?, &left, schema);
    let (Some(l), Some(r)) = (type_of(&left, schema), type_of(&right, schema)) else {
        return Ok((left, right));
    };
    if let Shape::Comparison = shape_of(op) {
        // Beside a point in time a local one is that of the session's zone.
        let is_point = |ty: &DataType| matches!(ty, DataType::Timestamp(_, Some(_)));
        let is_local =
            |ty: &DataType| matches!(ty, DataType::Timestamp(_, None) | DataType::Date32);
        if is_point(&l) && is_local(&r) {
            return Ok((left, common::bring(right, types::plain(oids::TIMESTAMPTZ), schema)?));
        }
        if is_local(&l) && is_point(&r) {
            return Ok((common::bring(left, types::plain(oids::TIMESTAMPTZ), schema)?, right));
        }
    }
    let string = |t: &DataType| t.is_string();
    let strange = |t: &DataType| {
        numerics::is_number(t) || is_time(t) || matches!(t, DataType::FixedSizeBinary(_))
    };
    let oids = [json_ops::oid_of(&left, schema), json_ops::oid_of(&right, schema)];
    // json is compared with nothing, jsonb with jsonb alone.
    let no_json = oids.contains(&Some(oids::JSON))
        || oids.contains(&Some(oids::JSONPATH))
        || oids.contains(&Some(oids::JSONB)) && oids[0] != oids[1];
    if no_json || (string(&l) && strange(&r)) || (strange(&l) && string(&r)) {
        return Err(no_operator(op, &left, &right, schema).into());
    }
    Ok((left, right))
}

fn adopt(op: &BinaryOperator, expr: Expr, other: &Expr, schema: &DFSchema) -> Result<Expr> {
    if unknown_literal(other).is_some() {
        return Ok(expr);
    }
    match expr {
        Expr::Placeholder(Placeholder { id, field: None }) => {
            let Ok(field) = field_of(other, schema) else {
                return Ok(Expr::Placeholder(Placeholder { id, field: None }));
            };
            let ty = match operand_type(op, &field) {
                operand if operand.oid != sql_type_of_field(&field).oid => operand,
                _ => parameter_type(&field),
            };
            let known = types::arrow_of(ty).unwrap_or_else(|| field.data_type().clone());
            let typed = types::sql_field("", ty, known, true);
            Ok(Expr::Placeholder(Placeholder { id, field: Some(typed) }))
        }
        // Numbers and comparisons take NULL as it is.
        Expr::Literal(ScalarValue::Null, metadata) => {
            let times = operand_field(other, schema).filter(|field| {
                matches!(shape_of(op), Shape::Arithmetic(_)) && is_time(field.data_type())
            });
            let typed = times.and_then(|field| types::arrow_of(operand_type(op, &field)));
            let null = typed.and_then(|ty| ScalarValue::try_from(&ty).ok());
            Ok(Expr::Literal(null.unwrap_or(ScalarValue::Null), metadata))
        }
        literal => match (unknown_literal(&literal), operand_field(other, schema)) {
            (Some(text), Some(field)) if gives_type(&field) => {
                let ty = operand_type(op, &field);
                match casts::literal(&ScalarValue::Utf8(Some(text.to_owned())), ty)? {
                    Some(typed) => Ok(typed),
                    None => Ok(literal),
                }
            }
            _ => Ok(literal),
        },
    }
}

/// The field of an operand; of a cast the one that it is to, which has no more of the operand's.
fn operand_field(expr: &Expr, schema: &DFSchema) -> Option<FieldRef> {
    match expr {
        Expr::Cast(cast) => Some(cast.field.clone()),
        _ => field_of(expr, schema).ok(),
    }
}

/// Whether a literal beside a value of this type is of the type; beside a text it is a text anyway.
fn gives_type(field: &Field) -> bool {
    let oid = sql_type_of_field(field).oid;
    !field.data_type().is_string() || matches!(oid, oids::JSON | oids::JSONB | oids::JSONPATH)
}

/// Takes the blanks at their ends from what is compared, where one of it is a char(n) whose width nobody knows any
/// more (`max(c)`).
fn without_width(operands: &mut [&mut Expr], schema: &DFSchema) {
    let char_type = |expr: &Expr| {
        let ty = sql_type_of_field(field_of(expr, schema).ok()?.as_ref());
        Some(ty).filter(|ty| ty.oid == oids::BPCHAR)
    };
    let is_unknown = |expr: &&mut Expr| char_type(expr).is_some_and(|ty| ty.modifier <= 4);
    if !operands.iter().any(is_unknown) {
        return;
    }
    for operand in operands {
        match unknown_literal(operand).map(|text| lit(text.trim_end_matches(' '))) {
            Some(bare) => **operand = bare,
            None if char_type(operand).is_some() => {
                **operand = casts::call(std::mem::take(*operand), types::plain(oids::TEXT));
            }
            None => {}
        }
    }
}

/// char(n) is stored padded: what it is compared with is padded too, so that an index still
/// serves. (Longer strings stay as they are, and are not equal.)
pub(super) fn padded(expr: Expr, other: &Expr, schema: &DFSchema) -> Expr {
    let Ok(field) = field_of(other, schema) else { return expr };
    let ty = sql_type_of_field(&field);
    let width = match ty.oid {
        oids::BPCHAR if ty.modifier > 4 => (ty.modifier - 4) as usize,
        _ => return expr,
    };
    if let Expr::Literal(ScalarValue::Utf8(Some(text)), None) = &expr {
        let trimmed = text.trim_end_matches(' ');
        return Expr::Literal(ScalarValue::Utf8View(Some(format!("{trimmed:width$}"))), None);
    }
    let string = type_of(&expr, schema).is_some_and(|t| t.is_string());
    let same = field_of(&expr, schema).is_ok_and(|f| sql_type_of_field(&f) == ty);
    let Some(pad) = crate::planning::registry().scalar(crate::udf::PAD) else { return expr };
    if !string || same {
        return expr;
    }
    let width = Expr::Literal(ScalarValue::Int32(i32::try_from(width).ok()), None);
    Expr::ScalarFunction(ScalarFunction::new_udf(pad.clone(), vec![expr, width]))
}

/// Pads what a char(n) is looked for among, and what it is between.
pub(super) fn pad_listed(expr: &mut Expr, schema: &DFSchema) {
    without_width(&mut measures::operands(expr), schema);
    let (value, items): (&Expr, Vec<&mut Expr>) = match expr {
        Expr::InList(list) => (&list.expr, list.list.iter_mut().collect()),
        Expr::Between(between) => (&between.expr, vec![&mut between.low, &mut between.high]),
        _ => return,
    };
    if !field_of(value, schema).is_ok_and(|f| sql_type_of_field(&f).oid == oids::BPCHAR) {
        return;
    }
    for item in items {
        let bare = std::mem::replace(item, Expr::Literal(ScalarValue::Null, None));
        *item = padded(bare, value, schema);
    }
}

/// Whether a CASE compares a char(n) with literals that are not padded.
pub(super) fn has_unpadded(case: &Case, schema: &DFSchema) -> bool {
    let is_literal = |(when, _): &(Box<Expr>, Box<Expr>)| unknown_literal(when).is_some();
    let is_char = |value: &Expr| {
        field_of(value, schema).is_ok_and(|f| {
            let ty = sql_type_of_field(&f);
            ty.oid == oids::BPCHAR && ty.modifier > 4
        })
    };
    case.expr.as_deref().is_some_and(is_char) && case.when_then_expr.iter().any(is_literal)
}

/// Pads them.
pub(super) fn pad_branches(mut case: Case, schema: &DFSchema) -> Case {
    if let Some(value) = &case.expr {
        for (when, _) in &mut case.when_then_expr {
            **when = padded(std::mem::take(&mut **when), value, schema);
        }
    }
    case
}

/// The type of a parameter beside a value of this type: without length or precision, and a string
/// is text.
fn parameter_type(field: &Field) -> SqlType {
    match sql_type_of_field(field).oid {
        oids::VARCHAR | oids::NAME | oids::CHAR => types::plain(oids::TEXT),
        oid => types::plain(oid),
    }
}

/// The parameters of a LIKE or BETWEEN that DataFusion gives the type of the other operand, a varchar. There is no
/// such operator of varchar; PostgreSQL takes that of text. Nor is a pattern a char(n).
pub(crate) fn beside_varchar(expr: &Expr) -> Vec<usize> {
    let (operands, types): (Vec<&Expr>, &[u32]) = match expr {
        Expr::Like(like) | Expr::SimilarTo(like) => {
            (vec![&like.expr, &like.pattern], &[oids::VARCHAR, oids::BPCHAR, oids::NAME])
        }
        Expr::Between(between) => {
            (vec![&between.expr, &between.low, &between.high], &[oids::VARCHAR])
        }
        _ => return Vec::new(),
    };
    let index = |expr: &&Expr| match expr {
        Expr::Placeholder(Placeholder { id, field: Some(field) })
            if types.contains(&sql_type_of_field(field).oid) =>
        {
            param_index(id)
        }
        _ => None,
    };
    operands.iter().filter_map(index).collect()
}

/// The type in which a literal beside a value of this type is read. A decimal keeps its digits.
fn operand_type(op: &BinaryOperator, field: &Field) -> SqlType {
    types::plain(match sql_type_of_field(field).oid {
        // What is added to a moment is an interval; what an interval is multiplied with is a number.
        oids::TIME | oids::TIMESTAMP | oids::TIMESTAMPTZ if *op == BinaryOperator::Plus => {
            oids::INTERVAL
        }
        oids::INTERVAL if matches!(op, BinaryOperator::Multiply | BinaryOperator::Divide) => {
            oids::FLOAT8
        }
        oids::REGCLASS | oids::REGTYPE => oids::OID,
        oid => oid,
    })
}

/// A string literal, which PostgreSQL calls unknown until its context gives it a type.
pub fn unknown_literal(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Literal(ScalarValue::Utf8(Some(text)), None) => Some(text),
        _ => None,
    }
}

/// Refuses an operator that only json, jsonb and arrays have, of operands that are neither: DataFusion finds out when
/// the plan runs.
fn only_of_documents_and_arrays(
    op: &BinaryOperator,
    left: &Expr,
    right: &Expr,
    schema: &DFSchema,
) -> Result<()> {
    use BinaryOperator as B;
    let error = match op {
        B::AtAt => SqlError::unsupported("text search (the operator @@)"),
        // Ranges and points have them in PostgreSQL, too: without a type it cannot choose.
        B::AtArrow | B::ArrowAt | B::PGOverlap | B::Arrow | B::LongArrow
            if [left, right]
                .iter()
                .all(|side| is_null(side) || json_ops::oid_of(side, schema).is_none()) =>
        {
            let message = format!("operator is not unique: unknown {op} unknown");
            SqlError::new(SqlState::new("42725"), message).hint(
                "Could not choose a best candidate operator. \
                 You might need to add explicit type casts.",
            )
        }
        B::AtArrow
        | B::ArrowAt
        | B::PGOverlap
        | B::Arrow
        | B::LongArrow
        | B::HashArrow
        | B::HashLongArrow
        | B::HashMinus
        | B::AtQuestion
        | B::Question
        | B::QuestionAnd
        | B::QuestionPipe
        | B::Spaceship => no_operator(op, left, right, schema),
        _ => return Ok(()),
    };
    Err(error.into())
}

/// The word NULL, which has no type either.
pub(super) fn is_null(expr: &Expr) -> bool {
    matches!(expr, Expr::Literal(value, None) if value.data_type().is_null())
}

/// 42883
pub(super) fn no_operator(
    op: &BinaryOperator,
    left: &Expr,
    right: &Expr,
    schema: &DFSchema,
) -> SqlError {
    let name = |expr: &Expr| match (unknown_literal(expr), field_of(expr, schema)) {
        (Some(_), _) | (_, Err(_)) => "unknown".to_owned(),
        (None, Ok(_)) if is_null(expr) => "unknown".to_owned(),
        (None, Ok(field)) => types::input::input_name(sql_type_of_field(&field)),
    };
    does_not_exist(&name(left), op, &name(right))
}

/// 42883 for an operator between two types.
pub(super) fn does_not_exist(left: &str, op: &dyn std::fmt::Display, right: &str) -> SqlError {
    let message = format!("operator does not exist: {left} {op} {right}");
    SqlError::new(SqlState::UNDEFINED_FUNCTION, message).hint(
        "No operator matches the given name and argument types. \
         You might need to add explicit type casts.",
    )
}
