"""The wire protocol by hand: what bytes a server sends, whatever a driver would make of them."""

import socket
import struct


class Raw:
    """A connection, logged in."""

    def __init__(self, server, seconds=30):
        self.socket = socket.create_connection((server.host, server.port), timeout=seconds)
        self.buffer = b""
        start = struct.pack(">i", 196608) + b"user\0postgres\0database\0postgres\0\0"
        self.socket.sendall(struct.pack(">i", len(start) + 4) + start)
        assert self.until_ready()[-1][0] == b"Z"

    def send(self, *messages):
        """Messages of a kind and a body, together."""
        self.socket.sendall(b"".join(
            kind + struct.pack(">i", len(body) + 4) + body for kind, body in messages))

    def query(self, sql):
        self.send((b"Q", sql.encode() + b"\0"))

    def message(self):
        """The next message, (kind, body); none when the server has closed."""
        while True:
            if len(self.buffer) >= 5:
                length = struct.unpack(">i", self.buffer[1:5])[0]
                if len(self.buffer) >= length + 1:
                    kind, body = self.buffer[:1], self.buffer[5:length + 1]
                    self.buffer = self.buffer[length + 1:]
                    return kind, body
            try:
                more = self.socket.recv(65536)
            except ConnectionResetError:
                more = b""
            if not more:
                assert not self.buffer, f"half a message: {self.buffer}"
                return None
            self.buffer += more

    def until_ready(self):
        """Everything up to ReadyForQuery, or to the end."""
        messages = []
        while (message := self.message()) is not None:
            messages.append(message)
            if message[0] == b"Z":
                break
        return messages

    def close(self):
        self.socket.close()


def parse(sql, name=b""):
    return b"P", name + b"\0" + sql.encode() + b"\0\0\0"


def bind(name=b"", portal=b""):
    return b"B", portal + b"\0" + name + b"\0\0\0\0\0\0\0"


def execute(portal=b"", rows=0):
    return b"E", portal + b"\0" + struct.pack(">i", rows)


SYNC = b"S", b""
FLUSH = b"H", b""


def error_of(messages):
    """The fields of the last error among messages, by their letters; none if there is none."""
    errors = [body for kind, body in messages if kind == b"E"]
    if not errors:
        return {}
    return {chr(field[0]): field[1:].decode() for field in errors[-1].split(b"\0") if field}
