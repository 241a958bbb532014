"""Histories: random statements of several sessions, one after the other, held against the model.

One thread sends the statements, so that a history is the same when it is played again, and can be
made shorter. A statement that waits (`froglet.waits` says so) is left to itself; its session gets no
other until it has ended, which it may whenever another statement has. Where two end at once, any
order of them will do.

What cannot be seen in an answer is looked at when the history is over: the contents of each table, each
index against its table, the catalog. And at commits of schema changes, the same SQL is run by PostgreSQL
on a copy of the tables at rest (`Offline`), which knows nothing of the model.
"""

import itertools
import time
from collections import Counter
from dataclasses import replace

import psycopg

from .changes import Change, plain
from .generator import SESSIONS, Generator, Kill, beginning
from .model import Changed, Commit, RollbackTo, Select, World, counted
from .story import ENDS_SECONDS, Session

STATUS = psycopg.pq.TransactionStatus
LOOK_SECONDS = 0.03
MOST_WORLDS = 100


class Wrong(AssertionError):
    """The server does what it must not. `kind` is the same for the same failure of a shorter history."""

    def __init__(self, kind, message):
        super().__init__(message)
        self.kind = kind


class Play:
    """A history on its way."""

    def __init__(self, server, start, offline=None, settings=()):
        self.server, self.start, self.offline, self.settings = server, start, offline, settings
        self.worlds = [World(states=(start,))]
        self.sessions, self.waiting, self.steps, self.told = {}, {}, [], []
        self.counts = Counter()
        self.watcher = server.connect(prepare_threshold=None)
        for sql in emptied(self.watcher) + created(start):
            self.watcher.execute(sql)

    def close(self):
        for session in self.sessions.values():
            session.close()
        self.watcher.close()

    def ready(self):
        return [name for name in SESSIONS if name not in self.waiting]

    def step(self, name, statement):
        """Sends a statement, and hears of all that ends by it."""
        self.steps.append((name, statement))
        if isinstance(statement, Kill):
            return self.kill()
        if name not in self.sessions:
            self.sessions[name] = Session(self.server)
            for setting in self.settings:
                self.sessions[name].connection.execute(f"set {setting}")
        session = self.sessions[name]
        self.worlds = [world.sent(name, statement) for world in self.worlds]
        rest = self.at_rest(name, statement)
        self.told.append((name, statement.sql(), None))
        session.begin(statement.sql())
        self.waiting[name] = statement
        self.settle(grace=isinstance(statement, RollbackTo))
        if name in self.waiting:
            self.told[-1] = (name, statement.sql(), ["waits"])
            self.counts["waits"] += 1
            if isinstance(statement, Select):
                raise Wrong("a reader waits", self.story())
        elif rest and not session.outcome[0].startswith("ERROR"):
            self.offline.compare(self, rest)
            self.counts["offline"] += 1

    def settle(self, grace=False):
        """Waits until each statement has ended, or waits for somebody who has not; then hears of those
        that have ended. They may have ended in another order than they are seen to."""
        deadline = time.monotonic() + ENDS_SECONDS
        not_before = time.monotonic() + (2 * LOOK_SECONDS if grace and len(self.waiting) > 1 else 0)
        while True:
            for name in self.waiting:
                self.sessions[name].ended(LOOK_SECONDS / len(self.waiting))
            at_rest = all(self.is_done(name) or self.waits_for_somebody(name) for name in self.waiting)
            if at_rest and time.monotonic() >= not_before:
                ended = list(filter(self.is_done, self.waiting))
                if ended:
                    self.hear(ended)
                if all(map(self.has_reason, self.waiting)):
                    return
            if time.monotonic() > deadline:
                raise Wrong("hangs", f"no answer within {ENDS_SECONDS} s\n{self.story()}")

    def is_done(self, name):
        return self.sessions[name].done.is_set()

    def holder(self, name):
        """The session for which another one waits, as the server says."""
        pid = self.sessions[name].connection.info.backend_pid
        row = self.watcher.execute(
            "select waits_for from froglet.waits where pid = %s", [pid]).fetchone()
        others = (o for o in self.sessions if self.sessions[o].connection.info.backend_pid == row[0])
        return next(others, None) if row else None

    def waits_for_somebody(self, name):
        """Whether it waits for a session that is itself in the middle of something."""
        other = self.holder(name)
        if other is None or other == name or self.is_done(name):
            return False
        if other in self.waiting and not self.is_done(other):
            return True
        status = self.sessions[other].connection.info.transaction_status
        # After an error what came before the last savepoint is still held.
        kept = any(w.transactions[other].savepoints for w in self.worlds if other in w.transactions)
        return status == STATUS.INTRANS or status == STATUS.INERROR and kept

    def has_reason(self, name):
        """Whether the one that it waits for has done anything, as far as the model knows."""
        other = self.holder(name)
        return not self.is_done(name) and (other in self.waiting or any(
            w.transactions[other].work for w in self.worlds if other in w.transactions))

    def hear(self, ended):
        """What has ended narrows down what may be the case."""
        sender = self.told[-1][0] if self.told[-1][2] is None else None
        for name in sorted(ended, key=lambda name: name != sender):
            outcome, sql = self.sessions[name].outcome, self.waiting[name].sql()
            if name == sender:
                self.told[-1] = (name, sql, outcome)
            else:
                self.told.append((name, "...", outcome))
        worlds = []
        for order in itertools.permutations(ended):
            possible, waiting = self.worlds, dict(self.waiting)
            for name in order:
                statement, outcome = waiting.pop(name), self.sessions[name].outcome
                possible = [
                    after for world in possible
                    for after in world.ended(name, statement, outcome, bool(waiting))]
            worlds += [world for world in possible if world not in worlds]
        if not worlds:
            raise self.wrong(ended)
        self.count(ended)
        self.worlds = worlds[:MOST_WORLDS]
        for name in ended:
            del self.waiting[name]

    def wrong(self, ended):
        said, kind = [], []
        for name in ended:
            statement, outcome = self.waiting[name], self.sessions[name].outcome
            expected = {
                answer for world in self.worlds
                for answer, _ in world.answers(name, statement, len(self.waiting) > len(ended))}
            said.append(f"{name}> {statement.sql()}\n    seen: {outcome}\n    possible: "
                        + "\n              ".join(map(str, expected)))
            kind.append(f"{type(statement).__name__} {outcome[0].split(':')[0]}")
        return Wrong(", ".join(kind), "\n".join(said) + f"\n\n{self.story()}")

    def count(self, ended):
        for name in ended:
            failed = self.sessions[name].outcome[0].startswith("ERROR")
            statement = self.waiting[name]
            before = self.worlds[0].transactions.get(name)
            if isinstance(statement, Commit) and before and before.work and not before.failed:
                what = "schema" if before.changes_schema() else "rows"
                self.counts[f"{what} {'not committed' if failed else 'committed'}"] += 1
                self.counts["made lazily"] += not failed and before.may_make_later()
                self.counts["moved lazily"] += not failed and bool(before.moved_lazily())
            elif isinstance(statement, Change):
                self.counts["change failed" if failed else "changed"] += 1
                self.counts["by pairs"] += any("pair by pair" in notice for notice in self.sessions[name].notices)

    def kill(self):
        self.watcher.close()
        self.server.kill_and_restart()
        for session in self.sessions.values():
            session.close()
        self.sessions.clear()
        self.waiting.clear()
        self.worlds = [replace(world, transactions={}) for world in self.worlds]
        self.watcher = self.server.connect(prepare_threshold=None)
        self.told.append(("server", r"\kill", []))
        self.counts["kills"] += 1

    def finish(self):
        """Ends all transactions, and looks at everything."""
        while True:
            opened = [name for name in self.sessions if name not in self.waiting
                      and any(name in world.transactions for world in self.worlds)]
            if not opened:
                break
            self.step(opened[0], Commit())
        if self.waiting:
            raise Wrong("hangs", f"{list(self.waiting)} wait for nobody\n{self.story()}")
        self.look()
        if self.counts["made lazily"]:
            for name in names_of(self.watcher):
                # All its rows are looked at, and so moved.
                self.watcher.execute(f"alter table {name} add constraint looked_at check (true)")
                self.watcher.execute(f"alter table {name} drop constraint looked_at")
            self.look()

    def look(self):
        """The tables, their indexes and the catalog are those of one world."""
        seen = tables_of(self.watcher)
        for world in self.worlds:
            expected = {t.name: (t.names(), t.contents()) for t in world.newest.tables.values()}
            if seen == expected:
                break
        else:
            raise Wrong("final state", f"seen: {seen}\nexpected: {expected}\n\n{self.story()}")
        self.worlds = [world]
        for table in world.newest.tables.values():
            self.look_up(table)
        described, expected = catalog(self.watcher), modelled_catalog(world.newest)
        if described != expected:
            raise Wrong("catalog", f"seen: {described}\nexpected: {expected}\n\n{self.story()}")

    def look_up(self, table):
        """Every key is found by its index, as often as it is there, and others are not."""
        for key in table.keys:
            names = [table.by_id(id).name for id in key.columns]
            counts = Counter(tuple(row[id] for id in key.columns) for row in table.rows.values())
            nowhere = tuple("x" if table.by_id(id).type == "text" else 999_999 for id in key.columns)
            counts.setdefault(nowhere, 0)
            for values, count in counts.items():
                if None in values:
                    continue
                where = " and ".join(f"{name} = {literal_of(v)}" for name, v in zip(names, values))
                sql = f"select count(*) from (select * from {table.name} where {where}) x"
                found = self.watcher.execute(sql).fetchone()[0]
                if found != count:
                    raise Wrong("index", f"{sql}\n    seen: {found}, expected: {count}\n\n{self.story()}")

    def at_rest(self, name, statement):
        """For a commit of schema changes alone: the tables as they are, and the changes."""
        if self.offline is None or len(self.worlds) > 1 or self.waiting:
            return None
        [world] = self.worlds
        transaction = world.transactions[name]
        if isinstance(statement, Commit):
            work = transaction.work
            if transaction.failed or any(not isinstance(piece, Changed) for piece in work):
                return None
            changes = [plain(piece.change.sql()) for piece in work]
        elif isinstance(statement, Change) and not transaction.explicit:
            changes = [plain(statement.sql())]
        else:
            return None
        if not changes:
            return None
        return world.newest, tables_of(self.watcher), changes

    def story(self):
        """What has happened, in the format of `story.py`."""
        lines = [f"# each session: set {setting}" for setting in self.settings]
        lines += [f"setup> {sql}" for sql in created(self.start)]
        for name, sql, outcome in self.told:
            lines.append(f"{name}> {sql}")
            if outcome is not None and len(outcome) > 1:
                lines += [f"    {row}" for row in outcome[1:]] + ["    no rows"] * (len(outcome) == 2)
            elif outcome:
                first = outcome[0]
                first = " ".join(first.split()[:2]).rstrip(":") if first.startswith("ERROR") else first
                lines.append(f"    {first}")
        return "\n".join(lines)


def literal_of(value):
    return f"'{value}'" if isinstance(value, str) else str(value)


def created(state):
    """Statements that make a state."""
    made, foreign, rows = [], [], []
    for table in state.tables.values():
        first, second = table.create_sql(state.tables.get)
        made, foreign = made + first, foreign + second
        own = [c for c in table.columns if not c.generated]
        values = [f"({', '.join('null' if row[c.id] is None else literal_of(row[c.id]) for c in own)})"
                  for row in table.rows.values()]
        if values:
            names = ", ".join(c.name for c in own)
            rows.append(f"insert into {table.name} ({names}) values {', '.join(values)}")
    return made + rows + foreign


def names_of(connection):
    return [name for [name] in connection.execute(
        "select tablename from pg_tables where schemaname = 'public'").fetchall()]


def emptied(connection):
    names = names_of(connection)
    return [f"drop table {', '.join(names)} cascade"] if names else []


def tables_of(connection):
    """Names of columns and rows as text of each table."""
    found = {}
    for name in names_of(connection):
        result = connection.execute(f"select * from {name}").pgresult
        columns = [result.fname(i).decode() for i in range(result.nfields)]
        rows = [[result.get_value(r, c) for c in range(result.nfields)]
                for r in range(result.ntuples)]
        found[name] = columns, sorted(
            "|".join("NULL" if v is None else v.decode() for v in row) for row in rows)
    return found


def catalog(connection):
    """Columns with their types, and indexes with their columns, of all tables."""
    columns = connection.execute(
        "select table_name, column_name, data_type, is_nullable from information_schema.columns"
        " where table_schema = 'public' order by table_name, ordinal_position").fetchall()
    indexes = connection.execute(
        "select tablename, indexname, indexdef from pg_indexes where schemaname = 'public'").fetchall()
    return columns, sorted((table, name, shortened(text)) for table, name, text in indexes)


def shortened(indexdef):
    """Whether it is unique, and the columns."""
    return " unique" * (" UNIQUE " in indexdef) + indexdef[indexdef.rindex("("):]


def constraints(state):
    return {x[0] for t in state.tables.values() for x in t.checks + t.references} | {
        key.name for t in state.tables.values() for key in t.keys}


def modelled_catalog(state):
    columns, indexes = [], []
    for table in sorted(state.tables.values(), key=lambda t: t.name):
        primary = {id for key in table.keys if key.kind == "primary" for id in key.columns}
        for c in table.columns:
            nullable = "NO" if c.not_null or c.id in primary else "YES"
            columns.append((table.name, c.name, c.type, nullable))
        for key in table.keys:
            names = ", ".join(table.by_id(id).name for id in key.columns)
            indexes.append((table.name, key.name, f"{' unique' * key.unique}({names})"))
    return columns, sorted(indexes)


class Offline:
    """PostgreSQL, which makes the same schema changes of the same tables at rest."""

    def __init__(self, postgres):
        self.connection = postgres.connect(prepare_threshold=None)

    def compare(self, play, rest):
        state, contents, changes = rest
        copy = replace(state, tables={
            id: replace(t, rows=read_back(t, contents[t.name])) for id, t in state.tables.items()})
        try:
            for sql in emptied(self.connection) + [*map(plain, created(copy))] + changes:
                self.connection.execute(sql)
        except psycopg.errors.IntegrityError as error:
            if error.diag.constraint_name not in constraints(play.worlds[0].newest):
                return  # Taken back before the end: here it has kept nobody from committing.
            raise Wrong("offline", f"PostgreSQL refuses {sql}: {error}\n\n{play.story()}") from None
        except psycopg.Error as error:
            raise Wrong("offline", f"PostgreSQL refuses {sql}: {error}\n\n{play.story()}") from None
        for what, look in (("offline", tables_of), ("offline catalog", catalog)):
            seen, expected = look(play.watcher), look(self.connection)
            if seen != expected:
                raise Wrong(what, f"{changes}\nseen: {seen}\noffline: {expected}\n\n{play.story()}")


def read_back(table, contents):
    """Rows of a model's table from a server's text."""
    rows = {}
    for i, text in enumerate(contents[1]):
        values = text.split("|")
        rows[i] = {c.id: None if v == "NULL" else v if c.type == "text" else int(v)
                   for c, v in zip(table.columns, values)}
    return rows


def played(server, start, offline, steps, settings):
    """Plays steps that were generated before. Those of a session that waits are left out."""
    play = Play(server, start, offline, settings)
    try:
        for name, statement in steps:
            if name not in play.waiting:
                play.step(name, statement)
        play.finish()
    finally:
        play.close()


def generated(server, rng, length, offline=None, kills=False, lazy=False):
    """Plays a new history. A failure has its steps as `steps`, its start as `start` and its settings."""
    start, settings = beginning(rng, lazy), ()
    if lazy:
        # Nothing is moved unless it is touched; or at once; or now and then.
        settings = (f"froglet.migration_delay = '{rng.choice(('1h', '1h', '0', '50ms'))}'",
                    f"froglet.migration_granule_rows = {rng.choice((1, 1, 64))}",
                    f"froglet.migration_detection = {rng.choice(('tracker', 'on_conflict'))}",
                    "froglet.migration_auto_rows = 0",
                    f"froglet.migration_join = {rng.choice(('auto', 'key', 'pair', 'pair'))}")
    generator, play = Generator(rng, kills, lazy), Play(server, start, offline, settings)
    try:
        for _ in range(length):
            ready = play.ready()
            if not ready:
                raise Wrong("hangs", f"all sessions wait\n{play.story()}")
            play.step(*generator.next(play.worlds[0], ready))
        play.finish()
        return play.counts + counted(play.worlds)
    except Wrong as wrong:
        wrong.start, wrong.steps, wrong.settings = start, play.steps, settings
        raise
    finally:
        play.close()


def shrunk(server, wrong, offline=None, seconds=60):
    """A shorter history with the same failure, and that failure."""
    deadline = time.monotonic() + seconds
    steps, size = list(wrong.steps), max(len(wrong.steps) // 2, 1)
    while size and time.monotonic() < deadline:
        at = 0
        while at < len(steps) and time.monotonic() < deadline:
            fewer = steps[:at] + steps[at + size:]
            try:
                played(server, wrong.start, offline, fewer, wrong.settings)
            except Wrong as again:
                if again.kind == wrong.kind:
                    steps, best = fewer, again
                    wrong.args = best.args
                    continue
            except Exception:  # noqa: BLE001: what is left makes no sense any more
                pass
            at += size
        size //= 2
    wrong.steps = steps
    return wrong
