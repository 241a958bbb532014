"""Columns that are computed of others in a cluster (types, generated columns): the table moves to where its rows have them,
and the same statements find what they find on one server that has computed them before the commit.
"""

import random
import threading

import psycopg
import pytest

from support.clients import Clients
from support.processes import wait_until
from test_gateways import connect, refused
from test_slsm import Twins, wait_until_whole

ITEMS = (
    "create table item (id int primary key, part int not null, code varchar(20), price numeric, rest smallint)",
    "insert into item select i, i % 7, case when i % 9 > 0 then 'c' || i end, i / 4.0, i % 100 from generate_series(1, 600) i",
)
INDEXED = (
    "create table item (id int primary key, part int not null, code varchar(20) unique, price numeric, rest smallint)",
    ITEMS[1],
    "create index item_part on item (part, id desc)",
    "create index item_rest on item (rest)",
    "alter table item add constraint small check (rest < 1000)",
)
LOOK = (
    "select * from item where id = 77",
    "select * from item where id in (3, 700, 12, -1) order by id",
    "select * from item where id between 90 and 99 order by id desc",
    "select id from item where id > 595 order by id",
    "select id from item where part = 3 and id < 60 order by id desc",
    "select * from item where code = 'c50'",
    "select id from item where rest between 7 and 9 order by id",
    "select count(*), sum(id), sum(part), count(code) from item",
)
WRITE = (
    "update item set part = part + 1 where id = 77 returning *",
    "insert into item (id, part, code) values (77, 1, 'x')",
    "insert into item (id, part, code) values (-5, 1, 'c50')",
    "insert into item (id, part, code, rest) values (-5, 1, 'c5000', 1) returning *",
    "insert into item (id, part, code) values (12, 1, 'x') on conflict (id) do update set part = 99 returning *",
    "update item set id = id + 10000 where id in (5, 6)",
    "delete from item where id between 30 and 33 returning id",
    "begin",
    "update item set rest = 3 where part = 4",
    "savepoint s",
    "delete from item where part = 4",
    "rollback to s",
    "select count(*), sum(rest) from item where part = 4",
    "commit",
    "select id from item where part = 2 and id < 40 order by id for update",
)
CHANGES = (
    ("alter table item alter part type bigint",),
    ("alter table item alter id type bigint", "insert into item (id, part) values (5000000000, 1)"),
    ("alter table item alter rest type int using rest * 3 + id::int % 2",),
    ("alter table item add column both text generated always as (coalesce(code, '-') || part) stored",
     "update item set both = 'x'", "select both from item where id = 50"),
    ("alter table item alter price type numeric(10, 1), drop column rest, add column twice bigint generated always as (part * 2)"
     " stored not null", "select id, twice from item where id < 9 order by id"),
    ("begin", "alter table item rename part to piece", "alter table item alter price type text",
     "alter table item add column kind int not null default 4", "alter table item alter kind type bigint using kind + id",
     "alter table item alter code type text using lower(code) || '!'", "commit"),
)


@pytest.mark.parametrize(("fuse", "colocate", "delay"), [("on", "on", "1h"), ("off", "off", "1h"), ("on", "on", "0")])
def test_a_table_goes_through_changes(start, gateways, fuse, colocate, delay):
    """Each of a table whose rows are still where the one before has left them."""
    settings = {"froglet.migration": "auto", "froglet.migration_delay": delay, "froglet.slsm_fuse": fuse,
                "froglet.slsm_colocate": colocate}
    twins = Twins(start, gateways, INDEXED, INDEXED, (), **settings)
    for change in CHANGES[:4]:
        for statement in (*change, *LOOK, *WRITE, *LOOK):
            twins.do(statement)
    for statement in CHANGES[4]:
        twins.do(statement)
    for statement in ("alter table item add column rest int", *LOOK, *WRITE, *LOOK):
        twins.do(statement)
    # A key that may become that of another row is the one thing that is different.
    for connection in (twins.eager, twins.lazy[0]):
        connection.execute("alter table item drop constraint item_code_key")
    for statement in (*CHANGES[5], "select id, piece, price, kind, code from item where id between 60 and 70 order by id",
                      "insert into item (id, piece, kind) values (-70, 1, 5000000000)", "select * from item order by id"):
        twins.do(statement)
        twins.do("select * from item order by id")
    if delay == "0":
        wait_until_whole(*twins.lazy)
        twins.do("select * from item order by id")


def test_what_cannot_be_is_told_before_the_commit(gateways):
    one, other = gateways(2)
    with connect(one) as a, connect(other) as b:
        for statement in INDEXED:
            a.execute(statement)
        a.execute("set froglet.migration_delay = '1h'")
        refused(a, "alter table item alter code type int using code::int", "0A000")
        refused(a, "alter table item drop constraint item_code_key, alter code type int using code::int", "22P02")
        refused(a, "alter table item alter id type smallint using (id * 100)::smallint", "0A000")
        refused(a, "alter table item alter part type smallint using part * 10000", "22003")
        refused(a, "alter table item alter part type int using nullif(part, 3)", "23502")
        refused(a, "alter table item alter rest type int using rest * 1000", "23514")
        refused(a, "alter table item add column d uuid default gen_random_uuid()", "0A000")
        refused(a, "alter table item add column s serial", "0A000")
        refused(a, "create index on item ((part + 1))", "0A000")
        refused(a, "alter table item add column n int generated always as (1 / (part - 3)) stored", "22012")
        refused(a, "alter table item add column n int generated always as (nullif(part, 3)) stored not null", "23502")
        a.execute("set froglet.migration = eager")
        refused(a, "alter table item alter part type bigint", "0A000")
        a.execute("set froglet.migration = auto")
        assert b.execute("select count(*) from froglet.migrations where ended is null").fetchone() == (0,)

        # Others write what cannot be, and are told nothing: the change is.
        a.execute("begin")
        a.execute("alter table item alter part type smallint")
        b.execute("update item set part = 100000 where id = 8")
        refused(a, "commit", "22000")
        assert b.execute("select part from item where id = 8").fetchone() == (100_000,)
        b.execute("update item set part = 1 where id = 8")
        a.execute("begin")
        a.execute("alter table item alter part type smallint")
        a.execute("alter table item alter code type text")
        refused(a, "alter table item add constraint no check (part < 6)", "23514")
        a.execute("rollback")
        with a.transaction():
            a.execute("alter table item alter part type smallint")
            a.execute("alter table item add constraint yes check (part < 10)")
            a.execute("alter table item alter rest set not null")
            a.execute("create index by_both on item (rest, part)")
            refused_within(a, "update item set part = 3 where id = 1", "0A000")
        for connection in (a, b):
            refused(connection, "insert into item (id, part, rest) values (-1, 10, 1)", "23514")
            refused(connection, "insert into item (id, part) values (-1, 1)", "23502")
            found = connection.execute("select id from item where rest = 7 and part = 2 order by id").fetchall()
            assert found == [(i,) for i in range(7, 601, 100) if i % 7 == 2] != []


def refused_within(connection, statement, state):
    """In a transaction, which goes on."""
    with pytest.raises(psycopg.Error) as raised, connection.transaction():
        connection.execute(statement)
    assert raised.value.sqlstate == state, raised.value


def test_what_is_undone_leaves_the_table_as_it_was(gateways):
    one, other = gateways(2)
    with connect(one) as a, connect(other) as b:
        for statement in ITEMS:
            a.execute(statement)
        a.execute("set froglet.migration_delay = '1h'")
        everything = "select * from item order by id"
        before = b.execute(everything).fetchall()
        with a.transaction(force_rollback=True):
            a.execute("update item set part = 50 where id = 3")
            a.execute("alter table item alter part type bigint")
            assert a.execute("select part from item where id in (3, 4) order by id").fetchall() == [(50,), (4,)]
            assert b.execute("select part from item where id = 3").fetchone() == (3,)
            b.execute("update item set part = 51 where id = 4")
        b.execute("update item set part = 4 where id = 4")
        assert a.execute(everything).fetchall() == before
        with a.transaction():
            a.execute("insert into item values (-1, 1, 'own', 1, 1)")
            a.execute("alter table item alter part type bigint using part + 1")
            with a.transaction(force_rollback=True):
                a.execute("alter table item alter rest type text")
                assert a.execute("select part, rest from item where id = -1").fetchone() == (2, "1")
            a.execute("alter table item add column more bigint generated always as (part * 10) stored")
            assert a.execute("select part, rest, more from item where id = -1").fetchone() == (2, 1, 20)
        for connection in (a, b):
            assert connection.execute("select * from item where id = -1").fetchall() == [(-1, 2, "own", 1, 1, 20)]
            assert connection.execute("select count(*), sum(part), sum(more) from item").fetchone() == (
                601, 602 + sum(row[1] for row in before), 10 * (602 + sum(row[1] for row in before)))
        statements = "select statement from froglet.migrations where phase <> 'aborted'"
        assert b.execute(statements).fetchall() == [
            ("alter table item add column more bigint generated always as (part * 10) stored",)]


def test_rows_that_a_transaction_has_are_not_moved_by_its_change(gateways):
    """A second change moves what is left first: nobody can move what the transaction itself has locked, and at REPEATABLE
    READ it would see less than before."""
    one, other = gateways(2)
    with connect(one) as a, connect(other) as b:
        for statement in ITEMS:
            a.execute(statement)
        a.execute("set froglet.migration_delay = '1h'")
        a.execute("alter table item alter part type bigint")
        for touch in ("update item set part = 5 where id = 3", "select * from item where id = 4 for update"):
            a.execute("begin")
            a.execute(touch)
            refused(a, "alter table item alter rest type int", "55000")
            a.execute("rollback")
            a.execute("begin")
            a.execute(touch)
            refused(a, "create index on item (rest)", "0A000")
            a.execute("rollback")
        b.execute("begin isolation level repeatable read")
        assert b.execute("select count(*) from item").fetchone() == (600,)
        refused(b, "alter table item alter rest type int", "55000")
        b.execute("rollback")
        a.execute("alter table item alter rest type int")
        assert b.execute("select count(*), sum(rest) from item").fetchone() == (600, sum(i % 100 for i in range(1, 601)))


def test_what_is_demanded_no_more_fails_no_commit(gateways):
    one, other = gateways(2)
    with connect(one) as a, connect(other) as b:
        for statement in ITEMS:
            a.execute(statement)
        a.execute("set froglet.migration_delay = '1h'")
        # Begun, undone and begun again, at once.
        for _ in range(3):
            with a.transaction():
                a.execute("savepoint s")
                a.execute("alter table item alter part type smallint")
                a.execute("rollback to s")
                a.execute("alter table item alter part type smallint")
            a.execute("alter table item alter part type int")
        a.execute("begin")
        a.execute("alter table item alter part type smallint")
        a.execute("alter table item add constraint c check (part < 10)")
        a.execute("alter table item drop constraint c")
        b.execute("update item set part = 50 where id = 8")
        a.execute("commit")
        assert b.execute("select part from item where id = 8").fetchone() == (50,)
        for gone in ("truncate item", "drop table item"):
            a.execute("drop table item")
            for statement in ITEMS:
                a.execute(statement)
            a.execute("begin")
            a.execute("alter table item alter rest type smallint using (rest + 1)::smallint")
            a.execute(gone)
            b.execute("update item set rest = 32767 where id = 8")
            a.execute("commit")
        a.execute(ITEMS[0])
        for mode, type in (("auto", "uuid using gen_random_uuid()"), ("eager", "text")):
            a.execute(f"set froglet.migration = {mode}")
            with a.transaction():
                a.execute("truncate item")
                a.execute(f"alter table item alter code type {type}")
        a.execute("set froglet.migration = lazy")
        a.execute("create table kept (id int primary key, part int)")
        a.execute("begin")
        a.execute("create table made as select id, part from kept")
        a.execute("alter table made add primary key (id)")
        refused(a, "alter table made alter id type bigint", "0A000")
        a.execute("rollback")


def test_what_a_session_says_of_dates_and_numbers_counts_at_every_gateway(gateways):
    one, other = gateways(2)
    with connect(one) as a, connect(other) as b:
        a.execute("create table t (id int primary key, day text, x float8, i interval, at timestamptz)")
        a.execute("insert into t select g, '25/12/2020', g / 3.0, '1 day 2 hours', '2020-06-01 00:30+00'"
                  " from generate_series(1, 6) g")
        for setting in ("froglet.migration_delay = '1h'", "datestyle = dmy", "extra_float_digits = -10",
                        "intervalstyle = sql_standard", "timezone = 'Asia/Tokyo'"):
            a.execute(f"set {setting}")
        a.execute("alter table t alter day type date using day::date, alter x type text, alter i type text,"
                  " alter at type timestamp")
        row = "select day::text, x, i, at::text from t where id = %s"
        for connection in (a, b):
            assert connection.execute(row, (1,)).fetchone() == ("2020-12-25", "0.33333", "1 2:00:00", "2020-06-01 09:30:00")
        b.execute("update t set id = id + 100 where id < 3")
        one.kill()
        one.start()
        with connect(one) as again:
            for connection in (again, b):
                assert connection.execute(row, (101,)).fetchone() == ("2020-12-25", "0.33333", "1 2:00:00", "2020-06-01 09:30:00")
                assert connection.execute("select count(*) from t where day = '2020-12-25'").fetchone() == (6,)


def test_many_columns_are_computed_at_once(gateways):
    """What other servers are told of each does not grow with the rest."""
    one, other = gateways(2)
    with connect(one) as a, connect(other) as b:
        a.execute(f"create table wide (id int primary key, {', '.join(f'c{n} int' for n in range(50))})")
        a.execute(f"insert into wide select g, {', '.join(f'g + {n}' for n in range(50))} from generate_series(1, 20) g")
        a.execute("set froglet.migration_delay = '1h'")
        a.execute("alter table wide " + ", ".join(
            f"add column d{n} bigint generated always as (c{n} * 2) stored" for n in range(30)))
        b.execute("alter table wide " + ", ".join(f"alter c{n} type smallint" for n in range(30, 50)))
        assert b.execute("select d0, d29, c49 from wide where id = 7").fetchone() == (14, 72, 56)
        assert a.execute("select sum(d3), sum(c30) from wide").fetchone() == (540, 810)


def test_a_row_that_cannot_move_can_be_deleted(gateways):
    one, other = gateways(2)
    with connect(one) as a, connect(other) as b:
        a.execute("create table t (id int primary key, v text)")
        a.execute("insert into t values (1, repeat('x', 3000000)), (2, 'y'), (3, 'z')")
        a.execute("alter table t add column more text generated always as (v || v) stored")
        assert b.execute("select id, length(more) from t order by id").fetchall() == [(1, 6_000_000), (2, 2), (3, 2)]
        refused(b, "update t set id = 10 where id = 1", "54000")
        refused(a, "alter table t alter id type bigint", "54000")
        with b.transaction(force_rollback=True):
            assert b.execute("delete from t where id in (1, 2)").rowcount == 2
            assert b.execute("select id from t").fetchall() == [(3,)]
        assert b.execute("delete from t where id < 3").rowcount == 2
        a.execute("alter table t alter id type bigint")
        assert a.execute("select id, more from t").fetchall() == [(3, "zz")]


FOLDED = (
    "alter table t alter x type int using case when true then length(b) else a end",
    "alter table t add column g int generated always as (coalesce(3, a) + length(b)) stored",
    "alter table t add constraint c check (true or a > 0), alter a type bigint using a + 0",
)


@pytest.mark.parametrize("change", FOLDED)
def test_an_expression_names_columns_that_do_not_matter(gateways, change):
    """Its text is compiled again elsewhere, where it is still about them."""
    one, other = gateways(2)
    with connect(one) as a, connect(other) as b:
        a.execute("create table t (id int primary key, a int, b text, x text)")
        a.execute("insert into t select g, g, repeat('b', g), 'x' from generate_series(1, 9) g")
        a.execute("set froglet.migration_delay = '1h'")
        with a.transaction():
            a.execute(change)
            b.execute("insert into t values (10, 10, 'bb', 'x')")
            a.execute("alter table t alter x type varchar(30)")
        rows = "select * from t order by id"
        assert a.execute(rows).fetchall() == b.execute(rows).fetchall() and b.execute("select count(*) from t").fetchone() == (10,)
        b.execute("update t set id = -id where id < 5")
        one.kill()
        one.start()
        with connect(one) as again:
            assert again.execute(rows).fetchall() == b.execute(rows).fetchall()


def test_rows_without_a_key_stay_in_their_order(gateways):
    one, other = gateways(2)
    with connect(one) as a, connect(other) as b:
        a.execute("create table log (n int, what text)")
        a.execute("insert into log select g, 'old' from generate_series(1, 5) g")
        a.execute("alter table log alter n type bigint")
        b.execute("insert into log select g, 'new' from generate_series(6, 9) g")
        wait_until_whole(a, b)
        a.execute("alter table log alter n type numeric")
        b.execute("insert into log values (10, 'newer')")
        wait_until_whole(a, b)
        assert [row[0] for row in a.execute("select n from log limit 20")] == list(range(1, 11))


def requests(connection, query):
    plan = "\n".join(row[0] for row in connection.execute(f"explain analyze {query}"))
    return int(plan.partition("requests=")[2].split()[0])


def test_rows_are_found_by_their_keys_while_they_move(gateways):
    """The old key is narrower: one row is one request at each place, and a range is a range."""
    one, other = gateways(2)
    with connect(one) as a, connect(other) as b:
        a.execute("create table t (id int, n smallint, v text, primary key (n, id))")
        a.execute("insert into t select g, g % 300, 'v' || g from generate_series(1, 30000) g")
        one_row, some = "select v from t where n = 7 and id = 307", "select v from t where n = 7 and id < 2000"
        before = [requests(b, query) for query in (one_row, some)]
        a.execute("set froglet.migration_delay = '1h'")
        a.execute("alter table t alter id type bigint, alter n type int")
        for query, was in zip((one_row, some), before, strict=True):
            assert requests(b, query) <= 2 * was + 2, (query, was)
        assert b.execute("select count(*) from t where n = 7 and id < 2000").fetchone() == (7,)
        assert b.execute("select id from t where n = 7 and id > 29000 order by id desc limit 2").fetchall() == [(29707,), (29407,)]
        assert b.execute("select id from t where n > 32767 or n < -32768").fetchall() == []
        b.execute("insert into t values (3000000000, 40000, 'far'), (-3000000000, -40000, 'near')")
        assert a.execute("select v from t where n >= 32767").fetchall() == [("far",)]
        assert a.execute("select v from t where n = 40000 and id = 3000000000").fetchall() == [("far",)]
        assert a.execute("select v from t where n < 0").fetchall() == [("near",)]


class Transfers(Clients):
    """Moves of money between accounts at every gateway, which keep the sum."""

    ACCOUNTS = 400

    def __init__(self, gateways, each=2):
        self.going, self.told, self.done = True, [], 0
        self.threads = [threading.Thread(target=self.run, args=(gateway, number))
                        for number in range(each) for gateway in gateways]

    @classmethod
    def make(cls, connection):
        connection.execute("create table account (id int primary key, owner text, balance int not null)")
        connection.execute(f"insert into account select g, 'o' || g, 1000 from generate_series(1, {cls.ACCOUNTS}) g")
        connection.execute("create index on account (balance)")

    def run(self, gateway, number):
        draw = random.Random(number * 101 + gateway.port)
        connection = None
        while self.going:
            try:
                if connection is None or connection.closed:
                    connection = connect(gateway, connect_timeout=5)
                a, b = draw.sample(range(1, self.ACCOUNTS + 1), 2)
                with connection.transaction():
                    for id, sign in sorted(((a, -1), (b, 1))):
                        connection.execute(f"update account set balance = balance + {sign} where id = {id}")
                self.done += 1
            except psycopg.Error as error:
                self.told.append(error)

    def check(self, *connections):
        for connection in connections:
            assert connection.execute("select count(*), sum(balance::bigint) from account").fetchone() == (
                self.ACCOUNTS, 1000 * self.ACCOUNTS)
            ids = [row[0] for row in connection.execute("select id::int from account order by account.id::int")]
            assert ids == list(range(1, self.ACCOUNTS + 1))


ROUND = (
    "alter table account alter balance type bigint",
    "alter table account alter id type bigint",
    "alter table account add column doubled numeric generated always as (balance * 2) stored",
    "alter table account drop column doubled",
    "alter table account alter balance type numeric, alter owner type varchar(30)",
    "alter table account alter balance type int, alter id type int, alter owner type text",
)


def test_writers_go_on(gateways):
    """Types go round and round under transfers; a commit that meets the end of the old space runs again."""
    one, other = gateways(2)
    with connect(one) as a, connect(other) as b:
        Transfers.make(a)
        with Transfers((one, other)) as transfers:
            for number in range(2):
                for at, statement in enumerate(ROUND):
                    connection = (a, b)[(at + number) % 2]
                    connection.execute("set froglet.migration_delay = 0")
                    before = transfers.done
                    connection.execute(statement)
                    transfers.check(a, b)
                    wait_until(lambda before=before: transfers.done > before + 5, "transfers go on", 60)
        told = {error.sqlstate for error in transfers.told}
        assert told <= {"40001"}, [error for error in transfers.told if error.sqlstate != "40001"][:3]
        assert len(transfers.told) < transfers.done / 10 + 20
        transfers.check(a, b)
        wait_until_whole(a, b)
        transfers.check(a, b)


def test_gateways_die_while_types_change(gateways):
    """Whoever changes a type is killed at any moment; the other goes on, and the next one finds what there is."""
    one, other = gateways(2)
    draw = random.Random(26)
    with connect(other) as b:
        Transfers.make(b)
        with Transfers((other,)) as transfers:
            for statement in ROUND:
                def change(statement=statement):
                    try:
                        with connect(one) as connection:
                            connection.execute("set froglet.migration_delay = 0")
                            connection.execute(statement)
                    except psycopg.Error:
                        pass

                changer = threading.Thread(target=change)
                changer.start()
                changer.join(draw.random() * 0.4)
                one.kill()
                changer.join()
                before = transfers.done
                wait_until(lambda before=before: transfers.done > before + 3, "transfers go on", 60)
                transfers.check(b)
                one.start()
                with connect(one) as a:
                    transfers.check(a, b)
        transfers.check(b)
        told = {error.sqlstate for error in transfers.told}
        assert told <= {"40001", "08007", "55P03"}, transfers.told[:5]
        wait_until_whole(b)
        transfers.check(b)
