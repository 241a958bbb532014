//! One TPC-C database on an engine, and a stored procedure's transaction on it.
//!
//! A procedure speaks of tables, keys and columns; this module turns that into the engine's calls
//! and counts them. Snapshot isolation, under which TPC-C is serialisable: a conflict aborts the
//! transaction and its worker runs it again.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Result, anyhow};
use froglet_engine::{
    Direction, Engine, EngineTxn, Home, KeyRange, Lsn, Row, RowId, RowWrite, Snapshot, Table, Ts,
    TxnId, Value, WriteStop, key,
};
use froglet_txn::{Isolation, Limits, Transaction};
use futures::executor::block_on;

use super::profile::{Op, Ops};
use super::schema::{Index, TABLES, TableName};
use crate::store::{Durability, Store};

/// How much there is of everything (clause 1.2.1; `small` is for trying out).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    /// Warehouses.
    pub warehouses: i32,
    /// Items, and stock of each in every warehouse.
    pub items: i32,
    /// Customers of a district, and orders at the start; the last 30 % of them undelivered.
    pub customers: i32,
}

/// Districts of a warehouse.
pub const DISTRICTS: i32 = 10;

impl Scale {
    /// What the specification demands.
    pub fn full(warehouses: i32) -> Scale {
        Scale { warehouses, items: 100_000, customers: 3000 }
    }

    /// A hundredth of it.
    pub fn small(warehouses: i32) -> Scale {
        Scale { warehouses, items: 1000, customers: 30 }
    }

    /// Orders of a district that are delivered at the start.
    pub fn delivered(&self) -> i32 {
        self.customers * 7 / 10
    }
}

/// By which door procedures come in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// The memory engine's own calls.
    Engine,
    /// Transactions of froglet-txn: what the SQL crate uses.
    Contract,
}

/// The database.
pub struct Tpcc {
    /// The engine.
    pub store: Store,
    /// How much there is.
    pub scale: Scale,
    access: Access,
    tables: [Arc<dyn Table>; 9],
    next_txn: AtomicU64,
}

impl Tpcc {
    /// An empty database.
    pub fn create(
        scale: Scale,
        access: Access,
        durability: Durability,
        disk: &Path,
    ) -> Result<Tpcc> {
        Tpcc::create_in(Store::open(durability, disk)?, scale, access)
    }

    /// An empty database in a store.
    pub fn create_in(store: Store, scale: Scale, access: Access) -> Result<Tpcc> {
        Tpcc::create_placed(store, scale, access, |_| Home::Memory)
    }

    /// The same; `home` says of each table where it is.
    pub fn create_placed(
        store: Store,
        scale: Scale,
        access: Access,
        home: impl Fn(TableName) -> Home,
    ) -> Result<Tpcc> {
        let mut tables = Vec::new();
        for table in TABLES {
            let space = home(table).space(table.space().0);
            store.engine.create_space(space)?;
            tables.push(store.engine.open(space, Arc::new(table.layout()))?);
        }
        let tables = tables.try_into().map_err(|_| anyhow!("TPC-C has nine tables"))?;
        Ok(Tpcc { store, scale, access, tables, next_txn: AtomicU64::new(1) })
    }

    /// The engine.
    pub fn engine(&self) -> &dyn Engine {
        &*self.store.engine
    }

    /// A table's rows.
    pub fn table(&self, name: TableName) -> &dyn Table {
        &*self.tables[name as usize]
    }

    /// Inserts rows in a transaction of its own.
    pub fn load(&self, name: TableName, rows: &[Row]) -> Result<()> {
        let mut txn = self.engine().begin(self.next_txn());
        let inserted = self.table(name).insert(&mut *txn, rows, &mut Vec::new());
        inserted.map_err(|(n, stop)| anyhow!("row {n} of {name:?} was refused: {stop:?}"))?;
        txn.pre_commit();
        let _ = txn.post_commit()?;
        Ok(())
    }

    fn next_txn(&self) -> TxnId {
        TxnId(self.next_txn.fetch_add(1, Ordering::Relaxed))
    }

    /// Begins a transaction.
    pub fn begin<'a>(&'a self, writes: bool, desk: &'a mut Desk) -> Tx<'a> {
        let started = desk.ops.start();
        let begun = match (self.access, writes) {
            (Access::Contract, _) => {
                let mut txn = self.store.manager.begin(Isolation::RepeatableRead);
                txn.begin_statement();
                Begun::Managed(Box::new(txn))
            }
            (Access::Engine, true) => Begun::Direct(self.engine().begin(self.next_txn())),
            (Access::Engine, false) => Begun::View,
        };
        let mut tx = Tx { db: self, begun, snapshot: None, desk };
        tx.snapshot = Some(match &mut tx.begun {
            Begun::Managed(txn) => txn.snapshot(),
            Begun::Direct(txn) => txn.snapshot().clone(),
            Begun::View => self.engine().snapshot(),
        });
        tx.desk.ops.end(Op::Begin, started);
        tx
    }
}

/// What a worker reuses from transaction to transaction.
#[derive(Default)]
pub struct Desk {
    /// The row that [`Tx::get`] has read.
    pub row: Row,
    /// What was done, how often and for how long.
    pub ops: Ops,
    key: Vec<u8>,
    rids: Vec<RowId>,
}

enum Begun {
    Managed(Box<Transaction>),
    Direct(Box<dyn EngineTxn>),
    /// Reads only.
    View,
}

/// Why a procedure stopped.
#[derive(Debug)]
pub enum Stop {
    /// It decided to (clause 2.4.1.4: an unused item number).
    Rollback,
    /// Another transaction was first: run it again.
    Conflict,
    /// The database is not what it should be.
    Wrong(anyhow::Error),
}

impl From<WriteStop> for Stop {
    fn from(stop: WriteStop) -> Stop {
        match stop {
            WriteStop::Busy { .. } | WriteStop::Changed | WriteStop::Gone | WriteStop::Moved => {
                Stop::Conflict
            }
            other @ (WriteStop::Duplicate { .. } | WriteStop::Engine(_)) => {
                Stop::Wrong(anyhow!("{other:?}"))
            }
        }
    }
}

/// A committed transaction is durable once the log is, up to here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receipt(pub Lsn);

/// A transaction under way. Dropped, it aborts.
pub struct Tx<'a> {
    db: &'a Tpcc,
    begun: Begun,
    snapshot: Option<Arc<Snapshot>>,
    /// Buffers and counts.
    pub desk: &'a mut Desk,
}

impl Tx<'_> {
    fn snapshot(&self) -> &Arc<Snapshot> {
        self.snapshot.as_ref().expect("taken when the transaction began")
    }

    /// Reads the row with this key into `desk.row`; `None` if there is none.
    pub fn find(&mut self, index: Index, key: &[Value], columns: &[usize]) -> Option<RowId> {
        let started = self.desk.ops.start();
        let (table, position) = index.place();
        let Desk { row, key: encoded, .. } = &mut *self.desk;
        encode(encoded, key);
        row.clear();
        let snapshot = self.snapshot.as_ref().expect("taken when the transaction began");
        let table = self.db.table(table);
        let found = table.get_by_key(snapshot, position, encoded, columns, row);
        self.desk.ops.end(Op::Get, started);
        found
    }

    /// As [`Tx::find`] where the row must exist.
    pub fn get(&mut self, index: Index, key: &[Value], columns: &[usize]) -> Result<RowId, Stop> {
        self.find(index, key, columns)
            .ok_or_else(|| Stop::Wrong(anyhow!("{index:?} has no row {key:?}")))
    }

    /// Reads a row that was found before into `desk.row`.
    pub fn read(&mut self, table: TableName, rid: RowId, columns: &[usize]) -> Result<(), Stop> {
        let started = self.desk.ops.start();
        let mut row = std::mem::take(&mut self.desk.row);
        row.clear();
        let found = self.db.table(table).read_row(self.snapshot(), rid, columns, &mut row);
        self.desk.row = row;
        self.desk.ops.end(Op::Get, started);
        if found { Ok(()) } else { Err(Stop::Wrong(anyhow!("{table:?} has lost row {rid}"))) }
    }

    /// Visits rows in key order whose keys lie in `from..to`; without a `to`, those that begin
    /// with `from`.
    pub fn scan(
        &mut self,
        index: Index,
        from: &[Value],
        to: Option<&[Value]>,
        direction: Direction,
        columns: &[usize],
        mut visit: impl FnMut(RowId, &mut Row) -> ControlFlow<()>,
    ) {
        let started = self.desk.ops.start();
        let (table, position) = index.place();
        let range = key_range(from, to);
        let mut rows = 0;
        self.db.table(table).seek(
            self.snapshot(),
            position,
            &range,
            direction,
            columns,
            &mut |rid, row| {
                rows += 1;
                visit(rid, row)
            },
        );
        self.desk.ops.rows_scanned += rows;
        self.desk.ops.end(Op::Scan, started);
    }

    /// Inserts rows.
    pub fn insert(&mut self, table: TableName, rows: &[Row]) -> Result<(), Stop> {
        let started = self.desk.ops.start();
        let mut rids = std::mem::take(&mut self.desk.rids);
        rids.clear();
        let outcome = self.db.table(table).insert(part(&mut self.begun), rows, &mut rids);
        self.desk.rids = rids;
        self.desk.ops.rows_inserted += rows.len() as u64;
        self.desk.ops.end(Op::Insert, started);
        outcome.map_err(|(_, stop)| stop.into())
    }

    /// Sets columns (ascending positions) of a row.
    pub fn update(
        &mut self,
        table: TableName,
        rid: RowId,
        columns: &[usize],
        values: &[Value],
    ) -> Result<(), Stop> {
        self.write(table, Op::Update, &[RowWrite::Update { rid, columns, values }])
    }

    /// Deletes a row.
    pub fn delete(&mut self, table: TableName, rid: RowId) -> Result<(), Stop> {
        self.write(table, Op::Delete, &[RowWrite::Delete { rid }])
    }

    /// Several writes of one table at once.
    pub fn write(&mut self, table: TableName, op: Op, writes: &[RowWrite<'_>]) -> Result<(), Stop> {
        let started = self.desk.ops.start();
        let base = self.snapshot().ts;
        let outcome = self.db.table(table).write(part(&mut self.begun), base, writes);
        self.desk.ops.rows_written += writes.len() as u64;
        self.desk.ops.end(op, started);
        outcome.map_err(|(_, stop)| stop.into())
    }

    /// Commits. The receipt says when that is durable; nobody waits for it here.
    pub fn commit(self) -> Result<Receipt> {
        let Tx { db, begun, snapshot, desk } = self;
        let started = desk.ops.start();
        let engine = db.engine();
        let seen = snapshot.map_or(Ts(0), |s| s.newest_seen());
        let lsn = match begun {
            // Where files do not keep up, it waits for them.
            Begun::Managed(txn) => block_on(db.store.manager.commit(*txn, &Limits::none()))?.lsn,
            Begun::Direct(mut txn) => {
                txn.pre_commit();
                txn.post_commit()?
            }
            Begun::View => Lsn(0),
        };
        desk.ops.end(Op::Commit, started);
        // What only read depends on what it saw.
        Ok(Receipt(if seen > engine.durable_ts() { lsn.max(engine.appended()) } else { lsn }))
    }

    /// Undoes everything.
    pub fn abort(self) {
        match self.begun {
            Begun::Managed(txn) => txn.abort(),
            Begun::Direct(txn) => txn.abort(),
            Begun::View => {}
        }
    }
}

fn part(begun: &mut Begun) -> &mut dyn EngineTxn {
    match begun {
        Begun::Managed(txn) => txn.part(),
        Begun::Direct(txn) => &mut **txn,
        Begun::View => unreachable!("a procedure that writes begins a writing transaction"),
    }
}

/// The keys from `from` up to before `to`; without a `to`, the keys that begin with `from`.
pub fn key_range(from: &[Value], to: Option<&[Value]>) -> KeyRange {
    let mut range = KeyRange::prefix(encoded(from));
    if let Some(to) = to {
        range.upper = std::ops::Bound::Excluded(encoded(to));
    }
    range
}

fn encoded(values: &[Value]) -> Vec<u8> {
    let mut out = Vec::with_capacity(32);
    encode(&mut out, values);
    out
}

fn encode(out: &mut Vec<u8>, values: &[Value]) {
    out.clear();
    values.iter().for_each(|value| key::encode_part(out, value, &key::ASCENDING));
}

/// An integer as a value.
pub fn int(value: i32) -> Value {
    Value::Int32(value)
}

/// The integer of a column that is one and not NULL.
pub fn as_int(value: &Value) -> i32 {
    match value {
        Value::Int32(v) => *v,
        other => panic!("expected an integer, found {other:?}"),
    }
}

/// The unscaled digits of a column of money or rates.
pub fn as_decimal(value: &Value) -> i128 {
    match value {
        Value::Decimal(v) => *v,
        other => panic!("expected a decimal, found {other:?}"),
    }
}

/// The text of a column.
pub fn as_text(value: &Value) -> &str {
    match value {
        Value::Text(v) => v,
        other => panic!("expected text, found {other:?}"),
    }
}
