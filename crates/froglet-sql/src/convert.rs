//! Results in the types they were described with.
//!
//! | since the statement was described | its result |
//! |---|---|
//! | a column has another type | the value, cast back; 22003, 22P02 where one does not fit |
//! | a column has another name | as described |
//! | columns have come or gone under `*` | 0A000 |

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{Field as ArrowField, Schema};
use froglet_engine::{ColumnId, ColumnType, Row, SqlState};
use froglet_schema::CatalogVersion;

use crate::error::SqlError;
use crate::prepared::Field;
use crate::types::cast::CastContext;
use crate::types::{cast_array, cast_value};

/// For each column the type it comes in, where that is not the described one.
#[derive(Debug)]
pub(crate) struct Conversion {
    columns: Vec<Option<ColumnType>>,
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
        if described.len() != now.len() {
            return Err(changed());
        }
        let mut columns = Vec::with_capacity(now.len());
        for (at, (was, is)) in described.iter().zip(now.iter()).enumerate() {
            // Under `*` a place may have come to mean another column.
            let renamed = || matches!((then.get(at), today.get(at)),
                (Some(Some(a)), Some(Some(b))) if a == b && was.table == is.table);
            if was.name != is.name && !renamed() {
                return Err(changed());
            }
            columns.push(match (was.ty, is.ty) {
                (Some(_), Some(from)) if was.sql_type != is.sql_type || was.ty != is.ty => {
                    Some(from)
                }
                (None, None) if was.sql_type == is.sql_type => None,
                (Some(_), Some(_)) => None,
                _ => return Err(changed()),
            });
        }
        if columns.iter().all(Option::is_none) {
            return Ok(None);
        }
        Ok(Some(Conversion { columns, described: described.clone() }))
    }

    pub(crate) fn rows(&self, rows: &mut [Row]) -> Result<(), SqlError> {
        for row in rows {
            for ((value, from), field) in row.iter_mut().zip(&self.columns).zip(self.described.iter())
            {
                if let (Some(from), Some(to)) = (from, field.ty) {
                    let old = std::mem::replace(value, froglet_engine::Value::Null);
                    *value = cast_value(old, *from, to, field.sql_type, CastContext::Assignment)?;
                }
            }
        }
        Ok(())
    }

    pub(crate) fn batch(&self, batch: &RecordBatch) -> Result<RecordBatch, SqlError> {
        let mut arrays = Vec::with_capacity(self.columns.len());
        let mut fields = Vec::with_capacity(self.columns.len());
        for (at, (from, field)) in self.columns.iter().zip(self.described.iter()).enumerate() {
            let array = match (from, field.ty) {
                (Some(_), Some(to)) => {
                    cast_array(batch.column(at), to, field.sql_type, CastContext::Assignment)?
                }
                _ => batch.column(at).clone(),
            };
            fields.push(ArrowField::new(&field.name, array.data_type().clone(), true));
            arrays.push(array);
        }
        RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).map_err(crate::df_error::arrow)
    }
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
