"""The Arrow Flight SQL JDBC driver, from its Maven package, on the machine's Java."""

import shutil
import subprocess

import pytest

from support.processes import REPOSITORY

DRIVER = "flight-sql-jdbc-driver"
VERSION = "18.3.0"
JARS = REPOSITORY / "target/test-tools/jars"
PROGRAM = REPOSITORY / "tests/support/jdbc/Flight.java"


@pytest.fixture(scope="session")
def driver():
    jar = JARS / f"{DRIVER}-{VERSION}.jar"
    for tool in ("java", "javac", "mvn"):
        if not shutil.which(tool):
            pytest.skip(f"{tool} is not installed (Debian: default-jdk-headless, maven)")
    if not jar.exists():
        subprocess.run(
            ["mvn", "-q", "dependency:copy", f"-Dartifact=org.apache.arrow:{DRIVER}:{VERSION}",
             f"-DoutputDirectory={JARS}"], check=True, timeout=300)
    return jar


def test_jdbc(flight, driver):
    flight.run("create role anna login", "grant create on schema public to anna")
    done = subprocess.run(
        ["java", "--add-opens=java.base/java.nio=ALL-UNNAMED", "-cp", driver, PROGRAM,
         f"{flight.host}:{flight.flight_port}"],
        capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines() == [
        "updated 0", "updated 2", "updated 1",
        "1 eins, 雪 1.50", "2 null null", "3 drei 3.25",
        "error true", "table j", "key id",
    ]
    assert flight.value("select count(*) from j") == 3
