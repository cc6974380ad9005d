"""A table of predictions that grows chunk by chunk: interrupted, it goes on where it was."""

from __future__ import annotations

import csv
import glob
import hashlib
import io
import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from revgrad._seals import unsealed, write_sealed
from revgrad._system import Lock, cache_folder, disk_errors, read_file, sha256
from revgrad.errors import RunError

log = logging.getLogger("revgrad")

#: Beginnings of a cell that a spreadsheet computes.
FORMULA = ("=", "+", "-", "@", "\t", "\r")


def csv_text(columns: Sequence[str], lines: Sequence[Sequence[Any]], *, header: bool) -> str:
    """Lines of a csv; texts that a spreadsheet would compute stand behind a mark."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    if header:
        writer.writerow(columns)
    writer.writerows([no_formula(cell) for cell in line] for line in lines)
    return text.getvalue()


def no_formula(cell: Any) -> Any:
    """A text that a spreadsheet would compute, behind the mark by which it does not."""
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(FORMULA) else cell


class GrowingTable:
    """The csv `path` in the making: `path.part`, and `path.part.json`, which says how much of it
    counts. Both are gone when `finish` has given the file its name.

    Attributes
    ----------
    done
        samples that are in it; the others are still to be predicted
    lines
        of them; where images can't be read there are fewer
    """

    def __init__(self, path: Path, identity: str) -> None:
        self.path, self.identity = path, identity
        self.part = path.with_name(f"{path.name}.part")
        self.note = path.with_name(f"{path.name}.part.json")
        self.done = self.lines = self._bytes = 0
        self._digest = hashlib.sha256()

    @contextmanager
    def opened(self) -> Iterator[GrowingTable]:
        """Hold the file against other processes, and take up what is there of the same table."""
        from revgrad.domains.cache import LOCKS

        if self.path.is_dir():
            raise RunError(f"{self.path} is a folder; name a csv or an npz file")
        whole = os.fsencode(self.path.resolve())
        lock = Lock(cache_folder() / LOCKS / f"predict-{sha256(whole)[:32]}")
        with disk_errors(self.path):
            free = lock.acquire(wait=False)
        if not free:
            raise RunError(f"{self.path} is being written by another process: wait for it")
        try:
            with disk_errors(self.path):
                for left in self.path.parent.glob(f".{glob.escape(self.note.name)}.*.part"):
                    left.unlink(missing_ok=True)  # of a process that was killed
                if not self._taken_up():
                    self.part.write_bytes(b"")
                os.truncate(self.part, self._bytes)
            yield self
        finally:
            lock.release()

    def _taken_up(self) -> bool:
        try:
            note = unsealed(read_file(self.note).decode(), required=True)
        except (OSError, ValueError):
            return False  # none yet, or damaged: from the beginning
        if note["identity"] != self.identity:
            return False
        if not self.part.is_file():  # it has its name already, and the note was not yet gone
            return False
        digest, left = hashlib.sha256(), int(note["bytes"])
        with open(self.part, "rb") as file:
            while block := file.read(min(left, 1 << 20)):
                digest.update(block)
                left -= len(block)
        if left or digest.hexdigest() != note["sha256"]:
            log.warning("%s is damaged: it is made anew", self.part)
            return False
        self.done, self.lines = int(note["done"]), int(note["lines"])
        self._bytes, self._digest = int(note["bytes"]), digest
        return True

    def add(self, text: str, lines: int, done: int) -> None:
        """Append lines; with them `done` samples have been looked at."""
        data = text.encode()
        with disk_errors(self.path), open(self.part, "ab") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        self._digest.update(data)
        self._bytes, self.lines, self.done = self._bytes + len(data), self.lines + lines, done
        note = {"identity": self.identity, "done": done, "lines": self.lines}
        write_sealed(self.note, {**note, "bytes": self._bytes, "sha256": self._digest.hexdigest()})

    def finish(self) -> None:
        with disk_errors(self.path):
            os.replace(self.part, self.path)
            self.note.unlink(missing_ok=True)
