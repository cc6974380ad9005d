"""What a command of ours showed and how it ended."""

from __future__ import annotations

from typing import NamedTuple


class Shown(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def line(self) -> str:
        """The one line of an error."""
        lines = [line for line in self.err.splitlines() if line.startswith("revgrad: ")]
        assert len(lines) == 1, self.err
        return lines[0]
