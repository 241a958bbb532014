//! What a tree holds: its own count, and the engine's account if it is of an engine.

use std::sync::Arc;

use crate::memory::Budget;
use crate::sync::atomic::{AtomicUsize, Ordering};

/// Bytes of nodes and their heaps. Those that wait for their last reader are not counted.
#[derive(Default)]
pub(super) struct Account {
    bytes: AtomicUsize,
    budget: Option<Arc<Budget>>,
}

impl Account {
    pub fn new(budget: Option<Arc<Budget>>) -> Account {
        Account { bytes: AtomicUsize::new(0), budget }
    }

    pub fn add(&self, bytes: usize) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        if let Some(budget) = &self.budget {
            budget.charge(bytes);
        }
    }

    pub fn sub(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        if let Some(budget) = &self.budget {
            budget.release(bytes);
        }
    }

    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        if let Some(budget) = &self.budget {
            budget.release(*self.bytes.get_mut());
        }
    }
}
