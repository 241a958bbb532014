"""Random schema changes of a table with random writes between them, all reverted again, the last first: after each
revert the schema is what it was before the change, and every value is the last that was written.

FROGLET_TEST_SEEDS=N tries so many seeds, FROGLET_TEST_SEED=S begins with this one.
"""

import os
import random

import pytest

from test_revert import losses, newest, revert, schema

FIRST = int(os.environ.get("FROGLET_TEST_SEED", 1))
SEEDS = int(os.environ.get("FROGLET_TEST_SEEDS", 8))
NEVER = object()


class Table:
    """What a table has to have."""

    def __init__(self, server, rng):
        self.server, self.rng, self.numbers = server, rng, 0
        server.run("create table t0 (id int primary key, c0 int, c1 int, c2 int not null default 7, c3 int)",
                   "create index t_i on t0 (c1 desc, c0)",
                   "alter table t0 add constraint t_k unique (c0, id), add constraint t_c check (c3 >= 0)",
                   "insert into t0 select i, i, i % 7, i % 5, i % 3 from generate_series(1, 60) i")
        self.name = "t0"
        # Of each column that is seen, by its name: under which key its values are remembered.
        self.columns = {f"c{n}": f"c{n}" for n in range(4)}
        self.rows = {row[0]: dict(zip(["c0", "c1", "c2", "c3"], row[1:])) for row in server.rows("select * from t0")}

    def fresh(self, letter):
        self.numbers += 1
        return f"{letter}{self.numbers}x"

    def statement(self):
        """A random schema change; as it changes what is here."""
        rng, names = self.rng, list(self.columns)
        column = rng.choice(names) if names else None
        kind = rng.choice("rename column|rename table|drop|drop|add|wide|narrow|index|check|default|null|unindex"
                          .split("|"))
        table = f"alter table {self.name}"
        if kind == "null" and self.columns.get(column) == "c2":
            kind = "default"  # Rows that are inserted without it later have NULL.
        if column is None or kind == "add":
            name = self.fresh("n")
            key = self.fresh("k")
            self.columns[name] = key
            for row in self.rows.values():
                row[key] = 5
            return f"{table} add {name} int default 5"
        if kind == "rename column":
            name = self.fresh("c")
            self.columns[name] = self.columns.pop(column)
            return f"{table} rename {column} to {name}"
        if kind == "rename table":
            old, self.name = self.name, self.fresh("t")
            return f"alter table {old} rename to {self.name}"
        if kind == "drop":
            del self.columns[column]
            return f"{table} drop {column}"
        return {
            "wide": f"{table} alter {column} type bigint",
            "narrow": f"{table} alter {column} type int",
            "index": f"create index {self.fresh('i')} on {self.name} ({column} desc, id)",
            "check": f"{table} add constraint {self.fresh('k')} check ({column} < 1000000)",
            "default": f"{table} alter {column} set default {rng.randint(1, 9)}",
            "null": f"{table} alter {column} drop not null",
            "unindex": "drop index if exists t_i",
        }[kind]

    def write(self):
        rng, names = self.rng, [name for name, key in self.columns.items() if key.startswith("c")]
        kind = rng.random()
        if kind < 0.5 and names:
            column, id, value = rng.choice(names), rng.choice(list(self.rows)), rng.randint(0, 9999)
            self.server.run(f"update {self.name} set {column} = {value} where id = {id}")
            self.rows[id][self.columns[column]] = value
        elif kind < 0.8:
            id = max(self.rows) + 1
            self.rows[id] = row = {key: rng.randint(0, 9999) for key in ["c0", "c1", "c2", "c3"]}
            seen = {key: name for name, key in self.columns.items()}
            for key in list(row):
                if key not in seen:
                    row[key] = NEVER
            values = {seen[key]: value for key, value in row.items() if value is not NEVER}
            self.server.run(f"insert into {self.name} ({', '.join(['id', *values])}) values"
                            f" ({', '.join(map(str, [id, *values.values()]))})")
        else:
            id = rng.choice(list(self.rows))
            del self.rows[id]
            self.server.run(f"delete from {self.name} where id = {id}")

    def check(self):
        names = [name for name, key in self.columns.items() if key.startswith("c")]
        for row in self.server.rows(f"select {', '.join(['id', *names])} from {self.name}"):
            for name, value in zip(names, row[1:]):
                key = self.columns[name]
                expected = self.rows[row[0]][key]
                if expected is NEVER:
                    # What nobody has given.
                    assert value is None or key == "c2" and 1 <= value <= 9, (row, name)
                    self.rows[row[0]][key] = value
                assert expected in (NEVER, value), (row, name, expected)
        assert self.server.value(f"select count(*) from {self.name}") == len(self.rows)


@pytest.mark.parametrize("seed", range(FIRST, FIRST + SEEDS))
def test_all_changes_are_reverted(start, seed):
    server = start()
    rng = random.Random(seed)
    table = Table(server, rng)
    changes = []
    for _ in range(rng.randint(4, 10)):
        before = schema(server), table.name, dict(table.columns)
        known = newest(server)
        with server.connect() as connection, connection.transaction():
            for _ in range(rng.randint(1, 3)):
                connection.execute(table.statement())
        if newest(server) != known:
            changes.append((newest(server), before))
        for _ in range(rng.randint(0, 4)):
            table.write()
        if rng.random() < 0.15:
            server.kill_and_restart()
        table.check()
    for number, (before, name, columns) in reversed(changes):
        lossy = losses(server, number)
        if any("no longer stored" in loss for loss in lossy):
            # It was dropped where it was converted, or before its values were all stored.
            return
        assert all("the values of column" in loss for loss in lossy), lossy
        revert(server, number, lossy=bool(lossy))
        table.name, table.columns = name, columns
        assert schema(server) == before, number
        table.check()
        for _ in range(rng.randint(0, 3)):
            table.write()
        if rng.random() < 0.15:
            server.kill_and_restart()
