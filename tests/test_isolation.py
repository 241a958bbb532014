"""Isolation between transactions: what each may and may not see of the others.

The anomalies are those of Hermitage (G0 … G2); the stories are in `stories/isolation`, and each is
played on Froglet and on PostgreSQL 15, which proves what they expect. What cannot be told as a
story, because it is either session's turn to lose, is below.
"""

import threading

import psycopg
import pytest
from psycopg import errors

from support import story
from support.processes import wait_until


@pytest.mark.parametrize("told", story.every("isolation"))
def test_story(server, told):
    told.play(server)


def two_rows(server):
    server.run(
        "create table test (id int primary key, value int)",
        "insert into test values (1, 10), (2, 20)",
    )


def test_deadlock(server):
    """Two transactions wait for each other: exactly one is told 40P01, the other goes on."""
    two_rows(server)
    together = threading.Barrier(2, timeout=30)
    outcomes = []

    def crosswise(first, second):
        with server.connect(autocommit=False) as connection:
            connection.execute("update test set value = value + 1 where id = %s", [first])
            together.wait()
            try:
                connection.execute("update test set value = value + 1 where id = %s", [second])
                connection.commit()
                outcomes.append("committed")
            except errors.DeadlockDetected:
                connection.rollback()
                outcomes.append("deadlock")

    run_together((crosswise, 1, 2), (crosswise, 2, 1))
    assert sorted(outcomes) == ["committed", "deadlock"]
    assert server.rows("select value from test order by id") == [(11,), (21,)]


def test_deadlock_of_three(server):
    """A circle of three, closed by a row lock: at least one loses, the others go on."""
    server.run(
        "create table test (id int primary key, value int)",
        "insert into test values (1, 0), (2, 0), (3, 0)",
    )
    together = threading.Barrier(3, timeout=30)
    outcomes = []

    def step_on(first, second):
        with server.connect(autocommit=False) as connection:
            connection.execute("update test set value = value + 1 where id = %s", [first])
            together.wait()
            try:
                connection.execute("select * from test where id = %s for update", [second])
                connection.commit()
                outcomes.append("committed")
            except errors.DeadlockDetected:
                connection.rollback()
                outcomes.append("deadlock")

    run_together((step_on, 1, 2), (step_on, 2, 3), (step_on, 3, 1))
    assert sorted(outcomes) == ["committed", "committed", "deadlock"]
    assert server.value("select sum(value) from test") == 2


def test_idle_in_transaction_session_timeout(server):
    """A client that falls asleep in a transaction loses its connection, and others its locks."""
    two_rows(server)
    sleeper = server.connect()
    sleeper.execute("set idle_in_transaction_session_timeout = '200ms'")
    sleeper.execute("begin")
    sleeper.execute("update test set value = 99 where id = 1")
    with server.connect() as other:
        other.execute("update test set value = 11 where id = 1")
    with pytest.raises(psycopg.Error, match="idle-in-transaction timeout") as caught:
        sleeper.execute("select 1")
    assert caught.value.sqlstate == "25P03"
    assert sleeper.closed
    assert server.value("select value from test where id = 1") == 11


def test_idle_outside_a_transaction_is_no_reason(server):
    """The timeout is for transactions only: an idle session stays."""
    with server.connect() as connection:
        connection.execute("set idle_in_transaction_session_timeout = '50ms'")
        waiting = server.connect()
        waiting.execute("set statement_timeout = '300ms'")
        with pytest.raises(errors.QueryCanceled):
            waiting.execute(FOREVER)
        waiting.close()
        assert connection.execute("select 1").fetchone() == (1,)


FOREVER = """
    with n as (select * from (values (0),(1),(2),(3),(4),(5),(6),(7),(8),(9)) as d (n))
    select sum(sqrt(a.n + b.n + c.n + d.n + e.n + f.n + g.n + h.n + i.n + j.n + k.n))
    from n a, n b, n c, n d, n e, n f, n g, n h, n i, n j, n k
"""


def test_statement_timeout_ends_a_computation(server):
    """57014 in the middle of a computation that would take hours; the session goes on."""
    with server.connect() as connection:
        connection.execute("set statement_timeout = '300ms'")
        with pytest.raises(errors.QueryCanceled, match="statement timeout"):
            connection.execute(FOREVER)
        assert connection.execute("select 1").fetchone() == (1,)


def test_cancel_ends_a_computation_and_a_wait(server):
    """A cancel request reaches a statement that computes and one that waits for a row."""
    two_rows(server)
    with server.connect() as holder, server.connect() as victim:
        holder.execute("begin")
        holder.execute("update test set value = 0 where id = 1")
        for statement in (FOREVER, "update test set value = 1 where id = 1"):
            outcome = []

            def run():
                try:
                    victim.execute(statement)
                except psycopg.Error as error:
                    outcome.append(error.sqlstate)

            thread = threading.Thread(target=run)
            thread.start()

            def cancelled():
                # The first request may come before the statement does, and is then void.
                victim.cancel_safe(timeout=10)
                return outcome

            wait_until(cancelled, f"{statement} is cancelled")
            thread.join()
            assert outcome == ["57014"]
        holder.execute("rollback")


def run_together(*calls):
    """Each call in a thread of its own; all of them must end, without an exception."""
    failures = []

    def guarded(call, *arguments):
        try:
            call(*arguments)
        except BaseException as error:  # noqa: BLE001: shown below, in the main thread
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=call) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive(), "a session hangs"
    assert not failures, failures


def test_what_is_held_for_share_does_not_change(server):
    """Sharers and writers of the same rows at once: a sharer reads the same as long as it holds, and
    no write is lost."""
    two_rows(server)
    rounds, wrong, written = 60, [], []

    def share(seed):
        with server.connect(autocommit=False) as connection:
            for i in range(rounds):
                row = (i + seed) % 2 + 1
                first = connection.execute(
                    "select value from test where id = %s for share", [row]).fetchone()
                for _ in range(3):
                    again = connection.execute("select value from test where id = %s", [row]).fetchone()
                    if again != first:
                        wrong.append((row, first, again))
                connection.commit()

    def write(seed):
        with server.connect() as connection:
            for i in range(rounds):
                connection.execute(
                    "update test set value = value + 1 where id = %s", [(i + seed) % 2 + 1])
                written.append(1)

    threads = [threading.Thread(target=work, args=[seed]) for seed in range(3) for work in (share, write)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not wrong and len(written) == 3 * rounds
    assert server.value("select sum(value) from test") == 30 + 3 * rounds
