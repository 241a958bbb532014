"""pgx, Go's driver: all of its ways to send a query, types in the binary format, COPY, batches, its pool."""

import re
import shutil
import subprocess

import pytest

from support.checks import Checks
from support.processes import REPOSITORY

HERE = REPOSITORY / "tests/support/go"
PROGRAM = REPOSITORY / "target/test-tools/go/frogs"
CHECKS = re.findall(r'^\t"(\w+)":', (HERE / "main.go").read_text(), re.MULTILINE)


@pytest.fixture(scope="module")
def checks():
    if not shutil.which("go"):
        pytest.skip("go is not installed (Debian: golang-go)")
    subprocess.run(["go", "build", "-o", PROGRAM, "."], cwd=HERE, check=True, timeout=300)
    program = Checks(PROGRAM)
    yield program
    program.stop()


@pytest.mark.parametrize("check", CHECKS)
def test_go(server, checks, check):
    checks.run(server, check)
