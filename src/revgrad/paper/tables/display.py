"""Progress of a table: one bar over all jobs on a terminal, a line for each job elsewhere."""

from __future__ import annotations

from typing import Any

from revgrad._system import progress_display, terminal
from revgrad.paper.tables.job import Job
from revgrad.training.record import Record


class Display:
    """One overall bar and one line for each job at work; a line for each job that ends."""

    def __init__(self, jobs: int, *, quiet: bool = False) -> None:
        from rich.progress import MofNCompleteColumn, TimeElapsedColumn

        self.console = terminal(quiet)
        self.progress: Any = None
        self.tasks: dict[str, Any] = {}
        if self.console.is_terminal and not quiet:
            self.progress = progress_display(
                self.console, MofNCompleteColumn(), TimeElapsedColumn()
            )
            self.overall = self.progress.add_task("jobs", total=jobs)
            self.progress.start()

    def began(self, job: Job) -> None:
        if self.progress is not None:
            self.tasks[job.title] = self.progress.add_task(job.title, total=None)

    def stepped(self, job: Job, done: int, steps: int) -> None:
        if self.progress is not None and job.title in self.tasks:
            self.progress.update(self.tasks[job.title], completed=done, total=steps)

    def ended(self, job: Job, record: Record, skipped: bool) -> None:
        self._forget(job)
        if skipped:
            self._say(f"{job.title}: done before")
            return
        value = record.target_accuracy
        shown = "no target accuracy" if value is None else f"target accuracy {value:.4f}"
        self._say(f"{job.title}: {shown}  ({record.seconds:.0f} s)")

    def failed(self, job: Job, reason: str) -> None:
        self._forget(job)
        self._say(f"{job.title}: failed: {reason}")

    def close(self) -> None:
        """Give the terminal back; safe to call twice."""
        if self.progress is not None:
            self.progress.stop()
            self.progress = None

    def _forget(self, job: Job) -> None:
        if self.progress is None:
            return
        task = self.tasks.pop(job.title, None)
        if task is not None:
            self.progress.remove_task(task)
        self.progress.advance(self.overall)

    def _say(self, line: str) -> None:
        where = self.console if self.progress is None else self.progress.console
        where.print(line, markup=False)
