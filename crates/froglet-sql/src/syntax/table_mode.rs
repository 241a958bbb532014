//! Modes in which a table is locked, and LOCK TABLE.
//!
//! ```text
//!                            AS  RS  RE  SUE  S  SRE  E  AE
//!   ACCESS SHARE                                         ×      a query
//!   ROW SHARE                                         ×  ×      FOR UPDATE, a foreign key's other side
//!   ROW EXCLUSIVE                            ×   ×    ×  ×      INSERT, UPDATE, DELETE, MERGE, COPY FROM
//!   SHARE UPDATE EXCLUSIVE               ×   ×   ×    ×  ×      VALIDATE CONSTRAINT
//!   SHARE                            ×   ×       ×    ×  ×      CREATE INDEX
//!   SHARE ROW EXCLUSIVE              ×   ×   ×   ×    ×  ×      a foreign key is made
//!   EXCLUSIVE                    ×   ×   ×   ×   ×    ×  ×
//!   ACCESS EXCLUSIVE         ×   ×   ×   ×   ×   ×    ×  ×      other schema changes
//! ```

use datafusion::sql::sqlparser::ast::ObjectName;
use datafusion::sql::sqlparser::parser::ParserError;
use datafusion::sql::sqlparser::tokenizer::Token;

use crate::command::{Command, Cursor};

/// How a table is locked, the weakest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum TableMode {
    AccessShare,
    RowShare,
    RowExclusive,
    ShareUpdateExclusive,
    Share,
    ShareRowExclusive,
    Exclusive,
    AccessExclusive,
}

/// Each with its words, its name in pg_locks, and the modes that exclude it.
const MODES: [(TableMode, &str, &str, u8); 8] = [
    (TableMode::AccessShare, "access share", "AccessShareLock", 0b1000_0000),
    (TableMode::RowShare, "row share", "RowShareLock", 0b1100_0000),
    (TableMode::RowExclusive, "row exclusive", "RowExclusiveLock", 0b1111_0000),
    (
        TableMode::ShareUpdateExclusive,
        "share update exclusive",
        "ShareUpdateExclusiveLock",
        0b1111_1000,
    ),
    (TableMode::Share, "share", "ShareLock", 0b1110_1100),
    (TableMode::ShareRowExclusive, "share row exclusive", "ShareRowExclusiveLock", 0b1111_1100),
    (TableMode::Exclusive, "exclusive", "ExclusiveLock", 0b1111_1110),
    (TableMode::AccessExclusive, "access exclusive", "AccessExclusiveLock", 0b1111_1111),
];

impl TableMode {
    /// Whether two transactions cannot hold a table so.
    pub fn excludes(self, other: TableMode) -> bool {
        MODES[self as usize].3 & (1 << other as u8) != 0
    }

    /// As pg_locks calls it.
    pub fn shown(self) -> &'static str {
        MODES[self as usize].2
    }
}

/// LOCK TABLE
#[derive(Clone, Debug)]
pub struct LockTable {
    /// In this order.
    pub tables: Vec<ObjectName>,
    /// How.
    pub mode: TableMode,
    /// NOWAIT
    pub nowait: bool,
}

/// After `LOCK`: `[TABLE] [ONLY] name [*], … [IN … MODE] [NOWAIT]`
pub(crate) fn parse(cursor: &mut Cursor<'_>) -> Result<Command, ParserError> {
    cursor.skip("table");
    let mut tables = Vec::new();
    loop {
        let only = cursor.skip("only");
        let in_parentheses = only && cursor.skip_token(&Token::LParen);
        tables.push(cursor.object_name()?);
        if in_parentheses && !cursor.skip_token(&Token::RParen) {
            return cursor.wrong("')'");
        }
        if !only {
            cursor.skip_token(&Token::Mul);
        }
        if !cursor.skip_token(&Token::Comma) {
            break;
        }
    }
    let mut mode = TableMode::AccessExclusive;
    if cursor.skip("in") {
        let from = cursor.at;
        let words = |cursor: &mut Cursor<'_>, text: &str| {
            cursor.at = from;
            text.split(' ').all(|word| cursor.skip(word)) && cursor.skip("mode")
        };
        let Some(found) = MODES.iter().find(|(_, text, ..)| words(cursor, text)) else {
            cursor.at = from;
            return cursor.wrong("a lock mode");
        };
        mode = found.0;
    }
    let nowait = cursor.skip("nowait");
    Ok(Command::LockTable(Box::new(LockTable { tables, mode, nowait })))
}

const _: () = {
    let mut a = 0;
    while a < 8 {
        let mut b = 0;
        while b < 8 {
            assert!((MODES[a].3 >> b) & 1 == (MODES[b].3 >> a) & 1, "they exclude each other");
            b += 1;
        }
        assert!(MODES[a].0 as usize == a, "a mode has the place of its number");
        a += 1;
    }
};
