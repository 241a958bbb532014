"""`SET froglet.as_of`: the data of a time gone by, under the schema of that time, for as long as it is kept."""

import threading
import time
from datetime import datetime, timezone

import psycopg
import pytest
from psycopg import errors

STEP = 0.25  # More than twice the interval at which the server samples the past.


@pytest.fixture
def kept(start):
    server = start(arguments=("--set", "froglet.retention=1min"))
    yield server
    server.stop()


def now(connection):
    """A time that is after everything committed so far, and before everything to come."""
    time.sleep(STEP)
    [[at]] = connection.execute("select now()::text").fetchall()
    time.sleep(STEP)
    return at


def as_of(connection, at):
    connection.execute(f"set froglet.as_of = '{at}'")


def test_data_and_schema_of_each_time(kept):
    with kept.connect() as c:
        c.execute("create table t (id int primary key, v int)")
        c.execute("insert into t values (1, 10), (2, 20)")
        first = now(c)
        c.execute("update t set v = v + 1")
        c.execute("delete from t where id = 2")
        second = now(c)
        c.execute("begin")
        c.execute("alter table t rename column v to w")
        c.execute("alter table t add column x bigint generated always as (w * 2) stored")
        c.execute("create unique index on t (x)")
        c.execute("create table copy as select * from t")
        c.execute("insert into t values (3, 30)")
        c.execute("commit")
        third = now(c)
        c.execute("drop table t")
        c.execute("create table t (other text)")

        def rows(query):
            return c.execute(query).fetchall()

        for _ in range(2):
            as_of(c, first)
            assert rows("select * from t order by id") == [(1, 10), (2, 20)]
            assert rows("select v from t where id = 2") == [(20,)]
            with pytest.raises(errors.UndefinedTable):
                rows("select * from copy")
            as_of(c, second)
            assert rows("select * from t") == [(1, 11)]
            assert rows("select v from t where id = 2") == []
            as_of(c, third)
            assert rows("select * from t order by id") == [(1, 11, 22), (3, 30, 60)]
            assert rows("select id from t where x = 60") == [(3,)]
            assert rows("select sum(t.x) from t join copy using (id)") == [(22,)]
            assert rows("select column_name from information_schema.columns "
                        "where table_name = 't' order by ordinal_position") == [
                            ("id",), ("w",), ("x",)]
            as_of(c, "")
            assert rows("select * from t") == []


def test_a_transaction_stays_where_it_began(kept):
    with kept.connect() as c, kept.connect() as other:
        c.execute("create table t (v int)")
        c.execute("insert into t values (1)")
        then = now(c)
        c.execute("update t set v = 2")
        as_of(c, then)
        for isolation in "read committed", "repeatable read":
            c.execute(f"begin isolation level {isolation}")
            assert c.execute("select v from t").fetchall() == [(1,)]
            other.execute("update t set v = v + 1")
            assert c.execute("select v from t").fetchall() == [(1,)]
            with pytest.raises(errors.ActiveSqlTransaction):
                c.execute("set froglet.as_of = ''")
            c.execute("rollback")
        c.execute("reset froglet.as_of")
        assert c.execute("select v from t").fetchall() == [(4,)]


def test_so_long_ago(kept):
    with kept.connect() as c:
        c.execute("create table t (v int)")
        c.execute("insert into t values (1)")
        time.sleep(2)
        c.execute("update t set v = 2")
        for ago in "1s", "-1s", "1 second", "1000 ms":
            as_of(c, ago)
            assert c.execute("select v from t").fetchall() == [(1,)], ago
        time.sleep(1.5)
        assert c.execute("select v from t").fetchall() == [(2,)], "the time goes with the clock"


@pytest.mark.parametrize("statement", [
    "insert into t values (1)", "update t set v = 1", "delete from t", "truncate t",
    "alter table t add column w int", "create table u (v int)", "select * from t for update",
    "copy t from stdin"])
def test_the_past_is_not_written(kept, statement):
    with kept.connect() as c:
        c.execute("create table t (v int)")
        as_of(c, now(c))
        with pytest.raises(errors.ReadOnlySqlTransaction):
            if statement.startswith("copy"):
                with c.cursor().copy(statement) as copy:
                    copy.write("1\n")
            else:
                c.execute(statement)


@pytest.mark.parametrize("call", ["nextval('s')", "setval('s', 7)"])
def test_sequences_have_no_past(kept, call):
    with kept.connect() as c:
        c.execute("create sequence s")
        c.execute("select nextval('s')")
        as_of(c, now(c))
        with pytest.raises(errors.ReadOnlySqlTransaction):
            c.execute(f"select {call}")
        as_of(c, "")
        assert c.execute("select nextval('s')").fetchall() == [(2,)]


def test_prepared_statements_are_planned_again(kept):
    with kept.connect() as c:
        c.execute("create table t (id int primary key, v int)")
        c.execute("insert into t values (1, 10)")
        then = now(c)
        c.execute("alter table t drop column v")
        c.execute("alter table t add column v int default 7")
        for _ in range(3):
            for at, v in (("", 7), (then, 10)):
                as_of(c, at)
                got = c.execute("select v from t where id = %s", [1], prepare=True).fetchall()
                assert got == [(v,)]


def test_what_is_not_kept_and_what_is_no_time(kept, froglet):
    with kept.connect() as c:
        as_of(c, "1 hour")
        with pytest.raises(psycopg.Error) as failed:
            c.execute("select 1 from pg_class")
        assert failed.value.sqlstate == "72000" and "It is kept from" in failed.value.diag.message_detail
        as_of(c, "2100-01-01")
        with pytest.raises(errors.InvalidParameterValue, match="to come"):
            c.execute("select 1 from pg_class")
        for wrong in "yesterday or so", "5 parsecs", "1s 2s":
            with pytest.raises(errors.InvalidParameterValue, match="invalid value"):
                as_of(c, wrong)
        with pytest.raises(errors.CantChangeRuntimeParam):
            c.execute("set froglet.retention = '1h'")
    with froglet.connect() as c:
        as_of(c, "1s")
        with pytest.raises(psycopg.Error) as failed:
            c.execute("select 1 from pg_class")
        assert failed.value.sqlstate == "72000" and "froglet.retention" in failed.value.diag.message_hint


def test_it_goes_when_its_time_is_over(start):
    server = start(arguments=("--set", "froglet.retention=1s"))
    with server.connect() as c:
        c.execute("create table t (v int)")
        c.execute("insert into t values (1)")
        then = now(c)
        c.execute("update t set v = 2")
        as_of(c, then)
        deadline = time.monotonic() + 30
        with pytest.raises(psycopg.Error) as failed:
            while time.monotonic() < deadline:
                assert c.execute("select v from t").fetchall() == [(1,)]
        assert failed.value.sqlstate == "72000"


def test_a_sum_is_the_same_at_every_time(kept):
    """Transfers between rows under schema changes: as of any time, nothing is lost or torn."""
    kept.run("create table t (id int primary key, v bigint)",
             "insert into t select x, 100 from generate_series(1, 500) as g(x)")
    begun, done = time.time(), threading.Event()

    def transfers(seed):
        with kept.connect() as c:
            n = seed
            while not done.is_set():
                n = (n * 7919 + 13) % 500
                first, second = sorted([n + 1, (n + 250) % 500 + 1])  # no deadlocks
                c.execute("begin")
                c.execute("update t set v = v - 1 where id = %s", [first])
                c.execute("update t set v = v + 1 where id = %s", [second])
                c.execute("commit")

    def changes():
        with kept.connect() as c:
            for n in range(1000):
                if done.is_set():
                    return
                c.execute(f"alter table t add column c{n} bigint generated always as (v + {n}) stored")
                if n:
                    c.execute(f"alter table t drop column c{n - 1}")

    failures = []

    def guarded(work, *arguments):
        try:
            work(*arguments)
        except psycopg.Error as error:
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=work)
               for work in ((transfers, 1), (transfers, 2), (changes,))]
    for thread in threads:
        thread.start()
    time.sleep(2)
    with kept.connect() as c:
        for step in range(40):
            at = begun + 1 + (time.time() - begun - 1) * step / 40
            as_of(c, datetime.fromtimestamp(at, timezone.utc).isoformat(" "))
            c.execute("begin")
            [[total, rows]] = c.execute("select sum(v), count(*) from t").fetchall()
            assert (total, rows) == (50_000, 500)
            filled = [name for [name] in c.execute(
                "select column_name from information_schema.columns "
                "where table_name = 't' and column_name like 'c%'").fetchall()]
            for name in filled:
                [[wrong]] = c.execute(
                    f"select count(*) from t where {name} <> v + {name[1:]}").fetchall()
                assert wrong == 0
            c.execute("commit")
    done.set()
    for thread in threads:
        thread.join(60)
    assert not failures
