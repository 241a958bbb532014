"""Two servers that go through the same statements: on one a table is made eagerly, on the other lazily.

Whatever a client asks of the lazy one, however much of it has been migrated by then, must be what the
eager one answers: rows, tags and errors.
"""

import re

import psycopg


class Twins:
    """Connections to both."""

    def __init__(self, start, delay="1h", granule_rows=1, arguments=(), mode="lazy", **settings):
        self.mode = mode
        self.servers = start(arguments=arguments), start(arguments=arguments)
        self.settings = {"froglet.migration_delay": delay,
                         "froglet.migration_granule_rows": granule_rows} | settings
        self.open()

    def open(self):
        """New connections, also after a server has started again."""
        self.eager, self.lazy = self.session("eager"), self.session("lazy")

    def session(self, side):
        """One more connection to a side."""
        connection = self.servers[side == "lazy"].connect()
        connection.execute(f"set froglet.migration = {'eager' if side == 'eager' else self.mode}")
        for name, value in self.settings.items():
            connection.execute(f"set {name} = '{value}'")
        return connection

    def set(self, **settings):
        """From now on."""
        self.settings |= {f"froglet.{name}": value for name, value in settings.items()}
        self.close()
        self.open()

    def kill(self):
        """kill -9 of the lazy one, and a new start."""
        self.close()
        self.servers[1].kill_and_restart()
        self.open()

    def pair(self):
        """A session on each side, for what others do."""
        return Pair(self.session("eager"), self.session("lazy"))

    def do(self, sql, parameters=None, **options):
        """A statement on both sides; what it comes to, which is the same."""
        return Pair(self.eager, self.lazy).do(sql, parameters, **options)

    def eagerly(self, sql):
        """What cannot be done lazily, on both sides."""
        self.lazy.execute("set froglet.migration = eager")
        self.do_all(sql)
        self.lazy.execute(f"set froglet.migration = {self.mode}")

    def do_all(self, *statements):
        """Statements, none of which fails."""
        for sql in statements:
            found = self.do(sql)
            assert not is_error(found), f"{sql}\n{found}"

    def make(self, *statements):
        """The transaction that makes tables of others."""
        for connection in (self.eager, self.lazy):
            with connection.transaction():
                for statement in statements:
                    connection.execute(statement)

    def migrations(self):
        """What `froglet.migrations` has of those that make tables lazily, oldest first."""
        columns = "table_name, phase, rows_scanned, rows_on_access, backlog, error, paused"
        return self.lazy.execute(
            f"select {columns} from froglet.migrations where statement ilike 'create table%' and kind ="
            " 'table' order by id").fetchall()

    def close(self):
        self.eager.close()
        self.lazy.close()


def is_error(outcome):
    return isinstance(outcome, tuple) and len(outcome[0]) == 5 and isinstance(outcome[0], str)


class Pair:
    def __init__(self, eager, lazy):
        self.eager, self.lazy = eager, lazy

    def do(self, sql, parameters=None, **options):
        expected = outcome(self.eager, sql, parameters, **options)
        found = outcome(self.lazy, sql, parameters, **options)
        assert found == expected, f"{sql}\n{difference(found, expected)}"
        return expected

    def close(self):
        self.eager.close()
        self.lazy.close()


def difference(found, expected):
    """What the two sides do not share, or all of it."""
    rows = [set(side[1]) if isinstance(side[1], list) else set() for side in (found, expected)]
    if rows[0] == rows[1]:
        return f" lazy {str(found)[:2000]}\neager {str(expected)[:2000]}"
    return (f"only lazy  {str(sorted(rows[0] - rows[1], key=repr))[:1500]}\n"
            f"only eager {str(sorted(rows[1] - rows[0], key=repr))[:1500]}")


def outcome(connection, sql, parameters=None, **options):
    """Rows, in their order if one is asked for; or the tag; or SQLSTATE and message."""
    try:
        cursor = connection.execute(sql, parameters, **options)
    except psycopg.Error as error:
        return error.sqlstate, error.diag.message_primary
    if cursor.description is None:
        # Nobody has counted rows that are made later.
        return re.sub(r"^SELECT \d+$", "CREATE TABLE AS", cursor.statusmessage)
    names = tuple(column.name for column in cursor.description)
    rows = cursor.fetchall()
    is_ordered = "order by" in sql.lower()
    return names, rows if is_ordered else sorted(rows, key=repr)
