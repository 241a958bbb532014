//! COPY, from its tokens.
//!
//! ```text
//!   COPY table [(columns)] | (query)   FROM | TO   STDIN | STDOUT | 'file' | PROGRAM '…'
//!        [WITH] (name value, …)                    as it is written since PostgreSQL 9
//!        [WITH] CSV HEADER DELIMITER ',' …         as it was before
//! ```
//!
//! Both spellings become one list of names and values. What they mean, and which of them a format has, is
//! `options.rs`'s to say.

use datafusion::sql::sqlparser::ast::{Ident, ObjectName, Query, Statement};
use datafusion::sql::sqlparser::parser::ParserError;
use datafusion::sql::sqlparser::tokenizer::Token;

use crate::command::{Command, Cursor};
use crate::parse::parse_sql;

/// A COPY.
#[derive(Debug)]
pub struct Copy {
    /// What is copied.
    pub(crate) source: Source,
    /// TO; else FROM.
    pub(crate) to: bool,
    /// The other end.
    pub(crate) end: End,
    /// In the order in which they were given.
    pub(crate) options: Vec<GivenOption>,
}

/// What is copied.
#[derive(Debug)]
pub(crate) enum Source {
    Table { name: ObjectName, columns: Vec<Ident> },
    Query(Box<Query>),
}

/// What it is copied from or to.
#[derive(Debug)]
pub(crate) enum End {
    /// STDIN, STDOUT
    Client,
    /// A file of the server.
    File(String),
    /// PROGRAM
    Program,
}

/// An option as it was given.
#[derive(Debug)]
pub(crate) struct GivenOption {
    /// Folded to lower case.
    pub(crate) name: String,
    pub(crate) value: Argument,
}

/// The value of an option.
#[derive(Debug, PartialEq)]
pub(crate) enum Argument {
    Nothing,
    /// A word, a number or a string: PostgreSQL makes no difference.
    Text(String),
    Names(Vec<String>),
    Star,
}

/// Everything behind the word COPY.
pub(crate) fn parse(cursor: &mut Cursor<'_>) -> Result<Command, ParserError> {
    let mut options = Vec::new();
    let next = cursor.tokens.get(cursor.at + 1).map(|token| &token.token);
    if cursor.peek_word("binary") && matches!(next, Some(Token::Word(_))) {
        cursor.at += 1;
        options.push(text("format", "binary"));
    }
    let source = source(cursor)?;
    let Some(source) = source else {
        cursor.at = cursor.tokens.len();
        return Ok(Command::Unsupported("COPY of a statement that is no query".to_owned()));
    };
    let to = cursor.skip("to");
    if !to {
        if !cursor.peek_word("from") {
            return cursor.wrong("FROM or TO");
        }
        if matches!(source, Source::Query(_)) {
            return cursor.wrong("TO");
        }
        cursor.at += 1;
    }
    let end = if cursor.skip_any(&["stdin", "stdout"]) {
        End::Client
    } else if cursor.skip("program") {
        string(cursor)?;
        End::Program
    } else {
        End::File(string(cursor)?)
    };
    if cursor.skip("using") {
        cursor.expect("delimiters")?;
        options.push(text("delimiter", &string(cursor)?));
    }
    cursor.skip("with");
    if cursor.skip_token(&Token::LParen) {
        modern(cursor, &mut options)?;
    } else {
        legacy(cursor, &mut options)?;
    }
    Ok(Command::Copy(Box::new(Copy { source, to, end, options })))
}

fn source(cursor: &mut Cursor<'_>) -> Result<Option<Source>, ParserError> {
    if !cursor.skip_token(&Token::LParen) {
        let name = cursor.object_name()?;
        let columns = match cursor.peek() {
            Some(Token::LParen) => names(cursor)?.into_iter().map(quoted).collect(),
            _ => Vec::new(),
        };
        return Ok(Some(Source::Table { name, columns }));
    }
    let first = cursor.at;
    let mut depth = 1;
    while depth > 0 {
        match cursor.peek() {
            Some(Token::LParen) => depth += 1,
            Some(Token::RParen) => depth -= 1,
            Some(_) => {}
            None => return cursor.wrong(")"),
        }
        cursor.at += 1;
    }
    let query = cursor.tokens[first..cursor.at - 1].to_vec();
    match parse_sql(query)? {
        Statement::Query(query) => Ok(Some(Source::Query(query))),
        _ => Ok(None),
    }
}

/// A name that is already folded, and not to be folded again.
fn quoted(name: String) -> Ident {
    Ident::with_quote('"', name)
}

/// `(name [value], …)`, behind the parenthesis.
fn modern(cursor: &mut Cursor<'_>, options: &mut Vec<GivenOption>) -> Result<(), ParserError> {
    loop {
        let name = cursor.name()?;
        let value = match cursor.peek() {
            Some(Token::Comma | Token::RParen) => Argument::Nothing,
            Some(Token::Mul) => {
                cursor.at += 1;
                Argument::Star
            }
            Some(Token::LParen) => Argument::Names(names(cursor)?),
            Some(Token::Word(_)) => Argument::Text(cursor.name()?),
            Some(Token::Number(..) | Token::Minus | Token::Plus) => {
                Argument::Text(cursor.integer()?.to_string())
            }
            _ => Argument::Text(string(cursor)?),
        };
        options.push(GivenOption { name, value });
        if cursor.skip_token(&Token::RParen) {
            return Ok(());
        }
        if !cursor.skip_token(&Token::Comma) {
            return cursor.wrong(", or )");
        }
    }
}

/// The words of before PostgreSQL 9, in any order.
fn legacy(cursor: &mut Cursor<'_>, options: &mut Vec<GivenOption>) -> Result<(), ParserError> {
    loop {
        let option = if cursor.skip("binary") {
            text("format", "binary")
        } else if cursor.skip("csv") {
            text("format", "csv")
        } else if cursor.skip("freeze") {
            text("freeze", "true")
        } else if cursor.skip("header") {
            text("header", "true")
        } else if let Some(name) =
            ["delimiter", "null", "quote", "escape", "encoding"].iter().find(|n| cursor.skip(n))
        {
            cursor.skip("as");
            text(name, &string(cursor)?)
        } else if cursor.skip("force") {
            forced(cursor)?
        } else {
            return Ok(());
        };
        options.push(option);
    }
}

fn forced(cursor: &mut Cursor<'_>) -> Result<GivenOption, ParserError> {
    let name = if cursor.skip("quote") {
        "force_quote"
    } else if cursor.skip("not") {
        cursor.expect("null")?;
        "force_not_null"
    } else {
        cursor.expect("null")?;
        "force_null"
    };
    if cursor.skip_token(&Token::Mul) {
        return Ok(GivenOption { name: name.to_owned(), value: Argument::Star });
    }
    let mut columns = vec![cursor.name()?];
    while cursor.skip_token(&Token::Comma) {
        columns.push(cursor.name()?);
    }
    Ok(GivenOption { name: name.to_owned(), value: Argument::Names(columns) })
}

fn text(name: &str, value: &str) -> GivenOption {
    GivenOption { name: name.to_owned(), value: Argument::Text(value.to_owned()) }
}

/// `(a, b)`
fn names(cursor: &mut Cursor<'_>) -> Result<Vec<String>, ParserError> {
    cursor.skip_token(&Token::LParen);
    let mut names = Vec::new();
    loop {
        names.push(cursor.name()?);
        if cursor.skip_token(&Token::RParen) {
            return Ok(names);
        }
        if !cursor.skip_token(&Token::Comma) {
            return cursor.wrong(", or )");
        }
    }
}

fn string(cursor: &mut Cursor<'_>) -> Result<String, ParserError> {
    let value = match cursor.peek() {
        Some(
            Token::SingleQuotedString(text)
            | Token::EscapedStringLiteral(text)
            | Token::UnicodeStringLiteral(text),
        ) => text.clone(),
        Some(Token::DollarQuotedString(text)) => text.value.clone(),
        _ => return cursor.wrong("a string"),
    };
    cursor.at += 1;
    Ok(value)
}
