//! What a table that stands before another one leaves to that one.

/// Methods of [`Table`](froglet_engine::Table) that ask `self.table`: what it is, who follows it, and what
/// migrations do to its rows and indexes. How it is read, written and counted is not among them.
macro_rules! delegate_to_table {
    () => {
        fn changer(
            &self,
            rid: froglet_engine::RowId,
            columns: &[usize],
            own: froglet_engine::TxnId,
        ) -> Option<froglet_engine::TxnId> {
            self.table.changer(rid, columns, own)
        }

        crate::delegate::delegate_all_but_changer!();
    };
}

/// The same, but for who is changing a row.
macro_rules! delegate_all_but_changer {
    () => {
        fn space(&self) -> froglet_engine::SpaceId {
            self.table.space()
        }

        fn layout(&self) -> &std::sync::Arc<froglet_engine::Layout> {
            self.table.layout()
        }

        fn bytes_estimate(&self) -> u64 {
            self.table.bytes_estimate()
        }

        fn regions(&self) -> Result<froglet_engine::TableRegions, froglet_engine::EngineError> {
            self.table.regions()
        }

        fn seek_entries(
            &self,
            index: usize,
            range: &froglet_engine::KeyRange,
            direction: froglet_engine::Direction,
            visit: &mut dyn FnMut(froglet_engine::RowId) -> std::ops::ControlFlow<()>,
        ) {
            self.table.seek_entries(index, range, direction, visit);
        }

        fn open_feed(&self) -> Box<dyn froglet_engine::Feed> {
            self.table.open_feed()
        }

        fn index_block(
            &self,
            owner: froglet_engine::TxnId,
            index: usize,
            block: u32,
            duplicates: &mut Vec<(froglet_engine::RowId, froglet_engine::RowId)>,
        ) -> Result<u64, froglet_engine::EngineError> {
            self.table.index_block(owner, index, block, duplicates)
        }

        fn index_rows(
            &self,
            owner: froglet_engine::TxnId,
            index: usize,
            rows: &[froglet_engine::RowId],
            duplicates: &mut Vec<(froglet_engine::RowId, froglet_engine::RowId)>,
        ) -> Result<u64, froglet_engine::EngineError> {
            self.table.index_rows(owner, index, rows, duplicates)
        }

        fn share_key(
            &self,
            owner: froglet_engine::TxnId,
            index: usize,
            a: froglet_engine::RowId,
            b: froglet_engine::RowId,
        ) -> bool {
            self.table.share_key(owner, index, a, b)
        }

        fn rival(
            &self,
            own: froglet_engine::TxnId,
            index: usize,
            row: froglet_engine::RowId,
        ) -> Option<froglet_engine::WriteStop> {
            self.table.rival(own, index, row)
        }

        fn build_index(
            self: std::sync::Arc<Self>,
            index: usize,
        ) -> Option<Box<dyn froglet_engine::IndexBuild>> {
            self.table.clone().build_index(index)
        }

        fn index_row(
            &self,
            txn: &mut dyn froglet_engine::EngineTxn,
            rid: froglet_engine::RowId,
            indexes: &[usize],
        ) -> Result<(), froglet_engine::WriteStop> {
            self.table.index_row(txn, rid, indexes)
        }

        fn take_row_ids(
            &self,
            n: usize,
        ) -> Result<Vec<froglet_engine::RowId>, froglet_engine::EngineError> {
            self.table.take_row_ids(n)
        }

        fn reserve(
            &self,
            tail: froglet_engine::RowId,
            is_free: &dyn Fn(froglet_engine::RowId) -> bool,
        ) -> Result<(), froglet_engine::EngineError> {
            self.table.reserve(tail, is_free)
        }

        fn install(
            &self,
            install: &froglet_engine::Install<'_>,
            done: &mut dyn FnMut(),
        ) -> Result<(), froglet_engine::EngineError> {
            self.table.install(install, done)
        }

        fn follow_installs(
            &self,
            installs: std::sync::Arc<dyn froglet_engine::Installs>,
        ) -> Vec<Vec<u8>> {
            self.table.follow_installs(installs)
        }

        fn as_any(&self) -> &dyn std::any::Any {
            self.table.as_any()
        }
    };
}

/// The same of what migrations read of its rows, and compute.
macro_rules! delegate_migration_to_table {
    () => {
        fn migrate_block(
            &self,
            owner: froglet_engine::TxnId,
            since: froglet_engine::Savepoint,
            block: u32,
            rows: Option<&[froglet_engine::RowId]>,
            source: &[usize],
            target: &[usize],
            transform: &mut dyn FnMut(
                &froglet_engine::BlockRows,
            ) -> Result<
                froglet_engine::ColumnFill,
                froglet_engine::MigrateError,
            >,
        ) -> Result<u64, froglet_engine::MigrateError> {
            self.table.migrate_block(owner, since, block, rows, source, target, transform)
        }
    };
}

pub(crate) use {delegate_all_but_changer, delegate_migration_to_table, delegate_to_table};
