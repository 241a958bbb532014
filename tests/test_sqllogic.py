"""What the sqllogictest files of froglet-sql promise is what PostgreSQL 15 does.

A record that is Froglet's alone has `onlyif froglet` before it.
"""

import pytest

from support.processes import REPOSITORY
from support.sqllogic import Malformed, parse, run

FOLDER = REPOSITORY / "crates/froglet-sql/tests/sql"
ONLY_FROGLET = {"explain_ddl.slt": "EXPLAIN of schema changes"}
FILES = sorted(path.name for path in FOLDER.glob("*.slt") if path.name not in ONLY_FROGLET)
# Of a file's records, those that PostgreSQL runs are at least these.
LEAST_PERCENT = 80


@pytest.mark.parametrize("name", FILES)
def test_postgres_answers_as_the_file_says(postgres, name):
    records = parse((FOLDER / name).read_text())
    report = run(records, postgres, "postgres")
    assert not report.failures, f"{len(report.failures)} of {report.ran} differ\n" + "\n".join(report.failures)
    assert report.ran + report.skipped == len(records)
    assert report.ran * 100 >= len(records) * LEAST_PERCENT, f"{report.skipped} of {len(records)} are left out"


def test_the_files_are_there():
    assert FILES and all((FOLDER / name).exists() for name in ONLY_FROGLET)


@pytest.mark.parametrize("text", [
    "statment ok\nselect 1",
    "statement ok",
    "statement ok\nselect 1\n----\n1",
    "statement error\nselect 1",
    "statement error 23505 duplicate key | Key (a)=(1)\nselect 1",
    "query T colsort\nselect 1\n----\n1",
    "query X\nselect 1\n----\n1",
    "onlyif mysql\nstatement ok\nselect 1",
    "onlyif froglet",
    "hash-threshold 8",
])
def test_what_is_not_understood_is_refused(text):
    with pytest.raises(Malformed):
        parse(text)


def test_what_differs_is_told(postgres):
    records = parse("""
statement ok
select 1 / 0

statement error 22012
select 1

statement error 22012 nothing
select 1 / 0

statement count 2
create table t as select 1

query T
select 1
----
2

query TT
select 1
----
1

query T
select 1 where false
----
1

onlyif froglet
statement ok
select 1 / 0

skipif froglet
query TT rowsort
select null, '' union all select 'a', true::text
----
a true
NULL (empty)
""")
    report = run(records, postgres, "postgres")
    assert [failure.partition(":")[0] for failure in report.failures] == [
        "line 2", "line 5", "line 8", "line 11", "line 14", "line 19", "line 24"]
    assert (report.ran, report.skipped) == (8, 1)
