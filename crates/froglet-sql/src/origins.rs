//! Of which rows of which tables a plan's rows are made: what a table that is made lazily, key by key, knows
//! of its query.
//!
//! Scans are numbered as they are met from left to right, as the inputs of a divided plan are (`units.rs`).

use datafusion::error::Result;
use datafusion::logical_expr::{Expr, JoinType, LogicalPlan};

use crate::units::{Source, columns_read};

/// What is known of the rows of a node.
pub(crate) struct Origins {
    /// The scan, and the column of its table, that an output is; where each row is made of a row of that scan.
    pub(crate) outputs: Vec<Option<(usize, usize)>>,
    /// Scans such that each row is made of a row of one of them; `None` if rows are made of nothing.
    pub(crate) covers: Option<Vec<usize>>,
    /// Outputs of which no two rows have the same values.
    pub(crate) unique: Option<Vec<usize>>,
    /// Base tables that are scanned.
    pub(crate) scans: usize,
}

impl Origins {
    fn of_nothing(outputs: usize, scans: usize) -> Origins {
        Origins { outputs: vec![None; outputs], covers: None, unique: None, scans }
    }

    /// The same rows, or some of them.
    fn with(self, outputs: Vec<Option<(usize, usize)>>, unique: Option<Vec<usize>>) -> Origins {
        Origins { outputs, unique, ..self }
    }

    fn shifted(mut self, by: usize) -> Origins {
        for output in self.outputs.iter_mut().flatten() {
            output.0 += by;
        }
        for scan in self.covers.iter_mut().flatten() {
            *scan += by;
        }
        self
    }
}

fn bare(expr: &Expr) -> &Expr {
    match expr {
        Expr::Alias(alias) => bare(&alias.expr),
        expr => expr,
    }
}

/// What is known of the rows of a plan.
pub(crate) fn of(plan: &LogicalPlan) -> Result<Origins> {
    let width = plan.schema().fields().len();
    Ok(match plan {
        LogicalPlan::TableScan(scan) if Source::of(scan).is_some() => Origins {
            outputs: columns_read(scan).into_iter().map(|column| Some((0, column))).collect(),
            covers: Some(vec![0]),
            unique: None,
            scans: 1,
        },
        LogicalPlan::SubqueryAlias(alias) => of(&alias.input)?,
        LogicalPlan::Filter(filter) => of(&filter.input)?,
        LogicalPlan::Sort(sort) => of(&sort.input)?,
        LogicalPlan::Projection(projection) => {
            let input = of(&projection.input)?;
            let place = |expr: &Expr| match bare(expr) {
                Expr::Column(column) => projection.input.schema().maybe_index_of_column(column),
                _ => None,
            };
            let places: Vec<Option<usize>> = projection.expr.iter().map(place).collect();
            let outputs = places.iter().map(|place| input.outputs[(*place)?]).collect();
            let at = |input: &usize| places.iter().position(|place| *place == Some(*input));
            let unique = input.unique.as_ref();
            let unique = unique.and_then(|unique| unique.iter().map(at).collect());
            input.with(outputs, unique)
        }
        LogicalPlan::Aggregate(aggregate) => {
            let input = of(&aggregate.input)?;
            let groups = &aggregate.group_expr;
            if groups.is_empty() || groups.iter().any(|g| matches!(g, Expr::GroupingSet(_))) {
                return Ok(Origins::of_nothing(width, input.scans));
            }
            let group = |expr: &Expr| match bare(expr) {
                Expr::Column(column) => {
                    input.outputs[aggregate.input.schema().maybe_index_of_column(column)?]
                }
                _ => None,
            };
            let mut outputs: Vec<_> = groups.iter().map(group).collect();
            outputs.resize(width, None);
            let unique = (0..groups.len()).collect();
            input.with(outputs, Some(unique))
        }
        LogicalPlan::Join(join) => {
            let left = of(&join.left)?;
            let by = left.scans;
            let right = of(&join.right)?.shifted(by);
            let scans = by + right.scans;
            let none = |side: &Origins| vec![None; side.outputs.len()];
            let (outputs, covers) = match join.join_type {
                JoinType::Inner => {
                    let covers = [left.covers, right.covers].into_iter().flatten();
                    let covers = covers.min_by_key(Vec::len);
                    ([left.outputs, right.outputs].concat(), covers)
                }
                JoinType::Left => ([left.outputs.clone(), none(&right)].concat(), left.covers),
                JoinType::Right => ([none(&left), right.outputs].concat(), right.covers),
                JoinType::LeftSemi | JoinType::LeftAnti => (left.outputs, left.covers),
                JoinType::RightSemi | JoinType::RightAnti => (right.outputs, right.covers),
                _ => (vec![None; width], None),
            };
            Origins { outputs, covers, unique: None, scans }
        }
        other => {
            let mut scans = 0;
            for input in other.inputs() {
                scans += of(input)?.scans;
            }
            Origins::of_nothing(width, scans)
        }
    })
}
