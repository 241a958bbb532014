"""Django's own test suites, from its source distribution, on Froglet, and on PostgreSQL 15 to prove what passes there.

What does not pass on Froglet is in django_gaps.txt, strictly: a line whose test passes must be taken out.
"""

import json
import subprocess
import sys
from pathlib import Path

import django
import pytest

from support.processes import REPOSITORY, spawn
from support.servers import client_environment

TESTS = REPOSITORY / "target/test-tools" / f"django-{django.__version__}" / "tests"
GAPS = Path(__file__).with_name("django_gaps.txt")
SUITES = [
    "schema", "migrations", "introspection", "indexes", "constraints", "aggregation", "expressions", "lookup",
    "timezones", "composite_pk"]
SECONDS = 600


class Run:
    """A suite under way on two databases."""

    def __init__(self, suite, directory, databases):
        assert TESTS.exists(), f"{TESTS} is missing: ./test fetches it"
        self.outcomes, self.log = directory / "outcomes.json", directory / "log"
        directory.mkdir()
        environment = client_environment() | {
            "SUITE_DATABASES": json.dumps(databases), "SUITE_OUTCOMES": str(self.outcomes),
            "PYTHONPATH": str(REPOSITORY / "tests"), "TMPDIR": str(directory)}
        with open(self.log, "wb") as log:
            self.process = spawn(
                [sys.executable, TESTS / "runtests.py", "--settings=support.django_suite", "--keepdb", "--noinput",
                 "--parallel=1", suite],
                cwd=TESTS, env=environment, stdout=log, stderr=subprocess.STDOUT)

    def result(self):
        """The outcome of each test, by name, and the whole of what the run printed."""
        try:
            self.process.wait(SECONDS)
        finally:
            self.process.kill()
        log = self.log.read_text(errors="replace")
        assert self.outcomes.exists(), f"the suite did not end\n{log[-5000:]}"
        return json.loads(self.outcomes.read_text()), log


def gaps(suite):
    """The tests of a suite that are expected to fail, with why."""
    lines = [line for line in GAPS.read_text().splitlines() if line and not line.startswith("#")]
    return dict(line.split(" # ", 1) for line in lines if line.startswith(f"{suite}."))


@pytest.fixture
def other(postgres):
    """A second database of PostgreSQL's, by name."""
    name = f"{postgres.database}_other"
    postgres.run(f"create database {name}")
    yield name
    postgres.run(f"drop database {name} with (force)")


@pytest.mark.parametrize("suite", SUITES)
def test_suite(start, postgres, other, tmp_path, suite):
    froglets = start(), start()
    ours = Run(suite, tmp_path / "froglet", [(f.host, f.port, f.user, f.database) for f in froglets])
    theirs = Run(suite, tmp_path / "postgres", [
        (postgres.host, postgres.port, postgres.user, name) for name in (postgres.database, other)])
    expected, log = theirs.result()
    passes = {name for name, outcome in expected.items() if outcome == "passed"}
    assert passes, log
    outcomes, log = ours.result()
    fails = {name: outcomes.get(name, "did not run") for name in passes if outcomes.get(name) != "passed"}
    missing = gaps(suite)
    new = "\n".join(f"{name} # {fails[name]}" for name in sorted(fails.keys() - missing.keys()))
    assert not new, f"{new}\n{log}"
    closed = sorted(missing.keys() - fails.keys())
    assert not closed, f"these pass, or PostgreSQL does not pass them: take them out of {GAPS.name}\n" + "\n".join(closed)
    for froglet in froglets:
        assert froglet.alive(), f"the server died: {froglet.process.returncode}"
        froglet.stop()
