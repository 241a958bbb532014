//! Constraints, as CREATE TABLE and ALTER TABLE have them.

use datafusion::sql::sqlparser::ast::{
    CheckConstraint, ConstraintCharacteristics, ConstraintReferenceMatchKind, DeferrableInitial,
    Expr, ForeignKeyConstraint, Ident, IndexColumn, ReferentialAction, TableConstraint,
};
use froglet_engine::SqlState;
use froglet_schema::def::Timing;
use froglet_schema::{ForeignKeyAction, NewConstraint, NewForeignKey, TableDef, TableVersion};

use crate::command::fold;
use crate::ddl::Ddl;
use crate::ddl_column::refuse_deferrable;
use crate::ddl_compile::violated_by_some_row;
use crate::error::SqlError;
use crate::{stored, stored_names, types};

impl Ddl<'_> {
    /// A constraint of a table: one that is yet to be made, described by `def` alone, or one
    /// with rows, which a check is compiled for. `made` are those of the same statement.
    pub(crate) fn constraint(
        &self,
        constraint: &TableConstraint,
        def: &TableDef,
        rows: Option<&TableVersion>,
        made: &[NewConstraint],
    ) -> Result<NewConstraint, SqlError> {
        match constraint {
            TableConstraint::PrimaryKey(key) => {
                refuse_deferrable(&key.characteristics)?;
                if made.iter().any(|c| matches!(c, NewConstraint::PrimaryKey { .. })) {
                    return Err(SqlError::new(
                        SqlState::INVALID_TABLE_DEFINITION,
                        format!("multiple primary keys for table \"{}\" are not allowed", def.name),
                    ));
                }
                let columns = key_columns(&key.columns, def)?;
                Ok(NewConstraint::PrimaryKey { name: name_of(&key.name), columns })
            }
            TableConstraint::Unique(key) => {
                refuse_deferrable(&key.characteristics)?;
                let columns = key_columns(&key.columns, def)?;
                Ok(NewConstraint::Unique { name: name_of(&key.name), columns })
            }
            TableConstraint::Check(check) => self.check_constraint(check, def, rows),
            TableConstraint::ForeignKey(key) => self.foreign_key(key, def),
            TableConstraint::PrimaryKeyUsingIndex(_) | TableConstraint::UniqueUsingIndex(_) => {
                Err(SqlError::unsupported("a constraint USING INDEX"))
            }
            other => Err(SqlError::unsupported(format!("the constraint {other}"))),
        }
    }

    fn check_constraint(
        &self,
        check: &CheckConstraint,
        def: &TableDef,
        rows: Option<&TableVersion>,
    ) -> Result<NewConstraint, SqlError> {
        if check.enforced == Some(false) {
            return Err(SqlError::unsupported("a constraint that is NOT ENFORCED"));
        }
        let exists = |name: &str| def.column(name).is_some();
        let mut numbered = (*check.expr).clone();
        stored_names::to_numbers(&mut numbered, &self.names());
        let (expression, columns) = stored::store_check(&numbered, &def.name, &exists)?;
        let compiled = self.condition(&check.expr, def)?;
        let given = name_of(&check.name);
        let Some(_) = rows else {
            return Ok(NewConstraint::Check { name: given, expression, columns, check: None });
        };
        let name = given.unwrap_or_else(|| check_name(def, &columns));
        let check = self.row_check(compiled, def, violated_by_some_row(def, &name));
        Ok(NewConstraint::Check { name: Some(name), expression, columns, check: Some(check) })
    }

    fn foreign_key(
        &self,
        key: &ForeignKeyConstraint,
        def: &TableDef,
    ) -> Result<NewConstraint, SqlError> {
        let timing = timing(&key.characteristics)?;
        if matches!(
            key.match_kind,
            Some(ConstraintReferenceMatchKind::Full | ConstraintReferenceMatchKind::Partial)
        ) {
            return Err(SqlError::unsupported("MATCH FULL or PARTIAL"));
        }
        let columns: Vec<String> = key.columns.iter().map(fold).collect();
        for column in &columns {
            require(def, column, "referenced in foreign key constraint does not exist")?;
        }
        let parent = self.parent(&key.foreign_table, def)?;
        let parent_def = match parent {
            Some(id) => self.version.tables.get(&id).map_or(def, |table| &table.def),
            None => def,
        };
        let parent_columns: Vec<String> = key.referred_columns.iter().map(fold).collect();
        for column in &parent_columns {
            require(parent_def, column, "referenced in foreign key constraint does not exist")?;
        }
        if parent.is_some() {
            self.check_references(parent_def, &parent_columns)?;
        }
        let name = name_of(&key.name);
        comparable(&name, def, &columns, parent_def, &parent_columns)?;
        let key = NewForeignKey {
            columns,
            parent,
            parent_columns,
            on_delete: action(key.on_delete),
            on_update: action(key.on_update),
            timing,
        };
        Ok(NewConstraint::ForeignKey { name, key })
    }
}

/// When a foreign key is checked.
fn timing(characteristics: &Option<ConstraintCharacteristics>) -> Result<Timing, SqlError> {
    let Some(said) = characteristics else { return Ok(Timing::NotDeferrable) };
    if said.enforced == Some(false) {
        return Err(SqlError::unsupported("a constraint that is NOT ENFORCED"));
    }
    let deferred = said.initially == Some(DeferrableInitial::Deferred);
    match (said.deferrable, deferred) {
        (Some(false), true) => Err(SqlError::new(
            SqlState::SYNTAX_ERROR,
            "constraint declared INITIALLY DEFERRED must be DEFERRABLE",
        )),
        (_, true) => Ok(Timing::InitiallyDeferred),
        (Some(true), false) => Ok(Timing::InitiallyImmediate),
        (_, false) => Ok(Timing::NotDeferrable),
    }
}

/// 42804 where a child's column can never equal its parent's.
fn comparable(
    name: &Option<String>,
    child: &TableDef,
    columns: &[String],
    parent: &TableDef,
    parent_columns: &[String],
) -> Result<(), SqlError> {
    let parent_columns: Vec<String> = match (parent_columns.is_empty(), parent.primary_key()) {
        (true, Some(key)) => key
            .spec
            .key
            .iter()
            .filter_map(|part| parent.column_by_id(part.column))
            .map(|column| column.name.clone())
            .collect(),
        // A parent in the making has no indexes yet; froglet-schema finds its key.
        (true, None) => return Ok(()),
        (false, _) => parent_columns.to_vec(),
    };
    if parent_columns.len() != columns.len() {
        return Err(SqlError::new(
            SqlState::INVALID_FOREIGN_KEY,
            "number of referencing and referenced columns for foreign key disagree",
        ));
    }
    for (a, b) in columns.iter().zip(&parent_columns) {
        let (Some(from), Some(to)) = (child.column(a), parent.column(b)) else { continue };
        if kind(from.ty) == kind(to.ty) {
            continue;
        }
        let chosen = name.clone().unwrap_or_else(|| format!("{}_{a}_fkey", child.name));
        return Err(SqlError::new(
            SqlState::DATATYPE_MISMATCH,
            format!("foreign key constraint \"{chosen}\" cannot be implemented"),
        )
        .detail(format!(
            "Key columns \"{a}\" and \"{b}\" are of incompatible types: {} and {}.",
            types::type_name(from.sql_type),
            types::type_name(to.sql_type)
        )));
    }
    Ok(())
}

/// Types whose values have counterparts in one another (see [`crate::key::fit`]).
fn kind(ty: froglet_engine::ColumnType) -> u8 {
    use froglet_engine::ColumnType as T;
    match ty {
        T::Int16 | T::Int32 | T::Int64 | T::Decimal { .. } => 0,
        T::Float32 | T::Float64 => 1,
        T::Bool => 2,
        T::Text => 3,
        T::Bytes => 4,
        T::Date => 5,
        T::Timestamp => 6,
        T::TimestampTz => 7,
        T::Uuid => 8,
        T::Time => 9,
        T::Interval => 10,
    }
}

fn require(def: &TableDef, column: &str, what: &str) -> Result<(), SqlError> {
    match def.column(column) {
        Some(_) => Ok(()),
        None => {
            Err(SqlError::new(SqlState::UNDEFINED_COLUMN, format!("column \"{column}\" {what}")))
        }
    }
}

fn action(action: Option<ReferentialAction>) -> ForeignKeyAction {
    match action {
        None | Some(ReferentialAction::NoAction) => ForeignKeyAction::NoAction,
        Some(ReferentialAction::Restrict) => ForeignKeyAction::Restrict,
        Some(ReferentialAction::Cascade) => ForeignKeyAction::Cascade,
        Some(ReferentialAction::SetNull) => ForeignKeyAction::SetNull,
        Some(ReferentialAction::SetDefault) => ForeignKeyAction::SetDefault,
    }
}

fn key_columns(columns: &[IndexColumn], def: &TableDef) -> Result<Vec<String>, SqlError> {
    let mut names = Vec::with_capacity(columns.len());
    for column in columns {
        let Expr::Identifier(ident) = &column.column.expr else {
            return Err(SqlError::unsupported("a key on an expression"));
        };
        let name = fold(ident);
        require(def, &name, "named in key does not exist")?;
        if names.contains(&name) {
            return Err(SqlError::new(
                SqlState::DUPLICATE_COLUMN,
                format!("column \"{name}\" appears twice in a key"),
            ));
        }
        names.push(name);
    }
    Ok(names)
}

fn name_of(name: &Option<Ident>) -> Option<String> {
    name.as_ref().map(fold)
}

/// As PostgreSQL names a check.
fn check_name(def: &TableDef, columns: &[String]) -> String {
    let base = match columns {
        [column] => format!("{}_{column}_check", def.name),
        _ => format!("{}_check", def.name),
    };
    let mut name = base.clone();
    let mut n = 0;
    while def.constraint(&name).is_some() {
        n += 1;
        name = format!("{base}{n}");
    }
    name
}
