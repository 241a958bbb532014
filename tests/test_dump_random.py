"""Random schemas are dumped and restored: from Froglet into PostgreSQL and into another Froglet, from PostgreSQL into Froglet.

The rows of every table and view are the same on the other side, and so is a second dump. FROGLET_TEST_SEED gives the first
seed, FROGLET_TEST_SEEDS how many.
"""

import os
import re

import psycopg
import pytest

from support.schemas import Schema
from test_pg_dump import dump

FIRST = int(os.environ.get("FROGLET_TEST_SEED", 1))
SEEDS = range(FIRST, FIRST + int(os.environ.get("FROGLET_TEST_SEEDS", 8)))
# A statement that PostgreSQL takes may be one that Froglet has not yet.
NOT_YET = ("0A000", "42883")


def make(postgres, froglet, statements):
    """What both take. What Froglet has not yet is undone."""
    with postgres.connect(autocommit=False) as theirs, froglet.connect() as ours:
        theirs.execute("select")
        for sql in statements:
            try:
                with theirs.transaction():
                    theirs.execute(sql)
                    try:
                        ours.execute(sql)
                    except psycopg.Error as error:
                        assert error.sqlstate in NOT_YET, f"{sql}\n{error}"
                        raise psycopg.Rollback from error
            except psycopg.Error:
                pass
        theirs.commit()


def rows(server):
    """Of every table and view."""
    found = {}
    with server.connect() as connection:
        relations = connection.execute(
            "select format('%I.%I', nspname, relname) from pg_class c join pg_namespace n on n.oid = relnamespace where relkind in"
            " ('r', 'v', 'm') and nspname !~ '^(pg_|information|froglet)' order by 1").fetchall()
        for [name] in relations:
            found[name] = sorted(connection.execute(f"select x::text from {name} x").fetchall())
    return found


def without_queries(dumped):
    """A dump without the texts of views: those that Froglet prints as they were written, PostgreSQL prints its own way."""
    return re.sub(r"^(CREATE (?:MATERIALIZED )?VIEW [^\n]* AS)\n.*?(;\n|\n  WITH NO DATA;\n)", r"\1\2", dumped, flags=re.MULTILINE | re.DOTALL)


def read_again(dumped):
    """What PostgreSQL prints of what it printed. A list of varchars that is cast, it prints as (ARRAY[…])::text[]; read again,
    that is a cast of each element."""
    element = "'(?:[^']|'')*'::character varying"

    def of_each(found):
        elements = re.findall(element, found[1])
        return f"(ARRAY[{', '.join(f'({element})::text' for element in elements)}])"

    return re.sub(rf"\(\(ARRAY\[((?:{element}(?:, )?)+)\]\)::text\[\]\)", of_each, dumped)


def restored(dumped, server):
    errors = server.psql(dumped, "-q", check=False).stderr
    assert errors == "", f"{errors}\n{dumped}"


def bare(dumped):
    """Without parentheses: what IN becomes PostgreSQL prints as a part of an OR by itself; read again, the OR is one list."""
    return re.sub(r"[()]", "", dumped)


@pytest.mark.parametrize("seed", SEEDS)
def test_dumps_restore(start, postgres, seed):
    froglet, second, third = start(), start(), start()
    make(postgres, froglet, Schema(seed).statements)
    ours, theirs = dump(froglet), dump(postgres)
    expected = rows(froglet)
    assert expected == rows(postgres)
    assert without_queries(ours) == without_queries(theirs)
    again = {}
    for dumped, server in [(ours, second), (theirs, third)]:
        copy = postgres.fresh_database()
        for restoring in (server, copy):
            restored(dumped, restoring)
            assert rows(restoring) == expected
        # What was printed is read again, and printed as PostgreSQL prints it then.
        again[dumped] = without_queries(dump(copy))
        assert without_queries(dump(server)) == again[dumped]
    assert bare(again[ours]) == bare(read_again(without_queries(ours)))
    assert bare(dump(second)) == bare(read_again(ours))
