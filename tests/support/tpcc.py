"""TPC-C, small, over SQL, by clients that remember what they were told.

Two warehouses, the five transactions in their mix (clause 5.2.3), and of the nine tables' columns those
that transactions and consistency conditions use. A `Model` has every row of every table as a
dictionary; a transaction notes what it writes as effects, which the model takes over once its COMMIT
was answered. So after a crash all rows are compared with what clients were told, whatever the server
has done to the tables meanwhile. Effects of different transactions commute (stock quantities
too: they are kept in 10..100 by adding 91), so the order of commits need not be known.
"""

import random
import threading
from datetime import datetime
from decimal import Decimal

import psycopg
from psycopg import errors

WAREHOUSES, DISTRICTS, CUSTOMERS, ITEMS, ORDERS, DELIVERED = 2, 10, 30, 100, 45, 30
LOADED = datetime(2026, 1, 1)
REFUSALS = (errors.SerializationFailure, errors.DeadlockDetected)
LAST_NAMES = "BAR OUGHT ABLE PRI PRES ESE ANTI CALLY ATION EING".split()

# Of each table: columns with their types, and how many of them are its key.
TABLES = {
    "warehouse": ("w_id integer, w_tax numeric(4,4), w_ytd numeric(12,2)", 1),
    "district": ("d_w_id integer, d_id integer, d_tax numeric(4,4), d_ytd numeric(12,2),"
                 " d_next_o_id integer", 2),
    "customer": ("c_w_id integer, c_d_id integer, c_id integer, c_last varchar(16), c_discount numeric(4,4),"
                 " c_balance numeric(12,2), c_ytd_payment numeric(12,2), c_payment_cnt integer,"
                 " c_delivery_cnt integer", 3),
    "history": ("h_data varchar(24), h_c_w_id integer, h_c_d_id integer, h_c_id integer, h_w_id integer,"
                " h_d_id integer, h_amount numeric(12,2)", 1),
    "new_order": ("no_w_id integer, no_d_id integer, no_o_id integer", 3),
    "orders": ("o_w_id integer, o_d_id integer, o_id integer, o_c_id integer, o_carrier_id integer,"
               " o_ol_cnt integer", 3),
    "order_line": ("ol_w_id integer, ol_d_id integer, ol_o_id integer, ol_number integer, ol_i_id integer,"
                   " ol_supply_w_id integer, ol_delivery_d timestamp, ol_quantity integer,"
                   " ol_amount numeric(12,2)", 4),
    "item": ("i_id integer, i_price numeric(12,2)", 1),
    "stock": ("s_w_id integer, s_i_id integer, s_quantity integer, s_ytd integer, s_order_cnt integer,"
              " s_remote_cnt integer", 2),
}
# numeric(4,4) has a comma of its own, without a blank.
COLUMNS = {table: [column.split()[0] for column in columns.split(", ")]
           for table, (columns, _) in TABLES.items()}
KEYS = {table: COLUMNS[table][:length] for table, (_, length) in TABLES.items()}
# Beside the primary keys.
INDEXES = {"customer_last": ("customer", ["c_last", "c_d_id", "c_w_id", "c_id"]),
           "orders_customer": ("orders", ["o_c_id", "o_d_id", "o_w_id", "o_id"])}
# Where clients write the rows of a table, and where they are read: it may have been split.
WHOLE = {table: {table: columns} for table, columns in COLUMNS.items()}
NAMES = {table: table for table in TABLES}

# Each counts what is wrong (clause 3.3.2.1 to 3.3.2.12). Condition 11 counts delivered orders, as
# that holds not only of the initial population.
CONDITIONS = {
    1: "select count(*) from {warehouse} join (select d_w_id, sum(d_ytd) as ytd from {district}"
       " group by d_w_id) d on d_w_id = w_id where w_ytd <> ytd",
    2: "select count(*) from {district}"
       " left join (select o_w_id, o_d_id, max(o_id) as o from {orders} group by o_w_id, o_d_id) a"
       " on o_w_id = d_w_id and o_d_id = d_id"
       " left join (select no_w_id, no_d_id, max(no_o_id) as n from {new_order} group by no_w_id, no_d_id) b"
       " on no_w_id = d_w_id and no_d_id = d_id"
       " where o is distinct from d_next_o_id - 1 or n <> d_next_o_id - 1",
    3: "select count(*) from (select max(no_o_id) - min(no_o_id) + 1 as span, count(*) as n"
       " from {new_order} group by no_w_id, no_d_id) a where span <> n",
    4: "select count(*) from (select o_w_id, o_d_id, sum(o_ol_cnt) as n from {orders}"
       " group by o_w_id, o_d_id) a full join (select ol_w_id, ol_d_id, count(*) as lines"
       " from {order_line} group by ol_w_id, ol_d_id) b on ol_w_id = o_w_id and ol_d_id = o_d_id"
       " where n is distinct from lines",
    5: "select count(*) from {orders} full join {new_order}"
       " on no_w_id = o_w_id and no_d_id = o_d_id and no_o_id = o_id"
       " where o_id is null or (o_carrier_id is null) <> (no_o_id is not null)",
    6: "select count(*) from {orders} full join (select ol_w_id, ol_d_id, ol_o_id, count(*) as lines"
       " from {order_line} group by ol_w_id, ol_d_id, ol_o_id) b"
       " on ol_w_id = o_w_id and ol_d_id = o_d_id and ol_o_id = o_id where o_ol_cnt is distinct from lines",
    7: "select count(*) from {order_line} left join {orders}"
       " on o_w_id = ol_w_id and o_d_id = ol_d_id and o_id = ol_o_id"
       " where o_id is null or (ol_delivery_d is null) <> (o_carrier_id is null)",
    8: "select count(*) from {warehouse} left join (select h_w_id, sum(h_amount) as paid from {history}"
       " group by h_w_id) h on h_w_id = w_id where w_ytd is distinct from paid",
    9: "select count(*) from {district} left join (select h_w_id, h_d_id, sum(h_amount) as paid"
       " from {history} group by h_w_id, h_d_id) h on h_w_id = d_w_id and h_d_id = d_id"
       " where d_ytd is distinct from paid",
    10: "select count(*) from {customer}"
        " left join (select o_w_id, o_d_id, o_c_id, sum(ol_amount) as owed from {orders} join {order_line}"
        " on ol_w_id = o_w_id and ol_d_id = o_d_id and ol_o_id = o_id where ol_delivery_d is not null"
        " group by o_w_id, o_d_id, o_c_id) a on o_w_id = c_w_id and o_d_id = c_d_id and o_c_id = c_id"
        " left join (select h_c_w_id, h_c_d_id, h_c_id, sum(h_amount) as paid from {history}"
        " group by h_c_w_id, h_c_d_id, h_c_id) h"
        " on h_c_w_id = c_w_id and h_c_d_id = c_d_id and h_c_id = c_id"
        " where c_balance <> coalesce(owed, 0) - coalesce(paid, 0)",
    11: "select count(*) from (select o_w_id, o_d_id, count(*) as n from {orders} where o_carrier_id is null"
        " group by o_w_id, o_d_id) a full join (select no_w_id, no_d_id, count(*) as m from {new_order}"
        " group by no_w_id, no_d_id) b on no_w_id = o_w_id and no_d_id = o_d_id where n is distinct from m",
    12: "select count(*) from {customer}"
        " left join (select o_w_id, o_d_id, o_c_id, sum(ol_amount) as owed from {orders} join {order_line}"
        " on ol_w_id = o_w_id and ol_d_id = o_d_id and ol_o_id = o_id where ol_delivery_d is not null"
        " group by o_w_id, o_d_id, o_c_id) a on o_w_id = c_w_id and o_d_id = c_d_id and o_c_id = c_id"
        " where c_balance + c_ytd_payment <> coalesce(owed, 0)",
}


def initial_rows():
    """The population, as (table, row) (clause 4.3.3); it meets the conditions."""
    rng = random.Random(1)
    for i in range(1, ITEMS + 1):
        yield "item", (i, Decimal(rng.randint(100, 9999)) / 100)
    for w in range(1, WAREHOUSES + 1):
        yield "warehouse", (w, Decimal("0.1"), Decimal(10 * CUSTOMERS * DISTRICTS))
        for i in range(1, ITEMS + 1):
            yield "stock", (w, i, rng.randint(10, 100), 0, 0, 0)
        for d in range(1, DISTRICTS + 1):
            yield "district", (w, d, Decimal("0.1"), Decimal(10 * CUSTOMERS), ORDERS + 1)
            yield from customers_and_orders(rng, w, d)


def customers_and_orders(rng, w, d):
    for c in range(1, CUSTOMERS + 1):
        last = LAST_NAMES[c % 10] + LAST_NAMES[c // 10]
        yield "customer", (w, d, c, last, Decimal("0.05"), Decimal(-10), Decimal(10), 1, 0)
        yield "history", (f"initial-{w}-{d}-{c}", w, d, c, w, d, Decimal(10))
    for o in range(1, ORDERS + 1):
        lines, new = rng.randint(5, 15), o > DELIVERED
        yield "orders", (w, d, o, rng.randint(1, CUSTOMERS), None if new else rng.randint(1, 10), lines)
        if new:
            yield "new_order", (w, d, o)
        for n in range(1, lines + 1):
            amount = Decimal(rng.randint(1, 999999)) / 100 if new else Decimal(0)
            yield "order_line", (w, d, o, n, rng.randint(1, ITEMS), w, None if new else LOADED, 5, amount)


class Model:
    """What the tables are to hold: by table, by key, a row as a dictionary."""

    def __init__(self):
        self.tables = {table: {} for table in TABLES}
        for table, row in initial_rows():
            self.insert(table, dict(zip(COLUMNS[table], row)))

    def insert(self, table, row):
        key = tuple(row[column] for column in KEYS[table])
        assert key not in self.tables[table], f"{table} {key} was inserted twice"
        self.tables[table][key] = row

    def load(self, connection):
        """Makes and fills the tables."""
        for table, (columns, _) in TABLES.items():
            key = ", ".join(KEYS[table])
            connection.execute(f"create table {table} ({columns}, primary key ({key}))")
            with connection.cursor().copy(f"copy {table} from stdin") as copy:
                for row in self.tables[table].values():
                    copy.write_row(list(row.values()))
        for name, (table, columns) in INDEXES.items():
            connection.execute(f"create index {name} on {table} ({', '.join(columns)})")

    def apply(self, effects):
        """Takes over what committed transactions have done: a row is inserted before anything else
        is done to it, whoever was told first."""
        order = {"insert": 0, "add": 1, "set": 1, "delete": 2}
        for kind, table, key, values in sorted(effects, key=lambda effect: order[effect[0]]):
            if kind == "insert":
                self.insert(table, values)
            elif kind == "delete":
                del self.tables[table][key]
            else:
                row = self.tables[table][key]
                for column, value in values.items():
                    row[column] = row[column] + value if kind == "add" else value
                    if column == "s_quantity" and row[column] < 10:
                        row[column] += 91

    def differences(self, connection, read_from=NAMES):
        """What the server has, row by row, that is not as here."""
        found = []
        for table, rows in self.tables.items():
            columns, length = COLUMNS[table], len(KEYS[table])
            there = connection.execute(f"select {', '.join(columns)} from {read_from[table]}").fetchall()
            seen = {row[:length]: row for row in there}
            if len(seen) != len(there):
                found.append(f"{table} has {len(there) - len(seen)} keys more than once")
            for key in seen.keys() | rows.keys():
                wanted = tuple(rows[key].values()) if key in rows else None
                if seen.get(key) != wanted:
                    found.append(f"{table}: {seen.get(key)}, not {wanted}")
        return found


def violated(connection, read_from=NAMES):
    """The numbers of the consistency conditions that do not hold."""
    return [number for number, query in CONDITIONS.items()
            if connection.execute(query.format(**read_from)).fetchone() != (0,)]


class Work:
    """One transaction: statements, and what they do to the model."""

    def __init__(self, connection, written_to):
        self.connection, self.written_to, self.effects = connection, written_to, []

    def rows(self, sql, *parameters):
        return self.connection.execute(sql, parameters).fetchall()

    def insert(self, table, *values):
        row = dict(zip(COLUMNS[table], values, strict=True))
        for place, columns in self.written_to[table].items():
            marks = ", ".join(["%s"] * len(columns))
            self.connection.execute(f"insert into {place} ({', '.join(columns)}) values ({marks})",
                                    [row[column] for column in columns])
        self.effects.append(("insert", table, None, row))

    def add(self, table, key, returning="1", **changes):
        """Adds to columns of one row, and returns something of it."""
        self.effects.append(("add", table, key, changes))
        return self.update(table, key, "{0} = {0} + %({0})s", changes, returning)

    def set(self, table, key, **changes):
        self.effects.append(("set", table, key, changes))
        self.update(table, key, "{0} = %({0})s", changes, "1")

    def update(self, table, key, assignment, changes, returning):
        wrapped = "{0} = {0} + %({0})s + case when {0} + %({0})s < 10 then 91 else 0 end"
        assignments = ", ".join((wrapped if column == "s_quantity" else assignment).format(column)
                                for column in changes)
        where = " and ".join(f"{column} = %({column})s" for column in KEYS[table])
        [row] = self.connection.execute(
            f"update {table} set {assignments} where {where} returning {returning}",
            changes | dict(zip(KEYS[table], key))).fetchall()
        return row

    def delete(self, table, key):
        where = " and ".join(f"{column} = %s" for column in KEYS[table])
        done = self.connection.execute(f"delete from {table} where {where}", key)
        assert done.rowcount == 1, f"{table} {key} was deleted {done.rowcount} times"
        self.effects.append(("delete", table, key, None))


class Client(threading.Thread):
    """Runs the mix until it is stopped, or the server is gone."""

    def __init__(self, load, number, seed):
        super().__init__(daemon=True)
        self.load, self.number, self.rng = load, number, random.Random(f"{seed}-{number}")
        self.home = number % WAREHOUSES + 1
        self.begun = 0
        self.in_doubt = None
        self.failure = None

    def run(self):
        mix = [self.new_order] * 45 + [self.payment] * 43 + [self.order_status, self.delivery, self.stock_level] * 4
        try:
            with self.load.server.connect() as connection:
                while not self.load.stopped.is_set():
                    self.transaction(connection, self.rng.choice(mix))
        except psycopg.OperationalError as error:
            if error.sqlstate not in (None, "57P01", "57P02", "57P03"):
                self.failure = error
        except BaseException as error:
            self.failure = error

    def transaction(self, connection, profile):
        self.begun += 1
        level = "repeatable read" if profile == self.order_status else "read committed"
        work = Work(connection, self.load.written_to)
        try:
            connection.execute(f"begin isolation level {level}")
            commits = profile(work) is not False
            if commits:
                self.in_doubt = work.effects
                connection.execute("commit")
                self.load.acknowledged.append(work.effects)
                self.in_doubt = None
            else:
                connection.execute("rollback")
        except self.load.refusals:
            self.in_doubt = None
            connection.execute("rollback")
        except errors.UndefinedTable:
            self.in_doubt = None
            connection.execute("rollback")
            self.load.look_where_to_write(connection)

    def new_order(self, work):
        rng, w, d = self.rng, self.home, self.rng.randint(1, DISTRICTS)
        c = rng.randint(1, CUSTOMERS)
        lines = sorted((rng.randint(1, ITEMS), w if rng.random() < 0.9 else rng.randint(1, WAREHOUSES))
                       for _ in range(rng.randint(5, 15)))
        [o] = work.add("district", (w, d), "d_next_o_id - 1", d_next_o_id=1)
        [[discount]] = work.rows("select c_discount from customer where c_w_id = %s and c_d_id = %s"
                                 " and c_id = %s", w, d, c)
        work.insert("orders", w, d, o, c, None, len(lines))
        work.insert("new_order", w, d, o)
        for n, (i, supply) in enumerate(sorted(lines, key=lambda line: line[::-1]), 1):
            [[price]] = work.rows("select i_price from item where i_id = %s", i)
            quantity = rng.randint(1, 10)
            work.add("stock", (supply, i), s_quantity=-quantity, s_ytd=quantity, s_order_cnt=1,
                     s_remote_cnt=int(supply != w))
            amount = (quantity * price * (1 - discount)).quantize(Decimal("0.01"))
            work.insert("order_line", w, d, o, n, i, supply, None, quantity, amount)
        return rng.random() >= 0.01  # An item that is not there: the whole order is taken back.

    def payment(self, work):
        rng, w, d = self.rng, self.home, self.rng.randint(1, DISTRICTS)
        c = rng.randint(1, CUSTOMERS)
        if rng.random() < 0.6:
            last = LAST_NAMES[c % 10] + LAST_NAMES[c // 10]
            named = work.rows("select c_id from customer where c_w_id = %s and c_d_id = %s and c_last = %s"
                              " order by c_id", w, d, last)
            [c] = named[len(named) // 2]
        amount = Decimal(rng.randint(100, 500000)) / 100
        work.add("warehouse", (w,), w_ytd=amount)
        work.add("district", (w, d), d_ytd=amount)
        work.add("customer", (w, d, c), c_balance=-amount, c_ytd_payment=amount, c_payment_cnt=1)
        work.insert("history", f"{self.load.name}-{self.number}-{self.begun}", w, d, c, w, d, amount)

    def order_status(self, work):
        w, d, c = self.home, self.rng.randint(1, DISTRICTS), self.rng.randint(1, CUSTOMERS)
        last = work.rows("select o_id, o_ol_cnt from orders where o_w_id = %s and o_d_id = %s and o_c_id = %s"
                         " order by o_id desc limit 1", w, d, c)
        for o, count in last:
            lines = work.rows("select ol_number from order_line where ol_w_id = %s and ol_d_id = %s"
                              " and ol_o_id = %s", w, d, o)
            assert len(lines) == count, f"order {w}/{d}/{o} has {len(lines)} lines, not {count}"

    def delivery(self, work):
        w, carrier, now = self.home, self.rng.randint(1, 10), datetime.now()
        for d in range(1, DISTRICTS + 1):
            oldest = work.rows("select no_o_id from new_order where no_w_id = %s and no_d_id = %s"
                               " order by no_o_id limit 1 for update", w, d)
            if not oldest:
                continue
            [[o]] = oldest
            work.delete("new_order", (w, d, o))
            work.set("orders", (w, d, o), o_carrier_id=carrier)
            [[c]] = work.rows("select o_c_id from orders where o_w_id = %s and o_d_id = %s and o_id = %s", w, d, o)
            lines = work.rows("update order_line set ol_delivery_d = %s where ol_w_id = %s and ol_d_id = %s"
                              " and ol_o_id = %s returning ol_number, ol_amount", now, w, d, o)
            for number, _ in lines:
                work.effects.append(("set", "order_line", (w, d, o, number), {"ol_delivery_d": now}))
            work.add("customer", (w, d, c), c_balance=sum(amount for _, amount in lines), c_delivery_cnt=1)

    def stock_level(self, work):
        w, d = self.home, self.rng.randint(1, DISTRICTS)
        work.rows("select count(distinct s_i_id) from district join order_line on ol_w_id = d_w_id"
                  " and ol_d_id = d_id and ol_o_id >= d_next_o_id - 20 join stock on s_w_id = ol_w_id"
                  " and s_i_id = ol_i_id where d_w_id = %s and d_id = %s and s_quantity < 15", w, d)


class Load:
    """Clients at work on a server, and the model of what they have done. A transaction that meets one of `refusals` is
    taken back, and they go on."""

    def __init__(self, server, model, seed, layouts=(WHOLE,), clients=4, refusals=REFUSALS):
        self.server, self.model, self.name, self.layouts = server, model, f"{seed}", layouts
        self.refusals = refusals
        self.written_to = layouts[0]
        self.acknowledged = []
        self.stopped = threading.Event()
        self.clients = [Client(self, number, seed) for number in range(clients)]
        for client in self.clients:
            client.start()

    def orders(self):
        """The keys of orders that clients were told of."""
        told = {(row["o_w_id"], row["o_d_id"], row["o_id"]) for effects in list(self.acknowledged)
                for kind, table, _, row in effects if kind == "insert" and table == "orders"}
        return told | self.model.tables["orders"].keys()

    def look_where_to_write(self, connection):
        """Takes the layout whose tables are all there."""
        there = {name for [name] in connection.execute("select relname from pg_class where relkind = 'r'")}
        found = [layout for layout in self.layouts
                 if there.issuperset(place for places in layout.values() for place in places)]
        if found:
            self.written_to = found[0]

    def stop(self, patience=60):
        """Lets every client end its transaction, in so many seconds; whatever has gone wrong is raised."""
        self.stopped.set()
        for client in self.clients:
            client.join(patience)
            assert not client.is_alive(), "a client hangs"
        for client in self.clients:
            if client.failure is not None:
                raise client.failure

    def settle(self, connection, read_from=NAMES):
        """The model takes over what clients were told, and of transactions whose COMMIT was not
        answered those that are there: each of them inserts or deletes a row that tells."""
        committed, self.acknowledged = self.acknowledged, []
        for client in self.clients:
            effects, client.in_doubt = client.in_doubt, None
            told = [effect for effect in effects or [] if effect[0] in ("insert", "delete")]
            if not told:
                continue
            kind, table, key, row = told[0]
            key = key or tuple(row[column] for column in KEYS[table])
            where = " and ".join(f"{column} = %s" for column in KEYS[table])
            found = connection.execute(f"select 1 from {read_from[table]} where {where}", key).fetchall()
            if bool(found) == (kind == "insert"):
                committed.append(effects)
        self.model.apply(effect for effects in committed for effect in effects)
