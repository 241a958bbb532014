//! Whether a value is among the elements of an array: `x = ANY (a)`, and `x <> ALL (a)` for its opposite.
//!
//! ```text
//!   a short constant     planned as x IN (…), which may be looked up in an index
//!   any other constant   its elements are a set, made once for a batch of rows; PostgreSQL's hashed search
//!   an array of the row  element by element, by DataFusion's array_has
//! ```

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray};
use arrow::datatypes::DataType;
use arrow::row::{Row, RowConverter, SortField};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::functions_nested::array_has::array_has_udf;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};

use crate::udf::arguments;

/// Whether `array` has `value`: NULL if either is NULL, or if it is not found and a NULL is among the elements. No value
/// is in an array without elements, nor is NULL.
pub(super) fn call(array: Expr, value: Expr) -> Expr {
    let array_has = array_has_udf();
    let function = Arc::new(ScalarUDF::new_from_impl(Member { array_has }));
    Expr::ScalarFunction(ScalarFunction::new_udf(function, vec![array, value]))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Member {
    array_has: Arc<ScalarUDF>,
}

impl ScalarUDFImpl for Member {
    fn name(&self) -> &str {
        self.array_has.name()
    }

    fn signature(&self) -> &Signature {
        self.array_has.signature()
    }

    fn return_type(&self, given: &[DataType]) -> Result<DataType> {
        self.array_has.return_type(given)
    }

    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        self.array_has.simplify(args, info)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_scalar = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if is_scalar { 1 } else { args.number_rows };
        let [list, value] = args.args.as_slice() else {
            return Err(crate::planning::internal("two operands"));
        };
        let answers = match list {
            ColumnarValue::Scalar(list) => match only_list(&list.to_array()?) {
                Some(items) if *items.data_type() == value.data_type() => {
                    among(&items, &value.to_array(rows)?)?
                }
                Some(_) => self.by_row(args, rows)?,
                None => BooleanArray::new_null(rows),
            },
            ColumnarValue::Array(_) => self.by_row(args, rows)?,
        };
        Ok(match is_scalar {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&answers, 0)?),
            false => ColumnarValue::Array(Arc::new(answers)),
        })
    }
}

impl Member {
    /// Each row has an array of its own.
    fn by_row(&self, args: ScalarFunctionArgs, rows: usize) -> Result<BooleanArray> {
        let array = arguments::array_once(&args.args[0])?;
        let found = self.array_has.invoke_with_args(args)?.into_array(rows)?;
        let (Some(lists), found) = (array.as_list_opt::<i32>(), found.as_boolean()) else {
            return Ok(BooleanArray::new_null(rows));
        };
        let answer = |row: usize| {
            let of_row = arguments::row_of(&array, row);
            if lists.is_null(of_row) {
                return None;
            }
            let items = lists.value(of_row);
            match found.is_valid(row).then(|| found.value(row)) {
                _ if items.is_empty() => Some(false),
                Some(false) if items.logical_null_count() > 0 => None,
                answer => answer,
            }
        };
        Ok((0..rows).map(answer).collect())
    }
}

/// The elements of the only list, if it is not NULL.
fn only_list(array: &ArrayRef) -> Option<ArrayRef> {
    let lists = array.as_list_opt::<i32>()?;
    (lists.len() == 1 && lists.is_valid(0)).then(|| lists.value(0))
}

fn among(items: &ArrayRef, values: &ArrayRef) -> Result<BooleanArray> {
    if items.is_empty() {
        return Ok(BooleanArray::from(vec![false; values.len()]));
    }
    let rows = RowConverter::new(vec![SortField::new(values.data_type().clone())])?;
    let is_unknown = items.logical_null_count() > 0;
    let items = rows.convert_columns(std::slice::from_ref(items))?;
    let items: HashSet<&[u8]> = items.iter().map(|item| item.data()).collect();
    let sought = rows.convert_columns(std::slice::from_ref(values))?;
    let nulls = values.logical_nulls();
    let answer = |(row, value): (usize, Row<'_>)| {
        if nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            return None;
        }
        let found = items.contains(value.data());
        (found || !is_unknown).then_some(found)
    };
    Ok(sought.iter().enumerate().map(answer).collect())
}
