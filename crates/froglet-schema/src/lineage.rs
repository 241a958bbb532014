//! Which migration unit each row is of, and which rows each unit has.
//!
//! ```text
//!   units     block 0: [ 7, 3, –, 7, … ]      by row
//!   prints    block 0: [ x, y, –, z, … ]      by row: what its values were, as a number
//!   sorted    (3, row 1) (7, row 0) (7, row 3)   by unit, as the scan left it
//!   added     9 → [row 2]                        by unit, since
//! ```
//!
//! L1: `units` is right. An entry of `sorted` or `added` that it contradicts is stale, and passed over.
//! L2: every row of a unit has an entry in one of them.
//! L3: a row with a print counts in its unit with the values of that print. One without has to be looked
//!     at again, whatever its values are.

use std::collections::HashMap;

use froglet_engine::RowId;
use froglet_engine::id::ROWS_PER_BLOCK;

/// A bucket of keys: rows whose keys are equal are of one unit, others may be.
pub(crate) type Unit = u64;

/// The row is of no unit: it is not there.
const NONE: Unit = Unit::MAX;
/// A row's values are not known.
const NO_PRINT: u64 = 0;
/// Rows that have changed their unit before everything is sorted anew.
const MANY_ADDED: usize = 1 << 16;

/// See the module. Until it is sealed, rows are noted and nobody asks for those of a unit.
#[derive(Default)]
pub(crate) struct Lineage {
    units: ByRow,
    prints: ByRow,
    sorted: Vec<(Unit, RowId)>,
    added: HashMap<Unit, Vec<RowId>>,
    added_rows: usize,
    is_sealed: bool,
}

/// A number for each row, by block.
#[derive(Default)]
struct ByRow(Vec<Option<Box<[u64; ROWS_PER_BLOCK]>>>);

impl ByRow {
    fn get(&self, row: RowId) -> Option<u64> {
        Some(self.0.get(row.block() as usize)?.as_ref()?[row.slot()])
    }

    /// The numbers of a block; `none` of a row that has none.
    fn block(&mut self, block: u32, none: u64) -> &mut [u64; ROWS_PER_BLOCK] {
        let block = block as usize;
        if self.0.len() <= block {
            self.0.resize_with(block + 1, || None);
        }
        self.0[block].get_or_insert_with(|| Box::new([none; ROWS_PER_BLOCK]))
    }

    /// Returns what it was.
    fn replace(&mut self, row: RowId, to: u64, none: u64) -> u64 {
        std::mem::replace(&mut self.block(row.block(), none)[row.slot()], to)
    }
}

impl Lineage {
    /// The unit of a row.
    pub fn unit_of(&self, row: RowId) -> Option<Unit> {
        self.units.get(row).filter(|unit| *unit != NONE)
    }

    /// Makes a row one of this unit, or of none. Returns of which it was.
    pub fn set(&mut self, row: RowId, unit: Option<Unit>) -> Option<Unit> {
        assert_ne!(unit, Some(NONE), "this one is no unit");
        let unit = unit.unwrap_or(NONE);
        let was = self.units.replace(row, unit, NONE);
        if unit != was && unit != NONE && self.is_sealed {
            self.added.entry(unit).or_default().push(row);
            self.added_rows += 1;
            if self.added_rows > MANY_ADDED.max(self.sorted.len() / 4) {
                self.seal();
            }
        }
        Some(was).filter(|unit| *unit != NONE)
    }

    /// Notes that a row counts in a unit with these values; or in none, not being there. False if it did
    /// before: nothing has changed. Else with the unit that it was of.
    pub fn note(&mut self, row: RowId, now: Option<(Unit, u64)>) -> (bool, Option<Unit>) {
        let print = now.map_or(NO_PRINT, |(_, print)| print.max(NO_PRINT + 1));
        let before = self.prints.replace(row, print, NO_PRINT);
        let was = self.set(row, now.map(|(unit, _)| unit));
        let is_same = before == print && print != NO_PRINT && was == now.map(|(unit, _)| unit);
        (!is_same, was)
    }

    /// The same of the rows of a block that a scan has read, each with its unit and print. A query may
    /// read a block twice, and see a row change: that is in doubt.
    pub fn note_block(&mut self, block: u32, rows: impl Iterator<Item = (RowId, (Unit, u64))>) {
        debug_assert!(!self.is_sealed, "a scan comes before it");
        let (units, prints) = (self.units.block(block, NONE), self.prints.block(block, NO_PRINT));
        for (row, (unit, print)) in rows {
            assert_ne!(unit, NONE, "this one is no unit");
            let now = (unit, print.max(NO_PRINT + 1));
            let at = row.slot();
            let is_new = units[at] == NONE || (units[at], prints[at]) == now;
            units[at] = unit;
            prints[at] = if is_new { now.1 } else { NO_PRINT };
        }
    }

    /// The print with which a row counts.
    pub fn print_of(&self, row: RowId) -> Option<u64> {
        self.prints.get(row).filter(|print| *print != NO_PRINT)
    }

    /// Notes that a row counts nowhere, or not everywhere: it is to be looked at again.
    pub fn doubt(&mut self, row: RowId) {
        if self.prints.get(row).is_some() {
            self.prints.replace(row, NO_PRINT, NO_PRINT);
        }
    }

    /// Everything has been noted once: from now on it can be asked for the rows of units.
    pub fn seal(&mut self) {
        self.is_sealed = true;
        self.added = HashMap::new();
        self.added_rows = 0;
        self.sorted.clear();
        for (number, units) in self.units.0.iter().enumerate() {
            let Some(units) = units else { continue };
            let number = u32::try_from(number).expect("a space has at most 2^32 blocks");
            let there = units.iter().enumerate().filter(|(_, unit)| **unit != NONE);
            self.sorted.extend(there.map(|(slot, unit)| (*unit, RowId::of(number, slot))));
        }
        self.sorted.sort_unstable();
    }

    /// The rows of some units, ascending.
    pub fn rows_of(&self, units: impl Iterator<Item = Unit>) -> Vec<RowId> {
        debug_assert!(self.is_sealed, "rows are noted before they are asked for");
        let mut rows = Vec::new();
        for unit in units {
            let first = self.sorted.partition_point(|(other, _)| *other < unit);
            let sorted = self.sorted[first..].iter().take_while(|(other, _)| *other == unit);
            let added = self.added.get(&unit).into_iter().flatten();
            let noted = sorted.map(|(_, row)| row).chain(added).copied();
            rows.extend(noted.filter(|row| self.unit_of(*row) == Some(unit)));
        }
        rows.sort_unstable();
        rows.dedup();
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(n: u64) -> RowId {
        RowId::of((n / 100) as u32, (n % 100) as usize)
    }

    #[test]
    fn rows_are_found_by_the_unit_that_they_are_of_now() {
        let mut lineage = Lineage::default();
        for n in 0..1000 {
            assert_eq!(lineage.set(row(n), Some(n % 7)), None);
        }
        lineage.seal();
        let all = |unit| (0..1000).filter(|n| n % 7 == unit).map(row).collect::<Vec<_>>();
        assert_eq!(lineage.rows_of([3].into_iter()), all(3));
        // There and back, and away.
        assert_eq!(lineage.set(row(3), Some(5)), Some(3));
        assert_eq!(lineage.set(row(3), Some(3)), Some(5));
        assert_eq!(lineage.set(row(10), Some(100)), Some(3));
        assert_eq!(lineage.set(row(17), None), Some(3));
        assert_eq!(lineage.set(row(24), Some(100)), Some(3));
        let rest: Vec<RowId> =
            all(3).into_iter().filter(|r| ![10, 17, 24].map(row).contains(r)).collect();
        for _ in 0..2 {
            assert_eq!(lineage.rows_of([3].into_iter()), rest);
            assert_eq!(lineage.rows_of([5].into_iter()), all(5));
            assert_eq!(lineage.rows_of([100, 101].into_iter()), [row(10), row(24)]);
            assert_eq!(lineage.rows_of([200].into_iter()), []);
            lineage.seal();
        }
        assert_eq!(lineage.unit_of(row(17)), None);
        assert_eq!(lineage.unit_of(row(100_000)), None);
    }

    #[test]
    fn a_row_that_has_changed_in_nothing_is_known() {
        let mut lineage = Lineage::default();
        assert_eq!(lineage.note(row(1), Some((7, 70))), (true, None));
        assert_eq!(lineage.note(row(1), Some((7, 70))), (false, Some(7)));
        assert_eq!(lineage.note(row(1), Some((7, 71))), (true, Some(7)));
        assert_eq!(lineage.note(row(1), Some((8, 71))), (true, Some(7)));
        lineage.doubt(row(1));
        assert_eq!(lineage.unit_of(row(1)), Some(8));
        assert_eq!(lineage.note(row(1), Some((8, 71))), (true, Some(8)));
        assert_eq!(lineage.note(row(1), None), (true, Some(8)));
        assert_eq!(lineage.note(row(1), Some((8, 71))), (true, None));
        // A print that happens to be the one of no print.
        for is_new in [true, false] {
            assert_eq!(lineage.note(row(2), Some((3, NO_PRINT))).0, is_new);
        }
    }

    #[test]
    fn what_a_scan_reads_twice_is_in_doubt_where_it_differs() {
        let mut lineage = Lineage::default();
        let read = |prints: [u64; 3]| {
            (0..).map(|slot| RowId::of(2, slot)).zip(prints.map(|print| (7, print)))
        };
        lineage.note_block(2, read([1, 2, 3]));
        lineage.note_block(2, read([1, 9, 3]));
        let prints = [0, 1, 2].map(|slot| lineage.print_of(RowId::of(2, slot)));
        assert_eq!(prints, [Some(1), None, Some(3)]);
        lineage.note_block(2, read([1, 9, 3]));
        assert_eq!(lineage.print_of(RowId::of(2, 1)), None, "there may be rows of the first");
        assert_eq!(lineage.unit_of(RowId::of(2, 1)), Some(7));
    }

    #[test]
    fn many_changes_are_sorted_in() {
        let mut lineage = Lineage::default();
        lineage.seal();
        let many = 2 * MANY_ADDED as u64;
        for n in 0..many {
            lineage.set(row(n), Some(n % 3));
        }
        assert!(lineage.added_rows <= MANY_ADDED && lineage.sorted.len() > MANY_ADDED);
        assert_eq!(lineage.rows_of(0..3).len() as u64, many);
    }
}
