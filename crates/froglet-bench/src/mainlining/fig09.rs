//! Figure 9: rows as columns against rows as one wide column.
//!
//! The paper simulates a row store by one large column that has all attributes, 8-byte integers; it inserts
//! tuples of 1 to 64 attributes, and updates 1 to 64 attributes of 64. The two models are within 40 % of
//! each other; columns win where few attributes are updated, because less is copied.
//!
//! Ours does the same with a bytea for the wide column, which is a string in a heap and no array of cells
//! in the block: that is what such a row store would be made of here. A row is a transaction; no index, one thread.

use std::sync::Arc;
use std::time::Instant;

use anyhow::{Result, anyhow};
use froglet_engine::{
    ColumnId, ColumnSpec, ColumnType, Layout, Row, RowId, RowWrite, SpaceId, Table, TxnId, Value,
};

use super::Bench;
use crate::figures::{Words, lines};
use crate::report::Report;
use crate::store::{Durability, Store};
use crate::tpccd::rounds::rotated;

const SPACE: SpaceId = SpaceId(1);
const ATTRIBUTES: [usize; 7] = [1, 2, 4, 8, 16, 32, 64];
/// Attributes of a row that is updated.
const ALL: usize = 64;
const COLUMNS: &str = "columns";
const ROWS: &str = "one wide column";
/// Where the attributes are.
const MODELS: [&str; 2] = [COLUMNS, ROWS];

pub fn run(bench: &Bench<'_>, report: &mut Report) -> Result<()> {
    let rows = bench.args.rows.unwrap_or(if bench.args.small { 1_000 } else { 200_000 });
    let name = |what: &str, attributes: usize| format!("9: {what}, {attributes} of int8");
    bench.in_rounds("9: rows against columns", report, |round, figures| {
        for attributes in ATTRIBUTES {
            let (insert, update) = (name("insert", attributes), name("update", attributes));
            for model in rotated(&MODELS, round) {
                let mut table = One::create(bench, model, attributes)?;
                let seconds = table.insert(rows)?;
                figures.add(model, &insert, "throughput", rows as f64 / seconds, "1/s");
                let mut table = One::create(bench, model, ALL)?;
                table.insert(rows)?;
                let seconds = table.update(rows, attributes)?;
                figures.add(model, &update, "throughput", rows as f64 / seconds, "1/s");
            }
            for operation in [&insert, &update] {
                figures.add_ratio(COLUMNS, ROWS, operation, "throughput");
            }
        }
        Ok(())
    })?;
    for what in ["insert", "update"] {
        let x = ATTRIBUTES.map(|attributes| (name(what, attributes), attributes as f64));
        let words = Words {
            title: "Rows as columns, and as one wide column",
            x_label: "attributes",
            y_label: "rows a second",
        };
        let lines = lines(report, &MODELS, "throughput", &x);
        bench.draw(&format!("figure 9 {what}"), words, lines, false)?;
    }
    Ok(())
}

/// A table under one of the models.
struct One {
    store: Store,
    table: Arc<dyn Table>,
    is_wide: bool,
    attributes: usize,
    rids: Vec<RowId>,
    next_txn: u64,
}

impl One {
    fn create(bench: &Bench<'_>, model: &str, attributes: usize) -> Result<One> {
        let is_wide = model == ROWS;
        let types = match is_wide {
            true => vec![ColumnType::Bytes],
            false => vec![ColumnType::Int64; attributes],
        };
        let column = |(id, ty)| ColumnSpec { id: ColumnId(id), ty, missing: Value::Null };
        let columns = (1..).zip(types).map(column).collect();
        let store = Store::open(Durability::Off, &bench.args.dir)?;
        store.engine.create_space(SPACE)?;
        let table = store
            .engine
            .open(SPACE, Arc::new(Layout { columns, indexes: vec![], row_key: None }))?;
        Ok(One { store, table, is_wide, attributes, rids: Vec::new(), next_txn: 1 })
    }

    /// So many attributes of a row: columns, or all of the wide one.
    fn values(&self, attributes: usize, n: u64) -> Row {
        let attribute = |at: usize| n.wrapping_mul(31).wrapping_add(at as u64);
        match self.is_wide {
            true => {
                let bytes = (0..self.attributes).flat_map(|at| attribute(at).to_le_bytes());
                vec![Value::Bytes(bytes.collect())]
            }
            false => (0..attributes).map(|at| Value::Int64(attribute(at) as i64)).collect(),
        }
    }

    /// How long that many inserts take, each a transaction.
    fn insert(&mut self, rows: u64) -> Result<f64> {
        let begun = Instant::now();
        for n in 0..rows {
            let row = self.values(self.attributes, n);
            let id = self.txn();
            let mut txn = self.store.engine.begin(id);
            let inserted = self.table.insert(&mut *txn, &[row], &mut self.rids);
            inserted.map_err(|(_, stop)| anyhow!("row {n} was refused: {stop:?}"))?;
            txn.pre_commit();
            let _ = txn.post_commit()?;
        }
        Ok(begun.elapsed().as_secs_f64())
    }

    /// How long as many updates of the first attributes take, each a transaction, each of another row.
    fn update(&mut self, rows: u64, attributes: usize) -> Result<f64> {
        let columns: Vec<usize> = (0..if self.is_wide { 1 } else { attributes }).collect();
        let begun = Instant::now();
        for n in 0..rows {
            // Coprime to every number of rows that has no factor 7919.
            let rid = self.rids[(n * 7919 % rows) as usize];
            let values = self.values(attributes, n + 1);
            let id = self.txn();
            let mut txn = self.store.engine.begin(id);
            let base = txn.snapshot().ts;
            let write = RowWrite::Update { rid, columns: &columns, values: &values };
            let written = self.table.write(&mut *txn, base, &[write]);
            written.map_err(|(_, stop)| anyhow!("an update of {rid} was refused: {stop:?}"))?;
            txn.pre_commit();
            let _ = txn.post_commit()?;
        }
        Ok(begun.elapsed().as_secs_f64())
    }

    fn txn(&mut self) -> TxnId {
        self.next_txn += 1;
        TxnId(self.next_txn)
    }
}
