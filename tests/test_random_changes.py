"""Random schema changes against random writers.

`test_history`: statements of five sessions one after the other, each answer and the final state held against
the model (`support/model.py`, `support/history.py`); PostgreSQL makes the same schema changes at rest.

`test_traffic`: writers as fast as they can, each with rows of its own, of which it knows the last that
was committed; every row is there, whole and as it was written last, whatever was changed meanwhile.

A failure names its seed and tells the history as a story, made as short as it still fails; it goes to
`stories/migration` with its explanation.

    FROGLET_TEST_SEEDS=N    so many histories instead of 20 and 10, and N / 20 rounds of traffic
    FROGLET_TEST_SEED=S     begin with this seed
"""

import os
import random
import time
from collections import Counter

import psycopg
import pytest
from psycopg import errors

from support import history
from support.loads import Session
from support.processes import wait_until
from support.tables import NotModelled

SEEDS = int(os.environ.get("FROGLET_TEST_SEEDS", 0))
FIRST = int(os.environ.get("FROGLET_TEST_SEED", 20261122))
HISTORIES, LENGTH = SEEDS or 20, 40
ROUNDS = SEEDS // 20 or 1
MODES = {"plain": {}, "with kills": {"kills": True},
         "lazy": {"lazy": True}, "lazy with kills": {"lazy": True, "kills": True}}


@pytest.mark.parametrize("mode", MODES)
def test_history(froglet, postgres, mode):
    counts, offline = Counter(), history.Offline(postgres)
    for seed in range(FIRST, FIRST + (HISTORIES // 2 if "kills" in mode else HISTORIES)):
        rng = random.Random(f"{mode} {seed}")
        try:
            counts += history.generated(froglet, rng, LENGTH, offline, **MODES[mode])
        except history.Wrong as wrong:
            history.shrunk(froglet, wrong, offline)
            pytest.fail(f"seed {seed}, {mode}: {wrong.kind}\n{wrong}", pytrace=False)
        except NotModelled:
            counts["not modelled"] += 1  # Another session has made it so while the statement waited.
    print(f"{mode}: {dict(counts)}")
    # Who is only ever refused proves nothing.
    assert counts["schema committed"] > 5 * counts["schema not committed"]
    # Open writers of what goes into a join have to begin again.
    assert counts["rows committed"] > (3 if "lazy" in mode else 5) * counts["rows not committed"]
    assert counts["changed"] > 2 * counts["change failed"]
    assert counts["waits"] and counts["offline"]
    assert counts["not modelled"] <= 1 + HISTORIES // 50
    assert ("lazy" in mode) == (counts["made lazily"] > 0)
    assert mode != "lazy" or counts["moved lazily"]
    assert mode != "lazy" or counts["by pairs"]
    allowed = sum(counts[name] for name in ("followed", "owner of units", "new parent",
                                            "told early", "older schema", "at its snapshot"))
    assert allowed <= 3 + HISTORIES // 5, counts
    # Two that write several rows in other orders meet so in PostgreSQL, too.
    assert counts["deadlock"] <= 3 + HISTORIES // 5, counts


# Traffic ------------------------------------------------------------------------------------------

WRITERS, ROWS, TRAFFIC_SECONDS = 3, 600, 5


class Writer(Session):
    """Writes rows of its own: ids that are `me` modulo WRITERS. `known` has the last number that was
    committed of each, `doubtful` those of a transaction of which nobody has heard."""

    def __init__(self, server, me, seed):
        super().__init__(server, f"{seed} writer {me}")
        self.me, self.known = me, {id: 0 for id in range(me, ROWS, WRITERS)}
        self.doubtful, self.numbers = {}, iter(range(1, 10**9))

    def connect(self):
        connection = self.server.connect(autocommit=False)
        if self.rng.random() < 0.3:
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        return connection

    def transaction(self, connection):
        """Some writes, all or none of which are then known."""
        writes = self.doubtful = {}
        try:
            for _ in range(self.rng.randint(1, 4)):
                self.write(connection, writes)
                if self.rng.random() < 0.1:
                    self.taken_back(connection)
            if self.rng.random() < 0.1:
                connection.rollback()
                writes.clear()
            else:
                connection.commit()
                self.counts["committed"] += 1
        except errors.SerializationFailure:
            # Its table went, and its rows could not follow.
            connection.rollback()
            self.counts["run again"] += 1
            writes.clear()
        self.known |= writes
        self.doubtful = {}

    def write(self, connection, writes):
        id, n = self.rng.choice(list(self.known)), next(self.numbers)
        number = writes.get(id, self.known[id])
        if number is None:
            done = connection.execute("insert into t (id, n, s) values (%s, %s, %s)", (id, n, f"s{n}"))
        elif self.rng.random() < 0.15:
            n, done = None, connection.execute("delete from t where id = %s", [id])
        else:
            # What it has written last is what it meets.
            done = connection.execute(
                "update t set n = %s, s = %s where id = %s and n = %s and s = %s",
                (n, f"s{n}", id, number, f"s{number}"))
        assert done.rowcount == 1, f"row {id} is not as it was committed: {number}"
        writes[id] = n

    def taken_back(self, connection):
        connection.execute("savepoint back")
        connection.execute("update t set n = 0, s = 'lost' where id %% %s = %s and id < 30",
                           (WRITERS, self.me))
        connection.execute("rollback to back")


class Changer(Session):
    """Random schema changes that the writers' statements fit before and after."""

    def __init__(self, server, seed):
        super().__init__(server, f"{seed} changer")
        self.number, self.columns, self.indexes = 0, [], []

    def transaction(self, connection):
        columns, indexes = list(self.columns), list(self.indexes)
        repeatable = self.rng.random() < 0.2
        connection.execute("begin isolation level repeatable read" if repeatable else "begin")
        try:
            for _ in range(self.rng.randint(1, 3)):
                if self.rng.random() < 0.2:
                    connection.execute("savepoint s")
                    self.change(connection, list(columns), list(indexes))
                    connection.execute("rollback to s")
                self.change(connection, columns, indexes)
                time.sleep(self.rng.random() * 0.02)
            if self.rng.random() < 0.15:
                connection.execute("rollback")
                self.counts["rolled back"] += 1
                return
            connection.execute("commit")
            self.columns, self.indexes = columns, indexes
            self.counts["committed"] += 1
        except errors.SerializationFailure:
            connection.execute("rollback")
            self.counts["run again"] += 1

    def mode(self):
        """Whether a column is computed before the commit, or after it."""
        return f"set local froglet.migration = {self.rng.choice(('eager', 'lazy', 'lazy'))}"

    def made(self):
        """Whether a table is made before the commit, or after it unless it is needed before."""
        return f"set local froglet.migration = {self.rng.choice(('eager', 'auto'))}"

    def connect(self):
        connection = self.server.connect()
        connection.execute("set froglet.migration_auto_rows = 0")
        connection.execute(f"set froglet.migration_delay = '{self.rng.choice(('1h', '0', '20ms'))}'")
        return connection

    def change(self, connection, columns, indexes):
        rng = self.rng
        self.number += 1
        new, kind = f"c{self.number}", rng.randrange(9)
        if kind == 0:
            columns.append(new)
            statements = [f"alter table t add column {new} int not null default {self.number}"]
        elif kind == 1:
            new = f"g{self.number}"
            columns.append(new)
            statements = [self.mode(),
                          f"alter table t add column {new} bigint generated always as (n * 2 + id) stored"]
        elif kind == 2 and columns:
            statements = [f"alter table t drop column {columns.pop()}"]
        elif kind == 3:
            statements = [self.mode(), "alter table t alter column s type text using s || ''"]
            if not any(column.startswith("g") for column in columns):
                statements += ["set local froglet.migration = auto",
                               f"alter table t alter column n type {rng.choice(('int', 'bigint'))} using n + 0"]
        elif kind == 4:
            indexes.append(new)
            statements = [f"create {rng.choice(('unique index', 'index'))} {new} on t (n, id)"]
        elif kind == 5 and indexes:
            statements = [f"drop index {indexes.pop()}"]
        elif kind == 6:
            statements = [f"alter table t add constraint {new} check (s = 's' || n)",
                          f"alter table t drop constraint {new}"]
        elif kind == 7:
            statements = [self.made(),
                          f"create table {new} as select n % 7 as k, count(*) as n from t group by n % 7",
                          f"drop table {new}"]
        else:
            statements = [self.made(), f"create table {new} as select * from t",
                          f"alter table {new} add constraint {new}_key primary key (id)",
                          "drop table t", f"alter table {new} rename to t"]
            if rng.random() < 0.5:
                # Whatever was to be made lazily is made now.
                statements.append("update t set n = n where id < 2")
            indexes.clear()
        for statement in statements:
            connection.execute(statement)


class Copier(Changer):
    """Makes the table anew of what its snapshot sees, and of what has changed since: a writer between its commit's
    timestamp and the verdict was missed by the look at what had changed, and by the feed."""

    def transaction(self, connection):
        self.number += 1
        new = f"c{self.number}"
        connection.execute("begin isolation level repeatable read")
        try:
            for sql in ("set local froglet.migration = eager", f"create table {new} as select * from t",
                        f"alter table {new} add constraint {new}_key primary key (id)",
                        "drop table t", f"alter table {new} rename to t", "commit"):
                connection.execute(sql)
            self.counts["committed"] += 1
        except errors.SerializationFailure:
            connection.execute("rollback")
            self.counts["run again"] += 1


@pytest.mark.parametrize("changers, kill", [(Changer, False), (Changer, True), (Copier, False)],
                         ids=["", "kill", "copies"])
@pytest.mark.parametrize("number", range(ROUNDS))
def test_traffic(froglet, number, changers, kill):
    seed = f"{FIRST + number} {kill}"
    froglet.killed = False
    froglet.run("create table t (id int primary key, n int, s text)",
                f"insert into t select x, 0, 's0' from generate_series(0, {ROWS - 1}) g(x)")
    writers = [Writer(froglet, me, seed) for me in range(WRITERS)]
    changer = changers(froglet, seed)
    for thread in [*writers, changer]:
        thread.start()
    deadline = time.monotonic() + TRAFFIC_SECONDS
    with froglet.connect() as reader:
        while time.monotonic() < deadline:
            assert reader.execute("select id, n, s from t where s is distinct from 's' || n").fetchall() == []
    wait_until(lambda: changer.counts["committed"] > 3 or changer.failure, "some changes are made")
    if kill:
        froglet.killed = True
        froglet.kill()
    for thread in [*writers, changer]:
        thread.stopping.set()
        thread.join(60)
        assert not thread.is_alive(), f"seed {seed}: a session hangs"
        assert thread.failure is None, f"seed {seed}: {thread.failure!r}"
    if kill:
        froglet.start()
    print(f"seed {seed}: {dict(changer.counts)}, writers {[dict(w.counts) for w in writers]}")
    assert all(w.counts["committed"] > 5 * w.counts["run again"] for w in writers)

    found = {id: (n, s) for id, n, s in froglet.rows("select id, n, s from t")}
    assert froglet.value("select count(*) from t") == len(found)
    for writer in writers:
        seen = {id: found.get(id) for id in writer.known}
        possible = [writer.known, writer.known | writer.doubtful]
        expected = [{id: None if n is None else (n, f"s{n}") for id, n in p.items()} for p in possible]
        assert seen in expected, (
            f"seed {seed}: " + str({id: (row, expected[0][id]) for id, row in seen.items()
                                    if row != expected[0][id]}))
    assert_indexes_agree(froglet, found)


def assert_indexes_agree(server, found):
    """By every index there are the same rows as in the table."""
    with server.connect() as connection:
        for id, (n, s) in random.Random(1).sample(sorted(found.items()), 100):
            assert connection.execute("select n, s from t where id = %s", [id]).fetchall() == [(n, s)]
            assert connection.execute(
                "select s from t where n = %s and id = %s", [n, id]).fetchall() == [(s,)]
