//! DO with a block of statements, as migrations write what may be there already:
//!
//! ```text
//!   DO $$ BEGIN
//!     CREATE TYPE mood AS ENUM ('sad', 'ok');      one after another, under a savepoint
//!   EXCEPTION WHEN duplicate_object THEN null;      of these errors the savepoint is all that is left
//!   END $$
//! ```
//!
//! There are no functions, so there are no variables, no loops and no conditions: all else is 0A000.

use std::pin::pin;

use datafusion::sql::sqlparser::parser::ParserError;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer};
use froglet_engine::SqlState;

use super::{Block, Session};
use crate::dialect::Postgres;
use crate::error::{InnerStatement, SqlError};
use crate::parse;
use crate::stream::Outcome;

/// The savepoint's name, which nobody can write.
const SAVEPOINT: &str = "froglet do\0";

/// A block: its statements, and the errors after which it is as if it had never been.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DoBlock {
    statements: Vec<Inner>,
    caught: Vec<Condition>,
}

/// A statement, and the line of the block on which it begins, from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Inner {
    text: String,
    line: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Condition {
    State(String),
    Others,
}

/// Names of errors that are worth to be caught.
const CONDITIONS: &[(&str, &str)] = &[
    ("duplicate_object", "42710"),
    ("duplicate_table", "42P07"),
    ("duplicate_column", "42701"),
    ("duplicate_schema", "42P06"),
    ("duplicate_alias", "42712"),
    ("duplicate_function", "42723"),
    ("undefined_table", "42P01"),
    ("undefined_column", "42703"),
    ("undefined_object", "42704"),
    ("undefined_function", "42883"),
    ("invalid_schema_name", "3F000"),
    ("invalid_table_definition", "42P16"),
    ("invalid_foreign_key", "42830"),
    ("wrong_object_type", "42809"),
    ("syntax_error", "42601"),
    ("insufficient_privilege", "42501"),
    ("feature_not_supported", "0A000"),
    ("dependent_objects_still_exist", "2BP01"),
    ("object_in_use", "55006"),
    ("lock_not_available", "55P03"),
    ("unique_violation", "23505"),
    ("foreign_key_violation", "23503"),
    ("check_violation", "23514"),
    ("not_null_violation", "23502"),
];

/// What DO is followed by. `None` if the block has something that is not known here.
pub(crate) fn parse(tokens: &[TokenWithSpan]) -> Result<Option<DoBlock>, ParserError> {
    let mut body = None;
    let mut at = 1;
    while let Some(token) = tokens.get(at) {
        match &token.token {
            Token::Word(w) if w.value.eq_ignore_ascii_case("language") => {
                let language = tokens.get(at + 1).map(|t| t.token.to_string());
                let language = language.unwrap_or_default();
                if !language.trim_matches(['"', '\'']).eq_ignore_ascii_case("plpgsql") {
                    return Ok(None);
                }
                at += 2;
                continue;
            }
            Token::SingleQuotedString(text) | Token::EscapedStringLiteral(text)
                if body.is_none() =>
            {
                body = Some(text.clone());
            }
            Token::DollarQuotedString(text) if body.is_none() => body = Some(text.value.clone()),
            _ => return Err(ParserError::ParserError("Expected: the body of DO".to_owned())),
        }
        at += 1;
    }
    match body {
        Some(body) => Ok(block(&body)),
        None => Err(ParserError::ParserError("Expected: the body of DO".to_owned())),
    }
}

fn block(body: &str) -> Option<DoBlock> {
    // The first line is the one after `$$`.
    let body = body.strip_prefix('\n').unwrap_or(body);
    let mut tokenizer = Tokenizer::new(&Postgres, body).with_unescape(false);
    // Each with the line on which it begins.
    let mut parts: Vec<(u64, Vec<Token>)> = vec![(1, Vec::new())];
    for TokenWithSpan { token, span } in tokenizer.tokenize_with_location().ok()? {
        let (line, part) = parts.last_mut()?;
        match token {
            Token::SemiColon => parts.push((span.end.line, Vec::new())),
            // A comment between two statements belongs to neither.
            Token::Whitespace(_) if part.is_empty() => {}
            token => {
                if part.is_empty() {
                    *line = span.start.line;
                }
                part.push(token);
                let begins = part.len() == 1 && is(&part[0], "begin");
                let handles = part.len() == 1 && is(&part[0], "exception");
                if begins || handles {
                    parts.push((span.end.line, Vec::new()));
                }
            }
        }
    }
    let mut parts = parts.into_iter().filter(|(_, part)| !part.is_empty());
    if !is(parts.next()?.1.first()?, "begin") {
        return None;
    }
    let mut block = DoBlock { statements: Vec::new(), caught: Vec::new() };
    let mut handling = false;
    while let Some((line, part)) = parts.next() {
        let first = part.first()?;
        if is(first, "exception") {
            handling = true;
        } else if is(first, "end") {
            return (words(&part).len() == 1 && parts.next().is_none()).then_some(block);
        } else if handling {
            block.caught.extend(handler(&part)?);
        } else if !is(first, "null") {
            let known = [
                "create", "alter", "drop", "comment", "insert", "update", "delete", "grant",
                "revoke", "truncate",
            ];
            if !known.iter().any(|word| is(first, word)) {
                return None;
            }
            let text = part.iter().map(Token::to_string).collect();
            block.statements.push(Inner { text, line });
        }
    }
    None
}

/// `WHEN a OR b THEN null`
fn handler(part: &[Token]) -> Option<Vec<Condition>> {
    let words = words(part);
    let then = words.iter().position(|word| is(word, "then"))?;
    let does_nothing = match &words[then + 1..] {
        [] => true,
        [word] => is(word, "null"),
        _ => false,
    };
    if !is(words.first()?, "when") || !does_nothing {
        return None;
    }
    let mut conditions = Vec::new();
    let mut rest = words[1..then].iter();
    while let Some(word) = rest.next() {
        match word {
            word if is(word, "or") => {}
            word if is(word, "others") => conditions.push(Condition::Others),
            word if is(word, "sqlstate") => match rest.next()? {
                Token::SingleQuotedString(state) => {
                    conditions.push(Condition::State(state.clone()))
                }
                _ => return None,
            },
            Token::Word(word) => {
                let name = word.value.to_ascii_lowercase();
                let (_, state) = CONDITIONS.iter().find(|(known, _)| *known == name)?;
                conditions.push(Condition::State((*state).to_owned()));
            }
            _ => return None,
        }
    }
    Some(conditions)
}

fn words(part: &[Token]) -> Vec<&Token> {
    part.iter().filter(|token| !matches!(token, Token::Whitespace(_))).collect()
}

fn is(token: &Token, word: &str) -> bool {
    matches!(token, Token::Word(w) if w.quote_style.is_none() && w.value.eq_ignore_ascii_case(word))
}

impl DoBlock {
    fn catches(&self, error: &SqlError) -> bool {
        let state = error.state;
        self.caught.iter().any(|condition| match condition {
            Condition::State(known) => known == state.as_str(),
            Condition::Others => !error.fatal && state != SqlState::QUERY_CANCELED,
        })
    }
}

/// Runs a block.
pub(crate) async fn run(session: &mut Session, block: &DoBlock) -> Result<(), SqlError> {
    session.transaction()?;
    let outer = session.block;
    // To which savepoints belong.
    session.block = Block::Explicit;
    session.savepoint(SAVEPOINT)?;
    let outcome = Box::pin(run_all(session, &block.statements)).await;
    let ended = match &outcome {
        Ok(()) => Ok(()),
        Err(_) => session.rollback_to(SAVEPOINT),
    };
    let ended = ended.and_then(|()| session.release(SAVEPOINT));
    session.block = outer;
    ended?;
    match outcome {
        Err(error) if !block.catches(&error) => Err(error),
        _ => Ok(()),
    }
}

async fn run_all(session: &mut Session, statements: &[Inner]) -> Result<(), SqlError> {
    session.set_last(false);
    for Inner { text, line } in statements {
        let place = format!("PL/pgSQL function inline_code_block line {line} at SQL statement");
        run_one(session, text).await.map_err(|error| within(error, text).context(place))?;
    }
    Ok(())
}

async fn run_one(session: &mut Session, text: &str) -> Result<(), SqlError> {
    for statement in parse::split(text, &mut session.notices)? {
        let outcome = pin!(session.simple(&statement)).await;
        match outcome.map_err(|error| parse::locate(&statement, error))? {
            Outcome::Done(_) => {}
            _ => return Err(SqlError::unsupported("a statement with rows in DO")),
        }
    }
    Ok(())
}

/// An error of a statement in a block. What changes rows is analyzed there, and the place of a mistake is shown in it.
fn within(mut error: SqlError, text: &str) -> SqlError {
    let starts = |word: &str| text.get(..word.len()).is_some_and(|s| s.eq_ignore_ascii_case(word));
    let is_analyzed = ["insert", "update", "delete"].iter().any(|word| starts(word));
    let position = error.position.take();
    let position = position.filter(|_| is_analyzed || error.state == SqlState::SYNTAX_ERROR);
    error.inner = Some(Box::new(InnerStatement { text: text.to_owned(), position }));
    match position {
        Some(_) => error,
        None => error.context(format!("SQL statement \"{text}\"")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_statements_are_read_and_others_are_not() {
        let read = block(
            "BEGIN\n -- a type\n CREATE TYPE \"m\" AS ENUM('it''s', 'b;c'); ALTER TABLE t ADD x int;\nEXCEPTION \
             WHEN duplicate_object OR SQLSTATE '42P07' THEN null; WHEN others THEN null; END;",
        );
        let read = read.expect("a block");
        assert_eq!(
            read.statements.iter().map(|s| s.text.as_str()).collect::<Vec<_>>(),
            ["CREATE TYPE \"m\" AS ENUM('it''s', 'b;c')", "ALTER TABLE t ADD x int"]
        );
        assert_eq!(read.statements.iter().map(|s| s.line).collect::<Vec<_>>(), [3, 3]);
        let state = |text: &str| Condition::State(text.to_owned());
        assert_eq!(read.caught, [state("42710"), state("42P07"), Condition::Others]);
        assert!(block("BEGIN create table t (a int); END").is_some());
        for other in [
            "DECLARE x int; BEGIN END",
            "BEGIN IF true THEN create table t (a int); END IF; END",
            "BEGIN PERFORM f(); END",
            "BEGIN create table t (a int); EXCEPTION WHEN others THEN RAISE NOTICE 'x'; END",
            "BEGIN create table t (a int);",
            "create table t (a int)",
        ] {
            assert_eq!(block(other), None, "{other}");
        }
    }
}
