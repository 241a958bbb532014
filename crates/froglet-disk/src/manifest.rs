//! What a checkpoint says of the store's files: from where on the log is replayed, and what is not in the maps.
//!
//! ```text
//!   <data directory>/disk/
//!     log/               segments, see `froglet_log`
//!     store/             rows, history, index
//!     manifest.json      one line of JSON, one line with its checksum
//! ```

use std::path::Path;

use froglet_engine::env::{Env, OpenMode};
use froglet_engine::{ColumnId, ColumnType, EngineError, IndexId, IndexSpec, SpaceId};
use serde::{Deserialize, Serialize};

/// The format that this program writes, and the only one that it reads.
pub(crate) const FORMAT: u32 = 1;
const NAME: &str = "manifest.json";

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Manifest {
    pub format: u32,
    /// Whose log it is; 0 before there is one.
    pub database_id: u128,
    /// Where the replay of the log begins.
    pub lsn: u64,
    /// The newest half before that.
    pub half: u64,
    /// No version in the store is newer.
    pub ts: u64,
    pub keepers: Vec<KeeperEntry>,
    pub spaces: Vec<SpaceEntry>,
    /// Spaces, and indexes, of which something may be in the maps and nothing is to be.
    pub purges: Vec<(SpaceId, Option<IndexId>)>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct KeeperEntry {
    pub keeper: u64,
    pub ts: u64,
    pub spaces: Vec<SpaceId>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SpaceEntry {
    pub id: SpaceId,
    /// Row ids below were handed out.
    pub next: u64,
    pub rows: i64,
    pub bytes: i64,
    pub newest_end: u64,
    pub columns: Vec<ColumnEntry>,
    pub indexes: Vec<IndexSpec>,
    /// The notes of installs.
    pub notes: Vec<Vec<u8>>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ColumnEntry {
    pub id: ColumnId,
    pub ty: ColumnType,
    /// As the log writes it.
    pub missing: Vec<u8>,
}

fn env_error(error: froglet_engine::env::EnvError) -> EngineError {
    EngineError::Env(std::sync::Arc::new(error))
}

fn corrupt(path: &Path, what: String) -> EngineError {
    EngineError::Corrupt { file: path.display().to_string(), offset: 0, what }
}

impl Manifest {
    /// Reads the newest manifest; the default if there is none.
    pub fn read(env: &dyn Env, dir: &Path) -> Result<Manifest, EngineError> {
        let path = dir.join(NAME);
        let file = match env.open(&path, OpenMode::Read) {
            Ok(file) => file,
            Err(error) if error.is_not_found() => return Ok(Manifest::default()),
            Err(error) => return Err(env_error(error)),
        };
        let mut bytes = vec![0; usize::try_from(file.len().map_err(env_error)?).unwrap_or(0)];
        file.read_exact_at(&mut bytes, 0).map_err(env_error)?;
        let text = std::str::from_utf8(&bytes).map_err(|e| corrupt(&path, e.to_string()))?;
        let (body, crc) =
            text.split_once('\n').ok_or_else(|| corrupt(&path, "no checksum line".into()))?;
        let stored =
            u32::from_str_radix(crc.trim(), 16).map_err(|e| corrupt(&path, e.to_string()))?;
        let computed = crc32fast::hash(body.as_bytes());
        if stored != computed {
            return Err(corrupt(&path, format!("checksum {stored:08x}, computed {computed:08x}")));
        }
        #[derive(Deserialize)]
        struct Formatted {
            format: u32,
        }
        let json = |e: serde_json::Error| corrupt(&path, e.to_string());
        let Formatted { format } = serde_json::from_str(body).map_err(json)?;
        if format != FORMAT {
            let what = format!(
                "format {format}, this program reads {FORMAT}; copy the tables out with the program that wrote it"
            );
            return Err(corrupt(&path, what));
        }
        serde_json::from_str(body).map_err(json)
    }

    /// Puts the manifest in place.
    pub fn write(&self, env: &dyn Env, dir: &Path) -> Result<(), EngineError> {
        let (path, new) = (dir.join(NAME), dir.join("manifest.json.new"));
        let body = serde_json::to_string(self).map_err(|e| corrupt(&path, e.to_string()))?;
        let text = format!("{body}\n{:08x}\n", crc32fast::hash(body.as_bytes()));
        if let Err(error) = env.remove(&new)
            && !error.is_not_found()
        {
            return Err(env_error(error));
        }
        let file = env.open(&new, OpenMode::CreateNew).map_err(env_error)?;
        file.write_at(text.as_bytes(), 0).map_err(env_error)?;
        file.sync_all().map_err(env_error)?;
        env.rename(&new, &path).map_err(env_error)?;
        env.sync_dir(dir).map_err(env_error)
    }
}
