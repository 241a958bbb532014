"""Schema changes of the model: each is SQL, and a function from one `State` to another.

`change(state, table, ids)` gets the table as it is and ids that nobody else has; it is called once when the
statement runs, and again over newer rows for all that the transaction reads and commits afterwards.
"""

import re
from dataclasses import dataclass, replace

from . import expressions
from .expressions import literal, value
from .tables import TEXT, Column, Failure, Key, NotModelled, Rows, Table, type_of



def plain(sql):
    """A statement as PostgreSQL has it."""
    sql = re.sub(r"\b(using|method) (disk|memory)\b", r"\1 heap", sql)
    return re.sub(r"set froglet.migration = \w+; | with \(migration = \w+\)", "", sql)


def in_mode(lazily, sql):
    """A statement that computes a column when it is committed, or before; the session stays so."""
    return sql if lazily is None else f"set froglet.migration = {'lazy' if lazily else 'auto'}; {sql}"


@dataclass(frozen=True)
class Change:
    """Changes `table`."""
    table: str

    def locks(self, state):
        """The tables, of which one transaction at a time can change the schema."""
        return {self.of(state)}

    def of(self, state):
        """The table that it changes, by id."""
        return state.named(self.table).id

    def relatives(self, state):
        """The parents of the tables that it changes: those may have to be told of what goes."""
        return {reference[2] for id in self.locks(state) for reference in state.tables[id].references}


@dataclass(frozen=True)
class AddColumn(Change):
    name: str
    type: str
    default: object = None
    not_null: bool = False
    generated: tuple = None
    lazily: bool = None

    def sql(self):
        words = f"alter table {self.table} add column {self.name} {self.type}"
        if self.generated:
            words += f" generated always as ({expressions.sql(self.generated)}) stored"
        elif self.default is not None:
            words += f" default {literal(self.default)}"
        return in_mode(self.lazily, words + (" not null" if self.not_null else ""))

    def change(self, state, table, ids):
        if self.name in table.names():
            raise Failure("42701")
        generated = self.generated and table.resolve(self.generated)
        if generated and any(c.generated and c.id in expressions.columns(generated)
                             for c in table.columns):
            raise NotModelled("a generated column of another")
        if generated and (type_of(self.generated, table) == TEXT) != (self.type == TEXT):
            raise NotModelled("a generated column of another type")
        id, default = ids[0], self.default
        column = Column(id, self.name, self.type, self.not_null, default, generated)

        def step(row):
            return row | {id: value(generated, row) if generated else default}
        return state.with_table(
            table.changed(ids[1], step, columns=(*table.columns, column)))


@dataclass(frozen=True)
class DropColumn(Change):
    column: str

    def sql(self):
        return f"alter table {self.table} drop column {self.column}"

    def change(self, state, table, ids):
        id = table.column(self.column).id
        if any(c.generated and id in expressions.columns(c.generated) for c in table.columns):
            raise Failure("2BP01")
        if any(r[3] == id and r[2] == table.id for t in state.tables.values() for r in t.references):
            raise Failure("2BP01")
        if len(table.columns) == 1:
            raise NotModelled("a table without columns")
        return state.with_table(table.changed(
            ids[0], lambda row: {k: v for k, v in row.items() if k != id},
            columns=tuple(c for c in table.columns if c.id != id),
            keys=tuple(k for k in table.keys if id not in k.columns),
            checks=tuple(c for c in table.checks if id not in expressions.columns(c[1])),
            references=tuple(r for r in table.references if r[1] != id)))


@dataclass(frozen=True)
class RenameColumn(Change):
    column: str
    name: str

    def sql(self):
        return f"alter table {self.table} rename column {self.column} to {self.name}"

    def change(self, state, table, ids):
        old = table.column(self.column)
        if self.name in table.names():
            raise Failure("42701")
        columns = tuple(replace(c, name=self.name) if c is old else c for c in table.columns)
        return state.with_table(table.changed(ids[0], columns=columns))


@dataclass(frozen=True)
class RenameTable(Change):
    name: str

    def sql(self):
        return f"alter table {self.table} rename to {self.name}"

    def change(self, state, table, ids):
        if state.has(self.name):
            raise Failure("42P07")
        return state.with_table(table.changed(ids[0], name=self.name))


@dataclass(frozen=True)
class SetMethod(Change):
    """Its rows go elsewhere."""
    method: str
    lazily: bool = None

    def sql(self):
        return in_mode(self.lazily, f"alter table {self.table} set access method {self.method}")

    def locks(self, state):
        table = state.named(self.table)
        if table.method == self.method:
            return set()
        return {table.id} | {child.id for child in state.children(table.id)}

    def relatives(self, state):
        return {reference[2] for reference in state.named(self.table).references}

    def change(self, state, table, ids):
        if table.method == self.method:
            return state
        told = {r[2] for r in table.references} | {child.id for child in state.children(table.id)}
        for id, defined in zip(told - {table.id}, ids[1:]):
            state = state.with_table(state.tables[id].changed(defined))
        return state.with_table(table.changed(ids[0], method=self.method, moved=ids[0]))


@dataclass(frozen=True)
class AlterType(Change):
    column: str
    type: str
    using: tuple
    lazily: bool = None

    def sql(self):
        return in_mode(self.lazily, f"alter table {self.table} alter column {self.column}"
                                    f" type {self.type} using {expressions.sql(self.using)}")

    def change(self, state, table, ids):
        old, id, using = table.column(self.column), ids[0], table.resolve(self.using)
        if table.involves(old.id) or old.generated or old.default is not None:
            raise NotModelled("a new type where expressions depend on it")
        if any(old.id in (r[1], r[3]) for t in state.tables.values() for r in t.references):
            raise NotModelled("a new type of a foreign key")
        if (type_of(self.using, table) == TEXT) != (self.type == TEXT):
            raise NotModelled("USING of another type")
        new = replace(old, id=id, type=self.type)
        return state.with_table(table.changed(
            ids[1], lambda row: {k: v for k, v in row.items() if k != old.id} | {id: value(using, row)},
            columns=tuple(new if c is old else c for c in table.columns),
            keys=tuple(replace(k, columns=tuple(id if c == old.id else c for c in k.columns))
                       for k in table.keys)))


@dataclass(frozen=True)
class SetNotNull(Change):
    column: str
    not_null: bool

    def sql(self):
        word = "set" if self.not_null else "drop"
        return f"alter table {self.table} alter column {self.column} {word} not null"

    def change(self, state, table, ids):
        old = table.column(self.column)
        if not self.not_null and any(k.kind == "primary" and old.id in k.columns for k in table.keys):
            raise Failure("42P16")
        if old.not_null == self.not_null:
            return state
        columns = tuple(replace(c, not_null=self.not_null) if c is old else c for c in table.columns)
        return state.with_table(table.changed(ids[0], columns=columns))


@dataclass(frozen=True)
class AddCheck(Change):
    name: str
    check: tuple

    def sql(self):
        return f"alter table {self.table} add constraint {self.name} check ({expressions.sql(self.check)})"

    def change(self, state, table, ids):
        check = table.resolve(self.check)
        for _, left, right in [self.check]:
            if type_of(left, table) == TEXT or type_of(right, table) == TEXT:
                raise NotModelled("a check of texts")
        return state.with_table(table.changed(ids[0], checks=(*table.checks, (self.name, check))))


@dataclass(frozen=True)
class AddKey(Change):
    name: str
    columns: tuple
    kind: str

    def sql(self):
        names = ", ".join(self.columns)
        if self.kind in ("index", "unique index"):
            return f"create {self.kind} {self.name} on {self.table} ({names})"
        kind = "primary key" if self.kind == "primary" else "unique"
        return f"alter table {self.table} add constraint {self.name} {kind} ({names})"

    def change(self, state, table, ids):
        columns = tuple(table.column(name).id for name in self.columns)
        if self.kind == "primary" and any(k.kind == "primary" for k in table.keys):
            raise Failure("42P16")
        defined = table.columns
        if self.kind == "primary":
            defined = tuple(replace(c, not_null=True) if c.id in columns else c for c in defined)
        key = Key(self.name, columns, self.kind)
        return state.with_table(table.changed(ids[0], keys=(*table.keys, key), columns=defined))


@dataclass(frozen=True)
class AddForeignKey(Change):
    name: str
    column: str
    parent: str
    parent_column: str

    def sql(self):
        return (f"alter table {self.table} add constraint {self.name} foreign key ({self.column})"
                f" references {self.parent} ({self.parent_column})")

    def change(self, state, table, ids):
        column, parent = table.column(self.column), state.named(self.parent)
        target = parent.column(self.parent_column)
        if not any(k.columns == (target.id,) and k.kind in ("primary", "unique") for k in parent.keys):
            if any(k.columns == (target.id,) and k.unique for k in parent.keys):
                raise NotModelled("a foreign key to a unique index")
            raise Failure("42830")
        if TEXT in (pair := {column.type, target.type}) and pair != {TEXT}:
            raise NotModelled("a foreign key of text and numbers")
        if parent.chained:
            raise NotModelled("a foreign key to a table that is being made")
        if self.is_first(table, parent):
            state = state.with_table(parent.changed(ids[1]))
        references = (*table.references, (self.name, column.id, parent.id, target.id))
        return state.with_table(state.tables[table.id].changed(ids[0], references=references))

    def is_first(self, table, parent):
        """The parent is told of each of its children once."""
        return all(reference[2] != parent.id for reference in table.references)

    def locks(self, state):
        table, parent = state.named(self.table), state.named(self.parent)
        return {table.id, parent.id} if self.is_first(table, parent) else {table.id}


@dataclass(frozen=True)
class DropConstraint(Change):
    name: str

    def sql(self):
        return f"alter table {self.table} drop constraint {self.name}"

    def change(self, state, table, ids):
        key = next((k for k in table.keys if k.name == self.name and k.constraint), None)
        kept = {
            "keys": tuple(k for k in table.keys if k is not key),
            "checks": tuple(c for c in table.checks if c[0] != self.name),
            "references": tuple(r for r in table.references if r[0] != self.name),
        }
        if sum(map(len, kept.values())) == sum(len(getattr(table, name)) for name in kept):
            raise Failure("42704")
        if key and any(r[2] == table.id and (r[3],) == key.columns
                       for t in state.tables.values() for r in t.references):
            raise Failure("2BP01")
        return state.with_table(table.changed(ids[0], **kept))


@dataclass(frozen=True)
class DropIndex(Change):
    name: str

    def sql(self):
        return f"drop index {self.name}"

    def change(self, state, table, ids):
        key = next((k for k in table.keys if k.name == self.name), None)
        if key is None:
            raise Failure("42704")
        if key.constraint:
            raise Failure("2BP01")
        return state.with_table(
            table.changed(ids[0], keys=tuple(k for k in table.keys if k is not key)))

    def of(self, state):
        for table in state.tables.values():
            if any(k.name == self.name for k in table.keys):
                return table.id
        raise Failure("42704")


@dataclass(frozen=True)
class Truncate(Change):
    def sql(self):
        return f"truncate {self.table}"

    def change(self, state, table, ids):
        if any(t.id != table.id for t in state.children(table.id)):
            raise Failure("0A000")
        return state.with_table(replace(table, rows={}, epoch=ids[0], defined=ids[1]))


@dataclass(frozen=True)
class DropTable(Change):
    def sql(self):
        return f"drop table {self.table}"

    def change(self, state, table, ids):
        if any(t.id != table.id for t in state.children(table.id)):
            raise Failure("2BP01")
        tables = {id: t for id, t in state.tables.items() if id != table.id}
        return replace(state, tables=tables, gone=state.gone | {table.id: table.copied})


@dataclass(frozen=True)
class MakeTable(Change):
    """CREATE TABLE AS. `lazily`: its rows come after the commit, if the server can do that. `auto`: or before it, if
    the transaction needs them there."""
    query: object
    lazily: bool = False
    auto: bool = False

    def sql(self):
        mode = "lazy" if self.lazily else "auto" if self.auto else "eager"
        return f"create table {self.table} with (migration = {mode}) as {self.query.sql()}"

    def of(self, state):
        return None

    def locks(self, state):
        return {state.named(name).id for name in self.query.sources}

    def change(self, state, table, ids):
        if state.has(self.table):
            raise Failure("42P07")
        sources = [state.named(name) for name in self.query.sources]
        columns = self.query.columns(*sources)
        ids, id, defined = ids[:len(columns)], ids[-1], ids[-2]
        new = Table(
            id, self.table, tuple(Column(i, *c) for i, c in zip(ids, columns)),
            rows=self.query.rows(ids, *sources), defined=defined, chained=True)
        kept = []
        for source in sources:
            # What open writers of the source have written follows it into a copy, and nowhere else.
            follows = isinstance(self.query, Rows) and not source.chained
            way = follows and (
                id, source.epoch, source.lineage, self.query.step(source, ids), new.rows) or None
            kept.append(replace(source, copied=(*source.copied, way)))
        return state.with_table(*kept, new)

