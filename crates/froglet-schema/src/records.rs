//! A row space of records that the catalog keeps for itself: each a JSON text, which outlives the server.

use std::marker::PhantomData;
use std::sync::Arc;

use froglet_engine::batch::value_at;
use froglet_engine::{
    ColumnId, ColumnSpec, ColumnType, Layout, Row, RowId, RowWrite, SpaceId, Table, Ts, TxnId,
    Value,
};
use froglet_txn::{Isolation, Transaction, TxnManager};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::SchemaError;
use crate::target::unexpected;

/// See the module.
pub(crate) struct Records<T> {
    manager: Arc<TxnManager>,
    table: Arc<dyn Table>,
    of: PhantomData<fn(T) -> T>,
}

impl<T: Serialize + DeserializeOwned> Records<T> {
    /// The records of a row space, which have the text in this column; made here, in a new database.
    pub fn open(
        manager: Arc<TxnManager>,
        space: SpaceId,
        column: ColumnId,
    ) -> Result<Records<T>, SchemaError> {
        let engine = manager.engine().clone();
        if !engine.spaces().contains(&space) {
            engine.create_space(space)?;
        }
        let text = ColumnSpec { id: column, ty: ColumnType::Text, missing: Value::Null };
        let layout = Layout { columns: vec![text], ..Layout::default() };
        let table = engine.open(space, Arc::new(layout))?;
        Ok(Records { manager, table, of: PhantomData })
    }

    /// All of them, and where they are. One that cannot be read is left out: it is of a later version.
    pub fn read(&self) -> Result<Vec<(RowId, T)>, SchemaError> {
        let mut found = Vec::new();
        let snapshot = self.manager.engine().fresh(TxnId(0));
        for block in 0..self.table.block_count() {
            let read = self.table.read_block(&snapshot, block, &[0])?;
            for (at, rid) in read.rids.iter().enumerate() {
                let text = value_at(read.batch.column(0), at, ColumnType::Text);
                let Value::Text(json) = text else { continue };
                let Ok(record) = serde_json::from_str(&json) else { continue };
                found.push((*rid, record));
            }
        }
        Ok(found)
    }

    /// It is there, if the transaction commits.
    pub fn insert(&self, txn: &mut Transaction, record: &T) -> Result<RowId, SchemaError> {
        let mut rids = Vec::new();
        let inserted = self.table.insert(txn.part(), &[encode(record)], &mut rids);
        inserted.map_err(|(_, stop)| unexpected(&stop))?;
        Ok(rids[0])
    }

    /// It stands like this, if the transaction commits.
    pub fn update(&self, txn: &mut Transaction, rid: RowId, record: &T) -> Result<(), SchemaError> {
        self.write(txn, RowWrite::Update { rid, columns: &[0], values: &encode(record) })
    }

    /// It is gone, if the transaction commits.
    pub fn delete(&self, txn: &mut Transaction, rid: RowId) -> Result<(), SchemaError> {
        self.write(txn, RowWrite::Delete { rid })
    }

    fn write(&self, txn: &mut Transaction, write: RowWrite<'_>) -> Result<(), SchemaError> {
        let written = self.table.write(txn.part(), Ts::LATEST, &[write]);
        written.map_err(|(_, stop)| unexpected(&stop))
    }

    /// Does something in a transaction of its own.
    pub fn alone<R>(
        &self,
        work: impl FnOnce(&mut Transaction) -> Result<R, SchemaError>,
    ) -> Result<R, SchemaError> {
        let mut txn = self.manager.begin(Isolation::ReadCommitted);
        let done = work(&mut txn)?;
        let committed = self.manager.commit_here(&mut txn);
        committed.expect("a transaction of no table's schema has nothing to prepare")?;
        Ok(done)
    }
}

fn encode<T: Serialize>(record: &T) -> Row {
    let json = serde_json::to_string(record).expect("a record has only string keys");
    vec![Value::text(json)]
}
