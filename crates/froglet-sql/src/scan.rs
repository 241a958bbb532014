//! Reading the rows of a short statement: through its access, or all of them. A statement that
//! turns out to be long goes on aside, so that the other sessions of its loop do not wait for it.

use std::ops::ControlFlow;

use froglet_engine::{Direction, KeyRange, Row, RowId, Snapshot, batch};
use froglet_schema::{Counted, TableVersion};
use froglet_txn::{Limits, aside};

use crate::access::{Access, UniqueKey};
use crate::bound::BoundExpr;
use crate::context::EvalContext;
use crate::error::SqlError;

/// Called with every row; stops the scan by Break.
pub(crate) type Visit<'a> = dyn FnMut(RowId, &mut Row) -> Result<ControlFlow<()>, SqlError> + 'a;

/// The same, into something that is collected.
pub(crate) type Gather<'a, T> =
    dyn FnMut(&mut T, RowId, &mut Row) -> Result<ControlFlow<()>, SqlError> + 'a;

/// Keys of two integers are not longer.
const SHORT_KEY_BYTES: usize = 18;
/// Keys that are looked up at once.
const KEYS_TOGETHER: usize = 256;
/// Rows visited between two looks at the limits.
const CHECK_ROWS: usize = 1024;
/// Rows that a short statement visits at most.
pub(crate) const MANY: usize = 5_000;

/// What a scan reads.
pub(crate) struct Scan<'a> {
    pub(crate) table: &'a TableVersion,
    pub(crate) access: Option<&'a Access>,
    /// Layout positions of the columns read.
    pub(crate) projection: &'a [usize],
    /// Over the projection.
    pub(crate) residual: Option<&'a BoundExpr>,
    pub(crate) direction: Direction,
}

impl Scan<'_> {
    /// Collects from the rows that `snapshot` sees and the conditions let through.
    pub(crate) fn gather<T: Default>(
        &self,
        snapshot: &Snapshot,
        context: &EvalContext,
        limits: &Limits,
        visit: &mut Gather<'_, T>,
    ) -> Result<T, SqlError> {
        if let Some(gathered) = self.gather_few(snapshot, context, limits, MANY, visit)? {
            return Ok(gathered);
        }
        let all = aside(|| self.gather_few(snapshot, context, limits, usize::MAX, visit))?;
        Ok(all.expect("nothing ends this scan early"))
    }

    /// The same, if there are not more than `most` rows to look at.
    pub(crate) fn gather_few<T: Default>(
        &self,
        snapshot: &Snapshot,
        context: &EvalContext,
        limits: &Limits,
        most: usize,
        visit: &mut Gather<'_, T>,
    ) -> Result<Option<T>, SqlError> {
        let mut gathered = T::default();
        let whole = self.visit(snapshot, context, limits, most, &mut |rid, row| {
            visit(&mut gathered, rid, row)
        })?;
        Ok(whole.then_some(gathered))
    }

    /// Visits the rows that `snapshot` sees and the conditions let through; false if there are more
    /// than `most` to look at.
    pub(crate) fn visit(
        &self,
        snapshot: &Snapshot,
        context: &EvalContext,
        limits: &Limits,
        most: usize,
        visit: &mut Visit<'_>,
    ) -> Result<bool, SqlError> {
        let mut seen: usize = 0;
        let mut outcome = Ok(true);
        let mut each = |rid: RowId, row: &mut Row| {
            seen += 1;
            if seen > most {
                outcome = Ok(false);
                return ControlFlow::Break(());
            }
            let mut step = || {
                if seen.is_multiple_of(CHECK_ROWS) {
                    limits.check()?;
                }
                match self.residual {
                    Some(residual) if !residual.holds(row, context)? => {
                        Ok(ControlFlow::Continue(()))
                    }
                    _ => visit(rid, row),
                }
            };
            match step() {
                Ok(flow) => flow,
                Err(e) => {
                    outcome = Err(e);
                    ControlFlow::Break(())
                }
            }
        };
        match self.access {
            Some(access) => self.seek(access, snapshot, context, &mut each)?,
            None => self.all(snapshot, &mut each)?,
        }
        outcome
    }

    /// Looks up keys, each of one row at most, many at once: whoever asks a store waits for it once.
    fn seek_together(
        &self,
        access: &Access,
        snapshot: &Snapshot,
        keys: &[KeyRange],
        each: &mut dyn FnMut(RowId, &mut Row) -> ControlFlow<()>,
    ) {
        let table = &self.table.table;
        for some in keys.chunks(KEYS_TOGETHER) {
            let mut found = Vec::with_capacity(some.len());
            for key in some {
                self.table.note_range(snapshot, access.index, || key.clone());
            }
            table.seek_all(
                snapshot,
                access.index,
                some,
                self.projection,
                &mut |number, rid, row| {
                    found.push((number, rid, std::mem::take(row)));
                },
            );
            self.table.accesses().add_lookup(found.len());
            found.sort_unstable_by_key(|(number, ..)| *number);
            for (_, rid, mut row) in found {
                if each(rid, &mut row).is_break() {
                    return;
                }
            }
        }
    }

    fn seek(
        &self,
        access: &Access,
        snapshot: &Snapshot,
        context: &EvalContext,
        each: &mut dyn FnMut(RowId, &mut Row) -> ControlFlow<()>,
    ) -> Result<(), SqlError> {
        if access.unique {
            let mut key = Vec::with_capacity(SHORT_KEY_BYTES);
            match access.key(self.table, context, &mut key)? {
                UniqueKey::Whole => {
                    let mut row = Row::with_capacity(self.projection.len());
                    let read = || KeyRange::exactly(&key);
                    self.table.note_range(snapshot, access.index, read);
                    let table = &self.table.table;
                    let found =
                        table.get_by_key(snapshot, access.index, &key, self.projection, &mut row);
                    self.table.accesses().add_lookup(found.iter().len());
                    if let Some(rid) = found {
                        let _ = each(rid, &mut row);
                    }
                    return Ok(());
                }
                UniqueKey::None => return Ok(()),
                UniqueKey::Unusable => {}
            }
        }
        let mut ranges = access.ranges(self.table, context)?;
        if self.direction == Direction::Backward {
            ranges.reverse();
        }
        let table = &self.table.table;
        let is_far = ranges.len() > 1 && table.has_parts();
        let is_unique = table.layout().indexes[access.index].unique;
        if is_far && is_unique && ranges.iter().all(|range| range.one().is_some()) {
            self.seek_together(access, snapshot, &ranges, each);
            return Ok(());
        }
        let mut flow = ControlFlow::Continue(());
        for range in &ranges {
            self.table.note_range(snapshot, access.index, || range.clone());
            let mut found = 0;
            self.table.table.seek(
                snapshot,
                access.index,
                range,
                self.direction,
                self.projection,
                &mut |rid, row| {
                    found += 1;
                    flow = each(rid, row);
                    flow
                },
            );
            self.table.accesses().add_lookup(found);
            if flow.is_break() {
                break;
            }
        }
        Ok(())
    }

    fn all(
        &self,
        snapshot: &Snapshot,
        each: &mut dyn FnMut(RowId, &mut Row) -> ControlFlow<()>,
    ) -> Result<(), SqlError> {
        let types: Vec<_> = self.projection.iter().map(|c| self.table.def.columns[*c].ty).collect();
        let mut row = Row::new();
        let accesses = self.table.accesses();
        accesses.add(Counted::Scans, 1);
        for block in 0..self.table.scan_blocks(snapshot) {
            let rows = self.table.table.read_block(snapshot, block, self.projection)?;
            accesses.add(Counted::ScannedRows, rows.rids.len());
            for (at, rid) in rows.rids.iter().enumerate() {
                row.clear();
                let cells = rows.batch.columns().iter().zip(&types);
                row.extend(cells.map(|(array, ty)| batch::value_at(array.as_ref(), at, *ty)));
                if each(*rid, &mut row).is_break() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}
