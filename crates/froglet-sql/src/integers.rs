//! How large integers may be for sums, differences and products of them not to overflow: where a row is
//! made after the commit, that has to be known before.
//!
//! ```text
//!   capacity - passengers   int4     both less than 2^30 from 0: the difference is less than 2^31
//! ```
//!
//! The columns' types may say so by themselves (int2 in int4). Else their values are looked at, table by
//! table: no row of a join has to be made for that.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, ScalarValue};
use datafusion::logical_expr::{Expr, ExprSchemable};

use crate::migrate::may_fail;
use crate::semantics::arith::{Arith, Op};

/// Bounds that are tried, the widest first; the first is that of every type.
const BOUNDS: [i128; 7] =
    [i128::MAX, of_bits(62), of_bits(40), of_bits(30), of_bits(20), of_bits(15), of_bits(10)];

const fn of_bits(bits: u32) -> i128 {
    (1 << bits) - 1
}

/// What keeps expressions from failing.
#[derive(Debug, PartialEq)]
pub(crate) struct Within {
    /// Columns of arithmetic.
    pub(crate) columns: Vec<Column>,
    /// Their values are at most so far from 0; none, if their types say enough.
    pub(crate) bound: Option<i64>,
}

/// What keeps expressions over a schema from failing; `None` if that cannot be told.
pub(crate) fn guard(exprs: &[&Expr], schema: &DFSchema) -> Option<Within> {
    let bound = *BOUNDS.iter().find(|bound| exprs.iter().all(|e| is_safe(e, schema, **bound)))?;
    let mut columns = Vec::new();
    exprs.iter().for_each(|expr| arithmetic_of(expr, &mut columns));
    columns.sort_unstable();
    columns.dedup();
    Some(Within { columns, bound: i64::try_from(bound).ok() })
}

fn arith(expr: &Expr) -> Option<(Op, &[Expr])> {
    let Expr::ScalarFunction(function) = expr else { return None };
    let arith = function.func.inner().downcast_ref::<Arith>()?;
    Some((arith.op(), &function.args))
}

/// The columns below arithmetic.
fn arithmetic_of(expr: &Expr, out: &mut Vec<Column>) {
    if arith(expr).is_some() {
        return out.extend(expr.column_refs().into_iter().cloned());
    }
    children(expr).into_iter().for_each(|child| arithmetic_of(child, out));
}

/// The parts of an expression.
fn children(expr: &Expr) -> Vec<&Expr> {
    let mut parts = Vec::new();
    let push = |part| {
        parts.push(part);
        Ok(TreeNodeRecursion::Continue)
    };
    expr.apply_children(push).expect("nothing here fails");
    parts
}

fn is_safe(expr: &Expr, schema: &DFSchema, bound: i128) -> bool {
    if may_fail::is_total(expr, schema) {
        return children(expr).into_iter().all(|child| is_safe(child, schema, bound));
    }
    arith(expr).is_some() && interval(expr, schema, bound).is_some()
}

fn range_of(ty: &DataType) -> Option<(i128, i128)> {
    Some(match ty {
        DataType::Int16 => (i16::MIN.into(), i16::MAX.into()),
        DataType::Int32 => (i32::MIN.into(), i32::MAX.into()),
        DataType::Int64 => (i64::MIN.into(), i64::MAX.into()),
        _ => return None,
    })
}

/// The least and the greatest value of an integer, if its columns are within a bound and nothing in it
/// overflows.
fn interval(expr: &Expr, schema: &DFSchema, bound: i128) -> Option<(i128, i128)> {
    let (least, greatest) = range_of(&expr.get_type(schema).ok()?)?;
    match expr {
        Expr::Column(_) => Some((least.max(bound.checked_neg()?), greatest.min(bound))),
        Expr::Literal(value, _) => {
            let value = match value {
                ScalarValue::Int16(Some(v)) => i128::from(*v),
                ScalarValue::Int32(Some(v)) => i128::from(*v),
                ScalarValue::Int64(Some(v)) => i128::from(*v),
                _ => return None,
            };
            Some((value, value))
        }
        Expr::Alias(alias) => interval(&alias.expr, schema, bound),
        _ => {
            let (op, args) = arith(expr)?;
            let [left, right] = args else { return None };
            let (a, b) = (interval(left, schema, bound)?, interval(right, schema, bound)?);
            let ends = [(a.0, b.0), (a.0, b.1), (a.1, b.0), (a.1, b.1)];
            let at = |(a, b): (i128, i128)| match op {
                Op::Add => a.checked_add(b),
                Op::Sub => a.checked_sub(b),
                Op::Mul => a.checked_mul(b),
                Op::Div | Op::Rem => None,
            };
            let ends = ends.into_iter().map(at).collect::<Option<Vec<i128>>>()?;
            let (low, high) = (*ends.iter().min()?, *ends.iter().max()?);
            (least <= low && high <= greatest).then_some((low, high))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::datatypes::Field;
    use datafusion::logical_expr::{col, lit};

    use super::*;
    use crate::semantics::arith::function;

    fn apply(op: Op, left: Expr, right: Expr) -> Expr {
        function(op).call(vec![left, right])
    }

    #[test]
    fn the_widest_bound_that_is_enough_is_found() {
        let fields = [("s", DataType::Int16), ("i", DataType::Int32), ("b", DataType::Int64)];
        let field = |(name, ty): (&str, DataType)| (None, Arc::new(Field::new(name, ty, true)));
        let schema =
            DFSchema::new_with_metadata(fields.map(field).to_vec(), Default::default()).unwrap();
        let bound = |expr: Expr| guard(&[&expr], &schema).map(|within| within.bound);
        let (s, i, b) = (|| col("s"), || col("i"), || col("b"));
        assert_eq!(bound(i()), Some(None));
        assert_eq!(bound(i().gt(lit(3_i32))), Some(None));
        assert_eq!(bound(apply(Op::Sub, i(), i())), Some(Some((1 << 30) - 1)));
        assert_eq!(bound(apply(Op::Add, i(), s())), Some(Some((1 << 30) - 1)));
        assert_eq!(bound(apply(Op::Mul, i(), i())), Some(Some((1 << 15) - 1)));
        assert_eq!(bound(apply(Op::Add, b(), lit(1_i64))), Some(Some((1 << 62) - 1)));
        assert_eq!(bound(apply(Op::Div, i(), i())), None);
        assert_eq!(bound(apply(Op::Mul, i(), lit(i32::MAX))), None);
        assert_eq!(bound(lit("a").eq(lit("b"))), Some(None));
        let sum = apply(Op::Add, i(), b());
        let within = guard(&[&sum.is_null(), &s()], &schema).unwrap();
        assert_eq!(within.columns.len(), 2, "those of arithmetic");
    }
}
