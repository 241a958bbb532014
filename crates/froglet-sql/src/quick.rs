//! Small expressions over integers, and clocks, evaluated value by value.
//!
//! ```text
//!   abalance + $1        Arith(Add, Input(0), Param(0))
//!   balance + $1 >= 0    Compare(GtEq, Arith(…), Constant(0))
//! ```
//! For one row Arrow's kernels want an array for each operand, a batch, a result. These answer exactly what the kernels answer, errors too, and are only made for what is
//! listed here; a test compares the two (`expr_tests.rs`).

use std::cmp::Ordering;
use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{
    BinaryExpr, CaseExpr, CastExpr, Column, IsNotNullExpr, IsNullExpr, Literal, NotExpr,
};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use froglet_engine::{ColumnType, Value};

use crate::context::EvalContext;
use crate::error::SqlError;
use crate::semantics::arith::{Arith, Op, overflow};
use crate::semantics::param::ParamExpr;
use crate::types;
use crate::udf::simple::{Body, Out, Simple};

/// A small expression.
#[derive(Debug)]
pub(crate) enum Quick {
    /// The value at this place of the row.
    Input(usize),
    Constant(Value),
    /// From 0, of this type.
    Param(usize, ColumnType),
    /// To a wider integer.
    Widen(Box<Quick>, ColumnType),
    /// `+`, `-` or `*` of two integers of this type.
    Arith(Op, Box<Quick>, Box<Quick>, ColumnType),
    /// Of two integers.
    Compare(Operator, Box<Quick>, Box<Quick>),
    And(Box<Quick>, Box<Quick>),
    Or(Box<Quick>, Box<Quick>),
    Not(Box<Quick>),
    /// IS NULL, or with `true` IS NOT NULL.
    IsNull(Box<Quick>, bool),
    /// CASE: conditions, what each answers, and ELSE.
    Case(Vec<(Quick, Quick)>, Option<Box<Quick>>),
    /// CURRENT_TIMESTAMP and the like, of this type.
    Clock(Body, ColumnType),
}

impl Quick {
    /// From a compiled expression, if it is one of these.
    pub(crate) fn of(expr: &Arc<dyn PhysicalExpr>, inputs: &[ColumnType]) -> Option<Quick> {
        Some(Node::of(expr, inputs)?.quick)
    }

    /// Its value for a row of the expression's inputs.
    pub(crate) fn eval(&self, row: &[Value], context: &EvalContext) -> Result<Value, SqlError> {
        Ok(match self {
            Quick::Input(place) => row[*place].clone(),
            Quick::Constant(value) => value.clone(),
            Quick::Param(index, ty) => context.param(*index, *ty)?,
            Quick::Widen(inner, to) => match inner.eval(row, context)?.as_integer() {
                Some(wide) => Value::of_integer(wide, *to).expect("a wider type holds it"),
                None => Value::Null,
            },
            Quick::Arith(op, left, right, ty) => {
                let (left, right) = (left.eval(row, context)?, right.eval(row, context)?);
                let (Some(l), Some(r)) = (left.as_integer(), right.as_integer()) else {
                    return Ok(Value::Null);
                };
                let computed = match op {
                    Op::Add => l.checked_add(r),
                    Op::Sub => l.checked_sub(r),
                    Op::Mul => l.checked_mul(r),
                    Op::Div | Op::Rem => unreachable!("left to Arrow"),
                };
                let fits = computed.and_then(|wide| Value::of_integer(wide, *ty));
                fits.ok_or_else(|| overflow(&ty.arrow()))?
            }
            Quick::Compare(operator, left, right) => {
                let (left, right) = (left.eval(row, context)?, right.eval(row, context)?);
                let (Some(l), Some(r)) = (left.as_integer(), right.as_integer()) else {
                    return Ok(Value::Null);
                };
                Value::Bool(holds(*operator, l.cmp(&r)))
            }
            Quick::And(left, right) => connect(left, right, false, row, context)?,
            Quick::Or(left, right) => connect(left, right, true, row, context)?,
            Quick::Not(inner) => match inner.eval(row, context)? {
                Value::Bool(value) => Value::Bool(!value),
                _ => Value::Null,
            },
            Quick::IsNull(inner, not) => Value::Bool(inner.eval(row, context)?.is_null() != *not),
            Quick::Case(branches, otherwise) => {
                for (condition, answer) in branches {
                    if matches!(condition.eval(row, context)?, Value::Bool(true)) {
                        return answer.eval(row, context);
                    }
                }
                match otherwise {
                    Some(otherwise) => otherwise.eval(row, context)?,
                    None => Value::Null,
                }
            }
            Quick::Clock(body, ty) => moment(body(&*context.session, &[])?, *ty),
        })
    }
}

/// AND (`decides`: false) and OR (true), three-valued. Both sides are evaluated: SQL promises no
/// order, and Arrow evaluates the right one unless the left decides for every row.
fn connect(
    left: &Quick,
    right: &Quick,
    decides: bool,
    row: &[Value],
    context: &EvalContext,
) -> Result<Value, SqlError> {
    let left = left.eval(row, context)?;
    if matches!(left, Value::Bool(value) if value == decides) {
        return Ok(left);
    }
    let right = right.eval(row, context)?;
    Ok(match (&left, &right) {
        (_, Value::Bool(value)) if *value == decides => right,
        (Value::Null, _) | (_, Value::Null) => Value::Null,
        _ => right,
    })
}

fn moment(out: Out, ty: ColumnType) -> Value {
    match (out, ty) {
        (Out::Time(us), ColumnType::TimestampTz) => Value::TimestampTz(us),
        (Out::Time(us), ColumnType::Timestamp) => Value::Timestamp(us),
        (Out::Time(days), ColumnType::Date) => {
            Value::Date(i32::try_from(days).expect("the present is a date"))
        }
        (out, ty) => unreachable!("{out:?} of a clock of type {ty:?}"),
    }
}

fn holds(operator: Operator, ordering: Ordering) -> bool {
    match operator {
        Operator::Eq => ordering.is_eq(),
        Operator::NotEq => ordering.is_ne(),
        Operator::Lt => ordering.is_lt(),
        Operator::LtEq => ordering.is_le(),
        Operator::Gt => ordering.is_gt(),
        Operator::GtEq => ordering.is_ge(),
        other => unreachable!("{other} is no comparison of these"),
    }
}

fn rank(ty: ColumnType) -> Option<u8> {
    match ty {
        ColumnType::Int16 => Some(0),
        ColumnType::Int32 => Some(1),
        ColumnType::Int64 => Some(2),
        _ => None,
    }
}

/// A small expression and its type.
struct Node {
    quick: Quick,
    ty: ColumnType,
}

impl Node {
    fn of(expr: &Arc<dyn PhysicalExpr>, inputs: &[ColumnType]) -> Option<Node> {
        let boolean = |quick| Some(Node { quick, ty: ColumnType::Bool });
        if let Some(column) = expr.downcast_ref::<Column>() {
            let ty = *inputs.get(column.index())?;
            return is_small(ty).then_some(Node { quick: Quick::Input(column.index()), ty });
        }
        if let Some(literal) = expr.downcast_ref::<Literal>() {
            let ty = small(&literal.value().data_type())?;
            let value = types::value_of_scalar(literal.value(), ty).ok()?;
            return Some(Node { quick: Quick::Constant(value), ty });
        }
        if let Some(param) = expr.downcast_ref::<ParamExpr>() {
            let ty = small(param.field.data_type())?;
            return Some(Node { quick: Quick::Param(param.index, ty), ty });
        }
        if let Some(cast) = expr.downcast_ref::<CastExpr>() {
            let (inner, to) = (Node::of(cast.expr(), inputs)?, small(cast.cast_type())?);
            let wider = rank(to)? >= rank(inner.ty)?;
            let quick = Quick::Widen(Box::new(inner.quick), to);
            return wider.then_some(Node { quick, ty: to });
        }
        if let Some(call) = ScalarFunctionExpr::try_downcast_func::<Arith>(expr.as_ref()) {
            return Node::of_arith(call, inputs);
        }
        if let Some(call) = ScalarFunctionExpr::try_downcast_func::<Simple>(expr.as_ref()) {
            let (oid, body) = call.fun().inner().downcast_ref::<Simple>()?.clock()?;
            let ty = types::column_type_of(oid, -1)?;
            return Some(Node { quick: Quick::Clock(body, ty), ty });
        }
        if let Some(binary) = expr.downcast_ref::<BinaryExpr>() {
            let (left, right) =
                (Node::of(binary.left(), inputs)?, Node::of(binary.right(), inputs)?);
            return boolean(Node::of_binary(*binary.op(), left, right)?);
        }
        if let Some(not) = expr.downcast_ref::<NotExpr>() {
            let inner = Node::of(not.arg(), inputs)?;
            let quick = Quick::Not(Box::new(inner.quick));
            return (inner.ty == ColumnType::Bool).then_some(Node { quick, ty: ColumnType::Bool });
        }
        if let Some(is_null) = expr.downcast_ref::<IsNullExpr>() {
            let inner = Node::of(is_null.arg(), inputs)?;
            return boolean(Quick::IsNull(Box::new(inner.quick), false));
        }
        if let Some(case) = expr.downcast_ref::<CaseExpr>() {
            return Node::of_case(case, inputs);
        }
        let is_not_null = expr.downcast_ref::<IsNotNullExpr>()?;
        let inner = Node::of(is_not_null.arg(), inputs)?;
        boolean(Quick::IsNull(Box::new(inner.quick), true))
    }

    fn of_case(case: &CaseExpr, inputs: &[ColumnType]) -> Option<Node> {
        if case.expr().is_some() {
            return None;
        }
        let mut branches = Vec::with_capacity(case.when_then_expr().len());
        let mut ty = None;
        for (when, then) in case.when_then_expr() {
            let (when, then) = (Node::of(when, inputs)?, Node::of(then, inputs)?);
            if when.ty != ColumnType::Bool || *ty.get_or_insert(then.ty) != then.ty {
                return None;
            }
            branches.push((when.quick, then.quick));
        }
        let otherwise = match case.else_expr() {
            Some(expr) => {
                let node = Node::of(expr, inputs)?;
                (Some(node.ty) == ty).then_some(Some(Box::new(node.quick)))?
            }
            None => None,
        };
        Some(Node { quick: Quick::Case(branches, otherwise), ty: ty? })
    }

    fn of_arith(call: &ScalarFunctionExpr, inputs: &[ColumnType]) -> Option<Node> {
        let op = call.fun().inner().downcast_ref::<Arith>()?.op();
        let [left, right] = call.args() else { return None };
        let (left, right) = (Node::of(left, inputs)?, Node::of(right, inputs)?);
        let ty = small(call.return_type())?;
        rank(ty)?;
        if left.ty != ty || right.ty != ty || matches!(op, Op::Div | Op::Rem) {
            return None;
        }
        let quick = Quick::Arith(op, Box::new(left.quick), Box::new(right.quick), ty);
        Some(Node { quick, ty })
    }

    fn of_binary(operator: Operator, left: Node, right: Node) -> Option<Quick> {
        let (l, r) = (Box::new(left.quick), Box::new(right.quick));
        let conditions = left.ty == ColumnType::Bool && right.ty == ColumnType::Bool;
        match operator {
            Operator::And if conditions => Some(Quick::And(l, r)),
            Operator::Or if conditions => Some(Quick::Or(l, r)),
            Operator::Eq
            | Operator::NotEq
            | Operator::Lt
            | Operator::LtEq
            | Operator::Gt
            | Operator::GtEq => {
                rank(left.ty)?;
                (left.ty == right.ty).then_some(Quick::Compare(operator, l, r))
            }
            _ => None,
        }
    }
}

fn small(ty: &DataType) -> Option<ColumnType> {
    types::column_type_of_arrow(ty).filter(|ty| is_small(*ty))
}

fn is_small(ty: ColumnType) -> bool {
    ty == ColumnType::Bool || rank(ty).is_some()
}
