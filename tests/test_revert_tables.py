"""Reverts of changes that made tables of others: splits come back by a join, copies and joins by projections.
What the old table has to be then is asked of the new ones before the revert.
"""

import threading
import time

import psycopg
import pytest
from psycopg import errors

from test_revert import change, losses, newest, plan, revert, schema

ROWS = 300
SOURCE = (
    "create table p (id int primary key)",
    "insert into p select i from generate_series(1, 20) i",
    "create table s (id int primary key, x int not null default 3, y text, z numeric(10,2) default 1.5, p_id int"
    " references p on delete cascade, constraint s_x check (x > -1000), constraint s_xy unique (x, y))",
    "create index s_y on s (y desc, id)",
    f"insert into s select i, i, 'y' || i, i, 1 + i % 20 from generate_series(1, {ROWS}) i",
)
SPLIT = (
    "create table a as select id, x, p_id from s",
    "create table b as select s.id as b_id, y, z from s",
    "alter table a add primary key (id)",
    "alter table b add primary key (b_id)",
    "drop table s",
)
WRITES = (
    "insert into a values (1001, 5, 1)", "insert into b values (1001, 'new', 2)",
    "delete from a where id = 3", "delete from b where b_id = 3",
    "update b set y = 'changed', z = null where b_id = 5", "update a set x = -x where id > 250",
)
WHOLE = "select id, x, y, z, p_id from a full join b on a.id = b.b_id order by id"
MODES = ["eager", "lazy", "hybrid"]


@pytest.mark.parametrize("back", MODES)
@pytest.mark.parametrize("there", MODES)
def test_a_split_comes_back_by_a_join(start, there, back):
    server = start(arguments=["--set", "froglet.migration_delay=1h"])
    server.run(*SOURCE)
    before = schema(server)
    with server.connect() as connection:
        connection.execute(f"set froglet.migration = {there}")
        with connection.transaction():
            for statement in SPLIT:
                connection.execute(statement)
        number = newest(server)
    server.run(*WRITES)
    rows = server.rows(WHOLE)
    if there != "eager":
        server.kill_and_restart()
    with server.connect() as connection:
        connection.execute(f"set froglet.migration = {back}")
        shown = connection.execute(f"select lossless, loss from froglet.revert_plan({number})").fetchall()
        assert all(lossless for lossless, _ in shown), shown
        connection.execute(f"select froglet.revert_migration({number})")
    assert schema(server) == before
    assert server.rows("select * from s order by id") == rows
    server.run("insert into s (id) values (2001)", "delete from p where id = 1")
    server.kill_and_restart()
    assert schema(server) == before
    expected = [row for row in rows if row[4] != 1] + [(2001, 3, None, 1.5, None)]
    assert server.rows("select * from s order by id") == expected
    # And there again.
    again = newest(server)
    assert losses(server, again) == []
    revert(server, again)
    assert server.rows(WHOLE) == expected


def test_a_row_of_one_half_alone_is_not_lost(froglet):
    froglet.run(*SOURCE)
    number = change(froglet, *SPLIT)
    froglet.run("insert into a values (1001, 5, 1)", "delete from b where b_id = 7")
    revert(froglet, number)
    assert froglet.rows("select * from s where id in (7, 1001) order by id") == [
        (7, 7, None, None, 8), (1001, 5, None, None, 1)]
    number = newest(froglet)
    revert(froglet, number)
    froglet.run("insert into b values (1002, 'only here', 1)")
    number = newest(froglet)
    after = schema(froglet)
    with pytest.raises(errors.NotNullViolation):  # x
        revert(froglet, number)
    assert schema(froglet) == after
    assert froglet.value("select y from b where b_id = 1002") == "only here"


def test_a_row_of_one_half_alone_stops_a_lazy_revert(froglet):
    froglet.run(*SOURCE)
    number = change(froglet, *SPLIT)
    froglet.run("insert into a values (1001, 5, 1)")
    with froglet.connect() as connection:
        connection.execute("set froglet.migration = lazy")
        with pytest.raises(errors.ForeignKeyViolation):
            connection.execute(f"select froglet.revert_migration({number})")
        froglet.run("insert into b values (1001, 'b', 1)")
        connection.execute(f"select froglet.revert_migration({number})")
    assert froglet.rows("select * from s where id = 1001") == [(1001, 5, "b", 1, 1)]


def test_halves_without_keys_are_joined_eagerly(froglet):
    froglet.run(*SOURCE)
    before = schema(froglet)
    number = change(froglet, SPLIT[0], SPLIT[1], "drop table s")
    froglet.run("insert into a values (1001, 5, 1)")
    with froglet.connect() as connection:
        connection.execute("set froglet.migration = lazy")
        connection.execute(f"select froglet.revert_migration({number})")
    assert froglet.rows("select * from s where id = 1001") == [(1001, 5, None, None, 1)]
    assert schema(froglet) == before
    revert(froglet, newest(froglet))
    number = newest(froglet)
    froglet.run("insert into a values (1002, 5, 1), (1002, 5, 1)")
    with pytest.raises(errors.UniqueViolation):
        revert(froglet, number)
    assert froglet.value("select count(*) from a") == ROWS + 3


def test_halves_that_come_to_differ_during_a_lazy_revert(froglet):
    froglet.run(*SOURCE)
    number = change(froglet, *SPLIT)
    for statement in ("insert into a values (1001, 5, 1)", "insert into b values (1001, 'b', 1)",
                      "delete from a where id = 7", "delete from b where b_id = 7"):
        with froglet.connect() as connection:
            connection.execute("set froglet.migration = lazy")
            connection.execute("begin")
            connection.execute(f"select froglet.revert_migration({number})")
            # Whoever is kept waiting by it goes on after it.
            waiter = threading.Thread(target=lambda: froglet.run(statement))
            waiter.start()
            waiter.join(1)
            outcome = None
            try:
                connection.execute("commit")
            except psycopg.Error as e:
                outcome = e
            waiter.join()
        assert isinstance(outcome, errors.ForeignKeyViolation), (statement, outcome)
        froglet.run("delete from a where id in (7, 1001)", "delete from b where b_id in (7, 1001)",
                    "insert into a values (7, 7, 8)", "insert into b values (7, 'y7', 7)")
    revert(froglet, number)
    assert froglet.value("select count(*) from s") == ROWS


def test_a_lazy_migration_under_way_is_reverted(start):
    server = start(arguments=["--set", "froglet.migration_delay=1h"])
    server.run("create table t (id int primary key, a int, b int)",
               "insert into t select i, i, i from generate_series(1, 20000) i")
    before, rows = schema(server), server.rows("select * from t order by id")
    number = change(server, "alter table t alter a type bigint",
                    "alter table t add g bigint generated always as (coalesce(b, 0)) stored")
    assert server.value("select count(*) from froglet.migrations where phase in ('lazy', 'background')") == 2
    migration = server.value("select max(id) from froglet.migrations where phase in ('lazy', 'background')")
    with pytest.raises(errors.ObjectNotInPrerequisiteState) as raised:
        server.run(f"select froglet.cancel_migration({migration})")
    assert f"froglet.revert_migration({migration}) migrates back" in raised.value.diag.message_hint
    server.run("update t set b = 5 where id = 7", "update t set a = 6 where id = 8")
    server.kill_and_restart()
    assert losses(server, migration) == []
    revert(server, migration)
    assert schema(server) == before
    rows[6], rows[7] = (7, 7, 5), (8, 6, 8)
    assert server.rows("select * from t order by id") == rows
    # A column that was dropped before all its values were stored does not come back.
    change(server, "alter table t alter a type bigint")
    number = change(server, "alter table t drop column a")
    assert losses(server, number) == ['the values of dropped column "a" of "t", which are no longer stored']


def test_a_copy_under_the_old_name(froglet):
    froglet.run(*SOURCE)
    before = schema(froglet)
    number = change(
        froglet, "create table s_new as select id, x, y, z, p_id, x * 2 as xx from s", "drop table s",
        "alter table s_new rename to s", "alter table s rename column y to yy",
        "alter table s add constraint s_pkey primary key (id)")
    froglet.run("update s set yy = 'changed' where id = 5")
    rows = froglet.rows("select id, x, yy, z, p_id from s order by id")
    assert losses(froglet, number) == ['the values of column "xx" of "s"']
    with pytest.raises(errors.ObjectNotInPrerequisiteState):
        revert(froglet, number)
    revert(froglet, number, lossy=True)
    assert schema(froglet) == before
    assert froglet.rows("select * from s order by id") == rows


def test_a_copy_beside_its_source(froglet):
    froglet.run(*SOURCE)
    before = schema(froglet)
    number = change(froglet, "create table c as select * from s")
    assert losses(froglet, number) == ['what has been written to "c" since it was made']
    revert(froglet, number, lossy=True)
    assert schema(froglet) == before


def test_an_empty_table_goes_without_loss(froglet):
    number = change(froglet, "create table n (id serial primary key, x int)", "create sequence q")
    assert losses(froglet, number) == ['what sequence "q" has come to']
    number = change(froglet, "create table m (id serial primary key, x int)")
    assert losses(froglet, number) == []
    with froglet.connect() as connection:
        connection.execute("begin")
        connection.execute(f"select froglet.revert_migration({number})")
        froglet.run("insert into m (x) values (1)")
        with pytest.raises(errors.CheckViolation):
            connection.execute("commit")
    assert losses(froglet, number) == ['the rows of "m"']
    froglet.run("delete from m")
    revert(froglet, number)
    with pytest.raises(errors.UndefinedTable):
        froglet.run("select * from m")


def test_identity_and_serial_columns_go_on_where_they_were(froglet):
    froglet.run("create table s (id int generated always as identity primary key, n serial, x int, y int)",
                "insert into s (x, y) select i, i from generate_series(1, 10) i")
    before = schema(froglet)
    number = change(froglet, "create table a as select id, n, x from s", "create table b as select id, y from s",
                    "drop table s")
    assert losses(froglet, number) == []
    revert(froglet, number)
    assert schema(froglet) == before
    froglet.run("insert into s (x) values (1)")
    [(id, n)] = froglet.rows("select id, n from s order by id desc limit 1")
    assert id > 10 and n > 10


def test_identities_come_and_go(froglet):
    """DROP IDENTITY is the inverse of ADD GENERATED, and the other way round; a sequence follows its column's type."""
    froglet.run("create table s (id int primary key generated always as identity, k int not null, n int not null)",
                "insert into s (k, n) select i, i from generate_series(1, 10) i")
    for statement in [
        "alter table s alter id drop identity",
        "alter table s alter k add generated by default as identity (start with 20)",
        "alter table s alter id type bigint, alter k add generated always as identity (start with 20)",
        "alter table s alter id drop identity, alter id type bigint",
    ]:
        before = schema(froglet)
        number = change(froglet, statement)
        assert losses(froglet, number) == []
        revert(froglet, number)
        assert schema(froglet) == before
        assert froglet.value("select count(*) from pg_sequences") == 1
        last = froglet.value("select max(id) from s")
        assert froglet.value("insert into s (k, n) values (0, 0) returning id") > last
        assert froglet.value("select pg_get_serial_sequence('s', 'id')") == "public.s_id_seq"


def test_what_cannot_come_back_says_why(froglet):
    froglet.run(*SOURCE)
    for statement, why in {
        "create table n as select p_id, sum(x) as x from s group by p_id": "several rows were made into one",
        "create table n as select * from s where x > 10": "only the rows that its WHERE clause takes are in it",
        "create table n as select * from s limit 10": "not all rows were taken",
        "create table n as select distinct x from s": "not all rows were taken",
        "create table n as select id from s union select id from p": "its query is a set operation",
        "create table n as select s.*, p.id as pid from s left join p on p.id = s.p_id where x > 0":
            "it is an outer join with a WHERE clause",
        "create table n as select s.* from s, p": "its tables were joined without a key",
        "create table n as select s.* from s join p on p.id < s.p_id":
            "its tables were not joined by their columns alone",
    }.items():
        with froglet.connect() as connection:
            connection.execute("begin")
            connection.execute(statement)
            connection.execute("drop table s")
            connection.execute("commit")
        number = newest(froglet)
        shown = losses(froglet, number)
        assert shown[0] == f'the rows of "s": {why}', shown
        with pytest.raises(errors.ObjectNotInPrerequisiteState) as raised:
            revert(froglet, number)
        assert why in raised.value.diag.message_detail
        revert(froglet, number, lossy=True)
        assert froglet.value("select count(*) from s") == 0
        froglet.run(SOURCE[-1])


def test_a_dropped_table_does_not_come_back(froglet):
    froglet.run(*SOURCE)
    before = schema(froglet)
    number = change(froglet, "drop table s")
    assert losses(froglet, number) == ['the rows of "s": they are no longer stored']
    revert(froglet, number, lossy=True)
    assert schema(froglet) == before


JOINED = (
    "create table d (id int primary key, name text not null)",
    "create table o (id int primary key, d_id int not null references d, n int)",
    "insert into d select i, 'd' || i from generate_series(1, 30) i",
    "insert into o select i, 1 + i % 25, i from generate_series(1, 300) i",
)
JOINS = {
    "using": "create table j as select o.id, o.d_id, n, name from o join d on d.id = o.d_id",
    "where": "create table j as select x.id as id, y.id as d_id, x.n, y.name from d y, o x where x.d_id = y.id",
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("join", JOINS)
def test_a_join_comes_back_by_projections(froglet, join, mode):
    froglet.run(*JOINED)
    before = schema(froglet)
    with froglet.connect() as connection:
        connection.execute(f"set froglet.migration = {mode}")
        with connection.transaction():
            connection.execute(JOINS[join])
            connection.execute("alter table j add primary key (id)")
            connection.execute("drop table o, d")
        number = newest(froglet)
        froglet.run("update j set name = 'changed' where d_id = 5", "delete from j where id = 7",
                    "insert into j (id, d_id, n, name) values (1001, 77, 5, 'new')")
        rows = froglet.rows("select id, d_id, n from j order by id")
        names = froglet.rows("select distinct d_id, name from j order by d_id")
        shown = losses(froglet, number)
        assert len(shown) == 2 and all("rows of \"d\"" in loss or "foreign key" in loss for loss in shown), shown
        with pytest.raises(errors.ObjectNotInPrerequisiteState):
            connection.execute(f"select froglet.revert_migration({number})")
        connection.execute(f"select froglet.revert_migration({number}, lossy => true)")
    after = schema(froglet)
    assert after[0] == before[0] and after[2] == before[2]
    assert froglet.rows("select * from o order by id") == rows
    assert froglet.rows("select * from d order by id") == names
    froglet.run("alter table o add constraint o_d_id_fkey foreign key (d_id) references d (id)")
    assert schema(froglet) == before


def test_a_table_that_is_written_while_its_split_is_reverted(start):
    server = start()
    server.run(*SOURCE)
    number = change(server, *SPLIT)
    stop, failed, done = threading.Event(), [], [0]

    def write(seed):
        with server.connect(autocommit=False) as connection:
            n = seed
            while not stop.is_set():
                n += 2
                try:
                    if server_has_split[0]:
                        connection.execute("update a set x = x + 1000 where id = %s", (1 + n % ROWS,))
                        connection.execute("update b set z = coalesce(z, 0) + 1000 where b_id = %s", (1 + n % ROWS,))
                    else:
                        connection.execute("update s set x = x + 1000, z = coalesce(z, 0) + 1000 where id = %s",
                                           (1 + n % ROWS,))
                    connection.commit()
                    done[0] += 1
                except (errors.UndefinedTable, errors.SerializationFailure):
                    connection.rollback()
                    server_has_split[0] = server.value(
                        "select count(*) from pg_tables where tablename = 's'") == 0
                except psycopg.Error as e:
                    failed.append(e)
                    connection.rollback()

    server_has_split = [True]
    writers = [threading.Thread(target=write, args=(seed,)) for seed in (0, 1)]
    [writer.start() for writer in writers]
    time.sleep(0.3)
    for _ in range(6):
        number = revert(server, number)
        time.sleep(0.2)
    stop.set()
    [writer.join() for writer in writers]
    assert failed == [] and done[0] > 50
    assert server.value("select count(*) from pg_tables where tablename = 's'") == 0
    assert server.value("select sum(x - z) from a join b on a.id = b.b_id") == 0
    assert server.value("select count(*) from a join b on a.id = b.b_id") == ROWS
    assert server.value("select (sum(x) - sum(id)) / 1000 from a") == done[0]


@pytest.mark.parametrize("mode", ["eager", "lazy"])
@pytest.mark.parametrize("point", [
    "catalog: row written", "flip: tables pending", "flip: verified", "flip: logged, not flushed",
    "flip: flushed, not published", "flip: published", "flip: durable, not answered"])
def test_a_kill_during_a_revert(start, point, mode):
    server = start()
    server.run(*SOURCE, "create table c (id int primary key, v int)", "insert into c values (1, 2)")
    before = schema(server)
    number = change(server, *SPLIT, "alter table c drop column v")
    server.run(*WRITES)
    after, rows = schema(server), server.rows(WHOLE)
    server.stop()
    server.environment = {"FROGLET_CRASH_AT": f"{point}:1"}
    server.start()
    with pytest.raises(psycopg.OperationalError), server.connect() as connection:
        connection.execute(f"set froglet.migration = {mode}")
        connection.execute(f"select froglet.revert_migration({number})")
    server.kill()
    server.environment = {}
    server.start()
    reverted = server.value(f"select reverted_by is not null from froglet.schema_changes where id = {number}")
    assert schema(server) == (before if reverted else after)
    assert reverted or point not in ("flip: flushed, not published", "flip: durable, not answered")
    if not reverted:
        assert server.rows(WHOLE) == rows
        revert(server, number)
    assert server.rows("select id, x, y, z, p_id from s order by id") == rows
    assert server.rows("select * from c") == [(1, 2)]
    assert schema(server) == before
