//! Who builds an index, gives it up, or cleans up after somebody who is gone.
//!
//! Entries of rows that were there are put page by page, each in a transaction of its own that reads the page as of its
//! start. Its name is that start: whoever has written an entry of the page since is a conflict, and the page is read
//! again [B3].

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use froglet_engine::{Built, EngineError, EngineTxn, OnlineBuild, OnlineIndexes, WriteStop};
use tokio::sync::oneshot;

use super::*;
use crate::client::{Mutation, WriteSet};
use crate::engine::table::{ClusterTable, own};
use crate::engine::{failed, txn, unsupported};

/// Rows whose entries are put together, at most.
const ROWS_AT_ONCE: u32 = 1_024;
/// How often whoever waits for others looks.
const LOOK: Duration = Duration::from_millis(15);
/// What cannot be given up now is given up later.
const AGAIN: Duration = Duration::from_millis(500);

/// A build of a transaction.
#[derive(Clone, Debug)]
pub struct OwnBuild {
    pub start_ts: u64,
    pub space: SpaceId,
    pub index: IndexId,
    /// Of the index, for errors.
    pub name: String,
    /// The transaction's writes before it.
    pub since: u32,
    is_stopped: Arc<AtomicBool>,
}

impl OwnBuild {
    /// It ends as soon as it can.
    pub fn stop(&self) {
        self.is_stopped.store(true, Ordering::SeqCst);
    }

    fn of(announced: &Announced) -> OwnBuild {
        let Announced { start_ts, space, spec, .. } = announced;
        let (name, since, is_stopped) = Default::default();
        OwnBuild { start_ts: *start_ts, space: *space, index: spec.id, name, since, is_stopped }
    }

    /// What the list says of it.
    pub(super) fn find<'a>(&self, list: &'a mut [Announced]) -> Option<&'a mut Announced> {
        list.iter_mut().find(|other| other.is(self.start_ts, self.space, self.index))
    }
}

pub(super) fn given_up() -> EngineError {
    refused(
        SqlState::SERIALIZATION_FAILURE,
        "the build of an index was given up, as this server was cut off from the others: run the transaction again",
    )
}

impl Core {
    /// Changes the list of builds.
    async fn change_builds<T>(
        self: &Arc<Core>,
        mut change: impl FnMut(&mut Vec<Announced>) -> T,
    ) -> Result<T, StoreError> {
        let changed = self.change(keys::builds(self.database), |now| {
            let mut list = match parse(now.as_deref()) {
                Ok(list) => list,
                Err(error) => return (None, Err(error)),
            };
            let told = change(&mut list);
            let next = encode(&list);
            ((next != now).then_some(next), Ok(told))
        });
        changed.await?
    }

    /// Waits until the commits of every gateway keep to the list as it is now.
    async fn all_follow(&self, is_stopped: &AtomicBool) -> Result<(), StoreError> {
        let ts = self.client.timestamp().await?;
        while self.builds.followed() < ts || !self.gateways.have_followed(ts).await? {
            if is_stopped.load(Ordering::SeqCst) {
                return Err(stopped());
            }
            tokio::time::sleep(LOOK).await;
        }
        Ok(())
    }
}

fn stopped() -> StoreError {
    StoreError::Lost("the build of an index was stopped".to_owned())
}

impl OnlineIndexes for ClusterTable {
    fn build_online(
        &self,
        txn: &mut dyn EngineTxn,
        index: usize,
        name: &str,
    ) -> Result<OnlineBuild, EngineError> {
        let txn = own(txn);
        let Some(index) = self.index(index) else {
            return Err(unsupported("a new primary key by which rows are kept"));
        };
        let spec = &index.spec;
        let missing = self.layout.key_positions(spec).map(|at| &self.layout.columns[at].missing);
        let announced = Announced {
            owner: self.core.gateways.own().to_vec(),
            start_ts: txn.shared.writes.start_ts,
            space: self.space,
            spec: spec.clone(),
            missing: missing.cloned().collect(),
            rows: self.place.prefix.clone(),
            header: self.place.header().to_vec(),
            stage: Stage::DeleteOnly,
        };
        let name = name.to_owned();
        let own = OwnBuild { name, since: txn.next_write(), ..OwnBuild::of(&announced) };
        txn.builds.push(own.clone());
        let (core, (tell, told)) = (Arc::clone(&self.core), oneshot::channel());
        self.core.handle.spawn(async move {
            let built = build(&core, announced, &own).await;
            // Whoever waited may have gone.
            let _ = tell.send(built.map_err(failed));
        });
        let lost = |_| Err(refused(SqlState::INTERNAL_ERROR, "the build of an index has panicked"));
        Ok(Box::pin(async move { told.await.unwrap_or_else(lost) }))
    }

    fn enter_own(&self, txn: &mut dyn EngineTxn, index: usize) -> Result<(), WriteStop> {
        let txn = own(txn);
        let index = self.index(index).expect("it was built");
        let of = |build: &&OwnBuild| (build.space, build.index) == (self.space, index.spec.id);
        let own = txn.builds.iter().find(of).expect("it was built").clone();
        let (core, shared) = (Arc::clone(&self.core), Arc::clone(&txn.shared));
        let entered = entries::of_own(&core, &shared, &own);
        let entered = self.core.wait(entered)?;
        txn.charge(entered.iter().map(|entry| 2 * entry.key.len() + 256).sum())?;
        let mut buffer = shared.buffer.lock();
        entered.into_iter().for_each(|Mutation { key, value }| buffer.put(key, value));
        buffer.moved();
        Ok(())
    }
}

async fn build(
    core: &Arc<Core>,
    announced: Announced,
    own: &OwnBuild,
) -> Result<Built, StoreError> {
    let lease = core.gateways.lease();
    core.change_builds(|list| list.push(announced.clone())).await?;
    core.all_follow(&own.is_stopped).await?;
    let is_there = core.change_builds(|list| {
        let found = own.find(list).filter(|found| found.stage == Stage::DeleteOnly);
        found.map(|found| found.stage = Stage::WriteOnly).is_some()
    });
    if !is_there.await? {
        return Err(stopped());
    }
    core.all_follow(&own.is_stopped).await?;
    let build = Build::of(core.database, announced);
    let (mut from, end) = (build.announced.rows.clone(), keys::end_of(&build.announced.rows));
    let (mut limit, mut is_again) = (ROWS_AT_ONCE, false);
    loop {
        if own.is_stopped.load(Ordering::SeqCst) {
            return Err(stopped());
        }
        let ts = core.client.timestamp().await?;
        let page = core.client.scan(&from, &end, limit, ts).await?;
        match put_page(core, &build, ts, &page.pairs, is_again, lease).await? {
            Put::Done => match page.next {
                Some(next) => (from, limit, is_again) = (next, (2 * limit).min(ROWS_AT_ONCE), false),
                None => return Ok(Built::Whole),
            },
            Put::Duplicate(values) => return Ok(Built::Duplicate(values)),
            Put::Conflict => (limit, is_again) = ((limit / 2).max(1), true),
        }
    }
}

enum Put {
    Done,
    /// Two rows have a key.
    Duplicate(Row),
    /// Somebody has written one of the entries.
    Conflict,
}

/// Puts the entries of rows, as they are at a timestamp.
async fn put_page(
    core: &Arc<Core>,
    build: &Build,
    ts: u64,
    pairs: &[(Vec<u8>, Vec<u8>)],
    is_again: bool,
    lease: u64,
) -> Result<Put, StoreError> {
    let corrupt = |error: EngineError| StoreError::Protocol(error.to_string());
    let mut entries = HashMap::new();
    for (at, value) in pairs {
        let Some(cells) = build.cells(value) else { continue };
        let row_key = keys::row_key(at);
        let entry = build.index.entry(cells, row_key).map_err(corrupt)?;
        if entries.insert(entry.at, row_key).is_some() {
            return Ok(Put::Duplicate(build.index.values(cells).map_err(corrupt)?));
        }
    }
    if is_again || build.index.spec.unique {
        // Of whoever has written the row since it is followed, or of an attempt whose answer was lost.
        let there = core.client.get_all(entries.keys().cloned().collect(), ts).await?;
        for (key, value) in there {
            let row_key = entries.remove(&key).expect("it was asked for");
            if keys::of_entry_value(&value) != Some(row_key) {
                let row = pairs.iter().find(|(at, _)| keys::row_key(at) == row_key);
                let cells = row.and_then(|(_, value)| build.cells(value)).expect("it is of the page");
                return Ok(Put::Duplicate(build.index.values(cells).map_err(corrupt)?));
            }
        }
    }
    if entries.is_empty() {
        return Ok(Put::Done);
    }
    let value = |row_key| Some(keys::entry_value(row_key));
    let entries = entries.into_iter();
    let mutations = entries.map(|(key, row_key)| Mutation { key, value: value(row_key) }).collect();
    let set = Arc::new(WriteSet::new(Arc::clone(&core.client), ts));
    let pending = match set.prewrite(mutations, true).await {
        Ok(pending) => pending,
        Err(StoreError::Conflict { .. } | StoreError::Locked { .. } | StoreError::Lost(_)) => {
            return Ok(Put::Conflict);
        }
        Err(error) => return Err(error),
    };
    let may = |ts| core.gateways.may_commit(lease, ts);
    if !may(pending.commit_ts) {
        pending.roll_back().await;
        return Err(stopped());
    }
    match pending.commit_if(may).await {
        Ok(_) => Ok(Put::Done),
        Err(StoreError::Lost(_)) => Ok(Put::Conflict),
        Err(error) => Err(error),
    }
}

/// Gives a build up, if it is not public: again and again, until it is gone.
pub async fn give_up(core: Arc<Core>, own: OwnBuild) {
    own.stop();
    while let Err(error) = try_give_up(&core, &own).await {
        tracing::debug!(%error, index = %own.index, "a build is given up later");
        tokio::time::sleep(AGAIN).await;
    }
}

async fn try_give_up(core: &Arc<Core>, own: &OwnBuild) -> Result<(), StoreError> {
    let given_up =
        |list: &mut Vec<Announced>| own.find(list).map(|found| found.stage = Stage::GivenUp);
    if core.change_builds(given_up).await?.is_none() {
        return Ok(());
    }
    core.all_follow(&AtomicBool::new(false)).await?;
    let prefix = keys::index(core.database, own.space, own.index);
    txn::delete_range(core, &prefix, |_| true).await?;
    core.change_builds(|list| list.retain(|b| !b.is(own.start_ts, own.space, own.index))).await
}

/// Gives up what is left of gateways that are gone, if it is for this one to do.
pub async fn clean_up(core: &Arc<Core>) {
    let builds = core.builds.known.read().builds.clone();
    for build in builds.iter().filter(|_| core.gateways.leads()) {
        if core.gateways.lives(&build.announced.owner).await.unwrap_or(true) {
            continue;
        }
        let own = OwnBuild::of(&build.announced);
        let name = (own.start_ts, own.index);
        if core.builds.cleaning.lock().insert(name) {
            let core = Arc::clone(core);
            core.handle.clone().spawn(async move {
                give_up(Arc::clone(&core), own).await;
                core.builds.cleaning.lock().remove(&name);
            });
        }
    }
}
