//! Errors of the engines. Each answers two questions by exhaustive match: which SQLSTATE, and
//! may the client retry.

use crate::env::EnvError;
use crate::id::{ColumnId, SpaceId};
use crate::value::{ColumnType, Value};

/// A five-character SQLSTATE (PostgreSQL, appendix A).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SqlState(pub [u8; 5]);

impl SqlState {
    /// The code from its five characters. Usable in constants.
    pub const fn new(code: &str) -> SqlState {
        let b = code.as_bytes();
        assert!(b.len() == 5, "an SQLSTATE has five characters");
        SqlState([b[0], b[1], b[2], b[3], b[4]])
    }

    /// The five characters.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("an SQLSTATE is ASCII by construction")
    }
}

impl std::fmt::Debug for SqlState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl std::fmt::Display for SqlState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

macro_rules! states {
    ($($name:ident = $code:literal;)*) => {
        impl SqlState { $(
            #[doc = concat!("`", $code, "`")]
            pub const $name: SqlState = SqlState::new($code);
        )* }
    };
}

states! {
    SUCCESSFUL_COMPLETION = "00000";
    WARNING = "01000";
    CONNECTION_EXCEPTION = "08000";
    CONNECTION_FAILURE = "08006";
    TRANSACTION_RESOLUTION_UNKNOWN = "08007";
    PROTOCOL_VIOLATION = "08P01";
    FEATURE_NOT_SUPPORTED = "0A000";
    INVALID_GRANT_OPERATION = "0LP01";
    CARDINALITY_VIOLATION = "21000";
    DATA_EXCEPTION = "22000";
    STRING_DATA_RIGHT_TRUNCATION = "22001";
    NUMERIC_VALUE_OUT_OF_RANGE = "22003";
    DATETIME_FIELD_OVERFLOW = "22008";
    DIVISION_BY_ZERO = "22012";
    CHARACTER_NOT_IN_REPERTOIRE = "22021";
    INVALID_PARAMETER_VALUE = "22023";
    INVALID_TEXT_REPRESENTATION = "22P02";
    INVALID_BINARY_REPRESENTATION = "22P03";
    BAD_COPY_FILE_FORMAT = "22P04";
    NOT_NULL_VIOLATION = "23502";
    FOREIGN_KEY_VIOLATION = "23503";
    UNIQUE_VIOLATION = "23505";
    CHECK_VIOLATION = "23514";
    ACTIVE_SQL_TRANSACTION = "25001";
    READ_ONLY_SQL_TRANSACTION = "25006";
    NO_ACTIVE_SQL_TRANSACTION = "25P01";
    IN_FAILED_SQL_TRANSACTION = "25P02";
    IDLE_IN_TRANSACTION_SESSION_TIMEOUT = "25P03";
    INVALID_SQL_STATEMENT_NAME = "26000";
    INVALID_AUTHORIZATION = "28000";
    INVALID_PASSWORD = "28P01";
    DEPENDENT_OBJECTS_STILL_EXIST = "2BP01";
    INVALID_CURSOR_NAME = "34000";
    INVALID_CATALOG_NAME = "3D000";
    INVALID_SCHEMA_NAME = "3F000";
    INVALID_SAVEPOINT = "3B001";
    SERIALIZATION_FAILURE = "40001";
    DEADLOCK_DETECTED = "40P01";
    SYNTAX_ERROR = "42601";
    NAME_TOO_LONG = "42622";
    INVALID_NAME = "42602";
    RESERVED_NAME = "42939";
    INVALID_COLUMN_REFERENCE = "42P10";
    UNDEFINED_COLUMN = "42703";
    UNDEFINED_FUNCTION = "42883";
    UNDEFINED_TABLE = "42P01";
    UNDEFINED_OBJECT = "42704";
    UNDEFINED_PARAMETER = "42P02";
    DUPLICATE_COLUMN = "42701";
    DUPLICATE_CURSOR = "42P03";
    DUPLICATE_TABLE = "42P07";
    DUPLICATE_OBJECT = "42710";
    DUPLICATE_SCHEMA = "42P06";
    DUPLICATE_PREPARED_STATEMENT = "42P05";
    AMBIGUOUS_COLUMN = "42702";
    DATATYPE_MISMATCH = "42804";
    CANNOT_COERCE = "42846";
    GROUPING_ERROR = "42803";
    INSUFFICIENT_PRIVILEGE = "42501";
    WRONG_OBJECT_TYPE = "42809";
    INDETERMINATE_DATATYPE = "42P18";
    INVALID_TABLE_DEFINITION = "42P16";
    INVALID_FOREIGN_KEY = "42830";
    DISK_FULL = "53100";
    OUT_OF_MEMORY = "53200";
    TOO_MANY_CONNECTIONS = "53300";
    PROGRAM_LIMIT_EXCEEDED = "54000";
    STATEMENT_TOO_COMPLEX = "54001";
    TOO_MANY_COLUMNS = "54011";
    OBJECT_NOT_IN_PREREQUISITE_STATE = "55000";
    OBJECT_IN_USE = "55006";
    LOCK_NOT_AVAILABLE = "55P03";
    CANT_CHANGE_RUNTIME_PARAM = "55P02";
    QUERY_CANCELED = "57014";
    ADMIN_SHUTDOWN = "57P01";
    CANNOT_CONNECT_NOW = "57P03";
    IDLE_SESSION_TIMEOUT = "57P05";
    IO_ERROR = "58030";
    UNDEFINED_FILE = "58P01";
    SEQUENCE_LIMIT_EXCEEDED = "2200H";
    SNAPSHOT_TOO_OLD = "72000";
    CONFIG_FILE_ERROR = "F0000";
    DATA_CORRUPTED = "XX001";
    INTERNAL_ERROR = "XX000";
}

/// What an engine may fail with, beside the conflicts of [`crate::WriteStop`].
#[derive(Debug, Clone, thiserror::Error)]
pub enum EngineError {
    /// The configured memory limit would be passed.
    #[error(
        "memory limit of {limit_bytes} bytes reached ({used_bytes} bytes in use, {asked_bytes} more asked for)"
    )]
    MemoryLimit {
        /// The configured limit.
        limit_bytes: u64,
        /// What is in use.
        used_bytes: u64,
        /// What would have been allocated.
        asked_bytes: u64,
    },
    /// The log failed; nothing can be acknowledged any more.
    #[error("the log cannot be written: {0}")]
    LogFailed(std::sync::Arc<dyn std::error::Error + Send + Sync>),
    /// There is no space for a file; the message names it.
    #[error("{0}")]
    DiskFull(std::sync::Arc<dyn std::error::Error + Send + Sync>),
    /// A file could not be read or written.
    #[error(transparent)]
    Env(#[from] std::sync::Arc<EnvError>),
    /// Something the engine cannot work without: the lock of its directory, a thread, a checkpoint's file.
    #[error("{what}: {source}")]
    Unusable {
        /// What.
        what: String,
        /// Why.
        source: std::sync::Arc<dyn std::error::Error + Send + Sync>,
    },
    /// A file holds bytes that it should not.
    #[error("{file} is corrupt at byte {offset}: {what}")]
    Corrupt {
        /// The file.
        file: String,
        /// Where in it.
        offset: u64,
        /// What was expected and found.
        what: String,
    },
    /// The row space is not there.
    #[error("row space {0} does not exist")]
    NoSpace(SpaceId),
    /// What stands between the engine and its user does not do this.
    #[error("{message}")]
    Refused {
        /// PostgreSQL's code.
        state: SqlState,
        /// What, and what to do.
        message: String,
    },
    /// A value of another type than its column.
    #[error("column {column} of type {ty:?} was given {value:?}")]
    WrongType {
        /// The column.
        column: ColumnId,
        /// Its type.
        ty: ColumnType,
        /// What it was given.
        value: Box<Value>,
    },
}

impl From<EnvError> for EngineError {
    fn from(error: EnvError) -> EngineError {
        EngineError::Env(std::sync::Arc::new(error))
    }
}

impl EngineError {
    /// PostgreSQL's code for this error.
    pub fn sqlstate(&self) -> SqlState {
        match self {
            EngineError::MemoryLimit { .. } => SqlState::OUT_OF_MEMORY,
            EngineError::DiskFull(_) => SqlState::DISK_FULL,
            EngineError::Env(error) if error.is_disk_full() => SqlState::DISK_FULL,
            EngineError::LogFailed(_) | EngineError::Env(_) | EngineError::Unusable { .. } => {
                SqlState::IO_ERROR
            }
            EngineError::Corrupt { .. } => SqlState::DATA_CORRUPTED,
            EngineError::Refused { state, .. } => *state,
            EngineError::NoSpace(_) | EngineError::WrongType { .. } => SqlState::INTERNAL_ERROR,
        }
    }

    /// Whether the same transaction may succeed when it is tried again.
    pub fn retryable(&self) -> bool {
        match self {
            EngineError::MemoryLimit { .. } => true,
            EngineError::LogFailed(_)
            | EngineError::DiskFull(_)
            | EngineError::Env(_)
            | EngineError::Unusable { .. }
            | EngineError::Corrupt { .. }
            | EngineError::NoSpace(_)
            | EngineError::Refused { .. }
            | EngineError::WrongType { .. } => false,
        }
    }
}

/// How a read ends that has no error to return ([`crate::Table::seek`]): it unwinds to whoever runs the
/// statement. Rows that are there can be read; but those that have yet to be made may find no memory.
pub struct ReadFailed(EngineError);

impl ReadFailed {
    /// Ends a read. Nobody is told of a panic, for it is none.
    pub fn unwind(error: EngineError) -> ! {
        std::panic::resume_unwind(Box::new(ReadFailed(error)))
    }

    /// The error, of what was caught; a panic goes on.
    pub fn caught(panic: Box<dyn std::any::Any + Send>) -> EngineError {
        match panic.downcast::<ReadFailed>() {
            Ok(failed) => failed.0,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}
