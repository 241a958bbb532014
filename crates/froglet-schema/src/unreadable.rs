//! What recovery has found in the catalog and can make nothing of. It takes no other object with it:
//!
//! ```text
//!   a row of the catalog that is no definition     ┐
//!   a table whose definition contradicts itself    ├─▶ CatalogVersion.unreadable: its name is taken, who names it
//!   … whose rows break a unique key                │   is told why; DROP … gives it up
//!   … whose lazy migration cannot be compiled      ┘
//! ```
//!
//! X1: nothing is freed that it may need: as long as there is one, no row space without a table is garbage, and
//!     what its migration reads is kept.
//! X2: who writes a table that it refers to, or that refers to it, is refused: nobody can look whether its rows agree.

use std::collections::HashMap;
use std::sync::Arc;

use froglet_engine::{SpaceId, SqlState};
use froglet_txn::Transaction;

use crate::apply::{Scope, local_set};
use crate::catalog::{Catalog, CatalogVersion};
use crate::def::{ConstraintKind, IndexName, ObjectId, TableDef};
use crate::error::SchemaError;
use crate::local::{Remains, local_mut};
use crate::plain::{Gone, Part};
use crate::role::ROLE_NAMES;

/// See the module.
#[derive(Clone, Debug)]
pub struct Unreadable {
    /// Its id.
    pub id: ObjectId,
    /// What it is, as far as that is known: relation, type, schema, …
    pub kind: String,
    /// Its schema, of what is in one.
    pub schema: Option<String>,
    /// Its name.
    pub name: String,
    /// What is wrong with it.
    pub why: String,
    /// Of a table of which that much is known.
    pub def: Option<Box<TableDef>>,
    /// The names of its indexes.
    pub indexes: Vec<IndexName>,
}

impl Unreadable {
    /// A row of the catalog, by the key that it has there.
    pub(crate) fn of_key(id: ObjectId, key: &str, why: String) -> Unreadable {
        let (kind, place) = match key.strip_prefix('\x01').and_then(|key| key.split_once('\x01')) {
            Some((kind, place)) => (kind, place),
            None if key.starts_with(&format!("{ROLE_NAMES}.")) => ("role", key),
            None => ("relation", key),
        };
        let (schema, name) = match (kind, place.split_once('.')) {
            ("relation" | "type", Some((schema, name))) => (Some(schema.to_owned()), name),
            ("role", Some((_, name))) => (None, name),
            _ => (None, place),
        };
        let (kind, name) = (kind.to_owned(), name.to_owned());
        Unreadable { id, kind, schema, name, why, def: None, indexes: Vec::new() }
    }

    /// A table.
    pub(crate) fn of_table(def: &TableDef, why: String) -> Unreadable {
        let index = |index: &crate::def::IndexDef| IndexName {
            id: index.id,
            schema: def.schema.clone(),
            name: index.name.clone(),
            table: def.id,
        };
        Unreadable {
            id: def.id,
            kind: "relation".to_owned(),
            schema: Some(def.schema.clone()),
            name: def.name.clone(),
            why,
            indexes: def.indexes.iter().map(index).collect(),
            def: Some(Box::new(def.clone())),
        }
    }

    /// Whoever names it is told.
    pub fn error(&self) -> SchemaError {
        let Unreadable { kind, name, .. } = self;
        let verb = match kind.as_str() {
            "relation" => "TABLE".to_owned(),
            kind => kind.to_uppercase(),
        };
        SchemaError::refused(
            SqlState::DATA_CORRUPTED,
            format!("{kind} \"{name}\" cannot be used: what is stored of it cannot be read"),
        )
        .with_detail(self.why.clone())
        .with_hint(format!(
            "Everything else can be used. A server that can read it finds it as it was; DROP {verb} gives it up."
        ))
    }

    /// The row spaces that it may need.
    pub(crate) fn spaces(&self) -> Vec<SpaceId> {
        let Some(def) = &self.def else { return Vec::new() };
        let read = def.lazy.as_ref().map(|lazy| lazy.spaces_read());
        read.unwrap_or_default().into_iter().chain([def.space]).collect()
    }
}

impl TableDef {
    /// What in it contradicts itself, if anything does.
    pub(crate) fn contradiction(&self) -> Option<String> {
        let has = |id| self.column_by_id(id).is_some();
        let mut ids: Vec<_> = self.all_columns().map(|column| column.id).collect();
        ids.sort_unstable();
        if ids.windows(2).any(|pair| pair[0] == pair[1]) {
            return Some("two columns have the same number".to_owned());
        }
        for index in &self.indexes {
            let columns = index.spec.key.iter().map(|part| part.column);
            if !columns.chain(index.notes.include.iter().copied()).all(has) {
                return Some(format!("index \"{}\" is over a column that it has not", index.name));
            }
            if index.spec.key.len() < usize::from(index.notes.partial) {
                return Some(format!("index \"{}\" has no key", index.name));
            }
        }
        for constraint in &self.constraints {
            let name = &constraint.name;
            let is_sound = match &constraint.kind {
                ConstraintKind::PrimaryKey(id) | ConstraintKind::Unique(id) => {
                    self.index_by_id(*id).is_some()
                }
                ConstraintKind::Check(check) => check.columns.iter().copied().all(has),
                ConstraintKind::ForeignKey(key) => {
                    key.columns.iter().copied().all(has)
                        && key.columns.len() == key.parent_columns.len()
                }
            };
            if !is_sound {
                return Some(format!("constraint \"{name}\" is over what it has not"));
            }
        }
        let of_lazy = self.lazy_columns.iter().flat_map(|lazy| {
            lazy.inputs.iter().map(move |id| lazy.source.column_by_id(*id).is_some())
        });
        if !of_lazy.into_iter().all(|known| known) {
            return Some("a column is computed from one that it never had".to_owned());
        }
        None
    }
}

impl CatalogVersion {
    /// What is known of an object that cannot be read.
    pub fn unreadable(&self, id: ObjectId) -> Option<&Unreadable> {
        Some(self.unreadable.get(&id)?)
    }

    /// All that cannot be read, by id.
    pub fn all_unreadable(&self) -> Vec<&Unreadable> {
        let mut all: Vec<&Unreadable> = self.unreadable.values().map(|found| &**found).collect();
        all.sort_by_key(|found| found.id);
        all
    }

    /// XX001 if it cannot be read.
    pub fn readable(&self, id: ObjectId) -> Result<(), SchemaError> {
        self.unreadable(id).map_or(Ok(()), |found| Err(found.error()))
    }

    /// It cannot be read.
    pub(crate) fn set_unreadable(&mut self, found: Unreadable) {
        tracing::error!(
            id = found.id,
            kind = found.kind,
            schema = found.schema,
            name = found.name,
            why = found.why,
            "an object of the catalog cannot be read; everything else can be used"
        );
        self.tables.remove(&found.id);
        let unreadable: &mut HashMap<_, _> = Arc::make_mut(&mut self.unreadable);
        unreadable.insert(found.id, Arc::new(found));
    }
}

impl Catalog {
    /// DROP of what cannot be read.
    pub(crate) async fn drop_unreadable(
        &self,
        txn: &mut Transaction,
        scope: &Scope<'_>,
        id: ObjectId,
        cascade: bool,
    ) -> Result<(), SchemaError> {
        let found = scope.view.unreadable(id).ok_or(SchemaError::Stale)?.clone();
        let what = format!("{} {}", found.kind, found.name);
        let gone = Gone { relation: id, part: Part::All, what: &what };
        self.release_views(txn, scope, gone, cascade).await?;
        let is_to_it = |kind: &ConstraintKind| matches!(kind, ConstraintKind::ForeignKey(key) if key.parent == id);
        let view = self.view(txn);
        for child in view.tables.values() {
            if !child.def.constraints.iter().any(|c| is_to_it(&c.kind)) {
                continue;
            }
            if !cascade {
                return Err(SchemaError::refused(
                    SqlState::DEPENDENT_OBJECTS_STILL_EXIST,
                    format!("cannot drop {what} because other objects depend on it"),
                )
                .with_detail(format!("a foreign key of table {} depends on {what}", child.def.name))
                .with_hint("Use DROP ... CASCADE to drop the dependent objects too."));
            }
            let mut def = child.def.clone();
            def.constraints.retain(|c| !is_to_it(&c.kind));
            self.rewrite(txn, scope, child, def).await?;
        }
        let owned = view.sequences.values();
        let owned = owned.filter(|s| s.owned_by.is_some_and(|(table, _)| table == id));
        for sequence in owned.map(|s| s.id).collect::<Vec<_>>() {
            self.drop_object(txn, scope, sequence).await?;
        }
        for index in &found.indexes {
            let locked = self.store.lock(txn, index.id, scope.limits).await?;
            self.store.delete(txn, locked, scope.limits).await?;
        }
        self.drop_object(txn, scope, id).await?;
        let space = found.def.as_ref().map(|def| Remains::Space(def.space));
        local_mut(txn).changes.replaced.extend(space);
        local_set(txn, id, None);
        Ok(())
    }
}
