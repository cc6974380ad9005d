"""The command line: one short file a command. Nothing heavy is imported before a command runs."""

from __future__ import annotations

import atexit
import contextlib
import errno
import logging
import os
import re
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, NoReturn

import typer
import typer.core
import typer.main

from revgrad._system import disk_error, named, sha256
from revgrad.errors import RevgradError, unknown
from revgrad.version import __version__

#: The commands in the order of `--help`: "module:function", or of a group of commands its app.
COMMANDS = {
    "demo": "revgrad.cli.demo:demo_command",
    "train": "revgrad.cli.train:train_command",
    "source-free": "revgrad.cli.source_free:source_free_command",
    "evaluate": "revgrad.cli.evaluate:evaluate_command",
    "predict": "revgrad.cli.predict:predict_command",
    "export": "revgrad.cli.export:export_command",
    "verdict": "revgrad.cli.verdict:verdict_command",
    "layers": "revgrad.cli.layers:layers_command",
    "report": "revgrad.cli.report:report_command",
    "watch": "revgrad.cli.watch:watch_command",
    "select": "revgrad.cli.select:select_command",
    "tune": "revgrad.cli.tune:tune_command",
    "data": "revgrad.paper.cli.data:data_commands",
    "reproduce": "revgrad.paper.cli.reproduce:reproduce_command",
}
HELP = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


class _Stopped(Exception):
    """Ctrl-C in a command that does not listen to it itself."""


class Commands(typer.core.TyperGroup):
    """The commands by name, each imported when it is asked for."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:  # else typer ends the process without a word
            raise _Stopped from None

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            return None
        found = named(COMMANDS[cmd_name])
        if not isinstance(found, typer.Typer):
            holder = typer.Typer(add_completion=False, context_settings=HELP)
            holder.command(cmd_name)(found)
            found = holder
        command = typer.main.get_command(found)
        command.name = cmd_name
        return command


app = typer.Typer(
    name="revgrad",
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings=HELP,
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"revgrad {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Show the version and exit."
    ),
) -> None:
    """Adapt a network from labelled source data to unlabelled target data, by gradient reversal."""


def main() -> None:
    """Run a command; a mistake of the user's is one line and a non-zero exit."""
    sys.unraisablehook = _again
    with contextlib.suppress(ValueError):  # outside the main thread there are no handlers
        signal.signal(signal.SIGTERM, _terminated)
        if signal.getsignal(signal.SIGINT) != signal.SIG_IGN:
            signal.signal(signal.SIGINT, _interrupted)
    code: Any = 0
    try:
        _run()
    except SystemExit as stop:
        code = stop.code
        if "TORCHELASTIC_RUN_ID" not in os.environ and not _came:
            raise
    # Two endings of Python's own that would change the exit code. A thread of gloo that still lets
    # go of its last tensor aborts the process (-6), and torchrun would start all of them again.
    # And after a Ctrl-C that struck in code that C ran, Python ends by the signal itself.
    if "TORCHELASTIC_RUN_ID" in os.environ or _came:
        if _came:
            atexit._run_exitfuncs()  # temporary folders, pools
        logging.shutdown()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else 0 if code is None else 1)


#: Signals that have come; what a handler raises may be swallowed where it strikes.
_came: list[int] = []


def _terminated(number: int, frame: Any) -> NoReturn:
    """SIGTERM before or after a training, which listens to signals itself."""
    _came.append(number)
    _exit_with("terminated" if len(_came) == 1 else "", 128 + number)


def _interrupted(number: int, frame: Any) -> NoReturn:
    """Ctrl-C, likewise."""
    _came.append(number)
    raise KeyboardInterrupt


#: Signals that struck in a destructor, where Python only prints what a handler raises.
_unheard: list[int] = []


def _again(event: Any) -> None:
    """Python's hook for what a destructor raises; where that was a signal's, it comes again."""
    if not _came or not isinstance(event.exc_value, (SystemExit, KeyboardInterrupt)):
        sys.__unraisablehook__(event)
        return
    _unheard.append(_came[-1])
    timer = threading.Timer(0.01, os.kill, (os.getpid(), _came[-1]))
    timer.daemon = True
    timer.start()


def _run() -> None:
    try:
        code = app(standalone_mode=False)
        if _unheard:  # the command came to its end before the signal came again
            _exit_with("interrupted" * (_came[0] == signal.SIGINT), 128 + _came[0])
    except RevgradError as error:
        _exit_with(str(error) if _speaks(error.exit_code) else "", error.exit_code)
    except (KeyboardInterrupt, _Stopped):
        _exit_with("interrupted", 130)
    except MemoryError:
        _exit_with(_NO_MEMORY, 1)
    except UnicodeEncodeError as error:  # a name on the command line, or of a file
        _exit_with(f"a name is not UTF-8: {error.object!a}; rename it", 2)
    except Exception as error:
        if _came:  # a library swallowed the signal, and failed for it
            _exit_with("interrupted" if _came[0] == signal.SIGINT else "", 128 + _came[0])
        if type(error).__name__ == "Abort":  # what click makes of Ctrl-C
            _exit_with("interrupted", 130)
        if isinstance(error, RuntimeError) and _NO_ROOM.search(str(error)):
            _exit_with(_NO_MEMORY, 1)
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            _exit_with(disk_error(Path(error.filename or "a file"), error), 1)
        if (known := _code_of_another_process(error)) is not None:
            _exit_with("", known)
        if not hasattr(error, "format_message"):
            _speaks(1)  # by its traceback: the other processes need not wait for a line
            raise
        # an error of usage, of typer's own click or of the click beside it
        _exit_with(_usage(error), getattr(error, "exit_code", 2))
    if code:  # of Ctrl-C while options are read typer makes a code without a word
        _exit_with("interrupted" if code == 130 and signal.SIGINT in _came else "", code)


def _usage(error: Any) -> str:
    """What was wrong with the words; "" where the help has been shown instead."""
    if type(error).__name__ != "NoSuchOption" or error.ctx is None:
        return str(error.format_message())
    known = [option for p in error.ctx.command.params for option in p.opts if "--" in option]
    return str(unknown("option", error.option_name, known))


_NO_MEMORY = (
    "there is not enough memory: a smaller --batch-size, narrower layers, fewer classes or fewer "
    "samples would do"
)
#: What PyTorch says where memory is short, of this machine or of a device.
_NO_ROOM = re.compile("can't allocate memory|out of memory")

#: Seconds that a process waits to learn why another one left it.
_SECONDS_TO_LEARN = 10.0


def _speaks(code: int) -> bool:
    """Whether this process says what is wrong: of those that torchrun started, the first that
    knows. The others find its exit code in a file."""
    path = _shared_note()
    if path is None:
        return True
    try:
        with open(path, "x", encoding="utf-8") as file:
            file.write(str(code))
    except OSError:
        return False
    return True


def _code_of_another_process(error: Exception) -> int | None:
    """Where a process of the same torchrun has left, and this one fails because of it: the exit
    code of the other one."""
    path = _shared_note()
    if path is None or not isinstance(error, RuntimeError):
        return None
    end = time.monotonic() + _SECONDS_TO_LEARN
    while time.monotonic() < end:
        with contextlib.suppress(OSError, ValueError):
            return int(path.read_text(encoding="utf-8"))
        time.sleep(0.1)
    return None


def _shared_note() -> Path | None:
    """A file that the processes of one attempt of torchrun share; None without torchrun."""
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        return None
    known = [str(os.getppid()), *(os.environ.get(name, "") for name in _TORCHRUN_NAMES)]
    return Path(tempfile.gettempdir()) / f"revgrad-{sha256(' '.join(known).encode())[:16]}"


#: What the processes of one attempt have in common, and no other's: their parent among it.
_TORCHRUN_NAMES = (
    "TORCHELASTIC_RUN_ID",
    "TORCHELASTIC_RESTART_COUNT",
    "MASTER_ADDR",
    "MASTER_PORT",
    "WORLD_SIZE",
)


def _exit_with(text: str, code: int) -> NoReturn:
    if text:
        print("revgrad: " + " ".join(text.split()), file=sys.stderr)
    raise SystemExit(code)
