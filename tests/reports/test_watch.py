"""Watching a run: served to this machine only, made anew only when there is news."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path

import numpy as np
import pytest

from page_runs import Made, make_run, metrics_of
from pages import Read, data_of, flat, policy_of
from revgrad.errors import InputError
from revgrad.reports import watch
from revgrad.reports.clouds import Cloud
from revgrad.reports.watch import RememberedClouds, WatchedRun, server_of


@contextmanager
def served(run: Path) -> Iterator[watch.PageServer]:
    with server_of(run, port=0, every=0.1) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def ask(
    server: watch.PageServer, path: str, host: str | None = None, how: str = "GET"
) -> tuple[int, str]:
    connection = HTTPConnection("127.0.0.1", server.server_port, timeout=60)
    try:
        headers = {} if host is None else {"Host": host}
        connection.request(how, path, headers=headers)
        answer = connection.getresponse()
        assert how == "POST" or answer.getheader("Cache-Control") == "no-store"
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def test_a_watched_run_is_served_to_this_machine_only(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", Made(evidence=False, reached=20))
    with served(run) as server:
        assert server.server_address[0] == "127.0.0.1"
        status, page = ask(server, "/")
        assert status == 200
        assert "unfinished, step 20 of 40" in page
        assert "connect-src 'self'" in policy_of(page)
        assert data_of(page)["refreshing"]["version"] == ask(server, "/version")[1]
        port = server.server_port
        for host in (f"localhost:{port}", f"127.0.0.1:{port}", f"LOCALHOST:{port}"):
            assert ask(server, "/version", host)[0] == 200
        for host in ("evil.example", f"evil.example:{port}", "127.0.0.1", "localhost:1", ""):
            assert ask(server, "/", host)[0] == 403
        assert ask(server, "/config.json")[0] == 404
        assert ask(server, "/../config.json")[0] == 404
        assert ask(server, "/", how="HEAD") == (200, "")
        assert ask(server, "/", how="POST")[0] == 501


def test_a_page_is_made_anew_only_when_the_run_has_news(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    placed, judged = [], []

    def place(title: str, source: np.ndarray, target: np.ndarray) -> Cloud:
        placed.append(title)
        return flat(title, source, target)

    judge = watch.verdict
    monkeypatch.setattr(watch, "verdict", lambda run: judged.append(run) or judge(run))
    run = make_run(tmp_path / "run", Made(reached=20))
    watched = WatchedRun(run, 1.0)
    watched._clouds = RememberedClouds(place)
    first = watched.page()
    assert watched.page() is first
    assert (len(placed), len(judged)) == (1, 1)  # the start's cloud
    with open(run / "metrics.jsonl", "a") as file:
        file.write(metrics_of(Made())[6] + "\n")  # of step 25
    version = watched.version()
    second = watched.page()
    assert b"step 25 of 40" in second
    assert version.encode() in second
    assert "of step 25 of 40" in Read(second.decode()).words  # a symptom of the new records
    assert (len(placed), len(judged)) == (1, 1)
    make_run(tmp_path / "finished")
    (tmp_path / "finished/evidence/end.safetensors").rename(run / "evidence/end.safetensors")
    watched.page()
    assert (len(placed), len(judged)) == (2, 2)


def test_a_run_that_goes_away_is_said(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", Made(evidence=False))
    with served(run) as server:
        (run / "config.json").unlink()
        status, said = ask(server, "/")
        assert status == 500
        assert "is not a run" in said


def test_a_taken_port_is_one_line(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", Made(evidence=False))
    with served(run) as server, pytest.raises(InputError, match="taken by another program"):
        server_of(run, port=server.server_port)


def test_ctrl_c_ends_it_cleanly(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", Made(evidence=False))
    command = [sys.executable, "-m", "revgrad", "watch", str(run), "--port", "0"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            where = re.search(r"http://127\.0\.0\.1:\d+/", line)
            assert where is not None, line
            with urllib.request.urlopen(where[0], timeout=60) as answer:
                assert b"<!doctype html>" in answer.read(200)
            time.sleep(0.1)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=60)
        finally:
            process.kill()  # else leaving `with` would wait for it
    assert process.returncode == 0
    assert "no longer watching" in out
    assert err == ""


def test_of_a_choice_under_way_the_training_that_it_is_at_is_shown(tmp_path: Path) -> None:
    assert watch.under_way(tmp_path) == tmp_path
    for number, name in enumerate(("baseline", "candidates/stabilised", "candidates/consistency")):
        config = tmp_path / name / "config.json"
        config.parent.mkdir(parents=True)
        config.write_text("{}")
        os.utime(config, (number, number))
        assert watch.under_way(tmp_path) == config.parent
    (tmp_path / "config.json").write_text("{}")
    assert watch.under_way(tmp_path) == tmp_path
