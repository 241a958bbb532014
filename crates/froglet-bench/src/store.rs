//! Opening an engine to measure, or two that are joined. The only module that knows which engines there are.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use froglet_disk::{DiskEngine, DiskOptions};
pub use froglet_engine::Dictionary;
use froglet_engine::{Engine, Home};
use froglet_log::LogOptions;
use froglet_memory::{FreezeOptions, MemoryEngine, MemoryOptions};
use froglet_txn::{Joint, RegistryOptions, TxnManager};
use tempfile::TempDir;

/// Where commits go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Nowhere: no log.
    Off,
    /// To a log on a file system in memory: everything but the device.
    Tmpfs,
    /// To a log on the disk.
    Disk,
}

impl Durability {
    /// For tables.
    pub fn label(self) -> &'static str {
        match self {
            Durability::Off => "no log",
            Durability::Tmpfs => "log on tmpfs",
            Durability::Disk => "log on disk",
        }
    }
}

/// What the engine does by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Background {
    /// Whether a thread collects garbage.
    pub collects: bool,
    /// After how long without a write a thread freezes a block; never: there is no such thread.
    pub freeze_after: Option<Duration>,
    /// Whether equal strings of a frozen block are kept once.
    pub dictionary: Dictionary,
}

impl Default for Background {
    fn default() -> Background {
        Background { collects: true, freeze_after: None, dictionary: Dictionary::default() }
    }
}

/// An engine with nothing in it. Dropped, it leaves nothing behind.
pub struct Store {
    /// The transactions over the engine.
    pub manager: Arc<TxnManager>,
    /// The engine.
    pub engine: Arc<dyn Engine>,
    memory: Arc<MemoryEngine>,
    _dir: Option<TempDir>,
}

impl Store {
    /// Opens one. `disk` is where a log goes that belongs on a disk.
    pub fn open(durability: Durability, disk: &Path) -> Result<Store> {
        Store::open_with(durability, disk, Background::default())
    }

    /// The same, and says what it does by itself.
    pub fn open_with(durability: Durability, disk: &Path, background: Background) -> Result<Store> {
        let dir = directory(durability, disk)?;
        let memory = MemoryEngine::open(memory_options(dir.as_ref(), background))?;
        Ok(Store::over(memory.clone(), memory, dir))
    }

    /// Opens one with tables in memory and on disk, as a server does: two engines, two logs, one registry. There is a
    /// log; `durability` says where it is, and where the files are.
    pub fn open_joined(
        durability: Durability,
        disk: &Path,
        registry: RegistryOptions,
    ) -> Result<Store> {
        let dir = directory(durability, disk)?.context("tables on disk have a directory")?;
        let mut options = memory_options(Some(&dir), Background::default());
        let env = Arc::clone(&options.env);
        let (files, anchor_log) = (dir.path().join(Home::Disk.name()), dir.path().join("log"));
        let (agreeing, at) = (Arc::clone(&env), files.clone());
        options.agree = Some(Box::new(move |from, kept| {
            DiskEngine::agree(&*agreeing, &at, &anchor_log, from, kept)
        }));
        let memory = MemoryEngine::open(options)?;
        let log = LogOptions { database_id: memory.database_id(), ..LogOptions::default() };
        let disk = DiskEngine::open(DiskOptions::new(files, env, log))?;
        let engine = Joint::new(memory.clone(), disk, registry);
        Ok(Store::over(engine, memory, Some(dir)))
    }

    fn over(engine: Arc<dyn Engine>, memory: Arc<MemoryEngine>, dir: Option<TempDir>) -> Store {
        let manager = TxnManager::new(Arc::clone(&engine));
        Store { manager, engine, memory, _dir: dir }
    }

    /// Collects what nobody needs, where no thread does.
    pub fn collect_garbage(&self) {
        self.memory.collect_garbage();
    }

    /// How many blocks are compacted together.
    pub fn set_group_blocks(&self, blocks: usize) {
        self.memory.set_group_blocks(blocks);
    }
}

/// Where log and files go, if there are any.
fn directory(durability: Durability, disk: &Path) -> Result<Option<TempDir>> {
    match durability {
        Durability::Off => Ok(None),
        Durability::Tmpfs => temporary(Path::new("/dev/shm")).map(Some),
        Durability::Disk => temporary(disk).map(Some),
    }
}

fn memory_options(dir: Option<&TempDir>, background: Background) -> MemoryOptions {
    MemoryOptions {
        data_dir: dir.map(|dir| dir.path().to_owned()),
        memory_limit_bytes: u64::MAX,
        collector_thread: background.collects,
        freeze: FreezeOptions {
            after: background.freeze_after,
            threads: usize::from(background.freeze_after.is_some()),
            dictionary: background.dictionary,
        },
        ..MemoryOptions::default()
    }
}

/// A directory that is removed again when dropped.
pub fn temporary(parent: &Path) -> Result<TempDir> {
    tempfile::Builder::new()
        .prefix("froglet-bench-")
        .tempdir_in(parent)
        .with_context(|| format!("no directory can be made in {}", parent.display()))
}

/// Waits until the engine's memory stands still: versions that nobody can see are collected.
pub fn settle_memory(engine: &dyn Engine, at_most: Duration) -> u64 {
    const STILL: Duration = Duration::from_millis(700);
    let started = Instant::now();
    let (mut last, mut since) = (engine.memory().0, Instant::now());
    while since.elapsed() < STILL && started.elapsed() < at_most {
        std::thread::sleep(Duration::from_millis(50));
        let now = engine.memory().0;
        if now != last {
            (last, since) = (now, Instant::now());
        }
    }
    last
}
