//! Changes that verify: they fail as a whole, naming the row, or hold for ever after.

use froglet_engine::{ColumnType, WriteStop};
use froglet_schema::{Change, ForeignKeyAction, NewConstraint, NewForeignKey};
use froglet_txn::Isolation;

use crate::world::World;

#[tokio::test]
async fn a_check_that_does_not_hold_leaves_everything_as_it_was() {
    let world = World::with_rows(1000).await;
    let before = world.version().def.clone();
    let error = world.alter(world.add_check(9_990)).await.unwrap_err();
    assert_eq!(error.sqlstate().as_str(), "23514");
    assert_eq!(world.version().def, before);
    world.alter(world.add_check(9_991)).await.expect("every v is at most 9990");
}

#[tokio::test]
async fn a_unique_constraint_meets_a_duplicate() {
    let world = World::with_rows(1000).await;
    let mut txn = world.begin(Isolation::ReadCommitted);
    world.update(&mut txn, 7, 80).await.unwrap();
    world.commit(txn).await.unwrap();
    let error = world.alter(world.add_unique()).await.unwrap_err();
    assert_eq!(error.sqlstate().as_str(), "23505");
    let mut txn = world.begin(Isolation::ReadCommitted);
    world.update(&mut txn, 7, 81).await.unwrap();
    world.commit(txn).await.unwrap();
    world.alter(world.add_unique()).await.expect("mended");
    let mut txn = world.begin(Isolation::ReadCommitted);
    let stop = world.insert(&mut txn, 5000, 81).await.unwrap_err();
    assert!(matches!(stop, WriteStop::Duplicate { .. }), "{stop:?}");
}

#[tokio::test]
async fn a_foreign_key_needs_every_parent() {
    let world = World::with_rows(100).await;
    let parent = world.of(world.create("p").await);
    let mut txn = world.begin(Isolation::ReadCommitted);
    for id in 0..99 {
        parent.insert(&mut txn, 10 * id, 0).await.unwrap();
    }
    world.commit(txn).await.unwrap();
    let add = || refer_to(&world, &parent);
    let error = world.alter(add()).await.unwrap_err();
    assert_eq!(error.sqlstate().as_str(), "23503");
    assert!(format!("{error:?}").contains("990"), "names the missing key: {error:?}");
    let mut txn = world.begin(Isolation::ReadCommitted);
    parent.insert(&mut txn, 990, 0).await.unwrap();
    world.commit(txn).await.unwrap();
    world.alter(add()).await.expect("every parent is there");
    assert_eq!(parent.version().def.referenced_by, [world.table]);
}

/// ADD FOREIGN KEY (v) REFERENCES …
fn refer_to(world: &World, parent: &World) -> Change {
    Change::AddConstraint {
        table: world.table,
        constraint: NewConstraint::ForeignKey {
            name: None,
            key: NewForeignKey {
                columns: vec!["v".to_owned()],
                parent: Some(parent.table),
                parent_columns: vec![],
                on_delete: ForeignKeyAction::NoAction,
                on_update: ForeignKeyAction::NoAction,
                timing: froglet_schema::def::Timing::NotDeferrable,
            },
        },
    }
}

#[tokio::test]
async fn a_parent_may_have_numbers_of_another_type() {
    let types =
        [ColumnType::Int16, ColumnType::Decimal { precision: 10, scale: 2 }, ColumnType::Numeric];
    for ty in types {
        let world = World::with_rows(10).await;
        let parent = world.of(world.create_with("p", ty).await);
        let mut txn = world.begin(Isolation::ReadCommitted);
        for id in 0..9 {
            parent.insert(&mut txn, 10 * id, 0).await.unwrap();
        }
        world.commit(txn).await.unwrap();
        let error = world.alter(refer_to(&world, &parent)).await.unwrap_err();
        assert_eq!(error.sqlstate().as_str(), "23503", "{ty:?}: {error}");
        let mut txn = world.begin(Isolation::ReadCommitted);
        parent.insert(&mut txn, 90, 0).await.unwrap();
        world.commit(txn).await.unwrap();
        world.alter(refer_to(&world, &parent)).await.expect("every parent is there");
    }
}

#[tokio::test]
async fn a_key_that_every_row_shares_is_refused_at_once() {
    let world = World::with_rows(0).await;
    let mut txn = world.begin(Isolation::ReadCommitted);
    for id in 0..20_000 {
        world.insert(&mut txn, id, 1).await.unwrap();
    }
    world.commit(txn).await.unwrap();
    let error = world.alter(world.add_unique()).await.unwrap_err();
    assert_eq!(error.sqlstate().as_str(), "23505");
}

#[tokio::test]
async fn a_violation_whose_row_is_deleted_before_the_commit_is_none() {
    let world = World::with_rows(10).await;
    let mut ddl = world.begin(Isolation::ReadCommitted);
    world.change(&mut ddl, world.add_check(1000)).await.unwrap();
    let mut txn = world.begin(Isolation::ReadCommitted);
    world.update(&mut txn, 5, 2000).await.unwrap();
    world.commit(txn).await.unwrap();
    // Time for capture to look at it.
    tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    let mut txn = world.begin(Isolation::ReadCommitted);
    world.delete(&mut txn, 5).await.unwrap();
    world.commit(txn).await.unwrap();
    world.commit(ddl).await.expect("mended");
}
