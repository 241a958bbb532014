//! Applying CREATE TABLE AS: the table, what makes its rows, and their first scan.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use froglet_engine::Table;
use froglet_txn::Transaction;

use crate::apply::{Applied, Scope, renewal};
use crate::catalog::{Catalog, TableVersion};
use crate::change::{NewTable, RowQuery, Stage, UnitInput, UnitQuery};
use crate::copy::Copy;
use crate::def::ObjectId;
use crate::derive::Derivation;
use crate::error::SchemaError;
use crate::local::{local, local_mut};
use crate::migration::Migration;
use crate::step::{Step, StepKind, positions};
use crate::target::Source;

impl Catalog {
    /// A row of a row.
    pub(crate) async fn copy_table(
        &self,
        txn: &mut Transaction,
        scope: &Scope<'_>,
        new: NewTable,
        table: ObjectId,
        query: Arc<dyn RowQuery>,
    ) -> Result<Applied, SchemaError> {
        let source = self.source(txn, scope, table).await?;
        let (id, target) = self.create_target(txn, scope, new).await?;
        let rows = source.table.clone();
        let copy = Arc::new(Copy::new(txn, source, query, target));
        local_mut(txn).set_maker(id, copy.clone());
        let kind = StepKind::Copy(copy.clone());
        let step = Step::new(kind, rows, txn.savepoint(), self.engine().clone());
        self.run_step(txn, scope, &scope.table(table)?.def, step).await?;
        self.note_told(txn);
        Ok(Applied { object: Some(id), rows: copy.rows() })
    }

    /// Unit by unit, in stages. What has made the table drops them: to the transaction they are
    /// tables that it has made and dropped.
    pub(crate) async fn derive_table(
        &self,
        txn: &mut Transaction,
        mut scope: Scope<'_>,
        new: NewTable,
        stages: Vec<Stage>,
        query: Arc<dyn UnitQuery>,
    ) -> Result<Applied, SchemaError> {
        let mut made = Vec::with_capacity(stages.len());
        for Stage { columns, query } in stages {
            let name = format!("{} (stage {})", new.name, made.len() + 1);
            let stage =
                NewTable { schema: new.schema.clone(), name, columns, constraints: Vec::new() };
            made.push(self.derive_stage(txn, &scope, stage, &made, query).await?.0);
            scope.view = self.view(txn);
        }
        let (id, rows) = self.derive_stage(txn, &scope, new, &made, query).await?;
        for stage in made {
            scope.view = self.view(txn);
            self.drop_table(txn, &scope, stage, false).await?;
        }
        self.note_told(txn);
        Ok(Applied { object: Some(id), rows })
    }

    /// Returns the table, and how many rows it has.
    async fn derive_stage(
        &self,
        txn: &mut Transaction,
        scope: &Scope<'_>,
        new: NewTable,
        stages: &[ObjectId],
        query: Arc<dyn UnitQuery>,
    ) -> Result<(ObjectId, u64), SchemaError> {
        let table_of = |input: &UnitInput| match input {
            UnitInput::Table(table, _) => *table,
            UnitInput::Stage(number) => stages[*number],
        };
        let tables: BTreeSet<ObjectId> = query.inputs().iter().map(table_of).collect();
        let mut sources = BTreeMap::new();
        // In order, so that two such statements do not wait for each other.
        for table in tables {
            sources.insert(table, self.source(txn, scope, table).await?);
        }
        let (id, target) = self.create_target(txn, scope, new).await?;
        let inputs = query.inputs().iter().map(|input| {
            let source = sources[&table_of(input)].clone();
            let columns = match input {
                UnitInput::Table(_, columns) => positions(&*source.table, columns),
                UnitInput::Stage(_) => (0..source.table.layout().columns.len()).collect(),
            };
            (source, columns)
        });
        let inputs = inputs.collect();
        let derivation = Arc::new(Derivation::new(txn, query, inputs, target));
        local_mut(txn).set_maker(id, derivation.clone());
        let mut migrations = Vec::with_capacity(sources.len());
        for (table, Source { table: rows, .. }) in &sources {
            let kind = StepKind::Derive(derivation.clone());
            let step = Step::new(kind, rows.clone(), txn.savepoint(), self.engine().clone());
            let def = &scope.table(*table)?.def;
            let migration = self.migration(txn, def, &step, scope.options)?;
            migrations.push((migration, Arc::new(step)));
        }
        let (options, limits) = (scope.options, scope.limits);
        let scan = Migration::run_derivation;
        scan(&derivation, &migrations, options, limits, &mut renewal(txn)).await?;
        for (table, (migration, _)) in sources.into_keys().zip(&migrations) {
            local_mut(txn).changes.steps.insert(table, migration.steps());
        }
        Ok((id, derivation.rows()))
    }

    /// A table to be read. Its rows stay where they are, and its columns what they are, until the
    /// transaction ends.
    async fn source(
        &self,
        txn: &mut Transaction,
        scope: &Scope<'_>,
        table: ObjectId,
    ) -> Result<Source, SchemaError> {
        let TableVersion { def, table: seen, .. } = &**scope.table(table)?;
        self.store.lock(txn, table, scope.limits).await?;
        self.make_all_of(def, scope.limits)?;
        let table = self.engine().open(def.space, Arc::new(def.layout()))?;
        Ok(Source { table, seen: seen.clone() })
    }

    /// A new table, and its rows as anybody writes them.
    async fn create_target(
        &self,
        txn: &mut Transaction,
        scope: &Scope<'_>,
        new: NewTable,
    ) -> Result<(ObjectId, Arc<dyn Table>), SchemaError> {
        let id = self.create_table(txn, scope, new).await?;
        let made = local(txn).and_then(|own| own.changes.objects.get(&id)?.as_ref()?.table());
        Ok((id, made.expect("just made").table.clone()))
    }

    /// Whoever is told how many rows there are, is told of commits that may not be durable yet.
    fn note_told(&self, txn: &mut Transaction) {
        txn.snapshot().note_seen(self.engine().now());
    }
}
