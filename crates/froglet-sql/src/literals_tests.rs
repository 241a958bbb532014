//! The scanner against sqlparser's tokenizer, on texts written down and texts at random.

use super::*;
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::tokenizer::{Location, Token, Tokenizer};
use froglet_testkit::mutate::Random;

fn scan(text: &str) -> Option<(String, Vec<Literal>)> {
    let mut scanned = Scanned::default();
    scanned.scan(text)?;
    let key = String::from_utf8(scanned.key).expect("a key is UTF-8");
    Some((key.replace('\u{1}', "?"), scanned.literals))
}

fn key(text: &str) -> Option<String> {
    scan(text).map(|(key, _)| key)
}

#[test]
fn literals_leave_the_key_and_everything_else_stays() {
    let cases = [
        ("SELECT a FROM t WHERE id = 4711", "SELECT a FROM t WHERE id = ?i"),
        ("SET a = a + -3456", "SET a = a + -?i"),
        ("a = 2147483647 OR a=2147483648", "a = ?i OR a=?b"),
        ("a = 9223372036854775807;\n", "a = ?b;\n"),
        ("a = 9223372036854775808", "a = 9223372036854775808"),
        ("a1 = 1 AND t2.b3 = 'x'", "a1 = ?i AND t2.b3 = ?s"),
        ("a = 'it''s' AND b = ''", "a = ?s AND b = ?s"),
        ("a = 'ünï; -- $1 /*'", "a = ?s"),
        ("a = 1.5 AND \"b 5\" = 5", "a = 1.5 AND \"b 5\" = ?i"),
        ("a::int4 = 5-3", "a::int4 = ?i-?i"),
        ("DATE '2020-01-01'", "DATE ?s"),
        ("BEGIN", "BEGIN"),
    ];
    for (text, wanted) in cases {
        assert_eq!(key(text).as_deref(), Some(wanted), "{text}");
    }
}

#[test]
fn what_is_not_certain_has_no_key() {
    let texts = [
        "a = 5 -- five",
        "a = /* five */ 5",
        "a = $1",
        "a = $$5$$",
        "a = E'5'",
        "a = e'5'",
        "a = B'1' ",
        "a = U&'5'",
        "a = N'5'",
        "a = X'5'",
        "a = 'x' 'y'",
        "a = 'x'\n'y'",
        "a = 'x",
        "a = \"x",
        "\"a\"\"b\" = 5",
        "a = 1..2",
        "a = 1.",
        "a = .5",
        "a = 1.5.2",
        "a = 1e3",
        "a = 1.5e3",
        "a = 0x5",
        "a = 1_000",
        "a = 5L",
        "a = 5AND b = 6",
        "ä = 5",
        "a = 5; b = 6",
        "a = :x",
        "a ? 5",
        "a = 5\r\n",
    ];
    for text in texts {
        assert_eq!(key(text), None, "{text}");
    }
    let long_name = "n".repeat(64);
    assert_eq!(key(&format!("{long_name} = 5")), None);
    assert_eq!(key(&format!("\"{long_name}\" = 5")), None);
    assert_eq!(key(&"1,".repeat(65)), None);
}

/// The literals of a text that the scanner has a key for are the numbers and strings of the
/// tokenizer: where it finds them, and with the values it gives them.
fn check(text: &str) -> bool {
    let Some((_, literals)) = scan(text) else { return false };
    let dialect = PostgreSqlDialect {};
    let tokens = match Tokenizer::new(&dialect, text).tokenize_with_location() {
        Ok(tokens) => tokens,
        Err(e) => panic!("a key for what is no SQL: {e}: {text}"),
    };
    let mut lines = vec![0];
    lines.extend(text.match_indices('\n').map(|(at, _)| at + 1));
    let byte = |at: Location| {
        let line = lines[at.line as usize - 1];
        let chars = text[line..].char_indices().map(|(i, _)| line + i);
        chars.chain([text.len()]).nth(at.column as usize - 1).expect("a column of the line")
    };
    let mut found = literals.iter();
    for token in tokens {
        let wanted = match &token.token {
            Token::Number(digits, long) => {
                assert!(!long, "{text}");
                match digits.parse::<i64>() {
                    Ok(number) if !digits.contains('.') => {
                        let int4 = i32::try_from(number).is_ok();
                        (if int4 { Class::Int4 } else { Class::Int8 }, digits.clone())
                    }
                    _ => continue,
                }
            }
            Token::SingleQuotedString(string) => (Class::Text, string.clone()),
            Token::Word(_) | Token::Whitespace(_) => continue,
            other => {
                let strange = matches!(
                    other,
                    Token::Placeholder(_)
                        | Token::DollarQuotedString(_)
                        | Token::EscapedStringLiteral(_)
                        | Token::NationalStringLiteral(_)
                        | Token::HexStringLiteral(_)
                        | Token::UnicodeStringLiteral(_)
                        | Token::SingleQuotedByteStringLiteral(_)
                        | Token::DoubleQuotedString(_)
                );
                assert!(!strange, "a key with {other:?}: {text}");
                continue;
            }
        };
        let literal = found.next().unwrap_or_else(|| panic!("{wanted:?} is missing: {text}"));
        assert_eq!(literal.start, byte(token.span.start), "{text}");
        assert_eq!(literal.end, byte(token.span.end), "{text}");
        let value = match literal.class {
            Class::Text => literal.text(text).into_owned(),
            _ => {
                assert_eq!(Ok(literal.number), wanted.1.parse(), "{text}");
                text[literal.start..literal.end].to_owned()
            }
        };
        assert_eq!((literal.class, value), wanted, "{text}");
    }
    assert_eq!(found.next(), None, "{text}");
    true
}

const PIECES: &[&str] = &[
    "SELECT",
    "a",
    "b2",
    "_c",
    "e",
    "E",
    "n",
    "x",
    "U&",
    "t.",
    ".",
    "..",
    "5",
    "0",
    "42",
    "2147483648",
    "9223372036854775808",
    "1.5",
    "1.5e3",
    "1e",
    "0x1f",
    "1_0",
    "'x'",
    "''",
    "'it''s'",
    "'",
    "''''",
    "'a\nb'",
    "'ü'",
    "ü",
    "\"q\"",
    "\"",
    "\"q\"\"r\"",
    " ",
    " ",
    " ",
    "\n",
    "\t",
    "\r",
    "(",
    ")",
    ",",
    "=",
    "<",
    ">=",
    "<>",
    "!=",
    "+",
    "-",
    "--",
    "*",
    "/",
    "/*",
    "*/",
    "%",
    "::",
    ":",
    "||",
    "|",
    "[",
    "]",
    ";",
    "$1",
    "$$",
    "$t$",
    "?",
    "@",
    "#",
    "~",
    "^",
    "&",
    "\\",
    "DATE",
    "AND",
    "\u{1}",
    "\0",
];

#[test]
fn the_scanner_finds_what_the_tokenizer_finds() {
    let mut random = Random(froglet_testkit::seed());
    let rounds = if froglet_testkit::is_long() { 2_000_000 } else { 60_000 };
    let mut with_key = 0;
    for _ in 0..rounds {
        let length = 1 + random.below(9);
        let text: String = (0..length).map(|_| PIECES[random.below(PIECES.len())]).collect();
        with_key += usize::from(check(&text));
    }
    assert!(with_key > rounds / 50 && with_key < rounds, "{with_key} of {rounds} have a key");
}
