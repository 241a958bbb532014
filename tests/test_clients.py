"""Clients as they come: psycopg 3 in all its ways, psql with its backslash commands.

Each test runs on Froglet and on PostgreSQL 15; what is compared is what PostgreSQL does.
"""

import datetime as dt
import re
import threading
import uuid
from decimal import Decimal

import psycopg
import pytest
from psycopg import errors, pq
from psycopg.types.json import Jsonb

UTC = dt.timezone.utc

# A type, and values that must come back as they went.
VALUES = {
    "bool": [True, False],
    "smallint": [0, -32768, 32767],
    "int": [0, -2147483648, 2147483647],
    "bigint": [0, -9223372036854775808, 9223372036854775807],
    "real": [0.0, 1.5, -3.25, float("inf"), float("-inf")],
    "double precision": [0.0, 0.1, -1e300, 5e-324, float("inf"), float("-inf")],
    "numeric(20,4)": [Decimal("0.0000"), Decimal("-1234567890123456.7891"), Decimal("1.5000")],
    "text": ["", "plain", "Größe 🐸", "tab\tnewline\nquote'\\", "x" * 10_000],
    "varchar(5)": ["", "12345", "äöüß!"],
    "char(4)": ["abcd", "a   "],
    "bytea": [b"", b"\x00\xff\\x41", bytes(range(256)) * 20],
    "date": [dt.date(2000, 1, 1), dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(2024, 2, 29)],
    "timestamp": [dt.datetime(2000, 1, 1), dt.datetime(1969, 12, 31, 23, 59, 59, 999999),
                  dt.datetime(9999, 12, 31, 23, 59, 59, 999999)],
    "timestamptz": [dt.datetime(2000, 1, 1, tzinfo=UTC),
                    dt.datetime(2024, 3, 31, 1, 30, 0, 123456, tzinfo=UTC)],
    "time": [dt.time(0), dt.time(23, 59, 59, 999999), dt.time(8, 30)],
    "interval": [dt.timedelta(0), dt.timedelta(days=-3, seconds=7, microseconds=5), dt.timedelta(days=4000)],
    "jsonb": [Jsonb(None), Jsonb("ä\"\n"), Jsonb([1, 2.5, {"k": [True, None]}]), Jsonb({})],
    "int[]": [[], [1, None, -2147483648], list(range(1000))],
    "text[]": [["", "a b", 'q"\\', "null", "{,}", None], ["ä"]],
    "timestamptz[]": [[dt.datetime(2024, 3, 31, 1, 30, tzinfo=UTC), None]],
    "interval[]": [[dt.timedelta(days=1, hours=2)]],
    "uuid[]": [[uuid.UUID(int=7), None]],
    "bytea[]": [[b"\x00\xff", b""]],
    "boolean[]": [[True, None, False]],
    "double precision[]": [[0.5, float("-inf")]],
    "uuid": [uuid.UUID(int=0), uuid.UUID("12345678-1234-5678-1234-567812345678")],
}



def as_read(values):
    """What psycopg makes of values when it reads them: of jsonb, what is inside."""
    return [getattr(value, "obj", value) for value in values]


@pytest.mark.parametrize("binary", [False, True], ids=["text", "binary"])
@pytest.mark.parametrize("sql_type", VALUES)
def test_values_come_back(server, sql_type, binary):
    """Parameters and results in either format, through a table and through a bare expression."""
    placeholder = "%b" if binary else "%t"
    with server.connect() as connection:
        connection.execute(f"create table t (id int primary key, v {sql_type})")
        cursor = connection.cursor(binary=binary)
        values = [*VALUES[sql_type], None]
        for i, value in enumerate(values):
            cursor.execute(f"insert into t values ({placeholder}, {placeholder})", [i, value])
        assert [v for [v] in cursor.execute("select v from t order by id")] == as_read(values)
        for i, value in enumerate(values[:-1]):
            found = cursor.execute(
                f"select id from t where v = {placeholder}::{sql_type} and id = {placeholder}",
                [value, i],
            ).fetchall()
            assert found == [(i,)], value
            echoed = cursor.execute(f"select {placeholder}::{sql_type}", [value]).fetchone()
            assert echoed == tuple(as_read([value]))


@pytest.mark.parametrize("binary", [False, True], ids=["text", "binary"])
def test_not_a_number(server, binary):
    with server.connect() as connection:
        cursor = connection.cursor(binary=binary)
        for sql_type in ("real", "double precision"):
            [[seen]] = cursor.execute(f"select 'NaN'::{sql_type}").fetchall()
            assert seen != seen


EXPRESSIONS = [
    "1", "1::smallint", "1::bigint", "1.5", "1.5::real", "1e3", "1.50::numeric(8,3)", "true",
    "'text'", "'text'::varchar(10)", "'t'::char(3)", "null", "'a' || 'b'", "1 + 1", "1 + 1::bigint",
    "1 / 2", "1.0 / 3", "7 % 3", "-7 / 2", "-7 % 2", "1::float8 / 3", "round(2.5)", "round(-2.567, 2)",
    "abs(-3)", "sqrt(2.0::float8)", "length('Größe')", "upper('abc')", "substr('abcdef', 2, 3)",
    "coalesce(null, 3)", "nullif(1, 1)", "greatest(1, 3, 2)", "case when true then 1 else 2 end",
    "'2024-02-29'::date", "'2024-02-29'::date + 1", "'2024-03-01'::date - '2024-02-01'::date",
    "'2024-02-29 12:34:56.789'::timestamp", "'2024-02-29 12:34:56+02'::timestamptz",
    "extract(year from '2024-02-29'::date)", "date_trunc('month', '2024-02-29 12:00'::timestamp)",
    "'\\x00ff'::bytea", "'12345678-1234-5678-1234-567812345678'::uuid", "1 = 1.0", "'a' < 'b'",
    "null is null", "1 in (1, 2)", "'abc' like 'a%'", "'abc' ~ 'b'", "not false", "1 between 0 and 2",
    "count(*)", "sum(1)", "sum(1::bigint)", "avg(1)", "min('a'::text)", "max(1.5)", "bool_and(true)",
    "cast('12' as int)", "'12'::int + 1", "'t'::bool", "pg_typeof(1)::text", "2147483647 + 1::bigint",
    "power(2, 10)", "md5('frog')", "trim('  x ')", "replace('abc', 'b', 'x')", "position('b' in 'abc')",
    "lpad('7', 3, '0')", "floor(1.7)", "ceil(1.2)", "mod(7, 3)", "'a' || 1", "concat('a', 1, null)",
    "left('abc', 2)", "split_part('a,b', ',', 2)", "string_agg('x', ',')", "current_user",
    "true", "sign(-2.5)", "trunc(-1.7)", "round(2.5::float8)", "round(15, -1)", "sqrt(2.0)", "log(2, 8)", "2 ^ 3",
    "factorial(5)", "gcd(12, 18)", "to_hex(-1)", "format('%s %I %L', 'a', 'B c', null)", "regexp_match('abc', '(b)(c)')",
    "regexp_replace('aaa', 'a', 'b', 2)", "substring('foobar' from 'o(.)b')", "split_part('a,b', ',', -1)",
    "date_part('hour', '2024-02-29'::date)", "extract(second from '2024-01-01 10:00:30.5'::timestamp)",
    "date_trunc('week', '2024-02-29 10:00'::timestamp)", "make_date(2024, 2, 29)", "make_date(2024, 2, 30)",
    "to_char(1234.5, 'FM9,999.00')", "to_char(-485, '999S')", "to_char('2024-02-03'::timestamp, 'FMMonth DDth')",
    "to_date('29.02.2024', 'DD.MM.YYYY')", "encode('\\xff00'::bytea, 'base64')", "hashtext('x')", "length('ab'::char(5))",
    "(1, null) is null", "row(1, 'a b', null)", "'int4'::regtype", "5 > all (select 3)", "stddev(1)", "every(true)",
    "percentile_disc(0.5) within group (order by 2)", "power(0, -1)", "ln(0)", "chr(0)",
    "current_database() is not null", "version() like '%PostgreSQL%' or version() like '%Froglet%'",
]


def test_expressions_have_postgres_values_and_types(froglet, postgres):
    """The same value, in the same text, of the same type."""
    different = []
    with froglet.connect() as ours, postgres.connect() as theirs:
        for expression in EXPRESSIONS:
            seen, expected = evaluated(ours, expression), evaluated(theirs, expression)
            if seen != expected:
                different.append(f"select {expression}: {seen}, PostgreSQL: {expected}")
    assert not different, "\n".join(different)


def evaluated(connection, expression):
    """Text, type and type modifier of an expression's value, or its error."""
    try:
        result = connection.execute(f"select {expression}").pgresult
    except psycopg.Error as error:
        return str(error)
    value = result.get_value(0, 0)
    return value and value.decode(), result.ftype(0), result.fmod(0)


def test_server_side_prepared_statements(server):
    """psycopg prepares what it has seen often, deallocates what it no longer wants."""
    with server.connect() as connection:
        connection.prepare_threshold = 0
        connection.prepared_max = 3
        connection.execute("create table t (id int primary key, v text)")
        for i in range(20):
            connection.execute(f"insert into t values (%s, %s || '{i % 7}')", [i, f"v{i}"])
        for i in range(20):
            [row] = connection.execute("select v from t where id = %s", [i])
            assert row == (f"v{i}{i % 7}",)
        names = connection.execute("select count(*) from pg_prepared_statements").fetchone()
        assert names[0] <= 4
        connection.execute("deallocate all")
        assert connection.execute("select v from t where id = %s", [3]).fetchone() == ("v33",)


def test_prepare_execute_deallocate_in_sql(server):
    with server.connect() as connection:
        connection.execute("create table t (id int primary key, v int)")
        connection.execute("prepare put (int, int) as insert into t values ($1, $2)")
        connection.execute("prepare get as select v from t where id = $1")
        connection.execute("execute put (1, 10)")
        connection.execute("execute put (2, 10 + 10)")
        assert connection.execute("execute get (2)").fetchall() == [(20,)]
        with pytest.raises(errors.DuplicatePreparedStatement):
            connection.execute("prepare get as select 1")
        connection.execute("deallocate get")
        with pytest.raises(errors.InvalidSqlStatementName):
            connection.execute("execute get (2)")


def test_pipeline(server):
    """Many statements without waiting; an error skips what follows up to the sync."""
    with server.connect() as connection:
        connection.execute("create table t (id int primary key, v int)")
        with connection.pipeline():
            for i in range(100):
                connection.execute("insert into t values (%s, %s)", [i, i])
            count = connection.execute("select count(*) from t")
        assert count.fetchone() == (100,)

        with pytest.raises(errors.UniqueViolation), connection.pipeline() as pipeline:
            connection.execute("insert into t values (1000, 0)")
            pipeline.sync()
            connection.execute("insert into t values (1001, 0)")
            connection.execute("insert into t values (1, 1)")
            connection.execute("insert into t values (1002, 0)")
        with server.connect() as other:
            # What is before the sync was committed by it; what is after it is one transaction.
            assert other.execute("select id from t where id >= 1000").fetchall() == [(1000,)]
        assert connection.execute("select 1").fetchone() == (1,)


def test_executemany(server):
    with server.connect() as connection:
        connection.execute("create table t (id int primary key, v text)")
        cursor = connection.cursor()
        cursor.executemany("insert into t values (%s, %s)", [(i, f"v{i}") for i in range(500)])
        assert cursor.rowcount == 500
        cursor.executemany("update t set v = %s where id = %s", [(None, i) for i in range(0, 500, 2)])
        assert cursor.rowcount == 250
        cursor.executemany("insert into t values (%s, %s) returning id", [(1000, "a"), (1001, "b")],
                           returning=True)
        returned = [cursor.fetchone()]
        while cursor.nextset():
            returned.append(cursor.fetchone())
        assert returned == [(1000,), (1001,)]


def test_copy_in_and_out(server):
    """Text, CSV and binary, by rows and by blocks, with columns left out, and back again."""
    rows = [(i, f"text\t{i}\n\\ü" if i % 3 else None, Decimal(i) / 4) for i in range(3000)]
    with server.connect() as connection:
        connection.execute("create table t (id int primary key, s text, n numeric(10,2), d int default 7)")
        cursor = connection.cursor()
        with cursor.copy("copy t (id, s, n) from stdin") as copy:
            for row in rows:
                copy.write_row(row)
        assert cursor.statusmessage == "COPY 3000"
        assert cursor.execute("select id, s, n from t where d = 7 order by id").fetchall() == rows

        with cursor.copy("copy (select id, s, n from t order by id) to stdout") as copy:
            copy.set_types(["int4", "text", "numeric"])
            assert list(copy.rows()) == rows
        cursor.execute("truncate t")
        with cursor.copy("copy t (id, s, n) from stdin (format binary)") as copy:
            copy.set_types(["int4", "text", "numeric"])
            for row in rows:
                copy.write_row(row)
        assert cursor.execute("select id, s, n from t order by id").fetchall() == rows
        with cursor.copy("copy t (id, s, n) to stdout (format binary)") as copy:
            copy.set_types(["int4", "text", "numeric"])
            assert sorted(copy.rows(), key=lambda row: row[0]) == rows

        cursor.execute("truncate t")
        text = 'id,s,n,d\n1,"quoted, ""twice""\nnewline",1.5,3\n2,,,4\n3,"",2,5\n'
        with cursor.copy("copy t from stdin with (format csv, header true)") as copy:
            for byte in text:
                copy.write(byte)
        seen = cursor.execute("select * from t order by id").fetchall()
        assert seen == [(1, 'quoted, "twice"\nnewline', Decimal("1.50"), 3), (2, None, None, 4),
                        (3, "", Decimal("2.00"), 5)]
        with cursor.copy("copy t to stdout with (format csv, header)") as copy:
            out = b"".join(bytes(block) for block in copy).decode()
        assert out == ('id,s,n,d\n1,"quoted, ""twice""\nnewline",1.50,3\n2,,,4\n3,"",2.00,5\n')


def test_copy_inside_a_transaction(server):
    with server.connect(autocommit=False) as connection:
        connection.execute("create table t (id int primary key)")
        with connection.cursor().copy("copy t from stdin") as copy:
            copy.write("1\n2\n")
        assert connection.execute("select count(*) from t").fetchone() == (2,)
        connection.rollback()
        with pytest.raises(errors.UndefinedTable):
            connection.execute("select * from t")


def test_row_counts_and_tags(server):
    with server.connect() as connection:
        cursor = connection.cursor()
        for statement, tag in [
            ("create table t (id int primary key, v int)", "CREATE TABLE"),
            ("insert into t values (1, 1), (2, 2), (3, 3)", "INSERT 0 3"),
            ("insert into t select id + 10, v from t", "INSERT 0 3"),
            ("update t set v = 0 where id > 10", "UPDATE 3"),
            ("delete from t where id = 99", "DELETE 0"),
            ("select * from t", "SELECT 6"),
            ("values (1), (2)", "SELECT 2"),
            ("begin", "BEGIN"), ("savepoint a", "SAVEPOINT"), ("release a", "RELEASE"),
            ("rollback", "ROLLBACK"),
            ("set statement_timeout = 0", "SET"), ("show statement_timeout", "SHOW"),
            ("truncate t", "TRUNCATE TABLE"), ("create index i on t (v)", "CREATE INDEX"),
            ("alter table t add column w int", "ALTER TABLE"), ("drop index i", "DROP INDEX"),
            ("vacuum t", "VACUUM"), ("analyze t", "ANALYZE"), ("drop table t", "DROP TABLE"),
        ]:
            cursor.execute(statement)
            assert cursor.statusmessage == tag, statement


def test_returning(server):
    with server.connect() as connection:
        connection.execute("create table t (id serial primary key, v int default 5, w int)")
        run = lambda sql: connection.execute(sql).fetchall()  # noqa: E731
        assert run("insert into t (w) values (1), (2) returning *") == [(1, 5, 1), (2, 5, 2)]
        assert run("update t set v = v + w returning id, v as now, v * 2") == [(1, 6, 12), (2, 7, 14)]
        assert run("delete from t where id = 1 returning t.*") == [(1, 6, 1)]
        assert run("delete from t where id = 99 returning id") == []


def test_rows_in_portions(server):
    """A portal with a row limit: psycopg's stream, and a protocol cursor within a transaction."""
    with server.connect() as connection:
        connection.execute("create table t (id int primary key)")
        connection.execute("insert into t select n from generate_series(1, 20000) as g (n)")
        taken = 0
        for [value] in connection.cursor().stream("select id from t order by id"):
            taken += 1
            assert value == taken
        assert taken == 20_000
        assert connection.execute("select count(*) from t").fetchone() == (20_000,)


def test_several_statements_in_one_message(server):
    """A simple query of several statements is one transaction, unless it says otherwise."""
    with server.connect() as connection:
        connection.execute("create table t (id int primary key); insert into t values (1)")
        with pytest.raises(errors.UniqueViolation):
            connection.execute("insert into t values (2); insert into t values (1); select 1")
        assert connection.execute("select * from t").fetchall() == [(1,)]
        with pytest.raises(errors.UniqueViolation):
            connection.execute(
                "begin; insert into t values (3); commit; insert into t values (4), (1)")
        assert connection.info.transaction_status == pq.TransactionStatus.IDLE
        assert connection.execute("select * from t order by 1").fetchall() == [(1,), (3,)]
        cursor = connection.execute("select 1; select 2, 3; ; select 4")
        seen = [cursor.fetchall()]
        while cursor.nextset():
            seen.append(cursor.fetchall())
        assert seen == [[(1,)], [(2, 3)], [(4,)]]


def test_transactions_of_psycopg(server):
    """Its context managers: transactions in transactions are savepoints."""
    with server.connect(autocommit=False) as connection:
        connection.execute("create table t (id int primary key)")
        connection.commit()
        with connection.transaction():
            connection.execute("insert into t values (1)")
            with pytest.raises(ZeroDivisionError), connection.transaction():
                connection.execute("insert into t values (2)")
                1 / 0
            with connection.transaction():
                connection.execute("insert into t values (3)")
        assert connection.execute("select id from t order by id").fetchall() == [(1,), (3,)]
        connection.rollback()
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.read_only = True
        assert connection.execute("show transaction_isolation").fetchone() == ("repeatable read",)
        with pytest.raises(errors.ReadOnlySqlTransaction):
            connection.execute("insert into t values (4)")


def test_notices(server):
    seen = []
    with server.connect() as connection:
        connection.add_notice_handler(lambda d: seen.append((d.severity, d.sqlstate, d.message_primary)))
        connection.execute("drop table if exists nothing")
        connection.execute("create table t (id int)")
        connection.execute("create table if not exists t (id int)")
        connection.execute("commit")
        connection.execute("begin")
        connection.execute("begin")
        connection.execute("rollback")
        connection.execute("set client_min_messages = error")
        connection.execute("drop table if exists nothing")
    assert seen == [
        ("NOTICE", "00000", 'table "nothing" does not exist, skipping'),
        ("NOTICE", "42P07", 'relation "t" already exists, skipping'),
        ("WARNING", "25P01", "there is no transaction in progress"),
        ("WARNING", "25001", "there is already a transaction in progress"),
    ]


def test_error_fields(server):
    """SQLSTATE, message, position, and which table, column and constraint."""
    server.run("create table t (id int primary key, v int not null, constraint small check (v < 10))",
               "insert into t values (1, 1)")

    def failing(sql):
        with server.connect() as connection, pytest.raises(psycopg.Error) as caught:
            connection.execute(sql)
        return caught.value.diag

    seen = failing("insert into t values (1, 2)")
    assert (seen.sqlstate, seen.severity) == ("23505", "ERROR")
    assert seen.message_primary == 'duplicate key value violates unique constraint "t_pkey"'
    assert seen.message_detail == "Key (id)=(1) already exists."
    assert (seen.schema_name, seen.table_name, seen.constraint_name) == ("public", "t", "t_pkey")

    seen = failing("insert into t values (2, null)")
    assert (seen.sqlstate, seen.table_name, seen.column_name) == ("23502", "t", "v")
    assert seen.message_primary == (
        'null value in column "v" of relation "t" violates not-null constraint')

    seen = failing("insert into t values (2, 20)")
    assert (seen.sqlstate, seen.table_name, seen.constraint_name) == ("23514", "t", "small")
    assert seen.message_primary == 'new row for relation "t" violates check constraint "small"'

    seen = failing("select nothing from t")
    assert (seen.sqlstate, seen.statement_position) == ("42703", "8")
    assert seen.message_primary == 'column "nothing" does not exist'

    seen = failing("select * from t where id = 1 and")
    assert seen.sqlstate == "42601" and seen.message_primary.startswith("syntax error at")

    seen = failing("selec 1")
    assert (seen.sqlstate, seen.statement_position) == ("42601", "1")
    assert seen.message_primary == 'syntax error at or near "selec"'


def test_cancel(server):
    with server.connect() as connection:
        outcome = []

        def wait():
            try:
                connection.execute("select pg_sleep(60)")
            except psycopg.Error as error:
                outcome.append(error.sqlstate)

        thread = threading.Thread(target=wait)
        thread.start()
        while not outcome and thread.is_alive():
            connection.cancel_safe(timeout=10)
            thread.join(0.05)
        assert outcome == ["57014"]
        assert connection.execute("select 1").fetchone() == (1,)


def test_settings_by_connection_options_and_set(server):
    with server.connect(options="-c statement_timeout=12345 -c lock_timeout=2s",
                        application_name="a frog") as connection:
        show = lambda name: connection.execute(f"show {name}").fetchone()[0]  # noqa: E731
        assert (show("statement_timeout"), show("lock_timeout")) == ("12345ms", "2s")
        assert show("application_name") == "a frog"
        assert connection.info.parameter_status("application_name") == "a frog"
        connection.execute("set application_name = 'two frogs'")
        assert connection.info.parameter_status("application_name") == "two frogs"
        connection.execute("begin")
        connection.execute("set local statement_timeout = '1min'")
        assert show("statement_timeout") == "1min"
        connection.execute("set lock_timeout = 5")
        connection.execute("rollback")
        assert (show("statement_timeout"), show("lock_timeout")) == ("12345ms", "2s")
        connection.execute("reset all")
        assert show("statement_timeout") == "12345ms", "RESET goes back to the connection's own"
        connection.execute("set time zone 'Europe/Berlin'")
        assert connection.execute("select '2024-07-01 12:00+00'::timestamptz::text").fetchone() == (
            "2024-07-01 14:00:00+02",)
        with pytest.raises(errors.UndefinedObject):
            connection.execute("set nothing_of_the_kind = 1")
        with pytest.raises(errors.InvalidParameterValue):
            connection.execute("set statement_timeout = 'soon'")
        connection.execute("discard all")


ZONES = ["UTC", "Europe/Berlin", "america/new_york", "Asia/Kolkata", "2", "-3.5", "+02:00", "GMT"]
IN_ZONE = [
    "show timezone", "select '2024-07-01 12:00'::timestamptz", "select '2024-07-01 12:00+00'::timestamptz::text",
    "select '2024-03-31 02:30'::timestamptz", "select '2024-10-27 02:30'::timestamptz",
    "select '1850-01-01'::timestamptz", "select 'infinity'::timestamptz", "select at from t order by id",
    "select at::text || '!' from t where id = 1", "select at::timestamp, at::date from t order by id",
    "select id from t where at = '2024-07-01 12:00'", "select id from t where at::date = '2024-07-01' order by id",
    "select '2024-07-01 12:00'::timestamp::timestamptz", "select '2024-07-01'::date::timestamptz",
    "select date_trunc('day', at) from t order by id", "select max(at) from t",
    "select extract(hour from at)::int, extract(epoch from at)::bigint from t order by id",
    "select array_agg(at order by id) is not null from t",
    "select current_date = now()::date, localtimestamp = now()::timestamp",
    "insert into t values (100, '2000-06-01 00:00') returning at", "update t set s = at where id = 1 returning s",
    "alter table t alter column s type timestamptz using s::timestamptz", "select s from t where id = 1",
]


@pytest.mark.parametrize("zone", ZONES)
def test_time_zones(froglet, postgres, zone):
    """What is read and printed in a zone, as text: literals, columns, parameters, COPY both ways."""
    seen = []
    for server in (froglet, postgres):
        with server.connect() as connection:
            connection.execute("create table t (id int primary key, at timestamptz, s text)")
            connection.execute("insert into t values (1, '2024-07-01 12:00+00'), (2, '2024-01-01 00:30+00')")
            connection.execute(f"set time zone {zone}" if zone.lstrip("-").replace(".", "").isdigit()
                               else f"set timezone = '{zone}'")
            cursor = connection.cursor()
            cursor.execute("insert into t values (3, %t::timestamptz)", ["2024-07-01 12:00"])
            with cursor.copy("copy t (id, at) from stdin") as copy:
                copy.write("4\t2024-07-01 12:00\n5\t2024-07-01 12:00-05\n")
            answers = [text_of(connection, sql) for sql in IN_ZONE]
            with cursor.copy("copy (select id, at from t order by id) to stdout") as copy:
                answers.append(b"".join(bytes(block) for block in copy).decode())
            seen.append(answers)
    assert [pair for pair in zip(IN_ZONE + ["copy"], *seen) if pair[1] != pair[2]] == []


def text_of(connection, sql):
    try:
        result = connection.execute(sql).pgresult
    except psycopg.Error as error:
        return str(error)
    return [[result.get_value(row, column) for column in range(result.nfields)] for row in range(result.ntuples)]


def test_client_encodings(server):
    with server.connect() as connection:
        connection.execute("set client_encoding = 'UTF8'")
        assert connection.execute("select length('🐸')").fetchone() == (1,)
        assert connection.info.encoding == "utf-8"


def test_who_and_where(server):
    """As after initdb: superuser postgres, schema public."""
    with server.connect() as connection:
        assert connection.execute("select current_user, session_user, current_schema()").fetchone() == (
            "postgres", "postgres", "public")
        assert connection.info.server_version // 10000 == 15
        assert connection.info.parameter_status("integer_datetimes") == "on"
        assert connection.info.backend_pid == connection.execute("select pg_backend_pid()").fetchone()[0]
        connection.execute("create table public.t (id int)")
        assert connection.execute("select count(*) from public.t").fetchone() == (0,)


# psql ---------------------------------------------------------------------------------------------

TABLES = """
    create table parent (id serial primary key, name varchar(20) not null unique, made date default '2024-01-01');
    create table child (
        id bigint primary key, parent int references parent on delete cascade, amount numeric(10,2) default 1.5,
        note text, flag boolean not null default false, code char(3), at timestamptz,
        constraint positive check (amount > 0), unique (parent, code));
    create index by_note on child (note, amount desc);
"""


SAME = [
    r"\dt", r"\di", r"\ds", r"\d", r"\d parent", r"\d child", r"\d by_note", r"\d parent_id_seq",
    r"\dt pa*", r"\d nothing", r"\dv", r"\df", r"\encoding", r"\d+ child", r"\dt+ nothing*",
]
ANSWERED = [r"\l", r"\du", r"\dn", r"\dp child", r"\conninfo", r"\dT"]


def test_psql_describes(froglet, postgres):
    """The same tables described in the same words; where names and owners differ, an answer."""
    froglet.psql(TABLES, "-q")
    postgres.psql(TABLES, "-q")

    def described(server, command):
        done = server.psql(command, check=False)
        return re.sub(r"(Access method: )\w+", r"\1…", done.stdout + done.stderr)

    wrong = []
    for command in SAME:
        seen, expected = described(froglet, command), described(postgres, command)
        if seen != expected:
            wrong.append(f"{command}\n{seen}\nPostgreSQL:\n{expected}")
    for command in ANSWERED:
        if "ERROR" in (seen := described(froglet, command)):
            wrong.append(f"{command}\n{seen}")
    assert not wrong, "\n\n".join(wrong)


def test_psql_copy(server, tmp_path):
    """\\copy both ways, and COPY FROM STDIN in a script, as pg_dump writes it."""
    (tmp_path / "in.csv").write_text("1,one\n2,\n3,three\n")
    out = tmp_path / "out.txt"
    server.psql(f"""
        create table t (id int primary key, v text);
        \\copy t from '{tmp_path}/in.csv' with (format csv)
        copy t from stdin;
4\tfour
5\t\\N
\\.
        \\copy (select * from t order by id) to '{out}'
    """)
    assert out.read_text() == "1\tone\n2\t\\N\n3\tthree\n4\tfour\n5\t\\N\n"


def test_psql_options_and_variables(server):
    done = server.psql("show lock_timeout; show application_name;", "-At", options="-c lock_timeout=1234")
    assert done.stdout == "1234ms\npsql\n"
    done = server.psql("select :v + 1; select 7 as x \\gset\nselect :x * 2;\n\\echo :ROW_COUNT", "-At",
                       "-v", "v=41")
    assert done.stdout == "42\n14\n1\n"
    done = server.psql("select 1 as a, null as b, 'x' as c; select 'a' || E'\\n' || 'b';")
    assert "(1 row)" in done.stdout and " a | b | c " in done.stdout


def test_psql_shows_errors_where_they_are(server):
    done = server.psql("select 1,\n  nothing\nfrom (select 1) x;", "-v", "VERBOSITY=verbose", check=False)
    assert done.returncode == 3
    assert "ERROR:  42703: column \"nothing\" does not exist" in done.stderr
    assert "LINE 2:   nothing" in done.stderr


def test_psql_single_transaction_and_autocommit(server):
    done = server.psql("create table t (id int); insert into t values (1); select 1/0;", "-1", check=False)
    assert done.returncode == 3 and "division by zero" in done.stderr
    assert server.psql(r"\dt", check=False).stderr.startswith("Did not find any relations")
    server.psql("\\set AUTOCOMMIT off\ncreate table t (id int);\ninsert into t values (1);\n")
    assert "Did not find" in server.psql(r"\dt", check=False).stderr, "psql went without COMMIT"
    server.psql("\\set AUTOCOMMIT off\ncreate table t (id int);\ncommit;\n")
    assert "t " in server.psql(r"\dt").stdout


def test_psql_fetch_count(server):
    """FETCH_COUNT makes psql use a cursor: DECLARE, FETCH, CLOSE."""
    done = server.psql("\\set FETCH_COUNT 100\nselect n from generate_series(1, 1234) as g (n);", "-At")
    assert done.stdout.split() == [str(n) for n in range(1, 1235)]


@pytest.mark.parametrize("row", [
    "row(1, 2.50::numeric, null::text)", "row(1, row('a'::text, array[true, false]))", "array[row(1, date '2020-01-02')]",
    "row(array[row(1::bigint)])", "array_agg(row(1, 'x'::text))",
])
def test_row_in_binary_format(froglet, postgres, row):
    def read(server):
        with server.connect() as connection:
            return connection.cursor(binary=True).execute(f"select {row}").fetchall()

    assert read(froglet) == read(postgres)


def test_explain_with_parameters(server):
    """Parse finds the parameters, Describe says them, Bind takes them."""
    with server.connect() as connection:
        connection.execute("create table t (id int primary key, v text)")
        connection.execute("insert into t values (1, 'a'), (2, 'b')")
        for explain in ("explain", "explain (costs off)", "explain analyze"):
            assert connection.execute(f"{explain} select $1::int".replace("$1", "%s"), [7]).fetchall()
            for _ in range(2):
                assert connection.execute(f"{explain} select v from t where id = %s", [2], prepare=True).fetchall()
                assert connection.execute(f"{explain} select count(*) from t where v > %s", ["a"], prepare=True).fetchall()
        assert connection.execute("explain insert into t values (%s, %s)", [3, "c"]).fetchall()
        assert connection.execute("explain update t set v = %s where id = %s", ["c", 1]).fetchall()
        assert connection.execute("explain delete from t where id = any (%s)", [[1, 2]]).fetchall()
        assert connection.execute("select count(*) from t").fetchone() == (2,)
        with pytest.raises(errors.UndefinedParameter):
            connection.execute("explain select $1::int", prepare=False)
        with pytest.raises(errors.InvalidTextRepresentation):
            connection.execute("explain select v from t where id = %s", ["x"])
        described = connection.pgconn.prepare(b"e", b"explain select v from t where id = $1 and v = $2")
        assert not described.error_message
        described = connection.pgconn.describe_prepared(b"e")
        assert [described.param_type(n) for n in range(described.nparams)] == [23, 25]
        assert described.fname(0) == b"QUERY PLAN"


def test_explain(server):
    with server.connect() as connection:
        connection.execute("create table t (id int primary key, v int)")
        assert connection.execute("explain select * from t where id = 1").fetchall()
        text = "\n".join(row[0] for row in connection.execute("explain analyze select count(*) from t"))
        assert "rows=" in text
        connection.execute("explain insert into t values (1, 1)")
        assert connection.execute("select count(*) from t").fetchone() == (0,), "EXPLAIN runs nothing"
        connection.execute("explain update t set v = 1 where id = 1")
