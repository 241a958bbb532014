"""FOR UPDATE and FOR SHARE of joins between sessions, and snapshots that one session hands to another.

Each test runs on Froglet and on PostgreSQL 15.
"""

import threading
import time

import pytest
from psycopg import errors

JOIN = "select a.id, a.x, b.id from a join b on b.aid = a.id where a.x > 0"


@pytest.fixture
def tables(server):
    server.run("create table a (id int primary key, x int)", "create table b (id int primary key, aid int)",
               "insert into a select n, n * 10 from generate_series(1, 3) as g (n)",
               "insert into b select n, n from generate_series(1, 3) as g (n)")
    return server


def blocked(server, statement):
    """A session in a transaction of its own that waits within a statement; what it comes to."""
    seen = []

    def run():
        with server.connect() as connection:
            connection.execute("begin")
            try:
                seen.append(connection.execute(statement).fetchall())
            except errors.Error as error:
                seen.append(type(error))
            connection.execute("rollback")

    thread = threading.Thread(target=run)
    thread.start()
    time.sleep(0.5)
    assert not seen, "it waits"
    return thread, seen


@pytest.mark.parametrize("change, seen", [
    ("update a set x = 99 where id = 1", [(1, 99, 1)]), ("update a set x = -1 where id = 1", []),
    ("delete from a where id = 1", []), ("select 1", [(1, 10, 1)]),
])
def test_a_row_that_has_changed_is_looked_at_again(tables, change, seen):
    with tables.connect() as connection:
        connection.execute("begin")
        connection.execute("select * from a where id = 1 for update")
        connection.execute(change)
        thread, found = blocked(tables, f"{JOIN} and a.id = 1 for update of a")
        connection.execute("commit")
        thread.join(20)
        assert found == [seen]


def test_repeatable_read_refuses_a_row_that_has_changed(tables):
    with tables.connect() as connection, tables.connect() as other:
        other.execute("begin isolation level repeatable read")
        other.execute("select * from a")
        connection.execute("update a set x = 11 where id = 1")
        with pytest.raises(errors.SerializationFailure):
            other.execute(f"{JOIN} for update of a")


def test_skip_locked_goes_on_to_others(tables):
    with tables.connect() as connection, tables.connect() as other:
        connection.execute("begin")
        assert connection.execute(f"{JOIN} order by a.id limit 1 for update of a").fetchall() == [(1, 10, 1)]
        other.execute("begin")
        take = f"{JOIN} order by a.id limit 1 for update of a skip locked"
        assert other.execute(take).fetchall() == [(2, 20, 2)]
        assert other.execute(f"{JOIN} order by a.id offset 1 for update of a skip locked").fetchall() == [(3, 30, 3)]
        assert other.execute(f"{JOIN} order by a.id for update of b skip locked").fetchall() == [
            (1, 10, 1), (2, 20, 2), (3, 30, 3)]
        with pytest.raises(errors.LockNotAvailable):
            other.execute(f"{JOIN} order by a.id for update of a nowait")


def test_shared_rows_are_for_several(tables):
    with tables.connect() as connection, tables.connect() as other:
        for each in (connection, other):
            each.execute("begin")
            assert len(each.execute(f"{JOIN} for share of a").fetchall()) == 3
        with pytest.raises(errors.LockNotAvailable):
            other.execute(f"{JOIN} for update of a nowait")


def test_an_exported_snapshot(tables):
    with tables.connect() as exporter, tables.connect() as other:
        exporter.execute("begin isolation level repeatable read")
        exporter.execute("insert into a values (4, 40)")
        [[name]] = exporter.execute("select pg_export_snapshot()")
        tables.run("insert into a values (5, 50)", "update a set x = 0 where id = 1")
        other.execute("begin isolation level repeatable read read only")
        other.execute(f"set transaction snapshot '{name}'")
        assert other.execute("select id, x from a order by id").fetchall() == [(1, 10), (2, 20), (3, 30)]
        assert exporter.execute("select count(*) from a").fetchall() == [(4,)]
        with pytest.raises(errors.ActiveSqlTransaction):
            other.execute(f"set transaction snapshot '{name}'")
        other.execute("rollback")
        exporter.execute("commit")
        other.execute("begin isolation level repeatable read read only")
        with pytest.raises((errors.InvalidParameterValue, errors.UndefinedObject)):
            other.execute(f"set transaction snapshot '{name}'")
        other.execute("rollback")
        assert other.execute("select count(*) from a").fetchall() == [(5,)]
        other.execute("begin")
        with pytest.raises(errors.FeatureNotSupported):
            other.execute("set transaction snapshot 'x'")


TAKE = "(select id from jobs where state = 'new' order by id limit 3 for update skip locked)"
TAKE_LAST = TAKE.replace("limit 3 for update skip locked", "for update skip locked limit 3")
QUEUES = {
    "update": f"update jobs set state = 'done' where id in {TAKE} returning id",
    "delete": f"delete from jobs where id = any (array{TAKE}) returning id",
    "with": f"with taken as {TAKE} update jobs j set state = 'done' from taken t where t.id = j.id returning j.id",
    "limit last": f"delete from jobs where id in {TAKE_LAST} returning id",
}


@pytest.mark.parametrize("take", QUEUES.values(), ids=QUEUES)
def test_workers_of_a_queue_take_each_job_once(server, take):
    server.run("create table jobs (id int primary key, state text default 'new')",
               "insert into jobs select g from generate_series(1, 300) g")
    taken, failures = [], []

    def work():
        with server.connect() as connection:
            while True:
                try:
                    jobs = [job for [job] in connection.execute(take).fetchall()]
                except errors.Error as error:
                    failures.append(error)
                    return
                if not jobs and connection.execute("select 1 from jobs where state = 'new'").fetchone() is None:
                    return
                taken.extend(jobs)

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert not failures
    assert sorted(taken) == list(range(1, 301))


def test_a_subquery_leaves_out_what_others_hold(server):
    server.run("create table jobs (id int primary key, state text default 'new')",
               "insert into jobs select g from generate_series(1, 4) g")
    with server.connect() as one, server.connect() as other:
        one.execute("begin")
        assert one.execute(f"select id from {TAKE} as s order by id").fetchall() == [(1,), (2,), (3,)]
        other.execute("begin")
        assert other.execute(f"delete from jobs where id in {TAKE} returning id").fetchall() == [(4,)]
        with pytest.raises(errors.LockNotAvailable):
            other.execute("with n as (select 1 from jobs for share nowait) select count(*) from n")
        other.execute("rollback")
        one.execute("rollback")
        assert other.execute("select count(*) from jobs where state = 'new'").fetchall() == [(4,)]
        other.execute("rollback")
        other.execute("begin read only")
        with pytest.raises(errors.ReadOnlySqlTransaction, match="SELECT FOR UPDATE"):
            other.execute("with n as (select id from jobs for update) select * from n")
