//! Cursors of SQL: DECLARE, FETCH, MOVE, CLOSE.
//!
//! ```text
//!   position   0        1 … n      n + 1
//!              before   a row      after the last
//!
//!   stream ──▶ kept rows ──▶ FETCH        SCROLL keeps every row that the stream has given,
//!                                         others forget what they have passed
//!   COMMIT     WITH HOLD: the stream's rest is kept, the stream goes;  others: closed
//! ```
//!
//! A cursor's query runs as far as rows are asked for, under the read view of its DECLARE. Names
//! are shared with the portals of the protocol, of which the session knows the names only.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use compact_str::format_compact;
use froglet_engine::{SqlState, Ts, Value};
use parking_lot::Mutex;

use crate::context::CursorRow;
use crate::cursor_parse::{CursorOptions, Direction};
use crate::error::SqlError;
use crate::prepared::{Field, Prepared};
use crate::session::{Block, Session};
use crate::stream::{Outcome, RowStream, Rows, TagKind};
use crate::types::datetime::now_us;

/// An open cursor.
pub(crate) struct SqlCursor {
    statement: Arc<str>,
    options: CursorOptions,
    fields: Arc<[Field]>,
    /// Where rows come from; nothing, when all of them are kept. Never contended: the lock only
    /// lets a session be looked at from several threads.
    stream: Mutex<Option<RowStream>>,
    /// The newest possibly undurable commit that the rows which have come rest on.
    seen: Ts,
    kept: VecDeque<Rows>,
    /// Rows before those kept.
    passed: u64,
    at: u64,
    /// It belongs to no transaction any more.
    held: bool,
    serial: u64,
    created_us: i64,
}

/// A session's cursors by name, and what it knows of the protocol's portals.
#[derive(Default)]
pub(crate) struct Cursors {
    open: HashMap<String, SqlCursor>,
    portals: HashSet<String>,
    serial: u64,
}

impl Cursors {
    /// Later cursors have a greater serial number.
    pub(crate) fn mark(&self) -> u64 {
        self.serial
    }

    pub(crate) fn clear(&mut self) {
        self.open.clear();
    }

    /// For pg_cursors.
    pub(crate) fn rows(&self) -> Vec<CursorRow> {
        let row = |(name, cursor): (&String, &SqlCursor)| CursorRow {
            name: name.clone(),
            statement: cursor.statement.to_string(),
            holdable: cursor.options.hold,
            binary: cursor.options.binary,
            scrollable: cursor.options.scroll,
            created_us: cursor.created_us,
        };
        self.open.iter().map(row).collect()
    }

    fn get_mut(&mut self, name: &str) -> Result<&mut SqlCursor, SqlError> {
        self.open.get_mut(name).ok_or_else(|| no_cursor(name))
    }
}

pub(crate) fn no_cursor(name: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_CURSOR_NAME, format!("cursor \"{name}\" does not exist"))
}

fn only_forward() -> SqlError {
    SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, "cursor can only scan forward")
        .hint("Declare it with SCROLL option to enable backward scan.")
}

impl SqlCursor {
    /// Rows that have come out of the stream.
    fn known(&self) -> u64 {
        self.passed + self.kept.iter().map(|rows| rows.len() as u64).sum::<u64>()
    }

    /// The rows that hold a position, and where in them it is; `None` after the last.
    async fn find(&mut self, position: u64) -> Result<Option<(usize, usize)>, SqlError> {
        loop {
            let mut offset = position - self.passed - 1;
            for (at, rows) in self.kept.iter().enumerate() {
                match offset.checked_sub(rows.len() as u64) {
                    None => return Ok(Some((at, offset as usize))),
                    Some(rest) => offset = rest,
                }
            }
            if !self.pull().await? {
                return Ok(None);
            }
        }
    }

    /// Takes more rows from the stream; false where there are none.
    async fn pull(&mut self) -> Result<bool, SqlError> {
        let place = self.stream.get_mut();
        let Some(stream) = place else { return Ok(false) };
        let next = stream.next().await;
        self.seen = self.seen.max(stream.seen());
        match next {
            Some(rows) => {
                self.kept.push_back(rows?);
                Ok(true)
            }
            None => {
                *place = None;
                Ok(false)
            }
        }
    }

    /// What lies behind a cursor that cannot go back is forgotten.
    fn forget(&mut self) {
        while !self.options.scroll
            && let Some(rows) = self.kept.front()
            && self.passed + rows.len() as u64 <= self.at
        {
            self.passed += rows.len() as u64;
            self.kept.pop_front();
        }
    }

    /// Goes over at most so many rows; with `out` they are kept for the client.
    async fn forward(
        &mut self,
        count: u64,
        mut out: Option<&mut Vec<Rows>>,
    ) -> Result<u64, SqlError> {
        let mut moved = 0;
        while moved < count {
            let next = self.at.max(self.passed) + 1;
            let Some((chunk, offset)) = self.find(next).await? else {
                self.at = self.known() + 1;
                break;
            };
            let rows = &self.kept[chunk];
            let length = (count - moved).min((rows.len() - offset) as u64);
            if let Some(out) = &mut out {
                out.push(rows.slice(offset, length as usize));
            }
            self.at += length;
            moved += length;
            self.forget();
        }
        Ok(moved)
    }

    async fn backward(
        &mut self,
        count: u64,
        mut out: Option<&mut Vec<Rows>>,
    ) -> Result<u64, SqlError> {
        if !self.options.scroll {
            return Err(only_forward());
        }
        let mut moved = 0;
        while moved < count && self.at > 1 {
            let Some((chunk, offset)) = self.find(self.at - 1).await? else { break };
            if let Some(out) = &mut out {
                out.push(self.kept[chunk].slice(offset, 1));
            }
            self.at -= 1;
            moved += 1;
        }
        if moved < count {
            self.at = 0;
        }
        Ok(moved)
    }

    /// To the row at a position, or to where it would be.
    async fn absolute(&mut self, to: i64, out: Option<&mut Vec<Rows>>) -> Result<u64, SqlError> {
        let to = match u64::try_from(to) {
            Ok(to) => to,
            Err(_) if !self.options.scroll => return Err(only_forward()),
            Err(_) => {
                self.forward(u64::MAX, None).await?;
                (self.known() + 1).saturating_sub(to.unsigned_abs())
            }
        };
        if to <= self.at && self.at > 0 {
            if !self.options.scroll {
                return Err(only_forward());
            }
            self.at = to.saturating_sub(1);
        }
        if to == 0 {
            return Ok(0);
        }
        let between = to - self.at - 1;
        match self.forward(between, None).await? {
            moved if moved < between => Ok(0),
            _ => self.forward(1, out).await,
        }
    }

    async fn relative(&mut self, by: i64, out: Option<&mut Vec<Rows>>) -> Result<u64, SqlError> {
        let distance = by.unsigned_abs();
        match by {
            0 => self.again(out).await,
            1.. => match self.forward(distance - 1, None).await? {
                moved if moved < distance - 1 => Ok(0),
                _ => self.forward(1, out).await,
            },
            _ => match self.backward(distance - 1, None).await? {
                moved if moved < distance - 1 => Ok(0),
                _ => self.backward(1, out).await,
            },
        }
    }

    /// The row the cursor stands on.
    async fn again(&mut self, out: Option<&mut Vec<Rows>>) -> Result<u64, SqlError> {
        if self.at == 0 || self.at > self.known() {
            return Ok(0);
        }
        let Some(out) = out else { return Ok(1) };
        if !self.options.scroll {
            return Err(only_forward());
        }
        if let Some((chunk, offset)) = self.find(self.at).await? {
            out.push(self.kept[chunk].slice(offset, 1));
        }
        Ok(1)
    }

    async fn go(
        &mut self,
        direction: Direction,
        out: Option<&mut Vec<Rows>>,
    ) -> Result<u64, SqlError> {
        match direction {
            Direction::Forward(0) => self.again(out).await,
            Direction::Forward(count @ 1..) => self.forward(count.unsigned_abs(), out).await,
            Direction::Forward(count) => self.backward(count.unsigned_abs(), out).await,
            Direction::ForwardAll => self.forward(u64::MAX, out).await,
            Direction::BackwardAll => self.backward(u64::MAX, out).await,
            Direction::Absolute(to) => self.absolute(to, out).await,
            Direction::Relative(by) => self.relative(by, out).await,
        }
    }

    /// Keeps what is left of the stream, so that the transaction may end.
    async fn hold(&mut self) -> Result<(), SqlError> {
        while self.pull().await? {}
        self.held = true;
        Ok(())
    }
}

/// DECLARE
pub(crate) async fn declare(
    session: &mut Session,
    prepared: &Prepared,
    name: &str,
    options: &CursorOptions,
    params: Vec<Value>,
) -> Result<Outcome, SqlError> {
    if name.is_empty() {
        return Err(SqlError::new(
            SqlState::INVALID_CURSOR_NAME,
            "invalid cursor name: must not be empty",
        ));
    }
    if session.block != Block::Explicit && !options.hold {
        return Err(SqlError::new(
            SqlState::NO_ACTIVE_SQL_TRANSACTION,
            "DECLARE CURSOR can only be used in transaction blocks",
        ));
    }
    if session.cursors.open.contains_key(name) || session.cursors.portals.contains(name) {
        return Err(duplicate(name));
    }
    let inner = prepared.inner.as_ref().ok_or_else(|| {
        SqlError::new(SqlState::INTERNAL_ERROR, "a cursor was prepared without its query")
    })?;
    // The query goes on after this statement, whose timeout is not its own.
    session.unlimited = true;
    let outcome = Box::pin(crate::execute::run(session, inner, params)).await;
    session.unlimited = false;
    let Outcome::Rows(stream) = outcome? else {
        return Err(SqlError::unsupported("a cursor over this statement"));
    };
    session.cursors.serial += 1;
    let cursor = SqlCursor {
        statement: prepared.statement.sql.clone(),
        options: options.clone(),
        fields: stream.fields().clone(),
        stream: Mutex::new(Some(stream)),
        seen: Ts(0),
        kept: VecDeque::new(),
        passed: 0,
        at: 0,
        held: false,
        serial: session.cursors.serial,
        created_us: now_us(),
    };
    session.cursors.open.insert(name.to_owned(), cursor);
    session.publish_cursors();
    Ok(Outcome::Done("DECLARE CURSOR".into()))
}

/// FETCH and MOVE
pub(crate) async fn fetch(
    session: &mut Session,
    prepared: &Prepared,
    name: &str,
    direction: Direction,
    moves: bool,
) -> Result<Outcome, SqlError> {
    let limits = session.limits();
    let cursor = session.cursors.get_mut(name)?;
    if let Some(described) = prepared.fields.as_ref().filter(|_| !moves)
        && **described != *cursor.fields
    {
        return Err(SqlError::new(
            SqlState::FEATURE_NOT_SUPPORTED,
            "cached plan must not change result type",
        ));
    }
    let mut rows = Vec::new();
    let work = cursor.go(direction, if moves { None } else { Some(&mut rows) });
    let count = tokio::select! {
        biased;
        e = limits.exceeded() => return Err(e.into()),
        count = work => count?,
    };
    session.seen = session.seen.max(cursor.seen);
    if moves {
        return Ok(Outcome::Done(format_compact!("MOVE {count}")));
    }
    let fields = cursor.fields.clone();
    let stream = RowStream::chunks(fields, rows, TagKind::Fetch, cursor.options.binary);
    Ok(Outcome::Rows(stream))
}

/// CLOSE
pub(crate) fn close(session: &mut Session, name: Option<&str>) -> Result<Outcome, SqlError> {
    let tag = match name {
        None => {
            session.cursors.clear();
            "CLOSE CURSOR ALL"
        }
        Some(name) => {
            session.cursors.open.remove(name).ok_or_else(|| no_cursor(name))?;
            "CLOSE CURSOR"
        }
    };
    session.publish_cursors();
    Ok(Outcome::Done(tag.into()))
}

/// 42P03
fn duplicate(name: &str) -> SqlError {
    SqlError::new(SqlState::DUPLICATE_CURSOR, format!("cursor \"{name}\" already exists"))
}

impl Session {
    /// The result of a cursor, and whether it was declared BINARY; 34000 if there is none.
    pub fn cursor(&self, name: &str) -> Option<(&Arc<[Field]>, bool)> {
        let cursor = self.cursors.open.get(name)?;
        Some((&cursor.fields, cursor.options.binary))
    }

    /// A portal of the protocol takes this name; 42P03 where a cursor has it.
    pub fn name_portal(&mut self, name: &str) -> Result<(), SqlError> {
        if self.cursors.open.contains_key(name) {
            return Err(duplicate(name));
        }
        self.cursors.portals.insert(name.to_owned());
        Ok(())
    }

    /// The protocol closes what has this name.
    pub fn close_portal(&mut self, name: &str) {
        self.cursors.portals.remove(name);
        if self.cursors.open.remove(name).is_some() {
            self.publish_cursors();
        }
    }

    /// The protocol has closed all its portals.
    pub fn forget_portals(&mut self) {
        self.cursors.portals.clear();
    }

    pub(crate) fn has_cursors(&self) -> bool {
        !self.cursors.open.is_empty()
    }

    /// Before a commit: what is to outlive it is read to its end.
    pub(crate) async fn hold_cursors(&mut self) -> Result<(), SqlError> {
        let limits = self.limits();
        for cursor in self.cursors.open.values_mut() {
            if cursor.options.hold && !cursor.held {
                tokio::select! {
                    biased;
                    e = limits.exceeded() => return Err(e.into()),
                    held = cursor.hold() => held?,
                }
            }
        }
        Ok(())
    }

    /// A rollback to a savepoint closes what was declared after it, a transaction's end all that
    /// is not held.
    pub(crate) fn close_cursors_since(&mut self, mark: u64) {
        let open = &mut self.cursors.open;
        let before = open.len();
        open.retain(|_, cursor| cursor.held || cursor.serial <= mark);
        if open.len() < before {
            self.publish_cursors();
        }
    }

    pub(crate) fn publish_cursors(&mut self) {
        self.state.set_cursors(self.cursors.rows());
    }
}
