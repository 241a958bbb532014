"""froglet.migration = auto makes tables lazily if nothing stands against it, and before the commit after all if a
later statement of the transaction needs the rows.
"""

import pytest
from psycopg import errors

from support.twins import Twins

SOURCE = (
    "create table s (id int primary key, v int, w int unique, t text)",
    "insert into s select i, i % 10, 1000 + i, 't' || i % 7 from generate_series(1, 300) i", "create index on s (v)",
    "create table p (id int primary key, name text)", "insert into p select i, 'p' || i from generate_series(0, 9) i",
    "create table c (n int primary key, s int)",
)
MADE = {
    "rows": ("create table t as select id, v, w, t from s where v <> 3", "alter table t add primary key (id)",
             "alter table t add unique (w)", "create index on t (v)"),
    "join": ("create table t as select s.id, s.v, s.w, p.name as t from s join p on p.id = s.v",
             "alter table t add primary key (id)", "create index on t (v)"),
    "groups": ("create table t as select v as id, v, count(*) as w, max(t) as t from s group by v",
               "create index on t (id)", "create index on t (v)"),
}
# What a lazy table cannot do before its commit; what fails for other reasons, too.
NEEDS = (
    ["insert into t (id, v, w) values (1001, 1, 1)"],
    ["insert into t (id, v, w) values (4, 1, 99999)"],
    ["update t set v = v + 1 where id < 50", "select * from t where v = 5 order by id"],
    ["delete from t where id = 4 returning *", "insert into t (id, v, w) values (4, 44, 2004) returning *"],
    ["select * from t where id = 4 for update", "update t set t = 'x' where id = 4"],
    ["insert into s values (1001, 1, 1, 'new')", "update s set v = 7 where id = 1", "select count(*) from s"],
    ["alter table t add check (w > 0)", "insert into t (id, v, w) values (2001, 1, -1)"],
    ["alter table t add check (w > 1100)"],
    ["alter table t add column n bigint generated always as (w * 2) stored", "select sum(n) from t"],
    ["create table u as select v, count(*) as n from t group by v", "select * from u order by v"],
    ["create table u as select id, v from t", "alter table u add primary key (id)", "insert into u values (-1, 0)"],
    ["drop table s", "insert into t (id, v, w) values (1001, 1, 1)", "delete from t where v = 4"],
    ["alter table s rename to r", "alter table r drop column t", "update t set w = -w where id = 8", "select count(*) from r"],
    ["alter table t rename column t to txt", "alter table t rename to t2", "update t2 set txt = 'y' where id = 2",
     "alter table t2 rename to t", "alter table t rename txt to t"],
    ["savepoint a", "insert into t (id, v, w) values (1001, 1, 1)", "rollback to a", "select count(*) from t"],
    ["savepoint a", "delete from t where v = 4", "release a", "savepoint b", "delete from t", "rollback to b",
     "insert into t (id, v, w) values (1001, 1, 1)"],
    ["truncate t", "insert into t (id, v, w) values (1001, 1, 1)"],
    ["create unique index on t (t)"],
    ["alter table t alter v type bigint", "update t set v = 5000000000 where id = 5"],
    ["alter table t alter v set not null", "alter table t alter v drop not null"],
)
# What it can.
NEEDS_NOT = (
    ["select count(*) from t", "select * from t where id = 4"],
    ["insert into c values (1, 1)", "update c set s = 2", "delete from c"], ["drop table s"],
    ["alter table t rename to t2", "alter table t2 rename to t"], ["truncate t"],
)


def is_lazy(twins):
    return twins.lazy.execute("select count(*) from froglet.migrations where table_name like 't%' and kind = 'table'"
                              " and phase in ('lazy', 'background')").fetchone()[0]


def through(twins, kind, statements, isolation):
    """A transaction with these statements in it, and what is there afterwards: for everybody, and after a restart."""
    twins.do_all(*SOURCE, f"begin isolation level {isolation}", *MADE[kind])
    assert is_lazy(twins) == 1
    for sql in statements:
        twins.do(sql)
    twins.do("commit")
    lazily = is_lazy(twins)
    for _ in range(2):
        for table in "tsu":
            twins.do(f"select * from {table} order by 1, 2")
        twins.do("select * from t where id = 4")
        twins.do("select id from t where v between 4 and 5 order by id")
        twins.do("insert into t (id, v, w) values (7, 0, 7)")
        twins.do("update t set v = v where id = 9 returning *")
        twins.kill()
    return lazily


@pytest.mark.parametrize("kind", MADE)
@pytest.mark.parametrize("isolation", ["read committed", "repeatable read"])
def test_needed_before_the_commit(start, kind, isolation):
    twins = Twins(start, mode="auto", **{"froglet.migration_auto_rows": 0})
    for statements in NEEDS:
        went_back = statements[0] == "savepoint a" and "savepoint b" not in statements
        assert through(twins, kind, statements, isolation) == went_back
        twins.do("drop table if exists s, t, u, p, c, r")


def test_with_children(start):
    """A table that others refer to stays as it is, and what it cannot do is refused."""
    server = start()
    server.run(*SOURCE)
    with server.connect() as c:
        c.execute("set froglet.migration_auto_rows = 0")
        with pytest.raises(errors.FeatureNotSupported), c.transaction():
            for sql in (*MADE["rows"], "create table child (id int references t)", "insert into t (id) values (1001)"):
                c.execute(sql)
        with c.transaction():
            for sql in (*MADE["rows"], "create table child (id int references t)", "drop table s"):
                c.execute(sql)
        c.execute("insert into child values (1), (2)")
        for sql in ("insert into child values (3)", "delete from t where id = 2"):
            with pytest.raises(errors.ForeignKeyViolation):
                c.execute(sql)


@pytest.mark.parametrize("kind", MADE)
def test_not_needed(start, kind):
    twins = Twins(start, mode="auto", **{"froglet.migration_auto_rows": 0})
    for statements in NEEDS_NOT:
        twins.do("drop table if exists s, t, u, p, c, r")
        assert through(twins, kind, statements, "read committed") == ("truncate t" not in statements)
