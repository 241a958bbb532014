"""Child processes that cannot outlive the tests, and waiting without sleeping blindly."""

import ctypes
import itertools
import os
import pwd
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
POSTGRES_BIN = Path("/usr/lib/postgresql/15/bin")
LIBC = ctypes.CDLL(None)
PR_SET_PDEATHSIG = 1


def die_with_parent():
    """Runs in the child: the kernel kills it when the tests are gone, however they went."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def spawn(command, **options):
    """A child that dies with the tests. Started in the main thread, whose end the kernel watches."""
    return subprocess.Popen(
        [str(word) for word in command],
        stdin=options.pop("stdin", subprocess.DEVNULL),
        preexec_fn=die_with_parent,
        **options,
    )


def program(name):
    """PostgreSQL 15's own programs before whatever else is on the path."""
    own = POSTGRES_BIN / name
    found = str(own) if own.exists() else shutil.which(name)
    assert found, f"{name} is not installed: run ./test, which installs what the tests need"
    return found


def _ports():
    """Ports below those that the kernel gives to clients, a range for each process of tests, over and over."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    first = 15_000 + worker % 8 * 2_000
    yield from itertools.cycle(range(first, first + 2_000))


_PORTS = _ports()


def free_port():
    """A port of loopback that nobody listens on, and that nobody else among the tests is given soon."""
    for port in _PORTS:
        with socket.socket() as s:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                s.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


def wait_until(condition, what, seconds=30.0):
    """Polls until `condition()` is true; its value is the answer. Fails after `seconds`."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.01)


def postgres_user():
    """PostgreSQL refuses to run as root, so root runs it as the user postgres."""
    return pwd.getpwnam("postgres") if os.geteuid() == 0 else None
