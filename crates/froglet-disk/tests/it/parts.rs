//! Blocks of long rows: they have fewer rows, and are read in parts.

use std::collections::BTreeMap;
use std::sync::Arc;

use froglet_engine::batch::value_at;
use froglet_engine::env::MemEnv;
use froglet_engine::id::ROWS_PER_BLOCK;
use froglet_engine::{
    ColumnFill, ColumnId, ColumnSpec, ColumnType, Engine, Home, Layout, Row, RowId, RowWrite,
    Savepoint, Snapshot, Table, Ts, TxnId, Value,
};

use crate::support::{Options, begin, open};

const LONG: usize = 90_000;

/// A table at a home: id bigint, v text.
fn table(engine: &dyn Engine) -> Arc<dyn Table> {
    let column = |id, ty| ColumnSpec { id: ColumnId(id), ty, missing: Value::Null };
    let columns = vec![column(1, ColumnType::Int64), column(2, ColumnType::Text)];
    engine.create_space(Home::Disk.space(1)).expect("a space is made");
    let layout = Arc::new(Layout { columns, indexes: Vec::new(), row_key: None });
    engine.open(Home::Disk.space(1), layout).expect("a table opens")
}

/// A letter, many times.
fn long(letter: u8, bytes: usize) -> Value {
    Value::Text(String::from_utf8(vec![letter; bytes]).expect("letters").into())
}

/// The letter and the length of each row that a view sees.
fn seen(table: &dyn Table, view: &Snapshot) -> BTreeMap<i64, (u8, usize)> {
    let mut found = BTreeMap::new();
    for block in 0..table.block_count() {
        let read = table.read_block(view, block, &[0, 1]).expect("a block is read");
        assert!(read.rids.is_sorted() && read.rids.iter().all(|rid| rid.block() == block));
        let (mut in_parts, mut next) = (Vec::new(), Some(RowId::of(block, 0)));
        while let Some(from) = next {
            let (part, behind) = table.read_part(view, from, &[1]).expect("a part is read");
            assert!(part.rids.iter().all(|rid| *rid >= from && behind.is_none_or(|to| *rid < to)));
            assert!(part.batch.get_array_memory_size() < 4 << 20, "a part is small");
            in_parts.extend(part.rids);
            next = behind;
        }
        assert_eq!(in_parts, read.rids);
        for at in 0..read.rids.len() {
            let value = |column: usize, ty| value_at(read.batch.column(column), at, ty);
            let (Value::Int64(id), Value::Text(v)) =
                (value(0, ColumnType::Int64), value(1, ColumnType::Text))
            else {
                unreachable!("an id and a text")
            };
            assert!(v.bytes().all(|byte| byte == v.as_bytes()[0]), "a text of several letters");
            let twice = found.insert(id, (v.as_bytes()[0], v.len()));
            assert!(twice.is_none(), "two visible rows have the id {id}");
        }
    }
    found
}

fn update(table: &dyn Table, engine: &dyn Engine, rids: &[RowId], v: &Value, commits: bool) {
    let mut txn = begin(engine);
    let values = [v.clone()];
    for rid in rids {
        let write = RowWrite::Update { rid: *rid, columns: &[1], values: &values };
        table.write(&mut *txn, Ts::LATEST, &[write]).expect("nobody else has the row");
    }
    if commits {
        txn.post_commit().expect("it commits").waits_for_nothing("it is not told to anybody");
    }
}

/// Every view sees what it should where old versions, new ones and those of nobody yet lie in several parts.
#[test]
fn a_block_in_parts_is_what_it_is_at_once() {
    let files = tempfile::tempdir().expect("a directory");
    let both = open(&MemEnv::new(1), files.path().to_owned(), &Options::default()).expect("open");
    let (engine, table): (&dyn Engine, _) = (&*both.joint, table(&*both.joint));
    let work = || both.disk.upgrade().expect("it is open").work().expect("it is written");

    // Short rows, which become long: all are in one block.
    let mut txn = begin(engine);
    let rows: Vec<Row> = (0..100).map(|id| vec![Value::Int64(id), long(b'a', 10)]).collect();
    let mut rids = Vec::new();
    table.insert(&mut *txn, &rows, &mut rids).expect("they are new");
    txn.post_commit().expect("it commits").waits_for_nothing("it is not told to anybody");
    assert!(rids.iter().all(|rid| rid.block() == 0));
    update(&*table, engine, &rids, &long(b'b', LONG), true);

    let old = engine.snapshot();
    let was: BTreeMap<i64, (u8, usize)> = (0..100).map(|id| (id, (b'b', LONG))).collect();
    assert_eq!(seen(&*table, &old), was);
    let some = |n: usize| rids.iter().copied().skip(n).step_by(3).collect::<Vec<_>>();
    update(&*table, engine, &some(0), &long(b'c', LONG / 2), true);
    let mut txn = begin(engine);
    for rid in some(1) {
        let write = RowWrite::Delete { rid };
        table.write(&mut *txn, Ts::LATEST, &[write]).expect("nobody else has the row");
    }
    txn.post_commit().expect("it commits").waits_for_nothing("it is not told to anybody");
    let mut now = was.clone();
    now.retain(|id, _| id % 3 != 1);
    now.values_mut().step_by(2).for_each(|row| *row = (b'c', LONG / 2));

    let mut open = begin(engine);
    let values = [long(b'd', 2 * LONG)];
    for rid in some(2) {
        let write = RowWrite::Update { rid, columns: &[1], values: &values };
        table.write(&mut *open, Ts::LATEST, &[write]).expect("nobody else has the row");
    }
    let mut own = now.clone();
    own.values_mut().skip(1).step_by(2).for_each(|row| *row = (b'd', 2 * LONG));
    for _ in 0..2 {
        assert_eq!(seen(&*table, &old), was);
        assert_eq!(seen(&*table, &engine.snapshot()), now);
        assert_eq!(seen(&*table, open.snapshot()), own);
        both.joint.checkpoint().expect("what was put is in files");
        work();
    }
    open.abort();
    assert_eq!(seen(&*table, &old), was);
    drop(old);
    while work() {}
    assert_eq!(seen(&*table, &engine.snapshot()), now);
}

/// A fill meets every row once, whatever its parts are, all rows of a block and some of them.
#[test]
fn a_fill_meets_every_row_once() {
    let files = tempfile::tempdir().expect("a directory");
    let both = open(&MemEnv::new(1), files.path().to_owned(), &Options::default()).expect("open");
    let (engine, table): (&dyn Engine, _) = (&*both.joint, table(&*both.joint));
    let mut txn = begin(engine);
    let rows: Vec<Row> = (0..64).map(|id| vec![Value::Int64(id), long(b'a', LONG)]).collect();
    let mut rids = Vec::new();
    table.insert(&mut *txn, &rows, &mut rids).expect("they are new");
    txn.post_commit().expect("it commits").waits_for_nothing("it is not told to anybody");
    let blocks: Vec<u32> = rids.iter().map(|rid| rid.block()).collect();
    assert!(blocks.is_sorted() && table.block_count() > 1, "long rows are in several blocks");
    assert!(table.block_count() < 16, "a block has several rows");
    assert!(rids.iter().all(|rid| rid.slot() < ROWS_PER_BLOCK));

    for only in [None, Some(7)] {
        let mut met = Vec::new();
        for block in 0..table.block_count() {
            let of_block = rids.iter().copied().filter(|rid| rid.block() == block);
            let some: Option<Vec<RowId>> = only.map(|most| of_block.take(most).collect());
            let mut parts = 0;
            let mut fill = |read: &froglet_engine::BlockRows| {
                parts += 1;
                met.extend_from_slice(&read.rids);
                let ids = (0..read.rids.len()).map(|at| {
                    let Value::Int64(id) = value_at(read.batch.column(0), at, ColumnType::Int64)
                    else {
                        unreachable!("an id")
                    };
                    id + 1000
                });
                let values: arrow_array::Int64Array = ids.collect();
                Ok(ColumnFill::from(vec![Arc::new(values) as arrow_array::ArrayRef]))
            };
            let (nobody, since) = (TxnId(0), Savepoint(0));
            let n = table
                .migrate_block(nobody, since, block, some.as_deref(), &[0, 1], &[0], &mut fill)
                .expect("it is filled");
            let of_block = rids.iter().filter(|rid| rid.block() == block).count();
            assert_eq!(n as usize, only.map_or(of_block, |most: usize| most.min(of_block)));
            assert!(only.is_some() || parts > 1 || of_block < 12, "{of_block} rows in one part");
        }
        assert!(met.is_sorted_by(|a, b| a < b), "a row is met once: {met:?}");
        let ids: Vec<i64> = seen(&*table, &engine.snapshot()).into_keys().collect();
        if only.is_none() {
            assert_eq!(ids, (1000..1064).collect::<Vec<i64>>());
        }
    }
}
