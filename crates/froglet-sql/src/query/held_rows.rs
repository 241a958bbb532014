//! Rows that are held while a query runs, on the account.
//!
//! ```text
//!   in ──▶ CountedExec ──▶ WindowAggExec: all rows of its input   ──▶ out, all at once
//!                     BoundedWindowAggExec: until a frame ends    ──▶ out, as they are done
//! ```
//!
//! DataFusion's windows say nothing of what they hold, which may be every row that a join makes. So what goes in is
//! counted, and of windows that hand rows on early, what comes out.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow::array::{
    Array, ArrayRef, AsArray, ByteView, GenericByteViewArray, RecordBatch, RecordBatchOptions,
};
use arrow::buffer::{Buffer, ScalarBuffer};
use arrow::datatypes::{ByteViewType, DataType};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::window::WindowExpr;
use datafusion::physical_expr::{OrderingRequirements, PhysicalExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, InputDistributionRequirements, PlanProperties,
};
use futures::StreamExt;
use parking_lot::Mutex;

/// A longer string is pointed to.
const INLINE_MAX: u32 = 12;

/// Where the strings of tables are that a run has read. They are on the account already.
#[derive(Debug, Default)]
pub(crate) struct TableStrings {
    /// Somebody holds rows: before, nobody asks.
    is_asked: AtomicBool,
    buffers: Mutex<HashSet<usize>>,
}

impl TableStrings {
    pub(crate) fn note(&self, batch: &RecordBatch) {
        if !self.is_asked.load(Ordering::Acquire) {
            return;
        }
        for column in batch.columns() {
            if let Some(buffers) = strings_of(column.as_ref()) {
                self.buffers.lock().extend(buffers.iter().map(address));
            }
        }
    }
}

fn address(buffer: &Buffer) -> usize {
    buffer.as_ptr().addr()
}

/// What the values of an array point to, if they do.
fn strings_of(array: &dyn Array) -> Option<&[Buffer]> {
    match array.data_type() {
        DataType::Utf8View => Some(array.as_string_view().data_buffers()),
        DataType::BinaryView => Some(array.as_binary_view().data_buffers()),
        _ => None,
    }
}

/// Rows that somebody holds.
#[derive(Debug)]
pub(crate) struct HeldRows {
    reservation: MemoryReservation,
    of_tables: Option<Arc<TableStrings>>,
    /// Strings that are held, which many batches may share. DataFusion lets go of them when a run ends.
    strings: HashSet<usize>,
    string_bytes: usize,
    /// Rows that have come, and gone; and what those that have come took without their strings.
    rows: [usize; 2],
    bytes: usize,
}

impl HeldRows {
    /// For who begins to read: before its input does.
    pub(crate) fn new(context: &TaskContext, name: &str) -> HeldRows {
        let of_tables = context.session_config().get_extension::<TableStrings>();
        if let Some(of_tables) = &of_tables {
            of_tables.is_asked.store(true, Ordering::Release);
        }
        HeldRows {
            reservation: MemoryConsumer::new(name).register(context.memory_pool()),
            of_tables,
            strings: HashSet::new(),
            string_bytes: 0,
            rows: [0, 0],
            bytes: 0,
        }
    }

    /// More are held: their values so often, and beside each row so many bytes.
    pub(crate) fn come(&mut self, batch: &RecordBatch, times: usize, beside: usize) -> Result<()> {
        for column in batch.columns() {
            let bytes = match column.data_type() {
                DataType::Utf8View | DataType::BinaryView => column.len() * size_of::<u128>(),
                _ => {
                    let bytes = column.to_data().get_slice_memory_size();
                    bytes.unwrap_or_else(|_| column.get_array_memory_size())
                }
            };
            self.bytes += times * bytes;
            self.hold_strings(column);
        }
        self.bytes += batch.num_rows() * beside;
        self.rows[0] += batch.num_rows();
        self.resize()
    }

    /// Strings stay that were made for a column.
    fn hold_strings(&mut self, column: &ArrayRef) {
        let Some(buffers) = strings_of(column.as_ref()) else { return };
        let of_tables = self.of_tables.as_ref().map(|tables| tables.buffers.lock());
        for buffer in buffers {
            let is_table = of_tables.as_ref().is_some_and(|of| of.contains(&address(buffer)));
            if !is_table && self.strings.insert(address(buffer)) {
                self.string_bytes += buffer.capacity();
            }
        }
    }

    /// So many are held no more, the oldest.
    fn go(&mut self, rows: usize) -> Result<()> {
        self.rows[1] += rows;
        self.resize()
    }

    fn resize(&mut self) -> Result<()> {
        let [come, gone] = self.rows;
        let held = come.saturating_sub(gone) as f64 / come.max(1) as f64;
        self.reservation.try_resize(self.string_bytes + (self.bytes as f64 * held) as usize)
    }
}

/// A column whose values point to each buffer in one place of its list. Lists of batches that are put together are
/// put together, too, and a join that makes batches of few rows makes long ones.
fn with_short_lists(column: &ArrayRef) -> ArrayRef {
    let short = match column.data_type() {
        DataType::Utf8View => short_list(column.as_string_view()),
        DataType::BinaryView => short_list(column.as_binary_view()),
        _ => None,
    };
    short.unwrap_or_else(|| column.clone())
}

fn short_list<T: ByteViewType>(array: &GenericByteViewArray<T>) -> Option<ArrayRef> {
    let mut places = HashMap::new();
    let mut kept: Vec<Buffer> = Vec::new();
    let place = |buffer: &Buffer| {
        *places.entry((address(buffer), buffer.len())).or_insert_with(|| {
            kept.push(buffer.clone());
            kept.len() as u32 - 1
        })
    };
    let moved: Vec<u32> = array.data_buffers().iter().map(place).collect();
    if kept.len() == moved.len() {
        return None;
    }
    let view = |view: &u128| {
        let old = ByteView::from(*view);
        if old.length <= INLINE_MAX {
            return *view;
        }
        ByteView { buffer_index: moved[old.buffer_index as usize], ..old }.as_u128()
    };
    let views: ScalarBuffer<u128> = array.views().iter().map(view).collect();
    let short = GenericByteViewArray::<T>::try_new(views, kept, array.nulls().cloned());
    Some(Arc::new(short.expect("views point to where they did")))
}

/// Has the rows that windows hold counted. The last of the physical rules.
#[derive(Debug)]
pub(crate) struct CountWindows;

impl PhysicalOptimizerRule for CountWindows {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let counted = plan.transform_up(|node| {
            let holds = if let Some(window) = node.downcast_ref::<WindowAggExec>() {
                Holds::all(window.window_expr())
            } else if let Some(window) = node.downcast_ref::<BoundedWindowAggExec>() {
                Holds { values: window.window_expr().len() * VALUE_BYTES, goes_early: true }
            } else {
                return Ok(Transformed::no(node));
            };
            Ok(Transformed::yes(Arc::new(CountedWindow { window: node, holds }) as _))
        })?;
        Ok(counted.data)
    }

    fn name(&self) -> &str {
        "count_windows"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// A window has its input as it came, and put together; one that hands rows on early puts it together anew for each
/// batch.
const TIMES: usize = 3;
/// What it makes for a row, in a column.
const VALUE_BYTES: usize = 16;

/// What a window holds for each row beside the row, and how long.
#[derive(Clone, Copy, Debug)]
struct Holds {
    values: usize,
    goes_early: bool,
}

impl Holds {
    /// Of one that makes the values of a part, one by one, before it makes a column of them.
    fn all(windows: &[Arc<dyn WindowExpr>]) -> Holds {
        let value = |window: &Arc<dyn WindowExpr>| match window.partition_by() {
            [] => VALUE_BYTES + size_of::<datafusion::common::ScalarValue>(),
            _ => VALUE_BYTES,
        };
        Holds { values: windows.iter().map(value).sum(), goes_early: false }
    }
}

type Account = Arc<Mutex<HeldRows>>;

/// A window whose rows are counted. It looks like the window, which each run has over a [`CountedExec`] of its own.
#[derive(Debug)]
struct CountedWindow {
    window: Arc<dyn ExecutionPlan>,
    holds: Holds,
}

impl DisplayAs for CountedWindow {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        self.window.fmt_as(t, f)
    }
}

impl ExecutionPlan for CountedWindow {
    fn name(&self) -> &str {
        self.window.name()
    }

    fn downcast_delegate(&self) -> Option<&dyn ExecutionPlan> {
        Some(&*self.window)
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.window.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.window.children()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        self.window.maintains_input_order()
    }

    fn required_input_ordering(&self) -> Vec<Option<OrderingRequirements>> {
        self.window.required_input_ordering()
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        self.window.input_distribution_requirements()
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.window.apply_expressions(f)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let window = self.window.clone().replace_children(children, options)?;
        Ok(Arc::new(CountedWindow { window, holds: self.holds }))
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let anew = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
        self.replace_children(children, anew)
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let account: Account = Arc::new(Mutex::new(HeldRows::new(&context, self.name())));
        let (input, values) = (self.children()[0].clone(), self.holds.values);
        let given = input.schema().fields().len();
        let counted = Arc::new(CountedExec { input, account: account.clone(), values });
        let keep = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Keep);
        let window = self.window.clone().replace_children(vec![counted], keep)?;
        let rows = window.execute(partition, context)?;
        let (goes_early, mut handed_on) = (self.holds.goes_early, 0);
        let counted = rows.map(move |batch| {
            let batch = batch?;
            let mut account = account.lock();
            batch.columns()[given..].iter().for_each(|made| account.hold_strings(made));
            if goes_early {
                // What was handed on before is held no more.
                account.go(std::mem::replace(&mut handed_on, batch.num_rows()))?;
            }
            Ok(batch)
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), counted)))
    }
}

/// Counts what a window is given.
#[derive(Debug)]
struct CountedExec {
    input: Arc<dyn ExecutionPlan>,
    account: Account,
    values: usize,
}

impl DisplayAs for CountedExec {
    fn fmt_as(&self, _t: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("CountedExec")
    }
}

impl ExecutionPlan for CountedExec {
    fn name(&self) -> &str {
        "CountedExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let input = children.swap_remove(0);
        Ok(Arc::new(CountedExec { input, account: self.account.clone(), values: self.values }))
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let (account, values) = (self.account.clone(), self.values);
        let counted = self.input.execute(partition, context)?.map(move |batch| {
            let batch = batch?;
            let columns = batch.columns().iter().map(with_short_lists).collect();
            let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
            let batch = RecordBatch::try_new_with_options(batch.schema(), columns, &options)?;
            account.lock().come(&batch, TIMES, values)?;
            Ok(batch)
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), counted)))
    }
}
