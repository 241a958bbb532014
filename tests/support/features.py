"""Features of SQL, tried on Froglet and on PostgreSQL 15, and the table of those that Froglet supports.

A file of `tests/features` is an area; in it,

    -- feature: INSERT … ON CONFLICT DO NOTHING
    create table t (a int primary key);
    insert into t values (1) on conflict do nothing;

names a feature and the statements, one or more lines each, that show it. A feature is *supported* if every
one of them comes to the same on both servers: names, types and text of the columns, rows, command tag, or SQLSTATE.

    python -m support.features            what differs, statement by statement
    python -m support.features --write    writes docs/SUPPORTED.md
"""

import argparse
import re
from dataclasses import dataclass
from pathlib import Path

from psycopg.pq import ExecStatus

from .processes import REPOSITORY
from .servers import Froglet, Postgres

FILES = REPOSITORY / "tests/features"
TABLE = REPOSITORY / "docs/SUPPORTED.md"
AREAS = {
    "types": "Types", "queries": "Queries", "dml": "Rows and transactions", "schema": "Schema",
    "functions": "Functions", "server": "The server",
}
# Object ids of types that every server numbers by itself begin here.
FIRST_OWN_OID = 16384
QUIET = b"set client_min_messages = error"
# Characters of a statement that the table shows.
SHOWN = 100


@dataclass(frozen=True)
class Feature:
    area: str
    name: str
    statements: tuple[str, ...]


@dataclass(frozen=True)
class Difference:
    """The first statement of a feature that comes to something else."""

    statement: str
    froglet: str
    message: str
    postgres: str

    @property
    def refused(self):
        return self.froglet == "ERROR 0A000"

    @property
    def reason(self):
        """Why the feature is not supported, in a cell of a table."""
        if self.refused:
            first = self.message.splitlines()[0].removeprefix("ERROR:  ")
            return f"no: {first}".replace("|", "\\|")
        statement = " ".join(self.statement.split())
        shown = statement if len(statement) <= SHOWN else statement[:SHOWN] + "…"
        return f"differs: `{shown}`".replace("|", "\\|")


def features():
    """All of them, in the order of the files."""
    found = []
    for area in AREAS:
        for part in re.split(r"^-- feature: ", (FILES / f"{area}.sql").read_text(), flags=re.MULTILINE)[1:]:
            name, _, text = part.partition("\n")
            found.append(Feature(area, name, tuple(re.findall(r"(.+?);\n", text, flags=re.DOTALL))))
    return found


def outcome(connection, statement):
    """What a statement comes to, as text that can be compared, and the message of an error."""
    result = connection.pgconn.exec_(statement.strip().encode())
    match result.status:
        case ExecStatus.TUPLES_OK:
            columns = [f"{result.fname(i).decode()}:{min(result.ftype(i), FIRST_OWN_OID)}"
                       for i in range(result.nfields)]
            rows = ["|".join("NULL" if (v := result.get_value(r, c)) is None else v.decode()
                             for c in range(result.nfields)) for r in range(result.ntuples)]
            return "\n".join([", ".join(columns), *rows, result.command_status.decode()]), ""
        case ExecStatus.COPY_OUT:
            lines = []
            while True:
                size, data = connection.pgconn.get_copy_data(0)
                if size < 0:
                    break
                lines.append(bytes(data).decode())
            while connection.pgconn.get_result():
                pass
            return "".join(lines), ""
        case ExecStatus.FATAL_ERROR:
            state = (result.error_field(ord("C")) or b"lost").decode()
            return f"ERROR {state}", result.error_message.decode(errors="replace").strip()
        case _:
            return (result.command_status or b"").decode(), ""


def difference(feature, froglet, postgres):
    """Where the two servers, both empty, part; None if they do not."""
    with postgres.connect() as theirs:
        theirs.pgconn.exec_(QUIET)
        # To the end, which takes away what the feature makes for the whole cluster.
        expected = [outcome(theirs, statement)[0] for statement in feature.statements]
    with froglet.connect() as ours:
        ours.pgconn.exec_(QUIET)
        for statement, theirs in zip(feature.statements, expected):
            seen, message = outcome(ours, statement)
            if seen != theirs:
                return Difference(statement.strip(), seen, message, theirs)
    return None


def differences(postgres, wanted=""):
    """Features, each with where Froglet and PostgreSQL part, if they do."""
    found = {}
    for feature in features():
        if wanted in f"{feature.area}: {feature.name}":
            froglet = Froglet().start()
            try:
                found[feature] = difference(feature, froglet, postgres.fresh_database())
            finally:
                froglet.remove()
    return found


def table(found):
    """docs/SUPPORTED.md."""
    lines = [
        "# What is supported", "",
        "Written by `tests/support/features.py` of what two servers answered, Froglet and PostgreSQL 15, and checked by",
        "`tests/test_features.py`: a feature is supported if every statement of it in `tests/features/` comes to the same on",
        "both, in names, types, text, rows, command tags and SQLSTATEs.",
    ]
    for area, title in AREAS.items():
        of_area = {f: d for f, d in found.items() if f.area == area}
        supported = sum(d is None for d in of_area.values())
        lines += ["", f"## {title}: {supported} of {len(of_area)}", "", "| feature | |", "|---|---|"]
        lines += [f"| {feature.name} | {'yes' if d is None else d.reason} |" for feature, d in of_area.items()]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="writes docs/SUPPORTED.md")
    parser.add_argument("wanted", nargs="?", default="", help="only features with this in \"area: name\"")
    arguments = parser.parse_args()
    postgres = Postgres()
    try:
        found = differences(postgres.start(), arguments.wanted)
    finally:
        postgres.remove()
    if arguments.write:
        assert not arguments.wanted, "the table is of all features"
        TABLE.write_text(table(found))
    for feature, d in found.items():
        if d:
            print(f"== {feature.area}: {feature.name}\n{d.statement}\n froglet:\n{d.froglet} {d.message}\n"
                  f" postgres:\n{d.postgres}\n")
    print(f"{sum(d is None for d in found.values())} of {len(found)} supported,"
          f" {sum(d is not None and d.refused for d in found.values())} refused")


if __name__ == "__main__":
    main()
