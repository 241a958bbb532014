//! What PostgreSQL writes otherwise than sqlparser reads it, put into its words before it is parsed.
//!
//! | written | becomes |
//! |---|---|
//! | `x OPERATOR(pg_catalog.=) y` | `x = y`: sqlparser does not take it before ANY |
//! | `FROM ONLY t` | `FROM t` |
//! | `ROWS FROM (f(x), g(y))` | `"froglet_rows_from"(f(x), g(y))` |
//! | `(t).*` | `t.*` |
//! | `trim(trailing from x)` | `trim(trailing x)` |
//! | `ALTER COLUMN c SET STATISTICS 50`, `… SET STORAGE MAIN` | `ALTER COLUMN c SET (n_distinct = 0)`, which has no effect either |
//! | `ON CONFLICT (lower(a)) WHERE b DO …` | `ON CONFLICT ("…") DO …`, one name that has all of it |
//! | `FOR UPDATE OF a, b` | `FOR UPDATE OF a FOR UPDATE OF b` |
//! | `FOR UPDATE SKIP LOCKED LIMIT 1` | `LIMIT 1 FOR UPDATE SKIP LOCKED` |
//! | `ALTER COLUMN c TYPE text COLLATE "C"` | without the collation: there is one |
//! | `ALTER COLUMN c DROP IDENTITY`, `DROP EXPRESSION`, `SET GENERATED …`, `RESTART` | `ALTER COLUMN c SET DEFAULT "…"`, a name that nobody can write |
//! | `ALTER CONSTRAINT c DEFERRABLE` | `ALTER COLUMN c SET DEFAULT "…"`, likewise |
//! | `TABLESPACE pg_default`, `USING INDEX TABLESPACE pg_default` | nothing: there is one |

use datafusion::sql::sqlparser::ast::Expr;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::storage_options::is_keyword;

/// What the one order of texts is called: by bytes.
const COLLATIONS: [&str; 5] = ["c", "posix", "default", "c.utf-8", "ucs_basic"];

/// Whether a collation is the one that there is; it may stand in its schema, and in quotes.
pub(crate) fn is_known_collation(name: &str) -> bool {
    let name = name.to_ascii_lowercase().replace('"', "");
    COLLATIONS.contains(&name.strip_prefix("pg_catalog.").unwrap_or(&name))
}

/// `OPERATOR([schema.]op)` as the operator alone. There are no operators but the system's.
pub(crate) fn operators(tokens: &mut Vec<TokenWithSpan>) {
    let mut at = 0;
    while at + 3 < tokens.len() {
        let here =
            is_keyword(&tokens[at], Keyword::OPERATOR) && tokens[at + 1].token == Token::LParen;
        if here {
            let qualified = matches!(&tokens[at + 2].token, Token::Word(w)
                if w.value.eq_ignore_ascii_case("pg_catalog"))
                && tokens[at + 3].token == Token::Period;
            let operator = if qualified { at + 4 } else { at + 2 };
            let is_end = tokens.get(operator + 1).is_some_and(|t| t.token == Token::RParen);
            if is_end && !matches!(tokens[operator].token, Token::Word(_)) {
                tokens.drain(operator + 1..operator + 2);
                tokens.drain(at..operator);
            }
        }
        at += 1;
    }
}

/// `trim(trailing from x)` without its FROM.
pub(crate) fn trims(tokens: &mut Vec<TokenWithSpan>) {
    let mut at = 0;
    while at + 3 < tokens.len() {
        let sides = [Keyword::LEADING, Keyword::TRAILING, Keyword::BOTH];
        let is_trim = is_keyword(&tokens[at], Keyword::TRIM)
            && tokens[at + 1].token == Token::LParen
            && sides.iter().any(|side| is_keyword(&tokens[at + 2], *side))
            && is_keyword(&tokens[at + 3], Keyword::FROM);
        if is_trim {
            tokens.remove(at + 3);
        }
        at += 1;
    }
}

/// `FROM ONLY t`: no table has others beneath it.
pub(crate) fn only(tokens: &mut Vec<TokenWithSpan>) {
    let mut at = 0;
    while at + 2 < tokens.len() {
        let before =
            [Keyword::FROM, Keyword::JOIN].iter().any(|word| is_keyword(&tokens[at], *word));
        let name = matches!(&tokens[at + 2].token, Token::Word(w)
            if w.quote_style.is_some() || !matches!(w.keyword, Keyword::AS | Keyword::WHERE));
        let is_only = matches!(&tokens[at + 1].token, Token::Word(w)
            if w.quote_style.is_none() && w.value.eq_ignore_ascii_case("only"));
        if before && is_only && name {
            tokens.remove(at + 1);
        }
        at += 1;
    }
}

/// `(t).*`, of which sqlparser reads no `*`, as `t.*`.
pub(crate) fn whole_rows(tokens: &mut Vec<TokenWithSpan>) {
    let mut at = 1;
    while at + 4 < tokens.len() {
        let is_call = matches!(&tokens[at - 1].token, Token::Word(word)
            if word.keyword == Keyword::NoKeyword || word.quote_style.is_some());
        let is_row = tokens[at].token == Token::LParen
            && matches!(tokens[at + 1].token, Token::Word(_))
            && tokens[at + 2].token == Token::RParen
            && tokens[at + 3].token == Token::Period
            && tokens[at + 4].token == Token::Mul;
        if is_row && !is_call {
            tokens.remove(at + 2);
            tokens.remove(at);
        }
        at += 1;
    }
}

/// `ROWS FROM (f(x), g(y))` as a call of one function, whose arguments they are.
pub(crate) fn rows_from(tokens: &mut Vec<TokenWithSpan>) {
    let mut at = 1;
    while at + 3 < tokens.len() {
        let begins_item = tokens[at - 1].token == Token::Comma
            || [Keyword::FROM, Keyword::JOIN, Keyword::LATERAL]
                .iter()
                .any(|word| is_keyword(&tokens[at - 1], *word));
        let is_query = [Keyword::SELECT, Keyword::VALUES, Keyword::WITH, Keyword::TABLE]
            .iter()
            .any(|word| is_keyword(&tokens[at + 3], *word));
        let is_rows = begins_item
            && !is_query
            && is_keyword(&tokens[at], Keyword::ROWS)
            && is_keyword(&tokens[at + 1], Keyword::FROM)
            && tokens[at + 2].token == Token::LParen;
        if is_rows {
            tokens[at].token = Token::make_word(crate::rewrite_sets::ROWS_FROM, Some('"'));
            tokens.remove(at + 1);
        }
        at += 1;
    }
}

/// The target of ON CONFLICT with expressions, or with a predicate, as one name: a NUL, the list, a NUL, the
/// predicate. sqlparser reads names alone there.
pub(crate) fn conflict_targets(tokens: &mut Vec<TokenWithSpan>) {
    let mut at = 0;
    while at + 3 < tokens.len() {
        let is_target = is_keyword(&tokens[at], Keyword::ON)
            && is_keyword(&tokens[at + 1], Keyword::CONFLICT)
            && tokens[at + 2].token == Token::LParen;
        if is_target && let Some((close, end)) = conflict_target(tokens, at + 2) {
            let list = text_of(&tokens[at + 3..close]);
            let predicate = text_of(&tokens[(close + 2).min(end)..end]);
            let name = format!("\0{list}\0{predicate}");
            let span = tokens[at + 3].span;
            let word = Token::make_word(&name, Some('"'));
            let close = tokens[close].clone();
            tokens.splice(at + 3..end, [TokenWithSpan::new(word, span), close]);
        }
        at += 1;
    }
}

/// Where a target's list is closed, and where the target ends, if it is no list of names.
fn conflict_target(tokens: &[TokenWithSpan], open: usize) -> Option<(usize, usize)> {
    let mut depth = 0;
    let closing = tokens[open..].iter().position(|t| {
        depth += i32::from(t.token == Token::LParen) - i32::from(t.token == Token::RParen);
        depth == 0
    });
    let close = open + closing?;
    let end = close + tokens[close..].iter().position(|t| is_keyword(t, Keyword::DO))?;
    let is_name = |t: &TokenWithSpan| matches!(t.token, Token::Word(_) | Token::Comma);
    let names = tokens[open + 1..close].iter().all(is_name);
    let is_plain = names && !is_keyword(&tokens[close + 1], Keyword::WHERE);
    (!is_plain).then_some((close, end))
}

/// Tokens as text that is read as the same tokens.
pub(crate) fn text_of(tokens: &[TokenWithSpan]) -> String {
    let text = |t: &TokenWithSpan| match &t.token {
        Token::SingleQuotedString(s) => format!("'{}'", s.replace('\'', "''")),
        Token::Word(w) if w.quote_style.is_some() => {
            format!("\"{}\"", w.value.replace('"', "\"\""))
        }
        token => token.to_string(),
    };
    tokens.iter().map(text).collect::<Vec<_>>().join(" ")
}

/// Whether a query in parentheses is to lock its rows.
pub(crate) fn locks_within(tokens: &[TokenWithSpan]) -> bool {
    let mut depth = 0;
    (0..tokens.len()).any(|at| {
        depth += i32::from(tokens[at].token == Token::LParen);
        depth -= i32::from(tokens[at].token == Token::RParen);
        depth > 0 && begins_lock(tokens, at)
    })
}

fn begins_lock(tokens: &[TokenWithSpan], at: usize) -> bool {
    let strength = [Keyword::UPDATE, Keyword::SHARE];
    matches!(tokens.get(at..at + 2), Some([first, second])
        if is_keyword(first, Keyword::FOR) && strength.iter().any(|word| is_keyword(second, *word)))
}

/// `FOR UPDATE SKIP LOCKED LIMIT 1` as `LIMIT 1 FOR UPDATE SKIP LOCKED`.
pub(crate) fn windows_before_locks(tokens: &mut [TokenWithSpan]) {
    let any = |at: usize, words: &[Keyword], tokens: &[TokenWithSpan]| {
        tokens.get(at).is_some_and(|t| words.iter().any(|word| is_keyword(t, *word)))
    };
    let mut at = 0;
    while at < tokens.len() {
        if !begins_lock(tokens, at) {
            at += 1;
            continue;
        }
        let window = [Keyword::LIMIT, Keyword::OFFSET, Keyword::FETCH];
        let mut end = at;
        let is_word = |t: &TokenWithSpan| matches!(t.token, Token::Word(_) | Token::Period);
        while tokens.get(end).is_some_and(is_word) && !any(end, &window, tokens) {
            end += 1;
        }
        let mut after = end;
        if any(end, &window, tokens) {
            let mut depth = 0;
            while after < tokens.len() {
                depth += i32::from(tokens[after].token == Token::LParen);
                depth -= i32::from(tokens[after].token == Token::RParen);
                let ends = [Keyword::RETURNING, Keyword::ON];
                let is_end = matches!(tokens[after].token, Token::SemiColon | Token::EOF);
                if depth < 0 || is_end || depth == 0 && any(after, &ends, tokens) {
                    break;
                }
                after += 1;
            }
            tokens[at..after].rotate_left(end - at);
        }
        at = after.max(at + 1);
    }
}

/// `FOR UPDATE OF a, b NOWAIT` as `FOR UPDATE OF a NOWAIT FOR UPDATE OF b NOWAIT`.
pub(crate) fn locks(tokens: &mut Vec<TokenWithSpan>) {
    let mut at = 0;
    while at + 4 < tokens.len() {
        let is_lock = is_keyword(&tokens[at], Keyword::FOR)
            && (is_keyword(&tokens[at + 1], Keyword::UPDATE)
                || is_keyword(&tokens[at + 1], Keyword::SHARE))
            && is_keyword(&tokens[at + 2], Keyword::OF);
        if is_lock {
            at = lock_each(tokens, at);
        }
        at += 1;
    }
}

/// Returns the last token that it has looked at.
fn lock_each(tokens: &mut Vec<TokenWithSpan>, from: usize) -> usize {
    let is = |at: usize, word| tokens.get(at).is_some_and(|t| is_keyword(t, word));
    let is_in_name = |at: usize| {
        tokens.get(at).is_some_and(|t| matches!(t.token, Token::Word(_) | Token::Period))
            && ![Keyword::NOWAIT, Keyword::SKIP, Keyword::FOR, Keyword::LIMIT, Keyword::OFFSET]
                .iter()
                .any(|word| is(at, *word))
    };
    let mut names = Vec::new();
    let mut end = from + 3;
    loop {
        let start = end;
        while is_in_name(end) {
            end += 1;
        }
        names.push(start..end);
        if tokens.get(end).is_none_or(|t| t.token != Token::Comma) {
            break;
        }
        end += 1;
    }
    let words = if is(end, Keyword::NOWAIT) {
        1
    } else if is(end, Keyword::SKIP) {
        2
    } else {
        0
    };
    if names.len() == 1 || names.iter().any(|name| name.is_empty()) || end + words > tokens.len() {
        return from;
    }
    let (head, tail) = (tokens[from..from + 3].to_vec(), tokens[end..end + words].to_vec());
    let each = |name: std::ops::Range<usize>| {
        head.iter().chain(&tokens[name]).chain(&tail).cloned().collect::<Vec<_>>()
    };
    let all: Vec<TokenWithSpan> = names.into_iter().flat_map(each).collect();
    let last = from + all.len() - 1;
    tokens.splice(from..end + words, all);
    last
}

/// Actions of ALTER TABLE that change how a column is stored and sorted, which here is one way.
pub(crate) fn column_hints(tokens: &mut Vec<TokenWithSpan>) {
    let is_table = matches!(tokens.as_slice(), [alter, table, ..]
        if is_keyword(alter, Keyword::ALTER) && is_keyword(table, Keyword::TABLE));
    if !is_table {
        return;
    }
    let mut at = 2;
    while at < tokens.len() {
        if is_keyword(&tokens[at], Keyword::ALTER) {
            let is_word = tokens.get(at + 1).is_some_and(|t| is_keyword(t, Keyword::COLUMN));
            let action = at + 2 + usize::from(is_word);
            if altered_constraint(tokens, at + 1) {
                at += 1;
                continue;
            }
            hint(tokens, action);
            collation(tokens, action);
            unknown_action(tokens, action);
        }
        at += 1;
    }
}

fn hint(tokens: &mut Vec<TokenWithSpan>, action: usize) {
    let word = |at: usize, words: &[&str]| {
        matches!(tokens.get(at).map(|t| &t.token), Some(Token::Word(w))
            if w.quote_style.is_none() && words.iter().any(|word| w.value.eq_ignore_ascii_case(word)))
    };
    let number = |at: usize| matches!(tokens.get(at).map(|t| &t.token), Some(Token::Number(..)));
    if !word(action, &["set"]) {
        return;
    }
    let minus = matches!(tokens.get(action + 2).map(|t| &t.token), Some(Token::Minus));
    let length = if word(action + 1, &["statistics"]) && minus && number(action + 3) {
        3
    } else if word(action + 1, &["statistics"]) && number(action + 2)
        || word(action + 1, &["storage"])
            && word(action + 2, &["plain", "external", "extended", "main"])
        || word(action + 1, &["compression"]) && word(action + 2, &["default", "pglz", "lz4"])
    {
        2
    } else {
        return;
    };
    let span = tokens[action].span;
    let name = Token::make_word("n_distinct", None);
    let none = Token::Number("0".to_owned(), false);
    let known = [Token::LParen, name, Token::Eq, none, Token::RParen];
    let known = known.map(|token| TokenWithSpan { token, span });
    tokens.splice(action + 1..=action + length, known);
}

fn collation(tokens: &mut Vec<TokenWithSpan>, action: usize) {
    let is = |at: usize, word| tokens.get(at).is_some_and(|t| is_keyword(t, word));
    let data = is(action, Keyword::SET) && is(action + 1, Keyword::DATA);
    if !is(if data { action + 2 } else { action }, Keyword::TYPE) {
        return;
    }
    let mut depth = 0_usize;
    for at in action..tokens.len() {
        match &tokens[at].token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            Token::Comma if depth == 0 => return,
            _ if is(at, Keyword::USING) => return,
            _ if is(at, Keyword::COLLATE) => {
                let mut end = at + 2;
                if tokens.get(end).is_some_and(|t| t.token == Token::Period) {
                    end += 2;
                }
                let Some(name) = tokens.get(at + 1..end) else { return };
                let name: String = name.iter().map(|t| t.token.to_string()).collect();
                if is_known_collation(&name) {
                    tokens.drain(at..end);
                }
                return;
            }
            _ => {}
        }
    }
}

/// What an action on a column is, that sqlparser does not know.
#[derive(Debug, PartialEq)]
pub(crate) enum ColumnAction {
    /// DROP IDENTITY
    DropIdentity { if_exists: bool },
    /// DROP EXPRESSION
    DropExpression { if_exists: bool },
    /// SET GENERATED, SET with an option of the sequence, RESTART: as written.
    SetIdentity(String),
    /// ALTER CONSTRAINT, of a constraint of the column's name: its attributes in small letters.
    AlterConstraint(String),
}

/// Such actions as defaults.
const IDENTITY: &str = "\0drop identity";
const EXPRESSION: &str = "\0drop expression";
const IF_EXISTS: &str = " if exists";
const SET_IDENTITY: &str = "\0set identity ";
const CONSTRAINT: &str = "\0alter constraint ";

/// `ALTER CONSTRAINT name DEFERRABLE …` as `ALTER COLUMN name SET DEFAULT "…"`; whether it is one.
fn altered_constraint(tokens: &mut Vec<TokenWithSpan>, at: usize) -> bool {
    let is_it = matches!(tokens.get(at..at + 2), Some([word, name])
        if is_keyword(word, Keyword::CONSTRAINT) && matches!(name.token, Token::Word(_)));
    if !is_it {
        return false;
    }
    let is_attribute =
        |t: &&TokenWithSpan| matches!(&t.token, Token::Word(w) if w.quote_style.is_none());
    let attributes: Vec<String> = tokens[at + 2..]
        .iter()
        .take_while(is_attribute)
        .map(|t| t.token.to_string().to_ascii_lowercase())
        .collect();
    let name = format!("{CONSTRAINT}{}", attributes.join(" "));
    let span = tokens[at].span;
    tokens[at].token = Token::make_word("COLUMN", None);
    let words = [("SET", None), ("DEFAULT", None), (name.as_str(), Some('"'))];
    let words = words.map(|(word, quote)| TokenWithSpan::new(Token::make_word(word, quote), span));
    tokens.splice(at + 2..at + 2 + attributes.len(), words);
    true
}

fn unknown_action(tokens: &mut Vec<TokenWithSpan>, action: usize) {
    let word = |at: usize, words: &[&str]| {
        matches!(tokens.get(at).map(|t| &t.token), Some(Token::Word(w))
            if w.quote_style.is_none() && words.iter().any(|word| w.value.eq_ignore_ascii_case(word)))
    };
    let options = ["increment", "minvalue", "maxvalue", "start", "restart", "cache", "cycle", "no"];
    let (name, end) = if word(action, &["drop"]) && word(action + 1, &["identity", "expression"]) {
        let name = if word(action + 1, &["identity"]) { IDENTITY } else { EXPRESSION };
        match word(action + 2, &["if"]) && word(action + 3, &["exists"]) {
            true => (format!("{name}{IF_EXISTS}"), action + 4),
            false => (name.to_owned(), action + 2),
        }
    } else if word(action, &["restart"])
        || word(action, &["set"])
            && (word(action + 1, &["generated"]) || word(action + 1, &options))
    {
        let ends =
            |t: &TokenWithSpan| matches!(t.token, Token::Comma | Token::SemiColon | Token::EOF);
        let length = tokens[action..].iter().position(ends).unwrap_or(tokens.len() - action);
        let end = action + length;
        (format!("{SET_IDENTITY}{}", text_of(&tokens[action..end])), end)
    } else {
        return;
    };
    let span = tokens[action].span;
    let words = [("SET", None), ("DEFAULT", None), (name.as_str(), Some('"'))];
    let words = words.map(|(word, quote)| TokenWithSpan::new(Token::make_word(word, quote), span));
    tokens.splice(action..end, words);
}

/// The action that a default stands for.
pub(crate) fn column_action(default: &Expr) -> Option<ColumnAction> {
    let Expr::Identifier(name) = default else { return None };
    if let Some(options) = name.value.strip_prefix(SET_IDENTITY) {
        return Some(ColumnAction::SetIdentity(options.to_owned()));
    }
    if let Some(attributes) = name.value.strip_prefix(CONSTRAINT) {
        return Some(ColumnAction::AlterConstraint(attributes.to_owned()));
    }
    let if_exists = name.value.ends_with(IF_EXISTS);
    match name.value.strip_suffix(IF_EXISTS).unwrap_or(&name.value) {
        IDENTITY => Some(ColumnAction::DropIdentity { if_exists }),
        EXPRESSION => Some(ColumnAction::DropExpression { if_exists }),
        _ => None,
    }
}

/// The tablespace that there is, of a table, of an index, and of the index of a constraint.
pub(crate) fn tablespaces(tokens: &mut Vec<TokenWithSpan>) {
    let is = |t: &TokenWithSpan, text: &str| matches!(&t.token, Token::Word(w) if w.value.eq_ignore_ascii_case(text));
    let creates = tokens.first().is_some_and(|t| is(t, "create"));
    if !creates && !tokens.first().is_some_and(|t| is(t, "alter")) {
        return;
    }
    let (mut at, mut depth) = (1, 0_usize);
    while at + 1 < tokens.len() {
        match &tokens[at].token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            Token::Word(w) if depth == 0 && matches!(w.keyword, Keyword::AS | Keyword::WHERE) => {
                return;
            }
            Token::Word(_)
                if is(&tokens[at], "tablespace") && is(&tokens[at + 1], "pg_default") =>
            {
                let of_index = is(&tokens[at - 1], "index") && is(&tokens[at.max(2) - 2], "using");
                if of_index || creates && depth == 0 {
                    let from = if of_index { at - 2 } else { at };
                    tokens.drain(from..at + 2);
                    at = from;
                    continue;
                }
            }
            _ => {}
        }
        at += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
    use datafusion::sql::sqlparser::tokenizer::Tokenizer;

    fn tokens(sql: &str) -> Vec<TokenWithSpan> {
        let all = Tokenizer::new(&PostgreSqlDialect {}, sql).tokenize_with_location().unwrap();
        all.into_iter().filter(|t| !matches!(t.token, Token::Whitespace(_))).collect()
    }

    fn text(tokens: &[TokenWithSpan]) -> String {
        tokens.iter().map(|t| t.token.to_string()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_conflict_target_is_one_name() {
        let read = |sql: &str| {
            let mut tokens = tokens(sql);
            conflict_targets(&mut tokens);
            let named = tokens.iter().find_map(|t| match &t.token {
                Token::Word(w) if w.value.starts_with('\0') => Some(w.value.clone()),
                _ => None,
            });
            named.map(|name| name.replace(' ', ""))
        };
        assert_eq!(read("insert into t values (1) on conflict (a, \"b\") do nothing"), None);
        let expression = "insert into t values (1) on conflict (lower(a), b) do nothing";
        assert_eq!(read(expression).as_deref(), Some("\0lower(a),b\0"));
        let partial = "insert into t values (1) on conflict (a) where b = 'it''s' do nothing";
        assert_eq!(read(partial).as_deref(), Some("\0a\0b='it''s'"));
        assert_eq!(read("insert into t values (1) on conflict (a"), None);
    }

    #[test]
    fn operators_stand_alone() {
        let mut given = tokens(
            "a OPERATOR(pg_catalog.=) ANY (b) and c operator(||) d or operator(x) or operator",
        );
        operators(&mut given);
        assert_eq!(
            text(&given).trim_end_matches(" EOF"),
            "a = ANY ( b ) and c || d or operator ( x ) or operator"
        );
    }

    #[test]
    fn locks_in_parentheses_are_found() {
        let within = |sql: &str| locks_within(&tokens(sql));
        assert!(within("delete from q where id in (select id from q for update skip locked)"));
        assert!(within("with n as (select 1 from q for share) select * from n"));
        assert!(!within("select substring('abc' for 2), (select 1) from q for share"));
    }

    #[test]
    fn a_window_stands_before_a_lock() {
        let mut given = tokens(
            "select * from (select 1 from q for update of q skip locked limit (1 + 1) offset 2) as s \
             for update for share fetch first row only",
        );
        windows_before_locks(&mut given);
        assert_eq!(
            text(&given).trim_end_matches(" EOF"),
            "select * from ( select 1 from q limit ( 1 + 1 ) offset 2 for update of q skip locked ) as s \
             fetch first row only for update for share"
        );
    }

    #[test]
    fn hints_have_no_effect() {
        let mut given = tokens(
            "ALTER TABLE t ALTER a SET STATISTICS -1, ALTER COLUMN b SET STORAGE MAIN, ALTER c SET STORAGE nowhere, \
             ALTER d TYPE text COLLATE pg_catalog.\"C\" USING d COLLATE \"de\"",
        );
        column_hints(&mut given);
        assert_eq!(
            text(&given).trim_end_matches(" EOF"),
            "ALTER TABLE t ALTER a SET ( n_distinct = 0 ) , ALTER COLUMN b SET ( n_distinct = 0 ) , \
             ALTER c SET STORAGE nowhere , ALTER d TYPE text USING d COLLATE \"de\""
        );
    }

    #[test]
    fn the_tablespace_is_not_said() {
        let without = |sql: &str| {
            let mut given = tokens(sql);
            tablespaces(&mut given);
            text(&given).trim_end_matches(" EOF").to_owned()
        };
        assert_eq!(
            without("create index i on t (a) tablespace pg_default where tablespace pg_default"),
            "create index i on t ( a ) where tablespace pg_default"
        );
        assert_eq!(
            without(
                "create table t (a int unique using index tablespace \"pg_default\") tablespace other"
            ),
            "create table t ( a int unique ) tablespace other"
        );
        for kept in [
            "alter table t set tablespace pg_default",
            "create table t as select tablespace pg_default",
        ] {
            assert_eq!(without(kept), kept);
        }
    }
}
