//! DataFusion's functions whose results may be much longer than what they are given: room is asked for first. And
//! `froglet_concat(a, b)`, which is `a || b` of texts: DataFusion's operator would ask for none.

use std::sync::{Arc, LazyLock};

use arrow::array::{Array, ArrayRef, AsArray, StringViewBuilder};
use arrow::compute::cast;
use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::functions::string;
use datafusion::functions_nested::string::array_to_string_udf;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};

use crate::context::current_session;
use crate::query::account::Room;

/// How many bytes a row's result has at most.
type Bound = fn(&[ArrayRef], usize) -> usize;

/// The functions.
pub fn functions() -> Vec<Arc<ScalarUDF>> {
    let all: [(Arc<ScalarUDF>, Bound); 2] =
        [(string::replace(), replaced), (array_to_string_udf(), joined)];
    let guarded = all.map(|(inner, bound)| ScalarUDF::new_from_impl(Guarded { inner, bound }));
    guarded.into_iter().map(Arc::new).chain([concat()]).collect()
}

/// `a || b`.
pub const CONCAT: &str = "froglet_concat";

/// The function of `||`.
pub fn concat() -> Arc<ScalarUDF> {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
        let types = vec![DataType::Utf8View, DataType::Utf8View];
        let signature = Signature::exact(types, Volatility::Immutable);
        Arc::new(ScalarUDF::new_from_impl(Concat { signature }))
    });
    FUNCTION.clone()
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Concat {
    signature: Signature,
}

impl ScalarUDFImpl for Concat {
    fn name(&self) -> &str {
        CONCAT
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8View)
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let session = current_session(&args.config_options);
        let mut room = Room::new(session.as_ref());
        let is_scalar = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if is_scalar { 1 } else { args.number_rows };
        let sides = args.args.iter().map(array_once).collect::<Result<Vec<_>>>()?;
        let sides = [sides[0].as_string_view(), sides[1].as_string_view()];
        let mut builder = StringViewBuilder::with_capacity(rows);
        let mut joined = String::new();
        for row in 0..rows {
            let [left, right] = sides.map(|side| {
                let row = if side.len() == 1 { 0 } else { row };
                side.is_valid(row).then(|| side.value(row))
            });
            let (Some(left), Some(right)) = (left, right) else {
                builder.append_null();
                continue;
            };
            room.grow(left.len() + right.len())?;
            joined.clear();
            joined.push_str(left);
            joined.push_str(right);
            builder.append_value(&joined);
        }
        let array: ArrayRef = Arc::new(builder.finish());
        if is_scalar {
            return ScalarValue::try_from_array(&array, 0).map(ColumnarValue::Scalar);
        }
        room.made(&array);
        Ok(ColumnarValue::Array(array))
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
        let arrays = args.args.iter().map(array_once).collect::<Result<Vec<_>>>()?;
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

/// An argument as an array; a scalar is one row for all, and not copied for each.
fn array_once(argument: &ColumnarValue) -> Result<ArrayRef> {
    match argument {
        ColumnarValue::Array(array) => Ok(array.clone()),
        ColumnarValue::Scalar(scalar) => scalar.to_array(),
    }
}

/// The text of a row of an argument, of which there is one for all rows if that is all it has.
fn with_text<T>(array: &ArrayRef, row: usize, of: impl FnOnce(&str) -> T) -> Option<T> {
    let row = if array.len() == 1 { 0 } else { row };
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
    let row_of_lists = if lists.len() == 1 { 0 } else { row };
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
