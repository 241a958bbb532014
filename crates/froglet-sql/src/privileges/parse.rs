//! GRANT and REVOKE of privileges, ALTER DEFAULT PRIVILEGES, REASSIGN OWNED and DROP OWNED, from their tokens.

use datafusion::sql::sqlparser::ast::ObjectName;
use datafusion::sql::sqlparser::parser::ParserError;
use datafusion::sql::sqlparser::tokenizer::Token;

use crate::command::{Command, Cursor};
use crate::roles::parse::{Name, name, names};

/// A statement about privileges or owners.
#[derive(Debug)]
#[allow(missing_docs)] // the fields are what their SQL says
pub enum PrivilegeCommand {
    Change { change: GrantChange, on: On },
    Defaults { roles: Vec<Name>, schemas: Vec<String>, change: GrantChange, kind: DefaultKind },
    Reassign { from: Vec<Name>, to: Name },
    DropOwned { of: Vec<Name>, cascade: bool },
}

/// What is granted or revoked, and to whom.
#[derive(Debug)]
#[allow(missing_docs)]
pub struct GrantChange {
    pub is_grant: bool,
    /// None: ALL
    pub privileges: Option<Vec<Privilege>>,
    /// ALL, of these columns.
    pub all_columns: Vec<String>,
    /// `None`: PUBLIC
    pub grantees: Vec<Option<Name>>,
    /// WITH GRANT OPTION, GRANT OPTION FOR
    pub option: bool,
    pub granted_by: Option<Name>,
    pub cascade: bool,
}

/// A privilege by its name, and the columns that it is for.
#[derive(Debug)]
#[allow(missing_docs)]
pub struct Privilege {
    pub name: String,
    pub columns: Vec<String>,
}

/// On what.
#[derive(Debug)]
#[allow(missing_docs)]
pub enum On {
    Tables(Vec<ObjectName>),
    Sequences(Vec<ObjectName>),
    Types(Vec<ObjectName>),
    Schemas(Vec<String>),
    Databases(Vec<String>),
    AllTables(Vec<String>),
    AllSequences(Vec<String>),
    /// There are no functions in schemas of users.
    AllFunctions(Vec<String>),
}

/// Of what kind the objects are to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum DefaultKind {
    Tables,
    Sequences,
    Types,
    Schemas,
    Functions,
}

impl PrivilegeCommand {
    /// Its command tag.
    pub(crate) fn tag(&self) -> &'static str {
        match self {
            PrivilegeCommand::Change { change, .. } if change.is_grant => "GRANT",
            PrivilegeCommand::Change { .. } => "REVOKE",
            PrivilegeCommand::Defaults { .. } => "ALTER DEFAULT PRIVILEGES",
            PrivilegeCommand::Reassign { .. } => "REASSIGN OWNED",
            PrivilegeCommand::DropOwned { .. } => "DROP OWNED",
        }
    }
}

fn command(statement: PrivilegeCommand) -> Command {
    Command::Privileges(Box::new(statement))
}

/// After `GRANT` or `REVOKE`.
pub(crate) fn change(cursor: &mut Cursor<'_>, is_grant: bool) -> Result<Command, ParserError> {
    let (privileges, all_columns, option) = granted(cursor, is_grant)?;
    cursor.expect("on")?;
    let on = match on(cursor)? {
        Ok(on) => on,
        Err(what) => {
            cursor.at = cursor.tokens.len();
            let verb = if is_grant { "GRANT" } else { "REVOKE" };
            return Ok(Command::Unsupported(format!("{verb} ON {what}")));
        }
    };
    let mut change = GrantChange {
        is_grant,
        privileges,
        all_columns,
        grantees: Vec::new(),
        option,
        granted_by: None,
        cascade: false,
    };
    ending(cursor, &mut change, true)?;
    Ok(command(PrivilegeCommand::Change { change, on }))
}

type Granted = (Option<Vec<Privilege>>, Vec<String>, bool);

fn granted(cursor: &mut Cursor<'_>, is_grant: bool) -> Result<Granted, ParserError> {
    let option = !is_grant && cursor.skip("grant");
    if option {
        cursor.expect("option")?;
        cursor.expect("for")?;
    }
    if cursor.skip("all") {
        cursor.skip("privileges");
        return Ok((None, columns(cursor)?, option));
    }
    let mut privileges = Vec::new();
    loop {
        let name = cursor.name()?;
        // ALTER SYSTEM is one of parameters' privileges.
        if name == "alter" {
            cursor.skip("system");
        }
        privileges.push(Privilege { name, columns: columns(cursor)? });
        if !cursor.skip_token(&Token::Comma) {
            return Ok((Some(privileges), Vec::new(), option));
        }
    }
}

/// `(a, b)`, or nothing.
fn columns(cursor: &mut Cursor<'_>) -> Result<Vec<String>, ParserError> {
    if !cursor.skip_token(&Token::LParen) {
        return Ok(Vec::new());
    }
    let columns = words(cursor)?;
    match cursor.skip_token(&Token::RParen) {
        true => Ok(columns),
        false => cursor.wrong("',' or ')'"),
    }
}

fn words(cursor: &mut Cursor<'_>) -> Result<Vec<String>, ParserError> {
    let mut all = vec![cursor.name()?];
    while cursor.skip_token(&Token::Comma) {
        all.push(cursor.name()?);
    }
    Ok(all)
}

fn object_names(cursor: &mut Cursor<'_>) -> Result<Vec<ObjectName>, ParserError> {
    let mut all = vec![cursor.object_name()?];
    while cursor.skip_token(&Token::Comma) {
        all.push(cursor.object_name()?);
    }
    Ok(all)
}

/// After `ON`; the kind of object, if there is none of it here.
fn on(cursor: &mut Cursor<'_>) -> Result<Result<On, String>, ParserError> {
    let first = cursor.at;
    if cursor.skip("all") {
        let known = ["tables", "sequences", "functions", "procedures", "routines"];
        if let Some(kind) = known.iter().find(|kind| cursor.skip(kind)) {
            cursor.expect("in")?;
            cursor.expect("schema")?;
            let schemas = words(cursor)?;
            return Ok(Ok(match *kind {
                "tables" => On::AllTables(schemas),
                "sequences" => On::AllSequences(schemas),
                _ => On::AllFunctions(schemas),
            }));
        }
        cursor.at = first;
    }
    let unknown = [
        ("function", "FUNCTION"),
        ("procedure", "PROCEDURE"),
        ("routine", "ROUTINE"),
        ("language", "LANGUAGE"),
        ("large", "LARGE OBJECT"),
        ("tablespace", "TABLESPACE"),
        ("foreign", "FOREIGN objects"),
        ("parameter", "PARAMETER"),
    ];
    // A table may be called so: then its name ends there.
    let is_kind = |cursor: &Cursor<'_>, word: &str| {
        let next = cursor.tokens.get(cursor.at + 1).map(|next| &next.token);
        let is_name = matches!(next, Some(Token::Word(w))
            if w.quote_style.is_some() || !["to", "from"].contains(&w.value.to_lowercase().as_str()));
        cursor.peek_word(word) && is_name
    };
    if let Some((_, what)) = unknown.iter().find(|(word, _)| is_kind(cursor, word)) {
        return Ok(Err((*what).to_owned()));
    }
    let kinds = ["table", "sequence", "schema", "database", "type", "domain"];
    let kind = kinds.iter().copied().find(|word| is_kind(cursor, word));
    cursor.at += usize::from(kind.is_some());
    Ok(Ok(match kind {
        None | Some("table") => On::Tables(object_names(cursor)?),
        Some("sequence") => On::Sequences(object_names(cursor)?),
        Some("schema") => On::Schemas(words(cursor)?),
        Some("database") => On::Databases(words(cursor)?),
        Some(_) => On::Types(object_names(cursor)?),
    }))
}

/// `TO …` or `FROM …`, and what may follow.
fn ending(cursor: &mut Cursor<'_>, change: &mut GrantChange, by: bool) -> Result<(), ParserError> {
    cursor.expect(if change.is_grant { "to" } else { "from" })?;
    loop {
        cursor.skip("group");
        change.grantees.push(match cursor.skip("public") {
            true => None,
            false => Some(name(cursor)?),
        });
        if !cursor.skip_token(&Token::Comma) {
            break;
        }
    }
    if change.is_grant && cursor.skip("with") {
        cursor.expect("grant")?;
        cursor.expect("option")?;
        change.option = true;
    }
    if by && cursor.skip("granted") {
        cursor.expect("by")?;
        change.granted_by = Some(name(cursor)?);
    }
    if !change.is_grant {
        change.cascade = cursor.skip("cascade");
        cursor.skip("restrict");
    }
    Ok(())
}

/// After `ALTER DEFAULT PRIVILEGES`.
pub(crate) fn defaults(cursor: &mut Cursor<'_>) -> Result<Command, ParserError> {
    let (mut roles, mut schemas) = (Vec::new(), Vec::new());
    loop {
        if cursor.skip("for") {
            if !cursor.skip_any(&["role", "user"]) {
                return cursor.wrong("ROLE");
            }
            roles = names(cursor)?;
        } else if cursor.skip("in") {
            cursor.expect("schema")?;
            schemas = words(cursor)?;
        } else {
            break;
        }
    }
    let is_grant = cursor.skip("grant");
    if !is_grant {
        cursor.expect("revoke")?;
    }
    let (privileges, all_columns, option) = granted(cursor, is_grant)?;
    cursor.expect("on")?;
    let kinds = [
        ("tables", DefaultKind::Tables),
        ("sequences", DefaultKind::Sequences),
        ("types", DefaultKind::Types),
        ("schemas", DefaultKind::Schemas),
        ("functions", DefaultKind::Functions),
        ("routines", DefaultKind::Functions),
    ];
    let Some((_, kind)) = kinds.into_iter().find(|(word, _)| cursor.skip(word)) else {
        return cursor.wrong("TABLES, SEQUENCES, FUNCTIONS, TYPES or SCHEMAS");
    };
    let mut change = GrantChange {
        is_grant,
        privileges,
        all_columns,
        grantees: Vec::new(),
        option,
        granted_by: None,
        cascade: false,
    };
    ending(cursor, &mut change, false)?;
    Ok(command(PrivilegeCommand::Defaults { roles, schemas, change, kind }))
}

/// After `REASSIGN`.
pub(crate) fn reassign(cursor: &mut Cursor<'_>) -> Result<Command, ParserError> {
    cursor.expect("owned")?;
    cursor.expect("by")?;
    let from = names(cursor)?;
    cursor.expect("to")?;
    Ok(command(PrivilegeCommand::Reassign { from, to: name(cursor)? }))
}

/// After `DROP OWNED`.
pub(crate) fn drop_owned(cursor: &mut Cursor<'_>) -> Result<Command, ParserError> {
    cursor.expect("by")?;
    let of = names(cursor)?;
    let cascade = cursor.skip("cascade");
    cursor.skip("restrict");
    Ok(command(PrivilegeCommand::DropOwned { of, cascade }))
}
