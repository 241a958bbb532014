//! Constraints that are made, or made valid, without a look at every row.

use std::sync::Arc;

use froglet_engine::SqlState;

use crate::change::{Check, NewConstraint};
use crate::def::{ConstraintDef, ConstraintKind, ObjectId, TableDef, Timing};
use crate::edit::{Demand, Edited, NextId, Surroundings, Work, add_constraint, set_key_not_null};
use crate::error::SchemaError;

/// ADD CONSTRAINT … NOT VALID. Writers obey it from now on.
pub fn add_not_valid(
    def: &TableDef,
    new: NewConstraint,
    around: &Surroundings<'_>,
    next_id: NextId<'_>,
) -> Result<Edited, SchemaError> {
    let mut edited = add_constraint(def, new, around, next_id)?;
    edited.work.clear();
    edited.def.constraints.last_mut().expect("just added").not_valid = true;
    Ok(edited)
}

/// VALIDATE CONSTRAINT
pub fn validate_constraint(
    def: &TableDef,
    name: &str,
    check: Option<Arc<dyn Check>>,
) -> Result<Edited, SchemaError> {
    let mut edited = Edited::of(def);
    let found = edited.def.constraints.iter_mut().find(|c| c.name == name);
    let constraint = found.ok_or(SchemaError::Stale)?;
    let demand = Demand::Constraint(constraint.id);
    if std::mem::replace(&mut constraint.not_valid, false) {
        match &constraint.kind {
            ConstraintKind::ForeignKey(_) => edited.work.push(Work::ForeignKey(name.to_owned())),
            _ => edited.work.extend(check.map(|check| Work::Verify(check, demand))),
        }
    }
    Ok(edited)
}

/// ALTER CONSTRAINT: of foreign keys alone. Its questions are asked when the new timing says, whoever writes.
pub fn alter_constraint(def: &TableDef, name: &str, timing: Timing) -> Result<Edited, SchemaError> {
    let mut edited = Edited::of(def);
    let found = edited.def.constraints.iter_mut().find(|c| c.name == name);
    let constraint = found.ok_or_else(|| {
        SchemaError::refused(
            SqlState::UNDEFINED_OBJECT,
            format!("constraint \"{name}\" of relation \"{}\" does not exist", def.name),
        )
    })?;
    let ConstraintKind::ForeignKey(key) = &mut constraint.kind else {
        return Err(SchemaError::refused(
            SqlState::WRONG_OBJECT_TYPE,
            format!(
                "constraint \"{name}\" of relation \"{}\" is not a foreign key constraint",
                def.name
            ),
        ));
    };
    key.timing = timing;
    Ok(edited)
}

/// ADD CONSTRAINT … USING INDEX. The caller has looked whether the index may be one's.
pub fn add_constraint_of_index(
    def: &TableDef,
    index: ObjectId,
    name: String,
    primary: bool,
    next_id: NextId<'_>,
) -> Result<Edited, SchemaError> {
    if primary && def.primary_key().is_some() {
        return Err(SchemaError::refused(
            SqlState::INVALID_TABLE_DEFINITION,
            format!("multiple primary keys for table \"{}\" are not allowed", def.name),
        ));
    }
    if def.constraint(&name).is_some() {
        return Err(SchemaError::refused(
            SqlState::DUPLICATE_OBJECT,
            format!("constraint \"{name}\" for relation \"{}\" already exists", def.name),
        ));
    }
    let mut edited = Edited::of(def);
    let id = next_id()?;
    let found = edited.def.indexes.iter_mut().find(|i| i.id == index).ok_or(SchemaError::Stale)?;
    found.name.clone_from(&name);
    let spec = found.spec.clone();
    if primary {
        for part in &spec.key {
            let column = def.column_by_id(part.column).ok_or(SchemaError::Stale)?;
            set_key_not_null(&mut edited, &column.name)?;
        }
    }
    let kind = match primary {
        true => ConstraintKind::PrimaryKey(spec.id),
        false => ConstraintKind::Unique(spec.id),
    };
    let (not_valid, timing) = (false, Timing::NotDeferrable);
    edited.def.constraints.push(ConstraintDef { id, name, kind, not_valid, timing });
    Ok(edited)
}
