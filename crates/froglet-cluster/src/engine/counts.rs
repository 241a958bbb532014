//! About how many rows tables have. Nobody keeps a number: a gateway that is asked looks for itself, beside the statements
//! that ask, and remembers.
//!
//! ```text
//!   the first rows of a table ─┬─ that is all of it ─▶ so many                         looked at again after 20 s
//!                              └─ there are more    ─▶ as many as regions have keys,   after ten minutes
//!                                                      or very many, if nobody knows
//! ```
//! It is for plans alone: whether a row is looked up, or all are read.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use froglet_engine::SpaceId;
use parking_lot::Mutex;

use super::{Core, keys, place};
use crate::client::{StoreError, behind};

/// Of a table that nobody has looked at.
const UNKNOWN: u64 = 10_000;
/// Of one that has more rows than were looked at, if its regions do not say how many keys they have.
const MANY: u64 = 1_000_000;
/// So many rows are looked at, at most.
const MOST_ROWS: usize = 4_096;
/// And so many bytes of them, about.
const MOST_BYTES: usize = 1 << 20;
/// Rows that are asked for first: they may be long.
const FIRST_ROWS: u32 = 16;
const KEPT_EXACT: Duration = Duration::from_secs(20);
const KEPT_ESTIMATED: Duration = Duration::from_secs(600);
/// So many tables are looked at at a time: somebody may ask for all.
const MOST_LOOKS: usize = 4;
/// Where more are known, those that nobody has asked for of late are forgotten.
const MOST_KNOWN: usize = 4_096;
/// After a look that has failed.
const KEPT_FAILED: Duration = Duration::from_secs(5);

/// What this gateway knows.
#[derive(Default)]
pub(super) struct Counts {
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    counts: HashMap<SpaceId, Count>,
    looks: usize,
}

#[derive(Clone, Copy)]
struct Count {
    rows: u64,
    state: State,
}

#[derive(Clone, Copy)]
enum State {
    Looking,
    /// It is looked at again from then on.
    Until(Instant),
}

/// Where the rows of a table are.
pub(super) struct RowsOf {
    pub space: SpaceId,
    pub prefix: Vec<u8>,
    pub header: Vec<u8>,
    /// Keys of a row, entries of indexes among them.
    pub keys: u64,
}

impl Counts {
    /// About how many rows a table has.
    pub fn estimate(core: &Arc<Core>, space: SpaceId, of: impl FnOnce() -> RowsOf) -> u64 {
        let now = Instant::now();
        let mut known = core.counts.known.lock();
        let Known { counts, looks } = &mut *known;
        if counts.len() >= MOST_KNOWN && !counts.contains_key(&space) {
            counts.retain(|_, count| !matches!(count.state, State::Until(until) if until <= now));
        }
        let count =
            counts.entry(space).or_insert(Count { rows: UNKNOWN, state: State::Until(now) });
        if matches!(count.state, State::Until(until) if until <= now) && *looks < MOST_LOOKS {
            count.state = State::Looking;
            *looks += 1;
            core.handle.spawn(behind(look(Arc::clone(core), of())));
        }
        count.rows
    }

    /// So many rows of a table were written: it is looked at again, if it may have become another one.
    pub fn wrote(&self, space: SpaceId, rows: usize) {
        if let Some(count) = self.known.lock().counts.get_mut(&space)
            && let State::Until(until) = &mut count.state
            && rows as u64 > count.rows / 8
        {
            *until = (*until).min(Instant::now());
        }
    }

    /// A table is gone.
    pub fn forget(&self, space: SpaceId) {
        self.known.lock().counts.remove(&space);
    }
}

async fn look(core: Arc<Core>, of: RowsOf) {
    let found = count(&core, &of).await;
    let kept = match &found {
        Ok((_, true)) => KEPT_EXACT,
        Ok((_, false)) => KEPT_ESTIMATED,
        Err(_) => KEPT_FAILED,
    };
    let mut known = core.counts.known.lock();
    known.looks -= 1;
    let Some(count) = known.counts.get_mut(&of.space) else { return };
    count.state = State::Until(Instant::now() + kept);
    match found {
        Ok((rows, _)) => count.rows = rows,
        Err(error) => tracing::debug!(%error, space = of.space.0, "rows are not counted"),
    }
}

/// How many rows there are, and whether that is exact.
async fn count(core: &Core, of: &RowsOf) -> Result<(u64, bool), StoreError> {
    let ts = core.client.timestamp().await?;
    let (mut from, end) = (of.prefix.clone(), keys::end_of(&of.prefix));
    let (mut rows, mut read, mut bytes, mut limit) = (0, 0, 0, FIRST_ROWS);
    while read < MOST_ROWS && bytes < MOST_BYTES {
        let page = core.client.scan(&from, &end, limit, ts).await?;
        read += page.pairs.len();
        bytes += page.pairs.iter().map(|(_, value)| value.len()).sum::<usize>();
        let is_row = |value: &[u8]| place::cells(&of.header, value).is_some();
        rows += page.pairs.iter().filter(|(_, value)| is_row(value)).count() as u64;
        let Some(next) = page.next else { return Ok((rows, true)) };
        (from, limit) = (next, (2 * limit).min(1_024));
    }
    let sizes = core.client.sizes_of(&of.prefix, &end).await.unwrap_or_default();
    let keys: u64 = sizes.iter().map(|size| size.keys).sum();
    let estimated = if keys == 0 { MANY } else { keys / of.keys.max(1) };
    Ok((estimated.max(2 * rows), false))
}
