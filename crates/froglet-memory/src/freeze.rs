//! Freezing: columns of a block that nobody writes to become Arrow arrays, and hot again on demand.
//!
//! ```text
//!            freezer: look for links                    freezer: publish
//!    hot ─────────────────────────────▶ cooling ────────────────────────▶ frozen
//!     ▲                                    │                                 │
//!     │◀───────────────────────────────────┘ a writer: the freezer gives up  │
//!     └◀─────────────────────────────────────────────────────────────────────┘
//!         a writer: thaws the columns that it stores to, by copying them
//! ```
//!
//! After "Mainlining Databases" (VLDB 2021), section 4.3, with two differences. The paper's freezer takes
//! a block exclusively once no thread can be between looking at the flag and writing; ours needs no
//! such grace period, because a writer links its undo record first and looks at the flag then. And the
//! paper's writers wait for readers in place; ours copy the column, and leave the array to who reads it.
//!
//! ```text
//!   writer:   link (counts it) ─ look at `life`: cooling? hot again  ─ a column frozen? thaw ─ store
//!   freezer:  life := cooling ─ nothing linked? ─ arrays ─ still cooling, same count? publish, frozen
//! ```
//!
//! **[F1]** Nothing is stored to a frozen column. Both sides are sequentially consistent: a freezer that finds
//! nothing linked after it has said "cooling" is seen by every writer that links later, and whoever
//! linked earlier has been collected, so has stored. What is stored without a link (fills, installs) is
//! stored under the block's migration latch, which a freezer holds; and the collector forgets strings
//! under the latch of their heap, in a column whose cells are not shared.
//! **[F2]** Who reads takes his timestamp before he looks for columns. So what he is to see was stored in
//! the columns that he finds: a version that is committed later, in a thawed one, is not his.
//! **[F3]** A frozen column found so has for every row that a view sees the value that the view sees: since it
//! was frozen nobody has changed it, and before that there was one version, for everybody.
//! **[F4]** A frozen column has every row that is there: how many rows were handed out is asked after nothing was
//! found linked, and a row's id is taken before its record is linked.
//! So a scan hands the array out, whatever is linked, if the view sees just the first rows of it.

use std::sync::Arc;

use crossbeam_epoch::Guard;
use froglet_engine::EngineError;

use crate::block::Block;
use crate::column::{Column, Found, Freezing};
use crate::sync::atomic::Ordering;

/// What `Block::life` says.
pub(crate) mod life {
    /// No column is frozen.
    pub const HOT: u8 = 0;
    /// A freezer is at work.
    pub const COOLING: u8 = 1;
    /// Some columns are frozen.
    pub const FROZEN: u8 = 2;
}

/// What became of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attempt {
    /// So many columns were frozen.
    Frozen(usize),
    /// There are versions, or there were meanwhile.
    Busy,
}

impl Block {
    /// Freezes the hot columns, for as many rows as `rows` says.
    pub fn freeze(
        &self,
        rows: impl Fn() -> usize,
        freezing: &Freezing<'_>,
    ) -> Result<Attempt, EngineError> {
        let guard = freezing.guard;
        let Some(_latch) = self.migration.try_lock() else { return Ok(Attempt::Busy) };
        self.life.store(life::COOLING, Ordering::SeqCst);
        let version = self.version_after_all();
        // [F4]
        let rows = rows();
        let frozen = match Block::nothing_linked(version) {
            true => self.frozen_columns(rows, freezing),
            false => Ok(None),
        };
        let mut published = Vec::new();
        let growing = self.growth.lock();
        let is_undisturbed = self.life.load(Ordering::SeqCst) == life::COOLING
            && self.version_after_all() == version;
        let mut attempt = Ok(Attempt::Busy);
        match frozen {
            Ok(Some(frozen)) if is_undisturbed => {
                assert!(self.rows_present() <= rows, "a row is behind the {rows} frozen ones");
                attempt = Ok(Attempt::Frozen(frozen.len()));
                self.change_latched(&growing, guard, |columns| replace(columns, &frozen));
                published = frozen;
            }
            Ok(_) => {}
            Err(error) => attempt = Err(error),
        }
        self.settle_life(guard);
        drop(growing);
        // Now nobody stores to these cells.
        let frozen = published.iter().map(|(_, frozen)| frozen);
        frozen.filter(|column| column.heap().is_none()).for_each(|column| _ = column.stats());
        attempt
    }

    /// Whether every column is frozen.
    pub fn is_frozen(&self, guard: &Guard) -> bool {
        self.directory(guard).columns().iter().all(|column| column.frozen().is_some())
    }

    /// Those columns frozen that are hot, each with what it is made of. None if they are no longer
    /// wanted.
    #[allow(clippy::type_complexity)]
    fn frozen_columns(
        &self,
        rows: usize,
        freezing: &Freezing<'_>,
    ) -> Result<Option<Vec<(Arc<Column>, Arc<Column>)>>, EngineError> {
        let mut frozen = Vec::new();
        for column in
            self.directory(freezing.guard).columns().iter().filter(|c| c.frozen().is_none())
        {
            if self.life.load(Ordering::Relaxed) != life::COOLING {
                return Ok(None);
            }
            frozen.push((Arc::clone(column), Arc::new(column.freeze(rows, freezing)?)));
        }
        Ok(Some(frozen))
    }

    /// Under the latch `growth`: says what there is.
    pub fn settle_life(&self, guard: &Guard) {
        let is_frozen = self.directory(guard).columns().iter().any(|c| c.frozen().is_some());
        let life = if is_frozen { life::FROZEN } else { life::HOT };
        self.life.store(life, Ordering::SeqCst);
    }

    /// Whether `columns` may be stored to as they are. They were found before a record was linked,
    /// and this is asked after it.
    #[inline]
    fn is_hot(&self, columns: &[Found<'_>], guard: &Guard) -> bool {
        // A column that was found long ago may have been frozen and thawed since: then it is another.
        let is_current = |found: &Found<'_>| {
            let now = self.directory(guard).find(found.wanted.id, found.wanted.hint);
            now.map(Arc::as_ptr) == found.column.map(std::ptr::from_ref)
        };
        self.life.load(Ordering::SeqCst) == life::HOT && columns.iter().all(is_current)
    }

    /// For a writer that has linked a record: finds its columns again, and thaws those that are frozen
    /// [F1]. A column that was dropped meanwhile stays as it was found, if it was hot; nobody drops one that
    /// a writer may have in his layout.
    #[inline]
    pub fn heat<'g>(&'g self, columns: &mut [Found<'g>], guard: &'g Guard) {
        if !self.is_hot(columns, guard) {
            self.heat_columns(|id| columns.iter().any(|found| found.wanted.id == id), guard);
            let directory = self.directory(guard);
            for found in columns {
                let column = directory.find(found.wanted.id, found.wanted.hint);
                let gone = found.column.filter(|column| column.frozen().is_none());
                found.column = column.map(Arc::as_ref).or(gone);
            }
        }
    }

    /// The same for every column.
    #[inline]
    pub fn heat_all(&self, guard: &Guard) {
        if self.life.load(Ordering::SeqCst) != life::HOT {
            self.heat_columns(|_| true, guard);
        }
    }

    /// Whether there is the memory to thaw those of these columns that are frozen: asked before a record is
    /// linked, for then there is no way back.
    #[inline]
    pub fn admit_heat(
        &self,
        is_wanted: impl Fn(froglet_engine::ColumnId) -> bool,
        guard: &Guard,
    ) -> Result<(), EngineError> {
        if self.life.load(Ordering::Relaxed) != life::FROZEN {
            return Ok(());
        }
        let columns = self.directory(guard).columns().iter();
        let to_thaw = columns.filter(|column| column.frozen().is_some() && is_wanted(column.id));
        let rows = self.reserved();
        self.admit(to_thaw.map(|column| Column::bytes_for(column.ty, rows)).sum())
    }

    /// Thaws those of the columns that are frozen. Whoever calls has linked a record, or holds the
    /// migration latch.
    #[cold]
    pub fn heat_columns(
        &self,
        is_wanted: impl Fn(froglet_engine::ColumnId) -> bool,
        guard: &Guard,
    ) {
        let to_thaw = |column: &&Arc<Column>| column.frozen().is_some() && is_wanted(column.id);
        if self.life.load(Ordering::SeqCst) == life::FROZEN
            && !self.directory(guard).columns().iter().any(|column| to_thaw(&column))
        {
            return;
        }
        let growing = self.growth.lock();
        let frozen = self.directory(guard).columns().iter().filter(to_thaw);
        let thawed: Vec<_> =
            frozen.map(|column| (Arc::clone(column), Arc::new(self.thaw(column, guard)))).collect();
        if !thawed.is_empty() {
            self.change_latched(&growing, guard, |columns| replace(columns, &thawed));
        }
        self.settle_life(guard);
    }
}

/// Puts columns in the place of others that are still there.
fn replace(columns: &mut [Arc<Column>], by: &[(Arc<Column>, Arc<Column>)]) {
    for column in columns {
        if let Some((_, new)) = by.iter().find(|(old, _)| Arc::ptr_eq(old, column)) {
            *column = Arc::clone(new);
        }
    }
}
