"""Who keeps old versions from being collected, and that nobody does who has gone.

`froglet.held_back` shows every read view and every pin; beside one old view memory does not grow with the writes.
"""

import socket
import struct
import time

import pytest
from psycopg import errors


def held_by_sessions(server):
    """The rows of others than the one who asks."""
    return server.rows("select pid, held_by, behind from froglet.held_back"
                       " where pid is distinct from pg_backend_pid() and held_by like '%%transaction%%' order by as_of")


def wait_for(condition, seconds=60):
    end = time.monotonic() + seconds
    while not (got := condition()):
        assert time.monotonic() < end, "it does not come about"
        time.sleep(0.05)
    return got


def export(server):
    session = server.connect(autocommit=False)
    session.execute("begin isolation level repeatable read" if session.autocommit else "set transaction isolation level repeatable read")
    [[name]] = session.execute("select pg_export_snapshot()").fetchall()
    return session, name


def commit_some(server):
    server.run("create table if not exists t (n int)", "insert into t values (1)", "update t set n = n + 1")


def cut_off(session):
    """The connection is gone, without a word."""
    connection = socket.socket(fileno=session.fileno())
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.shutdown(socket.SHUT_RDWR)
    connection.detach()
    session.close()


@pytest.mark.parametrize("end", ["close", "cut off", "terminate", "fail"])
def test_an_exported_snapshot_goes_with_its_transaction_however_that_ends(froglet, end):
    session, name = export(froglet)
    commit_some(froglet)
    [[pid, held_by, behind]] = held_by_sessions(froglet)
    assert (pid, held_by) == (session.info.backend_pid, "transaction")
    assert behind > 0
    match end:
        case "close":
            session.close()
        case "cut off":
            cut_off(session)
        case "terminate":
            froglet.run(f"select pg_terminate_backend({pid})")
        case "fail":
            with pytest.raises(errors.DivisionByZero):
                session.execute("select 1/0")
    wait_for(lambda: not held_by_sessions(froglet))
    with froglet.connect(autocommit=False) as other, pytest.raises(errors.InvalidParameterValue):
        other.execute("set transaction isolation level repeatable read, read only")
        other.execute(f"set transaction snapshot '{name}'")


@pytest.mark.parametrize("left", [
    ["declare c cursor for select * from generate_series(1, 100000)", "fetch 3 from c"],
    ["declare c cursor with hold for select * from t"],
    ["select pg_advisory_xact_lock(1)", "select pg_advisory_lock(2)"],
    ["create temporary table own (n int)", "insert into own values (1)"],
    ["select * from t for update", "savepoint s", "update t set n = 7"],
    ["listen c", "notify c", "select nextval('s')"],
])
def test_a_session_that_is_cut_off_leaves_nothing(froglet, left):
    froglet.run("create table t (n int)", "insert into t values (1)", "create sequence s")
    session = froglet.connect(autocommit=False)
    for statement in left:
        session.execute(statement)
    session.execute("select pg_export_snapshot()")
    commit_some(froglet) if "for update" not in left[0] else None
    cut_off(session)
    wait_for(lambda: not held_by_sessions(froglet))
    wait_for(lambda: froglet.value("select count(*) from pg_locks where locktype = 'advisory'") == 0)
    wait_for(lambda: froglet.value("select count(*) from pg_class where relname = 'own'") == 0)
    froglet.run("set lock_timeout = '5s'; update t set n = n + 1")


def test_a_view_says_since_when_and_how_far_behind(start):
    server = start(environment={"FROGLET_RETENTION": "1min"})
    session, _ = export(server)
    commit_some(server)
    [[held_by, statement, age, behind, since_is_past]] = server.rows(
        "select held_by, statement, age_seconds, behind, since <= now() from froglet.held_back where pid = %s",
        [session.info.backend_pid])
    assert (held_by, statement, since_is_past) == ("transaction", "select pg_export_snapshot()", True)
    assert 0 <= age < 600
    assert behind >= 3
    session.close()


def test_writers_go_on_beside_an_old_snapshot_and_memory_does_not_grow(start):
    """32089e8 refused every write from 53200 on, until the snapshot ended."""
    server = start(environment={"FROGLET_MEMORY_LIMIT": "64MB", "FROGLET_SYNCHRONOUS_COMMIT": "off"})
    server.run("create table t (id int primary key, v bigint, pad text)",
               "insert into t select g, 0, 'some padding that is longer than twelve bytes ' || g"
               " from generate_series(1, 100) g")
    old = server.connect(autocommit=False)
    old.execute("set transaction isolation level repeatable read")
    before = old.execute("select sum(v), max(pad) from t").fetchall()
    with server.connect(autocommit=False) as writer:
        # About 150 MB of versions.
        for _ in range(60):
            with writer.pipeline():
                for i in range(1000):
                    writer.execute("update t set v = v + 1, pad = pad || '' where id = %s", [1 + i % 100])
                    if i % 5 == 0:
                        writer.execute("commit")
            writer.commit()
    assert old.execute("select sum(v), max(pad) from t").fetchall() == before
    assert server.value("select sum(v) from t") == 60_000
    assert server.value("select versions from froglet.blocks where table_name = 't'") < 20_000
    old.close()


def test_a_refusal_names_who_holds_back(start):
    server = start(environment={"FROGLET_MEMORY_LIMIT": "32MB"})
    server.run("create table t (id int primary key, pad text)")
    old = server.connect(autocommit=False)
    old.execute("set transaction isolation level repeatable read")
    old.execute("select count(*) from t").fetchall()
    time.sleep(5.5)
    with pytest.raises(errors.OutOfMemory) as refused:
        for n in range(200):
            # Rows that come and go stay for the old snapshot: it would not see them, but their places are not free.
            server.run(f"insert into t select g, repeat('x', 500) from generate_series({n * 1000}, {n * 1000 + 999}) g",
                       "delete from t")
    assert f"pid {old.info.backend_pid}" in refused.value.diag.message_hint
    assert "froglet.held_back" in refused.value.diag.message_hint
    old.close()
    wait_for(lambda: not held_by_sessions(server))
