//! BEGIN, COMMIT, ROLLBACK and savepoints, with PostgreSQL's warnings.

use std::pin::pin;
use std::sync::atomic::Ordering;

use froglet_engine::{CrashPoint, SqlState};
use froglet_txn::{Committed, Isolation, Transaction, aside_async};

use crate::as_of::AsOf;
use crate::command::{IsolationName, TransactionModes};
use crate::context::SessionFunctions;
use crate::error::SqlError;
use crate::notify::SaidMark;
use crate::session::{Block, NamedSavepoint, Session, in_cluster};
use crate::settings::SettingsMark;

impl Session {
    /// The transaction under way; an implicit one is begun where there is none.
    pub(crate) fn transaction(&mut self) -> Result<&mut Transaction, SqlError> {
        if self.txn.is_none() {
            if self.block == Block::Idle {
                self.enter(Block::Implicit, TransactionModes::default())?;
            }
            let isolation = self.isolation_name().level();
            if isolation == Isolation::Serializable {
                in_cluster::refuse(self.db.manager(), "the isolation level SERIALIZABLE")?;
            }
            let mut txn = self.db.manager().begin(isolation);
            if let Some(as_of) = &self.settings.hot().as_of {
                if let Some(as_of) = AsOf::parse(as_of, self.state.zone())? {
                    as_of.begin(&self.db, &mut txn)?;
                }
                self.set_read_only(true);
            }
            self.shared.txn.store(txn.id().0, Ordering::Relaxed);
            self.txn = Some(txn);
        }
        Ok(self.txn.as_mut().expect("just begun"))
    }

    /// The isolation level of the transaction under way, or of the next one.
    pub(crate) fn isolation_name(&self) -> IsolationName {
        self.modes.isolation.unwrap_or(self.settings.hot().isolation)
    }

    fn enter(&mut self, block: Block, modes: TransactionModes) -> Result<(), SqlError> {
        if modes.isolation.is_some_and(|name| name.level() == Isolation::Serializable) {
            in_cluster::refuse(self.db.manager(), "the isolation level SERIALIZABLE")?;
        }
        self.block = block;
        self.modes = modes;
        self.set_read_only(modes.read_only.unwrap_or(self.settings.hot().read_only));
        self.begin_settings = Some(self.settings.mark());
        self.state.begin_transaction();
        Ok(())
    }

    pub(crate) fn begin(&mut self, modes: TransactionModes) -> Result<(), SqlError> {
        match self.block {
            Block::Idle => self.enter(Block::Explicit, modes),
            Block::Implicit => {
                self.block = Block::Explicit;
                self.set_transaction(modes)
            }
            Block::Explicit | Block::Failed => {
                self.notice(
                    "WARNING",
                    SqlState::ACTIVE_SQL_TRANSACTION,
                    "there is already a transaction in progress",
                );
                Ok(())
            }
        }
    }

    /// SET TRANSACTION, and the modes of a BEGIN that turns an implicit transaction explicit.
    pub(crate) fn set_transaction(&mut self, modes: TransactionModes) -> Result<(), SqlError> {
        if self.block == Block::Idle {
            self.notice(
                "WARNING",
                SqlState::NO_ACTIVE_SQL_TRANSACTION,
                "SET TRANSACTION can only be used in transaction blocks",
            );
            return Ok(());
        }
        if let Some(name) = modes.isolation {
            if name.level() == Isolation::Serializable {
                in_cluster::refuse(self.db.manager(), "the isolation level SERIALIZABLE")?;
            }
            if let Some(txn) = &mut self.txn
                && !txn.set_isolation(name.level())
            {
                return Err(SqlError::new(
                    SqlState::ACTIVE_SQL_TRANSACTION,
                    "SET TRANSACTION ISOLATION LEVEL must be called before any query",
                ));
            }
            self.modes.isolation = Some(name);
        }
        if let Some(read_only) = modes.read_only {
            if self.read_only && !read_only && self.txn.is_some() {
                return Err(SqlError::new(
                    SqlState::ACTIVE_SQL_TRANSACTION,
                    "transaction read-write mode must be set before any query",
                ));
            }
            self.modes.read_only = Some(read_only);
            self.set_read_only(read_only);
        }
        Ok(())
    }

    /// COMMIT. Answers with its tag: a failed transaction is rolled back, and says so.
    pub(crate) async fn commit(&mut self, chain: bool) -> Result<&'static str, SqlError> {
        let modes = self.modes;
        let tag = match self.block {
            Block::Idle | Block::Implicit if chain => return Err(needs_block("COMMIT AND CHAIN")),
            Block::Idle => {
                self.warn_no_transaction();
                "COMMIT"
            }
            block @ (Block::Implicit | Block::Explicit) => {
                if block == Block::Implicit {
                    self.warn_no_transaction();
                }
                pin!(self.commit_transaction()).await?;
                "COMMIT"
            }
            Block::Failed => {
                self.abort_transaction();
                "ROLLBACK"
            }
        };
        if chain {
            self.enter(Block::Explicit, modes)?;
        }
        Ok(tag)
    }

    pub(crate) fn rollback(&mut self, chain: bool) -> Result<(), SqlError> {
        let modes = self.modes;
        match self.block {
            Block::Idle | Block::Implicit if chain => {
                return Err(needs_block("ROLLBACK AND CHAIN"));
            }
            Block::Idle => self.warn_no_transaction(),
            Block::Implicit => {
                self.warn_no_transaction();
                self.abort_transaction();
            }
            Block::Explicit | Block::Failed => self.abort_transaction(),
        }
        if chain {
            self.enter(Block::Explicit, modes)?;
        }
        Ok(())
    }

    fn warn_no_transaction(&mut self) {
        self.notice(
            "WARNING",
            SqlState::NO_ACTIVE_SQL_TRANSACTION,
            "there is no transaction in progress",
        );
    }

    /// Commits what there is and waits until the client may be told.
    pub(crate) async fn commit_transaction(&mut self) -> Result<(), SqlError> {
        if !self.deferred.is_empty()
            && let Err(e) = Box::pin(self.check_deferred()).await
        {
            self.abort_transaction();
            return Err(e);
        }
        if !self.on_commit.is_empty()
            && let Err(e) = Box::pin(self.run_on_commit()).await
        {
            self.abort_transaction();
            return Err(e);
        }
        if self.has_cursors()
            && let Err(e) = Box::pin(self.hold_cursors()).await
        {
            self.abort_transaction();
            return Err(e);
        }
        let speech = match self.prepare_speech() {
            Ok(speech) => speech,
            Err(e) => {
                self.abort_transaction();
                return Err(e);
            }
        };
        let txn = self.txn.take();
        let durably = self.settings.hot().synchronous_commit;
        let limits = self.limits();
        let begun_with = self.begin_settings.take();
        self.leave();
        let Some(txn) = txn else {
            self.end_settings(begun_with, true);
            self.state.drop_transaction_locks();
            return Ok(());
        };
        let manager = self.db.manager().clone();
        let changes_schema = txn.extension.is_some();
        let commit = pin!(manager.commit(txn, &limits));
        let outcome = if changes_schema { aside_async(commit).await } else { commit.await };
        self.end_settings(begun_with, outcome.is_ok());
        self.state.drop_transaction_locks();
        let committed = outcome?;
        self.note_committed(committed, durably);
        if durably {
            match committed.ts {
                Some(_) => manager.wait_committed(committed.lsn).await?,
                None => manager.wait_durable_ts(committed.seen).await?,
            }
        }
        if changes_schema {
            CrashPoint::FlipDurable.reached();
        }
        if let Some(speech) = speech {
            speech.give();
        }
        Ok(())
    }

    /// The same, if there is nothing to wait for: neither for others, nor for the log, unless this
    /// thread may itself bring it to the disk.
    pub(crate) fn commit_at_once(&mut self) -> Option<Result<(), SqlError>> {
        let has_an_end = !self.deferred.is_empty() || !self.on_commit.is_empty();
        if has_an_end || self.has_cursors() || !self.state.said().is_empty() {
            return None;
        }
        let durably = self.settings.hot().synchronous_commit;
        let outcome = match &mut self.txn {
            Some(txn) if txn.extension.is_some() => return None,
            Some(txn) if durably && !self.alone && txn.wrote() => return None,
            Some(txn) => self.db.manager().commit_at_once(txn)?.map(Some),
            None => Ok(None),
        };
        self.txn = None;
        let begun_with = self.begin_settings.take();
        self.leave();
        self.end_settings(begun_with, outcome.is_ok());
        self.state.drop_transaction_locks();
        Some(match outcome {
            Ok(Some(committed)) => self.made_durable(committed, durably),
            Ok(None) => Ok(()),
            Err(e) => Err(e.into()),
        })
    }

    /// What is not durable after this, [`Session::settle`] waits for.
    fn made_durable(&mut self, committed: Committed, durably: bool) -> Result<(), SqlError> {
        self.note_committed(committed, durably);
        if durably && committed.ts.is_some() {
            // False: another thread is at it, and `settle` waits for that.
            self.db.manager().make_durable(committed.lsn)?;
        }
        Ok(())
    }

    /// Settings changed since a transaction began stay, or go with it.
    fn end_settings(&mut self, begun_with: Option<SettingsMark>, keep: bool) {
        let Some(mark) = begun_with.filter(|mark| !self.settings.same_as(mark)) else { return };
        match keep {
            true => self.settings.commit(),
            false => self.settings.restore(&mark),
        }
        self.publish_settings();
    }

    /// Undoes everything; the session is idle.
    pub(crate) fn abort_transaction(&mut self) {
        self.abort_rows();
        let begun_with = self.begin_settings.take();
        self.end_settings(begun_with, false);
        self.leave();
    }

    /// What an aborted transaction has read, its error may tell.
    fn abort_rows(&mut self) {
        if let Some(mut txn) = self.txn.take() {
            self.seen = self.seen.max(txn.seen());
            txn.abort();
        }
        self.state.drop_transaction_locks();
        self.state.take_back_exported();
        self.state.said().restore(SaidMark::default());
    }

    fn leave(&mut self) {
        self.block = Block::Idle;
        self.savepoints.clear();
        self.deferred.clear();
        self.close_cursors_since(0);
        self.forget_portals();
        self.state.end_transaction();
        self.modes = TransactionModes::default();
        self.set_read_only(false);
    }

    fn set_read_only(&mut self, read_only: bool) {
        self.read_only = read_only;
        self.state.set_read_only(read_only);
    }

    /// An error inside BEGIN … COMMIT: what the innermost savepoint does not protect is undone
    /// now, so that nobody waits for a transaction that can only roll back.
    pub(crate) fn fail_transaction(&mut self) {
        self.block = Block::Failed;
        if let Some(savepoint) = self.savepoints.last() {
            self.state.drop_locks_since(savepoint.advisory);
            self.state.drop_tables_since(savepoint.tables);
            self.state.said().restore(savepoint.said);
        }
        self.close_cursors_since(self.savepoints.last().map_or(0, |s| s.cursors));
        match self.savepoints.last() {
            Some(savepoint) => {
                if let Some(txn) = &mut self.txn {
                    self.db.catalog().rollback_to(txn, &savepoint.catalog);
                    txn.rollback_to(savepoint.rows);
                }
            }
            None => self.abort_rows(),
        }
    }

    pub(crate) fn savepoint(&mut self, name: &str) -> Result<(), SqlError> {
        if self.block != Block::Explicit {
            return Err(needs_block("SAVEPOINT"));
        }
        self.transaction()?;
        let txn = self.txn.as_ref().expect("just begun");
        let savepoint = NamedSavepoint {
            name: name.to_owned(),
            rows: txn.savepoint(),
            catalog: self.db.catalog().savepoint(txn),
            settings: self.settings.mark(),
            cursors: self.cursors.mark(),
            advisory: self.state.advisory_mark(),
            tables: self.state.tables_mark(),
            said: self.state.said().mark(),
            constraints: self.deferred.modes.clone(),
        };
        self.savepoints.push(savepoint);
        Ok(())
    }

    pub(crate) fn release(&mut self, name: &str) -> Result<(), SqlError> {
        if self.block != Block::Explicit {
            return Err(needs_block("RELEASE SAVEPOINT"));
        }
        let at = self.find_savepoint(name)?;
        self.savepoints.truncate(at);
        Ok(())
    }

    pub(crate) fn rollback_to(&mut self, name: &str) -> Result<(), SqlError> {
        if !matches!(self.block, Block::Explicit | Block::Failed) {
            return Err(needs_block("ROLLBACK TO SAVEPOINT"));
        }
        let at = self.find_savepoint(name)?;
        self.savepoints.truncate(at + 1);
        self.close_cursors_since(self.savepoints[at].cursors);
        let savepoint = &self.savepoints[at];
        self.state.drop_locks_since(savepoint.advisory);
        self.state.drop_tables_since(savepoint.tables);
        self.state.said().restore(savepoint.said);
        self.deferred.modes = savepoint.constraints.clone();
        if let Some(txn) = &mut self.txn {
            self.db.catalog().rollback_to(txn, &savepoint.catalog);
            txn.rollback_to(savepoint.rows);
        }
        let mark = savepoint.settings.clone();
        if !self.settings.same_as(&mark) {
            self.settings.restore(&mark);
            self.publish_settings();
        }
        self.block = Block::Explicit;
        Ok(())
    }

    fn find_savepoint(&self, name: &str) -> Result<usize, SqlError> {
        self.savepoints.iter().rposition(|s| s.name == name).ok_or_else(|| {
            SqlError::new(
                SqlState::INVALID_SAVEPOINT,
                format!("savepoint \"{name}\" does not exist"),
            )
        })
    }
}

fn needs_block(what: &str) -> SqlError {
    SqlError::new(
        SqlState::NO_ACTIVE_SQL_TRANSACTION,
        format!("{what} can only be used in transaction blocks"),
    )
}
