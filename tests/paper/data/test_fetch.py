"""Downloads from a server of our own on this machine: resume, checksums, mirrors, bad servers."""

from __future__ import annotations

import errno
import gzip
import hashlib
import io
import os
import shutil
import sys
import threading
import time
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from revgrad.errors import DataError, UnknownNameError
from revgrad.paper.data import fetch as fetching
from revgrad.paper.data.catalogue import DATA_SETS, MNIST_FILES, DataSet, Remote, Unpacking
from revgrad.paper.data.fetch import checksum, download, fetch
from revgrad.paper.data.mnist import mnist

CONTENT = np.random.default_rng(0).integers(0, 256, 1_000_000, dtype=np.uint8).tobytes()
MD5 = hashlib.md5(CONTENT).hexdigest()


REDIRECTS = {
    "to-good": "/good/file",
    "to-file": "file:///etc/hostname",
    "to-ftp": "ftp://127.0.0.1/x",
}


class Server(ThreadingHTTPServer):
    """Behaves as the first part of the path says; notes what was asked."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[tuple[str, str | None]] = []
        self.content = CONTENT
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.gate = threading.Event()

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass  # clients that hang up are part of the tests


class Handler(BaseHTTPRequestHandler):
    server: Server

    def log_message(self, *arguments: Any) -> None:
        pass

    def do_GET(self) -> None:
        manner = self.path.split("/")[1]
        asked = self.headers["Range"]
        self.server.asked.append((manner, asked))
        content, start = self.server.content, 0
        if manner in ("missing", "broken"):
            self.send_error(404 if manner == "missing" else 500)
            return
        if manner in REDIRECTS:
            self.send_response(302)
            self.send_header("Location", REDIRECTS[manner])
            self.end_headers()
            return
        if manner == "gated":
            assert self.server.gate.wait(20)
        if manner == "silent":
            self.connection.settimeout(3)
            self.rfile.read(1)  # until the client gives up
            return
        if asked and manner != "no-range":
            start = int(asked.removeprefix("bytes=").removesuffix("-"))
            if start >= len(content):
                self.send_error(416)
                return
        if manner == "wrong":
            content = content[::-1]
        if manner == "longer":
            content += b"more"
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        if manner == "endless":  # no length: until the connection closes
            self.end_headers()
            self.wfile.write(content + b"more")
            return
        self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        body = content[start:]
        self.wfile.write(body[: len(body) // 2] if manner == "half" else body)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    for variable in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(variable, raising=False)
        monkeypatch.delenv(variable.upper(), raising=False)
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("REVGRAD_DATA", str(tmp_path / "data"))
    return tmp_path / "data"


def remote(server: Server, *manners: str, **changes: Any) -> Remote:
    mirrors = tuple(f"{server.url}/{manner}/file" for manner in manners)
    return Remote("set/file", mirrors, **{"bytes": len(CONTENT), "md5": MD5, **changes})


def failed(wanted: Remote, folder: Path, message: str, left: tuple[str, ...] = ()) -> None:
    """One line, no file under the name, and of the rest only `left`."""
    with pytest.raises(DataError, match=message) as caught:
        download(wanted, folder, timeout=0.5)
    assert "\n" not in str(caught.value)
    assert sorted(path.name for path in (folder / "set").iterdir()) == sorted(left)


@pytest.mark.parametrize(
    "known", [{}, {"bytes": None}, {"md5": None}, {"bytes": None, "md5": None}]
)
@pytest.mark.parametrize("manner", ["good", "no-range", "to-good"])
def test_a_file_arrives(
    server: Server, tmp_path: Path, manner: str, known: dict[str, None]
) -> None:
    path = download(remote(server, manner, **known), tmp_path)
    assert path == tmp_path / "set" / "file"
    assert path.read_bytes() == CONTENT
    assert [path.name for path in path.parent.iterdir()] == ["file"]


def test_mirrors_are_tried_in_order(server: Server, tmp_path: Path) -> None:
    download(remote(server, "missing", "broken", "wrong", "half", "good", "never"), tmp_path)
    assert [manner for manner, _ in server.asked] == [
        *("missing", "broken", "wrong", "half", "good"),
    ]
    # The good one went on where the one before it broke off.
    assert server.asked[-1][1] == "bytes=500000-"
    assert (tmp_path / "set" / "file").read_bytes() == CONTENT


def test_a_broken_download_is_taken_up_again(server: Server, tmp_path: Path) -> None:
    failed(
        remote(server, "half"),
        tmp_path,
        r"127\.0\.0\.1:\d+ stopped after 500,000 of 1,000,000 bytes; .* kept in file\.part",
        ("file.part",),
    )
    assert (tmp_path / "set" / "file.part").read_bytes() == CONTENT[:500_000]
    failed(remote(server, "half"), tmp_path, "after 750,000 of 1,000,000", ("file.part",))
    download(remote(server, "good"), tmp_path)
    assert [asked for _, asked in server.asked] == [None, "bytes=500000-", "bytes=750000-"]
    assert (tmp_path / "set" / "file").read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("beginning", "manner", "requests"),
    [
        (CONTENT[:1000], "no-range", ["bytes=1000-"]),  # ignored: comes whole
        (b"x" * 1000, "good", ["bytes=1000-", None]),  # of another file: the checksum tells
        (CONTENT, "good", []),  # killed before the rename
        (b"x" * 1_000_000, "good", [None]),
        (b"x" * 1_000_001, "good", ["bytes=1000001-", None]),  # 416: from the start
    ],
)
def test_old_beginnings(
    server: Server, tmp_path: Path, beginning: bytes, manner: str, requests: list[str | None]
) -> None:
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "file.part").write_bytes(beginning)
    download(remote(server, manner), tmp_path)
    assert (tmp_path / "set" / "file").read_bytes() == CONTENT
    assert [asked for _, asked in server.asked] == requests
    assert not (tmp_path / "set" / "file.part").exists()


def test_without_a_checksum_nothing_is_resumed(server: Server, tmp_path: Path) -> None:
    failed(remote(server, "half", md5=None), tmp_path, r"stopped after 500,000 of 1,000,000 bytes$")
    (tmp_path / "set" / "file.part").write_bytes(b"x" * 1000)
    download(remote(server, "good", md5=None), tmp_path)
    assert (tmp_path / "set" / "file").read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("manner", "changes", "message"),
    [
        ("missing", {}, "answered 404 Not Found"),
        ("wrong", {}, "wrong checksum, which was deleted"),
        ("longer", {}, "offers 1,000,004 bytes instead of 1,000,000"),
        ("endless", {}, "sends more than the 1,000,000 bytes it should"),
        ("silent", {}, "can't be reached .*timed out"),
        ("to-file", {"bytes": None, "md5": None}, "file:///etc/hostname' is not allowed"),
        ("to-ftp", {"bytes": None, "md5": None}, "unknown url type: ftp"),
    ],
)
def test_servers_that_fail(
    server: Server, tmp_path: Path, manner: str, changes: dict[str, Any], message: str
) -> None:
    failed(remote(server, manner, **changes), tmp_path, f"file could not be fetched: .*{message}")


def test_a_flood_is_not_read_to_its_end(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pieces = []
    real = fetching._read
    monkeypatch.setattr(fetching, "_read", lambda response: pieces.append(1) or real(response))
    monkeypatch.setattr(fetching, "_MOST_UNKNOWN", 300_000)
    unknown = remote(server, "endless", bytes=None, md5=None)
    failed(unknown, tmp_path, "sends more than the 300,000 bytes it should")
    assert len(pieces) == 2  # of four


def test_addresses_of_other_kinds(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    for url in (f"file://{tmp_path}/secret", "ftp://127.0.0.1/x", "data:text/plain,x", "secret"):
        failed(Remote("set/file", (url,)), tmp_path, "is not an http or https address")
    failed(Remote("set/file", ("http://127.0.0.1:1/x",)), tmp_path, r"can't be reached \(.*refused")
    failed(Remote("set/file", ("http://127.0.0.1:port/x",)), tmp_path, "can't be reached")


def test_disk_full(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Full(io.FileIO):
        def write(self, data: Any) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

    real = Path.open
    with monkeypatch.context() as patch:
        patch.setattr(
            Path, "open", lambda self, mode="r", **k: (Full if "b" in mode else real)(self, mode)
        )
        failed(remote(server, "good", "good"), tmp_path, "the disk is full: .*REVGRAD_DATA names")
    assert len(server.asked) == 1  # another mirror would not help
    usage = shutil.disk_usage(tmp_path)._replace(free=999_999)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    failed(remote(server, "good"), tmp_path, "the disk is full")
    assert len(server.asked) == 1
    (tmp_path / "set" / "file.part").write_bytes(CONTENT[:10])  # the rest fits
    assert download(remote(server, "good"), tmp_path).read_bytes() == CONTENT


def test_a_folder_that_can_not_be_written(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(DataError, match=r"could not be written: Not a directory.*REVGRAD_DATA"):
        download(remote(server, "good"), tmp_path / "file")
    monkeypatch.setenv("REVGRAD_DATA", str(tmp_path / "file" / "data"))
    with pytest.raises(DataError, match=r"could not be written: Not a directory.*REVGRAD_DATA"):
        fetch("mnist")
    monkeypatch.setenv("REVGRAD_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(
        Path, "mkdir", lambda *a, **k: (_ for _ in ()).throw(PermissionError(13, ""))
    )
    with pytest.raises(DataError, match="can't be written: no permission"):
        fetch("mnist")
    assert server.asked == []


def test_progress_is_drawn_on_a_terminal_only(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    shown = []
    for stream, wanted in ((Terminal(), True), (Terminal(), False), (io.StringIO(), True)):
        monkeypatch.setattr(sys, "stderr", stream)
        download(remote(server, "good"), tmp_path, progress=wanted)
        shown.append(stream.getvalue())
    assert "file" in shown[0]
    assert "1.0/1.0 MB" in shown[0]
    assert shown[1:] == ["", ""]


# -- whole sets -------------------------------------------------------------------------------


def a_set(*files: Remote) -> DataSet:
    return DataSet("A Set", "set", files, "put file into set/", "us", "ours")


def test_names_and_sets_by_hand(folder: Path) -> None:
    with pytest.raises(
        UnknownNameError, match="no data set to fetch 'minst'; did you mean 'mnist'"
    ):
        fetch("minst")
    with pytest.raises(DataError) as caught:
        fetch("office31")
    for part in ("can't be fetched by a program", "domain_adaptation_images.tar.gz", str(folder)):
        assert part in str(caught.value)
    assert not folder.exists()


def test_what_is_there_is_left_alone(
    server: Server,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    one = replace(remote(server, "good"), also={"set/raw": hashlib.md5(b"raw").hexdigest()})
    monkeypatch.setitem(DATA_SETS, "a-set", a_set(one))
    assert fetch("a-set") == folder / "set"
    fetch("a-set")
    assert len(server.asked) == 1
    (folder / "set" / "file").unlink()
    (folder / "set" / "raw").write_bytes(b"raw")  # the other form does
    fetch("a-set")
    assert len(server.asked) == 1
    (folder / "set" / "raw").write_bytes(b"rew")
    (folder / "set" / "file").write_bytes(CONTENT[:-1])
    assert not caplog.records
    fetch("a-set")
    assert (folder / "set" / "file").read_bytes() == CONTENT
    assert "file is not the official file: it is replaced" in caplog.text


def test_of_two_that_fetch_at_once_one_waits(
    server: Server,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setitem(DATA_SETS, "a-set", a_set(remote(server, "gated")))
    caplog.set_level("INFO")
    with ThreadPoolExecutor(2) as pool:
        both = [pool.submit(fetch, "a-set") for _ in range(2)]
        until = time.monotonic() + 10
        while "another process is fetching a-set" not in caplog.text:
            assert time.monotonic() < until
            time.sleep(0.01)
        server.gate.set()
        assert [one.result(20) for one in both] == [folder / "set"] * 2
    assert len(server.asked) == 1
    assert [path.name for path in (folder / "set").iterdir()] == ["file"]


def test_what_is_there_needs_no_permission_to_write(
    server: Server, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(DATA_SETS, "a-set", a_set(remote(server, "good")))
    fetch("a-set")

    def refuse(*arguments: Any, **more: Any) -> None:
        raise PermissionError(errno.EACCES, "no")  # root may write anywhere: chmod would not do

    monkeypatch.setattr(os, "open", refuse)
    assert fetch("a-set") == folder / "set"


def test_failure_says_what_to_do_by_hand(
    server: Server, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(DATA_SETS, "a-set", a_set(remote(server, "missing", "wrong")))
    with pytest.raises(DataError) as caught:
        fetch("a-set")
    for part in ("answered 404", "wrong checksum", "by hand: put file into set/", str(folder)):
        assert part in str(caught.value)
    assert list((folder / "set").iterdir()) == []


def test_archives_are_unpacked_and_deleted(
    server: Server, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as packed:
        packed.writestr("top/images/a.txt", "a")
        packed.writestr("top/notes.txt", "n")
    server.content = buffer.getvalue()
    packed_as = {"bytes": None, "md5": hashlib.md5(server.content).hexdigest()}
    one = replace(
        remote(server, "good", **packed_as), unpacking=Unpacking("set/images", "top/images")
    )
    monkeypatch.setitem(DATA_SETS, "a-set", a_set(one))
    fetch("a-set")
    assert {path.relative_to(folder).as_posix() for path in folder.rglob("*")} == {
        *("set", "set/images", "set/images/a.txt", ".locks", ".locks/a-set")
    }
    fetch("a-set")
    assert len(server.asked) == 1

    shutil.rmtree(folder / "set" / "images")
    server.content = server.content.replace(b"top/images/a.txt", b"top/images/../..")
    hostile = replace(one, md5=hashlib.md5(server.content).hexdigest())
    monkeypatch.setitem(DATA_SETS, "a-set", a_set(hostile))
    with pytest.raises(DataError, match="is refused, nothing was unpacked"):
        fetch("a-set")
    assert list((folder / "set").iterdir()) == []


# -- the list ---------------------------------------------------------------------------------


def test_data_sets_are_sound() -> None:
    for name, data_set in DATA_SETS.items():
        for one in data_set.files:
            assert one.mirrors, name
            assert all(url.startswith(("http://", "https://")) for url in one.mirrors)
            assert all(url.rsplit("/", 1)[1] == Path(one.file).name for url in one.mirrors)
            digests = [one.md5, *one.also.values()]
            assert all(d is None or (len(d) == 32 and int(d, 16)) for d in digests)
        assert " into " in data_set.by_hand or " in " in data_set.by_hand
        assert data_set.licence
        assert data_set.origin


def test_checksums_of_the_real_mnist(data_folder: Path) -> None:
    places = [data_folder / "mnist" / "raw", data_folder / "mnist"]
    paths = [place / f"{name}.gz" for place in places for name in MNIST_FILES]
    paths = [path for path in paths if path.is_file()]
    if not paths:
        pytest.skip(f"no .gz files of mnist in {data_folder}")
    for path in paths:
        size, packed, raw = MNIST_FILES[path.stem]
        assert path.stat().st_size == size
        assert checksum(path) == packed
        assert hashlib.md5(gzip.decompress(path.read_bytes())).hexdigest() == raw


def test_mnist_fetched_from_a_mirror_can_be_opened(
    server: Server, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import struct

    files = []
    for name in ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"):
        sides = (2, 28, 28) if "images" in name else (2,)
        data = struct.pack(f">{1 + len(sides)}I", 2051 if len(sides) == 3 else 2049, *sides)
        packed = gzip.compress(data + bytes(int(np.prod(sides))), mtime=0)
        files.append((f"mnist/{name}.gz", packed))
    for file, packed in files:
        server.content = packed
        one = Remote(file, (f"{server.url}/good/x",), None, hashlib.md5(packed).hexdigest())
        monkeypatch.setitem(DATA_SETS, "mnist", replace(DATA_SETS["mnist"], files=(one,)))
        assert fetch("mnist") == folder / "mnist"
    assert len(mnist("train")) == 2
