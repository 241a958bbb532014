"""Results over Arrow Flight: parts, snapshots, who reads slowly and who never comes back."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pyarrow
import pytest
from pyarrow import flight as pyflight

from support.flight import SERVICE, Flight, Http2, adbc, fetch, field, framed, table_of
from support.processes import wait_until

ROWS = 300_000


@pytest.fixture
def large(start):
    server = start(flight=True)
    server.run(
        "create role anna login",
        "create table large (id int primary key, v int, s text)",
        f"insert into large select i, 1, 'a text of row ' || i from generate_series(1, {ROWS}) as g(i)",
        "grant all on large to anna",
    )
    yield server
    assert server.alive()
    server.stop()


def sessions(server):
    """Who is connected, but for who asks."""
    return server.value("select count(*) from pg_stat_activity where pid <> pg_backend_pid()")


def test_a_large_result_has_parts_that_are_fetched_side_by_side(large):
    with Flight(large, user="anna") as client:
        info = client.info("select id, v, s from large where id % 3 = 0")
        assert len(info.endpoints) > 1

        def part(endpoint):
            # A client of its own, as a worker would have.
            with Flight(large, token=client.token) as worker:
                return worker.read(endpoint.ticket)

        with ThreadPoolExecutor(4) as pool:
            table = pyarrow.concat_tables(pool.map(part, info.endpoints))
        assert sorted(table["id"].to_pylist()) == list(range(3, ROWS + 1, 3))
        assert [len(client.info(sql).endpoints) for sql in (
            "select count(*) from large", "select id from large order by s limit 5",
            "select id from large where id = 7", "select random() from large",
            "select id from large limit 100000",
        )] == [1] * 5
    with adbc(large) as connection:
        assert fetch(connection, "select id from large").num_rows == ROWS


def test_parts_are_of_one_snapshot_while_writers_write(large):
    stop = threading.Event()

    def write():
        with large.connect() as connection:
            while not stop.is_set():
                connection.execute("update large set v = v + 1 where id % 1000 = 0")
                connection.execute("insert into large select max(id) + 1, -1, 'new' from large")
                connection.execute("delete from large where v = -1")

    writer = threading.Thread(target=write)
    writer.start()
    try:
        with Flight(large) as client:
            for _ in range(3):
                with large.connect() as connection:
                    connection.execute("begin isolation level repeatable read")
                info = client.info("select id, v, s from large")
                assert len(info.endpoints) > 1
                # While the first part is read again and again, the writer goes on.
                first = client.read(info.endpoints[0].ticket)
                for _ in range(3):
                    assert client.read(info.endpoints[0].ticket).equals(first)
                parts = [first] + [client.read(e.ticket) for e in info.endpoints[1:]]
                table = pyarrow.concat_tables(parts)
                touched = {v for i, v in zip(table["id"].to_pylist(), table["v"].to_pylist())
                           if i % 1000 == 0 and v != -1}
                assert len(touched) == 1, f"one snapshot has one of them: {touched}"
                assert ROWS <= len(table) <= ROWS + 1
    finally:
        stop.set()
        writer.join()


def test_a_result_is_of_its_statement_whatever_its_transaction_does_next(large):
    """Neither what the transaction writes later, nor what it undoes, changes a result that waits."""
    total = "select sum(v) as n from large where id + 0 <= 1000"
    plain = "select id, v from large where v + 0 > 0"
    with Flight(large) as client:
        transaction = client.begin()
        before, parts = client.info(total, transaction), client.info(plain, transaction)
        assert len(parts.endpoints) > 1
        client.query("update large set v = 0 where id <= 1000", transaction)
        written = client.info(total, transaction)
        client.query("savepoint s", transaction)
        client.query("update large set v = 7 where id <= 1000", transaction)
        assert client.read(before.endpoints[0].ticket)["n"].to_pylist() == [1000]
        assert client.read(written.endpoints[0].ticket)["n"].to_pylist() == [0]
        undone = client.info(total, transaction)
        client.query("rollback to savepoint s", transaction)
        client.end(transaction, commit=False)
        assert client.read(undone.endpoints[0].ticket)["n"].to_pylist() == [7000], "as it was told"
        rows = pyarrow.concat_tables([client.read(e.ticket) for e in parts.endpoints])
        assert len(rows) == ROWS and set(rows["v"].to_pylist()) == {1}


def test_what_a_query_changes_it_changes_once(large):
    large.run("create sequence s")
    with Flight(large) as client:
        for sql in ("select nextval('s') as n", "select n from (select nextval('s') as n) q",
                    "select (select nextval('s') as n) as n"):
            before = large.value("select nextval('s')")
            info = client.info(sql)
            assert large.value("select nextval('s')") == before + 2, f"it has run once: {sql}"
            assert client.read(info.endpoints[0].ticket)["n"].to_pylist() == [before + 1]
        info = client.info("select setval('s', 1000)")
        assert large.value("select nextval('s')") == 1001
        client.info("select set_config('search_path', 'nowhere', false)")
        assert client.query("show search_path")["search_path"].to_pylist() == ["nowhere"]


def test_who_has_read_everything_keeps_nothing(large):
    with Flight(large) as client:
        info = client.info("select id from large")
        for endpoint in info.endpoints:
            client.read(endpoint.ticket)
        with pytest.raises(pyarrow.ArrowException, match="34000"):
            client.read(info.endpoints[0].ticket)
        wait_until(lambda: sessions(large) == 1, "only the client's own session is left")


def test_a_result_that_nobody_fetches_expires(start):
    server = start(flight=True, arguments=["--flight-result-timeout", "1s"])
    with Flight(server) as client:
        info = client.info("select 1")
        assert sessions(server) == 2
        wait_until(lambda: sessions(server) == 1, "the result is gone")
        with pytest.raises(pyarrow.ArrowException, match="34000"):
            client.read(info.endpoints[0].ticket)


def test_cancel(large):
    with Flight(large) as client:
        info = client.info("select a.id from large a, large b where a.id + b.id < 0")
        reader = Http2(large)
        stream = reader.call(SERVICE + "DoGet", framed(field(1, info.endpoints[0].ticket.ticket)))
        reader.begun(stream)
        client.cancel(info)
        headers, _ = reader.answer(stream)
        reader.close()
        assert headers["grpc-status"] == "1" and headers["sqlstate"] == "57014", headers
        wait_until(lambda: sessions(large) == 1, "the query is gone")
    with adbc(large) as connection, connection.cursor() as cursor:
        cursor.execute("set statement_timeout = '300ms'")
        with pytest.raises(Exception, match="57014"):
            cursor.execute("select count(*) from large a, large b where a.id + b.id < 0")
            cursor.fetchall()


def test_a_reader_that_stops_holds_up_no_writer(large):
    """A client reads a little, and stops. Others change the very rows it has not read: they do not wait
    for it, and what it reads later is what was there when it asked."""
    before = large.resident_bytes()
    with Flight(large) as client:
        info = client.info("select id, v, s from large order by id + 0")
        client_ = Http2(large)
        stream = client_.call(SERVICE + "DoGet", framed(field(1, info.endpoints[0].ticket.ticket)))
        begun = client_.stall(stream)
        assert begun
        with large.connect() as connection:
            connection.execute("set statement_timeout = '120s'")
            connection.execute("update large set v = 2, s = 'changed'")
            connection.execute("delete from large where id > 100")
            connection.execute("alter table large drop column s")
        headers, data = client_.go_on(stream, begun)
        client_.close()
    assert headers.get("grpc-status") == "0", headers
    table = table_of(data)
    assert table.num_rows == ROWS and set(table["v"].to_pylist()) == {1}
    assert table["s"].to_pylist()[ROWS - 1] == f"a text of row {ROWS}"
    assert large.value("select count(*) from large where v = 2") == 100
    assert large.resident_bytes() - before < 2 << 30


def test_readers_that_vanish_leave_nothing(large):
    assert sessions(large) == 0
    clients = []
    for _ in range(5):
        client = Http2(large)
        sql = field(1, "type.googleapis.com/arrow.flight.protocol.sql.CommandStatementQuery")
        command = sql + field(2, field(1, "select * from large"))
        stream = client.call(SERVICE + "GetFlightInfo", framed(field_descriptor(command)))
        headers, data = client.answer(stream)
        assert headers["grpc-status"] == "0", headers
        info = pyflight.FlightInfo.deserialize(data[5:])
        for endpoint in info.endpoints:
            stream = client.call(SERVICE + "DoGet", framed(field(1, endpoint.ticket.ticket)))
        client.stall(stream)
        clients.append(client)
    assert sessions(large) == 10, "each has its own, and one of its result"
    for client in clients:
        client.close()
    wait_until(lambda: sessions(large) == 0, "all that they had is gone")


def field_descriptor(command):
    """FlightDescriptor { type: CMD, cmd }"""
    return field(1, 2) + field(2, command)


def test_a_call_that_is_given_up_ends_its_statement(large):
    with large.connect() as holder:
        holder.execute("begin")
        holder.execute("update large set v = 5 where id = 1")
        client = Http2(large)
        command = field(1, "type.googleapis.com/arrow.flight.protocol.sql.CommandStatementQuery")
        command += field(2, field(1, "update large set v = 6 where id = 1"))
        client.call(SERVICE + "GetFlightInfo", framed(field_descriptor(command)))
        wait_until(lambda: large.value("select count(*) from froglet.waits") == 1, "it waits for the row")
        client.close()
        wait_until(lambda: large.value("select count(*) from froglet.waits") == 0, "it does not wait any more")
        holder.execute("commit")
    assert large.value("select v from large where id = 1") == 5


def test_sessions_count_as_connections(start):
    server = start(flight=True, environment={"FROGLET_MAX_CONNECTIONS": "4"})
    with Flight(server) as client:
        held = [client.info("select 1") for _ in range(3)]
        with pytest.raises(pyarrow.ArrowException, match="53300"):
            client.info("select 1")
        for info in held:
            client.read(info.endpoints[0].ticket)
        wait_until(lambda: sessions(server) == 1, "they have been read")
        assert client.query("select 1 as one")["one"].to_pylist() == [1]


def test_the_server_stops_while_clients_read(large):
    with Flight(large) as client:
        info = client.info("select id, v, s from large")
        reader = client.client.do_get(info.endpoints[0].ticket, client.options)
        reader.read_chunk()
        large.stop()
        with pytest.raises(pyarrow.ArrowException):
            client.query("select 1")
    large.start()
    with Flight(large) as client:
        assert client.query("select count(*) as n from large")["n"].to_pylist() == [ROWS]
