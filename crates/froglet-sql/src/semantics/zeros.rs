//! The two zeros of floats, which are one value in PostgreSQL. Arrow's `=` and groups take them for one; its sorts, and
//! the sets that DataFusion looks for values in, do not.
//!
//! | written | becomes |
//! |---|---|
//! | `x IN (0, 1)` | `x IN (0, 1, 0.0, -0.0)` |
//! | `x IN (y, 1)` | `froglet_float(x) IN (froglet_float(y), 1)` |
//! | `ORDER BY x, y` | `ORDER BY froglet_float(x), y`; of the last key the order of zeros shows nothing |
//! | `OVER (PARTITION BY x ORDER BY y)`, `count(DISTINCT x)` | the same of `froglet_float(x)`, `froglet_float(y)` |

use std::sync::{Arc, LazyLock};

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{DataType, FieldRef, Float32Type, Float64Type};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{InList, ScalarFunction, Sort};
use datafusion::logical_expr::{
    Cast, ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Volatility,
};

use super::fields::arrow_type_of;

/// Whether values of an expression are floats.
pub fn is_float(expr: &Expr, schema: &DFSchema) -> bool {
    arrow_type_of(expr, schema).is_ok_and(|ty| matches!(ty, DataType::Float32 | DataType::Float64))
}

/// Makes both zeros of floats one; whether there was a float.
pub fn one_zero<'e>(exprs: impl IntoIterator<Item = &'e mut Expr>, schema: &DFSchema) -> bool {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
        let signature = Signature::any(1, Volatility::Immutable);
        Arc::new(ScalarUDF::new_from_impl(OneZero { signature }))
    });
    let mut changed = false;
    let is_one = |expr: &Expr| matches!(expr, Expr::ScalarFunction(call) if call.func.inner().is::<OneZero>());
    for expr in exprs.into_iter().filter(|expr| is_float(expr, schema) && !is_one(expr)) {
        let value = std::mem::take(expr);
        *expr = Expr::ScalarFunction(ScalarFunction::new_udf(FUNCTION.clone(), vec![value]));
        changed = true;
    }
    changed
}

/// Of a sort's keys, but for the last one.
pub fn order_but_last(keys: &mut [Sort], schema: &DFSchema) -> bool {
    match keys {
        [keys @ .., _] => one_zero(keys.iter_mut().map(|key| &mut key.expr), schema),
        [] => false,
    }
}

/// Of what is looked for in a list; whether it is, or may be, a zero.
pub fn in_list(list: &mut InList, schema: &DFSchema) -> bool {
    let all = std::iter::once(&*list.expr).chain(&list.list);
    let Some(ty) = all.clone().find_map(|expr| {
        arrow_type_of(expr, schema)
            .ok()
            .filter(|ty| matches!(ty, DataType::Float32 | DataType::Float64))
    }) else {
        return false;
    };
    let unknown = list.list.iter().any(|item| literal(item).is_none());
    if unknown {
        let list_items = list.list.iter_mut().filter(|item| literal(item).is_none());
        return one_zero(list_items.chain([&mut *list.expr]), schema);
    }
    let zeros = match ty {
        DataType::Float32 => [0.0, -0.0].map(|zero| ScalarValue::Float32(Some(zero))),
        _ => [0.0, -0.0].map(|zero| ScalarValue::Float64(Some(zero))),
    };
    let zeros = zeros.map(|zero| Expr::Literal(zero, None));
    let changes = list.list.iter().filter_map(literal).any(is_zero)
        && !zeros.iter().all(|zero| list.list.contains(zero));
    if changes {
        list.list.extend(zeros);
    }
    changes
}

/// Floats with one zero; other values as they are.
pub fn unsigned(array: &ArrayRef) -> ArrayRef {
    // Adding nothing to either zero makes the one without a sign.
    match array.data_type() {
        DataType::Float32 => {
            Arc::new(array.as_primitive::<Float32Type>().unary::<_, Float32Type>(|v| v + 0.0))
        }
        DataType::Float64 => {
            Arc::new(array.as_primitive::<Float64Type>().unary::<_, Float64Type>(|v| v + 0.0))
        }
        _ => array.clone(),
    }
}

fn literal(expr: &Expr) -> Option<&ScalarValue> {
    match expr {
        Expr::Literal(value, _) => Some(value),
        Expr::Cast(Cast { expr, .. }) => literal(expr),
        Expr::Alias(alias) => literal(&alias.expr),
        _ => None,
    }
}

fn is_zero(value: &ScalarValue) -> bool {
    matches!(value.cast_to(&DataType::Float64), Ok(ScalarValue::Float64(Some(value))) if value == 0.0)
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct OneZero {
    signature: Signature,
}

impl ScalarUDFImpl for OneZero {
    fn name(&self) -> &str {
        "froglet_float"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, given: &[DataType]) -> Result<DataType> {
        Ok(given[0].clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        Ok(args.arg_fields[0].clone())
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(match &args.args[0] {
            ColumnarValue::Array(array) => ColumnarValue::Array(unsigned(array)),
            ColumnarValue::Scalar(value) => {
                let array = unsigned(&value.to_array()?);
                ColumnarValue::Scalar(ScalarValue::try_from_array(&array, 0)?)
            }
        })
    }
}
