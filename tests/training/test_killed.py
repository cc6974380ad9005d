"""kill -9 at random moments: the run stays readable, and resumed it is identical."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tiny import command, environment

#: One process imports torch, then forks a child for each training: a kill costs no import.
NURSERY = """
import io, json, os, random, signal, sys, tarfile, time
from pathlib import Path
import torch
from PIL import Image
torch.set_num_threads(1)
from tiny import checkpoint_digest, drawing, image_trainer, images
from revgrad import Callback, Run, from_folder, from_shards

def files(domain):
    for number, image in enumerate(domain.batch(range(len(domain))).inputs):
        buffer = io.BytesIO()
        Image.fromarray(image.permute(1, 2, 0).numpy()).save(buffer, "PNG")
        yield f"{number:03}", buffer.getvalue(), str(domain.labels[number]).encode()

def tarred(folder):
    folder.mkdir()
    for part in range(2):
        with tarfile.open(folder / f"{part}.tar", "w") as tar:
            for name, png, label in files(images(20, 1 + part)):
                for ending, data in (("png", png), ("cls", label)):
                    info = tarfile.TarInfo(f"{name}.{ending}")
                    info.size = len(data)
                    tar.addfile(info, io.BytesIO(data))
    return from_shards(str(folder / "*.tar"))

def compressed(folder):
    folder.mkdir()
    for name, png, _ in files(images(30, 5)):
        (folder / f"{name}.png").write_bytes(png)
    return from_folder(folder, storage="compressed", labels=False)

folder, kills, kind = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
settings = dict(steps=12, checkpoint_every=1, log_every=2, ema_decay=0.9, batch_norm="target")
if kind == "workers":  # that read a Dataset which draws random numbers
    settings |= dict(workers=2, source=drawing(40, 1), target=drawing(30, 2))
if kind == "shards":  # of a tar, and a folder whose images are decoded as they come
    source, target = tarred(folder / "data"), compressed(folder / "photos")
    settings |= dict(workers=2, source=source, target=target)

class FirstStep(Callback):
    def __init__(self, pipe):
        self.pipe = pipe
    def on_step(self, trainer, step):
        if step == 1:
            os.write(self.pipe, b"1")

def start(run):
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            image_trainer(run, callbacks=(FirstStep(writing),), **settings).fit()
        finally:
            os._exit(0)
    os.close(writing)
    os.read(reading, 1)
    os.close(reading)
    return child

def finish(run):
    child = os.fork()
    if child == 0:
        code = 1
        try:
            image_trainer(run, **settings).fit()
            code = 0
        finally:
            os._exit(code)
    return os.waitpid(child, 0)[1]

image_trainer(folder / "warm", **settings).fit()  # torch imports more with its first step
began = time.monotonic()
image_trainer(folder / "preserved_rng", **settings).fit()
length = time.monotonic() - began
expected = checkpoint_digest(folder / "preserved_rng")
chance = random.Random(0)
results = []
while len(results) < kills and time.monotonic() - began < 500:
    run = folder / f"run{len(results)}-{time.monotonic_ns()}"
    child = start(run)
    time.sleep(chance.uniform(0, 0.9 * length))
    os.kill(child, signal.SIGKILL)
    status = os.waitpid(child, 0)[1]
    if not os.WIFSIGNALED(status):
        continue  # it had finished already
    saved = Run(run).checkpoint()
    left = len(list(run.glob(".*.part"))) + len(list(run.glob("*.safetensors"))) - bool(saved)
    Run(run).records()
    code = finish(run)
    clean = not list(run.glob(".*.part")) and len(list(run.glob("*.safetensors"))) == 1
    records = [record.step for record in Run(run).records()]
    results.append(dict(
        step=saved.step if saved else 0, left=left, resumed=code, clean=clean,
        same=checkpoint_digest(run) == expected, records=records,
    ))
print(json.dumps(results))
"""


@pytest.mark.slow
@pytest.mark.timeout(600)  # ten seconds on an idle core, minutes on a busy one
@pytest.mark.parametrize(("kind", "kills"), [("plain", 20), ("workers", 10), ("shards", 10)])
def test_random_kills_and_identical_ends(kind: str, kills: int, tmp_path: Path) -> None:
    script = tmp_path / "nursery.py"
    script.write_text(NURSERY)
    done = subprocess.run(
        command(script, str(tmp_path), str(kills), kind),
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    results = json.loads(done.stdout)
    assert len(results) == kills
    assert [r["resumed"] for r in results] == [0] * kills
    assert [r["same"] for r in results] == [True] * kills
    assert all(r["clean"] for r in results)  # nothing is left of what a kill cut short
    assert all(r["records"] == list(range(2, 13, 2)) for r in results)
    assert len({r["step"] for r in results}) > kills // 4  # the kills did fall on different moments
