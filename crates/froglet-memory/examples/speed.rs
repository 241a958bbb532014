//! How fast the engine is beneath SQL, on one thread: prints a table.
//!
//! `cargo run --release -p froglet-memory --example speed`

use std::sync::Arc;
use std::time::Duration;

use froglet_engine::{
    ColumnId, ColumnSpec, ColumnType, Engine, EngineTxn, IndexId, IndexSpec, KeyPart, KeyRange,
    Layout, Row, RowId, SpaceId, Table, TxnId, Value, key,
};
use froglet_memory::{MemoryEngine, MemoryOptions, MemoryTable};

const ROWS: i64 = 1_000_000;

fn layout() -> Arc<Layout> {
    let types = [
        ColumnType::Int64,
        ColumnType::Int64,
        ColumnType::Int32,
        ColumnType::Text,
        ColumnType::Decimal { precision: 12, scale: 2 },
        ColumnType::Text,
    ];
    let column = |(i, ty): (usize, &ColumnType)| ColumnSpec {
        id: ColumnId(i as u32 + 1),
        ty: *ty,
        missing: Value::Null,
    };
    let part = KeyPart { column: ColumnId(1), descending: false, nulls_first: false };
    Arc::new(Layout {
        columns: types.iter().enumerate().map(column).collect(),
        indexes: vec![IndexSpec {
            id: IndexId(1),
            key: vec![part],
            unique: true,
            unique_at_commit: false,
            nulls: Default::default(),
        }],
        row_key: None,
    })
}

fn row(id: i64) -> Row {
    vec![
        Value::Int64(id),
        Value::Int64(id * 7),
        Value::Int32(id as i32),
        Value::text(format!("n{}", id % 1000)),
        Value::Decimal(i128::from(id)),
        Value::text(format!("a text of thirty bytes {id:07}")),
    ]
}

struct Ids(u64);

impl Ids {
    fn next(&mut self) -> TxnId {
        self.0 += 1;
        TxnId(self.0)
    }

    fn random(&mut self) -> i64 {
        self.0 += 1;
        let mut z = self.0.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        ((z ^ (z >> 27)) % ROWS as u64) as i64
    }
}

/// CPU time of this thread, so that other work on the machine does not count.
#[derive(Clone, Copy)]
struct Cpu(Duration);

impl Cpu {
    fn now() -> Cpu {
        let stat = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux");
        let ns =
            stat.split(' ').next().and_then(|ns| ns.parse().ok()).expect("a number of nanoseconds");
        Cpu(Duration::from_nanos(ns))
    }

    fn elapsed(self) -> Duration {
        Cpu::now().0 - self.0
    }
}

fn report(what: &str, n: u64, took: Duration) {
    let per_s = n as f64 / took.as_secs_f64();
    println!("{what:<46} {per_s:>14.0} /s {:>9.0} ns", took.as_nanos() as f64 / n as f64);
}

fn timed(what: &str, n: u64, mut run: impl FnMut(u64)) {
    let start = Cpu::now();
    (0..n).for_each(&mut run);
    report(what, n, start.elapsed());
}

fn encoded(id: i64, table: &MemoryTable) -> Vec<u8> {
    let mut out = Vec::with_capacity(16);
    key::encode_part(&mut out, &Value::Int64(id), &table.layout().indexes[0].key[0]);
    out
}

fn writes(engine: &Arc<MemoryEngine>, table: &MemoryTable, ids: &mut Ids) -> Vec<RowId> {
    let mut rids = Vec::with_capacity(ROWS as usize);
    let start = Cpu::now();
    for first in (0..ROWS).step_by(100) {
        let mut txn = engine.begin_txn(ids.next());
        for id in first..first + 100 {
            rids.push(table.insert_row(&mut txn, &row(id)).expect("a new key"));
        }
        let _ = txn.commit().expect("commits");
    }
    report("insert, 100 rows a transaction", ROWS as u64, start.elapsed());
    timed("insert, 1 row a transaction", 200_000, |i| {
        let mut txn = engine.begin_txn(ids.next());
        table.insert_row(&mut txn, &row(ROWS + i as i64)).expect("a new key");
        let _ = txn.commit().expect("commits");
    });
    timed("update a bigint, 1 row a transaction", 500_000, |i| {
        let rid = rids[ids.random() as usize];
        let mut txn = engine.begin_txn(ids.next());
        let base = txn.snapshot().ts;
        table.update_row(&mut txn, base, rid, &[1], &[Value::Int64(i as i64)]).expect("free");
        let _ = txn.commit().expect("commits");
    });
    timed("update a bigint, 30 rows a transaction, each", 20_000, |i| {
        let mut txn = engine.begin_txn(ids.next());
        let base = txn.snapshot().ts;
        for _ in 0..30 {
            let rid = rids[ids.random() as usize];
            table.update_row(&mut txn, base, rid, &[1], &[Value::Int64(i as i64)]).expect("free");
        }
        let _ = txn.commit().expect("commits");
    });
    timed("update a text of 30 bytes, 1 row a transaction", 500_000, |i| {
        let rid = rids[ids.random() as usize];
        let mut txn = engine.begin_txn(ids.next());
        let base = txn.snapshot().ts;
        let text = Value::text(format!("a text of thirty bytes {i:07}"));
        table.update_row(&mut txn, base, rid, &[5], &[text]).expect("free");
        let _ = txn.commit().expect("commits");
    });
    timed("delete and insert, 2 rows a transaction", 200_000, |_| {
        let at = ids.random();
        let mut txn = engine.begin_txn(ids.next());
        let base = txn.snapshot().ts;
        table.delete_row(&mut txn, base, rids[at as usize]).expect("free");
        rids[at as usize] = table.insert_row(&mut txn, &row(at)).expect("free");
        let _ = txn.commit().expect("commits");
    });
    rids
}

fn reads(engine: &Arc<MemoryEngine>, table: &MemoryTable, ids: &mut Ids, rids: &[RowId]) {
    let snapshot = engine.snapshot();
    let mut out = Row::new();
    timed("read 2 columns by row id", 2_000_000, |_| {
        out.clear();
        assert!(table.get(&snapshot, rids[ids.random() as usize], &[0, 1], &mut out));
    });
    timed("read 6 columns by row id", 1_000_000, |_| {
        out.clear();
        assert!(table.get(&snapshot, rids[ids.random() as usize], &[0, 1, 2, 3, 4, 5], &mut out));
    });
    timed("read 2 columns by key", 1_000_000, |_| {
        out.clear();
        let key = encoded(ids.random(), table);
        assert!(table.get_by_key(&snapshot, 0, &key, &[0, 1], &mut out).is_some());
    });
    timed("begin, read 2 columns by key, end", 1_000_000, |_| {
        out.clear();
        let txn = engine.begin_txn(ids.next());
        let key = encoded(ids.random(), table);
        assert!(table.get_by_key(txn.snapshot(), 0, &key, &[0, 1], &mut out).is_some());
    });
    timed("seek 100 rows, each", 1_000, |_| {
        let mut left = 100;
        let range = KeyRange {
            lower: std::ops::Bound::Included(encoded(ids.random() / 2, table)),
            ..KeyRange::all()
        };
        table.seek(
            &snapshot,
            0,
            &range,
            froglet_engine::Direction::Forward,
            &[0, 1],
            &mut |_, _| {
                left -= 1;
                if left == 0 {
                    std::ops::ControlFlow::Break(())
                } else {
                    std::ops::ControlFlow::Continue(())
                }
            },
        );
        assert_eq!(left, 0);
    });
}

fn scans(engine: &Arc<MemoryEngine>, table: &MemoryTable, what: &str) {
    let snapshot = engine.snapshot();
    for (name, projection) in [
        ("1 bigint", &[1][..]),
        ("2 bigints and an integer", &[0, 1, 2]),
        ("a text of 30 bytes", &[5]),
        ("all columns", &[0, 1, 2, 3, 4, 5]),
    ] {
        let mut best = f64::MAX;
        let (mut rows, mut bytes) = (0, 0);
        for _ in 0..5 {
            let start = Cpu::now();
            (rows, bytes) = (0, 0);
            for block in 0..table.block_count() {
                let read = table.read_block(&snapshot, block, projection).expect("read");
                rows += read.rids.len();
                bytes += read.rids.len()
                    * projection
                        .iter()
                        .map(|&p| table.layout().columns[p].ty.width())
                        .sum::<usize>();
            }
            best = best.min(start.elapsed().as_secs_f64());
        }
        println!(
            "scan of {name}, {what:<20} {:>8.2} ns a row {:>8.2} GB/s of cells",
            best * 1e9 / rows as f64,
            bytes as f64 / best / 1e9
        );
    }
}

fn main() {
    let mut options = MemoryOptions { memory_limit_bytes: 16 << 30, ..MemoryOptions::default() };
    let dir = std::env::args().nth(1);
    options.data_dir = dir.map(Into::into);
    let engine = MemoryEngine::open(options).expect("opens");
    engine.create_space(SpaceId(1)).expect("a space");
    let table = engine.open_table(SpaceId(1), layout()).expect("opens");
    let mut ids = Ids(0);
    timed("begin and end", 2_000_000, |_| drop(engine.begin_txn(ids.next())));
    let rids = writes(&engine, &table, &mut ids);
    std::thread::sleep(Duration::from_millis(200));
    println!("memory {} MB", engine.memory().0 >> 20);
    reads(&engine, &table, &mut ids, &rids);
    scans(&engine, &table, "no versions");
    let hold = engine.snapshot();
    for first in (0..ROWS).step_by(1000) {
        let mut txn = engine.begin_txn(ids.next());
        let base = txn.snapshot().ts;
        for id in (first..first + 1000).step_by(20) {
            table
                .update_row(&mut txn, base, rids[id as usize], &[1], &[Value::Int64(id)])
                .expect("free");
        }
        let _ = txn.commit().expect("commits");
    }
    scans(&engine, &table, "5 % versions");
    drop(hold);
}
