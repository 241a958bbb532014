//! Types written in words that sqlparser does not know, put into its own before it parses.
//!
//! | written | becomes |
//! |---|---|
//! | `text ARRAY`, `varchar(5) ARRAY[3]` | `text[]`, `varchar(5)[]` |
//! | `N'…'` | `'…'::bpchar` |

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Word};

use crate::catalogs::keywords;

/// Keywords that are, or end, a type's name.
const TYPES: [&str; 30] = [
    "bigint",
    "bit",
    "boolean",
    "char",
    "character",
    "date",
    "day",
    "dec",
    "decimal",
    "float",
    "hour",
    "int",
    "integer",
    "interval",
    "json",
    "jsonb",
    "minute",
    "month",
    "name",
    "numeric",
    "precision",
    "real",
    "second",
    "smallint",
    "text",
    "time",
    "timestamp",
    "varchar",
    "varying",
    "zone",
];

/// `text ARRAY` as `text[]`.
pub(crate) fn arrays(tokens: &mut Vec<TokenWithSpan>) {
    let mut at = 1;
    while at < tokens.len() {
        let is_array = matches!(&tokens[at].token, Token::Word(w)
            if w.quote_style.is_none() && w.value.eq_ignore_ascii_case("array"));
        if !is_array || !ends_type(tokens, at - 1) {
            at += 1;
            continue;
        }
        let length = match tokens.get(at + 1..at + 4) {
            Some([open, number, close])
                if open.token == Token::LBracket
                    && matches!(number.token, Token::Number(..))
                    && close.token == Token::RBracket =>
            {
                4
            }
            _ => 1,
        };
        // What is a list of elements follows no type.
        if length == 1 && tokens.get(at + 1).is_some_and(|t| t.token == Token::LBracket) {
            at += 1;
            continue;
        }
        let span = tokens[at].span;
        let bracket = |token| TokenWithSpan { token, span };
        tokens.splice(at..at + length, [bracket(Token::LBracket), bracket(Token::RBracket)]);
        at += 2;
    }
}

/// Whether a type's name may end here: at a name that is no keyword, at a keyword that is a type, or behind
/// `varchar(5)`.
fn ends_type(tokens: &[TokenWithSpan], at: usize) -> bool {
    match &tokens[at].token {
        Token::Word(word) => is_type_word(word),
        Token::RParen => {
            let open = tokens[..at].iter().rposition(|t| t.token == Token::LParen);
            let of_numbers = |open: usize| {
                tokens[open + 1..at]
                    .iter()
                    .all(|t| matches!(t.token, Token::Number(..) | Token::Comma))
            };
            open.is_some_and(|open| open > 0 && of_numbers(open) && ends_type(tokens, open - 1))
        }
        _ => false,
    }
}

fn is_type_word(word: &Word) -> bool {
    if word.quote_style.is_some() {
        return true;
    }
    let name = word.value.to_ascii_lowercase();
    TYPES.contains(&&*name) || !keywords::is_keyword(&name)
}

/// `N'…'` as a `bpchar`, which is what PostgreSQL makes of it.
pub(crate) fn national_strings(tokens: &mut Vec<TokenWithSpan>) {
    let mut at = 0;
    while at < tokens.len() {
        if let Token::NationalStringLiteral(text) = &tokens[at].token {
            let text = Token::SingleQuotedString(text.clone());
            let name =
                Word { value: "bpchar".to_owned(), quote_style: None, keyword: Keyword::NoKeyword };
            let span = tokens[at].span;
            let made = [text, Token::DoubleColon, Token::Word(name)];
            tokens.splice(at..=at, made.map(|token| TokenWithSpan { token, span }));
        }
        at += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::Postgres;
    use datafusion::sql::sqlparser::tokenizer::Tokenizer;

    fn read(sql: &str) -> String {
        let all = Tokenizer::new(&Postgres, sql).tokenize_with_location().unwrap();
        let mut tokens: Vec<_> =
            all.into_iter().filter(|t| !matches!(t.token, Token::Whitespace(_))).collect();
        arrays(&mut tokens);
        national_strings(&mut tokens);
        crate::token_forms::text_of(&tokens)
    }

    #[test]
    fn array_behind_a_type_is_brackets() {
        for (written, becomes) in [
            ("(a text ARRAY NOT NULL)", "(a text[] NOT NULL)"),
            ("(a varchar(5) array[3], b)", "(a varchar(5)[], b)"),
            ("x::\"Mood\" array", "x::\"Mood\"[]"),
            ("timestamp with time zone array", "timestamp with time zone[]"),
            ("select array[1], x = any (array[2])", "select array[1], x = any (array[2])"),
            ("order by array[a, b]", "order by array[a, b]"),
            ("between array[1] and array[2]", "between array[1] and array[2]"),
            ("select array(select 1)", "select array(select 1)"),
            ("values (array[1])", "values (array[1])"),
        ] {
            let squeeze = |text: &str| text.replace(' ', "").to_lowercase();
            assert_eq!(squeeze(&read(written)), squeeze(becomes), "{written}");
        }
    }
}
