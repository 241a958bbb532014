//! What a server is told before it starts.
//!
//! ```text
//!   defaults ◀ froglet.toml ◀ FROGLET_* variables ◀ command line       (the right one wins)
//! ```
//! Every source is read into [`Entry`]s, a name, a text and the place it came from, so that one
//! table of names serves all three and every complaint says where the offending value stands.

mod authentication;
mod file;
mod units;

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::time::Duration;

use froglet_engine::Dictionary;

use crate::auth::rules::{Rule, Rules};
use crate::gateway::SHORTEST_HISTORY;

/// The file looked for in the data directory.
pub const FILE_NAME: &str = "froglet.toml";
/// The data directory where nobody names one.
pub const DEFAULT_DATA: &str = "./froglet-data";
/// How long a result of a Flight client waits to be fetched, where nobody says.
const DEFAULT_RESULT_TIMEOUT: Duration = Duration::from_secs(300);
/// The address where nobody names one.
pub const DEFAULT_LISTEN: &str = "127.0.0.1:5432";

/// A server's configuration.
#[derive(Clone, Debug)]
pub struct Config {
    /// `data`: everything durable is in here.
    pub data_dir: PathBuf,
    /// `store`: a cluster has the tables; there is no data directory then.
    pub store: Option<StoreAddress>,
    /// `store_history`: so long the cluster keeps what nobody reads any more.
    pub store_history: Duration,
    /// `listen`: loopback only, unless `authentication` lets nobody else in without a password.
    pub listen: SocketAddr,
    /// `flight_listen`: Arrow Flight SQL; none where it is not served.
    pub flight_listen: Option<SocketAddr>,
    /// `tls_cert` and `tls_key`: for clients of both ports; Flight's must use it then.
    pub tls: Option<TlsFiles>,
    /// `flight_tls_cert` and `flight_tls_key`: for Flight alone, or another certificate for it.
    pub flight_tls: Option<TlsFiles>,
    /// `authentication`: who may connect, and how they prove it. None: whoever is on this machine.
    pub authentication: Vec<Rule>,
    /// `superuser_password`: of the role postgres, until ALTER ROLE gives it one.
    pub superuser_password: Option<Secret>,
    /// `flight_result_timeout`: results of Flight clients wait so long to be fetched.
    pub flight_result_timeout: Duration,
    /// `memory_limit`: of rows, indexes and undo records.
    pub memory_limit_bytes: u64,
    /// `max_connections`: sessions at one time.
    pub max_connections: usize,
    /// `checkpoint_timeout`: the longest time between two checkpoints.
    pub checkpoint_timeout: Duration,
    /// `max_wal_size`: so much log since the last checkpoint brings the next one.
    pub max_log_bytes: u64,
    /// `log_segment`: a file of the log that is so long is followed by another.
    pub log_segment_bytes: u64,
    /// `log_buffer`: so much log may wait to be written. None: 64 MB, or 1/32 of the memory limit, if that is less.
    pub log_buffer_bytes: Option<u64>,
    /// `log_part`: what a transaction logs beyond this is logged in parts of so many bytes.
    pub log_part_bytes: u64,
    /// `freeze_after`: a block that nobody has written to for so long is frozen; `None` is never.
    pub freeze_after: Option<Duration>,
    /// `freeze_threads` that do it.
    pub freeze_threads: usize,
    /// `freeze_dictionary`: whether equal strings of a frozen block are kept once.
    pub freeze_dictionary: Dictionary,
    /// `index_snapshot_rows`: a checkpoint saves the entries of an index that has so many.
    pub index_rows_min: u64,
    /// `disk_cache`: blocks of tables on disk that are kept in memory; none: a part of the memory limit.
    pub disk_cache_bytes: Option<u64>,
    /// `worker_threads` of the session runtime; 0 for as many as there are cores.
    pub worker_threads: usize,
    /// `copy_directory`: where COPY reads and writes files of the server; nowhere unless it is given.
    pub copy_directory: Option<PathBuf>,
    /// `[settings]`: what a session begins with.
    pub settings: Vec<Setting>,
}

/// Which database of which cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreAddress {
    /// Placement drivers, each `host:port`.
    pub drivers: Vec<String>,
    /// A name within the store.
    pub database: String,
}

impl StoreAddress {
    /// The database where nobody names one.
    const DATABASE: &str = "froglet";

    /// Of `tikv://HOST:PORT,HOST:PORT/NAME`.
    fn parse(text: &str) -> Result<StoreAddress, &'static str> {
        const FORM: &str = "tikv://HOST:PORT is needed, with more of them behind commas, and /NAME of a database if it is \
                            not froglet";
        let rest = text.strip_prefix("tikv://").ok_or(FORM)?;
        let (drivers, database) = match rest.split_once('/') {
            None | Some((_, "")) => (rest.trim_end_matches('/'), StoreAddress::DATABASE),
            Some(both) => both,
        };
        let is_address = |driver: &&str| {
            driver.rsplit_once(':').is_some_and(|(host, port)| {
                !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port > 0)
            })
        };
        let drivers: Vec<&str> = drivers.split(',').collect();
        if !drivers.iter().all(is_address) || database.len() > 63 || database.contains('/') {
            return Err(FORM);
        }
        let drivers = drivers.into_iter().map(str::to_owned).collect();
        Ok(StoreAddress { drivers, database: database.to_owned() })
    }
}

/// A certificate and its key, as PEM files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate, and those between it and its root.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// What nobody is to read in a log.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(pub String);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("…")
    }
}

/// A session default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The setting's name.
    pub name: String,
    /// Its value.
    pub value: String,
    /// Where it was read.
    pub place: String,
}

/// Why a configuration is refused.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read configuration file {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file is not TOML.
    #[error("{place}: {message}")]
    Syntax {
        /// File and line.
        place: String,
        /// What the parser says.
        message: String,
    },
    /// A name nobody knows.
    #[error(
        "{place}: unknown key {name:?}; known are {known}, and session defaults under [settings]"
    )]
    Unknown {
        /// File and line, variable or switch.
        place: String,
        /// The name.
        name: String,
        /// All the names there are.
        known: String,
    },
    /// A value out of range or of the wrong kind.
    #[error("{place}: {name} cannot be {value:?}: {why}")]
    Value {
        /// File and line, variable or switch.
        place: String,
        /// The name.
        name: String,
        /// The value.
        value: String,
        /// What it should be.
        why: String,
    },
}

/// One value from one source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// A key of [`KEYS`], or `settings.NAME`.
    pub name: String,
    /// The value.
    pub value: String,
    /// Where it was read.
    pub place: String,
}

impl Entry {
    /// A value given by the command-line switch of this name.
    pub fn switch(name: &str, value: impl Into<String>) -> Entry {
        Entry {
            name: name.to_owned(),
            value: value.into(),
            place: match name.strip_prefix("settings.") {
                Some(setting) => format!("--set {setting}"),
                None => format!("--{}", name.replace('_', "-")),
            },
        }
    }

    fn error(&self, why: impl Into<String>) -> ConfigError {
        ConfigError::Value {
            place: self.place.clone(),
            name: self.name.clone(),
            value: self.value.clone(),
            why: why.into(),
        }
    }
}

type Apply = fn(&mut Config, &Entry) -> Result<(), ConfigError>;

/// Every key and what it does.
const KEYS: &[(&str, Apply)] = &[
    ("data", |config, e| {
        config.data_dir = PathBuf::from(&e.value);
        Ok(())
    }),
    ("store", |config, e| {
        config.store = Some(StoreAddress::parse(&e.value).map_err(|why| e.error(why))?);
        Ok(())
    }),
    ("store_history", |config, e| {
        config.store_history = units::duration(&e.value).map_err(|why| e.error(why))?;
        at_least(e, config.store_history >= SHORTEST_HISTORY, "at least 30s is needed")
    }),
    ("listen", |config, e| {
        config.listen = address(e)?;
        Ok(())
    }),
    ("flight_listen", |config, e| {
        config.flight_listen = Some(address(e)?);
        Ok(())
    }),
    ("authentication", authentication::apply),
    ("superuser_password", |config, e| {
        config.superuser_password = Some(Secret(e.value.clone())).filter(|_| !e.value.is_empty());
        Ok(())
    }),
    ("tls_cert", |config, e| {
        config.tls.get_or_insert_default().certificate = PathBuf::from(&e.value);
        Ok(())
    }),
    ("tls_key", |config, e| {
        config.tls.get_or_insert_default().key = PathBuf::from(&e.value);
        Ok(())
    }),
    ("flight_tls_cert", |config, e| {
        config.flight_tls.get_or_insert_default().certificate = PathBuf::from(&e.value);
        Ok(())
    }),
    ("flight_tls_key", |config, e| {
        config.flight_tls.get_or_insert_default().key = PathBuf::from(&e.value);
        Ok(())
    }),
    ("flight_result_timeout", |config, e| {
        config.flight_result_timeout = units::duration(&e.value).map_err(|why| e.error(why))?;
        let second = Duration::from_secs(1);
        at_least(e, config.flight_result_timeout >= second, "at least 1s is needed")
    }),
    ("memory_limit", |config, e| {
        config.memory_limit_bytes = match e.value.strip_suffix('%') {
            Some(share) => units::share_of_memory(share.trim()).map_err(|why| e.error(why))?,
            None => units::bytes(&e.value).map_err(|why| e.error(why))?,
        };
        at_least(e, config.memory_limit_bytes >= 16 << 20, "at least 16MB is needed")
    }),
    ("max_connections", |config, e| {
        config.max_connections = integer(e)?;
        at_least(e, config.max_connections >= 1, "at least one is needed")
    }),
    ("checkpoint_timeout", |config, e| {
        config.checkpoint_timeout = units::duration(&e.value).map_err(|why| e.error(why))?;
        let second = Duration::from_secs(1);
        at_least(e, config.checkpoint_timeout >= second, "at least 1s is needed")
    }),
    ("max_wal_size", |config, e| {
        config.max_log_bytes = units::bytes(&e.value).map_err(|why| e.error(why))?;
        at_least(e, config.max_log_bytes >= 1 << 20, "at least 1MB is needed")
    }),
    ("log_segment", |config, e| {
        config.log_segment_bytes = units::bytes(&e.value).map_err(|why| e.error(why))?;
        at_least(e, config.log_segment_bytes >= 64 << 10, "at least 64kB is needed")
    }),
    ("disk_cache", |config, e| {
        let bytes = units::bytes(&e.value).map_err(|why| e.error(why))?;
        config.disk_cache_bytes = Some(bytes);
        at_least(e, bytes >= 1 << 20, "at least 1MB is needed")
    }),
    ("log_buffer", |config, e| {
        let bytes = units::bytes(&e.value).map_err(|why| e.error(why))?;
        config.log_buffer_bytes = Some(bytes);
        at_least(e, bytes >= 64 << 10, "at least 64kB is needed")
    }),
    ("log_part", |config, e| {
        config.log_part_bytes = units::bytes(&e.value).map_err(|why| e.error(why))?;
        let possible = (4 << 10..=256 << 20).contains(&config.log_part_bytes);
        at_least(e, possible, "4kB to 256MB make sense")
    }),
    ("freeze_after", |config, e| {
        config.freeze_after = match &*e.value {
            "off" => None,
            value => {
                let why = |_| e.error("a duration is needed, 5s for example, or off");
                Some(units::duration(value).map_err(why)?)
            }
        };
        Ok(())
    }),
    ("freeze_threads", |config, e| {
        config.freeze_threads = integer(e)?;
        at_least(e, (1..=64).contains(&config.freeze_threads), "1 to 64 make sense")
    }),
    ("freeze_dictionary", |config, e| {
        let why = || e.error("auto, on or off is possible");
        config.freeze_dictionary = Dictionary::parse(&e.value).ok_or_else(why)?;
        Ok(())
    }),
    ("index_snapshot_rows", |config, e| {
        config.index_rows_min = integer(e)? as u64;
        at_least(e, config.index_rows_min >= 1, "at least one is needed")
    }),
    ("worker_threads", |config, e| {
        config.worker_threads = integer(e)?;
        at_least(e, config.worker_threads <= 1024, "at most 1024 make sense")
    }),
    ("copy_directory", |config, e| {
        config.copy_directory = Some(PathBuf::from(&e.value)).filter(|_| !e.value.is_empty());
        Ok(())
    }),
];

impl Config {
    /// The defaults, on a data directory and an address.
    pub fn new(data_dir: PathBuf, listen: SocketAddr) -> Config {
        Config {
            data_dir,
            store: None,
            store_history: Duration::from_secs(300),
            listen,
            flight_listen: None,
            tls: None,
            flight_tls: None,
            authentication: Vec::new(),
            superuser_password: None,
            flight_result_timeout: DEFAULT_RESULT_TIMEOUT,
            memory_limit_bytes: units::default_memory_limit_bytes(),
            max_connections: 1000,
            checkpoint_timeout: Duration::from_secs(300),
            max_log_bytes: 1 << 30,
            log_segment_bytes: 64 << 20,
            log_buffer_bytes: None,
            log_part_bytes: 1 << 20,
            freeze_after: Some(Duration::from_secs(5)),
            freeze_threads: 1,
            freeze_dictionary: Dictionary::Auto,
            index_rows_min: 1 << 14,
            disk_cache_bytes: None,
            worker_threads: 0,
            copy_directory: None,
            settings: Vec::new(),
        }
    }

    /// Who may connect, and how they prove it.
    pub fn rules(&self) -> Rules {
        match self.authentication.is_empty() {
            true => Rules::default(),
            false => Rules::new(self.authentication.clone()),
        }
    }

    /// Reads every source. `file` is the switch `--config`; `switches` what else the command line
    /// says; `environment` every variable of the process.
    pub fn load(
        file: Option<&Path>,
        switches: &[Entry],
        environment: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Config, ConfigError> {
        let mut variables = Vec::new();
        let mut named_file = file.map(Path::to_owned);
        for (name, value) in environment {
            match name.strip_prefix("FROGLET_") {
                Some("CONFIG") if file.is_none() => named_file = Some(value.into()),
                // The binary's own: they configure no server.
                Some("CONFIG" | "LOG") | None => {}
                Some(key) => variables.extend(variable(key, value)),
            }
        }
        let above = || variables.iter().chain(switches);
        let data = above().rfind(|e| e.name == "data");
        let data = data.map_or(DEFAULT_DATA, |e| e.value.as_str());
        let entries = match &named_file {
            Some(path) => file::read(path)?,
            None => file::read_if_there(&Path::new(data).join(FILE_NAME))?,
        };

        if named_file.is_none()
            && let Some(moved) = entries.iter().find(|e| e.name == "data")
        {
            return Err(moved.error(format!(
                "this file was found in the data directory {data}, so it cannot name one"
            )));
        }
        let loopback = DEFAULT_LISTEN.parse().expect("the default is an address");
        let mut config = Config::new(DEFAULT_DATA.into(), loopback);
        // The rules of one source take the place of all those of another: their order means something.
        let has_rules = above().any(|e| e.name == authentication::KEY);
        let below = entries.iter().filter(|e| !has_rules || e.name != authentication::KEY);
        let all: Vec<&Entry> = below.chain(above()).collect();
        for entry in &all {
            config.apply(entry)?;
        }
        authentication::check(&config, &all)?;
        Ok(config)
    }

    fn apply(&mut self, entry: &Entry) -> Result<(), ConfigError> {
        if let Some(name) = entry.name.strip_prefix("settings.") {
            self.settings.retain(|s| s.name != name);
            self.settings.push(Setting {
                name: name.to_owned(),
                value: entry.value.clone(),
                place: entry.place.clone(),
            });
            return Ok(());
        }
        match KEYS.iter().find(|(key, _)| *key == entry.name) {
            Some((_, apply)) => apply(self, entry),
            None => {
                let known: Vec<&str> = KEYS.iter().map(|(key, _)| *key).collect();
                Err(ConfigError::Unknown {
                    place: entry.place.clone(),
                    name: entry.name.clone(),
                    known: known.join(", "),
                })
            }
        }
    }
}

/// `FROGLET_LISTEN` is `listen`, `FROGLET_SETTING_LOCK_TIMEOUT` the setting `lock_timeout`. Other
/// variables of the prefix belong to somebody else (tests, scripts) and are left alone.
fn variable(key: &str, value: String) -> Option<Entry> {
    let lower = key.to_ascii_lowercase();
    let name = match lower.strip_prefix("setting_") {
        // A shell has no variables with a dot in their names: two underscores stand for it.
        Some(setting) => format!("settings.{}", setting.replace("__", ".")),
        None => {
            KEYS.iter().find(|(known, _)| *known == lower)?;
            lower
        }
    };
    let place = format!("environment variable FROGLET_{key}");
    Some(Entry { name, value, place })
}

fn integer(e: &Entry) -> Result<usize, ConfigError> {
    e.value.parse().map_err(|_| e.error("a whole number is needed"))
}

fn at_least(e: &Entry, holds: bool, why: &str) -> Result<(), ConfigError> {
    if holds { Ok(()) } else { Err(e.error(why)) }
}

fn address(e: &Entry) -> Result<SocketAddr, ConfigError> {
    let found: Vec<SocketAddr> = match e.value.to_socket_addrs() {
        Ok(found) => found.collect(),
        Err(io) => {
            let hint = "HOST:PORT is needed, 127.0.0.1:5433 for example";
            return Err(e.error(format!("{hint} ({io})")));
        }
    };
    // `localhost` may be ::1 and 127.0.0.1; the connection line we print is psql's favourite.
    let first = found.iter().find(|a| a.is_ipv4()).or(found.first());
    let Some(first) = first else {
        return Err(e.error("no such host"));
    };
    Ok(*first)
}

#[cfg(test)]
mod tests;
