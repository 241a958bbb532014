//! A child's side of foreign keys: its parents are there, and stay.
//!
//! ```text
//!   memory, disk   found, held KEY SHARE, found again                (F1 of `foreignkey`)
//!   cluster        found; the engine holds it as the transaction commits: nobody holds a row shared there
//!                  locked as a write locks it, where rows of the parent are moved from place to place
//! ```

use std::collections::HashSet;

use froglet_engine::{RowId, RowWrite, Snapshot, Value, WriteStop};
use froglet_schema::TableVersion;

use super::foreignkey::Key;
use crate::apply::{Stop, Writer, internal};
use crate::error::SqlError;

impl Writer<'_> {
    /// The child has written a row with these values in the key's columns: its parent exists and
    /// is held until the transaction ends. It may be looked for at the end.
    pub(crate) async fn hold_parent(&mut self, key: &Key, values: &[Value]) -> Result<(), Stop> {
        if values.iter().any(Value::is_null) || self.deferred.child(key, values) {
            return Ok(());
        }
        self.hold_parent_now(key, values).await
    }

    /// The same of several rows that the child has written.
    pub(crate) async fn hold_parents(
        &mut self,
        key: &Key,
        rows: impl Iterator<Item = Vec<Value>>,
    ) -> Result<(), Stop> {
        if key.is_shared() {
            return self.require_parents(key, &rows.collect::<Vec<_>>()).await;
        }
        let mut last: Option<Vec<Value>> = None;
        for values in rows {
            if last.as_ref() != Some(&values) {
                self.hold_parent(key, &values).await?;
                last = Some(values);
            }
        }
        Ok(())
    }

    /// The same of a parent in a cluster: all are looked for at once.
    async fn require_parents(&mut self, key: &Key, rows: &[Vec<Value>]) -> Result<(), Stop> {
        let index = key.parent.table.layout().index_position(key.def.parent_index);
        let index = index.ok_or_else(|| internal("a foreign key to no index"))?;
        let (mut known, mut encoded, mut wanted) = (HashSet::new(), Vec::new(), Vec::new());
        let mut misfit = None;
        for values in rows.iter().filter(|values| !values.iter().any(Value::is_null)) {
            // Rows before it may have no parent, either, and are told of first.
            let Some(of_parent) = key.as_parent(values) else {
                misfit = Some(key.no_parent(values));
                break;
            };
            let of_parent = key.encode(index, &of_parent);
            if known.insert(of_parent.clone()) {
                encoded.push(of_parent);
                wanted.push(values);
            }
        }
        if !wanted.is_empty() {
            self.require_all(key, index, &encoded, &wanted).await?;
        }
        misfit.map_or(Ok(()), |error| Err(error.into()))
    }

    /// Parents of these values, which have these keys in an index.
    async fn require_all(
        &mut self,
        key: &Key,
        index: usize,
        encoded: &[Vec<u8>],
        wanted: &[&Vec<Value>],
    ) -> Result<(), Stop> {
        let Some(referenced) = key.parent.table.referenced() else {
            for values in wanted {
                self.lock_parent(key, values).await?;
            }
            return Ok(());
        };
        let view = self.now();
        let missing = referenced.require(self.txn.part(), &view, index, encoded);
        match missing.map_err(SqlError::from)? {
            Some(missing) => Err(key.no_parent(wanted[missing]).into()),
            None => Ok(()),
        }
    }

    /// The same of one whose rows may be in two places: it is held as a write holds it.
    async fn lock_parent(&mut self, key: &Key, values: &[Value]) -> Result<(), Stop> {
        let wanted = key.as_parent(values).ok_or_else(|| key.no_parent(values))?;
        loop {
            let view = self.now();
            let found = key.parent_lookup.rows(&key.parent, &view, &wanted, 1, self.limits)?;
            let Some(parent) = found.first() else { return Err(key.no_parent(values).into()) };
            if self.lock_as_seen(&key.parent, &view, *parent).await? {
                return Ok(());
            }
        }
    }

    /// Locks a row of a table in a cluster as a view sees it. False: it has changed, and is to be looked for again.
    pub(super) async fn lock_as_seen(
        &mut self,
        table: &TableVersion,
        view: &Snapshot,
        rid: RowId,
    ) -> Result<bool, Stop> {
        loop {
            let lock = [RowWrite::Lock { rid }];
            match table.table.write(self.txn.part(), view.ts, &lock) {
                Ok(()) => return Ok(true),
                Err((_, WriteStop::Busy { holder })) => self.wait_for(holder).await?,
                Err((_, WriteStop::Engine(error))) => return Err(SqlError::from(error).into()),
                Err((_, WriteStop::Duplicate { .. })) => return Err(internal("a lock has no key")),
                Err((_, WriteStop::Changed | WriteStop::Gone | WriteStop::Moved)) => {
                    return Ok(false);
                }
            }
        }
    }

    pub(crate) async fn hold_parent_now(
        &mut self,
        key: &Key,
        values: &[Value],
    ) -> Result<(), Stop> {
        if key.is_shared() {
            return self.require_parents(key, &[values.to_vec()]).await;
        }
        let Some(wanted) = key.as_parent(values) else { return Err(key.no_parent(values).into()) };
        let limits = self.limits;
        let find = |view: &Snapshot| {
            let found = key.parent_lookup.rows(&key.parent, view, &wanted, 1, limits)?;
            Ok::<_, Stop>(found.first().copied())
        };
        let (parent, columns) = (&*key.parent.table, key.parent_columns());
        match Box::pin(self.txn.hold_found(parent, columns, find, limits)).await? {
            Some(_) => Ok(()),
            None => Err(key.no_parent(values).into()),
        }
    }
}
