//! Applying a change: lock, edit, migrate, write the catalog.

mod dropped;
mod followed;
pub(crate) mod in_cluster;
mod rename;
mod scope;
pub(crate) mod set_home;

use dropped::Dropped;
use rename::{rename, rename_constraint};

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use froglet_engine::{ColumnId, Layout, SqlState, Table, Ts};
use froglet_txn::{Isolation, Limits, Transaction};

use crate::apply_as::Into;
use crate::catalog::{Catalog, CatalogVersion, TableVersion};
use crate::change::{Change, Fill, NewTable, NewType, TableQuery};
use crate::def::{ForeignKeyDef, IndexName, ObjectDef, ObjectId, SequenceDef, TableDef};
use crate::drawn::Drawn;
use crate::edit::{self, Edited, Surroundings, Work};
use crate::edit_constraint;
use crate::error::SchemaError;
use crate::flip::carry::{carry_rows, take_over_drawn};
use crate::local::{Changed, Local, Remains, local, local_mut};
use crate::migration::Migration;
use crate::pairing;
use crate::plain::{Gone, Part};
use crate::rows::types_of;
use crate::status::MigrationOptions;
use crate::step::{Step, StepKind, positions};

/// What a change has made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// The object's id, if it made one.
    pub object: Option<ObjectId>,
    /// Rows of a table that was made of others.
    pub rows: u64,
}

/// What every step of an application has at hand.
pub(crate) struct Scope<'a> {
    pub(crate) view: Arc<CatalogVersion>,
    pub(crate) options: &'a MigrationOptions,
    pub(crate) limits: &'a Limits,
    /// Tables that are read as they were for an earlier statement of the transaction. It holds them, and may
    /// have changed or dropped them since.
    pub(crate) then: &'a [Arc<TableVersion>],
}

impl Catalog {
    /// Makes one change in a transaction. Everything it needs from the data is scanned before it
    /// returns; what changes afterwards is captured until the commit.
    pub async fn apply(
        &self,
        txn: &mut Transaction,
        change: Change,
        options: &MigrationOptions,
        limits: &Limits,
    ) -> Result<Applied, SchemaError> {
        txn.part();
        self.note_statement(txn, &options.statement, options.revert_retention);
        let scope = Scope { view: self.view(txn), options, limits, then: &[] };
        let steps = |txn: &Transaction| local(txn).map_or(0, |own| own.changes.count_steps());
        let before = steps(txn);
        let applied = self.apply_change(txn, scope, change).await?;
        if steps(txn) == before {
            return Ok(applied);
        }
        // What has been written since the scan waits to follow: not for the commit, if that comes now.
        let migrations = local(txn).map(|own| own.migrations.clone()).unwrap_or_default();
        let reduced = Migration::reduce_backlogs(&migrations);
        migrations.iter().for_each(|migration| migration.slow_writers(Duration::ZERO));
        reduced.map(|()| applied)
    }

    async fn apply_change(
        &self,
        txn: &mut Transaction,
        mut scope: Scope<'_>,
        change: Change,
    ) -> Result<Applied, SchemaError> {
        if let Change::CreateTableAs { table, query } = change {
            in_cluster::check_made(&table, &query)?;
            self.fill_own_columns(txn, &mut scope, &query.tables()).await?;
            return match query {
                TableQuery::Lazy { query, verify, recipe, fallback } => {
                    self.verify_lazy(txn, &mut scope, &query, verify, &recipe).await?;
                    let made = self.make_lazily(txn, &scope, table, query, recipe).await?;
                    if let (Some(id), Some(fallback)) = (made.object, fallback) {
                        self.set_fallback(txn, &scope, id, fallback)?;
                    }
                    Ok(made)
                }
                query => self.make_eagerly(txn, scope, Into::New(table), &query).await,
            };
        }
        if let Change::SetHome { table, home, lazily } = change {
            return self.set_home(txn, scope, table, (home, lazily)).await;
        }
        let object = self.apply_plain(txn, &scope, change).await?;
        Ok(Applied { object, rows: 0 })
    }

    /// A change that makes no rows. Returns the object that it made.
    async fn apply_plain(
        &self,
        txn: &mut Transaction,
        scope: &Scope<'_>,
        change: Change,
    ) -> Result<Option<ObjectId>, SchemaError> {
        let limits = scope.limits;
        match change {
            Change::CreateTable(new) => self.create_table(txn, scope, new).await.map(Some),
            Change::DropTable { table, cascade } => {
                self.drop_table(txn, scope, table, cascade).await.map(|()| None)
            }
            Change::Truncate { table } => self.truncate(txn, scope, table).await.map(|()| None),
            Change::CreateSequence(def) => self.create_sequence(txn, scope, def).await.map(Some),
            Change::DropSequence { sequence } => {
                self.drop_object(txn, scope, sequence).await.map(|()| None)
            }
            Change::AlterSequence(def) => self.alter_sequence(txn, scope, def).await.map(|()| None),
            Change::CreatePlain(def) => self.create_plain(txn, scope, def).await.map(Some),
            Change::ReplacePlain(def) => self.replace_plain(txn, scope, def).await.map(|()| None),
            Change::DropPlain { object } => {
                self.drop_plain(txn, scope, object).await.map(|()| None)
            }
            Change::DropUnreadable { object, cascade } => {
                self.drop_unreadable(txn, scope, object, cascade).await.map(|()| None)
            }
            Change::Role(change) => self.change_role(txn, scope, change).await,
            Change::CreateIndex { table, index } => {
                let base = scope.table(table)?.clone();
                let locked = self.store.lock(txn, table, limits).await?;
                let taken = scope.taken(&base.def.schema);
                let (edited, id) =
                    edit::create_index(&base.def, &index, &taken, &mut || self.next_id())?;
                let object = edited.def.index_by_id(id).expect("just made").id;
                self.alter(txn, scope, (&base, &base), locked, edited).await?;
                Ok(Some(object))
            }
            other => {
                let table = other.table().expect("every other change names its table");
                let base = scope.table(table)?.clone();
                let locked = self.store.lock(txn, table, limits).await?;
                let noted = self.note_columns(txn, &base.def, &other)?;
                if let Change::RenameTable { schema, .. } = &other
                    && *schema != base.def.schema
                {
                    self.hold_schema(txn, scope, schema).await?;
                }
                match &other {
                    Change::DropColumn { column, cascade, .. } => {
                        self.release_column(txn, scope, &base.def, column, *cascade).await?;
                    }
                    Change::DropConstraint { name, cascade, .. } => {
                        self.release_constraint(txn, scope, &base.def, name, *cascade).await?;
                    }
                    Change::AlterTypes { columns, .. } => {
                        for NewType { column, .. } in columns {
                            if let Some(def) = base.def.column(column) {
                                self.not_in_views(txn, table, column, def.id)?;
                            }
                        }
                    }
                    _ => {}
                }
                let before = match &other {
                    Change::AlterTypes { before, .. } => before.clone(),
                    _ => None,
                };
                let dropped = Dropped::of(&base.def, &other);
                let (mut edited, cascade) = self.edit(scope, &base.def, other)?;
                for (at, from) in noted {
                    if edited.def.columns[at].id != from {
                        self.note_retyped(txn, table, from, edited.def.columns[at].id);
                    }
                }
                let referred = (&base.def, &dropped);
                let own = self.release_references(txn, scope, referred, &edited, cascade).await?;
                edited.def.constraints.retain(|constraint| !own.contains(&constraint.name));
                let followers = self.followers(txn, scope, &edited).await?;
                let after = edited.def.clone();
                let read = before.as_deref().unwrap_or(&base);
                self.alter(txn, scope, (&base, read), locked, edited).await?;
                self.follow_columns(txn, scope, &base.def, &after).await?;
                self.follow(txn, scope, followers).await?;
                Ok(None)
            }
        }
    }

    /// Keeps the sequences that defaults take their values from, and did not before.
    async fn hold_drawn(
        &self,
        txn: &mut Transaction,
        scope: &Scope<'_>,
        before: Option<&TableDef>,
        after: &TableDef,
    ) -> Result<(), SchemaError> {
        let is_new =
            |id: &ObjectId| after.draws_from(*id) && !before.is_some_and(|b| b.draws_from(*id));
        let drawn: Vec<ObjectId> = scope.view.sequences.keys().copied().filter(is_new).collect();
        for sequence in drawn {
            self.hold_object(txn, sequence, scope.limits).await?;
        }
        Ok(())
    }

    pub(crate) async fn alter_sequence(
        &self,
        txn: &mut Transaction,
        scope: &Scope<'_>,
        def: SequenceDef,
    ) -> Result<(), SchemaError> {
        let locked = self.store.lock(txn, def.id, scope.limits).await?;
        if scope.view.sequences.get(&def.id).is_none_or(|before| before.schema != def.schema) {
            self.hold_schema(txn, scope, &def.schema).await?;
        }
        let object = ObjectDef::Sequence(def.clone());
        self.store.update(txn, locked, &object, scope.limits).await?;
        local_set(txn, def.id, Some(Changed::Sequence(Arc::new(def))));
        Ok(())
    }

    /// Views that group by a primary key which is about to go.
    async fn release_constraint(
        &self,
        txn: &mut Transaction,
        scope: &Scope<'_>,
        def: &TableDef,
        name: &str,
        cascade: bool,
    ) -> Result<(), SchemaError> {
        let Some(constraint) = def.constraint(name) else { return Ok(()) };
        let what = format!("constraint {name} on table {}", def.name);
        let gone = Gone { relation: def.id, part: Part::Constraint(constraint.id), what: &what };
        self.release_views(txn, scope, gone, cascade).await
    }

    /// Views and comments of a column that is about to go.
    async fn release_column(
        &self,
        txn: &mut Transaction,
        scope: &Scope<'_>,
        def: &TableDef,
        column: &str,
        cascade: bool,
    ) -> Result<(), SchemaError> {
        let Some(column) = def.column(column) else { return Ok(()) };
        let what = format!("column {} of table {}", column.name, def.name);
        let gone = Gone { relation: def.id, part: Part::Column(column.id), what: &what };
        self.release_views(txn, scope, gone, cascade).await?;
        self.drop_comments(txn, scope, def.id, Some(column.id)).await
    }

    /// The pure part of a change of one table, and whether it cascades.
    fn edit(
        &self,
        scope: &Scope<'_>,
        def: &TableDef,
        change: Change,
    ) -> Result<(Edited, bool), SchemaError> {
        let next_id = &mut || self.next_id();
        let edited = match change {
            Change::AddColumn { column, fill, .. } => {
                edit::add_column(def, ColumnId(self.next_id()?), column, fill)?
            }
            Change::DropColumn { column, cascade, .. } => {
                return Ok((edit::drop_column(def, &column)?, cascade));
            }
            Change::DropConstraint { name, cascade, .. } => {
                return Ok((edit::drop_constraint(def, &name)?, cascade));
            }
            Change::RestoreColumn { column, at, .. } => edit::restore_column(def, column, at)?,
            Change::RenameColumn { column, name, .. } => edit::rename_column(def, &column, &name)?,
            Change::AlterTypes { columns, checks, .. } => {
                let mut edited = edit::alter_types(def, columns, checks, next_id)?;
                let table = |id| scope.view.tables.get(&id).map(|t| t.def.clone());
                pairing::ask_again(def, &mut edited, &table)?;
                edited
            }
            Change::SetNotNull { column, check, .. } => {
                edit::set_not_null(def, &column, true, Some(check))?
            }
            Change::DropNotNull { column, .. } => edit::set_not_null(def, &column, false, None)?,
            Change::SetDefault { column, default, .. } => edit::set_default(def, &column, default)?,
            Change::SetDictionary { column, dictionary, .. } => {
                edit::set_dictionary(def, column.as_deref(), dictionary)?
            }
            Change::AddConstraint { constraint, .. } => {
                let taken = scope.taken(&def.schema);
                let table = |id| scope.view.tables.get(&id).map(|t| t.def.clone());
                let around = Surroundings { taken: &taken, table: &table };
                edit::add_constraint(def, constraint, &around, next_id)?
            }
            Change::AddNotValid { constraint, .. } => {
                let taken = scope.taken(&def.schema);
                let table = |id| scope.view.tables.get(&id).map(|t| t.def.clone());
                let around = Surroundings { taken: &taken, table: &table };
                edit_constraint::add_not_valid(def, constraint, &around, next_id)?
            }
            Change::ValidateConstraint { name, check, .. } => {
                edit_constraint::validate_constraint(def, &name, check)?
            }
            Change::AddConstraintOfIndex { index, name, primary, .. } => {
                edit_constraint::add_constraint_of_index(def, index, name, primary, next_id)?
            }
            Change::AlterConstraint { name, timing, .. } => {
                edit_constraint::alter_constraint(def, &name, timing)?
            }
            Change::DropIndex { index, .. } => edit::drop_index(def, index)?,
            Change::RenameTable { schema, name, .. } => rename(def, |d| {
                (d.schema, d.name) = (schema, name);
                Ok(())
            })?,
            Change::RenameIndex { index, name, .. } => rename(def, |d| {
                let found = d.indexes.iter_mut().find(|i| i.id == index);
                found.ok_or(SchemaError::Stale)?.name = name;
                Ok(())
            })?,
            Change::RenameConstraint { constraint, name, .. } => {
                rename(def, |d| rename_constraint(d, &constraint, name))?
            }
            Change::CreateTable(_)
            | Change::CreateTableAs { .. }
            | Change::SetHome { .. }
            | Change::DropTable { .. }
            | Change::Truncate { .. }
            | Change::CreateIndex { .. }
            | Change::CreateSequence(_)
            | Change::DropSequence { .. }
            | Change::AlterSequence(_)
            | Change::CreatePlain(_)
            | Change::ReplacePlain(_)
            | Change::DropPlain { .. }
            | Change::DropUnreadable { .. }
            | Change::Role(_) => unreachable!("handled by the caller"),
        };
        Ok((edited, false))
    }

    /// Gives a table its new definition: migrates what the data needs, then writes the catalog. What is computed
    /// is computed of rows as a version has them from before the whole statement.
    async fn alter(
        &self,
        txn: &mut Transaction,
        scope: &Scope<'_>,
        (base, before): (&TableVersion, &TableVersion),
        locked: crate::store::Locked,
        mut edited: Edited,
    ) -> Result<(), SchemaError> {
        if self.computes_in_cluster(txn, &base.def, &edited) {
            return self.compute_in_cluster(txn, scope, (base, before), edited).await;
        }
        self.check_in_cluster(txn, &base.def, &mut edited)?;
        let looked_at = self.verify_moved(txn, scope, &base.def, &edited).await?;
        self.prepare_lazy(txn, &base.def, &mut edited, looked_at, scope.limits)?;
        self.prepare_lazy_columns(txn, scope, before, &mut edited).await?;
        self.label_columns(txn, scope, &mut edited.def).await?;
        self.hold_drawn(txn, scope, Some(&base.def), &edited.def).await?;
        let Edited { def, work, old_indexes, .. } = edited;
        let space = def.space;
        let mut created = created(&base.def, &def);
        created.retain(|remains| !self.change_log.keeps(remains));
        let parents = asked_parents(&base.def, &def, &work);
        local_mut(txn).created.extend(created);
        let rows = self.open_table(&def)?;
        for parent in parents {
            self.refer_to(txn, scope, parent, def.id).await?;
        }
        self.refer_in_cluster(txn, scope, Some(&base.def), &def).await?;
        if !work.is_empty() {
            self.migrate(txn, scope, (base, before), &def, work).await?;
        }
        // Children that came with the change, the table itself among them.
        let def = keep_references(&scope.view, local_mut(txn), def);
        self.store.update(txn, locked, &ObjectDef::Table(def.clone()), scope.limits).await?;
        self.sync_index_rows(txn, scope, Some(&base.def), Some(&def)).await?;
        let local = local_mut(txn);
        let replaced = &mut local.changes.replaced;
        replaced.extend(lost_columns(&base.def, &def));
        replaced.extend(old_indexes.iter().map(|i| Remains::Index(space, i.spec.id)));
        local.set_table(TableVersion::new(def, Ts(0), rows));
        Ok(())
    }

    /// Runs the steps that a change needs from the data.
    pub(crate) async fn migrate(
        &self,
        txn: &mut Transaction,
        scope: &Scope<'_>,
        (base, before): (&TableVersion, &TableVersion),
        def: &TableDef,
        work: Vec<Work>,
    ) -> Result<(), SchemaError> {
        let layout = union(&before.def, union(&base.def, def.layout()));
        let rows = self.engine().open(def.space, Arc::new(layout))?;
        for item in work {
            if rows.online_indexes().is_some() {
                self.work_online(txn, scope, def, (&*rows, item)).await?;
                continue;
            }
            let since = txn.savepoint();
            let is_kept = !item.is_of_rows();
            if let Work::ForeignKey(name) | Work::KeptForeignKey(name) = &item {
                self.migrate_key(txn, scope, (base, def), &rows, (name, is_kept)).await?;
                continue;
            }
            let kind = step_kind(&*rows, def, item);
            let step = Step::new(kind, rows.clone(), since, self.engine().clone());
            self.run_step(txn, scope, def, step).await?;
        }
        Ok(())
    }

    pub(crate) async fn run_step(
        &self,
        txn: &mut Transaction,
        scope: &Scope<'_>,
        def: &TableDef,
        step: Step,
    ) -> Result<(), SchemaError> {
        let migration = self.migration(txn, def, &step, scope.options)?;
        let (space, fills) = (step.table.space(), matches!(step.kind, StepKind::Fill { .. }));
        migration.run_step(step, scope.options, scope.limits, &mut renewal(txn)).await?;
        let steps = migration.steps();
        if let (true, Some(step)) = (fills, steps.last()) {
            // Fills are logged before the transaction is: rows of its own would be recovered without.
            let rows = txn.part().rows_written(space);
            match step.kind {
                StepKind::Fill { drawn: Some(_), .. } => {
                    take_over_drawn(txn, step, def, &rows, scope.limits).await?;
                }
                _ => carry_rows(txn, step, Some(def), &rows, None, scope.limits).await?,
            }
        }
        local_mut(txn).changes.steps.insert(space, steps);
        Ok(())
    }

    /// Enters a child into its parent's definition, of which there is a new version even where it has the child
    /// already: who writes parents under the older one knows nothing of the foreign key, and has to look at it when
    /// it follows.
    async fn refer_to(
        &self,
        txn: &mut Transaction,
        scope: &Scope<'_>,
        parent: ObjectId,
        child: ObjectId,
    ) -> Result<(), SchemaError> {
        let is_made = |own: &Local| {
            own.changes.makers.contains_key(&parent) && !own.changes.moved.contains_key(&parent)
        };
        if local(txn).is_some_and(is_made) {
            // Whoever deletes a row of its source knows nothing of the children.
            return Err(SchemaError::refused(
                SqlState::FEATURE_NOT_SUPPORTED,
                "a foreign key to a table that the same transaction makes of another is not supported",
            )
            .with_hint("Commit the new table first, then add the foreign key."));
        }
        if parent == child {
            return Ok(());
        }
        let base = scope.table(parent)?.clone();
        let mut def = base.def.clone();
        if !def.referenced_by.contains(&child) {
            def.referenced_by.push(child);
        }
        self.rewrite(txn, scope, &base, def).await
    }

    /// Writes a definition that differs in nothing that rows care about.
    pub(crate) async fn rewrite(
        &self,
        txn: &mut Transaction,
        scope: &Scope<'_>,
        base: &TableVersion,
        def: TableDef,
    ) -> Result<(), SchemaError> {
        let locked = self.store.lock(txn, def.id, scope.limits).await?;
        self.store.update(txn, locked, &ObjectDef::Table(def.clone()), scope.limits).await?;
        let table = self.open_table(&def)?;
        let version = TableVersion::new(def, Ts(0), table);
        debug_assert_eq!(version.def.space, base.def.space, "rows stay where they are");
        let lost = lost_columns(&base.def, &version.def);
        local_mut(txn).changes.replaced.extend(lost);
        local_mut(txn).set_table(version);
        Ok(())
    }

    /// Foreign keys that need an index which this change takes away: dropped with CASCADE, else a refusal. The names of the
    /// table's own, which are the caller's to drop.
    async fn release_references(
        &self,
        txn: &mut Transaction,
        scope: &Scope<'_>,
        (def, dropped): (&TableDef, &Dropped),
        edited: &Edited,
        cascade: bool,
    ) -> Result<Vec<String>, SchemaError> {
        let follows = |id| edited.new_ids.indexes.iter().any(|(old, _)| *old == id);
        let gone = edited.old_indexes.iter().map(|i| i.spec.id);
        let gone: Vec<_> = gone.filter(|id| !follows(*id)).collect();
        let is_hit = |(_, fk): &(&str, &ForeignKeyDef)| {
            fk.parent == def.id && gone.contains(&fk.parent_index)
        };
        let mut own = Vec::new();
        for id in &def.referenced_by {
            let version = scope.view.tables.get(id).filter(|_| *id != def.id);
            let child = match version {
                Some(version) => &version.def,
                None if *id == def.id => &edited.def,
                None => continue,
            };
            let hit: Vec<_> = child.foreign_keys().filter(is_hit).collect();
            if let (Some((name, key)), false) = (hit.first(), cascade) {
                return Err(dropped.refused(def, child, name, key));
            }
            let names: Vec<String> = hit.into_iter().map(|(name, _)| name.to_owned()).collect();
            match version {
                Some(version) if !names.is_empty() => {
                    let mut changed = version.def.clone();
                    changed.constraints.retain(|c| !names.contains(&c.name));
                    self.rewrite(txn, scope, version, changed).await?;
                }
                Some(_) => {}
                None => own.extend(names),
            }
        }
        Ok(own)
    }

    pub(crate) async fn create_table(
        &self,
        txn: &mut Transaction,
        scope: &Scope<'_>,
        new: NewTable,
    ) -> Result<ObjectId, SchemaError> {
        if scope.view.names.contains_key(&(new.schema.clone(), new.name.clone())) {
            return Err(already_exists(&new.name));
        }
        self.hold_schema(txn, scope, &new.schema).await?;
        let id = self.next_id()?;
        let mut def = TableDef {
            id,
            schema: new.schema,
            name: new.name,
            engine: new.home.name().to_owned(),
            space: new.home.space(id),
            columns: vec![],
            indexes: vec![],
            row_key: None,
            constraints: vec![],
            referenced_by: vec![],
            dictionary: new.dictionary,
            lazy: None,
            lazy_columns: vec![],
            hidden: vec![],
        };
        for (id, column) in (1..).map(ColumnId).zip(new.columns) {
            let fill = Fill::Constant(froglet_engine::Value::Null);
            def = edit::add_column(&def, id, column, fill)?.def;
        }
        for constraint in new.constraints {
            let names: Vec<String> = def.indexes.iter().map(|i| i.name.clone()).collect();
            let schema = def.schema.clone();
            let others = scope.taken(&schema);
            let taken = |name: &str| others(name) || names.iter().any(|n| n == name);
            let table = |id| scope.view.tables.get(&id).map(|t| t.def.clone());
            let around = Surroundings { taken: &taken, table: &table };
            def = edit::add_constraint(&def, constraint, &around, &mut || self.next_id())?.def;
        }
        if def.refers_to_itself() {
            def.referenced_by.push(id);
        }
        in_cluster::place_rows(&mut def)?;
        self.label_columns(txn, scope, &mut def).await?;
        self.hold_drawn(txn, scope, None, &def).await?;
        self.engine().create_space(def.space)?;
        local_mut(txn).created.push(Remains::Space(def.space));
        let table = self.engine().open(def.space, Arc::new(def.layout()))?;
        self.store.insert(txn, &ObjectDef::Table(def.clone()), scope.limits).await?;
        self.sync_index_rows(txn, scope, None, Some(&def)).await?;
        let parents: BTreeSet<_> = def.foreign_keys().map(|(_, fk)| fk.parent).collect();
        for parent in parents {
            self.refer_to(txn, scope, parent, id).await?;
        }
        self.refer_in_cluster(txn, scope, None, &def).await?;
        let version = TableVersion::new(def, Ts(0), table);
        local_mut(txn).set_table(version);
        Ok(id)
    }

    pub(crate) async fn drop_table(
        &self,
        txn: &mut Transaction,
        scope: &Scope<'_>,
        id: ObjectId,
        cascade: bool,
    ) -> Result<(), SchemaError> {
        let base = scope.table(id)?.clone();
        self.store.lock(txn, id, scope.limits).await?;
        let query = scope.view.materialized(id);
        let what = match query {
            Some(view) => scope.view.called(view),
            None => format!("table {}", base.def.name),
        };
        let gone = Gone { relation: id, part: Part::All, what: &what };
        self.release_views(txn, scope, gone, cascade).await?;
        let children: Vec<ObjectId> =
            base.def.referenced_by.iter().copied().filter(|child| *child != id).collect();
        for child in children {
            let Some(version) = scope.view.tables.get(&child).cloned() else { continue };
            if !version.def.foreign_keys().any(|(_, fk)| fk.parent == id) {
                // It had one, and may get another: not now.
                self.store.lock(txn, child, scope.limits).await?;
                continue;
            }
            if !cascade {
                return Err(SchemaError::refused(
                    SqlState::DEPENDENT_OBJECTS_STILL_EXIST,
                    format!(
                        "cannot drop table {} because other objects depend on it",
                        base.def.name
                    ),
                )
                .with_detail(format!(
                    "a foreign key of table {} depends on table {}",
                    version.def.name, base.def.name
                ))
                .with_hint("Use DROP ... CASCADE to drop the dependent objects too."));
            }
            let mut def = version.def.clone();
            def.constraints.retain(|c| match &c.kind {
                crate::def::ConstraintKind::ForeignKey(fk) => fk.parent != id,
                _ => true,
            });
            self.rewrite(txn, scope, &version, def).await?;
        }
        for (_, fk) in base.def.foreign_keys() {
            let Some(parent) = self.view(txn).tables.get(&fk.parent).cloned() else { continue };
            if parent.def.id != id && parent.def.referenced_by.contains(&id) {
                let mut def = parent.def.clone();
                def.referenced_by.retain(|child| *child != id);
                self.rewrite(txn, scope, &parent, def).await?;
            }
        }
        let owned: Vec<ObjectId> = scope
            .view
            .sequences
            .values()
            .filter(|s| s.owned_by.is_some_and(|(table, _)| table == id))
            .map(|s| s.id)
            .collect();
        for sequence in owned {
            self.drop_object(txn, scope, sequence).await?;
        }
        self.sync_index_rows(txn, scope, Some(&base.def), None).await?;
        self.drop_object(txn, scope, id).await?;
        local_mut(txn).changes.replaced.push(Remains::Space(base.def.space));
        if let Some(query) = query {
            self.drop_plain(txn, scope, query.id).await?;
        }
        Ok(())
    }

    pub(crate) async fn drop_object(
        &self,
        txn: &mut Transaction,
        scope: &Scope<'_>,
        id: ObjectId,
    ) -> Result<(), SchemaError> {
        let locked = self.store.lock(txn, id, scope.limits).await?;
        self.store.delete(txn, locked, scope.limits).await?;
        self.store.unheld(txn, locked, scope.limits).await?;
        if scope.view.sequences.contains_key(&id) {
            self.all_seen(txn, &|catalog| drawing(catalog, id))?;
        }
        self.all_comments_seen(txn, id)?;
        local_set(txn, id, None);
        self.drop_access(txn, scope, id).await?;
        self.drop_comments(txn, scope, id, None).await
    }

    /// TRUNCATE is a new row space: the old rows go when no snapshot needs them.
    async fn truncate(
        &self,
        txn: &mut Transaction,
        scope: &Scope<'_>,
        id: ObjectId,
    ) -> Result<(), SchemaError> {
        let base = scope.table(id)?.clone();
        let locked = self.store.lock(txn, id, scope.limits).await?;
        self.empty_in_cluster(txn, scope, &base.def)?;
        let mut def = base.def.clone();
        def.space = base.def.space.home().space(self.next_id()?);
        def.lazy = None;
        def.lazy_columns.clear();
        // New rows are with nobody's.
        def.row_key.iter_mut().for_each(|row_key| row_key.within = None);
        self.engine().create_space(def.space)?;
        let table = self.engine().open(def.space, Arc::new(def.layout()))?;
        self.store.update(txn, locked, &ObjectDef::Table(def.clone()), scope.limits).await?;
        let local = local_mut(txn);
        local.created.push(Remains::Space(def.space));
        local.changes.replaced.push(Remains::Space(base.def.space));
        local.changes.truncated.insert(id);
        local.changes.steps.remove(&base.def.space);
        local.changes.moved.remove(&id);
        local.set_table(TableVersion::new(def, Ts(0), table));
        Ok(())
    }

    async fn create_sequence(
        &self,
        txn: &mut Transaction,
        scope: &Scope<'_>,
        mut def: SequenceDef,
    ) -> Result<ObjectId, SchemaError> {
        if scope.view.names.contains_key(&(def.schema.clone(), def.name.clone())) {
            return Err(already_exists(&def.name));
        }
        self.hold_schema(txn, scope, &def.schema).await?;
        def.id = self.next_id()?;
        self.store.insert(txn, &ObjectDef::Sequence(def.clone()), scope.limits).await?;
        let id = def.id;
        local_set(txn, id, Some(Changed::Sequence(Arc::new(def))));
        local_mut(txn).created.push(Remains::Sequence(id));
        Ok(id)
    }

    /// Keeps the rows that hold index names in line with a table's indexes.
    async fn sync_index_rows(
        &self,
        txn: &mut Transaction,
        scope: &Scope<'_>,
        before: Option<&TableDef>,
        after: Option<&TableDef>,
    ) -> Result<(), SchemaError> {
        let names = |def: Option<&TableDef>| -> Vec<IndexName> {
            let Some(def) = def else { return vec![] };
            let name = |i: &crate::def::IndexDef| IndexName {
                id: i.id,
                schema: def.schema.clone(),
                name: i.name.clone(),
                table: def.id,
            };
            def.indexes.iter().map(name).collect()
        };
        let (before, after) = (names(before), names(after));
        for old in before.iter().filter(|old| after.iter().all(|new| new.id != old.id)) {
            let locked = self.store.lock(txn, old.id, scope.limits).await?;
            self.store.delete(txn, locked, scope.limits).await?;
        }
        for new in &after {
            let object = ObjectDef::Index(new.clone());
            match before.iter().find(|old| old.id == new.id) {
                Some(old) if old == new => {}
                Some(_) => {
                    let locked = self.store.lock(txn, new.id, scope.limits).await?;
                    self.store.update(txn, locked, &object, scope.limits).await?;
                }
                None => self.store.insert(txn, &object, scope.limits).await?,
            }
        }
        Ok(())
    }
}

/// Moves the transaction's read view on while it scans, if it may move.
pub(crate) fn renewal(txn: &mut Transaction) -> impl FnMut() + Send {
    let moves = txn.isolation() == Isolation::ReadCommitted;
    move || {
        if moves {
            txn.part().refresh();
        }
    }
}

fn already_exists(name: &str) -> SchemaError {
    SchemaError::refused(SqlState::DUPLICATE_TABLE, format!("relation \"{name}\" already exists"))
}

pub(crate) fn local_set(txn: &mut Transaction, id: ObjectId, changed: Option<Changed>) {
    let local = local_mut(txn);
    local.changes.objects.insert(id, changed);
    local.view = None;
}

/// Columns and indexes that are new.
fn created(before: &TableDef, after: &TableDef) -> Vec<Remains> {
    let columns = after.whole_layout().columns.into_iter().filter(|c| !before.stores(c.id));
    let indexes = after.indexes.iter().filter(|i| before.index_by_id(i.spec.id).is_none());
    columns
        .map(|c| Remains::Column(after.space, c.id))
        .chain(indexes.map(|i| Remains::Index(after.space, i.spec.id)))
        .collect()
}

/// Columns that nobody needs under the newer definition, seen or not.
pub(crate) fn lost_columns(before: &TableDef, after: &TableDef) -> Vec<Remains> {
    let columns = before.whole_layout().columns.into_iter().filter(|c| !after.stores(c.id));
    columns.map(|c| Remains::Column(before.space, c.id)).collect()
}

/// Tables with defaults that take values from a sequence.
fn drawing(catalog: &CatalogVersion, sequence: ObjectId) -> Vec<ObjectId> {
    let tables = catalog.tables.values().filter(|table| table.def.draws_from(sequence));
    tables.map(|table| table.def.id).collect()
}

/// Parents of foreign keys that are new, or for which every child is looked at, each once.
fn asked_parents(before: &TableDef, after: &TableDef, work: &[Work]) -> BTreeSet<ObjectId> {
    let is_asked = |name: &str| {
        let is_its = |work: &Work| match work {
            Work::ForeignKey(of) | Work::KeptForeignKey(of) => of == name,
            _ => false,
        };
        before.constraint(name).is_none() || work.iter().any(is_its)
    };
    after.foreign_keys().filter(|(name, _)| is_asked(name)).map(|(_, fk)| fk.parent).collect()
}

/// A self-referencing table lists itself among its children.
fn keep_references(
    view: &CatalogVersion,
    local: &crate::local::Local,
    mut def: TableDef,
) -> TableDef {
    let changed = local.changes.objects.get(&def.id).and_then(|c| c.as_ref()?.table().cloned());
    let current = changed.or_else(|| view.tables.get(&def.id).cloned());
    if let Some(current) = current {
        for child in &current.def.referenced_by {
            if !def.referenced_by.contains(child) {
                def.referenced_by.push(*child);
            }
        }
    }
    if def.refers_to_itself() && !def.referenced_by.contains(&def.id) {
        def.referenced_by.push(def.id);
    }
    def
}

/// The columns of both versions and the indexes of the new: what a migration reads and writes.
fn union(before: &TableDef, after: Layout) -> Layout {
    let mut layout = after;
    for column in before.layout().columns {
        if layout.position(column.id).is_none() {
            layout.columns.push(column);
        }
    }
    layout
}

fn step_kind(rows: &dyn Table, def: &TableDef, work: Work) -> StepKind {
    match work {
        Work::Fill { target, transform, not_null, .. } => {
            let column = def.column_by_id(target).expect("the edit added the column");
            let source = positions(rows, transform.inputs());
            let drawn = transform.is_volatile().then(|| Drawn::new(types_of(rows, &source)));
            StepKind::Fill {
                source,
                target: positions(rows, &[target])[0],
                ty: column.ty,
                transform,
                filled: None,
                not_null: not_null.then(|| edit::not_null_violation(&def.name, &column.name)),
                drawn,
            }
        }
        Work::Verify(check, demand) => {
            StepKind::Verify { source: positions(rows, check.inputs()), check, demand }
        }
        Work::Index(id) => {
            let index = def.index_by_id(id).expect("the edit added the index");
            StepKind::Index {
                position: rows.layout().index_position(id).expect("the layout has the new index"),
                name: index.name.clone(),
                key: def.key_shown(index),
                unwritten: usize::from(index.notes.partial),
            }
        }
        Work::ForeignKey(_) | Work::KeptForeignKey(_) => {
            unreachable!("a foreign key has two steps, made by the caller")
        }
    }
}
