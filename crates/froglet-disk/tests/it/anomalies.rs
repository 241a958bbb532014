//! What the snapshot registry is for: the anomalies of Skeena's figure 2.1, without it and with it.
//!
//! Figure 2.1 (b), a reader who sees the anchor's half and not the other one, cannot be made even without the registry:
//! the half beside has its timestamp before the anchor's is visible, and a reader waits for its verdict. The nearest is the
//! other way round, and is the second test. Figure 2.2 (write skew over both) is the certifier's: `test_disk.py`,
//! `test_write_skew_over_both_is_refused`.

use froglet_engine::env::MemEnv;
use froglet_engine::{Engine, Home, RowWrite, Ts, Value};
use froglet_txn::RegistryOptions;

use crate::support::{Options, begin, insert, open, rows, table};

/// Sums of both tables, under one view taken before a transfer, which is made when only the first was read; the
/// second is on disk or in memory.
fn sum_around_a_transfer(is_on: bool, disk_last: bool) -> i64 {
    let files = tempfile::tempdir().expect("a directory");
    let registry = RegistryOptions { is_on, ..RegistryOptions::default() };
    let options = Options { registry, ..Options::default() };
    let both = open(&MemEnv::new(1), files.path().to_owned(), &options).expect("both open");
    let engine: &dyn Engine = &*both.joint;
    let (memory, disk) = (table(engine, Home::Memory, 1), table(engine, Home::Disk, 2));
    let mut txn = begin(engine);
    let in_memory = insert(&*memory, &mut *txn, &[(1, 100)])[0];
    let on_disk = insert(&*disk, &mut *txn, &[(1, 100)])[0];
    txn.post_commit().expect("it commits").waits_for_nothing("it is not told to anybody");

    let view = engine.snapshot();
    let (first, last) = if disk_last { (&memory, &disk) } else { (&disk, &memory) };
    let before = rows(&**first, &view)[&1];
    let mut txn = begin(engine);
    for (table, rid, n) in [(&memory, in_memory, 60), (&disk, on_disk, 140)] {
        let values = [Value::Int64(n)];
        let write = RowWrite::Update { rid, columns: &[1], values: &values };
        let base = Ts::LATEST;
        table.write(&mut *txn, base, &[write]).expect("nobody else has the row");
    }
    txn.post_commit().expect("it commits").waits_for_nothing("it is not told to anybody");
    before + rows(&**last, &view)[&1]
}

#[test]
fn without_the_registry_a_view_that_crosses_late_sees_half_of_a_later_commit() {
    assert_eq!(sum_around_a_transfer(false, true), 240);
}

#[test]
fn with_it_a_view_sees_both_engines_at_one_time() {
    assert_eq!(sum_around_a_transfer(true, true), 200);
    assert_eq!(sum_around_a_transfer(true, false), 200);
}
