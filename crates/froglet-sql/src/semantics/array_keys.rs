//! What arrays are compared by: PostgreSQL compares element by element, NULL being above every value, and an array
//! that ends first below the other.
//!
//! ```text
//!   {1,NULL}      01 1 · 01 NULL · 00        bytes in the order of the arrays (arrow's rows of lists, NULLs last)
//!   {1.0,1.00}    {measure(1.0), …}          elements that Arrow compares otherwise, by their measures
//! ```
//! Arrow's own comparison of lists takes NULL for the least value. Equality asks for a key only where elements have
//! several forms; hash joins and groups of others go by the lists themselves.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BinaryArray, ListArray, new_null_array};
use arrow::compute::SortOptions;
use arrow::datatypes::{DataType, Field, FieldRef};
use arrow::row::{RowConverter, SortField};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use froglet_schema::SqlType;

use super::casts::trimmed;
use super::fields::field_of;
use super::{numerics, quantified, time_arith, zeros};
use crate::types::{EXACT, element_oid, oids, sql_type_of_field};

/// How elements are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Elements {
    /// As Arrow compares them; equal ones are the same.
    Plain,
    /// Exact numerics: without their display scales.
    Numeric,
    /// By their lengths.
    Interval,
    /// By their keys ([`crate::types::json::key`]).
    Jsonb,
    /// character(n): without the blanks at the end.
    Padded,
    /// Both zeros are one.
    Float,
}

impl Elements {
    /// Those of an expression's values, if they are arrays; and the oid of these.
    pub fn of(expr: &Expr, schema: &DFSchema) -> Option<(Elements, u32)> {
        let field = field_of(expr, schema).ok()?;
        let DataType::List(item) = field.data_type() else { return None };
        let array = sql_type_of_field(&field).oid;
        Some((Elements::of_oid(element_oid(array), item.data_type()), array))
    }

    fn of_oid(element: Option<u32>, stored: &DataType) -> Elements {
        match (stored, element) {
            (&EXACT | DataType::Decimal128(..), _) => Elements::Numeric,
            (DataType::Interval(_), _) => Elements::Interval,
            (DataType::Float32 | DataType::Float64, _) => Elements::Float,
            (_, Some(oids::JSONB)) => Elements::Jsonb,
            (_, Some(oids::BPCHAR)) => Elements::Padded,
            _ => Elements::Plain,
        }
    }

    /// Those of a type of arrays.
    pub fn of_type(array: u32) -> Option<Elements> {
        let element = element_oid(array)?;
        Some(match element {
            oids::NUMERIC => Elements::Numeric,
            oids::INTERVAL => Elements::Interval,
            oids::FLOAT4 | oids::FLOAT8 => Elements::Float,
            oids::JSONB => Elements::Jsonb,
            oids::BPCHAR => Elements::Padded,
            _ => Elements::Plain,
        })
    }

    /// The type of arrays that is not compared with that of the first one, if there is one.
    pub fn unlike<'e>(
        mut operands: impl Iterator<Item = &'e Expr>,
        schema: &DFSchema,
    ) -> Option<[SqlType; 2]> {
        let typed = |expr: &Expr| {
            let field = field_of(expr, schema).ok()?;
            let DataType::List(item) = field.data_type() else { return None };
            let ty = sql_type_of_field(&field);
            Some((Elements::of_oid(element_oid(ty.oid), item.data_type()), item.clone(), ty))
        };
        let (elements, item, first) = operands.find_map(typed)?;
        let like = |(others, other, ty): &(Elements, FieldRef, SqlType)| {
            let (a, b) = (item.data_type(), other.data_type());
            *others == elements && (first.oid == ty.oid || a == b || a.is_string() && b.is_string())
        };
        let unlike = operands.filter_map(typed).find(|other| !like(other))?;
        Some([first, unlike.2])
    }

    /// Whether equal elements may differ.
    pub fn have_several_forms(self) -> bool {
        self != Elements::Plain
    }

    /// Elements as they are compared.
    fn measured(self, items: &ArrayRef) -> Result<ArrayRef> {
        Ok(match self {
            Elements::Plain => items.clone(),
            Elements::Numeric => numerics::orders(items),
            Elements::Interval => time_arith::spans(items),
            Elements::Jsonb => quantified::keys(items)?,
            Elements::Padded => trimmed(items),
            Elements::Float => zeros::unsigned(items),
        })
    }

    /// Arrays of elements as they are compared.
    fn lists(self, array: &ArrayRef) -> Result<ListArray> {
        let Some(lists) = array.as_list_opt::<i32>() else {
            return Err(crate::planning::internal("an array"));
        };
        let items = self.measured(lists.values())?;
        let item = Arc::new(Field::new_list_field(items.data_type().clone(), true));
        Ok(ListArray::try_new(item, lists.offsets().clone(), items, lists.nulls().cloned())?)
    }

    /// The keys of arrays.
    fn keys(self, array: &ArrayRef) -> Result<ArrayRef> {
        if array.data_type().is_null() {
            return Ok(new_null_array(&DataType::Binary, array.len()));
        }
        let lists = self.lists(array)?;
        let nulls_last = SortOptions { descending: false, nulls_first: false };
        let field = SortField::new_with_options(lists.data_type().clone(), nulls_last);
        let nulls = lists.nulls().cloned();
        let rows = RowConverter::new(vec![field])?.convert_columns(&[Arc::new(lists)])?;
        let (offsets, bytes, _) = rows.try_into_binary()?.into_parts();
        Ok(Arc::new(BinaryArray::try_new(offsets, bytes, nulls)?))
    }
}

/// The key of an array, bytes in the order of arrays.
pub fn key_of(expr: Expr, elements: Elements) -> Expr {
    Expr::ScalarFunction(ScalarFunction::new_udf(function(elements, Made::Key), vec![expr]))
}

/// An array whose elements are as they are compared; the same array, where that makes no difference.
pub fn elements_of(expr: Expr, schema: &DFSchema) -> Expr {
    match Elements::of(&expr, schema) {
        Some((elements, _)) if elements.have_several_forms() => {
            let function = function(elements, Made::Elements);
            Expr::ScalarFunction(ScalarFunction::new_udf(function, vec![expr]))
        }
        _ => expr,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Made {
    Key,
    Elements,
}

fn function(elements: Elements, made: Made) -> Arc<ScalarUDF> {
    let signature = Signature::any(1, Volatility::Immutable);
    let name = format!("froglet_array_{made:?}_{elements:?}").to_ascii_lowercase();
    Arc::new(ScalarUDF::new_from_impl(OfArray { elements, made, name, signature }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct OfArray {
    elements: Elements,
    made: Made,
    name: String,
    signature: Signature,
}

impl ScalarUDFImpl for OfArray {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, given: &[DataType]) -> Result<DataType> {
        if self.made == Made::Key {
            return Ok(DataType::Binary);
        }
        let stored = match &given[0] {
            DataType::List(item) => item.data_type().clone(),
            other => other.clone(),
        };
        let item = match self.elements {
            Elements::Numeric | Elements::Jsonb => DataType::Binary,
            Elements::Interval => DataType::Decimal128(38, 0),
            Elements::Padded => DataType::Utf8View,
            Elements::Float | Elements::Plain => stored,
        };
        Ok(DataType::List(Arc::new(Field::new_list_field(item, true))))
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let of = |array: &ArrayRef| -> Result<ArrayRef> {
            Ok(match self.made {
                Made::Key => self.elements.keys(array)?,
                Made::Elements => Arc::new(self.elements.lists(array)?),
            })
        };
        match &args.args[0] {
            ColumnarValue::Array(array) => of(array).map(ColumnarValue::Array),
            ColumnarValue::Scalar(value) => {
                let array = of(&value.to_array()?)?;
                ScalarValue::try_from_array(&array, 0).map(ColumnarValue::Scalar)
            }
        }
    }
}
