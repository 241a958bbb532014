//! Mutated statements: a session answers or refuses every text, it never panics and never hangs.
//! The statements of `tests/sql` are mutated and spliced, and run on the tables that they make;
//! what runs them is what the fuzz target `sql` runs under libFuzzer.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use froglet_engine::SqlState;
use froglet_sql::Database;
use froglet_testkit::mutate::{self, Random, Suspect};
use sqllogictest::{DefaultColumnType, Record};

#[path = "../../../../fuzz/entries/sql.rs"]
mod sql_entry;

fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sql");
    let entries = std::fs::read_dir(folder).expect("tests/sql is there");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("readable").path()).collect();
    files.sort();
    files
}

/// The statements of a file, in order.
fn statements(path: &Path) -> Vec<String> {
    let records = sqllogictest::parse_file::<DefaultColumnType>(path).expect("the file parses");
    let sql = |record: Record<DefaultColumnType>| match record {
        Record::Statement { sql, .. } | Record::Query { sql, .. } => Some(sql),
        _ => None,
    };
    records.into_iter().filter_map(sql).collect()
}

/// A database after a file has run on it.
async fn world(statements: &[String]) -> Arc<Database> {
    let db = sql_entry::database().await;
    for sql in statements {
        // Some are there to fail.
        let _ = sql_entry::run(&db, sql).await;
    }
    db
}

#[test]
fn every_mutated_text_is_split_or_refused() {
    let texts: Vec<String> = files().iter().flat_map(|path| statements(path)).collect();
    let mut random = Random(froglet_testkit::seed());
    let rounds = if froglet_testkit::is_long() { 500_000 } else { 10_000 };
    let mut refused = 0;
    for _ in 0..rounds {
        let (at, other) = (random.below(texts.len()), random.below(texts.len()));
        let suspect = Suspect(mutate::text(&mut random, &texts[at], &texts[other]));
        refused += usize::from(froglet_sql::parse::split(&suspect.0, &mut Vec::new()).is_err());
    }
    assert!(refused > rounds / 10 && refused < rounds, "{refused} of {rounds} refused");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_mutated_text_is_answered_or_refused() {
    let mut random = Random(froglet_testkit::seed());
    let rounds = if froglet_testkit::is_long() { 2_000 } else { 60 };
    let (mut answered, mut refused, mut internal) = (0, 0, Vec::new());
    for path in files() {
        let texts = statements(&path);
        let mut db = world(&texts).await;
        for round in 0..rounds {
            if round % 500 == 499 {
                db = world(&texts).await;
            }
            let (at, other) = (random.below(texts.len()), random.below(texts.len()));
            let text = mutate::text(&mut random, &texts[at], &texts[other]);
            let suspect = Suspect(text);
            match sql_entry::run(&db, &suspect.0).await {
                Ok(()) => answered += 1,
                Err(error) => {
                    if error.state == SqlState::INTERNAL_ERROR {
                        internal.push(format!("{}: {}", error.message, suspect.0));
                    }
                    refused += 1;
                }
            }
        }
        // Whatever they did: it still works.
        sql_entry::run(&db, "SELECT 1").await.expect("the database lives");
    }
    // What a client may send is no reason for an internal error.
    assert!(internal.is_empty(), "{} internal errors\n{}", internal.len(), internal.join("\n"));
    assert!(answered > 10 && refused > 10, "{answered} answered, {refused} refused");
}
