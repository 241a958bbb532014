"""Reverts of schema changes: afterwards the schema is what it was, to the name of each constraint, and what
was written meanwhile is all there; or nothing has happened, and the error says why.
"""

import threading
import time

import psycopg
import pytest
from psycopg import errors

TABLE = (
    "create table p (id int primary key)",
    "insert into p select i from generate_series(1, 20) i",
    "create table t (id int primary key, a int not null default 7, b text, c varchar(10), d numeric(12,2),"
    " p_id int references p on delete cascade, constraint t_a check (a < 100000), constraint t_b unique (b))",
    "create index t_c on t (c desc, id)",
    "create table k (id int primary key, t_b text references t (b))",
    "insert into t select i, i, 'b' || i, 'c' || i % 10, i * 1.25, 1 + i % 20 from generate_series(1, 200) i",
    "insert into k values (1, 'b1'), (2, 'b2')",
)

SCHEMA = (
    "select table_name, column_name, data_type, character_maximum_length, numeric_scale, is_nullable, column_default,"
    " is_identity, generation_expression, ordinal_position"
    " from information_schema.columns where table_schema = 'public' order by 1, ordinal_position",
    "select conrelid::regclass::text, conname, pg_get_constraintdef(oid) from pg_constraint"
    " where connamespace = 'public'::regnamespace order by 1, 2, 3",
    "select tablename, indexname, indexdef from pg_indexes where schemaname = 'public' order by 1, 2",
)


def schema(server):
    return [server.rows(sql) for sql in SCHEMA]


def newest(server):
    return server.value("select max(id) from froglet.schema_changes")


def change(server, *statements):
    """A transaction of schema changes; its number."""
    with server.connect() as connection, connection.transaction():
        for statement in statements:
            connection.execute(statement)
    return newest(server)


def plan(server, number):
    return server.rows(f"select statement, lossless, loss, note from froglet.revert_plan({number}) order by step")


def losses(server, number):
    return [loss for _, lossless, loss, _ in plan(server, number) if not lossless]


def revert(server, number, lossy=False):
    arguments = f"{number}, lossy => true" if lossy else number
    return server.value(f"select froglet.revert_migration({arguments})")


# The change, what others write meanwhile, and what the table has to be then.
ALL = "select * from t order by id"
IN_PLACE = {
    "rename table": (["alter table t rename to u"],
                     ["insert into u (id) values (1001)", "delete from u where id = 7"],
                     "select * from u order by id"),
    "rename column": (["alter table t rename column b to e"],
                      ["update t set e = 'x' || id where id between 3 and 9"], ALL),
    "swap columns": (["alter table t rename column b to x", "alter table t rename column c to b",
                      "alter table t rename column x to c"],
                     ["update t set c = 'x' || id where id < 10 and id > 2"], "select id, a, c, b, d, p_id from t order by id"),
    "swap tables": (["alter table t rename to x", "alter table p rename to t", "alter table x rename to p"],
                    ["update p set a = 0 where id < 10"], "select * from p order by id"),
    "rename constraint": (["alter table t rename constraint t_a to small", "alter table t rename constraint t_pkey to key"],
                          ["insert into t (id) values (1001)"], ALL),
    "rename index": (["alter index t_c rename to t_cc"], ["insert into t (id) values (1001)"], ALL),
    "create index": (["create index t_d on t (d)", "create unique index on t (a, id)"],
                     ["insert into t (id) values (1001)"], ALL),
    "drop index": (["drop index t_c"], ["insert into t (id, c) values (1001, 'x')"], ALL),
    "add constraints": (["alter table t add constraint d check (d >= 0)", "alter table t add constraint un unique (a, id)",
                         "alter table t add foreign key (a) references t (id) on delete set default on update restrict"],
                        ["update t set a = id where id < 100"], ALL),
    "drop constraints": (["alter table t drop constraint t_a", "alter table t drop constraint t_p_id_fkey"],
                         ["update t set a = a + 1 where id < 100"], ALL),
    "drop keys": (["alter table t drop constraint t_b cascade", "alter table t drop constraint t_pkey"],
                  ["insert into t (id) values (1001)"], ALL),
    "not null": (["alter table t alter a drop not null", "alter table t alter d set not null"],
                 ["insert into t (id, d) values (1001, 4)"], ALL),
    "default": (["alter table t alter a drop default", "alter table t alter c set default 'c'",
                 "alter table t alter b set default 'b'", "alter table t alter b drop default"],
                ["insert into t (id, a) values (1001, 4)"], ALL),
    "add column": (["alter table t add n int default 5", "alter table t add m text", "create index t_n on t (n)"],
                   ["insert into t (id, a) values (1001, 4)", "update t set a = 3 where id = 5"],
                   "select id, a, b, c, d, p_id from t order by id"),
    "add generated column": (["alter table t add g bigint generated always as (a * 2) stored"],
                             ["update t set a = 3 where id = 5"], "select id, a, b, c, d, p_id from t order by id"),
    "wider type": (["alter table t alter a type bigint", "alter table t alter c type text",
                    "alter table t alter d type numeric(20,2)"],
                   ["update t set a = 30000, c = 'ten chars!', d = 1234567890.12 where id = 5"], ALL),
    "narrower type": (["alter table t alter a type smallint"], ["update t set a = 300 where id = 5"], ALL),
    "drop column": (["alter table t drop c", "alter table t drop d"],
                    ["update t set a = 300 where id = 5", "delete from t where id = 6"],
                    None),
    "drop column with default": (["alter table t drop a"],
                                 ["update t set d = 300 where id = 5", "delete from t where id = 6",
                                  "insert into t (id, b) values (6, 'new'), (1001, 'newer')"], None),
    "many": (["alter table t rename to u", "alter table u drop column c", "alter table u rename column b to bb",
              "alter table u add n int", "create index u_n on u (n, bb)", "alter table u alter a type bigint",
              "alter table u drop constraint t_a", "alter table k rename to kk"],
             ["update u set d = 300 where id = 5", "delete from u where id = 6"], None),
}


@pytest.mark.parametrize("name", IN_PLACE)
def test_what_a_change_has_done_to_a_table_is_undone(froglet, name):
    statements, writes, expected = IN_PLACE[name]
    froglet.run(*TABLE)
    before = schema(froglet)
    old = {row[0]: row for row in froglet.rows(ALL)}
    number = change(froglet, *statements)
    froglet.run(*writes)
    assert losses(froglet, number) == []
    if expected:
        rows = froglet.rows(expected)
    revert(froglet, number)
    assert schema(froglet) == before
    if expected:
        assert froglet.rows(ALL) == rows
    else:
        for row in froglet.rows(ALL):
            if row[0] == 5:
                assert row[2:4] == old[5][2:4] and 300 in row
            elif row[0] in (6, 1001):
                assert row[1] == 7 and row[3] is None
            else:
                assert row == old[row[0]]
    # And once more, the other way.
    assert froglet.rows(f"select reverted_by from froglet.schema_changes where id = {number}") == [(newest(froglet),)]


def test_a_column_comes_back_after_a_crash(start):
    server = start()
    server.run(*TABLE)
    before, rows = schema(server), server.rows(ALL)
    number = change(server, "alter table t drop column c", "alter table t alter column a type bigint")
    server.run("insert into t (id, a) values (1001, 1)", "delete from t where id = 17",
               "insert into t (id, a) values (17, 17)", "update t set a = 0 where id = 1")
    server.kill_and_restart()
    assert losses(server, number) == []
    server.run("checkpoint", "insert into t (id, a) values (1002, 1)")
    server.kill_and_restart()
    revert(server, number)
    server.kill_and_restart()
    assert schema(server) == before
    found = dict((row[0], row) for row in server.rows(ALL))
    for row in rows:
        if row[0] == 1:
            row = (row[0], 0, *row[2:])
        if row[0] == 17:
            row = (17, 17, None, None, None, None)
        assert found[row[0]] == row
    assert found[1001][3] is None and found[1002][3] is None


def test_what_was_kept_is_let_go(start):
    server = start()
    server.run(*TABLE, "set froglet.revert_retention = '0'; alter table t drop column d")
    number = newest(server)
    deadline = time.monotonic() + 20
    while server.value(f"select kept_columns from froglet.schema_changes where id = {number}") > 0:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    [loss] = losses(server, number)
    assert 'values of dropped column "d"' in loss
    with pytest.raises(errors.ObjectNotInPrerequisiteState) as raised:
        revert(server, number)
    assert "would lose data" in str(raised.value)
    with pytest.raises(errors.UndefinedColumn):
        server.run("alter table t undrop column d")
    before = schema(server)
    assert before == schema(server)
    revert(server, number, lossy=True)
    assert server.value("select count(*) from t where d is null") == 200


def test_undrop_column_is_a_statement(froglet):
    froglet.run(*TABLE)
    rows = froglet.rows(ALL)
    columns = schema(froglet)[0]
    froglet.run("alter table t drop column b cascade", "alter table t undrop column b")
    assert froglet.rows(ALL) == rows
    assert schema(froglet)[0] == columns
    for sql, error in {
        "alter table t undrop column b": errors.UndefinedColumn,
        "alter table t undrop nothing": errors.UndefinedColumn,
        "alter table nothing undrop column b": errors.UndefinedTable,
        "alter table t undrop": errors.SyntaxError,
    }.items():
        with pytest.raises(error):
            froglet.run(sql)


def test_values_of_an_added_column_are_not_lost_unasked(froglet):
    froglet.run(*TABLE)
    before = schema(froglet)
    number = change(froglet, "alter table t add n int default 5")
    froglet.run("update t set n = 6 where id = 3")
    assert losses(froglet, number) == ['the values of column "n" of "t"']
    with pytest.raises(errors.ObjectNotInPrerequisiteState) as raised:
        revert(froglet, number)
    assert "values of column" in raised.value.diag.message_detail
    assert "lossy => true" in raised.value.diag.message_hint
    assert froglet.value("select n from t where id = 3") == 6
    again = revert(froglet, number, lossy=True)
    assert schema(froglet) == before
    # The revert is a change like others: its own revert brings the column back, with what was in it.
    assert losses(froglet, again) == []
    revert(froglet, again)
    assert froglet.rows("select n from t where id in (3, 4) order by id") == [(6,), (5,)]


def test_a_value_written_during_the_revert_is_not_lost(froglet):
    froglet.run(*TABLE)
    number = change(froglet, "alter table t add n int default 5")
    with froglet.connect() as connection:
        connection.execute("begin")
        connection.execute(f"select froglet.revert_migration({number})")
        froglet.run("update t set n = 6 where id = 3")
        with pytest.raises(errors.CheckViolation):
            connection.execute("commit")
    assert froglet.value("select n from t where id = 3") == 6


def test_a_value_that_does_not_fit_fails_the_revert(froglet):
    froglet.run(*TABLE)
    number = change(froglet, "alter table t alter a type bigint", "alter table t drop constraint t_a")
    froglet.run(f"update t set a = {2**40} where id = 3")
    after = schema(froglet)
    with pytest.raises(errors.NumericValueOutOfRange):
        revert(froglet, number)
    assert schema(froglet) == after
    assert froglet.value("select a from t where id = 3") == 2**40
    froglet.run("update t set a = 1 where id = 3")
    revert(froglet, number)


def test_a_revert_is_rolled_back_as_any_change(froglet):
    froglet.run(*TABLE)
    number = change(froglet, "alter table t drop column c", "alter table t rename column b to e")
    after, rows = schema(froglet), froglet.rows(ALL)
    with froglet.connect() as connection:
        connection.execute("begin")
        connection.execute(f"select froglet.revert_migration({number})")
        assert connection.execute("select c from t where id = 3").fetchall() == [("c3",)]
        with pytest.raises(errors.ObjectNotInPrerequisiteState):
            connection.execute(f"select froglet.revert_migration({number})")
        connection.execute("rollback")
        connection.execute("begin")
        connection.execute("savepoint s")
        connection.execute(f"select froglet.revert_migration({number})")
        connection.execute("rollback to s")
        connection.execute("update t set e = 'x' where id = 3")
        connection.execute("rollback")
    assert (schema(froglet), froglet.rows(ALL)) == (after, rows)
    time.sleep(0.5)
    revert(froglet, number)
    assert froglet.value("select c from t where id = 3") == "c3"
    assert froglet.value("select sum(length(c)) from t") == 400


def test_a_revert_with_other_changes_in_its_transaction(froglet):
    froglet.run(*TABLE)
    number = change(froglet, "alter table t drop column c", "alter table t rename to u")
    with froglet.connect() as connection:
        with pytest.raises(errors.ObjectNotInPrerequisiteState) as raised, connection.transaction():
            connection.execute("alter table u add z int")
            connection.execute(f"select froglet.revert_migration({number})")
        assert 'Table "u" is not as it has left it.' in str(raised.value)
        with connection.transaction():
            connection.execute("alter table p add z int")
            connection.execute(f"select froglet.revert_migration({number})")
            connection.execute("alter table t add z int default 3")
            connection.execute("update t set z = 4, c = 'new' where id = 3")
    assert froglet.rows("select id, c, z from t where id in (3, 4) order by id") == [(3, "new", 4), (4, "c4", 3)]
    number = newest(froglet)
    assert losses(froglet, number) == [f'the values of column "{column}" of "t"' for column in "cz"]


def test_later_changes_go_first(froglet):
    froglet.run(*TABLE)
    before = schema(froglet)
    first = change(froglet, "alter table t rename column b to e")
    second = change(froglet, "create index t_e on t (e)")
    third = change(froglet, "alter table p add x int")
    for statement in (f"select * from froglet.revert_plan({first})", f"select froglet.revert_migration({first})"):
        with pytest.raises(errors.ObjectNotInPrerequisiteState) as raised:
            froglet.run(statement)
        assert f'Schema change {second} has changed "t" since: create index t_e on t (e).' in str(raised.value)
        assert f"revert_migration({second})" in raised.value.diag.message_hint
    revert(froglet, third)
    undone = revert(froglet, second)
    revert(froglet, undone)
    with pytest.raises(errors.ObjectNotInPrerequisiteState):
        revert(froglet, first)
    with pytest.raises(errors.ObjectNotInPrerequisiteState):
        revert(froglet, undone)
    revert(froglet, second)
    revert(froglet, first)
    assert schema(froglet) == before


def test_numbers_that_cannot_be_reverted(froglet):
    froglet.run(*TABLE)
    froglet.run("alter table p add n int ; ")
    assert froglet.value("select statements from froglet.schema_changes order by id desc limit 1") == [
        "alter table p add n int"]
    number = change(froglet, "alter table t rename column b to e")
    done = revert(froglet, number)
    for argument, error, text in (
        ("99999", errors.UndefinedObject, "schema change 99999 does not exist"),
        ("-1", errors.UndefinedObject, "schema change -1 does not exist"),
        (number, errors.ObjectNotInPrerequisiteState, f"It was reverted by schema change {done}."),
        ("null", errors.InvalidParameterValue, "must not be null"),
        ("'x'", errors.InvalidTextRepresentation, "bigint"),
        (f"{number}, null", errors.InvalidParameterValue, "must not be null"),
        ("", errors.Error, ""),
        (f"{number}, true, 3", errors.Error, ""),
        (f"{number}) + (1", errors.FeatureNotSupported, "must be all that its query does"),
    ):
        with pytest.raises(error) as raised:
            froglet.run(f"select froglet.revert_migration({argument})")
        assert text in str(raised.value), argument
    for argument in ("", "null", "'x'", "1, 2"):
        with pytest.raises(errors.Error):
            froglet.run(f"select * from froglet.revert_plan({argument})")
    with pytest.raises(errors.ReadOnlySqlTransaction):
        froglet.run(f"begin read only; select froglet.revert_migration({done})")
    # As a prepared statement with parameters.
    with froglet.connect() as connection:
        [again] = connection.execute("select froglet.revert_migration(%s, lossy => %s)", (done, False)).fetchone()
        assert again == newest(froglet)


def test_a_migration_under_way_is_cancelled_not_reverted(froglet):
    froglet.run(*TABLE)
    with froglet.connect() as connection:
        connection.execute("begin")
        connection.execute("create index t_d on t (d)")
        number = froglet.value("select max(id) from froglet.migrations")
        with pytest.raises(errors.ObjectNotInPrerequisiteState) as raised:
            revert(froglet, number)
        assert "cancel_migration" in raised.value.diag.message_hint
        connection.execute("rollback")
    time.sleep(0.5)
    with pytest.raises(errors.ObjectNotInPrerequisiteState) as raised:
        revert(froglet, number)
    assert "nothing to revert" in str(raised.value)


def test_two_at_once(froglet):
    froglet.run(*TABLE)
    number = change(froglet, "alter table t drop column c", "alter table t rename column b to e")
    outcomes = []

    def run():
        try:
            outcomes.append(revert(froglet, number, lossy=True))
        except psycopg.Error as e:
            outcomes.append(e)

    with froglet.connect() as connection:
        connection.execute("begin")
        [first] = connection.execute(f"select froglet.revert_migration({number})").fetchone()
        second = threading.Thread(target=run)
        second.start()
        time.sleep(0.3)
        connection.execute("commit")
        second.join()
    [error] = outcomes
    assert isinstance(error, errors.ObjectNotInPrerequisiteState), error
    assert f"reverted by schema change {first}" in str(error)
    threads = [threading.Thread(target=run) for _ in range(4)]
    outcomes.clear()
    number = first
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert sum(isinstance(outcome, int) for outcome in outcomes) == 1, outcomes


def test_the_number_of_a_migration_will_do(froglet):
    froglet.run(*TABLE)
    number = change(froglet, "create index t_d on t (d)")
    migration = froglet.value("select max(id) from froglet.migrations")
    assert froglet.rows(f"select migrations from froglet.schema_changes where id = {number}") == [([migration],)]
    assert plan(froglet, migration) == plan(froglet, number) == [("DROP INDEX t_d", True, None, None)]
    revert(froglet, migration)


def test_what_using_has_computed_is_not_known_backwards(froglet):
    froglet.run(*TABLE)
    before, rows = schema(froglet), froglet.rows(ALL)
    number = change(froglet, "alter table t alter a type bigint using a::bigint")
    assert losses(froglet, number) == []
    revert(froglet, number)
    assert (schema(froglet), froglet.rows(ALL)) == (before, rows)
    number = change(froglet, "alter table t alter a type bigint using a * 2")
    assert losses(froglet, number) == ['what values column "a" of "t" had before USING']
    revert(froglet, number, lossy=True)
    assert schema(froglet) == before
    number = change(froglet, "alter table t alter c type varchar(2) using c::varchar(2)")
    assert losses(froglet, number) == ['what values column "c" of "t" had before USING']
    number = change(froglet, "alter table t alter d type float8 using d::float8")
    [loss] = losses(froglet, number)
    assert "between types double precision and numeric(12,2)" in loss


def test_a_generated_column_is_computed_again(froglet):
    froglet.run(*TABLE, "alter table t add g int generated always as (a + id) stored")
    for statement in (None, "alter table t undrop column g"):
        number = change(froglet, "alter table t drop g")
        froglet.run("update t set a = a + 1")
        if statement:
            froglet.run(statement)
        else:
            revert(froglet, number)
        assert froglet.value("select count(*) from t where g <> a + id") == 0


def test_a_column_of_a_truncated_table(froglet):
    froglet.run(*TABLE)
    before = schema(froglet)
    number = change(froglet, "alter table t drop d")
    froglet.run("truncate t, k", "insert into t (id) values (1)")
    assert losses(froglet, number) == []
    revert(froglet, number)
    assert froglet.rows(ALL) == [(1, 7, None, None, None, None)]
    assert sorted(row[:3] for row in schema(froglet)[0]) == sorted(row[:3] for row in before[0])


def test_reverts_by_other_ways_than_a_plain_statement(froglet):
    froglet.run(*TABLE)
    number = change(froglet, "alter table t rename column b to e")
    call = f"select froglet.revert_migration({number})"
    for statement, error in {
        f"begin; declare c cursor for {call}; fetch c": errors.Error,
        f"copy ({call}) to stdout": errors.Error,
        f"create table x as {call}": errors.Error,
        f"insert into p {call}": errors.Error,
        f"explain {call}": errors.FeatureNotSupported,
        f"set froglet.as_of = '1s'; {call}": errors.Error,
    }.items():
        with pytest.raises(error):
            froglet.run(statement)
    assert froglet.value("select count(*) from froglet.schema_changes where reverts is not null") == 0
    with froglet.connect() as connection:
        connection.execute("prepare r (int) as select froglet.revert_migration($1)")
        [undone] = connection.execute(f"execute r ({number})").fetchone()
        [again] = connection.execute(f"execute r ({undone})").fetchone()
        cursor = connection.cursor(binary=True)
        assert cursor.execute(f"select froglet.revert_migration({again})").fetchone() == (newest(froglet),)
        assert cursor.description[0].name == "revert_migration"
    assert froglet.value("select b from t where id = 3") == "b3"


TYPES = ("smallint", "bigint", "real", "double precision", "numeric", "numeric(9,3)", "text", "varchar", "varchar(20)",
         "char(4)", "bytea", "date", "timestamp", "timestamptz", "uuid", "boolean")


@pytest.mark.parametrize("retention", ["0", "1h"])
def test_columns_of_every_type(froglet, retention):
    columns = ", ".join(f'"C {n}" {ty}' for n, ty in enumerate(TYPES))
    froglet.run(f"""create table t (id int primary key, {columns}, check ("C 0" > -5 or "C 6" like '%x'),"""
                """ constraint "U q" unique ("C 7", "C 1"))""",
                """create index "I ""x" on t ("C 3" desc nulls last, "C 12")""",
                """alter table t alter "C 6" set default 'it''s'""",
                'alter table t alter "C 13" set default now()')
    before = schema(froglet)
    froglet.run(f"set froglet.revert_retention = '{retention}'; alter table t "
                + ", ".join(f'drop "C {n}"' for n in range(len(TYPES))))
    number = newest(froglet)
    if retention == "0":
        deadline = time.monotonic() + 20
        while froglet.value(f"select kept_columns from froglet.schema_changes where id = {number}") > 0:
            assert time.monotonic() < deadline
            time.sleep(0.1)
    assert len(losses(froglet, number)) == (len(TYPES) if retention == "0" else 0)
    revert(froglet, number, lossy=True)
    assert schema(froglet) == before
    number = change(froglet, 'create table a as select * from t', 'drop table t', 'alter table a rename to "T ""t"')
    assert losses(froglet, number) == []
    revert(froglet, number)
    assert schema(froglet) == before


def test_sequences(froglet):
    froglet.run("create sequence q increment 2", "create table t (id serial primary key, n serial)",
                "insert into t default values", "insert into t default values", "select nextval('q')")
    of_it = ("select sequencename, increment_by, min_value, max_value, start_value, cycle from pg_sequences order by 1",
             "select pg_get_serial_sequence('t', 'id')")
    before = [froglet.rows(sql) for sql in of_it], schema(froglet)
    for statements in (
        ["alter sequence q rename to r", "alter sequence r increment 5 maxvalue 100 cycle", "alter sequence t_id_seq owned by none"],
        ["alter table t drop n", "drop sequence q"],
    ):
        number = change(froglet, *statements)
        assert losses(froglet, number) == []
        revert(froglet, number)
        assert ([froglet.rows(sql) for sql in of_it[1:]], schema(froglet)) == (before[0][1:], before[1])
        assert [row[:4] for row in froglet.rows(of_it[0])] == [row[:4] for row in before[0][0]]
        froglet.run("insert into t default values")
    assert froglet.value("select nextval('q')") == 3
    assert froglet.value("select count(distinct n) from t") == 4


def test_a_table_in_the_place_of_a_dropped_one(froglet):
    froglet.run("create table s (id int primary key)", "create table t (id int primary key, x int)",
                "insert into t values (1, 2)")
    before = schema(froglet)
    number = change(froglet, "drop table s", "alter table t rename to s")
    assert len(losses(froglet, number)) == 1
    revert(froglet, number, lossy=True)
    assert schema(froglet) == before
    assert froglet.rows("select * from t") == [(1, 2)]


def test_changes_at_rest_survive_kills(start):
    server = start()
    server.run(*TABLE)
    before = schema(server)
    numbers = [change(server, statement) for statement in (
        "alter table t drop column c", "alter table t rename to u", "alter table p add q int",
        "create table n as select id, a from u")]
    for number in reversed(numbers):
        server.kill_and_restart()
        assert [row[0] for row in server.rows("select id from froglet.schema_changes order by id")][-1] == newest(server)
        revert(server, number, lossy=number == numbers[-1])
        server.kill_and_restart()
        with pytest.raises(errors.ObjectNotInPrerequisiteState):
            revert(server, number)
    assert schema(server) == before
    assert server.value("select sum(length(c)) from t") == 400
    # Numbers are not given again.
    assert change(server, "alter table p rename to r") > newest(server) - 1 > max(numbers)
