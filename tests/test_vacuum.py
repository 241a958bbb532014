"""VACUUM of tables on disk: old versions go, files become small, and nobody else notices (docs/disk.md).

A background thread writes files again by itself when a third of what they have, and more than 20,000 keys, was removed. The
tables here stay below that, so that what becomes smaller is VACUUM's doing.
"""

import threading
import time

import psycopg
import pytest
from psycopg import errors, sql

from support.faults import EIO, ENOSPC, Faults
from support.processes import wait_until
from test_disk import bytes_of, of_engine

ROWS = 9_000
TABLE = f"""
create table t (id int primary key, n int not null, v text) using disk;
create index on t (n);
insert into t select g, g, string_agg(md5((g * 40 + i)::text), '')
    from generate_series(1, {ROWS}) g, generate_series(1, 30) i group by g;
checkpoint;
"""


def file_bytes(server):
    """What the store has in files: as the view says, which is what the directory says."""
    told = of_engine(server, "disk")["file_bytes"]
    counted = sum(bytes_of(server, tree) for tree in ("rows", "history", "index"))
    # The directories have a few small files beside.
    assert told <= counted < told * 1.1 + 100_000, (told, counted)
    return told


def settled(server):
    """The bytes of files, when the background has done what it does by itself."""
    server.run("checkpoint")
    before = -1
    while before != (now := of_engine(server, "disk")["written_bytes"]):
        before = now
        time.sleep(0.7)
    return file_bytes(server)


@pytest.fixture
def filled(froglet):
    froglet.psql(TABLE)
    return froglet


@pytest.mark.parametrize("vacuum", ["vacuum t", "vacuum", "vacuum full t", "vacuum (full, analyze) t (id)"])
def test_deleted_rows_leave_the_files(filled, vacuum):
    most = settled(filled)
    assert most > 6 << 20
    filled.run(f"delete from t where id <= {ROWS * 9 // 10}")
    assert settled(filled) > most * 0.9, "the background has done it"
    filled.run(vacuum)
    assert file_bytes(filled) < most * 0.15
    assert of_engine(filled, "disk")["versions"] == 0
    assert filled.rows("select count(*), min(id), sum(n) from t where n > 0") == \
        filled.rows(f"select count(*), min(g), sum(g) from generate_series({ROWS * 9 // 10 + 1}, {ROWS}) g")
    filled.kill_and_restart()
    assert filled.value("select count(*) from t") == ROWS // 10
    assert file_bytes(filled) < most * 0.15


def test_old_values_leave_the_files(filled):
    most = settled(filled)
    for part in range(2):
        filled.run(f"update t set n = n + 1, v = 'short' where id % 2 = {part}")
    assert settled(filled) > most
    filled.run("vacuum t")
    assert file_bytes(filled) < most * 0.15
    assert filled.rows("select count(*), sum(n - id), max(v) from t") == [(ROWS, ROWS, "short")]
    filled.run("delete from t", "vacuum t")
    assert of_engine(filled, "disk")["files"] == 0 and file_bytes(filled) == 0
    filled.run("insert into t values (1, 1, 'again')")
    assert filled.rows("select id, v from t where n = 1") == [(1, "again")]


def test_where_there_is_nothing_to_gain_nothing_is_written(filled):
    def written(statement):
        before = of_engine(filled, "disk")["written_bytes"]
        filled.run(statement)
        return of_engine(filled, "disk")["written_bytes"] - before
    filled.run("vacuum full t")
    for statement in ("vacuum t", "vacuum full t", "vacuum", "vacuum (full off) t"):
        assert written(statement) == 0, statement
    filled.run(f"delete from t where id <= {ROWS // 50}")
    # What was deleted is written, and no more: a fiftieth is not worth all files.
    assert written("vacuum t") < 200_000
    assert written("vacuum full t") > 4 << 20
    # Another table's files are not written for it, where they are apart.
    filled.run("create table small (id int primary key) using disk", "insert into small values (1), (2)", "vacuum small",
               "delete from small", "vacuum full small")
    assert filled.value("select count(*) from t") == ROWS - ROWS // 50


@pytest.mark.parametrize("isolation", ["repeatable read", "serializable"])
def test_who_reads_the_past_goes_on(filled, isolation):
    most = settled(filled)
    with filled.connect() as reader:
        reader.execute(f"begin isolation level {isolation}")
        seen = "select count(*), sum(n), sum(length(v)), md5(string_agg(v, '' order by id)) from t where n between 1 and 8000"
        before = reader.execute(seen).fetchone()
        filled.run("update t set v = 'new' where id % 3 = 0", f"delete from t where id <= {ROWS * 9 // 10}", "vacuum t",
                   "vacuum full")
        # What was updated stays in memory, and what was deleted in files.
        assert file_bytes(filled) > most * 0.6
        assert filled.value("select versions from froglet.engines where engine = 'disk'") >= ROWS * 9 // 10
        assert reader.execute(seen).fetchone() == before
        assert reader.execute("select n from t where id = 17").fetchone() == (17,)
        filled.run("insert into t values (-1, -1, 'new')", "vacuum full t")
        assert reader.execute(seen).fetchone() == before
        reader.execute("commit")
        assert reader.execute("select count(*) from t").fetchone() == (ROWS // 10 + 1,)
    filled.run("vacuum t")
    assert file_bytes(filled) < most * 0.2


class Writer(threading.Thread):
    """Writes rows with a sum that stays, and remembers what it was told, and how long it has waited."""

    def __init__(self, server):
        super().__init__(daemon=True)
        self.server, self.told, self.longest, self.failure = server, 0, 0, None
        self.is_ended = threading.Event()

    def run(self):
        try:
            with self.server.connect() as connection:
                while not self.is_ended.is_set():
                    begun, n = time.monotonic(), self.told + 1
                    connection.execute(
                        f"with gone as (delete from t where id = {n} returning n) "
                        f"insert into t select {ROWS + n}, n, 'moved' from gone")
                    self.told = n
                    connection.execute(f"update t set v = repeat('x', 900) where id = {ROWS - n}")
                    self.longest = max(self.longest, time.monotonic() - begun)
        except psycopg.OperationalError:
            pass  # The server has gone.
        except psycopg.Error as error:
            self.failure = error


def assert_is_whole(server, told):
    """All that was told is there, and at most one that was not."""
    assert server.rows("select count(*), sum(n) from t") == [(ROWS, ROWS * (ROWS + 1) // 2)]
    assert server.value(f"select count(*) from t where id > {ROWS}") - told in (0, 1)
    for n in range(1, told, max(told // 20, 1)):
        assert server.rows(f"select id from t where n = {n}") == [(ROWS + n,)]


def test_beside_a_writer(filled):
    writer = Writer(filled)
    writer.start()
    try:
        with filled.connect() as connection:
            for _ in range(6):
                connection.execute("vacuum full t")
                told = writer.told
                wait_until(lambda: writer.told > told + 5 or not writer.is_alive(), "it goes on")
    finally:
        writer.is_ended.set()
        writer.join(60)
    assert writer.failure is None, writer.failure
    assert writer.longest < 20
    assert_is_whole(filled, writer.told)
    filled.kill_and_restart()
    assert_is_whole(filled, writer.told)


def test_many_at_once(filled):
    """Of each other, and of those that drop, empty, alter and move what is worked on."""
    failures = []

    def run(*statements, rounds):
        try:
            with filled.connect() as connection:
                for _ in range(rounds):
                    for statement in statements:
                        connection.execute(statement)
        except psycopg.Error as error:
            failures.append(error)
    threads = [threading.Thread(target=run, args=args, kwargs={"rounds": rounds}) for args, rounds in (
        (("vacuum full t",), 8), (("vacuum",), 8),
        (("create table u (id int primary key, v text) using disk",
          "insert into u select g, 'u' from generate_series(1, 3000) g", "truncate u", "drop table u"), 6),
        (("alter table t add column extra int default 1", "create index on t (v)", "drop index t_v_idx",
          "alter table t drop column extra"), 3),
        (("update t set n = n + 1 where id % 100 = 0", "update t set n = n - 1 where id % 100 = 0"), 8),
        (("checkpoint",), 8))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
    assert not failures, failures
    filled.run("vacuum full")
    assert filled.rows("select count(*), sum(n) from t") == [(ROWS, ROWS * (ROWS + 1) // 2)]
    assert of_engine(filled, "disk")["versions"] == 0


@pytest.mark.parametrize("delay", [0, 0.02, 0.2, None])
def test_killed_while_or_after(filled, delay):
    """`None`: right after it has answered."""
    writer = Writer(filled)
    filled.run(f"delete from t where id between {ROWS // 2} and {ROWS // 2 + 99}")
    filled.run(f"insert into t select g, g, 'back' from generate_series({ROWS // 2}, {ROWS // 2 + 99}) g")
    writer.start()
    wait_until(lambda: writer.told > 20, "it writes")
    connection = filled.connect()

    def vacuum():
        try:
            connection.execute("vacuum full t")
        except psycopg.OperationalError:
            pass
    runs = threading.Thread(target=vacuum)
    runs.start()
    runs.join(delay)
    filled.kill()
    runs.join(60)
    writer.join(60)
    assert writer.failure is None, writer.failure
    filled.start()
    assert_is_whole(filled, writer.told)
    filled.run("vacuum full t")
    assert_is_whole(filled, writer.told)


@pytest.mark.parametrize("errno, state", [(EIO, "58030"), (ENOSPC, "53100")])
def test_files_that_cannot_be_written(start, tmp_path, errno, state):
    faults = Faults(tmp_path)
    server = start(environment=faults.environment)
    server.psql(TABLE)
    server.run(f"delete from t where id <= {ROWS * 9 // 10}")
    most = settled(server)
    faults.set(f"write fail {errno} /store/", f"open fail {errno} /store/")
    with server.connect() as connection:
        with pytest.raises(psycopg.Error) as raised:
            connection.execute("vacuum full t")
        assert raised.value.sqlstate == state, raised.value
        assert "tables on disk" in str(raised.value)
        assert connection.execute("select count(*) from t").fetchone() == (ROWS // 10,)
        faults.clear()
        connection.execute("vacuum full t")
        assert file_bytes(server) < most * 0.2
        assert connection.execute("select count(*) from t").fetchone() == (ROWS // 10,)
    server.kill_and_restart()
    assert server.value("select count(*) from t") == ROWS // 10


def test_while_a_move_goes_on(start):
    """To disk and back lazily, rows deleted on the way; VACUUM in between, of a table in two places."""
    server = start(arguments=("--set", "froglet.migration=lazy", "--set", "froglet.migration_delay=1h"))
    server.psql(TABLE.replace("using disk", "using memory"))
    for method in ("disk", "memory"):
        server.run(f"alter table t set access method {method}", "vacuum t",
                   "update t set v = 'touched' where id % 3 = 0", f"delete from t where id % 1000 = {1 + (method == 'disk')}",
                   "vacuum full t", "vacuum")
        count = server.value("select count(*) from t")
        assert count == ROWS - 9 * (1 if method == "disk" else 2)
        server.kill_and_restart()
        assert server.value("select count(*) from t") == count
        server.run("vacuum full t")
        assert server.value("select count(*) from t where v = 'touched'") > ROWS // 3 - 20
        server.run("create table other as select id, n, v from t", "drop table t", "alter table other rename to t",
                   "alter table t add primary key (id)")


def test_cancelled(filled):
    """The session is answered at once; what was begun ends by itself, and harms nobody."""
    most = settled(filled)
    filled.run(f"delete from t where id <= {ROWS * 9 // 10}")
    with filled.connect() as connection:
        connection.execute("set statement_timeout = 1")
        with pytest.raises(errors.QueryCanceled):
            connection.execute("vacuum full t")
        connection.execute("set statement_timeout = 0")
        assert connection.execute("select count(*) from t").fetchone() == (ROWS // 10,)
        connection.execute("vacuum full t")
        assert file_bytes(filled) < most * 0.15
        assert connection.execute("select count(*) from t").fetchone() == (ROWS // 10,)


def test_said_or_refused(froglet):
    notices = []
    with froglet.connect() as connection:
        connection.add_notice_handler(lambda notice: notices.append(notice.message_primary))
        name = sql.Identifier('Über "Ärger"; drop')
        connection.execute(sql.SQL("create table {} (id int) using disk").format(name))
        connection.execute(sql.SQL("vacuum {}").format(name))
        connection.execute(sql.SQL("vacuum (verbose, full 1) public.{}").format(name))
        connection.execute("create table empty () using disk")
        connection.execute("vacuum full empty, empty")
        connection.execute("create temp table own (id int) using disk")
        connection.execute("insert into own select generate_series(1, 1000)")
        connection.execute("delete from own where id > 1")
        connection.execute("vacuum own")
        assert connection.execute("select id from own").fetchall() == [(1,)]
        connection.execute("set default_table_access_method = disk")
        connection.execute("create materialized view m as select generate_series(1, 10) as a")
        connection.execute("refresh materialized view m")
        connection.execute("vacuum full m")
        assert connection.execute("select count(*) from m").fetchone() == (10,)
        assert notices == []
        connection.execute("create view v as select 1 as a")
        connection.execute("create sequence s")
        for statement in ("vacuum v", "analyze v", "vacuum full s, empty"):
            connection.execute(statement)
        assert notices == [
            'skipping "v" --- cannot vacuum non-tables or special system tables',
            'skipping "v" --- cannot analyze non-tables or special system tables',
            'skipping "s" --- cannot vacuum non-tables or special system tables']
        with pytest.raises(errors.UndefinedTable):
            connection.execute("vacuum nothing_like_it")
        with pytest.raises(errors.ActiveSqlTransaction):
            with connection.transaction():
                connection.execute("vacuum empty")
        del notices[:]
        connection.execute("create role other login")
        connection.execute("create table theirs (id int) using disk")
        connection.execute("alter table theirs owner to other")
        connection.execute("set role other")
        connection.execute("vacuum full empty, theirs")
        connection.execute("vacuum")
        assert notices == ['skipping "empty" --- only table or database owner can vacuum it']


def test_a_thousand_tables(froglet):
    froglet.psql("".join(f"create table t{n} (id int) using disk; insert into t{n} values ({n});" for n in range(1000)),
                 "-q", "-1")
    froglet.run("vacuum")
    begun = time.monotonic()
    written = of_engine(froglet, "disk")["written_bytes"]
    froglet.run("vacuum", "vacuum full")
    assert time.monotonic() - begun < 20
    assert of_engine(froglet, "disk")["written_bytes"] == written
    assert froglet.value("select id from t777") == 777
