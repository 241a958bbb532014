"""ALTER COLUMN TYPE of what foreign keys are between: the parent's column, the child's, or both, in one flip.

As PostgreSQL does it, only the named column changes: an int child may have a bigint parent. Children are looked at
again, unless every conversion is exact.
"""

from collections import Counter
import random

import psycopg
import pytest
from psycopg import errors

from support.loads import Session, stopped
from support.processes import wait_until

PARENT = ("create table p (id int primary key, v int)", "insert into p select i, i from generate_series(1, 20) i")
CHILD = ("create table c (id int primary key, p int references p)",
         "insert into c select i, nullif(i % 21, 0) from generate_series(1, 60) i", "create index on c (p)")


def tables(on=""):
    """A parent, its children, and a table that refers to itself by a key with two columns."""
    return [
        *PARENT, "alter table p add unique (v)", f"create table c (id int primary key, p int references p {on})",
        f"create table d (a int, v smallint references p (v) {on})",
        f"create table s (id int primary key, up int references s {on})",
        "create table q (a int, b varchar(10), primary key (a, b))",
        f"create table r (a int, b varchar(10), n int, foreign key (a, b) references q (a, b) {on})",
        "insert into c select i, nullif(i % 21, 0) from generate_series(1, 60) i", "insert into d values (1, 1), (2, 20), (3, null)",
        "insert into s values (1, null), (2, 1), (3, 2), (4, 4)", "insert into q values (1, 'a'), (2, 'a'), (2, 'b')",
        "insert into r values (1, 'a', 1), (2, 'b', 2), (null, 'c', 3)"]


WRITES = (
    "insert into c values (101, 21)", "insert into c values (102, 5)", "insert into p values (21, 21), (-1, -1)",
    "insert into c values (103, 21)", "update c set p = 99 where id = 1", "update p set id = id + 100 where id = 7",
    "update p set id = 3000000000 where id = 8", "delete from p where id = 9", "delete from p where id = 21 or id = -1",
    "insert into d values (9, 21)", "update p set v = 70000 where v = 1", "delete from p where v = 20",
    "insert into s values (5, 6), (6, 5)", "insert into s values (7, 8)", "update s set id = 30 where id = 2",
    "delete from s where id = 1", "update s set id = 3000000000 where id = 4",
    "insert into r values (1, 'b', 9)", "insert into r values (2, 'a', 9)", "update q set a = 3 where a = 2 and b = 'b'",
    "delete from q where b = 'a'",
)
ALTERS = {
    "parent": ["alter table p alter id type bigint"],
    "child": ["alter table c alter p type bigint"],
    "parent, then child": ["alter table p alter id type bigint", "alter table c alter p type bigint"],
    "child, then parent": ["alter table c alter p type bigint", "alter table p alter id type bigint"],
    "in one transaction": ["begin", "alter table p alter id type bigint", "alter table c alter p type bigint", "commit"],
    "there and back": ["alter table p alter id type bigint", "alter table p alter id type int"],
    "rolled back": ["begin", "alter table p alter id type bigint", "insert into c values (90, 3)", "rollback"],
    "to a savepoint": ["begin", "savepoint s", "alter table p alter id type bigint", "rollback to s",
                       "alter table c alter p type bigint", "commit"],
    "a parent that is a numeric": ["alter table p alter id type numeric"],
    "a parent of a scale": ["alter table p alter id type numeric(12, 2)", "alter table c alter p type numeric(9, 0)"],
    "both columns of the parent": ["alter table p alter id type bigint, alter v type bigint"],
    "two types of one table": ["alter table p alter id type smallint, alter v type numeric(10)", "alter table d alter v type int"],
    "itself": ["alter table s alter id type bigint", "alter table s alter up type bigint"],
    "itself, both": ["alter table s alter id type bigint, alter up type bigint"],
    "itself, the child's": ["alter table s alter up type bigint"],
    "one column of two": ["alter table q alter a type bigint", "alter table r alter a type smallint"],
    "a longer string": ["alter table q alter b type varchar(20)", "alter table r alter b type text"],
    "another string": ["alter table q alter b type text, alter a type bigint", "alter table r alter b type varchar(20)"],
    "a shorter string": ["alter table q alter b type varchar(2)", "alter table r alter b type varchar(1)"],
    "using": ["alter table p alter id type bigint using id + 100"],
    "using, of no consequence": ["alter table p alter id type bigint using id::bigint", "alter table c alter p type int using p"],
    "using, a permutation": ["alter table p alter id type bigint using 21 - id"],
    "using, of the child": ["alter table c alter p type int using p + 100"],
    "using, and the parent has it": ["alter table c alter p type int using p / 2 + 1"],
    "using, of a string": ["alter table q alter b type varchar(10) using upper(b)"],
    "using, of itself": ["alter table s alter id type bigint using id * 2"],
    "using, of both of itself": ["alter table s alter id type bigint using id * 2, alter up type bigint using up * 2"],
    "text": ["alter table p alter id type text", "alter table c alter p type text", "alter table q alter a type text"],
    "boolean": ["alter table c alter p type boolean using p > 1"],
    "text of itself": ["alter table s alter id type text", "alter table s alter up type text"],
    "both sides text, in two": ["alter table c drop constraint c_p_fkey", "alter table p alter id type text",
                                "alter table c alter p type text, add foreign key (p) references p"],
    "a type that is too small": ["update p set id = 40000, v = 40000 where id = 20 and not exists (select from c where p = 20)",
                                 "insert into p values (50000, 50000)", "alter table p alter id type smallint"],
    "a key that is not one any more": ["alter table p alter id type bigint using 1"],
}


def outcome(connection, sql):
    try:
        cursor = connection.execute(sql)
    except psycopg.Error as error:
        # Of several children the one that is asked first is named, and of several operators.
        named = error.sqlstate == "42883" or error.diag.message_primary.startswith("update or delete on")
        return error.sqlstate, named or error.diag.message_primary
    return "ok", cursor.statusmessage


def described(connection):
    """Types, foreign keys and rows."""
    queries = (
        "select attrelid::regclass::text, attname, format_type(atttypid, atttypmod), attnotnull from pg_attribute"
        " join pg_class on pg_class.oid = attrelid"
        " where relname in ('p', 'c', 'd', 's', 'q', 'r') and attnum > 0 and not attisdropped",
        "select conrelid::regclass::text, conname, pg_get_constraintdef(oid), convalidated from pg_constraint"
        " where contype in ('f', 'p', 'u') and connamespace = 'public'::regnamespace",
        "select indexname, indexdef from pg_indexes where tablename in ('p', 'c', 'd', 's', 'q', 'r')",
        *(f"select {name}::text from {name}" for name in "pcdsqr"))
    return [sorted(connection.execute(query).fetchall()) for query in queries]


@pytest.mark.parametrize("mode, on", [
    ("eager", ""), ("auto", ""), ("eager", "on delete cascade on update cascade"), ("auto", "on delete set null on update set null"),
    ("eager", "on delete set default on update cascade"), ("auto", "deferrable initially deferred")])
def test_it_is_as_on_postgresql(froglet, postgres, on, mode):
    with froglet.connect(prepare_threshold=None) as ours, postgres.connect(prepare_threshold=None) as theirs:
        ours.execute(f"set froglet.migration = {mode}")
        for name, alters in ALTERS.items():
            for sql in ("drop table if exists c, d, p, s, r, q", *tables(on), *alters, *WRITES):
                expected, found = outcome(theirs, sql), outcome(ours, sql)
                assert found == expected, f"{name}: {sql}"
            for connection in (ours, theirs):
                connection.execute("rollback")
            for expected, found in zip(described(theirs), described(ours)):
                assert found == expected, name


def test_the_error_says_which_columns_and_keys(server):
    server.run(*PARENT, *CHILD)
    with server.connect() as connection:
        with pytest.raises(errors.DatatypeMismatch, match='foreign key constraint "c_p_fkey" cannot be implemented'):
            connection.execute("alter table p alter id type text")
        with pytest.raises(errors.ForeignKeyViolation, match=r"Key \(p\)=\(\d+\) is not present in table \"p\""):
            connection.execute("alter table p alter id type bigint using id + 100")
        with pytest.raises(errors.ForeignKeyViolation, match=r"Key \(p\)=\(1\d\d\) is not present in table \"p\""):
            connection.execute("alter table c alter p type bigint using p + 100")


def test_a_key_that_does_not_fit_its_children(server):
    server.run(*PARENT, "create table c (id int primary key, p int references p on update cascade)",
               "create table k (id int primary key)", "create table d (k smallint references k on update cascade)",
               "insert into c values (1, 1)", "insert into k values (2)", "insert into d values (2)",
               "alter table p alter id type bigint", "update p set id = 40 where id = 1")
    assert server.rows("select p from c") == [(40,)]
    with server.connect() as connection:
        with pytest.raises(errors.NumericValueOutOfRange, match="integer out of range"):
            connection.execute("update p set id = 3000000000 where id = 40")
        with pytest.raises(errors.NumericValueOutOfRange, match="smallint out of range"):
            connection.execute("update k set id = 40000 where id = 2")
        connection.execute("insert into p values (3000000000)")
        with pytest.raises(errors.NumericValueOutOfRange):
            connection.execute("insert into c values (2, 3000000000)")
        connection.execute("alter table c alter p type bigint")
        connection.execute("insert into c values (2, 3000000000)")


class Family(Session):
    """Inserts and deletes children and parents, and gives parents other keys."""

    def connect(self):
        connection = self.server.connect(autocommit=False)
        if self.rng.random() < 0.5:
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        return connection

    def transaction(self, connection):
        try:
            for _ in range(self.rng.randint(1, 3)):
                self.step(connection)
            connection.commit()
            self.counts["committed"] += 1
        except (errors.ForeignKeyViolation, errors.DeadlockDetected, errors.SerializationFailure, errors.UniqueViolation) as error:
            connection.rollback()
            self.counts[type(error).__name__] += 1

    def step(self, connection):
        rng = self.rng
        key, other = rng.randint(1, 60), rng.randint(1, 60)
        child, what = rng.randint(1, 10**9), rng.random()
        if what < 0.35:
            connection.execute("insert into c values (%s, %s) on conflict do nothing", [child, key])
        elif what < 0.45:
            connection.execute("insert into s values (%s, null) on conflict do nothing", [child])
            connection.execute("insert into s values (%s, %s) on conflict do nothing", [child + 1, child])
        elif what < 0.55:
            connection.execute("update s set up = (select min(id) from s) where id = (select max(id) from s)")
            connection.execute("delete from s where id = (select max(id) from s o where not exists (select from s where up = o.id))")
        elif what < 0.65:
            connection.execute("insert into p values (%s, 0) on conflict do nothing", [key])
        elif what < 0.75:
            connection.execute("delete from c where p = %s", [key])
            connection.execute("delete from p where id = %s", [key])
        elif what < 0.85:
            connection.execute("delete from p where id = %s", [key])
        elif what < 0.95:
            connection.execute("update p set id = %s where id = %s", [other, key])
        else:
            connection.execute("update c set p = %s where p = %s", [other, key])


def orphans(server):
    for child in ("c", "s"):
        key, parent = ("p", "p") if child == "c" else ("up", "s")
        # Scans, not indexes.
        sql = f"select count(*) from {child} where {key} is not null and ({key} + 0) not in (select id + 0 from {parent})"
        assert server.value(sql) == 0, child


CHANGES = (
    ["alter table p alter id type bigint"], ["alter table c alter p type bigint"],
    ["alter table p alter id type int", "alter table c alter p type int"],
    ["alter table c alter p type bigint", "alter table p alter id type numeric"],
    ["alter table s alter id type numeric"], ["alter table s alter up type int, alter id type bigint"],
    # Children are looked at.
    ["alter table p alter id type int using (id + 0)::int"], ["alter table c alter p type int using p + 0"],
    ["alter table s alter id type int using (id + 0)::int"], ["alter table s alter id type bigint, alter up type bigint using up + 0"],
)


@pytest.mark.parametrize("kills", [False, True], ids=["running", "killed"])
@pytest.mark.parametrize("on", ["", "on delete cascade on update cascade"], ids=["", "cascade"])
def test_writers_on_both_sides_meanwhile(start, on, kills):
    server, rng = start(), random.Random(on)
    server.killed = kills
    server.run("create table p (id int primary key, v int)", f"create table c (id bigint primary key, p int references p {on})",
               f"create table s (id bigint primary key, up bigint references s {on})", "create index on c (p)", "create index on s (up)",
               "insert into p select i, i from generate_series(1, 60) i",
               "insert into c select i, i % 60 + 1 from generate_series(1, 20000) i",
               "insert into s select i, nullif(i / 2, 0) from generate_series(1, 5000) i")

    def begin(seed):
        writers = [Family(server, f"{seed} {me}") for me in range(4)]
        for writer in writers:
            writer.start()
        return writers

    writers, counts = begin("first"), Counter()
    for at, changes in enumerate(CHANGES * 2):
        before = sum(writer.counts["committed"] for writer in writers)
        try:
            with server.connect(autocommit=False) as connection:
                connection.execute("set froglet.migration = %s" % rng.choice(["eager", "auto"]))
                for change in changes:
                    connection.execute(change)
                    if rng.random() < 0.3:
                        connection.execute("insert into c select %s, min(id) from p on conflict do nothing", [10**9 + at])
                        if on:
                            connection.execute("update p set id = id + 1000 where id = (select max(id) from p)")
        except (errors.DeadlockDetected, errors.SerializationFailure, errors.ForeignKeyViolation) as error:
            counts[f"ALTER: {type(error).__name__}"] += 1
        wait_until(lambda: sum(w.counts["committed"] for w in writers) > before + 10 or any(w.failure for w in writers), "they go on", 60)
        if kills and at % 4 == 3:
            server.kill_and_restart()
            counts += stopped(writers)
            orphans(server)
            writers = begin(f"after {at}")
        orphans(server)
    counts += stopped(writers)
    orphans(server)
    assert counts["committed"] > 300 and counts["ForeignKeyViolation"] > 10, counts


def two(server, isolation="read committed"):
    ddl, writer = server.connect(autocommit=False), server.connect(autocommit=False)
    writer.execute(f"set transaction isolation level {isolation}")
    return ddl, writer


@pytest.mark.parametrize("isolation", ["read committed", "repeatable read"])
def test_writers_that_began_before_the_flip(froglet, isolation):
    """Children and parents that were written under the older schema follow, whichever was written first."""
    froglet.run(*PARENT, *CHILD)
    ddl, writer = two(froglet, isolation)
    with ddl, writer:
        # The child's table was written first.
        writer.execute("insert into c values (201, 1)")
        writer.execute("insert into p values (77, 77)")
        writer.execute("insert into c values (202, 77)")
        ddl.execute("alter table p alter id type bigint")
        ddl.commit()
        if isolation == "repeatable read":
            writer.execute("insert into c values (203, 77)")
        writer.commit()
    assert froglet.rows("select id, p from c where id > 200 order by id")[:2] == [(201, 1), (202, 77)]
    with pytest.raises(errors.ForeignKeyViolation):
        froglet.run("delete from p where id = 77")


def test_a_deletion_that_began_before_the_flip(froglet):
    froglet.run(*PARENT, *CHILD, "insert into p values (30, 30)")
    ddl, writer = two(froglet)
    with ddl, writer:
        writer.execute("delete from p where id = 30")
        ddl.execute("alter table p alter id type bigint")
        ddl.commit()
        writer.commit()
    assert froglet.rows("select count(*) from p where id = 30") == [(0,)]
    with pytest.raises(errors.ForeignKeyViolation):
        froglet.run("insert into c values (300, 30)")


def test_a_key_that_changes_across_the_flip(froglet):
    """A child under the newer schema and a parent's new key under the older: one of them has to go."""
    froglet.run(*PARENT, *CHILD, "insert into p values (30, 30)")
    ddl, writer = two(froglet)
    with ddl, writer:
        writer.execute("update p set id = 31 where id = 30")
        ddl.execute("alter table p alter id type bigint")
        ddl.commit()
        froglet.run("insert into c values (300, 30)")
        with pytest.raises(errors.SerializationFailure):
            writer.commit()
    assert froglet.rows("select count(*) from c left join p on c.p = p.id where c.p is not null and p.id is null") == [(0,)]


def test_the_migrating_transaction_writes_on_both_sides(froglet):
    """Its own children and keys, in the newer columns, and others' in the older."""
    froglet.run(*PARENT, *CHILD, "insert into p values (30, 30), (40, 40)")
    ddl, writer = two(froglet)
    with ddl, writer:
        ddl.execute("alter table p alter id type bigint")
        ddl.execute("insert into c values (300, 30)")
        # It waits, or the child is found an orphan.
        writer.execute("set lock_timeout = '300ms'")
        try:
            writer.execute("update p set id = 31 where id = 30")
            writer.commit()
        except errors.LockNotAvailable:
            writer.rollback()
        try:
            ddl.commit()
        except errors.ForeignKeyViolation:
            ddl.rollback()
    assert froglet.rows("select count(*) from c where p is not null and p + 0 not in (select id + 0 from p)") == [(0,)]
    ddl, writer = two(froglet)
    with ddl, writer:
        ddl.execute("alter table p alter id type numeric")
        ddl.execute("update p set id = 41 where id = 40")
        writer.execute("set lock_timeout = '300ms'")
        try:
            writer.execute("insert into c values (400, 40)")
            writer.commit()
        except errors.LockNotAvailable:
            writer.rollback()
        try:
            ddl.commit()
        except errors.ForeignKeyViolation:
            ddl.rollback()
    assert froglet.rows("select count(*) from c where p is not null and p + 0 not in (select id + 0 from p)") == [(0,)]


def test_what_it_wrote_is_asked_by_the_last_of_its_changes(froglet):
    """Columns that a later statement of the transaction has replaced say nothing of what it wrote since."""
    froglet.run(*PARENT, "create table c (id int primary key, p int references p on update cascade)", "insert into c values (1, 1), (2, 2)")
    with froglet.connect(autocommit=False) as connection:
        for sql in ("alter table p alter id type bigint", "alter table c alter p type bigint", "update p set id = 1001 where id = 1",
                    "alter table p alter id type numeric", "update p set id = 1002 where id = 2", "insert into c values (3, 1001)"):
            connection.execute(sql)
        connection.commit()
    assert froglet.rows("select id, p from c order by id") == [(1, 1001), (2, 1002), (3, 1001)]


def test_nobody_waits_for_it(froglet):
    """Both tables are read and written while the change is under way."""
    froglet.run(*PARENT, *CHILD)
    ddl, writer = two(froglet)
    with ddl, writer:
        ddl.execute("alter table p alter id type bigint")
        ddl.execute("alter table c alter p type bigint")
        writer.execute("set lock_timeout = '1s'")
        for sql in ("insert into p values (50, 50)", "insert into c values (500, 50)", "update p set v = 9 where id = 1",
                    "delete from c where p = 2", "delete from p where id = 2"):
            writer.execute(sql)
        assert writer.execute("select count(*) from c join p on p.id = c.p").fetchone()[0] > 50
        writer.commit()
        ddl.commit()
    assert froglet.rows("select p from c where id = 500") == [(50,)]
    assert froglet.rows("select count(*) from p where id = 2") == [(0,)]


def test_a_key_to_the_table_itself_is_one_after_a_restart(froglet):
    with froglet.connect() as connection:
        connection.execute("create table t (id int primary key, up int)")
        connection.execute("insert into t values (1, 2), (2, 1)")
        connection.execute("alter table t add foreign key (up) references t, add column own int references t")
    for restart in (froglet.kill_and_restart, froglet.restart):
        restart()
        with froglet.connect() as connection:
            for statement in ("delete from t where id = 1", "update t set id = 7 where id = 2", "insert into t values (3, 9)"):
                with pytest.raises(errors.ForeignKeyViolation):
                    connection.execute(statement)


@pytest.mark.parametrize("killed", [False, True])
def test_after_a_restart(froglet, killed):
    froglet.killed = True
    froglet.run(*PARENT, *CHILD, "create table s (id int primary key, up int references s)", "insert into s values (1, null), (2, 1)",
                "alter table p alter id type bigint", "alter table s alter id type bigint", "alter table c alter p type smallint",
                "alter table p alter id type numeric")
    (froglet.kill_and_restart if killed else froglet.restart)()
    for sql in ("delete from p where id = 3", "insert into c values (70, 99)", "delete from s where id = 1",
                "insert into s values (3, 7)"):
        with pytest.raises(errors.ForeignKeyViolation):
            froglet.run(sql)
    froglet.run("insert into p values (3000000000, 1)", "insert into p values (99, 1)", "insert into c values (70, 99)",
                "insert into s values (7, 2), (8, 7)", "alter table p alter id type bigint")
    (froglet.kill_and_restart if killed else froglet.restart)()
    assert froglet.value("select count(*) from c join p on p.id = c.p") == 59
    assert froglet.value("select format_type(atttypid, atttypmod) from pg_attribute"
                         " where attrelid = 'p'::regclass and attname = 'id'") == "bigint"


def test_a_child_that_is_made_lazily(froglet):
    froglet.run(*PARENT, *CHILD)
    with froglet.connect() as connection:
        for sql in ("set froglet.migration = lazy", "set froglet.migration_delay = '1h'"):
            connection.execute(sql)
        connection.execute("begin")
        connection.execute("create table l as select * from c")
        connection.execute("alter table l add foreign key (p) references p")
        connection.execute("drop table c")
        connection.execute("commit")
        connection.execute("set froglet.migration = eager")
        assert connection.execute("select count(*) from froglet.migrations where phase not in ('done', 'aborted')").fetchone() == (1,)
        connection.execute("alter table p alter id type bigint")
        # Exact: its rows are left as they are.
        assert connection.execute("select count(*) from froglet.migrations where phase not in ('done', 'aborted')").fetchone() == (1,)
        with pytest.raises(errors.ForeignKeyViolation):
            connection.execute("delete from p where id = 3")
        with pytest.raises(errors.ForeignKeyViolation):
            connection.execute("alter table p alter id type bigint using id + 100")
        connection.execute("alter table p alter id type bigint using 21 - id")
        with pytest.raises(errors.ForeignKeyViolation):
            connection.execute("insert into l values (900, 21)")
        assert connection.execute("select count(*) from l where p is not null").fetchone() == (58,)


def test_a_revert(froglet):
    froglet.run(*PARENT, *CHILD, "alter table p alter id type bigint", "insert into p values (3000000000, 0)")
    with froglet.connect() as connection:
        (change,) = connection.execute("select max(id) from froglet.schema_changes").fetchone()
        with pytest.raises(psycopg.Error):
            connection.execute(f"select froglet.revert_migration({change})")
        connection.execute("delete from p where id = 3000000000")
        connection.execute(f"select froglet.revert_migration({change})")
        rows = connection.execute("select attname, format_type(atttypid, atttypmod) from pg_attribute"
                                  " where attrelid in ('p'::regclass, 'c'::regclass) and attname in ('id', 'p') and attnum > 0")
        assert {ty for _, ty in rows} == {"integer"}
        with pytest.raises(errors.ForeignKeyViolation):
            connection.execute("delete from p where id = 3")
        with pytest.raises(errors.ForeignKeyViolation):
            connection.execute("insert into c values (900, 77)")


def test_rows_waiting_to_be_checked(froglet):
    """A deferred foreign key that meets the flip before its parent is there."""
    froglet.run(*PARENT, "create table c (id int primary key, p int references p deferrable initially deferred)")
    ddl, writer = two(froglet)
    with ddl, writer:
        writer.execute("insert into c values (1, 70)")
        ddl.execute("alter table p alter id type bigint")
        ddl.commit()
        writer.execute("insert into p values (70, 70)")
        writer.commit()
        writer.execute("insert into c values (2, 71)")
        ddl.execute("alter table p alter id type numeric")
        ddl.commit()
        writer.execute("select 1")
        with pytest.raises(errors.ForeignKeyViolation):
            writer.commit()
    assert froglet.rows("select id, p from c") == [(1, 70)]
