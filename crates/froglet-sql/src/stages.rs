//! Tables between those that a query reads and the one that it makes, for a query that falls into no
//! units by itself, or into few.
//!
//! ```text
//!   SELECT c.region, sum(o.amount) FROM orders o JOIN customers c ON … GROUP BY c.region
//!
//!   stage 1   o JOIN c                          unit: a row of orders           cut
//!   stage 2   sum by block and region of it     unit: a block of stage 1        first half
//!   query     sum by region of stage 2          unit: the rows of a region      second half
//! ```
//!
//! An order that changes is a row of stage 1, a block of it is summed up again, and a sum of each block
//! is added to others: that takes a millisecond, whatever the size of the tables. To the schema
//! crate stages are tables that a transaction makes of others, and drops.
//!
//! Left out on purpose: a join is made before its rows are summed up, though its first half could be
//! made of the rows of a block of its driver.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema};
use datafusion::error::Result;
use datafusion::logical_expr::logical_plan::TableScanBuilder;
use datafusion::logical_expr::{Aggregate, Expr, LogicalPlan, Projection, TableSource};
use froglet_engine::{ColumnType, Snapshot};

use crate::partials;
use crate::sample;
use crate::types;
use crate::units::{self, Divided, Source};

/// What a stage is called right above its scan; further up its columns are called what they were.
pub(crate) const STAGE: &str = "stage";

/// The stages of a query so far.
pub(crate) struct Stages<'a> {
    /// In which tables are looked at.
    snapshot: &'a Snapshot,
    /// A unit of more rows is too large.
    unit_rows: u64,
    pub done: Vec<Stage>,
}

/// See the module.
pub(crate) struct Stage {
    pub divided: Divided,
    /// Its columns, as they are stored.
    pub columns: Vec<ColumnType>,
    /// How many rows it has, about.
    rows: u64,
}

impl<'a> Stages<'a> {
    pub(crate) fn new(snapshot: &'a Snapshot, unit_rows: u64) -> Stages<'a> {
        Stages { snapshot, unit_rows, done: Vec::new() }
    }

    /// Whether so many rows are too many for a unit.
    pub(crate) fn is_large(&self, rows: u64) -> bool {
        rows > self.unit_rows
    }

    /// About how many rows there are.
    pub(crate) fn rows_of(&self, source: &Source) -> u64 {
        match source {
            Source::Table(table) => table.table.row_estimate(),
            Source::Stage(number) => self.done[*number].rows,
        }
    }

    /// How many rows a plan reads.
    pub(crate) fn rows(&self, plan: &LogicalPlan) -> Result<u64> {
        let mut rows = 0;
        plan.apply_with_subqueries(|node| {
            if let LogicalPlan::TableScan(scan) = node {
                rows += Source::of(scan).map_or(0, |source| self.rows_of(&source));
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(rows)
    }

    /// A plan's rows from a stage that makes them; `None` if they cannot be stored.
    pub(crate) fn cut(&mut self, plan: &LogicalPlan) -> Result<Option<LogicalPlan>> {
        let before = self.done.len();
        let divided = units::divide(plan, self)?;
        let rows = self.rows(plan)?;
        let names = plan.schema().fields().iter().map(|field| field.name().clone());
        let Some(scan) = self.push(divided, rows, unlike(names))? else {
            self.done.truncate(before);
            return Ok(None);
        };
        let columns = units::columns(scan.schema());
        named_as(plan.schema(), columns, scan).map(Some)
    }

    /// The plan with aggregates in two halves, where their groups are large.
    pub(crate) fn halved(&mut self, plan: &LogicalPlan) -> Result<LogicalPlan> {
        let halved = with_aggregates(plan.clone(), |node, aggregate| {
            // The rows that it asks for are no rows of a block.
            if units::has_subquery(node)? { Ok(None) } else { self.halve(aggregate) }
        })?;
        Ok(halved.data)
    }

    /// The second half of an aggregate, above a stage that makes the first.
    fn halve(&mut self, aggregate: &Aggregate) -> Result<Option<LogicalPlan>> {
        let groups = &aggregate.group_expr;
        let rows = self.rows(&aggregate.input)?;
        let is_set = |group: &Expr| matches!(group, Expr::GroupingSet(_)) || group.is_volatile();
        if !self.is_large(rows) || groups.iter().any(is_set) {
            return Ok(None);
        }
        let Some(found) = sample::groups(&aggregate.input, groups, self.snapshot)? else {
            return Ok(None);
        };
        if !self.is_large(rows / found.groups.max(1)) || !found.is_few() {
            return Ok(None);
        }
        let grouped = aggregate.schema.fields().iter().take(groups.len());
        let mut names = unlike(grouped.map(|field| field.name().clone()));
        let column = |name: &String| Expr::Column(Column::new(Some(STAGE), name));
        let half = |at: usize| column(&half_name(at));
        let Some(halves) = partials::halves(aggregate, half)? else { return Ok(None) };
        let by: Vec<Expr> = names.iter().map(column).collect();
        names.extend((0..halves.first.len()).map(half_name));
        let before = self.done.len();
        let Some(divided) = units::divide_first(&aggregate.input, groups, &halves, self)? else {
            self.done.truncate(before);
            return Ok(None);
        };
        let blocks = rows / froglet_engine::id::ROWS_PER_BLOCK as u64 + 1;
        let Some(scan) = self.push(divided, blocks.saturating_mul(found.groups), names)? else {
            self.done.truncate(before);
            return Ok(None);
        };
        let plan = Aggregate::try_new(Arc::new(scan), by.clone(), halves.second)?;
        let values = by.into_iter().chain(halves.values);
        named_as(&aggregate.schema, values, LogicalPlan::Aggregate(plan)).map(Some)
    }

    /// Enters a stage whose columns have these names. Returns a scan of it; none if they cannot be
    /// stored.
    fn push(
        &mut self,
        divided: Divided,
        rows: u64,
        names: Vec<String>,
    ) -> Result<Option<LogicalPlan>> {
        let schema = divided.plan.schema().as_arrow();
        let fields = &schema.fields()[..schema.fields().len() - 1];
        let stored = fields.iter().map(|field| stored(field.data_type()));
        let Some(columns) = stored.collect::<Option<Vec<_>>>() else { return Ok(None) };
        let named = |(field, name): (&Arc<Field>, String)| {
            Field::clone(field).with_name(name).with_nullable(true)
        };
        let fields: Vec<Field> = fields.iter().zip(names).map(named).collect();
        let number = self.done.len();
        self.done.push(Stage { divided, columns, rows });
        let source = Arc::new(StageTable { number, schema: Arc::new(Schema::new(fields)) });
        Ok(Some(LogicalPlan::TableScan(TableScanBuilder::new(STAGE, source).build()?)))
    }
}

fn half_name(at: usize) -> String {
    format!("first half {at}")
}

/// Names of which none is another.
fn unlike(names: impl Iterator<Item = String>) -> Vec<String> {
    let mut unlike: Vec<String> = Vec::new();
    for name in names {
        let others = (2..).map(|n| format!("{name} {n}"));
        let mut free = std::iter::once(name.clone()).chain(others);
        unlike.extend(free.find(|name| !unlike.contains(name)));
    }
    unlike
}

/// As what a column's values are stored so that they come back as they were; none for those that are not.
fn stored(ty: &DataType) -> Option<ColumnType> {
    let column = types::column_type_of_arrow(ty)?;
    let is_same = match ty {
        DataType::Utf8 | DataType::LargeUtf8 => column == ColumnType::Text,
        DataType::Binary => column == ColumnType::Bytes,
        // Of counts and row numbers.
        DataType::UInt64 => column == ColumnType::Int64,
        ty => types::arrow_of_column(column) == *ty,
    };
    is_same.then_some(column)
}

/// A plan's values, called what the columns of a schema are.
fn named_as(
    schema: &DFSchema,
    values: impl IntoIterator<Item = Expr>,
    plan: LogicalPlan,
) -> Result<LogicalPlan> {
    let named = schema.iter().zip(values).map(|((qualifier, field), value)| {
        value.alias_qualified(qualifier.cloned(), field.name().clone())
    });
    let plan = Projection::try_new(named.collect(), Arc::new(plan))?;
    Ok(LogicalPlan::Projection(plan))
}

/// A plan with others in place of its aggregates, but for those of which there is none. The nodes above say
/// of their columns what the new ones do.
pub(crate) fn with_aggregates(
    plan: LogicalPlan,
    mut other: impl FnMut(&LogicalPlan, &Aggregate) -> Result<Option<LogicalPlan>>,
) -> Result<Transformed<LogicalPlan>> {
    let replaced = plan.transform_down(|node| {
        let other = match &node {
            LogicalPlan::Aggregate(aggregate) => other(&node, aggregate)?,
            _ => None,
        };
        Ok(match other {
            Some(other) => Transformed::new(other, true, TreeNodeRecursion::Jump),
            None => Transformed::no(node),
        })
    })?;
    if !replaced.transformed {
        return Ok(replaced);
    }
    replaced.data.transform_up(|node| Ok(Transformed::yes(node.recompute_schema()?)))
}

/// A stage in a plan, before it is divided.
pub(crate) struct StageTable {
    pub number: usize,
    schema: SchemaRef,
}

impl TableSource for StageTable {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}
