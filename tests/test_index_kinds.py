"""Partial and expression indexes, unique ones, made while writers write; through restarts and reverts.

The writers know nothing of the index. Before it is there they make duplicates, so making it may fail: then
nothing is left of it. Once it is made, no two rows have the same key, whoever wrote them and whenever.
"""

import random
import threading
import time

import pytest
from psycopg import errors

TABLE = "create table t (id bigserial primary key, name text, kind int, gone boolean not null default false)"
KINDS = {
    "expression": ("create unique index u on t (lower(name))",
                   "select lower(name) from t group by 1 having count(*) > 1 and lower(name) is not null"),
    "partial": ("create unique index u on t (name) where not gone and kind = 1",
                "select name from t where not gone and kind = 1 group by 1 having count(*) > 1 and name is not null"),
    "both": ("create unique index u on t ((kind % 7), lower(name)) where not gone",
             "select kind % 7, lower(name) from t where not gone group by 1, 2"
             " having count(*) > 1 and count(lower(name)) > 0 and count(kind) > 0"),
    "nulls": ("create unique index u on t (name, kind) nulls not distinct where gone",
              "select name, kind from t where gone group by 1, 2 having count(*) > 1"),
}
NAMES = 3_000
DUPLICATES = ("delete from t a using t b where lower(a.name) = lower(b.name) and a.id > b.id",)
WRITERS = 4


class Writers:
    """Sessions that write rows of few names, some of which are alike, until they are told to stop."""

    def __init__(self, server):
        self.server, self.stop, self.failed, self.refused = server, threading.Event(), [], 0
        self.threads = [threading.Thread(target=self.run, args=(seed,)) for seed in range(WRITERS)]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        for thread in self.threads:
            thread.join()
        assert not self.failed, self.failed[:3]

    def run(self, seed):
        chance = random.Random(seed)
        try:
            with self.server.connect(autocommit=False) as connection:
                while not self.stop.is_set():
                    self.write(connection, chance)
        except Exception as e:  # noqa: BLE001 - the main thread says what went wrong
            self.failed.append(e)

    def write(self, connection, chance):
        # One in fifty meets another: else no index could be made beside the writers.
        number = chance.randrange(NAMES if chance.random() < 0.02 else 10**9)
        name = chance.choice(["n", "N"]) + str(number)
        kind, gone = chance.choice([1, 1, 2, 8, None]), chance.random() < 0.3
        try:
            match chance.randrange(5):
                case 0 | 1:
                    connection.execute(
                        "insert into t (name, kind, gone) values (%s, %s, %s)", (name, kind, gone))
                case 2:
                    connection.execute("update t set name = %s where id = %s", (name, chance.randrange(1, 3_000)))
                case 3:
                    connection.execute(
                        "update t set gone = not gone, kind = %s where id = %s", (kind, chance.randrange(1, 3_000)))
                case _:
                    connection.execute("delete from t where id = %s", (chance.randrange(1, 6_000),))
        except errors.UniqueViolation:
            self.refused += 1
            connection.rollback()
        else:
            if chance.random() < 0.9:
                connection.commit()
            else:
                connection.rollback()


def filled(server):
    server.run(TABLE)
    server.run("insert into t (name, kind, gone)"
               " select 'n' || i, i % 9, i % 5 = 0 from generate_series(1, 3000) i")


def made(server, sql, tries=200):
    """Makes the index; takes out duplicates where there are some."""
    for _ in range(tries):
        try:
            server.run(sql)
            return
        except errors.UniqueViolation:
            server.run(*DUPLICATES)
    raise AssertionError("writers are faster than the one who takes their duplicates out")


@pytest.mark.parametrize("kind", KINDS)
def test_unique_while_writers_write(froglet, kind):
    sql, duplicates = KINDS[kind]
    filled(froglet)
    with Writers(froglet) as writers:
        time.sleep(0.5)
        made(froglet, sql)
        for _ in range(4):
            time.sleep(0.5)
            assert froglet.rows(duplicates) == []
        froglet.run("alter table t alter column kind type bigint")
        time.sleep(0.5)
        froglet.run("alter table t rename column name to title")
        froglet.run("alter table t rename column title to name")
        time.sleep(0.5)
    assert writers.refused > 0
    assert froglet.rows(duplicates) == []
    definition = froglet.value("select indexdef from pg_indexes where indexname = 'u'")
    rows = froglet.rows("select * from t order by id")
    froglet.kill_and_restart()
    assert froglet.rows("select * from t order by id") == rows
    assert froglet.value("select indexdef from pg_indexes where indexname = 'u'") == definition
    assert_lookups_agree(froglet)
    with Writers(froglet):
        time.sleep(1)
    assert froglet.rows(duplicates) == []


def assert_lookups_agree(server):
    """What the index finds is what a scan finds."""
    with server.connect() as connection:
        for number in range(0, NAMES, 97):
            for where in ("lower(name) = '{0}'", "name = '{0}' and not gone and kind = 1",
                          "kind % 7 = 1 and lower(name) = '{0}' and not gone", "name = '{0}' and kind is null and gone"):
                where = where.format(f"n{number}")
                found = connection.execute(f"select id from t where {where} order by id").fetchall()
                scanned = connection.execute(
                    f"with all_rows as materialized (select * from t) select id from all_rows where {where}"
                    " order by id").fetchall()
                assert found == scanned, where


def test_a_failed_index_leaves_nothing(froglet):
    froglet.run(TABLE)
    froglet.run("insert into t (name) values ('a'), ('A')")
    with pytest.raises(errors.UniqueViolation, match=r"Key \(lower\(name\)\)=\(a\) is duplicated"):
        froglet.run("create unique index u on t (lower(name))")
    assert froglet.rows("select indexname from pg_indexes where tablename = 't'") == [("t_pkey",)]
    froglet.run("insert into t (name) values ('a')")
    with froglet.connect(autocommit=False) as connection:
        connection.execute("delete from t where id > 1")
        connection.execute("create unique index u on t (lower(name))")
        with pytest.raises(errors.UniqueViolation):
            connection.execute("insert into t (name) values ('A')")
        connection.rollback()
    assert froglet.value("select count(*) from t") == 3


def test_reverts(froglet):
    """A dropped index comes back as it was, an added one goes."""
    froglet.run("create table t (id int primary key, a text, b int)")
    froglet.run("create unique index u on t (lower(a), (b + 1) desc) include (b) where b > 0")
    froglet.run("insert into t values (1, 'x', 1), (2, 'X', 2)")
    before = froglet.rows("select indexname, indexdef from pg_indexes where tablename = 't' order by 1")
    for change in ("drop index u", "alter table t drop column b", "create index more on t ((b * 2)) where a <> ''"):
        froglet.run(change)
        froglet.value("select froglet.revert_migration((select max(id) from froglet.schema_changes))")
        after = froglet.rows("select indexname, indexdef from pg_indexes where tablename = 't' order by 1")
        assert after == before, change
        with pytest.raises(errors.UniqueViolation):
            froglet.run("insert into t values (3, 'X', 1)")
        assert froglet.rows("select * from t order by id") == [(1, "x", 1), (2, "X", 2)]
