"""Restarts from a mapped checkpoint: killed again and again, with writes in between.

- every row of every table is what it was when the server died;
- every index finds just the rows that a scan finds;
- every file of a checkpoint is one that pyarrow reads by itself and finds valid, byte by byte, and the rows
  in it are the table's.
"""

import random

import pyarrow as pa
import pyarrow.ipc
import pytest

ROWS = 200_000
BLOCK = 8192

TABLES = {
    "line": """create table line (w int, d int, o int, n int, amount numeric(12,2), info text, paid boolean,
                                 primary key (w, d, o, n))""",
    "person": """create table person (id bigint primary key, mail text unique, born date, weight float8,
                                      picture bytea, key uuid, seen timestamptz)""",
}
FILLED = {
    "line": f"""insert into line select n % 5, n % 10, n / 10, n, n * 0.25,
                  case when n % 3 = 0 then 'kurz' when n % 3 = 1 then 'a longer text, of line ' || n end,
                  n % 2 = 0 from generate_series(1, {ROWS}) as g (n)""",
    "person": f"""insert into person select n, case when n % 4 > 0 then 'näme' || n || '@example.org' end,
                    date '1950-01-01' + (n % 20000)::int, n / 7.0, decode('00ff', 'hex'),
                    '00000000-0000-0000-0000-000000000001'::uuid, timestamptz '2026-01-01 00:00:00+00'
                    from generate_series(1, {ROWS // 2}) as g (n)""",
}
INDEXES = {
    "line_amount": "create index line_amount on line (amount, info)",
    "person_born": "create index person_born on person (born desc, mail)",
}


def everything(server):
    """All rows, in an order of their own."""
    with server.connect() as connection:
        return {table: sorted(connection.execute(f"select * from {table}").fetchall(), key=repr)
                for table in TABLES}


def assert_indexes_agree(server):
    """Each index finds as many rows as there are, and the same ones."""
    sums = {
        "line_pkey": ("line", "w >= 0", "w + 0 >= 0", "count(*), sum(n), sum(amount)"),
        "line_amount": ("line", "amount >= -1000000", "amount + 0 >= -1000000", "count(*), sum(n), count(info)"),
        "person_pkey": ("person", "id > 0", "id + 0 > 0", "count(*), sum(id), count(mail)"),
        "person_mail_key": ("person", "mail > ''", "mail || '' > ''", "count(*), sum(id)"),
        "person_born": ("person", "born > date '1900-01-01'", "born + 0 > date '1900-01-01'", "count(*), sum(id)"),
    }
    with server.connect() as connection:
        for index, (table, by_index, by_scan, what) in sums.items():
            [plan] = connection.execute(f"explain select * from {table} where {by_index}").fetchone()
            assert index in plan, plan
            found = connection.execute(
                f"with f as materialized (select * from {table} where {by_index}) select {what} from f").fetchone()
            assert found == connection.execute(f"select {what} from {table} where {by_scan}").fetchone(), index


def write(server, rng):
    """A few transactions on rows of any block, and on some blocks many."""
    with server.connect(autocommit=False) as connection:
        for n in range(rng.randint(1, 30)):
            at = rng.randint(1, ROWS)
            connection.execute("update line set amount = amount + %s, info = %s where n = %s and w = %s",
                               (n, rng.choice([None, "x", f"another text that is long {n}"]), at, at % 5))
            connection.execute("delete from person where id = %s", (rng.randint(1, ROWS // 2),))
            connection.execute("insert into person (id, mail) values (%s, %s)",
                               (rng.randint(ROWS, 10**12), f"new{rng.random()}@example.org"))
            connection.execute("update person set mail = mail || '.' where id = %s", (rng.randint(1, ROWS // 2),))
            if rng.random() < 0.2:
                connection.rollback()
            else:
                connection.commit()
        low = rng.randint(1, ROWS - 20_000)
        connection.execute("update line set paid = not paid where n between %s and %s",
                           (low, low + rng.randint(1, 20_000)))
        connection.commit()


@pytest.fixture
def filled(start):
    server = start(environment={"FROGLET_INDEX_SNAPSHOT_ROWS": "1000"})
    server.run(*TABLES.values(), *FILLED.values(), *INDEXES.values())
    return server


def test_restarts_between_writes(filled):
    rng = random.Random(7)
    for round_ in range(6):
        write(filled, rng)
        if round_ != 3:
            filled.run("checkpoint")
        if round_ % 2:
            write(filled, rng)
        if round_ == 2:
            filled.run("drop index line_amount")
            filled.run("checkpoint", INDEXES["line_amount"])
        if round_ == 4:
            filled.run("alter table line add column extra int default 7", "alter table person drop column picture")
        before = everything(filled)
        filled.kill_and_restart()
        assert everything(filled) == before, f"round {round_}"
        assert_indexes_agree(filled)
    assert filled.files("*-index-*.arrow"), "no index was saved"


def test_pyarrow_reads_every_file(filled):
    rng = random.Random(8)
    for _ in range(2):
        write(filled, rng)
        filled.run("checkpoint")
    filled.kill_and_restart()
    filled.run("update line set info = 'since the restart' where n = 1")
    filled.run("checkpoint", "checkpoint")
    files = [path for path in filled.files("*.arrow") if path.parent.name == "checkpoint"]
    spaces, indexed = {}, 0
    for path in files:
        allocated = pa.total_allocated_bytes()  # Other tests, too, have left something to collect.
        mapped = pa.memory_map(str(path))
        reader = pa.ipc.open_file(mapped)
        kind = path.stem.split("-")[1]
        batches = [reader.get_batch(n) for n in range(reader.num_record_batches)]
        for batch in batches:
            batch.validate(full=True)
        if kind == "index":
            table = pa.Table.from_batches(batches)
            pairs = list(zip(table["key"].to_pylist(), table["__rid"].to_pylist(), strict=True))
            assert pairs == sorted(set(pairs)), path
            indexed += len(pairs)
        elif kind == "space":
            assert pa.total_allocated_bytes() - allocated < 1 << 20, "pyarrow has copied what it was to map"
            blocks = [int(n) for n in reader.metadata[b"froglet.blocks"].split()]
            assert len(blocks) == len(batches), path
            for block, batch in zip(blocks, batches, strict=True):
                assert batch.num_rows <= BLOCK
                rows = spaces.setdefault(path.stem.split("-")[2], {})
                # A later file has the block again.
                if rows.get(block, (0, None))[0] < int(path.stem.split("-")[0]):
                    rows[block] = (int(path.stem.split("-")[0]), batch)
    assert indexed > ROWS
    counts = {table: filled.value(f"select count(*) from {table}") for table in TABLES}
    there = {space: sum(batch["__there"].true_count for _, batch in blocks.values())
             for space, blocks in spaces.items()}
    assert set(counts.values()) <= set(there.values()), (counts, there)
    [line] = [space for space, count in there.items() if count == counts["line"]]
    numbers = sorted(n for _, batch in spaces[line].values()
                     for n, is_there in zip(batch.column(4).to_pylist(), batch["__there"].to_pylist(), strict=True)
                     if is_there)
    assert numbers == [n for [n] in filled.rows("select n from line order by n")]
