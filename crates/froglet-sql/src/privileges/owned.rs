//! Owners: who owns what is made, OWNER TO, REASSIGN OWNED, DROP OWNED, and what keeps a role.

use froglet_engine::SqlState;
use froglet_schema::access::{
    AccessDef, DATABASE_OWNER, DefaultAccess, Grant, PG_CLASS, PG_DATABASE, PG_NAMESPACE, PG_TYPE,
};
use froglet_schema::plain::PlainDef;
use froglet_schema::role::INITIAL_ROLE;
use froglet_schema::{CatalogVersion, Change, ObjectId, RoleDef};

use super::{Kind, Who, acl, bits, called, no_privilege, not_owner};
use crate::apply::Stop;
use crate::ddl::Ddl;
use crate::error::SqlError;
use crate::roles::denied;
use crate::roles::parse::Name;
use crate::temporary::is_temporary;

/// What a change makes that somebody owns.
pub(crate) enum Makes {
    /// A relation or a type, in a schema of this name.
    In(Kind, String),
    Schema,
}

impl Makes {
    pub(crate) fn of(change: &Change) -> Option<Makes> {
        match change {
            Change::CreateTable(table) | Change::CreateTableAs { table, .. } => {
                Some(Makes::In(Kind::Table, table.schema.clone()))
            }
            Change::CreateSequence(def) => Some(Makes::In(Kind::Sequence, def.schema.clone())),
            // A materialized view's table is what is owned.
            Change::CreatePlain(PlainDef::View(def)) if def.materialized.is_none() => {
                Some(Makes::In(Kind::Table, def.schema.clone()))
            }
            Change::CreatePlain(PlainDef::Enum(def)) => {
                Some(Makes::In(Kind::Type, def.schema.clone()))
            }
            Change::CreatePlain(PlainDef::Schema(def)) if !is_temporary(&def.name) => {
                Some(Makes::Schema)
            }
            _ => None,
        }
    }
}

impl Ddl<'_> {
    /// What was just made is the user's.
    pub(crate) async fn own(&mut self, made: &Makes, id: ObjectId) -> Result<(), Stop> {
        let owner = self.current_role()?.id;
        let (kind, schema) = match made {
            Makes::Schema => (Kind::Schema, None),
            Makes::In(kind, schema) => (*kind, self.version.schema(schema).map(|def| def.id)),
        };
        let grants = self.first_grants(kind, owner, schema);
        let class = kind.class();
        let def = AccessDef { id: 0, class, object: id, owner, grants, columns: Vec::new() };
        let unsaid = AccessDef::unsaid(class, id);
        self.put_access(&unsaid, def).await
    }

    /// OWNER TO, of an object that the user may give away.
    pub(crate) async fn give(
        &mut self,
        class: ObjectId,
        object: ObjectId,
        to: ObjectId,
    ) -> Result<(), Stop> {
        let known = self.version.access_or_unsaid(class, object);
        let mut def = known.clone();
        let change = |grants: &[Grant]| acl::with_owner(grants, known.owner, to);
        def.grants = acl::said(&known).map(|grants| change(&grants));
        def.columns = known.columns.iter().map(|(id, grants)| (*id, change(grants))).collect();
        def.owner = to;
        self.put_access(&known, def).await?;
        // A serial column's sequence goes with its table.
        let owned = self.version.sequences.values();
        let owned = owned.filter(|s| s.owned_by.is_some_and(|(table, _)| table == object));
        for sequence in owned.map(|s| s.id).collect::<Vec<_>>() {
            Box::pin(self.give(PG_CLASS, sequence, to)).await?;
        }
        Ok(())
    }

    /// The role that is to own something: one that the user may become.
    pub(crate) fn new_owner(&self, name: &str) -> Result<ObjectId, SqlError> {
        let (id, name) = match name {
            "pg_database_owner" => (DATABASE_OWNER, name.to_owned()),
            name => {
                let name = match name {
                    "current_user" | "current_role" => self.name_of(&Name::CurrentUser),
                    "session_user" => self.name_of(&Name::SessionUser),
                    name => name.to_owned(),
                };
                (self.known_role(&Name::Role(name.clone()))?.id, name)
            }
        };
        let me = self.current_role()?;
        match Who::of(&self.version, &me).is_member(id) {
            true => Ok(id),
            false => Err(denied(format!("must be member of role \"{name}\""))),
        }
    }

    /// OWNER TO
    pub(crate) async fn change_owner(
        &mut self,
        class: ObjectId,
        object: ObjectId,
        role: &str,
    ) -> Result<(), Stop> {
        let version = self.version.clone();
        let me = self.current_role()?;
        let who = Who::of(&version, &me);
        let Some((what, name)) = named_object(&version, class, object) else {
            return Err(Stop::Restart);
        };
        if !who.owns(class, object) {
            return Err(not_owner(what, &name).into());
        }
        if let Some(sequence) = version.sequences.get(&object)
            && let Some((table, _)) = sequence.owned_by
        {
            let table = called(&version, table).1;
            let message = format!("cannot change owner of sequence \"{name}\"");
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message)
                .detail(format!("Sequence \"{name}\" is linked to table \"{table}\"."))
                .into());
        }
        let to = self.new_owner(role)?;
        if to == version.owner(class, object) {
            return Ok(());
        }
        if class == PG_NAMESPACE {
            if !who.may_with_database(bits::CREATE) {
                return Err(no_privilege("database", "postgres").into());
            }
        } else if !who.superuser
            && let Some(schema) = schema_of(&version, object)
            && !Who::of_id(&version, to).may_in_schema(&schema, bits::CREATE)
        {
            return Err(no_privilege("schema", &schema).into());
        }
        self.give(class, object, to).await
    }

    /// A schema that is there under another id now has the owner and the grants that it had.
    pub(crate) async fn move_access(&mut self, from: ObjectId, to: &str) -> Result<(), Stop> {
        let to = self.version.schema(to).ok_or(Stop::Restart)?.id;
        let before = self.version.access_or_unsaid(PG_NAMESPACE, from);
        let known = self.version.access_or_unsaid(PG_NAMESPACE, to);
        let def = AccessDef { id: known.id, object: to, grants: acl::said(&before), ..before };
        self.put_access(&known, def).await?;
        let version = self.version.clone();
        for known in version.default_access().into_iter().filter(|def| def.schema == from) {
            let def = DefaultAccess { schema: to, ..known.clone() };
            self.apply_alone(Change::ReplacePlain(PlainDef::DefaultAccess(def))).await?;
        }
        Ok(())
    }

    fn may_act_for(&self, names: &[Name], what: &str) -> Result<Vec<ObjectId>, SqlError> {
        let me = self.current_role()?;
        let who = Who::of(&self.version, &me);
        let mut roles = Vec::new();
        for name in names {
            let role = self.known_role(name)?;
            if !who.has(role.id) {
                return Err(denied(format!("permission denied to {what} objects")));
            }
            roles.push(role.id);
        }
        Ok(roles)
    }

    pub(crate) async fn reassign_owned(&mut self, from: &[Name], to: &Name) -> Result<(), Stop> {
        let roles = self.may_act_for(from, "reassign")?;
        let to = self.may_act_for(std::slice::from_ref(to), "reassign")?[0];
        self.refuse_initial(&roles, "cannot reassign ownership of")?;
        let owned: Vec<(ObjectId, ObjectId)> = self
            .version
            .all_access()
            .into_iter()
            .filter(|access| roles.contains(&access.owner))
            .map(|access| (access.class, access.object))
            .collect();
        for (class, object) in owned {
            self.give(class, object, to).await?;
        }
        Ok(())
    }

    fn refuse_initial(&self, roles: &[ObjectId], verb: &str) -> Result<(), SqlError> {
        if !roles.contains(&INITIAL_ROLE) {
            return Ok(());
        }
        let name =
            self.version.role_by_id(INITIAL_ROLE).map_or_else(String::new, |r| r.name.clone());
        Err(SqlError::new(
            SqlState::DEPENDENT_OBJECTS_STILL_EXIST,
            format!(
                "{verb} objects owned by role {name} because they are required by the database system"
            ),
        ))
    }

    pub(crate) async fn drop_owned(&mut self, of: &[Name], cascade: bool) -> Result<(), Stop> {
        let roles = self.may_act_for(of, "drop")?;
        self.refuse_initial(&roles, "cannot drop")?;
        for role in roles {
            self.revoke_all_from(role).await?;
            self.drop_all_of(role, cascade).await?;
        }
        Ok(())
    }

    async fn revoke_all_from(&mut self, role: ObjectId) -> Result<(), Stop> {
        let named = |grant: &Grant| grant.grantee != role && grant.grantor != role;
        let version = self.version.clone();
        for known in version.all_access().into_iter().filter(|access| access.owner != role) {
            let mut def = known.clone();
            if let Some(grants) = &mut def.grants {
                grants.retain(named);
            }
            def.columns.iter_mut().for_each(|(_, grants)| grants.retain(named));
            def.columns.retain(|(_, grants)| !grants.is_empty());
            self.put_access(known, def).await?;
        }
        for known in version.default_access() {
            let mut def = known.clone();
            def.grants.retain(named);
            let change = match known.role == role {
                true => Change::DropPlain { object: known.id },
                false if def == *known => continue,
                false => Change::ReplacePlain(PlainDef::DefaultAccess(def)),
            };
            self.apply_alone(change).await?;
        }
        Ok(())
    }

    async fn drop_all_of(&mut self, role: ObjectId, cascade: bool) -> Result<(), Stop> {
        let version = self.version.clone();
        let of = |class| {
            let owned = version.all_access().into_iter();
            let owned = owned.filter(move |a| a.owner == role && a.class == class);
            owned.map(|access| access.object).collect::<Vec<_>>()
        };
        let relations = of(PG_CLASS);
        // Views go before what they read, and what is newer before what is older.
        for view in relations.iter().rev().filter(|id| version.view(**id).is_some()) {
            if self.version.view(*view).is_some() {
                self.drop_view(*view, cascade).await?;
            }
        }
        for table in relations.iter().rev() {
            if self.version.tables.contains_key(table) {
                self.apply(Change::DropTable { table: *table, cascade }).await?;
            }
        }
        for sequence in relations {
            let Some(def) = self.version.sequences.get(&sequence).cloned() else { continue };
            let what = format!("sequence {}", def.name);
            self.release(def.id, &what, None, cascade).await?;
            self.apply(Change::DropSequence { sequence }).await?;
        }
        for object in of(PG_TYPE) {
            self.drop_type(object, cascade).await?;
        }
        for schema in of(PG_NAMESPACE) {
            let Some((_, name)) = named_object(&self.version, PG_NAMESPACE, schema) else {
                continue;
            };
            self.empty_schema(&name, cascade).await?;
            self.apply(Change::DropPlain { object: schema }).await?;
        }
        Ok(())
    }

    /// 2BP01 if a role owns something, or something is granted to it.
    pub(crate) fn refuse_owner(&self, role: &RoleDef) -> Result<(), SqlError> {
        let mut lines: Vec<(ObjectId, String)> = Vec::new();
        for access in self.version.all_access() {
            let object = access.object;
            let Some((what, name)) = named_object(&self.version, access.class, object) else {
                continue;
            };
            let name = match schema_of(&self.version, object) {
                Some(schema) if !self.path.contains(&schema) => format!("{schema}.{name}"),
                _ => name,
            };
            if access.owner == role.id {
                lines.push((object, format!("owner of {what} {name}")));
                continue;
            }
            let names = |grants: &[Grant]| {
                grants.iter().any(|grant| grant.grantee == role.id || grant.grantor == role.id)
            };
            if access.grants.as_deref().is_some_and(names) {
                lines.push((object, format!("privileges for {what} {name}")));
            }
            for (column, grants) in &access.columns {
                if names(grants)
                    && let Some(table) = self.version.tables.get(&object)
                    && let Some(column) = table.def.column_by_id(*column)
                {
                    let text = format!("privileges for column {} of {what} {name}", column.name);
                    lines.push((object, text));
                }
            }
        }
        for def in self.version.default_access() {
            let kind = match def.kind {
                'r' => "relations",
                'S' => "sequences",
                'T' => "types",
                _ => "schemas",
            };
            let owner =
                self.version.role_by_id(def.role).map_or_else(String::new, |r| r.name.clone());
            let place = named_object(&self.version, PG_NAMESPACE, def.schema);
            let place = place.map_or_else(String::new, |(_, name)| format!(" in schema {name}"));
            let of = format!("default privileges on new {kind} belonging to role {owner}{place}");
            if def.role == role.id {
                lines.push((def.id, format!("owner of {of}")));
            } else if def.grants.iter().any(|g| g.grantee == role.id) {
                lines.push((def.id, format!("privileges for {of}")));
            }
        }
        lines.sort();
        let lines: Vec<String> = lines.into_iter().map(|(_, line)| line).collect();
        match lines.is_empty() {
            true => Ok(()),
            false => Err(SqlError::new(
                SqlState::DEPENDENT_OBJECTS_STILL_EXIST,
                format!(
                    "role \"{}\" cannot be dropped because some objects depend on it",
                    role.name
                ),
            )
            .detail(lines.join("\n"))),
        }
    }
}

/// What errors call an object, and its name.
fn named_object(
    catalog: &CatalogVersion,
    class: ObjectId,
    object: ObjectId,
) -> Option<(&'static str, String)> {
    match class {
        PG_CLASS => Some(called(catalog, object)),
        PG_DATABASE => Some(("database", "postgres".to_owned())),
        PG_TYPE => Some(("type", catalog.enum_type(object)?.name.clone())),
        _ => Some(("schema", crate::pgcatalog::schema_name(catalog, object)?)),
    }
}

/// The schema that a relation or a type is in.
fn schema_of(catalog: &CatalogVersion, object: ObjectId) -> Option<String> {
    let table = || catalog.tables.get(&object).map(|table| table.def.schema.clone());
    let sequence = || catalog.sequences.get(&object).map(|sequence| sequence.schema.clone());
    let plain = || catalog.plain.get(&object)?.schema().map(str::to_owned);
    table().or_else(sequence).or_else(plain)
}
