//! MERGE.
//!
//! ```text
//!   MERGE INTO t USING s ON c          SELECT t._rid, which of the clauses, the values of each of them
//!     WHEN MATCHED AND p THEN UPDATE …   FROM s LEFT JOIN t ON c
//!     WHEN NOT MATCHED THEN INSERT …
//!
//!   plan     one query, and for each clause what INSERT, UPDATE or DELETE needs    merge_plan.rs
//!   collect  rows of the query under the statement's view, each to its clause
//!   write    deletes, updates, inserts
//! ```
//!
//! A row that somebody has changed or deleted meanwhile may belong to another clause now: under READ COMMITTED
//! the statement begins again, as UPDATE … FROM does.

use std::collections::HashSet;

use arrow::array::{ArrayRef, RecordBatch};
use froglet_engine::{ColumnType, Row, RowId, Snapshot, SqlState, Value};

use crate::apply::{Stop, Targets, Writer};
use crate::error::SqlError;
use crate::insert::Inserter;
use crate::insert_plan::CastTarget;
use crate::modify::{Change, ModifyPlan, Written};
use crate::query::account::Gathering;
use crate::query_rows::{QueryPlan, next};
use crate::types::cast::CastContext;
use crate::types::{cast_array, value_at};

/// Where the value of a column comes from.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place {
    /// Among the values that the query computes.
    Query(usize),
    Default,
    Generated,
}

/// What a clause does.
#[allow(clippy::large_enum_variant)] // a few per plan
pub(crate) enum Action {
    Nothing,
    /// UPDATE, with a place for each of its columns; or DELETE.
    Modify(ModifyPlan, Vec<Place>),
    /// With a place for each column that is given.
    Insert(Inserter, Vec<Place>),
}

/// A planned MERGE.
pub(crate) struct MergePlan {
    /// The table's.
    pub(crate) name: String,
    pub(crate) query: QueryPlan,
    /// The columns of the query after the row id and the number of the clause.
    pub(crate) targets: Vec<CastTarget>,
    /// In the order of the clauses.
    pub(crate) actions: Vec<Action>,
}

/// What a clause has still to write.
#[derive(Default)]
struct Pending {
    targets: Targets,
    rows: Vec<Row>,
}

/// Columns of the query before the values.
pub(crate) const BEFORE_VALUES: usize = 2;

impl MergePlan {
    pub(crate) async fn run(&self, writer: &mut Writer<'_>) -> Result<Written, Stop> {
        let view = writer.txn.part().snapshot().clone();
        let mut pending: Vec<Pending> =
            std::iter::repeat_with(Pending::default).take(self.actions.len()).collect();
        let mut seen = HashSet::new();
        let mut stream = self.query.run_within(writer).await?;
        let mut gathering = Gathering::new(&**writer.session);
        while let Some(batch) = next(&mut stream, writer.limits).await? {
            self.collect(&batch, writer, &view, &mut pending, &mut seen, &mut gathering)?;
        }
        let mut rows = 0;
        let deletes = |action: &Action| match action {
            Action::Modify(plan, _) => matches!(plan.change, Change::Delete),
            _ => false,
        };
        for wanted in [true, false] {
            for (action, pending) in self.actions.iter().zip(&mut pending) {
                let Action::Modify(plan, _) = action else { continue };
                if deletes(action) != wanted {
                    continue;
                }
                let count = pending.targets.rids.len();
                Box::pin(plan.write(writer, &view, &mut pending.targets, false)).await?;
                if pending.targets.rids.len() < count {
                    return Err(Stop::Restart);
                }
                rows += count;
            }
        }
        for (action, pending) in self.actions.iter().zip(&pending) {
            if let Action::Insert(inserter, _) = action {
                inserter.insert(writer, &pending.rows).await?;
                rows += pending.rows.len();
            }
        }
        Ok(Written { rows: rows as u64, returned: None })
    }

    fn collect(
        &self,
        batch: &RecordBatch,
        writer: &Writer<'_>,
        view: &Snapshot,
        pending: &mut [Pending],
        seen: &mut HashSet<RowId>,
        gathering: &mut Gathering<'_>,
    ) -> Result<(), SqlError> {
        let mut computed: Vec<(ArrayRef, ColumnType)> = Vec::with_capacity(self.targets.len());
        for (at, (_, ty, sql_type)) in self.targets.iter().enumerate() {
            let array = batch.column(BEFORE_VALUES + at);
            computed.push((cast_array(array, *ty, *sql_type, CastContext::Assignment)?, *ty));
        }
        for row in 0..batch.num_rows() {
            let clause = match value_at(batch.column(1).as_ref(), row, ColumnType::Int32) {
                Value::Int32(clause) => usize::try_from(clause).ok(),
                _ => None,
            };
            let Some(clause) = clause else { continue };
            let (Some(action), Some(pending)) = (self.actions.get(clause), pending.get_mut(clause))
            else {
                continue;
            };
            let value = |place: Place| match place {
                Place::Query(at) => {
                    let (array, ty) = &computed[at];
                    Some(value_at(array.as_ref(), row, *ty))
                }
                Place::Default => None,
                Place::Generated => Some(Value::Null),
            };
            match action {
                Action::Nothing => {}
                Action::Insert(inserter, places) => {
                    let values = places.iter().map(|place| Ok(value(*place)));
                    let row = inserter.complete(values, writer.eval)?;
                    gathering.row(&row)?;
                    pending.rows.push(row);
                }
                Action::Modify(plan, places) => {
                    let Value::Int64(rid) =
                        value_at(batch.column(0).as_ref(), row, ColumnType::Int64)
                    else {
                        continue;
                    };
                    let rid = RowId(rid as u64);
                    if !seen.insert(rid) {
                        return Err(twice());
                    }
                    let mut old = Row::new();
                    if !plan.table.table.read_row(view, rid, &plan.projection, &mut old) {
                        continue;
                    }
                    if let Change::Update(columns) = &plan.change {
                        let mut values = Vec::with_capacity(columns.len());
                        for (column, place) in columns.iter().zip(places) {
                            values.push(match value(*place) {
                                Some(value) => value,
                                None => plan.compiled.default(*column, writer.eval)?,
                            });
                        }
                        plan.complete(columns, &mut values, &old, rid, view, writer.eval)?;
                        gathering.row(&values)?;
                        pending.targets.values.push(values);
                    }
                    gathering.row(&old)?;
                    pending.targets.rids.push(rid);
                    pending.targets.olds.push(old);
                }
            }
        }
        Ok(())
    }
}

fn twice() -> SqlError {
    SqlError::new(SqlState::CARDINALITY_VIOLATION, "MERGE command cannot affect row a second time")
        .hint("Ensure that not more than one source row matches any one target row.")
}
