"""asyncpg: everything by the extended protocol and in the binary format, types looked up in pg_catalog.

Each test runs on Froglet and on PostgreSQL 15.
"""

import asyncio
import datetime as dt
import io
import ipaddress
import uuid
from decimal import Decimal

import asyncpg
import pytest

UTC = dt.timezone.utc

VALUES = {
    "bool": [True, False],
    "smallint": [-32768, 32767],
    "int": [-2147483648, 2147483647],
    "bigint": [-9223372036854775808, 9223372036854775807],
    "real": [1.5, float("-inf")],
    "double precision": [0.1, 5e-324, float("inf")],
    "numeric": [Decimal("1E+20"), Decimal("0.00001"), Decimal("-12345678901234567890.123456789")],
    "numeric(10,3)": [Decimal("1.500"), Decimal("-1234567.891")],
    "text": ["", "Größe 🐸"],
    "varchar(9)": ["123456789"],
    "char(4)": ["ab  "],
    "bytea": [b"", bytes(range(256))],
    "date": [dt.date(1, 1, 1), dt.date(2024, 2, 29)],
    "time": [dt.time(0, 0), dt.time(23, 59, 59, 999999)],
    "timestamp": [dt.datetime(1969, 12, 31, 23, 59, 59, 999999)],
    "timestamptz": [dt.datetime(2024, 3, 31, 1, 30, tzinfo=UTC)],
    "interval": [dt.timedelta(days=3, seconds=5, microseconds=7), dt.timedelta(days=-1)],
    "uuid": [uuid.UUID(int=7)],
    "json": ['{"a": [1, 2.50, null]}'],
    "jsonb": ['{"a": [1, 2.50, null]}'],
    "int[]": [[1, None, 3], []],
    "text[]": [["a", 'quote"comma,', None], [["x", "y"], ["z", ""]]],
    "numeric[]": [[Decimal("1.50"), None]],
    "timestamptz[]": [[dt.datetime(2024, 3, 31, 1, 30, tzinfo=UTC)]],
    "uuid[]": [[uuid.UUID(int=1), uuid.UUID(int=2)]],
    "oid": [0, 4294967295],
    "inet": [ipaddress.ip_interface("192.168.1.5/24"), ipaddress.ip_address("::1")],
    "bit(8)": [asyncpg.BitString("10100101")],
    "int4range": [asyncpg.Range(1, 5)],
}


def run(server, work):
    """Runs a coroutine on a connection of asyncpg's."""
    async def connected():
        connection = await connect(server)
        try:
            return await work(connection)
        finally:
            await connection.close()

    return asyncio.run(asyncio.wait_for(connected(), 60))


def connect(server, **options):
    return asyncpg.connect(host=server.host, port=server.port, user=server.user, database=server.database, **options)


@pytest.mark.parametrize("sql_type", VALUES)
def test_type(server, sql_type):
    """There and back, alone and in an array of its kind."""
    async def work(connection):
        await connection.execute(f"create table t (id serial primary key, v {sql_type})")
        for value in [*VALUES[sql_type], None]:
            assert await connection.fetchval(f"select $1::{sql_type}", value) == value
            assert await connection.fetchval("insert into t (v) values ($1) returning v", value) == value
        rows = await connection.fetch("select v from t order by id")
        assert [row["v"] for row in rows] == [*VALUES[sql_type], None]

    run(server, work)


def test_enum(server):
    async def work(connection):
        await connection.execute("create type mood as enum ('sad', 'ok', 'happy')")
        await connection.execute("create table t (id int, m mood, ms mood[])")
        await connection.execute("insert into t values ($1, $2, $3)", 1, "ok", ["sad", "happy"])
        assert tuple(await connection.fetchrow("select m, ms from t where m > 'sad'")) == ("ok", ["sad", "happy"])

    run(server, work)


def test_composite(server):
    async def work(connection):
        await connection.execute("create type pair as (a int, b text)")
        assert tuple(await connection.fetchval("select row(1, 'x')::pair")) == (1, "x")

    run(server, work)


ROWS = [
    "row(1, 'a'::text)",
    "row()",
    "row(null::int, '', ' ', 'a \"b\", c\\\\d (e)')",
    "row(1, row(2::bigint, row(3.50::numeric, true)))",
    "array[row(1, 'a'::text), null, row(2, null::text)]",
    "(select row(1, 2::bigint))",
    "case when a = 1 then row(1, 'x'::text) else row(2, 'y'::text) end",
    "coalesce(row(a, 2), row(3, 4))",
    "t", "s",
    "row(timestamp '2020-01-02 03:04:05.5', timestamptz '2020-01-02 03:04:05+02', date '2020-02-29', time '12:13:14.5')",
    "row(1.5::real, 'NaN'::float8, interval '1 mon 2 days 03:00', '\\xdeadbeef'::bytea, 17::oid, 'n'::name)",
    "row('{\"a\": 1}'::json, '{\"a\": 1}'::jsonb, 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'::uuid)",
]


def as_tuples(value):
    """Records as tuples: whether the client knows names of fields is no matter of their values."""
    if isinstance(value, (tuple, asyncpg.Record)):
        return tuple(map(as_tuples, value))
    return [as_tuples(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize("row", [*ROWS, "array_agg(t order by a)", "array_agg(row(a, b)) filter (where a > 100)"])
def test_row(froglet, postgres, row):
    """Rows, rows within rows, arrays of rows: each field of the type that it has."""
    async def work(connection):
        await connection.execute("create table t (a int primary key, b text, c numeric(10, 2))")
        await connection.execute("insert into t values (1, 'x', 1.50), (2, null, null)")
        query = f"select {row} from t, (select 9 as z, 'k'::text as k) s"
        query += "" if row.startswith("array_agg") else " order by a"
        return repr([as_tuples(record) for record in await connection.fetch(query)])

    assert run(froglet, work) == run(postgres, work)


def test_prepared_statement(server):
    async def work(connection):
        await connection.execute("create table t (id int primary key, v text)")
        put = await connection.prepare("insert into t values ($1, $2)")
        assert [parameter.name for parameter in put.get_parameters()] == ["int4", "text"]
        for i in range(20):
            await put.fetch(i, f"v{i}")
        assert put.get_statusmsg() == "INSERT 0 1"
        get = await connection.prepare("select id, v from t where id >= $1 order by id limit $2")
        assert [(a.name, a.type.name) for a in get.get_attributes()] == [("id", "int4"), ("v", "text")]
        assert [tuple(row) for row in await get.fetch(5, 2)] == [(5, "v5"), (6, "v6")]
        assert await get.fetchval(19, 10, column=1) == "v19"

    run(server, work)


def test_cached_statement_after_a_schema_change(server):
    """PostgreSQL lets the client prepare it again (0A000); Froglet goes on answering the columns that it described."""
    async def work(connection):
        await connection.execute("create table t (id int primary key, v int)")
        await connection.execute("insert into t values (1, 10)")
        assert tuple(await connection.fetchrow("select * from t where id = $1", 1)) == (1, 10)
        other = await connect(server)
        await other.execute("alter table t add column w text default 'w'")
        assert tuple(await connection.fetchrow("select * from t where id = $1", 1))[:2] == (1, 10)
        await other.execute("alter table t drop column v")
        assert tuple(await connection.fetchrow("select * from t where id = $1", 1)) == (1, "w")
        await other.close()

    run(server, work)


def test_executemany(server):
    async def work(connection):
        await connection.execute("create table t (id int primary key, v text, n numeric)")
        await connection.executemany(
            "insert into t values ($1, $2, $3)", [(i, None if i % 3 == 0 else str(i), Decimal(i) / 4) for i in range(500)])
        assert tuple(await connection.fetchrow("select count(*), count(v), sum(n) from t")) == (500, 333, Decimal("31187.50"))
        with pytest.raises(asyncpg.UniqueViolationError):
            await connection.executemany("insert into t values ($1)", [(1000,), (1001,), (1,)])
        assert await connection.fetchval("select count(*) from t") == 500, "executemany is one transaction"

    run(server, work)


def test_transactions(server):
    async def work(connection):
        await connection.execute("create table t (id int primary key)")
        with pytest.raises(ZeroDivisionError):
            async with connection.transaction():
                await connection.execute("insert into t values (1)")
                raise ZeroDivisionError
        async with connection.transaction(isolation="repeatable_read"):
            await connection.execute("insert into t values (2)")
            with pytest.raises(asyncpg.UniqueViolationError):
                async with connection.transaction():
                    await connection.execute("insert into t values (3)")
                    await connection.execute("insert into t values (2)")
            await connection.execute("insert into t values (4)")
        assert [row[0] for row in await connection.fetch("select id from t order by id")] == [2, 4]
        with pytest.raises(asyncpg.ReadOnlySQLTransactionError):
            async with connection.transaction(readonly=True):
                await connection.execute("insert into t values (5)")

    run(server, work)


def test_serializable_deferrable(server):
    async def work(connection):
        async with connection.transaction(isolation="serializable", readonly=True, deferrable=True):
            assert await connection.fetchval("show transaction_isolation") == "serializable"

    run(server, work)


def test_cursor(server):
    async def work(connection):
        async with connection.transaction():
            seen = [row["n"] async for row in connection.cursor("select n from generate_series(1, $1::int) g (n)", 250)]
            assert seen == list(range(1, 251))
            cursor = await connection.cursor("select n from generate_series(1, 10) g (n)")
            assert await cursor.forward(3) == 3
            assert [row["n"] for row in await cursor.fetch(2)] == [4, 5]
            assert (await cursor.fetchrow())["n"] == 6

    run(server, work)


def test_copy_of_records_is_binary(server):
    rows = [(i, f"v{i}", Decimal(i) / 8, dt.datetime(2024, 1, 1, tzinfo=UTC), None) for i in range(1000)]

    async def work(connection):
        await connection.execute("create table t (id int primary key, v text, n numeric(10,3), at timestamptz, x int)")
        assert await connection.copy_records_to_table("t", records=rows) == "COPY 1000"
        assert [tuple(row) for row in await connection.fetch("select * from t order by id")] == rows
        assert await connection.copy_records_to_table("t", records=[(5000,)], columns=["id"]) == "COPY 1"

    run(server, work)


@pytest.mark.parametrize("form", ["text", "csv", "binary"])
def test_copy_out_and_in(server, form):
    async def work(connection):
        await connection.execute("create table t (id int primary key, v text)")
        await connection.execute("insert into t select n, nullif('v' || n, 'v7') from generate_series(1, 100) g (n)")
        await connection.execute("create table u (id int primary key, v text)")
        file = io.BytesIO()
        assert await connection.copy_from_query("select * from t where id > $1", 50, output=file, format=form) == "COPY 50"
        file.seek(0)
        assert await connection.copy_to_table("u", source=file, format=form) == "COPY 50"
        file = io.BytesIO()
        assert await connection.copy_from_table("t", columns=["v", "id"], output=file, format=form) == "COPY 100"
        assert await connection.fetchval(
            "select count(*) from u join t using (id) where u.v is not distinct from t.v") == 50

    run(server, work)


def test_pool(server):
    async def work():
        async with asyncpg.create_pool(host=server.host, port=server.port, user=server.user, database=server.database,
                                       min_size=2, max_size=8) as pool:
            await pool.execute("create table t (id int primary key, v int)")
            await pool.execute("insert into t values (1, 0)")

            async def add():
                async with pool.acquire() as connection, connection.transaction():
                    await connection.execute("update t set v = v + $1 where id = 1", 1)

            await asyncio.gather(*(add() for _ in range(100)))
            assert await pool.fetchval("select v from t") == 100

    asyncio.run(asyncio.wait_for(work(), 60))


def test_reset_of_a_pooled_connection(server):
    """What asyncpg runs when a connection goes back into its pool."""
    async def work(connection):
        await connection.execute("set application_name = 'x'")
        await connection.fetchval("select pg_advisory_lock(1)")
        await connection.reset()
        assert await connection.fetchval("show application_name") == ""
        assert await connection.fetchval("select pg_try_advisory_lock(1)")

    run(server, work)


def test_listen_and_notify(server):
    async def work(connection):
        heard = asyncio.Queue()
        await connection.add_listener("frogs", lambda _c, _pid, channel, payload: heard.put_nowait((channel, payload)))
        other = await connect(server)
        async with other.transaction():
            await other.execute("notify frogs, 'quak'")
            await other.execute("select pg_notify('frogs', 'croak')")
        await other.close()
        assert [await asyncio.wait_for(heard.get(), 10) for _ in range(2)] == [("frogs", "quak"), ("frogs", "croak")]
        await connection.reset()

    run(server, work)


def test_timeout_cancels(server):
    async def work(connection):
        with pytest.raises(asyncio.TimeoutError):
            await connection.execute("select pg_sleep(60)", timeout=0.2)
        assert await connection.fetchval("select 1") == 1

    run(server, work)


def test_errors_have_fields(server):
    async def work(connection):
        await connection.execute("create table t (id int primary key, v int constraint small check (v < 10))")
        with pytest.raises(asyncpg.CheckViolationError) as caught:
            await connection.execute("insert into t values ($1, $2)", 1, 11)
        assert (caught.value.table_name, caught.value.constraint_name) == ("t", "small")
        with pytest.raises(asyncpg.UndefinedColumnError) as caught:
            await connection.fetch("select nothing from t")
        assert caught.value.position == "8"
        with pytest.raises(asyncpg.DataError):
            await connection.fetch("select $1::int", "text")

    run(server, work)


def test_type_codec(server):
    """A codec of one's own is set by the type's name, which asyncpg looks up."""
    import json

    async def work(connection):
        await connection.set_type_codec("jsonb", encoder=json.dumps, decoder=json.loads, schema="pg_catalog")
        assert await connection.fetchval("select $1::jsonb", {"a": [1, None]}) == {"a": [1, None]}

    run(server, work)
