//! EXPLAIN of schema changes: kind, rows, bytes, mode and expected time of every action, before anything
//! is done.

use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{
    AlterColumnOperation, AlterTableOperation, CreateTable, Expr, Statement, TableConstraint,
};
use froglet_engine::{Home, Snapshot};
use froglet_schema::{Detection, LazyQuery, LazyVerify, TableVersion};

use crate::command::fold;
use crate::ddl_alter::new_column;
use crate::ddl_column::{self, Source};
use crate::ddl_compile::keeps_cells;
use crate::ddl_table_as::Choice as TableChoice;
use crate::error::SqlError;
use crate::expr::{RowExpr, Scope};
use crate::functions::SessionState;
use crate::lazy_column::{self, Choice, Computation, From, constrained, depends_on};
use crate::lazy_query::Mode;
use crate::resolve::Names;
use crate::settings::{Hot, Settings};
use crate::syntax::access_method;
use crate::table_query::{self, Lazily, MadeTable};
use crate::types;

/// What data work an action is (DESIGN, section 5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Metadata,
    Verify,
    Column,
    Index,
    Table,
    Move,
}

impl Kind {
    fn as_str(self) -> &'static str {
        match self {
            Kind::Metadata => "metadata",
            Kind::Verify => "verify",
            Kind::Column => "column",
            Kind::Index => "index",
            Kind::Table | Kind::Move => "table",
        }
    }

    fn work(self) -> &'static str {
        match self {
            Kind::Metadata => "none: no row is read or written",
            Kind::Verify => "every row is read",
            Kind::Column => "one column of every row is computed; the others are shared",
            Kind::Index => "every row is entered into an index",
            Kind::Table => "every row is read, and rows of a new table are written",
            Kind::Move => "every row is read, written elsewhere, and entered into every index",
        }
    }

    /// How long that takes, about: rows a second as `froglet bench ddl` measures them where nothing else
    /// wants the core, in round numbers.
    fn seconds(self, rows: u64) -> f64 {
        let per_second = match self {
            Kind::Metadata => return 0.0,
            Kind::Verify => 20e6,
            Kind::Column => 12e6,
            Kind::Index | Kind::Table => 2e6,
            Kind::Move => 2e5,
        };
        rows as f64 / per_second
    }
}

/// The lines of the answer.
pub(crate) fn lines(
    names: &Names<'_>,
    statement: &Statement,
    settings: &Settings,
    session: &Arc<SessionState>,
    snapshot: &Snapshot,
    hindrance: &dyn Fn(&LazyQuery) -> Option<&'static str>,
) -> Result<Vec<String>, SqlError> {
    let wanted = Mode::parse(settings.get("froglet.migration"))?;
    match statement {
        Statement::AlterTable(alter) => {
            let table = names.table(&alter.name)?;
            let mut actions = Vec::new();
            for operation in &alter.operations {
                actions.extend(kinds(session, table, operation, wanted)?);
            }
            Ok(table_lines("Alter Table", table, &actions))
        }
        Statement::CreateIndex(create) => {
            let table = names.table(&create.table_name)?;
            let action = Action::new(create.to_string(), Kind::Index);
            Ok(table_lines("Create Index", table, &[action]))
        }
        Statement::CreateTable(CreateTable { name, query: Some(query), table_options, .. }) => {
            let made = table_query::plan(names, session, snapshot, query)?;
            let wanted = Mode::of(table_options)?.unwrap_or(wanted);
            Ok(table_as_lines(
                names,
                &Names::parts(name)?.1,
                made,
                wanted,
                settings.hot(),
                hindrance,
            ))
        }
        _ => Err(SqlError::unsupported("EXPLAIN of this statement")),
    }
}

/// One action of a statement.
struct Action {
    text: String,
    kind: Kind,
    /// Of a column that is computed: when, and why, or why that cannot be.
    mode: Option<Result<Choice, SqlError>>,
    /// A table is moved after the commit.
    moves_lazily: bool,
    /// It is one of a cluster.
    is_in_cluster: bool,
}

impl Action {
    fn new(text: String, kind: Kind) -> Action {
        Action { text, kind, mode: None, moves_lazily: false, is_in_cluster: false }
    }

    fn is_lazy(&self) -> bool {
        self.moves_lazily || matches!(self.mode, Some(Ok(Choice::Lazy(..))))
    }

    /// How long its statement takes.
    fn seconds(&self, rows: u64) -> f64 {
        match &self.mode {
            Some(Ok(Choice::Lazy(lazily, _))) if lazily.is_verified() => Kind::Verify.seconds(rows),
            _ if self.is_lazy() => 0.0,
            _ => self.kind.seconds(rows),
        }
    }

    fn lines(&self, rows: u64) -> Vec<String> {
        let mut lines = vec![format!("  ->  {}  (kind={})", self.text, self.kind.as_str())];
        if self.is_lazy() {
            let time = shown_time(self.kind.seconds(rows));
            let (touched, tracker) = match (self.is_in_cluster, self.moves_lazily) {
                (true, _) => ("written", "the rows that are left where they were"),
                (false, true) => ("touched", "a bitmap, two bits a row"),
                (false, false) => ("written", "a hidden column, nine bits a row"),
            };
            lines.push(format!(
                "        Work: after the commit, when rows are {touched} and in the background, about {time}"
            ));
            lines.push(format!("        Tracker: {tracker}"));
        } else {
            lines.push(format!("        Work: {}", self.kind.work()));
        }
        match &self.mode {
            None => {}
            Some(Ok(choice)) => lines.push(format!("        Mode: {}", choice.text())),
            Some(Err(refused)) => {
                let why = refused.detail.as_deref().unwrap_or(&refused.message);
                lines.push(format!("        Mode: none, it cannot be lazy. {why}"));
            }
        }
        if let Some(Ok(Choice::Lazy(lazily, _))) = &self.mode
            && lazily.is_verified()
        {
            lines.push("        Verify: before the commit, it is run over every row".to_owned());
        }
        lines
    }
}

fn table_lines(what: &str, table: &TableVersion, actions: &[Action]) -> Vec<String> {
    let rows = table.table.row_estimate();
    let time = actions.iter().map(|action| action.seconds(rows)).sum();
    let mode = if actions.iter().any(Action::is_lazy) { "lazy" } else { "eager" };
    let mut lines = vec![format!(
        "{what} on {}  (rows≈{rows} bytes≈{} time≈{} mode={mode})",
        table.def.name,
        table.table.bytes_estimate(),
        shown_time(time)
    )];
    lines.extend(actions.iter().flat_map(|action| action.lines(rows)));
    lines
}

fn table_as_lines(
    names: &Names<'_>,
    name: &str,
    made: MadeTable,
    wanted: Mode,
    settings: &Hot,
    hindrance: &dyn Fn(&LazyQuery) -> Option<&'static str>,
) -> Vec<String> {
    let MadeTable { units, row_estimate: rows, bytes_estimate: bytes, lazily, .. } = made;
    let is_large = rows >= settings.migration_auto_rows;
    let mode = match TableChoice::of(wanted, lazily, hindrance, is_large, name) {
        Ok(TableChoice::Lazy(lazily, why)) => {
            return lazy_lines(names, name, (rows, bytes), wanted, settings, (&lazily, why));
        }
        Ok(TableChoice::Eager(why)) => format!("eager, {why}"),
        Err(e) => format!("none, it cannot be lazy. {}", e.detail.unwrap_or(e.message)),
    };
    let word = mode.split(',').next().expect("there is a first word").to_owned();
    let time = shown_time(Kind::Table.seconds(rows));
    let mut lines =
        vec![format!("Create Table {name}  (rows≈{rows} bytes≈{bytes} time≈{time} mode={word})")];
    for (at, unit) in units.texts.iter().enumerate() {
        let what = match at + 1 {
            last if last == units.texts.len() => "AS query".to_owned(),
            stage => format!("stage {stage}"),
        };
        lines.push(format!("  ->  {what}  (kind={})", Kind::Table.as_str()));
        lines.push(format!("        Work: {}", Kind::Table.work()));
        // Of a query that reads no table there is nothing to be made again.
        if !unit.is_empty() {
            lines.push(format!("        Unit: {unit}"));
        }
    }
    lines.push(format!("        Mode: {mode}"));
    lines
}

fn lazy_lines(
    names: &Names<'_>,
    name: &str,
    (rows, bytes): (u64, u64),
    mode: Mode,
    settings: &Hot,
    (lazily, why): (&Lazily, &str),
) -> Vec<String> {
    let mode = if mode == Mode::Hybrid { "hybrid" } else { "lazy" };
    let verify = match &lazily.verify {
        LazyVerify::Nothing => None,
        LazyVerify::Query => Some("the query is run over every row".to_owned()),
        LazyVerify::Within(columns, bound) => Some(format!(
            "{} columns of every row are looked at: nothing overflows if they are within {bound}",
            columns.len()
        )),
    };
    let tables = lazily.query.tables();
    let sources: Vec<_> = tables.iter().filter_map(|id| names.catalog.tables.get(id)).collect();
    let moves = sources.iter().any(|table| table.def.space.home() == Home::Cluster);
    let found_out = match settings.detection {
        Detection::Tracker => "claimed before they are made",
        Detection::OnConflict => "made before it is seen who was first",
    };
    let tracker = match moves {
        true => "none: a row is in the one table until it is in the other".to_owned(),
        false => format!("{}; {found_out}", lazily.tracker()),
    };
    let is_of_rows = matches!(lazily.query, LazyQuery::Rows(..));
    let kept_with = sources.first().filter(|_| moves && is_of_rows).map(|source| {
        let name = &source.def.name;
        match settings.slsm_colocate {
            true => format!("rows of \"{name}\", if its primary key is to begin with theirs"),
            false => "its own rows (froglet.slsm_colocate is off)".to_owned(),
        }
    });
    let time = verify.as_ref().map_or(0.0, |_| Kind::Verify.seconds(rows));
    let mut lines = vec![
        format!(
            "Create Table {name}  (rows≈{rows} bytes≈{bytes} time≈{} mode={mode})",
            shown_time(time)
        ),
        "  ->  AS query  (kind=table)".to_owned(),
        format!(
            "        Work: after the commit, when rows are touched and in the background, about {}",
            shown_time(Kind::Table.seconds(rows))
        ),
        format!("        Unit: {}", lazily.unit),
        format!("        Tracker: {tracker}"),
        format!("        Mode: {mode}, {why}"),
    ];
    lines.extend(kept_with.map(|rows| format!("        Kept with: {rows}")));
    lines.extend(lazily.join.iter().map(|join| format!("        Join: {}", join.text())));
    lines.extend(verify.map(|verify| format!("        Verify: before the commit, {verify}")));
    lines
}

fn shown_time(seconds: f64) -> String {
    if seconds < 1.0 {
        format!("{:.0} ms", (seconds * 1e3).ceil())
    } else {
        format!("{seconds:.1} s")
    }
}

fn kinds(
    session: &Arc<SessionState>,
    table: &TableVersion,
    operation: &AlterTableOperation,
    wanted: Mode,
) -> Result<Vec<Action>, SqlError> {
    use AlterTableOperation as Op;
    if let Some(method) = access_method::of(operation) {
        let is_there = access_method::named(&method) == Some(table.def.space.home());
        let kind = if is_there { Kind::Metadata } else { Kind::Move };
        let moves_lazily = !is_there && access_method::is_lazy(wanted);
        let text = format!("SET ACCESS METHOD {method}");
        return Ok(vec![Action { moves_lazily, ..Action::new(text, kind) }]);
    }
    let kind = match operation {
        Op::AddColumn { column_def, .. } => {
            return add_column(session, table, operation, column_def, wanted);
        }
        Op::AlterColumn { column_name, op } => match op {
            AlterColumnOperation::SetNotNull => Kind::Verify,
            AlterColumnOperation::SetDataType { data_type, using, .. } => {
                let (column, using) = (fold(column_name), using.as_ref());
                return alter_type(session, table, operation, &column, data_type, using, wanted);
            }
            _ => Kind::Metadata,
        },
        Op::AddConstraint { constraint, .. } => constraint_kind(constraint),
        _ => Kind::Metadata,
    };
    Ok(vec![Action::new(operation.to_string(), kind)])
}

fn constraint_kind(constraint: &TableConstraint) -> Kind {
    match constraint {
        TableConstraint::PrimaryKey(_) | TableConstraint::Unique(_) => Kind::Index,
        _ => Kind::Verify,
    }
}

fn add_column(
    session: &Arc<SessionState>,
    table: &TableVersion,
    operation: &AlterTableOperation,
    def: &datafusion::sql::sqlparser::ast::ColumnDef,
    wanted: Mode,
) -> Result<Vec<Action>, SqlError> {
    let plan = ddl_column::plan(def)?;
    let column = &plan.column;
    let mut mode = None;
    let kind = match &plan.source {
        Source::Nothing => Kind::Metadata,
        Source::Sequence(_) => Kind::Column,
        Source::Generated(expr) => {
            let from = From::Expression(expr);
            let computed = lazy_column::computation(session, from, &table.def, column)?;
            let computed = computed.but_for(constrained(&plan.constraints));
            mode = Some(choice(table, wanted, &computed, &column.name));
            Kind::Column
        }
        Source::Default(expr) => {
            let scope = Scope::empty();
            let (ty, sql_type) = (column.ty, column.sql_type);
            let compiled = RowExpr::compile_for(&scope, expr, &[], &column.name, ty, sql_type)?;
            if compiled.volatile() { Kind::Column } else { Kind::Metadata }
        }
    };
    let is_in_cluster = is_in_cluster(table);
    let action = Action::new(operation.to_string(), kind);
    let mut actions = vec![Action { mode, is_in_cluster, ..action }];
    for constraint in &plan.constraints {
        actions.push(Action::new(format!("ADD {constraint}"), constraint_kind(constraint)));
    }
    Ok(actions)
}

fn is_in_cluster(table: &TableVersion) -> bool {
    table.def.space.home() == Home::Cluster
}

/// When a column is computed.
fn choice(
    table: &TableVersion,
    wanted: Mode,
    computed: &Computation,
    column: &str,
) -> Result<Choice, SqlError> {
    match is_in_cluster(table) {
        true => Choice::in_cluster(wanted, computed, column),
        false => Choice::of(wanted, computed, column),
    }
}

fn alter_type(
    session: &Arc<SessionState>,
    table: &TableVersion,
    operation: &AlterTableOperation,
    column: &str,
    data_type: &datafusion::sql::sqlparser::ast::DataType,
    using: Option<&Expr>,
    wanted: Mode,
) -> Result<Vec<Action>, SqlError> {
    let def = table.def.column(column).ok_or_else(|| {
        SqlError::new(
            froglet_engine::SqlState::UNDEFINED_COLUMN,
            format!("column \"{column}\" of relation \"{}\" does not exist", table.def.name),
        )
    })?;
    let mut new = new_column(def);
    (new.ty, new.sql_type) = types::parse_type(data_type)?;
    if using.is_none() && keeps_cells(def, &new) {
        return Ok(vec![Action::new(operation.to_string(), Kind::Metadata)]);
    }
    let from = using.map_or(From::Column(def.id), From::Expression);
    let computed = lazy_column::computation(session, from, &table.def, &new)?;
    let computed = computed.but_for(depends_on(&table.def, def.id));
    let mode = Some(choice(table, wanted, &computed, column));
    let is_in_cluster = is_in_cluster(table);
    let action = Action::new(operation.to_string(), Kind::Column);
    let mut actions = vec![Action { mode, is_in_cluster, ..action }];
    // Rows that move are entered into all indexes.
    for index in table.def.indexes.iter().filter(|_| !is_in_cluster) {
        if index.spec.key.iter().any(|part| part.column == def.id) {
            actions.push(Action::new(format!("rebuild index {}", index.name), Kind::Index));
        }
    }
    for (name, check) in table.def.checks() {
        if check.columns.contains(&def.id) {
            actions.push(Action::new(format!("verify check {name}"), Kind::Verify));
        }
    }
    Ok(actions)
}
