"""Shards: tar files as WebDataset writes them, tables of Parquet and Arrow; from disk and over
http; orders, held-out shards, resuming, and shards that are damaged."""

from __future__ import annotations

import functools
import http.server
import io
import json
import pickle
import subprocess
import sys
import tarfile
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from PIL import Image

from revgrad import Domain, Run, adapt, from_arrays, from_shards, open_domain
from revgrad._permutation import BlockShuffle
from revgrad._system import cache_folder
from revgrad.domains import download
from revgrad.errors import DataError, InputError, RevgradError
from revgrad.training.paired_batches import PairedBatches
from tiny import (
    Images,
    checkpoint_digest,
    environment,
    image_trainer,
    images,
    seeded,
    weights_digest,
)

LENGTHS = (7, 20, 13)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REVGRAD_CACHE", str(tmp_path / "cache"))


def member(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    tar.addfile(info, io.BytesIO(data))


def png(pixels: np.ndarray) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


def whole(seed: int = 1) -> Domain:
    return images(sum(LENGTHS), seed)


def pixels_of(domain: Domain) -> np.ndarray:
    inputs = domain.batch(np.arange(len(domain)), augment=False).inputs
    assert isinstance(inputs, torch.Tensor)
    return inputs.permute(0, 2, 3, 1).numpy()


def write_tars(folder: Path, seed: int = 1, kind: int = tarfile.PAX_FORMAT) -> str:
    folder.mkdir(exist_ok=True)
    domain = whole(seed)
    pictures, at = pixels_of(domain), 0
    for shard, length in enumerate(LENGTHS):
        with tarfile.open(folder / f"s-{shard:02}.tar", "w", format=kind) as tar:
            for i in range(at, at + length):
                long = "x" * 120 if i == 5 else ""  # longer than a plain header holds
                member(tar, f"a.b/{i:06}{long}.png", png(pictures[i]))
                member(tar, f"a.b/{i:06}{long}.json", b"{}")
                member(tar, f"a.b/{i:06}{long}.cls", str(domain.labels[i]).encode())
        at += length
    return str(folder / "s-{00..02}.tar")


def write_tables(folder: Path, ending: str) -> str:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    folder.mkdir(exist_ok=True)
    domain, at = whole(), 0
    pictures = pixels_of(domain)
    names = {"info": {"features": {"label": {"names": ["a", "b", "c"]}}}}
    for shard, length in enumerate(LENGTHS):
        rows = range(at, at + length)
        table = pa.table(
            {
                "image": [{"bytes": png(pictures[i]), "path": None} for i in rows],
                "label": [int(domain.labels[i]) for i in rows],
            }
        ).replace_schema_metadata({"huggingface": json.dumps(names)})
        path = folder / f"s-{shard}{ending}"
        if ending == ".parquet":
            pq.write_table(table, path, row_group_size=6)
        else:
            with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, table.schema) as out:
                out.write_table(table)
        at += length
    return str(folder / f"s-*{ending}")


def made(folder: Path, form: str) -> Domain:
    if form in (".parquet", ".arrow"):
        return from_shards(write_tables(folder, form))
    return from_shards(write_tars(folder, kind=getattr(tarfile, f"{form}_FORMAT")))


@pytest.mark.parametrize("form", ["PAX", "GNU", ".parquet", ".arrow"])
def test_samples_and_labels_are_those_that_were_written(form: str, tmp_path: Path) -> None:
    domain = made(tmp_path / "data", form)
    expected = whole()
    assert len(domain) == 40
    assert domain.shape == (3, 8, 8)
    assert domain.is_images
    assert (domain.labels == expected.labels).all()
    assert (pixels_of(domain) == pixels_of(expected)).all()
    some = np.array([39, 0, 7, 6, 26, 27, 0])
    for one in (domain, pickle.loads(pickle.dumps(domain))):
        assert torch.equal(one.batch(some).inputs, expected.batch(some).inputs)
    assert domain.classes == (("a", "b", "c") if form.startswith(".") else None)
    assert domain.fingerprint() == made(tmp_path / "data", form).fingerprint()


def test_what_webdataset_writes(tmp_path: Path) -> None:
    webdataset = pytest.importorskip("webdataset", reason="webdataset is not installed")
    expected = whole()
    pictures = pixels_of(expected)
    pattern = str(tmp_path / "w-%06d.tar")
    with webdataset.ShardWriter(pattern, maxcount=15, verbose=0) as writer:
        for i in range(40):
            writer.write({"__key__": f"{i:05}", "png": pictures[i], "cls": int(expected.labels[i])})
    domain = from_shards(tmp_path / "w-{000000..000002}.tar")
    assert (pixels_of(domain) == pictures).all()
    assert (domain.labels == expected.labels).all()
    arrays = np.random.default_rng(0).normal(size=(9, 4)).astype(np.float32)
    with webdataset.TarWriter(str(tmp_path / "v.tar")) as writer:
        for i in range(9):
            writer.write({"__key__": str(i), "npy": arrays[i], "cls": i % 2})
    vectors = open_domain(str(tmp_path / "v.tar"))
    assert (vectors.batch(np.arange(9)).inputs.numpy() == arrays).all()


def test_tables_of_numbers(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    values = np.random.default_rng(0).normal(size=(11, 3)).astype(np.float32)
    plain = {name: values[:, i] for i, name in enumerate("abc")}
    label = [["yes", "no"][i % 2] for i in range(11)]
    pq.write_table(pa.table({**plain, "label": label}), tmp_path / "n.parquet")
    pq.write_table(pa.table({"x": list(values), "label": label}), tmp_path / "l.parquet")
    for name in ("n", "l"):
        domain = from_shards([tmp_path / f"{name}.parquet"])
        assert (domain.batch(np.arange(11)).inputs.numpy() == values).all()
        assert domain.classes == ("no", "yes")
        assert domain.labels.tolist() == [1, 0] * 5 + [1]
    assert from_shards([tmp_path / "n.parquet"], inputs="b").shape == (1,)


def test_images_of_one_size_and_large_jpegs(tmp_path: Path) -> None:
    big = np.zeros((300, 400, 3), np.uint8)
    big[:, :200] = (250, 10, 10)
    file = io.BytesIO()
    Image.fromarray(big).save(file, "JPEG", quality=95)
    with tarfile.open(tmp_path / "j.tar", "w") as tar:
        member(tar, "one.jpg", file.getvalue())
        member(tar, "two.png", png(big[:200, :200]))
    with pytest.raises(DataError, match=r"shape \(200, 200, 3\), others are of \(300, 400, 3\)"):
        from_shards(tmp_path / "j.tar").batch([0, 1])
    first = from_shards(tmp_path / "j.tar", size=32).batch([0, 1]).inputs
    assert first.shape == (2, 3, 32, 32)
    assert (first[0, :, 16, 4] - torch.tensor([250, 10, 10])).abs().max() < 8
    assert first[0, :, 16, 28].max() < 8


def test_shards_are_held_out_whole_and_read_one_after_the_other(tmp_path: Path) -> None:
    domain = from_shards(write_tars(tmp_path / "data"))
    rest, held = domain.split(0.3)
    bounds = np.cumsum([0, *LENGTHS])
    shards = [set(np.searchsorted(bounds, part.rows, side="right")) for part in (rest, held)]
    assert not shards[0] & shards[1]
    assert len(rest) + len(held) == 40
    for part in (domain, rest, held, rest.balanced()):
        batches = PairedBatches([part], [5], seed=2)
        drawn = np.concatenate([batches.indices(step)[0] for step in range(2 * len(part) // 5)])
        assert sorted(drawn[: len(part)]) == list(range(len(part)))
        assert (drawn[: len(drawn) // 2] != drawn[-(len(drawn) // 2) :]).any()


def test_a_block_shuffle_has_every_number_once_and_few_shards_at_a_time() -> None:
    lengths = np.random.default_rng(1).integers(50, 150, 200)
    starts = np.concatenate([[0], np.cumsum(lengths)[:-1]])
    n = int(lengths.sum())
    order = BlockShuffle(starts, n, key=3, window=512)
    drawn = order[0:n]
    assert (np.sort(drawn) == np.arange(n)).all()
    for start in range(0, n - 512, 512):
        window = drawn[start : start + 512]
        assert len(np.unique(np.searchsorted(starts, window, side="right"))) <= 12
        assert (np.diff(window) != 1).mean() > 0.9
    for start, stop in ((0, 7), (500, 530), (n - 9, n), (1000, 3000), (3, 4), (9, 9)):
        again = BlockShuffle(starts, n, key=3, window=512)
        assert (again[start:stop] == drawn[start:stop]).all()
    other = BlockShuffle(starts, n, key=4, window=512)[0:n]
    assert (other == drawn).mean() < 0.01


@pytest.mark.parametrize("workers", [0, 2])
def test_a_run_on_shards_resumes_bit_for_bit(workers: int, tmp_path: Path) -> None:
    """Stopped after 13 of 30 steps; and its weights are those without workers."""
    source, target = (
        from_shards(write_tars(tmp_path / name, seed)) for name, seed in (("a", 1), ("b", 2))
    )

    class Stop(Exception):
        pass

    class Stopper:
        def __getattr__(self, name: str) -> Callable[..., None]:
            return lambda *_: None

        def on_step(self, trainer: Any, step: int) -> None:
            if step == 13:
                trainer._save(step)
                raise Stop

    given: dict[str, Any] = {"source": source, "target": target}
    image_trainer(tmp_path / "whole", **given).fit()
    with pytest.raises(Stop):
        image_trainer(tmp_path / "parts", callbacks=(Stopper(),), workers=workers, **given).fit()
    image_trainer(tmp_path / "parts", workers=workers, **given).fit()
    assert checkpoint_digest(tmp_path / "parts") == checkpoint_digest(tmp_path / "whole")


def test_labels_of_a_target_in_shards_change_nothing(tmp_path: Path) -> None:
    write_tars(tmp_path / "t")
    found = []
    for poisoned in (False, True):
        if poisoned:
            for path in sorted((tmp_path / "t").iterdir()):
                data = path.read_bytes()
                with tarfile.open(path) as tar:
                    for one in tar.getmembers():
                        if one.name.endswith(".cls"):
                            at = one.offset_data
                            data = data[:at] + b"0" + data[at + 1 :]
                path.write_bytes(data)
        network = seeded(Images)
        adapt(
            network, images(40, 1), from_shards(tmp_path / "t" / "s-{00..02}.tar"), layer="flat",
            steps=6, batch_size=12, progress=False,
        )  # fmt: skip
        found.append(weights_digest(network))
    assert found[0] == found[1]


@pytest.mark.slow
def test_from_the_command_line_on_two_processes(tmp_path: Path) -> None:
    """As docs/scale.md says it: torchrun, shards, parts of a batch; the run can be loaded."""
    pattern = write_tars(tmp_path / "d")
    run = ["train", "--source", pattern, "--target", pattern, "--method", "adversarial"]
    run += ["--network", "compact", "--steps", "3", "--batch-size", "24", "--micro-batch", "8"]
    run += ["--held-out", "0.3", "--quiet"]
    for processes in (1, 2):
        folder = tmp_path / f"run{processes}"
        done = subprocess.run(
            [
                *(sys.executable, "-m", "torch.distributed.run", "--standalone"),
                *("--nproc-per-node", str(processes), "-m", "revgrad", *run, "-o", str(folder)),
            ],
            env=environment(REVGRAD_CACHE=str(tmp_path / "cache")),
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr[-2000:]
        assert Run(folder).checkpoint().step == 3


# -- what is damaged, one line each ---------------------------------------------------------------


def line(error: pytest.ExceptionInfo[RevgradError]) -> str:
    text = str(error.value)
    assert "\n" not in text
    return text


def test_shards_that_are_cut_missing_or_of_another_kind(tmp_path: Path) -> None:
    pattern = write_tars(tmp_path / "d")
    path = tmp_path / "d" / "s-01.tar"
    data = path.read_bytes()
    for end, says in (
        (len(data) // 2, "cut"), (len(data) // 2 + 300, "cut"), (10, "cut or no tar"), (0, "s-01"),
        (len(data) // 10240 * 10240 - 10240, "cut"),
    ):  # fmt: skip
        path.write_bytes(data[:end])
        with pytest.raises(DataError, match=r"s-01\.tar") as error:
            from_shards(pattern)
        assert says in line(error)
    path.unlink()
    with pytest.raises(InputError, match=r"no shard .*s-01\.tar") as refused:
        from_shards(pattern)
    line(refused)
    with tarfile.open(path, "w") as tar:
        member(tar, "one.txt", b"no image")
    with pytest.raises(DataError, match="sample '/one' has no input"):
        from_shards(pattern)
    with tarfile.open(path, "w") as tar:
        member(tar, "one.png", png(np.zeros((8, 8, 3), np.uint8)))
    with pytest.raises(DataError, match=r"s-01.tar has no labels, s-00.tar has"):
        from_shards(pattern)
    assert from_shards(pattern, labels=False).labels is None
    with tarfile.open(path, "w") as tar:
        member(tar, "one.png", b"no image")
        member(tar, "one.cls", b"1")
    with pytest.raises(DataError, match=r"an image of shard s-01.tar can't be read"):
        from_shards(pattern).batch([7])
    for wrong in ("none-*.tar", []):
        with pytest.raises(InputError, match="no shard fits"):
            from_shards(str(tmp_path / wrong) if wrong else [])
    (tmp_path / "a.zip").touch()
    with pytest.raises(InputError, match="is no shard"):
        from_shards([tmp_path / "a.zip"])


def test_tables_that_are_cut_or_of_another_schema(tmp_path: Path) -> None:
    pattern = write_tables(tmp_path / "p", ".parquet")
    path = tmp_path / "p" / "s-1.parquet"
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(DataError, match=r"s-1.parquet is cut or no parquet file") as error:
        from_shards(pattern)
    line(error)
    path.write_bytes(data)
    with pytest.raises(DataError, match=r"no column 'picture' \(there are: image, label\)"):
        from_shards(pattern, inputs="picture")


def test_a_shard_that_is_lost_while_it_is_read_costs_no_step(tmp_path: Path) -> None:
    """One line; the run is saved where it was, and goes on when the shard is whole again."""
    pattern = write_tars(tmp_path / "d")
    source = from_shards(pattern)
    path = tmp_path / "d" / "s-01.tar"
    data = path.read_bytes()

    class Cutter:
        def __getattr__(self, name: str) -> Callable[..., None]:
            return lambda *_: None

        def on_step(self, trainer: Any, step: int) -> None:
            if step == 5:
                with path.open("r+b") as file:
                    file.truncate(100)

    with pytest.raises(DataError, match=r"s-01.tar was cut") as error:
        image_trainer(tmp_path / "run", source=source, callbacks=(Cutter(),)).fit()
    line(error)
    saved = Run(tmp_path / "run").checkpoint()
    assert saved is not None
    assert saved.step >= 5
    path.write_bytes(data)
    image_trainer(tmp_path / "run", source=source).fit()
    image_trainer(tmp_path / "whole", source=source).fit()
    assert checkpoint_digest(tmp_path / "run") == checkpoint_digest(tmp_path / "whole")


# -- over http ------------------------------------------------------------------------------------


class Server(http.server.SimpleHTTPRequestHandler):
    """Serves a folder; what it does to the first requests is said by `faults`."""

    faults: ClassVar[list[str]] = []

    def log_message(self, *arguments: Any) -> None:
        pass

    def do_GET(self) -> None:
        fault = type(self).faults.pop(0) if type(self).faults else ""
        path = Path(self.translate_path(self.path))
        if fault == "error":
            self.send_error(503)
        elif fault == "stall":
            time.sleep(1.5)
        elif path.exists():
            data = path.read_bytes()
            asked = self.headers.get("Range")
            start = int(asked.removeprefix("bytes=").rstrip("-")) if asked else 0
            self.send_response(206 if asked else 200)
            self.send_header("Content-Length", str(len(data) - start))
            self.end_headers()
            self.wfile.write(data[start : len(data) // 2] if fault == "cut" else data[start:])
        else:
            self.send_error(404)


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr(download, "FIRST_WAIT", 0.01)
    write_tars(tmp_path / "served")
    handler = functools.partial(Server, directory=str(tmp_path / "served"))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as served:
        thread = threading.Thread(target=served.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{served.server_port}"
        served.shutdown()
        thread.join()


@pytest.mark.parametrize("faults", [[], ["error"], ["cut"], ["stall"], ["cut", "error", "cut"]])
def test_shards_from_a_server_that_fails_at_first(faults: list[str], server: str) -> None:
    Server.faults = list(faults)
    domain = from_shards(f"{server}/s-{{00..02}}.tar", timeout=0.5)
    assert not Server.faults
    assert (pixels_of(domain) == pixels_of(whole())).all()
    Server.faults = ["error"] * 9  # what was fetched is not asked for again
    assert len(from_shards(f"{server}/s-{{00..02}}.tar")) == 40


def test_what_was_fetched_and_then_damaged_is_fetched_anew(server: str) -> None:
    Server.faults = []
    shards = f"{server}/s-{{00..02}}.tar"
    from_shards(shards)
    folder = cache_folder() / "shards"
    for path in sorted(folder.glob("*.tar")):
        data = path.read_bytes()
        path.write_bytes(data[:700] + bytes([data[700] ^ 1]) + data[701:])
    assert (pixels_of(from_shards(shards)) == pixels_of(whole())).all()
    for note in folder.glob("*.tar.json"):
        note.write_text(note.read_text()[:20])
    assert (pixels_of(from_shards(shards)) == pixels_of(whole())).all()
    Server.faults = ["error"] * 9  # and then no more
    path.touch()
    assert (pixels_of(from_shards(shards)) == pixels_of(whole())).all()


def test_an_address_as_long_as_can_be(server: str) -> None:
    with pytest.raises(DataError, match="can't be fetched"):
        from_shards(f"{server}/{'a' * 300}.tar")


@pytest.mark.parametrize(
    ("fault", "says"),
    [("stall", "was silent for 0.2 seconds"), ("error", "says 503"), ("cut", "broke after")],
)
def test_a_server_that_goes_on_failing(fault: str, says: str, server: str) -> None:
    Server.faults = [fault] * 9
    with pytest.raises(DataError, match=says) as error:
        from_shards(f"{server}/s-00.tar", timeout=0.2, retries=1)
    assert "can't be fetched" in line(error)
    Server.faults = []
    assert len(from_shards(f"{server}/s-00.tar")) == 7


def test_an_address_where_nothing_is(server: str) -> None:
    with pytest.raises(DataError, match="the server says 404"):
        from_shards(f"{server}/none.tar")
    with pytest.raises(DataError, match="can't be fetched"):
        from_shards("http://127.0.0.1:9/none.tar", retries=0)


def _saved(value: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, value)
    return file.getvalue()


def _bomb() -> bytes:
    """A png that says it is 65,535 × 65,535 pixels."""
    file = io.BytesIO()
    Image.new("RGB", (8, 8)).save(file, "PNG")
    data = file.getvalue()
    head = b"IHDR" + 2 * (65_535).to_bytes(4, "big") + data[24:29]
    return data[:12] + head + zlib.crc32(head).to_bytes(4, "big") + data[33:]


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("0.png", b"no image"),
        ("0.png", _bomb()),
        ("0.npy", b"\x93NUMPY\x01\x00\xf6\x01" + b"(" * 502),
        ("0.npy", _saved(np.array([print], dtype=object))),
        ("0.npy", _saved(np.array(["a"]))),
        ("0.npy", b""),
    ],
)
def test_a_hostile_sample_is_one_line(name: str, data: bytes, tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        member(tar, name, data)
    with pytest.raises(DataError, match=r"a\.tar") as error:
        from_shards(tmp_path / "a.tar").batch([0])
    assert "\n" not in str(error.value)
    assert "0x" not in str(error.value)


def test_labels_that_no_integer_holds_are_names(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        for number in range(2):
            member(tar, f"{number}.npy", _saved(np.zeros(3, np.float32)))
            member(tar, f"{number}.cls", b"9" * (30 + number))
    assert from_shards(tmp_path / "a.tar").classes == ("9" * 30, "9" * 31)


@pytest.mark.parametrize("text", ["s-{0..999999999}.tar", "a{0..9999}{0..9999}.parquet"])
def test_a_pattern_of_a_billion_shards(text: str) -> None:
    with pytest.raises(InputError, match="shards: 1,000,000 at most"):
        from_shards(text)


@pytest.mark.parametrize("address", ["http://[::bad/a.tar", "http://h:port/a.tar"])
def test_an_address_that_is_none(address: str) -> None:
    with pytest.raises(DataError, match="can't be fetched"):
        from_shards(address, retries=0)


def test_a_shard_with_arrays_of_any_shape_is_refused_in_a_line(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        for i in range(2):
            file = io.BytesIO()
            np.save(file, np.zeros(3 + i, np.float32))
            member(tar, f"{i}.npy", file.getvalue())
    with pytest.raises(DataError, match="size="):
        from_shards(tmp_path / "a.tar").batch([0, 1])
    assert isinstance(from_arrays(np.zeros((2, 3), np.float32)), Domain)
