//! Applying CREATE TABLE AS: the table, what makes its rows, and their first scan.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use froglet_engine::Table;
use froglet_txn::Transaction;

use crate::apply::{Applied, Scope, renewal};
use crate::catalog::{Catalog, TableVersion};
use crate::change::{NewTable, RowQuery, Stage, TableQuery, UnitInput, UnitQuery};
use crate::def::ObjectId;
use crate::derive::Derivation;
use crate::eager::copy::Copy;
use crate::error::SchemaError;
use crate::local::{local, local_mut};
use crate::migration::Migration;
use crate::step::{Step, StepKind, positions};
use crate::target::Source;

/// Where rows that are made go.
pub(crate) enum Into {
    /// A table that is still to be made.
    New(NewTable),
    /// One that the transaction has made, and that has none.
    Empty(ObjectId),
}

impl Catalog {
    /// Makes the rows of a table before the commit.
    pub(crate) async fn make_eagerly(
        &self,
        txn: &mut Transaction,
        scope: Scope<'_>,
        into: Into,
        query: &TableQuery,
    ) -> Result<Applied, SchemaError> {
        match query {
            TableQuery::Rows { source, query } => {
                self.copy_table(txn, &scope, into, *source, query.clone()).await
            }
            TableQuery::Units { stages, query } => {
                self.derive_table(txn, scope, into, stages, query.clone()).await
            }
            TableQuery::Lazy { .. } => unreachable!("it is made after the commit"),
        }
    }

    /// A row of a row.
    async fn copy_table(
        &self,
        txn: &mut Transaction,
        scope: &Scope<'_>,
        into: Into,
        table: ObjectId,
        query: Arc<dyn RowQuery>,
    ) -> Result<Applied, SchemaError> {
        let source = self.source(txn, scope, table).await?;
        let (id, target) = self.target(txn, scope, into).await?;
        let rows = source.table.clone();
        let copy = Arc::new(Copy::new(txn, source, query, target));
        local_mut(txn).set_maker(id, copy.clone());
        let kind = StepKind::Copy(copy.clone());
        let step = Step::new(kind, rows, txn.savepoint(), self.engine().clone());
        self.run_step(txn, scope, &scope.source(table)?.def, step).await?;
        self.note_told(txn);
        Ok(Applied { object: Some(id), rows: copy.rows() })
    }

    /// Unit by unit, in stages. What has made the table drops them: to the transaction they are
    /// tables that it has made and dropped.
    async fn derive_table(
        &self,
        txn: &mut Transaction,
        mut scope: Scope<'_>,
        into: Into,
        stages: &[Stage],
        query: Arc<dyn UnitQuery>,
    ) -> Result<Applied, SchemaError> {
        let (schema, name, home) = match &into {
            Into::New(new) => (new.schema.clone(), new.name.clone(), new.home),
            Into::Empty(id) => {
                let def = &scope.table(*id)?.def;
                (def.schema.clone(), def.name.clone(), def.space.home())
            }
        };
        let mut made = Vec::with_capacity(stages.len());
        for (at, Stage { columns, query }) in stages.iter().enumerate() {
            let stage = NewTable {
                schema: schema.clone(),
                name: format!("{name} (stage {})", at + 1),
                columns: columns.clone(),
                constraints: Vec::new(),
                dictionary: None,
                home,
            };
            let (stage, query) = (Into::New(stage), query.clone());
            made.push(self.derive_stage(txn, &scope, stage, &made, query).await?.0);
            scope.view = self.view(txn);
        }
        let (id, rows) = self.derive_stage(txn, &scope, into, &made, query).await?;
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
        into: Into,
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
        let (id, target) = self.target(txn, scope, into).await?;
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
            let def = &scope.source(*table)?.def;
            let migration = self.migration(txn, def, &step, scope.options)?;
            migrations.push((migration, Arc::new(step)));
        }
        let (options, limits) = (scope.options, scope.limits);
        let scan = Migration::run_derivation;
        scan(&derivation, &migrations, options, limits, &mut renewal(txn)).await?;
        for (migration, _) in &migrations {
            local_mut(txn).changes.steps.insert(migration.space(), migration.steps());
        }
        Ok((id, derivation.rows()))
    }

    /// A table to be read. Its rows stay where they are, and its columns what they are, until the
    /// transaction ends.
    pub(crate) async fn source(
        &self,
        txn: &mut Transaction,
        scope: &Scope<'_>,
        table: ObjectId,
    ) -> Result<Source, SchemaError> {
        let TableVersion { def, table: seen, .. } = &**scope.source(table)?;
        if scope.view.tables.contains_key(&table) {
            self.store.lock(txn, table, scope.limits).await?;
        }
        self.make_all_of(def, scope.limits)?;
        let table = self.engine().open(def.space, Arc::new(def.layout()))?;
        Ok(Source { table, seen: seen.clone() })
    }

    /// A table of the transaction's own, and its rows as anybody writes them.
    async fn target(
        &self,
        txn: &mut Transaction,
        scope: &Scope<'_>,
        into: Into,
    ) -> Result<(ObjectId, Arc<dyn Table>), SchemaError> {
        let id = match into {
            Into::New(new) => self.create_table(txn, scope, new).await?,
            Into::Empty(id) => id,
        };
        let made = local(txn).and_then(|own| own.changes.objects.get(&id)?.as_ref()?.table());
        Ok((id, made.expect("just made").table.clone()))
    }

    /// Whoever is told how many rows there are, is told of commits that may not be durable yet.
    pub(crate) fn note_told(&self, txn: &mut Transaction) {
        txn.snapshot().note_seen(self.engine().now());
    }
}
