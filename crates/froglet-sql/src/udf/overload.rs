//! Functions with PostgreSQL's signatures: several under one name, told apart by the types of their
//! arguments.
//!
//! ```text
//!   static SIGNATURES: &[Overload]      name, types of arguments, type of the result, body
//!        │ grouped by name
//!   Overloads   what the SQL planner finds under a name; it knows types, not yet which overload
//!        │ semantics/calls.rs: choose() by SQL types, literals without a type still unknown
//!   Resolved    one overload; its arguments are cast to exactly its types
//! ```
//!
//! The choice is PostgreSQL's (chapter 10.3 of its manual): the most exact matches, then the most
//! preferred types, then text for what has no type. Where that leaves several, the one named first
//! in the table is taken.
//!
//! A numeric result has one scale for all rows, if the overload computes it from those of the arguments and from
//! the arguments that are constants; else each value has its own.

use std::collections::BTreeMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::ScalarValue;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use froglet_engine::SqlState;

use super::simple::{ANY, Body, evaluate};
use crate::error::SqlError;
use crate::semantics::numerics::is_number;
use crate::types::oids::*;
use crate::types::{
    EXACT, arrow_of, input, oid_of_arrow, plain, record, sql_field, sql_type_of_field,
};

/// What a function returns.
#[derive(Clone, Copy)]
pub enum Returns {
    /// This type.
    Type(u32),
    /// numeric with the digits after the point that this says, or with as many as each value has.
    Numeric(fn(&Given<'_>) -> Option<i8>),
    /// A set of values of this type, as a list.
    Set(u32),
}

/// What is known of a call's arguments while it is planned.
pub struct Given<'a> {
    /// Their types.
    pub fields: &'a [FieldRef],
    /// The values of those that are constants.
    pub constants: &'a [Option<&'a ScalarValue>],
}

impl Given<'_> {
    /// Digits after the point of a numeric argument; `None` if each value has its own.
    pub fn scale(&self, at: usize) -> Option<i8> {
        match self.fields.get(at).map(|field| field.data_type()) {
            Some(DataType::Decimal128(_, scale)) => Some(*scale),
            Some(&EXACT) => None,
            _ => Some(0),
        }
    }

    /// A constant integer.
    pub fn int(&self, at: usize) -> Option<i64> {
        match self.constants.get(at).copied().flatten()? {
            ScalarValue::Int16(v) => v.map(i64::from),
            ScalarValue::Int32(v) => v.map(i64::from),
            ScalarValue::Int64(v) => *v,
            _ => None,
        }
    }

    /// A constant text.
    pub fn text(&self, at: usize) -> Option<&str> {
        match self.constants.get(at).copied().flatten()? {
            ScalarValue::Utf8(Some(text)) | ScalarValue::Utf8View(Some(text)) => Some(text),
            _ => None,
        }
    }
}

/// One signature and what it does.
pub struct Overload {
    name: &'static str,
    arguments: &'static [u32],
    required: usize,
    variadic: bool,
    returns: Returns,
    strict: bool,
    volatility: Volatility,
    body: Body,
}

impl Overload {
    /// Strict, immutable, of a fixed number of arguments.
    pub const fn new(
        name: &'static str,
        arguments: &'static [u32],
        returns: u32,
        body: Body,
    ) -> Overload {
        Overload {
            name,
            arguments,
            required: arguments.len(),
            variadic: false,
            returns: Returns::Type(returns),
            strict: true,
            volatility: Volatility::Immutable,
            body,
        }
    }

    /// Returns numeric of a scale of its own.
    pub const fn numeric(mut self, scale: fn(&Given<'_>) -> Option<i8>) -> Overload {
        self.returns = Returns::Numeric(scale);
        self
    }

    /// Returns a set of what it was said to return.
    pub const fn set(mut self) -> Overload {
        if let Returns::Type(oid) = self.returns {
            self.returns = Returns::Set(oid);
        }
        self
    }

    /// The last arguments may be left out.
    pub const fn optional(mut self, count: usize) -> Overload {
        self.required = self.arguments.len() - count;
        self
    }

    /// The last argument may be there more than once.
    pub const fn variadic(mut self) -> Overload {
        self.variadic = true;
        self
    }

    /// It is called for NULLs too.
    pub const fn not_strict(mut self) -> Overload {
        self.strict = false;
        self
    }

    /// Its result may change at any call.
    pub const fn volatile(mut self) -> Overload {
        self.volatility = Volatility::Volatile;
        self
    }

    /// Whether it is of this name and returns a set.
    pub fn is_set_named(&self, name: &str) -> bool {
        self.name == name && matches!(self.returns, Returns::Set(_))
    }

    /// The type of an argument of a call.
    pub fn argument(&self, at: usize) -> u32 {
        self.arguments.get(at).or(self.arguments.last()).copied().unwrap_or(ANY)
    }

    /// Digits after the point of a numeric result; `None` if each value has its own.
    pub fn scale(&self, given: &Given<'_>) -> Option<i8> {
        match self.returns {
            Returns::Numeric(scale) => scale(given).map(|scale| scale.clamp(0, 38)),
            _ => None,
        }
    }

    fn returned(&self, scale: Option<i8>) -> FieldRef {
        let of = |oid| arrow_of(plain(oid)).unwrap_or(DataType::Utf8View);
        match (self.returns, scale) {
            (Returns::Numeric(_), Some(scale)) => {
                Arc::new(Field::new(self.name, DataType::Decimal128(38, scale), true))
            }
            (Returns::Numeric(_), None) => Arc::new(Field::new(self.name, EXACT, true)),
            (Returns::Type(oid), _) => sql_field(self.name, plain(oid), of(oid), true),
            (Returns::Set(oid), _) => {
                let item = sql_field("item", plain(oid), of(oid), true);
                Arc::new(Field::new(self.name, DataType::List(item), true))
            }
        }
    }

    /// The same of a call: a row's field says of which fields it is.
    fn returned_for(&self, scale: Option<i8>, arguments: &[FieldRef]) -> FieldRef {
        let field = self.returned(scale);
        match self.returns {
            Returns::Type(RECORD) => record::row_of(field, arguments),
            _ => field,
        }
    }

    /// How well it fits arguments of these types; `None` if not at all.
    fn fit(&self, given: &[Option<u32>]) -> Option<Fit> {
        let most = if self.variadic { usize::MAX } else { self.arguments.len() };
        if !(self.required..=most).contains(&given.len()) {
            return None;
        }
        let mut fit = Fit::default();
        for (at, given) in given.iter().enumerate() {
            let wanted = self.argument(at);
            match given {
                _ if wanted == ANY => {}
                None => fit.texts += usize::from(wanted == TEXT),
                Some(oid) if *oid == wanted => fit.exact += 1,
                Some(oid) if implicit(*oid, wanted) => {}
                Some(_) => return None,
            }
            let is_exact = *given == Some(wanted);
            fit.preferred += usize::from(!is_exact && is_preferred(wanted));
        }
        Some(fit)
    }
}

/// In the order in which it counts.
#[derive(Default, PartialEq, Eq, PartialOrd, Ord)]
struct Fit {
    exact: usize,
    texts: usize,
    preferred: usize,
}

/// The preferred types of their categories.
fn is_preferred(oid: u32) -> bool {
    matches!(oid, TEXT | FLOAT8 | TIMESTAMPTZ | INTERVAL | BOOL | OID)
}

/// Whether a value becomes one of another type where a function wants that.
pub fn implicit(from: u32, to: u32) -> bool {
    let rank = |oid| match oid {
        INT2 => Some(0),
        INT4 => Some(1),
        INT8 => Some(2),
        NUMERIC => Some(3),
        FLOAT4 => Some(4),
        FLOAT8 => Some(5),
        _ => None,
    };
    match (from, to) {
        _ if from == to => true,
        (VARCHAR | BPCHAR | NAME | CHAR, TEXT) | (TEXT | VARCHAR, NAME | BPCHAR | VARCHAR) => true,
        (DATE, TIMESTAMP | TIMESTAMPTZ) | (TIMESTAMP, TIMESTAMPTZ) | (TIME, INTERVAL) => true,
        (INT2 | INT4 | INT8, OID) => true,
        (from, OID) => crate::types::names_objects(from),
        _ => matches!((rank(from), rank(to)), (Some(from), Some(to)) if from < to),
    }
}

/// All overloads of a name.
pub struct Overloads {
    name: &'static str,
    all: Vec<&'static Overload>,
    signature: Signature,
}

/// The functions of tables of overloads, one for each name.
pub fn functions(tables: &[&'static [Overload]]) -> Vec<Arc<ScalarUDF>> {
    let mut names: BTreeMap<&str, Vec<&'static Overload>> = BTreeMap::new();
    for overload in tables.iter().flat_map(|table| table.iter()) {
        names.entry(overload.name).or_default().push(overload);
    }
    let functions = names.into_iter().map(|(name, all)| {
        let volatility = all.iter().map(|o| o.volatility).max().unwrap_or(Volatility::Immutable);
        let signature = Signature::user_defined(volatility);
        Arc::new(ScalarUDF::new_from_impl(Overloads { name, all, signature }))
    });
    functions.collect()
}

impl Overloads {
    /// The overload for arguments of these types, `None` where one has no type; or 42883.
    pub fn choose(&self, given: &[Option<u32>]) -> Result<&'static Overload, SqlError> {
        let mut best: Option<(Fit, &'static Overload)> = None;
        for overload in &self.all {
            let Some(fit) = overload.fit(given) else { continue };
            if best.as_ref().is_none_or(|(known, _)| fit > *known) {
                best = Some((fit, overload));
            }
        }
        best.map(|(_, overload)| overload).ok_or_else(|| self.none(given))
    }

    fn none(&self, given: &[Option<u32>]) -> SqlError {
        let names: Vec<String> = given
            .iter()
            .map(|oid| oid.map_or("unknown".to_owned(), |oid| input::input_name(plain(oid))))
            .collect();
        SqlError::new(
            SqlState::UNDEFINED_FUNCTION,
            format!("function {}({}) does not exist", self.name, names.join(", ")),
        )
        .hint(crate::df_error::FUNCTION_HINT)
    }

    /// A literal that has no type yet comes as Utf8, all other strings as views.
    fn choose_for(&self, types: &[DataType]) -> Result<&'static Overload, SqlError> {
        let given: Vec<Option<u32>> = types
            .iter()
            .map(|ty| match ty {
                DataType::Null | DataType::Utf8 => None,
                ty => Some(oid_of_arrow(ty)),
            })
            .collect();
        self.choose(&given).or_else(|e| self.choose(&without_texts(types, given)).map_err(|_| e))
    }
}

/// The same types, but those of strings: what is kept as a string may be of another type, which is known when the
/// call is resolved.
fn without_texts<'a>(
    types: impl IntoIterator<Item = &'a DataType>,
    given: Vec<Option<u32>>,
) -> Vec<Option<u32>> {
    let kept = types.into_iter().zip(given).map(|(ty, oid)| oid.filter(|_| !ty.is_string()));
    kept.collect()
}

impl fmt::Debug for Overloads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl PartialEq for Overloads {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Overloads {}

impl Hash for Overloads {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl ScalarUDFImpl for Overloads {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let overload = self.choose_for(types)?;
        Ok(types.iter().enumerate().map(|(at, ty)| coerced(overload.argument(at), ty)).collect())
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(self.choose_for(types)?.returned(None).data_type().clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let given: Vec<Option<u32>> =
            args.arg_fields.iter().map(|f| Some(sql_type_of_field(f).oid)).collect();
        let types = args.arg_fields.iter().map(|field| field.data_type());
        let overload = self
            .choose(&given)
            .or_else(|e| self.choose(&without_texts(types, given)).map_err(|_| e))?;
        let given = Given { fields: args.arg_fields, constants: args.scalar_arguments };
        Ok(overload.returned_for(overload.scale(&given), args.arg_fields))
    }

    fn invoke_with_args(&self, _args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Err(DataFusionError::Internal(format!("{} was not resolved", self.name)))
    }
}

/// The Arrow type of an argument of a SQL type. A number keeps its own where it becomes a numeric.
fn coerced(oid: u32, given: &DataType) -> DataType {
    match (oid, given) {
        (ANY, given) => given.clone(),
        (NUMERIC, given) if is_number(given) => given.clone(),
        (oid, given) => arrow_of(plain(oid)).unwrap_or_else(|| given.clone()),
    }
}

/// A call of one overload.
pub struct Resolved {
    overload: &'static Overload,
    scale: Option<i8>,
    signature: Signature,
}

impl Resolved {
    /// The function of an overload whose numeric result has this scale.
    pub fn function(overload: &'static Overload, scale: Option<i8>) -> Arc<ScalarUDF> {
        let signature = Signature::user_defined(overload.volatility);
        Arc::new(ScalarUDF::new_from_impl(Resolved { overload, scale, signature }))
    }

    fn key(&self) -> (&str, &[u32], Option<i8>) {
        (self.overload.name, self.overload.arguments, self.scale)
    }
}

impl fmt::Debug for Resolved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.overload.name)
    }
}

impl PartialEq for Resolved {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Resolved {}

impl Hash for Resolved {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.key().hash(state);
    }
}

impl ScalarUDFImpl for Resolved {
    fn name(&self) -> &str {
        self.overload.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        Ok(types
            .iter()
            .enumerate()
            .map(|(at, ty)| match ty {
                DataType::Null => ty.clone(),
                ty => coerced(self.overload.argument(at), ty),
            })
            .collect())
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(self.overload.returned(self.scale).data_type().clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        Ok(self.overload.returned_for(self.scale, args.arg_fields))
    }

    fn is_strict(&self) -> bool {
        self.overload.strict
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let once = self.overload.volatility != Volatility::Volatile;
        evaluate(&args, self.overload.strict, once, self.overload.body)
    }
}
