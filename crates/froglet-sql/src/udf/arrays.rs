//! Functions of arrays that DataFusion has otherwise: lengths are integer, positions count from 1.

use std::sync::Arc;

use arrow::array::{Array, AsArray};
use datafusion::logical_expr::ScalarUDF;

use super::simple::Out;
use super::typed::{Argument, Typed};
use crate::error::SqlError;
use crate::types::cell::{Cell, cell_at};
use crate::types::exact::order;
use crate::types::numeric::exact_of;
use crate::types::oids::{INT2VECTOR, INT4, OIDVECTOR, TEXT};
use crate::types::output;

type Answer = Result<Out, SqlError>;

/// The functions.
pub fn functions() -> Vec<Arc<ScalarUDF>> {
    vec![
        Typed::new("array_length", 2, INT4, |a| Ok(bound(a, |_, length| length))).build(),
        Typed::new("array_upper", 2, INT4, |a| Ok(bound(a, |first, length| first + length - 1)))
            .build(),
        Typed::new("array_lower", 2, INT4, |a| Ok(bound(a, |first, _| first))).build(),
        Typed::new("cardinality", 1, INT4, |a| {
            let lengths = lengths(a);
            Ok(Out::Int(if lengths.is_empty() { 0 } else { lengths.iter().product() }))
        })
        .build(),
        Typed::new("array_ndims", 1, INT4, |a| {
            let dimensions = lengths(a).len() as i64;
            Ok(if dimensions == 0 { Out::Null } else { Out::Int(dimensions) })
        })
        .build(),
        Typed::new("array_dims", 1, TEXT, |a| {
            let first = first(a);
            let shown = |length| format!("[{first}:{}]", first + length - 1);
            let text: String = lengths(a).into_iter().map(shown).collect();
            Ok(if text.is_empty() { Out::Null } else { Out::Text(text) })
        })
        .build(),
        Typed::new("array_position", 2, INT4, position).at_most(3).not_strict().build(),
    ]
}

/// How long an array is in each of its dimensions, of which an empty one has none.
fn lengths(arguments: &[Argument<'_>]) -> Vec<i64> {
    let mut lengths = Vec::new();
    let mut array = match &arguments[0].cell {
        Cell::List(items) => items.clone(),
        _ => return lengths,
    };
    while !array.is_empty() {
        lengths.push(array.len() as i64);
        let inner = match array.as_list_opt::<i32>() {
            Some(inner) if inner.is_valid(0) => inner.value(0),
            _ => return lengths,
        };
        array = inner;
    }
    Vec::new()
}

/// The subscript of the first element.
fn first(arguments: &[Argument<'_>]) -> i64 {
    i64::from(!matches!(arguments[0].oid, INT2VECTOR | OIDVECTOR))
}

/// A bound of a dimension, of its first subscript and its length: there is one, and none of an empty array.
fn bound(arguments: &[Argument<'_>], of: fn(i64, i64) -> i64) -> Out {
    let dimension = match arguments[1].cell {
        Cell::Int16(dimension) => dimension.into(),
        Cell::Int32(dimension) => dimension.into(),
        Cell::Int64(dimension) => dimension,
        _ => 0,
    };
    let dimension = usize::try_from(dimension - 1).ok();
    match dimension.and_then(|dimension| lengths(arguments).get(dimension).copied()) {
        Some(length) => Out::Int(of(first(arguments), length)),
        None => Out::Null,
    }
}

/// Where an element is; NULL is found, too.
fn position(arguments: &[Argument<'_>]) -> Answer {
    let Cell::List(items) = &arguments[0].cell else { return Ok(Out::Null) };
    let text = |cell: &Cell<'_>| match cell {
        Cell::Null => None,
        // Whatever its type and its display scale.
        Cell::Int16(_) | Cell::Int32(_) | Cell::Int64(_) | Cell::Decimal(..) | Cell::Exact(_) => {
            exact_of(cell).map(|value| order(&value.encode()).to_vec())
        }
        cell => {
            let mut bytes = Vec::new();
            output::cell_text(cell, 0, &mut bytes);
            Some(bytes)
        }
    };
    let wanted = text(&arguments[1].cell);
    let from = match arguments.get(2).map(|a| &a.cell) {
        Some(Cell::Int32(from)) => usize::try_from(from - 1).unwrap_or(0),
        Some(Cell::Int64(from)) => usize::try_from(from - 1).unwrap_or(0),
        _ => 0,
    };
    let found = (from..items.len()).find(|row| text(&cell_at(items.as_ref(), *row)) == wanted);
    Ok(found.map_or(Out::Null, |at| Out::Int(at as i64 + first(arguments))))
}
