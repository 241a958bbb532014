//! DECLARE, FETCH, MOVE and CLOSE, from their tokens.

use std::sync::Arc;

use datafusion::sql::sqlparser::parser::ParserError;
use datafusion::sql::sqlparser::tokenizer::Token;

use crate::command::{Command, Cursor};
use crate::parse::parse_sql;

/// What DECLARE says of a cursor beside its query.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CursorOptions {
    /// BINARY: results of FETCH in a simple query are in the binary format.
    pub binary: bool,
    /// SCROLL; without it a cursor only goes forward, and keeps nothing it has passed.
    pub scroll: bool,
    /// WITH HOLD: it outlives its transaction.
    pub hold: bool,
}

/// Where FETCH and MOVE go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// So many rows onwards; backwards, if negative.
    Forward(i64),
    /// To the end.
    ForwardAll,
    /// To before the first row.
    BackwardAll,
    /// To this row, from 1; from the end, if negative.
    Absolute(i64),
    /// To the row so far away.
    Relative(i64),
}

/// `DECLARE name [BINARY] [INSENSITIVE] [[NO] SCROLL] CURSOR [{WITH | WITHOUT} HOLD] FOR query`
pub(crate) fn declare(cursor: &mut Cursor<'_>) -> Result<Command, ParserError> {
    let name = cursor.name()?;
    let mut options = CursorOptions::default();
    loop {
        if cursor.skip("binary") {
            options.binary = true;
        } else if cursor.skip("scroll") {
            options.scroll = true;
        } else if cursor.skip("no") {
            cursor.expect("scroll")?;
            options.scroll = false;
        } else if !cursor.skip_any(&["insensitive", "asensitive"]) {
            break;
        }
    }
    cursor.expect("cursor")?;
    if cursor.skip("with") {
        cursor.expect("hold")?;
        options.hold = true;
    } else if cursor.skip("without") {
        cursor.expect("hold")?;
    }
    cursor.expect("for")?;
    let first = cursor.at;
    let statement = parse_sql(cursor.tokens[first..].to_vec())?;
    let text = statement.to_string();
    match Command::from_statement(statement) {
        query @ Command::Query(_) => {
            cursor.at = cursor.tokens.len();
            Ok(Command::Declare { name, options, query: Arc::new(query), text })
        }
        _ => cursor.wrong("SELECT or VALUES"),
    }
}

/// `FETCH [direction] [FROM | IN] name`, and MOVE.
pub(crate) fn fetch(cursor: &mut Cursor<'_>, moves: bool) -> Result<Command, ParserError> {
    let begin = cursor.at;
    let mut direction = direction(cursor)?;
    cursor.skip_any(&["from", "in"]);
    if cursor.peek().is_none() && cursor.at == begin + 1 {
        // The only word is the cursor's name, whatever it is.
        cursor.at = begin;
        direction = Direction::Forward(1);
    }
    let name = cursor.name()?;
    Ok(Command::Fetch { name, direction, moves })
}

fn direction(cursor: &mut Cursor<'_>) -> Result<Direction, ParserError> {
    let counted = |cursor: &Cursor<'_>| {
        matches!(cursor.peek(), Some(Token::Number(..) | Token::Minus | Token::Plus))
    };
    Ok(if cursor.skip("next") {
        Direction::Forward(1)
    } else if cursor.skip("prior") {
        Direction::Forward(-1)
    } else if cursor.skip("first") {
        Direction::Absolute(1)
    } else if cursor.skip("last") {
        Direction::Absolute(-1)
    } else if cursor.peek_word("absolute") && cursor.tokens.len() > cursor.at + 1 {
        cursor.at += 1;
        Direction::Absolute(cursor.integer()?)
    } else if cursor.peek_word("relative") && cursor.tokens.len() > cursor.at + 1 {
        cursor.at += 1;
        Direction::Relative(cursor.integer()?)
    } else if cursor.skip("all") {
        Direction::ForwardAll
    } else if counted(cursor) {
        Direction::Forward(cursor.integer()?)
    } else {
        let sign = match (cursor.skip("forward"), cursor.skip("backward")) {
            (true, _) => 1,
            (_, true) => -1,
            _ => return Ok(Direction::Forward(1)),
        };
        if counted(cursor) {
            Direction::Forward(cursor.integer()?.saturating_mul(sign))
        } else if cursor.skip("all") {
            if sign > 0 { Direction::ForwardAll } else { Direction::BackwardAll }
        } else {
            Direction::Forward(sign)
        }
    })
}

/// `CLOSE {name | ALL}`
pub(crate) fn close(cursor: &mut Cursor<'_>) -> Result<Command, ParserError> {
    if cursor.skip("all") {
        return Ok(Command::CloseCursor(None));
    }
    cursor.name().map(|name| Command::CloseCursor(Some(name)))
}
