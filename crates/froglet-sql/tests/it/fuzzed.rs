//! Statements of all our tests, mutated by tokens, on the tables that they are made for: no panic, no internal error,
//! none that goes on for long after it is cancelled.
//!
//! ```text
//!   tests/sql/*.slt          a file                 ┐ a world: a database after its statements.
//!   /tests/features/*.sql    what follows a heading ┘ These are mutated, and run there.
//!   /tests/*.py              strings that begin as SQL does: what is spliced into them
//! ```
//!
//!     FROGLET_FUZZ_SECONDS=3600 FROGLET_TEST_SEED=$RANDOM cargo test -p froglet-sql --test it fuzzed -- --nocapture
//!
//! `./test` runs it for two minutes. What it finds is printed in its shortest form; a named test of it belongs to the file of
//! its kind in `tests/sql`.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use froglet_engine::SqlState;
use froglet_memory::{MemoryEngine, MemoryOptions};
use froglet_sql::{ConnectOptions, Database, Defaults, Outcome, Rows, Session, SqlError};
use froglet_testkit::mutate::Random;
use froglet_testkit::tokens::{Pool, mutated, tokens, written};
use froglet_txn::CancelReason;
use parking_lot::Mutex;
use sqllogictest::{DefaultColumnType, Record};

/// Statements are cancelled after so long.
const CANCEL_AFTER: Duration = Duration::from_secs(2);
/// And must have ended so long after that, on a machine that has other things to do as well.
const PATIENCE: Duration = Duration::from_secs(5);
const ROWS_MAX: usize = 10_000;
/// What PostgreSQL, too, calls an internal error.
const INTERNAL_IN_POSTGRESQL: &[&str] = &["unrecognized objtype abbreviation: "];
/// Mutated statements that run in one world.
const IN_ONE_WORLD: usize = 60;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The files of a folder with an ending, in order.
fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("the folder is there");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("readable").path()).collect();
    files.retain(|path| path.extension().is_some_and(|e| e == ending));
    files.sort();
    files
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).expect("a text")
}

/// The statements of a text with many; none of one that does not parse.
fn split(text: &str) -> Vec<String> {
    let statements = froglet_sql::parse::split(text, &mut Vec::new()).unwrap_or_default();
    statements.iter().map(|statement| statement.sql.to_string()).collect()
}

/// Each: the statements that make it, in order.
fn worlds() -> Vec<Vec<String>> {
    let mut worlds = Vec::new();
    for path in files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sql"), "slt") {
        let records = sqllogictest::parse_file::<DefaultColumnType>(&path).expect("it parses");
        let sql = |record: Record<DefaultColumnType>| match record {
            Record::Statement { sql, .. } | Record::Query { sql, .. } => Some(sql),
            _ => None,
        };
        worlds.push(records.into_iter().filter_map(sql).collect());
    }
    for path in files(&repository().join("tests/features"), "sql") {
        for feature in read(&path).split("-- feature:").skip(1) {
            let lines = feature.split_once('\n').map_or("", |(_, lines)| lines).lines();
            worlds.push(lines.flat_map(split).collect());
        }
    }
    worlds.retain(|world: &Vec<String>| !world.is_empty());
    worlds
}

/// Strings of the Python tests that begin as statements do.
fn strings() -> Vec<String> {
    const BEGIN: &[&str] = &[
        "select ", "insert ", "update ", "delete ", "create ", "alter ", "with ", "merge ",
        "values",
    ];
    let mut found = Vec::new();
    for path in files(&repository().join("tests"), "py") {
        let text = read(&path);
        for quote in ["\"\"\"", "\""] {
            found.extend(text.split(quote).skip(1).step_by(2).map(str::to_owned));
        }
    }
    found.retain(|text| {
        let lower = text.trim_start().to_ascii_lowercase();
        BEGIN.iter().any(|begin| lower.starts_with(begin)) && text.len() < 2_000
    });
    found
}

async fn database() -> Arc<Database> {
    let options = MemoryOptions { memory_limit_bytes: 64 << 20, ..MemoryOptions::default() };
    let engine = MemoryEngine::open(options).expect("an engine without files");
    Database::open(engine, Defaults::default()).await.expect("an empty catalog opens")
}

/// What a statement must not come to, by what distinguishes it.
#[derive(Debug, PartialEq)]
struct Fault(String);

/// Where threads have panicked.
static PANICS: Mutex<Vec<String>> = Mutex::new(Vec::new());

async fn rows_of(session: &mut Session, outcome: Outcome) -> Result<(), SqlError> {
    match outcome {
        Outcome::Rows(mut stream) => {
            let mut rows = 0;
            while let Some(batch) = stream.next().await {
                rows += match batch {
                    Ok(Rows::Values(values)) => values.len(),
                    Ok(Rows::Batch(batch)) => batch.num_rows(),
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
    Ok(())
}

/// A message of the simple protocol, and what the extended one prepares.
async fn message(session: &mut Session, text: &str) -> Result<(), SqlError> {
    for statement in session.split(text)? {
        if text.contains('$') {
            session.prepare(&statement, &[]).await?;
        }
        let outcome = session.simple(&statement).await?;
        rows_of(session, outcome).await?;
    }
    Ok(())
}

/// Runs a text in a transaction that is rolled back, or by itself; what is wrong with that.
async fn run(db: &Arc<Database>, text: &str, by_itself: bool) -> Result<(), Fault> {
    let mut session = db.connect(ConnectOptions::default()).expect("connects");
    let cancel = session.cancel_token();
    PANICS.lock().clear();
    let text = text.to_owned();
    let work = tokio::spawn(async move {
        if by_itself {
            let outcome = message(&mut session, &text).await;
            let finished = session.finish_implicit(outcome.is_ok()).await;
            return outcome.and(finished);
        }
        message(&mut session, "BEGIN").await?;
        let outcome = message(&mut session, &text).await;
        message(&mut session, "ROLLBACK").await.and(outcome)
    });
    tokio::pin!(work);
    let mut ended = tokio::time::timeout(CANCEL_AFTER, &mut work).await;
    let until = Instant::now() + PATIENCE;
    // A text may have several statements.
    while ended.is_err() && Instant::now() < until {
        cancel.cancel(CancelReason::User);
        ended = tokio::time::timeout(Duration::from_millis(500), &mut work).await;
    }
    let outcome = match ended {
        Err(_) => return Err(Fault("goes on after it is cancelled".to_owned())),
        Ok(outcome) => outcome,
    };
    let panicked = PANICS.lock().first().cloned();
    match outcome {
        Err(_) => Err(Fault(panicked.unwrap_or_else(|| "a panic".to_owned()))),
        Ok(Err(error))
            if error.state == SqlState::INTERNAL_ERROR
                && !INTERNAL_IN_POSTGRESQL.iter().any(|known| error.message.starts_with(known)) =>
        {
            Err(Fault(panicked.unwrap_or(format!("XX000 {}", class_of(&error.message)))))
        }
        Ok(_) => Ok(()),
    }
}

/// A message without what is in it of one statement.
fn class_of(message: &str) -> String {
    let without_digits: String = message.chars().filter(|c| !c.is_ascii_digit()).collect();
    without_digits.chars().take(90).collect()
}

async fn world(statements: &[String]) -> Arc<Database> {
    let db = database().await;
    for sql in statements {
        // Some are there to fail; what they show is tested elsewhere.
        let _ = run(&db, sql, true).await;
    }
    db
}

/// The statement without the tokens that the fault does not need.
async fn shortest(statements: &[String], text: &str, fault: &Fault) -> String {
    let mut kept = tokens(text);
    let db = world(statements).await;
    let until = Instant::now() + Duration::from_secs(20);
    let mut chunk = (kept.len() / 2).max(1);
    loop {
        let mut at = 0;
        while at < kept.len() && Instant::now() < until {
            let mut shorter = kept.clone();
            shorter.drain(at..(at + chunk).min(kept.len()));
            match run(&db, &written(&shorter), false).await {
                Err(found) if found == *fault => kept = shorter,
                _ => at += chunk,
            }
        }
        if chunk == 1 || Instant::now() >= until {
            return written(&kept);
        }
        chunk /= 2;
    }
}

async fn functions() -> Vec<String> {
    let db = database().await;
    let mut session = db.connect(ConnectOptions::default()).expect("connects");
    let text = "SELECT DISTINCT proname::text FROM pg_proc WHERE proname NOT LIKE 'pg\\_sleep%' ORDER BY 1";
    let statement = session.split(text).expect("it parses").remove(0);
    let Ok(Outcome::Rows(mut stream)) = session.simple(&statement).await else {
        panic!("pg_proc can be read");
    };
    let mut names = Vec::new();
    while let Some(Ok(Rows::Batch(batch))) = stream.next().await {
        for row in 0..batch.num_rows() {
            let mut text = Vec::new();
            froglet_sql::types::write_text(batch.column(0).as_ref(), row, 25, &mut text);
            names.push(String::from_utf8(text).expect("names are texts"));
        }
    }
    names
}

fn seconds() -> u64 {
    let given = std::env::var("FROGLET_FUZZ_SECONDS").ok().and_then(|text| text.parse().ok());
    given.unwrap_or(10)
}

#[test]
fn statements_mutated_by_tokens_are_answered_or_refused() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let place = info.location().map(|at| format!("{}:{}", at.file(), at.line()));
        PANICS.lock().push(format!("panic at {}", place.unwrap_or_default()));
        usual(info);
    }));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_stack_size(froglet_sql::STACK_BYTES)
        .enable_all()
        .build()
        .expect("threads start");
    let found = runtime.block_on(fuzz());
    // What does not end keeps its thread.
    runtime.shutdown_background();
    assert!(found.is_empty(), "{}", found.join("\n\n"));
}

async fn fuzz() -> Vec<String> {
    let seed = froglet_testkit::seed();
    let mut random = Random(seed);
    let (worlds, strings) = (worlds(), strings());
    let mut corpus: Vec<String> = worlds.iter().flatten().cloned().collect();
    corpus.extend(strings);
    assert!(worlds.len() > 50 && corpus.len() > 1_000, "the tests' statements are found");
    let pool = Pool::of(&corpus, functions().await);
    assert!(pool.functions.len() > 300, "functions are found");
    let until = Instant::now() + Duration::from_secs(seconds());
    let (mut ran, mut faults) = (0, BTreeMap::new());
    while Instant::now() < until && faults.len() < 40 {
        let made_of = random.pick(&worlds);
        let mut db = world(made_of).await;
        for _ in 0..IN_ONE_WORLD {
            let valid =
                if random.below(8) == 0 { random.pick(&corpus) } else { random.pick(made_of) };
            let other =
                if random.below(2) == 0 { random.pick(&corpus) } else { random.pick(made_of) };
            let text = mutated(&mut random, &pool, valid, other);
            ran += 1;
            let Err(fault) = run(&db, &text, random.below(8) == 0).await else { continue };
            if let Entry::Vacant(place) = faults.entry(fault.0.clone()) {
                let short = shortest(made_of, &text, &fault).await;
                eprintln!("{}\n    {short}\n    from {text}", fault.0);
                place.insert(short);
            }
            db = world(made_of).await;
        }
    }
    eprintln!("{ran} statements, FROGLET_TEST_SEED={seed}");
    faults
        .iter()
        .map(|(fault, text)| format!("{fault}\n    {text}\n(FROGLET_TEST_SEED={seed})"))
        .collect()
}
