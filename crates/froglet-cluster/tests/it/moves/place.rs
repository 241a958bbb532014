//! A gateway, and what the lazy migration of a cluster does there.

use std::collections::BTreeMap;
use std::sync::Arc;

use froglet_cluster::wire::kv::LockInfo;
use froglet_engine::{
    Ask, ColumnId, ColumnSpec, ColumnType, Engine, EngineError, EngineTxn, Found, IndexId,
    IndexSpec, KeyPart, KeyRange, Layout, Moved, Moving, NullKeys, Row, RowId, RowKey, RowWrite,
    Snapshot, SpaceId, SqlState, Table, Ts, Value, Which, Within, WriteStop, key,
};
use froglet_testkit::ranges::Ranges;

use crate::fences::{Gateway, Outcome, space};

/// The numbers in a row: its id is the first.
pub type Line = Vec<i64>;
pub type Lines = BTreeMap<i64, Line>;

const SOURCE: u32 = 7;
/// Which of the targets.
pub const FIRST: usize = 0;
pub const SECOND: usize = 1;
pub const BOTH: [usize; 2] = [FIRST, SECOND];
const ALL: [usize; 4] = [0, 1, 2, 3];

pub fn target(n: usize) -> SpaceId {
    space([8, 9][n])
}

/// Where the keys of a space begin, in the first database.
pub fn prefix(space: SpaceId) -> Vec<u8> {
    [b"tF\0\0\0\x01".as_slice(), &space.0.to_be_bytes()].concat()
}

/// What is where, by ids, and in targets as it is made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    pub source: Lines,
    pub first: Lines,
    pub second: Lines,
}

impl State {
    pub fn move_line(&mut self, line: &[i64]) {
        let [first, second] = made(line);
        self.source.remove(&line[0]);
        self.first.insert(line[0], first);
        self.second.insert(line[0], second);
    }
}

/// What a row of the source becomes.
pub fn made(line: &[i64]) -> [Line; 2] {
    [line[..3].to_vec(), vec![line[0], line[3]]]
}

pub fn row(line: &[i64]) -> Row {
    line.iter().map(|number| Value::Int64(*number)).collect()
}

pub fn line(row: &[Value]) -> Line {
    let number = |value: &Value| match value {
        Value::Int64(number) => *number,
        other => panic!("every value is a number: {other:?}"),
    };
    row.iter().map(number).collect()
}

/// So many columns, and indexes of one each: unique or not. The first is of ids.
fn layout(
    columns: u32,
    indexes: &[(u32, bool)],
    has_primary: bool,
    within: Option<Within>,
) -> Arc<Layout> {
    let column = |id| ColumnSpec { id: ColumnId(id), ty: ColumnType::Int64, missing: Value::Null };
    let index = |(id, &(column, unique)): (u32, &(u32, bool))| IndexSpec {
        id: IndexId(id),
        key: vec![KeyPart { column: ColumnId(column), descending: false, nulls_first: false }],
        unique,
        unique_at_commit: false,
        nulls: NullKeys::Distinct,
    };
    Arc::new(Layout {
        columns: (1..=columns).map(column).collect(),
        indexes: (1..).zip(indexes).map(index).collect(),
        row_key: has_primary.then_some(RowKey { index: IndexId(1), within }),
    })
}

fn layouts((is_source_keyed, are_targets_keyed): (bool, bool)) -> [Arc<Layout>; 3] {
    // One target is with its source, where it can be, and the other by itself.
    let within = is_source_keyed.then(|| Within { space: space(SOURCE), parts: 1 });
    [
        layout(4, &[(1, true), (2, true), (3, false)], is_source_keyed, None),
        layout(3, &[(1, true), (2, true), (3, false)], are_targets_keyed, within),
        layout(2, &[(1, true), (2, false)], are_targets_keyed, None),
    ]
}

pub fn moving(table: &dyn Table) -> &dyn Moving {
    table.moving().expect("rows of a cluster's tables move")
}

pub fn in_the_way() -> EngineError {
    let message = "somebody is in the way".to_owned();
    EngineError::Refused { state: SqlState::LOCK_NOT_AVAILABLE, message }
}

fn all_of(table: &dyn Table) -> &'static [usize] {
    &ALL[..table.layout().columns.len()]
}

/// See the module.
#[derive(Clone)]
pub struct Place {
    pub gateway: Gateway,
    pub source: Arc<dyn Table>,
    pub targets: [Arc<dyn Table>; 2],
    keyed: (bool, bool),
}

impl Place {
    /// With primary keys of the source, and of the targets, or without.
    pub fn new(gateway: &Gateway, keyed: (bool, bool)) -> Place {
        let [source, first, second] = layouts(keyed);
        let engine = &*gateway.engine;
        let open = |n, layout| Engine::open(engine, target(n), layout).expect("any will do");
        Place {
            source: engine.open_closed(space(SOURCE), source).expect("any will do"),
            targets: [open(FIRST, first), open(SECOND, second)],
            gateway: gateway.clone(),
            keyed,
        }
    }

    /// It reads targets that are closed.
    pub fn past_fences(self) -> Place {
        let [_, first, second] = layouts(self.keyed);
        let open =
            |n, layout| self.gateway.engine.open_closed(target(n), layout).expect("any will do");
        Place { targets: [open(FIRST, first), open(SECOND, second)], ..self }
    }

    /// Rows of the source, which is only then closed.
    pub fn fill(&self, lines: &[Line]) {
        let mut txn = self.gateway.begin();
        let rows: Vec<Row> = lines.iter().map(|line| row(line)).collect();
        self.source.insert(&mut *txn, &rows, &mut Vec::new()).expect("nobody is in the way");
        self.gateway.commit(txn).expect("nobody is in the way");
    }

    /// The key of a number in an index.
    pub fn key(&self, table: &dyn Table, index: usize, number: i64) -> Vec<u8> {
        key::encode([&Value::Int64(number)], &table.layout().indexes[index].key)
    }

    fn exactly(&self, table: &dyn Table, id: i64) -> [KeyRange; 1] {
        [KeyRange::exactly(&self.key(table, 0, id))]
    }

    /// The number of a row of a target that is made, or to be made.
    pub fn number(&self, n: usize, from: RowId, of: &[i64]) -> RowId {
        moving(&*self.targets[n]).row_made_of(from, &row(&made(of)[n]))
    }

    /// Rows of a target, and what is made of rows that are left: of ranges of an index.
    fn ask(&self, view: &Snapshot, n: usize, index: usize, ranges: &[KeyRange]) -> Found {
        let table = &*self.targets[n];
        let there = match (n, index) {
            // The source has no index of these numbers.
            (SECOND, 1) => None,
            _ => Some(Which::Ranges(index, ranges)),
        };
        let here = Ask { which: Which::Ranges(index, ranges), projection: all_of(table) };
        let (mut found, left) = match there {
            Some(which) => {
                let there = Ask { which, projection: &ALL };
                moving(table).ask_both(view, here, &*self.source, there)
            }
            None => (here.of(table, view), vec![Vec::new(); ranges.len()]),
        };
        for (found, left) in found.iter_mut().zip(left) {
            let made = left.into_iter().map(|(from, of)| {
                let of = line(&of);
                (self.number(n, from, &of), row(&made(&of)[n]))
            });
            found.extend(made.collect::<Vec<_>>());
        }
        found
    }

    /// A row of a target, moved or left.
    pub fn find(&self, view: &Snapshot, n: usize, id: i64) -> Option<(RowId, Line)> {
        let mut found = self.ask(view, n, 0, &self.exactly(&*self.targets[n], id)).remove(0);
        assert!(found.len() < 2, "{id} of {n} at {} is there twice: {found:?}", view.ts);
        found.pop().map(|(rid, row)| (rid, line(&row)))
    }

    /// A row of a target that is there.
    pub fn found_there(&self, view: &Snapshot, n: usize, id: i64) -> Option<(RowId, Line)> {
        self.found(view, &*self.targets[n], id)
    }

    /// A row of the source that is left.
    pub fn left_there(&self, view: &Snapshot, id: i64) -> Option<(RowId, Line)> {
        self.found(view, &*self.source, id)
    }

    /// One that is known to be.
    pub fn left(&self, view: &Snapshot, id: i64) -> (RowId, Line) {
        self.left_there(view, id).expect("it is left")
    }

    fn found(&self, view: &Snapshot, table: &dyn Table, id: i64) -> Option<(RowId, Line)> {
        let which = Which::Ranges(0, &self.exactly(table, id));
        let found = Ask { which, projection: all_of(table) }.of(table, view).remove(0).pop();
        found.map(|(rid, row)| (rid, line(&row)))
    }

    /// All rows of a table, the same by each index.
    pub fn lines(&self, view: &Snapshot, table: &dyn Table) -> Vec<(RowId, Line)> {
        let by = |index| -> Vec<(RowId, Line)> {
            let which = Which::Ranges(index, &[KeyRange::all()]);
            let found = Ask { which, projection: all_of(table) }.of(table, view).remove(0);
            let mut found: Vec<_> = found.into_iter().map(|(rid, row)| (rid, line(&row))).collect();
            found.sort_unstable_by(|(_, a), (_, b)| a.cmp(b));
            found
        };
        let all = by(0);
        for index in 1..table.layout().indexes.len() {
            assert_eq!(by(index), all, "by index {index} of {} at {}", table.space(), view.ts);
        }
        all
    }

    /// What is where as of a view. Whoever reads a target finds it, and what is left, once.
    pub fn state(&self, view: &Snapshot) -> State {
        let by_id = |table: &dyn Table| -> Lines {
            let lines = self.lines(view, table);
            let count = lines.len();
            let lines: Lines = lines.into_iter().map(|(_, line)| (line[0], line)).collect();
            assert_eq!(lines.len(), count, "no id is there twice");
            lines
        };
        let [first, second] = BOTH.map(|n| by_id(&*self.targets[n]));
        let state = State { source: by_id(&*self.source), first, second };
        for (n, there) in [(FIRST, &state.first), (SECOND, &state.second)] {
            let read = self.ask(view, n, 0, &[KeyRange::all()]).remove(0);
            let mut read: Vec<Line> = read.into_iter().map(|(_, row)| line(&row)).collect();
            let left = state.source.values().map(|of| made(of)[n].clone());
            let mut should: Vec<Line> = there.values().cloned().chain(left).collect();
            read.sort_unstable();
            should.sort_unstable();
            assert_eq!(read, should, "{n} at {}", view.ts);
        }
        state
    }

    /// A row of the source and all that it becomes.
    pub fn moved(&self, from: RowId, of: &[i64]) -> Moved<'_> {
        let into = self.targets.iter().zip(made(of));
        Moved { from, into: into.map(|(table, made)| (&**table, row(&made))).collect() }
    }

    /// Rows of the source, moved in a transaction of their own; false: somebody is in the way.
    pub fn move_alone(&self, view: &Snapshot, rows: &[(RowId, Line)]) -> Outcome<bool> {
        let moved: Vec<Moved<'_>> = rows.iter().map(|(from, of)| self.moved(*from, of)).collect();
        moving(&*self.source).move_out_alone(view, &moved)
    }

    /// Rows of the source that a transaction holds then.
    pub fn hold(
        &self,
        txn: &mut dyn EngineTxn,
        base: Ts,
        rows: &[RowId],
    ) -> Result<Vec<(RowId, Line)>, WriteStop> {
        let mut left = Vec::new();
        let visit = &mut |rid, row: Row| left.push((rid, line(&row)));
        moving(&*self.source).hold(txn, base, rows, &ALL, visit)?;
        Ok(left)
    }

    /// Moves rows that a transaction holds.
    pub fn move_out(&self, txn: &mut dyn EngineTxn, held: &[(RowId, Line)]) -> Outcome<()> {
        let moved: Vec<Moved<'_>> = held.iter().map(|(from, of)| self.moved(*from, of)).collect();
        moving(&*self.source).move_out(txn, &moved)
    }

    /// Moves a row in a transaction, if it is left.
    pub fn take(&self, txn: &mut dyn EngineTxn, base: Ts, from: RowId) -> Result<bool, WriteStop> {
        let held = self.hold(txn, base, &[from])?;
        self.move_out(txn, &held)?;
        Ok(!held.is_empty())
    }

    /// Moves those of some rows that are left.
    pub fn take_all(&self, txn: &mut dyn EngineTxn, ids: &[i64]) {
        let view = txn.snapshot().clone();
        let left = ids.iter().filter_map(|id| self.left_there(&view, *id));
        let rids: Vec<RowId> = left.map(|(rid, _)| rid).collect();
        let mut held = Vec::new();
        let holding = self.gateway.patiently(|| {
            held = self.hold(txn, Ts::LATEST, &rids)?;
            Ok(())
        });
        holding.expect("who was in the way has ended");
        self.move_out(txn, &held).expect("nobody is in the way");
    }

    /// Moves the row with a key, if it is left, before it is inserted.
    pub fn take_key(&self, txn: &mut dyn EngineTxn, id: i64) -> Outcome<()> {
        let view = txn.snapshot().clone();
        let Some((from, _)) = self.left_there(&view, id) else { return Ok(()) };
        self.gateway.patiently(|| self.take(txn, Ts::LATEST, from).map(drop))
    }

    /// Writes a row of a target, which was `was` in the transaction's view.
    pub fn write(
        &self,
        txn: &mut dyn EngineTxn,
        n: usize,
        was: &Line,
        write: &RowWrite<'_>,
    ) -> Result<(), WriteStop> {
        let (table, base, rid) = (&*self.targets[n], txn.snapshot().ts, write.rid());
        let plain = |txn: &mut dyn EngineTxn, base| {
            table.write(txn, base, std::slice::from_ref(write)).map_err(|(_, stop)| stop)
        };
        let Some(from) = moving(table).made_of(rid) else { return plain(txn, base) };
        match self.take(txn, base, from) {
            Ok(true) => return plain(txn, Ts::LATEST),
            Ok(false) | Err(WriteStop::Changed | WriteStop::Gone) => {}
            Err(stop) => return Err(stop),
        }
        match plain(txn, base) {
            Err(WriteStop::Changed) => {
                let mut now = None;
                let visit = &mut |_, row: Row| now = Some(line(&row));
                moving(table).hold(txn, Ts::LATEST, &[rid], all_of(table), visit)?;
                match now.as_ref() == Some(was) {
                    true => plain(txn, Ts::LATEST),
                    false => Err(WriteStop::Changed),
                }
            }
            written => written,
        }
    }

    /// Sets a number of a row of a target, as an UPDATE does that finds it by its id.
    pub fn update(
        &self,
        txn: &mut dyn EngineTxn,
        n: usize,
        id: i64,
        (column, number): (usize, i64),
    ) -> Outcome<()> {
        let view = txn.snapshot().clone();
        let (rid, was) = self.find(&view, n, id).ok_or_else(in_the_way)?;
        let values = [Value::Int64(number)];
        let write = RowWrite::Update { rid, columns: &[column], values: &values };
        self.gateway.patiently(|| self.write(txn, n, &was, &write))
    }

    /// Deletes a row from both targets.
    pub fn delete(&self, txn: &mut dyn EngineTxn, id: i64) -> Outcome<()> {
        let view = txn.snapshot().clone();
        for n in BOTH {
            let (rid, was) = self.find(&view, n, id).ok_or_else(in_the_way)?;
            self.gateway.patiently(|| self.write(txn, n, &was, &RowWrite::Delete { rid }))?;
        }
        Ok(())
    }

    /// Inserts a row into a target.
    pub fn insert(&self, txn: &mut dyn EngineTxn, n: usize, of: &[i64]) -> Outcome<()> {
        self.take_key(txn, of[0])?;
        let rows = [row(of)];
        let table = &*self.targets[n];
        self.gateway
            .patiently(|| table.insert(txn, &rows, &mut Vec::new()).map_err(|(_, stop)| stop))
    }
}

/// The locks of the store, but for who holds them how long.
pub fn locked(ranges: &Ranges) -> Vec<(Vec<u8>, u64)> {
    ranges
        .locks()
        .into_iter()
        .map(|LockInfo { key, lock_version, .. }| (key, lock_version))
        .collect()
}

/// The store has as many keys as the rows of these tables need.
pub fn check_keys(gateway: &Gateway, state: &State) {
    let client = gateway.engine.client();
    let count = |space: SpaceId| {
        let read = async {
            let (from, ts) = (prefix(space), client.timestamp().await?);
            let to = [&from[..], &[0xff]].concat();
            let (mut count, mut next) = (0, Some(from));
            while let Some(from) = next {
                let page = client.scan(&from, &to, 100, ts).await?;
                count += page.pairs.len();
                next = page.next;
            }
            Ok::<_, froglet_cluster::client::StoreError>(count)
        };
        gateway.engine.handle().block_on(read).expect("the store answers")
    };
    let [source, first, second] =
        [&state.source, &state.first, &state.second].map(|lines| lines.len());
    let keys: usize = [space(SOURCE), target(FIRST), target(SECOND)].map(count).iter().sum();
    // With primary keys, or without: one key is the row's. A row may be with its source's.
    let is_so = [3, 4].iter().any(|of_source| {
        [[3, 2], [4, 3]].iter().any(|[of_first, of_second]| {
            keys == of_source * source + of_first * first + of_second * second
        })
    });
    assert!(is_so, "{keys} keys of {source}, {first} and {second} rows");
}
