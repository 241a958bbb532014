"""Blocks freeze, thaw and are compacted, and nobody who reads or writes notices.

`froglet.blocks` says what they are; `freeze_after` when they freeze by themselves; VACUUM does it at once.
"""

import threading
import time

import pytest
from psycopg import errors

FREEZING = {"FROGLET_FREEZE_AFTER": "0s", "FROGLET_FREEZE_THREADS": "2"}


def blocks(server, table):
    names = ("hot", "cooling", "frozen", "free_rows", "versions", "bytes")
    row = server.rows(f"select {', '.join(names)} from froglet.blocks where table_name = %s", (table,))[0]
    return dict(zip(names, row))


def wait_for(condition, seconds=60):
    end = time.monotonic() + seconds
    while not (got := condition()):
        assert time.monotonic() < end, "it does not come about"
        time.sleep(0.05)
    return got


def test_blocks_freeze_by_themselves_and_are_hot_where_they_are_written(start):
    server = start(environment={"FROGLET_FREEZE_AFTER": "200ms"})
    server.run("create table t (id int primary key, n int, name text)",
               "insert into t select i, i, 'a name longer than a view ' || i from generate_series(1, 30000) i")
    wait_for(lambda: blocks(server, "t")["frozen"] == 4)
    assert blocks(server, "t") | {"bytes": 0} == {
        "hot": 0, "cooling": 0, "frozen": 4, "free_rows": 0, "versions": 0, "bytes": 0}
    before = server.rows("select * from t order by id")
    with server.connect(autocommit=False) as writer:
        writer.execute("update t set n = -1 where id = 9000")
        assert blocks(server, "t")["hot"] == 1
        assert server.rows("select * from t order by id") == before
    wait_for(lambda: blocks(server, "t")["frozen"] == 4)
    assert server.value("select n from t where id = 9000") == -1


def test_freezing_can_be_off(start):
    server = start(environment={"FROGLET_FREEZE_AFTER": "off"})
    server.run("create table t (id int primary key)", "insert into t select i from generate_series(1, 20000) i")
    wait_for(lambda: blocks(server, "t")["versions"] == 0)
    assert blocks(server, "t")["frozen"] == 0
    server.run("vacuum t")
    assert blocks(server, "t")["frozen"] == 3


def test_vacuum_in_a_transaction_is_refused(froglet):
    with froglet.connect(autocommit=False) as session, pytest.raises(errors.ActiveSqlTransaction):
        session.execute("select 1")
        session.execute("vacuum")


def test_a_scan_leaves_out_what_bounds_refute(start):
    server = start(environment={"FROGLET_FREEZE_AFTER": "off"})
    server.run("create table t (id int primary key, day date, n numeric(8,2), f float8, s text, empty int)",
               "insert into t select i, date '2026-01-01' + i / 1000, i / 10.0, i / 2.0, lpad(i::text, 7, '0'), null::int"
               " from generate_series(0, 99999) i",
               "update t set f = 'nan' where id = 50000", "update t set empty = 1 where id = 7")
    where = ["day = '2026-02-01'", "day between '2026-02-01' and '2026-02-03'", "n > 9900", "n = 123.45", "f >= 49000",
             "f = 'nan'", "f = 0", "s < '0001'", "s in ('0000007', '0099999')", "empty is not null", "empty is null",
             "empty = 1", "day is null", "not (n < 9999)", "day = '2026-02-01' or n = 1", "n + 0 > 9900", "s like '00999%'"]
    def count(condition):
        return server.value(f"select count(*) from t where {condition}")
    hot = [count(condition) for condition in where]
    server.run("vacuum t")
    assert [count(condition) for condition in where] == hot
    plan = server.rows("explain select * from t where day = '2026-02-01'")
    assert any("of 13 block(s)" in line for line, in plan), plan
    # What is written afterwards is found, in whatever block.
    server.run("update t set day = '1999-01-01' where id in (3, 99998)")
    assert count("day = '1999-01-01'") == 2
    server.run("vacuum t")
    assert count("day = '1999-01-01'") == 2
    with server.connect(autocommit=False) as session:
        session.execute("update t set day = '1998-01-01' where id = 40000")
        assert session.execute("select count(*) from t where day < '1999-01-01'").fetchone() == (1,)
        session.rollback()


def test_compaction_gives_blocks_back(start):
    server = start(environment={"FROGLET_FREEZE_AFTER": "off"})
    server.run("create table t (id int primary key, n int, name text)", "create index on t (n)",
               "insert into t select i, i % 100, 'a name longer than a view ' || i from generate_series(1, 100000) i",
               "delete from t where id % 10 <> 0")
    wait_for(lambda: blocks(server, "t")["versions"] == 0)
    before, rows = blocks(server, "t"), server.rows("select * from t order by id")
    server.run("vacuum t")
    wait_for(lambda: blocks(server, "t")["versions"] == 0)
    server.run("vacuum t")
    after = blocks(server, "t")
    assert after["bytes"] < before["bytes"] / 2, (before, after)
    assert server.rows("select * from t order by id") == rows
    assert server.rows("select * from t where n = 50 order by id") == [row for row in rows if row[1] == 50]
    server.kill_and_restart()
    assert server.rows("select * from t order by id") == rows


def test_memory_returns_to_its_level_after_churn(start):
    server = start(environment={"FROGLET_FREEZE_AFTER": "100ms"})
    server.run("create table t (id bigint primary key, n int, name text)")
    levels = []
    for turn in range(8):
        with server.connect() as session:
            first, last = turn * 100000, turn * 100000 + 60000
            session.execute("insert into t select i, i, 'a name longer than a view ' || i"
                            f" from generate_series({first}, {last}) i")
            # What stays is spread over all blocks.
            session.execute(f"delete from t where id < {last} and id % 50 <> 0 or id < {first}")
        wait_for(lambda: blocks(server, "t")["versions"] == 0)
        server.run("vacuum t")
        wait_for(lambda: blocks(server, "t")["versions"] == 0)
        server.run("vacuum t")
        levels.append(blocks(server, "t")["bytes"])
    assert max(levels[2:]) < 1.5 * levels[1], levels


class Load:
    """Sessions that write while rows move; what they did is counted."""

    def __init__(self, server):
        self.server, self.stop, self.failures, self.done = server, threading.Event(), [], {}
        self.threads = []

    def add(self, name, work):
        def run():
            try:
                with self.server.connect() as session:
                    n = 0
                    while not self.stop.is_set():
                        self.done[name] = self.done.get(name, 0) + work(session, n)
                        n += 1
            except Exception as error:  # Shown by the test.
                self.failures.append((name, error))
        self.threads.append(threading.Thread(target=run))

    def run(self, seconds):
        for thread in self.threads:
            thread.start()
        time.sleep(seconds)
        self.stop.set()
        for thread in self.threads:
            thread.join()
        assert not self.failures, self.failures


def test_no_update_is_lost_while_rows_move(start):
    server = start(environment=FREEZING)
    server.run("create table p (id int primary key, n int not null default 0, pad text)",
               "insert into p select i, 0, repeat('x', 30) from generate_series(1, 40000) i",
               "delete from p where id % 8 <> 0",
               "create table c (id bigserial primary key, p int not null references p)", "create index on c (p)")
    load = Load(server)

    def update(session, n):
        return session.execute("update p set n = n + 1 where id = %s", (n * 88 % 40000 + 8,)).rowcount

    def update_many(session, n):
        at = n * 800 % 40000
        return session.execute("update p set n = n + 1 where id > %s and id <= %s", (at, at + 400)).rowcount

    def update_serially(session, n):
        try:
            with session.transaction():
                session.execute("set transaction isolation level repeatable read")
                session.execute("select count(*) from p where id < 100")
                return session.execute("update p set n = n + 1 where id = %s", (n * 152 % 40000 + 8,)).rowcount
        except errors.SerializationFailure:
            return 0

    def upsert(session, n):
        session.execute("insert into p (id, n) values (%s, 1) on conflict (id) do update set n = p.n + 1",
                        (n * 24 % 40000 + 8,))
        return 1

    def lock_and_update(session, n):
        key = n * 56 % 40000 + 8
        with session.transaction():
            seen = session.execute("select n from p where id = %s for update", (key,)).fetchone()[0]
            session.execute("update p set n = %s where id = %s", (seen + 1, key))
        return 1

    def child(session, n):
        session.execute("insert into c (p) values (%s)", (n * 104 % 40000 + 8,))
        return 1

    def churn(session, n):
        # Rows that come and go keep the blocks sparse.
        session.execute("insert into p select i, 0, 'gone soon' from generate_series(50001, 50400) i")
        session.execute("delete from p where id > 50000")
        return 1

    def vacuum(session, n):
        session.execute("vacuum p")
        return 1

    for counting in (update, update_many, update_serially, upsert, lock_and_update):
        load.add(counting.__name__, counting)
    for beside in (child, churn, vacuum):
        load.add(beside.__name__, beside)
    load.run(12)
    counted = sum(load.done[w.__name__] for w in (update, update_many, update_serially, upsert, lock_and_update))
    assert server.value("select sum(n) from p") == counted, load.done
    assert server.value("select count(*) from p") == 5000
    assert server.value("select count(*) from c") == load.done["child"]
    assert server.value("select count(*) from c left join p on p.id = c.p where p.id is null") == 0
    by_key = sum(server.value("select n from p where id = %s", (key,)) for key in range(8, 40001, 8))
    assert by_key == counted


# --- The option `dictionary` ------------------------------------------------------------------------------


def dictionaries(server, table):
    """In how many columns of blocks equal strings are kept once, after all that can be has been frozen."""
    wait_for(lambda: blocks(server, table)["versions"] == 0)
    server.run(f"vacuum {table}")
    return server.value("select dictionaries from froglet.blocks where table_name = %s", (table,))


def fill(server, table, first=1):
    """Two blocks: `few` has 20 strings, `many` has as many as rows; none of them fits into a view."""
    server.run(f"insert into {table} select i, 'one of few long texts ' || i % 20, 'one of many long texts ' || i"
               f" from generate_series({first}, {first + 16383}) i")


def test_dictionaries_of_tables_and_columns(start):
    server = start(environment={"FROGLET_FREEZE_AFTER": "off"})
    for name, options in (("auto", ""), ("never", "with (dictionary = off)"), ("always", "with (dictionary = on)")):
        server.run(f"create table {name} (id int primary key, few text, many text) {options}")
        fill(server, name)
    assert [dictionaries(server, name) for name in ("auto", "never", "always")] == [2, 0, 4]
    size = {name: blocks(server, name)["bytes"] for name in ("auto", "never", "always")}
    assert size["auto"] < size["never"] and size["auto"] <= size["always"]
    # A column's own option goes before its table's.
    server.run("create table mixed (id int primary key, few text, many text) with (dictionary = on)",
               "alter table mixed alter column many set (dictionary = off, n_distinct = 5)")
    fill(server, "mixed")
    assert dictionaries(server, "mixed") == 2
    # Blocks that are frozen from then on.
    server.run("alter table never set (dictionary = auto)")
    fill(server, "never", 100_000)
    assert dictionaries(server, "never") == 2
    server.run("alter table mixed alter many reset (dictionary), reset (dictionary, fillfactor)")
    fill(server, "mixed", 100_000)
    assert dictionaries(server, "mixed") == 4
    copied = "create table copied with (dictionary = off) as select * from mixed"
    server.run(copied, "truncate mixed", "alter table mixed set (dictionary = on)")
    assert dictionaries(server, "copied") == 0
    fill(server, "mixed")
    assert dictionaries(server, "mixed") == 4


def test_options_are_in_the_catalog_and_outlive_a_restart(start):
    server = start(environment={"FROGLET_FREEZE_AFTER": "off"})
    server.run("create table t (id int primary key, few text, many text) with (fillfactor = 70, dictionary = off)",
               "alter table only t alter column few set (dictionary = 'on')",
               "alter table t alter few type varchar(100), add column n int default 5")
    options = "select reloptions from pg_class where relname = 't'"
    of_columns = "select attname, attoptions from pg_attribute where attrelid = 't'::regclass and attoptions is not null"
    for _ in range(2):
        assert server.value(options) == ["dictionary=off"]
        assert server.rows(of_columns) == [("few", ["dictionary=on"])]
        server.stop()
        server.start()
    fill(server, "t (id, few, many)")
    assert dictionaries(server, "t") == 2
    assert "Options: dictionary=off" in server.psql(r"\d+ t").stdout
    with server.connect(autocommit=False) as session:
        session.execute("alter table t reset (dictionary)")
        session.rollback()
    assert server.value(options) == ["dictionary=off"]
    server.run("alter table t reset (dictionary)", "alter table t alter few reset (dictionary)")
    assert server.value(options) is None and server.rows(of_columns) == []


def test_a_change_of_options_is_reverted(start):
    server = start(environment={"FROGLET_FREEZE_AFTER": "off"})
    server.run("create table t (id int primary key, few text) with (dictionary = on)")
    with server.connect(autocommit=False) as session:
        session.execute("alter table t reset (dictionary), alter few set (dictionary = off)")
        session.commit()
    change = server.value("select max(id) from froglet.schema_changes")
    server.run(f"select froglet.revert_migration({change})")
    assert server.value("select reloptions from pg_class where relname = 't'") == ["dictionary=on"]
    assert server.value("select attoptions from pg_attribute where attname = 'few'") is None


@pytest.mark.parametrize("statement, state, words", [
    ("create table u (a text) with (dictionary = perhaps)", "22023", 'Valid values are "on", "off", and "auto".'),
    ("create table u (a text) with (dictionary = on, dictionary = off)", "22023", "more than once"),
    ("alter table t set (dictionari = on)", "22023", 'unrecognized parameter "dictionari"'),
    ("alter table t alter a set (fillfactor = 50)", "22023", 'unrecognized parameter "fillfactor"'),
    ("alter table t alter nobody set (dictionary = on)", "42703", 'column "nobody"'),
    ("alter table t alter a set ()", "42601", "syntax error"),
    ("alter table t reset ()", "42601", "syntax error"),
    ("alter table t reset (dictionary = on)", "42601", "syntax error"),
    ("alter table t alter a set (dictionary)", "42601", "syntax error"),
    ("alter table t set tblproperties ('a' = (dictionary = on))", "42601", "syntax error"),
    ("alter table t alter a set (dictionary = on", "42601", "syntax error"),
])
def test_options_that_are_none(froglet, statement, state, words):
    froglet.run("create table t (a text)")
    with pytest.raises(errors.Error) as refused:
        froglet.run(statement)
    assert refused.value.sqlstate == state, refused.value
    assert words in str(refused.value)
    assert froglet.value("select count(*) from pg_attribute where attoptions is not null") == 0
