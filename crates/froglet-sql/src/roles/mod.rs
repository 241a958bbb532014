//! Roles: making and changing them, who may, and who a session is.
//!
//! ```text
//!   login ──▶ session_user ── SET SESSION AUTHORIZATION (superusers) ──▶ session_user
//!                  │
//!                  └─ SET ROLE (its own roles) ──▶ current_user: what privileges are looked up for
//! ```
//! Both are settings of the session, so that SET LOCAL, COMMIT and ROLLBACK do to them what they do to any.
//! A role itself is an object of the catalog ([`froglet_schema::role`]); a password is kept as its
//! [`Verifier`] only.
//!
//! R1: nothing sets `role` or `session_authorization` without [`check_setting`]: neither SET, nor set_config, nor
//!     what a client says when it connects.
//! R2: no password is written to the disk, nor shown to anybody but superusers and who has given it.

pub mod login;
pub mod parse;

use std::sync::Arc;

use froglet_engine::SqlState;
use froglet_schema::role::INITIAL_ROLE;
use froglet_schema::{CatalogVersion, Change, Membership, ObjectId, RoleChange, RoleDef};

use crate::apply::Stop;
use crate::context::SessionFunctions;
use crate::ddl::Ddl;
use crate::error::{Notice, SqlError};
use crate::functions::SessionState;
use crate::password::Verifier;
use crate::session::Session;
use crate::settings::{SESSION_AUTHORIZATION, Settings};
use crate::types::datetime;
use parse::{Name, Options, RoleCommand};

/// As SHOW role has it where no role is set.
pub(crate) const NO_ROLE: &str = "none";

/// No role of this name.
pub(crate) fn no_role(name: &str) -> SqlError {
    SqlError::new(SqlState::UNDEFINED_OBJECT, format!("role \"{name}\" does not exist"))
}

/// 42501
pub(crate) fn denied(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message)
}

/// Whether a session of `login` that is `session_user` now may set one of the two settings that say who it is
/// [R1]. Returns whether it is a superuser then.
fn check_setting(
    catalog: &CatalogVersion,
    login: &str,
    session_user: &str,
    name: &str,
    value: &str,
) -> Result<bool, SqlError> {
    let is_superuser = |name: &str| catalog.role(name).is_some_and(|role| role.superuser);
    if name == "role" && value == NO_ROLE {
        return Ok(is_superuser(session_user));
    }
    let wanted = catalog
        .role(value)
        .ok_or_else(|| SqlError { state: SqlState::INVALID_PARAMETER_VALUE, ..no_role(value) })?;
    let allowed = if name == "role" {
        let own = catalog.role(session_user);
        own.is_some_and(|own| own.superuser || catalog.is_member(&own, wanted.id))
    } else {
        value == login || is_superuser(login)
    };
    match allowed {
        true => Ok(wanted.superuser),
        false if name == "role" => {
            Err(denied(format!("permission denied to set role \"{value}\"")))
        }
        false => Err(denied(format!("permission denied to set session authorization \"{value}\""))),
    }
}

/// Whether a setting says who the session is.
pub(crate) fn is_identity(name: &str) -> bool {
    name.eq_ignore_ascii_case("role") || name.eq_ignore_ascii_case(SESSION_AUTHORIZATION)
}

/// Sets one of the two settings that say who a session of `login` is [R1].
pub(crate) fn set_identity(
    settings: &mut Settings,
    catalog: &CatalogVersion,
    login: &str,
    name: &str,
    value: Option<&str>,
    local: bool,
) -> Result<(), SqlError> {
    let is_role = name.eq_ignore_ascii_case("role");
    let (name, default) = if is_role { ("role", NO_ROLE) } else { (SESSION_AUTHORIZATION, login) };
    let value = value.unwrap_or(default);
    let session_user = settings.get(SESSION_AUTHORIZATION).to_owned();
    let superuser = check_setting(catalog, login, &session_user, name, value)?;
    settings.set(name, Some(value), local)?;
    if !is_role {
        settings.set("role", Some(NO_ROLE), local)?;
    }
    settings.set_superuser(superuser, local);
    Ok(())
}

impl SessionState {
    /// Whether this session may stop what another does: that of a role that it has, or anybody's.
    pub(crate) fn may_signal(&self, pid: i32, terminate: bool) -> Result<(), SqlError> {
        let mut sessions = self.database().sessions().into_iter();
        let Some(other) = sessions.find(|other| other.pid == pid).filter(|_| !self.is_superuser())
        else {
            return Ok(());
        };
        let catalog = self.database().catalog().latest();
        let (me, other) = (catalog.role(&self.user()), catalog.role(&other.user));
        let is_super = other.as_ref().is_some_and(|other| other.superuser);
        if let (Some(me), Some(other), false) = (&me, &other, is_super)
            && catalog.is_member(me, other.id)
        {
            return Ok(());
        }
        Err(denied(match (is_super, terminate) {
            (true, true) => "must be a superuser to terminate superuser process",
            (true, false) => "must be a superuser to cancel superuser query",
            (false, true) => {
                "must be a member of the role whose process is being terminated or \
                              member of pg_signal_backend"
            }
            (false, false) => {
                "must be a member of the role whose query is being canceled or \
                               member of pg_signal_backend"
            }
        }))
    }
}

impl Session {
    /// SET ROLE, SET SESSION AUTHORIZATION and their RESETs.
    pub(crate) fn set_identity(
        &mut self,
        name: &str,
        value: Option<&str>,
        local: bool,
    ) -> Result<(), SqlError> {
        let catalog = match &mut self.txn {
            Some(txn) => self.db.catalog().next_view(txn),
            None => self.db.catalog().latest(),
        };
        set_identity(&mut self.settings, &catalog, &self.shared.user, name, value, local)?;
        self.publish_settings();
        Ok(())
    }
}

impl Ddl<'_> {
    /// A statement about roles; its command tag.
    pub(crate) async fn role(&mut self, command: &RoleCommand) -> Result<String, Stop> {
        match command {
            RoleCommand::Create { name, options } => self.create_role(name, options).await?,
            RoleCommand::Alter { name, options } => self.alter_role(name, options).await?,
            RoleCommand::Rename { name, to } => self.rename_role(name, to).await?,
            RoleCommand::Set { name, database, setting, value } => {
                if let Some(database) = database.as_ref().filter(|name| *name != "postgres") {
                    let message = format!("database \"{database}\" does not exist");
                    return Err(SqlError::new(SqlState::new("3D000"), message).into());
                }
                let setting = (setting.as_deref(), value.as_deref());
                self.set_for_role(name, database.is_some(), setting).await?;
            }
            RoleCommand::Drop { names, if_exists } => self.drop_roles(names, *if_exists).await?,
            RoleCommand::Grant { roles, to, admin } => {
                for role in roles {
                    let role = self.known_role(role)?;
                    self.may_grant(&role)?;
                    self.grant_role(&role, to, *admin).await?;
                }
            }
            RoleCommand::Revoke { roles, from, admin } => {
                for role in roles {
                    let role = self.known_role(role)?;
                    self.may_grant(&role)?;
                    self.revoke_role(&role, from, *admin).await?;
                }
            }
        }
        Ok(command.shown().to_owned())
    }

    /// Who runs this.
    pub(crate) fn current_role(&self) -> Result<Arc<RoleDef>, SqlError> {
        let name = self.session.user();
        self.version.role(&name).ok_or_else(|| no_role(&name))
    }

    pub(crate) fn name_of(&self, name: &Name) -> String {
        match name {
            Name::Role(name) => name.clone(),
            Name::CurrentUser => self.session.user(),
            Name::SessionUser => self.session.session_user(),
        }
    }

    pub(crate) fn known_role(&self, name: &Name) -> Result<Arc<RoleDef>, SqlError> {
        let name = self.name_of(name);
        self.version.role(&name).ok_or_else(|| no_role(&name))
    }

    async fn change_role(&mut self, change: RoleChange) -> Result<Option<ObjectId>, Stop> {
        self.apply(Change::Role(change)).await
    }

    async fn create_role(&mut self, name: &Name, options: &Options) -> Result<(), Stop> {
        let me = self.current_role()?;
        if !(me.superuser || me.create_role) {
            return Err(denied("permission denied to create role").into());
        }
        self.only_superusers_make(&me, options, "create")?;
        let name = self.name_of(name);
        refuse_reserved(&name)?;
        self.refuse_taken_role(&name)?;
        let mut def = RoleDef::new(name);
        self.set_options(&mut def, options)?;
        let created = self.change_role(RoleChange::Create(def)).await.map_err(taken_meanwhile)?;
        let id = created.expect("a role was made");
        let own = [Name::Role(self.role_of(id)?.name.clone())];
        for role in &options.member_of {
            let role = self.known_role(role)?;
            self.may_grant(&role)?;
            self.grant_role(&role, &own, false).await?;
        }
        let role = self.role_of(id)?;
        self.grant_role(&role, &options.members, false).await?;
        self.grant_role(&role, &options.admins, true).await
    }

    fn role_of(&self, id: ObjectId) -> Result<Arc<RoleDef>, Stop> {
        self.version.role_by_id(id).ok_or(Stop::Restart)
    }

    fn refuse_taken_role(&self, name: &str) -> Result<(), SqlError> {
        match self.version.role(name) {
            None => Ok(()),
            Some(_) => {
                let message = format!("role \"{name}\" already exists");
                Err(SqlError::new(SqlState::DUPLICATE_OBJECT, message))
            }
        }
    }

    /// Attributes that would make somebody more than whoever gives them.
    fn only_superusers_make(
        &self,
        me: &RoleDef,
        options: &Options,
        verb: &str,
    ) -> Result<(), SqlError> {
        let given = [
            (options.superuser, "superusers"),
            (options.replication, "replication users"),
            (options.bypass_rls, "bypassrls users"),
        ];
        match given.iter().find(|(given, _)| *given == Some(true)) {
            Some((_, what)) if !me.superuser => {
                Err(denied(format!("must be superuser to {verb} {what}")))
            }
            _ => Ok(()),
        }
    }

    async fn alter_role(&mut self, name: &Name, options: &Options) -> Result<(), Stop> {
        let me = self.current_role()?;
        let role = self.known_role(name)?;
        let own_password = me.id == role.id && options.is_password_only();
        if (role.superuser || options.superuser.is_some()) && !me.superuser {
            let what = "must be superuser to alter superuser roles or change superuser attribute";
            return Err(denied(what).into());
        }
        self.only_superusers_make(&me, options, "make")?;
        if !(me.superuser || me.create_role || own_password) {
            return Err(denied("permission denied").into());
        }
        let mut def = (*role).clone();
        self.set_options(&mut def, options)?;
        self.change_role(RoleChange::Alter(def)).await?;
        Ok(())
    }

    /// What sessions of a role begin with from now on.
    async fn set_for_role(
        &mut self,
        name: &Name,
        in_database: bool,
        (setting, value): (Option<&str>, Option<&str>),
    ) -> Result<(), Stop> {
        let me = self.current_role()?;
        let role = self.known_role(name)?;
        if role.superuser && !me.superuser {
            return Err(denied("must be superuser to alter superusers").into());
        }
        if !(me.superuser || me.create_role || me.id == role.id) {
            return Err(denied("permission denied").into());
        }
        let mut def = (*role).clone();
        let settings = if in_database { &mut def.database_settings } else { &mut def.settings };
        match setting.map(str::to_lowercase) {
            None => settings.clear(),
            Some(setting) => {
                if is_identity(&setting) {
                    let what = format!("ALTER ROLE … SET {setting}");
                    return Err(SqlError::unsupported(what).into());
                }
                crate::settings::check_session_setting(&setting, value)?;
                settings.retain(|(known, _)| *known != setting);
                settings.extend(value.map(|value| (setting, value.to_owned())));
            }
        }
        self.change_role(RoleChange::Alter(def)).await?;
        Ok(())
    }

    async fn rename_role(&mut self, name: &Name, to: &str) -> Result<(), Stop> {
        let me = self.current_role()?;
        let role = self.known_role(name)?;
        refuse_reserved(to)?;
        self.refuse_taken_role(to)?;
        if [self.session.user(), self.session.session_user()].contains(&role.name) {
            return Err(SqlError::unsupported("to rename the user of this session").into());
        }
        if role.superuser && !me.superuser {
            return Err(denied("must be superuser to rename superusers").into());
        }
        if !(me.superuser || me.create_role) {
            return Err(denied("permission denied to rename role").into());
        }
        let def = RoleDef { name: to.to_owned(), ..(*role).clone() };
        self.change_role(RoleChange::Alter(def)).await.map_err(taken_meanwhile)?;
        Ok(())
    }

    async fn drop_roles(&mut self, names: &[Name], if_exists: bool) -> Result<(), Stop> {
        let me = self.current_role()?;
        if !(me.superuser || me.create_role) {
            return Err(denied("permission denied to drop role").into());
        }
        for name in names {
            let name = self.name_of(name);
            let Some(role) = self.version.role(&name) else {
                if !if_exists {
                    return Err(no_role(&name).into());
                }
                let text = format!("role \"{name}\" does not exist, skipping");
                self.notice(SqlState::SUCCESSFUL_COMPLETION, text);
                continue;
            };
            self.refuse_needed(&me, &role)?;
            self.refuse_owner(&role)?;
            let members = self.version.all_roles();
            for member in members.iter().filter(|m| m.member_of.iter().any(|m| m.role == role.id)) {
                let mut def = (**member).clone();
                def.member_of.retain(|membership| membership.role != role.id);
                self.change_role(RoleChange::Alter(def)).await?;
            }
            self.change_role(RoleChange::Drop(role.id)).await?;
        }
        Ok(())
    }

    fn refuse_needed(&self, me: &RoleDef, role: &RoleDef) -> Result<(), SqlError> {
        let in_use = |what| Err(SqlError::new(SqlState::OBJECT_IN_USE, what));
        if role.name == self.session.user() {
            return in_use("current user cannot be dropped");
        }
        if role.name == self.session.session_user() {
            return in_use("session user cannot be dropped");
        }
        if role.superuser && !me.superuser {
            return Err(denied("must be superuser to drop superusers"));
        }
        if role.id == INITIAL_ROLE {
            return Err(SqlError::new(
                SqlState::DEPENDENT_OBJECTS_STILL_EXIST,
                format!(
                    "cannot drop role {} because it is required by the database system",
                    role.name
                ),
            ));
        }
        Ok(())
    }

    fn may_grant(&self, role: &RoleDef) -> Result<(), SqlError> {
        let me = self.current_role()?;
        if role.superuser && !me.superuser {
            return Err(denied("must be superuser to alter superusers"));
        }
        let admin = me.member_of.iter().any(|m| m.role == role.id && m.admin);
        match me.superuser || me.create_role || admin {
            true => Ok(()),
            false => Err(denied(format!("must have admin option on role \"{}\"", role.name))),
        }
    }

    async fn grant_role(&mut self, role: &RoleDef, to: &[Name], admin: bool) -> Result<(), Stop> {
        let grantor = self.current_role()?.id;
        for name in to {
            let member = self.known_role(name)?;
            if self.version.is_member(role, member.id) {
                return Err(SqlError::new(
                    SqlState::INVALID_GRANT_OPERATION,
                    format!("role \"{}\" is a member of role \"{}\"", role.name, member.name),
                )
                .into());
            }
            let mut def = (*member).clone();
            match def.member_of.iter_mut().find(|m| m.role == role.id) {
                Some(known) if known.admin || !admin => {
                    let what = "is already a member of role";
                    let text = format!("role \"{}\" {what} \"{}\"", member.name, role.name);
                    self.notice(SqlState::SUCCESSFUL_COMPLETION, text);
                    continue;
                }
                Some(known) => known.admin = true,
                None => def.member_of.push(Membership { role: role.id, admin, grantor }),
            }
            self.change_role(RoleChange::Alter(def)).await?;
        }
        Ok(())
    }

    async fn revoke_role(
        &mut self,
        role: &RoleDef,
        from: &[Name],
        admin: bool,
    ) -> Result<(), Stop> {
        for name in from {
            let member = self.known_role(name)?;
            let mut def = (*member).clone();
            let Some(at) = def.member_of.iter().position(|m| m.role == role.id) else {
                let (member, role) = (&member.name, &role.name);
                let text = format!("role \"{member}\" is not a member of role \"{role}\"");
                self.notices.push(Notice::new("WARNING", SqlState::WARNING, text));
                continue;
            };
            if admin {
                def.member_of[at].admin = false;
            } else {
                def.member_of.remove(at);
            }
            self.change_role(RoleChange::Alter(def)).await?;
        }
        Ok(())
    }

    fn set_options(&mut self, def: &mut RoleDef, options: &Options) -> Result<(), SqlError> {
        let flags = [
            (options.superuser, &mut def.superuser),
            (options.inherit, &mut def.inherit),
            (options.create_role, &mut def.create_role),
            (options.create_db, &mut def.create_db),
            (options.login, &mut def.login),
            (options.replication, &mut def.replication),
            (options.bypass_rls, &mut def.bypass_rls),
        ];
        for (given, flag) in flags {
            *flag = given.unwrap_or(*flag);
        }
        if let Some(limit) = options.connection_limit {
            let valid = i32::try_from(limit).ok().filter(|limit| *limit >= -1);
            def.connection_limit = valid.ok_or_else(|| {
                let message = format!("invalid connection limit: {limit}");
                SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
            })?;
        }
        if let Some(until) = &options.valid_until {
            def.valid_until_us = match until.trim() {
                "infinity" => None,
                text => Some(datetime::parse_timestamp(text, true)?),
            };
        }
        match &options.password {
            None => {}
            Some(None) => def.password = no_password(def),
            Some(Some(text)) if text.is_empty() => {
                let notice = "empty string is not a valid password, clearing password";
                self.notice(SqlState::SUCCESSFUL_COMPLETION, notice);
                def.password = no_password(def);
            }
            Some(Some(text)) => def.password = Some(stored(text)?),
        }
        Ok(())
    }
}

/// What is stored where a role has none any more. That of the initial role is said, or the configuration's would hold
/// again.
fn no_password(role: &RoleDef) -> Option<String> {
    (role.id == INITIAL_ROLE).then(String::new)
}

/// What is stored of a password.
fn stored(text: &str) -> Result<String, SqlError> {
    if Verifier::parse(text).is_some() {
        return Ok(text.to_owned());
    }
    let hex = |text: &str| text.bytes().all(|b| b.is_ascii_hexdigit());
    if text.strip_prefix("md5").is_some_and(|rest| rest.len() == 32 && hex(rest)) {
        return Err(SqlError::unsupported("a password hashed by MD5")
            .hint("Give the password itself, or what SCRAM-SHA-256 makes of it."));
    }
    Ok(froglet_txn::aside(|| Verifier::of(text).to_string()))
}

fn refuse_reserved(name: &str) -> Result<(), SqlError> {
    if name.starts_with("pg_") || matches!(name, "public" | "none") {
        return Err(SqlError::new(
            SqlState::RESERVED_NAME,
            format!("role name \"{name}\" is reserved"),
        ));
    }
    Ok(())
}

/// Another transaction has made a role of this name while this one was about to.
fn taken_meanwhile(stop: Stop) -> Stop {
    match stop {
        Stop::Error(e) if e.state == SqlState::DUPLICATE_TABLE => {
            let message = e.message.replacen("relation", "role", 1);
            Stop::Error(SqlError::new(SqlState::DUPLICATE_OBJECT, message))
        }
        other => other,
    }
}

impl Options {
    fn is_password_only(&self) -> bool {
        let flags = [
            self.superuser,
            self.inherit,
            self.create_role,
            self.create_db,
            self.login,
            self.replication,
            self.bypass_rls,
        ];
        flags.iter().all(Option::is_none)
            && self.connection_limit.is_none()
            && self.valid_until.is_none()
    }
}
