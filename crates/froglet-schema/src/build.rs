//! An index step's build from all rows at once, and the captured rows that wait for it.
//!
//! ```text
//!   captured row ─▶ deferred, a bit for each row ─▶ entered after the load
//! ```

use std::collections::BTreeMap;

use froglet_engine::id::ROWS_PER_BLOCK;
use froglet_engine::{IndexBuild, RowId};
use parking_lot::Mutex;

/// One bit for each row of a block.
type Slots = [u64; ROWS_PER_BLOCK / 64];

/// Rows by block, ascending; each block's as it is reached.
#[derive(Default)]
pub(crate) struct Deferred(BTreeMap<u32, Box<Slots>>);

impl Iterator for Deferred {
    type Item = (u32, Vec<RowId>);

    fn next(&mut self) -> Option<(u32, Vec<RowId>)> {
        let (block, slots) = self.0.pop_first()?;
        let mut rows = Vec::new();
        for (at, mut word) in slots.into_iter().enumerate() {
            while word != 0 {
                rows.push(RowId::of(block, at * 64 + word.trailing_zeros() as usize));
                word &= word - 1;
            }
        }
        Some((block, rows))
    }
}

/// A build that is under way.
pub(crate) struct Building {
    pub build: Box<dyn IndexBuild>,
    /// Rows to be entered after the load, by block; none once that has begun.
    deferred: Mutex<Option<Deferred>>,
}

impl Building {
    /// A build that has scanned nothing yet. The feed is open by now.
    pub fn new(build: Box<dyn IndexBuild>) -> Building {
        Building { build, deferred: Mutex::new(Some(Deferred::default())) }
    }

    /// Takes captured rows; false if it is over and they are to be entered at once.
    pub fn defer(&self, rows: &[RowId]) -> bool {
        let mut deferred = self.deferred.lock();
        let Some(deferred) = &mut *deferred else { return false };
        for rows in rows.chunk_by(|a, b| a.block() == b.block()) {
            let slots = deferred.0.entry(rows[0].block());
            let slots = slots.or_insert_with(|| Box::new([0; ROWS_PER_BLOCK / 64]));
            for slot in rows.iter().map(|rid| rid.slot()) {
                slots[slot / 64] |= 1 << (slot % 64);
            }
        }
        true
    }

    /// Ends the deferral and returns the rows that wait. Whoever enters them looks at each as it is
    /// then, so it does no harm if capture has entered a newer state of it before.
    pub fn end_deferral(&self) -> Deferred {
        self.deferred.lock().take().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use froglet_engine::{EngineError, Loaded, Loading, TxnId};

    struct Nothing;

    impl IndexBuild for Nothing {
        fn scan_block(&self, _: TxnId, _: u32) -> Result<u64, EngineError> {
            Ok(0)
        }

        fn load(&self, _: &mut dyn FnMut(&mut Loading) -> bool) -> Result<Loaded, EngineError> {
            Ok(Loaded::Stopped)
        }
    }

    #[test]
    fn rows_wait_for_the_load() {
        let building = Building::new(Box::new(Nothing));
        let rows = |block, slots: &[usize]| -> Vec<RowId> {
            slots.iter().map(|&slot| RowId::of(block, slot)).collect()
        };
        assert!(building.defer(&[rows(0, &[5, 64]), rows(3, &[9])].concat()));
        assert!(building.defer(&rows(1, &[8])));
        assert!(building.defer(&rows(0, &[63])));
        let wanted = [(0, rows(0, &[5, 63, 64])), (1, rows(1, &[8])), (3, rows(3, &[9]))].to_vec();
        assert_eq!(building.end_deferral().collect::<Vec<_>>(), wanted);
        assert!(!building.defer(&rows(2, &[1])), "over");
    }
}
