"""Columns that are computed lazily, by every way to their rows: what the same statements find in a table whose
columns were computed before the commit (`support/twins.py`). Nothing is filled in the background unless a test
says so.
"""

import time

import psycopg
import pytest
from psycopg import errors

from support.processes import wait_until
from support.twins import Twins

TABLE = (
    "create table t (id int primary key, a int, b text, c int not null, d numeric(12,2), u int unique)",
    "create index t_c on t (c, id)",
    "insert into t select i, case when i % 11 > 0 then i % 13 end, case when i % 17 > 0 then 'b' || i % 5 end,"
    " i % 29, i * 1.25, case when i % 19 > 0 then 1000 - i end from generate_series(1, 300) i",
    "delete from t where id between 100 and 110",
    "update t set d = d + 1 where id between 200 and 210",
)
# What is computed, of which columns, and what has to be looked at before.
CHANGES = {
    "wider": "alter table t alter column a type bigint",
    "using": "alter table t alter column a type text using coalesce(b, '-') || a * 2",
    "of others": "alter table t alter column d type numeric(14,3) using d * 2 + c",
    "not null": "alter table t alter column b type text using coalesce(b, '')",
    "generated": "alter table t add column g bigint generated always as (c * 3 + coalesce(a, 0)) stored",
    "generated not null": "alter table t add column g int not null generated always as (c + 1) stored",
    "of the session": "alter table t alter column a type text using"
                      " '2026-01-01 00:00+00'::timestamptz::text || a",
}
READS = (
    "select * from t order by id",
    "select * from t where id = 17",
    "select * from t where id in (1, 2, 3, 103, 250)",
    "select * from t where u = 900",
    "select * from t where c = 5 order by c, id",
    "select * from t where id > 290 order by id desc limit 3",
    "select a, count(*) from t group by a",
    "select id from t where a is null order by id",
    "select id from t order by a nulls last, id limit 9",
    "select count(*), min(a), max(a), count(distinct b) from t",
    "select count(*) from t",
    "select x.id from t x join t y on x.u = 1000 - y.id and x.a = y.a order by 1",
)
WRITES = (
    "update t set c = c + 1 where id = 20",
    "update t set c = c + 1, d = 0 where id in (21, 22, 23) returning *",
    "update t set b = 'new' where c = 7 returning id, a, b",
    "delete from t where id between 30 and 33 returning *",
    "insert into t (id, c, u) values (1001, 4, 4001), (1002, 5, 4002) returning *",
    "insert into t (id, c, u) values (40, 99, 4003) on conflict (id) do update set c = excluded.c returning *",
    "update t set id = id + 5000 where id = 41 returning *",
    "select * from t where id in (44, 45) order by id for update",
)


def sides(start, change, fast="on", **settings):
    twins = Twins(start, **{"froglet.fast_path": fast} | settings)
    for connection in (twins.eager, twins.lazy):
        for sql in TABLE:
            connection.execute(sql)
        connection.execute("set timezone = 'Asia/Kolkata'")
    twins.do_all(change)
    for connection in (twins.eager, twins.lazy):
        connection.execute("set timezone = 'UTC'")
    return twins


def courses(server):
    """Lazy columns, oldest first: table, phase, and rows filled because they were written."""
    return server.rows("select table_name, phase, rows_on_access from froglet.migrations"
                       " where kind = 'column' and phase in ('lazy', 'background') order by id")


@pytest.mark.parametrize("fast", ["on", "off"])
@pytest.mark.parametrize("change", CHANGES)
def test_every_way_to_the_rows(start, change, fast):
    twins = sides(start, CHANGES[change], fast)
    lazy = twins.servers[1]
    assert courses(lazy) == [("t", "lazy", 0)]
    for read in READS:
        twins.do(read)
    assert courses(lazy) == [("t", "lazy", 0)], "who reads fills nothing"
    for write in WRITES:
        twins.do(write)
        twins.do(READS[0])
    [(_, _, filled)] = courses(lazy)
    assert 0 < filled < 40, "what is written is filled before, and nothing else"
    twins.kill()
    for read in READS:
        twins.do(read)
    for write in WRITES[:3]:
        twins.do(write)
    twins.do(READS[0])
    # The index needs every value.
    assert "alter" in CHANGES[change]
    column = "g" if "column g" in CHANGES[change] else CHANGES[change].split()[5]
    twins.do_all(f"create index t_new on t ({column})")
    twins.do(READS[0])
    twins.do(f"select {column}, id from t order by {column} nulls last, id limit 20")


def test_an_older_snapshot_sees_what_it_saw(start):
    """Views between the commit and a write of a row, whoever writes it, and however late it is read."""
    server = start()
    server.run(*TABLE)
    old = server.connect(autocommit=False)
    old.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    old.execute("update t set c = 1000 where id = 1")
    old.execute("delete from t where id = 2")
    old.execute("insert into t (id, a, c) values (3000, 7, 0)")
    server.run("set froglet.migration = lazy; set froglet.migration_delay = '1h';"
               " alter table t alter column a type text using 'a' || c")
    between = server.connect(autocommit=False)
    between.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    seen = between.execute("select id, a from t where id <= 6 or id = 3000 order by id").fetchall()
    assert seen == [(i, f"a{i % 29}") for i in range(1, 7)]
    # It knows nothing of the column, and computes it for what it has written.
    assert old.execute("select a from t where id = 3").fetchone() == (3,)
    old.commit()
    server.run("update t set c = 2000 where id = 4", "delete from t where id = 5",
               "update t set a = 'mine' where id = 6")
    look = "select id, a from t where id <= 6 or id = 3000 order by id"
    assert server.rows(look) == [(1, "a1000"), (3, "a3"), (4, "a4"), (6, "mine"), (3000, "a0")]
    assert between.execute(look).fetchall() == seen
    # Everything is filled; what the older view sees is, too.
    server.run("create index on t (a)")
    assert between.execute(look).fetchall() == seen
    assert server.rows(look) == [(1, "a1000"), (3, "a3"), (4, "a4"), (6, "mine"), (3000, "a0")]
    old.close()
    between.close()


def test_one_is_computed_from_another(start):
    """Chains: each column is computed from one that is not there yet."""
    twins = sides(start, CHANGES["wider"])
    twins.do("update t set a = 500 where id = 50")
    twins.do_all("alter table t alter column a type text using 'x' || a")
    twins.do("update t set a = a || '!' where id in (50, 51)")
    twins.do_all("alter table t add column g int generated always as (length(a)) stored")
    twins.do("update t set c = 0 where id = 52")
    for read in READS:
        twins.do(read)
    assert len(courses(twins.servers[1])) == 3
    twins.kill()
    twins.do_all("alter table t drop column g")
    twins.do("update t set b = a where id between 60 and 65 returning *")
    twins.do(READS[0])
    twins.do_all("alter table t drop column a")
    twins.do("select * from t order by id")
    assert courses(twins.servers[1]) == [], "nobody needs them"


def test_in_a_transaction(start):
    """The owner reads and writes the column before the commit, and may take it back."""
    twins = sides(start, "select 1")
    twins.do_all(
        "begin", "update t set c = 77 where id = 1",
        "alter table t alter column a type text using 'a' || c")
    twins.do(READS[0])
    twins.do("update t set c = 78 where id in (1, 2) returning *")
    twins.do("update t set a = 'own' where id = 3 returning *")
    twins.do("insert into t (id, a, c) values (2000, 'new', 1) returning *")
    twins.do("delete from t where id = 4 returning *")
    twins.do_all("savepoint s", "alter table t add column g int generated always as (c * 2) stored",
                 "update t set c = 79 where id = 5")
    twins.do(READS[0])
    # It needs the values: the columns are filled before the commit.
    twins.do_all("alter table t add constraint t_g check (g >= 0)")
    twins.do(READS[0])
    twins.do_all("rollback to s")
    twins.do(READS[0])
    twins.do_all("commit")
    twins.do(READS[0])
    assert [phase for _, phase, _ in courses(twins.servers[1])] == ["lazy"]
    twins.kill()
    twins.do(READS[0])
    twins.do_all("begin", "alter table t alter column d type text using 'd' || d",
                 "update t set d = 'own' where id = 7", "create table copy with (migration = eager) as select * from t",
                 "create index on t (d)", "commit")
    twins.do("select * from copy order by id")
    twins.do(READS[0])
    twins.do_all("begin", "alter table t alter column b type text using 'rolled back'",
                 "update t set c = 0 where id = 8", "rollback")
    twins.do(READS[0])


def test_what_fails_is_told_before(start):
    """An expression that fails for a row, or gives NULL where that must not be, fails the statement."""
    twins = sides(start, "select 1")
    for change in (
        "alter table t alter column b type int using b::int",
        "alter table t alter column d type int using 10 / (c - 3)",
        "alter table t alter column d type int using d / 0",
        "alter table t add column g int not null generated always as (a) stored",
    ):
        twins.do(change)
        twins.do(READS[0])
    assert courses(twins.servers[1]) == []


@pytest.mark.parametrize("change, why", [
    ("alter table t alter column c type bigint", "An index over it is built anew."),
    ("alter table t alter column a type float8 using random()", "Its expression has a volatile function."),
    ("alter table t add column g int unique generated always as (id) stored",
     "Every row is looked at for its constraints."),
])
def test_refused(start, change, why):
    server = start()
    server.run(*TABLE)
    with server.connect() as connection:
        connection.execute("set froglet.migration = lazy")
        with pytest.raises(errors.FeatureNotSupported) as refused:
            connection.execute(change)
        assert refused.value.diag.message_detail == why
        plan = "\n".join(line for line, in connection.execute(f"explain {change}").fetchall())
        assert f"Mode: none, it cannot be lazy. {why}" in plan
        connection.execute("set froglet.migration = auto")
        connection.execute(change)


def test_auto_chooses(start):
    server = start()
    server.run(*TABLE)
    notices = []
    with server.connect() as connection:
        connection.add_notice_handler(lambda notice: notices.append(notice.message_primary))
        for change, choice in (
            ("alter table t alter column a type bigint using coalesce(a, 0)::bigint", "lazy, nothing is to be verified"),
            ("alter table t alter column a type float8", "lazy, nothing is to be verified"),
            ("alter table t alter column a type real", "eager, every row is looked at: it may fail for some, or be NULL"),
            ("alter table t alter column u type bigint", "eager, an index over it is built anew"),
            ("alter table t alter column d type text using 'd' || d || 1 / length(d::text)",
             "eager, every row is looked at: it may fail for some, or be NULL"),
            ("alter table t alter column c type bigint", "eager, an index over it is built anew"),
        ):
            plan = "\n".join(line for line, in connection.execute(f"explain {change}").fetchall())
            assert f"Mode: {choice}" in plan
            notices.clear()
            connection.execute(change)
            when, why = choice.split(", ", 1)
            [notice] = notices
            assert why in notice and ("lazily" in notice) == (when == "lazy")


@pytest.mark.parametrize("mode", ["lazy", "hybrid"])
def test_the_background_fills_what_is_left(start, mode):
    server = start()
    server.run("create table t (id int primary key, x int, y int)",
               "insert into t select i, i, 0 from generate_series(1, 100000) i")
    server.run(f"set froglet.migration = {mode}; alter table t alter column x type bigint using x + 1;")
    with server.connect() as connection:
        for id in range(1, 2000, 7):
            connection.execute("update t set y = x where id = %s", [id])
    wait_until(lambda: courses(server) == [], "it ends")
    [(phase, access, background, blocks, done)] = server.rows(
        "select phase, rows_on_access, rows_scanned, blocks, blocks_done from froglet.migrations"
        " where kind = 'column' order by id desc limit 1")
    assert (phase, access + background, blocks) == ("done", 100_000, done), "each row is filled once"
    look = "select count(*), sum(x), sum(y) from t"
    assert server.value("select count(*) from t where x <> id + 1") == 0
    before = server.rows(look)
    server.kill_and_restart()
    assert server.rows(look) == before
    assert server.value("select count(*) from froglet.migrations where phase in ('lazy', 'background')") == 0


def test_paused_throttled_and_not_cancelled(start):
    server = start()
    server.run("create table t (id int primary key, x int)",
               "insert into t select i, i from generate_series(1, 50000) i",
               "set froglet.migration = lazy; set froglet.migration_delay = '1h';"
               " alter table t alter column x type bigint")
    id = server.value("select id from froglet.migrations where phase = 'lazy'")
    with pytest.raises(errors.ObjectNotInPrerequisiteState):
        server.run(f"select froglet.cancel_migration({id})")
    server.run(f"select froglet.pause_migration({id})")
    assert server.value(f"select paused from froglet.migrations where id = {id}")
    server.kill_and_restart()
    assert server.rows("select count(*), sum(x) from t") == [(50_000, 1_250_025_000)]


@pytest.mark.parametrize("seed", range(3))
def test_kill_in_the_middle(start, seed):
    """kill -9 while rows are written, and filled: each has what it was told to have."""
    import random
    rng = random.Random(seed)
    server = start()
    server.run("create table t (id int primary key, x int, y text)",
               "insert into t select i, i, 'y' from generate_series(1, 30000) i",
               "checkpoint",
               "set froglet.migration = lazy; alter table t alter column x type bigint using x * 2;")
    told = {}
    for _ in range(3):
        with server.connect() as connection:
            end = time.monotonic() + 0.3 * rng.random()
            while time.monotonic() < end:
                id = rng.randint(1, 30_000)
                connection.execute("update t set x = x + 1 where id = %s", [id])
                told[id] = told.get(id, 0) + 1
            if rng.random() < 0.5:
                connection.execute("checkpoint")
        server.kill_and_restart()
        rows = server.rows("select id, x from t")
        assert len(rows) == 30_000
        wrong = [(id, x) for id, x in rows if x != 2 * id + told.get(id, 0)]
        assert wrong == []
