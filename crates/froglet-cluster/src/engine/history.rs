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
//! another read; and whoever moves the floor listens again afterwards. So of him who comes back and of who moves it, one
//! knows of the other.
//! **[H3]** No lock is older than a safe point: what became of a transaction is still there when somebody asks. One whose
//! fate nobody here can tell, or who lives, holds the safe point back.
//! **[H4]** Where a TiDB uses the store, its own worker moves the safe point, and knows its own locks: here it is only kept
//! from what is read.

use std::sync::Weak;
use std::time::Duration;

use super::*;
use crate::client::{LOGICAL_BITS, physical_ms};

/// Below this a gateway could be gone, and back, without having noticed.
pub const SHORTEST_HISTORY: Duration = Duration::from_secs(10);
/// The placement driver keeps so long what a database needs whose gateways are all gone.
pub(super) const KEPT_S: u32 = 600;
/// In whose name a safe point is moved, for all who use a store: TiDB's name for it.
const WORKER: &str = "gc_worker";
/// The keys of a TiDB's catalog.
const OF_TIDB: (&[u8], &[u8]) = (b"m", b"n");

/// A timestamp from so long before another.
fn earlier(ts: u64, by: Duration) -> u64 {
    let ms = u64::try_from(by.as_millis()).unwrap_or(u64::MAX);
    physical_ms(ts).saturating_sub(ms) << LOGICAL_BITS
}

/// Moves the safe point again and again, where nobody else does.
pub(super) async fn keep_moving(core: Weak<Core>, history: Duration) {
    let every = (history / 10).clamp(Duration::from_secs(1), Duration::from_secs(60));
    loop {
        tokio::time::sleep(every).await;
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
        let floor = earlier(self.gateways.oldest_needed().await?, history);
        let higher = |there: Option<Vec<u8>>| {
            let there = there.as_deref().map_or(0, floor_of);
            let moved = (there < floor).then(|| Some(floor.to_be_bytes().to_vec()));
            (moved, there.max(floor))
        };
        let floor = self.change(keys::floor(self.database), higher).await?;
        // [H2]
        if self.gateways.oldest_needed().await? < floor {
            return Ok(());
        }
        let network = self.client.network();
        network.keep_since(&format!("froglet/{}", self.database), floor, KEPT_S).await?;
        let (from, to) = OF_TIDB;
        let now = self.client.timestamp().await?;
        if !self.client.scan(from, to, 1, now).await?.pairs.is_empty() {
            return Ok(());
        }
        let settled = self.client.settle_range(b"", b"", floor).await?;
        let kept = network.keep_since(WORKER, settled, u32::MAX).await?;
        network.collect_before(kept.min(settled)).await?;
        Ok(())
    }
}

/// Of what its key says; what makes no sense keeps all.
pub(super) fn floor_of(bytes: &[u8]) -> u64 {
    bytes.try_into().map_or(0, u64::from_be_bytes)
}
