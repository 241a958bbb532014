//! What subqueries are that find nothing: a value that may be NULL, an empty array.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};

/// Its argument; the planner does not know that it is never NULL.
pub const OR_NULL: &str = "froglet_or_null";
/// Its argument, and an empty array instead of NULL.
pub const OR_EMPTY: &str = "froglet_or_empty";

/// Both functions.
pub fn functions() -> [Arc<ScalarUDF>; 2] {
    [OR_NULL, OR_EMPTY].map(|name| {
        let signature = Signature::any(1, Volatility::Volatile);
        // The optimizer is not to look through it.
        Arc::new(ScalarUDF::from(OfNothing { name, signature }))
    })
}

/// A call of [`OR_NULL`].
pub(crate) fn or_null(expr: Expr) -> Expr {
    let [or_null, _] = functions();
    or_null.call(vec![expr])
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct OfNothing {
    name: &'static str,
    signature: Signature,
}

impl ScalarUDFImpl for OfNothing {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(types.first().cloned().unwrap_or(DataType::Null))
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let field = args.arg_fields[0].as_ref().clone().with_name(self.name);
        Ok(Arc::new(field.with_nullable(true)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let mut args = args.args.into_iter();
        let value = args.next().unwrap_or(ColumnarValue::Scalar(ScalarValue::Null));
        Ok(match value {
            value if self.name == OR_NULL => value,
            ColumnarValue::Array(array) => ColumnarValue::Array(emptied(array)),
            ColumnarValue::Scalar(value) => {
                let only = emptied(value.to_array()?);
                ColumnarValue::Scalar(ScalarValue::try_from_array(&only, 0)?)
            }
        })
    }
}

/// Lists, empty ones instead of NULL.
fn emptied(array: ArrayRef) -> ArrayRef {
    let Some(list) = array.as_list_opt::<i32>() else { return array };
    let DataType::List(field) = list.data_type() else { return array };
    if list.null_count() == 0 {
        return array;
    }
    let kept = (0..list.len()).filter(|at| list.is_valid(*at)).map(|at| list.value(at));
    let parts: Vec<ArrayRef> = kept.collect();
    let parts: Vec<&dyn Array> = parts.iter().map(|part| part.as_ref()).collect();
    let values = match parts.is_empty() {
        true => Ok(list.values().slice(0, 0)),
        false => arrow::compute::concat(&parts),
    };
    let lengths = (0..list.len()).map(|at| match list.is_valid(at) {
        true => list.value_length(at) as usize,
        false => 0,
    });
    let offsets = OffsetBuffer::from_lengths(lengths);
    let made = values.and_then(|values| ListArray::try_new(field.clone(), offsets, values, None));
    made.map_or(array, |list| Arc::new(list) as ArrayRef)
}
