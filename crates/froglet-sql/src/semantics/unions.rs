//! Literals of no type of their own in a branch of a UNION: they have the type of the column in the
//! first branch that says one. (DataFusion would make text of `SELECT 1 UNION SELECT '2'`.)
//!
//! Branches of types that Arrow has one of (an oid and a regclass, a name and a text) come to one, too.

use std::sync::Arc;

use arrow::datatypes::FieldRef;
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, LogicalPlan, Projection, Union};
use froglet_schema::SqlType;

use super::operators::unknown_literal;
use super::{casts, common};
use crate::types::{oids, plain, sql_type_of_field};

/// Gives such literals their types.
pub fn type_literals(plan: LogicalPlan) -> Result<LogicalPlan> {
    let LogicalPlan::Union(union) = plan else { return Ok(plan) };
    match_types(&union)?;
    let union = one_type(union)?;
    let width = union.schema.fields().len();
    let types: Vec<Option<SqlType>> = (0..width).map(|at| type_of(&union, at)).collect();
    let needed = union.inputs.iter().any(|input| {
        (0..width).any(|at| types[at].is_some_and(|ty| is_open(input, at) && ty.oid != oids::TEXT))
    });
    if !needed {
        return Ok(LogicalPlan::Union(union));
    }
    let typed = union.inputs.iter().map(|input| typed(input, &types)).collect::<Result<_>>()?;
    Union::try_new_with_loose_types(typed).map(LogicalPlan::Union)
}

/// 42804 for a column whose branches come to no type.
fn match_types(union: &Union) -> Result<()> {
    for at in 0..union.schema.fields().len() {
        let known = union.inputs.iter().filter(|input| !is_open(input, at));
        let fields = known.filter_map(|input| input.schema().fields().get(at).cloned());
        let typed = fields.filter(|field| !field.data_type().is_null());
        common::common_type("UNION", &typed.collect::<Vec<FieldRef>>())?;
    }
    Ok(())
}

/// Brings columns that are stored alike to one type. DataFusion would take the name of a type from any branch.
fn one_type(union: Union) -> Result<Union> {
    let width = union.schema.fields().len();
    let types: Vec<Option<SqlType>> = (0..width).map(|at| common_type(&union, at)).collect();
    if types.iter().all(Option::is_none) {
        return Ok(union);
    }
    let brought = union.inputs.iter().map(|input| brought(input, &types)).collect::<Result<_>>()?;
    Union::try_new_with_loose_types(brought)
}

/// What branches of several types that are stored alike come to: PostgreSQL, too, takes the first of those that
/// become each other without being asked.
fn common_type(union: &Union, at: usize) -> Option<SqlType> {
    let field_of = |input: &Arc<LogicalPlan>| input.schema().fields().get(at).cloned();
    let known = union.inputs.iter().filter(|input| !is_open(input, at));
    let fields: Vec<_> = known.filter_map(field_of).collect();
    let first = fields.first()?;
    let types: Vec<u32> = fields.iter().map(|field| sql_type_of_field(field).oid).collect();
    let is_mixed = types.iter().any(|oid| *oid != types[0])
        && fields.iter().all(|field| field.data_type() == first.data_type())
        && (types.iter().all(|oid| is_number_of_object(*oid))
            || types.iter().all(|oid| is_text(*oid)));
    is_mixed.then(|| plain(types[0]))
}

fn is_number_of_object(oid: u32) -> bool {
    use oids::*;
    matches!(oid, OID | REGCLASS | REGTYPE | REGPROC | REGNAMESPACE | REGROLE)
}

fn is_text(oid: u32) -> bool {
    matches!(oid, oids::TEXT | oids::VARCHAR | oids::BPCHAR | oids::NAME)
}

fn brought(input: &Arc<LogicalPlan>, types: &[Option<SqlType>]) -> Result<Arc<LogicalPlan>> {
    let column = |(at, ty): (usize, &Option<SqlType>)| {
        let (qualifier, field) = input.schema().qualified_field(at);
        let column = Expr::from((qualifier, field));
        match ty {
            Some(ty) if sql_type_of_field(field).oid != ty.oid && !is_open(input, at) => {
                casts::call(column, *ty).alias_qualified(qualifier.cloned(), field.name())
            }
            _ => column,
        }
    };
    let exprs: Vec<Expr> = types.iter().enumerate().map(column).collect();
    // A branch without such a column stays a projection whose literals can be told.
    if exprs.iter().all(|expr| matches!(expr, Expr::Column(_))) {
        return Ok(input.clone());
    }
    Ok(Arc::new(LogicalPlan::Projection(Projection::try_new(exprs, input.clone())?)))
}

/// The type of a column in the first branch that has one.
fn type_of(union: &Union, at: usize) -> Option<SqlType> {
    let known = union.inputs.iter().find(|input| !is_open(input, at))?;
    let ty = sql_type_of_field(known.schema().fields().get(at)?);
    (ty.oid != oids::UNKNOWN && ty.oid != oids::NUMERIC).then_some(ty)
}

/// Whether a branch has a literal without a type in a column.
fn is_open(input: &LogicalPlan, at: usize) -> bool {
    let LogicalPlan::Projection(projection) = input else { return false };
    projection.expr.get(at).is_some_and(|expr| literal(expr).is_some())
}

fn literal(expr: &Expr) -> Option<&Expr> {
    match expr {
        Expr::Alias(alias) => literal(&alias.expr),
        Expr::Literal(ScalarValue::Null, _) => Some(expr),
        other => unknown_literal(other).map(|_| expr),
    }
}

fn typed(input: &Arc<LogicalPlan>, types: &[Option<SqlType>]) -> Result<Arc<LogicalPlan>> {
    let LogicalPlan::Projection(projection) = &**input else { return Ok(input.clone()) };
    let mut exprs = projection.expr.clone();
    for (at, expr) in exprs.iter_mut().enumerate() {
        let (Some(value), Some(Some(ty))) = (literal(expr), types.get(at)) else { continue };
        let read = match value {
            Expr::Literal(value, _) => casts::literal(value, *ty)?,
            _ => None,
        };
        let value = read.unwrap_or_else(|| casts::call(value.clone(), *ty));
        let (qualifier, field) = projection.schema.qualified_field(at);
        *expr = value.alias_qualified(qualifier.cloned(), field.name());
    }
    let projection = Projection::try_new(exprs, projection.input.clone())?;
    Ok(Arc::new(LogicalPlan::Projection(projection)))
}
