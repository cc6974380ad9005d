"""The trials: each a fault, on one thing, with what must hold afterwards."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from injection import Fault
from processes import Ended, fresh
from works import WORKS, Bench


@dataclass
class Outcome:
    """How many faults a trial tried, how many were held, and what was not."""

    tried: int = 0
    notes: list[str] = field(default_factory=list)

    def see(self, wrong: str) -> None:
        """One fault more; `wrong` says what did not hold, "" where all did."""
        self.tried += 1
        if wrong:
            self.notes.append(wrong[:300])

    @property
    def held(self) -> int:
        return self.tried - len(self.notes)


@dataclass(frozen=True)
class Trial:
    """A trial by its names; the same names are the same trial."""

    fault: str
    what: str
    number: int
    do: Callable[[Bench], Outcome]

    @property
    def key(self) -> str:
        return f"{self.fault} | {self.what} | {self.number}"

    @property
    def chance(self) -> random.Random:
        return random.Random(self.key)


def goes_on(bench: Bench, name: str, folder: Path) -> str:
    """The same command again, undisturbed: it must come to what it always comes to."""
    again = WORKS[name].do(folder)
    if again.code != 0:
        return f"{name}: the same command again ended with {again.code}: {again.said[-200:]}"
    if again.untidy:
        return f"{name}: again: {again.untidy}"
    if WORKS[name].digest(folder) != bench.undisturbed(name)[0]:
        return f"{name}: the same command again came to something else"
    return ""


def interrupted(bench: Bench, name: str, fault: Fault, allowed: tuple[int, ...]) -> str:
    """The work with that fault, then without it."""
    folder = bench.place("trial")
    ended = WORKS[name].do(folder, fault)
    wrong = ""
    late = AT_THE_END.get(fault.kind, ())
    if ended.code not in allowed and not (ended.code in late and _is_done(bench, name, folder)):
        wrong = f"{name}: {fault} ended with {ended.code}: {ended.said[-200:]}"
    elif fault.kind != "kill" and ended.untidy:
        wrong = f"{name}: {fault}: {ended.untidy}"
    elif fault.kind != "kill" and ended.code != 0 and not ended.said.strip():
        wrong = f"{name}: {fault}: no word of why it ended"
    wrong = wrong or goes_on(bench, name, folder)
    bench.leave(folder)
    return wrong


#: Exit codes that a fault may have; 0 where it came when all was done.
CODES = {"kill": (0, -9), "term": (0, 143), "int": (0, 130), "full": (0, 1)}
#: Where it came when all was done and Python itself was ending, which handles no signal any more.
AT_THE_END = {"kill": (), "term": (-15,), "int": (-2,)}


def _moment(trial: Trial, bench: Bench, kind: str, turn: int) -> Fault:
    """A write of the work, or a time: by turns."""
    _, whole = bench.undisturbed(trial.what)
    if kind == "full" or turn % 2:
        return Fault(kind, at=trial.chance.randint(1, max(whole.writes, 1)))
    return Fault(kind, after=trial.chance.uniform(0, whole.seconds))


def _at_a_moment(fault: str, what: str, number: int, kind: str) -> Trial:
    def do(bench: Bench) -> Outcome:
        outcome = Outcome()
        moment = _moment(trial, bench, kind, number)
        outcome.see(interrupted(bench, what, moment, CODES[kind]))
        return outcome

    trial = Trial(fault, what, number, do)
    return trial


#: Signals and kills of each work: how many in the long form, how many in the short.
COUNTS = {
    "train": (60, 3),
    "train, best weights": (30, 0),
    "train --baseline": (20, 0),
    "tune": (20, 0),
    "predict": (40, 2),
    "folder cache": (30, 2),
    "data make": (20, 1),
    "reproduce": (4, 0),
    "train on a table": (10, 0),
    "train against an attribute": (10, 0),
    "train on shards": (10, 0),
    "train on two sources": (10, 0),
    "source-free": (10, 0),
}


def kills(short: bool) -> Iterator[Trial]:
    for what, counts in COUNTS.items():
        for number in range(counts[short]):
            yield _at_a_moment("kill -9, at a write or any time", what, number, "kill")


def signals(short: bool) -> Iterator[Trial]:
    for what, counts in COUNTS.items():
        for number in range(counts[1] if short else (counts[0] + 1) * 2 // 3):
            kind = ("term", "int")[number // 2 % 2]
            yield _at_a_moment("SIGTERM or SIGINT, at a write or any time", what, number, kind)


def full_disks(short: bool) -> Iterator[Trial]:
    """At each of so many writes, drawn from all that the work does."""
    for what, counts in COUNTS.items():
        for number in range(1, 1 + (2 * counts[1] if short else counts[0])):
            yield _at_a_moment("disk full from the n-th write on", what, number, "full")


def small_disks(short: bool) -> Iterator[Trial]:
    """A tmpfs of each size; where one can't be mounted (no root) the trial says so by its count."""
    if short:
        return
    for what in ("train", "predict", "folder cache", "tune"):
        for number in range(10):
            yield Trial("disk of a few kB (tmpfs)", what, number, _on_a_small_disk(what, number))


def _on_a_small_disk(what: str, number: int) -> Callable[[Bench], Outcome]:
    def do(bench: Bench) -> Outcome:
        outcome = Outcome()
        folder = bench.place("trial")
        size = 4 * (1 + number * 3)
        mount = ["mount", "-t", "tmpfs", "-o", f"size={size}k,mode=700", "tmpfs", str(folder)]
        if subprocess.run(mount, capture_output=True, check=False).returncode:
            return outcome
        try:
            ended = _small(what, folder)
            wrong = ""
            told = ended.lines or "WRONG" in ended.said  # as `data check` says it
            if ended.code not in (0, 1) or ended.untidy or (ended.code and not told):
                wrong = f"{what} on {size} kB: {ended.code} {ended.untidy} {ended.said[-200:]}"
            room = ["mount", "-o", "remount,size=64m", str(folder)]
            subprocess.run(room, capture_output=True, check=True)
            outcome.see(wrong or goes_on(bench, what, folder))
        finally:
            subprocess.run(["umount", "-l", str(folder)], capture_output=True, check=False)
        bench.leave(folder)
        return outcome

    return do


def _small(what: str, folder: Path) -> Ended:
    try:
        return WORKS[what].do(folder)
    except OSError as error:  # of the trial's own folders, before the command began
        return Ended(1, f"revgrad: {error}", 0.0)


#: Commands that are stopped in interpreters of their own, and how often in the long form.
IN_ITS_OWN = {
    "train": 9,
    "tune": 3,
    "predict": 3,
    "folder cache": 3,
    "data make": 3,
    "source-free": 3,
}


def imports(short: bool) -> Iterator[Trial]:
    """Interpreters of their own, stopped while they still import, or soon after."""
    for what, count in IN_ITS_OWN.items():
        for number in range(int(what == "train") if short else count):
            fault = "kill or signal in an interpreter of its own"
            yield Trial(fault, what, number, _while_importing(what, number))


def _while_importing(what: str, number: int) -> Callable[[Bench], Outcome]:
    kind = ("term", "int", "kill")[number % 3]

    def do(bench: Bench) -> Outcome:
        outcome, folder = Outcome(), bench.place("trial")
        moment = random.Random(f"{what} {number}").uniform(0.0, 6.0)
        (folder / "cache").mkdir()
        cache = str(folder / "cache")
        fault = Fault(kind, after=moment)
        ended = fresh(WORKS[what].words, folder, fault, REVGRAD_CACHE=cache)
        done = _is_done(bench, what, folder)
        wrong = ""
        if ended.code not in (*CODES[kind], *(AT_THE_END[kind] if done else ())):
            wrong = f"{what}: {kind} while importing: {ended.code}: {ended.said[-200:]}"
        elif kind != "kill" and ended.untidy:
            wrong = f"{what}: {kind} while importing: {ended.untidy}"
        elif ended.code in (130, 143) and not ended.lines:
            wrong = f"{what}: {kind} while importing: no word of why it ended"
        outcome.see(wrong or goes_on(bench, what, folder))
        bench.leave(folder)
        return outcome

    return do


def _is_done(bench: Bench, what: str, folder: Path) -> bool:
    """Whether all that the work leaves is there."""
    from revgrad.errors import RevgradError

    try:
        return WORKS[what].digest(folder) == bench.undisturbed(what)[0]
    except (OSError, RevgradError, AssertionError):
        return False


def resumes(short: bool) -> Iterator[Trial]:
    """Stopped after each step of all its trainings: eight of the source alone, four of each way."""
    for number in (9,) if short else range(20):
        for what in ("train",) if short else ("train", "train, best weights"):
            yield Trial("stopped after every step, resumed", what, number, _after(what, number))


def _after(what: str, step: int) -> Callable[[Bench], Outcome]:
    def do(bench: Bench) -> Outcome:
        import itertools
        import os
        import signal
        from dataclasses import replace

        def stop() -> None:
            from revgrad.training.trainer import Trainer

            plain, count = Trainer.train_step, itertools.count()

            def stopped(self: Trainer, at: int) -> tuple[float, float]:
                found = plain(self, at)
                if next(count) == step:
                    os.kill(os.getpid(), signal.SIGTERM)
                return found

            Trainer.train_step = stopped  # type: ignore[method-assign]

        outcome, folder = Outcome(), bench.place("trial")
        ended = replace(WORKS[what], before=stop).do(folder)
        stopped = ended.code == 143 and not ended.untidy
        wrong = "" if stopped else f"{ended.code} {ended.said[-200:]}"
        outcome.see(wrong or goes_on(bench, what, folder))
        bench.leave(folder)
        return outcome

    return do


def all_trials(short: bool) -> Iterator[Trial]:
    from damage import damage
    from sharing import sharing
    from sizes import sizes

    families = (damage, kills, signals, full_disks, small_disks, resumes, sharing, sizes, imports)
    for family in families:
        yield from family(short)
