//! DataFusion's functions, guarded: room is asked for before results that may be much longer than what they are made
//! of; sets of items are compared only where both arrays are known.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray};
use arrow::buffer::NullBuffer;
use arrow::compute::cast;
use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::functions::string;
use datafusion::functions_nested::array_has::{array_has_all_udf, array_has_any_udf};
use datafusion::functions_nested::string::array_to_string_udf;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};

use super::arguments;
use crate::context::current_session;
use crate::query::account::Room;

/// How many bytes a row's result has at most.
type Bound = fn(&[ArrayRef], usize) -> usize;

/// The functions.
pub fn functions() -> Vec<Arc<ScalarUDF>> {
    let all: [(Arc<ScalarUDF>, Bound); 2] =
        [(string::replace(), replaced), (array_to_string_udf(), joined)];
    let guarded = all.map(|(inner, bound)| ScalarUDF::new_from_impl(Guarded { inner, bound }));
    let strict = [array_has_all_udf(), array_has_any_udf()]
        .map(|inner| ScalarUDF::new_from_impl(Strict { inner }));
    guarded.into_iter().chain(strict).map(Arc::new).collect()
}

/// A function of arrays that says true or false, and NULL of NULL: DataFusion's say that of a column, and take a
/// constant that is NULL for an empty array.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Strict {
    inner: Arc<ScalarUDF>,
}

impl ScalarUDFImpl for Strict {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(given)
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let mut known: Option<NullBuffer> = None;
        for argument in &args.args {
            match argument {
                ColumnarValue::Scalar(value) if value.is_null() => {
                    return Ok(ColumnarValue::Scalar(ScalarValue::Boolean(None)));
                }
                ColumnarValue::Scalar(_) => {}
                ColumnarValue::Array(array) => {
                    known = NullBuffer::union(known.as_ref(), array.logical_nulls().as_ref());
                }
            }
        }
        let rows = args.number_rows;
        let made = self.inner.invoke_with_args(args)?;
        let Some(known) = known else { return Ok(made) };
        // One answer for all rows, if the constant is an empty array.
        let made = made.into_array(rows)?;
        let made = made.as_boolean();
        let known = NullBuffer::union(Some(&known), made.nulls());
        Ok(ColumnarValue::Array(Arc::new(BooleanArray::new(made.values().clone(), known))))
    }
}

#[derive(Debug)]
struct Guarded {
    inner: Arc<ScalarUDF>,
    bound: Bound,
}

impl PartialEq for Guarded {
    fn eq(&self, other: &Self) -> bool {
        self.inner == other.inner
    }
}

impl Eq for Guarded {}

impl std::hash::Hash for Guarded {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.inner.hash(state);
    }
}

impl ScalarUDFImpl for Guarded {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(given)
    }

    fn return_type(&self, given: &[DataType]) -> Result<DataType> {
        self.inner.return_type(given)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        self.inner.return_field_from_args(args)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let session = current_session(&args.config_options);
        let mut room = Room::new(session.as_ref());
        let is_scalar = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if is_scalar { 1 } else { args.number_rows };
        let arrays = args.args.iter().map(arguments::array_once).collect::<Result<Vec<_>>>()?;
        for row in 0..rows {
            room.grow((self.bound)(&arrays, row))?;
        }
        let made = self.inner.invoke_with_args(args)?;
        if let ColumnarValue::Array(array) = &made {
            room.made(array);
        }
        Ok(made)
    }
}

/// The text of a row of an argument, of which there is one for all rows if that is all it has.
fn with_text<T>(array: &ArrayRef, row: usize, of: impl FnOnce(&str) -> T) -> Option<T> {
    let row = arguments::row_of(array, row);
    if array.is_null(row) {
        return None;
    }
    match array.data_type() {
        DataType::Utf8View => Some(of(array.as_string_view().value(row))),
        DataType::Utf8 => Some(of(array.as_string::<i32>().value(row))),
        DataType::LargeUtf8 => Some(of(array.as_string::<i64>().value(row))),
        _ => None,
    }
}

fn replaced(arguments: &[ArrayRef], row: usize) -> usize {
    /// Up to here it is not counted how often something is found.
    const SMALL_BYTES: usize = 64 << 10;
    let [source, from, to] = arguments else { return 0 };
    let to_bytes = with_text(to, row, str::len).unwrap_or(0);
    let bound = with_text(source, row, |source| {
        with_text(from, row, |from| {
            if from.is_empty() || to_bytes <= from.len() {
                return source.len();
            }
            let most = source.len() / from.len() * to_bytes + source.len();
            match most <= SMALL_BYTES {
                true => most,
                false => {
                    let found = source.matches(from).count();
                    source.len() + found.saturating_mul(to_bytes - from.len())
                }
            }
        })
    });
    bound.flatten().unwrap_or(0)
}

fn joined(arguments: &[ArrayRef], row: usize) -> usize {
    let DataType::List(_) = arguments[0].data_type() else { return 0 };
    let lists = arguments[0].as_list::<i32>();
    let row_of_lists = arguments::row_of(&arguments[0], row);
    if lists.is_null(row_of_lists) {
        return 0;
    }
    let items = lists.value(row_of_lists);
    let between = arguments[1..].iter().filter_map(|text| with_text(text, row, str::len));
    let between = items.len().saturating_mul(between.sum());
    between.saturating_add(text_bytes(&items))
}

/// About how long the texts of an array are.
fn text_bytes(items: &ArrayRef) -> usize {
    match items.data_type() {
        DataType::Utf8View => items.as_string_view().lengths().map(|bytes| bytes as usize).sum(),
        DataType::Utf8 | DataType::LargeUtf8 => {
            let views = cast(items, &DataType::Utf8View).ok();
            views.map_or(0, |views| text_bytes(&views))
        }
        _ => 8 * items.len(),
    }
}
