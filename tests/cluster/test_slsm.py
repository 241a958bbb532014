"""Tables that are made lazily in a cluster, of rows that move: what the same statements find in tables that one server has
made eagerly (`support/twins.py`), whichever gateway they are asked of, and whatever dies meanwhile.
"""

import itertools
import threading
import time

import psycopg
import pytest

from support.clients import Clients
from support.processes import wait_until
from support.twins import Pair
from test_gateways import connect, refused

USERS = (
    "create table users (id int, part int, name text, rights text, credit int, primary key (part, id))",
    "insert into users select i, i % 7, 'name ' || i, case when i % 3 > 0 then 'r' || i % 5 end, i % 50 from"
    " generate_series(1, 700) i",
    "create unique index users_name on users (name)",
)
IN_CLUSTER = (
    "create table users (id int, part int, name text unique, rights text, credit int, primary key (part, id))",
    USERS[1],
)
SPLIT = (
    "create table open as select id, part, name, upper(rights) as rights from users",
    "alter table open add primary key (part, id)",
    "alter table open add unique (name)",
    "create table hidden as select part, id, credit from users where credit < 45",
    "alter table hidden add primary key (part, id)",
    "drop table users",
)
STATEMENTS = (
    "select * from open where part = 3 and id = 10",
    "select * from hidden where part = 3 and id = 10",
    "select * from hidden where part = 4 and id = 46",
    "select * from open where name = 'name 77'",
    "select * from open where name in ('name 1', 'name 5000', 'name 699') order by id",
    "select * from open where part = 2 and id between 50 and 90 order by id",
    "select * from open where part = 2 and id > 650 order by id desc",
    "select part, id from open order by part desc, id desc limit 7",
    "select count(*), sum(id), count(rights) from open",
    "select count(*), sum(credit) from hidden",
    "select o.id, h.credit from open o left join hidden h on h.part = o.part and h.id = o.id where o.part = 5 order by 1",
    "update hidden set credit = credit + 100 where part = 1 and id = 8 returning *",
    "update open set rights = 'ALL' where part = 1 and id in (8, 15, 22, 1000) returning id",
    "update open set name = 'other' where name = 'name 29' returning *",
    "update open set name = 'name 30' where name = 'other'",
    "select * from open where name = 'name 29'",
    "insert into open values (29, 1, 'name 29', 'X')",
    "insert into open values (36, 1, 'fresh', 'X')",
    "insert into open values (9000, 1, 'name 43', 'X')",
    "insert into open values (9000, 1, 'fresh', 'X') returning *",
    "insert into open values (50, 1, 'new', 'X') on conflict (part, id) do update set rights = open.rights || excluded.rights"
    " returning *",
    "insert into open values (9001, 1, 'name 57', 'X') on conflict do nothing",
    "insert into hidden values (4, 46, 3)",
    "insert into hidden values (4, 46, 3)",
    "delete from open where part = 6 and id < 100 returning id",
    "delete from hidden where credit = 7",
    "update open set part = 8 where part = 5 and id = 12 returning *",
    "update open set part = 5, id = 19 where part = 8",
    "select * from open where id = 12 order by part",
    "begin",
    "update hidden set credit = -1 where part = 2 and id = 2",
    "savepoint s",
    "update hidden set credit = -2 where part = 2 and id in (2, 9)",
    "delete from open where part = 2 and id in (2, 9)",
    "select * from hidden where part = 2 and id in (2, 9) order by id",
    "rollback to s",
    "select * from hidden where part = 2 and id in (2, 9) order by id",
    "select * from open where part = 2 and id in (2, 9) order by id",
    "commit",
    "begin",
    "delete from hidden where part = 3",
    "rollback",
    "select count(*), min(credit) from hidden",
    "select id from open where part = 0 and id < 40 order by id for update",
    "alter table open add column more int default 5",
    "select * from open where part = 3 and id = 17",
    "update open set more = more + id where part = 3 and id < 50 returning *",
    "alter table open drop column rights",
    "alter table hidden rename column credit to money",
    "select sum(more), count(*) from open",
    "select * from hidden where part = 3 and id < 30 order by id",
)
LAST = ("select * from open order by part, id", "select * from hidden order by part, id")


class Twins:
    """A server that makes tables eagerly, and gateways that make them lazily, asked one after the other."""

    def __init__(self, start, gateways, source, in_cluster, made, **settings):
        self.eager = start().connect()
        self.gateways = gateways(2)
        self.lazy = [connect(gateway) for gateway in self.gateways]
        self.turn = itertools.cycle(range(2))
        self.eager.execute("set froglet.migration = eager")
        for statement in source:
            self.eager.execute(statement)
        for statement in in_cluster:
            self.lazy[0].execute(statement)
        settings = {"froglet.migration": "lazy", "froglet.migration_delay": "1h"} | settings
        for connection in self.lazy:
            for name, value in settings.items():
                connection.execute(f"set {name} = '{value}'")
        for connection in (self.eager, self.lazy[0]):
            with connection.transaction():
                for statement in made:
                    connection.execute(statement)

    def do(self, sql):
        """What both answer. A transaction stays where it was begun."""
        at = next(self.turn) if self.lazy[0].info.transaction_status == self.lazy[1].info.transaction_status else next(
            n for n in range(2) if self.lazy[n].info.transaction_status != psycopg.pq.TransactionStatus.IDLE)
        return Pair(self.eager, self.lazy[at]).do(sql)

    def migrations(self, at=1):
        found = self.lazy[at].execute(
            "select table_name, phase, kept_with, error from froglet.migrations where kind = 'table' order by id")
        return found.fetchall()


@pytest.mark.parametrize(("fuse", "colocate"), [("on", "on"), ("on", "off"), ("off", "on"), ("off", "off")])
def test_a_table_is_split(start, gateways, fuse, colocate):
    settings = {"froglet.slsm_fuse": fuse, "froglet.slsm_colocate": colocate}
    twins = Twins(start, gateways, USERS, IN_CLUSTER, SPLIT, **settings)
    for statement in STATEMENTS:
        twins.do(statement)
    kept_with = "users" if colocate == "on" else None
    assert twins.migrations() == [("open", "lazy", kept_with, None), ("hidden", "lazy", kept_with, None)]
    for statement in LAST:
        twins.do(statement)
        twins.do(statement)


def test_the_rest_moves_by_itself(start, gateways):
    twins = Twins(start, gateways, USERS, IN_CLUSTER, SPLIT, **{"froglet.migration_delay": "0"})
    for statement in STATEMENTS:
        twins.do(statement)
    wait_until_whole(*twins.lazy)
    for statement in LAST:
        twins.do(statement)
        twins.do(statement)


def wait_until_whole(*connections):
    """No gateway has anything to move."""
    going = "select table_name, phase, error from froglet.migrations where ended is null"
    wait_until(lambda: not any(connection.execute(going).fetchall() for connection in connections), "all is moved", 60)


ORDERS = (
    "create table item (id int primary key, called text, price int)",
    "create table line (o int, n int, item int, amount int, primary key (o, n))",
    "insert into item select i, 'item ' || i, i * 3 from generate_series(1, 40) i",
    "insert into line select i / 5, i % 5, case when i % 11 > 0 then i % 43 end, i from generate_series(0, 499) i",
)
JOIN = (
    "create table bought as select o, n, item, amount, called, price as sum from line join item on item.id = line.item",
    "alter table bought add primary key (o, n)",
    "drop table line, item",
)
OF_THE_JOIN = (
    "select * from bought where o = 7 order by n",
    "select * from bought where o = 8 and n = 4",
    "select called, sum(sum) from bought group by called order by 1",
    "select * from bought where o between 20 and 23 order by o desc, n desc",
    "update bought set amount = amount + 1, sum = -1 where o = 7 returning *",
    "delete from bought where item = 5",
    "insert into bought values (7, 4, 1, 1, 'x', 1), (500, 1, 1, 1, 'x', 1)",
    "insert into bought values (500, 1, 1, 1, 'x', 1)",
    "select b.o, (select max(c.sum) from bought c where c.o = b.o and c.n < b.n) from bought b where b.o in (7, 500) order by 1, 2",
    "select count(*), sum(sum) from bought",
    "select * from bought order by o, n",
)


def test_a_table_is_joined(start, gateways):
    """What is looked up for a row goes with it; rows that find nothing make none."""
    twins = Twins(start, gateways, ORDERS, ORDERS, JOIN)
    for statement in OF_THE_JOIN:
        twins.do(statement)
        twins.do(statement if statement.startswith("select") else OF_THE_JOIN[-1])


LINES = (
    "create table line (w int, o int, n int, item text, amount numeric(12,2), primary key (w, o, n))",
    # Groups of 1 to 5, and one that several parts of a scan have.
    "insert into line select o % 4, o, n, 'item ' || (o * 7 + n) % 30, (o * 3 + n) / 4.0"
    " from generate_series(1, 150) o, generate_series(1, 1 + o % 5) n",
    "insert into line select 2, 1000, n, case when n % 7 > 0 then 'item ' || n % 30 end, n from generate_series(1, 1300) n",
)
TOTALS = (
    "create table total as select w, o, count(*) as lines, sum(amount) as amount, min(item) as first, count(item) as named"
    " from line group by w, o having sum(amount) > 5",
    "alter table total add primary key (w, o)",
    "create index on total (w, amount)",
)
SIBLINGS = (
    "create table of_w as select w, sum(amount) as amount, max(o) as last from line group by w",
    "create table kept as select w, o, n, item from line",
    "alter table kept add primary key (w, o, n)",
)
OF_TOTALS = (
    "select * from total where w = 2 and o = 42",
    "select * from total where w = 2 and o = 1000",
    "select * from total where w = 1 and o in (1, 5, 9, 21, 4000) order by o",
    "select * from total where w = 3 and o between 40 and 80 order by o desc",
    "select o from total order by w desc, o desc limit 5",
    "select count(*), sum(lines), sum(amount), sum(named) from total",
    "select * from total where w = 1 and amount > 100 order by amount, o",
    "update total set amount = amount + 1 where w = 2 and o = 42 returning *",
    "update total set amount = 0 where w = 1 and o in (13, 17, 21) returning o, lines",
    "insert into total values (2, 46, 1, 1, 'x', 1)",
    "insert into total values (0, 8, 1, 1, 'x', 1), (2, 46, 1, 1, 'x', 1)",
    "insert into total values (0, 5000, 1, 1, 'x', 1) returning *",
    "insert into total values (2, 50, 1, 1, 'x', 1) on conflict (w, o) do update set first = total.first || '!' returning *",
    "delete from total where w = 3 and o < 30 returning o",
    "update total set w = 9 where w = 0 and o = 12 returning *",
    "begin",
    "update total set amount = -1 where w = 2 and o = 1000",
    "savepoint s",
    "delete from total where w = 2",
    "select count(*) from total",
    "rollback to s",
    "select count(*), min(amount) from total",
    "commit",
    "select o from total where w = 0 and o < 60 order by o for update",
    "select t.o, (select count(*) from total u where u.w = t.w and u.o < t.o) from total t where t.w = 1 and t.o < 40 order by 1",
    "select count(*), sum(lines), sum(amount), sum(named) from total",
    "select * from total order by w, o",
)
OF_SIBLINGS = (
    "select * from of_w order by w",
    "select * from kept where w = 2 and o = 1000 and n between 509 and 515 order by n",
    "update kept set item = 'other' where w = 1 and o = 5 and n = 1 returning *",
    "delete from kept where w = 3 and o = 31",
    "update of_w set amount = 0 where w = 3 returning *",
    "select count(*), count(item) from kept",
    "select sum(amount), count(*) from of_w",
    "select * from kept order by w, o, n",
)


@pytest.mark.parametrize("fuse", ["on", "off"])
def test_groups_of_rows_move_together(start, gateways, fuse):
    twins = Twins(start, gateways, LINES, LINES, (*TOTALS, "drop table line"), **{"froglet.slsm_fuse": fuse})
    for statement in OF_TOTALS:
        twins.do(statement)
        twins.do(statement if statement.startswith("select") else OF_TOTALS[0])
    assert twins.migrations() == [("total", "lazy", None, None)]


@pytest.mark.parametrize("delay", ["1h", "0"])
def test_groups_and_rows_of_one_table_move_together(start, gateways, delay):
    twins = Twins(start, gateways, LINES, LINES, (*TOTALS, *SIBLINGS, "drop table line"),
                  **{"froglet.migration_delay": delay})
    for statement in (*OF_SIBLINGS, *OF_TOTALS, *OF_SIBLINGS):
        twins.do(statement)
    if delay == "0":
        wait_until_whole(*twins.lazy)
        for statement in (OF_TOTALS[-1], OF_SIBLINGS[0], OF_SIBLINGS[-1]):
            twins.do(statement)
            twins.do(statement)


def lines_and_totals(connection, **settings):
    """Two tables of one: rows, and sums of groups of ten."""
    connection.execute("create table line (o int, n int, item text, primary key (o, n))")
    connection.execute("insert into line select o, n, 'x' from generate_series(1, 60) o, generate_series(1, 10) n")
    for name, value in ({"froglet.migration": "lazy", "froglet.migration_delay": "1h"} | settings).items():
        connection.execute(f"set {name} = '{value}'")
    with connection.transaction():
        connection.execute("create table total as select o, count(*) as n, string_agg(item, ',' order by n) as items"
                           " from line group by o")
        connection.execute("alter table total add primary key (o)")
        connection.execute("create table kept as select o, n, item from line")
        connection.execute("alter table kept add primary key (o, n)")
        connection.execute("drop table line")


def test_who_locks_rows_of_one_group_does_not_wait_for_who_waits_for_him(gateways):
    one, other = gateways(2)
    with connect(one) as a, connect(other) as b:
        lines_and_totals(a)
        a.execute("begin")
        assert a.execute("select item from kept where o = 5 and n = 2 for update").fetchone() == ("x",)
        failed = []

        def second():
            try:
                with b.transaction():
                    b.execute("select item from kept where o = 5 and n = 3 for update")
                    b.execute("update kept set item = 'b' where o = 5 and n = 3")
            except psycopg.Error as error:
                failed.append(error)

        thread = threading.Thread(target=second)
        thread.start()
        time.sleep(0.5)
        a.execute("update kept set item = 'a' where o = 5 and n = 2")
        a.execute("commit")
        thread.join(60)
        assert not failed, failed
        assert b.execute("select string_agg(item, '' order by n) from kept where o = 5").fetchone() == ("xabxxxxxxx",)


def test_a_group_that_is_too_long_keeps_no_other(gateways):
    one, other = gateways(2)
    with connect(one) as a, connect(other) as b:
        a.execute("create table line (o int, n int, item text, primary key (o, n))")
        a.execute("insert into line select o, n, case when o = 7 then repeat('y', 900000) else 'x' end"
                  " from generate_series(1, 20) o, generate_series(1, 5) n")
        a.execute("set froglet.migration = lazy")
        a.execute("set froglet.migration_delay = 0")
        with a.transaction():
            a.execute("create table total as select o, string_agg(item, '') as items from line group by o")
            a.execute("alter table total add primary key (o)")
            a.execute("drop table line")
        refused(b, "update total set items = '' where o = 7", "54000")
        for connection in (a, b):
            assert connection.execute("select count(*), sum(length(items)) from total").fetchone() == (20, 4_500_095)
        moved = "select sum(rows_on_access + rows_scanned)::int from froglet.migrations where table_name = 'total'"
        wait_until(lambda: sum(connection.execute(moved).fetchone()[0] or 0 for connection in (a, b)) >= 95, "the others move")
        b.execute("update total set items = items || '!' where o = 8")
        assert a.execute("select items from total where o = 8").fetchone() == ("xxxxx!",)


def test_a_table_that_rows_have_moved_to_is_grouped_in_its_turn(gateways):
    one, other = gateways(2)
    with connect(one) as a, connect(other) as b:
        lines_and_totals(a)
        b.execute("update kept set item = 'b' where o = 3 and n = 3")
        with a.transaction():
            a.execute("create table again as select o, count(*) as n, min(item) as first from kept group by o")
            a.execute("alter table again add primary key (o)")
            a.execute("drop table kept")
            assert a.execute("select count(*), sum(n) from again").fetchone() == (60, 600)
        assert b.execute("select * from again where o = 3").fetchone() == (3, 10, "b")
        b.execute("update again set n = 0 where o = 4")
        assert a.execute("select count(*), sum(n) from again").fetchone() == (60, 590)
        assert a.execute("select count(*), sum(n) from total").fetchone() == (60, 600)


def test_groups_are_whole_while_they_move_and_gateways_die(gateways):
    pair = gateways(2)
    with connect(pair[0]) as a:
        a.execute("create table line (o int, n int, amount int, primary key (o, n))")
        a.execute("insert into line select o, n, 1 from generate_series(1, 300) o, generate_series(1, 10) n")
        a.execute("set froglet.migration = lazy")
        a.execute("set froglet.migration_delay = '500ms'")
        a.execute("set froglet.migration_rows_per_second = 800")
        with a.transaction():
            a.execute("create table total as select o, sum(amount) as amount from line group by o")
            a.execute("alter table total add primary key (o)")
            a.execute("create table kept as select o, n, amount from line")
            a.execute("alter table kept add primary key (o, n)")
            a.execute("drop table line")
    going, failed = True, []

    def give(gateway, first):
        """From one group to another, and between rows of the same."""
        step, connection = first, None
        while going:
            step = (step + 7) % 300
            try:
                connection = connection or connect(gateway, connect_timeout=5)
                with connection.transaction():
                    connection.execute("update total set amount = amount - 1 where o = %s", (step + 1,))
                    connection.execute("update total set amount = amount + 1 where o = %s", (step * 11 % 300 + 1,))
                    connection.execute("update kept set amount = amount + 1 where o = %s and n = 3", (step + 1,))
                    connection.execute("update kept set amount = amount - 1 where o = %s and n = 4", (step + 1,))
            except psycopg.Error as error:
                failed.append(error.sqlstate)
                if connection is not None and connection.closed:
                    connection = None
                time.sleep(0.05)

    sums = "select (select count(*) from total), (select sum(amount) from total), (select count(*) from kept), (select sum(amount) from kept)"
    threads = [threading.Thread(target=give, args=(pair[n % 2], n * 70)) for n in range(4)]
    for thread in threads:
        thread.start()
    try:
        for victim in (0, 1):
            for at in (1 - victim, victim):
                with connect(pair[at]) as connection:
                    for _ in range(3):
                        assert connection.execute(sums).fetchone() == (300, 3000, 3000, 3000)
            pair[victim].kill()
            with connect(pair[1 - victim]) as connection:
                for _ in range(3):
                    assert connection.execute(sums).fetchone() == (300, 3000, 3000, 3000)
            pair[victim].start()
    finally:
        going = False
        for thread in threads:
            thread.join(60)
    with connect(pair[0]) as a, connect(pair[1]) as b:
        wait_until_whole(a, b)
        for connection in (a, b):
            assert connection.execute(sums).fetchone() == (300, 3000, 3000, 3000)
    assert set(failed) <= {None, "57P03", "57P01", "40P01", "40001", "08006", "08007"}, set(failed)


REFUSED = (
    ("create table made as select * from t", "0A000"),
    ("create table made as select k, count(*) from t group by k; drop table t", "0A000"),
    ("create table made as select count(*), sum(k) from t; drop table t", "0A000"),
    ("create table made as select id % 3 as m, count(*) from t group by id % 3; drop table t", "0A000"),
    ("create table made as select t.id, count(*) from t join o on o.id = t.id group by t.id; drop table t, o", "0A000"),
    ("create table made as select t.id, o.id as other from t join o on o.k = t.k; drop table t, o", "0A000"),
    ("create table made as select t.id, o.k from t join o on o.id = t.k; create table more as select id from o; drop table t, o",
     "0A000"),
)


def test_what_cannot_move_says_so_and_changes_nothing(gateways):
    one, other = gateways(2)
    with connect(one) as a, connect(other) as b:
        a.execute("create table t (id int primary key, k int)")
        a.execute("create table o (id int primary key, k int)")
        a.execute("insert into t select i, i % 5 from generate_series(1, 20) i")
        a.execute("insert into o select * from t")
        a.execute("set froglet.migration = lazy")
        for statements, state in REFUSED:
            with pytest.raises(psycopg.Error) as raised, a.transaction():
                for statement in statements.split("; "):
                    a.execute(statement)
            assert raised.value.sqlstate == state, raised.value
            for connection in (a, b):
                assert connection.execute("select (select sum(id) from t), (select sum(id) from o)").fetchone() == (210, 210)
                refused(connection, "select * from made", "42P01")
        b.execute("update t set k = k + 1")
        a.execute("set froglet.migration = eager")
        a.execute("create table made as select k, count(*) as many from t group by k")
        assert b.execute("select * from made order by k").fetchall() == [(k, 4) for k in range(1, 6)]


def test_explain_says_where_rows_will_be(gateways):
    [one] = gateways(1)
    with connect(one) as a:
        a.execute("create table s (id int, n int, v text, primary key (id, n))")

        def explained(query):
            return [line.strip() for (line,) in a.execute(f"explain create table made as {query}")]

        a.execute("set froglet.migration = lazy")
        tracker = "Tracker: none: a row is in the one table until it is in the other"
        lines = explained("select id, n from s")
        assert tracker in lines and 'Kept with: rows of "s", if its primary key is to begin with theirs' in lines, lines
        lines = explained("select id, count(*) from s group by id")
        assert tracker in lines and not any("Kept with" in line for line in lines), lines
        a.execute("set froglet.slsm_colocate = off")
        assert "Kept with: its own rows (froglet.slsm_colocate is off)" in explained("select id, n from s")
        lines = explained("select n, count(*) from s group by n")
        assert any(line.startswith("Mode: none") or "mode=none" in line for line in lines), lines


def test_whoever_has_written_the_source_before_commits_before_or_not_at_all(gateways):
    one, other = gateways(2)
    with connect(one) as a, connect(other) as b, connect(other) as c:
        a.execute("create table t (id int primary key, n int)")
        a.execute("insert into t select i, 0 from generate_series(1, 50) i")
        b.execute("begin")
        b.execute("update t set n = 1 where id = 1")
        c.execute("begin isolation level repeatable read")
        assert c.execute("select count(*) from t").fetchone() == (50,)
        a.execute("set froglet.migration = lazy")
        with a.transaction():
            a.execute("create table u as select id, n from t")
            a.execute("alter table u add primary key (id)")
            a.execute("drop table t")
        refused(b, "commit", "40001")
        b.execute("rollback")
        # A view from before it sees what it saw.
        assert c.execute("select count(*), sum(n) from t").fetchone() == (50, 0)
        c.execute("rollback")
        refused(b, "select * from t", "42P01")
        b.execute("update u set n = 5 where id = 1")
        assert a.execute("select sum(n) from u").fetchone() == (5,)


class Movers(Clients):
    """Clients at both gateways that give from one table to the other, by the same key."""

    def __init__(self, gateways):
        self.going, self.done, self.states = True, 0, []
        self.threads = [threading.Thread(target=self.run, args=(gateways[n % 2], n)) for n in range(4)]

    def run(self, gateway, n):
        step, connection = n * 1000, None
        while self.going:
            step += 17
            try:
                connection = connection or connect(gateway, connect_timeout=5)
                with connection.transaction():
                    if n == 3:
                        connection.execute("set transaction isolation level repeatable read")
                    id = step % 400
                    found = connection.execute("select had from given where id = %s", (id,)).fetchall()
                    assert len(found) == 1, (id, found)
                    connection.execute("update given set had = had - 1 where id = %s", (id,))
                    connection.execute("update taken set has = has + 1 where id = %s", (id * 7 % 400,))
                self.done += 1
            except psycopg.Error as error:
                self.states.append(error.sqlstate)
                if connection is not None and connection.closed:
                    connection = None
                time.sleep(0.05)


def test_nothing_is_lost_while_rows_move_and_gateways_and_stores_die(cluster, gateways):
    pair = gateways(2)
    with connect(pair[0]) as a:
        a.execute("create table both_of (id int primary key, had int, has int, name text)")
        a.execute("insert into both_of select i, 10, 0, repeat('x', 50) from generate_series(0, 399) i")
        a.execute("set froglet.migration = lazy")
        a.execute("set froglet.migration_delay = '1s'")
        a.execute("set froglet.migration_rows_per_second = 60")
        with a.transaction():
            a.execute("create table given as select id, had, name from both_of")
            a.execute("alter table given add primary key (id)")
            a.execute("create table taken as select id, has from both_of")
            a.execute("alter table taken add primary key (id)")
            a.execute("drop table both_of")
    sums = "select (select sum(had) from given) + (select sum(has) from taken), (select count(*) from given), (select count(*) from taken)"
    with Movers(pair) as movers:
        # The second store after the first has caught up: a part of what it says is what that one has then applied.
        for victim in [lambda: pair[0].kill(), lambda: cluster.kill_store(1), lambda: pair[1].kill(), lambda: cluster.kill_store(2)]:
            before = movers.done
            wait_until(lambda: movers.done > before + 20, "clients go on", 60)
            victim()
            with connect(next(gateway for gateway in pair if gateway.alive())) as connection:
                for _ in range(5):
                    assert connection.execute(sums).fetchone() == (4000, 400, 400)
            for gateway in pair:
                if not gateway.alive():
                    gateway.start()
            cluster.start_process("store1")
    cluster.start_process("store2")
    cluster.wait_until_whole()
    with connect(pair[0]) as a, connect(pair[1]) as b:
        assert a.execute(sums).fetchone() == (4000, 400, 400)
        wait_until_whole(a, b)
        # Whichever store is asked.
        for n in cluster.stores:
            for region in cluster.regions():
                cluster.transfer_leader(region.id, n)
            assert b.execute(sums).fetchone() == (4000, 400, 400), n
    # 08007: nobody knows whether it was committed.
    assert set(movers.states) <= {None, "57P03", "57P01", "40P01", "40001", "08006", "08007"}, set(movers.states)


def split(connection, **settings):
    """Two tables of one of 200 rows."""
    connection.execute("create table s (id int primary key, v float8, u int unique)")
    connection.execute("insert into s select i, 'NaN', nullif(i % 100, 0) + i / 100 * 100 from generate_series(1, 200) i")
    for name, value in ({"froglet.migration": "lazy", "froglet.migration_delay": "1h"} | settings).items():
        connection.execute(f"set {name} = '{value}'")
    with connection.transaction():
        connection.execute("create table n as select id, v from s")
        connection.execute("alter table n add primary key (id)")
        connection.execute("create table m as select id, u from s")
        connection.execute("alter table m add primary key (id)")
        connection.execute("drop table s")


def test_a_view_from_before_the_end_finds_all(gateways):
    """Whichever of them moves the rows, and however it looks."""
    one, other = gateways(2)
    with connect(one) as a, connect(one) as b, connect(other) as c, connect(other) as d:
        split(a, **{"froglet.migration_delay": "1s"})
        for connection in (a, c):
            connection.execute("begin isolation level repeatable read")
            connection.execute("select 1 from n where id = 1")
        wait_until_whole(b, d)
        for connection in (a, c):
            assert connection.execute("select count(*) from n").fetchone() == (200,)
            assert connection.execute("select count(*) from n where id > 0").fetchone() == (200,)
        assert a.execute("update n set v = -1").rowcount == 200
        a.execute("commit")


def test_a_row_that_only_moved_is_what_it_was(gateways):
    """REPEATABLE READ: to move is no change, of NaN neither."""
    one, other = gateways(2)
    with connect(one) as a, connect(other) as b:
        split(a)
        b.execute("begin isolation level repeatable read")
        assert b.execute("select count(*) from n").fetchone() == (200,)
        a.execute("insert into n values (3, 1), (4, 1) on conflict do nothing")
        assert b.execute("select id from n where id = 4 for update").fetchall() == [(4,)]
        assert b.execute("update n set id = 300 where id = 3").rowcount == 1
        a.execute("update n set v = 0 where id = 5")
        refused(b, "update n set v = 1 where id = 5", "40001")
        b.execute("rollback")


def test_what_is_dropped_or_emptied_leaves_the_others_rows(gateways):
    """Their keys are among each other's."""
    one, other = gateways(2)
    with connect(one) as a, connect(other) as b:
        split(a, **{"froglet.migration_delay": "0"})
        b.execute("update m set u = 0 where id <= 50 and u is null")
        wait_until_whole(a, b)
        b.execute("truncate n")
        for connection in (a, b):
            assert connection.execute("select count(*) from n").fetchone() == (0,)
            assert connection.execute("select count(*) from m").fetchone() == (200,)
        a.execute("insert into n select id, 1 from m where id <= 20")
        a.execute("drop table m")
        refused(b, "select * from m", "42P01")
        time.sleep(2)
        for connection in (a, b):
            assert connection.execute("select count(*), sum(id) from n").fetchone() == (20, 210)
        b.execute("create table m as select * from n")
        b.execute("drop table n")
        assert a.execute("select count(*) from m").fetchone() == (20,)


def test_nulls_that_are_equal_are_not_said_to_differ(gateways):
    (one,) = gateways(1)
    with connect(one) as a:
        a.execute("create table s (id int primary key, u int unique)")
        a.execute("insert into s values (1, null), (2, null), (3, 3)")
        a.execute("set froglet.migration = lazy")
        with pytest.raises(psycopg.Error) as raised, a.transaction():
            a.execute("create table n as select id, u from s")
            a.execute("alter table n add unique nulls not distinct (u)")
        assert raised.value.sqlstate == "0A000"


@pytest.mark.parametrize("pause", [0.04, 0.12])
def test_a_gateway_dies_in_the_midst_of_the_commit(gateways, pause):
    """There is the one table or the other, with all rows and what was told of them, and the gateway starts again at once."""
    one, other = gateways(2)
    with connect(one) as a, connect(other) as b:
        b.execute("create table s (id int primary key, v int)")
        b.execute("insert into s select i, 0 from generate_series(1, 300) i")
        a.execute("set froglet.migration = lazy")
        a.execute("begin")
        a.execute("create table n as select id, v from s")
        a.execute("alter table n add primary key (id)")
        a.execute("drop table s")
        told, going = [], [True]

        def write():
            for n in itertools.count(1):
                if not going[0]:
                    return
                try:
                    with connect(other) as connection:
                        connection.execute("update s set v = v + 1 where id = %s", (n % 300 + 1,))
                        told.append(n)
                except psycopg.Error:
                    time.sleep(0.02)

        def commit():
            try:
                a.execute("commit")
            except psycopg.Error:
                pass

        threads = [threading.Thread(target=work) for work in (write, commit)]
        for thread in threads:
            thread.start()
        time.sleep(pause)
        one.kill()
        threads[1].join(30)
        time.sleep(0.5)
        going[0] = False
        threads[0].join(30)
    one.start()
    with connect(one) as a, connect(other) as b:
        for connection in (a, b):
            (name,) = connection.execute("select relname from pg_class where relname in ('s', 'n') order by 1").fetchone()
            count, total = connection.execute(f"select count(*), sum(v) from {name}").fetchone()
            # The last was maybe done and not told.
            assert count == 300 and len(told) <= total <= len(told) + 1, (name, count, total, len(told))
