//! What was put into a tree and is in none of its files.
//!
//! ```text
//!   set ─▶ open ── seal ─▶ sealed, oldest first ── written to a file ─▶ gone
//! ```
//! **[G1]** Who sets holds the lock of the maps while he does: a map that is sealed does not change any more.
//! **[G2]** A key keeps its place in a map; only its value is changed. So nobody who looks for it finds the value before
//! the last one, nor none.

use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam_skiplist::SkipMap;
use parking_lot::{Mutex, RwLock};

/// What was put last; nothing, if the key was removed.
pub(super) type Value = Option<Arc<[u8]>>;

/// What a key takes beside its bytes and those of its value.
const OVERHEAD_BYTES: usize = 80;

/// Part of what was put.
#[derive(Default)]
pub(super) struct Map {
    entries: SkipMap<Box<[u8]>, Mutex<Value>>,
    bytes: AtomicU64,
    removed: AtomicU64,
}

impl Map {
    fn set(&self, key: &[u8], value: Value) -> u64 {
        let bytes =
            (key.len() + value.as_ref().map_or(0, |value| value.len()) + OVERHEAD_BYTES) as u64;
        if value.is_none() {
            self.removed.fetch_add(1, Ordering::Relaxed);
        }
        let entry = self.entries.get_or_insert_with(key.into(), || Mutex::new(value.clone()));
        *entry.value().lock() = value;
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        bytes
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub fn len(&self) -> u64 {
        self.entries.len() as u64
    }

    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Everything, ascending.
    pub fn iter(&self) -> impl Iterator<Item = Entry<'_>> {
        self.entries.iter().map(Entry)
    }

    /// From one end or the other what is at or above `from` and below `to`.
    pub fn range<'a>(&'a self, from: &'a [u8], to: &'a [u8], backward: bool) -> Entries<'a> {
        let mut range = self.entries.range::<[u8], _>((Bound::Included(from), Bound::Excluded(to)));
        match backward {
            true => Box::new(std::iter::from_fn(move || range.next_back().map(Entry))),
            false => Box::new(range.map(Entry)),
        }
    }
}

pub(super) type Entries<'a> = Box<dyn Iterator<Item = Entry<'a>> + 'a>;

/// A key and its value.
pub(super) struct Entry<'a>(crossbeam_skiplist::map::Entry<'a, Box<[u8]>, Mutex<Value>>);

impl Entry<'_> {
    /// The same once more.
    pub fn again(&self) -> Self {
        Entry(self.0.clone())
    }

    pub fn key(&self) -> &[u8] {
        self.0.key()
    }

    pub fn value(&self) -> Value {
        self.0.value().lock().clone()
    }
}

/// See the module.
#[derive(Default)]
pub(super) struct Gathered {
    maps: RwLock<Maps>,
    bytes: AtomicU64,
}

#[derive(Default)]
struct Maps {
    open: Arc<Map>,
    sealed: Vec<Arc<Map>>,
}

impl Maps {
    fn newest_first(&self) -> impl Iterator<Item = &Arc<Map>> {
        std::iter::once(&self.open).chain(self.sealed.iter().rev()).filter(|map| !map.is_empty())
    }
}

impl Gathered {
    pub fn set(&self, key: &[u8], value: Value) {
        let maps = self.maps.read(); // [G1]
        let bytes = maps.open.set(key, value);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// What is known here of a key.
    pub fn get(&self, key: &[u8]) -> Option<Value> {
        let maps = self.maps.read();
        let found = maps.newest_first().find_map(|map| map.entries.get(key));
        found.map(|entry| entry.value().lock().clone())
    }

    /// The maps that have something, newest first.
    pub fn maps(&self) -> Vec<Arc<Map>> {
        self.maps.read().newest_first().cloned().collect()
    }

    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Removals since the last seal.
    pub fn removed(&self) -> u64 {
        self.maps.read().open.removed.load(Ordering::Relaxed)
    }

    pub fn seal(&self) {
        let mut maps = self.maps.write();
        if !maps.open.is_empty() {
            let sealed = std::mem::take(&mut maps.open);
            maps.sealed.push(sealed);
        }
    }

    /// The oldest of what is sealed.
    pub fn sealed(&self) -> Option<Arc<Map>> {
        self.maps.read().sealed.first().cloned()
    }

    /// It is in a file.
    pub fn forget(&self, written: &Arc<Map>) {
        let mut maps = self.maps.write();
        assert!(
            maps.sealed.first().is_some_and(|map| Arc::ptr_eq(map, written)),
            "the oldest is written first"
        );
        maps.sealed.remove(0);
        self.bytes.fetch_sub(written.bytes(), Ordering::Relaxed);
    }
}
