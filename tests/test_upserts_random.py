"""INSERT … ON CONFLICT, and what is looked for by a list of keys: random statements, on Froglet and on PostgreSQL 15.

Of each statement the rows (as a multiset), tag or SQLSTATE are the same, and so is the whole table after it. Froglet may
refuse what it does not have yet (0A000), which is counted.

    FROGLET_TEST_SEEDS=N    so many seeds for each kind of table
    FROGLET_TEST_SEED=S     begin with this seed
"""

import os
import random
from collections import Counter

import psycopg
import pytest

SEEDS = int(os.environ.get("FROGLET_TEST_SEEDS", 1))
FIRST = int(os.environ.get("FROGLET_TEST_SEED", 20261130))
STATEMENTS = 300
# Of a table with more rows many are deleted, so that comparing it takes no time.
ROWS_MAX = 60

SETUP = """
create table t (id int primary key, n int, v text default 'new', u int unique) using {method};
create table pairs (a int, b text, n int, v text default 'new', u int, primary key (a, b), unique (u, a)) using {method};
create table words (k text primary key, n int not null default 1 check (n < 900), v text default 'new', u int) using {method};
create unique index on words (u) where n > 5;
"""
KEYS = {"t": ["id"], "pairs": ["a", "b"], "words": ["k"]}
ARBITERS = {"t": ["(id)", "(id)", "(u)", "on constraint t_pkey", "on constraint t_u_key"],
            "pairs": ["(a, b)", "(b, a)", "(u, a)", "on constraint pairs_pkey"],
            "words": ["(k)", "(k)", "(u) where n > 5"]}
# Subqueries in DO UPDATE, and ON CONFLICT in a WITH that reads the table, too.
NOT_YET = ["subquery", "Subquery", "within a WITH"]
TEXTS = ["", "a", "b", "A", "ä", "a ", "ab", "o''clock", "long" * 50]


class Statements:
    """Random statements over the tables of SETUP."""

    def __init__(self, rng):
        self.rng = rng

    def statement(self):
        """A statement, and the table that it is about."""
        table = self.rng.choice(list(KEYS))
        form = self.rng.choices([self.upsert, self.select, self.update, self.delete], [60, 20, 12, 8])[0]
        return form(table), table

    def maybe(self, chance, text):
        return text if self.rng.random() < chance else ""

    def number(self, most=20, nulls=0.0):
        return "null" if self.rng.random() < nulls else str(self.rng.randint(-1, most))

    def text(self, nulls=0.0):
        return "null" if self.rng.random() < nulls else f"'{self.rng.choice(TEXTS)}'"

    def value(self, column, nulls=0.0):
        match column:
            case "id" | "u":
                return self.number(30, nulls)
            case "a":
                return self.number(3, nulls)
            case "n":
                return self.number(9, nulls)
            case _:
                return self.text(nulls)

    def proposed(self, column, table):
        """A value of a row that is proposed: seldom one that no row may have."""
        if column == "u":
            return self.number(200, 0.5)
        return self.value(column, 0.01 if column in KEYS[table] or table == "words" else 0.1)

    # What is inserted ---------------------------------------------------------------------------

    def upsert(self, table):
        alias = self.rng.choice(["", "", " as x"])
        name = "x" if alias else table
        columns = [*KEYS[table], *self.rng.sample(["n", "v", "u"], self.rng.randint(0, 3))]
        self.rng.shuffle(columns)
        source = self.rng.choices([self.some_rows, self.many_rows, self.own_rows], [80, 12, 8])[0](table, columns)
        statement = (f"insert into {table}{alias} ({', '.join(columns)}) {source} on conflict"
                     f" {self.action(table, name)}{self.returning(table, name)}")
        if " returning " in statement and self.rng.random() < 0.1:
            return f"with done as ({statement}) select count(*), sum(n), min(v) from done"
        return statement

    def some_rows(self, table, columns):
        """A few, of which some are repeated."""
        rows = []
        for _ in range(self.rng.choice([1, 1, 2, 3, 5, 8])):
            if rows and self.rng.random() < 0.2:
                rows.append(self.rng.choice(rows))
            rows.append([self.proposed(column, table) if self.rng.random() < 0.97 or column in KEYS[table] else "default"
                         for column in columns])
        return "values " + ", ".join(f"({', '.join(row)})" for row in rows)

    def many_rows(self, table, columns):
        """Up to 1,500, whose keys are repeated, or not."""
        first, rows = self.rng.randint(1, 40), self.rng.choice([10, 100, 1_000, 1_024, 1_025, 1_500])
        g = self.rng.choice(["g", "g", f"g % {self.rng.choice([7, 500, 1_030])}", "(g * 7) % 1000"])
        of = {"id": g, "a": "g % 3", "b": f"'k' || {g}", "k": f"'k' || {g}", "n": "g % 11", "v": "'v' || g % 5",
              "u": self.rng.choice(["null::int", "g + 1000", "g % 400"])}
        order = self.rng.choice(["", " order by g desc"])
        return (f"select {', '.join(of[column] for column in columns)}"
                f" from generate_series({first}, {first + rows - 1}) g{order}")

    def own_rows(self, table, columns):
        """Of the table itself."""
        changed = {"id": "id % 40", "u": "u + 7", "n": "n + 1"}
        values = ", ".join(self.rng.choice([column, changed.get(column, column)]) for column in columns)
        return f"select {values} from {table} order by {', '.join(KEYS[table])}"

    def action(self, table, name):
        if self.rng.random() < 0.25:
            return self.rng.choice(["", *ARBITERS[table]]) + " do nothing"
        condition = "" if self.rng.random() < 0.4 else f" where {self.condition(table, name)}"
        return f"{self.rng.choice(ARBITERS[table])} do update set {self.assignments(table, name)}{condition}"

    def assignments(self, table, name):
        forms = {
            "n": ["excluded.n", f"{name}.n + 1", f"coalesce({name}.n, 0) + coalesce(excluded.n, 0)", "0", "5", f"20 / {name}.n",
                  "default", f"case when excluded.n > {name}.n then excluded.n else {name}.n end", "(select count(*) from t)"],
            "v": ["excluded.v", f"{name}.v || '+'", "default", "null", f"upper({name}.v)", "'again'"],
            "u": ["excluded.u", "null", f"{name}.u", f"{name}.u + 50", "default"]}
        if self.rng.random() < 0.1:
            return self.rng.choice(["(n, v) = (excluded.n, excluded.v)", "(v, n) = row (excluded.v, 3)",
                                    f"(u, n) = ({name}.u, 7)", "(n, v) = (select 1, 'sub')"])
        if self.rng.random() < 0.1:
            key = self.rng.choice(KEYS[table])
            return f"{key} = " + (f"{name}.{key} + 1" if key in ("id", "a") else f"{name}.{key} || 'x'")
        chosen = self.rng.sample(list(forms), self.rng.randint(1, 2))
        return ", ".join(f"{column} = {self.rng.choice(forms[column])}" for column in chosen)

    def condition(self, table, name):
        key = self.rng.choice(KEYS[table])
        one = self.rng.choice([
            f"{name}.n < excluded.n", f"{name}.n is distinct from excluded.n", f"{name}.v <> excluded.v", "excluded.n % 2 = 0",
            f"{name}.n > 4", f"{name}.u is null", f"excluded.u is not null and {name}.n is null", "false", "true", "null",
            f"{name}.{key} in ({self.list_of(key)})", f"excluded.{key} = {name}.{key}", f"{name}.n > 100",
            f"{name}.v = 'new' or excluded.v is null", f"({name}.n, {name}.u) > (excluded.n, excluded.u)",
            "exists (select 1 from t where t.id = excluded.n)", f"20 / {name}.n > 3"])
        return one if self.rng.random() < 0.8 else f"not ({one})"

    def returning(self, table, name):
        if self.rng.random() < 0.5:
            return ""
        return " returning " + self.rng.choice(["*", f"{name}.*", f"{', '.join(KEYS[table])}, n, v",
                                                f"n, v, n + 1 as more, {name}.u is null as free"])

    # What is looked for by its key --------------------------------------------------------------

    def list_of(self, column, most=12):
        """Values, of which some are repeated, and some are NULL."""
        values = [self.value(column, 0.08) for _ in range(self.rng.randint(1, most))]
        if self.rng.random() < 0.3:
            values += self.rng.sample(values, self.rng.randint(1, len(values)))
        if column in ("id", "u", "a") and self.rng.random() < 0.05:
            values.append(self.rng.choice(["3000000000", "2.0", "2.5", "'7'", "1 + 1"]))
        return ", ".join(values)

    def where(self, table):
        column = self.rng.choice([*KEYS[table], *KEYS[table], "u"])
        kind = "text" if column in ("b", "k") else "int"
        forms = [
            lambda: f"{column} in ({self.list_of(column)})",
            lambda: f"{column} in ({self.list_of(column, 200)})",
            lambda: f"{column} = any (array[{self.list_of(column)}]::{kind}[])",
            lambda: f"{column} in ({self.list_of(column)}) and n {self.rng.choice(['>', '<=', '<>'])} {self.number(9)}",
            lambda: f"{column} in ({self.list_of(column)}) and {column} in ({self.list_of(column)})",
            lambda: f"{column} in ({self.list_of(column)}) or u in ({self.list_of('u')})",
            lambda: f"{column} not in ({self.list_of(column)})",
            lambda: f"{column} in (values (null::{kind}), ({self.value(column)}), ({self.value(column)}))",
            lambda: f"{column} in (select {column} from {table} where n in ({self.list_of('n', 3)}))",
            lambda: f"{column} in (null)",
        ]
        if table == "pairs":
            pairs = ", ".join(f"({self.value('a', 0.05)}, {self.value('b', 0.05)})" for _ in range(self.rng.randint(1, 9)))
            forms += 2 * [
                lambda: f"(a, b) in ({pairs})",
                lambda: f"a in ({self.list_of('a', 4)}) and b in ({self.list_of('b')})",
                lambda: f"a = {self.value('a')} and b in ({self.list_of('b')})",
            ]
        return self.rng.choice(forms)()

    def select(self, table):
        what = self.rng.choice(["*", "*", ", ".join(KEYS[table]), "count(*), sum(n)", "distinct n"])
        if what == "*" and self.rng.random() < 0.15:
            key = self.rng.choice(KEYS[table])
            values = ", ".join(f"({self.value(key, 0.1)})" for _ in range(5))
            side = self.rng.choice(["", "left "])
            return f"select * from (values (null), {values}) w (key) {side}join {table} on {key} = w.key"
        return f"select {what} from {table} where {self.where(table)}"

    def update(self, table):
        change = self.rng.choice(["n = n + 1", "n = 3", "v = v || '!'", "v = null", "u = null", f"u = {self.number(200)}",
                                  "(n, v) = (8, 'both')", "n = default"])
        return f"update {table} set {change} where {self.where(table)}" + self.maybe(0.4, " returning *")

    def delete(self, table):
        return f"delete from {table} where {self.where(table)}" + self.maybe(0.4, " returning *")

    def trim(self, table):
        last = KEYS[table][-1]
        return f"delete from {table} where {last} not in ({', '.join(self.value(last) for _ in range(40))}) or n is null"


def outcome(connection, statement, binary=False):
    """Names, rows in some order, and tag; or SQLSTATE, and for who reads it the message."""
    try:
        # With binary answers by the extended protocol.
        cursor = connection.execute(statement, binary=binary)
    except psycopg.Error as error:
        return ("ERROR", error.sqlstate), error.diag.message_primary
    if cursor.description is None:
        return (cursor.statusmessage,), ""
    names = [column.name for column in cursor.description]
    return (cursor.statusmessage, names, sorted(cursor.fetchall(), key=repr)), ""


def is_another_error(seen, expected):
    """A statement may have several. Froglet looks at all rows that are proposed before it inserts the first, PostgreSQL at
    each in its turn."""
    of_a_row = ("22", "23502", "23514")
    return seen != expected and seen[0] == expected[0] == "ERROR" and seen[1].startswith(of_a_row)


def contents(connection, table):
    with connection.cursor() as cursor, cursor.copy(f"copy (select * from {table} order by {', '.join(KEYS[table])}) to stdout") as copy:
        return b"".join(copy).splitlines()


def parted(ours, theirs):
    """What only one side has, shortly."""
    if len(ours) == len(theirs) == 3 and ours[:2] == theirs[:2]:
        ours, theirs = ours[2], theirs[2]
    elif not isinstance(ours, list):
        return f"  Froglet: {str(ours)[:400]}\n  PostgreSQL: {str(theirs)[:400]}"
    only = [[row for row in side if row not in other][:10] for side, other in ((ours, theirs), (theirs, ours))]
    return f"  only Froglet ({len(ours)} rows): {only[0]}\n  only PostgreSQL ({len(theirs)} rows): {only[1]}"


@pytest.mark.parametrize("seed", range(FIRST, FIRST + SEEDS))
@pytest.mark.parametrize("method", ["memory", "disk"])
def test_as_in_postgresql(froglet, postgres, method, seed):
    rng = random.Random(f"{method} {seed}")
    statements, counts, refused, within = Statements(rng), Counter(), Counter(), False
    froglet.psql(SETUP.format(method=method))
    postgres.psql(SETUP.format(method="heap"))
    with froglet.connect() as ours, postgres.connect() as theirs:
        if rng.random() < 0.5:
            ours.execute("set froglet.fast_path = off")

        def both(statement, binary=False):
            seen, message = outcome(ours, statement, binary)
            if seen == ("ERROR", "0A000"):
                assert any(reason in message for reason in NOT_YET), f"{statement}\n  {message}"
                refused[message] += 1
                return seen
            expected, reason = outcome(theirs, statement, binary)
            if is_another_error(seen, expected):
                counts["another error"] += 1
                return seen
            assert seen == expected, (f"seed {seed}, {method}, statement {n}, transaction {within}: {statement}\n{parted(seen, expected)}\n"
                                      f"  {message}\n  {reason}")
            return seen

        for n in range(STATEMENTS):
            if within and rng.random() < 0.3:
                both(rng.choice(["commit", "rollback"]))
                within = False
            elif not within and rng.random() < 0.06:
                both("begin")
                within = True
            statement, table = statements.statement()
            seen = both(statement, rng.random() < 0.5)
            is_error = seen[0] == "ERROR"
            counts[seen[1] if is_error else seen[0].split()[0]] += 1
            if is_error and within:
                both("rollback")
                within = False
            if not statement.startswith("select"):
                mine, other = (contents(side, table) for side in (ours, theirs))
                assert mine == other, f"seed {seed}, {method}, {table} after statement {n}: {statement}\n{parted(mine, other)}"
                if len(mine) > ROWS_MAX:
                    both(statements.trim(table))
    print(f"seed {seed}, {method}: {dict(counts)}, refused {dict(refused)}")
    # Most write; and what may be refused is.
    assert counts["INSERT"] > STATEMENTS / 4 and counts["21000"] and counts["23505"], counts


# One key in several rows of a statement; the table has (1, 1) and (2, 2).
TWICE = {
    "the condition says no twice": ("(1, 1), (1, 2)", "where t.n > 100", "INSERT 0 0"),
    "no condition": ("(1, 1), (1, 2)", "", "21000"),
    "it is inserted first": ("(3, 1), (3, 2)", "where t.n > 100", "21000"),
    "it is inserted first, and another is in between": ("(3, 1), (1, 1), (3, 2)", "where t.n > 100", "21000"),
    "no, yes": ("(1, 1), (1, 20)", "where excluded.n > 10", "INSERT 0 1"),
    "yes, no": ("(1, 20), (1, 1)", "where excluded.n > 10", "21000"),
    "no, yes, no": ("(1, 1), (1, 20), (1, 2)", "where excluded.n > 10", "21000"),
    "no, yes, yes": ("(1, 1), (1, 20), (1, 21)", "where excluded.n > 10", "21000"),
    "no, no, yes": ("(1, 1), (1, 2), (1, 20)", "where excluded.n > 10", "INSERT 0 1"),
    "no, yes of both": ("(1, 1), (2, 2), (1, 20), (2, 30)", "where excluded.n > 10", "INSERT 0 2"),
    "the condition is null": ("(1, null), (1, null), (1, 20)", "where excluded.n > 10", "INSERT 0 1"),
}


@pytest.mark.parametrize("method", ["memory", "disk"])
def test_a_key_twice_in_a_statement(server, request, method):
    method = "heap" if "postgres" in request.node.name else method
    with server.connect() as connection:
        connection.execute(f"create table t (id int primary key, n int) using {method}")
        for case, (rows, condition, expected) in TWICE.items():
            connection.execute("delete from t")
            connection.execute("insert into t values (1, 1), (2, 2)")
            seen, message = outcome(
                connection, f"insert into t values {rows} on conflict (id) do update set n = excluded.n {condition}")
            assert seen[-1] == expected, (case, message)
            written = {"INSERT 0 1": [(1, 20), (2, 2)], "INSERT 0 2": [(1, 20), (2, 30)]}.get(expected, [(1, 1), (2, 2)])
            assert connection.execute("select * from t order by id").fetchall() == written, case
