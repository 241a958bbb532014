//! EXPLAIN ALTER TABLE: kind, rows, bytes and mode of every action, before anything is done.

use datafusion::sql::sqlparser::ast::{
    AlterColumnOperation, AlterTable, AlterTableOperation, Expr, Statement, TableConstraint,
};
use froglet_schema::TableVersion;

use crate::command::fold;
use crate::ddl_alter::new_column;
use crate::ddl_column::{self, Source};
use crate::ddl_compile::keeps_cells;
use crate::error::SqlError;
use crate::expr::{RowExpr, Scope};
use crate::resolve::Names;
use crate::settings::Settings;
use crate::types;

/// What data work an action is (DESIGN, section 5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Metadata,
    Verify,
    Column,
    Index,
}

impl Kind {
    fn as_str(self) -> &'static str {
        match self {
            Kind::Metadata => "metadata",
            Kind::Verify => "verify",
            Kind::Column => "column",
            Kind::Index => "index",
        }
    }

    fn work(self) -> &'static str {
        match self {
            Kind::Metadata => "none: no row is read or written",
            Kind::Verify => "every row is read",
            Kind::Column => "one column of every row is computed; the others are shared",
            Kind::Index => "every row is entered into an index",
        }
    }
}

/// The lines of the answer.
pub(crate) fn lines(
    names: &Names<'_>,
    statement: &Statement,
    settings: &Settings,
) -> Result<Vec<String>, SqlError> {
    let Statement::AlterTable(alter) = statement else {
        return Err(SqlError::unsupported("EXPLAIN of this statement"));
    };
    let table = names.table(&alter.name)?;
    let mode = match settings.get("froglet.migration") {
        "lazy" => "eager (lazy migrations are not supported yet)",
        _ => "eager",
    };
    let mut lines = vec![format!(
        "Alter Table on {}  (rows≈{} bytes≈{} mode={mode})",
        table.def.name,
        table.table.row_estimate(),
        table.table.bytes_estimate()
    )];
    for operation in &alter.operations {
        for (what, kind) in kinds(table, alter, operation)? {
            lines.push(format!("  ->  {what}  (kind={})", kind.as_str()));
            lines.push(format!("        Work: {}", kind.work()));
        }
    }
    Ok(lines)
}

fn kinds(
    table: &TableVersion,
    alter: &AlterTable,
    operation: &AlterTableOperation,
) -> Result<Vec<(String, Kind)>, SqlError> {
    use AlterTableOperation as Op;
    let _ = alter;
    let kind = match operation {
        Op::AddColumn { column_def, .. } => return add_column(operation, column_def),
        Op::AlterColumn { column_name, op } => match op {
            AlterColumnOperation::SetNotNull => Kind::Verify,
            AlterColumnOperation::SetDataType { data_type, using, .. } => {
                return alter_type(table, operation, &fold(column_name), data_type, using);
            }
            _ => Kind::Metadata,
        },
        Op::AddConstraint { constraint, .. } => constraint_kind(constraint),
        _ => Kind::Metadata,
    };
    Ok(vec![(operation.to_string(), kind)])
}

fn constraint_kind(constraint: &TableConstraint) -> Kind {
    match constraint {
        TableConstraint::PrimaryKey(_) | TableConstraint::Unique(_) => Kind::Index,
        _ => Kind::Verify,
    }
}

fn add_column(
    operation: &AlterTableOperation,
    def: &datafusion::sql::sqlparser::ast::ColumnDef,
) -> Result<Vec<(String, Kind)>, SqlError> {
    let plan = ddl_column::plan(def)?;
    let kind = match &plan.source {
        Source::Nothing => Kind::Metadata,
        Source::Sequence(_) | Source::Generated(_) => Kind::Column,
        Source::Default(expr) => {
            let column = &plan.column;
            let scope = Scope::empty();
            let (ty, sql_type) = (column.ty, column.sql_type);
            let compiled = RowExpr::compile_for(&scope, expr, &[], &column.name, ty, sql_type)?;
            if compiled.volatile() { Kind::Column } else { Kind::Metadata }
        }
    };
    let mut kinds = vec![(operation.to_string(), kind)];
    for constraint in &plan.constraints {
        kinds.push((format!("ADD {constraint}"), constraint_kind(constraint)));
    }
    Ok(kinds)
}

fn alter_type(
    table: &TableVersion,
    operation: &AlterTableOperation,
    column: &str,
    data_type: &datafusion::sql::sqlparser::ast::DataType,
    using: &Option<Expr>,
) -> Result<Vec<(String, Kind)>, SqlError> {
    let def = table.def.column(column).ok_or_else(|| {
        SqlError::new(
            froglet_engine::SqlState::UNDEFINED_COLUMN,
            format!("column \"{column}\" of relation \"{}\" does not exist", table.def.name),
        )
    })?;
    let mut new = new_column(def);
    (new.ty, new.sql_type) = types::parse_type(data_type)?;
    if using.is_none() && keeps_cells(def, &new) {
        return Ok(vec![(operation.to_string(), Kind::Metadata)]);
    }
    let mut kinds = vec![(operation.to_string(), Kind::Column)];
    for index in &table.def.indexes {
        if index.spec.key.iter().any(|part| part.column == def.id) {
            kinds.push((format!("rebuild index {}", index.name), Kind::Index));
        }
    }
    for (name, check) in table.def.checks() {
        if check.columns.contains(&def.id) {
            kinds.push((format!("verify check {name}"), Kind::Verify));
        }
    }
    Ok(kinds)
}
