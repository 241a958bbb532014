//! The tree of a query's plan as EXPLAIN (VERBOSE, FORMAT JSON) has it: each node with what it puts out, and the
//! side of its join. Drivers read there which columns an outer join may make NULL.
//!
//! ```text
//!   Projection over a node     the node, with the projection's output
//!   Join, right outer          left outer of the other side: the inner side is the one that may be missing
//! ```

use datafusion::common::{DFSchema, JoinType};
use datafusion::logical_expr::{Expr, LogicalPlan};
use serde_json::{Value, json};

/// A plan and what is below it.
pub(crate) fn node(plan: &LogicalPlan) -> Value {
    match plan {
        LogicalPlan::Projection(projection) => {
            let output = projection.expr.iter().map(shown).collect();
            let mut inner = node(&projection.input);
            inner["Output"] = Value::Array(output);
            inner
        }
        LogicalPlan::Filter(filter) => {
            let mut inner = node(&filter.input);
            inner["Filter"] = filter.predicate.to_string().into();
            inner
        }
        LogicalPlan::SubqueryAlias(alias) => {
            let mut inner = node(&alias.input);
            inner["Output"] = output(&alias.schema);
            inner["Alias"] = alias.alias.table().into();
            inner
        }
        LogicalPlan::Join(join) => {
            let (outer, inner) = match join.join_type {
                JoinType::Right => (&join.right, &join.left),
                _ => (&join.left, &join.right),
            };
            let mut outer = node(outer);
            outer["Parent Relationship"] = "Outer".into();
            let mut inner = node(inner);
            inner["Parent Relationship"] = "Inner".into();
            json!({
                "Node Type": if join.on.is_empty() { "Nested Loop" } else { "Hash Join" },
                "Join Type": join_type(join.join_type),
                "Output": output(&join.schema),
                "Plans": [outer, inner],
            })
        }
        LogicalPlan::TableScan(scan) => json!({
            "Node Type": "Seq Scan",
            "Relation Name": scan.table_name.table(),
            "Output": output(&scan.projected_schema),
        }),
        other => {
            let mut of = json!({
                "Node Type": kind(other),
                "Output": output(other.schema()),
            });
            let inputs = other.inputs();
            if !inputs.is_empty() {
                let below = inputs.into_iter().map(|input| {
                    let mut below = node(input);
                    below["Parent Relationship"] = "Outer".into();
                    below
                });
                of["Plans"] = Value::Array(below.collect());
            }
            of
        }
    }
}

fn kind(plan: &LogicalPlan) -> &'static str {
    match plan {
        LogicalPlan::Aggregate(_) | LogicalPlan::Distinct(_) => "Aggregate",
        LogicalPlan::Window(_) => "WindowAgg",
        LogicalPlan::Sort(_) => "Sort",
        LogicalPlan::Limit(_) => "Limit",
        LogicalPlan::Union(_) => "Append",
        LogicalPlan::Values(_) => "Values Scan",
        LogicalPlan::RecursiveQuery(_) => "Recursive Union",
        LogicalPlan::Unnest(_) => "ProjectSet",
        _ => "Result",
    }
}

fn join_type(join: JoinType) -> &'static str {
    match join {
        JoinType::Inner => "Inner",
        JoinType::Left | JoinType::Right => "Left",
        JoinType::Full => "Full",
        JoinType::LeftSemi | JoinType::RightSemi => "Semi",
        _ => "Anti",
    }
}

fn output(schema: &DFSchema) -> Value {
    schema.columns().iter().map(|column| Value::from(column.flat_name())).collect()
}

fn shown(expr: &Expr) -> Value {
    match expr {
        Expr::Alias(alias) => shown(&alias.expr),
        Expr::Column(column) => column.flat_name().into(),
        other => other.to_string().into(),
    }
}
