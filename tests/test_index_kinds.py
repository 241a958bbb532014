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
                   "select lower(name) from t group by 1 having count(*) > 1 and lower(name) is not null",
                   "name is not null"),
    "partial": ("create unique index u on t (name) where not gone and kind = 1",
                "select name from t where not gone and kind = 1 group by 1 having count(*) > 1 and name is not null",
                "not gone and kind = 1 and name is not null"),
    "both": ("create unique index u on t ((kind % 7), lower(name)) where not gone",
             "select kind % 7, lower(name) from t where not gone group by 1, 2"
             " having count(*) > 1 and count(lower(name)) > 0 and count(kind) > 0",
             "not gone and kind is not null and name is not null"),
    "nulls": ("create unique index u on t (name, kind) nulls not distinct where gone",
              "select name, kind from t where gone group by 1, 2 having count(*) > 1", "gone"),
}
NAMES = 1_000
DUPLICATES = ("delete from t a using t b where lower(a.name) = lower(b.name) and a.id > b.id",)
WRITERS = 4


class Writers:
    """Sessions that write rows of few names, some of which are alike, until they are told to stop."""

    def __init__(self, server):
        self.server, self.stop, self.failed = server, threading.Event(), []
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
        # Few meet others: else no index could be made beside the writers.
        number = chance.randrange(NAMES if chance.random() < 0.04 else 10**9)
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
            # Who wrote before the index was there meets it at the commit.
            if chance.random() < 0.9:
                connection.commit()
        except errors.UniqueViolation as e:
            assert '"u"' in str(e) and "already exists" in str(e), e
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
    sql, duplicates, kept = KINDS[kind]
    filled(froglet)
    with Writers(froglet):
        time.sleep(0.5)
        made(froglet, sql)
        for _ in range(4):
            time.sleep(0.5)
            assert froglet.rows(duplicates) == []
        froglet.run("alter table t alter column kind type bigint")
        time.sleep(0.5)
        froglet.run("alter table t rename column name to title; alter table t rename column title to name")
        time.sleep(0.5)
    assert froglet.rows(duplicates) == []
    with pytest.raises(errors.UniqueViolation):
        froglet.run(f"insert into t (name, kind, gone) select name, kind, gone from t where {kept} limit 1")
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
        newest = froglet.value("select max(id) from froglet.schema_changes")
        froglet.value(f"select froglet.revert_migration({newest})")
        after = froglet.rows("select indexname, indexdef from pg_indexes where tablename = 't' order by 1")
        assert after == before, change
        with pytest.raises(errors.UniqueViolation):
            froglet.run("insert into t values (3, 'X', 1)")
        assert froglet.rows("select * from t order by id") == [(1, "x", 1), (2, "X", 2)]


def test_lazily_made(froglet):
    """Indexes over tables and columns whose values are not stored yet."""
    froglet.run("create table s (id int primary key, name text, n int)")
    froglet.run("insert into s select i, 'N' || i, i from generate_series(1, 40000) i")
    with froglet.connect() as connection:
        connection.execute("set froglet.migration = 'lazy'")
        connection.execute("create table t as select id, name, n from s")
        connection.execute("create unique index u on t (lower(name)) where n % 2 = 0")
        connection.execute("create table w as select id, name, n from s")
        connection.execute("alter table s add column m bigint generated always as (n::bigint * 2) stored")
        connection.execute("create unique index on s ((m + 1)) where m > 10")
        connection.execute("alter table w alter column n type bigint")
        connection.execute("create index on w ((n + 1))")
        connection.execute("alter table w alter column name type varchar(50)")
    with pytest.raises(errors.UniqueViolation):
        froglet.run("insert into t values (0, 'n40000', 2)")
    froglet.run("insert into t values (0, 'n40000', 1)")
    with pytest.raises(errors.UniqueViolation):
        froglet.run("insert into s values (0, 'x', 20000)")
    froglet.run("insert into s values (0, 'x', 5)")
    for sql, expected in (
        ("select id from t where lower(name) = 'n39998' and n % 2 = 0", [(39998,)]),
        ("select id from s where m + 1 = 2001 and m > 10", [(1000,)]),
        ("select id from w where n + 1 = 2001", [(2000,)]),
        ("select count(*), count(distinct lower(name)) from t", [(40001, 40000)]),
        ("select count(*), sum(m) from s", [(40001, 40000 * 40001 + 10)]),
    ):
        assert froglet.rows(sql) == expected, sql
    froglet.kill_and_restart()
    assert froglet.rows("select id from t where lower(name) = 'n39998' and n % 2 = 0") == [(39998,)]
    assert froglet.rows("select id from w where n + 1 = 2001") == [(2000,)]


def test_hidden_columns_stay_hidden(froglet):
    """Statements of every form meet the table's own columns only."""
    froglet.run("create table p (id int primary key)", "insert into p values (1), (2)")
    froglet.run("create table t (id int primary key, a text, p int references p on update cascade on delete set null)")
    froglet.run("create index on t (lower(a))", "create unique index u on t ((p + 10), id) where p > 0")
    froglet.run("alter table t add column b int default 5")
    froglet.run("insert into t values (1, 'X', 1), (2, 'Y', 2)", "insert into t (id, a) values (3, 'Z')")
    rows = [(1, "X", 1, 5), (2, "Y", 2, 5), (3, "Z", None, 5)]
    assert froglet.rows("select * from t order by id") == rows
    assert froglet.rows("table t order by id") == rows
    assert froglet.rows("select t.* from t join p on p.id = t.p order by 1") == rows[:2]
    assert froglet.rows("update t set b = 6 where lower(a) = 'x' returning *") == [(1, "X", 1, 6)]
    assert froglet.rows("update t set a = p.id::text from p where p.id = t.p and t.id = 2 returning t.*, p.*") == [
        (2, "2", 2, 5, 2)]
    assert froglet.rows("insert into t values (1, 'Q') on conflict (id) do update set a = excluded.a returning *") == [
        (1, "Q", 1, 6)]
    froglet.run("update p set id = 7 where id = 1")
    assert froglet.rows("select id from t where p + 10 = 17 and p > 0") == [(1,)]
    froglet.run("delete from p where id = 7")
    assert froglet.rows("select * from t where lower(a) = 'q'") == [(1, "Q", None, 6)]
    assert froglet.rows("select id from t where p + 10 = 17 and p > 0") == []
    froglet.run("create table c as select * from t", "insert into t select id + 10, a, p, b from t")
    assert froglet.rows("select count(*) from c") == [(3,)]
    assert froglet.rows("delete from t where lower(a) = 'z' and id > 3 returning *") == [(13, "Z", None, 5)]
    assert froglet.rows("select attname from pg_attribute where attrelid = 't'::regclass and attnum > 0 order by attnum") == [
        ("id",), ("a",), ("p",), ("b",)]
    assert froglet.rows("select column_name from information_schema.columns where table_name = 't'"
                        " order by ordinal_position") == [("id",), ("a",), ("p",), ("b",)]
    with froglet.connect() as connection, connection.cursor() as cursor:
        with cursor.copy("copy t to stdout") as copy:
            assert {len(row) for row in copy.rows()} == {4}
        with cursor.copy("copy t from stdin") as copy:
            copy.write_row((50, "Fifty", 2, 9))
    assert froglet.rows("select * from t where lower(a) = 'fifty'") == [(50, "Fifty", 2, 9)]
    with pytest.raises(errors.NotNullViolation, match=r"Failing row contains \(null, x, null, 5\)"):
        froglet.run("insert into t values (null, 'x')")
    froglet.run("truncate t", "insert into t values (1, 'X', 2)")
    assert froglet.rows("select * from t where lower(a) = 'x'") == [(1, "X", 2, 5)]


@pytest.mark.parametrize("index, detail", [
    ("unique index u on t (name)", "Key (name)=(a) already exists."),
    ("unique index u on t (lower(name))", "Key (lower(name))=(a) already exists."),
    ("unique index u on t (id % 1, lower(name)) where not gone", "Key ((id % 1::bigint), lower(name))=(0, a) already exists."),
])
def test_a_writer_meets_the_index_at_its_commit(froglet, index, detail):
    """It wrote the key before the index was there, and nobody who made the index could see it."""
    froglet.run(TABLE, "insert into t (name, gone) values ('a', false)")
    with froglet.connect(autocommit=False) as writer:
        writer.execute("insert into t (name, gone) values ('a', false)")
        froglet.run(f"create {index}".replace("id % 1", "(id % 1)"))
        with pytest.raises(errors.UniqueViolation, match='constraint "u"') as e:
            writer.commit()
        assert e.value.diag.message_detail == detail
    assert froglet.value("select count(*) from t") == 1
