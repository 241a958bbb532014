//! CREATE, ALTER and DROP ROLE and USER, GRANT and REVOKE of roles, from their tokens.

use datafusion::sql::sqlparser::parser::ParserError;
use datafusion::sql::sqlparser::tokenizer::Token;

use crate::command::{Command, Cursor, setting_name, setting_value};

/// A statement about roles.
#[derive(Debug)]
#[allow(missing_docs)] // the fields are what their SQL says
pub enum RoleCommand {
    Create {
        name: Name,
        options: Options,
    },
    Alter {
        name: Name,
        options: Options,
    },
    Rename {
        name: Name,
        to: String,
    },
    /// SET and RESET; no value is DEFAULT, no setting ALL.
    Set {
        name: Name,
        database: Option<String>,
        setting: Option<String>,
        value: Option<String>,
    },
    Drop {
        names: Vec<Name>,
        if_exists: bool,
    },
    Grant {
        roles: Vec<Name>,
        to: Vec<Name>,
        admin: bool,
    },
    /// `admin`: only the ADMIN OPTION.
    Revoke {
        roles: Vec<Name>,
        from: Vec<Name>,
        admin: bool,
    },
}

/// Who is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Name {
    Role(String),
    CurrentUser,
    SessionUser,
}

/// What may be said of a role; what is not said is `None`.
#[derive(Debug, Default)]
#[allow(missing_docs)]
pub struct Options {
    pub superuser: Option<bool>,
    pub inherit: Option<bool>,
    pub create_role: Option<bool>,
    pub create_db: Option<bool>,
    pub login: Option<bool>,
    pub replication: Option<bool>,
    pub bypass_rls: Option<bool>,
    pub connection_limit: Option<i64>,
    /// `Some(None)` is PASSWORD NULL.
    pub password: Option<Option<String>>,
    pub valid_until: Option<String>,
    /// IN ROLE
    pub member_of: Vec<Name>,
    /// ROLE, USER
    pub members: Vec<Name>,
    /// ADMIN
    pub admins: Vec<Name>,
}

impl RoleCommand {
    /// The statement without what nobody is to read.
    pub(crate) fn shown(&self) -> &'static str {
        match self {
            RoleCommand::Create { .. } => "CREATE ROLE",
            RoleCommand::Alter { .. } | RoleCommand::Rename { .. } | RoleCommand::Set { .. } => {
                "ALTER ROLE"
            }
            RoleCommand::Drop { .. } => "DROP ROLE",
            RoleCommand::Grant { .. } => "GRANT ROLE",
            RoleCommand::Revoke { .. } => "REVOKE ROLE",
        }
    }
}

/// Whether a word after CREATE, ALTER or DROP begins a statement about roles.
pub(crate) fn is_next(cursor: &Cursor<'_>) -> bool {
    let word = cursor.peek_word("role") || cursor.peek_word("group") || cursor.peek_word("user");
    let mapping = |token: &Token| {
        matches!(token, Token::Word(w) if w.quote_style.is_none()
        && w.value.eq_ignore_ascii_case("mapping"))
    };
    word && !cursor.tokens.get(cursor.at + 1).is_some_and(|next| mapping(&next.token))
}

/// After `CREATE`.
pub(crate) fn create(cursor: &mut Cursor<'_>) -> Result<Command, ParserError> {
    let is_user = cursor.skip("user");
    if !is_user {
        cursor.skip_any(&["role", "group"]);
    }
    let name = name(cursor)?;
    cursor.skip("with");
    let mut options = Options::default();
    while cursor.peek().is_some() {
        if !option(cursor, &mut options)? && !membership(cursor, &mut options)? {
            return cursor.wrong("an option of a role");
        }
    }
    options.login = options.login.or(is_user.then_some(true));
    Ok(command(RoleCommand::Create { name, options }))
}

/// After `ALTER`.
pub(crate) fn alter(cursor: &mut Cursor<'_>) -> Result<Command, ParserError> {
    if cursor.skip("group") {
        cursor.at = cursor.tokens.len();
        return Ok(Command::Unsupported("ALTER GROUP".to_owned()));
    }
    cursor.skip_any(&["role", "user"]);
    if cursor.peek_word("all") {
        cursor.at = cursor.tokens.len();
        return Ok(Command::Unsupported("ALTER ROLE ALL".to_owned()));
    }
    let name = name(cursor)?;
    let mut database = None;
    if cursor.skip("in") {
        cursor.expect("database")?;
        database = Some(cursor.name()?);
    }
    if cursor.skip("reset") {
        let setting = if cursor.skip("all") { None } else { Some(setting_name(cursor)?) };
        return Ok(command(RoleCommand::Set { name, database, setting, value: None }));
    }
    if cursor.skip("set") {
        let setting = Some(setting_name(cursor)?);
        if !cursor.skip_token(&Token::Eq) {
            cursor.expect("to")?;
        }
        let value = setting_value(cursor)?;
        return Ok(command(RoleCommand::Set { name, database, setting, value }));
    }
    if database.is_some() {
        return cursor.wrong("SET or RESET");
    }
    if cursor.skip("rename") {
        cursor.expect("to")?;
        let to = cursor.name()?;
        return Ok(command(RoleCommand::Rename { name, to }));
    }
    cursor.skip("with");
    let mut options = Options::default();
    while cursor.peek().is_some() {
        if !option(cursor, &mut options)? {
            return cursor.wrong("an option of a role");
        }
    }
    Ok(command(RoleCommand::Alter { name, options }))
}

/// After `DROP`.
pub(crate) fn drop(cursor: &mut Cursor<'_>) -> Result<Command, ParserError> {
    cursor.skip_any(&["role", "user", "group"]);
    let if_exists = cursor.skip("if");
    if if_exists {
        cursor.expect("exists")?;
    }
    let names = names(cursor)?;
    Ok(command(RoleCommand::Drop { names, if_exists }))
}

/// After `GRANT`; `None` if it grants privileges, not roles.
pub(crate) fn grant(cursor: &mut Cursor<'_>) -> Option<Result<Command, ParserError>> {
    let roles = names(cursor).ok()?;
    if !cursor.skip("to") {
        return None;
    }
    Some((|| {
        let to = names(cursor)?;
        let admin = cursor.skip("with");
        if admin {
            cursor.expect("admin")?;
            cursor.expect("option")?;
        }
        granted_by(cursor)?;
        Ok(command(RoleCommand::Grant { roles, to, admin }))
    })())
}

/// After `REVOKE`; `None` if it revokes privileges, not roles.
pub(crate) fn revoke(cursor: &mut Cursor<'_>) -> Option<Result<Command, ParserError>> {
    let admin = cursor.skip("admin");
    if admin && !(cursor.skip("option") && cursor.skip("for")) {
        return None;
    }
    let roles = names(cursor).ok()?;
    if !cursor.skip("from") {
        return None;
    }
    Some((|| {
        let from = names(cursor)?;
        granted_by(cursor)?;
        cursor.skip_any(&["cascade", "restrict"]);
        Ok(command(RoleCommand::Revoke { roles, from, admin }))
    })())
}

fn command(role: RoleCommand) -> Command {
    Command::Role(Box::new(role))
}

fn granted_by(cursor: &mut Cursor<'_>) -> Result<(), ParserError> {
    if cursor.skip("granted") {
        cursor.expect("by")?;
        name(cursor)?;
    }
    Ok(())
}

pub(crate) fn name(cursor: &mut Cursor<'_>) -> Result<Name, ParserError> {
    if cursor.skip_any(&["current_user", "current_role"]) {
        return Ok(Name::CurrentUser);
    }
    if cursor.skip("session_user") {
        return Ok(Name::SessionUser);
    }
    cursor.name().map(Name::Role)
}

pub(crate) fn names(cursor: &mut Cursor<'_>) -> Result<Vec<Name>, ParserError> {
    let mut names = vec![name(cursor)?];
    while cursor.skip_token(&Token::Comma) {
        names.push(name(cursor)?);
    }
    Ok(names)
}

/// Takes one option; false if there is none here.
fn option(cursor: &mut Cursor<'_>, options: &mut Options) -> Result<bool, ParserError> {
    let flags: [(&str, &str, &mut Option<bool>); 7] = [
        ("superuser", "nosuperuser", &mut options.superuser),
        ("inherit", "noinherit", &mut options.inherit),
        ("createrole", "nocreaterole", &mut options.create_role),
        ("createdb", "nocreatedb", &mut options.create_db),
        ("login", "nologin", &mut options.login),
        ("replication", "noreplication", &mut options.replication),
        ("bypassrls", "nobypassrls", &mut options.bypass_rls),
    ];
    for (yes, no, flag) in flags {
        if cursor.peek_word(yes) || cursor.peek_word(no) {
            let value = cursor.skip(yes) || !cursor.skip(no);
            return once(cursor, flag.replace(value).is_none());
        }
    }
    if cursor.skip("connection") {
        cursor.expect("limit")?;
        let before = options.connection_limit.replace(cursor.integer()?);
        return once(cursor, before.is_none());
    }
    if cursor.peek_word("encrypted") || cursor.peek_word("password") {
        cursor.skip("encrypted");
        cursor.expect("password")?;
        let password = if cursor.skip("null") { None } else { Some(string(cursor)?) };
        return once(cursor, options.password.replace(password).is_none());
    }
    if cursor.skip("valid") {
        cursor.expect("until")?;
        let before = options.valid_until.replace(string(cursor)?);
        return once(cursor, before.is_none());
    }
    Ok(false)
}

/// An option that was given before is one too many.
fn once(cursor: &Cursor<'_>, is_first: bool) -> Result<bool, ParserError> {
    if is_first { Ok(true) } else { cursor.wrong("each option once") }
}

fn membership(cursor: &mut Cursor<'_>, options: &mut Options) -> Result<bool, ParserError> {
    let list = if cursor.skip("in") {
        if !cursor.skip_any(&["role", "group"]) {
            return cursor.wrong("ROLE");
        }
        &mut options.member_of
    } else if cursor.skip_any(&["role", "user"]) {
        &mut options.members
    } else if cursor.skip("admin") {
        &mut options.admins
    } else if cursor.skip("sysid") {
        cursor.integer()?;
        return Ok(true);
    } else {
        return Ok(false);
    };
    list.extend(names(cursor)?);
    Ok(true)
}

fn string(cursor: &mut Cursor<'_>) -> Result<String, ParserError> {
    match cursor.peek() {
        Some(Token::SingleQuotedString(text) | Token::EscapedStringLiteral(text)) => {
            let text = text.clone();
            cursor.at += 1;
            Ok(text)
        }
        _ => cursor.wrong("a string"),
    }
}
