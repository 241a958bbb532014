"""SQL by a grammar (`support/grammar.py`), on Froglet and on PostgreSQL 15: the same rows, types, tags and SQLSTATEs.

Froglet may refuse what it does not have yet (0A000). Rows are compared as a multiset, because most queries have no
order. A server may meet another error than its peer where a statement has several (22…), or one that the peer's
plan never comes to.

    FROGLET_TEST_SEEDS=N    so many seeds of 60 statements instead of 10
    FROGLET_TEST_SEED=S     begin with this seed
    python -m pytest test_generated_sql.py -s      shows how many statements were compared
"""

import os
import random
import re
from collections import Counter

import pytest

from support.features import outcome
from support.grammar import Grammar, catalog

SEEDS = int(os.environ.get("FROGLET_TEST_SEEDS", 10))
FIRST = int(os.environ.get("FROGLET_TEST_SEED", 20261124))
STATEMENTS = 60

SETUP = """
create table items (id int primary key, small smallint, big bigint, price numeric(10,2), weight float8, name text,
    tag varchar(8), sold bool, day date, at timestamp, span interval, doc jsonb, list int[], code uuid);
create table notes (id int primary key, item int, body text, score numeric(6,3), day date, good bool, at timestamp, tags int[]);
create table pairs (id int primary key, a int not null, b int, t text not null);
create index on notes (item);
create index on items (name);
"""
# Whatever the plan, an error may come first that the other server's plan meets later, or never.
RUNTIME = ("22", "42P22")
GROUPS = re.compile(r"\b(union|except|intersect|distinct|group by)\b")


def rows_of(rng):
    """INSERT statements: the same for both servers."""
    def some(*values):
        return rng.choice([*values, "null"])

    words = ["'a'", "'b'", "'Abc'", "''", "' b a'", "'a_b%c'", "'zz'"]
    days = ["'2024-02-29'", "'2023-12-31'", "'2024-03-01'"]
    times = ["'2024-02-29 12:30'", "'2024-03-01 00:00'", "'1999-12-31 23:59:59.5'"]
    for n in range(1, 13):
        yield (f"insert into items values ({n}, {some(1, 2, -3)}, {some(10, 5000000000)}, {some(1.25, '0.10', -7.5)},"
               f" {some(0.5, -2.25, 8)}, {some(*words)}, {some(*words)}, {some('true', 'false')}, {some(*days)}, {some(*times)},"
               f" {some(repr('1 day'), repr('-2 hours'), repr('1 mon 3 days'))}, {some(*DOCS)}, {some(*LISTS)},"
               f" {some(repr('00000000-0000-0000-0000-000000000001'))})")
        yield (f"insert into notes values ({n}, {some(1, 2, 3, 40)}, {some(*words)}, {some(0.333, 12, -1.5)}, {some(*days)},"
               f" {some('true', 'false')}, {some(*times)}, {some(*LISTS)})")
        yield f"insert into pairs values ({n}, {rng.randint(1, 3)}, {some(1, 2, 3)}, {rng.choice(words)})"


DOCS = ["'{\"a\": 1, \"b\": [1, \"x\"]}'", "'{\"a\": null}'", "'[1, 2]'", "'\"s\"'", "'{}'"]
LISTS = ["'{1,2,3}'", "'{}'", "'{NULL,5}'"]


def shape(seen):
    """An outcome of which the order of rows does not count."""
    head, *rows = seen.split("\n")
    return head, sorted(rows)


def is_alike(statement, ours, theirs):
    if GROUPS.search(statement):
        # Zeros of both signs are one group, and either may stand for it.
        ours, theirs = (re.sub(r"(?m)(^|\|)-0(?=$|\|)", r"\g<1>0", seen) for seen in (ours, theirs))
    if shape(ours) == shape(theirs):
        return True
    states = [seen.removeprefix("ERROR ") for seen in (ours, theirs) if seen.startswith("ERROR ")]
    if ours == "ERROR 0A000":
        return True
    return bool(states) and all(state.startswith(RUNTIME) for state in states)


@pytest.mark.parametrize("seed", range(FIRST, FIRST + SEEDS))
def test_a_grammar_of_sql(froglet, postgres, seed):
    rng = random.Random(seed)
    setup = [*filter(str.strip, SETUP.split(";")), *rows_of(rng)]
    counts, wrong = Counter(), []
    with froglet.connect() as ours, postgres.connect() as theirs:
        for connection in (ours, theirs):
            for statement in setup:
                connection.execute(statement)
        tables = catalog(ours)
        assert tables == catalog(theirs)
        for connection in (ours, theirs):
            connection.execute("set statement_timeout = '20s'")
        grammar = Grammar(rng, tables)
        for _ in range(STATEMENTS):
            statement = grammar.statement()
            outcomes = []
            for connection in (ours, theirs):
                connection.pgconn.exec_(b"begin")
                outcomes.append(outcome(connection, statement))
                connection.pgconn.exec_(b"rollback")
            (seen, message), (expected, reason) = outcomes
            kinds = ["error" if text.startswith("ERROR") else "rows" for text in (seen, expected)]
            counts["refused" if seen == "ERROR 0A000" else kinds[1]] += 1
            if not is_alike(statement, seen, expected):
                wrong.append(f"{statement};\n  Froglet: {seen[:300]} {message[:200]}\n  PostgreSQL: {expected[:300]} {reason[:200]}")
    print(f"seed {seed}: {dict(counts)}")
    assert not wrong, f"seed {seed}: {len(wrong)} differ\n" + "\n".join(wrong)
    # Most are right, and few are refused: otherwise nothing much was compared.
    assert counts["rows"] > STATEMENTS / 2, counts
