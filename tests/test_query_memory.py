"""What queries use is on the account of the rows, and no value is longer than PostgreSQL's.

Each of these took gigabytes beside the limit on 32089e8, ended its session with a panic, or ended long after its time.
"""

import time

import pytest
from psycopg import errors
from support.watch import Watch

LIMIT_MB = 64


@pytest.fixture
def small(start):
    server = start(environment={"FROGLET_MEMORY_LIMIT": f"{LIMIT_MB}MB"})
    server.run("create table t (id int primary key, v int, pad text)",
               "insert into t select g, g % 100, md5(g::text) from generate_series(1, 20000) g")
    return server


TOO_LARGE = [
    "select length(repeat('x', 2000000000))",
    "select sum(length(repeat('x', g))) from generate_series(9000000, 9000040) g",
    "select length(rpad('x', 200000000))",
    "select length(rpad('x', 2000000000))",
    "select length(replace(repeat('x', 100000), 'x', repeat('y', 1000)))",
    "select length(array_to_string(array_agg(g), repeat('x', 1000000))) from generate_series(1, 200) g",
    # Sets, while they are made.
    "select count(*) from generate_series(1, 1e10)",
    "select count(*) from generate_series('2000-01-01'::timestamp, '2100-01-01', '1 second')",
    "select max(s) from (select generate_series(1, 100000000 + v) s from t where id = 1) x",
    "select count(*) from string_to_table(repeat('x,', 8000000), ',')",
    "select count(*) from regexp_split_to_table(repeat('x,', 8000000), ',')",
    "select count(*) from regexp_matches(repeat('x,', 8000000), 'x', 'g')",
    # A long constant beside each of many rows.
    "select max(length(pad || repeat('x', 1000000))) from t",
    "select count(*) from t where repeat('x', 50000) || pad || repeat('x', 50000) = pad",
]


@pytest.mark.parametrize("query", TOO_LARGE)
def test_what_is_too_large_is_refused_and_memory_stays_within_the_limit(small, query):
    session = small.connect()
    before = small.anonymous_bytes()
    with pytest.raises((errors.OutOfMemory, errors.ProgramLimitExceeded)), Watch(small) as watch:
        session.execute(query)
    assert watch.most - before < 1.25 * LIMIT_MB * 2**20
    # The session goes on, and what was borrowed is given back.
    assert session.execute("select length(repeat('x', 20000000))").fetchall() == [(20_000_000,)]
    assert session.execute("select count(*) from (select * from t order by pad) s").fetchall() == [(20_000,)]


def test_what_fits_is_answered(small):
    for query, answer in [("select length(repeat('x', 5000000) || repeat('y', 5000000))", 10_000_000),
                          ("select length(replace(repeat('x', 1000), 'x', 'yy'))", 2000),
                          ("select length(string_agg(pad, ',')) from t", 33 * 20_000 - 1),
                          ("select array_to_string(array[1, 2, null], ', ', '-')", "1, 2, -"),
                          ("select 'a' || null::text", None), ("select 'a' || 1 || 'b'", "a1b"),
                          ("select max(length(pad || repeat('x', 1000))) from t", 1032)]:
        assert small.value(query) == answer, query


@pytest.mark.parametrize("query", [
    "select count(*) from t where starts_with(%s, pad)",
    "select count(*) from t where array_position(%s::int[], v) > 30",
    "select count(*) from t where jsonb_array_length(%s::jsonb) = v",
    "select count(*) from t where length(repeat('y', 20000000)) = v",
    "select count(*) from t where v = any(array(select g from generate_series(1, 20000) g))",
    "select count(*) from t where v <> all(array(select g from generate_series(1, 20000) g))",
    "select count(*) from t where pad = any(array(select md5(g::text) from generate_series(1, 20000) g))",
    "select count(*) from t where v = any(('{' || repeat('1,', 100000) || '7}')::int[])",
])
def test_a_long_constant_is_there_once_whatever_the_rows(small, query):
    """Functions had a copy of their own for each row of a batch, of which there are 8,192."""
    session, before = small.connect(), small.anonymous_bytes()
    given = {"%s::int[]": list(range(20_000)), "%s::jsonb": str(list(range(20_000)))}
    value = next((value for mark, value in given.items() if mark in query), "y" * 500_000)
    with Watch(small) as watch:
        session.execute(query, [value] if "%s" in query else None)
    assert watch.most - before < 1.25 * LIMIT_MB * 2**20


@pytest.mark.parametrize("query", [
    "select s, count(*) from (select id, %s as s from t) q group by s",
    "select count(*) from (select distinct v % 3, %s as s from t) q",
    "select length(s), count(*) from (select case when v > 50 then %s else 'b' || pad end as s from t) q group by 1 order by 2",
    "select max(id) from (select id, s from (select id, %s as s from t) q order by id limit 30) q where s <> ''",
    "select count(distinct coalesce(nullif(v, v)::text, %s)) from t",
    "select max(length(x.s)) from (select id, %s as s from t) x join (select id, %s as s from t) y on x.s = y.s and x.id = y.id",
    "select max(length(s)) from (select g, %s as s from generate_series(1, 20000) g order by g limit 50) q",
])
@pytest.mark.parametrize("how", ["text", "parameter"])
def test_a_long_constant_is_a_column_of_few_rows(small, query, how):
    """Sorts, groups and joins need a column, of a copy for each row: 800 MB for 8,192 of 100 kB. Who keeps all rows is refused."""
    session, before = small.connect(), small.anonymous_bytes()
    text, query = "y" * 100_000, query.replace(" % ", " %% ")
    given = [text] * query.count("%s")
    with Watch(small) as watch:
        try:
            session.execute(query if how == "parameter" else query.replace("%s", f"'{text}'"), given if how == "parameter" else [])
        except errors.OutOfMemory:
            pass
    assert watch.most - before < 1.25 * LIMIT_MB * 2**20


@pytest.mark.parametrize(("query", "fits"), [
    # Until a frame ends, which may be at the last row.
    ("select lag(pad) over () from t, generate_series(1, 50) g offset 999999", None),
    ("select sum(g) over (order by id, g) from t, generate_series(1, 20) g offset 399999", True),
    ("select row_number() over () from t, generate_series(1, 50) g offset 999999", True),
    ("select lead(id, 500000) over () from t, generate_series(1, 50) g offset 999999", None),
    ("select count(*) over (), g, g, g, id from t, generate_series(1, 50) g offset 999999", False),
    ("select sum(v) over (partition by v) from t, generate_series(1, 150) g offset 2999999", False),
    ("select first_value(pad) over (order by g rows between unbounded preceding and unbounded following)"
     " from t, generate_series(1, 50) g offset 999999", False),
    # What is read twice is kept.
    ("with x as materialized (select v, g, random() from t, generate_series(1, 150) g) select count(*) from x a, x b"
     " where a.v = b.v and a.g = b.g + 1000", False),
])
def test_rows_that_are_held_are_on_the_account(small, query, fits):
    """DataFusion's windows reserve nothing: twice the limit, and as much more as a join makes rows."""
    session, before = small.connect(), small.anonymous_bytes()
    with Watch(small) as watch:
        try:
            session.execute(query)
            has_fitted = True
        except errors.OutOfMemory:
            has_fitted = False
    assert watch.most - before < 1.25 * LIMIT_MB * 2**20
    assert fits in (has_fitted, None)
    assert session.execute("select count(*) from (select * from t order by pad) s").fetchall() == [(20_000,)]


@pytest.mark.parametrize("query", [
    "select sum(length(repeat(pad, 100000))) from t",
    "select sum(length(regexp_replace(repeat(pad, 1000), '[a-f]', 'xyz', 'g'))) from t a, generate_series(1, 100) g",
])
def test_a_function_hears_of_the_end_of_its_time(start, query):
    server = start(environment={"FROGLET_MEMORY_LIMIT": "1GB"})
    server.run("create table t (id int primary key, v int, pad text)",
               "insert into t select g, g % 100, md5(g::text) from generate_series(1, 2000) g")
    session = server.connect()
    session.execute("set statement_timeout = '1s'")
    begun = time.monotonic()
    with pytest.raises((errors.QueryCanceled, errors.OutOfMemory, errors.ProgramLimitExceeded)):
        session.execute(query)
    # Generous: it was ten seconds and more.
    assert time.monotonic() - begun < 30


def test_rows_that_no_client_takes_are_an_error_of_their_statement(start):
    """`array_agg(repeat('x', 1000))` over 3 million rows ended the session with a panic."""
    server = start()
    session = server.connect()
    with pytest.raises((errors.ProgramLimitExceeded, errors.OutOfMemory)):
        session.execute("select array_agg(repeat('x', 1000000)) from generate_series(1, 1100) g")
    assert session.execute("select 1").fetchall() == [(1,)]
    with pytest.raises((errors.ProgramLimitExceeded, errors.OutOfMemory)):
        session.execute("select repeat('x', 600000000), repeat('y', 600000000)")
    assert session.execute("select 1").fetchall() == [(1,)]
