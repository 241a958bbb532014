//! Mutated files and records: recovery finds a state that was, or says which file is wrong and
//! where. What `fuzz/entries` runs under libFuzzer is run here with mutations of valid inputs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use froglet_engine::env::{Env, MemEnv};
use froglet_engine::{
    ColumnType, Engine, EngineError, Layout, Row, RowId, Snapshot, SpaceId, Table, TxnId, Value,
};
use froglet_log::{Flusher, Log, LogOptions, Lsn};
use froglet_memory::{FreezeOptions, MemoryEngine, MemoryOptions};
use froglet_testkit::mutate::{self, Random, Suspect};

use crate::support::*;

#[path = "../../../../fuzz/entries/log.rs"]
mod log_entry;
#[path = "../../../../fuzz/entries/redo.rs"]
mod redo_entry;

const MEMORY_BYTES: u64 = 64 << 20;

/// Every file of a data directory.
type Files = BTreeMap<PathBuf, Vec<u8>>;

fn options(env: &MemEnv) -> MemoryOptions {
    let log = LogOptions {
        segment_bytes: 4096,
        zeros_ahead_bytes: 1024,
        database_id: Some(42),
        ..LogOptions::default()
    };
    MemoryOptions {
        data_dir: Some(PathBuf::from("/data")),
        env: Arc::new(env.program()),
        memory_limit_bytes: MEMORY_BYTES,
        catalog_spaces: &[],
        collector_thread: false,
        freeze: FreezeOptions::default(),
        prune_bytes_min: 0,
        log,
        index_rows_min: 1,
        agree: None,
    }
}

fn commit_some(db: &Db, random: &mut Random, n: i64) {
    let mut txn = db.begin();
    for i in 0..3 {
        let id = n * 10 + i;
        insert(&*db.table, &mut *txn, account(id, &long(id), -id)).expect("a new key");
    }
    let rid = RowId(random.below(3 * n as usize + 3) as u64);
    if read(&*db.table, txn.snapshot(), rid).is_some() {
        let outcome = match n % 3 {
            0 => delete(&*db.table, &mut *txn, rid),
            _ => update(&*db.table, &mut *txn, rid, &[1], &[Value::text(long(-n))]),
        };
        outcome.expect("nobody else writes");
    }
    // Some keep the table for the next few commits.
    if n % 6 == 4 {
        txn.keep(n as u64, &[SPACE]).expect("the space is there");
    }
    commit(txn);
    if n % 6 == 3 && n > 20 {
        db.engine.release(n as u64 - 11).expect("the log is well");
    }
}

fn files(env: &MemEnv) -> Files {
    let mut files = Files::new();
    for dir in ["/data", "/data/log", "/data/checkpoint"] {
        for name in env.list(Path::new(dir)).expect("the directory is there") {
            let path = Path::new(dir).join(name);
            files.insert(path.clone(), env.contents(&path).expect("it was listed"));
        }
    }
    files
}

fn env_of(files: &Files) -> MemEnv {
    let env = MemEnv::new(1);
    for dir in ["/data/log", "/data/checkpoint"] {
        env.create_dir_all(Path::new(dir)).expect("a directory of its own");
    }
    files.iter().for_each(|(path, bytes)| env.overwrite(path, bytes.clone()));
    env
}

/// A space that nobody keeps, so that a checkpoint covers its indexes.
const UNKEPT: SpaceId = SpaceId(8);

fn unkept() -> Arc<Layout> {
    let mut columns = accounts().columns.clone();
    columns.push(column(4, ColumnType::Numeric));
    let indexes = vec![index(11, &[1], true), index(12, &[2, 3], false), index(13, &[4], true)];
    Arc::new(Layout { columns, indexes, row_key: None })
}

/// A data directory with a checkpoint and a log behind it that was not closed; every state that
/// was ever committed, oldest first.
fn directory() -> (Files, Vec<Vec<Row>>) {
    let env = MemEnv::new(3);
    let db = Db::with(accounts(), options(&env));
    db.engine.create_space(UNKEPT).expect("a space is made");
    let unkept = db.engine.open(UNKEPT, unkept()).expect("opens");
    let mut txn = db.begin();
    for n in 0..200 {
        let mut row = account(n, &long(n), n % 7);
        row.push(number(n, 0));
        insert(&*unkept, &mut *txn, row).expect("a new key");
    }
    commit(txn);
    let mut random = Random(5);
    let mut states = vec![Vec::new()];
    for n in 0..40 {
        commit_some(&db, &mut random, n);
        states.push(db.scan(&db.engine.snapshot()));
        if n == 15 || n == 20 {
            db.engine.checkpoint().expect("there is space");
            let _ = db.engine.put_note(1, &[n as u8]).expect("the log is well");
        }
    }
    let (send, receive) = std::sync::mpsc::channel();
    let done = move |outcome| send.send(outcome).expect("waited for");
    db.engine.when_durable(db.engine.appended(), Box::new(done));
    receive.recv().expect("called back").expect("durable");
    // As after kill -9: the log is not closed.
    let files = files(&env);
    (files, states)
}

fn names_a_file(error: &EngineError) -> bool {
    let text = error.to_string();
    ["frlog", "manifest.json", ".arrow", "/data/log", "a record of the log"]
        .iter()
        .any(|name| text.contains(name))
}

#[test]
fn a_mutated_data_directory_is_recovered_or_refused() {
    let (valid, states) = directory();
    let names: Vec<PathBuf> =
        valid.keys().filter(|path| !valid[*path].is_empty()).cloned().collect();
    let mut random = Random(froglet_testkit::seed());
    let rounds = if froglet_testkit::is_long() { 20_000 } else { 300 };
    let (mut refused, mut recovered, mut kept) = (0, 0, 0);
    for _ in 0..rounds {
        let mut files = valid.clone();
        let (name, other) = (random.pick(&names).clone(), random.pick(&names).clone());
        let mutated = mutate::bytes(&mut random, &valid[&name], &valid[&other]);
        let suspect = Suspect((name.clone(), mutated.clone()));
        files.insert(name.clone(), mutated);
        let env = env_of(&files);
        match MemoryEngine::open(options(&env)) {
            Ok(engine) => {
                let (used_bytes, _) = engine.memory();
                assert!(used_bytes < MEMORY_BYTES, "{used_bytes} bytes");
                let table = engine.open(SPACE, accounts()).ok();
                let see = |view: &Snapshot| table.as_ref().map_or(Vec::new(), |t| scan(&**t, view));
                let rows = see(&engine.snapshot());
                assert!(states.contains(&rows), "no state that was: {rows:?}");
                for view in (0..40).filter_map(|keeper| engine.kept(keeper)) {
                    let rows = see(&view);
                    assert!(states.contains(&rows), "no state that was: {rows:?} at {}", view.ts);
                    kept += 1;
                }
                recovered += 1;
            }
            Err(error) => {
                assert!(names_a_file(&error), "{error}");
                refused += 1;
            }
        }
        drop(suspect);
    }
    assert!(refused > rounds / 10 && recovered > rounds / 100, "{refused} and {recovered}");
    assert!(kept > recovered, "{kept} times something was kept");
}

/// Changes a file of the checkpoint, and the manifest with it, so that every checksum is right.
fn replace_checked(files: &mut Files, path: &Path, bytes: Vec<u8>) {
    let manifest = Path::new("/data/checkpoint/manifest.json");
    let text = String::from_utf8(files[manifest].clone()).expect("a manifest is text");
    let (body, _) = text.split_once('\n').expect("a checksum follows");
    let mut json: serde_json::Value = serde_json::from_str(body).expect("a manifest is JSON");
    let name = path.file_name().and_then(|name| name.to_str()).expect("a file of ours");
    let entries = json["files"].as_array_mut().expect("a list");
    let entry = entries.iter_mut().find(|entry| entry["name"] == name).expect("it is listed");
    entry["bytes"] = bytes.len().into();
    entry["crc32"] = crc32fast::hash(&bytes).into();
    let body = json.to_string();
    let crc = crc32fast::hash(body.as_bytes());
    files.insert(manifest.to_owned(), format!("{body}\n{crc:08x}\n").into_bytes());
    files.insert(path.to_owned(), bytes);
}

#[test]
fn mutated_checkpoints_with_right_checksums_are_loaded_or_refused() {
    let (valid, _) = directory();
    let is_mapped = |path: &&PathBuf| path.extension().is_some_and(|e| e == "arrow");
    let names: Vec<PathBuf> = valid.keys().filter(is_mapped).cloned().collect();
    assert!(names.iter().any(|name| name.to_string_lossy().contains("index")), "{names:?}");
    let mut random = Random(froglet_testkit::seed());
    let rounds = if froglet_testkit::is_long() { 50_000 } else { 1000 };
    let (mut refused, mut loaded) = (0, 0);
    for _ in 0..rounds {
        let mut files = valid.clone();
        let (name, other) = (random.pick(&names).clone(), random.pick(&names).clone());
        let mutated = mutate::bytes(&mut random, &valid[&name], &valid[&other]);
        let suspect = Suspect((name.clone(), mutated.clone()));
        replace_checked(&mut files, &name, mutated);
        let env = env_of(&files);
        match MemoryEngine::open(options(&env)) {
            Ok(engine) => {
                use_everything(&engine);
                loaded += 1;
            }
            Err(error) => {
                assert!(names_a_file(&error), "{error}");
                refused += 1;
            }
        }
        drop(suspect);
    }
    assert!(refused > rounds / 10 && loaded > rounds / 100, "{refused} and {loaded}");
}

#[test]
fn a_number_that_is_none_is_refused() {
    let (valid, _) = directory();
    // Long ones lie in the column's strings, short ones in its views.
    for n in [7, 8] {
        let Value::Numeric(number) = number(n, 0) else { unreachable!("it is a number") };
        let (mut files, mut found) = (valid.clone(), 0);
        for (path, bytes) in &valid {
            if path.extension().is_none_or(|e| e != "arrow") {
                continue;
            }
            let at = bytes.windows(number.len()).position(|window| window == &*number);
            let Some(at) = at else { continue };
            let mut bytes = bytes.clone();
            // Its last digit is 0.
            bytes[at + number.len() - 4..][..2].fill(0);
            replace_checked(&mut files, path, bytes);
            found += 1;
        }
        assert_eq!(found, 1, "the number is in the file of its table");
        let error = MemoryEngine::open(options(&env_of(&files))).expect_err("it is refused");
        assert!(names_a_file(&error) && error.to_string().contains("is no number"), "{error}");
    }
}

/// Reads, indexes and changes whatever there is. It may be anything, and is no reason to panic.
fn use_everything(engine: &Arc<MemoryEngine>) {
    use_table(engine, engine.open(SPACE, accounts()).expect("the space is there"));
    use_table(engine, engine.open(UNKEPT, unkept()).expect("the space is there"));
    engine.collect_garbage();
    engine.checkpoint().expect("there is space");
}

fn use_table(engine: &Arc<MemoryEngine>, table: Arc<dyn Table>) {
    for index in 0..table.layout().indexes.len() {
        let build = Arc::clone(&table).build_index(index).expect("an index without entries");
        for block in 0..table.block_count() {
            build.scan_block(TxnId(0), block).expect("a block is scanned");
        }
        build.load(&mut |_| true).expect("an index is loaded");
    }
    let rows = scan(&*table, &engine.snapshot());
    for view in (0..40).filter_map(|keeper| engine.kept(keeper)) {
        scan(&*table, &view);
    }
    for rid in (0..rows.len() as u64).map(RowId) {
        let mut txn = engine.begin(next_id());
        if read(&*table, txn.snapshot(), rid).is_some() {
            let _ = match rid.0 % 3 {
                0 => delete(&*table, &mut *txn, rid),
                _ => update(&*table, &mut *txn, rid, &[1], &[Value::text(long(1))]),
            };
        }
        commit(txn);
    }
}

/// The records of a log.
fn records() -> Vec<Vec<u8>> {
    let (valid, _) = directory();
    let env = env_of(&valid);
    let mut records = Vec::new();
    let first = valid.keys().find(|path| path.extension().is_some_and(|e| e == "frlog"));
    let first = first.and_then(|path| path.file_stem()?.to_str()).expect("there is a segment");
    let from = Lsn(u64::from_str_radix(first, 16).expect("a segment is named by its LSN"));
    let LogOptions { segment_bytes, .. } = options(&env).log;
    let log_options =
        LogOptions { segment_bytes, flusher: Flusher::Manual, ..LogOptions::default() };
    Log::open(Arc::new(env), Path::new("/data/log"), log_options, from, &mut |_, record| {
        records.push(record.to_vec());
        Ok(())
    })
    .expect("a valid log opens");
    assert!(records.len() > 20, "{} records", records.len());
    records
}

#[test]
fn mutated_records_with_right_checksums_are_replayed_or_refused() {
    let valid = records();
    let mut random = Random(froglet_testkit::seed());
    let rounds = if froglet_testkit::is_long() { 20_000 } else { 200 };
    let mut refused = 0;
    for _ in 0..rounds {
        let mut mutated = valid.clone();
        for _ in 0..1 + random.below(2) {
            let (at, other) = (random.below(valid.len()), random.below(valid.len()));
            mutated[at] = mutate::bytes(&mut random, &valid[at], &valid[other]);
        }
        let suspect = Suspect(mutated);
        let parts: Vec<&[u8]> = suspect.0.iter().map(Vec::as_slice).collect();
        if let Err(error) = redo_entry::run(&parts) {
            assert!(!matches!(error, EngineError::LogFailed(_)), "{error}");
            refused += 1;
        }
    }
    assert!(refused > rounds / 10, "{refused} of {rounds}");
}

#[test]
fn a_row_id_far_away_asks_for_no_memory() {
    let create_space = [5, 7];
    // A transaction at 99 that inserts row 2^43 of space 7, without a cell.
    let insert = [1, 99, 1, 7, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 2, 0];
    let error = redo_entry::run(&[&create_space, &insert]).expect_err("too far away");
    assert!(matches!(error, EngineError::MemoryLimit { .. }), "{error}");
}

#[test]
fn mutated_segments_are_cut_or_refused() {
    let (valid, _) = directory();
    let segments: Vec<&Vec<u8>> = valid
        .iter()
        .filter(|(path, _)| path.extension().is_some_and(|e| e == "frlog"))
        .map(|(_, bytes)| bytes)
        .collect();
    let mut random = Random(froglet_testkit::seed());
    let rounds = if froglet_testkit::is_long() { 100_000 } else { 1000 };
    for _ in 0..rounds {
        let other = random.pick(&segments);
        let valid = random.pick(&segments);
        let suspect = Suspect(mutate::bytes(&mut random, valid, other));
        log_entry::run(&suspect.0);
    }
}
