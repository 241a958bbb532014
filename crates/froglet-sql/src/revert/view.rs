//! `froglet.revert_plan(n)`: a table function, whose rows are the steps of a revert.

use std::sync::Arc;

use datafusion::catalog::{TableFunction, TableFunctionImpl};
use datafusion::common::ScalarValue;
use datafusion::datasource::TableProvider;
use datafusion::error::Result;
use datafusion::logical_expr::Expr;
use froglet_engine::SqlState;

use super::{Around, Plan, plan};
use crate::error::SqlError;
use crate::pgcatalog::{self, Columns, Fill, Rows};
use crate::provider::QueryScope;
use crate::system_row as row;

/// The function.
pub(crate) fn function() -> Arc<TableFunction> {
    Arc::new(TableFunction::new("froglet.revert_plan".to_owned(), Arc::new(RevertPlan)))
}

#[derive(Debug)]
struct RevertPlan;

impl TableFunctionImpl for RevertPlan {
    fn call(&self, arguments: &[Expr]) -> Result<Arc<dyn TableProvider>> {
        let [Expr::Literal(ScalarValue::Int64(Some(id)), _)] = arguments else {
            return Err(SqlError::new(
                SqlState::INVALID_PARAMETER_VALUE,
                "froglet.revert_plan takes the number of a schema change, as a literal",
            )
            .hint("Those that are remembered are in froglet.schema_changes.")
            .into());
        };
        let columns =
            Columns::parse("step int4!, statement text, lossless bool!, loss text, note text");
        let id = *id;
        let fill: Fill = Arc::new(move |scope: &QueryScope, rows: &mut Rows| {
            add(&plan_in(scope, id)?, rows);
            Ok(())
        });
        Ok(pgcatalog::virtual_table(columns, fill))
    }
}

fn plan_in(scope: &QueryScope, id: i64) -> std::result::Result<Plan, SqlError> {
    let around = Around {
        catalog: &scope.catalog,
        changes: &scope.session.schema_changes(),
        session: &*scope.session,
        snapshot: &scope.snapshot,
        path: &scope.session.search_path(),
        own: None,
    };
    plan(&around, id)
}

fn add(plan: &Plan, rows: &mut Rows) {
    for (at, step) in plan.steps.iter().enumerate() {
        row!(rows;
            step: at + 1,
            statement: step.sql.clone(),
            lossless: step.loss.is_none(),
            loss: step.loss.clone(),
            note: step.note.clone(),
        );
    }
}
