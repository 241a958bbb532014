"""tokio-postgres and sqlx, Rust's drivers: types in the binary format, pipelines, COPY, migrations, and what sqlx's
macros ask of a database while they are compiled."""

import os
import re
import shutil
import subprocess

import pytest

from support.checks import Checks
from support.processes import REPOSITORY

HERE = REPOSITORY / "tests/support/rust"
TARGET = REPOSITORY / "target/test-tools/rust"
MODULES = {
    "driver": "tokio_postgres", "driver_types": "tokio_postgres",
    "sqlx_catalog": "sqlx", "sqlx_types": "sqlx", "sqlx_ways": "sqlx"}
CHECKS = [
    f"{driver}.{check}" for module, driver in MODULES.items()
    for check in re.search(r"^checks! \{(.*?)\}", (HERE / f"src/{module}.rs").read_text(), re.M | re.S)[1].split()]


@pytest.fixture(scope="module")
def checks():
    if not shutil.which("cargo"):
        pytest.skip("cargo is not installed")
    subprocess.run(["cargo", "build", "--quiet", "--locked"], cwd=HERE, check=True, timeout=900,
                   env=os.environ | {"CARGO_TARGET_DIR": str(TARGET)})
    program = Checks(TARGET / "debug/frogs")
    yield program
    program.stop()


@pytest.mark.parametrize("check", CHECKS)
def test_rust(server, checks, check):
    checks.run(server, check)
