//! Numerics of two representations: Arrow's decimals, whose display scale is their type's, and exact ones
//! ([`EXACT`]), whose display scale is each value's own.
//!
//! ```text
//!   1.50 + price                 decimal, decimal     ─▶ decimal      the scale follows from the types
//!   price / 3                    decimal, integer     ─▶ exact        it follows from the values
//!   CASE … 1.5 ELSE 2.25         several scales       ─▶ exact        each value keeps its own
//! ```
//!
//! What is to be of one type goes through [`to_one`]; what is compared, sorted, grouped or joined is an
//! [`order_of`] ([`super::measures`]).

use std::sync::{Arc, LazyLock};

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryBuilder, Decimal128Builder, LargeBinaryBuilder, ListArray,
};
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{DFSchema, ScalarValue, TableReference};
use datafusion::error::Result;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, LogicalPlan, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Values, Volatility,
};

use super::fields::arrow_type_of;
use super::{casts, operators};
use crate::error::SqlError;
use crate::types::cell::{Cell, cell_at};
use crate::types::exact::{Exact, order};
use crate::types::numeric::{self, exact_of, of_bytes};
use crate::types::{EXACT, array_oid, oid_of_arrow, oids, plain};

/// Whether values of a type are numbers.
pub fn is_number(ty: &DataType) -> bool {
    ty.is_numeric() || *ty == EXACT
}

fn is_decimal(ty: &DataType) -> bool {
    matches!(ty, DataType::Decimal128(..))
}

/// Whether an expression is an array of exact numerics.
pub fn is_exact_list(expr: &Expr, schema: &DFSchema) -> bool {
    let ty = arrow_type_of(expr, schema);
    matches!(ty, Ok(DataType::List(item)) if *item.data_type() == EXACT)
}

/// The one type that numbers of these types come to where DataFusion does not find PostgreSQL's: exact, if their
/// display scales are not one; `None` if it does.
pub fn one_type(types: &[DataType]) -> Option<DataType> {
    let has_exact = types.contains(&EXACT);
    if !types.iter().all(is_number) || types.iter().any(DataType::is_floating) {
        // A numeric beside a float becomes one; DataFusion would make a decimal of the float.
        let has_numeric = has_exact || types.iter().any(is_decimal);
        return (has_numeric && types.iter().all(is_number)).then_some(DataType::Float64);
    }
    let scale = |ty: &DataType| match ty {
        DataType::Decimal128(_, scale) => Some(*scale),
        _ => None,
    };
    let first = scale(types.iter().find(|ty| is_decimal(ty)).or(types.first())?);
    let differ = types.iter().any(|ty| scale(ty) != first);
    let numeric = has_exact || types.iter().any(is_decimal);
    (numeric && (has_exact || differ)).then_some(EXACT)
}

/// Brings numbers to one type, if DataFusion does not do that as PostgreSQL does; whether any changed.
pub fn to_one(mut exprs: Vec<&mut Expr>, schema: &DFSchema) -> bool {
    let number = |expr: &Expr| arrow_type_of(expr, schema).ok().filter(is_number);
    let types: Vec<DataType> = exprs.iter().filter_map(|expr| number(expr)).collect();
    let Some(one) = one_type(&types) else { return false };
    for expr in &mut exprs {
        let is_null = matches!(&**expr, Expr::Literal(value, _) if value.is_null());
        if is_null && one == EXACT {
            **expr = Expr::Literal(scalar(None), None);
        } else if number(expr).is_some_and(|ty| ty != one) {
            let inner = std::mem::take(&mut **expr);
            **expr = brought(inner, &one);
        }
    }
    true
}

/// Whether a function takes elements of arrays one by one, to be brought to one type with [`bring_elements`].
pub fn takes_elements(function: &str) -> bool {
    matches!(function, "make_array" | "array_positions" | "array_remove" | "array_replace")
}

/// Brings elements, and arrays of them, to what the function makes the right answer of; whether any changed.
pub fn bring_elements(call: &mut ScalarFunction, schema: &DFSchema) -> bool {
    match call.func.name() {
        "make_array" => to_one(call.args.iter_mut().collect(), schema),
        "array_positions" => {
            let has_exact = call.args.iter().any(|arg| is_exact_list(arg, schema));
            if has_exact {
                call.args.iter_mut().for_each(|arg| *arg = order_of(std::mem::take(arg)));
            }
            has_exact
        }
        _ => to_one_element(&mut call.args, schema),
    }
}

/// Arrays and elements to be of one type: PostgreSQL's anycompatible.
fn to_one_element(args: &mut [Expr], schema: &DFSchema) -> bool {
    let item = |expr: &Expr| match arrow_type_of(expr, schema) {
        Ok(DataType::List(item)) => Some(item.data_type().clone()),
        _ => None,
    };
    let element = |expr: &Expr| item(expr).or_else(|| arrow_type_of(expr, schema).ok());
    let Some(first) = args.iter().find_map(item) else { return false };
    let mut changed = false;
    for arg in args.iter_mut().filter(|_| !first.is_string()) {
        if operators::unknown_literal(arg).is_some() {
            *arg = casts::call(std::mem::take(arg), plain(oid_of_arrow(&first)));
            changed = true;
        }
    }
    let types: Vec<DataType> = args.iter().filter_map(element).filter(is_number).collect();
    if types.iter().all(|ty| *ty == first && *ty != EXACT) {
        return changed;
    }
    let one = match () {
        () if types.iter().any(DataType::is_floating) => oids::FLOAT8,
        () if types.iter().all(DataType::is_integer) => oids::INT8,
        () => oids::NUMERIC,
    };
    for arg in args {
        let is_list = matches!(arrow_type_of(arg, schema), Ok(DataType::List(_)));
        let inner = std::mem::take(arg);
        *arg = match is_list {
            _ if one == oids::NUMERIC => exact(inner),
            true => casts::call(inner, plain(array_oid(one))),
            false => casts::call(inner, plain(one)),
        };
    }
    true
}

/// A number in a type that [`one_type`] gave.
pub fn brought(expr: Expr, one: &DataType) -> Expr {
    if *one == EXACT {
        return exact(expr);
    }
    let float = plain(oids::FLOAT8);
    let known = match &expr {
        Expr::Literal(value, _) => casts::literal(value, float).ok().flatten(),
        _ => None,
    };
    known.unwrap_or_else(|| casts::call(expr, float))
}

/// A number as an exact one; a constant at once.
pub fn exact(expr: Expr) -> Expr {
    if let Expr::Literal(value, _) = &expr
        && !value.is_null()
        && let Ok(array) = value.to_array()
        && let Some(value) = exact_of(&cell_at(array.as_ref(), 0))
    {
        return Expr::Literal(scalar(Some(&value)), None);
    }
    Expr::ScalarFunction(ScalarFunction::new_udf(EXACTLY.clone(), vec![expr]))
}

/// A list of rows whose numerics have several scales: each value keeps its own.
pub fn of_rows(values: Values) -> Result<LogicalPlan> {
    let Values { schema, values: mut rows } = values;
    let nothing = DFSchema::empty();
    let mut fields: Vec<(Option<TableReference>, FieldRef)> =
        schema.iter().map(|(qualifier, field)| (qualifier.cloned(), field.clone())).collect();
    for (at, (_, field)) in fields.iter_mut().enumerate() {
        if !is_decimal(field.data_type()) && *field.data_type() != EXACT {
            continue;
        }
        let bared = rows.iter().map(|row| bare(&row[at])).collect::<Result<Vec<Expr>>>()?;
        let given = bared.iter().filter_map(|value| arrow_type_of(value, &nothing).ok());
        let given: Vec<DataType> = given.filter(|ty| !ty.is_null()).collect();
        let is_exact = is_decimal(field.data_type()) && one_type(&given) == Some(EXACT);
        if !is_exact && *field.data_type() != EXACT {
            continue;
        }
        for (row, value) in rows.iter_mut().zip(bared) {
            row[at] = match value {
                Expr::Literal(value, _) if value.is_null() => Expr::Literal(scalar(None), None),
                value => exact(value),
            };
        }
        *field = Arc::new(field.as_ref().clone().with_data_type(EXACT).with_nullable(true));
    }
    let schema = DFSchema::new_with_metadata(fields, schema.metadata().clone())?;
    Ok(LogicalPlan::Values(Values { schema: Arc::new(schema), values: rows }))
}

/// A value without the cast to the type that the planner has found for all rows; a literal of no type is a number
/// beside numbers.
fn bare(value: &Expr) -> Result<Expr> {
    let inner = match value {
        // Of a type that somebody has written there is more in the field.
        Expr::Cast(cast)
            if is_number(cast.field.data_type()) && cast.field.metadata().is_empty() =>
        {
            &cast.expr
        }
        value => value,
    };
    Ok(match (inner, operators::unknown_literal(inner)) {
        (_, Some(text)) => Expr::Literal(numeric::literal(text)?, None),
        (Expr::Cast(cast), _) => casts::rewrite_cast(cast.clone(), &DFSchema::empty())?.data,
        (inner, None) => inner.clone(),
    })
}

/// What a number is compared by: bytes whose order is that of the numbers.
pub fn order_of(expr: Expr) -> Expr {
    Expr::ScalarFunction(ScalarFunction::new_udf(ORDER.clone(), vec![expr]))
}

/// Whether a function takes every number but floats to an exact numeric, or to what it is compared by.
pub fn is_total(function: &ScalarUDF) -> bool {
    let cast = function.inner().downcast_ref::<casts::CastFunction>();
    cast.is_some_and(casts::CastFunction::is_to_exact) || function.inner().is::<OfNumber>()
}

/// Whether a function is that of [`order_of`].
pub fn is_order(function: &ScalarUDF) -> bool {
    function.inner().is::<OfNumber>() && function.name() == ORDER.name()
}

/// Whether a call is an [`order_of`], of what.
pub fn ordered(expr: &Expr) -> Option<&Expr> {
    match expr {
        Expr::ScalarFunction(call) if is_order(&call.func) => call.args.first(),
        _ => None,
    }
}

/// An exact numeric as a scalar.
pub fn scalar(value: Option<&Exact>) -> ScalarValue {
    ScalarValue::LargeBinary(value.map(Exact::encode))
}

/// An array of exact numerics.
pub fn array(values: impl IntoIterator<Item = Option<Exact>>) -> ArrayRef {
    let (mut builder, mut bytes) = (LargeBinaryBuilder::new(), Vec::new());
    for value in values {
        match value {
            Some(value) => {
                bytes.clear();
                value.encode_into(&mut bytes);
                builder.append_value(&bytes);
            }
            None => builder.append_null(),
        }
    }
    Arc::new(builder.finish())
}

/// What exact numerics leave the server as, whose readers want one scale: digits beyond it are rounded.
pub const OUTSIDE: DataType = DataType::Decimal128(38, 10);

/// An array as it leaves the server; 22003 for a number that [`OUTSIDE`] has no room for.
pub fn outside(array: &ArrayRef) -> Result<ArrayRef, SqlError> {
    if *array.data_type() != EXACT {
        return Ok(array.clone());
    }
    let DataType::Decimal128(precision, scale) = OUTSIDE else { return Ok(array.clone()) };
    let mut builder = Decimal128Builder::with_capacity(array.len()).with_data_type(OUTSIDE);
    for row in 0..array.len() {
        match cell_at(array.as_ref(), row) {
            Cell::Exact(bytes) => {
                let unscaled = of_bytes(bytes).to_unscaled(precision, scale);
                let unscaled = unscaled.map_err(|error| {
                    SqlError::from(error).hint("Cast it to text, or to double precision.")
                })?;
                builder.append_value(unscaled);
            }
            _ => builder.append_null(),
        }
    }
    Ok(Arc::new(builder.finish()))
}

static EXACTLY: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| function("froglet_exact", EXACT));
static ORDER: LazyLock<Arc<ScalarUDF>> =
    LazyLock::new(|| function("froglet_order", DataType::Binary));

fn function(name: &'static str, returns: DataType) -> Arc<ScalarUDF> {
    let signature = Signature::any(1, Volatility::Immutable);
    Arc::new(ScalarUDF::new_from_impl(OfNumber { name, returns, signature }))
}

/// A number in another representation.
#[derive(Debug, PartialEq, Eq, Hash)]
struct OfNumber {
    name: &'static str,
    returns: DataType,
    signature: Signature,
}

impl ScalarUDFImpl for OfNumber {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, given: &[DataType]) -> Result<DataType> {
        Ok(match given {
            [DataType::List(item)] => {
                let item = item.as_ref().clone().with_data_type(self.returns.clone());
                DataType::List(Arc::new(item))
            }
            _ => self.returns.clone(),
        })
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let one = |array: &ArrayRef| match self.returns {
            DataType::Binary => orders(array),
            _ => exacts(array),
        };
        let run = |array: &ArrayRef| match array.as_list_opt::<i32>() {
            Some(lists) => list_of(lists, one(lists.values())),
            None => one(array),
        };
        match &args.args[0] {
            ColumnarValue::Array(array) => Ok(ColumnarValue::Array(run(array))),
            ColumnarValue::Scalar(scalar) => {
                let array = run(&scalar.to_array()?);
                ScalarValue::try_from_array(&array, 0).map(ColumnarValue::Scalar)
            }
        }
    }
}

/// The same lists of other elements, as many.
pub fn list_of(lists: &ListArray, values: ArrayRef) -> ArrayRef {
    let item = Arc::new(Field::new("item", values.data_type().clone(), true));
    Arc::new(ListArray::new(item, lists.offsets().clone(), values, lists.nulls().cloned()))
}

/// Numbers as exact ones.
pub fn exacts(numbers: &ArrayRef) -> ArrayRef {
    if *numbers.data_type() == EXACT {
        return numbers.clone();
    }
    array((0..numbers.len()).map(|row| exact_of(&cell_at(numbers.as_ref(), row))))
}

/// What numbers are compared by.
pub fn orders(numbers: &ArrayRef) -> ArrayRef {
    let (mut builder, mut bytes) = (BinaryBuilder::new(), Vec::new());
    for row in 0..numbers.len() {
        match cell_at(numbers.as_ref(), row) {
            Cell::Exact(own) => builder.append_value(order(own)),
            cell => match exact_of(&cell) {
                Some(value) => {
                    bytes.clear();
                    value.encode_into(&mut bytes);
                    builder.append_value(order(&bytes));
                }
                None => builder.append_null(),
            },
        }
    }
    Arc::new(builder.finish())
}
