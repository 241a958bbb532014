"""The scenario Froglet exists for: pgbench runs, and from a second psql its tables are changed.

The changes are in `stories/online_ddl.sql`. No pgbench client may see an error, none may stand still
for a second, every change must succeed (or fail as it says and leave everything as it was), and
afterwards the four sums of TPC-B agree. PostgreSQL 15 fails this very scenario: under `-M prepared`
every client dies at the first ALTER COLUMN TYPE, "cached plan must not change result type".

FROGLET_TEST_LONG=1 keeps pgbench running for 60 s.
"""

import os
import re
import time
from dataclasses import dataclass

import pytest

from support.servers import finish_pgbench
from support.story import STORIES
from test_pgbench import assert_sums_agree

SECONDS = {"prepared": 25, "extended": 8, "simple": 8}
if os.environ.get("FROGLET_TEST_LONG"):
    SECONDS = dict.fromkeys(SECONDS, 60)


@dataclass
class Block:
    title: str
    sql: str
    shows: str | None = None
    fails: str | None = None

    def run(self, server):
        """Runs it in psql, and compares."""
        before = shape(server) if self.fails else None
        done = server.psql(self.sql, "-q", "-At", "-F", " ", "-v", "VERBOSITY=verbose", check=False)
        said = f"{self.title}\n{self.sql}\n{done.stdout}{done.stderr}"
        if self.fails:
            assert f"ERROR:  {self.fails}:" in done.stderr, said
            assert shape(server) == before, f"a failed change has left something\n{said}"
            return
        assert done.returncode == 0, said
        if self.shows is not None:
            assert done.stdout.strip() == self.shows, said


def blocks():
    """The blocks of the script."""
    _, *texts = (STORIES / "online_ddl.sql").read_text().split("\n\n")
    for text in texts:
        comments = re.findall(r"^-- (.*)$", text, re.M)
        marked = dict(line.split(": ", 1) for line in comments if re.match("(shows|fails): ", line))
        sql = "\n".join(line for line in text.splitlines() if not line.startswith("--"))
        yield Block(comments[0], sql, **marked)


def shape(server):
    """The tables' columns, constraints and indexes."""
    with server.connect() as connection:
        return [connection.execute(query).fetchall() for query in (
            "select table_name, column_name, data_type, is_nullable, column_default"
            " from information_schema.columns where table_name like 'pgbench%' order by 1, 2",
            "select conname, contype from pg_constraint order by 1",
            "select indexname, tablename from pg_indexes where tablename like 'pgbench%' order by 1",
        )]


@pytest.mark.parametrize("block", [pytest.param(block, id=block.title) for block in blocks()])
def test_the_script_holds_on_a_quiet_postgres(postgres_at_rest, block):
    """PostgreSQL proves that the blocks do what they say they do."""
    block.run(postgres_at_rest)


@pytest.fixture(scope="module")
def postgres_at_rest(postgres_server):
    postgres_server.fresh_database().pgbench("-i", "-q", "-s", "1")
    return postgres_server


@pytest.mark.parametrize("protocol", SECONDS)
def test_changes_under_load(froglet, protocol):
    froglet.pgbench("-i", "-q", "-s", "1")
    script, done = list(blocks()), []
    while len(done) < len(script):  # A slow machine needs more than one run for the whole script.
        load = froglet.pgbench_start(
            "-n", "-c", "4", "-j", "2", "-M", protocol, "-T", SECONDS[protocol], "-P", "1",
            "--verbose-errors")
        began = time.monotonic()
        try:
            while load.poll() is None:
                block = script[len(done) % len(script)]
                done.append((time.monotonic() - began, block.title))
                block.run(froglet)
            assert_no_standstill(finish_pgbench(load))
            assert_sums_agree(froglet)
        except AssertionError as error:
            story = "\n".join(f"{at:8.2f} s: {title}" for at, title in done)
            raise AssertionError(f"{error}\nchanges until then:\n{story}") from None
        finally:
            if load.poll() is None:
                load.kill()
                load.communicate()


def assert_no_standstill(output):
    """Every second of pgbench's progress shows transactions."""
    seconds = re.findall(r"^progress: ([\d.]+) s, ([\d.]+) tps", output, re.M)
    assert seconds, output
    idle = [second for second, rate in seconds if float(rate) == 0]
    assert not idle, f"no transaction in the seconds that ended at {idle}\n{output}"
