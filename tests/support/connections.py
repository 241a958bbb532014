"""How long it takes to connect, and what an idle connection takes of the server's memory.

    python -m support.connections [--connections 500] [--password] [--tls CERT KEY]

connects so many clients one after the other, lets each run a statement twice (as a pool does to see whether it
is alive), and looks at the server's resident memory before and after. PostgreSQL 15's time to connect is measured
beside it, one process each.
"""

import argparse
import time

import psycopg

from .servers import Froglet, Postgres

QUERY = "select 1"
PASSWORD = "sesame"


def connect_all(server, count, **options):
    """So many connections, and what each took, in seconds."""
    connections, seconds = [], []
    for _ in range(count):
        begun = time.perf_counter()
        connections.append(psycopg.connect(
            host=server.host, port=server.port, user=server.user, dbname=server.database, autocommit=True, **options))
        seconds.append(time.perf_counter() - begun)
    for connection in connections:
        for _ in range(2):
            connection.execute(QUERY)
    return connections, seconds


def report(name, seconds, bytes_each=None):
    ordered = sorted(seconds)
    at = lambda share: 1000 * ordered[int(share * (len(ordered) - 1))]  # noqa: E731
    memory = "" if bytes_each is None else f", {bytes_each / 1024:.1f} KiB of memory each"
    print(f"{name}: {len(seconds)} connections in {sum(seconds):.2f} s, each p50 {at(0.5):.2f} ms,"
          f" p99 {at(0.99):.2f} ms{memory}")


def froglet(arguments):
    environment, switches, options = {}, [], {"sslmode": "disable"}
    if arguments.password:
        environment = {"FROGLET_AUTHENTICATION": "host all all all scram-sha-256",
                       "FROGLET_SUPERUSER_PASSWORD": PASSWORD}
        options["password"] = PASSWORD
    if arguments.tls:
        switches = ["--tls-cert", arguments.tls[0], "--tls-key", arguments.tls[1]]
        options["sslmode"] = "require"
    server = Froglet(environment=environment, arguments=switches).start()
    try:
        # What is made once is not what a connection takes.
        warm, _ = connect_all(server, 20, **options)
        before = server.resident_bytes()
        connections, seconds = connect_all(server, arguments.connections, **options)
        taken = server.resident_bytes() - before
        report("froglet", seconds, taken / len(connections))
        for connection in warm + connections:
            connection.close()
    finally:
        server.remove()


def postgres(arguments):
    server = Postgres()
    try:
        server.start()
        # It is started for few connections, and has a process for each.
        connections, seconds = connect_all(server, 50)
        report("postgres 15", seconds)
        for connection in connections:
            connection.close()
    finally:
        server.remove()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--connections", type=int, default=500)
    parser.add_argument("--password", action="store_true", help="by SCRAM-SHA-256")
    parser.add_argument("--tls", nargs=2, metavar=("CERT", "KEY"))
    arguments = parser.parse_args()
    froglet(arguments)
    postgres(arguments)


if __name__ == "__main__":
    main()
