//! A table that moved away and back is in two spaces while somebody writes under the older definition: their indexes have
//! one number.

use froglet_engine::env::MemEnv;
use froglet_engine::{Engine, Home, IndexId};

use crate::support::{Options, begin, insert, open, rows, table_with};

#[test]
fn keys_of_indexes_of_one_number_are_two() {
    let (env, files) = (MemEnv::new(1), tempfile::tempdir().expect("a directory"));
    let both = open(&env, files.path().to_owned(), &Options::default()).expect("both open");
    let engine: &dyn Engine = &*both.joint;
    let [old, new] = [1, 2].map(|space| table_with(engine, Home::Disk, space, IndexId(9)));
    let (mut first, mut second) = (begin(engine), begin(engine));
    insert(&*old, &mut *first, &[(1, 1)]);
    insert(&*new, &mut *second, &[(1, 2)]);
    for txn in [first, second] {
        txn.post_commit().expect("it commits").waits_for_nothing("it is not told to anybody");
    }
    let view = engine.snapshot();
    assert_eq!([rows(&*old, &view)[&1], rows(&*new, &view)[&1]], [1, 2]);
}
