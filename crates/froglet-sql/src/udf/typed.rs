//! Functions that look at the SQL types of their arguments, any number of them: those of JSON and of
//! arrays. As [`super::simple`], written as one closure over a row.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use froglet_engine::SqlState;

use super::arguments;
use super::simple::{Out, array_of};
use crate::context::current_session;
use crate::error::SqlError;
use crate::query::account::Room;
use crate::types::cell::{Cell, cell_at};
use crate::types::{arrow_of, input, json, oids, plain, sql_field, sql_type_of_field};

/// An argument: a cell and its SQL type.
pub struct Argument<'a> {
    /// The cell.
    pub cell: Cell<'a>,
    /// The type's oid.
    pub oid: u32,
}

impl<'a> Argument<'a> {
    fn again(&self) -> Argument<'_> {
        Argument { cell: self.cell.clone(), oid: self.oid }
    }

    /// A text; nothing of anything else.
    pub fn text(&self) -> Option<&str> {
        match &self.cell {
            Cell::Text(text) => Some(text),
            _ => None,
        }
    }
}

/// The body of a function, for one row.
pub type Body = fn(&[Argument<'_>]) -> Result<Out, SqlError>;

/// A function.
pub struct Typed {
    name: &'static str,
    /// Least and most arguments.
    count: (usize, usize),
    returns: u32,
    strict: bool,
    of_jsonb: bool,
    body: Body,
    signature: Signature,
}

impl Typed {
    /// Strict, of so many arguments.
    pub fn new(name: &'static str, count: usize, returns: u32, body: Body) -> Typed {
        let signature = Signature::user_defined(Volatility::Stable);
        Typed {
            name,
            count: (count, count),
            returns,
            strict: true,
            of_jsonb: false,
            body,
            signature,
        }
    }

    /// More arguments are welcome.
    pub fn at_most(mut self, count: usize) -> Typed {
        self.count.1 = count;
        self
    }

    /// Its first argument is jsonb, whatever text it is given.
    pub fn of_jsonb(mut self) -> Typed {
        self.of_jsonb = true;
        self
    }

    /// It is called for NULLs, too.
    pub fn not_strict(mut self) -> Typed {
        self.strict = false;
        self
    }

    /// As DataFusion wants it.
    pub fn build(self) -> Arc<ScalarUDF> {
        Arc::new(ScalarUDF::new_from_impl(self))
    }

    fn call(&self, arguments: &[Argument<'_>]) -> Result<Out, SqlError> {
        if self.strict && arguments.iter().any(|a| matches!(a.cell, Cell::Null)) {
            return Ok(Out::Null);
        }
        let Some((first, rest)) = arguments.split_first().filter(|_| self.of_jsonb) else {
            return (self.body)(arguments);
        };
        match &first.cell {
            Cell::Text(text) if first.oid != oids::JSONB => {
                let text = json::canonical(&json::read(text)?);
                let first = Argument { cell: Cell::Text(&text), oid: oids::JSONB };
                let rest = rest.iter().map(Argument::again);
                (self.body)(&std::iter::once(first).chain(rest).collect::<Vec<_>>())
            }
            _ => (self.body)(arguments),
        }
    }
}

impl fmt::Debug for Typed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl PartialEq for Typed {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Typed {}

impl Hash for Typed {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

/// 42883
pub fn no_function(name: &str, fields: &[FieldRef]) -> SqlError {
    let types = fields.iter().map(|field| input::input_name(sql_type_of_field(field)));
    let types: Vec<String> = types.collect();
    SqlError::new(
        SqlState::UNDEFINED_FUNCTION,
        format!("function {name}({}) does not exist", types.join(", ")),
    )
    .hint("No function matches the given name and argument types.")
}

impl ScalarUDFImpl for Typed {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        Ok(given.to_vec())
    }

    fn return_type(&self, _given: &[DataType]) -> Result<DataType> {
        Ok(arrow_of(plain(self.returns)).unwrap_or(DataType::Utf8View))
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        if !(self.count.0..=self.count.1).contains(&args.arg_fields.len()) {
            return Err(no_function(self.name, args.arg_fields).into());
        }
        Ok(sql_field(self.name, plain(self.returns), self.return_type(&[])?, true))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let session = current_session(&args.config_options);
        let zone = session.zone();
        let oids: Vec<u32> = args.arg_fields.iter().map(|f| sql_type_of_field(f).oid).collect();
        let scalars = args.args.iter().all(|a| matches!(a, ColumnarValue::Scalar(_)));
        let rows = if scalars { 1 } else { args.number_rows };
        let arrays = args.args.iter().map(arguments::array_once).collect::<Result<Vec<_>>>()?;
        let mut out = Vec::with_capacity(rows);
        let mut room = Room::new(session.as_ref());
        for row in 0..rows {
            let arguments: Vec<Argument<'_>> = arrays
                .iter()
                .zip(&oids)
                .map(|(array, oid)| {
                    let row = arguments::row_of(array, row);
                    Argument { cell: cell_at(array.as_ref(), row), oid: *oid }
                })
                .collect();
            let answer = zone.run(|| self.call(&arguments))?;
            room.grow(answer.bytes())?;
            out.push(answer);
        }
        let array = array_of(args.return_field.data_type(), out)?;
        if scalars {
            return ScalarValue::try_from_array(&array, 0).map(ColumnarValue::Scalar);
        }
        room.made(&array);
        Ok(ColumnarValue::Array(array))
    }
}
