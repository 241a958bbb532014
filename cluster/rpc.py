"""One gRPC call over a socket, and the few messages this folder needs: a Python with nothing installed can ask PD for a
timestamp and a store for a split. No TLS, no compression, answers of at most 64 KB; everything else fails loudly."""

import socket
import struct

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY = 0, 1, 3, 4, 6, 7
END_STREAM, ACK, END_HEADERS, PADDED = 1, 1, 4, 8


class RpcError(Exception):
    """The call was not answered."""


def call(address, path, request, timeout=5.0):
    """Sends one message to a method, and returns the first message of its answer, both as bytes."""
    host, port = address.rsplit(":", 1)
    fields = {":method": "POST", ":scheme": "http", ":path": path, ":authority": address,
              "content-type": "application/grpc", "te": "trailers"}
    # HPACK's plainest form: each field a literal that is not indexed.
    header = b"".join(b"\0" + bytes([len(k)]) + k.encode() + bytes([len(v)]) + v.encode() for k, v in fields.items())
    try:
        with socket.create_connection((host, int(port)), timeout) as connection:
            connection.settimeout(timeout)
            # The stream stays open: PD ends its answer when the client ends the stream of requests.
            connection.sendall(PREFACE + frame(SETTINGS, 0, 0, b"") + frame(HEADERS, END_HEADERS, 1, header)
                               + frame(DATA, 0, 1, struct.pack(">BI", 0, len(request)) + request))
            return answer(connection, path)
    except OSError as error:
        raise RpcError(f"{path} at {address}: {error}") from error


def frame(kind, flags, stream, payload):
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def answer(connection, path):
    message, reader = b"", connection.makefile("rb")
    while True:
        head = reader.read(9)
        if len(head) < 9:
            raise RpcError(f"{path}: the connection was closed")
        length, kind, flags, stream = int.from_bytes(head[:3], "big"), head[3], head[4], int.from_bytes(head[5:], "big")
        payload = reader.read(length)
        if kind == SETTINGS and not flags & ACK:
            connection.sendall(frame(SETTINGS, ACK, 0, b""))
        elif kind == PING and not flags & ACK:
            connection.sendall(frame(PING, ACK, 0, payload))
        elif kind in (RST_STREAM, GOAWAY):
            raise RpcError(f"{path}: the server broke off: {payload!r}")
        elif kind == DATA and stream == 1:
            message += payload[1:len(payload) - payload[0]] if flags & PADDED else payload
            if len(message) >= 5 and len(message) >= 5 + int.from_bytes(message[1:5], "big"):
                return message[5:5 + int.from_bytes(message[1:5], "big")]
        if kind in (DATA, HEADERS) and flags & END_STREAM:
            raise RpcError(f"{path}: no answer, only {payload!r}")


def varint(number):
    out = b""
    while number > 127:
        out, number = out + bytes([number & 127 | 128]), number >> 7
    return out + bytes([number])


def field(number, value):
    """A protobuf field: an integer or bytes."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def fields(message):
    """A protobuf message as {number: last value}; integers and bytes, which is all that PD and a store answer here."""
    found, at = {}, 0

    def number():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(message):
        tag = number()
        if tag & 7 == 0:
            found[tag >> 3] = number()
        elif tag & 7 == 2:
            length = number()
            found[tag >> 3], at = message[at:at + length], at + length
        else:
            raise RpcError(f"unexpected wire type {tag & 7}")
    return found


def timestamp(pd, cluster_id):
    """One timestamp of PD's, as the clients of TiKV write it: milliseconds << 18 | counter."""
    reply = fields(call(pd, "/pdpb.PD/Tso", field(1, field(1, cluster_id)) + field(2, 1)))
    if 2 in (header := fields(reply.get(1, b""))):
        raise RpcError(f"PD gives no timestamp: {header[2]!r}")
    given = fields(reply[3])
    return given.get(1, 0) << 18 | given.get(2, 0)


def context(region, peer):
    """What a store is told with each call: the region, as PD describes it in a dictionary, and the peer that leads it."""
    epoch = field(1, region["epoch"]["conf_ver"]) + field(2, region["epoch"]["version"])
    return field(1, region["id"]) + field(2, epoch) + field(3, field(1, peer["id"]) + field(2, peer["store_id"]))


def split_region(store, region, peer, key):
    """Asks the leader of a region to split it at a key, which is not encoded."""
    asked = field(1, context(region, peer)) + field(3, key)
    reply = fields(call(store, "/tikvpb.Tikv/SplitRegion", asked, timeout=10))
    if 1 in reply:
        raise RpcError(f"region {region['id']} was not split: {reply[1]!r}")


def encode_key(key):
    """A key as regions' boundaries have it: groups of eight bytes, each followed by 255 less the padding in it."""
    groups = [key[at:at + 8] for at in range(0, len(key) + 1, 8)]
    return b"".join(group.ljust(8, b"\0") + bytes([247 + len(group)]) for group in groups)


def decode_key(encoded):
    return b"".join(encoded[at:at + 8][:encoded[at + 8] - 247] for at in range(0, len(encoded), 9))
