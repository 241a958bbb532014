//! How long a restart takes: recovery of the engine, and every index of TPC-C-like tables.
//!
//! ```text
//!   cargo run --release -p froglet-memory --example restart -- fill DIR WAREHOUSES
//!   cargo run --release -p froglet-memory --example restart -- open DIR [THREADS]
//! ```
//!
//! A warehouse has the rows of TPC-C's: 300,000 order lines, 100,000 of stock, 30,000 customers with
//! two indexes, 30,000 orders with two. `open` prints the seconds of each part, up to the first rows
//! found by every index.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use froglet_engine::{
    ColumnId, ColumnSpec, ColumnType, Direction, Engine, IndexId, IndexSpec, KeyPart, KeyRange,
    Layout, Row, SpaceId, Table, TxnId, Value,
};
use froglet_memory::{MemoryEngine, MemoryOptions};

const ROWS_AT_ONCE: usize = 1000;

fn layout(types: &[ColumnType], keys: &[&[u32]], first_index: u32) -> Arc<Layout> {
    let column = |(id, &ty)| ColumnSpec { id: ColumnId(id), ty, missing: Value::Null };
    let part = |&c: &u32| KeyPart { column: ColumnId(c), descending: false, nulls_first: false };
    let index = |(id, key): (u32, &&[u32])| IndexSpec {
        id: IndexId(id),
        key: key.iter().map(part).collect(),
        unique: true,
        unique_at_commit: false,
        nulls: Default::default(),
    };
    Arc::new(Layout {
        columns: (1..).zip(types).map(column).collect(),
        indexes: (first_index..).zip(keys).map(index).collect(),
        row_key: None,
    })
}

/// The tables, each with its rows in a warehouse.
fn tables() -> Vec<(SpaceId, Arc<Layout>, usize)> {
    use ColumnType::{Int16, Int32, Int64, Text, Timestamp};
    let money = ColumnType::Decimal { precision: 12, scale: 2 };
    let line = [Int32, Int16, Int32, Int16, Int32, Int32, Timestamp, Int16, money, Text];
    let mut stock = vec![Int32, Int32, Int16, Int32, Int32, Int32];
    stock.extend([Text; 11]);
    let mut customer = vec![Int32, Int16, Int32, money, money, money, Timestamp, Int64];
    customer.extend([Text; 13]);
    let order = [Int32, Int16, Int32, Int32, Timestamp, Int16, Int16, Int16];
    vec![
        (SpaceId(1), layout(&line, &[&[1, 2, 3, 4]], 1), 300_000),
        (SpaceId(2), layout(&stock, &[&[1, 2]], 2), 100_000),
        (SpaceId(3), layout(&customer, &[&[1, 2, 3], &[1, 2, 10, 3]], 3), 30_000),
        (SpaceId(4), layout(&order, &[&[1, 2, 3], &[1, 2, 4, 3]], 5), 30_000),
    ]
}

/// Row `n` of a warehouse: its number first, the others so that every key is one of its own.
fn row(layout: &Layout, warehouse: i64, n: i64) -> Row {
    let value = |(at, column): (usize, &ColumnSpec)| match (at, column.ty) {
        (0, _) => Value::Int32(warehouse as i32),
        (1, ColumnType::Int16) => Value::Int16((n % 10) as i16),
        (1, _) => Value::Int32(n as i32),
        (2, ColumnType::Int32) => Value::Int32((n / 10) as i32),
        (_, ColumnType::Int16) => Value::Int16((n % 15) as i16),
        (_, ColumnType::Int32) => Value::Int32((n * 7919 % 100_000) as i32),
        (_, ColumnType::Int64) => Value::Int64(n),
        (_, ColumnType::Timestamp) => Value::Timestamp(n * 1_000_000),
        (_, ColumnType::Decimal { .. }) => Value::Decimal(i128::from(n) * 100),
        _ => Value::text(format!("{:>24}", n.wrapping_mul(2_654_435_761 + at as i64))),
    };
    layout.columns.iter().enumerate().map(value).collect()
}

fn open(dir: &str) -> Arc<MemoryEngine> {
    let options = MemoryOptions {
        data_dir: Some(dir.into()),
        memory_limit_bytes: 16 << 30,
        ..MemoryOptions::default()
    };
    MemoryEngine::open(options).expect("the directory is of this program")
}

fn fill(dir: &str, warehouses: i64) {
    let (engine, begun) = (open(dir), Instant::now());
    let mut id = 0;
    for (space, layout, rows) in tables() {
        engine.create_space(space).expect("a space is made");
        let table = engine.open(space, Arc::clone(&layout)).expect("a table opens");
        for warehouse in 1..=warehouses {
            let numbers: Vec<i64> = (0..rows as i64).collect();
            for numbers in numbers.chunks(ROWS_AT_ONCE) {
                id += 1;
                let rows: Vec<Row> = numbers.iter().map(|n| row(&layout, warehouse, *n)).collect();
                let mut txn = engine.begin(TxnId(id));
                table.insert(&mut *txn, &rows, &mut Vec::new()).expect("keys are new");
                txn.pre_commit();
                let _ = txn.post_commit().expect("there is space");
            }
        }
    }
    let (filled, memory) = (begun.elapsed(), engine.memory());
    engine.collect_garbage();
    let begun = Instant::now();
    engine.checkpoint().expect("there is space");
    println!(
        "filled in {:.1} s, {:.2} GB; checkpoint in {:.1} s",
        filled.as_secs_f64(),
        memory.0 as f64 / 1e9,
        begun.elapsed().as_secs_f64()
    );
}

fn restart(dir: &str, threads: usize) {
    let begun = Instant::now();
    let engine = open(dir);
    let opened = begun.elapsed();
    let tables: Vec<Arc<dyn Table>> = tables()
        .into_iter()
        .map(|(space, layout, _)| {
            engine.open(space, layout).expect("a table opens") as Arc<dyn Table>
        })
        .collect();
    let jobs: Vec<_> = tables
        .iter()
        .flat_map(|table| (0..table.layout().indexes.len()).map(move |index| (table, index)))
        .collect();
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some((table, index)) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let build = Arc::clone(*table).build_index(*index).expect("it is empty");
                    for block in 0..table.block_count() {
                        build.scan_block(TxnId(0), block).expect("a block is scanned");
                    }
                    build.load(&mut |_| true).expect("there is memory");
                }
            });
        }
    });
    let indexed = begun.elapsed();
    let mut found = 0;
    for (table, index) in &jobs {
        let all = [0, 1];
        table.seek(
            &engine.snapshot(),
            *index,
            &KeyRange::all(),
            Direction::Forward,
            &all,
            &mut |_, _| {
                found += 1;
                ControlFlow::Break(())
            },
        );
    }
    let first = begun.elapsed();
    assert_eq!(found, jobs.len(), "every index finds its first row");
    let (used_bytes, _) = engine.memory();
    println!(
        "open {:.3} s, indexes {:.3} s, in all {:.3} s; {:.2} GB used",
        opened.as_secs_f64(),
        (indexed - opened).as_secs_f64(),
        first.as_secs_f64(),
        used_bytes as f64 / 1e9
    );
    let times = engine.recovery_times();
    println!("  checksums {:?}, mapping {:?}, log {:?}", times.checksums, times.mapping, times.log);
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["fill", dir, warehouses] => fill(dir, warehouses.parse().expect("a number")),
        ["open", dir] => restart(dir, 2),
        ["open", dir, threads] => restart(dir, threads.parse().expect("a number")),
        _ => eprintln!("restart fill DIR WAREHOUSES | restart open DIR [THREADS]"),
    }
}
