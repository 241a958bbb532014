"""COPY to and from files of the server: Parquet, Arrow, CSV, text and binary.

pyarrow reads what we write and writes what we read; PostgreSQL 15 reads and writes its own formats.
"""

import datetime as dt
import os
import random
import resource
import shutil
import socket
import struct
import tempfile
import threading
import uuid
from decimal import Decimal
from pathlib import Path

import psycopg
import pyarrow as pa
import pyarrow.compute
import pyarrow.feather
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest

from support.processes import wait_until
from test_clients import VALUES, as_read

UTC = dt.timezone.utc
COLUMNAR = ["parquet", "arrow"]
FORMATS = ["parquet", "arrow", "csv", "text", "binary"]

ALL_TYPES = """create table t (
    id bigint primary key, b boolean, s smallint, i int, r real, d double precision, n numeric(12, 2),
    u numeric, t text, v varchar(10), c char(5), y bytea, a date, p timestamp, z timestamptz, g uuid)"""


@pytest.fixture
def directory():
    """A directory that PostgreSQL, which is another user, can use too."""
    path = Path(tempfile.mkdtemp(prefix="froglet-copy-"))
    path.chmod(0o777)
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def copier(start, directory):
    """A server that may use it."""
    server = start(arguments=["--copy-directory", directory])
    yield server
    if server.process is not None:
        assert server.alive(), f"the server died: {server.process.returncode}"
        server.stop()


def all_rows(rows):
    """Statements that fill a table of all types, extremes and NULLs included."""
    return f"""insert into t select g, g % 2 = 0, (g % 60000) - 30000, g * 7, g / 8.0, g / 3.0::float8, g / 100.0,
            g / 7.0, 'text 🐸 ' || g, 'v' || (g % 100), 'c' || (g % 10), decode(md5(g::text), 'hex'),
            '2000-01-01'::date + g, (('1960-01-01'::date + g)::text || ' 01:02:03.' || lpad(g::text, 6, '0'))::timestamp,
            (('2000-01-01'::date + g)::text || ' 12:34:56.5+00')::timestamptz, md5(g::text)::uuid
        from (select x::int as g from generate_series(1, {rows}) x) n;
        insert into t (id) values (0);
        insert into t values (-1, false, -32768, -2147483648, 'NaN', '-infinity', -9999999999.99,
            '-1234567890123456789012345678.0123456789', '', '', '', '', '-infinity', 'infinity', 'infinity',
            '00000000-0000-0000-0000-000000000000');
        insert into t values (-2, true, 32767, 2147483647, 'infinity', 'NaN', 9999999999.99, 0,
            E'tab\\tline\\nquote"\\\\', 'äöüß!äöüß!', '  x', '\\x00ff', 'infinity', '-infinity', '-infinity',
            'ffffffff-ffff-ffff-ffff-ffffffffffff');
        insert into t values (-3, true, 1, 1, -0.0, 1e300, 1, 1, 'NULL', '\\N', ',', '\\x5c', '0044-03-15 BC',
            '0001-01-01 00:00:00', '9999-12-31 23:59:59.999999+00', gen_random_uuid())"""


def fill(server, rows):
    server.run(ALL_TYPES)
    with server.connect() as connection:
        for statement in all_rows(rows).split(";\n"):
            connection.execute(statement)


def same(server, one="t", other="u"):
    """Whether two tables have the same rows, as text: -0 and 0 are told apart, NaN is itself."""
    texts = [
        server.rows(f"select md5(string_agg(x, '|' order by k)), count(*) from "
                    f"(select id as k, concat_ws('~', {COLUMN_TEXTS}) as x from {name}) q")
        for name in (one, other)]
    return texts[0] == texts[1]


COLUMN_TEXTS = ", ".join(
    f"coalesce({c}::text, 'NULL')" for c in "id b s i r d n u t v c y a p z g".split())


def read(path):
    """A file by its extension, validated, in one table."""
    if path.suffix == ".parquet":
        table = pq.read_table(path)
    else:
        with pa.OSFile(str(path)) as source:
            table = pa.ipc.open_file(source).read_all()
    table.validate(full=True)
    return table


def write(path, table, **options):
    if path.suffix == ".parquet":
        pq.write_table(table, path, **options)
    else:
        with pa.OSFile(str(path), "wb") as sink:
            with pa.ipc.new_file(sink, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
                writer.write_table(table, max_chunksize=1000)


def failing(connection, sql):
    with pytest.raises(psycopg.Error) as caught:
        connection.execute(sql)
    diag = caught.value.diag
    return diag.sqlstate, diag.message_primary, diag.context


def vanish(connection):
    """The client is gone, without a word."""
    with socket.socket(fileno=os.dup(connection.pgconn.socket)) as s:
        s.shutdown(socket.SHUT_RDWR)


SCHEMA = pa.schema([
    ("id", pa.int64()), ("b", pa.bool_()), ("s", pa.int16()), ("i", pa.int32()), ("r", pa.float32()),
    ("d", pa.float64()), ("n", pa.decimal128(12, 2)), ("u", pa.string()), ("t", pa.string()),
    ("v", pa.string()), ("c", pa.string()), ("y", pa.binary()), ("a", pa.date32()), ("p", pa.timestamp("us")),
    ("z", pa.timestamp("us", "UTC")), ("g", pa.uuid()),
])


@pytest.mark.parametrize("name, options", [
    ("t.parquet", ""), ("t.parquet", "(compression snappy)"), ("t.parquet", "(compression none, row_group_size 1000)"),
    ("t.arrow", ""), ("t.feather", "(compression lz4)"), ("t.ipc", "(format arrow, compression zstd)"),
])
def test_pyarrow_reads_our_files(copier, directory, name, options):
    """Types, values, validity; and the table that is made of the file again is the same."""
    fill(copier, 5000)
    copier.run(f"copy t to '{name}' {options}")
    table = read(directory / name)
    assert table.schema.remove_metadata() == SCHEMA
    assert table.num_rows == 5004
    assert table.column("id").null_count == 0 and table.column("g").null_count == 1
    # Where Python has all the values: no infinite dates, no year 44 BC.
    ours = copier.rows("select * from t where id >= 0 order by id")
    theirs = table.filter(pa.compute.field("id") >= 0).sort_by("id").to_pylist()
    for row in theirs:  # A numeric of no scale is written with all of its digits.
        row["u"] = row["u"] and Decimal(row["u"])
    assert [tuple(row.values()) for row in theirs] == ours
    if "row_group_size" in options:
        assert pq.ParquetFile(directory / name).num_row_groups == 6
    if name == "t.parquet":
        assert str(pq.ParquetFile(directory / name).schema.column(15).logical_type) == "UUID"
    copier.run(ALL_TYPES.replace("table t", "table u"), f"copy u from '{name}'")
    assert same(copier)


@pytest.mark.parametrize("format", FORMATS)
def test_a_table_comes_back(copier, directory, format):
    """Every type, extremes and NULLs, through every format; in another time zone, too."""
    fill(copier, 20_000)
    with copier.connect() as connection:
        connection.execute("set timezone = 'America/New_York'")
        assert connection.execute(f"copy t to 'file' (format {format})").rowcount == 20_004
        connection.execute(ALL_TYPES.replace("table t", "table u"))
        assert connection.execute(f"copy u from 'file' (format {format})").rowcount == 20_004
    assert same(copier)
    assert os.listdir(directory) == ["file"]


def test_a_million_rows(copier, directory):
    copier.run("create table t (id bigint primary key, n numeric(6,2), at timestamp, s char(24))",
               "insert into t select g, (g % 10000) / 100.0, ('2024-01-01'::date + (g % 1000)::int)::timestamp, "
               "left(md5(g::text), 24) from generate_series(1, 1000000) g")
    for format in COLUMNAR:
        copier.run(f"copy t to 'million.{format}'")
        assert read(directory / f"million.{format}").num_rows == 1_000_000
        copier.run("create table u (id bigint primary key, n numeric(6,2), at timestamp, s char(24))",
                   f"copy u from 'million.{format}'")
        query = "select count(*), sum(id), sum(n), max(at), min(s), max(s) from {}"
        assert copier.rows(query.format("t")) == copier.rows(query.format("u"))
        copier.run("drop table u")


@pytest.mark.parametrize("sql_type", VALUES)
def test_each_type(copier, directory, sql_type):
    """What a driver put in comes out of both columnar formats in pyarrow, and back."""
    values = [*VALUES[sql_type], None]
    with copier.connect() as connection:
        connection.execute(f"create table t (id int primary key, v {sql_type})")
        for pair in enumerate(values):
            connection.execute("insert into t values (%b, %b)", pair)
        for format in COLUMNAR:
            connection.execute(f"copy (select * from t order by id) to 'f.{format}'")
            found = read(directory / f"f.{format}").column("v").to_pylist()
            # Others are of an Arrow type that Python has no values of.
            if sql_type not in ("interval", "interval[]", "jsonb", "uuid[]"):
                assert found == values
            connection.execute(f"create table u (id int primary key, v {sql_type})")
            connection.execute(f"copy u from 'f.{format}'")
            assert [v for [v] in connection.execute("select v from u order by id")] == as_read(values)
            connection.execute("drop table u")


def test_results_of_queries(copier, directory):
    """Types that only results have."""
    query = """select 1 as one, interval '1 day 2 hours' as i, array[1, 2, null] as l,
        array['a', null] as t, null as n, time '12:34:56.789' as c, count(*) as k, 't'::regclass::text as r from t"""
    copier.run("create table t (a int)", f"copy ({query}) to 'q.parquet'", f"copy ({query}) to 'q.arrow'")
    [row] = read(directory / "q.parquet").to_pylist()
    assert row == {"one": 1, "i": "1 day 02:00:00", "l": [1, 2, None], "t": ["a", None], "n": None,
                   "c": dt.time(12, 34, 56, 789000), "k": 0, "r": "t"}
    [row] = read(directory / "q.arrow").to_pylist()
    assert row["i"] == pa.MonthDayNano([0, 1, 7_200_000_000_000])
    assert read(directory / "q.arrow").schema.field("l").type == pa.list_(pa.field("item", pa.int32()))
    with copier.connect() as connection:
        assert failing(connection, "copy (select 1 as a, 2 as a) to 'q.arrow'")[0] == "42701"
        assert failing(connection, "copy (select 1/0 as a) to 'q.csv'")[0] == "22012"
    # An empty result has its columns.
    copier.run("copy (select * from t where false) to 'e.parquet'", "copy t to 'e.arrow'")
    for name in ("e.parquet", "e.arrow"):
        table = read(directory / name)
        assert table.num_rows == 0 and table.schema.field("a").type == pa.int32()
        copier.run(f"copy t from '{name}'")


MOMENT = dt.datetime(2024, 2, 29, 12, 34, 56, 789000)
BEFORE = dt.datetime(1969, 12, 31, 23, 59, 59, 999000)

# A column's type here, the array in the file, and what comes out.
FOREIGN = [
    ("text", pa.array(["a", None, "ü" * 50, "a"]).dictionary_encode(), ["a", None, "ü" * 50, "a"]),
    ("text", pa.array(["a", None, ""], pa.large_string()), ["a", None, ""]),
    ("text", pa.array(["a", None, "long enough not to be inline"], pa.string_view()),
     ["a", None, "long enough not to be inline"]),
    ("varchar(3)", pa.array(["a", None, "äöü"]).dictionary_encode(), ["a", None, "äöü"]),
    ("char(3)", pa.array(["a", None]), ["a  ", None]),
    ("bigint", pa.array([1, None, -5], pa.int32()), [1, None, -5]),
    ("bigint", pa.array([1, None], pa.int8()), [1, None]),
    ("bigint", pa.array([1, 2**32 - 1], pa.uint32()), [1, 2**32 - 1]),
    ("bigint", pa.array([1, 2**63 - 1], pa.uint64()), [1, 2**63 - 1]),
    ("int", pa.array([1, None, 2**31 - 1], pa.int64()), [1, None, 2**31 - 1]),
    ("int", pa.array([1, None], pa.uint16()), [1, None]),
    ("int", pa.array([1.4, -2.6], pa.float64()), [1, -3]),
    ("smallint", pa.array([7, 255], pa.uint8()), [7, 255]),
    ("double precision", pa.array([1, None], pa.int64()), [1.0, None]),
    ("double precision", pa.array([1.5, None], pa.float16()), [1.5, None]),
    ("real", pa.array([0.1, None], pa.float64()), [0.1, None]),
    ("numeric(10,2)", pa.array([Decimal("1.234"), None], pa.decimal128(20, 3)), [Decimal("1.23"), None]),
    ("numeric(10,2)", pa.array([Decimal("-1.235"), None], pa.decimal256(50, 3)), [Decimal("-1.24"), None]),
    ("numeric(10,2)", pa.array([5, None], pa.int64()), [Decimal("5.00"), None]),
    ("numeric", pa.array([Decimal("1.5"), None], pa.decimal128(5, 1)), [Decimal("1.5"), None]),
    ("bytea", pa.array([b"\0\xff", None], pa.large_binary()), [b"\0\xff", None]),
    ("bytea", pa.array([b"0123456789abcdef", None], pa.binary(16)), [b"0123456789abcdef", None]),
    ("bytea", pa.array([b"123", None], pa.binary(3)), [b"123", None]),
    ("uuid", pa.array([uuid.UUID(int=5).bytes, None], pa.binary(16)), [uuid.UUID(int=5), None]),
    ("uuid", pa.array([uuid.UUID(int=5).bytes, None], pa.uuid()), [uuid.UUID(int=5), None]),
    ("date", pa.array([dt.date(2024, 2, 29), None], pa.date64()), [dt.date(2024, 2, 29), None]),
    ("date", pa.array([MOMENT, None], pa.timestamp("us")), [MOMENT.date(), None]),
    ("timestamp", pa.array([MOMENT, BEFORE, None], pa.timestamp("ns")), [MOMENT, BEFORE, None]),
    ("timestamp", pa.array([MOMENT, BEFORE, None], pa.timestamp("ms")), [MOMENT, BEFORE, None]),
    ("timestamp", pa.array([MOMENT.replace(microsecond=0), None], pa.timestamp("s")),
     [MOMENT.replace(microsecond=0), None]),
    ("timestamptz", pa.array([MOMENT, None], pa.timestamp("us", "UTC")), [MOMENT.replace(tzinfo=UTC), None]),
    ("timestamptz", pa.array([MOMENT, None], pa.timestamp("ns", "Europe/Berlin")),
     [MOMENT.replace(tzinfo=UTC), None]),
    # Without a zone it is a time of the session's.
    ("timestamptz", pa.array([MOMENT, None], pa.timestamp("ms")), [MOMENT.replace(tzinfo=UTC), None]),
    ("timestamp", pa.array([MOMENT, None], pa.timestamp("us", "America/New_York")), [MOMENT, None]),
    ("boolean", pa.array([True, None, False]), [True, None, False]),
    ("int", pa.nulls(3), [None, None, None]),
    ("text", pa.array([1, None], pa.int32()), ["1", None]),
    ("text", pa.array([dt.time(1, 2, 3), None], pa.time64("us")), ["01:02:03", None]),
]


@pytest.mark.parametrize("format", COLUMNAR)
def test_files_of_others(copier, directory, format):
    """What other writers write goes into our types as by an assignment."""
    for at, (sql_type, array, expected) in enumerate(FOREIGN):
        name = f"f{at}.{format}"
        table = pa.table({"id": pa.array(range(len(array)), pa.int64()), "v": array})
        write(directory / name, table)
        copier.run(f"create table t{at} (id int primary key, v {sql_type})")
        with copier.connect() as connection:
            assert connection.execute(f"copy t{at} from '{name}'").rowcount == len(expected), (sql_type, array.type)
            found = [v for [v] in connection.execute(f"select v from t{at} order by id")]
            if sql_type == "real":
                assert found[0] == pytest.approx(expected[0], rel=1e-6)
            else:
                assert found == expected, (sql_type, array.type)


@pytest.mark.parametrize("given", [pa.large_binary(), pa.list_(pa.large_binary()), pa.large_list(pa.large_binary())], ids=str)
def test_bytes_are_no_numbers(copier, directory, given):
    """Whatever a numeric is made of inside, nobody's bytes pass for it."""
    value = b"@" if given == pa.large_binary() else [b"@"]
    write(directory / "bytes.arrow", pa.table({"v": pa.array([value], given)}))
    copier.run("create table t (v numeric)", "create table ts (v numeric[])")
    with copier.connect() as connection:
        for table in ("t", "ts"):
            assert failing(connection, f"copy {table} from 'bytes.arrow'")[0] in {"42804", "22P02"}
    assert copier.value("select count(*) from t") == 0


@pytest.mark.parametrize("name, options", [
    *((f"f.{i}.parquet", {"compression": c}) for i, c in enumerate(["none", "snappy", "zstd", "lz4"])),
    ("v2.parquet", {"data_page_version": "2.0", "compression": "zstd"}),
    ("plain.parquet", {"use_dictionary": False}),
    ("delta.parquet", {"use_dictionary": False, "column_encoding": {
        "id": "DELTA_BINARY_PACKED", "v": "DELTA_BYTE_ARRAY", "w": "BYTE_STREAM_SPLIT"}}),
    ("groups.parquet", {"row_group_size": 100, "data_page_size": 200}),
    ("none.arrow", {}), ("lz4.arrow", {"compression": "lz4"}), ("zstd.arrow", {"compression": "zstd"}),
])
def test_files_of_every_kind(copier, directory, name, options):
    rows = 5000
    table = pa.table({
        "id": pa.array(range(rows), pa.int64()),
        "v": [None if i % 7 == 0 else f"value {i % 50}" for i in range(rows)],
        "w": [i / 7 for i in range(rows)],
    })
    write(directory / name, table, **options)
    copier.run("create table t (id int primary key, v text, w double precision)", f"copy t from '{name}'")
    assert copier.rows("select * from t order by id") == list(zip(*table.to_pydict().values()))


@pytest.mark.parametrize("codec", ["gzip", "brotli"])
def test_codecs_that_are_not_built_in(copier, directory, codec):
    write(directory / "f.parquet", pa.table({"id": [1, 2]}), compression=codec)
    copier.run("create table t (id int)")
    with copier.connect() as connection:
        state, message, _ = failing(connection, "copy t from 'f.parquet'")
        assert state == "0A000" and codec in message.lower(), message


def test_columns_are_matched_by_name(copier, directory):
    copier.run("create table t (id int primary key, a int default 7, b text, c int generated always as (a * 2) stored)")
    cases = [
        # Columns of the file, of the statement; the row, or the error.
        ({"b": ["x"], "id": [1]}, "", (1, 7, "x", 14)),
        ({"a": [3], "id": [2]}, "", (2, 3, None, 6)),
        ({"b": ["x"], "id": [3]}, "(id, b)", (3, 7, "x", 14)),
        ({"id": [4], "z": [1], "Y": [2]}, "", "42703"),
        ({"id": [4], "b": ["x"]}, "(id)", "42703"),
        ({"id": [4]}, "(id, b)", "22P04"),
        ({"id": [4], "c": [1]}, "", "42703"),
        ({"ID": [4]}, "", "42703"),
        ({"id": [4]}, "(nope)", "42703"),
        ({"id": [4]}, "(id, id)", "42701"),
    ]
    for format in COLUMNAR:
        copier.run("truncate t")
        for columns, listed, expected in cases:
            write(directory / f"f.{format}", pa.table(columns))
            with copier.connect() as connection:
                if isinstance(expected, str):
                    state, message, _ = failing(connection, f"copy t {listed} from 'f.{format}'")
                    assert state == expected, message
                    if "z" in columns:
                        assert '"z", "Y"' in message
                else:
                    connection.execute(f"copy t {listed} from 'f.{format}'")
                    assert copier.rows(f"select * from t where id = {expected[0]}") == [expected]
        assert copier.value("select count(*) from t") == 3
    twice = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["id", "id"])
    write(directory / "f.arrow", twice)
    with copier.connect() as connection:
        assert failing(connection, "copy t from 'f.arrow'")[0] == "42701"


@pytest.mark.parametrize("format", COLUMNAR)
def test_values_that_do_not_fit(copier, directory, format):
    """An error that says where, and nothing is inserted."""
    copier.run("create table p (id int primary key)", "insert into p values (1)",
               "create table t (id int primary key, n int check (n < 100), v varchar(3) not null default 'd', "
               "r int references p, m numeric(4,2), g uuid, at timestamp)")
    ids = list(range(1, 2501))
    good = {"id": ids, "n": [1] * 2500}
    at = 1733  # Rows are counted from 1.

    def with_wrong(column, array_type, usual, wrong):
        values = [usual] * 2500
        values[at - 1] = wrong
        return {"id": ids, column: pa.array(values, array_type)}

    place = f'COPY t, file "f.{format}", row {at}'
    cases = [
        ({"id": pa.array([2**40 if i == at else i for i in ids], pa.int64())}, "22003", f"{place}, column id"),
        (with_wrong("n", pa.int32(), 1, 100), "23514", place),
        (with_wrong("v", pa.string(), "abc", None), "23502", place),
        (with_wrong("v", pa.string(), "abc", "abcd"), "22001", f"{place}, column v"),
        (with_wrong("v", pa.string(), "abc", "a\0"), "22021", f"{place}, column v"),
        (with_wrong("r", pa.int64(), 1, 2), "23503", None),
        (with_wrong("m", pa.float64(), 1.0, 100.0), "22003", f"{place}, column m"),
        (with_wrong("at", pa.timestamp("s"), 0, 2**60), "22008", f"{place}, column at"),
        ({"id": [at if i == at + 1 else i for i in ids]}, "23505", f'COPY t, file "f.{format}", row {at + 1}'),
        ({"id": ids, "g": ["x"] * 2500}, "42804", None),
        ({"id": ids, "n": [True] * 2500}, "42804", None),
        ({"id": ids, "n": [[1]] * 2500}, "42804", None),
        ({"id": ids, "v": [{"a": 1}] * 2500}, "0A000", None),
        ({"id": ids, "v": pa.array([[("k", 1)]] * 2500, pa.map_(pa.string(), pa.int32()))}, "0A000", None),
    ]
    with copier.connect() as connection:
        for columns, state, context in cases:
            if format == "parquet" and any(
                    isinstance(v, pa.Array) and v.type == pa.timestamp("s") for v in columns.values()):
                continue  # pyarrow refuses to write it: Parquet has no seconds.
            write(directory / f"f.{format}", pa.table(columns))
            found = failing(connection, f"copy t from 'f.{format}'")
            assert found[0] == state, found
            if context:
                assert context in (found[2] or ""), found
            assert copier.value("select count(*) from t") == 0
        # In a transaction block it is a statement like others.
        write(directory / f"f.{format}", pa.table({"id": [1, 1]}))
        connection.execute("begin")
        connection.execute("insert into t (id) values (7777)")
        connection.execute("savepoint s")
        assert failing(connection, f"copy t from 'f.{format}'")[0] == "23505"
        assert failing(connection, "select 1")[0] == "25P02"
        connection.execute("rollback to s")
        write(directory / f"f.{format}", pa.table(good))
        connection.execute(f"copy t from 'f.{format}'")
        connection.execute("rollback")
        assert copier.value("select count(*) from t") == 0


@pytest.mark.parametrize("options, quoting", [
    ("format text", ""), ("format csv", ""), ("format csv, header", ""), ("format binary", ""),
    ("format csv, delimiter ';', null 'NIX'", ", force_quote *"), ("delimiter '-', null 'qq'", "")])
def test_files_of_postgresql(copier, postgres, directory, options, quoting):
    """The same bytes, and each reads the other's."""
    fill(copier, 2000)
    postgres.run(ALL_TYPES)
    copier.run(f"copy (select * from t order by id) to 'ours' ({options}{quoting})")
    postgres.run(f"copy t from '{directory}/ours' ({options})",
                 f"copy (select * from t order by id) to '{directory}/theirs' ({options}{quoting})")
    assert (directory / "theirs").read_bytes() == (directory / "ours").read_bytes()
    copier.run(ALL_TYPES.replace("table t", "table u"), f"copy u from 'theirs' ({options})")
    assert same(copier)


def test_header_match(copier, postgres, directory):
    files = ["id,v\n1,2\n", "id,w\n1,2\n", "id\n1\n", "id,v,x\n1,2,3\n", ",v\n1,2\n", "v,id\n1,2\n", ""]
    seen = []
    for server, prefix in ((copier, ""), (postgres, f"{directory}/")):
        server.run("create table t (id int, v int)")
        answers = []
        with server.connect() as connection:
            for text in files:
                (directory / "h.csv").write_text(text)
                (directory / "h.csv").chmod(0o644)
                try:
                    answers.append(connection.execute(f"copy t from '{prefix}h.csv' (format csv, header match)").rowcount)
                except psycopg.Error as e:
                    answers.append((e.diag.sqlstate, e.diag.message_primary, e.diag.context))
            answers.append(failing(connection, f"copy t to '{prefix}h.csv' (format csv, header match)")[:2])
        seen.append(answers)
    assert seen[0] == seen[1]


@pytest.mark.parametrize("sql, state", [
    ("copy t to 'f.parquet' (delimiter ',')", "42601"),
    ("copy t to 'f.parquet' (wings 2)", "42601"),
    ("copy t to 'f.csv' (compression zstd)", "42601"),
    ("copy t to 'f.arrow' (row_group_size 5)", "42601"),
    ("copy t to 'f.parquet' (row_group_size 0)", "22023"),
    ("copy t to 'f.parquet' (compression brotli)", "22023"),
    ("copy t to 'f' (format xml)", "22023"),
    ("copy t to 'f' (format csv, format csv)", "42601"),
    ("copy t to stdout (format parquet)", "0A000"),
    ("copy t from stdin (format arrow)", "0A000"),
    ("copy t to program 'cat'", "0A000"),
    ("copy t from 'f' where id > 1", "42601"),
])
def test_options(copier, directory, sql, state):
    copier.run("create table t (id int)")
    with copier.connect() as connection:
        with pytest.raises(psycopg.Error) as caught:
            connection.execute(sql)
        assert caught.value.diag.sqlstate == state, caught.value
        if "wings" in sql:
            assert "FORMAT, FREEZE, COMPRESSION, ROW_GROUP_SIZE" in caught.value.diag.message_hint
    assert os.listdir(directory) == []


def test_names_stay_inside(copier, directory):
    """No name leads out of the directory, whichever way it goes; nothing waits for a pipe."""
    outside = Path(tempfile.mkdtemp(prefix="froglet-outside-"))
    (outside / "secret").write_text("1\n")
    (directory / "sub").mkdir()
    (directory / "way").symlink_to(outside)
    (directory / "link").symlink_to(outside / "secret")
    (directory / "inner").symlink_to(directory / "sub")
    (directory / "dangling").symlink_to(outside / "new")
    os.mkfifo(directory / "pipe")
    copier.run("create table t (id int)")
    both = [
        ("../x", "42501"), ("sub/../../x", "42501"), ("sub/../x", "42501"), (f"{outside}/secret", "42501"),
        ("/etc/passwd", "42501"), (f"{directory}/../x", "42501"), (f"{directory}x/y", "42501"), ("way/secret", "42501"),
        ("link", "42501"), ("inner/x", "42501"), ("dangling", "42501"), ("pipe", "42809"), ("sub", "42809"),
        (".", "42809"), ("", "42809"), ("sub/", "42809"), ("nowhere/x", "58P01"), ("n" * 300, "42622"),
    ]
    with copier.connect() as connection:
        for name, state in both:
            for direction in ("from", "to"):
                found = failing(connection, f"copy t {direction} '{name}'")
                assert found[0] == state, (name, direction, found)
        assert failing(connection, "copy t from 'missing.csv'")[0] == "58P01"
        for name in ("sub/fine", f"{directory}/sub/fine", "./sub//fine"):
            connection.execute(f"copy (select 5) to '{name}'")
            connection.execute(f"copy t from '{name}'")
    assert os.listdir(outside) == ["secret"] and (outside / "secret").read_text() == "1\n"
    assert os.listdir(directory / "sub") == ["fine"]
    assert copier.rows("select * from t") == [(5,)] * 3
    shutil.rmtree(outside)


def test_without_a_directory(froglet):
    froglet.run("create table t (id int)")
    with froglet.connect() as connection:
        for sql in ("copy t to '/tmp/x'", "copy t from 'x'"):
            with pytest.raises(psycopg.errors.FeatureNotSupported) as caught:
                connection.execute(sql)
            hint = caught.value.diag.message_hint
            assert "copy_directory" in hint and "\\copy" in hint and "STDIN" in hint


def test_a_directory_that_cannot_be(start, directory):
    """Said at the start: one that is not there, and one through which tables could be written."""
    (directory / "file").write_text("")
    data = directory / "data"
    (data / "within").mkdir(parents=True)
    for path, words in [
        (directory / "missing", "No such file"), (directory / "file", "Not a directory"),
        (directory, "data directory"), (data, "data directory"), (data / "within", "data directory"),
    ]:
        text = start(data, ready=False, arguments=["--copy-directory", path]).refusal()
        assert "copy_directory" in text and words in text, text


def test_configuration(start, directory):
    """A file and the environment say it, too."""
    server = start(environment={"FROGLET_COPY_DIRECTORY": str(directory)})
    server.run("copy (select 1) to 'a'")
    config = directory / "froglet.toml"
    config.write_text(f'copy_directory = "{directory}"\n')
    server = start(arguments=["--config", config])
    server.run("copy (select 1) to 'b'")
    assert sorted(os.listdir(directory)) == ["a", "b", "froglet.toml"]


LONG_QUERY = "select a.g, md5((a.g * b.g)::text) as m from n a, n b where a.g <> b.g"


def with_numbers(server, rows=3000):
    server.run("create table n (g bigint)", f"insert into n select * from generate_series(1, {rows})")


@pytest.mark.parametrize("format", FORMATS)
def test_a_full_disk(copier, directory, format):
    """The process may not write larger files: the same to a COPY as a disk that is full."""
    with_numbers(copier)
    (directory / "f").write_text("old")
    resource.prlimit(copier.process.pid, resource.RLIMIT_FSIZE, (1 << 20, 1 << 40))
    with copier.connect() as connection:
        found = failing(connection, f"copy ({LONG_QUERY}) to 'f' (format {format})")
        assert found[0] == "53100" and '"f"' in found[1], found
        assert os.listdir(directory) == ["f"] and (directory / "f").read_text() == "old"
        connection.execute("copy (select 1 as a) to 'small'")
    resource.prlimit(copier.process.pid, resource.RLIMIT_FSIZE, (1 << 40, 1 << 40))


@pytest.mark.parametrize("format", FORMATS)
def test_what_ends_a_copy_removes_its_file(copier, directory, format):
    """A timeout, a cancel request, an error in the middle, a client that is gone."""
    with_numbers(copier)
    sql = f"copy ({LONG_QUERY}) to 'f' (format {format})"
    unfinished = lambda: os.listdir(directory)
    with copier.connect() as connection, copier.connect() as other:
        connection.execute("set statement_timeout = '300ms'")
        assert failing(connection, sql)[0] == "57014"
        assert unfinished() == []
        connection.execute("set statement_timeout = 0")
        bad = f"copy (select g, 1 / (g - 2900) as x from n order by g) to 'f' (format {format})"
        assert failing(connection, bad)[0] == "22012"
        assert unfinished() == []

        def cancel():
            wait_until(unfinished, "the file is begun")
            assert other.execute("select pg_cancel_backend(%s)", [connection.info.backend_pid]).fetchone() == (True,)

        thread = threading.Thread(target=cancel)
        thread.start()
        assert failing(connection, sql)[0] == "57014"
        thread.join()
        assert unfinished() == []
        # A client that is killed.
        gone = copier.connect()
        gone.pgconn.send_query(sql.encode())
        wait_until(unfinished, "the file is begun")
        vanish(gone)
        wait_until(lambda: unfinished() == [], "the file is removed")


def test_what_ends_a_copy_from_a_file(copier, directory):
    with_numbers(copier)
    copier.run("create table t (g bigint, m text)",
               f"copy ({LONG_QUERY} limit 1000000) to 'f.parquet'", f"copy ({LONG_QUERY} limit 1000000) to 'f.csv'")
    for name in ("f.parquet", "f.csv"):
        with copier.connect() as connection, copier.connect() as other:
            connection.execute("set statement_timeout = '200ms'")
            assert failing(connection, f"copy t from '{name}'")[0] == "57014"
            connection.execute("set statement_timeout = 0")
            gone = copier.connect()
            gone.pgconn.send_query(f"copy t from '{name}'".encode())
            wait_until(lambda: other.execute("select tuples_processed > 0 from pg_stat_progress_copy").fetchone() == (True,),
                       "rows come")
            vanish(gone)
            wait_until(lambda: other.execute("select count(*) from pg_stat_progress_copy").fetchone() == (0,),
                       "the copy ends")
    assert copier.value("select count(*) from t") == 0


@pytest.mark.parametrize("name, error", [
    ("cut.parquet", "22P04"), ("cut.arrow", "22P04"), ("empty.parquet", "22P04"), ("empty.arrow", "22P04"),
    ("noise.parquet", "22P04"), ("noise.arrow", "22P04"), ("stream.arrow", "22P04"), ("wrong.arrow", "22P04"),
    ("wrong.csv", "22P02"), ("short.csv", "22P04"), ("page.parquet", "22P04"),
])
def test_malformed_files(copier, directory, name, error):
    table = pa.table({"id": range(100_000), "v": [f"value {i}" for i in range(100_000)]})
    path = directory / name
    good = directory / f"good{path.suffix}"
    kind, suffix = name.split(".")
    if suffix != "csv":
        write(good, table)
    if kind == "cut":
        path.write_bytes(good.read_bytes()[:-100])
    elif kind == "empty":
        path.write_bytes(b"")
    elif kind == "noise":
        path.write_bytes(random.Random(1).randbytes(100_000))
    elif kind == "page":
        data = bytearray(good.read_bytes())
        data[1000:60_000] = bytes(59_000)
        path.write_bytes(data)
    elif name == "stream.arrow":
        with pa.ipc.new_stream(path, table.schema) as writer:
            writer.write_table(table)
    elif name == "wrong.arrow":
        write(directory / "x.parquet", table)
        path.write_bytes((directory / "x.parquet").read_bytes())
    elif name == "wrong.csv":
        path.write_text("1,a\n2,b\nthree,c\n")
    elif name == "short.csv":
        path.write_text("1,a\n2\n")
    copier.run("create table t (id int primary key, v text)")
    with copier.connect() as connection:
        state, message, context = failing(connection, f"copy t from '{name}'")
        assert state == error, message
        assert name in message or "line " in context, (message, context)
        if kind == "page":
            assert "row group 0" in message, message
    assert copier.value("select count(*) from t") == 0


def test_an_arrow_buffer_that_becomes_more_than_it_says(copier, directory):
    """An LZ4 frame of 5 MB that stands for 1.2 GB, in a buffer that says eight bytes: refused before it is unpacked."""
    path = directory / "f.arrow"
    write(path, pa.table({"id": pa.array([1 << 40] * 500, pa.int64())}), compression="lz4")
    data = path.read_bytes()
    block = b"\x1f\0\x01\0" + b"\xff" * 16_448 + b"\0\x50" + bytes(5)  # 4 MB of zeros
    frame = b"\x04\x22\x4d\x18\x60\x70\x73" + (struct.pack("<I", len(block)) + block) * 300 + bytes(4)
    buffer = struct.pack("<q", 8) + frame
    # A batch of one column whose buffer of values is that one: the old one's offset and length are made the new one's.
    reader = pa.ipc.open_file(path)
    assert reader.num_record_batches == 1
    old = data.index(b"\x04\x22\x4d\x18") - 8
    start = data.rindex(b"\xff\xff\xff\xff", 0, old)
    meta = 8 + struct.unpack("<I", data[start + 4:start + 8])[0]
    body = len(data[start + meta:data.index(b"\xff\xff\xff\xff\0\0\0\0", start + meta)])
    new_body = len(buffer) + -len(buffer) % 64
    head, tail = bytearray(data[start:start + meta]), bytearray(data[start + meta + body:])
    old_length = max(n for n in range(1, body + 1) if head.find(struct.pack("<qq", 0, n)) > 0)
    at = head.find(struct.pack("<qq", 0, old_length))
    head[at + 8:at + 16] = struct.pack("<q", len(buffer))
    for part in (head, tail):
        at = part.rfind(struct.pack("<q", body))
        part[at:at + 8] = struct.pack("<q", new_body)
    path.write_bytes(data[:start] + head + buffer + bytes(new_body - len(buffer)) + tail)
    copier.run("create table t (id bigint)")
    with copier.connect() as connection:
        state, message, _ = failing(connection, "copy t from 'f.arrow'")
    assert state == "54000" and "record batch 0" in message, (state, message)
    assert copier.resident_bytes() < 1 << 29


@pytest.mark.parametrize("format", COLUMNAR)
def test_mutated_files(copier, directory, format):
    """Whatever a file has in it, the server answers, and lives."""
    rng = random.Random(2024)
    table = pa.table({
        "id": pa.array(range(300)), "v": pa.array([f"v{i % 9}" for i in range(300)]),
        "d": pa.array([f"d{i % 5}" for i in range(300)]).dictionary_encode(),
        "n": pa.array([Decimal(i) / 4 for i in range(300)], pa.decimal128(9, 2)),
        "at": pa.array(range(300), pa.timestamp("us")), "g": pa.array([bytes(16)] * 300, pa.binary(16)),
    })
    path = directory / f"f.{format}"
    options = [{"compression": c} for c in (["none", "snappy", "zstd", "lz4"] if format == "parquet" else [None, "lz4", "zstd"])]
    goods = []
    for option in options:
        write(path, table, **option)
        goods.append(path.read_bytes())
    copier.run("create table t (id bigint, v text, d text, n numeric(9,2), at timestamp, g uuid)")
    refused = taken = 0
    with copier.connect() as connection:
        for _ in range(400):
            data = bytearray(rng.choice(goods))
            for _ in range(rng.randint(1, 4)):
                # The ends have what is believed most.
                at = rng.randrange(len(data)) if rng.random() < 0.5 else len(data) - 1 - rng.randrange(min(len(data), 1500))
                data[at] = rng.choice([data[at] ^ (1 << rng.randrange(8)), 0, 0xFF, 0x7F, 0x80])
            path.write_bytes(data)
            try:
                connection.execute("begin")
                connection.execute(f"copy t from 'f.{format}'")
                taken += 1
            except psycopg.Error as e:
                assert e.diag.sqlstate[:2] in ("22", "42", "0A", "54", "53"), e
                refused += 1
            connection.execute("rollback")
    assert refused > 50 and taken > 5, (refused, taken)
    assert copier.value("select count(*) from t") == 0


def test_one_snapshot(copier, directory):
    """A COPY sees all of a commit or nothing, whatever writers do meanwhile."""
    copier.run("create table account (id int primary key, v bigint)",
               "insert into account select g, 100 from generate_series(1, 20000) g")
    stop = threading.Event()
    failures = []

    def transfer(seed):
        rng = random.Random(seed)
        with copier.connect() as connection:
            while not stop.is_set():
                one, other = rng.sample(range(1, 20001), 2)
                try:
                    with connection.transaction():
                        connection.execute("update account set v = v - 5 where id = %s", [one])
                        connection.execute("update account set v = v + 5 where id = %s", [other])
                except psycopg.errors.DeadlockDetected:
                    pass
                except Exception as e:
                    failures.append(e)
                    return

    threads = [threading.Thread(target=transfer, args=[seed]) for seed in range(3)]
    for thread in threads:
        thread.start()
    try:
        for at in range(6):
            copier.run(f"copy account to 's{at}.parquet'")
            table = read(directory / f"s{at}.parquet")
            assert table.num_rows == 20_000
            assert sum(table.column("v").to_pylist()) == 2_000_000
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert not failures
    assert copier.value("select sum(v) from account") == 2_000_000


def test_the_table_changes_meanwhile(copier, directory):
    """ALTER TABLE during a long COPY, either way: the COPY goes on with the columns it began with."""
    rows = 300_000
    copier.run("create table t (id int primary key, v text)",
               f"insert into t select g, md5(g::text) from generate_series(1, {rows}) g", "copy t to 'f.parquet'",
               "create table u (id int primary key, v text)")
    with copier.connect() as connection, copier.connect() as other:
        moving = lambda: other.execute("select tuples_processed > 0 from pg_stat_progress_copy").fetchone() == (True,)
        connection.pgconn.send_query(b"copy u from 'f.parquet'")
        wait_until(moving, "rows come")
        other.execute("alter table u add column w int default 5")
        result = connection.pgconn.get_result()
        assert result.command_tuples == rows, result.error_message
        connection.pgconn.get_result()
        assert other.execute("select count(*), sum(w) from u").fetchone() == (rows, 5 * rows)
        connection.pgconn.send_query(b"copy t to 'g.parquet'")
        wait_until(lambda: other.execute("select count(*) from pg_stat_progress_copy").fetchone() == (1,), "it runs")
        other.execute("alter table t add column w int default 5")
        other.execute("alter table t drop column v")
        result = connection.pgconn.get_result()
        assert result.command_tuples == rows, result.error_message
        connection.pgconn.get_result()
    table = read(directory / "g.parquet")
    assert table.column_names in (["id", "v"], ["id", "w"]) and table.num_rows == rows


def test_progress(server):
    """COPY FROM STDIN in the middle: the view has PostgreSQL's columns, and the numbers grow."""
    with server.connect() as connection, server.connect() as other:
        connection.execute("create table t (id int)")
        description = other.execute("select * from pg_stat_progress_copy").description
        assert [(d.name, d.type_code) for d in description] == [
            ("pid", 23), ("datid", 26), ("datname", 19), ("relid", 26), ("command", 25), ("type", 25),
            ("bytes_processed", 20), ("bytes_total", 20), ("tuples_processed", 20), ("tuples_excluded", 20)]
        query = ("select pid, relid = 't'::regclass::oid, command, type, bytes_processed > 0, bytes_total, "
                 "tuples_processed > 0, tuples_excluded from pg_stat_progress_copy")
        assert other.execute(query).fetchall() == []
        with connection.cursor().copy("copy t from stdin") as copy:
            for _ in range(50):
                copy.write("12345\n" * 2000)
            expected = [(connection.info.backend_pid, True, "COPY FROM", "PIPE", True, 0, True, 0)]
            wait_until(lambda: other.execute(query).fetchall() == expected, "the copy is seen")
        assert other.execute(query).fetchall() == []
        with connection.cursor().copy("copy t to stdout") as copy:
            copy.read()
            shown = other.execute("select pid, command, type from pg_stat_progress_copy").fetchall()
            assert shown in ([(connection.info.backend_pid, "COPY TO", "PIPE")], [])
            for _ in copy:
                pass
        assert other.execute(query).fetchall() == []


def test_progress_of_files(copier, directory):
    with_numbers(copier)
    query = ("select command, type, bytes_processed > 0, bytes_total > 0, tuples_processed > 0, relid > 0 "
             "from pg_stat_progress_copy")
    copier.run("create table t (g bigint, m text)")
    with copier.connect() as connection, copier.connect() as other:
        for sql, expected in [
            (f"copy ({LONG_QUERY} limit 1000000) to 'f.csv'", ("COPY TO", "FILE", True, False, True, False)),
            (f"copy ({LONG_QUERY} limit 1000000) to 'f.arrow'", ("COPY TO", "FILE", True, False, True, False)),
            ("copy t from 'f.csv'", ("COPY FROM", "FILE", True, True, True, True)),
            ("copy t from 'f.arrow'", ("COPY FROM", "FILE", True, True, True, True)),
        ]:
            connection.pgconn.send_query(sql.encode())
            wait_until(lambda: other.execute(query).fetchall() == [expected], sql)
            assert connection.pgconn.get_result().command_tuples == 1_000_000
            connection.pgconn.get_result()
            assert other.execute(query).fetchall() == []


@pytest.mark.parametrize("format", COLUMNAR)
def test_files_larger_than_memory_flow(copier, directory, format):
    """A file of about 400 MB leaves the process as large as it was, but for a few batches of it."""
    with_numbers(copier, 2000)
    query = "select a.g, repeat(md5((a.g * b.g)::text), 6) as m from n a, n b limit 2000000"
    copier.run(f"copy (select a.g, md5(a.g::text) as m from n a) to 'warm.{format}'")
    before = copier.resident_bytes()
    most = 0
    with copier.connect() as connection:
        connection.pgconn.send_query(f"copy ({query}) to 'large.{format}' (compression none)".encode())
        while copier.rows("select from pg_stat_progress_copy") or most == 0:
            most = max(most, copier.resident_bytes())
        assert connection.pgconn.get_result().command_tuples == 2_000_000
        connection.pgconn.get_result()
    assert (directory / f"large.{format}").stat().st_size > 360_000_000
    assert most - before < 300 << 20, f"{(most - before) >> 20} MB more"


@pytest.mark.parametrize("format", FORMATS)
def test_a_table_that_does_not_fit_into_memory(start, directory, format):
    """The statement fails with 53200, and the server goes on."""
    copier = start(arguments=["--copy-directory", directory, "--memory-limit", "64MB"])
    with_numbers(copier, 1000)
    copier.run("create table t (g bigint, m text)",
               f"copy (select a.g, repeat(md5((a.g * b.g)::text), 8) as m from n a, n b limit 350000) "
               f"to 'f' (format {format})")
    with copier.connect() as connection:
        assert failing(connection, f"copy t from 'f' (format {format})")[0] == "53200"
        assert connection.execute("select count(*) from t").fetchone() == (0,)

    def room():
        try:
            copier.run("insert into t values (1, 'there is room')")
            return True
        except psycopg.errors.OutOfMemory:
            return False

    wait_until(room, "what was undone is collected")
