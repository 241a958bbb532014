//! Writers that began under the older schema and commit after the flip.

use froglet_engine::Value;
use froglet_schema::Change;
use froglet_txn::Isolation;

use crate::world::{World, double};

#[tokio::test]
async fn an_open_writer_is_carried_over_a_computed_column() {
    for isolation in [Isolation::ReadCommitted, Isolation::RepeatableRead] {
        let world = World::with_rows(10).await;
        let mut writer = world.begin(isolation);
        world.update(&mut writer, 1, 77).await.unwrap();
        world.insert(&mut writer, 10, 5).await.unwrap();
        world.delete(&mut writer, 2).await.unwrap();
        world.alter(world.add_double("d")).await.unwrap();
        world.commit(writer).await.unwrap();
        let rows = world.all(&["id", "v", "d"]).await;
        assert_eq!(rows.len(), 10);
        for row in rows {
            let Value::Int64(v) = row[1] else { panic!("v is never NULL here") };
            assert_eq!(row[2], Value::Int64(double(v)), "{isolation:?}: row {:?}", row[0]);
        }
    }
}

#[tokio::test]
async fn a_read_committed_writer_sees_its_rows_in_the_new_shape() {
    let world = World::with_rows(10).await;
    let mut writer = world.begin(Isolation::ReadCommitted);
    world.update(&mut writer, 1, 77).await.unwrap();
    world.alter(world.alter_v()).await.unwrap();
    let rows = world.rows(&mut writer, &["id", "v"]).await;
    assert_eq!(rows[1][1], Value::Int64(double(77)), "its own row, carried over");
    assert_eq!(rows[3][1], Value::Int64(double(30)), "another row, migrated");
    world.commit(writer).await.unwrap();
    assert_eq!(world.all(&["id", "v"]).await[1][1], Value::Int64(double(77)));
}

#[tokio::test]
async fn a_carried_over_row_obeys_the_new_constraint() {
    let world = World::with_rows(10).await;
    let mut good = world.begin(Isolation::ReadCommitted);
    let mut bad = world.begin(Isolation::ReadCommitted);
    world.update(&mut good, 1, 99).await.unwrap();
    world.update(&mut bad, 2, 1_000_000).await.unwrap();
    world.alter(world.add_check(1000)).await.unwrap();
    world.commit(good).await.unwrap();
    let error = world.commit(bad).await.unwrap_err();
    assert_eq!(error.sqlstate().as_str(), "23514");
    assert_eq!(world.all(&["id", "v"]).await[2][1], Value::Int64(20), "the bad write is undone");
}

#[tokio::test]
async fn a_carried_over_row_meets_a_new_unique_index() {
    let world = World::with_rows(10).await;
    let mut writer = world.begin(Isolation::ReadCommitted);
    world.update(&mut writer, 1, 20).await.unwrap();
    world.alter(world.add_unique()).await.expect("the duplicate is not committed");
    let error = world.commit(writer).await.unwrap_err();
    assert_eq!(error.sqlstate().as_str(), "23505");
}

#[tokio::test]
async fn a_writer_to_a_dropped_table_runs_again() {
    let world = World::with_rows(10).await;
    let mut writer = world.begin(Isolation::ReadCommitted);
    world.update(&mut writer, 1, 20).await.unwrap();
    world.alter(Change::DropTable { table: world.table, cascade: false }).await.unwrap();
    let error = world.commit(writer).await.unwrap_err();
    assert_eq!(error.sqlstate().as_str(), "40001");
    assert!(error.retryable());
}

/// In a unique column that is being filled, no row takes its new key while another of the same
/// writer has it still.
#[tokio::test]
async fn swapped_keys_are_carried_over_a_changed_type() {
    let world = World::with_rows(10).await;
    world.alter(world.add_unique()).await.unwrap();
    let mut writer = world.begin(Isolation::RepeatableRead);
    for (id, v) in [(1, -1), (2, 10), (1, 20)] {
        world.update(&mut writer, id, v).await.unwrap();
    }
    world.alter(world.alter_v()).await.unwrap();
    world.commit(writer).await.unwrap();
    let rows = world.all(&["id", "v"]).await;
    assert_eq!(rows[1][1], Value::Int64(double(20)));
    assert_eq!(rows[2][1], Value::Int64(double(10)));
}

/// What was carried over is undone with everything else after the savepoint; the rows written before
/// it are the writer's own all the same, and are carried over again.
#[tokio::test]
async fn a_rollback_to_a_savepoint_does_not_take_back_what_was_written_before() {
    for ends in [false, true] {
        let world = World::with_rows(10).await;
        let mut writer = world.begin(Isolation::ReadCommitted);
        world.update(&mut writer, 1, 77).await.unwrap();
        let savepoint = writer.savepoint();
        for wanted in [double(77), double(double(77))] {
            world.alter(world.alter_v()).await.unwrap();
            // Whatever is needed to carry it over again is kept meanwhile.
            tokio::time::sleep(std::time::Duration::from_millis(250)).await;
            assert_eq!(world.value(&mut writer, 1).await, Some(wanted), "carried over");
            tokio::time::sleep(std::time::Duration::from_millis(250)).await;
        }
        writer.rollback_to(savepoint);
        if ends {
            let wanted = double(double(77));
            assert_eq!(world.value(&mut writer, 1).await, Some(wanted), "carried over again");
        }
        world.commit(writer).await.unwrap();
        let rows = world.all(&["id", "v"]).await;
        assert_eq!(rows[1][1], Value::Int64(double(double(77))), "a statement follows: {ends}");
        assert_eq!(rows[3][1], Value::Int64(double(double(30))));
    }
}

/// As a statement does that is to run again: it has carried rows over, and takes back what it wrote.
#[tokio::test]
async fn only_what_was_carried_over_after_a_savepoint_is_carried_over_again() {
    let world = World::with_rows(10).await;
    let mut writer = world.begin(Isolation::ReadCommitted);
    world.update(&mut writer, 1, 77).await.unwrap();
    world.alter(world.alter_v()).await.unwrap();
    world.update(&mut writer, 2, 78).await.unwrap();
    let savepoint = writer.savepoint();
    world.alter(world.alter_v()).await.unwrap();
    world.update(&mut writer, 3, 79).await.unwrap();
    writer.rollback_to(savepoint);
    world.commit(writer).await.unwrap();
    let rows = world.all(&["id", "v"]).await;
    let v: Vec<_> = rows[1..4].iter().map(|row| row[1].clone()).collect();
    assert_eq!(v, [double(double(77)), double(78), double(double(30))].map(Value::Int64));
}
