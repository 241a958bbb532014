//! Results in the types they were described with.
//!
//! | since the statement was described | its result |
//! |---|---|
//! | a column has another type | the value, cast back; 22003, 22P02 where one does not fit |
//! | a column has another name | as described |
//! | columns have come under `*` | the columns described |
//! | columns have gone under `*` | 0A000 |

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{Field as ArrowField, Schema};
use froglet_engine::{ColumnId, ColumnType, Row, SqlState};
use froglet_schema::CatalogVersion;

use crate::error::SqlError;
use crate::prepared::Field;
use crate::types::cast::CastContext;
use crate::types::{cast_array, cast_value};

/// Where each described column is in the new rows, and the type it comes in where that is not the
/// described one.
#[derive(Debug)]
pub(crate) struct Conversion {
    columns: Vec<(usize, Option<ColumnType>)>,
    described: Arc<[Field]>,
}

impl Conversion {
    /// How rows of a new plan become rows as described; `None` where they are already. With
    /// either comes which column each field was or is.
    pub(crate) fn between(
        described: &Arc<[Field]>,
        then: &[Option<ColumnId>],
        now: &Arc<[Field]>,
        today: &[Option<ColumnId>],
    ) -> Result<Option<Conversion>, SqlError> {
        if Arc::ptr_eq(described, now) || described == now {
            return Ok(None);
        }
        let mut columns = Vec::with_capacity(described.len());
        for (at, was) in described.iter().enumerate() {
            let place = find(at, described, then, now, today).ok_or_else(changed)?;
            let is = &now[place];
            let from = match (was.ty, is.ty) {
                (Some(_), Some(from)) if was.sql_type != is.sql_type || was.ty != is.ty => {
                    Some(from)
                }
                (None, None) if was.sql_type == is.sql_type => None,
                (Some(_), Some(_)) => None,
                _ => return Err(changed()),
            };
            columns.push((place, from));
        }
        let plain = described.len() == now.len()
            && columns.iter().enumerate().all(|(at, (place, from))| at == *place && from.is_none());
        if plain {
            return Ok(None);
        }
        Ok(Some(Conversion { columns, described: described.clone() }))
    }

    pub(crate) fn rows(&self, rows: &mut [Row]) -> Result<(), SqlError> {
        for row in rows {
            let mut new = Row::with_capacity(self.columns.len());
            for ((place, from), field) in self.columns.iter().zip(self.described.iter()) {
                let value = row[*place].clone();
                new.push(match (from, field.ty) {
                    (Some(from), Some(to)) => {
                        cast_value(value, *from, to, field.sql_type, CastContext::Assignment)?
                    }
                    _ => value,
                });
            }
            *row = new;
        }
        Ok(())
    }

    pub(crate) fn batch(&self, batch: &RecordBatch) -> Result<RecordBatch, SqlError> {
        let mut arrays = Vec::with_capacity(self.columns.len());
        let mut fields = Vec::with_capacity(self.columns.len());
        for ((place, from), field) in self.columns.iter().zip(self.described.iter()) {
            let array = match (from, field.ty) {
                (Some(_), Some(to)) => {
                    let array = batch.column(*place);
                    cast_array(array, to, field.sql_type, CastContext::Assignment)?
                }
                _ => batch.column(*place).clone(),
            };
            fields.push(ArrowField::new(&field.name, array.data_type().clone(), true));
            arrays.push(array);
        }
        RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).map_err(crate::df_error::arrow)
    }
}

/// Where a described column is now: in its place under its name; under `*`, wherever the same
/// column or one of its name has gone.
fn find(
    at: usize,
    described: &[Field],
    then: &[Option<ColumnId>],
    now: &[Field],
    today: &[Option<ColumnId>],
) -> Option<usize> {
    let was = &described[at];
    if described.len() == now.len() && now[at].name == was.name {
        return Some(at);
    }
    let id = then.get(at).copied().flatten();
    let same = |place: &usize| {
        id.is_some() && today.get(*place).copied().flatten() == id && now[*place].table == was.table
    };
    let named = |place: &usize| {
        was.table != 0 && now[*place].name == was.name && now[*place].table == was.table
    };
    (0..now.len()).find(same).or_else(|| (0..now.len()).find(named))
}

/// Which column each field is, if it is one.
pub(crate) fn origins(fields: &[Field], catalog: &CatalogVersion) -> Vec<Option<ColumnId>> {
    fields
        .iter()
        .map(|field| {
            let table = catalog.tables.get(&field.table)?;
            let at = usize::try_from(field.attnum).ok()?.checked_sub(1)?;
            Some(table.def.columns.get(at)?.id)
        })
        .collect()
}

fn changed() -> SqlError {
    SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, "cached plan must not change result type")
}
