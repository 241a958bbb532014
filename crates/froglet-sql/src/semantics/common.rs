//! Values of several expressions that come to one type: COALESCE, GREATEST, LEAST, NULLIF, CASE, ARRAY,
//! IS DISTINCT FROM, and the operands of ANY and ALL over an array.
//!
//! ```text
//!   coalesce(t, '10:00')  ─ planned as Common, which takes any types ─▶ common_type: time
//!                         ─ casts::rewrite_expr ─▶ coalesce(t, time '10:00'), DataFusion's
//! ```
//!
//! The rule is PostgreSQL's (section 10.5 of its manual): literals and parameters without a type take the
//! type of the others. DataFusion would bring the others to text. Where Arrow's type does not tell the
//! SQL type (jsonb, enums) the result is marked with it ([`marked`]).

use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{Placeholder, ScalarFunction};
use datafusion::logical_expr::type_coercion::other::get_coerce_type_for_case_expression;
use datafusion::logical_expr::{
    BinaryExpr, Case, Cast, ColumnarValue, Expr, Operator, ReturnFieldArgs, ScalarFunctionArgs,
    ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::sql::sqlparser::ast::BinaryOperator;
use froglet_engine::SqlState;
use froglet_schema::SqlType;
use froglet_schema::def::FIRST_USER_ID;

use super::fields::{arrow_type_of, field_of};
use super::{casts, enums, measures, numerics, operators, zeros};
use crate::error::SqlError;
use crate::types::{self, oids, plain, record, sql_field, sql_type_of_field};

/// The most arguments of GREATEST and LEAST of a type that is not compared as Arrow compares it.
const MOST_MEASURED: usize = 6;

/// What a call stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    Coalesce,
    Greatest,
    Least,
    NullIf,
    Distinct,
    Array,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Coalesce => "coalesce",
            Kind::Greatest => "greatest",
            Kind::Least => "least",
            Kind::NullIf => "nullif",
            Kind::Distinct => DISTINCT,
            Kind::Array => ARRAY,
        }
    }
}

/// `a IS DISTINCT FROM b` as a call.
pub const DISTINCT: &str = "froglet_distinct";

/// `ARRAY[…]` as a call.
pub const ARRAY: &str = "froglet_array";

/// The functions, in the place of DataFusion's.
pub fn functions() -> Vec<Arc<ScalarUDF>> {
    [Kind::Coalesce, Kind::Greatest, Kind::Least, Kind::NullIf, Kind::Distinct, Kind::Array]
        .map(|kind| {
            let signature = Signature::variadic_any(Volatility::Immutable);
            Arc::new(ScalarUDF::new_from_impl(Common { kind, signature }))
        })
        .to_vec()
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Common {
    kind: Kind,
    signature: Signature,
}

impl ScalarUDFImpl for Common {
    fn name(&self) -> &str {
        self.kind.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, given: &[DataType]) -> Result<DataType> {
        Ok(given.first().cloned().unwrap_or(DataType::Utf8View))
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        if self.kind == Kind::Distinct {
            return Ok(sql_field(DISTINCT, plain(oids::BOOL), DataType::Boolean, false));
        }
        let typed = args.arg_fields.iter().zip(args.scalar_arguments).filter(|(field, value)| {
            let literal =
                matches!(value, Some(ScalarValue::Utf8(_))) && field.metadata().is_empty();
            !literal && !field.data_type().is_null()
        });
        let typed: Vec<FieldRef> = typed.map(|(field, _)| field.clone()).collect();
        if self.kind == Kind::Array {
            return array_field(&typed);
        }
        let given: Vec<DataType> = typed.iter().map(|f| f.data_type().clone()).collect();
        let field = match common_type(self.name(), &typed)? {
            None => sql_field(self.name(), plain(oids::TEXT), DataType::Utf8View, true),
            Some(ty) => {
                let numeric = given.iter().all(numerics::is_number);
                let one = numerics::one_type(&given);
                let inner = (numeric && one.is_none()).then(|| inner(self.kind)).flatten();
                let arrow = match inner.and_then(|f| f.coerce_types(&given).ok()) {
                    _ if one.is_some() => one.unwrap_or(DataType::Float64),
                    Some(coerced) if !coerced.is_empty() => coerced[0].clone(),
                    _ => same(&given).or_else(|| types::arrow_of(ty)).unwrap_or(DataType::Utf8View),
                };
                sql_field(self.name(), ty, arrow, true)
            }
        };
        Ok(field)
    }

    fn invoke_with_args(&self, _args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Err(SqlError::unsupported(format!("{} in this place", self.name())).into())
    }
}

/// The one type of all, if they have one.
fn same(given: &[DataType]) -> Option<DataType> {
    let first = given.first()?;
    given.iter().all(|ty| ty == first).then(|| first.clone())
}

fn inner(kind: Kind) -> Option<Arc<ScalarUDF>> {
    use datafusion::functions::core;
    Some(match kind {
        Kind::Coalesce => core::coalesce(),
        Kind::Greatest => core::greatest(),
        Kind::Least => core::least(),
        Kind::NullIf => core::nullif(),
        Kind::Distinct | Kind::Array => return None,
    })
}

/// The place of a type among those of its kind, of which the last is what the others are brought to.
fn rank(oid: u32) -> Option<(u8, usize)> {
    const KINDS: [&[u32]; 3] = [
        &[oids::INT2, oids::INT4, oids::INT8, oids::NUMERIC, oids::FLOAT4, oids::FLOAT8],
        &[oids::CHAR, oids::NAME, oids::BPCHAR, oids::VARCHAR, oids::TEXT],
        &[oids::DATE, oids::TIMESTAMP, oids::TIMESTAMPTZ],
    ];
    KINDS.iter().enumerate().find_map(|(kind, members)| {
        let place = members.iter().position(|member| *member == oid)?;
        Some((u8::try_from(kind).ok()?, place))
    })
}

/// The type that values of these fields come to; 42804 if they come to none.
pub fn common_type(what: &str, fields: &[FieldRef]) -> Result<Option<SqlType>, SqlError> {
    let compares = matches!(what, "=" | "nullif");
    let mut found: Option<SqlType> = None;
    for field in fields {
        let ty = sql_type_of_field(field);
        found = Some(match found {
            None => ty,
            Some(one) if one == ty => one,
            Some(one) if one.oid == ty.oid => plain(ty.oid),
            // Each becomes the other without being asked to: the first stays.
            Some(one) if what != "=" && is_text(one.oid) && is_text(ty.oid) => plain(one.oid),
            Some(one) if types::array::is_array(one.oid) && types::array::is_array(ty.oid) => {
                let element = |ty: SqlType| types::element_oid(ty.oid).and_then(rank);
                match (element(one), element(ty)) {
                    (Some((kind, a)), Some((other, b))) if kind == other => {
                        plain(if a < b { ty.oid } else { one.oid })
                    }
                    _ => return Err(no_match(what, one, ty)),
                }
            }
            Some(one) if !compares && (of_objects(one.oid) || of_objects(ty.oid)) => {
                objects_type(what, one, ty)?
            }
            Some(one) => match (rank(one.oid), rank(ty.oid)) {
                (Some((kind, a)), Some((other, b))) if kind == other => {
                    plain(if a < b { ty.oid } else { one.oid })
                }
                // DataFusion knows what to do.
                _ if is_registered(one.oid) || is_registered(ty.oid) => one,
                _ => return Err(no_match(what, one, ty)),
            },
        });
    }
    Ok(found)
}

/// Whether values are numbers of objects, shown as such or as names.
pub fn of_objects(oid: u32) -> bool {
    oid == oids::OID || types::names_objects(oid)
}

/// What two types come to of which one at least is of objects' numbers. Integers become such numbers without being
/// asked to, other numbers and names of other kinds of objects do not.
fn objects_type(what: &str, one: SqlType, other: SqlType) -> Result<SqlType, SqlError> {
    let is_integer = |ty: SqlType| matches!(ty.oid, oids::INT2 | oids::INT4 | oids::INT8);
    let is_function = |ty: SqlType| matches!(ty.oid, oids::REGPROC | oids::REGPROCEDURE);
    let are_alike =
        one.oid == oids::OID || other.oid == oids::OID || is_function(one) && is_function(other);
    match (of_objects(one.oid), of_objects(other.oid)) {
        (true, true) if are_alike => Ok(one),
        (true, false) if is_integer(other) => Ok(one),
        (false, true) if is_integer(one) => Ok(other),
        (is_one, is_other) => {
            let is_number = |ty: SqlType| matches!(rank(ty.oid), Some((0, _)));
            match (is_one || is_number(one)) && (is_other || is_number(other)) {
                true => Err(no_conversion(what, one, other)),
                false => Err(no_match(what, one, other)),
            }
        }
    }
}

fn is_text(oid: u32) -> bool {
    matches!(oid, oids::TEXT | oids::VARCHAR | oids::BPCHAR)
}

/// 42804 for an operand of AND, and the like, that is known to be no boolean.
pub(super) fn boolean(clause: &str, expr: &Expr, schema: &DFSchema) -> Result<()> {
    if is_untyped(expr) {
        return Ok(());
    }
    let Ok(field) = field_of(expr, schema) else { return Ok(()) };
    if matches!(field.data_type(), DataType::Boolean | DataType::Null) {
        return Ok(());
    }
    let ty = types::input::input_name(sql_type_of_field(&field));
    let message = format!("argument of {clause} must be type boolean, not type {ty}");
    Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message).into())
}

fn is_registered(oid: u32) -> bool {
    use oids::*;
    matches!(oid, OID | XID | VOID | RECORD)
        || types::names_objects(oid)
        || types::type_row(oid).is_none() && oid < FIRST_USER_ID
}

fn no_match(what: &str, one: SqlType, other: SqlType) -> SqlError {
    let (one, other) = (types::input::input_name(one), types::input::input_name(other));
    SqlError::new(
        SqlState::DATATYPE_MISMATCH,
        format!("{} types {one} and {other} cannot be matched", what.to_uppercase()),
    )
}

fn no_conversion(what: &str, one: SqlType, other: SqlType) -> SqlError {
    let (one, other) = (types::input::input_name(one), types::input::input_name(other));
    SqlError::new(
        SqlState::CANNOT_COERCE,
        format!("{} could not convert type {other} to {one}", what.to_uppercase()),
    )
}

fn is_untyped(expr: &Expr) -> bool {
    operators::unknown_literal(expr).is_some()
        || matches!(expr, Expr::Placeholder(Placeholder { field: None, .. }))
        || matches!(expr, Expr::Literal(value, _) if value.is_null() && value.data_type().is_null())
}

/// The type that expressions come to. `None` if none has a type, or one is of another schema.
fn type_of<'a>(
    what: &str,
    exprs: impl IntoIterator<Item = &'a Expr>,
    schema: &DFSchema,
) -> Result<Option<SqlType>> {
    let mut fields = Vec::new();
    for expr in exprs {
        if is_untyped(expr) {
            continue;
        }
        let Ok(field) = field_of(expr, schema) else { return Ok(None) };
        if !field.data_type().is_null() {
            fields.push(field);
        }
    }
    Ok(common_type(what, &fields)?)
}

/// An expression as a value of a type: what has no type gets it, what has another one is cast, but a
/// number beside numbers, which DataFusion brings to one type.
pub(super) fn bring(expr: Expr, ty: SqlType, schema: &DFSchema) -> Result<Expr> {
    let target = plain(ty.oid);
    let arrow =
        types::arrow_of(target).ok_or_else(|| SqlError::unsupported(types::type_name(target)))?;
    let field = sql_field("", target, arrow.clone(), true);
    let is_number = |oid| matches!(rank(oid), Some((0, _)));
    let is_null = matches!(&expr, Expr::Literal(value, _) if value.is_null());
    if is_null && is_number(ty.oid) {
        // Of NULL's type there are no digits that the others would get.
        return Ok(expr);
    }
    if is_untyped(&expr) {
        // A literal beside a number is read in the number's type.
        let cast = Cast::new_from_field(Box::new(expr), field);
        return Ok(casts::rewrite_cast(cast, schema)?.data);
    }
    let from = sql_type_of_field(field_of(&expr, schema)?.as_ref());
    if from.oid == ty.oid || is_number(from.oid) || is_registered(from.oid) {
        return Ok(expr);
    }
    let cast = Cast::new_from_field(Box::new(expr), field);
    Ok(casts::rewrite_cast(cast, schema)?.data)
}

/// The arguments of nested calls of coalesce in one list. DataFusion makes CASE of coalesce, in which
/// each argument but the last stands twice: nested, they would double at each level.
fn one_list(args: Vec<Expr>) -> Vec<Expr> {
    let same = datafusion::functions::core::coalesce();
    let inner = |arg| match arg {
        Expr::ScalarFunction(call) if call.func == same => call.args,
        arg => vec![arg],
    };
    args.into_iter().flat_map(inner).collect()
}

/// Whether Arrow's type of such values tells their SQL type.
fn is_told(ty: SqlType) -> bool {
    types::arrow_of(ty).is_none_or(|arrow| types::oid_of_arrow(&arrow) == ty.oid)
}

/// An expression whose field says of which type it is.
pub fn marked(expr: Expr, ty: SqlType) -> Expr {
    marked_whole(expr, plain(ty.oid), None)
}

/// The same, of rows, or of arrays of rows, that have this shape.
pub fn marked_rows(expr: Expr, ty: SqlType, shape: Option<String>) -> Expr {
    marked_whole(expr, plain(ty.oid), shape)
}

/// The same, with the type's modifier.
fn marked_whole(expr: Expr, ty: SqlType, shape: Option<String>) -> Expr {
    if is_told(ty) {
        return expr;
    }
    let signature = Signature::any(1, Volatility::Immutable);
    let function = Arc::new(ScalarUDF::new_from_impl(Marked { ty, shape, signature }));
    Expr::ScalarFunction(ScalarFunction::new_udf(function, vec![expr]))
}

/// A scalar subquery whose value's type is known where it is computed with: DataFusion keeps Arrow's type alone.
pub fn marked_subquery(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let field = field_of(&expr, schema)?;
    let ty = sql_type_of_field(&field);
    if is_told(ty) {
        return Ok(Transformed::no(expr));
    }
    Ok(Transformed::yes(marked_whole(expr, ty, record::shape_of([&field]))))
}

/// The same value, known to be of a type.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Marked {
    ty: SqlType,
    /// Of rows.
    shape: Option<String>,
    signature: Signature,
}

impl ScalarUDFImpl for Marked {
    fn name(&self) -> &str {
        "froglet_typed"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, given: &[DataType]) -> Result<DataType> {
        Ok(given.first().cloned().unwrap_or(DataType::Utf8View))
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let field = &args.arg_fields[0];
        let nullable = field.is_nullable();
        let typed = sql_field(self.name(), self.ty, field.data_type().clone(), nullable);
        Ok(record::with_shape(typed, self.shape.clone()))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let mut args = args.args;
        args.pop().ok_or_else(|| crate::planning::internal("a marked value is there"))
    }
}

/// Puts what computes a call in its place, if it is of one of these functions.
pub fn resolve(call: ScalarFunction, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let Some(common) = call.func.inner().downcast_ref::<Common>() else {
        return Ok(Transformed::no(Expr::ScalarFunction(call)));
    };
    let kind = common.kind;
    let known = |arg: &Expr| is_untyped(arg) || field_of(arg, schema).is_ok();
    if !call.args.iter().all(known) {
        return Ok(Transformed::no(Expr::ScalarFunction(call)));
    }
    if kind == Kind::Array {
        return array(call.args, schema).map(Transformed::yes);
    }
    if kind == Kind::Distinct {
        let [left, right] = two(call.args)?;
        let (left, right) = operators::unify(&BinaryOperator::Eq, left, right, schema)?;
        return compared(left, Operator::IsDistinctFrom, right, schema).map(Transformed::yes);
    }
    let ty = type_of(kind.name(), &call.args, schema)?.unwrap_or(plain(oids::TEXT));
    let mut given = call.args;
    if let (Kind::NullIf | Kind::Distinct, [left, right]) = (kind, &mut given[..]) {
        *right = operators::padded(right.clone(), left, schema);
        if kind == Kind::Distinct {
            *left = operators::padded(left.clone(), right, schema);
        }
    }
    let args = given.into_iter().map(|arg| bring(arg, ty, schema));
    let mut args = args.collect::<Result<Vec<_>>>()?;
    numerics::to_one(args.iter_mut().collect(), schema);
    let exact =
        args.iter().any(|arg| arrow_type_of(arg, schema).is_ok_and(|ty| ty == types::EXACT));
    let measured = exact
        || ty.oid >= FIRST_USER_ID
        || matches!(ty.oid, oids::JSONB | oids::INTERVAL)
        || types::array::is_array(ty.oid);
    let has_zeros = matches!(ty.oid, oids::FLOAT4 | oids::FLOAT8) && !args[0].is_volatile();
    let fields = args.iter().filter(|e| !is_untyped(e)).map(|e| field_of(e, schema));
    let shape = record::shape_of(&fields.collect::<Result<Vec<_>>>().unwrap_or_default());
    let expr = match kind {
        Kind::NullIf if measured || has_zeros => {
            let [left, right] = two(args)?;
            let is_same = compared(left.clone(), Operator::Eq, right, schema)?;
            case(vec![(is_same, Expr::Literal(ScalarValue::Null, None))], left)
        }
        Kind::Greatest | Kind::Least if measured => extreme(kind, args, schema)?,
        _ => {
            let args = if kind == Kind::Coalesce { one_list(args) } else { args };
            let function = inner(kind).ok_or_else(|| crate::planning::internal("a function"))?;
            Expr::ScalarFunction(ScalarFunction::new_udf(function, args))
        }
    };
    Ok(Transformed::yes(marked_rows(expr, ty, shape)))
}

fn two(args: Vec<Expr>) -> Result<[Expr; 2], SqlError> {
    args.try_into().map_err(|_| SqlError::new(SqlState::SYNTAX_ERROR, "two arguments are wanted"))
}

/// A comparison as the types of its sides are compared.
fn compared(left: Expr, op: Operator, right: Expr, schema: &DFSchema) -> Result<Expr> {
    let expr = Expr::BinaryExpr(BinaryExpr::new(Box::new(left), op, Box::new(right)));
    let mut expr = enums::compare(expr, schema)?.data;
    measures::compare(&mut expr, schema)?;
    Ok(expr)
}

pub(super) fn case(when_then: Vec<(Expr, Expr)>, otherwise: Expr) -> Expr {
    let when_then = when_then.into_iter().map(|(when, then)| (Box::new(when), Box::new(then)));
    Expr::Case(Case::new(None, when_then.collect(), Some(Box::new(otherwise))))
}

/// `CASE WHEN a IS NULL THEN b WHEN b IS NULL OR a >= b THEN a ELSE b END`, and so on.
fn extreme(kind: Kind, args: Vec<Expr>, schema: &DFSchema) -> Result<Expr> {
    if args.len() > MOST_MEASURED {
        let what = format!("{} of more than {MOST_MEASURED} such values", kind.name());
        return Err(SqlError::unsupported(what).into());
    }
    let op = if kind == Kind::Greatest { Operator::GtEq } else { Operator::LtEq };
    let mut args = args.into_iter();
    let mut best = args.next().ok_or_else(|| crate::df_error::no_function(kind.name()))?;
    for next in args {
        let stays = compared(best.clone(), op, next.clone(), schema)?;
        let stays = next.clone().is_null().or(stays);
        best = case(vec![(best.clone().is_null(), next.clone()), (stays, best)], next);
    }
    Ok(best)
}

/// Gives the literals of IN and BETWEEN the type of what they are compared with, but where it is a text.
pub fn compared_with(expr: &mut Expr, schema: &DFSchema) -> Result<()> {
    let (value, others): (_, Vec<&mut Expr>) = match expr {
        Expr::InList(list) => (&list.expr, list.list.iter_mut().collect()),
        Expr::Between(between) => (&between.expr, vec![&mut between.low, &mut between.high]),
        _ => return Ok(()),
    };
    type_literals(value, others, schema)
}

/// The same for `CASE x WHEN '…'`.
pub fn compared_in_case(case: &mut Case, schema: &DFSchema) -> Result<()> {
    let Some(value) = &case.expr else { return Ok(()) };
    let others = case.when_then_expr.iter_mut().map(|(when, _)| &mut **when).collect();
    type_literals(value, others, schema)
}

fn type_literals(value: &Expr, others: Vec<&mut Expr>, schema: &DFSchema) -> Result<()> {
    if !others.iter().any(|other| operators::unknown_literal(other).is_some()) {
        return Ok(());
    }
    let Ok(field) = field_of(value, schema) else { return Ok(()) };
    let ty = plain(sql_type_of_field(&field).oid);
    if is_untyped(value) || field.data_type().is_string() || is_registered(ty.oid) {
        return Ok(());
    }
    for other in others {
        if operators::unknown_literal(other).is_some() {
            *other = bring(std::mem::take(other), ty, schema)?;
        }
    }
    Ok(())
}

/// Whether a CASE compares values that Arrow does not compare as PostgreSQL does.
pub fn is_measured_case(case: &Case, schema: &DFSchema) -> bool {
    let Some(value) = &case.expr else { return false };
    let compared = case.when_then_expr.iter().map(|(when, _)| when).chain([value]);
    let compared: Vec<&Expr> = compared.map(|expr| &**expr).collect();
    let is_float = || compared.iter().any(|expr| zeros::is_float(expr, schema));
    compared.iter().any(|expr| measures::is_measured(expr, schema))
        || !value.is_volatile() && is_float()
        || measures::is_in_two_zones(compared.into_iter(), schema)
}

/// `CASE x WHEN y …` as `CASE WHEN x = y …`.
pub fn searched(case: Case) -> Expr {
    let Case { expr, mut when_then_expr, else_expr } = case;
    if let Some(value) = expr {
        for (when, _) in &mut when_then_expr {
            **when = (*value).clone().eq(std::mem::take(&mut **when));
        }
    }
    Expr::Case(Case { expr: None, when_then_expr, else_expr })
}

/// Brings the results of a CASE to one type; the type, if that changed any.
pub fn branches(case: &mut Case, schema: &DFSchema) -> Result<Option<SqlType>> {
    if case.expr.is_none() {
        case.when_then_expr.iter().try_for_each(|(when, _)| boolean("CASE/WHEN", when, schema))?;
    }
    // PostgreSQL looks at ELSE first.
    let results = || case.else_expr.iter().chain(case.when_then_expr.iter().map(|(_, then)| then));
    let known = results().all(|e| is_untyped(e) || field_of(e, schema).is_ok());
    let Some(ty) = type_of("CASE", results().map(|e| &**e), schema)?.filter(|_| known) else {
        return Ok(None);
    };
    let take = |expr: &mut Box<Expr>| -> Result<()> {
        let inner = std::mem::take(&mut **expr);
        **expr = bring(inner, ty, schema)?;
        Ok(())
    };
    case.when_then_expr.iter_mut().try_for_each(|(_, then)| take(then))?;
    case.else_expr.iter_mut().try_for_each(take)?;
    one_number(case, schema);
    Ok(Some(ty))
}

/// A CASE whose results have been brought to a type.
pub fn marked_case(case: Case, ty: SqlType, schema: &DFSchema) -> Expr {
    let results = case.when_then_expr.iter().map(|(_, then)| then).chain(&case.else_expr);
    let fields = results.filter(|e| !is_untyped(e)).map(|e| field_of(e, schema));
    let fields = fields.collect::<Result<Vec<_>>>().unwrap_or_default();
    let shape = record::shape_of(&fields);
    marked_rows(Expr::Case(case), ty, shape)
}

/// Brings the numbers of a CASE to the type that DataFusion will give them, before somebody asks for its scale: what
/// is computed of a CASE would be rounded to that of the first branch.
fn one_number(case: &mut Case, schema: &DFSchema) {
    let results = case.when_then_expr.iter_mut().map(|(_, then)| then).chain(&mut case.else_expr);
    if numerics::to_one(results.map(|expr| &mut **expr).collect(), schema) {
        return;
    }
    let number = |expr: &Expr| {
        let field = field_of(expr, schema).ok().filter(|_| !is_untyped(expr))?;
        Some(field.data_type().clone()).filter(DataType::is_numeric)
    };
    let results = case.when_then_expr.iter().map(|(_, then)| then).chain(&case.else_expr);
    let types: Vec<DataType> = results.filter_map(|expr| number(expr)).collect();
    let Some(one) = get_coerce_type_for_case_expression(&types, None) else { return };
    let cast = |expr: &mut Box<Expr>| {
        if number(expr).is_some_and(|ty| ty != one) {
            let inner = std::mem::take(&mut **expr);
            **expr = Expr::Cast(Cast::new(Box::new(inner), one.clone()));
        }
    };
    case.when_then_expr.iter_mut().for_each(|(_, then)| cast(then));
    case.else_expr.iter_mut().for_each(cast);
}

/// `ARRAY[…]`: its elements in one type.
pub fn array(exprs: Vec<Expr>, schema: &DFSchema) -> Result<Expr> {
    let fields = exprs.iter().filter(|e| !is_untyped(e)).map(|e| field_of(e, schema));
    let fields = fields.collect::<Result<Vec<_>>>().unwrap_or_default();
    let ty = common_type("ARRAY", &fields)?;
    let mut exprs: Vec<Expr> = match ty {
        Some(ty) => exprs.into_iter().map(|expr| bring(expr, ty, schema)).collect::<Result<_>>()?,
        None => exprs,
    };
    numerics::to_one(exprs.iter_mut().collect(), schema);
    let array = datafusion::functions_nested::make_array::make_array(exprs);
    let element = ty.filter(|ty| !types::array::is_array(ty.oid));
    let of = element.and_then(|ty| types::array_type_of(ty.oid));
    let shape = record::shape_of(&fields);
    Ok(of.map_or(array.clone(), |oid| marked_rows(array, plain(oid), shape)))
}

/// What [`array`] makes of elements that have these types.
fn array_field(elements: &[FieldRef]) -> Result<FieldRef> {
    let element = common_type("ARRAY", elements)?.unwrap_or(plain(oids::TEXT));
    let of = types::array_type_of(element.oid).map(plain);
    let arrow = of.and_then(types::arrow_of);
    let (Some(of), Some(arrow)) = (of, arrow) else {
        return Err(SqlError::unsupported("ARRAY of such values in a subquery").into());
    };
    Ok(record::with_shape(sql_field(ARRAY, of, arrow, true), record::shape_of(elements)))
}

/// The array type of elements that a field has.
pub fn array_type(field: &FieldRef) -> Option<SqlType> {
    let oid = match sql_type_of_field(field).oid {
        oids::VARCHAR | oids::NAME | oids::BPCHAR | oids::UNKNOWN => oids::TEXT,
        oid => oid,
    };
    types::array_type_of(oid).map(plain)
}
