"""Bad input and bad clients: a clear error with PostgreSQL's SQLSTATE, and the server lives.

Statements are compared with PostgreSQL 15; malformed messages go to Froglet over a bare socket.
"""

import resource
import socket
import struct
import time

import psycopg
import pytest
from psycopg import errors, pq

from support.processes import wait_until

# Statements and their errors ----------------------------------------------------------------------

SETUP = [
    "create table p (id int primary key)",
    "insert into p values (1)",
    "create table t (id int primary key, v int not null default 0, s varchar(5), n numeric(5,2),"
    " d date, b bytea, u uuid, f float8, p int references p, constraint small check (v < 100))",
    "insert into t values (1, 10, 'a', 1.5, '2024-01-01', '\\x00', null, 'NaN', 1)",
]

WRONG = {
    "select 1, (select from t where id > 9)": "42601",
    "select 1 in (select from t)": "42601",
    "select array(select from t)": "42601",
    "select 0x10": "42601",
    "select 12ab": "42601",
    "select 1_000": "42601",
    "select id from t limit string_to_array(1)": "42883",
    "select id from t order by id limit t.id": "42P10",
    "select 1/0": "22012",
    "select 1 % 0": "22012",
    "select 1.5/0": "22012",
    "select 1::float8/0": "22012",
    "select 10 / v from (values (0)) as x (v)": "22012",
    "select 2147483647 + 1": "22003",
    "select 9223372036854775807 + 1": "22003",
    "select -(-2147483648)::int": "22003",
    "select 40000::smallint": "22003",
    "select 1e400::float8": "22003",
    "select 1e40::real": "22003",
    "select 'NaN'::float8::int": "22003",
    "select 'NaN'::numeric::int": "0A000",
    "select 1e200::float8 * 1e200::float8": "22003",
    "select 99999999999999999999::bigint": "22003",
    "select sqrt(-1::float8)": "2201F",
    "select ln(0::float8)": "2201E",
    "select 'abc'::int": "22P02",
    "select ''::int": "22P02",
    "select '1 2'::int": "22P02",
    "select 'maybe'::bool": "22P02",
    "select 'xyz'::uuid": "22P02",
    "select '1.2.3'::numeric": "22P02",
    "select '\\xzz'::bytea": "22023",
    "select '2024-02-30'::date": "22008",
    "select 'tomorrowish'::date": "22007",
    "select '2024-13-01'::timestamp": "22008",
    "select 123456.7::numeric(5,2)": "22003",
    "insert into t (id, n) values (2, 12345)": "22003",
    "insert into t (id, s) values (2, 'too long')": "22001",
    "insert into t (id, v) values (3000000000, 1)": "22003",
    "insert into t (id) values ('x')": "22P02",
    "insert into t (id) values (1)": "23505",
    "insert into t (id, v) values (2, null)": "23502",
    "insert into t (v) values (2)": "23502",
    "insert into t (id, v) values (2, 100)": "23514",
    "insert into t (id, p) values (2, 9)": "23503",
    "update t set id = null": "23502",
    "update t set v = 1000": "23514",
    "update t set p = 2": "23503",
    "delete from p": "23503",
    "truncate p": "0A000",
    "insert into t (id, v) values (2)": "42601",
    "insert into t (id) values (2, 3)": "42601",
    "insert into t (id, id) values (2, 3)": "42701",
    "insert into t (nothing) values (2)": "42703",
    "insert into t (id, d) values (2, 5)": "42804",
    "update t set v = 'abc'": "22P02",
    "update t set v = current_date": "42804",
    "update t set nothing = 1": "42703",
    "select * from nothing": "42P01",
    "select nothing.* from t": "42P01",
    "select nothing from t": "42703",
    "select t.nothing from t": "42703",
    "select id from t, p": "42702",
    "select nothing(1)": "42883",
    "select length(1, 2, 3)": "42883",
    "select 1::nothing": "42704",
    "create table x (v nothing)": "42704",
    "select 1 + true": "42883",
    "select 1 = 'x'::text": "42883",
    "select v, count(*) from t": "42803",
    "select count(count(*)) from t": "42803",
    "select * from t where count(*) > 1": "42803",
    "select 1 where 1": "42804",
    "select (select 1, 2)": "42601",
    "select (select n from generate_series(1, 2) as g (n))": "21000",
    "select 1 union select 1, 2": "42601",
    "select * from t order by 99": "42P10",
    "select * from t limit -1": "2201W",
    "select $1": "42P02",
    "values (1), (1, 2)": "42601",
    "create table t (id int)": "42P07",
    "create table x (id int, id int)": "42701",
    "create table x (id int primary key, v int primary key)": "42P16",
    "create table x (id int references nothing)": "42P01",
    "create table nothing.x (id int)": "3F000",
    "create index on nothing (id)": "42P01",
    "create table x (v int default 'abc')": "22P02",
    "create table x (v varchar(0))": "22023",
    "create table x (v numeric(2000))": "22023",
    "drop table nothing": "42P01",
    "drop index nothing": "42704",
    "drop sequence nothing": "42P01",
    "alter table t alter column s type int": "42804",
    "alter table t alter column s type int using s::int": "22P02",
    "alter table t add column x int default 'y'": "22P02",
    "alter table t drop constraint nothing": "42704",
    "create sequence s minvalue 5 maxvalue 1": "22023",
    "select nextval('nothing')": "42P01",
    "select currval('t')": "42809",
    "select setting from pg_settings where": "42601",
    "": None,
    ";;": None,
    "sel": "42601",
    "select 'unterminated": "42601",
    "select \"unterminated": "42601",
    "select /* unterminated": "42601",
    "select 1 2": "42601",
    "select ((1)": "42601",
    "select 1)": "42601",
    "execute nothing": "26000",
    "deallocate nothing": "26000",
    "set nothing = 1": "42704",
    "show nothing": "42704",
    "set statement_timeout = -5": "22023",
    "set lock_timeout = 'x'": "22023",
    "savepoint s": "25P01",
    "copy nothing from stdin": "42P01",
    "copy t (nothing) from stdin": "42703",
    "copy t from stdin (format nothing)": "22023",
    "begin isolation level nothing": "42601",
}

# What Froglet answers yet: a line goes when its statement is answered as in PostgreSQL.
WRONG_YET = {
    "select nothing.* from t": "42601",
}


def test_statements_fail_as_in_postgres(froglet, postgres):
    """The same SQLSTATE from both, no effect, and the connection goes on."""
    wrong = []
    for server, gaps in ((postgres, {}), (froglet, WRONG_YET)):
        server.run(*SETUP)
        with server.connect() as connection:
            for statement, expected in WRONG.items():
                try:
                    connection.execute(statement)
                    seen = None
                except psycopg.Error as error:
                    seen = error.sqlstate or str(error)
                    if connection.closed:
                        wrong.append(f"{statement}: connection lost: {error}")
                        connection = server.connect()
                        continue
                if seen != gaps.get(statement, expected):
                    name = type(server).__name__
                    wrong.append(f"{name}: {statement}: {seen}, expected {gaps.get(statement, expected)}")
            rows = connection.execute("select id, v, s, n, p from t").fetchall()
            assert [tuple(map(str, row)) for row in rows] == [("1", "10", "a", "1.50", "1")]
    assert not wrong, "\n".join(wrong)


def test_nan_and_infinity_are_values(server):
    """NaN equals itself and is greater than every number; infinities are in order."""
    with server.connect() as connection:
        one = lambda sql: connection.execute(sql).fetchone()[0]  # noqa: E731
        assert one("select 'NaN'::float8 = 'NaN'::float8")
        assert one("select 'NaN'::float8 > 'Infinity'::float8")
        connection.execute("create table t (v float8)")
        connection.execute("insert into t values ('NaN'), ('1'), ('-Infinity'), ('Infinity'), (null), ('-0')")
        ordered = connection.execute("select v::text from t order by t.v").fetchall()
        assert [v for [v] in ordered] == ["-Infinity", "-0", "1", "Infinity", "NaN", None]
        connection.execute("create index on t (v)")
        assert one("select count(*) from t where v = 'NaN'") == 1
        assert one("select count(*) from t where v = 0") == 1
        assert one("select max(v)::text from t") == "NaN"


def test_an_error_in_a_transaction(server):
    """25P02 until it ends; COMMIT of it is a ROLLBACK."""
    with server.connect() as connection:
        connection.execute("create table t (id int)")
        connection.execute("begin")
        connection.execute("insert into t values (1)")
        with pytest.raises(errors.DivisionByZero):
            connection.execute("select 1/0")
        with pytest.raises(errors.InFailedSqlTransaction):
            connection.execute("select 1")
        assert connection.info.transaction_status == pq.TransactionStatus.INERROR
        assert connection.execute("commit").statusmessage == "ROLLBACK"
        assert connection.execute("select count(*) from t").fetchone() == (0,)


# Statements of PostgreSQL's grammar that Froglet has not: one of each kind, and clauses of those that it has.
UNSUPPORTED = """
    alter aggregate s(int) rename to x
    alter collation c rename to d
    alter conversion c rename to d
    alter database postgres set x = 1
    alter domain d drop not null
    alter event trigger e disable
    alter extension x update
    alter foreign data wrapper f no handler
    alter foreign table f rename to g
    alter function f(int) rename to g
    alter group g add user x
    alter language plpgsql rename to x
    alter large object 1 owner to postgres
    alter operator + (int, int) owner to postgres
    alter operator class c using btree rename to d
    alter operator family c using btree rename to d
    alter policy p on t rename to q
    alter procedure p rename to q
    alter publication p rename to q
    alter role all set timezone to utc
    alter routine p rename to q
    alter rule r on t rename to q
    alter server s rename to q
    alter statistics s rename to q
    alter subscription s disable
    alter system set work_mem = '1MB'
    alter tablespace s rename to q
    alter text search configuration s rename to q
    alter trigger g on t rename to h
    alter user mapping for postgres server s options (set x 'y')
    call p(1)
    cluster t
    commit prepared 'x'
    create access method m type index handler h
    create aggregate a (int) (sfunc = x, stype = int)
    create cast (int as text) without function
    create collation c from "C"
    create conversion c for 'UTF8' to 'LATIN1' from f
    create database d
    create domain d as int
    create event trigger e on ddl_command_start execute function f()
    create extension hstore
    create foreign data wrapper f
    create foreign table f (a int) server s
    create function f() returns int language sql as 'select 1'
    create trusted language l
    create operator === (leftarg = int, rightarg = int, function = f)
    create operator class c for type int using btree as operator 1 <
    create operator family c using btree
    create policy p on t
    create procedure p() language sql as 'select 1'
    create publication p
    create or replace rule r as on insert to t do nothing
    create server s foreign data wrapper f
    create statistics s on id, a from t
    create subscription s connection 'x' publication p
    create tablespace s location '/x'
    create text search configuration c (parser = "default")
    create text search dictionary c (template = simple)
    create transform for int language sql (from sql with function f(internal))
    create trigger g before insert on t for each row execute function f()
    create constraint trigger g after insert on t for each row execute function f()
    create type c as (a int)
    create user mapping for postgres server s
    do $$ begin perform 1; end $$
    drop access method m
    drop aggregate a(int)
    drop cast (int as text)
    drop collation c
    drop conversion c
    drop event trigger e
    drop extension hstore
    drop foreign data wrapper f
    drop foreign table f
    drop function f(int)
    drop language l
    drop operator === (int, int)
    drop operator class c using btree
    drop policy p on t
    drop procedure p()
    drop publication p
    drop routine p()
    drop rule r on t
    drop server s
    drop statistics s
    drop subscription s
    drop tablespace s
    drop text search configuration c
    drop transform for int language sql
    drop trigger g on t
    drop user mapping for postgres server s
    import foreign schema s from server x into public
    load 'x'
    prepare transaction 'x'
    rollback prepared 'x'
    security label on table t is 'x'
    comment on function f(int) is 'x'
    grant execute on function f() to postgres
    grant usage on language sql to postgres
    grant set on parameter work_mem to postgres
    alter table t attach partition u for values in (1)
    alter table t cluster on t_pkey
    alter table t enable row level security
    alter table t enable rule r
    alter table t enable trigger all
    alter table t inherit u
    alter table t set tablespace s
    alter table t set without cluster
    create index on t using gin (id)
    create table x (a int unique nulls not distinct)
    create table x (a int compression pglz)
    create table x (a int storage plain)
    create table x (a int) partition by range (a)
    create table x (a int, exclude using gist (a with =))
    create table x of nothing
    create table x partition of t default
    create view v as select * from (select id from t for share) s
    select 1 from t where exists (select 1 from t u where u.id = t.id for update)
    select b'101'
    select x'1f'
    with recursive x(n) as (select 1 union all select n + 1 from x) search depth first by n set s select * from x
    with recursive x(n) as (select 1 union all select n + 1 from x) cycle n set c using p select * from x
    copy t to program 'cat'
"""


def test_unsupported_says_so_and_changes_nothing(froglet):
    wrong = []
    with froglet.connect() as connection:
        connection.execute("create table t (id int primary key)")
        before = connection.execute("select count(*) from pg_class").fetchone()
        for statement in UNSUPPORTED.strip().split("\n"):
            try:
                connection.execute(statement)
                wrong.append(f"accepted: {statement}")
            except psycopg.Error as e:
                if e.sqlstate != "0A000":
                    wrong.append(f"{statement.strip()}: {e.sqlstate} {e}")
        assert not wrong, "\n".join(wrong)
        assert connection.execute("select count(*) from pg_class").fetchone() == before
        with pytest.raises(errors.SyntaxError):
            connection.execute("lock table t nothing")
        with pytest.raises(errors.SyntaxError):
            connection.execute("create tables t (id int)")


# Size ---------------------------------------------------------------------------------------------

def test_giant_and_deep_queries(froglet):
    """Large is served, too deep is refused with 54001 (or 54000), nothing crashes."""
    with froglet.connect() as connection:
        text = "x" * (20 << 20)
        assert connection.execute(f"select length('{text}')").fetchone() == (len(text),)
        assert connection.execute("select length(%s)", [text]).fetchone() == (len(text),)
        numbers = ", ".join(map(str, range(10_000)))
        assert connection.execute(f"select 5 in ({numbers})").fetchone() == (True,)
        values = ", ".join(f"({n})" for n in range(10_000))
        assert connection.execute(f"select count(*) from (values {values}) as v").fetchone() == (10_000,)
    deep = 100_000
    for statement in [
        "select " + "(" * deep + "1" + ")" * deep,
        "select " + " + ".join(["1"] * deep),
        "select " + "not " * deep + "true",
        "select " + "- " * deep + "1",
        "select " + "case when true then " * deep + "1" + " end" * deep,
        "select * from " + "(select * from " * deep + "t" + ") as x" * deep,
        "select 1 " + "union all select 1 " * deep,
        "select 1 where " + " and ".join(["1 = 1"] * deep),
    ]:
        with froglet.connect() as connection:
            connection.execute("set statement_timeout = '20s'")
            try:
                connection.execute(statement)
            except psycopg.Error as error:
                assert error.sqlstate in ("54001", "54000", "42601", "42P01", "57014"), (
                    f"{statement[:60]}…: {error.sqlstate} {str(error)[:200]}")
        assert froglet.alive(), f"the server died of {statement[:60]}…"
    assert froglet.value("select 1") == 1


# Each within itself: were planning one of them twice as long at each level, it would not end.
NESTED = {
    "abs({})": "n",
    "upper({})": "s",
    "coalesce({}, s)": "s",
    "coalesce(n, {})": "n",
    "({})": "n",
    "(n + {})": "n",
    "cast({} as bigint)": "n",
    "- {}": "n",
    "case when n = 1 then {} else 2 end": "n",
    "array_length(array[{}], 1)": "n",
    "greatest({}, n)": "n",
    "nullif({}, 9)": "n",
    "replace({}, 'a', s)": "s",
    "to_char(length({}), '9')": "s",
    "({} || s)": "s",
    "({})::text::int": "n",
}


@pytest.mark.parametrize("call, innermost", NESTED.items())
def test_calls_within_calls(froglet, postgres, call, innermost):
    answers = []
    for server in [froglet, postgres]:
        with server.connect() as connection:
            connection.execute("create temporary table t as select 1 as n, 'a' as s")
            expression = innermost
            for _ in range(24):
                expression = call.format(expression)
            answers.append(connection.execute(f"select {expression} from t").fetchone())
    assert answers[0] == answers[1]


def test_many_columns_and_long_names(froglet):
    with froglet.connect() as connection:
        notices = []
        connection.add_notice_handler(lambda d: notices.append(d.sqlstate))
        connection.execute(f"create table {'n' * 100} (id int)")
        assert notices == ["42622"]
        assert connection.execute(f"select count(*) from {'n' * 63}").fetchone() == (0,)
        columns = ", ".join(f"c{i} int" for i in range(1600))
        connection.execute(f"create table wide ({columns})")
        connection.execute("insert into wide (c0, c1599) values (1, 2)")
        row = connection.execute("select * from wide").fetchone()
        assert (row[0], row[1], row[1599]) == (1, None, 2)
        with pytest.raises(errors.TooManyColumns):
            connection.execute(f"create table wider ({columns}, one_more int)")
        with pytest.raises(errors.TooManyColumns):
            connection.execute("alter table wide add column one_more int")


def test_memory_limit(start):
    """Past its memory limit a statement fails with 53200; what was there stays, the server lives."""
    server = start(environment={"FROGLET_MEMORY_LIMIT": "64MB"})
    server.run("create table t (id bigserial primary key, v text)",
               "insert into t (v) values ('first')")
    with server.connect() as connection, pytest.raises(errors.OutOfMemory):
        for _ in range(100):
            connection.execute("insert into t (v) select repeat('x', 1000) || n"
                               " from generate_series(1, 5000) as g (n)")
    assert server.value("select v from t where id = 1") == "first"
    server.run("delete from t where id > 1")
    wait_until(lambda: writes_again(server), "memory comes back after the rows have gone", 60)


def writes_again(server):
    try:
        server.run("insert into t (v) values ('again')")
        return True
    except errors.OutOfMemory:
        return False


# The wire -----------------------------------------------------------------------------------------

class Wire:
    """The protocol by hand."""

    def __init__(self, server, startup=True):
        self.socket = socket.create_connection((server.host, server.port), timeout=30)
        if startup:
            self.send_startup(user="postgres", database="postgres")
            assert self.until(b"Z")

    def send_startup(self, version=196608, **parameters):
        body = struct.pack("!i", version)
        for name, value in parameters.items():
            body += name.encode() + b"\0" + value.encode() + b"\0"
        self.raw(struct.pack("!i", len(body) + 5) + body + b"\0")

    def raw(self, data):
        self.socket.sendall(data)

    def send(self, kind, body=b""):
        self.raw(kind + struct.pack("!i", len(body) + 4) + body)

    def receive(self):
        """One message; None at the end of the stream."""
        header = self.exactly(5)
        if header is None:
            return None
        return header[:1], self.exactly(struct.unpack("!i", header[1:])[0] - 4)

    def exactly(self, count):
        data = b""
        while len(data) < count:
            try:
                more = self.socket.recv(count - len(data))
            except ConnectionResetError:
                more = b""
            if not more:
                return None
            data += more
        return data

    def until(self, kind):
        """All messages up to one of this kind; without it, up to the end."""
        seen = []
        while (message := self.receive()) is not None:
            seen.append(message)
            if message[0] == kind:
                break
        return seen

    def error(self, until=b"Z"):
        """SQLSTATE of the first error before ReadyForQuery or the end."""
        for kind, body in self.until(until):
            if kind == b"E":
                fields = dict((f[:1], f[1:]) for f in body.split(b"\0") if f)
                return fields[b"C"].decode()
        return None

    def close(self):
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def parse(name, sql, *types):
    return (name + b"\0" + sql + b"\0" + struct.pack("!h", len(types))
            + b"".join(struct.pack("!i", t) for t in types))


def bind(portal, statement, values=(), formats=(), results=()):
    body = portal + b"\0" + statement + b"\0"
    body += struct.pack("!h", len(formats)) + b"".join(struct.pack("!h", f) for f in formats)
    body += struct.pack("!h", len(values))
    for value in values:
        body += struct.pack("!i", -1) if value is None else struct.pack("!i", len(value)) + value
    return body + struct.pack("!h", len(results)) + b"".join(struct.pack("!h", f) for f in results)


SYNC = b"S\0\0\0\4"


@pytest.mark.parametrize("first", [
    b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", b"\0\0\0\0", b"\0\0\0\3abc", b"\0\0\0\x08\0\0\0\0",
    b"\xff\xff\xff\xff\0\0\0\0", b"\x7f\xff\xff\xff\0\3\0\0", b"\0\0\0\x09\0\3\0\0x",
    b"\0\0\0\x0c\0\3\0\0user", b"\0\0\0\x08\0\2\0\0", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b"", b"\0", b"\0\0\0\x10\0\3\0\0user\0\xff\xfe\0",
])
def test_bad_startup(froglet, first):
    """Whatever comes instead of a startup packet: the connection ends, perhaps with an error."""
    with Wire(froglet, startup=False) as wire:
        wire.raw(first)
        wire.socket.shutdown(socket.SHUT_WR)
        assert wire.socket.recv(10_000)[:1] in (b"", b"E")
    assert froglet.value("select 1") == 1


def test_startup_of_other_versions(froglet):
    with Wire(froglet, startup=False) as wire:
        wire.send_startup(version=3 << 16 | 99, user="postgres", database="postgres")
        kinds = [kind for kind, _ in wire.until(b"Z")]
        assert b"v" in kinds and kinds[-1] == b"Z", "a newer minor version is negotiated"
    with Wire(froglet, startup=False) as wire:
        wire.send_startup(version=4 << 16, user="postgres")
        assert wire.error() == "0A000"
    for request in (80877103, 80877104):  # SSL, GSSAPI
        with Wire(froglet, startup=False) as wire:
            wire.raw(struct.pack("!ii", 8, request))
            assert wire.exactly(1) == b"N"
            wire.send_startup(user="postgres", database="postgres")
            assert wire.until(b"Z")[-1][0] == b"Z"
    with Wire(froglet, startup=False) as wire:
        wire.send_startup(user="postgres", database="nowhere")
        assert wire.error() == "3D000"
    with Wire(froglet, startup=False) as wire:
        wire.send_startup(database="postgres")
        assert wire.error() == "28000"
    with Wire(froglet, startup=False) as wire:
        wire.raw(struct.pack("!iiii", 16, 80877102, 12345, 67890))  # a cancel of nobody
        assert wire.socket.recv(10) == b""


@pytest.mark.parametrize("message", [
    b"?\0\0\0\4", b"\0\0\0\0\0", b"Q\0\0\0\0", b"Q\0\0\0\3", b"Q\xff\xff\xff\xff", b"Q\x7f\xff\xff\xff",
    b"S\x7f\xff\xff\xff", b"p\0\0\0\5x", b"R\0\0\0\4",
])
def test_messages_that_break_the_framing(froglet, message):
    """After a broken frame nothing can be trusted: 08P01 (or 54000), and the connection ends."""
    with Wire(froglet) as wire:
        wire.raw(message + SYNC)
        state = wire.error()
        assert state in ("08P01", "54000"), state
        assert wire.receive() is None
    assert froglet.value("select 1") == 1


@pytest.mark.parametrize("messages, state", [
    ([(b"Q", b"select 1")], "08P01"),
    ([(b"Q", b"select '\xff'\0")], "22021"),
    ([(b"P", parse(b"", b"select '\xc3\x28'"))], "22021"),
    ([(b"P", b"no end")], "08P01"),
    ([(b"P", parse(b"", b"select 1; select 2"))], "42601"),
    ([(b"P", parse(b"a", b"select 1")), (b"P", parse(b"a", b"select 1"))], "42P05"),
    ([(b"P", parse(b"", b"select $1::int + $3::int")), (b"D", b"S\0")], "42P18"),
    ([(b"B", bind(b"", b"nothing"))], "26000"),
    ([(b"E", b"nothing\0\0\0\0\0")], "34000"),
    ([(b"D", b"Snothing\0")], "26000"),
    ([(b"D", b"Pnothing\0")], "34000"),
    ([(b"D", b"X\0")], "08P01"),
    ([(b"C", b"X\0")], "08P01"),
    ([(b"P", parse(b"", b"select $1::int")), (b"B", bind(b"", b""))], "08P01"),
    ([(b"P", parse(b"", b"select $1::int")), (b"B", bind(b"", b"", [b"1", b"2"]))], "08P01"),
    ([(b"P", parse(b"", b"select $1::int")), (b"B", bind(b"", b"", [b"x"]))], "22P02"),
    ([(b"P", parse(b"", b"select $1::int")), (b"B", bind(b"", b"", [b"\0\1"], [1]))], "08P01"),
    ([(b"P", parse(b"", b"select $1::int")), (b"B", bind(b"", b"", [b"\0" * 5], [1]))], "22P03"),
    ([(b"P", parse(b"", b"select $1::int")), (b"B", bind(b"", b"", [b"1"], [7]))], "22023"),
    ([(b"P", parse(b"", b"select $1::int")), (b"B", bind(b"", b"", [b"1"], [0, 0]))], "08P01"),
    ([(b"P", parse(b"", b"select 1")), (b"B", bind(b"", b"", results=[0, 0]))], "08P01"),
    ([(b"P", parse(b"", b"select $1::text")), (b"B", bind(b"", b"", [b"a\xff"]))], "22021"),
    ([(b"P", parse(b"", b"select $1::text")), (b"B", bind(b"", b"", [b"a\0b"], [1]))], "22021"),
    ([(b"P", parse(b"", b"select $1::text")), (b"B", bind(b"", b"", [b"x"])[:-3])], "08P01"),
    ([(b"P", parse(b"", b"select 1")), (b"B", b"\0\0\0\0\x7f\xff")], "08P01"),
    ([(b"P", parse(b"", b"select $1::numeric")), (b"B", bind(b"", b"", [b"\0\1"], [1]))], "08P01"),
    ([(b"P", parse(b"", b"select $1::uuid")), (b"B", bind(b"", b"", [b"\0\1"], [1]))], "08P01"),
])
def test_messages_that_say_nonsense(server, messages, state):
    """An error, everything up to Sync is skipped, and the session goes on. As PostgreSQL answers."""
    with Wire(server, startup=False) as wire:
        wire.send_startup(user="postgres", database=server.database)
        wire.until(b"Z")
        for kind, body in messages:
            wire.send(kind, body)
        if messages[-1][0] != b"Q":
            wire.raw(SYNC)
        assert wire.error() == state
        wire.send(b"Q", b"select 7\0")
        assert (b"D", b"\0\1\0\0\0\x017") in wire.until(b"Z")


@pytest.mark.parametrize("messages", [
    [(b"P", parse(b"", b"select $1::int")), (b"B", bind(b"", b"", [b"x"]))],
    [(b"P", parse(b"", b"select $1::int, $2::int")), (b"B", bind(b"p", b"", [b"1", b"x'y"], [0]))],
    [(b"P", parse(b"", b"select $1::int")), (b"B", bind(b"", b"", [b"\0\1"], [1]))],
    [(b"P", parse(b"", b"select $1::int")), (b"B", bind(b"", b"", [b"\0" * 5], [1]))],
    [(b"P", parse(b"", b"select $1::bool")), (b"B", bind(b"", b"", [b"\1\1"], [1]))],
    [(b"P", parse(b"", b"select $1::numeric")), (b"B", bind(b"", b"", [b"\0\1\0\0\0\0\0\0"], [1]))],
    [(b"P", parse(b"", b"select $1::int")), (b"B", bind(b"", b"", [None], [-1]))],
    [(b"P", parse(b"", b"select $1::int")), (b"B", bind(b"", b"", [b"1", b"2"], [0, 0, 0]))],
    [(b"P", parse(b"", b"select 1", 0, 23))],
    [(b"P", parse(b"", b"select $1 is null"))],
    [(b"P", parse(b"", b"select $2::int"))],
], ids=range(11))
def test_errors_of_parameters_read_as_in_postgres(froglet, postgres, messages):
    """The same SQLSTATE, message and context."""
    seen = []
    for server in (froglet, postgres):
        with Wire(server, startup=False) as wire:
            wire.send_startup(user="postgres", database=server.database)
            wire.until(b"Z")
            for kind, body in messages:
                wire.send(kind, body)
            wire.raw(SYNC)
            [error] = [body for kind, body in wire.until(b"Z") if kind == b"E"]
            fields = dict((f[:1], f[1:].decode()) for f in error.split(b"\0") if f)
            seen.append([fields.get(code) for code in (b"C", b"M", b"W")])
    assert seen[0] == seen[1]


def test_messages_out_of_place(froglet):
    """COPY messages without a COPY are ignored; Flush and Sync twice do no harm; limits of Execute."""
    with Wire(froglet) as wire:
        wire.send(b"d", b"data")
        wire.send(b"c")
        wire.send(b"f", b"reason\0")
        wire.send(b"H")
        wire.raw(SYNC + SYNC)
        assert [k for k, _ in wire.until(b"Z")] == [b"Z"]
        assert [k for k, _ in wire.until(b"Z")] == [b"Z"]
        wire.send(b"P", parse(b"", b"values (1), (2), (3)"))
        wire.send(b"B", bind(b"p", b""))
        for limit in (2, -1, 0):
            wire.send(b"E", b"p\0" + struct.pack("!i", limit))
        wire.raw(SYNC)
        kinds = b"".join(k for k, _ in wire.until(b"Z"))
        assert kinds == b"12DDsDCCZ", kinds
        wire.send(b"Q", b"\0")
        assert [k for k, _ in wire.until(b"Z")] == [b"I", b"Z"]


def test_random_bytes(froglet):
    """A thousand connections' worth of noise, with and without a startup before it."""
    import random
    rng = random.Random(7)
    for i in range(300):
        with Wire(froglet, startup=i % 2 == 0) as wire:
            kind = rng.choice(b"QPBDECSHXdcfp").to_bytes(1, "big")
            body = rng.randbytes(rng.randint(0, 60))
            try:
                wire.raw(kind + struct.pack("!i", len(body) + rng.choice([4, 4, 4, 3, 9])) + body)
                wire.raw(rng.randbytes(rng.randint(0, 40)))
            except OSError:
                pass  # The server has closed it already.
    assert froglet.value("select 1") == 1


def test_endless_message(froglet):
    """A message announced as a gigabyte that never comes: no memory is taken for it in advance."""
    before = froglet.resident_bytes()
    wires = [Wire(froglet) for _ in range(20)]
    for wire in wires:
        wire.raw(b"Q" + struct.pack("!i", 0x3FFFFFFF) + b"select '" + b"x" * 100_000)
    assert froglet.value("select 1") == 1
    assert froglet.resident_bytes() - before < 200 << 20
    for wire in wires:
        wire.close()


# Clients that go ----------------------------------------------------------------------------------

def test_client_vanishes_in_a_transaction(froglet):
    """Its transaction is gone, its locks too; whether it idled, computed, waited or received."""
    froglet.run("create table t (id int primary key, v int)", "insert into t values (1, 0), (2, 0)")
    for last in [b"", b"select count(*) from generate_series(1, 100000000) as g (n)\0",
                 b"select * from generate_series(1, 100000000) as g (n)\0",
                 b"update t set v = 9 where id = 2\0"]:
        holder = froglet.connect()
        holder.execute("begin")
        holder.execute("update t set v = v + 1 where id = 2")
        with Wire(froglet) as wire:
            wire.send(b"Q", b"begin; update t set v = 1 where id = 1\0")
            wire.until(b"Z")
            if last:
                wire.send(b"Q", last)
        with froglet.connect() as other:
            other.execute("set lock_timeout = '30s'")
            other.execute("update t set v = 0 where id = 1")
        holder.execute("rollback")
        holder.close()
        assert froglet.rows("select * from t order by id") == [(1, 0), (2, 0)], last
    wait_until(lambda: sessions(froglet) <= 1, "the sessions of the vanished have gone")


def sessions(server):
    return server.value("select count(*) from pg_stat_activity where pid <> pg_backend_pid()"
                        " and state is not null")


def test_client_vanishes_in_a_copy(froglet):
    froglet.run("create table t (id int primary key)")
    with Wire(froglet) as wire:
        wire.send(b"Q", b"copy t from stdin\0")
        wire.until(b"G")
        wire.send(b"d", b"".join(b"%d\n" % i for i in range(5000)))
    with Wire(froglet) as wire:
        wire.send(b"Q", b"copy t from stdin\0")
        wire.until(b"G")
        wire.raw(b"d\0\0\1\0half")
    wait_until(lambda: inserts_quickly(froglet), "the keys of the vanished are free")
    assert froglet.rows("select * from t") == [(1,)]


def inserts_quickly(server):
    with server.connect() as connection:
        connection.execute("set lock_timeout = '1s'")
        try:
            connection.execute("insert into t values (1)")
            return True
        except errors.LockNotAvailable:
            return False


def test_copy_that_stops_in_the_middle(server):
    """A client that says it fails, and data that do not fit: no row of it stays."""
    with server.connect() as connection:
        connection.execute("create table t (id int primary key, v int)")
        connection.execute("insert into t values (1, 1)")
        cursor = connection.cursor()
        with pytest.raises(ValueError):
            with cursor.copy("copy t from stdin") as copy:
                copy.write("2\t2\n")
                raise ValueError("no more")
        for data, state in [
            ("2\t2\n3\n", "22P04"), ("2\t2\t2\n", "22P04"), ("2\t2\nx\t3\n", "22P02"),
            ("2\t2\n1\t1\n", "23505"), ("2\t99999999999\n", "22003"), ("\\N\t1\n", "23502"),
        ]:
            with pytest.raises(psycopg.Error) as caught, cursor.copy("copy t from stdin") as copy:
                copy.write(data)
            assert caught.value.sqlstate == state, data
        with pytest.raises(psycopg.Error) as caught:
            with cursor.copy("copy t from stdin (format binary)") as copy:
                copy.write(b"PGCOPY\n\xff\r\n\0" + b"\0" * 8 + b"\0\2\0\0")
        assert caught.value.sqlstate == "22P04"
        assert "line 2" in context_of(cursor, "copy t from stdin", "5\t5\nx\t6\n")
        assert connection.execute("select * from t").fetchall() == [(1, 1)]


def context_of(cursor, statement, data):
    with pytest.raises(psycopg.Error) as caught, cursor.copy(statement) as copy:
        copy.write(data)
    return caught.value.diag.context


# Many ---------------------------------------------------------------------------------------------

def test_five_hundred_connections(froglet):
    """All of them in a transaction at once; then they vanish, half of them without a word."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 4096)), hard))
    froglet.run("create table t (id int primary key)")
    connections = [froglet.connect() for _ in range(500)]
    for i, connection in enumerate(connections):
        connection.execute("begin")
        connection.execute("insert into t values (%s)", [i])
    assert froglet.value("select count(*) from t") == 0
    for connection in connections[::2]:
        connection.execute("commit")
    for i, connection in enumerate(connections):
        if i % 3 == 0:
            with socket.socket(fileno=connection.pgconn.socket) as raw:
                raw.shutdown(socket.SHUT_RDWR)
                raw.detach()
        connection.close()
    wait_until(lambda: sessions(froglet) == 0, "all sessions have gone")
    assert froglet.value("select count(*) from t") == 250


def test_too_many_connections(start):
    server = start(environment={"FROGLET_MAX_CONNECTIONS": "5"})
    connections = [server.connect() for _ in range(5)]
    with pytest.raises(psycopg.OperationalError, match="too many"):
        server.connect()
    connections.pop().close()
    began = time.monotonic()
    wait_until(lambda: connects(server), "a place has become free")
    assert time.monotonic() - began < 30
    for connection in connections:
        connection.close()


def connects(server):
    try:
        server.connect().close()
        return True
    except psycopg.OperationalError:
        return False


def test_slow_reader_holds_nobody_up(froglet):
    """A client that asks for much and reads nothing: others go on, the server's memory stays bounded."""
    froglet.run("create table t (id int primary key, v text)",
                "insert into t select n, repeat('x', 200) from generate_series(1, 100000) as g (n)")
    before = froglet.resident_bytes()
    slow = [Wire(froglet) for _ in range(5)]
    for wire in slow:
        wire.send(b"Q", b"select a.v from t a cross join generate_series(1, 50) as g (n)\0")
    for i in range(200):
        froglet.run(f"update t set v = 'new' where id = {i + 1}")
    assert froglet.resident_bytes() - before < 500 << 20
    for wire in slow:
        wire.close()
    assert froglet.value("select count(*) from t where v = 'new'") == 200
