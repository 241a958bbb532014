//! Which row was made of which: for each row of one space a row of another.

use std::sync::Arc;

use froglet_engine::RowId;
use froglet_engine::id::ROWS_PER_BLOCK;
use parking_lot::{Mutex, RwLock};

/// For each row of a block the one in the other space; nothing as long as there is none.
#[derive(Default)]
pub(crate) struct BlockPlaces(Option<Box<[RowId; ROWS_PER_BLOCK]>>);

/// There is no row.
const NOWHERE: RowId = RowId(u64::MAX);

impl BlockPlaces {
    /// The row of a row.
    pub fn get(&self, row: RowId) -> Option<RowId> {
        let places = self.0.as_ref()?;
        Some(places[row.slot()]).filter(|place| *place != NOWHERE)
    }

    /// Enters the row of a row, or that there is none any more. Returns how many bytes that took.
    pub fn set(&mut self, row: RowId, place: Option<RowId>) -> usize {
        let bytes = match (&self.0, place) {
            (None, None) => return 0,
            (None, Some(_)) => size_of::<[RowId; ROWS_PER_BLOCK]>(),
            (Some(_), _) => 0,
        };
        let places = self.0.get_or_insert_with(|| Box::new([NOWHERE; ROWS_PER_BLOCK]));
        places[row.slot()] = place.unwrap_or(NOWHERE);
        bytes
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (usize, RowId)> {
        let places = self.0.iter().flat_map(|places| places.iter().copied().enumerate());
        places.filter(|(_, place)| *place != NOWHERE)
    }
}

/// The same of a whole space, by number of the block.
#[derive(Default)]
pub(crate) struct Places(RwLock<Vec<Arc<Mutex<BlockPlaces>>>>);

impl Places {
    /// Those of a block, to be locked.
    pub fn of_block(&self, block: u32) -> Arc<Mutex<BlockPlaces>> {
        let at = block as usize;
        if let Some(places) = self.0.read().get(at) {
            return places.clone();
        }
        let mut blocks = self.0.write();
        if blocks.len() <= at {
            blocks.resize_with(at + 1, Arc::default);
        }
        blocks[at].clone()
    }

    /// The row of a row.
    pub fn get(&self, row: RowId) -> Option<RowId> {
        let blocks = self.0.read();
        blocks.get(row.block() as usize)?.lock().get(row)
    }

    /// As [`BlockPlaces::set`].
    pub fn set(&self, row: RowId, place: Option<RowId>) -> usize {
        self.of_block(row.block()).lock().set(row, place)
    }

    /// Those of every block, to be locked.
    pub fn blocks(&self) -> Vec<Arc<Mutex<BlockPlaces>>> {
        self.0.read().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_one_place_or_none() {
        let (places, row, other) = (Places::default(), RowId::of(3, 7), RowId::of(3, 8));
        assert_eq!(places.get(row), None);
        assert_eq!(places.set(row, None), 0);
        assert_eq!(places.of_block(3).lock().iter().count(), 0);
        assert_eq!(places.set(row, Some(RowId(1))), 8 * ROWS_PER_BLOCK);
        assert_eq!(places.set(other, Some(RowId(0))), 0);
        assert_eq!((places.get(row), places.get(other)), (Some(RowId(1)), Some(RowId(0))));
        places.set(row, None);
        assert_eq!(places.get(row), None);
        assert_eq!(places.of_block(3).lock().iter().collect::<Vec<_>>(), [(8, RowId(0))]);
        assert_eq!(places.blocks().len(), 4);
    }
}
