//! See `entries/sql.rs`. Texts run one after the other on one database, which is made anew now
//! and then: what a text left behind is there for the next ones.

#![no_main]

use std::cell::RefCell;
use std::sync::Arc;

use froglet_sql::Database;
use libfuzzer_sys::fuzz_target;
use tokio::runtime::Runtime;

#[path = "../entries/sql.rs"]
mod sql;

/// Texts on one database.
const TEXTS: usize = 500;

const TABLES: &str = "create table t (id int primary key, v text unique, n numeric(10, 2));
    create table u (t_id int references t, at timestamptz default now());
    insert into t values (1, 'a', 1.5), (2, null, null)";

struct World {
    runtime: Runtime,
    db: Option<(Arc<Database>, usize)>,
}

thread_local! {
    static WORLD: RefCell<World> =
        RefCell::new(World { runtime: Runtime::new().expect("a runtime"), db: None });
}

fuzz_target!(|text: &str| {
    WORLD.with_borrow_mut(|world| {
        let (db, texts) = world.db.take().filter(|(_, texts)| *texts < TEXTS).unwrap_or_else(|| {
            let db = world.runtime.block_on(sql::database());
            world.runtime.block_on(sql::run(&db, TABLES)).expect("the tables are made");
            (db, 0)
        });
        let _ = world.runtime.block_on(sql::run(&db, text));
        world.db = Some((db, texts + 1));
    });
});
