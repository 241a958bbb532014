"""COPY in detail: what its errors say, its binary format for every type, one message for each row."""

import select

import psycopg
import pytest

from test_clients import VALUES, as_read

TABLE = "create table t (id int primary key, v int check (v < 100), s varchar(3) not null)"

# Options, data, and whether it is to be taken as bytes.
WRONG = [
    ("", "1\tx\ta\n"), ("", "1\t1\ta\n2\t\\N\n"), ("", "1\t1\ta\n2\t2\tb\textra\n"), ("", "1\t1000\ta\n"),
    ("", "1\t1\ta\n1\t1\ta\n"), ("", "1\t1\t\\N\n"), ("", "1\t1\ttoo long\n"), ("", "1\t99999999999\ta\n"),
    ("", "1\t" + "9" * 200 + "\ta\n"), ("", "1\t1\ta\n\n"), ("", "x" * 150 + "\n"), ("", b"1\t1\t\xff\n"),
    ("", "1\t1\ta\n2\t2\tb\n3\t3\tc\n2\t9\td\n4\t4\te\n"),
    ("(format csv)", '1,1,"a\nb"\n2,x,c\n'), ("(format csv)", '1,1,a\n2,2,"b\n\nb\n"\n'),
    ("(format csv, header)", "id,v,s\n1,1,a\n2,x,b\n"), ("(format csv)", '1,1,"a\n'),
    ("(format csv)", "1,1,ä" * 30 + "\n"), ("(format csv)", "1,,a\n1,,b\n"),
]


def test_errors_say_where(froglet, postgres):
    """The same SQLSTATE, message and CONTEXT as PostgreSQL's, and no row stays."""
    seen = []
    for server in (froglet, postgres):
        server.run(TABLE)
        with server.connect() as connection:
            seen.append([failing(connection, *wrong) for wrong in WRONG])
            assert connection.execute("select count(*) from t").fetchone() == (0,)
    assert not different(WRONG, *seen)


def different(cases, ours, theirs):
    return [triple for triple in zip(cases, ours, theirs) if triple[1] != triple[2]]


def failing(connection, options, data):
    with pytest.raises(psycopg.Error) as caught:
        with connection.cursor().copy(f"copy t from stdin {options}") as copy:
            copy.write(data)
    diag = caught.value.diag
    return diag.sqlstate, diag.message_primary, diag.context


def test_a_copy_given_up_says_where(server):
    with server.connect() as connection:
        connection.execute(TABLE)
        with pytest.raises(ValueError), connection.cursor().copy("copy t from stdin") as copy:
            copy.write("1\t1\ta\n")
            raise ValueError("no more")
        pgconn = connection.pgconn
        pgconn.exec_(b"copy t from stdin")
        pgconn.put_copy_data(b"1\t1\ta\n")
        pgconn.put_copy_end(b"enough")
        result = pgconn.get_result()
        assert b"COPY from stdin failed: enough" in result.error_message
        assert b"CONTEXT:  COPY t, line 2" in result.error_message
        while pgconn.get_result():
            pass


@pytest.mark.parametrize("sql_type", VALUES)
def test_binary_round_trip(server, sql_type):
    """Every type through COPY in the binary format, in and out."""
    with server.connect() as connection:
        connection.execute(f"create table t (id int primary key, v {sql_type})")
        values = [*VALUES[sql_type], None]
        names = {"int": "int4", "smallint": "int2", "bigint": "int8", "real": "float4",
                 "double precision": "float8", "varchar(5)": "varchar", "char(4)": "text",
                 "numeric(20,4)": "numeric", "int[]": "int4[]", "boolean[]": "bool[]",
                 "double precision[]": "float8[]"}
        types = ["int4", names.get(sql_type, sql_type)]
        with connection.cursor().copy("copy t from stdin (format binary)") as copy:
            copy.set_types(types)
            for row in enumerate(values):
                copy.write_row(row)
        assert [v for [v] in connection.execute("select v from t order by id")] == as_read(values)
        with connection.cursor().copy("copy (select * from t order by id) to stdout (format binary)") as copy:
            copy.set_types(types)
            assert list(copy.rows()) == list(enumerate(as_read(values)))


# Statements about the columns id and s of table t.
OPTIONS = [
    "copy t to stdout (delimiter '.')", "copy t to stdout (delimiter 'a')", "copy t to stdout (delimiter '7')",
    "copy t to stdout (delimiter '\\')", "copy t to stdout (delimiter e'\\n')",
    "copy t to stdout (format csv, delimiter e'\\r')", "copy t to stdout (delimiter 'ab')",
    "copy t to stdout (delimiter 'ä')", "copy t to stdout (delimiter '')", "copy t to stdout (delimiter 'A')",
    "copy t to stdout (format csv, quote 'ab')", "copy t to stdout (format csv, escape '')",
    "copy t to stdout (format csv, quote ',')", "copy t to stdout (quote '''')", "copy t to stdout (escape '''')",
    "copy t to stdout (format binary, quote '''')", "copy t to stdout (format binary, delimiter ',')",
    "copy t to stdout (format binary, null 'x')", "copy t to stdout (format binary, header)",
    "copy t to stdout (null e'a\\nb')", "copy t to stdout (null e'a\\tb')", "copy t to stdout (format csv, null 'a,b')",
    "copy t to stdout (format csv, null 'a\"b')", "copy t to stdout (format csv, quote '''', null 'a''b')",
    "copy t from stdin (force_quote (id))", "copy t from stdin (format csv, force_quote (id))",
    "copy t from stdin (format csv, force_quote *)", "copy t to stdout (force_quote *)",
    "copy t to stdout (format csv, force_not_null (id))", "copy t to stdout (format csv, force_null (id))",
    "copy t from stdin (force_not_null (id))", "copy t from stdin (force_null (id))",
    "copy t from stdin (format csv, force_not_null *)", "copy t from stdin (format csv, force_null *)",
    "copy t to stdout (format csv, force_quote (nope))", "copy t (id) to stdout (format csv, force_quote (s))",
    "copy (select id from t) to stdout (format csv, force_quote (s))",
    "copy (select id from t) to stdout (format csv, force_quote (id, id))",
    "copy t from stdin (format csv, force_not_null (nope))", "copy t (id) from stdin (format csv, force_not_null (s))",
    "copy t from stdin (format csv, force_null (nope))", "copy t (id) from stdin (format csv, force_null (s))",
    "copy t from stdin (format csv, force_null (s, s))", "copy t to stdout (format csv, force_quote id)",
    "copy t to stdout (format csv, quote 'a')", "copy t to stdout (format csv, delimiter 'a')",
    "copy t to stdout (format csv, force_quote (id, s))", "copy t (s) to stdout (format csv, force_quote (s), null 'x')",
]


def test_options_are_postgresqls(froglet, postgres):
    """What is refused, and what is written: the same SQLSTATE and message, or the same bytes."""
    seen = []
    for server in (froglet, postgres):
        server.run("create table t (id int, s text)", "insert into t values (1, 'xyz'), (2, 'a'), (3, null)")
        with server.connect() as connection:
            seen.append([answer(connection, sql) for sql in OPTIONS])
    assert not different(OPTIONS, *seen)


def answer(connection, sql):
    try:
        with connection.cursor().copy(sql) as copy:
            return b"".join(bytes(block) for block in copy) if "to stdout" in sql else None
    except psycopg.Error as e:
        return e.diag.sqlstate, e.diag.message_primary


def test_names_with_quotes(server):
    """Whatever is in the name of a table or a column, it is copied by that name."""
    with server.connect() as connection:
        for name in ('a"b', 'a""b', 'a\\"b', 'x\\" from t; --', "interval"):
            quoted = '"' + name.replace('"', '""') + '"'
            connection.execute(f"create table {quoted} ({quoted} int)")
            connection.execute(f"insert into {quoted} values (7)")
            for sql in (f"copy {quoted} to stdout", f"copy {quoted} ({quoted}) to stdout"):
                with connection.cursor().copy(sql) as copy:
                    assert b"".join(bytes(block) for block in copy) == b"7\n"


def test_rows_are_not_locked_in_silence(froglet):
    """PostgreSQL locks what COPY (SELECT … FOR UPDATE) reads; Froglet says that it does not."""
    froglet.run("create table t (id int)")
    with froglet.connect() as connection:
        for lock in ("for update", "for share", "for update of t"):
            found = answer(connection, f"copy (select id from t {lock}) to stdout")
            assert found[0] == "0A000" and "lock" in found[1], found


def test_a_silent_client_times_out(froglet):
    froglet.run("create table t (id int)")
    with froglet.connect() as connection:
        connection.execute("set statement_timeout = '300ms'")
        pgconn = connection.pgconn
        pgconn.exec_(b"copy t from stdin")
        pgconn.put_copy_data(b"1\n")
        pgconn.flush()
        ready, _, _ = select.select([pgconn.socket], [], [], 60)
        assert ready, "the server says something by itself"
        pgconn.put_copy_end()
        assert b"statement timeout" in pgconn.get_result().error_message
        while pgconn.get_result():
            pass
    assert froglet.value("select count(*) from t") == 0


def test_binary_errors(froglet, postgres):
    """Fields of a wrong length and tuples of a wrong width, told as PostgreSQL tells them."""
    head = b"PGCOPY\n\xff\r\n\0" + b"\0" * 8
    datas = [
        b"not a copy", head[:15], head + b"\0\2", head + b"\0\1\0\0\0\4\0\0\0\1",
        head + b"\0\2\0\0\0\2\0\1\0\0\0\4\0\0\0\1", head + b"\0\2\0\0\0\5\0\0\0\1\0\0\0\0\4\0\0\0\1",
        head + b"\0\2\0\0\0\4\0\0\0\1\xff\xff\xff\xfe", head + b"\0\3\0\0\0\4\0\0\0\1",
    ]
    seen = []
    for server in (froglet, postgres):
        server.run("create table t (id int primary key, v int)")
        with server.connect() as connection:
            answers = [failing(connection, "(format binary)", data) for data in datas]
            seen.append([(state, context) for state, _, context in answers])
    assert not different(datas, *seen)


@pytest.mark.parametrize("options, rows", [
    ("", [b"1\ta\\tb\n", b"2\t\\N\n"]),
    ("(format csv, header)", [b"id,v\n", b"1,a\tb\n", b"2,\n"]),
    ("(format binary)", [
        b"PGCOPY\n\xff\r\n\0" + b"\0" * 8 + b"\0\2\0\0\0\4\0\0\0\1\0\0\0\3a\tb",
        b"\0\2\0\0\0\4\0\0\0\2\xff\xff\xff\xff", b"\xff\xff"]),
], ids=["text", "csv", "binary"])
def test_a_message_for_each_row(server, options, rows):
    with server.connect() as connection:
        connection.execute("create table t (id int primary key, v text)")
        connection.execute("insert into t values (1, 'a\tb'), (2, null)")
        with connection.cursor().copy(f"copy (select * from t order by id) to stdout {options}") as copy:
            assert [bytes(block) for block in copy] == rows
