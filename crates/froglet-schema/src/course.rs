//! How a lazy migration is getting on, whatever it makes, and what an operator says to it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use froglet_engine::{SpaceId, SqlState, TxnId};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::catalog::Catalog;
use crate::def::{ObjectId, TableDef};
use crate::error::SchemaError;
use crate::migration::now_us;
use crate::pace::Pace;
use crate::status::{Control, MigrationOptions, MigrationPhase, MigrationStatus};

/// How a lazy migration was begun: part of a table's definition until it has ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Begun {
    /// Its number.
    pub migration: u64,
    /// The statement.
    pub statement: String,
    /// How long after the commit, or a restart, the background begins.
    pub delay_ms: u64,
    /// The background begins at once, and does not rest.
    pub is_hybrid: bool,
    /// Microseconds since 1970 UTC.
    pub started_us: i64,
}

/// Who wants something migrated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    /// A statement.
    Access,
    /// Nobody.
    Background,
}

/// How it is getting on.
pub(crate) struct Course {
    pub begun: Begun,
    /// `table`, or `column`.
    kind: &'static str,
    /// The table whose rows are made, or made whole.
    pub table: ObjectId,
    pub table_name: String,
    /// Its row space.
    pub space: SpaceId,
    /// Whose it is until the commit.
    pub owner: TxnId,
    pub pace: Pace,
    /// There is nothing left, or nobody who would want it.
    ended: AtomicBool,
    rows_on_access: AtomicU64,
    rows_in_background: AtomicU64,
    in_background: AtomicBool,
    failure: Mutex<Option<String>>,
}

impl Catalog {
    /// A lazy migration begins.
    pub(crate) fn begin_lazy(&self, options: &MigrationOptions) -> Begun {
        Begun {
            migration: self.next_migration(),
            statement: options.statement.clone(),
            delay_ms: u64::try_from(options.background_delay.as_millis()).unwrap_or(u64::MAX),
            is_hybrid: options.is_hybrid,
            started_us: now_us(),
        }
    }
}

impl Course {
    pub fn new(begun: Begun, kind: &'static str, table: &TableDef, owner: TxnId) -> Course {
        Course {
            begun,
            kind,
            table: table.id,
            table_name: table.name.clone(),
            space: table.space,
            owner,
            pace: Pace::default(),
            ended: AtomicBool::new(false),
            rows_on_access: AtomicU64::new(0),
            rows_in_background: AtomicU64::new(0),
            in_background: AtomicBool::new(false),
            failure: Mutex::default(),
        }
    }

    /// How long after the commit the background begins.
    pub fn delay_ms(&self) -> u64 {
        if self.begun.is_hybrid { 0 } else { self.begun.delay_ms }
    }

    /// Nobody needs it any more.
    pub fn end(&self) {
        self.ended.store(true, Ordering::SeqCst);
    }

    /// Whether somebody still needs it.
    pub fn goes_on(&self) -> bool {
        !self.ended.load(Ordering::SeqCst)
    }

    /// So many rows were migrated.
    pub fn count(&self, who: Who, rows: usize) {
        let counter = match who {
            Who::Access => &self.rows_on_access,
            Who::Background => &self.rows_in_background,
        };
        counter.fetch_add(rows as u64, Ordering::Relaxed);
    }

    /// It migrates what nobody has asked for.
    pub fn set_in_background(&self) {
        self.in_background.store(true, Ordering::Relaxed);
    }

    /// Rows that it has migrated so.
    pub fn rows_in_background(&self) -> u64 {
        self.rows_in_background.load(Ordering::Relaxed)
    }

    /// The background has failed, or goes on; what is touched is migrated all the same.
    pub fn fail(&self, error: Option<&SchemaError>) {
        *self.failure.lock() = error.map(ToString::to_string);
    }

    /// Does what an operator says.
    pub fn control(&self, control: Control) -> Result<(), SchemaError> {
        match control {
            Control::Pause => self.pace.pause(true),
            Control::Resume => self.pace.pause(false),
            Control::Throttle(rows_per_second) => self.pace.throttle(rows_per_second),
            Control::Cancel => {
                let (id, table) = (self.begun.migration, &self.table_name);
                return Err(SchemaError::refused(
                    SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
                    format!("lazy migration {id} of table \"{table}\" cannot be cancelled"),
                )
                .with_detail(
                    "Its schema change is committed, and in use; rows are still to be moved.",
                )
                .with_hint(format!(
                    "froglet.pause_migration({id}) leaves them until they are touched; \
                     froglet.revert_migration({id}) migrates back."
                )));
            }
        }
        Ok(())
    }

    /// One row of `froglet.migrations`.
    pub fn status(&self, (blocks_done, blocks): (u64, u64), backlog: u64) -> MigrationStatus {
        MigrationStatus {
            id: self.begun.migration,
            txn: self.owner.0,
            table: self.table,
            table_name: self.table_name.clone(),
            kind: self.kind.to_owned(),
            statement: self.begun.statement.clone(),
            phase: match self.in_background.load(Ordering::Relaxed) {
                true => MigrationPhase::Background,
                false => MigrationPhase::Lazy,
            },
            blocks_done,
            blocks,
            rows_scanned: self.rows_in_background.load(Ordering::Relaxed),
            rows_on_access: self.rows_on_access.load(Ordering::Relaxed),
            rows_to_load: 0,
            rows_loaded: 0,
            rows_captured: 0,
            backlog,
            started_us: self.begun.started_us,
            ended_us: None,
            error: self.failure.lock().clone(),
            is_paused: self.pace.is_paused(),
            rows_per_second: self.pace.limit(),
            kept_with: None,
        }
    }
}

/// A status once its transaction is rolled back.
pub(crate) fn rolled_back(status: MigrationStatus) -> MigrationStatus {
    let ended_us = Some(now_us());
    MigrationStatus { phase: MigrationPhase::Aborted, ended_us, backlog: 0, ..status }
}

/// A status at the end: `why` everything was not migrated, if so.
pub(crate) fn ended(status: MigrationStatus, why: Option<&str>) -> MigrationStatus {
    let phase = if why.is_none() { MigrationPhase::Done } else { MigrationPhase::Aborted };
    let error = why.map(str::to_owned).or(status.error);
    MigrationStatus { phase, error, ended_us: Some(now_us()), backlog: 0, ..status }
}
