"""Queries of the CH-benCHmark over TPC-C's tables: froglet's, frozen and hot; others' over the same as static Arrow.

    queries.py --dir DIR --rounds N --froglet PORT

`queries.rs` runs it, and DIR is what `files.rs` writes. DataFusion and DuckDB are measured if this Python has them
(`pip install datafusion duckdb`), on one thread, as one connection of froglet has; their tables are Arrow batches of
8,192 rows, froglet's blocks, with its types. Each round asks everybody every query; medians of the rounds are printed.
"""

import argparse
import json
import pathlib
import statistics
import time

import psycopg
import pyarrow
import pyarrow.csv

try:
    import datafusion
except ImportError:
    datafusion = None
try:
    import duckdb
except ImportError:
    duckdb = None

TABLES = ["orders", "order_line", "item"]
BLOCK_ROWS = 8192
CHUNK_BYTES = 1 << 20
JOINED = "ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id"
LONG_AGO, LATER = "timestamp '2007-01-02 00:00:00'", "timestamp '2100-01-01 00:00:00'"
QUERIES = {
    "scan": "SELECT sum(ol_quantity), max(ol_o_id) FROM order_line",
    "Q1": "SELECT ol_number, sum(ol_quantity), sum(ol_amount), avg(ol_quantity), count(*) FROM order_line"
          f" WHERE ol_delivery_d > {LONG_AGO} GROUP BY ol_number ORDER BY ol_number",
    "Q4": f"SELECT o_ol_cnt, count(*) FROM orders WHERE o_entry_d >= {LONG_AGO} AND o_entry_d < {LATER} AND EXISTS"
          f" (SELECT * FROM order_line WHERE {JOINED} AND ol_delivery_d >= o_entry_d)"
          " GROUP BY o_ol_cnt ORDER BY o_ol_cnt",
    "Q6": f"SELECT sum(ol_amount) FROM order_line WHERE ol_delivery_d >= {LONG_AGO} AND ol_delivery_d < {LATER}"
          " AND ol_quantity BETWEEN 1 AND 100000",
    "Q12": "SELECT o_ol_cnt, sum(CASE WHEN o_carrier_id = 1 OR o_carrier_id = 2 THEN 1 ELSE 0 END),"
           " sum(CASE WHEN o_carrier_id <> 1 AND o_carrier_id <> 2 THEN 1 ELSE 0 END) FROM orders, order_line"
           f" WHERE {JOINED} AND o_entry_d <= ol_delivery_d AND ol_delivery_d < {LATER}"
           " GROUP BY o_ol_cnt ORDER BY o_ol_cnt",
    "Q14": "SELECT sum(CASE WHEN i_data LIKE 'a%' THEN ol_amount ELSE 0 END), sum(ol_amount) FROM order_line, item"
           f" WHERE ol_i_id = i_id AND ol_delivery_d >= {LONG_AGO}",
}
ARROW_TYPES = {23: pyarrow.int32(), 1114: pyarrow.timestamp("us"), 1700: pyarrow.decimal128(12, 2)}


def load(connection, directory):
    connection.execute((directory / "schema.sql").read_text())
    for table in TABLES:
        with open(directory / f"{table}.rows", "rb") as lines:
            with connection.cursor().copy(f"COPY {table} FROM STDIN") as copy:
                while chunk := lines.read(CHUNK_BYTES):
                    copy.write(chunk)


def as_arrow(connection, table):
    """A table as static Arrow: its batches are of a block's rows."""
    described = connection.execute(f"SELECT * FROM {table} LIMIT 0").description
    types = {column.name: ARROW_TYPES.get(column.type_code, pyarrow.string_view()) for column in described}
    text = {name: pyarrow.string() if kind == pyarrow.string_view() else kind for name, kind in types.items()}
    with connection.cursor().copy(f"COPY {table} TO STDOUT") as copy:
        lines = pyarrow.py_buffer(b"".join(copy))
    found = pyarrow.csv.read_csv(
        pyarrow.BufferReader(lines), read_options=pyarrow.csv.ReadOptions(column_names=list(types)),
        parse_options=pyarrow.csv.ParseOptions(delimiter="\t"),
        convert_options=pyarrow.csv.ConvertOptions(null_values=["\\N"], strings_can_be_null=True, column_types=text))
    return found.cast(pyarrow.schema(list(types.items()))).combine_chunks().to_batches(max_chunksize=BLOCK_ROWS)


def plain(rows):
    """Rows that can be compared, whatever numbers their system has."""
    return [tuple(None if value is None else round(float(value), 2) for value in row) for row in rows]


def systems(connection):
    """Who answers: a name, what is done before a round, and how a query is asked."""
    def froglet(query):
        return connection.execute(query).fetchall()

    def freeze():
        for table in TABLES:
            connection.execute(f"VACUUM {table}")

    def heat():
        # Every row is written to. The versions are gone before anybody is asked: what is measured is the hot form.
        connection.execute("UPDATE orders SET o_ol_cnt = o_ol_cnt, o_carrier_id = o_carrier_id, o_entry_d = o_entry_d")
        connection.execute("UPDATE order_line SET ol_quantity = ol_quantity, ol_amount = ol_amount,"
                           " ol_delivery_d = ol_delivery_d, ol_i_id = ol_i_id")
        while connection.execute("SELECT sum(versions) FROM froglet.blocks").fetchone()[0]:
            time.sleep(0.02)

    yield "froglet, frozen", freeze, froglet
    yield "froglet, hot", heat, froglet
    if not datafusion and not duckdb:
        return
    batches = {table: as_arrow(connection, table) for table in TABLES}
    if datafusion:
        context = datafusion.SessionContext(datafusion.SessionConfig().with_target_partitions(1))
        for table, found in batches.items():
            context.register_record_batches(table, [found])

        def ask(query):
            return pyarrow.Table.from_batches(context.sql(query).collect())

        yield f"DataFusion {datafusion.__version__}, static Arrow", lambda: None, ask
    if duckdb:
        duck = duckdb.connect(config={"threads": 1})
        tables = {table: pyarrow.Table.from_batches(found) for table, found in batches.items()}
        for table, found in tables.items():
            duck.register(table, found)
        yield f"DuckDB {duckdb.__version__}, static Arrow", lambda: None, lambda query: duck.execute(query).fetchall()


def rows_of(answer):
    return answer if isinstance(answer, list) else [tuple(row.values()) for row in answer.to_pylist()]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--dir", type=pathlib.Path, required=True)
    for name in ["rounds", "froglet"]:
        parser.add_argument(f"--{name}", type=int, required=True)
    options = parser.parse_args()
    connection = psycopg.connect(host="127.0.0.1", port=options.froglet, user="postgres", dbname="postgres",
                                 autocommit=True)
    load(connection, options.dir)
    asked, seconds, expected = list(systems(connection)), {}, {}
    for _ in range(options.rounds + 1):
        for name, prepare, ask in asked:
            prepare()
            for query, sql in QUERIES.items():
                begun = time.perf_counter()
                answer = ask(sql)
                seconds.setdefault((name, query), []).append(time.perf_counter() - begun)
                found = plain(rows_of(answer))
                if found != expected.setdefault(query, found):
                    print(json.dumps({"wrong": f"{query}: {name} answers {found[:3]}, others {expected[query][:3]}"}))
    for (name, query), all_rounds in seconds.items():
        # The first round is a warm-up.
        print(json.dumps({"system": name, "query": query, "seconds": statistics.median(all_rounds[1:])}))


if __name__ == "__main__":
    main()
