"""Which machine each process of a cluster is on: all on this one's loopback, or on hosts that are apart, h1, h2 and h3.

Hosts that are apart are network namespaces with a hub between them, which `delay.py` is. PD, store 1 and gateway 1 are
on h1, the namespace of whoever starts the cluster; store n and gateway n are on hn.
"""

import contextlib
import os
import random
import string
import sys
from pathlib import Path

import delay
from placement import ClusterError

LOOPBACK = "127.0.0.1"
# Of the user postgres. A gateway wants one of whoever does not come from loopback.
PASSWORD = "froglet"


class Machines:
    """The side of a `Cluster` that knows where its processes are. `subnet`, 10.212.N, is None on loopback."""

    def host(self, name):
        """h2 for store2 and gateway2."""
        number = int(name.lstrip(string.ascii_lowercase) or 1)
        return f"h{(number - 1) % self.count + 1}"

    def ip(self, name):
        return f"{self.subnet}.{self.host(name)[1:]}" if self.subnet else LOOPBACK

    def address(self, name, use):
        """Where a process listens: address("store2", "status")."""
        return f"{self.ip(name)}:{self.ports[name][use]}"

    def passwords(self):
        """The environment in which a gateway listens beyond loopback."""
        if not self.subnet:
            return {}
        return {"FROGLET_AUTHENTICATION": f"host all all {self.subnet}.0/24 scram-sha-256",
                "FROGLET_SUPERUSER_PASSWORD": PASSWORD}

    # --- How far they are apart --------------------------------------------------------------------

    def set_delay(self, milliseconds):
        """From now on every packet between two hosts is so long under way."""
        self.delay = self.ask_hub(f"delay {milliseconds}")["delay_ms"]
        self.save()

    def cut(self, host):
        """The packets to and from a host are lost until `restore`."""
        self.ask_hub(f"cut {host}")

    def restore(self, host):
        self.ask_hub(f"restore {host}")

    # --- The hub -----------------------------------------------------------------------------------

    def check_machines(self):
        """Ends with what is missing, if the machines are to be apart and cannot be."""
        if self.delay is not None:
            if self.complete and not self.subnet:
                raise ClusterError(f"the cluster in {self.directory} is on loopback, and stays there: to have machines "
                                   "that are apart start one in another directory")
            if why := delay.missing():
                raise ClusterError(why)

    def start_hub(self):
        """Starts it without a delay, if there is to be one and it does not run."""
        if not self.subnet or self.pid("hub"):
            return
        # Their namespaces went with the hub: whoever is still in one is out of reach.
        for name in self.ports:
            if self.host(name) != "h1":
                self.kill(name)
        (self.directory / "hub").mkdir(parents=True, exist_ok=True)
        self.spawn("hub", [sys.executable, Path(delay.__file__), self.hub_socket, "--subnet", self.subnet,
                           "--hosts", self.count])
        self.wait("the hub answers", lambda: delay.ask(self.hub_socket, "state"))

    @property
    def hub_socket(self):
        return self.directory / "hub/socket"

    def ask_hub(self, command):
        if not self.subnet:
            raise ClusterError(f"the machines of {self.directory} are not apart: start a cluster with --delay MS")
        try:
            return delay.ask(self.hub_socket, command)
        except ValueError as error:
            raise ClusterError(str(error)) from error
        except OSError as error:
            raise ClusterError(f"the hub does not answer ({error}): servers.py start {self.directory}") from error

    @contextlib.contextmanager
    def namespace(self, name):
        """A file descriptor of the namespace that a process belongs in; None for the one that this process is in."""
        if not self.subnet or self.host(name) == "h1":
            yield None
            return
        namespace = os.open(self.ask_hub("state")["namespaces"][self.host(name)], os.O_RDONLY)
        try:
            yield namespace
        finally:
            os.close(namespace)

    def free_subnet(self):
        """10.212.N, with an N that nobody here has a route to. Of two clusters that choose the same one at once, one
        hub does not get its device, and that cluster starts over."""
        routes = Path("/proc/net/route").read_text().splitlines()[1:]
        # An address in hexadecimal, its last number first: 10.212 is the end.
        taken = {int(target[2:4], 16) for _, target, *_ in map(str.split, routes) if target.endswith("D40A")}
        return f"10.212.{random.choice([n for n in range(256) if n not in taken])}"
