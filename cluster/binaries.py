"""Builds pd-server and unistore-server from the modules pinned in pd/ and unistore/, into a cache outside the checkout.

A binary's name ends in a hash of go.mod, go.sum, the flags and the fixes below: another version is another file, and
checkouts share what they have in common.
"""

import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
GO_NEEDED = (1, 23)  # The first whose linker knows -checklinkname.

SERVERS = {
    "pd-server": {
        "module": "pd", "package": "github.com/tikv/pd/cmd/pd-server", "minutes": 7,
        "flags": ["-tags", "without_dashboard"],
    },
    "unistore-server": {
        "module": "unistore", "package": "github.com/ngaut/unistore/cmd/unistore-server", "minutes": 4,
        "flags": ["-ldflags=-checklinkname=0"],
    },
}

# What is wrong in the pinned unistore, and in what it keeps its data with, for which there is no newer one: (file, text
# that is there once, its replacement).
UNISTORE, BADGER = "github.com/ngaut/unistore", "github.com/pingcap/badger"
FIXES = [
    # The leader wiped entries that it had applied while the message that brings them to a follower still waited to be
    # written. The follower got entries of zeros and died: "tocommit(8) is out of range [lastIndex(7)]".
    ("tikv/raftstore/applier.go",
     "\tfor i := range apply.entries {\n\t\tapply.entries[i] = eraftpb.Entry{}\n\t}\n\tapply.entries = apply.entries[:0]\n",
     "\tapply.entries = nil\n"),
    # PD took a store for down until its first heartbeat, ten seconds after its start, and no setting changed that.
    ("server/server.go",
     "\traftConf.PdHeartbeatTickInterval = config.ParseDuration(conf.RaftStore.PdHeartbeatTickInterval)\n",
     "\traftConf.PdHeartbeatTickInterval = config.ParseDuration(conf.RaftStore.PdHeartbeatTickInterval)\n"
     "\traftConf.PdStoreHeartbeatTickInterval = raftConf.PdHeartbeatTickInterval\n"),
    # It listened on every address of the machine, and asks nobody for a password.
    ("cmd/unistore-server/main.go",
     "listenAddr := conf.Server.StoreAddr[strings.IndexByte(conf.Server.StoreAddr, ':'):]",
     "listenAddr := conf.Server.StoreAddr"),
    # Locks are in memory, and a store that starts again makes them from its log: those of rollbacks came back to life.
    ("tikv/raftstore/restore.go",
     "\t\tcase *rollbackOp:\n",
     "\t\tcase *rollbackOp:\n\t\t\tif x.delLock != nil {\n\t\t\t\trestoreCommit(commitOp{delLock: x.delLock}, lockStore)\n\t\t\t}\n"),
    # Whoever says that it lives, or is put off by a reader, has its lock written again: without its value, if that was long.
    ("tikv/raftstore/db_writer.go",
     "\tval, _ := mvcc.EncodeLockCFValue(lock)\n",
     "\tval, long := mvcc.EncodeLockCFValue(lock)\n\tif len(long) != 0 {\n\t\twb.Prewrite(key, lock)\n\t\treturn\n\t}\n"),
    # It makes them from its log's files, of which it kept three: after a few kills it found the first no more, and died of
    # "Unable to find log file. Please retry". All are kept now.
    ("server/server.go",
     "\topts.ValueLogMaxNumFiles = 3\n",
     "\topts.ValueLogMaxNumFiles = 3\n\tif subPath == subPathRaft {\n\t\topts.ValueLogMaxNumFiles = 1 << 20\n\t}\n"),
    # A store that applied two entries about one key together committed what the key's lock had been before: of a row that
    # was locked and then written, nothing. Of two versions of a key that are written together, badger keeps one. A leader
    # applies them one by one: nobody saw it before a store that had lagged came to lead.
    ("tikv/raftstore/applier.go",
     "\t\tif shouldWriteToEngine(rlog, len(aCtx.wb.entries)) {\n",
     "\t\tif shouldWriteToEngine(rlog, len(aCtx.wb.entries)) || touchesLocks(rlog, aCtx.wb.lockEntries) {\n"),
    ("tikv/raftstore/applier.go", "/// A struct that stores the state related to Merge.\n", """\
// touchesLocks says whether a command is about a key whose lock is in the batch, and not written yet.
func touchesLocks(rlog raftlog.RaftLog, locks []*badger.Entry) bool {
	cmd := rlog.GetRaftCmdRequest()
	if cmd == nil || len(locks) == 0 {
		return false
	}
	keys := make(map[string]struct{}, len(cmd.Requests))
	for _, req := range cmd.Requests {
		var encoded []byte
		if req.Put != nil && req.Put.Cf == CFLock {
			encoded = req.Put.Key
		} else if req.Delete != nil && req.Delete.Cf == CFLock {
			encoded = req.Delete.Key
		} else {
			continue
		}
		_, key, err := codec.DecodeBytes(encoded, nil)
		if err != nil {
			panic(err)
		}
		keys[string(key)] = struct{}{}
	}
	for _, lock := range locks {
		if _, ok := keys[string(lock.Key.UserKey)]; ok {
			return true
		}
	}
	return false
}

/// A struct that stores the state related to Merge.
"""),
    # Whoever asked was told that a transaction is rolled back although that could not be written.
    ("tikv/mvcc.go",
     "\t\terr = store.dbWriter.Write(batch)\n\t\treturn TxnStatus{0, kvrpcpb.Action_LockNotExistRollback, nil}, nil\n",
     "\t\terr = store.dbWriter.Write(batch)\n\t\treturn TxnStatus{0, kvrpcpb.Action_LockNotExistRollback, nil}, err\n"),
    # Who leads again had its lease before its new term, and could read what it had not applied yet.
    ("tikv/raftstore/peer.go",
     "\t\t\tp.MaybeRenewLeaderLease(time.Now())\n\t\t\tif !p.PendingRemove {\n\t\t\t\tp.leaderChecker.term.Store(p.Term())\n"
     "\t\t\t}\n",
     "\t\t\tif !p.PendingRemove {\n\t\t\t\tp.leaderChecker.term.Store(p.Term())\n\t\t\t}\n\t\t\tp.MaybeRenewLeaderLease(time.Now())\n"),
]
BADGER_FIXES = [
    # Nobody was told of a disk that was full: a store took for written what was not, said so, and did not start again:
    # "applied(59) is out of range [prevApplied(7), committed(58)]". It dies now, as of other errors.
    ("transaction.go",
     "\treq.Wait()\n\tstate.doneCommit(commitTs)\n\n\treturn nil\n",
     "\terr = req.Wait()\n\tstate.doneCommit(commitTs)\n\n\treturn err\n"),
]


class BuildError(Exception):
    """What is missing, or what `go` said."""


def cache():
    """Where the binaries are."""
    if own := os.environ.get("FROGLET_CLUSTER_CACHE"):
        return Path(own)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "froglet" / "cluster"


def binary(name):
    """The path that a server has once it is built."""
    server = SERVERS[name]
    digest = hashlib.sha256()
    for part in ("go.mod", "go.sum"):
        digest.update((HERE / server["module"] / part).read_bytes())
    fixes = FIXES + BADGER_FIXES if server["module"] == "unistore" else []
    digest.update(json.dumps(server["flags"] + fixes).encode())
    return cache() / f"{name}-{digest.hexdigest()[:16]}"


def build(say=print):
    """Builds what is not in the cache yet; the paths by name. Of two callers the second waits for the first."""
    paths = {name: binary(name) for name in SERVERS}
    if all(path.exists() for path in paths.values()):
        return paths
    cache().mkdir(parents=True, exist_ok=True)
    with open(cache() / "lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"waiting for another build in {cache()}")
            fcntl.flock(lock, fcntl.LOCK_EX)
        for name, path in paths.items():
            if not path.exists():
                build_one(name, path, say)
    return paths


def build_one(name, path, say):
    need_go()
    server, began = SERVERS[name], time.monotonic()
    say(f"building {name} of {server['package']} into {path}: about {server['minutes']} minutes on two cores, and its "
        "modules are fetched the first time")
    with tempfile.TemporaryDirectory(prefix="build-", dir=cache()) as work:
        module, made = Path(work, server["module"]), Path(work, name)
        shutil.copytree(HERE / server["module"], module)
        if server["module"] == "unistore":
            fix(module, UNISTORE, FIXES)
            fix(module, BADGER, BADGER_FIXES)
        command = ["go", "build", "-mod=readonly", *server["flags"], "-o", str(made), server["package"]]
        with open(Path(work, "log"), "w+b") as log:
            running = subprocess.Popen(command, cwd=module, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=go_env())
            while running.poll() is None:
                try:
                    running.wait(60)
                except subprocess.TimeoutExpired:
                    say(f"building {name}: {time.monotonic() - began:.0f} s")
                except BaseException:
                    running.terminate()
                    raise
            if running.returncode != 0:
                log.seek(0)
                raise BuildError(f"{' '.join(command)} failed:\n{log.read().decode(errors='replace')[-4000:]}")
        made.rename(path)
    say(f"built {name} in {time.monotonic() - began:.0f} s")


def need_go():
    try:
        said = subprocess.run(["go", "version"], check=True, text=True, capture_output=True).stdout
    except FileNotFoundError:
        raise BuildError("the servers of a cluster are written in Go, and `go` is not on the path: install Go "
                         f"{GO_NEEDED[0]}.{GO_NEEDED[1]} or newer and a C compiler, then run this again") from None
    found = re.search(r"go(\d+)\.(\d+)", said)
    if found and tuple(map(int, found.groups())) < GO_NEEDED:
        raise BuildError(f"Go {GO_NEEDED[0]}.{GO_NEEDED[1]} or newer is needed, here is {said.strip()}")


def go_env():
    # A go.work or flags of the user's would change what is built.
    return {k: v for k, v in os.environ.items() if k != "GOFLAGS"} | {"GOWORK": "off", "GOFLAGS": "-buildvcs=false"}


def fix(module, name, fixes):
    """Puts a copy of another module with the fixes beside `module`, and makes it build with that one. Go has checked the
    original against go.sum; every other module stays as pinned."""
    done = subprocess.run(["go", "mod", "download", "-json", name], cwd=module, text=True, capture_output=True, env=go_env())
    if done.returncode != 0:
        raise BuildError(f"go mod download {name} failed:\n{done.stdout}{done.stderr}")
    copy = module.parent / f"{Path(name).name}-fixed"
    # The module cache is read-only, and copytree copies that too.
    shutil.copytree(json.loads(done.stdout)["Dir"], copy, copy_function=shutil.copyfile)
    for directory in (copy, *(path for path in copy.rglob("*") if path.is_dir())):
        directory.chmod(0o755)
    for file, old, new in fixes:
        text = (copy / file).read_text()
        if text.count(old) != 1:
            raise BuildError(f"{file} of {name} is not what the fixes are for")
        (copy / file).write_text(text.replace(old, new))
    if not (copy / "go.mod").exists():
        (copy / "go.mod").write_text(f"module {name}\n")
    with open(module / "go.mod", "a") as pinned:
        pinned.write(f"\nreplace {name} => ../{copy.name}\n")


if __name__ == "__main__":
    sys.exit("this is a part of servers.py: servers.py build")
