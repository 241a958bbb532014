//! ALTER SEQUENCE: sqlparser has no such statement.

use datafusion::sql::sqlparser::ast;
use datafusion::sql::sqlparser::parser::ParserError;

use crate::command::{Command, Cursor};

/// `ALTER SEQUENCE [IF EXISTS] name …`
#[derive(Debug)]
#[allow(missing_docs)] // the fields are what their SQL says
pub struct AlterSequence {
    pub name: ast::ObjectName,
    pub if_exists: bool,
    pub rename: Option<String>,
    pub increment: Option<i64>,
    /// `Some(None)`: NO MINVALUE
    pub min: Option<Option<i64>>,
    pub max: Option<Option<i64>>,
    pub start: Option<i64>,
    /// `Some(None)`: RESTART without a value
    pub restart: Option<Option<i64>>,
    pub cycle: Option<bool>,
    /// `Some(None)`: OWNED BY NONE
    pub owned_by: Option<Option<ast::ObjectName>>,
}

pub(crate) fn parse_alter(cursor: &mut Cursor<'_>) -> Result<Command, ParserError> {
    let if_exists = cursor.skip("if") && cursor.skip("exists");
    let mut alter = AlterSequence {
        name: cursor.object_name()?,
        if_exists,
        rename: None,
        increment: None,
        min: None,
        max: None,
        start: None,
        restart: None,
        cycle: None,
        owned_by: None,
    };
    while cursor.peek().is_some() {
        action(cursor, &mut alter)?;
    }
    Ok(Command::AlterSequence(Box::new(alter)))
}

fn action(cursor: &mut Cursor<'_>, alter: &mut AlterSequence) -> Result<(), ParserError> {
    if cursor.skip("rename") {
        cursor.skip("to");
        alter.rename = Some(cursor.name()?);
    } else if cursor.skip("increment") {
        cursor.skip("by");
        alter.increment = Some(cursor.integer()?);
    } else if cursor.skip("minvalue") {
        alter.min = Some(Some(cursor.integer()?));
    } else if cursor.skip("maxvalue") {
        alter.max = Some(Some(cursor.integer()?));
    } else if cursor.skip("start") {
        cursor.skip("with");
        alter.start = Some(cursor.integer()?);
    } else if cursor.skip("restart") {
        let given = cursor.skip("with") || !matches!(cursor.peek(), None | Some(datafusion::sql::sqlparser::tokenizer::Token::Word(_)));
        alter.restart = Some(if given { Some(cursor.integer()?) } else { None });
    } else if cursor.skip("cycle") {
        alter.cycle = Some(true);
    } else if cursor.skip("cache") {
        cursor.integer()?;
    } else if cursor.skip("owned") {
        cursor.skip("by");
        alter.owned_by = Some(if cursor.skip("none") { None } else { Some(cursor.object_name()?) });
    } else if cursor.skip("no") {
        if cursor.skip("minvalue") {
            alter.min = Some(None);
        } else if cursor.skip("maxvalue") {
            alter.max = Some(None);
        } else if cursor.skip("cycle") {
            alter.cycle = Some(false);
        } else {
            return cursor.wrong("MINVALUE, MAXVALUE or CYCLE");
        }
    } else {
        return cursor.wrong("a sequence option");
    }
    Ok(())
}
