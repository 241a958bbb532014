//! Who owns an object, and who may do what with it.
//!
//! ```text
//!   AccessDef   (pg_class, 16385)  owner 16390   { anna=r/16390, =r/16390 }   #2: { bob=w/16390 }
//!               no AccessDef:      owner 10, nothing granted
//!   DefaultAccess   of a role, in a schema or in all: what its new objects of a kind begin with
//! ```
//!
//! Both are objects of the catalog ([`PlainDef`]). They name objects, columns and roles by their ids, so that
//! renames leave them alone.
//!
//! G1: who grants something on an object, or to a role, keeps the row of that object and of that role until its
//!     transaction ends; who drops one looks after that for what has been granted.

use std::sync::Arc;

use froglet_engine::ColumnId;
use froglet_txn::Transaction;
use serde::{Deserialize, Serialize};

use crate::apply::{Scope, local_set};
use crate::catalog::{Catalog, CatalogVersion};
use crate::def::{FIRST_USER_ID, ObjectId, TableDef};
use crate::error::SchemaError;
use crate::local::{Changed, local};
use crate::plain::{PUBLIC_ID, PlainDef};
use crate::role::INITIAL_ROLE;

/// The grantee that is everybody.
pub const EVERYBODY: ObjectId = 0;
/// pg_database_owner: the role of which the database's owner is a member.
pub const DATABASE_OWNER: ObjectId = 6_171;
/// pg_class's own oid.
pub const PG_CLASS: ObjectId = 1_259;
/// pg_type's own oid.
pub const PG_TYPE: ObjectId = 1_247;
/// pg_namespace's own oid.
pub const PG_NAMESPACE: ObjectId = 2_615;
/// pg_database's own oid.
pub const PG_DATABASE: ObjectId = 1_262;

/// What one role has granted to another, or to everybody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// To whom.
    pub grantee: ObjectId,
    /// By whom.
    pub grantor: ObjectId,
    /// A bit for each privilege.
    pub privileges: u16,
    /// Those of them that the grantee may grant.
    pub options: u16,
}

/// Who owns an object, and what is granted on it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccessDef {
    /// Its own id.
    pub id: ObjectId,
    /// The kind of object: the oid of its system catalog.
    pub class: ObjectId,
    /// The object.
    pub object: ObjectId,
    /// Its owner.
    pub owner: ObjectId,
    /// What is granted; `None`: what goes without saying.
    pub grants: Option<Vec<Grant>>,
    /// What is granted on columns alone, by column.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub columns: Vec<(ColumnId, Vec<Grant>)>,
}

/// What new objects of a role begin with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DefaultAccess {
    /// Its own id.
    pub id: ObjectId,
    /// The role.
    pub role: ObjectId,
    /// In which schema; 0: in all.
    pub schema: ObjectId,
    /// The kind of object, as pg_default_acl has it.
    pub kind: char,
    /// All that they have (in all schemas), or have beside that (in one).
    pub grants: Vec<Grant>,
}

impl AccessDef {
    /// Of an object of which nothing is said.
    pub fn unsaid(class: ObjectId, object: ObjectId) -> AccessDef {
        let owner = match (class, object) {
            (PG_NAMESPACE, PUBLIC_ID) => DATABASE_OWNER,
            _ => INITIAL_ROLE,
        };
        AccessDef { id: 0, class, object, owner, grants: None, columns: Vec::new() }
    }

    /// Whether it says no more than nothing does.
    pub fn is_unsaid(&self) -> bool {
        AccessDef { id: self.id, ..AccessDef::unsaid(self.class, self.object) } == *self
    }

    /// What is granted on a column.
    pub fn column(&self, column: ColumnId) -> &[Grant] {
        self.columns.iter().find(|(id, _)| *id == column).map_or(&[], |(_, grants)| grants)
    }

    /// All grants, of the object and of its columns.
    pub fn all(&self) -> impl Iterator<Item = &Grant> {
        let columns = self.columns.iter().flat_map(|(_, grants)| grants);
        self.grants.iter().flatten().chain(columns)
    }

    /// Whether a role is its owner, or is named in its grants.
    pub fn names(&self, role: ObjectId) -> bool {
        self.owner == role || self.all().any(|g| g.grantee == role || g.grantor == role)
    }
}

impl CatalogVersion {
    /// Who owns an object and may do what with it, if anything is said of that.
    pub fn access(&self, class: ObjectId, object: ObjectId) -> Option<&AccessDef> {
        match &**self.plain.get(self.access.get(&(class, object))?)? {
            PlainDef::Access(def) => Some(def),
            _ => None,
        }
    }

    /// The same, as it is where nothing is said.
    pub fn access_or_unsaid(&self, class: ObjectId, object: ObjectId) -> AccessDef {
        self.access(class, object).cloned().unwrap_or_else(|| AccessDef::unsaid(class, object))
    }

    /// An object's owner.
    pub fn owner(&self, class: ObjectId, object: ObjectId) -> ObjectId {
        let unsaid = || AccessDef::unsaid(class, object).owner;
        self.access(class, object).map_or_else(unsaid, |access| access.owner)
    }

    /// Everything that is said of owners and grants, in the order of its ids.
    pub fn all_access(&self) -> Vec<&AccessDef> {
        let all = self.access.keys().filter_map(|(class, object)| self.access(*class, *object));
        let mut all: Vec<_> = all.collect();
        all.sort_by_key(|def| def.id);
        all
    }

    /// What says that a role owns something, or that something is granted to it or by it.
    pub fn naming(&self, role: ObjectId) -> Vec<ObjectId> {
        let access = self.all_access().into_iter().filter(|def| def.names(role)).map(|def| def.id);
        let defaults = self.default_access().into_iter().filter(|def| {
            def.role == role || def.grants.iter().any(|g| g.grantee == role || g.grantor == role)
        });
        access.chain(defaults.map(|def| def.id)).collect()
    }

    /// What new objects begin with, in the order of ids.
    pub fn default_access(&self) -> Vec<&DefaultAccess> {
        let all = self.plain.values().filter_map(|def| match &**def {
            PlainDef::DefaultAccess(def) => Some(def),
            _ => None,
        });
        let mut all: Vec<_> = all.collect();
        all.sort_by_key(|def| def.id);
        all
    }
}

/// Objects of these kinds have rows of their own.
const HAVE_ROWS: [ObjectId; 3] = [PG_CLASS, PG_TYPE, PG_NAMESPACE];

impl Catalog {
    /// Keeps an object, and the roles that are named, until the transaction ends [G1].
    pub(crate) async fn hold_named(
        &self,
        txn: &mut Transaction,
        scope: &Scope<'_>,
        def: &PlainDef,
    ) -> Result<(), SchemaError> {
        let mut held: Vec<ObjectId> = match def {
            PlainDef::Access(def) => {
                let roles = def.all().flat_map(|grant| [grant.grantee, grant.grantor]);
                roles.chain([def.owner, def.object]).collect()
            }
            PlainDef::DefaultAccess(def) => {
                let roles = def.grants.iter().flat_map(|grant| [grant.grantee, grant.grantor]);
                roles.chain([def.role, def.schema]).collect()
            }
            PlainDef::Comment(def) if HAVE_ROWS.contains(&def.class) => vec![def.object],
            _ => return Ok(()),
        };
        held.sort_unstable();
        held.dedup();
        // What a new database has is there for ever, or in no row.
        for id in held.into_iter().filter(|id| *id >= FIRST_USER_ID) {
            self.store.hold(txn, id, scope.limits).await?;
        }
        Ok(())
    }

    /// What is said of an object's owner and grants goes with it.
    pub(crate) async fn drop_access(
        &self,
        txn: &mut Transaction,
        scope: &Scope<'_>,
        object: ObjectId,
    ) -> Result<(), SchemaError> {
        let view = self.view(txn);
        let newest = self.latest();
        let of_it = |catalog: &CatalogVersion| -> Vec<ObjectId> {
            let all = catalog.plain.values().filter(|def| match &***def {
                PlainDef::Access(def) => def.object == object,
                PlainDef::DefaultAccess(def) => def.schema == object,
                _ => false,
            });
            all.map(|def| def.id()).collect()
        };
        let mut gone = of_it(&view);
        gone.extend(of_it(&newest));
        gone.sort_unstable();
        gone.dedup();
        for id in gone {
            if local(txn).is_some_and(|own| matches!(own.changes.objects.get(&id), Some(None))) {
                continue;
            }
            let locked = self.store.lock(txn, id, scope.limits).await?;
            self.store.delete(txn, locked, scope.limits).await?;
            local_set(txn, id, None);
        }
        Ok(())
    }

    /// What is granted on columns, and said of them, and their sequences, stay theirs when they get other ids, and go
    /// with them.
    pub(crate) async fn follow_columns(
        &self,
        txn: &mut Transaction,
        scope: &Scope<'_>,
        before: &TableDef,
        after: &TableDef,
    ) -> Result<(), SchemaError> {
        let ids = |def: &TableDef| def.columns.iter().map(|c| c.id).collect::<Vec<_>>();
        if ids(before) == ids(after) {
            return Ok(());
        }
        let view = self.view(txn);
        let now = |id: ColumnId| {
            if after.columns.iter().any(|column| column.id == id) {
                return Some(id);
            }
            let was = before.columns.iter().find(|column| column.id == id)?;
            let now = after.columns.iter().find(|column| column.name == was.name)?;
            Some(now.id)
        };
        if let Some(known) = view.access(PG_CLASS, before.id).filter(|a| !a.columns.is_empty()) {
            let mut def = known.clone();
            let columns = std::mem::take(&mut def.columns).into_iter();
            def.columns = columns.filter_map(|(id, grants)| Some((now(id)?, grants))).collect();
            if def != *known {
                self.replace_access(txn, scope, PlainDef::Access(def)).await?;
            }
        }
        for comment in view.comments() {
            if (comment.class, comment.object) != (PG_CLASS, before.id) || comment.column.0 == 0 {
                continue;
            }
            if let Some(id) = now(comment.column).filter(|id| *id != comment.column) {
                let mut def = comment.clone();
                def.column = id;
                self.replace_access(txn, scope, PlainDef::Comment(def)).await?;
            }
        }
        for sequence in view.sequences.values() {
            let Some((table, column)) = sequence.owned_by else { continue };
            if table == before.id
                && let Some(id) = now(column).filter(|id| *id != column)
            {
                let mut def = (**sequence).clone();
                def.owned_by = Some((table, id));
                self.alter_sequence(txn, scope, def).await?;
            }
        }
        Ok(())
    }

    async fn replace_access(
        &self,
        txn: &mut Transaction,
        scope: &Scope<'_>,
        def: PlainDef,
    ) -> Result<(), SchemaError> {
        let id = def.id();
        let gone = |own: &crate::local::Local| matches!(own.changes.objects.get(&id), Some(None));
        if local(txn).is_some_and(gone) {
            return Ok(());
        }
        let locked = self.store.lock(txn, id, scope.limits).await?;
        let object = crate::def::ObjectDef::Plain(def.clone());
        self.store.update(txn, locked, &object, scope.limits).await?;
        local_set(txn, id, Some(Changed::Plain(Arc::new(def))));
        Ok(())
    }
}
