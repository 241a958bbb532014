//! Updates of rows on disk, with their old versions in memory (`recent.rs`) and in the store.
//!
//! ```text
//! cargo bench -p froglet-disk --bench updates -- [--rows 500000] [--seconds 8] [--rounds 3]
//! ```
//! Both engines as a server has them, with logs and files in a temporary directory; nobody waits for the log. Transactions of
//! ten updates, each of one row by its number, of a column in no index; two threads, each with a half of the rows (232 bytes).
//! Everything fits into the cache. The variants take turns; the median counts. `written` are bytes of files for each byte
//! that was updated.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use froglet_disk::{DiskEngine, DiskOptions};
use froglet_engine::crossing::{Anchor, Beside};
use froglet_engine::env::{Env, RealEnv};
use froglet_engine::{
    ColumnId, ColumnSpec, ColumnType, Engine, EngineTxn, Home, IndexId, IndexSpec, KeyPart, Layout,
    LogRoom, RowId, RowWrite, Table, TxnId, Value,
};
use froglet_log::LogOptions;
use froglet_memory::{MemoryEngine, MemoryOptions};
use froglet_txn::{Joint, RegistryOptions};

const THREADS: u64 = 2;
const UPDATES: usize = 10;
const PAD: usize = 200;
const GATHER_BYTES: u64 = 32 << 20;

static NEXT_TXN: AtomicU64 = AtomicU64::new(1);

struct World {
    joint: Arc<Joint>,
    table: Arc<dyn Table>,
    rids: Vec<RowId>,
    _dir: tempfile::TempDir,
}

fn begin(engine: &dyn Engine) -> Box<dyn EngineTxn> {
    engine.begin(TxnId(NEXT_TXN.fetch_add(1, Ordering::Relaxed)))
}

/// Waits for the room in the log as a session would.
fn commit(mut txn: Box<dyn EngineTxn>) {
    loop {
        match txn.reserve_log().expect("the log is well") {
            LogRoom::Reserved => break,
            LogRoom::Wait(_) => std::thread::sleep(Duration::from_micros(200)),
        }
    }
    txn.post_commit().expect("it commits").waits_for_nothing("a benchmark without durable commits");
}

fn layout() -> Layout {
    let column = |id, ty| ColumnSpec { id: ColumnId(id), ty, missing: Value::Null };
    let part = KeyPart { column: ColumnId(1), descending: false, nulls_first: false };
    let key = IndexSpec {
        id: IndexId(1),
        key: vec![part],
        unique: true,
        unique_at_commit: false,
        nulls: Default::default(),
    };
    let columns = vec![
        column(1, ColumnType::Int64),
        column(2, ColumnType::Int64),
        column(3, ColumnType::Text),
    ];
    Layout { columns, indexes: vec![key], row_key: None }
}

impl World {
    fn new(rows: u64, recent_bytes: Option<u64>) -> World {
        let dir = tempfile::tempdir().expect("a directory");
        let data = dir.path().to_owned();
        let env: Arc<dyn Env> = Arc::new(RealEnv::new());
        let disk_dir = data.join("disk");
        let (agreeing_env, agreeing_dir) = (Arc::clone(&env), disk_dir.clone());
        let anchor_log = data.join("log");
        let agreeing = move |from, kept| {
            DiskEngine::agree(&*agreeing_env, &agreeing_dir, &anchor_log, from, kept)
        };
        let memory = MemoryEngine::open(MemoryOptions {
            data_dir: Some(data),
            env: Arc::clone(&env),
            agree: Some(Box::new(agreeing)),
            ..MemoryOptions::default()
        });
        let memory = memory.expect("it opens");
        let log = LogOptions { database_id: memory.database_id(), ..LogOptions::default() };
        let disk = DiskEngine::open(DiskOptions {
            cache_bytes: 4 * rows * 232,
            gather_bytes: GATHER_BYTES,
            recent_bytes,
            ..DiskOptions::new(disk_dir, env, log)
        });
        let disk = disk.expect("it opens") as Arc<dyn Beside>;
        let joint = Joint::new(memory as Arc<dyn Anchor>, disk, RegistryOptions::default());
        let space = Home::Disk.space(1);
        joint.create_space(space).expect("a space is made");
        let table = joint.open(space, Arc::new(layout())).expect("a table opens");
        let (mut rids, pad) = (Vec::new(), "x".repeat(PAD));
        for first in (0..rows).step_by(10_000) {
            let mut txn = begin(&*joint);
            let row = |id: u64| {
                vec![Value::Int64(id as i64), Value::Int64(0), Value::Text(pad.as_str().into())]
            };
            let rows: Vec<_> = (first..rows.min(first + 10_000)).map(row).collect();
            table.insert(&mut *txn, &rows, &mut rids).expect("nobody has the keys");
            commit(txn);
        }
        World { joint, table, rids, _dir: dir }
    }

    fn disk(&self) -> (u64, u64) {
        let figures = self.joint.figures();
        let disk = figures.iter().find(|figures| figures.home == Home::Disk).expect("it is beside");
        (disk.written_bytes.expect("it is counted"), disk.file_bytes.unwrap_or(0))
    }

    /// Transactions a second, and bytes that were written to files for each that was updated.
    fn run(&self, time: Duration, seed: u64) -> (f64, f64) {
        let (done, begun, written) = (AtomicU64::new(0), Instant::now(), self.disk().0);
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let done = &done;
                scope.spawn(move || {
                    let mut random = seed * THREADS + thread + 1;
                    let half = self.rids.len() as u64 / THREADS;
                    while begun.elapsed() < time {
                        let mut txn = begin(&*self.joint);
                        for _ in 0..UPDATES {
                            random ^= random << 13;
                            random ^= random >> 7;
                            random ^= random << 17;
                            let rid = self.rids[(thread * half + random % half) as usize];
                            let values = [Value::Int64((random >> 20) as i64)];
                            let write = RowWrite::Update { rid, columns: &[1], values: &values };
                            let view = txn.snapshot().ts;
                            self.table
                                .write(&mut *txn, view, &[write])
                                .expect("nobody has the row");
                        }
                        commit(txn);
                        done.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
        });
        let done = done.load(Ordering::Relaxed) as f64;
        let updated = done * UPDATES as f64 * 232.0;
        let written = (self.disk().0 - written) as f64;
        (done / begun.elapsed().as_secs_f64(), written / updated)
    }
}

fn argument(name: &str) -> Option<u64> {
    let mut arguments = std::env::args().skip_while(|argument| argument != name);
    arguments.nth(1).map(|value| value.parse().expect("a number"))
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let rows = argument("--rows").unwrap_or(500_000);
    let time = Duration::from_secs(argument("--seconds").unwrap_or(8));
    let variants = [("in memory", None), ("in the store", Some(0))];
    let worlds = variants.map(|(_, recent_bytes)| World::new(rows, recent_bytes));
    let mut found = [(Vec::new(), Vec::new()), (Vec::new(), Vec::new())];
    for round in 0..argument("--rounds").unwrap_or(3) {
        for (world, found) in worlds.iter().zip(&mut found) {
            let (rate, written) = world.run(time, round);
            found.0.push(rate);
            found.1.push(written);
        }
    }
    println!("{rows} rows; {THREADS} threads, {UPDATES} updates a transaction");
    let mut rates = Vec::new();
    for (((name, _), world), (rate, written)) in variants.iter().zip(&worlds).zip(found) {
        let (rate, written) = (median(rate), median(written));
        let files = world.disk().1 >> 20;
        println!(
            "old versions {name:12} {rate:8.0} transactions/s, written {written:.2}, files {files} MB"
        );
        rates.push(rate);
    }
    println!("ratio {:.2}", rates[0] / rates[1]);
}
