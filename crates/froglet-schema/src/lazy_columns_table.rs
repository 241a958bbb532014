//! A table with columns that are being computed lazily, as everybody reads and writes it: `lazy_columns.rs` says
//! why this is right.

use std::ops::ControlFlow;
use std::sync::Arc;

use froglet_engine::{
    BlockRows, ColumnFill, Direction, EngineError, EngineTxn, KeyRange, MigrateError, Row, RowId,
    RowWrite, Savepoint, Snapshot, Table, Ts, TxnId, Value, WriteStop,
};

use crate::course::Who;
use crate::delegate::delegate_to_table;
use crate::lazy::{as_engine, made};
use crate::lazy_columns::LazyColumns;
use crate::lazy_table::stop;
use crate::rows::{read_rows, row_at, types_of};

/// See the module.
pub(crate) struct LazyColumnsTable {
    /// What is seen of it.
    table: Arc<dyn Table>,
    columns: Arc<LazyColumns>,
}

impl LazyColumnsTable {
    pub fn new(table: Arc<dyn Table>, columns: Arc<LazyColumns>) -> LazyColumnsTable {
        LazyColumnsTable { table, columns }
    }

    /// A write by a transaction whose own columns are not committed yet.
    fn write_as_owner(
        &self,
        txn: &mut dyn EngineTxn,
        base: Ts,
        write: &RowWrite<'_>,
    ) -> Result<(), WriteStop> {
        let whole = &self.columns.whole;
        let RowWrite::Update { rid, columns, values } = write else {
            return whole.write(txn, base, std::slice::from_ref(write)).map_err(|(_, stop)| stop);
        };
        let snapshot = txn.snapshot().clone();
        let more = self.columns.brought_along(&snapshot, *rid, columns).map_err(stop)?;
        let set = columns.iter().copied().zip(values.iter().cloned());
        let mut set: Vec<(usize, Value)> = set.chain(more).collect();
        set.sort_unstable_by_key(|(at, _)| *at);
        let (columns, values): (Vec<usize>, Vec<Value>) = set.into_iter().unzip();
        let write = RowWrite::Update { rid: *rid, columns: &columns, values: &values };
        whole.write(txn, base, &[write]).map_err(|(_, stop)| stop)
    }
}

impl Table for LazyColumnsTable {
    fn read_block(
        &self,
        snapshot: &Snapshot,
        block: u32,
        projection: &[usize],
    ) -> Result<BlockRows, EngineError> {
        let demand = self.columns.demand(projection);
        if demand.is_plain() {
            return self.table.read_block(snapshot, block, projection);
        }
        let read = self.columns.whole.read_block(snapshot, block, &demand.positions)?;
        self.columns.finish(&demand, read).map_err(|e| as_engine(&e))
    }

    fn read_row(
        &self,
        snapshot: &Snapshot,
        rid: RowId,
        projection: &[usize],
        out: &mut Row,
    ) -> bool {
        let demand = self.columns.demand(projection);
        if demand.is_plain() {
            return self.table.read_row(snapshot, rid, projection, out);
        }
        let start = out.len();
        let is_there = self.columns.whole.read_row(snapshot, rid, &demand.positions, out);
        if is_there {
            made(self.columns.finish_row(&demand, out, start));
        }
        is_there
    }

    fn read_rows(
        &self,
        snapshot: &Snapshot,
        rids: &[RowId],
        projection: &[usize],
        visit: &mut dyn FnMut(RowId, &mut Row),
    ) {
        let demand = self.columns.demand(projection);
        if demand.is_plain() {
            return self.table.read_rows(snapshot, rids, projection, visit);
        }
        let read = read_rows(&*self.columns.whole, snapshot, rids, &demand.positions);
        let read = made(self.columns.finish(&demand, read));
        let types = types_of(&*self.table, projection);
        for (at, rid) in read.rids.iter().enumerate() {
            visit(*rid, &mut row_at(read.batch.columns(), &types, at));
        }
    }

    fn get_by_key(
        &self,
        snapshot: &Snapshot,
        index: usize,
        key: &[u8],
        projection: &[usize],
        out: &mut Row,
    ) -> Option<RowId> {
        let demand = self.columns.demand(projection);
        if demand.is_plain() {
            return self.table.get_by_key(snapshot, index, key, projection, out);
        }
        let start = out.len();
        let found = self.columns.whole.get_by_key(snapshot, index, key, &demand.positions, out)?;
        made(self.columns.finish_row(&demand, out, start));
        Some(found)
    }

    fn seek(
        &self,
        snapshot: &Snapshot,
        index: usize,
        range: &KeyRange,
        direction: Direction,
        projection: &[usize],
        visit: &mut dyn FnMut(RowId, &mut Row) -> ControlFlow<()>,
    ) {
        let demand = self.columns.demand(projection);
        if demand.is_plain() {
            return self.table.seek(snapshot, index, range, direction, projection, visit);
        }
        let mut finish = |rid: RowId, row: &mut Row| {
            made(self.columns.finish_row(&demand, row, 0));
            visit(rid, row)
        };
        self.columns.whole.seek(snapshot, index, range, direction, &demand.positions, &mut finish);
    }

    fn row_estimate(&self) -> u64 {
        self.table.row_estimate()
    }

    fn block_count(&self) -> u32 {
        self.table.block_count()
    }

    fn insert(
        &self,
        txn: &mut dyn EngineTxn,
        rows: &[Row],
        rids: &mut Vec<RowId>,
    ) -> Result<(), (usize, WriteStop)> {
        let rows: Vec<Row> = rows.iter().map(|row| self.columns.widened(row)).collect();
        self.columns.whole.insert(txn, &rows, rids)
    }

    fn write(
        &self,
        txn: &mut dyn EngineTxn,
        base: Ts,
        writes: &[RowWrite<'_>],
    ) -> Result<(), (usize, WriteStop)> {
        let is_version = |write: &&RowWrite<'_>| !matches!(write, RowWrite::Lock { .. });
        let mut rows: Vec<RowId> = writes.iter().filter(is_version).map(RowWrite::rid).collect();
        rows.sort_unstable();
        rows.dedup();
        self.columns.fill(&rows, Who::Access).map_err(|e| (0, stop(e)))?;
        if self.columns.are_live() {
            return self.table.write(txn, base, writes);
        }
        for (at, write) in writes.iter().enumerate() {
            self.write_as_owner(txn, base, write).map_err(|stop| (at, stop))?;
        }
        Ok(())
    }

    /// What is looked at is as it will be; nothing is stored where something is computed.
    fn migrate_block(
        &self,
        owner: TxnId,
        since: Savepoint,
        block: u32,
        rows: Option<&[RowId]>,
        source: &[usize],
        target: &[usize],
        transform: &mut dyn FnMut(&BlockRows) -> Result<ColumnFill, MigrateError>,
    ) -> Result<u64, MigrateError> {
        let demand = self.columns.demand(source);
        let finish = &mut |read: &BlockRows| {
            let read = BlockRows { rids: read.rids.clone(), batch: read.batch.clone() };
            transform(&self.columns.finish(&demand, read)?)
        };
        let whole = &self.columns.whole;
        whole.migrate_block(owner, since, block, rows, &demand.positions, target, finish)
    }

    fn changed_since(&self, rid: RowId, ts: Ts) -> bool {
        self.table.changed_since(rid, ts)
    }

    delegate_to_table!();
}
