//! A transaction over both engines. Until it writes to the one beside it is the anchor's.

use std::any::Any;
use std::sync::Arc;

use froglet_engine::crossing::{AnchorTxn, Beside, BesideTxn};
use froglet_engine::{
    CrashPoint, EngineError, EngineTxn, Home, LogRoom, Lsn, RowId, Savepoint, Snapshot, SpaceId,
    Ts, TxnId,
};

use super::crossing::{Crossing, Pending};

/// Of the anchor: the space that is kept where only spaces beside are to be.
const ALWAYS_THERE: SpaceId = SpaceId(0);

pub(crate) struct JointTxn {
    crossing: Arc<Crossing>,
    engine: Arc<dyn Beside>,
    /// There until the end.
    anchor: Option<Box<dyn AnchorTxn>>,
    beside: Option<Box<dyn BesideTxn>>,
    /// Writes beside that the anchor's part counts.
    counted: u32,
    /// Between `pre_commit` and the end of a commit over both: the gate is ours, and these are the timestamps.
    pair: Option<(Ts, Ts)>,
    /// It has a timestamp.
    is_prepared: bool,
}

impl JointTxn {
    pub fn new(
        crossing: &Arc<Crossing>,
        engine: &Arc<dyn Beside>,
        anchor: Box<dyn AnchorTxn>,
    ) -> JointTxn {
        JointTxn {
            crossing: Arc::clone(crossing),
            engine: Arc::clone(engine),
            anchor: Some(anchor),
            beside: None,
            counted: 0,
            pair: None,
            is_prepared: false,
        }
    }

    fn anchor(&self) -> &dyn AnchorTxn {
        self.anchor.as_deref().expect("it is there until the end")
    }

    fn anchor_mut(&mut self) -> &mut dyn AnchorTxn {
        self.anchor.as_deref_mut().expect("it is there until the end")
    }

    /// Writes on the anchor.
    fn anchor_writes(&self) -> u32 {
        self.anchor().savepoint().0 - self.counted
    }

    fn writes_beside(&self) -> u32 {
        self.beside.as_ref().map_or(0, |beside| beside.writes())
    }

    /// The anchor's part numbers its next write behind those beside.
    fn count(&mut self) {
        let writes = self.writes_beside();
        if writes != self.counted {
            self.anchor_mut().set_beside(writes);
            self.counted = writes;
        }
    }

    fn start_beside(&mut self) -> Result<&mut Box<dyn BesideTxn>, EngineError> {
        if self.beside.is_none() {
            self.crossing.refuse_if_broken()?;
            self.anchor_mut().cross()?;
            let id = self.anchor().id();
            self.beside = Some(self.engine.begin(id));
        }
        let writes = self.anchor_writes();
        let beside = self.beside.as_mut().expect("begun above");
        beside.set_beside(writes);
        Ok(beside)
    }

    /// Whether it is to commit over both.
    fn crosses(&self) -> bool {
        self.writes_beside() > 0 || self.crossing.is_dependent(self.anchor().id())
    }

    /// The commit under way will not be one.
    fn step_back(&mut self) {
        if let Some(pair) = self.pair.take() {
            self.crossing.registry.take_back(pair);
            self.crossing.leave();
        }
    }

    fn commit_both(&mut self, pair: (Ts, Ts)) -> Result<Lsn, EngineError> {
        let number = self.crossing.next_half();
        let mut anchor = self.anchor.take().expect("it is there until the end");
        let mut beside = self.beside.take().expect("a transaction over both has both parts");
        let logged = anchor.set_half(number).and_then(|()| beside.log(number));
        let beside_lsn = match logged {
            Ok(lsn) => lsn,
            Err(error) => {
                // Nothing is in any log: the number is the next one's.
                beside.abort();
                anchor.abort();
                self.step_back();
                return Err(error);
            }
        };
        self.crossing.push(Pending {
            anchor_ts: pair.0,
            beside_ts: pair.1,
            beside_lsn,
            anchor_begin: self.crossing.anchor.appended(),
            anchor_lsn: None,
        });
        match anchor.post_commit() {
            Ok(lsn) => {
                CrashPoint::HalvesLogged.reached();
                self.crossing.logged(number, lsn);
                self.pair = None;
                self.crossing.leave();
                beside.publish();
                if self.crossing.registry.is_large() {
                    self.crossing.recycle();
                }
                Ok(lsn)
            }
            Err(error) => {
                self.crossing.failed();
                beside.abort();
                self.step_back();
                Err(error)
            }
        }
    }
}

impl EngineTxn for JointTxn {
    fn id(&self) -> TxnId {
        self.anchor().id()
    }

    fn snapshot(&self) -> &Arc<Snapshot> {
        self.anchor().snapshot()
    }

    fn refresh(&mut self) {
        self.anchor_mut().refresh();
    }

    fn savepoint(&self) -> Savepoint {
        Savepoint(self.anchor_writes() + self.writes_beside())
    }

    fn rollback_to(&mut self, to: Savepoint) {
        self.count();
        if let Some(beside) = &mut self.beside {
            beside.rollback_to(to);
        }
        self.anchor_mut().rollback_to(to);
        self.count();
    }

    fn wrote(&self) -> bool {
        self.anchor().wrote() || self.writes_beside() > 0
    }

    fn rows_written(&self, space: SpaceId) -> Vec<RowId> {
        match space.home() {
            Home::Memory | Home::Cluster => self.anchor().rows_written(space),
            Home::Disk => self.beside.as_ref().map_or_else(Vec::new, |b| b.rows_written(space)),
        }
    }

    fn spaces_written(&self) -> Vec<SpaceId> {
        let mut spaces = self.anchor().spaces_written();
        spaces.extend(self.beside.iter().flat_map(|beside| beside.spaces_written()));
        spaces
    }

    fn keep(&mut self, keeper: u64, spaces: &[SpaceId]) -> Result<(), EngineError> {
        let (beside, mut anchor): (Vec<SpaceId>, Vec<SpaceId>) =
            spaces.iter().partition(|space| space.home() == self.engine.home());
        if !beside.is_empty() {
            self.start_beside()?.keep(keeper, &beside)?;
            if anchor.is_empty() {
                self.crossing.anchor.create_space(ALWAYS_THERE)?;
                anchor.push(ALWAYS_THERE);
            }
        }
        self.count();
        self.anchor_mut().keep(keeper, &anchor)
    }

    fn reserve_log(&mut self) -> Result<LogRoom, EngineError> {
        if self.crosses() {
            // Always in this order: who has room in one log waits for the other's, and nobody the other way round.
            if let LogRoom::Wait(room) = self.start_beside()?.reserve_log()? {
                return Ok(LogRoom::Wait(room));
            }
        }
        self.anchor_mut().reserve_log()
    }

    fn pre_commit(&mut self) -> Ts {
        self.is_prepared = true;
        if !self.crosses() || self.beside.is_none() {
            return self.anchor_mut().pre_commit();
        }
        self.crossing.enter();
        let crossing = Arc::clone(&self.crossing);
        let anchor = self.anchor.as_mut().expect("it is there until the end");
        let beside = self.beside.as_mut().expect("its log was reserved");
        let pair = crossing.registry.enter(|| (anchor.pre_commit(), beside.pre_commit()));
        self.pair = Some(pair);
        pair.0
    }

    fn retreat(&mut self) {
        if self.pair.is_some() {
            self.beside.as_mut().expect("it has a timestamp").retreat();
        }
        self.is_prepared = false;
        self.anchor_mut().retreat();
        self.step_back();
    }

    fn post_commit(mut self: Box<Self>) -> Result<Lsn, EngineError> {
        if !self.is_prepared {
            self.pre_commit();
        }
        self.crossing.forget(self.anchor().id());
        match self.pair {
            Some(pair) => self.commit_both(pair),
            None => self.anchor.take().expect("it is there until the end").post_commit(),
        }
    }

    fn abort(self: Box<Self>) {
        drop(self);
    }

    fn beside(&mut self) -> Result<&mut dyn Any, EngineError> {
        Ok(self.start_beside()?.as_any_mut())
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self.count();
        self.anchor_mut().as_any_mut()
    }
}

impl Drop for JointTxn {
    fn drop(&mut self) {
        if let Some(beside) = self.beside.take() {
            beside.abort();
        }
        if let Some(anchor) = self.anchor.take() {
            self.crossing.forget(anchor.id());
            anchor.abort();
        }
        self.step_back();
    }
}
