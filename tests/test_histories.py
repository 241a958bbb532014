"""What clients see while schema changes run is what their isolation level allows.

Clients append to lists and read them, by key and by scan, while the table of the lists is rewritten,
indexed, copied, grouped, split and joined under them. Half of the lists are in a table in memory and half in one on disk,
until each is moved to the other place: transactions are over both. The history goes to a checker of Adya's anomalies
(`support/histories.py`). REPEATABLE READ is checked as snapshot isolation, every level with real time: what
was answered is seen by whoever begins afterwards.

FROGLET_TEST_HISTORY_SECONDS sets how long clients run at each level (6).
"""

import itertools
import os
import random
import threading
import time

import psycopg
import pytest
from psycopg import errors

from support.histories import COMMITTED, SERIALIZABLE, SNAPSHOT, Appender, History, Keys, check
from support.histories import of_transactions, one_after_the_other

# Committed transactions that a history has at the least.
ENOUGH = 200
SECONDS = float(os.environ.get("FROGLET_TEST_HISTORY_SECONDS", "6"))


def ok(*operations):
    return "ok", [list(operation) for operation in operations]


def fail(*operations):
    return "fail", [list(operation) for operation in operations]


def a(key, element):
    return "append", key, element


def r(key, *elements):
    return "r", key, list(elements)


FORBIDDEN = {
    "G0": (COMMITTED, of_transactions(
        ok(a(1, 1), a(2, 1)), ok(a(1, 2), a(2, 2)), ok(r(1, 1, 2)), ok(r(2, 2, 1)))),
    "G1a": (COMMITTED, of_transactions(fail(a(1, 1)), ok(r(1, 1)))),
    "G1b": (COMMITTED, of_transactions(ok(a(1, 1), a(1, 2)), ok(r(1, 1)), ok(r(1, 1, 2)))),
    "G1c": (COMMITTED, of_transactions(ok(a(1, 1), r(2, 1)), ok(a(2, 1), r(1, 1)))),
    "G1c-realtime": (COMMITTED, one_after_the_other(
        ok(r(1, 1)), ok(a(1, 1)))),
    "internal": (SNAPSHOT, of_transactions(ok(r(1), a(1, 1), r(1)))),
    "G-single-item": (SNAPSHOT, of_transactions(
        ok(a(1, 1), a(2, 1)), ok(r(1), r(2, 1)))),
    "lost-update": (SNAPSHOT, of_transactions(
        ok(r(1), a(1, 1)), ok(r(1), a(1, 2)), ok(r(1, 1, 2)))),
    "G-nonadjacent-item": (SNAPSHOT, of_transactions(
        ok(a(1, 1)), ok(a(2, 1)), ok(r(1, 1), r(2)), ok(r(1), r(2, 1)))),
    "G-single-item-realtime": (SNAPSHOT, one_after_the_other(
        ok(a(1, 1)), ok(r(1)), ok(r(1, 1)))),
    "incompatible-order": (COMMITTED, of_transactions(
        ok(a(1, 1)), ok(a(1, 2)), ok(r(1, 1, 2)), ok(r(1, 2, 1)))),
    "G2-item": (SERIALIZABLE, of_transactions(
        ok(r(1), r(2), a(1, 1)), ok(r(1), r(2), a(2, 1)), ok(r(1, 1), r(2, 1)))),
    "duplicate-elements": (COMMITTED, of_transactions(ok(a(1, 1)), ok(r(1, 1, 1)))),
}
ALLOWED = {
    "write skew": (SNAPSHOT, FORBIDDEN["G2-item"][1]),
    "read skew": (COMMITTED, FORBIDDEN["G-single-item"][1]),
    "one after the other": (SNAPSHOT, one_after_the_other(
        ok(a(1, 1)), fail(a(1, 2)), ok(r(1, 1), a(1, 3), r(1, 1, 3)), ok(r(1, 1, 3)))),
}


@pytest.mark.parametrize("anomaly", FORBIDDEN)
def test_the_checker_finds(anomaly, tmp_path):
    level, history = FORBIDDEN[anomaly]
    report = check(history, tmp_path / "history.jsonl", level)
    assert anomaly in report["anomaly_types"], report


@pytest.mark.parametrize("history", ALLOWED)
def test_the_checker_allows(history, tmp_path):
    level, history = ALLOWED[history]
    report = check(history, tmp_path / "history.jsonl", level)
    assert report["valid"] is True, report


SWAP = ["alter table lists_new add primary key (k)", "drop table lists",
        "alter table lists_new rename to lists"]
# Each is one transaction, and leaves a table that the others work on.
CHANGES = [
    ["alter table lists drop column if exists n, alter column v type text using v || ''"],
    ["alter table lists set access method disk"],
    ["alter table others set access method memory"],
    ["alter table lists drop column if exists n,"
     " add column n integer generated always as (length(v)) stored"],
    ["drop index if exists lists_v", "create index lists_v on lists (v)"],
    ["alter table lists drop constraint if exists not_empty, add constraint not_empty check (v <> '')"],
    ["set local froglet.migration = lazy", "alter table lists set access method memory"],
    ["set local froglet.migration = lazy", "alter table others set access method disk"],
    ["create table lists_new as select k, v from lists", *SWAP],
    ["create table lists_new as select k, max(v) as v from lists group by k", *SWAP],
    ["create table keys as select k from lists",
     "create table lists_new as select k, v from lists join keys using (k)", "drop table keys", *SWAP],
]


def change(connection, statements):
    while True:
        try:
            connection.execute("begin")
            for statement in statements:
                connection.execute(statement)
            connection.execute("commit")
            return
        except (errors.SerializationFailure, errors.DeadlockDetected):
            connection.execute("rollback")


def record(server, level, kill=False):
    """The history of clients under all changes, in turns; with `kill` the server is killed in the middle
    of some of them."""
    server.run("create table lists (k integer primary key, v text not null)",
               "create table others (k integer primary key, v text not null) using disk",
               # Rows that nobody reads, so that the changes take a while.
               "insert into lists select -n, repeat('x', 20) from generate_series(1, 10000) as g (n)")
    history, keys, rng = History(), Keys(), random.Random(level)
    clients = [Appender(server, history, level, keys, seed, kill) for seed in range(6)]
    for client in clients:
        client.start()
    began, turns = time.monotonic(), itertools.cycle(CHANGES)

    def goes_on():
        seconds = time.monotonic() - began
        assert seconds < 60 + SECONDS, "no clients get anything done"
        return seconds < SECONDS or history.count("ok") < ENOUGH

    while goes_on():
        if kill:
            threading.Timer(rng.uniform(0.2, 1.5), server.process.kill).start()
        try:
            with server.connect() as connection:
                while kill or goes_on():
                    change(connection, next(turns))
        except psycopg.OperationalError:
            assert kill, "the server is gone"
            server.kill_and_restart()
    for client in clients:
        client.stopped.set()
    for client in clients:
        client.join(60)
        assert client.failure is None and not client.is_alive(), client.failure
    return history


@pytest.mark.parametrize("level, model", [
    ("serializable", SERIALIZABLE), ("repeatable read", SNAPSHOT), ("read committed", COMMITTED)])
def test_history_under_schema_changes(froglet, level, model, tmp_path):
    report = check(record(froglet, level), tmp_path / "history.jsonl", model)
    assert report["valid"] is True, f"{tmp_path}: {report['anomaly_types']}\n{report}"


def test_history_across_kills(froglet, tmp_path):
    """What was acknowledged before a kill is seen after it."""
    history = record(froglet, "repeatable read", kill=True)
    assert history.count("info") > 0, "no transaction was under way when the server was killed"
    report = check(history, tmp_path / "history.jsonl", SNAPSHOT)
    assert report["valid"] is True, f"{tmp_path}: {report['anomaly_types']}\n{report}"
