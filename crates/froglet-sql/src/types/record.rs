//! Rows as values in binary format. A row's value is its text; what its fields are, the type of its column says.
//!
//! ```text
//!   row(1, row('a', now()), ARRAY[row(2)])
//!   shape   23,(25,1184),(23)[]             in the metadata of the expression's field
//!   text    (1,"(a,…)","{(2)}")
//!   binary  count  { oid  byte length (-1: NULL)  bytes }…
//! ```
//! Where a shape is lost (a row out of CASE), fields are sent as what their texts are: of type unknown.

use std::fmt;

use arrow::datatypes::{Field, FieldRef};

use super::cell::{Cell, cell_at};
use super::{
    array, column_type_of, element_oid, from_text, oids, output, plain, sql_type_of_field,
};
use crate::error::SqlError;
use crate::types::input;

/// Where a field's metadata has the shape.
pub const SHAPE_KEY: &str = "froglet.record";

/// The type of literals that nobody has given one.
const UNKNOWN: u32 = 705;

/// The types of a row's fields.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Shape(Vec<Part>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Type(u32),
    Row(Shape),
    Rows(Shape),
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, part) in self.0.iter().enumerate() {
            let comma = if at > 0 { "," } else { "" };
            match part {
                Part::Type(oid) => write!(f, "{comma}{oid}")?,
                Part::Row(shape) => write!(f, "{comma}({shape})")?,
                Part::Rows(shape) => write!(f, "{comma}({shape})[]")?,
            }
        }
        Ok(())
    }
}

impl Shape {
    /// What a field's metadata says.
    pub fn of_field(field: &Field) -> Option<Shape> {
        let mut chars = field.metadata().get(SHAPE_KEY)?.chars().peekable();
        let shape = Shape::read(&mut chars)?;
        chars.next().is_none().then_some(shape)
    }

    fn read(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Option<Shape> {
        let mut parts = Vec::new();
        loop {
            match chars.peek() {
                None | Some(')') => return Some(Shape(parts)),
                Some(',') => {
                    chars.next();
                }
                Some('(') => {
                    chars.next();
                    let inner = Shape::read(chars)?;
                    (chars.next()? == ')').then_some(())?;
                    let is_array = chars.next_if_eq(&'[').and_then(|_| chars.next()).is_some();
                    parts.push(if is_array { Part::Rows(inner) } else { Part::Row(inner) });
                }
                Some(_) => {
                    let mut oid = 0_u32;
                    while let Some(digit) = chars.peek().and_then(|c| c.to_digit(10)) {
                        oid = oid.checked_mul(10)?.checked_add(digit)?;
                        chars.next();
                    }
                    (oid > 0).then_some(())?;
                    parts.push(Part::Type(oid));
                }
            }
        }
    }

    /// Of a row of such fields.
    fn of_fields(fields: &[FieldRef]) -> Shape {
        let part = |field: &FieldRef| {
            let oid = sql_type_of_field(field).oid;
            match (oid, Shape::of_field(field)) {
                (oids::RECORD, Some(shape)) => Part::Row(shape),
                (oids::RECORD_ARRAY, Some(shape)) => Part::Rows(shape),
                // What has no type is text, as in any column of a result.
                (0 | UNKNOWN, _) => Part::Type(oids::TEXT),
                _ if field.data_type().is_null() => Part::Type(oids::TEXT),
                (oid, _) => Part::Type(oid),
            }
        };
        Shape(fields.iter().map(part).collect())
    }

    fn part(&self, at: usize) -> Part {
        self.0.get(at).cloned().unwrap_or(Part::Type(UNKNOWN))
    }
}

/// The field of a row made of others.
pub fn row_of(field: FieldRef, fields: &[FieldRef]) -> FieldRef {
    with_shape(field, Some(Shape::of_fields(fields).to_string()))
}

/// The field of an array whose elements are as `item`.
pub fn array_of(field: FieldRef, item: &Field) -> FieldRef {
    with_shape(field, item.metadata().get(SHAPE_KEY).cloned())
}

/// The shape that all of these fields have, if that is one.
pub fn shape_of<'f>(fields: impl IntoIterator<Item = &'f FieldRef>) -> Option<String> {
    let mut shapes = fields.into_iter().map(|field| field.metadata().get(SHAPE_KEY));
    let first = shapes.next()??;
    shapes.all(|shape| shape == Some(first)).then(|| first.clone())
}

/// A field of this shape.
pub fn with_shape(field: FieldRef, shape: Option<String>) -> FieldRef {
    let Some(shape) = shape else { return field };
    let mut field = field.as_ref().clone();
    let mut metadata = field.metadata().clone();
    metadata.insert(SHAPE_KEY.to_owned(), shape);
    field.set_metadata(metadata);
    field.into()
}

/// Appends the binary format of a cell that is a row, or an array of rows.
pub fn write_binary(cell: &Cell<'_>, shape: &Shape, out: &mut Vec<u8>) {
    match cell {
        Cell::Text(text) => row(text, shape, out),
        Cell::List(items) => {
            let texts: Vec<Option<String>> = (0..items.len())
                .map(|at| match cell_at(items.as_ref(), at) {
                    Cell::Text(text) => Some(text.to_owned()),
                    _ => None,
                })
                .collect();
            rows(&texts, shape, out);
        }
        _ => {}
    }
}

/// Appends a row.
pub(super) fn row(text: &str, shape: &Shape, out: &mut Vec<u8>) {
    let fields = items(text);
    out.extend_from_slice(&(fields.len() as i32).to_be_bytes());
    for (at, field) in fields.iter().enumerate() {
        let part = shape.part(at);
        let start = out.len();
        let oid = match &part {
            Part::Type(oid) => *oid,
            Part::Row(_) => oids::RECORD,
            Part::Rows(_) => oids::RECORD_ARRAY,
        };
        out.extend_from_slice(&oid.to_be_bytes());
        let Some(text) = field else {
            out.extend_from_slice(&(-1_i32).to_be_bytes());
            continue;
        };
        measured(out, |out| match &part {
            Part::Row(shape) => row(text, shape, out),
            Part::Rows(shape) => match input::array_items(text) {
                Ok(texts) => rows(&texts, shape, out),
                Err(_) => rows(&[], shape, out),
            },
            Part::Type(oid) => {
                let before = out.len();
                if value(text, *oid, out).is_err() {
                    // What is printed and not read again is sent as it is printed.
                    out.truncate(before);
                    out.extend_from_slice(text.as_bytes());
                    out[start..start + 4].copy_from_slice(&UNKNOWN.to_be_bytes());
                }
            }
        });
    }
}

/// Appends an array of rows.
fn rows(texts: &[Option<String>], shape: &Shape, out: &mut Vec<u8>) {
    let has_nulls = texts.iter().any(Option::is_none);
    out.extend_from_slice(&i32::from(!texts.is_empty()).to_be_bytes());
    out.extend_from_slice(&i32::from(has_nulls).to_be_bytes());
    out.extend_from_slice(&oids::RECORD.to_be_bytes());
    if texts.is_empty() {
        return;
    }
    out.extend_from_slice(&(texts.len() as i32).to_be_bytes());
    out.extend_from_slice(&1_i32.to_be_bytes());
    for text in texts {
        match text {
            Some(text) => measured(out, |out| row(text, shape, out)),
            None => out.extend_from_slice(&(-1_i32).to_be_bytes()),
        }
    }
}

fn value(text: &str, oid: u32, out: &mut Vec<u8>) -> Result<(), SqlError> {
    if oid == UNKNOWN {
        out.extend_from_slice(text.as_bytes());
        return Ok(());
    }
    if element_oid(oid).is_some() {
        // Of which the parts are read as those of a stored array.
        array::write_binary(text, oid, out);
        return Ok(());
    }
    if super::names_objects(oid) {
        return Err(SqlError::unsupported("the number of a name"));
    }
    let column = column_type_of(oid, -1).ok_or_else(|| SqlError::unsupported("this type"))?;
    let value = from_text(plain(oid), column, text)?;
    output::value_binary(&value, column, oid, out);
    Ok(())
}

/// Appends what `write` does behind its length.
fn measured(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    write(out);
    let length = (out.len() - at - 4) as i32;
    out[at..at + 4].copy_from_slice(&length.to_be_bytes());
}

/// The fields of a row's text.
fn items(text: &str) -> Vec<Option<String>> {
    let body = text.strip_prefix('(').and_then(|text| text.strip_suffix(')')).unwrap_or(text);
    if body.is_empty() {
        return Vec::new();
    }
    let (mut items, mut item, mut quoted, mut inside) = (Vec::new(), String::new(), false, false);
    let mut chars = body.chars().peekable();
    let done = |item: &mut String, quoted: bool| {
        let text = std::mem::take(item);
        (quoted || !text.is_empty()).then_some(text)
    };
    while let Some(c) = chars.next() {
        match c {
            '\\' => item.extend(chars.next()),
            '"' if inside && chars.next_if_eq(&'"').is_some() => item.push('"'),
            '"' => {
                inside = !inside;
                quoted = true;
            }
            ',' if !inside => {
                items.push(done(&mut item, quoted));
                quoted = false;
            }
            c => item.push(c),
        }
    }
    items.push(done(&mut item, quoted));
    items
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shape_is_read_as_it_is_written() {
        let inner = Shape(vec![Part::Type(25), Part::Type(1184)]);
        let parts = vec![
            Part::Type(23),
            Part::Row(inner.clone()),
            Part::Rows(inner),
            Part::Row(Shape::default()),
        ];
        let shape = Shape(parts);
        assert_eq!(shape.to_string(), "23,(25,1184),(25,1184)[],()");
        let field = Field::new("r", arrow::datatypes::DataType::Utf8View, true);
        let field = with_shape(field.into(), Some(shape.to_string()));
        assert_eq!(Shape::of_field(&field), Some(shape));
    }

    #[test]
    fn fields_are_read_as_they_are_printed() {
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(
            items("(1,,\"\",\"a \"\"b\"\" \\\\\",x)"),
            [some("1"), None, some(""), some("a \"b\" \\"), some("x"),]
        );
        assert_eq!(items("()"), []);
        assert_eq!(items("(\"(1,\"\"a b\"\")\")"), [some("(1,\"a b\")")]);
    }
}
