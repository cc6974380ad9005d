"""The installed package, tried as a newcomer would, from a folder that is not the repository.

python tests/smoke.py    needs nothing but the package's own dependencies
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from torch import nn

import revgrad


def main() -> None:
    random = np.random.default_rng(0)
    x = random.normal(size=(300, 8)).astype("float32")
    y = (x[:, 0] + x[:, 1] > 0).astype(int)
    network = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 2))
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        adapted = revgrad.adapt(
            network, (x, y), x + 0.5, layer="1", steps=200, run=run, baseline=True, progress=False
        )
        assert adapted.predict(x).shape == (300,)
        page = adapted.report()
        command = [sys.executable, "-m", "revgrad", "verdict", str(run)]
        judged = subprocess.run(command, check=True, capture_output=True, text=True)
        print(judged.stdout.splitlines()[0])
        assert page.stat().st_size > 10_000
    print(f"revgrad {revgrad.__version__} from {Path(revgrad.__file__).parent}")


if __name__ == "__main__":
    main()
