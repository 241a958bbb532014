//! Subqueries that lock their rows. They run once, before the statement they stand in, as parts of its WITH:
//!
//! ```text
//!   DELETE FROM jobs WHERE id IN (SELECT id FROM jobs ORDER BY id LIMIT 5 FOR UPDATE SKIP LOCKED)
//!
//!   WITH "froglet locks 0" AS (SELECT id FROM jobs ORDER BY id LIMIT 5 FOR UPDATE SKIP LOCKED)
//!   DELETE FROM jobs WHERE id IN (SELECT * FROM "froglet locks 0")
//! ```
//!
//! So does PostgreSQL with those that read nothing of what is around them. Others, which it runs row by row, are
//! not supported.

use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    Cte, Expr, Ident, LockClause, LockType, ObjectName, Query, SelectItem, SetExpr, Statement,
    TableAlias, VisitMut, With,
};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::command::fold;
use crate::error::SqlError;
use crate::parse::parse_query;
use crate::storage_options::is_keyword;
use crate::udf::lookup::quoted;
use crate::walk::{self, Change};

/// In front of what `FOR NO KEY UPDATE OF t` and `FOR KEY SHARE OF t` name. Nobody can write it.
pub(crate) const OF_KEY: &str = "\u{0}key";

/// How strongly rows are locked, the weaker first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RowLock {
    KeyShare,
    Share,
    NoKeyUpdate,
    #[default]
    Update,
}

impl RowLock {
    /// Of a clause.
    pub(crate) fn of(clause: &LockClause) -> RowLock {
        match (clause.lock_type, is_of_key(clause)) {
            (LockType::Share, true) => RowLock::KeyShare,
            (LockType::Share, false) => RowLock::Share,
            (LockType::Update, true) => RowLock::NoKeyUpdate,
            (LockType::Update, false) => RowLock::Update,
        }
    }

    /// As it is written.
    pub(crate) fn clause(self) -> &'static str {
        match self {
            RowLock::KeyShare => "FOR KEY SHARE",
            RowLock::Share => "FOR SHARE",
            RowLock::NoKeyUpdate => "FOR NO KEY UPDATE",
            RowLock::Update => "FOR UPDATE",
        }
    }
}

fn is_of_key(clause: &LockClause) -> bool {
    let first = clause.of.as_ref().and_then(|of| of.0.first()?.as_ident());
    first.is_some_and(|ident| ident.value == OF_KEY)
}

/// What OF names.
pub(crate) fn named(clause: &LockClause) -> Option<ObjectName> {
    let mut name = clause.of.clone()?;
    if is_of_key(clause) {
        name.0.remove(0);
    }
    (!name.0.is_empty()).then_some(name)
}

/// Puts the mark of a lock's word behind OF.
pub(crate) fn mark_keys(tokens: &mut Vec<TokenWithSpan>) {
    let is_marked = |token: &TokenWithSpan| {
        matches!(&token.token, Token::Word(w)
        if w.quote_style.is_none() && w.value == OF_KEY)
    };
    let mut at = 0;
    while let Some(marked) = tokens.get(at) {
        at += 1;
        if !is_marked(marked) {
            continue;
        }
        let span = marked.span;
        let mark = Token::make_word(OF_KEY, Some('"'));
        let has_name = tokens.get(at).is_some_and(|token| is_keyword(token, Keyword::OF));
        let (from, added) = match has_name {
            true => (at + 1, vec![mark, Token::Period]),
            false => (at, vec![Token::make_keyword("OF"), mark]),
        };
        tokens.splice(from..from, added.into_iter().map(|token| TokenWithSpan { token, span }));
    }
}

/// What such a part is called, before its number.
const NAME: &str = "froglet locks ";

/// Whether a part of WITH locks rows.
pub(crate) fn is_part(cte: &Cte) -> bool {
    !cte.query.locks.is_empty()
}

/// The statement with its locking subqueries as parts, if it has any.
pub(crate) fn with_parts(statement: Statement) -> Result<Statement, SqlError> {
    let mut parts = Parts::default();
    match statement {
        Statement::Query(mut query) => {
            parts.take_from(&mut query)?;
            Ok(Statement::Query(query))
        }
        mut statement @ (Statement::Insert(_) | Statement::Update(_) | Statement::Delete(_)) => {
            parts.take(&mut statement)?;
            if parts.found.is_empty() {
                return Ok(statement);
            }
            let mut query = parse_query("SELECT 1")?;
            query.with = Some(with_of(parts.found));
            *query.body = match statement {
                insert @ Statement::Insert(_) => SetExpr::Insert(insert),
                update @ Statement::Update(_) => SetExpr::Update(update),
                delete => SetExpr::Delete(delete),
            };
            Ok(Statement::Query(Box::new(query)))
        }
        statement => Ok(statement),
    }
}

/// The statement as it was written, but that it locks nothing.
pub(crate) fn without_parts(query: &Query) -> Query {
    struct Restore(Vec<Cte>);
    impl Change for Restore {
        fn query_end(&mut self, query: &mut Query) {
            let text = query.body.to_string();
            let is_of = |part: &&Cte| text.ends_with(&reads(&part.alias.name.value));
            if let Some(part) = self.0.iter().find(is_of) {
                *query = (*part.query).clone();
            }
            query.locks.clear();
        }
    }
    let mut query = query.clone();
    let Some(with) = &mut query.with else { return query };
    let mut restore = Restore(Vec::new());
    for mut part in std::mem::take(&mut with.cte_tables) {
        walk::change(&mut part.query, &mut restore);
        match part.alias.name.value.starts_with(NAME) {
            true => restore.0.push(part),
            false => with.cte_tables.push(part),
        }
    }
    query.with = query.with.filter(|with| !with.cte_tables.is_empty());
    walk::change(&mut query, &mut restore);
    query
}

fn reads(name: &str) -> String {
    format!(" FROM \"{name}\"")
}

/// What stands in the select list in place of the query's: a subquery in a select list is called as its column.
fn columns(query: &Query) -> String {
    let items = query.body.as_select().map_or(&[][..], |select| &select.projection);
    let [item] = items else { return "*".to_owned() };
    let name = match item {
        SelectItem::UnnamedExpr(Expr::Identifier(name)) => Some(fold(name)),
        SelectItem::UnnamedExpr(Expr::CompoundIdentifier(names)) => names.last().map(fold),
        SelectItem::ExprWithAlias { alias, .. } => Some(fold(alias)),
        _ => None,
    };
    name.map_or_else(|| "*".to_owned(), |name| quoted(&name))
}

fn with_of(cte_tables: Vec<Cte>) -> With {
    With { with_token: AttachedToken::empty(), recursive: false, cte_tables }
}

#[derive(Default)]
struct Parts {
    found: Vec<Cte>,
    count: usize,
    error: Option<SqlError>,
}

impl Parts {
    /// Of a query, whose own locks stay where they are.
    fn take_from(&mut self, query: &mut Query) -> Result<(), SqlError> {
        let mut parts = Vec::new();
        for mut part in query.with.iter_mut().flat_map(|with| with.cte_tables.drain(..)) {
            let own = std::mem::take(&mut part.query.locks);
            self.take(&mut part.query)?;
            part.query.locks = own;
            parts.append(&mut self.found);
            parts.push(part);
        }
        let (own, with) = (std::mem::take(&mut query.locks), query.with.take());
        self.take(query)?;
        query.locks = own;
        parts.append(&mut self.found);
        if !parts.is_empty() {
            query.with = Some(match with {
                Some(with) => With { cte_tables: parts, ..with },
                None => with_of(parts),
            });
        }
        Ok(())
    }

    /// Of all queries within.
    fn take(&mut self, node: &mut impl VisitMut) -> Result<(), SqlError> {
        walk::change(node, self);
        self.error.take().map_or(Ok(()), Err)
    }

    fn part(&mut self, query: &mut Query) -> Result<(), SqlError> {
        let name = format!("{NAME}{}", self.count);
        let reading = parse_query(&format!("SELECT {}{}", columns(query), reads(&name)))?;
        let name = Ident::with_quote('"', name);
        self.found.push(Cte {
            alias: TableAlias { explicit: false, name, columns: Vec::new(), at: None },
            query: Box::new(std::mem::replace(query, reading)),
            from: None,
            materialized: None,
            closing_paren_token: AttachedToken::empty(),
        });
        self.count += 1;
        Ok(())
    }
}

impl Change for Parts {
    fn query_end(&mut self, query: &mut Query) {
        if query.locks.is_empty() || self.error.is_some() {
            return;
        }
        self.error = self.part(query).err();
    }
}
