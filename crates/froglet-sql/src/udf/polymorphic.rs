//! Functions of arrays that are DataFusion's but for the type of what they return: that of the array that they are
//! given, or of its elements, where Arrow's does not tell it (jsonb, char(n)).

use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef};
use datafusion::error::Result;
use datafusion::functions_nested::{concat, extract, repeat};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};
use froglet_schema::SqlType;

use crate::semantics::common;
use crate::types::array::{element_type, is_array};
use crate::types::{sql_field, sql_type_of_field};

/// The type of what a function returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Returns {
    /// That of its first argument's elements.
    Element,
    /// That of the first argument which is an array.
    Array,
    /// An array of its first argument's type.
    ArrayOf,
}

/// The functions.
pub fn functions() -> Vec<Arc<ScalarUDF>> {
    use Returns::{Array, ArrayOf, Element};
    let all = [
        (extract::array_element_udf(), Element),
        (extract::array_slice_udf(), Array),
        (concat::array_append_udf(), Array),
        (concat::array_prepend_udf(), Array),
        (concat::array_concat_udf(), Array),
        (repeat::array_repeat_udf(), ArrayOf),
    ];
    let of = |(inner, returns)| Arc::new(ScalarUDF::new_from_impl(Polymorphic { inner, returns }));
    all.map(of).into()
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Polymorphic {
    inner: Arc<ScalarUDF>,
    returns: Returns,
}

impl Polymorphic {
    fn returned(&self, given: &[FieldRef]) -> Option<SqlType> {
        match self.returns {
            Returns::Element => element_type(sql_type_of_field(given.first()?)),
            Returns::Array => {
                let types = given.iter().map(|field| sql_type_of_field(field));
                types.into_iter().find(|ty| is_array(ty.oid))
            }
            Returns::ArrayOf => common::array_type(given.first()?),
        }
    }
}

impl ScalarUDFImpl for Polymorphic {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(given)
    }

    fn return_type(&self, given: &[DataType]) -> Result<DataType> {
        self.inner.return_type(given)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let returned = self.returned(args.arg_fields);
        let field = self.inner.return_field_from_args(args)?;
        Ok(match returned {
            Some(ty) => sql_field(field.name(), ty, field.data_type().clone(), field.is_nullable()),
            None => field,
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        self.inner.invoke_with_args(args)
    }
}
