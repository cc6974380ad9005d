"""Images a second of the generators, beside a plain loop that makes one image at a time.

Ours is the whole way, with the start of two processes and the writing to the cache (mnist-m: the
blending, in one process). The loop is what one would write by hand with Pillow and NumPy for the
same kind of image: in one process, without writing. mnist-m blends random bytes, so that no data is
needed.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable

import numpy as np

from measuring import BRIEF, Measurement, header

TURNS = 1 if BRIEF else 3
WORKERS = 2


def rate(count: int, make: Callable[[int], None]) -> float:
    """Images a second of `make(count)`: the median of some turns."""
    count = min(count, 20) if BRIEF else count
    seconds = []
    for _ in range(TURNS):
        start = time.perf_counter()
        make(count)
        seconds.append(time.perf_counter() - start)
    return count / statistics.median(seconds)


def show(name: str, ours: float, loop: float) -> None:
    Measurement(f"{name}, images/s", ours, loop, ours / loop).show()


# -- mnist-m ------------------------------------------------------------------------------------


def mnist_m() -> None:
    from revgrad.domains.digits import blend

    rng = np.random.default_rng(0)
    digits = rng.integers(0, 256, (20_000, 28, 28), dtype=np.uint8)
    photographs = [rng.integers(0, 256, (321, 481, 3), dtype=np.uint8) for _ in range(200)]

    def ours(count: int) -> None:
        blend(digits[:count], photographs)

    def loop(count: int) -> None:
        for digit in digits[:count]:
            photograph = photographs[rng.integers(len(photographs))]
            top, left = rng.integers(321 - 28), rng.integers(481 - 28)
            patch = photograph[top : top + 28, left : left + 28].astype(int)
            np.abs(digit[:, :, None].astype(int) - patch).astype(np.uint8)

    show("mnist-m", rate(len(digits), ours), rate(2000, loop))


# -- syn-numbers --------------------------------------------------------------------------------


def syn_numbers() -> None:
    from PIL import Image, ImageDraw, ImageFilter, ImageFont

    from revgrad.paper.synthetic.fonts import fonts
    from revgrad.paper.synthetic.syn_numbers import SynNumbers, make_numbers

    chosen = fonts()
    faces = [ImageFont.truetype(font.path, 96) for font in chosen]
    rng = np.random.default_rng(0)
    seeds = iter(range(100))

    def ours(count: int) -> None:
        make_numbers(count, SynNumbers(seed=next(seeds)), workers=WORKERS, progress=False)

    def loop(count: int) -> None:
        for _ in range(count):
            stroke, ground = (tuple(int(c) for c in rng.integers(0, 256, 3)) for _ in range(2))
            image = Image.new("RGB", (128, 128), ground)
            number = str(rng.integers(1000))
            face = faces[rng.integers(len(faces))]
            ImageDraw.Draw(image).text((64, 64), number, fill=stroke, font=face, anchor="mm")
            image = image.rotate(float(rng.uniform(-12, 12)), Image.Resampling.BILINEAR)
            image = image.resize((32, 32), Image.Resampling.BOX)
            image = image.filter(ImageFilter.GaussianBlur(float(rng.uniform(0.4, 2))))
            noisy = np.asarray(image) + rng.normal(0, 3, (32, 32, 3))
            np.clip(noisy, 0, 255).astype(np.uint8)

    ours(64)  # the fonts are drawn once in a process
    show("syn-numbers", rate(40_000, ours), rate(500, loop))


# -- syn-signs ----------------------------------------------------------------------------------


def syn_signs() -> None:
    from PIL import Image, ImageFilter

    from revgrad.paper.synthetic.signs.drawing import Style, drawings
    from revgrad.paper.synthetic.syn_signs import SynSigns
    from revgrad.paper.synthetic.syn_signs import syn_signs as make_signs

    rng = np.random.default_rng(0)
    signs = [Image.fromarray(sign) for sign in drawings(96, Style())]
    seeds = iter(range(100))
    with tempfile.TemporaryDirectory() as folder:
        photographs = []
        for number in range(20):
            small = rng.integers(0, 256, (16, 24, 3), dtype=np.uint8)
            photographs.append(Image.fromarray(small).resize((481, 321)))
            photographs[-1].save(f"{folder}/{number}.png")

        def ours(count: int) -> None:
            chosen = SynSigns(seed=next(seeds))
            make_signs(
                count=count,
                parameters=chosen,
                photographs=folder,
                workers=WORKERS,
                progress=False,
            )

        def loop(count: int) -> None:
            for index in range(count):
                left, top = (int(at) for at in rng.integers(0, 250, 2))
                page = photographs[rng.integers(20)].crop((left, top, left + 64, top + 64))
                matrix = [*rng.normal([1.4, 0, 1], 0.05), *rng.normal([0, 1.4, 1], 0.05)]
                bent = [*matrix, *rng.normal(0, 0.001, 2)]
                sign = signs[index % 43].transform(
                    (64, 64), Image.Transform.PERSPECTIVE, bent, Image.Resampling.BILINEAR
                )
                page.paste(sign, (0, 0), sign)
                page = page.filter(ImageFilter.GaussianBlur(float(rng.uniform(0.3, 2))))
                side = int(rng.integers(15, 41))
                page = page.resize((side, side), Image.Resampling.BOX)
                lit = np.asarray(page) * rng.uniform(0.2, 2, (1, 1, 1))
                noisy = np.clip(lit + rng.normal(0, 4, lit.shape), 0, 255).astype(np.uint8)
                np.asarray(Image.fromarray(noisy).resize((40, 40), Image.Resampling.BILINEAR))

        ours(64)  # the signs are drawn once in a process
        show("syn-signs", rate(40_000, ours), rate(500, loop))


#: What can be measured: a new generator adds its own.
GENERATORS: dict[str, Callable[[], None]] = {
    "mnist-m": mnist_m,
    "syn-numbers": syn_numbers,
    "syn-signs": syn_signs,
}


def main() -> None:
    header("images a second, ours (two processes) against a plain loop")
    for measure in GENERATORS.values():
        with tempfile.TemporaryDirectory() as folder:
            os.environ["REVGRAD_CACHE"] = folder
            measure()


if __name__ == "__main__":
    main()
