//! What a transaction has written, as those who certify reads ask: the keys of its rows before and after.

use std::collections::{BTreeSet, HashMap};

use froglet_engine::{IndexId, Row, RowId, Snapshot, TxnId, key};
use froglet_txn::{SpaceWrites, Transaction, Writes};

use crate::catalog::{Catalog, TableVersion};

/// Keys of more rows of one table are not told one by one.
const MOST_ROWS: usize = 10_000;

/// The writes of a transaction that holds its rows and is about to commit. Of tables that nobody else knows yet,
/// or that no longer are, nothing.
pub(crate) fn written(catalog: &Catalog, txn: &Transaction) -> Writes {
    let latest = catalog.latest();
    let engine = catalog.engine();
    // The rows are held: what others have committed by now is what was there before.
    let (before, after) = (engine.fresh(TxnId(0)), engine.fresh(txn.id()));
    let mut writes = Writes::new();
    for used in txn.schema_set() {
        let Some(table) = latest.tables.get(&used.table).filter(|t| t.def.space == used.space)
        else {
            continue;
        };
        let rows = txn.rows_written(used.space);
        if rows.is_empty() {
            continue;
        }
        let keys = match rows.len() > MOST_ROWS {
            true => SpaceWrites::All,
            false => SpaceWrites::Keys(keys_of(table, &rows, [&before, &after])),
        };
        writes.insert(used.space, keys);
    }
    writes
}

fn keys_of(
    table: &TableVersion,
    rows: &[RowId],
    views: [&Snapshot; 2],
) -> HashMap<IndexId, BTreeSet<Vec<u8>>> {
    let layout = table.table.layout();
    let places: Vec<Vec<usize>> =
        layout.indexes.iter().map(|i| layout.key_positions(i).collect()).collect();
    let all: Vec<usize> = (0..layout.columns.len()).collect();
    let mut keys: Vec<BTreeSet<Vec<u8>>> = vec![BTreeSet::new(); places.len()];
    let mut row = Row::new();
    for rid in rows {
        for view in views {
            row.clear();
            if table.table.read_row(view, *rid, &all, &mut row) {
                for ((spec, places), keys) in layout.indexes.iter().zip(&places).zip(&mut keys) {
                    let values = places.iter().map(|place| &row[*place]);
                    keys.insert(key::encode(values, &spec.key));
                }
            }
        }
    }
    layout.indexes.iter().map(|index| index.id).zip(keys).collect()
}
