"""Where data and caches live on this machine."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def data_folder() -> Path:
    """The folder of data sets: `REVGRAD_DATA`, else the platform's cache folder for revgrad."""
    return _from_environment("REVGRAD_DATA") or _platform_cache()


def cache_folder() -> Path:
    """The folder of decoded and generated images: `REVGRAD_CACHE`, else `decoded` in the
    platform's cache folder for revgrad. It may be deleted at any time; it is made anew."""
    return _from_environment("REVGRAD_CACHE") or _platform_cache() / "decoded"


def _from_environment(variable: str) -> Path | None:
    value = os.environ.get(variable)
    return Path(value).expanduser() if value else None


def _platform_cache() -> Path:
    if sys.platform == "win32":
        base = _from_environment("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = _from_environment("XDG_CACHE_HOME") or Path.home() / ".cache"
    return base / "revgrad"
