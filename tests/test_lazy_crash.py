"""Lazy migrations under clients that touch the same rows, and kill -9 at random moments: each row is moved once.

A row of the target is its id and a number that the query makes of it. Clients add one to the numbers of random
rows, delete rows, and take keys for new ones; they remember what they were told. What is in the table after a
restart is what the query makes of the source, and then what they were told: a row that is moved twice has lost
what was added to it, or has come back.

FROGLET_TEST_KILLS sets how many servers are killed (6).
"""

import os
import random
import threading
import time
from collections import Counter

import pytest
from psycopg import errors

from support.loads import Session
from support.processes import wait_until

KILLS = int(os.environ.get("FROGLET_TEST_KILLS", 6))
SEED = int(os.environ.get("FROGLET_TEST_SEED", 20261122))
ROWS, CLIENTS, NEW = 20_000, 4, 1_000_000
# How the rows are made, of which source, and the number that a row begins with.
ROW = "select id, id * 3 as n, w from s where id % 10 <> 7"
KINDS = {
    "dropped": (f"create table t as {ROW}", "drop table s"),
    "kept": (f"create table t as {ROW}",),
    "joined": ("create table t as select s.id, p.v as n, s.w from s join p on p.id = s.p where s.m <> 7",
               "drop table s"),
    # Of a table that is itself being made lazily (`CHAINED`), and dropped or not.
    "chained": ("create table t as select m.id, p.v as n, m.w from m join p on p.id = m.p where m.m <> 7",
                "drop table m"),
    "kept chain": ("create table t as select id, p * 3 as n, w from m where m <> 7",),
}
CHAINED = ("create table m as select s.*, v from s join p on p.id = s.p where s.m < 9 or s.p = s.id",
           "alter table m add primary key (id)", "alter table m add unique (w)", "drop table s")


class Known:
    """What clients were told, and what they are not sure of."""

    def __init__(self):
        self.added, self.doubtful = Counter(), Counter()
        self.deleted, self.doubtfully_deleted = set(), set()
        self.inserted, self.doubtfully_inserted = set(), set()
        self.lock = threading.Lock()


class Client(Session):
    def __init__(self, server, known, me, seed):
        super().__init__(server, f"{seed} {me}")
        self.known, self.me = known, me
        self.numbers = iter(range(NEW + me, 10**9, CLIENTS))

    def connect(self):
        return self.server.connect(autocommit=False)

    def transaction(self, connection):
        added, deleted, inserted = Counter(), set(), set()
        rng = self.rng
        try:
            for id in sorted(rng.sample(range(1, ROWS + 1), rng.randint(1, 4))):
                id = rng.randint(1, 50) if rng.random() < 0.3 else id
                kind = rng.random()
                if kind < 0.75:
                    column, value = ("id", id) if rng.random() < 0.7 else ("w", id + 5 * ROWS)
                    done = connection.execute(f"update t set n = n + 1 where {column} = %s", [value])
                    added[id] += done.rowcount
                elif kind < 0.85 and id > 50:
                    if connection.execute("delete from t where id = %s", [id]).rowcount:
                        deleted.add(id)
                elif kind < 0.9:
                    # It is there, or was never made, or is deleted: it stays as it is.
                    connection.execute("savepoint a")
                    connection.execute("insert into t (id, n) values (%s, -1) on conflict do nothing", [id])
                    connection.execute("rollback to a")
                else:
                    new = next(self.numbers)
                    connection.execute("insert into t (id, n, w) values (%s, 0, %s)", (new, new))
                    inserted.add(new)
            committing = True
            with self.known.lock:
                self.known.doubtful += added
                self.known.doubtfully_deleted |= deleted
                self.known.doubtfully_inserted |= inserted
            if rng.random() < 0.1:
                connection.rollback()
                committing = False
            else:
                connection.commit()
        except (errors.DeadlockDetected, errors.SerializationFailure):
            connection.rollback()
            committing = False
        self.settle(added, deleted, inserted, committing)

    def settle(self, added, deleted, inserted, committed):
        """It is known what has become of a transaction."""
        known = self.known
        with known.lock:
            known.doubtful -= added
            known.doubtfully_deleted -= deleted
            known.doubtfully_inserted -= inserted
            if committed:
                known.added += added
                known.deleted |= deleted
                known.inserted |= inserted


def check(server, known):
    """The table is what it was made of and what was told."""
    rows = server.rows("select id, n, w from t")
    found = {id: n for id, n, _ in rows}
    assert len(found) == len(rows) == server.value("select count(*) from t")
    assert all(w == (id if id >= NEW else id + 5 * ROWS) for id, _, w in rows)
    wrong = []
    for id in range(1, ROWS + 1):
        if id % 10 == 7 or id in known.deleted:
            right = id not in found
        elif id not in found:
            right = id in known.doubtfully_deleted
        else:
            least = id * 3 + known.added[id]
            right = least <= found[id] <= least + known.doubtful[id]
        if not right:
            wrong.append((id, found.get(id), known.added[id], known.doubtful[id], id in known.deleted))
    assert not wrong, f"{len(wrong)}: {wrong[:10]}"
    new = {id for id in found if id > ROWS}
    assert known.inserted <= new <= known.inserted | known.doubtfully_inserted
    # What is there is now certain.
    for id, n in found.items():
        if id <= ROWS:
            known.added[id] = n - id * 3
    known.deleted = {id for id in range(1, ROWS + 1) if id % 10 != 7 and id not in found}
    known.inserted = new
    known.doubtful, known.doubtfully_deleted, known.doubtfully_inserted = Counter(), set(), set()
    with server.connect() as c:
        for id in random.Random(1).sample(range(1, ROWS + 1), 60):
            expected = [(found[id],)] if id in found else []
            assert c.execute("select n from t where id = %s", [id]).fetchall() == expected
            assert c.execute("select n from t where w = %s", [id + 5 * ROWS]).fetchall() == expected


@pytest.mark.parametrize("kind", KINDS)
def test_kills(start, kind):
    rng = random.Random(f"{SEED} {kind}")
    server = start()
    known, kills = None, 0
    while kills < max(KILLS // len(KINDS), 1):
        if known is None:
            known = Known()
            made(server, rng, kind)
        server.killed = False
        clients = [Client(server, known, me, f"{SEED} {kind} {kills}") for me in range(CLIENTS)]
        for client in clients:
            client.numbers = iter(range(NEW * (kills + 1) + client.me, 10**9, CLIENTS))
            client.start()
        time.sleep(rng.random() * rng.choice((0.1, 0.5, 1.5)))
        if "kept" in kind and rng.random() < 0.5:
            # What becomes of the source is no matter of the target's.
            of = "m" if "chain" in kind else "s"
            server.run(f"update {of} set w = -id, id = -id where id between 5000 and 9000", f"delete from {of} where id % 3 = 1")
        if rng.random() < 0.3:
            server.run("checkpoint")
        server.killed = True
        server.kill()
        for client in clients:
            client.stopping.set()
            client.join(60)
            assert not client.is_alive() and client.failure is None, f"{client.failure!r}"
        server.start()
        kills += 1
        check(server, known)
        phase = server.value("select phase from froglet.migrations where table_name in ('t', 's') and kind = 'table'"
                             " order by id desc limit 1")
        if phase == "done" or rng.random() < 0.2:
            server.run("alter table t add constraint k check (id > 0)")
            check(server, known)
            known = None


def made(server, rng, kind):
    """A source, and its target as of a flip."""
    with server.connect() as c:
        for name in ("t", "m", "s", "p"):
            c.execute(f"drop table if exists {name}")
        c.execute("create table p (id int primary key, v int)")
        c.execute(f"insert into p select i, i * 3 from generate_series(1, {ROWS}) i")
        c.execute("create table s (id int primary key, p int, w int unique, m int)")
        c.execute(f"insert into s select i, i, i + {5 * ROWS}, i % 10 from generate_series(1, {ROWS}) i")
        c.execute("set froglet.migration = lazy")
        c.execute(f"set froglet.migration_delay = '{rng.choice(('0', '0', '300ms', '1h'))}'")
        c.execute(f"set froglet.migration_granule_rows = {rng.choice((1, 64, 256))}")
        c.execute(f"set froglet.migration_detection = {rng.choice(('tracker', 'on_conflict'))}")
        c.execute(f"set froglet.migration_rows_per_second = {rng.choice((0, 10_000, 40_000))}")
        if "chain" in kind:
            with c.transaction():
                for sql in CHAINED:
                    c.execute(sql)
            c.execute("update m set v = -1 where id between 100 and 200")
        first, *others = KINDS[kind]
        with c.transaction():
            c.execute(first)
            c.execute("alter table t add primary key (id)")
            c.execute("alter table t add unique (w)")
            for sql in others:
                c.execute(sql)
    wait_until(lambda: server.value("select count(*) from t") == ROWS - ROWS // 10, "the table is there")


def test_rows_are_not_moved_together_before_their_migration_goes_on(start):
    """The compactor is at work from the start on. It moved rows of a table that is made lazily into places of rows which
    were still to be made: the background died of it, and whoever wanted such a row waited for ever."""
    server = start(environment={"FROGLET_FREEZE_AFTER": "0s", "FROGLET_SETTING_STATEMENT_TIMEOUT": "30s"})
    rows, touched = 40_000, list(range(1, 40_000, 50))
    with server.connect() as connection:
        connection.execute("set froglet.migration_delay = '1h'")
        connection.execute("create table s (id int primary key, n int)")
        connection.execute("insert into s select i, i from generate_series(1, %s) i", [rows])
        connection.execute("begin")
        connection.execute("create table t with (migration = lazy) as select id, n * 2 as n from s")
        connection.execute("alter table t add primary key (id)")
        connection.execute("commit")
    for restart in range(4):
        server.run(*(f"update t set n = n + 1 where id = {id}" for id in touched[restart::8]), "vacuum")
        server.kill_and_restart()
        server.run("vacuum")
    id = server.value("select id from froglet.migrations where table_name = 't' and kind = 'table'")
    server.run(f"select froglet.resume_migration({id})", "update s set n = n", "set froglet.migration_delay = 0")
    changed = {id for restart in range(4) for id in touched[restart::8]}
    found = dict(server.rows("select id, n from t where id > 0"))
    assert found == {id: id * 2 + (id in changed) for id in range(1, rows + 1)}
    for id in range(1, rows, 977):
        assert server.rows("update t set n = n where id = %s returning n", [id]) == [(found[id],)]
