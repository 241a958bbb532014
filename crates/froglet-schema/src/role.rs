//! Roles: who may connect, and as what.
//!
//! A role is an object of the catalog like any other, so that CREATE ROLE rolls back and survives a restart.
//! The superuser that a new database has is in no row until somebody alters it: [`RoleDef::initial`].
//!
//! ```text
//!   CatalogVersion::roles   those that were made or altered
//!   CatalogVersion::role    the same, and the initial one
//! ```

use std::collections::HashSet;
use std::sync::Arc;

use froglet_txn::Transaction;
use serde::{Deserialize, Serialize};

use crate::apply::{Scope, local_set};
use crate::catalog::{Catalog, CatalogVersion};
use crate::def::{ObjectDef, ObjectId};
use crate::error::SchemaError;
use crate::local::Changed;

/// The initial superuser's id, as in PostgreSQL.
pub const INITIAL_ROLE: ObjectId = 10;
/// What keeps the names of roles apart from those of relations in the catalog's table: no schema is called so.
pub(crate) const ROLE_NAMES: &str = "pg_authid";

/// A role.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoleDef {
    /// Its id.
    pub id: ObjectId,
    /// Its name.
    pub name: String,
    /// SUPERUSER
    pub superuser: bool,
    /// INHERIT
    pub inherit: bool,
    /// CREATEROLE
    pub create_role: bool,
    /// CREATEDB
    pub create_db: bool,
    /// LOGIN
    pub login: bool,
    /// REPLICATION
    pub replication: bool,
    /// BYPASSRLS
    pub bypass_rls: bool,
    /// CONNECTION LIMIT; -1 for none.
    pub connection_limit: i32,
    /// What a password is checked against; opaque to this crate. Empty: none, and none of the configuration.
    pub password: Option<String>,
    /// VALID UNTIL, in microseconds since 1970.
    pub valid_until_us: Option<i64>,
    /// The roles that it is a member of.
    pub member_of: Vec<Membership>,
    /// What its sessions begin with: settings and their values.
    #[serde(default)]
    pub settings: Vec<(String, String)>,
    /// The same in the one database that there is, before the others.
    #[serde(default)]
    pub database_settings: Vec<(String, String)>,
}

/// That a role is a member of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Membership {
    /// The other.
    pub role: ObjectId,
    /// WITH ADMIN OPTION
    pub admin: bool,
    /// Who has granted it.
    pub grantor: ObjectId,
}

/// A change of a role.
#[derive(Clone, Debug)]
pub enum RoleChange {
    /// CREATE ROLE; the id is given here.
    Create(RoleDef),
    /// ALTER ROLE, GRANT role, REVOKE role: what it is to be.
    Alter(RoleDef),
    /// DROP ROLE
    Drop(ObjectId),
}

impl RoleDef {
    /// As CREATE ROLE makes it without options.
    pub fn new(name: impl Into<String>) -> RoleDef {
        RoleDef {
            id: 0,
            name: name.into(),
            superuser: false,
            inherit: true,
            create_role: false,
            create_db: false,
            login: false,
            replication: false,
            bypass_rls: false,
            connection_limit: -1,
            password: None,
            valid_until_us: None,
            member_of: Vec::new(),
            settings: Vec::new(),
            database_settings: Vec::new(),
        }
    }

    /// The superuser of a new database.
    pub fn initial() -> RoleDef {
        RoleDef {
            id: INITIAL_ROLE,
            superuser: true,
            create_role: true,
            create_db: true,
            login: true,
            replication: true,
            bypass_rls: true,
            ..RoleDef::new("postgres")
        }
    }
}

impl CatalogVersion {
    /// Every role, in no order.
    pub fn all_roles(&self) -> Vec<Arc<RoleDef>> {
        let mut all: Vec<_> = self.roles.values().cloned().collect();
        if !self.roles.contains_key(&INITIAL_ROLE) {
            all.push(Arc::new(RoleDef::initial()));
        }
        all
    }

    /// The role of a name.
    pub fn role(&self, name: &str) -> Option<Arc<RoleDef>> {
        self.all_roles().into_iter().find(|role| role.name == name)
    }

    /// The role of an id.
    pub fn role_by_id(&self, id: ObjectId) -> Option<Arc<RoleDef>> {
        match self.roles.get(&id) {
            None if id == INITIAL_ROLE => Some(Arc::new(RoleDef::initial())),
            found => found.cloned(),
        }
    }

    /// Whether a role is another or a member of it, be it by others.
    pub fn is_member(&self, role: &RoleDef, of: ObjectId) -> bool {
        let mut seen = HashSet::new();
        let mut next = vec![role.id];
        while let Some(id) = next.pop() {
            if id == of {
                return true;
            }
            if seen.insert(id) {
                let known = self.role_by_id(id);
                next.extend(known.iter().flat_map(|r| r.member_of.iter().map(|m| m.role)));
            }
        }
        false
    }
}

impl Catalog {
    pub(crate) async fn change_role(
        &self,
        txn: &mut Transaction,
        scope: &Scope<'_>,
        change: RoleChange,
    ) -> Result<Option<ObjectId>, SchemaError> {
        let (id, def) = match change {
            RoleChange::Create(mut def) => {
                def.id = self.next_id()?;
                self.store.insert(txn, &ObjectDef::Role(def.clone()), scope.limits).await?;
                (def.id, Some(def))
            }
            RoleChange::Alter(def) if !scope.view.roles.contains_key(&def.id) => {
                assert_eq!(def.id, INITIAL_ROLE, "every other role has its row");
                self.store.insert(txn, &ObjectDef::Role(def.clone()), scope.limits).await?;
                (def.id, Some(def))
            }
            RoleChange::Alter(def) => {
                let locked = self.store.lock(txn, def.id, scope.limits).await?;
                let object = ObjectDef::Role(def.clone());
                self.store.update(txn, locked, &object, scope.limits).await?;
                (def.id, Some(def))
            }
            RoleChange::Drop(id) => {
                let locked = self.store.lock(txn, id, scope.limits).await?;
                self.store.delete(txn, locked, scope.limits).await?;
                self.store.unheld(txn, locked, scope.limits).await?;
                self.all_seen(txn, &|catalog| catalog.naming(id))?;
                self.drop_comments(txn, scope, id, None).await?;
                (id, None)
            }
        };
        let made = def.as_ref().map(|def| def.id);
        local_set(txn, id, def.map(|def| Changed::Role(Arc::new(def))));
        Ok(made)
    }
}
