//! `enum_first`, `enum_last` and `enum_range`, which look at the type of their argument, not at its value.

use std::sync::Arc;

use arrow::array::{Array, AsArray, ListBuilder, StringViewArray, StringViewBuilder};
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use froglet_schema::def::FIRST_USER_ID;

use super::typed::no_function;
use crate::context::current_session;
use crate::error::SqlError;
use crate::semantics::enums;
use crate::types::{oids, plain, sql_field, sql_type_of_field};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum What {
    First,
    Last,
    Range,
}

/// The functions.
pub fn functions() -> Vec<Arc<ScalarUDF>> {
    let of = |what| {
        let signature = Signature::variadic_any(Volatility::Stable);
        Arc::new(ScalarUDF::new_from_impl(EnumBounds { what, signature }))
    };
    [What::First, What::Last, What::Range].map(of).into()
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct EnumBounds {
    what: What,
    signature: Signature,
}

impl EnumBounds {
    /// The enum of the arguments.
    fn enum_of(&self, fields: &[FieldRef]) -> Result<u32, SqlError> {
        let most = if self.what == What::Range { 2 } else { 1 };
        let oids: Vec<u32> = fields.iter().map(|field| sql_type_of_field(field).oid).collect();
        let is_unknown = |oid: &u32| matches!(*oid, oids::TEXT | oids::UNKNOWN);
        let known: Vec<u32> = oids.iter().copied().filter(|oid| !is_unknown(oid)).collect();
        if oids.is_empty() || oids.len() > most {
            return Err(no_function(self.name(), fields));
        }
        match known[..] {
            [oid] if oid >= FIRST_USER_ID => Ok(oid),
            [oid, other] if oid >= FIRST_USER_ID && oid == other => Ok(oid),
            _ => Err(no_function(self.name(), fields)),
        }
    }
}

impl ScalarUDFImpl for EnumBounds {
    fn name(&self) -> &str {
        match self.what {
            What::First => "enum_first",
            What::Last => "enum_last",
            What::Range => "enum_range",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _given: &[DataType]) -> Result<DataType> {
        Ok(match self.what {
            What::First | What::Last => DataType::Utf8View,
            What::Range => DataType::List(Arc::new(Field::new("item", DataType::Utf8View, true))),
        })
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let oid = self.enum_of(args.arg_fields)?;
        let returned = match self.what {
            What::First | What::Last => oid,
            What::Range => enums::array_of(oid).unwrap_or(oids::TEXT_ARRAY),
        };
        Ok(sql_field(self.name(), plain(returned), self.return_type(&[])?, true))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let oid = self.enum_of(&args.arg_fields)?;
        let catalog = current_session(&args.config_options).catalog();
        let Some(def) = catalog.enum_type(oid) else {
            return Err(no_function(self.name(), &args.arg_fields).into());
        };
        let labels: Vec<&str> = def.labels.iter().map(|(_, label)| label.as_str()).collect();
        let rows = args.number_rows;
        if self.what != What::Range {
            let label = if self.what == What::First { labels.first() } else { labels.last() };
            let values: StringViewArray = (0..rows).map(|_| label).collect();
            return Ok(ColumnarValue::Array(Arc::new(values)));
        }
        let bounds = args.args.iter().map(|arg| {
            let array = arg.clone().into_array(rows)?;
            Ok(arrow::compute::cast(&array, &DataType::Utf8View)?)
        });
        let bounds = bounds.collect::<Result<Vec<_>>>()?;
        let place = |arg: usize, row: usize| -> Result<Option<usize>> {
            let texts = bounds[arg].as_string_view();
            if texts.is_null(row) {
                return Ok(None);
            }
            let found = labels.iter().position(|label| *label == texts.value(row));
            let unknown = || enums::not_a_label(&def.name, texts.value(row));
            Ok(Some(found.ok_or_else(unknown)?))
        };
        let mut lists = ListBuilder::new(StringViewBuilder::new());
        for row in 0..rows {
            let (from, to) = match bounds.len() {
                1 => (None, None),
                _ => (place(0, row)?, place(1, row)?),
            };
            let (from, to) = (from.unwrap_or(0), to.map_or(labels.len(), |to| to + 1));
            labels.iter().take(to).skip(from).for_each(|label| lists.values().append_value(label));
            lists.append(true);
        }
        Ok(ColumnarValue::Array(Arc::new(lists.finish())))
    }
}
