//! New names.

use super::*;

pub(super) fn rename(
    def: &TableDef,
    edit: impl FnOnce(&mut TableDef) -> Result<(), SchemaError>,
) -> Result<Edited, SchemaError> {
    let mut edited = Edited::of(def);
    edit(&mut edited.def)?;
    Ok(edited)
}

/// A key's constraint and its index have one name.
pub(super) fn rename_constraint(
    def: &mut TableDef,
    from: &str,
    to: String,
) -> Result<(), SchemaError> {
    use crate::def::ConstraintKind::{PrimaryKey, Unique};
    if def.constraint(&to).is_some() {
        return Err(SchemaError::refused(
            SqlState::DUPLICATE_OBJECT,
            format!("constraint \"{to}\" for relation \"{}\" already exists", def.name),
        ));
    }
    let found = def.constraints.iter_mut().find(|c| c.name == from).ok_or_else(|| {
        SchemaError::refused(
            SqlState::UNDEFINED_OBJECT,
            format!("constraint \"{from}\" for table \"{}\" does not exist", def.name),
        )
    })?;
    found.name.clone_from(&to);
    if let PrimaryKey(id) | Unique(id) = found.kind
        && let Some(index) = def.indexes.iter_mut().find(|i| i.spec.id == id)
    {
        index.name = to;
    }
    Ok(())
}
