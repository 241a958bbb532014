"""Histories of transactions that append to lists and read them, in the form that Elle reads.

A line of JSON for each event: `invoke` before a transaction begins, and afterwards `ok` (it has committed),
`fail` (it has not) or `info` (nobody knows).

    {"index": 4, "time": 81923, "process": 0, "type": "invoke", "f": "txn", "value": [["append", 3, 7], ["r", 5, null]]}
    {"index": 6, "time": 84211, "process": 0, "type": "ok", "f": "txn", "value": [["append", 3, 7], ["r", 5, [1, 2]]]}

Each element is appended once, so what is read tells which transactions a reader has seen, and in which
order their writes stand (Kingsbury and Alvaro: "Elle", VLDB 2020). The checker is `adya`, which finds the
same anomalies by the same rules and needs no JVM.
"""

import json
import os
import random
import subprocess
import threading
import time
from pathlib import Path

import psycopg
from psycopg import errors

from .processes import REPOSITORY

SNAPSHOT = "strong-snapshot-isolation"
COMMITTED = "strong-read-committed"
SERIALIZABLE = "strict-serializable"
# A key is not appended to any more when it has so many elements.
LONGEST = 40


class History:
    """What clients saw, in the order in which they saw it."""

    def __init__(self):
        self.events, self.lock, self.began = [], threading.Lock(), time.monotonic_ns()
        self.processes = 0

    def note(self, process, kind, value):
        with self.lock:
            self.events.append({
                "index": len(self.events), "time": time.monotonic_ns() - self.began,
                "process": process, "type": kind, "f": "txn", "value": value})

    def new_process(self):
        with self.lock:
            self.processes += 1
            return self.processes - 1

    def count(self, kind):
        return sum(event["type"] == kind for event in self.events)

    def write(self, path):
        path.write_text("".join(json.dumps(event) + "\n" for event in self.events))
        return path


def of_transactions(*transactions):
    """A history by hand: transactions beside each other, each with its outcome and what it did."""
    history = History()
    for process, (_, value) in enumerate(transactions):
        history.note(process, "invoke", [[f, k, None if f == "r" else v] for f, k, v in value])
    for process, (outcome, value) in enumerate(transactions):
        history.note(process, outcome, value)
    return history


def one_after_the_other(*transactions):
    """The same, but each begins when the one before it has ended."""
    history = History()
    for process, (outcome, value) in enumerate(transactions):
        history.note(process, "invoke", [[f, k, None if f == "r" else v] for f, k, v in value])
        history.note(process, outcome, value)
    return history


def check(history, path, level):
    """What the checker says of a history, after it was written to a file: whether it is `valid`
    under a consistency model, the `anomaly_types` in it and, for each, an explanation."""
    adya = Path(os.environ.get("FROGLET_ADYA", REPOSITORY / "target/test-tools/bin/adya"))
    assert adya.exists(), f"{adya} is not installed: run ./test, which installs what the tests need"
    done = subprocess.run(
        [adya, "check", "--model", "list-append", "--consistency-models", level,
         "--cycle-search-timeout", "20000", "--json", history.write(path)],
        capture_output=True, text=True, timeout=300)
    assert done.returncode in (0, 1), f"{done.returncode}: {done.stdout}{done.stderr}"
    return json.loads(done.stdout)


class Appender(threading.Thread):
    """Runs transactions of a few appends and reads, until it is stopped. Where the server may be
    killed, it comes back as another process, as it does not know what its last one has done."""

    def __init__(self, server, history, level, keys, seed, may_be_killed=False):
        super().__init__(daemon=True)
        self.server, self.history, self.level, self.keys = server, history, level, keys
        self.rng, self.failure, self.stopped = random.Random(seed), None, threading.Event()
        self.may_be_killed, self.process = may_be_killed, history.new_process()

    def run(self):
        while not self.stopped.is_set():
            try:
                with self.server.connect() as connection:
                    while not self.stopped.is_set():
                        self.transaction(connection)
            except BaseException as error:
                if not (self.may_be_killed and isinstance(error, psycopg.OperationalError) and not error.sqlstate):
                    self.failure = error
                    return
                self.process = self.history.new_process()
                time.sleep(0.01)

    def transaction(self, connection):
        wanted = [self.keys.append(self.rng) if self.rng.random() < 0.5 else ["r", self.keys.any(self.rng), None]
                  for _ in range(self.rng.randint(1, 5))]
        self.history.note(self.process, "invoke", wanted)
        try:
            connection.execute(f"begin isolation level {self.level}")
            done = [self.operation(connection, *operation) for operation in wanted]
            connection.execute("commit")
        except (errors.SerializationFailure, errors.DeadlockDetected):
            self.history.note(self.process, "fail", wanted)
            connection.execute("rollback")
        except psycopg.OperationalError:
            self.history.note(self.process, "info", wanted)
            raise
        else:
            self.history.note(self.process, "ok", done)

    def operation(self, connection, f, key, element):
        table = "others" if key % 2 else "lists"
        if f == "append":
            connection.execute(
                f"insert into {table} as t (k, v) values (%s, %s) on conflict (k) do update set v = t.v || excluded.v",
                [key, f"{element},"])
            return [f, key, element]
        # Half of the reads by key, half by a scan.
        condition = "k = %s" if self.rng.random() < 0.5 else "k + 0 = %s"
        rows = connection.execute(f"select v from {table} where {condition}", [key]).fetchall()
        assert len(rows) <= 1, f"key {key} is there {len(rows)} times"
        return [f, key, [int(n) for [v] in rows for n in v.split(",")[:-1]]]


class Keys:
    """A few keys at a time; one that has become long makes way for a new one."""

    def __init__(self, at_once=10):
        self.lock, self.next_key, self.next_element = threading.Lock(), at_once, 1
        self.lengths = dict.fromkeys(range(at_once), 0)

    def any(self, rng):
        with self.lock:
            return rng.choice(list(self.lengths))

    def append(self, rng):
        key = self.any(rng)
        with self.lock:
            self.next_element += 1
            if key in self.lengths:
                self.lengths[key] += 1
                if self.lengths[key] == LONGEST:
                    del self.lengths[key]
                    self.lengths[self.next_key] = 0
                    self.next_key += 1
            return ["append", key, self.next_element]
