"""Killed at every named point of the eager driver, under TPC-C.

The server dies by itself at the point (`crates/froglet-engine/src/crash_point.rs`), while clients run
TPC-C's mix and one of them changes the schema, again and again until the point is reached. After the
restart

- the change is there wholly, or not at all; it is there if it was acknowledged;
- every row of every table is what clients were told (`support/tpcc.py`), also where it stands in a table
  that the change has made of others: so these equal the offline result, row by row;
- what the change computed equals what its query computes now from the rows that are there;
- the twelve consistency conditions hold, and indexes and tables agree;
- everything goes on: the clients, and the change to its end.

FROGLET_TEST_CRASH_POINT_ROUNDS sets how often every point is visited (1), each time under another change
or a later time.
"""

import copy
import os
import shutil
import subprocess
import time
from dataclasses import dataclass, replace

import psycopg
import pytest
from psycopg import errors

from support import tpcc
from support.servers import Froglet
from support.tpcc import COLUMNS

ROUNDS = int(os.environ.get("FROGLET_TEST_CRASH_POINT_ROUNDS", "1"))
REACHED_SECONDS = 60


@dataclass(frozen=True)
class Change:
    """A schema change, and how it is taken back; each is one transaction."""

    do: tuple
    undo: tuple
    # Whether it is there.
    is_there: str
    # Counts what it has computed that is not what its query computes now.
    wrong: str = "select 0"
    # The orders of which it has made rows, where it has made rows of orders.
    made: str | None = None
    # What stands for tables that it takes away.
    tables: tuple = ()


def has_column(table, column):
    return ("select count(*) > 0 from information_schema.columns"
            f" where table_name = '{table}' and column_name = '{column}'")


def has_relation(name):
    return f"select count(*) > 0 from pg_class where relname = '{name}'"


def swap(table, query):
    """Makes a table anew and gives it the name of the old one, which is dropped."""
    key = ", ".join(tpcc.KEYS[table])
    return (f"create table {table}_new as {query}", f"alter table {table}_new add primary key ({key})",
            f"drop table {table}", f"alter table {table}_new rename to {table}")


def listed(columns):
    return ", ".join(columns)


LINE_KEY = tpcc.KEYS["order_line"]
PAYMENT = ["h_data", "h_c_w_id", "h_c_d_id", "h_c_id", "h_amount"]
PAYMENT_PLACE = ["h_data", "h_w_id", "h_d_id"]
SPLIT = tpcc.WHOLE | {"history": {"payment": PAYMENT, "payment_place": PAYMENT_PLACE}}
LAYOUTS = [tpcc.WHOLE, SPLIT]
LINES_WITH_TAX = "select distinct ol_w_id, ol_d_id, ol_o_id from order_line where ol_tax is not null"

CHANGES = {
    "column": Change(
        do=("alter table order_line alter column ol_quantity type numeric(8,2) using ol_quantity",),
        undo=("alter table order_line alter column ol_quantity type integer using ol_quantity",),
        is_there="select data_type = 'numeric' from information_schema.columns"
                 " where table_name = 'order_line' and column_name = 'ol_quantity'"),
    "computed": Change(
        do=("alter table order_line add column ol_tax numeric(14,3)"
            " generated always as (ol_amount * 0.1) stored,"
            " add constraint ol_number_check check (ol_number between 1 and 15)",),
        undo=("alter table order_line drop constraint ol_number_check, drop column ol_tax",),
        is_there=has_column("order_line", "ol_tax"),
        wrong="select count(*) from order_line where ol_tax is distinct from ol_amount * 0.1",
        made=LINES_WITH_TAX),
    "index": Change(
        do=("create index order_line_item on order_line (ol_i_id, ol_supply_w_id)",),
        undo=("drop index order_line_item",),
        is_there=has_relation("order_line_item")),
    "unique": Change(
        do=("alter table history add constraint history_once unique (h_w_id, h_d_id, h_data)",),
        undo=("alter table history drop constraint history_once",),
        is_there=has_relation("history_once")),
    "foreign key": Change(
        do=("alter table order_line add constraint order_line_order foreign key"
            " (ol_w_id, ol_d_id, ol_o_id) references orders",),
        undo=("alter table order_line drop constraint order_line_order",),
        is_there="select count(*) > 0 from pg_constraint where conname = 'order_line_order'"),
    "copy": Change(
        do=swap("order_line", f"select {listed(COLUMNS['order_line'])}, ol_amount * 0.1 as ol_tax from order_line"),
        undo=("alter table order_line drop column ol_tax",),
        is_there=has_column("order_line", "ol_tax"),
        wrong="select count(*) from order_line where ol_tax <> ol_amount * 0.1", made=LINES_WITH_TAX),
    "split": Change(
        do=(f"create table payment as select {listed(PAYMENT)} from history",
            "alter table payment add primary key (h_data)",
            f"create table payment_place as select {listed(PAYMENT_PLACE)} from history",
            "alter table payment_place add primary key (h_data)",
            "drop table history"),
        undo=(f"create table history as select {listed(COLUMNS['history'])}"
              " from payment join payment_place using (h_data)",
              "alter table history add primary key (h_data)", "drop table payment, payment_place"),
        is_there=has_relation("payment"),
        wrong="select count(*) from payment full join payment_place b using (h_data)"
              " where h_amount is null or h_w_id is null",
        tables=(("history", "(select * from payment join payment_place using (h_data)) h"),)),
    "join": Change(
        do=swap("orders", f"select {listed(COLUMNS['orders'])}, c_last as o_c_last from orders join customer"
                          " on c_w_id = o_w_id and c_d_id = o_d_id and c_id = o_c_id"),
        undo=("alter table orders drop column o_c_last",),
        is_there=has_column("orders", "o_c_last"),
        wrong="select count(*) from orders join customer on c_w_id = o_w_id and c_d_id = o_d_id"
              " and c_id = o_c_id where o_c_last <> c_last",
        made="select o_w_id, o_d_id, o_id from orders where o_c_last is not null"),
    "group": Change(
        do=swap("order_line", f"select {listed(LINE_KEY)}, max(ol_i_id) as ol_i_id,"
                              " max(ol_supply_w_id) as ol_supply_w_id, max(ol_delivery_d) as ol_delivery_d,"
                              " max(ol_quantity) as ol_quantity, sum(ol_amount) as ol_amount, count(*) as ol_rows"
                              f" from order_line group by {listed(LINE_KEY)}"),
        undo=("alter table order_line drop column ol_rows",),
        is_there=has_column("order_line", "ol_rows"),
        wrong="select count(*) from order_line where ol_rows <> 1",
        made="select distinct ol_w_id, ol_d_id, ol_o_id from order_line where ol_rows is not null"),
    "total": Change(
        do=("create table order_total as select ol_w_id, ol_d_id, ol_o_id, sum(ol_amount) as ol_total"
            " from order_line group by ol_w_id, ol_d_id, ol_o_id",
            "alter table order_total add primary key (ol_w_id, ol_d_id, ol_o_id)"),
        undo=("drop table order_total",),
        is_there=has_relation("order_total"),
        wrong="select count(*) from order_total t left join (select ol_w_id as w, ol_d_id as d, ol_o_id as o,"
              " sum(ol_amount) as total from order_line group by ol_w_id, ol_d_id, ol_o_id) a"
              " on w = ol_w_id and d = ol_d_id and o = ol_o_id where total is distinct from ol_total",
        made="select ol_w_id, ol_d_id, ol_o_id from order_total"),
}

# What is made lazily moves its rows at once, in the background and when clients touch them, while others change
# the schema again.
AT_ONCE = ("set froglet.migration_delay = 0", "set froglet.migration_granule_rows = 64")


def lazily(change):
    """The same, lazily."""
    do = (sql.replace(" as select", " with (migration = lazy) as select", 1) if sql.startswith("create table") else sql
          for sql in change.do)
    return replace(change, do=(*AT_ONCE, *do))


CHANGES |= {f"lazy {kind}": lazily(CHANGES[kind]) for kind in ("copy", "split", "join", "group", "total")}

# Columns of type text that an index begins with.
TEXTS = ("c_last", "h_data")
ROWS = ["computed", "column", "index", "unique", "foreign key"]
TABLES = ["copy", "split", "join", "group", "total"]
ALL = [name for pair in zip(TABLES, ROWS) for name in pair]
LAZY = [f"lazy {kind}" for kind in TABLES]


@dataclass(frozen=True)
class Visit:
    """Which changes reach a point, and the how manieth time it is that the server dies."""

    changes: list
    times: int = 1
    # Whether a change that is being committed is there afterwards; None if it may be.
    is_there: bool | None = False
    # Whether a checkpoint is written before the COMMIT of the change.
    checkpoint: bool = False
    # Whether blocks are frozen, and sparse ones compacted, as soon as nobody writes to them.
    freezes: bool = False
    # Whether the change is made once and left to its background, which a change back would end early.
    stays: bool = False


POINTS = {
    "catalog: row locked": Visit(["group", *ALL]),
    "catalog: row written": Visit(["split", *ALL]),
    "migration: started": Visit(ALL),
    "scan: block done": Visit(["column", *ALL], times=2),
    "scan: done": Visit(["join", *ALL]),
    "capture: one step done": Visit(["split", *ALL], times=4),
    "capture: round done": Visit(["computed", *ALL], times=4),
    "copy: rows written": Visit(["copy", "split"], times=5),
    "units: lineage noted": Visit(["join", "group", "total"], times=2),
    "units: made again": Visit(["group", "join", "total"], times=2),
    "index: scanned": Visit(["unique", "index", *TABLES]),
    "index: loaded, not published": Visit(["index", "unique", *TABLES]),
    "index: published": Visit(["unique", "index", *TABLES]),
    "index: waiting rows entered": Visit(["index", "unique"]),
    "constraint: scanned": Visit(["foreign key", "computed"]),
    "flip: tables pending": Visit(["split", *ALL]),
    "flip: a writer parked": Visit(ALL, is_there=None),
    "flip: writers stand still": Visit(["foreign key", *ALL]),
    "flip: last capture done": Visit(["join", *ALL]),
    "flip: verified": Visit(["unique", *ALL]),
    "flip: commit timestamp taken": Visit(["group", *ALL]),
    "flip: logged, not flushed": Visit(ALL, is_there=None),
    "flip: flushed, not published": Visit(["split", *ALL], is_there=True, checkpoint=True),
    "flip: published": Visit(["join", *ALL], is_there=None),
    "flip: writers released": Visit(["column", *ALL], is_there=None),
    "flip: durable, not answered": Visit(["total", *ALL], is_there=True),
    "carry-over: one step done": Visit(["computed", "column", "index", "foreign key"], is_there=None),
    "carry-over: one row in a copy": Visit(["copy", "split"], is_there=None),
    "lazy: rows made, not logged": Visit(["lazy group", *LAZY], times=30, is_there=None),
    "lazy: rows logged, not in place": Visit(["lazy join", *LAZY], times=10, is_there=None),
    "lazy: rows in place": Visit(["lazy split", *LAZY], times=20, is_there=None),
    "lazy: all rows in place, not ended": Visit(["lazy total", *LAZY], is_there=None, stays=True),
    "garbage: one freed": Visit(["copy", *ALL], is_there=None),
    "commit: logged, not visible": Visit(["computed", *ALL], times=150, is_there=None),
    "log: written, not synced": Visit(["group", *ALL], times=50, is_there=None),
    "log: synced, nobody told": Visit(["copy", *ALL], times=50, is_there=None),
    "compaction: rows moved, not committed": Visit(["index", *ALL], times=5, is_there=None, freezes=True),
    "compaction: committed": Visit(["computed", *ALL], times=5, is_there=None, freezes=True),
    "checkpoint: begun": Visit(["join", *ALL], checkpoint=True),
    "checkpoint: file written": Visit(["computed", *ALL], times=2, checkpoint=True),
    "checkpoint: index saved": Visit(["copy", *ALL], times=3, checkpoint=True),
    "checkpoint: manifest renamed": Visit(["split", *ALL], checkpoint=True),
    "checkpoint: log cut": Visit(["group", *ALL], times=2, checkpoint=True),
    "recovery: checkpoint loaded": Visit(["split", *ALL]),
    "recovery: record replayed": Visit(["group", *ALL], times=40),
    "recovery: catalog read": Visit(["join", *ALL]),
    "recovery: index rebuilt": Visit(["copy", *ALL], times=4),
}


class Changer:
    """Makes a change and takes it back, in turns, and knows how far it is."""

    def __init__(self, server, change, load, checkpoint=False):
        self.server, self.change, self.load, self.checkpoint = server, change, load, checkpoint
        self.is_there = False
        # What it is about to make of `is_there`, once its COMMIT is on the way.
        self.committing = None
        # Orders that clients were told of before the last COMMIT that was answered was sent, and before
        # the last that was sent.
        self.known, self.known_now = set(), set()

    def step(self, connection):
        """One transaction, however often it has to be run again."""
        while True:
            try:
                connection.execute("begin")
                for statement in self.change.undo if self.is_there else self.change.do:
                    connection.execute(statement)
                if self.checkpoint:
                    self.server.run("checkpoint")
                self.known_now = self.load.orders()
                self.committing = not self.is_there
                connection.execute("commit")
                break
            except (errors.SerializationFailure, errors.DeadlockDetected):
                connection.execute("rollback")
                self.committing = None
        self.is_there, self.committing, self.known = self.committing, None, self.known_now

    def until_the_server_dies(self, stays):
        deadline = time.monotonic() + REACHED_SECONDS
        try:
            with self.server.connect() as connection:
                self.step(connection)
                while time.monotonic() < deadline and not stays:
                    self.step(connection)
        except psycopg.OperationalError as error:
            # The process has not been waited for: its sockets are closed a moment before it ends.
            assert error.sqlstate is None, error
        assert_killed(self.server)

    def look(self, connection, visit):
        """After the restart: whether the change is there, as it has to be."""
        [there] = connection.execute(self.change.is_there).fetchone()
        if self.committing is None:
            assert there == self.is_there, f"acknowledged was {self.is_there}"
        elif visit.is_there is not None:
            assert there == (self.committing if visit.is_there else self.is_there)
        if there == self.committing:
            self.known = self.known_now
        self.is_there, self.committing = there, None


def assert_killed(server):
    process, server.process = server.process, None
    try:
        # What happens in the background may only be through when nobody else is at work any more.
        process.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise AssertionError("the point was never reached") from None
    assert process.returncode == -9, f"the server exited with {process.returncode}\n{server.tail()}"


def assert_index_agrees(connection, index, table, columns):
    """The same rows are found with an index and without: a condition on an expression is on none."""
    first, key = columns.split(", ")[0], f"select {columns} from {table} where"
    with_index, without = ((f"{first} > ''", f"{first} || '' > ''") if first in TEXTS else
                           (f"{first} > 0", f"{first} + 0 > 0"))
    plan = connection.execute(f"explain {key} {with_index}").fetchone()
    assert plan == (f"Index Scan using {index} on {table}",)
    found = connection.execute(f"{key} {with_index}").fetchall()
    assert sorted(found) == sorted(connection.execute(f"{key} {without}").fetchall()), index


def check(connection, load, changer):
    change = changer.change
    read_from = tpcc.NAMES | (dict(change.tables) if changer.is_there else {})
    load.settle(connection, read_from)
    assert load.model.differences(connection, read_from)[:5] == []
    assert tpcc.violated(connection, read_from) == []
    assert connection.execute(change.wrong if changer.is_there else "select 0").fetchone() == (0,)
    if changer.is_there and change.made:
        made = set(connection.execute(change.made).fetchall())
        assert sorted(changer.known - made)[:5] == [], "orders without rows that the change was to make"
    indexes = connection.execute(
        "select indexname, tablename, indexdef from pg_indexes where schemaname = 'public'").fetchall()
    assert {"item_pkey", *tpcc.INDEXES} - {"orders_customer"} <= {index for index, _, _ in indexes}
    for index, table, definition in indexes:
        assert_index_agrees(connection, index, table, definition.partition("(")[2].rstrip(")"))


@pytest.fixture(scope="module")
def loaded(tmp_path_factory):
    """A data directory with TPC-C's population in a checkpoint and its indexes, and the model of it."""
    directory, model = tmp_path_factory.mktemp("tpcc") / "data", tpcc.Model()
    server = Froglet(directory, environment={"FROGLET_INDEX_SNAPSHOT_ROWS": "1"})
    try:
        server.start()
        with server.connect() as connection:
            model.load(connection)
            connection.execute("checkpoint")
        server.stop()
    finally:
        server.remove()
    return directory, model


@pytest.fixture(scope="module")
def points(tmp_path_factory):
    """The names of all points of this binary."""
    server = Froglet(tmp_path_factory.mktemp("names") / "data", environment={"FROGLET_CRASH_AT": "?"})
    try:
        server.spawn()
        server.process.communicate(timeout=10)
        return [line.strip() for line in server.log.read_text().splitlines() if line.startswith("  ")]
    except subprocess.TimeoutExpired:
        pytest.skip("the server has no crash points: it was built without debug assertions")
    finally:
        server.remove()


def test_every_point_has_its_visit(points):
    assert sorted(points) == sorted(POINTS)


@pytest.mark.parametrize("round_", range(ROUNDS))
@pytest.mark.parametrize("point", POINTS)
def test_kill_at(point, round_, points, loaded, start, tmp_path):
    visit = POINTS[point]
    change = CHANGES[visit.changes[round_ % len(visit.changes)]]
    # Its tables are small.
    saves = {"FROGLET_INDEX_SNAPSHOT_ROWS": "1"} | ({"FROGLET_FREEZE_AFTER": "0s"} if visit.freezes else {})
    times = visit.times if visit.stays else visit.times + round_ // len(visit.changes)
    crash_at = saves | {"FROGLET_CRASH_AT": f"{point}:{times}"}
    in_recovery = point.startswith("recovery")
    shutil.copytree(loaded[0], tmp_path / "data")
    server = start(directory=tmp_path / "data", environment=saves if in_recovery else crash_at)
    load = tpcc.Load(server, copy.deepcopy(loaded[1]), f"{round_}", LAYOUTS)
    changer = Changer(server, change, load, visit.checkpoint)
    if in_recovery:
        with server.connect() as connection:
            changer.step(connection)
        # So many transactions more that the point is reached, however slow the machine is.
        end, wanted = time.monotonic() + 60, len(load.acknowledged) + visit.times + 10
        while len(load.acknowledged) < wanted:
            assert time.monotonic() < end, f"{len(load.acknowledged)} transactions, not {wanted}"
            time.sleep(0.01)
        server.kill()
        server.environment = crash_at
        server.spawn()
        assert_killed(server)
    else:
        changer.until_the_server_dies(visit.stays)
    load.stop()

    server.environment = saves
    server.start()
    with server.connect() as connection:
        changer.look(connection, visit)
        check(connection, load, changer)
        again = tpcc.Load(server, load.model, f"{round_} again", LAYOUTS)
        goes_on = Changer(server, change, again)
        goes_on.is_there, goes_on.known = changer.is_there, changer.known
        goes_on.step(connection)
        again.stop()
        check(connection, again, goes_on)
