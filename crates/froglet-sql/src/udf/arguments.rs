//! Arguments of functions, whose constants are there once for all rows: a list or a text of any length is not copied
//! for each of 8,192.

use arrow::array::{Array, ArrayRef};
use datafusion::error::Result;
use datafusion::logical_expr::ColumnarValue;

/// The rows of an argument, or the only value that all rows have.
pub(crate) fn array_once(argument: &ColumnarValue) -> Result<ArrayRef> {
    match argument {
        ColumnarValue::Array(array) => Ok(array.clone()),
        ColumnarValue::Scalar(scalar) => scalar.to_array(),
    }
}

/// Where the value of a row is in [`array_once`].
pub(crate) fn row_of(argument: &ArrayRef, row: usize) -> usize {
    if argument.len() == 1 { 0 } else { row }
}
