//! The closer's part: its fence, and its wait for all others.
//!
//! ```text
//!   another's fence ─ gone, or of somebody who is ─▶ its own ─ all have closed, and have its catalog ─▶ it may prewrite
//!         └ too long: 55P03                            └ too long: 55P03, and it is taken away
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use froglet_engine::{EngineError, SpaceId, SqlState};

use super::{Fence, LOOK, UnderWay, refused};
use crate::client::StoreError;
use crate::engine::gateways::silent;
use crate::engine::{Core, failed, keys};

/// A closer gives up after so long.
const LONGEST_CLOSING: Duration = Duration::from_secs(10);
/// It waits so long for the fence of another, which may wait for what this one has written: it gives up before that one.
const LONGEST_QUEUE: Duration = Duration::from_secs(8);
/// What was not taken away is tried again after so long.
const AGAIN: Duration = Duration::from_millis(200);

/// The fence is a schema change's, until its fate is sealed. Dropped, it is taken away, behind the caller's back.
pub struct Claim {
    core: Arc<Core>,
    start_ts: u64,
}

impl Drop for Claim {
    fn drop(&mut self) {
        let (core, start_ts) = (Arc::clone(&self.core), self.start_ts);
        self.core.handle.spawn(async move {
            while let Err(error) = core.take_away(start_ts).await {
                tracing::debug!(%error, "a fence is not taken away yet");
                tokio::time::sleep(AGAIN).await;
            }
        });
    }
}

/// Closes spaces for a schema change that is about to prewrite: when this returns, nobody else commits there any more.
pub async fn claim(
    core: &Arc<Core>,
    under_way: &UnderWay,
    spaces: Vec<SpaceId>,
    is_given_up: &AtomicBool,
) -> Result<Claim, EngineError> {
    let start_ts = under_way.start_ts;
    let fence = Fence { start_ts, owner: core.gateways.own().to_vec(), spaces };
    // What is in doubt is taken away, too.
    let claim = Claim { core: Arc::clone(core), start_ts };
    place(core, &fence, is_given_up).await?;
    let until = Instant::now() + LONGEST_CLOSING;
    let mut has_closed = false;
    while !has_closed {
        go_on(until, is_given_up, "other servers have not closed the table in time")?;
        tokio::time::sleep(LOOK).await;
        if core.fences.closed() == start_ts {
            // Who cannot be asked now is asked again.
            has_closed = core.gateways.have_closed(start_ts).await.unwrap_or(false);
        }
    }
    if core.gateways.lease() != under_way.lease {
        return Err(failed(silent()));
    }
    Ok(claim)
}

fn go_on(until: Instant, is_given_up: &AtomicBool, late: &str) -> Result<(), EngineError> {
    match Instant::now() < until {
        _ if is_given_up.load(Ordering::SeqCst) => {
            Err(refused(SqlState::QUERY_CANCELED, "the schema change was given up"))
        }
        true => Ok(()),
        false => Err(refused(SqlState::LOCK_NOT_AVAILABLE, late)),
    }
}

/// Puts a fence in place, behind that of another.
async fn place(
    core: &Arc<Core>,
    fence: &Fence,
    is_given_up: &AtomicBool,
) -> Result<(), EngineError> {
    let (key, until) = (keys::fence(core.database), Instant::now() + LONGEST_QUEUE);
    loop {
        go_on(until, is_given_up, "another schema change closes tables: run it again")?;
        let now = core.client.timestamp().await.map_err(failed)?;
        let found = core.client.get(&key, now).await.map_err(failed)?;
        let other = found.as_deref().map(Fence::of).transpose().map_err(failed)?;
        let other = other.filter(|other| other.start_ts != fence.start_ts);
        if let Some(other) = other
            && core.gateways.lives(&other.owner).await.map_err(failed)?
        {
            tokio::time::sleep(LOOK).await;
            continue;
        }
        // It is free, or of somebody who is gone [C3].
        let claimed = core.change(key.clone(), |now| match now == found {
            true => (Some(Some(fence.bytes())), true),
            false => (None, false),
        });
        match claimed.await {
            Ok(true) => return Ok(()),
            Ok(false) | Err(StoreError::Conflict { .. } | StoreError::Lost(_)) => {}
            Err(error) => return Err(failed(error)),
        }
    }
}
