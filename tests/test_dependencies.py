"""What depends on what: an object goes if nothing needs it, and CASCADE takes what does, no more and no less, as in
PostgreSQL. Names that change take no meaning with them.
"""

import psycopg
import pytest

SETUP = (
    "create schema s1",
    "create type mood as enum ('sad', 'ok')",
    "create sequence sq",
    "create table t (id serial primary key, a int, b int, m mood)",
    "create table u (id int primary key, a int, c int)",
    "insert into t (a, b, m) values (1, 2, 'ok')",
    "insert into u values (1, 5, 6)",
)
# What is made, what is tried without CASCADE and with it, and what is looked at then.
CASES = {
    "columns of one table": ("create view v as select t.*, u.c from t join u on u.id = t.id",
                             "alter table u drop column a", "select * from v"),
    "a column that is selected": ("create view v as select t.*, u.c from t join u on u.id = t.id",
                                  "alter table u drop column c", "select * from v"),
    "a star of the other": ("create view v as select u.* from t join u using (id)",
                            "alter table t drop column b", "select * from v"),
    "a join's column": ("create view v as select t.a from t join u on u.c = t.b",
                        "alter table u drop column c", "select * from v"),
    "the same name elsewhere": ("create view v as select t.a from t join u on u.id = t.id",
                                "alter table u drop column a", "select * from v"),
    "within a subquery": ("create view v as select a from t where exists (select from u where u.c > t.b)",
                          "alter table t drop column b", "select * from v"),
    "within a subquery of the other": ("create view v as select a from t where exists (select 1 from u where c > t.b)",
                                       "alter table u drop column c", "select * from v"),
    "in WITH": ("create view v as with w as (select id, b from t) select id from w",
                "alter table t drop column b", "select * from v"),
    "not in WITH": ("create view v as with w as (select id from t) select id from w",
                    "alter table t drop column b", "select * from v"),
    "an order": ("create view v as select id from t order by b", "alter table t drop column b", "select * from v"),
    "a group": ("create view v as select count(*) from t group by b", "alter table t drop column b", "select * from v"),
    "not in a group": ("create view v as select b, count(*) from t group by b", "alter table t drop column a",
                       "select * from v"),
    "a union": ("create view v as select a from t union select c from u", "alter table u drop column c",
                "select * from v"),
    "a window": ("create view v as select rank() over (order by b) from t", "alter table t drop column b",
                 "select * from v"),
    "a count": ("create view v as select count(*) from t", "alter table t drop column b", "select * from v"),
    "natural join": ("create view v as select c from t natural join u", "alter table t drop column b", "select * from v"),
    "view over a view": ("create view v1 as select id, a, b from t; create view v as select a from v1",
                         "alter table t drop column b", "select * from v"),
    "a primary key that is grouped by": ("create view v as select id, a, count(*) from t group by id",
                                         "alter table t drop constraint t_pkey", "select * from v"),
    "a primary key that is not": ("create view v as select id, a, count(*) from t group by id, a",
                                  "alter table t drop constraint t_pkey", "select * from v"),
    "one key of two": ("create view v as select t.id, t.a, max(u.c) from t join u on u.id = t.id group by t.id",
                       "alter table u drop constraint u_pkey", "select * from v"),
    "a column beside a grouped key": ("create view v as select id, a, count(*) from t group by id",
                                      "alter table t drop column b", "select * from v"),
    "the key's own column": ("create view v as select a, count(*) from t group by id",
                             "alter table t drop column id", "select * from v"),
    "type in a default": ("create table n (x text default 'ok'::mood::text)", "drop type mood", "select * from n"),
    "type in a check": ("create table n (x text, check (x <> 'ok'::mood::text))", "drop type mood",
                        "insert into n values ('ok') returning x"),
    "type in a generated column": ("create table n (x int, g boolean generated always as (x > 0 and 'ok'::mood = 'ok') stored)",
                                   "drop type mood", "select * from n"),
    "generated from a column of the type": ("create table n (x mood, y int, g boolean generated always as (x = 'ok') stored)",
                                            "drop type mood", "select * from n"),
    "type in a predicate": ("create index t_ok on t (a) where m = 'ok'::mood", "drop type mood", "select * from t"),
    "type in a view": ("create view v as select a from t where 'ok'::mood = 'ok'", "drop type mood", "select * from v"),
    "sequence in a default": ("create table n (x int default nextval('sq'))", "drop sequence sq",
                              "insert into n default values returning x"),
    "another's serial sequence": ("create table n (x int default nextval('t_id_seq'))", "drop table t",
                                  "insert into n default values returning x"),
    "another's serial column": ("create table n (x int default nextval('t_id_seq'))", "alter table t drop column id",
                                "insert into n default values returning x"),
    "a number in a text": ("create table n (x text default '16384', check (x <> '16385'))", "drop sequence sq",
                           "insert into n default values returning x"),
    "regclass in a default": ("create table n (x text default 'u'::regclass::text)", "drop table u",
                              "insert into n default values returning x"),
    "regclass in a view": ("create view v as select 'u'::regclass::text as x from t", "drop table u", "select * from v"),
}


def outcome(connection, sql):
    try:
        cursor = connection.execute(sql)
    except psycopg.Error as error:
        return error.sqlstate
    return sorted(cursor.fetchall(), key=repr) if cursor.description else "ok"


def run(server, statements, then):
    with server.connect() as connection:
        for sql in SETUP:
            connection.execute(sql)
        for sql in statements.split("; "):
            connection.execute(sql)
        return [outcome(connection, sql) for sql in then]


@pytest.mark.parametrize("case", CASES)
def test_what_is_needed_stays(froglet, postgres, case):
    made, drop, look = CASES[case]
    then = (drop, look, f"{drop} cascade", look, "select * from t", "select * from u")
    assert run(froglet, made, then) == run(postgres, made, then)


MEANT = (
    "create table n (x text default 't'::regclass::text, y int default nextval('sq'), z text default 'ok'::mood::text)",
    "create view v as select 't'::regclass::text as r, 'mood'::regtype::text as y, pg_get_serial_sequence('t', 'id') as s"
    " from t",
    "create view w as select - -a as minus, 'ok'::mood as m from t",
    "create view j as select x.* from jsonb_to_recordset('[{\"m\": \"ok\"}]') as x(m mood)",
)
RENAMES = (
    "alter table t rename to t9", "alter table t set schema s1", "alter type mood rename to feeling",
    "alter type mood set schema s1", "alter sequence sq rename to sq9", "alter sequence sq set schema s1",
    "alter table t rename to x; alter table u rename to t; alter table x rename to u",
    "create table s1.t (z int); create type s1.mood as enum ('other'); set search_path = s1, public",
    "alter table t rename column a to b9",
)
LOOKS = (
    "insert into n default values returning x, y, z",
    "select * from v", "select * from w", "select * from j",
    "select column_name, translate(column_default, '()', '') from information_schema.columns where table_name = 'n'"
    " order by 1",
    "select pg_get_viewdef('v'::regclass) ~ '[0-9]{4}', pg_get_viewdef('w'::regclass) ~ '[0-9]{4}'",
)


@pytest.mark.parametrize("rename", RENAMES)
def test_names_that_change_take_no_meaning_with_them(froglet, postgres, rename):
    found = []
    for server in (froglet, postgres):
        with server.connect() as connection:
            for sql in SETUP:
                connection.execute(sql)
            made = [outcome(connection, sql) for sql in MEANT]
            for sql in rename.split("; "):
                connection.execute(sql)
        if server is froglet:
            server.kill_and_restart()
        with server.connect() as connection:
            for sql in rename.split("; "):
                if sql.startswith("set "):
                    connection.execute(sql)
            found.append((made, [outcome(connection, sql) for sql in LOOKS]))
    assert found[0] == found[1]


def test_a_generated_column_that_is_always_null_hides_no_default(server):
    server.run("create table g (a int default 5, b int generated always as (null) stored)")
    rows = server.rows("select adnum, pg_get_expr(adbin, adrelid) from pg_attrdef where adrelid = 'g'::regclass order by 1")
    assert [number for number, _ in rows] == [1, 2]
    assert "NULL" in rows[1][1]
    assert server.value("select column_default from information_schema.columns where table_name = 'g'"
                        " and column_name = 'a'") == "5"


@pytest.mark.parametrize("view", ["pg_catalog", "information_schema", "froglet"])
def test_no_definition_hides_others_from_a_catalog(froglet, view):
    with froglet.connect() as connection:
        for sql in SETUP + MEANT + (
            "create table g (a int, b int generated always as (null) stored, c text default null, d mood default 'ok')",
            "create table nothing ()",
            "create index on g ((a is null)) where b is null",
            "create materialized view mv as select 1 as x",
            "comment on table g is 'of it'",
            "create table p (id int primary key, p int references p, check (null), check (id is not null or null))",
        ):
            outcome(connection, sql)
        names = connection.execute(
            "select relname from pg_class c join pg_namespace n on n.oid = relnamespace where nspname = %s"
            " and c.oid < 16384", (view,)).fetchall()
        assert names
        for (name,) in names:
            connection.execute(f"select * from {view}.{name}").fetchall()


# Views over t (id, a, b, s) and u (id, a, c, k), both with primary keys: each column and key is dropped beneath each.
VIEWS = (
    "select * from t",
    "select a from t",
    "select t.* from t, u",
    "select u.*, t.b from t join u on t.id=u.id",
    "select x.a from t x left join u y using (id)",
    "select * from t join u using (id, a)",
    "select b from t natural join u",
    "select a from (select * from t) q",
    "select a from (select id, a from t) q",
    "select q.x from (select id, a+b as x, s from t) q",
    "with w as (select * from t) select a from w",
    "with w as (select a, b from t), z as (select a from w) select * from z",
    "select a from t union all select k from u",
    "select a from t except select c from u where k > 1",
    "select (select max(c) from u where u.id = t.id) as m from t",
    "select a from t where b in (select k from u)",
    "select a from t where exists (select * from u where u.k = t.b)",
    "select a from t where not exists (select 1 from u where u.c = t.id)",
    "select sum(a) over (partition by s order by b) from t",
    "select a, row_number() over (order by id) as n from t",
    "select s, count(*) from t group by s having sum(b) > 1",
    "select s, max(a) filter (where b > 1) from t group by s",
    "select distinct on (a) a, b from t order by a, b, s",
    "select a from t order by s limit 1",
    "select case when b > 1 then a end as x from t",
    "select t.a, l.c from t, lateral (select c from u where u.id = t.b) l",
    "select count(*) from t",
    "select 1 as one from t",
    "select count(distinct s) from t",
    "select a from t where s like 'x%' or b between 1 and 2",
    "select coalesce(t.a, u.c) as x from t full join u on t.id = u.id",
    "select array(select k from u where u.id = t.id) as x from t",
    "select string_agg(s, ',' order by b) from t",
    "select x.a, y.a as b from t x join t y on x.id = y.b",
    "select id, a, b from t group by id",
    "select t.id, t.s, count(u.c) from t left join u on u.id = t.id group by t.id",
    "select u.id, u.c, t.id as tid, t.s from t join u on u.id = t.id group by u.id, t.id",
    "select a, b from t group by a, b, id",
    "select s from t group by rollup (s)",
    "select (t).a from t",
    "select row(a, b) = row(1, 2) as r from t",
    "select a from t where (a, b) in (select c, k from u)",
    "select a from t where a = any (select c from u)",
    "with recursive r as (select id, a from t union all select r.id + 1, r.a from r where r.id"
    " < 3) select a from r",
    "select * from (values (1), (2)) v(x) join t on t.id = v.x",
    "select v.x from t cross join (values (1)) v(x)",
    "select g from t, generate_series(1, t.b) g",
    "select a as b, b as a from t",
    "select a aa from t where exists (select 1 from t i where i.b = t.b)",
    "select -a as m, s || 'x' as n from t",
    "select ord.a from t as ord where ord.b > (select avg(k) from u)",
    "select greatest(a, b) from t",
    "select a from only t",
    "select count(*) filter (where exists (select 1 from u where u.k = t.a)) from t",
)
BENEATH = (
    "create table t (id int primary key, a int, b int, s text)",
    "create table u (id int primary key, a int, c int, k int)",
    "insert into t values (1, 2, 3, 'x'), (2, 3, 4, 'y')",
    "insert into u values (1, 2, 3, 4), (5, 6, 7, 8)",
)
DROPS = [f"alter table {table} drop {part}" for table, columns in (("t", "idabs"), ("u", "idack"))
         for part in ["column id", *(f"column {c}" for c in columns[2:]), f"constraint {table}_pkey"]] + ["drop table u"]


def dropped(connection, sql):
    """What a DROP comes to, and whether the view is still one."""
    try:
        with connection.transaction():
            connection.execute(sql)
            connection.execute("select * from v").fetchall()
            raise psycopg.Rollback
    except psycopg.Error as error:
        return error.sqlstate
    return "ok"


def test_views_need_just_the_columns_and_keys_that_they_use(froglet, postgres):
    with froglet.connect() as ours, postgres.connect() as theirs:
        for connection in (ours, theirs):
            connection.prepare_threshold = None
            for sql in BENEATH:
                connection.execute(sql)
        for view in VIEWS:
            found = []
            for connection in (ours, theirs):
                connection.execute(f"create view v as {view}")
                found.append([(sql, dropped(connection, sql)) for sql in DROPS])
                connection.execute("drop view v")
            assert found[0] == found[1], view
