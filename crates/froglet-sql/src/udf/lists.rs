//! `ARRAY(SELECT …)` of no rows: an empty list, where the aggregate in its place has NULL.

use std::sync::Arc;

use arrow::array::MutableArrayData;
use arrow::array::{Array, ArrayRef, AsArray, ListArray, make_array};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};

/// The function's name.
pub const NAME: &str = "froglet_list";

/// The function.
pub fn functions() -> Vec<Arc<ScalarUDF>> {
    let signature = Signature::any(1, Volatility::Immutable);
    vec![Arc::new(ScalarUDF::new_from_impl(NotNull { signature }))]
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct NotNull {
    signature: Signature,
}

impl ScalarUDFImpl for NotNull {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, given: &[DataType]) -> Result<DataType> {
        Ok(given.first().cloned().unwrap_or(DataType::Null))
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        Ok(Arc::clone(&args.arg_fields[0]))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(match &args.args[0] {
            ColumnarValue::Array(array) => ColumnarValue::Array(filled(array)?),
            ColumnarValue::Scalar(scalar) if scalar.is_null() => {
                let array = filled(&scalar.to_array()?)?;
                ColumnarValue::Scalar(ScalarValue::try_from_array(&array, 0)?)
            }
            scalar => scalar.clone(),
        })
    }
}

/// The same lists, with an empty one in place of each NULL. What is no list stays as it is.
fn filled(array: &ArrayRef) -> Result<ArrayRef> {
    let DataType::List(item) = array.data_type() else { return Ok(array.clone()) };
    if array.null_count() == 0 {
        return Ok(array.clone());
    }
    let lists = array.as_list::<i32>();
    let values = lists.values().to_data();
    let mut items = MutableArrayData::new(vec![&values], false, values.len());
    let mut lengths = Vec::with_capacity(lists.len());
    for row in 0..lists.len() {
        let offsets = lists.value_offsets();
        let (from, to) = (offsets[row] as usize, offsets[row + 1] as usize);
        let length = if lists.is_null(row) { 0 } else { to - from };
        items.extend(0, from, from + length);
        lengths.push(length);
    }
    let offsets = OffsetBuffer::from_lengths(lengths);
    Ok(Arc::new(ListArray::try_new(item.clone(), offsets, make_array(items.freeze()), None)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::Int32Type;

    #[test]
    fn null_is_an_empty_list() {
        let of = |rows: Vec<Option<Vec<Option<i32>>>>| -> ArrayRef {
            Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(rows))
        };
        let given = of(vec![Some(vec![Some(1), None]), None, Some(vec![Some(2)])]);
        let wanted = of(vec![Some(vec![Some(1), None]), Some(vec![]), Some(vec![Some(2)])]);
        assert_eq!(&filled(&given).unwrap(), &wanted);
    }
}
