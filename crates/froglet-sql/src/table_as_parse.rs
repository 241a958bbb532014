//! CREATE TABLE AS, from tokens: what sqlparser does not read of it.
//!
//! ```text
//!   CREATE TABLE [IF NOT EXISTS] name (names) … AS query WITH [NO] DATA
//!                                     └─ without types     └─ both taken out, the rest is sqlparser's
//! ```

use datafusion::sql::sqlparser::ast::{CreateTable, Query, SetExpr, Statement};
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::command::{Command, Cursor};
use crate::dialect::Postgres;
use crate::parse::parse_sql;

/// CREATE TABLE AS.
#[derive(Debug)]
pub struct TableAs {
    /// As sqlparser reads it; it has a query.
    pub create: CreateTable,
    /// Names of the first columns.
    pub names: Vec<String>,
    /// WITH DATA
    pub with_data: bool,
}

/// Parses a statement that begins with CREATE, if it is one that sqlparser does not read.
pub(crate) fn parse(tokens: &[TokenWithSpan]) -> Option<Result<Command, ParserError>> {
    let mut cursor = Cursor { tokens, at: 1 };
    cursor.skip_any(&["global", "local"]);
    cursor.skip_any(&["temp", "temporary", "unlogged"]);
    if !cursor.skip("table") {
        return None;
    }
    if cursor.skip("if") {
        cursor.skip("not");
        cursor.skip("exists");
    }
    cursor.object_name().ok()?;
    let from = cursor.at;
    let names = names(&mut cursor);
    let to = if names.is_some() { cursor.at } else { from };
    let data = data(tokens);
    if names.is_none() && data.is_none() {
        return None;
    }
    let (end, with_data) = data.unwrap_or((tokens.len(), true));
    let rest = [&tokens[..from], tokens.get(to..end)?].concat();
    match parse_sql(rest) {
        Err(e) => Some(Err(e)),
        Ok(Statement::CreateTable(create)) if create.query.is_some() => {
            let names = names.unwrap_or_default();
            Some(Ok(Command::CreateTableAs(Box::new(TableAs { create, names, with_data }))))
        }
        // It is not ours: sqlparser says what is wrong with it.
        Ok(_) => None,
    }
}

/// SELECT … INTO table … is CREATE TABLE table AS SELECT … …
pub(crate) fn of_select_into(mut query: Box<Query>) -> Command {
    let into = match query.body.as_mut() {
        SetExpr::Select(select) => select.into.take(),
        _ => None,
    };
    let Some(into) = into else { return Command::Query(query) };
    let kind = match (into.temporary, into.unlogged) {
        (true, _) => "TEMPORARY TABLE",
        (_, true) => "UNLOGGED TABLE",
        _ => "TABLE",
    };
    let text = format!("CREATE {kind} {} AS SELECT 1", into.name);
    let parsed = Parser::new(&Postgres).try_with_sql(&text).and_then(|mut p| p.parse_statement());
    match parsed {
        Ok(Statement::CreateTable(mut create)) => {
            create.query = Some(query);
            let table = TableAs { create, names: Vec::new(), with_data: true };
            Command::CreateTableAs(Box::new(table))
        }
        _ => Command::Unsupported("SELECT INTO".to_owned()),
    }
}

/// `(a, b)`, passed; `None` for anything else.
fn names(cursor: &mut Cursor<'_>) -> Option<Vec<String>> {
    if !cursor.skip_token(&Token::LParen) {
        return None;
    }
    let mut names = Vec::new();
    loop {
        names.push(cursor.name().ok()?);
        if cursor.skip_token(&Token::RParen) {
            return Some(names);
        }
        if !cursor.skip_token(&Token::Comma) {
            return None;
        }
    }
}

/// Where WITH [NO] DATA begins at the end of a statement, and whether it is with.
fn data(tokens: &[TokenWithSpan]) -> Option<(usize, bool)> {
    let ends_with = |words: &[&str]| {
        let at = tokens.len().checked_sub(words.len())?;
        let mut cursor = Cursor { tokens, at };
        words.iter().all(|word| cursor.skip(word)).then_some(at)
    };
    let no_data = ends_with(&["with", "no", "data"]).map(|at| (at, false));
    no_data.or_else(|| ends_with(&["with", "data"]).map(|at| (at, true)))
}
