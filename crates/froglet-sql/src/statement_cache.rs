//! Statements that a session has seen before, so that they are not parsed and planned again.
//!
//! ```text
//!   Query ─ recall ─▶ scan ─▶ shapes   key and fixed literals ──▶ plan with parameters ─▶ run
//!             │ not known                                             ▲
//!             ▼                                                       │ learn: lift.rs
//!           split ──▶ texts            the same text ──▶ its parsed statements
//!             │                                               │
//!             ▼                                               ▼
//!           prepare ▶ plans            the same statement and parameter types ──▶ Prepared
//! ```
//!
//! C1: a shape is used under the catalog that it was planned under, and the settings. Every other
//!     time, and for every text and every value that is not understood, the statement is parsed and
//!     planned as it is written: what is told then, errors too, does not come from here.
//! C2: a shape runs under the text of the moment: pg_stat_activity and positions in errors are of
//!     what the client has sent.
//! C3: nothing is kept at first sight. A text that never comes again costs its scan and a hash.
//!
//! The cache is the session's own: no lock, and a client's texts are its own affair. It is bounded
//! by entries and by bytes of text, to which the size of trees and plans is proportional.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hasher};
use std::pin::pin;
use std::sync::Arc;

use froglet_engine::{ColumnId, ColumnType, Value};
use froglet_schema::SqlType;
use parking_lot::Mutex;

use crate::bind;
use crate::command::{Command, IsolationName};
use crate::lift::{self, Slot};
use crate::literals::{Literal, Scanned};
use crate::parse::ParsedStatement;
use crate::prepared::{CachedPlan, Prepared};
use crate::session::{Block, Session};
use crate::types::zone;

/// The most shapes, and as many texts; and the bytes of their texts together.
const ENTRIES: usize = 64;
const TOTAL_BYTES: usize = 32 << 10;
/// The longest text that is parsed once.
const TEXT_BYTES: usize = 4096;
/// The longest text with a key (strings may be long), and the longest key.
const SCANNED_BYTES: usize = 64 << 10;
/// Shapes of one key that differ in fixed literals or settings.
const VARIANTS: usize = 4;
/// Prepared statements that are kept in case the client sends them again.
const PLANS: usize = 32;

/// What a session has seen.
#[derive(Default)]
pub(crate) struct StatementCache {
    scanned: Scanned,
    shapes: Vec<Shape>,
    /// The catalog of the shapes.
    stamp: u64,
    seen_shapes: Seen,
    texts: Vec<Text>,
    seen_texts: Seen,
    /// Clients that prepare the same text again and again (pgbench -M extended) get the same plan.
    plans: VecDeque<Recent>,
    seen_plans: Seen,
    /// The text that was just looked for has a shape to learn.
    learn: bool,
    clock: u64,
}

/// Statements that differ in the values of literals.
struct Shape {
    hash: u64,
    key: Box<[u8]>,
    used: u64,
    /// `None`: nothing is to be lifted here.
    known: Option<Known>,
}

/// How statements of a shape run.
struct Known {
    slots: Box<[Slot]>,
    command: Arc<Command>,
    params: Arc<[SqlType]>,
    param_types: Arc<[ColumnType]>,
    origins: Arc<[Option<ColumnId>]>,
    plan: Arc<CachedPlan>,
}

/// A text and what it says.
struct Text {
    hash: u64,
    text: Arc<str>,
    used: u64,
    statements: Vec<ParsedStatement>,
}

/// A statement that was prepared a moment ago.
struct Recent {
    oids: Vec<u32>,
    prepared: Arc<Prepared>,
}

/// Hashes of what was seen once, each in its place until another takes it.
#[derive(Default)]
struct Seen(Vec<u32>);

impl Seen {
    const PLACES: usize = 256;

    /// Whether it was seen; from now on it was.
    fn again(&mut self, hash: u64) -> bool {
        self.0.resize(Seen::PLACES, 0);
        let place = &mut self.0[hash as usize % Seen::PLACES];
        let hash = (hash >> 32) as u32;
        std::mem::replace(place, hash) == hash
    }
}

fn hash_of(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}

/// The place of what was used least recently, if there is too much of it.
fn surplus<T>(all: &[T], bytes: usize, size: impl Fn(&T) -> (usize, u64)) -> Option<usize> {
    let total: usize = all.iter().map(|one| size(one).0).sum();
    let full = all.len() >= ENTRIES || total + bytes > TOTAL_BYTES;
    let oldest = || (0..all.len()).min_by_key(|at| size(&all[*at]).1);
    full.then(oldest).flatten()
}

impl StatementCache {
    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        *self = StatementCache::default();
    }

    /// Whether the statement of the text that was just looked for has a shape to learn.
    pub(crate) fn learns(&self) -> bool {
        self.learn
    }

    /// The statements of a text, if they are known.
    pub(crate) fn parsed(&mut self, text: &str) -> Option<&[ParsedStatement]> {
        let hash = hash_of(text.as_bytes());
        let known = self.texts.iter_mut().find(|one| one.hash == hash && *one.text == *text)?;
        self.clock += 1;
        known.used = self.clock;
        Some(&known.statements)
    }

    /// Keeps the statements of a text that was not known.
    pub(crate) fn keep_parsed(&mut self, text: &str, statements: &[ParsedStatement]) {
        let Some(first) = statements.first().filter(|_| text.len() <= TEXT_BYTES) else { return };
        let hash = hash_of(text.as_bytes());
        if !self.seen_texts.again(hash) {
            return;
        }
        while let Some(at) = surplus(&self.texts, text.len(), |one| (one.text.len(), one.used)) {
            self.texts.swap_remove(at);
        }
        self.clock += 1;
        self.texts.push(Text {
            hash,
            text: first.source.clone(),
            used: self.clock,
            statements: statements.to_vec(),
        });
    }

    /// A statement that was prepared with these parameter types a moment ago.
    pub(crate) fn prepared(
        &self,
        statement: &ParsedStatement,
        oids: &[u32],
    ) -> Option<&Arc<Prepared>> {
        let same =
            |known: &&Recent| known.oids == oids && *known.prepared.statement.sql == *statement.sql;
        self.plans.iter().find(same).map(|known| &known.prepared)
    }

    /// Keeps a prepared statement.
    pub(crate) fn keep_prepared(&mut self, prepared: &Arc<Prepared>, oids: &[u32]) {
        let sql = &*prepared.statement.sql;
        let plannable = bind::plannable(&prepared.statement.command);
        if !plannable || sql.len() > TEXT_BYTES || lift::names_moment(sql) {
            return;
        }
        if !self.seen_plans.again(hash_of(sql.as_bytes())) {
            return;
        }
        self.plans.retain(|known| known.oids != oids || *known.prepared.statement.sql != *sql);
        if self.plans.len() >= PLANS {
            self.plans.pop_front();
        }
        self.plans.push_back(Recent { oids: oids.to_vec(), prepared: prepared.clone() });
    }

    /// The place of a text's shape. Its literals are left in `scanned`.
    fn find(&mut self, text: &str, good: impl Fn(&CachedPlan) -> bool) -> Option<usize> {
        if text.len() > SCANNED_BYTES {
            return None;
        }
        self.scanned.scan(text)?;
        let Scanned { key, literals } = &self.scanned;
        if literals.is_empty() || key.len() > TEXT_BYTES {
            return None;
        }
        let mut hash = hash_of(key);
        let mut other = None;
        for (at, shape) in self.shapes.iter().enumerate() {
            if shape.hash != hash || *shape.key != **key {
                continue;
            }
            let known = shape.known.as_ref()?;
            if known.has_fixed(literals, text) && good(&known.plan) {
                return Some(at);
            }
            other = Some(known);
        }
        if let Some(known) = other {
            hash ^= known.hash_of_fixed(literals, text);
        }
        self.learn = self.seen_shapes.again(hash);
        None
    }

    /// Keeps what was learnt about a shape; `None`, if nothing of it is to be lifted.
    fn keep_shape(&mut self, key: Vec<u8>, known: Option<Known>) {
        let hash = hash_of(&key);
        let mine = |shape: &Shape| shape.hash == hash && *shape.key == *key;
        if self.shapes.iter().filter(|shape| mine(shape)).count() >= VARIANTS {
            let places = (0..self.shapes.len()).filter(|at| mine(&self.shapes[*at]));
            if let Some(at) = places.min_by_key(|at| self.shapes[*at].used) {
                self.shapes.swap_remove(at);
            }
        }
        while let Some(at) = surplus(&self.shapes, key.len(), |one| (one.key.len(), one.used)) {
            self.shapes.swap_remove(at);
        }
        self.clock += 1;
        self.shapes.push(Shape { hash, key: key.into(), used: self.clock, known });
    }
}

impl Known {
    fn has_fixed(&self, literals: &[Literal], text: &str) -> bool {
        debug_assert_eq!(
            self.slots.len(),
            literals.len(),
            "a key has as many literals as its shape"
        );
        self.slots.iter().zip(literals).all(|(slot, literal)| match slot {
            Slot::Fixed(written) => **written == text[literal.start..literal.end],
            Slot::Own { .. } | Slot::Assigned { .. } => true,
        })
    }

    fn hash_of_fixed(&self, literals: &[Literal], text: &str) -> u64 {
        let mut hasher = DefaultHasher::new();
        for (slot, literal) in self.slots.iter().zip(literals) {
            if matches!(slot, Slot::Fixed(_)) {
                hasher.write(&text.as_bytes()[literal.start..literal.end]);
                hasher.write_u8(0);
            }
        }
        hasher.finish()
    }

    /// The values of a text's parameters; `None` if one has no value of its parameter's type.
    fn values(&self, literals: &[Literal], text: &str) -> Option<Vec<Value>> {
        let mut values = Vec::with_capacity(self.params.len());
        for (slot, literal) in self.slots.iter().zip(literals) {
            if !matches!(slot, Slot::Fixed(_)) {
                values.push(slot.value(literal, text)?);
            }
        }
        Some(values)
    }

    /// The statement of this text.
    fn statement(&self, text: &str) -> Prepared {
        let sql: Arc<str> = Arc::from(text);
        Prepared {
            statement: ParsedStatement {
                command: self.command.clone(),
                source: sql.clone(),
                sql,
                offset: 0,
            },
            params: self.params.clone(),
            param_types: self.param_types.clone(),
            undetermined: None,
            fields: self.plan.plan.fields().cloned(),
            inner: None,
            origins: self.origins.clone(),
            lifted: true,
            plan: Mutex::new(Some(self.plan.clone())),
        }
    }
}

impl Session {
    /// A text of the simple protocol whose statement was seen before with other values of its
    /// literals: the statement and these values, to be run. `None` if it has to be split.
    pub fn recall(&mut self, text: &str) -> Option<(Arc<Prepared>, Vec<Value>)> {
        self.cache.learn = false;
        if !self.settings.hot().plan_cache
            || self.block == Block::Failed
            || !self.sees_newest_catalog()
        {
            return None;
        }
        let stamp = self.db.catalog().latest().stamp;
        if self.cache.stamp != stamp {
            self.cache.shapes.clear();
            self.cache.stamp = stamp;
        }
        let settings = &self.settings;
        let at = self.cache.find(text, |plan| bind::plan_still_good(plan, stamp, settings))?;
        self.cache.clock += 1;
        self.cache.shapes[at].used = self.cache.clock;
        let known = self.cache.shapes[at].known.as_ref()?;
        let values = self.zone().run(|| known.values(&self.cache.scanned.literals, text))?;
        Some((Arc::new(known.statement(text)), values))
    }

    /// Whether a statement is planned under the newest catalog.
    pub(crate) fn sees_newest_catalog(&self) -> bool {
        self.txn.as_ref().is_none_or(|txn| txn.moves() && txn.extension.is_none())
            && self.settings.hot().as_of.is_none()
            && self.isolation_name() != IsolationName::RepeatableRead
    }

    /// After [`Session::recall`] found nothing: the statement of the text, prepared as it is
    /// written, may have a shape to keep.
    pub(crate) async fn learn(&mut self, statement: &ParsedStatement, prepared: &Prepared) {
        let whole = Arc::ptr_eq(&statement.sql, &statement.source);
        let wanted = std::mem::take(&mut self.cache.learn);
        if !wanted || !whole || !self.settings.hot().fast_path {
            return;
        }
        let mut scanned = Scanned::default();
        if scanned.scan(&statement.sql).is_none() {
            return;
        }
        let known = self.known(statement, prepared, &scanned.literals);
        let known = zone::scope(self.zone(), pin!(known)).await;
        self.cache.keep_shape(scanned.key, known);
    }

    async fn known(
        &self,
        statement: &ParsedStatement,
        prepared: &Prepared,
        literals: &[Literal],
    ) -> Option<Known> {
        let written = prepared.plan.lock().clone()?;
        let catalog = self.db.catalog().latest();
        if !bind::plan_still_good(&written, catalog.stamp, &self.settings) {
            return None;
        }
        let lifted = lift::lift(&statement.command, &written.plan, &statement.sql, literals)?;
        let planned =
            bind::plan_now(self, &lifted.command, &statement.sql, &catalog, &lifted.params).await;
        let (plan, params) = planned.ok()?;
        // The one plan has to promise what the other does.
        if plan.short_table().is_none()
            || params != lifted.params
            || plan.fields() != written.plan.fields()
        {
            return None;
        }
        let types = params.iter().map(|ty| bind::param_type(*ty));
        Some(Known {
            slots: lifted.slots.into(),
            command: Arc::new(lifted.command),
            param_types: types.collect::<Result<_, _>>().ok()?,
            params: params.into(),
            origins: prepared.origins.clone(),
            plan: Arc::new(
                CachedPlan::new(plan, catalog.stamp, self.settings.hot())
                    .that_may(self.refusal(&statement.command, &catalog)),
            ),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keep(cache: &mut StatementCache, text: &str) {
        if cache.parsed(text).is_some() {
            return;
        }
        let statements = crate::parse::split(text, &mut Vec::new()).expect("it parses");
        cache.keep_parsed(text, &statements);
    }

    #[test]
    fn a_text_is_kept_at_second_sight() {
        let mut cache = StatementCache::default();
        keep(&mut cache, "SELECT 1");
        assert!(cache.parsed("SELECT 1").is_none());
        keep(&mut cache, "SELECT 1");
        assert_eq!(cache.parsed("SELECT 1").map(<[_]>::len), Some(1));
        assert!(cache.parsed("SELECT 2").is_none());
        cache.clear();
        assert!(cache.parsed("SELECT 1").is_none());
    }

    #[test]
    fn the_cache_is_bounded_and_forgets_what_was_used_least() {
        let mut cache = StatementCache::default();
        let long = "x".repeat(1000);
        for round in 0..200 {
            for _ in 0..2 {
                keep(&mut cache, "BEGIN");
                keep(&mut cache, &format!("SELECT {round}"));
                keep(&mut cache, &format!("SELECT '{long}{round}'"));
                assert!(cache.parsed("BEGIN").is_some() || round == 0);
            }
            cache.keep_shape(format!("{round}").into_bytes(), None);
            cache.keep_shape(b"the same".to_vec(), None);
            assert!(cache.texts.len() <= ENTRIES && cache.shapes.len() <= ENTRIES);
            let bytes: usize = cache.texts.iter().map(|one| one.text.len()).sum();
            assert!(bytes <= TOTAL_BYTES, "{bytes} bytes of text");
        }
        let same = cache.shapes.iter().filter(|shape| *shape.key == *b"the same").count();
        assert_eq!(same, VARIANTS);
        let too_long = "y".repeat(TEXT_BYTES);
        keep(&mut cache, &format!("SELECT '{too_long}'"));
        keep(&mut cache, &format!("SELECT '{too_long}'"));
        assert!(cache.parsed(&format!("SELECT '{too_long}'")).is_none());
    }
}
