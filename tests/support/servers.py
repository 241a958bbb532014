"""Froglet and PostgreSQL 15 as servers that a test starts, kills and asks.

Both have the same face (`Server`), so that one test can run on both and PostgreSQL proves what the
test expects.
"""

import os
import re
import select
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import psycopg

from .processes import REPOSITORY, free_port, postgres_user, program, spawn, wait_until

START_SECONDS = 60
# Before the number of the process that has it.
POSTGRES_PREFIX = "froglet-test-postgres-"


def memory_directory():
    """Where files are in memory, if there is room. A database of PostgreSQL's is 300 of them: of the time of tests that
    begin with one, a disk's file system took half."""
    directory = Path("/dev/shm")
    if not directory.is_dir():
        return None
    # Tests that were killed have left theirs, which take memory.
    for left in directory.glob(f"{POSTGRES_PREFIX}*"):
        if not Path("/proc", left.name.removeprefix(POSTGRES_PREFIX).partition("-")[0]).exists():
            shutil.rmtree(left, ignore_errors=True)
    return directory if shutil.disk_usage(directory).free >= 2 << 30 else None


class Server:
    """A database server on loopback."""

    host = "127.0.0.1"
    user = "postgres"
    database = "postgres"
    port: int

    def connect(self, **options):
        """A psycopg connection, in autocommit unless told otherwise."""
        options = {"autocommit": True, "connect_timeout": 30} | options
        return psycopg.connect(
            host=self.host, port=self.port, user=self.user, dbname=self.database, **options
        )

    def rows(self, sql, parameters=None):
        """The rows of one query on a connection of its own."""
        with self.connect() as connection:
            return connection.execute(sql, parameters).fetchall()

    def value(self, sql, parameters=None):
        """The only value of one query on a connection of its own."""
        [[value]] = self.rows(sql, parameters)
        return value

    def run(self, *statements):
        """Each statement by itself on one connection of its own."""
        with self.connect() as connection:
            for statement in statements:
                connection.execute(statement)

    def address(self):
        """What psql and pgbench are told."""
        return ["-h", self.host, "-p", str(self.port), "-U", self.user]

    def psql(self, script="", *switches, check=True, options="", timeout=120):
        """Runs psql on a script given by standard input, as a person would."""
        done = subprocess.run(
            [program("psql"), "-X", "-v", "ON_ERROR_STOP=1", *self.address(), "-d", self.database,
             *switches],
            input=script, text=True, capture_output=True, timeout=timeout,
            env=client_environment() | {"PGOPTIONS": options},
        )
        if check:
            assert done.returncode == 0, f"psql failed ({done.returncode}): {script}\n{done.stderr}"
        return done

    def pgbench_start(self, *switches):
        """pgbench under way; see `finish_pgbench`."""
        return spawn(
            [program("pgbench"), *self.address(), *switches, self.database],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=client_environment(),
        )

    def pgbench(self, *switches, timeout=120):
        """A whole run of pgbench, which must be without any client error. Returns its output."""
        return finish_pgbench(self.pgbench_start(*switches), timeout)


def finish_pgbench(process, timeout=120):
    """Waits for pgbench and insists that no client saw an error."""
    try:
        output, errors = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        output, errors = process.communicate()
        raise AssertionError(f"pgbench hangs\n{output}\n{errors}") from None
    text = output + errors
    assert process.returncode == 0, f"pgbench exited with {process.returncode}\n{text}"
    for word in ("ERROR", "FATAL", "aborted"):
        assert word not in text, f"pgbench saw an error\n{text}"
    for line in output.splitlines():
        if line.startswith("number of failed transactions"):
            assert line.startswith("number of failed transactions: 0 "), text
    return text


def client_environment():
    """The environment without anything that would redirect a client."""
    return {k: v for k, v in os.environ.items() if not k.startswith(("PG", "FROGLET_"))}


class Froglet(Server):
    """`froglet serve` on a data directory of its own."""

    def __init__(self, directory=None, environment=None, arguments=(), flight=False, settings=None):
        self.temporary = None if directory else Path(tempfile.mkdtemp(prefix="froglet-test-"))
        self.data = Path(directory) if directory else self.temporary / "data"
        descriptor, log = tempfile.mkstemp(prefix="froglet-test-", suffix=".log")
        os.close(descriptor)
        self.log = Path(log)
        self.environment = environment or {}
        self.arguments = list(arguments)
        self.settings = dict(settings or {})
        # Any test, with its tables on disk.
        if method := os.environ.get("FROGLET_TEST_ACCESS_METHOD"):
            self.settings.setdefault("default_table_access_method", method)
        self.port = free_port()
        self.flight_port = free_port() if flight else None
        if flight:
            self.arguments += ["--flight-listen", f"{self.host}:{self.flight_port}"]
        self.process = None

    @staticmethod
    def binary():
        path = Path(os.environ.get("FROGLET_BINARY", REPOSITORY / "target/debug/froglet"))
        assert path.exists(), f"{path} is not built: cargo build -p froglet"
        return path

    def spawn(self):
        """Starts the process and waits for nothing."""
        if self.settings:
            self.data.mkdir(parents=True, exist_ok=True)
            lines = "".join(f"{name} = {value!r}\n" for name, value in self.settings.items())
            (self.data / "froglet.toml").write_text(f"[settings]\n{lines}")
        with open(self.log, "ab") as errors:
            self.process = spawn(
                [self.binary(), "serve", "--data", self.data,
                 "--listen", f"{self.host}:{self.port}", *self.arguments],
                stdout=subprocess.PIPE, stderr=errors,
                env=client_environment() | self.environment,
            )
        return self

    def start(self):
        """Returns once the server has printed the line that says where it listens."""
        self.spawn()
        deadline = time.monotonic() + START_SECONDS
        said = b""
        while str(self.port).encode() not in said:
            left = deadline - time.monotonic()
            assert left > 0, f"the server is not ready after {START_SECONDS} s\n{self.tail()}"
            if select.select([self.process.stdout], [], [], left)[0]:
                more = os.read(self.process.stdout.fileno(), 4096)
                assert more, (
                    f"the server exited with {self.process.wait()} before it was ready\n"
                    f"{said.decode(errors='replace')}{self.tail()}"
                )
                said += more
        return self

    def refusal(self, seconds=START_SECONDS):
        """Starts a server that must refuse to start; what it said on both its outputs."""
        self.spawn()
        try:
            output, _ = self.process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"the server started instead of refusing\n{self.tail()}") from None
        code, self.process = self.process.returncode, None
        text = output.decode(errors="replace") + self.tail()
        assert code not in (0, -signal.SIGABRT, -signal.SIGSEGV), f"exit code {code}\n{text}"
        assert "panicked" not in text, text
        return text

    def alive(self):
        return self.process is not None and self.process.poll() is None

    def stop(self):
        """The ordinary way: SIGTERM, and it must go by itself, with 0."""
        if self.process is None:
            return
        process, self.process = self.process, None
        process.terminate()
        try:
            process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise AssertionError(f"the server does not stop on SIGTERM\n{self.tail()}") from None
        assert process.returncode in (0, -signal.SIGTERM), (
            f"the server exited with {process.returncode} on SIGTERM\n{self.tail()}"
        )

    def kill(self):
        """kill -9, whatever it is doing."""
        process, self.process = self.process, None
        process.kill()
        process.communicate()

    def kill_and_restart(self):
        self.kill()
        return self.start()

    def restart(self):
        self.stop()
        return self.start()

    def files(self, pattern):
        """The data directory's files, by name."""
        return sorted(path for path in self.data.rglob(pattern) if path.is_file())

    def resident_bytes(self):
        """How much memory the process holds."""
        pages = Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    def anonymous_bytes(self):
        """How much of that is not in files: what a limit of memory is about. A test's binary has 130 MB of code."""
        found = re.search(r"^RssAnon:\s+(\d+) kB", Path(f"/proc/{self.process.pid}/status").read_text(), re.MULTILINE)
        if found is None:
            raise ProcessLookupError("it has ended")
        return int(found[1]) << 10

    @contextmanager
    def watched_memory(self):
        """The most anonymous bytes that it is seen with, in a list of one."""
        most, done = [self.anonymous_bytes()], threading.Event()

        def watch():
            while not done.wait(0.02):
                most[0] = max(most[0], self.anonymous_bytes())

        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            yield most
        finally:
            done.set()
            watcher.join()

    def tail(self, lines=60):
        """The last of what the server wrote to stderr."""
        text = self.log.read_text(errors="replace").splitlines()
        return "\n".join(text[-lines:])

    def remove(self):
        """Ends it, however it is, and takes its files away."""
        if self.process is not None:
            self.kill()
        self.log.unlink(missing_ok=True)
        if self.temporary:
            shutil.rmtree(self.temporary, ignore_errors=True)


class Postgres(Server):
    """PostgreSQL 15, the reference. One server; `fresh_database` for each test."""

    def __init__(self):
        self.directory = Path(tempfile.mkdtemp(prefix=f"{POSTGRES_PREFIX}{os.getpid()}-", dir=memory_directory()))
        self.data = self.directory / "data"
        self.port = free_port()
        self.process = None
        self.databases = 0

    def start(self):
        user = postgres_user()
        as_user = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []} if user else {}
        if user:
            os.chown(self.directory, user.pw_uid, user.pw_gid)
        subprocess.run(
            [program("initdb"), "-D", self.data, "-U", self.user, "-A", "trust", "--no-sync",
             "-E", "UTF8", "--locale", "C.UTF-8"],
            check=True, stdout=subprocess.DEVNULL, cwd=self.directory, **as_user,
        )
        settings = {
            "listen_addresses": self.host, "unix_socket_directories": "", "fsync": "off",
            "deadlock_timeout": "100ms", "timezone": "UTC", "max_connections": "60",
        }
        self.process = spawn(
            [program("postgres"), "-D", self.data, "-p", self.port,
             *(word for k, v in settings.items() for word in ("-c", f"{k}={v}"))],
            stdout=subprocess.DEVNULL, stderr=open(self.directory / "log", "ab"),
            cwd=self.directory, env=client_environment(), **as_user,
        )
        wait_until(self.answers, "PostgreSQL accepts connections", START_SECONDS)
        return self

    def answers(self):
        assert self.process.poll() is None, (self.directory / "log").read_text()
        try:
            self.connect(connect_timeout=2).close()
            return True
        except psycopg.OperationalError:
            return False

    def fresh_database(self):
        """A new, empty database, which `connect` and the rest use from now on. The one before it is dropped:
        each takes 7 MB, and a whole run makes more than a thousand."""
        before, self.database = self.database, "postgres"
        if self.databases:
            self.run(f"drop database {before} with (force)")
        self.databases += 1
        name = f"test_{self.databases}"
        self.run(f"create database {name}")
        self.database = name
        return self

    def tail(self):
        return ""

    def remove(self):
        if self.process:
            self.process.send_signal(signal.SIGINT)
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        shutil.rmtree(self.directory, ignore_errors=True)
