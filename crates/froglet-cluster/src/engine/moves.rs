//! Rows that move from one table to others: behind [`Moving`].
//!
//! ```text
//!   source   d │ row key → cells         lock it ─▶ delete it, and its entries
//!   target   d │ row key → cells                    put what is made of it, and entries: unlocked
//! ```
//! **[M1]** The source's key is the lock of all that is made of the row: whoever writes there for the first time has it. So
//! nothing else needs one, and where the row is not there any more, it has moved: nobody inserts into a source, nor
//! updates a row of it.
//! **[M2]** Each move alone has a start of its own, which is its name to the store and to fences. A view's would also be
//! that of the transaction that has the view, and of every other move in it.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use froglet_engine::{
    Ask, EngineError, EngineTxn, Found, Moved, Moving, Row, RowId, Snapshot, SpaceId, Table, Ts,
    Value, Which, WriteStop,
};

use super::table::{ClusterTable, own, read};
use super::txn::ClusterTxn;
use super::{Core, failed, keys};
use crate::client::{Locking, Mutation, StoreError, WriteSet};

/// Before the row key of a row without a primary key, of the row that it is made of: other such keys begin with a timestamp,
/// and are behind it.
const MADE: u8 = 0;

impl ClusterTable {
    /// The keys of the rows that are asked for, if each is known.
    fn points(&self, ask: &Ask<'_>) -> Option<Vec<Vec<u8>>> {
        match ask.which {
            Which::Ranges(index, ranges) if self.index(index).is_none() => {
                ranges.iter().map(|range| self.one_key(None, range)).collect()
            }
            Which::Ranges(..) => None,
            Which::Rows(rows) => {
                let key = |rid: &RowId| Some(self.core.interned.key(*rid)?.to_vec());
                rows.iter().map(key).collect()
            }
        }
    }

    fn found(&self, at: &[Vec<u8>], values: &[Option<Vec<u8>>], ask: &Ask<'_>) -> Found {
        let wanted = self.wanted(ask.projection);
        let row = |(at, value): (&Vec<u8>, &Option<Vec<u8>>)| {
            let cells = self.place.cells(value.as_deref()?)?;
            Some(read(self.read_row_at(at, cells, &wanted)))
        };
        at.iter().zip(values).map(|pair| row(pair).into_iter().collect()).collect()
    }

    fn as_cluster(table: &dyn Table) -> &ClusterTable {
        table.as_any().downcast_ref().expect("rows move between tables of one engine")
    }

    /// The key of a row that is made of another.
    fn key_made_of(&self, from: &[u8], row: &[Value]) -> Vec<u8> {
        match self.primary() {
            Some(spec) => {
                let values = self.layout.key_positions(spec).map(|at| &row[at]);
                self.place.at(&froglet_engine::key::encode(values, &spec.key))
            }
            None => [&self.place.prefix[..], &[MADE], keys::row_key(from)].concat(),
        }
    }

    /// What is to be written for a row that moves, of which the store has `value`.
    fn mutations(
        &self,
        from: &[u8],
        value: &[u8],
        moved: &Moved<'_>,
        write: &mut dyn FnMut(Vec<u8>, Option<Vec<u8>>),
    ) -> Result<(), EngineError> {
        let cells = self.place.cells(value).expect("it is a row of this table");
        for entry in self.entries(cells, keys::row_key(from))? {
            write(entry.at, None);
        }
        write(from.to_vec(), None);
        for (table, row) in &moved.into {
            let table = ClusterTable::as_cluster(*table);
            let made = table.made_row(table.key_made_of(from, row), row)?;
            let value = keys::entry_value(keys::row_key(&made.at));
            for entry in made.entries {
                write(entry.at, Some(value.clone()));
            }
            write(made.at, Some(made.value));
        }
        Ok(())
    }

    /// Moves rows at a time: whether nobody was in the way.
    async fn move_at(
        &self,
        set: &Arc<WriteSet>,
        moved: &[(Arc<[u8]>, &Moved<'_>)],
    ) -> Result<Result<bool, EngineError>, StoreError> {
        let into = moved.iter().flat_map(|(_, moved)| &moved.into);
        let mut spaces: Vec<SpaceId> = into.map(|(table, _)| table.space()).collect();
        spaces.sort_unstable();
        spaces.dedup();
        let lease = self.core.gateways.lease();
        let under_way = match self.core.fences.enter(lease, set.start_ts, spaces) {
            Ok(under_way) => under_way,
            Err(error) => return Ok(Err(error)),
        };
        let locks: Vec<Locking> =
            moved.iter().map(|(at, _)| Locking { key: at.to_vec(), is_new: false }).collect();
        let values = set.lock(&locks, set.start_ts, Duration::ZERO).await?;
        let mut mutations = Vec::new();
        for ((from, moved), value) in moved.iter().zip(values) {
            let Some(value) = value else {
                set.roll_back().await;
                return Ok(Ok(false));
            };
            let mut write = |key, value| mutations.push(Mutation { key, value });
            if let Err(error) = self.mutations(from, &value, moved, &mut write) {
                set.roll_back().await;
                return Ok(Err(error));
            }
        }
        let pending = set.prewrite(mutations, true).await?;
        self.core.commit_under(under_way.lease, pending).await.map(Ok)
    }
}

impl Moving for ClusterTable {
    fn is_part(&self, rid: RowId) -> bool {
        let begin = keys::part_of(self.space);
        self.core.interned.key(rid).is_some_and(|at| at.starts_with(&begin))
    }

    fn row_made_of(&self, from: RowId, row: &[Value]) -> RowId {
        let from = self.core.interned.key(from).expect("whoever has read a row has its view");
        self.core.interned.number_made_of(&self.key_made_of(&from, row), Some(&from))
    }

    fn made_of(&self, rid: RowId) -> Option<RowId> {
        let from = self.core.interned.made_of(rid)?;
        Some(self.core.interned.number(&from))
    }

    fn ask_both(
        &self,
        snapshot: &Snapshot,
        here: Ask<'_>,
        other: &dyn Table,
        there: Ask<'_>,
    ) -> (Found, Found) {
        let others = ClusterTable::as_cluster(other);
        if let (Some(here_at), Some(there_at)) = (self.points(&here), others.points(&there)) {
            let count = here_at.len();
            let all = [here_at, there_at].concat();
            read(others.view(snapshot));
            let values = read(self.view(snapshot).and_then(|view| view.get_all(&all)));
            let found = self.found(&all[..count], &values[..count], &here);
            return (found, others.found(&all[count..], &values[count..], &there));
        }
        Core::aside(|| {
            std::thread::scope(|scope| {
                let there = scope.spawn(|| there.of(other, snapshot));
                let here = here.of(self, snapshot);
                let there = there.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                (here, there)
            })
        })
    }

    fn hold(
        &self,
        txn: &mut dyn EngineTxn,
        base: Ts,
        rows: &[RowId],
        projection: &[usize],
        visit: &mut dyn FnMut(RowId, Row),
    ) -> Result<(), WriteStop> {
        let txn = own(txn);
        let base = (base != Ts::LATEST).then_some(base.0);
        let key = |rid: &RowId| txn.core.interned.key(*rid).map(|at| at.to_vec());
        let at: Vec<Vec<u8>> =
            rows.iter().map(key).collect::<Option<_>>().ok_or(WriteStop::Gone)?;
        let locks = at.iter().map(|key| Locking { key: key.clone(), is_new: false }).collect();
        match self.lock(txn, locks, base) {
            // They may have been locked alone.
            Err(WriteStop::Changed) => self.lock_as_of(txn, &at, base)?,
            // Where the base is from before the transaction's start there is no need to look: nobody updates a row of a source.
            locked => locked?,
        }
        let wanted = self.wanted(projection);
        for (rid, at) in rows.iter().zip(&at) {
            let value = txn.shared.buffer.lock().own(at).cloned().flatten();
            if let Some(cells) = value.as_deref().and_then(|value| self.place.cells(value)) {
                visit(*rid, self.read_row_at(at, cells, &wanted)?.1);
            }
        }
        Ok(())
    }

    fn move_out(&self, txn: &mut dyn EngineTxn, moved: &[Moved<'_>]) -> Result<(), EngineError> {
        let txn: &mut ClusterTxn = own(txn);
        let (mut writes, mut bytes) = (Vec::new(), 0);
        for moved in moved {
            for (table, _) in &moved.into {
                ClusterTable::as_cluster(*table).may_write(txn)?;
            }
            let from = txn.core.interned.key(moved.from).expect("it is held");
            let value = txn.shared.buffer.lock().own(&from).cloned().flatten();
            let value = value.expect("it is held, and there");
            self.mutations(&from, &value, moved, &mut |key, value| {
                bytes += 2 * key.len() + value.as_ref().map_or(0, Vec::len);
                writes.push((key, value));
            })?;
        }
        txn.charge(bytes)?;
        let mut buffer = txn.shared.buffer.lock();
        writes.into_iter().for_each(|(key, value)| buffer.put(key, value));
        buffer.moved();
        Ok(())
    }

    fn move_out_alone(&self, view: &Snapshot, moved: &[Moved<'_>]) -> Result<bool, EngineError> {
        let with_key = |moved| {
            let Moved { from, .. }: &Moved<'_> = moved;
            let key = self.core.interned.key(*from).expect("whoever has read a row has its view");
            (key, moved)
        };
        // Whoever has asked for a row twice has it twice: it moves once.
        let mut named = HashSet::new();
        let mut moved: Vec<_> = moved.iter().map(with_key).collect();
        moved.retain(|(key, _)| named.insert(Arc::clone(key)));
        if moved.is_empty() {
            return Ok(true);
        }
        // [M2]
        let start_ts = self.core.wait(self.core.client.timestamp()).map_err(failed)?;
        assert!(view.ts.0 <= start_ts, "rows are moved that were seen at {}", view.ts);
        let set = Arc::new(WriteSet::new(Arc::clone(&self.core.client), start_ts));
        match self.core.wait(self.move_at(&set, &moved)) {
            Ok(done) => done,
            Err(StoreError::Conflict { .. } | StoreError::Locked { .. } | StoreError::Lost(_)) => {
                self.core.wait(set.roll_back());
                Ok(false)
            }
            Err(error) => {
                self.core.wait(set.roll_back());
                Err(failed(error))
            }
        }
    }
}
