//! Row ids: numbers for the keys of rows, for as long as anybody may ask by one.
//!
//! **[I1]** Whoever is given a number has a view or a transaction, which was registered before. A number stays as long
//! as a registration that is older than its last use: so it stays for whoever has it.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use froglet_engine::{RowId, Ts};
use parking_lot::Mutex;

/// Below it a number is nobody's: a scan begins with the first of them.
const FIRST: u64 = 1 << 20;
/// So many new numbers until those that nobody has are looked for again, at least.
const SWEEP: usize = 64 << 10;

#[derive(Debug)]
struct Numbered {
    key: Arc<[u8]>,
    /// Of the row that it is, or was, to be made of.
    made_of: Option<Arc<[u8]>>,
    /// The registration that was the newest when it was last used.
    used: u64,
}

#[derive(Debug, Default)]
struct State {
    numbers: HashMap<Arc<[u8]>, RowId>,
    keys: HashMap<RowId, Numbered>,
    next: u64,
    sweep_at: usize,
    /// Registrations that live, and what they read.
    registered: BTreeMap<u64, Ts>,
    last: u64,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Interned(Mutex<State>);

/// Somebody who may have row ids. Dropped, it is over.
pub(super) struct Registration {
    of: Arc<Interned>,
    number: u64,
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.of.0.lock().registered.remove(&self.number);
    }
}

impl Interned {
    /// Registers a reader as of a timestamp.
    pub fn register(self: &Arc<Self>, ts: Ts) -> Registration {
        let mut state = self.0.lock();
        state.last += 1;
        let number = state.last;
        state.registered.insert(number, ts);
        Registration { of: Arc::clone(self), number }
    }

    /// The oldest timestamp that anybody reads.
    pub fn oldest(&self) -> Option<Ts> {
        self.0.lock().registered.values().min().copied()
    }

    /// The number of a row by its key in the store.
    pub fn number(&self, key: &[u8]) -> RowId {
        self.number_made_of(key, None)
    }

    /// The same of a row that is to be made of another.
    pub fn number_made_of(&self, key: &[u8], made_of: Option<&Arc<[u8]>>) -> RowId {
        let mut state = self.0.lock();
        let State { numbers, keys, last, .. } = &mut *state;
        if let Some(rid) = numbers.get(key) {
            let numbered = keys.get_mut(rid).expect("both ways");
            numbered.used = *last;
            if numbered.made_of.is_none() {
                numbered.made_of = made_of.cloned();
            }
            return *rid;
        }
        if state.keys.len() >= state.sweep_at.max(SWEEP) {
            state.sweep();
        }
        let rid = RowId(FIRST + state.next);
        state.next += 1;
        let (key, used) = (Arc::<[u8]>::from(key), state.last);
        state.numbers.insert(Arc::clone(&key), rid);
        state.keys.insert(rid, Numbered { key, made_of: made_of.cloned(), used });
        rid
    }

    /// The key of the row that another is to be made of.
    pub fn made_of(&self, rid: RowId) -> Option<Arc<[u8]>> {
        self.0.lock().keys.get(&rid)?.made_of.clone()
    }

    /// The key of a number, if anybody may have it.
    pub fn key(&self, rid: RowId) -> Option<Arc<[u8]>> {
        let mut state = self.0.lock();
        let last = state.last;
        let numbered = state.keys.get_mut(&rid)?;
        numbered.used = last;
        Some(Arc::clone(&numbered.key))
    }
}

impl State {
    fn sweep(&mut self) {
        let oldest = self.registered.keys().next().copied().unwrap_or(u64::MAX);
        let numbers = &mut self.numbers;
        self.keys.retain(|_, numbered| {
            let is_kept = numbered.used >= oldest;
            if !is_kept {
                numbers.remove(&numbered.key);
            }
            is_kept
        });
        self.sweep_at = 2 * self.keys.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_stays_for_whoever_has_it() {
        let all = Arc::new(Interned::default());
        let reader = all.register(Ts(5));
        let one = all.number(b"one");
        assert_eq!(all.number(b"one"), one);
        let other = all.register(Ts(9));
        assert_eq!(all.oldest(), Some(Ts(5)));
        drop(reader);
        // Of the reader that has gone, and not used since.
        all.0.lock().sweep();
        assert_eq!(all.key(one), None);
        let two = all.number(b"two");
        drop(other);
        let later = all.register(Ts(9));
        assert_eq!(all.key(two).as_deref(), Some(&b"two"[..]), "used again");
        all.0.lock().sweep();
        assert!(all.key(two).is_some());
        drop(later);
        assert_ne!(all.number(b"one"), one, "a number is used once");
    }
}
