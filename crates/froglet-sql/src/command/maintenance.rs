//! VACUUM, ANALYZE, REINDEX, CLUSTER.

use super::*;

/// What may stand in its parentheses. Nothing is done for those that are not of use here.
const OF_VACUUM: [&str; 11] = [
    "full",
    "freeze",
    "verbose",
    "analyze",
    "analyse",
    "disable_page_skipping",
    "skip_locked",
    "index_cleanup",
    "process_toast",
    "truncate",
    "parallel",
];
const OF_ANALYZE: [&str; 2] = ["verbose", "skip_locked"];

/// `VACUUM (FULL, ANALYZE) a, b (col)` and its older forms.
pub(super) fn maintenance(
    cursor: &mut Cursor<'_>,
    tag: &'static str,
) -> Result<Command, ParserError> {
    let mut full = false;
    if cursor.skip_token(&Token::LParen) {
        let options = if tag == "VACUUM" { &OF_VACUUM[..] } else { &OF_ANALYZE[..] };
        loop {
            let is_full = cursor.peek_word("full");
            if !cursor.skip_any(options) {
                return cursor.wrong(&format!("an option of {tag}"));
            }
            if is_full {
                full = !is_off(cursor.peek());
            }
            if !matches!(cursor.peek(), Some(Token::Comma | Token::RParen) | None) {
                cursor.at += 1;
            }
            if cursor.skip_token(&Token::RParen) {
                break;
            }
            if !cursor.skip_token(&Token::Comma) {
                return cursor.wrong("',' or ')'");
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
