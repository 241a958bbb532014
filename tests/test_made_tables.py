"""CREATE TABLE AS with any query: the new table is what its query makes of the tables at the commit; alone in
its transaction, where all rows of a large table are one unit, what it makes of them when it begins.

Each shape of query is tried with random writes by others before, between and after the statements of
the transaction that makes the table, which reads both as it goes. Nothing runs at the same time here
(froglet-schema's `units.rs` does that): a difference has a seed, and comes back.
"""

import random
import threading
from decimal import Decimal

import pytest

SEED = 20261122

TABLES = (
    "create table a (id int primary key, k int, t text, f float8, n numeric(10,2))",
    "create table b (id int primary key, k int, t text, v bigint)",
    "create table c (k int, w int)",
)

# By what the units are, made at once or in stages (the tables are small: only if that is asked for). Floating-point sums depend on the order of the rows, and are left out.
SHAPES = {
    "group": "select k, count(*), sum(n), min(t), max(id), avg(n)::numeric(20, 6) "
             "from a group by k",
    "group by text": "select upper(t) u, count(*) from a group by upper(t)",
    "group by float": "select f, count(*), array_length(array_agg(id), 1) from a group by f",
    "group by two": "select k, t, count(distinct n), bool_or(n > 1) from a group by k, t",
    "having": "select k, sum(n) from a where id > 5 group by k having count(*) > 2",
    "distinct": "select distinct k, t from a",
    "distinct on nothing": "select distinct a.k from a where n > 3",
    "join": "select a.id, b.id as other, a.t, b.v from a join b on a.k = b.k",
    "join of other types": "select a.id, b.id as other from a join b on a.k = b.v",
    "join by text": "select a.id, b.id as other from a join b on lower(a.t) = b.t and a.k < b.k",
    "left join": "select a.id, b.id as other, b.v from a left join b on a.k = b.k and b.v > 3",
    "right join": "select a.id, b.id as other from a right join b on a.k = b.k",
    "full join": "select a.id, b.id as other from a full join b on a.k = b.k",
    "self join": "select x.id, y.id as other from a x join a y on x.k = y.id",
    "three tables, one key": "select a.id, b.id as other, c.w from a join b on a.k = b.k "
                             "join c on c.k = b.k",
    "three tables, two keys": "select a.id, b.id as other, c.w from a join b on a.k = b.k "
                              "join c on c.k = b.v",
    "join, then group": "select a.k, count(*), sum(b.v) from a join b on a.k = b.k group by a.k",
    "join, then group by another": "select b.t, count(*) from a join b on a.k = b.k group by b.t",
    "group, then join": "select b.id, g.n from b join (select k, sum(n) as n from a group by k) g "
                        "on g.k = b.k",
    "two groups joined": "select x.k, x.c, y.s from (select k, count(*) c from a group by k) x "
                         "left join (select k, sum(v) s from b group by k) y on x.k = y.k",
    "semi join": "select id, k from a where exists (select 1 from b where b.k = a.k and b.v > a.n)",
    "anti join": "select id, k from a where not exists (select 1 from b where b.k = a.k)",
    "in": "select id from a where k in (select k from b)",
    "not in": "select id from a where k not in (select v from b)",
    "exists, or not": "select id from a where n > 5 or exists (select 1 from b where b.k = a.k)",
    "union all": "select id, k, t from a union all select id, k, t from b",
    "union": "select k, t from a union select k, t from b",
    "union, then group": "select k, count(*) from (select k from a union all select k from b) u "
                         "group by k",
    "intersect": "select k from a intersect select k from b",
    "except all": "select k from a except all select k from b",
    "except": "select k, t from a except select k, t from b",
    "window": "select id, row_number() over (partition by k order by id), "
              "sum(n) over (partition by k) from a",
    "windows apart": "select id, count(*) over (partition by k) x, "
                     "count(*) over (partition by t) y from a",
    "first of each": "select * from (select id, k, row_number() over (partition by k order by id) r "
                     "from a) q where r = 1",
    "constants": "select a.id, x.name from a join (values (1, 'one'), (2, 'two')) x(k, name) "
                 "on a.k = x.k",
    "series": "select a.id, g.x from a, generate_series(1, 3) g(x) where a.k = g.x",
    "constants too": "select id, k from a union all values (-1, -1)",
    "with": "with g as (select k, count(*) c from a group by k) select c, count(*) from g group by c",
    "lateral": "select a.id, q.v from a, lateral (select max(v) v from b where b.k = a.k) q",
    "scalar subquery": "select id, (select max(v) from b where b.k = a.k) from a",
    "count": "select count(*) from a",
    "lookup": "select a.id, a.n, b.v from a join b on b.id = a.k",
    "lookup of a few": "select a.id, c.w from a left join c on c.k = a.k % 3 where a.n > 1",
    "lookups": "select a.id, b.v, c.w, x.t from a join b on b.id = a.k left join c on c.k = a.k "
               "left join a x on x.id = a.k",
    "total": "select count(*), sum(n), max(t) from a",
    "total of a join": "select count(*) from a join b on a.k = b.k",
    "total beside": "select a.id, s.v from a, (select sum(v) v from b) s",
    "cross join": "select a.id, c.w from a cross join c where a.id < 6",
    "order and limit": "select id, n from a order by n desc nulls last, id limit 7",
    "rollup": "select k, t, count(*) from a group by rollup (k, t)",
    "above average": "select id from a where n > (select avg(n) from a)",
    "grouped by a subquery": "select k + (select max(v) from b) m, count(*) from a group by 1",
    "grouped by one below": "select m, count(*) from "
                            "(select k + (select max(v) from b) m from a) q group by m",
    "a total with a subquery": "select sum(k + (select sum(v) from b)) from a",
}
def some(rng, limit=8):
    return rng.choice(["null", *map(str, range(limit))])


def a_write(rng, ids):
    """A statement that changes some rows of a table, mostly one."""
    table = rng.choice("aaabbc")
    if table == "c":
        return rng.choice([f"insert into c values ({some(rng)}, {some(rng)})",
                           f"update c set k = {some(rng)} where w = {rng.randrange(8)}",
                           f"delete from c where w = {rng.randrange(8)}"])
    text = rng.choice(["null", "'x'", "'X'", "'y'", "''"])
    other = {"a": ("f", rng.choice(["null", "0", "-0.0", "'NaN'", "1.5", "'Infinity'"])),
             "b": ("v", some(rng))}[table]
    values = {"k": some(rng), "t": text, other[0]: other[1]}
    if table == "a":
        values["n"] = rng.choice(["null", "1", "2.25", "7.5", "10"])
    kind = rng.randrange(10)
    if kind < 3:
        ids[table] += 1
        return (f"insert into {table} (id, {', '.join(values)}) "
                f"values ({ids[table]}, {', '.join(values.values())})")
    chosen = rng.randrange(1, ids[table] + 2)
    if kind < 5:
        return f"delete from {table} where id = {chosen}"
    column = rng.choice(list(values))
    where = f"id = {chosen}" if kind < 9 else f"id % 7 = {chosen % 7}"
    return f"update {table} set {column} = {values[column]} where {where}"


def rows(connection, query):
    """In no order; a stored numeric without precision has more zeros than a computed one."""
    def shown(value):
        return repr(value.normalize() if isinstance(value, Decimal) else value)
    return sorted(tuple(map(shown, row)) for row in connection.execute(query).fetchall())


@pytest.mark.parametrize("unit_rows", [65_536, 0], ids=["at once", "staged"])
@pytest.mark.parametrize("isolation", ["read committed", "repeatable read"])
@pytest.mark.parametrize("shape", SHAPES)
def test_shape(froglet, shape, isolation, unit_rows):
    query = SHAPES[shape]
    rng, ids = random.Random(f"{SEED} {shape} {isolation} {unit_rows}"), {"a": 0, "b": 0}
    froglet.run(*TABLES)
    with froglet.connect() as writer, froglet.connect() as owner:
        def write(n):
            """So many statements, some together: then two tables have changes to be captured at once."""
            while n > 0:
                together = min(n, rng.choice((1, 1, 2, 6)))
                with writer.transaction():
                    for _ in range(together):
                        writer.execute(a_write(rng, ids))
                n -= together

        write(80)
        owner.execute(f"set froglet.migration_unit_rows = {unit_rows}")
        for attempt in range(2):
            owner.execute(f"begin isolation level {isolation}")
            owner.execute("select count(*) from c")
            write(5)
            owner.execute(f"create table made{attempt} as {query}")
            for n in (0, 1, 3, 12):
                write(n)
                assert rows(owner, f"select * from made{attempt}") == rows(owner, query)
            write(20)
            owner.execute("commit")
            made = rows(writer, f"select * from made{attempt}")
            assert made == rows(writer, query)
            write(1)
            assert rows(writer, f"select * from made{attempt}") == made


# A query of one unit, alone -----------------------------------------------------------------------

ROWS = 120_000  # More than are run over again in silence.
TOP = "select id, v from t order by v desc, id limit 10"
RUN_AGAIN = "all rows of a table are one migration unit of the query"


@pytest.fixture
def large(froglet):
    froglet.run("create table t (id int primary key, v int)",
                f"insert into t select n, n % 1000 from generate_series(1, {ROWS}) n")
    return froglet


@pytest.mark.parametrize("query", [
    "select id, v, sum(v) over () as total from t",
    "(select id, v, 0 as total from t order by v, id limit 60000) union all"
    " (select id, v, 0 as total from t order by v desc, id desc limit 60000)",
], ids=["window", "top and bottom"])
def test_alone_it_is_of_one_moment(large, query):
    """Writers move values from row to row; whatever the moment, their sum is the same."""
    ended, moved = threading.Event(), []

    def move():
        rng = random.Random(SEED)
        with large.connect() as connection:
            while not ended.is_set():
                with connection.transaction():
                    for change in (7, -7):
                        connection.execute("update t set v = v + %s where id = %s", [change, rng.randint(1, ROWS)])
                moved.append(1)

    with large.connect() as connection:
        [[total]] = connection.execute("select sum(v) from t").fetchall()
        writer = threading.Thread(target=move)
        writer.start()
        try:
            for _ in range(3):
                before = len(moved)
                done = connection.execute(f"create table made as {query}")
                assert done.statusmessage == f"SELECT {ROWS}"
                assert len(moved) > before, "nobody wrote meanwhile"
                [made] = connection.execute("select count(*), count(distinct id), sum(v), min(total), max(total) from made")
                assert made == (ROWS, ROWS, total, *([total] * 2 if "over" in query else [0, 0]))
                connection.execute("drop table made")
        finally:
            ended.set()
            writer.join()


def test_who_is_alone_is_not_run_again(large):
    """By each protocol; and neither in a block nor in a pipeline, where who comes next may drop what it was made of."""
    notices = []
    with large.connect() as owner, large.connect() as writer:
        owner.add_notice_handler(lambda notice: notices.append(notice.message_primary))

        def said():
            found = [notice for notice in notices if notice.startswith(RUN_AGAIN)]
            notices.clear()
            return len(found)

        owner.execute(f"create table simple as {TOP}")
        owner.execute(f"create table extended as {TOP}", prepare=True)
        owner.execute(f"set application_name = 'x'; create table after_set as {TOP}")
        assert said() == 0
        with owner.pipeline():
            owner.execute(f"create table piped as {TOP}")
            owner.execute("alter table piped add column extra int")
        assert said() == 1
        owner.execute(f"create table first as {TOP}; drop table first")
        assert said() == 1
        owner.execute(f"select 1; create table second as {TOP}")
        assert said() == 1
        owner.execute(f"do $$ begin create table done as {TOP}; drop table done; end $$")
        assert said() == 1
        owner.execute("begin")
        owner.execute(f"create table followed as {TOP}")
        assert said() == 1
        writer.execute("update t set v = 5000 where id = 77")
        owner.execute("commit")
        assert rows(writer, "select * from followed") == rows(writer, TOP)
        for name in ("simple", "extended", "after_set", "piped", "second"):
            made = rows(writer, f"select id, v from {name}")
            assert len(made) == 10 and made != rows(writer, TOP), name


def test_alone_it_reads_the_table_of_its_own_name(large):
    with large.connect() as connection:
        connection.execute("create schema other")
        connection.execute("set search_path = other, public")
        wanted = rows(connection, TOP)
        assert connection.execute(f"create table t as {TOP}").statusmessage == "SELECT 10"
        assert rows(connection, "select * from other.t") == wanted
        # What fails leaves nothing.
        with pytest.raises(Exception, match="division by zero"):
            connection.execute("create table failed as select 1 / (v - 5) from (select v from public.t order by v limit 99999) q")
        assert connection.execute("select to_regclass('failed')").fetchone() == (None,)
    large.restart()
    with large.connect() as connection:
        assert rows(connection, "select * from other.t") == wanted
