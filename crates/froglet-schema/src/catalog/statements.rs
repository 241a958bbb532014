//! What a statement begins with: its read view, the catalog of that view with the transaction's own changes on top, and what
//! the transaction has written so far, brought to the schema that the view has.

use std::sync::Arc;

use froglet_engine::{Snapshot, Ts, UnknownChange};
use froglet_txn::{Isolation, Limits, Transaction, aside_async};

use super::{Catalog, CatalogVersion};
use crate::error::SchemaError;
use crate::flip::carry::Follows;
use crate::flip::changes_itself;
use crate::local::{local, local_mut};

impl Catalog {
    /// Begins a statement: takes its read view and returns the catalog that it sees, the
    /// transaction's own changes included. Tables the transaction is itself migrating are brought
    /// up to the read view first. `writes` says whether the statement may write.
    pub async fn begin_statement(
        &self,
        txn: &mut Transaction,
        writes: bool,
        limits: &Limits,
    ) -> Result<Arc<CatalogVersion>, SchemaError> {
        // Keeps what a carry-over below may need while the read view moves on.
        let behind = txn.behind.take();
        let wrote = !txn.schema_set().is_empty();
        let before = wrote.then(|| behind.unwrap_or_else(|| txn.snapshot()));
        if writes {
            txn.part();
        }
        let view = self.read_view(txn, before.as_ref(), limits).await;
        if view.is_err() {
            // What it has written is to follow from there, unless it is rolled back to a savepoint.
            txn.behind = before;
        }
        view
    }

    /// What a statement sees: what the transaction has written follows from `before`.
    async fn read_view(
        &self,
        txn: &mut Transaction,
        before: Option<&Arc<Snapshot>>,
        limits: &Limits,
    ) -> Result<Arc<CatalogVersion>, SchemaError> {
        let migrates = local(txn).is_some_and(|l| !l.migrations.is_empty());
        if migrates && txn.isolation() == Isolation::ReadCommitted {
            aside_async(Box::pin(self.steady_own_migrations(txn, limits)).as_mut()).await?;
        } else {
            txn.begin_statement();
            while let Some(unknown) = self.unknown_change(txn) {
                tokio::select! {
                    is_known = unknown => match is_known? {
                        true => txn.begin_statement(),
                        false => break,
                    },
                    e = limits.exceeded() => return Err(e.into()),
                }
            }
        }
        let base = self.at(txn.snapshot().ts);
        txn.catalog_as_of = base.ts;
        let view = self.as_seen_by(txn, base);
        if let Some(before) = before
            && txn.schema_set().iter().any(|used| self.moves_on(&view, used))
        {
            Box::pin(self.carry_over_to(txn, &view, before, limits)).await?;
        }
        Ok(view)
    }

    /// The same, if nothing has to be waited for: the transaction changes no schema, and what it
    /// has written is of the schema that the statement sees. Else [`Catalog::begin_statement`] is to
    /// be asked, and has lost nothing.
    pub fn begin_statement_at_once(
        &self,
        txn: &mut Transaction,
        writes: bool,
    ) -> Option<Arc<CatalogVersion>> {
        if local(txn).is_some() || txn.behind.is_some() {
            return None;
        }
        let before = (!txn.schema_set().is_empty()).then(|| txn.snapshot());
        if writes {
            txn.part();
        }
        txn.begin_statement();
        if self.unknown_change(txn).is_some() {
            txn.behind = before;
            return None;
        }
        let view = self.at(txn.snapshot().ts);
        if before.is_some() && txn.schema_set().iter().any(|used| self.moves_on(&view, used)) {
            txn.behind = before;
            return None;
        }
        Some(view)
    }

    /// What a statement's view may see the effects of, and the catalog does not have; at REPEATABLE READ nothing can be done.
    fn unknown_change(&self, txn: &mut Transaction) -> Option<UnknownChange> {
        match txn.isolation().keeps_view() {
            true => None,
            false => self.engine().unknown_change(txn.snapshot().ts),
        }
    }

    /// READ COMMITTED: the statement sees a newer schema than the transaction wrote under.
    async fn carry_over_to(
        &self,
        txn: &mut Transaction,
        view: &CatalogVersion,
        before: &Arc<Snapshot>,
        limits: &Limits,
    ) -> Result<(), SchemaError> {
        let (mut i, mut children) = (0, Vec::new());
        // Where rows follow into a copy, that is a new table it has written, which may be gone as well.
        while let Some(used) = txn.schema_set().get(i).copied() {
            if !changes_itself(txn, used.table) && self.moves_on(view, &used) {
                self.carry_over(txn, used, before, &mut children, limits).await?;
            }
            i += 1;
        }
        Ok(self.carry_children(txn, &children, Follows::Statement, limits).await?)
    }

    /// The statement is over (capture for the transaction's own migrations goes on).
    pub fn end_statement(&self, txn: &mut Transaction) {
        if let Some(local) = local(txn) {
            local.migrations.iter().for_each(|m| m.resume());
        }
    }

    /// The catalog at the transaction's read view, its own changes on top.
    pub fn view(&self, txn: &mut Transaction) -> Arc<CatalogVersion> {
        let base = self.at(txn.snapshot().ts);
        self.as_seen_by(txn, base)
    }

    /// The catalog as the transaction's next statement will see it, if nothing happens before.
    pub fn next_view(&self, txn: &mut Transaction) -> Arc<CatalogVersion> {
        let base = if txn.moves() { self.latest() } else { self.at(txn.snapshot().ts) };
        self.as_seen_by(txn, base)
    }

    /// A catalog with the transaction's own changes on top.
    fn as_seen_by(&self, txn: &mut Transaction, base: Arc<CatalogVersion>) -> Arc<CatalogVersion> {
        if local(txn).is_none() {
            return base;
        }
        let (owner, isolation) = (txn.id(), txn.isolation());
        let local = local_mut(txn);
        match &local.view {
            Some((stamp, view)) if *stamp == base.stamp => view.clone(),
            _ => {
                let stamp = self.next_stamp();
                let mut view = base.with(&local.changes.objects, Ts(0), stamp);
                view.as_owner_sees(owner, isolation, local);
                let view = Arc::new(view);
                local.view = Some((base.stamp, view.clone()));
                view
            }
        }
    }
}
