//! Model-based histories over both engines: they do what the model of one says.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use froglet_disk::DiskTable;
use froglet_engine::crossing::Beside;
use froglet_engine::env::{Env, MemEnv};
use froglet_engine::{Engine, EngineError, HeldBack, Holder, Home, Table};
use froglet_memory::MemoryTable;
use froglet_testkit::{Amount, Host, TABLES, run_histories};
use froglet_txn::RegistryOptions;
use tempfile::TempDir;

use crate::support::{Both, Options, open};

struct Joined {
    homes: [Home; TABLES],
    options: Options,
    /// Of the history under way.
    files: Mutex<Option<TempDir>>,
    both: Mutex<Option<Both>>,
}

impl Joined {
    /// What was released at the anchor is released beside by a callback, which another thread may be about to make.
    fn until_released(&self, engine: &dyn Engine) {
        let disk = self.both.lock().unwrap().as_ref().and_then(|both| both.disk.upgrade());
        let disk = disk.expect("it is open");
        let is_kept = |held: &HeldBack| match held.holder {
            Holder::Keeper(keeper) => engine.keepers().contains(&keeper),
            _ => true,
        };
        while !disk.held_back().iter().all(is_kept) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn new(homes: [Home; TABLES], options: Options) -> Joined {
        Joined { homes, options, files: Mutex::default(), both: Mutex::default() }
    }
}

impl Host for Joined {
    fn open(&self, env: &MemEnv) -> Result<Arc<dyn Engine>, EngineError> {
        // Another one's files are in use until it is gone.
        *self.both.lock().unwrap() = None;
        let mut files = self.files.lock().unwrap();
        let is_new = env.list("/data".as_ref()).map_or(true, |names| names.is_empty());
        if is_new || files.is_none() {
            *files = Some(tempfile::tempdir().expect("a directory"));
        }
        let path = files.as_ref().expect("made above").path().to_owned();
        let both = open(env, path, &self.options)?;
        let engine = Arc::clone(&both.joint) as Arc<dyn Engine>;
        *self.both.lock().unwrap() = Some(Both { joint: Arc::clone(&both.joint), ..both });
        Ok(engine)
    }

    fn homes(&self) -> [Home; TABLES] {
        self.homes
    }

    fn is_one(&self) -> bool {
        false
    }

    fn settle(&self, engine: &dyn Engine) {
        let disk = self.both.lock().unwrap().as_ref().and_then(|both| both.disk.upgrade());
        let disk = disk.expect("it is open");
        let (send, receive) = std::sync::mpsc::channel();
        let done = || {
            let send = send.clone();
            Box::new(move |outcome: Result<(), EngineError>| send.send(outcome).expect("we wait"))
        };
        engine.when_durable(engine.appended(), done());
        disk.when_durable(disk.appended(), done());
        for _ in 0..2 {
            receive.recv().expect("the log calls back").expect("it is well");
        }
    }

    fn collect(&self, engine: &dyn Engine) {
        self.settle(engine);
        self.until_released(engine);
        let both = self.both.lock().unwrap();
        let both = both.as_ref().expect("it is open");
        both.memory.upgrade().expect("it is open").collect_garbage();
        while both.disk.upgrade().expect("it is open").work().unwrap_or(false) {}
    }

    fn closed(&self) {
        let memory = self.both.lock().unwrap().take().map(|both| both.memory);
        // A log's thread may be about to call back who has it.
        while memory.as_ref().is_some_and(|memory| memory.strong_count() > 0) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn check_rest(&self, table: &dyn Table, rows: usize) -> Result<(), String> {
        if let Some(table) = table.as_any().downcast_ref::<MemoryTable>() {
            if table.old_versions() != 0 {
                return Err(format!("{} versions are left", table.old_versions()));
            }
            return Ok(());
        }
        let table = table.as_any().downcast_ref::<DiskTable>().expect("it is one of the two");
        for index in 0..table.layout().indexes.len() {
            let entries = table.index_entries(index).map_err(|e| e.to_string())?;
            if entries != rows {
                return Err(format!("index {index} has {entries} entries for {rows} rows"));
            }
        }
        let versions = table.old_versions().map_err(|e| e.to_string())?;
        if versions != 0 {
            return Err(format!("{versions} old versions are left"));
        }
        Ok(())
    }
}

#[test]
fn a_table_in_each_engine() {
    let host = Joined::new([Home::Memory, Home::Disk], Options::default());
    run_histories(&host, Amount::from_environment());
}

#[test]
fn both_tables_on_disk_logged_in_parts_and_flushed_at_once() {
    let options = Options {
        part_bytes: 40,
        gather_bytes: 1,
        registry: RegistryOptions { capacity: 3, partitions: 2, is_on: true },
        ..Options::default()
    };
    let host = Joined::new([Home::Disk, Home::Disk], options);
    run_histories(&host, Amount::from_environment());
}

#[test]
fn the_second_table_in_memory() {
    let options = Options { part_bytes: 40, ..Options::default() };
    let host = Joined::new([Home::Disk, Home::Memory], options);
    run_histories(&host, Amount::from_environment());
}
