"""The packages that networks of others come from: importing them, and asking their hubs."""

from __future__ import annotations

import logging
import os
import socket
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import Any
from urllib.parse import urlparse

from revgrad.errors import DataError, MissingExtraError, RevgradError, missing_extra


def imported(module: str, text: str) -> Any:
    """A module of the package; where that is missing or broken, one sentence with the fix."""
    package = module.partition(".")[0]
    if find_spec(package) is None:
        raise missing_extra(package, "backbones", f"network '{text}'")
    with naming_what_is_broken(package, text):
        return import_module(module)


@contextmanager
def naming_what_is_broken(package: str, text: str) -> Iterator[None]:
    """Imports that fail inside become one sentence. timm and transformers import torchvision, whose
    failures they hide or pass on, so it is asked itself."""
    try:
        yield
    except RevgradError:
        raise
    except (ImportError, RuntimeError, OSError) as error:
        reason = _reason_against("torchvision")
        if reason is not None:
            raise MissingExtraError(_broken_torchvision(package, text, reason)) from error
        raise MissingExtraError(
            f"network '{text}' needs {package}, which is installed but can't be imported "
            f"({_one_line(error)}): pip install -U {package}"
        ) from error


@contextmanager
def asking_hub(text: str) -> Iterator[None]:
    """Inside, pretrained weights are fetched, or taken from the cache on disk; where neither can
    be, one sentence. Without a network the hub's client does not retry for a minute."""
    try:
        with _offline_where_unreachable(), _quiet():
            yield
    except (RevgradError, ImportError):  # a broken package is no lack of weights
        raise
    except Exception as error:  # of urllib, httpx, the hub's client, the package
        raise DataError(
            f"pretrained weights of '{text}' can't be had ({_one_line(error)[:160]}): with a "
            "network, try again; without, weights=FILE takes a file of them (.safetensors, .pth) "
            "and weights='none' starts from random ones (--weights FILE, --weights none)"
        ) from error


def _reason_against(package: str) -> str | None:
    """Why the package can't be imported; None where it can, or is not there at all."""
    if find_spec(package) is None:
        return "it is not installed"
    try:
        import_module(package)
    except Exception as error:
        return _one_line(error)
    return None


def _broken_torchvision(package: str, text: str, reason: str) -> str:
    import torch

    through = "" if package == "torchvision" else f" through {package}"
    return (
        f"network '{text}' needs torchvision{through}, which can't be imported ({reason}): install "
        f"the torchvision that was built for torch {torch.__version__}, from the package index "
        "that torch came from"
    )


@contextmanager
def _offline_where_unreachable() -> Iterator[None]:
    if find_spec("huggingface_hub") is None:
        yield
        return
    constants: Any = import_module("huggingface_hub.constants")
    before = constants.HF_HUB_OFFLINE
    endpoint = os.environ.get("HF_ENDPOINT") or "https://huggingface.co"
    try:
        constants.HF_HUB_OFFLINE = before or not _reachable(endpoint)
        yield
    finally:
        constants.HF_HUB_OFFLINE = before


def _reachable(address: str) -> bool:
    """Whether the host's name can be resolved; a proxy resolves names by itself."""
    if urllib.request.getproxies():
        return True
    place = urlparse(address)
    try:
        socket.getaddrinfo(place.hostname, place.port or 443)
    except OSError:
        return False
    return True


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the packages' own notes, of new layers among others: they are meant to be new."""
    loggers = [logging.getLogger(name) for name in ("transformers", "timm", "huggingface_hub")]
    before = [one.level for one in loggers]
    for one in loggers:
        one.setLevel(logging.ERROR)
    try:
        yield
    finally:
        for one, level in zip(loggers, before, strict=True):
            one.setLevel(level)


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
