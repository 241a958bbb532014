//! What PostgreSQL's grammar has and this one does not: asked when a statement does not parse, so that it is
//! refused by its name (0A000) and not as a mistake (42601).

use datafusion::sql::sqlparser::tokenizer::{Location, Token, TokenWithSpan};

/// Kinds of objects after CREATE, ALTER and DROP.
const KINDS: [&str; 35] = [
    "ACCESS METHOD",
    "AGGREGATE",
    "CAST",
    "COLLATION",
    "CONVERSION",
    "DATABASE",
    "DEFAULT PRIVILEGES",
    "DOMAIN",
    "EVENT TRIGGER",
    "EXTENSION",
    "FOREIGN DATA WRAPPER",
    "FOREIGN TABLE",
    "FUNCTION",
    "LANGUAGE",
    "LARGE OBJECT",
    "OPERATOR CLASS",
    "OPERATOR FAMILY",
    "OPERATOR",
    "POLICY",
    "PROCEDURE",
    "PUBLICATION",
    "ROUTINE",
    "RULE",
    "SERVER",
    "STATISTICS",
    "SUBSCRIPTION",
    "SYSTEM",
    "TABLESPACE",
    "TEXT SEARCH CONFIGURATION",
    "TEXT SEARCH DICTIONARY",
    "TEXT SEARCH PARSER",
    "TEXT SEARCH TEMPLATE",
    "TRANSFORM",
    "TRIGGER",
    "USER MAPPING",
];

/// Statements by how they begin.
const STATEMENTS: [&str; 4] = ["IMPORT FOREIGN SCHEMA", "LOAD", "REASSIGN OWNED", "SECURITY LABEL"];

/// Clauses: how the statement begins, how the clause does at which the parser stopped, and its name.
const CLAUSES: [(&str, &str, &str); 16] = [
    ("ALTER TABLE", "COLLATE", "a collation that is not C"),
    ("CREATE INDEX", "TABLESPACE", "a tablespace that is not pg_default"),
    ("ALTER TABLE", "UNLOGGED", "ALTER TABLE … SET UNLOGGED"),
    ("ALTER TABLE", "CLUSTER ON", "ALTER TABLE … CLUSTER ON"),
    ("ALTER TABLE", "WITHOUT CLUSTER", "ALTER TABLE … SET WITHOUT CLUSTER"),
    ("ALTER TABLE", "TABLESPACE", "ALTER TABLE … SET TABLESPACE"),
    ("ALTER TABLE", "ATTACH PARTITION", "partitioning"),
    ("ALTER TABLE", "DETACH PARTITION", "partitioning"),
    ("CREATE TABLE", "NULLS NOT DISTINCT", "NULLS NOT DISTINCT of a column's UNIQUE"),
    ("CREATE TABLE", "OF", "CREATE TABLE … OF"),
    ("CREATE TABLE", "COMPRESSION", "COMPRESSION"),
    ("CREATE TABLE", "STORAGE", "STORAGE in CREATE TABLE"),
    ("WITH", "SEARCH DEPTH FIRST", "SEARCH"),
    ("WITH", "SEARCH BREADTH FIRST", "SEARCH"),
    ("WITH", "CYCLE", "CYCLE"),
    ("ALTER TABLE", "INHERIT", "inheritance"),
];

/// The name of what a statement asks for, where that is known. `stopped`: the token that was one too many.
pub(crate) fn named(tokens: &[TokenWithSpan], stopped: Option<Location>) -> Option<String> {
    if let Some(known) = STATEMENTS.into_iter().find(|known| begins(tokens, known)) {
        return Some(known.to_owned());
    }
    if let Some((verb, rest)) = verb(tokens)
        && let Some(kind) = KINDS.into_iter().find(|kind| begins(rest, kind))
    {
        return Some(format!("{verb} {kind}"));
    }
    let at = tokens.iter().position(|token| Some(token.span.start) == stopped)?;
    let is_it = |(statement, clause, _): &&(&str, &str, &str)| {
        begins(tokens, statement) && begins(&tokens[at..], clause)
    };
    if let Some((.., name)) = CLAUSES.iter().find(is_it) {
        return Some((*name).to_owned());
    }
    let before = |words: &str| {
        let first = at.checked_sub(words.split(' ').count());
        first.is_some_and(|first| begins(&tokens[first..], words))
    };
    let is_exclude = before("EXCLUDE USING") || begins(&tokens[at..], "EXCLUDE");
    is_exclude.then(|| "EXCLUDE".to_owned())
}

/// CREATE, ALTER or DROP, and what follows it and its adverbs.
fn verb(tokens: &[TokenWithSpan]) -> Option<(&'static str, &[TokenWithSpan])> {
    let verb = ["CREATE", "ALTER", "DROP"].into_iter().find(|verb| begins(tokens, verb))?;
    let mut rest = &tokens[1..];
    for adverb in ["OR REPLACE", "CONSTRAINT", "TRUSTED", "PROCEDURAL"] {
        if begins(rest, adverb) {
            rest = &rest[adverb.split(' ').count()..];
        }
    }
    Some((verb, rest))
}

/// Whether tokens begin with words, none of them in quotes.
pub(crate) fn begins(tokens: &[TokenWithSpan], words: &str) -> bool {
    let mut tokens = tokens.iter();
    words.split(' ').all(|text| {
        tokens.next().is_some_and(|token| match &token.token {
            Token::Word(word) => {
                word.quote_style.is_none() && word.value.eq_ignore_ascii_case(text)
            }
            _ => false,
        })
    })
}
