"""Indexes of tables that are there, and constraints on them, in a cluster: built and verified while all gateways write, and
right at all of them."""

import random
import threading
import time

import psycopg
import pytest

from support.processes import wait_until
from test_gateways import connect, refused, refused_within

ROWS = 3_000


@pytest.fixture
def pair(gateways):
    one, other = gateways(2)
    with connect(one) as a, connect(other) as b:
        yield one, other, a, b


def fill(connection, rows=ROWS):
    connection.execute("create table t (id int primary key, n int, name text)")
    connection.execute(f"insert into t select g, g % 50, 'name ' || g from generate_series(1, {rows}) g")


def plan(connection, query):
    return "\n".join(row[0] for row in connection.execute(f"explain {query}"))


def check_index(connection, index, column, table="t"):
    """Every row is found by its key, and nothing else is."""
    connection.execute("set enable_seqscan = on")
    rows = connection.execute(f"select {column}, count(*), sum(id) from {table} group by 1").fetchall()
    for key, count, ids in rows:
        if key is None:
            continue
        query = f"select count(*), sum(id) from {table} where {column} = " + (repr(key) if isinstance(key, str) else str(key))
        assert index in plan(connection, query.replace("count(*), sum(id)", "*")), plan(connection, query)
        found = connection.execute(query.replace("count(*), sum(id)", "id")).fetchall()
        assert (len(found), sum(row[0] for row in found)) == (count, ids), (key, count)


def test_an_index_is_there_at_both(pair):
    one, other, a, b = pair
    fill(a)
    a.execute("create index by_n on t (n)")
    b.execute("create unique index by_name on t (name)")
    for connection in (a, b):
        check_index(connection, "by_n", "n")
        assert connection.execute("select id from t where name = 'name 77'").fetchall() == [(77,)]
        refused(connection, "insert into t values (-1, 0, 'name 5')", "23505")
    a.execute("update t set n = n + 1000 where id % 7 = 0")
    b.execute("delete from t where id % 11 = 0")
    b.execute("alter table t add constraint named unique (id, n)")
    for connection in (a, b):
        check_index(connection, "by_n", "n")
    a.execute("drop index by_n")
    assert "by_n" not in plan(b, "select * from t where n = 3")


class Writers:
    """Sessions at each gateway, which write until they are stopped, and what they were told."""

    def __init__(self, gateways, work, each=2):
        self.stop, self.told, self.done = threading.Event(), [], 0
        self.threads = [threading.Thread(target=self.run, args=(gateway, work, number))
                        for number in range(each) for gateway in gateways]

    def run(self, gateway, work, number):
        draw = random.Random(number * 31 + gateway.port)
        with connect(gateway) as connection:
            while not self.stop.is_set():
                try:
                    work(connection, draw)
                    self.done += 1
                except Exception as error:  # noqa: BLE001  (told to the test)
                    self.told.append(error)

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        for thread in self.threads:
            thread.join()


def write_some(connection, draw):
    row, n = draw.randrange(ROWS), draw.randrange(60)
    match draw.randrange(6):
        case 0:
            connection.execute("delete from t where id = %s", (row,))
        case 1:
            connection.execute("insert into t values (%s, %s, 'new ' || %s) on conflict (id) do update set n = excluded.n",
                               (row, n, row))
        case 2:
            with connection.transaction():
                connection.execute("update t set n = %s where id = %s", (n, row))
                connection.execute("savepoint s")
                connection.execute("delete from t where id between %s and %s", (row, row + 3))
                connection.execute("rollback to s")
                connection.execute("update t set n = n + 1 where id = %s", (row,))
        case 3:
            connection.execute("update t set id = -id - 1 where id = %s", (row,))
        case _:
            connection.execute("update t set n = %s where id = %s", (n, row))


def test_nobody_waits_and_nothing_is_missed(pair):
    """Non-unique and unique indexes come and go while four sessions write; then each finds every row."""
    one, other, a, b = pair
    fill(a)
    with Writers((one, other), write_some) as writers:
        for number in range(4):
            maker, looker = (a, b) if number % 2 else (b, a)
            before = writers.done
            maker.execute(f"create index by_n{number} on t (n)")
            maker.execute(f"create unique index by_id{number} on t (id, name)")
            with maker.transaction(force_rollback=True):
                maker.execute(f"create index never{number} on t (name)")
            assert writers.done > before
            if number < 2:
                looker.execute(f"drop index by_n{number}, by_id{number}")
    assert not writers.told, writers.told[:3]
    assert writers.done > 50
    for connection in (a, b):
        check_index(connection, "by_n", "n")
        scanned = connection.execute("select id, name from t where n is not null").fetchall()
        for row in random.Random(5).sample(scanned, 60):
            assert connection.execute("select id, name from t where id = %s and name = %s", row).fetchall() == [row]


def test_who_began_before_has_his_entries_after(pair):
    one, other, a, b = pair
    fill(a, 100)
    with connect(other) as old:
        old.execute("begin")
        old.execute("insert into t values (1000, 5, 'thousand')")
        old.execute("update t set n = 777 where id = 10")
        old.execute("delete from t where id = 11")
        a.execute("create index by_n on t (n)")
        a.execute("create unique index by_name on t (name)")
        old.execute("savepoint s")
        # He goes on under the new version, and finds by the index what he wrote under the old one.
        assert old.execute("select id from t where name = 'thousand'").fetchall() == [(1000,)]
        assert old.execute("select id from t where n = 777").fetchall() == [(10,)]
        assert old.execute("select id from t where name in ('name 11', 'name 12')").fetchall() == [(12,)]
        old.execute("update t set n = 778, name = 'ten' where name = 'name 10'")
        old.execute("commit")
    for connection in (a, b):
        check_index(connection, "by_n", "n")
        assert connection.execute("select id from t where name = 'ten'").fetchall() == [(10,)]
        assert connection.execute("select id from t where name = 'name 10'").fetchall() == []
        assert connection.execute("select id from t where name = 'thousand'").fetchall() == [(1000,)]


def test_two_rows_with_a_key_are_no_unique_index(pair):
    one, other, a, b = pair
    fill(a, 200)
    b.execute("update t set name = 'same' where id in (20, 150)")
    with pytest.raises(psycopg.errors.UniqueViolation) as raised:
        a.execute("create unique index by_name on t (name)")
    assert str(raised.value).splitlines() == ['could not create unique index "by_name"',
                                              "DETAIL:  Key (name)=(same) is duplicated."]
    b.execute("update t set name = 'other' where id = 150")
    a.execute("begin")
    a.execute("create unique index by_name on t (name)")
    # Nobody is refused for an index that may never be.
    b.execute("insert into t values (500, 0, 'same')")
    refused(a, "commit", "23505")
    assert a.execute("select count(*) from pg_class where relname = 'by_name'").fetchone() == (0,)
    b.execute("delete from t where id = 500")
    a.execute("create unique index by_name on t (name)")
    refused(b, "insert into t values (500, 0, 'same')", "23505")
    assert b.execute("select id from t where name = 'same'").fetchall() == [(20,)]


def test_an_old_writer_who_would_violate_it_is_told_so(pair):
    one, other, a, b = pair
    fill(a, 100)
    with connect(other) as old:
        old.execute("begin")
        old.execute("insert into t values (1000, 5, 'name 1')")
        a.execute("create unique index by_name on t (name)")
        refused(old, "commit", "40001")
    refused(b, "insert into t values (1000, 5, 'name 1')", "23505")
    assert a.execute("select id from t where name = 'name 1'").fetchall() == [(1,)]


def test_own_rows_are_in_it(pair):
    one, other, a, b = pair
    fill(a, 100)
    with a.transaction():
        a.execute("insert into t values (1000, 7, 'own')")
        a.execute("update t set name = 'changed' where id = 1")
        a.execute("delete from t where id = 2")
        a.execute("create unique index by_name on t (name)")
        assert a.execute("select id from t where name = 'own'").fetchall() == [(1000,)]
        assert a.execute("select id from t where name = 'changed'").fetchall() == [(1,)]
        assert a.execute("select id from t where name in ('name 1', 'name 2')").fetchall() == []
        a.execute("savepoint s")
        a.execute("update t set name = 'later' where id = 3")
        a.execute("create index by_n on t (n)")
        a.execute("rollback to s")
        assert a.execute("select id from t where name = 'name 3'").fetchall() == [(3,)]
        refused_within(a, "insert into t values (2000, 1, 'own')", "23505")
    assert b.execute("select id from t where name = 'own'").fetchall() == [(1000,)]
    assert b.execute("select indexname from pg_indexes where tablename = 't' order by 1").fetchall() == [
        ("by_name",), ("t_pkey",)]
    a.execute("begin")
    a.execute("insert into t values (3000, 1, 'own 2'), (3001, 1, 'own 3')")
    a.execute("create unique index by_own on t (n, id)")
    refused(a, "create unique index by_n on t (n)", "23505")
    a.execute("rollback")


def test_a_builder_that_dies_leaves_nothing(pair):
    one, other, a, b = pair
    fill(a, 500)
    with pytest.raises(psycopg.OperationalError), connect(one) as dying:
        dying.execute("begin")
        dying.execute("create unique index by_name on t (name)")
        one.kill()
        dying.execute("select 1")
    # Its build is in nobody's way, and then it is gone.
    b.execute("insert into t values (1000, 1, 'name 5')")
    with pytest.raises(psycopg.errors.UniqueViolation):
        b.execute("create unique index by_name on t (name)")
    b.execute("delete from t where id = 1000")
    wait_until(lambda: not fails(b, "create unique index by_name on t (name)"), "it is built", 30)
    refused(b, "insert into t values (1000, 1, 'name 5')", "23505")
    check_index(b, "by_name", "name")


def fails(connection, statement):
    try:
        connection.execute(statement)
    except psycopg.Error as error:
        return error
    return None


def test_a_statement_that_is_cancelled_leaves_nothing(pair):
    one, other, a, b = pair
    fill(a, 500)
    other.pause()
    try:
        # The other one is waited for until its lease is over.
        a.execute("set statement_timeout = 700")
        refused(a, "create index by_n on t (n)", "57014")
    finally:
        other.resume()
    a.execute("set statement_timeout = 0")
    began = time.monotonic()
    a.execute("create index by_n on t (n)")
    print("built within", time.monotonic() - began)
    check_index(a, "by_n", "n")


def test_what_is_dropped_again_is_in_nobodys_way(pair):
    one, other, a, b = pair
    fill(a, 100)
    with a.transaction():
        a.execute("create unique index by_name on t (name)")
        a.execute("alter table t add constraint small check (n < 1000)")
        a.execute("drop index by_name")
        a.execute("alter table t drop constraint small")
        b.execute("insert into t values (-1, 2000, 'name 1')")
        a.execute("insert into t values (-2, 3000, 'name 2')")
    for n in range(3):
        a.execute("create unique index by_id on t (id, name)")
        a.execute("drop index by_id")
        with b.transaction():
            b.execute("insert into t values (%s, 1, 'name 1')", (-3 - n,))
    with a.transaction():
        a.execute("create unique index by_id on t (id, name)")
        a.execute("drop table t")


def test_duplicates_are_deleted_and_the_index_made_in_one_transaction(pair):
    """As a migration does it."""
    one, other, a, b = pair
    fill(a, 200)
    b.execute("update t set name = 'same' where id in (20, 30, 150)")
    b.execute("update t set n = null where id in (7, 8)")
    with a.transaction():
        a.execute("delete from t where id in (30, 150)")
        a.execute("update t set n = 0 where n is null")
        a.execute("create unique index by_name on t (name)")
        a.execute("alter table t alter column n set not null")
        assert a.execute("select id from t where name = 'same'").fetchall() == [(20,)]
    refused(b, "insert into t values (500, 0, 'same')", "23505")
    refused(b, "insert into t values (500, null, 'other')", "23502")
    assert b.execute("select count(*) from t where n is null").fetchone() == (0,)


CONSTRAINTS = (
    ("add constraint small check (n < 5000 and name <> upper(name))", "n = 5000", "23514", "small"),
    ("alter column n set not null", "n = null", "23502", None),
    ("add primary key (n, name)", "name = null", "23502", None),
)


@pytest.mark.parametrize("change, breach, state, name", CONSTRAINTS)
def test_a_constraint_holds_for_all(pair, change, breach, state, name):
    """For rows that are there, for those written meanwhile, and for those of who began before."""
    one, other, a, b = pair
    a.execute("create table t (id int, n int, name text)" if "primary" in change else
              "create table t (id int primary key, n int, name text)")
    a.execute("insert into t select g, g, 'name ' || g from generate_series(1, 2000) g")
    b.execute(f"update t set {breach} where id = 1500")
    with pytest.raises(psycopg.Error) as raised:
        a.execute(f"alter table t {change}")
    assert raised.value.sqlstate == state and "t" in str(raised.value)
    b.execute("delete from t where id = 1500")
    # Meanwhile: he is not refused, and the change fails.
    a.execute("begin")
    a.execute(f"alter table t {change}")
    b.execute(f"update t set {breach} where id = 1")
    refused(a, "commit", state)
    b.execute("delete from t where id = 1")
    with connect(other) as old, connect(other) as right:
        for session in (old, right):
            session.execute("begin")
        old.execute(f"update t set {breach} where id = 2")
        right.execute("update t set n = n + 1 where id = 3")
        a.execute(f"alter table t {change}")
        refused(old, "commit", "40001")
        right.execute("commit")
    for connection in (a, b):
        refused(connection, f"update t set {breach} where id = 2", state)
    assert b.execute("select n from t where id in (2, 3) order by id").fetchall() == [(2,), (4,)]
    if name:
        b.execute(f"alter table t drop constraint {name}")
        a.execute(f"update t set {breach} where id = 2")


def test_a_constraint_is_validated_later(pair):
    one, other, a, b = pair
    fill(a, 300)
    b.execute("alter table t add constraint small check (n < 40) not valid")
    refused(a, "alter table t validate constraint small", "23514")
    refused(b, "insert into t values (1000, 45, 'new')", "23514")
    a.execute("delete from t where n >= 40")
    b.execute("alter table t validate constraint small")
    assert a.execute("select convalidated from pg_constraint where conname = 'small'").fetchone() == (True,)
    # An index is a constraint.
    a.execute("create unique index by_name on t (name)")
    b.execute("alter table t add constraint named unique using index by_name")
    refused(a, "insert into t values (1000, 1, 'name 1')", "23505")


REFUSED = (
    ("create index on t ((n + 1))", "0A000"),
    ("create index on t (n) where n > 3", "0A000"),
    ("create unique index on t (name); alter table t alter column name type int using 7", "0A000"),
    ("alter table t add column drawn uuid default gen_random_uuid()", "0A000"),
    ("create index on t (absent)", "42703"),
    ("begin isolation level repeatable read; create index on t (n)", "0A000"),
)


def test_what_is_left_out_says_so(pair):
    one, other, a, b = pair
    fill(a, 10)
    for statements, state in REFUSED:
        with pytest.raises(psycopg.Error) as raised:
            for statement in statements.split("; "):
                a.execute(statement)
        assert raised.value.sqlstate == state, statements
        a.execute("rollback")
    # The primary key, and the one that was to be in the way.
    assert b.execute("select count(*) from pg_index where indrelid = 't'::regclass").fetchone() == (2,)
