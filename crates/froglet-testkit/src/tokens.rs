//! Statements mutated by tokens: what comes out mostly parses, so it goes deeper than text with noise in it does.

use crate::mutate::Random;

/// What a token of SQL is, as far as another can stand in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A keyword or a name without quotes.
    Word,
    /// A name in double quotes.
    Name,
    /// Digits, or a parameter.
    Number,
    /// A literal in single quotes or dollars, its prefix included.
    Text,
    /// An operator or punctuation.
    Sign,
}

/// A token as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// Which kind.
    pub kind: Kind,
    /// Its letters.
    pub text: String,
}

/// The tokens of a statement, comments left out. Every text has some division into them.
pub fn tokens(text: &str) -> Vec<Token> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let (kind, length) = match first {
            c if c.is_whitespace() => {
                rest = &rest[c.len_utf8()..];
                continue;
            }
            '-' if rest.starts_with("--") => {
                rest = &rest[rest.find('\n').unwrap_or(rest.len())..];
                continue;
            }
            '\'' => (Kind::Text, quoted(rest, '\'')),
            '"' => (Kind::Name, quoted(rest, '"')),
            '$' if rest[1..].starts_with(|c: char| c.is_ascii_digit()) => {
                (Kind::Number, 1 + run(&rest[1..], |c| c.is_ascii_digit()))
            }
            '0'..='9' => (Kind::Number, run(rest, |c| c.is_ascii_digit() || c == '.')),
            c if is_letter(c) => match rest[c.len_utf8()..].starts_with('\'') {
                true if "eEbBxXnN".contains(c) => (Kind::Text, 1 + quoted(&rest[1..], '\'')),
                _ => (Kind::Word, run(rest, |c| is_letter(c) || c.is_ascii_digit())),
            },
            c if "<>=!~|&-+*/%^:@#?".contains(c) => {
                (Kind::Sign, run(rest, |c| "<>=!~|&-+*/%^:@#?".contains(c)))
            }
            c => (Kind::Sign, c.len_utf8()),
        };
        let (token, after) = rest.split_at(length);
        found.push(Token { kind, text: token.to_owned() });
        rest = after;
    }
    found
}

/// The statement of some tokens.
pub fn written(tokens: &[Token]) -> String {
    tokens.iter().map(|token| token.text.as_str()).collect::<Vec<_>>().join(" ")
}

fn is_letter(c: char) -> bool {
    c.is_alphabetic() || c == '_'
}

fn run(text: &str, is_in: impl Fn(char) -> bool) -> usize {
    text.find(|c| !is_in(c)).unwrap_or(text.len())
}

/// The bytes of what is in quotes; a quote twice is one of its letters.
fn quoted(text: &str, quote: char) -> usize {
    let mut at = 1;
    while let Some(next) = text[at..].find(quote) {
        at += next + 1;
        if !text[at..].starts_with(quote) {
            return at;
        }
        at += 1;
    }
    text.len()
}

/// Values that are the edge of something.
const NUMBERS: &[&str] = &[
    "0",
    "1",
    "2",
    "3",
    "-1",
    "10",
    "100",
    "2147483647",
    "2147483648",
    "9223372036854775807",
    "9223372036854775808",
    "0.5",
    "1.0",
    "1e10",
    "1e300",
    "1e400",
    "0.000001",
    "99999999999999999999.99",
    "32768",
    "$1",
    "NULL",
];
const TEXTS: &[&str] = &[
    "''",
    "' '",
    "'a'",
    "'é'",
    "'0'",
    "'1'",
    "'-1'",
    "'NaN'",
    "'inf'",
    "'-infinity'",
    "'t'",
    "'1.5'",
    "'2024-02-29'",
    "'2024-02-29 12:30:00+02'",
    "'12:30'",
    "'1 day'",
    "'-1 mon 3 days 04:05:06'",
    "'P1Y2M'",
    "'{}'",
    "'{1,2}'",
    "'{NULL}'",
    "'{{1,2},{3,4}}'",
    "'{\"a\": [1, 2, {\"b\": null}]}'",
    "'[1, \"x\"]'",
    "'(1,a)'",
    "'$.a[*] ? (@ > 1)'",
    "'\\xdeadbeef'",
    "'public'",
    "'pg_class'",
    "'int4'",
    "'YYYY-MM-DD HH24:MI:SS'",
    "'FMMonth'",
    "'999.99'",
    "'a%b_c'",
    "'(a+)+b'",
    "'[[:alpha:]]'",
    "'00000000-0000-0000-0000-000000000001'",
    "'ünïcödé ñ'",
    "E'\\\\'",
    "'epoch'",
    "NULL",
];
const TYPES: &[&str] = &[
    "int",
    "bigint",
    "smallint",
    "numeric",
    "numeric(5,2)",
    "float8",
    "real",
    "text",
    "varchar(3)",
    "char(4)",
    "name",
    "bool",
    "date",
    "time",
    "timestamp",
    "timestamptz",
    "interval",
    "json",
    "jsonb",
    "jsonpath",
    "uuid",
    "bytea",
    "oid",
    "regclass",
    "regtype",
    "regproc",
    "int[]",
    "text[]",
    "numeric[]",
    "date[]",
    "uuid[]",
    "jsonb[]",
];
const SIGNS: &[&str] = &[
    "+", "-", "*", "/", "%", "^", "=", "<>", "<", "<=", ">", ">=", "||", "~", "~*", "!~", "->",
    "->>", "#>", "#>>", "@>", "<@", "?", "?|", "&&", "@?", "@@", "#-", "&", "|", "#", "<<", ">>",
    "~~", "!~~", "::", ",", ".", "(", ")", "[", "]",
];
const PHRASES: &[&str] = &[
    "IS NULL",
    "IS NOT NULL",
    "IS DISTINCT FROM",
    "NOT",
    "AND",
    "OR",
    "IN",
    "NOT IN",
    "BETWEEN",
    "LIKE",
    "ILIKE",
    "SIMILAR TO",
    "= ANY",
    "<> ALL",
    "DISTINCT",
    "DISTINCT ON (1)",
    "ALL",
    "GROUP BY 1",
    "GROUP BY ROLLUP (1, 2)",
    "GROUP BY GROUPING SETS ((1), ())",
    "HAVING count(*) > 0",
    "ORDER BY 1",
    "ORDER BY 1 DESC NULLS FIRST",
    "LIMIT 1",
    "LIMIT 2 OFFSET 1",
    "OFFSET 1",
    "FETCH FIRST 1 ROW ONLY",
    "FOR UPDATE",
    "FOR SHARE SKIP LOCKED",
    "RETURNING *",
    "ON CONFLICT DO NOTHING",
    "ON CONFLICT (1) DO UPDATE SET",
    "UNION",
    "UNION ALL",
    "INTERSECT",
    "EXCEPT ALL",
    "UNION ALL BY NAME",
    "CROSS JOIN",
    "LEFT JOIN",
    "FULL JOIN",
    "NATURAL JOIN",
    "LATERAL",
    "USING",
    "ON true",
    "OVER ()",
    "OVER (ORDER BY 1)",
    "OVER (PARTITION BY 1 ORDER BY 2 ROWS 1 PRECEDING)",
    "OVER w",
    "FILTER (WHERE true)",
    "WITHIN GROUP (ORDER BY 1)",
    "WITH x AS",
    "WITH RECURSIVE",
    "WITH ORDINALITY",
    "AS",
    "VALUES (1)",
    "DEFAULT",
    "ARRAY[1, 2]",
    "ARRAY[]",
    "ROW(1, 'a')",
    "ROW()",
    "(SELECT 1)",
    "EXISTS (SELECT 1)",
    "ARRAY(SELECT 1)",
    "CASE WHEN true THEN 1 ELSE 2 END",
    "CAST (",
    "AT TIME ZONE 'UTC'",
    "COLLATE \"C\"",
    "TABLESAMPLE SYSTEM (50)",
    "interval '1 day'",
    "date '2024-01-01'",
    "current_date",
    "current_time",
    "now()",
    "random()",
    "excluded",
    "generate_series(1, 3)",
    "unnest(ARRAY[1, 2])",
    "EXPLAIN",
    "CASCADE",
    "IF EXISTS",
    "IF NOT EXISTS",
];

/// What statements are made of: tokens of a corpus, and functions.
pub struct Pool {
    /// Keywords and names.
    pub words: Vec<String>,
    /// Literals in quotes.
    pub texts: Vec<String>,
    /// Names of functions.
    pub functions: Vec<String>,
}

impl Pool {
    /// Of all tokens of these statements.
    pub fn of(statements: &[String], functions: Vec<String>) -> Pool {
        let (mut words, mut texts) = (Vec::new(), Vec::new());
        for token in statements.iter().flat_map(|statement| tokens(statement)) {
            match token.kind {
                Kind::Word | Kind::Name => words.push(token.text),
                Kind::Text => texts.push(token.text),
                Kind::Number | Kind::Sign => {}
            }
        }
        for list in [&mut words, &mut texts] {
            list.sort();
            list.dedup();
        }
        Pool { words, texts, functions }
    }

    fn value(&self, random: &mut Random) -> String {
        match random.below(6) {
            0 | 1 => (*random.pick(NUMBERS)).to_owned(),
            2 | 3 => (*random.pick(TEXTS)).to_owned(),
            4 if !self.texts.is_empty() => random.pick(&self.texts).clone(),
            _ => self.call(random, 1),
        }
    }

    /// A call of some function with some arguments.
    fn call(&self, random: &mut Random, depth: usize) -> String {
        let Some(function) = (!self.functions.is_empty()).then(|| random.pick(&self.functions))
        else {
            return "1".to_owned();
        };
        let arguments: Vec<String> = (0..random.below(4))
            .map(|_| match random.below(4) {
                0 => (*random.pick(NUMBERS)).to_owned(),
                1 if depth > 0 => self.call(random, depth - 1),
                2 => format!("{}::{}", random.pick(TEXTS), random.pick(TYPES)),
                _ => (*random.pick(TEXTS)).to_owned(),
            })
            .collect();
        format!("{function}({})", arguments.join(", "))
    }
}

/// A statement with one to three of its tokens, or runs of them, changed; some come from `other`, some from the pool.
pub fn mutated(random: &mut Random, pool: &Pool, valid: &str, other: &str) -> String {
    let mut out = tokens(valid);
    let others = tokens(other);
    let word = |text: String| Token { kind: Kind::Word, text };
    for _ in 0..1 + random.below(3) {
        let at = random.below(out.len() + 1);
        match random.below(14) {
            0 if at < out.len() => {
                out.remove(at);
            }
            1 if at < out.len() => {
                let end = at + 1 + random.below((out.len() - at).min(6));
                out.drain(at..end);
            }
            2 if at < out.len() => {
                let end = at + 1 + random.below((out.len() - at).min(8));
                let again = out[at..end].to_vec();
                let to = random.below(out.len() + 1);
                out.splice(to..to, again);
            }
            3 if !out.is_empty() => {
                let (a, b) = (random.below(out.len()), random.below(out.len()));
                out.swap(a, b);
            }
            4 if !others.is_empty() => {
                let from = random.below(others.len());
                let end = from + 1 + random.below((others.len() - from).min(12));
                let until = (at + random.below(4)).min(out.len());
                out.splice(at..until, others[from..end].to_vec());
            }
            5 => out.insert(at, word((*random.pick(PHRASES)).to_owned())),
            6 if at < out.len() => out[at] = word((*random.pick(PHRASES)).to_owned()),
            7 if at < out.len() => out.insert(at + 1, word(format!("::{}", random.pick(TYPES)))),
            8 if at < out.len() && !pool.functions.is_empty() => {
                let call = format!("{}({})", random.pick(&pool.functions), out[at].text);
                out[at] = word(call);
            }
            9 => out.insert(at, word(pool.call(random, 2))),
            _ if at < out.len() => out[at].text = in_place_of(random, pool, &out[at]),
            _ => {}
        }
    }
    written(&out)
}

/// Another token of the same kind.
fn in_place_of(random: &mut Random, pool: &Pool, token: &Token) -> String {
    match token.kind {
        Kind::Number | Kind::Text => pool.value(random),
        Kind::Sign => (*random.pick(SIGNS)).to_owned(),
        Kind::Word | Kind::Name => match random.below(4) {
            0 if !pool.functions.is_empty() => random.pick(&pool.functions).clone(),
            1 => (*random.pick(TYPES)).to_owned(),
            _ if !pool.words.is_empty() => random.pick(&pool.words).clone(),
            _ => pool.value(random),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_of_a_statement() {
        let found = tokens("SELECT 'it''s', \"a b\", E'x', $1, 1.5::int -- no\n>= é");
        let texts: Vec<&str> = found.iter().map(|token| token.text.as_str()).collect();
        let wanted = [
            "SELECT", "'it''s'", ",", "\"a b\"", ",", "E'x'", ",", "$1", ",", "1.5", "::", "int",
            ">=", "é",
        ];
        assert_eq!(texts, wanted);
    }

    #[test]
    fn every_text_has_tokens() {
        for text in ["'", "\"", "$", "'é", "E'", "é'a'", "--", "\u{10FFFF}'"] {
            assert!(tokens(text).len() <= text.len());
        }
    }
}
