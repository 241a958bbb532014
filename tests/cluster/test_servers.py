"""The servers alone: what a cluster for tests must do before Froglet can be blamed for anything."""

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import delay
import placement
import pytest
import rpc
import servers
from rpc import field

pytestmark = pytest.mark.without_froglet

KEYS = [b"ttest_servers_a", b"ttest_servers_b", b"ttest_servers_c"]


@pytest.fixture
def ranges(cluster):
    """Two regions of this file's: a to b, b to c."""
    for key in KEYS:
        cluster.split(key)
    return list(zip(KEYS, KEYS[1:]))


def test_a_cluster_is_whole(cluster):
    regions = cluster.regions()
    assert regions[0].start == b"" and regions[-1].end is None
    assert all(region.peers == (1, 2, 3) and region.leader in region.peers for region in regions), regions


def test_timestamps_rise(cluster):
    first, second = cluster.timestamp(), cluster.timestamp()
    assert 0 < first < second


def test_a_key_is_in_the_region_that_was_split_for_it(cluster, ranges):
    for start, end in ranges:
        region = cluster.region(start + b"x")
        assert (region.start, region.end) == (start, end)


def test_a_killed_store_is_replaced_as_leader_and_comes_back(cluster, ranges):
    region = cluster.region(KEYS[0])
    cluster.transfer_leader(region.id, 2)
    cluster.kill_store(2)
    cluster.wait("another store leads", lambda: cluster.region(KEYS[0]).leader in (1, 3))
    assert cluster.pid("store2") is None
    cluster.start_store(2)
    cluster.wait_until_whole()
    assert cluster.region(KEYS[0]).peers == (1, 2, 3)


def test_a_paused_store_loses_its_leaders(cluster, ranges):
    region = cluster.region(KEYS[0])
    cluster.transfer_leader(region.id, 3)
    cluster.pause("store3")
    cluster.wait("another store leads", lambda: cluster.region(KEYS[0]).leader in (1, 2))
    cluster.resume("store3")
    cluster.wait_until_whole()


def test_a_leader_is_moved(cluster, ranges):
    region = cluster.region(KEYS[0])
    for store in (1, 2, 3):
        cluster.transfer_leader(region.id, store)
        assert cluster.region(KEYS[0]).leader == store


def test_leaders_are_pinned(cluster, ranges):
    for hosts in ("h1", "h2"), ("h3", "h3"), ("h2", "h1"):
        cluster.pin_leaders([(*keys, host) for keys, host in zip(ranges, hosts)])
        assert [f"h{cluster.region(key).leader}" for key in KEYS[:2]] == list(hosts)


def test_a_killed_placement_driver_comes_back_with_later_timestamps(cluster):
    before, regions = cluster.timestamp(), cluster.regions()
    cluster.kill_pd()
    cluster.start_pd()
    cluster.wait_until_whole()
    assert cluster.timestamp() > before
    assert [(region.id, region.start) for region in cluster.regions()] == [(region.id, region.start) for region in regions]


def ask(cluster, method, key, body):
    """One call of TiKV's protocol to the leader of a key's region, which must take it; the answer's fields."""
    region = cluster.region(key)
    known, address = cluster.get(f"region/id/{region.id}"), f"127.0.0.1:{cluster.ports[f'store{region.leader}']['grpc']}"
    context = field(1, rpc.context(known, known["leader"]))
    answer = rpc.fields(rpc.call(address, f"/tikvpb.Tikv/{method}", context + body))
    assert 1 not in answer, answer
    return answer


def test_a_killed_store_remembers_locks_and_no_others(cluster, ranges):
    """Each of a transaction that is under way, one that was rolled back, one that was committed."""
    keys = locked, rolled_back, committed = [KEYS[0] + name for name in (b"locked", b"rolled back", b"committed")]
    at = {}
    for key in keys:
        at[key] = cluster.timestamp()
        mutation = field(2, key) + field(3, b"value")
        answer = ask(cluster, "KvPrewrite", key, field(2, mutation) + field(3, key) + field(4, at[key]) + field(5, 600_000))
        assert 2 not in answer, answer
    ask(cluster, "KvBatchRollback", rolled_back, field(2, at[rolled_back]) + field(3, rolled_back))
    ask(cluster, "KvCommit", committed, field(2, at[committed]) + field(3, committed) + field(4, cluster.timestamp()))
    for store in (1, 2, 3):
        cluster.kill_store(store)
        cluster.start_store(store)
        cluster.wait_until_whole()
        cluster.transfer_leader(cluster.region(KEYS[0]).id, store)
        found = [ask(cluster, "KvGet", key, field(2, key) + field(3, cluster.timestamp())) for key in keys]
        assert [2 in answer for answer in found] == [True, False, False], found
        assert [answer.get(3) for answer in found] == [None, None, b"value"], found
    ask(cluster, "KvBatchRollback", locked, field(2, at[locked]) + field(3, locked))


def command(cluster, *words):
    """What `servers.py COMMAND DIR …` prints."""
    name, *rest = words
    done = subprocess.run([sys.executable, servers.__file__, name, cluster.directory, *rest], text=True,
                          capture_output=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def seconds_of_a_request(cluster, name):
    """A connection and a request on it to a store's status port."""
    began = time.monotonic()
    placement.request(f"http://{cluster.address(name, 'status')}/status")
    return time.monotonic() - began


def namespaces():
    """The network namespaces that any process is in."""
    found = set()
    for link in Path("/proc").glob("[0-9]*/ns/net"):
        try:
            found.add(os.readlink(link))
        except OSError:
            pass  # It has ended meanwhile.
    return found


def test_machines_are_apart():
    """By the commands of servers.py, which a benchmark uses, on a cluster of its own. Nothing of it is left."""
    if why := delay.missing():
        pytest.skip(why)
    cluster = servers.Cluster(tempfile.mkdtemp(prefix="froglet-test-apart-"), linked=True, delay=20)
    try:
        cluster.start()
        pids = {name: cluster.pid(name) for name in ("hub", *cluster.names())}
        homes = {name: os.readlink(f"/proc/{pid}/ns/net") for name, pid in pids.items()}
        assert homes["hub"] == homes["pd"] == homes["store1"] == os.readlink("/proc/self/ns/net")
        assert len({homes["store1"], homes["store2"], homes["store3"]}) == 3
        device = f"froglet{cluster.subnet.split('.')[2]}"
        assert Path("/sys/class/net", device).exists()

        # A round trip for the connection and one for the request.
        for milliseconds in 20, 60, 1:
            command(cluster, "delay", str(milliseconds))
            assert all(seconds_of_a_request(cluster, name) >= 4 * milliseconds / 1000 for name in ("store2", "store3"))
        assert "1 ms one way" in command(cluster, "status")

        first, end = (key.hex() for key in KEYS[:2])
        command(cluster, "split", first, end)
        command(cluster, "pin", f"{first}:{end}:h2")
        regions = [json.loads(line) for line in command(cluster, "regions").splitlines()]
        assert [(region["end"], region["leader"]) for region in regions if region["start"] == first] == [(end, 2)]
        assert regions[0]["start"] == "" and regions[-1]["end"] is None

        command(cluster, "cut", "h2")
        with pytest.raises(TimeoutError):
            socket.create_connection((cluster.ip("store2"), cluster.ports["store2"]["status"]), 1)
        seconds_of_a_request(cluster, "store3")
        cluster.wait("another store leads", lambda: cluster.region(KEYS[0]).leader in (1, 3))
        command(cluster, "restore", "h2")
        cluster.wait_until_whole()

        command(cluster, "kill", "store3")
        assert cluster.pid("store3") is None
        # What was in namespaces of a hub that is gone is started anew, in others.
        cluster.kill("hub")
        cluster.start()
        assert seconds_of_a_request(cluster, "store2") >= 4 * 1 / 1000
        homes |= {name: os.readlink(f"/proc/{cluster.pid(name)}/ns/net") for name in ("store2", "store3")}
        pids |= {f"new {name}": cluster.pid(name) for name in ("hub", "store2", "store3")}
    finally:
        cluster.remove()
    assert not [pid for pid in pids.values() if Path(f"/proc/{pid}").exists()]
    assert not {homes["store2"], homes["store3"]} & namespaces()
    assert not Path("/sys/class/net", device).exists() and not cluster.directory.exists()
