//! Reads, compared with the model.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};

use froglet_engine::batch::value_at;
use froglet_engine::key::encode_part;
use froglet_engine::{Direction, KeyRange, Lsn, Row, RowId, Snapshot, Table, Ts};

use crate::history::{Codes, RangeOp};
use crate::model::{Model, Slot};
use crate::tables::{key_of, same_row, value};

/// What a check says when it fails.
pub(crate) type Outcome = Result<(), String>;

macro_rules! ensure {
    ($holds:expr, $($what:tt)+) => {
        if !$holds {
            return Err(format!($($what)+));
        }
    };
}
pub(crate) use ensure;

/// One table through one of its layouts, beside the model of it.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a> {
    pub model: &'a Model,
    pub at: usize,
    pub table: &'a dyn Table,
    /// What the log had made durable before the read.
    pub durable: Lsn,
}

fn projected(row: &Row, projection: &[usize]) -> Row {
    projection.iter().map(|&at| row[at].clone()).collect()
}

impl Reader<'_> {
    fn slots(&self) -> &BTreeMap<RowId, Slot> {
        &self.model.slots[self.at]
    }

    /// Every row that a view should see.
    fn expected(&self, view: &Snapshot) -> BTreeMap<RowId, &Row> {
        let seen = |(rid, slot): (&RowId, _)| Some((*rid, Slot::visible(slot, view)?));
        self.slots().iter().filter_map(|(rid, slot)| seen((rid, slot))).collect()
    }

    /// All positions of the layout.
    pub fn all(&self) -> Vec<usize> {
        (0..self.table.layout().columns.len()).collect()
    }

    /// The columns whose bits are set; the order is turned round for odd codes.
    pub fn projection(&self, columns: u8) -> Vec<usize> {
        let mut chosen = self.all();
        chosen.retain(|at| columns & (2 << at) != 0);
        if columns & 1 == 1 {
            chosen.reverse();
        }
        chosen
    }

    /// A reader who saw this row depends on a commit that may not be durable, and must know it.
    fn dependence(&self, view: &Snapshot, slot: &Slot, rid: RowId) -> Outcome {
        let Some(version) = slot.version(view) else { return Ok(()) };
        let known = version.lsn <= self.durable || view.newest_seen() >= version.ts;
        ensure!(
            known,
            "row {rid} of {} was read, committed at {} and not durable, but the view has seen {}",
            self.table.space(),
            version.ts,
            view.newest_seen()
        );
        Ok(())
    }

    /// One row.
    pub fn row(&self, view: &Snapshot, rid: RowId, projection: &[usize]) -> Outcome {
        let mut out = Row::new();
        let found = self.table.read_row(view, rid, projection, &mut out);
        let slot = self.slots().get(&rid);
        let want = slot.and_then(|slot| slot.visible(view)).map(|row| projected(row, projection));
        let same = match &want {
            Some(want) => found && same_row(&out, want),
            None => !found && out.is_empty(),
        };
        ensure!(
            same,
            "{view:?} reads {} of row {rid} of {}, columns {projection:?}; it should be {want:?}",
            if found { format!("{out:?}") } else { "nothing".to_owned() },
            self.table.space()
        );
        slot.map_or(Ok(()), |slot| self.dependence(view, slot, rid))
    }

    /// Every block.
    pub fn scan(&self, view: &Snapshot, projection: &[usize]) -> Outcome {
        let space = self.table.space();
        let mut rows: BTreeMap<RowId, Row> = BTreeMap::new();
        for block in 0..self.table.block_count() {
            let read = self.table.read_block(view, block, projection).map_err(|e| e.to_string())?;
            ensure!(read.rids.is_sorted(), "row ids of block {block} of {space} are in no order");
            ensure!(
                read.rids.len() == read.batch.num_rows(),
                "{} row ids for {} rows of block {block} of {space}",
                read.rids.len(),
                read.batch.num_rows()
            );
            for (at, &rid) in read.rids.iter().enumerate() {
                ensure!(rid.block() == block, "row {rid} is read in block {block} of {space}");
                let cell = |(i, &position): (usize, &usize)| {
                    let ty = self.table.layout().columns[position].ty;
                    value_at(read.batch.column(i), at, ty)
                };
                let row = projection.iter().enumerate().map(cell).collect();
                ensure!(rows.insert(rid, row).is_none(), "row {rid} of {space} is read twice");
            }
        }
        let expected = self.expected(view);
        for (rid, row) in &rows {
            let want = expected.get(rid).map(|row| projected(row, projection));
            ensure!(
                want.as_ref().is_some_and(|want| same_row(row, want)),
                "{view:?} scans row {rid} of {space} as {row:?}; it should be {want:?}"
            );
        }
        let missed = expected.iter().find(|(rid, _)| !rows.contains_key(rid));
        ensure!(missed.is_none(), "{view:?} scans {space} and misses {missed:?}");
        self.slots().iter().try_for_each(|(&rid, slot)| self.dependence(view, slot, rid))
    }

    /// A range of an index, at most `limit` rows of it.
    pub fn seek(
        &self,
        view: &Snapshot,
        index: usize,
        range: &KeyRange,
        direction: Direction,
        limit: Option<usize>,
    ) -> Outcome {
        let projection = self.all();
        let spec = &self.model.specs[self.at];
        let index_spec = &self.table.layout().indexes[index];
        let mut found: Vec<(RowId, Row)> = Vec::new();
        if limit != Some(0) {
            self.table.seek(view, index, range, direction, &projection, &mut |rid, row| {
                found.push((rid, row.clone()));
                match limit {
                    Some(limit) if found.len() == limit => ControlFlow::Break(()),
                    _ => ControlFlow::Continue(()),
                }
            });
        }
        let expected = self.expected(view);
        let mut keys: Vec<(Vec<u8>, RowId)> = expected
            .iter()
            .map(|(rid, row)| (key_of(spec, index_spec, row).0, *rid))
            .filter(|(key, _)| is_in(key, range))
            .collect();
        keys.sort();
        if direction == Direction::Backward {
            keys.reverse();
        }
        let place = format!(
            "{view:?} seeks {range:?} {direction:?} in index {} of {}",
            index_spec.id,
            self.table.space()
        );
        let count = limit.unwrap_or(usize::MAX).min(keys.len());
        ensure!(
            found.len() == count,
            "{place}: {found:?}, {} rows in place of {count} of {keys:?}",
            found.len()
        );
        for (n, (rid, row)) in found.iter().enumerate() {
            let want = expected.get(rid).map(|row| projected(row, &projection));
            ensure!(
                want.as_ref().is_some_and(|want| same_row(row, want)),
                "{place}: row {rid} is {row:?}; it should be {want:?}"
            );
            ensure!(
                found[..n].iter().all(|(other, _)| other != rid),
                "{place}: row {rid} comes twice"
            );
            // Rows of one key come in any order.
            let key = key_of(spec, index_spec, expected[rid]).0;
            ensure!(key == keys[n].0, "{place}: row {rid} is not the {n}-th of {keys:?}");
            self.dependence(view, &self.slots()[rid], *rid)?;
        }
        Ok(())
    }

    /// The range that an operation names.
    pub fn range(&self, index: usize, range: RangeOp) -> KeyRange {
        let bound = |kind: u8, codes: &Codes| match kind / 4 {
            0 => Bound::Unbounded,
            1 => Bound::Included(self.key(index, usize::from(kind), codes)),
            _ => Bound::Excluded(self.key(index, usize::from(kind), codes)),
        };
        match range {
            RangeOp::All => KeyRange::all(),
            RangeOp::Prefix(parts, codes) => {
                KeyRange::prefix(self.key(index, usize::from(parts), &codes))
            }
            RangeOp::Between(lower, from, upper, to) => {
                KeyRange { lower: bound(lower, &from), upper: bound(upper, &to) }
            }
        }
    }

    /// The encoding of the first parts of a key.
    fn key(&self, index: usize, parts: usize, codes: &Codes) -> Vec<u8> {
        let layout = self.table.layout();
        let key = &layout.indexes[index].key;
        let mut out = Vec::new();
        for part in &key[..1 + parts % key.len()] {
            let at = layout.position(part.column).expect("an index is over columns of its table");
            encode_part(&mut out, &value(layout.columns[at].ty, codes[at]), part);
        }
        out
    }

    /// Every way of reading everything.
    pub fn everything(&self, view: &Snapshot) -> Outcome {
        self.scan(view, &self.all())?;
        for &rid in self.slots().keys() {
            self.row(view, rid, &self.all())?;
        }
        for index in 0..self.table.layout().indexes.len() {
            self.seek(view, index, &KeyRange::all(), Direction::Forward, None)?;
        }
        Ok(())
    }

    /// Whether a row id may be handed out again: nobody may see anything there any more.
    pub fn is_free(&self, rid: RowId, views: &[&Snapshot]) -> Outcome {
        let Some(slot) = self.slots().get(&rid) else { return Ok(()) };
        let place = format!("row id {rid} of {} was handed out", self.table.space());
        ensure!(slot.holder.is_none(), "{place}, though {:?} has it", slot.holder);
        ensure!(slot.newest().is_none(), "{place}, though a row is there");
        let seen = views.iter().find(|view| slot.visible(view).is_some());
        ensure!(seen.is_none(), "{place}, though {seen:?} sees a row there");
        Ok(())
    }
}

fn is_in(key: &[u8], range: &KeyRange) -> bool {
    let above = match &range.lower {
        Bound::Included(lower) => key >= lower.as_slice(),
        Bound::Excluded(lower) => key > lower.as_slice(),
        Bound::Unbounded => true,
    };
    let below = match &range.upper {
        Bound::Included(upper) => key <= upper.as_slice(),
        Bound::Excluded(upper) => key < upper.as_slice(),
        Bound::Unbounded => true,
    };
    above && below
}

/// Timestamps that must be in this order.
pub(crate) fn ascending(what: &str, before: Ts, after: Ts) -> Outcome {
    ensure!(before < after, "{what}: {after} does not come after {before}");
    Ok(())
}
