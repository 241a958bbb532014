//! Old versions of rows: the store keeps them until it is told that nobody reads them any more.
//!
//! ```text
//!   each gateway   the oldest timestamp that it needs ─ said under its lease ─┐
//!                                                                             ▼
//!   the first      F = oldest of all − history ─▶ the floor ─▶ does anybody need more? ─▶ locks from before F: settled
//!                                                                                              │ up to S ≤ F
//!   placement      "froglet/DATABASE" keeps F ◀────────────────────────────────────────────────┘
//!   driver         "gc_worker" needs no more than S ─▶ the oldest that anybody keeps ─▶ safe point: stores collect
//! ```
//! The floor is a key of the store. A view below it is refused (72000) rather than answered with what is left.
//!
//! **[H1]** Whoever is heard says what he needs; what he begins to need later is as new as the present, or older by as long
//! as a timestamp may be under way to who asked for it. `history` is longer than that.
//! **[H2]** Whoever was not heard looks at the floor, and at what others have collected of the same store, before he answers
//! another read, or commits what he had begun; and whoever moves the floor listens again afterwards, and lets nothing go
//! until everybody needs no more, or has heard of the floor. So of him who comes back and of who moves it, one knows of the
//! other. That he was not heard he knows by his own clock: one that stands still as his machine does, for longer than
//! `history`, is not provided for.
//! **[H3]** No lock is older than a safe point: what became of a transaction is still there when somebody asks. Who lives, or
//! commits in a way that nobody here knows, holds the safe point back.
//! **[H4]** Where a TiDB uses the store, its own worker moves the safe point, and knows its own locks: here it is only kept
//! from what is read.

use std::sync::Weak;
use std::time::Duration;

use super::*;
use crate::client::{LOGICAL_BITS, physical_ms};

/// A store is waited for so long by who reads at a timestamp that he has just been given, and twice that.
pub const SHORTEST_HISTORY: Duration = Duration::from_secs(30);
/// What is so young nobody collects, whatever is his history.
pub(super) const YOUNG: Duration = Duration::from_secs(4);
/// What a gateway has needed that was gone is kept for so long: it may be back.
pub(super) const GRACE_MS: u64 = 60_000;
/// The placement driver keeps so long what a database needs whose gateways are all gone.
const KEPT_S: u32 = 600;
/// In whose name a safe point is moved, for all who use a store: TiDB's name for it.
const WORKER: &str = "gc_worker";
/// The keys of a TiDB's catalog.
const OF_TIDB: (&[u8], &[u8]) = (b"m", b"n");

/// A timestamp from so long before another.
fn earlier(ts: u64, by: Duration) -> u64 {
    let ms = u64::try_from(by.as_millis()).unwrap_or(u64::MAX);
    physical_ms(ts).saturating_sub(ms) << LOGICAL_BITS
}

/// How often the safe point is moved.
fn every(history: Duration) -> Duration {
    (history / 10).clamp(Duration::from_secs(1), Duration::from_secs(60))
}

/// So many seconds what a gateway needs is kept in its own name, until it is heard by who moves the safe point.
pub(super) fn kept_until_heard_s(history: Duration) -> u32 {
    u32::try_from((2 * every(history)).as_secs()).expect("minutes") + 10
}

/// Moves the safe point again and again, where nobody else does.
pub(super) async fn keep_moving(core: Weak<Core>, history: Duration) {
    loop {
        tokio::time::sleep(every(history)).await;
        let Some(core) = core.upgrade() else { return };
        if core.gateways.leads()
            && let Err(error) = core.collect(history).await
        {
            tracing::warn!(%error, "old versions of rows are kept a little longer");
        }
    }
}

impl Core {
    /// Lets the store collect what nobody reads, except for so much history.
    async fn collect(self: &Arc<Core>, history: Duration) -> Result<(), StoreError> {
        let network = self.client.network();
        let name = format!("froglet/{}", self.database);
        let mut floor = earlier(self.gateways.oldest_needed().await?, history);
        loop {
            floor = self.floor_at_least(floor).await?;
            let kept = network.keep_since(&name, floor, KEPT_S).await?;
            if kept <= floor {
                break;
            }
            // Others of the store were faster. What is older may be gone: it is not read here, either.
            floor = kept;
        }
        if !self.gateways.have_floor(floor).await? || self.is_of_tidb().await? {
            return Ok(());
        }
        let settled = self.client.settle_range(b"", b"", floor).await?;
        let kept = network.keep_since(WORKER, settled, u32::MAX).await?;
        network.collect_before(kept.min(settled)).await?;
        Ok(())
    }

    /// The floor, which is there or higher from now on.
    async fn floor_at_least(self: &Arc<Core>, least: u64) -> Result<u64, StoreError> {
        let higher = |there: Option<Vec<u8>>| {
            let there = there.as_deref().map_or(0, floor_of);
            let moved = (there < least).then(|| Some(least.to_be_bytes().to_vec()));
            (moved, there.max(least))
        };
        self.change(keys::floor(self.database), higher).await
    }

    /// Whether a TiDB uses the store.
    async fn is_of_tidb(&self) -> Result<bool, StoreError> {
        let (mut from, to) = (OF_TIDB.0.to_vec(), OF_TIDB.1);
        let ts = self.client.timestamp().await?;
        loop {
            let page = self.client.scan(&from, to, 1, ts).await?;
            match page.next {
                _ if !page.pairs.is_empty() => return Ok(true),
                Some(next) => from = next,
                None => return Ok(false),
            }
        }
    }
}

/// Of what its key says; what makes no sense keeps all.
pub(super) fn floor_of(bytes: &[u8]) -> u64 {
    bytes.try_into().map_or(0, u64::from_be_bytes)
}
