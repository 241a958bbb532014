//! Schemas, views, enum types and comments, from tokens: what sqlparser reads otherwise than PostgreSQL, or not
//! at all.
//!
//! ```text
//!   CREATE SCHEMA │ VIEW │ MATERIALIZED VIEW │ TYPE … AS ENUM      ALTER SCHEMA │ VIEW │ TYPE
//!   ALTER TABLE │ SEQUENCE … SET SCHEMA      REFRESH MATERIALIZED VIEW      COMMENT ON
//! ```

use datafusion::sql::sqlparser::ast::{
    Expr, Ident, ObjectName, Query, SqlOption, Statement, Value,
};
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use froglet_schema::plain::CheckOption;

use crate::command::{Command, Cursor};
use crate::dialect::Postgres;
use crate::parse::parse_sql;
use crate::udf::lookup::quoted;
use crate::unsupported_forms::begins;

/// A statement about an object without rows.
#[derive(Debug)]
#[allow(missing_docs)] // the fields are what their SQL says
pub enum ObjectDdl {
    /// The name is that of AUTHORIZATION where there is no other.
    CreateSchema {
        name: String,
        if_not_exists: bool,
        /// AUTHORIZATION
        owner: Option<String>,
    },
    RenameSchema {
        name: String,
        to: String,
    },
    CreateView(CreateView),
    Refresh {
        view: ObjectName,
        concurrently: bool,
        with_data: bool,
    },
    /// ALTER [MATERIALIZED] VIEW … RENAME COLUMN
    RenameColumn {
        kind: Kind,
        if_exists: bool,
        name: ObjectName,
        column: String,
        to: String,
    },
    CreateEnum {
        name: ObjectName,
        labels: Vec<String>,
    },
    AddLabel {
        name: ObjectName,
        if_not_exists: bool,
        label: String,
        place: Place,
    },
    RenameLabel {
        name: ObjectName,
        from: String,
        to: String,
    },
    /// ALTER … RENAME TO of a view or a type.
    Rename {
        kind: Kind,
        if_exists: bool,
        name: ObjectName,
        to: String,
    },
    /// ALTER INDEX IF EXISTS … RENAME TO
    RenameIndex {
        name: ObjectName,
        to: String,
    },
    SetSchema {
        kind: Kind,
        if_exists: bool,
        name: ObjectName,
        schema: String,
    },
    /// ALTER MATERIALIZED VIEW … SET ACCESS METHOD
    SetAccessMethod {
        if_exists: bool,
        name: ObjectName,
        method: String,
    },
    Owner {
        /// None for a schema.
        kind: Option<Kind>,
        if_exists: bool,
        name: ObjectName,
        role: String,
    },
    CreateExtension {
        name: String,
        if_not_exists: bool,
    },
    Comment {
        on: Commented,
        name: ObjectName,
        text: Option<String>,
    },
}

/// `CREATE [OR REPLACE] [TEMPORARY] [MATERIALIZED] VIEW`
#[derive(Debug)]
#[allow(missing_docs)]
pub struct CreateView {
    pub or_replace: bool,
    pub temporary: bool,
    pub materialized: bool,
    pub if_not_exists: bool,
    pub name: ObjectName,
    /// Names of the first columns.
    pub columns: Vec<String>,
    /// USING, of one that has rows.
    pub method: Option<String>,
    pub options: Vec<SqlOption>,
    pub query: Box<Query>,
    pub check_option: Option<CheckOption>,
    pub with_data: bool,
}

/// Where a label goes.
#[derive(Debug)]
#[allow(missing_docs)]
pub enum Place {
    Last,
    Before(String),
    After(String),
}

/// What ALTER is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Kind {
    Table,
    Sequence,
    View,
    MaterializedView,
    Type,
}

/// What COMMENT is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Commented {
    Relation(Kind),
    Index,
    Column,
    Schema,
    Constraint,
    Type,
    Database,
    Role,
}

/// Parses a statement that begins with CREATE, if it is one of these.
pub(crate) fn create(tokens: &[TokenWithSpan]) -> Option<Result<Command, ParserError>> {
    let mut cursor = Cursor { tokens, at: 1 };
    if cursor.skip("schema") {
        return Some(finish(&mut cursor, create_schema));
    }
    if cursor.skip("extension") {
        return Some(finish(&mut cursor, |cursor| {
            let if_not_exists = if_not_exists(cursor)?;
            let name = cursor.name()?;
            cursor.at = cursor.tokens.len();
            Ok(ObjectDdl::CreateExtension { name, if_not_exists })
        }));
    }
    if cursor.skip("type") {
        let name = cursor.object_name().ok()?;
        if !(cursor.skip("as") && cursor.skip("enum")) {
            return None;
        }
        return Some(finish(&mut cursor, |cursor| {
            let labels = labels(cursor)?;
            Ok(ObjectDdl::CreateEnum { name, labels })
        }));
    }
    let or_replace = cursor.skip("or") && cursor.skip("replace");
    let temporary = cursor.skip_any(&["temp", "temporary"]);
    let recursive = cursor.skip("recursive");
    let materialized = cursor.skip("materialized");
    if !cursor.skip("view") || recursive && materialized {
        return None;
    }
    if reads_as_invoker(tokens) {
        return Some(Ok(Command::Unsupported("a view WITH (security_invoker)".to_owned())));
    }
    Some(finish(&mut cursor, |cursor| {
        let if_not_exists = if_not_exists(cursor)?;
        let name = cursor.object_name()?;
        let columns = match cursor.skip_token(&Token::LParen) {
            true => names(cursor)?,
            false if recursive => return cursor.wrong("'('"),
            false => Vec::new(),
        };
        let method = if materialized && cursor.skip("using") { Some(cursor.name()?) } else { None };
        let options = if cursor.skip("with") { options(cursor)? } else { Vec::new() };
        cursor.expect("as")?;
        let (end, check_option, with_data) = ending(tokens, materialized);
        let mut query = query(&tokens[cursor.at.min(end)..end])?;
        if recursive {
            query = recursive_query(&name, &columns, &query)?;
        }
        cursor.at = tokens.len();
        Ok(ObjectDdl::CreateView(CreateView {
            or_replace,
            temporary,
            materialized,
            if_not_exists,
            name,
            columns,
            method,
            options,
            query,
            check_option,
            with_data,
        }))
    }))
}

/// CREATE RECURSIVE VIEW v (a) AS q is CREATE VIEW v AS WITH RECURSIVE v (a) AS (q) SELECT a FROM v.
fn recursive_query(
    name: &ObjectName,
    columns: &[String],
    query: &Query,
) -> Result<Box<Query>, ParserError> {
    let name = name.0.last().map(ToString::to_string).unwrap_or_default();
    let columns: Vec<String> = columns.iter().map(|name| quoted(name)).collect();
    let columns = columns.join(", ");
    let text =
        format!("WITH RECURSIVE {name} ({columns}) AS ({query}) SELECT {columns} FROM {name}");
    Parser::new(&Postgres).try_with_sql(&text)?.parse_query()
}

/// Parses a statement that begins with ALTER, if it is one of these.
pub(crate) fn alter(tokens: &[TokenWithSpan]) -> Option<Result<Command, ParserError>> {
    let mut cursor = Cursor { tokens, at: 1 };
    if cursor.skip("schema") {
        return Some(finish(&mut cursor, |cursor| {
            let name = cursor.name()?;
            if cursor.skip("owner") {
                let name = ObjectName::from(vec![Ident::with_quote('"', name)]);
                return owner(cursor, None, false, name);
            }
            cursor.expect("rename")?;
            cursor.expect("to")?;
            Ok(ObjectDdl::RenameSchema { name, to: cursor.name()? })
        }));
    }
    if cursor.skip("index") {
        if !(cursor.skip("if") && cursor.skip("exists")) {
            return None;
        }
        let name = cursor.object_name().ok()?;
        return cursor.skip("rename").then(|| {
            finish(&mut cursor, |cursor| {
                cursor.expect("to")?;
                Ok(ObjectDdl::RenameIndex { name, to: cursor.name()? })
            })
        });
    }
    let kind = kind(&mut cursor)?;
    let if_exists = cursor.skip("if") && cursor.skip("exists");
    if kind == Kind::Table {
        cursor.skip("only");
    }
    let name = cursor.object_name().ok()?;
    // Every table is logged; of one alone there is nothing to do.
    if kind == Kind::Table
        && !if_exists
        && matches!(&tokens[cursor.at..], [set, logged, rest @ ..]
        if is_word(set, "set") && is_word(logged, "logged")
            && rest.iter().all(|t| matches!(t.token, Token::SemiColon | Token::EOF)))
    {
        return Some(Ok(Command::Maintenance {
            tag: "ALTER TABLE",
            full: false,
            tables: vec![name],
        }));
    }
    if kind == Kind::MaterializedView && begins(&tokens[cursor.at..], "SET ACCESS METHOD") {
        cursor.at += 3;
        return Some(finish(&mut cursor, |cursor| {
            Ok(ObjectDdl::SetAccessMethod { if_exists, name, method: cursor.name()? })
        }));
    }
    if cursor.skip("set") && cursor.skip("schema") {
        return Some(finish(&mut cursor, |cursor| {
            Ok(ObjectDdl::SetSchema { kind, if_exists, name, schema: cursor.name()? })
        }));
    }
    // One action among several is ALTER TABLE's.
    let alone = !tokens.iter().any(|token| token.token == Token::Comma);
    if kind != Kind::Type && alone && cursor.skip("owner") {
        return Some(finish(&mut cursor, |cursor| owner(cursor, Some(kind), if_exists, name)));
    }
    match kind {
        Kind::Table | Kind::Sequence => None,
        Kind::View | Kind::MaterializedView => Some(finish(&mut cursor, |cursor| {
            cursor.expect("rename")?;
            let is_named_to = matches!(cursor.tokens.get(cursor.at + 1), Some(token)
                if matches!(&token.token, Token::Word(w) if w.value.eq_ignore_ascii_case("to")));
            if cursor.peek_word("to") && !is_named_to {
                cursor.expect("to")?;
                return Ok(ObjectDdl::Rename { kind, if_exists, name, to: cursor.name()? });
            }
            if !is_named_to {
                cursor.expect("column")?;
            }
            let column = cursor.name()?;
            cursor.expect("to")?;
            Ok(ObjectDdl::RenameColumn { kind, if_exists, name, column, to: cursor.name()? })
        })),
        Kind::Type => Some(finish(&mut cursor, |cursor| alter_type(cursor, name))),
    }
}

fn is_word(token: &TokenWithSpan, word: &str) -> bool {
    matches!(&token.token, Token::Word(w)
        if w.quote_style.is_none() && w.value.eq_ignore_ascii_case(word))
}

/// After `OWNER`.
fn owner(
    cursor: &mut Cursor<'_>,
    kind: Option<Kind>,
    if_exists: bool,
    name: ObjectName,
) -> Result<ObjectDdl, ParserError> {
    cursor.expect("to")?;
    Ok(ObjectDdl::Owner { kind, if_exists, name, role: cursor.name()? })
}

/// `REFRESH MATERIALIZED VIEW [CONCURRENTLY] name [WITH [NO] DATA]`
pub(crate) fn refresh(cursor: &mut Cursor<'_>) -> Result<Command, ParserError> {
    cursor.expect("materialized")?;
    cursor.expect("view")?;
    let concurrently = cursor.skip("concurrently");
    let view = cursor.object_name()?;
    let mut with_data = true;
    if cursor.skip("with") {
        with_data = !cursor.skip("no");
        cursor.expect("data")?;
    }
    Ok(Command::Object(Box::new(ObjectDdl::Refresh { view, concurrently, with_data })))
}

/// `COMMENT ON kind name IS 'text' | NULL`
pub(crate) fn comment(cursor: &mut Cursor<'_>) -> Result<Command, ParserError> {
    cursor.expect("on")?;
    let on = if cursor.skip("column") {
        Commented::Column
    } else if cursor.skip("index") {
        Commented::Index
    } else if cursor.skip("schema") {
        Commented::Schema
    } else if cursor.skip("constraint") {
        Commented::Constraint
    } else if cursor.skip("database") {
        Commented::Database
    } else if cursor.skip("role") {
        Commented::Role
    } else {
        match kind(cursor) {
            Some(Kind::Type) => Commented::Type,
            Some(kind) => Commented::Relation(kind),
            None => {
                let word = cursor.peek().map(ToString::to_string).unwrap_or_default();
                cursor.at = cursor.tokens.len();
                let what = format!("COMMENT ON {}", word.to_uppercase());
                return Ok(Command::Unsupported(what));
            }
        }
    };
    let mut name = cursor.object_name()?;
    if on == Commented::Constraint {
        cursor.expect("on")?;
        let table = cursor.object_name()?;
        // As a column's: behind its table.
        name = ObjectName(table.0.into_iter().chain(name.0).collect());
    }
    cursor.expect("is")?;
    let text = if cursor.skip("null") { None } else { Some(string(cursor)?) };
    Ok(Command::Object(Box::new(ObjectDdl::Comment { on, name, text })))
}

fn finish(
    cursor: &mut Cursor<'_>,
    rest: impl FnOnce(&mut Cursor<'_>) -> Result<ObjectDdl, ParserError>,
) -> Result<Command, ParserError> {
    let statement = rest(cursor)?;
    cursor.end()?;
    Ok(Command::Object(Box::new(statement)))
}

fn create_schema(cursor: &mut Cursor<'_>) -> Result<ObjectDdl, ParserError> {
    let if_not_exists = if_not_exists(cursor)?;
    let name = if cursor.peek_word("authorization") { None } else { Some(cursor.name()?) };
    let owner = if cursor.skip("authorization") { Some(cursor.name()?) } else { None };
    match name.or_else(|| owner.clone()) {
        Some(name) => Ok(ObjectDdl::CreateSchema { name, if_not_exists, owner }),
        None => cursor.wrong("a name"),
    }
}

fn alter_type(cursor: &mut Cursor<'_>, name: ObjectName) -> Result<ObjectDdl, ParserError> {
    if cursor.skip("owner") {
        return owner(cursor, Some(Kind::Type), false, name);
    }
    if cursor.skip("rename") {
        if cursor.skip("value") {
            let from = string(cursor)?;
            cursor.expect("to")?;
            return Ok(ObjectDdl::RenameLabel { name, from, to: string(cursor)? });
        }
        cursor.expect("to")?;
        let to = cursor.name()?;
        return Ok(ObjectDdl::Rename { kind: Kind::Type, if_exists: false, name, to });
    }
    cursor.expect("add")?;
    cursor.expect("value")?;
    let if_not_exists = if_not_exists(cursor)?;
    let label = string(cursor)?;
    let place = if cursor.skip("before") {
        Place::Before(string(cursor)?)
    } else if cursor.skip("after") {
        Place::After(string(cursor)?)
    } else {
        Place::Last
    };
    Ok(ObjectDdl::AddLabel { name, if_not_exists, label, place })
}

fn kind(cursor: &mut Cursor<'_>) -> Option<Kind> {
    let words = [
        ("table", Kind::Table),
        ("sequence", Kind::Sequence),
        ("view", Kind::View),
        ("type", Kind::Type),
    ];
    if cursor.skip("materialized") {
        return cursor.skip("view").then_some(Kind::MaterializedView);
    }
    words.into_iter().find(|(word, _)| cursor.skip(word)).map(|(_, kind)| kind)
}

fn if_not_exists(cursor: &mut Cursor<'_>) -> Result<bool, ParserError> {
    if !cursor.skip("if") {
        return Ok(false);
    }
    cursor.expect("not")?;
    cursor.expect("exists")?;
    Ok(true)
}

/// `a, b)`
fn names(cursor: &mut Cursor<'_>) -> Result<Vec<String>, ParserError> {
    let mut names = Vec::new();
    loop {
        names.push(cursor.name()?);
        if cursor.skip_token(&Token::RParen) {
            return Ok(names);
        }
        if !cursor.skip_token(&Token::Comma) {
            return cursor.wrong("',' or ')'");
        }
    }
}

/// `('a', 'b')`
fn labels(cursor: &mut Cursor<'_>) -> Result<Vec<String>, ParserError> {
    if !cursor.skip_token(&Token::LParen) {
        return cursor.wrong("'('");
    }
    let mut labels = Vec::new();
    while !cursor.skip_token(&Token::RParen) {
        if !labels.is_empty() && !cursor.skip_token(&Token::Comma) {
            return cursor.wrong("',' or ')'");
        }
        labels.push(string(cursor)?);
    }
    Ok(labels)
}

fn string(cursor: &mut Cursor<'_>) -> Result<String, ParserError> {
    match cursor.peek() {
        Some(Token::SingleQuotedString(s) | Token::EscapedStringLiteral(s)) => {
            let text = s.clone();
            cursor.at += 1;
            Ok(text)
        }
        Some(Token::DollarQuotedString(s)) => {
            let text = s.value.clone();
            cursor.at += 1;
            Ok(text)
        }
        _ => cursor.wrong("a string"),
    }
}

/// `(a, b = 1)`; an option without a value is on.
fn options(cursor: &mut Cursor<'_>) -> Result<Vec<SqlOption>, ParserError> {
    let mut options = Vec::new();
    if !cursor.skip_token(&Token::LParen) {
        return cursor.wrong("'('");
    }
    loop {
        let key = Ident::new(cursor.object_name()?.to_string());
        let value = match cursor.skip_token(&Token::Eq) {
            true => {
                let value = cursor.tokens.get(cursor.at).cloned().into_iter().collect();
                cursor.at += 1;
                Parser::new(&Postgres).with_tokens_with_locations(value).parse_expr()?
            }
            false => Expr::value(Value::Boolean(true)),
        };
        options.push(SqlOption::KeyValue { key, value });
        if cursor.skip_token(&Token::RParen) {
            return Ok(options);
        }
        if !cursor.skip_token(&Token::Comma) {
            return cursor.wrong("',' or ')'");
        }
    }
}

/// Whether CREATE VIEW says that a view is to be read as whoever reads it: here it is always its owner.
fn reads_as_invoker(tokens: &[TokenWithSpan]) -> bool {
    let is = |at: usize, word: &str| Cursor { tokens, at }.peek_word(word);
    let query = (0..tokens.len()).find(|at| is(*at, "as")).unwrap_or(tokens.len());
    let options = (0..query).find(|at| is(*at, "with")).unwrap_or(query);
    (options..query).any(|at| is(at, "security_invoker"))
}

/// Where a view's query ends, and what stands behind it.
fn ending(tokens: &[TokenWithSpan], materialized: bool) -> (usize, Option<CheckOption>, bool) {
    let ends_with = |words: &[&str]| {
        let at = tokens.len().checked_sub(words.len())?;
        let mut cursor = Cursor { tokens, at };
        words.iter().all(|word| cursor.skip(word)).then_some(at)
    };
    if materialized {
        if let Some(at) = ends_with(&["with", "no", "data"]) {
            return (at, None, false);
        }
        return (ends_with(&["with", "data"]).unwrap_or(tokens.len()), None, true);
    }
    let options: [(&[&str], CheckOption); 3] = [
        (&["with", "local", "check", "option"], CheckOption::Local),
        (&["with", "cascaded", "check", "option"], CheckOption::Cascaded),
        (&["with", "check", "option"], CheckOption::Cascaded),
    ];
    for (words, option) in options {
        if let Some(at) = ends_with(words) {
            return (at, Some(option), true);
        }
    }
    (tokens.len(), None, true)
}

fn query(tokens: &[TokenWithSpan]) -> Result<Box<Query>, ParserError> {
    match parse_sql(tokens.to_vec())? {
        Statement::Query(query) => Ok(query),
        other => Err(ParserError::ParserError(format!("Expected: a query, found: {other}"))),
    }
}
