//! What the tests share: a small table, and transactions with ids of their own.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use froglet_engine::{
    ColumnId, ColumnSpec, ColumnType, Direction, Engine, EngineTxn, IndexId, IndexSpec, KeyPart,
    KeyRange, Layout, Row, RowId, RowWrite, Snapshot, SpaceId, Table, TxnId, Value, WriteStop,
};
use froglet_memory::{FreezeOptions, MemoryEngine, MemoryOptions};

/// A space that most tests use.
pub const SPACE: SpaceId = SpaceId(7);

/// A column without a missing value.
pub fn column(id: u32, ty: ColumnType) -> ColumnSpec {
    ColumnSpec { id: ColumnId(id), ty, missing: Value::Null }
}

/// An ascending index over columns.
pub fn index(id: u32, columns: &[u32], unique: bool) -> IndexSpec {
    let part = |&c: &u32| KeyPart { column: ColumnId(c), descending: false, nulls_first: false };
    IndexSpec {
        id: IndexId(id),
        key: columns.iter().map(part).collect(),
        unique,
        unique_at_commit: false,
        nulls: Default::default(),
    }
}

/// id bigint primary key, name text, n bigint; an index over n.
pub fn accounts() -> Arc<Layout> {
    Arc::new(Layout {
        columns: vec![
            column(1, ColumnType::Int64),
            column(2, ColumnType::Text),
            column(3, ColumnType::Int64),
        ],
        indexes: vec![index(1, &[1], true), index(2, &[3], false)],
        row_key: None,
    })
}

/// A row of [`accounts`].
pub fn account(id: i64, name: &str, n: i64) -> Row {
    vec![Value::Int64(id), Value::text(name), Value::Int64(n)]
}

/// A string that does not fit its view.
pub fn long(n: i64) -> String {
    format!("a string longer than its view, number {n}")
}

/// A numeric that is `n`, or just above it, and then longer than its view; so many more digits are shown.
pub fn number(n: i64, digits: u16) -> Value {
    let far = 10_i128.pow(20);
    let (unscaled, scale) = if n % 4 == 3 { (i128::from(n) * far + 7, 20) } else { (n.into(), 0) };
    let unscaled = unscaled * 10_i128.pow(digits.into());
    Value::Numeric(froglet_engine::numeric::of_unscaled(unscaled, scale + digits))
}

static NEXT_TXN: AtomicU64 = AtomicU64::new(1);

/// A new transaction id.
pub fn next_id() -> TxnId {
    TxnId(NEXT_TXN.fetch_add(1, Ordering::Relaxed))
}

/// An engine with one table.
pub struct Db {
    pub engine: Arc<MemoryEngine>,
    pub table: Arc<dyn Table>,
}

impl Db {
    /// An engine without a log and without a collector thread, which prunes whenever it collects.
    pub fn new() -> Db {
        let options = MemoryOptions {
            collector_thread: false,
            prune_bytes_min: 0,
            ..MemoryOptions::default()
        };
        Db::with(accounts(), options)
    }

    /// An engine whose collector runs.
    pub fn collected() -> Db {
        Db::with(accounts(), MemoryOptions::default())
    }

    /// An engine whose collector runs, and which freezes whatever is quiet for a moment.
    pub fn frozen() -> Db {
        let freeze =
            FreezeOptions { after: Some(Duration::ZERO), threads: 2, ..FreezeOptions::default() };
        let options = MemoryOptions { freeze, prune_bytes_min: 0, ..MemoryOptions::default() };
        Db::with(accounts(), options)
    }

    pub fn with(layout: Arc<Layout>, options: MemoryOptions) -> Db {
        let engine = MemoryEngine::open(options).expect("an engine opens");
        engine.create_space(SPACE).expect("a space is made");
        let table = engine.open(SPACE, layout).expect("a table opens");
        Db { engine, table }
    }

    pub fn begin(&self) -> Box<dyn EngineTxn> {
        self.engine.begin(next_id())
    }

    /// Inserts and commits.
    pub fn insert(&self, rows: &[Row]) -> Vec<RowId> {
        let mut txn = self.begin();
        let mut rids = Vec::new();
        self.table.insert(&mut *txn, rows, &mut rids).expect("rows go in");
        commit(txn);
        rids
    }

    /// What a new snapshot sees of a row.
    pub fn row(&self, rid: RowId) -> Option<Row> {
        read(&*self.table, &self.engine.snapshot(), rid)
    }

    /// Every row a snapshot sees, by scanning blocks, sorted by its first column.
    pub fn scan(&self, snapshot: &Snapshot) -> Vec<Row> {
        scan(&*self.table, snapshot)
    }
}

/// Makes the moves that compaction plans, in one transaction; how many it could make.
pub fn move_rows(db: &Db) -> usize {
    let mut txn = db.begin();
    let moves = db.table.plan_moves(false);
    let made = moves.into_iter().filter(|(from, to)| {
        let moved = db.table.move_row(&mut *txn, *from, *to);
        assert!(
            matches!(moved, Ok(()) | Err(WriteStop::Gone | WriteStop::Busy { .. })),
            "{moved:?}"
        );
        moved.is_ok()
    });
    let made = made.count();
    commit(txn);
    made
}

/// Commits.
pub fn commit(mut txn: Box<dyn EngineTxn>) {
    txn.pre_commit();
    let _ = txn.post_commit().expect("a commit succeeds");
}

/// One whole row.
pub fn read(table: &dyn Table, snapshot: &Snapshot, rid: RowId) -> Option<Row> {
    let projection: Vec<usize> = (0..table.layout().columns.len()).collect();
    let mut row = Row::new();
    table.read_row(snapshot, rid, &projection, &mut row).then_some(row)
}

/// Every row a snapshot sees, sorted by its first column if that is a bigint.
pub fn scan(table: &dyn Table, snapshot: &Snapshot) -> Vec<Row> {
    let projection: Vec<usize> = (0..table.layout().columns.len()).collect();
    let mut rows = Vec::new();
    for block in 0..table.block_count() {
        let read = table.read_block(snapshot, block, &projection).expect("a block is read");
        assert_eq!(read.rids.len(), read.batch.num_rows());
        for at in 0..read.batch.num_rows() {
            let value = |(i, c): (usize, &ColumnSpec)| {
                froglet_engine::batch::value_at(read.batch.column(i), at, c.ty)
            };
            rows.push(table.layout().columns.iter().enumerate().map(value).collect::<Row>());
        }
    }
    rows.sort_by_key(|row| match row[0] {
        Value::Int64(id) => id,
        _ => 0,
    });
    rows
}

/// Updates the columns at positions of one row.
pub fn update(
    table: &dyn Table,
    txn: &mut dyn EngineTxn,
    rid: RowId,
    columns: &[usize],
    values: &[Value],
) -> Result<(), WriteStop> {
    let base = txn.snapshot().ts;
    table.write(txn, base, &[RowWrite::Update { rid, columns, values }]).map_err(|(_, stop)| stop)
}

pub fn delete(table: &dyn Table, txn: &mut dyn EngineTxn, rid: RowId) -> Result<(), WriteStop> {
    let base = txn.snapshot().ts;
    table.write(txn, base, &[RowWrite::Delete { rid }]).map_err(|(_, stop)| stop)
}

pub fn lock(table: &dyn Table, txn: &mut dyn EngineTxn, rid: RowId) -> Result<(), WriteStop> {
    let base = txn.snapshot().ts;
    table.write(txn, base, &[RowWrite::Lock { rid }]).map_err(|(_, stop)| stop)
}

pub fn insert(table: &dyn Table, txn: &mut dyn EngineTxn, row: Row) -> Result<RowId, WriteStop> {
    let mut rids = Vec::new();
    table.insert(txn, &[row], &mut rids).map_err(|(_, stop)| stop)?;
    Ok(rids[0])
}

/// The rows that an index finds in a range, in its order.
pub fn seek(
    table: &dyn Table,
    snapshot: &Snapshot,
    index: usize,
    range: &KeyRange,
    direction: Direction,
) -> Vec<Row> {
    let projection: Vec<usize> = (0..table.layout().columns.len()).collect();
    let mut rows = Vec::new();
    table.seek(snapshot, index, range, direction, &projection, &mut |_, row| {
        rows.push(row.clone());
        ControlFlow::Continue(())
    });
    rows
}

/// The range of one key.
pub fn exactly(table: &dyn Table, index: usize, values: &[Value]) -> KeyRange {
    let mut key = Vec::new();
    for (value, part) in values.iter().zip(&table.layout().indexes[index].key) {
        froglet_engine::key::encode_part(&mut key, value, part);
    }
    KeyRange::prefix(key)
}

/// SplitMix64, so that a failure is replayed from its seed.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}
