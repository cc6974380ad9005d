"""Domains from folders of images, decoded once into a memory-mapped cache."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import logging
import os
import stat
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from revgrad._system import cache_folder, progress_bar
from revgrad.domains.arrays import ArrayStore
from revgrad.domains.cache import CachedImages, ImageWriter, cached_images, require_space
from revgrad.domains.domain import Domain, Store
from revgrad.domains.folder_store import (
    ALWAYS_DECODED,
    FolderStore,
    Needs,
    chosen_storage,
    free_space,
    write_bytes,
)
from revgrad.domains.image_files import (
    EXTENSIONS,
    Header,
    Size,
    Unreadable,
    check_fit,
    check_size,
    read_header,
    read_pixels,
    resize,
)
from revgrad.domains.threads import in_order
from revgrad.errors import DataError, InputError, some

log = logging.getLogger("revgrad")
_FORMAT = 2  # of the cache: a new number makes old entries be built anew
#: Names of cache entries begin with it.
_ENTRIES = {"decoded": "folder", "compressed": "bytes", "files": "files"}
_TASK = 8  # images a thread decodes at a time


class ListedFile(NamedTuple):
    path: str  # relative to the folder, with "/"
    bytes: int
    mtime_ns: int


def from_folder(
    path: str | Path,
    *,
    size: int | tuple[int, int] | None = None,
    fit: str = "crop",
    corrupt: str = "fail",
    classes: Sequence[str] | None = None,
    labels: bool | None = None,
    follow_links: bool = False,
    storage: str = "auto",
    cache: str | Path | None = None,
    progress: bool = True,
    attributes: Sequence[str] = (),
    name: str | None = None,
) -> Domain:
    """A domain of the images in a folder: png, jpeg, bmp, gif, tiff, webp, ppm, pgm, pbm.

    Images are grey (one channel) where all files are grey by their mode, else colour (three). How
    orientation, transparency, 16 bits and so on are read is said in `images.py`. `domain.files`
    holds the relative paths, one a sample. Samples come in the order of a hash of their pixels: so
    names of files and folders, which may be labels, decide nothing in training. The cache is keyed
    by the folder and each file's path, length and time of change; hidden files and files of other
    kinds are ignored; links that lead out of the folder (unless `follow_links`), pipes and devices
    are left out with a warning.

    Parameters
    ----------
    path
        class subfolders (labels: their names in order), or images without labels
    size
        of all images, in pixels (a square) or (height, width); None: the size they all have
    fit
        how an image of other proportions gets there: "crop" (scaled to cover the size, the
        middle kept), "pad" (scaled to fit inside, black around) or "stretch"
    corrupt
        "fail" (an error that names them) or "skip" (a warning that names them)
    classes
        the classes in the order their numbers follow, for a folder that must agree with
        another; its subfolders must be among them
    labels
        None: labels where images are in subfolders only; True: insist on it; False: take all
        images below `path`, without labels
    follow_links
        whether images and folders that links out of the folder lead to are taken too; False:
        a folder of someone else's can't show what lies elsewhere on this machine
    storage
        "decoded": all images are decoded once and kept at one size, which trains fastest;
        "compressed": the files' bytes are kept in one file and decoded as they come, by threads,
        or by processes (`workers`); "files": nothing but an index is kept. "auto" decodes what the
        disk has room for, and says so where it does not; a folder stays as it was once kept.
        Unless decoded, a damaged image is found when it is read, but with corrupt="skip", and
        large JPEGs are decoded at a fraction of their size
    cache
        folder of the kept images, else `REVGRAD_CACHE`, else the user's cache folder
    progress
        draw a bar on a terminal while many images are decoded
    attributes
        names for levels of folders above the classes: ("site", "scanner") of
        `path/SITE/SCANNER/CLASS/…`, each folder's name being the value (`Domain.with_attributes`)
    name
        what it is called in messages, reports and the run's records; by default the folder's

    Examples
    --------
    >>> source = revgrad.from_folder("synthetic", size=64)  # doctest: +SKIP
    >>> target = revgrad.from_folder("photos", size=64, labels=False)  # doctest: +SKIP
    """
    folder = Path(path).expanduser()
    size, fit = check_size(size), check_fit(fit)
    if corrupt not in ("fail", "skip"):
        raise InputError(f"corrupt must be fail or skip, not {corrupt!r}")
    if not folder.exists():
        raise InputError(f"no folder {folder}")
    if not folder.is_dir():
        raise InputError(f"{folder} is a file, not a folder of images")
    files, names = list_images(folder, labels, tuple(attributes), follow_links=follow_links)
    if not files:
        raise DataError(
            f"no images in {folder} (looked for {' '.join(sorted(EXTENSIONS))}, hidden files aside)"
        )
    if names is not None and classes is not None:
        _check_classes(names, classes, folder)

    where = cache_folder() if cache is None else Path(cache).expanduser()
    entry = partial(cache_key, folder, files, size, fit, checked=corrupt == "skip")
    kind = _kept_as(where, entry) if storage == "auto" else None
    if kind is None:
        kind = _storage(storage, folder, files, size, where)
    found = cached_images(
        where,
        entry(kind),
        lambda start: (
            _decode(folder, files, size, fit, where, progress, start)
            if kind == "decoded"
            else _list(folder, files, size, fit, where, kind, corrupt, progress, start)
        ),
    )
    decoded = _kept_files(found, files, folder, corrupt)
    assert found.order is not None  # both builders give one
    kept = [decoded[row] for row in found.order]
    store: Store = (
        ArrayStore(found.images, layout="NHWC", key=found.about["contents"], order=found.order)
        if kind == "decoded"
        else FolderStore(folder, decoded, found, fit)
    )
    order = names if classes is None else tuple(classes)
    numbers = None
    if names is not None and order is not None:
        number = {one: i for i, one in enumerate(order)}
        places = [file.split("/")[len(attributes)] for file in kept]
        numbers = np.array([number[one] for one in places], dtype=np.int64)
    return Domain(
        store,
        numbers,
        classes=order,
        name=name or folder.resolve().name,
        files=kept,
        attributes={
            one: [file.split("/")[level] for file in kept] for level, one in enumerate(attributes)
        },
    )


# -- which files ------------------------------------------------------------------------------


def list_images(
    folder: Path,
    labels: bool | None,
    above: Sequence[str] = (),
    *,
    follow_links: bool = False,
) -> tuple[list[ListedFile], tuple[str, ...] | None]:
    """All images, sorted by path, and the classes' names where subfolders are classes; `above`:
    what the levels of folders above the classes are."""
    left_out: list[str] = []
    try:
        files = sorted(_walk(folder, "", {_identity(folder)}, left_out, follow_links))
    except OSError as error:
        raise DataError(f"{folder} can't be listed: {error.strerror}") from None
    if left_out:
        log.warning(
            "%s: left out, links that lead out of the folder (follow_links=True, --follow-links "
            "takes them) or no regular files: %s",
            *(folder, some(left_out)),
        )
    level = len(above)
    shallow = next((file.path for file in files if file.path.count("/") < level), None)
    if shallow is not None:
        raise InputError(
            f"{folder} has an image {shallow} above the folders of '{above[shallow.count('/')]}': "
            f"{'/'.join(one.upper() for one in above)}/… is wanted"
        )
    top = [file.path for file in files if file.path.count("/") == level]
    names = sorted({file.path.split("/")[level] for file in files if file.path.count("/") > level})
    if labels is False or not files:
        return files, None
    if top and names:
        raise InputError(
            f"{folder} has images both directly in it ({top[0]}, …) and in subfolders "
            f"({names[0]}, …): put all in class subfolders, or say labels=False to take all "
            "without labels"
        )
    if labels is True and not names:
        raise InputError(f"{folder} has no class subfolders, so its images have no labels")
    return files, tuple(names) or None


def _walk(
    folder: Path,
    prefix: str,
    seen: set[tuple[int, int]],
    left_out: list[str],
    follow_links: bool,
) -> Iterator[ListedFile]:
    """Every image below `folder`, whose own identity is the first of those `seen`."""
    with os.scandir(folder) as entries:
        listed = sorted(entries, key=lambda entry: (entry.is_symlink(), entry.name))
    for entry in listed:  # real folders first: a link to one is then the one left out
        if entry.name.startswith("."):
            continue
        path = f"{prefix}{entry.name}"
        is_image = os.path.splitext(entry.name)[1].lower() in EXTENSIONS
        try:
            status = entry.stat()
            is_folder = stat.S_ISDIR(status.st_mode)
            if not is_folder and not is_image:
                continue
            _check_name(folder, entry.name)
            if not is_folder and not stat.S_ISREG(status.st_mode):
                left_out.append(path)  # a pipe would make its reader wait for ever
            elif entry.is_symlink() and not (follow_links or _leads_inside(entry, prefix)):
                left_out.append(path)
            elif not is_folder:
                yield ListedFile(path, status.st_size, status.st_mtime_ns)
            elif (status.st_dev, status.st_ino) not in seen:  # else a link back
                seen.add((status.st_dev, status.st_ino))
                yield from _walk(Path(entry.path), f"{path}/", seen, left_out, follow_links)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ELOOP):
                raise
            if is_image:  # a link to nothing
                yield ListedFile(path, 0, 0)


def _identity(folder: Path) -> tuple[int, int]:
    status = folder.stat()
    return status.st_dev, status.st_ino


def _leads_inside(entry: os.DirEntry[str], prefix: str) -> bool:
    """Whether a link `prefix` below the folder of images leads to something below it too."""
    top = Path(entry.path).parents[prefix.count("/")]
    return Path(entry.path).resolve().is_relative_to(top.resolve())


def _check_name(folder: Path, name: str) -> None:
    try:
        name.encode()
    except UnicodeEncodeError:
        raise InputError(
            f"the name of {name!a} in {str(folder)!a} is not UTF-8: rename it"
        ) from None


def _check_classes(names: Sequence[str], classes: Sequence[str], folder: Path) -> None:
    strange = [one for one in names if one not in classes]
    if strange:
        missing = [one for one in classes if one not in names]
        raise InputError(
            f"class folders of {folder} differ from the classes: {some(strange)} not among them"
            + (f"; without a folder: {some(missing)}" if missing else "")
        )


def cache_key(
    folder: Path,
    files: Sequence[ListedFile],
    size: Size | None,
    fit: str,
    kind: str = "decoded",
    *,
    checked: bool = False,
) -> str:
    digest = hashlib.blake2b(digest_size=16)
    # The folder's own path too: unpacked archives often agree in names, lengths and times.
    heading = [_FORMAT, str(folder.resolve()), size, fit if size else None]
    digest.update(json.dumps(heading).encode())
    for file in files:
        digest.update(json.dumps(file).encode())
    looked_at = "-checked" if checked and kind != "decoded" else ""
    return f"{_ENTRIES[kind]}{looked_at}-{digest.hexdigest()}"


def _kept_files(
    found: CachedImages, files: Sequence[ListedFile], folder: Path, corrupt: str
) -> list[str]:
    bad: dict[str, str] = found.about["corrupt"]
    if bad:
        if corrupt == "fail":
            raise _corrupt_error(folder, bad, len(files))
        log.warning(
            "%s: %d of %d images left out, they can't be read: %s",
            *(folder, len(bad), len(files), _reasons(bad)),
        )
    return [file.path for file in files if file.path not in bad]


# -- where they are kept ----------------------------------------------------------------------


def _kept_as(cache: Path, entry: Callable[[str], str]) -> str | None:
    """How the folder was kept before: a run must find its samples again."""
    return next((kind for kind in _ENTRIES if (cache / entry(kind)).exists()), None)


def _storage(
    wanted: str, folder: Path, files: Sequence[ListedFile], size: Size | None, cache: Path
) -> str:
    most = 3 * len(files)  # bytes a pixel
    if size is not None and wanted == "auto" and most * size[0] * size[1] <= ALWAYS_DECODED:
        return "decoded"
    shown = size
    for file in files:  # of images of one size the first that can be read shows which
        if shown is not None:
            break
        with contextlib.suppress(Unreadable):
            shown = read_header(folder / file.path).size
    if shown is None:
        return "decoded"  # which says what is wrong with them
    compressed = sum(file.bytes for file in files)
    needs = Needs(most * shown[0] * shown[1], compressed, free_space(cache))
    return chosen_storage(wanted, folder, needs, shown, cache)


def _list(
    folder: Path,
    files: Sequence[ListedFile],
    size: Size | None,
    fit: str,
    cache: Path,
    kind: str,
    corrupt: str,
    progress: bool,
    start: Callable[[tuple[int, int, int]], ImageWriter],
) -> dict[str, Any]:
    """Keep the files' bytes, or an index of them alone; note which have no header to read."""
    bad: dict[str, str] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        headers = _headers(folder, files, bad)
        if not headers:
            raise _corrupt_error(folder, bad, len(files))
        if kind == "compressed":
            require_space(cache, sum(file.bytes for file in files if file.path in headers))
        about = write_bytes(
            folder,
            list(headers),
            channels=1 if all(header.grey for header in headers.values()) else 3,
            size=_common_size(folder, headers) if size is None else size,
            fit=fit,
            keep=kind == "compressed",
            checked=corrupt == "skip",
            progress=progress,
            start=start,
        )
    bad |= about["corrupt"]
    if len(bad) == len(files):
        raise _corrupt_error(folder, bad, len(files))
    return {**about, "corrupt": {f.path: bad[f.path] for f in files if f.path in bad}}


# -- decoding ---------------------------------------------------------------------------------


def _decode(
    folder: Path,
    files: Sequence[ListedFile],
    size: Size | None,
    fit: str,
    cache: Path,
    progress: bool,
    start: Callable[[tuple[int, int, int]], ImageWriter],
) -> dict[str, object]:
    """Decode `files` into the writer; note which could not be read.

    Those that could are kept either way, so that leaving the others out costs no second decoding.
    """
    bad: dict[str, str] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Pillow's, about oddities we handle or name ourselves
        headers = _headers(folder, files, bad)
        if not headers:
            raise _corrupt_error(folder, bad, len(files))
        target = _common_size(folder, headers) if size is None else size
        channels = 1 if all(header.grey for header in headers.values()) else 3
        require_space(cache, len(headers) * target[0] * target[1] * channels)
        writer = start((*target, channels))
        paths = list(headers)

        def decode(paths: Sequence[str]) -> tuple[list[np.ndarray], list[bytes], dict[str, str]]:
            images, hashes, failed = [], [], {}
            for path in paths:
                try:
                    image = read_pixels(folder / path, channels)
                    if size is None and image.shape[:2] != target:
                        raise _size_error(folder, paths[0], target, path, image.shape[:2])
                    images.append(resize(image, target, fit))
                    hashes.append(_hash(np.ascontiguousarray(images[-1]).data))
                except Unreadable as error:
                    failed[path] = str(error)
            return images, hashes, failed

        tasks = [paths[i : i + _TASK] for i in range(0, len(paths), _TASK)]
        hashes: list[bytes] = []
        with progress_bar(f"decoding {folder.name}", len(paths), progress) as show:
            for number, (images, its, failed) in enumerate(in_order(decode, tasks), start=1):
                bad.update(failed)
                hashes += its
                if images:
                    writer.write(np.stack(images))
                show(min(number * _TASK, len(paths)))
    bad = {file.path: bad[file.path] for file in files if file.path in bad}
    if not writer.rows:
        raise _corrupt_error(folder, bad, len(files))
    writer.order = np.array(sorted(range(len(hashes)), key=hashes.__getitem__), dtype=np.int64)
    contents = _hash(b"".join(sorted(hashes)) + repr(writer.shape).encode()).hex()
    return {"folder": str(folder.resolve()), "corrupt": bad, "contents": contents}


def _hash(data: bytes | memoryview) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()


def _headers(folder: Path, files: Sequence[ListedFile], bad: dict[str, str]) -> dict[str, Header]:
    def look(files: Sequence[ListedFile]) -> list[tuple[str, Header | str]]:
        found: list[tuple[str, Header | str]] = []
        for file in files:
            try:
                found.append((file.path, read_header(folder / file.path)))
            except Unreadable as error:
                found.append((file.path, str(error)))
        return found

    headers = {}
    for part in in_order(look, [files[i : i + _TASK] for i in range(0, len(files), _TASK)]):
        for path, header in part:
            if isinstance(header, str):
                bad[path] = header
            else:
                headers[path] = header
    return headers


def _common_size(folder: Path, headers: dict[str, Header]) -> Size:
    first, *others = headers
    size = headers[first].size
    for other in others:
        if headers[other].size != size:
            raise _size_error(folder, first, size, other, headers[other].size)
    return size


# -- messages ---------------------------------------------------------------------------------


def _reasons(bad: dict[str, str]) -> str:
    return some([f"{path} ({reason})" for path, reason in bad.items()])


def _corrupt_error(folder: Path, bad: dict[str, str], total: int) -> DataError:
    if len(bad) == total:
        return DataError(f"not one of the {total} images in {folder} can be read: {_reasons(bad)}")
    return DataError(
        f"{len(bad)} of {total} images in {folder} can't be read: {_reasons(bad)}; "
        'corrupt="skip" (--corrupt skip) would leave them out'
    )


def _size_error(folder: Path, one: str, size: Size, other: str, its: Sequence[int]) -> InputError:
    return InputError(
        f"images in {folder} differ in size: {one} is {size[0]}×{size[1]} (height × width), "
        f"{other} is {its[0]}×{its[1]}; size= (--size) brings all to one"
    )
