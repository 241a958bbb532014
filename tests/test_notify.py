"""LISTEN and NOTIFY, on Froglet and on PostgreSQL 15."""

import threading

import pytest
from psycopg import errors


def told(connection, count, timeout=30):
    """So many notifications, as channel and payload, and not one more that is already there."""
    found = [(n.channel, n.payload) for n in connection.notifies(timeout=timeout, stop_after=count)] if count else []
    connection.execute("select 1")
    return found + [(n.channel, n.payload) for n in connection.notifies(timeout=0)]


def test_idle_listeners_are_told_at_once(server):
    with server.connect() as one, server.connect() as two, server.connect() as deaf:
        one.execute("listen news")
        two.execute('listen "Other"')
        two.execute("listen news")
        deaf.execute("listen silence")
        with server.connect() as speaker:
            speaker.execute("notify news, 'hello'")
            speaker.execute("""select pg_notify('Other', 'it''s'), pg_notify('news', '')""")
            pid = speaker.info.backend_pid
            notes = list(one.notifies(timeout=30, stop_after=2))
            assert [(n.channel, n.payload, n.pid) for n in notes] == [("news", "hello", pid), ("news", "", pid)]
            assert told(two, 3) == [("news", "hello"), ("Other", "it's"), ("news", "")]
        assert told(deaf, 0) == []


def test_a_session_hears_itself_with_the_statement(server):
    with server.connect() as connection:
        connection.execute("listen a")
        connection.execute("notify a, 'x'")
        assert told(connection, 1) == [("a", "x")]
        connection.execute("begin; listen b; notify b, 'y'; commit")
        assert told(connection, 1) == [("b", "y")]
        connection.execute("begin; notify a; unlisten a; commit")
        assert told(connection, 0) == []


def test_what_is_rolled_back_was_never_said(server):
    with server.connect() as ear, server.connect() as mouth:
        ear.execute("listen a")
        for text in ("begin; notify a, '1'; rollback", "notify a, '2'; select 1 / 0",
                     "begin; notify a, '3'; savepoint s; notify a, '4'; listen b; rollback to s; notify a, '5'; commit"):
            try:
                mouth.execute(text)
            except errors.DivisionByZero:
                pass
        mouth.execute("notify b")
        assert told(ear, 2) == [("a", "3"), ("a", "5")]
        assert told(mouth, 0) == []
        ear.execute("begin; unlisten *; rollback")
        mouth.execute("notify a, '6'")
        assert told(ear, 1) == [("a", "6")]


def test_the_same_twice_is_once_and_order_stays(server):
    with server.connect() as ear, server.connect() as mouth:
        ear.execute("listen a")
        mouth.execute("begin; notify a, 'x'; notify a, 'y'; notify a, 'x'; notify a; notify a, ''; commit")
        assert told(ear, 3) == [("a", "x"), ("a", "y"), ("a", "")]
        mouth.execute("select pg_notify('a', 'n' || (i % 100)) from generate_series(1, 1000) as g(i)")
        assert told(ear, 100) == [("a", f"n{i % 100}") for i in range(1, 101)]


def test_a_listener_in_a_transaction_is_told_afterwards(server):
    with server.connect() as ear, server.connect() as mouth:
        ear.execute("listen a")
        ear.execute("begin")
        mouth.execute("notify a, 'x'")
        ear.execute("select 1")
        assert list(ear.notifies(timeout=0.2)) == []
        ear.execute("commit")
        assert told(ear, 1) == [("a", "x")]


def test_channels(server):
    with server.connect() as connection:
        rows = lambda: sorted(connection.execute("select pg_listening_channels()").fetchall())  # noqa: E731
        connection.execute('listen a; listen "B"; listen a')
        assert rows() == [("B",), ("a",)]
        connection.execute("begin; listen c")
        assert rows() == [("B",), ("a",)]
        connection.execute("commit")
        assert rows() == [("B",), ("a",), ("c",)]
        connection.execute("unlisten a")
        connection.execute("unlisten nothing")
        assert rows() == [("B",), ("c",)]
        connection.execute("discard all")
        assert rows() == []


def test_names_and_payloads_have_limits(server):
    with server.connect() as ear, server.connect() as mouth:
        ear.execute("listen a")
        for wrong in ("select pg_notify('', 'x')", f"select pg_notify('{'c' * 64}', 'x')",
                      "select pg_notify('a', repeat('x', 8000))", f"notify a, '{'x' * 8000}'", "select pg_notify(null, 'x')"):
            with pytest.raises(errors.InvalidParameterValue):
                mouth.execute(wrong)
        for wrong in ("notify", "notify 'a'", "notify a, 3", "listen *", "unlisten", "listen a b"):
            with pytest.raises(errors.SyntaxError):
                mouth.execute(wrong)
        mouth.execute(f"notify a, '{'x' * 7999}'")
        mouth.execute("select pg_notify('a', null)")
        assert told(ear, 2) == [("a", "x" * 7999), ("a", "")]


def test_order_is_that_of_commits_and_nothing_is_lost(server):
    """Writers take numbers under a row's lock: whoever commits first is heard first."""
    server.run("create table t (a int primary key, n int)", "insert into t values (1, 0)")
    writers, each = 4, 25

    def write():
        with server.connect() as connection:
            for _ in range(each):
                connection.execute("begin")
                [[n]] = connection.execute("update t set n = n + 1 where a = 1 returning n").fetchall()
                connection.execute("select pg_notify('n', %s)", (str(n),))
                connection.execute("commit")

    with server.connect() as ear:
        ear.execute("listen n")
        threads = [threading.Thread(target=write) for _ in range(writers)]
        for thread in threads:
            thread.start()
        heard = [int(n.payload) for n in ear.notifies(timeout=120, stop_after=writers * each)]
        for thread in threads:
            thread.join()
        assert heard == list(range(1, writers * each + 1))


def test_listeners_come_and_go(froglet):
    """What is said to a session that has gone takes no room."""
    with froglet.connect() as mouth:
        for _ in range(50):
            ear = froglet.connect()
            ear.execute("listen a")
            ear.execute("begin")
            mouth.execute("select pg_notify('a', repeat('x', 7000) || i) from generate_series(1, 20) as g(i)")
            ear.close()
        mouth.execute("listen a")
        mouth.execute("notify a, 'last'")
        assert told(mouth, 1) == [("a", "last")]
