//! What cannot fail for any row (`migrate/may_fail.rs`): each entry of the table over the ends of every range, and
//! what may fail stays what may fail.

use std::sync::Arc;

use froglet_sql::Database;

use crate::support::{Client, database};

/// Columns by type, with values at the ends of its range. Each is there twice, `x` and `x2`, in all pairs.
const COLUMNS: &[(&str, &str, &[&str])] = &[
    ("i2", "smallint", &["-32768", "-1", "0", "1", "32767", "null"]),
    ("i4", "int", &["-2147483648", "-1", "0", "1", "7", "2147483647", "null"]),
    ("i8", "bigint", &["-9223372036854775808", "-1", "0", "1", "9223372036854775807", "null"]),
    ("n", "numeric", &["0", "-1.5", "'NaN'", "1e400", "-1e400", "1e-400", "null"]),
    ("d", "numeric(12,2)", &["0", "9999999999.99", "-9999999999.99", "null"]),
    ("f4", "real", &["0", "'NaN'", "'Infinity'", "'-Infinity'", "3.4e38", "1e-45", "null"]),
    ("f8", "float8", &["0", "'NaN'", "'Infinity'", "'-Infinity'", "-1.7e308", "5e-324", "null"]),
    ("b", "boolean", &["true", "false", "null"]),
    (
        "t",
        "text",
        &[
            "''",
            "'a'",
            "'ß,İ'",
            "'\u{10ffff}'",
            r"'a\'",
            "'%_'",
            "' x '",
            "repeat('xy,', 500)",
            "null",
        ],
    ),
    ("vc", "varchar(10)", &["''", "'abcdefghij'", "null"]),
    ("c", "char(4)", &["''", "'ab'", "null"]),
    (
        "da",
        "date",
        &[
            "'infinity'",
            "'-infinity'",
            "'4713-01-01 BC'",
            "'5874897-12-31'",
            "'2000-02-29'",
            "null",
        ],
    ),
    (
        "ts",
        "timestamp",
        &[
            "'infinity'",
            "'-infinity'",
            "'4713-01-01 00:00:00 BC'",
            "'294246-12-31 23:59:59.999999'",
            "'1970-01-01'",
            "null",
        ],
    ),
    (
        "tz",
        "timestamptz",
        &[
            "'infinity'",
            "'-infinity'",
            "'4713-01-01 00:00:00+00 BC'",
            "'294246-12-31 23:59:59.999999+00'",
            "'2024-03-31 01:30+00'",
            "null",
        ],
    ),
    ("tm", "time", &["'00:00'", "'24:00'", "null"]),
    (
        "iv",
        "interval",
        &["'0'", "'178956970 years'", "'-178956970 years'", "'2147483647 days'", "null"],
    ),
    ("u", "uuid", &["'ffffffff-ffff-ffff-ffff-ffffffffffff'", "null"]),
    ("j", "json", &["'null'", "'{\"a\": 1}'", "'[1, 2]'", "'\"s\"'", "'1e400'", "null"]),
    ("jb", "jsonb", &["'null'", "'{\"a\": 1}'", "'[1, 2]'", "'\"s\"'", "'1e400'", "null"]),
    ("by", "bytea", &["''", r"'\x00ff'", "null"]),
    ("en", "mood", &["'sad'", "'ok'", "null"]),
];

/// Of a row.
const TOTAL: &[&str] = &[
    "length(t)",
    "length(vc)",
    "length(c)",
    "length(by)",
    "char_length(t)",
    "octet_length(t)",
    "trim(t)",
    "trim(both 'x' from t)",
    "ltrim(t)",
    "rtrim(t, t2)",
    "lower(t)",
    "upper(t)",
    "initcap(t)",
    "reverse(t)",
    "left(t, i4)",
    "right(t, i4)",
    "md5(t)",
    "replace(t, 'xy', 'z')",
    "concat(t, i4, f8, ts, b)",
    "concat_ws(',', t, i8, da)",
    "t || t2",
    "strpos(t, t2)",
    "position(t in t2)",
    "starts_with(t, t2)",
    "ascii(t)",
    "substr(t, i4)",
    "substr(t, i4, 10)",
    "substring(t from 2 for 3)",
    "split_part(t, ',', 2)",
    "lpad(t, 10, 'x')",
    "rpad(t, 10)",
    "t like 'a%'",
    "t not like '%x_'",
    "t ilike 'A%'",
    r"t like 'a\%'",
    "t in ('a', 'b', 'c', 'd', 'e')",
    "i4 in (1, 2, 3, 4, 5)",
    "i4 between i42 and 5",
    "coalesce(t, t2)",
    "coalesce(i4, i42, 0)",
    "nullif(i4, i42)",
    "nullif(t, '')",
    "greatest(i4, i42)",
    "least(t, t2, 'm')",
    "greatest(ts, ts2)",
    "i4 % 7",
    "i8 % -1",
    "i4 % 7 = 0",
    "mod(i4, -1)",
    "abs(f8)",
    "to_hex(i8)",
    "ceil(f8)",
    "floor(f8)",
    "case when b then i4 else i42 end",
    "case when t like 'a%' then 'x' else t2 end",
    "not b",
    "b and b2 or i4 > i42",
    "i4 is distinct from i42",
    "t is null",
    "b is not true",
    "i2::int",
    "i2::bigint",
    "i4::bigint",
    "i4::float8",
    "i8::float8",
    "f4::float8",
    "i8::numeric",
    "d::numeric",
    "b::int",
    "i4::boolean",
    "i4::text",
    "i8::text",
    "i2::varchar",
    "i4::varchar(2)",
    "n::text",
    "d::text",
    "f8::text",
    "f4::text",
    "b::text",
    "da::text",
    "ts::text",
    "tz::text",
    "tm::text",
    "iv::text",
    "u::text",
    "j::text",
    "jb::text",
    "en::text",
    "vc::text",
    "t::varchar",
    "t::varchar(3)",
    "c::text",
    "ts::date",
    "tz::date",
    "date_trunc('day', ts)",
    "date_trunc('month', tz)",
    "date_trunc('millennium', ts)",
    "date_trunc('week', tz)",
    "extract(dow from ts)",
    "extract(hour from ts)",
    "extract(day from da)",
    "date_part('year', ts)",
    "date_part('epoch', tz)",
    "date_part('month', da)",
    "isfinite(ts)",
    "jb->>'a'",
    "jb->'a'",
    "jb->0",
    "j->>'a'",
    "j->1",
    "jb ? 'a'",
    "jb @> jb2",
    "i4 = i42",
    "n < n2",
    "f8 >= f82",
    "ts <> ts2",
    "en = 'ok'",
    "u = u2",
];
const MAY: &[&str] = &[
    "i4 + 1",
    "i4 - i42",
    "i4 * 2",
    "i4 / 2",
    "i4 % i42",
    "i4 % 0",
    "i8 + 1",
    "f8 * 2",
    "n + 1",
    "abs(i4)",
    "-i4",
    "t::int",
    "t::date",
    "t::numeric",
    "t::boolean",
    "i8::int",
    "i4::smallint",
    "f8::real",
    "f8::int",
    "n::int",
    "n::float8",
    "i8::numeric(5,2)",
    "n::numeric(5,2)",
    "da::timestamp",
    "da + 1",
    "da - da2",
    "ts + iv",
    "ts - ts2",
    "iv * 2",
    "age(ts, ts2)",
    "extract(year from ts)",
    "extract(epoch from ts)",
    "date_trunc(t, ts)",
    "repeat(t, 3)",
    "replace(t, 'x', 'xyz')",
    "replace(t, t2, 'x')",
    "lpad(t, i4, 'x')",
    "substr(t, i4, i42)",
    "split_part(t, ',', i4)",
    "chr(i4)",
    "sqrt(f8)",
    "ln(f8)",
    "power(f8, f82)",
    "to_date(t, 'YYYY')",
    "to_number(t, '999')",
    "t like t2",
    r"t like 'a\'",
    "jb::int",
    "t::jsonb",
    "factorial(i8)",
    "round(n, i4)",
    "regexp_replace(t, t2, '')",
];
/// Of groups of i4.
const TOTAL_OF_GROUPS: &[&str] = &[
    "count(*)",
    "count(t)",
    "count(distinct i42)",
    "sum(i2)",
    "sum(i42)",
    "sum(i8)",
    "sum(d)",
    "avg(i42)",
    "avg(i8)",
    "avg(d)",
    "max(i42)::text",
    "min(t)",
    "lower(max(t))",
    "max(lower(t))",
    "max(t) || '!'",
    "max(length(t))",
    "nullif(max(i42), 3)",
    "greatest(max(i42), min(i42))",
    "max(date_trunc('day', ts))",
    "max(vc)::varchar",
    "max(case when t like 'a%' then 1 else 0 end)",
    "string_agg(t, ',')",
    "array_agg(i42)",
    "array_agg(t)",
    "jsonb_agg(t)",
    "json_agg(i42)",
    "bool_or(b)",
    "bool_and(b)",
    "count(*) filter (where t like 'a%')",
    "sum(i42) filter (where b)",
    "max(ts::date)",
    "min(en)",
    "max(u::text)",
];
const MAY_OF_GROUPS: &[&str] = &[
    "sum(f8)",
    "avg(f8)",
    "sum(iv)",
    "sum(i42 * 2)",
    "max(i42) - min(i42)",
    "sum(i42) / count(*)",
    "max(t)::int",
    "sum(t::int)",
    "stddev(f8)",
    "count(*) filter (where 1 / i42 > 0)",
];

async fn extremes() -> (Arc<Database>, Client) {
    let db = database().await;
    let mut c = Client::connect(&db);
    c.ok("create type mood as enum ('sad', 'ok')").await;
    let columns =
        COLUMNS.iter().flat_map(|(name, ty, _)| [format!("{name} {ty}"), format!("{name}2 {ty}")]);
    let columns: Vec<String> = columns.collect();
    c.ok(&format!("create table x ({})", columns.join(", "))).await;
    for k in 0..81 {
        let values = COLUMNS.iter().flat_map(|(_, _, values)| {
            [values[k % values.len()], values[k / values.len() % values.len()]]
        });
        let values: Vec<&str> = values.collect();
        c.ok(&format!("insert into x values ({})", values.join(", "))).await;
    }
    c.ok(
        "create index on x (i4); set froglet.migration = auto; set froglet.migration_auto_rows = 0",
    )
    .await;
    (db, c)
}

async fn is_lazy(c: &mut Client, query: &str) -> Result<bool, String> {
    match c.run(&format!("explain create table made as {query}")).await {
        Ok(answer) => {
            let lines: Vec<String> =
                answer.rows().into_iter().filter_map(|row| row[0].clone()).collect();
            let mode =
                lines.iter().find(|line| line.contains("Mode:")).cloned().unwrap_or_default();
            Ok(mode.contains("lazy,"))
        }
        Err(e) => Err(format!("{} {}", e.state, e.message)),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_fail_does_not() {
    let (_db, mut c) = extremes().await;
    let mut wrong = Vec::new();
    let of_rows = TOTAL.iter().map(|expr| format!("select i4 as k, {expr} as e from x"));
    let of_groups = TOTAL_OF_GROUPS
        .iter()
        .map(|expr| format!("select i4 as k, {expr} as e from x group by i4"));
    for query in of_rows.chain(of_groups) {
        for zone in ["UTC", "Pacific/Kiritimati", "America/New_York"] {
            c.ok(&format!("set timezone = '{zone}'")).await;
            if let Err(e) = c.run(&query).await {
                wrong.push(format!("fails: {query}: {} {}", e.state, e.message));
            }
        }
        match is_lazy(&mut c, &query).await {
            Ok(true) => {}
            other => wrong.push(format!("not lazy: {query}: {other:?}")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_may_fail_is_looked_at() {
    let (_db, mut c) = extremes().await;
    let mut wrong = Vec::new();
    let of_rows = MAY.iter().map(|expr| format!("select i4 as k, {expr} as e from x"));
    let of_groups =
        MAY_OF_GROUPS.iter().map(|expr| format!("select i4 as k, {expr} as e from x group by i4"));
    for query in of_rows.chain(of_groups) {
        match is_lazy(&mut c, &query).await {
            Ok(false) => {}
            other => wrong.push(format!("{query}: {other:?}")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
