//! Results of the types that name objects (regclass, regtype): the text, under the type's own number.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, StringViewArray};
use arrow::datatypes::{DataType, FieldRef, Int64Type, UInt32Type};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use froglet_schema::SqlType;

use super::casts;
use crate::context::{SessionFunctions, current_session};
use crate::error::SqlError;
use crate::prepared::Field;
use crate::stream::Rows;
use crate::types::cell::{Cell, cell_at};
use crate::types::{oids, plain, sql_field};
use crate::udf::lookup;

/// A column as its text. One of NULLs alone is text, too.
pub fn shown(column: Expr, ty: SqlType) -> Expr {
    match function(ty.oid) {
        Some(function) => Expr::ScalarFunction(ScalarFunction::new_udf(function, vec![column])),
        None => casts::call(column, plain(oids::TEXT)),
    }
}

/// The functions, for those who write calls of them.
pub fn functions() -> Vec<Arc<ScalarUDF>> {
    SHOWERS.iter().filter_map(|(oid, _)| function(*oid)).collect()
}

/// The name of the function that shows values of a type, if it is one that names objects.
pub fn shower(oid: u32) -> Option<&'static str> {
    SHOWERS.iter().find(|(known, _)| *known == oid).map(|(_, name)| *name)
}

const SHOWERS: &[(u32, &str)] = &[
    (oids::REGCLASS, "froglet_shown_regclass"),
    (oids::REGTYPE, "froglet_shown_regtype"),
    (oids::REGPROC, "froglet_shown_regproc"),
    (oids::REGPROCEDURE, "froglet_shown_regprocedure"),
    (oids::REGNAMESPACE, "froglet_shown_regnamespace"),
    (oids::REGROLE, "froglet_shown_regrole"),
];

fn function(oid: u32) -> Option<Arc<ScalarUDF>> {
    let name = shower(oid)?;
    let signature = Signature::any(1, Volatility::Stable);
    Some(Arc::new(ScalarUDF::new_from_impl(Shown { name, oid, signature })))
}

/// Whether a result's values are shown as names.
fn is_shown(field: &Field) -> bool {
    shower(field.sql_type.oid).is_some()
}

/// The rows of a result with the numbers of objects in the place of their names, in those columns that a client takes
/// in binary format.
pub(crate) fn numbered(
    rows: Rows,
    fields: &[Field],
    is_binary: impl Fn(usize) -> bool,
    session: &dyn SessionFunctions,
) -> Result<Rows, SqlError> {
    let is_wanted = |(at, field): (usize, &Field)| is_shown(field) && is_binary(at);
    let Rows::Batch(batch) = &rows else { return Ok(rows) };
    if !fields.iter().enumerate().any(is_wanted) {
        return Ok(rows);
    }
    let columns = batch.columns().iter().zip(fields).enumerate();
    let columns = columns.map(|(at, (column, field))| match is_wanted((at, field)) {
        true => Ok((field.name.as_str(), numbers(column, field.sql_type.oid, session)?, true)),
        false => Ok((field.name.as_str(), column.clone(), true)),
    });
    let columns = columns.collect::<Result<Vec<_>, SqlError>>()?;
    let batch = RecordBatch::try_from_iter_with_nullable(columns)
        .map_err(|e| crate::df_error::map_df_error(e.into()))?;
    Ok(Rows::Batch(batch))
}

/// The numbers that texts name.
fn numbers(
    texts: &ArrayRef,
    oid: u32,
    session: &dyn SessionFunctions,
) -> Result<ArrayRef, SqlError> {
    let bare = |text: &str| if text == "-" { "0".to_owned() } else { text.to_owned() };
    let texts = (0..texts.len()).map(|row| match cell_at(texts.as_ref(), row) {
        Cell::Text(text) => Some(bare(text)),
        _ => None,
    });
    let texts: ArrayRef = Arc::new(texts.collect::<StringViewArray>());
    casts::cast_any(&texts, plain(oids::TEXT), plain(oid), session)
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Shown {
    name: &'static str,
    oid: u32,
    signature: Signature,
}

impl ScalarUDFImpl for Shown {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8View)
    }

    fn return_field_from_args(&self, _args: ReturnFieldArgs) -> Result<FieldRef> {
        Ok(sql_field(self.name, plain(self.oid), DataType::Utf8View, true))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let session = current_session(&args.config_options);
        let scalar = matches!(args.args[0], ColumnarValue::Scalar(_));
        let rows = if scalar { 1 } else { args.number_rows };
        let array = args.args[0].clone().into_array(rows)?;
        let names_of = |numbers: &ArrayRef| lookup::names_of(session.as_ref(), self.oid, numbers);
        let names = match array.data_type() {
            DataType::UInt32 => names_of(&array),
            // Of a union with numbers; a negative one counts from above, as in PostgreSQL.
            DataType::Int64 => {
                let numbers = array.as_primitive::<Int64Type>();
                names_of(&(Arc::new(numbers.unary::<_, UInt32Type>(|n| n as u32)) as ArrayRef))
            }
            _ => array,
        };
        match scalar {
            true => ScalarValue::try_from_array(&names, 0).map(ColumnarValue::Scalar),
            false => Ok(ColumnarValue::Array(names)),
        }
    }
}
