//! Lists as PostgreSQL has them.
//!
//! | function | what it is for |
//! |---|---|
//! | `froglet_list(x)` | `ARRAY(SELECT …)` of no rows: an empty list, where the aggregate in its place has NULL |
//! | `_pg_expandarray(x)` | the items of an array and their numbers, as a list of rows that the query unnests |
//! | `froglet_nth(x, i)` | `x` under another name: DataFusion tells lists that it unnests together by their names, in which are no types |
//! | `array_remove(x, i)`, `array_replace(x, i, j)` | of NULL, too, and everywhere: DataFusion's answers NULL then |
//! | `trim_array(x, n)` | DataFusion has none |
//! | `froglet_name_char(n, i)` | `n[i]` of a name: its characters are counted from 0 |

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Int32Array, ListArray, MutableArrayData, Scalar, StructArray,
    make_array,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::kernels::cmp;
use arrow::compute::kernels::zip::zip;
use arrow::datatypes::{DataType, Field, FieldRef, Fields, Int64Type};
use datafusion::common::ScalarValue;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};

use froglet_engine::SqlState;

use super::arguments;
use super::simple::{Out, Simple, int, text};
use crate::error::SqlError;
use crate::semantics::{numerics, time_arith, zeros};
use crate::types::oids::{CHAR, INT4, INT8, NAME as NAME_TYPE};
use crate::types::{EXACT, plain, sql_field};

/// The name of what makes empty lists.
pub const NAME: &str = "froglet_list";

/// The name of what tells lists that are unnested together.
pub const NTH: &str = "froglet_nth";

/// The function that makes rows of an array.
pub const EXPAND: &str = "_pg_expandarray";

/// The functions.
pub fn functions() -> Vec<Arc<ScalarUDF>> {
    let signature = Signature::any(1, Volatility::Immutable);
    let expand = ExpandArray { signature: signature.clone() };
    vec![
        Arc::new(ScalarUDF::new_from_impl(NotNull { signature })),
        Arc::new(ScalarUDF::new_from_impl(expand)),
        Edit::function("array_remove", 2),
        Edit::function("array_replace", 3),
        Edit::function(TRIM, 2),
        Arc::new(ScalarUDF::new_from_impl(Nth {
            signature: Signature::any(2, Volatility::Immutable),
        })),
    ]
}

/// `n[i]` of a name, NULL outside of the 64 characters that it has.
pub fn name_char() -> Arc<ScalarUDF> {
    Simple::new("froglet_name_char", &[NAME_TYPE, INT8], CHAR, |_, cells| {
        let at = int(cells, 1).and_then(|at| usize::try_from(at).ok()).filter(|at| *at < 64);
        Ok(at.map_or(Out::Null, |at| {
            let found = text(cells, 0).chars().nth(at);
            Out::Text(found.map(String::from).unwrap_or_default())
        }))
    })
    .build()
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct ExpandArray {
    signature: Signature,
}

impl ExpandArray {
    fn item(list: &DataType) -> Option<(Fields, FieldRef)> {
        let DataType::List(item) = list else { return None };
        let x = Arc::new(item.as_ref().clone().with_name("x").with_nullable(true));
        let n = sql_field("n", plain(INT4), DataType::Int32, true);
        let fields = Fields::from(vec![x, n]);
        let item = Arc::new(Field::new("item", DataType::Struct(fields.clone()), true));
        Some((fields, item))
    }
}

impl ScalarUDFImpl for ExpandArray {
    fn name(&self) -> &str {
        EXPAND
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, given: &[DataType]) -> Result<DataType> {
        match given.first().and_then(Self::item) {
            Some((_, item)) => Ok(DataType::List(item)),
            None => Err(DataFusionError::Plan(format!("{EXPAND} is of an array"))),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_scalar = matches!(args.args[0], ColumnarValue::Scalar(_));
        let array = arguments::array_once(&args.args[0])?;
        let Some((fields, item)) = Self::item(array.data_type()) else {
            return Err(DataFusionError::Plan(format!("{EXPAND} is of an array")));
        };
        let array = filled(&array)?;
        let lists = array.as_list::<i32>();
        let offsets = lists.value_offsets();
        let (from, to) = (offsets[0] as usize, offsets[lists.len()] as usize);
        let numbers = offsets.windows(2).flat_map(|pair| 1..=pair[1] - pair[0]);
        let numbers: ArrayRef = Arc::new(Int32Array::from_iter_values(numbers));
        let columns = vec![lists.values().slice(from, to - from), numbers];
        let rows = StructArray::try_new(fields, columns, None)?;
        let lengths =
            OffsetBuffer::from_lengths(offsets.windows(2).map(|p| (p[1] - p[0]) as usize));
        let list = ListArray::try_new(item, lengths, Arc::new(rows), None)?;
        Ok(match is_scalar {
            true => ColumnarValue::Scalar(ScalarValue::List(Arc::new(list))),
            false => ColumnarValue::Array(Arc::new(list)),
        })
    }
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

const TRIM: &str = "trim_array";

/// Lists without an item, without the last ones, or with another one in its place.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Edit {
    name: &'static str,
    signature: Signature,
}

impl Edit {
    fn function(name: &'static str, arguments: usize) -> Arc<ScalarUDF> {
        let signature = Signature::any(arguments, Volatility::Immutable);
        Arc::new(ScalarUDF::new_from_impl(Edit { name, signature }))
    }
}

impl ScalarUDFImpl for Edit {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, given: &[DataType]) -> Result<DataType> {
        match given.first() {
            Some(list @ DataType::List(_)) => Ok(list.clone()),
            Some(DataType::Null) => Ok(DataType::Null),
            _ => Err(crate::df_error::no_function(self.name()).into()),
        }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let ty = self.return_type(std::slice::from_ref(args.arg_fields[0].data_type()))?;
        let field = args.arg_fields[0].as_ref().clone();
        Ok(Arc::new(field.with_name(self.name()).with_data_type(ty).with_nullable(true)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.number_rows;
        let arrays = args.args.into_iter().map(|arg| arg.into_array(rows));
        let arrays = arrays.collect::<Result<Vec<_>>>()?;
        match &arrays[..] {
            [lists, ..] if lists.data_type().is_null() => Ok(ColumnarValue::Array(lists.clone())),
            [lists, count] if self.name == TRIM => {
                Ok(ColumnarValue::Array(shortened(lists, count)?))
            }
            [lists, item] => Ok(ColumnarValue::Array(edited(lists, item, None)?)),
            [lists, item, other] => Ok(ColumnarValue::Array(edited(lists, item, Some(other))?)),
            _ => Err(crate::planning::internal("an array and items")),
        }
    }
}

/// Each list without the elements that are not distinct from the row's item, or with the other item of the row in
/// the place of each.
fn edited(array: &ArrayRef, item: &ArrayRef, other: Option<&ArrayRef>) -> Result<ArrayRef> {
    let DataType::List(field) = array.data_type() else {
        return Err(crate::planning::internal("an array"));
    };
    let like_items = |given: &ArrayRef| arrow::compute::cast(given, field.data_type());
    let item = compared(&like_items(item)?);
    let other = other.map(like_items).transpose()?;
    let lists = array.as_list::<i32>();
    let mut kept = Vec::with_capacity(lists.len());
    for (row, items) in lists.iter().enumerate() {
        let Some(items) = items else {
            kept.push(arrow::array::new_empty_array(field.data_type()));
            continue;
        };
        let stays = cmp::distinct(&compared(&items), &Scalar::new(item.slice(row, 1)))?;
        kept.push(match &other {
            Some(other) => zip(&stays, &items, &Scalar::new(other.slice(row, 1)))?,
            None => arrow::compute::filter(&items, &stays)?,
        });
    }
    list_of(field, &kept, lists.nulls().cloned())
}

/// Each list without as many of its last elements as the row says.
fn shortened(array: &ArrayRef, count: &ArrayRef) -> Result<ArrayRef> {
    let DataType::List(field) = array.data_type() else {
        return Err(crate::planning::internal("an array"));
    };
    let (lists, counts) = (array.as_list::<i32>(), arrow::compute::cast(count, &DataType::Int64)?);
    let counts = counts.as_primitive::<Int64Type>();
    let mut kept = Vec::with_capacity(lists.len());
    for (items, count) in lists.iter().zip(counts) {
        let (Some(items), Some(count)) = (items, count) else {
            kept.push(arrow::array::new_empty_array(field.data_type()));
            continue;
        };
        let rest = usize::try_from(count).ok().and_then(|count| items.len().checked_sub(count));
        let Some(rest) = rest else {
            let most = items.len();
            let message = format!("number of elements to trim must be between 0 and {most}");
            return Err(SqlError::new(SqlState::new("2202E"), message).into());
        };
        kept.push(items.slice(0, rest));
    }
    list_of(field, &kept, NullBuffer::union(lists.nulls(), counts.nulls()))
}

fn list_of(field: &FieldRef, kept: &[ArrayRef], nulls: Option<NullBuffer>) -> Result<ArrayRef> {
    let offsets = OffsetBuffer::from_lengths(kept.iter().map(|items| items.len()));
    let all: Vec<&dyn Array> = kept.iter().map(AsRef::as_ref).collect();
    let values = match all.is_empty() {
        true => arrow::array::new_empty_array(field.data_type()),
        false => arrow::compute::concat(&all)?,
    };
    Ok(Arc::new(ListArray::try_new(field.clone(), offsets, values, nulls)?))
}

/// Items as they are compared.
fn compared(items: &ArrayRef) -> ArrayRef {
    match items.data_type() {
        &EXACT => numerics::orders(items),
        DataType::Interval(_) => time_arith::spans(items),
        _ => zeros::unsigned(items),
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Nth {
    signature: Signature,
}

impl ScalarUDFImpl for Nth {
    fn name(&self) -> &str {
        NTH
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
        Ok(args.args[0].clone())
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
        items.try_extend(0, from, from + length)?;
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
