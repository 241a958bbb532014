"""Requests that are sent together: their answers may leave together, but none waits for a statement that waits.

Each test runs on Froglet and on PostgreSQL 15, and on Froglet over TLS.
"""

import select
import time

import psycopg
import pytest
from psycopg.pq import ExecStatus, PipelineStatus

SECONDS = 20
TABLE = ("create table t (id int primary key, v text)",
         "insert into t select n, repeat(n::text, 10) from generate_series(1, 100) g (n)")


@pytest.fixture(params=["froglet", "postgres", "froglet over TLS"])
def connect(request):
    """Connects to a server that has the table."""
    if request.param == "froglet over TLS":
        cert, key = request.getfixturevalue("certificate")
        safe = request.getfixturevalue("start")(arguments=["--tls-cert", str(cert), "--tls-key", str(key)])

        def connect():
            connection = psycopg.connect(host=safe.host, port=safe.port, user="postgres", dbname="postgres",
                                         autocommit=True, sslmode="require")
            assert connection.pgconn.ssl_in_use
            return connection
    else:
        connect = request.getfixturevalue(request.param).connect
    with connect() as connection:
        for statement in TABLE:
            connection.execute(statement)
    return connect


class Pipeline:
    """Requests, each with a Sync of its own, that are all sent before an answer is looked at."""

    def __init__(self, connection, *statements):
        self.connection = connection.pgconn
        for name, statement in statements:
            assert self.connection.prepare(name, statement).status == ExecStatus.COMMAND_OK
        self.connection.enter_pipeline_mode()
        self.connection.nonblocking = 1

    def send(self, name, *values):
        self.connection.send_query_prepared(name, [str(value).encode() for value in values])
        self.connection.pipeline_sync()

    def sent(self):
        while self.connection.flush():
            self.read(0.1)

    def read(self, seconds):
        select.select([self.connection.socket], [], [], seconds)
        self.connection.consume_input()

    def answer(self):
        """The result of the next request."""
        found = []
        until = time.monotonic() + SECONDS
        while True:
            while self.connection.is_busy():
                assert time.monotonic() < until, "an answer has not come"
                self.read(0.1)
            result = self.connection.get_result()
            if result is not None and result.status == ExecStatus.PIPELINE_SYNC:
                [one] = found
                return one
            if result is not None:
                found.append(result)

    def waits(self):
        """Whether nothing comes for a while."""
        self.read(0.5)
        return bool(self.connection.is_busy())


def test_answers_do_not_wait_for_a_statement_that_waits(connect):
    with connect() as holder, connect() as other:
        pipeline = Pipeline(other, (b"read", b"select v from t where id = $1"),
                            (b"write", b"update t set v = 'x' where id = $1"))
        holder.execute("begin")
        holder.execute("update t set v = 'held' where id = 7")
        for row in (1, 2, 3):
            pipeline.send(b"read", row)
        pipeline.send(b"write", 8)
        pipeline.send(b"write", 7)
        pipeline.send(b"read", 7)
        pipeline.sent()
        assert [pipeline.answer().get_value(0, 0) for _ in range(3)] == [b"1" * 10, b"2" * 10, b"3" * 10]
        assert pipeline.answer().command_tuples == 1
        assert pipeline.waits()
        holder.execute("commit")
        assert pipeline.answer().command_tuples == 1
        assert pipeline.answer().get_value(0, 0) == b"x"


def test_an_error_is_that_of_its_request(connect):
    with connect() as connection:
        pipeline = Pipeline(connection, (b"read", b"select 1 / (id - 3), v from t where id = $1"))
        for row in (1, 2, 3, 4, 5):
            pipeline.send(b"read", row)
        pipeline.sent()
        states = [pipeline.answer().status for _ in range(5)]
        assert states == [ExecStatus.TUPLES_OK] * 2 + [ExecStatus.FATAL_ERROR] + [ExecStatus.TUPLES_OK] * 2
        assert connection.pgconn.pipeline_status == PipelineStatus.ON


def test_more_than_a_socket_takes(connect):
    with connect() as connection:
        connection.execute("update t set v = repeat('y', 5000)")
        pipeline = Pipeline(connection, (b"read", b"select v from t where id = $1"))
        for turn in range(2000):
            pipeline.send(b"read", turn % 100 + 1)
        pipeline.sent()
        for _ in range(2000):
            assert pipeline.answer().get_value(0, 0) == b"y" * 5000
