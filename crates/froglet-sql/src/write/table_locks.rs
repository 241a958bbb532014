//! Locks of whole tables: LOCK TABLE, and what statements hold of the tables that they use.
//!
//! ```text
//!   a session's list      t  ROW EXCLUSIVE  statement      T4: to the end of the transaction
//!                         u  SHARE          LOCK TABLE
//!                         v  EXCLUSIVE      wanted
//!
//!   statement ── enters ── has anybody said LOCK TABLE? ── no ─▶ it has what it needs
//!                                                       └─ yes ─▶ under the mutex: looks at all lists, enters
//!   LOCK TABLE ── counts itself ── under the mutex: looks at all lists, enters
//! ```
//! Statements do not exclude one another by tables, so nobody looks at the others' lists while nobody says LOCK TABLE.
//!
//! T1: a statement enters first and looks at the count then, LOCK TABLE counts itself first and looks at the lists then,
//!     both sequentially consistent: of two that race, one sees the other.
//! T2: whoever may meet a conflict looks and enters under one mutex.
//! T3: who waits holds nothing of what it waits for. What LOCK TABLE waits for is wanted: statements of sessions that
//!     hold nothing of the table yet wait behind it, so that it is not kept waiting for ever.
//! T4: what is entered after a savepoint goes with a rollback to it.
//! T5: schema changes are made to go on beside statements, and do. They and LOCK TABLE wait for each other; but
//!     ACCESS SHARE of a transaction that keeps its view hinders none: its view keeps the tables as they were.
//! T6: a reader has no place in the graph of waits until it waits itself. Who waits for one looks again every while.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering, fence};
use std::time::{Duration, Instant};

use datafusion::sql::sqlparser::ast::ObjectName;
use froglet_engine::{SqlState, TxnId};
use froglet_schema::def::FIRST_USER_ID;
use froglet_schema::{
    CatalogVersion, Change, ConstraintKind, ForeignKeyAction, NewConstraint, ObjectId,
};
use froglet_txn::{Limits, Transaction, TxnError};
use parking_lot::Mutex;
use smallvec::SmallVec;

use crate::apply::Stop;
use crate::command::Command;
use crate::context::SessionFunctions;
use crate::database::SessionShared;
use crate::error::SqlError;
use crate::functions::SessionState;
use crate::object_ddl::ObjectDdl;
use crate::privileges::{Who, bits, check, no_privilege};
use crate::resolve::{Names, Relation, no_relation};
use crate::session::{Block, Session, in_cluster};
use crate::stream::Outcome;
use crate::syntax::table_mode::{LockTable, TableMode};

/// What ends a statement that has waited and is to begin again. No client sees it.
const WAITED: SqlState = SqlState::new("FRGLT");

/// How often a reader is looked at that is waited for [T6].
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// Views within views.
const MAX_DEPTH: usize = 64;

/// A table that a statement uses, and how.
pub(crate) type Use = (ObjectId, TableMode);

/// For what a table is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum For {
    Statement,
    SchemaChange,
    /// LOCK TABLE
    Lock,
    /// LOCK TABLE, which waits.
    Wanted,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    table: ObjectId,
    mode: TableMode,
    what: For,
}

impl Entry {
    /// Whether it is to wait for what somebody else has entered.
    fn waits_for(&self, other: &Entry) -> bool {
        let meet = match (self.what, other.what) {
            (For::SchemaChange, For::Lock) | (For::Lock, For::SchemaChange) => true,
            (For::SchemaChange, _) | (_, For::SchemaChange) => false,
            (For::Statement, For::Wanted) => true,
            (_, For::Wanted) => false,
            _ => true,
        };
        meet && self.table == other.table && self.mode.excludes(other.mode)
    }

    fn is_said(&self) -> bool {
        matches!(self.what, For::Lock | For::Wanted)
    }
}

/// What a session holds, in the order in which it was entered.
pub(crate) type Held = Mutex<SmallVec<[Entry; 8]>>;

/// The tables of a database that LOCK TABLE holds or waits for.
#[derive(Default)]
pub(crate) struct TableLocks {
    said: AtomicUsize,
    entering: Mutex<()>,
}

/// One row of pg_locks.
#[derive(Clone, Copy, Debug)]
pub struct TableLockRow {
    /// The session.
    pub pid: i32,
    /// The table.
    pub table: u32,
    /// As pg_locks calls it.
    pub mode: &'static str,
    /// Whether it is held.
    pub granted: bool,
}

impl SessionState {
    fn held(&self) -> &Held {
        &self.shared().tables
    }

    fn locks(&self) -> &TableLocks {
        self.database().table_locks()
    }

    /// Enters what a statement uses, if that is all that is to be done [T1].
    fn enter_at_once(&self, entries: impl Iterator<Item = Entry>) -> bool {
        let mut held = self.held().lock();
        let before = held.len();
        for entry in entries {
            if !held.contains(&entry) {
                held.push(entry);
            }
        }
        if held.len() == before {
            return true;
        }
        drop(held);
        fence(Ordering::SeqCst);
        if self.locks().said.load(Ordering::SeqCst) == 0 {
            return true;
        }
        self.drop_tables_since(before);
        false
    }

    /// Enters one, or says who holds what it is to wait for [T2].
    fn enter(&self, entry: Entry, is_wanted: bool) -> Result<(), TxnId> {
        let own = self.shared().pid;
        let locks = self.locks();
        let _entering = locks.entering.lock();
        if self.held().lock().contains(&entry) {
            return Ok(());
        }
        if entry.is_said() && !is_wanted {
            locks.said.fetch_add(1, Ordering::SeqCst);
            fence(Ordering::SeqCst);
        }
        let holds_of_it = self.held().lock().iter().any(|e| e.table == entry.table);
        let is_met =
            |other: &Entry| entry.waits_for(other) && !(holds_of_it && other.what == For::Wanted);
        let is_in_the_way = |session: &Arc<SessionShared>| {
            session.pid != own && session.tables.lock().iter().any(is_met)
        };
        let holder = self.database().find_session(is_in_the_way);
        let mut held = self.held().lock();
        let wanted = Entry { what: For::Wanted, ..entry };
        match holder {
            None => {
                held.retain(|e| *e != wanted);
                held.push(entry);
                Ok(())
            }
            Some(session) => {
                if entry.is_said() && !held.contains(&wanted) {
                    held.push(wanted);
                }
                Err(TxnId(session.txn.load(Ordering::SeqCst)))
            }
        }
    }

    /// Takes back what is waited for.
    fn give_up(&self, entry: Entry) {
        let wanted = Entry { what: For::Wanted, ..entry };
        let mut held = self.held().lock();
        let before = held.len();
        held.retain(|e| *e != wanted);
        let gone = before - held.len();
        drop(held);
        self.locks().said.fetch_sub(gone, Ordering::SeqCst);
        self.ring();
    }

    /// Whoever waits for this session's transaction looks again.
    fn ring(&self) {
        let txn = TxnId(self.shared().txn.load(Ordering::SeqCst));
        self.database().manager().waits().released(txn);
    }

    /// How many tables the transaction has entered so far.
    pub(crate) fn tables_mark(&self) -> usize {
        self.held().lock().len()
    }

    /// Lets go of those that it has entered since [T4].
    pub(crate) fn drop_tables_since(&self, mark: usize) {
        let mut held = self.held().lock();
        if held.len() <= mark {
            return;
        }
        let said = held[mark..].iter().filter(|entry| entry.is_said()).count();
        held.truncate(mark);
        drop(held);
        let locks = self.locks();
        if locks.said.load(Ordering::SeqCst) > 0 {
            locks.said.fetch_sub(said, Ordering::SeqCst);
            self.ring();
        }
    }

    /// Tables that are locked, or wanted.
    pub(crate) fn all_table_locks(&self) -> Vec<TableLockRow> {
        let mut rows = Vec::new();
        self.database().find_session(|session| {
            rows.extend(session.tables.lock().iter().map(|entry| TableLockRow {
                pid: session.pid,
                table: entry.table,
                mode: entry.mode.shown(),
                granted: entry.what != For::Wanted,
            }));
            false
        });
        rows.sort_by_key(|row| (row.pid, row.table, row.mode));
        rows
    }

    /// Enters one, however long that takes; whether it has waited.
    async fn enter_waiting(
        &self,
        txn: &mut Transaction,
        entry: Entry,
        limits: &Limits,
    ) -> Result<bool, SqlError> {
        let mut giving_up = GivesUp { state: self, entry: Some(entry) };
        let begun = Instant::now();
        let (mut is_wanted, mut last) = (false, None);
        while let Err(holder) = self.enter(entry, is_wanted) {
            is_wanted |= entry.is_said();
            // In the graph of waits from here on [T6].
            if !txn.is_past() {
                txn.part();
            }
            limits.check()?;
            if last.replace(holder) == Some(holder) {
                tokio::time::sleep(LOOK_AGAIN).await;
            }
            if limits.lock_timeout.is_some_and(|timeout| begun.elapsed() >= timeout) {
                return Err(TxnError::LockTimeout.into());
            }
            if holder != txn.id() && holder != TxnId(0) {
                txn.wait_for(holder, limits).await?;
            }
        }
        giving_up.entry = None;
        Ok(last.is_some())
    }

    /// A schema change of a table begins; whether it is to begin again, for it has waited [T5].
    pub(crate) async fn enter_change(
        &self,
        txn: &mut Transaction,
        change: &Change,
        limits: &Limits,
    ) -> Result<bool, SqlError> {
        let Some(table) = change.table() else { return Ok(false) };
        let mode = match change {
            Change::CreateIndex { .. } => TableMode::Share,
            Change::ValidateConstraint { .. } => TableMode::ShareUpdateExclusive,
            Change::AddConstraint { constraint: NewConstraint::ForeignKey { .. }, .. }
            | Change::AddNotValid { constraint: NewConstraint::ForeignKey { .. }, .. } => {
                TableMode::ShareRowExclusive
            }
            _ => TableMode::AccessExclusive,
        };
        let mut uses = vec![(table, mode)];
        if let Change::AddConstraint { constraint, .. } | Change::AddNotValid { constraint, .. } =
            change
            && let NewConstraint::ForeignKey { key, .. } = constraint
        {
            uses.extend(key.parent.map(|parent| (parent, TableMode::ShareRowExclusive)));
        }
        self.enter_all(txn, &uses, For::SchemaChange, limits).await
    }

    /// The same of what it reads.
    pub(crate) async fn enter_reads(
        &self,
        txn: &mut Transaction,
        uses: &[Use],
        limits: &Limits,
    ) -> Result<bool, SqlError> {
        self.enter_all(txn, uses, For::Statement, limits).await
    }

    async fn enter_all(
        &self,
        txn: &mut Transaction,
        uses: &[Use],
        what: For,
        limits: &Limits,
    ) -> Result<bool, SqlError> {
        let entries = || uses.iter().map(|&(table, mode)| Entry { table, mode, what });
        if self.enter_at_once(entries()) {
            return Ok(false);
        }
        let mut waited = false;
        for entry in entries() {
            waited |= self.enter_waiting(txn, entry, limits).await?;
        }
        Ok(waited)
    }

    /// What a statement uses, if nothing is to be waited for.
    pub(crate) fn enter_uses_at_once(&self, uses: &[Use]) -> bool {
        let what = For::Statement;
        self.enter_at_once(uses.iter().map(|&(table, mode)| Entry { table, mode, what }))
    }
}

/// A wait that is cancelled leaves nothing wanted.
struct GivesUp<'a> {
    state: &'a SessionState,
    entry: Option<Entry>,
}

impl Drop for GivesUp<'_> {
    fn drop(&mut self) {
        if let Some(entry) = self.entry.filter(Entry::is_said) {
            self.state.give_up(entry);
        }
    }
}

impl Session {
    /// Enters what a statement uses; whether it has waited, and is to take a newer view.
    pub(crate) async fn enter_uses(
        &mut self,
        uses: &[Use],
        limits: &Limits,
    ) -> Result<bool, SqlError> {
        let txn = self.txn.as_mut().expect("a statement runs in a transaction");
        self.state.enter_all(txn, uses, For::Statement, limits).await
    }

    /// LOCK TABLE
    pub(crate) async fn lock_tables(&mut self, lock: &LockTable) -> Result<Outcome, SqlError> {
        if self.block != Block::Explicit {
            return Err(SqlError::new(
                SqlState::NO_ACTIVE_SQL_TRANSACTION,
                "LOCK TABLE can only be used in transaction blocks",
            ));
        }
        self.transaction()?;
        let limits = self.limits();
        let txn = self.txn.as_mut().expect("just begun");
        if txn.is_past() && lock.mode > TableMode::AccessShare {
            return Err(SqlError::unsupported("LOCK TABLE in a transaction that reads the past"));
        }
        if lock.mode > TableMode::AccessShare {
            in_cluster::refuse(self.db.manager(), "LOCK TABLE, but for ACCESS SHARE,")?;
        }
        let hot = self.settings.hot().clone();
        let by_view = lock.mode == TableMode::AccessShare && !txn.moves();
        let what = if by_view { For::Statement } else { For::Lock };
        for name in &lock.tables {
            // Who has waited looks again what the name means.
            let mut waited = true;
            while std::mem::take(&mut waited) {
                let catalog = self.db.catalog().next_view(txn);
                let names = Names { catalog: &catalog, path: &hot.search_path };
                for (table, shown) in locked(&names, &self.state, name, lock.mode)? {
                    let entry = Entry { table, mode: lock.mode, what };
                    if !lock.nowait {
                        waited |= self.state.enter_waiting(txn, entry, &limits).await?;
                    } else if self.state.enter(entry, false).is_err() {
                        self.state.give_up(entry);
                        let message = format!("could not obtain lock on relation \"{shown}\"");
                        return Err(SqlError::new(SqlState::LOCK_NOT_AVAILABLE, message));
                    }
                }
            }
            if what == For::Lock && !txn.is_past() {
                txn.part();
            }
        }
        Ok(Outcome::Done("LOCK TABLE".into()))
    }
}

/// The tables that a name of LOCK TABLE means, with their names: of a view, those beneath it, as its owner.
fn locked(
    names: &Names<'_>,
    state: &SessionState,
    name: &ObjectName,
    mode: TableMode,
) -> Result<Vec<(ObjectId, String)>, SqlError> {
    let needed = match mode {
        TableMode::AccessShare => bits::SELECT,
        TableMode::RowExclusive => bits::INSERT | bits::UPDATE | bits::DELETE | bits::TRUNCATE,
        _ => bits::UPDATE | bits::DELETE | bits::TRUNCATE,
    };
    let catalog = names.catalog;
    let who = Who::named(catalog, &state.user());
    let relation = match names.relation(name)? {
        Some(Relation::Table(table)) if catalog.materialized(table.def.id).is_none() => {
            table.def.id
        }
        Some(Relation::View(view)) => view.id,
        Some(other) => {
            let kind = match other {
                Relation::Sequence(_) => "sequences",
                Relation::Index(..) => "indexes",
                Relation::Table(_) | Relation::View(_) => "materialized views",
            };
            let message = format!("cannot lock relation \"{}\"", Names::parts(name)?.1);
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message)
                .detail(format!("This operation is not supported for {kind}.")));
        }
        None => {
            let (schema, bare) = Names::parts(name)?;
            let schema = schema.as_deref().unwrap_or("pg_catalog");
            if crate::pgcatalog::schema_oid(catalog, schema).is_none() {
                let message = format!("schema \"{schema}\" does not exist");
                return Err(SqlError::new(SqlState::INVALID_SCHEMA_NAME, message));
            }
            return match (crate::pgcatalog::spec_of(schema, &bare), mode) {
                // Nobody changes what it is.
                (Some(_), TableMode::AccessShare) => Ok(Vec::new()),
                (Some(_), _) => Err(SqlError::unsupported("LOCK TABLE of a system catalog")),
                (None, _) => Err(names.table(name).err().unwrap_or_else(|| no_relation(&bare))),
            };
        }
    };
    let mut found = Vec::new();
    locked_by(catalog, &who, relation, needed, 0, &mut found)?;
    Ok(found)
}

fn locked_by(
    catalog: &CatalogVersion,
    who: &Who<'_>,
    relation: ObjectId,
    needed: u16,
    depth: usize,
    found: &mut Vec<(ObjectId, String)>,
) -> Result<(), SqlError> {
    let may = who.superuser || who.on_relation(relation) & needed != 0;
    if let Some(table) = catalog.tables.get(&relation) {
        if !may {
            return Err(no_privilege("table", &table.def.name));
        }
        found.push((relation, table.def.name.clone()));
    } else if let Some(view) = catalog.view(relation).filter(|_| depth < MAX_DEPTH) {
        if !may {
            return Err(no_privilege("view", &view.name));
        }
        let owner = Who::of_id(catalog, catalog.owner(froglet_schema::access::PG_CLASS, relation));
        for source in &view.sources {
            locked_by(catalog, &owner, source.relation, needed, depth + 1, found)?;
        }
    }
    Ok(())
}

/// The tables that a statement uses, each with the strongest mode in which it does.
pub(crate) fn uses_of(names: &Names<'_>, command: &Command) -> Box<[Use]> {
    let is_query = matches!(command, Command::Query(_));
    let mut uses = Uses { catalog: names.catalog, is_query, found: Vec::new() };
    for (relation, privileges) in check::mentioned(names, command) {
        uses.relation(relation, privileges, 0);
    }
    uses.found.into()
}

/// Those that a schema change reads.
pub(crate) fn uses_of_ddl(names: &Names<'_>, command: &Command) -> Box<[Use]> {
    let query = match command {
        Command::CreateTableAs(table_as) => table_as.create.query.clone(),
        Command::Object(object) => match &**object {
            ObjectDdl::CreateView(create) => Some(create.query.clone()),
            ObjectDdl::Refresh { view, .. } => {
                let found = match names.relation(view) {
                    Ok(Some(Relation::Table(table))) => names.catalog.view(table.def.id),
                    _ => None,
                };
                let mut uses = Uses { catalog: names.catalog, is_query: true, found: Vec::new() };
                for source in found.iter().flat_map(|view| &view.sources) {
                    uses.relation(source.relation, bits::SELECT, 0);
                }
                return uses.found.into();
            }
            _ => None,
        },
        _ => None,
    };
    query.map_or_else(Box::default, |query| uses_of(names, &Command::Query(query)))
}

/// Those of COPY FROM and the like.
pub(crate) fn uses_of_insert(catalog: &CatalogVersion, table: ObjectId) -> Box<[Use]> {
    let mut uses = Uses { catalog, is_query: false, found: Vec::new() };
    uses.relation(table, bits::INSERT, 0);
    uses.found.into()
}

struct Uses<'a> {
    catalog: &'a CatalogVersion,
    /// What it writes, it locks only.
    is_query: bool,
    found: Vec<Use>,
}

impl Uses<'_> {
    fn relation(&mut self, relation: ObjectId, privileges: u16, depth: usize) {
        if relation < FIRST_USER_ID || depth > MAX_DEPTH {
            return;
        }
        let mut written = privileges & (bits::INSERT | bits::UPDATE | bits::DELETE);
        if let Some(view) = self.catalog.view(relation)
            && self.catalog.materialized(relation).is_none()
        {
            // What is written through it is its first source, as for privileges.
            for source in &view.sources {
                let below = bits::SELECT | std::mem::take(&mut written);
                self.relation(source.relation, below, depth + 1);
            }
            return;
        }
        let mode = match written {
            0 => TableMode::AccessShare,
            _ if self.is_query => TableMode::RowShare,
            _ => TableMode::RowExclusive,
        };
        self.add(relation, mode);
        if mode == TableMode::RowExclusive {
            self.keys(relation, written, depth);
        }
    }

    /// What a write of a table looks at, and changes, on the other side of foreign keys.
    fn keys(&mut self, table: ObjectId, written: u16, depth: usize) {
        let Some(version) = self.catalog.tables.get(&table) else { return };
        if written & (bits::INSERT | bits::UPDATE) != 0 {
            for constraint in &version.def.constraints {
                if let ConstraintKind::ForeignKey(key) = &constraint.kind {
                    self.add(key.parent, TableMode::RowShare);
                }
            }
        }
        if written & (bits::UPDATE | bits::DELETE) == 0 || depth > MAX_DEPTH {
            return;
        }
        for child in version.def.referenced_by.iter().filter(|child| **child != table) {
            let Some(child_version) = self.catalog.tables.get(child) else { continue };
            let looks =
                |action| matches!(action, ForeignKeyAction::NoAction | ForeignKeyAction::Restrict);
            let follows = child_version.def.constraints.iter().any(|constraint| {
                matches!(&constraint.kind, ConstraintKind::ForeignKey(key)
                    if key.parent == table && !(looks(key.on_delete) && looks(key.on_update)))
            });
            let is_known = self.found.contains(&(*child, TableMode::RowExclusive));
            self.add(*child, if follows { TableMode::RowExclusive } else { TableMode::RowShare });
            if follows && !is_known {
                self.keys(*child, bits::UPDATE | bits::DELETE, depth + 1);
            }
        }
    }

    fn add(&mut self, table: ObjectId, mode: TableMode) {
        if !self.found.contains(&(table, mode)) {
            self.found.push((table, mode));
        }
    }
}

/// A statement that has waited begins again, under a newer view.
pub(crate) fn waited() -> Stop {
    Stop::Error(SqlError::new(WAITED, "a table lock was waited for"))
}

/// Whether a statement is to begin again.
pub(crate) fn is_waited(error: &SqlError) -> bool {
    error.state == WAITED
}
