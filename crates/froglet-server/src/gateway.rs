//! From the address of a cluster to a database: a server without data of its own.

use std::sync::Arc;
use std::time::Duration;

use froglet_cluster::network::grpc::GrpcNetwork;
use froglet_cluster::{ClusterEngine, ClusterOptions};
use froglet_engine::{Engine, EngineError, SqlState};
use froglet_sql::{Database, Defaults};

use crate::config::{Config, StoreAddress};
use crate::error::ServerError;
use crate::open::Opened;

/// A call of a store or of the placement driver takes at most so long.
const CALL_TIMEOUT: Duration = Duration::from_secs(4);
/// `store_history` is at least so long.
pub(crate) const SHORTEST_HISTORY: Duration = froglet_cluster::SHORTEST_HISTORY;
/// How long the store may not answer before a statement fails.
const PATIENCE: Duration = Duration::from_secs(15);

fn shutting_down() -> EngineError {
    let message = "the server is shutting down".to_owned();
    EngineError::Refused { state: SqlState::ADMIN_SHUTDOWN, message }
}

/// Opens a database of a cluster.
pub(crate) async fn open(
    config: &Config,
    store: &StoreAddress,
    defaults: Defaults,
) -> Result<Opened, ServerError> {
    tracing::info!(drivers = ?store.drivers, database = store.database, "joining");
    let drivers = store.drivers.clone();
    let options = ClusterOptions {
        database: store.database.clone(),
        patience: PATIENCE,
        memory_limit_bytes: config.memory_limit_bytes,
        history: config.store_history,
    };
    let opening = tokio::task::spawn_blocking(move || {
        ClusterEngine::open(Arc::new(GrpcNetwork::new(drivers, CALL_TIMEOUT)), options)
    });
    let cluster = opening.await.map_err(ServerError::task)??;
    let engine: Arc<dyn Engine> = cluster.clone();
    let opened = engine.clone();
    // Where it may wait for the store.
    let opening = cluster.handle().spawn(async move { Database::open(opened, defaults).await });
    let db = opening.await.map_err(ServerError::task)??;
    let catalog = Arc::downgrade(db.catalog());
    cluster.make_checks_with({
        let catalog = catalog.clone();
        move |recipe| match catalog.upgrade() {
            Some(catalog) => catalog.row_check(recipe),
            None => Err(shutting_down()),
        }
    });
    cluster.follow_catalog(move || match catalog.upgrade()?.refresh() {
        Ok(ts) => Some(ts),
        Err(error) => {
            tracing::warn!(%error, "the catalog cannot be read");
            None
        }
    });
    tracing::info!("joined");
    Ok(Opened { engine, db, log_failed: Arc::default() })
}
