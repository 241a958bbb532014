//! Objects that have no rows: schemas, views, enum types, comments.
//!
//! ```text
//!   relations    "schema.name"          tables, sequences, indexes, views share it
//!   the others   "\x01kind\x01name"     each kind has its own names
//! ```
//!
//! They are rows of the catalog like any other object, so that they commit, roll back and conflict with it;
//! nothing has to be migrated for them.
//!
//! P1: what is in a schema holds the schema's row shared from its own making to its commit, and DROP SCHEMA
//!     deletes that row before it looks who holds it: a schema does not go from beneath what is being made
//!     in it (froglet-txn, R1).
//! P2: who makes a view holds the catalog rows of what it reads, as ALTER TABLE does: neither changes what the
//!     other rests on.
//! P3: who takes something away looks, after that and in the newest catalog, for what rests on it and is in no
//!     view of its own: then its statement runs again.

use froglet_engine::{ColumnId, SqlState};
use froglet_txn::{Isolation, Transaction, TxnError};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

use crate::access::{AccessDef, DefaultAccess};
use crate::apply::{Scope, local_set};
use crate::catalog::{Catalog, CatalogVersion};
use crate::def::{ColumnDef, Expression, FIRST_USER_ID, ObjectDef, ObjectId, SqlType, TableDef};
use crate::error::SchemaError;
use crate::local::{Changed, local};

/// The id of schema public, as in PostgreSQL.
pub const PUBLIC_ID: ObjectId = 2200;
/// Its name.
pub const PUBLIC: &str = "public";
/// What the names of schemas begin with that sessions have for themselves.
pub const TEMPORARY_PREFIX: &str = "pg_temp_";

/// A schema (namespace).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SchemaDef {
    /// Its id.
    pub id: ObjectId,
    /// Its name.
    pub name: String,
}

/// A column of a view.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ViewColumn {
    /// Its name.
    pub name: String,
    /// Its type.
    pub sql_type: SqlType,
}

/// A relation that a view reads, as the view's text knows it: whatever becomes of names afterwards.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ViewSource {
    /// Its schema, where the text names it.
    pub schema: Option<String>,
    /// Its name, in the text.
    pub name: String,
    /// The relation.
    pub relation: ObjectId,
    /// Its columns' names then, and which they are; of a view their positions, from 1.
    pub columns: Vec<(String, ColumnId)>,
    /// Those without which the view cannot be.
    pub used: Vec<ColumnId>,
}

/// A view.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ViewDef {
    /// Its id.
    pub id: ObjectId,
    /// Its schema.
    pub schema: String,
    /// Its name.
    pub name: String,
    /// Its columns, in order.
    pub columns: Vec<ViewColumn>,
    /// Its query, over `sources`.
    pub query: Expression,
    /// Where unqualified names of the query were looked up when it was made.
    pub path: Vec<String>,
    /// What it reads.
    pub sources: Vec<ViewSource>,
    /// The primary keys without which its query is none: it groups by them.
    #[serde(default)]
    pub keys: Vec<ObjectId>,
    /// WITH CHECK OPTION
    pub check_option: Option<CheckOption>,
    /// Of a materialized view. Its schema and name are then those of its table, and only there.
    #[serde(default)]
    pub materialized: Option<Materialized>,
}

/// What a materialized view has beside its query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Materialized {
    /// The table of its rows, which has its name, its indexes, and is what others read.
    pub table: ObjectId,
    /// Whether its query has been run.
    pub populated: bool,
}

/// Whether rows that are written through a view must be seen through it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CheckOption {
    /// Through this view.
    Local,
    /// Through those that it reads, too.
    Cascaded,
}

/// An enum type.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EnumDef {
    /// Its id (pg_type.oid).
    pub id: ObjectId,
    /// The id of its array type.
    pub array: ObjectId,
    /// Its schema.
    pub schema: String,
    /// Its name.
    pub name: String,
    /// Its labels, in order; pg_enum.oid and the label.
    pub labels: Vec<(ObjectId, String)>,
}

/// What is said of an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommentDef {
    /// Its own id.
    pub id: ObjectId,
    /// The kind of object: the oid of its system catalog (pg_class is 1259).
    pub class: ObjectId,
    /// The object.
    pub object: ObjectId,
    /// A column's number, from 1, or 0.
    pub column: ColumnId,
    /// The text.
    pub text: String,
}

/// An object without rows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum PlainDef {
    Schema(SchemaDef),
    View(ViewDef),
    Enum(EnumDef),
    Comment(CommentDef),
    Access(AccessDef),
    DefaultAccess(DefaultAccess),
}

impl PlainDef {
    /// Its id.
    pub fn id(&self) -> ObjectId {
        match self {
            PlainDef::Schema(def) => def.id,
            PlainDef::View(def) => def.id,
            PlainDef::Enum(def) => def.id,
            PlainDef::Comment(def) => def.id,
            PlainDef::Access(def) => def.id,
            PlainDef::DefaultAccess(def) => def.id,
        }
    }

    fn set_id(&mut self, id: ObjectId) {
        match self {
            PlainDef::Schema(def) => def.id = id,
            PlainDef::View(def) => def.id = id,
            PlainDef::Enum(def) => def.id = id,
            PlainDef::Comment(def) => def.id = id,
            PlainDef::Access(def) => def.id = id,
            PlainDef::DefaultAccess(def) => def.id = id,
        }
    }

    /// What users call it; a comment has no name.
    pub(crate) fn name(&self) -> &str {
        match self {
            PlainDef::Schema(def) => &def.name,
            PlainDef::View(def) => &def.name,
            PlainDef::Enum(def) => &def.name,
            PlainDef::Comment(_) | PlainDef::Access(_) | PlainDef::DefaultAccess(_) => "",
        }
    }

    /// The schema that it is in, if it is in one.
    pub fn schema(&self) -> Option<&str> {
        match self {
            PlainDef::Schema(_)
            | PlainDef::Comment(_)
            | PlainDef::Access(_)
            | PlainDef::DefaultAccess(_) => None,
            PlainDef::View(def) if def.materialized.is_some() => None,
            PlainDef::View(def) => Some(&def.schema),
            PlainDef::Enum(def) => Some(&def.schema),
        }
    }

    /// No two objects have the same.
    pub(crate) fn key(&self) -> String {
        match self {
            PlainDef::Schema(def) => format!("\x01schema\x01{}", def.name),
            PlainDef::View(def) => match def.materialized {
                Some(materialized) => format!("\x01query\x01{}", materialized.table),
                None => format!("{}.{}", def.schema, def.name),
            },
            PlainDef::Enum(def) => format!("\x01type\x01{}.{}", def.schema, def.name),
            PlainDef::Comment(def) => {
                format!("\x01comment\x01{}.{}.{}", def.class, def.object, def.column.0)
            }
            PlainDef::Access(def) => format!("\x01access\x01{}.{}", def.class, def.object),
            PlainDef::DefaultAccess(def) => {
                format!("\x01defaults\x01{}.{}.{}", def.role, def.schema, def.kind)
            }
        }
    }

    /// The error where another object has the key.
    pub(crate) fn already_exists(&self) -> SchemaError {
        let (state, what) = match self {
            PlainDef::Schema(def) => {
                (SqlState::DUPLICATE_SCHEMA, format!("schema \"{}\"", def.name))
            }
            PlainDef::View(def) => {
                (SqlState::DUPLICATE_TABLE, format!("relation \"{}\"", def.name))
            }
            PlainDef::Enum(def) => (SqlState::DUPLICATE_OBJECT, format!("type \"{}\"", def.name)),
            PlainDef::Comment(_) => (SqlState::DUPLICATE_OBJECT, "a comment on it".to_owned()),
            // Somebody else has granted something on it meanwhile.
            PlainDef::Access(_) | PlainDef::DefaultAccess(_) => return SchemaError::Stale,
        };
        SchemaError::refused(state, format!("{what} already exists"))
    }

    /// The relations that it cannot be without.
    pub(crate) fn rests_on(&self) -> impl Iterator<Item = ObjectId> + '_ {
        let sources = match self {
            PlainDef::View(view) => view.sources.as_slice(),
            _ => &[],
        };
        sources.iter().map(|source| source.relation)
    }
}

impl CatalogVersion {
    /// The schema of a name, if it is one that users make.
    pub fn schema(&self, name: &str) -> Option<&SchemaDef> {
        match &**self.plain.get(self.schemas.get(name)?)? {
            PlainDef::Schema(def) => Some(def),
            _ => None,
        }
    }

    /// The view of an id.
    pub fn view(&self, id: ObjectId) -> Option<&ViewDef> {
        match &**self.plain.get(&id)? {
            PlainDef::View(def) => Some(def),
            _ => None,
        }
    }

    /// Views, in the order of their ids: after those that they read.
    pub fn views(&self) -> Vec<&ViewDef> {
        let mut all = self.views_of_all_kinds();
        all.retain(|view| view.materialized.is_none());
        all
    }

    /// Materialized views too.
    pub fn views_of_all_kinds(&self) -> Vec<&ViewDef> {
        let mut all: Vec<_> = self.plain.keys().filter_map(|id| self.view(*id)).collect();
        all.sort_by_key(|view| view.id);
        all
    }

    /// What a table has the rows of, if it is a materialized view's.
    pub fn materialized(&self, table: ObjectId) -> Option<&ViewDef> {
        if self.materialized.is_empty() {
            return None;
        }
        self.view(*self.materialized.get(&table)?)
    }

    /// What errors call a view.
    pub fn called(&self, view: &ViewDef) -> String {
        match view.materialized.and_then(|m| self.tables.get(&m.table)) {
            Some(table) => format!("materialized view {}", table.def.name),
            None => format!("view {}", view.name),
        }
    }

    /// The views that read a relation.
    pub fn views_over(&self, relation: ObjectId) -> impl Iterator<Item = &ViewDef> {
        let reads = move |view: &&ViewDef| view.sources.iter().any(|s| s.relation == relation);
        self.views_of_all_kinds().into_iter().filter(reads)
    }

    /// The enum type of an id, its own or that of its array type.
    pub fn enum_of(&self, id: ObjectId) -> Option<&EnumDef> {
        if id < FIRST_USER_ID {
            return None;
        }
        self.enum_type(id).or_else(|| self.enum_types().into_iter().find(|def| def.array == id))
    }

    /// The enum type of an id.
    pub fn enum_type(&self, id: ObjectId) -> Option<&EnumDef> {
        match &**self.plain.get(&id)? {
            PlainDef::Enum(def) => Some(def),
            _ => None,
        }
    }

    /// Enum types, in the order of their ids.
    pub fn enum_types(&self) -> Vec<&EnumDef> {
        let mut all: Vec<_> = self.plain.keys().filter_map(|id| self.enum_type(*id)).collect();
        all.sort_by_key(|def| def.id);
        all
    }

    /// The same with enum types beside those that it has, whatever their names: for what is compiled again in a
    /// catalog of its own.
    pub fn with_types(mut self, types: impl IntoIterator<Item = EnumDef>) -> CatalogVersion {
        for def in types {
            self.types.insert((def.schema.clone(), def.name.clone()), def.id);
            self.plain.insert(def.id, Arc::new(PlainDef::Enum(def)));
        }
        self
    }

    /// Comments, in the order of their ids.
    pub fn comments(&self) -> Vec<&CommentDef> {
        let all = self.plain.values().filter_map(|def| match &**def {
            PlainDef::Comment(def) => Some(def),
            _ => None,
        });
        let mut all: Vec<_> = all.collect();
        all.sort_by_key(|def| def.id);
        all
    }

    /// What is said of an object, or of a column of it.
    pub fn comment(
        &self,
        class: ObjectId,
        object: ObjectId,
        column: ColumnId,
    ) -> Option<&CommentDef> {
        let is_it = |c: &&CommentDef| (c.class, c.object, c.column) == (class, object, column);
        self.comments().into_iter().find(is_it)
    }
}

/// What is about to go: a relation, or a part of it.
#[derive(Clone, Copy)]
pub(crate) struct Gone<'a> {
    pub(crate) relation: ObjectId,
    pub(crate) part: Part,
    /// As errors call it.
    pub(crate) what: &'a str,
}

/// What of a relation goes.
#[derive(Clone, Copy)]
pub(crate) enum Part {
    All,
    Column(ColumnId),
    Constraint(ObjectId),
}

impl Gone<'_> {
    /// Whether a view cannot be without it.
    fn breaks(&self, view: &ViewDef) -> bool {
        let reads = |source: &&ViewSource| source.relation == self.relation;
        let mut sources = view.sources.iter().filter(reads);
        match self.part {
            Part::All => sources.next().is_some(),
            Part::Column(column) => sources.any(|source| source.used.contains(&column)),
            Part::Constraint(constraint) => view.keys.contains(&constraint),
        }
    }
}

/// The statement is to run again, under a view that has what others have made since.
fn unseen(txn: &Transaction) -> SchemaError {
    match txn.isolation() {
        Isolation::ReadCommitted => SchemaError::Stale,
        Isolation::RepeatableRead | Isolation::Serializable => TxnError::Serialization.into(),
    }
}

/// What cannot be without an object: what is in a schema, tables with columns of a type, views over a view.
fn dependents(catalog: &CatalogVersion, def: &PlainDef) -> Vec<ObjectId> {
    let tables = catalog.tables.values().map(|table| &table.def);
    match def {
        PlainDef::Schema(schema) => {
            let tables = tables.filter(|table| table.schema == schema.name).map(|table| table.id);
            let sequences = catalog.sequences.values().filter(|s| s.schema == schema.name);
            let plain = catalog.plain.values();
            let plain = plain.filter(|p| p.schema() == Some(&schema.name)).map(|p| p.id());
            tables.chain(sequences.map(|s| s.id)).chain(plain).collect()
        }
        PlainDef::Enum(def) => {
            let of_it = |oid| oid == def.id || oid == def.array;
            let has_it = |table: &&TableDef| table.columns.iter().any(|c| of_it(c.sql_type.oid));
            tables.filter(has_it).map(|table| table.id).collect()
        }
        PlainDef::View(view) => catalog.views_over(view.id).map(|view| view.id).collect(),
        PlainDef::Comment(_) | PlainDef::Access(_) | PlainDef::DefaultAccess(_) => Vec::new(),
    }
}

/// 0A000 if a view shows a column, whose type can then not change.
pub(crate) fn not_in_views(
    view: &CatalogVersion,
    table: ObjectId,
    column: &str,
    id: ColumnId,
) -> Result<(), SchemaError> {
    let gone = Gone { relation: table, part: Part::Column(id), what: column };
    let Some(over) = view.views_over(table).find(|view| gone.breaks(view)) else { return Ok(()) };
    Err(SchemaError::refused(
        SqlState::FEATURE_NOT_SUPPORTED,
        "cannot alter type of a column used by a view or rule",
    )
    .with_detail(format!("rule _RETURN on {} depends on column \"{column}\"", view.called(over))))
}

impl Catalog {
    /// The schema that a new database has.
    pub(crate) fn first_objects() -> [ObjectDef; 1] {
        [ObjectDef::Plain(PlainDef::Schema(SchemaDef { id: PUBLIC_ID, name: PUBLIC.to_owned() }))]
    }

    pub(crate) async fn create_plain(
        &self,
        txn: &mut Transaction,
        scope: &Scope<'_>,
        mut def: PlainDef,
    ) -> Result<ObjectId, SchemaError> {
        let id = self.next_id()?;
        def.set_id(id);
        if let PlainDef::Enum(def) = &mut def {
            def.array = self.next_id()?;
            self.number_labels(def)?;
        }
        if let Some(schema) = def.schema().map(str::to_owned) {
            self.hold_schema(txn, scope, &schema).await?;
        }
        for relation in def.rests_on().collect::<Vec<_>>() {
            self.store.lock(txn, relation, scope.limits).await?;
        }
        self.hold_named(txn, scope, &def).await?;
        if let PlainDef::View(view) = &def
            && view.materialized.is_none()
            && scope.view.names.contains_key(&(view.schema.clone(), view.name.clone()))
        {
            return Err(def.already_exists());
        }
        self.store.insert(txn, &ObjectDef::Plain(def.clone()), scope.limits).await?;
        local_set(txn, id, Some(Changed::Plain(Arc::new(def))));
        Ok(id)
    }

    pub(crate) async fn replace_plain(
        &self,
        txn: &mut Transaction,
        scope: &Scope<'_>,
        mut def: PlainDef,
    ) -> Result<(), SchemaError> {
        let locked = self.store.lock(txn, def.id(), scope.limits).await?;
        if let Some(schema) = def.schema().map(str::to_owned) {
            self.hold_schema(txn, scope, &schema).await?;
        }
        for relation in def.rests_on().collect::<Vec<_>>() {
            self.store.lock(txn, relation, scope.limits).await?;
        }
        self.hold_named(txn, scope, &def).await?;
        if let PlainDef::Enum(def) = &mut def {
            self.number_labels(def)?;
        }
        self.store.update(txn, locked, &ObjectDef::Plain(def.clone()), scope.limits).await?;
        if let PlainDef::Enum(_) = &def {
            self.store.unheld(txn, locked, scope.limits).await?;
            self.all_seen(txn, &|catalog| dependents(catalog, &def))?;
        }
        local_set(txn, def.id(), Some(Changed::Plain(Arc::new(def.clone()))));
        if let PlainDef::Enum(def) = &def {
            self.relabel(txn, scope, def).await?;
        }
        Ok(())
    }

    /// Columns of an enum type have its labels.
    async fn relabel(
        &self,
        txn: &mut Transaction,
        scope: &Scope<'_>,
        def: &EnumDef,
    ) -> Result<(), SchemaError> {
        let view = self.view(txn);
        for table in view.tables.values() {
            let mut changed = table.def.clone();
            label(&mut changed, &view);
            if changed != table.def && table.def.columns.iter().any(|c| c.sql_type.oid == def.id) {
                self.rewrite(txn, scope, table, changed).await?;
            }
        }
        Ok(())
    }

    /// Gives columns of enum types their labels, and keeps the types that are new to the table.
    pub(crate) async fn label_columns(
        &self,
        txn: &mut Transaction,
        scope: &Scope<'_>,
        def: &mut TableDef,
    ) -> Result<(), SchemaError> {
        let unlabelled = |c: &&ColumnDef| c.sql_type.oid >= FIRST_USER_ID && c.labels.is_empty();
        let types = def.columns.iter().filter(unlabelled).map(|c| c.sql_type.oid);
        let types: Vec<ObjectId> = types.collect();
        if types.is_empty() {
            return Ok(());
        }
        let view = self.view(txn);
        for id in types {
            let def = view.enum_of(id).ok_or(SchemaError::Stale)?;
            self.store.hold(txn, def.id, scope.limits).await?;
        }
        label(def, &view);
        Ok(())
    }

    /// Labels that are new have no number yet.
    fn number_labels(&self, def: &mut EnumDef) -> Result<(), SchemaError> {
        for (id, _) in def.labels.iter_mut().filter(|(id, _)| *id == 0) {
            *id = self.next_id()?;
        }
        Ok(())
    }

    pub(crate) async fn drop_plain(
        &self,
        txn: &mut Transaction,
        scope: &Scope<'_>,
        id: ObjectId,
    ) -> Result<(), SchemaError> {
        let def = self.view(txn).plain.get(&id).cloned().ok_or(SchemaError::Stale)?;
        let locked = self.store.lock(txn, id, scope.limits).await?;
        self.store.delete(txn, locked, scope.limits).await?;
        self.store.unheld(txn, locked, scope.limits).await?;
        self.all_seen(txn, &|catalog| dependents(catalog, &def))?;
        local_set(txn, id, None);
        self.drop_access(txn, scope, id).await?;
        self.drop_comments(txn, scope, id, None).await
    }

    /// What others have made rest on an object since the statement's view is in the way of what it does to it: all
    /// that rests on it is to be its own transaction's doing, or to rest on it in its view.
    pub(crate) fn all_seen(
        &self,
        txn: &mut Transaction,
        resting: &dyn Fn(&CatalogVersion) -> Vec<ObjectId>,
    ) -> Result<(), SchemaError> {
        let seen = resting(&self.view(txn));
        let own = local(txn).map(|own| &own.changes.objects);
        let is_seen =
            |id: &ObjectId| seen.contains(id) || own.is_some_and(|own| own.contains_key(id));
        match resting(&self.latest()).iter().all(is_seen) {
            true => Ok(()),
            false => Err(unseen(txn)),
        }
    }

    /// What is said of an object, or of one of its columns, goes with it.
    pub(crate) async fn drop_comments(
        &self,
        txn: &mut Transaction,
        scope: &Scope<'_>,
        object: ObjectId,
        column: Option<ColumnId>,
    ) -> Result<(), SchemaError> {
        let is_of_it =
            |c: &&CommentDef| c.object == object && column.is_none_or(|column| c.column == column);
        let gone = scope.view.comments().into_iter().filter(is_of_it).map(|c| c.id);
        for id in gone.collect::<Vec<_>>() {
            // It may have gone in an earlier change of the same statement.
            if local(txn).is_some_and(|own| matches!(own.changes.objects.get(&id), Some(None))) {
                continue;
            }
            let locked = self.store.lock(txn, id, scope.limits).await?;
            self.store.delete(txn, locked, scope.limits).await?;
            local_set(txn, id, None);
        }
        Ok(())
    }

    /// Views that cannot be without a relation, or without a column of it, go; without CASCADE they are in
    /// the way.
    pub(crate) async fn release_views(
        &self,
        txn: &mut Transaction,
        scope: &Scope<'_>,
        gone: Gone<'_>,
        cascade: bool,
    ) -> Result<(), SchemaError> {
        self.all_seen(txn, &|catalog| {
            let broken = catalog.views_over(gone.relation).filter(|view| gone.breaks(view));
            broken.map(|view| view.id).collect()
        })?;
        let view = self.view(txn);
        let over = view.views_over(gone.relation).filter(|view| gone.breaks(view));
        let over: Vec<(ObjectId, String)> = over.map(|v| (v.id, view.called(v))).collect();
        let Some((_, first)) = over.first() else { return Ok(()) };
        if !cascade {
            return Err(SchemaError::refused(
                SqlState::DEPENDENT_OBJECTS_STILL_EXIST,
                format!("cannot drop {} because other objects depend on it", gone.what),
            )
            .with_detail(format!("{first} depends on {}", gone.what))
            .with_hint("Use DROP ... CASCADE to drop the dependent objects too."));
        }
        for (id, what) in over {
            let Some(over) = self.view(txn).view(id).cloned() else { continue };
            if let Some(materialized) = over.materialized {
                let now = Scope {
                    view: self.view(txn),
                    options: scope.options,
                    limits: scope.limits,
                    then: scope.then,
                };
                Box::pin(self.drop_table(txn, &now, materialized.table, true)).await?;
            } else {
                let gone = Gone { relation: id, part: Part::All, what: &what };
                Box::pin(self.release_views(txn, scope, gone, true)).await?;
                self.drop_plain(txn, scope, id).await?;
            }
        }
        Ok(())
    }

    /// Keeps a schema until the transaction ends; 3F000 if it is gone.
    pub(crate) async fn hold_schema(
        &self,
        txn: &mut Transaction,
        scope: &Scope<'_>,
        name: &str,
    ) -> Result<(), SchemaError> {
        let Some(schema) = scope.view.schema(name) else { return Err(no_schema(name)) };
        self.store.hold(txn, schema.id, scope.limits).await
    }
}

fn label(def: &mut TableDef, view: &CatalogVersion) {
    for column in &mut def.columns {
        if let Some(of) = view.enum_type(column.sql_type.oid) {
            column.labels = of.labels.iter().map(|(_, label)| label.clone()).collect();
        }
    }
}

fn no_schema(name: &str) -> SchemaError {
    SchemaError::refused(SqlState::INVALID_SCHEMA_NAME, format!("schema \"{name}\" does not exist"))
}
