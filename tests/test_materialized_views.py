"""Materialized views over restarts: their rows, their indexes, their queries, and what rests on them."""

import pytest
from psycopg import errors


def test_they_survive_restarts(froglet):
    froglet.run(
        "create table t (id int primary key, v int)",
        "insert into t values (1, 10), (2, 20)",
        "create materialized view m as select id, v * 2 as w from t",
        "create unique index m_id on m (id)",
        "create materialized view e as select count(*) from m with no data",
        "create view over_m as select w from m",
        "alter table t rename column v to vv",
        "alter materialized view m rename to mm",
    )
    for again in (froglet.kill_and_restart, froglet.restart):
        again()
        assert froglet.rows("select id, w from mm order by id") == [(1, 20), (2, 40)]
        assert froglet.rows("select w from over_m order by w") == [(20,), (40,)]
        with pytest.raises(errors.ObjectNotInPrerequisiteState):
            froglet.run("select * from e")
        with pytest.raises(errors.DependentObjectsStillExist):
            froglet.run("drop table t")
        assert froglet.rows("select matviewname, hasindexes, ispopulated from pg_matviews order by 1") == [
            ("e", False, False), ("mm", True, True)]
    froglet.run("insert into t values (3, 30)", "refresh materialized view concurrently mm", "refresh materialized view e")
    froglet.kill_and_restart()
    assert froglet.rows("select w from mm where id = 3") == [(60,)]
    assert froglet.rows("select * from e") == [(3,)]
    froglet.run("drop table t cascade")
    froglet.kill_and_restart()
    assert froglet.rows("select relname from pg_class where relname in ('mm', 'e', 'm_id', 'over_m')") == []


def test_a_transaction_undoes_them(froglet):
    froglet.run("create table t (a int)", "insert into t values (1)", "create materialized view m as select * from t")
    with froglet.connect(autocommit=False) as connection:
        connection.execute("savepoint one")
        connection.execute("drop materialized view m")
        connection.execute("rollback to one")
        connection.execute("insert into t values (2)")
        connection.execute("refresh materialized view m")
        connection.execute("create materialized view n as select * from m")
        assert connection.execute("select count(*) from n").fetchone() == (2,)
        connection.rollback()
    assert froglet.rows("select * from m") == [(1,)]
    assert froglet.rows("select count(*) from pg_matviews") == [(1,)]
