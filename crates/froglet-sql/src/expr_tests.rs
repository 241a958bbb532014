//! Expectations are PostgreSQL 15's.

use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;
use froglet_engine::{ColumnId, Row, SpaceId};
use froglet_schema::ColumnDef;

use super::*;
use crate::types::output::display_value;
use crate::types::{default_sql_type, oids, plain};

fn column(id: u32, name: &str, ty: ColumnType, sql_type: SqlType) -> ColumnDef {
    ColumnDef {
        id: ColumnId(id),
        name: name.to_owned(),
        ty,
        sql_type,
        not_null: false,
        default: None,
        missing: Value::Null,
        dictionary: None,
        labels: Vec::new(),
    }
}

fn table() -> TableDef {
    let plain_column = |id, name: &str, ty| column(id, name, ty, default_sql_type(ty));
    TableDef {
        id: 16_384,
        schema: "public".to_owned(),
        name: "t".to_owned(),
        engine: "memory".to_owned(),
        space: SpaceId(1),
        columns: vec![
            plain_column(1, "i", ColumnType::Int32),
            plain_column(2, "b", ColumnType::Int64),
            plain_column(3, "s", ColumnType::Int16),
            plain_column(4, "f", ColumnType::Float64),
            plain_column(5, "r", ColumnType::Float32),
            column(
                6,
                "n",
                ColumnType::Decimal { precision: 10, scale: 2 },
                SqlType { oid: oids::NUMERIC, modifier: (10 << 16 | 2) + 4 },
            ),
            plain_column(7, "x", ColumnType::Text),
            column(8, "v", ColumnType::Text, SqlType { oid: oids::VARCHAR, modifier: 9 }),
            plain_column(9, "d", ColumnType::Date),
            plain_column(10, "ts", ColumnType::Timestamp),
            plain_column(11, "tz", ColumnType::TimestampTz),
            plain_column(12, "ok", ColumnType::Bool),
            plain_column(13, "u", ColumnType::Uuid),
            plain_column(14, "by", ColumnType::Bytes),
        ],
        row_key: None,
        indexes: Vec::new(),
        constraints: Vec::new(),
        referenced_by: Vec::new(),
        dictionary: None,
        lazy: None,
        lazy_columns: Vec::new(),
        hidden: Vec::new(),
    }
}

fn row() -> Vec<Value> {
    vec![
        Value::Int32(7),
        Value::Int64(9_000_000_000),
        Value::Int16(-3),
        Value::Float64(2.5),
        Value::Float32(0.5),
        Value::Decimal(12_345),
        Value::text("hello"),
        Value::text("abc"),
        Value::Date(19_000),
        Value::Timestamp(1_700_000_000_000_000),
        Value::TimestampTz(1_700_000_000_000_000),
        Value::Bool(true),
        Value::Uuid([7; 16]),
        Value::Bytes(Box::from([0u8, 255])),
    ]
}

fn parse(text: &str) -> ast::Expr {
    Parser::new(&PostgreSqlDialect {})
        .try_with_sql(text)
        .and_then(|mut p| p.parse_expr())
        .expect("the test's expression parses")
}

fn inputs(expr: &RowExpr, row: &[Value]) -> Vec<Value> {
    expr.inputs().iter().map(|i| row[*i].clone()).collect()
}

fn eval_on(text: &str, row: &[Value]) -> Result<String, SqlError> {
    let scope = Scope::table(&table(), None);
    let expr = RowExpr::compile(&scope, &parse(text), &[])?;
    let values = inputs(&expr, row);
    let context = EvalContext::none();
    let array = expr.eval(&expr.batch_of(&values)?, &context)?;
    let mut out = Vec::new();
    if arrow::array::Array::is_null(&array, 0) {
        out.extend_from_slice(b"NULL");
    } else {
        types::write_text(array.as_ref(), 0, expr.sql_type().oid, &mut out);
    }
    let text = String::from_utf8(out).expect("text is UTF-8");
    if let Some(column) = expr.column_type() {
        let value = expr.eval_row(&values, &context)?;
        let shown = if value.is_null() { "NULL".to_owned() } else { display_value(&value, column) };
        assert_eq!(shown, text, "a row and a batch agree");
    }
    Ok(text)
}

fn eval(text: &str) -> String {
    match eval_on(text, &row()) {
        Ok(text) => text,
        Err(e) => format!("{}: {}", e.state, e.message),
    }
}

fn type_of(text: &str) -> String {
    let scope = Scope::table(&table(), None);
    match RowExpr::compile(&scope, &parse(text), &[]) {
        Ok(expr) => types::type_name(expr.sql_type()),
        Err(e) => format!("{}: {}", e.state, e.message),
    }
}

macro_rules! check {
    ($f:ident: $($text:literal => $expected:literal),* $(,)?) => {
        let mut wrong = Vec::new();
        $(
            let got = $f($text);
            if got != $expected { wrong.push(format!("{}: {got} instead of {}", $text, $expected)); }
        )*
        assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
    };
}

#[test]
fn arithmetic_is_checked() {
    check!(eval:
        "1 + 1" => "2",
        "2147483647 + 1" => "22003: integer out of range",
        "i + 2147483647" => "22003: integer out of range",
        "i * 1000000000" => "22003: integer out of range",
        "b * 9000000000" => "22003: bigint out of range",
        "s * 20000::int2" => "22003: smallint out of range",
        "2147483648 + 1" => "2147483649",
        "i / 2" => "3",
        "-7 / 2" => "-3",
        "i % 4" => "3",
        "i / 0" => "22012: division by zero",
        "i % 0" => "22012: division by zero",
        "f / 0" => "22012: division by zero",
        "f * 1e308 * 10" => "22003: value out of range: overflow",
        "n / 0" => "22012: division by zero",
        "1.0 / 0" => "22012: division by zero",
        "1 / (i - 7)" => "22012: division by zero",
        "n + 1" => "124.45",
        "n * 2.5" => "308.625",
        "n * n" => "15239.9025",
        "10.0 / 4" => "2.5000000000000000",
        "10 / 3.0" => "3.3333333333333333",
        "-i" => "-7",
        "- (-2147483648)" => "2147483648",
        "-(i * -1 - 2147483641)" => "22003: integer out of range",
        "i + NULL" => "NULL",
        "d + 1" => "2022-01-09",
        "d - 1" => "2022-01-07",
        "d - '2022-01-01'::date" => "7",
        "1 + d" => "2022-01-09",
        "d + interval '1 day'" => "2022-01-09 00:00:00",
        "ts + interval '1 hour'" => "2023-11-14 23:13:20",
        "ts - '2023-11-14'::timestamp" => "22:13:20",
        "0.1 + 0.2" => "0.3",
        "f + 1" => "3.5",
        "2 ^ 10" => "1024",
        "i & 3" => "3",
    );
}

#[test]
fn results_have_postgresqls_types() {
    check!(type_of:
        "1" => "integer",
        "2147483648" => "bigint",
        "1.5" => "numeric",
        "i + 1" => "integer",
        "i + b" => "bigint",
        "s + 1" => "integer",
        "s + s" => "smallint",
        "r + r" => "real",
        "r + 1" => "double precision",
        "f + n" => "double precision",
        "i + 1.5" => "numeric",
        "i / 2" => "integer",
        "d - d" => "integer",
        "d + 1" => "date",
        "d + interval '1 day'" => "timestamp without time zone",
        "ts - ts" => "interval",
        "i = 1" => "boolean",
        "x || i" => "text",
        "v" => "character varying(5)",
        "'a'" => "text",
        "v::varchar(3)" => "character varying(3)",
        "n" => "numeric(10,2)",
        "n::numeric" => "numeric",
        "case when ok then 1 else 2 end" => "integer",
        "coalesce(i, 0)" => "integer",
        "u" => "uuid",
        "tz" => "timestamp with time zone",
        "'x'::name" => "name",
    );
}

#[test]
fn casts_round_and_refuse_as_postgresql_does() {
    check!(eval:
        "2.5::float8::int" => "2",
        "3.5::float8::int" => "4",
        "2.5::numeric::int" => "3",
        "-2.5::numeric::int" => "-3",
        "f::int" => "2",
        "n::int" => "123",
        "n::numeric(5,1)" => "123.5",
        "n::numeric(3,1)" => "22003: numeric field overflow",
        "b::int" => "22003: integer out of range",
        "b::float4" => "9e+09",
        "'12'::int + 1" => "13",
        "'abc'::int" => "22P02: invalid input syntax for type integer: \"abc\"",
        "x::int" => "22P02: invalid input syntax for type integer: \"hello\"",
        "i::text || 'a'" => "7a",
        "ok::text" => "true",
        "ok::int" => "1",
        "0::bool" => "f",
        "f::text" => "2.5",
        "1e20::float8::text" => "1e+20",
        "n::text" => "123.45",
        "tz::text" => "2023-11-14 22:13:20+00",
        "d::text" => "2022-01-08",
        "by::text" => "\\x00ff",
        "u::text" => "07070707-0707-0707-0707-070707070707",
        "'abcdef'::varchar(3)" => "abc",
        "'abcdef'::char(3)" => "abc",
        "'a'::char(3)" => "a  ",
        "x::varchar(2)" => "he",
        "ts::date" => "2023-11-14",
        "d::timestamp" => "2022-01-08 00:00:00",
        "'2024-01-01 10:00+02'::timestamptz" => "2024-01-01 08:00:00+00",
        "i::date" => "42846: cannot cast type integer to date",
        "by::int" => "42846: cannot cast type bytea to integer",
        "cast(i as bigint)" => "7",
        "date '2024-02-29'" => "2024-02-29",
        "pg_catalog.int4(3)" => "3",
        "1::pg_catalog.int8" => "1",
        "'t'::bool and ok" => "t",
        "'nope'::nosuch" => "42704: type \"nosuch\" does not exist",
        "'1'::money" => "0A000: type money is not supported",
        "'<a/>'::xml" => "0A000: type xml is not supported",
    );
}

#[test]
fn comparisons_type_their_literals() {
    check!(eval:
        "i = '7'" => "t",
        "i = 'x'" => "22P02: invalid input syntax for type integer: \"x\"",
        "d < '2024-01-01'" => "t",
        "d < 'tomorrow'" => "t",
        "tz > '2020-01-01'" => "t",
        "n = '123.45'" => "t",
        "n = 123.45" => "t",
        "n > 123" => "t",
        "b = 9000000000" => "t",
        "i = 7.0" => "t",
        "f = 2.5" => "t",
        "x = 'hello'" => "t",
        "v = 'abc'" => "t",
        "x = 5" => "42883: operator does not exist: text = integer",
        "v + 1" => "42883: operator does not exist: character varying + integer",
        "u = '07070707-0707-0707-0707-070707070707'" => "t",
        "by = '\\x00ff'" => "t",
        "ok = 't'" => "t",
        "i in (1, 7)" => "t",
        "i in ('1', '7')" => "t",
        "i between 1 and 10" => "t",
        "d between '2022-01-01' and '2022-12-31'" => "t",
        "i = any(array[1,7])" => "t",
        "x ~ '^h'" => "t",
        "x OPERATOR(pg_catalog.~) '^(h.*)$' COLLATE pg_catalog.default" => "t",
        "x like 'h%'" => "t",
        "x ~~ 'h_llo'" => "t",
        "x !~ 'z'" => "t",
        "x ilike 'HE%'" => "t",
    );
}

#[test]
fn null_logic() {
    check!(eval:
        "null and false" => "f",
        "null or true" => "t",
        "null and true" => "NULL",
        "not null" => "NULL",
        "null = null" => "NULL",
        "null is null" => "t",
        "i is distinct from null" => "t",
        "1 in (2, null)" => "NULL",
        "coalesce(null, 5)" => "5",
        "nullif(i, 7)" => "NULL",
        "case when null then 1 else 2 end" => "2",
        "greatest(1, i, null)" => "7",
    );
}

#[test]
fn names_that_do_not_exist() {
    check!(eval:
        "nosuch + 1" => "42703: column \"nosuch\" does not exist",
        "t.nosuch" => "42703: column t.nosuch does not exist",
        "z.i" => "42P01: missing FROM-clause entry for table \"z\"",
        "nofn(1)" => "42883: function nofn does not exist",
        "count(*)" => "42803: aggregate functions are not allowed in this expression",
        "t.i" => "7",
        "I" => "7",
        "\"I\"" => "42703: column \"I\" does not exist",
    );
}

fn params_of(texts: &[&str]) -> Vec<String> {
    let scope = Scope::table(&table(), None);
    let exprs: Vec<ast::Expr> = texts.iter().map(|t| parse(t)).collect();
    let asked: Vec<_> = exprs.iter().map(|e| (e, None)).collect();
    match infer_params(&scope, &asked, &[]) {
        Ok(found) => found.into_iter().map(types::type_name).collect(),
        Err(e) => vec![format!("{}: {}", e.state, e.message)],
    }
}

#[test]
fn parameters_take_their_types_from_context() {
    for (text, expected) in [
        ("i = $1", "integer"),
        ("$1 = i", "integer"),
        ("b + $1", "bigint"),
        ("i + $1", "integer"),
        ("n * $1", "numeric"),
        ("$1::int8", "bigint"),
        ("$1::varchar(3)", "character varying(3)"),
        ("x = $1", "text"),
        ("v = $1", "text"),
        ("d < $1", "date"),
        ("i in (1, $1)", "integer"),
        ("i between $1 and 5", "integer"),
        ("x like $1", "text"),
        ("length($1)", "text"),
        ("$1", "text"),
        ("u = $1", "uuid"),
        ("i = any($1)", "integer[]"),
        ("coalesce(i, $1)", "integer"),
        ("abs(i + $1)", "integer"),
    ] {
        assert_eq!(params_of(&[text]), [expected], "{text}");
    }
    assert_eq!(params_of(&["$1 = x", "i = $2", "$1 || 'a'"]), ["text", "integer"]);
}

fn with_param(value: Value, ty: SqlType) -> EvalContext {
    let session = Arc::new(crate::context::NoSession);
    EvalContext::with_params(session, vec![value], &Arc::from([ty]))
}

/// A value, or an error's SQLSTATE and message.
fn outcome(result: Result<Value, SqlError>) -> Result<Value, (String, String)> {
    result.map_err(|e| (e.state.as_str().to_owned(), e.message))
}

#[test]
fn what_is_evaluated_value_by_value_is_what_the_kernels_answer() {
    let scope = Scope::table(&table(), None);
    let edges = [0, 1, -1, 2, i64::from(i32::MAX), i64::from(i32::MIN), i64::MAX, i64::MIN];
    let int4 = |v: i64| i32::try_from(v).map_or(Value::Null, Value::Int32);
    let mut quick = 0;
    for text in [
        "i + $1",
        "i - $1",
        "i * $1",
        "i + 1 > $1",
        "b + i",
        "b * $1 - i",
        "b - 1 <= i and not i = $1",
        "i <> 0 or b * b > 5",
        "i is null or b is not null",
        "i is not null and b > $1",
        "(i > 0) is null",
        "s + i::smallint",
        "s * s + $1",
        "case when i >= $1 + 10 then i - $1 else i - $1 + 91 end",
        "case when i > $1 then b * b when i < $1 then b end",
        "case when b = 0 then i > 0 else i is null end",
    ] {
        let ty = plain(oids::INT4);
        let expr = RowExpr::compile(&scope, &parse(text), &[ty]).expect("it compiles");
        quick += usize::from(matches!(expr.shape, Shape::Quick(..)));
        for first in edges {
            for second in edges {
                let context = with_param(int4(second), ty);
                let of = |ty: &ColumnType, v: i64| match ty {
                    ColumnType::Int16 => i16::try_from(v).map_or(Value::Null, Value::Int16),
                    ColumnType::Int32 => int4(v),
                    _ => Value::Int64(v),
                };
                let values = [first, second].into_iter().chain(edges);
                let row: Row =
                    expr.input_types.iter().zip(values).map(|(ty, v)| of(ty, v)).collect();
                let one = outcome(expr.eval_row(&row, &context));
                let batch = expr.batch_of(&row).expect("a batch of the inputs");
                let column = expr.column_type().expect("a type that columns have");
                let kernels = expr
                    .eval(&batch, &context)
                    .map(|array| types::value_at(array.as_ref(), 0, column));
                assert_eq!(one, outcome(kernels), "{text} over {row:?} with {second}");
            }
        }
    }
    assert!(quick >= 13, "only {quick} of them are evaluated value by value");
}

#[test]
fn one_compilation_serves_many_parameter_values() {
    let scope = Scope::table(&table(), None);
    let ty = plain(oids::INT4);
    let expr = RowExpr::compile(&scope, &parse("i + $1 * 2"), &[ty]).expect("it compiles");
    assert_eq!(expr.inputs(), [0]);
    for n in [1, 5, -3] {
        let context = with_param(Value::Int32(n), ty);
        let value = expr.eval_row(&[Value::Int32(7)], &context).expect("it evaluates");
        assert_eq!(value, Value::Int32(7 + 2 * n));
    }
    let context = with_param(Value::Int32(i32::MAX), ty);
    let error = expr.eval_row(&[Value::Int32(7)], &context).expect_err("it overflows");
    assert_eq!(error.message, "integer out of range");
}

fn assign(text: &str, name: &str) -> String {
    let def = table();
    let scope = Scope::table(&def, None);
    let column = def.column(name).expect("the test's column exists");
    let run = || {
        let expr =
            RowExpr::compile_for(&scope, &parse(text), &[], name, column.ty, column.sql_type)?;
        let values = inputs(&expr, &row());
        expr.eval_row(&values, &EvalContext::none())
    };
    match run() {
        Ok(value) => display_value(&value, column.ty),
        Err(e) => format!("{}: {}", e.state, e.message),
    }
}

#[test]
fn assignments_cast_to_the_column() {
    for (text, column, expected) in [
        ("'5'", "i", "5"),
        ("'x'", "i", "22P02: invalid input syntax for type integer: \"x\""),
        ("'a'::text", "i", "42804: column \"i\" is of type integer but expression is of type text"),
        ("3000000000", "i", "22003: integer out of range"),
        ("70000", "s", "22003: smallint out of range"),
        ("1", "b", "1"),
        ("i + 1", "b", "8"),
        ("f", "i", "2"),
        ("1.005", "n", "1.01"),
        ("123456789", "n", "22003: numeric field overflow"),
        ("'abcdef'", "v", "22001: value too long for type character varying(5)"),
        ("'abcde  '", "v", "abcde"),
        ("x", "v", "hello"),
        ("5", "v", "5"),
        ("1", "ok", "42804: column \"ok\" is of type boolean but expression is of type integer"),
        ("'yes'", "ok", "true"),
        ("null", "i", "null"),
        ("d", "ts", "2022-01-08 00:00:00"),
        ("'2024-02-30'", "d", "22008: date/time field value out of range: \"2024-02-30\""),
    ] {
        assert_eq!(
            assign(text, column).replace("t\n", ""),
            expected.replace("true", "t"),
            "{text} into {column}"
        );
    }
}
