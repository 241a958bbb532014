//! Any bytes at all, as records whose checksums are right: replayed or refused by an engine.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use froglet_engine::EngineError;
use froglet_engine::env::{Env, MemEnv};
use froglet_log::{Flusher, Log, LogOptions, Lsn};
use froglet_memory::{FreezeOptions, MemoryEngine, MemoryOptions};

/// What no record may make the engine ask for.
const MEMORY_BYTES: u64 = 16 << 20;

fn manual() -> LogOptions {
    LogOptions { flusher: Flusher::Manual, ..LogOptions::default() }
}

/// Opens an engine over a log of these records.
pub fn run(records: &[&[u8]]) -> Result<(), EngineError> {
    let env = Arc::new(MemEnv::new(1));
    let dir = Path::new("/data/log");
    env.create_dir_all(dir).expect("a directory of its own");
    let log = Log::open(env.clone(), dir, manual(), Lsn(0), &mut |_, _| Ok(()));
    let log = log.expect("a new log opens");
    for record in records.iter().filter(|record| !record.is_empty()) {
        let _ = log.append(&[record]).expect("a short record is appended");
    }
    log.close().expect("a log in memory is closed");
    drop(log);
    let options = MemoryOptions {
        data_dir: Some(PathBuf::from("/data")),
        env,
        memory_limit_bytes: MEMORY_BYTES,
        catalog_spaces: &[],
        collector_thread: false,
        freeze: FreezeOptions::default(),
        prune_bytes_min: 0,
        index_rows_min: 1,
        agree: None,
        log: manual(),
    };
    let engine = MemoryEngine::open(options)?;
    drop(engine);
    Ok(())
}

/// Cuts bytes into records: a length of one byte before each.
#[allow(dead_code)] // Only the fuzz target has its records in one piece.
pub fn records(mut bytes: &[u8]) -> Vec<&[u8]> {
    let mut records = Vec::new();
    while let Some((&length, rest)) = bytes.split_first() {
        let (record, after) = rest.split_at(rest.len().min(usize::from(length)));
        records.push(record);
        bytes = after;
    }
    records
}
