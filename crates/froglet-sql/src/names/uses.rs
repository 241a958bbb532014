//! Which columns a planned query uses of what it reads: what a view cannot be without.
//!
//! ```text
//!   Projection  t.a, u.*          t: a        every field of a node's output is traced to the column that it is,
//!     Join      t.k = u.k         t: k, u: k  if it is just that; whoever mentions it above uses that column
//!       t, u                      u: all
//! ```
//! A `*` is expanded when it is planned, so it uses the columns of what it stands beside, and no others.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, DFSchemaRef};
use datafusion::logical_expr::{Expr, LogicalPlan};
use froglet_engine::ColumnId;
use froglet_schema::plain::ViewSource;

/// The columns that a field of a plan may be: a source by its place, and the column there.
type Origin = BTreeSet<(usize, ColumnId)>;

/// A node's fields, and what they are.
#[derive(Clone)]
struct Fields {
    schema: DFSchemaRef,
    origins: Vec<Origin>,
}

impl Fields {
    fn find(&self, column: &Column) -> Option<&Origin> {
        self.origins.get(self.schema.maybe_index_of_column(column)?)
    }
}

/// The columns of each source that a plan uses. `mentioned`: the names that its text has, among which are those of
/// all columns that it groups by.
pub(crate) fn of_plan(
    plan: &LogicalPlan,
    sources: &[ViewSource],
    mentioned: &HashSet<String>,
) -> Vec<BTreeSet<ColumnId>> {
    let used = vec![BTreeSet::new(); sources.len()];
    let mut uses = Uses { sources, mentioned, used, outer: Vec::new() };
    uses.visit(plan);
    uses.used
}

struct Uses<'a> {
    sources: &'a [ViewSource],
    mentioned: &'a HashSet<String>,
    used: Vec<BTreeSet<ColumnId>>,
    /// Of queries around a subquery, the innermost last.
    outer: Vec<Fields>,
}

impl Uses<'_> {
    fn visit(&mut self, plan: &LogicalPlan) -> Fields {
        let schema = plan.schema().clone();
        match plan {
            LogicalPlan::TableScan(scan) => {
                let name = &scan.table_name;
                let is_it =
                    |s: &ViewSource| s.name == name.table() && s.schema.as_deref() == name.schema();
                let Some(at) = self.sources.iter().position(is_it) else {
                    return unknown(schema);
                };
                let known = &self.sources[at].columns;
                let origin = |name: &String| {
                    let column = known.iter().find(|(known, _)| known == name);
                    column.map(|(_, id)| (at, *id)).into_iter().collect()
                };
                let origins = schema.fields().iter().map(|field| origin(field.name())).collect();
                Fields { schema, origins }
            }
            LogicalPlan::SubqueryAlias(alias) => {
                let Fields { origins, .. } = self.visit(&alias.input);
                Fields { schema, origins }
            }
            LogicalPlan::Join(join) => {
                let left = self.visit(&join.left);
                // What is LATERAL mentions the columns of what is before it.
                self.outer.push(left.clone());
                let right = self.visit(&join.right);
                self.outer.pop();
                let inputs = [left, right];
                self.mention(plan, &inputs);
                by_name(schema, &inputs)
            }
            _ => {
                let inputs: Vec<Fields> =
                    plan.inputs().into_iter().map(|input| self.visit(input)).collect();
                self.mention(plan, &inputs);
                self.output(plan, schema, &inputs)
            }
        }
    }

    fn output(&self, plan: &LogicalPlan, schema: DFSchemaRef, inputs: &[Fields]) -> Fields {
        match plan {
            LogicalPlan::Projection(projection) => {
                let origins = projection.expr.iter().map(|expr| origin_of(expr, inputs));
                Fields { schema, origins: origins.collect() }
            }
            LogicalPlan::Aggregate(aggregate) => {
                let mut origins: Vec<Origin> =
                    aggregate.group_expr.iter().map(|expr| origin_of(expr, inputs)).collect();
                origins.resize(schema.fields().len(), Origin::new());
                Fields { schema, origins }
            }
            LogicalPlan::Union(_) | LogicalPlan::RecursiveQuery(_) => {
                let width = schema.fields().len();
                let at = |at: usize| {
                    inputs.iter().filter_map(move |input| input.origins.get(at)).flatten().copied()
                };
                Fields { origins: (0..width).map(|n| at(n).collect()).collect(), schema }
            }
            _ => by_name(schema, inputs),
        }
    }

    /// The expressions of a node use the columns that they mention.
    fn mention(&mut self, plan: &LogicalPlan, inputs: &[Fields]) {
        let grouped: Vec<&Expr> = match plan {
            LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.iter().collect(),
            _ => Vec::new(),
        };
        for expr in plan.expressions() {
            // DataFusion groups by all that depends on a primary key as well.
            if grouped.contains(&&expr)
                && let Expr::Column(column) = &expr
                && !self.mentioned.contains(&column.name)
            {
                continue;
            }
            self.expression(&expr, inputs);
        }
    }

    fn expression(&mut self, expr: &Expr, inputs: &[Fields]) {
        let mut within: Vec<Arc<LogicalPlan>> = Vec::new();
        let mut found: Vec<Origin> = Vec::new();
        let walked = expr.apply(|node| {
            match node {
                Expr::Column(column) => {
                    found.extend(inputs.iter().find_map(|input| input.find(column)).cloned());
                }
                Expr::OuterReferenceColumn(_, column) => {
                    let around = self.outer.iter().rev();
                    found.extend(around.into_iter().find_map(|input| input.find(column)).cloned());
                }
                Expr::ScalarSubquery(subquery) => within.push(subquery.subquery.clone()),
                Expr::Exists(exists) => within.push(exists.subquery.subquery.clone()),
                Expr::InSubquery(list) => within.push(list.subquery.subquery.clone()),
                Expr::SetComparison(set) => within.push(set.subquery.subquery.clone()),
                _ => {}
            }
            Ok(TreeNodeRecursion::Continue)
        });
        walked.expect("nothing here fails");
        for (source, column) in found.into_iter().flatten() {
            self.used[source].insert(column);
        }
        for plan in within {
            let depth = self.outer.len();
            self.outer.extend(inputs.iter().cloned());
            self.visit(&plan);
            self.outer.truncate(depth);
        }
    }
}

fn unknown(schema: DFSchemaRef) -> Fields {
    let origins = vec![Origin::new(); schema.fields().len()];
    Fields { schema, origins }
}

fn origin_of(expr: &Expr, inputs: &[Fields]) -> Origin {
    match expr {
        Expr::Alias(alias) => origin_of(&alias.expr, inputs),
        Expr::Column(column) => {
            inputs.iter().find_map(|input| input.find(column)).cloned().unwrap_or_default()
        }
        _ => Origin::new(),
    }
}

/// The fields of a node whose output has those of its inputs.
fn by_name(schema: DFSchemaRef, inputs: &[Fields]) -> Fields {
    let origin = |at: usize| {
        let column = Column::from(DFSchema::qualified_field(&schema, at));
        inputs.iter().find_map(|input| input.find(&column)).cloned().unwrap_or_default()
    };
    Fields { origins: (0..schema.fields().len()).map(origin).collect(), schema }
}
