//! Any text at all, as what a client sends: parsed, planned and run by a session, or refused.

use std::sync::Arc;
use std::time::Duration;

use froglet_memory::{MemoryEngine, MemoryOptions};
use froglet_sql::{ConnectOptions, Database, Defaults, Outcome, Session, SqlError};

/// What no statement may make the engine ask for.
const MEMORY_BYTES: u64 = 64 << 20;
/// Rows that are taken of one answer.
const ROWS_MAX: usize = 10_000;
/// Past its statement_timeout, and then as long as a busy machine may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// An empty database whose statements may not take long.
pub async fn database() -> Arc<Database> {
    let options = MemoryOptions { memory_limit_bytes: MEMORY_BYTES, ..MemoryOptions::default() };
    let engine = MemoryEngine::open(options).expect("an engine without files");
    let settings = vec![("statement_timeout".to_owned(), "300ms".to_owned())];
    Database::open(engine, Defaults { settings, ..Defaults::default() })
        .await
        .expect("an empty catalog opens")
}

/// A text as one message on a connection of its own.
pub async fn run(db: &Arc<Database>, text: &str) -> Result<(), SqlError> {
    let mut session = db.connect(ConnectOptions::default())?;
    let outcome = tokio::time::timeout(PATIENCE, message(&mut session, text)).await;
    let outcome = outcome.unwrap_or_else(|_| panic!("statement_timeout did not end\n{text}"));
    let finished = session.finish_implicit(outcome.is_ok()).await;
    outcome.and(finished)
}

async fn message(session: &mut Session, text: &str) -> Result<(), SqlError> {
    for statement in session.split(text)? {
        match session.simple(&statement).await? {
            Outcome::Rows(mut stream) => {
                let mut rows = 0;
                while let Some(batch) = stream.next().await {
                    rows += match batch {
                        Ok(froglet_sql::Rows::Values(values)) => values.len(),
                        Ok(froglet_sql::Rows::Batch(batch)) => batch.num_rows(),
                        Err(error) => {
                            session.note_failure();
                            return Err(error);
                        }
                    };
                    if rows > ROWS_MAX {
                        break;
                    }
                }
            }
            Outcome::CopyOut(mut copy) => {
                while let Some(bytes) = copy.next().await {
                    bytes?;
                }
            }
            Outcome::CopyIn(mut copy) => {
                copy.feed(session, b"1\t2\n\\.\n").await?;
                copy.finish(session).await?;
            }
            Outcome::Done(_) | Outcome::Empty => {}
        }
    }
    Ok(())
}
