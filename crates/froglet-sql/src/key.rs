//! Values as index keys.
//!
//! A comparison may mix types (a bigint column and an int constant). An index is of use only where
//! the value has an exact counterpart in the column's type; [`fit`] finds it, or says on which
//! side of every value of that type it lies, or that the index does not help.

use std::ops::Bound;

use froglet_engine::{ColumnType, KeyPart, KeyRange, SqlState, Value, key};
use froglet_schema::{CatalogVersion, ColumnDef, IndexDef, TableDef};

use crate::error::SqlError;
use crate::semantics::array_keys::Elements;
use crate::types::{oids, type_name};

/// What an index's keys, which are made of values as they are stored, say of a column's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Told {
    /// Equal values may have different keys: 1.0 and 1.00 within jsonb or an array.
    Nothing,
    /// Equal values have equal keys, in another order than theirs: labels, arrays.
    Equality,
    Order,
}

/// What keys say of a column.
pub(crate) fn told_of(column: &ColumnDef) -> Told {
    if matches!(column.sql_type.oid, oids::JSON | oids::JSONB) {
        return Told::Nothing;
    }
    match Elements::of_type(column.sql_type.oid) {
        Some(elements) if elements.have_several_forms() => Told::Nothing,
        Some(_) => Told::Equality,
        None if !column.labels.is_empty() => Told::Equality,
        None => Told::Order,
    }
}

/// Refuses indexes that a change has made of columns whose keys do not say what the index is for.
pub(crate) fn refuse_untold(
    before: &CatalogVersion,
    after: &CatalogVersion,
) -> Result<(), SqlError> {
    for (id, table) in &after.tables {
        let known = before.tables.get(id);
        if known.is_some_and(|known| std::sync::Arc::ptr_eq(known, table)) {
            continue;
        }
        let known = known.map(|known| &known.def);
        for index in &table.def.indexes {
            refuse_parts(known, &table.def, index)?;
        }
    }
    Ok(())
}

fn refuse_parts(
    known: Option<&TableDef>,
    table: &TableDef,
    index: &IndexDef,
) -> Result<(), SqlError> {
    for part in &index.spec.key {
        let of = |table: &TableDef| {
            table.columns.iter().find(|c| c.id == part.column).map(|c| (c.sql_type, told_of(c)))
        };
        let Some((ty, told)) = of(table) else { continue };
        let has_it = known.is_some_and(|known| {
            known.indexes.iter().any(|old| old.spec.id == index.spec.id)
                && of(known).is_some_and(|(old, _)| old == ty)
        });
        if has_it {
            continue;
        }
        if ty.oid == oids::JSON {
            let message =
                "data type json has no default operator class for access method \"btree\"";
            return Err(SqlError::new(SqlState::new("42704"), message).hint(
                "You must specify an operator class for the index or define a default operator \
                 class for the data type.",
            ));
        }
        if index.spec.unique && told == Told::Nothing {
            let what = format!("a unique index on a column of type {}", type_name(ty));
            return Err(SqlError::unsupported(what).hint(
                "Equal values of this type may be stored in several forms. Use a column of another \
                 type, or an expression that has one.",
            ));
        }
    }
    Ok(())
}

/// A value in a column's type.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Fit {
    /// The same value.
    Exact(Value),
    /// Below every value of the type.
    Below,
    /// Above every value of the type.
    Above,
    /// The index does not help.
    Unusable,
}

/// Whether every value of a type has a counterpart in another.
pub(crate) fn has_counterparts(from: ColumnType, to: ColumnType) -> bool {
    use ColumnType::{Decimal, Int16, Int32, Int64, Numeric};
    from == to || to == Numeric && matches!(from, Decimal { .. } | Int16 | Int32 | Int64)
}

/// The counterpart of `value`, of type `from`, in a column of type `to`.
pub(crate) fn fit(value: Value, from: ColumnType, to: ColumnType) -> Fit {
    if from == to {
        return Fit::Exact(value);
    }
    let counterpart = || value.counterpart(from, to).map_or(Fit::Unusable, Fit::Exact);
    match (&value, to) {
        (Value::Null, _) => Fit::Exact(Value::Null),
        (_, ColumnType::Int16 | ColumnType::Int32 | ColumnType::Int64) => {
            match value.as_integer() {
                Some(n) => fit_integer(n, to),
                None => counterpart(),
            }
        }
        (Value::Float32(f), ColumnType::Float64) => Fit::Exact(Value::Float64(f64::from(*f))),
        (_, ColumnType::Float64) => match value.as_integer() {
            Some(n) if n.unsigned_abs() < 1 << 53 => Fit::Exact(Value::Float64(n as f64)),
            _ => Fit::Unusable,
        },
        (_, ColumnType::Decimal { .. } | ColumnType::Numeric) => counterpart(),
        _ => Fit::Unusable,
    }
}

fn fit_integer(n: i64, to: ColumnType) -> Fit {
    match Value::of_integer(n, to) {
        Some(value) => Fit::Exact(value),
        None if n < 0 => Fit::Below,
        None => Fit::Above,
    }
}

/// The first byte of every key part that is a value, and the first above it (see
/// [`froglet_engine::key`]).
const VALUES: u8 = 1;
const ABOVE_VALUES: u8 = 2;

/// The keys that begin with `prefix` and whose next part lies within the bounds.
pub(crate) fn range(
    prefix: &[u8],
    part: &KeyPart,
    low: Bound<&Value>,
    high: Bound<&Value>,
) -> KeyRange {
    let (first, last) = if part.descending { (high, low) } else { (low, high) };
    let with = |value: &Value| {
        let mut bytes = prefix.to_vec();
        key::encode_part(&mut bytes, value, part);
        bytes
    };
    let marker = |byte: u8| {
        let mut bytes = prefix.to_vec();
        bytes.push(byte);
        bytes
    };
    let after = |bytes: Vec<u8>| match key::successor(&bytes) {
        Some(next) => next,
        None => marker(ABOVE_VALUES),
    };
    let lower = match first {
        Bound::Included(value) => with(value),
        Bound::Excluded(value) => after(with(value)),
        Bound::Unbounded => marker(VALUES),
    };
    let upper = match last {
        Bound::Included(value) => after(with(value)),
        Bound::Excluded(value) => with(value),
        Bound::Unbounded => marker(ABOVE_VALUES),
    };
    KeyRange { lower: Bound::Included(lower), upper: Bound::Excluded(upper) }
}

/// Whether a range surely has no keys.
pub(crate) fn is_empty(range: &KeyRange) -> bool {
    match (&range.lower, &range.upper) {
        (Bound::Included(low), Bound::Excluded(high)) => low >= high,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use froglet_engine::ColumnId;

    #[test]
    fn values_fit_exactly_or_not_at_all() {
        let (int2, int4, int8) = (ColumnType::Int16, ColumnType::Int32, ColumnType::Int64);
        let money = ColumnType::Decimal { precision: 10, scale: 2 };
        assert_eq!(fit(Value::Int64(7), int8, int4), Fit::Exact(Value::Int32(7)));
        assert_eq!(fit(Value::Int64(1 << 40), int8, int4), Fit::Above);
        assert_eq!(fit(Value::Int32(-40_000), int4, int2), Fit::Below);
        assert_eq!(fit(Value::Int32(3), int4, money), Fit::Exact(Value::Decimal(300)));
        assert_eq!(fit(Value::Decimal(5), money, int4), Fit::Unusable);
        assert_eq!(fit(Value::text("x"), ColumnType::Text, int4), Fit::Unusable);
    }

    #[test]
    fn ranges_leave_nulls_out_in_both_directions() {
        for descending in [false, true] {
            for nulls_first in [false, true] {
                let part = KeyPart { column: ColumnId(1), descending, nulls_first };
                let five = Value::Int32(5);
                let all = range(&[], &part, Bound::Excluded(&five), Bound::Unbounded);
                let holds = |value: &Value| {
                    let mut bytes = Vec::new();
                    key::encode_part(&mut bytes, value, &part);
                    let Bound::Included(low) = &all.lower else { unreachable!() };
                    let Bound::Excluded(high) = &all.upper else { unreachable!() };
                    *low <= bytes && bytes < *high
                };
                assert!(holds(&Value::Int32(6)) && holds(&Value::Int32(i32::MAX)));
                assert!(!holds(&Value::Int32(5)) && !holds(&Value::Int32(4)));
                assert!(!holds(&Value::Null));
            }
        }
    }
}
