"""Clients in other languages: one program each, which runs checks by their names and stays for the next one.

Line by line it is told `HOST:PORT/DATABASE CHECK` and answers `passed`, or `failed` and why, on one line.
A program that says nothing in time is killed; the next check starts another.
"""

import select
import subprocess

from .processes import spawn
from .servers import client_environment

CHECK_SECONDS = 60


class Checks:
    def __init__(self, *command, environment=None, **options):
        self.command, self.environment, self.options = command, environment or {}, options
        self.process = None

    def run(self, server, check):
        """Fails with what the program says of a check on a server."""
        __tracebackhide__ = True
        if self.process is None:
            self.process = spawn(
                self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                env=client_environment() | self.environment, **self.options)
        self.process.stdin.write(f"{server.host}:{server.port}/{server.database} {check}\n")
        self.process.stdin.flush()
        said = select.select([self.process.stdout], [], [], CHECK_SECONDS)[0] and self.process.stdout.readline()
        if not said or not said.startswith(("passed", "failed")):
            self.stop()
        assert said, f"{check} says nothing for {CHECK_SECONDS} s, or its program ended"
        assert said == "passed\n", said

    def stop(self):
        if self.process is not None:
            self.process.kill()
            self.process.communicate()
            self.process = None
