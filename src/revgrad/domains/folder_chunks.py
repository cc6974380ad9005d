"""Images of a folder a few hundred at a time, straight from their files: for passes that see each
image once, over folders that neither memory nor a cache need hold."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from revgrad.domains.arrays import ArrayStore
from revgrad.domains.domain import Domain
from revgrad.domains.folder import ListedFile, cache_key, list_images
from revgrad.domains.image_files import Size, Unreadable, read_header, read_pixels, resize
from revgrad.domains.threads import in_order
from revgrad.errors import DataError, some

log = logging.getLogger("revgrad")

_TASK = 8  # images a thread decodes at a time


class Chunk(NamedTuple):
    """Consecutive images of a folder, and how many files of it have been looked at with them."""

    images: Domain | None  # None where none of them can be read
    done: int


class FolderChunks:
    """The images of a folder in the order of their paths, without labels.

    Parameters
    ----------
    size, channels
        (height, width) and 1 or 3: what all images are brought to
    fit, corrupt, follow_links
        as `from_folder` takes them
    """

    def __init__(
        self,
        path: str | Path,
        *,
        size: Size,
        channels: int,
        fit: str = "crop",
        corrupt: str = "fail",
        follow_links: bool = False,
    ) -> None:
        self.folder = Path(path).expanduser()
        self.size, self.channels, self.fit, self.corrupt = size, channels, fit, corrupt
        self.files, _ = list_images(self.folder, False, follow_links=follow_links)
        if not self.files:
            raise DataError(f"no images in {self.folder}")
        self.key = cache_key(self.folder, self.files, size, fit)

    def __len__(self) -> int:
        return len(self.files)

    def chunks(self, start: int, count: int) -> Iterator[Chunk]:
        """Chunks of at most `count` files, from file `start` on."""
        for begin in range(start, len(self.files), count):
            files = self.files[begin : begin + count]
            tasks = [files[i : i + _TASK] for i in range(0, len(files), _TASK)]
            with warnings.catch_warnings():  # for all threads
                warnings.simplefilter("ignore")  # Pillow's, about oddities that are handled
                parts = list(in_order(self._decode, tasks))
            images = [image for part in parts for image in part.images]
            paths = [path for part in parts for path in part.paths]
            bad = {path: why for part in parts for path, why in part.bad.items()}
            if bad:
                self._refuse_or_warn(bad)
            done = begin + len(files)
            if not images:
                yield Chunk(None, done)
                continue
            store = ArrayStore(np.stack(images), layout="NHWC", key="")
            yield Chunk(Domain(store, None, name=self.folder.name, files=paths), done)

    def _decode(self, files: Sequence[ListedFile]) -> _Decoded:
        found = _Decoded([], [], {})
        for file in files:
            try:
                found.images.append(self._image(self.folder / file.path))
                found.paths.append(file.path)
            except Unreadable as error:
                found.bad[file.path] = str(error)
        return found

    def _image(self, path: Path) -> np.ndarray:
        """As `from_folder` reads it, whether the rest of the folder is grey or colour."""
        channels = 1 if read_header(path).grey else 3
        image = resize(read_pixels(path, channels), self.size, self.fit)
        if image.shape[2] == self.channels:
            return image
        return np.repeat(image, 3, axis=2) if self.channels == 3 else brightness(image)

    def _refuse_or_warn(self, bad: dict[str, str]) -> None:
        reasons = some([f"{path} ({reason})" for path, reason in bad.items()])
        if self.corrupt == "fail":
            raise DataError(
                f"images in {self.folder} can't be read: {reasons}; a run that was trained with "
                '--corrupt skip (corrupt="skip") leaves them out'
            )
        log.warning("%s: left out, they can't be read: %s", self.folder, reasons)


class _Decoded(NamedTuple):
    images: list[np.ndarray]
    paths: list[str]
    bad: dict[str, str]


def brightness(image: np.ndarray) -> np.ndarray:
    """(h, w, 3) uint8 → (h, w, 1) by brightness (ITU-R 601), in whole numbers as Pillow does."""
    weights = np.array([19595, 38470, 7471], dtype=np.int64)
    total = (image.astype(np.int64) * weights).sum(2, keepdims=True) + 0x8000
    grey: np.ndarray = (total >> 16).astype(np.uint8)
    return grey
