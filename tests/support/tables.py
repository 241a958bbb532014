"""Tables as the model of `model.py` has them, and what statements do to them.

A `State` is what is committed at one moment. It is never changed: who changes it gets another one.
Columns and tables have ids, as a rename changes no row; a row is a mapping from column ids to values.
"""

from collections import defaultdict
from dataclasses import dataclass, field, replace

from . import expressions
from .expressions import literal, value

INTEGER, BIGINT, TEXT = "integer", "bigint", "text"


class Failure(Exception):
    """A statement that fails, by its SQLSTATE."""

    def __init__(self, *states):
        super().__init__(*states)
        self.states = set(states)


class NotModelled(Exception):
    """A statement that nobody generates, but that may be left when others are taken from before it."""


@dataclass(frozen=True)
class Column:
    id: int
    name: str
    type: str
    not_null: bool = False
    default: object = None
    generated: tuple = None


@dataclass(frozen=True)
class Key:
    """An index: `primary`, `unique` (both constraints), `unique index` or `index`."""
    name: str
    columns: tuple
    kind: str

    @property
    def unique(self):
        return self.kind != "index"

    @property
    def constraint(self):
        return self.kind in ("primary", "unique")


@dataclass(frozen=True)
class Table:
    """`lineage` says, change by change, what was done to each row: how a row that was written under an
    older version is carried over. `epoch` is another one when the table has been emptied; `defined`
    when its definition has changed. `copied` are the tables that a row of this one is followed to, when
    it goes in the transaction that made them."""
    id: int
    name: str
    columns: tuple
    keys: tuple = ()
    checks: tuple = ()
    references: tuple = ()
    rows: dict = field(default_factory=dict)
    lineage: tuple = ()
    epoch: int = 0
    defined: int = 0
    copied: tuple = ()
    chained: bool = False
    method: str = "heap"
    moved: int = 0  # Definitions below are from before it has moved.

    def column(self, name):
        for column in self.columns:
            if column.name == name:
                return column
        raise Failure("42703")

    def by_id(self, id):
        return next(column for column in self.columns if column.id == id)

    def names(self):
        return [column.name for column in self.columns]

    def resolve(self, e):
        """An expression over this table's column ids."""
        return expressions.renamed(e, lambda name: self.column(name).id)

    def shown(self, e):
        """And back to SQL."""
        return expressions.sql(e, lambda id: self.by_id(id).name)

    def completed(self, row):
        """A row with its generated columns."""
        row = dict(row)
        for column in self.columns:
            if column.generated:
                row[column.id] = value(column.generated, row)
        return row

    def holds(self, where, row):
        if where is None:
            return True
        try:
            return value(self.resolve(where), row) is True
        except TypeError:  # The column is of another type than when the statement was made.
            raise Failure("42883", "22P02") from None

    def texts(self, rows):
        """Rows as text, as a result has them."""
        return ["|".join(expressions.shown(row[c.id]) for c in self.columns) for row in rows]

    def contents(self):
        return sorted(self.texts(self.rows.values()))

    def involves(self, id):
        """Whether an expression somewhere names the column."""
        others = [c.generated for c in self.columns if c.generated] + [e for _, e in self.checks]
        return any(id in expressions.columns(e) for e in others)

    def carried(self, row, version):
        """A row that was written under a version, under this one; None is a deleted one."""
        for step in self.lineage[version:]:
            row = row and step(row)
        return row

    def changed(self, defined, step=None, **what):
        """The table after a change of its definition, which makes of each row what `step` does."""
        table = replace(self, defined=defined, **what)
        if step:
            rows = {rid: step(row) for rid, row in self.rows.items()}
            table = replace(table, rows=rows, lineage=(*self.lineage, step))
        return table

    def leads(self, column):
        """Whether an index begins with a column."""
        return any(key.columns[0] == column.id for key in self.keys)

    def create_sql(self, parents=lambda id: None):
        """Statements that make it as it is, without its rows; foreign keys apart from the rest."""
        words = []
        for c in self.columns:
            word = f"{c.name} {c.type}"
            if c.generated:
                word += f" generated always as ({self.shown(c.generated)}) stored"
            elif c.default is not None:
                word += f" default {literal(c.default)}"
            words.append(word + (" not null" if c.not_null else ""))
        for key in self.keys:
            if key.kind == "primary":
                names = ", ".join(self.by_id(id).name for id in key.columns)
                words.append(f"constraint {key.name} primary key ({names})")
        words += [f"constraint {name} check ({self.shown(e)})" for name, e in self.checks]
        made = [f"create table {self.name} ({', '.join(words)}) using {self.method}"]
        for key in self.keys:
            names = ", ".join(self.by_id(id).name for id in key.columns)
            if key.kind == "unique":
                # By itself: PostgreSQL makes one index of two that are the same in CREATE TABLE.
                made.append(f"alter table {self.name} add constraint {key.name} unique ({names})")
            elif key.kind != "primary":
                made.append(f"create {key.kind} {key.name} on {self.name} ({names})")
        foreign = []
        for name, column, parent, parent_column in self.references:
            other = parents(parent)
            foreign.append(
                f"alter table {self.name} add constraint {name} foreign key ({self.by_id(column).name})"
                f" references {other.name} ({other.by_id(parent_column).name})")
        return made, foreign


@dataclass(frozen=True)
class State:
    """The tables by id; and of those that are gone, where their rows went, with the epoch and lineage
    that they had (`None` if rows cannot follow)."""
    tables: dict = field(default_factory=dict)
    gone: dict = field(default_factory=dict)
    # Rows of copies, by what they are copies of, that were put by way of tables that are gone.
    followed: frozenset = frozenset()

    def named(self, name):
        for table in self.tables.values():
            if table.name == name:
                return table
        raise Failure("42P01")

    def has(self, name):
        return any(table.name == name for table in self.tables.values())

    def with_table(self, *tables):
        return replace(self, tables=self.tables | {table.id: table for table in tables})

    def children(self, id):
        return [t for t in self.tables.values() if any(r[2] == id for r in t.references)]

    def leads(self, id):
        """Whether rows of a table can still be somewhere: in it, or where they went."""
        ways = self.gone.get(id, ())
        return id in self.tables or None not in ways and any(self.leads(way[0]) for way in ways)

    def copies(self, id, rid):
        """A row's copies, and theirs, of a table that is gone."""
        for way in filter(None, self.gone.get(id, ())):
            yield way[0], ("c", rid)
            yield from self.copies(way[0], ("c", rid))

    def settled(self):
        """After a commit: what was made in it is a table like any other."""
        # Rows follow into a copy, but not into what was made of a copy.
        chains = {id for id, t in self.tables.items() if t.chained and t.copied}
        gone = {id: tuple(None if way and way[0] in chains else way for way in ways)
                for id, ways in self.gone.items()}
        return State({
            id: replace(t, copied=(), chained=False) if t.copied or t.chained else t
            for id, t in self.tables.items()}, gone)

    def violations(self):
        """The SQLSTATEs of all constraints that do not hold."""
        found = set()
        for table in self.tables.values():
            needed = {c.id for c in table.columns if c.not_null}
            needed |= {id for key in table.keys if key.kind == "primary" for id in key.columns}
            for row in table.rows.values():
                if any(row[id] is None for id in needed):
                    found.add("23502")
                if any(value(e, row) is False for _, e in table.checks):
                    found.add("23514")
            for key in table.keys:
                if key.unique and has_duplicates(table, key):
                    found.add("23505")
            for _, column, parent, parent_column in table.references:
                there = {row[parent_column] for row in self.tables[parent].rows.values()}
                there.add(None)
                if any(row[column] not in there for row in table.rows.values()):
                    found.add("23503")
        return found


def key_of(key, row):
    """What a row has in a key; None if a NULL is in it, which equals nothing."""
    values = tuple(row[id] for id in key.columns)
    return None if None in values else values


def has_duplicates(table, key):
    values = [v for row in table.rows.values() if (v := key_of(key, row)) is not None]
    return len(values) != len(set(values))


# The queries of CREATE TABLE AS -------------------------------------------------------------------

def type_of(e, table):
    """The type of an expression over a table's column names."""
    operator, *operands = e
    if operator == "col":
        return table.column(operands[0]).type
    if operator == "lit":
        return TEXT if isinstance(operands[0], str) else INTEGER
    if operator in ("length", "||"):
        return INTEGER if operator == "length" else TEXT
    types = {type_of(operand, table) for operand in operands}
    if operator in ("+", "*", "%") and TEXT in types:  # Of another type than when the statement was made.
        raise Failure("42883", "22P02")
    return BIGINT if BIGINT in types else type_of(operands[0], table)


@dataclass(frozen=True)
class Rows:
    """A row of each row that WHERE leaves: units are rows, and open writers are followed."""
    source: str
    outputs: tuple
    where: tuple = None

    sources = property(lambda self: (self.source,))

    def sql(self):
        outputs = ", ".join(f"{expressions.sql(e)} as {name}" for name, e in self.outputs)
        where = f" where {expressions.sql(self.where)}" if self.where else ""
        return f"select {outputs} from {self.source}{where}"

    def columns(self, table):
        return [(name, type_of(e, table)) for name, e in self.outputs]

    def step(self, table, ids):
        """What makes a row of the new table of one of the old."""
        outputs = [(id, table.resolve(e)) for id, (_, e) in zip(ids, self.outputs)]
        where = self.where and table.resolve(self.where)

        def made(row):
            if where and value(where, row) is not True:
                return None
            return {id: value(e, row) for id, e in outputs}
        return made

    def rows(self, ids, table):
        step = self.step(table, ids)
        made = {("c", rid): step(row) for rid, row in table.rows.items()}
        return {rid: row for rid, row in made.items() if row is not None}


@dataclass(frozen=True)
class Groups:
    """A row of each group: `count(*)`, and `sum` and `max` of a column."""
    source: str
    key: str
    of: str

    sources = property(lambda self: (self.source,))

    def sql(self):
        return (f"select {self.key} as k, count(*) as n, sum({self.of})::bigint as total,"
                f" max({self.of}) as most from {self.source} group by {self.key}")

    def columns(self, table):
        kind = table.column(self.of).type
        if kind == TEXT:
            raise NotModelled("a sum of texts")
        return [("k", table.column(self.key).type), ("n", BIGINT), ("total", BIGINT), ("most", kind)]

    def rows(self, ids, table):
        key, of = table.column(self.key).id, table.column(self.of).id
        groups = defaultdict(list)
        for row in table.rows.values():
            groups[row[key]].append(row[of])
        made = {}
        for k, values in groups.items():
            known = [v for v in values if v is not None]
            total, most = (sum(known), max(known)) if known else (None, None)
            made["g", k] = dict(zip(ids, (k, len(values), total, most)))
        return made


@dataclass(frozen=True)
class Join:
    """Two tables by equal columns, `left join` or `join`."""
    left: str
    right: str
    left_on: str
    right_on: str
    outputs: tuple  # (name, "a" or "b", column)
    kind: str

    sources = property(lambda self: (self.left, self.right))

    def sql(self):
        outputs = ", ".join(f"{side}.{column} as {name}" for name, side, column in self.outputs)
        return (f"select {outputs} from {self.left} a {self.kind} {self.right} b"
                f" on a.{self.left_on} = b.{self.right_on}")

    def columns(self, left, right):
        on = {left.column(self.left_on).type, right.column(self.right_on).type}
        if TEXT in on and on != {TEXT}:
            raise NotModelled("a join of text and numbers")
        of = {"a": left, "b": right}
        return [(name, of[side].column(column).type) for name, side, column in self.outputs]

    def rows(self, ids, left, right):
        left_on, right_on = left.column(self.left_on).id, right.column(self.right_on).id
        of = {"a": left, "b": right}
        outputs = [(id, side, of[side].column(c).id) for id, (_, side, c) in zip(ids, self.outputs)]
        made = {}
        for a_id, a in left.rows.items():
            partners = [(b_id, b) for b_id, b in right.rows.items()
                        if a[left_on] is not None and a[left_on] == b[right_on]]
            if not partners and self.kind == "left join":
                partners = [(None, None)]
            for b_id, b in partners:
                row = {"a": a, "b": b}
                made["j", a_id, b_id] = {
                    id: row[side] and row[side][column] for id, side, column in outputs}
        return made


@dataclass(frozen=True)
class Union:
    """All rows of two tables."""
    left: str
    right: str
    left_columns: tuple
    right_columns: tuple
    outputs: tuple

    sources = property(lambda self: (self.left, self.right))

    def sql(self):
        first = ", ".join(f"{c} as {name}" for name, c in zip(self.outputs, self.left_columns))
        return (f"select {first} from {self.left} union all"
                f" select {', '.join(self.right_columns)} from {self.right}")

    def columns(self, left, right):
        types = []
        for a, b in zip(self.left_columns, self.right_columns):
            pair = {left.column(a).type, right.column(b).type}
            if TEXT in pair and pair != {TEXT}:
                raise NotModelled("a union of text and numbers")
            types.append(BIGINT if BIGINT in pair else pair.pop())
        return list(zip(self.outputs, types))

    def rows(self, ids, *tables):
        made = {}
        for which, names in enumerate((self.left_columns, self.right_columns)):
            columns = [tables[which].column(name).id for name in names]
            for rid, row in tables[which].rows.items():
                made["u", which, rid] = {id: row[c] for id, c in zip(ids, columns)}
        return made
