"""Schema changes of TPC-C's tables (`tpcc.py`) under which its clients go on, and what has to hold with them.

Each is one transaction and can be taken back. After any end of the server `check` compares every row of every
table with what clients were told, what a change has computed with what its query computes now, each index with
its table, and asks for the twelve consistency conditions.
"""

from dataclasses import dataclass, replace

from . import tpcc
from .tpcc import COLUMNS


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


def moved(method, *tables):
    return tuple(f"alter table {table} set access method {method}" for table in tables)


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
    "move": Change(
        do=moved("disk", "order_line", "district", "history"),
        undo=moved("memory", "order_line", "district", "history"),
        is_there="select amname = 'disk' from pg_class c join pg_am a on a.oid = relam"
                 " where relname = 'order_line'"),
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


TABLES = ["copy", "split", "join", "group", "total"]
CHANGES |= {f"lazy {kind}": lazily(CHANGES[kind]) for kind in TABLES}
MOVE = CHANGES["move"]
MOVED_AT_ONCE = ("set froglet.migration = lazy", *AT_ONCE)
CHANGES["lazy move"] = replace(MOVE, do=(*MOVED_AT_ONCE, *MOVE.do), undo=(*MOVED_AT_ONCE, *MOVE.undo))

# Columns of type text that an index begins with.
TEXTS = ("c_last", "h_data")
ROWS = ["computed", "column", "index", "unique", "foreign key"]
ALL = [name for pair in zip(TABLES, ROWS) for name in pair] + ["move"]
LAZY = [f"lazy {kind}" for kind in (*TABLES, "move")]


class Changer:
    """Makes a change and takes it back, in turns, and knows how far it is."""

    def __init__(self, change, load, is_there=False, before_commit=lambda: None):
        self.change, self.load, self.is_there, self.before_commit = change, load, is_there, before_commit
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
                self.before_commit()
                self.known_now = self.load.orders()
                self.committing = not self.is_there
                connection.execute("commit")
                break
            except self.load.refusals:
                connection.execute("rollback")
                self.committing = None
                if self.load.stopped.is_set():
                    return
        self.is_there, self.committing, self.known = self.committing, None, self.known_now

    def look(self, connection):
        """After a restart: whether the change is there. Either as was acknowledged, or as was about to be committed."""
        [there] = connection.execute(self.change.is_there).fetchone()
        if self.committing is None:
            assert there == self.is_there, f"acknowledged was {self.is_there}"
        if there == self.committing:
            self.known = self.known_now
        self.is_there, self.committing = there, None


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
