//! What DataFusion's SQL planner asks of us: tables of a catalog version, functions, type names.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use arrow::datatypes::{DataType, FieldRef, SchemaRef};
use datafusion::catalog::{TableFunction, TableFunctionArgs};
use datafusion::common::config::ConfigOptions;
use datafusion::common::{DFSchema, ScalarValue, TableReference};
use datafusion::datasource::cte_worktable::CteWorkTable;
use datafusion::datasource::provider_as_source;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::SessionStateDefaults;
use datafusion::logical_expr::planner::{ContextProvider, ExprPlanner, TypePlanner};
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{
    AggregateUDF, Expr, HigherOrderUDF, ScalarUDF, TableSource, WindowUDF,
};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::sql::planner::{NullOrdering, ParserOptions, SqlToRel};
use froglet_engine::SqlState;
use froglet_schema::SqlType;

use crate::catalogs::table_functions;
use crate::error::SqlError;
use crate::revert;
use crate::rewrite::shown_name;
use crate::semantics::operators::Operators;
use crate::semantics::type_names::TypeNames;
use crate::types;

/// Every function by name and alias. The same for all sessions.
pub struct Registry {
    scalar: HashMap<String, Arc<ScalarUDF>>,
    aggregate: HashMap<String, Arc<AggregateUDF>>,
    window: HashMap<String, Arc<WindowUDF>>,
    higher_order: HashMap<String, Arc<HigherOrderUDF>>,
    table: HashMap<String, Arc<TableFunction>>,
    expr_planners: Vec<Arc<dyn ExprPlanner>>,
    type_planner: Arc<dyn TypePlanner>,
}

/// The registry.
pub fn registry() -> &'static Registry {
    static REGISTRY: LazyLock<Registry> = LazyLock::new(Registry::build);
    &REGISTRY
}

fn index<T>(
    all: impl IntoIterator<Item = Arc<T>>,
    names: impl Fn(&T) -> Vec<String>,
) -> HashMap<String, Arc<T>> {
    let mut map = HashMap::new();
    for item in all {
        for name in names(&item) {
            map.insert(name, item.clone());
        }
    }
    map
}

fn with_aliases(name: &str, aliases: &[String]) -> Vec<String> {
    std::iter::once(name.to_owned()).chain(aliases.iter().cloned()).collect()
}

impl Registry {
    fn build() -> Registry {
        let scalar = SessionStateDefaults::default_scalar_functions().into_iter();
        let aggregate = SessionStateDefaults::default_aggregate_functions().into_iter();
        let mut expr_planners: Vec<Arc<dyn ExprPlanner>> = vec![Arc::new(Operators)];
        expr_planners.extend(SessionStateDefaults::default_expr_planners());
        let table_functions = SessionStateDefaults::default_table_functions();
        let windows = SessionStateDefaults::default_window_functions().into_iter();
        Registry {
            // Later ones win: ours are PostgreSQL's.
            scalar: index(scalar.chain(crate::udf::scalar_functions()), |f| {
                with_aliases(f.name(), f.aliases())
            }),
            aggregate: index(aggregate.chain(crate::udf::aggregate_functions()), |f| {
                let mut names = with_aliases(f.name(), f.aliases());
                if f.name() == "bool_and" {
                    names.push("every".to_owned());
                }
                names
            }),
            window: index(windows.chain(crate::udf::window_functions()), |f| {
                with_aliases(f.name(), f.aliases())
            }),
            higher_order: index(SessionStateDefaults::default_higher_order_functions(), |f| {
                with_aliases(f.name(), f.aliases())
            }),
            table: index(
                table_functions
                    .into_iter()
                    .chain([revert::view::function()])
                    .chain(table_functions::all()),
                |f| match f.name() {
                    "generate_series" => vec![crate::rewrite_sets::SERIES.to_owned()],
                    name => vec![name.to_owned()],
                },
            ),
            expr_planners,
            type_planner: Arc::new(TypeNames),
        }
    }

    /// A scalar function.
    pub fn scalar(&self, name: &str) -> Option<&Arc<ScalarUDF>> {
        self.scalar.get(name.strip_prefix("pg_catalog.").unwrap_or(name))
    }

    /// Whether a name is an aggregate function's.
    pub fn is_aggregate(&self, name: &str) -> bool {
        self.aggregate.contains_key(name)
    }

    /// Whether a name is a window function's.
    pub fn is_window(&self, name: &str) -> bool {
        self.window.contains_key(name)
    }

    /// Whether a name is that of a function whose rows the planner reads as a table's.
    pub fn is_table_function(&self, name: &str) -> bool {
        self.table_function(name).is_some()
    }

    /// The function that a name in FROM is of, which may say more to be different from another call's.
    fn table_function(&self, name: &str) -> Option<&Arc<TableFunction>> {
        let name = shown_name(name.trim_matches('"'));
        self.table.get(name.strip_prefix("pg_catalog.").unwrap_or(name))
    }

    /// Every scalar function.
    pub fn scalar_functions(&self) -> &HashMap<String, Arc<ScalarUDF>> {
        &self.scalar
    }
}

/// Where tables come from.
pub trait Tables {
    /// The table of a name; 42P01 or 3F000 if there is none.
    fn table(&self, name: &TableReference) -> Result<Arc<dyn TableSource>, SqlError>;
}

/// No tables: expressions over one row.
pub struct NoTables;

impl Tables for NoTables {
    fn table(&self, name: &TableReference) -> Result<Arc<dyn TableSource>, SqlError> {
        let _ = name;
        Err(SqlError::new(
            SqlState::FEATURE_NOT_SUPPORTED,
            "cannot use subquery in this expression",
        ))
    }
}

/// The planner's view.
pub struct PlanContext<'a> {
    tables: &'a dyn Tables,
    options: Arc<ConfigOptions>,
}

impl<'a> PlanContext<'a> {
    /// Over these tables.
    pub fn new(tables: &'a dyn Tables, options: Arc<ConfigOptions>) -> PlanContext<'a> {
        PlanContext { tables, options }
    }

    /// A planner with PostgreSQL's options.
    pub fn planner(&self) -> SqlToRel<'_, PlanContext<'a>> {
        SqlToRel::new_with_options(self, parser_options())
    }
}

/// How SQL is read.
pub fn parser_options() -> ParserOptions {
    ParserOptions::new()
        .with_parse_float_as_decimal(true)
        .with_enable_ident_normalization(true)
        .with_map_string_types_to_utf8view(true)
        .with_default_null_ordering(NullOrdering::NullsMax)
}

/// Fields of parameters for the planner; an oid of 0 is a type to be inferred.
pub fn param_fields(params: &[SqlType]) -> Result<Vec<Option<FieldRef>>, SqlError> {
    params
        .iter()
        .map(|ty| {
            if ty.oid == 0 || ty.oid == types::oids::UNKNOWN {
                return Ok(None);
            }
            let arrow = types::arrow_of(*ty).ok_or_else(|| {
                SqlError::unsupported(format!("a parameter of type {}", types::type_name(*ty)))
            })?;
            Ok(Some(types::sql_field("", *ty, arrow, true)))
        })
        .collect()
}

impl ContextProvider for PlanContext<'_> {
    fn get_table_source(&self, name: TableReference) -> Result<Arc<dyn TableSource>> {
        Ok(self.tables.table(&name)?)
    }

    fn get_table_function_source(
        &self,
        name: &str,
        args: Vec<Expr>,
    ) -> Result<Arc<dyn TableSource>> {
        let function =
            registry().table_function(name).ok_or_else(|| crate::df_error::no_function(name))?;
        let simplify = SimplifyContext::builder().with_config_options(self.options.clone()).build();
        let simplifier = ExprSimplifier::new(simplify);
        let schema = DFSchema::empty();
        let args = args
            .into_iter()
            .map(|arg| {
                let arg = crate::semantics::casts::rewrite_expr(arg, &schema)?.data;
                let arg = simplifier.coerce(arg, &schema).and_then(|e| simplifier.simplify(e))?;
                Ok(wide(arg))
            })
            .collect::<Result<Vec<_>>>()?;
        let state = crate::query_run::template();
        let provider =
            function.create_table_provider_with_args(TableFunctionArgs::new(&args, state))?;
        Ok(provider_as_source(provider))
    }

    fn create_cte_work_table(&self, name: &str, schema: SchemaRef) -> Result<Arc<dyn TableSource>> {
        Ok(provider_as_source(Arc::new(CteWorkTable::new(name, schema))))
    }

    fn get_expr_planners(&self) -> &[Arc<dyn ExprPlanner>] {
        &registry().expr_planners
    }

    fn get_type_planner(&self) -> Option<Arc<dyn TypePlanner>> {
        Some(registry().type_planner.clone())
    }

    fn get_function_meta(&self, name: &str) -> Option<Arc<ScalarUDF>> {
        registry().scalar(name).cloned()
    }

    fn get_higher_order_meta(&self, name: &str) -> Option<Arc<HigherOrderUDF>> {
        registry().higher_order.get(name).cloned()
    }

    fn get_aggregate_meta(&self, name: &str) -> Option<Arc<AggregateUDF>> {
        let bare = name.strip_prefix("pg_catalog.").unwrap_or(name);
        registry().aggregate.get(bare).cloned()
    }

    fn get_window_meta(&self, name: &str) -> Option<Arc<WindowUDF>> {
        registry().window.get(name).cloned()
    }

    fn get_variable_type(&self, _names: &[String]) -> Option<DataType> {
        None
    }

    fn options(&self) -> &ConfigOptions {
        &self.options
    }

    fn udf_names(&self) -> Vec<String> {
        registry().scalar.keys().cloned().collect()
    }

    fn higher_order_function_names(&self) -> Vec<String> {
        Vec::new()
    }

    fn udaf_names(&self) -> Vec<String> {
        registry().aggregate.keys().cloned().collect()
    }

    fn udwf_names(&self) -> Vec<String> {
        registry().window.keys().cloned().collect()
    }
}

/// Table functions take bigint literals.
fn wide(arg: Expr) -> Expr {
    match arg {
        Expr::Literal(ScalarValue::Int32(Some(v)), _) => {
            Expr::Literal(ScalarValue::Int64(Some(v.into())), None)
        }
        other => other,
    }
}

/// An internal error.
pub fn internal(text: impl Into<String>) -> DataFusionError {
    DataFusionError::Internal(text.into())
}
