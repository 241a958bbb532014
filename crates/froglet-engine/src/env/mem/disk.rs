//! What is on the simulated disk: the part of [`super::MemEnv`] that decides what a crash leaves.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// A sector is written whole or not at all.
const SECTOR_BYTES: usize = 512;

/// Which file each path names.
pub(super) type Names = BTreeMap<PathBuf, usize>;

/// A change of a directory that `sync_dir` has not made durable yet.
#[derive(Debug, Clone)]
pub(super) enum NameChange {
    Create { path: PathBuf, file: usize },
    Rename { from: PathBuf, to: PathBuf },
    Remove { path: PathBuf },
}

impl NameChange {
    pub(super) fn apply(self, names: &mut Names) {
        match self {
            NameChange::Create { path, file } => {
                names.insert(path, file);
            }
            NameChange::Rename { from, to } => {
                if let Some(file) = names.remove(&from) {
                    names.insert(to, file);
                }
            }
            NameChange::Remove { path } => {
                names.remove(&path);
            }
        }
    }

    pub(super) fn is_in(&self, dir: &Path) -> bool {
        match self {
            NameChange::Create { path, .. } | NameChange::Remove { path } => {
                path.parent() == Some(dir)
            }
            NameChange::Rename { from, to } => {
                from.parent() == Some(dir) || to.parent() == Some(dir)
            }
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct MemFileState {
    pub(super) now: Vec<u8>,
    durable: Vec<u8>,
    /// Sectors in which `now` and `durable` may differ.
    dirty: BTreeSet<usize>,
    /// The open file that has the lock.
    pub(super) locked_by: Option<u64>,
}

impl MemFileState {
    /// Replaces the contents, durably.
    pub(super) fn replace(&mut self, contents: Vec<u8>) {
        self.durable = contents.clone();
        self.now = contents;
        self.dirty.clear();
    }

    pub(super) fn write(&mut self, bytes: &[u8], offset: usize) {
        if bytes.is_empty() {
            return;
        }
        let end = offset + bytes.len();
        self.dirty.extend(offset.min(self.now.len()) / SECTOR_BYTES..end.div_ceil(SECTOR_BYTES));
        if end > self.now.len() {
            self.now.resize(end, 0);
        }
        self.now[offset..end].copy_from_slice(bytes);
    }

    pub(super) fn truncate(&mut self, len: usize) {
        let (low, high) = (len.min(self.now.len()), len.max(self.now.len()));
        self.dirty.extend(low / SECTOR_BYTES..high.div_ceil(SECTOR_BYTES));
        self.now.resize(len, 0);
    }

    /// Makes the sectors that `keeps` chooses durable, under the length `len`.
    fn settle(&mut self, len: usize, mut keeps: impl FnMut() -> bool) {
        self.durable.resize(len, 0);
        for sector in std::mem::take(&mut self.dirty) {
            let begin = sector * SECTOR_BYTES;
            let end = (begin + SECTOR_BYTES).min(len);
            if begin >= end || !keeps() {
                continue;
            }
            let written = self.now.get(begin..end.min(self.now.len())).unwrap_or(&[]);
            self.durable[begin..begin + written.len()].copy_from_slice(written);
            self.durable[begin + written.len()..end].fill(0);
        }
    }

    pub(super) fn sync(&mut self) {
        let len = self.now.len();
        self.settle(len, || true);
    }

    /// Loses a choice of the unsynced sectors for good, though `now` still shows them.
    pub(super) fn fail_sync(&mut self, random: &mut SplitMix64) {
        let len = if random.coin() { self.now.len() } else { self.durable.len() };
        self.settle(len, || random.coin());
    }

    pub(super) fn crash(&mut self, random: &mut SplitMix64) {
        let (old, new) = (self.durable.len(), self.now.len());
        let between = old.min(new) + random.below(old.abs_diff(new) as u64 + 1) as usize;
        let len = [old, new, new, between][random.below(4) as usize];
        match random.below(4) {
            0 => self.settle(len, || false),
            1 => self.settle(len, || true),
            2 => {
                let mut left = random.below(self.dirty.len() as u64 + 1);
                self.settle(len, || {
                    let keeps = left > 0;
                    left = left.saturating_sub(1);
                    keeps
                });
            }
            _ => self.settle(len, || random.coin()),
        }
        self.now = self.durable.clone();
        self.locked_by = None;
    }
}

/// SplitMix64 (Steele et al., OOPSLA 2014): tiny, and the same for ever, so a seed found by a test
/// keeps its meaning when a dependency moves.
#[derive(Debug)]
pub(super) struct SplitMix64(pub(super) u64);

impl SplitMix64 {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `bound`; `bound` must not be 0.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn coin(&mut self) -> bool {
        self.next() & 1 == 1
    }
}
