"""What is seen while a table is made: one bar over all rows on a terminal, lines elsewhere."""

from __future__ import annotations

from typing import Any

from revgrad.experiments.records import Record
from revgrad.experiments.row import Row


class Display:
    """One overall bar and one line for each row at work; a line for each row that ends."""

    def __init__(self, rows: int, *, quiet: bool = False) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
        )

        self.console = Console(stderr=True, quiet=quiet, soft_wrap=True, highlight=False)
        self.progress: Any = None
        self.tasks: dict[str, Any] = {}
        if self.console.is_terminal and not quiet:
            self.progress = Progress(
                TextColumn("{task.description}"),
                BarColumn(bar_width=20),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                console=self.console,
                refresh_per_second=4,
            )
            self.overall = self.progress.add_task("rows", total=rows)
            self.progress.start()

    def began(self, row: Row) -> None:
        if self.progress is not None:
            self.tasks[row.title] = self.progress.add_task(row.title, total=None)

    def stepped(self, row: Row, done: int, steps: int) -> None:
        if self.progress is not None and row.title in self.tasks:
            self.progress.update(self.tasks[row.title], completed=done, total=steps)

    def ended(self, row: Row, record: Record, skipped: bool) -> None:
        self._forget(row)
        if skipped:
            self._say(f"{row.title}: done before")
            return
        value = record.target_accuracy
        shown = "no target accuracy" if value is None else f"target accuracy {value:.4f}"
        self._say(f"{row.title}: {shown}  ({record.seconds:.0f} s)")

    def failed(self, row: Row, reason: str) -> None:
        self._forget(row)
        self._say(f"{row.title}: failed: {reason}")

    def close(self) -> None:
        """Give the terminal back; safe to call twice."""
        if self.progress is not None:
            self.progress.stop()
            self.progress = None

    def _forget(self, row: Row) -> None:
        if self.progress is None:
            return
        task = self.tasks.pop(row.title, None)
        if task is not None:
            self.progress.remove_task(task)
        self.progress.advance(self.overall)

    def _say(self, line: str) -> None:
        where = self.console if self.progress is None else self.progress.console
        where.print(line, markup=False)
