//! From a data directory to a database.
//!
//! The one module of this crate that knows which engine there is: above it everything speaks to
//! [`froglet_engine::Engine`] and [`froglet_sql::Database`].

use std::sync::Arc;
use std::time::{Duration, Instant};

use froglet_disk::{DiskEngine, DiskOptions};
use froglet_engine::env::RealEnv;
use froglet_engine::{Engine, EngineError, Home};
use froglet_log::LogOptions;
use froglet_memory::lock_file::{DataDirLock, LockError};
use froglet_memory::{FreezeOptions, MemoryEngine, MemoryOptions, RecoveryTimes};
use froglet_sql::{CopyDirectory, Database, Defaults};
use froglet_txn::{Joint, RegistryOptions, aside};
use tokio::sync::Notify;

use crate::config::Config;
use crate::error::ServerError;
use crate::gateway;

/// What is open while the server runs.
pub(crate) struct Opened {
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) db: Arc<Database>,
    /// Notified when the log has failed for good.
    pub(crate) log_failed: Arc<Notify>,
}

/// Looks whether the settings are good and the data directory is free, before anything takes
/// long. The engine takes the directory's lock itself.
pub(crate) fn check(config: &Config) -> Result<(), ServerError> {
    for setting in &config.settings {
        froglet_sql::check_setting(&setting.name, &setting.value).map_err(|error| {
            ServerError::Setting { place: setting.place.clone(), error: Box::new(error) }
        })?;
    }
    if config.store.is_some() {
        return copy_directory(config).map(drop);
    }
    let (cache_bytes, limit_bytes) = (config.disk_cache_bytes, config.memory_limit_bytes);
    if let Some(cache_bytes) = cache_bytes.filter(|bytes| *bytes > limit_bytes / 2) {
        return Err(ServerError::DiskCache { cache_bytes, limit_bytes });
    }
    std::fs::create_dir_all(&config.data_dir)
        .map_err(|source| ServerError::DataDir { path: config.data_dir.clone(), source })?;
    copy_directory(config)?;
    match DataDirLock::acquire(&RealEnv::new(), &config.data_dir) {
        Ok(free) => drop(free),
        Err(error @ (LockError::Held { .. } | LockError::HeldByUnknown { .. })) => {
            return Err(ServerError::DataDirInUse(error.to_string()));
        }
        Err(LockError::Env(error)) => return Err(ServerError::Files(error)),
    }
    Ok(())
}

/// Where COPY reads and writes files. It may have nothing to do with the data directory: who may write files
/// there would write tables.
fn copy_directory(config: &Config) -> Result<Option<Arc<CopyDirectory>>, ServerError> {
    let Some(path) = &config.copy_directory else { return Ok(None) };
    let failed = |why: String| ServerError::CopyDirectory { path: path.clone(), why };
    let directory = CopyDirectory::open(path).map_err(|e| failed(e.to_string()))?;
    if config.store.is_some() {
        return Ok(Some(Arc::new(directory)));
    }
    let data = config.data_dir.canonicalize().map_err(|e| failed(e.to_string()))?;
    if directory.path().starts_with(&data) || data.starts_with(directory.path()) {
        let data = data.display();
        return Err(failed(format!("it is in the data directory {data}, or that is in it")));
    }
    Ok(Some(Arc::new(directory)))
}

/// How a log behaves, of either engine. What waits to be written is beside the account of the rows.
fn log_options(config: &Config, failed: Arc<Notify>) -> LogOptions {
    let buffer_bytes = config
        .log_buffer_bytes
        .unwrap_or_else(|| (config.memory_limit_bytes / 32).clamp(1 << 20, 64 << 20));
    LogOptions {
        segment_bytes: config.log_segment_bytes,
        buffer_bytes: usize::try_from(buffer_bytes).unwrap_or(usize::MAX),
        part_bytes: usize::try_from(config.log_part_bytes).unwrap_or(usize::MAX),
        on_failure: Some(Box::new(move |_| failed.notify_one())),
        ..LogOptions::default()
    }
}

/// How tables on disk are kept.
fn disk_options(config: &Config, log: LogOptions) -> DiskOptions {
    let dir = config.data_dir.join(Home::Disk.name());
    DiskOptions {
        cache_bytes: config
            .disk_cache_bytes
            .unwrap_or_else(|| (config.memory_limit_bytes / 16).clamp(1 << 20, 256 << 20)),
        gather_bytes: (config.memory_limit_bytes / 64).clamp(1 << 20, 128 << 20),
        aside: |read| aside(read),
        read_delay: read_delay(),
        ..DiskOptions::new(dir, Arc::new(RealEnv::new()), log)
    }
}

/// What a test makes every read of a file take longer.
fn read_delay() -> Duration {
    let said = std::env::var("FROGLET_DISK_READ_DELAY_MS").ok().filter(|_| cfg!(debug_assertions));
    said.and_then(|ms| ms.parse().ok()).map_or(Duration::ZERO, Duration::from_millis)
}

/// Opens both engines, after their logs agree.
fn open_engines(
    options: MemoryOptions,
    mut disk: DiskOptions,
) -> Result<(Arc<dyn Engine>, RecoveryTimes), EngineError> {
    let (env, disk_dir) = (Arc::clone(&options.env), disk.dir.clone());
    let anchor_log = options.data_dir.as_ref().expect("a server has a data directory").join("log");
    let agree = move |from, kept| DiskEngine::agree(&*env, &disk_dir, &anchor_log, from, kept);
    let memory = MemoryEngine::open(MemoryOptions { agree: Some(Box::new(agree)), ..options })?;
    let times = memory.recovery_times();
    disk.log.database_id = memory.database_id();
    let disk = DiskEngine::open(disk)?;
    let engine = Joint::new(memory, disk, RegistryOptions::default());
    Ok((engine, times))
}

/// What sessions begin with.
fn defaults(config: &Config) -> Result<Defaults, ServerError> {
    let settings = config.settings.iter();
    Ok(Defaults {
        settings: settings.map(|s| (s.name.clone(), s.value.clone())).collect(),
        copy_directory: copy_directory(config)?,
        superuser_password: config.superuser_password.as_ref().map(|secret| secret.0.clone()),
    })
}

/// Recovers what is in the data directory and opens the catalog; or joins a cluster that has both.
pub(crate) async fn open(config: &Config) -> Result<Opened, ServerError> {
    if let Some(store) = &config.store {
        return gateway::open(config, store, defaults(config)?).await;
    }
    tracing::info!(data = %config.data_dir.display(), "recovering");
    let log_failed = Arc::<Notify>::default();
    let options = MemoryOptions {
        log: log_options(config, log_failed.clone()),
        data_dir: Some(config.data_dir.clone()),
        memory_limit_bytes: config.memory_limit_bytes,
        catalog_spaces: froglet_sql::CATALOG_SPACES,
        freeze: FreezeOptions {
            after: config.freeze_after,
            threads: config.freeze_threads,
            dictionary: config.freeze_dictionary,
        },
        index_rows_min: config.index_rows_min,
        ..MemoryOptions::default()
    };
    let disk = disk_options(config, log_options(config, log_failed.clone()));
    // Recovery reads and computes for as long as it takes.
    let opening = tokio::task::spawn_blocking(move || open_engines(options, disk));
    let (engine, times) = opening.await.map_err(ServerError::task)??;
    let begun = Instant::now();
    let db = Database::open(engine.clone(), defaults(config)?).await?;
    let (used_bytes, limit_bytes) = engine.memory();
    tracing::info!(
        checksums_s = times.checksums.as_secs_f64(),
        mapping_s = times.mapping.as_secs_f64(),
        log_s = times.log.as_secs_f64(),
        indexes_s = begun.elapsed().as_secs_f64(),
        used_bytes,
        limit_bytes,
        "recovered"
    );
    Ok(Opened { engine, db, log_failed })
}
