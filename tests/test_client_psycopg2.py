"""psycopg2: the simple protocol, values as text, with parameters put in by the client."""

import datetime as dt
import io
import threading
import uuid
from decimal import Decimal

import psycopg2
import pytest
from psycopg2 import errors, extensions, extras

extras.register_uuid()
UTC = dt.timezone.utc

VALUES = {
    "bool": [True, False],
    "bigint": [-9223372036854775807, 9223372036854775807],
    "double precision": [0.1, -1e300, float("inf")],
    "numeric": [Decimal("-12345678901234567890.123456789"), Decimal("0.00001")],
    "text": ["", "quote' back\\slash %", "Größe 🐸"],
    "date": [dt.date(2024, 2, 29)],
    "time": [dt.time(23, 59, 59, 999999)],
    "timestamp": [dt.datetime(1969, 12, 31, 23, 59, 59, 999999)],
    "timestamptz": [dt.datetime(2024, 3, 31, 1, 30, tzinfo=UTC)],
    "interval": [dt.timedelta(days=3, seconds=5, microseconds=7)],
    "uuid": [uuid.UUID(int=7)],
    "int[]": [[1, None, 3], []],
    "text[]": [["a", 'quote"comma,', None]],
    "timestamptz[]": [[dt.datetime(2024, 3, 31, 1, 30, tzinfo=UTC)]],
}


def connect(server, **options):
    return psycopg2.connect(host=server.host, port=server.port, user=server.user, dbname=server.database, **options)


@pytest.fixture
def cursor(server):
    connection = connect(server)
    connection.autocommit = True
    yield connection.cursor()
    connection.close()


@pytest.mark.parametrize("sql_type", VALUES)
def test_type(cursor, sql_type):
    cursor.execute(f"create table t (id serial primary key, v {sql_type})")
    values = [*VALUES[sql_type], None]
    for value in values:
        cursor.execute(f"select %s::{sql_type}", [value])
        assert cursor.fetchone() == (value,)
        cursor.execute("insert into t (v) values (%s) returning v", [value])
        assert cursor.fetchone() == (value,)
    cursor.execute("select v from t order by id")
    assert [v for [v] in cursor] == values


def test_bytea(cursor):
    cursor.execute("select %s::bytea", [psycopg2.Binary(bytes(range(256)))])
    assert bytes(cursor.fetchone()[0]) == bytes(range(256))


@pytest.mark.parametrize("sql_type", ["json", "jsonb"])
def test_json(cursor, sql_type):
    cursor.execute(f"create table t (v {sql_type})")
    cursor.execute("insert into t values (%s) returning v", [extras.Json({"a": [1, None, "x"]})])
    assert cursor.fetchone() == ({"a": [1, None, "x"]},)


def test_hstore_is_looked_for(server):
    """register_default_json and HstoreAdapter look for types; where there is none, psycopg2 says so."""
    connection = connect(server)
    with pytest.raises(psycopg2.ProgrammingError, match="hstore type not found"):
        extras.register_hstore(connection)
    connection.close()


def test_composite(server):
    connection = connect(server)
    cursor = connection.cursor()
    cursor.execute("create type pair as (a int, b text)")
    caster = extras.register_composite("pair", connection)
    assert caster.attnames == ["a", "b"]
    cursor.execute("select row(1, 'x, y')::pair")
    assert tuple(cursor.fetchone()[0]) == (1, "x, y")
    connection.close()


def test_execute_values_and_batch(cursor):
    cursor.execute("create table t (id serial primary key, a int, b text)")
    made = extras.execute_values(
        cursor, "insert into t (a, b) values %s returning id", [(i, f"b{i}") for i in range(250)], fetch=True)
    assert [i for [i] in made] == list(range(1, 251))
    extras.execute_batch(cursor, "update t set b = %s where id = %s", [(None, i) for i in range(1, 101)])
    cursor.execute("select count(b) from t")
    assert cursor.fetchone() == (150,)


def test_named_cursor(server):
    with connect(server) as connection:
        with connection.cursor("c", scrollable=True) as named:
            named.itersize = 7
            named.execute("select n from generate_series(1, 30) as g (n)")
            assert [n for [n] in named] == list(range(1, 31))
            named.scroll(0, mode="absolute")
            assert named.fetchmany(3) == [(1,), (2,), (3,)]
        with connection.cursor("held", withhold=True) as held:
            held.execute("select n from generate_series(1, 5) as g (n)")
            connection.commit()
            assert held.fetchall() == [(n,) for n in range(1, 6)]
    connection.close()


def test_copy(cursor):
    cursor.execute("create table t (id int primary key, v text)")
    cursor.copy_from(io.StringIO("1\tone\n2\t\\N\n"), "t", columns=("id", "v"))
    cursor.copy_expert("copy t from stdin (format csv, header)", io.StringIO('id,v\n3,"a,b"\n'))
    out = io.StringIO()
    cursor.copy_to(out, "t", null="-")
    assert out.getvalue() == "1\tone\n2\t-\n3\ta,b\n"


def test_dictionaries_and_description(server):
    with connect(server, cursor_factory=extras.RealDictCursor) as connection, connection.cursor() as cursor:
        cursor.execute("select 1 as a, 'x'::varchar(7) as b, 1.5::numeric(8,3) as c")
        assert dict(cursor.fetchone()) == {"a": 1, "b": "x", "c": Decimal("1.500")}
        assert [(c.name, c.type_code, c.precision, c.scale) for c in cursor.description] == [
            ("a", 23, None, None), ("b", 1043, None, None), ("c", 1700, 8, 3)]
    connection.close()


def test_session(server):
    connection = connect(server)
    connection.set_session(isolation_level="REPEATABLE READ", readonly=True)
    cursor = connection.cursor()
    cursor.execute("show transaction_isolation")
    assert cursor.fetchone() == ("repeatable read",)
    with pytest.raises(errors.ReadOnlySqlTransaction):
        cursor.execute("create table t (id int)")
    connection.rollback()
    connection.set_session(isolation_level="SERIALIZABLE", readonly=False, deferrable=True)
    cursor.execute("show transaction_isolation")
    assert cursor.fetchone() == ("serializable",)
    connection.rollback()
    connection.set_client_encoding("UTF8")
    assert connection.encoding == "UTF8"
    assert connection.server_version // 10000 == 15
    connection.close()


def test_two_phase_commit_is_refused_or_works(server):
    """PostgreSQL as it comes has no prepared transactions, either."""
    connection = connect(server)
    connection.tpc_begin(connection.xid(1, "frog", "branch"))
    connection.cursor().execute("select 1")
    with pytest.raises((psycopg2.NotSupportedError, errors.ObjectNotInPrerequisiteState)):
        connection.tpc_prepare()
    connection.close()


def test_notify(server):
    listener, speaker = connect(server), connect(server)
    listener.autocommit = True
    listener.cursor().execute("listen frogs")
    with speaker, speaker.cursor() as cursor:
        cursor.execute("notify frogs, 'quak'")
    listener.cursor().execute("select 1")
    listener.poll()
    assert [(n.channel, n.payload, n.pid) for n in listener.notifies] == [
        ("frogs", "quak", speaker.info.backend_pid)]
    listener.close()
    speaker.close()


def test_notices(server):
    connection = connect(server)
    connection.cursor().execute("drop table if exists nothing")
    assert connection.notices == ['NOTICE:  table "nothing" does not exist, skipping\n']
    connection.close()


def test_cancel(server):
    connection = connect(server)
    thread = threading.Timer(0.2, connection.cancel)
    thread.start()
    with pytest.raises(extensions.QueryCanceledError):
        connection.cursor().execute("select pg_sleep(30)")
    thread.join()
    connection.close()


def test_error_and_rollback(server):
    connection = connect(server)
    cursor = connection.cursor()
    cursor.execute("create table t (id int primary key)")
    connection.commit()
    cursor.execute("insert into t values (1)")
    with pytest.raises(errors.UniqueViolation) as caught:
        cursor.execute("insert into t values (1)")
    assert (caught.value.pgcode, caught.value.diag.constraint_name) == ("23505", "t_pkey")
    with pytest.raises(errors.InFailedSqlTransaction):
        cursor.execute("select 1")
    assert connection.get_transaction_status() == extensions.TRANSACTION_STATUS_INERROR
    connection.rollback()
    cursor.execute("select count(*) from t")
    assert cursor.fetchone() == (0,)
    connection.close()
