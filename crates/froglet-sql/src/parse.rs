//! From text to statements.
//!
//! ```text
//!   text ─ tokenizer ─▶ tokens ─ split at ; ─▶ one statement's tokens ─┬─▶ command.rs  SET, BEGIN, VACUUM, …
//!                                  │                                   └─▶ sqlparser   everything else
//!                                  └ guard: how deep would its tree be?
//! ```
//!
//! The whole text is parsed before anything runs, as in PostgreSQL. A tree that is too deep is
//! refused (54001) on the tokens, before anything recursive has been built: building, walking and
//! dropping a tree all recurse, so the limit stands in front of every one of them.

use std::sync::Arc;

use datafusion::sql::sqlparser::ast::Statement;
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{Location, Token, TokenWithSpan, Tokenizer};
use froglet_engine::SqlState;

use crate::command::{self, Command};
use crate::cursor_parse::Direction;
use crate::dialect::Postgres;
use crate::error::{Notice, SqlError};
use crate::insert_plan;
use crate::unsupported_forms;

/// The longest text of one message.
pub const MAX_TEXT_BYTES: usize = 64 << 20;
/// The longest name.
const MAX_NAME_BYTES: usize = 63;
/// Parentheses within parentheses.
const MAX_DEPTH: usize = 200;
/// Operators in one expression, or set operations and joins in one statement.
const MAX_CHAIN: usize = 1000;
/// sqlparser's own counter; the guard above is the limit that users meet.
const RECURSION_LIMIT: usize = 512;
/// A statement nested more deeply than this is parsed on a stack of its own.
const SHALLOW: usize = 12;
const BIG_STACK_BYTES: usize = 64 << 20;

/// One statement of a message.
#[derive(Clone, Debug)]
pub struct ParsedStatement {
    /// What it says.
    pub command: Arc<Command>,
    /// Its own text.
    pub sql: Arc<str>,
    /// The text of the whole message, to which error positions refer.
    pub source: Arc<str>,
    /// Where in `source` it begins, in bytes.
    pub offset: usize,
}

impl ParsedStatement {
    /// Nothing.
    pub fn empty() -> ParsedStatement {
        let empty: Arc<str> = Arc::from("");
        ParsedStatement {
            command: Arc::new(Command::Empty),
            sql: empty.clone(),
            source: empty,
            offset: 0,
        }
    }

    /// The cursor that it moves onwards, and over how many rows. It may be a portal of the protocol.
    pub fn moves_forward(&self) -> Option<(&str, u64)> {
        let Command::Fetch { name, direction, moves: true } = &*self.command else { return None };
        let count = match direction {
            Direction::Forward(count) => u64::try_from(*count).ok()?,
            Direction::ForwardAll => u64::MAX,
            _ => return None,
        };
        Some((name, count))
    }
}

/// Parses a text into its statements; none, if it is empty. Names that are too long are cut, with
/// a notice each.
pub fn split(text: &str, notices: &mut Vec<Notice>) -> Result<Vec<ParsedStatement>, SqlError> {
    if text.len() > MAX_TEXT_BYTES {
        return Err(SqlError::new(
            SqlState::PROGRAM_LIMIT_EXCEEDED,
            format!(
                "statement of {} bytes is longer than the {MAX_TEXT_BYTES} allowed",
                text.len()
            ),
        ));
    }
    if let Some(at) = text.find('\0') {
        return Err(SqlError::new(
            SqlState::CHARACTER_NOT_IN_REPERTOIRE,
            format!("invalid byte 0x00 at byte {at} of the statement"),
        ));
    }
    let source: Arc<str> = Arc::from(text);
    let mut groups = tokenize(text)?;
    groups.iter_mut().flatten().for_each(|token| cut_name(token, notices));
    let offsets = match groups.as_slice() {
        [] => return Ok(Vec::new()),
        [_] => vec![(0, text.len())],
        groups => byte_ranges(text, groups),
    };
    let mut statements = Vec::with_capacity(groups.len());
    for (tokens, (start, end)) in groups.into_iter().zip(offsets) {
        let sql = if (start, end) == (0, text.len()) {
            source.clone()
        } else {
            Arc::from(text[start..end].trim())
        };
        let command = parse_guarded(tokens).map_err(|e| e.into_sql(text))?;
        statements.push(ParsedStatement {
            command: Arc::new(command),
            sql,
            source: source.clone(),
            offset: start,
        });
    }
    Ok(statements)
}

/// Parses an expression that the catalog holds (a default, a check).
pub fn parse_expression(text: &str) -> Result<datafusion::sql::sqlparser::ast::Expr, SqlError> {
    let run = || {
        let mut parser =
            Parser::new(&Postgres).with_recursion_limit(RECURSION_LIMIT).try_with_sql(text)?;
        let expr = parser.parse_expr()?;
        match parser.peek_token_ref().token {
            Token::EOF => Ok(expr),
            _ => parser.expected("end of expression", parser.peek_token()),
        }
    };
    stacker::maybe_grow(1 << 20, BIG_STACK_BYTES, run)
        .map_err(|e| Failure { error: e, tokens: Vec::new() }.into_sql(text))
}

/// Parses a query that the catalog holds.
pub(crate) fn parse_query(text: &str) -> Result<datafusion::sql::sqlparser::ast::Query, SqlError> {
    let run = || {
        let mut parser =
            Parser::new(&Postgres).with_recursion_limit(RECURSION_LIMIT).try_with_sql(text)?;
        let query = parser.parse_query()?;
        match parser.peek_token_ref().token {
            Token::EOF => Ok(*query),
            _ => parser.expected("end of query", parser.peek_token()),
        }
    };
    stacker::maybe_grow(1 << 20, BIG_STACK_BYTES, run)
        .map_err(|e| Failure { error: e, tokens: Vec::new() }.into_sql(text))
}

/// The tokens of one statement, or of a part of one.
pub(crate) fn tokens_of(text: &str) -> Result<Vec<TokenWithSpan>, SqlError> {
    Ok(tokenize(text)?.into_iter().next().unwrap_or_default())
}

fn tokenize(text: &str) -> Result<Vec<Vec<TokenWithSpan>>, SqlError> {
    let dialect = PostgreSqlDialect {};
    let text = &*crate::unicode_forms::plain(text)?;
    let tokens = Tokenizer::new(&dialect, text).tokenize_with_location().map_err(|e| {
        let message = match e.message.as_str() {
            m if m.contains("Unterminated") => lower_first(m),
            m => format!("syntax error: {}", lower_first(m)),
        };
        SqlError::new(SqlState::SYNTAX_ERROR, message).at(char_position(text, e.location))
    })?;
    refuse_junk(text, &tokens)?;
    let mut groups = Vec::new();
    let mut group: Vec<TokenWithSpan> = Vec::new();
    for mut token in tokens {
        keep_letters(&mut token);
        match token.token {
            Token::Whitespace(_) => {}
            Token::EOF => break,
            Token::SemiColon => {
                if !group.is_empty() {
                    groups.push(std::mem::take(&mut group));
                }
            }
            _ => group.push(token),
        }
    }
    if !group.is_empty() {
        groups.push(group);
    }
    Ok(groups)
}

/// What follows a number without a blank is no alias and no keyword; numbers are decimal and have no underscores.
fn refuse_junk(text: &str, tokens: &[TokenWithSpan]) -> Result<(), SqlError> {
    for (at, token) in tokens.iter().enumerate() {
        let next = tokens.get(at + 1).filter(|next| next.span.start == token.span.end);
        let is_junk = match (&token.token, next.map(|next| &next.token)) {
            (Token::Number(_, true), _) => true,
            (Token::Number(digits, false), _) if digits.contains('_') => true,
            (Token::Number(..), Some(Token::Word(word))) => word.quote_style.is_none(),
            // Of `X'10'` and `0x10` the tokens are the same, but for a quote more.
            (Token::HexStringLiteral(digits), _) => {
                let columns = token.span.end.column - token.span.start.column;
                columns == digits.chars().count() as u64 + 2
            }
            _ => false,
        };
        if is_junk {
            let position = char_position(text, token.span.start);
            let begins = text.char_indices().nth(position as usize - 1);
            let begins = begins.map_or("", |(at, _)| &text[at..]);
            let is_part = |c: char| c.is_alphanumeric() || "._$".contains(c);
            let ends = begins.find(|c| !is_part(c)).unwrap_or(begins.len());
            let message =
                format!("trailing junk after numeric literal at or near \"{}\"", &begins[..ends]);
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message).at(position));
        }
    }
    Ok(())
}

/// Puts a name with letters beyond ASCII in quotes, its others in lower case: PostgreSQL folds no more of it, the
/// planner would.
fn keep_letters(token: &mut TokenWithSpan) {
    if let Token::Word(word) = &token.token
        && word.quote_style.is_none()
        && !word.value.is_ascii()
    {
        token.token = Token::make_word(&word.value.to_ascii_lowercase(), Some('"'));
    }
}

/// Cuts a name to the length that names may have, at a character.
fn cut_name(token: &mut TokenWithSpan, notices: &mut Vec<Notice>) {
    let Token::Word(word) = &mut token.token else { return };
    if word.value.len() <= MAX_NAME_BYTES {
        return;
    }
    let name = match word.quote_style {
        Some(_) => word.value.clone(),
        None => word.value.to_ascii_lowercase(),
    };
    let cut = &name[..name.floor_char_boundary(MAX_NAME_BYTES)];
    notices.push(Notice::new(
        "NOTICE",
        SqlState::NAME_TOO_LONG,
        format!("identifier \"{name}\" will be truncated to \"{cut}\""),
    ));
    word.value = cut.to_owned();
}

/// The byte range of each group, found in one pass: locations ascend.
fn byte_ranges(text: &str, groups: &[Vec<TokenWithSpan>]) -> Vec<(usize, usize)> {
    let mut chars = text.char_indices().peekable();
    let (mut line, mut column) = (1, 1);
    let mut byte = |at: Location| {
        while let Some((byte, c)) = chars.peek().copied() {
            if (line, column) >= (at.line, at.column) {
                return byte;
            }
            chars.next();
            (line, column) = if c == '\n' { (line + 1, 1) } else { (line, column + 1) };
        }
        text.len()
    };
    groups
        .iter()
        .map(|group| {
            let first = group.first().expect("groups are not empty").span.start;
            let last = group.last().expect("groups are not empty").span.end;
            (byte(first), byte(last))
        })
        .collect()
}

/// Why a statement did not parse, with what is needed to say where.
pub(crate) struct Failure {
    pub(crate) error: ParserError,
    pub(crate) tokens: Vec<TokenWithSpan>,
}

fn parse_guarded(tokens: Vec<TokenWithSpan>) -> Result<Command, Failure> {
    let shape = Shape::of(&tokens);
    if shape.depth > MAX_DEPTH || shape.chain > MAX_CHAIN || shape.sets > MAX_CHAIN {
        return Err(Failure { error: ParserError::RecursionLimitExceeded, tokens: Vec::new() });
    }
    if shape.depth > SHALLOW || shape.chain > 100 || shape.sets > 100 {
        stacker::maybe_grow(BIG_STACK_BYTES / 2, BIG_STACK_BYTES, || parse_one(tokens))
    } else {
        stacker::maybe_grow(512 << 10, 8 << 20, || parse_one(tokens))
    }
}

fn parse_one(mut tokens: Vec<TokenWithSpan>) -> Result<Command, Failure> {
    crate::syntax::table_queries::expand(&mut tokens);
    crate::syntax::type_words::arrays(&mut tokens);
    crate::syntax::type_words::national_strings(&mut tokens);
    crate::token_forms::operators(&mut tokens);
    crate::token_forms::column_hints(&mut tokens);
    crate::token_forms::trims(&mut tokens);
    crate::token_forms::only(&mut tokens);
    crate::token_forms::rows_from(&mut tokens);
    crate::token_forms::whole_rows(&mut tokens);
    crate::token_forms::tablespaces(&mut tokens);
    crate::token_forms::conflict_targets(&mut tokens);
    crate::table_like::as_columns(&mut tokens);
    tokens = with_known_locks(tokens);
    crate::token_forms::locks(&mut tokens);
    crate::token_forms::windows_before_locks(&mut tokens);
    crate::lock_parts::mark_keys(&mut tokens);
    crate::sequence_ddl::order_identity_options(&mut tokens);
    crate::storage_options::with_known_options(&mut tokens);
    crate::syntax::access_method::as_option(&mut tokens);
    crate::syntax::access_method::as_new_option(&mut tokens);
    order_by_operators(&mut tokens);
    without_unlogged(&mut tokens);
    values_in_parentheses(&mut tokens);
    top_is_a_name(&mut tokens);
    counts_in_parentheses(&mut tokens);
    if let Some(by) = by_name(&tokens) {
        return Err(Failure { error: unexpected(by), tokens });
    }
    let overriding = overriding(&mut tokens);
    let locks_within = crate::token_forms::locks_within(&tokens);
    let command = parse_forms(tokens, overriding)?;
    // Others would leave the locks out.
    let knows = matches!(
        command,
        Command::With(_)
            | Command::Explain { .. }
            | Command::Prepare { .. }
            | Command::Unsupported(_)
    );
    if locks_within && !knows {
        let what =
            "locking rows (FOR UPDATE, FOR SHARE) by a subquery of this statement".to_owned();
        return Ok(Command::Unsupported(what));
    }
    Ok(command)
}

/// Where the parenthesis that opens at a token closes.
fn closing(tokens: &[TokenWithSpan], open: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        match token.token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.checked_sub(1)?,
            _ => {}
        }
        if depth == 0 {
            return Some(at);
        }
    }
    None
}

/// `INSERT INTO t (VALUES …)` without the parentheses, in which sqlparser looks for columns.
fn values_in_parentheses(tokens: &mut Vec<TokenWithSpan>) {
    if !tokens.first().is_some_and(|first| is_word(first, "insert")) {
        return;
    }
    // Others are tables of the query that is inserted.
    let begins = |token: &TokenWithSpan| {
        ["values", "select", "with", "table"].iter().any(|word| is_word(token, word))
    };
    let Some(first) = tokens.iter().position(begins) else { return };
    let open = first - 1;
    if is_word(&tokens[first], "values")
        && tokens[open].token == Token::LParen
        && let Some(close) = closing(tokens, open)
    {
        tokens.remove(close);
        tokens.remove(open);
    }
}

/// In quotes, or sqlparser takes it for another dialect's LIMIT.
fn top_is_a_name(tokens: &mut [TokenWithSpan]) {
    for at in 1..tokens.len() {
        let begins = || ["select", "distinct", "all"].iter().any(|w| is_word(&tokens[at - 1], w));
        if is_word(&tokens[at], "top") && begins() {
            tokens[at].token = Token::make_word("top", Some('"'));
        }
    }
}

/// `FETCH FIRST (…) ROWS ONLY` as `LIMIT (…)`: sqlparser knows a number there.
fn counts_in_parentheses(tokens: &mut Vec<TokenWithSpan>) {
    let mut from = 0;
    while let Some(at) = tokens[from..].windows(3).position(|three| {
        is_word(&three[0], "fetch")
            && (is_word(&three[1], "first") || is_word(&three[1], "next"))
            && three[2].token == Token::LParen
    }) {
        from += at + 1;
        let Some(close) = closing(tokens, from + 1) else { return };
        let only = tokens.get(close + 1..close + 3).is_some_and(|two| {
            (is_word(&two[0], "rows") || is_word(&two[0], "row")) && is_word(&two[1], "only")
        });
        if only {
            tokens.drain(close + 1..close + 3);
            tokens[from - 1].token = Token::make_keyword("LIMIT");
            tokens.remove(from);
        }
    }
}

/// The BY of UNION … BY NAME, which sqlparser knows from elsewhere.
fn by_name(tokens: &[TokenWithSpan]) -> Option<&TokenWithSpan> {
    let sets = ["union", "except", "intersect", "all", "distinct"];
    let three = tokens.windows(3).find(|three| {
        sets.iter().any(|set| is_word(&three[0], set))
            && is_word(&three[1], "by")
            && is_word(&three[2], "name")
    });
    three.map(|three| &three[1])
}

fn unexpected(token: &TokenWithSpan) -> ParserError {
    let Location { line, column } = token.span.start;
    ParserError::ParserError(format!(
        "Expected: a query, found: {} at Line: {line}, Column: {column}",
        token.token
    ))
}

fn parse_forms(
    tokens: Vec<TokenWithSpan>,
    overriding: Option<&'static str>,
) -> Result<Command, Failure> {
    let parsed = command::parse(&tokens)
        .or_else(|| crate::merge_parse::parse(&tokens))
        .unwrap_or_else(|| parse_statement(&tokens, overriding));
    parsed.or_else(|error| {
        let stopped = split_location(&error.to_string()).1;
        match unsupported_forms::named(&tokens, stopped) {
            Some(what) => Ok(Command::Unsupported(what)),
            None => Err(Failure { error, tokens }),
        }
    })
}

/// What sqlparser makes a statement of.
fn parse_statement(
    tokens: &[TokenWithSpan],
    overriding: Option<&'static str>,
) -> Result<Command, ParserError> {
    let mut statement = parse_sql(without_table(tokens.to_vec()))?;
    // What follows EXPLAIN is a statement, not a table.
    if let Statement::ExplainTable { .. } = statement {
        let at = tokens.last().map_or(Location::new(1, 1), |token| token.span.start);
        let text = format!("Expected: a statement at Line: {}, Column: {}", at.line, at.column);
        return Err(ParserError::ParserError(text));
    }
    if let (Statement::Insert(insert), Some(value)) = (&mut statement, overriding) {
        insert_plan::override_with(insert, value);
    }
    Ok(Command::from_statement(statement))
}

fn is_word(token: &TokenWithSpan, text: &str) -> bool {
    matches!(&token.token, Token::Word(w)
        if w.quote_style.is_none() && w.value.eq_ignore_ascii_case(text))
}

/// CREATE UNLOGGED TABLE makes an ordinary table: it keeps more than it has to.
fn without_unlogged(tokens: &mut Vec<TokenWithSpan>) {
    if let [create, unlogged, table, ..] = &tokens[..]
        && is_word(create, "create")
        && is_word(unlogged, "unlogged")
        && is_word(table, "table")
    {
        tokens.remove(1);
    }
}

/// Takes OVERRIDING SYSTEM VALUE or USER VALUE out of an INSERT; sqlparser does not know it.
fn overriding(tokens: &mut Vec<TokenWithSpan>) -> Option<&'static str> {
    tokens.first().filter(|first| is_word(first, "insert"))?;
    let at = tokens
        .windows(3)
        .position(|three| is_word(&three[0], "overriding") && is_word(&three[2], "value"))?;
    let value = ["system", "user"].into_iter().find(|value| is_word(&tokens[at + 1], value))?;
    tokens.drain(at..at + 3);
    Some(value)
}

/// `ORDER BY x USING <` is ORDER BY x ASC.
fn order_by_operators(tokens: &mut Vec<TokenWithSpan>) {
    let mut at = 1;
    while at < tokens.len() {
        let direction = match &tokens[at].token {
            Token::Lt => Some("ASC"),
            Token::Gt => Some("DESC"),
            _ => None,
        };
        let before = matches!(&tokens[at - 1].token, Token::Word(w)
            if w.quote_style.is_none() && w.keyword == Keyword::USING);
        if let (Some(direction), true) = (direction, before) {
            tokens[at].token = Token::make_keyword(direction);
            tokens.remove(at - 1);
        }
        at += 1;
    }
}

/// TABLE t is SELECT * FROM t.
fn without_table(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let Some(first) = tokens.first() else { return tokens };
    let is_table = matches!(&first.token, Token::Word(w)
        if w.quote_style.is_none() && w.keyword == Keyword::TABLE);
    if is_table {
        let span = first.span;
        let words = [Token::make_keyword("SELECT"), Token::Mul, Token::make_keyword("FROM")];
        tokens.splice(..1, words.map(|token| TokenWithSpan { token, span }));
    }
    tokens
}

/// FOR NO KEY UPDATE and FOR KEY SHARE, which sqlparser does not know, as the next stronger lock, whose word is
/// marked: [`crate::lock_parts::mark_keys`] says so in a place that sqlparser knows.
fn with_known_locks(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let word = |token: &TokenWithSpan, text: &str| {
        matches!(&token.token, Token::Word(w)
            if w.quote_style.is_none() && w.value.eq_ignore_ascii_case(text))
    };
    let mut at = 0;
    while let [first, rest @ ..] = &tokens[at..] {
        at += 1;
        if !word(first, "for") {
            continue;
        }
        let extra = match rest {
            [a, b, c, ..] if word(a, "no") && word(b, "key") && word(c, "update") => 2,
            [a, b, ..] if word(a, "key") && word(b, "share") => 1,
            _ => 0,
        };
        tokens.drain(at..at + extra);
        if extra > 0
            && let Token::Word(strength) = &mut tokens[at].token
        {
            strength.value = crate::lock_parts::OF_KEY.to_owned();
        }
    }
    tokens
}

pub(crate) fn parse_sql(
    tokens: Vec<TokenWithSpan>,
) -> Result<datafusion::sql::sqlparser::ast::Statement, ParserError> {
    let mut parser = Parser::new(&Postgres)
        .with_recursion_limit(RECURSION_LIMIT)
        .with_tokens_with_locations(tokens);
    let statement = parser.parse_statement()?;
    match parser.peek_token_ref().token {
        Token::EOF => Ok(statement),
        _ => parser.expected("end of statement", parser.peek_token()),
    }
}

impl Failure {
    /// As PostgreSQL words it; what the parser would have liked instead is the detail.
    fn into_sql(self, text: &str) -> SqlError {
        let message = match self.error {
            ParserError::RecursionLimitExceeded => {
                return SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, "stack depth limit exceeded")
                    .detail(format!(
                        "At most {MAX_DEPTH} nested parentheses and {MAX_CHAIN} operators in one expression are supported."
                    ))
                    .hint("Split the expression, or use IN (…) or a join instead of many ORs.");
            }
            ParserError::TokenizerError(m) | ParserError::ParserError(m) => m,
        };
        let (what, location) = split_location(&message);
        let Some(location) = location else {
            let tail_missing = what.contains("found: EOF");
            let message = if tail_missing {
                "syntax error at end of input".to_owned()
            } else {
                format!("syntax error: {}", lower_first(what))
            };
            let error = SqlError::new(SqlState::SYNTAX_ERROR, message);
            return if tail_missing {
                error.detail(detail(what)).at(text.trim_end().chars().count() as u32 + 1)
            } else {
                error
            };
        };
        let token = self.tokens.iter().find(|t| t.span.start == location);
        let near = match token {
            Some(t) => token_text(text, t),
            None => String::new(),
        };
        SqlError::new(SqlState::SYNTAX_ERROR, format!("syntax error at or near \"{near}\""))
            .detail(detail(what))
            .at(char_position(text, location))
    }
}

fn detail(what: &str) -> String {
    format!("{}.", what.trim_end_matches('.'))
}

/// The token as the user wrote it.
fn token_text(text: &str, token: &TokenWithSpan) -> String {
    let start = char_position(text, token.span.start) as usize - 1;
    let end = char_position(text, token.span.end) as usize - 1;
    let written: String = text.chars().skip(start).take(end.saturating_sub(start).max(1)).collect();
    written.trim_end().to_owned()
}

/// Takes ` at Line: 1, Column: 8` off a parser's message.
fn split_location(message: &str) -> (&str, Option<Location>) {
    let parsed = message.rfind(" at Line: ").and_then(|at| {
        let (line, column) = message[at + 10..].split_once(", Column: ")?;
        let location = Location { line: line.parse().ok()?, column: column.trim().parse().ok()? };
        Some((&message[..at], location))
    });
    match parsed {
        Some((what, location)) => (what, Some(location)),
        None => (message, None),
    }
}

/// A position in characters from 1, as ErrorResponse wants it.
pub(crate) fn char_position(text: &str, at: Location) -> u32 {
    let before: usize = text
        .split_inclusive('\n')
        .take((at.line as usize).saturating_sub(1))
        .map(|line| line.chars().count())
        .sum();
    before as u32 + (at.column as u32).max(1)
}

/// Where in a message's text the name that an error is about stands (characters from 1): the first
/// word of the statement that is the name's last part.
pub(crate) fn locate(statement: &ParsedStatement, e: SqlError) -> SqlError {
    let about_name = [
        SqlState::UNDEFINED_COLUMN,
        SqlState::UNDEFINED_TABLE,
        SqlState::UNDEFINED_FUNCTION,
        SqlState::AMBIGUOUS_COLUMN,
    ];
    let is_placed = e.position.is_some() || e.inner.is_some();
    if is_placed || !about_name.contains(&e.state) {
        return e;
    }
    let quoted = e.message.split('"').nth(1).or_else(|| {
        let bare = e.message.strip_prefix("column ").or(e.message.strip_prefix("function "))?;
        bare.split([' ', '(']).next()
    });
    let Some(name) = quoted.and_then(|q| q.rsplit('.').next()).filter(|n| !n.is_empty()) else {
        return e;
    };
    let text = &statement.source[statement.offset..];
    let word = |c: char| c.is_alphanumeric() || c == '_';
    let lower = text.to_lowercase();
    let found = lower.match_indices(&name.to_lowercase()).find(|(at, hit)| {
        let before = lower[..*at].chars().next_back();
        let after = lower[at + hit.len()..].chars().next();
        !before.is_some_and(word) && !after.is_some_and(word)
    });
    match found {
        // Lower case may be longer than the text in a few scripts; then there is no position.
        Some((at, _)) if lower.len() == text.len() => {
            let before = statement.source.get(..statement.offset + at).unwrap_or_default();
            e.at(u32::try_from(before.chars().count() + 1).unwrap_or(u32::MAX))
        }
        _ => e,
    }
}

fn lower_first(message: &str) -> String {
    let mut chars = message.chars();
    match chars.next() {
        Some(first) => first.to_lowercase().chain(chars).collect(),
        None => String::new(),
    }
}

/// An upper bound of the depth of a statement's tree, from its tokens.
#[derive(Default)]
struct Shape {
    depth: usize,
    chain: usize,
    sets: usize,
}

impl Shape {
    fn of(tokens: &[TokenWithSpan]) -> Shape {
        let mut shape = Shape::default();
        let mut chains: Vec<usize> = vec![0];
        for token in tokens {
            match &token.token {
                Token::LParen | Token::LBracket => chains.push(0),
                Token::RParen | Token::RBracket => {
                    chains.pop();
                    if chains.is_empty() {
                        chains.push(0);
                    }
                }
                Token::Comma => *chains.last_mut().expect("never empty") = 0,
                Token::Word(w) => match w.keyword {
                    Keyword::CASE => chains.push(0),
                    Keyword::END if chains.len() > 1 => {
                        chains.pop();
                    }
                    Keyword::UNION | Keyword::INTERSECT | Keyword::EXCEPT | Keyword::JOIN => {
                        shape.sets += 1;
                    }
                    Keyword::AND
                    | Keyword::OR
                    | Keyword::NOT
                    | Keyword::IS
                    | Keyword::LIKE
                    | Keyword::COLLATE
                    | Keyword::AT => {
                        *chains.last_mut().expect("never empty") += 1;
                    }
                    _ => {}
                },
                Token::Number(..)
                | Token::SingleQuotedString(_)
                | Token::Placeholder(_)
                | Token::Period => {}
                _ => *chains.last_mut().expect("never empty") += 1,
            }
            shape.depth = shape.depth.max(chains.len() - 1);
            shape.chain = shape.chain.max(*chains.last().expect("never empty"));
        }
        shape
    }
}
