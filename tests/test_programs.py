"""Programs of others on a small project of their own: what each shows of Froglet must be what it shows of PostgreSQL 15.

Each is in `tests/support/programs`: it makes tables, migrates them up and down, reads, writes, and looks at the catalog,
and prints what it finds. `./test` installs what they need.
"""

import os
import re
import subprocess

import psycopg
import pytest

from support.processes import REPOSITORY

HERE = REPOSITORY / "tests/support/programs"
TOOLS = REPOSITORY / "target/test-tools/programs"


def node(name):
    return lambda server, directory: (
        ["node", f"{name}_shop.js", url(server)], HERE / "node", {"NODE_PATH": str(TOOLS / "node/node_modules")})


def java(name):
    path = f"{TOOLS / 'java/classes'}:{TOOLS / 'java/jars'}/*"
    return lambda server, directory: (
        ["java", "-XX:TieredStopAtLevel=1", "-cp", path, f"{name}Shop", f"127.0.0.1:{server.port}/{server.database}"], HERE / "java", {})


def gorm(server, directory):
    return [TOOLS / "go/gorm", url(server)], HERE / "go", {}


def dbt(server, directory):
    return [TOOLS / "dbt/bin/python", "shop.py", directory], HERE / "dbt", {"FROGS_PORT": str(server.port), "FROGS_DATABASE": server.database}


PROGRAMS = {
    "sequelize": node("sequelize"), "knex": node("knex"), "typeorm": node("typeorm"), "flyway": java("Flyway"),
    "liquibase": java("Liquibase"), "hibernate": java("Hibernate"), "gorm": gorm, "dbt": dbt,
}


def url(server):
    return f"postgres://postgres@127.0.0.1:{server.port}/{server.database}"


def shown(program, server, directory):
    """What it prints, line by line."""
    command, where, environment = PROGRAMS[program](server, directory)
    assert (TOOLS / "complete").exists(), "./test installs what these programs need"
    done = subprocess.run([str(part) for part in command], cwd=where, env=os.environ | environment,
                          capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-6000:]}"
    return [scrubbed(line) for line in done.stdout.splitlines()]


def scrubbed(line):
    """Without where the server is."""
    return re.sub(r"127\.0\.0\.1:\d+/\w+", "127.0.0.1", line)


@pytest.mark.parametrize("program", PROGRAMS)
def test_program(froglet, postgres, program, tmp_path):
    theirs = shown(program, postgres, tmp_path / "postgres")
    assert shown(program, froglet, tmp_path / "froglet") == theirs


RECORDED = sorted((HERE / "recorded").glob("*.sql"))


def texts(result):
    """Rows as the server wrote them."""
    value = lambda row, column: (result.get_value(row, column) or b"\\N").decode()  # noqa: E731
    return [[value(row, column) for column in range(result.nfields)] for row in range(result.ntuples)]


def answers(server, statements):
    """What each statement comes to: its rows, or the code of its error."""
    found = []
    with server.connect() as connection:
        for sql in statements:
            try:
                cursor = connection.execute(sql)
                found.append((sql, texts(cursor.pgresult) if cursor.description else cursor.statusmessage))
            except psycopg.Error as error:
                found.append((sql, f"{error.sqlstate} {error}"))
    return found


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_recorded(froglet, postgres, path):
    """Statements of programs that no registry has, one a line; below `-- types differ` only that there are rows counts."""
    lines = path.read_text().splitlines()
    statements = [line for line in lines if line and not line.startswith("--")]
    apart = {after for before, after in zip(lines, lines[1:]) if before.startswith("-- types differ")}
    theirs, ours = answers(postgres, statements), answers(froglet, statements)
    for (sql, expected), (_, found) in zip(theirs, ours):
        if sql in apart:
            assert isinstance(found, list) and found, (sql, found)
        else:
            assert found == expected, sql
