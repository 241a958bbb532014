#!/usr/bin/env python3
"""Machines that are apart, on one machine: a hub between network namespaces that passes every packet on a while later.

            h1: the namespace of whoever starts the hub      h2: a namespace of its own      h3 …
                10.212.N.1 on a TUN device                       10.212.N.2                      10.212.N.3
                       └──────────────────── hub: each packet waits DELAY ms ────────────────────┘

    delay.py SOCKET --subnet 10.212.N --hosts 3 --delay MS

The delay is constant, and one way; a host's link can be cut. Commands come by datagrams to the Unix socket: `state`,
`delay MS`, `cut h2`, `restore h2`; each is answered with the state that is then in force. The namespaces have no names:
they are entered through the hub's file descriptors. So nothing is left of them, nor of the devices, when the hub and what
runs in them have ended, however they ended.
"""

import argparse
import collections
import ctypes
import errno
import fcntl
import json
import os
import select
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path

TUN = "/dev/net/tun"
TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 1, 0x1000
CLONE_NEWNET, PR_SET_TIMERSLACK = 0x40000000, 29
CAP_NET_ADMIN, CAP_SYS_ADMIN = 12, 21
# As between machines. A larger one would spare the hub work, and TCP the round trips of its slow start.
MTU = 1500
# Packets that wait while the hub does not get a processor: what does not fit is lost.
DEVICE_QUEUE = 10_000
BATCH = 64
LIBC = ctypes.CDLL(None, use_errno=True)


# --- For those who ask it --------------------------------------------------------------------------


def missing():
    """Why no hub can run here, or None."""
    held = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("CapEff:"))
    bits = int(held.split()[1], 16)
    lacking = [name for name, bit in (("CAP_NET_ADMIN", CAP_NET_ADMIN), ("CAP_SYS_ADMIN", CAP_SYS_ADMIN))
               if not bits >> bit & 1]
    why = None
    if lacking:
        why = f"this process lacks {' and '.join(lacking)}: run it as root, in a container with --privileged"
    else:
        try:
            os.close(os.open(TUN, os.O_RDWR))
            subprocess.run(["ip", "-V"], check=True, capture_output=True)
        except FileNotFoundError as error:
            name = error.filename
            why = f"there is no {name}: " + ("modprobe tun" if name == TUN else "install iproute2")
        except OSError as error:
            why = f"{TUN} cannot be opened ({error.strerror}): in a container pass it in with --device {TUN}"
    return why and f"machines that are apart cannot be had here: {why}"


def ask(path, command, timeout=5.0):
    """The hub's state after a command: {"delay_ms": …, "cut": […], "namespaces": {"h2": path, …}}."""
    directory = os.open(path.parent, os.O_PATH)
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as asking:
            asking.bind("")  # To an address of the kernel's choice, for the answer.
            asking.settimeout(timeout)
            # Through the directory: a socket's path may have 107 bytes only.
            asking.sendto(command.encode(), f"/proc/self/fd/{directory}/{path.name}")
            answer = json.loads(asking.recv(65536))
    finally:
        os.close(directory)
    if "error" in answer:
        raise ValueError(answer["error"])
    return answer


def enter(namespace):
    """Puts this thread into a network namespace, given by a file descriptor."""
    check(LIBC.setns(namespace, CLONE_NEWNET), "setns")


def check(result, what):
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


# --- The hub ---------------------------------------------------------------------------------------


class Hub:
    def __init__(self, path, subnet, hosts, delay_ms):
        self.delay_ms, self.cut = delay_ms, set()
        self.waiting = collections.deque()  # (when it is due, device, packet), in the order they came
        self.control = listen(path)
        self.devices, self.addresses, self.namespaces = {}, {}, {}
        home = own_namespace()
        for number in range(1, hosts + 1):
            host, address = f"h{number}", f"{subnet}.{number}"
            if number > 1:
                check(LIBC.unshare(CLONE_NEWNET), "unshare")
                self.namespaces[host] = own_namespace()
                subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
            self.devices[host] = open_device(f"froglet{subnet.split('.')[2]}", address)
            self.addresses[host] = socket.inet_aton(address)
            enter(home)
        self.connect()

    def connect(self):
        """Who can send to whom: by a device, the devices that packets leave by, by their destination."""
        linked = [host for host in self.devices if host not in self.cut]
        self.routes = {device: {} for device in self.devices.values()}
        for host in linked:
            self.routes[self.devices[host]] = {
                self.addresses[other]: self.devices[other] for other in linked if other != host}

    def run(self):
        waiting, clock = self.waiting, time.monotonic
        sources = [self.control, *self.devices.values()]
        while True:
            now = clock()
            while waiting and waiting[0][0] <= now:
                _, device, packet = waiting.popleft()
                try:
                    os.write(device, packet)
                except OSError:
                    pass  # Lost, as packets may be.
            # Not epoll, which counts in milliseconds.
            patience = max(0.0, waiting[0][0] - clock()) if waiting else None
            for source in select.select(sources, (), (), patience)[0]:
                if source is self.control:
                    self.obey()
                    continue
                routes, delay = self.routes[source], self.delay_ms / 1000
                for _ in range(BATCH):
                    try:
                        packet = os.read(source, 65536)
                    except BlockingIOError:
                        break
                    # What is for nobody here, multicasts of IPv6 for one, has no route.
                    device = routes.get(packet[16:20]) if packet[0] >> 4 == 4 else None
                    if device is not None:
                        waiting.append((clock() + delay, device, packet))

    def obey(self):
        command, sender = self.control.recvfrom(1024)
        try:
            answer = self.do(command.decode().split())
        except ValueError as error:
            answer = {"error": str(error)}
        try:
            self.control.sendto(json.dumps(answer).encode(), sender)
        except OSError:
            pass  # Who asked has gone.

    def do(self, words):
        match words:
            case ["state"]:
                pass
            case ["delay", number]:
                # Packets under way keep their time, and those after them do not overtake them.
                self.delay_ms = milliseconds(number)
            case ["cut", host] if host in self.devices:
                self.cut.add(host)
                self.connect()
                gone = self.addresses[host]
                kept = [entry for entry in self.waiting if gone not in (entry[2][12:16], entry[2][16:20])]
                self.waiting.clear()
                self.waiting.extend(kept)
            case ["restore", host] if host in self.devices:
                self.cut.discard(host)
                self.connect()
            case ["cut" | "restore", host]:
                raise ValueError(f"there is no host {host}: {', '.join(self.devices)}")
            case _:
                raise ValueError(f"unknown command {' '.join(words)!r}: state, delay MS, cut HOST, restore HOST")
        return {"delay_ms": self.delay_ms, "cut": sorted(self.cut), "namespaces": {
            host: f"/proc/{os.getpid()}/fd/{namespace}" for host, namespace in self.namespaces.items()}}


def milliseconds(text):
    """A delay as a command or an option has it."""
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number <= 10_000:
        raise ValueError(f"a delay is a number of milliseconds from 0 to 10000, not {text}")
    return number


def listen(path):
    path.unlink(missing_ok=True)
    os.chdir(path.parent)  # A socket's path may have 107 bytes only.
    control = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    control.bind(path.name)
    return control


def own_namespace():
    return os.open("/proc/self/ns/net", os.O_RDONLY)


def open_device(name, address):
    """A TUN device in the namespace that this process is in, there for as long as it is open."""
    device = os.open(TUN, os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TUN | IFF_NO_PI))
    subprocess.run(["ip", "addr", "add", f"{address}/24", "dev", name], check=True)
    subprocess.run(["ip", "link", "set", name, "mtu", str(MTU), "txqueuelen", str(DEVICE_QUEUE), "up"], check=True)
    return device


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("socket", type=lambda text: Path(text).resolve())
    parser.add_argument("--subnet", required=True, help="the first three numbers of its addresses")
    parser.add_argument("--hosts", type=int, default=3)
    parser.add_argument("--delay", type=milliseconds, default=0.0, metavar="MS")
    options = parser.parse_args()
    if why := missing():
        sys.exit(why)
    try:
        hub = Hub(options.socket, options.subnet, options.hosts, options.delay)
    except OSError as error:
        in_use = f": {options.subnet} is in use by another cluster, stop that one" if error.errno == errno.EBUSY else ""
        sys.exit(f"the hub cannot start: {error}{in_use}")
    # It sleeps until a packet is due, to the microsecond, and goes before whoever keeps the machine busy.
    LIBC.prctl(PR_SET_TIMERSLACK, 1)
    os.setpriority(os.PRIO_PROCESS, 0, -20)
    hub.run()


if __name__ == "__main__":
    main()
