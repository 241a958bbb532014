"""Fixtures: a Froglet of its own for each test, a PostgreSQL 15 for all of them.

`froglet`   a fresh server on a fresh data directory
`flight`    the same, and Arrow Flight SQL on `flight_port`
`start`     starts more of them, with settings of their own
`postgres`  PostgreSQL 15 with a fresh database
`certificate`  a certificate and its key, for servers that speak TLS
`server`    both, one after the other: the same test proves what it expects on PostgreSQL
`LONG`      FROGLET_TEST_LONG=1 runs the loads as long as the issue says, not as long as CI can wait
"""

import subprocess
from pathlib import Path

import pytest

from support.servers import Froglet, Postgres

GAPS = Path(__file__).with_name("gaps.txt")
STARTED = pytest.StashKey[list]()


@pytest.fixture
def start(request):
    """Starts Froglet servers; `start()`, or `start(environment={"FROGLET_…": "…"})`."""
    started = request.node.stash.setdefault(STARTED, [])

    def start_one(directory=None, ready=True, **options):
        server = Froglet(directory, **options)
        started.append(server)
        return server.start() if ready else server

    yield start_one
    for server in started:
        server.remove()


@pytest.fixture
def froglet(start):
    server = start()
    yield server
    if server.process is not None:  # None where the test itself has ended it.
        assert server.alive(), f"the server died: {server.process.returncode}"
        server.stop()


@pytest.fixture
def flight(start):
    """A Froglet that serves Arrow Flight SQL, too."""
    server = start(flight=True)
    yield server
    if server.process is not None:
        assert server.alive(), f"the server died: {server.process.returncode}"
        server.stop()


@pytest.fixture
def certificate(tmp_path):
    """A certificate of this machine's loopback address and its key, as files."""
    files = tmp_path / "cert.pem", tmp_path / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1",
         "-addext", "subjectAltName=IP:127.0.0.1", "-out", files[0], "-keyout", files[1]],
        check=True, capture_output=True)
    return files


@pytest.fixture(scope="session")
def postgres_server():
    server = Postgres()
    try:
        yield server.start()
    finally:
        server.remove()


@pytest.fixture
def postgres(postgres_server):
    return postgres_server.fresh_database()


@pytest.fixture(params=["froglet", "postgres"])
def server(request):
    return request.getfixturevalue(request.param)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """A failed test shows the last of what its servers wrote."""
    report = (yield).get_result()
    if report.failed:
        for started in item.stash.get(STARTED, []):
            if tail := started.log.exists() and started.tail():
                report.sections.append((f"stderr of the server on port {started.port}", tail))


def pytest_collection_modifyitems(items):
    """Tests of what is not there yet, one line each in gaps.txt, are expected to fail.

    Strictly: a gap that is closed fails here until its line is taken out.
    """
    gaps = dict(
        line.split(" # ", 1) for line in GAPS.read_text().splitlines()
        if line.strip() and not line.startswith("#"))
    for item in items:
        if reason := gaps.get(item.nodeid.rpartition("/")[2]):
            item.add_marker(pytest.mark.xfail(reason=reason, strict=True))
