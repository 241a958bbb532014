//! What a lazy migration needs of its query: whether it may be run later, and how it is compiled again
//! after a restart.
//!
//! A row is made whenever somebody touches it, so that it must not matter when: no volatile functions, the
//! session as it was ([`Frozen`]). Nor may it fail then, when nobody can roll the schema change back: a
//! query that may is run over all rows before the commit, and over those that change meanwhile.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::{Arc, LazyLock};

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::sql::sqlparser::ast::{CreateTableOptions, Query, SqlOption};
use froglet_engine::{Snapshot, SqlState};
use froglet_schema::plain::EnumDef;
use froglet_schema::{CatalogVersion, LazyQuery, NewColumn, ObjectId};
use serde::{Deserialize, Serialize};

use crate::context::{EvalContext, SessionFunctions};
use crate::error::SqlError;
use crate::frozen::{Frozen, FrozenValues};
use crate::join_way::JoinWay;
use crate::names::closed;
use crate::resolve::Names;
use crate::semantics::casts::CastFunction;
use crate::table_query::Lazily;
use crate::{stored, table_query, udf};

/// How rows of a new table are made, and values of a computed column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Columns after the commit, if nothing has to be looked at before; everything else before.
    Auto,
    /// All, before the commit.
    Eager,
    /// Each when it is touched, after the commit, and the rest when nobody else needs the processor.
    Lazy,
    /// Each when it is touched, after the commit, and the rest as fast as can be.
    Hybrid,
}

impl Mode {
    /// What CREATE TABLE … WITH (migration = …) says.
    pub(crate) fn of(options: &CreateTableOptions) -> Result<Option<Mode>, SqlError> {
        let CreateTableOptions::With(options) = options else { return Ok(None) };
        let given = options.iter().find_map(|option| match option {
            SqlOption::KeyValue { key, value } if key.value.eq_ignore_ascii_case("migration") => {
                Some(Mode::parse(&value.to_string()))
            }
            _ => None,
        });
        given.transpose()
    }

    /// The mode of a setting or option.
    pub(crate) fn parse(text: &str) -> Result<Mode, SqlError> {
        match text.trim_matches('\'').to_ascii_lowercase().as_str() {
            "auto" => Ok(Mode::Auto),
            "eager" => Ok(Mode::Eager),
            "lazy" => Ok(Mode::Lazy),
            "hybrid" => Ok(Mode::Hybrid),
            other => Err(SqlError::new(
                SqlState::INVALID_PARAMETER_VALUE,
                format!("invalid value for parameter \"migration\": \"{other}\""),
            )
            .hint("Available values: auto, eager, hybrid, lazy.")),
        }
    }
}

/// 0A000 for what cannot be done lazily; `why` begins in lower case.
pub(crate) fn refused(message: String, why: &str) -> SqlError {
    let (first, rest) = why.split_at(1);
    SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message)
        .detail(format!("{}{rest}.", first.to_uppercase()))
}

/// What a query is compiled of again.
#[derive(Serialize, Deserialize)]
struct Recipe<'a> {
    query: String,
    /// The table of whose rows each makes one, if there is such.
    source: Option<ObjectId>,
    /// The way of a join, or of what is made all at once: by keys or rows, where it does not say.
    #[serde(default)]
    join: Option<JoinWay>,
    session: Cow<'a, FrozenValues>,
    /// The enum types that it refers to, and those of columns.
    #[serde(default)]
    types: Option<Vec<EnumDef>>,
}

/// What [`recompile`] takes. None of a query whose text says something else, or nothing in a catalog of its own
/// (`names/closed.rs`, C1).
pub(crate) fn recipe(
    query: &Query,
    lazily: &Lazily,
    columns: &[NewColumn],
    names: &Names<'_>,
    frozen: &Arc<Frozen>,
    snapshot: &Snapshot,
) -> Option<String> {
    let tables = lazily.query.tables();
    let mut query = stored::writable(query);
    let defs = tables.iter().filter_map(|id| Some(&names.catalog.tables.get(id)?.def));
    let made = columns.iter().map(|column| column.sql_type);
    let types = closed::numbered(&mut query, names, defs, made);
    let text = query.to_string();
    if crate::parse::parse_query(&text).ok()? != query {
        return None;
    }
    let session = Cow::Borrowed(frozen.values());
    let way = lazily.join.as_ref().map(|join| join.way);
    let (source, join) = (lazily.source, way.or(lazily.is_whole().then_some(JoinWay::Whole)));
    let recipe = Recipe { query: text, source, join, session, types: Some(types) };
    let recipe = serde_json::to_string(&recipe).expect("a recipe has only string keys");
    let catalog = closed::only_tables(names.catalog, &tables);
    let again = recompile(&recipe, frozen.clone(), catalog, &CatalogVersion::default(), snapshot);
    again.is_ok_and(|again| again.tables() == tables).then_some(recipe)
}

/// Compiles the query of a lazy migration over its sources, which are all that `catalog` has, by the names that
/// they had. Types are those of the recipe, or today's, if it is an old one.
pub(crate) fn recompile(
    recipe: &str,
    session: Arc<dyn SessionFunctions>,
    catalog: CatalogVersion,
    today: &CatalogVersion,
    snapshot: &Snapshot,
) -> Result<LazyQuery, SqlError> {
    let broken = |what: String| SqlError::new(SqlState::DATA_CORRUPTED, what);
    let recipe: Recipe<'_> = serde_json::from_str(recipe).map_err(|e| broken(e.to_string()))?;
    let types = recipe.types.unwrap_or_else(|| closed::all_types(today));
    let catalog = Arc::new(catalog.with_types(types));
    let path: Arc<[String]> = recipe.session.search_path().into();
    let values = recipe.session.into_owned();
    let frozen = Frozen::thawed(values, session, catalog.clone());
    let names = Names { catalog: &catalog, path: &path };
    let context = EvalContext::new(Arc::new(frozen));
    let query = crate::parse::parse_query(&recipe.query)?;
    let by_source = if recipe.source.is_some() { JoinWay::Rows } else { JoinWay::Keys };
    let was = (recipe.join.unwrap_or(by_source), recipe.source);
    let plan = || table_query::plan_in(&names, context.clone(), snapshot, &query, Some(was));
    let made = context.enter(plan)?;
    let why = |why| broken(format!("a lazy migration cannot be run, {why}: {}", recipe.query));
    made.lazily.map(|lazily| lazily.query).map_err(why)
}

/// Whether evaluating an expression looks into the catalog, which may be another one later.
pub(crate) fn reads_catalog(expr: &Expr) -> bool {
    static NAMES: LazyLock<HashSet<String>> = LazyLock::new(|| {
        let functions = udf::catalog::functions();
        functions
            .iter()
            .flat_map(|f| f.aliases().iter().cloned().chain([f.name().to_owned()]))
            .collect()
    });
    let looks = |expr: &Expr| match expr {
        Expr::ScalarFunction(call) => {
            let cast = call.func.inner().downcast_ref::<CastFunction>();
            NAMES.contains(call.func.name()) || cast.is_some_and(CastFunction::looks_up_a_name)
        }
        _ => false,
    };
    expr.exists(|node| Ok(looks(node))).expect("nothing here fails")
}

/// The same of a plan that is not optimized yet, so that no constant stands for what was found.
pub(crate) fn plan_reads_catalog(plan: &LogicalPlan) -> bool {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            found |= reads_catalog(expr);
            Ok(TreeNodeRecursion::Continue)
        })
    })
    .expect("nothing here fails");
    found
}
