//! The catalog as statements see it: decoded versions by commit timestamp, and a transaction's
//! own uncommitted changes on top.

use std::any::Any;
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use froglet_engine::{Engine, Table, Ts};
use froglet_txn::{Limits, Transaction, TxnManager};

use crate::change::Change;
use crate::def::{ObjectId, SequenceDef, TableDef};
use crate::error::SchemaError;
use crate::migration::{MigrationOptions, MigrationStatus};

/// One table under one schema version, bound to its rows.
pub struct TableVersion {
    /// What the catalog says.
    pub def: TableDef,
    /// The commit timestamp of this version; `Ts(0)` while it is uncommitted.
    pub version: Ts,
    /// The rows. Layout positions are positions in `def.columns` and `def.indexes`.
    pub table: Arc<dyn Table>,
    /// A place for what the SQL crate compiles once per schema version.
    pub compiled: OnceLock<Arc<dyn Any + Send + Sync>>,
}

/// The whole catalog at one commit timestamp. Immutable.
#[derive(Default, Clone)]
pub struct CatalogVersion {
    /// When it became current.
    pub ts: Ts,
    /// Differs between any two catalog versions that differ, uncommitted ones too: a plan made
    /// under the same stamp is still good.
    pub stamp: u64,
    /// Tables by id.
    pub tables: HashMap<ObjectId, Arc<TableVersion>>,
    /// Sequences by id.
    pub sequences: HashMap<ObjectId, Arc<SequenceDef>>,
    /// Relations (tables, sequences, indexes) by schema and name.
    pub names: HashMap<(String, String), ObjectId>,
}

impl CatalogVersion {
    /// The table of a name.
    pub fn table(&self, schema: &str, name: &str) -> Option<&Arc<TableVersion>> {
        self.tables
            .get(self.names.get(&(schema.to_owned(), name.to_owned()))?)
    }

    /// The sequence of a name.
    pub fn sequence(&self, schema: &str, name: &str) -> Option<&Arc<SequenceDef>> {
        self.sequences
            .get(self.names.get(&(schema.to_owned(), name.to_owned()))?)
    }
}

/// Where a transaction's schema changes stand; taken and restored with the engine savepoint.
#[derive(Clone, Default)]
pub struct CatalogSavepoint {}

/// The catalog of one database.
pub struct Catalog {
    manager: Arc<TxnManager>,
}

impl Catalog {
    /// Reads the catalog from row space 0 (makes it, in a new database), rebuilds every index
    /// after a restart, and installs itself as the commit hook.
    pub async fn open(manager: Arc<TxnManager>) -> Result<Arc<Catalog>, SchemaError> {
        Ok(Arc::new(Catalog { manager }))
    }

    /// Begins a statement: takes its read view and returns the catalog that it sees, the
    /// transaction's own changes included. Tables the transaction is itself migrating are brought
    /// up to the read view first. `writes` says whether the statement may write.
    pub async fn begin_statement(
        &self,
        txn: &mut Transaction,
        writes: bool,
        limits: &Limits,
    ) -> Result<Arc<CatalogVersion>, SchemaError> {
        let _ = (txn, writes, limits);
        unimplemented!()
    }

    /// The statement is over (capture for the transaction's own migrations goes on).
    pub fn end_statement(&self, txn: &mut Transaction) {
        let _ = txn;
    }

    /// The newest committed catalog.
    pub fn latest(&self) -> Arc<CatalogVersion> {
        unimplemented!()
    }

    /// Makes one change in a transaction. Returns the id of the object it made, if it made one.
    /// Everything it needs from the data is scanned before it returns; what changes afterwards
    /// is captured until the commit.
    pub async fn apply(
        &self,
        txn: &mut Transaction,
        change: Change,
        options: &MigrationOptions,
        limits: &Limits,
    ) -> Result<Option<ObjectId>, SchemaError> {
        let _ = (txn, change, options, limits);
        unimplemented!()
    }

    /// Where the transaction's schema changes stand.
    pub fn savepoint(&self, txn: &Transaction) -> CatalogSavepoint {
        let _ = txn;
        CatalogSavepoint::default()
    }

    /// Undoes schema changes after `to`. Call it before [`Transaction::rollback_to`].
    pub fn rollback_to(&self, txn: &mut Transaction, to: &CatalogSavepoint) {
        let _ = (txn, to);
    }

    /// Migrations under way and ended ones that are still remembered, oldest first.
    pub fn migrations(&self) -> Vec<MigrationStatus> {
        Vec::new()
    }

    /// Stops a migration under way; its statement or commit fails with 57014. False if there is
    /// no such migration.
    pub fn cancel_migration(&self, id: u64) -> bool {
        let _ = id;
        false
    }

    /// nextval: outside transactions, durable before any commit that can depend on it.
    pub fn next_value(&self, sequence: &SequenceDef) -> Result<i64, SchemaError> {
        let _ = sequence;
        unimplemented!()
    }

    /// The last value given and whether it has been given (pg's last_value, is_called).
    pub fn sequence_state(&self, sequence: &SequenceDef) -> (i64, bool) {
        (sequence.start, false)
    }

    /// setval
    pub fn set_value(
        &self,
        sequence: &SequenceDef,
        value: i64,
        called: bool,
    ) -> Result<(), SchemaError> {
        let _ = (sequence, value, called);
        unimplemented!()
    }

    /// The transactions under this catalog.
    pub fn manager(&self) -> &Arc<TxnManager> {
        &self.manager
    }

    /// The engine under this catalog.
    pub fn engine(&self) -> &Arc<dyn Engine> {
        self.manager.engine()
    }
}
