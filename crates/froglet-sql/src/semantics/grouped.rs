//! Groups, distinct rows and joins by measures ([`super::measures`]): two numerics that differ in their display
//! scale are one, and so are '1 mon' and '30 days'.
//!
//! ```text
//!   GROUP BY x             GROUP BY measure(x), and of x the first of each group
//!   GROUP BY ROLLUP (x)    ROLLUP (m), m being measure(x), and of x the first of each group that has an m
//!   SELECT DISTINCT x, y   the same, grouped by x and y
//!   l JOIN r ON l.x = r.x  ON measure(l.x) = measure(r.x)
//! ```

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema};
use datafusion::error::Result;
use datafusion::functions_aggregate::first_last::first_value;
use datafusion::logical_expr::expr::InSubquery;
use datafusion::logical_expr::{
    Aggregate, Distinct, Expr, LogicalPlan, Operator, Projection, when,
};

use super::{common, first_seen, measures};
use crate::types::{record, sql_type_of_field};

/// Groups by measures what is grouped in a node.
pub fn by_measures(node: LogicalPlan) -> Result<LogicalPlan> {
    match node {
        LogicalPlan::Aggregate(aggregate) => grouped(aggregate),
        LogicalPlan::Distinct(Distinct::All(input)) => {
            let schema = input.schema().clone();
            let columns: Vec<Expr> = schema.iter().map(Expr::from).collect();
            if !columns.iter().any(|column| measures::is_measured(column, &schema)) {
                return Ok(LogicalPlan::Distinct(Distinct::All(input)));
            }
            grouped(Aggregate::try_new(input, columns, Vec::new())?)
        }
        LogicalPlan::RecursiveQuery(query) if query.is_distinct => {
            first_seen::distinct(query).map(LogicalPlan::RecursiveQuery)
        }
        LogicalPlan::Distinct(Distinct::On(mut on)) => {
            let schema = on.input.schema().clone();
            measures::measure_all(&mut on.on_expr, &schema)?;
            measures::order(on.sort_expr.as_deref_mut().unwrap_or_default(), &schema)?;
            // DataFusion takes each for a key of its own, and then finds fewer.
            keep_first(&mut on.on_expr, |key| key.clone());
            if let Some(keys) = &mut on.sort_expr {
                keep_first(keys, |key| key.expr.clone());
            }
            Ok(LogicalPlan::Distinct(Distinct::On(on)))
        }
        LogicalPlan::Join(mut join) => {
            let mut both = join.left.schema().as_ref().clone();
            both.merge(join.right.schema());
            for (left, right) in &mut join.on {
                match_pair(left, right, &both)?;
            }
            Ok(LogicalPlan::Join(join))
        }
        node => Ok(node),
    }
}

/// Of several with the same expression the first.
fn keep_first<T>(keys: &mut Vec<T>, expr: impl Fn(&T) -> Expr) {
    let mut seen = HashSet::new();
    keys.retain(|key| seen.insert(expr(key)));
}

/// Compares the sides of a pair that a join is made by as `=` does.
fn match_pair(left: &mut Expr, right: &mut Expr, schema: &DFSchema) -> Result<()> {
    let sides = (std::mem::take(left), std::mem::take(right));
    (*left, *right) = measures::pair(sides.0, Operator::Eq, sides.1, schema)?;
    Ok(())
}

/// Whether columns are the same wherever others are, as DataFusion groups by all columns of a row whose key is
/// grouped by.
fn are_determined(columns: &[&Expr], others: &[&Expr], schema: &DFSchema) -> bool {
    let place = |expr: &&Expr| match expr {
        Expr::Column(column) => schema.maybe_index_of_column(column),
        _ => None,
    };
    let known: Vec<usize> = others.iter().filter_map(place).collect();
    let Some(wanted) = columns.iter().map(place).collect::<Option<Vec<usize>>>() else {
        return false;
    };
    schema.functional_dependencies().iter().any(|dependence| {
        dependence.source_indices.iter().all(|at| known.contains(at))
            && wanted.iter().all(|at| dependence.target_indices.contains(at))
    })
}

/// An aggregate whose groups are told by measures. What a group shows is what its first row has.
fn grouped(aggregate: Aggregate) -> Result<LogicalPlan> {
    if let [Expr::GroupingSet(_)] = &aggregate.group_expr[..] {
        return grouped_by_sets(aggregate);
    }
    let input = aggregate.input.schema().clone();
    let is_measured = |expr: &Expr| measures::is_measured(expr, &input);
    let (measured, others): (Vec<&Expr>, Vec<&Expr>) =
        aggregate.group_expr.iter().partition(|expr| is_measured(expr));
    if measured.is_empty() || are_determined(&measured, &others, &input) {
        return Ok(LogicalPlan::Aggregate(aggregate));
    }
    let shown = aggregate.schema.clone();
    let (mut groups, mut aggregates) = (aggregate.group_expr, aggregate.aggr_expr);
    let mut firsts = vec![None; shown.fields().len()];
    for (at, group) in groups.iter_mut().enumerate().filter(|(_, group)| is_measured(group)) {
        let name = format!("froglet_first_{at}");
        aggregates.push(first_value(group.clone(), Vec::new()).alias(&name));
        firsts[at] = Some(name);
        measures::measure_all([group], &input)?;
    }
    let aggregate = Aggregate::try_new(aggregate.input, groups, aggregates)?;
    let made = aggregate.schema.clone();
    let columns = firsts.into_iter().enumerate().map(|(at, first)| {
        let (qualifier, field) = shown.qualified_field(at);
        match first {
            Some(name) => Expr::Column(Column::new_unqualified(name))
                .alias_qualified(qualifier.cloned(), field.name()),
            None => Expr::from(made.qualified_field(at)),
        }
    });
    let columns: Vec<Expr> = columns.collect();
    let plan = Arc::new(LogicalPlan::Aggregate(aggregate));
    Ok(LogicalPlan::Projection(Projection::try_new(columns, plan)?))
}

/// The same of ROLLUP, CUBE and GROUPING SETS, whose expressions are columns ([`super::grouping_sets`]): a measure is a
/// column of a projection below, and where a set is without it nothing is shown.
fn grouped_by_sets(aggregate: Aggregate) -> Result<LogicalPlan> {
    let input = aggregate.input.schema().clone();
    let mut measured: Vec<Expr> =
        aggregate.group_expr[0].column_refs().into_iter().cloned().map(Expr::Column).collect();
    measured.retain(|column| measures::is_measured(column, &input));
    if measured.is_empty() {
        return Ok(LogicalPlan::Aggregate(aggregate));
    }
    let shown = aggregate.schema.clone();
    let of = |what: &str, at: usize| Column::new_unqualified(format!("froglet_{what}_{at}"));
    let mut below: Vec<Expr> = input.iter().map(Expr::from).collect();
    let mut aggregates = Vec::new();
    for (at, column) in measured.iter().enumerate() {
        let mut measure = column.clone();
        measures::measure_all([&mut measure], &input)?;
        below.push(measure.alias(of("measure", at).name));
        aggregates.push(first_value(column.clone(), Vec::new()).alias(of("first", at).name));
    }
    let by_measure = |expr: Expr| {
        let by_measure = expr.transform_up(|part| {
            Ok(match measured.iter().position(|column| *column == part) {
                Some(at) => Transformed::yes(Expr::Column(of("measure", at))),
                None => Transformed::no(part),
            })
        });
        by_measure.map(|expr| expr.data)
    };
    let groups = aggregate.group_expr.into_iter().map(by_measure).collect::<Result<Vec<_>>>()?;
    // GROUPING names what is grouped by, and keeps its own name; others compute with the values.
    let others = aggregate.aggr_expr.into_iter().map(|expr| match &expr {
        Expr::AggregateFunction(call) if call.func.name() == "grouping" => {
            let name = expr.schema_name().to_string();
            Ok(by_measure(expr)?.alias(name))
        }
        _ => Ok(expr),
    });
    let all = others.chain(aggregates.into_iter().map(Ok)).collect::<Result<Vec<_>>>()?;
    let input = LogicalPlan::Projection(Projection::try_new(below, aggregate.input)?);
    let aggregate = Aggregate::try_new(Arc::new(input), groups, all)?;
    // Nobody above asks for the number of the set that a row is of.
    let shown = shown.iter().filter(|(_, field)| field.name() != Aggregate::INTERNAL_GROUPING_ID);
    let columns = shown.map(|(qualifier, field)| {
        let column = Expr::from((qualifier, field));
        let Some(at) = measured.iter().position(|measured| *measured == column) else {
            return Ok(column);
        };
        let has_measure = Expr::Column(of("measure", at)).is_not_null();
        let first = when(has_measure, Expr::Column(of("first", at))).end()?;
        let first = common::marked_rows(first, sql_type_of_field(field), record::shape_of([field]));
        Ok(first.alias_qualified(qualifier.cloned(), field.name()))
    });
    let columns = columns.collect::<Result<Vec<Expr>>>()?;
    let plan = Arc::new(LogicalPlan::Aggregate(aggregate));
    Ok(LogicalPlan::Projection(Projection::try_new(columns, plan)?))
}

/// Compares a value with the column of a subquery as `=` does; whether that takes more than DataFusion does.
pub fn compare_with_subquery(found: &mut InSubquery, schema: &DFSchema) -> Result<bool> {
    let inner = found.subquery.subquery.schema().clone();
    if inner.fields().len() != 1 {
        return Ok(false);
    }
    let mut both = schema.clone();
    both.merge(&inner);
    let mut value = (*found.expr).clone();
    let mut column = Expr::from(inner.qualified_field(0));
    match_pair(&mut value, &mut column, &both)?;
    if value == *found.expr && matches!(column, Expr::Column(_)) {
        return Ok(false);
    }
    *found.expr = value;
    let plan = Projection::try_new(vec![column], found.subquery.subquery.clone())?;
    found.subquery = found.subquery.with_plan(Arc::new(LogicalPlan::Projection(plan)));
    Ok(true)
}
