"""Hermitage's anomalies that snapshots let through, and SERIALIZABLE must not: write skew in all its forms.

The others (G0 to G-single, P4) are stories in `stories/isolation`. Each scenario here is run at REPEATABLE READ, where
everybody may commit, and at SERIALIZABLE, where somebody must fail with 40001 and the others must have an order.
"""

import psycopg
import pytest
from psycopg import errors

TEST = ["create table test (id int primary key, value int)", "insert into test values (1, 10), (2, 20)"]
# What a session reads or writes, in turn. `commit` ends it.
SCENARIOS = {
    # Each changes the other row of two that both have read.
    "G2-item": (TEST, [
        (1, "select * from test where id in (1, 2)"), (2, "select * from test where id in (1, 2)"),
        (1, "update test set value = 11 where id = 1"), (2, "update test set value = 21 where id = 2"),
        (1, "commit"), (2, "commit")]),
    # Each inserts a row that the other would have found.
    "G2": (TEST, [
        (1, "select * from test where value % 3 = 0"), (2, "select * from test where value % 3 = 0"),
        (1, "insert into test values (3, 30)"), (2, "insert into test values (4, 42)"),
        (1, "commit"), (2, "commit")]),
    # A reader sees a writer that an older writer has not seen.
    "G2 of two edges": (TEST, [
        (1, "select * from test"), (2, "update test set value = value + 5 where id = 2"), (2, "commit"),
        (3, "select * from test"), (3, "commit"), (1, "update test set value = 0 where id = 1"), (1, "commit")]),
    "G2 by a range of an index": (TEST, [
        (1, "select * from test where id between 100 and 200"), (2, "select * from test where id between 100 and 200"),
        (1, "insert into test values (150, 1)"), (2, "insert into test values (151, 1)"),
        (1, "commit"), (2, "commit")]),
    "G2 by a key that is not there": (TEST, [
        (1, "select * from test where id = 7"), (2, "select * from test where id = 8"),
        (1, "insert into test values (8, 0)"), (2, "insert into test values (7, 0)"),
        (1, "commit"), (2, "commit")]),
    "G2 by aggregates": (TEST, [
        (1, "select sum(value) from test"), (2, "select sum(value) from test"),
        (1, "insert into test values (3, 30)"), (2, "insert into test values (4, 30)"),
        (1, "commit"), (2, "commit")]),
    "G2 by deletes": (TEST, [
        (1, "select count(*) from test"), (2, "select count(*) from test"),
        (1, "delete from test where id = 1"), (2, "delete from test where id = 2"),
        (1, "commit"), (2, "commit")]),
    "G2 by INSERT SELECT": (
        [*TEST, "create table other (id int primary key, value int)"], [
            (1, "insert into other select 1, count(*) from test"), (2, "insert into test select 3, count(*) from other"),
            (1, "commit"), (2, "commit")]),
    # A report of a closed batch, before the last receipt of it.
    "read-only anomaly": (
        ["create table batch (id int primary key, number int)", "insert into batch values (1, 1)",
         "create table receipt (id int primary key, batch int, amount int)"], [
            (1, "select number from batch where id = 1"), (2, "update batch set number = 2 where id = 1"), (2, "commit"),
            (3, "select number from batch where id = 1"), (3, "select sum(amount) from receipt where batch = 1"),
            (3, "commit"), (1, "insert into receipt values (1, 1, 100)"), (1, "commit")]),
}


def play(server, setup, steps, level):
    """The sessions that committed, and those that were refused."""
    server.run(*setup)
    sessions = {name: server.connect() for name, _ in steps}
    refused = set()
    for name, connection in sessions.items():
        if name != 3:  # A reader's snapshot is of its turn.
            connection.execute(f"begin isolation level {level}")
            connection.execute("select count(*) from pg_class where relname = 'nothing'")
    for name, sql in steps:
        connection = sessions[name]
        if name in refused:
            continue
        if connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE:
            connection.execute(f"begin isolation level {level}")
        try:
            connection.execute(sql)
        except errors.SerializationFailure:
            refused.add(name)
            connection.execute("rollback")
    for connection in sessions.values():
        connection.close()
    return set(sessions) - refused, refused


@pytest.mark.parametrize("name", SCENARIOS)
def test_snapshots_let_it_through(server, name):
    committed, refused = play(server, *SCENARIOS[name], "repeatable read")
    assert not refused and len(committed) >= 2


@pytest.mark.parametrize("name", SCENARIOS)
def test_serializable_does_not(server, name):
    committed, refused = play(server, *SCENARIOS[name], "serializable")
    assert committed and refused


def test_serializable_refuses_nobody_for_nothing(server):
    """Sessions that have nothing to do with each other all commit, and so does who comes after."""
    server.run(*TEST)
    with server.connect() as one, server.connect() as other:
        for connection, row in ((one, 1), (other, 2)):
            connection.execute("begin isolation level serializable")
            connection.execute("select * from test where id = %s", [row])
        for connection, row in ((one, 1), (other, 2)):
            connection.execute("update test set value = value + 1 where id = %s", [row])
            connection.execute("commit")
    assert server.rows("select value from test order by id") == [(11,), (21,)]
