//! From a data directory to a database.
//!
//! The one module of this crate that knows which engine there is: above it everything speaks to
//! [`froglet_engine::Engine`] and [`froglet_sql::Database`].

use std::sync::Arc;

use froglet_engine::Engine;
use froglet_engine::env::RealEnv;
use froglet_memory::lock_file::{DataDirLock, LockError};
use froglet_memory::{Dictionary, FreezeOptions, MemoryEngine, MemoryOptions};
use froglet_sql::{Database, Defaults};

use crate::config::{Choice, Config};
use crate::error::ServerError;

/// What is open while the server runs.
pub(crate) struct Opened {
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) db: Arc<Database>,
}

/// Looks whether the settings are good and the data directory is free, before anything takes
/// long. The engine takes the directory's lock itself.
pub(crate) fn check(config: &Config) -> Result<(), ServerError> {
    for setting in &config.settings {
        froglet_sql::check_setting(&setting.name, &setting.value).map_err(|error| {
            ServerError::Setting { place: setting.place.clone(), error: Box::new(error) }
        })?;
    }
    std::fs::create_dir_all(&config.data_dir)
        .map_err(|source| ServerError::DataDir { path: config.data_dir.clone(), source })?;
    match DataDirLock::acquire(&RealEnv::new(), &config.data_dir) {
        Ok(free) => drop(free),
        Err(error @ (LockError::Held { .. } | LockError::HeldByUnknown { .. })) => {
            return Err(ServerError::DataDirInUse(error.to_string()));
        }
        Err(LockError::Env(error)) => return Err(ServerError::Files(error)),
    }
    Ok(())
}

/// Recovers what is in the data directory and opens the catalog.
pub(crate) async fn open(config: &Config) -> Result<Opened, ServerError> {
    tracing::info!(data = %config.data_dir.display(), "recovering");
    let options = MemoryOptions {
        data_dir: Some(config.data_dir.clone()),
        memory_limit_bytes: config.memory_limit_bytes,
        freeze: FreezeOptions {
            after: config.freeze_after,
            threads: config.freeze_threads,
            dictionary: match config.freeze_dictionary {
                Choice::Auto => Dictionary::Auto,
                Choice::On => Dictionary::On,
                Choice::Off => Dictionary::Off,
            },
        },
        ..MemoryOptions::default()
    };
    // Recovery reads and computes for as long as it takes.
    let opening = tokio::task::spawn_blocking(move || MemoryEngine::open(options));
    let engine: Arc<dyn Engine> = opening.await.map_err(ServerError::task)??;
    let settings = config.settings.iter();
    let defaults =
        Defaults { settings: settings.map(|s| (s.name.clone(), s.value.clone())).collect() };
    let db = Database::open(engine.clone(), defaults).await?;
    let (used_bytes, limit_bytes) = engine.memory();
    tracing::info!(used_bytes, limit_bytes, "recovered");
    Ok(Opened { engine, db })
}
