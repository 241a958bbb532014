//! Row spaces that a schema change closes for all gateways: from its commit on their rows go elsewhere, and whoever has
//! not heard of it must neither write there nor read there.
//!
//! ```text
//!   closer   fence ─▶ waits until all have closed ─▶ prewrite: catalog, marks ─▶ F ─▶ commit ─▶ fence taken away
//!              │             ▲                                                                      │
//!              ▼ found       │ said under the lease                                                 ▼ found
//!   each     grace ─▶ draining ─▶ closed (since) ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─▶ marks? ─┬─▶ shut for good
//!            │ who has written   │ what is in the midst                                           none └─▶ open
//!            │ may commit        │ of a commit ends
//!
//!   fence    start of the change 8 │ length of the gateway's name 2 │ name │ space 4 …
//! ```
//! A fence is a key of the store, one of each database; a mark is a key of each closed space, and stays. All gateways do
//! the same, also the closer's own for its other transactions. F is the timestamp of the closer's commit.
//!
//! **[C1]** Who claims the fence looks later whom there is; who has a new lease looks later for fences and marks, before
//! he may commit ([`Gateways`](super::gateways)): of two, one sees the other.
//! **[C2]** A gateway says that it has closed when no commit of these spaces is under way; and lets none begin. So each
//! of its commits there has an older timestamp than F, which is taken after all have said so.
//! **[C3]** When the fence is gone, the fate of the change is sealed: its marks are there, or locked until that is known,
//! or never will be. For it is taken away by its closer, who has prewritten or never will; or by somebody who has seen
//! that the closer's gateway was gone, and it commits under no later lease.
//! **[C4]** A mark as of a view's timestamp says whether that is before F. A view from before `since` need not look.
//! A statement takes a view anew that is from behind F, where the catalog with it is not known yet.
//! **[C5]** Views beyond the gateway's lease wait for its next word, so [C4] holds where nothing was heard of a fence.

mod closer;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use froglet_engine::{EngineError, Snapshot, SpaceId, SqlState, WriteStop};
use parking_lot::{Mutex, RwLock};
use tokio::sync::watch;

use super::table::ClusterTable;
use super::txn::{CATALOG, ClusterTxn, Shared};
use super::view::View;
use super::{Core, failed, keys, refused};
use crate::client::{Client, StoreError};

pub(super) use closer::{Claim, claim};

/// Whoever has written a space that is to be closed may still commit for so long.
const GRACE: Duration = Duration::from_millis(300);
/// A writer waits so long for the end of a fence.
const LONGEST_WAIT: Duration = Duration::from_secs(15);
/// How often whoever waits for others looks.
const LOOK: Duration = Duration::from_millis(10);
/// Marks of a page.
const PAGE: u32 = 512;

fn being_replaced() -> EngineError {
    let message =
        "the table is being replaced by a schema change: run the transaction again, from its start";
    refused(SqlState::SERIALIZATION_FAILURE, message)
}

fn replaced() -> EngineError {
    let message =
        "the table was replaced by a schema change: run the transaction again, from its start";
    refused(SqlState::SERIALIZATION_FAILURE, message)
}

/// What the fence's key says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fence {
    /// The start of the schema change.
    pub start_ts: u64,
    /// The gateway that it is made at.
    pub owner: Vec<u8>,
    pub spaces: Vec<SpaceId>,
}

impl Fence {
    fn bytes(&self) -> Vec<u8> {
        let length = u16::try_from(self.owner.len()).expect("a gateway's name is short");
        let mut bytes = self.start_ts.to_be_bytes().to_vec();
        bytes.extend(length.to_be_bytes());
        bytes.extend(&self.owner);
        bytes.extend(self.spaces.iter().flat_map(|space| space.0.to_be_bytes()));
        bytes
    }

    /// Of what its key says.
    pub fn of(bytes: &[u8]) -> Result<Fence, StoreError> {
        Fence::parse(bytes).ok_or_else(|| StoreError::Protocol(format!("a fence of {bytes:?}")))
    }

    fn parse(bytes: &[u8]) -> Option<Fence> {
        let (start_ts, rest) = bytes.split_first_chunk()?;
        let (length, rest) = rest.split_first_chunk()?;
        let (owner, rest) = rest.split_at_checked(u16::from_be_bytes(*length).into())?;
        let (spaces, rest) = rest.as_chunks();
        let spaces = spaces.iter().map(|space| SpaceId(u32::from_be_bytes(*space))).collect();
        let start_ts = u64::from_be_bytes(*start_ts);
        rest.is_empty().then(|| Fence { start_ts, owner: owner.to_vec(), spaces })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Grace,
    Draining,
    Closed,
}

/// What this gateway has made of the fence that is in place.
struct Closing {
    fence: Arc<Fence>,
    phase: Phase,
    /// It was there as of this timestamp.
    found_at: u64,
    /// F is later, whatever becomes of it [C4].
    reads_until: u64,
    /// Somebody sees to its phases.
    is_driven: bool,
}

#[derive(Default)]
struct State {
    closing: Option<Closing>,
    /// Spaces that are closed for good, and until when they can be read without a look at the mark [C4].
    shut: HashMap<SpaceId, u64>,
}

impl State {
    fn closing_of(&self, space: SpaceId) -> Option<&Closing> {
        self.closing.as_ref().filter(|closing| closing.fence.spaces.contains(&space))
    }

    /// What was begun for a fence: one that is found again was not.
    fn of_fence(&mut self, fence: &Arc<Fence>) -> Option<&mut Closing> {
        self.closing.as_mut().filter(|closing| Arc::ptr_eq(&closing.fence, fence))
    }

    fn is_readable(&self, space: SpaceId, ts: u64) -> bool {
        self.closing_of(space).is_none_or(|closing| ts <= closing.reads_until)
            && self.shut.get(&space).is_none_or(|until| ts <= *until)
    }

    /// Whether a transaction may commit what it has written in a space [C2].
    fn may_commit(&self, space: SpaceId, start_ts: u64) -> Result<(), EngineError> {
        if self.shut.contains_key(&space) {
            return Err(replaced());
        }
        let is_free =
            |closing: &Closing| closing.phase == Phase::Grace || closing.fence.start_ts == start_ts;
        self.closing_of(space).is_none_or(is_free).then_some(()).ok_or_else(being_replaced)
    }
}

/// A gateway's part. See the module.
pub(super) struct Fences {
    client: Arc<Client>,
    database: u32,
    state: RwLock<State>,
    /// Commits between their prewrites and their ends, by their starts: what they write of what may be closed.
    under_way: Mutex<HashMap<u64, Vec<SpaceId>>>,
    changed: watch::Sender<()>,
}

/// A commit is under way. Dropped, it has ended.
pub(super) struct UnderWay {
    fences: Arc<Fences>,
    start_ts: u64,
    /// Under which it may commit.
    pub lease: u64,
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.fences.under_way.lock().remove(&self.start_ts);
    }
}

impl Fences {
    pub fn new(client: Arc<Client>, database: u32) -> Fences {
        let changed = watch::Sender::new(());
        let (state, under_way) = Default::default();
        Fences { client, database, state, under_way, changed }
    }

    pub fn client(&self) -> &Arc<Client> {
        &self.client
    }

    /// The fence that this gateway has closed for; 0: none.
    pub fn closed(&self) -> u64 {
        let state = self.state.read();
        let closed = state.closing.as_ref().filter(|closing| closing.phase == Phase::Closed);
        closed.map_or(0, |closing| closing.fence.start_ts)
    }

    /// Looks for all that there is, before this gateway may commit under a new lease [C1]. Those who have not found it may
    /// have gone on without it: nothing has grace, and views look at marks.
    pub async fn look_anew(&self) -> Result<(), StoreError> {
        loop {
            let as_of = self.client.timestamp().await?;
            let fence = self.client.get(&keys::fence(self.database), as_of).await?;
            let fence = fence.map(|bytes| Fence::of(&bytes)).transpose()?;
            let marks = self.all_marks(as_of).await?;
            let mut state = self.state.write();
            if state.closing.as_ref().is_some_and(|known| known.found_at >= as_of) {
                // What is known is newer, and what was between is not.
                continue;
            }
            state.shut.extend(marks);
            let is_known = |known: &Closing| {
                fence.as_ref().is_some_and(|fence| fence.start_ts == known.fence.start_ts)
            };
            let known = state.closing.take().filter(is_known);
            state.closing = fence.map(|fence| Closing {
                reads_until: fence.start_ts,
                fence: known.as_ref().map_or(Arc::new(fence), |known| Arc::clone(&known.fence)),
                phase: match &known {
                    Some(Closing { phase: Phase::Closed, .. }) => Phase::Closed,
                    _ => Phase::Draining,
                },
                found_at: as_of,
                is_driven: known.is_some_and(|known| known.is_driven),
            });
            drop(state);
            self.changed.send_replace(());
            return Ok(());
        }
    }

    /// All marks as of a timestamp, each with a timestamp before F.
    async fn all_marks(&self, as_of: u64) -> Result<Vec<(SpaceId, u64)>, StoreError> {
        let prefix = keys::closed(self.database);
        let (end, mut from) = (keys::end_of(&prefix), prefix.clone());
        let mut marks = Vec::new();
        loop {
            let page = self.client.scan(&from, &end, PAGE, as_of).await?;
            for (key, value) in page.pairs {
                let space = key[prefix.len()..].try_into().map(u32::from_be_bytes);
                let start_ts = value.try_into().map(u64::from_be_bytes);
                let (Ok(space), Ok(start_ts)) = (space, start_ts) else {
                    return Err(StoreError::Protocol(format!("a mark at {key:?}")));
                };
                marks.push((SpaceId(space), start_ts));
            }
            match page.next {
                Some(next) => from = next,
                None => return Ok(marks),
            }
        }
    }

    /// A fence was in place as of a timestamp; it, if its phases are the caller's to see to.
    fn begin(&self, found_at: u64, fence: Fence) -> Option<Arc<Fence>> {
        let mut state = self.state.write();
        let closing = state.closing.get_or_insert_with(|| Closing {
            fence: Arc::new(fence.clone()),
            phase: Phase::Grace,
            found_at,
            reads_until: u64::MAX,
            is_driven: false,
        });
        if closing.fence.start_ts != fence.start_ts {
            return None;
        }
        closing.found_at = closing.found_at.max(found_at);
        let is_driven = std::mem::replace(&mut closing.is_driven, true);
        (!is_driven).then(|| Arc::clone(&closing.fence))
    }

    /// A fence was gone as of a timestamp [C3].
    async fn end(&self, gone_at: u64, fence: &Arc<Fence>) -> Result<(), StoreError> {
        let marks = fence.spaces.iter().map(|space| keys::closed_space(self.database, *space));
        let marks = self.client.get_all(marks.collect(), gone_at).await?;
        let mut state = self.state.write();
        let is_over = state.of_fence(fence).is_some_and(|known| known.found_at < gone_at);
        if !is_over {
            return Ok(());
        }
        let closing = state.closing.take().expect("it was there just now");
        for space in &fence.spaces {
            let mark = keys::closed_space(self.database, *space);
            if marks.iter().any(|(key, _)| *key == mark) {
                state.shut.entry(*space).or_insert(closing.reads_until);
            }
        }
        drop(state);
        self.changed.send_replace(());
        Ok(())
    }

    /// The phase of a fence, until it is gone.
    fn phase(&self, fence: &Arc<Fence>) -> Option<Phase> {
        let closing = &self.state.read().closing;
        let closing = closing.as_ref().filter(|closing| Arc::ptr_eq(&closing.fence, fence));
        closing.map(|closing| closing.phase)
    }

    /// The next phase of a fence, if it is not gone.
    fn pass(&self, fence: &Arc<Fence>, to: Phase, reads_until: u64) {
        let mut state = self.state.write();
        let Some(closing) = state.of_fence(fence) else { return };
        closing.phase = to;
        // Never later: whoever was gone meanwhile knows less.
        closing.reads_until = closing.reads_until.min(reads_until);
        drop(state);
        self.changed.send_replace(());
    }

    fn is_drained(&self, fence: &Fence) -> bool {
        let under_way = self.under_way.lock();
        let mut others = under_way.iter().filter(|(start_ts, _)| **start_ts != fence.start_ts);
        others.all(|(_, spaces)| spaces.iter().all(|space| !fence.spaces.contains(space)))
    }

    /// Commits under way that write one of these spaces.
    pub fn under_way_in(&self, spaces: &[SpaceId]) -> Vec<u64> {
        let under_way = self.under_way.lock();
        let writes =
            |(_, written): &(&u64, &Vec<SpaceId>)| written.iter().any(|w| spaces.contains(w));
        under_way.iter().filter(writes).map(|(start_ts, _)| *start_ts).collect()
    }

    pub fn is_under_way(&self, start_ts: u64) -> bool {
        self.under_way.lock().contains_key(&start_ts)
    }

    /// A commit begins, under a lease that was asked for before [C2].
    pub fn enter(
        self: &Arc<Self>,
        lease: u64,
        start_ts: u64,
        spaces: Vec<SpaceId>,
    ) -> Result<UnderWay, EngineError> {
        // Until it is noted: no phase begins between the two.
        let state = self.state.read();
        spaces.iter().try_for_each(|space| state.may_commit(*space, start_ts))?;
        self.under_way.lock().insert(start_ts, spaces);
        Ok(UnderWay { fences: Arc::clone(self), start_ts, lease })
    }

    /// Whether a transaction may write a space, if that is known; it is noted that it does.
    fn admit(&self, space: SpaceId, txn: &Shared) -> Option<Result<(), EngineError>> {
        // Until it is noted, as above.
        let state = self.state.read();
        let mut written = txn.fenced.lock();
        let has_written = written.contains(&space);
        if let Err(error) = state.may_commit(space, txn.writes.start_ts) {
            let waits = !has_written && !state.shut.contains_key(&space);
            return (!waits).then_some(Err(error));
        }
        let closing = state.closing_of(space);
        if !has_written {
            if closing.is_some_and(|closing| closing.fence.start_ts != txn.writes.start_ts) {
                return None;
            }
            written.push(space);
        }
        Some(Ok(()))
    }

    /// Waits until a transaction may write a space.
    async fn wait_admitted(&self, space: SpaceId, txn: &Shared) -> Result<(), EngineError> {
        let mut changed = self.changed.subscribe();
        let admitted = async {
            loop {
                if let Some(verdict) = self.admit(space, txn) {
                    return verdict;
                }
                changed.changed().await.map_err(|_| being_replaced())?;
            }
        };
        let admitted = tokio::time::timeout(LONGEST_WAIT, admitted).await;
        admitted.unwrap_or_else(|_| Err(being_replaced()))
    }

    /// The fence that is in place, if the change that it is of may have been committed before a view.
    pub fn closed_before(&self, ts: u64) -> Option<Arc<Fence>> {
        let state = self.state.read();
        let closing = state.closing.as_ref().filter(|closing| ts > closing.reads_until)?;
        Some(Arc::clone(&closing.fence))
    }

    /// Waits until the change of a fence is known, if it was committed before a view; whether it was. The catalog is read
    /// before the end of a fence is found, so whoever begins behind that has it.
    pub async fn wait_known(&self, fence: Arc<Fence>, ts: u64) -> Result<bool, EngineError> {
        let mut changed = self.changed.subscribe();
        let Some(space) = fence.spaces.first() else { return Ok(false) };
        if !self.is_marked(*space, ts).await? {
            return Ok(false);
        }
        let known = async {
            while self.phase(&fence).is_some() {
                changed.changed().await.map_err(|_| replaced())?;
            }
            Ok(true)
        };
        tokio::time::timeout(LONGEST_WAIT, known).await.unwrap_or_else(|_| Err(replaced()))
    }

    /// Whether a view may read a space that is closed, or about to be [C4].
    async fn look_at_mark(&self, space: SpaceId, ts: u64) -> Result<(), EngineError> {
        match self.is_marked(space, ts).await? {
            true => Err(replaced()),
            false => Ok(()),
        }
    }

    /// Whether a space was closed before a view.
    async fn is_marked(&self, space: SpaceId, ts: u64) -> Result<bool, EngineError> {
        let mark = self.client.get(&keys::closed_space(self.database, space), ts).await;
        if mark.map_err(failed)?.is_some() {
            return Ok(true);
        }
        let mut state = self.state.write();
        if let Some(until) = state.shut.get_mut(&space) {
            *until = ts.max(*until);
        } else if let Some(closing) = &mut state.closing
            && closing.fence.spaces.contains(&space)
        {
            // One commit writes the marks of all.
            closing.reads_until = ts.max(closing.reads_until);
        }
        Ok(false)
    }
}

impl ClusterTable {
    /// What a snapshot sees, if it may see this space.
    pub(super) fn view(&self, snapshot: &Snapshot) -> Result<View<'_>, EngineError> {
        let (core, ts) = (&self.core, snapshot.ts.0);
        if self.is_fenced && self.space != CATALOG {
            // In this order: whatever a new lease has brought is known.
            if !core.gateways.reaches(ts) {
                core.wait(core.gateways.reach(ts)).map_err(failed)?;
            }
            if !core.fences.state.read().is_readable(self.space, ts) {
                core.wait(core.fences.look_at_mark(self.space, ts))?;
            }
        }
        Ok(core.view(snapshot))
    }

    /// Whether a transaction may write this space; it waits for the end of a fence.
    pub(super) fn may_write(&self, txn: &ClusterTxn) -> Result<(), EngineError> {
        let fences = &self.core.fences;
        match self.is_fenced {
            true => fences
                .admit(self.space, &txn.shared)
                .unwrap_or_else(|| self.core.wait(fences.wait_admitted(self.space, &txn.shared))),
            false => Ok(()),
        }
    }

    /// The same; where the space was closed before the transaction has written there, that is what it is told.
    pub(super) fn may_write_rows(&self, txn: &ClusterTxn) -> Result<(), WriteStop> {
        let had_written = txn.shared.fenced.lock().contains(&self.space);
        self.may_write(txn).map_err(|error| {
            let is_shut = self.core.fences.state.read().shut.contains_key(&self.space);
            if is_shut && !had_written { WriteStop::Moved } else { error.into() }
        })
    }
}

impl Core {
    /// Does what the fence asks for that was in place as of a timestamp.
    pub async fn follow_fence(
        self: &Arc<Core>,
        as_of: u64,
        fence: Option<Fence>,
    ) -> Result<(), StoreError> {
        let known = self.fences.state.read().closing.as_ref().map(|known| Arc::clone(&known.fence));
        if let Some(known) = known
            && fence.as_ref().is_none_or(|fence| fence.start_ts != known.start_ts)
        {
            self.fences.end(as_of, &known).await?;
        }
        let Some(fence) = fence else { return Ok(()) };
        if !self.gateways.lives(&fence.owner).await? {
            // [C3]; that it is gone is found when it is looked for again.
            return self.take_away(fence.start_ts).await;
        }
        if let Some(fence) = self.fences.begin(as_of, fence) {
            self.handle.spawn(close(Arc::clone(self), fence));
        }
        Ok(())
    }

    async fn take_away(self: &Arc<Core>, start_ts: u64) -> Result<(), StoreError> {
        let is_it = |now: Option<Vec<u8>>| {
            now.and_then(|now| Fence::parse(&now)).is_some_and(|fence| fence.start_ts == start_ts)
        };
        self.change(keys::fence(self.database), |now| (is_it(now).then_some(None), ())).await
    }

    /// Whether a transaction that is not in the midst of its commit has written what a fence is for.
    fn has_writers(&self, fence: &Fence) -> bool {
        let txns = self.txns.read();
        let mut others = txns.values().filter(|shared| shared.writes.start_ts != fence.start_ts);
        others.any(|shared| shared.fenced.lock().iter().any(|space| fence.spaces.contains(space)))
    }
}

/// Closes for a fence, until that is done or the fence is gone.
async fn close(core: Arc<Core>, fence: Arc<Fence>) {
    let until = Instant::now() + GRACE;
    while Instant::now() < until
        && core.fences.phase(&fence) == Some(Phase::Grace)
        && core.has_writers(&fence)
    {
        tokio::time::sleep(LOOK).await;
    }
    core.fences.pass(&fence, Phase::Draining, u64::MAX);
    while core.fences.phase(&fence) == Some(Phase::Draining) {
        if !core.fences.is_drained(&fence) {
            tokio::time::sleep(LOOK).await;
            continue;
        }
        match core.client.timestamp().await {
            Ok(since) => {
                core.fences.pass(&fence, Phase::Closed, since);
                core.gateways.speak();
            }
            Err(error) => tracing::debug!(%error, "a fence is not closed for yet"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fence_is_read_as_it_was_written_and_nothing_else_is_one() {
        let spaces = vec![SpaceId(1), SpaceId(u32::MAX)];
        let fence = Fence { start_ts: u64::MAX - 1, owner: b"/froglet/1".to_vec(), spaces };
        let bytes = fence.bytes();
        assert_eq!(Fence::of(&bytes).expect("it is one"), fence);
        for length in 0..bytes.len() {
            let whole = Fence::parse(&bytes[..length]);
            let fewer = whole.is_some_and(|cut| cut.spaces.len() < 2 && cut.owner == fence.owner);
            assert_eq!(fewer, length + 8 == bytes.len() || length + 4 == bytes.len());
        }
    }
}
