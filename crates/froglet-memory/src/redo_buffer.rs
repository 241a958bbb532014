//! A transaction's redo: its operations as the log will have them, in chunks.
//!
//! ```text
//!   [ closed │ closed │ closed │ open… ]      positions count all bytes from the first on
//!      └── a part of a long record each       an operation is in one chunk, however long it is
//! ```
//! Chunks do not move as more is written, so a large transaction takes its redo once; and they are on the
//! engine's account, in steps that spare small transactions the account's cache line.

use crate::memory::Budget;

/// What is held and not charged is less than this.
const CHARGE_BYTES: usize = 64 << 10;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct RedoBuffer {
    closed: Vec<Vec<u8>>,
    closed_bytes: usize,
    /// What the closed ones take.
    closed_capacity: usize,
    open: Vec<u8>,
    charged_bytes: usize,
}

impl RedoBuffer {
    /// The bytes of all operations.
    pub fn len(&self) -> usize {
        self.closed_bytes + self.open.len()
    }

    /// Where the next operation is appended. A chunk of so many bytes is closed.
    pub fn next(&mut self, chunk_bytes: usize, budget: &Budget) -> &mut Vec<u8> {
        self.close(chunk_bytes);
        self.charge(budget);
        &mut self.open
    }

    /// Closes the last chunk if it has about so many bytes. The next one has room for them from the start: grown by
    /// doubling it would take twice as much as it is filled.
    pub fn close(&mut self, chunk_bytes: usize) {
        if self.open.len() >= chunk_bytes - chunk_bytes / 16 {
            let full = std::mem::replace(&mut self.open, Vec::with_capacity(chunk_bytes));
            self.closed_bytes += full.len();
            self.closed_capacity += full.capacity();
            self.closed.push(full);
        }
    }

    fn charge(&mut self, budget: &Budget) {
        let held_bytes = self.closed_capacity + self.open.capacity();
        if held_bytes >= self.charged_bytes + CHARGE_BYTES {
            budget.charge(held_bytes - self.charged_bytes);
            self.charged_bytes = held_bytes;
        }
    }

    /// Forgets what was appended from a position on. How many closed chunks are left as they were.
    pub fn truncate(&mut self, bytes: usize) -> usize {
        while self.closed_bytes > bytes {
            self.open = self.closed.pop().expect("closed bytes are in closed chunks");
            self.closed_bytes -= self.open.len();
            self.closed_capacity -= self.open.capacity();
        }
        self.open.truncate(bytes - self.closed_bytes);
        self.closed.len()
    }

    pub fn closed(&self) -> &[Vec<u8>] {
        &self.closed
    }

    /// What is in no closed chunk.
    pub fn rest(&self) -> &[u8] {
        &self.open
    }

    /// Nothing is left of it.
    pub fn clear(&mut self, budget: &Budget) {
        self.closed = Vec::new();
        self.open = Vec::new();
        self.closed_bytes = 0;
        self.closed_capacity = 0;
        budget.release(std::mem::take(&mut self.charged_bytes));
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_charged_and_given_back() {
        let budget = Budget::new(1 << 30);
        let mut redo = RedoBuffer::default();
        let mut ends = vec![0];
        for n in 0..2000_usize {
            redo.next(1000, &budget).extend_from_slice(&vec![n as u8; 100 + n % 7]);
            ends.push(redo.len());
        }
        assert!(redo.closed().len() > 150, "{} chunks", redo.closed().len());
        assert!(redo.closed().iter().all(|chunk| (938..1045).contains(&chunk.len())));
        assert!(budget.used_bytes() >= redo.len() as u64 - CHARGE_BYTES as u64);
        let whole: Vec<u8> =
            redo.closed().concat().into_iter().chain(redo.rest().to_vec()).collect();
        redo.truncate(ends[900]);
        let left: Vec<u8> =
            redo.closed().concat().into_iter().chain(redo.rest().to_vec()).collect();
        assert_eq!(left, &whole[..ends[900]]);
        assert_eq!(redo.truncate(0), 0);
        assert_eq!(redo.len(), 0);
        redo.clear(&budget);
        assert_eq!(budget.used_bytes(), 0);
    }
}
