//! Rows that others refer to: nobody takes a parent away from its children, and no child comes without one.
//!
//! ```text
//!   child    is the parent there, now? ─ ─ noted ─ ─▶ commit: the parents' keys, locked at once ─ there? ─▶ prewrite ─▶ F
//!   parent   locked, and written ─▶ children, now? ─▶ commit                                                prewrite ─▶ F
//! ```
//! What is noted is the parent's key: its row's own, or that of its entry in a unique index ([E4] of `write`).
//!
//! **[K1]** A child has its parent's key locked from before it takes its commit timestamp until it has committed. Who takes
//! the key away has it locked from before he looks for children until he has. So of two the later one finds what the other
//! has done.
//! **[K2]** A lock of the store is one transaction's alone: children of a parent wait for each other, and for whoever changes
//! the parent's row. They do so for as long as a commit takes, and not for as long as a transaction does.
//! **[K3]** Whoever does not know of a foreign key yet looks at it when he commits: it is among the `builds`.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use froglet_engine::{EngineError, EngineTxn, KeyRange, Referenced, Snapshot, SqlState};

use super::table::{ClusterTable, own};
use super::txn::Shared;
use super::{Core, failed, refused};
use crate::client::StoreError;

/// Whoever waits for a parent is asked so often whether he still does.
const LOOK: Duration = Duration::from_millis(250);
/// A change of the catalog waits so long.
const LONGEST_OF_CATALOG: Duration = Duration::from_secs(10);
/// More than a key takes in memory.
const KEY_BYTES: usize = 128;

fn parent_gone() -> EngineError {
    let message = "insert or update violates a foreign key constraint: a row that the transaction refers to was deleted \
                   meanwhile, or has another key";
    refused(SqlState::FOREIGN_KEY_VIOLATION, message)
}

impl Referenced for ClusterTable {
    fn require(
        &self,
        txn: &mut dyn EngineTxn,
        view: &Snapshot,
        index: usize,
        keys: &[Vec<u8>],
    ) -> Result<Option<usize>, EngineError> {
        let txn = own(txn);
        // Whoever closes the space waits for it, as for one who writes there.
        self.may_write(txn)?;
        let at: Vec<Vec<u8>> = keys.iter().map(|key| self.whole_key(index, key)).collect();
        let there = self.view(view)?.get_all(&at)?;
        if let Some(missing) = there.iter().position(Option::is_none) {
            return Ok(Some(missing));
        }
        let new = txn.shared.buffer.lock().require(at);
        txn.charge(new.iter().map(|bytes| 2 * bytes + KEY_BYTES).sum())?;
        Ok(None)
    }
}

impl ClusterTable {
    /// The one key of the store that stands for a whole key, without NULLs, of a unique index.
    pub(super) fn whole_key(&self, index: usize, key: &[u8]) -> Vec<u8> {
        let at = self.one_key(self.index(index), &KeyRange::exactly(key));
        at.expect("a whole key of a unique index")
    }
}

/// How long a commit waits for parents.
#[derive(Clone, Copy)]
pub(super) struct Patience<'a> {
    /// Nobody waits for the commit any more.
    pub is_given_up: &'a AtomicBool,
    /// For each, in milliseconds; 0: as long as it takes.
    pub lock_timeout: &'a AtomicU64,
    /// Others wait for the commit, whatever they want: it changes the catalog.
    pub is_short: bool,
}

impl Patience<'_> {
    /// Whether it goes on to wait, after so long.
    fn lasts(&self, waited: Duration) -> Result<(), EngineError> {
        let timeout = match self.lock_timeout.load(Ordering::SeqCst) {
            0 => Duration::MAX,
            ms => Duration::from_millis(ms),
        };
        let longest = if self.is_short { LONGEST_OF_CATALOG } else { Duration::MAX };
        match waited < timeout.min(longest) && !self.is_given_up.load(Ordering::SeqCst) {
            true => Ok(()),
            false => Err(refused(
                SqlState::LOCK_NOT_AVAILABLE,
                "canceling statement due to lock timeout: somebody has a row that the transaction refers to",
            )),
        }
    }
}

/// Locks what a transaction refers to, if it is there. It waits for whoever may take it away.
pub(super) async fn hold_required(
    core: &Core,
    shared: &Shared,
    patience: Patience<'_>,
) -> Result<(), EngineError> {
    let required = shared.buffer.lock().required();
    if required.is_empty() {
        return Ok(());
    }
    // All at once, if nobody is in the way. Else one after the other, in one order: children do not wait for each other in a
    // circle.
    let there = match shared.lock_now(core, required.clone(), Duration::ZERO).await {
        Ok(there) => there,
        Err(StoreError::Locked { .. }) => {
            let mut there = HashMap::new();
            for key in &required {
                there.extend(lock_one(core, shared, key, patience).await?);
            }
            there
        }
        Err(error) => return Err(failed(error)),
    };
    let is_there = |key| there.contains_key(key);
    required.iter().all(is_there).then_some(()).ok_or_else(parent_gone)
}

async fn lock_one(
    core: &Core,
    shared: &Shared,
    key: &[u8],
    patience: Patience<'_>,
) -> Result<HashMap<Vec<u8>, Vec<u8>>, EngineError> {
    let since = Instant::now();
    loop {
        match shared.lock_now(core, vec![key.to_vec()], LOOK).await {
            Err(StoreError::Locked { .. }) => patience.lasts(since.elapsed())?,
            locked => return locked.map_err(failed),
        }
    }
}
