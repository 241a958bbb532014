"""Tables on disk and `memory_limit`: what they may take is on the account, and who has no memory left gets out by them."""

import pytest
from psycopg import errors

from support.processes import wait_until

LIMIT_MB = 64


def limited(start):
    return start(arguments=["--memory-limit", f"{LIMIT_MB}MB"])


def fill_up(connection, table):
    """Inserts until there is no memory; how many rows there are then."""
    rows = connection.execute(f"select coalesce(max(id), 0) from {table}").fetchone()[0]
    while True:
        try:
            connection.execute(f"insert into {table} select g + %s, rpad(md5(g::text), 400, 'x') from generate_series(1, 2000) g", [rows])
        except errors.OutOfMemory:
            return rows
        rows += 2000
        assert rows < LIMIT_MB * 25_000, "it never ends"


def room(connection):
    """How many rows fit into a table in memory that is dropped again. What was there before goes in its own time."""
    in_memory = "select memory_bytes from froglet.engines where engine = 'memory'"
    wait_until(lambda: connection.execute(in_memory).fetchone()[0] < LIMIT_MB << 15, "what was dropped is gone")
    connection.execute("create table filler (id bigint primary key, v text)")
    rows = fill_up(connection, "filler")
    connection.execute("drop table filler")
    return rows


def test_what_they_may_take_is_on_the_account(start):
    """From the first to the last, and after a restart in between."""
    server = limited(start)
    with server.connect() as connection:
        without = room(connection)
        for home in ("disk", "disk", "memory"):
            connection.execute(f"create table t{home} (id int primary key) using {home}")
            connection.execute(f"drop table t{home}")
        connection.execute("create table one (id int primary key) using disk")
        connection.execute("create table two (id int primary key) using disk")
        taken = without - room(connection)
        assert 0.05 * without < taken < 0.3 * without, (without, taken)
    server.kill_and_restart()
    with server.connect() as connection:
        assert abs(without - taken - room(connection)) < 0.1 * without
        connection.execute("drop table one")
        assert abs(without - taken - room(connection)) < 0.1 * without
        connection.execute("drop table two")
        wait_until(lambda: room(connection) > without - 0.6 * taken, "the memory comes back", seconds=120)


@pytest.mark.parametrize("mode", ["eager", "lazy"])
def test_who_has_no_memory_left_moves_a_table_to_disk(start, mode):
    server = limited(start)
    with server.connect() as connection:
        connection.execute("create table kept (id bigint primary key, v text)")
        connection.execute("insert into kept values (1, 'kept')")
        connection.execute("create table large (id bigint primary key, v text)")
        rows = fill_up(connection, "large")
        connection.execute(f"set froglet.migration = {mode}")
        connection.execute("alter table large set access method disk")
        under_way = "select count(*) from froglet.migrations where phase not in ('done', 'aborted')"
        wait_until(lambda: connection.execute(under_way).fetchone() == (0,), "it is moved")
        wait_until(lambda: inserted(connection, "kept"), "there is memory again")
        assert connection.execute("select count(*) from large").fetchone() == (rows,)
        connection.execute("insert into large values (-1, 'on disk')")


def inserted(connection, table):
    try:
        connection.execute(f"insert into {table} select coalesce(max(id), 0) + 1, rpad('', 100000, 'x') from {table}")
    except errors.OutOfMemory:
        return False
    return True


def test_what_else_can_be_done_with_full_memory(start):
    """What makes room, and what writes only the catalog."""
    server = limited(start)
    with server.connect() as connection:
        for table in ("other", "large"):
            connection.execute(f"create table {table} (id bigint primary key, v text, n int)")
        for statement in ("create table small (id int)", "alter table large rename column n to m", "create view w as select id from large",
                          "comment on table large is 'full'", "create role reader", "grant select on large to reader",
                          "alter table large drop column m", "drop view w", "drop table small", "truncate other",
                          "delete from large where id <= 2000", "truncate large", "drop table large"):
            fill_up(connection, "large")
            try:
                connection.execute(statement)
            except errors.OutOfMemory as error:
                pytest.fail(f"{statement}: {error}")
        wait_until(lambda: inserted(connection, "other"), "there is memory again")


def test_a_cache_that_is_more_than_half_of_the_memory_is_refused(start):
    server = start(ready=False, arguments=["--memory-limit", "64MB"], environment={"FROGLET_DISK_CACHE": "40MB"})
    told = server.refusal()
    assert "disk_cache (41943040 bytes) is more than half of memory_limit (67108864 bytes)" in told
