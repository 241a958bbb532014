//! COPY: rows between a table or query and the client, or a file of the server.
//!
//! ```text
//!            ┌ stdin.rs  ◀ the client's messages                 lines, tuples  split.rs
//!   target.rs┤                                                        ▲
//!   (INSERT) └ from_file.rs ◀ a thread that reads ◀ file  ────────────┤
//!                                                             columns │ columnar.rs, parquet.rs, ipc.rs
//!            ┌ stdout.rs ▶ the client's messages                      ▼
//!   read.rs ─┤                                                lines, tuples  rows.rs
//!   (SELECT) └ to_file.rs ▶ a thread that writes ▶ file       columns        columnar.rs, sink.rs
//! ```
//! `parse.rs` and `options.rs` say what is asked for, `directory.rs` where files are, `progress.rs` how far a
//! COPY is.
//!
//! C1: nothing here waits for a disk on a session's thread: files are read and written by threads of the
//!     queries' runtime, with at most two batches between them and the session.
//! C2: whatever ends a session's future ends its threads: they see that nobody takes or gives batches.
//!
//! Left out: COPY from and to programs, WHERE of COPY FROM, options of PostgreSQL 16 and later.

mod cells;
mod columnar;
pub mod directory;
mod from_file;
mod ipc;
mod options;
mod parquet;
mod parquet_check;
mod parse;
pub mod progress;
mod read;
mod rows;
mod sink;
mod split;
pub mod stdin;
pub mod stdout;
mod target;
mod threads;
mod to_file;

use froglet_engine::SqlState;

use crate::bulk;
use crate::context::SessionFunctions;
use crate::error::SqlError;
use crate::roles;
use crate::session::Session;
use crate::stream::Outcome;
use directory::Place;
use options::CopyOptions;
use parse::{End, Source};
use read::Reading;
use rows::RowFormat;
use target::Target;
use threads::working;

pub use parse::Copy;
pub(crate) use parse::parse;
pub use rows::CopyRows;
pub use stdin::CopyIn;
pub use stdout::CopyOut;

/// Runs a COPY, or begins one that is the client's to go on with.
pub(crate) async fn run(session: &mut Session, copy: &Copy) -> Result<Outcome, SqlError> {
    if matches!(copy.end, End::Program) {
        return Err(SqlError::unsupported("COPY from or to a program of the server")
            .hint("Use COPY FROM STDIN or TO STDOUT, or psql's \\copy."));
    }
    let options = CopyOptions::of(copy)?;
    let place = match &copy.end {
        End::File(name) => Some(place(session, name).await?),
        _ => None,
    };
    let file = place.is_some();
    if copy.to {
        let reading = Reading::begin(session, copy, &options, file).await?;
        return match place {
            Some(place) => to_file::run(session, reading, options, place).await.map(Outcome::Done),
            None => {
                let format = RowFormat::new(reading.fields.clone(), options);
                Ok(Outcome::CopyOut(Box::new(CopyOut::new(reading, format, session.zone()))))
            }
        };
    }
    let Source::Table { name, columns } = &copy.source else {
        return Err(SqlError::unsupported("COPY of a query FROM"));
    };
    let target = Target::open(session, name, columns, file).await?;
    target.check(&options).inspect_err(|_| bulk::end(session))?;
    match place {
        Some(place) => {
            let all = columns.is_empty();
            let outcome = from_file::run(session, target, options, place, all).await;
            bulk::end(session);
            outcome.map(Outcome::Done)
        }
        None => Ok(Outcome::CopyIn(Box::new(CopyIn::new(target, options)))),
    }
}

/// Where a file is, if files may be used at all.
async fn place(session: &Session, name: &str) -> Result<Place, SqlError> {
    if !session.state.is_superuser() {
        return Err(roles::denied("must be superuser to COPY to or from a file of the server")
            .hint("psql's \\copy and COPY with STDIN or STDOUT need nothing."));
    }
    let Some(directory) = session.db.copy_directory().cloned() else {
        return Err(SqlError::new(
            SqlState::FEATURE_NOT_SUPPORTED,
            "COPY to or from a file of the server is not enabled",
        )
        .detail("The server was started without copy_directory.")
        .hint(
            "Start it with --copy-directory DIR, or copy_directory in its configuration file. \
             psql's \\copy and COPY with STDIN or STDOUT need nothing.",
        ));
    };
    let name = name.to_owned();
    working(move || directory.place(&name)).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Command;

    /// What a COPY says.
    pub(super) fn parsed(sql: &str) -> Copy {
        let mut statements = crate::parse::split(sql, &mut Vec::new()).expect(sql);
        let command = statements.remove(0).command;
        match std::sync::Arc::into_inner(command) {
            Some(Command::Copy(copy)) => *copy,
            _ => panic!("no COPY: {sql}"),
        }
    }
}
