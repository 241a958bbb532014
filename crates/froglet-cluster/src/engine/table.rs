//! A row space under one layout, behind [`Table`]: what is asked, and where it is answered.
//!
//! A scan is one block of many parts: each a page of the store, and the number of the row behind it the place where the
//! next one begins.

use std::any::Any;
use std::ops::ControlFlow;
use std::sync::Arc;

use froglet_engine::batch::batch_of;
use froglet_engine::{
    BlockRows, ColumnFill, Direction, EngineError, EngineTxn, Feed, IndexBuild, IndexSpec, Install,
    Installs, KeyRange, Layout, MigrateError, Moving, OnlineIndexes, ReadFailed, Referenced,
    RegionFigures, Row, RowId, RowWrite, Savepoint, Snapshot, SpaceId, Table, TableRegions, Ts,
    TxnId, WriteStop,
};
use froglet_log::cells::Wanted;

use super::counts::{Counts, RowsOf};
use super::index::Index;
use super::place::Place;
use super::txn::ClusterTxn;
use super::view::View;
use super::{Core, failed, keys, unsupported};

/// Requests for ranges that are waited for at a time.
const REQUESTS_BESIDE: usize = 16;
/// Rows that are looked up together.
const ROWS_AT_ONCE: usize = 256;

/// A table in the store.
pub struct ClusterTable {
    pub(super) core: Arc<Core>,
    /// Whether fences stand in its way.
    pub(super) is_fenced: bool,
    pub(super) space: SpaceId,
    pub(super) layout: Arc<Layout>,
    pub(super) place: Place,
    indexes: Vec<Index>,
}

/// A visitor of rows in an order.
type VisitRow<'a> = &'a mut dyn FnMut(RowId, &mut Row) -> ControlFlow<()>;

impl ClusterTable {
    pub(super) fn new(core: Arc<Core>, space: SpaceId, layout: Arc<Layout>) -> ClusterTable {
        let database = core.database;
        let indexes = layout.indexes.iter().enumerate();
        let indexes =
            indexes.filter(|(_, spec)| layout.row_key.is_none_or(|key| key.index != spec.id));
        let indexes = indexes
            .map(|(position, spec)| {
                let columns = layout.key_positions(spec).map(|at| &layout.columns[at]);
                let missing = columns.map(|column| column.missing.clone()).collect();
                Index::new(database, space, spec.clone(), missing, position)
            })
            .collect();
        let place = Place::of(database, space, &layout);
        ClusterTable { core, is_fenced: true, space, place, indexes, layout }
    }

    /// For whoever moves the rows of a closed space.
    pub(super) fn past_fences(self) -> ClusterTable {
        ClusterTable { is_fenced: false, ..self }
    }

    /// The index whose keys are the rows' own.
    pub(super) fn primary(&self) -> Option<&IndexSpec> {
        let id = self.layout.row_key?.index;
        self.layout.indexes.iter().find(|spec| spec.id == id)
    }

    pub(super) fn others(&self) -> impl Iterator<Item = &Index> {
        self.indexes.iter()
    }

    pub(super) fn wanted(&self, positions: &[usize]) -> Wanted {
        let columns = positions.iter().map(|&at| &self.layout.columns[at]);
        Wanted::new(columns.map(|column| (column.id, column.missing.clone())))
    }

    /// The index at a layout position; none: it is the rows' own.
    pub(super) fn index(&self, position: usize) -> Option<&Index> {
        self.indexes.iter().find(|index| index.position == position)
    }

    fn rows(&self, rows: &[(RowId, Row)], projection: &[usize]) -> BlockRows {
        let types: Vec<_> = projection.iter().map(|&at| self.layout.columns[at].ty).collect();
        let (rids, rows): (Vec<RowId>, Vec<Row>) = rows.iter().cloned().unzip();
        BlockRows { rids, batch: batch_of(&types, &rows) }
    }

    /// Rows by their keys, in order; none where there is none.
    fn find(
        &self,
        view: &View<'_>,
        at: &[Vec<u8>],
        wanted: &Wanted,
    ) -> Result<Vec<Option<(RowId, Row)>>, EngineError> {
        let values = view.get_all(at)?;
        let rows = at.iter().zip(values).map(|(at, cells)| {
            let cells = cells.as_deref().and_then(|value| self.place.cells(value));
            cells.map(|cells| self.read_row_at(at, cells, wanted)).transpose()
        });
        rows.collect()
    }

    pub(super) fn read_row_at(
        &self,
        at: &[u8],
        cells: &[u8],
        wanted: &Wanted,
    ) -> Result<(RowId, Row), EngineError> {
        let mut row = Row::new();
        wanted.read(cells, &mut row)?;
        Ok((self.core.interned.number(at), row))
    }

    /// The rows in each of some ranges, of which several are asked for at a time.
    fn seek_beside(
        &self,
        snapshot: &Snapshot,
        index: usize,
        ranges: &[KeyRange],
        projection: &[usize],
    ) -> Vec<(usize, (RowId, Row))> {
        let seek = |first: usize, ranges: &[KeyRange]| {
            let mut found = Vec::new();
            for (number, range) in (first..).zip(ranges) {
                let mut visit = |rid: RowId, row: &mut Row| {
                    found.push((number, (rid, std::mem::take(row))));
                    ControlFlow::Continue(())
                };
                self.seek(snapshot, index, range, Direction::Forward, projection, &mut visit);
            }
            found
        };
        let each = ranges.len().div_ceil(REQUESTS_BESIDE).max(1);
        if ranges.len() == 1 {
            return seek(0, ranges);
        }
        Core::aside(|| {
            std::thread::scope(|scope| {
                let parts = ranges.chunks(each).enumerate();
                let parts: Vec<_> =
                    parts.map(|(n, part)| scope.spawn(move || seek(n * each, part))).collect();
                let joined = parts.into_iter().map(|part| part.join());
                let found =
                    joined.map(|part| part.unwrap_or_else(|p| std::panic::resume_unwind(p)));
                found.flatten().collect()
            })
        })
    }

    /// The rows of pairs of an index, in their order.
    fn rows_of(
        &self,
        view: &View<'_>,
        index: Option<&Index>,
        pairs: &[(Vec<u8>, Vec<u8>)],
        wanted: &Wanted,
    ) -> Result<Vec<(RowId, Row)>, EngineError> {
        if index.is_none() {
            let own = pairs.iter().filter_map(|(at, value)| Some((at, self.place.cells(value)?)));
            return own.map(|(at, cells)| self.read_row_at(at, cells, wanted)).collect();
        }
        let row_key = |value: &[u8]| {
            let key = keys::of_entry_value(value).ok_or_else(|| EngineError::Corrupt {
                file: "an entry of an index".to_owned(),
                offset: 0,
                what: "it does not say which row it is of".to_owned(),
            })?;
            Ok::<_, EngineError>([&self.place.prefix[..], key].concat())
        };
        let at = pairs.iter().map(|(_, value)| row_key(value)).collect::<Result<Vec<_>, _>>()?;
        Ok(self.find(view, &at, wanted)?.into_iter().flatten().collect())
    }

    fn try_seek(
        &self,
        snapshot: &Snapshot,
        position: usize,
        range: &KeyRange,
        direction: Direction,
        projection: &[usize],
        visit: VisitRow<'_>,
    ) -> Result<(), EngineError> {
        let (view, wanted) = (self.view(snapshot)?, self.wanted(projection));
        let index = self.index(position);
        if let Some(at) = self.one_key(index, range) {
            let Some(value) = view.get(&at)? else { return Ok(()) };
            for (rid, mut row) in self.rows_of(&view, index, &[(at, value)], &wanted)? {
                _ = visit(rid, &mut row);
            }
            return Ok(());
        }
        let (from, to) = match index {
            Some(index) => keys::range(&index.prefix, range),
            None => self.place.range(range),
        };
        if direction == Direction::Forward {
            return view.scan(&from, &to, |pairs| {
                for some in pairs.chunks(ROWS_AT_ONCE) {
                    for (rid, mut row) in self.rows_of(&view, index, some, &wanted)? {
                        if visit(rid, &mut row).is_break() {
                            return Ok(ControlFlow::Break(()));
                        }
                    }
                }
                Ok(ControlFlow::Continue(()))
            });
        }
        // Forward as well: not every store of the kind reads backward as of a timestamp.
        let mut all = Vec::new();
        view.scan(&from, &to, |pairs| {
            all.extend(pairs);
            Ok(ControlFlow::Continue(()))
        })?;
        all.reverse();
        for some in all.chunks(ROWS_AT_ONCE) {
            for (rid, mut row) in self.rows_of(&view, index, some, &wanted)? {
                if visit(rid, &mut row).is_break() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// The one key of the store that a range is, if it is one of a row's own key or of a unique index.
    pub(super) fn one_key(&self, index: Option<&Index>, range: &KeyRange) -> Option<Vec<u8>> {
        let key = range.one()?;
        let (prefix, spec) = match index {
            Some(index) if !index.spec.unique => return None,
            Some(index) => (&index.prefix, &index.spec),
            None => (&self.place.prefix, self.primary()?),
        };
        let types = self.layout.key_positions(spec).map(|at| self.layout.columns[at].ty);
        let parts: Vec<_> = spec.key.iter().copied().zip(types).collect();
        let values = froglet_engine::key::whole_parts(key, &parts);
        let is_apart = |(n, (value, _)): (usize, &(froglet_engine::Value, usize))| {
            value.is_null() && spec.nulls.sets_apart(n)
        };
        // A part of a key is a range.
        let is_whole = values.len() == parts.len();
        let at = || index.map_or_else(|| self.place.at(key), |_| [prefix, key].concat());
        (is_whole && !values.iter().enumerate().any(is_apart)).then(at)
    }
}

/// The engine's own transaction.
pub(super) fn own(txn: &mut dyn EngineTxn) -> &mut ClusterTxn {
    let part = txn.as_any_mut();
    part.downcast_mut().expect("a transaction part belongs to the engine that began it")
}

/// The answer of a read that has no error to return.
pub(super) fn read<T>(answer: Result<T, EngineError>) -> T {
    answer.unwrap_or_else(|error| ReadFailed::unwind(error))
}

impl Table for ClusterTable {
    fn space(&self) -> SpaceId {
        self.space
    }

    fn layout(&self) -> &Arc<Layout> {
        &self.layout
    }

    fn row_estimate(&self) -> u64 {
        // A schema change is planned without a look at them.
        1_000
    }

    fn rows_for_plans(&self) -> u64 {
        Counts::estimate(&self.core, self.space, || RowsOf {
            space: self.space,
            prefix: self.place.prefix.clone(),
            header: self.place.header().to_vec(),
            keys: 1 + self.indexes.len() as u64,
        })
    }

    fn bytes_estimate(&self) -> u64 {
        100 * self.row_estimate()
    }

    fn block_count(&self) -> u32 {
        1
    }

    fn read_block(
        &self,
        snapshot: &Snapshot,
        block: u32,
        projection: &[usize],
    ) -> Result<BlockRows, EngineError> {
        let (view, wanted) = (self.view(snapshot)?, self.wanted(projection));
        let mut rows = Vec::new();
        let end = keys::end_of(&self.place.prefix);
        if block == 0 {
            view.scan(&self.place.prefix, &end, |pairs| {
                rows.extend(self.rows_of(&view, None, &pairs, &wanted)?);
                Ok(ControlFlow::Continue(()))
            })?;
        }
        Ok(self.rows(&rows, projection))
    }

    fn read_part(
        &self,
        snapshot: &Snapshot,
        from: RowId,
        projection: &[usize],
    ) -> Result<(BlockRows, Option<RowId>), EngineError> {
        let (view, wanted) = (self.view(snapshot)?, self.wanted(projection));
        let begin = keys::part_of(self.space);
        let from = match from {
            RowId(0) => self.place.prefix.clone(),
            rid => {
                let at = self.core.interned.key(rid);
                let at = at.expect("whoever reads on has the view that began");
                at.strip_prefix(&begin[..]).expect("a part of this table").to_vec()
            }
        };
        let (pairs, next) = view.page(&from, &keys::end_of(&self.place.prefix))?;
        let rows = self.rows_of(&view, None, &pairs, &wanted)?;
        let next = next.map(|next| self.core.interned.number(&[&begin[..], &next].concat()));
        Ok((self.rows(&rows, projection), next))
    }

    fn has_parts(&self) -> bool {
        true
    }

    fn read_row(
        &self,
        snapshot: &Snapshot,
        rid: RowId,
        projection: &[usize],
        out: &mut Row,
    ) -> bool {
        let Some(at) = self.core.interned.key(rid) else { return false };
        match read(read(self.view(snapshot)).get(&at)) {
            Some(value) => {
                let cells = self.place.cells(&value);
                cells.is_some_and(|cells| {
                    read(self.wanted(projection).read(cells, out));
                    true
                })
            }
            None => false,
        }
    }

    fn read_rows(
        &self,
        snapshot: &Snapshot,
        rids: &[RowId],
        projection: &[usize],
        visit: &mut dyn FnMut(RowId, &mut Row),
    ) {
        let (view, wanted) = (read(self.view(snapshot)), self.wanted(projection));
        let at: Vec<Vec<u8>> =
            rids.iter().filter_map(|rid| Some(self.core.interned.key(*rid)?.to_vec())).collect();
        for some in at.chunks(ROWS_AT_ONCE) {
            for (rid, mut row) in read(self.find(&view, some, &wanted)).into_iter().flatten() {
                visit(rid, &mut row);
            }
        }
    }

    fn get_by_key(
        &self,
        snapshot: &Snapshot,
        index: usize,
        key: &[u8],
        projection: &[usize],
        out: &mut Row,
    ) -> Option<RowId> {
        let mut found = None;
        let range = KeyRange::exactly(key);
        self.seek(snapshot, index, &range, Direction::Forward, projection, &mut |rid, row| {
            out.append(row);
            found = Some(rid);
            ControlFlow::Break(())
        });
        found
    }

    fn seek(
        &self,
        snapshot: &Snapshot,
        index: usize,
        range: &KeyRange,
        direction: Direction,
        projection: &[usize],
        visit: &mut dyn FnMut(RowId, &mut Row) -> ControlFlow<()>,
    ) {
        read(self.try_seek(snapshot, index, range, direction, projection, visit));
    }

    fn seek_all(
        &self,
        snapshot: &Snapshot,
        index: usize,
        ranges: &[KeyRange],
        projection: &[usize],
        visit: &mut dyn FnMut(usize, RowId, &mut Row),
    ) {
        let found = self.index(index);
        let at: Option<Vec<Vec<u8>>> =
            ranges.iter().map(|range| self.one_key(found, range)).collect();
        let Some(at) = at else {
            let found = self.seek_beside(snapshot, index, ranges, projection);
            for (number, (rid, mut row)) in found {
                visit(number, rid, &mut row);
            }
            return;
        };
        let (view, wanted) = (read(self.view(snapshot)), self.wanted(projection));
        for (some, first) in at.chunks(ROWS_AT_ONCE).zip((0..).step_by(ROWS_AT_ONCE)) {
            let values = read(view.get_all(some));
            let pairs = some.iter().zip(values).enumerate();
            let (numbers, pairs): (Vec<usize>, Vec<_>) = pairs
                .filter_map(|(n, (at, value))| Some((first + n, (at.clone(), value?))))
                .unzip();
            let rows = read(self.rows_of(&view, found, &pairs, &wanted));
            assert_eq!(rows.len(), numbers.len(), "an entry has its row");
            for (number, (rid, mut row)) in numbers.into_iter().zip(rows) {
                visit(number, rid, &mut row);
            }
        }
    }

    fn seek_entries(
        &self,
        index: usize,
        range: &KeyRange,
        direction: Direction,
        visit: &mut dyn FnMut(RowId) -> ControlFlow<()>,
    ) {
        let now = self.core.snapshot_at(self.core.now(), TxnId(0));
        self.seek(&now, index, range, direction, &[], &mut |rid, _| visit(rid));
    }

    fn insert(
        &self,
        txn: &mut dyn EngineTxn,
        rows: &[Row],
        rids: &mut Vec<RowId>,
    ) -> Result<(), (usize, WriteStop)> {
        self.insert_rows(own(txn), rows, rids)
    }

    fn write(
        &self,
        txn: &mut dyn EngineTxn,
        base: Ts,
        writes: &[RowWrite<'_>],
    ) -> Result<(), (usize, WriteStop)> {
        let base = (base != Ts::LATEST).then_some(base.0);
        self.lock_rows(own(txn), base, writes).map_err(|stop| (0, stop))?;
        for (n, write) in writes.iter().enumerate() {
            self.write_row(own(txn), base, write).map_err(|stop| (n, stop))?;
        }
        Ok(())
    }

    fn changer(&self, rid: RowId, _columns: &[usize], own: TxnId) -> Option<TxnId> {
        let at = self.core.interned.key(rid)?;
        let txns = self.core.txns.read();
        let mut others = txns.iter().filter(|(id, _)| **id != own);
        others.find(|(_, other)| other.buffer.lock().get(&at).is_some()).map(|(id, _)| *id)
    }

    fn changed_since(&self, rid: RowId, ts: Ts) -> bool {
        let Some(at) = self.core.interned.key(rid) else { return true };
        let then = View::of_what_has_stayed(&self.core, ts.0);
        read(then.get(&at)) != read(View::at(&self.core, self.core.now()).get(&at))
    }

    fn regions(&self) -> Result<TableRegions, EngineError> {
        let core = &self.core;
        // Where rows are with those of another table, they are all over that.
        let start = match self.place.is_within() {
            true => self.place.prefix.clone(),
            false => keys::space(core.database, self.space),
        };
        let end = keys::end_of(&start);
        let places = core.wait(core.client.places_of(&start, &end)).map_err(failed)?;
        // They are told for orientation: without them the rest is as good.
        let sizes = core.wait(core.client.sizes_of(&start, &end)).unwrap_or_else(|error| {
            tracing::debug!(%error, "sizes of regions are not known");
            Vec::new()
        });
        let size = |region| sizes.iter().find(|size| size.region == region);
        let regions = places.into_iter().map(|place| RegionFigures {
            id: place.region.id,
            bytes: size(place.region.id).map(|size| size.bytes),
            keys: size(place.region.id).map(|size| size.keys),
            start: place.region.start_key,
            end: place.region.end_key,
            leader: place.leader.map(|leader| leader.store_id),
            peers: place.region.peers.iter().map(|peer| peer.store_id).collect(),
        });
        Ok(TableRegions { start, end, regions: regions.collect() })
    }

    fn moving(&self) -> Option<&dyn Moving> {
        Some(self)
    }

    fn online_indexes(&self) -> Option<&dyn OnlineIndexes> {
        Some(self)
    }

    fn referenced(&self) -> Option<&dyn Referenced> {
        Some(self)
    }

    fn open_feed(&self) -> Box<dyn Feed> {
        ReadFailed::unwind(unsupported("a change that computes from rows"))
    }

    fn migrate_block(
        &self,
        _owner: TxnId,
        _since: Savepoint,
        _block: u32,
        _rows: Option<&[RowId]>,
        _source: &[usize],
        _target: &[usize],
        _transform: &mut dyn FnMut(&BlockRows) -> Result<ColumnFill, MigrateError>,
    ) -> Result<u64, MigrateError> {
        Err(unsupported("a change that computes from rows").into())
    }

    fn index_block(
        &self,
        _owner: TxnId,
        _index: usize,
        _block: u32,
        _duplicates: &mut Vec<(RowId, RowId)>,
    ) -> Result<u64, EngineError> {
        Err(unsupported("an index over rows that are there"))
    }

    fn index_rows(
        &self,
        _owner: TxnId,
        _index: usize,
        _rows: &[RowId],
        _duplicates: &mut Vec<(RowId, RowId)>,
    ) -> Result<u64, EngineError> {
        Err(unsupported("an index over rows that are there"))
    }

    fn share_key(&self, _owner: TxnId, _index: usize, _a: RowId, _b: RowId) -> bool {
        ReadFailed::unwind(unsupported("an index over rows that are there"))
    }

    fn rival(&self, _own: TxnId, _index: usize, _row: RowId) -> Option<WriteStop> {
        Some(WriteStop::Engine(unsupported("a deferrable unique constraint")))
    }

    fn build_index(self: Arc<Self>, _index: usize) -> Option<Box<dyn IndexBuild>> {
        None
    }

    fn has_recovered(&self, _index: usize) -> bool {
        true
    }

    fn index_row(
        &self,
        _txn: &mut dyn EngineTxn,
        _rid: RowId,
        _indexes: &[usize],
    ) -> Result<(), WriteStop> {
        Err(unsupported("an index over rows that are there").into())
    }

    fn reserve(&self, _tail: RowId, _is_free: &dyn Fn(RowId) -> bool) -> Result<(), EngineError> {
        Err(unsupported("a lazy schema change"))
    }

    fn take_row_ids(&self, _n: usize) -> Result<Vec<RowId>, EngineError> {
        Err(unsupported("a lazy schema change"))
    }

    fn install(&self, _install: &Install<'_>, _done: &mut dyn FnMut()) -> Result<(), EngineError> {
        Err(unsupported("a lazy schema change"))
    }

    fn follow_installs(&self, _installs: Arc<dyn Installs>) -> Vec<Vec<u8>> {
        Vec::new()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
