"""Transfers between accounts that leave receipts: after any fault what was acknowledged must be there, what was refused
must not be, and every account must have what the receipts say.

    with Transfers([connect_to_one, connect_to_other]) as transfers:
        transfers.go_on()
        …               # a fault
        transfers.go_on()
    transfers.check(connections)
"""

import collections
import threading
import time

import psycopg

from .clients import Clients
from .processes import wait_until

ACCOUNTS, EACH = 20, 100
TOTAL = (ACCOUNTS, ACCOUNTS * EACH)
#: What a client may be told while the store cannot be reached: the connection to it failed, nobody knows whether it is
#: committed, try again, not now.
WHILE_AWAY = {"08006", "08007", "40001", "57P03"}
#: After which nobody knows; None: the connection ended without a word.
UNKNOWN = {"08007", None}
READER = "reader"


def make_bank(connection):
    connection.execute("create table bank (id int primary key, money int)")
    connection.execute(f"insert into bank select g, {EACH} from generate_series(0, {ACCOUNTS - 1}) g")
    connection.execute("create table receipts (writer int, n int, giver int, taker int, primary key (writer, n))")


class Transfers(Clients):
    """Two writers, which have numbers, and a reader for each way to connect, and what they were told."""

    def __init__(self, connects):
        self.going = True
        #: Of each way to connect: how much was done; what was said, as (client, state, message).
        self.done, self.errors = ([collections.Counter() for _ in connects] for _ in range(2))
        self.receipts = {"acknowledged": set(), "refused": set(), "unknown": set()}
        self.unbalanced = []
        self.lock = threading.Lock()
        self.threads, self.clients = [], []
        for at, connect in enumerate(connects):
            work = {2 * at: self.write, 2 * at + 1: self.write, READER: self.read}
            self.clients.append(work.keys())
            self.threads += [threading.Thread(target=self.run, args=(at, connect, todo, client))
                             for client, todo in work.items()]
        self.look_from_now()

    def run(self, at, connect, work, client):
        connection, n = None, 0
        while self.going:
            n += 1
            try:
                if connection is None or connection.closed:
                    connection = connect()
                work(at, connection, client, n)
            except psycopg.Error as error:
                with self.lock:
                    self.errors[at][client, error.sqlstate, str(error).strip()] += 1
                time.sleep(0.05)
                end(connection)

    def read(self, at, connection, _, n):
        found = total(connection)
        with self.lock:
            self.done[at]["reads"] += 1
            if found != TOTAL:
                self.unbalanced.append(found)

    def write(self, at, connection, writer, n):
        giver, taker = (writer + 7 * n) % ACCOUNTS, (writer + 3 * n + 1) % ACCOUNTS
        told = "refused"
        try:
            connection.execute("begin")
            # In this order: no two wait for each other.
            for account in sorted((giver, taker)):
                change = (account == taker) - (account == giver)
                connection.execute("update bank set money = money + %s where id = %s", (change, account))
            connection.execute("insert into receipts values (%s, %s, %s, %s)", (writer, n, giver, taker))
            try:
                connection.execute("commit")
                told = "acknowledged"
            except psycopg.Error as error:
                told = "unknown" if error.sqlstate in UNKNOWN else "refused"
                raise
        finally:
            with self.lock:
                self.receipts[told].add((writer, n))
                self.done[at]["writes"] += told == "acknowledged"

    def look_from_now(self):
        """What was said before is not asked for any more."""
        with self.lock:
            self.before = [errors.copy() for errors in self.errors]

    def all_are_told(self, at, states):
        """Whether each client of a gateway was told one of these."""
        with self.lock:
            new = self.errors[at] - self.before[at]
            return {client for client, state, _ in new if state in states} == self.clients[at]

    def go_on(self, *at, count=10):
        """So many more transfers and as many reads at these gateways, or at all."""
        at = at or range(len(self.done))
        goals = [(self.done[n], kind, self.done[n][kind] + count) for n in at for kind in ("writes", "reads")]
        try:
            wait_until(lambda: all(done[kind] >= goal for done, kind, goal in goals), "transfers and reads go on", 60)
        except AssertionError as error:
            raise AssertionError(f"{error} at {list(at)} of {self.done}; they were told {self.errors}") from None

    def check(self, connections):
        """At the end, at every gateway."""
        assert not self.unbalanced, f"sums that are none: {self.unbalanced[:5]}"
        for connection in connections:
            found = {row[:2]: row[2:] for row in connection.execute("select writer, n, giver, taker from receipts")}
            lost = self.receipts["acknowledged"] - found.keys()
            assert not lost, f"acknowledged, and not there: {sorted(lost)}"
            undead = self.receipts["refused"] & found.keys()
            assert not undead, f"refused, and there: {sorted(undead)}"
            assert found.keys() <= self.receipts["acknowledged"] | self.receipts["unknown"]
            money = dict.fromkeys(range(ACCOUNTS), EACH)
            for giver, taker in found.values():
                money[giver] -= 1
                money[taker] += 1
            assert dict(connection.execute("select id, money from bank")) == money
        for at, errors in enumerate(self.errors):
            told = {(state, message) for _, state, message in errors if state not in WHILE_AWAY}
            assert not told, f"clients of gateway {at} were told {told}"


def end(connection):
    """Rolls back what has failed, if anybody is there."""
    if connection is not None and not connection.closed:
        try:
            connection.execute("rollback")
        except psycopg.Error:
            connection.close()


def total(connection):
    return connection.execute("select count(*), sum(money) from bank").fetchone()
