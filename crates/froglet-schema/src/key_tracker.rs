//! What a lazy migration has migrated, key by key: a hash map of groups, or of join keys (BullFrog, section
//! 4.3.4, algorithm 3).
//!
//! A key that is not in the map is unmigrated. Claims, their end and who waits are as in `tracker.rs`
//! [B1] to [B3]; an aborted claim takes its key out of the map.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use froglet_engine::Installs;

use crate::sync::{Condvar, Mutex};
use crate::tracker::BrokenNote;

const SHARDS: usize = if cfg!(shuttle) { 2 } else { 64 };

/// The encoded values of a unit's key.
pub(crate) type UnitKey = Box<[u8]>;

/// See the module.
pub(crate) struct KeyTracker {
    shards: [Shard; SHARDS],
    hasher: RandomState,
}

#[derive(Default)]
struct Shard {
    /// Whether a key is migrated, or somebody is at it.
    keys: Mutex<HashMap<UnitKey, bool>>,
    given_up: Condvar,
}

/// Keys that somebody is at. Dropped, they are given up.
pub(crate) struct KeyClaims<'t> {
    tracker: &'t KeyTracker,
    keys: Vec<UnitKey>,
}

impl KeyTracker {
    pub fn new() -> KeyTracker {
        KeyTracker { shards: std::array::from_fn(|_| Shard::default()), hasher: RandomState::new() }
    }

    fn shard(&self, key: &[u8]) -> &Shard {
        &self.shards[self.hasher.hash_one(key) as usize % SHARDS]
    }

    /// Whether a key is migrated.
    pub fn is_migrated(&self, key: &[u8]) -> bool {
        self.shard(key).keys.lock().get(key).copied().unwrap_or(false)
    }

    /// Claims of some keys, each once, those that are free. Returns what others are at, too.
    pub fn claim_all(&self, keys: Vec<UnitKey>) -> (KeyClaims<'_>, Vec<UnitKey>) {
        let (mut mine, mut others) = (Vec::new(), Vec::new());
        for key in keys {
            let mut known = self.shard(&key).keys.lock();
            match known.get(&key) {
                Some(true) => {}
                Some(false) => others.push(key),
                None => {
                    known.insert(key.clone(), false);
                    drop(known);
                    mine.push(key);
                }
            }
        }
        (KeyClaims { tracker: self, keys: mine }, others)
    }

    /// Waits until nobody is at a key.
    pub fn wait(&self, key: &[u8]) {
        let shard = self.shard(key);
        let mut keys = shard.keys.lock();
        while keys.get(key) == Some(&false) {
            keys = shard.given_up.wait(keys);
        }
    }

    /// Marks what a note says, for whoever recovers.
    pub fn mark(&self, mut note: &[u8]) -> Result<(), BrokenNote> {
        while !note.is_empty() {
            let (len, rest) = note.split_first_chunk().ok_or(BrokenNote)?;
            let len = u32::from_le_bytes(*len) as usize;
            let (key, rest) = rest.split_at_checked(len).ok_or(BrokenNote)?;
            self.shard(key).keys.lock().insert(key.into(), true);
            note = rest;
        }
        Ok(())
    }
}

impl Installs for KeyTracker {
    /// What is migrated: each key with its length before it.
    fn note(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for shard in &self.shards {
            let keys = shard.keys.lock();
            let migrated = keys.iter().filter(|(_, is_migrated)| **is_migrated);
            migrated.for_each(|(key, _)| put(&mut out, key));
        }
        out
    }
}

fn put(out: &mut Vec<u8>, key: &[u8]) {
    let len = u32::try_from(key.len()).expect("a key is no longer than its row");
    out.extend_from_slice(&len.to_le_bytes());
    out.extend_from_slice(key);
}

impl KeyClaims<'_> {
    /// The keys.
    pub fn keys(&self) -> &[UnitKey] {
        &self.keys
    }

    /// What recovery is to know of them once they are migrated.
    pub fn note(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.keys.iter().for_each(|key| put(&mut out, key));
        out
    }

    /// They are migrated.
    pub fn done(&mut self) {
        for key in std::mem::take(&mut self.keys) {
            let shard = self.tracker.shard(&key);
            let was = shard.keys.lock().insert(key, true);
            assert_eq!(was, Some(false), "a unit is migrated once, by who has claimed it");
            shard.given_up.notify_all();
        }
    }
}

impl Drop for KeyClaims<'_> {
    fn drop(&mut self) {
        for key in &self.keys {
            let shard = self.tracker.shard(key);
            shard.keys.lock().remove(key);
            shard.given_up.notify_all();
        }
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    fn keys(names: &[&str]) -> Vec<UnitKey> {
        names.iter().map(|name| name.as_bytes().into()).collect()
    }

    #[test]
    fn a_key_is_migrated_once_and_an_aborted_claim_is_free_again() {
        let tracker = KeyTracker::new();
        let (mut mine, others) = tracker.claim_all(keys(&["a", "b"]));
        assert_eq!((mine.keys(), others.len()), (&*keys(&["a", "b"]), 0));
        let (second, others) = tracker.claim_all(keys(&["b", ""]));
        assert_eq!((second.keys(), &*others), (&*keys(&[""]), &*keys(&["b"])));
        drop(second);
        let note = mine.note();
        mine.done();
        tracker.wait(b"b");
        let (third, others) = tracker.claim_all(keys(&["a", "b", ""]));
        assert_eq!((third.keys(), others.len()), (&*keys(&[""]), 0));
        drop((mine, third));
        assert!(tracker.is_migrated(b"a") && !tracker.is_migrated(b""));

        let other = KeyTracker::new();
        other.mark(&note).unwrap();
        other.mark(&tracker.note()).unwrap();
        assert!(other.is_migrated(b"a") && other.is_migrated(b"b"));
        assert_eq!(other.mark(&[9, 0, 0, 0, 1]), Err(BrokenNote));
    }
}
