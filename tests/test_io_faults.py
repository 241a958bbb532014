"""Files that fail: nothing acknowledged is lost, nothing is told that a restart takes back.

Writes, syncs, renames and new files fail (EIO, ENOSPC), are cut short or take long, by a library that is
preloaded (support/faults.c). The log is made to fail late: whoever waits for it by then has his answer in the
server's buffers.
"""

import threading

import psycopg
import pytest
from psycopg import errors

from support.faults import EIO, ENOSPC, Faults
from support.flight import adbc
from support.processes import wait_until
from support.raw import FLUSH, SYNC, Raw, bind, error_of, execute, parse

LOG = ".frlog"
# What may go wrong when the log is made durable.
LATE = [f"fdatasync late {EIO} {LOG}", f"write late {EIO} {LOG}", f"write torn {EIO} {LOG}",
        f"fdatasync late {ENOSPC} {LOG}"]
IN_DOUBT = "08007"


@pytest.fixture
def faults(tmp_path):
    return Faults(tmp_path)


@pytest.fixture
def faulty(start, faults):
    """A server whose files fail as `faults` says."""
    return start(environment=faults.environment, flight=True)


def ended(server):
    """The server has ended by itself, and says why."""
    wait_until(lambda: not server.alive(), "the server ends when its log has failed")
    assert server.process.returncode not in (0, -6, -11), server.tail()
    text = server.tail()
    assert "nothing can be acknowledged any more" in text and "panicked" not in text, text
    server.process = None


def again(server, faults):
    """With files that work."""
    faults.clear()
    return server.start()


def still():
    """What has been logged so far, and nobody waits for, is on the disk by now."""
    threading.Event().wait(0.2)


# Writers -------------------------------------------------------------------------------------------

def is_acknowledged(answer):
    """ReadyForQuery, and no error before it."""
    return bool(answer) and answer[-1] is not None and answer[-1][0] == b"Z" and not error_of(answer)


def simple(server, told):
    client = Raw(server)
    n = 0
    while True:
        client.query(f"insert into t values ('simple', {n + 1})")
        answer = client.until_ready()
        if not is_acknowledged(answer):
            assert (b"C", b"INSERT 0 1\0") not in answer, "half an acknowledgement"
            return error_of(answer)
        n += 1
        told.append(n)


def extended(server, told):
    client = Raw(server)
    client.send(parse("insert into t values ('extended', 1)", b"s"), SYNC)
    client.until_ready()
    n = 0
    while True:
        client.send(parse(f"insert into t values ('extended', {n + 1})"), bind(), execute(), SYNC)
        answer = client.until_ready()
        if not is_acknowledged(answer):
            return error_of(answer)
        n += 1
        told.append(n)


def prepared(server, told):
    """Bind, Execute and Sync of one statement, which run at once."""
    client = Raw(server)
    client.send(parse("insert into t values ('prepared', nextval('s'))", b"s"), SYNC)
    client.until_ready()
    n = 0
    while True:
        client.send(bind(b"s"), execute(), SYNC)
        answer = client.until_ready()
        if not is_acknowledged(answer):
            return error_of(answer)
        n += 1
        told.append(n)


def pipeline(server, told):
    """Ten transactions sent together; each is told by its own ReadyForQuery."""
    client = Raw(server)
    n = 0
    while True:
        for i in range(10):
            client.send(parse(f"insert into t values ('pipeline', {n + i + 1})"), bind(), execute(), SYNC)
        for _ in range(10):
            answer = client.until_ready()
            if not is_acknowledged(answer):
                return error_of(answer)
            n += 1
            told.append(n)


def block(server, told):
    client = Raw(server)
    n = 0
    while True:
        for sql in ("begin", f"insert into t values ('block', {n + 1})", "commit"):
            client.query(sql)
            answer = client.until_ready()
            if not is_acknowledged(answer):
                assert (b"C", b"COMMIT\0") not in answer, "half an acknowledgement"
                return error_of(answer)
        n += 1
        told.append(n)


def copy(server, told):
    client = Raw(server)
    n = 0
    while True:
        client.query("copy t from stdin")
        answer = [client.message()]
        if answer[0] and answer[0][0] == b"G":
            client.send((b"d", f"copy\t{n + 1}\n".encode()), (b"c", b""))
            answer = client.until_ready()
        if not is_acknowledged(answer):
            assert (b"C", b"COPY 1\0") not in answer, "half an acknowledgement"
            return error_of([message for message in answer if message])
        n += 1
        told.append(n)


def flight(server, told):
    n = 0
    with adbc(server) as client, client.cursor() as cursor:
        while True:
            try:
                cursor.execute(f"insert into t values ('flight', {n + 1})")
            except Exception as error:
                return {"C": IN_DOUBT if IN_DOUBT in str(error) else str(error)}
            n += 1
            told.append(n)


WRITERS = [simple, extended, prepared, pipeline, block, copy, flight]


@pytest.mark.parametrize("fault", LATE)
def test_what_is_acknowledged_is_there(faulty, faults, fault):
    """Every way to write at once, each from two sessions, until the log fails."""
    faulty.run("create table t (how text, n int)", "create sequence s")
    told, said = {}, {}

    def work(number, write):
        told[number] = []
        try:
            said[number] = write(faulty, told[number])
        except Exception as error:  # noqa: BLE001: is told below
            said[number] = error

    threads = [threading.Thread(target=work, args=job, daemon=True) for job in enumerate(WRITERS)]
    for thread in threads:
        thread.start()
    wait_until(lambda: len(told) == len(WRITERS) and all(len(list_) > 3 for list_ in told.values()),
               "everybody writes")
    faults.set(fault)
    for thread in threads:
        thread.join(60)
    assert len(said) == len(WRITERS), said
    ended(faulty)
    again(faulty, faults)
    there = dict(faulty.rows("select how, count(*) from t group by how"))
    lost = {}
    for number, write in enumerate(WRITERS):
        name = write.__name__
        if there.get(name, 0) < told[number][-1]:
            lost[name] = (told[number][-1], there.get(name, 0))
    assert not lost, f"acknowledged, and there: {lost}"
    for number, answer in said.items():
        # In doubt; or refused before it was begun; or without a word, where the server was gone.
        assert isinstance(answer, dict), answer
        state = answer.get("C")
        by_flight = WRITERS[number] is flight
        assert by_flight or state in (IN_DOUBT, "58030", "53100", "57P01", None), (number, answer)


def test_a_commit_in_doubt_is_said_to_be(faulty, faults):
    """Neither an ordinary ERROR, after which the session goes on, nor an answer: FATAL, 08007."""
    faulty.run("create table t (n int)")
    client = Raw(faulty)
    faults.set(f"fdatasync late {EIO} {LOG}")
    client.query("insert into t values (1)")
    answer = client.until_ready()
    assert [kind for kind, _ in answer] == [b"E"], answer
    error = error_of(answer)
    assert error["S"] == "FATAL" and error["C"] == IN_DOUBT, error
    assert "in doubt" in error["M"] and LOG in error["M"] and "look whether" in error["H"], error
    ended(faulty)
    again(faulty, faults)
    # The kernel had the bytes, so they came to the disk after all: that is what the doubt is about.
    assert faulty.value("select count(*) from t") in (0, 1)


# Readers -------------------------------------------------------------------------------------------

def read_simple(client):
    client.query("select n from t where n = -1")


def read_all(client):
    client.query("select count(*) from t where n < 0")


def read_extended(client):
    client.send(parse("select n from t where n = -1"), bind(), execute(), SYNC)


def read_flushed(client):
    client.send(parse("select n from t where n = -1"), bind(), execute(), FLUSH)


def read_portal(client):
    client.send(parse("begin"), bind(), execute(), parse("select n from t where n < 0"), bind(portal=b"p"),
                execute(b"p", 1), SYNC)


def read_pipeline(client):
    client.send(parse("select 1"), bind(), execute(), SYNC, parse("select n from t where n < 0"), bind(), execute(),
                SYNC, parse("select 2"), bind(), execute(), SYNC)


def read_copy(client):
    client.query("copy (select n from t where n < 0) to stdout")


def read_cursor(client):
    client.query("begin; declare c cursor for select n from t where n < 0; fetch all from c")


def read_error(client):
    """That the key is taken is news of the row."""
    client.query("insert into t values (-1)")


def read_catalog(client):
    client.query("select count(*) from made")


def read_absence(client):
    client.query("select n from gone")


def read_returning(client):
    client.query("update t set n = n where n = -1 returning n")


READERS = [read_simple, read_all, read_extended, read_flushed, read_portal, read_pipeline, read_copy, read_cursor,
           read_error, read_catalog, read_absence, read_returning]


@pytest.mark.parametrize("fault", [f"fdatasync late {EIO} {LOG}", f"write late {ENOSPC} {LOG}"])
def test_nothing_is_told_of_a_commit_that_fails(faulty, faults, fault):
    """While a commit is on its way to the disk everybody can see it; nobody is told when it has failed."""
    faulty.run("create table t (n int primary key)", "create table gone (n int)")
    clients = [(read, Raw(faulty)) for read in READERS]
    flight_client = adbc(faulty)
    told, said = [], {}

    def write():
        with pytest.raises(psycopg.OperationalError), faulty.connect() as connection:
            connection.execute("begin")
            connection.execute("insert into t values (-1)")
            connection.execute("create table made (n int)")
            connection.execute("drop table gone")
            still()
            faults.set(fault)
            connection.execute("commit")
            told.append("the commit")

    def look(read, client):
        read(client)
        said[read.__name__] = client.until_ready()

    def look_by_flight():
        with flight_client.cursor() as cursor:
            try:
                cursor.execute("select n from t where n < 0")
                said["flight"] = cursor.fetchall()
            except Exception as error:  # noqa: BLE001: is looked at below
                said["flight"] = error

    writer = threading.Thread(target=write)
    writer.start()
    # The commit is everybody's before it is durable: half a second is long enough to meet it.
    with faulty.connect() as watcher:
        watcher.execute("set synchronous_commit = off")
        wait_until(lambda: watcher.execute("select count(*) from t").fetchone() == (1,), "the commit is seen")
    threads = [threading.Thread(target=look, args=pair) for pair in clients]
    threads.append(threading.Thread(target=look_by_flight))
    for thread in threads:
        thread.start()
    for thread in [writer, *threads]:
        thread.join(60)
    assert not told, told
    for name, answer in said.items():
        if name == "flight":
            assert isinstance(answer, Exception), f"Flight told of {answer}"
            continue
        for kind, body in answer:
            assert kind not in (b"D", b"d", b"s", b"C") or body in ROWS_OF_NOTHING, f"{name} was told {kind}{body}"
        error = error_of(answer)
        if error:
            assert error["S"] == "FATAL" and error["C"] in (IN_DOUBT, "58030", "53100", "57P01"), (name, error)
    assert set(said) == {read.__name__ for read in READERS} | {"flight"}, "everybody has an answer, or none"


# What rests on no table: `select 1`, `select 2`, BEGIN and DECLARE.
ROWS_OF_NOTHING = [b"\0\1\0\0\0\1" + n for n in (b"1", b"2")] + [
    b"SELECT 1\0", b"BEGIN\0", b"DECLARE CURSOR\0"]


def test_a_notification_waits_for_its_commit(faulty, faults):
    """Of a session that waits for no commit of its own, to one that does."""
    with faulty.connect() as listener, faulty.connect() as speaker:
        listener.execute("listen news")
        speaker.execute("set synchronous_commit = off")
        speaker.execute("create table t (n int)")
        still()
        faults.set(f"fdatasync late {EIO} {LOG}", f"fsync late {EIO} {LOG}")
        speaker.execute("begin")
        speaker.execute("insert into t values (1)")
        speaker.execute("notify news, 'it is there'")
        speaker.execute("commit")
        heard = []
        with pytest.raises(psycopg.OperationalError):
            while True:
                heard += [note.payload for note in listener.notifies(timeout=5, stop_after=1)]
                assert not heard, heard
                listener.execute("select 1")


# Sequences -----------------------------------------------------------------------------------------

GIVEN = ["select nextval('s')", "select setval('s', 1000)", "select last_value from s",
         "select nextval('s') from generate_series(1, 40) offset 39", "alter sequence s restart with 500",
         "values (nextval('s'))", "do_rollback"]


@pytest.mark.parametrize("sql", GIVEN)
def test_what_a_sequence_gave_is_not_given_again(start, sql):
    """kill -9 right after the answer: the note is on the disk, whether anything was committed or not."""
    server = start()
    server.run("create sequence s", "checkpoint")
    for _ in range(3):
        with server.connect() as connection:
            if sql == "do_rollback":
                connection.execute("begin")
                given = connection.execute("select nextval('s')").fetchone()[0]
                connection.execute("rollback")
            elif sql.startswith("alter"):
                connection.execute(sql)
                given = 499
            else:
                given = connection.execute(sql).fetchone()[0]
            server.kill()
        server.start()
        after = server.value("select nextval('s')")
        if "last_value" in sql or "alter" in sql or "setval" in sql:
            assert after >= given, f"{sql} said {given}, and nextval gives {after} after the crash"
        else:
            assert after > given, f"{sql} gave {given}, and nextval gives {after} after the crash"


# Slow disks ----------------------------------------------------------------------------------------

def test_a_slow_disk_stops_nobody_else(start, faults):
    """Writers that fill the log's buffer wait; reads of other tables and new connections do not."""
    server = start(environment=faults.environment | {"FROGLET_LOG_BUFFER": "256kB", "FROGLET_WORKER_THREADS": "1"})
    server.run("create table t (id int primary key, pad text)", "create table o (id int primary key)",
               "insert into t select g, '' from generate_series(1, 100) g", "insert into o values (1)")
    reader = server.connect()
    reader.execute("set synchronous_commit = off")
    reader.execute("select id from o where id = 1")
    stop, failed = threading.Event(), []

    def write(k):
        try:
            with server.connect() as connection:
                connection.execute("set synchronous_commit = off")
                while not stop.is_set():
                    connection.execute("update t set pad = repeat('y', 20000) where id = %s", [k])
        except psycopg.Error as error:
            failed.append(error)

    still()
    faults.set(f"fdatasync sleep 3000 {LOG}")
    threads = [threading.Thread(target=write, args=(k,)) for k in range(1, 9)]
    for thread in threads:
        thread.start()
    # All of them stand still, in line for room in the log, after some 256 kB.
    blocked = threading.Event()
    blocked.wait(0.5)
    done = []

    def read():
        for _ in range(50):
            done.append(reader.execute("select id from o where id = 1").fetchone())
        server.connect().close()
        done.append("connected")

    looking = threading.Thread(target=read)
    looking.start()
    # The disk takes three seconds for each batch: who had to wait for one would not be done in two.
    looking.join(2)
    finished = not looking.is_alive()
    stop.set()
    faults.clear()
    looking.join(60)
    for thread in threads:
        thread.join(60)
    assert finished, f"a reader of another table was kept waiting, after {len(done)} reads"
    assert not failed, failed


# Full disks and other files ------------------------------------------------------------------------

@pytest.mark.parametrize("fault", ["write short 0 /", f"write short 0 {LOG}"])
def test_short_writes_are_gone_on_with(start, faults, fault):
    server = start(environment=faults.environment)
    faults.set(fault)
    server.run("create table t (n int, pad text)",
               "insert into t select g, repeat('x', 100) from generate_series(1, 5000) g", "checkpoint",
               "insert into t values (0, '')")
    faults.clear()
    server.kill_and_restart()
    assert server.rows("select count(*), sum(length(pad)) from t") == [(5001, 500_000)]


@pytest.mark.parametrize("fault", [
    f"write fail {ENOSPC} .arrow", f"write torn {EIO} .arrow", f"fsync fail {EIO} .arrow",
    f"open fail {ENOSPC} .arrow", f"open fail {EIO} manifest", f"write torn {EIO} manifest",
    f"rename fail {EIO} manifest", f"fsync fail {EIO} manifest", f"fsync fail {EIO} checkpoint",
    f"unlink fail {EIO} .arrow"])
def test_a_checkpoint_that_fails_takes_nothing_with_it(start, faults, fault):
    server = start(environment=faults.environment)
    server.run("create table t (id int primary key, pad text)",
               "insert into t select g, repeat('x', 50) from generate_series(1, 20000) g", "checkpoint",
               "insert into t select g, '' from generate_series(20001, 30000) g")
    faults.set(fault)
    with server.connect() as connection:
        try:
            connection.execute("checkpoint")
            told = None
        except psycopg.Error as error:
            told = error
        assert told is None or told.sqlstate in ("58030", "53100"), told
        connection.execute("delete from t where id <= 100")
    faults.clear()
    rows = [(29_900, 101, 30_000)]
    assert server.rows("select count(*), min(id), max(id) from t") == rows
    server.kill_and_restart()
    assert server.rows("select count(*), min(id), max(id) from t") == rows
    server.run("checkpoint", "insert into t values (0, 'after')")
    server.kill_and_restart()
    assert server.rows("select count(*), min(id) from t") == [(29_901, 0)]


@pytest.mark.parametrize("fault", [
    f"open fail {ENOSPC} {LOG}", f"rename fail {EIO} {LOG}", f"fsync fail {EIO} {LOG}", f"fsync fail {EIO} /log",
    f"write torn {ENOSPC} {LOG}.tmp"])
def test_a_segment_that_cannot_be_made(start, faults, fault):
    """The log fails where its next file should begin: in doubt or refused, and what was told is there."""
    server = start(environment=faults.environment | {"FROGLET_LOG_SEGMENT": "256kB"})
    server.run("create table t (n int, pad text)")
    faults.set(fault)
    told = 0
    with pytest.raises(psycopg.Error) as error, server.connect() as connection:
        while told < 500:
            connection.execute("insert into t values (%s, repeat('x', 10000))", [told + 1])
            told += 1
    assert error.value.sqlstate in (IN_DOUBT, "58030", "53100", None), error.value
    if server.alive():
        server.kill()
    server.process = None
    again(server, faults)
    count, highest = server.rows("select count(*), max(n) from t")[0]
    assert count == highest and told <= count <= told + 1, (told, count, highest)
    server.run("insert into t values (1000, '')")


# Large transactions --------------------------------------------------------------------------------

SMALL_LOG = {"FROGLET_LOG_PART": "8kB", "FROGLET_LOG_SEGMENT": "128kB", "FROGLET_LOG_BUFFER": "64kB"}


def test_a_transaction_larger_than_everything_of_the_log(start):
    """Larger than a part, than the buffer and than a segment; beside others; after each a kill."""
    server = start(environment=SMALL_LOG)
    server.run("create table t (id int primary key, pad text)", "create table o (n int)")
    rows = "select g, repeat('x', 100) from generate_series({}, {}) g"
    server.run(f"insert into t {rows.format(1, 20_000)}")
    server.kill_and_restart()
    assert server.value("select count(*) from t") == 20_000
    with server.connect() as large, server.connect() as small:
        large.execute("begin")
        large.execute("update t set pad = pad || 'y'")
        small.execute("insert into o values (1)")
        large.execute("savepoint a")
        large.execute("delete from t where id > 10000")
        large.execute("rollback to a")
        large.execute("delete from t where id > 15000")
        large.execute("commit")
        small.execute("insert into o values (2)")
    server.run("checkpoint")
    with server.connect() as connection, connection.cursor().copy("copy t from stdin") as copied:
        for n in range(30_000, 40_000):
            copied.write_row((n, "z" * 50))
    server.kill_and_restart()
    want = [(25_000, 15_000 * 101 + 10_000 * 50)]
    assert server.rows("select count(*), sum(length(pad)) from t") == want
    assert server.value("select count(*) from o") == 2
    server.restart()
    assert server.rows("select count(*), sum(length(pad)) from t") == want


@pytest.mark.parametrize("checkpoint", [False, True])
def test_a_kill_in_the_middle_of_a_large_commit(start, faults, checkpoint):
    """All of it or nothing: parts without the last one are no transaction, also after a checkpoint between."""
    server = start(environment=faults.environment | SMALL_LOG)
    server.run("create table t (id int primary key, pad text)", "create table o (n int)",
               "insert into t select g, '' from generate_series(1, 20000) g")
    done = []

    def commit():
        try:
            with server.connect() as connection:
                connection.execute("update t set pad = repeat('x', 200)")
                done.append(True)
        except psycopg.OperationalError:
            pass

    faults.set(f"fdatasync sleep 100 {LOG}")
    before = len(server.files("*" + LOG))
    writer = threading.Thread(target=commit)
    writer.start()
    wait_until(lambda: len(server.files("*" + LOG)) > before + 1, "some of it is in the log")
    server.run("insert into o values (1)")
    if checkpoint:
        server.run("checkpoint", "insert into o values (2)")
    assert not done, "the commit takes longer than that"
    server.kill()
    writer.join(60)
    again(server, faults)
    assert server.rows("select count(*), max(length(pad)) from t") == [(20_000, 0)]
    assert server.value("select count(*) from o") == (2 if checkpoint else 1)
    server.run("update t set pad = repeat('z', 200)", "checkpoint")
    server.kill_and_restart()
    assert server.rows("select count(*), min(pad), max(length(pad)) from t") == [(20_000, "z" * 200, 200)]


def test_redo_is_on_the_account(start):
    """What a transaction would log counts: rows that fit in parts are too many for one, and refused as it goes on."""
    rows = "insert into t select g, repeat('x', 1000) from generate_series(1, {}) g"
    table = "create table t (n int, pad text)"
    limit = {"FROGLET_MEMORY_LIMIT": "256MB"}
    start(environment=limit).run(table, *[rows.format(15_000)] * 10)
    with pytest.raises(errors.OutOfMemory):
        start(environment=limit).run(table, rows.format(150_000))


# Two servers ---------------------------------------------------------------------------------------

def test_without_its_file_the_directory_is_locked(froglet, start):
    froglet.run("create table t (n int)")
    (froglet.data / "froglet.pid").unlink()
    text = start(froglet.data, ready=False).refusal()
    assert "locked" in text and str(froglet.data) in text, text
    froglet.run("insert into t values (1)")
    froglet.kill_and_restart()
    assert froglet.value("select count(*) from t") == 1
