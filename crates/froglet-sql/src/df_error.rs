//! DataFusion's and Arrow's errors as PostgreSQL's.
//!
//! Our own errors travel through DataFusion as external errors and come out as they went in. The
//! others are recognised by kind where DataFusion has one, by their text where it has not; the
//! texts are pinned by tests, so that an upgrade which rewords one is noticed.

use arrow::error::ArrowError;
use datafusion::common::{Column, SchemaError as NameError};
use datafusion::error::DataFusionError;
use froglet_engine::{EngineError, SqlState};
use froglet_schema::SchemaError;
use froglet_txn::TxnError;

use crate::error::SqlError;

/// PostgreSQL's hint for functions that do not exist.
pub(crate) const FUNCTION_HINT: &str = "No function matches the given name and argument types. \
                             You might need to add explicit type casts.";

/// An error of planning or execution.
pub fn map_df_error(e: DataFusionError) -> SqlError {
    match e {
        DataFusionError::External(inner) => external(inner),
        DataFusionError::Context(_, inner) | DataFusionError::Diagnostic(_, inner) => {
            map_df_error(*inner)
        }
        DataFusionError::Shared(inner) => shared(&inner),
        DataFusionError::Collection(mut all) => match all.is_empty() {
            true => SqlError::new(SqlState::INTERNAL_ERROR, "several errors, none of them kept"),
            false => map_df_error(all.swap_remove(0)),
        },
        DataFusionError::ArrowError(inner, _) => arrow(*inner),
        DataFusionError::SchemaError(inner, _) => name(*inner),
        DataFusionError::SQL(parser, _) => {
            SqlError::new(SqlState::SYNTAX_ERROR, parser.to_string())
        }
        DataFusionError::NotImplemented(text) => {
            SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, format!("not supported: {text}"))
        }
        DataFusionError::Plan(text) => plan(&text),
        DataFusionError::Internal(text) if text.contains("in BETWEEN expression") => {
            between_of(&text)
        }
        DataFusionError::Internal(text) if text.contains("failed to match any signature") => {
            plan(&text)
        }
        DataFusionError::Execution(text) => execution(&text),
        DataFusionError::ResourcesExhausted(text) => SqlError::new(SqlState::OUT_OF_MEMORY, text),
        DataFusionError::ExecutionJoin(e) if e.is_panic() => {
            SqlError::new(SqlState::INTERNAL_ERROR, "the query failed: internal error (a panic)")
        }
        DataFusionError::Configuration(text) => {
            SqlError::new(SqlState::INVALID_PARAMETER_VALUE, text)
        }
        other => SqlError::new(SqlState::INTERNAL_ERROR, other.strip_backtrace()),
    }
}

/// Our own error inside another's, if it is one.
fn external(e: Box<dyn std::error::Error + Send + Sync>) -> SqlError {
    let e = match e.downcast::<SqlError>() {
        Ok(own) => return *own,
        Err(e) => e,
    };
    let e = match e.downcast::<DataFusionError>() {
        Ok(inner) => return map_df_error(*inner),
        Err(e) => e,
    };
    let e = match e.downcast::<ArrowError>() {
        Ok(inner) => return arrow(*inner),
        Err(e) => e,
    };
    let e = match e.downcast::<TxnError>() {
        Ok(own) => return (*own).into(),
        Err(e) => e,
    };
    let e = match e.downcast::<EngineError>() {
        Ok(own) => return (*own).into(),
        Err(e) => e,
    };
    match e.downcast::<SchemaError>() {
        Ok(own) => (*own).into(),
        Err(e) => SqlError::new(SqlState::INTERNAL_ERROR, e.to_string()),
    }
}

/// 42883 for BETWEEN of types that are not compared, which DataFusion takes for a mistake of its own.
fn between_of(text: &str) -> SqlError {
    let left = between(text, "coerce types ", " and ").map_or("unknown", sql_name);
    let right = between(text, " and ", " in BETWEEN").map_or("unknown", sql_name);
    let message = format!("operator does not exist: {left} >= {right}");
    SqlError::new(SqlState::UNDEFINED_FUNCTION, message).hint(FUNCTION_HINT)
}

/// An error that somebody else holds too: cloned where it is ours, else by its kind.
fn shared(e: &DataFusionError) -> SqlError {
    match e {
        DataFusionError::External(inner) => {
            if let Some(own) = inner.downcast_ref::<SqlError>() {
                return own.clone();
            }
            match inner.downcast_ref::<DataFusionError>() {
                Some(inner) => shared(inner),
                None => SqlError::new(SqlState::INTERNAL_ERROR, inner.to_string()),
            }
        }
        DataFusionError::Context(_, inner) | DataFusionError::Diagnostic(_, inner) => shared(inner),
        DataFusionError::Shared(inner) => shared(inner),
        DataFusionError::ArrowError(inner, _) => match &**inner {
            ArrowError::ExternalError(own) => match own.downcast_ref::<SqlError>() {
                Some(own) => own.clone(),
                None => SqlError::new(SqlState::INTERNAL_ERROR, own.to_string()),
            },
            ArrowError::DivideByZero => arrow(ArrowError::DivideByZero),
            ArrowError::ArithmeticOverflow(t) => arrow(ArrowError::ArithmeticOverflow(t.clone())),
            ArrowError::CastError(t) => arrow(ArrowError::CastError(t.clone())),
            ArrowError::ParseError(t) => arrow(ArrowError::ParseError(t.clone())),
            other => SqlError::new(SqlState::INTERNAL_ERROR, other.to_string()),
        },
        DataFusionError::Plan(text) => map_df_error(DataFusionError::Plan(text.clone())),
        DataFusionError::Execution(text) => map_df_error(DataFusionError::Execution(text.clone())),
        DataFusionError::NotImplemented(text) => {
            map_df_error(DataFusionError::NotImplemented(text.clone()))
        }
        DataFusionError::Internal(text) => map_df_error(DataFusionError::Internal(text.clone())),
        DataFusionError::ResourcesExhausted(text) => {
            map_df_error(DataFusionError::ResourcesExhausted(text.clone()))
        }
        DataFusionError::Configuration(text) => {
            map_df_error(DataFusionError::Configuration(text.clone()))
        }
        DataFusionError::Collection(all) if !all.is_empty() => shared(&all[0]),
        other => SqlError::new(SqlState::INTERNAL_ERROR, other.strip_backtrace()),
    }
}

/// An error of an Arrow kernel.
pub fn arrow(e: ArrowError) -> SqlError {
    match e {
        ArrowError::ExternalError(inner) => external(inner),
        ArrowError::DivideByZero => SqlError::new(SqlState::DIVISION_BY_ZERO, "division by zero"),
        ArrowError::ArithmeticOverflow(_) => {
            SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "value out of range")
        }
        ArrowError::CastError(text) => cast(&text),
        ArrowError::ParseError(text) => SqlError::new(SqlState::new("22007"), text),
        ArrowError::MemoryError(text) => SqlError::new(SqlState::OUT_OF_MEMORY, text),
        ArrowError::OffsetOverflowError(_) | ArrowError::DictionaryKeyOverflowError => {
            SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, e.to_string())
        }
        ArrowError::NotYetImplemented(text) => {
            SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, format!("not supported: {text}"))
        }
        ArrowError::ComputeError(text) | ArrowError::InvalidArgumentError(text) => execution(&text),
        other => SqlError::new(SqlState::INTERNAL_ERROR, other.to_string()),
    }
}

/// `Cannot cast string 'abc' to value of Int32 type`, `Can't cast value 70000 to type Int16`
fn cast(text: &str) -> SqlError {
    let range = |name: &str| {
        SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, format!("{name} out of range"))
    };
    if let Some(rest) = text.strip_prefix("Cannot cast string '")
        && let Some((value, ty)) = rest.rsplit_once("' to value of ")
    {
        let ty = sql_name(ty.trim_end_matches(" type"));
        return crate::types::input::syntax(ty, value);
    }
    if let Some((_, ty)) = text.rsplit_once(" to type ")
        && text.starts_with("Can't cast value ")
    {
        return range(sql_name(ty));
    }
    if text.contains("overflow") || text.contains("too large") {
        return range("numeric");
    }
    SqlError::new(SqlState::CANNOT_COERCE, text.to_owned())
}

/// The function and the types of a call that matches nothing: `… argument types 'lower(List(Int32))'. …`
fn signature(text: &str) -> Option<(&str, Vec<String>)> {
    let call = between(text, "given name and argument types '", "'")?;
    let (name, arguments) = call.strip_suffix(')')?.split_once('(')?;
    let mut types = Vec::new();
    let (mut depth, mut from) = (0_usize, 0);
    for (at, c) in arguments.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.checked_sub(1)?,
            ',' if depth == 0 => {
                types.push(shown_type(&arguments[from..at]));
                from = at + 1;
            }
            _ => {}
        }
    }
    if !arguments.is_empty() {
        types.push(shown_type(&arguments[from..]));
    }
    Some((name, types))
}

/// A type of Arrow's as PostgreSQL calls what it holds.
fn shown_type(arrow: &str) -> String {
    let arrow = arrow.trim();
    let arrow = arrow.strip_prefix("non-null ").unwrap_or(arrow);
    let list = ["List(", "LargeList("].iter().find_map(|list| arrow.strip_prefix(list));
    if let Some(element) = list.and_then(|rest| rest.strip_suffix(')')) {
        return format!("{}[]", shown_type(element));
    }
    match arrow {
        "Null" => "unknown",
        "LargeBinary" => "numeric",
        "FixedSizeBinary(16)" => "uuid",
        _ if arrow.starts_with("Time64") => "time without time zone",
        _ if arrow.starts_with("Interval") => "interval",
        _ if arrow.starts_with("Struct") => "record",
        _ if arrow.starts_with("Timestamp") => match arrow.contains(',') {
            true => "timestamp with time zone",
            false => "timestamp without time zone",
        },
        other => sql_name(other),
    }
    .to_owned()
}

fn sql_name(arrow: &str) -> &str {
    match arrow {
        "Int16" => "smallint",
        "Int32" => "integer",
        "Int64" => "bigint",
        "UInt32" => "oid",
        "Float32" => "real",
        "Float64" => "double precision",
        "Boolean" => "boolean",
        "Date32" => "date",
        "Utf8" | "Utf8View" | "LargeUtf8" => "text",
        "BinaryView" => "bytea",
        decimal if decimal.starts_with("Decimal") => "numeric",
        timestamp if timestamp.starts_with("Timestamp") => "timestamp",
        other => other,
    }
}

fn name(e: NameError) -> SqlError {
    match e {
        NameError::FieldNotFound { field, valid_fields } => missing_column(&field, &valid_fields),
        NameError::AmbiguousReference { field } => SqlError::new(
            SqlState::AMBIGUOUS_COLUMN,
            format!("column reference \"{}\" is ambiguous", field.name),
        ),
        NameError::DuplicateQualifiedField { qualifier, .. } => SqlError::new(
            SqlState::new("42712"),
            format!("table name \"{}\" specified more than once", qualifier.table()),
        ),
        NameError::DuplicateUnqualifiedField { name } => SqlError::new(
            SqlState::DUPLICATE_COLUMN,
            format!("column \"{name}\" specified more than once"),
        ),
    }
}

fn missing_column(field: &Column, valid: &[Column]) -> SqlError {
    let Some(relation) = &field.relation else {
        let is_table = |c: &Column| c.relation.as_ref().is_some_and(|r| r.table() == field.name);
        if valid.iter().any(is_table) {
            return SqlError::unsupported(format!("the row of \"{}\" in this place", field.name));
        }
        return SqlError::new(
            SqlState::UNDEFINED_COLUMN,
            format!("column \"{}\" does not exist", field.name),
        );
    };
    let known = valid.iter().filter_map(|c| c.relation.as_ref());
    if !valid.is_empty() && !known.into_iter().any(|r| r.table() == relation.table()) {
        return SqlError::new(
            SqlState::UNDEFINED_TABLE,
            format!("missing FROM-clause entry for table \"{}\"", relation.table()),
        );
    }
    SqlError::new(
        SqlState::UNDEFINED_COLUMN,
        format!("column {}.{} does not exist", relation.table(), field.name),
    )
}

/// 42883
pub fn no_function(name: &str) -> SqlError {
    SqlError::new(SqlState::UNDEFINED_FUNCTION, format!("function {name} does not exist"))
        .hint(FUNCTION_HINT)
}

/// The text between two marks.
fn between<'a>(text: &'a str, before: &str, after: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(before)?;
    rest.split_once(after).map(|(inner, _)| inner)
}

fn plan(text: &str) -> SqlError {
    let first_line = text.lines().next().unwrap_or(text);
    let text = first_line.strip_prefix("Error during planning: ").unwrap_or(first_line);
    if let Some(name) = between(text, "Invalid function '", "'") {
        return no_function(name);
    }
    if let Some(name) = between(text, "There is no window function named ", "\n")
        .or_else(|| text.strip_prefix("There is no window function named "))
    {
        return no_function(name);
    }
    let calls_badly = text.contains("Failed to coerce arguments")
        || text.contains("No function matches the given name and argument types")
        || text.contains("failed to match any signature")
        || text.contains("expects ") && text.contains(" arguments");
    if calls_badly {
        let name = between(text, "call to '", "'")
            .or_else(|| between(text, "Function '", "'"))
            .or_else(|| between(text, "types '", "'"));
        if let Some((name, types)) = signature(text) {
            return no_function(&format!("{name}({})", types.join(", ")));
        }
        return match name {
            Some(name) => no_function(name),
            None => SqlError::new(SqlState::UNDEFINED_FUNCTION, text).hint(FUNCTION_HINT),
        };
    }
    if let Some(operation) =
        text.split_once("common argument type for comparison operation ").map(|(_, rest)| rest)
    {
        let operators = [" <> ", " != ", " <= ", " >= ", " < ", " > ", " = "];
        let parts = operators.iter().find_map(|op| Some((op.trim(), operation.split_once(op)?)));
        if let Some((op, (left, right))) = parts {
            let (left, right) = (shown_type(left), shown_type(right));
            let op = if op == "!=" { "<>" } else { op };
            let message = format!("operator does not exist: {left} {op} {right}");
            return SqlError::new(SqlState::UNDEFINED_FUNCTION, message).hint(
                "No operator matches the given name and argument types. You might need to add \
                 explicit type casts.",
            );
        }
    }
    if let Some((_, ty)) = text
        .strip_prefix("Cannot create filter with non-boolean predicate ")
        .and_then(|rest| rest.rsplit_once(" returning "))
    {
        return SqlError::new(
            SqlState::DATATYPE_MISMATCH,
            format!("argument of WHERE must be type boolean, not type {}", sql_name(ty)),
        );
    }
    if text.starts_with("Inconsistent data length across values list") {
        return SqlError::new(SqlState::SYNTAX_ERROR, "VALUES lists must all be the same length");
    }
    if text.starts_with("Aggregate function calls cannot be nested") {
        return SqlError::new(
            SqlState::GROUPING_ERROR,
            "aggregate function calls cannot be nested",
        );
    }
    if let Some(value) =
        between(text, "Percentile value must be between 0.0 and 1.0 inclusive, ", " is")
    {
        let message = format!("percentile value {value} is not between 0 and 1");
        return SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, message);
    }
    let state = if text.contains("GROUP BY") || text.contains("Aggregate functions are not allowed")
    {
        return grouping(text);
    } else if text.contains("Cannot coerce")
        || text.contains("common argument type")
        || text.contains("Cannot infer common")
        || text.contains("Can not find compatible types")
        || text.contains("Failed to coerce types")
        || text.contains("requires a boolean expression")
        || text.contains("only supports signed numeric")
    {
        SqlState::UNDEFINED_FUNCTION
    } else if text.contains("different number of columns")
        || text.contains("same number of columns")
        || text.contains("unique expression names")
    {
        SqlState::SYNTAX_ERROR
    } else if text.contains("position") || text.contains("out of bounds") {
        SqlState::INVALID_COLUMN_REFERENCE
    } else if text.contains("more than one row") {
        SqlState::CARDINALITY_VIOLATION
    } else if text.contains("not supported") || text.contains("not implemented") {
        SqlState::FEATURE_NOT_SUPPORTED
    } else {
        SqlState::SYNTAX_ERROR
    };
    SqlError::new(state, text)
}

/// 42803
fn grouping(text: &str) -> SqlError {
    if text.contains("Aggregate functions are not allowed in the WHERE") {
        return SqlError::new(
            SqlState::GROUPING_ERROR,
            "aggregate functions are not allowed in WHERE",
        );
    }
    let column = between(
        text,
        "must be in GROUP BY or an aggregate function: While expanding wildcard, column \"",
        "\"",
    )
    .or_else(|| between(text, "references: ", " must appear"))
    .or_else(|| between(text, "to be replaced, but \"", "\""))
    .or_else(|| between(text, "column \"", "\""));
    match column {
        Some(column) => SqlError::new(
            SqlState::GROUPING_ERROR,
            format!(
                "column \"{column}\" must appear in the GROUP BY clause or be used in an aggregate function"
            ),
        ),
        None => SqlError::new(SqlState::GROUPING_ERROR, text),
    }
}

fn execution(text: &str) -> SqlError {
    let lower = text.to_ascii_lowercase();
    if text.contains("Cannot access field at argument") {
        // `b.v` of a column b that has no fields: in PostgreSQL b can be a table only.
        let message = "missing FROM-clause entry for a table that is named like a column";
        return SqlError::new(SqlState::new("42P01"), message)
            .hint("To take a field of a column, write (column).field.");
    }
    let state = if lower.contains("divide by zero") || lower.contains("division by zero") {
        return SqlError::new(SqlState::DIVISION_BY_ZERO, "division by zero");
    } else if lower.contains("overflow") || lower.contains("out of range") {
        SqlState::NUMERIC_VALUE_OUT_OF_RANGE
    } else if lower.contains("more than one row") || lower.contains("more than one element") {
        return SqlError::new(
            SqlState::CARDINALITY_VIOLATION,
            "more than one row returned by a subquery used as an expression",
        );
    } else if lower.contains("expressions must appear in argument list") {
        SqlState::INVALID_COLUMN_REFERENCE
    } else if lower.contains("regex") || lower.contains("regular expression") {
        SqlState::new("2201B")
    } else {
        SqlState::new("22000")
    };
    SqlError::new(state, text)
}
