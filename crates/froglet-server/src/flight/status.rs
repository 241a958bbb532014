//! Errors as gRPC has them.
//!
//! The message ends with PostgreSQL's code, as `… (SQLSTATE 42P01)`, with detail and hint on lines of
//! their own; metadata `sqlstate` has the code alone. The gRPC code is what drivers choose their
//! class of error by. A message is a header: clients refuse long ones, and lose the error with them.

use std::borrow::Cow;

use froglet_engine::SqlState;
use froglet_sql::SqlError;
use tonic::metadata::{MetadataMap, MetadataValue};
use tonic::{Code, Status};

/// The message, and all the lines behind it together, are not longer in a header. gRPC takes 8 KB of
/// headers.
const MOST_BYTES: usize = 3 << 10;

/// An error of a statement.
pub(super) fn of(error: &SqlError) -> Status {
    let mut message = format!("{} (SQLSTATE {})", cut(&error.message, MOST_BYTES), error.state);
    let lines = [("DETAIL", &error.detail), ("HINT", &error.hint), ("CONTEXT", &error.context)];
    for (word, line) in lines {
        if let Some(line) = line {
            message.push_str(&format!("\n{word}:  {}", cut(line, MOST_BYTES / lines.len())));
        }
    }
    let mut metadata = MetadataMap::new();
    if let Ok(state) = MetadataValue::try_from(error.state.to_string()) {
        metadata.insert("sqlstate", state);
    }
    Status::with_metadata(code(error.state), message, metadata)
}

/// A text that takes so many bytes of a header at most. There a byte that is no printable ASCII is three.
fn cut(text: &str, bytes_max: usize) -> Cow<'_, str> {
    let mut bytes = 0;
    let end = text.find(|c: char| {
        bytes += if matches!(c, ' '..='~') && c != '%' { 1 } else { 3 * c.len_utf8() };
        bytes > bytes_max
    });
    match end {
        None => text.into(),
        Some(end) => format!("{}...", &text[..end]).into(),
    }
}

/// The gRPC code of a SQLSTATE.
fn code(state: SqlState) -> Code {
    let text = state.to_string();
    match text.as_str() {
        "57014" => Code::Cancelled,
        "42501" => Code::PermissionDenied,
        "42P07" | "42701" | "42710" | "42P06" | "23505" => Code::AlreadyExists,
        "42P01" | "42703" | "42704" | "42883" | "3D000" | "3F000" | "26000" | "34000" => {
            Code::NotFound
        }
        _ => match &text[..2] {
            "0A" => Code::Unimplemented,
            "08" | "22" | "42" => Code::InvalidArgument,
            "23" | "24" | "25" | "55" => Code::FailedPrecondition,
            "28" => Code::Unauthenticated,
            "40" => Code::Aborted,
            "53" => Code::ResourceExhausted,
            "57" => Code::Unavailable,
            _ => Code::Internal,
        },
    }
}

/// A request that is not of the protocol.
pub(super) fn malformed(what: impl std::fmt::Display) -> Status {
    of(&SqlError::new(SqlState::PROTOCOL_VIOLATION, format!("malformed request: {what}")))
}

/// A request for what there is not here.
pub(super) fn unsupported(what: impl std::fmt::Display) -> Status {
    of(&SqlError::unsupported(what))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_never_too_long() {
        let long = |text: &str| Some(text.repeat(5000));
        for text in ["x", "ü", "%", "\n"] {
            let error = SqlError {
                message: long(text).expect("some"),
                detail: long(text),
                hint: long(text),
                context: long(text),
                ..SqlError::new(SqlState::UNDEFINED_TABLE, "")
            };
            let headers = of(&error).into_http::<()>();
            let bytes: usize = headers.headers().iter().map(|(_, value)| value.len()).sum();
            assert!((6000..7000).contains(&bytes), "{bytes} bytes of {text:?}");
        }
        assert_eq!(cut("short", 5), "short");
        assert_eq!(cut("shorter", 5), "short...");
        assert_eq!(cut("üü", 11), "ü...");
    }

    #[test]
    fn an_error_says_its_sqlstate_and_what_to_do() {
        let error = SqlError::new(SqlState::UNDEFINED_TABLE, "no table \"t\"").hint("Make one.");
        let status = of(&error);
        assert_eq!(status.code(), Code::NotFound);
        assert_eq!(status.message(), "no table \"t\" (SQLSTATE 42P01)\nHINT:  Make one.");
        assert_eq!(status.metadata().get("sqlstate").expect("it is there"), "42P01");
    }
}
