//! Who builds an index, gives it up, or cleans up after somebody who is gone.
//!
//! Entries of rows that were there are put page by page, each in a transaction of its own that reads the page as of its
//! start. Its name is that start: whoever has written an entry of the page since is a conflict, and the page is read
//! again [B3].

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use froglet_engine::{
    BuildOf, Built, EngineTxn, OnlineBuild, OnlineCheck, OnlineForeignKey, OnlineIndexes,
};
use tokio::sync::oneshot;

use super::entries::{self, Rows, Taken, added_meanwhile, read_all};
use super::*;
use crate::client::{Mutation, WriteSet};
use crate::engine::table::{ClusterTable, own};
use crate::engine::txn::ClusterTxn;
use crate::engine::{failed, txn, unsupported};

/// Rows whose entries are put together, at most.
const ROWS_AT_ONCE: u32 = 1_024;
/// How often whoever waits for others looks.
const FOLLOWED_LOOK: Duration = Duration::from_millis(15);
/// A build ends if this gateway hears nothing of the others for so long.
const LONGEST_SILENCE: Duration = Duration::from_secs(10);
/// What cannot be given up now is given up later.
const AGAIN: Duration = Duration::from_millis(500);
/// Before a page is read again that somebody has written in.
const CONFLICT_PAUSE: Duration = Duration::from_millis(5);

/// A build of a transaction.
#[derive(Clone, Debug)]
pub struct OwnBuild {
    pub(super) name: Name,
    /// The transaction's writes before it.
    since: u32,
    pub space: SpaceId,
    pub of: BuildOf,
    /// The transaction's error where it cannot be.
    pub(super) violated: EngineError,
    is_stopped: Arc<AtomicBool>,
    /// Nobody works at it any more.
    is_done: Arc<AtomicBool>,
}

impl OwnBuild {
    /// The transaction's writes before it.
    pub fn since(&self) -> u32 {
        self.since
    }

    /// It ends as soon as it can.
    pub fn stop(&self) {
        self.is_stopped.store(true, Ordering::SeqCst);
    }
}

/// What the list says of a build.
pub(super) fn find(list: &mut [Announced], name: Name) -> Option<&mut Announced> {
    list.iter_mut().find(|other| other.name == name)
}

pub(super) fn given_up() -> EngineError {
    refused(
        SqlState::SERIALIZATION_FAILURE,
        "an index or a constraint was given up, as this server was cut off from the others: run the transaction again",
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
    pub async fn all_follow(&self, is_stopped: &AtomicBool) -> Result<(), StoreError> {
        let ts = self.client.timestamp().await?;
        let (lease, mut until) = (self.gateways.lease(), Instant::now() + LONGEST_SILENCE);
        loop {
            match self.gateways.have_followed(ts).await {
                Ok(true) if self.builds.followed() >= ts => return Ok(()),
                Ok(_) => until = Instant::now() + LONGEST_SILENCE,
                // Who cannot be asked now is asked again.
                Err(error) if Instant::now() >= until => return Err(error),
                Err(_) => {}
            }
            if is_stopped.load(Ordering::SeqCst) || self.gateways.lease() != lease {
                return Err(stopped());
            }
            tokio::time::sleep(FOLLOWED_LOOK).await;
        }
    }
}

fn stopped() -> StoreError {
    StoreError::Refused(given_up())
}

/// Dropped, a build is not worked at any more.
struct Done(Arc<AtomicBool>);

impl Drop for Done {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Dropped, nobody looks any more.
struct Stops(Arc<AtomicBool>);

impl Drop for Stops {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

fn panicked() -> EngineError {
    refused(SqlState::INTERNAL_ERROR, "the build of an index has panicked")
}

impl ClusterTable {
    fn put_entries(&self, txn: &mut ClusterTxn, entries: Vec<Mutation>) -> Result<(), EngineError> {
        txn.charge(entries.iter().map(|entry| 2 * entry.key.len() + 256).sum())?;
        let mut buffer = txn.shared.buffer.lock();
        entries.into_iter().for_each(|Mutation { key, value }| buffer.put(key, value));
        buffer.moved();
        Ok(())
    }

    fn announced(&self, name: Name, (of, what, stage): (BuildOf, What, Stage)) -> Announced {
        Announced {
            owner: self.core.gateways.own().to_vec(),
            name,
            space: self.space,
            of,
            rows: self.place.prefix.clone(),
            header: self.place.header().to_vec(),
            what,
            stage,
        }
    }

    /// Looks at all rows, and tells nobody. It ends when this is dropped.
    fn look_at_all(&self, shared: Arc<Shared>, announced: Announced) -> OnlineBuild {
        let core = Arc::clone(&self.core);
        let is_stopped = Arc::<AtomicBool>::default();
        let stops = Stops(Arc::clone(&is_stopped));
        let looking = self.core.handle.spawn(async move {
            let (build, lease) =
                (Build::of(core.database, announced, false), core.gateways.lease());
            visit_rows(&core, &shared, &build, None, &is_stopped, lease).await
        });
        Box::pin(async move {
            let _stops = stops;
            looking.await.map_err(|_| panicked())?.map_err(failed)
        })
    }

    /// Begins a build, which is the transaction's.
    fn begin(
        &self,
        txn: &mut ClusterTxn,
        (of, what, stage): (BuildOf, What, Stage),
        check: Option<Arc<dyn RowCheck>>,
        violated: EngineError,
    ) -> OnlineBuild {
        let (name, since) = ((txn.shared.writes.start_ts, txn.next_build()), txn.next_write());
        let announced = self.announced(name, (of, what, stage));
        let (is_stopped, is_done) = Default::default();
        let own = OwnBuild { name, since, space: self.space, of, violated, is_stopped, is_done };
        txn.builds.push(own.clone());
        let (core, (tell, told)) = (Arc::clone(&self.core), oneshot::channel());
        let shared = Arc::clone(&txn.shared);
        let done = Done(Arc::clone(&own.is_done));
        self.core.handle.spawn(async move {
            let _done = done;
            let built = build(&core, &shared, announced, check, &own).await;
            // Whoever waited may have gone.
            let _ = tell.send(built.map_err(failed));
        });
        Box::pin(async move { told.await.unwrap_or_else(|_| Err(panicked())) })
    }
}

impl OnlineIndexes for ClusterTable {
    fn build_online(
        &self,
        txn: &mut dyn EngineTxn,
        index: usize,
        name: &str,
    ) -> Result<OnlineBuild, EngineError> {
        let Some(index) = self.index(index) else {
            return Err(unsupported("a new primary key by which rows are kept"));
        };
        let spec = index.spec.clone();
        let missing = self.layout.key_positions(&spec).map(|at| &self.layout.columns[at].missing);
        let what = What::Index { missing: missing.cloned().collect(), spec };
        let message =
            format!("could not create unique index \"{name}\": a key is, or may be, duplicated");
        let violated = refused(SqlState::UNIQUE_VIOLATION, message);
        let of = BuildOf::Index(index.spec.id);
        Ok(self.begin(own(txn), (of, what, Stage::DeleteOnly), None, violated))
    }

    fn enter_own(&self, txn: &mut dyn EngineTxn, index: usize) -> Result<(), EngineError> {
        let txn = own(txn);
        let index = self.index(index).expect("it was built");
        let is_it = |build: &&OwnBuild| {
            (build.space, build.of) == (self.space, BuildOf::Index(index.spec.id))
        };
        let own = txn.builds.iter().find(is_it).expect("it was built").clone();
        let written = txn.shared.buffer.lock().mutations();
        let entered = entries::enter(&self.core, &txn.shared, &self.place, index, &written);
        match self.core.wait(entered)? {
            Taken::Entries(entries) => self.put_entries(txn, entries),
            Taken::Violated => Err(own.violated),
        }
    }

    fn enter_newer(&self, txn: &mut dyn EngineTxn) -> Result<(), EngineError> {
        let txn = own(txn);
        let written = txn.shared.buffer.lock().mutations();
        for index in self.others() {
            let entered = entries::enter(&self.core, &txn.shared, &self.place, index, &written);
            match self.core.wait(entered)? {
                Taken::Entries(entries) => self.put_entries(txn, entries)?,
                Taken::Violated => return Err(added_meanwhile()),
            }
        }
        Ok(())
    }

    fn verify_online(
        &self,
        txn: &mut dyn EngineTxn,
        check: OnlineCheck,
    ) -> Result<OnlineBuild, EngineError> {
        let txn = own(txn);
        let OnlineCheck { of, columns, check, recipe, violated } = check;
        let columns = columns.iter().map(|at| &self.layout.columns[*at]);
        let columns: Vec<_> = columns.map(|column| (column.id, column.missing.clone())).collect();
        let wanted = Wanted::new(columns.iter().cloned());
        let written = txn.shared.buffer.lock().mutations();
        let mut rows = read_all(&wanted, Rows::at(&self.place).cells_in(&written))?;
        if let Some(at) = check.first_violated(&rows)? {
            let found = Built::Violated(rows.swap_remove(at));
            return Ok(Box::pin(std::future::ready(Ok(found))));
        }
        let what = What::Check { columns, recipe };
        Ok(self.begin(txn, (of, what, Stage::WriteOnly), Some(check), violated))
    }

    fn refer_online(
        &self,
        txn: &mut dyn EngineTxn,
        key: OnlineForeignKey<'_>,
    ) -> Result<OnlineBuild, EngineError> {
        let (txn, core) = (own(txn), &self.core);
        let foreign_key = ForeignKey::new(self, &key);
        if foreign_key.is_verified {
            let written = txn.shared.buffer.lock().mutations();
            let written = Rows::at(&self.place).cells_in(&written);
            let mut rows = read_all(&foreign_key.columns(), written)?;
            let ts = core.now();
            let orphan = foreign_key.first_orphan(core, &txn.shared, &rows, ts);
            if let Some(at) = core.wait(orphan).map_err(failed)? {
                let found = Built::Violated(rows.swap_remove(at));
                return Ok(Box::pin(std::future::ready(Ok(found))));
            }
        }
        let of = BuildOf::ForeignKey(key.id);
        let what = What::ForeignKey(foreign_key);
        if key.is_known {
            let announced =
                self.announced((txn.shared.writes.start_ts, 0), (of, what, Stage::WriteOnly));
            return Ok(self.look_at_all(Arc::clone(&txn.shared), announced));
        }
        Ok(self.begin(txn, (of, what, Stage::WriteOnly), None, key.violated))
    }
}

async fn build(
    core: &Arc<Core>,
    shared: &Shared,
    announced: Announced,
    check: Option<Arc<dyn RowCheck>>,
    own: &OwnBuild,
) -> Result<Built, StoreError> {
    let lease = core.gateways.lease();
    core.change_builds(|list| list.push(announced.clone())).await?;
    core.all_follow(&own.is_stopped).await?;
    if announced.stage == Stage::DeleteOnly {
        let is_there = core.change_builds(|list| {
            let found = find(list, own.name).filter(|found| found.stage == Stage::DeleteOnly);
            found.map(|found| found.stage = Stage::WriteOnly).is_some()
        });
        if !is_there.await? {
            return Err(stopped());
        }
        core.all_follow(&own.is_stopped).await?;
    }
    let build = Build::of(core.database, announced, false);
    match build.is_verified() {
        true => visit_rows(core, shared, &build, check, &own.is_stopped, lease).await,
        false => Ok(Built::Whole),
    }
}

/// Enters all rows that are there, or looks at them.
async fn visit_rows(
    core: &Arc<Core>,
    shared: &Shared,
    build: &Build,
    check: Option<Arc<dyn RowCheck>>,
    is_stopped: &AtomicBool,
    lease: u64,
) -> Result<Built, StoreError> {
    let (mut from, end) = (build.announced.rows.clone(), keys::end_of(&build.announced.rows));
    let (mut limit, mut is_again) = (ROWS_AT_ONCE, false);
    loop {
        if is_stopped.load(Ordering::SeqCst) {
            return Err(stopped());
        }
        let ts = core.client.timestamp().await?;
        let mut page = core.client.scan(&from, &end, limit, ts).await?;
        // What the transaction has written itself is what it will be, and nobody else writes it.
        page.pairs.retain(|(key, _)| shared.buffer.lock().get(key).is_none());
        let done = match (&build.work, &check) {
            (Work::Index(index), _) => {
                put_page(core, build, index, ts, &page.pairs, is_again, lease).await?
            }
            (Work::Check { columns, .. }, Some(check)) => {
                verify_page(build, columns, &**check, &page.pairs)?
            }
            (Work::ForeignKey(key), _) => {
                verify_parents(core, shared, (build, key), ts, &page.pairs).await?
            }
            (Work::Check { .. }, None) => unreachable!("a condition is verified with it"),
        };
        match (done, page.next) {
            (Page::Done, Some(next)) => {
                (from, limit, is_again) = (next, (2 * limit).min(ROWS_AT_ONCE), false);
            }
            (Page::Done, None) => return Ok(Built::Whole),
            (Page::Stopped(built), _) => return Ok(built),
            (Page::Conflict, _) => {
                (limit, is_again) = ((limit / 2).max(1), true);
                tokio::time::sleep(CONFLICT_PAUSE).await;
            }
        }
    }
}

/// What has become of a page.
enum Page {
    Done,
    /// It cannot be.
    Stopped(Built),
    /// Somebody has written one of the entries.
    Conflict,
}

fn unreadable(error: EngineError) -> StoreError {
    StoreError::Protocol(error.to_string())
}

fn verify_page(
    build: &Build,
    columns: &Wanted,
    check: &dyn RowCheck,
    pairs: &[(Vec<u8>, Vec<u8>)],
) -> Result<Page, StoreError> {
    let cells = pairs.iter().filter_map(|(_, value)| build.cells(value));
    let mut rows = read_all(columns, cells).map_err(unreadable)?;
    let violated = check.first_violated(&rows).map_err(StoreError::Refused)?;
    Ok(violated.map_or(Page::Done, |at| Page::Stopped(Built::Violated(rows.swap_remove(at)))))
}

/// Looks for the parents of rows, as they are at a timestamp.
async fn verify_parents(
    core: &Arc<Core>,
    shared: &Shared,
    (build, key): (&Build, &ForeignKey),
    ts: u64,
    pairs: &[(Vec<u8>, Vec<u8>)],
) -> Result<Page, StoreError> {
    let cells = pairs.iter().filter_map(|(_, value)| build.cells(value));
    let mut rows = read_all(&key.columns(), cells).map_err(unreadable)?;
    let orphan = key.first_orphan(core, shared, &rows, ts).await?;
    Ok(orphan.map_or(Page::Done, |at| Page::Stopped(Built::Violated(rows.swap_remove(at)))))
}

/// Puts the entries of rows, as they are at a timestamp.
async fn put_page(
    core: &Arc<Core>,
    build: &Build,
    index: &Index,
    ts: u64,
    pairs: &[(Vec<u8>, Vec<u8>)],
    is_again: bool,
    lease: u64,
) -> Result<Page, StoreError> {
    let duplicate = |cells| {
        let values = index.values(cells).map_err(unreadable)?;
        Ok(Page::Stopped(Built::Duplicate(values)))
    };
    let mut entries = HashMap::new();
    for (at, value) in pairs {
        let Some(cells) = build.cells(value) else { continue };
        let row_key = keys::row_key(at);
        let entry = index.entry(cells, row_key).map_err(unreadable)?;
        if entries.insert(entry.at, row_key).is_some() {
            return duplicate(cells);
        }
    }
    if is_again || index.spec.unique {
        // Of whoever has written the row since it is followed, or of an attempt whose answer was lost.
        let there = core.client.get_all(entries.keys().cloned().collect(), ts).await?;
        for (key, value) in there {
            let row_key = entries.remove(&key).expect("it was asked for");
            if keys::of_entry_value(&value) != Some(row_key) {
                let row = pairs.iter().find(|(at, _)| keys::row_key(at) == row_key);
                let cells =
                    row.and_then(|(_, value)| build.cells(value)).expect("it is of the page");
                return duplicate(cells);
            }
        }
    }
    if entries.is_empty() {
        return Ok(Page::Done);
    }
    let value = |row_key| Some(keys::entry_value(row_key));
    let entries = entries.into_iter();
    let mutations = entries.map(|(key, row_key)| Mutation { key, value: value(row_key) }).collect();
    let set = Arc::new(WriteSet::new(Arc::clone(&core.client), ts));
    let pending = match set.try_prewrite(mutations).await {
        Ok(pending) => pending,
        Err(StoreError::Conflict { .. } | StoreError::Locked { .. } | StoreError::Lost(_)) => {
            return Ok(Page::Conflict);
        }
        Err(error) => return Err(error),
    };
    match core.commit_under(lease, pending).await {
        Ok(true) => Ok(Page::Done),
        Ok(false) => Err(stopped()),
        Err(StoreError::Lost(_)) => Ok(Page::Conflict),
        Err(error) => Err(error),
    }
}

/// Gives a build up, if it is not public: again and again, until it is gone.
pub async fn give_up(core: Arc<Core>, own: OwnBuild) {
    own.stop();
    // What it is about to do is done, before it is undone.
    while !own.is_done.load(Ordering::SeqCst) {
        tokio::time::sleep(FOLLOWED_LOOK).await;
    }
    while let Err(error) = try_give_up(&core, &own).await {
        tracing::debug!(%error, of = ?own.of, "a build is given up later");
        tokio::time::sleep(AGAIN).await;
    }
}

async fn try_give_up(core: &Arc<Core>, own: &OwnBuild) -> Result<(), StoreError> {
    let given_up =
        |list: &mut Vec<Announced>| find(list, own.name).map(|found| found.stage = Stage::GivenUp);
    if core.change_builds(given_up).await?.is_none() {
        return Ok(());
    }
    core.all_follow(&AtomicBool::new(false)).await?;
    if let BuildOf::Index(index) = own.of {
        let prefix = keys::index(core.database, own.space, index);
        txn::delete_range(core, &prefix, |_| true).await?;
    }
    core.change_builds(|list| list.retain(|other| other.name != own.name)).await
}

/// Gives up what is left of gateways that are gone, if it is for this one to do.
pub async fn clean_up(core: &Arc<Core>) {
    if !core.gateways.leads() {
        return;
    }
    let builds = core.builds.known.read().builds.clone();
    for Announced { owner, name, space, of, .. } in builds.iter().map(|build| &build.announced) {
        let (name, space, of) = (*name, *space, *of);
        if core.gateways.lives(owner).await.unwrap_or(true) {
            continue;
        }
        if core.builds.cleaning.lock().insert(name) {
            let is_done = Arc::new(AtomicBool::new(true));
            let (violated, is_stopped) = (given_up(), Arc::default());
            let own = OwnBuild { name, since: 0, space, of, violated, is_stopped, is_done };
            let core = Arc::clone(core);
            core.handle.clone().spawn(async move {
                give_up(Arc::clone(&core), own).await;
                core.builds.cleaning.lock().remove(&name);
            });
        }
    }
}
