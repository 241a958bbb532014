"""What PD knows and decides: which store has which regions, who leads them, and where they are to be.

Stores are numbers here, from 1, as in the names of their directories; PD has numbers of its own for them.
"""

import json
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from datetime import datetime

import rpc

START_SECONDS = 90


class ClusterError(Exception):
    """What did not happen, and the last of the log of who is to blame."""


@dataclass(frozen=True)
class Region:
    """A range of keys: from `start` to before `end`, or without an end (None). Stores are numbers, from 1."""

    id: int
    start: bytes
    end: bytes | None
    leader: int | None
    peers: tuple[int, ...]
    # Peers that do not follow yet, or no longer.
    lagging: tuple[int, ...]

    def covers(self, key):
        return self.start <= key and (self.end is None or key < self.end)


class Placement:
    """The placement driver's side of a `Cluster`, which knows the addresses and can wait."""

    @property
    def drivers(self):
        """The names of PD's processes: pd, and pd2, pd3, … where there are several."""
        return ["pd", *(f"pd{n}" for n in range(2, self.driver_count + 1))]

    @property
    def pd(self):
        """PD's address, or its addresses with commas between them, which gateways are given: tikv://ADDRESS/NAME."""
        return ",".join(self.address(name, "client") for name in self.drivers)

    @property
    def stores(self):
        return range(1, self.count + 1)

    def wait_until_whole(self, seconds=START_SECONDS):
        """Every server runs and answers, every region has its peers and a leader, and PD gives timestamps."""
        self.wait("every driver is up", self.drivers_are_up, seconds)
        self.wait("every store is up", self.stores_are_up, seconds)
        self.wait("every region has its peers and a leader", self.regions_are_whole, seconds)
        self.wait("PD gives timestamps", self.timestamp, seconds)

    def drivers_are_up(self):
        """One that was killed is not to be missed if another is."""
        if self.driver_count == 1:
            return self.pd_answers()
        members = {member["name"]: member["health"] for member in self.get("health")}
        return self.pd_answers() and all(self.pid(name) and members.get(name) for name in self.drivers)

    def stores_are_up(self):
        ids = self.store_ids()
        if len(ids) < self.count:
            return False
        seen = {store["store"]["id"]: store for store in self.get("stores")["stores"]}
        for n in self.stores:
            if not self.pid(f"store{n}"):
                return False
            # A store that was killed counts as up for a while: what counts is a heartbeat since its start.
            since = (self.directory / f"store{n}/pid").stat().st_mtime
            store = seen[ids[n]]
            if store["store"]["state_name"] != "Up" or seconds_of(store["status"]["last_heartbeat_ts"]) < since:
                return False
            request(f"http://{self.address(f'store{n}', 'status')}/status")
        return True

    def regions_are_whole(self):
        regions = self.regions()
        covered = regions and regions[0].start == b"" and regions[-1].end is None and all(
            before.end == after.start for before, after in zip(regions, regions[1:]))
        peers = min(3, self.count)
        return covered and all(len(region.peers) == peers and region.leader and not region.lagging for region in regions)

    def timestamp(self):
        leader = self.leading_driver()
        if not leader:
            raise ClusterError("no driver leads")
        return rpc.timestamp(self.address(leader, "client"), self.get("cluster")["id"])

    # --- Regions and where they are ----------------------------------------------------------------

    def regions(self):
        """All of them by their keys, as PD knows them: a second behind at most, while all is well."""
        numbers = {store: n for n, store in self.store_ids().items()}
        found = []
        for region in self.get("regions").get("regions") or []:
            late = [peer["peer"] for peer in region.get("down_peers") or []] + (region.get("pending_peers") or [])
            end = rpc.decode_key(bytes.fromhex(region["end_key"]))
            found.append(Region(
                region["id"], rpc.decode_key(bytes.fromhex(region["start_key"])), end or None,
                numbers.get(region.get("leader", {}).get("store_id")),
                tuple(sorted(numbers.get(peer["store_id"], 0) for peer in region["peers"])),
                tuple(sorted({numbers.get(peer["store_id"], 0) for peer in late}))))
        return sorted(found, key=lambda region: region.start)

    def region(self, key):
        """The region that has a key."""
        return next(region for region in self.regions() if region.covers(key))

    def split(self, key):
        """Makes a key the first of a region, and returns that region. Asks again and again: a store that is about to lose
        the lead says that it has split, and has not."""
        def is_split():
            region = self.region(key)
            if region.start != key:
                known = self.get(f"region/id/{region.id}")
                rpc.split_region(self.address(f"store{region.leader}", "grpc"), known, known["leader"], key)
                region = self.region(key)
            return region.start == key and region.leader and region

        return self.wait(f"a region begins with {key!r}", is_split, pause=0.3)

    def transfer_leader(self, region_id, n, seconds=30):
        """Makes store n lead a region, and waits until it does. PD may move it again, unless it is pinned."""
        leads = lambda: any(region.id == region_id and region.leader == n for region in self.regions())
        if not leads():
            store = self.store_ids()[n]
            self.api("POST", "operators", {"name": "transfer-leader", "region_id": region_id, "to_store_id": store})
            self.wait(f"store{n} leads region {region_id}", leads, seconds)

    def pin_leaders(self, ranges, seconds=60):
        """The leaders of the regions in each (start, end, host) to that host, h1 for store1; of earlier ranges nothing is
        left. A region that reaches beyond its range stays where it is: split at both ends first."""
        rules = []
        for at, (start, end, host) in enumerate(ranges):
            keys = {"group_id": "froglet", "start_key": rpc.encode_key(start).hex(), "end_key": rpc.encode_key(end).hex()}
            for role, count, op in ("leader", 1, "in"), ("follower", min(3, self.count) - 1, "notIn"):
                rules.append(keys | {"id": f"{at}-{role}", "index": len(rules), "role": role, "count": count,
                                     "label_constraints": [{"key": "host", "op": op, "values": [host]}]})
        if not rules:
            self.api("DELETE", "config/placement-rule/froglet")
            return
        self.api("POST", "config/placement-rule/froglet",
                 {"group_id": "froglet", "group_index": 10, "group_override": True, "rules": rules})
        hosts = {f"h{n}": store for n, store in self.store_ids().items()}
        asked, answers = {}, {}

        def are_pinned():
            """PD may leave a leader where it is for a minute or more: it is asked for each by itself, too."""
            misplaced = [(region, host) for start, end, host in ranges for region in self.regions()
                         if start <= region.start and region.end is not None and region.end <= end and host != f"h{region.leader}"]
            for region, host in misplaced:
                if time.monotonic() - asked.get(region.id, 0) > 3:
                    asked[region.id] = time.monotonic()
                    order = {"name": "transfer-leader", "region_id": region.id, "to_store_id": hosts[host]}
                    try:
                        answers[region.id] = self.api("POST", "operators", order).strip()
                    except ClusterError as error:
                        answers[region.id] = str(error)  # One may be under way.
            if misplaced:
                region, host = misplaced[0]
                raise ClusterError(f"{region} is not led by {host}: {answers[region.id]}")
            return True

        self.wait("leaders are where they are pinned", are_pinned, seconds)

    # --- PD ----------------------------------------------------------------------------------------

    def api(self, method, path, body=None):
        """Asks one driver after the other until one has an answer: those that follow ask the one that leads."""
        for name in self.drivers:
            try:
                return request(f"http://{self.address(name, 'client')}/pd/api/v1/{path}", method, body)
            except (OSError, ClusterError):
                if name == self.drivers[-1]:
                    raise

    def get(self, path):
        return json.loads(self.api("GET", path))

    def pd_answers(self):
        return self.get("members").get("leader")

    def leading_driver(self):
        """The name of the driver that leads, or None. One that was killed may be named for some seconds."""
        return (self.pd_answers() or {}).get("name")

    def store_ids(self):
        """PD's numbers of the stores, by ours."""
        addresses = {self.address(f"store{n}", "grpc"): n for n in self.stores}
        found = {store["store"]["address"]: store["store"]["id"] for store in self.get("stores").get("stores") or []}
        return {n: found[address] for address, n in addresses.items() if address in found}


def request(url, method="GET", body=None):
    """One HTTP request; the text of its answer."""
    asked = urllib.request.Request(url, json.dumps(body).encode() if body is not None else None,
                                   {"Content-Type": "application/json"}, method=method)
    try:
        with urllib.request.urlopen(asked, timeout=10) as answer:
            return answer.read().decode()
    except urllib.error.HTTPError as error:
        raise ClusterError(f"{method} {url}: {error.code} {error.read().decode(errors='replace').strip()}") from error


def seconds_of(text):
    """PD's points in time, whose last digits are nanoseconds, in seconds since 1970."""
    whole, _, rest = text.partition(".")
    digits = rest.rstrip("Z").split("+")[0].split("-")[0]
    zone = rest[len(digits):] or text[19:]
    return datetime.fromisoformat(whole[:19] + "." + digits[:6].ljust(6, "0") + zone.replace("Z", "+00:00")).timestamp()
