//! Results of the types that name objects (regclass, regtype): the text, under the type's own number.

use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use froglet_schema::SqlType;

use super::casts;
use crate::context::current_session;
use crate::types::{oids, plain, sql_field};
use crate::udf::lookup;

/// A column as its text. One of NULLs alone is text, too.
pub fn shown(column: Expr, ty: SqlType) -> Expr {
    if !matches!(ty.oid, oids::REGCLASS | oids::REGTYPE | oids::REGPROC) {
        return casts::call(column, plain(oids::TEXT));
    }
    let signature = Signature::any(1, Volatility::Stable);
    let function = Arc::new(ScalarUDF::new_from_impl(Shown { oid: ty.oid, signature }));
    Expr::ScalarFunction(ScalarFunction::new_udf(function, vec![column]))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Shown {
    oid: u32,
    signature: Signature,
}

impl ScalarUDFImpl for Shown {
    fn name(&self) -> &str {
        "froglet_shown"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8View)
    }

    fn return_field_from_args(&self, _args: ReturnFieldArgs) -> Result<FieldRef> {
        Ok(sql_field("froglet_shown", plain(self.oid), DataType::Utf8View, true))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let session = current_session(&args.config_options);
        let scalar = matches!(args.args[0], ColumnarValue::Scalar(_));
        let rows = if scalar { 1 } else { args.number_rows };
        let array = args.args[0].clone().into_array(rows)?;
        let names = match array.data_type() {
            DataType::UInt32 => lookup::names_of(session.as_ref(), self.oid, &array),
            _ => array,
        };
        match scalar {
            true => ScalarValue::try_from_array(&names, 0).map(ColumnarValue::Scalar),
            false => Ok(ColumnarValue::Array(names)),
        }
    }
}
