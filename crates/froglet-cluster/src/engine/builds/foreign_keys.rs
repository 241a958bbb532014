//! Foreign keys that are verified while all gateways write, those too that do not know of them.
//!
//! ```text
//!   a commit of child rows       their parents' keys: locked, there       or the build is marked
//!   of a parent that goes        its children, now: none                  or it is
//!   all children that are there  their parents, as of the same timestamp
//! ```
//! From when all follow, each commit keeps to [K1] of `references`, and a child that was there before is found by the scan,
//! or by whoever takes its parent away after that.

use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;

use froglet_engine::{KeyPart, KeyRange, Layout, OnlineForeignKey, Row, Value, key};

use super::entries::{Rows, read_all};
use super::*;
use crate::client::{LONGEST_LOCK, Mutation};
use crate::engine::failed;
use crate::engine::table::ClusterTable;
use crate::engine::view::View;

/// A foreign key, as the list says it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ForeignKey {
    child: Side,
    parent: Side,
    /// The layout position of the parent's unique index.
    parent_index: usize,
    /// What is there and what is written before the commit is to be right.
    pub is_verified: bool,
}

/// A table, and its columns in the order of the parent's key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Side {
    space: SpaceId,
    layout: Layout,
    columns: Vec<usize>,
}

impl Side {
    fn of(table: &ClusterTable, columns: Vec<usize>) -> Side {
        Side { space: table.space, layout: Layout::clone(&table.layout), columns }
    }

    fn table(&self, core: &Arc<Core>) -> ClusterTable {
        let layout = Arc::new(self.layout.clone());
        ClusterTable::new(Arc::clone(core), self.space, layout).past_fences()
    }

    /// Values of the other side's columns as this one has them, if it can have them.
    fn values_of(&self, other: &Side, values: &[Value]) -> Option<Row> {
        let ty = |side: &Side, at: usize| side.layout.columns[side.columns[at]].ty;
        let own = |(at, value): (usize, &Value)| value.counterpart(ty(other, at), ty(self, at));
        values.iter().enumerate().map(own).collect()
    }

    /// An index that begins with the columns, in whatever order: its position, and for each of these parts the place of
    /// its column.
    fn index(&self) -> Option<(usize, Vec<usize>)> {
        self.layout.indexes.iter().enumerate().find_map(|(at, spec)| {
            let place = |part: &KeyPart| {
                let position = self.layout.position(part.column)?;
                self.columns.iter().position(|column| *column == position)
            };
            let places: Vec<usize> =
                spec.key.get(..self.columns.len())?.iter().map(place).collect::<Option<_>>()?;
            Some((at, places))
        })
    }
}

/// Whoever has a parent's key that is not everybody's yet is waited for so long.
const LONGEST_LOCK_OF_BUILD: Duration = Duration::from_secs(3);

/// Who commits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Writer {
    /// The schema change.
    Own,
    /// Somebody who may not know of the key, which may be everybody's by now.
    Unknowing { is_public: bool },
}

/// What a commit writes, by key.
type Written<'a> = HashMap<&'a [u8], &'a Option<Vec<u8>>>;

impl ForeignKey {
    pub fn new(child: &ClusterTable, key: &OnlineForeignKey<'_>) -> ForeignKey {
        let parent = key.parent.as_any().downcast_ref();
        let parent: &ClusterTable = parent.expect("both are of one engine");
        let spec = &parent.layout.indexes[key.parent_index];
        ForeignKey {
            child: Side::of(child, key.columns.clone()),
            parent: Side::of(parent, parent.layout.key_positions(spec).collect()),
            parent_index: key.parent_index,
            is_verified: key.is_verified,
        }
    }

    /// Both spaces.
    pub fn spaces(&self) -> [SpaceId; 2] {
        [self.child.space, self.parent.space]
    }

    /// The child's columns.
    pub fn columns(&self) -> Wanted {
        let columns = self.child.columns.iter().map(|at| &self.child.layout.columns[*at]);
        Wanted::new(columns.map(|column| (column.id, column.missing.clone())))
    }

    /// The keys of the parents of some rows, each with one of these; or a row that nobody can be the parent of.
    fn parents_of(
        &self,
        parent: &ClusterTable,
        rows: &[Row],
    ) -> Result<BTreeMap<Vec<u8>, usize>, usize> {
        let spec = &parent.layout.indexes[self.parent_index];
        let mut keys = BTreeMap::new();
        for (at, row) in rows.iter().enumerate() {
            if row.iter().any(Value::is_null) {
                continue;
            }
            let values = self.parent.values_of(&self.child, row).ok_or(at)?;
            let key = key::encode(&values, &spec.key);
            keys.entry(parent.whole_key(self.parent_index, &key)).or_insert(at);
        }
        Ok(keys)
    }

    /// The first of some rows of the child without a parent, as a transaction sees it at a timestamp.
    pub async fn first_orphan(
        &self,
        core: &Arc<Core>,
        shared: &Shared,
        rows: &[Row],
        ts: u64,
    ) -> Result<Option<usize>, StoreError> {
        let mut parents = match self.parents_of(&self.parent.table(core), rows) {
            Ok(parents) => parents,
            Err(orphan) => return Ok(Some(orphan)),
        };
        let mut orphans: Vec<usize> = Vec::new();
        {
            let buffer = shared.buffer.lock();
            parents.retain(|key, row| match buffer.get(key) {
                Some(own) => {
                    orphans.extend(own.is_none().then_some(*row));
                    false
                }
                None => true,
            });
        }
        let there = core.client.get_all(parents.keys().cloned().collect(), ts).await?;
        for (key, _) in there {
            parents.remove(&key);
        }
        Ok(orphans.into_iter().chain(parents.into_values()).min())
    }

    /// Whether it holds with what a transaction is about to commit. Until that is done it goes on to.
    pub async fn holds(
        &self,
        core: &Arc<Core>,
        shared: &Shared,
        who: Writer,
        mutations: &[Mutation],
    ) -> Result<bool, EngineError> {
        let is_public = who == Writer::Unknowing { is_public: true };
        let patience = if is_public { LONGEST_LOCK } else { LONGEST_LOCK_OF_BUILD };
        let written = mutations.iter().map(|mutation| (&mutation.key[..], &mutation.value));
        let written: Written<'_> = written.collect();
        let has_parents = self.have_parents(core, shared, &written, mutations, patience).await;
        match has_parents {
            Ok(true) => {}
            Err(StoreError::Locked { .. } | StoreError::Deadlock) if !is_public => {
                return Ok(false);
            }
            other => return other.map_err(failed),
        }
        if who == Writer::Own {
            // It knows, and has looked: what it had deleted before was not there when all children were.
            return Ok(true);
        }
        let gone = self.gone(core, shared, &written, mutations)?;
        match gone.is_empty() {
            true => Ok(true),
            // Who has the catalog with it may have changed the child's indexes.
            false if is_public => Ok(false),
            false => Core::aside(|| self.have_no_children(core, shared, &gone)),
        }
    }

    /// Whether the parents of what is written are there, and stay: they are locked.
    async fn have_parents(
        &self,
        core: &Arc<Core>,
        shared: &Shared,
        written: &Written<'_>,
        mutations: &[Mutation],
        patience: Duration,
    ) -> Result<bool, StoreError> {
        let child = self.child.table(core);
        let rows = read_all(&self.columns(), Rows::at(&child.place).cells_in(mutations));
        let rows = rows.map_err(StoreError::Refused)?;
        let Ok(parents) = self.parents_of(&self.parent.table(core), &rows) else {
            return Ok(false);
        };
        let mut others = Vec::new();
        for key in parents.into_keys() {
            match written.get(&key[..]) {
                Some(Some(_)) => {}
                Some(None) => return Ok(false),
                None => others.push(key),
            }
        }
        let count = others.len();
        Ok(shared.lock_now(core, others, patience).await?.len() == count)
    }

    /// The keys of parents that nobody has any more.
    fn gone(
        &self,
        core: &Arc<Core>,
        shared: &Shared,
        written: &Written<'_>,
        mutations: &[Mutation],
    ) -> Result<Vec<Row>, EngineError> {
        let parent = self.parent.table(core);
        let spec = &parent.layout.indexes[self.parent_index];
        let wanted = parent.wanted(&self.parent.columns);
        let values = |value: Option<&Vec<u8>>| {
            let cells = value.and_then(|value| parent.place.cells(value));
            let values = read_all(&wanted, cells.into_iter());
            values.map(|mut values| values.pop())
        };
        let buffer = shared.buffer.lock();
        let mut gone = Vec::new();
        for Mutation { key, value } in Rows::at(&parent.place).of(mutations) {
            let (before, after) =
                (values(buffer.held(key).and_then(Option::as_ref))?, values(value.as_ref())?);
            let Some(before) = before.filter(|before| !before.iter().any(Value::is_null)) else {
                continue;
            };
            let encoded = key::encode(&before, &spec.key);
            // A value that is written otherwise may be the same key.
            let is_kept = after.is_some_and(|after| key::encode(&after, &spec.key) == encoded);
            let at = parent.whole_key(self.parent_index, &encoded);
            if !is_kept && !matches!(written.get(&at[..]), Some(Some(_))) {
                gone.push(before);
            }
        }
        Ok(gone)
    }

    /// Whether nobody refers to keys of parents now. Where no index tells, and the child has many rows, that is not known.
    fn have_no_children(
        &self,
        core: &Arc<Core>,
        shared: &Shared,
        gone: &[Row],
    ) -> Result<bool, EngineError> {
        let child = self.child.table(core);
        let ts = core.wait(core.client.timestamp()).map_err(failed)?;
        let view = View { own: Some(Arc::clone(&shared.buffer)), ..View::at(core, ts) };
        let gone = gone.iter().filter_map(|values| self.child.values_of(&self.parent, values));
        let Some((position, places)) = self.child.index() else {
            let (pairs, next) =
                view.page(&child.place.prefix, &keys::end_of(&child.place.prefix))?;
            let cells = pairs.iter().filter_map(|(_, value)| child.place.cells(value));
            let there = read_all(&self.columns(), cells)?;
            let is_there = |values: Row| {
                let are_equal = |row: &Row| row.iter().zip(&values).all(|(a, b)| key::equal(a, b));
                there.iter().any(are_equal)
            };
            return Ok(next.is_none() && !gone.into_iter().any(is_there));
        };
        let (index, parts) = (child.index(position), &child.layout.indexes[position].key);
        for values in gone {
            let values = places.iter().map(|place| &values[*place]);
            let range = KeyRange::prefix(key::encode(values, &parts[..places.len()]));
            let (from, to) = match index {
                Some(index) => keys::range(&index.prefix, &range),
                None => child.place.range(&range),
            };
            let mut has_child = false;
            view.scan(&from, &to, |pairs| {
                let is_row = |(_, value): &(Vec<u8>, Vec<u8>)| child.place.cells(value).is_some();
                has_child = index.is_some() || pairs.iter().any(is_row);
                Ok(if has_child { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
            })?;
            if has_child {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
