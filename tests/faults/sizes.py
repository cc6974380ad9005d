"""Bombs under a memory limit; many files, many classes, many samples, many steps."""

from __future__ import annotations

import io
import json
import os
import resource
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image

from processes import Running
from works import Bench

if TYPE_CHECKING:
    from trials import Outcome, Trial

#: Bytes that a process may take beside what it has when it begins: addresses, where bombs are
#: tried; memory, where sizes are.
ROOM = 700 << 20
SMALL = ("--steps", "2", "--batch-size", "8", "--domain-classifier", "4", "--threads", "1")


def sizes(short: bool) -> Iterator[Trial]:
    from trials import Trial

    for what, make in BOMBS.items():
        for number in range(1):
            yield Trial("bombs under a memory limit", what, number, _bomb(make))
    if short:
        return
    for what, do in SIZES.items():
        yield Trial("sizes in bounded memory", what, 0, do)


def limited() -> None:
    """At most `ROOM` more addresses than this process has now."""
    most = _pages(0) + ROOM
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def _pages(which: int) -> int:
    """Bytes of this process: 0 its addresses, 1 what it holds in memory."""
    return int(Path("/proc/self/statm").read_text().split()[which]) * resource.getpagesize()


def _bomb(make: Callable[[Path], tuple[object, ...]]) -> Callable[[Bench], Outcome]:
    """One line and an exit code, whatever it was made for."""

    def do(bench: Bench) -> Outcome:
        from trials import Outcome

        outcome, folder = Outcome(), bench.place("bomb")
        ended = Running(make(folder), folder, before=limited).wait()
        wrong = ended.untidy or ("" if ended.lines or "WRONG" in ended.said else ended.said[-200:])
        outcome.see(wrong if ended.code in (1, 2) else f"{ended.code}: {ended.said[-200:]}")
        bench.leave(folder)
        return outcome

    return do


def _npz_of_zeros(folder: Path) -> tuple[object, ...]:
    """Forty gigabytes of zeros in forty megabytes, or as many as a header claims."""
    header = io.BytesIO()
    shape = (10_000_000_000, 4)
    np.lib.format.write_array_header_1_0(
        header, {"descr": "|u1", "fortran_order": False, "shape": shape}
    )
    with zipfile.ZipFile(folder / "bomb.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("images.npy", header.getvalue() + bytes(1 << 20))
    return ("data", "check", "bomb.npz")


def _real_npz(folder: Path) -> tuple[object, ...]:
    """Four gigabytes, truly there, in four megabytes."""
    header, shape = io.BytesIO(), (4096, 1024, 1024)
    np.lib.format.write_array_header_1_0(
        header, {"descr": "|u1", "fortran_order": False, "shape": shape}
    )
    with (
        zipfile.ZipFile(folder / "bomb.npz", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("images.npy", "w", force_zip64=True) as file,
    ):
        file.write(header.getvalue())
        for _ in range(1024):
            file.write(bytes(4 << 20))
    return ("train", "--source", "bomb.npz", "--target", "bomb.npz", *SMALL, "-o", "run")


def _png(folder: Path) -> tuple[object, ...]:
    """30,000 × 30,000 pixels in a few kilobytes."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        check = struct.pack(">I", zlib.crc32(kind + data))
        return struct.pack(">I", len(data)) + kind + data + check

    side, packer = 30_000, zlib.compressobj(9)
    rows = b"".join(packer.compress(bytes(1 + side * 3)) for _ in range(200)) + packer.flush()
    head = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    text = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")
    (folder / "photos").mkdir()
    (folder / "photos" / "bomb.png").write_bytes(text)
    return ("data", "check", "photos", "--size", "8")


def _nested_json(folder: Path) -> tuple[object, ...]:
    (folder / "run").mkdir()
    (folder / "run" / "config.json").write_text('{"a":' + "[" * 100_000 + "]" * 100_000 + "}")
    return ("verdict", "run")


def _wide(folder: Path) -> tuple[object, ...]:
    data = "../data/source.npz"
    wide = ("--domain-classifier", "900000,900000")
    return ("train", "--source", data, "--target", data, *SMALL, *wide, "-o", "run")


BOMBS: dict[str, Callable[[Path], tuple[object, ...]]] = {
    "npz, claimed": _npz_of_zeros,
    "npz, real": _real_npz,
    "png": _png,
    "nested json": _nested_json,
    "wide domain classifier": _wide,
}


# -- sizes ----------------------------------------------------------------------------------------


def _done(bench: Bench, words: tuple[object, ...], folder: Path, **more: str) -> str:
    """What is wrong with its end; it must hold at most `ROOM` more memory than it begins with."""
    ended = Running(words, folder, **more).wait()
    taken = ended.peak - _pages(1)
    if ended.code or ended.untidy:
        return f"{ended.code}: {ended.said[-300:]}"
    return "" if taken < ROOM else f"{taken >> 20} MB"


def _thousand_classes(bench: Bench) -> Outcome:
    """Trained, judged and predicted, from folders."""
    from trials import Outcome

    outcome, folder = Outcome(), bench.place("classes")
    chance = np.random.default_rng(0)
    for number in range(2000):
        path = folder / "photos" / f"class{number % 1000:04d}" / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(chance.integers(0, 256, (8, 8, 3), dtype=np.uint8)).save(path)
    given = ("--source", "photos", "--target", "photos", "--network", "compact", "--size", "8")
    for words in (
        ("train", *given, *SMALL, "-o", "run", "--quiet"),
        ("evaluate", "run", "photos"),
        ("predict", "run", "photos", "-o", "out.csv"),
        ("verdict", "run"),
    ):
        outcome.see(_done(bench, words, folder, REVGRAD_CACHE=str(folder / "cache")))
    bench.leave(folder)
    return outcome


def _fifty_thousand_files(bench: Bench) -> Outcome:
    """Read into the cache, read again from it, and predicted."""
    from trials import Outcome

    outcome, folder = Outcome(), bench.place("files")
    chance, image = np.random.default_rng(0), io.BytesIO()
    Image.fromarray(chance.integers(0, 256, (8, 8, 3), dtype=np.uint8)).save(image, "PNG")
    for group in range(50):
        part = folder / "photos" / f"class{group:02d}"
        part.mkdir(parents=True)
        for number in range(1000):
            (part / f"{number}.png").write_bytes(image.getvalue())
    cache = str(folder / "cache")
    for words in (
        ("data", "check", "photos"),
        ("data", "check", "photos"),
        ("predict", "../data/trained", "photos", "-o", "out.csv"),
    ):
        outcome.see(_done(bench, words, folder, REVGRAD_CACHE=cache))
    lines = (folder / "out.csv").read_text().count("\n") if (folder / "out.csv").exists() else 0
    outcome.see("" if lines == 50_001 else f"{lines} lines of predictions")
    bench.leave(folder)
    return outcome


def _million_samples(bench: Bench) -> Outcome:
    from trials import Outcome

    outcome, folder = Outcome(), bench.place("samples")
    chance = np.random.default_rng(0)
    inputs = chance.normal(size=(1_000_000, 4)).astype(np.float32)
    np.savez(folder / "many.npz", inputs=inputs, labels=np.arange(1_000_000) % 3)
    given = ("--source", "many.npz", "--target", "many.npz")
    for words in (
        ("train", *given, *SMALL, "-o", "run", "--quiet"),
        ("predict", "run", "many.npz", "-o", "out.csv"),
    ):
        outcome.see(_done(bench, words, folder))
    bench.leave(folder)
    return outcome


def _larger_than_memory(bench: Bench) -> Outcome:
    """A folder that decodes to 2.4 GB, in 700 MB beside the program itself."""
    from trials import Outcome

    outcome, folder = Outcome(), bench.place("large")
    given = ("--source", "../data/images.npz", "--target", "../data/images.npz")
    image = io.BytesIO()
    Image.new("RGB", (128, 128), (200, 30, 90)).save(image, "PNG")
    (folder / "photos").mkdir()
    for number in range(50_000):
        (folder / "photos" / f"{number:05d}.png").write_bytes(image.getvalue())
    train = ("train", *given, "--network", "compact", "--size", "128", *SMALL, "--quiet")
    outcome.see(_done(bench, (*train, "-o", "run"), folder))
    outcome.see(_done(bench, ("predict", "run", "photos", "-o", "out.csv"), folder))
    bench.leave(folder)
    return outcome


def _memory_slope(bench: Bench) -> Outcome:
    """20,000 steps without logs and checkpoints: memory after a quarter is memory at the end."""
    from trials import Outcome

    outcome, folder = Outcome(), bench.place("slope")
    held = folder / "held.json"

    def watch() -> None:
        from revgrad.training.trainer import Trainer

        plain, found = Trainer.train_step, []

        def watched(self: Trainer, step: int) -> tuple[float, float]:
            if step % 5000 == 0 or step == 19_999:
                found.append(_pages(1))
                held.write_text(json.dumps(found))
            return plain(self, step)

        Trainer.train_step = watched  # type: ignore[method-assign]

    data = ("--source", "../data/source.npz", "--target", "../data/target.npz")
    never = ("--log-every", "0", "--checkpoint-every", "0", "--evaluate-every", "0")
    steps = ("--steps", "20000", *SMALL[2:])
    words = ("train", *data, "--recipe", "stabilised", *steps, *never, "-o", "run", "--quiet")
    ended = Running(words, folder, before=watch).wait()
    found = json.loads(held.read_text()) if held.exists() else []
    wrong = "" if ended.code == 0 and len(found) == 5 else ended.said[-300:]
    a_step = (found[-1] - found[1]) / 15_000 if not wrong else 0.0
    outcome.see(wrong or ("" if a_step < 50 else f"{a_step:.0f} bytes a step"))
    bench.leave(folder)
    assert os.path.isdir(bench.base)
    return outcome


SIZES: dict[str, Callable[[Bench], Outcome]] = {
    "1,000 classes": _thousand_classes,
    "50,000 files": _fifty_thousand_files,
    "1,000,000 samples": _million_samples,
    "predict of 2.4 GB": _larger_than_memory,
    "20,000 steps": _memory_slope,
}
