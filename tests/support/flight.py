"""Clients of Arrow Flight SQL: the ADBC driver, pyarrow's plain client, and HTTP/2 by hand.

`adbc`     a connection of the ADBC driver, as people use it
`Flight`   pyarrow.flight with Flight SQL's commands, for what ADBC does by itself (tickets, parts)
`Http2`    frames, for what no decent client sends, and for clients that stop reading
"""

import socket
import struct

import h2.config
import h2.connection
import h2.events
import pyarrow
from adbc_driver_flightsql import dbapi
from pyarrow import flight as pyflight

SERVICE = "/arrow.flight.protocol.FlightService/"
METHODS = ["Handshake", "ListFlights", "GetFlightInfo", "PollFlightInfo", "GetSchema", "DoGet",
           "DoPut", "DoExchange", "DoAction", "ListActions"]


def adbc(server, autocommit=True, scheme="grpc", user="postgres", headers=(), **options):
    """A connection of the ADBC Flight SQL driver."""
    options = {"username": user, "password": "any"} | options
    for name, value in dict(headers).items():
        options[f"adbc.flight.sql.rpc.call_header.{name}"] = value
    uri = f"{scheme}://{server.host}:{server.flight_port}"
    return dbapi.connect(uri, db_kwargs=options, autocommit=autocommit)


def fetch(connection, sql, parameters=None):
    """A query's rows as a table, each of its batches checked to the last byte."""
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        table = cursor.fetch_arrow_table()
    table.validate(full=True)
    return table


# --- Protocol buffers, as much as is needed --------------------------------------------------------


def varint(value):
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def field(number, value):
    """One field: text and bytes with their length, numbers by themselves."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def fields(message):
    """The fields of a message by number; the last one of each."""
    found, at = {}, 0

    def number():
        nonlocal at
        value, shift = 0, 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(message):
        tag = number()
        if tag & 7 == 0:
            found[tag >> 3] = number()
        else:
            assert tag & 7 == 2, f"wire type {tag & 7}"
            length = number()
            found[tag >> 3] = bytes(message[at:at + length])
            at += length
    return found


def packed(name, message=b""):
    """A message of Flight SQL as google.protobuf.Any."""
    return field(1, f"type.googleapis.com/arrow.flight.protocol.sql.{name}") + field(2, message)


def statement(sql, transaction=None):
    """CommandStatementQuery"""
    body = field(1, sql) + (field(2, transaction) if transaction else b"")
    return packed("CommandStatementQuery", body)


# --- pyarrow.flight --------------------------------------------------------------------------------


class Flight:
    """A plain client of Flight. Without a user it is nobody, and its session its connection's."""

    def __init__(self, server, user=None, headers=(), token=None):
        self.client = pyflight.FlightClient(f"grpc://{server.host}:{server.flight_port}")
        self.headers = [(k.encode(), v.encode()) for k, v in dict(headers).items()]
        if user:
            token = self.client.authenticate_basic_token(user, "any")
        if token:
            self.headers.append(token)
        self.token = token
        self.options = pyflight.FlightCallOptions(headers=self.headers)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.client.close()

    def info(self, sql, transaction=None):
        descriptor = pyflight.FlightDescriptor.for_command(statement(sql, transaction))
        return self.client.get_flight_info(descriptor, self.options)

    def command(self, name, message=b""):
        """The rows of a metadata command."""
        descriptor = pyflight.FlightDescriptor.for_command(packed(name, message))
        info = self.client.get_flight_info(descriptor, self.options)
        return self.read(info.endpoints[0].ticket)

    def read(self, ticket):
        table = self.client.do_get(ticket, self.options).read_all()
        table.validate(full=True)
        return table

    def query(self, sql, transaction=None):
        info = self.info(sql, transaction)
        parts = [self.read(endpoint.ticket) for endpoint in info.endpoints]
        return pyarrow.concat_tables(parts) if parts else info.schema.empty_table()

    def act(self, action, body=b""):
        return [r.body.to_pybytes() for r in self.client.do_action((action, body), self.options)]

    def ingest(self, table, data, transaction=None, compression=None):
        """Appends to a table, which is made if it is not there. The number of rows."""
        writer, reader = self.ingesting(table, data.schema, transaction, compression)
        if isinstance(data, pyarrow.RecordBatch):
            writer.write_batch(data)
        else:
            writer.write_table(data)
        writer.done_writing()
        answer = reader.read()
        writer.close()
        return fields(answer.to_pybytes()).get(1, 0)

    def ingesting(self, table, schema, transaction=None, compression=None):
        """An ingest that has begun: who writes batches, and who reads the answer."""
        options = field(1, field(1, 1) + field(2, 2))
        message = options + field(2, table) + (field(6, transaction) if transaction else b"")
        return self.put("CommandStatementIngest", message, schema, compression)

    def put(self, command, message, schema, compression=None):
        descriptor = pyflight.FlightDescriptor.for_command(packed(command, message))
        options = pyflight.FlightCallOptions(
            headers=self.headers, write_options=pyarrow.ipc.IpcWriteOptions(compression=compression))
        return self.client.do_put(descriptor, schema, options)

    def prepare(self, sql, transaction=None):
        """The handle of a prepared statement."""
        message = field(1, sql) + (field(2, transaction) if transaction else b"")
        [result] = self.act("CreatePreparedStatement", packed("ActionCreatePreparedStatementRequest", message))
        return fields(fields(result)[2])[1]

    def prepared_info(self, handle):
        command = packed("CommandPreparedStatementQuery", field(1, handle))
        return self.client.get_flight_info(pyflight.FlightDescriptor.for_command(command), self.options)

    def bind(self, command, handle, batch):
        """Sends rows of parameters for a prepared statement, and reads the answer."""
        writer, reader = self.put(command, field(1, handle), batch.schema)
        if batch.num_columns:
            writer.write_batch(batch)
        writer.done_writing()
        answer = reader.read()
        writer.close()
        return fields(answer.to_pybytes()).get(1, 0)

    def begin(self):
        [result] = self.act("BeginTransaction", packed("ActionBeginTransactionRequest"))
        return fields(fields(result)[2])[1]

    def end(self, transaction, commit=True):
        message = field(1, transaction) + field(2, 1 if commit else 2)
        self.act("EndTransaction", packed("ActionEndTransactionRequest", message))

    def cancel(self, info):
        self.act("CancelFlightInfo", field(1, info.serialize()))


# --- HTTP/2 by hand ---------------------------------------------------------------------------------


def framed(message):
    """A gRPC message."""
    return b"\0" + struct.pack(">I", len(message)) + message


class Http2:
    """One connection. Nothing is acknowledged before it is asked for, so the server cannot go on."""

    def __init__(self, server, window_bytes=65_535):
        self.socket = socket.create_connection((server.host, server.flight_port), timeout=60)
        self.waiting = []
        config = h2.config.H2Configuration(client_side=True, header_encoding="utf-8")
        self.connection = h2.connection.H2Connection(config=config)
        self.connection.initiate_connection()
        self.connection.update_settings(
            {h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: window_bytes})
        self.send()

    def send(self):
        self.socket.sendall(self.connection.data_to_send())

    def call(self, path, body):
        """Begins a call with the bytes of its body, and ends its request."""
        stream = self.connection.get_next_available_stream_id()
        self.connection.send_headers(stream, [
            (":method", "POST"), (":scheme", "http"), (":path", path), (":authority", "froglet"),
            ("content-type", "application/grpc"), ("te", "trailers"),
        ])
        self.send()
        while body:
            window = min(self.connection.local_flow_control_window(stream),
                         self.connection.max_outbound_frame_size)
            if window == 0:
                # It may be answered before it has been sent.
                self.waiting += self.receive()
                ends = (h2.events.StreamReset, h2.events.StreamEnded, h2.events.ConnectionTerminated)
                if any(isinstance(event, ends) for event in self.waiting):
                    return stream
                continue
            self.connection.send_data(stream, body[:window])
            body = body[window:]
            self.send()
        self.connection.end_stream(stream)
        self.send()
        return stream

    def events(self):
        """What comes next."""
        if self.waiting:
            waiting, self.waiting = self.waiting, []
            return waiting
        return self.receive()

    def receive(self):
        data = self.socket.recv(65_536)
        events = self.connection.receive_data(data) if data else []
        if not data:
            events = [h2.events.ConnectionTerminated()]
        self.send()
        return events

    def answer(self, stream):
        """All of an answer: its headers and trailers, and its data."""
        headers, data = {}, b""
        while True:
            for event in self.events():
                if isinstance(event, (h2.events.ResponseReceived, h2.events.TrailersReceived)):
                    headers |= dict(event.headers)
                elif isinstance(event, h2.events.DataReceived):
                    data += event.data
                    self.connection.acknowledge_received_data(
                        event.flow_controlled_length, event.stream_id)
                    self.send()
                elif isinstance(event, h2.events.StreamEnded) and event.stream_id == stream:
                    return headers, data
                elif isinstance(event, (h2.events.StreamReset, h2.events.ConnectionTerminated)):
                    return headers | {"reset": "yes"}, data

    def begun(self, stream):
        """Returns when the first of an answer has come."""
        while not any(isinstance(event, h2.events.DataReceived) for event in self.waiting):
            self.waiting += self.receive()

    def stall(self, stream):
        """Reads until the windows are full, and gives none back. What has come."""
        data = b""
        while self.connection.remote_flow_control_window(stream) > 0:
            for event in self.events():
                if isinstance(event, h2.events.DataReceived):
                    data += event.data
        self.unread = len(data)
        return data

    def go_on(self, stream, data):
        """After a stall: the rest of the answer."""
        self.connection.acknowledge_received_data(self.unread, stream)
        self.send()
        headers, rest = self.answer(stream)
        return headers, data + rest

    def close(self):
        self.socket.close()


def table_of(data):
    """The batches in the body of a DoGet."""
    stream = bytearray()
    while data:
        length = struct.unpack(">I", data[1:5])[0]
        message, data = fields(data[5:5 + length]), data[5 + length:]
        header = message[2] + bytes(-len(message[2]) % 8)
        stream += b"\xff\xff\xff\xff" + struct.pack("<I", len(header)) + header
        stream += message.get(1000, b"")
    table = pyarrow.ipc.open_stream(pyarrow.py_buffer(bytes(stream))).read_all()
    table.validate(full=True)
    return table
