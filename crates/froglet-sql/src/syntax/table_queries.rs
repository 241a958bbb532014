//! `TABLE t` as `SELECT * FROM t`, wherever a query may stand: sqlparser reads it at the beginning of a statement alone.

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::storage_options::is_keyword;

/// Of one statement's tokens.
pub(crate) fn expand(tokens: &mut Vec<TokenWithSpan>) {
    let mut at = 0;
    while at + 1 < tokens.len() {
        let is_it = is_keyword(&tokens[at], Keyword::TABLE)
            && matches!(&tokens[at + 1].token, Token::Word(w)
                if w.quote_style.is_some() || !matches!(w.keyword, Keyword::FROM | Keyword::AS))
            && begins_query(tokens, at);
        if is_it {
            let span = tokens[at].span;
            let words = [Token::make_keyword("SELECT"), Token::Mul, Token::make_keyword("FROM")];
            tokens.splice(at..=at, words.map(|token| TokenWithSpan { token, span }));
            at = bare_name(tokens, at + 3);
        }
        at += 1;
    }
}

/// A name without ONLY, its parentheses and `*`: no table has others beneath it. Returns where it ends.
fn bare_name(tokens: &mut Vec<TokenWithSpan>, mut at: usize) -> usize {
    let is_only = matches!(&tokens[at].token, Token::Word(w)
        if w.quote_style.is_none() && w.value.eq_ignore_ascii_case("only"));
    if is_only && at + 1 < tokens.len() {
        tokens.remove(at);
    }
    let in_parentheses = is_only && tokens[at].token == Token::LParen;
    if in_parentheses {
        tokens.remove(at);
    }
    while tokens.get(at + 1).is_some_and(|t| t.token == Token::Period) {
        at += 2;
    }
    let ends = if in_parentheses { Token::RParen } else { Token::Mul };
    if tokens.get(at + 1).is_some_and(|t| t.token == ends) {
        tokens.remove(at + 1);
    }
    at
}

/// Whether a query may begin at a token.
fn begins_query(tokens: &[TokenWithSpan], at: usize) -> bool {
    let is = |at: usize, words: &[Keyword]| {
        tokens.get(at).is_some_and(|t| words.iter().any(|word| is_keyword(t, *word)))
    };
    const SETS: &[Keyword] = &[Keyword::UNION, Keyword::EXCEPT, Keyword::INTERSECT];
    let Some(before) = at.checked_sub(1) else { return true };
    match &tokens[before].token {
        Token::LParen => true,
        Token::RParen => is(0, &[Keyword::WITH, Keyword::INSERT, Keyword::EXPLAIN]),
        _ if is(before, SETS) => true,
        _ if is(before, &[Keyword::ALL, Keyword::DISTINCT]) => before > 0 && is(before - 1, SETS),
        _ if is(before, &[Keyword::AS]) => is(0, &[Keyword::CREATE, Keyword::PREPARE]),
        _ if is(before, &[Keyword::FOR]) => is(0, &[Keyword::DECLARE]),
        _ if is(before, &[Keyword::EXPLAIN, Keyword::ANALYZE, Keyword::VERBOSE]) => {
            is(0, &[Keyword::EXPLAIN])
        }
        Token::Word(_) => is_insert_into(tokens, before),
        _ => false,
    }
}

/// Whether what ends at a token is `INSERT INTO name`, with an alias or OVERRIDING.
fn is_insert_into(tokens: &[TokenWithSpan], mut at: usize) -> bool {
    let is_name = |t: &TokenWithSpan| matches!(t.token, Token::Word(_) | Token::Period);
    while at > 0 && is_name(&tokens[at]) && !is_keyword(&tokens[at], Keyword::INTO) {
        at -= 1;
    }
    at > 0 && is_keyword(&tokens[at], Keyword::INTO) && is_keyword(&tokens[at - 1], Keyword::INSERT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
    use datafusion::sql::sqlparser::tokenizer::Tokenizer;

    fn expanded(sql: &str) -> String {
        let all = Tokenizer::new(&PostgreSqlDialect {}, sql).tokenize_with_location().unwrap();
        let is_token = |t: &TokenWithSpan| !matches!(t.token, Token::Whitespace(_));
        let mut tokens: Vec<TokenWithSpan> = all.into_iter().filter(is_token).collect();
        expand(&mut tokens);
        let text: Vec<String> = tokens.iter().map(|t| t.token.to_string()).collect();
        text.join(" ").trim_end_matches(" EOF").to_owned()
    }

    #[test]
    fn a_table_is_a_query_where_one_may_stand() {
        for (written, becomes) in [
            ("table s.t *", "SELECT * FROM s . t"),
            ("table only (t)", "SELECT * FROM t"),
            ("insert into p table c", "insert into p SELECT * FROM c"),
            ("insert into s.p as q (a) table c", "insert into s . p as q ( a ) SELECT * FROM c"),
            ("(table a) union all table b", "( SELECT * FROM a ) union all SELECT * FROM b"),
            ("with x as (table a) table x", "with x as ( SELECT * FROM a ) SELECT * FROM x"),
            ("create table q as table a", "create table q as SELECT * FROM a"),
        ] {
            assert_eq!(expanded(written), becomes);
        }
    }

    #[test]
    fn and_nowhere_else() {
        for kept in [
            "lock table t",
            "truncate table t",
            "select 1 into table x",
            "select a as table from t",
            "comment on table t is null",
            "create view v as select a as table from t",
            "reindex ( verbose ) table t",
            "explain alter table t add a int",
        ] {
            assert_eq!(expanded(kept), kept);
        }
    }
}
