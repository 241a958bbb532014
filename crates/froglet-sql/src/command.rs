//! Statements as the session sees them.
//!
//! Everything that needs a plan stays an sqlparser tree. What is about the session itself (SET,
//! BEGIN, VACUUM, …) is parsed here, on the tokens: PostgreSQL's grammar for these is small and
//! regular, and what sqlparser makes of them differs in too many corners.

mod maintenance;
mod set;

use set::{reset, set, show};
pub(crate) use set::{setting_name, setting_value};

use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{self, Statement};
use datafusion::sql::sqlparser::parser::ParserError;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use froglet_txn::Isolation;

use crate::cursor_parse::{self, CursorOptions, Direction};
use crate::explain::{self, BadOption, ExplainOptions};
use crate::parse::parse_sql;
use crate::privileges::parse::{self as privilege_parse, PrivilegeCommand};
use crate::revert::run::{self as revert, Revert, Undrop};
use crate::roles::parse::{self as role_parse, RoleCommand};
use crate::session::do_block;
use crate::syntax::table_mode::{self, LockTable};
use crate::table_as_parse::{self, TableAs};
use crate::with_plan;
use crate::{merge_parse, object_ddl};

/// `ISOLATION LEVEL …`, `READ ONLY`, `READ WRITE` of BEGIN and SET TRANSACTION.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransactionModes {
    /// ISOLATION LEVEL
    pub isolation: Option<IsolationName>,
    /// READ ONLY, READ WRITE
    pub read_only: Option<bool>,
}

/// An isolation level by its SQL name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum IsolationName {
    ReadUncommitted,
    ReadCommitted,
    RepeatableRead,
    Serializable,
}

impl IsolationName {
    /// The level that gives at least what the name promises.
    pub fn level(self) -> Isolation {
        match self {
            IsolationName::ReadUncommitted | IsolationName::ReadCommitted => {
                Isolation::ReadCommitted
            }
            IsolationName::RepeatableRead => Isolation::RepeatableRead,
            IsolationName::Serializable => Isolation::Serializable,
        }
    }

    /// As SHOW prints it.
    pub fn as_str(self) -> &'static str {
        match self {
            IsolationName::ReadUncommitted => "read uncommitted",
            IsolationName::ReadCommitted => "read committed",
            IsolationName::RepeatableRead => "repeatable read",
            IsolationName::Serializable => "serializable",
        }
    }

    /// From what SHOW prints.
    pub fn parse(name: &str) -> Option<IsolationName> {
        let all = [
            IsolationName::ReadUncommitted,
            IsolationName::ReadCommitted,
            IsolationName::RepeatableRead,
            IsolationName::Serializable,
        ];
        all.into_iter().find(|level| level.as_str().eq_ignore_ascii_case(name))
    }
}

/// One statement.
#[derive(Debug)]
#[allow(missing_docs)] // the fields are what their SQL says
pub enum Command {
    Empty,
    Begin {
        modes: TransactionModes,
        tag: &'static str,
    },
    Commit {
        chain: bool,
    },
    Rollback {
        chain: bool,
    },
    Savepoint(String),
    Release(String),
    RollbackTo(String),
    SetTransaction(TransactionModes),
    /// SET TRANSACTION SNAPSHOT
    SetSnapshot(String),
    SetCharacteristics(TransactionModes),
    /// `None`: DEFAULT
    Set {
        local: bool,
        name: String,
        value: Option<String>,
    },
    /// SET ROLE, SESSION AUTHORIZATION in forms that change nothing here.
    /// SET CONSTRAINTS, which changes nothing here.
    SetNothing,
    /// SET CONSTRAINTS; `None`: ALL
    SetConstraints {
        names: Option<Vec<ast::ObjectName>>,
        deferred: bool,
    },
    Show(String),
    ShowAll,
    Reset(String),
    ResetAll,
    Discard(Discard),
    Prepare {
        name: String,
        types: Vec<ast::DataType>,
        statement: Arc<Command>,
        text: String,
    },
    Execute {
        name: String,
        arguments: Vec<ast::Expr>,
    },
    Deallocate(Option<String>),
    /// DECLARE
    Declare {
        name: String,
        options: CursorOptions,
        query: Arc<Command>,
        text: String,
    },
    /// FETCH and MOVE
    Fetch {
        name: String,
        direction: Direction,
        moves: bool,
    },
    CloseCursor(Option<String>),
    Listen(String),
    /// `None`: all.
    Unlisten(Option<String>),
    Notify {
        channel: String,
        payload: String,
    },
    LockTable(Box<LockTable>),
    /// VACUUM, ANALYZE, REINDEX, CLUSTER: accepted; tables are checked to exist.
    Maintenance {
        tag: &'static str,
        /// VACUUM FULL
        full: bool,
        tables: Vec<ast::ObjectName>,
    },
    Checkpoint,
    ExplainDdl(Box<Statement>),
    Explain {
        options: Result<ExplainOptions, BadOption>,
        statement: Box<Statement>,
    },
    Query(Box<ast::Query>),
    /// WITH, and something in it or after it writes.
    With(Box<ast::Query>),
    Insert(Box<ast::Insert>),
    Update(Box<ast::Update>),
    Delete(Box<ast::Delete>),
    /// A query whose body is MERGE.
    Merge(Box<ast::Query>),
    Copy(Box<crate::copy::Copy>),
    Ddl(Box<Statement>),
    CreateTableAs(Box<crate::table_as_parse::TableAs>),
    CreateSequence(Box<crate::sequence_ddl::CreateSequence>),
    AlterSequence(Box<crate::sequence_ddl::AlterSequence>),
    /// Schemas, views, enum types, comments.
    Object(Box<crate::object_ddl::ObjectDdl>),
    /// CREATE ROLE and its kind
    Role(Box<RoleCommand>),
    /// GRANT and REVOKE of privileges, and who owns what.
    Privileges(Box<PrivilegeCommand>),
    /// SELECT froglet.revert_migration(…)
    Revert(Box<Revert>),
    /// ALTER TABLE … UNDROP COLUMN
    Undrop(Box<Undrop>),
    /// Named in the error.
    Unsupported(String),
    /// DO
    Do(Box<do_block::DoBlock>),
}

/// What DISCARD throws away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Discard {
    All,
    Plans,
    Sequences,
    Temp,
}

impl Command {
    /// Whether it runs in a failed transaction.
    pub fn ends_failure(&self) -> bool {
        matches!(self, Command::Commit { .. } | Command::Rollback { .. } | Command::RollbackTo(_))
    }

    /// Whether it needs no transaction of its own.
    pub fn is_control(&self) -> bool {
        matches!(
            self,
            Command::Empty
                | Command::Begin { .. }
                | Command::Commit { .. }
                | Command::Rollback { .. }
                | Command::Savepoint(_)
                | Command::Release(_)
                | Command::RollbackTo(_)
                | Command::SetTransaction(_)
                | Command::SetSnapshot(_)
                | Command::SetCharacteristics(_)
                | Command::Set { .. }
                | Command::SetConstraints { .. }
                | Command::Show(_)
                | Command::ShowAll
                | Command::Reset(_)
                | Command::ResetAll
                | Command::Discard(_)
                | Command::Prepare { .. }
                | Command::Deallocate(_)
                | Command::Listen(_)
                | Command::Unlisten(_)
                | Command::Notify { .. }
                | Command::Checkpoint
                | Command::Unsupported(_)
        )
    }

    pub(crate) fn from_statement(statement: Statement) -> Command {
        let Ok(statement) = crate::lock_parts::with_parts(statement) else {
            return Command::Unsupported("locking rows by a subquery".to_owned());
        };
        match statement {
            Statement::CreateTable(create) if create.query.is_some() => {
                let table = TableAs { create, names: Vec::new(), with_data: true };
                Command::CreateTableAs(Box::new(table))
            }
            s @ Statement::Merge(_) => match crate::merge_parse::query_of(s, None) {
                Ok(query) => Command::Merge(query),
                Err(_) => Command::Unsupported("MERGE".to_owned()),
            },
            Statement::Query(query) if matches!(*query.body, ast::SetExpr::Merge(_)) => {
                Command::Merge(query)
            }
            Statement::Query(query) if with_plan::has_parts(&query) => Command::With(query),
            Statement::Query(query) => match query.body.as_ref() {
                ast::SetExpr::Select(select) if select.into.is_some() => {
                    crate::table_as_parse::of_select_into(query)
                }
                _ => revert::command(&query).unwrap_or(Command::Query(query)),
            },
            Statement::Insert(insert) => Command::Insert(Box::new(insert)),
            Statement::Update(update) => Command::Update(Box::new(update)),
            Statement::Delete(delete) => Command::Delete(Box::new(delete)),
            Statement::Explain { analyze, verbose, statement, options, .. } => {
                let options = explain::options(analyze, verbose, options.as_deref());
                Command::Explain { options, statement }
            }
            s @ (Statement::CreateTable(_)
            | Statement::CreateIndex(_)
            | Statement::AlterTable(_)
            | Statement::AlterIndex { .. }
            | Statement::Drop { .. }
            | Statement::Truncate(_)) => Command::Ddl(Box::new(s)),
            other => Command::Unsupported(name_of(&other)),
        }
    }
}

/// The first words of a statement, to name it in an error.
fn name_of(statement: &Statement) -> String {
    let text = statement.to_string();
    let words: Vec<&str> = text
        .split_whitespace()
        .take_while(|w| w.chars().all(|c| c.is_ascii_uppercase()))
        .take(3)
        .collect();
    if words.is_empty() { "this statement".to_owned() } else { words.join(" ") }
}

/// Parses the statement if it is one of ours.
pub(crate) fn parse(tokens: &[TokenWithSpan]) -> Option<Result<Command, ParserError>> {
    let mut cursor = Cursor { tokens, at: 0 };
    let first = cursor.word()?.to_ascii_lowercase();
    let command = match first.as_str() {
        "begin" => {
            cursor.skip_any(&["work", "transaction"]);
            modes(&mut cursor).map(|modes| Command::Begin { modes, tag: "BEGIN" })
        }
        "start" => cursor.expect("transaction").and_then(|()| {
            modes(&mut cursor).map(|modes| Command::Begin { modes, tag: "START TRANSACTION" })
        }),
        "commit" | "end" => end_of_transaction(&mut cursor, true),
        "abort" => end_of_transaction(&mut cursor, false),
        "rollback" => end_of_transaction(&mut cursor, false),
        "savepoint" => cursor.name().map(Command::Savepoint),
        "release" => {
            cursor.skip("savepoint");
            cursor.name().map(Command::Release)
        }
        "set" => set(&mut cursor),
        "show" => show(&mut cursor),
        "reset" => reset(&mut cursor),
        "discard" => discard(&mut cursor),
        "deallocate" => {
            cursor.skip("prepare");
            if cursor.skip("all") {
                Ok(Command::Deallocate(None))
            } else {
                cursor.name().map(|name| Command::Deallocate(Some(name)))
            }
        }
        "listen" => cursor.name().map(Command::Listen),
        "notify" => notify(&mut cursor),
        "unlisten" if cursor.skip_token(&Token::Mul) => Ok(Command::Unlisten(None)),
        "unlisten" => cursor.name().map(|channel| Command::Unlisten(Some(channel))),
        "checkpoint" => Ok(Command::Checkpoint),
        "vacuum" => maintenance::maintenance(&mut cursor, "VACUUM"),
        "analyze" | "analyse" => maintenance::maintenance(&mut cursor, "ANALYZE"),
        "reindex" => maintenance::reindex(&mut cursor),
        "explain" if cursor.peek_word("alter") || cursor.peek_word("create") => {
            cursor.at = tokens.len();
            parse_explained(&tokens[1..]).map(|s| Command::ExplainDdl(Box::new(s)))
        }
        "alter" if let Some(command) = object_ddl::alter(tokens) => {
            cursor.at = tokens.len();
            command
        }
        "alter" if cursor.peek_word("default") => {
            cursor.at += 1;
            cursor.expect("privileges").and_then(|()| privilege_parse::defaults(&mut cursor))
        }
        "drop" if cursor.peek_word("owned") => {
            cursor.at += 1;
            privilege_parse::drop_owned(&mut cursor)
        }
        "reassign" => privilege_parse::reassign(&mut cursor),
        "create" if role_parse::is_next(&cursor) => role_parse::create(&mut cursor),
        "alter" if role_parse::is_next(&cursor) => role_parse::alter(&mut cursor),
        "drop" if role_parse::is_next(&cursor) => role_parse::drop(&mut cursor),
        "grant" | "revoke" => {
            let of_roles = match first.as_str() {
                "grant" => role_parse::grant(&mut cursor),
                _ => role_parse::revoke(&mut cursor),
            };
            of_roles.unwrap_or_else(|| {
                cursor.at = 1;
                privilege_parse::change(&mut cursor, first == "grant")
            })
        }
        "alter" if cursor.peek_word("sequence") => {
            cursor.at += 1;
            crate::sequence_ddl::parse_alter(&mut cursor)
        }
        "alter" if cursor.peek_word("table") => {
            cursor.at += 1;
            undrop(&mut cursor)?
        }
        // No index here blocks anybody; sqlparser does not know the word in DROP INDEX.
        "drop" if cursor.peek_word("index") && is_word(tokens.get(2), "concurrently") => {
            cursor.at = tokens.len();
            let mut plain = tokens.to_vec();
            plain.remove(2);
            parse_sql(plain).map(Command::from_statement)
        }
        "create" if cursor.peek_word("sequence") => {
            cursor.at += 1;
            crate::sequence_ddl::parse_create(&mut cursor)
        }
        "create" => {
            cursor.at = tokens.len();
            object_ddl::create(tokens).or_else(|| table_as_parse::parse(tokens))?
        }
        "refresh" => object_ddl::refresh(&mut cursor),
        "comment" => object_ddl::comment(&mut cursor),
        "copy" => crate::copy::parse(&mut cursor),
        "declare" => cursor_parse::declare(&mut cursor),
        "fetch" => cursor_parse::fetch(&mut cursor, false),
        "move" => cursor_parse::fetch(&mut cursor, true),
        "close" => cursor_parse::close(&mut cursor),
        "lock" => table_mode::parse(&mut cursor),
        "do" => {
            cursor.at = tokens.len();
            do_block::parse(tokens).map(|block| match block {
                Some(block) => Command::Do(Box::new(block)),
                None => Command::Unsupported("DO with more than statements".to_owned()),
            })
        }
        "cluster" | "call" | "load" | "security" | "import" => {
            cursor.at = tokens.len();
            Ok(Command::Unsupported(first.to_ascii_uppercase()))
        }
        "prepare" => prepare(&mut cursor),
        "execute" => {
            cursor.at = tokens.len();
            execute(tokens)
        }
        _ => return None,
    };
    Some(command.and_then(|command| cursor.end().map(|()| command)))
}

/// `ALTER TABLE name UNDROP [COLUMN] name`; `None` for other forms.
fn undrop(cursor: &mut Cursor<'_>) -> Option<Result<Command, ParserError>> {
    let table = cursor.object_name().ok()?;
    if !cursor.skip("undrop") {
        return None;
    }
    cursor.skip("column");
    let column = cursor.name();
    Some(column.map(|column| Command::Undrop(Box::new(Undrop { table, column }))))
}

fn is_word(token: Option<&TokenWithSpan>, word: &str) -> bool {
    matches!(token.map(|t| &t.token), Some(Token::Word(w))
        if w.quote_style.is_none() && w.value.eq_ignore_ascii_case(word))
}

/// A place among a statement's tokens.
pub(crate) struct Cursor<'a> {
    pub(crate) tokens: &'a [TokenWithSpan],
    pub(crate) at: usize,
}

impl Cursor<'_> {
    pub(crate) fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at).map(|t| &t.token)
    }

    /// The unquoted word here, passed.
    fn word(&mut self) -> Option<String> {
        match self.peek() {
            Some(Token::Word(w)) if w.quote_style.is_none() => {
                let word = w.value.clone();
                self.at += 1;
                Some(word)
            }
            _ => None,
        }
    }

    pub(crate) fn peek_word(&self, word: &str) -> bool {
        matches!(self.peek(), Some(Token::Word(w))
            if w.quote_style.is_none() && w.value.eq_ignore_ascii_case(word))
    }

    pub(crate) fn skip(&mut self, word: &str) -> bool {
        let there = self.peek_word(word);
        self.at += usize::from(there);
        there
    }

    pub(crate) fn skip_any(&mut self, words: &[&str]) -> bool {
        words.iter().any(|word| self.skip(word))
    }

    pub(crate) fn skip_token(&mut self, token: &Token) -> bool {
        let there = self.peek() == Some(token);
        self.at += usize::from(there);
        there
    }

    pub(crate) fn expect(&mut self, word: &str) -> Result<(), ParserError> {
        if self.skip(word) { Ok(()) } else { self.wrong(&word.to_ascii_uppercase()) }
    }

    /// A name, folded to lower case unless it is quoted.
    pub(crate) fn name(&mut self) -> Result<String, ParserError> {
        match self.peek() {
            Some(Token::Word(w)) => {
                let name = match w.quote_style {
                    Some(_) => w.value.clone(),
                    None => w.value.to_ascii_lowercase(),
                };
                self.at += 1;
                Ok(name)
            }
            _ => self.wrong("a name"),
        }
    }

    /// A name that may be qualified, as sqlparser has it.
    pub(crate) fn object_name(&mut self) -> Result<ast::ObjectName, ParserError> {
        let mut parts = Vec::new();
        loop {
            let quote = match self.peek() {
                Some(Token::Word(w)) => w.quote_style,
                _ => None,
            };
            let value = self.name()?;
            let ident = ast::Ident { value, quote_style: quote, span: self.span() };
            parts.push(ident);
            if !self.skip_token(&Token::Period) {
                return Ok(ast::ObjectName::from(parts));
            }
        }
    }

    fn span(&self) -> datafusion::sql::sqlparser::tokenizer::Span {
        self.tokens[self.at - 1].span
    }

    pub(crate) fn end(&self) -> Result<(), ParserError> {
        if self.at >= self.tokens.len() { Ok(()) } else { self.wrong("end of statement") }
    }

    /// A whole number, perhaps negative.
    pub(crate) fn integer(&mut self) -> Result<i64, ParserError> {
        let minus = self.skip_token(&Token::Minus);
        if !minus {
            self.skip_token(&Token::Plus);
        }
        match self.peek() {
            Some(Token::Number(digits, _)) => {
                let text = if minus { format!("-{digits}") } else { digits.clone() };
                match text.parse() {
                    Ok(value) => {
                        self.at += 1;
                        Ok(value)
                    }
                    Err(_) => self.wrong("a bigint"),
                }
            }
            _ => self.wrong("a number"),
        }
    }

    pub(crate) fn wrong<T>(&self, expected: &str) -> Result<T, ParserError> {
        let message = match self.tokens.get(self.at) {
            Some(t) => format!("Expected: {expected}, found: {t}{}", t.span.start),
            None => format!("Expected: {expected}, found: EOF"),
        };
        Err(ParserError::ParserError(message))
    }
}

fn modes(cursor: &mut Cursor<'_>) -> Result<TransactionModes, ParserError> {
    let mut modes = TransactionModes::default();
    loop {
        if cursor.skip("isolation") {
            cursor.expect("level")?;
            modes.isolation = Some(isolation(cursor)?);
        } else if cursor.skip("read") {
            modes.read_only = Some(if cursor.skip("only") {
                true
            } else {
                cursor.expect("write")?;
                false
            });
        } else if cursor.skip("deferrable") {
        } else if cursor.skip("not") {
            cursor.expect("deferrable")?;
        } else {
            return Ok(modes);
        }
        cursor.skip_token(&Token::Comma);
    }
}

fn isolation(cursor: &mut Cursor<'_>) -> Result<IsolationName, ParserError> {
    if cursor.skip("serializable") {
        return Ok(IsolationName::Serializable);
    }
    if cursor.skip("repeatable") {
        cursor.expect("read")?;
        return Ok(IsolationName::RepeatableRead);
    }
    cursor.expect("read")?;
    if cursor.skip("committed") {
        return Ok(IsolationName::ReadCommitted);
    }
    cursor.expect("uncommitted")?;
    Ok(IsolationName::ReadUncommitted)
}

fn end_of_transaction(cursor: &mut Cursor<'_>, commit: bool) -> Result<Command, ParserError> {
    if cursor.peek_word("prepared") {
        cursor.at = cursor.tokens.len();
        return Ok(Command::Unsupported("two-phase commit".to_owned()));
    }
    cursor.skip_any(&["work", "transaction"]);
    if !commit && cursor.skip("to") {
        cursor.skip("savepoint");
        return cursor.name().map(Command::RollbackTo);
    }
    let mut chain = false;
    if cursor.skip("and") {
        chain = !cursor.skip("no");
        cursor.expect("chain")?;
    }
    Ok(if commit { Command::Commit { chain } } else { Command::Rollback { chain } })
}

/// `ALL | name, … DEFERRED | IMMEDIATE`
fn set_constraints(cursor: &mut Cursor<'_>) -> Result<Command, ParserError> {
    let mut names = Vec::new();
    if !cursor.skip("all") {
        names.push(cursor.object_name()?);
        while cursor.skip_token(&Token::Comma) {
            names.push(cursor.object_name()?);
        }
    }
    let deferred = cursor.skip("deferred");
    if !deferred {
        cursor.expect("immediate")?;
    }
    let names = Some(names).filter(|names| !names.is_empty());
    Ok(Command::SetConstraints { names, deferred })
}

/// After `NOTIFY`.
fn notify(cursor: &mut Cursor<'_>) -> Result<Command, ParserError> {
    let channel = cursor.name()?;
    let mut payload = String::new();
    if cursor.skip_token(&Token::Comma) {
        match cursor.peek() {
            Some(Token::SingleQuotedString(text) | Token::EscapedStringLiteral(text)) => {
                payload.clone_from(text);
                cursor.at += 1;
            }
            _ => return cursor.wrong("a string"),
        }
    }
    Ok(Command::Notify { channel, payload })
}

fn discard(cursor: &mut Cursor<'_>) -> Result<Command, ParserError> {
    let what = cursor.name()?;
    match what.as_str() {
        "all" => Ok(Command::Discard(Discard::All)),
        "plans" => Ok(Command::Discard(Discard::Plans)),
        "sequences" => Ok(Command::Discard(Discard::Sequences)),
        "temp" | "temporary" => Ok(Command::Discard(Discard::Temp)),
        _ => {
            cursor.at -= 1;
            cursor.wrong("ALL, PLANS, SEQUENCES or TEMP")
        }
    }
}

/// A schema change that is explained. Names of new columns and WITH DATA make no difference to it.
fn parse_explained(tokens: &[TokenWithSpan]) -> Result<Statement, ParserError> {
    match table_as_parse::parse(tokens) {
        Some(Ok(Command::CreateTableAs(table_as))) => Ok(Statement::CreateTable(table_as.create)),
        Some(Err(e)) => Err(e),
        _ => parse_sql(tokens.to_vec()),
    }
}

/// `PREPARE name [(types)] AS statement`
fn prepare(cursor: &mut Cursor<'_>) -> Result<Command, ParserError> {
    if cursor.peek_word("transaction") {
        cursor.at = cursor.tokens.len();
        return Ok(Command::Unsupported("two-phase commit".to_owned()));
    }
    let mut tokens = cursor.tokens.to_vec();
    let merge = merge_parse::take(&mut tokens).transpose()?;
    let statement = parse_sql(tokens)?;
    cursor.at = cursor.tokens.len();
    match statement {
        Statement::Prepare { name, data_types, statement } => {
            let (text, command) = match merge {
                Some(query) => (query.to_string(), Command::Merge(Box::new(query))),
                None => (statement.to_string(), Command::from_statement(*statement)),
            };
            let (name, types) = (fold(&name), data_types);
            Ok(Command::Prepare { name, types, text, statement: Arc::new(command) })
        }
        other => Ok(Command::Unsupported(name_of(&other))),
    }
}

fn execute(tokens: &[TokenWithSpan]) -> Result<Command, ParserError> {
    match parse_sql(tokens.to_vec())? {
        Statement::Execute { name: Some(name), parameters, .. } => {
            let name = name.0.last().and_then(|part| part.as_ident()).map(fold).unwrap_or_default();
            Ok(Command::Execute { name, arguments: parameters })
        }
        other => Ok(Command::Unsupported(name_of(&other))),
    }
}

/// An identifier as PostgreSQL folds it.
pub(crate) fn fold(ident: &ast::Ident) -> String {
    match ident.quote_style {
        Some(_) => ident.value.clone(),
        None => ident.value.to_ascii_lowercase(),
    }
}
