//! The files in `tests/sql`: statements and the answers they must have, run through both
//! execution paths; `tests/test_sqllogic.py` runs them on PostgreSQL. An error is written as its
//! SQLSTATE and message, and its detail after ` | `.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use froglet_sql::Database;
use sqllogictest::{AsyncDB, DBOutput, DefaultColumnType, Runner};

use crate::support::{Answer, Client, database};

struct Connection {
    client: Client,
}

/// As the files spell errors.
#[derive(Debug)]
struct Failure(String);

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Failure {}

impl From<froglet_sql::SqlError> for Failure {
    fn from(e: froglet_sql::SqlError) -> Failure {
        let mut text = format!("{} {}", e.state, e.message);
        if let Some(detail) = e.detail {
            text.push_str(&format!(" | {detail}"));
        }
        Failure(text)
    }
}

#[async_trait::async_trait]
impl AsyncDB for Connection {
    type Error = Failure;
    type ColumnType = DefaultColumnType;

    async fn run(&mut self, sql: &str) -> Result<DBOutput<DefaultColumnType>, Failure> {
        match self.client.run(sql).await? {
            Answer::Rows(rows, _) => {
                let width = rows.first().map_or(1, Vec::len);
                let cell = |cell: Option<String>| match cell {
                    None => "NULL".to_owned(),
                    Some(text) if text.is_empty() => "(empty)".to_owned(),
                    Some(text) => text,
                };
                let rows =
                    rows.into_iter().map(|row| row.into_iter().map(cell).collect()).collect();
                Ok(DBOutput::Rows { types: vec![DefaultColumnType::Any; width], rows })
            }
            Answer::Done(tag) => {
                let count = tag.rsplit(' ').next().and_then(|n| n.parse().ok()).unwrap_or(0);
                Ok(DBOutput::StatementComplete(count))
            }
        }
    }

    async fn shutdown(&mut self) {}

    /// `onlyif froglet` marks what PostgreSQL does otherwise: `tests/test_sqllogic.py` runs the rest of
    /// the records there.
    fn engine_name(&self) -> &str {
        "froglet"
    }
}

/// Runs one file to its end; what failed in it.
async fn run_file(path: &Path, fast: bool, cache: bool) -> Vec<String> {
    let db: Arc<Database> = database().await;
    let mut runner = Runner::new(|| {
        let db = db.clone();
        async move {
            let mut client = Client::connect(&db);
            let on = |on| if on { "on" } else { "off" };
            client.ok(&format!("SET froglet.fast_path = {}", on(fast))).await;
            client.ok(&format!("SET froglet.plan_cache = {}", on(cache))).await;
            Ok(Connection { client })
        }
    });
    let records = sqllogictest::parse_file::<DefaultColumnType>(path).expect("the file parses");
    let mut failures = Vec::new();
    for record in records {
        if let Err(e) = runner.run_async(record).await {
            failures.push(format!("fast_path {fast}, plan_cache {cache}: {e}"));
        }
    }
    failures
}

fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sql");
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .expect("tests/sql is there")
        .map(|entry| entry.expect("readable").path())
        .filter(|path| path.extension().is_some_and(|e| e == "slt"))
        .collect();
    files.sort();
    assert!(!files.is_empty(), "tests/sql has files");
    files
}

/// `FROGLET_SLT=insert` runs only files whose name contains the word.
async fn run_all(fast: bool, cache: bool) {
    let only = std::env::var("FROGLET_SLT").unwrap_or_default();
    let mut failures = Vec::new();
    for path in files() {
        if path.to_string_lossy().contains(&only) {
            failures.extend(run_file(&path, fast, cache).await);
        }
    }
    assert!(failures.is_empty(), "{} failures\n{}", failures.len(), failures.join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn every_file_on_the_short_path() {
    run_all(true, true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_file_on_the_long_path() {
    run_all(false, true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_file_without_the_plan_cache() {
    run_all(true, false).await;
}
