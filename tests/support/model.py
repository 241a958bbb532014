"""A slow and obvious model of transactions that change rows and schemas.

A transaction is a list of what it has done: rows put (`Put`) and schemas changed (`Changed`). What it reads
is that list, done over a committed state: the newest one at the start of its statement, or under
REPEATABLE READ the one of its first statement. What it commits is the same list, done over the newest
state. So a schema change applies to the rows that are committed when it commits, and rows that were
written under an older schema are carried over, without a word about scans, capture or flips.

    committed   S0 ──── S1 ──── S2                       S1: another session adds column d = v * 2
                 │               │
    T begins ────┘               └── S2 = [put 1|11, in version 0] over S1 = 1|11|22
    and puts 1|11

Where the answer is not determined (which of two waiting sessions goes first), the model has several
`World`s, and each answer of the server rules some of them out. A history is wrong when none is left.
Where the server may refuse what the model could do, that world has an allowance with a name; they are
counted:

`deadlock`          40P01, and only while another session waits
`followed`          40001 at the commit of rows of a table that has gone, though they could follow into its copies,
                    or has moved
`owner of units`    40001 of a transaction that changes rows of groups, joins or unions of its own, if not before its
                    commit; the statement before may have met rows that have gone
`new parent`        40001 at the commit of a transaction that changed keys of a table that has become a parent
`told early`        what a commit is to fail with, at a statement before it
`older schema`      what violates a constraint that the table had when a statement began, and lost while it waited
`not lazily`        0A000 of a table that is made lazily, and of what the transaction that makes it does besides
`at its snapshot`   what the newest rows violate, or only those of the snapshot, under REPEATABLE READ; and 40001
                    where others have held the table's schema since, or that of a parent that is told

The model holds the server to one more thing that no result shows: two open transactions never have
written the same row, and never have changed the schema of the same table (`World.held_apart`).
"""

import itertools
import math
from collections import Counter
from dataclasses import dataclass, field, replace

from . import expressions
from .changes import Change
from .expressions import literal, value
from .tables import TEXT, Failure, NotModelled, State, type_of

IDS = itertools.count(1)
SERIALIZATION, DEADLOCK = "40001", "40P01"
MISSING = {"42P01", "42703", "42704"}


# Statements that are no schema changes ------------------------------------------------------------

@dataclass(frozen=True)
class Begin:
    repeatable: bool = False

    def sql(self):
        return "begin isolation level repeatable read" if self.repeatable else "begin"


@dataclass(frozen=True)
class Commit:
    def sql(self):
        return "commit"


@dataclass(frozen=True)
class Rollback:
    def sql(self):
        return "rollback"


@dataclass(frozen=True)
class Savepoint:
    name: str

    def sql(self):
        return f"savepoint {self.name}"


@dataclass(frozen=True)
class RollbackTo:
    name: str

    def sql(self):
        return f"rollback to {self.name}"


@dataclass(frozen=True)
class Release:
    name: str

    def sql(self):
        return f"release {self.name}"


def filtered(where):
    return f" where {expressions.sql(where)}" if where else ""


@dataclass(frozen=True)
class Select:
    table: str
    where: tuple = None

    def sql(self):
        return f"select * from {self.table}{filtered(self.where)}"


def settable(table, name):
    """A column that a statement gives a value."""
    column = table.column(name)
    if column.generated:
        raise Failure("428C9")
    return column


def assigned(column, v):
    """A value as a column takes it; its type may be another than when the statement was made."""
    if v is None or (column.type == TEXT) == isinstance(v, str):
        return v
    if column.type == TEXT:
        return str(v)
    raise Failure("22P02")


@dataclass(frozen=True)
class Insert:
    table: str
    values: tuple  # of (column, value)

    def sql(self):
        names = ", ".join(name for name, _ in self.values)
        values = ", ".join(literal(v) for _, v in self.values)
        return f"insert into {self.table} ({names}) values ({values}) returning *"

    def row(self, table):
        row = {c.id: c.default for c in table.columns}
        for name, v in self.values:
            column = settable(table, name)
            row[column.id] = assigned(column, v)
        return table.completed(row)


@dataclass(frozen=True)
class Update:
    table: str
    sets: tuple  # of (column, expression)
    where: tuple = None

    def sql(self):
        sets = ", ".join(f"{name} = {expressions.sql(e)}" for name, e in self.sets)
        return f"update {self.table} set {sets}{filtered(self.where)} returning *"

    def changed(self, table, row):
        new = dict(row)
        for name, e in self.sets:
            column = settable(table, name)
            if e[0] != "lit" and (type_of(e, table) == TEXT) > (column.type == TEXT):
                raise Failure("42804")
            new[column.id] = assigned(column, value(table.resolve(e), row))
        return table.completed(new)


@dataclass(frozen=True)
class Delete:
    table: str
    where: tuple = None

    def sql(self):
        return f"delete from {self.table}{filtered(self.where)} returning *"

    def changed(self, table, row):
        return None


# What a transaction has done ----------------------------------------------------------------------

class Refused(Exception):
    """What a transaction wrote has no place any more: 40001."""


@dataclass(frozen=True)
class Put:
    """Rows of a table as they are from now on (None: gone), as its version `version` has them."""
    table: int
    epoch: int
    version: int
    defined: int
    rows: dict

    def on(self, state, lenient):
        try:
            return self.follow(state) if self.table in state.gone else self.place(state)
        except Refused:
            if lenient:
                return state
            raise

    def place(self, state):
        table = state.tables[self.table]
        if table.epoch != self.epoch:
            raise Refused
        rows = {rid: table.carried(row, self.version) for rid, row in self.rows.items()}
        return state.with_table(with_rows(table, rows))

    def follow(self, state):
        ways = state.gone[self.table]
        if None in ways or not any(state.leads(way[0]) for way in ways):
            raise Refused
        for id, epoch, lineage, made, was in ways:
            if epoch != self.epoch:
                raise Refused
            rows = {}
            for rid, row in self.rows.items():
                for step in lineage[self.version:]:
                    row = row and step(row)
                row = row and made(row)
                # Who has changed nothing that the copy has, changes nothing there.
                if row != was.get(("c", rid)) or (id, rid) in state.followed:
                    rows["c", rid] = row
            state = replace(state, followed=state.followed | {(id, rid) for _, rid in rows})
            if id in state.tables:
                table = state.tables[id]
                rows = {rid: table.carried(row, 0) for rid, row in rows.items()}
                state = state.with_table(with_rows(table, rows))
            elif state.leads(id):
                state = Put(id, 0, 0, self.defined, rows).follow(state)
        return state


def with_rows(table, rows):
    """The table with some rows put; one that was not there and is not to be there is nothing."""
    kept = {rid: row for rid, row in (table.rows | rows).items() if row is not None}
    return replace(table, rows=kept)


def with_rows_in(state, id, rows):
    return state.with_table(with_rows(state.tables[id], rows))


@dataclass(frozen=True)
class Written:
    """The last that was written of a row: in which state it is committed, and under which version."""
    at: int
    version: int
    row: dict


@dataclass(frozen=True)
class Changed:
    """A schema change, by the table's id and the ids that it gave."""
    change: Change
    table: int
    ids: tuple
    locks: frozenset
    told: frozenset  # Parents that it may have had to tell.

    def on(self, state, lenient):
        return self.change.change(state, state.tables.get(self.table), self.ids)


@dataclass(frozen=True)
class Doomed:
    """The transaction has met rows of units that have changed: it cannot commit."""

    def on(self, state, lenient):
        if lenient:
            return state
        raise Refused


def makes_lazily(statement):
    """Whether it makes a table, or a column, of which the rows follow."""
    return getattr(statement, "lazily", None)


def may_make_later(statement):
    """The same, of one that may also do it before the commit."""
    return makes_lazily(statement) or getattr(statement, "auto", False)


def done(work, state, lenient=False):
    """A transaction's work, done over a committed state."""
    for piece in work:
        state = piece.on(state, lenient)
    return state


@dataclass(frozen=True)
class Transaction:
    explicit: bool
    repeatable: bool = False
    snapshot: int = None
    sent: int = 0  # The newest state when the statement was sent that is under way.
    work: tuple = ()
    savepoints: tuple = ()  # of (name, length of the work)
    failed: bool = False

    def locks(self):
        return {id for piece in self.work if isinstance(piece, Changed) for id in piece.locks}

    def told(self):
        return {id for piece in self.work if isinstance(piece, Changed) for id in piece.told}

    def changes_schema(self):
        return any(isinstance(piece, Changed) for piece in self.work)

    def makes_lazily(self):
        """Whether it makes a table so, or moves one."""
        return bool(self.moved_lazily()) or any(makes_lazily(piece.change) for piece in self.made().values())

    def may_make_later(self):
        """Whether it makes a table so, or may."""
        return any(may_make_later(piece.change) for piece in self.made().values())

    def made(self):
        """The tables it makes of others."""
        return {p.ids[-1]: p for p in self.work
                if isinstance(p, Changed) and hasattr(p.change, "query")}

    def moved_lazily(self):
        """The tables whose rows follow to another place."""
        return {p.table for p in self.work if isinstance(p, Changed)
                and hasattr(p.change, "method") and makes_lazily(p.change)}

    def rows(self):
        """The rows that nobody else may write: those it has put, and those that they are copies of."""
        made = self.made()
        held = set()
        for piece in self.work:
            if isinstance(piece, Put):
                for rid in piece.rows:
                    id = piece.table
                    held.add((id, rid))
                    while id in made and isinstance(rid, tuple) and rid[0] == "c":
                        [id], rid = made[id].locks, rid[1]
                        held.add((id, rid))
        return held


# Answers ------------------------------------------------------------------------------------------

@dataclass(frozen=True)
class Answer:
    """What a statement comes to: a command tag, or names and rows, or one of some SQLSTATEs."""
    tag: str = None
    names: tuple = None
    rows: tuple = ()
    states: frozenset = frozenset()
    allowance: str = None

    def fits(self, outcome):
        if outcome[0].startswith("ERROR"):
            return outcome[0].split()[1].rstrip(":") in self.states
        if self.states:
            return False
        if self.names is None:
            return self.tag is None or outcome[0] == self.tag
        return outcome[1] == f"({', '.join(self.names)})" and sorted(outcome[2:]) == sorted(self.rows)


def rows_of(table, rows, **more):
    return Answer(names=tuple(table.names()), rows=tuple(table.texts(rows)), **more)


def error(*states, allowance=None):
    return Answer(states=frozenset(states), allowance=allowance)


# Worlds -------------------------------------------------------------------------------------------

@dataclass(frozen=True)
class World:
    """What may be the case. `written` has the last that was written (`Written`) of rows, by table and row;
    `locked` in which state a table's schema was last held by a transaction that has committed."""
    states: tuple = (State(),)
    written: dict = field(default_factory=dict)
    transactions: dict = field(default_factory=dict)
    locked: dict = field(default_factory=dict)
    allowances: tuple = ()

    @property
    def newest(self):
        return self.states[-1]

    def with_transaction(self, session, transaction):
        others = {k: v for k, v in self.transactions.items() if k != session}
        if transaction is not None:
            others[session] = transaction
        return replace(self, transactions=others)

    def sent(self, session, statement):
        """A session begins a statement."""
        transaction = self.transactions.get(session) or Transaction(explicit=False)
        now = len(self.states) - 1
        snapshot = transaction.snapshot
        if transaction.repeatable and snapshot is None and not is_control(statement):
            snapshot = now
        return self.with_transaction(session, replace(transaction, sent=now, snapshot=snapshot))

    def view(self, session):
        """What a session's next statement sees."""
        transaction = self.transactions.get(session) or Transaction(explicit=False)
        at = transaction.snapshot if transaction.snapshot is not None else len(self.states) - 1
        return done(transaction.work, self.states[at], lenient=True)

    def ended(self, session, statement, outcome, others_wait):
        """The worlds in which the session's statement ends like this."""
        for answer, world in self.answers(session, statement, others_wait):
            if answer.fits(outcome):
                if answer.allowance:
                    world = replace(world, allowances=(*world.allowances, answer.allowance))
                yield world

    def answers(self, session, statement, others_wait):
        """What may be answered, and the world that it is then."""
        transaction = self.transactions[session]
        if isinstance(statement, (Begin, Commit, Rollback, Savepoint, RollbackTo, Release)):
            yield from self.control(session, transaction, statement)
        elif transaction.failed:
            yield error("25P02"), self
        else:
            for answer, work in self.statement(session, transaction, statement):
                if answer.states:
                    yield answer, self.failing(session)
                elif transaction.explicit:
                    yield answer, self.with_transaction(session, replace(transaction, work=work))
                else:
                    for verdict, world in self.commit(session, replace(transaction, work=work)):
                        yield (verdict if verdict.states else answer), world
        if others_wait:
            lost = self.failing(session)
            if isinstance(statement, Commit):
                lost = self.with_transaction(session, None)
            yield error(DEADLOCK, allowance="deadlock"), lost

    def failing(self, session):
        """After an error: what was done since the last savepoint is taken back, and its rows let go."""
        transaction = self.transactions[session]
        if not transaction.explicit:
            return self.with_transaction(session, None)
        kept = transaction.savepoints[-1][1] if transaction.savepoints else 0
        failed = replace(transaction, failed=True, work=transaction.work[:kept])
        return self.with_transaction(session, failed)

    def control(self, session, transaction, statement):
        def becomes(**what):
            return self.with_transaction(session, replace(transaction, **what))

        if isinstance(statement, Begin):
            if transaction.explicit:
                raise NotModelled("begin in a transaction")
            yield Answer("BEGIN"), becomes(explicit=True, repeatable=statement.repeatable)
        elif not transaction.explicit:
            raise NotModelled("the end of no transaction")
        elif isinstance(statement, Rollback):
            yield Answer("ROLLBACK"), self.with_transaction(session, None)
        elif isinstance(statement, Commit):
            if transaction.failed:
                yield Answer("ROLLBACK"), self.with_transaction(session, None)
            else:
                yield from self.commit(session, transaction)
        elif transaction.failed and not isinstance(statement, RollbackTo):
            yield error("25P02"), self
        elif isinstance(statement, Savepoint):
            point = (statement.name, len(transaction.work))
            yield Answer("SAVEPOINT"), becomes(savepoints=(*transaction.savepoints, point))
        else:
            points = transaction.savepoints
            at = max((i for i, p in enumerate(points) if p[0] == statement.name), default=None)
            if at is None:
                yield error("3B001"), self.failing(session)
            elif isinstance(statement, Release):
                yield Answer("RELEASE"), becomes(savepoints=points[:at])
            else:
                yield Answer("ROLLBACK"), becomes(
                    savepoints=points[:at + 1], work=transaction.work[:points[at][1]], failed=False)

    # Statements of rows and of schemas: answers, and the transaction's work afterwards.

    def statement(self, session, transaction, statement):
        if not transaction.repeatable and self.is_lost(transaction.work, self.states[transaction.sent]):
            yield error(SERIALIZATION), transaction.work
            return
        yield from self.told_early(transaction)
        if makes_lazily(statement) or transaction.makes_lazily() and not isinstance(statement, Select):
            states = {"0A000"}
            if self.is_own_lazy(session, transaction, statement):
                # It writes nothing there; what its row violates may be found before.
                states |= {"23502", "23505", "23514"}
            yield error(*states, allowance="not lazily"), transaction.work
        try:
            if isinstance(statement, Change):
                yield from self.change(session, transaction, statement)
            elif isinstance(statement, Select):
                at = transaction.snapshot if transaction.repeatable else transaction.sent
                table = done(transaction.work, self.states[at], lenient=True).named(statement.table)
                rows = [row for row in table.rows.values() if table.holds(statement.where, row)]
                yield rows_of(table, rows), transaction.work
            else:
                for start in self.starts(transaction, statement):
                    yield from self.write(session, transaction, statement, start)
        except Failure as failure:
            waited = isinstance(statement, Change) and transaction.sent < len(self.states) - 1
            # Of several names that have gone while it waited, it may miss any.
            states = MISSING if waited and failure.states & MISSING else failure.states
            yield error(*states), transaction.work

    def is_own_lazy(self, session, transaction, statement):
        """Whether a transaction writes to a table that it makes lazily, or moves."""
        lazily = {id for id, made in transaction.made().items() if makes_lazily(made.change)}
        lazily |= transaction.moved_lazily()
        return not isinstance(statement, Change) and any(
            table.name == statement.table and table.id in lazily
            for table in self.view(session).tables.values())

    def is_lost(self, work, state):
        """Whether rows that were put have no place in a state: whoever looks does not meet them again."""
        try:
            done([piece for piece in work if not isinstance(piece, Doomed)], state)
        except Refused:
            return True
        return False

    def told_early(self, transaction):
        """A statement may fail with what its transaction's commit would fail with."""
        try:
            states = done(transaction.work, self.newest).violations()
        except Refused:
            states = {SERIALIZATION}
        if states:
            yield error(*states, allowance="told early"), transaction.work
        for allowance in self.allowed_refusals(transaction):
            yield error(SERIALIZATION, allowance=allowance), transaction.work

    def moved_units(self, transaction, table, start):
        """Whether a transaction makes the table, not by copying rows, of tables that have changed since."""
        made = transaction.made()
        if table.id not in made:
            return False
        sources = made[table.id].locks
        return any(id in sources and last.at > start for (id, _), last in self.written.items()) or any(
            self.moved_units(transaction, self.newest.tables[id], start)
            for id in sources if id in self.newest.tables)

    def starts(self, transaction, statement):
        """The states that a writing statement may begin with: it runs again when it has waited, and
        its table has another schema by then."""
        if transaction.repeatable:
            return [transaction.snapshot]

        def version(at):
            try:
                table = done(transaction.work, self.states[at], lenient=True).named(statement.table)
                return table.id, table.defined
            except Failure:
                return None
        newest = len(self.states) - 1
        if len({version(at) for at in range(transaction.sent, newest + 1)}) == 1:
            return [transaction.sent]
        return range(transaction.sent, newest + 1)

    def write(self, session, transaction, statement, start):
        table = done(transaction.work, self.states[start], lenient=True).named(statement.table)
        now = done(transaction.work, self.newest, lenient=True).tables.get(table.id)
        moved = now is None or (now.defined, now.epoch) != (table.defined, table.epoch)
        conflict, stale = False, {}
        if isinstance(statement, Insert):
            rows = {next(IDS): statement.row(table)}
        else:
            rows, gone = {}, []
            for rid, row in table.rows.items():
                if not table.holds(statement.where, row):
                    continue
                stale[rid] = (row, statement.changed(table, row))
                last = self.last_written(transaction, table.id, rid)
                if last and last.at > start and transaction.repeatable:
                    conflict = True
                    continue
                if moved and last and last.at > start:
                    if last.row is not None and last.version > len(table.lineage):
                        return  # Not from here: the row has no newest version under this schema.
                    row = last.row and table.carried(last.row, last.version)
                    if row is None or not table.holds(statement.where, row):
                        continue
                elif not moved and not transaction.repeatable:
                    row = now.rows.get(rid)
                    if row is None or not table.holds(statement.where, row):
                        continue
                rows[rid] = statement.changed(table, row)
                gone.append(row)
            if not rows:
                statement.changed(table, {c.id: None for c in table.columns})  # Its names are looked up.
        if not conflict and self.moved_units(transaction, table, start):
            yield error(SERIALIZATION, allowance="owner of units"), transaction.work
            if stale:
                # Those that it deletes are returned as they were.
                returned = [old if new is None else new for old, new in stale.values()]
                changed = {rid: new for rid, (_, new) in stale.items()}
                put = Put(table.id, table.epoch, len(table.lineage), table.defined, changed)
                yield (rows_of(table, returned, allowance="owner of units"),
                       (*transaction.work, put, Doomed()))
        if not rows and not conflict:
            yield rows_of(table, []), transaction.work
            return
        put = Put(table.id, table.epoch, len(table.lineage), table.defined, rows)
        returned = gone if isinstance(statement, Delete) else rows.values()
        answer, work = rows_of(table, returned), (*transaction.work, put)
        # Where a row of its is held or changed, it may have met with another error before.
        passes = not conflict and self.held_apart(session, put)
        if conflict:
            yield error(SERIALIZATION), transaction.work
            # A row is checked before it is seen that it has changed.
            seen = done(transaction.work, self.states[start], lenient=True)
            changed = {rid: new for rid, (_, new) in stale.items()}
            if states := with_rows_in(seen, table.id, changed).violations():
                yield error(*states), transaction.work
        if moved:
            # Its rows are checked under both schemas, and may be refused under either.
            if passes:
                yield answer, work
            states = self.violated(work, self.newest) | self.violated(work, self.states[start])
            older = replace(self.newest, tables=self.newest.tables | {table.id: table})
            if more := with_rows_in(older, table.id, rows).violations() - states:
                yield error(*more, allowance="older schema"), transaction.work
        else:
            before = self.violated(transaction.work, self.newest)
            states = self.violated(work, self.newest)
            if passes and (not states or before):
                yield answer, work
        if states:
            yield error(*states), transaction.work

    def last_written(self, transaction, table, rid):
        """By others: of a row of a copy that the transaction itself makes, what it is a copy of."""
        made = transaction.made()
        while table in made and isinstance(rid, tuple) and rid[0] == "c":
            [table], rid = made[table].locks, rid[1]
        return self.written.get((table, rid))

    def violated(self, work, state):
        return done(work, state, lenient=True).violations()

    def change(self, session, transaction, statement):
        at = transaction.snapshot if transaction.repeatable else len(self.states) - 1
        view = done(transaction.work, self.states[at], lenient=True)
        locks = frozenset(statement.locks(view))
        newest = done(transaction.work, self.newest, lenient=True)
        if transaction.repeatable and any(
                self.locked.get(id, 0) > at for id in locks | statement.relatives(view)):
            # It may have waited for somebody who has left the table as it was; or has to tell another.
            yield error(SERIALIZATION, allowance="at its snapshot"), transaction.work
        if any(id not in newest.tables or newest.tables[id].defined != view.tables[id].defined
               for id in locks):
            # Somebody else has changed it since the snapshot.
            yield error(SERIALIZATION), transaction.work
            return
        table = statement.of(view)
        told = frozenset(statement.relatives(view))
        changed = Changed(statement, table, tuple(next(IDS) for _ in range(12)), locks, told)
        if changed.on(view, False) == view:  # May fail.
            yield Answer(), transaction.work  # Nothing to be done, nobody to wait for.
        others = [t for name, t in self.transactions.items() if name != session]
        if any(locks & other.locks() for other in others):
            return  # It has to wait, and has not.
        work = (*transaction.work, changed)
        before = self.violated(transaction.work, self.newest)
        states = self.violated(work, self.newest)
        if transaction.repeatable:
            there = self.violated(work, self.states[at])
            if (states or there) and not (states and there):
                yield Answer(allowance="at its snapshot"), work
                yield error(*states, *there, allowance="at its snapshot"), transaction.work
                return
        if not states or before:
            yield Answer(), work
        if states:
            yield error(*states), transaction.work

    def held_apart(self, session, put):
        """Whether nobody else has written these rows and not ended."""
        mine = Transaction(explicit=False, work=(*self.transactions[session].work, put)).rows()
        others = (t.rows() for name, t in self.transactions.items() if name != session)
        return not any(mine & theirs for theirs in others)

    def commit(self, session, transaction):
        """What a commit may come to: one answer, but for the allowances."""
        without = self.with_transaction(session, None)
        done_tag = Answer("COMMIT")
        if not transaction.work:
            yield done_tag, without
            return
        try:
            state = done(transaction.work, self.newest)
        except Refused:
            yield error(SERIALIZATION), without
            return
        for allowance in self.allowed_refusals(transaction):
            yield error(SERIALIZATION, allowance=allowance), without
        if states := state.violations():
            yield error(*states), without
            return
        now, written = len(self.states), dict(self.written)
        for piece in transaction.work:
            if isinstance(piece, Put):
                for rid, row in piece.rows.items():
                    written[piece.table, rid] = Written(now, piece.version, row)
                    for id, rid in self.newest.copies(piece.table, rid):
                        copy, before = (s.tables[id].rows.get(rid) if id in s.tables else None
                                        for s in (state, self.newest))
                        if copy == before:
                            continue
                        if (id, rid) in self.written:
                            return  # Another has written to the copy since: refused.
                        version = len(state.tables[id].lineage) if id in state.tables else 0
                        written[id, rid] = Written(now, version, copy)
        held = transaction.locks() | transaction.told()
        locked = self.locked | {id: max(now, self.locked.get(id, 0)) for id in held}
        # It is held once more when all its rows are there, whenever that is.
        lazily = {id for id, made in transaction.made().items() if may_make_later(made.change)}
        locked |= dict.fromkeys(lazily | transaction.moved_lazily(), math.inf)
        yield done_tag, replace(
            without, states=(*self.states, state.settled()), written=written, locked=locked)

    def allowed_refusals(self, transaction):
        puts = [piece for piece in transaction.work if isinstance(piece, Put) and piece.rows]
        if any(piece.table in self.newest.gone or self.has_moved(piece) for piece in puts):
            yield "followed"
        made = transaction.made()
        if any(p.table in made and any(rid[0] != "c" for rid in p.rows if isinstance(rid, tuple))
               for p in puts):
            yield "owner of units"
        if any(self.has_lost_keys(piece) for piece in puts):
            yield "new parent"

    def has_moved(self, put):
        """Whether the table's rows have gone elsewhere since."""
        table = self.newest.tables.get(put.table)
        return table is not None and put.defined < table.moved

    def has_lost_keys(self, put):
        """Whether rows were written when fewer tables referred to their keys, and have lost them."""
        table = self.newest.tables.get(put.table)
        if table is None or table.defined == put.defined:
            return False
        keys = {r[3] for t in self.newest.tables.values() for r in t.references if r[2] == table.id}
        for rid, row in put.rows.items():
            before, after = table.rows.get(rid), table.carried(row, put.version)
            if before and any(after is None or before[key] != after[key] for key in keys):
                return True
        return False


def is_control(statement):
    return isinstance(statement, (Begin, Commit, Rollback, Savepoint, RollbackTo, Release))


def counted(worlds):
    """How often each allowance was used, at least, in any of the worlds."""
    return min((Counter(world.allowances) for world in worlds), key=lambda c: c.total())
