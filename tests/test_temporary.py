"""Temporary tables: whose they are, and when they go. What they do for their session: `features/schema.sql`."""

import pytest
from psycopg import errors

from support.processes import wait_until

LEFT = "select count(*) from pg_namespace where nspname like 'pg\\_temp\\_%'"


def test_nobody_else_finds_them(server):
    with server.connect() as one, server.connect() as other:
        one.execute("create temp table t (a int)")
        one.execute("insert into t values (1)")
        with pytest.raises(errors.UndefinedTable):
            other.execute("select * from t")
        other.execute("create temp table t (a text)")
        other.execute("insert into t values ('x')")
        assert one.execute("select * from pg_temp.t").fetchall() == [(1,)]
        assert other.execute("select * from t").fetchall() == [("x",)]
        assert one.execute("select relpersistence from pg_class where oid = 't'::regclass").fetchone() == ("t",)


def test_they_hide_others_of_their_name(server):
    with server.connect() as connection:
        connection.execute("create table t (a int)")
        connection.execute("insert into t values (1)")
        connection.execute("create temp table t as select 2 as a")
        assert connection.execute("select a from t").fetchall() == [(2,)]
        assert connection.execute("select a from public.t").fetchall() == [(1,)]
        connection.execute("drop table t")
        assert connection.execute("select a from t").fetchall() == [(1,)]
        assert connection.execute("select current_schema(), current_schemas(false)").fetchone() == (
            "public", ["public"])


def test_a_prepared_statement_follows(server):
    """The plan of one table does not do for another of its name."""
    with server.connect(prepare_threshold=0) as connection:
        connection.execute("create table t (a int primary key, b int)")
        connection.execute("insert into t values (1, 10)")
        query = "select b from t where a = %s"
        assert connection.execute(query, [1]).fetchall() == [(10,)]
        connection.execute("create temp table t (a int primary key, b int)")
        assert connection.execute(query, [1]).fetchall() == []
        connection.execute("drop table t")
        assert connection.execute(query, [1]).fetchall() == [(10,)]


def test_on_commit(server):
    with server.connect() as connection:
        connection.execute("create temp table k (a int) on commit delete rows")
        connection.execute("begin")
        connection.execute("create temp table d (a int) on commit drop")
        connection.execute("insert into k values (1)")
        connection.execute("insert into d values (1)")
        assert connection.execute("select count(*) from k, d").fetchone() == (1,)
        connection.execute("commit")
        assert connection.execute("select count(*) from k").fetchone() == (0,)
        with pytest.raises(errors.UndefinedTable):
            connection.execute("select * from d")


def test_they_go_with_the_session(froglet):
    with froglet.connect() as connection:
        connection.execute("create temp table t (a serial primary key)")
        connection.execute("create temp view v as select * from t")
        assert froglet.value(LEFT) == 1
        connection.execute("discard all")
        assert froglet.value(LEFT) == 0
        connection.execute("create temp table t (a int)")
    wait_until(lambda: froglet.value(LEFT) == 0, "the session's schema is gone", 30)


def test_a_crash_takes_them(froglet):
    with froglet.connect() as connection:
        connection.execute("create temp table t (a int)")
        connection.execute("insert into t values (1)")
        froglet.kill_and_restart()
    assert froglet.value(LEFT) == 0
    with froglet.connect() as connection, pytest.raises(errors.UndefinedTable):
        connection.execute("select * from t")


def test_they_go_whatever_sessions_begin_with(start):
    """Neither settings nor roles of others keep the server from taking them away, or from starting."""
    server = start(environment={"FROGLET_SETTING_DEFAULT_TRANSACTION_READ_ONLY": "on"})
    make = ("set default_transaction_read_only = off", "create temp table t (a int)")
    with server.connect() as connection:
        for statement in make:
            connection.execute(statement)
    wait_until(lambda: server.value(LEFT) == 0, "the session's schema is gone", 30)
    with server.connect() as connection:
        for statement in make:
            connection.execute(statement)
        server.kill_and_restart()
    assert server.value(LEFT) == 0


def test_keys_stay_on_their_side(server):
    with server.connect() as connection:
        connection.execute("create table p (a int primary key)")
        with pytest.raises(errors.InvalidTableDefinition):
            connection.execute("create temp table c (a int references p)")
        connection.execute("create temp table q (a int primary key)")
        with pytest.raises(errors.InvalidTableDefinition):
            connection.execute("create table public.c (a int references q)")
