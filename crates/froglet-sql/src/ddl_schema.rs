//! Schemas, and what moves between them.

use datafusion::sql::sqlparser::ast::ObjectName;
use froglet_engine::SqlState;
use froglet_schema::access::{PG_CLASS, PG_NAMESPACE, PG_TYPE};
use froglet_schema::plain::{PlainDef, SchemaDef};
use froglet_schema::{Change, ObjectId};

use crate::apply::Stop;
use crate::ddl::Ddl;
use crate::error::SqlError;
use crate::object_ddl::Kind;
use crate::resolve::{Names, Relation, is_system_schema};

/// What DROP SCHEMA finds in a schema, in the order in which it goes.
#[derive(Default)]
struct Contents {
    views: Vec<ObjectId>,
    tables: Vec<ObjectId>,
    sequences: Vec<ObjectId>,
    types: Vec<ObjectId>,
    /// What recovery could make nothing of.
    unreadable: Vec<ObjectId>,
    /// As errors call them.
    names: Vec<String>,
}

impl Ddl<'_> {
    /// CREATE SCHEMA … AUTHORIZATION
    pub(crate) async fn create_schema_of(
        &mut self,
        name: &str,
        if_not_exists: bool,
        owner: Option<&str>,
    ) -> Result<String, Stop> {
        let owner = owner.map(|role| self.new_owner(role)).transpose()?;
        let is_new = self.version.schema(name).is_none();
        let tag = self.create_schema(name, if_not_exists).await?;
        if let (Some(owner), true) = (owner, is_new) {
            let id = self.version.schema(name).ok_or(Stop::Restart)?.id;
            self.give(PG_NAMESPACE, id, owner).await?;
        }
        Ok(tag)
    }

    pub(crate) async fn create_schema(
        &mut self,
        name: &str,
        if_not_exists: bool,
    ) -> Result<String, Stop> {
        crate::ddl_column::check_name(name)?;
        if name.starts_with("pg_") || name == "information_schema" || name == "froglet" {
            let state = SqlState::new("42939");
            return Err(SqlError::new(state, format!("unacceptable schema name \"{name}\""))
                .detail("The prefix \"pg_\" is reserved for system schemas.")
                .into());
        }
        if self.version.schema(name).is_some() {
            let message = format!("schema \"{name}\" already exists");
            if !if_not_exists {
                return Err(SqlError::new(SqlState::DUPLICATE_SCHEMA, message).into());
            }
            self.notice(SqlState::DUPLICATE_SCHEMA, format!("{message}, skipping"));
            return Ok("CREATE SCHEMA".to_owned());
        }
        let schema = SchemaDef { id: 0, name: name.to_owned() };
        self.apply(Change::CreatePlain(PlainDef::Schema(schema))).await?;
        Ok("CREATE SCHEMA".to_owned())
    }

    pub(crate) async fn drop_schemas(
        &mut self,
        names: &[ObjectName],
        if_exists: bool,
        cascade: bool,
    ) -> Result<String, Stop> {
        for name in names {
            let (_, schema) = Names::parts(name)?;
            let Some(def) = self.version.schema(&schema).cloned() else {
                if is_system_schema(&schema) {
                    return Err(SqlError::new(
                        SqlState::new("42501"),
                        format!("cannot drop schema {schema}: it is the system's"),
                    )
                    .into());
                }
                if !if_exists {
                    return Err(no_schema(&schema).into());
                }
                self.skip("schema", name)?;
                continue;
            };
            self.empty_schema(&schema, cascade).await?;
            self.apply(Change::DropPlain { object: def.id }).await?;
        }
        Ok("DROP SCHEMA".to_owned())
    }

    pub(crate) async fn empty_schema(&mut self, schema: &str, cascade: bool) -> Result<(), Stop> {
        let contents = self.contents(schema);
        if let (Some(first), false) = (contents.names.first(), cascade) {
            return Err(SqlError::new(
                SqlState::DEPENDENT_OBJECTS_STILL_EXIST,
                format!("cannot drop schema {schema} because other objects depend on it"),
            )
            .detail(format!("{first} depends on schema {schema}"))
            .hint("Use DROP ... CASCADE to drop the dependent objects too.")
            .into());
        }
        match contents.names.as_slice() {
            [] => {}
            [only] => {
                self.notice(SqlState::SUCCESSFUL_COMPLETION, format!("drop cascades to {only}"));
            }
            names => self.notice(
                SqlState::SUCCESSFUL_COMPLETION,
                format!("drop cascades to {} other objects", names.len()),
            ),
        }
        for view in contents.views {
            self.drop_view(view, true).await?;
        }
        for table in contents.tables {
            // A materialized view may have gone with what it reads.
            if !self.version.tables.contains_key(&table) {
                continue;
            }
            self.apply(Change::DropTable { table, cascade: true }).await?;
        }
        for sequence in contents.sequences {
            // A serial column's went with its table.
            if self.version.sequences.contains_key(&sequence) {
                self.apply(Change::DropSequence { sequence }).await?;
            }
        }
        for object in contents.types {
            self.drop_type(object, true).await?;
        }
        for object in contents.unreadable {
            self.apply(Change::DropUnreadable { object, cascade: true }).await?;
        }
        Ok(())
    }

    fn contents(&self, schema: &str) -> Contents {
        let mut contents = Contents::default();
        let catalog = &self.version;
        for view in catalog.views().into_iter().filter(|view| view.schema == schema) {
            contents.views.push(view.id);
            contents.names.push(format!("view {}", view.name));
        }
        let mut tables: Vec<_> =
            catalog.tables.values().filter(|table| table.def.schema == schema).collect();
        tables.sort_by_key(|table| table.def.id);
        for table in tables {
            contents.tables.push(table.def.id);
            let what = match catalog.materialized(table.def.id) {
                Some(view) => catalog.called(view),
                None => format!("table {}", table.def.name),
            };
            contents.names.push(what);
        }
        let mut sequences: Vec<_> =
            catalog.sequences.values().filter(|sequence| sequence.schema == schema).collect();
        sequences.sort_by_key(|sequence| sequence.id);
        for sequence in sequences {
            contents.sequences.push(sequence.id);
            if sequence.owned_by.is_none() {
                contents.names.push(format!("sequence {}", sequence.name));
            }
        }
        for def in catalog.enum_types().into_iter().filter(|def| def.schema == schema) {
            contents.types.push(def.id);
            contents.names.push(format!("type {}", def.name));
        }
        for found in catalog.all_unreadable() {
            if found.schema.as_deref() == Some(schema) {
                contents.unreadable.push(found.id);
                contents.names.push(format!("{} {}", found.kind, found.name));
            }
        }
        contents
    }

    /// What is in it moves: names of relations have their schema in them.
    pub(crate) async fn rename_schema(&mut self, name: &str, to: &str) -> Result<String, Stop> {
        let Some(def) = self.version.schema(name).cloned() else {
            return Err(no_schema(name).into());
        };
        self.create_schema(to, false).await?;
        let contents = self.contents(name);
        if let Some(found) = contents.unreadable.first() {
            self.version.readable(*found)?;
        }
        for table in contents.tables {
            self.move_table(table, to).await?;
        }
        for object in contents.sequences.into_iter().chain(contents.views).chain(contents.types) {
            self.move_object(object, to).await?;
        }
        self.move_access(def.id, to).await?;
        self.apply(Change::DropPlain { object: def.id }).await?;
        Ok("ALTER SCHEMA".to_owned())
    }

    pub(crate) async fn set_schema(
        &mut self,
        kind: Kind,
        if_exists: bool,
        name: &ObjectName,
        schema: &str,
    ) -> Result<String, Stop> {
        let tag = kind.tag("ALTER");
        let Some(object) = self.object(kind, if_exists, name)? else { return Ok(tag) };
        if self.version.schema(schema).is_none() {
            return Err(no_schema(schema).into());
        }
        let bare = Names::parts(name)?.1;
        let is_type = self.version.enum_type(object).is_some();
        let place = (schema.to_owned(), bare.clone());
        let taken = if is_type { &self.version.types } else { &self.version.names };
        if taken.contains_key(&place) {
            let (state, what) = match is_type {
                true => (SqlState::DUPLICATE_OBJECT, "type"),
                false => (SqlState::DUPLICATE_TABLE, "relation"),
            };
            let message = format!("{what} \"{bare}\" already exists in schema \"{schema}\"");
            return Err(SqlError::new(state, message).into());
        }
        match self.version.tables.contains_key(&object) {
            true => self.move_table(object, schema).await?,
            false => self.move_object(object, schema).await?,
        }
        Ok(tag)
    }

    /// OWNER TO, of an object that the user owns.
    pub(crate) async fn set_owner(
        &mut self,
        kind: Option<Kind>,
        if_exists: bool,
        name: &ObjectName,
        role: &str,
    ) -> Result<String, Stop> {
        let Some(kind) = kind else {
            let (_, schema) = Names::parts(name)?;
            let def = self.version.schema(&schema).ok_or_else(|| no_schema(&schema))?;
            self.change_owner(PG_NAMESPACE, def.id, role).await?;
            return Ok("ALTER SCHEMA".to_owned());
        };
        if let Some(object) = self.object(kind, if_exists, name)? {
            let class = if kind == Kind::Type { PG_TYPE } else { PG_CLASS };
            self.change_owner(class, object, role).await?;
        }
        Ok(kind.tag("ALTER"))
    }

    /// The object that ALTER names.
    pub(crate) fn object(
        &mut self,
        kind: Kind,
        if_exists: bool,
        name: &ObjectName,
    ) -> Result<Option<ObjectId>, Stop> {
        let (_, bare) = Names::parts(name)?;
        let found = match (kind, self.names().relation(name)?) {
            (Kind::Type, _) => self.names().enum_type(name)?.map(|def| def.id),
            (Kind::MaterializedView, Some(Relation::Table(table)))
                if self.version.materialized(table.def.id).is_none() =>
            {
                let message = format!("\"{bare}\" is not a materialized view");
                return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message).into());
            }
            (_, Some(Relation::Table(table))) if kind != Kind::Sequence && kind != Kind::View => {
                Some(table.def.id)
            }
            (Kind::View | Kind::Table, Some(Relation::View(view))) => Some(view.id),
            (Kind::Sequence | Kind::Table, Some(Relation::Sequence(sequence))) => Some(sequence.id),
            (_, Some(_)) => {
                let message = format!("\"{bare}\" is not a {}", kind.word());
                return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message).into());
            }
            (_, None) => None,
        };
        match found {
            Some(id) => Ok(Some(id)),
            None if if_exists => {
                self.skip(if kind == Kind::Type { "type" } else { "relation" }, name)?;
                Ok(None)
            }
            None if kind == Kind::Type => Err(no_type(&bare).into()),
            None => Err(crate::resolve::no_relation(&bare).into()),
        }
    }

    async fn move_table(&mut self, table: ObjectId, schema: &str) -> Result<(), Stop> {
        let def = self.table_by_id(table)?;
        let (schema, name) = (schema.to_owned(), def.def.name.clone());
        let owned = self.version.sequences.values();
        let owned = owned.filter(|s| s.owned_by.is_some_and(|(owner, _)| owner == table));
        let owned: Vec<ObjectId> = owned.map(|s| s.id).collect();
        for sequence in owned {
            self.move_object(sequence, &schema).await?;
        }
        self.apply(Change::RenameTable { table, schema, name }).await?;
        Ok(())
    }

    async fn move_object(&mut self, object: ObjectId, schema: &str) -> Result<(), Stop> {
        if let Some(sequence) = self.version.sequences.get(&object) {
            let old = sequence.clone();
            let mut def = (*old).clone();
            schema.clone_into(&mut def.schema);
            self.apply(Change::AlterSequence(def.clone())).await?;
            return self.follow_sequence(&old, &def).await;
        }
        let mut def = (**self.version.plain.get(&object).ok_or(Stop::Restart)?).clone();
        match &mut def {
            PlainDef::View(view) => schema.clone_into(&mut view.schema),
            PlainDef::Enum(def) => schema.clone_into(&mut def.schema),
            _ => return Err(Stop::Restart),
        }
        self.apply(Change::ReplacePlain(def)).await?;
        Ok(())
    }
}

impl Kind {
    /// As statements call it.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Kind::Table => "table",
            Kind::Sequence => "sequence",
            Kind::View => "view",
            Kind::MaterializedView => "materialized view",
            Kind::Type => "type",
        }
    }

    /// The command tag of a statement about it.
    pub(crate) fn tag(self, verb: &str) -> String {
        format!("{verb} {}", self.word().to_uppercase())
    }
}

/// 3F000
pub(crate) fn no_schema(name: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_SCHEMA_NAME, format!("schema \"{name}\" does not exist"))
}

/// 42704
pub(crate) fn no_type(name: &str) -> SqlError {
    SqlError::new(SqlState::UNDEFINED_OBJECT, format!("type \"{name}\" does not exist"))
}
