"""Crashes and broken files: nothing acknowledged is lost, nothing half done is seen.

kill -9 under pgbench and schema changes, torn and corrupted logs, corrupted checkpoints, a full disk,
a second server. FROGLET_TEST_CRASH_ROUNDS sets how often the server is killed (3).
"""

import os
import random
import shutil
import signal
import subprocess
import tempfile
import threading
from pathlib import Path

import psycopg
import pytest
from psycopg import errors

from support.processes import wait_until
from test_pgbench import assert_sums_agree

ROUNDS = int(os.environ.get("FROGLET_TEST_CRASH_ROUNDS", "3"))
COLUMNS = "select column_name from information_schema.columns where table_name = 'pgbench_accounts'"


class Changer(threading.Thread):
    """Changes pgbench_accounts all the time, and remembers which changes were acknowledged.

    Each step adds one column and drops the one before, with the value of an integer column to tell
    that its data came along; every third step is rolled back.
    """

    def __init__(self, server, step):
        super().__init__(daemon=True)
        self.server, self.step = server, step
        self.acknowledged, self.attempted, self.failure = step, step, None

    def run(self):
        try:
            with self.server.connect() as connection:
                while True:
                    new = self.attempted + 1
                    if new % 3 == 0:
                        connection.execute("begin")
                        connection.execute(self.change(new, f"never_{new}"))
                        connection.execute("rollback")
                    self.attempted = new
                    connection.execute(self.change(new, f"c{new}"))
                    self.acknowledged = new
        except psycopg.OperationalError:
            pass  # The server was killed: that is what this is about.
        except psycopg.Error as error:
            self.failure = error

    @staticmethod
    def change(new, name):
        kind = f"int default {new}" if new % 2 else f"int generated always as (aid + {new}) stored"
        return f"alter table pgbench_accounts drop column if exists c{new - 1}, add column {name} {kind}"

    def check(self):
        """After the restart: the last acknowledged change is there, or the one that was under way."""
        assert self.failure is None, self.failure
        columns = {name for [name] in self.server.rows(COLUMNS)}
        own = {name for name in columns if name.startswith(("c", "never"))}
        assert own in [{f"c{n}"} if n else set() for n in (self.acknowledged, self.attempted)], (
            own, self.acknowledged, self.attempted)
        self.step = int(next(iter(own), "c0")[1:])
        if own:
            wrong = (f"c{self.step} is distinct from {self.step}" if self.step % 2 else
                     f"c{self.step} is distinct from aid + {self.step}")
            assert self.server.value(f"select count(*) from pgbench_accounts where {wrong}") == 0
        return self.step


class Copier(threading.Thread):
    """Makes a table of pgbench_accounts all the time, with a key, and drops the one before."""

    def __init__(self, server):
        super().__init__(daemon=True)
        self.server, self.acknowledged, self.attempted, self.failure = server, 0, 0, None

    def run(self):
        try:
            with self.server.connect() as connection:
                while True:
                    new = self.attempted = self.acknowledged + 1
                    for statement in (
                            "begin",
                            f"create table copy_{new} as select aid, abalance from pgbench_accounts",
                            f"alter table copy_{new} add primary key (aid)",
                            f"drop table if exists copy_{new - 1}",
                            "commit"):
                        connection.execute(statement)
                    self.acknowledged = new
        except psycopg.OperationalError:
            pass
        except psycopg.Error as error:
            self.failure = error

    def check(self, durable):
        """After the restart there is one copy, whole: the last, or the one that was under way."""
        assert self.failure is None, self.failure
        there = [name for [name] in self.server.rows(
            "select relname from pg_class where relname like 'copy%' and relkind = 'r'")]
        if durable:
            last = {f"copy_{n}" for n in (self.acknowledged, self.attempted) if n}
            assert len(there) == 1 and there[0] in last, (there, last)
        for name in there:
            assert self.server.value(f"select count(*) from {name}") == 100_000
            assert self.server.value(f"select count(*) from {name} where aid = 77777") == 1
            self.server.run(f"drop table {name}")


class Counter(threading.Thread):
    """Inserts 1, 2, 3 … and knows the last number that was acknowledged."""

    def __init__(self, server):
        super().__init__(daemon=True)
        self.server, self.acknowledged = server, 0

    def run(self):
        try:
            with self.server.connect() as connection:
                while True:
                    connection.execute("insert into numbers values (%s)", [self.acknowledged + 1])
                    self.acknowledged += 1
        except psycopg.OperationalError:
            pass

    def check(self):
        count, highest = self.server.rows("select count(*), coalesce(max(n), 0) from numbers")[0]
        assert count == highest, "numbers in the middle are missing"
        assert self.acknowledged <= highest <= self.acknowledged + 1
        self.server.run("truncate numbers")


@pytest.mark.parametrize("synchronous_commit", ["on", "off"])
def test_kill_under_pgbench_with_schema_changes(start, synchronous_commit):
    """The four sums agree after every kill, the schema is whole, and everything goes on."""
    options = {"FROGLET_SETTING_SYNCHRONOUS_COMMIT": synchronous_commit,
               "FROGLET_MAX_WAL_SIZE": "8MB"}  # so that checkpoints are under way too
    server = start(environment=options)
    server.pgbench("-i", "-q", "-s", "1")
    server.run("create table numbers (n int primary key)")
    rng, step = random.Random(ROUNDS), 0
    for _ in range(ROUNDS if synchronous_commit == "on" else 1):
        load = server.pgbench_start("-n", "-c", "4", "-j", "2", "-M", "prepared", "-T", "600")
        changer, counter, copier = Changer(server, step), Counter(server), Copier(server)
        at_work = [changer, counter, copier]
        for thread in at_work:
            thread.start()
        wait_until(lambda: changer.acknowledged > step and counter.acknowledged > 20
                   and copier.acknowledged > 0, "work is under way", 60)
        threading.Event().wait(rng.uniform(0.2, 2.0))  # any moment will do, each round another
        server.kill()
        load.communicate(timeout=60)
        assert load.returncode != 0
        for thread in at_work:
            thread.join(60)

        server.start()
        assert_sums_agree(server)
        copier.check(durable=synchronous_commit == "on")
        if synchronous_commit == "on":
            step = changer.check()
            counter.check()
        server.pgbench("-n", "-c", "2", "-t", "20", "-M", "prepared")
        assert_sums_agree(server)


def test_kill_while_recovering(froglet):
    """Killed again while it starts, as often as you like."""
    froglet.run("create table t (id int primary key, v text)",
                "insert into t select n, repeat('x', 100) from generate_series(1, 50000) as g (n)",
                "alter table t add column w bigint generated always as (id * 2) stored")
    froglet.kill()
    for pause in (0.001, 0.01, 0.05, 0.1, 0.3):
        froglet.spawn()
        threading.Event().wait(pause)  # a moment of the recovery, each time another
        froglet.kill()
    froglet.start()
    assert froglet.rows("select count(*), sum(w) from t") == [(50_000, 50_000 * 50_001)]


def test_stop_and_start(froglet):
    """An ordinary stop lets nobody down, and what was there is there."""
    froglet.run("create table t (id serial primary key, v text unique)", "create sequence s",
                "insert into t (v) values ('a'), ('b')", "select nextval('s')")
    idle = froglet.connect()
    idle.execute("begin")
    idle.execute("insert into t (v) values ('never')")
    froglet.restart()
    with pytest.raises(psycopg.OperationalError):
        idle.execute("commit")
    assert froglet.rows("select * from t order by id") == [(1, "a"), (2, "b")]
    assert froglet.value("select nextval('s')") >= 2
    froglet.run("insert into t (v) values ('c')")
    with pytest.raises(errors.UniqueViolation):
        froglet.run("insert into t (v) values ('a')")


def test_sigint_stops_too(froglet):
    froglet.run("create table t (id int)")
    process, froglet.process = froglet.process, None
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode in (0, -signal.SIGINT)
    froglet.start()
    assert froglet.value("select count(*) from t") == 0


# Files --------------------------------------------------------------------------------------------

def numbers(server, count):
    """A table of `count` rows, each committed by itself, then the server is killed."""
    with server.connect() as connection:
        connection.execute("create table numbers (n int primary key)")
        for n in range(1, count + 1):
            connection.execute("insert into numbers values (%s)", [n])
    server.kill()


def last_log(server):
    logs = server.files("*.frlog")
    assert logs, list(server.data.rglob("*"))
    return logs[-1]


def written_bytes(path):
    """How much of a log is not zeros ahead."""
    return len(path.read_bytes().rstrip(b"\0"))


def assert_prefix(server, count, at_least):
    seen = [n for [n] in server.rows("select n from numbers order by n")]
    assert seen == list(range(1, len(seen) + 1)) and at_least <= len(seen) <= count, (
        f"{len(seen)} rows, and not the first of them")
    server.run("insert into numbers values (1000000)")


@pytest.mark.parametrize("tail", ["garbage", "zeros", "half a frame"])
def test_bytes_after_the_last_record(froglet, tail):
    """What a crash leaves behind the last record is cut; every acknowledged row is there."""
    numbers(froglet, 50)
    path = last_log(froglet)
    end = written_bytes(path)
    data = path.read_bytes()
    junk = {"garbage": random.Random(1).randbytes(5000), "zeros": b"\0" * 5000,
            "half a frame": data[end - 40 : end - 10]}[tail]
    with open(path, "r+b") as file:
        file.seek(end + 16 if tail == "garbage" else end)
        file.write(junk)
    froglet.start()
    assert_prefix(froglet, 50, at_least=50)
    froglet.kill_and_restart()
    assert froglet.value("select count(*) from numbers") == 51


@pytest.mark.parametrize("cut", [1, 7, 30, 100])
def test_truncated_log(froglet, cut):
    """Bytes that were safe are gone: it recovers what is before them, or refuses and says where."""
    numbers(froglet, 50)
    path = last_log(froglet)
    os.truncate(path, written_bytes(path) - cut)
    recovers_or_names(froglet, path, lambda: assert_prefix(froglet, 50, at_least=40))


@pytest.mark.parametrize("where", [0.02, 0.3, 0.6, 0.9, 0.999])
def test_a_flipped_bit_in_the_log(froglet, where):
    """One bit in the middle of what was durable: refused with file and offset; at the very end, cut."""
    numbers(froglet, 200)
    path = last_log(froglet)
    at = int(written_bytes(path) * where)
    flip_bit(path, at)
    recovers_or_names(froglet, path, lambda: assert_prefix(froglet, 200, at_least=190))


def test_a_log_file_that_is_missing(froglet):
    """The log is gone, the rest is there: an empty database instead would be a lie."""
    froglet.run("create table t (id int)", "checkpoint", "insert into t values (1)")
    froglet.kill()
    for path in froglet.files("*.frlog"):
        path.unlink()
    text = froglet.refusal()
    assert str(froglet.data) in text or "frlog" in text, text


def flip_bit(path, at):
    with open(path, "r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 0x10]))


def recovers_or_names(server, path, check):
    """Either it starts and `check` holds, or it refuses, naming the file and an offset."""
    try:
        server.start()
    except AssertionError:
        text = server.tail()
        assert "panicked" not in text, text
        assert path.name in text and any(word.strip(":,.;)").isdigit() for word in text.split()), text
        server.process = None
        server.data = fresh_copy(server)
        server.start()
    else:
        check()


def fresh_copy(server):
    """An empty data directory, so that the fixture finds a server that lives."""
    return Path(tempfile.mkdtemp(dir=server.temporary))


@pytest.mark.parametrize("damage", ["flipped bit", "truncated", "emptied", "missing"])
def test_a_damaged_checkpoint(froglet, damage):
    """Every file of a checkpoint, one after the other: refused by name, and whole again it starts."""
    froglet.run("create table t (id int primary key, v text)",
                "insert into t select n, repeat('x', 50) || n from generate_series(1, 20000) as g (n)",
                "create index on t (v)", "checkpoint", "insert into t values (0, 'after')")
    froglet.kill()
    whole = froglet.temporary / "whole"
    shutil.copytree(froglet.data, whole)
    files = [path for path in froglet.files("*") if path.suffix != ".frlog"
             and path.name not in ("froglet.pid", "froglet.toml") and path.stat().st_size > 0]
    assert files, "CHECKPOINT has written no file"
    silently_read = []
    for path in files:
        size = path.stat().st_size
        if damage == "flipped bit":
            flip_bit(path, size // 2)
        elif damage == "missing":
            path.unlink()
        else:
            os.truncate(path, size // 2 if damage == "truncated" else 0)
        froglet.spawn()
        said = b""
        while str(froglet.port).encode() not in said and (
                more := os.read(froglet.process.stdout.fileno(), 4096)):
            said += more
        if froglet.process.poll() is None and str(froglet.port).encode() in said:
            rows = froglet.rows("select count(*), count(distinct v), min(id) from t")
            if rows != [(20_001, 20_001, 0)]:
                silently_read.append((path.name, rows))
            froglet.kill()
        else:
            assert froglet.process.wait(60) > 0, froglet.tail()
            froglet.process = None
            text = froglet.tail()
            assert "panicked" not in text, text
            # Of tables on disk the library says which folder it could not read.
            folder = froglet.data / "disk/store"
            named = str(folder / path.relative_to(folder).parts[0]) if folder in path.parents else path.name
            assert named in text, f"{path} is damaged, and the server says\n{text}"
        shutil.rmtree(froglet.data)
        shutil.copytree(whole, froglet.data)
        froglet.log.write_text("")
    assert not silently_read, f"damaged, and read nevertheless: {silently_read}"
    froglet.start()
    assert froglet.value("select count(*) from t") == 20_001


def test_a_data_directory_that_is_none(start, tmp_path):
    """A file, a directory of somebody else's, one that may not be written."""
    path = tmp_path / "file"
    path.write_text("not a directory")
    assert str(path) in start(path, ready=False).refusal()

    other = tmp_path / "other"
    (other / "log").mkdir(parents=True)
    (other / "log" / "0000000000000000.frlog").write_text("this is not a log of Froglet's")
    assert "0000000000000000.frlog" in start(other, ready=False).refusal()


def test_a_second_server_is_refused(froglet, start):
    """It names the first one's process id; the first one notices nothing."""
    froglet.run("create table t (id int)", "insert into t values (1)")
    text = start(froglet.data, ready=False).refusal()
    assert str(froglet.process.pid) in text and str(froglet.data) in text, text
    assert froglet.value("select count(*) from t") == 1
    froglet.kill()
    froglet.start()  # the lock of a killed server is no obstacle
    assert froglet.value("select count(*) from t") == 1


def test_a_port_that_is_taken(froglet, start, tmp_path):
    """It says so, and how to choose another."""
    second = start(tmp_path / "data", ready=False)
    second.port = froglet.port
    text = second.refusal()
    assert str(froglet.port) in text and "--listen" in text, text


def test_bad_configuration(start, tmp_path):
    """A refusal that names the file and line, the variable or the switch."""
    for environment, word in [
        ({"FROGLET_MEMORY_LIMIT": "lots"}, "FROGLET_MEMORY_LIMIT"),
        ({"FROGLET_MAX_CONNECTIONS": "-1"}, "FROGLET_MAX_CONNECTIONS"),
    ]:
        assert word in start(ready=False, environment=environment).refusal()
    directory = tmp_path / "configured"
    directory.mkdir()
    file = directory / "froglet.toml"
    for text, words in [("max_connections = 5\nnothing = 1\n", ["froglet.toml", "2", "nothing"]),
                        ("max_connections =\n", ["froglet.toml", "1"]),
                        ("\n[settings]\nlock_timeout = 'soon'\n", ["froglet.toml", "3", "lock_timeout"])]:
        file.write_text(text)
        said = start(directory, ready=False).refusal()
        assert all(word in said for word in words), said
    file.write_text("[settings]\nlock_timeout = '7s'\n")
    assert start(directory).value("show lock_timeout") == "7s"


# A full disk --------------------------------------------------------------------------------------

@pytest.fixture
def small_disk(tmp_path):
    """A file system of 24 MB that can be made larger."""
    path = tmp_path / "disk"
    path.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", path],
                             capture_output=True, text=True)
    if mounted.returncode != 0:
        pytest.skip(f"no file system can be mounted here, so only the limit on file sizes of "
                    f"crates/froglet/tests/it is met: {mounted.stderr.strip()}")
    yield path
    subprocess.run(["umount", "--lazy", path], check=True)


def fill(path):
    """A file of all the space there is."""
    with open(path, "ab", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 65536)
        except OSError:
            pass


def test_a_full_disk(start, small_disk):
    """53100 with the file's name, and reads go on; with space again, all acknowledged is there."""
    server = start(small_disk / "data")
    server.run("create table numbers (n int primary key, filler text)",
               "create table quiet (n int primary key)", "insert into quiet values (1), (2)")
    acknowledged, error = 0, None
    with server.connect() as connection:
        while error is None and acknowledged < 100_000:
            try:
                connection.execute(
                    "insert into numbers values (%s, %s)", [acknowledged + 1, "x" * 10_000])
                acknowledged += 1
            except psycopg.Error as caught:
                error = caught
    assert acknowledged > 100 and error is not None
    assert error.sqlstate == "53100", f"{error.sqlstate}: {error}"
    assert ".frlog" in str(error) and "space" in str(error), error
    threading.Event().wait(2)  # longer than the server looks whether its log is alive
    assert server.rows("select n from quiet order by n") == [(1,), (2,)]
    assert server.value("select length(filler) from numbers where n = 1") == 10_000
    # What is short may have its place still, but not for long.
    with pytest.raises(errors.DiskFull, match="frlog"), server.connect() as connection:
        for n in range(3, 100_000):
            connection.execute("insert into quiet values (%s)", [n])
    with pytest.raises(errors.DiskFull, match="frlog"):
        server.run(f"create table no (n text default '{'x' * 5000}')")
    with pytest.raises(errors.DiskFull):
        server.run("checkpoint")
    assert server.rows("select n from quiet where n = 1") == [(1,)]
    text = server.tail()
    assert "reads go on" in text and ".frlog" in text and "panicked" not in text, text

    # With space again it goes on, and is not started anew for that.
    subprocess.run(["mount", "-o", "remount,size=200m", small_disk], check=True)
    server.run("insert into quiet values (0)", "checkpoint")
    assert server.alive()
    server.kill()
    server.start()
    assert server.value("select count(*) from quiet where n = 0") == 1
    [[count, highest]] = server.rows("select count(*), max(n) from numbers")
    assert count == highest and acknowledged <= count <= acknowledged + 1
    server.run("insert into numbers values (1000000, 'again')")


def test_a_disk_that_fills_under_pgbench(start, small_disk):
    """Every client is told 53100; the sums agree when there is space again."""
    subprocess.run(["mount", "-o", "remount,size=200m", small_disk], check=True)
    server = start(small_disk / "data", environment={"FROGLET_MAX_WAL_SIZE": "8MB"})
    server.pgbench("-i", "-q", "-s", "1")
    server.run("checkpoint")
    fill(small_disk / "ballast")
    os.truncate(small_disk / "ballast", (small_disk / "ballast").stat().st_size - (256 << 10))
    load = server.pgbench_start("-n", "-c", "4", "-j", "2", "-M", "prepared", "-T", "600")
    _, said = load.communicate(timeout=120)
    assert load.returncode != 0 and "the disk is full" in said and ".frlog" in said, said
    server.kill()
    (small_disk / "ballast").unlink()
    server.start()
    assert_sums_agree(server)
    server.pgbench("-n", "-c", "2", "-t", "20", "-M", "prepared")
    assert_sums_agree(server)


def test_a_disk_that_is_full_from_the_start(start, small_disk):
    fill(small_disk / "ballast")
    text = start(small_disk / "data", ready=False).refusal()
    assert "space" in text.lower(), text
