//! Options of tables and columns: `WITH (…)`, `SET (…)`, `RESET (…)`.
//!
//! ```text
//!   ALTER TABLE t ALTER COLUMN c SET (a = on)   ─┐                  ┌─ SET TBLPROPERTIES (c = (a = on))
//!   ALTER TABLE t ALTER COLUMN c RESET (a)       ├─ tokens, before ─┼─ SET TBLPROPERTIES (c = (a = DEFAULT))
//!   ALTER TABLE t RESET (a)                     ─┘    the parser    └─ SET (a = DEFAULT)
//! ```
//!
//! sqlparser knows `SET (…)` of tables only. So the other forms are put into words that it knows, of which
//! PostgreSQL has no use, and which nobody can therefore have meant.
//!
//! One option means something here: `dictionary`, whether equal strings of a frozen block are kept once.
//! PostgreSQL's own are accepted, for pgbench and dumps send them all the same.

use datafusion::sql::sqlparser::ast::{BinaryOperator, CreateTableOptions, Expr, Ident, SqlOption};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Word};
use froglet_engine::{Dictionary, SqlState};
use froglet_schema::plain::CheckOption;

use crate::command::fold;
use crate::error::SqlError;
use crate::syntax::access_method;

/// Options of tables; those of PostgreSQL have no effect. `migration` is CREATE TABLE AS's: of an empty table
/// there is nothing to migrate.
const OF_TABLES: [&str; 6] = [
    "dictionary",
    "migration",
    "fillfactor",
    "toast_tuple_target",
    "parallel_workers",
    "user_catalog_table",
];
/// More of them, by their beginnings.
const FAMILIES: [&str; 4] = ["autovacuum_", "toast.", "log_autovacuum", "vacuum_"];
/// Options of columns; those of PostgreSQL have no effect.
const OF_COLUMNS: [&str; 3] = ["dictionary", "n_distinct", "n_distinct_inherited"];

/// What `dictionary` is set to; `Some(None)`: to nothing, as RESET does.
pub(crate) type Chosen = Option<Option<Dictionary>>;

/// The options of a new table.
#[derive(Debug, Default)]
pub(crate) struct OfNew {
    /// `dictionary`
    pub dictionary: Option<Dictionary>,
    /// The word after USING, if there was one.
    pub method: Option<String>,
}

/// The options of a new table.
pub(crate) fn of_new_table(options: &CreateTableOptions) -> Result<OfNew, SqlError> {
    match options {
        CreateTableOptions::None => Ok(OfNew::default()),
        CreateTableOptions::With(options) => {
            let (options, method) = access_method::taken(options);
            Ok(OfNew { dictionary: of_table(&options)?.flatten(), method })
        }
        _ => Err(SqlError::unsupported("this table option")),
    }
}

/// The options of a table.
pub(crate) fn of_table(options: &[SqlOption]) -> Result<Chosen, SqlError> {
    let mut chosen = None;
    for option in options {
        let SqlOption::KeyValue { key, value } = option else {
            return Err(unrecognized(&option.to_string().to_lowercase()));
        };
        let name = key.value.to_lowercase();
        let is_known = OF_TABLES.contains(&&*name);
        if !is_known && !FAMILIES.iter().any(|family| name.starts_with(family)) {
            return Err(unrecognized(&name));
        }
        choose(&mut chosen, &name, value)?;
    }
    Ok(chosen)
}

/// The options of a view: what it checks of rows that are written through it. Nothing is done for `security_barrier`, as no
/// function of a user's could tell what it is given.
pub(crate) fn of_view(options: &[SqlOption]) -> Result<Option<CheckOption>, SqlError> {
    let mut checked = None;
    for option in options {
        let SqlOption::KeyValue { key, value } = option else {
            return Err(unrecognized(&option.to_string().to_lowercase()));
        };
        let value = value.to_string().trim_matches('\'').to_lowercase();
        match (&*key.value.to_lowercase(), &*value) {
            ("security_barrier", _) => {}
            ("check_option", "local") => checked = Some(CheckOption::Local),
            ("check_option", "cascaded") => checked = Some(CheckOption::Cascaded),
            ("check_option", value) => {
                let message = format!("invalid value for enum option \"check_option\": {value}");
                return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
                    .detail("Valid values are \"local\" and \"cascaded\"."));
            }
            (name, _) => return Err(unrecognized(name)),
        }
    }
    Ok(checked)
}

/// Columns with their options, as `with_known_options` has left them.
pub(crate) fn of_columns(options: &[SqlOption]) -> Result<Vec<(&Ident, Chosen)>, SqlError> {
    options.iter().map(of_column).collect()
}

fn of_column(option: &SqlOption) -> Result<(&Ident, Chosen), SqlError> {
    let broken =
        || SqlError::new(SqlState::SYNTAX_ERROR, "syntax error in the options of a column");
    let SqlOption::KeyValue { key, value } = option else { return Err(broken()) };
    let given = match value {
        Expr::Nested(one) => std::slice::from_ref(&**one),
        Expr::Tuple(several) => several,
        _ => return Err(broken()),
    };
    let mut chosen = None;
    for option in given {
        let Expr::BinaryOp { left, op: BinaryOperator::Eq, right } = option else {
            return Err(broken());
        };
        let Expr::Identifier(name) = &**left else { return Err(broken()) };
        let name = fold(name);
        if !OF_COLUMNS.contains(&&*name) {
            return Err(unrecognized(&name));
        }
        choose(&mut chosen, &name, right)?;
    }
    Ok((key, chosen))
}

fn choose(chosen: &mut Chosen, name: &str, value: &Expr) -> Result<(), SqlError> {
    if name != "dictionary" {
        return Ok(());
    }
    let text = value.to_string();
    let text = text.trim_matches('\'').to_lowercase();
    if chosen.is_some() {
        let message = "parameter \"dictionary\" specified more than once";
        return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
    }
    *chosen = Some(match &*text {
        "default" => None,
        "true" => Some(Dictionary::On),
        "false" => Some(Dictionary::Off),
        text => Some(Dictionary::parse(text).ok_or_else(|| {
            let message = format!("invalid value for enum option \"dictionary\": {text}");
            SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
                .detail("Valid values are \"on\", \"off\", and \"auto\".")
        })?),
    });
    Ok(())
}

fn unrecognized(name: &str) -> SqlError {
    let message = format!("unrecognized parameter \"{name}\"");
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

/// The tokens of a statement with every form of options as sqlparser can read it.
pub(crate) fn with_known_options(tokens: &mut Vec<TokenWithSpan>) {
    let Some(alter) = tokens.windows(2).position(|pair| {
        is_keyword(&pair[0], Keyword::ALTER) && is_keyword(&pair[1], Keyword::TABLE)
    }) else {
        return;
    };
    let mut depth = 0_usize;
    let mut at = alter + 2;
    while at < tokens.len() {
        match tokens[at].token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            // Said by a user it is an error like any other word.
            Token::Word(ref mut word) if word.keyword == Keyword::TBLPROPERTIES => {
                word.keyword = Keyword::NoKeyword;
            }
            _ if depth == 0 => at = with_known_option(tokens, at),
            _ => {}
        }
        at += 1;
    }
}

/// An action that begins here, if it is one about options; returns its last token.
fn with_known_option(tokens: &mut Vec<TokenWithSpan>, at: usize) -> usize {
    let is = |at: usize, keyword| tokens.get(at).is_some_and(|token| is_keyword(token, keyword));
    let is_options = |at: usize| {
        let parenthesis = tokens.get(at + 1).is_some_and(|token| token.token == Token::LParen);
        parenthesis && (is(at, Keyword::SET) || is(at, Keyword::RESET))
    };
    let of_column = is(at, Keyword::ALTER).then(|| match is_options(at + 2) {
        true => at + 1,
        false => at + 2,
    });
    let verb = match of_column {
        Some(column) if is_options(column + 1) => column + 1,
        None if is_options(at) => at,
        _ => return at,
    };
    let Some(end) = tokens[verb..].iter().position(|token| token.token == Token::RParen) else {
        return at;
    };
    let end = verb + end;
    let resets = is(verb, Keyword::RESET);
    if resets && tokens[verb..end].iter().any(|token| token.token == Token::Eq) {
        return at;
    }
    let span = tokens[verb].span;
    let put = |token: Token| TokenWithSpan { token, span };
    let mut options = Vec::new();
    for token in &tokens[verb + 2..end] {
        if resets && token.token == Token::Comma {
            options.extend([Token::Eq, keyword(Keyword::DEFAULT)].map(put));
        }
        options.push(token.clone());
    }
    if resets && !options.is_empty() {
        options.extend([Token::Eq, keyword(Keyword::DEFAULT)].map(put));
    }
    let mut known = vec![put(keyword(Keyword::SET))];
    match of_column {
        Some(column) => {
            let open = [keyword(Keyword::TBLPROPERTIES), Token::LParen].map(put);
            known.extend(open);
            known.push(tokens[column].clone());
            known.extend([Token::Eq, Token::LParen].map(put));
            known.extend(options);
            known.extend([Token::RParen, Token::RParen].map(put));
        }
        None => {
            known.push(put(Token::LParen));
            known.extend(options);
            known.push(put(Token::RParen));
        }
    }
    let last = at + known.len() - 1;
    tokens.splice(at..=end, known);
    last
}

pub(crate) fn is_keyword(token: &TokenWithSpan, keyword: Keyword) -> bool {
    matches!(&token.token, Token::Word(word) if word.quote_style.is_none() && word.keyword == keyword)
}

fn keyword(keyword: Keyword) -> Token {
    Token::Word(Word { value: format!("{keyword:?}"), quote_style: None, keyword })
}
