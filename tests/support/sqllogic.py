"""sqllogictest files, as crates/froglet-sql/tests/sql has them, run on a server that psycopg reaches.

crates/froglet-sql/tests/it/logic.rs runs the same files on Froglet with the sqllogictest crate; what is written
here reads no more of the format than they use, refuses the rest, and spells answers as logic.rs does.
"""

import re
from dataclasses import dataclass, field

from psycopg.pq import ExecStatus

ENGINES = {"froglet", "postgres"}
SORT_MODES = {"nosort", "rowsort"}
# In an error's pattern this says "either": a detail is after ` \| `.
EITHER = re.compile(r" \| ")


class Malformed(Exception):
    """A line of a file that is not understood."""


@dataclass(frozen=True)
class Record:
    """A statement or a query, and what must come of it."""

    line: int
    connection: str
    conditions: tuple[tuple[str, str], ...]
    sql: str
    kind: str  # "ok", "count", "error", "query"
    count: int = 0
    pattern: str = ""
    columns: int = 0
    rowsort: bool = False
    rows: tuple[str, ...] = ()

    def runs_on(self, engine):
        return all((word == "onlyif") == (label == engine) for word, label in self.conditions)


@dataclass
class Outcome:
    """What a record came to: rows and the number of their columns, or a count of rows, or an error."""

    rows: list[str] | None = None
    columns: int = 0
    count: int = 0
    error: str = ""


@dataclass
class Report:
    ran: int = 0
    skipped: int = 0
    failures: list[str] = field(default_factory=list)


def parse(text):
    """The records of a file; raises Malformed at the first line that is not understood."""
    lines = text.splitlines()
    records, conditions, connection = [], [], "default"
    at = 0
    while at < len(lines):
        line, number = lines[at], at + 1
        at += 1
        if not line or line.startswith("#"):
            continue
        match line.split():
            case ["connection", name]:
                connection = name
            case ["onlyif" | "skipif" as word, label] if label in ENGINES:
                conditions.append((word, label))
            case ["statement" | "query", *_] as words:
                body = []
                while at < len(lines) and lines[at]:
                    body.append(lines[at])
                    at += 1
                expected = expectation(words, body, number)
                records.append(Record(number, connection, tuple(conditions), **expected))
                # Both are said of one record.
                conditions, connection = [], "default"
            case _:
                raise Malformed(f"line {number}: {line}")
    if conditions or connection != "default":
        raise Malformed("a condition or a connection without a record after it")
    return records


def expectation(words, body, number):
    """The fields of a record that its first line and the lines below it give."""
    split = body.index("----") if "----" in body else None
    sql = "\n".join(body[:split])
    rows = () if split is None else tuple(body[split + 1:])
    if not sql:
        raise Malformed(f"line {number}: no SQL")
    match words:
        case ["statement", "ok"] if split is None:
            return {"kind": "ok", "sql": sql}
        case ["statement", "count", count] if split is None:
            return {"kind": "count", "sql": sql, "count": int(count)}
        case ["statement", "error", *pattern] if split is None and pattern:
            pattern = " ".join(pattern)
            if EITHER.search(pattern):
                raise Malformed(f"line {number}: the | of this pattern means either of two errors")
            return {"kind": "error", "sql": sql, "pattern": pattern}
        case ["query", types, *sort] if re.fullmatch("[TIR]+", types) and len(sort) < 2 and SORT_MODES.issuperset(sort):
            return {"kind": "query", "sql": sql, "columns": len(types), "rowsort": sort == ["rowsort"], "rows": rows}
        case _:
            raise Malformed(f"line {number}: {' '.join(words)}")


def run(records, server, engine):
    """Runs those of the records that are for the engine on one server, to the last of them."""
    report, connections = Report(), {}
    try:
        for record in records:
            if not record.runs_on(engine):
                report.skipped += 1
                continue
            if record.connection not in connections:
                connections[record.connection] = server.connect()
            outcome = execute(connections[record.connection], record.sql)
            report.ran += 1
            if wrong := difference(record, outcome):
                report.failures.append(f"line {record.line}: {record.sql}\n{wrong}")
    finally:
        for connection in connections.values():
            connection.close()
    return report


def execute(connection, sql):
    """All statements of one message; what the last of them came to."""
    result = connection.pgconn.exec_(sql.encode())
    match result.status:
        case ExecStatus.TUPLES_OK:
            rows = [" ".join(cell(result.get_value(r, c)) for c in range(result.nfields)) for r in range(result.ntuples)]
            return Outcome(rows, result.nfields, len(rows))
        case ExecStatus.COMMAND_OK:
            last = result.command_status.decode().rpartition(" ")[2]
            return Outcome(count=int(last) if last.isdigit() else 0)
        case ExecStatus.FATAL_ERROR:
            state, message, detail = (part and part.decode() for part in map(result.error_field, map(ord, "CMD")))
            assert state, f"the connection is lost: {sql}\n{result.error_message.decode(errors='replace')}"
            return Outcome(error=f"{state} {message}" + (f" | {detail}" if detail else ""))
        case status:
            raise AssertionError(f"{status.name} of {sql}")


def cell(value):
    match value:
        case None:
            return "NULL"
        case b"":
            return "(empty)"
        case _:
            return value.decode()


def difference(record, outcome):
    """What is wrong with the outcome of a record, as text; nothing if it is right."""
    if record.kind == "error":
        if outcome.error and re.search(record.pattern, outcome.error):
            return ""
        return f"  expected the error {record.pattern}\n  got {outcome.error or 'none'}"
    if outcome.error:
        return f"  failed: {outcome.error}"
    match record.kind:
        case "count" if outcome.count != record.count:
            return f"  expected {record.count} rows\n  got {outcome.count}"
        case "query" if outcome.rows is None:
            return "  is no query"
        case "query" if outcome.columns != record.columns:
            return f"  expected {record.columns} columns\n  got {outcome.columns}"
        case "query":
            expected, rows = list(record.rows), outcome.rows
            if record.rowsort:
                expected, rows = sorted(expected), sorted(rows)
            if expected != rows:
                return "\n".join(["  expected", *(f"    {row}" for row in expected),
                                  "  got", *(f"    {row}" for row in rows)])
    return ""
