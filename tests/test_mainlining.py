"""`froglet bench mainlining --figure 15` at a tiny size: a table comes into Python in every way, the same each time."""

import json
import subprocess
import sys

from support.servers import Froglet, client_environment


def test_every_way_into_python_brings_the_same_table(tmp_path):
    results, binary = tmp_path / "results.json", Froglet.binary()
    command = [binary, "bench", "mainlining", "--small", "--figure", "15", "--no-postgres",
               "--dir", tmp_path, "--python", sys.executable, "--json", results]
    outcome = subprocess.run(command, capture_output=True, text=True, timeout=300, env=client_environment())
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    rows = json.loads(results.read_text())["rows"]
    ways = {row["approach"] for row in rows if row["metric"] == "time"}
    assert ways >= {"froglet COPY text", "froglet COPY binary", "froglet psycopg rows", "bare socket", "memcpy"}, ways
    assert {f"Flight, {percent} % hot" for percent in [0, 25, 50, 75, 100]} <= ways, ways
    assert "Flight of frozen data" in outcome.stdout
