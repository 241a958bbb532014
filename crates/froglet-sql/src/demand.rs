//! By what rows are to be kept together so that a query falls into units: what a node of its plan asks of
//! the nodes below it (`units.rs`).

use std::collections::BTreeSet;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, ExprSchema};
use datafusion::logical_expr::{Expr, ExprSchemable};

/// By what a node's consumer wants rows to be kept together.
#[derive(Clone, Debug)]
pub(crate) enum Demand {
    /// By nothing: a row stands for itself.
    Rows,
    /// By the block of a table that they are made of.
    Blocks,
    /// By all of these: rows whose keys are equal are of one unit, wherever they come from.
    All(Vec<Expr>),
    /// By some of these, or by functions of them.
    Any(Vec<Expr>),
}

impl Demand {
    /// The demand on a node's input, whose expressions make the node's columns; `None` for a column that
    /// is made of others than the input's alone.
    pub(crate) fn below<'a>(
        &self,
        schema: &DFSchema,
        made_by: impl Fn(usize) -> Option<&'a Expr>,
    ) -> Option<Demand> {
        let replace = |key: &Expr| {
            let mut is_whole = true;
            let replaced = key.clone().transform(|expr| match &expr {
                Expr::Column(column) => {
                    let at = schema.maybe_index_of_column(column);
                    match at.and_then(&made_by) {
                        Some(by) => Ok(Transformed::yes(by.clone().unalias_nested().data)),
                        None => {
                            is_whole = false;
                            Ok(Transformed::no(expr))
                        }
                    }
                }
                _ => Ok(Transformed::no(expr)),
            });
            replaced.ok().map(|replaced| replaced.data).filter(|_| is_whole)
        };
        match self {
            Demand::Rows | Demand::Blocks => Some(self.clone()),
            Demand::All(keys) => {
                Demand::All(keys.iter().map(replace).collect::<Option<_>>()?).stable()
            }
            Demand::Any(keys) => Demand::Any(keys.iter().filter_map(replace).collect()).stable(),
        }
    }

    /// Without what has another value each time it is asked for.
    pub(crate) fn stable(self) -> Option<Demand> {
        match self {
            Demand::Rows | Demand::Blocks => Some(self),
            Demand::All(keys) => (!keys.iter().any(Expr::is_volatile)).then_some(Demand::All(keys)),
            Demand::Any(mut keys) => {
                keys.retain(|key| !key.is_volatile());
                (!keys.is_empty()).then_some(Demand::Any(keys))
            }
        }
    }

    /// What is a function of these, too.
    pub(crate) fn functions_of(self, common: &[Expr], schema: &DFSchema) -> Option<Demand> {
        match self {
            Demand::Rows | Demand::Blocks => Some(self),
            Demand::All(keys) => keys
                .iter()
                .all(|key| is_function_of(key, common, schema))
                .then_some(Demand::All(keys)),
            Demand::Any(mut keys) => {
                keys.retain(|key| is_function_of(key, common, schema));
                Demand::Any(keys).stable()
            }
        }
    }

    /// Demands that meet this one and leave no choice.
    pub(crate) fn exactly(&self) -> Vec<Demand> {
        match self {
            Demand::Any(keys) => {
                let single = keys.iter().map(|key| Demand::All(vec![key.clone()]));
                std::iter::once(Demand::All(keys.clone())).chain(single).collect()
            }
            other => vec![other.clone()],
        }
    }
}

pub(crate) fn is_over(expr: &Expr, schema: &DFSchema) -> bool {
    expr.column_refs().iter().all(|column| schema.has_column(column))
}

/// Whether an expression over this schema is one of the keys, or made of those that are columns. Not of
/// floating-point ones: -0 and 0 are one key, and two texts.
pub(crate) fn is_function_of(expr: &Expr, keys: &[Expr], schema: &DFSchema) -> bool {
    let plain: BTreeSet<&Column> = keys
        .iter()
        .filter_map(|key| match key {
            Expr::Column(column) => Some(column),
            _ => None,
        })
        .collect();
    let columns = expr.column_refs();
    keys.contains(expr)
        || !columns.is_empty()
            && columns.iter().all(|column| plain.contains(column) && !is_float(column, schema))
}

fn is_float(column: &Column, schema: &DFSchema) -> bool {
    schema.field_from_column(column).is_ok_and(|field| field.data_type().is_floating())
}

/// A key of one side of a join as the other side has it (whose schema this is), by equal pairs.
pub(crate) fn across<'a>(
    key: &Expr,
    pairs: &[&'a (Expr, Expr)],
    other: &DFSchema,
    from_to: impl Fn(&'a (Expr, Expr)) -> (&'a Expr, &'a Expr),
) -> Option<Expr> {
    let same = |expr: &Expr| {
        pairs.iter().map(|on| from_to(on)).find(|(from, _)| *from == expr).map(|(_, to)| to)
    };
    if let Some(to) = same(key) {
        return Some(to.clone());
    }
    let replaced = key.clone().transform_down(|expr| {
        // As in `is_function_of`.
        let to = same(&expr).filter(|to| !to.get_type(other).is_ok_and(|ty| ty.is_floating()));
        Ok(match to {
            Some(to) => Transformed::new(to.clone(), true, TreeNodeRecursion::Jump),
            None => Transformed::no(expr),
        })
    });
    replaced.ok().map(|replaced| replaced.data).filter(|key| is_over(key, other))
}
