//! Two engines as one: the anchor, whose views transactions begin with, and one beside it (Skeena, paper 003, chapter 4).
//!
//! ```text
//!   Transaction ─ JointTxn ─┬─ the anchor's part              from the start
//!                           └─ the part beside                from its first write there
//!   reads      the anchor's view ─ registry ─▶ where the other timeline stands     registry.rs
//!   commit     both timestamps, both halves, one order                             crossing.rs
//!   answer     when both logs are durable up to where they must be
//! ```
//! A row space says where it is by its number ([`SpaceId::home`]). Who has only the anchor's passes straight through: no
//! lock, no registry; at a commit it looks at one flag, whether something over both is not durable yet.

mod crossing;
mod registry;
#[cfg(all(test, shuttle))]
mod schedules;
mod txn;

use std::any::Any;
use std::sync::Arc;

use froglet_engine::crossing::{Anchor, Beside, Crossings, Halves};
use froglet_engine::{
    BlockCounts, ColumnId, Dictionary, Engine, EngineError, EngineFigures, EngineTxn, HeldBack,
    Holder, Home, IndexId, Layout, Lsn, Snapshot, SpaceId, Table, Ts, TxnId, Vacuum,
};

pub use registry::RegistryOptions;

use crossing::Crossing;
use registry::Registry;
use txn::JointTxn;

/// See the module.
pub struct Joint {
    anchor: Arc<dyn Anchor>,
    beside: Arc<dyn Beside>,
    crossing: Arc<Crossing>,
    homes: [Home; 2],
}

impl std::fmt::Debug for Joint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Joint({} and {})", self.anchor.name(), self.beside.home().name())
    }
}

impl Joint {
    /// Joins two engines that have just been opened, and whose logs agree.
    pub fn new(
        anchor: Arc<dyn Anchor>,
        beside: Arc<dyn Beside>,
        options: RegistryOptions,
    ) -> Arc<Joint> {
        let newest = anchor.newest_half().max(beside.newest_half());
        let registry = Registry::new(options, anchor.now(), beside.now());
        let crossing = Arc::new(Crossing::new(Arc::clone(&anchor), &beside, registry, newest));
        beside.join(Arc::clone(&crossing) as Arc<dyn Crossings>);
        let halves: Arc<dyn Halves> = Arc::clone(&crossing) as Arc<dyn Halves>;
        anchor.set_halves(Arc::downgrade(&halves));
        // What was released at the anchor was to be released beside.
        let keepers = anchor.keepers();
        for held in beside.held_back() {
            if let Holder::Keeper(keeper) = held.holder
                && !keepers.contains(&keeper)
                && let Err(error) = beside.release(keeper)
            {
                tracing::warn!(%error, keeper, "what is kept on disk is not released");
            }
        }
        let homes = [Home::Memory, beside.home()];
        Arc::new(Joint { anchor, beside, crossing, homes })
    }

    /// Drops something beside, when the anchor's log has why: a crash must not leave the catalog with what is not there.
    fn drop_beside(&self, drop_it: impl FnOnce(&dyn Beside) + Send + 'static) {
        let beside = Arc::downgrade(&self.beside);
        let done = move |outcome: Result<(), EngineError>| {
            if let (Ok(()), Some(beside)) = (outcome, beside.upgrade()) {
                drop_it(&*beside);
            }
        };
        self.anchor.when_durable(self.anchor.appended(), Box::new(done));
    }

    fn is_beside(&self, space: SpaceId) -> bool {
        space.home() == self.beside.home()
    }
}

impl Engine for Joint {
    fn name(&self) -> &'static str {
        self.anchor.name()
    }

    fn homes(&self) -> &[Home] {
        &self.homes
    }

    fn create_space(&self, space: SpaceId) -> Result<(), EngineError> {
        if !self.is_beside(space) {
            return self.anchor.create_space(space);
        }
        // Not between two halves: what is logged at the anchor because of it is behind the anchor's half then, too.
        self.crossing.enter();
        let made = self.beside.create_space(space);
        self.crossing.leave();
        made
    }

    fn drop_space(&self, space: SpaceId) {
        match self.is_beside(space) {
            true => self.drop_beside(move |beside| beside.drop_space(space)),
            false => self.anchor.drop_space(space),
        }
    }

    fn spaces(&self) -> Vec<SpaceId> {
        let mut spaces = self.anchor.spaces();
        spaces.extend(self.beside.spaces());
        spaces
    }

    fn open(&self, space: SpaceId, layout: Arc<Layout>) -> Result<Arc<dyn Table>, EngineError> {
        match self.is_beside(space) {
            true => self.beside.open(space, layout),
            false => self.anchor.open(space, layout),
        }
    }

    fn drop_column(&self, space: SpaceId, column: ColumnId) {
        match self.is_beside(space) {
            true => self.drop_beside(move |beside| beside.drop_column(space, column)),
            false => self.anchor.drop_column(space, column),
        }
    }

    fn retain_indexes(&self, space: SpaceId, known: &[IndexId]) {
        match self.is_beside(space) {
            true => self.beside.retain_indexes(space, known),
            false => self.anchor.retain_indexes(space, known),
        }
    }

    fn drop_index(&self, space: SpaceId, index: IndexId) {
        match self.is_beside(space) {
            true => self.drop_beside(move |beside| beside.drop_index(space, index)),
            false => self.anchor.drop_index(space, index),
        }
    }

    fn begin(&self, id: TxnId) -> Box<dyn EngineTxn> {
        Box::new(JointTxn::new(&self.crossing, &self.beside, self.anchor.begin_anchor(id)))
    }

    fn snapshot_for(&self, holder: TxnId) -> Arc<Snapshot> {
        self.anchor.snapshot_for(holder)
    }

    fn onward_snapshot(&self) -> Arc<Snapshot> {
        self.anchor.onward_snapshot()
    }

    fn held_back(&self) -> Vec<HeldBack> {
        // What is kept beside is kept for the same keepers: their pins are told of once, at the anchor's time.
        let mut held = self.anchor.held_back();
        for beside in self.beside.held_back() {
            if let Some(known) = held.iter_mut().find(|held| held.holder == beside.holder) {
                known.spaces.extend(beside.spaces);
            }
        }
        held
    }

    fn fresh(&self, own: TxnId) -> Arc<Snapshot> {
        self.anchor.fresh(own)
    }

    fn now(&self) -> Ts {
        self.anchor.now()
    }

    fn oldest_snapshot(&self) -> Ts {
        self.anchor.oldest_snapshot()
    }

    fn kept(&self, keeper: u64) -> Option<Arc<Snapshot>> {
        let kept = self.anchor.kept(keeper)?;
        let Some((ts, pin)) = self.beside.kept(keeper) else { return Some(kept) };
        let view = Snapshot::new(kept.ts, kept.own, Box::new((kept, pin)));
        view.beside(|| ts);
        Some(Arc::new(view))
    }

    fn keepers(&self) -> Vec<u64> {
        self.anchor.keepers()
    }

    fn release(&self, keeper: u64) -> Result<(), EngineError> {
        self.anchor.release(keeper)?;
        // Beside when the anchor's is durable: a crash must not leave a keeper with what is kept at the anchor only.
        let beside = Arc::downgrade(&self.beside);
        let release = move |outcome: Result<(), EngineError>| {
            if let (Ok(()), Some(beside)) = (outcome, beside.upgrade())
                && let Err(error) = beside.release(keeper)
            {
                tracing::warn!(%error, keeper, "what is kept on disk is released at the next start");
            }
        };
        self.anchor.when_durable(self.anchor.appended(), Box::new(release));
        Ok(())
    }

    fn settle(&self) {
        self.anchor.settle();
    }

    fn barrier(&self) -> Ts {
        self.anchor.barrier()
    }

    fn durable(&self) -> Lsn {
        let durable = self.anchor.durable();
        if !self.crossing.has_pending() {
            return durable;
        }
        let first = self.crossing.pending(|pending| pending.front().map(|p| p.anchor_begin));
        first.map_or(durable, |begin| durable.min(begin))
    }

    fn appended(&self) -> Lsn {
        self.anchor.appended()
    }

    fn durable_ts(&self) -> Ts {
        let durable = self.anchor.durable_ts();
        if !self.crossing.has_pending() {
            return durable;
        }
        let first = self.crossing.pending(|pending| pending.front().map(|p| p.anchor_ts));
        first.map_or(durable, |ts| durable.min(Ts(ts.0 - 1)))
    }

    fn make_durable(&self, lsn: Lsn) -> Result<bool, EngineError> {
        match self.crossing.needed_beside(lsn) {
            None => self.anchor.make_durable(lsn),
            Some(beside) => {
                // Its own thread flushes it meanwhile, if it has one.
                self.beside.when_durable(beside, Box::new(|_| {}));
                let anchor = self.anchor.make_durable(lsn)?;
                Ok(self.beside.make_durable(beside)? && anchor)
            }
        }
    }

    fn when_durable(&self, lsn: Lsn, done: Box<dyn FnOnce(Result<(), EngineError>) + Send>) {
        match self.crossing.needed_beside(lsn) {
            None => self.anchor.when_durable(lsn, done),
            Some(beside) => self.crossing.when_both(lsn, beside, done),
        }
    }

    fn put_note(&self, key: u64, value: &[u8]) -> Result<Lsn, EngineError> {
        self.anchor.put_note(key, value)
    }

    fn notes(&self) -> Vec<(u64, Vec<u8>)> {
        self.anchor.notes()
    }

    fn checkpoint(&self) -> Result<(), EngineError> {
        self.anchor.checkpoint()?;
        self.beside.checkpoint()
    }

    fn freeze(&self, space: SpaceId) -> u64 {
        if self.is_beside(space) { 0 } else { self.anchor.freeze(space) }
    }

    fn vacuum(&self, spaces: &[SpaceId], extent: Vacuum) -> Result<(), EngineError> {
        let (beside, anchor): (Vec<_>, Vec<_>) =
            spaces.iter().partition(|space| self.is_beside(**space));
        self.anchor.vacuum(&anchor, extent)?;
        match beside.is_empty() {
            true => Ok(()),
            false => self.beside.vacuum(&beside, extent),
        }
    }

    fn set_dictionaries(&self, space: SpaceId, choices: Vec<(ColumnId, Dictionary)>) {
        if !self.is_beside(space) {
            self.anchor.set_dictionaries(space, choices);
        }
    }

    fn block_counts(&self, space: SpaceId) -> BlockCounts {
        match self.is_beside(space) {
            true => BlockCounts::default(),
            false => self.anchor.block_counts(space),
        }
    }

    fn figures(&self) -> Vec<EngineFigures> {
        let registry_entries = Some(self.crossing.registry.entries() as u64);
        let mut figures = self.anchor.figures();
        figures.push(EngineFigures { registry_entries, ..self.beside.figures() });
        figures
    }

    fn memory(&self) -> (u64, u64) {
        self.anchor.memory()
    }

    fn borrow_memory(&self, bytes: u64) -> Result<(), EngineError> {
        self.anchor.borrow_memory(bytes)
    }

    fn borrow_memory_anyway(&self, bytes: u64) {
        self.anchor.borrow_memory_anyway(bytes);
    }

    fn return_memory(&self, bytes: u64) {
        self.anchor.return_memory(bytes);
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
