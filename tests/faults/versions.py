"""`make lowest` and `make newest`: the core tests on the lowest and on the newest versions.

`python tests/faults/versions.py lowest tests/cli …`: only those, and in one process.

PyTorch stays at the version of constraints.txt, whose CPU build is what is installed here, and with
it torchvision, unless the variable TORCH says otherwise: `newest`, or a version. Everything else
that pyproject.toml names as a dependency, or in an extra of `EXTRAS`, is taken at the lowest
version that it allows.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
#: Extras that the core tests use.
EXTRAS = ("data", "demo", "frames", "tensorboard", "text", "tune")
#: Stays as constraints.txt has it.
KEPT = ("torch", "torchvision")
#: What tests with, at whatever version.
TOOLS = ("pytest>=8", "pytest-timeout>=2.3", "pytest-xdist>=3.5", "hypothesis>=6.100")
#: Warnings of old packages about newer ones beside them are no faults of ours.
QUIET = ("-W", "default", "-W", "ignore::DeprecationWarning", "-W", "ignore::FutureWarning")


def run(*words: str, **more: str) -> int:
    print("+", " ".join(words), flush=True)
    return subprocess.run(words, cwd=ROOT, env={**os.environ, **more}, check=False).returncode


def versions(python: Path) -> dict[str, str]:
    """What is installed beside that interpreter, by name."""
    shown = subprocess.run(
        [str(python), "-m", "uv", "pip", "list", "--format", "json"],
        capture_output=True,
        text=True,
        check=True,
    )
    return {one["name"]: one["version"] for one in json.loads(shown.stdout)}


def main(kind: str, *chosen: str) -> int:
    torch = os.environ.get("TORCH", "")
    place = ROOT / "build" / (f"{kind}-torch-{torch}" if torch else kind)
    python = place / "bin" / "python"
    if not python.exists():
        pins = [
            line
            for line in (ROOT / "constraints.txt").read_text().splitlines()
            if line.partition("==")[0] in KEPT
        ]
        if torch:
            pins = [] if torch == "newest" else [f"torch=={torch}"]
        place.parent.mkdir(exist_ok=True)
        limits = place.with_name(f"{place.name}.constraints.txt")
        limits.write_text("\n".join(pins) + "\n")
        # PyTorch first, from where pip finds its CPU build: uv then leaves it, and changes all else
        for step in (
            (sys.executable, "-m", "venv", str(place)),
            (str(python), "-m", "pip", "install", "--quiet", "uv", "-c", str(limits), *KEPT),
        ):
            if code := run(*step):
                return code
        install = ["-m", "uv", "pip", "install", "--python", str(python), "-c", str(limits)]
        resolution = "lowest-direct" if kind == "lowest" else "highest"
        changed = [f"--upgrade-package={name}" for name in versions(python) if name not in KEPT]
        wanted = ("-e", f".[{','.join(EXTRAS)}]", *TOOLS)
        if code := run(str(python), *install, "--resolution", resolution, *changed, *wanted):
            return code
    print(" ".join(f"{name} {version}" for name, version in sorted(versions(python).items())))
    core = ("-m", "not slow and not paper", "-p", "no:cacheprovider", *QUIET)
    given = ("-n", "0", *chosen) if chosen else ("-n", "2")
    return run(str(python), "-m", "pytest", *given, *core, OMP_NUM_THREADS="1")


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
