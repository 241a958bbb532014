//! A role, with those whose privileges it has.

use std::collections::HashSet;

use froglet_engine::ColumnId;
use froglet_schema::access::{AccessDef, DATABASE_OWNER, EVERYBODY, Grant, PG_CLASS, PG_DATABASE};
use froglet_schema::{CatalogVersion, ObjectId, RoleDef};

use super::acl::{effective, may_system};
use super::{DATABASE_OID, Kind, bits, kind_of};

/// Somebody who may do something, or not.
pub(crate) struct Who<'a> {
    pub(crate) catalog: &'a CatalogVersion,
    pub(crate) role: ObjectId,
    pub(crate) superuser: bool,
    /// The roles whose privileges it has, its own first.
    roles: Vec<ObjectId>,
}

impl<'a> Who<'a> {
    /// The role of a name; nobody, if it is gone: then it has what everybody has.
    pub(crate) fn named(catalog: &'a CatalogVersion, name: &str) -> Who<'a> {
        match catalog.role(name) {
            Some(role) => Who::of(catalog, &role),
            None => Who::everybody(catalog),
        }
    }

    pub(crate) fn of(catalog: &'a CatalogVersion, role: &RoleDef) -> Who<'a> {
        let superuser = role.superuser;
        let roles = if superuser { vec![role.id] } else { inherited(catalog, role.id) };
        Who { catalog, role: role.id, superuser, roles }
    }

    pub(crate) fn of_id(catalog: &'a CatalogVersion, role: ObjectId) -> Who<'a> {
        match catalog.role_by_id(role) {
            Some(def) => Who::of(catalog, &def),
            None => Who { catalog, role, superuser: false, roles: vec![role] },
        }
    }

    /// PUBLIC
    pub(crate) fn everybody(catalog: &'a CatalogVersion) -> Who<'a> {
        Who { catalog, role: EVERYBODY, superuser: false, roles: Vec::new() }
    }

    /// Whether it has the privileges of a role.
    pub(crate) fn has(&self, role: ObjectId) -> bool {
        self.superuser || self.roles.contains(&role)
    }

    /// Those whose privileges it has.
    pub(crate) fn roles(&self) -> &[ObjectId] {
        &self.roles
    }

    /// Whether it is a member of a role, or that role, whether it inherits from it or not.
    pub(crate) fn is_member(&self, role: ObjectId) -> bool {
        let own = || self.catalog.role_by_id(self.role);
        self.has(role) || own().is_some_and(|own| self.catalog.is_member(&own, role))
    }

    /// Whether it owns an object.
    pub(crate) fn owns(&self, class: ObjectId, object: ObjectId) -> bool {
        self.superuser || self.has(self.catalog.owner(class, object))
    }

    /// Whether it owns a relation; an index is its table's.
    pub(crate) fn owns_relation(&self, relation: ObjectId) -> bool {
        let relation = self.catalog.index(relation).map_or(relation, |(table, _)| table.def.id);
        self.owns(PG_CLASS, relation)
    }

    /// What a list of grants gives it.
    pub(crate) fn given(&self, grants: &[Grant]) -> u16 {
        let mine = grants.iter().filter(|g| g.grantee == EVERYBODY || self.has(g.grantee));
        mine.fold(0, |all, grant| all | grant.privileges)
    }

    /// What it may grant, of an object of this owner.
    pub(crate) fn grantable(&self, kind: Kind, owner: ObjectId, grants: &[Grant]) -> u16 {
        if self.has(owner) {
            return kind.all();
        }
        let mine = grants.iter().filter(|g| self.has(g.grantee) && g.grantee != EVERYBODY);
        mine.fold(0, |all, grant| all | grant.options)
    }

    /// What it may do with an object.
    pub(crate) fn privileges(&self, kind: Kind, object: ObjectId) -> u16 {
        if self.superuser {
            return kind.all();
        }
        if kind == Kind::Table && object < froglet_schema::def::FIRST_USER_ID {
            return if may_system(object) { bits::SELECT } else { 0 };
        }
        let access = self.catalog.access_or_unsaid(kind.class(), object);
        self.given(&effective(kind, &access))
    }

    /// What it may do with a relation, of which it has not been told the kind.
    pub(crate) fn on_relation(&self, relation: ObjectId) -> u16 {
        self.privileges(kind_of(self.catalog, relation), relation)
    }

    /// What it may do with a column, beside what it may do with its table.
    pub(crate) fn on_column(&self, access: Option<&AccessDef>, column: ColumnId) -> u16 {
        if self.superuser {
            return Kind::Column.all();
        }
        access.map_or(0, |access| self.given(access.column(column)))
    }

    /// Whether it may use a schema, or make something in it.
    pub(crate) fn may_in_schema(&self, schema: &str, privilege: u16) -> bool {
        if self.superuser || crate::temporary::is_temporary(schema) {
            return true;
        }
        match self.catalog.schema(schema) {
            Some(def) => self.privileges(Kind::Schema, def.id) & privilege != 0,
            // The system's may be used; what is not there is somebody else's error.
            None => true,
        }
    }

    /// Whether it may do something with the database.
    pub(crate) fn may_with_database(&self, privilege: u16) -> bool {
        self.privileges(Kind::Database, DATABASE_OID) & privilege != 0
    }
}

/// A role, and those that it inherits from.
fn inherited(catalog: &CatalogVersion, role: ObjectId) -> Vec<ObjectId> {
    let (mut all, mut seen, mut next) = (Vec::new(), HashSet::new(), vec![role]);
    while let Some(id) = next.pop() {
        if !seen.insert(id) {
            continue;
        }
        all.push(id);
        if let Some(def) = catalog.role_by_id(id).filter(|def| def.inherit) {
            next.extend(def.member_of.iter().map(|membership| membership.role));
        }
        if id == catalog.owner(PG_DATABASE, DATABASE_OID) {
            next.push(DATABASE_OWNER);
        }
    }
    all
}
