//! The query of CREATE TABLE AS: the columns that it gives the new table, and how its rows are made.
//!
//! ```text
//!   one table, a row of a row      expressions compiled here      RowsQuery
//!   everything else                planned by DataFusion, and     DividedQuery (unit_query.rs)
//!                                  divided into units (units.rs), in stages (stages.rs)
//! ```

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, ObjectName, Query};
use froglet_engine::{ColumnId, Snapshot, SqlState};
use froglet_schema::def::FIRST_USER_ID;
use froglet_schema::{
    DrawnOutput, LazyQuery, LazyVerify, Made, NewColumn, ObjectId, RowQuery, SchemaError, SqlType,
    TableDef, TableQuery, TableVersion, UnitQuery,
};

use crate::bound::{BoundExpr, projection_of};
use crate::context::EvalContext;
use crate::ddl_compile::refusal;
use crate::error::SqlError;
use crate::expr::{RowExpr, Scope};
use crate::frozen::Frozen;
use crate::functions::SessionState;
use crate::insert_plan::CastTarget;
use crate::join_way::{self, Join, JoinWay, Wanted};
use crate::lookup_query::{FlatJoin, Looked};
use crate::migrate::{may_fail, whole};
use crate::query::QueryEnv;
use crate::resolve::{self, Names, Relation};
use crate::returning::{self, Item};
use crate::semantics::fieldnames::figure_name;
use crate::stages::Stages;
use crate::target::has_subquery;
use crate::types::{self, oids, plain};
use crate::unit_query::DividedQuery;
use crate::units::{Divided, Source};
use crate::{df_error, lazy_query, origins, query, select, subplan, units};

/// What a query makes.
pub(crate) struct MadeTable {
    pub(crate) columns: Vec<NewColumn>,
    pub(crate) query: TableQuery,
    /// How it can be made lazily, or why it cannot.
    pub(crate) lazily: Result<Lazily, &'static str>,
    pub(crate) units: Units,
    /// About how many rows it reads, and their bytes.
    pub(crate) row_estimate: u64,
    pub(crate) bytes_estimate: u64,
}

/// What a table that is made lazily needs.
pub(crate) struct Lazily {
    /// The table of whose rows each makes at most one, if there is such.
    pub(crate) source: Option<ObjectId>,
    /// How.
    pub(crate) query: LazyQuery,
    /// What a unit is.
    pub(crate) unit: String,
    /// Of a join, which rows go together.
    pub(crate) join: Option<Join>,
    /// What keeps its query from failing for some row.
    pub(crate) verify: LazyVerify,
    /// What it is compiled of again.
    pub(crate) recipe: String,
}

impl Lazily {
    /// What remembers which units are migrated.
    pub(crate) fn tracker(&self) -> &'static str {
        match self.query {
            LazyQuery::Rows(..) => "a bitmap, two bits a row",
            LazyQuery::Pairs(..) => "a bitmap, two bits a row, and a hash map of pairs of rows",
            LazyQuery::Units(_) if self.is_whole() => "one flag",
            LazyQuery::Units(_) => "a hash map of keys",
        }
    }

    /// Whether all its rows are one unit.
    pub(crate) fn is_whole(&self) -> bool {
        matches!(&self.query, LazyQuery::Units(query) if query.is_whole())
    }
}

/// The migration units of a query.
pub(crate) struct Units {
    /// What is one, of each stage and then of the query.
    pub(crate) texts: Vec<String>,
    /// How many rows the tables have of which all rows are one.
    pub(crate) rows_of_one: u64,
}

impl MadeTable {
    fn new<'a>(
        columns: Vec<NewColumn>,
        query: TableQuery,
        lazily: Result<Lazily, &'static str>,
        units: Units,
        tables: impl Iterator<Item = &'a Arc<TableVersion>> + Clone,
    ) -> MadeTable {
        let row_estimate = tables.clone().map(|t| t.table.row_estimate()).sum();
        let bytes_estimate = tables.map(|t| t.table.bytes_estimate()).sum();
        MadeTable { columns, query, lazily, units, row_estimate, bytes_estimate }
    }
}

/// Plans the query of a new table.
pub(crate) fn plan(
    names: &Names<'_>,
    session: &Arc<SessionState>,
    snapshot: &Snapshot,
    query: &Query,
) -> Result<MadeTable, SqlError> {
    let frozen = Arc::new(Frozen::new(session.clone()));
    let mut made = plan_in(names, EvalContext::new(frozen.clone()), snapshot, query, None)?;
    made.lazily = made.lazily.and_then(|lazily| {
        let columns = &made.columns;
        let recipe = lazy_query::recipe(query, &lazily, columns, names, &frozen, snapshot);
        let recipe = recipe.ok_or("its query cannot be written down for a restart")?;
        Ok(Lazily { recipe, ..lazily })
    });
    Ok(made)
}

/// The same in the session of a context; of a join that is made lazily, the way that it once was, and its
/// driver, if it has one.
pub(crate) fn plan_in(
    names: &Names<'_>,
    context: EvalContext,
    snapshot: &Snapshot,
    query: &Query,
    was: Option<(JoinWay, Option<ObjectId>)>,
) -> Result<MadeTable, SqlError> {
    match of_rows(names, &context, query)? {
        Some(made) => Ok(made),
        None => of_units(context, snapshot, query, was),
    }
}

/// A query that makes at most one row of each row of one table; `None` for others.
fn of_rows(
    names: &Names<'_>,
    context: &EvalContext,
    query: &Query,
) -> Result<Option<MadeTable>, SqlError> {
    let Some((from, select)) = select::of_one_table(query)? else { return Ok(None) };
    let is_no_table = match names.relation(from.name)? {
        None => is_system(from.name)?,
        Some(relation) => matches!(relation, Relation::View(_)),
    };
    if is_no_table || has_subquery(&select.projection) {
        return Ok(None);
    }
    let source = names.table(from.name)?;
    let view = names.catalog.materialized(source.def.id);
    if view.and_then(|view| view.materialized).is_some_and(|m| !m.populated) {
        return Err(crate::ddl_materialized::unpopulated(&source.def.name));
    }
    let scope = Scope::table(&source.def, from.alias.as_deref());
    let condition = select.selection.as_ref();
    let compile = |condition: &Expr| RowExpr::compile_condition(&scope, condition, &[], "WHERE");
    let parts = condition.map(conjuncts).unwrap_or_default();
    let condition = condition.map(compile).transpose()?;
    let draws_rows = condition.as_ref().is_some_and(RowExpr::volatile);
    let keeping = parts.into_iter().filter(|_| draws_rows).map(compile);
    let mut keeping = keeping.collect::<Result<Vec<_>, SqlError>>()?;
    keeping.retain(|part| !part.volatile());
    let items = returning::items(&select.projection, &source.def, from.alias.as_deref())?;
    let mut columns = Vec::with_capacity(items.len());
    let mut exprs = Vec::with_capacity(items.len());
    for item in &items {
        let (column, expr) = match output(item, &source.def, &scope) {
            // Aggregates and window functions make a row of several.
            Err(e) if e.state == SqlState::GROUPING_ERROR => return Ok(None),
            outcome => outcome?,
        };
        columns.push(column);
        exprs.push(expr);
    }
    let all = || exprs.iter().chain(&condition);
    let read = projection_of(all(), []);
    let drawn = exprs.iter().enumerate().filter(|(_, expr)| expr.volatile());
    let place = |input: &usize| read.iter().position(|column| column == input);
    let drawn = drawn.map(|(output, expr)| DrawnOutput {
        output,
        inputs: expr.inputs().iter().filter_map(place).collect(),
    });
    let drawn = drawn.collect();
    let is_volatile = all().any(RowExpr::volatile);
    let reads_catalog = all().any(RowExpr::reads_catalog);
    let verify = match all().any(RowExpr::may_fail) {
        true => LazyVerify::Query,
        false => LazyVerify::Nothing,
    };
    let exprs: Vec<BoundExpr> = exprs.into_iter().map(|e| BoundExpr::new(e, &read)).collect();
    let copies = condition.is_none().then(|| exprs.iter().map(BoundExpr::as_place).collect());
    let query = RowsQuery {
        inputs: read.iter().map(|column| source.def.columns[*column].id).collect(),
        condition: condition.map(|condition| BoundExpr::new(condition, &read)),
        keeping: keeping.into_iter().map(|part| BoundExpr::new(part, &read)).collect(),
        draws_rows,
        drawn,
        columns: exprs,
        copies: copies.flatten(),
        context: context.clone(),
    };
    let (query, id): (Arc<dyn RowQuery>, _) = (Arc::new(query), source.def.id);
    let lazily = match () {
        () if is_volatile => Err("its query has a volatile function"),
        () if reads_catalog => Err(query::READS_CATALOG),
        () => {
            let query = LazyQuery::Rows(id, query.clone());
            let unit = format!("a row of {}", source.def.name);
            let source = Some(id);
            Ok(Lazily { source, query, unit, join: None, verify, recipe: String::new() })
        }
    };
    let query = TableQuery::Rows { source: id, query };
    let texts = vec![format!("a row of {}", source.def.name)];
    let units = Units { texts, rows_of_one: 0 };
    Ok(Some(MadeTable::new(columns, query, lazily, units, std::iter::once(source))))
}

/// Any query.
fn of_units(
    context: EvalContext,
    snapshot: &Snapshot,
    query: &Query,
    was: Option<(JoinWay, Option<ObjectId>)>,
) -> Result<MadeTable, SqlError> {
    let env = QueryEnv::new(context.session.catalog(), context.session.clone());
    let planned = query::plan(query, &env, &[], &[])?;
    if !planned.params().is_empty() {
        return Err(SqlError::new(SqlState::UNDEFINED_PARAMETER, "there is no parameter $1"));
    }
    let plan = planned.bound(&[])?;
    if subplan::runs_by_row(&plan).map_err(df_error::map_df_error)? {
        return Err(SqlError::unsupported("CREATE TABLE AS of such a correlated subquery")
            .hint("A join may say the same."));
    }
    let unit_rows = context.session.setting("froglet.migration_unit_rows");
    let unit_rows = unit_rows.and_then(|rows| rows.parse().ok()).unwrap_or(u64::MAX);
    let mut stages = Stages::new(snapshot, unit_rows);
    let columns = planned.fields().iter().map(|f| new_column(f.name.clone(), f.sql_type));
    let columns: Vec<NewColumn> = columns.collect::<Result<_, SqlError>>()?;
    let joined = Joined { plan: &plan, snapshot, columns: &columns, env: &env, context: &context };
    let lazily = match was {
        Some((way, driver)) => joined.as_it_was(way, driver)?,
        None => match query::not_under_another_catalog(query, &env) {
            Some(why) => Err(why),
            None => match joined.lazily()? {
                Err(why) if whole::may_be(&plan).map_err(df_error::map_df_error)? => {
                    joined.at_once(why)?
                }
                lazily => lazily,
            },
        },
    };
    let divide = || units::divide(&plan, &mut stages);
    let divided = context.enter(divide).map_err(df_error::map_df_error)?;
    let parts = stages.done.iter().map(|stage| &stage.divided).chain([&divided]);
    let units = Units {
        texts: parts.clone().map(Divided::units).collect(),
        rows_of_one: parts.clone().map(|part| part.rows_of_one).max().unwrap_or(0),
    };
    let inputs = parts.flat_map(|part| &part.inputs);
    let tables = inputs.filter_map(|input| match &input.source {
        Source::Table(table) => Some(table.clone()),
        Source::Stage(_) => None,
    });
    let tables: Vec<_> = tables.collect();

    let stages = stages.done.into_iter().map(|stage| {
        let columns = stage.columns.iter().enumerate().map(|(at, ty)| {
            let sql_type = types::default_sql_type(*ty);
            NewColumn { name: format!("c{at}"), ty: *ty, sql_type, not_null: false, default: None }
        });
        let columns: Vec<NewColumn> = columns.collect();
        let query = Arc::new(divided_query(stage.divided, &columns, &env, &context)?);
        Ok(froglet_schema::Stage { columns, query })
    });
    let stages = stages.collect::<Result<_, SqlError>>()?;
    let query = Arc::new(divided_query(divided, &columns, &env, &context)?);
    let query = TableQuery::Units { stages, query };
    Ok(MadeTable::new(columns, query, lazily, units, tables.iter()))
}

/// A query of more than one row, as it may be made lazily.
struct Joined<'a> {
    plan: &'a LogicalPlan,
    snapshot: &'a Snapshot,
    columns: &'a [NewColumn],
    env: &'a QueryEnv,
    context: &'a EvalContext,
}

/// Or why it may not.
type IfLazily = Result<Result<Lazily, &'static str>, SqlError>;

impl Joined<'_> {
    /// By keys, or a join by rows or pairs (`join_way.rs`).
    fn lazily(&self) -> IfLazily {
        const ASKED: &str = "as froglet.migration_join says";
        let (targets, context) = (targets_of(self.columns), self.context);
        let Some(join) = FlatJoin::of(self.plan).map_err(df_error::map_df_error)? else {
            return self.by_keys("as it is no inner join");
        };
        let rows = join.by_rows(&targets, None, context).map_err(df_error::map_df_error)?;
        let rows = rows.map(|looked| looked.by(Join::new(JoinWay::Rows, "")));
        let pairs = join.by_pairs(&targets, None, context).map_err(df_error::map_df_error)?;
        let asked = context.session.setting("froglet.migration_join");
        Ok(match (Wanted::of(asked.as_deref()), rows, pairs) {
            (Wanted::Pairs, _, Some((looked, _))) => {
                Ok(looked.by(Join::new(JoinWay::Pairs, ASKED)))
            }
            (Wanted::Keys, rows, pairs) => self.by_keys(ASKED)?.or_else(|why| {
                let pairs = pairs.map(|(looked, _)| looked.by(Join::new(JoinWay::Pairs, why)));
                rows.or(pairs).ok_or(why)
            }),
            (_, Some(rows), _) => Ok(rows),
            (_, None, Some((looked, sides))) => {
                let join = join_way::by_pairs(&sides, self.snapshot);
                match join.way {
                    JoinWay::Pairs => Ok(looked.by(join)),
                    _ => self.by_keys(&join.why)?.or_else(|why| {
                        let why = format!("as it cannot be by keys: {why}");
                        Ok(looked.by(Join::new(JoinWay::Pairs, why)))
                    }),
                }
            }
            (_, None, None) => self.by_keys("as no two indexes lead from one table to another")?,
        })
    }

    /// Of a recipe.
    fn as_it_was(&self, way: JoinWay, driver: Option<ObjectId>) -> IfLazily {
        let (targets, context) = (targets_of(self.columns), self.context);
        let join = FlatJoin::of(self.plan).map_err(df_error::map_df_error)?;
        let looked = match (way, &join) {
            (JoinWay::Keys, _) => return self.by_keys(""),
            (JoinWay::Whole, _) => return self.at_once("it is another query"),
            (_, None) => Ok(None),
            (JoinWay::Rows, Some(join)) => join.by_rows(&targets, driver, context),
            (JoinWay::Pairs, Some(join)) => {
                let pairs = join.by_pairs(&targets, driver, context);
                pairs.map(|pairs| pairs.map(|(looked, _)| looked))
            }
        };
        let looked = looked.map_err(df_error::map_df_error)?;
        let lazily = looked.map(|looked| looked.by(Join::new(way, "")));
        Ok(lazily.ok_or("its keys do not lead from one table to another"))
    }

    /// Key by key; of a join because of `why`.
    fn by_keys(&self, why: &str) -> IfLazily {
        let (query, unit) = match self.of_tables()? {
            Ok(found) => found,
            Err(why) => return Ok(Err(why)),
        };
        let inputs = query.inputs().len();
        if (0..inputs).any(|input| query.key(input).is_none()) {
            return Ok(Err(
                "its query does not make its rows of groups, or keys, of plain columns",
            ));
        }
        let join = (inputs > 1).then(|| Join::new(JoinWay::Keys, why));
        let (query, verify) = (LazyQuery::Units(Arc::new(query)), LazyVerify::Nothing);
        Ok(Ok(Lazily { source: None, query, unit, join, verify, recipe: String::new() }))
    }

    /// All rows at once, as they cannot be made one by one because of `why`.
    fn at_once(&self, why: &'static str) -> IfLazily {
        let query = match self.of_tables()? {
            Ok((query, _)) if !query.inputs().is_empty() => query.whole(),
            _ => return Ok(Err(why)),
        };
        let (query, verify) = (LazyQuery::Units(Arc::new(query)), LazyVerify::Nothing);
        let unit = "all rows".to_owned();
        Ok(Ok(Lazily { source: None, query, unit, join: None, verify, recipe: String::new() }))
    }

    /// The query in units, and what these are called, if it reads tables alone and cannot fail.
    fn of_tables(&self) -> Result<Result<(DividedQuery, String), &'static str>, SqlError> {
        let mut stages = Stages::new(self.snapshot, u64::MAX);
        let divide = || Ok((units::divide(self.plan, &mut stages)?, origins::of(self.plan)?));
        let divided: datafusion::error::Result<_> = self.context.enter(divide);
        let (divided, origins) = divided.map_err(df_error::map_df_error)?;
        if divided.reads_others || origins.scans != divided.inputs.len() {
            return Ok(Err("its query reads what is no table"));
        }
        if may_fail::of_plan(self.plan).map_err(df_error::map_df_error)? {
            return Ok(Err("an expression over groups, or a join by keys, may fail for some"));
        }
        // By keys a join has no driver.
        let divided = Divided { driver: None, ..divided };
        let unit = divided.units();
        let query = divided_query(divided, self.columns, self.env, self.context)?;
        Ok(Ok((query.with_origins(origins), unit)))
    }
}

impl Looked {
    /// One of two ways.
    fn by(self, join: Join) -> Lazily {
        let Looked { query, driver, unit, verify } = self;
        let query = Arc::new(query);
        let query = match join.way {
            JoinWay::Pairs => LazyQuery::Pairs(driver, query),
            _ => LazyQuery::Rows(driver, query),
        };
        let (source, join) = (Some(driver), Some(join));
        Lazily { source, query, unit, join, verify, recipe: String::new() }
    }
}

fn divided_query(
    divided: Divided,
    columns: &[NewColumn],
    env: &QueryEnv,
    context: &EvalContext,
) -> Result<DividedQuery, SqlError> {
    DividedQuery::new(divided, targets_of(columns), env.clone(), context.clone())
}

fn targets_of(columns: &[NewColumn]) -> Vec<CastTarget> {
    columns.iter().map(|c| (c.name.clone(), c.ty, c.sql_type)).collect()
}

/// Some rows of a table, and what is made of each.
struct RowsQuery {
    inputs: Vec<ColumnId>,
    condition: Option<BoundExpr>,
    /// Those of its parts that draw nothing, if others do.
    keeping: Vec<BoundExpr>,
    draws_rows: bool,
    drawn: Vec<DrawnOutput>,
    columns: Vec<BoundExpr>,
    /// See [`RowQuery::copies`].
    copies: Option<Vec<usize>>,
    context: EvalContext,
}

impl RowsQuery {
    /// Of rows for which all of these hold.
    fn eval<'a>(
        &self,
        batch: &RecordBatch,
        conditions: impl IntoIterator<Item = &'a BoundExpr>,
    ) -> Result<Made, SqlError> {
        let (mut kept, mut rows) = (batch.clone(), (0..batch.num_rows()).collect::<Vec<_>>());
        for condition in conditions {
            let holds = condition.eval_batch(&kept, &self.context)?;
            // A condition that is always NULL keeps nothing.
            let none = BooleanArray::from(vec![false; rows.len()]);
            let holds = holds.as_any().downcast_ref::<BooleanArray>().unwrap_or(&none);
            let mut at = 0..;
            rows.retain(|_| at.next().is_some_and(|at| holds.is_valid(at) && holds.value(at)));
            kept = filter_record_batch(&kept, holds).map_err(df_error::arrow)?;
        }
        Ok(Made { rows, columns: self.columns(&kept)? })
    }

    fn columns(&self, batch: &RecordBatch) -> Result<Vec<ArrayRef>, SqlError> {
        let columns = self.columns.iter().map(|column| column.eval_batch(batch, &self.context));
        columns.map(|column| Ok(types::as_stored(&column?))).collect()
    }
}

impl RowQuery for RowsQuery {
    fn inputs(&self) -> &[ColumnId] {
        &self.inputs
    }

    fn eval(&self, batch: &RecordBatch) -> Result<Made, SchemaError> {
        RowsQuery::eval(self, batch, &self.condition).map_err(refusal)
    }

    fn drawn(&self) -> &[DrawnOutput] {
        &self.drawn
    }

    fn draws_rows(&self) -> bool {
        self.draws_rows
    }

    fn eval_keeping(&self, batch: &RecordBatch) -> Result<Made, SchemaError> {
        match self.draws_rows {
            true => RowsQuery::eval(self, batch, &self.keeping).map_err(refusal),
            false => RowQuery::eval(self, batch),
        }
    }

    fn plain(&self, output: usize) -> Option<ColumnId> {
        Some(self.inputs[self.columns[output].as_place()?])
    }

    fn copies(&self) -> Option<&[usize]> {
        self.copies.as_deref()
    }
}

/// The conditions that are to hold together.
fn conjuncts(condition: &Expr) -> Vec<&Expr> {
    match condition {
        Expr::Nested(inner) => conjuncts(inner),
        Expr::BinaryOp { left, op: BinaryOperator::And, right } => {
            [conjuncts(left), conjuncts(right)].concat()
        }
        condition => vec![condition],
    }
}

/// Whether a name that no table has is meant for a system catalog.
fn is_system(name: &ObjectName) -> Result<bool, SqlError> {
    let (schema, name) = Names::parts(name)?;
    Ok(match schema.as_deref() {
        Some(schema) => resolve::is_system_schema(schema),
        None => name.starts_with("pg_"),
    })
}

/// A column of the new table, and what computes it.
fn output(
    item: &Item<'_>,
    table: &TableDef,
    scope: &Scope,
) -> Result<(NewColumn, RowExpr), SqlError> {
    let (expr, name) = match item {
        Item::Column(column) => {
            let name = table.columns[*column].name.clone();
            (returning::column_expr(table, *column, scope)?, name)
        }
        Item::Expr(expr, name) => {
            let name = name.clone().unwrap_or_else(|| figure_name(expr));
            let text = plain(oids::TEXT);
            // A literal without a type is text.
            let compiled = match types::column_type_of(text.oid, text.modifier) {
                Some(ty) if crate::expr::untyped(expr) => {
                    RowExpr::compile_for(scope, expr, &[], &name, ty, text)?
                }
                _ => RowExpr::compile(scope, expr, &[])?,
            };
            (compiled, name)
        }
    };
    let sql_type = expr.sql_type();
    let column = new_column(name, sql_type)?;
    let expr = expr.assigned_to(column.ty, sql_type);
    Ok((column, expr))
}

pub(crate) fn new_column(name: String, sql_type: SqlType) -> Result<NewColumn, SqlError> {
    // An enum's labels are checked where a value is stored, those of an array's elements nowhere.
    let is_enums = types::element_oid(sql_type.oid).is_some_and(|oid| oid >= FIRST_USER_ID);
    let is_row = matches!(sql_type.oid, oids::RECORD | oids::RECORD_ARRAY);
    let ty = types::column_type_of(sql_type.oid, sql_type.modifier);
    let ty = ty.filter(|_| !is_enums && !is_row);
    let Some(ty) = ty else {
        return Err(SqlError::unsupported(format!(
            "a column of type {}",
            types::type_name(sql_type)
        )));
    };
    Ok(NewColumn { name, ty, sql_type, not_null: false, default: None })
}
