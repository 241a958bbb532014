//! Binding: from a parsed statement to a [`Prepared`], and from that to a plan that fits the
//! catalog of the moment.

use std::pin::pin;
use std::sync::Arc;

use datafusion::sql::sqlparser::ast;
use froglet_engine::{ColumnType, SqlState};
use froglet_schema::{CatalogVersion, SqlType};
use froglet_txn::aside_async;
use parking_lot::Mutex;

use crate::apply::Stop;
use crate::command::Command;
use crate::convert::{Conversion, origins};
use crate::cursor::no_cursor;
use crate::error::SqlError;
use crate::expr::param_index;
use crate::parse::ParsedStatement;
use crate::plan::{self, Plan, Planner};
use crate::prepared::{CachedPlan, Field, Named, Prepared};
use crate::revert::run as revert;
use crate::session::{Block, Session};
use crate::types::{self, oids, plain};
use crate::walk;

/// Binds a statement. Outside a transaction it is bound to the newest catalog; running it looks
/// again.
pub(crate) async fn prepare(
    session: &mut Session,
    statement: &ParsedStatement,
    param_oids: &[u32],
) -> Result<Prepared, SqlError> {
    let mut prepared = Prepared {
        statement: statement.clone(),
        params: Arc::from([]),
        param_types: Arc::from([]),
        undetermined: None,
        fields: described(session, &statement.command)?,
        inner: None,
        origins: Arc::from([]),
        lifted: false,
        plan: Mutex::new(None),
    };
    // A statement within it has the parameters.
    let within = match &*statement.command {
        Command::Declare { query, text, .. } => {
            let text: Arc<str> = Arc::from(text.as_str());
            let (command, source) = (query.clone(), text.clone());
            Some(ParsedStatement { command, sql: text, source, offset: 0 })
        }
        Command::Explain { statement: explained, .. } if has_parameters(explained) => {
            let command = Arc::new(Command::from_statement((**explained).clone()));
            Some(ParsedStatement { command, ..statement.clone() })
        }
        _ => None,
    };
    if let Some(query) = within {
        let inner = Box::pin(prepare(session, &query, param_oids)).await?;
        prepared.params.clone_from(&inner.params);
        prepared.param_types.clone_from(&inner.param_types);
        prepared.undetermined = inner.undetermined;
        prepared.inner = Some(Arc::new(inner));
        return Ok(prepared);
    }
    if let Command::Revert(revert) = &*statement.command {
        prepared.params = revert.params(param_oids);
        let types = prepared.params.iter().map(|ty| param_type(*ty));
        prepared.param_types = types.collect::<Result<_, _>>()?;
        return Ok(prepared);
    }
    if !plannable(&statement.command) {
        return Ok(prepared);
    }
    let given = given_types(param_oids)?;
    let catalog = view(session)?;
    let text = &statement.sql;
    let (plan, params) = plan_now(session, &statement.command, text, &catalog, &given)
        .await
        .map_err(|stop| match stop {
            Stop::Error(e) => e,
            Stop::Restart => SqlError::from(froglet_schema::SchemaError::Stale),
        })?;
    prepared.param_types =
        params.iter().map(|ty| param_type(*ty)).collect::<Result<Arc<[_]>, _>>()?;
    prepared.params = params.into();
    prepared.undetermined = undetermined(&statement.command, param_oids, prepared.params.len());
    prepared.fields = plan.fields().cloned();
    prepared.origins = origins(prepared.fields.as_deref().unwrap_or_default(), &catalog).into();
    let cached = CachedPlan::new(plan, catalog.stamp, session.settings.hot())
        .that_may(session.refusal(&statement.command, &catalog));
    prepared.plan = Mutex::new(Some(Arc::new(cached)));
    Ok(prepared)
}

/// Whether a statement that is explained has parameters of its own.
fn has_parameters(statement: &ast::Statement) -> bool {
    let mut found = false;
    walk::each_expr(statement, |expr| {
        found |= matches!(expr, ast::Expr::Value(value)
            if matches!(value.value, ast::Value::Placeholder(_)));
    });
    found && !matches!(statement, ast::Statement::Execute { .. })
}

/// The catalog as the session's next statement will see it: under READ COMMITTED that is the
/// newest, unless it reads the past, with the transaction's own changes.
fn view(session: &mut Session) -> Result<Arc<CatalogVersion>, SqlError> {
    if session.settings.hot().as_of.is_some() && session.block != Block::Failed {
        session.transaction()?;
    }
    Ok(match &mut session.txn {
        Some(txn) => session.db.catalog().next_view(txn),
        None => session.db.catalog().latest(),
    })
}

/// Whether a statement would be bound today as it was.
pub(crate) fn still_good(
    prepared: &Prepared,
    catalog: &froglet_schema::Catalog,
    settings: &crate::settings::Settings,
) -> bool {
    let plan = prepared.plan.lock();
    plan.as_ref().is_some_and(|plan| plan_still_good(plan, catalog.latest().stamp, settings))
}

/// Whether a plan is the one that would be made under the newest catalog, of this stamp.
pub(crate) fn plan_still_good(
    plan: &CachedPlan,
    stamp: u64,
    settings: &crate::settings::Settings,
) -> bool {
    plan.conversion.is_none() && plan.was_made_under(stamp, settings.hot())
}

pub(crate) fn plannable(command: &Command) -> bool {
    matches!(
        command,
        Command::Query(_)
            | Command::Insert(_)
            | Command::Update(_)
            | Command::Delete(_)
            | Command::Merge(_)
            | Command::With(_)
    )
}

/// The client's types; trailing unknown ones are left to be found.
fn given_types(oids: &[u32]) -> Result<Vec<SqlType>, SqlError> {
    let known = oids.iter().rposition(|oid| *oid != 0).map_or(0, |last| last + 1);
    oids[..known]
        .iter()
        .map(|oid| {
            let ty = plain(if *oid == oids::UNKNOWN { 0 } else { *oid });
            if ty.oid != 0 {
                param_type(ty)?;
            }
            Ok(ty)
        })
        .collect()
}

/// How values of a parameter are stored; 42704 if they cannot be.
pub(crate) fn param_type(ty: SqlType) -> Result<ColumnType, SqlError> {
    types::column_type_of(ty.oid, ty.modifier)
        .or_else(|| types::element_oid(ty.oid).map(|_| ColumnType::Text))
        .or(match ty.oid {
            oids::INTERVAL | oids::TIME => Some(ColumnType::Text),
            _ => None,
        })
        .ok_or_else(|| {
            SqlError::new(
                SqlState::UNDEFINED_OBJECT,
                format!("parameters of type {} are not supported", types::type_name(ty)),
            )
        })
}

/// The first parameter that has no type from the client and stands nowhere, or only where any type
/// may stand. Inference takes it for text; PostgreSQL does not guess.
fn undetermined(command: &Command, oids: &[u32], params: usize) -> Option<usize> {
    let count = params.max(oids.len());
    let open = |at: &usize| oids.get(*at).is_none_or(|oid| matches!(*oid, 0 | oids::UNKNOWN));
    if !(0..count).any(|at| open(&at)) {
        return None;
    }
    let mut typed = vec![0_i32; count];
    let mut visit = |expr: &ast::Expr| {
        let (inner, weight) = match expr {
            ast::Expr::IsNull(inner) | ast::Expr::IsNotNull(inner) => (&**inner, -1),
            other => (other, 1),
        };
        if let ast::Expr::Value(value) = inner
            && let ast::Value::Placeholder(name) = &value.value
            && let Some(place) = param_index(name).and_then(|at| typed.get_mut(at))
        {
            *place += weight;
        }
    };
    match command {
        Command::Query(query) => walk::each_expr(&**query, &mut visit),
        Command::With(query) | Command::Merge(query) => walk::each_expr(&**query, &mut visit),
        Command::Insert(insert) => walk::each_expr(&**insert, &mut visit),
        Command::Update(update) => walk::each_expr(&**update, &mut visit),
        Command::Delete(delete) => walk::each_expr(&**delete, &mut visit),
        _ => return None,
    }
    (0..count).filter(open).find(|at| typed[*at] == 0)
}

impl Prepared {
    /// 42P18 where a parameter's type cannot be told.
    pub(crate) fn check_parameters(&self) -> Result<(), SqlError> {
        match self.undetermined {
            None => Ok(()),
            Some(at) => Err(SqlError::new(
                SqlState::INDETERMINATE_DATATYPE,
                format!("could not determine data type of parameter ${}", at + 1),
            )),
        }
    }
}

/// A text that is longer may take longer to plan than others of its loop should wait.
const LONG_TO_PLAN_BYTES: usize = 2 << 10;

/// Plans a statement under a catalog, with the types of its parameters.
pub(crate) async fn plan_now(
    session: &Session,
    command: &Command,
    text: &str,
    catalog: &Arc<CatalogVersion>,
    given: &[SqlType],
) -> Result<(Plan, Vec<SqlType>), Stop> {
    let hot = session.settings.hot();
    let path = hot.search_path.clone();
    session.state.set_planning(catalog);
    let mut planner = Planner {
        catalog,
        path: &path,
        fast: hot.fast_path,
        session: &session.state,
        returned: Vec::new(),
    };
    let planning = pin!(plan::plan(&mut planner, command, given));
    let planned = match text.len() > LONG_TO_PLAN_BYTES {
        true => aside_async(planning).await?,
        false => planning.await?,
    };
    match planned {
        Some(planned) => Ok(planned),
        None => Err(SqlError::unsupported("this statement").into()),
    }
}

/// The plan that a prepared statement has, if it is good under a catalog.
pub(crate) fn known_plan(
    session: &Session,
    prepared: &Prepared,
    catalog: &Arc<CatalogVersion>,
) -> Option<Arc<CachedPlan>> {
    let known = prepared.plan.lock();
    let good = |plan: &&Arc<CachedPlan>| plan.was_made_under(catalog.stamp, session.settings.hot());
    known.as_ref().filter(good).cloned()
}

/// A new plan for a prepared statement.
pub(crate) async fn new_plan(
    session: &Session,
    prepared: &Prepared,
    catalog: &Arc<CatalogVersion>,
) -> Result<Arc<CachedPlan>, Stop> {
    let (command, given) = prepared.to_plan()?;
    let (plan, params) =
        plan_now(session, &command, &prepared.statement.sql, catalog, given).await?;
    if params.len() > prepared.params.len() {
        return Err(SqlError::new(
            SqlState::FEATURE_NOT_SUPPORTED,
            "cached plan must not change parameter types",
        )
        .into());
    }
    let conversion = match (&prepared.fields, plan.fields()) {
        (Some(described), Some(now)) => {
            Conversion::between(described, &prepared.origins, now, &origins(now, catalog))?
        }
        _ => None,
    };
    let new = CachedPlan::new(plan, catalog.stamp, session.settings.hot())
        .that_may(session.refusal(&command, catalog));
    let new = Arc::new(CachedPlan { conversion, ..new });
    *prepared.plan.lock() = Some(new.clone());
    Ok(new)
}

/// The same statement bound anew, with the result that it has now: nobody has been told of another.
pub(crate) async fn bound_again(
    session: &Session,
    prepared: &Prepared,
    catalog: &Arc<CatalogVersion>,
) -> Result<(Arc<Prepared>, Arc<CachedPlan>), Stop> {
    let (command, given) = prepared.to_plan()?;
    let (plan, _) = plan_now(session, &command, &prepared.statement.sql, catalog, given).await?;
    let fields = plan.fields().cloned();
    let origins = origins(fields.as_deref().unwrap_or_default(), catalog).into();
    let cached = CachedPlan::new(plan, catalog.stamp, session.settings.hot());
    let cached = Arc::new(cached.that_may(session.refusal(&command, catalog)));
    let prepared = Prepared {
        statement: prepared.statement.clone(),
        params: prepared.params.clone(),
        param_types: prepared.param_types.clone(),
        undetermined: prepared.undetermined,
        fields,
        inner: None,
        origins,
        lifted: prepared.lifted,
        plan: Mutex::new(Some(cached.clone())),
    };
    Ok((Arc::new(prepared), cached))
}

/// The result of statements without a plan.
fn described(session: &Session, command: &Command) -> Result<Option<Arc<[Field]>>, SqlError> {
    Ok(match command {
        Command::Show(name) => {
            let (name, _) = session.settings.show(name)?;
            Some(text_fields(&[name]))
        }
        Command::ShowAll => Some(text_fields(&["name", "setting", "description"])),
        Command::Revert(_) => Some(revert::fields()),
        Command::Explain { options, .. } => {
            Some(crate::explain_run::fields(options.clone().unwrap_or_default()))
        }
        Command::ExplainDdl(_) => Some(text_fields(&["QUERY PLAN"])),
        Command::Fetch { name, moves: false, .. } => {
            let (fields, _) = session.cursor(name).ok_or_else(|| no_cursor(name))?;
            Some(fields.clone())
        }
        Command::Execute { name, .. } => named(session, name)?.prepared.fields.clone(),
        _ => None,
    })
}

/// PREPARE's statement of a name; 26000 where there is none.
pub(crate) fn named<'s>(session: &'s Session, name: &str) -> Result<&'s Named, SqlError> {
    let found = session.named.get(name).map(|named| &**named);
    found.ok_or_else(|| {
        SqlError::new(
            SqlState::INVALID_SQL_STATEMENT_NAME,
            format!("prepared statement \"{name}\" does not exist"),
        )
    })
}

/// A result of text columns.
pub(crate) fn text_fields(names: &[&str]) -> Arc<[Field]> {
    names
        .iter()
        .map(|name| Field {
            name: (*name).to_owned(),
            sql_type: plain(oids::TEXT),
            ty: Some(ColumnType::Text),
            table: 0,
            attnum: 0,
            record: None,
        })
        .collect()
}
