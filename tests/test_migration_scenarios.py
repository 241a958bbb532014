"""Schema changes while others read and write.

The scenarios that can be told are stories in `stories/migration`, on Froglet only: PostgreSQL would
make the writers wait. Below: changes under random writers, compared row by row with the same SQL on a
copy at rest; prepared statements across changes; a crash, a time-out and a cancel in the middle of a
scan.
"""

import random
import threading
from contextlib import contextmanager

import psycopg
import pytest
from psycopg import errors, pq

from support import story
from support.processes import wait_until

ROWS = 20_000


@pytest.mark.parametrize("told", story.every("migration"))
def test_story(froglet, told):
    told.play(froglet)


# What a change does to `t (id int primary key, v int, s text)`, and by which name it is told.
CHANGES = {
    "constant": "alter table {t} add column n int default 7",
    "not null default": "alter table {t} add column n text not null default 'x'",
    "computed": "alter table {t} add column n bigint generated always as (v * 2 + id) stored",
    "computed text": "alter table {t} add column n text generated always as (s || '/' || v) stored",
    "wider type": "alter table {t} alter column v type bigint",
    "using": "alter table {t} alter column v type text using 'v' || (v + 1)",
    "using others": "alter table {t} alter column s type numeric using v * 1.5 + length(s)",
    "key": "alter table {t} alter column id type bigint using id::bigint * 3",
    "drop": "alter table {t} drop column v",
    "rename": "alter table {t} rename column s to r",
    "not null": "alter table {t} alter column s set not null",
    "check": "alter table {t} add check (v >= 0)",
    "unique": "alter table {t} add unique (s)",
    "index": "create index on {t} (v, s desc)",
    "unique index": "create unique index on {t} (s)",
    "many": "alter table {t} add column n int default 1, drop column s,"
            " alter column v type bigint using v + 1000000, add unique (v, id)",
}


def fill(server, rows=ROWS):
    """The table that is changed: ids 1 … rows, s unique as long as nobody writes it twice."""
    with server.connect() as connection:
        connection.execute("create table t (id int primary key, v int, s text)")
        with connection.cursor().copy("copy t from stdin") as copy:
            for i in range(1, rows + 1):
                copy.write_row((i, i % 1000, f"s{i}"))


class Writers:
    """Random inserts, updates and deletes that fit the schema before and after a change.

    Writes name only `id`, and the columns in `columns`, all set from the value `k` of a row:
    `v` to k, `s` to a text that nobody else writes.
    """

    def __init__(self, server, count=2, columns=("v", "s"), seed=1):
        self.server, self.columns, self.failures, self.commits = server, columns, [], 0
        self.stopping = threading.Event()
        self.threads = [
            threading.Thread(target=self.work, args=(random.Random(seed * 100 + i), i))
            for i in range(count)
        ]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        wait_until(lambda: self.commits or self.failures, "the writers are at work")
        return self

    def __exit__(self, *_):
        self.stopping.set()
        for thread in self.threads:
            thread.join(60)
            assert not thread.is_alive(), "a writer hangs"
        assert not self.failures, f"a writer failed: {self.failures}"

    def work(self, rng, me):
        try:
            with self.server.connect(autocommit=False) as connection:
                fresh = iter(range(1_000_000 * (me + 1), 1_000_000 * (me + 2)))
                while not self.stopping.is_set():
                    for _ in range(rng.randint(1, 4)):
                        self.write(connection, rng, fresh)
                    if rng.random() < 0.1:
                        connection.rollback()
                    else:
                        connection.commit()
                        self.commits += 1
        except errors.DeadlockDetected:
            self.work(rng, me + len(self.threads))  # Its own doing: rows in random order.
        except psycopg.Error as error:
            self.failures.append(error)

    def write(self, connection, rng, fresh):
        k, what = next(fresh), rng.random()
        values = {"v": k % 100_000, "s": f"s{k}"}
        if what < 0.2:
            names = ["id", *self.columns]
            holes = ", ".join(["%s"] * len(names))
            row = [k] + [values[c] for c in self.columns]
            connection.execute(f"insert into t ({', '.join(names)}) values ({holes})", row)
        elif what < 0.3:
            connection.execute("delete from t where id = %s", [rng.randint(1, ROWS)])
        else:
            sets = ", ".join(f"{c} = %s" for c in self.columns)
            row = [values[c] for c in self.columns]
            connection.execute(f"update t set {sets} where id = %s", [*row, rng.randint(1, ROWS)])


def contents(server, table="t"):
    """Names and rows of a table, in no order."""
    with server.connect() as connection:
        cursor = connection.execute(f"select * from {table}")
        return [c.name for c in cursor.description], sorted(cursor, key=repr)


@pytest.mark.parametrize("change", CHANGES)
def test_like_the_same_change_at_rest(froglet, change):
    """Writers are at work while the change scans; they rest, the source is copied, it commits.

    The table must then be what the same SQL makes of the copy at rest.
    """
    fill(froglet)
    with froglet.connect() as migrator:
        with Writers(froglet):
            migrator.execute("begin")
            migrator.execute(CHANGES[change].format(t="t"))
        froglet.run("create table offline (id int primary key, v int, s text)",
                    "insert into offline select * from t")
        migrator.execute("commit")
    froglet.run(CHANGES[change].format(t="offline"))
    assert contents(froglet) == contents(froglet, "offline")


@contextmanager
def changed_under_writers(server, *statements, columns=("v", "s")):
    """Writers are at work before, during and after the change."""
    fill(server)
    with server.connect() as migrator, Writers(server, columns=columns) as writers:
        for statement in statements:
            migrator.execute(statement)
            before = writers.commits
            wait_until(lambda: writers.commits >= before + 20 or writers.failures, "writers go on")
    yield


def test_computed_column_through_the_flip(froglet):
    change = "alter table t add column n bigint generated always as (v * 2 + id) stored"
    with changed_under_writers(froglet, change):
        assert froglet.rows("select * from t where n is distinct from v * 2 + id") == []
        assert froglet.value("select count(*) from t") > 0


def test_a_split_tears_and_loses_nothing(froglet):
    """Each row's v and s are written together, and each writer knows what it has committed.

    PostgreSQL 15, tried: 93 torn rows and lost updates under its default isolation.
    """
    fill(froglet)
    committed, failures = [{}, {}], []

    def write(me):
        rng = random.Random(me)
        with froglet.connect() as connection:
            try:
                for k in range(1, 10_000_000):
                    id = 2 * rng.randint(1, ROWS // 2 - 1) + me
                    connection.execute(
                        "update t set v = %s, s = %s where id = %s", [k, f"s{k}", id])
                    committed[me][id] = k
            except (errors.UndefinedTable, errors.SerializationFailure):
                pass  # The table is gone.
            except psycopg.Error as error:
                failures.append(error)

    threads = [threading.Thread(target=write, args=(me,)) for me in range(2)]
    for thread in threads:
        thread.start()
    wait_until(lambda: all(len(c) > 30 for c in committed) or failures, "the writers are at work")
    with froglet.connect() as migrator:
        for statement in (
                "begin",
                "create table numbers as select id, v from t",
                "alter table numbers add primary key (id)",
                "create table texts as select id, s from t",
                "alter table texts add primary key (id), alter column s set not null",
                "drop table t",
                "commit"):
            migrator.execute(statement)
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive(), "a writer hangs"
    assert not failures, failures

    rows = froglet.rows("select id, v, s from numbers join texts using (id)")
    assert len(rows) == ROWS
    known = committed[0] | committed[1]
    for id, v, s in rows:
        assert v == int(s[1:]) if id in known else (v, s) == (id % 1000, f"s{id}"), "a torn row"
    # An update that was under way at the flip may be there without its writer knowing.
    lost = [(id, v) for id, v, _ in rows if id in known and v < known[id]]
    assert not lost, lost


def test_using_is_applied_once_through_the_flip(froglet):
    """v and w are written together; the change moves w by a million, once for every row."""
    fill(froglet)
    froglet.run("alter table t add column w int", "update t set w = v")
    stop, failures = threading.Event(), []

    def add(seed):
        rng = random.Random(seed)
        with froglet.connect() as connection:
            try:
                while not stop.is_set():
                    connection.execute(
                        "update t set v = v + 1, w = w + 1 where id = %s", [rng.randint(1, 500)])
            except psycopg.Error as error:
                failures.append(error)

    threads = [threading.Thread(target=add, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    for way in ("+", "-", "+"):
        froglet.run(f"alter table t alter column w type bigint using w {way} 1000000")
    stop.set()
    for thread in threads:
        thread.join(60)
    assert not failures, failures
    assert froglet.rows("select id, v, w from t where w is distinct from v + 1000000") == []
    assert froglet.value("select count(*) from t") == ROWS


@pytest.mark.parametrize("unique", ["", "unique "])
def test_index_through_the_flip(froglet, unique):
    """Every row is found by the index, and nothing else is."""
    with changed_under_writers(froglet, f"create {unique}index by_s on t (s)"):
        _, rows = contents(froglet)
        with froglet.connect() as connection:
            for id_, _, s in random.Random(1).sample(rows, 2000):
                assert connection.execute("select id from t where s = %s", [s]).fetchall() == [(id_,)]
            gone = {f"s{i}" for i in range(1, 3000)} - {s for _, _, s in rows}
            for s in gone:
                assert connection.execute("select id from t where s = %s", [s]).fetchall() == []
            ordered = connection.execute("select s from t order by s").fetchall()
        assert [s for [s] in ordered] == sorted(s for _, _, s in rows)


def test_columns_come_and_go_under_writers(froglet):
    """Thirty changes in a row; writers never notice."""
    changes = []
    for i in range(10):
        changes += [
            f"alter table t add column c{i} int default {i}",
            f"alter table t rename column c{i} to d{i}",
            f"alter table t drop column d{i}",
        ]
    with changed_under_writers(froglet, *changes):
        assert contents(froglet)[0] == ["id", "v", "s"]


def test_unique_index_against_writers_of_duplicates(froglet):
    """Either there is an index and no duplicate, or duplicates and no index: never both."""
    froglet.run("create table t (id serial primary key, v int)")
    stop, refused = threading.Event(), []

    def insert(seed):
        rng = random.Random(seed)
        with froglet.connect() as connection:
            while not stop.is_set():
                try:
                    connection.execute("insert into t (v) values (%s)", [rng.randint(1, 5000)])
                except errors.UniqueViolation as error:
                    refused.append(error)

    made = {}

    def make(name):
        with froglet.connect() as connection:
            for _ in range(50):
                try:
                    connection.execute(f"create unique index {name} on t (v)")
                    made[name] = True
                    return
                except errors.UniqueViolation:
                    connection.execute(
                        "delete from t where id not in (select min(id) from t group by v)")

    inserters = [threading.Thread(target=insert, args=(seed,)) for seed in range(2)]
    makers = [threading.Thread(target=make, args=(name,)) for name in ("one", "two")]
    for thread in inserters + makers:
        thread.start()
    for thread in makers:
        thread.join(120)
    stop.set()
    for thread in inserters:
        thread.join(60)
    twice = froglet.rows("select v from t group by v having count(*) > 1")
    indexed = froglet.psql(r"\di", "-At").stdout
    assert bool(made) == ("one" in indexed or "two" in indexed)
    if made:
        assert twice == []
        v = froglet.value("select v from t limit 1")
        with pytest.raises(errors.UniqueViolation):
            froglet.run(f"insert into t (v) values ({v})")


# Statements that were prepared before the change --------------------------------------------------

INT4, INT8, TEXT = 23, 20, 25


class Prepared:
    """A statement prepared by name over the protocol, without psycopg's cleverness in between."""

    def __init__(self, connection, sql):
        self.pg = connection.pgconn
        self.name = f"s{id(self)}".encode()
        result = self.pg.prepare(self.name, sql.encode())
        assert result.status == pq.ExecStatus.COMMAND_OK, result.error_message.decode()

    def described(self):
        """The types it promises."""
        result = self.pg.describe_prepared(self.name)
        return [result.ftype(i) for i in range(result.nfields)]

    def run(self, *parameters, binary=False):
        """Rows and their types, or the SQLSTATE."""
        values = [str(p).encode() if p is not None else None for p in parameters]
        result = self.pg.exec_prepared(
            self.name, values, result_format=pq.Format.BINARY if binary else pq.Format.TEXT)
        if result.status == pq.ExecStatus.FATAL_ERROR:
            return result.error_field(pq.DiagnosticField.SQLSTATE).decode()
        rows = [
            tuple(result.get_value(r, c) for c in range(result.nfields))
            for r in range(result.ntuples)
        ]
        types = [result.ftype(i) for i in range(result.nfields)]
        return (rows, types) if result.nfields else result.command_tuples


@pytest.fixture
def prepare(froglet):
    froglet.run("create table t (id int primary key, v int, s text)",
                "insert into t values (1, 10, 'one'), (2, 20, 'two')")
    with froglet.connect() as connection:
        yield lambda sql: Prepared(connection, sql)


def test_prepared_keeps_its_type_across_alter_type(froglet, prepare):
    """A result keeps the type it was described with; only a value that does not fit is an error."""
    read = prepare("select v from t where id = $1")
    write = prepare("update t set v = v + $1 where id = $2")
    insert = prepare("insert into t values ($1, $2, $3)")
    assert read.run(1) == ([(b"10",)], [INT4])

    froglet.run("alter table t alter column v type bigint")
    assert read.described() == [INT4]
    assert read.run(1) == ([(b"10",)], [INT4])
    assert read.run(1, binary=True) == ([(b"\0\0\0\x0a",)], [INT4])
    assert write.run(5, 1) == 1
    assert insert.run(3, 30, "three") == 1
    assert read.run(1) == ([(b"15",)], [INT4])
    froglet.run("update t set v = 5000000000 where id = 2")
    assert read.run(2) == "22003"
    assert read.run(1) == ([(b"15",)], [INT4])

    froglet.run("update t set v = 20 where id = 2", "alter table t alter column v type text")
    assert read.run(2) == ([(b"20",)], [INT4])
    froglet.run("update t set v = 'twenty' where id = 2")
    assert read.run(2) == "22P02"
    assert prepare("select v from t where id = $1").described() == [TEXT]


def test_prepared_star_keeps_its_columns_across_add_column(froglet, prepare):
    star = prepare("select * from t where id = $1")
    froglet.run("alter table t add column n int default 7")
    assert star.run(1) == ([(b"1", b"10", b"one")], [INT4, INT4, TEXT])
    froglet.run("alter table t alter column v type bigint using v + 100")
    assert star.run(1) == ([(b"1", b"110", b"one")], [INT4, INT4, TEXT])


def test_prepared_that_names_no_changed_column_goes_on(froglet, prepare):
    read = prepare("select s from t where id = $1")
    write = prepare("update t set s = $1 where id = $2")
    insert = prepare("insert into t (id, s) values ($1, $2)")
    for i, change in enumerate([
        "alter table t drop column v",
        "alter table t add column v text default 'new'",
        "alter table t rename column v to w",
        "alter table t drop constraint t_pkey",
        "create index on t (s)",
        "alter table t add primary key (id)",
        "alter table t alter column id type bigint",
    ]):
        froglet.run(change)
        assert write.run(f"after {i}", 1) == 1
        assert read.run(1) == ([(f"after {i}".encode(),)], [TEXT])
        assert insert.run(100 + i, "inserted") == 1
    assert froglet.value("select count(*) from t") == 9


def test_prepared_that_names_a_column_that_is_gone(froglet, prepare):
    """As in PostgreSQL: 42703, and it works again when a column of that name is back."""
    read = prepare("select v from t where id = $1")
    froglet.run("alter table t rename column v to w")
    assert read.run(1) == "42703"
    froglet.run("alter table t rename column w to v")
    assert read.run(1) == ([(b"10",)], [INT4])
    froglet.run("alter table t drop column v")
    assert read.run(1) == "42703"
    froglet.run("drop table t")
    assert read.run(1) == "42P01"


def test_prepared_in_the_transaction_that_changes(froglet, prepare):
    """Prepared, changed and run in one transaction, and run again after its rollback."""
    read = prepare("select v from t where id = $1")
    read.pg.exec_(b"begin")
    read.pg.exec_(b"alter table t alter column v type bigint using v * 1000")
    assert read.run(1) == ([(b"10000",)], [INT4])
    read.pg.exec_(b"rollback")
    assert read.run(1) == ([(b"10",)], [INT4])


def test_open_cursor_across_a_change(froglet, prepare):
    """A portal that has been read in part goes on over its own snapshot."""
    froglet.run("insert into t select n, n, 'n' from generate_series(3, 5000) as g (n)")
    with froglet.connect(autocommit=False) as reader:
        stream = reader.cursor().stream("select id, v, s from t order by id")
        first = [next(stream) for _ in range(10)]
        froglet.run("alter table t drop column s",
                    "alter table t alter column v type text using 'x' || v")
        rest = list(stream)
    assert first[0] == (1, 10, "one") and rest[-1] == (5000, 5000, "n")
    assert len(first) + len(rest) == 5000


# In the middle of a scan --------------------------------------------------------------------------

BIG = 150_000
# The sum may overflow: so it is made before its commit.
SLOW_CHANGE = ("alter table t alter column s type text"
               " using md5(md5(md5(md5(md5(md5(md5(md5(s || v + id))))))))")


@contextmanager
def scanning(server):
    """A session whose change is in the middle of its scan."""
    fill(server, BIG)
    migrator = server.connect()
    outcome = []

    def change():
        try:
            migrator.execute(SLOW_CHANGE)
            outcome.append("done")
        except psycopg.Error as error:
            outcome.append(error.sqlstate)

    thread = threading.Thread(target=change)
    with server.connect() as watcher:
        thread.start()
        wait_until(lambda: outcome or watcher.execute(
            "select 1 from froglet.migrations where phase = 'scan' and rows_scanned > 0").fetchall(),
            "the scan has begun")
    yield migrator, outcome
    thread.join(60)
    assert not thread.is_alive()
    migrator.close()


def assert_as_before(server):
    assert server.rows("select count(*), sum(v), count(distinct s), max(length(s)) from t") == [
        (BIG, sum(i % 1000 for i in range(1, BIG + 1)), BIG, len(f"s{BIG}"))]
    server.run("alter table t add column again int default 1")
    assert server.value("select count(*) from t where again = 1") == BIG


def test_kill_in_the_middle_of_a_scan(froglet):
    with scanning(froglet) as (_, outcome):
        froglet.kill()
    assert outcome != ["done"], "the change was too quick to be killed: make it slower"
    froglet.start()
    assert_as_before(froglet)


def test_cancel_in_the_middle_of_a_scan(froglet):
    with scanning(froglet) as (migrator, outcome):
        migrator.cancel_safe(timeout=10)
    assert outcome == ["57014"]
    assert_as_before(froglet)


def test_statement_timeout_in_the_middle_of_a_scan(froglet):
    fill(froglet, BIG)
    with froglet.connect() as migrator:
        migrator.execute("set statement_timeout = '30ms'")
        with pytest.raises(errors.QueryCanceled):
            migrator.execute(SLOW_CHANGE)
    assert_as_before(froglet)


def test_migrations_view_shows_what_happened(froglet):
    fill(froglet)
    froglet.run("create index by_v on t (v)")
    with pytest.raises(errors.CheckViolation):
        froglet.run("alter table t add check (v < 10)")
    with froglet.connect() as connection:
        cursor = connection.execute("select * from froglet.migrations order by id")
        names = [column.name for column in cursor.description]
        index, check = (dict(zip(names, row)) for row in cursor)
    assert (index["phase"], index["rows_scanned"], index["error"]) == ("done", ROWS, None)
    assert index["blocks_done"] == index["blocks"] > 0
    assert (check["phase"], "23514" in check["error"] or "violated" in check["error"]) == (
        "aborted", True)


def test_explain_alter(froglet):
    """EXPLAIN ALTER says what kind of work it is and changes nothing."""
    fill(froglet, 1000)
    kinds = {
        "alter table t add column n int default 1": "metadata",
        "alter table t add check (v >= 0)": "verify",
        "alter table t alter column v type text using 'v' || v": "column",
        "alter table t add unique (s)": "index",
    }
    for change, kind in kinds.items():
        said = "\n".join(str(row[0]) for row in froglet.rows(f"explain {change}"))
        assert f"(kind={kind})" in said, f"explain {change}\n{said}"
        # A text of any number cannot fail.
        assert "rows≈1000" in said and f"mode={'lazy' if kind == 'column' else 'eager'}" in said
    assert contents(froglet)[0] == ["id", "v", "s"]
    froglet.run("create index by_v on t (v)", "alter table t add constraint small check (v < 1000000)")
    said = [row[0].strip() for row in froglet.rows("explain alter table t alter column v type text using 'v' || v")]
    kinds = [line.rpartition("(kind=")[2].rstrip(")") for line in said if "(kind=" in line]
    assert kinds == ["column", "index", "verify"], said
    assert any("small" in line for line in said) and any("by_v" in line for line in said)


@pytest.mark.parametrize("query", [
    "select id, k from t where k > 2", "select k, count(*) from t group by k",
    "select k from t union all select id from t"])
def test_a_throttled_or_paused_scan_can_be_stopped(froglet, query):
    """It waits for hours; who cancels it does not, nor does anybody else's query."""
    froglet.run("create table t as select x as id, x % 7 as k from generate_series(1, 30000) g(x)")
    with froglet.connect() as owner:
        owner.execute("set froglet.migration_rows_per_second = 1")
        owner.execute("set froglet.migration_scan_threads = 2")
        owner.execute("set statement_timeout = '300ms'")
        with pytest.raises(errors.QueryCanceled):
            owner.execute(f"create table made as {query}")
        owner.execute("set statement_timeout = 0")
        outcome = []

        def make():
            try:
                owner.execute(f"create table made as {query}")
            except psycopg.Error as error:
                outcome.append(error)

        maker = threading.Thread(target=make)
        maker.start()
        under_way = "select max(id) from froglet.migrations where ended is null"
        wait_until(lambda: froglet.value(under_way) is not None, "it is under way", 30)
        number = froglet.value(under_way)
        assert froglet.value(f"select froglet.pause_migration({number})")
        assert froglet.value(f"select froglet.throttle_migration({number}, 0)")
        assert froglet.rows("select paused, rows_per_second from froglet.migrations "
                            f"where id = {number}") == [(True, None)]
        assert froglet.value("select sum(x)::int from generate_series(1, 1000) g(x)") == 500500
        assert froglet.value("select count(*) from t") == 30_000
        assert froglet.value(f"select froglet.cancel_migration({number})")
        maker.join(30)
        assert [error.sqlstate for error in outcome] == ["57014"]
        owner.execute("set froglet.migration_rows_per_second = 0")
        owner.execute(f"create table made as {query}")


def test_what_became_of_migrations_outlives_the_server(froglet):
    froglet.run("create table t (id int primary key, v int)",
                "insert into t select i, i from generate_series(1, 50000) i",
                "alter table t add column w int generated always as (v * 2) stored")
    with froglet.connect() as owner:
        owner.execute("begin")
        owner.execute("create table rolled_back as select v, count(*) from t group by v")
        owner.execute("rollback")
        with pytest.raises(errors.CheckViolation):
            owner.execute("alter table t add check (v < 50000)")

    def shown():
        return froglet.rows("select id, table_name, kind, phase, rows_scanned, started, ended, error, "
                            "statement from froglet.migrations order by id")
    wait_until(lambda: [row[3] for row in shown()] == ["done", "aborted", "aborted"], "they have ended")
    before = shown()
    assert before[2][7].startswith("check constraint") and before[0][4] == 50_000
    froglet.restart()
    after = shown()
    assert [row[:6] for row in after] == [row[:6] for row in before]
    assert [row[7:] for row in after] == [row[7:] for row in before]

    owner = froglet.connect()
    owner.execute("begin")
    owner.execute("alter table t add column y int generated always as (v + 5) stored")
    # What commits later, and waits for the log, takes what was begun before along.
    froglet.run("create table committed (one int)")
    froglet.kill_and_restart()
    owner.close()
    last = shown()[-1]
    # The table that was made first is a schema change, too, and has a number.
    assert last[:4] == (5, "t", "column", "aborted")
    assert last[7] == "the server ended while it was under way"
    assert last[8].startswith("alter table t add column y")
    froglet.run("alter table t drop column w, add column x int generated always as (v + 1) stored")
    wait_until(lambda: shown()[-1][3] == "done", "it is done")
    assert shown()[-1][0] == 7
