"""Sessions that are at work while a test does something else."""

import random
import threading
from collections import Counter

import psycopg

# What a client gets whose server has gone.
DOWN = (psycopg.OperationalError, psycopg.InterfaceError)


class Session(threading.Thread):
    """One transaction after the other, as `transaction(connection)` of a subclass has them. `failure` is what has ended
    it before it was to stop; the loss of a server that says it was `killed` is none."""

    def __init__(self, server, seed):
        super().__init__()
        self.server, self.rng, self.counts = server, random.Random(seed), Counter()
        self.failure, self.stopping = None, threading.Event()

    def connect(self):
        return self.server.connect()

    def run(self):
        try:
            with self.connect() as connection:
                while not self.stopping.is_set():
                    self.transaction(connection)
        except DOWN as error:
            self.failure = None if getattr(self.server, "killed", False) else error
        except Exception as error:  # noqa: BLE001: shown by the test
            self.failure = error


def stopped(sessions):
    """Stops them; all that they have counted."""
    for session in sessions:
        session.stopping.set()
    for session in sessions:
        session.join(60)
        assert not session.is_alive() and session.failure is None, session.failure
    return sum((session.counts for session in sessions), Counter())
