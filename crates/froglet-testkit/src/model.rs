//! The model: every version of every row in a map, and the rules of the contract in plain words.

use std::collections::BTreeMap;

use froglet_engine::{Home, IndexId, Lsn, Row, RowId, Snapshot, Ts, TxnId, WriteStop};

use crate::tables::{TABLES, TableSpec, key_of, same_row, tables};

/// A committed version of a row.
#[derive(Debug)]
pub(crate) struct Version {
    pub ts: Ts,
    /// Where the log is durable with it.
    pub lsn: Lsn,
    /// None: deleted.
    pub row: Option<Row>,
}

/// A write of an open transaction.
#[derive(Debug)]
pub(crate) enum Write {
    Insert(Row),
    /// The changed columns, and the row afterwards.
    Update(Vec<usize>, Row),
    Delete,
    Lock,
}

impl Write {
    /// The row as this leaves it; None for a lock, which leaves it alone.
    fn state(&self) -> Option<Option<&Row>> {
        match self {
            Write::Insert(row) | Write::Update(_, row) => Some(Some(row)),
            Write::Delete => Some(None),
            Write::Lock => None,
        }
    }
}

/// Everything that ever was at a row id.
#[derive(Debug, Default)]
pub(crate) struct Slot {
    /// Oldest first.
    pub committed: Vec<Version>,
    /// Who has it, while there are pending writes.
    pub holder: Option<TxnId>,
    /// In their order.
    pub pending: Vec<Write>,
}

impl Slot {
    /// The newest committed row.
    pub fn newest(&self) -> Option<&Row> {
        self.committed.last().and_then(|version| version.row.as_ref())
    }

    /// What a transaction's writes have made of it; None if they are none, or only locks.
    fn made_by(&self, txn: TxnId) -> Option<Option<&Row>> {
        let own = self.holder == Some(txn);
        own.then(|| self.pending.iter().rev().find_map(Write::state)).flatten()
    }

    /// What a transaction would write over.
    pub fn state_for(&self, txn: TxnId) -> Option<&Row> {
        self.made_by(txn).unwrap_or_else(|| self.newest())
    }

    /// The committed version that a view sees, if it does not see something newer of its own.
    pub fn version(&self, view: &Snapshot) -> Option<&Version> {
        if view.own.0 != 0 && self.made_by(view.own).is_some() {
            return None;
        }
        self.committed.iter().rev().find(|version| version.ts <= view.ts)
    }

    /// What a view sees.
    pub fn visible(&self, view: &Snapshot) -> Option<&Row> {
        let own = if view.own.0 == 0 { None } else { self.made_by(view.own) };
        own.unwrap_or_else(|| self.version(view).and_then(|version| version.row.as_ref()))
    }
}

/// Why a write stops: [`WriteStop`], comparable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    Busy(TxnId),
    Changed,
    Gone,
    Duplicate(IndexId, RowId),
}

impl Stop {
    /// What the engine said.
    pub fn of(stop: &WriteStop) -> Result<Stop, String> {
        Ok(match stop {
            WriteStop::Busy { holder } => Stop::Busy(*holder),
            WriteStop::Changed => Stop::Changed,
            WriteStop::Gone => Stop::Gone,
            WriteStop::Duplicate { index, other } => Stop::Duplicate(*index, *other),
            WriteStop::Moved => return Err("a row has moved that nobody moves".to_owned()),
            WriteStop::Engine(error) => return Err(format!("the engine failed: {error}")),
        })
    }
}

/// A table's position and a row of it.
pub(crate) type Place = (usize, RowId);

/// What a crash leaves or does not leave, as a whole.
#[derive(Debug)]
pub(crate) enum Event {
    /// When a transaction committed, the rows that it left behind, and what it keeps.
    Commit(Ts, Vec<(Place, Option<Row>)>, Vec<(u64, Vec<usize>)>),
    Note(u64, Vec<u8>),
    Release(u64),
}

/// Tables as of a timestamp.
#[derive(Debug, Default, Clone)]
pub(crate) struct Kept {
    pub ts: Ts,
    pub tables: Vec<usize>,
    pub rows: BTreeMap<Place, Row>,
}

impl Kept {
    fn same(&self, other: &Kept) -> bool {
        self.ts == other.ts && same_rows(&self.rows, &other.rows)
    }
}

/// An empty note is none.
pub(crate) fn put_note(notes: &mut BTreeMap<u64, Vec<u8>>, key: u64, value: &[u8]) {
    match value.is_empty() {
        true => drop(notes.remove(&key)),
        false => drop(notes.insert(key, value.to_vec())),
    }
}

/// Committed rows, notes, and what is kept for whom.
#[derive(Debug, Default, Clone)]
pub(crate) struct State {
    pub rows: BTreeMap<Place, Row>,
    pub notes: BTreeMap<u64, Vec<u8>>,
    pub kept: BTreeMap<u64, Kept>,
    /// What was at each place, oldest first. Nobody can read this from an engine.
    pub past: BTreeMap<Place, BTreeMap<Ts, Option<Row>>>,
}

fn same_rows(rows: &BTreeMap<Place, Row>, others: &BTreeMap<Place, Row>) -> bool {
    let same = |((place, row), (other, like)): ((&Place, &Row), (&Place, &Row))| {
        place == other && same_row(row, like)
    };
    rows.len() == others.len() && rows.iter().zip(others).all(same)
}

fn put(rows: &mut BTreeMap<Place, Row>, place: Place, row: &Option<Row>) {
    match row {
        Some(row) => rows.insert(place, row.clone()),
        None => rows.remove(&place),
    };
}

impl State {
    pub fn apply(&mut self, event: &Event) {
        match event {
            Event::Commit(ts, rows, keeps) => {
                for (place, row) in rows {
                    put(&mut self.rows, *place, row);
                    self.past.entry(*place).or_default().insert(*ts, row.clone());
                    // The log may have a later timestamp first.
                    for kept in self.kept.values_mut() {
                        if *ts <= kept.ts && kept.tables.contains(&place.0) {
                            put(&mut kept.rows, *place, row);
                        }
                    }
                }
                for (keeper, tables) in keeps {
                    let kept = self.as_of(*ts, tables.clone());
                    self.kept.insert(*keeper, kept);
                }
            }
            Event::Release(keeper) => {
                self.kept.remove(keeper);
            }
            Event::Note(key, value) => {
                put_note(&mut self.notes, *key, value);
            }
        }
    }

    fn as_of(&self, ts: Ts, tables: Vec<usize>) -> Kept {
        let mut rows = BTreeMap::new();
        for (place, versions) in self.past.iter().filter(|(place, _)| tables.contains(&place.0)) {
            if let Some((_, row)) = versions.range(..=ts).next_back() {
                put(&mut rows, *place, row);
            }
        }
        Kept { ts, tables, rows }
    }

    pub fn same(&self, other: &State) -> bool {
        self.notes == other.notes
            && same_rows(&self.rows, &other.rows)
            && self.kept.len() == other.kept.len()
            && self
                .kept
                .iter()
                .zip(&other.kept)
                .all(|((keeper, kept), (other, like))| keeper == other && kept.same(like))
    }
}

/// A write of an open transaction, of whatever kind.
#[derive(Debug, Clone)]
pub(crate) enum Done {
    /// To a place.
    Row(Place),
    /// For a keeper, these tables.
    Keep(u64, Vec<usize>),
}

/// What an engine should be.
#[derive(Debug)]
pub(crate) struct Model {
    pub specs: [TableSpec; TABLES],
    pub slots: [BTreeMap<RowId, Slot>; TABLES],
    /// What open transactions have written, in order, repeats and locks included.
    pub writes: BTreeMap<TxnId, Vec<Done>>,
    /// What is kept for whom: as of when, and which tables.
    pub kept: BTreeMap<u64, (Ts, Vec<usize>)>,
    /// What the engine recovered last.
    pub base: State,
    /// What was appended to the log since, in its order, and the end of each.
    pub events: Vec<(Lsn, Event)>,
    pub notes: BTreeMap<u64, Vec<u8>>,
}

impl Model {
    pub fn new(homes: [Home; TABLES]) -> Model {
        Model {
            specs: tables(homes),
            slots: Default::default(),
            writes: BTreeMap::new(),
            kept: BTreeMap::new(),
            base: State::default(),
            events: Vec::new(),
            notes: BTreeMap::new(),
        }
    }

    /// Why `txn` may not write to an existing row id on the ground of what it saw at `base`.
    pub fn claim(&self, txn: TxnId, base: Ts, (table, rid): Place) -> Result<&Row, Stop> {
        let slot = self.slots[table].get(&rid).ok_or(Stop::Gone)?;
        if let Some(holder) = slot.holder.filter(|holder| *holder != txn) {
            return Err(Stop::Busy(holder));
        }
        let row = slot.state_for(txn).ok_or(Stop::Gone)?;
        match slot.committed.last() {
            Some(newest) if slot.holder.is_none() && newest.ts > base => Err(Stop::Changed),
            _ => Ok(row),
        }
    }

    /// Every reason why `txn` may not make this row: rows that have, or may come to have, a
    /// unique key of it. `old`: the row that it replaces; keys that stay are not looked at.
    pub fn rivals(&self, txn: TxnId, table: usize, new: &Row, old: Option<Place>) -> Vec<Stop> {
        let spec = &self.specs[table];
        let before = old.map(|(table, rid)| {
            self.slots[table][&rid].state_for(txn).expect("an update has a row to change")
        });
        let mut stops = Vec::new();
        for index in spec.wide.indexes.iter().filter(|index| index.unique) {
            let (key, has_null) = key_of(spec, index, new);
            if has_null || before.is_some_and(|row| key_of(spec, index, row).0 == key) {
                continue;
            }
            let has = |row: Option<&Row>| row.is_some_and(|row| key_of(spec, index, row).0 == key);
            let others = self.slots[table].iter().filter(|(rid, _)| old != Some((table, **rid)));
            for (&other, slot) in others {
                let states: Vec<Option<&Row>> =
                    slot.pending.iter().filter_map(Write::state).collect();
                let undecided = slot.holder.filter(|holder| *holder != txn && !states.is_empty());
                if let Some(holder) = undecided {
                    // Whatever it may fall back to counts.
                    if has(slot.newest()) || states.into_iter().any(has) {
                        stops.push(Stop::Busy(holder));
                    }
                } else if has(slot.state_for(txn)) {
                    stops.push(Stop::Duplicate(index.id, other));
                }
            }
        }
        stops
    }

    /// `txn` writes.
    pub fn write(&mut self, txn: TxnId, (table, rid): Place, write: Write) {
        let slot = self.slots[table].entry(rid).or_default();
        assert!(slot.holder.is_none_or(|holder| holder == txn), "a row has one writer at a time");
        slot.holder = Some(txn);
        slot.pending.push(write);
        self.writes.entry(txn).or_default().push(Done::Row((table, rid)));
    }

    /// `txn` keeps tables.
    pub fn keep(&mut self, txn: TxnId, keeper: u64, tables: Vec<usize>) {
        self.writes.entry(txn).or_default().push(Done::Keep(keeper, tables));
    }

    /// What `txn` keeps.
    pub fn keeps(&self, txn: TxnId) -> Vec<(u64, Vec<usize>)> {
        let keep = |done: &Done| match done {
            Done::Keep(keeper, tables) => Some((*keeper, tables.clone())),
            Done::Row(_) => None,
        };
        self.writes.get(&txn).map_or(Vec::new(), |writes| writes.iter().filter_map(keep).collect())
    }

    /// Takes writes back until `count` are left.
    pub fn roll_back(&mut self, txn: TxnId, count: usize) {
        let Some(writes) = self.writes.get_mut(&txn) else { return };
        for done in writes.drain(count.min(writes.len())..).rev() {
            let Done::Row((table, rid)) = done else { continue };
            let slot = self.slots[table].get_mut(&rid).expect("a written row is known");
            slot.pending.pop();
            if slot.pending.is_empty() {
                slot.holder = None;
            }
        }
    }

    /// How many writes `txn` has made.
    pub fn write_count(&self, txn: TxnId) -> usize {
        self.writes.get(&txn).map_or(0, Vec::len)
    }

    /// The rows that `txn` has written, locks apart.
    pub fn changed(&self, txn: TxnId) -> Vec<Place> {
        let writes = self.writes.get(&txn).into_iter().flatten();
        let mut places: Vec<Place> = writes
            .filter_map(|done| match done {
                Done::Row(place) => Some(*place),
                Done::Keep(..) => None,
            })
            .collect();
        places.retain(|(table, rid)| self.slots[*table][rid].made_by(txn).is_some());
        places.sort_unstable();
        places.dedup();
        places
    }

    /// `txn` commits at `ts`.
    pub fn commit(&mut self, txn: TxnId, ts: Ts, lsn: Lsn) {
        let (changed, keeps) = (self.changed(txn), self.keeps(txn));
        let mut rows = Vec::new();
        for (table, rid) in changed {
            let slot = self.slots[table].get_mut(&rid).expect("a written row is known");
            let row = slot.made_by(txn).expect("it was changed").cloned();
            slot.committed.push(Version { ts, lsn, row: row.clone() });
            rows.push(((table, rid), row));
        }
        self.roll_back(txn, 0);
        self.writes.remove(&txn);
        self.kept.extend(keeps.iter().map(|(keeper, tables)| (*keeper, (ts, tables.clone()))));
        if !rows.is_empty() || !keeps.is_empty() {
            self.events.push((lsn, Event::Commit(ts, rows, keeps)));
        }
    }

    /// `txn` is gone without a trace.
    pub fn abort(&mut self, txn: TxnId) {
        self.roll_back(txn, 0);
        self.writes.remove(&txn);
    }

    /// The transaction other than `own` that deletes the row or changes one of these columns.
    pub fn changer(&self, (table, rid): Place, columns: &[usize], own: TxnId) -> Option<TxnId> {
        let slot = self.slots[table].get(&rid)?;
        let changes = |write: &Write| match write {
            Write::Update(changed, _) => changed.iter().any(|at| columns.contains(at)),
            Write::Delete => true,
            Write::Insert(_) | Write::Lock => false,
        };
        slot.holder.filter(|holder| *holder != own && slot.pending.iter().any(changes))
    }

    /// Starts again from what was recovered.
    pub fn recovered(&mut self, state: State) {
        self.writes.clear();
        self.events.clear();
        self.slots = Default::default();
        for (&(table, rid), versions) in &state.past {
            let version =
                |(ts, row): (&Ts, &Option<Row>)| Version { ts: *ts, lsn: Lsn(0), row: row.clone() };
            self.slots[table].entry(rid).or_default().committed =
                versions.iter().map(version).collect();
        }
        let kept = state.kept.iter();
        self.kept = kept.map(|(keeper, k)| (*keeper, (k.ts, k.tables.clone()))).collect();
        self.notes = state.notes.clone();
        self.base = state;
    }
}
