//! A foreign key's columns and those that they refer to: of which types they may be.
//!
//! ```text
//!   child      parent      PostgreSQL                        here
//!   integer    bigint      compared as they are              the same
//!   integer    numeric     the child's is cast               the same
//!   date       timestamp   compared as they are              0A000
//!   integer    double      the child's is cast               0A000
//!   numeric    integer     no such operator                  42804
//!   text       integer     no such operator                  42804
//! ```
//!
//! What is refused when a foreign key is added is refused as well when one of its columns gets another type, on
//! either side. A column that gets one has another number, and so has the parent's index: the child's definition
//! follows in the same flip. Then every child is looked at, unless all conversions are exact: 7 is 7 in any type, and
//! who has a parent has it still. In any case writers follow to the newer schema by the newer columns (`carry.rs`).

use froglet_engine::{ColumnId, ColumnType, SqlState};

use crate::def::{ColumnDef, ConstraintKind, FIRST_USER_ID, ObjectId, TableDef};
use crate::edit::{Edited, Work};
use crate::error::SchemaError;

/// Types that are stored as text, and are compared with their like only.
const OF_THEIR_OWN: [u32; 2] = [114, 3802];

/// Refuses a column of a child beside one of its parent whose values it cannot have.
pub(crate) fn comparable(
    constraint: &str,
    child: &ColumnDef,
    parent: &ColumnDef,
) -> Result<(), SchemaError> {
    if child.ty == parent.ty {
        let own = |column: &ColumnDef| {
            let oid = column.sql_type.oid;
            (oid >= FIRST_USER_ID || OF_THEIR_OWN.contains(&oid)).then_some(oid)
        };
        return match own(child) == own(parent) {
            true => Ok(()),
            false => Err(incompatible(constraint, child, parent)),
        };
    }
    if have_counterparts(child.ty, parent.ty) {
        return Ok(());
    }
    if !compares_elsewhere(child.ty, parent.ty) {
        return Err(incompatible(constraint, child, parent));
    }
    Err(SchemaError::refused(
        SqlState::FEATURE_NOT_SUPPORTED,
        format!(
            "a foreign key between columns of different types (\"{}\" and \"{}\") is not supported",
            child.name, parent.name
        ),
    )
    .with_hint("Give both columns the same type first."))
}

fn incompatible(constraint: &str, child: &ColumnDef, parent: &ColumnDef) -> SchemaError {
    SchemaError::refused(
        SqlState::DATATYPE_MISMATCH,
        format!("foreign key constraint \"{constraint}\" cannot be implemented"),
    )
    .with_detail(format!(
        "Key columns \"{}\" and \"{}\" are of incompatible types.",
        child.name, parent.name
    ))
}

/// Whether numbers of a child have counterparts in its parent ([`froglet_engine::Value::counterpart`]): integers
/// in whatever is exact, decimals in decimals.
fn have_counterparts(child: ColumnType, parent: ColumnType) -> bool {
    use ColumnType::{Decimal, Int16, Int32, Int64, Numeric};
    match parent {
        Int16 | Int32 | Int64 => matches!(child, Int16 | Int32 | Int64),
        Decimal { .. } | Numeric => {
            matches!(child, Int16 | Int32 | Int64 | Decimal { .. } | Numeric)
        }
        _ => false,
    }
}

/// Whether PostgreSQL has an operator for types that cannot be compared here.
fn compares_elsewhere(child: ColumnType, parent: ColumnType) -> bool {
    use ColumnType::{
        Date, Decimal, Float32, Float64, Int16, Int32, Int64, Numeric, Timestamp, TimestampTz,
    };
    match parent {
        Float32 | Float64 => {
            matches!(child, Int16 | Int32 | Int64 | Decimal { .. } | Numeric | Float32 | Float64)
        }
        Date | Timestamp | TimestampTz => matches!(child, Date | Timestamp | TimestampTz),
        _ => false,
    }
}

/// Columns of a table have got other types, or other values: its valid foreign keys that have one are looked at
/// again for every row, and those that cannot have one are refused.
pub(crate) fn ask_again(
    before: &TableDef,
    edited: &mut Edited,
    table: &dyn Fn(ObjectId) -> Option<TableDef>,
) -> Result<(), SchemaError> {
    let mut asked = Vec::new();
    for constraint in &edited.def.constraints {
        let ConstraintKind::ForeignKey(key) = &constraint.kind else { continue };
        let parent = match key.parent == before.id {
            true => edited.def.clone(),
            false => table(key.parent).ok_or(SchemaError::Stale)?,
        };
        let mut is_changed = false;
        for (child, of_parent) in key.columns.iter().zip(&key.parent_columns) {
            let is_as_before = |id| {
                let (was, is) = (before.column_by_id(id), edited.def.column_by_id(id));
                was.is_some() && was.map(|c| (c.ty, c.sql_type)) == is.map(|c| (c.ty, c.sql_type))
            };
            let is_own_parent = key.parent == before.id;
            if is_as_before(*child) && (!is_own_parent || is_as_before(*of_parent)) {
                continue;
            }
            // Under another number it has other values.
            is_changed |= before.column_by_id(*child).is_none();
            is_changed |= is_own_parent && before.column_by_id(*of_parent).is_none();
            let columns = (edited.def.column_by_id(*child), parent.column_by_id(*of_parent));
            if let (Some(child), Some(of_parent)) = columns {
                comparable(&constraint.name, child, of_parent)?;
            }
        }
        if is_changed && !constraint.not_valid {
            let is_equal = |id: &ColumnId| edited.new_ids.is_equal(*id);
            let is_kept = key.columns.iter().all(is_equal)
                && (key.parent != before.id || key.parent_columns.iter().all(is_equal));
            asked.push(work(is_kept, &constraint.name));
        }
    }
    edited.work.extend(asked);
    Ok(())
}

/// A child of a table whose columns have got other types: its foreign keys to the table are to the new columns. `None`
/// if it has none to any of them.
pub(crate) fn follow(parent: &Edited, child: &TableDef) -> Result<Option<Edited>, SchemaError> {
    let new_ids = &parent.new_ids;
    let (mut edited, mut is_changed) = (Edited::of(child), false);
    for constraint in &mut edited.def.constraints {
        let ConstraintKind::ForeignKey(key) = &mut constraint.kind else { continue };
        let was = key.clone();
        if key.parent == parent.def.id {
            new_ids.follow(key);
        }
        if *key == was {
            continue;
        }
        is_changed = true;
        for (column, of_parent) in key.columns.iter().zip(&key.parent_columns) {
            let columns = (child.column_by_id(*column), parent.def.column_by_id(*of_parent));
            if let (Some(column), Some(of_parent)) = columns {
                comparable(&constraint.name, column, of_parent)?;
            }
        }
        if !constraint.not_valid {
            let is_kept = key.parent_columns.iter().all(|id| new_ids.is_equal(*id));
            edited.work.push(work(is_kept, &constraint.name));
        }
    }
    Ok(is_changed.then_some(edited))
}

fn work(is_kept: bool, constraint: &str) -> Work {
    match is_kept {
        true => Work::KeptForeignKey(constraint.to_owned()),
        false => Work::ForeignKey(constraint.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_compared_here_is_compared_elsewhere() {
        use ColumnType::{
            Bool, Date, Decimal, Float64, Int16, Int64, Numeric, Text, Timestamp, Uuid,
        };
        let types = [
            Bool,
            Int16,
            Int64,
            Float64,
            Numeric,
            Text,
            Date,
            Timestamp,
            Uuid,
            Decimal { precision: 5, scale: 2 },
        ];
        let number = |ty| matches!(ty, Int16 | Int64 | Numeric | Decimal { .. });
        for child in types {
            for parent in types {
                assert!(!have_counterparts(child, parent) || (number(child) && number(parent)));
                assert!(!(have_counterparts(child, parent) && compares_elsewhere(child, parent)));
            }
        }
        assert!(!have_counterparts(Numeric, Int64) && !compares_elsewhere(Numeric, Int64));
    }
}
