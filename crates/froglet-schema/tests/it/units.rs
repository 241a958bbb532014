//! New tables made by queries whose units are keys: groups, and a table joined with itself.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use froglet_engine::{BlockRows, ColumnId, RowId, RowWrite, SqlState, Ts, WriteStop};
use froglet_schema::{
    Change, Makes, MigrationOptions, SchemaError, Stage, TableQuery, UnitInput, UnitQuery, UnitRows,
};
use froglet_txn::{Isolation, Limits, Transaction, TxnError};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::world::{BOTH, Pair, World, options, pairs_table};
use crate::writers::Writers;

/// A row that was made, and its unit.
type Made = (u64, Pair);

/// A query of (id, v), whatever it reads.
#[derive(Clone, Copy)]
struct Kind {
    /// How often it reads the table.
    inputs: usize,
    /// The unit of a row of an input.
    unit: fn(usize, Pair) -> u64,
    driver: Option<usize>,
    /// The rows that it makes of those of its inputs, each with its unit.
    make: fn(&[Vec<Made>]) -> Vec<Made>,
    /// What it reads instead of tables.
    stage: Option<&'static Kind>,
}

/// SELECT v % 50 AS id, sum(id) AS v FROM t GROUP BY 1
const SUMS: Kind = Kind {
    inputs: 1,
    unit: |_, (_, v)| v.rem_euclid(50) as u64,
    driver: None,
    stage: None,
    make: |inputs| sums(&inputs[0], |(unit, _)| (unit, unit as i64)),
};

fn parents(inputs: &[Vec<Made>], parent: fn(i64) -> i64) -> Vec<Made> {
    let parents: BTreeMap<i64, i64> = inputs[1].iter().map(|(_, row)| *row).collect();
    let v = |v: i64| parents.get(&parent(v)).copied().unwrap_or(-1);
    inputs[0].iter().map(|(unit, row)| (*unit, (row.0, v(row.1)))).collect()
}

/// SELECT a.id, b.v FROM t a LEFT JOIN t b ON a.v = b.id
const PARENTS: Kind = Kind {
    inputs: 2,
    unit: |input, (id, v)| if input == 0 { v as u64 } else { id as u64 },
    driver: None,
    stage: None,
    make: |inputs| parents(inputs, |v| v),
};

/// SELECT a.id, b.v FROM t a LEFT JOIN t b ON a.v % 7 = b.id: many rows with one parent.
const LOOKUPS: Kind = Kind {
    inputs: 2,
    unit: |input, (id, v)| if input == 0 { v.rem_euclid(7) as u64 } else { id as u64 },
    driver: Some(0),
    stage: None,
    make: |inputs| parents(inputs, |v| v.rem_euclid(7)),
};

/// SELECT -1 AS id, count(*) AS v FROM t: one unit, and a row of it even without any.
const COUNT: Kind = Kind {
    inputs: 1,
    unit: |_, _| 0,
    driver: None,
    stage: None,
    make: |inputs| vec![(0, (-1, inputs[0].len() as i64))],
};

/// SELECT id % 3 AS id, v FROM t, by v / 2: a unit has several rows, and some are equal.
const SEVERAL: Kind = Kind {
    inputs: 1,
    unit: |_, (_, v)| (v / 2) as u64,
    driver: None,
    stage: None,
    make: |inputs| inputs[0].iter().map(|(unit, (id, v))| (*unit, (id % 3, *v))).collect(),
};

fn sums(rows: &[Made], key: fn(Made) -> (u64, i64)) -> Vec<Made> {
    let mut sums = BTreeMap::new();
    for row in rows {
        *sums.entry(key(*row)).or_insert(0) += row.1.0;
    }
    sums.into_iter().map(|((unit, key), sum)| (unit, (key, sum))).collect()
}

/// SELECT (id / 100) * 50 + v % 50 AS id, sum(id) AS v FROM t GROUP BY 1, by id / 100: sums of a few rows.
const PARTS: Kind = Kind {
    inputs: 1,
    unit: |_, (id, _)| (id / 100) as u64,
    driver: None,
    stage: None,
    make: |inputs| sums(&inputs[0], |(unit, (_, v))| (unit, unit as i64 * 50 + v.rem_euclid(50))),
};

/// SELECT id % 50 AS id, sum(v) AS v FROM (those) GROUP BY 1: what SUMS makes, in two stages.
const STAGED: Kind = Kind {
    inputs: 1,
    unit: |_, (id, _)| id.rem_euclid(50) as u64,
    driver: None,
    stage: Some(&PARTS),
    make: |inputs| {
        let turned: Vec<Made> =
            inputs[0].iter().map(|(unit, (id, v))| (*unit, (*v, *id))).collect();
        sums(&turned, |(unit, _)| (unit, unit as i64))
    },
};

const KINDS: [Kind; 6] = [SUMS, PARENTS, LOOKUPS, COUNT, SEVERAL, STAGED];

impl Kind {
    /// What it makes of a table's rows, in order.
    fn of(&self, rows: &[Pair]) -> Vec<Pair> {
        self.of_tables(&[rows])
    }

    /// The same of tables that its inputs are in turn.
    fn of_tables(&self, tables: &[&[Pair]]) -> Vec<Pair> {
        let staged = self.stage.map(|stage| stage.of_tables(tables));
        let with_units = |input: usize| {
            let rows = staged.as_deref().unwrap_or(tables[input % tables.len()]).iter();
            rows.map(|row| ((self.unit)(input, *row), *row)).collect()
        };
        let made = (self.make)(&(0..self.inputs).map(with_units).collect::<Vec<_>>());
        let mut rows: Vec<Pair> = made.into_iter().map(|(_, row)| row).collect();
        rows.sort_unstable();
        rows
    }
}

struct Query {
    kind: Kind,
    inputs: Vec<UnitInput>,
}

fn pairs_of(batch: &RecordBatch) -> Vec<Pair> {
    let [id, v] = [0, 1].map(|at| batch.column(at).as_primitive::<Int64Type>().values());
    id.iter().copied().zip(v.iter().copied()).collect()
}

impl UnitQuery for Query {
    fn inputs(&self) -> &[UnitInput] {
        &self.inputs
    }

    fn units(&self, input: usize, rows: &BlockRows) -> Result<Vec<u64>, SchemaError> {
        Ok(pairs_of(&rows.batch).into_iter().map(|row| (self.kind.unit)(input, row)).collect())
    }

    fn prints(&self, _input: usize, rows: &BlockRows) -> Result<Vec<u64>, SchemaError> {
        Ok(pairs_of(&rows.batch).into_iter().map(|(id, v)| (id * 1_000_000 + v) as u64).collect())
    }

    fn driver(&self) -> Option<usize> {
        self.kind.driver
    }

    fn eval(&self, rows: Arc<dyn UnitRows>, make: &mut Makes<'_>) -> Result<(), SchemaError> {
        let mut inputs = Vec::new();
        for input in 0..self.inputs.len() {
            let mut all = Vec::new();
            for part in 0..rows.parts(input) {
                let (batch, units) = rows.part(input, part)?;
                let pairs = pairs_of(&batch);
                let expected = pairs.iter().map(|row| (self.kind.unit)(input, *row));
                let is_driver = self.kind.driver == Some(input);
                assert!(is_driver || expected.eq(units.iter().copied()), "each has its unit");
                all.extend(units.into_iter().zip(pairs));
            }
            inputs.push(all);
        }
        // In several batches, of which some are empty.
        for made in (self.kind.make)(&inputs).chunks(1000).chain([&[][..]]) {
            let (units, rows): (Vec<u64>, Vec<Pair>) = made.iter().copied().unzip();
            let columns: [ArrayRef; 2] = [
                Arc::new(rows.iter().map(|row| row.0).collect::<Int64Array>()),
                Arc::new(rows.iter().map(|row| row.1).collect::<Int64Array>()),
            ];
            make(&units, &columns)?;
        }
        Ok(())
    }

    fn key(&self, _input: usize) -> Option<Vec<ColumnId>> {
        None
    }

    fn origin(&self, _output: usize) -> Option<(usize, ColumnId)> {
        None
    }

    fn unique(&self) -> Option<&[usize]> {
        None
    }

    fn covers(&self) -> &[usize] {
        &[]
    }
}

/// CREATE TABLE name AS a query whose inputs are these tables, in turn.
fn create(kind: Kind, worlds: &[&World], txn: &mut Transaction, name: &str) -> Change {
    let view = worlds[0].catalog.view(txn);
    let input = |world: &World| {
        let def = &view.tables[&world.table].def;
        let id = |name: &str| def.column(name).expect("a column of the table").id;
        UnitInput::Table(world.table, vec![id("id"), id("v")])
    };
    let of_tables = |kind: Kind| {
        let inputs = (0..kind.inputs).map(|at| input(worlds[at % worlds.len()])).collect();
        Arc::new(Query { kind, inputs })
    };
    let stage = kind
        .stage
        .map(|stage| Stage { columns: pairs_table("").columns, query: of_tables(*stage) });
    let query = match &stage {
        None => of_tables(kind),
        Some(_) => Arc::new(Query { kind, inputs: vec![UnitInput::Stage(0)] }),
    };
    let query = TableQuery::Units { stages: Vec::from_iter(stage), query };
    Change::CreateTableAs { table: pairs_table(name), query }
}

async fn derive(world: &World, kind: Kind, txn: &mut Transaction, name: &str) -> World {
    derive_of(&[world], kind, txn, name).await
}

async fn derive_of(worlds: &[&World], kind: Kind, txn: &mut Transaction, name: &str) -> World {
    let change = create(kind, worlds, txn, name);
    let made = worlds[0].change(txn, change).await.expect("a fresh name");
    worlds[0].of(made.expect("a table was made"))
}

async fn committed(world: &World) -> Vec<Pair> {
    world.pairs(&mut world.begin(Isolation::ReadCommitted)).await
}

#[tokio::test]
async fn it_has_the_rows_of_its_query() {
    let world = World::with_rows(20_000).await;
    let limits = Limits::none();
    for (n, kind) in KINDS.into_iter().enumerate() {
        for scan_threads in [1, 3] {
            let options = MigrationOptions { scan_threads, ..options() };
            let mut txn = world.begin(Isolation::ReadCommitted);
            world.statement(&mut txn, true).await;
            let change = create(kind, &[&world], &mut txn, &format!("made{n}{scan_threads}"));
            let applied = world.catalog.apply(&mut txn, change, &options, &limits).await.unwrap();
            world.catalog.end_statement(&mut txn);
            world.commit(txn).await.unwrap();
            let made = committed(&world.of(applied.object.expect("a table was made"))).await;
            assert_eq!(made, kind.of(&committed(&world).await));
            assert_eq!(applied.rows, made.len() as u64);
        }
    }
    let migrated = world.catalog.migrations();
    let whole = |m: &froglet_schema::MigrationStatus| {
        let is_source = m.table_name == "t" || m.table_name.ends_with(" (stage 1)");
        m.kind == "table" && is_source && m.blocks > 0 && m.blocks_done == m.blocks
    };
    assert!(migrated.iter().all(whole), "{migrated:?}");
}

#[tokio::test]
async fn it_follows_what_others_commit() {
    for (isolation, kind) in BOTH.into_iter().flat_map(|i| KINDS.map(|kind| (i, kind))) {
        let world = World::with_rows(20).await;
        let mut ddl = world.begin(isolation);
        assert_eq!(world.pairs(&mut ddl).await.len(), 20);
        // Before the feed is open, and after.
        for round in 0..2 {
            let mut writer = world.begin(Isolation::ReadCommitted);
            world.update(&mut writer, 1 + round, 60).await.unwrap();
            world.delete(&mut writer, 4 + round).await.unwrap();
            world.insert(&mut writer, 20 + round, 7).await.unwrap();
            world.update(&mut writer, 8 + round, 9).await.unwrap();
            world.commit(writer).await.unwrap();
            if round == 0 {
                derive(&world, kind, &mut ddl, "made").await;
            }
        }
        let view = world.catalog.view(&mut ddl);
        let made = world.of(*view.names.get(&("public".to_owned(), "made".to_owned())).unwrap());
        for _ in 0..3 {
            let source = world.pairs(&mut ddl).await;
            let fixed = isolation != Isolation::ReadCommitted;
            assert_eq!(source.iter().any(|(id, _)| *id == 21), !fixed, "{isolation:?}");
            assert_eq!(made.pairs(&mut ddl).await, kind.of(&source), "{isolation:?}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        world.commit(ddl).await.unwrap();
        let source = committed(&world).await;
        assert_eq!(committed(&made).await, kind.of(&source), "{isolation:?}");
        // What is written later is written to one of them.
        let mut after = world.begin(Isolation::ReadCommitted);
        world.update(&mut after, 7, 71).await.unwrap();
        world.commit(after).await.unwrap();
        assert_eq!(committed(&made).await, kind.of(&source), "{isolation:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn under_writers_it_is_what_its_query_makes_at_every_statement_and_at_the_commit() {
    const ROWS: i64 = 3_000;
    for (isolation, kind) in BOTH.into_iter().flat_map(|i| KINDS.map(|kind| (i, kind))) {
        let world = Arc::new(World::with_rows(ROWS).await);
        let writers = Writers::start(&world, ROWS);
        writers.until_committed(20).await;
        let mut txn = world.begin(isolation);
        let made = derive(&world, kind, &mut txn, "made").await;
        let keyed = derive(&world, SUMS, &mut txn, "keyed").await;
        keyed.change(&mut txn, keyed.add_key()).await.unwrap();
        for _ in 0..10 {
            writers.until_committed(10).await;
            let view = world.statement(&mut txn, false).await;
            let snapshot = txn.snapshot();
            let read = |world: &World| world.pairs_in(&view, &snapshot);
            // The source is read last: it goes on, and a view that was not kept would show it.
            let rows = [read(&made), read(&keyed)];
            tokio::task::yield_now().await;
            let source = read(&world);
            let wanted = [kind.of(&source), SUMS.of(&source)];
            for (name, (rows, wanted)) in ["made", "keyed"].iter().zip(rows.iter().zip(&wanted)) {
                let differ: Vec<_> =
                    rows.iter().zip(wanted).filter(|(row, wanted)| row != wanted).take(5).collect();
                assert!(rows == wanted, "{isolation:?} {name}: {differ:?}");
            }
            world.catalog.end_statement(&mut txn);
        }
        let source = writers.end().await;
        world.commit(txn).await.unwrap();
        assert_eq!(committed(&world).await, source);
        assert_eq!(committed(&made).await, kind.of(&source), "{isolation:?}");
        assert_eq!(committed(&keyed).await, SUMS.of(&source), "{isolation:?}");
        let mut after = world.begin(Isolation::ReadCommitted);
        for (id, v) in SUMS.of(&source) {
            assert_eq!(keyed.value(&mut after, id).await, Some(v), "by the key");
        }
    }
}

/// Changes a few rows of each of two tables, in one transaction, again and again.
async fn change_both(worlds: [Arc<World>; 2], first: [i64; 2], ends: Arc<AtomicBool>) -> u64 {
    let mut rng = StdRng::seed_from_u64(7);
    let mut commits = 0;
    while !ends.load(Ordering::SeqCst) {
        let mut txn = worlds[0].begin(Isolation::ReadCommitted);
        for (world, first) in worlds.iter().zip(first) {
            let (id, v) = (first + rng.random_range(0..7), rng.random_range(0..100));
            world.update(&mut txn, id, v).await.expect("nobody else writes to it");
        }
        worlds[0].commit(txn).await.expect("nobody interferes");
        commits += 1;
        tokio::task::yield_now().await;
    }
    commits
}

/// Two tables, each with a capture thread of its own; a change of both may reach one before the other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_tables_under_writers_each_sees_what_the_other_has_changed() {
    const ROWS: i64 = 2_000;
    for (isolation, kind) in
        BOTH.into_iter().flat_map(|isolation| [PARENTS, LOOKUPS].map(|kind| (isolation, kind)))
    {
        let world = Arc::new(World::with_rows(ROWS).await);
        let other = Arc::new(world.of(world.create("other").await));
        let mut txn = world.begin(Isolation::ReadCommitted);
        for id in 0..10 {
            other.insert(&mut txn, id, 10 * id).await.unwrap();
            world.insert(&mut txn, ROWS + id, id).await.unwrap();
        }
        world.commit(txn).await.unwrap();
        let ends = Arc::<AtomicBool>::default();
        let both = [world.clone(), other.clone()];
        let changes = tokio::spawn(change_both(both, [ROWS, 0], ends.clone()));
        let writers = Writers::start(&world, ROWS);
        let mut txn = world.begin(isolation);
        let made = derive_of(&[&world, &other], kind, &mut txn, "made").await;
        for _ in 0..20 {
            writers.until_committed(5).await;
            let view = world.statement(&mut txn, false).await;
            let snapshot = txn.snapshot();
            let read = |world: &World| world.pairs_in(&view, &snapshot);
            let rows = read(&made);
            let wanted = kind.of_tables(&[&read(&world), &read(&other)]);
            assert!(rows == wanted, "{isolation:?}");
            world.catalog.end_statement(&mut txn);
        }
        ends.store(true, Ordering::SeqCst);
        assert!(changes.await.expect("it does not panic") > 100);
        writers.end().await;
        world.commit(txn).await.unwrap();
        let wanted = kind.of_tables(&[&committed(&world).await, &committed(&other).await]);
        assert!(committed(&made).await == wanted, "{isolation:?}");
    }
}

/// The sums of v % 50 where v = 10 id: the groups are 0, 10, 20, 30 and 40.
#[tokio::test]
async fn what_the_owner_writes_to_it_stands_and_holds_what_it_was_made_of() {
    for isolation in BOTH {
        let world = World::with_rows(10).await;
        let mut ddl = world.begin(isolation);
        let made = derive(&world, SUMS, &mut ddl, "made").await;
        made.change(&mut ddl, made.add_key()).await.unwrap();
        made.update(&mut ddl, 10, -1).await.unwrap();
        assert!(made.delete(&mut ddl, 20).await.unwrap());
        made.insert(&mut ddl, 77, 5).await.unwrap();
        world.update(&mut ddl, 3, 1000).await.unwrap();

        let mut writer = world.begin(Isolation::ReadCommitted);
        for (id, is_held) in [(1, true), (6, true), (2, true), (7, true), (3, true), (4, false)] {
            let lock = RowWrite::Lock { rid: RowId(id) };
            let stop = world.version().table.write(writer.part(), Ts::LATEST, &[lock]);
            let busy = matches!(stop, Err((0, WriteStop::Busy { .. })));
            assert_eq!(busy, is_held, "row {id}: {stop:?}");
        }
        world.update(&mut writer, 4, 80).await.unwrap();
        world.insert(&mut writer, 100, 42).await.unwrap();
        world.commit(writer).await.unwrap();
        tokio::time::sleep(Duration::from_millis(5)).await;
        world.commit(ddl).await.unwrap();
        let wanted = [(0, 5), (10, -1), (30, 3 + 8 + 4), (40, 9), (42, 100), (77, 5)];
        assert_eq!(committed(&made).await, wanted, "{isolation:?}");
        assert!(committed(&world).await.contains(&(3, 1000)));
    }
}

#[tokio::test]
async fn a_row_that_is_added_to_a_group_that_the_owner_has_written_is_a_conflict() {
    for isolation in BOTH {
        let world = World::with_rows(10).await;
        let mut ddl = world.begin(isolation);
        let made = derive(&world, SUMS, &mut ddl, "made").await;
        made.change(&mut ddl, made.add_key()).await.unwrap();
        made.update(&mut ddl, 10, -1).await.unwrap();
        let mut writer = world.begin(Isolation::ReadCommitted);
        world.insert(&mut writer, 100, 60).await.unwrap();
        world.commit(writer).await.unwrap();
        match world.commit(ddl).await {
            Err(TxnError::Refused { state: SqlState::SERIALIZATION_FAILURE, detail, .. }) => {
                assert!(detail.is_some_and(|d| d.contains("Rows were added")));
            }
            other => panic!("{other:?}"),
        }
        assert!(!world.catalog.latest().tables.contains_key(&made.table));
    }
}

#[tokio::test]
async fn own_writes_before_it_count_as_they_were_and_later_ones_do_not() {
    for isolation in BOTH {
        let world = World::with_rows(10).await;
        let mut ddl = world.begin(isolation);
        world.update(&mut ddl, 1, 20).await.unwrap();
        world.delete(&mut ddl, 2).await.unwrap();
        world.insert(&mut ddl, 50, 30).await.unwrap();
        let made = derive(&world, SUMS, &mut ddl, "made").await;
        let wanted = SUMS.of(&world.pairs(&mut ddl).await);
        assert_eq!(made.pairs(&mut ddl).await, wanted);
        world.update(&mut ddl, 1, 30).await.unwrap();
        world.delete(&mut ddl, 50).await.unwrap();
        world.update(&mut ddl, 9, 0).await.unwrap();
        // Their groups are made again.
        let mut writer = world.begin(Isolation::ReadCommitted);
        for (id, v) in [(100, 20), (101, 30), (102, 40)] {
            world.insert(&mut writer, id, v).await.unwrap();
        }
        world.commit(writer).await.unwrap();
        world.commit(ddl).await.unwrap();
        let added = |(key, sum)| (key, sum + [0, 0, 100, 101, 102][key as usize / 10]);
        let wanted: Vec<Pair> = wanted.into_iter().map(added).collect();
        assert_eq!(committed(&made).await, wanted, "{isolation:?}");
    }
}

#[tokio::test]
async fn tables_are_made_of_tables_that_are_being_made() {
    for isolation in BOTH {
        let world = World::with_rows(100).await;
        let mut ddl = world.begin(isolation);
        let copy = world.change(&mut ddl, world.create_as("copy")).await.unwrap().unwrap();
        let copy = world.of(copy);
        let sums = derive(&copy, SUMS, &mut ddl, "sums").await;
        let count = derive(&sums, COUNT, &mut ddl, "count").await;
        let mut writer = world.begin(Isolation::ReadCommitted);
        world.update(&mut writer, 1, 2).await.unwrap();
        world.insert(&mut writer, 200, 4).await.unwrap();
        world.commit(writer).await.unwrap();
        let then = copy.pairs(&mut ddl).await;
        assert_eq!(sums.pairs(&mut ddl).await, SUMS.of(&then));
        for table in [world.table, copy.table] {
            let gone = Change::DropTable { table, cascade: false };
            world.change(&mut ddl, gone).await.unwrap();
        }
        let mut writer = world.begin(Isolation::ReadCommitted);
        world.insert(&mut writer, 201, 5).await.unwrap();
        world.commit(writer).await.unwrap();
        let source = committed(&world).await;
        world.commit(ddl).await.unwrap();
        let copied: Vec<Pair> =
            source.iter().filter_map(|(id, v)| crate::world::some_doubled(*id, *v)).collect();
        let wanted = SUMS.of(&copied);
        assert_eq!(committed(&sums).await, wanted, "{isolation:?}");
        assert_eq!(committed(&count).await, [(-1, wanted.len() as i64)], "{isolation:?}");
    }
}

#[tokio::test]
async fn a_rolled_back_one_leaves_nothing_behind() {
    let world = World::with_rows(100).await;
    let mut ddl = world.begin(Isolation::ReadCommitted);
    let savepoint = (ddl.savepoint(), world.catalog.savepoint(&ddl));
    let made = derive(&world, PARENTS, &mut ddl, "made").await;
    ddl.rollback_to(savepoint.0);
    world.catalog.rollback_to(&mut ddl, &savepoint.1);
    assert!(!world.catalog.view(&mut ddl).tables.contains_key(&made.table));
    let made = derive(&world, COUNT, &mut ddl, "made").await;
    let mut writer = world.begin(Isolation::ReadCommitted);
    world.delete(&mut writer, 1).await.unwrap();
    world.commit(writer).await.unwrap();
    world.commit(ddl).await.unwrap();
    assert_eq!(committed(&made).await, [(-1, 99)]);
}

#[tokio::test]
async fn a_writer_of_a_table_that_has_gone_into_groups_runs_again() {
    let world = World::with_rows(10).await;
    let mut writer = world.begin(Isolation::ReadCommitted);
    world.update(&mut writer, 1, 11).await.unwrap();
    let mut ddl = world.begin(Isolation::ReadCommitted);
    derive(&world, SUMS, &mut ddl, "made").await;
    let gone = Change::DropTable { table: world.table, cascade: false };
    world.change(&mut ddl, gone).await.unwrap();
    world.commit(ddl).await.unwrap();
    match world.commit(writer).await {
        Err(TxnError::Refused { state: SqlState::SERIALIZATION_FAILURE, detail, .. }) => {
            assert!(detail.is_some_and(|d| d.contains("was dropped")));
        }
        other => panic!("{other:?}"),
    }
}
