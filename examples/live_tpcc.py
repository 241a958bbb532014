"""Read TPC-C's tables into pandas while its transactions run, and its schema changes.

    FROGLET_FLIGHT_LISTEN=127.0.0.1:32010 ./run demo --seconds 20     # terminal 1: a server with TPC-C on it
    pip install adbc-driver-flightsql pyarrow pandas                  # terminal 2
    python examples/live_tpcc.py

Each `# %%` is a cell, for editors that make notebooks of plain Python.
"""

# %% Connect. There is no export and no copy of the tables: these are the ones that the transactions write.
import os
import time

import pandas
from adbc_driver_flightsql import dbapi

address = os.environ.get("FROGLET_FLIGHT", "grpc://127.0.0.1:32010")
connection = dbapi.connect(address, db_kwargs={"username": "analyst", "password": ""}, autocommit=True)


def fetch(sql):
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return cursor.fetch_arrow_table()


# %% A whole table, of one snapshot, into pandas. Large ones come in parts, which the driver fetches side by side.
begun = time.monotonic()
lines = fetch("SELECT * FROM order_line")
seconds = time.monotonic() - begun
print(f"order_line: {lines.num_rows:,} rows, {lines.nbytes / 1e6:.1f} MB in {seconds:.2f} s")
frame = lines.to_pandas()
print(frame.head())

# %% What sells: computed here, from rows that are a moment old.
sold = frame.groupby("ol_i_id")["ol_quantity"].sum().sort_values(ascending=False)
print(sold.head())

# %% The same, computed there.
print(pandas.read_sql(
    "SELECT ol_i_id, sum(ol_quantity) AS sold FROM order_line GROUP BY ol_i_id ORDER BY sold DESC, ol_i_id LIMIT 5",
    connection))

# %% The tables go on changing, and each look is consistent: TPC-C's condition 3.3.2.2 holds in each of them.
# (The next number of a district's orders is the highest number that an order has there, and one.)
for look in range(5):
    districts = fetch(
        "SELECT d_w_id, d_id, d_next_o_id - 1 AS last, max(o_id) AS highest FROM district "
        "JOIN orders ON o_w_id = d_w_id AND o_d_id = d_id GROUP BY d_w_id, d_id, d_next_o_id").to_pandas()
    wrong = districts[districts["last"] != districts["highest"]]
    print(f"look {look + 1}: {districts['highest'].sum():,} orders, {len(wrong)} districts wrong")
    assert wrong.empty
    time.sleep(0.5)

# %% What this computed goes back, as a table that everybody sees at once.
with connection.cursor() as cursor:
    rows = cursor.adbc_ingest("bestsellers", sold.head(100).reset_index(), mode="replace")
print(f"bestsellers: {rows} rows")
connection.close()
