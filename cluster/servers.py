#!/usr/bin/env python3
"""A cluster for Froglet's gateways on one machine: a placement driver (PD) and stores that speak TiKV's protocol.

    servers.py build              makes the two programs, once
    servers.py start DIR          a fresh cluster in DIR, or again the one that is there
    servers.py status DIR         what runs, where, and in how much memory
    servers.py stop DIR           stops all of it; the data stays
    servers.py start DIR --delay 10.95      one whose machines are apart, each packet so many ms under way

`Cluster` is the same for tests, and can kill and pause what it has started. DIR/cluster.json says where everything is;
each process has a directory with its configuration, its pid and its log.
"""

import argparse
import ctypes
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import quote

sys.path.insert(0, str(Path(__file__).resolve().parent))
import binaries
import delay
import rpc
from machines import LOOPBACK, PASSWORD, Machines
from placement import START_SECONDS, ClusterError, Placement

ATTEMPTS = 6
STOP_SECONDS = 20
# Below the ports that the kernel gives to clients, and below those of tests/support/processes.py.
PORTS = range(10_000, 15_000)
# By the beginning of a process's name.
PROGRAMS = {"pd": "pd-server", "store": "unistore-server", "gateway": "froglet", "hub": "python"}

PD_TOML = """\
[log]
level = "warn"
[pd-server]
dashboard-address = "none"
[replication]
max-replicas = 3
location-labels = ["host"]
[schedule]
# Regions that a test has split stay split.
max-merge-region-size = 0
hot-regions-reserved-days = 0
"""

STORE_TOML = """\
[server]
pd-addr = "{pd}"
store-addr = "{address}"
status-addr = "{status}"
log-level = "warn"
max-procs = 2
raft = true
[raftstore]
pd-heartbeat-tick-interval = "1s"
raft-base-tick-interval = "100ms"
raft-store-max-leader-lease = "900ms"
raft-heartbeat-ticks = 2
raft-election-timeout-ticks = 10
# With true a store that starts again has forgotten the locks of transactions under way: they can be lost by halves.
custom-raft-log = false
[engine]
db-path = "{data}"
vlog-file-size = 16777216
# Also the most that one batch of Raft's log may have: a store dies of a larger one.
max-mem-table-size = 16777216
num-mem-tables = 2
num-compactors = 1
[coprocessor]
region-max-keys = 1440000
region-split-keys = 960000
"""


class Cluster(Placement, Machines):
    """The processes in a directory. `linked` ones die with the process that started them, as those of tests should.
    With a `delay` they are on machines that are apart: a packet is so many milliseconds under way, one way. With three
    `drivers` one of them can be lost."""

    def __init__(self, directory, stores=3, say=print, linked=False, delay=None, drivers=1):
        self.directory = Path(directory).resolve()
        self.count, self.driver_count, self.say, self.linked = stores, drivers, say, linked
        self.children, self.made = {}, {}
        self.file = self.directory / "cluster.json"
        self.ports, self.complete = {}, False
        self.delay, self.subnet = delay, None
        if self.file.exists():
            said = json.loads(self.file.read_text())
            self.ports, self.complete = said["ports"], said["complete"]
            if network := said.get("network"):
                self.subnet = network["subnet"]
                self.delay = network["delay_ms"] if delay is None else delay
            self.count, self.driver_count = (
                sum(name.startswith(kind) for name in self.ports) for kind in ("store", "pd"))

    # --- As a whole --------------------------------------------------------------------------------

    def names(self):
        return [*self.drivers, *(f"store{n}" for n in self.stores)]

    def start(self):
        """A cluster that is whole: fresh, or, where there is one already, its servers that do not run."""
        self.check_machines()
        self.made = binaries.build(self.say)
        began = time.monotonic()
        if self.complete:
            self.start_hub()
            for name in self.names():
                self.start_process(name)
            self.wait_until_whole()
        else:
            self.start_fresh()
        if self.subnet:
            self.set_delay(self.delay)
        self.say(f"whole after {time.monotonic() - began:.1f} s: {len(self.regions())} regions, PD at {self.pd}")
        return self

    def start_fresh(self):
        if self.ports:  # A start that was broken off.
            self.stop()
            self.wipe()
        elif self.directory.exists() and any(self.directory.iterdir()):
            raise ClusterError(f"{self.directory} has files that are no cluster's: name another directory")
        for attempt in range(1, ATTEMPTS + 1):
            self.take_ports()
            try:
                self.start_first()
                self.complete = True
                return self.save()
            except ClusterError as error:
                self.stop()
                if attempt == ATTEMPTS:
                    raise
                self.wipe()
                self.say(f"{str(error).splitlines()[0]}; starting over with empty directories ({attempt} of {ATTEMPTS})")
            except BaseException:
                self.stop()
                raise

    def start_first(self):
        self.start_hub()
        for name in self.drivers:
            self.start_process(name)
        self.say(f"PD at {self.pd}, its log in {self.directory / 'pd/log'}")
        self.wait("PD answers", self.pd_answers)
        self.start_process("store1")
        # Not until a store has made the first region does PD let itself be told anything about regions.
        self.wait("store1 has made the first regions", lambda: self.get("regions").get("count"))
        # PD would split the regions that TiKV's keyspaces begin in, over and over: unistore cannot. They kept one peer.
        self.api("DELETE", f"config/region-label/rule/{quote('keyspaces/0', safe='')}")
        for n in self.stores[1:]:
            self.start_process(f"store{n}")
        ids = self.wait("PD knows the stores", lambda: len(self.store_ids()) == self.count and self.store_ids())
        for n, store in ids.items():
            self.api("POST", f"store/{store}/label", {"host": f"h{n}"})
        self.say(f"{self.count} stores started, waiting for peers of every region on them")
        self.wait_until_whole()

    def stop(self):
        """Stops what runs, gateways first; what does not run is left in peace."""
        if not self.directory.exists():
            return
        found = sorted(path.parent.name for path in self.directory.glob("*/pid"))
        for kind in ("gateway", "store", "pd", "hub"):
            for name in (name for name in found if name.startswith(kind)):
                self.signal(name, signal.SIGCONT)
                self.signal(name, signal.SIGTERM)
            for name in (name for name in found if name.startswith(kind)):
                self.ended(name, STOP_SECONDS) or self.kill(name)
        self.save()

    def remove(self):
        """Stops it, and takes its files away."""
        for name in self.all_names():
            self.kill(name)
        shutil.rmtree(self.directory, ignore_errors=True)

    def wipe(self):
        for name in [*self.names(), "hub"]:
            shutil.rmtree(self.directory / name, ignore_errors=True)
        self.file.unlink(missing_ok=True)
        self.ports, self.complete, self.subnet = {}, False, None

    # --- Its processes -----------------------------------------------------------------------------

    def kill_store(self, n):
        """kill -9; its data stay."""
        self.kill(f"store{n}")

    def start_store(self, n):
        self.start_process(f"store{n}")

    def kill_pd(self, name="pd"):
        self.kill(name)

    def start_pd(self, name="pd"):
        """Returns once PD answers, which it does when the lease it had has run out."""
        self.start_process(name)
        self.wait("PD answers", self.pd_answers)
        self.wait("PD gives timestamps", self.timestamp)

    def pause(self, name):
        """Stops a process without its peers being told: pd, store1, …"""
        if not self.signal(name, signal.SIGSTOP):
            raise ClusterError(f"{name} does not run")

    def resume(self, name):
        self.signal(name, signal.SIGCONT)

    def kill(self, name):
        self.signal(name, signal.SIGKILL)
        if not self.ended(name, STOP_SECONDS):
            raise ClusterError(f"{name} does not die of SIGKILL")
        self.save()

    def start_process(self, name):
        """Starts a server of this cluster, if it does not run."""
        if self.pid(name):
            return
        self.made = self.made or binaries.build(self.say)
        directory = self.directory / name
        config = directory / f"{name}.toml"
        (directory / "data").mkdir(parents=True, exist_ok=True)
        if name in self.drivers:
            config.write_text(PD_TOML)
            peers = {driver: f"http://{self.address(driver, 'peer')}" for driver in self.drivers}
            command = [self.made["pd-server"], "--name", name, "--config", config, "--data-dir", directory / "data",
                       "--client-urls", f"http://{self.address(name, 'client')}", "--peer-urls", peers[name],
                       "--initial-cluster", ",".join(f"{driver}={url}" for driver, url in peers.items())]
        else:
            config.write_text(STORE_TOML.format(
                pd=self.pd, address=self.address(name, "grpc"), status=self.address(name, "status"),
                data=directory / "data"))
            command = [self.made["unistore-server"], "--config", config]
        self.spawn(name, command)

    def start_gateway(self, n, froglet, database="froglet"):
        """`froglet serve` whose tables are in the cluster; its address."""
        name, url = f"gateway{n}", f"tikv://{self.pd}/{database}"
        if pid := self.pid(name):
            if url not in Path(f"/proc/{pid}/cmdline").read_text().split("\0"):
                raise ClusterError(f"{name} runs with another database than {database}: kill it first")
        elif not Path(froglet).is_file():
            raise ClusterError(f"there is no program {froglet} for a gateway: cargo build -p froglet makes one")
        else:
            port = self.ports.setdefault(name, {}).setdefault("listen", self.free_port())
            (self.directory / name).mkdir(exist_ok=True)
            self.spawn(name, [Path(froglet).resolve(), "serve", "--store", url, "--listen", f"{self.ip(name)}:{port}",
                              "--data", self.directory / name / "data"], self.passwords())
        address = (self.ip(name), self.ports[name]["listen"])
        self.wait(f"{name} listens", lambda: socket.create_connection(address, 1).close() is None)
        return self.address(name, "listen")

    def gateways(self):
        return [name for name in self.ports if name.startswith("gateway")]

    def all_names(self):
        return [*self.ports, *(["hub"] if self.subnet else [])]

    def spawn(self, name, command, environment={}):
        with open(self.directory / name / "log", "ab") as log, self.namespace(name) as namespace:
            def prepare():
                if self.linked:
                    die_with_parent()
                if namespace is not None:
                    delay.enter(namespace)

            child = subprocess.Popen(
                [str(word) for word in command], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True, env=os.environ | environment,
                preexec_fn=prepare if self.linked or namespace is not None else None)
        self.children[name] = child
        (self.directory / name / "pid").write_text(f"{child.pid}\n")
        self.save()

    def pid(self, name):
        """The process's number while it runs. Numbers are used again: it must be this program with this directory."""
        if name in self.children:
            self.children[name].poll()  # The dead are not to be taken for living.
        try:
            pid = int((self.directory / name / "pid").read_text())
            words = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
        except (OSError, ValueError):
            return None
        own = Path(words[0]).name.startswith(PROGRAMS[name.rstrip("0123456789")])
        return pid if own and any(word.startswith(f"{self.directory / name}/") for word in words) else None

    def signal(self, name, number):
        if pid := self.pid(name):
            os.kill(pid, number)
        return pid

    def ended(self, name, seconds):
        deadline = time.monotonic() + seconds
        while self.pid(name):
            if time.monotonic() > deadline:
                return False
            time.sleep(0.02)
        if child := self.children.pop(name, None):
            child.wait()
        (self.directory / name / "pid").unlink(missing_ok=True)
        return True

    def resident_bytes(self, name):
        pages = Path(f"/proc/{self.pid(name)}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    def memory(self):
        """A line that says who takes how much memory."""
        used = {name: self.resident_bytes(name) >> 20 for name in [*self.names(), *self.gateways()] if self.pid(name)}
        return f"memory: {sum(used.values())} MB (" + ", ".join(f"{name} {size}" for name, size in used.items()) + ")"

    def tail(self, name, lines=30):
        """The last of a process's log; where a server of Go's has died, what it said first."""
        log = self.directory / name / "log"
        text = log.read_text(errors="replace").splitlines() if log.exists() else []
        panics = [at for at, line in enumerate(text) if line.startswith(("panic:", "fatal error:"))]
        return "\n".join(text[panics[-1]:][:lines] if panics else text[-lines:])

    def wait(self, what, condition, seconds=START_SECONDS, pause=0.1):
        """Asks until the answer is yes, and returns it. Ends at once if a server has died by itself."""
        deadline = time.monotonic() + seconds
        why = ""
        while True:
            try:
                if answer := condition():
                    return answer
            except (OSError, rpc.RpcError, ClusterError) as error:
                why = f" ({error})"
            for name, child in self.children.items():
                if child.poll() is not None:
                    raise ClusterError(f"{name} has died: {self.tail(name)}")
            if time.monotonic() > deadline:
                raise ClusterError(f"not within {seconds} s: {what}{why}")
            time.sleep(pause)

    # --- Its files ---------------------------------------------------------------------------------

    def take_ports(self):
        self.ports = {}
        self.subnet = None if self.delay is None else self.free_subnet()
        for name in self.names():
            self.ports[name] = {}
            for use in ("client", "peer") if name in self.drivers else ("grpc", "status"):
                self.ports[name][use] = self.free_port()

    def free_port(self):
        """A port of loopback that nobody listens on, at random, so that clusters that start together do not meet. Hosts
        that are apart are the cluster's own."""
        taken = {port for ports in self.ports.values() for port in ports.values()}
        for port in random.sample(PORTS, len(PORTS)):
            with socket.socket() as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    probe.bind((LOOPBACK, port))
                except OSError:
                    continue
            if port not in taken:
                return port
        raise ClusterError(f"no port between {PORTS[0]} and {PORTS[-1]} is free")

    def save(self):
        if not self.ports:
            return
        self.directory.mkdir(parents=True, exist_ok=True)
        said = {"pd": self.pd, "complete": self.complete, "ports": self.ports,
                "pids": {name: self.pid(name) for name in self.all_names()}}
        if self.subnet:
            said["network"] = {"subnet": self.subnet, "delay_ms": self.delay}
        new = self.file.with_suffix(".new")
        new.write_text(json.dumps(said, indent=2) + "\n")
        new.rename(self.file)


def die_with_parent():
    """Runs in the child: the kernel kills it when the one that started it is gone, however it went."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


# --- The command line ------------------------------------------------------------------------------


def main():
    options = arguments().parse_args()
    say = lambda line: print(line, flush=True)
    try:
        if options.command == "build":
            for path in binaries.build(say).values():
                say(path)
            return 0
        new = {name: getattr(options, name) for name in ("stores", "drivers", "delay") if hasattr(options, name)}
        cluster = Cluster(options.directory, say=say, **new)
        if options.command not in ("start", "stop", "status") and not cluster.complete:
            raise ClusterError(f"no cluster in {cluster.directory}: servers.py start {cluster.directory}")
        return obey(cluster, options, say)
    except (ClusterError, rpc.RpcError, binaries.BuildError) as error:
        print(error, file=sys.stderr)
        return 1


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("build", help="make pd-server and unistore-server")

    def command(name, what):
        added = commands.add_parser(name, help=what, description=what)
        added.add_argument("directory", metavar="DIR")
        return added

    start = command("start", "start a cluster")
    start.add_argument("--stores", type=int, default=3, help="so many stores, if the cluster is a new one [3]")
    start.add_argument("--drivers", type=int, default=1, help="and so many placement drivers, an odd number [1]")
    start.add_argument("--delay", type=checked(delay.milliseconds), metavar="MS",
                       help="on machines that are apart: a packet is so many ms under way, one way [all on loopback]")
    start.add_argument("--gateways", type=int, default=0, help="and so many gateways [0]")
    start.add_argument("--froglet", help="the gateways' program")
    command("stop", "stop it, data stay")
    command("status", "say what runs")
    gateway = command("gateway", "start a gateway if it does not run; print its address")
    gateway.add_argument("number", type=int, metavar="N", help="on which machine, too: N on hN")
    gateway.add_argument("--froglet", required=True, help="its program")
    gateway.add_argument("--database", default="froglet", help="[froglet]")
    command("kill", "kill -9; start starts it again").add_argument("name", help="pd, store1, gateway1, …")
    command("delay", "have a packet between two machines under way for so long").add_argument(
        "milliseconds", type=checked(delay.milliseconds), metavar="MS")
    for name, what in ("cut", "lose all packets to and from a machine"), ("restore", "lose them no more"):
        command(name, what).add_argument("host", help="h1, h2 or h3")
    command("regions", "print a line of JSON for each region; stores are numbers")
    command("split", "make each key the first of a region, and print these regions").add_argument(
        "keys", type=checked(bytes.fromhex), nargs="+", metavar="HEXKEY")
    command("pin", "have the leaders of ranges of keys on hosts; nothing is left of earlier pins").add_argument(
        "ranges", type=checked(pinned_range), nargs="*", metavar="START:END:HOST", help="74616263:74616264:h2")
    return parser


def checked(convert):
    """For an option: what `convert` has against its value is said to the user."""
    def converted(text):
        try:
            return convert(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(f"{text!r}: {error}") from None
    return converted


def pinned_range(text):
    if text.count(":") != 2:
        raise ValueError("START:END:HOST is needed, keys in hexadecimal")
    start, end, host = text.split(":")
    return bytes.fromhex(start), bytes.fromhex(end), host


def obey(cluster, options, say):
    match options.command:
        case "start":
            if options.gateways and not options.froglet:
                raise ClusterError("--gateways needs --froglet PROGRAM")
            cluster.start()
            addresses = [cluster.start_gateway(n, options.froglet) for n in range(1, options.gateways + 1)]
            say(cluster.memory())
            for address in addresses:
                host, port = address.split(":")
                password = f"PGPASSWORD={PASSWORD} " if cluster.subnet else ""
                say(f"{password}psql -h {host} -p {port} -U postgres postgres")
        case "stop":
            cluster.stop()
            say(f"nothing runs in {cluster.directory}")
        case "status":
            return status(cluster, say)
        case "gateway":
            say(cluster.start_gateway(options.number, options.froglet, options.database))
        case "kill":
            if options.name not in cluster.all_names():
                raise ClusterError(f"there is no {options.name}: {', '.join(cluster.all_names())}")
            cluster.kill(options.name)
        case "delay":
            cluster.set_delay(options.milliseconds)
        case "cut":
            cluster.cut(options.host)
        case "restore":
            cluster.restore(options.host)
        case "regions":
            for region in cluster.regions():
                say(line_of(region))
        case "split":
            for key in options.keys:
                say(line_of(cluster.split(key)))
        case "pin":
            cluster.pin_leaders(options.ranges)
    return 0


def line_of(region):
    return json.dumps({"id": region.id, "start": region.start.hex(), "end": region.end and region.end.hex(),
                       "leader": region.leader, "peers": region.peers})


def status(cluster, say):
    """0 if all of it runs and is whole."""
    if not cluster.ports:
        say(f"no cluster in {cluster.directory}")
        return 1
    for name in cluster.all_names():
        runs = f"pid {cluster.pid(name)}" if cluster.pid(name) else "does not run"
        say(f"{name}: {runs}" + "".join(f", {use} {cluster.address(name, use)}" for use in cluster.ports.get(name, {})))
    say(cluster.memory())
    try:
        if cluster.pid("hub"):
            state = cluster.ask_hub("state")
            say(f"{state['delay_ms']:g} ms one way between hosts; cut: {', '.join(state['cut']) or 'none'}")
        for region in cluster.regions():
            say(f"region {region.id}: {region.start!r} to {region.end!r}, peers on {region.peers}, leader {region.leader}"
                + (f", lagging {region.lagging}" if region.lagging else ""))
        whole = cluster.stores_are_up() and cluster.regions_are_whole()
    except (OSError, ClusterError) as error:
        say(f"not whole: {error}")
        return 1
    say("whole" if whole else "not whole")
    return 0 if whole else 1


if __name__ == "__main__":
    sys.exit(main())
