//! PostgreSQL's types over Arrow's.
//!
//! ```text
//!   SqlType (oid, modifier)   what a client sees and a column was declared with
//!        │ column_type_of
//!   ColumnType                how a column's cells are stored (froglet-engine)
//!        │ arrow()
//!   Arrow DataType            what expressions compute with
//!        │ oid_of_arrow       (the way back, for results of expressions)
//!        ▼
//!   text and binary formats   exactly PostgreSQL's bytes
//! ```
//!
//! Several SQL types share one stored type (text, varchar(n), char(n), name are all text); which
//! one a value has travels beside it: in the catalog for a column, in Arrow field metadata
//! (see [`sql_field`]) through a query.
//!
//! Decisions: numeric without precision is stored as decimal(38, 10); expressions may have other
//! scales; what needs more than 38 digits is 22003. 'infinity' is the extreme value of a date or
//! timestamp, as in PostgreSQL.

pub mod array;
pub mod binary;
pub mod cast;
pub mod cell;
pub mod convert;
mod date_input;
pub mod datetime;
pub mod exact;
pub mod float;
pub mod input;
pub mod interval;
pub mod interval_input;
pub mod json;
pub mod names;
pub mod numeric;
pub mod output;
pub mod record;
pub mod style;
#[cfg(test)]
mod tests;
pub mod zone;

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef};
use froglet_engine::ColumnType;
use froglet_schema::SqlType;
use froglet_schema::def::FIRST_USER_ID;

use crate::semantics::enums;

pub use binary::from_binary;
pub use cast::{CastContext, assignable, cast_array, cast_value};
pub use convert::{array_of, as_computed, as_stored, scalar_of, value_at, value_of_scalar};
pub use input::from_text;
pub use names::{parse_type, type_name, type_row};
pub use output::{value_binary, value_text, write_binary, write_text};
pub use zone::Zone;

/// pg_type.oid of the types known here.
#[allow(missing_docs)]
pub mod oids {
    pub const BOOL: u32 = 16;
    pub const BYTEA: u32 = 17;
    pub const CHAR: u32 = 18;
    pub const NAME: u32 = 19;
    pub const INT8: u32 = 20;
    pub const INT2: u32 = 21;
    pub const INT2VECTOR: u32 = 22;
    pub const INT4: u32 = 23;
    pub const REGPROC: u32 = 24;
    pub const TEXT: u32 = 25;
    pub const OID: u32 = 26;
    pub const XID: u32 = 28;
    pub const JSON: u32 = 114;
    pub const JSON_ARRAY: u32 = 199;
    pub const OIDVECTOR: u32 = 30;
    pub const FLOAT4: u32 = 700;
    pub const FLOAT8: u32 = 701;
    pub const UNKNOWN: u32 = 705;
    pub const BOOL_ARRAY: u32 = 1000;
    pub const NAME_ARRAY: u32 = 1003;
    pub const INT2_ARRAY: u32 = 1005;
    pub const INT4_ARRAY: u32 = 1007;
    pub const TEXT_ARRAY: u32 = 1009;
    pub const INT8_ARRAY: u32 = 1016;
    pub const FLOAT4_ARRAY: u32 = 1021;
    pub const FLOAT8_ARRAY: u32 = 1022;
    pub const OID_ARRAY: u32 = 1028;
    pub const ACLITEM_ARRAY: u32 = 1034;
    pub const BPCHAR: u32 = 1042;
    pub const VARCHAR: u32 = 1043;
    pub const DATE: u32 = 1082;
    pub const TIME: u32 = 1083;
    pub const TIMESTAMP: u32 = 1114;
    pub const TIMESTAMPTZ: u32 = 1184;
    pub const TIMESTAMPTZ_ARRAY: u32 = 1185;
    pub const INTERVAL: u32 = 1186;
    pub const NUMERIC_ARRAY: u32 = 1231;
    pub const NUMERIC: u32 = 1700;
    pub const REGPROCEDURE: u32 = 2202;
    pub const REGCLASS: u32 = 2205;
    pub const REGTYPE: u32 = 2206;
    pub const RECORD: u32 = 2249;
    pub const RECORD_ARRAY: u32 = 2287;
    pub const VOID: u32 = 2278;
    pub const UUID: u32 = 2950;
    pub const JSONB: u32 = 3802;
    pub const JSONB_ARRAY: u32 = 3807;
    pub const JSONPATH: u32 = 4072;
    pub const REGNAMESPACE: u32 = 4089;
    pub const REGROLE: u32 = 4096;
}

/// The Arrow field metadata key of a SQL type's oid.
pub const OID_KEY: &str = "pg.oid";
/// The Arrow field metadata key of a SQL type's modifier.
pub const MODIFIER_KEY: &str = "pg.mod";

/// How numeric without precision is stored.
pub const UNCONSTRAINED: ColumnType = ColumnType::Numeric;

/// What expressions compute numerics with whose display scale is each value's own: the bytes of [`exact`]. No other
/// type is computed with in this one.
pub const EXACT: DataType = DataType::LargeBinary;

/// Whether values of a type name objects of the catalog: numbers that are written and read as names.
pub const fn names_objects(oid: u32) -> bool {
    matches!(
        oid,
        oids::REGPROC
            | oids::REGPROCEDURE
            | oids::REGCLASS
            | oids::REGTYPE
            | oids::REGNAMESPACE
            | oids::REGROLE
    )
}

/// A type without modifier.
pub const fn plain(oid: u32) -> SqlType {
    SqlType { oid, modifier: -1 }
}

/// How a column or parameter of a type is stored; `None` for types that only results have.
/// An array parameter travels as its text.
pub fn column_type_of(oid: u32, modifier: i32) -> Option<ColumnType> {
    Some(match oid {
        oids::BOOL => ColumnType::Bool,
        oids::INT2 => ColumnType::Int16,
        oids::INT4 => ColumnType::Int32,
        oids::INT8 | oids::OID | oids::XID => ColumnType::Int64,
        oids::FLOAT4 => ColumnType::Float32,
        oids::FLOAT8 => ColumnType::Float64,
        oids::NUMERIC => numeric_type(modifier)?,
        oids::TEXT | oids::VARCHAR | oids::BPCHAR | oids::NAME | oids::CHAR | oids::UNKNOWN => {
            ColumnType::Text
        }
        registered if names_objects(registered) => ColumnType::Text,
        oids::JSON | oids::JSONB | oids::JSONPATH | oids::VOID | oids::RECORD => ColumnType::Text,
        oids::BYTEA => ColumnType::Bytes,
        oids::DATE => ColumnType::Date,
        oids::TIMESTAMP => ColumnType::Timestamp,
        oids::TIMESTAMPTZ => ColumnType::TimestampTz,
        oids::UUID => ColumnType::Uuid,
        oids::TIME => ColumnType::Time,
        oids::INTERVAL => ColumnType::Interval,
        array if element_oid(array).is_some() => ColumnType::Text,
        // Enum types: a value is its label.
        users if users >= FIRST_USER_ID => ColumnType::Text,
        _ => return None,
    })
}

fn numeric_type(modifier: i32) -> Option<ColumnType> {
    if modifier < 4 {
        return Some(UNCONSTRAINED);
    }
    let (precision, scale) = numeric::precision_scale(modifier);
    let decimal = |precision: u8, scale: i8| {
        let has_room = precision <= 38 && (0..=precision as i8).contains(&scale);
        has_room.then_some(ColumnType::Decimal { precision, scale })
    };
    let fits = u8::try_from(precision).ok().zip(i8::try_from(scale).ok());
    Some(fits.and_then(|(p, s)| decimal(p, s)).unwrap_or(UNCONSTRAINED))
}

/// The SQL type of a stored type without more knowledge.
pub fn default_sql_type(ty: ColumnType) -> SqlType {
    let oid = match ty {
        ColumnType::Bool => oids::BOOL,
        ColumnType::Int16 => oids::INT2,
        ColumnType::Int32 => oids::INT4,
        ColumnType::Int64 => oids::INT8,
        ColumnType::Float32 => oids::FLOAT4,
        ColumnType::Float64 => oids::FLOAT8,
        ColumnType::Decimal { .. } | ColumnType::Numeric => oids::NUMERIC,
        ColumnType::Text => oids::TEXT,
        ColumnType::Bytes => oids::BYTEA,
        ColumnType::Date => oids::DATE,
        ColumnType::Timestamp => oids::TIMESTAMP,
        ColumnType::TimestampTz => oids::TIMESTAMPTZ,
        ColumnType::Uuid => oids::UUID,
        ColumnType::Time => oids::TIME,
        ColumnType::Interval => oids::INTERVAL,
    };
    plain(oid)
}

/// The stored type of an Arrow type, for values taken out of results.
pub fn column_type_of_arrow(ty: &DataType) -> Option<ColumnType> {
    match ty {
        DataType::Decimal128(precision, scale) => {
            Some(ColumnType::Decimal { precision: *precision, scale: *scale })
        }
        // As its text.
        DataType::List(_) => Some(ColumnType::Text),
        DataType::LargeList(_) | DataType::FixedSizeList(..) => None,
        _ => column_type_of(oid_of_arrow(ty), -1),
    }
}

/// The type that PostgreSQL has for results of an Arrow type.
pub fn oid_of_arrow(ty: &DataType) -> u32 {
    match ty {
        DataType::Null => oids::TEXT,
        DataType::Boolean => oids::BOOL,
        DataType::Int8 | DataType::UInt8 | DataType::Int16 => oids::INT2,
        DataType::UInt16 | DataType::Int32 => oids::INT4,
        DataType::UInt32 => oids::OID,
        DataType::Int64 | DataType::UInt64 => oids::INT8,
        DataType::Float16 | DataType::Float32 => oids::FLOAT4,
        DataType::Float64 => oids::FLOAT8,
        DataType::Decimal32(..)
        | DataType::Decimal64(..)
        | DataType::Decimal128(..)
        | DataType::Decimal256(..)
        | &EXACT => oids::NUMERIC,
        DataType::Binary | DataType::BinaryView | DataType::FixedSizeBinary(_) => match ty {
            DataType::FixedSizeBinary(16) => oids::UUID,
            _ => oids::BYTEA,
        },
        DataType::Date32 | DataType::Date64 => oids::DATE,
        DataType::Time32(_) | DataType::Time64(_) => oids::TIME,
        DataType::Timestamp(_, None) => oids::TIMESTAMP,
        DataType::Timestamp(_, Some(_)) => oids::TIMESTAMPTZ,
        DataType::Interval(_) | DataType::Duration(_) => oids::INTERVAL,
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            // An array has one type, however many dimensions.
            match oid_of_arrow(item.data_type()) {
                array if array::is_array(array) => array,
                element => array_oid(element),
            }
        }
        DataType::Dictionary(_, value) => oid_of_arrow(value),
        _ => oids::TEXT,
    }
}

/// The array type of an element type; that of text where there is none.
pub fn array_oid(element: u32) -> u32 {
    names::type_row(element)
        .map(|row| row.array)
        .filter(|oid| *oid != 0)
        .unwrap_or(oids::TEXT_ARRAY)
}

/// The array type of an element type, if it has one.
pub fn array_type_of(element: u32) -> Option<u32> {
    if element >= FIRST_USER_ID {
        return enums::array_of(element);
    }
    names::type_row(element).map(|row| row.array).filter(|oid| names::type_row(*oid).is_some())
}

/// The element type of an array type.
pub fn element_oid(array: u32) -> Option<u32> {
    if array >= FIRST_USER_ID {
        return enums::element_of(array);
    }
    if array == oids::ACLITEM_ARRAY {
        return Some(oids::TEXT);
    }
    if array == oids::RECORD_ARRAY {
        return Some(oids::RECORD);
    }
    names::type_row(array).filter(|row| row.category == 'A').map(|row| row.element)
}

/// The Arrow type that expressions compute with for a SQL type.
pub fn arrow_of(ty: SqlType) -> Option<DataType> {
    Some(match ty.oid {
        oids::OID | oids::XID => DataType::UInt32,
        registered if names_objects(registered) => DataType::UInt32,
        oid => match array::element_type(ty) {
            Some(element) => DataType::List(Arc::new(Field::new("item", arrow_of(element)?, true))),
            None => arrow_of_column(column_type_of(oid, ty.modifier)?),
        },
    })
}

/// The Arrow type that expressions compute with for values of a column.
pub fn arrow_of_column(column: ColumnType) -> DataType {
    match column {
        ColumnType::Numeric => EXACT,
        column => column.arrow(),
    }
}

/// The Arrow type that expressions see of a column: its own, but a list of an array's text.
pub fn computed_type(ty: SqlType, column: ColumnType) -> DataType {
    let list = array::is_array(ty.oid).then(|| arrow_of(ty)).flatten();
    list.unwrap_or_else(|| arrow_of_column(column))
}

/// An Arrow field of a SQL type. The type is written into the field's metadata only where the
/// Arrow type does not tell it.
pub fn sql_field(name: &str, ty: SqlType, arrow: DataType, nullable: bool) -> FieldRef {
    let told = oid_of_arrow(&arrow) == ty.oid && ty.modifier == -1;
    let field = Field::new(name, arrow, nullable);
    if told {
        return Arc::new(field);
    }
    let metadata = HashMap::from([
        (OID_KEY.to_owned(), ty.oid.to_string()),
        (MODIFIER_KEY.to_owned(), ty.modifier.to_string()),
    ]);
    Arc::new(field.with_metadata(metadata))
}

/// The SQL type of an Arrow field.
pub fn sql_type_of_field(field: &Field) -> SqlType {
    let number = |key: &str| field.metadata().get(key).and_then(|v| v.parse::<i64>().ok());
    let arrow = oid_of_arrow(field.data_type());
    match number(OID_KEY).and_then(|oid| u32::try_from(oid).ok()) {
        // A type that an operator has changed since keeps no name of its own.
        Some(oid) if same_storage(oid, arrow) => SqlType {
            oid,
            modifier: number(MODIFIER_KEY).and_then(|m| i32::try_from(m).ok()).unwrap_or(-1),
        },
        _ => plain(arrow),
    }
}

fn same_storage(declared: u32, arrow: u32) -> bool {
    let text = |oid| matches!(column_type_of(oid, -1), Some(ColumnType::Text));
    match declared {
        oids::XID => arrow == oids::OID || arrow == oids::TEXT,
        registered if names_objects(registered) => arrow == oids::OID || arrow == oids::TEXT,
        crate::udf::VOID => arrow == oids::TEXT,
        _ if declared == arrow || (text(declared) && arrow == oids::TEXT) => true,
        _ => match (element_oid(declared), element_oid(arrow)) {
            (Some(declared), Some(arrow)) => same_storage(declared, arrow),
            _ => false,
        },
    }
}
