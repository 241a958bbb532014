"""Foreign keys in a cluster: the same statements find what they find on one server; and no child is without its parent,
whoever writes where, while foreign keys come and go, and while gateways die.
"""

import random
import threading
import time

import psycopg
import pytest

from support.clients import Clients
from support.processes import wait_until
from test_gateways import connect, refused
from test_slsm import Twins, wait_until_whole

TABLES = (
    "create table maker (country text, name text, id numeric unique not null, since int, primary key (country, name))",
    "create table part (id int primary key, maker int references maker (id) on update cascade on delete set null,"
    " name text, country text, kind int default 0, weight int,"
    " constraint origin foreign key (name, country) references maker (name, country) on delete cascade)",
    "create table piece (id int primary key, part int not null references part on delete restrict, upper int references piece)",
    "create index on piece (part)",
    "insert into maker select 'c' || i % 3, 'm' || i, 1000 + i, 1900 + i from generate_series(1, 30) i",
    "insert into part select i, 1000 + i % 10 + 1, 'm' || i % 20 + 1, 'c' || (i % 20 + 1) % 3, i % 4, i from generate_series(1, 60) i",
    "insert into piece select i, i % 5 + 1, case when i > 1 then i / 2 end from generate_series(1, 40) i",
)
STATEMENTS = (
    "insert into part values (100, 1001, 'm1', 'c1'), (101, 9999, null, null)",
    "insert into part values (100, 1001, 'm1', 'c2')",
    "update maker set id = id + 0.5 where name = 'm7'",
    "insert into part values (100, null, 'nobody', null), (101, 1002, null, 'nowhere')",
    "insert into part select 200 + i, 1000 + i, 'm1', 'c1' from generate_series(25, 31) i",
    "insert into part (id, maker) select 200 + i, 1000 + i from generate_series(25, 30) i",
    "insert into part (id, maker) values (1, 4) on conflict (id) do update set maker = excluded.maker",
    "insert into part (id, maker) values (1, 4) on conflict (id) do update set maker = 1007 returning maker",
    "update part set maker = maker + 1 where id < 5",
    "update part set maker = 1 where id < 5",
    "update part set name = 'm2' where id = 1",
    "update part set name = 'm2', country = 'c2' where id = 1",
    "update maker set id = id + 5000 where name in ('m3', 'm4')",
    "select id, maker from part where maker > 5000 order by id",
    "update maker set name = 'x' where name = 'm5'",
    "update maker set since = since + 1",
    "delete from maker where name = 'm30'",
    "delete from maker where name = 'm11'",
    "delete from maker where name = 'm2'",
    "select * from part order by id",
    "delete from part where id = 3",
    "delete from part where id = 33",
    "update part set id = id + 1000 where id in (2, 40)",
    "update part set id = id + 1000 where id = 41",
    "delete from piece where id = 1",
    "delete from piece where id > 20",
    "insert into piece values (50, 4, 51), (51, 4, 50)",
    "insert into piece values (52, 4, 53)",
    "begin",
    "insert into part (id) values (500)",
    "insert into piece values (60, 500, null)",
    "savepoint s",
    "delete from part where id = 500",
    "rollback to s",
    "delete from piece where id = 60",
    "delete from part where id = 500",
    "insert into maker values ('new', 'one', 1, 1)",
    "insert into part values (501, 1, 'one', 'new')",
    "commit",
    "begin",
    "delete from piece",
    "delete from part using maker where part.maker = maker.id and maker.since > 1905",
    "select count(*) from part",
    "rollback",
    "truncate part",
    "truncate maker cascade",
    "select count(*) from piece",
)
CHANGES = (
    "alter table part drop constraint origin",
    "delete from maker where name = 'm6'",
    "alter table part add constraint origin foreign key (name, country) references maker (name, country)",
    "alter table part add constraint origin foreign key (name, country) references maker (name, country) not valid",
    "select conname, convalidated from pg_constraint where contype = 'f' order by 1",
    "insert into part (id, name, country) values (700, 'm6', 'c0')",
    "update part set weight = 5 where name = 'm6'",
    "alter table part validate constraint origin",
    "update part set name = null where name = 'm6'",
    "alter table part validate constraint origin",
    "alter table part add column again int references part (id)",
    "update part set again = id where id = 12",
    "update part set again = 8888 where id = 12",
    "alter table part add column other int default 8888 references part (id)",
    "alter table part add column other int default 12 references part (id)",
    "delete from part where id = 12",
    "alter table part drop column other, drop column again",
    "delete from part where id = 12",
    "create table tag (part int references part on delete cascade, word text)",
    "insert into tag select id, 'w' from part where id < 30",
    "insert into tag values (12, 'w')",
    "delete from part where id between 13 and 18",
    "select count(*) from tag",
    "alter table maker drop constraint maker_id_key",
    "alter table maker drop constraint maker_id_key cascade",
    "insert into tag values (12, 'w')",
    "begin",
    "create table a (id int primary key)",
    "create table b (id int primary key, a int)",
    "insert into b values (1, 1), (2, null)",
    "savepoint s",
    "alter table b add foreign key (a) references a",
    "rollback to s",
    "insert into a values (1)",
    "alter table b add foreign key (a) references a",
    "delete from a",
    "rollback to s",
    "insert into a values (1)",
    "alter table b add foreign key (a) references a on delete set null",
    "commit",
    "delete from a",
    "select * from b order by id",
    "create table own (k int primary key, u int unique, c int)",
    "insert into own values (1, 1, 2), (2, 2, 1)",
    "alter table own add foreign key (c) references own (u)",
    "delete from own where k = 2",
    "update own set u = 7 where k = 2",
    "alter table own drop constraint own_u_key",
    "alter table own drop constraint own_u_key cascade",
    "insert into own values (3, 3, 99)",
    "alter table own add column up int references own (k)",
    "update own set up = 2 where k = 1",
    "delete from own where k = 2",
    "insert into piece (id, part) values (5000, 9999), (5001, 5000)",
    "drop table maker",
    "drop table maker cascade",
    "insert into part (id, name, country) values (701, 'nobody', 'nowhere')",
)


def test_the_same_as_on_one_server(start, gateways):
    twins = Twins(start, gateways, TABLES, TABLES, (), **{"froglet.migration": "auto"})
    for statement in (*STATEMENTS, *CHANGES):
        twins.do(statement)
    for table in ("part", "piece", "tag", "b"):
        twins.do(f"select * from {table} order by 1, 2")


@pytest.mark.parametrize("delay", ["1h", "0"])
def test_columns_of_a_foreign_key_get_another_type(start, gateways, delay):
    """The child moves, or its parent; whoever does not know of it finds neither where it was."""
    source = (
        "create table parent (id int primary key, code int unique, more int)",
        "insert into parent select i, i, i from generate_series(1, 40) i",
        "create table child (id int primary key, parent int references parent, code int references parent (code), more int)",
        "insert into child select i, i % 10 + 1, i % 10 + 11 from generate_series(1, 50) i",
        "create index on child (parent)",
    )
    writes = ("insert into child values (100, 99)", "insert into child values (100, 30, 31)", "delete from parent where id = 30",
              "delete from parent where id = 31", "update child set parent = 29 where id = 100", "delete from parent where id = 29",
              "delete from parent where id = 30", "update parent set id = 60 where id = 29", "delete from child where id = 100",
              "insert into parent values (30, 30)", "update parent set id = 61, code = 61 where id = 29", "update parent set id = 29,"
              " code = 29 where id = 61", "select * from child order by id", "select * from parent order by id")
    changes = ("alter table child alter parent type bigint", "alter table parent alter more type text", "alter table parent alter id"
               " type bigint", "alter table child alter more type bigint", "alter table parent alter code type numeric")
    twins = Twins(start, gateways, source, source, (), **{"froglet.migration": "auto", "froglet.migration_delay": delay})
    for change in changes:
        twins.do(change)
        for statement in writes:
            twins.do(statement)
    if delay == "0":
        wait_until_whole(*twins.lazy)
        for statement in writes:
            twins.do(statement)


def test_what_cannot_be_says_so_and_changes_nothing(gateways):
    one, other = gateways(2)
    with connect(one) as a, connect(other) as b:
        a.execute("create table parent (id int primary key, code text)")
        a.execute("insert into parent select i, i from generate_series(1, 300) i")
        refused(b, "create table child (id int references parent deferrable)", "0A000")
        b.execute("create table child (id int primary key, parent int, code text)")
        b.execute("insert into child values (1, 7)")
        refused(a, "alter table child add foreign key (parent) references parent initially deferred", "0A000")
        a.execute("set froglet.migration_delay = '3s'")
        a.execute("alter table parent alter code type varchar(9)")
        for constraint in ("", " not valid"):
            refused(a, f"alter table child add constraint c foreign key (parent) references parent{constraint}", "0A000")
        refused(b, "create table more (id int references parent)", "0A000")
        b.execute("delete from parent where id = 7")
        wait_until_whole(a, b)
        refused(a, "alter table child add constraint c foreign key (parent) references parent", "23503")
        b.execute("insert into parent values (7)")
        b.execute("alter table child add constraint c foreign key (parent) references parent")
        refused(a, "alter table child alter parent type int using parent + 1", "0A000")
        refused(a, "delete from parent where id = 7", "23503")


ORPHANS = "select count(*) from child left join parent on parent.id = child.parent where parent.id is null and child.parent is not null"


def test_reads_go_on_while_tables_are_emptied(gateways):
    """A statement that begins behind the commit is one of the new table, also where that is not known yet."""
    one, other = gateways(2)
    with connect(one) as a, connect(other) as b:
        a.execute("create table t (id int primary key)")
        a.execute("create materialized view seen as select * from t")
        errors, going = [], True

        def read(sql):
            with connect(other) as connection:
                while going:
                    try:
                        connection.execute(sql)
                    except psycopg.Error as error:
                        errors.append((sql, error))

        threads = [threading.Thread(target=read, args=(sql,)) for sql in (
            "select count(*) from t", "select count(*) from seen", "select * from t where id = 7", "update t set id = id where id = 8",
            "select count(*) from t join seen using (id)")]
        for thread in threads:
            thread.start()
        for n in range(8):
            a.execute("truncate t")
            b.execute("insert into t select generate_series(1, 20)")
            a.execute("refresh materialized view seen")
            assert b.execute("select count(*) from seen").fetchone() == (20,)
        going = False
        for thread in threads:
            thread.join(30)
        assert errors == []


class Families(Clients):
    """Clients that bring children and take parents away, at all gateways."""

    EXPECTED = {"23503", "23505", "40001", "40P01"}

    def __init__(self, gateways, isolation, by_view=True):
        self.gateways, self.isolation = gateways, isolation
        # They look themselves whether it holds, while nobody else does; and may both be wrong.
        self.by_view = by_view
        self.going, self.done, self.unexpected, self.slowest = True, 0, [], 0.0
        self.threads = [threading.Thread(target=self.write, args=(gateway, n)) for n, gateway in enumerate(2 * gateways)]

    def write(self, gateway, seed):
        choose, connection = random.Random(seed), None
        while self.going:
            begun = time.monotonic()
            try:
                connection = connection or connect(gateway)
                connection.execute(f"begin isolation level {self.isolation}")
                for _ in range(choose.randrange(1, 4)):
                    connection.execute(self.statement(choose))
                    time.sleep(choose.choice((0, 0, 0.01)))
                connection.execute(choose.choice(("commit", "commit", "commit", "rollback")))
                self.done += 1
            except psycopg.errors.OperationalError as error:
                if error.sqlstate in self.EXPECTED:
                    connection.execute("rollback")
                else:
                    # Its gateway is gone, or silent.
                    connection = None
                    time.sleep(0.2)
            except psycopg.Error as error:
                if error.sqlstate not in self.EXPECTED:
                    self.unexpected.append(error)
                connection.execute("rollback")
            self.slowest = max(self.slowest, time.monotonic() - begun)

    def statement(self, choose):
        parent, child = choose.randrange(12), choose.randrange(40)
        no_child = f" and not exists (select 1 from child where parent = {parent})" if self.by_view else ""
        a_parent = f"from parent where id = {parent}" if self.by_view else "where true"
        return choose.choice((
            f"insert into child select {child}, {parent} {a_parent} on conflict (id) do nothing",
            f"update child set parent = {parent} where id = {child}" + (
                f" and exists (select 1 from parent where id = {parent})" if self.by_view else ""),
            f"delete from child where id = {child}",
            f"delete from parent where id = {parent}{no_child}",
            f"update parent set id = {parent + 12} where id = {parent}{no_child}",
            f"insert into parent values ({parent}, 0) on conflict (id) do nothing",
            f"update parent set n = n + 1 where id = {parent}",
        ))


def family(connection):
    connection.execute("create table parent (id int primary key, n int)")
    connection.execute("insert into parent select i, 0 from generate_series(0, 11) i")
    connection.execute("create table child (id int primary key, parent int)")
    connection.execute("create index on child (parent)")


def add(connection, how="add constraint family foreign key (parent) references parent"):
    """Tries until it holds; how often it did not."""
    for attempt in range(60):
        try:
            connection.execute(f"alter table child {how}")
            return attempt
        except psycopg.Error as error:
            assert error.sqlstate in ("23503", "40001", "40P01"), error
            connection.execute(
                "delete from child where parent is not null and not exists (select 1 from parent where parent.id = child.parent)")
    raise AssertionError("it can never be added")


@pytest.mark.parametrize("isolation", ["read committed", "repeatable read"])
def test_no_orphan_while_it_comes_and_goes(gateways, isolation):
    one, other = gateways(2)
    with connect(one) as a, connect(other) as b:
        family(a)
        with Families([one, other], isolation) as clients:
            for n in range(4):
                connection = (a, b)[n % 2]
                add(connection)
                for _ in range(10):
                    assert a.execute(ORPHANS).fetchone() == (0,) == b.execute(ORPHANS).fetchone()
                    time.sleep(0.02)
                connection.execute("alter table child drop constraint family")
                # Nobody looks any more.
                clients.by_view = n % 2 == 0
                done = clients.done
                wait_until(lambda: clients.done > done + 20, "they go on")
                clients.by_view = True
            add(a, "add constraint family foreign key (parent) references parent not valid")
            add(b, "validate constraint family")
            clients.by_view = False
            for _ in range(30):
                assert a.execute(ORPHANS).fetchone() == (0,) == b.execute(ORPHANS).fetchone()
                time.sleep(0.05)
        assert clients.unexpected == [] and clients.slowest < 30
        assert a.execute(ORPHANS).fetchone() == (0,)


def test_no_orphan_though_gateways_die_and_fall_silent(gateways):
    one, other, third = gateways(3)
    with connect(one) as a:
        family(a)
        add(a)
        with Families([one, other, third], "read committed", by_view=False) as clients:
            for n in range(6):
                if n % 3 == 2:
                    # For longer than its locks and its lease last.
                    other.pause()
                    for _ in range(13):
                        assert a.execute(ORPHANS).fetchone() == (0,)
                        time.sleep(1)
                    other.resume()
                else:
                    third.kill()
                    time.sleep(0.5)
                    assert a.execute(ORPHANS).fetchone() == (0,)
                    third.start()
                    time.sleep(1)
            done = clients.done
            wait_until(lambda: clients.done > done + 20, "they go on", 60)
        assert clients.unexpected == []
        assert a.execute(ORPHANS).fetchone() == (0,)


def test_who_does_not_know_that_a_table_was_emptied_writes_it_no_more(gateways):
    one, other = gateways(2)
    with connect(one) as a, connect(other) as b, connect(other) as c:
        family(a)
        add(a)
        b.execute("begin isolation level repeatable read")
        b.execute("insert into child values (1, 1)")
        c.execute("begin isolation level repeatable read")
        assert c.execute("select count(*) from parent").fetchone() == (12,)
        a.execute("truncate child")
        a.execute("insert into child values (2, 2)")
        refused(b, "commit", "40001")
        # It would look for children where they were.
        refused(c, "delete from parent where id = 2", "40001")
        c.execute("rollback")
        assert a.execute(ORPHANS).fetchone() == (0,)
        for begin in ("alter table child drop constraint family", "create table child2 (id int primary key, parent int)"):
            a.execute(begin)
        for change in ("truncate child", "alter table child alter id type bigint", "truncate parent cascade",
                       "alter table parent alter n type bigint"):
            a.execute("begin")
            a.execute("alter table child add constraint family foreign key (parent) references parent")
            refused(a, change, "0A000")
            a.execute("rollback")
        with a.transaction():
            a.execute("create table child3 (id int primary key, parent int)")
            a.execute("truncate child3")
            a.execute("truncate child2")
            for n in (2, 3):
                a.execute(f"alter table child{n} add foreign key (parent) references parent")
            a.execute("insert into child3 values (1, 3)")
            b.execute("delete from parent where id = 4")
        refused(b, "delete from parent where id = 3", "23503")
        refused(b, "insert into child2 values (1, 4)", "23503")


def test_children_wait_for_each_others_commits_alone(gateways):
    """Not for transactions that think."""
    one, other = gateways(2)
    with connect(one) as a, connect(other) as b, connect(other) as c:
        family(a)
        add(a)
        a.execute("begin")
        a.execute("insert into child values (1, 1)")
        b.execute("set statement_timeout = '5s'")
        b.execute("insert into child values (2, 1)")
        b.execute("update parent set n = 9 where id = 1")
        a.execute("commit")
        # It waits for whoever changes the parent's row, for so long.
        a.execute("begin")
        a.execute("update parent set n = 10 where id = 1")
        b.execute("set lock_timeout = '500ms'")
        refused(b, "insert into child values (9, 1)", "55P03")
        a.execute("rollback")
        b.execute("reset lock_timeout")
        b.execute("insert into child values (9, 1)")
        b.execute("delete from child where id = 9")
        # A child that waits for its parent's deleter can be told to stop.
        a.execute("begin")
        a.execute("delete from child")
        a.execute("delete from parent where id = 1")
        c.execute("set statement_timeout = '1s'")
        refused(c, "insert into child values (3, 1)", "57014")
        a.execute("rollback")
        c.execute("set statement_timeout = 0")
        c.execute("insert into child values (3, 1)")
        assert b.execute("select count(*) from child").fetchone() == (3,)
