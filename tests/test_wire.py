"""`froglet bench wire` at a tiny size: TPC-C over the wire, beside PostgreSQL 15, leaves both consistent."""

import json
import subprocess

from support.servers import Froglet, client_environment

EXPERIMENTS = ["4 clients, async commit", "4 clients, async commit, serializable"]


def test_tpcc_over_the_wire_leaves_the_twelve_conditions(tmp_path):
    results, binary = tmp_path / "results.json", Froglet.binary()
    command = [binary, "bench", "wire", "--small", "--seconds", "1", "--rounds", "1", "--only", EXPERIMENTS[0],
               "--json", results]
    outcome = subprocess.run(command, capture_output=True, text=True, timeout=300, env=client_environment())
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    rows = json.loads(results.read_text())["rows"]
    done = {(row["approach"], row["operation"]): row["value"] for row in rows if row["metric"] == "throughput"}
    for experiment in EXPERIMENTS:
        assert done["froglet", experiment] > 0 and done["PostgreSQL 15", experiment] > 0, done
