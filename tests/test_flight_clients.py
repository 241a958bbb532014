"""The clients that analysts have, over Arrow Flight SQL: ADBC into pyarrow, pandas and Polars.

What PostgreSQL's port says of a value is what Flight must say; every batch is checked to its last byte.
"""

import datetime
import decimal
import uuid

import pandas
import polars
import pyarrow
import pytest

from support.flight import Flight, adbc, fetch, field

TYPES = """create table all_types (
    id int primary key, b boolean, i2 smallint, i4 integer, i8 bigint, f4 real, f8 double precision,
    n numeric(12,3), u numeric, t text, v varchar(20), c char(4), y bytea, d date, ts timestamp,
    tz timestamptz, g uuid)"""
ROWS = """insert into all_types values
    (1, true, -32768, -2147483648, -9223372036854775808, 1.5, -0.1, -123456789.125, 0.1234567891, 'short',
     'a longer text than fits', 'ab', '\\x00ff', '0001-01-01', '1969-12-31 23:59:59.999999',
     '2026-11-23 12:00:00+02', '00000000-0000-0000-0000-000000000001'),
    (2, false, 32767, 2147483647, 9223372036854775807, 3.4e38, 1e308, 999999999.999, 12345678901234567890,
     '', '', '', '', '9999-12-31', '2026-02-28 00:00:00', '1900-01-01 00:00:00+00',
     'ffffffff-ffff-ffff-ffff-ffffffffffff'),
    (3, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null)"""
ROWS = ROWS.replace("'a longer text than fits'", "'längerer Text, 雪と蛙'")




@pytest.fixture
def types(flight):
    flight.run(TYPES, ROWS)
    return flight


@pytest.mark.parametrize("strings", ["views", "plain"])
def test_every_type_is_what_the_postgresql_port_says(types, strings):
    with adbc(types, headers={"froglet-strings": strings}) as connection:
        # By the short path, and by DataFusion.
        for query in ("select * from all_types where id = {}", "select * from all_types order by id"):
            for id in (1, 2, 3):
                sql = query.format(id)
                table = fetch(connection, sql)
                found = [tuple(row.values()) for row in table.to_pylist()]
                expected = types.rows(sql)
                assert [same(row) for row in found] == [same(row) for row in expected]
    kind = {"views": pyarrow.string_view(), "plain": pyarrow.string()}[strings]
    assert table.schema.field("t").type == kind
    assert table.schema.field("n").type == pyarrow.decimal128(12, 3)
    assert table.schema.field("tz").type == pyarrow.timestamp("us", "UTC")


def same(row):
    """Without what only one of the two drivers writes: instants in UTC, floats of their own width."""
    out = []
    for value in row:
        if isinstance(value, datetime.datetime) and value.tzinfo:
            value = value.astimezone(datetime.timezone.utc).isoformat()
        elif isinstance(value, float):
            value = float(f"{value:.6g}")
        elif isinstance(value, decimal.Decimal):
            value = value.normalize()
        out.append(value)
    return out


@pytest.mark.parametrize("query", [
    "select * from all_types", "select * from all_types where id < 0", "select t || 'x' from all_types",
    "select count(*), sum(i8), avg(n), max(t) from all_types", "select now(), current_date",
    "select null", "select array[1, 2], array['a', null]", "select ts - ts from all_types",
    "select interval '1 month 2 days'", "select 1::oid, 'all_types'::regclass", "select i4 / 2.0 from all_types",
    "explain select 1", "show search_path", "values (1, 'a'), (2, null)",
])
@pytest.mark.parametrize("strings", ["views", "plain"])
def test_results_of_every_kind_are_sound(types, query, strings):
    with Flight(types, headers={"froglet-strings": strings}) as client:
        info = client.info(query)
        table = client.query(query)
        assert table.schema == info.schema, "what was told is what comes"
        assert len(table) == len(types.rows(query))
        descriptor = info.descriptor
        assert client.client.get_schema(descriptor, client.options).schema == info.schema


def test_empty_results_have_their_columns(types):
    with adbc(types) as connection:
        table = fetch(connection, "select id, t from all_types where id > 100")
        assert table.num_rows == 0 and table.column_names == ["id", "t"]
        table = fetch(connection, "select id, t from all_types where i8 > 0 and i8 < 0")
        assert table.num_rows == 0 and table.column_names == ["id", "t"]


@pytest.mark.parametrize("strings", ["views", "plain"])
def test_pandas(types, strings):
    with adbc(types, headers={"froglet-strings": strings}) as connection:
        frame = pandas.read_sql("select id, t, f8, n, tz, d from all_types order by id", connection)
    assert list(frame["id"]) == [1, 2, 3]
    assert frame["t"].tolist()[:2] == ["short", ""] and pandas.isna(frame["t"][2])
    assert frame["tz"][0] == pandas.Timestamp("2026-11-23 10:00", tz="UTC")
    assert frame["f8"][1] == 1e308
    with adbc(types, headers={"froglet-strings": strings}) as connection, connection.cursor() as cursor:
        cursor.execute("select t, g from all_types order by id")
        assert cursor.fetch_df()["t"].tolist()[:2] == ["short", ""]


@pytest.mark.parametrize("strings", ["views", "plain"])
def test_polars(types, strings):
    with adbc(types, headers={"froglet-strings": strings}) as connection:
        frame = polars.read_database("select id, t, y, n, g, tz from all_types order by id", connection)
    assert frame["t"].to_list() == ["short", "", None]
    assert frame["y"].to_list() == [b"\x00\xff", b"", None]
    assert frame["n"].to_list() == [decimal.Decimal("-123456789.125"), decimal.Decimal("999999999.999"), None]
    assert frame["g"].to_list()[0] == uuid.UUID(int=1).bytes
    assert frame["tz"].dtype == polars.Datetime("us", "UTC")


def test_metadata_tells_the_sql_types(types):
    with Flight(types) as client:
        schema = client.info("select n, v, g from all_types").schema
    names = [f.metadata[b"ARROW:FLIGHT:SQL:TYPE_NAME"].decode() for f in schema]
    assert names == ["numeric(12,3)", "character varying(20)", "uuid"]
    assert schema.field("n").metadata[b"ARROW:FLIGHT:SQL:PRECISION"] == b"12"
    assert schema.field("g").type == pyarrow.uuid()


def test_catalog(flight):
    flight.run(
        "create table parent (a int, b int, name text not null, primary key (a, b))",
        "create table child (id int primary key, pa int, pb int, "
        "constraint to_parent foreign key (pa, pb) references parent on delete cascade)")
    with Flight(flight) as client:
        assert client.command("CommandGetCatalogs").to_pylist() == [{"catalog_name": "postgres"}]
        schemas = client.command("CommandGetDbSchemas")["db_schema_name"].to_pylist()
        assert "public" in schemas and "pg_catalog" in schemas
        assert client.command("CommandGetTableTypes")["table_type"].to_pylist() == ["TABLE"]
        tables = client.command("CommandGetTables", field(3, "par%") + field(5, 1)).to_pylist()
        assert [t["table_name"] for t in tables] == ["parent"]
        schema = pyarrow.ipc.read_schema(pyarrow.py_buffer(tables[0]["table_schema"]))
        assert schema.names == ["a", "b", "name"] and not schema.field("name").nullable
        keys = client.command("CommandGetPrimaryKeys", field(3, "parent")).to_pylist()
        assert [(k["column_name"], k["key_sequence"], k["key_name"]) for k in keys] == [
            ("a", 1, "parent_pkey"), ("b", 2, "parent_pkey")]
        imported = client.command("CommandGetImportedKeys", field(3, "child")).to_pylist()
        assert [(k["pk_table_name"], k["pk_column_name"], k["fk_column_name"], k["fk_key_name"],
                 k["delete_rule"]) for k in imported] == [
            ("parent", "a", "pa", "to_parent", 0), ("parent", "b", "pb", "to_parent", 0)]
        exported = client.command("CommandGetExportedKeys", field(3, "parent")).to_pylist()
        assert exported == imported
        cross = field(3, "parent") + field(6, "child")
        assert client.command("CommandGetCrossReference", cross).to_pylist() == imported
        assert client.command("CommandGetExportedKeys", field(3, "child")).num_rows == 0
        types = client.command("CommandGetXdbcTypeInfo")["type_name"].to_pylist()
        assert "uuid" in types and "numeric" in types
    with adbc(flight) as connection:
        assert connection.adbc_get_info()["vendor_name"] == "Froglet"
        assert connection.adbc_get_table_types() == ["TABLE"]
        assert connection.adbc_get_table_schema("parent").names == ["a", "b", "name"]
        objects = connection.adbc_get_objects(depth="all").read_all().to_pylist()
        [public] = [s for s in objects[0]["catalog_db_schemas"] if s["db_schema_name"] == "public"]
        assert [t["table_name"] for t in public["db_schema_tables"]] == ["child", "parent"]
