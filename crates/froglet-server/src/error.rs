//! Why a server does not start, or does not go on.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use froglet_engine::EngineError;
use froglet_engine::env::EnvError;
use froglet_sql::SqlError;

use crate::config::ConfigError;

/// Why a server does not start, or does not go on.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The configuration is refused.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A session default is refused.
    #[error("{place}: {error}")]
    Setting {
        /// File and line, variable or switch.
        place: String,
        /// Why.
        error: Box<SqlError>,
    },
    /// The cache is a part of the memory.
    #[error(
        "disk_cache ({cache_bytes} bytes) is more than half of memory_limit ({limit_bytes} bytes), of which it is a part; give less, or raise memory_limit"
    )]
    DiskCache {
        /// What was asked for.
        cache_bytes: u64,
        /// Of how much.
        limit_bytes: u64,
    },
    /// The data directory cannot be made.
    #[error("cannot create data directory {}: {source}", path.display())]
    DataDir {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The directory of COPY's files cannot be used.
    #[error("cannot use copy_directory {}: {why}", path.display())]
    CopyDirectory {
        /// Which.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// Another server works in the data directory.
    #[error("{0}")]
    DataDirInUse(String),
    /// A file of the data directory cannot be used.
    #[error(transparent)]
    Files(EnvError),
    /// The data cannot be recovered, or the log not be written.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The catalog cannot be opened.
    #[error("cannot open the catalog: {0}")]
    Catalog(Box<SqlError>),
    /// Another program listens on the address.
    #[error(
        "{address} is taken by another program (a PostgreSQL, perhaps); \
         choose another address: `froglet serve --{option} {other}`"
    )]
    AddressTaken {
        /// Which option is to name it.
        option: &'static str,
        /// The address.
        address: SocketAddr,
        /// One that may be free.
        other: SocketAddr,
    },
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// A certificate or key cannot be used.
    #[error("cannot serve by TLS: {}: {what}", path.display())]
    Tls {
        /// The file.
        path: PathBuf,
        /// Why.
        what: String,
    },
    /// The operating system refuses threads or signal handlers.
    #[error("cannot start: {0}")]
    Start(io::Error),
    /// A task of the server panicked.
    #[error("internal error: {0}")]
    Task(String),
}

impl ServerError {
    pub(crate) fn task(error: tokio::task::JoinError) -> ServerError {
        ServerError::Task(error.to_string())
    }
}

impl From<SqlError> for ServerError {
    fn from(error: SqlError) -> ServerError {
        ServerError::Catalog(Box::new(error))
    }
}
