"""Advisory locks, on Froglet and on PostgreSQL 15."""

import threading
import time

import pytest
from psycopg import errors

from support.processes import wait_until

WAITING = "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and wait_event = 'advisory'"
OWN = "select mode, objsubid, classid, objid, granted from pg_locks where locktype = 'advisory' order by 1, 2, 3, 4, 5"


class Blocked:
    """A statement under way on a connection of its own, which has something to wait for."""

    def __init__(self, server, connection, statement):
        self.connection, self.error, self.rows = connection, None, None
        before = server.value(WAITING)
        self.thread = threading.Thread(target=self.run, args=(statement,))
        self.thread.start()
        wait_until(lambda: server.value(WAITING) > before or not self.thread.is_alive(), f"{statement} waits")

    def run(self, statement):
        try:
            self.rows = self.connection.execute(statement).fetchall()
        except errors.Error as error:
            self.error = error

    def end(self):
        self.thread.join(60)
        assert not self.thread.is_alive(), "it waits for ever"
        return self.error.sqlstate if self.error else self.rows


def test_who_waits_goes_on_when_the_lock_is_let_go(server):
    with server.connect() as one, server.connect() as two, server.connect() as three:
        one.execute("select pg_advisory_lock(1)")
        waiters = [Blocked(server, c, "select pg_advisory_lock_shared(1), 7") for c in (two, three)]
        assert server.value("select count(*) from pg_locks where locktype = 'advisory' and not granted") == 2
        assert one.execute("select pg_advisory_unlock(1)").fetchone() == (True,)
        assert [waiter.end() for waiter in waiters] == [[("", 7)]] * 2
        assert one.execute("select pg_try_advisory_lock(1), pg_try_advisory_lock_shared(1)").fetchone() == (False, True)
        assert server.rows(OWN) == [("ShareLock", 1, 0, 1, True)] * 3


def test_a_lock_of_many_rows_waits_in_the_middle(server):
    """The function has taken locks before the one that it waits for."""
    server.run("create table t (a int primary key)", "insert into t values (1), (2), (3)")
    with server.connect() as one, server.connect() as two:
        one.execute("select pg_advisory_lock(2)")
        waiter = Blocked(server, two, "select a, pg_advisory_lock(a) from t order by a")
        assert one.execute("select pg_try_advisory_lock(1), pg_try_advisory_lock(3)").fetchone() == (False, True)
        one.execute("select pg_advisory_unlock_all()")
        assert waiter.end() == [(1, ""), (2, ""), (3, "")]
        assert [row[3] for row in server.rows(OWN)] == [1, 2, 3]
        for a in (1, 2, 3):
            assert two.execute("select pg_advisory_unlock(%s)", (a,)).fetchone() == (True,)
        assert server.rows(OWN) == []


def test_each_key_and_each_level_by_itself(server):
    with server.connect() as one, server.connect() as two:
        one.execute("select pg_advisory_lock(1, 2), pg_advisory_lock(4294967298), pg_advisory_lock_shared(-1)")
        answers = two.execute("""select pg_try_advisory_lock(1, 2), pg_try_advisory_lock(4294967298),
            pg_try_advisory_lock_shared(-1), pg_try_advisory_lock(2, 1), pg_try_advisory_lock(-1)""").fetchone()
        assert answers == (False, False, True, True, False)
        held = one.execute(OWN).fetchall()
        assert ("ExclusiveLock", 1, 1, 2, True) in held and ("ExclusiveLock", 2, 1, 2, True) in held
        assert ("ShareLock", 1, 4294967295, 4294967295, True) in held
        # What is not held is not let go, and says so.
        notices = []
        two.add_notice_handler(lambda notice: notices.append((notice.sqlstate, notice.message_primary)))
        assert two.execute("select pg_advisory_unlock(1, 2), pg_advisory_unlock(-1)").fetchone() == (False, False)
        assert notices == [("01000", "you don't own a lock of type ExclusiveLock")] * 2
        assert two.execute("select pg_try_advisory_lock(null)").fetchone() == (None,)
        with pytest.raises(errors.DatabaseError):
            two.execute("select pg_advisory_lock(1, 2, 3)")


def test_locks_of_a_transaction_end_with_it(server):
    with server.connect() as one, server.connect() as two:
        tried = "select pg_try_advisory_xact_lock(1), pg_try_advisory_xact_lock(2), pg_try_advisory_xact_lock(3)"
        for end in ("commit", "rollback"):
            one.execute("begin")
            one.execute("select pg_advisory_xact_lock(1)")
            one.execute("savepoint s")
            one.execute("select pg_advisory_xact_lock(2), pg_advisory_lock(3)")
            assert two.execute(tried).fetchone() == (False, False, False)
            one.execute("rollback to s")
            assert two.execute(tried).fetchone() == (False, True, False)
            assert one.execute("select pg_advisory_unlock(1), pg_advisory_unlock(3)").fetchone() == (False, True)
            one.execute(end)
            assert two.execute(tried).fetchone() == (True, True, True)
        one.execute("begin")
        one.execute("select pg_advisory_xact_lock(1)")
        with pytest.raises(errors.DivisionByZero):
            one.execute("select 1 / 0")
        assert two.execute(tried).fetchone() == (True, True, True)
        one.execute("rollback")
        # In a transaction of one statement it is let go at once.
        one.execute("select pg_advisory_xact_lock(1)")
        assert two.execute(tried).fetchone() == (True, True, True)


def test_waits_end_by_limits_and_requests(server):
    with server.connect() as one, server.connect() as two:
        one.execute("select pg_advisory_lock(1)")
        two.execute("set lock_timeout = '50ms'")
        with pytest.raises(errors.LockNotAvailable):
            two.execute("select pg_advisory_lock(1)")
        two.execute("set lock_timeout = 0")
        two.execute("set statement_timeout = '50ms'")
        with pytest.raises(errors.QueryCanceled):
            two.execute("select pg_advisory_lock(1)")
        two.execute("set statement_timeout = 0")
        waiter = Blocked(server, two, "select pg_advisory_lock(1)")
        two.cancel()
        assert waiter.end() == "57014"
        assert server.value("select count(*) from pg_locks where locktype = 'advisory'") == 1
        waiter = Blocked(server, two, "select pg_advisory_xact_lock(1)")
        one.close()
        assert waiter.end() == [("",)]


@pytest.mark.parametrize("lock", ["pg_advisory_lock", "pg_advisory_xact_lock"])
def test_a_circle_is_broken(server, lock):
    """Of two that wait for each other one fails, also where one waits for a row."""
    server.run("create table t (a int primary key, b int)", "insert into t values (1, 1)")
    for crossing in (f"select {lock}(2)", "update t set b = b + 1 where a = 1 returning b"):
        with server.connect() as one, server.connect() as two:
            one.execute("begin")
            two.execute("begin")
            one.execute(f"select {lock}(1)")
            two.execute(crossing)
            waiting = Blocked(server, two, f"select {lock}(1)")
            closing = Blocked(server, one, crossing)
            # PostgreSQL lets either of them fail; with it the other goes on.
            wait_until(lambda: closing.error or waiting.error, "the circle is found")
            for blocked in (closing, waiting):
                if blocked.error:
                    assert blocked.end() == "40P01"
                    blocked.connection.execute("rollback")
                    blocked.connection.execute("select pg_advisory_unlock_all()")
            assert sum(isinstance(blocked.end(), list) for blocked in (closing, waiting)) == 1
            one.execute("rollback")
            two.execute("rollback")


def test_discard_all_lets_go(server):
    with server.connect() as one, server.connect() as two:
        one.execute("select pg_advisory_lock(1)")
        one.execute("discard all")
        assert two.execute("select pg_try_advisory_lock(1)").fetchone() == (True,)


def test_a_mutex_of_many(server):
    """Each increments a counter that only the lock protects."""
    server.run("create table t (a int primary key, b int)", "insert into t values (1, 0)")
    failures = []

    def work():
        with server.connect() as connection:
            for _ in range(20):
                connection.execute("select pg_advisory_lock(42)")
                [[b]] = connection.execute("select b from t").fetchall()
                time.sleep(0.001)
                connection.execute("update t set b = %s", (b + 1,))
                if connection.execute("select pg_advisory_unlock(42)").fetchone() != (True,):
                    failures.append("it was not held")

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not failures and server.value("select b from t") == 120
