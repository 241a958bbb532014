//! A statement that has been bound to types, and the plan that runs it for now.
//!
//! ```text
//!   Prepared ─ sql, parameter types, result fields      fixed when it was described
//!      └─ Plan ─ made under a catalog stamp             made anew, silently, when the stamp moves
//! ```
//!
//! A client that has been told the result types of a statement keeps getting these: when a column
//! has changed its type since, a new plan's values are cast back to them, and only a value that
//! does not fit is an error. Columns that have come under a `*` are not for it. Where some have gone,
//! no cast helps, and the answer is PostgreSQL's: 0A000, "cached plan must not change result type".

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use froglet_engine::{ColumnId, ColumnType};
use froglet_schema::{ObjectId, SqlType};
use parking_lot::Mutex;

use crate::command::Command;
use crate::context::PreparedRow;
use crate::convert::Conversion;
use crate::error::SqlError;
use crate::parse::ParsedStatement;
use crate::plan::Plan;
use crate::settings::Hot;
use crate::types::datetime::now_us;
use crate::types::record::Shape;
use crate::types::style::Style;
use crate::write::table_locks::Use;

/// One column of a result.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// Its type as PostgreSQL knows it.
    pub sql_type: SqlType,
    /// How its values come in [`crate::Rows::Values`]: the scale of a decimal, for one, is here.
    /// `None` for types that only results have (intervals, arrays): these come as batches.
    pub ty: Option<ColumnType>,
    /// The table it is a plain column of, or 0.
    pub table: ObjectId,
    /// Its attribute number there, or 0.
    pub attnum: i16,
    /// What the fields of its rows are, where it has such.
    pub record: Option<Arc<Shape>>,
}

/// A bound statement. Shared between the session, its portals and the server.
pub struct Prepared {
    pub(crate) statement: ParsedStatement,
    pub(crate) params: Arc<[SqlType]>,
    pub(crate) param_types: Arc<[ColumnType]>,
    /// A parameter (from 0) whose type nothing tells.
    pub(crate) undetermined: Option<usize>,
    pub(crate) fields: Option<Arc<[Field]>>,
    /// DECLARE: its query. EXPLAIN: what it explains, if that has parameters.
    pub(crate) inner: Option<Arc<Prepared>>,
    /// Which columns the fields were.
    pub(crate) origins: Arc<[Option<ColumnId>]>,
    /// Its parameters stand for the literals of its text (`statement_cache.rs`). Its plan is good
    /// for the catalog that it was made under and no other: what is planned anew is the text.
    pub(crate) lifted: bool,
    /// The latest plan, with the catalog stamp and settings it was made under.
    pub(crate) plan: Mutex<Option<Arc<CachedPlan>>>,
}

/// A statement under a name, PREPARE's or the protocol's.
pub(crate) struct Named {
    pub(crate) prepared: Arc<Prepared>,
    /// What the client wrote.
    text: Arc<str>,
    from_sql: bool,
    /// In microseconds since 1970.
    since_us: i64,
    /// How often it was to run.
    runs: AtomicU64,
}

impl Named {
    pub(crate) fn new(prepared: Arc<Prepared>, text: Arc<str>, from_sql: bool) -> Named {
        Named { prepared, text, from_sql, since_us: now_us(), runs: AtomicU64::new(0) }
    }

    /// Its statement, which is to run now.
    pub(crate) fn to_run(&self) -> &Arc<Prepared> {
        self.runs.fetch_add(1, Ordering::Relaxed);
        &self.prepared
    }

    /// Its row of pg_prepared_statements. No plan is made for the values of a run's parameters: all are generic.
    pub(crate) fn row(&self, name: &str) -> PreparedRow {
        PreparedRow {
            name: name.to_owned(),
            statement: self.text.to_string(),
            prepared_us: self.since_us,
            parameters: self.prepared.params.iter().map(|ty| ty.oid).collect(),
            from_sql: self.from_sql,
            runs: self.runs.load(Ordering::Relaxed),
        }
    }
}

/// A plan and what it depends on.
pub(crate) struct CachedPlan {
    /// The catalog.
    pub(crate) stamp: u64,
    /// `froglet.fast_path`
    pub(crate) fast: bool,
    /// `search_path`
    pub(crate) path: Arc<[String]>,
    /// Who runs it.
    pub(crate) user: Arc<str>,
    /// Why he may not.
    pub(crate) denied: Option<Box<SqlError>>,
    /// `timezone`, in which literals were read.
    pub(crate) timezone: Arc<str>,
    /// DateStyle and the like, in which literals were read and constants printed.
    pub(crate) style: Style,
    pub(crate) plan: Plan,
    /// The tables that it uses, once it has run.
    pub(crate) uses: OnceLock<Box<[Use]>>,
    /// How the plan's results become what was described, where they differ.
    pub(crate) conversion: Option<Conversion>,
}

impl CachedPlan {
    /// The same, which the user may run or not.
    pub(crate) fn that_may(self, denied: Option<Box<SqlError>>) -> CachedPlan {
        CachedPlan { denied, ..self }
    }

    /// A plan made under the catalog of this stamp, and with these settings.
    pub(crate) fn new(plan: Plan, stamp: u64, hot: &Hot) -> CachedPlan {
        CachedPlan {
            stamp,
            fast: hot.fast_path,
            path: hot.search_path.clone(),
            user: hot.user.clone(),
            denied: None,
            timezone: hot.timezone.clone(),
            style: hot.zone.style(),
            plan,
            uses: OnceLock::new(),
            conversion: None,
        }
    }

    /// Whether it was made under the catalog of this stamp, and with these settings.
    pub(crate) fn was_made_under(&self, stamp: u64, hot: &Hot) -> bool {
        self.stamp == stamp
            && self.fast == hot.fast_path
            && self.path == hot.search_path
            && self.user == hot.user
            && self.timezone == hot.timezone
            && self.style == hot.zone.style()
    }
}

impl Prepared {
    /// What Parse of an empty string makes.
    pub fn empty() -> Arc<Prepared> {
        Arc::new(Prepared {
            statement: ParsedStatement::empty(),
            params: Arc::from([]),
            param_types: Arc::from([]),
            undetermined: None,
            fields: None,
            inner: None,
            origins: Arc::from([]),
            lifted: false,
            plan: Mutex::new(None),
        })
    }

    /// Its text.
    pub fn sql(&self) -> &str {
        &self.statement.sql
    }

    /// Types of its parameters as the client knows them.
    pub fn params(&self) -> &[SqlType] {
        &self.params
    }

    /// Types of the values that [`crate::Session::run`] takes for its parameters.
    pub fn param_types(&self) -> &[ColumnType] {
        &self.param_types
    }

    /// Its result, if it has rows.
    pub fn fields(&self) -> Option<&Arc<[Field]>> {
        self.fields.as_ref()
    }

    /// Whether it runs in a failed transaction: COMMIT, ROLLBACK, ROLLBACK TO.
    pub fn allowed_in_failed(&self) -> bool {
        self.statement.command.ends_failure()
    }

    /// The statement to plan where the plan at hand does not do, and the types of the parameters
    /// that stand in it.
    pub(crate) fn to_plan(&self) -> Result<(Arc<Command>, &[SqlType]), SqlError> {
        if !self.lifted {
            return Ok((self.statement.command.clone(), &self.params));
        }
        let statements = crate::parse::split(&self.statement.sql, &mut Vec::new())?;
        let written = statements.into_iter().next();
        Ok((written.map_or_else(|| self.statement.command.clone(), |one| one.command), &[]))
    }

    /// Whether there is nothing to run.
    pub fn is_empty(&self) -> bool {
        matches!(*self.statement.command, Command::Empty)
    }
}

impl std::fmt::Debug for Prepared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Prepared({})", self.statement.sql)
    }
}
