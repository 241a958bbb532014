//! Both engines in a simulated environment; the store's files are real ones, which a crash of the environment leaves.

use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::Duration;

use froglet_disk::{DiskEngine, DiskOptions};
use froglet_engine::EngineError;
use froglet_engine::crossing::{Anchor, Beside};
use froglet_engine::env::{Env, MemEnv};
use froglet_log::halves::{Side, agree};
use froglet_log::{Flusher, LogOptions};
use froglet_memory::{FreezeOptions, MemoryEngine, MemoryOptions};
use froglet_txn::{Joint, RegistryOptions};

/// The log's thread flushes only what somebody asks for.
const NEVER: Duration = Duration::from_secs(100_000);

/// How a world is.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    pub part_bytes: usize,
    /// What is gathered in memory is a file at this size.
    pub gather_bytes: u64,
    pub registry: RegistryOptions,
    pub flusher: Flusher,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            part_bytes: 1 << 20,
            gather_bytes: 1 << 30,
            registry: RegistryOptions::default(),
            flusher: Flusher::Thread,
        }
    }
}

/// Both engines, and what joins them.
pub struct Both {
    pub memory: Weak<MemoryEngine>,
    pub disk: Weak<DiskEngine>,
    pub joint: Arc<Joint>,
}

pub fn log(options: &Options) -> LogOptions {
    LogOptions {
        flush_interval: NEVER,
        segment_bytes: 4096,
        zeros_ahead_bytes: 1024,
        database_id: Some(7),
        part_bytes: options.part_bytes,
        flusher: options.flusher,
        ..LogOptions::default()
    }
}

/// As a server opens them. `files`: where the store is.
pub fn open(env: &MemEnv, files: PathBuf, options: &Options) -> Result<Both, EngineError> {
    let data = PathBuf::from("/data");
    let shared: Arc<dyn Env> = Arc::new(env.clone());
    let disk_dir = data.join("disk");
    let agreeing = {
        let (env, anchor_dir, beside_dir) =
            (Arc::clone(&shared), data.join("log"), disk_dir.join("log"));
        let disk_dir = disk_dir.clone();
        move |from, kept| {
            env.create_dir_all(&disk_dir).map_err(|e| EngineError::Env(Arc::new(e)))?;
            let (beside_from, beside_kept) = DiskEngine::checkpointed(&*env, &disk_dir)?;
            let anchor = Side { dir: &anchor_dir, from, kept };
            let beside = Side { dir: &beside_dir, from: beside_from, kept: beside_kept };
            agree(&*env, anchor, beside)?;
            Ok(())
        }
    };
    let memory = MemoryEngine::open(MemoryOptions {
        data_dir: Some(data),
        env: Arc::clone(&shared),
        collector_thread: false,
        freeze: FreezeOptions { after: None, threads: 0, ..FreezeOptions::default() },
        log: log(options),
        index_rows_min: 1,
        prune_bytes_min: 0,
        agree: Some(Box::new(agreeing)),
        ..MemoryOptions::default()
    })?;
    let mut disk = DiskOptions::new(disk_dir, shared, log(options));
    disk.store_dir = Some(files);
    disk.threads = false;
    disk.gather_bytes = options.gather_bytes;
    disk.cache_bytes = 1 << 20;
    let disk = DiskEngine::open(disk)?;
    let (weak_memory, weak_disk) = (Arc::downgrade(&memory), Arc::downgrade(&disk));
    let joint = Joint::new(memory as Arc<dyn Anchor>, disk as Arc<dyn Beside>, options.registry);
    Ok(Both { memory: weak_memory, disk: weak_disk, joint })
}
