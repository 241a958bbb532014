//! Functions written as one closure over a row's cells.
//!
//! Most of what clients ask of the catalog is called a few times a query, so these are written for
//! brevity: arguments are coerced to the types named, NULL in is NULL out where `strict`, and the
//! body answers for one row. Where every argument is a scalar it is called once.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::*;
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, FieldRef, IntervalMonthDayNano};
use datafusion::common::ScalarValue;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use froglet_engine::SqlState;

use super::arguments;
use crate::context::{EvalContext, SessionFunctions, current_session, session_here};
use crate::error::SqlError;
use crate::query::account::Room;
use crate::semantics::numerics;
use crate::types::cell::{Cell, cell_at};
use crate::types::exact::Exact;
use crate::types::numeric::{self, too_wide};
use crate::types::{EXACT, arrow_of, oids, plain, sql_field};

/// What a body answers.
#[derive(Debug, Clone)]
pub enum Out {
    /// NULL
    Null,
    /// boolean
    Bool(bool),
    /// int2, int4, int8, oid: as the return type says
    Int(i64),
    /// double precision
    Float(f64),
    /// text, name
    Text(String),
    /// timestamps, microseconds since 1970; dates, days
    Time(i64),
    /// uuid
    Uuid([u8; 16]),
    /// numeric: unscaled, scale
    Numeric(i128, i8),
    /// numeric
    Exact(Exact),
    /// bytea
    Bytes(Vec<u8>),
    /// interval: months, days, microseconds
    Interval(i32, i32, i64),
    /// text[]
    Texts(Vec<String>),
    /// text[] with NULLs
    Items(Vec<Option<String>>),
    /// An array
    List(Vec<Out>),
}

/// No allocation is smaller.
const ALLOCATION_BYTES_MIN: usize = 8;

impl Out {
    /// Of memory, beside itself.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Out::Text(text) => text.capacity().max(ALLOCATION_BYTES_MIN),
            Out::Bytes(bytes) => bytes.len(),
            Out::Texts(texts) => texts.iter().map(|text| size_of::<String>() + text.len()).sum(),
            Out::Items(texts) => {
                let of = |text: &Option<String>| text.as_ref().map_or(0, String::len);
                texts.iter().map(|text| size_of::<String>() + of(text)).sum()
            }
            Out::List(items) => {
                let beside: usize = items.iter().map(Out::bytes).sum();
                items.capacity() * size_of::<Out>() + beside
            }
            _ => 0,
        }
    }
}

impl From<Option<String>> for Out {
    fn from(text: Option<String>) -> Out {
        text.map_or(Out::Null, Out::Text)
    }
}

/// The body of a function, for one row.
pub type Body = fn(&dyn SessionFunctions, &[Cell<'_>]) -> Result<Out, SqlError>;

/// The type of an argument that is taken as it comes.
pub const ANY: u32 = 0;

/// A function.
pub struct Simple {
    name: &'static str,
    aliases: Vec<String>,
    arguments: &'static [u32],
    /// How many of the arguments must be there.
    required: usize,
    /// The types that parameters have where all arguments are there, if these are others.
    together: &'static [u32],
    returns: u32,
    strict: bool,
    body: Body,
    changes: bool,
    signature: Signature,
}

impl Simple {
    /// Stable and strict, of a fixed number of arguments.
    pub fn new(name: &'static str, arguments: &'static [u32], returns: u32, body: Body) -> Simple {
        Simple {
            name,
            aliases: Vec::new(),
            arguments,
            required: arguments.len(),
            together: arguments,
            returns,
            strict: true,
            body,
            changes: false,
            signature: Signature::user_defined(Volatility::Stable),
        }
    }

    /// Its result may change at any call.
    pub fn volatile(mut self) -> Simple {
        self.signature.volatility = Volatility::Volatile;
        self
    }

    /// It changes something, so that it matters when it is called, and how often.
    pub fn changing(mut self) -> Simple {
        self.changes = true;
        self.volatile()
    }

    /// Whether it changes something.
    pub(crate) fn changes(&self) -> bool {
        self.changes
    }

    /// The last arguments may be left out.
    pub fn optional(mut self, count: usize) -> Simple {
        self.required = self.arguments.len() - count;
        self
    }

    /// Where all arguments are there, parameters are of these types.
    pub fn together(mut self, types: &'static [u32]) -> Simple {
        self.together = types;
        self
    }

    /// The type of a parameter as an argument of a call of so many.
    pub(crate) fn parameter(&self, at: usize, count: usize) -> Option<u32> {
        let all = count == self.arguments.len();
        let types = if all { self.together } else { self.arguments };
        types.get(at).copied().filter(|oid| *oid != ANY)
    }

    /// It is called for NULLs too.
    pub fn not_strict(mut self) -> Simple {
        self.strict = false;
        self
    }

    /// Other names.
    pub fn alias(mut self, names: &[&str]) -> Simple {
        self.aliases.extend(names.iter().map(|n| (*n).to_owned()));
        self
    }

    /// As DataFusion wants it.
    pub fn build(self) -> Arc<ScalarUDF> {
        Arc::new(ScalarUDF::new_from_impl(self))
    }

    /// Its type and body, if it is a clock: without arguments, a moment or a day.
    pub(crate) fn clock(&self) -> Option<(u32, Body)> {
        let moment = matches!(self.returns, oids::TIMESTAMPTZ | oids::TIMESTAMP | oids::DATE);
        (self.arguments.is_empty() && moment).then_some((self.returns, self.body))
    }
}

impl fmt::Debug for Simple {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl PartialEq for Simple {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Simple {}

impl Hash for Simple {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl ScalarUDFImpl for Simple {
    fn name(&self) -> &str {
        self.name
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        if given.len() < self.required || given.len() > self.arguments.len() {
            return Err(DataFusionError::Plan(format!(
                "Function '{}' expects {} arguments but received {}",
                self.name,
                self.arguments.len(),
                given.len()
            )));
        }
        let wanted = |(oid, given): (&u32, &DataType)| match *oid {
            ANY => given.clone(),
            oid => arrow_of(plain(oid)).unwrap_or_else(|| given.clone()),
        };
        Ok(self.arguments.iter().zip(given).map(wanted).collect())
    }

    fn return_type(&self, _given: &[DataType]) -> Result<DataType> {
        Ok(arrow_of(plain(self.returns)).unwrap_or(DataType::Utf8View))
    }

    fn return_field_from_args(&self, _args: ReturnFieldArgs) -> Result<FieldRef> {
        Ok(sql_field(self.name, plain(self.returns), self.return_type(&[])?, true))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let once = self.signature.volatility != Volatility::Volatile;
        evaluate(&args, self.strict, once, self.body)
    }
}

/// Calls a body for each row; where all arguments are scalars and `once` is true, one time.
pub fn evaluate(
    args: &ScalarFunctionArgs,
    strict: bool,
    once: bool,
    body: Body,
) -> Result<ColumnarValue> {
    let session = current_session(&args.config_options);
    let once = once && args.args.iter().all(|a| matches!(a, ColumnarValue::Scalar(_)));
    let rows = if once { 1 } else { args.number_rows };
    let arrays = args.args.iter().map(arguments::array_once).collect::<Result<Vec<_>>>()?;
    // What is called deeper finds the session on its thread.
    let alone = session_here().is_none().then(|| EvalContext::new(session.clone()));
    let mut out = Vec::with_capacity(rows);
    let mut room = Room::new(session.as_ref());
    for row in 0..rows {
        let of_row = arrays.iter().map(|a| cell_at(a.as_ref(), arguments::row_of(a, row)));
        let cells: Vec<Cell<'_>> = of_row.collect();
        let null = strict && cells.iter().any(|cell| matches!(cell, Cell::Null));
        let call = || body(session.as_ref(), &cells);
        let answer = match (null, &alone) {
            (true, _) => Out::Null,
            (false, Some(context)) => context.enter(call)?,
            (false, None) => call()?,
        };
        room.grow(answer.bytes())?;
        out.push(answer);
    }
    let array = array_of(args.return_field.data_type(), out)?;
    // A large one stays on the account, where it is not to be computed again for each row by whoever takes it.
    let is_followed = args.number_rows == 1 && room.has_grown();
    if once && !is_followed {
        return ScalarValue::try_from_array(&array, 0).map(ColumnarValue::Scalar);
    }
    room.made(&array);
    Ok(ColumnarValue::Array(array))
}

/// An array of this type of what was answered.
pub(super) fn array_of(ty: &DataType, values: Vec<Out>) -> Result<ArrayRef> {
    let ints = || {
        values.iter().map(|v| match v {
            Out::Int(v) | Out::Time(v) => Some(*v),
            _ => None,
        })
    };
    let floats = || {
        values.iter().map(|v| match v {
            Out::Float(v) => Some(*v),
            _ => None,
        })
    };
    Ok(match ty {
        DataType::Boolean => {
            let bools = values.iter().map(|v| match v {
                Out::Bool(v) => Some(*v),
                _ => None,
            });
            Arc::new(bools.collect::<BooleanArray>())
        }
        DataType::Int16 => Arc::new(ints().map(|v| v.map(|v| v as i16)).collect::<Int16Array>()),
        DataType::Int32 => Arc::new(ints().map(|v| v.map(|v| v as i32)).collect::<Int32Array>()),
        DataType::Int64 => Arc::new(ints().collect::<Int64Array>()),
        DataType::UInt32 => Arc::new(ints().map(|v| v.map(|v| v as u32)).collect::<UInt32Array>()),
        DataType::Date32 => Arc::new(ints().map(|v| v.map(|v| v as i32)).collect::<Date32Array>()),
        DataType::Timestamp(..) => {
            Arc::new(ints().collect::<TimestampMicrosecondArray>().with_data_type(ty.clone()))
        }
        DataType::Time64(_) => Arc::new(ints().collect::<Time64MicrosecondArray>()),
        DataType::Float32 => {
            Arc::new(floats().map(|v| v.map(|v| v as f32)).collect::<Float32Array>())
        }
        DataType::Float64 => Arc::new(floats().collect::<Float64Array>()),
        DataType::Decimal128(_, scale) => decimals(ty, *scale, &values)?,
        &EXACT => numerics::array(values.into_iter().map(|value| match value {
            Out::Exact(value) => Some(value),
            Out::Numeric(unscaled, scale) => Some(Exact::from_unscaled(unscaled, scale)),
            _ => None,
        })),
        DataType::Interval(_) => intervals(&values)?,
        DataType::BinaryView => {
            let bytes = values.iter().map(|v| match v {
                Out::Bytes(v) => Some(v.as_slice()),
                _ => None,
            });
            Arc::new(bytes.collect::<BinaryViewArray>())
        }
        DataType::FixedSizeBinary(_) => {
            let ids = values.iter().map(|v| match v {
                Out::Uuid(v) => Some(*v),
                _ => None,
            });
            Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(ids, 16)?)
        }
        DataType::List(item) => lists(item, values)?,
        _ => {
            let texts = values.into_iter().map(|v| match v {
                Out::Text(v) => Some(v),
                _ => None,
            });
            Arc::new(texts.collect::<StringViewArray>())
        }
    })
}

fn decimals(ty: &DataType, scale: i8, values: &[Out]) -> Result<ArrayRef> {
    let mut builder = Decimal128Builder::with_capacity(values.len()).with_data_type(ty.clone());
    for value in values {
        match value {
            Out::Numeric(unscaled, from) => {
                builder.append_value(numeric::fit(*unscaled, *from, 38, scale)?);
            }
            Out::Exact(value) => {
                builder.append_value(value.to_unscaled(38, scale).map_err(|_| too_wide())?);
            }
            _ => builder.append_null(),
        }
    }
    Ok(Arc::new(builder.finish()))
}

fn intervals(values: &[Out]) -> Result<ArrayRef> {
    let mut builder = IntervalMonthDayNanoBuilder::with_capacity(values.len());
    for value in values {
        match value {
            Out::Interval(months, days, us) => {
                let nanoseconds = us.checked_mul(1_000).ok_or_else(|| {
                    SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "interval out of range")
                })?;
                builder.append_value(IntervalMonthDayNano::new(*months, *days, nanoseconds));
            }
            _ => builder.append_null(),
        }
    }
    Ok(Arc::new(builder.finish()))
}

fn lists(item: &FieldRef, values: Vec<Out>) -> Result<ArrayRef> {
    let mut offsets = vec![0];
    let mut present = Vec::with_capacity(values.len());
    let mut items = Vec::new();
    for value in values {
        present.push(!matches!(value, Out::Null));
        match value {
            Out::Texts(texts) => items.extend(texts.into_iter().map(Out::Text)),
            Out::Items(texts) => items.extend(texts.into_iter().map(Out::from)),
            Out::List(all) => items.extend(all),
            _ => {}
        }
        let end = i32::try_from(items.len()).map_err(|_| {
            SqlError::new(
                SqlState::PROGRAM_LIMIT_EXCEEDED,
                "array size exceeds the maximum allowed",
            )
        })?;
        offsets.push(end);
    }
    let items = array_of(item.data_type(), items)?;
    let offsets = OffsetBuffer::new(offsets.into());
    Ok(Arc::new(ListArray::try_new(item.clone(), offsets, items, Some(present.into()))?))
}

/// The text of a cell that the coercion has made text.
pub fn text<'a>(cells: &'a [Cell<'_>], at: usize) -> &'a str {
    match cells.get(at) {
        Some(Cell::Text(text)) => text,
        _ => "",
    }
}

/// The integer of a cell.
pub fn int(cells: &[Cell<'_>], at: usize) -> Option<i64> {
    match cells.get(at)? {
        Cell::Int16(v) => Some((*v).into()),
        Cell::Int32(v) => Some((*v).into()),
        Cell::Int64(v) => Some(*v),
        Cell::Oid(v) => Some((*v).into()),
        _ => None,
    }
}

/// The oid of a cell.
pub fn oid(cells: &[Cell<'_>], at: usize) -> u32 {
    int(cells, at).and_then(|v| u32::try_from(v).ok()).unwrap_or(0)
}

/// The truth of a cell.
pub fn truth(cells: &[Cell<'_>], at: usize) -> Option<bool> {
    match cells.get(at)? {
        Cell::Bool(v) => Some(*v),
        _ => None,
    }
}

/// The oid that a table has whose functions take names and oids alike.
pub const RELATION: u32 = oids::REGCLASS;
