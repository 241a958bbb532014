//! CREATE and ALTER SEQUENCE, and the options of identity columns: sqlparser has no ALTER
//! SEQUENCE, and takes options in one order only.

use datafusion::sql::sqlparser::ast::{self, Expr, SequenceOptions};
use datafusion::sql::sqlparser::parser::ParserError;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use froglet_engine::SqlState;

use crate::command::{Command, Cursor};

/// What may be said of a sequence. `Some(None)` is NO …, or RESTART without a value.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs)] // the fields are what their SQL says
pub struct Options {
    pub increment: Option<i64>,
    pub min: Option<Option<i64>>,
    pub max: Option<Option<i64>>,
    pub start: Option<i64>,
    pub restart: Option<Option<i64>>,
    pub cycle: Option<bool>,
    pub owned_by: Option<Option<ast::ObjectName>>,
    /// SEQUENCE NAME of an identity column.
    pub name: Option<String>,
}

/// `CREATE SEQUENCE [IF NOT EXISTS] name [AS type] …`
#[derive(Debug)]
#[allow(missing_docs)]
pub struct CreateSequence {
    pub name: ast::ObjectName,
    pub if_not_exists: bool,
    pub ty: Option<String>,
    pub options: Options,
}

/// `ALTER SEQUENCE [IF EXISTS] name …`
#[derive(Debug)]
#[allow(missing_docs)]
pub struct AlterSequence {
    pub name: ast::ObjectName,
    pub if_exists: bool,
    pub rename: Option<String>,
    pub ty: Option<String>,
    pub options: Options,
}

/// After `CREATE SEQUENCE`.
pub(crate) fn parse_create(cursor: &mut Cursor<'_>) -> Result<Command, ParserError> {
    let if_not_exists = cursor.skip("if") && cursor.skip("not") && cursor.skip("exists");
    let name = cursor.object_name()?;
    let ty = if cursor.skip("as") { Some(cursor.name()?) } else { None };
    let mut options = Options::default();
    while cursor.peek().is_some() {
        action(cursor, &mut options)?;
    }
    Ok(Command::CreateSequence(Box::new(CreateSequence { name, if_not_exists, ty, options })))
}

/// After `ALTER SEQUENCE`.
pub(crate) fn parse_alter(cursor: &mut Cursor<'_>) -> Result<Command, ParserError> {
    let if_exists = cursor.skip("if") && cursor.skip("exists");
    let name = cursor.object_name()?;
    let mut alter =
        AlterSequence { name, if_exists, rename: None, ty: None, options: Options::default() };
    if cursor.skip("rename") {
        cursor.skip("to");
        alter.rename = Some(cursor.name()?);
    }
    if cursor.skip("as") {
        alter.ty = Some(cursor.name()?);
    }
    while cursor.peek().is_some() {
        action(cursor, &mut alter.options)?;
    }
    Ok(Command::AlterSequence(Box::new(alter)))
}

/// `{ SET GENERATED { ALWAYS | BY DEFAULT } | SET option | RESTART [[WITH] n] }…` of an identity column: whether
/// GENERATED ALWAYS, and the options.
pub(crate) fn parse_identity(written: &str) -> Result<(Option<bool>, Options), crate::SqlError> {
    let tokens = crate::parse::tokens_of(written)?;
    let mut cursor = Cursor { tokens: &tokens, at: 0 };
    let (mut always, mut options) = (None, Options::default());
    let mut parse = || -> Result<(), ParserError> {
        while cursor.peek().is_some() {
            if !cursor.peek_word("restart") {
                cursor.expect("set")?;
                if cursor.skip("generated") {
                    let is_always = cursor.skip("always");
                    if !is_always {
                        cursor.expect("by")?;
                        cursor.expect("default")?;
                    }
                    always = Some(is_always);
                    continue;
                }
            }
            action(&mut cursor, &mut options)?;
        }
        Ok(())
    };
    parse().map_err(|e| crate::SqlError::new(SqlState::SYNTAX_ERROR, e.to_string()))?;
    Ok((always, options))
}

/// The places of two options in sqlparser's order.
const CACHE: u8 = 4;
const SEQUENCE_NAME: u8 = 8;

/// Takes one option; its place in sqlparser's order.
fn action(cursor: &mut Cursor<'_>, options: &mut Options) -> Result<u8, ParserError> {
    if cursor.skip("increment") {
        cursor.skip("by");
        options.increment = Some(cursor.integer()?);
        return Ok(0);
    }
    if cursor.skip("minvalue") {
        options.min = Some(Some(cursor.integer()?));
        return Ok(1);
    }
    if cursor.skip("maxvalue") {
        options.max = Some(Some(cursor.integer()?));
        return Ok(2);
    }
    if cursor.skip("start") {
        cursor.skip("with");
        options.start = Some(cursor.integer()?);
        return Ok(3);
    }
    if cursor.skip("cache") {
        cursor.integer()?;
        return Ok(CACHE);
    }
    if cursor.skip("cycle") {
        options.cycle = Some(true);
        return Ok(5);
    }
    if cursor.skip("restart") {
        let given = cursor.skip("with")
            || matches!(cursor.peek(), Some(Token::Number(..) | Token::Minus | Token::Plus));
        options.restart = Some(if given { Some(cursor.integer()?) } else { None });
        return Ok(6);
    }
    if cursor.skip("owned") {
        cursor.skip("by");
        let owner = if cursor.skip("none") { None } else { Some(cursor.object_name()?) };
        options.owned_by = Some(owner);
        return Ok(7);
    }
    if cursor.skip("sequence") {
        cursor.expect("name")?;
        let name = cursor.object_name()?;
        options.name = Some(name.to_string());
        return Ok(SEQUENCE_NAME);
    }
    if cursor.skip("no") {
        if cursor.skip("minvalue") {
            options.min = Some(None);
            return Ok(1);
        }
        if cursor.skip("maxvalue") {
            options.max = Some(None);
            return Ok(2);
        }
        if cursor.skip("cycle") {
            options.cycle = Some(false);
            return Ok(5);
        }
        return cursor.wrong("MINVALUE, MAXVALUE or CYCLE");
    }
    cursor.wrong("a sequence option")
}

/// Brings the options after IDENTITY into the order that sqlparser takes. What does not look like
/// options is left for it to complain about. It knows no SEQUENCE NAME: the name stands after CACHE,
/// where nobody else can have written one.
pub(crate) fn order_identity_options(tokens: &mut Vec<TokenWithSpan>) {
    let mut at = 0;
    while at + 1 < tokens.len() {
        let identity = matches!(&tokens[at].token, Token::Word(w)
            if w.quote_style.is_none() && w.value.eq_ignore_ascii_case("identity"));
        at += 1;
        if !identity || tokens[at].token != Token::LParen {
            continue;
        }
        let begin = at + 1;
        let Some(length) = tokens[begin..].iter().position(|t| t.token == Token::RParen) else {
            return;
        };
        let Some(ordered) = ordered(&tokens[begin..begin + length]) else { return };
        at = begin + ordered.len();
        tokens.splice(begin..begin + length, ordered);
    }
}

fn ordered(inside: &[TokenWithSpan]) -> Option<Vec<TokenWithSpan>> {
    let mut cursor = Cursor { tokens: inside, at: 0 };
    let mut groups: Vec<(u8, Vec<TokenWithSpan>)> = Vec::new();
    let mut options = Options::default();
    while cursor.peek().is_some() {
        let from = cursor.at;
        let place = action(&mut cursor, &mut options).ok()?;
        groups.push((place, inside[from..cursor.at].to_vec()));
    }
    if let Some(name) = options.name {
        groups.retain(|(place, _)| ![CACHE, SEQUENCE_NAME].contains(place));
        let span = inside[0].span;
        let named = [Token::make_keyword("CACHE"), Token::Number(name, false)];
        groups.push((CACHE, named.map(|token| TokenWithSpan { token, span }).to_vec()));
    }
    groups.sort_by_key(|(place, _)| *place);
    Some(groups.into_iter().flat_map(|(_, tokens)| tokens).collect())
}

/// The options of an identity column, as sqlparser has them.
pub(crate) fn of_identity(given: &[SequenceOptions]) -> Result<Options, crate::SqlError> {
    let mut options = Options::default();
    let number = |expr: &Option<Expr>| expr.as_ref().map(integer).transpose();
    for option in given {
        match option {
            SequenceOptions::IncrementBy(value, _) => options.increment = Some(integer(value)?),
            SequenceOptions::MinValue(value) => options.min = Some(number(value)?),
            SequenceOptions::MaxValue(value) => options.max = Some(number(value)?),
            SequenceOptions::StartWith(value, _) => options.start = Some(integer(value)?),
            SequenceOptions::Cache(value) => {
                let name = value.to_string();
                options.name = name.parse::<i64>().is_err().then_some(name);
            }
            // sqlparser's flag says NO CYCLE.
            SequenceOptions::Cycle(no) => options.cycle = Some(!no),
        }
    }
    Ok(options)
}

fn integer(value: &Expr) -> Result<i64, crate::SqlError> {
    value.to_string().replace(' ', "").parse().map_err(|_| {
        crate::SqlError::new(
            froglet_engine::SqlState::INVALID_PARAMETER_VALUE,
            format!("sequence option must be a bigint, not {value}"),
        )
    })
}
