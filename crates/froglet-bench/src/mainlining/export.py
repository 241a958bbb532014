"""Brings a table into Python in every way there is, and prints what it found as lines of JSON.

    export.py --dir DIR --rounds N --froglet PORT [--flight PORT] [--postgres PORT]

`fig15.rs` runs it, and DIR is what `files.rs` writes. Each round goes through all ways once, so that ways are compared
within a round; medians of the rounds are printed. Every way ends with the same table, which is checked by its rows and a sum.
"""

import argparse
import io
import json
import multiprocessing
import pathlib
import socket
import statistics
import time

import numpy
import pandas
import psycopg
import pyarrow
import pyarrow.csv
from adbc_driver_flightsql import dbapi

QUERY = "SELECT * FROM order_line"
NAMES = ["ol_o_id", "ol_d_id", "ol_w_id", "ol_number", "ol_i_id", "ol_supply_w_id", "ol_delivery_d", "ol_quantity",
         "ol_amount", "ol_dist_info"]
BINARY_TYPES = ["int4"] * 6 + ["timestamp", "int4", "numeric", "bpchar"]
HOT_PERCENT = [0, 25, 50, 75, 100]
CHUNK_BYTES = 1 << 20


def connect(port):
    return psycopg.connect(host="127.0.0.1", port=port, user="postgres", dbname="postgres", autocommit=True)


def load(port, directory):
    with connect(port) as connection:
        connection.execute((directory / "schema.sql").read_text())
        with open(directory / "order_line.rows", "rb") as lines:
            with connection.cursor().copy("COPY order_line FROM STDIN") as copy:
                while chunk := lines.read(CHUNK_BYTES):
                    copy.write(chunk)


# --- Ways into Python: each returns a table ----------------------------------------------------------


def rows_to_pandas(port):
    with connect(port) as connection:
        cursor = connection.execute(QUERY)
        return pandas.DataFrame(cursor.fetchall(), columns=NAMES)


def copy_text(port):
    with connect(port) as connection:
        text = io.BytesIO()
        with connection.cursor().copy(f"COPY ({QUERY}) TO STDOUT") as copy:
            for chunk in copy:
                text.write(chunk)
    text.seek(0)
    return pyarrow.csv.read_csv(
        text, read_options=pyarrow.csv.ReadOptions(column_names=NAMES),
        parse_options=pyarrow.csv.ParseOptions(delimiter="\t"),
        convert_options=pyarrow.csv.ConvertOptions(null_values=["\\N"], strings_can_be_null=True))


def copy_binary(port):
    with connect(port) as connection:
        with connection.cursor().copy(f"COPY ({QUERY}) TO STDOUT (FORMAT binary)") as copy:
            copy.set_types(BINARY_TYPES)
            return pandas.DataFrame(list(copy.rows()), columns=NAMES)


def flight(port):
    options = {"username": "postgres", "password": "any",
               "adbc.flight.sql.client_option.with_max_msg_size": str(1 << 30)}
    with dbapi.connect(f"grpc://127.0.0.1:{port}", db_kwargs=options, autocommit=True) as connection:
        with connection.cursor() as cursor:
            cursor.execute(QUERY)
            return cursor.fetch_arrow_table()


# --- Limits ------------------------------------------------------------------------------------------


def bare_socket(size):
    """Seconds to move that many bytes over a loopback socket, between two processes, into memory that is there."""
    payload, into = numpy.ones(size, numpy.uint8), numpy.ones(size, numpy.uint8)
    with socket.create_server(("127.0.0.1", 0)) as server:
        def send():
            connection, _ = server.accept()
            with connection:
                connection.recv(1)
                connection.sendall(payload)

        # A thread would take turns with the receiver at Python's lock.
        sender = multiprocessing.get_context("fork").Process(target=send)
        sender.start()
        with socket.create_connection(server.getsockname()) as client:
            view, got = memoryview(into), 0
            begun = time.perf_counter()
            client.sendall(b"!")
            while got < size:
                got += client.recv_into(view[got:got + CHUNK_BYTES])
            seconds = time.perf_counter() - begun
        sender.join()
    return seconds


def memory_copy(size):
    source, into = numpy.ones(size, numpy.uint8), numpy.zeros(size, numpy.uint8)
    begun = time.perf_counter()
    numpy.copyto(into, source)
    return time.perf_counter() - begun


# --- Measuring -----------------------------------------------------------------------------------------


def checked(table):
    """Rows and two sums, the same however the table came."""
    return [len(table)] + [int(table[name].to_numpy().astype("int64").sum()) for name in ["ol_quantity", "ol_o_id"]]


def heat(port, keys, percent):
    """One update in each of the first so many blocks."""
    with connect(port) as connection, connection.cursor() as cursor:
        cursor.executemany(
            "UPDATE order_line SET ol_quantity = ol_quantity"
            " WHERE ol_w_id = %s AND ol_d_id = %s AND ol_o_id = %s AND ol_number = %s",
            keys[:len(keys) * percent // 100])


def blocks(port):
    with connect(port) as connection:
        cursor = connection.execute(
            "SELECT hot, cooling, frozen FROM froglet.blocks WHERE table_name = 'order_line'")
        return dict(zip(["hot", "cooling", "frozen"], cursor.fetchone()))


class Ways:
    def __init__(self):
        self.seconds, self.bytes, self.states, self.expected = {}, {}, {}, None

    def measure(self, name, way, *arguments):
        begun = time.perf_counter()
        table = way(*arguments)
        seconds = time.perf_counter() - begun
        self.seconds.setdefault(name, []).append(seconds)
        found = checked(table)
        self.expected = self.expected or found
        if found != self.expected:
            print(json.dumps({"wrong": f"{name}: rows and sums are {found}, not {self.expected}"}))
        if isinstance(table, pyarrow.Table):
            # Numbers and times as pandas has them, decimals and texts as Python's objects; and all as they are.
            for what, mapper in [("to pandas", None), ("to pandas on Arrow", pandas.ArrowDtype)]:
                begun = time.perf_counter()
                table.to_pandas(types_mapper=mapper)
                whole = seconds + time.perf_counter() - begun
                self.seconds.setdefault(f"{name}, {what}", []).append(whole)
            self.bytes[name] = table.nbytes
        return table

    def limit(self, name, way, size):
        self.seconds.setdefault(name, []).append(way(size))
        self.bytes[name] = size


def one_round(ways, options, keys):
    size = None
    if options.flight:
        with connect(options.froglet) as connection:
            connection.execute("VACUUM order_line")
        # Into memory that is there, as the bare socket's bytes go: the rows of the round before have given theirs back.
        for _ in range(2):
            flight(options.flight)
        for percent in HOT_PERCENT:
            heat(options.froglet, keys, percent)
            name = f"Flight, {percent} % hot"
            state = blocks(options.froglet)
            ways.states[name] = state
            size = ways.measure(name, flight, options.flight).nbytes
    for system, port in [("froglet", options.froglet), ("PostgreSQL", options.postgres)]:
        if port:
            table = ways.measure(f"{system} COPY text", copy_text, port)
            size = size or table.nbytes
            ways.measure(f"{system} COPY binary", copy_binary, port)
            ways.measure(f"{system} psycopg rows", rows_to_pandas, port)
    ways.limit("bare socket", bare_socket, size)
    ways.limit("memcpy", memory_copy, size)


def warm_up(port):
    """What is slow only once: the driver's library, pandas' conversions."""
    with dbapi.connect(f"grpc://127.0.0.1:{port}", db_kwargs={"username": "postgres", "password": "any"},
                       autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute(f"{QUERY} LIMIT 1")
        cursor.fetch_arrow_table().to_pandas()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--dir", type=pathlib.Path, required=True)
    for name in ["rounds", "froglet", "flight", "postgres"]:
        parser.add_argument(f"--{name}", type=int)
    options = parser.parse_args()
    with open(options.dir / "order_line.keys") as lines:
        keys = [tuple(map(int, line.split())) for line in lines]
    for port in [options.froglet, options.postgres]:
        if port:
            load(port, options.dir)
    if options.flight:
        warm_up(options.flight)
    ways = Ways()
    for _ in range(options.rounds):
        one_round(ways, options, keys)
    for name, seconds in ways.seconds.items():
        line = {"way": name, "seconds": statistics.median(seconds), "bytes": ways.bytes.get(name),
                "rows": ways.expected[0]}
        state = ways.states.get(name)
        if state:
            line["blocks"] = state
        print(json.dumps(line))


if __name__ == "__main__":
    main()
