//! Foreign keys of tables in a cluster.
//!
//! ```text
//!   CREATE TABLE … REFERENCES     whoever takes a parent's key away looks for children
//!   ADD FOREIGN KEY               and who writes a child looks for its parent; then all children are looked at
//!   ADD … NOT VALID               the same, and rows that are there may be as they are
//!   VALIDATE CONSTRAINT           the same as ADD, of what everybody knows already
//! ```
//! The engine sees to it that those do who do not know of the key yet ([`froglet_engine::online`]). Who knows of it looks when
//! he writes (`foreignkey` of froglet-sql).

use froglet_engine::OnlineForeignKey;

use super::*;
use crate::def::{ConstraintDef, ForeignKeyDef};
use crate::step::ForeignKeyNames;

/// The foreign keys of a definition that are not those of the one before, or did not have to hold.
fn new_keys<'a>(
    before: Option<&'a TableDef>,
    after: &'a TableDef,
) -> impl Iterator<Item = (&'a ConstraintDef, &'a ForeignKeyDef)> {
    let is_known = move |new: &ConstraintDef| {
        let mut known = before.into_iter().flat_map(|before| &before.constraints);
        known.any(|known| known.id == new.id && (new.not_valid || !known.not_valid))
    };
    let key = move |constraint: &'a ConstraintDef| match &constraint.kind {
        ConstraintKind::ForeignKey(key) if !is_known(constraint) => Some((constraint, key)),
        _ => None,
    };
    after.constraints.iter().filter_map(key)
}

/// Of a table whose rows are still to be made by the transaction.
pub(super) fn check_of_moved(before: &TableDef, after: &TableDef) -> Result<(), SchemaError> {
    match new_keys(Some(before), after).next() {
        Some(_) => {
            let error =
                unsupported("FOREIGN KEY of a table that the same transaction makes of another");
            Err(error.with_hint("Commit the new table first, then add the foreign key."))
        }
        None => Ok(()),
    }
}

impl Catalog {
    /// Sees to it that the foreign keys hold that a definition has and the one before has not. Their parents have the child
    /// in theirs.
    pub(in crate::apply) async fn refer_in_cluster(
        &self,
        txn: &mut Transaction,
        scope: &Scope<'_>,
        before: Option<&TableDef>,
        def: &TableDef,
    ) -> Result<(), SchemaError> {
        for (constraint, key) in new_keys(before, def) {
            let view = self.view(txn);
            let other = view.tables.get(&key.parent).filter(|_| key.parent != def.id);
            let parent = other.map_or(def, |other| &other.def);
            match (is_in_cluster(def), is_in_cluster(parent)) {
                (true, true) => {
                    self.refer_one(txn, scope, (def, constraint), (parent, key)).await?;
                }
                (false, false) => {}
                _ => return Err(unsupported("FOREIGN KEY to or from a table elsewhere")),
            }
        }
        Ok(())
    }

    /// Refuses to give a table other rows than those for which the same transaction has added a foreign key: who does not
    /// know of the key looks there.
    pub(super) fn check_own_keys(
        &self,
        scope: &Scope<'_>,
        table: &TableDef,
    ) -> Result<(), SchemaError> {
        let latest = self.latest();
        let children = table.referenced_by.iter().filter_map(|id| scope.view.tables.get(id));
        let children = children.map(|child| &child.def).filter(|child| child.id != table.id);
        for child in std::iter::once(table).chain(children) {
            let known = latest.tables.get(&child.id).map(|known| &known.def);
            for (constraint, key) in new_keys(known, child) {
                let is_its = child.id == table.id || key.parent == table.id;
                let parent = scope.view.tables.get(&key.parent).map_or(child, |t| &t.def);
                let is_added =
                    known.is_none_or(|known| known.constraint(&constraint.name).is_none());
                if is_its && is_added && (self.knows(child) || self.knows(parent)) {
                    let (name, of) = (&constraint.name, &table.name);
                    let what = format!(
                        "moving or emptying \"{of}\" in the transaction that has added foreign key \"{name}\""
                    );
                    return Err(unsupported(&what));
                }
            }
        }
        Ok(())
    }

    async fn refer_one(
        &self,
        txn: &mut Transaction,
        scope: &Scope<'_>,
        (def, constraint): (&TableDef, &ConstraintDef),
        (parent, key): (&TableDef, &ForeignKeyDef),
    ) -> Result<(), SchemaError> {
        for table in [def, parent] {
            if self.lazy_of(table).is_some() {
                return Err(unsupported(&format!(
                    "FOREIGN KEY while rows of table \"{}\" are being moved to it",
                    table.name
                ))
                .with_hint("Wait until froglet.migrations says that it is whole."));
            }
        }
        if !self.knows(def) && !self.knows(parent) && txn.rows_written(def.space).is_empty() {
            // Nobody else writes them, and what the transaction writes from now on it looks at.
            return Ok(());
        }
        let rows = self.engine().open(def.space, Arc::new(def.layout()))?;
        let parent_rows = self.engine().open(parent.space, Arc::new(parent.layout()))?;
        let parent_index = parent_rows.layout().index_position(key.parent_index);
        let parent_index = parent_index.ok_or(SchemaError::Stale)?;
        let place_of =
            |part: &KeyPart| key.parent_columns.iter().position(|column| *column == part.column);
        // For each part of the parent's key where it is in the foreign key.
        let parts = &parent_rows.layout().indexes[parent_index].key;
        let places: Vec<usize> =
            parts.iter().map(place_of).collect::<Option<_>>().ok_or(SchemaError::Stale)?;
        let columns: Vec<ColumnId> = places.iter().map(|place| key.columns[*place]).collect();
        let name =
            |id: &ColumnId| def.column_by_id(*id).map_or("?", |c| c.name.as_str()).to_owned();
        let names = ForeignKeyNames {
            constraint: constraint.name.clone(),
            child: def.name.clone(),
            columns: key.columns.iter().map(name).collect(),
            parent: parent.name.clone(),
        };
        let message = format!(
            "could not add foreign key constraint \"{}\": rows of table \"{}\" that were written meanwhile have no parent, or \
             rows of \"{}\" were deleted, or changed their keys, to which others may refer",
            constraint.name, def.name, parent.name
        );
        let violated = EngineError::Refused { state: SqlState::FOREIGN_KEY_VIOLATION, message };
        let columns = positions(&*rows, &columns);
        let types = types_of(&*rows, &positions(&*rows, &key.columns));
        let is_known = self.latest().tables.get(&def.id).is_some_and(|known| {
            known.def.constraints.iter().any(|known| known.id == constraint.id)
        });
        let wanted = OnlineForeignKey {
            id: constraint.id,
            columns,
            parent: &*parent_rows,
            parent_index,
            is_known,
            is_verified: !constraint.not_valid,
            violated,
        };
        let online = || rows.online_indexes().expect("tables in a cluster have foreign keys so");
        let building = online().refer_online(txn.part(), wanted)?;
        match until_built(building, scope).await? {
            Built::Violated(row) => {
                let in_order = |at| places.iter().position(|place| *place == at);
                let values = (0..places.len()).filter_map(in_order).map(|at| row[at].clone());
                Err(names.violation(&values.collect::<Vec<_>>(), &types))
            }
            Built::Whole | Built::Duplicate(_) => Ok(()),
        }
    }
}
