//! Inside a transaction with a fixed snapshot, a table that it migrates is as of that snapshot, the
//! new columns too; after its commit they follow the newest rows.

use std::ops::ControlFlow;

use froglet_engine::{ColumnType, Direction, KeyRange, Value, key};
use froglet_schema::change::NewKeyPart;
use froglet_schema::{Change, Fill, NewIndex};
use froglet_txn::{Isolation, Transaction};

use crate::indexes::{by_index, by_scan};
use crate::world::{Double, World, column, double};

const FIXED: [Isolation; 1] = [Isolation::RepeatableRead];

/// Changes rows 1, 2 and 3 of the world after `txn` has taken its snapshot.
async fn change_behind(world: &World, txn: &mut Transaction) {
    assert_eq!(world.value(txn, 1).await, Some(10));
    let mut writer = world.begin(Isolation::ReadCommitted);
    world.update(&mut writer, 1, 11).await.unwrap();
    world.delete(&mut writer, 2).await.unwrap();
    world.update(&mut writer, 3, 20).await.unwrap();
    world.insert(&mut writer, 1_000_000, 30).await.unwrap();
    world.commit(writer).await.unwrap();
}

fn triple(row: &[Value]) -> (i64, i64, i64) {
    match row {
        [Value::Int64(id), Value::Int64(v), Value::Int64(d)] => (*id, *v, *d),
        other => panic!("a NULL in {other:?}"),
    }
}

#[tokio::test]
async fn a_computed_column_is_as_of_the_snapshot() {
    for isolation in FIXED {
        let world = World::with_rows(10).await;
        let mut ddl = world.begin(isolation);
        change_behind(&world, &mut ddl).await;
        world.change(&mut ddl, world.add_double("d")).await.unwrap();
        let mut later = world.begin(Isolation::ReadCommitted);
        world.update(&mut later, 4, 41).await.unwrap();
        world.commit(later).await.unwrap();
        for _ in 0..3 {
            let rows = world.rows(&mut ddl, &["id", "v", "d"]).await;
            let rows: Vec<_> = rows.iter().map(|row| triple(row)).collect();
            let before: Vec<_> = (0..10).map(|id| (id, 10 * id, double(10 * id))).collect();
            assert_eq!(rows, before, "{isolation:?}");
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        world.commit(ddl).await.unwrap();
        let rows = world.all(&["id", "v", "d"]).await;
        let rows: Vec<_> = rows.iter().map(|row| triple(row)).collect();
        let v = |id| [0, 11, 0, 20, 41].get(id as usize).copied().unwrap_or(10 * id);
        let after = [0, 1, 3, 4, 5, 6, 7, 8, 9].map(|id| (id, v(id), double(v(id))));
        assert_eq!(rows[..9], after, "{isolation:?}");
        assert_eq!(rows[9..], [(1_000_000, 30, double(30))]);
    }
}

/// A column computed from one that is itself being filled, and the old one gone.
#[tokio::test]
async fn columns_computed_from_new_columns_are_as_of_the_snapshot() {
    let world = World::with_rows(10).await;
    let mut ddl = world.begin(Isolation::RepeatableRead);
    change_behind(&world, &mut ddl).await;
    world.change(&mut ddl, world.alter_v()).await.unwrap();
    let view = world.statement(&mut ddl, false).await;
    let v = view.tables[&world.table].def.column("v").expect("stays").id;
    world.catalog.end_statement(&mut ddl);
    let add = Change::AddColumn {
        table: world.table,
        column: column("d", ColumnType::Int64),
        fill: Fill::Compute(std::sync::Arc::new(Double { inputs: [v] }), None),
    };
    world.change(&mut ddl, add).await.unwrap();
    let rows = world.rows(&mut ddl, &["id", "v", "d"]).await;
    let rows: Vec<_> = rows.iter().map(|row| triple(row)).collect();
    let row = |id| (id, double(10 * id), double(double(10 * id)));
    assert_eq!(rows, (0..10).map(row).collect::<Vec<_>>());
    assert_eq!(world.value(&mut ddl, 1).await, Some(double(10)));
    world.commit(ddl).await.unwrap();
    let rows = world.all(&["id", "v", "d"]).await;
    assert_eq!(triple(&rows[1]), (1, double(11), double(double(11))));
    assert_eq!(triple(&rows[2]), (3, double(20), double(double(20))));
}

/// What the transaction writes itself stands, and rolling back to a savepoint takes it away.
#[tokio::test]
async fn own_writes_stand_beside_rows_of_the_snapshot() {
    let mut world = World::with_rows(10).await;
    let mut ddl = world.begin(Isolation::RepeatableRead);
    change_behind(&world, &mut ddl).await;
    world.update(&mut ddl, 5, 51).await.unwrap();
    world.change(&mut ddl, world.add_double("d")).await.unwrap();
    let (schema, data) = (world.catalog.savepoint(&ddl), ddl.savepoint());
    world.keeps_d = true;
    world.update(&mut ddl, 6, 61).await.unwrap();
    world.insert(&mut ddl, 10, 7).await.unwrap();
    let want = |six| {
        let v = move |id| match id {
            5 => 51,
            6 => six,
            id => 10 * id,
        };
        (0..10).map(move |id| (id, v(id), double(v(id))))
    };
    let rows = world.rows(&mut ddl, &["id", "v", "d"]).await;
    let rows: Vec<_> = rows.iter().map(|row| triple(row)).collect();
    assert_eq!(rows, want(61).chain([(10, 7, double(7))]).collect::<Vec<_>>());
    world.catalog.rollback_to(&mut ddl, &schema);
    ddl.rollback_to(data);
    let rows = world.rows(&mut ddl, &["id", "v", "d"]).await;
    let rows: Vec<_> = rows.iter().map(|row| triple(row)).collect();
    assert_eq!(rows, want(60).collect::<Vec<_>>());
    world.commit(ddl).await.unwrap();
}

/// An index has no keys of versions older than those that it was built from.
#[tokio::test]
async fn an_index_being_built_finds_what_the_snapshot_sees() {
    for isolation in FIXED {
        let world = World::with_rows(10_000).await;
        let mut ddl = world.begin(isolation);
        change_behind(&world, &mut ddl).await;
        world.update(&mut ddl, 9, 5).await.unwrap();
        let index = NewIndex {
            name: Some("t_v".to_owned()),
            columns: vec![NewKeyPart::plain("v")],
            unique: false,
            ..NewIndex::default()
        };
        world.change(&mut ddl, Change::CreateIndex { table: world.table, index }).await.unwrap();
        let rows = by_scan(&world, &mut ddl).await;
        assert_eq!(by_index(&world, &mut ddl).await, rows);
        assert_eq!(rows[..5], [(0, 0), (5, 9), (10, 1), (20, 2), (30, 3)]);
        let view = world.statement(&mut ddl, false).await;
        let version = view.tables[&world.table].clone();
        let at = version.table.layout().indexes.len() - 1;
        let part = version.table.layout().indexes[at].key[0];
        let mut found = Vec::new();
        for v in [10_i64, 11, 20] {
            let mut encoded = Vec::new();
            key::encode_part(&mut encoded, &Value::Int64(v), &part);
            let range = KeyRange::prefix(encoded);
            let snapshot = ddl.snapshot();
            let visit = &mut |_, row: &mut Vec<Value>| {
                found.push((v, row[0].clone()));
                ControlFlow::Continue(())
            };
            version.table.seek(&snapshot, at, &range, Direction::Backward, &[0], visit);
        }
        world.catalog.end_statement(&mut ddl);
        assert_eq!(found, [(10, Value::Int64(1)), (20, Value::Int64(2))]);
        world.commit(ddl).await.unwrap();
        let mut txn = world.begin(Isolation::ReadCommitted);
        let rows = by_scan(&world, &mut txn).await;
        assert_eq!(by_index(&world, &mut txn).await, rows);
        assert!(!rows.contains(&(10, 1)) && rows.contains(&(11, 1)));
    }
}
