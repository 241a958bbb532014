"""Killed at every named point of the eager driver, under TPC-C.

The server dies by itself at the point (`crates/froglet-engine/src/crash_point.rs`), while clients run
TPC-C's mix and one of them changes the schema, again and again until the point is reached. After the
restart

- the change is there wholly, or not at all; it is there if it was acknowledged;
- every row of every table is what clients were told (`support/tpcc.py`), also where it stands in a table
  that the change has made of others: so these equal the offline result, row by row;
- what the change computed equals what its query computes now from the rows that are there;
- the twelve consistency conditions hold, and indexes and tables agree;
- everything goes on: the clients, and the change to its end.

FROGLET_TEST_CRASH_POINT_ROUNDS sets how often every point is visited (1), each time under another change
or a later time.
"""

import copy
import os
import shutil
import subprocess
import time
from dataclasses import dataclass

import psycopg
import pytest

from support import tpcc
from support.servers import Froglet
from support.tpcc_changes import ALL, CHANGES, LAYOUTS, LAZY, TABLES, Changer, check
from test_disk import CUT, POINTS as ON_DISK

ROUNDS = int(os.environ.get("FROGLET_TEST_CRASH_POINT_ROUNDS", "1"))
REACHED_SECONDS = 60


@dataclass(frozen=True)
class Visit:
    """Which changes reach a point, and the how manieth time it is that the server dies."""

    changes: list
    times: int = 1
    # Whether a change that is being committed is there afterwards; None if it may be.
    is_there: bool | None = False
    # Whether a checkpoint is written before the COMMIT of the change.
    checkpoint: bool = False
    # Whether blocks are frozen, and sparse ones compacted, as soon as nobody writes to them.
    freezes: bool = False
    # Whether the change is made once and left to its background, which a change back would end early.
    stays: bool = False


POINTS = {
    "catalog: row locked": Visit(["group", *ALL]),
    "catalog: row written": Visit(["split", *ALL]),
    "migration: started": Visit(ALL),
    "scan: block done": Visit(["column", *ALL], times=2),
    "scan: done": Visit(["join", *ALL]),
    "capture: one step done": Visit(["split", *ALL], times=4),
    "capture: round done": Visit(["computed", *ALL], times=4),
    "copy: rows written": Visit(["move", "copy", "split"], times=5),
    "units: lineage noted": Visit(["join", "group", "total"], times=2),
    "units: made again": Visit(["group", "join", "total"], times=2),
    "index: scanned": Visit(["unique", "index", *TABLES]),
    "index: loaded, not published": Visit(["move", "index", "unique", *TABLES]),
    "index: published": Visit(["unique", "index", *TABLES]),
    "index: waiting rows entered": Visit(["index", "unique"]),
    "constraint: scanned": Visit(["foreign key", "computed"]),
    "flip: tables pending": Visit(["split", *ALL]),
    "flip: a writer parked": Visit(ALL, is_there=None),
    "flip: writers stand still": Visit(["move", "foreign key", *ALL]),
    "flip: last capture done": Visit(["join", *ALL]),
    "flip: verified": Visit(["unique", *ALL]),
    "flip: commit timestamp taken": Visit(["group", *ALL]),
    "flip: logged, not flushed": Visit(["move", *ALL], is_there=None),
    "flip: flushed, not published": Visit(["move", "split", *ALL], is_there=True, checkpoint=True),
    "flip: published": Visit(["lazy move", "join", *ALL], is_there=None),
    "flip: writers released": Visit(["column", *ALL], is_there=None),
    "flip: durable, not answered": Visit(["total", *ALL], is_there=True),
    "carry-over: one step done": Visit(["computed", "column", "index", "foreign key"], is_there=None),
    "carry-over: one row in a copy": Visit(["move", "copy", "split"], is_there=None),
    "lazy: rows made, not logged": Visit(["lazy move", *LAZY], times=30, is_there=None),
    "lazy: rows logged, not in place": Visit(["lazy join", *LAZY], times=10, is_there=None),
    "lazy: rows in place": Visit(["lazy split", *LAZY], times=20, is_there=None),
    "lazy: all rows in place, not ended": Visit(["lazy total", *LAZY], is_there=None, stays=True),
    "garbage: one freed": Visit(["move", "copy", *ALL], is_there=None),
    "commit: logged, not visible": Visit(["computed", *ALL], times=150, is_there=None),
    "log: written, not synced": Visit(["group", *ALL], times=50, is_there=None),
    "log: synced, nobody told": Visit(["copy", *ALL], times=50, is_there=None),
    "compaction: rows moved, not committed": Visit(["index", *ALL], times=5, is_there=None, freezes=True),
    "compaction: committed": Visit(["computed", *ALL], times=5, is_there=None, freezes=True),
    "checkpoint: begun": Visit(["join", *ALL], checkpoint=True),
    "checkpoint: file written": Visit(["computed", *ALL], times=2, checkpoint=True),
    "checkpoint: index saved": Visit(["copy", *ALL], times=3, checkpoint=True),
    "checkpoint: manifest renamed": Visit(["split", *ALL], checkpoint=True),
    "checkpoint: log cut": Visit(["group", *ALL], times=2, checkpoint=True),
    "recovery: checkpoint loaded": Visit(["split", *ALL]),
    "recovery: record replayed": Visit(["group", *ALL], times=40),
    "recovery: catalog read": Visit(["join", *ALL]),
    "recovery: index rebuilt": Visit(["copy", *ALL], times=4),
}


class Killed(Changer):
    """Changes the schema until the server has died."""

    def until_the_server_dies(self, server, stays):
        deadline = time.monotonic() + REACHED_SECONDS
        try:
            with server.connect() as connection:
                self.step(connection)
                while time.monotonic() < deadline and not stays:
                    self.step(connection)
        except psycopg.OperationalError as error:
            # The process has not been waited for: its sockets are closed a moment before it ends.
            assert error.sqlstate is None, error
        assert_killed(server)

    def look_after(self, connection, visit):
        """After the restart: whether the change is there, as it has to be at this point."""
        before, committing = self.is_there, self.committing
        self.look(connection)
        if committing is not None and visit.is_there is not None:
            assert self.is_there == (committing if visit.is_there else before)


def assert_killed(server):
    process, server.process = server.process, None
    try:
        # What happens in the background may only be through when nobody else is at work any more.
        process.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise AssertionError("the point was never reached") from None
    assert process.returncode == -9, f"the server exited with {process.returncode}\n{server.tail()}"


@pytest.fixture(scope="module")
def loaded(tmp_path_factory):
    """A data directory with TPC-C's population in a checkpoint and its indexes, and the model of it."""
    directory, model = tmp_path_factory.mktemp("tpcc") / "data", tpcc.Model()
    server = Froglet(directory, environment={"FROGLET_INDEX_SNAPSHOT_ROWS": "1"})
    try:
        server.start()
        with server.connect() as connection:
            model.load(connection)
            connection.execute("checkpoint")
        server.stop()
    finally:
        server.remove()
    return directory, model


@pytest.fixture(scope="module")
def points(tmp_path_factory):
    """The names of all points of this binary."""
    server = Froglet(tmp_path_factory.mktemp("names") / "data", environment={"FROGLET_CRASH_AT": "?"})
    try:
        server.spawn()
        server.process.communicate(timeout=10)
        return [line.strip() for line in server.log.read_text().splitlines() if line.startswith("  ")]
    except subprocess.TimeoutExpired:
        pytest.skip("the server has no crash points: it was built without debug assertions")
    finally:
        server.remove()


def test_every_point_has_its_visit(points):
    assert sorted(points) == sorted([*POINTS, *ON_DISK, CUT])


@pytest.mark.parametrize("round_", range(ROUNDS))
@pytest.mark.parametrize("point", POINTS)
def test_kill_at(point, round_, points, loaded, start, tmp_path):
    visit = POINTS[point]
    change = CHANGES[visit.changes[round_ % len(visit.changes)]]
    # Its tables are small.
    saves = {"FROGLET_INDEX_SNAPSHOT_ROWS": "1"} | ({"FROGLET_FREEZE_AFTER": "0s"} if visit.freezes else {})
    times = visit.times if visit.stays else visit.times + round_ // len(visit.changes)
    crash_at = saves | {"FROGLET_CRASH_AT": f"{point}:{times}"}
    in_recovery = point.startswith("recovery")
    shutil.copytree(loaded[0], tmp_path / "data")
    server = start(directory=tmp_path / "data", environment=saves if in_recovery else crash_at)
    load = tpcc.Load(server, copy.deepcopy(loaded[1]), f"{round_}", LAYOUTS)
    before_commit = (lambda: server.run("checkpoint")) if visit.checkpoint else (lambda: None)
    changer = Killed(change, load, before_commit=before_commit)
    if in_recovery:
        with server.connect() as connection:
            changer.step(connection)
        # So many transactions more that the point is reached, however slow the machine is.
        end, wanted = time.monotonic() + 60, len(load.acknowledged) + visit.times + 10
        while len(load.acknowledged) < wanted:
            assert time.monotonic() < end, f"{len(load.acknowledged)} transactions, not {wanted}"
            time.sleep(0.01)
        server.kill()
        server.environment = crash_at
        server.spawn()
        assert_killed(server)
    else:
        changer.until_the_server_dies(server, visit.stays)
    load.stop()

    server.environment = saves
    server.start()
    with server.connect() as connection:
        changer.look_after(connection, visit)
        check(connection, load, changer)
        again = tpcc.Load(server, load.model, f"{round_} again", LAYOUTS)
        goes_on = Changer(change, again, changer.is_there)
        goes_on.known = changer.known
        goes_on.step(connection)
        again.stop()
        check(connection, again, goes_on)
