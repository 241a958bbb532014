//! Literals of no type of their own in a branch of a UNION: they have the type of the column in the
//! first branch that says one. (DataFusion would make text of `SELECT 1 UNION SELECT '2'`.)
//!
//! Branches of several types come to one before anybody above asks for it: DataFusion would say that of the first
//! branch, and `abs(r)` over `SELECT 1 AS r UNION SELECT 2.5` would be that of an integer. They come to one name, too.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, LogicalPlan, Projection, Union};
use froglet_schema::SqlType;

use super::operators::unknown_literal;
use super::{casts, common, numerics};
use crate::types::{oids, plain, sql_type_of_field};

/// Gives such literals their types.
pub fn type_literals(plan: LogicalPlan) -> Result<LogicalPlan> {
    let LogicalPlan::Union(union) = plan else { return Ok(plan) };
    let union = up_to_date(union)?;
    match_types(&union)?;
    let union = named(one_number(one_type(union)?)?)?;
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

/// A union whose branches may have got other types since its own were found.
fn up_to_date(union: Union) -> Result<Union> {
    let types = |plan: &LogicalPlan| {
        let fields = plan.schema().fields().iter();
        fields.map(|field| field.data_type().clone()).collect::<Vec<DataType>>()
    };
    let own: Vec<DataType> =
        union.schema.fields().iter().map(|field| field.data_type().clone()).collect();
    match union.inputs.iter().any(|input| types(input) == own) {
        true => Ok(union),
        false => Union::try_new_with_loose_types(union.inputs),
    }
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

/// The columns of branches that are no projections (which are named by who makes a union of them) have the union's
/// names: the optimizer looks for these in the only branch that is left where the others are empty.
fn named(mut union: Union) -> Result<Union> {
    let names = union.schema.fields().clone();
    for input in &mut union.inputs {
        let columns = || input.schema().iter().zip(&names);
        let is_named = columns().all(|((_, field), own)| field.name() == own.name());
        if is_named || matches!(**input, LogicalPlan::Projection(_)) {
            continue;
        }
        let exprs = columns().map(|(column, own)| Expr::from(column).alias(own.name())).collect();
        *input = Arc::new(LogicalPlan::Projection(Projection::try_new(exprs, input.clone())?));
    }
    Ok(union)
}

/// Brings columns to one type. DataFusion would take the name of a type from any branch.
fn one_type(union: Union) -> Result<Union> {
    let width = union.schema.fields().len();
    let types = (0..width).map(|at| common_type(&union, at));
    let types = types.collect::<Result<Vec<Option<SqlType>>>>()?;
    if types.iter().all(Option::is_none) {
        return Ok(union);
    }
    let brought = union.inputs.iter().map(|input| brought(input, &types)).collect::<Result<_>>()?;
    Union::try_new_with_loose_types(brought)
}

/// Brings numerics of several scales to one type: what is computed of the first branch's would be rounded to its.
fn one_number(union: Union) -> Result<Union> {
    let ones = (0..union.schema.fields().len()).map(|at| {
        let known = union.inputs.iter().filter(|input| !is_open(input, at));
        let types = known.map(|input| input.schema().field(at).data_type().clone());
        numerics::one_type(&types.collect::<Vec<DataType>>())
    });
    let ones: Vec<Option<DataType>> = ones.collect();
    if ones.iter().all(Option::is_none) {
        return Ok(union);
    }
    let inputs = union.inputs.iter().map(|input| {
        with_columns(input, |at, field, expr| {
            let one = ones[at].as_ref().filter(|one| *one != field.data_type())?;
            (!is_open(input, at)).then(|| numerics::brought(expr, one))
        })
    });
    Union::try_new_with_loose_types(inputs.collect::<Result<_>>()?)
}

/// What branches of several types come to. Of those that become each other without being asked PostgreSQL, too,
/// takes the first.
fn common_type(union: &Union, at: usize) -> Result<Option<SqlType>> {
    let field_of = |input: &Arc<LogicalPlan>| input.schema().fields().get(at).cloned();
    let known = union.inputs.iter().filter(|input| !is_open(input, at));
    let fields: Vec<_> = known.filter_map(field_of).collect();
    let wholes: Vec<SqlType> = fields.iter().map(|field| sql_type_of_field(field)).collect();
    let types: Vec<u32> = wholes.iter().map(|ty| ty.oid).collect();
    if types.iter().all(|oid| *oid == types[0]) {
        // A length or a precision is the union's only if every branch has it; a literal has none. Numerics
        // are brought to one scale below.
        let has_modifier = wholes.iter().any(|ty| ty.modifier != -1);
        let alike = fields.len() == union.inputs.len() && wholes.iter().all(|ty| *ty == wholes[0]);
        let differs = has_modifier && !alike && types[0] != oids::NUMERIC;
        return Ok(differs.then(|| plain(types[0])));
    }
    let all = |are: fn(u32) -> bool| types.iter().all(|oid| are(*oid));
    if all(|oid| is_number(oid) || common::of_objects(oid)) || all(is_time) {
        return Ok(common::common_type("UNION", &fields)?);
    }
    let stored_alike = fields.iter().all(|field| field.data_type() == fields[0].data_type());
    Ok((stored_alike && all(is_text)).then(|| plain(types[0])))
}

fn is_number(oid: u32) -> bool {
    use oids::*;
    matches!(oid, INT2 | INT4 | INT8 | NUMERIC | FLOAT4 | FLOAT8)
}

fn is_time(oid: u32) -> bool {
    matches!(oid, oids::DATE | oids::TIMESTAMP | oids::TIMESTAMPTZ)
}

fn is_text(oid: u32) -> bool {
    matches!(oid, oids::TEXT | oids::VARCHAR | oids::BPCHAR | oids::NAME)
}

fn brought(input: &Arc<LogicalPlan>, types: &[Option<SqlType>]) -> Result<Arc<LogicalPlan>> {
    with_columns(input, |at, field, expr| match types[at] {
        _ if is_open(input, at) => None,
        Some(ty) if sql_type_of_field(field) != ty => Some(casts::call(expr, ty)),
        _ => None,
    })
}

/// A branch with other expressions for some of its columns. A projection stays one, whose literals can be told.
fn with_columns(
    input: &Arc<LogicalPlan>,
    change: impl Fn(usize, &Field, Expr) -> Option<Expr>,
) -> Result<Arc<LogicalPlan>> {
    let (mut exprs, below) = match &**input {
        LogicalPlan::Projection(one) => (one.expr.clone(), one.input.clone()),
        _ => (input.schema().iter().map(Expr::from).collect(), input.clone()),
    };
    let mut changed = false;
    for (at, expr) in exprs.iter_mut().enumerate() {
        let (qualifier, field) = input.schema().qualified_field(at);
        if let Some(other) = change(at, field, expr.clone()) {
            *expr = other.alias_qualified(qualifier.cloned(), field.name());
            changed = true;
        }
    }
    if !changed {
        return Ok(input.clone());
    }
    Ok(Arc::new(LogicalPlan::Projection(Projection::try_new(exprs, below)?)))
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
