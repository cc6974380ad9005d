"""The launchers of docs/scale.md, each run once with two processes on this machine: the weights are
those of one process."""

from __future__ import annotations

import importlib.util
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from safetensors.torch import load_file
from torch import Tensor

from tiny import environment

#: A training in float64, for any launcher: `python FILE RUN`.
TRAINING = """
def train(config):
    import numpy as np
    import torch
    from torch import nn

    import revgrad

    torch.set_num_threads(1)
    torch.manual_seed(0)
    random = np.random.default_rng(0)
    x = random.normal(size=(60, 4))
    network = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)).double()
    revgrad.adapt(
        network, (x, (x[:, 0] > 0).astype(int)), x + 1, layer="1", recipe="paper", steps=6,
        batch_size=8, run=config["run"], device="cpu", held_out=0, evidence_samples=0,
        progress=False,
    )
"""
PLAIN = f"""{TRAINING}
if __name__ == "__main__":
    import sys

    train({{"run": sys.argv[1]}})
"""
RAY = f"""{TRAINING}
if __name__ == "__main__":
    import os
    import sys

    import ray
    from ray.train import RunConfig, ScalingConfig
    from ray.train.torch import TorchTrainer

    path = {{"env_vars": {{"PYTHONPATH": os.environ["PYTHONPATH"], "OMP_NUM_THREADS": "1"}}}}
    ray.init(num_cpus=2, include_dashboard=False, runtime_env=path)
    TorchTrainer(
        train, train_loop_config={{"run": sys.argv[1]}},
        scaling_config=ScalingConfig(num_workers=2, use_gpu=False),
        run_config=RunConfig(storage_path=sys.argv[1] + " of Ray"),
    ).fit()
"""


def weights(run: Path) -> dict[str, Tensor]:
    (file,) = run.glob("*.safetensors")
    return {k: v for k, v in load_file(file).items() if k.startswith("adapter.network")}


def alike(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return bool(one) and all(float((one[k] - other[k]).abs().max()) < 1e-12 for k in one)


def trained_alone(folder: Path) -> dict[str, Tensor]:
    script = folder / "alone.py"
    script.write_text(PLAIN)
    run = folder / "alone"
    subprocess.run([sys.executable, str(script), str(run)], check=True, env=environment())
    return weights(run)


@pytest.mark.slow
def test_two_machines_of_torchrun(tmp_path: Path) -> None:
    """Two agents that meet at an address, as SLURM's srun or two pods of Kubernetes start them."""
    script = tmp_path / "train.py"
    script.write_text(PLAIN)
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    command = [
        *(sys.executable, "-m", "torch.distributed.run", "--nnodes", "2", "--nproc-per-node", "1"),
        *("--rdzv-backend", "c10d", "--rdzv-endpoint", f"127.0.0.1:{port}", "--rdzv-id", "one"),
        *(str(script), str(tmp_path / "run")),
    ]
    agents = [
        subprocess.Popen(command, env=environment(), stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    said = [agent.communicate()[1] for agent in agents]
    assert [agent.returncode for agent in agents] == [0, 0], said
    assert '"processes": 2' in (tmp_path / "run" / "config.json").read_text()
    assert alike(weights(tmp_path / "run"), trained_alone(tmp_path))


@pytest.mark.slow
@pytest.mark.skipif(
    importlib.util.find_spec("ray") is None, reason="needs Ray: pip install 'ray[train]'"
)
def test_ray_train(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(RAY)
    run = tmp_path / "run"
    done = subprocess.run(
        [sys.executable, str(script), str(run)],
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert '"processes": 2' in (run / "config.json").read_text()
    assert alike(weights(run), trained_alone(tmp_path))
