//! Conditions on rows that every server of a cluster verifies: as whoever demands them has them, and as another makes
//! them of a recipe.
//!
//! ```text
//!   a condition      row ─▶ true, NULL: it holds                                   CHECK, VALIDATE CONSTRAINT
//!   what is made     row ─▶ query ─▶ does it fail? is a column NULL? a condition?  a column's type, CREATE TABLE AS
//! ```

use std::sync::Arc;

use arrow_array::{Array, BooleanArray, RecordBatch};
use froglet_engine::batch::{array_of, batch_of};
use froglet_engine::{ColumnId, ColumnType, EngineError, Row, RowCheck, SqlState, Value};
use serde::{Deserialize, Serialize};

use crate::catalog::{Catalog, CatalogVersion};
use crate::change::{Check, LazyQuery, RowQuery, Transform};
use crate::def::{ColumnDef, IndexDef, TableDef};
use crate::error::SchemaError;
use crate::lazy::rewritten::{Computed, Rewritten};
use crate::lazy::{as_engine, batch_with};
use crate::lazy_driver::Recompile;
use crate::lazy_verify::KeysFit;
use crate::rows::row_at;

type Eval = dyn Fn(&RecordBatch) -> Result<BooleanArray, SchemaError> + Send + Sync;

/// What another server makes a check of.
#[derive(Serialize, Deserialize)]
pub(super) enum CheckRecipe {
    /// A condition on each row ([`Recompile::check`]).
    Condition(String),
    /// Rows are made of a table's.
    Made(MadeRecipe),
}

impl CheckRecipe {
    pub fn text(&self) -> String {
        serde_json::to_string(self).expect("it has only string keys")
    }
}

/// What makes rows of a table's, one of each.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct MadeRecipe {
    source: Box<TableDef>,
    query: QueryRecipe,
    /// What it makes.
    outputs: Vec<ColumnId>,
    /// Columns that are the same in all rows.
    constants: Vec<(ColumnId, ColumnType, Value)>,
    demands: Vec<DemandRecipe>,
}

#[derive(Clone, Serialize, Deserialize)]
pub(super) enum QueryRecipe {
    /// Columns are computed of others.
    Computed(Vec<Computed>),
    /// Any, as of CREATE TABLE AS ([`Recompile::query`]).
    Query(String),
}

/// What is demanded of rows that are made.
#[derive(Clone, Serialize, Deserialize)]
enum DemandRecipe {
    NotNull(ColumnId),
    /// A condition, and the columns that it reads.
    Condition(String, Vec<ColumnId>),
    /// That keys of the indexes of a table are not too long.
    KeysFit(Box<TableDef>),
}

/// A condition on rows of columns of these types.
pub(super) struct Condition {
    types: Vec<ColumnType>,
    eval: Box<Eval>,
}

impl Condition {
    pub fn of_check(types: Vec<ColumnType>, check: Arc<dyn Check>) -> Condition {
        Condition { types, eval: Box::new(move |batch| check.eval(batch)) }
    }

    fn of_transform(types: Vec<ColumnType>, transform: Arc<dyn Transform>) -> Condition {
        Condition { types, eval: flags_of(transform) }
    }
}

fn flags_of(transform: Arc<dyn Transform>) -> Box<Eval> {
    Box::new(move |batch| {
        let flags = transform.eval(batch)?;
        let flags = flags.as_any().downcast_ref::<BooleanArray>().cloned();
        // A condition that is always NULL holds.
        Ok(flags.unwrap_or_else(|| BooleanArray::new_null(batch.num_rows())))
    })
}

fn first_false(flags: &BooleanArray) -> Option<usize> {
    flags.iter().position(|flag| flag == Some(false))
}

impl RowCheck for Condition {
    fn first_violated(&self, rows: &[Row]) -> Result<Option<usize>, EngineError> {
        let flags = (self.eval)(&batch_of(&self.types, rows)).map_err(|error| as_engine(&error))?;
        Ok(first_false(&flags))
    }
}

/// What is demanded of what a query makes.
struct Demanded {
    /// Places among its columns.
    places: Vec<usize>,
    is_held: Box<Eval>,
    /// Of a row that it does not hold for.
    violation: Box<dyn Fn(&RecordBatch) -> SchemaError + Send + Sync>,
}

/// That a query makes a row of each without failing, and what it makes is as demanded.
pub(super) struct Makes {
    query: Arc<dyn RowQuery>,
    /// Of its inputs.
    types: Vec<ColumnType>,
    recipe: MadeRecipe,
    demands: Vec<Demanded>,
}

impl Makes {
    pub fn new(
        query: Arc<dyn RowQuery>,
        source: &TableDef,
        how: QueryRecipe,
        outputs: Vec<ColumnId>,
    ) -> Makes {
        let ty = |id: &ColumnId| source.all_columns().find(|column| column.id == *id);
        let types = query.inputs().iter().filter_map(ty).map(|column| column.ty).collect();
        let source = Box::new(source.without_migrations());
        let (constants, demands) = Default::default();
        let recipe = MadeRecipe { source, query: how, outputs, constants, demands };
        Makes { query, types, recipe, demands: Vec::new() }
    }

    /// What another server makes it of.
    pub fn recipe(&self) -> CheckRecipe {
        CheckRecipe::Made(self.recipe.clone())
    }

    /// The columns of the source that are read.
    pub fn inputs(&self) -> &[ColumnId] {
        self.query.inputs()
    }

    /// Whether something is demanded.
    pub fn has_demands(&self) -> bool {
        !self.demands.is_empty()
    }

    /// Has those of some columns of a table that are not made, as all of its rows have them.
    pub fn add_constants(&mut self, def: &TableDef, wanted: &[ColumnId]) {
        let others = def.all_columns().filter(|column| wanted.contains(&column.id));
        let others = others.filter(|column| self.place(column.id).is_none());
        let constant = |column: &ColumnDef| (column.id, column.ty, column.missing.clone());
        let constants = others.map(constant).collect();
        self.recipe.constants = constants;
    }

    fn place(&self, id: ColumnId) -> Option<usize> {
        let MadeRecipe { outputs, constants, .. } = &self.recipe;
        let mut all = outputs.iter().chain(constants.iter().map(|(id, ..)| id));
        all.position(|known| *known == id)
    }

    fn places(&self, ids: &[ColumnId]) -> Option<Vec<usize>> {
        ids.iter().map(|id| self.place(*id)).collect()
    }

    /// Demands that a column is not NULL; false, if it is not made.
    pub fn demand_not_null(&mut self, id: ColumnId, violation: SchemaErrorOf) -> bool {
        let Some(places) = self.places(&[id]) else { return false };
        let is_held = Box::new(|batch: &RecordBatch| {
            let column = batch.column(0);
            Ok((0..column.len()).map(|at| Some(!column.is_null(at))).collect())
        });
        let violation = Box::new(move |_: &RecordBatch| violation());
        self.demands.push(Demanded { places, is_held, violation });
        self.recipe.demands.push(DemandRecipe::NotNull(id));
        true
    }

    /// Demands a condition that other servers can evaluate; false, if they cannot.
    pub fn demand(&mut self, check: &Arc<dyn Check>) -> bool {
        let places = self.places(check.inputs());
        let (Some(recipe), Some(places)) = (check.recipe(), places) else { return false };
        let recipe = DemandRecipe::Condition(recipe.to_owned(), check.inputs().to_vec());
        self.recipe.demands.push(recipe);
        self.demands.push(Demanded::of(places, check.clone()));
        true
    }

    /// Demands that keys of an index of a table are not too long, if that is not known; false, if they are not made.
    pub fn demand_keys_fit(&mut self, def: &TableDef, index: &IndexDef) -> bool {
        let is_key = |id: ColumnId| index.spec.key.iter().any(|part| part.column == id);
        let one = TableDef { indexes: vec![index.clone()], ..def.of_columns(is_key) };
        let Some(check) = KeysFit::of(&one, one.space.home()) else { return true };
        let Some(places) = self.places(check.inputs()) else { return false };
        self.recipe.demands.push(DemandRecipe::KeysFit(Box::new(one)));
        self.demands.push(Demanded::of_keys(places, check));
        true
    }

    /// The first row of which something else is made, and what.
    fn look(&self, rows: &[Row]) -> Result<Option<(usize, SchemaError)>, SchemaError> {
        let mut made = self.query.eval(&batch_of(&self.types, rows))?;
        let count = made.rows.len();
        for (_, ty, value) in &self.recipe.constants {
            made.columns.push(array_of(*ty, std::iter::repeat_n(value, count)));
        }
        let mut first: Option<(usize, SchemaError)> = None;
        for Demanded { places, is_held, violation } in &self.demands {
            let columns: Vec<_> = places.iter().map(|at| made.columns[*at].clone()).collect();
            let batch = batch_with(columns, count);
            let Some(at) = first_false(&is_held(&batch)?) else { continue };
            if first.as_ref().is_none_or(|(before, _)| made.rows[at] < *before) {
                first = Some((made.rows[at], violation(&batch.slice(at, 1))));
            }
        }
        Ok(first)
    }

    /// What is wrong with a row, if there is something.
    pub fn error_of(&self, row: &Row) -> Option<SchemaError> {
        match self.look(std::slice::from_ref(row)) {
            Ok(found) => found.map(|(_, error)| error),
            Err(error) => Some(error),
        }
    }
}

/// Makes the error of a row.
pub(super) type SchemaErrorOf = Arc<dyn Fn() -> SchemaError + Send + Sync>;

impl Demanded {
    fn of(places: Vec<usize>, check: Arc<dyn Check>) -> Demanded {
        let eval = check.clone();
        let is_held = Box::new(move |batch: &RecordBatch| eval.eval(batch));
        let nulls = vec![Value::Null; places.len()];
        Demanded { places, is_held, violation: Box::new(move |_| check.violation(&nulls)) }
    }

    fn of_keys(places: Vec<usize>, check: KeysFit) -> Demanded {
        let check = Arc::new(check);
        let eval = check.clone();
        let is_held = Box::new(move |batch: &RecordBatch| eval.eval(batch));
        let violation = Box::new(move |batch: &RecordBatch| {
            check.violation(&row_at(batch.columns(), check.types(), 0))
        });
        Demanded { places, is_held, violation }
    }
}

impl RowCheck for Makes {
    fn first_violated(&self, rows: &[Row]) -> Result<Option<usize>, EngineError> {
        if let Ok(found) = self.look(rows) {
            return Ok(found.map(|(at, _)| at));
        }
        Ok(rows.iter().position(|row| self.error_of(row).is_some()))
    }
}

impl Catalog {
    /// A condition that another server verifies, of its recipe.
    pub fn row_check(&self, recipe: &str) -> Result<Arc<dyn RowCheck>, EngineError> {
        let broken = |what: &str| EngineError::Refused {
            state: SqlState::DATA_CORRUPTED,
            message: format!("a condition cannot be read: {what}"),
        };
        let recompile =
            self.recompile.get().ok_or_else(|| broken("the database is not open yet"))?;
        let recipe = serde_json::from_str(recipe).map_err(|error| broken(&error.to_string()))?;
        self.check_of(recipe, &**recompile).map_err(|error| as_engine(&error))
    }

    fn check_of(
        &self,
        recipe: CheckRecipe,
        recompile: &dyn Recompile,
    ) -> Result<Arc<dyn RowCheck>, SchemaError> {
        match recipe {
            CheckRecipe::Condition(recipe) => {
                let (transform, types) = recompile.check(&recipe)?;
                Ok(Arc::new(Condition::of_transform(types, transform)))
            }
            CheckRecipe::Made(MadeRecipe { source, query: how, outputs, constants, demands }) => {
                let query = self.query_of(&source, &how, recompile)?;
                let mut makes = Makes::new(query, &source, how, outputs);
                makes.recipe.constants = constants;
                for demand in demands {
                    let is_known = match demand {
                        DemandRecipe::NotNull(id) => {
                            makes.demand_not_null(id, Arc::new(|| gone("a column")))
                        }
                        DemandRecipe::Condition(recipe, ids) => {
                            let is_held = flags_of(recompile.check(&recipe)?.0);
                            let violation = Box::new(|_: &RecordBatch| gone("a condition"));
                            let demanded = |places| Demanded { places, is_held, violation };
                            let demanded = makes.places(&ids).map(demanded);
                            demanded.map(|demanded| makes.demands.push(demanded)).is_some()
                        }
                        DemandRecipe::KeysFit(def) => {
                            def.indexes.iter().all(|index| makes.demand_keys_fit(&def, index))
                        }
                    };
                    if !is_known {
                        return Err(gone("a column"));
                    }
                }
                Ok(Arc::new(makes))
            }
        }
    }

    fn query_of(
        &self,
        source: &TableDef,
        how: &QueryRecipe,
        recompile: &dyn Recompile,
    ) -> Result<Arc<dyn RowQuery>, SchemaError> {
        let recipe = match how {
            QueryRecipe::Computed(computed) => {
                return Ok(Arc::new(Rewritten::compile(source, computed, recompile)?));
            }
            QueryRecipe::Query(recipe) => recipe,
        };
        let table = self.engine().open(source.space, Arc::new(source.layout()))?;
        let mut catalog = CatalogVersion::default();
        catalog.add_source(source, table);
        match recompile.query(recipe, catalog)? {
            LazyQuery::Rows(_, query) => Ok(query),
            LazyQuery::Pairs(..) | LazyQuery::Units(_) => Err(gone("a query of rows")),
        }
    }
}

/// Whoever verifies for another tells only that something is violated.
fn gone(what: &str) -> SchemaError {
    let message = format!("{what} of a recipe is not there, or does not hold");
    SchemaError::refused(SqlState::DATA_CORRUPTED, message)
}
