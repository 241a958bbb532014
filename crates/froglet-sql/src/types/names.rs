//! Names of types: PostgreSQL's type table, type names in SQL text, and names for messages.

use datafusion::sql::sqlparser::ast::{
    ArrayElemTypeDef, CharacterLength, DataType as Ast, ExactNumberInfo, IntervalFields,
    ObjectName, TimezoneInfo,
};
use froglet_engine::{ColumnType, SqlState};
use froglet_schema::SqlType;

use super::interval::Fields;
use super::{array, column_type_of, element_oid, names_objects, numeric, oids, plain};
use crate::context::quotes_all;
use crate::error::SqlError;
use crate::semantics::enums;
use crate::udf::lookup::quoted;

/// One row of pg_type.
#[derive(Debug, Clone, Copy)]
pub struct TypeRow {
    /// pg_type.oid
    pub oid: u32,
    /// typname
    pub name: &'static str,
    /// As format_type prints it.
    pub sql_name: &'static str,
    /// typlen
    pub length: i16,
    /// typcategory
    pub category: char,
    /// typelem
    pub element: u32,
    /// typarray
    pub array: u32,
    /// typcollation
    pub collation: u32,
}

#[allow(clippy::too_many_arguments)] // the columns of pg_type, in its order
const fn row(
    oid: u32,
    name: &'static str,
    sql_name: &'static str,
    length: i16,
    category: char,
    element: u32,
    array: u32,
    collation: u32,
) -> TypeRow {
    TypeRow { oid, name, sql_name, length, category, element, array, collation }
}

/// The types that have a row in pg_type, by oid.
pub const TYPES: &[TypeRow] = &[
    row(16, "bool", "boolean", 1, 'B', 0, 1000, 0),
    row(17, "bytea", "bytea", -1, 'U', 0, 1001, 0),
    row(18, "char", "\"char\"", 1, 'Z', 0, 1002, 0),
    row(19, "name", "name", 64, 'S', 18, 1003, 950),
    row(20, "int8", "bigint", 8, 'N', 0, 1016, 0),
    row(21, "int2", "smallint", 2, 'N', 0, 1005, 0),
    row(22, "int2vector", "int2vector", -1, 'A', 21, 1006, 0),
    row(23, "int4", "integer", 4, 'N', 0, 1007, 0),
    row(24, "regproc", "regproc", 4, 'N', 0, 1008, 0),
    row(25, "text", "text", -1, 'S', 0, 1009, 100),
    row(26, "oid", "oid", 4, 'N', 0, 1028, 0),
    row(28, "xid", "xid", 4, 'U', 0, 1011, 0),
    row(30, "oidvector", "oidvector", -1, 'A', 26, 1013, 0),
    row(114, "json", "json", -1, 'U', 0, 199, 0),
    row(199, "_json", "json[]", -1, 'A', 114, 0, 0),
    row(700, "float4", "real", 4, 'N', 0, 1021, 0),
    row(701, "float8", "double precision", 8, 'N', 0, 1022, 0),
    row(705, "unknown", "unknown", -2, 'X', 0, 0, 0),
    row(1000, "_bool", "boolean[]", -1, 'A', 16, 0, 0),
    row(1001, "_bytea", "bytea[]", -1, 'A', 17, 0, 0),
    row(1002, "_char", "\"char\"[]", -1, 'A', 18, 0, 0),
    row(1003, "_name", "name[]", -1, 'A', 19, 0, 950),
    row(1005, "_int2", "smallint[]", -1, 'A', 21, 0, 0),
    row(1007, "_int4", "integer[]", -1, 'A', 23, 0, 0),
    row(1009, "_text", "text[]", -1, 'A', 25, 0, 100),
    row(1014, "_bpchar", "character[]", -1, 'A', 1042, 0, 100),
    row(1015, "_varchar", "character varying[]", -1, 'A', 1043, 0, 100),
    row(1016, "_int8", "bigint[]", -1, 'A', 20, 0, 0),
    row(1021, "_float4", "real[]", -1, 'A', 700, 0, 0),
    row(1022, "_float8", "double precision[]", -1, 'A', 701, 0, 0),
    row(1028, "_oid", "oid[]", -1, 'A', 26, 0, 0),
    row(1034, "_aclitem", "aclitem[]", -1, 'A', 0, 0, 0),
    row(1042, "bpchar", "character", -1, 'S', 0, 1014, 100),
    row(1043, "varchar", "character varying", -1, 'S', 0, 1015, 100),
    row(1082, "date", "date", 4, 'D', 0, 1182, 0),
    row(1083, "time", "time without time zone", 8, 'D', 0, 1183, 0),
    row(1114, "timestamp", "timestamp without time zone", 8, 'D', 0, 1115, 0),
    row(1115, "_timestamp", "timestamp without time zone[]", -1, 'A', 1114, 0, 0),
    row(1182, "_date", "date[]", -1, 'A', 1082, 0, 0),
    row(1183, "_time", "time without time zone[]", -1, 'A', 1083, 0, 0),
    row(1184, "timestamptz", "timestamp with time zone", 8, 'D', 0, 1185, 0),
    row(1185, "_timestamptz", "timestamp with time zone[]", -1, 'A', 1184, 0, 0),
    row(1186, "interval", "interval", 16, 'T', 0, 1187, 0),
    row(1187, "_interval", "interval[]", -1, 'A', 1186, 0, 0),
    row(1231, "_numeric", "numeric[]", -1, 'A', 1700, 0, 0),
    row(1700, "numeric", "numeric", -1, 'N', 0, 1231, 0),
    row(2202, "regprocedure", "regprocedure", 4, 'N', 0, 2207, 0),
    row(2205, "regclass", "regclass", 4, 'N', 0, 2210, 0),
    row(2206, "regtype", "regtype", 4, 'N', 0, 2211, 0),
    row(2211, "_regtype", "regtype[]", -1, 'A', 2206, 0, 0),
    row(2249, "record", "record", -1, 'P', 0, 2287, 0),
    row(2278, "void", "void", 4, 'P', 0, 0, 0),
    row(2287, "_record", "record[]", -1, 'P', 2249, 0, 0),
    row(2950, "uuid", "uuid", 16, 'U', 0, 2951, 0),
    row(2951, "_uuid", "uuid[]", -1, 'A', 2950, 0, 0),
    row(3802, "jsonb", "jsonb", -1, 'U', 0, 3807, 0),
    row(3807, "_jsonb", "jsonb[]", -1, 'A', 3802, 0, 0),
    row(4072, "jsonpath", "jsonpath", -1, 'U', 0, 4073, 0),
    row(4089, "regnamespace", "regnamespace", 4, 'N', 0, 4090, 0),
    row(4096, "regrole", "regrole", 4, 'N', 0, 4097, 0),
];

/// The row of a type.
pub fn type_row(oid: u32) -> Option<&'static TypeRow> {
    TYPES.binary_search_by_key(&oid, |row| row.oid).ok().map(|at| &TYPES[at])
}

/// Types that PostgreSQL has and Froglet has not, yet.
const UNSUPPORTED: &[&str] = &[
    "xml",
    "timetz",
    "bit",
    "varbit",
    "money",
    "inet",
    "cidr",
    "macaddr",
    "macaddr8",
    "point",
    "line",
    "lseg",
    "box",
    "path",
    "polygon",
    "circle",
    "tsvector",
    "tsquery",
    "int4range",
    "int8range",
    "numrange",
    "tsrange",
    "tstzrange",
    "daterange",
    "hstore",
    "citext",
    "pg_lsn",
];

/// Spellings that are not typname, in SQL text that reaches us as a plain name.
fn alias(name: &str) -> &str {
    match name {
        "int" | "integer" => "int4",
        "smallint" => "int2",
        "bigint" => "int8",
        "real" => "float4",
        "float" | "double precision" => "float8",
        "boolean" => "bool",
        "decimal" | "dec" => "numeric",
        "character varying" => "varchar",
        "character" => "bpchar",
        "timestamp with time zone" => "timestamptz",
        "timestamp without time zone" => "timestamp",
        other => other,
    }
}

/// The type of a name as a user may write it (`'int'::regtype`, `pg_catalog.int4`).
pub fn type_by_name(name: &str) -> Option<&'static TypeRow> {
    let name = name.trim();
    if let Some(element) = name.strip_suffix("[]") {
        return type_by_name(element).and_then(|row| type_row(row.array));
    }
    let schemas = ["pg_catalog.", "\"pg_catalog\"."];
    let within = |schema: &str| {
        let (before, after) = name.split_at_checked(schema.len())?;
        let same = match schema.starts_with('"') {
            true => before == schema,
            false => before.eq_ignore_ascii_case(schema),
        };
        same.then_some(after)
    };
    let bare = schemas.iter().find_map(|schema| within(schema)).unwrap_or(name);
    // What is in quotes is pg_type's name, and no keyword.
    if let Some(quoted) = bare.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        return TYPES.iter().find(|row| row.name == quoted);
    }
    let lower = bare.to_ascii_lowercase();
    match lower == "char" && bare.len() == name.len() {
        true => type_row(oids::BPCHAR),
        false => TYPES.iter().find(|row| row.name == alias(&lower)),
    }
}

/// A type as PostgreSQL's format_type prints it: `character varying(20)`, `numeric(10,2)`.
pub fn type_name(ty: SqlType) -> String {
    let Some(row) = type_row(ty.oid) else {
        return enums::type_name(ty.oid).unwrap_or_else(|| "???".to_owned());
    };
    if ty.modifier < 0 {
        // format_type(…, NULL) says "character"; a column of type bpchar without length says bpchar.
        return row.sql_name.to_owned();
    }
    if let Some(element) = array::element_type(ty) {
        return format!("{}[]", type_name(element));
    }
    match ty.oid {
        oids::VARCHAR | oids::BPCHAR if ty.modifier >= 4 => {
            format!("{}({})", row.sql_name, ty.modifier - 4)
        }
        oids::NUMERIC if ty.modifier >= 4 => {
            let (precision, scale) = numeric::precision_scale(ty.modifier);
            format!("numeric({precision},{scale})")
        }
        oids::INTERVAL => format!("interval{}", Fields::suffix(ty.modifier)),
        oids::TIME => format!("time({}) without time zone", ty.modifier),
        oids::TIMESTAMP => format!("timestamp({}) without time zone", ty.modifier),
        oids::TIMESTAMPTZ => format!("timestamp({}) with time zone", ty.modifier),
        _ => row.sql_name.to_owned(),
    }
}

/// The same, for the text of a statement: in quotes where the session wants every name in them.
pub fn shown_type_name(ty: SqlType) -> String {
    let name = type_name(ty);
    let element = name.trim_end_matches("[]");
    let is_name = TYPES.iter().any(|row| row.sql_name == element && row.name == element);
    match is_name && !KEYWORDS.contains(&element) && quotes_all() {
        true => format!("{}{}", quoted(element), &name[element.len()..]),
        false => name,
    }
}

/// Types that the grammar knows by these words, which are no names.
const KEYWORDS: [&str; 2] = ["numeric", "interval"];

/// The type of a column declaration: how it is stored, and its SQL type.
pub fn parse_type(ast: &Ast) -> Result<(ColumnType, SqlType), SqlError> {
    let ty = parse_sql_type(ast)?;
    // Of an array it is the elements that count.
    let result_only = matches!(
        element_oid(ty.oid).unwrap_or(ty.oid),
        oids::OID
            | oids::XID
            | oids::CHAR
            | oids::UNKNOWN
            | oids::RECORD
            | oids::JSONPATH
            | oids::VOID
    ) || names_objects(element_oid(ty.oid).unwrap_or(ty.oid));
    match column_type_of(ty.oid, ty.modifier) {
        Some(column) if !result_only => Ok((column, ty)),
        _ => Err(SqlError::unsupported(format!("a column of type {}", type_name(ty)))),
    }
}

/// The type of a cast: also those that only expressions have.
pub fn parse_sql_type(ast: &Ast) -> Result<SqlType, SqlError> {
    let simple = match ast {
        Ast::Bool | Ast::Boolean => oids::BOOL,
        Ast::SmallInt(None) | Ast::Int2(None) => oids::INT2,
        Ast::Int(None) | Ast::Int4(None) | Ast::Integer(None) => oids::INT4,
        Ast::BigInt(None) | Ast::Int8(None) => oids::INT8,
        Ast::Real | Ast::Float4 => oids::FLOAT4,
        Ast::Float8 | Ast::DoublePrecision => oids::FLOAT8,
        Ast::Float(info) => return float_type(info),
        Ast::Numeric(info) | Ast::Decimal(info) | Ast::Dec(info) => return numeric_type(info),
        Ast::Text => oids::TEXT,
        Ast::Varchar(n) | Ast::CharacterVarying(n) | Ast::CharVarying(n) => {
            return character_type(oids::VARCHAR, n.as_ref());
        }
        Ast::Char(n) | Ast::Character(n) => return character_type(oids::BPCHAR, n.as_ref()),
        Ast::Bytea => oids::BYTEA,
        Ast::Date => oids::DATE,
        Ast::Timestamp(precision, zone) => return timestamp_type(*precision, zone),
        Ast::Time(precision, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => {
            return Ok(rounded(oids::TIME, *precision));
        }
        Ast::JSON => oids::JSON,
        Ast::JSONB => oids::JSONB,
        Ast::Uuid => oids::UUID,
        Ast::Regclass => oids::REGCLASS,
        Ast::Interval { fields, precision } => {
            return Ok(interval_type(fields.as_ref(), *precision));
        }
        Ast::Array(
            ArrayElemTypeDef::SquareBracket(element, _) | ArrayElemTypeDef::AngleBracket(element),
        ) => return array_type(element),
        Ast::Custom(name, arguments) => return named_type(name, arguments),
        other => return Err(by_text(&other.to_string().to_ascii_lowercase())),
    };
    Ok(plain(simple))
}

fn array_type(element: &Ast) -> Result<SqlType, SqlError> {
    let element = parse_sql_type(element)?;
    match type_row(element.oid).map(|row| row.array).filter(|array| *array != 0) {
        Some(oid) => Ok(SqlType { oid, modifier: element.modifier }),
        None => Err(SqlError::unsupported(format!("an array of {}", type_name(element)))),
    }
}

fn numeric_type(info: &ExactNumberInfo) -> Result<SqlType, SqlError> {
    let (precision, scale) = match *info {
        ExactNumberInfo::None => return Ok(plain(oids::NUMERIC)),
        ExactNumberInfo::Precision(precision) => (precision, 0),
        ExactNumberInfo::PrecisionAndScale(precision, scale) => (precision, scale),
    };
    if !(1..=1000).contains(&precision) {
        return Err(SqlError::new(
            SqlState::INVALID_PARAMETER_VALUE,
            format!("NUMERIC precision {precision} must be between 1 and 1000"),
        ));
    }
    if !(-1000..=1000).contains(&scale) {
        return Err(SqlError::new(
            SqlState::INVALID_PARAMETER_VALUE,
            format!("NUMERIC scale {scale} must be between -1000 and 1000"),
        ));
    }
    Ok(SqlType {
        oid: oids::NUMERIC,
        modifier: numeric::modifier_of(precision as u32, scale as u32),
    })
}

fn float_type(info: &ExactNumberInfo) -> Result<SqlType, SqlError> {
    let bad = |what: &str| Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, what.to_owned()));
    match *info {
        ExactNumberInfo::None => Ok(plain(oids::FLOAT8)),
        ExactNumberInfo::Precision(0) => bad("precision for type float must be at least 1 bit"),
        ExactNumberInfo::Precision(1..=24) => Ok(plain(oids::FLOAT4)),
        ExactNumberInfo::Precision(25..=53) => Ok(plain(oids::FLOAT8)),
        _ => bad("precision for type float must be less than 54 bits"),
    }
}

fn character_type(oid: u32, length: Option<&CharacterLength>) -> Result<SqlType, SqlError> {
    let name = if oid == oids::VARCHAR { "varchar" } else { "char" };
    match length {
        None if oid == oids::BPCHAR => Ok(SqlType { oid, modifier: 5 }),
        None => Ok(plain(oid)),
        Some(CharacterLength::IntegerLength { length: 0, .. }) => Err(SqlError::new(
            SqlState::INVALID_PARAMETER_VALUE,
            format!("length for type {name} must be at least 1"),
        )),
        Some(CharacterLength::IntegerLength { length, .. }) if *length > 10_485_760 => {
            Err(SqlError::new(
                SqlState::INVALID_PARAMETER_VALUE,
                format!("length for type {name} cannot exceed 10485760"),
            ))
        }
        Some(CharacterLength::IntegerLength { length, .. }) => {
            Ok(SqlType { oid, modifier: *length as i32 + 4 })
        }
        Some(CharacterLength::Max) => Err(by_text("varchar(max)")),
    }
}

fn timestamp_type(precision: Option<u64>, zone: &TimezoneInfo) -> Result<SqlType, SqlError> {
    let oid = match zone {
        TimezoneInfo::None | TimezoneInfo::WithoutTimeZone => oids::TIMESTAMP,
        TimezoneInfo::WithTimeZone | TimezoneInfo::Tz => oids::TIMESTAMPTZ,
    };
    Ok(rounded(oid, precision))
}

/// A type with so many digits of a second; more than it has are all, as in PostgreSQL.
fn rounded(oid: u32, precision: Option<u64>) -> SqlType {
    SqlType { oid, modifier: precision.map_or(-1, |p| p.min(6) as i32) }
}

fn interval_type(fields: Option<&IntervalFields>, precision: Option<u64>) -> SqlType {
    let fields = fields.map_or(Fields::ALL, |fields| {
        let text = fields.to_string().to_ascii_lowercase();
        let (from, to) = text.split_once(" to ").unwrap_or((&text, &text));
        Fields::between(from, to).expect("the parser's fields are ours")
    });
    let modifier = fields.modifier(precision.map(|p| p.min(6) as u8));
    SqlType { oid: oids::INTERVAL, modifier }
}

fn named_type(name: &ObjectName, arguments: &[String]) -> Result<SqlType, SqlError> {
    let parts: Vec<&str> = name
        .0
        .iter()
        .filter_map(|part| part.as_ident())
        .map(|ident| ident.value.as_str())
        .collect();
    let quoted = name.0.last().and_then(|p| p.as_ident()).is_some_and(|i| i.quote_style.is_some());
    let (schema, last) = match parts[..] {
        [last] => (None, last),
        [schema, last] => (Some(schema), last),
        _ => return Err(by_text(&name.to_string())),
    };
    let known_schema = schema.is_none_or(|s| s.eq_ignore_ascii_case("pg_catalog"));
    let lower = if quoted { last.to_owned() } else { last.to_ascii_lowercase() };
    let found = match lower.as_str() {
        // "char" in quotes, and pg_catalog.char as psql writes it, are the one-byte type.
        "char" => type_row(oids::CHAR),
        other if quoted => TYPES.iter().find(|row| row.name == other),
        other => type_by_name(other),
    };
    let (Some(row), true) = (found, known_schema) else {
        if let Some(oid) = enums::type_named(name) {
            return Ok(plain(oid));
        }
        return Err(by_text(&parts.join(".").to_lowercase()));
    };
    let number = |at: usize| arguments.get(at).and_then(|a| a.parse::<u64>().ok());
    match (row.oid, number(0)) {
        (oids::NUMERIC, Some(precision)) => {
            let scale = number(1).unwrap_or(0) as i64;
            numeric_type(&ExactNumberInfo::PrecisionAndScale(precision, scale))
        }
        (oids::VARCHAR | oids::BPCHAR, Some(length)) => {
            character_type(row.oid, Some(&CharacterLength::IntegerLength { length, unit: None }))
        }
        _ => Ok(plain(row.oid)),
    }
}

fn by_text(name: &str) -> SqlError {
    let base = name.split(['(', '[', ' ']).next().unwrap_or(name);
    let base = base.strip_prefix("pg_catalog.").unwrap_or(base);
    if UNSUPPORTED.contains(&base) {
        return SqlError::unsupported(format!("type {base}"));
    }
    SqlError::new(SqlState::UNDEFINED_OBJECT, format!("type \"{name}\" does not exist"))
}
