"""`froglet bench skeena --small`: every experiment runs, every answer is right, and every figure is drawn."""

import json
import subprocess

from support.servers import Froglet, client_environment

FIGURES = {"6.1: read-only", "6.1: read-write", "6.1: write-only", "6.2: full mix", "6.2: NewOrder", "6.2: Payment",
           "6.2: OrderStatus", "6.2: StockLevel", "6.3: full mix", "6.4: full mix", "6.5: Optimize-payment"}


def test_tables_in_memory_and_on_disk_beside_postgres(tmp_path):
    results, figures, binary = tmp_path / "results.json", tmp_path / "figures", Froglet.binary()
    command = [binary, "bench", "skeena", "--small", "--json", results, "--figures", figures]
    outcome = subprocess.run(command, capture_output=True, text=True, timeout=600, env=client_environment())
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    rows = json.loads(results.read_text())["rows"]
    measured = {row["operation"] for row in rows if row["metric"] == "throughput" and row["value"] > 0}
    assert {name for name in FIGURES if not any(operation.startswith(name) for operation in measured)} == set()
    beside = {row["approach"] for row in rows if row["operation"].startswith("6.2: full mix")}
    assert beside >= {"froglet, all memory", "froglet, all disk", "froglet, Optimize-payment",
                      "froglet, Optimize-new-order", "froglet, Archive-only", "PostgreSQL 15"}, beside
    verdicts = outcome.stdout.split("\n\n")[-2]
    for what in ["with the registry / without", "over both", "all disk / PostgreSQL 15", "COMMIT", "kill -9", "churn"]:
        assert what in verdicts, verdicts
    drawn = {path.name for path in figures.iterdir()}
    assert drawn >= {"figure-6-1-read-only-in-cache.svg", "figure-6-2-full-mix.svg", "figure-6-3-neworder.svg",
                     "figure-6-4-full-mix.svg", "figure-6-5-throughput.svg", "figure-6-6-in-cache-1-client.svg",
                     "table-6-1.txt", "skeena.json", "skeena.txt"}, drawn
