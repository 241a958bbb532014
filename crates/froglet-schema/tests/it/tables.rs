//! A new table made of the rows of another, while those are written: it is what its query makes of
//! the other at the commit, no matter when each row was copied.

use std::sync::Arc;
use std::time::{Duration, Instant};

use froglet_engine::{ColumnType, RowId, RowWrite, Ts, Value, WriteStop};
use froglet_schema::{Change, Fill, MigrationOptions, TableQuery};
use froglet_txn::{Isolation, Limits, Transaction};

use crate::world::{
    BOTH, Double, SomeDoubled, World, column, double, options, pair, pairs_table, some_doubled,
};
use crate::writers::Writers;

/// What the copy's query makes of rows.
fn copied(rows: impl IntoIterator<Item = (i64, i64)>) -> Vec<(i64, i64)> {
    rows.into_iter().filter_map(|(id, v)| some_doubled(id, v)).collect()
}

async fn create_as(world: &World, txn: &mut Transaction, name: &str) -> World {
    let made = world.change(txn, world.create_as(name)).await.expect("a fresh name");
    world.of(made.expect("a table was made"))
}

#[tokio::test]
async fn a_copy_has_the_rows_of_its_query() {
    let world = World::with_rows(20_000).await;
    let limits = Limits::none();
    for scan_threads in [1, 3] {
        let options = MigrationOptions { scan_threads, ..options() };
        let mut txn = world.begin(Isolation::ReadCommitted);
        world.statement(&mut txn, true).await;
        let change = world.create_as(&format!("copy{scan_threads}"));
        let applied = world.catalog.apply(&mut txn, change, &options, &limits).await.unwrap();
        world.catalog.end_statement(&mut txn);
        world.commit(txn).await.unwrap();
        let target = world.of(applied.object.expect("a table was made"));
        let mut txn = world.begin(Isolation::ReadCommitted);
        let wanted = copied((0..20_000).map(|id| (id, 10 * id)));
        assert_eq!(applied.rows, wanted.len() as u64);
        assert_eq!(target.pairs(&mut txn).await, wanted);
    }
    let migrated = world.catalog.migrations();
    assert!(migrated.iter().all(|m| m.kind == "table" && m.table_name == "t"), "{migrated:?}");
}

#[tokio::test]
async fn a_copy_follows_what_others_commit_before_it() {
    for isolation in BOTH {
        let world = World::with_rows(10).await;
        let mut ddl = world.begin(isolation);
        // The snapshot, if it stays, is from before all of it; the feed is open in the middle.
        assert_eq!(world.pairs(&mut ddl).await.len(), 10);
        let mut writer = world.begin(Isolation::ReadCommitted);
        world.update(&mut writer, 1, 100).await.unwrap();
        world.delete(&mut writer, 2).await.unwrap();
        world.insert(&mut writer, 10, 101).await.unwrap();
        world.commit(writer).await.unwrap();
        let target = create_as(&world, &mut ddl, "copy").await;
        let mut writer = world.begin(Isolation::ReadCommitted);
        world.update(&mut writer, 4, 300).await.unwrap(); // not kept any more
        world.update(&mut writer, 3, 31).await.unwrap(); // kept from now on
        world.delete(&mut writer, 5).await.unwrap();
        world.insert(&mut writer, 11, 110).await.unwrap();
        world.commit(writer).await.unwrap();
        for _ in 0..3 {
            let source = world.pairs(&mut ddl).await;
            let fixed = isolation != Isolation::ReadCommitted;
            assert_eq!(source.iter().any(|(id, _)| *id == 11), !fixed, "{isolation:?}");
            assert_eq!(target.pairs(&mut ddl).await, copied(source), "{isolation:?}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        world.commit(ddl).await.unwrap();
        let mut after = world.begin(Isolation::ReadCommitted);
        let v = |id: i64| [0, 100, 0, 31, 300, 0][id as usize];
        let wanted = [(1, v(1)), (3, v(3)), (7, 70), (8, 80), (10, 101), (11, 110)];
        assert_eq!(target.pairs(&mut after).await, copied(wanted), "{isolation:?}");
        // What is written later is written to one of them.
        world.update(&mut after, 7, 71).await.unwrap();
        world.commit(after).await.unwrap();
        let mut after = world.begin(Isolation::ReadCommitted);
        assert_eq!(target.pairs(&mut after).await, copied(wanted), "{isolation:?}");
    }
}

/// CREATE TABLE a AS …; CREATE TABLE b AS …; ALTER TABLE a ADD PRIMARY KEY; DROP TABLE t; COMMIT.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_split_under_writers_loses_and_tears_nothing() {
    const ROWS: i64 = 9_000;
    for round in 0..8 {
        let isolation = BOTH[round % 2];
        let world = Arc::new(World::with_rows(ROWS).await);
        let writers = Writers::start(&world, ROWS);
        writers.until_committed(20).await;
        let mut txn = world.begin(isolation);
        let a = create_as(&world, &mut txn, "a").await;
        writers.until_committed(20).await;
        if isolation == Isolation::RepeatableRead {
            a.change(&mut txn, a.add_key()).await.unwrap();
        }
        let b = create_as(&world, &mut txn, "b").await;
        writers.until_committed(20).await;
        let source = world.pairs(&mut txn).await;
        if isolation == Isolation::RepeatableRead {
            // One read view for all three, whatever is written meanwhile.
            assert_eq!(a.pairs(&mut txn).await, copied(source.clone()));
            assert_eq!(b.pairs(&mut txn).await, copied(source));
        } else {
            a.change(&mut txn, a.add_key()).await.unwrap();
        }
        world
            .change(&mut txn, Change::DropTable { table: world.table, cascade: false })
            .await
            .unwrap();
        world.commit(txn).await.unwrap();
        let wanted = copied(writers.end().await);
        let mut after = world.begin(Isolation::ReadCommitted);
        for target in [&a, &b] {
            assert_eq!(target.pairs(&mut after).await, wanted, "round {round}");
        }
        // The key has every row, and goes on to be kept.
        for (id, v) in wanted.iter().step_by(97) {
            assert_eq!(a.value(&mut after, *id).await, Some(*v));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_statement_of_its_transaction_sees_source_and_copy_at_one_time() {
    const ROWS: i64 = 3_000;
    let world = Arc::new(World::with_rows(ROWS).await);
    let writers = Writers::start(&world, ROWS);
    let mut txn = world.begin(Isolation::ReadCommitted);
    let target = create_as(&world, &mut txn, "copy").await;
    for _ in 0..30 {
        writers.until_committed(5).await;
        let view = world.statement(&mut txn, false).await;
        let snapshot = txn.snapshot();
        // The source is read last: it goes on, and a view that was not kept would show it.
        let made = target.pairs_in(&view, &snapshot);
        tokio::task::yield_now().await;
        assert_eq!(made, copied(world.pairs_in(&view, &snapshot)));
        world.catalog.end_statement(&mut txn);
    }
    world.change(&mut txn, Change::DropTable { table: world.table, cascade: false }).await.unwrap();
    world.commit(txn).await.unwrap();
    writers.end().await;
}

#[tokio::test]
async fn what_the_owner_writes_to_its_copy_stands() {
    for isolation in BOTH {
        let world = World::with_rows(10).await;
        let mut ddl = world.begin(isolation);
        let target = create_as(&world, &mut ddl, "copy").await;
        target.change(&mut ddl, target.add_key()).await.unwrap();
        target.update(&mut ddl, 1, -1).await.unwrap();
        assert!(target.delete(&mut ddl, 2).await.unwrap());
        target.insert(&mut ddl, 500, 5).await.unwrap();
        // What the owner writes to the source afterwards is the source's.
        world.update(&mut ddl, 4, 41).await.unwrap();
        world.delete(&mut ddl, 5).await.unwrap();

        let mut writer = world.begin(Isolation::ReadCommitted);
        for id in [1, 2, 4, 5] {
            let version = world.version();
            let rid = RowId(id);
            let lock = RowWrite::Lock { rid };
            let stop = version.table.write(writer.part(), Ts::LATEST, &[lock]);
            assert!(matches!(stop, Err((0, WriteStop::Busy { .. }))), "row {id} is held: {stop:?}");
        }
        world.update(&mut writer, 7, 71).await.unwrap();
        world.insert(&mut writer, 10, 100).await.unwrap();
        world.commit(writer).await.unwrap();
        tokio::time::sleep(Duration::from_millis(5)).await;
        world.commit(ddl).await.unwrap();

        let mut after = world.begin(Isolation::ReadCommitted);
        let rows = target.pairs(&mut after).await;
        let copy = |id: i64| (id, double(10 * id));
        let wanted = [(1, -1), copy(4), copy(5), (7, double(71)), copy(8), copy(10), (500, 5)];
        assert_eq!(rows, wanted, "{isolation:?}");
        assert_eq!(world.value(&mut after, 4).await, Some(41));
        assert_eq!(world.value(&mut after, 5).await, None);
    }
}

/// The source row of a copied row changes after the statement that is to write it has begun.
#[tokio::test]
async fn a_copied_row_is_brought_in_line_before_its_owner_writes_it() {
    for isolation in BOTH {
        let world = World::with_rows(10).await;
        let mut ddl = world.begin(isolation);
        let target = create_as(&world, &mut ddl, "copy").await;
        target.change(&mut ddl, target.add_key()).await.unwrap();
        let view = target.statement(&mut ddl, true).await;
        let base = ddl.snapshot().ts;
        let mut writer = world.begin(Isolation::ReadCommitted);
        world.update(&mut writer, 1, 11).await.unwrap();
        world.commit(writer).await.unwrap();
        let table = &view.tables[&target.table].table;
        let rid = target.find(&mut ddl, &view.tables[&target.table], 1);
        let values = [Value::Int64(-1)];
        let rid = rid.expect("row 1 was copied");
        let update = RowWrite::Update { rid, columns: &[1], values: &values };
        let stop = table.write(ddl.part(), base, &[update]);
        assert!(matches!(stop, Err((0, WriteStop::Changed))), "{isolation:?}: {stop:?}");
        world.catalog.end_statement(&mut ddl);
        if isolation == Isolation::ReadCommitted {
            assert_eq!(target.value(&mut ddl, 1).await, Some(double(11)), "it is in line");
            target.update(&mut ddl, 1, -1).await.unwrap();
            world.commit(ddl).await.unwrap();
            let mut after = world.begin(Isolation::ReadCommitted);
            assert_eq!(target.value(&mut after, 1).await, Some(-1));
        }
    }
}

#[tokio::test]
async fn own_writes_before_the_copy_are_copied() {
    for isolation in BOTH {
        let world = World::with_rows(10).await;
        let mut ddl = world.begin(isolation);
        world.update(&mut ddl, 1, 11).await.unwrap();
        world.delete(&mut ddl, 2).await.unwrap();
        world.insert(&mut ddl, 10, 101).await.unwrap();
        let target = create_as(&world, &mut ddl, "copy").await;
        world.update(&mut ddl, 1, 12).await.unwrap();
        let wanted = [(1, 11), (4, 40), (5, 50), (7, 70), (8, 80), (10, 101)];
        assert_eq!(target.pairs(&mut ddl).await, copied(wanted), "{isolation:?}");
        world.commit(ddl).await.unwrap();
        let mut after = world.begin(Isolation::ReadCommitted);
        assert_eq!(target.pairs(&mut after).await, copied(wanted), "{isolation:?}");
        assert_eq!(world.value(&mut after, 1).await, Some(12));
    }
}

/// The owner writes to a source row that somebody else has changed since the statement began.
#[tokio::test]
async fn own_writes_after_the_copy_are_not_copied() {
    let world = World::with_rows(10).await;
    let mut ddl = world.begin(Isolation::ReadCommitted);
    let target = create_as(&world, &mut ddl, "copy").await;
    let view = world.statement(&mut ddl, true).await;
    let mut writer = world.begin(Isolation::ReadCommitted);
    world.update(&mut writer, 1, 11).await.unwrap();
    world.commit(writer).await.unwrap();
    ddl.refresh();
    let (base, values) = (ddl.snapshot().ts, [Value::Int64(12)]);
    let rid = RowId(1);
    let update = RowWrite::Update { rid, columns: &[1], values: &values };
    view.tables[&world.table].table.write(ddl.part(), base, &[update]).expect("the row is free");
    world.catalog.end_statement(&mut ddl);
    assert_eq!(world.value(&mut ddl, 1).await, Some(12));
    let wanted = copied([(1, 11)])[0];
    assert_eq!(target.pairs(&mut ddl).await[0], wanted, "as the other has committed it");
    world.commit(ddl).await.unwrap();
    let mut after = world.begin(Isolation::ReadCommitted);
    assert_eq!(target.pairs(&mut after).await[0], wanted);
    assert_eq!(world.value(&mut after, 1).await, Some(12));
}

/// CREATE TABLE second AS SELECT id, 2 * `column` + 1 AS v FROM a table that `ddl` has changed WHERE …
async fn create_from(from: &World, column: &str, ddl: &mut Transaction) -> World {
    let def = from.catalog.view(ddl).tables[&from.table].def.clone();
    let id = |name: &str| def.column(name).expect("a column of the table").id;
    let query = Arc::new(SomeDoubled { inputs: [id("id"), id(column)] });
    let query = TableQuery::Rows { source: from.table, query };
    let change = Change::CreateTableAs { table: pairs_table("second"), query };
    from.of(from.change(ddl, change).await.unwrap().expect("a table was made"))
}

async fn change_some(world: &World) {
    let mut writer = world.begin(Isolation::ReadCommitted);
    world.update(&mut writer, 1, 100).await.unwrap();
    world.delete(&mut writer, 4).await.unwrap();
    world.insert(&mut writer, 10, 101).await.unwrap();
    world.commit(writer).await.unwrap();
    tokio::time::sleep(Duration::from_millis(10)).await;
}

#[tokio::test]
async fn a_copy_of_a_copy_follows_the_first_source() {
    for isolation in BOTH {
        let world = World::with_rows(10).await;
        let mut ddl = world.begin(isolation);
        let first = create_as(&world, &mut ddl, "first").await;
        change_some(&world).await;
        let second = create_from(&first, "v", &mut ddl).await;
        let seen = world.pairs(&mut ddl).await;
        assert_eq!(second.pairs(&mut ddl).await, copied(copied(seen)), "{isolation:?}");
        world.commit(ddl).await.unwrap();
        let mut after = world.begin(Isolation::ReadCommitted);
        let wanted = [(1, 100), (2, 20), (5, 50), (7, 70), (8, 80), (10, 101)];
        assert_eq!(second.pairs(&mut after).await, copied(copied(wanted)), "{isolation:?}");
    }
}

/// The column that is copied is itself being filled by the same transaction.
#[tokio::test]
async fn a_copy_of_a_changed_table_is_as_of_the_snapshot_too() {
    for isolation in BOTH {
        let world = World::with_rows(10).await;
        let mut ddl = world.begin(isolation);
        world.change(&mut ddl, world.add_double("d")).await.unwrap();
        change_some(&world).await;
        let second = create_from(&world, "d", &mut ddl).await;
        let seen = world.pairs(&mut ddl).await;
        let doubled = |rows: Vec<(i64, i64)>| rows.into_iter().map(|(id, v)| (id, double(v)));
        assert_eq!(second.pairs(&mut ddl).await, copied(doubled(seen)), "{isolation:?}");
        world.commit(ddl).await.unwrap();
        let mut after = world.begin(Isolation::ReadCommitted);
        let seen = world.pairs(&mut after).await;
        assert_eq!(second.pairs(&mut after).await, copied(doubled(seen)), "{isolation:?}");
    }
}

/// ADD COLUMN d computed, to a table that the transaction has made.
async fn add_double(target: &World, ddl: &mut Transaction) {
    let v = target.catalog.view(ddl).tables[&target.table].def.column("v").unwrap().id;
    let add = Change::AddColumn {
        table: target.table,
        column: column("d", ColumnType::Int64),
        fill: Fill::Compute(Arc::new(Double { inputs: [v] }), None),
    };
    target.change(ddl, add).await.unwrap();
}

#[tokio::test]
async fn a_column_added_to_a_copy_is_as_of_the_snapshot_too() {
    for isolation in BOTH {
        let world = World::with_rows(10).await;
        let mut ddl = world.begin(isolation);
        let target = create_as(&world, &mut ddl, "copy").await;
        add_double(&target, &mut ddl).await;
        let mut writer = world.begin(Isolation::ReadCommitted);
        world.update(&mut writer, 1, 11).await.unwrap();
        world.delete(&mut writer, 2).await.unwrap();
        world.commit(writer).await.unwrap();
        tokio::time::sleep(Duration::from_millis(10)).await;
        let rows = target.rows(&mut ddl, &["id", "v", "d"]).await;
        let fixed = isolation != Isolation::ReadCommitted;
        assert_eq!(pair(&rows[0][..2]), (1, double(if fixed { 10 } else { 11 })));
        assert_eq!(rows.iter().any(|row| row[0] == Value::Int64(2)), fixed, "{isolation:?}");
        for row in &rows {
            assert_eq!(row[2], Value::Int64(double(pair(&row[..2]).1)), "{isolation:?}");
        }
        world.commit(ddl).await.unwrap();
        assert_eq!(triples_of(&target).await[0], (1, double(11)));
    }
}

/// CREATE TABLE copy AS …; ADD PRIMARY KEY; ADD COLUMN d computed; DROP TABLE t. The writer is open
/// all the while.
async fn move_away(world: &World) -> World {
    let mut ddl = world.begin(Isolation::ReadCommitted);
    let target = create_as(world, &mut ddl, "copy").await;
    target.change(&mut ddl, target.add_key()).await.unwrap();
    add_double(&target, &mut ddl).await;
    world.change(&mut ddl, Change::DropTable { table: world.table, cascade: false }).await.unwrap();
    world.commit(ddl).await.unwrap();
    target
}

/// The rows of a copy with its computed column.
async fn triples_of(target: &World) -> Vec<(i64, i64)> {
    let rows = target.all(&["id", "v", "d"]).await;
    for row in &rows {
        let (_, v) = pair(&row[..2]);
        assert_eq!(row[2], Value::Int64(double(v)), "the column that was added to the copy");
    }
    rows.iter().map(|row| pair(&row[..2])).collect()
}

/// The same, of a copy with a key.
async fn triples(target: &World) -> Vec<(i64, i64)> {
    let mut after = target.begin(Isolation::ReadCommitted);
    for (id, v) in target.pairs(&mut after).await {
        assert_eq!(target.value(&mut after, id).await, Some(v), "the key has every row");
    }
    triples_of(target).await
}

#[tokio::test]
async fn a_writer_to_a_table_that_goes_is_carried_over_to_its_copy() {
    for isolation in BOTH {
        let world = World::with_rows(10).await;
        let mut writer = world.begin(isolation);
        world.update(&mut writer, 1, 11).await.unwrap();
        world.delete(&mut writer, 2).await.unwrap();
        world.update(&mut writer, 3, 31).await.unwrap(); // kept from now on
        world.update(&mut writer, 4, 60).await.unwrap(); // not kept any more
        world.insert(&mut writer, 10, 101).await.unwrap();
        world.insert(&mut writer, 11, 300).await.unwrap(); // never kept
        let target = move_away(&world).await;
        world.commit(writer).await.unwrap();
        let wanted = [(1, 11), (3, 31), (5, 50), (7, 70), (8, 80), (10, 101)];
        assert_eq!(triples(&target).await, copied(wanted), "{isolation:?}");
    }
}

#[tokio::test]
async fn a_read_committed_writer_finds_its_rows_in_the_copy() {
    for taken_back in [false, true] {
        let world = World::with_rows(10).await;
        let mut writer = world.begin(Isolation::ReadCommitted);
        world.update(&mut writer, 1, 11).await.unwrap();
        let savepoint = writer.savepoint();
        let target = move_away(&world).await;
        assert_eq!(target.value(&mut writer, 1).await, Some(double(11)));
        target.update(&mut writer, 1, 5).await.unwrap();
        if taken_back {
            writer.rollback_to(savepoint);
        } else {
            // As a generated column would be.
            let d = [Value::Int64(double(5))];
            let version = target.version();
            let rid = target.find(&mut writer, &version, 1);
            let rid = rid.expect("row 1 is there");
            let update = RowWrite::Update { rid, columns: &[2], values: &d };
            version.table.write(writer.part(), Ts::LATEST, &[update]).expect("it is its own");
        }
        world.commit(writer).await.unwrap();
        let v = if taken_back { double(11) } else { 5 };
        let rest = [(2, 20), (4, 40), (5, 50), (7, 70), (8, 80)];
        let wanted: Vec<_> = [(1, v)].into_iter().chain(copied(rest)).collect();
        assert_eq!(triples(&target).await, wanted, "taken back: {taken_back}");
    }
}

/// A row that others have written in the copy since the flip is not written over.
#[tokio::test]
async fn of_writers_to_a_table_and_its_copy_the_first_wins() {
    for isolation in BOTH {
        let world = World::with_rows(10).await;
        let (mut loser, mut holder) = (world.begin(isolation), world.begin(isolation));
        world.update(&mut loser, 1, 11).await.unwrap();
        let rows = [RowWrite::Lock { rid: RowId(2) }];
        let version = world.version();
        world.update(&mut holder, 4, 41).await.unwrap();
        version.table.write(holder.part(), Ts::LATEST, &rows).expect("nobody has it");
        let target = move_away(&world).await;
        let mut writer = world.begin(Isolation::ReadCommitted);
        target.update(&mut writer, 1, 7).await.unwrap();
        target.update(&mut writer, 2, 8).await.unwrap();
        world.commit(writer).await.unwrap();
        let error = world.commit(loser).await.unwrap_err();
        assert_eq!(error.sqlstate().as_str(), "40001", "{isolation:?}: {error}");
        // Whoever has only held a row has nothing to carry.
        world.commit(holder).await.unwrap();
        let mut after = world.begin(Isolation::ReadCommitted);
        let rows = target.pairs(&mut after).await;
        assert_eq!(rows[..3], [(1, 7), (2, 8), (4, double(41))], "{isolation:?}");
    }
}

/// A transaction with a fixed snapshot keeps what it reads, and nothing once it has ended.
#[tokio::test]
async fn a_copy_that_has_ended_holds_no_garbage_back() {
    for (round, drops) in [false, true].into_iter().enumerate() {
        let world = World::with_rows(10).await;
        let mut ddl = world.begin(Isolation::RepeatableRead);
        create_as(&world, &mut ddl, &format!("copy{round}")).await;
        if drops {
            let drop = Change::DropTable { table: world.table, cascade: false };
            world.change(&mut ddl, drop).await.unwrap();
            world.commit(ddl).await.unwrap();
        } else {
            ddl.abort();
        }
        let engine = world.catalog.engine();
        let now = engine.barrier();
        let deadline = Instant::now() + Duration::from_secs(5);
        while engine.oldest_snapshot() < now {
            assert!(Instant::now() < deadline, "dropped: {drops}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

#[tokio::test]
async fn a_copy_that_is_rolled_back_was_never_there() {
    let world = World::with_rows(10).await;
    let spaces = world.catalog.engine().spaces();
    let mut ddl = world.begin(Isolation::ReadCommitted);
    let (savepoint, mark) = (world.catalog.savepoint(&ddl), ddl.savepoint());
    create_as(&world, &mut ddl, "copy").await;
    world.catalog.rollback_to(&mut ddl, &savepoint);
    ddl.rollback_to(mark);
    let view = world.statement(&mut ddl, false).await;
    assert!(view.table("public", "copy").is_none(), "rolled back to the savepoint");
    world.catalog.end_statement(&mut ddl);
    create_as(&world, &mut ddl, "copy").await;
    ddl.abort();
    assert!(world.catalog.latest().table("public", "copy").is_none());
    let mut writer = world.begin(Isolation::ReadCommitted);
    world.update(&mut writer, 1, 11).await.unwrap();
    world.commit(writer).await.unwrap();
    let deadline = Instant::now() + Duration::from_secs(5);
    while world.catalog.engine().spaces() != spaces {
        assert!(Instant::now() < deadline, "the copies' rows are freed");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
