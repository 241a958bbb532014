//! The manifest of a checkpoint: which files it consists of, and what is where in them.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::Path;

use froglet_engine::env::Env;
use froglet_engine::{ColumnId, ColumnType, CrashPoint, EngineError, IndexSpec, SpaceId};
use serde::{Deserialize, Serialize};

use crate::files::{FileWriter, write_error};

/// The format of checkpoints that this program writes, and the only one that it reads.
pub(crate) const FORMAT: u32 = 4;
/// The manifest's name in the checkpoint directory.
pub(crate) const MANIFEST: &str = "manifest.json";

/// What the newest checkpoint consists of.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Manifest {
    pub format: u32,
    /// Number of this checkpoint.
    pub seq: u64,
    /// Its snapshot.
    pub ts: u64,
    /// Where the replay of the log begins.
    pub lsn: u64,
    /// The newest half of a transaction over two engines before that, 0 for none.
    #[serde(default)]
    pub half: u64,
    pub notes: Vec<(u64, Vec<u8>)>,
    pub keepers: Vec<KeeperEntry>,
    pub spaces: Vec<SpaceEntry>,
    pub files: Vec<FileEntry>,
}

/// A row space in a checkpoint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SpaceEntry {
    pub id: SpaceId,
    /// Row ids below were handed out.
    pub tail: u64,
    pub columns: Vec<ColumnEntry>,
    pub blocks: Vec<BlockEntry>,
    /// The notes of installs.
    pub notes: Option<FileEntry>,
    pub kept: Vec<KeptEntry>,
    pub indexes: Vec<IndexEntry>,
}

/// The entries of an index, see `index_snapshot`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct IndexEntry {
    pub spec: IndexSpec,
    /// The number of the checkpoint that it is of.
    pub seq: u64,
    pub file: String,
    pub entries: u64,
    /// Blocks of whose rows it has not just the keys, ascending.
    pub uncovered: Vec<u32>,
}

/// Who keeps spaces, see `keepers`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct KeeperEntry {
    pub keeper: u64,
    /// Of its pin.
    pub ts: u64,
    pub spaces: Vec<SpaceId>,
    /// The log may have the commit behind this checkpoint.
    pub announced: bool,
}

/// Rows of one block as one pin has them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct KeptEntry {
    /// The pin's timestamp.
    pub ts: u64,
    pub file: String,
    pub batch: usize,
}

/// A declared column in a checkpoint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ColumnEntry {
    pub id: ColumnId,
    pub ty: ColumnType,
    /// As in the log.
    pub missing: Vec<u8>,
}

/// Where the rows of a block are. A block without an entry has none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct BlockEntry {
    pub block: u32,
    /// The number of the checkpoint since which it has been as it is; a later one may have written it again.
    pub seq: u64,
    pub file: String,
    pub batch: usize,
}

/// A file of a checkpoint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct FileEntry {
    pub name: String,
    pub bytes: u64,
    pub crc32: u32,
    /// How many batches it has; 0 where that is not known.
    #[serde(default)]
    pub batches: usize,
}

impl Manifest {
    /// Reads the newest manifest; the default if there is none.
    pub fn read(env: &dyn Env, dir: &Path) -> Result<Manifest, EngineError> {
        let manifest = froglet_log::manifest::read(env, &dir.join(MANIFEST), FORMAT)?;
        Ok(manifest.unwrap_or_default())
    }

    /// Puts the manifest in place.
    pub fn write(&self, env: &dyn Env, dir: &Path) -> Result<(), EngineError> {
        let (path, new) = (dir.join(MANIFEST), dir.join("manifest.json.new"));
        let text = froglet_log::manifest::text(self).map_err(|e| write_error(&path, e))?;
        let mut file = FileWriter::create(env, &new)?;
        file.write_all(text.as_bytes()).map_err(|e| write_error(&new, e))?;
        file.finish().map_err(|e| write_error(&new, e))?;
        env.rename(&new, &path)?;
        CrashPoint::CheckpointRenamed.reached();
        Ok(env.sync_dir(dir)?)
    }

    pub fn space(&self, id: SpaceId) -> Option<&SpaceEntry> {
        self.spaces.iter().find(|space| space.id == id)
    }

    /// The files that spaces refer to.
    pub fn names(&self) -> BTreeSet<&str> {
        let blocks = self.spaces.iter().flat_map(|space| &space.blocks);
        let kept = self.spaces.iter().flat_map(|space| &space.kept);
        let notes = self.spaces.iter().filter_map(|space| space.notes.as_ref());
        let indexes = self.spaces.iter().flat_map(|space| &space.indexes);
        blocks
            .map(|block| block.file.as_str())
            .chain(kept.map(|kept| kept.file.as_str()))
            .chain(notes.map(|file| file.name.as_str()))
            .chain(indexes.map(|index| index.file.as_str()))
            .collect()
    }
}

impl SpaceEntry {
    /// The files of which at most half is left, if only these blocks are still what they were: they are written again,
    /// so that a checkpoint's files have at most twice as many blocks as there are.
    pub fn mostly_dead(
        &self,
        files: &[FileEntry],
        is_clean: impl Fn(u32) -> bool,
    ) -> BTreeSet<&str> {
        let mut live = BTreeMap::<&str, (usize, usize)>::new();
        for block in &self.blocks {
            let (clean, batches) = live.entry(&block.file).or_default();
            *clean += usize::from(is_clean(block.block));
            *batches = (*batches).max(block.batch + 1);
        }
        let known =
            |name: &str| files.iter().find(|file| file.name == name).map_or(0, |f| f.batches);
        let is_mostly_dead =
            |name: &str, (clean, batches): (usize, usize)| 2 * clean <= batches.max(known(name));
        live.into_iter()
            .filter(|(name, counts)| is_mostly_dead(name, *counts))
            .map(|(name, _)| name)
            .collect()
    }

    pub fn block(&self, block: u32) -> Option<&BlockEntry> {
        let at = self.blocks.binary_search_by_key(&block, |b| b.block).ok()?;
        Some(&self.blocks[at])
    }

    /// Blocks that an index snapshot does not speak of as they are here.
    pub fn stale_blocks(&self, index: &IndexEntry) -> usize {
        self.blocks.iter().filter(|block| !index.covers(block)).count()
    }
}

impl IndexEntry {
    /// Whether the snapshot has just the keys of a block's rows, as the checkpoint has them.
    pub fn covers(&self, block: &BlockEntry) -> bool {
        block.seq <= self.seq && self.uncovered.binary_search(&block.block).is_err()
    }
}
