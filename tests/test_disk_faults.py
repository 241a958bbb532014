"""Tables on disk whose files fail, are damaged, or are many: nothing that was told is lost, no half of a transaction is
visible, and tables in memory are served (docs/disk.md).

Each writer puts one line into a table in memory and one into a table on disk, in one transaction: both tables have the
same lines, with every line that somebody was told of.
"""

import json
import os
import shutil
import zlib

import psycopg
import pytest

from support.faults import EIO, ENOSPC, Faults
from support.processes import wait_until

SMALL = ["--memory-limit", "64MB"]
IN_DOUBT = "08007"
SCHEMA = """
create table in_memory (id int primary key, pad text);
create table on_disk (id int primary key, pad text) using disk;
create index on on_disk (pad);
"""
# Much is gathered before it is written: this makes files of it.
PAD = 2_000


@pytest.fixture
def faults(tmp_path):
    return Faults(tmp_path)


def lines(source):
    """What both tables have: the same."""
    both = [source.rows(f"select id from {table} order by id") for table in ("in_memory", "on_disk")]
    assert both[0] == both[1], "a half of a transaction is visible"
    assert source.value("select count(*) from on_disk where pad >= ''") == len(both[1]), "the index says the same"
    return {row[0] for row in both[0]}


def write(connection, told, upto):
    """Lines in both tables, until one is refused."""
    for line in range(max(told, default=0) + 1, upto + 1):
        with connection.transaction():
            connection.execute("insert into in_memory values (%s, '')", [line])
            connection.execute("insert into on_disk values (%s, repeat(%s, %s))", [line, chr(97 + line % 26), PAD])
            connection.execute("update on_disk set pad = pad || 'x' where id = %s", [line // 2])
        told.add(line)


def is_serving(server):
    try:
        return server.value("select 1") == 1
    except psycopg.OperationalError:
        return False


# What fails while it runs ---------------------------------------------------------------------------

OF_THE_STORE = [f"{fault} {path}" for fault, path in [
    (f"write fail {ENOSPC}", "/store/"), (f"write torn {EIO}", "/store/"), ("write short 0", "/store/"),
    (f"fsync fail {EIO}", "/store/"), (f"open fail {ENOSPC}", "/store/"),
    (f"open fail {EIO}", "/store/"), (f"unlink fail {EIO}", "/store/"),
    (f"open fail {ENOSPC}", "/disk/manifest.json"), (f"write torn {EIO}", "/disk/manifest.json"),
    (f"rename fail {EIO}", "/disk/manifest.json"), (f"fsync fail {EIO}", "/disk")]]


@pytest.mark.parametrize("fault", OF_THE_STORE)
def test_files_of_rows_that_cannot_be_written(start, faults, fault):
    """Checkpoints fail, and what is gathered grows; writes to tables on disk may be refused, those in memory go on."""
    server = start(environment=faults.environment, arguments=SMALL)
    server.psql(SCHEMA)
    told, refused = set(), []
    with server.connect() as connection:
        write(connection, told, 300)
        connection.execute("checkpoint")
        faults.set(fault)
        for attempt in (1, 2):
            for work in (lambda: write(connection, told, 300 + 300 * attempt), lambda: connection.execute("checkpoint"),
                         lambda: connection.execute("vacuum full on_disk")):
                try:
                    work()
                except psycopg.Error as error:
                    assert error.sqlstate in ("58030", "53100"), (error.sqlstate, error)
                    assert "disk" in str(error), error
                    refused.append(error)
            connection.execute("create table if not exists other (id int)")
            connection.execute("insert into other values (1)")
        assert refused or "short" in fault or "unlink" in fault, "it is no fault if nobody meets it"
        assert lines(server) == told
        faults.clear()
        # No restart is needed.
        connection.execute("checkpoint")
        write(connection, told, max(told) + 100)
        connection.execute("vacuum full on_disk")
    assert lines(server) == told
    server.kill_and_restart()
    assert lines(server) == told
    assert server.value("select count(*) from other") == 2


@pytest.mark.parametrize("fault", [
    f"write fail {ENOSPC}", f"write torn {EIO}", f"write late {EIO}", f"fdatasync late {EIO}", f"fsync fail {EIO}",
    f"open fail {ENOSPC}", f"rename fail {EIO}"])
def test_a_log_of_tables_on_disk_that_fails(start, faults, fault):
    """Whoever is not told that it failed finds it after a restart, and nobody a half of it."""
    server = start(environment=faults.environment | {"FROGLET_LOG_SEGMENT": "256kB"}, arguments=SMALL)
    server.psql(SCHEMA)
    told, outcome = set(), None
    with pytest.raises(psycopg.Error) as raised, server.connect() as connection:
        write(connection, told, 50)
        faults.set(f"{fault} /disk/log/")
        try:
            write(connection, told, 3_000)
        except psycopg.Error as error:
            outcome = error
            assert error.sqlstate in (IN_DOUBT, "58030", "53100", "57P01", None), (error.sqlstate, error)
        assert outcome is not None, "it failed"
        raise outcome
    doubt = {max(told) + 1}
    if is_serving(server):
        # A disk that was full is not for ever: what is served is right.
        faults.clear()
        assert told <= lines(server) <= told | doubt
        server.kill()
    else:
        wait_until(lambda: not server.alive(), "the server ends when its log has failed")
        assert server.process.returncode not in (0, -6, -11) and "panicked" not in server.tail(), server.tail()
        server.process = None
    faults.clear()
    server.start()
    assert told <= lines(server) <= told | doubt
    with server.connect() as connection:
        told = lines(server)
        write(connection, told, max(told) + 10)
    server.kill_and_restart()
    assert lines(server) == told


def test_files_that_cannot_be_read(start, faults):
    """58030 names the tables on disk; tables in memory are served, and when it can be read again all is as it was."""
    server = start(environment=faults.environment, arguments=SMALL, settings={})
    server.psql(SCHEMA)
    told = set()
    with server.connect() as connection:
        write(connection, told, 2_000)
        for first in range(10_001, 40_000, 5_000):
            connection.execute("insert into on_disk select g, repeat(md5(g::text), 10) from generate_series(%s, %s) g",
                               [first, first + 4_999])
        connection.execute("checkpoint")
        total = connection.execute("select count(*), sum(length(pad)) from on_disk").fetchone()
        faults.set(f"read fail {EIO} /store/")
        with pytest.raises(psycopg.Error) as raised:
            connection.execute("select count(*), sum(length(pad)) from on_disk")
        assert raised.value.sqlstate == "58030" and "tables on disk" in str(raised.value), raised.value
        assert connection.execute("select count(*) from in_memory").fetchone() == (2_000,)
        failed = 0
        for line in range(10_001, 40_000, 97):
            try:
                with connection.transaction():
                    connection.execute("update in_memory set pad = 'touched' where id = %s", [line % 2_000])
                    connection.execute("update on_disk set pad = '' where id = %s", [line])
                    raise psycopg.Rollback
            except psycopg.Error as error:
                assert error.sqlstate == "58030", (error.sqlstate, error)
                failed += 1
        assert failed, "most are not remembered"
        faults.clear()
        assert connection.execute("select count(*), sum(length(pad)) from on_disk").fetchone() == total
        assert connection.execute("select count(*) from in_memory where pad = 'touched'").fetchone() == (0,)


# What is damaged while it is down -------------------------------------------------------------------

def at_rest(start):
    """A server that has stopped, with rows in files and not in the log."""
    server = start(environment={"FROGLET_LOG_SEGMENT": "256kB"}, arguments=SMALL)
    insert = "insert into on_disk select g, repeat(md5(g::text), 4) from generate_series({}, {}) g;"
    server.psql(SCHEMA + insert.format(1, 10_000) + insert.format(10_001, 20_000) +
                "insert into in_memory select g, '' from generate_series(1, 20000) g; checkpoint;"
                "insert into on_disk values (0, ''); checkpoint")
    server.stop()
    return server, server.data / "disk"


def rows_file(disk):
    """The largest file of rows."""
    files = [path for path in (disk / "store" / "rows").rglob("*") if path.is_file()]
    return max(files, key=lambda path: path.stat().st_size)


def newer_manifest(disk):
    """As a later program would write it."""
    path = disk / "manifest.json"
    body = json.dumps(json.loads(path.read_text().splitlines()[0]) | {"format": 99})
    path.write_text(f"{body}\n{zlib.crc32(body.encode()):08x}\n")


DAMAGES = {
    "a file of rows ends too early": lambda disk: truncate(rows_file(disk), 0.5),
    "a file of rows is empty": lambda disk: truncate(rows_file(disk), 0),
    "a file of rows is gone": lambda disk: rows_file(disk).unlink(),
    "the rows are gone": lambda disk: shutil.rmtree(disk / "store" / "rows"),
    "the history is gone": lambda disk: shutil.rmtree(disk / "store" / "history"),
    "the indexes are gone": lambda disk: shutil.rmtree(disk / "store" / "index"),
    "the store is gone": lambda disk: shutil.rmtree(disk / "store"),
    "the manifest is gone": lambda disk: (disk / "manifest.json").unlink(),
    "the manifest is cut": lambda disk: truncate(disk / "manifest.json", 0.7),
    "a byte of the manifest has changed": lambda disk: flip(disk / "manifest.json", 20),
    "the manifest is of another format": newer_manifest,
    "the log is gone": lambda disk: shutil.rmtree(disk / "log"),
    "the log is empty": lambda disk: [path.unlink() for path in (disk / "log").iterdir()],
}


def truncate(path, part):
    with open(path, "r+b") as file:
        file.truncate(int(path.stat().st_size * part))


def flip(path, at):
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_files_are_refused_or_told(start, damage):
    """The server says what is wrong and does not start, or whoever reads what is damaged is told: no answer is wrong."""
    server, disk = at_rest(start)
    DAMAGES[damage](disk)
    try:
        server.start()
    except AssertionError as error:
        server.process = None
        text = server.tail()
        assert "panicked" not in text, text
        assert "disk" in text, text
        return
    with server.connect() as connection:
        with pytest.raises(psycopg.Error) as raised:
            connection.execute("select count(*), sum(length(pad)), min(id) from on_disk")
            connection.execute("select count(*) from on_disk where pad > 'f'")
        assert raised.value.sqlstate in ("XX001", "58030"), raised.value
        assert "disk" in str(raised.value), raised.value
        assert connection.execute("select count(*) from in_memory").fetchone() == (20_000,)


# What is much ---------------------------------------------------------------------------------------

TABLES = int(os.environ.get("FROGLET_TEST_DISK_TABLES", "300"))


def test_many_tables(start):
    """Each has rows and a key, some are dropped, all others are there after a kill."""
    server = start(arguments=SMALL)
    with server.connect() as connection:
        for number in range(TABLES):
            with connection.transaction():
                connection.execute(f"create table t{number} (id int primary key, v text) using disk")
                connection.execute(f"insert into t{number} select g, 'v' from generate_series(1, 20) g")
        for number in range(0, TABLES, 3):
            connection.execute(f"drop table t{number}")
        connection.execute("checkpoint")
        for number in range(1, TABLES, 3):
            connection.execute(f"update t{number} set v = 'w' where id > 10")
    server.kill_and_restart()
    with server.connect() as connection:
        for number in range(1, TABLES):
            if number % 3:
                count = connection.execute(f"select count(*), max(v) from t{number} where id > 0").fetchone()
                assert count == (20, "w" if number % 3 == 1 else "v"), number
    assert server.value("select count(*) from pg_class where relname ~ '^t[0-9]+$'") == TABLES - len(range(0, TABLES, 3))


LONG = int(os.environ.get("FROGLET_TEST_LONG_ROW_MB", "12")) << 20


def test_long_rows(start):
    """A value that is longer than everything that is gathered, and read, at once."""
    server = start(arguments=["--memory-limit", f"{max(256, 24 * (LONG >> 20))}MB"])
    server.psql("create table t (id int primary key, v text) using disk")
    with server.connect() as connection:
        for line in range(1, 4):
            connection.execute("insert into t values (%s, repeat(%s, %s))", [line, str(line), LONG])
        connection.execute("update t set v = v || 'x' where id = 2")
        connection.execute("checkpoint")
        connection.execute("update t set v = 'short' where id = 3")
    server.kill_and_restart()
    expected = [(1, LONG, "1"), (2, LONG + 1, "x"), (3, 5, "t")]
    asked = "select id, length(v), right(v, 1) from t order by id"
    assert server.rows(asked) == expected
    with server.connect() as connection:
        for method in ("memory", "disk"):
            connection.execute(f"alter table t set access method {method}")
            assert connection.execute(asked).fetchall() == expected
        connection.execute("vacuum full t")
        assert connection.execute(asked).fetchall() == expected


WRITES = int(os.environ.get("FROGLET_TEST_DISK_WRITES", "150000"))


def test_a_transaction_of_many_writes(start):
    """It is larger than what is gathered; seen whole or not at all, also by who kills the server."""
    server = start(arguments=["--memory-limit", f"{max(256, WRITES // 1000)}MB"])
    server.psql("create table t (id int primary key, v int) using disk; create table m (v int)")
    with server.connect() as connection, server.connect() as other:
        connection.execute("begin")
        connection.execute("insert into m values (1)")
        connection.execute(f"insert into t select g, 0 from generate_series(1, {WRITES}) g")
        assert other.execute("select count(*) from t").fetchone() == (0,)
        connection.execute("rollback")
        assert other.execute("select count(*) from t").fetchone() == (0,)
        connection.execute("begin")
        connection.execute("insert into m values (2)")
        connection.execute(f"insert into t select g, 0 from generate_series(1, {WRITES}) g")
        connection.execute("commit")
        assert other.execute("select count(*), sum(v) from t").fetchone() == (WRITES, 0)
    connection, other = server.connect(), server.connect()
    connection.execute("begin")
    connection.execute("update t set v = 1")
    assert other.execute("select sum(v) from t").fetchone() == (0,)
    server.kill_and_restart()
    assert server.rows("select count(*), sum(v) from t") == [(WRITES, 0)]
    assert server.rows("select v from m") == [(2,)]
