//! GRANT, REVOKE and ALTER DEFAULT PRIVILEGES.

use froglet_engine::{ColumnId, SqlState};
use froglet_schema::access::{AccessDef, DefaultAccess, EVERYBODY, Grant};
use froglet_schema::plain::PlainDef;
use froglet_schema::{Change, ObjectId};

use super::acl::{self, default_of, effective};
use super::parse::{DefaultKind, GrantChange, On, PrivilegeCommand};
use super::{DATABASE_OID, Kind, PRIVILEGES, Who, bits, called, no_privilege};
use crate::apply::Stop;
use crate::context::SessionFunctions;
use crate::ddl::Ddl;
use crate::ddl_schema::{no_schema, no_type};
use crate::ddl_view::column_ids;
use crate::error::{Notice, SqlError};
use crate::resolve::{Names, Relation, is_system_schema, no_relation};
use crate::roles::denied;

/// An object that something is granted on.
struct Object {
    kind: Kind,
    id: ObjectId,
    name: String,
}

/// What is to be granted on an object: all of it, and of columns.
struct Wanted {
    /// ALL was said.
    all: bool,
    whole: u16,
    columns: Vec<(String, u16)>,
}

fn invalid(message: String) -> SqlError {
    SqlError::new(SqlState::INVALID_GRANT_OPERATION, message)
}

/// The bit of a privilege's name.
fn privilege(name: &str) -> Result<u16, SqlError> {
    let name = if name == "temp" { "temporary" } else { name };
    let known = PRIVILEGES.iter().find(|(known, ..)| known.eq_ignore_ascii_case(name));
    known.map(|(.., bit)| *bit).ok_or_else(|| {
        let message = format!("unrecognized privilege type \"{name}\"");
        SqlError::new(SqlState::SYNTAX_ERROR, message)
    })
}

fn name_of(bit: u16) -> &'static str {
    PRIVILEGES.iter().find(|(.., known)| *known == bit).map_or("", |(name, ..)| name)
}

impl GrantChange {
    fn wanted(&self, kind: Kind, any_relation: bool) -> Result<Wanted, SqlError> {
        let mut wanted = Wanted { all: self.privileges.is_none(), whole: 0, columns: Vec::new() };
        let Some(privileges) = &self.privileges else {
            match self.all_columns.is_empty() {
                true => wanted.whole = kind.all(),
                false => {
                    let all = |name: &String| (name.clone(), Kind::Column.all());
                    wanted.columns = self.all_columns.iter().map(all).collect();
                }
            }
            self.only_of_relations(kind, &wanted)?;
            return Ok(wanted);
        };
        let valid = match any_relation {
            true => Kind::Table.all() | Kind::Sequence.all(),
            false => kind.all(),
        };
        let word = if any_relation { "relation" } else { kind.word() };
        for said in privileges {
            let bit = privilege(&said.name)?;
            if said.columns.is_empty() {
                if bit & !valid != 0 {
                    let name = name_of(bit);
                    return Err(invalid(format!("invalid privilege type {name} for {word}")));
                }
                wanted.whole |= bit;
                continue;
            }
            if bit & !Kind::Column.all() != 0 {
                let name = name_of(bit);
                return Err(invalid(format!("invalid privilege type {name} for column")));
            }
            for column in &said.columns {
                match wanted.columns.iter_mut().find(|(known, _)| known == column) {
                    Some((_, bits)) => *bits |= bit,
                    None => wanted.columns.push((column.clone(), bit)),
                }
            }
        }
        self.only_of_relations(kind, &wanted)?;
        Ok(wanted)
    }

    fn only_of_relations(&self, kind: Kind, wanted: &Wanted) -> Result<(), SqlError> {
        match kind != Kind::Table && !wanted.columns.is_empty() {
            true => Err(invalid("column privileges are only valid for relations".to_owned())),
            false => Ok(()),
        }
    }
}

impl Ddl<'_> {
    /// A statement about privileges or owners; its command tag.
    pub(crate) async fn privileges(&mut self, command: &PrivilegeCommand) -> Result<String, Stop> {
        match command {
            PrivilegeCommand::Change { change, on } => self.change_grants(change, on).await?,
            PrivilegeCommand::Defaults { roles, schemas, change, kind } => {
                self.change_defaults(roles, schemas, change, *kind).await?;
            }
            PrivilegeCommand::Reassign { from, to } => self.reassign_owned(from, to).await?,
            PrivilegeCommand::DropOwned { of, cascade } => self.drop_owned(of, *cascade).await?,
        }
        Ok(command.tag().to_owned())
    }

    async fn change_grants(&mut self, change: &GrantChange, on: &On) -> Result<(), Stop> {
        if let Some(by) = &change.granted_by
            && self.known_role(by)?.id != self.current_role()?.id
        {
            let message = "grantor must be current user";
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message).into());
        }
        let grantees = self.grantees(change)?;
        let any_relation = matches!(on, On::Tables(_));
        for object in self.objects(on)? {
            let wanted = change.wanted(object.kind, any_relation)?;
            self.change_object(change, &object, wanted, &grantees).await?;
        }
        Ok(())
    }

    fn grantees(&self, change: &GrantChange) -> Result<Vec<ObjectId>, SqlError> {
        let id = |name: &Option<_>| match name {
            None => Ok(EVERYBODY),
            Some(name) => self.known_role(name).map(|role| role.id),
        };
        change.grantees.iter().map(id).collect()
    }

    fn objects(&self, on: &On) -> Result<Vec<Object>, SqlError> {
        let mut objects = Vec::new();
        match on {
            On::Tables(names) => {
                for name in names {
                    objects.push(self.granted_relation(name, false)?);
                }
            }
            On::Sequences(names) => {
                for name in names {
                    objects.push(self.granted_relation(name, true)?);
                }
            }
            On::Types(names) => {
                for name in names {
                    let bare = Names::parts(name)?.1;
                    let found = self.names().enum_type(name)?.map(|def| def.id);
                    let id = found.ok_or_else(|| {
                        match crate::types::names::type_by_name(&bare).is_some() {
                            true => SqlError::unsupported("GRANT on a type of the system"),
                            false => no_type(&bare),
                        }
                    })?;
                    objects.push(Object { kind: Kind::Type, id, name: bare });
                }
            }
            On::Schemas(names) => {
                for name in names {
                    let id = self.user_schema(name)?;
                    objects.push(Object { kind: Kind::Schema, id, name: name.clone() });
                }
            }
            On::Databases(names) => {
                for name in names {
                    if name != "postgres" {
                        let message = format!("database \"{name}\" does not exist");
                        return Err(SqlError::new(SqlState::new("3D000"), message));
                    }
                    let (kind, id) = (Kind::Database, DATABASE_OID);
                    objects.push(Object { kind, id, name: name.clone() });
                }
            }
            On::AllTables(schemas) | On::AllSequences(schemas) | On::AllFunctions(schemas) => {
                for schema in schemas {
                    self.user_schema(schema)?;
                    self.all_in(schema, on, &mut objects);
                }
            }
        }
        Ok(objects)
    }

    fn all_in(&self, schema: &str, on: &On, objects: &mut Vec<Object>) {
        let catalog = &self.version;
        let mut found: Vec<(ObjectId, String)> = Vec::new();
        let kind = match on {
            On::AllTables(_) => {
                let tables = catalog.tables.values().filter(|t| t.def.schema == schema);
                found.extend(tables.map(|t| (t.def.id, t.def.name.clone())));
                let views = catalog.views().into_iter().filter(|view| view.schema == schema);
                found.extend(views.map(|view| (view.id, view.name.clone())));
                Kind::Table
            }
            On::AllSequences(_) => {
                let sequences = catalog.sequences.values().filter(|s| s.schema == schema);
                found.extend(sequences.map(|s| (s.id, s.name.clone())));
                Kind::Sequence
            }
            _ => return,
        };
        found.sort_unstable();
        objects.extend(found.into_iter().map(|(id, name)| Object { kind, id, name }));
    }

    /// The id of a schema that users may grant something on.
    fn user_schema(&self, name: &str) -> Result<ObjectId, SqlError> {
        match self.version.schema(name) {
            Some(def) => Ok(def.id),
            None if is_system_schema(name) => {
                Err(SqlError::unsupported(format!("GRANT in schema {name}")))
            }
            None => Err(no_schema(name)),
        }
    }

    fn granted_relation(
        &self,
        name: &datafusion::sql::sqlparser::ast::ObjectName,
        sequence: bool,
    ) -> Result<Object, SqlError> {
        let bare = Names::parts(name)?.1;
        let wrong =
            |what| SqlError::new(SqlState::WRONG_OBJECT_TYPE, format!("\"{bare}\" is {what}"));
        let (kind, id) = match self.names().relation(name)? {
            Some(Relation::Sequence(def)) => (Kind::Sequence, def.id),
            Some(_) if sequence => return Err(wrong("not a sequence")),
            Some(Relation::Table(table)) => (Kind::Table, table.def.id),
            Some(Relation::View(view)) => (Kind::Table, view.id),
            Some(Relation::Index(..)) => return Err(wrong("an index")),
            None if self.names().is_system_table(name)? => {
                return Err(SqlError::unsupported("GRANT on a system catalog"));
            }
            None => {
                let shown = name.0.iter().filter_map(|part| part.as_ident());
                let shown: Vec<String> = shown.map(crate::command::fold).collect();
                return Err(no_relation(&shown.join(".")));
            }
        };
        Ok(Object { kind, id, name: bare })
    }

    async fn change_object(
        &mut self,
        change: &GrantChange,
        object: &Object,
        mut wanted: Wanted,
        grantees: &[ObjectId],
    ) -> Result<(), Stop> {
        let known = self.version.access_or_unsaid(object.kind.class(), object.id);
        let mut def = known.clone();
        if object.kind == Kind::Table && wanted.whole & !Kind::Table.all() != 0 {
            let name = name_of(bits::USAGE);
            return Err(invalid(format!("invalid privilege type {name} for table")).into());
        }
        if object.kind == Kind::Sequence && wanted.whole & !Kind::Sequence.all() != 0 {
            let message = format!(
                "sequence \"{}\" only supports USAGE, SELECT, and UPDATE privileges",
                object.name
            );
            let state = SqlState::INVALID_GRANT_OPERATION;
            self.notices.push(Notice::new("WARNING", state, message));
            wanted.whole &= Kind::Sequence.all();
        }
        let whole = effective(object.kind, &known);
        if wanted.whole != 0 {
            let mut grants = whole.clone();
            let (what, name) = (object.kind.word(), object.name.as_str());
            let shown = format!("\"{name}\"");
            let refusal = (called_word(&self.version, object, what), shown);
            let change = Asked { change, all: wanted.all, kind: object.kind, owner: known.owner };
            let of = (wanted.whole, whole.as_slice());
            self.update(&change, of, (&refusal, name), &mut grants, grantees)?;
            def.grants = Some(grants);
        }
        let mut columns = self.column_grants(object, &wanted)?;
        if !change.is_grant && wanted.whole & Kind::Column.all() != 0 {
            // What is revoked of all of it, is of each of its columns.
            for (id, _) in &known.columns {
                if !columns.iter().any(|(column, ..)| column == id) {
                    columns.push((*id, None, wanted.whole & Kind::Column.all()));
                }
            }
        }
        for (id, name, privileges) in columns {
            let before = def.column(id).to_vec();
            let mut grants = before.clone();
            let merged: Vec<Grant> = whole.iter().chain(&before).copied().collect();
            let quiet = name.is_none();
            let column = name.unwrap_or_default();
            let shown = format!("column \"{column}\" of relation \"{}\"", object.name);
            let refusal = ("table".to_owned(), shown);
            let all = wanted.all || quiet;
            let asked = Asked { change, all, kind: Kind::Column, owner: known.owner };
            let of = (privileges, merged.as_slice());
            self.update(&asked, of, (&refusal, &object.name), &mut grants, grantees)?;
            def.columns.retain(|(known, _)| *known != id);
            if !grants.is_empty() {
                def.columns.push((id, grants));
            }
        }
        def.columns.sort_unstable_by_key(|(id, _)| *id);
        self.put_access(&known, def).await
    }

    /// The columns that are named: which they are, and what of them.
    fn column_grants(
        &self,
        object: &Object,
        wanted: &Wanted,
    ) -> Result<Vec<(ColumnId, Option<String>, u16)>, SqlError> {
        let all = match (self.version.tables.get(&object.id), self.version.view(object.id)) {
            (Some(table), _) => table.def.columns.iter().map(|c| (c.name.clone(), c.id)).collect(),
            (None, Some(view)) => column_ids(view),
            (None, None) => Vec::new(),
        };
        let find = |(name, privileges): &(String, u16)| {
            let id = all.iter().find(|(known, _)| known == name).map(|(_, id)| *id);
            let id = id.ok_or_else(|| {
                SqlError::new(
                    SqlState::UNDEFINED_COLUMN,
                    format!("column \"{name}\" of relation \"{}\" does not exist", object.name),
                )
            })?;
            Ok((id, Some(name.clone()), *privileges))
        };
        wanted.columns.iter().map(find).collect()
    }

    /// Makes a change of one list of grants, as far as the user may.
    fn update(
        &mut self,
        asked: &Asked<'_>,
        (privileges, judged): (u16, &[Grant]),
        ((what, shown), name): (&(String, String), &str),
        grants: &mut Vec<Grant>,
        grantees: &[ObjectId],
    ) -> Result<(), SqlError> {
        let user = self.session.user();
        let catalog = self.version.clone();
        let who = Who::named(&catalog, &user);
        let (grantor, options) = best_grantor(&who, asked, privileges, judged);
        let is_grant = asked.change.is_grant;
        if options == 0 && who.given(judged) == 0 {
            return Err(no_privilege(what, name));
        }
        let allowed = privileges & options;
        if allowed != privileges && (allowed == 0 || !asked.all) {
            let (state, verb) = match is_grant {
                true => ("01007", "were granted"),
                false => ("01006", "could be revoked"),
            };
            let many = if allowed == 0 { "no" } else { "not all" };
            let message = format!("{many} privileges {verb} for {shown}");
            self.notices.push(Notice::new("WARNING", SqlState::new(state), message));
        }
        let (option, cascade) = (asked.change.option, asked.change.cascade);
        let change = acl::Change { is_grant, option, cascade, grantor, owner: asked.owner };
        for grantee in grantees {
            if allowed != 0 {
                change.make(grants, *grantee, allowed)?;
            }
        }
        Ok(())
    }

    /// Keeps what is said of an object from now on.
    pub(super) async fn put_access(
        &mut self,
        known: &AccessDef,
        def: AccessDef,
    ) -> Result<(), Stop> {
        if *known == def {
            return Ok(());
        }
        let change = match (def.id, def.is_unsaid()) {
            (0, true) => return Ok(()),
            (0, false) => Change::CreatePlain(PlainDef::Access(def)),
            (object, true) => Change::DropPlain { object },
            (_, false) => Change::ReplacePlain(PlainDef::Access(def)),
        };
        self.apply_alone(change).await?;
        Ok(())
    }

    async fn change_defaults(
        &mut self,
        roles: &[crate::roles::parse::Name],
        schemas: &[String],
        change: &GrantChange,
        kind: DefaultKind,
    ) -> Result<(), Stop> {
        let me = self.current_role()?;
        let mut of = Vec::new();
        for role in roles {
            let role = self.known_role(role)?;
            if !Who::of(&self.version, &me).is_member(role.id) {
                return Err(denied(format!("must be member of role \"{}\"", role.name)).into());
            }
            of.push(role.id);
        }
        if of.is_empty() {
            of.push(me.id);
        }
        let (letter, objects) = match kind {
            DefaultKind::Tables => ('r', Kind::Table),
            DefaultKind::Sequences => ('S', Kind::Sequence),
            DefaultKind::Types => ('T', Kind::Type),
            DefaultKind::Schemas => ('n', Kind::Schema),
            DefaultKind::Functions => {
                return Err(SqlError::unsupported("ALTER DEFAULT PRIVILEGES … ON FUNCTIONS").into());
            }
        };
        if kind == DefaultKind::Schemas && !schemas.is_empty() {
            let message = "cannot use IN SCHEMA clause when using GRANT/REVOKE ON SCHEMAS";
            return Err(invalid(message.to_owned()).into());
        }
        let wanted = change.wanted(objects, false)?;
        if !wanted.columns.is_empty() {
            let message = "default privileges cannot be set for columns";
            return Err(invalid(message.to_owned()).into());
        }
        let mut places = Vec::new();
        for schema in schemas {
            places.push(self.user_schema(schema)?);
        }
        if places.is_empty() {
            places.push(0);
        }
        let grantees = self.grantees(change)?;
        for role in of {
            for schema in &places {
                let place = (role, *schema, letter);
                self.change_default(place, objects, change, wanted.whole, &grantees).await?;
            }
        }
        Ok(())
    }

    async fn change_default(
        &mut self,
        (role, schema, letter): (ObjectId, ObjectId, char),
        kind: Kind,
        change: &GrantChange,
        privileges: u16,
        grantees: &[ObjectId],
    ) -> Result<(), Stop> {
        let is_it =
            |def: &&&DefaultAccess| (def.role, def.schema, def.kind) == (role, schema, letter);
        let known = self.version.default_access().iter().find(is_it).map(|def| (*def).clone());
        let first = if schema == 0 { default_of(kind, role) } else { Vec::new() };
        let mut grants = known.as_ref().map_or_else(|| first.clone(), |def| def.grants.clone());
        let (is_grant, option, cascade) = (change.is_grant, change.option, change.cascade);
        let update = acl::Change { is_grant, option, cascade, grantor: role, owner: role };
        for grantee in grantees {
            update.make(&mut grants, *grantee, privileges)?;
        }
        let is_first = same(&grants, &first);
        let change = match known {
            None if is_first => return Ok(()),
            None => {
                let def = DefaultAccess { id: 0, role, schema, kind: letter, grants };
                Change::CreatePlain(PlainDef::DefaultAccess(def))
            }
            Some(known) if is_first => Change::DropPlain { object: known.id },
            Some(known) if known.grants == grants => return Ok(()),
            Some(known) => {
                Change::ReplacePlain(PlainDef::DefaultAccess(DefaultAccess { grants, ..known }))
            }
        };
        self.apply_alone(change).await?;
        Ok(())
    }

    /// What an object begins with that a role makes in a schema.
    pub(super) fn first_grants(
        &self,
        kind: Kind,
        owner: ObjectId,
        schema: Option<ObjectId>,
    ) -> Option<Vec<Grant>> {
        let letter = match kind {
            Kind::Table => 'r',
            Kind::Sequence => 'S',
            Kind::Type => 'T',
            Kind::Schema => 'n',
            Kind::Column | Kind::Database => return None,
        };
        let all = self.version.default_access();
        let of = |place: ObjectId| {
            let is_it = |d: &&&DefaultAccess| (d.role, d.schema, d.kind) == (owner, place, letter);
            all.iter().find(is_it).map(|def| def.grants.clone())
        };
        let (global, local) = (of(0), schema.and_then(of));
        if global.is_none() && local.is_none() {
            return None;
        }
        let first = default_of(kind, owner);
        let both: Vec<Grant> = global
            .unwrap_or_else(|| first.clone())
            .into_iter()
            .chain(local.unwrap_or_default())
            .collect();
        let merged = acl::with_owner(&both, owner, owner);
        (!same(&merged, &first)).then_some(merged)
    }
}

/// A change that is asked for, of a list of grants on something of this kind and owner.
struct Asked<'a> {
    change: &'a GrantChange,
    all: bool,
    kind: Kind,
    owner: ObjectId,
}

fn called_word(catalog: &froglet_schema::CatalogVersion, object: &Object, word: &str) -> String {
    match object.kind {
        Kind::Table => called(catalog, object.id).0.to_owned(),
        _ => word.to_owned(),
    }
}

/// Who of those whose privileges somebody has is to grant them, and what of them he may.
fn best_grantor(
    who: &Who<'_>,
    asked: &Asked<'_>,
    privileges: u16,
    grants: &[Grant],
) -> (ObjectId, u16) {
    if who.has(asked.owner) {
        return (asked.owner, asked.kind.all());
    }
    let of = |role: &ObjectId| {
        let direct = grants.iter().filter(|grant| grant.grantee == *role);
        (*role, direct.fold(0, |all, grant| all | grant.options) & privileges)
    };
    let mut best = (who.role, 0);
    for (role, options) in who.roles().iter().map(of) {
        if options.count_ones() > u16::count_ones(best.1) {
            best = (role, options);
        }
    }
    best
}

/// Whether two lists say the same, in whatever order.
fn same(a: &[Grant], b: &[Grant]) -> bool {
    a.len() == b.len() && a.iter().all(|grant| b.contains(grant))
}
