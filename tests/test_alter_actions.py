"""ALTER TABLE of several actions: all of them read rows as they were before the statement, and run in PostgreSQL's order,
whatever the order they are written in. Generated statements on PostgreSQL 15 and here, eagerly and lazily.
"""

import os
import random

import psycopg
import pytest

SEEDS = int(os.environ.get("FROGLET_TEST_ALTER_SEEDS", 40))
TABLE = (
    "create table t (id int primary key, a int, b int, c int, s text, d date, u int unique, k int not null)",
    "insert into t select i, i * 7 % 11, i * 5 % 13, i, 's' || i, date '2024-01-01' + i, 100 - i, i % 3"
    " from generate_series(1, 20) i",
)
COLUMNS = ("a", "b", "c", "s", "d", "u", "k")
OPTIONAL = (
    "create index t_ab on t (a, b)",
    "create unique index t_cu on t (c, u)",
    "create index t_expr on t ((a + b))",
    "create index t_part on t (c) where b > 3",
    "alter table t add constraint positive check (c > 0)",
    "alter table t add constraint differ check (a <> -1 or b <> -1)",
    "alter table t add column g int generated always as (c * 2) stored",
    "alter table t alter k set default 5",
)


def action(pick):
    one, other = pick.choice(COLUMNS), pick.choice(COLUMNS)
    new = pick.choice("xy")
    return pick.choice((
        f"alter {one} type {pick.choice(('int', 'bigint', 'text', 'numeric'))} using {other}",
        f"alter {one} type int using {pick.choice('abc')}",
        f"alter {one} type int using {pick.choice('abc')} + {pick.choice('abck')}",
        f"alter {one} type text using {other}::text",
        f"alter {one} type bigint",
        f"alter {one} type text",
        f"drop column {one}",
        f"drop column {one} cascade",
        "drop column if exists g",
        f"add column {new} int default 3",
        f"add column {new} int not null default 4 check ({new} > 0)",
        f"add column {new} int generated always as ({pick.choice('abc')} + 1) stored",
        f"add column {one} text",
        f"add column {new} int unique",
        f"add constraint fresh check ({pick.choice('abcxy')} is distinct from -7)",
        f"add constraint fresh_key unique ({one}, {other})",
        "drop constraint if exists positive",
        f"alter {one} set default 9",
        f"alter {one} drop default",
        f"alter {pick.choice(COLUMNS + ('x',))} set not null",
        f"alter {one} drop not null",
    ))


def outcome(connection, sql):
    try:
        connection.execute(sql)
    except psycopg.Error as error:
        return error.sqlstate
    return "ok"


def described(connection):
    """What a client sees of the table: columns, constraints, indexes, rows."""
    queries = (
        "select attname, format_type(atttypid, atttypmod), attnotnull, pg_get_expr(adbin, adrelid) from pg_attribute"
        " left join pg_attrdef on adrelid = attrelid and adnum = attnum where attrelid = 't'::regclass"
        " and attnum > 0 and not attisdropped order by attname",
        "select conname, contype from pg_constraint where conrelid = 't'::regclass order by 1",
        "select indexname from pg_indexes where tablename = 't' order by 1",
    )
    found = [connection.execute(query).fetchall() for query in queries]
    columns = [name for name, *_ in found[0]]
    rows = connection.execute(f"select {', '.join(columns)} from t").fetchall() if columns else []
    return found + [sorted(rows, key=repr)]


def run(connection, pick):
    connection.prepare_threshold = None
    connection.execute("drop table if exists t")
    for sql in TABLE:
        connection.execute(sql)
    for sql in OPTIONAL:
        if pick.random() < 0.3:
            connection.execute(sql)
    told = []
    for _ in range(2):
        actions = ", ".join(action(pick) for _ in range(pick.randint(1, 4)))
        sql = f"alter table t {actions}"
        told.append((sql, outcome(connection, sql), described(connection)))
    for sql in ("update t set id = id + 100 where id > 15", "delete from t where id < 3"):
        told.append((sql, outcome(connection, sql), described(connection)))
    return told


@pytest.mark.parametrize("mode", ["eager", "auto", "lazy"])
def test_generated_statements_do_what_postgresql_does(froglet, postgres, mode):
    with froglet.connect() as ours, postgres.connect() as theirs:
        ours.execute(f"set froglet.migration = {'auto' if mode == 'lazy' else mode}")
        if mode == "lazy":
            ours.execute("set froglet.migration_delay = '1h'")
        done = 0
        for seed in range(SEEDS):
            expected = run(theirs, random.Random(seed))
            found = run(ours, random.Random(seed))
            for theirs_did, ours_did in zip(expected, found):
                sql, state, table = theirs_did
                done += state == "ok" and sql.startswith("alter")
                if ours_did[1] == "0A000" and state == "ok":
                    break
                # What is wrong with the statement and what is wrong with a row: which is said first is another matter.
                if "ok" not in (state, ours_did[1]) and ", " in sql:
                    ours_did = (sql, state, ours_did[2])
                assert ours_did == theirs_did, f"seed {seed}: {sql}"
        assert done > SEEDS / 4


def test_columns_swap(server):
    server.run("create table t (id int primary key, a int, b int)", "insert into t values (1, 7, 10), (2, 14, 20)",
               "alter table t alter a type int using b, alter b type int using a")
    assert server.rows("select a, b from t order by id") == [(10, 7), (20, 14)]
    server.run("alter table t alter a type bigint using a + b, drop column b")
    assert server.rows("select * from t order by id") == [(1, 17), (2, 34)]


def test_unique_keys_and_checks_are_looked_at_when_all_types_are_there(server):
    server.run("create table t (id int primary key, a int, b int, unique (a, b), check (a < b))",
               "insert into t values (1, 1, 2), (2, 1, 3), (3, 2, 3)")
    server.run("alter table t alter a type text using -b, alter b type text using -a, drop constraint t_check")
    assert server.rows("select a, b from t order by id") == [("-2", "-1"), ("-3", "-1"), ("-3", "-2")]
    with server.connect() as connection:
        with pytest.raises(psycopg.errors.UniqueViolation):
            connection.execute("alter table t alter a type int using 1, alter b type int using 1")
        for sql, error in (
            ("alter table t alter a type int using 1, alter a type int using 2", psycopg.errors.FeatureNotSupported),
            ("alter table t alter a type int using 1, drop column a", psycopg.errors.UndefinedColumn),
            ("alter table t add column x int, alter x type text", psycopg.errors.UndefinedColumn),
            ("alter table t add column x int, drop column x", psycopg.errors.UndefinedColumn),
        ):
            with pytest.raises(error):
                connection.execute(sql)


def test_a_constraint_of_a_new_column_sees_the_others(server):
    server.run("create table t (id int)", "insert into t values (1)")
    server.run("alter table t add column a int check (a < b), add column b int default 5")
    server.run("alter table t add column p int references t (q), add column q int unique")
    assert server.value("select count(*) from pg_constraint where conrelid = 't'::regclass") == 3


@pytest.mark.parametrize("method", ["memory", "disk"])
def test_a_default_that_is_no_number_is_there_after_a_restart(froglet, method):
    froglet.run(f"create table t (id int) using {method}", "insert into t values (1)",
                "alter table t add column x float8 default 'NaN', add column y float8 default '-Infinity'",
                "alter table t add column z float4 default 'Infinity', add column w numeric default 'NaN'",
                "alter table t add column v float4 default 0.1, add column u float8 default -0.1")
    before = froglet.rows("select t::text from t")
    assert before == [("(1,NaN,-Infinity,Infinity,NaN,0.1,-0.1)",)]
    for checkpoint in (False, True):
        if checkpoint:
            froglet.run("checkpoint")
        froglet.kill_and_restart()
        assert froglet.rows("select t::text from t") == before
    froglet.run("insert into t (id) values (2)")
    assert froglet.value("select count(*) from t where x = 'NaN' and y < -1e300 and z > 1e30") == 2
