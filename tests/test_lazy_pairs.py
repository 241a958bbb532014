"""Joins that are unique on neither side, made lazily pair by pair (BullFrog, section 4.3.6, the third way): what the
same statements find in a table that was made eagerly of the same sources (`support/twins.py`).
"""

import random
import threading

import psycopg
import pytest
from psycopg import errors

from support.processes import wait_until
from support.twins import Twins, outcome

# One key has 300 x 200 rows, one 40 x 30; others few; NULLs on both sides; deleted and updated rows.
SKEWED = (
    "create table o (id int primary key, k int, g text, day int, x int)",
    "insert into o select i, case when i <= 300 then 1 when i <= 340 then 2 when i % 7 = 0 then null else i % 50 end,"
    " 'g' || i % 4, i % 10, i from generate_series(1, 700) i",
    "create index o_k on o (k)", "create index o_day on o (day desc)",
    "create table p (id int primary key, k int, g text, name text)",
    "insert into p select i, case when i <= 200 then 1 when i <= 230 then 2 when i % 5 = 0 then null else i % 40 end,"
    " 'g' || i % 3, 'n' || i from generate_series(1, 300) i",
    "create index p_k on p (g, k)", "create index p_k2 on p (k)", "create index p_name on p (name)",
    "delete from o where id between 100 and 110", "update p set name = name || '!' where id between 50 and 60",
)
QUERY = ("select o.id as a, p.id as b, o.k, o.g as og, p.g as pg, o.day, p.name, o.x + p.id as s"
         " from o join p on o.k = p.k where o.x <> p.id")
MADE = (
    "create table t as " + QUERY,
    "alter table t add primary key (a, b)", "create index t_b on t (b, a)", "create index t_k on t (k)",
    "create index t_day on t (day desc, name, a)", "create index t_name on t (name, og)", "create index t_s on t (s)",
)
READS = (
    "select * from t where a = 17 and b = 5",
    "select * from t where a = 17 and b = 17",
    "select * from t where a = 105 and b = 5",
    "select * from t where b = 6 and a = 18",
    "select * from t where a = 21 and b between 10 and 20 order by b",
    "select * from t where a = 21 and b > 190 order by b desc",
    "select count(*) from t where a = 30",
    "select count(*), sum(s) from t where b = 40",
    "select a, b from t where k = 2 order by a, b",
    "select a, b from t where k is null",
    "select a, b from t where k = 30 order by a, b",
    "select a, b, name from t where day = 3 and name = 'n7' order by a",
    "select a, b, name from t where day = 4 and name between 'n70' and 'n72' order by name, a",
    "select a, b from t where name = 'n55!' and og = 'g2' order by a",
    "select a, b from t where name in ('n1', 'n300', 'none') and og = 'g3' order by a, b",
    "select a, b from t where a in (1, 2, 400, 401) and b in (3, 250, 251) order by a, b",
    "select a, b from t where s = 500 order by a, b",
)


def twins_of(start, make=MADE, source=SKEWED, **settings):
    twins = Twins(start, **{"froglet.migration_join": "pair", **settings})
    twins.do_all(*source)
    twins.make(*make)
    return twins


def touched(twins):
    """How many rows were moved because somebody wanted them."""
    return twins.migrations()[-1][3]


@pytest.mark.parametrize("detection", ["tracker", "on_conflict"])
@pytest.mark.parametrize("dropped", [True, False], ids=["dropped", "kept"])
def test_reads(start, dropped, detection):
    """Each pair is made when it is looked up, no others, and once."""
    drop = ("drop table o, p",) if dropped else ()
    twins = twins_of(start, (*MADE, *drop), **{"froglet.migration_detection": detection})
    if not dropped:
        twins.do_all("update o set k = k + 1, x = -x where id % 2 = 0", "delete from p where id % 3 = 0",
                     "insert into o values (5000, 1, 'g1', 3, 3)", "drop index p_name")
    counts = []
    for read in READS[:-1]:
        twins.do(read)
        counts.append(touched(twins))
        twins.do(read)
        assert touched(twins) == counts[-1], read
    # One pair; none; none, as its row is gone; one; eleven; twelve.
    assert counts[:6] == [1, 1, 1, 2, 13, 25]
    twins.kill()
    for read in READS:
        twins.do(read)
    twins.do("select * from t order by a, b")
    wait_until(lambda: twins.migrations()[-1][1] == "done", "it is done")
    twins.do("select count(*), sum(s) from t")


WRITES = (
    "update t set name = 'new' where a = 17 and b = 5 returning *",
    "delete from t where a = 18 and b = 6",
    "select * from t where a = 18 and b = 6",
    "insert into t (a, b, name) values (18, 6, 'again')",
    "insert into t (a, b, name) values (19, 6, 'twice')",
    "insert into t (a, b, name) values (20, 20, 'left out')",
    "insert into t (a, b, name) values (22, 7, 'c'), (22, 22, 'd') on conflict (a, b) do update set name = t.name || excluded.name"
    " returning a, b, name",
    "insert into t (a, b) values (23, 8), (5000, 5000) on conflict do nothing",
    "update t set b = 9 where a = 24 and b = 8",
    "update t set a = -a where day = 7 and name = 'n9'",
    "update t set k = 2 where k = 30",
    "delete from t where b = 11 and a < 50 returning a",
    "begin", "delete from t where a = 40", "rollback", "select count(*) from t where a = 40",
    "select * from t where a = 41 and b in (1, 2, 3) for update",
    "delete from t where k = 2",
)


def test_writes(start):
    twins = twins_of(start, (*MADE, "drop table o, p"))
    for sql in WRITES:
        twins.do(sql)
    twins.do("checkpoint")
    twins.do("update t set name = 'after' where b = 12 and a between 60 and 70")
    twins.kill()
    for sql in WRITES:
        twins.do(sql)
    twins.do("select * from t order by a, b")
    for sql in ("create index on t (name, b)", "alter table t add check (k < 1000)", "select * from t order by a, b"):
        twins.do(sql)
    twins.kill()
    twins.do("select * from t order by a, b")


# Other joins: by two columns, of which one has an index; of a table with itself; of no index with the whole key; by texts.
JOINS = {
    "two columns": "select o.id as a, p.id as b, o.g as c from o join p on o.k = p.k and o.g = p.g",
    "itself": "select l.id as a, r.id as b, r.day as c from o l join o r on l.k = r.k and l.day = r.day",
    "filters": "select o.id as a, p.id as b, o.day as c from o, p where p.k = o.k and o.day = 3 and p.name > 'n2'"
               " and o.id > p.id",
    "twice": "select o.id as a, p.id as b, o.x as c from o join p on o.k = p.k and o.x = p.k",
    "a column": "select p.name as a, p.name as b, p.k as c from o join p on o.k = p.k",
    "texts": "select o.id as a, p.id as b, p.g as c from o join p on p.g = o.g",
    "unique": "select o.id as a, p.id as b, p.name as c from o join p on o.day = p.id",
}


@pytest.mark.parametrize("delay", ["1h", "0"], ids=["on_access", "background"])
def test_joins(start, delay):
    twins = Twins(start, delay=delay, **{"froglet.migration_join": "pair"})
    twins.do_all(*SKEWED, "create index o_g on o (g)")
    made = []
    for n, query in enumerate(JOINS.values()):
        made += [f"create table t{n} as {query}", f"create index on t{n} (a, b)", f"create index on t{n} (c, b)"]
    twins.make(*made)
    plans = [row[0] for row in twins.lazy.execute(f"explain create table n as {JOINS['itself']}")]
    assert "        Join: pair by pair, as froglet.migration_join says" in plans
    twins.do_all("update o set day = day + 1, k = null where id < 200", "delete from p where id > 100")
    for n in range(len(JOINS)):
        at = "'n7'" if n == 4 else 17
        for sql in (f"select * from t where a = {at} and b > {at} order by a, b", f"select * from t where a = {at} order by b",
                    f"delete from t where a = {at} and b = {at}", "select c, count(*) from t group by c",
                    "select * from t order by a, b, c"):
            if n == 4:
                sql = sql.replace("17", "'n17'")
            twins.do(sql.replace(" t ", f" t{n} "))
    wait_until(lambda: {phase for _, phase, *_ in twins.migrations()} == {"done"}, "all are done", 120)
    twins.kill()
    for n in range(len(JOINS)):
        twins.do(f"select * from t{n} order by a, b, c")


def test_own_pairs(start):
    """Before the commit the owner reads what its own view of the sources makes."""
    twins = Twins(start, **{"froglet.migration_join": "pair"})
    twins.do_all(*SKEWED)
    twins.do_all("begin", *MADE)
    for read in READS:
        twins.do(read)
    twins.do("select * from t order by a, b")
    twins.do_all("savepoint s", "drop table o", "rollback to s", "commit")
    for read in READS:
        twins.do(read)
    twins.do("select * from t order by a, b")


# Under load ---------------------------------------------------------------------------------------

# One key has 160 x 120 rows, twenty have 3 x 4.
HOT = (
    "create table o (id int primary key, k int, x int)",
    "insert into o select i, case when i <= 160 then 0 else 1 + i % 20 end, i from generate_series(1, 220) i",
    "create index o_k on o (k)", "create index o_x on o (x)",
    "create table p (id int primary key, k int, name text)",
    "insert into p select i, case when i <= 120 then 0 else 1 + i % 20 end, 'n' || i from generate_series(1, 200) i",
    "create index p_k on p (k)",
)
PAIRS = 160 * 120 + 60 * 80 // 20
BOTH = ("select o.id as a, p.id as b, o.k, o.x, p.name from o join p on o.k = p.k",
        ("alter table {t} add primary key (a, b)", "create index {t}_b on {t} (b)", "create index {t}_x on {t} (x)"))


class Client(threading.Thread):
    """Looks pairs up, and writes those of its own rows to both tables alike, until it is to stop or its server dies."""

    def __init__(self, server, me, dies):
        super().__init__()
        self.server, self.me, self.dies, self.rng = server, me, dies, random.Random(me)
        self.stopping, self.failure, self.done = threading.Event(), None, 0

    def run(self):
        try:
            with self.server.connect() as connection:
                while not self.stopping.is_set():
                    self.transaction(connection)
                    self.done += 1
        except psycopg.OperationalError as error:
            self.failure = None if error.sqlstate is None and self.dies else error
        except Exception as error:  # noqa: BLE001: shown by the test
            self.failure = error

    def transaction(self, connection):
        rng = self.rng
        a, b = 4 * rng.randrange(54) + self.me + 1, rng.randint(1, 200)
        lookup = rng.choice(("a = {a} and b = {b}", "a = {a} and b = {b}", "a = {a} and b between {b} and {b} + 3",
                             "x = {a}", "b = {b} and a < {a} and a > {a} - 5")).format(a=a, b=b)
        connection.execute(f"select * from t where {lookup}").fetchall()
        write = rng.choice((
            "update {t} set name = '{n}' where a = {a} and b = {b}", "delete from {t} where a = {a} and b = {b}",
            "delete from {t} where x = {a}" if rng.random() < 0.05 else "update {t} set x = x where a = {a} and b = {b}",
            "insert into {t} (a, b, name) values ({a}, {b}, '{n}') on conflict (a, b) do update set name = {t}.name || '.'"))
        with connection.transaction():
            tags = [connection.execute(write.format(t=t, a=a, b=b, n=f"{self.me}/{self.done}")).statusmessage
                    for t in ("t", "e")]
            assert tags[0] == tags[1], f"{write} {a} {b}: {tags}"


def equal(server):
    """Both tables, row by row."""
    with server.connect() as connection:
        t, e = (connection.execute(f"select a, b, k, x, name from {t} order by a, b").fetchall() for t in ("t", "e"))
        assert t == e, f"only in t {sorted(set(t) - set(e))[:20]}, only in e {sorted(set(e) - set(t))[:20]}"


def hot(server, delay, detection="tracker"):
    server.run(*HOT)
    query, keys = BOTH
    with server.connect() as owner:
        owner.execute(f"set froglet.migration_delay = '{delay}'")
        owner.execute(f"set froglet.migration_detection = {detection}")
        notices = []
        owner.add_notice_handler(lambda notice: notices.append(notice.message_primary))
        with owner.transaction():
            for t, mode in (("e", "eager"), ("t", "lazy")):
                # So that clients are in time to meet what is not there.
                owner.execute(f"set froglet.migration_rows_per_second = {5000 if t == 't' else 0}")
                owner.execute(f"create table {t} with (migration = {mode}) as {query}")
                for key in keys:
                    owner.execute(key.format(t=t))
            owner.execute("drop table o, p")
    assert any("pair by pair, as a key has" in notice for notice in notices), notices


def at_work(server, dies=False):
    clients = [Client(server, me, dies) for me in range(4)]
    for client in clients:
        client.start()
    return clients


def stopped(clients):
    for client in clients:
        client.stopping.set()
    for client in clients:
        client.join(60)
        assert not client.is_alive() and client.failure is None, client.failure


def ended(server):
    wait_until(lambda: server.value("select phase from froglet.migrations where table_name = 't'") == "done", "it ends", 120)


@pytest.mark.parametrize("detection", ["tracker", "on_conflict"])
def test_hot_key(froglet, detection):
    """Concurrent lookups and writes of a key with many rows on both sides; each pair is made once."""
    hot(froglet, "300ms", detection)
    clients = at_work(froglet)
    ended(froglet)
    stopped(clients)
    equal(froglet)
    moved = "select rows_on_access, rows_scanned from froglet.migrations where table_name = 't'"
    on_access, in_background = froglet.rows(moved)[0]
    assert on_access > 100 and on_access + in_background == PAIRS
    assert min(client.done for client in clients) > 20


POINTS = {"lazy: rows made, not logged": (1, 20, 60), "lazy: rows logged, not in place": (1, 40, 70),
          "lazy: rows in place": (2, 30, 60), "lazy: all rows in place, not ended": (1,)}


@pytest.mark.parametrize("detection", ["tracker", "on_conflict"])
@pytest.mark.parametrize("point, times", [(point, times) for point, all_ in POINTS.items() for times in all_])
def test_killed_at(start, point, times, detection):
    """The server dies while pairs are being made, and once more soon after it is back."""
    server = start()
    hot(server, "500ms", detection)
    server.stop()
    for environment in ({"FROGLET_CRASH_AT": f"{point}:{times}"}, {}):
        server.environment = environment
        server.start()
        clients = at_work(server, dies=True)
        if environment:
            wait_until(lambda: not server.alive(), "the server dies", 120)
            server.process.communicate()
            server.process = None
        else:
            server.run("checkpoint")
            server.kill()
        stopped(clients)
    server.start()
    clients = at_work(server)
    ended(server)
    stopped(clients)
    equal(server)
    server.kill_and_restart()
    equal(server)


@pytest.mark.parametrize("join", ["pair", "key"])
def test_read_whole_as_the_background_ends(froglet, join):
    """Readers of all rows and the background come to the end together: it is one, whoever is a step ahead."""
    froglet.run(*HOT, "create index o_id on o (id)")
    for round_ in range(12):
        with froglet.connect() as owner:
            owner.execute("set froglet.migration = lazy")
            owner.execute("set froglet.migration_delay = 0")
            owner.execute(f"set froglet.migration_join = {join}")
            owner.execute(f"create table t{round_} as {BOTH[0]}")
        readers = [threading.Thread(target=froglet.value, args=(f"select count(*) from t{round_}",)) for _ in range(12)]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join(60)
            assert not reader.is_alive()
        ended = f"select phase, error from froglet.migrations where table_name = 't{round_}' and phase in ('done', 'aborted')"
        assert wait_until(lambda: froglet.rows(ended), "it ends") == [("done", None)]
        assert froglet.value(f"select count(*) from t{round_}") == PAIRS


def test_which_way(froglet):
    """By the rows of a key; the setting says otherwise; unique keys lead the second way."""
    froglet.run("create table l (id int primary key, k int, j int, f float8)", "create index on l (k)", "create index on l (j)",
                "insert into l select i, i % 100, i % 2, i from generate_series(1, 300) i",
                "create table r (id int primary key, k int, j int, f float8)", "create index on r (k)", "create index on r (j)",
                "insert into r select i, i % 100, i % 2, i from generate_series(1, 200) i",
                "create index on l (f)", "create index on r (f)")

    def way(query, wanted="auto"):
        with froglet.connect() as connection:
            connection.execute("set froglet.migration = lazy")
            connection.execute(f"set froglet.migration_join = {wanted}")
            lines = connection.execute(f"explain create table t as {query}").fetchall()
        assert any("Tracker" in line for (line,) in lines)
        return next((line.strip() for (line,) in lines if "Join:" in line), None)

    by_k = "select l.id as a, r.id as b from l join r on l.k = r.k"
    by_j = "select l.id as a, r.id as b from l join r on l.j = r.j"
    asked = "as froglet.migration_join says"
    assert way(by_k) == "Join: all rows of a key at once, as none of 8 keys has over 1024 pairs of rows: 6 at most"
    assert way(by_j) == "Join: pair by pair, as a key has 15000 pairs of rows, or more: over 1024"
    assert way(by_j, "key") == f"Join: all rows of a key at once, {asked}"
    assert way(by_k, "pair") == f"Join: pair by pair, {asked}"
    by_id = "select l.id as a, r.id as b from l join r on l.k = r.id"
    one = "Join: each row by itself, as unique keys lead to the others; of those nothing is tracked"
    assert way(by_id) == one and way(by_id, "key") == f"Join: all rows of a key at once, {asked}"
    assert way(by_id, "pair") == f"Join: pair by pair, {asked}"
    left = by_j.replace("join", "left join")
    assert way(left) == way(left, "pair") == "Join: all rows of a key at once, as it is no inner join"
    # Arithmetic may fail: not for these integers, of which it is verified.
    sums = by_k.replace("r.id as b", "r.id + l.id as b")
    assert way(sums) == ("Join: pair by pair, as it cannot be by keys: an expression over groups, or a join by keys,"
                         " may fail for some")
    # -0 is 0: keys of floating-point numbers are compared as the query does.
    assert way(by_k.replace(".k", ".f"), "pair") == "Join: all rows of a key at once, as no two indexes lead from one table to another"
    assert way("select k, count(*) from l group by k") is None


@pytest.mark.parametrize("query", [
    "select s.id as a, min(s.v) as v from s group by s.id",
    "select s.id as a, s.v, r.v as w from s join r on s.k = r.k",
], ids=["groups", "pairs"])
def test_no_memory(start, query):
    """Past the memory limit rows cannot be made: whoever wants them is told so, and his connection goes on."""
    server = start(environment={"FROGLET_MEMORY_LIMIT": "24MB"})
    server.run("create table s (id int primary key, k int, v text)", "create index on s (k)",
               # What a transaction is about to log is on the account, too.
               *(f"insert into s select i, i % 100, repeat('x', 1000) || i from generate_series({first}, {first + 999}) i"
                 for first in range(1, 11001, 1000)),
               "create table r (k int, v text)", "create index on r (k)",
               "insert into r select i, repeat('y', 300) || i from generate_series(1, 99) i",
               "create table small (a int primary key)", "insert into small select i from generate_series(1, 11000) i")
    with server.connect() as c:
        c.execute("set froglet.migration = lazy")
        c.execute("set froglet.migration_delay = '1h'")
        c.execute("set froglet.migration_join = pair")
        with c.transaction():
            for sql in (f"create table t as {query}", "create index on t (a)", "drop table s, r"):
                c.execute(sql)
        one = "select a, length(v) from t where a = %s"
        with pytest.raises(errors.OutOfMemory):
            for a in range(1, 11001):
                c.execute(one, [a])
        for sql in ("select a from t where a = 10999", "select count(*) from t", "update t set v = '' where a = 10998",
                    "select small.a from small join t on t.a = small.a where small.a > 10900",
                    "explain analyze select * from t where a = 10997", "declare c cursor with hold for select * from t"):
            with pytest.raises(errors.OutOfMemory):
                c.execute(sql)
            with pytest.raises(errors.OutOfMemory), c.transaction():
                c.execute("select * from small where a = 1")
                c.execute(sql)
            assert c.execute("select count(*) from small").fetchone() == (11000,)
        for what in ("t", "(select * from t where a = 10996)"):
            with pytest.raises(errors.OutOfMemory), c.cursor().copy(f"copy {what} to stdout") as copy:
                list(copy)
        with c.transaction():
            with pytest.raises(errors.OutOfMemory), c.transaction():
                c.execute("delete from t where a between 5000 and 10900")
            assert c.execute("select min(a) from small").fetchone() == (1,)
        assert c.execute(one, [1]).fetchone()[1] > 1000
    server.environment["FROGLET_MEMORY_LIMIT"] = "200MB"
    server.kill_and_restart()
    count = 11000 if "group" in query else 10890
    assert server.rows("select count(*), count(distinct a) from t") == [(count, count)]
