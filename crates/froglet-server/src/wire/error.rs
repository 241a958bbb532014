//! Bytes that are no message, and what the client is told about them.

use froglet_engine::SqlState;

/// Bytes that are no message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// A type byte that no client message has.
    #[error("invalid frontend message type {0}")]
    UnknownType(u8),
    /// Anything else where a password was asked for.
    #[error("expected a password or SASL response, got message type {0}")]
    NoPassword(u8),
    /// A length no message of its type may have.
    #[error("invalid message length {length} of a message of type {kind:?}")]
    Length {
        /// The type byte; NUL before startup.
        kind: char,
        /// The length field.
        length: u32,
    },
    /// Longer than the server takes.
    #[error("message of {length} bytes is longer than the limit of {limit} bytes")]
    TooLong {
        /// The length field.
        length: u32,
        /// The limit.
        limit: u32,
    },
    /// A body that ends before what it announces.
    #[error("insufficient data left in message of type {kind:?}")]
    Short {
        /// The type byte.
        kind: char,
    },
    /// A body that goes on after its end.
    #[error("invalid message format: {extra} bytes too many in message of type {kind:?}")]
    Extra {
        /// The type byte.
        kind: char,
        /// How many bytes.
        extra: usize,
    },
    /// A string without its terminating zero.
    #[error("invalid string in message of type {kind:?}: no terminating zero")]
    Unterminated {
        /// The type byte.
        kind: char,
    },
    /// A string that is not UTF-8.
    #[error("invalid byte sequence for encoding \"UTF8\": {bytes}")]
    Utf8 {
        /// The first offending bytes, as `0xff 0xfe`.
        bytes: String,
    },
    /// A value a field may not have.
    #[error("invalid {field} {value} in message of type {kind:?}")]
    Field {
        /// The type byte.
        kind: char,
        /// Which field.
        field: &'static str,
        /// Its value.
        value: i64,
    },
    /// A Bind whose parameter formats are neither none, nor one, nor one for each parameter.
    #[error("bind message has {formats} parameter formats but {parameters} parameters")]
    Formats {
        /// How many formats.
        formats: usize,
        /// How many parameters.
        parameters: usize,
    },
    /// A protocol nobody speaks here.
    #[error("unsupported frontend protocol {major}.{minor}: server supports 3.0")]
    Version {
        /// The major version asked for.
        major: u16,
        /// The minor version asked for.
        minor: u16,
    },
    /// A startup packet whose parameters are not pairs of strings and a final zero.
    #[error("invalid startup packet layout: expected terminator as last byte")]
    StartupLayout,
}

impl WireError {
    /// PostgreSQL's code.
    pub fn sqlstate(&self) -> SqlState {
        match self {
            WireError::Utf8 { .. } => SqlState::CHARACTER_NOT_IN_REPERTOIRE,
            WireError::Version { .. } => SqlState::FEATURE_NOT_SUPPORTED,
            WireError::UnknownType(_)
            | WireError::NoPassword(_)
            | WireError::Length { .. }
            | WireError::TooLong { .. }
            | WireError::Short { .. }
            | WireError::Extra { .. }
            | WireError::Unterminated { .. }
            | WireError::Field { .. }
            | WireError::Formats { .. }
            | WireError::StartupLayout => SqlState::PROTOCOL_VIOLATION,
        }
    }

    /// Whether the next message's beginning is unknown, so that the connection has to end.
    pub fn fatal(&self) -> bool {
        match self {
            WireError::UnknownType(_)
            | WireError::NoPassword(_)
            | WireError::Length { .. }
            | WireError::TooLong { .. }
            | WireError::Version { .. }
            | WireError::StartupLayout => true,
            WireError::Short { .. }
            | WireError::Extra { .. }
            | WireError::Unterminated { .. }
            | WireError::Utf8 { .. }
            | WireError::Field { .. }
            | WireError::Formats { .. } => false,
        }
    }
}

/// Text that must be UTF-8; the error shows the first offending bytes as PostgreSQL does.
pub fn utf8(bytes: &[u8]) -> Result<&str, WireError> {
    std::str::from_utf8(bytes).map_err(|e| {
        let from = e.valid_up_to();
        let length = e.error_len().unwrap_or(bytes.len() - from).clamp(1, 4);
        let shown: Vec<String> =
            bytes[from..].iter().take(length).map(|b| format!("{b:#04x}")).collect();
        WireError::Utf8 { bytes: shown.join(" ") }
    })
}
