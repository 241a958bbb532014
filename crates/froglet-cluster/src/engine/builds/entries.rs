//! What a commit takes along of the builds that it has met: the entries that its rows need.
//!
//! ```text
//!   a row before: what it was when it was locked        after: what is to be committed of it
//!        delete-only   its entry goes, if it has it no more
//!        write-only    its entry goes, and the one that it has comes, if it had that before or not [B3]
//! ```

use std::collections::{BTreeMap, HashMap};

use smallvec::SmallVec;

use super::builder::given_up;
use super::*;
use crate::client::{Locking, Mutation};
use crate::engine::failed;

/// Whoever has a key of a unique index that is built is waited for so long.
const LONGEST_LOCK: Duration = Duration::from_secs(10);

/// A key of an entry, and what rows of the transaction do to it.
#[derive(Default)]
struct Touched {
    is_unique: bool,
    /// Rows that have had it.
    before: SmallVec<[Vec<u8>; 1]>,
    /// Rows that have it.
    after: SmallVec<[Vec<u8>; 1]>,
}

/// What becomes of the entries of one build.
enum Taken {
    Entries(Vec<Mutation>),
    /// Two rows would have a key.
    Violated,
}

/// Adds to what a transaction commits what builds need of it.
pub async fn take_along(
    core: &Core,
    shared: &Shared,
    own: &[OwnBuild],
    mutations: &mut Vec<Mutation>,
) -> Result<(), EngineError> {
    let mut violated = Vec::new();
    for build in core.builds.of(shared).await? {
        let taken = taken(core, shared, &build, mutations).await?;
        // What was written under a layout that has the index is among it, if it is right.
        mutations.retain(|mutation| !mutation.key.starts_with(&build.index.prefix));
        match taken {
            Taken::Entries(entries) => mutations.extend(entries),
            Taken::Violated => violated.push(build),
        }
    }
    settle(core, shared, own, &violated, mutations).await
}

/// The entries of what a transaction has written before it has built an index.
pub async fn of_own(
    core: &Core,
    shared: &Shared,
    own: &OwnBuild,
) -> Result<Vec<Mutation>, EngineError> {
    let mutations = shared.buffer.lock().mutations();
    let builds = core.builds.of(shared).await?;
    let is_it = |build: &&Arc<Build>| build.announced.is(own.start_ts, own.space, own.index);
    // None: it has written no row there.
    let Some(build) = builds.iter().find(is_it) else { return Ok(Vec::new()) };
    match taken(core, shared, build, &mutations).await? {
        Taken::Entries(entries) => Ok(entries),
        Taken::Violated => Err(not_unique(&own.name)),
    }
}

fn not_unique(name: &str) -> EngineError {
    refused(
        SqlState::UNIQUE_VIOLATION,
        format!("could not create unique index \"{name}\": a key is duplicated"),
    )
}

async fn taken(
    core: &Core,
    shared: &Shared,
    build: &Build,
    mutations: &[Mutation],
) -> Result<Taken, EngineError> {
    let touched = touched(shared, build, mutations)?;
    let unique = touched.iter().filter(|(_, touched)| touched.is_unique);
    let there = lock(core, shared, unique.map(|(key, _)| key.clone()).collect()).await?;
    let mut entries = Vec::new();
    for (key, Touched { is_unique, before, after }) in touched {
        let holder = there.get(&key).and_then(|value| keys::of_entry_value(value));
        let is_others = holder.is_some_and(|row| !before.iter().chain(&after).any(|own| own == row));
        let comes = build.puts().then(|| after.first()).flatten();
        match comes {
            Some(_) if is_unique && (is_others || after.len() > 1) => return Ok(Taken::Violated),
            Some(row) => entries.push(Mutation { key, value: Some(keys::entry_value(row)) }),
            None if after.is_empty() && !is_others => entries.push(Mutation { key, value: None }),
            None => {}
        }
    }
    Ok(Taken::Entries(entries))
}

/// The keys of entries that rows of the transaction have had, and have.
fn touched(
    shared: &Shared,
    build: &Build,
    mutations: &[Mutation],
) -> Result<BTreeMap<Vec<u8>, Touched>, EngineError> {
    let mut all: BTreeMap<Vec<u8>, Touched> = BTreeMap::new();
    let buffer = shared.buffer.lock();
    let rows = mutations.iter().filter(|m| m.key.starts_with(&build.announced.rows));
    for Mutation { key, value } in rows {
        let row_key = keys::row_key(key);
        let mut entry_of = |value: Option<&Vec<u8>>, is_after: bool| {
            let Some(cells) = value.and_then(|value| build.cells(value)) else { return Ok(()) };
            let entry = build.index.entry(cells, row_key)?;
            let touched = all.entry(entry.at).or_default();
            touched.is_unique = entry.is_unique;
            let side = if is_after { &mut touched.after } else { &mut touched.before };
            side.push(row_key.to_vec());
            Ok::<_, EngineError>(())
        };
        // A key that was not locked is new, and nobody else's.
        entry_of(buffer.held(key).and_then(Option::as_ref), false)?;
        entry_of(value.as_ref(), true)?;
    }
    Ok(all)
}

/// Locks keys, and returns what there is of them [B4].
async fn lock(
    core: &Core,
    shared: &Shared,
    keys: Vec<Vec<u8>>,
) -> Result<HashMap<Vec<u8>, Vec<u8>>, EngineError> {
    let mut there = HashMap::new();
    let mut locks = Vec::new();
    {
        let buffer = shared.buffer.lock();
        for key in keys {
            match buffer.held(&key) {
                Some(value) => there.extend(value.clone().map(|value| (key, value))),
                None => locks.push(Locking { key, is_new: false }),
            }
        }
    }
    if locks.is_empty() {
        return Ok(there);
    }
    let until = Instant::now() + LONGEST_LOCK;
    let values = loop {
        let ts = core.client.timestamp().await.map_err(failed)?;
        let left = until.saturating_duration_since(Instant::now());
        match shared.writes.lock(&locks, ts, left).await {
            Ok(values) => break values,
            Err(StoreError::Conflict { .. }) => {}
            Err(error) => return Err(failed(error)),
        }
    };
    let mut buffer = shared.buffer.lock();
    for (Locking { key, .. }, value) in locks.into_iter().zip(values) {
        buffer.hold(key.clone(), value.clone());
        there.extend(value.map(|value| (key, value)));
    }
    Ok(there)
}

/// Marks builds whose index cannot be unique any more, and takes a transaction's own from the list.
async fn settle(
    core: &Core,
    shared: &Shared,
    own: &[OwnBuild],
    violated: &[Arc<Build>],
    mutations: &mut Vec<Mutation>,
) -> Result<(), EngineError> {
    if own.is_empty() && violated.is_empty() {
        return Ok(());
    }
    // Who marks, and who publishes, come one after the other.
    let key = keys::builds(core.database);
    let there = lock(core, shared, vec![key.clone()]).await?;
    let mut list = parse(there.get(&key).map(Vec::as_slice)).map_err(failed)?;
    for build in violated {
        let Announced { start_ts, space, spec, .. } = &build.announced;
        match list.iter_mut().find(|other| other.is(*start_ts, *space, spec.id)) {
            Some(found) => found.stage = found.stage.max(Stage::Violated),
            None => {
                return Err(refused(
                    SqlState::SERIALIZATION_FAILURE,
                    "a unique index was created meanwhile, which this transaction would violate: run it again",
                ));
            }
        }
    }
    for build in own {
        match build.find(&mut list).map(|found| found.stage) {
            Some(Stage::WriteOnly) => {}
            Some(Stage::Violated) => return Err(not_unique(&build.name)),
            Some(Stage::DeleteOnly | Stage::GivenUp) | None => return Err(given_up()),
        }
        list.retain(|other| !other.is(build.start_ts, build.space, build.index));
    }
    mutations.push(Mutation { key, value: encode(&list) });
    Ok(())
}
