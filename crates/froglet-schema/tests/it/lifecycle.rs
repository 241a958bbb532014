//! One user: changes appear at commit, vanish at rollback, and old snapshots keep the old shape.

use froglet_engine::{ColumnType, Value};
use froglet_schema::{Change, Fill, SchemaError};
use froglet_txn::{Isolation, Limits};

use crate::world::{World, column, double};

#[tokio::test]
async fn a_constant_column_appears_without_touching_a_row() {
    let world = World::with_rows(3).await;
    let change = Change::AddColumn {
        table: world.table,
        column: column("c", ColumnType::Int64),
        fill: Fill::Constant(Value::Int64(7)),
    };
    world.alter(change).await.unwrap();
    for row in world.all(&["id", "c"]).await {
        assert_eq!(row[1], Value::Int64(7));
    }
    // Rows written from now on have their own value, and the others keep theirs.
    let mut txn = world.begin(Isolation::ReadCommitted);
    world.insert(&mut txn, 3, 30).await.unwrap();
    world.commit(txn).await.unwrap();
    let values: Vec<Value> =
        world.all(&["id", "c"]).await.into_iter().map(|r| r[1].clone()).collect();
    assert_eq!(values, [Value::Int64(7), Value::Int64(7), Value::Int64(7), Value::Null]);
}

#[tokio::test]
async fn a_computed_column_is_there_for_every_row() {
    let world = World::with_rows(20_000).await;
    world.alter(world.add_double("d")).await.unwrap();
    let rows = world.all(&["id", "v", "d"]).await;
    assert_eq!(rows.len(), 20_000);
    for row in rows {
        let Value::Int64(v) = row[1] else { panic!("v is never NULL here") };
        assert_eq!(row[2], Value::Int64(double(v)), "row {:?}", row[0]);
    }
}

#[tokio::test]
async fn a_rolled_back_change_was_never_there() {
    let world = World::with_rows(100).await;
    let before = world.version().def.clone();
    let mut txn = world.begin(Isolation::ReadCommitted);
    world.change(&mut txn, world.add_double("d")).await.unwrap();
    assert_eq!(world.rows(&mut txn, &["id", "d"]).await[4][1], Value::Int64(double(40)));
    txn.abort();
    assert_eq!(world.version().def, before);
    assert_eq!(world.all(&["id", "v"]).await.len(), 100);
    world.alter(world.add_double("d")).await.expect("the name is free again");
}

#[tokio::test]
async fn a_savepoint_takes_one_change_back_and_keeps_the_other() {
    let world = World::with_rows(10).await;
    let mut txn = world.begin(Isolation::ReadCommitted);
    world.change(&mut txn, world.add_double("kept")).await.unwrap();
    let (schema, data) = (world.catalog.savepoint(&txn), txn.savepoint());
    world.change(&mut txn, world.add_double("undone")).await.unwrap();
    world.update(&mut txn, 1, 1000).await.unwrap();
    world.catalog.rollback_to(&mut txn, &schema);
    txn.rollback_to(data);
    world.commit(txn).await.unwrap();
    assert!(world.version().def.column("undone").is_none());
    let rows = world.all(&["id", "v", "kept"]).await;
    assert_eq!(rows[1], [Value::Int64(1), Value::Int64(10), Value::Int64(double(10))]);
}

#[tokio::test]
async fn an_old_snapshot_keeps_reading_the_old_column() {
    let world = World::with_rows(1000).await;
    let mut reader = world.begin(Isolation::RepeatableRead);
    let before = world.rows(&mut reader, &["id", "v"]).await;
    world.alter(world.alter_v()).await.unwrap();
    let mut writer = world.begin(Isolation::ReadCommitted);
    world.update(&mut writer, 5, -1).await.unwrap();
    world.commit(writer).await.unwrap();
    for _ in 0..3 {
        world.catalog.latest();
        assert_eq!(world.rows(&mut reader, &["id", "v"]).await, before);
    }
    drop(reader);
    let after = world.all(&["id", "v"]).await;
    assert_eq!(after[5][1], Value::Int64(-1));
    assert_eq!(after[6][1], Value::Int64(double(60)));
}

#[tokio::test]
async fn own_dml_and_own_ddl_mix_in_one_transaction() {
    let world = World::with_rows(50).await;
    let mut txn = world.begin(Isolation::ReadCommitted);
    world.update(&mut txn, 1, 111).await.unwrap();
    world.insert(&mut txn, 50, 500).await.unwrap();
    world.delete(&mut txn, 2).await.unwrap();
    world.change(&mut txn, world.add_double("d")).await.unwrap();
    world.update(&mut txn, 3, 333).await.unwrap();
    world.insert(&mut txn, 51, 510).await.unwrap();
    world.commit(txn).await.unwrap();
    let rows = world.all(&["id", "v", "d"]).await;
    let of = |id: i64| rows.iter().find(|r| r[0] == Value::Int64(id)).cloned();
    assert_eq!(of(1).unwrap()[2], Value::Int64(double(111)), "written before the change");
    assert_eq!(of(50).unwrap()[2], Value::Int64(double(500)), "inserted before the change");
    assert_eq!(of(2), None);
    assert_eq!(of(3).unwrap()[2], Value::Int64(double(30)), "updated after: d is as it was filled");
    assert_eq!(of(51).unwrap()[2], Value::Null, "inserted after: the new column's own default");
}

#[tokio::test]
async fn two_changes_of_one_table_take_turns() {
    let world = World::with_rows(10).await;
    let mut first = world.begin(Isolation::ReadCommitted);
    world.change(&mut first, world.add_double("a")).await.unwrap();
    let mut second = world.begin(Isolation::ReadCommitted);
    let limits =
        Limits { lock_timeout: Some(std::time::Duration::from_millis(20)), ..Limits::none() };
    world.catalog.begin_statement(&mut second, true, &limits).await.unwrap();
    let change = world.add_double("b");
    let options = crate::world::options();
    let refused = world.catalog.apply(&mut second, change, &options, &limits).await;
    assert_eq!(refused.unwrap_err().sqlstate().as_str(), "55P03");
    second.abort();
    world.commit(first).await.unwrap();

    // A snapshot from before the first change cannot change the table any more.
    let mut third = world.begin(Isolation::RepeatableRead);
    world.rows(&mut third, &["id"]).await;
    world.alter(world.add_double("b")).await.unwrap();
    let stale = world.change(&mut third, world.add_double("c")).await.unwrap_err();
    assert_eq!(stale.sqlstate().as_str(), "40001");
    assert!(!matches!(stale, SchemaError::Stale), "REPEATABLE READ is told so");
}
