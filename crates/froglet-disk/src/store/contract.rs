//! What every store does, of each that is built.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use froglet_engine::EngineError;

use super::*;

type Key = Vec<u8>;
type Model = BTreeMap<Key, Vec<u8>>;

fn reads() -> Arc<SlowReads> {
    SlowReads::new(|work| work(), Duration::ZERO)
}

/// Numbers that follow from the first one.
pub(crate) struct Random(pub u64);

impl Random {
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }

    /// Of two bytes, sometimes of one, or three.
    fn key(&mut self) -> Key {
        let mut key = vec![self.below(4) as u8, self.below(256) as u8, 0];
        key.truncate([2, 2, 2, 1, 3][self.below(5) as usize]);
        key
    }

    fn value(&mut self) -> Vec<u8> {
        vec![self.below(256) as u8; self.below(90) as usize]
    }
}

fn range<S: Store>(store: &S, from: &[u8], to: &[u8], backward: bool) -> Vec<(Key, Vec<u8>)> {
    let mut found = Vec::new();
    let mut visit = |key: &[u8], value: &[u8]| {
        found.push((key.to_vec(), value.to_vec()));
        true
    };
    store.range(Tree::Rows, from, to, backward, &mut visit).expect("it is read");
    found
}

fn assert_same<S: Store>(store: &S, model: &Model, random: &mut Random) {
    let (from, to) = (random.key(), random.key());
    let mut expected: Vec<_> = match from < to {
        true => model
            .range::<[u8], _>((Bound::Included(&from[..]), Bound::Excluded(&to[..])))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect(),
        false => Vec::new(),
    };
    assert_eq!(range(store, &from, &to, false), expected);
    expected.reverse();
    assert_eq!(range(store, &from, &to, true), expected);
    let key = random.key();
    assert_eq!(store.get(Tree::Rows, &key).expect("it is read"), model.get(&key).cloned());
}

/// A store and a map are told the same. A crash leaves what was there at the rotation before the last flush, and ranges
/// that were removed since may be gone or not.
fn follows_a_map<S: Store>(open: impl Fn(&Path) -> S) {
    for seed in 1..3 {
        let dir = tempfile::tempdir().expect("a directory");
        let mut random = Random(seed * 0x9E37_79B9);
        let mut store = open(dir.path());
        let (mut now, mut rotated, mut flushed) = (Model::new(), Model::new(), Model::new());
        let mut removed: Vec<(Key, Key)> = Vec::new();
        for _ in 0..2_000 {
            match random.below(400) {
                0..230 => {
                    let (key, value) = (random.key(), random.value());
                    store.put(Tree::Rows, &key, &value);
                    now.insert(key, value);
                }
                230..330 => {
                    let key = random.key();
                    store.remove(Tree::Rows, &key);
                    now.remove(&key);
                }
                330..360 => {
                    store.rotate();
                    rotated = now.clone();
                }
                360..385 => {
                    store.flush().expect("it is written");
                    flushed = rotated.clone();
                    for (from, to) in &removed {
                        flushed.retain(|key, _| !(from..to).contains(&key));
                    }
                }
                385..390 => while store.compact().expect("it is compacted") {},
                390..393 => {
                    let (from, to) = (random.key(), random.key());
                    store.remove_range(Tree::Rows, &from, &to).expect("it is removed");
                    now.retain(|key, _| !(&from..&to).contains(&key));
                    removed.push((from, to));
                }
                393..396 => {
                    drop(store);
                    store = open(dir.path());
                    for (from, to) in &removed {
                        store.remove_range(Tree::Rows, from, to).expect("it is removed");
                        flushed.retain(|key, _| !(from..to).contains(&key));
                    }
                    (now, rotated) = (flushed.clone(), flushed.clone());
                    // These removals are to be found after the next crash, too.
                    store.rotate();
                    store.flush().expect("it is written");
                    removed.clear();
                }
                _ => assert_same(&store, &now, &mut random),
            }
        }
        assert_same(&store, &now, &mut random);
        assert!(store.figures().written_bytes > Some(0) && store.figures().files > Some(0));
    }
}

/// What one puts others find, and nothing older after that, while it goes from memory to files.
fn never_goes_back<S: Store>(open: impl Fn(&Path) -> S) {
    let dir = tempfile::tempdir().expect("a directory");
    let (store, done) = (open(dir.path()), AtomicBool::new(false));
    store.put(Tree::Rows, b"key", &0_u64.to_be_bytes());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for n in 1..=20_000_u64 {
                store.put(Tree::Rows, b"key", &n.to_be_bytes());
            }
            done.store(true, Ordering::SeqCst);
        });
        scope.spawn(|| {
            while !done.load(Ordering::SeqCst) {
                store.rotate();
                store.flush().expect("it is written");
            }
        });
        let mut last = 0;
        while !done.load(Ordering::SeqCst) {
            let got = store.get(Tree::Rows, b"key").expect("it is read").expect("it is there");
            let ranged = range(&store, b"k", b"l", last % 2 == 0).remove(0).1;
            for found in [got, ranged] {
                let found = u64::from_be_bytes(found.try_into().expect("8 bytes"));
                assert!(found >= last, "{found} after {last}");
                last = found;
            }
        }
    });
}

fn largest_file(dir: &Path) -> (u64, std::path::PathBuf) {
    let files = std::fs::read_dir(dir).expect("a directory").map(|file| {
        let file = file.expect("a directory");
        match file.path().is_dir() {
            true => largest_file(&file.path()),
            false => (file.metadata().expect("a file").len(), file.path()),
        }
    });
    files.max().unwrap_or_default()
}

/// A byte that has changed is an error, never another answer.
fn tells_what_has_changed<S: Store>(open: impl Fn(&Path) -> S) {
    let dir = tempfile::tempdir().expect("a directory");
    let key = |n: u32| n.to_be_bytes();
    let store = open(dir.path());
    (0..2_000).for_each(|n| store.put(Tree::Rows, &key(n), &[n as u8; 200]));
    store.rotate();
    store.flush().expect("it is written");
    drop(store);
    let (length, file) = largest_file(dir.path());
    let mut bytes = std::fs::read(&file).expect("a file");
    bytes[length as usize / 2] ^= 1;
    std::fs::write(&file, bytes).expect("a file");
    let store = open(dir.path());
    let mut wrong = 0;
    for n in 0..2_000 {
        match store.get(Tree::Rows, &key(n)) {
            Ok(found) => assert_eq!(found, Some(vec![n as u8; 200])),
            Err(EngineError::Corrupt { .. }) => wrong += 1,
            Err(error) => panic!("{error}"),
        }
    }
    assert!((1..100).contains(&wrong), "{wrong} rows of one block");
    let all = store.range(Tree::Rows, &[], &[0xFF], false, &mut |_, _| true);
    assert!(matches!(all, Err(EngineError::Corrupt { .. })), "{all:?}");
}

/// What is flushed takes no memory, nor do compactions lose anything from sight.
fn counts<S: Store>(open: impl Fn(&Path) -> S) {
    let dir = tempfile::tempdir().expect("a directory");
    let store = open(dir.path());
    assert!(!store.is_crowded() && store.memory_bytes() == 0);
    for n in 0..8_u32 {
        (0..500).for_each(|m| store.put(Tree::History, &(m * 7 + n).to_be_bytes(), &[1; 100]));
        assert!(store.memory_bytes() > 50_000 && store.wants_flush(50_000));
        store.rotate();
        store.flush().expect("it is written");
        assert_eq!(store.memory_bytes(), 0);
    }
    while store.compact().expect("it is compacted") {}
    assert!(!store.is_crowded());
    let figures = store.figures();
    assert!(figures.put_bytes > Some(400_000) && figures.file_bytes > Some(0), "{figures:?}");
    assert!((3_500..=4_000).contains(&figures.versions.expect("they are counted")), "{figures:?}");
}

macro_rules! contract {
    ($name:ident, $store:ty) => {
        mod $name {
            use super::*;

            fn open(dir: &Path) -> $store {
                <$store>::open(dir, 1 << 20, reads()).expect("it is opened")
            }

            #[test]
            fn a_store_follows_a_map() {
                follows_a_map(open);
            }

            #[test]
            fn a_key_never_goes_back() {
                never_goes_back(open);
            }

            #[test]
            fn a_byte_that_has_changed_is_an_error() {
                tells_what_has_changed(open);
            }

            #[test]
            fn figures_follow_what_is_put() {
                counts(open);
            }
        }
    };
}

contract!(lsm, LsmStore);
#[cfg(feature = "rocksdb")]
contract!(rocks, RocksStore);
