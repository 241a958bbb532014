"""Deferrable keys under load: writers whose rows share keys inside a transaction, beside schema changes and crashes.

What two sessions make of one key is told in `stories/isolation/deferrable_keys.story`, on PostgreSQL, too.
"""

from collections import Counter

import pytest
from psycopg import errors

from support.loads import Session, stopped
from support.processes import wait_until

KEYS, WRITERS = 60, 4
TABLE = ("create table t (id int primary key, k int, v int)",
         f"insert into t select i, i, 0 from generate_series(1, {KEYS}) i")
KEY = "alter table t add constraint t_k unique (k) deferrable initially deferred"


class Writer(Session):
    """Passes keys on within transactions, takes some that others have, and gives some back."""

    def connect(self):
        return self.server.connect(autocommit=False)

    def transaction(self, connection):
        try:
            self.pass_keys_on(connection)
            connection.commit()
            self.counts["committed"] += 1
        except (errors.UniqueViolation, errors.DeadlockDetected, errors.SerializationFailure) as error:
            connection.rollback()
            self.counts[type(error).__name__] += 1

    def pass_keys_on(self, connection):
        rng = self.rng
        a, b, c = rng.sample(range(1, KEYS + 1), 3)
        if rng.random() < 0.2:
            connection.execute("set constraints all immediate")
        if rng.random() < 0.5:
            # In one statement keys go round.
            connection.execute("update t o set k = n.k, v = o.v + 1 from t n"
                               " where (o.id, n.id) in ((%s, %s), (%s, %s), (%s, %s))", (a, b, b, c, c, a))
        else:
            # In several: two rows have one key for a while.
            (mine,), (other,) = (connection.execute("select k from t where id = %s", [id]).fetchone() for id in (a, b))
            connection.execute("update t set k = %s, v = v + 1 where id = %s", [other, a])
            connection.execute("update t set k = %s, v = v + 1 where id = %s", [mine, b])
        if rng.random() < 0.2:
            connection.execute("insert into t values (%s, %s, 0)", [rng.randint(KEYS + 1, 10**9), rng.randint(1, KEYS)])


def at_work(server, seed):
    writers = [Writer(server, f"{seed} {me}") for me in range(WRITERS)]
    for writer in writers:
        writer.start()
    return writers


def keys_differ(server):
    """At a snapshot, by a scan of all rows."""
    assert server.rows("select k, count(*) from t group by k having count(*) > 1") == []
    assert server.value(f"select count(*) from t where id <= {KEYS}") == KEYS


def test_keys_differ_whatever_writers_do(server):
    """On both servers: some are refused, many are not, and what is committed has no two rows with one key."""
    server.run(*TABLE, KEY)
    writers = at_work(server, "load")
    wait_until(lambda: sum(w.counts["committed"] for w in writers) > 300 or any(w.failure for w in writers), "some commit", 120)
    counts = stopped(writers)
    assert counts["UniqueViolation"] > 5, counts
    keys_differ(server)


CHANGES = (
    "alter table t alter column k type bigint", "alter table t alter column k type numeric(20, 0) using k + 0",
    "alter table t add column n int default 3", "create index on t (k, v)", "alter table t drop column n",
    # Who has written under the one constraint commits under the other.
    f"alter table t drop constraint t_k; {KEY}", "alter table t alter column k type int using k",
    "alter table t add constraint t_kv unique (v, k) deferrable", "alter table t alter column v type bigint",
    f"alter table t drop constraint t_k; {KEY.replace('initially deferred', '')}; alter table t alter column k type bigint",
)


@pytest.mark.parametrize("kills", [False, True], ids=["running", "killed"])
def test_schema_changes_meanwhile(start, kills):
    """The key gets other types and another constraint while writers are at it; no duplicate slips through, at any snapshot."""
    server = start()
    server.killed = kills
    server.run(*TABLE, KEY)
    writers, counts = at_work(server, "changes"), Counter()

    def committed():
        return sum(writer.counts["committed"] for writer in writers)

    for at, change in enumerate(CHANGES):
        before = committed()
        with server.connect(autocommit=False) as connection:
            connection.execute(change)
        wait_until(lambda: committed() > before + 10 or any(w.failure for w in writers), "they go on", 60)
        if kills and at % 3 == 2:
            server.kill_and_restart()
            counts += stopped(writers)
            keys_differ(server)
            writers = at_work(server, f"after {change}")
        keys_differ(server)
    counts += stopped(writers)
    assert counts["UniqueViolation"] > 5 and counts["committed"] > 100, counts
    keys_differ(server)
