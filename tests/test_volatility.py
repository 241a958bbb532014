"""Whether an expression is immutable is what PostgreSQL 15 says: for every cast, operator and function that both have,
an index over it, its predicate and a generated column are taken or refused alike.
"""

import psycopg
import pytest

TYPES = {
    "i2": "smallint", "i": "int", "i8": "bigint", "n": "numeric", "f": "float8", "r": "real", "b": "boolean",
    "c": "text", "vc": "varchar(20)", "bc": "char(8)", "d": "date", "t": "time", "ts": "timestamp",
    "tz": "timestamptz", "iv": "interval", "u": "uuid", "by": "bytea", "j": "json", "jb": "jsonb",
    "ia": "int[]", "ta": "text[]", "m": "mood",
}
BY_TYPE = {
    "smallint": "i2", "integer": "i", "bigint": "i8", "numeric": "n", "double precision": "f", "real": "r",
    "boolean": "b", "text": "c", "date": "d", "time without time zone": "t", "timestamp without time zone": "ts",
    "timestamp with time zone": "tz", "interval": "iv", "uuid": "u", "bytea": "by", "json": "j", "jsonb": "jb",
    "character varying": "vc", "character": "bc",
    "anyelement": "i", "anyarray": "ia", "anynonarray": "i", "anycompatible": "i", "anycompatiblearray": "ia",
    "\"any\"": "tz", "VARIADIC \"any\"": "tz", "anyenum": "m",
}
WRITTEN = [
    # What was reported, and its kin.
    "ts::date", "tz::date", "tz::text", "c::timestamptz", "tz::timestamp", "ts::timestamptz", "d::timestamptz",
    "date_trunc('day', tz)", "date_trunc('day', ts)", "date_trunc('day', d)", "date_trunc('day', tz, 'UTC')",
    "to_char(tz, 'YYYY')", "to_char(ts, 'YYYY')", "to_char(i, '999')", "now()", "random()", "concat(c, tz)",
    "concat(c, c)", "concat_ws(',', c, i)", "c || tz", "c || ts", "c || i", "c || m", "tz || c",
    "extract(year from tz)", "extract(year from ts)", "extract(year from d)", "date_part('hour', tz)",
    "date_part('hour', t)", "tz at time zone 'UTC'", "ts at time zone 'UTC'", "tz at time zone c",
    "tz + iv", "tz + interval '1 day'", "iv + tz", "tz - iv", "ts + iv", "d + iv", "d + 1", "tz - tz", "tz - ts",
    "ts - ts", "d - d", "tz > ts", "ts = tz", "tz < d", "d < ts", "tz > '2020-01-01'",
    "tz > '2020-01-01'::date", "tz > '2020-01-01'::timestamptz", "tz between ts and ts", "tz in (ts)",
    "current_date", "current_timestamp", "localtimestamp", "current_user", "session_user", "current_schema",
    "d::text", "t::text", "ts::text", "iv::text", "i::text", "n::text", "f::text", "b::text", "u::text", "j::text",
    "m::text", "m::varchar", "c::mood", "'ok'::mood", "c::date", "c::time", "c::timestamp", "c::interval", "c::int",
    "c::numeric", "c::uuid", "c::json", "c::jsonb", "c::boolean", "c::float8", "ia::text", "ta::text", "c::int[]",
    "ia::text[]", "'2020-01-01'::date", "'2020-01-01'::text::date", "'now'::text::timestamptz",
    "jsonb_build_object('a', tz)", "to_json(tz)", "to_jsonb(i)", "json_build_array(tz)", "row_to_json(row(tz))",
    "age(tz)", "age(ts, ts)", "age(tz, tz)", "make_date(i, i, i)", "make_timestamptz(i, i, i, i, i, f)",
    "make_timestamp(i, i, i, i, i, f)", "to_date(c, 'YYYY')", "to_timestamp(c, 'YYYY')", "to_timestamp(f)",
    "to_number(c, '99')", "lower(c)", "upper(c)", "md5(c)", "length(c)", "left(c, 2)", "replace(c, 'a', 'b')",
    "substring(c from 'a')", "c like 'a%'", "c ~ 'a'", "regexp_replace(c, 'a', 'b')", "coalesce(c, 'x')",
    "nullif(i, 1)", "greatest(i, i8)", "greatest(tz, tz)", "case when tz > now() then 1 end",
    "case when i > 1 then tz end", "format('%s', i)", "quote_literal(c)", "quote_literal(i)", "quote_nullable(tz)",
    "quote_ident(c)", "array_to_string(ia, ',')", "string_to_array(c, ',')", "jb -> 'a'", "jb ->> 'a'",
    "jb #> '{a,b}'", "jb #>> '{a,b}'", "j #>> '{a}'", "jb @? '$.a'", "jb @@ '$.a'", "jb #- '{a}'", "jb || jb", "jb - 'a'", "jb ? 'a'",
    "jb ?| '{a}'", "jb @> jb",
    "jsonb_path_exists(jb, '$.a')", "jsonb_path_exists_tz(jb, '$.a')", "gen_random_uuid()", "clock_timestamp()",
    "current_setting('TimeZone')", "pg_backend_pid()", "version()", "txid_current()", "nextval('sq')",
    "date_bin('1 day', tz, tz)", "isfinite(tz)", "justify_days(iv)", "(tz, ts) = (tz, ts)", "tz is null",
    "i = any (ia)", "tz = any (array[ts::timestamptz])", "abs(i)", "i / 2", "n ^ 2", "sqrt(f)", "tz is distinct from ts",
    "timezone('UTC', tz)", "timezone('UTC', ts)", "date(tz)", "date(ts)", "enum_first(m)", "enum_range(m)", "m < 'ok'",
]


def setup(connection):
    connection.execute("create type mood as enum ('sad', 'ok')")
    connection.execute("create sequence sq")
    connection.execute("create table t (" + ", ".join(f"{c} {ty}" for c, ty in TYPES.items()) + ")")


def state(connection, sql):
    try:
        with connection.transaction():
            connection.execute(sql)
            raise psycopg.Rollback
    except psycopg.Error as error:
        return error.sqlstate
    return "ok"


def verdict(connection, sql):
    """Of what PostgreSQL says for reasons of its own, only whether it is said that this is not immutable."""
    found = state(connection, sql)
    return found if found in ("ok", "42P17") else "other"


def statements(expression):
    yield f"create index on t (({expression}))"
    yield f"create index on t (i) where ({expression}) is not null"
    yield f"alter table t add column g text generated always as (({expression})::text) stored"
    yield f"alter table t add check (({expression}) is not null)"


def compare(froglet, postgres, expressions):
    differences = []
    with froglet.connect() as ours, postgres.connect() as theirs:
        setup(ours)
        setup(theirs)
        for expression in expressions:
            if verdict(theirs, f"select ({expression}) is null from t") != "ok":
                continue
            if verdict(ours, f"select ({expression}) is null from t") != "ok":
                continue
            for sql in statements(expression):
                expected, found = verdict(theirs, sql), verdict(ours, sql)
                # A type that has no order here, or there, has no index.
                if expected != found and "other" not in (expected, found):
                    differences.append((sql, expected, found))
    return differences


def test_what_is_written_is_immutable_where_postgresql_says_so(froglet, postgres):
    assert compare(froglet, postgres, WRITTEN) == []


def test_every_cast_is_immutable_where_postgresql_says_so(froglet, postgres):
    casts = [f"{c}::{ty}" for c in TYPES for ty in TYPES.values()]
    assert compare(froglet, postgres, casts) == []


def test_every_comparison_and_sum_is_immutable_where_postgresql_says_so(froglet, postgres):
    operators = [f"{a} {op} {b}" for a in TYPES for b in TYPES for op in ("<", "=", "+", "-", "||")]
    assert compare(froglet, postgres, operators) == []


def test_every_function_is_immutable_where_postgresql_says_so(froglet, postgres):
    rows = postgres.rows(
        "select distinct p.proname, array(select format_type(a, null) from unnest(p.proargtypes) with ordinality u(a, n)"
        " order by n) from pg_proc p where p.pronamespace = 11 and p.prokind = 'f' and not p.proretset"
        " and p.pronargs between 1 and 4 and p.proname not like 'pg\\_%' and p.proname !~ '(in|out|recv|send)$'"
        " order by 1, 2")
    calls = []
    for name, arguments in rows:
        columns = [BY_TYPE.get(argument) for argument in arguments]
        if None not in columns:
            calls.append(f"\"{name}\"({', '.join(columns)})")
    assert len(calls) > 300
    assert compare(froglet, postgres, calls) == []


def test_a_generated_column_is_made_of_no_other(server):
    server.run("create table g (a int, b int generated always as (a + 1) stored)")
    with server.connect() as connection:
        for sql in ("alter table g add c int generated always as (b + 1) stored",
                    "create table h (a int, b int generated always as (a) stored, c int generated always as (b) stored)",
                    "create table h (a int, b int generated always as (b + 1) stored)"):
            with pytest.raises(psycopg.errors.InvalidObjectDefinition):
                connection.execute(sql)
