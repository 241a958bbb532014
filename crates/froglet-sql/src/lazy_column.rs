//! Columns that are computed after the commit: whether they can be, and how they are compiled again after a
//! restart. As `lazy_query.rs` is for tables.

use std::borrow::Cow;
use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{Expr, Ident, TableConstraint};
use froglet_engine::{ColumnId, ColumnType, Home, SqlState};
use froglet_schema::plain::EnumDef;
use froglet_schema::{
    CatalogVersion, IndexDef, LazyFill, NewColumn, SqlType, TableDef, TableVersion, Transform,
};
use serde::{Deserialize, Serialize};

use crate::context::{EvalContext, SessionFunctions};
use crate::ddl::Ddl;
use crate::ddl_compile::{Computed, Converted};
use crate::error::SqlError;
use crate::frozen::{Frozen, FrozenValues};
use crate::functions::SessionState;
use crate::lazy_query::{Mode, refused};
use crate::migrate::may_fail::{self, CastKind};
use crate::names::closed;
use crate::resolve::Names;
use crate::stored;
use crate::types::oids;

/// How a column's values come from the columns of its table.
#[derive(Clone, Copy)]
pub(crate) enum From<'a> {
    /// By an expression.
    Expression(&'a Expr),
    /// From one of them, as an assignment converts.
    Column(ColumnId),
}

/// What a column is compiled of again.
#[derive(Serialize, Deserialize)]
struct Recipe<'a> {
    /// The text of an expression, or the column that is converted.
    from: Result<String, ColumnId>,
    name: String,
    ty: ColumnType,
    sql_type: SqlType,
    session: Cow<'a, FrozenValues>,
    /// The enum types that it refers to, and those of columns.
    #[serde(default)]
    types: Option<Vec<EnumDef>>,
}

/// What computes a column, and how that can be done lazily.
pub(crate) struct Computation {
    pub(crate) transform: Arc<dyn Transform>,
    /// How it is computed later, or why it cannot be.
    later: Result<LazyFill, &'static str>,
    /// Something else of the column is to be looked at, or made, for every row.
    besides: Option<&'static str>,
    /// It converts a column that is not NULL.
    is_never_null: bool,
}

impl Computation {
    /// Why it is not lazy: something else of the column is to be looked at, or made, for every row.
    pub(crate) fn but_for(self, besides: Option<&'static str>) -> Computation {
        Computation { besides, ..self }
    }

    /// How it is computed lazily, in the rows that are there.
    fn lazily(&self) -> Result<LazyFill, &'static str> {
        self.besides.map_or_else(|| self.later.clone(), Err)
    }
}

/// What computes a column of a table.
pub(crate) fn computation(
    session: &Arc<SessionState>,
    from: From<'_>,
    table: &TableDef,
    column: &NewColumn,
) -> Result<Computation, SqlError> {
    let frozen = Arc::new(Frozen::new(session.clone()));
    let context = EvalContext::new(frozen.clone());
    compiled(from, table, column, context, &|| recipe(from, table, column, &frozen))
}

/// When a column is computed.
pub(crate) enum Choice {
    /// Before the commit.
    Eager(&'static str),
    /// After it.
    Lazy(LazyFill, &'static str),
}

impl Choice {
    /// What a mode comes to; an error, if it asks for what cannot be.
    pub(crate) fn of(
        mode: Mode,
        computation: &Computation,
        column: &str,
    ) -> Result<Choice, SqlError> {
        match (mode, computation.lazily()) {
            (Mode::Eager, _) => Ok(Choice::Eager("froglet.migration is eager")),
            (Mode::Auto, Err(why)) => Ok(Choice::Eager(why)),
            (Mode::Auto, Ok(lazily)) if lazily.is_verified() => {
                Ok(Choice::Eager("every row is looked at: it may fail for some, or be NULL"))
            }
            (Mode::Auto, Ok(lazily)) => Ok(Choice::Lazy(lazily, "nothing is to be verified")),
            (Mode::Lazy | Mode::Hybrid, Ok(lazily)) => {
                Ok(Choice::Lazy(lazily, "froglet.migration says so"))
            }
            (Mode::Lazy | Mode::Hybrid, Err(why)) => {
                let message = format!("column \"{column}\" cannot be computed lazily");
                Err(refused(message, why).hint("Set froglet.migration to auto or eager."))
            }
        }
    }

    /// The same in a cluster, where rows move to where they have it.
    pub(crate) fn in_cluster(
        mode: Mode,
        computation: &Computation,
        column: &str,
    ) -> Result<Choice, SqlError> {
        let later = match mode {
            Mode::Eager => Err("rows are moved after the commit, and froglet.migration is eager"),
            Mode::Auto | Mode::Lazy | Mode::Hybrid => computation.later.clone(),
        };
        match later {
            Ok(lazily) => {
                let not_null = lazily.not_null && !computation.is_never_null;
                let lazily = LazyFill { not_null, ..lazily };
                Ok(Choice::Lazy(lazily, "in a cluster rows move to where they have it"))
            }
            Err(why) => {
                let message = format!("column \"{column}\" cannot be computed in a cluster");
                Err(refused(message, why))
            }
        }
    }

    /// What it is, and why.
    pub(crate) fn text(&self) -> String {
        match self {
            Choice::Eager(why) => format!("eager, {why}"),
            Choice::Lazy(_, why) => format!("lazy, {why}"),
        }
    }
}

impl Ddl<'_> {
    /// How a column is to be computed lazily, if it is.
    pub(crate) fn lazily(
        &mut self,
        table: &TableDef,
        computation: Computation,
        column: &NewColumn,
    ) -> Result<Option<LazyFill>, SqlError> {
        let name = &column.name;
        // Writers who follow to rows that are made know nothing of the column.
        let choice = match self.catalog.latest().tables.get(&table.id) {
            Some(known) if moves(table, known) => {
                Choice::in_cluster(self.migration, &computation, name)?
            }
            Some(known) if known.def.space == table.space => {
                Choice::of(self.migration, &computation, name)?
            }
            Some(_) => Choice::Eager("its table's rows are replaced by the same transaction"),
            None => Choice::Eager("its table is made by the same transaction"),
        };
        self.options.is_hybrid = self.migration == Mode::Hybrid;
        if self.migration != Mode::Eager {
            let notice = match &choice {
                Choice::Eager(why) => {
                    format!("column \"{name}\" is computed before the commit: {why}")
                }
                Choice::Lazy(_, why) => format!(
                    "column \"{name}\" is computed lazily, usable from the commit on: {why}"
                ),
            };
            self.notice(SqlState::SUCCESSFUL_COMPLETION, notice);
        }
        match choice {
            Choice::Eager(_) => Ok(None),
            Choice::Lazy(lazily, _) => Ok(Some(lazily)),
        }
    }
}

/// Whether rows of a table, which others know, move for a column: those of a cluster that others have.
fn moves(table: &TableDef, known: &TableVersion) -> bool {
    let is_own_move = table.lazy.as_ref().is_some_and(|lazy| lazy.is_move_of(table.id));
    table.space.home() == Home::Cluster && (known.def.space == table.space || is_own_move)
}

/// What is looked at, or made, for every row of a column that gets another type, beside its values.
pub(crate) fn depends_on(table: &TableDef, column: ColumnId) -> Option<&'static str> {
    let has_it = |index: &IndexDef| index.spec.key.iter().any(|part| part.column == column);
    match () {
        () if table.indexes.iter().any(has_it) => Some("an index over it is built anew"),
        () if table.checks().any(|(_, check)| check.columns.contains(&column)) => {
            Some("every row is looked at for a check of it")
        }
        () if table.foreign_keys().any(|(_, key)| key.columns.contains(&column)) => {
            Some("every row is looked at for a foreign key of it")
        }
        () => None,
    }
}

/// The same of a new column with constraints.
pub(crate) fn constrained(constraints: &[TableConstraint]) -> Option<&'static str> {
    (!constraints.is_empty()).then_some("every row is looked at for its constraints")
}

fn compiled(
    from: From<'_>,
    table: &TableDef,
    column: &NewColumn,
    context: EvalContext,
    recipe: &dyn Fn() -> Option<String>,
) -> Result<Computation, SqlError> {
    let (transform, why_not, may_fail): (Arc<dyn Transform>, _, _) = match from {
        From::Expression(expr) => {
            let computed = Computed::new(expr, table, column, context)?;
            let (why_not, may_fail) = (computed.not_later(), computed.may_fail());
            (Arc::new(computed), why_not, may_fail)
        }
        From::Column(id) => {
            let old = table.column_by_id(id).ok_or_else(|| broken("its column is gone"))?;
            let converted = Converted::new(old, column, context.zone)?;
            (
                Arc::new(converted),
                None,
                !may_fail::cast(old.sql_type.oid, column.sql_type, CastKind::Assigned),
            )
        }
    };
    let later = match why_not {
        Some(why) => Err(why),
        None => recipe()
            .ok_or("its expression cannot be written down for a restart")
            .map(|recipe| LazyFill { recipe, may_fail, not_null: column.not_null }),
    };
    let is_never_null = match from {
        From::Expression(_) => false,
        From::Column(id) => table.column_by_id(id).is_some_and(|column| column.not_null),
    };
    Ok(Computation { transform, later, besides: None, is_never_null })
}

/// None of what is nothing in a catalog of its own (`names/closed.rs`, C1).
fn recipe(
    from: From<'_>,
    table: &TableDef,
    column: &NewColumn,
    frozen: &Arc<Frozen>,
) -> Option<String> {
    let (catalog, path) = (frozen.catalog(), frozen.search_path());
    let names = Names { catalog: &catalog, path: &path };
    let of_columns = || ([table], [column.sql_type]);
    let (from, types) = match from {
        From::Expression(expr) => {
            let mut expr = stored::writable(expr);
            let (tables, made) = of_columns();
            let types = closed::numbered(&mut expr, &names, tables, made);
            let text = expr.to_string();
            if crate::parse::parse_expression(&text).ok()? != expr {
                return None;
            }
            (Ok(text), types)
        }
        From::Column(id) => {
            let (tables, made) = of_columns();
            let mut nothing = Expr::Identifier(Ident::new(""));
            (Err(id), closed::numbered(&mut nothing, &names, tables, made))
        }
    };
    let session = Cow::Borrowed(frozen.values());
    let NewColumn { name, ty, sql_type, .. } = column.clone();
    let recipe = Recipe { from, name, ty, sql_type, session, types: Some(types) };
    let recipe = serde_json::to_string(&recipe).expect("a recipe has only string keys");
    let again = recompile(&recipe, frozen.clone(), table, &CatalogVersion::default());
    again.is_ok().then_some(recipe)
}

/// Compiles again what computes a column, over its table as it was, and nothing else. Types are those of the
/// recipe, or today's, if it is an old one.
pub(crate) fn recompile(
    recipe: &str,
    session: Arc<dyn SessionFunctions>,
    table: &TableDef,
    today: &CatalogVersion,
) -> Result<Arc<dyn Transform>, SqlError> {
    let recipe: Recipe<'_> = serde_json::from_str(recipe).map_err(|e| broken(&e.to_string()))?;
    let Recipe { name, ty, sql_type, .. } = recipe;
    let column = NewColumn { name, ty, sql_type, not_null: false, default: None };
    let types = recipe.types.unwrap_or_else(|| closed::all_types(today));
    let catalog = Arc::new(CatalogVersion::default().with_types(types));
    let frozen = Frozen::thawed(recipe.session.into_owned(), session, catalog);
    let context = EvalContext::new(Arc::new(frozen));
    let parsed;
    let from = match &recipe.from {
        Ok(text) => {
            parsed = crate::parse::parse_expression(text)?;
            From::Expression(&parsed)
        }
        Err(id) => From::Column(*id),
    };
    let compile = || compiled(from, table, &column, context.clone(), &|| None);
    Ok(context.enter(compile)?.transform)
}

/// What a condition is compiled of at another server.
#[derive(Serialize, Deserialize)]
struct ConditionRecipe<'a> {
    table: Cow<'a, TableDef>,
    /// As of a column.
    recipe: String,
}

fn condition_column() -> NewColumn {
    let sql_type = SqlType { oid: oids::BOOL, modifier: -1 };
    let name = "condition".to_owned();
    NewColumn { name, ty: ColumnType::Bool, sql_type, not_null: false, default: None }
}

/// What it takes to look at rows of a table at another server.
pub(crate) fn recipe_of_condition(
    expr: &Expr,
    table: &TableDef,
    frozen: &Arc<Frozen>,
) -> Option<String> {
    let recipe = recipe(From::Expression(expr), table, &condition_column(), frozen)?;
    let nothing = CatalogVersion::default();
    let compile = |table: &TableDef| recompile(&recipe, frozen.clone(), table, &nothing).ok();
    let table = Cow::Owned(table.of_inputs(compile(table)?.inputs(), compile));
    let recipe = ConditionRecipe { table, recipe };
    Some(serde_json::to_string(&recipe).expect("a recipe has only string keys"))
}

/// A condition of its recipe, and the types of what it reads.
pub(crate) fn recompile_condition(
    recipe: &str,
    session: Arc<dyn SessionFunctions>,
    today: &CatalogVersion,
) -> Result<(Arc<dyn Transform>, Vec<ColumnType>), SqlError> {
    let ConditionRecipe { table, recipe } =
        serde_json::from_str(recipe).map_err(|e| broken(&e.to_string()))?;
    let condition = recompile(&recipe, session, &table, today)?;
    let ty = |id: &ColumnId| table.column_by_id(*id).map(|column| column.ty);
    let types: Option<_> = condition.inputs().iter().map(ty).collect();
    Ok((condition, types.ok_or_else(|| broken("its column is gone"))?))
}

fn broken(what: &str) -> SqlError {
    SqlError::new(SqlState::DATA_CORRUPTED, format!("a lazy column cannot be computed: {what}"))
}
