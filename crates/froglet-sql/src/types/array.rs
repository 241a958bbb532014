//! Arrays of one dimension.
//!
//! ```text
//!   stored      text  {1,NULL,"a b"}     a column's cells, parameters, values of one row
//!   computed    List                      what expressions see of a column, and make
//! ```
//! A scan and an expression's inputs make lists of the texts ([`crate::semantics::casts::computed`]); an
//! assignment makes the text again ([`super::cast::cast_array`]). The text is canonical: every element
//! as its type prints it, in UTC where that depends on a zone.

use arrow::array::ArrayRef;
use froglet_engine::SqlState;
use froglet_schema::SqlType;

use super::style::Style;
use super::{Zone, binary, column_type_of, element_oid, from_text, input, oids, output};
use crate::error::SqlError;

/// The type of an array's elements, of which it keeps the modifier.
pub fn element_type(ty: SqlType) -> Option<SqlType> {
    element_oid(ty.oid).map(|oid| SqlType { oid, modifier: ty.modifier })
}

/// Whether a type is an array whose text is the usual one.
pub fn is_array(oid: u32) -> bool {
    !matches!(oid, oids::INT2VECTOR | oids::OIDVECTOR) && element_oid(oid).is_some()
}

/// What a column of an array type keeps of a text.
pub fn fit(text: &str, ty: SqlType) -> Result<Option<String>, SqlError> {
    let kept = rendered(text, ty, Zone::UTC)?;
    Ok((kept != text).then_some(kept))
}

/// The array's text with its elements as they are printed in a zone.
fn rendered(text: &str, ty: SqlType, zone: Zone) -> Result<String, SqlError> {
    let unknown = || SqlError::unsupported("an array of such elements");
    let element = element_type(ty).ok_or_else(unknown)?;
    let column = column_type_of(element.oid, element.modifier).ok_or_else(unknown)?;
    let mut out = vec![b'{'];
    for (at, item) in input::array_items(text)?.into_iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        match item {
            None => out.extend_from_slice(b"NULL"),
            Some(item) => {
                let value = from_text(element, column, &item)?;
                let start = out.len();
                zone.run(|| output::value_text(&value, column, element.oid, &mut out));
                output::quote_item(start, &mut out);
            }
        }
    }
    out.push(b'}');
    String::from_utf8(out)
        .map_err(|_| SqlError::new(SqlState::INTERNAL_ERROR, "an element's text is not UTF-8"))
}

/// Appends a stored array as it is printed: as it is, unless the session's zone or style counts.
pub fn write_text(text: &str, oid: u32, out: &mut Vec<u8>) {
    let zone = Zone::current();
    let style = zone.style();
    let is_other = match element_oid(oid) {
        Some(oids::TIMESTAMPTZ) => !zone.is_utc(),
        Some(oids::INTERVAL) => style.intervals != Style::DEFAULT.intervals,
        Some(oids::FLOAT4 | oids::FLOAT8) => style.float_digits <= 0,
        _ => false,
    };
    let ty = super::plain(oid);
    match is_other.then(|| rendered(text, ty, zone)) {
        Some(Ok(shown)) => out.extend_from_slice(shown.as_bytes()),
        _ => out.extend_from_slice(text.as_bytes()),
    }
}

/// Appends a stored array in binary format.
pub fn write_binary(text: &str, oid: u32, out: &mut Vec<u8>) {
    match list_of(text, oid) {
        Ok(items) => binary::list(&items, oid, out),
        // It was read when it was stored.
        Err(_) => out.extend_from_slice(text.as_bytes()),
    }
}

/// The elements of a stored array.
fn list_of(text: &str, oid: u32) -> Result<ArrayRef, SqlError> {
    let element = element_oid(oid).ok_or_else(|| SqlError::unsupported("this array"))?;
    let texts: arrow::array::StringViewArray = input::array_items(text)?.into_iter().collect();
    let texts: ArrayRef = std::sync::Arc::new(texts);
    let session = crate::context::NoSession;
    let from = super::plain(oids::TEXT);
    crate::semantics::casts::cast_any(&texts, from, super::plain(element), &session)
}
