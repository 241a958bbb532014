//! What a transaction has written and not committed: keys and values, as its own reads see them.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};

use froglet_engine::{RowId, SpaceId};

use crate::client::Mutation;

/// Fewer rows make no other table of a table.
const MANY_ROWS: usize = 64;

/// A key before a write: it was not in the buffer, or as it was.
type Before = Option<Option<Vec<u8>>>;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Buffer {
    /// None: it is deleted.
    entries: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
    /// What is undone, newest first, with the number of its write.
    undo: Vec<(u32, Vec<u8>, Before)>,
    rows: Vec<(u32, SpaceId, RowId)>,
    /// Writes so far.
    pub writes: u32,
    /// What keys were when they were locked.
    held: HashMap<Vec<u8>, Held>,
    /// Keys that are to be there at the commit, each with the number of the write that asked for it first.
    required: BTreeMap<Vec<u8>, u32>,
}

/// A key that is locked.
#[derive(Debug)]
struct Held {
    value: Option<Vec<u8>>,
    /// It was this at that timestamp, and is.
    as_of: u64,
}

impl Buffer {
    /// What it has of a key.
    pub fn get(&self, key: &[u8]) -> Option<&Option<Vec<u8>>> {
        self.entries.get(key)
    }

    /// What a key is to the transaction, if it has locked or written it.
    pub fn own(&self, key: &[u8]) -> Option<&Option<Vec<u8>>> {
        self.entries.get(key).or_else(|| self.held(key))
    }

    /// What a key was when it was locked, if it was.
    pub fn held(&self, key: &[u8]) -> Option<&Option<Vec<u8>>> {
        self.held.get(key).map(|held| &held.value)
    }

    /// Of some keys those that are locked and not written, and are not known to have been the same at a timestamp.
    pub fn held_after(&self, keys: &[Vec<u8>], ts: u64) -> (Vec<Vec<u8>>, Vec<Option<Vec<u8>>>) {
        let unwritten = keys.iter().filter(|key| !self.entries.contains_key(*key));
        let held = unwritten.filter_map(|key| Some((key, self.held.get(key)?)));
        let after = held.filter(|(_, held)| held.as_of > ts);
        after.map(|(key, held)| (key.clone(), held.value.clone())).unzip()
    }

    /// What it has of a range, in order.
    pub fn range(&self, from: &[u8], to: &[u8]) -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
        if from >= to {
            return Vec::new();
        }
        let range = self.entries.range(from.to_vec()..to.to_vec());
        range.map(|(key, value)| (key.clone(), value.clone())).collect()
    }

    /// Whether it has written or locked keys that begin so.
    pub fn has_touched(&self, prefix: &[u8]) -> bool {
        let written = self.entries.range(prefix.to_vec()..).next();
        written.is_some_and(|(key, _)| key.starts_with(prefix))
            || self.held.keys().any(|key| key.starts_with(prefix))
    }

    pub fn put(&mut self, key: Vec<u8>, value: Option<Vec<u8>>) {
        let before = self.entries.insert(key.clone(), value);
        self.undo.push((self.writes, key, before));
    }

    /// A key was locked at a timestamp, and is this.
    pub fn hold(&mut self, key: Vec<u8>, value: Option<Vec<u8>>, as_of: u64) {
        self.held.insert(key, Held { value, as_of });
    }

    /// Keys are to be there at the commit; how long those are of which that is new.
    pub fn require(&mut self, keys: Vec<Vec<u8>>) -> Vec<usize> {
        let mut new = Vec::new();
        for key in keys {
            let length = key.len();
            if let Entry::Vacant(vacant) = self.required.entry(key) {
                vacant.insert(self.writes);
                new.push(length);
            }
        }
        if !new.is_empty() {
            self.writes += 1;
        }
        new
    }

    /// Those that are to be there at the commit, and that the transaction has not written: of what it has it knows.
    pub fn required(&self) -> Vec<Vec<u8>> {
        let others = self.required.keys().filter(|key| !self.entries.contains_key(*key));
        others.cloned().collect()
    }

    /// A write of a row is done.
    pub fn wrote(&mut self, space: SpaceId, rid: RowId) {
        self.rows.push((self.writes, space, rid));
        self.writes += 1;
    }

    /// Rows have moved, which nobody has asked for: a savepoint before it is one before it.
    pub fn moved(&mut self) {
        self.writes += 1;
    }

    /// Undoes all writes after the first so many.
    pub fn back_to(&mut self, writes: u32) {
        while let Some((_, key, before)) = self.undo.pop_if(|(at, ..)| *at >= writes) {
            match before {
                Some(value) => self.entries.insert(key, value),
                None => self.entries.remove(&key),
            };
        }
        self.rows.retain(|(at, ..)| *at < writes);
        self.required.retain(|_, at| *at < writes);
        self.writes = writes;
    }

    pub fn rows(&self, space: SpaceId) -> Vec<RowId> {
        let mut rows: Vec<RowId> =
            self.rows.iter().filter(|(_, of, _)| *of == space).map(|(.., rid)| *rid).collect();
        rows.sort_unstable();
        rows.dedup();
        rows
    }

    /// How many writes of rows there were in each space, if there were many.
    pub fn many_rows(&self) -> Vec<(SpaceId, usize)> {
        let mut many = HashMap::new();
        if self.rows.len() >= MANY_ROWS {
            self.rows.iter().for_each(|(_, space, _)| *many.entry(*space).or_default() += 1);
        }
        many.into_iter().collect()
    }

    pub fn spaces(&self) -> Vec<SpaceId> {
        let mut spaces: Vec<SpaceId> = self.rows.iter().map(|(_, space, _)| *space).collect();
        spaces.sort_unstable();
        spaces.dedup();
        spaces
    }

    /// What is to be committed.
    pub fn mutations(&self) -> Vec<Mutation> {
        let entries = self.entries.iter();
        entries.map(|(key, value)| Mutation { key: key.clone(), value: value.clone() }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rollback_restores_what_was_written_before() {
        let mut buffer = Buffer::default();
        let (space, key) = (SpaceId(1), b"k".to_vec());
        buffer.put(key.clone(), Some(vec![1]));
        buffer.wrote(space, RowId(1));
        buffer.put(key.clone(), None);
        buffer.wrote(space, RowId(1));
        buffer.put(b"l".to_vec(), Some(vec![2]));
        buffer.wrote(space, RowId(2));
        assert_eq!(buffer.get(&key), Some(&None));
        assert_eq!(buffer.range(b"a", b"z").len(), 2);
        buffer.back_to(1);
        assert_eq!(buffer.get(&key), Some(&Some(vec![1])));
        assert_eq!(buffer.rows(space), [RowId(1)]);
        buffer.back_to(0);
        assert!(buffer.mutations().is_empty() && buffer.spaces().is_empty());
    }

    #[test]
    fn what_is_required_is_so_until_the_write_that_asked_first_is_undone() {
        let mut buffer = Buffer::default();
        let key = |n: u8| vec![n];
        assert_eq!(buffer.require(vec![key(1)]), [1]);
        let savepoint = buffer.writes;
        assert_eq!(buffer.require(vec![key(1), key(2), key(3)]), [1, 1]);
        buffer.put(key(3), None);
        assert_eq!(buffer.required(), [key(1), key(2)]);
        buffer.back_to(savepoint);
        assert_eq!(buffer.required(), [key(1)]);
        buffer.back_to(0);
        assert!(buffer.required().is_empty());
    }

    #[test]
    fn a_key_is_known_from_when_it_was_locked_on() {
        let mut buffer = Buffer::default();
        let keys = [vec![1], vec![2], vec![3], vec![4]];
        buffer.hold(keys[0].clone(), Some(vec![9]), 10);
        buffer.hold(keys[1].clone(), None, 11);
        buffer.hold(keys[2].clone(), None, 11);
        buffer.put(keys[2].clone(), Some(vec![8]));
        assert_eq!(buffer.held_after(&keys, 10), (vec![keys[1].clone()], vec![None]));
        assert_eq!(buffer.held_after(&keys, 11), (vec![], vec![]));
        assert_eq!(buffer.held_after(&keys, 9).0, [keys[0].clone(), keys[1].clone()]);
    }
}
