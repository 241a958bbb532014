"""Many clients at once: what one that waits costs, and that every one is served. `support/connections.py` measures it."""

import resource

import pytest

from support.connections import connect_all

CLIENTS = 500
# What an idle session may take of the server's memory.
MOST_BYTES = 100 * 1024
QUERY = "select v from t where id = %s"


@pytest.fixture
def enough_files():
    """This process has a socket for each client."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 4 * CLIENTS)), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_five_hundred(froglet, enough_files):
    froglet.run("create table t (id int primary key, v int)",
                "insert into t select n, n * n from generate_series(0, 9) as g (n)")

    def ask(connections):
        for number, connection in enumerate(connections):
            assert connection.execute(QUERY, [number % 10], prepare=True).fetchone() == ((number % 10) ** 2,)

    # What is made once is not what a connection takes.
    warm, _ = connect_all(froglet, 20)
    ask(warm)
    before = froglet.resident_bytes()
    connections, _ = connect_all(froglet, CLIENTS)
    ask(connections)
    assert (froglet.resident_bytes() - before) / CLIENTS <= MOST_BYTES
    idle = "select count(*) from pg_stat_activity where state = 'idle'"
    assert froglet.value(idle) == len(warm) + CLIENTS
    ask(connections)
    for connection in warm + connections:
        connection.close()
