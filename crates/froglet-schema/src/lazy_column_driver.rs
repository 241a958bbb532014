//! Lazy columns in the catalog: begun by a statement, committed with its transaction, filled in the background,
//! and ended by a transaction of their own; taken up again after a restart. As `lazy_driver.rs` is for tables.
//!
//! What a later statement of the same transaction demands of all rows, or another migration of the table, has to
//! find every value in its place: then the column is filled first, eagerly before the commit, else in place.

use std::sync::Arc;

use arrow_array::{BooleanArray, RecordBatch};
use froglet_engine::{ColumnId, ColumnType, EngineError, Table, TxnId, Value, batch};
use froglet_txn::{Limits, Transaction};

use crate::apply::Scope;
use crate::background::{Background, spawn};
use crate::catalog::{Catalog, CatalogVersion, TableVersion};
use crate::change::{Check, CompiledError, LazyFill, Transform};
use crate::course::{ended, rolled_back};
use crate::def::{ObjectId, TableDef};
use crate::edit::{self, Demand, Edited, Work};
use crate::error::SchemaError;
use crate::lazy::batch_with;
use crate::lazy_columns::{Filling, LazyColumn, LazyColumnDef, LazyColumns};
use crate::lazy_columns_table::LazyColumnsTable;
use crate::lazy_driver::{Recompile, not_as_it_was};
use crate::lazy_verify::not_lazily;
use crate::local::{Changed, local, local_mut};
use crate::status::MigrationStatus;
use crate::step::{Step, StepKind, positions};
use crate::unreadable::Unreadable;

impl Catalog {
    /// The lazy columns of a definition that has some.
    fn lazy_columns_of(&self, def: &TableDef) -> Result<LazyColumns, EngineError> {
        let known = self.lazy_columns.read();
        let column = |lazy: &LazyColumnDef| {
            let column = known.get(&lazy.begun.migration);
            column.expect("a definition that can be changed names what goes on").clone()
        };
        LazyColumns::open(self.engine(), def, def.lazy_columns.iter().map(column))
    }

    /// A table with the lazy columns of its definition, if it has any.
    pub(crate) fn with_lazy_columns(
        &self,
        def: &TableDef,
        table: Arc<dyn Table>,
    ) -> Result<Arc<dyn Table>, EngineError> {
        if def.lazy_columns.is_empty() {
            return Ok(table);
        }
        let columns = Arc::new(self.lazy_columns_of(def)?);
        Ok(Arc::new(LazyColumnsTable::new(table, columns)))
    }

    /// Before a change of a table: begins with a column that it adds lazily, or fills those that it has, if the
    /// change needs anything of the data.
    pub(crate) async fn prepare_lazy_columns(
        &self,
        txn: &mut Transaction,
        scope: &Scope<'_>,
        before: &TableVersion,
        edited: &mut Edited,
    ) -> Result<(), SchemaError> {
        match &mut edited.work[..] {
            work if !work.iter().any(Work::is_of_rows) => {}
            work if work.iter().all(is_lazy) => {
                for work in std::mem::take(&mut edited.work) {
                    let Work::Fill { target, transform, not_null, lazily: Some(lazily) } = work
                    else {
                        continue;
                    };
                    let filled = (target, transform, not_null);
                    self.fill_lazily(txn, scope, before, &mut edited.def, filled, lazily).await?;
                }
            }
            work => {
                let inputs = work.iter().flat_map(|work| match work {
                    Work::Fill { transform, .. } => transform.inputs(),
                    _ => &[],
                });
                let inputs: Vec<ColumnId> = inputs.copied().collect();
                self.complete_lost(txn, scope, before, &edited.def, &inputs).await?;
                self.fill_lazy_columns(txn, scope, &mut edited.def).await?;
            }
        }
        edited.def.drop_unneeded_lazy_columns();
        Ok(())
    }

    async fn fill_lazily(
        &self,
        txn: &mut Transaction,
        scope: &Scope<'_>,
        before: &TableVersion,
        def: &mut TableDef,
        (target, transform, not_null): (ColumnId, Arc<dyn Transform>, bool),
        lazily: LazyFill,
    ) -> Result<(), SchemaError> {
        let makers = local(txn).map(|own| &own.changes.makers);
        let is_made = makers.is_some_and(|makers| makers.contains_key(&def.id));
        assert!(!is_made, "writers that follow into a new table know nothing of its lazy columns");
        let column = def.column_by_id(target).expect("the edit added the column");
        let (ty, name) = (column.ty, column.name.clone());
        let since = txn.savepoint();
        self.complete_lost(txn, scope, before, def, transform.inputs()).await?;
        if lazily.is_verified() {
            let layout = before.def.layout();
            let type_of = |id: &ColumnId| Some(layout.columns[layout.position(*id)?].ty);
            let check = Computes {
                types: transform.inputs().iter().filter_map(type_of).collect(),
                null: not_null.then(|| edit::not_null_violation(&def.name, &name)),
                transform: transform.clone(),
            };
            let rows = self.open_table(&before.def)?;
            let source = positions(&*rows, check.inputs());
            let kind = StepKind::Verify { source, check: Arc::new(check), demand: Demand::Change };
            let step = Step::new(kind, rows, since, self.engine().clone());
            self.run_step(txn, scope, def, step).await?;
        }
        let mut source = before.def.clone();
        (source.lazy, source.lazy_columns) = (None, Vec::new());
        let lazy = LazyColumnDef {
            begun: self.begin_lazy(scope.options),
            recipe: lazily.recipe,
            target,
            ty,
            filled: ColumnId(self.next_id()?),
            inputs: transform.inputs().to_vec(),
            source: Box::new(source),
        };
        def.lazy_columns.push(lazy.clone());
        let column = LazyColumn::new(lazy, def, txn.id(), since, transform);
        column.course.pace.throttle(scope.options.rows_per_second);
        self.ended_migrations.begun(&self.status_of_column(&column))?;
        let migration = column.def.begun.migration;
        self.lazy_columns.write().insert(migration, Arc::new(column));
        let columns = Arc::new(self.lazy_columns_of(def)?);
        local_mut(txn).changes.lazy_columns.entry(def.id).or_default().push(columns);
        Ok(())
    }

    /// What is computed from a column which the same statement has dropped while that was being computed itself: it is
    /// there for all rows first.
    async fn complete_lost(
        &self,
        txn: &mut Transaction,
        scope: &Scope<'_>,
        before: &TableVersion,
        def: &TableDef,
        inputs: &[ColumnId],
    ) -> Result<(), SchemaError> {
        for lazy in &before.def.lazy_columns {
            let is_it = |kept: &LazyColumnDef| kept.target == lazy.target;
            if !inputs.contains(&lazy.target) || def.lazy_columns.iter().any(is_it) {
                continue;
            }
            let known = self.lazy_columns.read().get(&lazy.begun.migration).cloned();
            let Some(column) = known.filter(|column| !column.is_complete()) else { continue };
            if column.is_live() {
                let columns = self.lazy_columns_of(&before.def)?;
                Filling { column, columns }.migrate_all(scope.limits)?;
            } else {
                self.fill_own_column(txn, scope, &before.def, &column).await?;
            }
        }
        Ok(())
    }

    /// Fills the lazy columns of a table now; its definition has none then.
    async fn fill_lazy_columns(
        &self,
        txn: &mut Transaction,
        scope: &Scope<'_>,
        def: &mut TableDef,
    ) -> Result<(), SchemaError> {
        if def.lazy_columns.is_empty() {
            return Ok(());
        }
        for lazy in def.lazy_columns.clone() {
            let known = self.lazy_columns.read().get(&lazy.begun.migration).cloned();
            let column = known.ok_or(SchemaError::Stale)?;
            if column.is_live() {
                let columns = self.lazy_columns_of(def)?;
                Filling { column, columns }.migrate_all(scope.limits)?;
            } else {
                self.fill_own_column(txn, scope, def, &column).await?;
            }
        }
        def.lazy_columns.clear();
        local_mut(txn).changes.lazy_columns.remove(&def.id);
        Ok(())
    }

    /// Before tables are read as they are stored: fills what the same transaction has added to them lazily.
    pub(crate) async fn fill_own_columns(
        &self,
        txn: &mut Transaction,
        scope: &mut Scope<'_>,
        tables: &[ObjectId],
    ) -> Result<(), SchemaError> {
        for table in tables {
            if local(txn).is_none_or(|own| !own.changes.lazy_columns.contains_key(table)) {
                continue;
            }
            let base = scope.table(*table)?.clone();
            let mut def = base.def.clone();
            self.fill_lazy_columns(txn, scope, &mut def).await?;
            self.rewrite(txn, scope, &base, def).await?;
            scope.view = self.view(txn);
        }
        Ok(())
    }

    /// Fills a column of the same transaction as if it had not been lazy.
    async fn fill_own_column(
        &self,
        txn: &mut Transaction,
        scope: &Scope<'_>,
        def: &TableDef,
        column: &LazyColumn,
    ) -> Result<(), SchemaError> {
        let rows = self.engine().open(def.space, Arc::new(def.whole_layout()))?;
        let kind = StepKind::Fill {
            source: positions(&*rows, column.transform.inputs()),
            target: positions(&*rows, &[column.def.target])[0],
            ty: column.def.ty,
            transform: column.transform.clone(),
            filled: rows.layout().position(column.def.filled),
            not_null: None,
            drawn: None,
        };
        let step = Step::new(kind, rows, column.since, self.engine().clone());
        self.run_step(txn, scope, def, step).await
    }

    /// Of a table that is to be read as it is stored: every value in its place.
    pub(crate) fn complete_lazy_columns(
        &self,
        def: &TableDef,
        limits: &Limits,
    ) -> Result<(), SchemaError> {
        for lazy in &def.lazy_columns {
            let known = self.lazy_columns.read().get(&lazy.begun.migration).cloned();
            let Some(column) = known.filter(|column| !column.is_complete()) else { continue };
            assert!(column.is_live(), "its owner has filled his own columns");
            let columns = self.lazy_columns_of(def)?;
            Filling { column, columns }.migrate_all(limits)?;
        }
        Ok(())
    }

    /// One row of `froglet.migrations`.
    pub(crate) fn status_of_column(&self, column: &LazyColumn) -> MigrationStatus {
        let latest = self.latest();
        let table = latest.tables.get(&column.course.table);
        column.status(table.map_or(0, |table| table.table.row_estimate()))
    }

    /// What is to be remembered of it if the transaction that ends it commits now.
    fn status_at_end(&self, column: &LazyColumn) -> MigrationStatus {
        let left = "the column, or its table, was dropped before all rows had its values";
        ended(self.status_of_column(column), (!column.is_complete()).then_some(left))
    }

    fn known_lazy_columns(&self) -> Vec<Arc<LazyColumn>> {
        self.lazy_columns.read().values().cloned().collect()
    }

    /// Before the commit of a transaction that has added columns lazily, or ends what others have begun.
    pub(crate) fn record_lazy_columns(&self, txn: &mut Transaction) -> Result<(), SchemaError> {
        let owner = txn.id();
        for column in self.known_lazy_columns() {
            let own = local(txn).expect("who flips has changed something");
            let changed = own.changes.objects.get(&column.course.table);
            let Some(changed) = changed.map(|changed| changed.as_ref().and_then(Changed::table))
            else {
                continue;
            };
            let is_kept = changed.is_some_and(|table| column.is_of(&table.def));
            if is_kept && column.course.owner == owner && !column.is_live() {
                self.ended_migrations.record(txn, &self.status_of_column(&column))?;
            } else if !is_kept && column.is_live() {
                self.ended_migrations.record(txn, &self.status_at_end(&column))?;
            }
        }
        Ok(())
    }

    /// A transaction is committed: the columns that it has added go live, before anybody can have them. Those
    /// that it has ended are forgotten.
    pub(crate) fn commit_lazy_columns(
        &self,
        owner: TxnId,
        after: &CatalogVersion,
        objects: &[ObjectId],
    ) {
        let mut live = Vec::new();
        for column in self.known_lazy_columns() {
            let table = after.tables.get(&column.course.table);
            let table = table.filter(|table| column.is_of(&table.def));
            match table {
                Some(table) if !column.is_live() && column.course.owner == owner => {
                    column.go_live(table.table.block_count());
                    live.push((column, table));
                }
                None if !column.is_live() && column.course.owner == owner => {
                    self.abort_lazy_column(&column);
                }
                None if column.is_live() && objects.contains(&column.course.table) => {
                    // What cannot be written now is found at the next start.
                    let _ = self.ended_migrations.remember(self.status_at_end(&column));
                    self.forget_lazy_column(&column);
                }
                _ => {}
            }
        }
        // One may be computed from another: nobody fills before all are live.
        for (column, table) in live {
            let columns = self.lazy_columns_of(&table.def).expect("it was opened before");
            spawn(self.weak(), Arc::new(Filling { column, columns }));
        }
    }

    /// A transaction is rolled back.
    pub(crate) fn abort_lazy_columns(&self, owner: TxnId) {
        let all = self.known_lazy_columns().into_iter();
        all.filter(|column| !column.is_live() && column.course.owner == owner)
            .for_each(|column| self.abort_lazy_column(&column));
    }

    fn abort_lazy_column(&self, column: &LazyColumn) {
        // At no moment is it in neither place.
        self.aborted_lazies.lock().push(rolled_back(self.status_of_column(column)));
        self.forget_lazy_column(column);
    }

    fn forget_lazy_column(&self, column: &LazyColumn) {
        column.course.end();
        self.lazy_columns.write().remove(&column.def.begun.migration);
    }

    /// Goes on with the columns that recovery has found in a catalog.
    pub(crate) fn resume_lazy_columns(
        &self,
        catalog: &mut CatalogVersion,
        recompile: &dyn Recompile,
    ) {
        let tables: Vec<Arc<TableVersion>> = catalog.tables.values().cloned().collect();
        for version in tables.iter().filter(|version| !version.def.lazy_columns.is_empty()) {
            match self.resume_columns_of(version, recompile) {
                Ok(resumed) => {
                    catalog.tables.insert(version.def.id, Arc::new(resumed));
                }
                Err(e) => {
                    let found = Unreadable::of_table(&version.def, e.to_string());
                    self.kept_unread.write().extend(found.spaces());
                    catalog.set_unreadable(found);
                }
            }
        }
    }

    fn resume_columns_of(
        &self,
        version: &TableVersion,
        recompile: &dyn Recompile,
    ) -> Result<TableVersion, SchemaError> {
        let TableVersion { def, table, .. } = version;
        let mut columns = Vec::new();
        for lazy in &def.lazy_columns {
            let transform = recompile.column(&lazy.recipe, &lazy.source)?;
            if transform.inputs() != lazy.inputs {
                return Err(not_as_it_was("reads other columns"));
            }
            let since = froglet_engine::Savepoint(0);
            let column = LazyColumn::new(lazy.clone(), def, TxnId(0), since, transform);
            columns.push(Arc::new(column));
        }
        // All of them, or none.
        for column in &columns {
            column.go_live(table.block_count());
            self.lazy_columns.write().insert(column.def.begun.migration, column.clone());
        }
        let whole = self.with_lazy_columns(def, table.clone())?;
        for column in columns {
            let columns = self.lazy_columns_of(def)?;
            spawn(self.weak(), Arc::new(Filling { column, columns }));
        }
        Ok(TableVersion::new(def.clone(), version.version, whole))
    }
}

fn is_lazy(work: &Work) -> bool {
    matches!(work, Work::Fill { lazily: Some(_), .. })
}

/// That a column can be computed, and is not NULL where that must not be.
struct Computes {
    transform: Arc<dyn Transform>,
    /// Of its inputs.
    types: Vec<ColumnType>,
    null: Option<Arc<dyn Fn() -> SchemaError + Send + Sync>>,
}

impl Computes {
    /// Whether it is in order for all rows of a batch.
    fn is_in_order(&self, batch: &RecordBatch) -> Result<(), CompiledError> {
        let made = self.transform.eval(batch)?;
        match &self.null {
            Some(null) if made.null_count() > 0 => Err(null()),
            _ => Ok(()),
        }
    }
}

impl Check for Computes {
    fn inputs(&self) -> &[ColumnId] {
        self.transform.inputs()
    }

    fn eval(&self, batch: &RecordBatch) -> Result<BooleanArray, CompiledError> {
        let rows = batch.num_rows();
        if self.is_in_order(batch).is_ok() {
            return Ok(vec![true; rows].into());
        }
        let one = |at| self.is_in_order(&batch.slice(at, 1)).is_ok();
        Ok((0..rows).map(one).collect::<Vec<bool>>().into())
    }

    fn violation(&self, row: &[Value]) -> CompiledError {
        let batch = batch::batch_of(&self.types, &[row.to_vec()]);
        let batch = batch_with(batch.columns().to_vec(), 1);
        let failed = self.is_in_order(&batch);
        failed.err().unwrap_or_else(|| not_lazily("Its expression failed for a row"))
    }
}
