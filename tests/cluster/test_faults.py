"""The placement driver that leads is killed, a machine's link is down, stores are gone or full: what was acknowledged
stays, sums hold, gateways that cannot reach the store say so and go on by themselves.
"""

import contextlib
import itertools
import os
import subprocess
import tempfile
import threading
import time

import delay
import psycopg
import pytest
from machines import PASSWORD
from servers import Cluster

from support.processes import wait_until
from support.receipts import TOTAL, UNKNOWN, WHILE_AWAY, Transfers, make_bank, total
from support.servers import Froglet

#: How long the link is down.
DOWN_SECONDS = 15
#: What a statement may take to say that the store does not answer: 15 s, and the call that is under way then.
ANSWER_SECONDS = 25
#: The same of clients that go on: whoever was told just before connects again, and that waits for the store as well.
TOLD_SECONDS = 60
#: A store's disk, and how much of it is left when it is full, in bytes.
DISK, LEFT = 1 << 30, 256 << 10
#: What clients are told who cannot reach the store, or whose stores are full.
AWAY = {"08006", "08007"}
SAID_FULL = AWAY | {"53100"}


def connect_to(host, port, **options):
    return psycopg.connect(host=host, port=port, user="postgres", dbname="postgres", autocommit=True,
                           connect_timeout=60, **options)


def connects(gateways):
    """A way to connect to each."""
    return [lambda gateway=gateway: connect_to(gateway.host, gateway.port) for gateway in gateways]


# --- The placement driver that leads is killed -----------------------------------------------------


class Changes:
    """Schema changes, and what was said of each."""

    def __init__(self):
        self.told = {}

    def make(self, connection, number):
        for kind, statement in {
            "table": f"create table made_{number} (id int primary key)",
            "index": f"create index receipts_{number} on receipts (n)",
            "column": f"alter table bank add column c{number} int default {number}",
        }.items():
            try:
                connection.execute(statement)
                self.told[kind, number] = "made"
            except psycopg.Error as error:
                assert error.sqlstate in WHILE_AWAY, f"{statement}: {error.sqlstate}: {error}"
                self.told[kind, number] = "unknown" if error.sqlstate in UNKNOWN else "refused"

    def check(self, connections):
        found = [self.found(connection) for connection in connections]
        assert all(here == found[0] for here in found), found
        for change, told in self.told.items():
            assert told == "unknown" or (change in found[0]) == (told == "made"), (change, told, found[0])

    def found(self, connection):
        """Those that are there, as far as they can be used."""
        there = set()
        made = connection.execute("select relname from pg_class where relname ~ '^(made|receipts)_[0-9]+$'").fetchall()
        kinds = {"made": "table", "receipts": "index"}
        for kind, number in (name.split("_") for (name,) in made):
            there.add((kinds[kind], int(number)))
        names = [column.name for column in connection.execute("select * from bank limit 1").description]
        there |= {("column", int(name[1:])) for name in names if name.startswith("c")}
        for kind, number in there:
            if kind == "table":
                assert connection.execute(f"select count(*) from made_{number}").fetchone() == (0,)
            elif kind == "column":
                assert connection.execute(f"select distinct c{number} from bank").fetchall() == [(number,)]
        return there


def rows_by_index(connection):
    """The rows of receipts, each found by its n."""
    highest = connection.execute("select max(n) from receipts").fetchone()[0]
    plan = connection.execute("explain select writer, n from receipts where n = 1").fetchall()
    found = set()
    for n in range(1, highest + 1):
        found |= set(connection.execute("select writer, n from receipts where n = %s", (n,)).fetchall())
    return found, str(plan)


@pytest.fixture(scope="module")
def one_cluster():
    """With three placement drivers, and stores whose disks can be full."""
    cluster = SmallDisks(tempfile.mkdtemp(prefix="froglet-test-cluster-"), linked=True, drivers=3)
    cluster.databases = itertools.count(1)
    try:
        yield cluster.start()
    finally:
        cluster.remove()


def test_the_placement_driver_that_leads_is_killed_twice(cluster, gateways):
    both = connects(gateways(2))
    with both[0]() as one, both[1]() as other:
        make_bank(one)
        changes, transfers = Changes(), Transfers(both)
        with transfers:
            transfers.go_on()
            for number, connection in enumerate((one, other)):
                leader = cluster.leading_driver()
                cluster.kill(leader)
                # The first waits for another to lead.
                changes.make(connection, number)
                transfers.go_on()
                cluster.start_process(leader)
                cluster.wait_until_whole()
                assert cluster.leading_driver() != leader
            changes.make(one, 2)
            assert [changes.told[kind, 2] for kind in ("table", "index", "column")] == ["made"] * 3
            transfers.go_on()
        transfers.check([one, other])
        changes.check([one, other])
        for connection in one, other:
            found, plan = rows_by_index(connection)
            assert "receipts_" in plan, plan
            assert found == set(connection.execute("select writer, n from receipts").fetchall())


# --- A machine's link is down ----------------------------------------------------------------------


@pytest.fixture
def apart():
    """A cluster whose machines can be cut off: a store on each, and the placement driver on h1."""
    if why := delay.missing():
        pytest.skip(why)
    cluster = Cluster(tempfile.mkdtemp(prefix="froglet-test-apart-"), linked=True, delay=0)
    try:
        yield cluster.start()
    finally:
        cluster.remove()


def connect_on(cluster, name):
    """How a client on the same machine as a gateway connects: its thread stays there."""
    def connect():
        with cluster.namespace(name) as namespace:
            if namespace is not None:
                delay.enter(namespace)
        return connect_to(cluster.ip(name), cluster.ports[name]["listen"], password=PASSWORD)

    return connect


def test_a_machine_is_cut_off_and_comes_back(apart):
    """With a gateway and a store, which leads all regions."""
    names = ["gateway1", "gateway2"]
    for n in 1, 2:
        apart.start_gateway(n, Froglet.binary(), "faults")
    # From here, where all can be reached before and after.
    one, other = (connect_to(apart.ip(name), apart.ports[name]["listen"], password=PASSWORD) for name in names)
    with one, other:
        make_bank(one)
        for region in apart.regions():
            apart.transfer_leader(region.id, 2)
        transfers = Transfers([connect_on(apart, name) for name in names])
        with transfers:
            transfers.go_on()
            transfers.look_from_now()
            apart.cut("h2")
            back = time.monotonic() + DOWN_SECONDS
            transfers.go_on(0, count=50)
            wait_until(lambda: transfers.all_are_told(1, AWAY), "the one that is cut off says so", TOLD_SECONDS)
            wait_until(lambda: time.monotonic() > back, "the link is down", DOWN_SECONDS + 1)
            transfers.go_on(0)
            apart.restore("h2")
            transfers.go_on()
            apart.wait_until_whole()
            transfers.go_on()
        transfers.check([one, other])


# --- All stores are gone ---------------------------------------------------------------------------

#: What is done before they go, and what after.
STATEMENTS = {
    "reads": ([], "select sum(money) from bank"),
    "writes": (["begin", "select from bank where id = 2"], "update bank set money = 0 where id = 2"),
    "adds a key": (["begin", "select from bank where id = 3"], "insert into receipts values (1, 1, 3, 3)"),
    "commits": (["begin", "update bank set money = 0 where id = 4"], "commit"),
    "waits": ([], "update bank set money = 0 where id = 1"),
}


def test_whoever_waits_for_stores_that_are_gone_is_told_in_time(cluster, gateways):
    [connect] = connects(gateways(1))
    told = {}

    def client(name, connection, statement):
        try:
            connection.execute(statement)
            told[name] = "done"
        except psycopg.Error as error:
            told[name] = error.sqlstate

    with contextlib.ExitStack() as stack:
        holder, *connections = [stack.enter_context(connect()) for _ in range(len(STATEMENTS) + 1)]
        make_bank(holder)
        clients = {}
        for connection, (name, (before, statement)) in zip(connections, STATEMENTS.items()):
            for each in before:
                connection.execute(each)
            clients[name] = threading.Thread(target=client, args=(name, connection, statement))
        holder.execute("begin")
        holder.execute("update bank set money = 0 where id = 1")
        clients["waits"].start()
        time.sleep(0.5)
        assert not told, "it waits for the holder"
        for n in cluster.stores:
            cluster.kill_store(n)
        for name in STATEMENTS.keys() - {"waits"}:
            clients[name].start()
        try:
            wait_until(lambda: len(told) == len(STATEMENTS), "all are told", ANSWER_SECONDS)
        except AssertionError as error:
            raise AssertionError(f"{error}: {told}") from None
        finally:
            holder.close()
            for n in cluster.stores:
                cluster.start_store(n)
            for thread in clients.values():
                thread.join(100)
        assert told == dict.fromkeys(STATEMENTS, "08006")
    cluster.wait_until_whole()
    with connect() as connection:
        # What the dead connections held is given back.
        wait_until(lambda: total(connection) == TOTAL, "it goes on by itself")
        assert connection.execute("select * from receipts").fetchall() == []
        connection.execute("update bank set money = money")


# --- Stores are full -------------------------------------------------------------------------------


class SmallDisks(Cluster):
    """Each store's data in a file system of its own, in memory, where there can be one; `lacking` says why not."""

    lacking = None

    def data(self, n):
        return self.directory / f"store{n}/data"

    def start_process(self, name):
        data = self.directory / name / "data"
        if name.startswith("store") and not self.lacking and not data.is_mount():
            data.mkdir(parents=True, exist_ok=True)
            self.lacking = mount("-t", "tmpfs", "-o", f"size={DISK}", "froglet-test", data)
        super().start_process(name)

    def fill(self, n):
        """Leaves room for next to nothing but what it has reserved: the rest of a file of its log, 16 MB at most."""
        status = os.statvfs(self.data(n))
        self.resize(n, (status.f_blocks - status.f_bfree) * status.f_frsize + LEFT)

    def resize(self, n, size=DISK):
        assert (why := mount("-o", f"remount,size={size}", self.data(n))) is None, why

    def dies_full(self, n):
        """Waits until it has died of it, and takes note, so that others can be waited for."""
        wait_until(lambda: self.pid(f"store{n}") is None, f"store{n} has died", 60)
        assert "no space left on device" in self.tail(f"store{n}"), self.tail(f"store{n}")
        self.kill_store(n)

    def remove(self):
        for name in self.all_names():
            self.kill(name)
        for n in self.stores:
            if self.data(n).is_mount():
                subprocess.run(["umount", "--lazy", self.data(n)], check=True)
        super().remove()


def mount(*words):
    """What mount has against it, or None."""
    try:
        done = subprocess.run(["mount", *map(str, words)], text=True, capture_output=True)
    except FileNotFoundError as error:
        return str(error)
    return done.stderr.strip() or "mount failed" if done.returncode else None


def write_until(connect, condition):
    """Writes 400 kB at a time until there is an answer, whatever is said meanwhile; what that was."""
    told = set()
    for _ in range(100):
        if condition():
            return told
        try:
            # A new one each time: a commit in doubt ends the connection.
            with connect() as connection:
                connection.execute("insert into much select repeat('much', 25000) from generate_series(1, 4)")
        except psycopg.Error as error:
            told.add(error.sqlstate)
    raise AssertionError("40 MB are on a disk that is full")


def test_stores_are_full(cluster, gateways):
    """First one of them, which leads, then all."""
    if cluster.lacking:
        pytest.skip(f"a file system that can be full cannot be had here: {cluster.lacking}")
    both = connects(gateways(2))
    with both[0]() as one, both[1]() as other:
        make_bank(one)
        one.execute("create table much (what text)")
        cluster.transfer_leader(cluster.region(b"tF").id, 1)
        transfers = Transfers(both)
        try:
            with transfers:
                transfers.go_on()
                cluster.fill(1)
                told = write_until(both[1], lambda: cluster.pid("store1") is None)
                cluster.dies_full(1)
                transfers.go_on(count=30)
                transfers.look_from_now()
                for n in 2, 3:
                    cluster.fill(n)
                # None is left that could go on if one of these two dies.
                told |= write_until(both[1], lambda: not cluster.pid("store2") or not cluster.pid("store3"))
                for at in 0, 1:
                    wait_until(lambda: transfers.all_are_told(at, SAID_FULL), "all clients are told", TOLD_SECONDS)
                for n in cluster.stores:
                    cluster.resize(n)
                    cluster.kill_store(n)
                    cluster.start_store(n)
                cluster.wait_until_whole()
                transfers.go_on()
        finally:
            for n in cluster.stores:
                cluster.resize(n)
        assert told <= SAID_FULL, told
        transfers.check([one, other])
