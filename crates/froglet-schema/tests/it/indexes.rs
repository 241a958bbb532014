//! Indexes built from all rows at once, while writers write: afterwards the index has every row under
//! its newest key and no other, a unique one has no two rows, and a build that fails leaves nothing.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use froglet_engine::{Direction, KeyRange, Value, WriteStop};
use froglet_memory::MemoryTable;
use froglet_schema::change::NewKeyPart;
use froglet_schema::{Change, MigrationOptions, MigrationPhase, MigrationStatus, NewIndex};
use froglet_txn::{Isolation, Limits};

use crate::concurrent::Writers;
use crate::world::{World, options};

fn create_index(world: &World) -> Change {
    Change::CreateIndex {
        table: world.table,
        index: NewIndex {
            name: Some("t_v".to_owned()),
            columns: vec![NewKeyPart::plain("v"), NewKeyPart::plain("s")],
            unique: false,
            ..NewIndex::default()
        },
    }
}

/// (v, id) of every row, in the order of the index that was made last.
pub async fn by_index(world: &World, txn: &mut froglet_txn::Transaction) -> Vec<(i64, i64)> {
    let view = world.statement(txn, false).await;
    let version = &view.tables[&world.table];
    let at = |name: &str| version.def.columns.iter().position(|c| c.name == name).expect("stays");
    let index = version.table.layout().indexes.len() - 1;
    let (mut found, all) = (Vec::new(), KeyRange::all());
    let columns = [at("v"), at("id")];
    let snapshot = txn.snapshot();
    version.table.seek(&snapshot, index, &all, Direction::Forward, &columns, &mut |_, row| {
        let [Value::Int64(v), Value::Int64(id)] = row[..] else { panic!("a NULL in {row:?}") };
        found.push((v, id));
        ControlFlow::Continue(())
    });
    world.catalog.end_statement(txn);
    found
}

pub async fn by_scan(world: &World, txn: &mut froglet_txn::Transaction) -> Vec<(i64, i64)> {
    let rows = world.rows(txn, &["id", "v"]).await;
    let pair = |row: &Vec<Value>| match row[..] {
        [Value::Int64(id), Value::Int64(v)] => (v, id),
        _ => panic!("a NULL in {row:?}"),
    };
    let mut pairs: Vec<_> = rows.iter().map(pair).collect();
    pairs.sort_unstable();
    pairs
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_index_made_under_writers_has_every_row_once() {
    let world = Arc::new(World::with_rows(20_000).await);
    let writers = Writers::start(&world);
    for round in 0..12 {
        writers.until_committed(50).await;
        let limits = Limits::none();
        let options = MigrationOptions { scan_threads: 1 + round % 3, ..options() };
        let mut txn = world.begin(Isolation::ReadCommitted);
        world.catalog.begin_statement(&mut txn, true, &limits).await.unwrap();
        let made = world.catalog.apply(&mut txn, create_index(&world), &options, &limits).await;
        world.catalog.end_statement(&mut txn);
        let index = made.unwrap().object.expect("an index was made");
        if round % 4 == 3 {
            txn.abort();
            assert!(world.version().def.index_by_id(froglet_engine::IndexId(index)).is_none());
            continue;
        }
        // The transaction that makes the index already uses it.
        let found = by_index(&world, &mut txn).await;
        assert!(found.len() > 10_000 && found.is_sorted_by_key(|(v, _)| *v));
        world.commit(txn).await.unwrap();
        let mut txn = world.begin(Isolation::RepeatableRead);
        let mut found = by_index(&world, &mut txn).await;
        found.sort_unstable();
        assert_eq!(found, by_scan(&world, &mut txn).await, "round {round}");
        txn.abort();
        world.alter(Change::DropIndex { table: world.table, index }).await.unwrap();
    }
    writers.end().await;
    // One more, and nothing but one entry for each row once nobody needs the others.
    world.alter(create_index(&world)).await.unwrap();
    let version = world.version();
    let table = version.table.as_any().downcast_ref::<MemoryTable>().expect("in memory");
    let rows = by_scan(&world, &mut world.begin(Isolation::ReadCommitted)).await.len();
    let deadline = Instant::now() + Duration::from_secs(5);
    let last = version.table.layout().indexes.len() - 1;
    while table.index_entries(last) != rows {
        assert!(Instant::now() < deadline, "{} entries of {rows}", table.index_entries(last));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_writer_doubles_a_key_or_the_constraint_is_added_but_never_both() {
    let world = Arc::new(World::with_rows(30_000).await);
    let (mut added, mut refused) = (0, 0);
    for round in 0..40_u64 {
        let before = world.version().def.clone();
        let ddl = {
            let world = world.clone();
            tokio::spawn(async move { world.alter(world.add_unique()).await })
        };
        // At any moment from before the scan to after the commit.
        tokio::time::sleep(Duration::from_micros(round * 1500)).await;
        let mut txn = world.begin(Isolation::ReadCommitted);
        let doubled = match world.update(&mut txn, 7, 80).await {
            Ok(_) => world.commit(txn).await.map_err(|e| e.sqlstate().as_str().to_owned()),
            Err(WriteStop::Duplicate { .. }) => Err("23505".to_owned()),
            Err(stop) => panic!("{stop:?}"),
        };
        match ddl.await.expect("the schema change does not panic") {
            Ok(()) => {
                assert_eq!(doubled.expect_err("the key is taken"), "23505", "round {round}");
                added += 1;
                let name = world.version().def.constraints.last().expect("added").name.clone();
                let table = world.table;
                world.alter(Change::DropConstraint { table, name, cascade: false }).await.unwrap();
            }
            Err(e) => {
                assert_eq!(e.sqlstate().as_str(), "23505", "round {round}: {e}");
                doubled.expect("only what is there can be a duplicate");
                refused += 1;
                assert_eq!(world.version().def, before, "nothing is left behind");
                let mut txn = world.begin(Isolation::ReadCommitted);
                world.update(&mut txn, 7, 70).await.unwrap();
                world.commit(txn).await.unwrap();
            }
        }
    }
    assert!(added + refused == 40 && refused > 0, "{added} added, {refused} refused");
}

#[tokio::test]
async fn rows_of_the_own_transaction_are_built_in() {
    let world = World::with_rows(9000).await;
    let mut txn = world.begin(Isolation::ReadCommitted);
    world.insert(&mut txn, 9000, 5).await.unwrap();
    world.update(&mut txn, 1, 6).await.unwrap();
    world.delete(&mut txn, 2).await.unwrap();
    let (schema, data) = (world.catalog.savepoint(&txn), txn.savepoint());
    world.insert(&mut txn, 9001, 30).await.unwrap();
    // Of a committed row and an own one.
    let error = world.change(&mut txn, world.add_unique()).await.unwrap_err();
    assert_eq!(error.sqlstate().as_str(), "23505");
    assert!(format!("{error:?}").contains("(30)"), "names the key: {error:?}");
    world.catalog.rollback_to(&mut txn, &schema);
    txn.rollback_to(data);
    world.change(&mut txn, world.add_unique()).await.expect("the savepoint took it back");
    let found = by_index(&world, &mut txn).await;
    assert_eq!(found, by_scan(&world, &mut txn).await);
    assert_eq!((found.len(), &found[..3]), (9000, &[(0, 0), (5, 9000), (6, 1)][..]));
    let stop = world.insert(&mut txn, 9002, 6).await.unwrap_err();
    assert!(matches!(stop, WriteStop::Duplicate { .. }), "{stop:?}");
    world.commit(txn).await.unwrap();
    let mut txn = world.begin(Isolation::ReadCommitted);
    assert_eq!(by_index(&world, &mut txn).await, found);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn loading_is_a_phase_with_a_progress_of_its_own() {
    let world = Arc::new(World::with_rows(60_000).await);
    let mut seen = Vec::new();
    // A load is short: somebody who looks all the time may miss one.
    for _ in 0..50 {
        let done = Arc::new(AtomicBool::new(false));
        let watcher = {
            let (world, done) = (world.clone(), done.clone());
            std::thread::spawn(move || {
                let mut seen: Vec<MigrationStatus> = Vec::new();
                while !done.load(Ordering::Relaxed) {
                    seen.extend(world.catalog.migrations().pop());
                    seen.dedup_by_key(|m| (m.phase, m.rows_loaded));
                }
                seen
            })
        };
        let made = world.alter(create_index(&world)).await;
        done.store(true, Ordering::Relaxed);
        made.unwrap();
        seen = watcher.join().expect("the watcher does not panic");
        if seen.iter().any(|m| m.phase == MigrationPhase::Load && m.rows_loaded > 0) {
            break;
        }
        let index = world.version().def.indexes.last().expect("just made").id;
        world.alter(Change::DropIndex { table: world.table, index }).await.unwrap();
    }
    let loading: Vec<_> = seen.iter().filter(|m| m.phase == MigrationPhase::Load).collect();
    let some = loading.iter().find(|m| m.rows_loaded > 0).expect("seen while it was loading");
    assert_eq!((some.phase.name(), some.rows_to_load), ("load", 60_000));
    assert_eq!(some.percent(), (some.rows_loaded as f64 / 600.0 * 10.0).round() / 10.0);
    assert!(loading.iter().all(|m| m.blocks_done == m.blocks && m.rows_scanned == 60_000));
    assert!(loading.is_sorted_by_key(|m| m.rows_loaded));
    let status = world.catalog.migrations().pop().expect("remembered");
    assert_eq!((status.phase, status.percent()), (MigrationPhase::Done, 100.0));
}
