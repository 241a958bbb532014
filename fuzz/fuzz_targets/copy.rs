//! See `entries/copy.rs`. The first byte says which format.

#![no_main]

use std::sync::{Arc, LazyLock};

use froglet_sql::Database;
use libfuzzer_sys::fuzz_target;
use tempfile::TempDir;
use tokio::runtime::Runtime;

#[path = "../entries/copy.rs"]
mod copy;

struct World {
    runtime: Runtime,
    directory: TempDir,
    db: Arc<Database>,
}

static WORLD: LazyLock<World> = LazyLock::new(|| {
    let runtime = Runtime::new().expect("a runtime");
    let directory = TempDir::new().expect("a directory");
    let db = runtime.block_on(copy::database(directory.path()));
    runtime.block_on(copy::run(&db, copy::TABLE)).expect("the table is made");
    World { runtime, directory, db }
});

fuzz_target!(|bytes: &[u8]| {
    let Some((first, bytes)) = bytes.split_first() else { return };
    let format = ["parquet", "arrow", "csv", "text", "binary"][usize::from(*first) % 5];
    let world = &*WORLD;
    let _ = world.runtime.block_on(copy::read(&world.db, world.directory.path(), format, bytes));
});
