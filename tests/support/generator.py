"""Random statements for several sessions, most of which make sense to the session that is to run them.

Sessions whose names begin with M change schemas, those with W only rows. A generator looks at a `World`
of the model to know what a session sees, and at nothing else; so a seed gives the same history as long
as the server answers the same.
"""

from dataclasses import dataclass

from .changes import (
    AddCheck, AddColumn, AddForeignKey, AddKey, AlterType, DropColumn, DropConstraint, DropIndex,
    DropTable, MakeTable, RenameColumn, RenameTable, SetMethod, SetNotNull, Truncate,
)
from .model import (
    IDS, Begin, Commit, Delete, Insert, Release, Rollback, RollbackTo, Savepoint, Select, Update,
)
from .tables import BIGINT, INTEGER, TEXT, Column, Groups, Join, Key, Rows, State, Table, Union

SESSIONS = ("W1", "W2", "W3", "M1", "M2")
NUMBERS = (INTEGER, BIGINT)
METHODS = ("heap", "disk")


@dataclass(frozen=True)
class Kill:
    """kill -9 of the server and a new start."""

    def sql(self):
        return r"\kill"


def beginning(rng, lazy=False):
    """What there is at the start: t, u and sometimes a child of u, with a few rows."""
    def table(name, columns, rows):
        columns = tuple(Column(next(IDS), n, t, not_null=n == "id") for n, t in columns)
        made = {next(IDS): {c.id: v for c, v in zip(columns, row)} for row in rows}
        key = Key(f"{name}_pkey", (columns[0].id,), "primary")
        keys = (key,)
        if lazy:
            keys += tuple(Key(f"{name}_{c.name}", (c.id,), "index") for c in columns[1:] if rng.random() < 0.5)
        return Table(next(IDS), name, columns, keys, rows=made, method=rng.choice(METHODS))

    t = table("t", (("id", INTEGER), ("k", INTEGER), ("v", INTEGER), ("s", TEXT)),
              [(i, rng.randrange(1, 5), rng.choice((None, *range(8))), rng.choice("abcd"))
               for i in range(1, 7)])
    u = table("u", (("id", INTEGER), ("v", INTEGER), ("s", TEXT)),
              [(i, rng.randrange(8), rng.choice("abcd")) for i in range(1, 6)])
    tables = [t, u]
    if rng.random() < 0.3:
        c = table("c", (("id", INTEGER), ("p", INTEGER)), [(1, 1), (2, 2), (3, None)])
        references = (("c_p_fkey", c.columns[1].id, u.id, u.columns[0].id),)
        tables.append(c.changed(next(IDS), references=references))
    return State({table.id: table for table in tables})


class Generator:
    def __init__(self, rng, kills=False, lazy=False):
        self.rng, self.kills, self.lazy, self.names, self.plans = rng, kills, lazy, 0, {}

    def name(self, prefix):
        self.names += 1
        return f"{prefix}{self.names}"

    def next(self, world, ready):
        """A session of those that are ready, and a statement of its."""
        if self.kills and self.rng.random() < 0.02:
            self.plans.clear()
            return "server", Kill()
        session = self.rng.choice(ready)
        return session, self.statement(world, session)

    def statement(self, world, session):
        rng, transaction = self.rng, world.transactions.get(session)
        if transaction is None:
            self.plans.pop(session, None)
            if rng.random() < (0.75 if session[0] == "M" else 0.45):
                return Begin(rng.random() < 0.3)
        elif transaction.failed:
            points = [name for name, _ in transaction.savepoints]
            if points and rng.random() < 0.8:
                return RollbackTo(rng.choice(points))
            return rng.choice((Rollback(), Commit()))
        else:
            if plan := self.plans.get(session):
                return plan.pop(0) if rng.random() < 0.7 else self.of_rows(
                    world.view(session), self.locked(world))
            chance = rng.random()
            if chance < 0.16:
                return Commit()
            if chance < 0.19:
                return Rollback()
            if chance < 0.25:
                return Savepoint(rng.choice(("a", "b")))
            if transaction.savepoints and chance < 0.31:
                kind = Release if rng.random() < 0.3 else RollbackTo
                return kind(rng.choice(transaction.savepoints)[0])
        view = world.view(session)
        if not view.tables:
            return Rollback() if transaction else Select("t")
        if session[0] == "M" and rng.random() < 0.55:
            if transaction and rng.random() < (0.5 if self.lazy else 0.2):
                self.plans[session] = self.replacement(view)
                return self.plans[session].pop(0)
            return self.change(view, session if transaction else None)
        if rng.random() < 0.25 and (violation := self.violation(world, view)):
            return violation
        return self.of_rows(view, self.locked(world))

    def violation(self, world, view):
        """A write that a constraint will not like, which somebody is adding to the table."""
        rng = self.rng
        kinds = (AddCheck, AddKey, AddForeignKey, SetNotNull)
        added = [piece for transaction in world.transactions.values() for piece in transaction.work
                 if isinstance(getattr(piece, "change", None), kinds) and piece.table in view.tables]
        if not added:
            return None
        piece = rng.choice(added)
        table, change = view.tables[piece.table], piece.change
        if isinstance(change, AddCheck):
            name, values = change.check[1][1], [1500]
        else:
            name = change.columns[0] if isinstance(change, AddKey) else change.column
            values = [None, 77]
        column = next((c for c in table.columns if c.name == name), None)
        if column is None or column.generated or not table.rows:
            return None
        if isinstance(change, AddKey):
            values = [row[column.id] for row in table.rows.values()]
        value, row = rng.choice(values), rng.choice(list(table.rows.values()))
        if value is not None and (column.type == TEXT) != isinstance(value, str):
            return None
        first = table.columns[0]
        if row[first.id] is None:
            return None
        where = ("=", ("col", first.name), ("lit", row[first.id]))
        return Update(table.name, ((name, ("lit", value)),), where)

    def locked(self, world):
        return {id for transaction in world.transactions.values() for id in transaction.locks()}

    # Rows

    def literal(self, column):
        rng = self.rng
        if rng.random() < (0.02 if column.not_null else 0.12):
            return None
        if column.type == TEXT:
            return rng.choice(("a", "b", "c", "d", "e", "xy"))
        return rng.randrange(1, 14)

    def where(self, table):
        rng = self.rng
        chance = rng.random()
        if chance < 0.1:
            return None
        keyed = [table.by_id(id) for key in table.keys for id in key.columns]
        column = rng.choice(keyed if keyed and chance < 0.8 else table.columns)
        value = self.literal(column)
        if value is None:
            return ("is null", ("col", column.name))
        return (rng.choice(("=", "=", "=", ">=", "<")) if column.type != TEXT else "=",
                ("col", column.name), ("lit", value))

    def of_rows(self, view, locked=()):
        rng = self.rng
        # Rather tables that somebody is changing the schema of.
        tables = list(view.tables.values())
        table = rng.choice(tables + 2 * [t for t in tables if t.id in locked])
        chance = rng.random()
        if chance < 0.3:
            return Select(table.name, self.where(table))
        own = [c for c in table.columns if not c.generated]
        if chance < 0.5:
            values = tuple((c.name, self.literal(c)) for c in own
                           if c.not_null or rng.random() < 0.8)
            return Insert(table.name, values) if values else Select(table.name)
        if chance < 0.6 or not own:
            return Delete(table.name, self.where(table) or ("is null", ("col", table.columns[0].name)))
        sets = []
        for column in rng.sample(own, rng.choice((1, 1, 2)) if len(own) > 1 else 1):
            in_key = any(column.id in key.columns for key in table.keys if key.unique)
            e = ("lit", self.literal(column))
            if not in_key and rng.random() < 0.5:
                e = self.expression(table, column.type, [column])
            sets.append((column.name, e))
        return Update(table.name, tuple(sets), self.where(table))

    def expression(self, table, kind, among=None):
        """An expression of about that type over some columns."""
        rng, columns = self.rng, among or [c for c in table.columns if not c.generated]
        numbers = [c for c in columns if c.type in NUMBERS]
        if kind == TEXT:
            column = ("col", rng.choice(columns).name)
            return rng.choice((
                ("||", ("lit", "x"), column),
                ("||", ("||", ("coalesce", column, ("lit", "n")), ("lit", "/")), column)
                if table.column(column[1]).type == TEXT else ("||", ("lit", "y"), column)))
        if not numbers:
            texts = [c for c in columns if c.type == TEXT]
            return ("length", ("col", rng.choice(texts).name)) if texts else ("lit", 3)
        a, b = (("col", rng.choice(numbers).name) for _ in range(2))
        return rng.choice((
            ("%", ("+", ("*", a, ("lit", 2)), ("lit", 1)), ("lit", 1000)),
            ("%", ("+", a, b), ("lit", 1000)),
            ("coalesce", a, ("lit", 5)),
            ("%", ("+", a, ("lit", 100)), ("lit", 1000))))

    # Schemas

    def lazily(self):
        """Whether a column is computed after the commit; None: as the session does it."""
        return self.rng.random() < 0.7 if self.lazy else None

    def made(self):
        """Whether a table's rows are made after the commit, and whether that is only a wish."""
        lazily = self.lazy and self.rng.random() < 0.5
        return lazily, self.lazy and not lazily and self.rng.random() < 0.8

    def change(self, view, session=None):
        rng = self.rng
        tables = list(view.tables.values())
        table = rng.choice(tables)
        column = rng.choice(table.columns)
        t, c = table.name, column.name
        numbers = [x for x in table.columns if x.type in NUMBERS]
        kind = rng.choice((
            "constant", "constant", "generated", "generated", "drop column", "rename column",
            "type", "type", "type", "not null", "check", "key", "key", "index", "unique index",
            "drop constraint", "drop index", "foreign key", "foreign key", "rename table",
            "truncate", "drop table", "move", "move", "move", "make", "make", "make", "primary key", *["make"] * (5 * self.lazy)))
        if len(table.columns) > 6 and kind in ("constant", "generated"):
            kind = "drop column"
        if kind == "constant":
            type_ = rng.choice((INTEGER, BIGINT, TEXT))
            default = rng.choice((None, 7, 8)) if type_ != TEXT else rng.choice((None, "d"))
            return AddColumn(t, self.name("c"), type_, default, default is not None and rng.random() < 0.4)
        if kind == "generated":
            own = [x for x in table.columns if not x.generated]
            texts = [x for x in own if x.type == TEXT]
            type_ = rng.choice((BIGINT, TEXT)) if texts and len(texts) < len(own) else BIGINT
            # PostgreSQL takes the text of a number for something that may change.
            among = texts if type_ == TEXT else own
            if among:
                return AddColumn(
                    t, self.name("g"), type_, generated=self.expression(table, type_, among),
                    lazily=self.lazily())
        if kind == "drop column" and len(table.columns) > 2:
            return DropColumn(t, c)
        if kind == "rename column":
            return RenameColumn(t, c, self.name("r"))
        if kind == "type" and not table.involves(column.id) and not column.generated \
                and column.default is None and not any(
                    column.id in (r[1], r[3]) for x in tables for r in x.references):
            keyed = any(column.id in key.columns for key in table.keys)
            type_ = rng.choice(NUMBERS if keyed and column.type != TEXT else (INTEGER, BIGINT, TEXT))
            using = self.expression(table, type_, [column])
            # What is built of it for every row cannot follow.
            lazily = self.lazily() and not keyed if self.lazy else None
            return AlterType(t, c, type_, using, lazily)
        if kind == "not null":
            return SetNotNull(t, c, rng.random() < 0.7)
        if kind == "check" and numbers:
            limit = ("lit", rng.choice((10, 13, 500, 1001)))
            return AddCheck(t, self.name("k"), ("<", ("col", rng.choice(numbers).name), limit))
        if kind in ("key", "index", "unique index"):
            names = tuple(x.name for x in rng.sample(table.columns, min(len(table.columns), rng.choice((1, 2)))))
            return AddKey(t, self.name("i"), names, "unique" if kind == "key" else kind)
        constraints = [k.name for k in table.keys if k.constraint]
        constraints += [x[0] for x in table.checks + table.references]
        if kind == "primary key":
            primary = [k for k in table.keys if k.kind == "primary"]
            if not primary:
                return AddKey(t, self.name("p"), (c,), "primary")
            return DropConstraint(t, primary[0].name)
        if kind == "drop constraint" and constraints:
            return DropConstraint(t, rng.choice(constraints))
        indexes = [k.name for k in table.keys if not k.constraint]
        if kind == "drop index" and indexes:
            return DropIndex(t, rng.choice(indexes))
        if kind == "foreign key":
            targets = [(x, x.by_id(k.columns[0])) for x in tables for k in x.keys
                       if k.constraint and len(k.columns) == 1 and not x.chained]
            pairs = [(a, x, b) for x, b in targets for a in table.columns
                     if (a.type == TEXT) == (b.type == TEXT) and not a.generated]
            if pairs:
                a, parent, b = rng.choice(pairs)
                return AddForeignKey(t, self.name("f"), a.name, parent.name, b.name)
        alone = not any(x.id != table.id for x in view.children(table.id))
        if kind == "move":
            return SetMethod(t, METHODS[table.method == "heap"], self.lazily())
        if kind == "rename table":
            return RenameTable(t, self.name("t"))
        if kind == "truncate" and alone and rng.random() < 0.5:
            return Truncate(t)
        if kind == "drop table" and alone and len(tables) > 2:
            return DropTable(t)
        if kind == "make" and len(tables) < 6:
            made = MakeTable(self.name("m"), self.query(tables), *self.made())
            if (made.lazily or made.auto) and isinstance(made.query, Join) and session and rng.random() < 0.7:
                names = rng.choice((("x",), ("y",), ("x", "y"), ("z", "x")))
                self.plans.setdefault(session, []).append(AddKey(made.table, self.name("i"), names, "index"))
            return made
        return AddColumn(t, self.name("c"), INTEGER, 7)

    def query(self, tables):
        rng = self.rng
        table, other = rng.choice(tables), rng.choice(tables)
        numbers = [c for c in table.columns if c.type in NUMBERS]
        kind = rng.choice(("rows", "join" if self.lazy else "rows", "groups", "join", "union"))
        pairs = [(a, b) for a in table.columns for b in other.columns
                 if (a.type == TEXT) == (b.type == TEXT)]
        if kind == "groups" and numbers:
            return Groups(table.name, rng.choice(table.columns).name, rng.choice(numbers).name)
        keyed = [(a, b) for a, b in pairs if table.leads(a) and other.leads(b)]
        if kind == "join" and (keyed if self.lazy and rng.random() < 0.8 else pairs):
            # What is made lazily has a way from each table to the other.
            a, b = rng.choice(keyed if self.lazy and keyed else pairs)
            outputs = [("x", "a", table.columns[0].name), ("y", "b", other.columns[0].name),
                       ("z", "b", other.columns[-1].name)]
            return Join(table.name, other.name, a.name, b.name, tuple(outputs),
                        rng.choice(("join", "join" if self.lazy else "left join", "left join")))
        if kind == "union" and len(pairs) > 1:
            chosen = rng.sample(pairs, 2)
            left, right = zip(*((a.name, b.name) for a, b in chosen))
            return Union(table.name, other.name, left, right, ("x", "y"))
        kept = rng.sample(table.columns, rng.randint(1, len(table.columns)))
        outputs = [(c.name, ("col", c.name)) for c in table.columns if c in kept]
        if rng.random() < 0.4:
            outputs.append(("e", self.expression(table, INTEGER)))
        names = {name for name, _ in outputs}
        outputs = outputs if len(names) == len(outputs) else outputs[:-1]
        return Rows(table.name, tuple(outputs), self.where(table) if rng.random() < 0.4 else None)

    def replacement(self, view):
        """Statements by which a table is made anew from another, and takes its place."""
        rng = self.rng
        tables = list(view.tables.values())
        table = rng.choice(tables)
        new = self.name("m")
        if any(x.id != table.id for x in view.children(table.id)) or len(tables) > 5:
            return [self.change(view)]
        query = self.query([table])
        if rng.random() < 0.6:
            query = Rows(table.name, tuple((c.name, ("col", c.name)) for c in table.columns))
        plan = [MakeTable(new, query, *self.made())]
        primary = next((k for k in table.keys if k.kind == "primary"), None)
        if isinstance(query, Rows) and primary and len(query.outputs) == len(table.columns):
            names = tuple(table.by_id(id).name for id in primary.columns)
            plan.append(AddKey(new, self.name("p"), names, "primary"))
        if self.lazy and rng.random() < 0.3:
            part = rng.sample(table.columns, rng.randint(1, len(table.columns)))
            part = Rows(table.name, tuple((c.name, ("col", c.name)) for c in part), self.where(table))
            plan.append(MakeTable(self.name("m"), part, *self.made()))
        plan.append(DropTable(table.name))
        if rng.random() < 0.7:
            plan.append(RenameTable(new, table.name))
        return [*plan, Commit()] if rng.random() < 0.5 else plan
