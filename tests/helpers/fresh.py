"""Programs run one after the other, each in an interpreter that has imported nothing of ours.

Starting Python and importing torch is what takes long: one process does it once, and forks itself
for each program. Of revgrad it has imported nothing when it does.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from shown import Shown

_SERVER = """
import json, os, sys, traceback
import torch
torch.set_num_threads(1)

for number, program in enumerate(json.load(sys.stdin)):
    assert not [name for name in sys.modules if name.partition(".")[0] == "revgrad"]
    child = os.fork()
    if child == 0:
        for kind, end in ((1, "out"), (2, "err")):
            os.dup2(os.open(f"{number}.{end}", os.O_WRONLY | os.O_CREAT, 0o600), kind)
        code = 0
        try:
            exec(compile(program, "<shown>", "exec"), {"__name__": "__main__"})
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
        except BaseException:
            traceback.print_exc()
            code = 1
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


def run_each(programs: Sequence[str], folder: Path) -> list[Shown]:
    """What each program showed, all of them in `folder`, one after the other."""
    served = subprocess.run(
        [sys.executable, "-c", _SERVER],
        input=json.dumps(programs),
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": _path(folder)},
        capture_output=True,
        text=True,
    )
    assert served.returncode == 0, served.stderr
    codes = [int(line) for line in served.stdout.split()]
    assert len(codes) == len(programs), served.stderr
    found = []
    for number, code in enumerate(codes):
        files = [folder / f"{number}.{end}" for end in ("out", "err")]
        found.append(Shown(code, *(file.read_text() for file in files)))
        for file in files:
            file.unlink()
    return found


def command(words: Sequence[str]) -> str:
    """The program that `revgrad` with these words is."""
    return f"import sys\nsys.argv = {list(words)!r}\nfrom revgrad.cli import main\nmain()\n"


def _path(folder: Path) -> str:
    """The code under test, and modules in the current folder, as a user has them."""
    import revgrad

    return os.pathsep.join([str(Path(revgrad.__file__).parents[1]), str(folder)])
