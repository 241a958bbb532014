//! SQL errors and notices, as PostgreSQL's clients expect them.

use froglet_engine::{ColumnId, EngineError, SqlState};
use froglet_schema::{ObjectId, SchemaError};
use froglet_txn::TxnError;

/// An error with everything PostgreSQL's ErrorResponse has a field for.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct SqlError {
    /// The code.
    pub state: SqlState,
    /// What was wrong, with the value.
    pub message: String,
    /// More of it.
    pub detail: Option<String>,
    /// What to do.
    pub hint: Option<String>,
    /// Where the server was when it happened.
    pub context: Option<String>,
    /// Character position in the statement, from 1.
    pub position: Option<u32>,
    /// The statement that this is about, where the one that was sent runs others.
    pub inner: Option<Box<InnerStatement>>,
    /// The constraint violated.
    pub constraint: Option<String>,
    /// The table concerned.
    pub table: Option<String>,
    /// The column concerned.
    pub column: Option<String>,
    /// Whose values the detail shows.
    pub shows: Option<Box<Shown>>,
    /// Whether the connection ends with it (FATAL).
    pub fatal: bool,
}

/// A statement that another has run.
#[derive(Debug, Clone)]
pub struct InnerStatement {
    /// Its text.
    pub text: String,
    /// Where in that, in characters from 1.
    pub position: Option<u32>,
}

/// Values that an error's detail shows: for who may read them.
#[derive(Debug, Clone)]
pub struct Shown {
    /// The table.
    pub table: ObjectId,
    /// Its columns.
    pub columns: Vec<ColumnId>,
    /// The detail for who may not.
    pub without: Option<String>,
}

impl SqlError {
    /// An error of a code and a message.
    pub fn new(state: SqlState, message: impl Into<String>) -> SqlError {
        SqlError {
            state,
            message: message.into(),
            detail: None,
            hint: None,
            context: None,
            position: None,
            inner: None,
            constraint: None,
            table: None,
            column: None,
            shows: None,
            fatal: false,
        }
    }

    /// 0A000: named, and nothing has changed.
    pub fn unsupported(what: impl std::fmt::Display) -> SqlError {
        SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, format!("{what} is not supported"))
    }

    /// With a detail line that shows values of a table's columns; who may not read them gets the other.
    pub(crate) fn showing(
        mut self,
        table: ObjectId,
        columns: Vec<ColumnId>,
        detail: String,
        without: Option<String>,
    ) -> SqlError {
        self.detail = Some(detail);
        self.shows = Some(Box::new(Shown { table, columns, without }));
        self
    }

    /// With a detail line.
    pub fn detail(mut self, text: impl Into<String>) -> SqlError {
        self.detail = Some(text.into());
        self
    }

    /// With a hint.
    pub fn hint(mut self, text: impl Into<String>) -> SqlError {
        self.hint = Some(text.into());
        self
    }

    /// With a place, outermost last: what there is stays before it.
    pub fn context(mut self, place: impl Into<String>) -> SqlError {
        let place = place.into();
        self.context = Some(match self.context {
            Some(inner) => format!("{inner}\n{place}"),
            None => place,
        });
        self
    }

    /// With a position.
    pub fn at(mut self, position: u32) -> SqlError {
        self.position = Some(position);
        self
    }
}

impl From<TxnError> for SqlError {
    fn from(e: TxnError) -> SqlError {
        let mut error = SqlError::new(e.sqlstate(), e.to_string());
        match e {
            TxnError::Refused { detail, hint, .. } => {
                error.detail = detail;
                error.hint = hint;
            }
            TxnError::Deadlock { circle } => {
                let steps: Vec<String> = (0..circle.len())
                    .map(|i| {
                        let holder = circle[(i + 1) % circle.len()];
                        format!("Transaction {} waits for transaction {holder}.", circle[i])
                    })
                    .collect();
                error.detail = Some(steps.join("\n"));
                error.hint = Some("Run the transaction again.".to_owned());
            }
            TxnError::Shutdown => error.fatal = true,
            TxnError::InDoubt(_) => {
                error.fatal = true;
                error.hint = Some(
                    "When a server answers again, look whether the transaction's changes are there."
                        .to_owned(),
                );
            }
            _ => {}
        }
        error
    }
}

impl From<EngineError> for SqlError {
    fn from(e: EngineError) -> SqlError {
        SqlError::from(TxnError::Engine(e))
    }
}

impl From<SchemaError> for SqlError {
    fn from(e: SchemaError) -> SqlError {
        match e {
            SchemaError::Refused { state, message, detail, hint } => {
                SqlError { detail, hint, ..SqlError::new(state, message) }
            }
            SchemaError::Txn(e) => e.into(),
            e => SqlError::new(e.sqlstate(), e.to_string()),
        }
    }
}

/// A NOTICE, WARNING or INFO for the client.
#[derive(Debug, Clone)]
pub struct Notice {
    /// NOTICE, WARNING, INFO
    pub severity: &'static str,
    /// The code.
    pub state: SqlState,
    /// The text.
    pub message: String,
    /// More of it.
    pub detail: Option<String>,
    /// What to do.
    pub hint: Option<String>,
}

impl Notice {
    /// A message of a severity, a code and a text.
    pub fn new(severity: &'static str, state: SqlState, message: impl Into<String>) -> Notice {
        Notice { severity, state, message: message.into(), detail: None, hint: None }
    }
}
