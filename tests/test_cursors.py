"""Cursors: DECLARE, FETCH, MOVE and CLOSE in SQL, psycopg's server-side cursors, and portals beside
them. Each test runs on Froglet and on PostgreSQL 15.
"""

import psycopg
import pytest
from psycopg import errors

STEPS = [
    "fetch c", "fetch forward 2 from c", "fetch 0 from c", "move 2 in c", "fetch prior from c",
    "fetch backward 2 c", "fetch absolute 4 from c", "fetch relative -2 from c", "fetch relative 3 c",
    "fetch last from c", "fetch next from c", "fetch next from c", "fetch prior c", "fetch first from c",
    "fetch prior c", "fetch prior c", "move absolute -2 from c", "fetch relative 0 from c", "move all c",
    "fetch -2 from c", "move backward all from c", "fetch backward all in c", "fetch absolute 99 c",
    "fetch absolute 0 c", "fetch all c", "fetch relative 1 c", "move relative -1 c", "move 0 c",
    "fetch absolute -99 c", "fetch forward all from c", "move forward -3 c", "fetch forward 0 c",
]


@pytest.mark.parametrize("query", [
    "select id, v from t where id < 7 order by id", "select n, 'v' || n from generate_series(1, 6) as g (n)",
    "values (1, 'v1'), (2, 'v2')", "select id, v from t where false", "select id, v from t where id = 3",
], ids=["table", "function", "values", "nothing", "one"])
def test_a_scrolling_cursor_goes_where_postgres_goes(froglet, postgres, query):
    """The same rows and the same command tags, step by step."""
    seen = []
    for server in (froglet, postgres):
        with server.connect() as connection:
            make_table(connection)
            connection.execute("begin")
            connection.execute(f"declare c scroll cursor for {query}")
            seen.append([(step, *answer(connection, step)) for step in STEPS])
    assert seen[0] == seen[1]


def make_table(connection, rows=2000):
    connection.execute("create table t (id int primary key, v text)")
    connection.execute(f"insert into t select n, 'v' || n from generate_series(1, {rows}) as g (n)")


def answer(connection, step):
    cursor = connection.execute(step)
    return cursor.statusmessage, cursor.fetchall() if cursor.description else None


def test_errors(server):
    with server.connect() as connection:
        make_table(connection)
        for statement, error in [
            ("declare c cursor for select 1", errors.NoActiveSqlTransaction),
            ("fetch c", errors.InvalidCursorName), ("move c", errors.InvalidCursorName),
            ("close c", errors.InvalidCursorName),
            ("declare c cursor for nothing", errors.SyntaxError),
        ]:
            with pytest.raises(error):
                connection.execute(statement)
        for statement, error in [
            ("declare c cursor for select 2", errors.DuplicateCursor),
            ("fetch backward 1 from c", errors.ObjectNotInPrerequisiteState),
            ("declare d cursor for select nothing", errors.UndefinedColumn),
        ]:
            connection.execute("begin")
            connection.execute("declare c no scroll cursor for select id from t")
            with pytest.raises(error):
                connection.execute(statement)
            with pytest.raises(errors.InFailedSqlTransaction):
                connection.execute("fetch c")
            connection.execute("rollback")
        assert connection.execute("select count(*) from pg_cursors").fetchone() == (0,)


def test_savepoints_close_what_was_declared_after_them(server):
    with server.connect() as connection:
        make_table(connection)
        connection.execute("begin")
        connection.execute("declare a cursor for select id from t order by id")
        connection.execute("savepoint s")
        connection.execute("declare b cursor for select 1")
        assert connection.execute("fetch a").fetchall() == [(1,)]
        with pytest.raises(errors.DivisionByZero):
            connection.execute("select 1/0")
        connection.execute("rollback to s")
        # The cursor does not go back with the rows.
        assert connection.execute("fetch 2 from a").fetchall() == [(2,), (3,)]
        with pytest.raises(errors.InvalidCursorName):
            connection.execute("fetch b")
        connection.execute("rollback")


def test_with_hold(server):
    """It outlives its transaction with the rows it had in it; a rollback takes it away."""
    with server.connect() as connection:
        make_table(connection)
        connection.execute("declare c scroll cursor with hold for select id from t order by id")
        connection.execute("delete from t where id < 100")
        assert connection.execute("fetch 3 from c").fetchall() == [(1,), (2,), (3,)]
        connection.execute("begin")
        connection.execute("declare d cursor with hold for select 1")
        connection.execute("move 96 in c")
        connection.execute("rollback")
        assert connection.execute("fetch c").fetchall() == [(100,)]
        assert connection.execute("fetch prior c").fetchall() == [(99,)]
        names = "select name, is_holdable, is_binary, is_scrollable from pg_cursors"
        assert connection.execute(names).fetchall() == [("c", True, False, True)]
        connection.execute("close all")
        assert connection.execute(names).fetchall() == []


@pytest.mark.parametrize("binary", [False, True], ids=["text", "binary"])
@pytest.mark.parametrize("scrollable", [None, True, False])
def test_psycopg_server_cursor(server, binary, scrollable):
    """Its parameters are the query's, its description is asked of the portal."""
    with server.connect(autocommit=False) as connection:
        make_table(connection)
        with connection.cursor("named", binary=binary, scrollable=scrollable) as cursor:
            cursor.itersize = 300
            cursor.execute("select id, v from t where id > %s order by id", [10])
            assert [column.name for column in cursor.description] == ["id", "v"]
            assert cursor.fetchone() == (11, "v11")
            assert cursor.fetchmany(2) == [(12, "v12"), (13, "v13")]
            if scrollable:
                cursor.scroll(-3)
                assert cursor.fetchone() == (11, "v11")
                cursor.scroll(100, mode="absolute")
                assert cursor.fetchone() == (111, "v111")
                cursor.scroll(3, mode="absolute")
            assert [row[0] for row in cursor] == list(range(14, 2001))
        assert connection.execute("select count(*) from pg_cursors").fetchone() == (0,)


def test_psycopg_holds_a_cursor(server):
    with server.connect(autocommit=False) as connection:
        make_table(connection)
        with connection.cursor("named", withhold=True) as cursor:
            cursor.execute("select id from t order by id")
            assert cursor.fetchone() == (1,)
            connection.commit()
            assert len(cursor.fetchall()) == 1999


def test_a_binary_cursor(server):
    with server.connect() as connection:
        connection.execute("begin")
        connection.execute("declare c binary cursor for select 258")
        result = connection.pgconn.exec_(b"fetch c")
        assert (result.fformat(0), result.get_value(0, 0)) == (1, b"\0\0\1\2")


def test_a_statement_timeout_is_not_the_cursors(server):
    with server.connect() as connection:
        make_table(connection)
        connection.execute("set statement_timeout = '300ms'")
        connection.execute("begin")
        connection.execute("declare c cursor for select a.id from t a, t b")
        for _ in range(3):
            assert len(connection.execute("fetch 10 from c").fetchall()) == 10
            connection.execute("set local statement_timeout = 0")
            connection.execute("select pg_sleep(0.25)")
        connection.execute("rollback")


def test_cursors_do_not_keep_what_they_have_passed(froglet):
    """A million rows through a cursor that only goes forward: memory stays where it is."""
    with froglet.connect() as connection:
        connection.execute("begin")
        connection.execute("declare c cursor for select n, repeat('x', 100) from generate_series(1, 400000) as g (n)")
        connection.execute("fetch 1000 from c")
        before = froglet.resident_bytes()
        assert connection.execute("move 390000 in c").statusmessage == "MOVE 390000"
        assert froglet.resident_bytes() - before < 64 << 20
        assert connection.execute("fetch c").fetchone()[0] == 391001


def test_psql_scripts(server):
    done = server.psql("""
        create table t (id int); insert into t select n from generate_series(1, 5) as g (n);
        begin; declare c cursor for select id from t order by id;
        fetch 2 from c; move 1 in c; fetch all from c; close c; commit;
    """, "-Atq")
    assert done.stdout.split() == ["1", "2", "4", "5"]
