"""Fixtures for what needs a cluster: a placement driver and three stores for all tests of a file, gateways for each.

`cluster`   the servers of cluster/: `kill_store(1)`, `pause("pd")`, `split(b"t…")`, `transfer_leader(…)`, `regions()`
`gateways`  starts Froglet gateways to it: `one, two = gateways(2)`. Those of a test share a database of their own, whose
            name is before all their keys: no test sees the rows of another
"""

import itertools
import os
import signal
import sys
import tempfile

import pytest

from support.processes import REPOSITORY, wait_until
from support.servers import Froglet

sys.path.insert(0, str(REPOSITORY / "cluster"))
from servers import Cluster  # noqa: E402  (the path is known only now)

def pytest_configure(config):
    config.addinivalue_line("markers", "without_froglet: needs the servers of a cluster, and no build of Froglet")


@pytest.fixture(scope="module")
def one_cluster():
    """The cluster of a file of tests, however these have left it. It dies with them: it is never idle."""
    cluster = Cluster(tempfile.mkdtemp(prefix="froglet-test-cluster-"), linked=True)
    cluster.databases = itertools.count(1)
    try:
        yield cluster.start()
    finally:
        cluster.remove()


@pytest.fixture
def cluster(one_cluster):
    """The cluster, whole and with nothing pinned before and after each test. What a test has killed or paused, it need
    not bring back."""
    make_whole(one_cluster)
    yield one_cluster
    make_whole(one_cluster)


def make_whole(cluster):
    for name in cluster.names():
        cluster.resume(name)
        cluster.start_process(name)
    cluster.wait_until_whole()
    cluster.pin_leaders([])


class Gateway(Froglet):
    """A Froglet whose tables are in the cluster; its directory has what belongs to it alone."""

    def __init__(self, url, **options):
        super().__init__(arguments=["--store", url, *options.pop("arguments", ())], **options)

    def pause(self):
        """It does nothing more, and nobody is told."""
        self.process.send_signal(signal.SIGSTOP)
        wait_until(lambda: self.state() == "T", "the gateway is stopped")

    def resume(self):
        self.process.send_signal(signal.SIGCONT)

    def state(self):
        with open(f"/proc/{self.process.pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0]


@pytest.fixture
def gateways(cluster):
    """Starts so many gateways, one after the other: `gateways(2)`. Called again, it adds to them."""
    # The process's number: a test run that was broken off has left its rows where a cluster outlives it.
    number = next(cluster.databases)
    database, started = f"test_{os.getpid()}_{number}", []

    def start(count=1, **options):
        new = [Gateway(f"tikv://{cluster.pd}/{database}", **options) for _ in range(count)]
        started.extend(new)
        for gateway in new:
            gateway.start()
        return new

    # Databases of a store are numbered as they are made.
    start.number = number
    yield start
    for gateway in started:
        gateway.remove()
