"""Joins of few rows with many: the many are looked up by an index, not read (`crates/froglet-sql/src/query/index_join.rs`).

The same question is asked of a table with indexes, of its twin without any, and of PostgreSQL 15: the answers are one.
Whether an index was used, the counters of `pg_stat_user_tables` say: rows that scans have read.
"""

import os
import random
from collections import Counter

import pytest
from psycopg import errors

SEEDS = int(os.environ.get("FROGLET_TEST_SEEDS", 3))
FIRST = int(os.environ.get("FROGLET_TEST_SEED", 20261128))
ROWS = 20_000
FILL = (f"select g, g % 97, g % 13, case when g % 7 = 0 then null else g / 3 end, (g % 500)::numeric / 4, 'w' || g % 1000"
        f" from generate_series(1, {ROWS}) g")
COLUMNS = "id int{key}, a int not null, b bigint not null, parent int, price numeric(10,2), word text"
INDEXES = ("create index {0}_ab on {0} (a, b)", "create index {0}_parent on {0} (parent desc)",
           "create index {0}_price on {0} (price)", "create index {0}_word on {0} (word, id)")
FEW = """create table few (k int, big bigint, a smallint, b bigint, p numeric, w varchar(9));
insert into few values (5, 5, 5, 5, 1.25, 'w5'), (19999, 19999, 96, 12, 2.5, 'w999'), (null, null, null, null, null, null),
    (5, 6000, 5, 5, 1.250, 'w7'), (700000, 5000000000, 3, 1, 99999, 'none'), (12, -1, 3, 2, -1, ''), (13, 21, 4, 7, 124.75, 'w12');
"""


def fill(connection, home=""):
    """`many` has indexes, `plain` the same rows and none."""
    for name, key in (("many", " primary key"), ("plain", "")):
        connection.execute(f"create table {name} ({COLUMNS.format(key=key)}){home}")
        connection.execute(f"insert into {name} {FILL}")
    for index in INDEXES:
        connection.execute(index.format("many"))
    connection.execute(FEW)


# Of the first no row of `many` is read by a scan.
BY_INDEX = [
    "select f.k, m.a, m.word from few f join many m on m.id = f.k",
    "select f.k, m.a, m.word from many m join few f on m.id = f.k",
    "select f.big, m.id from few f join many m on m.id = f.big",
    "select f.k, m.id, m.b from few f left join many m on m.id = f.k",
    "select f.k, m.id from few f join many m on m.a = f.a and m.b = f.b",
    "select f.k, m.id from few f join many m on m.b = f.b where m.a = 5",
    "select f.k, m.id from few f join many m on m.b = f.b where m.a in (3, 5) and m.id % 2 = 0",
    "select f.k, m.id from few f join many m on m.price = f.p",
    "select f.k, m.id from few f join many m on m.word = f.w",
    "select f.k, m.id from few f join many m on m.parent = f.k",
    "select id, word from many where id in (select k from few)",
    "select id from many m where exists (select from few f where f.k = m.parent)",
    "select k from few f where not exists (select from many m where m.id = f.k)",
    "select k, (exists (select from many m where m.id = f.k)) from few f",
    "select f.k, m.id from few f join (select id + 0 as n, * from many where b > 3) m on m.id = f.k",
    "select f.k, m.id, n.id from few f join many m on m.id = f.k join many n on n.parent = m.id",
    "select count(*), sum(m.id) from many m, few f where f.k = m.id and f.a > 3",
    "select k, (select count(*) from many m where m.parent = f.k), (select max(word) from many m where m.id = f.big) from few f",
    "select f.k, g.n from few f join (select parent, count(*) as n, min(word) from many group by parent) g on g.parent = f.k",
    "select f.k, g.id, g.n from few f join (select m.id, n.id as n from many m left join many n on n.id = m.parent) g on g.id = f.k",
    "select f.k from few f join (select * from many m where not exists (select from few g where g.a = m.b)) m on m.id = f.k",
    "select f.k, m.id from few f left join (many m join few g on g.k = m.parent) on m.id = f.k",
    "select f.k, m.id from few f join many m on m.id = f.k where f.k in (select n.parent from many n where n.b < 9)",
    "with recursive up (id, parent) as (select id, parent from many where id = 19999 union all"
    " select m.id, m.parent from up join many m on m.id = up.parent) select * from up",
    "with recursive down (id) as (select 2 union select m.id from down join many m on m.parent = down.id where m.id < 300)"
    " select * from down",
]
BY_SCAN = [
    "select f.k, g.n from few f join (select parent, grouping(parent) as n from many group by grouping sets ((parent), ())) g"
    " on g.parent = f.k",
    "select f.k, g.id, g.n from few f join (select m.id, n.id as n from few h left join many n on n.a = h.big full join many m"
    " on n.id = m.parent + 0) g on g.n = f.k",
    "select count(*) from many m join (select k + a as n from few) f on m.id + 1 = f.n",
    "select f.k, m.id from few f right join many m on m.id = f.k where m.id < 20000 and m.a + 0 = 5",
    "select count(*) from few f full join many m on m.id = f.k",
    "select count(*) from many m where id not in (select k from few where k is not null)",
    "select f.k, m.id from few f join many m on m.id is not distinct from f.k",
    "select count(*) from few f join (select id from many order by word, id limit 7) m on m.id = f.k",
    "select count(*) from few f join (select random() r, id from many) m on m.id = f.k where r >= 0",
]


def read_by_scans(connection, table="many"):
    counted = connection.execute(f"select seq_tup_read from pg_stat_user_tables where relname = '{table}'").fetchone()
    return counted[0]


def looks(connection, table="many"):
    return connection.execute(f"select idx_scan from pg_stat_user_tables where relname = '{table}'").fetchone()[0]


@pytest.mark.parametrize("home", ["memory", "disk"])
def test_many_are_looked_up_for_few(froglet, postgres, home):
    ours, theirs = froglet.connect(), postgres.connect()
    fill(ours, f" using {home}")
    fill(theirs)
    for sql in BY_INDEX + BY_SCAN:
        before = read_by_scans(ours)
        found = Counter(ours.execute(sql).fetchall())
        scanned = read_by_scans(ours) - before
        assert found == Counter(theirs.execute(sql).fetchall()), sql
        assert found == Counter(ours.execute(sql.replace("many", "plain")).fetchall()), sql
        assert (scanned == 0) == (sql in BY_INDEX), f"{scanned} rows: {sql}"


def test_explain_says_so(froglet):
    with froglet.connect() as connection:
        fill(connection)
        explained = "\n".join(row[0] for row in connection.execute(f"explain {BY_INDEX[4]}"))
        assert "IndexJoinExec: using many_ab" in explained, explained
        analyzed = "\n".join(row[0] for row in connection.execute(f"explain analyze {BY_INDEX[4]}"))
        assert "IndexJoinExec: using many_ab" in analyzed and "output_rows=" in analyzed, analyzed
        assert "IndexJoinExec" not in str(connection.execute("explain select * from few f full join many m on m.id = f.k").fetchall())


def test_too_many_keys_are_a_scan(froglet):
    """Many keys, keys that stand for many rows, and keys that are known only when it runs."""
    with froglet.connect() as connection:
        fill(connection)
        connection.execute(f"create table keys as select g as k from generate_series(1, {ROWS}) g")
        asked = "select count(*) from keys join many on id = k where k <= {0}"
        for most, is_scan in ((10, False), (1_000, False), (5_000, True)):
            before = read_by_scans(connection)
            assert connection.execute(asked.format(most)).fetchone() == (most,)
            assert (read_by_scans(connection) > before) == is_scan, most
            before = read_by_scans(connection)
            assert connection.execute(asked.format("%s::int"), (most,)).fetchone() == (most,)
            assert (read_by_scans(connection) > before) == is_scan, most


def test_changes_of_looked_up_rows(froglet, postgres):
    """UPDATE … FROM, DELETE … USING and MERGE's kin, and what a transaction has written itself."""
    ours, theirs = froglet.connect(), postgres.connect()
    statements = [
        "begin",
        "update many m set word = 'x' || f.k from few f where m.id = f.k",
        "select m.word from few f join many m on m.id = f.k",
        "insert into many values (700000, 1, 1, 5, 1.25, 'new')",
        "select m.word from few f join many m on m.id = f.k",
        "select m.id from few f join many m on m.parent = f.k",
        "delete from many m using few f where m.parent = f.k and f.a = 5",
        "select m.id from few f join many m on m.parent = f.k",
        "savepoint s", "update many set id = -id where id in (select k from few)",
        "select m.word from few f join many m on m.id = f.k", "rollback to s",
        "select m.word from few f join many m on m.id = f.k",
        "commit",
        "select count(*), sum(id), count(distinct word) from many",
    ]
    for connection in (ours, theirs):
        fill(connection)
    for sql in statements:
        seen = [connection.execute(sql) for connection in (ours, theirs)]
        rows = [Counter(cursor.fetchall()) if cursor.description else cursor.rowcount for cursor in seen]
        assert rows[0] == rows[1], sql


def test_what_was_looked_up_counts_for_serializable(froglet):
    """Write skew over rows that joins have looked up is refused; over others it is not."""
    with froglet.connect() as setup, froglet.connect() as one, froglet.connect() as two:
        fill(setup)
        for other, is_refused in ((19999, True), (77, False)):
            setup.execute("update many set a = 0 where id in (5, 19999, 77)")
            for connection in (one, two):
                connection.execute("begin isolation level serializable")
                read = connection.execute("select sum(m.a) from few f join many m on m.id = f.k where f.k in (5, 19999)")
                assert read.fetchone() == (0,)
            one.execute("update many set a = 1 where id = 5" if is_refused else "update many set a = 1 where id = 78")
            two.execute(f"update many set a = 1 where id = {other}")
            one.execute("commit")
            try:
                two.execute("commit")
                refused = False
            except Exception as error:
                refused = getattr(error, "sqlstate", None) == "40001"
                assert refused, error
            assert refused == is_refused, other


# Of each a value by a number, among them some that are equal and not alike.
TYPES = {
    "smallint": "(g % 3000)::smallint", "int": "g", "bigint": "g * 5000000000", "bool": "g % 2 = 0",
    "real": "case g % 50 when 0 then 'NaN' when 1 then '-0' when 2 then '0' else g::real / 8 end",
    "float8": "case g % 50 when 0 then 'NaN' when 1 then '-0' when 2 then '0' when 3 then '-Infinity' else g::float8 / 8 end",
    "numeric": "case g % 50 when 0 then 'NaN' when 1 then 5.0 when 2 then 5.00 else g::numeric / 8 end",
    "numeric(10,2)": "g::numeric / 4", "text": "'t' || g", "varchar(9)": "'v' || g", "char(9)": "'c' || g", "bytea": "('b' || g)::bytea",
    "date": "date '2020-01-01' + g", "time": "time '00:00' + g * interval '1 s'", "timestamp": "timestamp '2020-01-01' + g * interval '1 h'",
    "timestamptz": "timestamptz '2020-01-01 00:00Z' + g * interval '1 h'", "interval": "case g % 50 when 0 then '1 mon' when 1 then '30 days'"
    " else g * interval '1 h' end", "uuid": "lpad(g::text, 32, '0')::uuid", "int[]": "array[g, g % 7]", "text[]": "array['a' || g]",
    "mood": "(array['sad', 'ok', 'happy'])[g % 3 + 1]::mood", "jsonb": "jsonb_build_object('g', g)",
}


@pytest.mark.parametrize("home", ["memory", "disk"])
def test_keys_of_every_type(froglet, postgres, home):
    """With an index or without, alone and with another column; some are not looked up, none is an error."""
    ours, theirs = froglet.connect(), postgres.connect()
    for connection, using in ((ours, f" using {home}"), (theirs, "")):
        connection.execute("create type mood as enum ('sad', 'ok', 'happy')")
        for number, (type_name, value) in enumerate(TYPES.items()):
            connection.execute(f"create table few{number} (k {type_name}, n int)")
            connection.execute(f"insert into few{number} select {value}, g from unnest(array[0, 1, 2, 3, 4, 5, 77, 2999]) g")
            connection.execute(f"insert into few{number} values (null, 77), (null, null)")
            connection.execute(f"create table many{number} (id int, k {type_name}){using}")
            connection.execute(f"insert into many{number} select g, {value} from generate_series(1, 3000) g")
            connection.execute(f"insert into many{number} values (4000, null)")
            for columns in ("k", "k, id", "id, k"):
                try:
                    connection.execute(f"create index on many{number} ({columns})")
                except errors.FeatureNotSupported:
                    assert connection is ours and type_name in ("jsonb", "text[]"), type_name
    looked_up = set()
    for number, type_name in enumerate(TYPES):
        before = looks(ours, f"many{number}")
        for sql in (f"select f.n, m.id from few{number} f join many{number} m on m.k = f.k",
                    f"select f.n, m.id from few{number} f join many{number} m on m.k = f.k and m.id = f.n",
                    f"select f.n, m.id from few{number} f left join many{number} m on m.id = f.n and m.k = f.k",
                    f"select f.n, (select count(*) from many{number} m where m.k = f.k) from few{number} f",
                    f"select m.id from many{number} m where k in (select k from few{number} where n < 78)"):
            found = [Counter(connection.execute(sql).fetchall()) for connection in (ours, theirs)]
            assert found[0] == found[1], f"{type_name}: {sql}"
        if looks(ours, f"many{number}") > before:
            looked_up.add(type_name)
    assert {"int", "bigint", "numeric(10,2)", "text", "date", "timestamptz", "uuid"} <= looked_up, looked_up


def random_query(rng):
    """A join of a few rows with `many` by some of its columns, of some kind."""
    keys = rng.sample([("m.id", "f.k"), ("m.id", "f.big"), ("m.a", "f.a"), ("m.b", "f.b"), ("m.price", "f.p"), ("m.word", "f.w"),
                       ("m.parent", "f.k"), ("m.id", "f.a"), ("m.parent", "f.a + 1")], rng.choice([1, 1, 2, 3]))
    on = " and ".join(f"{one} = {other}" for one, other in keys)
    more = rng.choice(["true", "m.a = 5", "m.a in (3, 4, 96)", "m.b > 4", "m.id < 900", "f.k > 5", "m.word like 'w1%'", "m.parent is not null"])
    few = rng.choice(["few", "(select * from few where k is not null)", "(select distinct a, b, k, big, p, w from few)",
                      "(values (5, 5::bigint, 5, 5::bigint, 1.25, 'w5')) "])
    few += " f(k, big, a, b, p, w)" if few.startswith("(values") else " f"
    if "distinct" in few:
        few = "(select k, big, a, b, p, w from few group by 1, 2, 3, 4, 5, 6) f"
    many = rng.choice(["many m", "many m", "(select * from many where b < 11) m", "(select *, id * 2 as twice from many) m"])
    match rng.randrange(6):
        case 0:
            return f"select f.k, m.id, m.word from {few} join {many} on {on} where {more}"
        case 1:
            return f"select f.k, m.id from {few} left join {many} on {on} and {more}"
        case 2:
            return f"select count(*), sum(m.id) from {many} join {few} on {on} where {more}"
        case 3:
            return f"select m.id from {many} where exists (select from {few} where {on} and {more})"
        case 4:
            return f"select f.k, f.w from {few} where not exists (select from {many} where {on} and {more})"
        case 5:
            return (f"select f.k, m.id, n.id from {few} join {many} on {on} join many n on n.id = m.parent"
                    f" {rng.choice(['', 'and n.a = m.a', 'and n.b > 3'])} where {more}")


@pytest.mark.parametrize("seed", range(FIRST, FIRST + SEEDS))
def test_random_joins(froglet, postgres, seed):
    rng = random.Random(seed)
    ours, theirs = froglet.connect(), postgres.connect()
    fill(ours, rng.choice(["", " using disk"]))
    fill(theirs)
    theirs.execute("analyze")
    looked_up = 0
    for _ in range(60):
        sql = random_query(rng)
        before = read_by_scans(ours), looks(ours)
        found = Counter(ours.execute(sql).fetchall())
        looked_up += read_by_scans(ours) == before[0] and looks(ours) > before[1]
        assert found == Counter(theirs.execute(sql).fetchall()), sql
    assert looked_up > 10, looked_up
