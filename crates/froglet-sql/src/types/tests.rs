//! Expectations were printed by PostgreSQL 15.

use froglet_engine::ColumnType;
use froglet_schema::SqlType;

use super::*;
use crate::error::SqlError;

const NUMERIC_5_1: SqlType = SqlType { oid: oids::NUMERIC, modifier: (5 << 16 | 1) + 4 };
const VARCHAR_5: SqlType = SqlType { oid: oids::VARCHAR, modifier: 9 };

fn read(ty: SqlType, text: &str) -> String {
    let column = column_type_of(ty.oid, ty.modifier).expect("the type is stored");
    match from_text(ty, column, text) {
        Err(e) => format!("{}: {}", e.state, e.message),
        Ok(value) => {
            let mut out = Vec::new();
            value_text(&value, column, ty.oid, &mut out);
            let mut bytes = Vec::new();
            value_binary(&value, column, ty.oid, &mut bytes);
            assert_eq!(from_binary(ty, column, &bytes).ok(), Some(value), "{text} in binary");
            String::from_utf8(out).expect("text is UTF-8")
        }
    }
}

fn check(ty: SqlType, cases: &[(&str, &str)]) {
    for (text, expected) in cases {
        assert_eq!(read(ty, text), *expected, "{text} as {}", type_name(ty));
    }
}

#[test]
fn integers_and_booleans() {
    check(
        plain(oids::INT4),
        &[
            (" 12 ", "12"),
            ("-2147483648", "-2147483648"),
            ("abc", "22P02: invalid input syntax for type integer: \"abc\""),
            ("", "22P02: invalid input syntax for type integer: \"\""),
            ("1.5", "22P02: invalid input syntax for type integer: \"1.5\""),
            ("99999999999", "22003: value \"99999999999\" is out of range for type integer"),
        ],
    );
    check(
        plain(oids::INT2),
        &[("32768", "22003: value \"32768\" is out of range for type smallint")],
    );
    check(
        plain(oids::BOOL),
        &[
            ("tr", "t"),
            ("yes", "t"),
            ("on", "t"),
            ("of", "f"),
            (" true ", "t"),
            ("o", "22P02: invalid input syntax for type boolean: \"o\""),
        ],
    );
}

#[test]
fn floats_print_the_shortest_digits() {
    check(
        plain(oids::FLOAT8),
        &[
            ("1e15", "1e+15"),
            ("123456789012345.67", "123456789012345.67"),
            ("1e14", "100000000000000"),
            ("0.0001", "0.0001"),
            ("0.00001", "1e-05"),
            ("-inf", "-Infinity"),
            ("-0.0", "-0"),
            ("1.2345678901234567e300", "1.2345678901234567e+300"),
            ("1e400", "22003: \"1e400\" is out of range for type double precision"),
            ("x", "22P02: invalid input syntax for type double precision: \"x\""),
        ],
    );
    check(
        plain(oids::FLOAT4),
        &[
            ("1e6", "1e+06"),
            ("100000", "100000"),
            ("1234567", "1.234567e+06"),
            ("0.1", "0.1"),
            ("1e-50", "22003: \"1e-50\" is out of range for type real"),
        ],
    );
}

#[test]
fn decimals_keep_their_scale() {
    check(
        NUMERIC_5_1,
        &[
            ("123.456", "123.5"),
            ("1e3", "1000.0"),
            ("-0.05", "-0.1"),
            ("99999.9", "22003: numeric field overflow"),
            ("x", "22P02: invalid input syntax for type numeric: \"x\""),
        ],
    );
    assert_eq!(read(NUMERIC_5_1, "NaN").get(..5), Some("0A000"));
    check(
        plain(oids::NUMERIC),
        &[
            ("12345678.9012345", "12345678.9012345"),
            ("12", "12"),
            ("-1.50", "-1.50"),
            ("0.0", "0.0"),
            ("100", "100"),
            ("0.00000000010", "0.00000000010"),
            ("NaN", "NaN"),
            ("-inf", "-Infinity"),
        ],
    );
}

#[test]
fn numeric_in_binary_is_postgresqls() {
    // 123456.78 at scale 2: weight 1, digits 12 3456 7800.
    let mut out = Vec::new();
    numeric::write_binary(12_345_678, 2, &mut out);
    assert_eq!(out, [0, 3, 0, 1, 0, 0, 0, 2, 0, 12, 13, 128, 30, 120]);
    let mut zero = Vec::new();
    numeric::write_binary(0, 2, &mut zero);
    assert_eq!(zero, [0, 0, 0, 0, 0, 0, 0, 2]);
}

#[test]
fn dates_and_timestamps() {
    check(
        plain(oids::DATE),
        &[
            ("20240101", "2024-01-01"),
            ("0044-03-15 BC", "0044-03-15 BC"),
            ("Feb 29, 2024", "2024-02-29"),
            ("1/8/1999", "1999-01-08"),
            ("infinity", "infinity"),
            ("2024-02-30", "22008: date/time field value out of range: \"2024-02-30\""),
            ("10000000-01-01", "22008: date/time field value out of range: \"10000000-01-01\""),
            ("x", "22007: invalid input syntax for type date: \"x\""),
        ],
    );
    check(
        plain(oids::TIMESTAMP),
        &[
            ("2024-01-01 10:00:00.1234567", "2024-01-01 10:00:00.123457"),
            ("2024-01-01 24:00:00", "2024-01-02 00:00:00"),
            ("2024-01-01 23:59:60", "2024-01-02 00:00:00"),
            ("epoch", "1970-01-01 00:00:00"),
            ("infinity", "infinity"),
            ("2024-01-01 25:00", "22008: date/time field value out of range: \"2024-01-01 25:00\""),
        ],
    );
    check(
        plain(oids::TIMESTAMPTZ),
        &[
            ("2024-01-01T10:00:00Z", "2024-01-01 10:00:00+00"),
            ("2024-01-01 10:00+02", "2024-01-01 08:00:00+00"),
            ("2024-01-01 10:00:00.5-05:30", "2024-01-01 15:30:00.5+00"),
        ],
    );
}

#[test]
fn bytes_uuids_and_lengths() {
    check(
        plain(oids::BYTEA),
        &[
            ("a\\\\b\\001", "\\x615c6201"),
            ("\\xZZ", "22023: invalid hexadecimal digit: \"Z\""),
            ("\\x1", "22023: invalid hexadecimal data: odd number of digits"),
            ("a\\b", "22P02: invalid input syntax for type bytea"),
        ],
    );
    check(
        plain(oids::UUID),
        &[
            ("{a0eebc999c0b4ef8bb6d6bb9bd380a11}", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
            ("x", "22P02: invalid input syntax for type uuid: \"x\""),
        ],
    );
    check(
        VARCHAR_5,
        &[("abcde  ", "abcde"), ("abcdef", "22001: value too long for type character varying(5)")],
    );
}

#[test]
fn bytes_that_are_no_text_are_refused() {
    for bytes in [&b"a\0b"[..], &[0xFF]] {
        let error = from_binary(plain(oids::TEXT), ColumnType::Text, bytes).err();
        assert_eq!(error.map(|e| e.state.to_string()).as_deref(), Some("22021"));
    }
}

#[test]
fn binary_values_of_a_wrong_length_are_refused() {
    let int = |bytes: &[u8]| from_binary(plain(oids::INT4), ColumnType::Int32, bytes);
    let numeric = |bytes: &[u8]| from_binary(plain(oids::NUMERIC), UNCONSTRAINED, bytes);
    let one: &[u8] = &[0, 1, 0, 0, 0, 0, 0, 0, 0, 1];
    let exact = exact::Exact::ONE.encode();
    assert_eq!(numeric(one).ok(), Some(froglet_engine::Value::Numeric(exact.into())));
    for (outcome, code) in [
        (int(&[1, 2]), "08P01"),
        (int(&[0; 5]), "22P03"),
        (numeric(&one[..7]), "08P01"),
        (numeric(&one[..9]), "08P01"),
        (numeric(&[one, &[0]].concat()), "22P03"),
    ] {
        assert_eq!(outcome.err().map(|e| e.state.to_string()).as_deref(), Some(code));
    }
}

#[test]
fn types_have_postgresqls_names() {
    for (ty, name) in [
        (VARCHAR_5, "character varying(5)"),
        (NUMERIC_5_1, "numeric(5,1)"),
        (plain(oids::TIMESTAMPTZ), "timestamp with time zone"),
        (plain(oids::FLOAT8), "double precision"),
        (plain(oids::CHAR), "\"char\""),
        (plain(oids::INT4_ARRAY), "integer[]"),
    ] {
        assert_eq!(type_name(ty), name);
    }
}

#[test]
fn times_of_day() {
    check(
        plain(oids::TIME),
        &[
            ("12:34:56.789", "12:34:56.789"),
            ("04:05 PM", "16:05:00"),
            ("040506", "04:05:06"),
            ("24:00", "24:00:00"),
            ("23:59:60", "24:00:00"),
            ("2024-02-29 10:00:00", "10:00:00"),
            ("allballs", "00:00:00"),
            ("25:00", "22008: date/time field value out of range: \"25:00\""),
            ("24:00:01", "22008: date/time field value out of range: \"24:00:01\""),
            ("x", "22007: invalid input syntax for type time: \"x\""),
        ],
    );
    check(SqlType { oid: oids::TIME, modifier: 0 }, &[("08:00:01.6", "08:00:02")]);
}

#[test]
fn intervals_in_every_style() {
    check(
        plain(oids::INTERVAL),
        &[
            ("1 year 2 months 3 days 04:05:06.789", "1 year 2 mons 3 days 04:05:06.789"),
            ("P1Y2M3DT4H5M6.5S", "1 year 2 mons 3 days 04:05:06.5"),
            ("P0001-02-03T04:05:06", "1 year 2 mons 3 days 04:05:06"),
            ("1-2 3 4:05", "1 year 2 mons 3 days 04:05:00"),
            ("1 day 2 hours ago", "-1 days -02:00:00"),
            ("-1 day 2:03", "-1 days +02:03:00"),
            ("1.5 months", "1 mon 15 days"),
            ("1.5 years", "1 year 6 mons"),
            ("1.5 weeks", "10 days 12:00:00"),
            ("0.1 day", "02:24:00"),
            ("@ 90 minutes", "01:30:00"),
            ("1h2m3s", "01:02:03"),
            ("5", "00:00:05"),
            ("0", "00:00:00"),
            ("100:00:00", "100:00:00"),
            ("1 decade 1 ms", "10 years 00:00:00.001"),
            ("1 day 2 days", "22007: invalid input syntax for type interval: \"1 day 2 days\""),
            ("1 lightyear", "22007: invalid input syntax for type interval: \"1 lightyear\""),
            ("", "22007: invalid input syntax for type interval: \"\""),
            ("1:60:00", "22015: interval field value out of range: \"1:60:00\""),
            (
                "3000000000 months",
                "22015: interval field value out of range: \"3000000000 months\"",
            ),
        ],
    );
    let of = |from, to, precision| SqlType {
        oid: oids::INTERVAL,
        modifier: interval::Fields::between(from, to).unwrap().modifier(precision),
    };
    check(of("day", "day", None), &[("1", "1 day"), ("1 day 2:00", "1 day")]);
    check(of("year", "month", None), &[("14", "1 year 2 mons")]);
    check(of("minute", "second", Some(1)), &[("1:02.34", "00:01:02.3")]);
    assert_eq!(type_name(of("day", "second", Some(3))), "interval day to second(3)");
}

#[test]
fn intervals_are_calculated_with_as_postgresql_does() {
    let read = |text: &str| interval_input::parse(text, interval::Fields::ALL).unwrap();
    let shown = |interval: Result<froglet_engine::Interval, SqlError>| {
        let mut out = Vec::new();
        let v = interval.unwrap();
        interval::write(v.months, v.days, v.us, &mut out);
        String::from_utf8(out).unwrap()
    };
    let times = |text, by: f64| shown(interval::scale(read(text), |v| v * by));
    assert_eq!(times("1 day", 2.5), "2 days 12:00:00");
    assert_eq!(times("1 month", 0.5), "15 days");
    assert_eq!(times("1 month 1 day", 0.1), "3 days 02:24:00");
    assert_eq!(shown(interval::justify_hours(read("27 hours"))), "1 day 03:00:00");
    assert_eq!(shown(interval::justify_days(read("35 days"))), "1 mon 5 days");
    assert_eq!(shown(interval::justify(read("1 mon -1 hour"))), "29 days 23:00:00");
    assert!(interval::add(read("178956970 years"), read("1 year")).is_err());
}

#[test]
fn jsonb_is_canonical_and_json_as_it_was() {
    check(
        plain(oids::JSONB),
        &[
            (" {\"bb\" : 1, \"a\":2.50,\"a\":3e1} ", "{\"a\": 30, \"bb\": 1}"),
            ("[1,-0, 1.50, 1E-3, 12e-1]", "[1, 0, 1.50, 0.001, 1.2]"),
            ("\"\\u00e9\\ud83d\\udc38\\n\"", "\"\u{e9}\u{1f438}\\n\""),
            ("[]", "[]"),
            ("null", "null"),
            ("{bad", "22P02: invalid input syntax for type json"),
            ("[1,]", "22P02: invalid input syntax for type json"),
            ("01", "22P02: invalid input syntax for type json"),
            ("\"\\u0000\"", "22P05: unsupported Unicode escape sequence"),
            ("1e200000", "22003: value overflows numeric format"),
        ],
    );
    check(plain(oids::JSON), &[("{\"a\": 1, \"a\" : [1,2]}", "{\"a\": 1, \"a\" : [1,2]}")]);
    // As deep as may be: every walk over it has the stack it needs.
    let deepest = format!("{}{}", "[".repeat(512), "]".repeat(512));
    assert_eq!(read(plain(oids::JSONB), &deepest), deepest);
    let value = json::read(&deepest).unwrap();
    assert!(json::path::contains(&value, &value.clone()) && !json::key::of(&value).is_empty());
    let deep = "[".repeat(100_000);
    assert_eq!(read(plain(oids::JSONB), &deep).get(..5), Some("54001"));
    for (text, detail) in [
        ("{bad", "Token \"bad\" is invalid."),
        ("{\"a\" 1}", "Expected \":\", but found \"1\"."),
        ("[1 2]", "Expected \",\" or \"]\", but found \"2\"."),
        ("[1", "The input string ended unexpectedly."),
        ("1 2", "Expected end of input, but found \"2\"."),
    ] {
        let error = from_text(plain(oids::JSON), ColumnType::Text, text).unwrap_err();
        assert_eq!(error.detail.as_deref(), Some(detail), "{text}");
    }
}

#[test]
fn jsonb_values_are_ordered_as_in_postgresql() {
    let ladder = [
        "[]",
        "null",
        "\"\"",
        "\"a\"",
        "\"b\"",
        "-10",
        "-1.5",
        "-1",
        "0",
        "0.001",
        "1",
        "1.5",
        "2",
        "10",
        "1000",
        "false",
        "true",
        "[1]",
        "[2]",
        "[1, 1]",
        "{}",
        "{\"a\": 1}",
        "{\"b\": 1}",
        "{\"a\": 1, \"b\": 0}",
    ];
    let keys = ladder.map(|text| json::key::of(&json::read(text).unwrap()));
    assert!(keys.is_sorted_by(|a, b| a < b));
    let key = |text| json::key::of(&json::read(text).unwrap());
    assert_eq!(key("1.0"), key("1"));
    assert_eq!(key("-0.0"), key("0"));
}

#[test]
fn arrays_are_kept_as_their_elements_print() {
    check(
        plain(oids::INT4_ARRAY),
        &[
            ("{ 1, 02 ,NULL}", "{1,2,NULL}"),
            ("{}", "{}"),
            ("{1,x}", "22P02: invalid input syntax for type integer: \"x\""),
            ("1", "22P02: malformed array literal: \"1\""),
            ("{1,2", "22P02: malformed array literal: \"{1,2\""),
        ],
    );
    check(
        plain(oids::TEXT_ARRAY),
        &[("{a, \"b c\",\"NULL\",null,\"\"}", "{a,\"b c\",\"NULL\",NULL,\"\"}")],
    );
    let mut out = Vec::new();
    value_binary(
        &froglet_engine::Value::text("{7,NULL}"),
        ColumnType::Text,
        oids::INT4_ARRAY,
        &mut out,
    );
    let read = from_binary(plain(oids::INT4_ARRAY), ColumnType::Text, &out);
    assert_eq!(read.ok(), Some(froglet_engine::Value::text("{7,NULL}")));
}
