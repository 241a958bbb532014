//! Constraints, as CREATE TABLE and ALTER TABLE have them.

use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{
    CheckConstraint, ConstraintCharacteristics, ConstraintReferenceMatchKind, ConstraintUsingIndex,
    DeferrableInitial, Expr, ForeignKeyConstraint, Ident, IndexColumn, NullsDistinctOption,
    ReferentialAction, TableConstraint,
};
use froglet_engine::{KeyPart, SqlState};
use froglet_schema::def::{ForeignKeyDef, Timing};
use froglet_schema::{
    Change, Check, ConstraintKind, ForeignKeyAction, NewConstraint, NewForeignKey, NewKey,
    TableDef, TableVersion,
};

use crate::apply::Stop;
use crate::command::fold;
use crate::ddl::Ddl;
use crate::ddl_compile::violated_by_some_row;
use crate::error::SqlError;
use crate::resolve::Relation;
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
                let timing = timing(&key.characteristics)?;
                if made.iter().any(|c| matches!(c, NewConstraint::PrimaryKey { .. })) {
                    return Err(SqlError::new(
                        SqlState::INVALID_TABLE_DEFINITION,
                        format!("multiple primary keys for table \"{}\" are not allowed", def.name),
                    ));
                }
                let (name, columns) = (name_of(&key.name), key_columns(&key.columns, def)?);
                let key = NewKey { name, columns, nulls_equal: false, timing };
                Ok(NewConstraint::PrimaryKey(key))
            }
            TableConstraint::Unique(key) => {
                let timing = timing(&key.characteristics)?;
                let (name, columns) = (name_of(&key.name), key_columns(&key.columns, def)?);
                let nulls_equal = key.nulls_distinct == NullsDistinctOption::NotDistinct;
                Ok(NewConstraint::Unique(NewKey { name, columns, nulls_equal, timing }))
            }
            TableConstraint::Check(check) => self.check_constraint(check, def, rows),
            TableConstraint::ForeignKey(key) => self.foreign_key(key, def, made),
            TableConstraint::PrimaryKeyUsingIndex(_) | TableConstraint::UniqueUsingIndex(_) => {
                Err(SqlError::unsupported("a constraint USING INDEX of a table to be made"))
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
        stored_names::check_names(&*check.expr, self.session.as_ref())?;
        let given = name_of(&check.name);
        let Some(_) = rows else {
            return Ok(NewConstraint::Check { name: given, expression, columns, check: None });
        };
        let name = given.unwrap_or_else(|| check_name(def, &columns));
        let compiled = (&*check.expr, compiled);
        let check = self.row_check(compiled, def, violated_by_some_row(def, &name));
        Ok(NewConstraint::Check { name: Some(name), expression, columns, check: Some(check) })
    }

    /// What VALIDATE CONSTRAINT looks at, beside a foreign key's rows; `None` where nothing is left to be looked at.
    pub(crate) fn validation(
        &self,
        def: &TableDef,
        name: &str,
    ) -> Result<Option<Option<Arc<dyn Check>>>, SqlError> {
        let constraint = def.constraint(name).ok_or_else(|| {
            SqlError::new(
                SqlState::UNDEFINED_OBJECT,
                format!("constraint \"{name}\" of relation \"{}\" does not exist", def.name),
            )
        })?;
        let check = match &constraint.kind {
            ConstraintKind::Check(check) => {
                let expr = stored::check_expression(check, def)?;
                let compiled = self.condition(&expr, def)?;
                Some(self.row_check((&expr, compiled), def, violated_by_some_row(def, name)))
            }
            ConstraintKind::ForeignKey(_) => None,
            ConstraintKind::PrimaryKey(_) | ConstraintKind::Unique(_) => {
                return Err(SqlError::new(
                    SqlState::WRONG_OBJECT_TYPE,
                    format!(
                        "constraint \"{name}\" of relation \"{}\" is not a foreign key or check constraint",
                        def.name
                    ),
                ));
            }
        };
        Ok(constraint.not_valid.then_some(check))
    }

    /// ADD CONSTRAINT … USING INDEX
    pub(crate) async fn constraint_of_index(
        &mut self,
        table: &TableVersion,
        of: &ConstraintUsingIndex,
        primary: bool,
    ) -> Result<(), Stop> {
        if timing(&of.characteristics)?.is_deferrable() {
            return Err(SqlError::unsupported("a deferrable constraint USING INDEX").into());
        }
        let def = &table.def;
        let index = fold(&of.index_name);
        let refused = |state, message: String| SqlError::new(state, message);
        let Some(found) = def.indexes.iter().find(|known| known.name == index) else {
            let (state, message) = match self.names().find(Some(&def.schema), &index) {
                Some(Relation::Index(..)) => (
                    SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
                    format!("index \"{index}\" does not belong to table \"{}\"", def.name),
                ),
                _ => (SqlState::UNDEFINED_OBJECT, format!("index \"{index}\" does not exist")),
            };
            return Err(refused(state, message).into());
        };
        if def.constraint_of_index(found.spec.id).is_some() {
            let message = format!("index \"{index}\" is already associated with a constraint");
            return Err(refused(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message).into());
        }
        let is_hidden = |part: &KeyPart| def.hidden_column(part.column).is_some();
        let sorted = |part: &KeyPart| part.descending || part.nulls_first;
        let number = found.written_parts().iter().position(sorted).map(|at| at + 1);
        let why = match () {
            () if !found.spec.unique => Some(format!("\"{index}\" is not a unique index")),
            () if found.written_parts().iter().any(is_hidden) => {
                Some(format!("index \"{index}\" contains expressions"))
            }
            () if found.notes.partial => Some(format!("\"{index}\" is a partial index")),
            () => number.map(|number| {
                format!("index \"{index}\" column number {number} does not have default sorting behavior")
            }),
        };
        if let Some(why) = why {
            return Err(refused(SqlState::WRONG_OBJECT_TYPE, why)
                .detail("Cannot create a primary key or unique constraint using such an index.")
                .into());
        }
        let name = name_of(&of.name).unwrap_or_else(|| index.clone());
        if name != index {
            self.refuse_taken(&def.schema, &name)?;
            self.notice(
                SqlState::SUCCESSFUL_COMPLETION,
                format!(
                    "ALTER TABLE / ADD CONSTRAINT USING INDEX will rename index \"{index}\" to \"{name}\""
                ),
            );
        }
        let (table, index) = (def.id, found.id);
        self.apply(Change::AddConstraintOfIndex { table, index, name, primary }).await?;
        Ok(())
    }

    /// The foreign keys of other tables that need a constraint.
    pub(crate) fn references_to(&self, def: &TableDef, name: &str) -> Vec<String> {
        let kind = def.constraint(name).map(|constraint| &constraint.kind);
        let Some(ConstraintKind::PrimaryKey(index) | ConstraintKind::Unique(index)) = kind else {
            return Vec::new();
        };
        let children = def.referenced_by.iter().filter(|child| **child != def.id);
        let children = children.filter_map(|child| self.version.tables.get(child));
        let of_child = |child: &Arc<TableVersion>| {
            let needs = |(_, key): &(&str, &ForeignKeyDef)| {
                key.parent == def.id && key.parent_index == *index
            };
            let shown = |(name, _)| format!("constraint {name} on table {}", child.def.name);
            child.def.foreign_keys().filter(needs).map(shown).collect::<Vec<_>>()
        };
        children.flat_map(of_child).collect()
    }

    fn foreign_key(
        &self,
        key: &ForeignKeyConstraint,
        def: &TableDef,
        made: &[NewConstraint],
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
        // Of a table in the making the primary key is among what is made with it.
        let own_key = made.iter().find_map(|constraint| match constraint {
            NewConstraint::PrimaryKey(key) => Some(&key.columns),
            _ => None,
        });
        let meant = own_key.filter(|_| parent.is_none() && parent_columns.is_empty());
        comparable(&name, def, &columns, parent_def, meant.unwrap_or(&parent_columns))?;
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

/// The same of the attributes of ALTER CONSTRAINT.
pub(crate) fn timing_of(attributes: &str) -> Result<Timing, SqlError> {
    let syntax = |message: &str| SqlError::new(SqlState::SYNTAX_ERROR, message);
    let unexpected = |word: &str| syntax(&format!("syntax error at or near \"{word}\""));
    let unmarked = |what: &str| {
        let message = format!("FOREIGN KEY constraints cannot be marked {what}");
        SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message)
    };
    let (mut deferrable, mut deferred) = (None, None);
    let mut words = attributes.split(' ').filter(|word| !word.is_empty());
    while let Some(word) = words.next() {
        let (said, is_so) = match word {
            "deferrable" => (&mut deferrable, true),
            "initially" => match words.next() {
                Some("deferred") => (&mut deferred, true),
                Some("immediate") => (&mut deferred, false),
                other => return Err(unexpected(other.unwrap_or("initially"))),
            },
            "not" => match words.next() {
                Some("deferrable") => (&mut deferrable, false),
                Some("valid") => return Err(unmarked("NOT VALID")),
                other => return Err(unexpected(other.unwrap_or("not"))),
            },
            "no" if words.next() == Some("inherit") => return Err(unmarked("NO INHERIT")),
            other => return Err(unexpected(other)),
        };
        if said.is_some_and(|before| before != is_so) {
            return Err(syntax("conflicting constraint properties"));
        }
        *said = Some(is_so);
    }
    match (deferrable, deferred) {
        (Some(false), Some(true)) => {
            Err(syntax("constraint declared INITIALLY DEFERRED must be DEFERRABLE"))
        }
        (_, Some(true)) => Ok(Timing::InitiallyDeferred),
        (Some(true), _) => Ok(Timing::InitiallyImmediate),
        (_, _) => Ok(Timing::NotDeferrable),
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
        // Without a key there froglet-schema refuses it, whatever the types are.
        (false, _) if parent.id != child.id && !is_key(parent, parent_columns) => return Ok(()),
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
        let is_widened = (kind(from.ty), kind(to.ty)) == (INTEGER, DECIMAL);
        if kind(from.ty) == kind(to.ty) || is_widened {
            continue;
        }
        let chosen =
            name.clone().unwrap_or_else(|| format!("{}_{}_fkey", child.name, columns.join("_")));
        return Err(SqlError::new(
            SqlState::DATATYPE_MISMATCH,
            format!("foreign key constraint \"{chosen}\" cannot be implemented"),
        )
        .detail(format!(
            "Key columns \"{a}\" and \"{b}\" are of incompatible types: {} and {}.",
            types::type_name(types::plain(from.sql_type.oid)),
            types::type_name(types::plain(to.sql_type.oid))
        )));
    }
    Ok(())
}

/// Whether a unique index is of just these columns.
fn is_key(table: &TableDef, columns: &[String]) -> bool {
    table.indexes.iter().any(|index| {
        let mut key = index.spec.key.iter().map(|part| table.column_by_id(part.column));
        index.spec.unique
            && key.len() == columns.len()
            && key.all(|column| column.is_some_and(|column| columns.contains(&column.name)))
    })
}

/// Kinds of numbers: the first have counterparts in the second, but not all of these in the first.
const INTEGER: u8 = 0;
const DECIMAL: u8 = 11;

/// Types whose values have counterparts in one another (see [`crate::key::fit`]).
fn kind(ty: froglet_engine::ColumnType) -> u8 {
    use froglet_engine::ColumnType as T;
    match ty {
        T::Int16 | T::Int32 | T::Int64 => INTEGER,
        T::Decimal { .. } | T::Numeric => DECIMAL,
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
