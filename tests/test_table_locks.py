"""LOCK TABLE under load: who holds the table alone sees nobody else's writes, however these are sent.

Who waits for whom in which mode is told in `stories/isolation/table_locks.story`, on PostgreSQL, too.
"""

import threading
import time

import psycopg
import pytest
from psycopg import errors

ROUNDS, LOCKERS = 25, 3


def at_work(*works):
    """Runs each in a thread of its own; the first error of any."""
    failed = []

    def guarded(work):
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - told by the main thread
            failed.append(error)

    threads = [threading.Thread(target=guarded, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive()
    if failed:
        raise failed[0]


@pytest.mark.parametrize("mode", ["exclusive", "share row exclusive", "access exclusive"])
def test_no_update_is_lost(server, mode):
    """Lockers read and then write what they have read; others write by key without a word."""
    server.run("create table t (id int primary key, v int)", "insert into t values (1, 0)")
    written = [0]
    done = threading.Event()

    def locks():
        with server.connect(autocommit=False) as connection:
            for _ in range(ROUNDS):
                connection.execute(f"lock table t in {mode} mode")
                (v,) = connection.execute("select v from t where id = %s", [1], prepare=True).fetchone()
                connection.execute("update t set v = %s where id = %s", [v + 1, 1], prepare=True)
                connection.commit()

    def writes():
        with server.connect() as connection:
            while not done.is_set():
                connection.execute("update t set v = v + 1 where id = %s", [1], prepare=True)
                written[0] += 1

    def lockers():
        try:
            at_work(*[locks] * LOCKERS)
        finally:
            done.set()

    at_work(lockers, writes)
    assert server.value("select v from t where id = 1") == ROUNDS * LOCKERS + written[0]


def test_a_busy_table_is_locked_in_the_end(server):
    """Writers that come and go do not keep a locker waiting for ever."""
    server.run("create table t (id serial primary key, v int)")
    done = threading.Event()

    def writes():
        with server.connect(autocommit=False) as connection:
            while not done.is_set():
                connection.execute("insert into t (v) values (%s)", [1], prepare=True)
                time.sleep(0.005)
                connection.commit()

    def locks():
        try:
            with server.connect(autocommit=False) as connection:
                connection.execute("set lock_timeout = '20s'")
                for _ in range(5):
                    connection.execute("lock table t in share mode")
                    before = connection.execute("select count(*) from t").fetchone()
                    time.sleep(0.02)
                    assert connection.execute("select count(*) from t").fetchone() == before
                    connection.commit()
        finally:
            done.set()

    at_work(locks, writes, writes, writes, writes)


@pytest.mark.parametrize("statement", [
    "copy t from stdin", "copy t to stdout", "copy (select count(*) from t) to stdout", "insert into u select * from t",
    "with w as (delete from t returning a) select count(*) from w", "merge into t using u on false when not matched then insert values (9)",
    "select * from v", "declare c cursor with hold for select * from t", "create table made as select * from t",
    "select (select max(a) from t)", "truncate t", "drop table t cascade", "create index on t (a)", "select * from t for key share",
])
def test_nothing_passes_an_access_exclusive_lock(server, statement):
    server.run("create table t (a int)", "create table u (a int)", "create view v as select * from t", "insert into t values (1)")
    with server.connect(autocommit=False) as holder, server.connect() as other:
        holder.execute("lock table t")
        other.execute("set lock_timeout = '100ms'")
        with pytest.raises(errors.LockNotAvailable):
            run(other, statement)
        holder.rollback()
        run(other, statement)


def run(connection, statement):
    if not statement.startswith("copy"):
        return connection.execute(statement)
    with connection.cursor().copy(statement) as copy:
        if "from stdin" in statement:
            copy.write_row((2,))
        else:
            list(copy)


def test_a_cancelled_wait_leaves_nothing(server):
    server.run("create table t (a int)")
    with server.connect(autocommit=False) as holder, server.connect() as waiter, server.connect() as third:
        holder.execute("insert into t values (1)")
        waiter.execute("begin")
        timer = threading.Timer(0.3, waiter.cancel)
        timer.start()
        with pytest.raises(psycopg.errors.QueryCanceled):
            waiter.execute("lock table t in share mode")
        third.execute("set lock_timeout = '2s'")
        third.execute("insert into t values (2)")
        assert third.execute("select count(*) from pg_locks where not granted").fetchone() == (0,)
        waiter.execute("rollback")
        holder.commit()
