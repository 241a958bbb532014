"""What no decent client sends to the Flight port, and TLS.

After each of these the server must answer the next client, and must not have panicked.
"""

import random
import socket

import pyarrow
import pytest
from pyarrow import flight as pyflight

from support.flight import METHODS, SERVICE, Flight, Http2, adbc, fetch, field, framed, packed, statement

SEED = 20261123


@pytest.fixture
def server(flight):
    flight.run("create table t (id int primary key, s text)",
               "insert into t select i, 'a text that is long enough ' || i from generate_series(1, 100) as g(i)")
    yield flight
    with adbc(flight) as connection:
        assert fetch(connection, "select count(*) as n from t")["n"].to_pylist() == [100]
    assert "panicked" not in flight.log.read_text(), flight.tail()


def answer(server, path, body):
    client = Http2(server)
    try:
        return client.answer(client.call(path, body))
    finally:
        client.close()


def bodies():
    """Bodies of requests, from nothing at all to what is nearly right."""
    rnd = random.Random(SEED)
    good = statement("select * from t")
    yield b""
    yield b"\0"
    yield b"\0\0\0\0\xff"
    yield b"\x01" + framed(good)[1:]
    yield b"\0\xff\xff\xff\xff" + good
    for _ in range(10):
        yield rnd.randbytes(rnd.randrange(1, 200))
        yield framed(rnd.randbytes(rnd.randrange(1, 200)))
    for cut in (1, 5, 20, len(good) - 1):
        yield framed(good[:cut])
        yield framed(field(1, 2) + field(2, good[:cut]))
        yield framed(field(1, good[:cut]))
    yield framed(field(1, 2) + field(2, packed("TicketStatementQuery", field(1, rnd.randbytes(20)))))
    yield framed(field(1, packed("TicketStatementQuery", field(1, rnd.randbytes(20)))))
    yield framed(field(1, packed("TicketStatementQuery", field(1, rnd.randbytes(3)))))
    yield framed(field(1, packed("CommandPreparedStatementQuery", field(1, b"handle"))))
    yield framed(field(1, packed("NoSuchCommand", b"x")))


@pytest.mark.parametrize("method", METHODS)
def test_malformed_requests(server, method):
    harmless = {"Handshake", "ListActions"}  # Whatever they are sent, they answer the same.
    for body in bodies():
        headers, _ = answer(server, SERVICE + method, body)
        assert headers, "there is an answer"
        if method not in harmless:
            assert headers.get("grpc-status", "reset") != "0", (method, body)


def test_a_huge_ticket(server):
    body = framed(field(1, packed("TicketStatementQuery", field(1, bytes(10 << 20)))))
    headers, _ = answer(server, SERVICE + "DoGet", body)
    assert headers.get("grpc-status", "reset") != "0"
    with Flight(server) as client:
        for ticket in (b"", b"x", bytes(10 << 20), packed("TicketStatementQuery", field(1, bytes(20)))):
            with pytest.raises(pyarrow.ArrowException):
                client.read(pyflight.Ticket(ticket))
        info = client.info("select * from t")
        ticket = info.endpoints[0].ticket.ticket
        another_handle = bytes([ticket[-5] ^ 1])  # Handles are random.
        for wrong in (ticket[:-1] + b"\x09", ticket[:-5] + another_handle + ticket[-4:]):
            with pytest.raises(pyarrow.ArrowException, match="part 9 of a result of 1|no such result"):
                client.read(pyflight.Ticket(wrong))
        with Flight(server, user="somebody else") as other:
            with pytest.raises(pyarrow.ArrowException, match="no such result"):
                other.read(info.endpoints[0].ticket)
        assert client.read(info.endpoints[0].ticket).num_rows == 100


def test_wrong_paths(server):
    for path in ("/", "/nothing", SERVICE, SERVICE + "DoGets", "/other.Service/DoGet"):
        headers, _ = answer(server, path, framed(b""))
        assert headers.get("grpc-status") == "12", (path, headers)


@pytest.mark.parametrize("sent", [
    b"GET / HTTP/1.1\r\nHost: froglet\r\n\r\n", b"\0\0\0\x08\x04\xd2\x16\x2f", b"\x16\x03\x01\x02\x00\x01\x00",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(100), bytes(range(256)),
])
def test_other_protocols(server, sent):
    with socket.create_connection((server.host, server.flight_port), timeout=60) as client:
        try:
            client.sendall(sent)
            client.shutdown(socket.SHUT_WR)
            while client.recv(4096):
                pass
        except OSError:
            pass  # It may close before it has read all of it.


def test_ingest_of_damaged_batches(server):
    """A batch's bytes changed at random: an error or rows, never anything else, and never a part of them."""
    rnd = random.Random(SEED)
    batch = pyarrow.record_batch({"id": list(range(1000, 1100)), "s": [f"text {i}" * 5 for i in range(100)]})
    sink = pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    reader = pyarrow.ipc.MessageReader.open_stream(sink.getvalue())
    schema, rows = reader.read_next_message(), reader.read_next_message()
    options = field(1, field(1, 2) + field(2, 2))  # CREATE = 1, FAIL = 2; FAIL = 1, APPEND = 2
    command = packed("CommandStatementIngest", options + field(2, "t"))
    head = field(1, field(1, 2) + field(2, command)) + field(2, schema.metadata.to_pybytes())
    good = field(2, rows.metadata.to_pybytes()) + field(1000, rows.body.to_pybytes())
    headers, _ = answer(server, SERVICE + "DoPut", framed(head) + framed(good))
    assert headers["grpc-status"] == "0", headers
    server.run("delete from t where id >= 1000")
    for _ in range(150):
        metadata, body = bytearray(rows.metadata.to_pybytes()), bytearray(rows.body.to_pybytes())
        for _ in range(rnd.randrange(1, 4)):
            damaged = rnd.choice((metadata, body))
            damaged[rnd.randrange(len(damaged))] = rnd.randrange(256)
        cut = rnd.choice((len(body), rnd.randrange(len(body))))
        message = field(2, bytes(metadata)) + field(1000, bytes(body[:cut]))
        headers, _ = answer(server, SERVICE + "DoPut", framed(head) + framed(message))
        assert headers, "there is an answer"
        found = server.value("select count(*) from t where id not between 1 and 100")
        if headers.get("grpc-status") != "0":
            assert found == 0, "what failed has left nothing"
        server.run("delete from t where id not between 1 and 100")
    # Neither a schema nor all of the batches.
    for body in (framed(field(1, field(1, 2) + field(2, command))), framed(head) + framed(good)[:-10]):
        headers, _ = answer(server, SERVICE + "DoPut", body)
        assert headers.get("grpc-status", "reset") != "0", headers


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
def test_compressed_batches_are_refused(server, compression):
    """What a compressed buffer says that it will be would be allocated: a few bytes could say anything."""
    words = pyarrow.array(["a text that is long enough to be compressed"] * 1000)
    with Flight(server) as client:
        for column in (words, words.dictionary_encode()):
            sent = pyarrow.table({"id": list(range(1000, 2000)), "s": column})
            with pytest.raises(pyarrow.ArrowException, match="SQLSTATE 0A000"):
                client.ingest("t", sent, compression=compression)


def test_a_compressed_dictionary_alone_is_refused(server):
    """A message of a dictionary with a buffer that claims to be a petabyte."""
    sink = pyarrow.BufferOutputStream()
    words = pyarrow.array(["a text that is long enough to be compressed " * 10] * 3).dictionary_encode()
    batch = pyarrow.record_batch({"id": [1000, 1001, 1002], "s": words})
    options = pyarrow.ipc.IpcWriteOptions(compression="lz4")
    with pyarrow.ipc.new_stream(sink, batch.schema, options=options) as writer:
        writer.write_batch(batch)
    reader = pyarrow.ipc.MessageReader.open_stream(sink.getvalue())
    schema, dictionary = reader.read_next_message(), reader.read_next_message()
    assert dictionary.type == "dictionary"
    body = bytearray(dictionary.body.to_pybytes())
    frame = body.index(b"\x04\x22\x4d\x18")
    body[frame - 8:frame] = (1 << 50).to_bytes(8, "little")
    command = packed("CommandStatementIngest", field(1, field(1, 2) + field(2, 2)) + field(2, "t"))
    head = field(1, field(1, 2) + field(2, command)) + field(2, schema.metadata.to_pybytes())
    message = field(2, dictionary.metadata.to_pybytes()) + field(1000, bytes(body))
    headers, _ = answer(server, SERVICE + "DoPut", framed(head) + framed(message))
    assert headers.get("sqlstate") == "0A000", headers


def test_columns_of_many_nulls_are_no_rows_yet(server):
    """A column of NULLs has no buffers: two billion of them are a message of some hundred bytes."""
    nulls = pyarrow.nulls(2**31 - 1)
    server.run("create table strict (s text not null)", "create table keys (id int primary key, s text)")
    with Flight(server) as client:
        with pytest.raises(pyarrow.ArrowException, match="SQLSTATE 23502"):
            client.ingest("strict", pyarrow.record_batch({"s": nulls}))
        handle = client.prepare("insert into keys values (1, $1)")
        with pytest.raises(pyarrow.ArrowException, match="SQLSTATE 23505"):
            client.bind("CommandPreparedStatementUpdate", handle, pyarrow.record_batch({"1": nulls}))
    assert server.value("select count(*) from keys") == 0
    assert server.resident_bytes() < 1 << 30


def test_who_says_nothing_is_sent_away(server):
    """Half a minute, while nothing tells whether it is there: its place is one that others could have."""
    address = (server.host, server.flight_port)
    with socket.create_connection(address, timeout=60) as silent, \
            socket.create_connection(address, timeout=60) as half:
        half.sendall(b"PRI * HTTP/2.0\r\n")
        for client in (silent, half):
            while client.recv(4096):
                pass


def test_authorization_that_cannot_be_read(server):
    for value in ("Basic", "Basic ???", "Bearer nobody", "Digest x"):
        with Flight(server, headers={"authorization": value}) as client:
            with pytest.raises(pyflight.FlightUnauthenticatedError):
                client.query("select 1")
    with Flight(server, headers={"froglet-strings": "ropes"}) as client:
        with pytest.raises(pyarrow.ArrowException, match="froglet-strings"):
            client.query("select 1")


# --- TLS ---------------------------------------------------------------------------------------------------


def test_tls(start, certificate):
    cert, key = certificate
    server = start(flight=True, arguments=["--flight-tls-cert", str(cert), "--flight-tls-key", str(key)])
    server.run("create table t as select i as id, 'text ' || i as s from generate_series(1, 200000) as g(i)")
    with adbc(server, scheme="grpc+tls",
              **{"adbc.flight.sql.client_option.tls_root_certs": cert.read_text()}) as connection:
        table = fetch(connection, "select id, s from t")
        assert table.num_rows == 200_000
    with pytest.raises(Exception):
        adbc(server, scheme="grpc").cursor().execute("select 1")
    with pytest.raises(Exception):
        adbc(server, scheme="grpc+tls").cursor().execute("select 1")
    assert server.alive()


def test_files_of_tls_that_cannot_be_used_are_named(start, certificate, tmp_path):
    cert, key = certificate
    for files in ((tmp_path / "missing", key), (cert, tmp_path / "missing"), (key, key), (cert, cert)):
        server = start(flight=True, ready=False,
                       arguments=["--flight-tls-cert", str(files[0]), "--flight-tls-key", str(files[1])])
        said = server.refusal()
        assert "cannot serve by TLS" in said and any(str(f) in said for f in files), said
