"""Statements over Arrow Flight SQL: transactions, parameters, schema changes, ingest, errors."""

import datetime
import time
from concurrent.futures import ThreadPoolExecutor

import adbc_driver_manager
import pandas
import polars
import pyarrow
import pytest

from support.flight import Flight, adbc, fetch, field, fields, packed
from support.processes import wait_until


@pytest.fixture
def table(flight):
    flight.run("create role anna login", "create table t (id int primary key, v int, s text)",
               "insert into t select i, 0, 'row ' || i from generate_series(1, 100) as g(i)",
               "grant all on t to anna", "grant create on schema public to anna")
    return flight


def failure(work):
    """The error of work that must have one."""
    with pytest.raises(adbc_driver_manager.Error) as caught:
        work()
    return caught.value


# --- Transactions ----------------------------------------------------------------------------------


def test_commit_and_rollback(table):
    with adbc(table, autocommit=False) as connection, connection.cursor() as cursor:
        cursor.execute("update t set v = 1 where id <= 10")
        assert fetch(connection, "select count(*) as n from t where v = 1")["n"].to_pylist() == [10]
        assert table.value("select count(*) from t where v = 1") == 0, "nobody else sees it"
        connection.rollback()
        assert table.value("select count(*) from t where v = 1") == 0
        cursor.execute("update t set v = 2 where id <= 10")
        connection.commit()
        assert table.value("select count(*) from t where v = 2") == 10


def test_two_transactions_of_one_session_at_a_time(table):
    with Flight(table, user="anna") as client:
        one, two = client.begin(), client.begin()
        client.query("update t set v = 1 where id = 1", one)
        client.query("update t set v = 2 where id = 2", two)
        assert client.query("select v from t where id = 1", two)["v"].to_pylist() == [0]
        client.end(one)
        assert client.query("select v from t where id = 1", two)["v"].to_pylist() == [1]
        client.end(two, commit=False)
        assert table.rows("select id, v from t where v > 0") == [(1, 1)]


def test_a_conflict_is_40001(table):
    with adbc(table, autocommit=False) as connection, connection.cursor() as cursor:
        cursor.execute("set transaction isolation level repeatable read")
        assert fetch(connection, "select sum(v) as n from t")["n"].to_pylist() == [0]
        table.run("update t set v = 7 where id = 5")
        error = failure(lambda: cursor.execute("update t set v = v + 1 where id = 5"))
        assert "40001" in str(error), error
        assert "25P02" in str(failure(lambda: cursor.execute("select 1")))
        assert "25P02" in str(failure(connection.commit)), "it is not committed in silence"
    assert table.value("select v from t where id = 5") == 7


def test_savepoints(table):
    with Flight(table) as client:
        transaction = client.begin()
        client.query("update t set v = 1 where id = 1", transaction)
        body = packed("ActionBeginSavepointRequest", field(1, transaction) + field(2, 'my "point"'))
        [result] = client.act("BeginSavepoint", body)
        savepoint = fields(fields(result)[2])[1]
        client.query("update t set v = 2 where id = 2", transaction)
        client.act("EndSavepoint", packed("ActionEndSavepointRequest", field(1, savepoint) + field(2, 2)))
        client.end(transaction)
    assert table.rows("select id from t where v > 0") == [(1,)]


def test_a_transaction_ends_with_its_connection(table):
    client = Flight(table, user="anna")
    transaction = client.begin()
    client.query("update t set v = 1 where id = 1", transaction)
    client.close()
    # It holds the row no longer.
    table.run("set statement_timeout = '60s'; update t set v = 2 where id = 1")
    with Flight(table, token=client.token) as again:
        with pytest.raises(pyarrow.ArrowException, match="25000"):
            again.query("select 1", transaction)


def test_begin_by_text_is_refused(table):
    with adbc(table) as connection, connection.cursor() as cursor:
        for text in ("begin", "commit", "rollback"):
            assert "0A000" in str(failure(lambda text=text: cursor.execute(text)))


def test_a_text_of_several_statements_is_one_transaction(table):
    with Flight(table) as client:
        found = client.query("insert into t values (500, 1, 'new'); select s from t where id >= 500 order by s || ''")
        assert found["s"].to_pylist() == ["new"], "the last one's rows, with what those before it did"
        with pytest.raises(pyarrow.ArrowException, match="23505"):
            client.query("insert into t values (501, 1, 'new'); insert into t values (500, 1, 'again')")
        with pytest.raises(pyarrow.ArrowException, match="0A000"):
            client.query("insert into t values (502, 1, 'new'); begin")
    assert table.value("select count(*) from t where id > 100") == 1


def test_settings_stay_in_their_session(table):
    with adbc(table, user="anna") as one, adbc(table, user="anna") as other:
        with one.cursor() as cursor:
            cursor.execute("set search_path to nowhere")
        assert fetch(one, "show search_path")["search_path"].to_pylist() == ["nowhere"]
        assert "42P01" in str(failure(lambda: fetch(one, "select * from t")))
        assert fetch(other, "select count(*) as n from t")["n"].to_pylist() == [100]
        assert fetch(other, "select current_user as u")["u"].to_pylist() == ["anna"]


# --- Parameters --------------------------------------------------------------------------------------


def test_parameters_of_queries(table):
    with adbc(table) as connection:
        assert fetch(connection, "select s from t where id = $1", (7,))["s"].to_pylist() == ["row 7"]
        found = fetch(connection, "select count(*) as n from t where id > $1 and s <> $2", (90, "row 95"))
        assert found["n"].to_pylist() == [9]
        found = fetch(connection, "select $1::date as d, $2::numeric as n, $3::bytea as y, $4::text as t",
                      (datetime.date(2026, 11, 23), "1.5", b"\0\1", None))
        assert found.to_pylist() == [{"d": datetime.date(2026, 11, 23), "n": 1.5, "y": b"\0\1", "t": None}]
        error = failure(lambda: fetch(connection, "select s from t where id = $1", ("seven",)))
        assert "22P02" in str(error), error
        error = failure(lambda: fetch(connection, "select s from t where id = $1", (2**40,)))
        assert "22003" in str(error), error
        error = failure(lambda: fetch(connection, "select s from t where id = $1 and v = $2", (1,)))
        assert "08P01" in str(error), error


def test_parameters_of_updates_all_or_nothing(table):
    with adbc(table) as connection, connection.cursor() as cursor:
        cursor.executemany("insert into t values ($1, $2, $3)", [(i, 1, f"new {i}") for i in range(200, 300)])
        assert cursor.rowcount == 100
        assert table.value("select count(*) from t where v = 1") == 100
        rows = [(400, 1, "good"), (1, 1, "a duplicate")]
        error = failure(lambda: cursor.executemany("insert into t values ($1, $2, $3)", rows))
        assert "23505" in str(error), error
        assert table.value("select count(*) from t where id = 400") == 0


def test_what_the_session_does_not_see_fails_its_transaction_too(table):
    """A query with two rows of parameters is refused after the first has run: it cannot be committed."""
    with Flight(table) as client:
        transaction = client.begin()
        handle = client.prepare("insert into t values ($1, 1, 'x') returning id", transaction)
        client.bind("CommandPreparedStatementQuery", handle, pyarrow.record_batch({"1": [500, 501]}))
        with pytest.raises(pyarrow.ArrowException, match="0A000"):
            client.prepared_info(handle)
        with pytest.raises(pyarrow.ArrowException, match="25P02"):
            client.end(transaction)
        transaction = client.begin()
        client.query("insert into t values (500, 1, 'x')", transaction)
        handle = client.prepare("insert into t values ($1, 1, 'x')", transaction)
        with pytest.raises(pyarrow.ArrowException, match="08P01"):
            client.bind("CommandPreparedStatementUpdate", handle, pyarrow.record_batch({"1": [501], "2": [1]}))
        with pytest.raises(pyarrow.ArrowException, match="25P02"):
            client.end(transaction)
    assert table.value("select count(*) from t where id >= 500") == 0


def test_rows_of_parameters_are_of_one_execution(table):
    with Flight(table) as client:
        sql = "insert into t values ($1, 1, 'x')"
        transaction = client.begin()
        lost, kept = client.prepare(sql, transaction), client.prepare(sql)
        client.end(transaction)
        row = pyarrow.record_batch({"1": pyarrow.array([500], pyarrow.int32())})
        none = pyarrow.record_batch({}, schema=pyarrow.schema([]))
        # What is bound for a query is not an update's.
        client.bind("CommandPreparedStatementQuery", kept, row)
        with pytest.raises(pyarrow.ArrowException, match="08P01"):
            client.bind("CommandPreparedStatementUpdate", kept, none)
        assert client.prepared_info(kept).total_records == 1
        # And a query that fails has had its rows.
        client.bind("CommandPreparedStatementQuery", kept, row)
        for state in ("23505", "08P01"):
            with pytest.raises(pyarrow.ArrowException, match=state):
                client.prepared_info(kept)
        with pytest.raises(pyarrow.ArrowException, match="25000"):
            client.bind("CommandPreparedStatementUpdate", lost, row)
    assert table.value("select count(*) from t where id = 500") == 1


def test_values_that_no_column_can_hold(table):
    """By ingest and as parameters alike, and as COPY refuses them."""
    table.run("create table wide (s text, at timestamp, atz timestamptz, d date, n numeric, ns numeric[], b bytea)")
    far = 2**60
    cases = [
        ("s", pyarrow.array(["a\0b"]), "22021"),
        ("s", pyarrow.array(["a\0b"]).dictionary_encode(), "22021"),
        ("at", pyarrow.array([far], pyarrow.timestamp("s")), "22008"),
        ("at", pyarrow.array([far], pyarrow.timestamp("ms")), "22008"),
        ("atz", pyarrow.array([-far], pyarrow.timestamp("s", "UTC")), "22008"),
        ("d", pyarrow.array([far], pyarrow.int64()).view(pyarrow.date64()), "22008"),
        ("s", pyarrow.array([{"a": 1}]), "0A000"),
        ("s", pyarrow.array([[("k", 1)]], pyarrow.map_(pyarrow.string(), pyarrow.int32())), "0A000"),
        # Bytes are no numbers, whatever a numeric is made of inside.
        ("n", pyarrow.array([b"@"], pyarrow.large_binary()), "(42804|22P02|42846)"),
        ("ns", pyarrow.array([[b"@"]], pyarrow.list_(pyarrow.large_binary())), "(42804|22P02|42846)"),
        ("ns", pyarrow.array([[b"@"]], pyarrow.large_list(pyarrow.large_binary())), "(42804|22P02|42846)"),
    ]
    with Flight(table) as client:
        for column, values, state in cases:
            batch = pyarrow.record_batch({column: values})
            with pytest.raises(pyarrow.ArrowException, match=f"SQLSTATE {state}"):
                client.ingest("wide", batch)
            handle = client.prepare(f"insert into wide ({column}) values ($1)")
            with pytest.raises(pyarrow.ArrowException, match=f"SQLSTATE {state}"):
                client.bind("CommandPreparedStatementUpdate", handle, batch)
        # What is encoded by runs comes in slices, too.
        runs = pyarrow.RunEndEncodedArray.from_arrays([1500, 3500], ["one", "two"])
        assert client.ingest("wide", pyarrow.record_batch({"s": runs})) == 3500
        at = pyarrow.array([1, None], pyarrow.timestamp("s"))
        assert client.ingest("wide", pyarrow.record_batch({"at": at})) == 2
        large = pyarrow.array([b"\0@"], pyarrow.large_binary())
        assert client.ingest("wide", pyarrow.record_batch({"b": large})) == 1
    assert table.rows("select s, count(*) from wide where s is not null group by s order by s") == [
        ("one", 1500), ("two", 2000)]
    assert table.value("select at from wide where at is not null") == datetime.datetime(1970, 1, 1, 0, 0, 1)
    assert table.value("select b from wide where b is not null") == b"\0@"


def test_a_prepared_statement_outlives_a_schema_change(table):
    with adbc(table) as connection, connection.cursor() as cursor:
        sql = "select id, v from t where id = $1"
        cursor.adbc_prepare(sql)
        cursor.execute(sql, (1,))
        before = cursor.fetch_arrow_table()
        table.run("alter table t alter column v type bigint using v + 5")
        cursor.execute(sql, (1,))
        after = cursor.fetch_arrow_table()
        after.validate(full=True)
        assert after.schema.field("v").type == before.schema.field("v").type, "as it was described"
        assert after["v"].to_pylist() == [5]
        assert fetch(connection, "select v from t where id = 2").schema.field("v").type == pyarrow.int64()
        table.run("alter table t drop column v")
        error = failure(lambda: cursor.execute(sql, (1,)))
        assert "42703" in str(error), error


def test_schema_changes(table):
    with adbc(table, autocommit=False) as connection, connection.cursor() as cursor:
        cursor.execute("alter table t add column doubled bigint generated always as (id * 2) stored")
        cursor.execute("create unique index on t (doubled)")
        cursor.execute("create table made as select id, doubled from t where id <= 5")
        assert fetch(connection, "select sum(doubled) as n from made")["n"].to_pylist() == [30]
        connection.rollback()
        assert "42P01" in str(failure(lambda: fetch(connection, "select * from made")))
        connection.rollback()
        cursor.execute("create table made as select id, s from t where id <= 5")
        connection.commit()
    assert table.value("select count(*) from made") == 5


# --- Errors --------------------------------------------------------------------------------------------


def test_errors_have_their_sqlstate(table):
    with adbc(table) as connection, connection.cursor() as cursor:
        wrong = {
            "select * from missing": ("42P01", adbc_driver_manager.ProgrammingError),
            "selekt 1": ("42601", adbc_driver_manager.ProgrammingError),
            "select 1 / 0": ("22012", adbc_driver_manager.ProgrammingError),
            "insert into t values (1, 1, 'x')": ("23505", adbc_driver_manager.Error),
            "select count(*) from t where v / (id - 50) = 1": ("22012", adbc_driver_manager.Error),
            "copy t to stdout": ("0A000", adbc_driver_manager.NotSupportedError),
        }
        for sql, (state, kind) in wrong.items():
            with pytest.raises(kind, match=f"SQLSTATE {state}"):
                cursor.execute(sql)
                cursor.fetchall()
        assert fetch(connection, "select 1 as one")["one"].to_pylist() == [1], "it goes on"


def test_rows_changed_are_counted(table):
    with adbc(table) as connection, connection.cursor() as cursor:
        assert cursor.adbc_statement.set_sql_query("update t set v = 3 where id < 11") is None
        assert cursor.adbc_statement.execute_update() == 10
        cursor.execute("delete from t where id < 4 returning id")
        assert sorted(row[0] for row in cursor.fetchall()) == [1, 2, 3]
    assert table.value("select count(*) from t") == 97


# --- Ingest ----------------------------------------------------------------------------------------------


def frame(first=0, rows=20_000):
    days = [datetime.date(2020, 1, 1) + datetime.timedelta(days=i % 1000) for i in range(rows)]
    return pyarrow.table({
        "id": pyarrow.array(range(first, first + rows), pyarrow.int64()),
        "name": pyarrow.array([None if i % 7 == 0 else f"name of number {i}" for i in range(rows)]),
        "price": pyarrow.array([i / 8 for i in range(rows)]),
        "day": pyarrow.array(days),
        "seen": pyarrow.array([i * 1_000_000 for i in range(rows)], pyarrow.timestamp("ns", "Europe/Berlin")),
        "kind": pyarrow.array([["frog", "toad"][i % 2] for i in range(rows)]).dictionary_encode(),
        "raw": pyarrow.array([bytes([i % 256]) * 3 for i in range(rows)]),
    })


def test_ingest_creates_appends_replaces(flight):
    sent = frame()
    with adbc(flight) as connection, connection.cursor() as cursor:
        assert cursor.adbc_ingest("frogs", sent, mode="create") == 20_000
        back = fetch(connection, "select * from frogs order by id")
        expected = sent.set_column(5, "kind", sent["kind"].cast(pyarrow.string()))
        assert back.to_pylist() == expected.to_pylist()
        assert "42P07" in str(failure(lambda: cursor.adbc_ingest("frogs", sent, mode="create")))
        assert cursor.adbc_ingest("frogs", frame(20_000, 10), mode="append") == 10
        assert cursor.adbc_ingest("frogs", frame(30_000, 10), mode="create_append") == 10
        assert flight.value("select count(*) from frogs") == 20_020
        assert cursor.adbc_ingest("frogs", frame(0, 3).select(["id", "name"]), mode="replace") == 3
        assert fetch(connection, "select * from frogs").column_names == ["id", "name"]
        assert cursor.adbc_ingest("toads", frame(0, 5), mode="create_append", db_schema_name="public") == 5
        assert "42P01" in str(failure(lambda: cursor.adbc_ingest("newts", sent, mode="append")))


def test_who_still_sends_is_told_why_it_is_refused(flight):
    flight.run("create table frogs (id int primary key)")
    # Refused by its schema, while the client is busy with what it sends next.
    names = pyarrow.array([f"name of number {i}" for i in range(300_000)]).dictionary_encode()
    wrong = pyarrow.table({"name": names})
    many = pyarrow.concat_tables([frame(first, 5_000) for first in range(0, 400_000, 5_000)])
    with adbc(flight) as connection, connection.cursor() as cursor:
        for sent in wrong, many:
            for mode, state in {"create": "42P07", "append": "42703"}.items():
                assert state in str(failure(lambda sent=sent, mode=mode: cursor.adbc_ingest("frogs", sent, mode=mode)))
        assert flight.value("select count(*) from frogs") == 0


def test_an_ingest_that_fails_leaves_nothing(flight):
    flight.run("create table kept (id int primary key, name text not null)", "insert into kept values (5, 'x')")
    good = pyarrow.table({"id": list(range(10_000, 20_000)), "name": ["n"] * 10_000})
    for bad in (
        {"id": [1, 5], "name": ["a", "duplicate"]},
        {"id": [1, 2], "name": ["a", None]},
        {"id": [1, 2**40], "name": ["a", "too large"]},
    ):
        data = pyarrow.concat_tables([good, pyarrow.table(bad, schema=good.schema)])
        for mode in ("append", "create_append"):
            with adbc(flight) as connection, connection.cursor() as cursor:
                failure(lambda c=cursor, m=mode, d=data: c.adbc_ingest("kept", d, mode=m))
            assert flight.rows("select * from kept") == [(5, "x")]
    with adbc(flight) as connection, connection.cursor() as cursor:
        nested = pyarrow.table({"id": [1], "list": [[1, 2]]})
        assert "0A000" in str(failure(lambda: cursor.adbc_ingest("made", nested, mode="create")))
        assert "0A000" in str(failure(lambda: cursor.adbc_ingest("kept", nested, mode="replace")))
        wrong = pyarrow.table({"id": [1], "nobody": ["x"]})
        assert "42703" in str(failure(lambda: cursor.adbc_ingest("kept", wrong, mode="append")))
        wrong = pyarrow.table({"id": [True], "name": ["x"]})
        assert "42804" in str(failure(lambda: cursor.adbc_ingest("kept", wrong, mode="append")))
    assert flight.rows("select * from kept") == [(5, "x")]
    assert flight.value("select count(*) from pg_tables where tablename = 'made'") == 0


def test_names_of_columns_are_names(flight):
    """Whatever is in the name of a column of a frame, it is no SQL."""
    flight.run("create table kept (id int)")
    names = ["a\"\"b", "a\\\"b", "x\\\" int); drop table kept; --", "x\"\" int); drop table kept; --", "select", "A b", "'"]
    sent = pyarrow.table({name: [1, 2] for name in names})
    with adbc(flight) as connection, connection.cursor() as cursor:
        for table in ("made", "made\\\" (x int); drop table kept; --"):
            for mode, rows in (("create", 2), ("append", 4), ("replace", 2)):
                assert cursor.adbc_ingest(table, sent, mode=mode) == 2
                quoted = table.replace('"', '""')
                assert fetch(connection, f'select * from "{quoted}"').column_names == names
                assert flight.value(f'select count(*) from "{quoted}"') == rows
    assert flight.value("select count(*) from kept") == 0


def test_an_ingest_in_a_transaction_that_has_failed(table):
    with Flight(table) as client:
        transaction = client.begin()
        with pytest.raises(pyarrow.ArrowException, match="23505"):
            client.query("insert into t values (1, 1, 'x')", transaction)
        with pytest.raises(pyarrow.ArrowException, match="25P02"):
            client.ingest("t", frame(0, 10), transaction)
        client.end(transaction, commit=False)
    assert table.value("select count(*) from t") == 100


def test_an_ingest_is_a_statement_that_others_see_and_may_cancel(flight):
    batch = frame(0, 1000).to_batches()[0]
    with Flight(flight) as client:
        transaction = client.begin()
        client.query("select 1", transaction)
        writer, reader = client.ingesting("frogs", batch.schema, transaction)
        writer.write_batch(batch)
        active = "from pg_stat_activity where state = 'active' and query like 'INGEST INTO %frogs%'"
        wait_until(lambda: flight.value(f"select count(*) {active}") == 1, "it is seen")
        assert flight.value(f"select pg_cancel_backend(pid) {active}")
        assert reader.read() is None
        with pytest.raises(pyarrow.ArrowException, match="57014"):
            writer.close()
        with pytest.raises(pyarrow.ArrowException, match="25P02"):
            client.end(transaction)


def test_an_ingest_whose_client_is_silent_times_out(flight):
    batch = frame(0, 1000).to_batches()[0]
    with Flight(flight) as client:
        client.query("set statement_timeout = '300ms'")
        writer, reader = client.ingesting("frogs", batch.schema)
        writer.write_batch(batch)
        assert reader.read() is None, "there is no answer but an error"
        with pytest.raises(pyarrow.ArrowException, match="statement timeout.*57014"):
            writer.close()
    assert flight.value("select count(*) from pg_tables where tablename = 'frogs'") == 0


def test_an_ingest_that_has_failed_waits_for_nothing_more(table):
    """The client has not said that there is no more, and is told all the same."""
    with Flight(table) as client:
        writer, reader = client.ingesting("t", pyarrow.schema([("id", pyarrow.int32())]))
        writer.write_batch(pyarrow.record_batch({"id": pyarrow.array([1], pyarrow.int32())}))
        assert reader.read() is None
        with pytest.raises(pyarrow.ArrowException, match="23505"):
            writer.close()


@pytest.mark.parametrize("rows, work", [
    (1_000_000, lambda client, batch: client.ingest("numbers", batch)),
    (30_000, lambda client, batch: client.bind(
        "CommandPreparedStatementUpdate", client.prepare("insert into numbers values ($1)"), batch)),
], ids=["ingest", "executions"])
def test_others_are_served_while_a_large_batch_is_worked_on(flight, rows, work):
    """A batch of many rows comes in one message. More sessions than there are threads go on meanwhile."""
    flight.run("create table others (id int primary key, v int)", "insert into others values (1, 0)",
               "create table numbers (id int)")
    batch = pyarrow.record_batch({"id": pyarrow.array(range(rows), pyarrow.int32())})
    with Flight(flight) as client, ThreadPoolExecutor(1) as pool:
        sessions = [flight.connect() for _ in range(16)]
        working = pool.submit(work, client, batch)
        rounds = [time.monotonic()]
        while not working.done():
            for session in sessions:
                session.execute("select v from others where id = 1")
            rounds.append(time.monotonic())
        assert working.result() == rows
        for session in sessions:
            session.close()
    longest = max(after - before for before, after in zip(rounds, rounds[1:]))
    assert longest < (rounds[-1] - rounds[0]) / 2, "nobody waits for all of it"


def test_an_ingest_is_of_its_transaction(flight):
    """By hand: the ADBC driver, as of 1.13, does not name its transaction when it ingests."""
    there = "select count(*) from pg_tables where tablename = 'frogs'"
    with Flight(flight) as client:
        transaction = client.begin()
        assert client.ingest("frogs", frame(0, 100), transaction) == 100
        found = client.query("select count(*) as n from frogs", transaction)
        assert found["n"].to_pylist() == [100] and flight.value(there) == 0
        client.end(transaction, commit=False)
        assert flight.value(there) == 0
        transaction = client.begin()
        client.ingest("frogs", frame(0, 100), transaction)
        client.ingest("frogs", frame(100, 100), transaction)
        client.end(transaction)
        assert flight.value("select count(*) from frogs") == 200
        transaction = client.begin()
        client.query("create unique index on frogs (id)", transaction)
        with pytest.raises(pyarrow.ArrowException, match="23505"):
            client.ingest("frogs", frame(50, 100), transaction)
        with pytest.raises(pyarrow.ArrowException, match="25P02"):
            client.end(transaction)
        assert client.ingest("none", frame(0, 0)) == 0
    assert flight.value("select count(*) from frogs") == 200
    assert flight.value("select count(*) from none") == 0


def test_frames_come_back(flight):
    pandas_frame = pandas.DataFrame({"id": [1, 2], "s": ["a", None], "t": pandas.to_datetime(["2026-01-01"] * 2)})
    polars_frame = polars.DataFrame({"id": [1, 2], "s": ["a", None], "u": [1, 2**64 - 1]},
                                    schema_overrides={"u": polars.UInt64})
    with adbc(flight) as connection:
        assert pandas_frame.to_sql("of_pandas", connection, index=False) == 2
        assert polars_frame.write_database("of_polars", connection) == 2
        assert fetch(connection, "select s from of_pandas order by id")["s"].to_pylist() == ["a", None]
        assert fetch(connection, "select u from of_polars order by id")["u"].to_pylist() == [1, 2**64 - 1]
