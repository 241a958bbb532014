//! Who may do what: ownership, GRANT and REVOKE, and the checks of statements.
//!
//! ```text
//!   acl.rs      what is granted: defaults, GRANT and REVOKE on a list of grants, as PostgreSQL prints it
//!   who.rs      a role with all that it is a member of, and what it may
//!   needs.rs    what a statement needs, from its syntax tree
//!   check.rs    whether it may: once for each plan ([`crate::prepared::CachedPlan::denied`])
//!   ddl.rs      whether a schema change may be made, and who owns what it makes
//!   parse.rs, grant.rs, owned.rs    GRANT, REVOKE, ALTER DEFAULT PRIVILEGES, OWNER TO, REASSIGN and DROP OWNED
//!   functions.rs                    has_table_privilege and its kind
//! ```
//! What is kept is an object of the catalog ([`froglet_schema::access`]).
//!
//! W1: what runs for a user asks here first, under the catalog version that it runs under. Of the past, that of now
//!     is asked.
//! W2: nothing is asked for superusers, but for what others' views read.

pub(crate) mod acl;
pub(crate) mod check;
mod ddl;
pub(crate) mod functions;
mod grant;
mod needs;
mod owned;
pub mod parse;
mod sources;
mod who;

pub(crate) use owned::Makes;
pub(crate) use who::Who;

use froglet_schema::access::{PG_CLASS, PG_DATABASE, PG_NAMESPACE, PG_TYPE};
use froglet_schema::{CatalogVersion, ObjectId};

use crate::error::SqlError;
use crate::roles::denied;

/// The oid of the one database.
pub(crate) const DATABASE_OID: ObjectId = 5;

/// What may be granted, by the bits of PostgreSQL.
pub(crate) mod bits {
    pub(crate) const INSERT: u16 = 1 << 0;
    pub(crate) const SELECT: u16 = 1 << 1;
    pub(crate) const UPDATE: u16 = 1 << 2;
    pub(crate) const DELETE: u16 = 1 << 3;
    pub(crate) const TRUNCATE: u16 = 1 << 4;
    pub(crate) const REFERENCES: u16 = 1 << 5;
    pub(crate) const TRIGGER: u16 = 1 << 6;
    pub(crate) const EXECUTE: u16 = 1 << 7;
    pub(crate) const USAGE: u16 = 1 << 8;
    pub(crate) const CREATE: u16 = 1 << 9;
    pub(crate) const TEMPORARY: u16 = 1 << 10;
    pub(crate) const CONNECT: u16 = 1 << 11;
}

/// Names of privileges, their letters and bits, in the order in which they are printed.
pub(crate) const PRIVILEGES: [(&str, char, u16); 12] = [
    ("INSERT", 'a', bits::INSERT),
    ("SELECT", 'r', bits::SELECT),
    ("UPDATE", 'w', bits::UPDATE),
    ("DELETE", 'd', bits::DELETE),
    ("TRUNCATE", 'D', bits::TRUNCATE),
    ("REFERENCES", 'x', bits::REFERENCES),
    ("TRIGGER", 't', bits::TRIGGER),
    ("EXECUTE", 'X', bits::EXECUTE),
    ("USAGE", 'U', bits::USAGE),
    ("CREATE", 'C', bits::CREATE),
    ("TEMPORARY", 'T', bits::TEMPORARY),
    ("CONNECT", 'c', bits::CONNECT),
];

/// Kinds of objects that privileges are granted on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Views, too.
    Table,
    Column,
    Sequence,
    Schema,
    Database,
    Type,
}

impl Kind {
    /// All that there is to grant.
    pub(crate) fn all(self) -> u16 {
        use bits::*;
        match self {
            Kind::Table => INSERT | SELECT | UPDATE | DELETE | TRUNCATE | REFERENCES | TRIGGER,
            Kind::Column => INSERT | SELECT | UPDATE | REFERENCES,
            Kind::Sequence => SELECT | UPDATE | USAGE,
            Kind::Schema => USAGE | CREATE,
            Kind::Database => CREATE | TEMPORARY | CONNECT,
            Kind::Type => USAGE,
        }
    }

    /// What everybody has as long as nothing is said.
    pub(crate) fn of_everybody(self) -> u16 {
        match self {
            Kind::Database => bits::TEMPORARY | bits::CONNECT,
            Kind::Type => bits::USAGE,
            Kind::Table | Kind::Column | Kind::Sequence | Kind::Schema => 0,
        }
    }

    /// The system catalog of such objects.
    pub(crate) fn class(self) -> ObjectId {
        match self {
            Kind::Table | Kind::Column | Kind::Sequence => PG_CLASS,
            Kind::Schema => PG_NAMESPACE,
            Kind::Database => PG_DATABASE,
            Kind::Type => PG_TYPE,
        }
    }

    /// As errors call them.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Kind::Table => "table",
            Kind::Column => "column",
            Kind::Sequence => "sequence",
            Kind::Schema => "schema",
            Kind::Database => "database",
            Kind::Type => "type",
        }
    }
}

/// 42501: `permission denied for table t`
pub(crate) fn no_privilege(what: &str, name: &str) -> SqlError {
    denied(format!("permission denied for {what} {name}"))
}

/// 42501: `must be owner of table t`
pub(crate) fn not_owner(what: &str, name: &str) -> SqlError {
    denied(format!("must be owner of {what} {name}"))
}

/// What errors call a relation: its kind, and its name.
pub(crate) fn called(catalog: &CatalogVersion, relation: ObjectId) -> (&'static str, String) {
    if let Some(table) = catalog.tables.get(&relation) {
        let what = match catalog.materialized(relation) {
            Some(_) => "materialized view",
            None => "table",
        };
        return (what, table.def.name.clone());
    }
    if let Some(view) = catalog.view(relation) {
        return ("view", view.name.clone());
    }
    if let Some(sequence) = catalog.sequences.get(&relation) {
        return ("sequence", sequence.name.clone());
    }
    if let Some((table, at)) = catalog.index(relation) {
        return ("index", table.def.indexes[at].name.clone());
    }
    let system = crate::pgcatalog::SPECS.iter().find(|spec| spec.oid == relation);
    match system {
        Some(spec) if spec.kind == 'v' => ("view", spec.name.to_owned()),
        Some(spec) => ("table", spec.name.to_owned()),
        None => ("table", relation.to_string()),
    }
}

/// The kind of a relation, as grants on it go.
pub(crate) fn kind_of(catalog: &CatalogVersion, relation: ObjectId) -> Kind {
    match catalog.sequences.contains_key(&relation) {
        true => Kind::Sequence,
        false => Kind::Table,
    }
}
