//! Column definitions, as CREATE TABLE and ADD COLUMN have them.

use datafusion::sql::sqlparser::ast::{
    self, ColumnOption, DataType, Expr, GeneratedAs, TableConstraint,
};
use froglet_engine::SqlState;
use froglet_schema::{NewColumn, TableDef};

use crate::command::fold;
use crate::error::SqlError;
use crate::sequence_ddl::{Options, of_identity};
use crate::types::{self, oids, plain};

/// Where a new column's values come from when a row does not give them.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    /// NULL
    Nothing,
    /// DEFAULT
    Default(Expr),
    /// A sequence of its own.
    Sequence(Box<Serial>),
    /// GENERATED ALWAYS AS (…) STORED
    Generated(Expr),
}

/// serial, or GENERATED … AS IDENTITY.
#[derive(Clone, Debug)]
pub(crate) struct Serial {
    /// `None` for serial; else whether GENERATED ALWAYS.
    pub(crate) identity: Option<bool>,
    pub(crate) options: Options,
}

/// A column definition, taken apart.
pub(crate) struct ColumnPlan {
    /// Its default is filled in when the source has been compiled.
    pub(crate) column: NewColumn,
    pub(crate) source: Source,
    /// Constraints that were written beside it, as table constraints.
    pub(crate) constraints: Vec<TableConstraint>,
}

pub(crate) fn plan(def: &ast::ColumnDef) -> Result<ColumnPlan, SqlError> {
    let name = fold(&def.name);
    check_name(&name)?;
    let (ty, sql_type, serial) = match serial_type(&def.data_type) {
        Some(oid) => {
            let ty = types::column_type_of(oid, -1).expect("an integer type");
            (ty, plain(oid), true)
        }
        None => {
            let (ty, sql_type) = types::parse_type(&def.data_type)?;
            (ty, sql_type, false)
        }
    };
    let column = NewColumn { name, ty, sql_type, not_null: serial, default: None };
    let source = match serial {
        true => Source::Sequence(Box::new(Serial { identity: None, options: Options::default() })),
        false => Source::Nothing,
    };
    let mut plan = ColumnPlan { column, source, constraints: Vec::new() };
    let mut nullable_said = false;
    for option in &def.options {
        apply_option(&mut plan, option, &def.name, &mut nullable_said)?;
    }
    if nullable_said && plan.column.not_null {
        return Err(SqlError::new(
            SqlState::SYNTAX_ERROR,
            format!("conflicting NULL/NOT NULL declarations for column \"{}\"", plan.column.name),
        ));
    }
    Ok(plan)
}

fn apply_option(
    plan: &mut ColumnPlan,
    option: &ast::ColumnOptionDef,
    column: &ast::Ident,
    nullable_said: &mut bool,
) -> Result<(), SqlError> {
    let name = option.name.clone();
    match &option.option {
        ColumnOption::Null => *nullable_said = true,
        ColumnOption::NotNull => plan.column.not_null = true,
        ColumnOption::Default(expr) => set_source(plan, Source::Default(expr.clone()))?,
        ColumnOption::PrimaryKey(key) => {
            let mut key = key.clone();
            key.name = name.or(key.name);
            key.columns = vec![ast::IndexColumn::from(column.clone())];
            plan.constraints.push(TableConstraint::PrimaryKey(key));
        }
        ColumnOption::Unique(key) => {
            let mut key = key.clone();
            key.name = name.or(key.name);
            key.columns = vec![ast::IndexColumn::from(column.clone())];
            plan.constraints.push(TableConstraint::Unique(key));
        }
        ColumnOption::ForeignKey(key) => {
            let mut key = key.clone();
            key.name = name.or(key.name);
            key.columns = vec![column.clone()];
            plan.constraints.push(TableConstraint::ForeignKey(key));
        }
        ColumnOption::Check(check) => {
            let mut check = check.clone();
            check.name = name.or(check.name);
            plan.constraints.push(TableConstraint::Check(check));
        }
        ColumnOption::Collation(collation) => {
            let name = collation.to_string();
            if !crate::token_forms::is_known_collation(&name) {
                return Err(SqlError::unsupported(format!("collation {name}")));
            }
        }
        ColumnOption::Generated { generated_as, sequence_options, generation_expr, .. } => {
            let source = match (generated_as, generation_expr) {
                (_, Some(expr)) => Source::Generated(expr.clone()),
                (GeneratedAs::Always | GeneratedAs::ByDefault, None) => {
                    plan.column.not_null = true;
                    identity_type(plan)?;
                    Source::Sequence(Box::new(Serial {
                        identity: Some(*generated_as == GeneratedAs::Always),
                        options: of_identity(sequence_options.as_deref().unwrap_or_default())?,
                    }))
                }
                (GeneratedAs::ExpStored, None) => {
                    return Err(SqlError::unsupported("this form of GENERATED"));
                }
            };
            set_source(plan, source)?;
        }
        other => return Err(SqlError::unsupported(format!("the column option {other}"))),
    }
    Ok(())
}

fn identity_type(plan: &ColumnPlan) -> Result<(), SqlError> {
    match plan.column.sql_type.oid {
        oids::INT2 | oids::INT4 | oids::INT8 => Ok(()),
        _ => Err(SqlError::new(
            SqlState::INVALID_PARAMETER_VALUE,
            "identity column type must be smallint, integer, or bigint",
        )),
    }
}

fn set_source(plan: &mut ColumnPlan, source: Source) -> Result<(), SqlError> {
    if matches!(plan.source, Source::Nothing) {
        plan.source = source;
        return Ok(());
    }
    Err(SqlError::new(
        SqlState::SYNTAX_ERROR,
        format!("multiple default values specified for column \"{}\"", plan.column.name),
    ))
}

/// The integer type behind serial and its sisters.
fn serial_type(ty: &DataType) -> Option<u32> {
    let DataType::Custom(name, modifiers) = ty else { return None };
    if !modifiers.is_empty() {
        return None;
    }
    match name.to_string().to_ascii_lowercase().as_str() {
        "serial" | "serial4" => Some(oids::INT4),
        "bigserial" | "serial8" => Some(oids::INT8),
        "smallserial" | "serial2" => Some(oids::INT2),
        _ => None,
    }
}

/// Names of system columns are taken.
pub(crate) fn check_name(name: &str) -> Result<(), SqlError> {
    if ["tableoid", "xmin", "cmin", "xmax", "cmax", "ctid", "_rid"].contains(&name) {
        return Err(SqlError::new(
            SqlState::DUPLICATE_COLUMN,
            format!("column name \"{name}\" conflicts with a system column name"),
        ));
    }
    Ok(())
}

/// A table definition of columns that are yet to be made, with the ids they will have: what
/// expressions are compiled against.
pub(crate) fn draft(schema: &str, name: &str, columns: &[NewColumn]) -> TableDef {
    let mut def = TableDef {
        id: 0,
        schema: schema.to_owned(),
        name: name.to_owned(),
        engine: String::new(),
        space: froglet_engine::SpaceId(0),
        columns: Vec::new(),
        row_key: None,
        indexes: Vec::new(),
        constraints: Vec::new(),
        referenced_by: Vec::new(),
        dictionary: None,
        lazy: None,
        lazy_columns: Vec::new(),
        hidden: Vec::new(),
    };
    for column in columns {
        add_to_draft(&mut def, column);
    }
    def
}

pub(crate) fn add_to_draft(def: &mut TableDef, column: &NewColumn) {
    def.columns.push(froglet_schema::ColumnDef {
        id: next_draft_id(def),
        name: column.name.clone(),
        ty: column.ty,
        sql_type: column.sql_type,
        not_null: column.not_null,
        default: column.default.clone(),
        missing: froglet_engine::Value::Null,
        dictionary: None,
        labels: Vec::new(),
    });
}

/// CREATE TABLE numbers columns from 1.
fn next_draft_id(def: &TableDef) -> froglet_engine::ColumnId {
    froglet_engine::ColumnId(1 + def.columns.iter().map(|c| c.id.0).max().unwrap_or(0))
}
