//! What a schema change may fail with.

use froglet_engine::{EngineError, MigrateError, SqlState};
use froglet_txn::TxnError;

/// An error of a schema change or of the catalog.
#[derive(Debug, thiserror::Error)]
pub enum SchemaError {
    /// The change cannot be made, for a reason that the user can read.
    #[error("{message}")]
    Refused {
        /// PostgreSQL's code.
        state: SqlState,
        /// What was wrong, with the value.
        message: String,
        /// More of it (the violating row).
        detail: Option<String>,
        /// What to do.
        hint: Option<String>,
    },
    /// Another transaction has changed the object since the statement's snapshot. READ COMMITTED
    /// takes a new one and tries again.
    #[error("the object was changed by a concurrent transaction")]
    Stale,
    /// A transaction error.
    #[error(transparent)]
    Txn(#[from] TxnError),
    /// An engine error.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The catalog holds something that cannot be read.
    #[error("catalog object {id} cannot be read: {source}")]
    Corrupt {
        /// Its id.
        id: i64,
        /// Why.
        source: serde_json::Error,
    },
}

impl SchemaError {
    /// A refusal without detail.
    pub fn refused(state: SqlState, message: impl Into<String>) -> SchemaError {
        SchemaError::Refused { state, message: message.into(), detail: None, hint: None }
    }

    /// With a detail line.
    pub fn with_detail(mut self, text: impl Into<String>) -> SchemaError {
        if let SchemaError::Refused { detail, .. } = &mut self {
            *detail = Some(text.into());
        }
        self
    }

    /// With a hint.
    pub fn with_hint(mut self, text: impl Into<String>) -> SchemaError {
        if let SchemaError::Refused { hint, .. } = &mut self {
            *hint = Some(text.into());
        }
        self
    }

    /// PostgreSQL's code.
    pub fn sqlstate(&self) -> SqlState {
        match self {
            SchemaError::Refused { state, .. } => *state,
            SchemaError::Stale => SqlState::SERIALIZATION_FAILURE,
            SchemaError::Txn(e) => e.sqlstate(),
            SchemaError::Engine(e) => e.sqlstate(),
            SchemaError::Corrupt { .. } => SqlState::DATA_CORRUPTED,
        }
    }
}

impl From<MigrateError> for SchemaError {
    fn from(e: MigrateError) -> SchemaError {
        match e {
            MigrateError::Engine(e) => SchemaError::Engine(e),
            MigrateError::Transform(e) => match e.downcast::<SchemaError>() {
                Ok(e) => *e,
                Err(e) => SchemaError::refused(SqlState::INTERNAL_ERROR, e.to_string()),
            },
        }
    }
}

impl From<SchemaError> for MigrateError {
    fn from(e: SchemaError) -> MigrateError {
        MigrateError::Transform(Box::new(e))
    }
}

/// As the commit hook reports it.
impl From<SchemaError> for TxnError {
    fn from(e: SchemaError) -> TxnError {
        match e {
            SchemaError::Txn(e) => e,
            SchemaError::Engine(e) => TxnError::Engine(e),
            SchemaError::Refused { state, message, detail, hint } => {
                TxnError::Refused { state, message, detail, hint }
            }
            e @ (SchemaError::Stale | SchemaError::Corrupt { .. }) => TxnError::Refused {
                state: e.sqlstate(),
                message: e.to_string(),
                detail: None,
                hint: None,
            },
        }
    }
}
