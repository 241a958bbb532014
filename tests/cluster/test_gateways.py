"""Two gateways over one database: what one writes the other sees, whatever dies meanwhile."""

import re
import threading
import time

import psycopg
import pytest

from support.clients import Clients
from support.processes import wait_until

ACCOUNTS, EACH = 20, 100


def connect(gateway, **options):
    return psycopg.connect(host="127.0.0.1", port=gateway.port, user="postgres", dbname="postgres", autocommit=True,
                           **options)


def refused(connection, statement, state):
    with pytest.raises(psycopg.Error) as raised:
        connection.execute(statement)
    assert raised.value.sqlstate == state, raised.value


@pytest.fixture
def two(gateways):
    one, other = gateways(2)
    with connect(one) as a, connect(other) as b:
        yield a, b


def test_what_one_makes_the_other_has_at_once(two):
    a, b = two
    for n in range(5):
        a.execute(f"create table t{n} (id int primary key, name text unique)")
        b.execute(f"insert into t{n} select g, 'name ' || g from generate_series(1, 1500) g")
        assert a.execute(f"select count(*), max(id) from t{n}").fetchone() == (1500, 1500)
        b.execute(f"alter table t{n} add column more int not null default 7")
        assert a.execute(f"select * from t{n} where name = 'name 3'").fetchone() == (3, "name 3", 7)
        a.execute(f"alter table t{n} rename column name to called")
        assert b.execute(f"select called from t{n} where id = 2").fetchone() == ("name 2",)
        a.execute(f"alter table t{n} drop column more")
        assert b.execute(f"select * from t{n} where id = 2").fetchone() == (2, "name 2")
        b.execute(f"drop table t{n}")
        refused(a, f"select * from t{n}", "42P01")


def test_keys_are_unique_for_both(two):
    a, b = two
    a.execute("create table t (id int primary key, name text unique, pair int, unique (pair, name))")
    a.execute("insert into t values (1, 'one', 1), (2, null, null), (3, null, null)")
    refused(b, "insert into t values (1, 'two', 2)", "23505")
    refused(b, "insert into t values (4, 'one', 2)", "23505")
    refused(b, "update t set id = 2 where id = 1", "23505")
    b.execute("update t set id = 10, name = 'ten' where id = 1")
    a.execute("insert into t values (1, 'one', 1)")
    assert b.execute("select id, name from t order by id desc").fetchall() == [
        (10, "ten"), (3, None), (2, None), (1, "one")]
    b.execute("insert into t values (10, 'x', 1) on conflict (id) do update set pair = t.pair + 5")
    assert a.execute("select pair from t where name = 'ten'").fetchone() == (6,)
    a.execute("delete from t where id = 10")
    b.execute("insert into t values (10, 'ten', 1)")


def test_a_savepoint_undoes_rows_and_their_entries(two):
    a, b = two
    a.execute("create table t (id int primary key, name text unique)")
    with a.transaction():
        a.execute("insert into t values (1, 'one')")
        a.execute("savepoint s")
        a.execute("update t set id = 2, name = 'two'")
        assert a.execute("select id from t where name = 'two'").fetchall() == [(2,)]
        a.execute("rollback to s")
        assert a.execute("select * from t where id > 0").fetchall() == [(1, "one")]
        assert a.execute("select * from t where name = 'two'").fetchall() == []
        assert b.execute("select * from t").fetchall() == []
    assert b.execute("select * from t").fetchall() == [(1, "one")]


def test_a_lost_update_is_none(two):
    """READ COMMITTED looks again behind the other; REPEATABLE READ fails."""
    a, b = two
    a.execute("create table t (id int primary key, n int)")
    a.execute("insert into t values (1, 0)")
    a.execute("begin")
    a.execute("update t set n = n + 1 where id = 1")
    waiting = threading.Thread(target=b.execute, args=("update t set n = n + 10 where id = 1",))
    waiting.start()
    time.sleep(0.3)
    assert waiting.is_alive(), "it waits for the row"
    a.execute("commit")
    waiting.join(20)
    assert a.execute("select n from t").fetchone() == (11,)
    b.execute("begin isolation level repeatable read")
    assert b.execute("select n from t").fetchone() == (11,)
    a.execute("update t set n = n + 100")
    assert b.execute("select n from t").fetchone() == (11,)
    refused(b, "update t set n = n + 1000", "40001")
    b.execute("rollback")
    assert b.execute("select n from t").fetchone() == (111,)


def test_a_deadlock_across_gateways_is_found(two):
    a, b = two
    a.execute("create table t (id int primary key, n int)")
    a.execute("insert into t values (1, 0), (2, 0)")
    failed = []

    def second(connection, id):
        try:
            connection.execute(f"update t set n = n + 1 where id = {id}")
        except psycopg.Error as error:
            failed.append(error.sqlstate)
            connection.execute("rollback")

    for connection, id in [(a, 1), (b, 2)]:
        connection.execute("begin")
        connection.execute(f"update t set n = n + 1 where id = {id}")
    threads = [threading.Thread(target=second, args=at) for at in [(a, 2), (b, 1)]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(40)
        assert not thread.is_alive()
    assert failed == ["40P01"]


def test_lock_timeout_and_nowait_hold_for_rows_of_another_gateway(two):
    a, b = two
    a.execute("create table t (id int primary key, n int)")
    a.execute("insert into t values (1, 0)")
    a.execute("begin")
    a.execute("select * from t where id = 1 for update")
    b.execute("set lock_timeout = '300ms'")
    refused(b, "update t set n = 1 where id = 1", "55P03")
    refused(b, "select * from t where id = 1 for update nowait", "55P03")
    assert b.execute("select * from t where id = 1 for update skip locked").fetchall() == []
    # What a wait that was given up has asked for is asked for again.
    b.execute("begin")
    b.execute("savepoint s")
    refused(b, "update t set n = 2 where id = 1", "55P03")
    b.execute("rollback to s")
    a.execute("rollback")
    assert b.execute("update t set n = n + 3 where id = 1 returning n").fetchall() == [(3,)]
    b.execute("commit")
    assert a.execute("select n from t").fetchall() == [(3,)]


def test_a_sequence_gives_nothing_twice(two):
    a, b = two
    a.execute("create table t (id serial primary key, n int)")
    given = []
    for n in range(60):
        for connection in two:
            given += connection.execute("insert into t (n) values (%s) returning id", (n,)).fetchone()
    assert len(set(given)) == 120
    b.execute("select setval('t_id_seq', 5000)")
    assert b.execute("select nextval('t_id_seq')").fetchone()[0] > 5000


UNSUPPORTED = [
    "create index on t ((n + 1))",
    "alter table t alter column n type int using floor(random() * 9)::int",
    "alter table t add column drawn uuid default gen_random_uuid()",
    "alter table t drop constraint t_pkey",
    "create table child (id int references t deferrable)",
    "begin; lock table t",
    "begin; lock table t in row share mode",
    "create table late (id int primary key deferrable)",
    "create table here (id int) using memory",
    "alter table t set access method disk",
    "begin isolation level serializable",
    "select pg_advisory_lock(1)",
    "listen channel",
    "notify channel",
    "select * from t for share",
]


def test_what_is_not_supported_says_so_and_changes_nothing(two):
    a, b = two
    a.execute("create table t (id int primary key, n int)")
    a.execute("insert into t values (1, 1)")
    for statement in UNSUPPORTED:
        refused(a, statement, "0A000")
        a.execute("rollback")
    assert b.execute("select * from t").fetchall() == [(1, 1)]
    assert b.execute("select count(*) from pg_class where relname in ('child', 'made', 'late', 'here')").fetchone() == (0,)


def test_who_makes_a_table_indexes_it_and_checks_it(two):
    a, b = two
    with a.transaction():
        a.execute("create table t (id int, name text, n int)")
        a.execute("create index t_n_idx on t (n)")
        a.execute("savepoint s")
        a.execute("alter table t add primary key (name)")
        a.execute("rollback to s")
        a.execute("alter table t add primary key (id)")
        a.execute("alter table t add constraint named unique (name)")
        a.execute("alter table t add check (n > 0)")
        a.execute("alter table t alter column n set not null")
        a.execute("alter table t alter column n type bigint")
        a.execute("alter table t add column twice bigint generated always as (n * 2) stored")
        a.execute("insert into t values (1, 'one', 10), (2, 'two', 20)")
    with pytest.raises(psycopg.Error, match="t_pkey"):
        b.execute("insert into t values (1, 'one', 1)")
    for statement, state in {"insert into t values (1, 'x', 1)": "23505", "insert into t values (3, 'two', 1)": "23505",
                             "insert into t values (3, 'x', 0)": "23514", "insert into t values (3, 'x', null)": "23502"}.items():
        refused(b, statement, state)
    assert b.execute("select id, name, twice from t where n = 20").fetchall() == [(2, "two", 40)]
    with b.transaction():
        b.execute("truncate t")
        b.execute("create unique index t_two_idx on t (n, name)")
        b.execute("insert into t values (1, 'one', 10)")
    assert "t_two_idx" in str(a.execute("select indexdef from pg_indexes where tablename = 't'").fetchall())
    assert a.execute("select id from t where n = 10 and name = 'one'").fetchall() == [(1,)]
    # Rows that are there would have to be read.
    # Rows of its own are in it.
    with a.transaction():
        a.execute("create table late (id int)")
        a.execute("insert into late values (1), (2)")
        a.execute("create unique index on late (id)")
        refused_within(a, "insert into late values (2)", "23505")
    refused(b, "insert into late values (1)", "23505")


def refused_within(connection, statement, state):
    connection.execute("savepoint tried")
    refused(connection, statement, state)
    connection.execute("rollback to tried")


def store_line(connection, query):
    lines = [row[0] for row in connection.execute(f"explain analyze {query}")]
    found = re.search(r"Store: requests=(\d+) round trips=(\d+) regions=(\d+)", "\n".join(lines))
    return tuple(map(int, found.groups())) if found else None


def test_a_large_table_is_looked_up_by_a_join_and_a_small_one_is_read(two):
    a, b = two
    a.execute("create table small (id int primary key, of int)")
    a.execute("create table large (id int primary key, name text, of int)")
    a.execute("create index on large (of)")
    a.execute("insert into small select g, g * 37 from generate_series(1, 150) g")
    a.execute("insert into large select g, 'name ' || g, g / 3 from generate_series(1, 20000) g")
    counted = "select relname, reltuples::int from pg_class where relname in ('small', 'large') order by 1"
    wait_until(lambda: (found := dict(b.execute(counted).fetchall()))["small"] == 150 and found["large"] >= 8_192,
               "rows are counted", 30)
    join = "select count(*), max(name) from small join large on large.id = small.of"
    assert b.execute(join).fetchone() == (150, "name 999")
    plan = "\n".join(row[0] for row in b.execute(f"explain analyze {join}"))
    assert "IndexJoinExec" in plan and int(plan.partition("requests=")[2].split()[0]) <= 6, plan
    # Each key is a request there, several of which are waited for at a time.
    by_other = "select count(*), sum(large.id) from small join large on large.of = small.of"
    rows = [g for g in range(1, 20_001) if g // 3 % 37 == 0 and 1 <= g // 3 // 37 <= 150]
    assert b.execute(by_other).fetchone() == (len(rows), sum(rows))
    assert "IndexJoinExec" in "\n".join(row[0] for row in b.execute(f"explain {by_other}"))
    a.execute("delete from large where id > 10")
    a.execute("truncate small")
    wait_until(lambda: dict(a.execute(counted).fetchall())["small"] == 0, "rows are counted anew", 90)


def test_where_tables_are_and_what_statements_ask(cluster, gateways, two):
    a, b = two
    a.execute("create table t (id int primary key, n int)")
    a.execute("create table other (id int)")
    a.execute("insert into t select i, i from generate_series(1, 300) i")
    [(start, end)] = a.execute("select distinct table_start, table_end from froglet.regions where table_name = 't'").fetchall()
    start, end = bytes.fromhex(start[2:]), bytes.fromhex(end[2:])
    cluster.split(start + b"d\x01" + (0x80000000 + 150).to_bytes(4, "big"))
    stores = set(cluster.store_ids().values())
    regions = b.execute("select region_start, region_end, leader, peers from froglet.regions where table_name = 't' "
                        "order by region_start").fetchall()
    assert len(regions) == 2 and regions[0][1] == regions[1][0]
    assert bytes.fromhex(regions[0][0][2:]) <= start and bytes.fromhex(regions[1][1][2:]) >= end
    assert all(leader in stores and set(peers) == stores for _, _, leader, peers in regions)
    # As the placement driver was told: a region is a mebibyte at least.
    sizes = "select min(approximate_bytes), min(approximate_keys) from froglet.regions where table_name = 't'"
    wait_until(lambda: (b.execute(sizes).fetchone()[0] or 0) >= 1 << 20, "sizes of regions are known", 60)
    # Once it knows the regions, and who leads them.
    for query, asked in {"id = 7": (1, 1, 1), "id in (7, 8, 9, 200, 201)": (2, 1, 2)}.items():
        wait_until(lambda: store_line(b, f"select * from t where {query}") == asked, query)
    assert b.execute("select id from t where id in (201, 9, 7, 8, 200, 999) order by id desc limit 3").fetchall() == [
        (201,), (200,), (9,)]
    assert store_line(b, "select * from t")[2] == 2
    assert store_line(b, "select 1") is None
    count = "select requests, round_trips from froglet.engines where engine = 'cluster'"
    before = b.execute(count).fetchone()
    b.execute("select * from t where id = 8")
    after = b.execute(count).fetchone()
    assert after[0] > before[0] and after[1] > before[1]


def test_rows_are_found_once_when_a_region_begins_among_them(cluster, gateways, two):
    """A store may know of rows behind its region, as they were once."""
    a, b = two
    a.execute("create table t (id int primary key, n int)")
    a.execute("insert into t select i, i from generate_series(1, 300) i")
    space = a.execute("select 't'::regclass::oid::int").fetchone()[0] | 1 << 30
    rows = b"tF" + gateways.number.to_bytes(4, "big") + space.to_bytes(4, "big") + b"d\x01"
    for at in [150, 2, 1]:
        cluster.split(rows + (0x80000000 + at).to_bytes(4, "big"))
        for connection in two:
            found = connection.execute("select count(*), count(distinct id), sum(n) from t").fetchone()
            assert found == (300, 300, 45150)


class Transfers(Clients):
    """Moves money at some gateways, and remembers what it was told."""

    def __init__(self, gateways):
        self.going, self.gateways, self.done, self.states = True, gateways, 0, set()
        self.threads = [threading.Thread(target=self.run, args=(gateway, n))
                        for gateway in gateways for n in range(2)]

    def run(self, gateway, n):
        step, connection = n, None
        while self.going:
            step += 7
            try:
                connection = connection or connect(gateway, connect_timeout=5)
                with connection.transaction():
                    connection.execute("update bank set money = money - 1 where id = %s", (step % ACCOUNTS,))
                    connection.execute("update bank set money = money + 1 where id = %s", (step * 3 % ACCOUNTS,))
                self.done += 1
            except psycopg.Error as error:
                self.states.add(error.sqlstate)
                if connection is not None and connection.closed:
                    connection = None
                time.sleep(0.05)


def total(connection):
    return connection.execute("select count(*), sum(money) from bank").fetchone()


@pytest.fixture
def bank(gateways):
    one, other = gateways(2)
    with connect(one) as connection:
        connection.execute("create table bank (id int primary key, money int)")
        connection.execute(f"insert into bank select g, {EACH} from generate_series(0, {ACCOUNTS - 1}) g")
    return one, other


def go_on(transfers, count=10):
    before = transfers.done
    wait_until(lambda: transfers.done >= before + count, "transfers go on", 60)


def test_money_stays_while_a_gateway_is_killed(bank):
    one, other = bank
    with Transfers(bank) as transfers, connect(other) as connection:
        go_on(transfers)
        one.kill()
        for _ in range(20):
            assert total(connection) == (ACCOUNTS, ACCOUNTS * EACH)
        # What the dead one has locked is given back.
        go_on(transfers, 30)
        one.start()
        go_on(transfers)
        assert total(connection) == (ACCOUNTS, ACCOUNTS * EACH)
    assert transfers.states <= {None, "57P03", "57P01", "40P01", "40001"}, transfers.states


def test_money_stays_while_a_store_is_killed(cluster, bank):
    with Transfers(bank) as transfers, connect(bank[0]) as connection:
        go_on(transfers)
        cluster.kill_store(2)
        go_on(transfers, 30)
        assert total(connection) == (ACCOUNTS, ACCOUNTS * EACH)
        cluster.start_process("store2")
        go_on(transfers)
        assert total(connection) == (ACCOUNTS, ACCOUNTS * EACH)


def test_a_paused_gateway_does_not_hold_up_a_schema_change(bank):
    one, other = bank
    with connect(other) as connection, connect(one) as slept:
        slept.execute("begin")
        slept.execute("update bank set money = money - 1 where id = 1")
        one.pause()
        connection.execute("alter table bank add column note text default 'none'")
        # The row is given back, and the change that was not committed is not there.
        connection.execute("update bank set money = money + 1 where id = 1")
        one.resume()
        with pytest.raises(psycopg.Error):
            slept.execute("update bank set money = money + 1 where id = 2")
            slept.execute("commit")
        slept.execute("rollback")
        wait_until(lambda: slept.execute("select note from bank where id = 1").fetchone() == ("none",), "it goes on")
        assert total(connection) == (ACCOUNTS, ACCOUNTS * EACH + 1)


def test_schema_changes_beside_writers_at_both(bank):
    with Transfers(bank) as transfers, connect(bank[0]) as a, connect(bank[1]) as b:
        go_on(transfers)
        for n in range(4):
            a.execute(f"alter table bank add column c{n} int default {n}")
            assert b.execute(f"select sum(c{n}) from bank").fetchone() == (n * ACCOUNTS,)
            b.execute(f"alter table bank drop column c{n}")
        assert total(a) == total(b) == (ACCOUNTS, ACCOUNTS * EACH)
    assert transfers.states <= {"40P01"}, transfers.states


def test_a_gateway_dies_in_the_midst_of_schema_changes(gateways):
    """The other has each change or does not, and goes on."""
    one, other = gateways(2)
    for pause in [0.05, 0.2, 0.35, 0.5]:
        told = []

        def change():
            try:
                with connect(one) as connection:
                    for n in range(100):
                        connection.execute(f"create table made_{n} (id int primary key, name text unique)")
                        connection.execute(f"insert into made_{n} values (1, 'one'), (2, 'two')")
                        told.append(n)
            except psycopg.Error:
                pass

        changing = threading.Thread(target=change)
        changing.start()
        time.sleep(pause)
        one.kill()
        changing.join(60)
        with connect(other) as connection:
            for n in told:
                assert connection.execute(f"select name from made_{n} order by id").fetchall() == [("one",), ("two",)]
            drop_made(connection)
            connection.execute("create table after (id int primary key)")
            connection.execute("drop table after")
        one.start()
        # A change that was committed as its gateway died was told to nobody, and may be seen a moment later.
        with connect(one) as a, connect(other) as b:
            wait_until(lambda: made(a) == made(b), "both have the same tables")
            drop_made(a)
            assert made(a) == made(b) == []


def made(connection):
    found = connection.execute("select relname from pg_class where relname ~ '^made_[0-9]+$' order by 1")
    return [name for (name,) in found]


def drop_made(connection):
    for name in made(connection):
        assert connection.execute(f"select count(*) from {name}").fetchone()[0] in (0, 2)
        connection.execute(f"drop table {name}")


def test_a_change_that_is_read_before_it_is_published(gateways):
    """Who reads the catalog again may find a change of this gateway that is committed, and not published here yet."""
    one, other = gateways(2)
    one.stop()
    one.environment = {"FROGLET_PAUSE_AT": "flip: logged, not flushed:400"}
    one.start()
    with connect(one) as a, connect(other) as b:
        for n in range(3):
            a.execute(f"create table made_{n} (id int primary key)")
            b.execute(f"create table others_{n} (id int primary key)")
            a.execute(f"alter table others_{n} add column more int default {n}")
        for connection in (a, b):
            assert connection.execute("select count(*) from pg_class where relname ~ '^(made|others)_[0-9]$'").fetchone() == (6,)
            assert connection.execute("select * from others_2").description[1].name == "more"


def test_rows_that_others_hold_do_not_cost_a_request_for_each_of_the_rest(gateways):
    one, other = gateways(2)
    with connect(one) as a, connect(other) as b, connect(other) as watching:
        a.execute("create table t (id int primary key, n int)")
        a.execute("insert into t select g, 0 from generate_series(1, 500) g")
        requests = "select requests from froglet.engines where engine = 'cluster'"
        a.execute("begin")
        a.execute("update t set n = 1 where id in (50, 250, 251)")
        assert len(b.execute("select id from t for update skip locked").fetchall()) == 497
        [before] = watching.execute(requests).fetchone()
        writer = threading.Thread(target=lambda: b.execute("update t set n = n + 10"))
        writer.start()
        time.sleep(0.5)
        a.execute("commit")
        writer.join()
        [after] = watching.execute(requests).fetchone()
        assert after - before < 200, after - before
        assert b.execute("select sum(n) from t").fetchone() == (5003,)
