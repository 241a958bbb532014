"""pgjdbc, PostgreSQL's JDBC driver, from its Maven package: statements, metadata, a small TPC-C."""

import re
import shutil
import subprocess

import pytest

from support.checks import Checks
from support.processes import REPOSITORY

VERSION = "42.7.8"
JAR = REPOSITORY / f"target/test-tools/jars/postgresql-{VERSION}.jar"
CLASSES = REPOSITORY / "target/test-tools/jdbc"
PROGRAM = REPOSITORY / "tests/support/jdbc/Postgres.java"
CHECKS = re.findall(r"static void (\w+)\(Connection \w+, String address\) throws", PROGRAM.read_text().split("class Tpcc")[0])


@pytest.fixture(scope="module")
def checks():
    for tool in ("java", "javac", "mvn"):
        if not shutil.which(tool):
            pytest.skip(f"{tool} is not installed (Debian: default-jdk-headless, maven)")
    if not JAR.exists():
        subprocess.run(
            ["mvn", "-q", "dependency:copy", f"-Dartifact=org.postgresql:postgresql:{VERSION}",
             f"-DoutputDirectory={JAR.parent}"], check=True, timeout=300)
    subprocess.run(["javac", "-d", CLASSES, "-cp", JAR, PROGRAM], check=True, timeout=120)
    program = Checks("java", "-XX:TieredStopAtLevel=1", "-cp", f"{CLASSES}:{JAR}", "Postgres")
    yield program
    program.stop()


@pytest.mark.parametrize("check", CHECKS)
def test_jdbc(server, checks, check):
    checks.run(server, check)
