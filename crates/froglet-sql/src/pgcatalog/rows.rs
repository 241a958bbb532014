//! Rows of a system table, given by column name, and the batch they make.

use std::sync::Arc;

use arrow::array::*;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, UInt32Type};
use arrow::datatypes::{Int16Type, Int64Type};
use datafusion::error::Result;
use froglet_schema::SqlType;

use crate::types::{arrow_of, names, plain, sql_field};

/// The columns of a system table.
#[derive(Debug, Clone)]
pub struct Columns(Arc<[ColumnSpec]>);

/// One column.
#[derive(Debug, Clone)]
pub struct ColumnSpec {
    /// Its name.
    pub name: String,
    /// Its type.
    pub ty: SqlType,
    /// NOT NULL
    pub not_null: bool,
}

impl Columns {
    /// Reads `name type!, name type`.
    pub fn parse(text: &str) -> Columns {
        let columns = text.split(',').filter_map(|column| {
            let (name, ty) = column.trim().split_once(' ')?;
            let ty = ty.trim();
            let not_null = ty.ends_with('!');
            let ty = ty.trim_end_matches('!').trim();
            let row = names::TYPES.iter().find(|row| row.name == ty)?;
            Some(ColumnSpec { name: name.to_owned(), ty: plain(row.oid), not_null })
        });
        Columns(columns.collect())
    }

    /// In order.
    pub fn iter(&self) -> impl Iterator<Item = &ColumnSpec> {
        self.0.iter()
    }

    /// As Arrow has them.
    pub fn schema(&self) -> SchemaRef {
        let field = |c: &ColumnSpec| -> Arc<Field> {
            sql_field(&c.name, c.ty, arrow_of(c.ty).unwrap_or(DataType::Utf8View), !c.not_null)
        };
        Arc::new(Schema::new(self.0.iter().map(field).collect::<Vec<_>>()))
    }
}

/// A value of a row.
#[derive(Debug, Clone, PartialEq)]
pub enum V {
    /// NULL
    Null,
    /// bool
    Bool(bool),
    /// Any integer and oid
    Int(i64),
    /// float4, float8
    Float(f64),
    /// text, name, "char", …
    Text(String),
    /// timestamptz, microseconds since 1970
    Time(i64),
    /// Arrays of integers and oids
    Ints(Vec<i64>),
    /// Arrays of text
    Texts(Vec<String>),
}

macro_rules! from {
    ($($ty:ty => |$v:ident| $make:expr;)*) => {
        $(impl From<$ty> for V { fn from($v: $ty) -> V { $make } })*
    };
}

from! {
    bool => |v| V::Bool(v);
    i16 => |v| V::Int(v.into());
    i32 => |v| V::Int(v.into());
    i64 => |v| V::Int(v);
    u32 => |v| V::Int(v.into());
    u64 => |v| V::Int(i64::try_from(v).unwrap_or(i64::MAX));
    usize => |v| V::Int(i64::try_from(v).unwrap_or(i64::MAX));
    f64 => |v| V::Float(v);
    &str => |v| V::Text(v.to_owned());
    char => |v| V::Text(v.to_string());
    String => |v| V::Text(v);
    &String => |v| V::Text(v.clone());
    Vec<i64> => |v| V::Ints(v);
    Vec<u64> => |v| V::Ints(v.into_iter().map(|n| i64::try_from(n).unwrap_or(i64::MAX)).collect());
    Vec<String> => |v| V::Texts(v);
}

impl<T: Into<V>> From<Option<T>> for V {
    fn from(v: Option<T>) -> V {
        v.map_or(V::Null, Into::into)
    }
}

/// Rows being collected.
#[derive(Debug)]
pub struct Rows {
    columns: Columns,
    values: Vec<Vec<V>>,
    count: usize,
}

impl Rows {
    /// None yet.
    pub fn new(columns: Columns) -> Rows {
        let values = vec![Vec::new(); columns.0.len()];
        Rows { columns, values, count: 0 }
    }

    /// Adds a row. A column that is not named is NULL. Where it may not be, it is its type's zero: one object of
    /// which something cannot be said does not hide all the others.
    pub fn add(&mut self, row: impl IntoIterator<Item = (&'static str, V)>) {
        for (name, value) in row {
            let at = self.columns.0.iter().position(|c| c.name == name);
            debug_assert!(at.is_some(), "the table has no column {name}");
            if let Some(at) = at {
                self.values[at].push(value);
            }
        }
        self.count += 1;
        for (column, values) in self.columns.0.iter().zip(&mut self.values) {
            if values.len() < self.count {
                values.push(V::Null);
            }
            if let (Some(value @ V::Null), true) = (values.last_mut(), column.not_null) {
                *value = zero(column.ty);
            }
        }
    }

    /// The batch.
    pub fn finish(self, schema: &SchemaRef) -> Result<RecordBatch> {
        let arrays = schema
            .fields()
            .iter()
            .zip(self.values)
            .map(|(field, values)| array_of(field.data_type(), values))
            .collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(self.count));
        Ok(RecordBatch::try_new_with_options(schema.clone(), arrays, &options)?)
    }
}

/// Adds a row to [`Rows`]: `row!(rows; oid: 1, relname: "t")`.
#[macro_export]
macro_rules! system_row {
    ($rows:expr; $($name:ident : $value:expr),* $(,)?) => {
        $rows.add([$((stringify!($name), $crate::pgcatalog::V::from($value))),*])
    };
}

fn zero(ty: SqlType) -> V {
    match arrow_of(ty) {
        Some(DataType::Boolean) => V::Bool(false),
        Some(DataType::Utf8View) => V::Text(String::new()),
        Some(DataType::Float32 | DataType::Float64) => V::Float(0.0),
        Some(DataType::List(item)) if item.data_type().is_string() => V::Texts(Vec::new()),
        Some(DataType::List(_)) => V::Ints(Vec::new()),
        Some(DataType::Timestamp(..)) => V::Time(0),
        _ => V::Int(0),
    }
}

fn int(v: V) -> Option<i64> {
    match v {
        V::Int(v) => Some(v),
        V::Bool(v) => Some(v.into()),
        _ => None,
    }
}

fn text(v: V) -> Option<String> {
    match v {
        V::Text(v) => Some(v),
        _ => None,
    }
}

fn array_of(ty: &DataType, values: Vec<V>) -> Result<ArrayRef> {
    let ints = values.iter().cloned().map(int);
    Ok(match ty {
        DataType::Boolean => {
            let bools = values.iter().map(|v| match v {
                V::Bool(v) => Some(*v),
                _ => None,
            });
            Arc::new(bools.collect::<BooleanArray>())
        }
        DataType::Int16 => Arc::new(ints.map(|v| v.map(|v| v as i16)).collect::<Int16Array>()),
        DataType::Int32 => Arc::new(ints.map(|v| v.map(|v| v as i32)).collect::<Int32Array>()),
        DataType::Int64 => Arc::new(ints.collect::<Int64Array>()),
        DataType::UInt32 => Arc::new(ints.map(|v| v.map(|v| v as u32)).collect::<UInt32Array>()),
        DataType::Float32 => {
            Arc::new(floats(values).map(|v| v.map(|v| v as f32)).collect::<Float32Array>())
        }
        DataType::Float64 => Arc::new(floats(values).collect::<Float64Array>()),
        DataType::Utf8View => Arc::new(values.into_iter().map(text).collect::<StringViewArray>()),
        // Nothing fills them.
        DataType::BinaryView => {
            let empty = values.iter().map(|v| (!matches!(v, V::Null)).then_some(&b""[..]));
            Arc::new(empty.collect::<BinaryViewArray>())
        }
        DataType::Timestamp(..) => {
            let times = values.iter().map(|v| match v {
                V::Time(v) | V::Int(v) => Some(*v),
                _ => None,
            });
            Arc::new(times.collect::<TimestampMicrosecondArray>().with_data_type(ty.clone()))
        }
        DataType::List(item) => list_of(item.data_type(), values)?,
        // Types of columns that nothing fills.
        other => new_null_array(other, values.len()),
    })
}

fn floats(values: Vec<V>) -> impl Iterator<Item = Option<f64>> {
    values.into_iter().map(|v| match v {
        V::Float(v) => Some(v),
        V::Int(v) => Some(v as f64),
        _ => None,
    })
}

fn list_of(item: &DataType, values: Vec<V>) -> Result<ArrayRef> {
    macro_rules! numbers {
        ($arrow:ty, $native:ty) => {
            Arc::new(ListArray::from_iter_primitive::<$arrow, _, _>(values.into_iter().map(|v| {
                match v {
                    V::Ints(v) => {
                        Some(v.into_iter().map(|v| Some(v as $native)).collect::<Vec<_>>())
                    }
                    _ => None,
                }
            }))) as ArrayRef
        };
    }
    Ok(match item {
        DataType::Int16 => numbers!(Int16Type, i16),
        DataType::UInt32 => numbers!(UInt32Type, u32),
        DataType::Int64 => numbers!(Int64Type, i64),
        DataType::Utf8View => {
            let mut builder = ListBuilder::new(StringViewBuilder::new());
            for value in values {
                match value {
                    V::Texts(items) => builder.append_value(items.into_iter().map(Some)),
                    _ => builder.append_null(),
                }
            }
            Arc::new(builder.finish())
        }
        other => {
            let field = Arc::new(Field::new("item", other.clone(), true));
            new_null_array(&DataType::List(field), values.len())
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pgcatalog::SPECS;

    #[test]
    fn every_relation_has_a_number_of_its_own() {
        let mut numbers: Vec<u32> = SPECS.iter().map(|spec| spec.oid).collect();
        numbers.sort_unstable();
        let all = numbers.len();
        numbers.dedup();
        assert_eq!(numbers.len(), all);
    }

    #[test]
    fn a_row_of_which_nothing_is_known_hides_no_other() {
        for spec in SPECS {
            let columns = Columns::parse(spec.columns);
            let mut rows = Rows::new(columns.clone());
            rows.add([]);
            rows.add(
                columns.iter().map(|c| (&*Box::leak(c.name.clone().into_boxed_str()), V::Null)),
            );
            let batch = rows.finish(&columns.schema());
            let batch = batch.unwrap_or_else(|e| panic!("{}.{}: {e}", spec.schema, spec.name));
            assert_eq!(batch.num_rows(), 2, "{}.{}", spec.schema, spec.name);
        }
    }
}
