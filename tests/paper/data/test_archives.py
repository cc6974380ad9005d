"""Archives: what is unpacked, what is refused, and that nothing remains of what was refused."""

from __future__ import annotations

import errno
import io
import stat
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from revgrad.errors import DataError
from revgrad.paper.data.archives import unpack

FILES = {"set/train/a.txt": b"a" * 3000, "set/train/b.txt": b"", "set/c.txt": b"c", "other": b"o"}


def make_tar(path: Path, files: dict[str, bytes] = FILES, mode: str = "w:gz") -> Path:
    with tarfile.open(path, mode) as tar:
        folder = tarfile.TarInfo("set")
        folder.type = tarfile.DIRTYPE
        tar.addfile(folder)
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            entry.mode = 0o4777
            tar.addfile(entry, io.BytesIO(data))
    return path


def make_zip(path: Path, files: dict[str, bytes] = FILES, mode: str = "") -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.mkdir("set")
        for name, data in files.items():
            packed.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED)
    return path


def contents(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def refused(archive: Path, message: str, **limits: Any) -> None:
    """`archive` is refused in one line, and no trace of it is left."""
    before = sorted(archive.parent.rglob("*"))
    with pytest.raises(DataError, match=message) as caught:
        unpack(archive, archive.parent / "out", **limits)
    assert "\n" not in str(caught.value)
    assert sorted(archive.parent.rglob("*")) == before


MAKERS: dict[str, Callable[..., Path]] = {"tar": make_tar, "zip": make_zip}


@pytest.mark.parametrize("kind", ["w", "w:gz", "w:bz2", "w:xz", "zip"])
def test_files_come_out_as_they_went_in(tmp_path: Path, kind: str) -> None:
    make = make_zip if kind == "zip" else make_tar
    archive = make(tmp_path / "archive", mode=kind)
    assert unpack(archive, tmp_path / "deep" / "out") == 4
    assert contents(tmp_path / "deep" / "out") == FILES
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["out"]
    mode = (tmp_path / "deep" / "out" / "other").stat().st_mode
    assert not mode & (stat.S_ISUID | stat.S_IXUSR)
    (tmp_path / "empty").mkdir()
    assert unpack(archive, tmp_path / "empty", inside="set/train") == 2
    assert contents(tmp_path / "empty") == {"a.txt": b"a" * 3000, "b.txt": b""}
    refused(archive, "holds no files below set/trai:", inside="set/trai")


def test_nothing_is_unpacked_over_what_is_there(tmp_path: Path) -> None:
    archive = make_tar(tmp_path / "archive")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").write_text("mine")
    refused(archive, "out is there already")
    assert contents(tmp_path / "out") == {"mine": b"mine"}


@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("../evil", "leads out of its folder"),
        ("set/../../evil", "leads out of its folder"),
        ("set/..", "leads out of its folder"),
        ("/evil", "not relative"),
        ("//evil", "not relative"),
        ("C:/evil", "not relative"),
        ("c:evil", "not relative"),
        ("..\\evil", "not relative"),
        ("set\\..\\..\\evil", "not relative"),
    ],
)
def test_names_that_lead_out(tmp_path: Path, maker: str, name: str, message: str) -> None:
    (tmp_path / "in").mkdir()
    archive = MAKERS[maker](tmp_path / "in" / "archive", {"good": b"g", name: b"evil"})
    refused(archive, rf"is refused, nothing was unpacked: .*{message}")
    refused(archive, message, inside="good")  # also where it would have been skipped
    assert not list(tmp_path.rglob("evil"))


@pytest.mark.parametrize("maker", MAKERS)
def test_limits_and_repeats(tmp_path: Path, maker: str) -> None:
    archive = MAKERS[maker](tmp_path / "archive")
    refused(archive, "more than 3,000 bytes", max_bytes=3000)
    refused(archive, "more than 3,001 bytes", max_bytes=3001, inside="other")
    refused(archive, "more than 4 files", max_files=4)
    assert unpack(archive, tmp_path / "enough", max_bytes=3002, max_files=5) == 4
    both = {"set/a": b"x"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("warnings.warn", lambda *arguments, **options: None)  # zipfile's own
        twice = MAKERS[maker](tmp_path / "twice", both)
        if maker == "zip":
            with zipfile.ZipFile(twice, "a") as packed:
                packed.writestr("set/a", b"y")
        else:
            with tarfile.open(twice, "w") as tar:
                for _ in range(2):
                    tar.addfile(tarfile.TarInfo("set/a"), io.BytesIO())
    refused(twice, "'set/a' comes twice")


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (tarfile.SYMTYPE, "a link"),
        (tarfile.LNKTYPE, "a link"),
        (tarfile.FIFOTYPE, "neither file nor folder"),
        (tarfile.CHRTYPE, "neither file nor folder"),
    ],
)
def test_links_and_devices_of_a_tar(tmp_path: Path, kind: bytes, message: str) -> None:
    archive = tmp_path / "archive.tar"
    with tarfile.open(archive, "w") as tar:
        entry = tarfile.TarInfo("link")
        entry.type, entry.linkname = kind, "/etc/passwd"
        tar.addfile(entry)
        tar.addfile(tarfile.TarInfo("link/x"), io.BytesIO())
    refused(archive, f"'link' is {message}")


def test_links_of_a_zip(tmp_path: Path) -> None:
    archive = tmp_path / "archive.zip"
    entry = zipfile.ZipInfo("link")
    entry.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(archive, "w") as packed:
        packed.writestr(entry, "/etc")
    refused(archive, "'link' is a link")


def test_a_header_that_lies(tmp_path: Path) -> None:
    """A zip that announces 10 bytes and holds a million: by its checksum or by our count."""
    archive = make_zip(tmp_path / "archive", {"bomb": bytes(1_000_000)})
    data = archive.read_bytes()
    lie = (1_000_000).to_bytes(4, "little"), (10).to_bytes(4, "little")
    assert data.count(lie[0]) == 2
    archive.write_bytes(data.replace(*lie))
    refused(archive, "damaged|announces fewer", max_bytes=1000)


def test_real_bytes_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = make_zip(tmp_path / "archive", {"bomb": b"x"})
    monkeypatch.setattr(zipfile.ZipFile, "open", lambda *a, **k: io.BytesIO(bytes(5_000_000)))
    refused(archive, "more than 1,000 bytes, though it announces fewer", max_bytes=1000)


@pytest.mark.parametrize("maker", MAKERS)
def test_damaged(tmp_path: Path, maker: str) -> None:
    import random

    noise = random.Random(0).randbytes(50_000)
    archive = MAKERS[maker](tmp_path / "archive", {"a": noise, "b": noise[::-1]})
    whole = archive.read_bytes()
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 0xFF
    for content in (
        b"",
        b"PK",
        b"neither",
        whole[:-2000],
        whole[: len(whole) // 2],
        bytes(flipped),
    ):
        archive.write_bytes(content)
        refused(archive, "is damaged or cut short, nothing was unpacked|holds no files")


def test_encrypted_zip(tmp_path: Path) -> None:
    archive = make_zip(tmp_path / "archive", {"a": b"secret"})
    data = bytearray(archive.read_bytes())
    for mark, at in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.rindex(mark) + at] |= 1
    archive.write_bytes(bytes(data))
    refused(archive, "encrypted")


def test_disk_full_and_no_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = make_tar(tmp_path / "archive")
    (tmp_path / "file").write_text("x")
    with pytest.raises(DataError, match="could not be written: Not a directory"):
        unpack(archive, tmp_path / "file" / "out")

    class Full(io.BytesIO):
        def write(self, data: Any) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

    real = Path.open
    monkeypatch.setattr(
        Path, "open", lambda self, mode="r", **k: Full() if mode == "xb" else real(self, mode, **k)
    )
    refused(archive, "the disk is full: .*out could not be written")
