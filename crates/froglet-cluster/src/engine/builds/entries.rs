//! What a commit takes along of the builds that it has met: the entries that its rows need, and a look at them.
//!
//! ```text
//!   a row before: what it was when it was locked        after: what is to be committed of it
//!        delete-only   its entry goes, if it has it no more
//!        write-only    its entry goes, and the one that it has comes, if it had that before or not [B3]
//!        a condition   is true for it, or NULL; or its build is marked [B4]
//!        a foreign key holds with it (`foreign_keys`), or is marked as well
//! ```

use std::collections::BTreeMap;

use smallvec::SmallVec;

use froglet_engine::online::NoNull;

use super::builder::{find, given_up};
use super::foreign_keys::Writer;
use super::*;
use crate::client::{LONGEST_LOCK, Mutation};
use crate::engine::place::Place;
use crate::engine::{failed, unsupported};

/// Whoever has a key of a unique index that is built, and not public yet, is waited for so long.
const LONGEST_LOCK_OF_BUILD: Duration = Duration::from_secs(1);

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
pub enum Taken {
    Entries(Vec<Mutation>),
    /// Two rows would have a key, or a condition is false.
    Violated,
}

/// Adds to what a transaction commits what builds need of it.
pub async fn take_along(
    core: &Arc<Core>,
    shared: &Shared,
    own: &[OwnBuild],
    mutations: &mut Vec<Mutation>,
) -> Result<(), EngineError> {
    let mut violated = Vec::new();
    for build in core.builds.of(shared).await? {
        let taken = match &build.work {
            Work::Index(index) => {
                let rows = Rows::of_build(&build);
                let locking = if build.is_public { OnBusy::Fail } else { OnBusy::GiveUp };
                let puts = build.puts();
                let taken = taken(core, shared, rows, (index, puts, locking), mutations).await?;
                // What was written under a layout that has the index is among it, if it is right.
                mutations.retain(|mutation| !mutation.key.starts_with(&index.prefix));
                taken
            }
            Work::Check { columns, check } => {
                look_at(core, &build, (columns, check), mutations).await?
            }
            Work::ForeignKey(key) => {
                let who = match build.is_public {
                    true => Writer::Unknowing { is_public: true },
                    false if own.iter().any(|own| own.name == build.announced.name) => Writer::Own,
                    false => Writer::Unknowing { is_public: false },
                };
                match key.holds(core, shared, who, mutations).await? {
                    true => Taken::Entries(Vec::new()),
                    false => Taken::Violated,
                }
            }
        };
        match taken {
            Taken::Entries(entries) => mutations.extend(entries),
            Taken::Violated => violated.push(build),
        }
    }
    settle(core, shared, own, &violated, mutations).await
}

/// The entries of what a transaction has written, under a layout that has the index.
pub async fn enter(
    core: &Core,
    shared: &Shared,
    place: &Place,
    index: &Index,
    written: &[Mutation],
) -> Result<Taken, EngineError> {
    taken(core, shared, Rows::at(place), (index, true, OnBusy::Fail), written).await
}

pub fn added_meanwhile() -> EngineError {
    refused(
        SqlState::SERIALIZATION_FAILURE,
        "a constraint was added meanwhile, which this transaction would violate: run it again",
    )
}

/// Where rows of a table are, and what is before their cells.
#[derive(Clone, Copy)]
pub struct Rows<'a> {
    prefix: &'a [u8],
    header: &'a [u8],
}

/// What rows have in some columns.
pub fn read_all<'c>(
    columns: &Wanted,
    cells: impl Iterator<Item = &'c [u8]>,
) -> Result<Vec<Row>, EngineError> {
    let row = |cells| {
        let mut row = Row::new();
        columns.read(cells, &mut row).map(|()| row)
    };
    cells.map(row).collect()
}

impl<'a> Rows<'a> {
    pub fn at(place: &'a Place) -> Rows<'a> {
        Rows { prefix: &place.prefix, header: place.header() }
    }

    fn of_build(build: &'a Build) -> Rows<'a> {
        Rows { prefix: &build.announced.rows, header: &build.announced.header }
    }

    /// The cells of those rows that are written, and not deleted.
    pub fn cells_in<'m>(
        self,
        mutations: &'m [Mutation],
    ) -> impl Iterator<Item = &'m [u8]> + use<'a, 'm> {
        let cells = move |value: &'m Option<Vec<u8>>| place::cells(self.header, value.as_deref()?);
        self.of(mutations).filter_map(move |mutation| cells(&mutation.value))
    }

    pub fn of<'m>(
        self,
        mutations: &'m [Mutation],
    ) -> impl Iterator<Item = &'m Mutation> + use<'a, 'm> {
        mutations.iter().filter(move |mutation| mutation.key.starts_with(self.prefix))
    }
}

/// What a commit does that finds a key of a unique index locked for too long.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OnBusy {
    /// The index is there: it waits as whoever writes that does.
    Fail,
    /// Nobody waits long, or fails, for an index that may never be.
    GiveUp,
}

/// Looks at rows that are to be committed.
async fn look_at(
    core: &Core,
    build: &Build,
    (columns, check): (&Wanted, &OnceCell<Arc<dyn RowCheck>>),
    mutations: &[Mutation],
) -> Result<Taken, EngineError> {
    let rows = read_all(columns, Rows::of_build(build).cells_in(mutations))?;
    if rows.is_empty() {
        return Ok(Taken::Entries(Vec::new()));
    }
    let made = check.get_or_try_init(|| async {
        let What::Check { recipe: Some(recipe), .. } = &build.announced.what else {
            return Ok(Arc::new(NoNull) as Arc<dyn RowCheck>);
        };
        let make = core.builds.make_check.get();
        let make = make.ok_or_else(|| unsupported("a condition"))?;
        // It may read the store.
        Core::aside(|| make(recipe))
    });
    let is_violated = match made.await {
        // For a row that it fails for it does not hold.
        Ok(check) => check.first_violated(&rows).map_or(true, |violated| violated.is_some()),
        Err(error) => {
            tracing::warn!(%error, "a condition that is verified cannot be made here: it will fail");
            true
        }
    };
    Ok(if is_violated { Taken::Violated } else { Taken::Entries(Vec::new()) })
}

async fn taken(
    core: &Core,
    shared: &Shared,
    rows: Rows<'_>,
    (index, puts, on_busy): (&Index, bool, OnBusy),
    mutations: &[Mutation],
) -> Result<Taken, EngineError> {
    let touched = touched(shared, rows, index, mutations)?;
    let unique = touched.iter().filter(|(_, touched)| touched.is_unique);
    let unique: Vec<Vec<u8>> = unique.map(|(key, _)| key.clone()).collect();
    let patience = match on_busy {
        OnBusy::Fail => LONGEST_LOCK,
        OnBusy::GiveUp => LONGEST_LOCK_OF_BUILD,
    };
    let there = match shared.lock_now(core, unique, patience).await {
        Ok(there) => there,
        Err(StoreError::Locked { .. } | StoreError::Deadlock) if on_busy == OnBusy::GiveUp => {
            return Ok(Taken::Violated);
        }
        Err(error) => return Err(failed(error)),
    };
    let mut entries = Vec::new();
    for (key, Touched { is_unique, before, after }) in touched {
        let holder = there.get(&key).and_then(|value| keys::of_entry_value(value));
        let is_others =
            holder.is_some_and(|row| !before.iter().chain(&after).any(|own| own == row));
        let comes = puts.then(|| after.first()).flatten();
        match comes {
            Some(_) if is_unique && (is_others || after.len() > 1) => return Ok(Taken::Violated),
            Some(row) => entries.push(Mutation { key, value: Some(keys::entry_value(row)) }),
            // It goes, if nobody has it, or if it is of a row that has it no more.
            None if !is_others && !after.iter().any(|row| holder.is_none_or(|of| of == row)) => {
                entries.push(Mutation { key, value: None });
            }
            None => {}
        }
    }
    Ok(Taken::Entries(entries))
}

/// The keys of entries that rows of the transaction have had, and have.
fn touched(
    shared: &Shared,
    rows: Rows<'_>,
    index: &Index,
    mutations: &[Mutation],
) -> Result<BTreeMap<Vec<u8>, Touched>, EngineError> {
    let mut all: BTreeMap<Vec<u8>, Touched> = BTreeMap::new();
    let buffer = shared.buffer.lock();
    for Mutation { key, value } in rows.of(mutations) {
        let row_key = keys::row_key(key);
        let mut entry_of = |value: Option<&Vec<u8>>, is_after: bool| {
            let cells = value.and_then(|value| place::cells(rows.header, value));
            let Some(cells) = cells else { return Ok(()) };
            let entry = index.entry(cells, row_key)?;
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
    let there = shared.lock_now(core, vec![key.clone()], LONGEST_LOCK).await.map_err(failed)?;
    let mut list = parse(there.get(&key).map(Vec::as_slice)).map_err(failed)?;
    for build in violated {
        match find(&mut list, build.announced.name) {
            // Nobody asks for more than that it is not there yet.
            Some(_) if !build.is_verified() => {}
            Some(found) => found.stage = found.stage.max(Stage::Violated),
            None => return Err(added_meanwhile()),
        }
    }
    for build in own {
        match find(&mut list, build.name).map(|found| found.stage) {
            Some(Stage::WriteOnly) => {}
            Some(Stage::Violated) => return Err(build.violated.clone()),
            Some(Stage::DeleteOnly | Stage::GivenUp) | None => return Err(given_up()),
        }
        list.retain(|other| other.name != build.name);
    }
    mutations.push(Mutation { key, value: encode(&list) });
    Ok(())
}
