"""The checkpoint directory is as large as the rows, whatever is written when."""

import os

BLOCK = 8192


def size_of(server):
    directory = server.data / "checkpoint"
    files = [entry for entry in os.scandir(directory) if entry.name.endswith(".arrow")]
    return sum(entry.stat().st_size for entry in files), len(files)


def test_files_of_which_little_is_current_are_written_again(start):
    """32089e8 kept a file while one block of it was current: 28 checkpoints of half a table made 14 times its size."""
    server = start(environment={"FROGLET_FREEZE_AFTER": "off"})
    blocks = 12
    server.run("create table t (id int, v int, pad text)",
               f"insert into t select g, 0, md5(g::text) from generate_series(0, {blocks * BLOCK - 1}) g",
               "create index on t (id)", "checkpoint")
    first, _ = size_of(server)
    for n in range(12):
        # Half of the blocks, and one of the others.
        ids = [block * BLOCK for block in range(blocks // 2)] + [(blocks // 2 + n % 6) * BLOCK]
        server.run(f"update t set v = v + 1 where id in ({', '.join(map(str, ids))})", "checkpoint")
    size, files = size_of(server)
    assert size < 2.5 * first, f"{size} bytes in {files} files, {first} at first"
    answer = server.rows("select count(*), sum(v), min(pad), max(id) from t")
    server.kill_and_restart()
    assert server.rows("select count(*), sum(v), min(pad), max(id) from t") == answer
    # What a restart has mapped is written again as well.
    for n in range(4):
        server.run(f"update t set v = v + 1 where id < {blocks // 2 * BLOCK} and id % 1000 = {n}", "checkpoint")
    assert size_of(server)[0] < 2.5 * first
    server.restart()
    assert server.rows("select count(*), min(pad), max(id) from t") == [(blocks * BLOCK, answer[0][2], answer[0][3])]


def test_notes_of_dropped_sequences_go(start):
    server = start()

    def notes():
        server.run("checkpoint")
        manifest = (server.data / "checkpoint" / "manifest.json").read_text().split("\n")[0]
        import json
        return len(json.loads(manifest)["notes"])

    before = notes()
    for n in range(300):
        server.run(f"create temporary table own{n} (id serial)", f"insert into own{n} default values", f"drop table own{n}")
    with server.connect(autocommit=False) as session:
        session.execute("create sequence undone")
        session.execute("select nextval('undone')")
        session.rollback()
        session.execute("savepoint s; create sequence undone; select nextval('undone'); rollback to s")
        session.commit()
    server.restart()
    # As many changes as are remembered can be reverted, and want the last value then.
    assert notes() - before <= 260
