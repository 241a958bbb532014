//! Any bytes at all, as a file that COPY is to read: rows, or an error that says what is wrong with the file.

use std::path::Path;
use std::sync::Arc;

use froglet_memory::{MemoryEngine, MemoryOptions};
use froglet_sql::{ConnectOptions, CopyDirectory, Database, Defaults, Outcome, SqlError};

/// What no file may make the engine ask for.
const MEMORY_BYTES: u64 = 64 << 20;

/// The table that files are read into, and what valid ones are made of.
pub const TABLE: &str =
    "create table t (id bigint, s smallint, b boolean, r real, d double precision,
    n numeric(12, 2), v text, c char(5), y bytea, a date, p timestamp, z timestamptz, g uuid)";

/// An empty database whose COPY uses files in a directory.
pub async fn database(directory: &Path) -> Arc<Database> {
    let options = MemoryOptions { memory_limit_bytes: MEMORY_BYTES, ..MemoryOptions::default() };
    let engine = MemoryEngine::open(options).expect("an engine without files");
    let copy_directory = CopyDirectory::open(directory).expect("the directory is there");
    let settings = vec![("statement_timeout".to_owned(), "10s".to_owned())];
    let defaults = Defaults {
        settings,
        copy_directory: Some(Arc::new(copy_directory)),
        ..Defaults::default()
    };
    Database::open(engine, defaults).await.expect("an empty catalog opens")
}

/// Statements on a connection of their own, all or none of them.
pub async fn run(db: &Arc<Database>, sql: &str) -> Result<(), SqlError> {
    let mut session = db.connect(ConnectOptions::default())?;
    let mut outcome = Ok(());
    for statement in session.split(sql)? {
        match session.simple(&statement).await {
            Ok(Outcome::Rows(mut stream)) => {
                while let Some(rows) = stream.next().await {
                    rows?;
                }
            }
            Ok(_) => {}
            Err(error) => {
                outcome = Err(error);
                break;
            }
        }
    }
    let finished = session.finish_implicit(outcome.is_ok()).await;
    outcome.and(finished)
}

/// Reads a file of these bytes. Nothing of it stays.
pub async fn read(
    db: &Arc<Database>,
    directory: &Path,
    format: &str,
    bytes: &[u8],
) -> Result<(), SqlError> {
    std::fs::write(directory.join("suspect"), bytes).expect("the file is written");
    let outcome = run(db, &format!("copy t from 'suspect' (format {format})")).await;
    run(db, "truncate t").await.expect("the table is there");
    outcome
}
