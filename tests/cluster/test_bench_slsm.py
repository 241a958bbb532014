"""`froglet bench slsm --small`, of which a machine that is busy can be asked what is counted: round trips of requests on the new schema."""

import json
import subprocess
import sys

import pytest

from support.processes import REPOSITORY
from support.servers import Froglet, client_environment

sys.path.insert(0, str(REPOSITORY / "cluster"))
import delay  # noqa: E402  (the path is known only now)


def test_round_trips_of_a_split_beside_bullfrogs_way(tmp_path):
    if why := delay.missing():
        pytest.skip(why)
    results, figures = tmp_path / "results.json", tmp_path / "figures"
    command = [Froglet.binary(), "bench", "slsm", "--small", "--only", "placement", "--json", results, "--figures", figures,
               "--cluster", REPOSITORY / "cluster"]
    outcome = subprocess.run(command, capture_output=True, text=True, timeout=600, env=client_environment())
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    rows = json.loads(results.read_text())["rows"]
    trips = {row["approach"]: row["value"] for row in rows if row["metric"] == "Payment, round trips"}
    # SLSM is at the floor, but for what a machine that is busy resends; BullFrog's way has a transaction more.
    assert trips["Upperbound"] <= trips["SLSM"] + 2 and trips["SLSM"] + 4 < trips["BullFrog"], trips
    assert trips["SLSM"] - trips["Upperbound"] < trips["BullFrog"] - trips["SLSM"], trips
    assert {path.name for path in figures.iterdir()} >= {"slsm.json", "slsm.txt"}
