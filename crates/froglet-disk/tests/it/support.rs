//! Both engines in a simulated environment; the store's files are real ones, which a crash of the environment leaves.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use froglet_disk::{DiskEngine, DiskOptions};
use froglet_engine::batch::value_at;
use froglet_engine::crossing::{Anchor, Beside};
use froglet_engine::env::{Env, MemEnv};
use froglet_engine::{
    ColumnId, ColumnSpec, ColumnType, Direction, Engine, EngineError, EngineTxn, Home, IndexId,
    IndexSpec, KeyPart, KeyRange, Layout, Row, RowId, Snapshot, Table, TxnId, Value,
};
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
    let shared: Arc<dyn Env> = Arc::new(env.program());
    let disk_dir = data.join("disk");
    let (agreeing_env, agreeing_dir) = (Arc::clone(&shared), disk_dir.clone());
    let anchor_log = data.join("log");
    let agreeing =
        move |from, kept| DiskEngine::agree(&*agreeing_env, &agreeing_dir, &anchor_log, from, kept);
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

static NEXT_TXN: AtomicU64 = AtomicU64::new(1);

/// A transaction with an id of its own.
pub fn begin(engine: &dyn Engine) -> Box<dyn EngineTxn> {
    engine.begin(TxnId(NEXT_TXN.fetch_add(1, Ordering::Relaxed)))
}

fn column(id: u32) -> ColumnSpec {
    ColumnSpec { id: ColumnId(id), ty: ColumnType::Int64, missing: Value::Null }
}

/// A table at a home: id bigint primary key, n bigint.
pub fn table(engine: &dyn Engine, home: Home, number: u32) -> Arc<dyn Table> {
    table_with(engine, home, number, IndexId(number))
}

/// The same, with an index of any number.
pub fn table_with(engine: &dyn Engine, home: Home, number: u32, id: IndexId) -> Arc<dyn Table> {
    let part = KeyPart { column: ColumnId(1), descending: false, nulls_first: false };
    let key = IndexSpec {
        id,
        key: vec![part],
        unique: true,
        unique_at_commit: false,
        nulls: Default::default(),
    };
    let layout = Layout { columns: vec![column(1), column(2)], indexes: vec![key], row_key: None };
    engine.create_space(home.space(number)).expect("a space is made");
    let table = engine.open(home.space(number), Arc::new(layout)).expect("a table opens");
    let mut duplicates = Vec::new();
    let build = Arc::clone(&table).build_index(0);
    if let Some(build) = build {
        for block in 0..table.block_count() {
            build.scan_block(TxnId(0), block).expect("a block is scanned");
        }
        build.load(&mut |_| true).expect("an index is loaded");
    } else {
        for block in 0..table.block_count() {
            table.index_block(TxnId(0), 0, block, &mut duplicates).expect("a block is entered");
        }
    }
    assert!(duplicates.is_empty(), "rows share keys: {duplicates:?}");
    table
}

/// Appends rows.
pub fn insert(table: &dyn Table, txn: &mut dyn EngineTxn, rows: &[(i64, i64)]) -> Vec<RowId> {
    let rows: Vec<Row> =
        rows.iter().map(|(id, n)| vec![Value::Int64(*id), Value::Int64(*n)]).collect();
    let mut rids = Vec::new();
    table.insert(txn, &rows, &mut rids).expect("nobody has the keys");
    rids
}

/// The rows that a view sees, by id.
pub fn rows(table: &dyn Table, view: &Snapshot) -> BTreeMap<i64, i64> {
    let mut found = BTreeMap::new();
    for block in 0..table.block_count() {
        let read = table.read_block(view, block, &[0, 1]).expect("a block is read");
        for at in 0..read.rids.len() {
            let value = |column: usize| {
                let value = value_at(read.batch.column(column), at, ColumnType::Int64);
                let Value::Int64(value) = value else { unreachable!("{value:?} is no bigint") };
                value
            };
            let twice = found.insert(value(0), value(1));
            assert!(twice.is_none(), "two visible rows have the id {}", value(0));
        }
    }
    found
}

/// The same, in the order of the key.
pub fn rows_by_key(table: &dyn Table, view: &Snapshot) -> Vec<(i64, i64)> {
    let mut found = Vec::new();
    let all = KeyRange::all();
    table.seek(view, 0, &all, Direction::Forward, &[0, 1], &mut |_, row| {
        if let [Value::Int64(id), Value::Int64(n)] = row[..] {
            found.push((id, n));
        }
        ControlFlow::Continue(())
    });
    found
}
