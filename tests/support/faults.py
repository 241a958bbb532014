"""A server whose files fail: `faults.c`, built once and preloaded."""

import os
import subprocess
import tempfile
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).with_name("faults.c")
EIO, ENOSPC = 5, 28


@cache
def library():
    """The library, built for this run of the tests."""
    path = Path(tempfile.mkdtemp(prefix="froglet-test-faults-")) / "faults.so"
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", path, SOURCE, "-ldl"], check=True)
    return path


class Faults:
    """What is to happen to the files of the servers that are given this environment."""

    def __init__(self, directory):
        self.file = Path(directory) / "faults"
        self.environment = {"LD_PRELOAD": str(library()), "FROGLET_FAULTS": str(self.file)}

    def set(self, *lines):
        """`CALL MODE ARGUMENT PART-OF-THE-PATH`, see faults.c; none of them: everything works."""
        new = self.file.with_suffix(".new")
        new.write_text("".join(f"{line}\n" for line in lines))
        os.rename(new, self.file)

    clear = set
