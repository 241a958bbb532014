//! Foreign keys in a migration: their two steps, and those that follow columns of their parent to other numbers.
//!
//! ```text
//!   ALTER parent ALTER id TYPE bigint      parent    fill id', build the index over it
//!                                          child     its foreign key is to id' now; one flip with the parent
//!                                                    all children are looked at, unless 7 stays 7
//! ```

use super::*;
use crate::def::{ConstraintKind, ForeignKeyDef};
use crate::step::{ForeignKeyNames, ForeignKeyWatch};

/// A child whose foreign keys follow their parent.
pub(super) struct Follower {
    child: Arc<TableVersion>,
    locked: crate::store::Locked,
    edited: Edited,
}

impl Catalog {
    /// Whose foreign keys follow a table to other columns. They are held, so that nobody changes them meanwhile.
    pub(super) async fn followers(
        &self,
        txn: &mut Transaction,
        scope: &Scope<'_>,
        parent: &Edited,
    ) -> Result<Vec<Follower>, SchemaError> {
        let mut followers: Vec<Follower> = Vec::new();
        let mut children = parent.def.referenced_by.clone();
        children.sort_unstable();
        children.dedup();
        for id in children.into_iter().filter(|id| *id != parent.def.id) {
            let Some(child) = scope.view.tables.get(&id).cloned() else { continue };
            let Some(edited) = pairing::follow(parent, &child.def)? else { continue };
            let locked = self.store.lock(txn, id, scope.limits).await?;
            followers.push(Follower { child, locked, edited });
        }
        Ok(followers)
    }

    /// Gives them their new definitions. The parent has its own.
    pub(super) async fn follow(
        &self,
        txn: &mut Transaction,
        scope: &Scope<'_>,
        followers: Vec<Follower>,
    ) -> Result<(), SchemaError> {
        for Follower { child, locked, edited } in followers {
            let view = self.view(txn);
            let scope = Scope { view, options: scope.options, limits: scope.limits, then: &[] };
            self.alter(txn, &scope, (&child, &child), locked, edited).await?;
        }
        Ok(())
    }

    /// The steps of a foreign key: its parents are watched, its children looked at.
    pub(super) async fn migrate_key(
        &self,
        txn: &mut Transaction,
        scope: &Scope<'_>,
        (base, def): (&TableVersion, &TableDef),
        rows: &Arc<dyn Table>,
        (name, is_kept): (&str, bool),
    ) -> Result<(), SchemaError> {
        let since = txn.savepoint();
        let (mut watch, parent) = self.watch(scope, base, def, rows, name)?;
        let beside = local(txn).and_then(|own| own.migration(parent, watch.parent.space()));
        watch.is_kept = is_kept;
        watch.beside = beside.filter(|beside| beside.table_id != def.id).map(Arc::downgrade);
        let watch = Arc::new(watch);
        let step = |kind, rows| Step::new(kind, rows, since, self.engine().clone());
        let parent = scope.view.tables.get(&parent).map_or(def, |t| &t.def).clone();
        let watched = step(StepKind::Parent(watch.clone()), watch.parent.clone());
        self.run_step(txn, scope, &parent, watched).await?;
        if def.constraint(name).is_some_and(|constraint| constraint.not_valid) {
            // Nobody's rows have to have a parent but by what a statement gives them.
            return Ok(());
        }
        self.run_step(txn, scope, def, step(StepKind::Child(watch), rows.clone())).await
    }

    fn watch(
        &self,
        scope: &Scope<'_>,
        base: &TableVersion,
        def: &TableDef,
        rows: &Arc<dyn Table>,
        name: &str,
    ) -> Result<(ForeignKeyWatch, ObjectId), SchemaError> {
        let constraint = def.constraint(name).expect("the edit that asked for the work added it");
        let ConstraintKind::ForeignKey(fk) = &constraint.kind else {
            unreachable!("the work is a foreign key's")
        };
        let (parent_def, parent) = if fk.parent == base.def.id {
            (def, self.as_made(def, rows.clone()))
        } else {
            let parent = &scope.table(fk.parent)?;
            (&parent.def, self.watched(parent, fk)?)
        };
        let column = |id: &ColumnId| def.column_by_id(*id).map_or("?", |c| c.name.as_str()).into();
        let names = ForeignKeyNames {
            constraint: name.to_owned(),
            child: def.name.clone(),
            columns: fk.columns.iter().map(column).collect(),
            parent: parent_def.name.clone(),
        };
        let index = parent.layout().index_position(fk.parent_index).ok_or(SchemaError::Stale)?;
        let typed = |at: usize| (at, rows.layout().columns[at].ty);
        let child = positions(&**rows, &fk.columns).into_iter().map(typed).collect();
        let parent_key = positions(&*parent, &fk.parent_columns);
        let mut watch =
            ForeignKeyWatch::new((constraint.id, fk), names, child, parent, index, parent_key);
        let is_as_it_was = |id: &ColumnId| base.def.column_by_id(*id).is_some();
        watch.is_parent_in_place = self.is_in_place(fk.parent, parent_def);
        watch.is_child_as_it_was = fk.columns.iter().all(is_as_it_was)
            && self.is_in_place(base.def.id, def)
            && watch.is_parent_in_place;
        Ok((watch, fk.parent))
    }

    /// Whether others look for a table's rows where a definition has them.
    fn is_in_place(&self, id: ObjectId, def: &TableDef) -> bool {
        self.latest().tables.get(&id).is_none_or(|known| known.def.space == def.space)
    }

    /// The rows of a parent. Where the transaction has built their index itself, they are looked at as they are stored:
    /// all of it is there, and what the transaction's own statements see of it is not asked.
    fn watched(
        &self,
        parent: &TableVersion,
        key: &ForeignKeyDef,
    ) -> Result<Arc<dyn Table>, SchemaError> {
        let latest = self.latest();
        let known = latest.tables.get(&parent.def.id);
        let is_known = |known: &Arc<TableVersion>| {
            known.def.space == parent.def.space && known.def.index_by_id(key.parent_index).is_some()
        };
        if known.is_none_or(is_known) {
            return Ok(parent.table.clone());
        }
        let rows = self.engine().open(parent.def.space, Arc::new(parent.def.whole_layout()))?;
        Ok(self.as_made(&parent.def, rows))
    }

    /// All rows of a table, those that are still to be made included.
    fn as_made(&self, def: &TableDef, rows: Arc<dyn Table>) -> Arc<dyn Table> {
        match self.lazy_of(def) {
            Some(lazy) => lazy.over(rows),
            None => rows,
        }
    }
}
