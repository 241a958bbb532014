//! Keys that are checked at the end of the transaction, or of the statement.
//!
//! ```text
//!   child written        its key's values are noted        COMMIT, SET CONSTRAINTS … IMMEDIATE:
//!   parent's key gone    the values that it had are noted    a child of the values has a parent, and holds it
//!                                                            nobody refers to the values, or there is a parent
//!   unique key written     the values, if another row may    one row has the values
//!                          have them (`unique_key.rs`)
//! ```
//!
//! D1: what is noted is a question about values, not about rows: what became of the rows meanwhile (deleted,
//!     changed again, rolled back to a savepoint) answers it. So nothing is taken out of the notes before the
//!     transaction ends: an answer may be undone by ROLLBACK TO.
//! D2: a parent's writer waits for who holds the parent when it writes, not at the end (F1 of `write/foreignkey.rs`):
//!     a child that has looked is met there, and one that looks later meets the write.
//!
//! D3: a constraint is known by its id, and values with their types: renaming changes no question, and a column
//!     that got another type meanwhile has its values converted, or the transaction fails.
//!
//! D4: a deferrable unique key that is not put off waits for the end of the statement, whose rows may pass keys on
//!     to each other; a foreign key that is not put off is asked with the rows.
//!
//! Of a foreign key's actions only NO ACTION waits, as in PostgreSQL; cascades are made with the statement.

use std::collections::{HashMap, HashSet};

use datafusion::sql::sqlparser::ast::ObjectName;
use froglet_engine::{ColumnType, SqlState, Value};
use froglet_schema::def::Timing;
use froglet_schema::{CatalogVersion, ForeignKeyAction, ObjectId, TableVersion};

use crate::apply::{Stop, Writer};
use crate::context::EvalContext;
use crate::error::SqlError;
use crate::key::{Fit, fit};
use crate::resolve::Names;
use crate::session::Session;
use crate::unique_key::UniqueKey;
use crate::write::foreignkey::Key;

/// Whose question it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Of {
    /// A foreign key's.
    Child,
    Parent,
    /// A unique key's.
    Rows,
}

/// A question about values of a key.
#[derive(Clone, Debug)]
pub(crate) struct Question {
    /// The constraint and its table.
    constraint: ObjectId,
    table: ObjectId,
    of: Of,
    /// As they were written.
    values: Vec<Value>,
    types: Vec<ColumnType>,
}

/// What SET CONSTRAINTS has said; a savepoint keeps it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Modes {
    /// ALL: whether to put off.
    all: Option<bool>,
    /// Of a name, by the constraint's id.
    named: HashMap<ObjectId, bool>,
}

impl Modes {
    /// Whether a constraint is to be checked at the end.
    fn puts_off(&self, id: ObjectId, timing: Timing) -> bool {
        let initially = match timing {
            Timing::NotDeferrable => return false,
            Timing::InitiallyImmediate => false,
            Timing::InitiallyDeferred => true,
        };
        self.named.get(&id).copied().or(self.all).unwrap_or(initially)
    }
}

/// What a transaction has put off.
#[derive(Debug, Default)]
pub(crate) struct Deferred {
    questions: Vec<Question>,
    /// Those, with the values as text: the same is asked once.
    known: HashSet<(ObjectId, Of, String)>,
    /// Those that the end of the statement answers [D4].
    of_statement: Vec<Question>,
    pub(crate) modes: Modes,
}

impl Deferred {
    pub(crate) fn is_empty(&self) -> bool {
        self.questions.is_empty()
    }

    /// The transaction is over.
    pub(crate) fn clear(&mut self) {
        let has_no_modes = self.modes.all.is_none() && self.modes.named.is_empty();
        if !(has_no_modes && self.is_empty() && self.of_statement.is_empty()) {
            *self = Deferred::default();
        }
    }

    fn note(&mut self, question: Question) {
        let values = format!("{:?}", question.values);
        if self.known.insert((question.constraint, question.of, values)) {
            self.questions.push(question);
        }
    }

    fn note_foreign(&mut self, key: &Key, of: Of, values: &[Value]) {
        let (constraint, table, values) = (key.id, key.child.def.id, values.to_vec());
        self.note(Question { constraint, table, of, values, types: types_of(key, of) });
    }

    /// Another row may have these values of a unique key.
    pub(crate) fn key(&mut self, key: &UniqueKey<'_>, table: &TableVersion, values: &[Value]) {
        let (id, timing) = (key.constraint.id, key.constraint.timing);
        let (values, types) = (values.to_vec(), key.types(table));
        let of = Of::Rows;
        let question = Question { constraint: id, table: table.def.id, of, values, types };
        match self.modes.puts_off(id, timing) {
            true => self.note(question),
            false => self.of_statement.push(question),
        }
    }

    /// A child has these values in the key's columns; false if that is to be looked at now.
    pub(crate) fn child(&mut self, key: &Key, values: &[Value]) -> bool {
        let later = self.modes.puts_off(key.id, key.def.timing);
        if later {
            self.note_foreign(key, Of::Child, values);
        }
        later
    }

    /// No parent has these values in the key's columns any more; false if that is to be looked at now.
    pub(crate) fn parent(&mut self, key: &Key, action: ForeignKeyAction, values: &[Value]) -> bool {
        let later =
            action == ForeignKeyAction::NoAction && self.modes.puts_off(key.id, key.def.timing);
        if later {
            self.note_foreign(key, Of::Parent, values);
        }
        later
    }
}

/// The types of the columns of a foreign key's side.
fn types_of(key: &Key, of: Of) -> Vec<ColumnType> {
    let (table, columns) = match of {
        Of::Parent => (&key.parent, key.parent_columns()),
        Of::Child | Of::Rows => (&key.child, key.child_columns()),
    };
    columns.iter().map(|at| table.def.columns[*at].ty).collect()
}

/// Which questions are asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    /// At the end of the transaction.
    All,
    /// Those of constraints that are not put off any more.
    Immediate,
}

impl Session {
    /// Answers what the transaction has put off, before it ends: 23503 or 23505 where the answer is no.
    pub(crate) async fn check_deferred(&mut self) -> Result<(), SqlError> {
        self.ask(Asked::All).await
    }

    async fn ask(&mut self, asked: Asked) -> Result<(), SqlError> {
        let limits = self.limits();
        let mut restarts = 0;
        while !self.deferred.is_empty() {
            let questions = self.deferred.questions.clone();
            let mark = self.mark(true);
            let outcome = self.answer_all(&questions, asked).await;
            if let Some(txn) = &mut self.txn {
                self.db.catalog().end_statement(txn);
            }
            match outcome {
                Ok(()) => break,
                Err(Stop::Error(e)) => return Err(e),
                Err(Stop::Restart) => {
                    restarts += 1;
                    self.restart(mark, restarts, &limits).await?;
                }
            }
        }
        Ok(())
    }

    async fn answer_all(&mut self, questions: &[Question], asked: Asked) -> Result<(), Stop> {
        let limits = self.limits();
        let db = self.db.clone();
        let txn = self.transaction()?;
        let version = db.catalog().begin_statement(txn, true, &limits).await?;
        let id = txn.id().0;
        self.state.set_catalog(&version, id, &limits);
        let eval = EvalContext::new(self.state.clone());
        let mut writer = self.writer(version, &limits, &eval)?;
        for question in questions {
            writer.answer(question, asked).await?;
        }
        Ok(())
    }

    /// SET CONSTRAINTS. What is immediate from now on is answered now.
    pub(crate) async fn set_constraints(
        &mut self,
        names: Option<&[ObjectName]>,
        deferred: bool,
    ) -> Result<(), SqlError> {
        if self.block == crate::session::Block::Idle {
            self.notice(
                "WARNING",
                SqlState::NO_ACTIVE_SQL_TRANSACTION,
                "SET CONSTRAINTS can only be used in transaction blocks",
            );
            let latest = self.db.catalog().latest();
            return self.deferrable(&latest, names.unwrap_or_default()).map(|_| ());
        }
        match names {
            None => {
                self.deferred.modes = Modes { all: Some(deferred), named: HashMap::new() };
            }
            Some(names) => {
                let db = self.db.clone();
                let catalog = db.catalog().view(self.transaction()?);
                for id in self.deferrable(&catalog, names)? {
                    self.deferred.modes.named.insert(id, deferred);
                }
            }
        }
        match deferred {
            true => Ok(()),
            false => self.ask(Asked::Immediate).await,
        }
    }

    /// The deferrable constraints of some names.
    fn deferrable(
        &self,
        catalog: &CatalogVersion,
        names: &[ObjectName],
    ) -> Result<Vec<ObjectId>, SqlError> {
        let path = self.settings.hot().search_path.clone();
        let mut found = Vec::new();
        for name in names {
            let (schema, name) = Names::parts(name)?;
            let is_near = |of: &String| schema.as_ref().map_or(path.contains(of), |s| s == of);
            let before = found.len();
            for table in catalog.tables.values().filter(|table| is_near(&table.def.schema)) {
                for constraint in table.def.constraints.iter().filter(|c| c.name == name) {
                    if !constraint.checked().is_deferrable() {
                        return Err(SqlError::new(
                            SqlState::WRONG_OBJECT_TYPE,
                            format!("constraint \"{name}\" is not deferrable"),
                        ));
                    }
                    found.push(constraint.id);
                }
            }
            if found.len() == before {
                return Err(SqlError::new(
                    SqlState::UNDEFINED_OBJECT,
                    format!("constraint \"{name}\" does not exist"),
                ));
            }
        }
        Ok(found)
    }
}

impl Writer<'_> {
    /// The statement has written all that it writes: its keys that are not put off [D4].
    pub(crate) async fn check_keys(&mut self) -> Result<(), Stop> {
        for question in std::mem::take(&mut self.deferred.of_statement) {
            Box::pin(self.answer(&question, Asked::Immediate)).await?;
        }
        Ok(())
    }

    async fn answer(&mut self, question: &Question, asked: Asked) -> Result<(), Stop> {
        // A constraint that is gone asks nothing.
        let Some(table) = self.version.tables.get(&question.table).cloned() else { return Ok(()) };
        let Some(constraint) = table.def.constraints.iter().find(|c| c.id == question.constraint)
        else {
            return Ok(());
        };
        let timing = constraint.checked();
        if asked == Asked::Immediate && self.deferred.modes.puts_off(constraint.id, timing) {
            return Ok(());
        }
        let cannot_convert = |writer: &Writer<'_>| writer.cannot_convert(&constraint.name);
        if question.of == Of::Rows {
            let key = UniqueKey::all_of(&table).find(|key| key.constraint.id == constraint.id);
            let Some(key) = key else { return Ok(()) };
            let values = question.values_now(&key.types(&table));
            let values = values.ok_or_else(|| cannot_convert(self))?;
            return self.one_row_has(&table, &key, &values).await;
        }
        let keys = Key::of_child(&table, &self.version)?;
        let Some(key) = keys.into_iter().find(|key| key.id == constraint.id) else {
            return Ok(());
        };
        let values = question.values_now(&types_of(&key, question.of));
        let values = values.ok_or_else(|| cannot_convert(self))?;
        if question.of == Of::Parent {
            return self.no_children_of(&key, &values).await;
        }
        match self.has_child(&key, &values)? {
            true => self.hold_parent_now(&key, &values).await,
            false => Ok(()),
        }
    }

    /// The owner of the change of a type has to ask before it; whom another's has met begins again.
    fn cannot_convert(&self, constraint: &str) -> SqlError {
        let state = match self.txn.extension.is_some() {
            true => SqlState::new("55006"),
            false => SqlState::SERIALIZATION_FAILURE,
        };
        SqlError::new(
            state,
            format!(
                "a column of constraint \"{constraint}\" got another type while rows waited to be checked"
            ),
        )
        .hint("Use SET CONSTRAINTS ALL IMMEDIATE before the change, or try the transaction again.")
    }
}

impl Question {
    /// The values in columns of these types; `None` if they cannot have them.
    fn values_now(&self, now: &[ColumnType]) -> Option<Vec<Value>> {
        if now == self.types {
            return Some(self.values.clone());
        }
        let changed = self.values.iter().zip(&self.types).zip(now);
        changed
            .map(|((value, was), is)| match fit(value.clone(), *was, *is) {
                Fit::Exact(value) => Some(value),
                Fit::Below | Fit::Above | Fit::Unusable => None,
            })
            .collect()
    }
}
