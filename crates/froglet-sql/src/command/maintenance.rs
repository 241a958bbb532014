//! VACUUM, ANALYZE, REINDEX, CLUSTER.

use super::*;

/// `VACUUM (FULL, ANALYZE) a, b (col)` and its older forms.
pub(super) fn maintenance(
    cursor: &mut Cursor<'_>,
    tag: &'static str,
) -> Result<Command, ParserError> {
    let mut full = false;
    if cursor.skip_token(&Token::LParen) {
        while cursor.peek().is_some() && !cursor.skip_token(&Token::RParen) {
            if cursor.skip("full") {
                full = !is_off(cursor.peek());
            } else {
                cursor.at += 1;
            }
        }
    }
    full |= cursor.skip("full");
    while cursor.skip_any(&["freeze", "verbose", "analyze", "analyse"]) {}
    let mut tables = Vec::new();
    while cursor.peek().is_some() {
        tables.push(cursor.object_name()?);
        if cursor.skip_token(&Token::LParen) {
            while cursor.peek().is_some() && !cursor.skip_token(&Token::RParen) {
                cursor.at += 1;
            }
        }
        if !cursor.skip_token(&Token::Comma) {
            break;
        }
    }
    Ok(Command::Maintenance { tag, full, tables })
}

/// Whether an option is turned off by what follows its name.
fn is_off(value: Option<&Token>) -> bool {
    match value {
        Some(Token::Word(word)) => ["off", "false"].contains(&&*word.value.to_ascii_lowercase()),
        Some(Token::SingleQuotedString(text)) => {
            ["off", "false"].contains(&&*text.to_ascii_lowercase())
        }
        Some(Token::Number(number, _)) => number == "0",
        _ => false,
    }
}

pub(super) fn reindex(cursor: &mut Cursor<'_>) -> Result<Command, ParserError> {
    let mut tables = Vec::new();
    if cursor.skip("table") {
        cursor.skip("concurrently");
        tables.push(cursor.object_name()?);
    } else {
        cursor.at = cursor.tokens.len();
    }
    Ok(Command::Maintenance { tag: "REINDEX", full: false, tables })
}
