//! A query that is run unit by unit, for a migration.
//!
//! ```text
//!   froglet-schema: rows of some units ─▶ UnitScope ─▶ UnitTable::scan ─┐
//!                                                   plan (units.rs) ◀──┘
//!   rows with their units ◀───────────────────────────────┘
//! ```
//!
//! It runs on the thread that asks: the scan's, capture's, or the session's at the flip.

use std::fmt;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions, UInt64Array};
use arrow::compute::cast;
use arrow::datatypes::{
    DataType, Field, Float32Type, Float64Type, Schema, SchemaRef, UInt32Type, UInt64Type,
};
use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::DFSchema;
use datafusion::common::hash_utils::{QualityRandomState, RandomState, create_hashes};
use datafusion::datasource::{TableProvider, TableType};
use datafusion::error::Result;
use datafusion::execution::context::ExecutionProps;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::physical_expr::{PhysicalExpr, create_physical_expr};
use datafusion::physical_plan::execution_plan::reset_plan_states;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use froglet_engine::{BlockRows, ColumnId, RowId};
use froglet_schema::{Makes, SchemaError, TableVersion, UnitInput, UnitQuery, UnitRows};
use futures::StreamExt;
use parking_lot::Mutex;

use crate::context::EvalContext;
use crate::ddl_compile::refusal;
use crate::df_error::map_df_error;
use crate::error::SqlError;
use crate::insert_plan::CastTarget;
use crate::once::OnceRows;
use crate::origins::Origins;
use crate::planning::internal;
use crate::provider::{Hidden, QueryScope};
use crate::query::QueryEnv;
use crate::query_run;
use crate::semantics::{casts, numerics};
use crate::types::cast::CastContext;
use crate::types::{EXACT, as_stored, cast_array};
use crate::units::{Divided, Input, Source, UnitOf};

/// See the module.
pub(crate) struct DividedQuery {
    plan: LogicalPlan,
    /// It, for one thread, once for each run at a time: a unit is computed faster than it is planned.
    physical: Mutex<Vec<Arc<dyn ExecutionPlan>>>,
    inputs: Vec<UnitInput>,
    keys: Vec<Keys>,
    driver: Option<usize>,
    /// Of each input, if it is one.
    tables: Vec<Option<Arc<TableVersion>>>,
    /// For a table that is made lazily: the columns of each input's key.
    key_columns: Vec<Option<Vec<ColumnId>>>,
    /// The input, and its column, that an output is.
    origins: Vec<Option<(usize, ColumnId)>>,
    covers: Vec<usize>,
    unique: Option<Vec<usize>>,
    is_whole: bool,
    /// Nobody can know which values have one print.
    printer: QualityRandomState,
    /// The columns of the new table.
    targets: Vec<CastTarget>,
    reads_others: bool,
    env: QueryEnv,
    context: EvalContext,
}

/// What the unit of a row is.
enum Keys {
    All,
    Row,
    Block,
    Of(RowKeys),
}

impl DividedQuery {
    /// A divided plan whose columns go into these.
    pub(crate) fn new(
        divided: Divided,
        targets: Vec<CastTarget>,
        env: QueryEnv,
        context: EvalContext,
    ) -> std::result::Result<DividedQuery, SqlError> {
        let Divided { plan, inputs, reads_others, driver, .. } = divided;
        let keys = inputs.iter().map(keys_of).collect::<Result<_>>().map_err(map_df_error)?;
        let key_columns = inputs.iter().map(key_columns_of).collect();
        let tables = inputs.iter().map(|input| match &input.source {
            Source::Table(table) => Some(table.clone()),
            Source::Stage(_) => None,
        });
        let tables = tables.collect();
        let inputs = inputs.iter().map(|input| match &input.source {
            Source::Table(table) => {
                let columns = input.columns.iter().map(|at| table.def.columns[*at].id);
                UnitInput::Table(table.def.id, columns.collect())
            }
            Source::Stage(number) => UnitInput::Stage(*number),
        });
        let inputs = inputs.collect();
        let printer = QualityRandomState::with_seed(rand::random());
        Ok(DividedQuery {
            plan,
            physical: Mutex::default(),
            inputs,
            keys,
            driver,
            tables,
            key_columns,
            origins: Vec::new(),
            covers: Vec::new(),
            unique: None,
            is_whole: false,
            printer,
            targets,
            reads_others,
            env,
            context,
        })
    }

    /// With what a table that is made lazily needs to know, of the plan as it was before it was divided.
    pub(crate) fn with_origins(self, origins: Origins) -> DividedQuery {
        let origin = |(input, column): (usize, usize)| {
            Some((input, self.tables.get(input)?.as_ref()?.def.columns[column].id))
        };
        let outputs = origins.outputs.into_iter().map(|output| origin(output?)).collect();
        DividedQuery {
            origins: outputs,
            covers: origins.covers.unwrap_or_default(),
            unique: origins.unique,
            ..self
        }
    }

    /// As a table needs it all rows of which are made at once.
    pub(crate) fn whole(self) -> DividedQuery {
        DividedQuery { is_whole: true, origins: Vec::new(), covers: Vec::new(), ..self }
    }

    async fn run(&self, rows: Arc<dyn UnitRows>, make: &mut Makes<'_>) -> Run {
        let mut env = self.env.clone();
        env.target_partitions = rows.threads();
        let scope = self.reads_others.then(|| QueryScope {
            snapshot: rows.snapshot(),
            catalog: env.catalog.clone(),
            session: env.session.clone(),
            returned: Vec::new(),
            hidden: Hidden::default(),
            once: OnceRows::default(),
        });
        let is_kept = env.target_partitions == 1 && scope.is_none();
        let mut state = query_run::state(&env, scope);
        state.config_mut().set_extension(Arc::new(UnitScope(rows)));
        // They would outlive the run in a plan that is kept.
        let rules = &mut state.config_mut().options_mut().optimizer;
        rules.enable_topk_dynamic_filter_pushdown = false;
        rules.enable_join_dynamic_filter_pushdown = false;
        rules.enable_aggregate_dynamic_filter_pushdown = false;
        let kept = if is_kept { self.physical.lock().pop() } else { None };
        let plan = match kept {
            Some(plan) => plan,
            None => query_run::physical(&self.plan, &state).await?,
        };
        let mut stream =
            execute_stream(plan.clone(), query_run::task_context(&state)).map_err(map_df_error)?;
        while let Some(batch) = stream.next().await {
            let batch = batch.map_err(map_df_error)?;
            let units = batch.column(self.targets.len()).as_primitive::<UInt64Type>();
            let columns = batch.columns().iter().zip(&self.targets);
            let columns = columns.map(|(array, (_, ty, sql_type))| {
                let cast = cast_array(array, *ty, *sql_type, CastContext::Assignment)?;
                Ok(as_stored(&cast))
            });
            let columns: Vec<ArrayRef> = columns.collect::<std::result::Result<_, SqlError>>()?;
            make(units.values(), &columns)?;
        }
        if is_kept {
            let plan = reset_plan_states(plan).map_err(map_df_error)?;
            self.physical.lock().push(plan);
        }
        Ok(())
    }
}

type Run = std::result::Result<(), SqlError>;

impl UnitQuery for DividedQuery {
    fn inputs(&self) -> &[UnitInput] {
        &self.inputs
    }

    fn units(&self, input: usize, rows: &BlockRows) -> std::result::Result<Vec<u64>, SchemaError> {
        match &self.keys[input] {
            Keys::All => Ok(vec![0; rows.rids.len()]),
            // Those of one input are apart from those of another, with luck.
            Keys::Row => Ok(rows.rids.iter().map(|rid| mixed(rid.0, input as u64)).collect()),
            Keys::Block => {
                let unit = |rid: &RowId| mixed(u64::from(rid.block()), input as u64);
                Ok(rows.rids.iter().map(unit).collect())
            }
            Keys::Of(keys) => Ok(self.context.enter(|| keys.hashes_of_all(&rows.batch))),
        }
    }

    fn prints(
        &self,
        _input: usize,
        rows: &BlockRows,
    ) -> std::result::Result<Vec<u64>, SchemaError> {
        prints(rows.batch.columns(), rows.rids.len(), &self.printer)
            .map_err(|e| refusal(map_df_error(e)))
    }

    fn driver(&self) -> Option<usize> {
        self.driver
    }

    fn key(&self, input: usize) -> Option<Vec<ColumnId>> {
        self.key_columns[input].clone()
    }

    fn is_whole(&self) -> bool {
        self.is_whole
    }

    fn origin(&self, output: usize) -> Option<(usize, ColumnId)> {
        self.origins.get(output).copied().flatten()
    }

    fn unique(&self) -> Option<&[usize]> {
        self.unique.as_deref()
    }

    fn covers(&self) -> &[usize] {
        &self.covers
    }

    fn eval(
        &self,
        rows: Arc<dyn UnitRows>,
        make: &mut Makes<'_>,
    ) -> std::result::Result<(), SchemaError> {
        let run = query_run::guard(self.run(rows, make));
        let outcome =
            stacker::maybe_grow(1 << 20, 8 << 20, || self.context.enter(|| query_run::here(run)));
        outcome.map_err(refusal)
    }
}

fn keys_of(input: &Input) -> Result<Keys> {
    Ok(match &input.unit {
        UnitOf::All => Keys::All,
        UnitOf::Row => Keys::Row,
        UnitOf::Block => Keys::Block,
        UnitOf::Keys(exprs) => Keys::Of(RowKeys::new(exprs, &input.schema)?),
    })
}

/// The columns that are the key of an input, if it has one and that is all it is.
fn key_columns_of(input: &Input) -> Option<Vec<ColumnId>> {
    let (UnitOf::Keys(keys), Source::Table(table)) = (&input.unit, &input.source) else {
        return None;
    };
    let column = |key: &Expr| match key {
        Expr::Column(column) => {
            let at = input.schema.maybe_index_of_column(column)?;
            Some(table.def.columns[input.columns[at]].id)
        }
        _ => None,
    };
    keys.iter().map(column).collect()
}

/// One number of two (the finalizer of SplitMix64), below the greatest.
fn mixed(n: u64, salt: u64) -> u64 {
    let n = n.wrapping_add(salt.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    let n = (n ^ (n >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let n = (n ^ (n >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    (n ^ (n >> 31)) >> 1
}

/// By what rows are kept together, compiled.
pub(crate) struct RowKeys {
    keys: Vec<Arc<dyn PhysicalExpr>>,
    /// Of the rows.
    schema: SchemaRef,
}

impl RowKeys {
    pub(crate) fn new(exprs: &[Expr], schema: &DFSchema) -> Result<RowKeys> {
        let (props, planning) = (ExecutionProps::new(), PhysicalPlanningContext::default());
        let physical = |expr| create_physical_expr(expr, schema, &props, &planning);
        let keys = exprs.iter().map(physical).collect::<Result<_>>()?;
        Ok(RowKeys { keys, schema: Arc::new(schema.as_arrow().clone()) })
    }

    /// A number for each row, also where a key cannot be computed (`10 / a` where `a` is 0): the query may
    /// leave such rows out. If it does not, it fails by itself.
    pub(crate) fn hashes_of_all(&self, rows: &RecordBatch) -> Vec<u64> {
        self.hashes(rows).unwrap_or_else(|_| {
            let hash = |at| self.hashes(&rows.slice(at, 1)).map_or(0, |hash| hash[0]);
            (0..rows.num_rows()).map(hash).collect()
        })
    }

    /// A number for each row, the same where the keys are equal; below the greatest.
    fn hashes(&self, rows: &RecordBatch) -> Result<Vec<u64>> {
        let rows = as_planned(rows.columns().to_vec(), &self.schema, rows.num_rows())?;
        let key = |key: &Arc<dyn PhysicalExpr>| {
            comparable(&key.evaluate(&rows)?.into_array(rows.num_rows())?)
        };
        let keys = self.keys.iter().map(key).collect::<Result<Vec<ArrayRef>>>()?;
        let mut hashes = vec![0; rows.num_rows()];
        create_hashes(&keys, &RandomState::with_seed(0), &mut hashes)?;
        Ok(hashes.into_iter().map(|hash| hash >> 1).collect())
    }
}

/// Stored columns as a plan has them: lists of arrays' texts; and a stage stores some as others.
fn as_planned(columns: Vec<ArrayRef>, schema: &SchemaRef, rows: usize) -> Result<RecordBatch> {
    let mut columns = casts::computed(columns, schema)?;
    for (column, field) in columns.iter_mut().zip(schema.fields()) {
        if column.data_type() != field.data_type() {
            *column = cast(column, field.data_type())?;
        }
    }
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    Ok(RecordBatch::try_new_with_options(schema.clone(), columns, &options)?)
}

/// A number for each row, of all its values and their places.
fn prints(columns: &[ArrayRef], rows: usize, printer: &QualityRandomState) -> Result<Vec<u64>> {
    let mut prints = vec![0_u64; rows];
    for (at, column) in columns.iter().enumerate() {
        // A NULL leaves its number alone: it is not what is beside it.
        let mut hashes = vec![0; rows];
        create_hashes([&as_bits(column)], printer, &mut hashes)?;
        for (print, hash) in prints.iter_mut().zip(hashes) {
            *print = mixed(print.rotate_left(1) ^ hash, at as u64);
        }
    }
    Ok(prints)
}

/// Floating-point numbers as they are stored: -0 is not 0.
fn as_bits(array: &ArrayRef) -> ArrayRef {
    match array.data_type() {
        DataType::Float32 => {
            Arc::new(array.as_primitive::<Float32Type>().unary::<_, UInt32Type>(f32::to_bits))
        }
        DataType::Float64 => {
            Arc::new(array.as_primitive::<Float64Type>().unary::<_, UInt64Type>(f64::to_bits))
        }
        _ => array.clone(),
    }
}

/// Values that are equal in SQL, in one representation.
fn comparable(array: &ArrayRef) -> Result<ArrayRef> {
    Ok(match array.data_type() {
        DataType::Utf8 | DataType::LargeUtf8 => cast(array, &DataType::Utf8View)?,
        &EXACT => numerics::orders(array),
        // -0 is 0.
        DataType::Float32 => {
            Arc::new(array.as_primitive::<Float32Type>().unary::<_, Float32Type>(|v| v + 0.0))
        }
        DataType::Float64 => {
            Arc::new(array.as_primitive::<Float64Type>().unary::<_, Float64Type>(|v| v + 0.0))
        }
        _ => array.clone(),
    })
}

/// The rows of the run under way: how many parts there are to be when it is planned, what is in them
/// when it is executed.
struct UnitScope(Arc<dyn UnitRows>);

/// An input in a plan: the columns that are read of a table, and the unit of each row.
pub(crate) struct UnitTable {
    input: usize,
    schema: SchemaRef,
    has_unit: bool,
}

impl UnitTable {
    /// Input number `input`; `unit` is what its column is to be called, if the plan is to have it.
    pub(crate) fn new(input: usize, columns: &Schema, unit: Option<&str>) -> UnitTable {
        let mut fields = columns.fields().to_vec();
        fields.extend(unit.map(|name| Arc::new(Field::new(name, DataType::UInt64, false))));
        UnitTable { input, schema: Arc::new(Schema::new(fields)), has_unit: unit.is_some() }
    }
}

impl fmt::Debug for UnitTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UnitTable({})", self.input)
    }
}

#[async_trait]
impl TableProvider for UnitTable {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let scope = state.config().get_extension::<UnitScope>();
        let rows = scope.ok_or_else(|| internal("a unit's rows outside its query"))?.0.clone();
        let parts = rows.parts(self.input);
        let threads = u32::try_from(rows.threads()).unwrap_or(u32::MAX).min(parts).max(1);
        let partition = |first| -> Arc<dyn PartitionStream> {
            Arc::new(Parts {
                input: self.input,
                schema: self.schema.clone(),
                has_unit: self.has_unit,
                first,
                step: threads,
            })
        };
        let partitions = (0..threads).map(partition).collect();
        let schema = self.schema.clone();
        let scan = StreamingTableExec::try_new(schema, partitions, projection, [], false, limit)?;
        Ok(Arc::new(scan))
    }
}

/// Every n-th part of an input.
struct Parts {
    input: usize,
    schema: SchemaRef,
    has_unit: bool,
    first: u32,
    step: u32,
}

impl fmt::Debug for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Parts({}, {})", self.input, self.first)
    }
}

impl PartitionStream for Parts {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let scope = context.session_config().get_extension::<UnitScope>();
        let rows = scope.expect("it was planned for a unit's rows").0.clone();
        let (input, schema) = (self.input, self.schema.clone());
        let (has_unit, parts) = (self.has_unit, rows.parts(self.input));
        let numbers = (self.first..parts).step_by(self.step as usize);
        let batches = numbers.map(move |number| {
            let (batch, units) = rows.part(input, number).map_err(SqlError::from)?;
            let (mut columns, rows) = (batch.columns().to_vec(), units.len());
            if has_unit {
                columns.push(Arc::new(UInt64Array::from(units)));
            }
            as_planned(columns, &schema, rows)
        });
        let stream = futures::stream::iter(batches);
        Box::pin(RecordBatchStreamAdapter::new(self.schema.clone(), stream))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use arrow::array::{Float64Array, Int32Array, StringViewArray};
    use datafusion::common::Column;

    use super::*;

    #[test]
    fn rows_that_differ_have_different_prints() {
        let (a, b): (Vec<_>, Vec<_>) = [
            (None, None),
            (Some(1), None),
            (None, Some(1)),
            (Some(1), Some(1)),
            (Some(2), Some(1)),
            (Some(1), Some(2)),
        ]
        .into_iter()
        .unzip();
        let texts = StringViewArray::from(vec![None, Some(""), Some("a"), None, Some("a"), None]);
        let floats = Float64Array::from(vec![0.0, -0.0, f64::NAN, 1.0, 1.0, 1.0]);
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int32Array::from(a)),
            Arc::new(Int32Array::from(b)),
            Arc::new(texts),
            Arc::new(floats),
        ];
        let printer = QualityRandomState::with_seed(7);
        let distinct = |columns: &[ArrayRef]| -> usize {
            let prints = prints(columns, 6, &printer).unwrap();
            prints.into_iter().collect::<HashSet<_>>().len()
        };
        assert_eq!(distinct(&columns[..2]), 6);
        assert_eq!(distinct(&columns[2..3]), 3);
        assert_eq!(distinct(&columns[3..]), 4, "0, -0, NaN and 1");
        assert_eq!(distinct(&columns), 6);
        assert_eq!(distinct(&[]), 1);
        // The same NULL and values in other places.
        let [one, null] = [Some(1), None].map(|v| Int32Array::from(vec![v]));
        let row = |cells: [&Int32Array; 3]| {
            let cells: Vec<ArrayRef> =
                cells.iter().map(|cell| Arc::new((*cell).clone()) as ArrayRef).collect();
            prints(&cells, 1, &printer).unwrap()[0]
        };
        assert_ne!(row([&one, &null, &one]), row([&one, &one, &null]));
    }

    #[test]
    fn keys_that_are_equal_are_of_one_unit() {
        let schema = Arc::new(Schema::new(vec![Field::new("v", DataType::Float64, true)]));
        let column = Expr::Column(Column::new_unqualified("v"));
        let keys = RowKeys::new(&[column], &DFSchema::try_from(schema.clone()).unwrap()).unwrap();
        let values = Float64Array::from(vec![Some(0.0), Some(-0.0), Some(1.0), None]);
        let batch = RecordBatch::try_new(schema, vec![Arc::new(values)]).unwrap();
        let hashes = keys.hashes(&batch).unwrap();
        assert_eq!(hashes[0], hashes[1]);
        assert_ne!(hashes[0], hashes[2]);
        assert!(hashes.iter().all(|hash| *hash < u64::MAX));
    }
}
