//! A table at a gateway, under a layout; and what of it is in the store.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use froglet_engine::batch::value_at;
use froglet_engine::{
    Built, ColumnId, ColumnSpec, ColumnType, Direction, Engine, EngineError, EngineTxn, IndexId,
    IndexSpec, KeyPart, KeyRange, Layout, NullKeys, OnlineIndexes, Row, RowId, RowKey, RowWrite,
    Snapshot, SpaceId, SqlState, Table, Ts, Value, Within, key,
};
use froglet_log::cells::Wanted;
use froglet_testkit::ranges::Ranges;

use crate::fences::{Gateway, Outcome, at, caught, space, wait_until};

/// What is in a row: its id, its code, its tag, and whatever came later.
pub type Line = Vec<Option<i64>>;

pub const ID: usize = 0;
pub const CODE: usize = 1;
pub const TAG: usize = 2;
/// A column that came when there were rows.
pub const LATER: usize = 3;
/// What it is in those.
pub const MISSING: i64 = 7;
/// What an index is called.
pub const NAME: &str = "codes_of_tests";

/// Of the first database.
const LIST: &[u8] = b"tF\0\0\0\x01\0\0\0\0b";
const PRIMARY: IndexId = IndexId(1);
/// Between the prefix of a space and the key of a row.
const ROWS: &[u8] = b"d";
const OF_GUEST: u8 = 0;

/// An index of one column.
pub fn index(id: u32, column: usize, unique: bool) -> IndexSpec {
    let key = vec![KeyPart { column: column_id(column), descending: false, nulls_first: false }];
    IndexSpec { id: IndexId(id), key, unique, unique_at_commit: false, nulls: NullKeys::Distinct }
}

fn column_id(column: usize) -> ColumnId {
    ColumnId(1 + u32::try_from(column).expect("a few"))
}

/// A table, whatever its layout.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub space: SpaceId,
    pub is_keyed: bool,
    pub within: Option<Within>,
}

/// With a primary key.
pub fn keyed() -> Shape {
    Shape { space: space(7), is_keyed: true, within: None }
}

/// Without one.
pub fn keyless() -> Shape {
    Shape { space: space(8), is_keyed: false, within: None }
}

impl Shape {
    /// It with some indexes, beside that of its primary key.
    pub fn layout(&self, columns: usize, indexes: &[IndexSpec]) -> Arc<Layout> {
        let column = |n: usize| ColumnSpec {
            id: column_id(n),
            ty: ColumnType::Int64,
            missing: if n == LATER { Value::Int64(MISSING) } else { Value::Null },
        };
        let primary = self.is_keyed.then(|| index(PRIMARY.0, ID, true));
        let row_key = self.is_keyed.then_some(RowKey { index: PRIMARY, within: self.within });
        Arc::new(Layout {
            columns: (0..columns).map(column).collect(),
            indexes: primary.into_iter().chain(indexes.iter().cloned()).collect(),
            row_key,
        })
    }

    pub fn at(&self, gateway: &Gateway, indexes: &[IndexSpec]) -> At {
        At::new(gateway, self, self.layout(3, indexes))
    }
}

fn prefix(space: SpaceId) -> Vec<u8> {
    [b"tF\0\0\0\x01".as_slice(), &space.0.to_be_bytes()].concat()
}

fn entries_prefix(space: SpaceId, index: IndexId) -> Vec<u8> {
    [&prefix(space)[..], b"x", &index.0.to_be_bytes()].concat()
}

/// What is at the keys with a prefix.
fn stored(gateway: &Gateway, prefix: &[u8], ts: Ts) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let client = gateway.engine.client();
    let to = [prefix, &[0xff; 8]].concat();
    let read = async {
        let (mut found, mut next) = (BTreeMap::new(), Some(prefix.to_vec()));
        while let Some(from) = next {
            let page = client.scan(&from, &to, 100, ts.0).await?;
            found.extend(page.pairs);
            next = page.next;
        }
        Ok::<_, froglet_cluster::client::StoreError>(found)
    };
    gateway.engine.handle().block_on(read).expect("the store answers")
}

pub fn list(ranges: &Ranges) -> Option<String> {
    let list = ranges.value_at(LIST, u64::MAX);
    list.map(|list| String::from_utf8_lossy(&list).into_owned())
}

/// Waits until nothing is left of builds that have come to nothing.
pub fn wait_until_gone(ranges: &Ranges, gateway: &Gateway, space: SpaceId, indexes: &[u32]) {
    wait_until("the list is empty", || list(ranges).is_none());
    for id in indexes {
        let prefix = entries_prefix(space, IndexId(*id));
        let left = stored(gateway, &prefix, gateway.now().ts);
        let left: Vec<_> = left
            .iter()
            .map(|(at, value)| (ranges.changed_at(at), format!("{} → {}", hex(at), hex(value))))
            .collect();
        assert!(left.is_empty(), "entries of {id} are left, since: {left:?}");
    }
}

pub fn row(line: &[Option<i64>]) -> Row {
    line.iter().map(|number| number.map_or(Value::Null, Value::Int64)).collect()
}

fn line(row: &[Value]) -> Line {
    let number = |value: &Value| match value {
        Value::Int64(number) => Some(*number),
        Value::Null => None,
        other => panic!("every value is a number: {other:?}"),
    };
    row.iter().map(number).collect()
}

fn nobody() -> EngineError {
    let message = "there is no such row".to_owned();
    EngineError::Refused { state: SqlState::SERIALIZATION_FAILURE, message }
}

/// See the module.
#[derive(Clone)]
pub struct At {
    pub gateway: Gateway,
    pub table: Arc<dyn Table>,
    within: Option<Within>,
}

impl At {
    pub fn new(gateway: &Gateway, shape: &Shape, layout: Arc<Layout>) -> At {
        let table =
            Engine::open(&*gateway.engine, shape.space, layout).expect("any layout will do");
        At { gateway: gateway.clone(), table, within: shape.within }
    }

    pub fn position(&self, index: u32) -> usize {
        self.table.layout().index_position(IndexId(index)).expect("the layout has it")
    }

    /// Whether a row's columns but its id are in a unique index.
    pub fn has_unique(&self) -> bool {
        self.table.layout().indexes.iter().any(|spec| spec.unique && spec.id != PRIMARY)
    }

    fn all(&self) -> Vec<usize> {
        (0..self.table.layout().columns.len()).collect()
    }

    /// All rows, as they are scanned.
    pub fn with_ids(&self, snapshot: &Snapshot) -> Outcome<Vec<(RowId, Line)>> {
        let (mut rows, mut next, all) = (Vec::new(), Some(RowId(0)), self.all());
        while let Some(from) = next {
            let (part, after) = caught(|| self.table.read_part(snapshot, from, &all)).flatten()?;
            let cell = |n, at: &usize| value_at(&**part.batch.column(*at), n, ColumnType::Int64);
            for (n, rid) in part.rids.iter().enumerate() {
                let row: Row = all.iter().map(|at| cell(n, at)).collect();
                rows.push((*rid, line(&row)));
            }
            next = after;
        }
        Ok(rows)
    }

    pub fn rows(&self, snapshot: &Snapshot) -> Outcome<Vec<Line>> {
        Ok(sorted(self.with_ids(snapshot)?.into_iter().map(|(_, line)| line)))
    }

    /// Rows by an index, in its order.
    pub fn sought(&self, snapshot: &Snapshot, index: u32, range: &KeyRange) -> Outcome<Vec<Line>> {
        let (mut rows, at) = (Vec::new(), self.position(index));
        caught(|| {
            let forward = Direction::Forward;
            self.table.seek(snapshot, at, range, forward, &self.all(), &mut |_, row| {
                rows.push(line(row));
                ControlFlow::Continue(())
            });
        })?;
        Ok(rows)
    }

    pub fn find(&self, snapshot: &Snapshot, id: i64) -> Outcome<RowId> {
        let rows = self.with_ids(snapshot)?;
        let found = rows.into_iter().find(|(_, line)| line[ID] == Some(id));
        found.map(|(rid, _)| rid).ok_or_else(nobody)
    }

    pub fn insert(&self, txn: &mut dyn EngineTxn, line: &[Option<i64>]) -> Outcome<()> {
        let rows = [row(line)];
        caught(|| {
            self.gateway.patiently(|| {
                self.table.insert(txn, &rows, &mut Vec::new()).map_err(|(_, stop)| stop)
            })
        })
        .flatten()
    }

    pub fn write(&self, txn: &mut dyn EngineTxn, write: &RowWrite<'_>) -> Outcome<()> {
        let base = txn.snapshot().ts;
        let mut write = || self.table.write(txn, base, std::slice::from_ref(write));
        caught(|| self.gateway.patiently(|| write().map_err(|(_, stop)| stop))).flatten()
    }

    /// Sets columns of a row, in the order of their numbers.
    pub fn set(
        &self,
        txn: &mut dyn EngineTxn,
        rid: RowId,
        set: &[(usize, Option<i64>)],
    ) -> Outcome<()> {
        let (columns, line): (Vec<usize>, Line) = set.iter().copied().unzip();
        self.write(txn, &RowWrite::Update { rid, columns: &columns, values: &row(&line) })
    }

    pub fn delete(&self, txn: &mut dyn EngineTxn, rid: RowId) -> Outcome<()> {
        self.write(txn, &RowWrite::Delete { rid })
    }

    /// The same of the row with an id.
    pub fn set_of(
        &self,
        txn: &mut dyn EngineTxn,
        id: i64,
        set: &[(usize, Option<i64>)],
    ) -> Outcome<()> {
        let rid = self.find(&txn.snapshot().clone(), id)?;
        self.set(txn, rid, set)
    }

    pub fn delete_of(&self, txn: &mut dyn EngineTxn, id: i64) -> Outcome<()> {
        let rid = self.find(&txn.snapshot().clone(), id)?;
        self.delete(txn, rid)
    }

    /// Does something in a transaction of its own.
    pub fn alone(&self, work: impl FnOnce(&mut dyn EngineTxn) -> Outcome<()>) -> Outcome<Ts> {
        let mut txn = caught(|| self.gateway.begin())?;
        work(&mut *txn)?;
        self.gateway.commit(txn)
    }

    /// Rows in a transaction of their own.
    pub fn put(&self, lines: &[Line]) -> Outcome<Ts> {
        self.alone(|txn| lines.iter().try_for_each(|line| self.insert(txn, line)))
    }

    pub fn online(&self) -> &dyn OnlineIndexes {
        self.table.online_indexes().expect("several gateways write the tables of a cluster")
    }

    /// Builds an index, and waits for it.
    pub fn build(&self, txn: &mut dyn EngineTxn, index: u32) -> Outcome<Built> {
        let position = self.position(index);
        let build = caught(|| self.online().build_online(txn, position, NAME)).flatten()?;
        self.gateway.engine.handle().block_on(build)
    }

    pub fn enter(&self, txn: &mut dyn EngineTxn, index: u32) -> Outcome<()> {
        let position = self.position(index);
        caught(|| self.online().enter_own(txn, position)).flatten()
    }

    /// A schema change that builds indexes, all of whose keys should be unlike.
    pub fn publish(&self, change: i64, indexes: &[u32]) -> Outcome<Ts> {
        let mut txn = self.gateway.closing(change, &[])?;
        for index in indexes {
            let built = self.build(&mut *txn, *index)?;
            assert_eq!(built, Built::Whole);
            self.enter(&mut *txn, *index)?;
        }
        self.gateway.commit(txn)
    }

    /// The rows that the store has, and their keys.
    fn stored_rows(&self, ts: Ts) -> Vec<(Vec<u8>, Line)> {
        let space = self.within.map_or(self.table.space(), |within| within.space);
        let prefix = [&prefix(space)[..], ROWS].concat();
        let header = [&[OF_GUEST][..], &self.table.space().0.to_be_bytes()].concat();
        let columns = &self.table.layout().columns;
        let wanted = Wanted::new(columns.iter().map(|spec| (spec.id, spec.missing.clone())));
        let cells = |value: &[u8]| match self.within {
            Some(_) => value.strip_prefix(&header[..]).map(<[u8]>::to_vec),
            None => (value[0] != OF_GUEST).then(|| value.to_vec()),
        };
        let rows = stored(&self.gateway, &prefix, ts).into_iter().filter_map(|(at, value)| {
            let (cells, mut row) = (cells(&value)?, Row::new());
            wanted.read(&cells, &mut row).expect("cells of a row");
            Some((at[prefix.len()..].to_vec(), line(&row)))
        });
        rows.collect()
    }

    /// Whether there is any entry of an index now.
    pub fn has_entries(&self, index: u32) -> bool {
        let prefix = entries_prefix(self.table.space(), IndexId(index));
        !stored(&self.gateway, &prefix, self.gateway.now().ts).is_empty()
    }

    fn key(&self, spec: &IndexSpec, line: &[Option<i64>]) -> Vec<u8> {
        let row = row(line);
        key::encode(self.table.layout().key_positions(spec).map(|at| &row[at]), &spec.key)
    }

    /// Which entries an index should have.
    fn entries_of(&self, spec: &IndexSpec, rows: &[(Vec<u8>, Line)]) -> BTreeMap<Vec<u8>, Vec<u8>> {
        let (prefix, mut entries) = (entries_prefix(self.table.space(), spec.id), BTreeMap::new());
        for (row_key, line) in rows {
            let is_null = |at: usize| line[at].is_none();
            let is_apart =
                spec.nulls.sets_apart(0) && self.table.layout().key_positions(spec).any(is_null);
            let behind: &[u8] = if spec.unique && !is_apart { &[] } else { row_key };
            let at = [&prefix[..], &self.key(spec, line), behind].concat();
            let other = entries.insert(at, [&[0], &row_key[..]].concat());
            assert_eq!(other, None, "two rows share a key of {:?}: {rows:?}", spec.id);
        }
        entries
    }

    /// An index has what the rows are as of a timestamp, and nothing else: in the store, and as it is sought here.
    pub fn check(&self, ts: Ts, index: u32) {
        let spec = &self.table.layout().indexes[self.position(index)];
        let rows = self.stored_rows(ts);
        let should = self.entries_of(spec, &rows);
        let has = stored(&self.gateway, &entries_prefix(self.table.space(), spec.id), ts);
        let beyond = |a: &BTreeMap<Vec<u8>, Vec<u8>>, b: &BTreeMap<Vec<u8>, Vec<u8>>| {
            let some = a.iter().filter(|(at, value)| b.get(*at) != Some(*value));
            some.map(|(at, value)| format!("{} → {}", hex(at), hex(value))).collect::<Vec<_>>()
        };
        let (missing, orphans) = (beyond(&should, &has), beyond(&has, &should));
        assert!(
            missing.is_empty() && orphans.is_empty(),
            "index {index} at {ts}: missing {missing:?}, orphans {orphans:?}, rows {rows:?}"
        );
        let lines = sorted(rows.into_iter().map(|(_, line)| line));
        assert_eq!(self.rows(&at(ts)).expect("the store answers"), lines, "a scan at {ts}");
        self.check_sought(&at(ts), index, &lines);
    }

    /// What is found by an index is these rows, in its order, and each by its key.
    pub fn check_sought(&self, snapshot: &Snapshot, index: u32, lines: &[Line]) {
        let spec = &self.table.layout().indexes[self.position(index)];
        let ts = snapshot.ts;
        let found = self.sought(snapshot, index, &KeyRange::all()).expect("the store answers");
        let keys: Vec<_> = found.iter().map(|line| self.key(spec, line)).collect();
        assert!(keys.is_sorted(), "{index} at {ts} has an order: {found:?}");
        assert_eq!(sorted(found.into_iter()), lines, "by {index} at {ts}");
        let mut by_key: BTreeMap<Vec<u8>, Vec<Line>> = BTreeMap::new();
        for line in lines {
            by_key.entry(self.key(spec, line)).or_default().push(line.clone());
        }
        for (key, should) in by_key.iter().take(20) {
            let found = self.sought(snapshot, index, &KeyRange::exactly(key));
            let found = sorted(found.expect("the store answers").into_iter());
            assert_eq!(found, *should, "one key of {index} at {ts}");
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}

pub fn sorted(lines: impl Iterator<Item = Line>) -> Vec<Line> {
    let mut lines: Vec<Line> = lines.collect();
    lines.sort();
    lines
}
