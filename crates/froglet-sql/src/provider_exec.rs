//! The scan of a table as a physical operator.
//!
//! Blocks: each partition reads every n-th block, one batch a block. Index: the row ids of the
//! ranges are collected first (eight bytes each; the filter above drops what is too much), then
//! read in batches. Where the ranges turn out to hold a large part of the table, the blocks are
//! read instead. Within a join, the ranges may be those of its keys (`query/index_join.rs`).

use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, Int64Array, RecordBatch, RecordBatchOptions};
use arrow::compute::filter_record_batch;
use arrow::datatypes::SchemaRef;
use datafusion::common::Statistics;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::Expr;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties,
};
use froglet_engine::id::ROWS_PER_BLOCK;
use froglet_engine::{BlockRows, Direction, Home, Row, RowId, Snapshot};
use froglet_schema::{Counted, TableVersion};
use futures::TryStreamExt;

use crate::error::SqlError;
use crate::provider::Hidden;
use crate::provider_access::{self, Access, IndexAccess};
use crate::query::held_rows::TableStrings;
use crate::query::index_join::JoinKeys;
use crate::semantics::casts;
use crate::types::array_of;

/// An index that returns more than this part of a table is slower than its blocks.
const BLOCKS_WIN_AT: u64 = 8;
/// Below this many rows an index always wins.
const FEW_ROWS: u64 = 4_096;
/// Rows that are read at once by their ids have about so many bytes.
const BATCH_BYTES: usize = 4 << 20;

/// So many ranges of one row each are looked up at once.
const RANGES_AT_ONCE: usize = 256;
/// And so many of more rows, of a table in a cluster.
const REQUESTS_AT_ONCE: usize = 64;
/// Looking up one key is as much work as reading so many rows of blocks.
const KEY_ROWS: u64 = 16;

/// A scan.
#[derive(Clone)]
pub struct TableScan {
    table: Arc<TableVersion>,
    snapshot: Arc<Snapshot>,
    hidden: Hidden,
    schema: SchemaRef,
    /// Layout positions of the columns returned.
    columns: Vec<usize>,
    /// Where among the columns returned the row ids go.
    row_id_at: Option<usize>,
    access: Access,
    /// What the rows are filtered by above this.
    filters: Arc<[Expr]>,
    limit: Option<usize>,
    /// Keys of a join, which are known when it runs.
    keys: Option<JoinKeys>,
    properties: Arc<PlanProperties>,
}

impl fmt::Debug for TableScan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TableScan({})", self.table.def.name)
    }
}

impl TableScan {
    /// A scan under a snapshot.
    #[allow(clippy::too_many_arguments)] // the parts of one operator, named at its only caller
    pub fn new(
        table: Arc<TableVersion>,
        snapshot: Arc<Snapshot>,
        hidden: Hidden,
        schema: SchemaRef,
        columns: Vec<usize>,
        row_id_at: Option<usize>,
        access: Access,
        filters: Arc<[Expr]>,
        limit: Option<usize>,
        target_partitions: usize,
    ) -> TableScan {
        let partitions = match &access {
            Access::Blocks { all, left } => {
                let blocks = left.as_ref().map_or(*all as usize, |left| left.len());
                target_partitions.min(blocks).max(1)
            }
            Access::Index(_) => 1,
        };
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema.clone()),
            Partitioning::UnknownPartitioning(partitions),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        TableScan {
            table,
            snapshot,
            hidden,
            schema,
            columns,
            row_id_at,
            access,
            filters,
            limit,
            keys: None,
            properties: Arc::new(properties),
        }
    }

    /// The same, told of the keys of a join, if an index helps then.
    pub(crate) fn told(&self, keys: &JoinKeys) -> Option<TableScan> {
        // Who was told first knows more: that join is above the other.
        let is_told = self.keys.is_some();
        if is_told || self.limit.is_some() || self.properties.partitioning.partition_count() > 1 {
            return None;
        }
        let told = TableScan { keys: Some(keys.below(|shown| self.column(shown))), ..self.clone() };
        told.index_of_keys().is_some().then_some(told)
    }

    /// The index by which the keys of a join are looked up.
    pub(crate) fn index_of_keys(&self) -> Option<String> {
        let columns = self.keys.as_ref()?.columns();
        let (def, filters) = (&self.table.def, &self.filters);
        provider_access::choose_by_keys(def, filters, &columns, None, &self.access)
            .map(|access| access.name)
    }

    /// The position in the layout of a column returned.
    fn column(&self, shown: usize) -> Option<usize> {
        match self.row_id_at {
            Some(at) if at == shown => None,
            Some(at) if at < shown => self.columns.get(shown - 1).copied(),
            _ => self.columns.get(shown).copied(),
        }
    }

    fn source(&self, context: &TaskContext) -> Source {
        Source {
            table: self.table.clone(),
            snapshot: self.snapshot.clone(),
            hidden: self.hidden.clone(),
            schema: self.schema.clone(),
            columns: self.columns.clone(),
            row_id_at: self.row_id_at,
            left: self.limit.unwrap_or(usize::MAX),
            strings: context.session_config().get_extension(),
        }
    }
}

impl DisplayAs for TableScan {
    fn fmt_as(&self, _format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.schema.fields().iter().map(|f| f.name().as_str()).collect();
        match &self.access {
            Access::Blocks { left: None, .. } => write!(f, "TableScan: {}", self.table.def.name)?,
            Access::Blocks { all, left: Some(left) } => {
                let name = &self.table.def.name;
                write!(f, "TableScan: {name}, {} of {all} block(s)", left.len())?;
            }
            Access::Index(index) => write!(
                f,
                "IndexScan: {} using {}, {} range(s)",
                self.table.def.name,
                index.name,
                index.ranges.len()
            )?,
        }
        write!(f, ", columns=[{}]", names.join(", "))?;
        if let Some(limit) = self.limit {
            write!(f, ", limit={limit}")?;
        }
        Ok(())
    }
}

impl ExecutionPlan for TableScan {
    fn name(&self) -> &str {
        "TableScan"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        // A join asks whether anybody wants its keys.
        self.keys.as_ref().map_or(Ok(TreeNodeRecursion::Continue), |keys| f(&keys.filter()))
    }

    fn with_new_children(
        self: Arc<Self>,
        _children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let walk = Walk::Unopened(Unopened {
            access: self.access.clone(),
            filters: self.filters.clone(),
            keys: self.keys.clone(),
            partition,
            step: self.properties.partitioning.partition_count(),
        });
        let reader = Reader { source: self.source(&context), walk };
        let rows = context.session_config().batch_size();
        let stream = futures::stream::try_unfold(reader, |mut reader| async move {
            Ok::<_, DataFusionError>(reader.next_batch()?.map(|batch| (batch, reader)))
        });
        if rows < ROWS_PER_BLOCK {
            let parts = move |batch: RecordBatch| {
                let all = batch.num_rows();
                let part = move |at| Ok(batch.slice(at, rows.min(all - at)));
                futures::stream::iter((0..all).step_by(rows).map(part))
            };
            let stream = stream.map_ok(parts).try_flatten();
            return Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema.clone(), stream)));
        }
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema.clone(), stream)))
    }

    fn partition_statistics(&self, _partition: Option<usize>) -> Result<Arc<Statistics>> {
        let mut statistics = Statistics::new_unknown(&self.schema);
        let rows = self.table.table.rows_for_plans() as usize;
        let rows = match &self.access {
            Access::Blocks { left: None, .. } => rows,
            Access::Blocks { all, left: Some(left) } => rows * left.len() / (*all).max(1) as usize,
            Access::Index(index) if index.unique => index.ranges.len(),
            // A guess that makes an index scan look small.
            Access::Index(_) => (rows / 100).max(1),
        };
        statistics.num_rows = Precision::Inexact(self.limit.map_or(rows, |l| l.min(rows)));
        Ok(Arc::new(statistics))
    }
}

/// Where rows are read and what becomes of them.
struct Source {
    table: Arc<TableVersion>,
    snapshot: Arc<Snapshot>,
    hidden: Hidden,
    schema: SchemaRef,
    columns: Vec<usize>,
    row_id_at: Option<usize>,
    /// Rows still wanted.
    left: usize,
    /// Whoever holds rows asks which strings are the table's.
    strings: Option<Arc<TableStrings>>,
}

impl Source {
    fn assemble(&mut self, mut columns: Vec<ArrayRef>, rids: &[RowId]) -> Result<RecordBatch> {
        if let Some(at) = self.row_id_at {
            let ids: Int64Array = rids.iter().map(|rid| Some(rid.0 as i64)).collect();
            columns.insert(at, Arc::new(ids));
        }
        self.cut(columns, rids.len())
    }

    /// As many of the rows as are still wanted.
    fn cut(&mut self, columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
        let columns = casts::computed(columns, &self.schema)?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)?;
        let keep = batch.num_rows().min(self.left);
        self.left -= keep;
        Ok(if keep < batch.num_rows() { batch.slice(0, keep) } else { batch })
    }

    /// The rows of a block from one on, and where the next part begins, if there is one.
    fn part(&mut self, from: RowId) -> Result<(RecordBatch, Option<RowId>)> {
        let (table, snapshot) = (&self.table.table, &self.snapshot);
        if !table.has_parts() && self.row_id_at.is_none() && self.hidden.is_empty() {
            let batch = table.read_batch(snapshot, from.block(), &self.columns);
            let batch = batch.map_err(SqlError::from)?;
            self.note_strings(&batch);
            self.table.accesses().add(Counted::ScannedRows, batch.num_rows());
            return Ok((self.cut(batch.columns().to_vec(), batch.num_rows())?, None));
        }
        let (rows, next) =
            table.read_part(snapshot, from, &self.columns).map_err(SqlError::from)?;
        Ok((self.shown(rows)?, next))
    }

    /// Without those that are hidden.
    fn shown(&mut self, rows: BlockRows) -> Result<RecordBatch> {
        self.note_strings(&rows.batch);
        self.table.accesses().add(Counted::ScannedRows, rows.rids.len());
        if !rows.rids.iter().any(|rid| self.hides(*rid)) {
            return self.assemble(rows.batch.columns().to_vec(), &rows.rids);
        }
        let shown: BooleanArray = rows.rids.iter().map(|rid| Some(!self.hides(*rid))).collect();
        let batch = filter_record_batch(&rows.batch, &shown)?;
        let rids: Vec<RowId> = rows.rids.iter().copied().filter(|rid| !self.hides(*rid)).collect();
        self.assemble(batch.columns().to_vec(), &rids)
    }

    fn note_strings(&self, batch: &RecordBatch) {
        if let Some(strings) = &self.strings {
            strings.note(batch);
        }
    }

    fn hides(&self, rid: RowId) -> bool {
        !self.hidden.is_empty() && self.hidden.contains(&(self.table.def.space, rid))
    }

    /// As many rows as a block has, of long ones fewer.
    fn rows_at_once(&self) -> usize {
        let table = &self.table.table;
        let row_bytes = table.bytes_estimate() / table.row_estimate().max(1);
        (BATCH_BYTES / row_bytes.max(1) as usize).clamp(64, ROWS_PER_BLOCK)
    }

    /// Some rows by their ids.
    fn rows(&mut self, rids: &[RowId]) -> Result<RecordBatch> {
        let mut rows: Vec<Row> = Vec::with_capacity(rids.len());
        let mut found = Vec::with_capacity(rids.len());
        self.table.table.read_rows(&self.snapshot, rids, &self.columns, &mut |rid, row| {
            rows.push(std::mem::take(row));
            found.push(rid);
        });
        self.table.accesses().add(Counted::FoundRows, rows.len());
        let columns = self
            .columns
            .iter()
            .enumerate()
            .map(|(at, column)| {
                let ty = self.table.def.columns[*column].ty;
                array_of(ty, &mut rows.iter().map(|row| &row[at]))
            })
            .collect();
        self.assemble(columns, &found)
    }

    /// So many rows that the blocks are read faster.
    fn many(&self) -> usize {
        (self.table.table.rows_for_plans() / BLOCKS_WIN_AT).max(FEW_ROWS) as usize
    }

    /// The ids of the rows in the ranges; `None` if there are more than `most`.
    fn seek(&self, access: &IndexAccess, most: usize) -> Option<Vec<RowId>> {
        let table = &self.table.table;
        let (mut rids, mut lookups) = (Vec::new(), 0);
        // Nobody can stop what is looked up at once.
        let (mut at_once, most_at_once) = match self.left == usize::MAX {
            true if access.unique => (RANGES_AT_ONCE, RANGES_AT_ONCE),
            // Each is a request, and they are waited for together; not before the first of them were short.
            true if self.table.def.space.home() == Home::Cluster => (1, REQUESTS_AT_ONCE),
            _ => (1, 1),
        };
        let mut rest = &access.ranges[..];
        while !rest.is_empty() {
            let ranges;
            (ranges, rest) = rest.split_at(at_once.min(rest.len()));
            at_once = (2 * at_once).min(most_at_once);
            for range in ranges {
                self.table.note_range(&self.snapshot, access.index, || range.clone());
            }
            if let [range] = ranges {
                let direction = Direction::Forward;
                table.seek(&self.snapshot, access.index, range, direction, &[], &mut |rid, _| {
                    if self.hides(rid) {
                        return ControlFlow::Continue(());
                    }
                    rids.push(rid);
                    match rids.len() > most || rids.len() >= self.left {
                        true => ControlFlow::Break(()),
                        false => ControlFlow::Continue(()),
                    }
                });
            } else {
                table.seek_all(&self.snapshot, access.index, ranges, &[], &mut |_, rid, _| {
                    if !self.hides(rid) {
                        rids.push(rid);
                    }
                });
            }
            lookups += ranges.len();
            if rids.len() >= self.left {
                break;
            }
            if rids.len() > most {
                return None;
            }
        }
        self.table.accesses().add(Counted::Lookups, lookups);
        Some(rids)
    }
}

/// Every n-th block, of all or of some.
struct BlockWalk {
    next: usize,
    step: usize,
    end: usize,
    left: Option<Arc<[u32]>>,
    /// Where the block goes on of which a part has been read.
    part: Option<RowId>,
}

/// What is decided when the first row is asked for.
struct Unopened {
    access: Access,
    filters: Arc<[Expr]>,
    keys: Option<JoinKeys>,
    partition: usize,
    step: usize,
}

impl Unopened {
    fn open(&self, source: &Source) -> Result<Walk> {
        if let Some(by_keys) = self.by_keys(source)? {
            // What the filters leave may be fewer rows than there are keys.
            let by_filters = match &self.access {
                Access::Index(access) => source.seek(access, by_keys.ranges.len()),
                Access::Blocks { .. } => None,
            };
            let found = by_filters.or_else(|| source.seek(&by_keys, source.many()));
            if let Some(rids) = found {
                return Ok(Walk::Rows(rids.into_iter()));
            }
        }
        let (end, left) = match &self.access {
            Access::Blocks { all, left } => {
                source.table.note_scan(&source.snapshot);
                (left.as_ref().map_or(*all as usize, |left| left.len()), left.clone())
            }
            Access::Index(access) => match source.seek(access, source.many()) {
                Some(rids) => return Ok(Walk::Rows(rids.into_iter())),
                None => (source.table.scan_blocks(&source.snapshot) as usize, None),
            },
        };
        if self.partition == 0 {
            source.table.accesses().add(Counted::Scans, 1);
        }
        Ok(Walk::Blocks(BlockWalk { next: self.partition, step: self.step, end, left, part: None }))
    }

    /// How the keys of a join are looked up, if they are few.
    fn by_keys(&self, source: &Source) -> Result<Option<IndexAccess>> {
        let Some(keys) = &self.keys else { return Ok(None) };
        let Some(rows) = keys.rows()? else { return Ok(None) };
        let (def, columns) = (&source.table.def, keys.columns());
        let (filters, rows) = (&self.filters, Some(&rows));
        let access = provider_access::choose_by_keys(def, filters, &columns, rows, &self.access);
        let most = source.table.table.rows_for_plans() / KEY_ROWS;
        Ok(access.filter(|access| access.ranges.len() as u64 <= most))
    }
}

enum Walk {
    Unopened(Unopened),
    Rows(std::vec::IntoIter<RowId>),
    Blocks(BlockWalk),
}

struct Reader {
    source: Source,
    walk: Walk,
}

impl Reader {
    fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        while self.source.left > 0 {
            let batch = match &mut self.walk {
                Walk::Unopened(unopened) => {
                    self.walk = unopened.open(&self.source)?;
                    continue;
                }
                Walk::Rows(rids) => {
                    let some: Vec<RowId> = rids.take(self.source.rows_at_once()).collect();
                    if some.is_empty() {
                        return Ok(None);
                    }
                    self.source.rows(&some)?
                }
                Walk::Blocks(blocks) => {
                    if blocks.next >= blocks.end {
                        return Ok(None);
                    }
                    let block = match &blocks.left {
                        Some(left) => left[blocks.next],
                        None => blocks.next as u32,
                    };
                    let from = blocks.part.unwrap_or(RowId::of(block, 0));
                    let (batch, part) = self.source.part(from)?;
                    blocks.part = part;
                    if part.is_none() {
                        blocks.next += blocks.step;
                    }
                    batch
                }
            };
            if batch.num_rows() > 0 {
                return Ok(Some(batch));
            }
        }
        Ok(None)
    }
}
