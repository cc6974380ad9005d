"""Archives from the network, unpacked so that they can't write anywhere else."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import stat
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from pathlib import Path, PurePosixPath
from typing import IO, NamedTuple

from revgrad._system import disk_error
from revgrad.errors import DataError

MOST_BYTES = 4 << 30
MOST_FILES = 200_000

_PIECE = 1 << 20
_MOST_PADDING = 1 << 24
_DRIVE = re.compile(r"[A-Za-z]:")


class _Hostile(Exception):
    """What an honest archive would not hold."""


class _Member(NamedTuple):
    name: str
    is_folder: bool
    size: int  # as announced, which may be a lie
    open: Callable[[], AbstractContextManager[IO[bytes]]]


def unpack(
    archive: Path,
    destination: Path,
    *,
    inside: str = "",
    max_bytes: int = MOST_BYTES,
    max_files: int = MOST_FILES,
) -> int:
    """Unpack a tar (also gz, bz2, xz) or zip into the new folder `destination`; count of files.

    Refused: names that are absolute, have a drive or "..", links, devices, a name twice. The
    files appear in one rename when all is well; else nothing of them remains.

    Parameters
    ----------
    inside
        take what is below this folder of the archive only, without that prefix
    max_bytes
        of all files together, as announced and as they come
    max_files
        entries, folders too
    """
    if destination.exists() and not _is_empty_folder(destination):
        raise DataError(f"{destination} is there already: {archive.name} is not unpacked over it")
    work = destination.with_name(f".{destination.name}.{os.getpid()}-{secrets.token_hex(4)}.part")
    try:
        work.mkdir(parents=True)
        count = _unpack(archive, work, PurePosixPath(inside).parts, max_bytes, max_files)
        if not count:
            where = f" below {inside}" if inside else ""
            raise DataError(f"{archive} holds no files{where}: not the archive it should be")
        with suppress(FileNotFoundError):
            destination.rmdir()  # empty, as seen above
        os.replace(work, destination)
        return count
    except DataError:
        raise
    except _Hostile as error:
        raise DataError(f"{archive} is refused, nothing was unpacked: {error}") from None
    except Exception as error:  # damaged archives raise nearly anything
        if isinstance(error, OSError) and error.errno is not None:
            raise DataError(disk_error(destination, error)) from None
        reason = str(error).strip().splitlines()[0] if str(error).strip() else "it ends too soon"
        raise DataError(
            f"{archive} is damaged or cut short, nothing was unpacked: {reason}"
        ) from None
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _unpack(
    archive: Path, work: Path, inside: tuple[str, ...], max_bytes: int, max_files: int
) -> int:
    count, files, total = 0, 0, 0
    with archive.open("rb") as file:
        is_zip = file.read(2) == b"PK"
    for member in _zip_members(archive) if is_zip else _tar_members(archive):
        count += 1
        if count > max_files:
            raise _Hostile(f"more than {max_files:,} files")
        parts = _checked_parts(member.name)
        if total + member.size > max_bytes:
            raise _Hostile(f"more than {max_bytes:,} bytes")
        if member.is_folder or parts[: len(inside)] != inside or len(parts) == len(inside):
            total += 0 if member.is_folder else member.size  # to be skipped is work too
            continue
        target = work.joinpath(*parts[len(inside) :])
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            out = target.open("xb")
        except FileExistsError:
            raise _Hostile(f"{member.name!r} comes twice") from None
        with out, member.open() as stream:
            while piece := stream.read(_PIECE):
                total += len(piece)
                if total > max_bytes:
                    raise _Hostile(f"more than {max_bytes:,} bytes, though it announces fewer")
                out.write(piece)
        files += 1
    return files


def _tar_members(archive: Path) -> Iterator[_Member]:
    # Python's own filter (from 3.11.4 on) judges too, beside the checks of this file.
    judge = getattr(tarfile, "data_filter", None)
    with tarfile.open(archive, "r:*") as tar:
        for entry in tar:
            if not (entry.isreg() or entry.isdir()):
                kind = "a link" if entry.issym() or entry.islnk() else "neither file nor folder"
                raise _Hostile(f"{entry.name!r} is {kind}")
            _checked_parts(entry.name)
            if judge is not None:
                try:
                    judge(entry, "unpacked")
                except tarfile.FilterError as error:
                    raise _Hostile(str(error)) from None

            def opened(entry: tarfile.TarInfo = entry) -> IO[bytes]:
                stream = tar.extractfile(entry)
                if stream is None:
                    raise _Hostile(f"{entry.name!r} has no content")
                return stream

            yield _Member(entry.name, entry.isdir(), entry.size, opened)
        _drain(tar)


def _drain(tar: tarfile.TarFile) -> None:
    """Read what follows the last entry: the checksum of a compressed stream is at its end."""
    read = 0
    while tar.fileobj is not None and (piece := tar.fileobj.read(_PIECE)):
        read += len(piece)
        if read > _MOST_PADDING:
            raise _Hostile("it goes on after its end")


def _zip_members(archive: Path) -> Iterator[_Member]:
    with zipfile.ZipFile(archive) as packed:
        for entry in packed.infolist():
            # The upper half of these bits is the file's mode where a Unix made the archive.
            kind = stat.S_IFMT(entry.external_attr >> 16)
            if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
                what = "a link" if kind == stat.S_IFLNK else "neither file nor folder"
                raise _Hostile(f"{entry.filename!r} is {what}")
            # What stood in the file, not what zipfile made of it.
            _checked_parts(entry.orig_filename)

            def opened(entry: zipfile.ZipInfo = entry) -> IO[bytes]:
                return packed.open(entry)

            yield _Member(entry.filename, entry.is_dir(), entry.file_size, opened)


def _checked_parts(name: str) -> tuple[str, ...]:
    """The parts of a member's name; `_Hostile` where it could lead out of the folder."""
    if not name or "\0" in name:
        raise _Hostile(f"the name {name!r}")
    if name.startswith("/") or "\\" in name or _DRIVE.match(name):
        raise _Hostile(f"the name {name!r}, which is not relative")
    parts = PurePosixPath(name).parts
    if ".." in parts:
        raise _Hostile(f"the name {name!r}, which leads out of its folder")
    return parts


def _is_empty_folder(path: Path) -> bool:
    return path.is_dir() and not any(path.iterdir())
