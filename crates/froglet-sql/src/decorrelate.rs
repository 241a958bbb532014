//! Correlated subqueries and LATERAL that DataFusion does not turn into joins.
//!
//! DataFusion pulls equalities up out of a subquery. The general way (Neumann, Kemper, "Unnesting
//! Arbitrary Queries", BTW 2015) evaluates the subquery for all rows of the outside at once:
//!
//! ```text
//!   outside ─┬──────────────────────────────┐
//!            └ D: the different values of   │  left join, or inner join,
//!              the columns that Q reads     │  where the columns are the same
//!                     │                     │
//!                     └ Q over D ───────────┘
//! ```
//!
//! Q over D is Q with the columns of D beside its own: a part of Q that reads nothing from outside is
//! joined with D, a filter or a projection reads D's columns, an aggregate groups by them, a limit counts
//! rows for each of them. An aggregate without groups has a row where nothing was found: it is joined
//! with D once more.
//!
//! Conditions that are no values (EXISTS, IN), where DataFusion's way finds other rows ([`crate::pull_up`]), and what
//! is not known over D (INTERSECT and EXCEPT, DISTINCT ON, FULL JOIN), run row by row ([`crate::subplan`]).

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, NullEquality, ScalarValue, TableReference};
use datafusion::error::Result;
use datafusion::functions_window::row_number::row_number_udwf;
use datafusion::logical_expr::expr::{
    AggregateFunction, Exists, InSubquery, ScalarFunction, WindowFunction,
};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    Aggregate, Distinct, Expr, ExprFunctionExt, FetchType, Join, JoinType, LogicalPlan,
    LogicalPlanBuilder, Operator, SkipType, SortExpr, Union, Values, Window,
    WindowFunctionDefinition, binary_expr, lit,
};

use crate::{lateral_filters, pull_up, subplan};

/// Turns what it can of a plan's correlated subqueries into joins.
pub fn decorrelate(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut count = 0;
    let plan = lateral_filters::push(plan)?;
    let changed = plan.transform_up_with_subqueries(|node| match node {
        LogicalPlan::Join(join) => match lateral(&join, &mut count)? {
            Some(plan) => Ok(Transformed::yes(plan)),
            None => by_row(LogicalPlan::Join(join)),
        },
        node => by_row(node)?.transform_data(|node| scalars(node, &mut count)),
    })?;
    Ok(changed.data)
}

/// A node whose conditions are subqueries that are not for DataFusion, with functions in their place.
fn by_row(node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let schema = merge_schema(&node.inputs());
    let preserver = NamePreserver::new(&node);
    let changed = node.map_expressions(|expr| {
        let name = preserver.save(&expr);
        let changed = expr.transform_up(|part| match &part {
            Expr::ScalarSubquery(_) => Ok(Transformed::no(part)),
            part if !pull_up::is_wrong_for(part)? => Ok(Transformed::no(part.clone())),
            Expr::Exists(exists) if pull_up::has_always_a_row(&exists.subquery.subquery) => {
                Ok(Transformed::yes(lit(!exists.negated)))
            }
            _ => subplan::in_place(part, &schema),
        })?;
        Ok(changed.update_data(|expr| name.restore(expr)))
    })?;
    match changed.transformed {
        true => changed.map_data(LogicalPlan::recompute_schema),
        false => Ok(changed),
    }
}

/// Whether a plan has columns from outside.
pub fn is_correlated(plan: &LogicalPlan) -> bool {
    let mut found = false;
    let walk = plan.apply_with_subqueries(|node| {
        found |= node.contains_outer_reference();
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    walk.is_ok() && found
}

/// Whether every column that a plan reads is there. DataFusion leaves one above the subquery that it was in when a
/// filter over a subquery in FROM, and one within it, read from outside.
pub fn is_sound(plan: &LogicalPlan) -> bool {
    let mut sound = true;
    let walk = plan.apply_with_subqueries(|node| {
        let inputs = node.inputs();
        if inputs.is_empty() {
            return Ok(TreeNodeRecursion::Continue);
        }
        node.apply_expressions(|expr| {
            let is_there = |column: &Column| inputs.iter().any(|i| i.schema().has_column(column));
            sound &= expr.column_refs().into_iter().all(is_there);
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(if sound { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    });
    walk.is_ok() && sound
}

/// The different values of the columns that a subquery reads from outside.
struct Domain {
    plan: LogicalPlan,
    /// As the outside has them.
    outer: Vec<Column>,
    /// As the domain has them.
    columns: Vec<Column>,
}

impl Domain {
    /// Of a subquery beside the rows of `outside`; `None` if it reads nothing of them.
    fn of(
        subquery: &LogicalPlan,
        outside: &LogicalPlan,
        count: &mut usize,
    ) -> Result<Option<Self>> {
        let mut outer: Vec<Column> = Vec::new();
        subquery.apply_with_subqueries(|node| {
            node.apply_expressions(|expr| {
                expr.apply(|part| {
                    if let Expr::OuterReferenceColumn(_, column) = part
                        && outside.schema().has_column(column)
                        && !outer.contains(column)
                    {
                        outer.push(column.clone());
                    }
                    Ok(TreeNodeRecursion::Continue)
                })
            })
        })?;
        if outer.is_empty() {
            return Ok(None);
        }
        *count += 1;
        let qualifier = TableReference::bare(format!("froglet domain {count}"));
        let name = |at: usize| Column::new(Some(qualifier.clone()), format!("{count}.{at}"));
        let columns: Vec<Column> = (0..outer.len()).map(name).collect();
        let named = outer.iter().zip(&columns).map(|(outer, column)| {
            Expr::Column(outer.clone()).alias_qualified(column.relation.clone(), &column.name)
        });
        let plan = LogicalPlanBuilder::from(outside.clone()).project(named)?.distinct()?.build()?;
        Ok(Some(Domain { plan, outer, columns }))
    }

    fn exprs(&self) -> impl Iterator<Item = Expr> + '_ {
        self.columns.iter().cloned().map(Expr::Column)
    }

    fn column(&self, outer: &Column) -> Option<&Column> {
        let at = self.outer.iter().position(|column| column == outer)?;
        self.columns.get(at)
    }

    /// An expression that reads the domain instead of the outside.
    fn read(&self, expr: Expr) -> Result<Expr> {
        let read = expr.transform(|part| {
            if let Expr::OuterReferenceColumn(_, column) = &part
                && let Some(column) = self.column(column)
            {
                return Ok(Transformed::yes(Expr::Column(column.clone())));
            }
            self.read_within(part)
        })?;
        Ok(read.data)
    }

    /// A subquery of an expression reads the domain from outside.
    fn read_within(&self, mut expr: Expr) -> Result<Transformed<Expr>> {
        let (Expr::ScalarSubquery(subquery)
        | Expr::Exists(Exists { subquery, .. })
        | Expr::InSubquery(InSubquery { subquery, .. })) = &mut expr
        else {
            return Ok(Transformed::no(expr));
        };
        let outside = |part: Expr| match &part {
            Expr::OuterReferenceColumn(field, column) => Ok(match self.column(column) {
                Some(own) => {
                    Transformed::yes(Expr::OuterReferenceColumn(field.clone(), own.clone()))
                }
                None => Transformed::no(part),
            }),
            _ => Ok(Transformed::no(part)),
        };
        for read in &mut subquery.outer_ref_columns {
            *read = outside(read.clone())?.data;
        }
        let plan = subquery.subquery.as_ref().clone();
        let read = plan.transform_up_with_subqueries(|node| {
            let preserver = NamePreserver::new(&node);
            node.map_expressions(|expr| {
                let name = preserver.save(&expr);
                let read = expr.transform_up(outside)?;
                Ok(read.update_data(|expr| name.restore(expr)))
            })
        })?;
        subquery.subquery = Arc::new(read.data);
        Ok(Transformed::new_transformed(expr, read.transformed))
    }

    fn read_all(&self, exprs: &[Expr]) -> Result<Vec<Expr>> {
        exprs.iter().map(|expr| self.read(expr.clone())).collect()
    }

    /// Whether a plan reads the outside, other than in a subquery of its own.
    fn is_read_by(&self, plan: &LogicalPlan) -> Result<bool> {
        let mut found = false;
        plan.apply_with_subqueries(|node| {
            node.apply_expressions(|expr| {
                expr.apply(|part| {
                    found |= matches!(part, Expr::OuterReferenceColumn(_, column)
                        if self.outer.contains(column));
                    Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
                })
            })
        })?;
        Ok(found)
    }

    /// A plan with the domain's columns beside its own; `None` where that is not known how.
    fn over(&self, plan: &LogicalPlan) -> Result<Option<LogicalPlan>> {
        if !self.is_read_by(plan)? {
            if matches!(plan, LogicalPlan::EmptyRelation(empty) if empty.produce_one_row) {
                return Ok(Some(self.plan.clone()));
            }
            let builder = LogicalPlanBuilder::from(self.plan.clone());
            return builder.cross_join(plan.clone())?.build().map(Some);
        }
        if let LogicalPlan::Values(values) = plan {
            return self.over_values(values).map(Some);
        }
        if let LogicalPlan::Join(join) = plan {
            return self.over_join(join);
        }
        if let LogicalPlan::Union(union) = plan {
            return self.over_union(union);
        }
        let inputs = plan.inputs();
        let [input] = inputs[..] else { return Ok(None) };
        if let LogicalPlan::Limit(limit) = plan {
            return self.over_limit(limit);
        }
        let Some(input) = self.over(input)? else { return Ok(None) };
        let builder = LogicalPlanBuilder::from(input);
        let over = match plan {
            LogicalPlan::Projection(projection) => {
                let exprs = self.read_all(&projection.expr)?;
                builder.project(self.exprs().chain(exprs))?.build()?
            }
            LogicalPlan::Filter(filter) => {
                builder.filter(self.read(filter.predicate.clone())?)?.build()?
            }
            LogicalPlan::SubqueryAlias(alias) => {
                let columns = alias.input.schema().iter().map(|(qualifier, field)| {
                    let column = Expr::Column(Column::new(qualifier.cloned(), field.name()));
                    column.alias_qualified(Some(alias.alias.clone()), field.name())
                });
                let columns: Vec<Expr> = self.exprs().chain(columns).collect();
                builder.project(columns)?.build()?
            }
            LogicalPlan::Distinct(Distinct::All(_)) => builder.distinct()?.build()?,
            // In FROM beside nothing, or behind LATERAL.
            LogicalPlan::Subquery(_) => builder.build()?,
            LogicalPlan::Sort(sort) if sort.fetch.is_none() => {
                let mut keys = sort.expr.clone();
                for key in &mut keys {
                    key.expr = self.read(key.expr.clone())?;
                }
                builder.sort(keys)?.build()?
            }
            LogicalPlan::Unnest(unnest) => builder
                .unnest_columns_with_options(unnest.exec_columns.clone(), unnest.options.clone())?
                .build()?,
            LogicalPlan::Aggregate(aggregate) => return self.over_aggregate(aggregate, builder),
            LogicalPlan::Window(window) => return self.over_window(window, builder),
            _ => return Ok(None),
        };
        Ok(Some(over))
    }

    fn over_union(&self, union: &Union) -> Result<Option<LogicalPlan>> {
        let mut inputs = Vec::with_capacity(union.inputs.len());
        for input in &union.inputs {
            let Some(over) = self.over(input)? else { return Ok(None) };
            let own = input.schema().iter().map(Expr::from);
            let own = own.zip(union.schema.fields()).map(|(expr, field)| expr.alias(field.name()));
            let all = self.exprs().chain(own);
            inputs.push(Arc::new(LogicalPlanBuilder::from(over).project(all)?.build()?));
        }
        let both = LogicalPlan::Union(Union::try_new_with_loose_types(inputs)?);
        // A union's columns are of no table.
        self.named(both, &union.schema).map(Some)
    }

    /// Each row for each of the domain's.
    fn over_values(&self, values: &Values) -> Result<LogicalPlan> {
        let mut rows = Vec::with_capacity(values.values.len());
        for row in &values.values {
            let named = row.iter().zip(values.schema.fields());
            let named =
                named.map(|(value, field)| Ok(self.read(value.clone())?.alias(field.name())));
            let all = self.exprs().map(Ok).chain(named).collect::<Result<Vec<Expr>>>()?;
            let over = LogicalPlanBuilder::from(self.plan.clone());
            rows.push(Arc::new(over.project(all)?.build()?));
        }
        let rows = match &rows[..] {
            [row] => row.as_ref().clone(),
            _ => LogicalPlan::Union(Union::try_new_with_loose_types(rows)?),
        };
        self.named(rows, &values.schema)
    }

    /// A plan's columns, the domain's first, under the names that they have there and in `own`.
    fn named(&self, plan: LogicalPlan, own: &DFSchema) -> Result<LogicalPlan> {
        let names = self.columns.iter().map(|column| (column.relation.clone(), &column.name));
        let names = names.chain(own.iter().map(|(table, field)| (table.cloned(), field.name())));
        let columns = plan.schema().iter().map(Expr::from).zip(names);
        let columns: Vec<Expr> =
            columns.map(|(column, (table, name))| column.alias_qualified(table, name)).collect();
        LogicalPlanBuilder::from(plan).project(columns)?.build()
    }

    /// The side of an outer join of which every row is kept has the domain beside it.
    fn over_join(&self, join: &Join) -> Result<Option<LogicalPlan>> {
        let (left, right) = (self.is_read_by(&join.left)?, self.is_read_by(&join.right)?);
        let mut filter = join.filter.clone().map(|filter| self.read(filter)).transpose()?;
        let sides = match (left, right, join.join_type) {
            (_, false, JoinType::Inner | JoinType::Left) => {
                self.over(&join.left)?.map(|over| (over, join.right.as_ref().clone()))
            }
            (false, _, JoinType::Inner | JoinType::Right) => {
                self.over(&join.right)?.map(|over| (join.left.as_ref().clone(), over))
            }
            (_, true, JoinType::Inner | JoinType::Left) => {
                let (left, right) = (self.over(&join.left)?, self.over_again(&join.right)?);
                if let Some((_, same)) = &right {
                    filter = Some(filter.map_or(same.clone(), |filter| same.clone().and(filter)));
                }
                left.zip(right.map(|(right, _)| right))
            }
            _ => None,
        };
        let Some((left, right)) = sides else { return Ok(None) };
        let joined = Join::try_new(
            Arc::new(left),
            Arc::new(right),
            join.on.clone(),
            filter,
            join.join_type,
            join.join_constraint,
            join.null_equality,
            join.null_aware,
        )?;
        let joined = LogicalPlanBuilder::from(LogicalPlan::Join(joined));
        let own = join.schema.iter().map(Expr::from);
        joined.project(self.exprs().chain(own))?.build().map(Some)
    }

    /// A plan over the domain, whose columns have other names, and which rows are of one of the domain's.
    fn over_again(&self, plan: &LogicalPlan) -> Result<Option<(LogicalPlan, Expr)>> {
        let Some(over) = self.over(plan)? else { return Ok(None) };
        let again = |column: &Column| Column::new(Some("froglet domain again"), &column.name);
        let renamed = self.columns.iter().map(|column| {
            let again = again(column);
            Expr::Column(column.clone()).alias_qualified(again.relation, again.name)
        });
        let columns: Vec<Expr> = renamed.chain(plan.schema().iter().map(Expr::from)).collect();
        let over = LogicalPlanBuilder::from(over).project(columns)?.build()?;
        let same = self.columns.iter().map(|column| {
            let again = Expr::Column(again(column));
            binary_expr(Expr::Column(column.clone()), Operator::IsNotDistinctFrom, again)
        });
        Ok(same.reduce(Expr::and).map(|same| (over, same)))
    }

    /// The rows of each of the domain's are numbered, ranked and summed by themselves.
    fn over_window(
        &self,
        window: &Window,
        input: LogicalPlanBuilder,
    ) -> Result<Option<LogicalPlan>> {
        let mut exprs = Vec::with_capacity(window.window_expr.len());
        for expr in &window.window_expr {
            let name = expr.schema_name().to_string();
            let Expr::WindowFunction(mut function) = self.read(expr.clone())?.unalias() else {
                return Ok(None);
            };
            function.params.partition_by.splice(0..0, self.exprs());
            exprs.push(Expr::WindowFunction(function).alias(name));
        }
        let own = window.schema.iter().map(Expr::from);
        input.window(exprs)?.project(self.exprs().chain(own))?.build().map(Some)
    }

    /// Counts the rows of each of the domain's.
    fn over_limit(&self, limit: &datafusion::logical_expr::Limit) -> Result<Option<LogicalPlan>> {
        let (SkipType::Literal(skip), FetchType::Literal(fetch)) =
            (limit.get_skip_type()?, limit.get_fetch_type()?)
        else {
            return Ok(None);
        };
        let mut order: Vec<SortExpr> = Vec::new();
        let mut input = limit.input.as_ref();
        // Keys that are not selected are sorted by below the select list.
        let mut selected = None;
        if let LogicalPlan::Projection(projection) = input
            && matches!(*projection.input, LogicalPlan::Sort(_))
        {
            selected = Some(self.read_all(&projection.expr)?);
            input = projection.input.as_ref();
        }
        if let LogicalPlan::Sort(sort) = input {
            order = sort.expr.clone();
            input = sort.input.as_ref();
        }
        for key in &mut order {
            key.expr = self.read(key.expr.clone())?;
        }
        let Some(over) = self.over(input)? else { return Ok(None) };
        let columns: Vec<Expr> = match selected {
            Some(selected) => self.exprs().chain(selected).collect(),
            None => over.schema().iter().map(Expr::from).collect(),
        };
        let row_number = WindowFunctionDefinition::WindowUDF(row_number_udwf());
        let row_number = Expr::from(WindowFunction::new(row_number, Vec::new()))
            .partition_by(self.exprs().collect());
        let row_number = match order.is_empty() {
            true => row_number.build()?,
            false => row_number.order_by(order).build()?,
        };
        let name = format!("froglet number {}", self.columns[0].name);
        let number = Expr::Column(Column::new_unqualified(&name));
        let signed = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        let mut wanted = number.clone().gt(lit(signed(skip)));
        if let Some(fetch) = fetch {
            wanted = wanted.and(number.lt_eq(lit(signed(skip.saturating_add(fetch)))));
        }
        let numbered = LogicalPlanBuilder::from(over).window(vec![row_number.alias(name)])?;
        numbered.filter(wanted)?.project(columns)?.build().map(Some)
    }

    fn over_aggregate(
        &self,
        aggregate: &Aggregate,
        input: LogicalPlanBuilder,
    ) -> Result<Option<LogicalPlan>> {
        if aggregate.group_expr.iter().any(|expr| matches!(expr, Expr::GroupingSet(_))) {
            return Ok(None);
        }
        let groups = self.exprs().chain(self.read_all(&aggregate.group_expr)?);
        let values = self.read_all(&aggregate.aggr_expr)?;
        let grouped = input.aggregate(groups, values)?.build()?;
        // What reads the aggregate knows its columns by the names they had.
        let own = aggregate.schema.iter().zip(grouped.schema().iter().skip(self.columns.len()));
        let own: Vec<Expr> = own
            .map(|((qualifier, old), (now, field))| {
                Expr::Column(Column::new(now.cloned(), field.name()))
                    .alias_qualified(qualifier.cloned(), old.name())
            })
            .collect();
        let grouped = LogicalPlanBuilder::from(grouped).project(self.exprs().chain(own))?;
        if !aggregate.group_expr.is_empty() {
            return grouped.build().map(Some);
        }
        self.with_empty(aggregate, grouped.build()?).map(Some)
    }

    /// An aggregate without groups has a row for each of the domain's.
    fn with_empty(&self, aggregate: &Aggregate, grouped: LogicalPlan) -> Result<LogicalPlan> {
        let all = |column: &Column| Column::new(Some("froglet domain"), &column.name);
        let domain = self.columns.iter().map(|column| {
            let all = all(column);
            Expr::Column(column.clone()).alias_qualified(all.relation, all.name)
        });
        let domain = LogicalPlanBuilder::from(self.plan.clone()).project(domain)?;
        let keys: Vec<Column> = self.columns.iter().map(all).collect();
        let on = (keys.clone(), self.columns.clone());
        let joined = domain.join_detailed(
            grouped,
            JoinType::Left,
            on,
            None,
            NullEquality::NullEqualsNull,
        )?;
        let columns = self.columns.iter().zip(keys).map(|(column, key)| {
            Expr::Column(key).alias_qualified(column.relation.clone(), &column.name)
        });
        let values = aggregate.schema.iter().zip(&aggregate.aggr_expr);
        let values = values.map(|((qualifier, field), expr)| {
            let column = Expr::Column(Column::new(qualifier.cloned(), field.name()));
            of_nothing(expr, column).alias_qualified(qualifier.cloned(), field.name())
        });
        let exprs: Vec<Expr> = columns.chain(values).collect();
        joined.project(exprs)?.build()
    }
}

/// A count of nothing is 0; every other aggregate of nothing is NULL.
fn of_nothing(aggregate: &Expr, column: Expr) -> Expr {
    let counts = matches!(aggregate.clone().unalias(), Expr::AggregateFunction(AggregateFunction { func, .. })
        if matches!(func.name(), "count" | "regr_count"));
    if !counts {
        return column;
    }
    let zero = Expr::Literal(ScalarValue::Int64(Some(0)), None);
    let coalesce = datafusion::functions::core::coalesce();
    Expr::ScalarFunction(ScalarFunction::new_udf(coalesce, vec![column, zero]))
}

/// A join with a lateral subquery as one with what the subquery finds for all rows.
fn lateral(join: &Join, count: &mut usize) -> Result<Option<LogicalPlan>> {
    if !matches!(join.join_type, JoinType::Inner | JoinType::Left) || !join.on.is_empty() {
        return Ok(None);
    }
    let Some((subquery, alias)) = pull_up::lateral_of(join) else { return Ok(None) };
    let Some(domain) = Domain::of(subquery, &join.left, count)? else { return Ok(None) };
    let Some(over) = domain.over(subquery)? else {
        return subplan::beside(join, subquery, alias, *count);
    };
    let columns = subquery.schema().iter().map(|(qualifier, field)| {
        let column = Expr::Column(Column::new(qualifier.cloned(), field.name()));
        match alias {
            Some(alias) => column.alias_qualified(Some(alias.clone()), field.name()),
            None => column,
        }
    });
    let right = LogicalPlanBuilder::from(over).project(domain.exprs().chain(columns))?.build()?;
    let on = (domain.outer.clone(), domain.columns.clone());
    let joined = LogicalPlanBuilder::from(join.left.as_ref().clone()).join_detailed(
        right,
        join.join_type,
        on,
        join.filter.clone(),
        NullEquality::NullEqualsNull,
    )?;
    let columns: Vec<Expr> = join.schema.iter().map(Expr::from).collect();
    joined.project(columns)?.build().map(Some)
}

/// A node whose expressions have scalar subqueries, with their values beside its rows.
fn scalars(node: LogicalPlan, count: &mut usize) -> Result<Transformed<LogicalPlan>> {
    let known = matches!(
        node,
        LogicalPlan::Projection(_)
            | LogicalPlan::Filter(_)
            | LogicalPlan::Aggregate(_)
            | LogicalPlan::Sort(_)
    );
    if !known {
        return Ok(Transformed::no(node));
    }
    let before = node.inputs()[0].clone();
    let mut input = before.clone();
    let preserver = NamePreserver::new(&node);
    let mut exprs = Vec::new();
    let mut changed = false;
    for expr in node.expressions() {
        let name = preserver.save(&expr);
        let replaced = expr.transform(|part| {
            let Expr::ScalarSubquery(subquery) = &part else { return Ok(Transformed::no(part)) };
            match value(&input, &subquery.subquery, count)? {
                Some((with, value)) => {
                    input = with;
                    Ok(Transformed::yes(value))
                }
                None if pull_up::is_wrong_for(&part)? => subplan::in_place(part, input.schema()),
                None => Ok(Transformed::no(part)),
            }
        })?;
        changed |= replaced.transformed;
        exprs.push(name.restore(replaced.data));
    }
    if !changed {
        return Ok(Transformed::no(node));
    }
    let keeps_columns = matches!(node, LogicalPlan::Filter(_) | LogicalPlan::Sort(_));
    let plan = node.with_new_exprs(exprs, vec![input])?;
    if !keeps_columns {
        return Ok(Transformed::yes(plan));
    }
    let columns: Vec<Expr> = before.schema().iter().map(Expr::from).collect();
    LogicalPlanBuilder::from(plan).project(columns)?.build().map(Transformed::yes)
}

/// The rows with the value of a subquery beside each, and its column.
fn value(
    rows: &LogicalPlan,
    subquery: &LogicalPlan,
    count: &mut usize,
) -> Result<Option<(LogicalPlan, Expr)>> {
    let Some(domain) = Domain::of(subquery, rows, count)? else { return Ok(None) };
    let Some(over) = domain.over(subquery)? else { return Ok(None) };
    let Some((qualifier, field)) = first(subquery.schema()) else { return Ok(None) };
    let found = Expr::Column(Column::new(qualifier, field));
    let column = Column::new(domain.columns[0].relation.clone(), format!("{count}.value"));
    let single = crate::udf::single::SingleValue::default();
    let single = datafusion::logical_expr::AggregateUDF::new_from_impl(single);
    // More than one row for one of the domain's is an error.
    let found = single.call(vec![found]);
    let over = LogicalPlanBuilder::from(over).aggregate(domain.exprs(), vec![found])?.build()?;
    let (qualifier, field) = over.schema().qualified_field(domain.columns.len());
    let found = Expr::Column(Column::new(qualifier.cloned(), field.name()))
        .alias_qualified(column.relation.clone(), &column.name);
    let columns: Vec<Expr> = domain.exprs().chain([found]).collect();
    let over = LogicalPlanBuilder::from(over).project(columns)?.build()?;
    let on = (domain.outer.clone(), domain.columns.clone());
    let joined = LogicalPlanBuilder::from(rows.clone())
        .join_detailed(over, JoinType::Left, on, None, NullEquality::NullEqualsNull)?
        .build()?;
    Ok(Some((joined, Expr::Column(column))))
}

fn first(schema: &DFSchema) -> Option<(Option<TableReference>, String)> {
    let (qualifier, field) = schema.iter().next()?;
    Some((qualifier.cloned(), field.name().clone()))
}
