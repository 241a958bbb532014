//! Model-based histories: the memory engine against the testkit's model of the engine contract.
//!
//! That the histories can fail was tried by breaking the engine by hand, one change at a time:
//! a before-image that is skipped, an index entry that stays or that goes too early, a collector
//! that looks at no snapshot, a rollback that keeps its redo, a write conflict that is not seen, a
//! checkpoint that takes a block with versions for clean, and more. Each was found within the 150
//! histories of a short run, and shortened to between two and about ten operations.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use froglet_engine::env::MemEnv;
use froglet_engine::{Engine, EngineError, Table};
use froglet_log::LogOptions;
use froglet_memory::{FreezeOptions, MemoryEngine, MemoryOptions, MemoryTable};
use froglet_testkit::{Amount, Host, run_histories};

struct Memory {
    /// Whatever is quiet is frozen.
    freezes: bool,
}

/// The log's thread flushes only what somebody asks for.
const NEVER: Duration = Duration::from_secs(100_000);

impl Host for Memory {
    fn open(&self, env: &MemEnv) -> Result<Arc<dyn Engine>, EngineError> {
        let log = LogOptions {
            flush_interval: NEVER,
            // Segments and zeros ahead in the size of these histories.
            segment_bytes: 4096,
            zeros_ahead_bytes: 1024,
            database_id: Some(7),
            // Every second history logs nearly all its transactions in parts.
            part_bytes: if self.freezes { 40 } else { 1 << 20 },
            ..LogOptions::default()
        };
        let options = MemoryOptions {
            data_dir: Some(PathBuf::from("/data")),
            env: Arc::new(env.program()),
            collector_thread: false,
            freeze: FreezeOptions {
                after: self.freezes.then_some(Duration::ZERO),
                threads: 0,
                ..FreezeOptions::default()
            },
            log,
            index_rows_min: 1,
            agree: None,
            prune_bytes_min: 0,
            ..MemoryOptions::default()
        };
        Ok(MemoryEngine::open(options)?)
    }

    fn collect(&self, engine: &dyn Engine) {
        let engine = engine.as_any().downcast_ref::<MemoryEngine>().expect("it was opened above");
        engine.collect_garbage();
        engine.freeze_cold();
    }

    fn check_rest(&self, table: &dyn Table, rows: usize) -> Result<(), String> {
        let table = table.as_any().downcast_ref::<MemoryTable>().expect("it is this engine's");
        for index in 0..table.layout().indexes.len() {
            let entries = table.index_entries(index);
            if entries != rows {
                return Err(format!("index {index} has {entries} entries for {rows} rows"));
            }
        }
        if table.old_versions() != 0 {
            return Err(format!("{} versions are left", table.old_versions()));
        }
        if table.row_estimate() != rows as u64 {
            return Err(format!("{} rows are counted, {rows} are there", table.row_estimate()));
        }
        Ok(())
    }
}

#[test]
fn every_history_is_the_models() {
    run_histories(&Memory { freezes: false }, Amount::from_environment());
}

#[test]
fn every_history_is_the_models_while_blocks_freeze() {
    run_histories(&Memory { freezes: true }, Amount::from_environment());
}
