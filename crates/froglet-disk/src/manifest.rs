//! What a checkpoint says of the store's files: from where on the log is replayed, and what is not in the maps.
//!
//! ```text
//!   <data directory>/disk/
//!     log/               segments, see `froglet_log`
//!     store/             rows, history, index
//!     manifest.json      one line of JSON, one line with its checksum
//! ```

use std::path::Path;
use std::sync::Arc;

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

impl Manifest {
    /// Reads the newest manifest; none before the first checkpoint.
    pub fn read(env: &dyn Env, dir: &Path) -> Result<Option<Manifest>, EngineError> {
        froglet_log::manifest::read(env, &dir.join(NAME), FORMAT)
    }

    /// Puts the manifest in place.
    pub fn write(&self, env: &dyn Env, dir: &Path) -> Result<(), EngineError> {
        let (path, new) = (dir.join(NAME), dir.join("manifest.json.new"));
        let text = froglet_log::manifest::text(self).map_err(|source| EngineError::Unusable {
            what: format!("{} cannot be written", path.display()),
            source: Arc::new(source),
        })?;
        let file = env.open(&new, OpenMode::CreateOrOpen)?;
        file.truncate(0)?;
        file.write_at(text.as_bytes(), 0)?;
        file.sync_all()?;
        env.rename(&new, &path)?;
        Ok(env.sync_dir(dir)?)
    }
}
