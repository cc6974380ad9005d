"""Pages as a browser would see them: made of runs, with clouds that take no time."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path

import numpy as np

from revgrad.reports.clouds import Cloud
from revgrad.reports.page import make_page, render_page
from revgrad.reports.run_summary import read_summary

HOSTILE = '</script><script>window.hacked=1</script><img src=x onerror="window.hacked=1">\'"&'


class Read(HTMLParser):
    """What a browser would see: tags with their attributes, and text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.scripts: list[str] = []
        self._inside = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._inside = tag
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside == "script":
            self.scripts[-1] += data
        elif self._inside != "style":
            self.text += data

    @property
    def words(self) -> str:
        return " ".join(self.text.split())


def flat(title: str, source: np.ndarray, target: np.ndarray) -> Cloud:
    """In place of t-SNE, where a test is about something else."""
    return Cloud(title, source[:, :2], target[:, :2])


def page_of(*folders: Path) -> str:
    return render_page(
        make_page([read_summary(folder) for folder in folders], lay_out=flat)
    ).decode()


def policy_of(page: str) -> str:
    return next(a["content"] or "" for _, a in Read(page).tags if a.get("http-equiv"))


def data_of(page: str) -> dict:
    return json.loads(Read(page).scripts[0])
