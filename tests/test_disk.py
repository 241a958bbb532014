"""Tables on disk beside tables in memory: one transaction over both, whatever happens (docs/disk.md).

Money moves between an account in memory and one on disk, with a line in a ledger of each: whoever looks sees the
same sum, and both lines or none; and what a client was told is there after kill -9 at any moment.
"""

import os
import random
import shutil
import threading

import psycopg
import pytest
from psycopg import errors
from psycopg.rows import dict_row

from support.processes import wait_until
from support.servers import finish_pgbench
from test_pgbench import assert_sums_agree

ACCOUNTS = 50
TOTAL = 2 * ACCOUNTS * 100
ROUNDS = int(os.environ.get("FROGLET_TEST_CRASH_ROUNDS", "3"))
SCHEMA = f"""
create table in_memory (id int primary key, balance int not null);
create table on_disk (id int primary key, balance int not null) using disk;
create table ledger_memory (id int primary key);
create table ledger_disk (id int primary key) using disk;
insert into in_memory select g, 100 from generate_series(1, {ACCOUNTS}) g;
insert into on_disk select g, 100 from generate_series(1, {ACCOUNTS}) g;
"""
SUM = "select (select sum(balance) from in_memory) + (select sum(balance) from on_disk)"
SUM_OF_JOIN = "select sum(m.balance + d.balance) from in_memory m join on_disk d using (id)"


class Mover(threading.Thread):
    """Moves money between both kinds until the server is gone, and remembers what it was told."""

    def __init__(self, server, number, seed):
        super().__init__(daemon=True)
        self.server, self.next, self.random = server, number * 10_000_000, random.Random(seed)
        self.told, self.failure = [], None

    def run(self):
        try:
            with self.server.connect() as connection:
                while True:
                    self.move(connection)
        except psycopg.OperationalError:
            pass  # The server has gone: that is what this is about.
        except psycopg.Error as error:
            self.failure = error

    def move(self, connection):
        self.next += 1
        amount, end = self.random.randint(-20, 20), self.random.random()
        isolation = self.random.choice(["read committed", "repeatable read", "serializable"])
        try:
            connection.execute(f"begin isolation level {isolation}")
            tables = ["in_memory", "on_disk"]
            self.random.shuffle(tables)
            for table, sign in zip(tables, (1, -1)):
                row = self.random.randint(1, ACCOUNTS)
                connection.execute(f"update {table} set balance = balance + {sign * amount} where id = {row}")
                if end < 0.3:
                    connection.execute("savepoint s")
                    connection.execute(f"update {table} set balance = 0")
                    connection.execute("rollback to s")
            connection.execute(f"insert into ledger_memory values ({self.next})")
            connection.execute(f"insert into ledger_disk values ({self.next})")
            connection.execute("rollback" if end > 0.9 else "commit")
        except (errors.SerializationFailure, errors.DeadlockDetected):
            connection.execute("rollback")
        else:
            if end <= 0.9:
                self.told.append(self.next)


def check(server, told=()):
    """What must be true at any time, and after any end."""
    with server.connect() as connection:
        def one(query):
            return connection.execute(query).fetchone()[0]
        assert one(SUM) == TOTAL
        assert one(SUM_OF_JOIN) == TOTAL
        lines = {table: {row[0] for row in connection.execute(f"select id from {table}")}
                 for table in ("ledger_memory", "ledger_disk")}
        assert lines["ledger_memory"] == lines["ledger_disk"]
        missing = set(told) - lines["ledger_disk"]
        assert not missing, f"{len(missing)} of {len(told)} commits that were told are gone: {sorted(missing)[:5]}"
        for line in random.sample(sorted(lines["ledger_disk"]), min(50, len(lines["ledger_disk"]))):
            assert one(f"select count(*) from ledger_disk where id = {line}") == 1


def movers(server, rounds=0, count=3):
    started = [Mover(server, rounds * 10 + n + 1, seed=rounds * 10 + n) for n in range(count)]
    for mover in started:
        mover.start()
    return started


def bytes_of(server, tree):
    """What one of the store's maps has in files."""
    total = 0
    for path in server.files("*"):
        if f"/store/{tree}/" in str(path):
            try:
                total += path.stat().st_size
            except FileNotFoundError:
                pass  # Compacted meanwhile.
    return total


def told_to(started):
    for mover in started:
        mover.join(60)
        assert not mover.is_alive(), "a mover goes on without a server"
        assert mover.failure is None, mover.failure
    return [line for mover in started for line in mover.told]


def test_one_transaction_over_both(froglet):
    """Statements need not know where a table is: keys both ways, joins, savepoints, cursors, COPY, upserts."""
    froglet.psql("""
        create table parent_disk (id int primary key, v text) using disk;
        create table child_memory (id int primary key, p int references parent_disk on delete cascade on update cascade);
        create table parent_memory (id int primary key);
        create table child_disk (id int primary key, p int references parent_memory on delete set null) using disk;
        insert into parent_disk select g, 'v' || g from generate_series(1, 100) g;
        insert into child_memory select g, g from generate_series(1, 100) g;
        insert into parent_memory select generate_series(1, 100);
        insert into child_disk select g, g from generate_series(1, 100) g;
    """)
    with froglet.connect() as connection:
        def rows(query):
            return connection.execute(query).fetchall()
        with pytest.raises(errors.ForeignKeyViolation):
            connection.execute("insert into child_memory values (1000, 1000)")
        with pytest.raises(errors.ForeignKeyViolation):
            connection.execute("insert into child_disk values (1000, 1000)")
        connection.execute("delete from parent_disk where id <= 10")
        connection.execute("update parent_disk set id = 1000 where id = 11")
        connection.execute("delete from parent_memory where id <= 10")
        assert rows("select count(*), count(*) filter (where p = 1000) from child_memory") == [(90, 1)]
        assert rows("select count(*), count(p) from child_disk") == [(100, 90)]
        connection.execute("begin")
        connection.execute("declare c cursor for select d.id, m.id from child_disk d join child_memory m on d.id = m.id order by 1")
        assert rows("fetch 2 from c") == [(11, 11), (12, 12)]
        connection.execute("savepoint s")
        assert rows("delete from child_disk where id = 13 returning id, p") == [(13, 13)]
        connection.execute("delete from child_memory where id = 13")
        assert rows("fetch 1 from c") == [(13, 13)]
        connection.execute("rollback to s")
        assert rows("select id from child_disk where id = 13") == [(13,)]
        connection.execute("commit")
        upsert = "insert into parent_disk values (12, 'new') on conflict (id) do update set v = excluded.v returning v"
        assert rows(upsert) == [("new",)]
        with connection.cursor().copy("copy parent_disk from stdin") as copy:
            for n in range(2000, 2100):
                copy.write_row((n, f"copied {n}"))
        connection.execute("create table made using disk as select p.id, c.id as child from parent_disk p left join child_memory c on c.p = p.id")
        assert rows("select count(*), count(child) from made") == [(190, 90)]
        assert rows("select a.amname from pg_class c join pg_am a on a.oid = c.relam where c.relname in ('made', 'child_memory') order by 1") == [("disk",), ("heap",)]
    froglet.kill_and_restart()
    with froglet.connect() as connection:
        assert connection.execute("select count(*), max(v) from parent_disk").fetchall() == [(190, "v99")]


def test_where_a_table_is_is_said_or_refused(froglet):
    with froglet.connect() as connection:
        with pytest.raises(errors.UndefinedObject, match='access method "tape" does not exist'):
            connection.execute("create table t (a int) using tape")
        connection.execute("set default_table_access_method = disk")
        connection.execute("create table t (a int)")
        connection.execute("create table u (a int) using heap")
        said = connection.execute("select relname, amname from pg_class c join pg_am a on a.oid = relam where relname in ('t', 'u') order by 1")
        assert said.fetchall() == [("t", "disk"), ("u", "heap")]
        long = "x" * 100_000
        connection.execute("create table k (a text primary key) using disk")
        with pytest.raises(errors.ProgramLimitExceeded, match="index row size"):
            connection.execute("insert into k values (%s)", [long])
        connection.execute("insert into k values ('short')")
        assert connection.execute("select count(*) from k").fetchone() == (1,)


def test_killed_again_and_again(froglet):
    froglet.psql(SCHEMA)
    told = []
    for number in range(ROUNDS):
        started = movers(froglet, number)
        with froglet.connect() as connection:
            for n in range(30):
                assert connection.execute(SUM).fetchone()[0] == TOTAL
                if n == 15:
                    connection.execute("checkpoint")
        froglet.kill()
        told += told_to(started)
        froglet.start()
        check(froglet, told)
    assert len(told) > 20 * ROUNDS, f"only {len(told)} commits in {ROUNDS} rounds"
    froglet.restart()
    check(froglet, told)


# Where it is made to die, and how often that is passed before.
POINTS = {
    "commit: half logged beside the anchor": 40,
    "commit: both halves logged": 40,
    "commit: a row in the store": 90,
    "disk checkpoint: rotated": 2,
    "disk checkpoint: flushed, not in the manifest": 2,
    "disk checkpoint: in the manifest, log not cut": 2,
    "disk: space logged": 3,
}
CUT = "recovery: one log cut"


@pytest.mark.parametrize("point", POINTS)
def test_it_dies_between_the_halves(start, point):
    server = start()
    server.psql(SCHEMA)
    server.stop()
    server.environment = {"FROGLET_CRASH_AT": f"{point}:{POINTS[point]}"}
    server.start()
    started = movers(server)

    def provoke():
        """Checkpoints and new tables, as the point may need them."""
        try:
            with server.connect() as connection:
                for n in range(1000):
                    connection.execute("checkpoint")
                    connection.execute(f"create table more_{n} (a int) using disk")
                    connection.execute(f"insert into more_{n} values (1)")
        except psycopg.OperationalError:
            pass

    provoker = threading.Thread(target=provoke, daemon=True)
    provoker.start()
    wait_until(lambda: not server.alive(), f"the server dies at {point}", seconds=60)
    server.process = None
    told = told_to(started)
    provoker.join(60)
    # The cut itself is interrupted, too; where there is none it starts as ever.
    server.environment = {"FROGLET_CRASH_AT": CUT}
    server.spawn()

    def is_up():
        try:
            server.connect().close()
        except psycopg.OperationalError:
            return False
        return True

    wait_until(lambda: not server.alive() or is_up(), "it is up, or dead", seconds=60)
    if server.alive():
        server.stop()
    else:
        server.process = None
    server.environment = {}
    server.start()
    check(server, told)
    with server.connect() as connection:
        tables = connection.execute("select relname from pg_class where relname like 'more_%' and relkind = 'r'")
        for (table,) in tables.fetchall():
            assert connection.execute(f"select count(*) from {table}").fetchone()[0] in (0, 1)


def fill(connection, rows, values):
    """Rows of a table `large`, by a query's values of g."""
    for first in range(0, rows, 1_000):
        connection.execute(f"insert into large select g, {values} from generate_series({first}, {first + 999}) g")


def test_what_is_larger_than_memory(start):
    """Ten times the limit, read whole and by key; and the memory that it takes."""
    server = start(arguments=["--memory-limit", "64MB"])
    rows, bytes_of_row = 60_000, 10_000
    with server.connect() as connection, server.watched_memory() as most:
        connection.execute("create table large (id int primary key, v text not null) using disk")
        fill(connection, rows, f"rpad(md5(g::text), {bytes_of_row}, md5((g + 1)::text))")
        assert connection.execute("select count(*), sum(length(v)) from large").fetchone() == (rows, rows * bytes_of_row)
        for key in (0, 31_415, rows - 1):
            found = connection.execute("select left(v, 32) = md5(id::text) from large where id = %s", [key]).fetchone()
            assert found == (True,)
        with pytest.raises(errors.OutOfMemory):
            connection.execute("create table in_memory as select * from large")
    assert most[0] < 3 * (64 << 20), f"{most[0] >> 20} MB with a limit of 64"
    server.kill_and_restart()
    with server.connect() as connection:
        assert connection.execute("select count(*) from large").fetchone() == (rows,)


def test_what_is_made_of_much_waits_for_the_files(start):
    """Index builds, new columns and recovery gather no more than commits do."""
    server = start(arguments=["--memory-limit", "64MB"])
    rows, bytes_of_row = 16_000, 8_000
    with server.connect() as connection:
        connection.execute("create table large (id int primary key, v text not null, n int) using disk")
        fill(connection, rows, f"rpad(md5(g::text), {bytes_of_row}, 'x'), g % 7")
        with server.watched_memory() as most:
            for statement in ["alter table large add column w text generated always as (left(v, 900)) stored",
                              "alter table large alter column n type bigint",
                              "create index by_w on large (w, id)"]:
                connection.execute(statement)
        assert most[0] < 2 * (64 << 20), f"{most[0] >> 20} MB with a limit of 64"
        # Rows that were short when they came: all are in one block.
        connection.execute("create table grown (id int primary key, v text) using disk")
        connection.execute("insert into grown select g, 'short' from generate_series(0, 7999) g")
        for first in range(0, 8_000, 1_000):
            connection.execute("update grown set v = repeat('x', 9000) where id between %s and %s", [first, first + 999])
        with server.watched_memory() as most:
            assert connection.execute("select count(*), sum(length(v)) from grown").fetchone() == (8_000, 72_000_000)
        assert most[0] < 2 * (64 << 20), f"{most[0] >> 20} MB with a limit of 64"
        for first in range(0, rows, 1_000):
            connection.execute("update large set n = n + 3 where id between %s and %s", [first, first + 999])
    server.kill_and_restart()
    assert server.anonymous_bytes() < 2 * (64 << 20)
    with server.connect() as connection:
        seen = connection.execute("select count(*), sum(n - id % 7), bool_and(w = left(v, 900)) from large").fetchone()
        assert seen == (rows, 3 * rows, True)
        key = connection.execute("select w from large where id = 11415").fetchone()[0]
        assert connection.execute("select id from large where w = %s and id = 11415", [key]).fetchone() == (11415,)


def test_writes_that_are_refused_or_undone_take_no_memory(start):
    server = start(arguments=["--memory-limit", "64MB"])
    with server.connect() as connection:
        connection.execute("create table t (id int primary key, v text) using disk")
        connection.execute("insert into t select g, 'v' from generate_series(1, 100) g")
        connection.execute("begin")
        for _ in range(100):
            connection.execute("insert into t select g % 100 + 1, rpad('', 1000, 'x') from generate_series(1, 2000) g on conflict do nothing")
        for _ in range(30):
            connection.execute("savepoint s")
            connection.execute("insert into t select g, rpad('', 1000, 'x') from generate_series(1000, 4000) g")
            connection.execute("rollback to s")
            connection.execute("release s")
        for _ in range(200):
            connection.execute("select * from t for update")
        connection.execute("insert into t values (101, 'kept')")
        connection.execute("commit")
        assert connection.execute("select count(*), max(length(v)) from t").fetchone() == (101, 4)


def test_a_row_with_many_versions_is_cleaned_up_behind(start):
    """Under an old view all of them are kept; when it goes they go, with their entries, and commits go on."""
    server = start()
    with server.connect() as connection, server.connect() as old:
        connection.execute("create table t (id int primary key, n int not null, v text) using disk")
        connection.execute("create index by_n on t (n)")
        connection.execute("insert into t select g, 0, rpad('', 5000, 'v') from generate_series(1, 3) g")
        old.execute("begin isolation level repeatable read")
        assert old.execute("select n from t where id = 1").fetchone() == (0,)
        for n in range(1, 10_001):
            connection.execute("update t set n = %s where id = 1", [n])
        connection.execute("checkpoint")
        assert old.execute("select n, count(*) from t group by n order by n").fetchall() == [(0, 3)]
        assert old.execute("select id from t where n = 0 order by id").fetchall() == [(1,), (2,), (3,)]
        held = bytes_of(server, "history")
        assert held > 1 << 20, held
        old.execute("commit")

        def is_clean():
            connection.execute("update t set n = n + 1 where id = 1")
            connection.execute("checkpoint")
            return bytes_of(server, "history") < held / 10
        wait_until(is_clean, "the old versions go", seconds=120)
        assert connection.execute("select id from t where n > 9999").fetchall() == [(1,)]
        assert connection.execute("select count(*) from t where n between 1 and 9999").fetchone() == (0,)


def of_engine(server, engine):
    """Its row of froglet.engines."""
    with server.connect(row_factory=dict_row) as connection:
        return connection.execute("select * from froglet.engines where engine = %s", [engine]).fetchone()


def test_engines_say_how_they_are(start):
    server = start()
    with server.connect() as connection:
        connection.execute("create table m (id int primary key, v text)")
        connection.execute("create table d (id int primary key, v text) using disk")
        connection.execute("insert into d select g, md5(g::text) from generate_series(1, 5000) g")
        connection.execute("insert into m select * from d where id <= 10")
        disk, memory = of_engine(server, "disk"), of_engine(server, "memory")
        assert (memory["tables"], memory["rows"], disk["tables"], disk["rows"]) == (1, 10, 1, 5_000)
        assert memory["memory_bytes"] > memory["row_bytes"] > 0
        assert memory["files"] is memory["registry_entries"] is None
        assert disk["unwritten_bytes"] > 5_000 * 32 and disk["files"] == disk["runs"] == 0
        assert disk["registry_entries"] >= 1
        connection.execute("checkpoint")
        written = of_engine(server, "disk")
        assert written["unwritten_bytes"] < disk["unwritten_bytes"] and written["files"] >= 2 and written["runs"] == 1
        connection.execute("select sum(length(v)) from d")
        cached = of_engine(server, "disk")
        assert written["cache_bytes"] < cached["cache_bytes"] < cached["cache_limit_bytes"]
        assert cached["cache_misses"] > written["cache_misses"]
        for _ in range(2):
            connection.execute("select v from d where id = 77")
        again = of_engine(server, "disk")
        assert again["cache_hits"] > cached["cache_hits"] and again["cache_misses"] < 2 * cached["cache_misses"]
        assert again["put_bytes"] > 5_000 * 32 and again["written_bytes"] >= again["file_bytes"] > 0
        with server.connect() as reader:
            reader.execute("begin isolation level repeatable read")
            reader.execute("select from d where id = 1")
            connection.execute("update d set v = 'short'")
            assert of_engine(server, "disk")["versions"] >= 5_000
        # Those that nobody sees any more go.
        wait_until(lambda: of_engine(server, "disk")["versions"] == 0, "old versions go")


def test_a_slow_disk_keeps_nobody_else_waiting(start):
    server = start(arguments=("--worker-threads", "1"))
    server.psql("""
        create table d (id int primary key, v text) using disk;
        insert into d select g, md5(g::text) from generate_series(1, 200) g;
        checkpoint;""")
    server.stop()
    # The start reads all of it.
    server.environment = {**server.environment, "FROGLET_DISK_READ_DELAY_MS": "10"}
    server.start()
    answers, ended = [0], threading.Event()

    def ask():
        with server.connect() as connection:
            while not ended.is_set():
                assert connection.execute("select 1").fetchone() == (1,)
                answers[0] += 1

    with server.connect() as reader:
        # A slow read is what shows that reads are slow.
        assert reader.execute("select count(*) from d where id = 7").fetchone() == (1,)
        other = threading.Thread(target=ask)
        other.start()
        try:
            wait_until(lambda: answers[0] > 0, "the other session is there")
            before = answers[0]
            for sql, rows in (("select v from d where id between 1 and 100", 100),
                              ("update d set v = 'x' where id between 101 and 150 returning id", 50)):
                assert len(reader.execute(sql).fetchall()) == rows
                assert answers[0] > before + 20, sql
                before = answers[0]
        finally:
            ended.set()
            other.join(60)


def test_what_is_deleted_leaves_the_files(start):
    """Deleted rows, their old versions and their entries go from memory and files, and scans do not pass over them."""
    server = start()
    with server.connect() as connection:
        connection.execute("create table queue (id int primary key, v text) using disk")
        most = 0
        for _ in range(3):
            connection.execute("insert into queue select g, repeat(md5(g::text), 10) from generate_series(1, 50000) g")
            connection.execute("checkpoint")
            most = max(most, of_engine(server, "disk")["file_bytes"])
            connection.execute("delete from queue where id > 10")
            assert connection.execute("select count(*), max(id) from queue").fetchone() == (10, 10)
            connection.execute("delete from queue")
        assert most > 4 << 20

        def is_given_back():
            disk = of_engine(server, "disk")
            return disk["file_bytes"] < most / 3 and disk["versions"] < 50_000

        wait_until(is_given_back, "files are small", seconds=60)
        assert connection.execute("select count(*) from queue").fetchone() == (0,)


def test_write_skew_over_both_is_refused(froglet):
    froglet.psql(SCHEMA)
    one, two = froglet.connect(), froglet.connect()
    for connection in (one, two):
        connection.execute("begin isolation level serializable")
        connection.execute(SUM)
    one.execute("update in_memory set balance = 0 where id = 1")
    two.execute("update on_disk set balance = 0 where id = 1")
    one.execute("commit")
    with pytest.raises(errors.SerializationFailure):
        two.execute("commit")


def test_a_deadlock_over_both_is_found(froglet):
    froglet.psql(SCHEMA)
    one, two = froglet.connect(), froglet.connect()
    for connection in (one, two):
        connection.execute("begin")
    one.execute("update in_memory set balance = 1 where id = 1")
    two.execute("update on_disk set balance = 1 where id = 1")
    failed = []

    def go(connection, table):
        try:
            connection.execute(f"update {table} set balance = 2 where id = 1")
        except errors.DeadlockDetected as error:
            failed.append(error)

    threads = [threading.Thread(target=go, args=pair) for pair in ((one, "on_disk"), (two, "in_memory"))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(failed) == 1, failed


def test_pgbench_on_disk_while_the_schema_changes(start):
    server = start(settings={"default_table_access_method": "disk"})
    server.pgbench("-i", "-s", "1", "-q", "--foreign-keys")
    run = server.pgbench_start("-c", "4", "-j", "2", "-T", "15")
    with server.connect() as connection:
        connection.execute("alter table pgbench_accounts add column note text default 'none'")
        connection.execute("alter table pgbench_accounts add column double int generated always as (abalance * 2) stored")
        connection.execute("create index on pgbench_accounts (abalance)")
        connection.execute("alter table pgbench_history add column n bigint")
    finish_pgbench(run)
    assert_sums_agree(server)
    with server.connect() as connection:
        methods = connection.execute("select distinct amname from pg_class c join pg_am a on a.oid = relam where relname like 'pgbench%' and relkind = 'r'")
        assert methods.fetchall() == [("disk",)]
        wrong = connection.execute("select count(*) from pgbench_accounts where double is distinct from abalance * 2")
        assert wrong.fetchone() == (0,)
    server.kill_and_restart()
    assert_sums_agree(server)


def test_half_of_the_data_directory_is_refused(start):
    server = start()
    server.psql(SCHEMA)
    server.restart()
    server.psql("insert into on_disk values (1000, 0); checkpoint")
    server.kill()
    disk, aside = server.data / "disk", server.data.parent / "aside"
    shutil.move(disk, aside)
    said = server.refusal()
    assert "in common" in said and "restore both from one copy" in said, said
    shutil.rmtree(disk, ignore_errors=True)
    shutil.move(aside, disk)
    server.start()
    check(server)


def test_a_byte_that_changes_is_an_error_and_no_answer(start):
    server = start(arguments=["--memory-limit", "64MB"])
    server.psql("create table t (id int primary key, v text) using disk;"
                "insert into t select g, md5(g::text) from generate_series(1, 50000) g; checkpoint")
    server.stop()
    files = [path for path in server.files("*") if "/store/rows/" in str(path) and path.stat().st_size > 1 << 20]
    assert files, "the rows are in a file"
    content = bytearray(files[0].read_bytes())
    middle = len(content) // 2
    for at in range(middle, middle + 64):
        content[at] ^= 0xFF
    files[0].write_bytes(content)
    server.start()
    with server.connect() as connection:
        with pytest.raises(psycopg.Error) as raised:
            connection.execute("select count(*), sum(length(v)) from t")
        assert raised.value.sqlstate == "XX001", raised.value
        assert "tables on disk" in str(raised.value)
        connection.execute("create table fine as select 1 as a")
        assert connection.execute("select a from fine").fetchone() == (1,)
