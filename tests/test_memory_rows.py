"""The memory of the rows stays within its limit, and what is gone comes back.

Each test starts a server with a limit and does what once took many times as much, or was refused for ever. The
bound is the memory that the process has (its own code, which a debug build has much of, is a file's), not what the
server says of itself.
"""

import psycopg
import pytest

from support.processes import wait_until

LIMIT_MB = 320
# Of the limit: batches on their way, and pages that the allocator keeps for a moment, are on no account.
HELD_TIMES = 1.25


def assert_bounded(server, when):
    held_mb = server.anonymous_bytes() >> 20
    assert held_mb <= HELD_TIMES * LIMIT_MB, f"{held_mb} MB {when}"


@pytest.fixture
def limited(start):
    return start(arguments=["--memory-limit", f"{LIMIT_MB}MB"])


def test_one_long_row_is_updated_for_ever(limited):
    with limited.connect() as c:
        c.execute("create table b (id int primary key, s text)")
        c.execute("insert into b values (1, repeat('a', 20000000))")
        for i in range(60):
            c.execute("update b set s = repeat('b', 20000000 + %s) where id = 1", (i,))
            assert_bounded(limited, f"after {i + 1} updates")
        assert c.execute("select length(s) from b").fetchone() == (20000059,)
        with c.transaction(force_rollback=True):
            c.execute("update b set s = repeat('c', 20000000)")
        assert c.execute("select right(s, 3) from b").fetchone() == ("bbb",)


def test_many_small_tables(limited):
    """A table costs kilobytes; when there are too many, the next is refused and the others stay."""
    columns = ", ".join(f"c{j} text" for j in range(10))
    with limited.connect() as c:
        for k in range(500):
            c.execute(f"create table n{k} (id int primary key, {columns})")
            c.execute(f"insert into n{k} (id, c0) values (1, 'x')")
        assert_bounded(limited, "after 500 tables")
        assert c.execute("select count(*) from n499").fetchone() == (1,)


def test_wide_tables(limited):
    columns = ", ".join(f"c{j} text" for j in range(1600))
    with limited.connect() as c:
        for k in range(12):
            c.execute(f"create table w{k} ({columns})")
            c.execute(f"insert into w{k} (c0) values ('x')")
            assert_bounded(limited, f"after {k + 1} tables of 1,600 columns")
        refused = None
        c.execute("insert into w0 select from generate_series(1, 100)")
        for k in range(200):
            try:
                c.execute("insert into w0 select from generate_series(1, 1000)")
            except psycopg.errors.OutOfMemory as error:
                refused = error
                break
        assert_bounded(limited, "when no more rows go in")
        assert refused is not None
        assert c.execute("select count(*) from w1").fetchone() == (1,)
        c.execute("drop table w0")
        c.execute("insert into w1 (c0) values ('y')")


def test_strings_of_any_lengths_in_one_block(limited):
    """Each is longer than the room that the others have left."""
    with limited.connect() as c:
        c.execute("create table d (id int primary key, s text)")
        lengths = [13 + n * n % 30011 for n in range(400)]
        for n, length in enumerate(lengths):
            c.execute("insert into d values (%s, repeat('s', %s))", (n, length))
        c.execute("update d set s = s || s")
        with c.transaction(force_rollback=True):
            c.execute("update d set s = 'none'")
            c.execute("delete from d where id % 2 = 0")
        expected = (400, 2 * sum(lengths))
        assert c.execute("select count(*), sum(length(s)) from d").fetchone() == expected
        c.execute("checkpoint")
    limited.kill()
    limited.start()
    assert limited.rows("select count(*), sum(length(s)) from d") == [expected]


def test_a_transaction_that_is_refused_gives_everything_back(limited):
    with limited.connect() as c:
        c.execute("create table t (id int primary key, s text)")
        for _ in range(3):
            with pytest.raises(psycopg.errors.OutOfMemory):
                c.execute(
                    "insert into t select g, repeat('x', 1000) from generate_series(1, 2000000) g"
                )
            assert_bounded(limited, "after a refusal")
            c.execute("insert into t select g, repeat('x', 1000) from generate_series(1, 20000) g")
            c.execute("delete from t")


def rows_mb(connection):
    sql = "select memory_bytes >> 20 from froglet.engines where engine = 'memory'"
    return connection.execute(sql).fetchone()[0]


# What an idle session has done with the table, which it then remembers.
USES = {
    "a query": lambda c: [c.execute("select count(*) from t"), c.execute("select 1")],
    "a prepared statement": lambda c: [c.execute("select * from t where id = %s", [i], prepare=True) for i in range(9)],
    "a statement under a name": lambda c: c.execute("prepare p as select sum(id) from t where id < 9; execute p"),
    "a cursor that is closed": lambda c: c.execute("begin; declare k cursor for select * from t; fetch 5 from k; commit"),
    "a write": lambda c: [c.execute("update t set s = 'x' where id = %s", [i]) for i in range(9)],
}


@pytest.mark.parametrize("gone", ["drop table t", "truncate t", "alter table t set access method disk"])
def test_idle_sessions_keep_no_rows_that_are_gone(froglet, gone):
    with froglet.connect() as c:
        empty = rows_mb(c)
        c.execute("create table t (id int primary key, s text)")
        c.execute("insert into t select g, repeat('x', 300) from generate_series(1, 60000) g")
        sessions = [froglet.connect() for _ in USES]
        for session, use in zip(sessions, USES.values()):
            use(session)
        full = rows_mb(c)
        assert full > empty + 20
        c.execute(gone)
        wait_until(lambda: rows_mb(c) < empty + (full - empty) // 4, "the rows' memory comes back")
        for session, name in zip(sessions, USES):
            assert session.execute("select 7").fetchone() == (7,), name
        if not gone.startswith("drop"):
            # What it has prepared is planned again.
            count = 0 if gone.startswith("truncate") else 8
            assert sessions[2].execute("execute p").fetchone() == ((36,) if count else (None,))
        for session in sessions:
            session.close()
