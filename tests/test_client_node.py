"""node-postgres, and Drizzle over it: its history of migrations, its queries, its look at the catalog."""

import re
import shutil
import subprocess

import pytest

from support.checks import Checks
from support.processes import REPOSITORY

HERE = REPOSITORY / "tests/support/node"
MODULES = REPOSITORY / "target/test-tools/node"
CHECKS = re.findall(r"^  async (\w+)\(", (HERE / "postgres.js").read_text(), re.MULTILINE)


@pytest.fixture(scope="module")
def checks():
    for tool in ("node", "npm"):
        if not shutil.which(tool):
            pytest.skip(f"{tool} is not installed (Debian: nodejs, npm)")
    installed, wanted = MODULES / "package-lock.json", HERE / "package-lock.json"
    if not (MODULES / "node_modules/pg").exists() or installed.read_bytes() != wanted.read_bytes():
        MODULES.mkdir(parents=True, exist_ok=True)
        shutil.copy(HERE / "package.json", MODULES)
        shutil.copy(wanted, installed)
        subprocess.run(["npm", "ci", "--no-audit", "--no-fund", "--loglevel=error"], cwd=MODULES, check=True, timeout=300)
    program = Checks("node", "postgres.js", cwd=HERE, environment={"NODE_PATH": str(MODULES / "node_modules")})
    yield program
    program.stop()


@pytest.mark.parametrize("check", CHECKS)
def test_node(server, checks, check):
    checks.run(server, check)
