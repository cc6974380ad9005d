"""The page in a real Chromium: drawn, answering to the pointer, quiet, harmless, on any screen."""

from __future__ import annotations

import io
import json
import math
import shutil
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from page_runs import SOURCE_SAMPLES, Made, colour, make_run, metrics_of
from pages import HOSTILE, flat
from revgrad.reports.page import make_page, render_page
from revgrad.reports.run_summary import read_summary
from revgrad.reports.watch import server_of

api = pytest.importorskip("playwright.sync_api", reason="playwright wanted: pip install playwright")
CHROMIUM = shutil.which("chromium")
pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="a real browser wanted: install Debian's package chromium"
)
#: Quiet: nothing of the browser's own goes to the network.
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"]
FLAGS += ["--disable-background-networking", "--disable-component-update"]
WIDE, NARROW = (1280, 900), (390, 844)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with api.sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Pages of a whole run, of several, and of hostile names."""
    folder = tmp_path_factory.mktemp("pages")
    whole = make_run(folder / "whole", baseline=True)
    other = make_run(folder / "other", Made(factor=3.0, reached=20))
    names = Made(classes=(HOSTILE, "b" * 90, "ä"), source=HOSTILE, target=HOSTILE, command=HOSTILE)
    hostile = make_run(folder / "a <b>bold</b> run", names, baseline=True)
    third = make_run(folder / "third", Made(seed=4, gain=0.5))
    pages = {
        "whole": [whole],
        "several": [whole, other, hostile, third],
        "hostile": [hostile],
    }
    for name, runs in pages.items():
        page = make_page([read_summary(run) for run in runs], lay_out=flat)
        (folder / f"{name}.html").write_bytes(render_page(page))
    return {name: folder / f"{name}.html" for name in pages}


@dataclass
class Opened:
    """A page, and what it said and asked for while it was open."""

    page: Any
    complaints: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    def run(self, script: str) -> Any:
        return self.page.evaluate(script)

    @property
    def data(self) -> dict[str, Any]:
        return json.loads(self.run("document.getElementById('data').textContent"))

    def tip(self) -> str:
        tip = self.page.locator("#tip")
        return " ".join(tip.inner_text().split()) if tip.is_visible() else ""


@pytest.fixture
def visit(browser: Any) -> Iterator[Any]:
    contexts = []

    def open_page(where: Path | str, size: tuple[int, int] = WIDE, scheme: str = "light") -> Opened:
        context = browser.new_context(
            viewport={"width": size[0], "height": size[1]}, color_scheme=scheme
        )
        contexts.append(context)
        opened = Opened(context.new_page())
        page = opened.page
        page.on("console", lambda message: opened.complaints.append(message.text))
        page.on("pageerror", lambda error: opened.complaints.append(str(error)))
        page.on("request", lambda request: opened.asked.append(request.url))
        page.goto(where.as_uri() if isinstance(where, Path) else where)
        return opened

    yield open_page
    for context in contexts:
        context.close()


def outside(opened: Opened) -> list[str]:
    return [url for url in opened.asked if not url.startswith(("file:", "data:"))]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [WIDE, NARROW])
@pytest.mark.parametrize("name", ["whole", "several", "hostile"])
def test_every_figure_is_drawn_on_every_screen(
    visit: Any, files: dict[str, Path], name: str, size: tuple[int, int], scheme: str
) -> None:
    opened = visit(files[name], size, scheme)
    assert opened.complaints == []
    assert outside(opened) == []
    width, room = opened.run("[document.documentElement.scrollWidth, innerWidth]")
    assert width <= room, "the page must not scroll sideways"
    small = opened.run(
        """[...document.querySelectorAll('main svg')].filter(one => {
             const box = one.getBoundingClientRect();
             return box.width < 10 || box.height < 5 || !one.querySelector('path, rect');
           }).map(one => one.id)"""
    )
    assert small == []
    lengths = opened.run(
        """[...document.querySelectorAll('svg.chart path.line')].map(one => one.getTotalLength())"""
    )
    assert lengths
    assert all(length > 20 for length in lengths)
    ink, paper = opened.run("(s => [s.color, s.backgroundColor])(getComputedStyle(document.body))")
    assert contrast(ink, paper) > 7
    assert (brightness(paper) < 0.2) == (scheme == "dark")


def test_all_the_pictures_of_a_run_are_there(visit: Any, files: dict[str, Path]) -> None:
    opened = visit(files["whole"])
    found = opened.run("[...document.querySelectorAll('main svg[id]')].map(one => one.id)")
    charts = ["label-loss", "domain-loss", "domain-accuracy"]
    charts += ["adaptation-factor", "learning-rate", "held-out-accuracy"]
    assert found == [f"chart-{name}" for name in charts] + [
        "cloud-before",
        "cloud-after",
        "confusion",
    ]
    assert opened.page.locator("#balance .bar-row").count() == 3
    assert opened.page.locator(".tiles li").count() == 48
    for kind, count in (("discs", SOURCE_SAMPLES), ("crosses", 48)):
        drawn = opened.run(
            f"[...document.querySelectorAll('#cloud-after .{kind} path')]"
            ".map(one => one.getAttribute('d').split('M').length - 1).reduce((a, b) => a + b)"
        )
        assert drawn == count
    sizes = opened.run(
        "[...document.querySelectorAll('.bar.target')].map(o => o.getBoundingClientRect().width)"
    )
    assert max(sizes) > 60


def point_at(opened: Opened, panel: int, point: int, group: int = 0) -> None:
    """Move the pointer onto a point of a cloud."""
    one = opened.data["clouds"][group]["panels"][panel]
    opened.page.locator(f"#{one['id']}").scroll_into_view_if_needed()
    x, y = opened.run(
        f"(m => [m.a * {one['x'][point]} + m.e, m.d * {one['y'][point]} + m.f])"
        f"(document.getElementById('{one['id']}').getScreenCTM())"
    )
    opened.page.mouse.move(x, y)


def lonely(one: dict[str, Any], points: range) -> int:
    """The point that is farthest from every other: no doubt which is meant."""
    spots = np.array([one["x"], one["y"]]).T.astype(float)
    distances = ((spots[:, None] - spots[None]) ** 2).sum(axis=2)
    np.fill_diagonal(distances, np.inf)
    return max(points, key=lambda i: distances[i].min())


def shown_colour(opened: Opened, selector: str) -> np.ndarray:
    """The middle of an element, as it looks on the screen."""
    picture = Image.open(io.BytesIO(opened.page.locator(selector).first.screenshot()))
    pixels = np.asarray(picture.convert("RGB")).astype(float)
    height, width = pixels.shape[:2]
    middle = pixels[height // 4 : -height // 4, width // 4 : -width // 4]
    return middle.mean(axis=(0, 1))


@pytest.mark.parametrize("domain", [0, 1])
def test_pointing_at_a_sample_shows_its_image(
    visit: Any, files: dict[str, Path], domain: int
) -> None:
    opened = visit(files["whole"])
    cloud = opened.data["clouds"][0]
    count = len(cloud["indices"])
    points = range(SOURCE_SAMPLES, count) if domain else range(SOURCE_SAMPLES)
    point = lonely(cloud["panels"][1], points)
    point_at(opened, 1, point)
    sample = point - SOURCE_SAMPLES if domain else point
    expected = colour(sample, domain)
    assert np.abs(shown_colour(opened, "#tip .shown") - expected).max() < 8
    name = opened.data["classes"][cloud["panels"][1]["predicted"][point]]
    words = opened.tip()
    assert f"predicted {name}" in words
    assert f"{'target' if domain else 'source'} sample {cloud['indices'][point]}" in words
    assert ("label" in words) == (domain == 0)
    rings = opened.run(
        "[...document.querySelectorAll('.ring.on')].map(one => +one.getAttribute('cx'))"
    )
    assert rings == [panel["x"][point] for panel in cloud["panels"]]  # in both clouds
    opened.page.mouse.move(2, 2)
    assert opened.tip() == ""
    assert opened.complaints == []


@pytest.mark.parametrize("domain", [0, 1])
def test_pointing_at_a_sample_shows_it_in_every_run_that_recorded_it(
    visit: Any, files: dict[str, Path], domain: int
) -> None:
    opened = visit(files["several"])
    linked, alone = opened.data["clouds"]
    assert [panel["name"] for panel in linked["panels"]] == ["whole", "third"]
    count = len(linked["indices"])
    points = range(SOURCE_SAMPLES, count) if domain else range(SOURCE_SAMPLES)
    predicted = [panel["predicted"] for panel in linked["panels"]]
    point = lonely(linked["panels"][1], points)
    point_at(opened, 1, point)
    sample = point - SOURCE_SAMPLES if domain else point
    assert np.abs(shown_colour(opened, "#tip .shown") - colour(sample, domain)).max() < 8
    first, third = (linked["classes"][one[point]] for one in predicted)
    words = opened.tip()
    assert f"predicted {third}, {100 * linked['panels'][1]['sure'][point]:.1f}% sure" in words
    assert words.endswith(f"whole {first}")
    ringed = opened.run("[...document.querySelectorAll('.cloud:has(.ring.on)')].map(o => o.id)")
    assert ringed == ["cloud-0", "cloud-3"]
    point_at(opened, 0, 0, group=1)
    assert "sample" in opened.tip()
    assert HOSTILE in linked["classes"] or HOSTILE in alone["classes"]
    ringed = opened.run("[...document.querySelectorAll('.cloud:has(.ring.on)')].map(o => o.id)")
    assert ringed == ["cloud-2"]
    opened.page.mouse.move(2, 2)
    assert opened.tip() == ""
    assert opened.complaints == []
    assert outside(opened) == []


@pytest.mark.parametrize(("size", "columns"), [(WIDE, 3), (NARROW, 1)])
def test_clouds_of_several_runs_are_side_by_side(
    visit: Any, files: dict[str, Path], size: tuple[int, int], columns: int
) -> None:
    opened = visit(files["several"], size)
    found = opened.run("[...document.querySelectorAll('svg.cloud')].map(one => one.id)")
    assert found == ["cloud-0", "cloud-2", "cloud-3"]
    boxes = [opened.page.locator(f"#{one}").bounding_box() for one in found]
    assert len({round(box["x"]) for box in boxes}) == columns
    assert all(box["width"] > 250 for box in boxes)
    drawn = opened.run(
        "[...document.querySelectorAll('svg.cloud path')]"
        ".map(one => one.getAttribute('d').split('M').length - 1).reduce((a, b) => a + b)"
    )
    assert drawn == 3 * (SOURCE_SAMPLES + 48)
    lines = opened.page.locator(".no-clouds li").all_inner_texts()
    assert [line.split(".")[0] for line in lines] == ["other has no cloud"]


def test_pointing_at_a_curve_says_its_values(visit: Any, files: dict[str, Path]) -> None:
    opened = visit(files["whole"])
    record = json.loads(metrics_of(Made())[3])  # of step 15
    chart = opened.page.locator("#chart-domain-accuracy")
    chart.scroll_into_view_if_needed()
    one = next(c for c in opened.data["charts"] if c["id"] == "chart-domain-accuracy")
    box = chart.bounding_box()
    share = (one["left"] + (one["right"] - one["left"]) * 15 / one["last"]) / 350
    opened.page.mouse.move(box["x"] + box["width"] * share, box["y"] + box["height"] / 2)
    assert opened.tip() == f"step 15 adapted {record['domain_accuracy']:.1%}"
    opened.page.mouse.move(2, 2)
    chart.focus()
    opened.page.keyboard.press("ArrowLeft")
    assert opened.tip().startswith("step 10")  # from where the pointer was


def test_pointing_at_images_bars_and_cells(visit: Any, files: dict[str, Path]) -> None:
    opened = visit(files["whole"])
    frame = opened.page.locator(".tiles .frame").nth(5)
    frame.hover()
    sample = (int(frame.get_attribute("data-index")) - 1) // 7
    for selector in ("#tip .shown", f".frame[data-index='{7 * sample + 1}']"):
        assert np.abs(shown_colour(opened, selector) - colour(sample, 1)).max() < 8
    opened.page.locator(".bar-row").first.hover()
    assert opened.tip().startswith("round: ")
    counts = opened.data["confusion"]["counts"]
    cell = opened.page.locator("#confusion rect.right").first
    cell.hover()
    label = next(i for i in range(3) if counts[i][i])
    assert f"{counts[label][label]} of {sum(counts[label])} samples" in opened.tip()


def test_one_class_can_be_looked_at(visit: Any, files: dict[str, Path]) -> None:
    opened = visit(files["whole"])
    opened.page.select_option("#only", "1")
    lit = opened.run(
        "[...document.querySelectorAll('.cloud path[data-class]:not(.dim)')]"
        ".map(one => one.dataset.class)"
    )
    assert set(lit) == {"1"}


def test_hostile_names_do_nothing(visit: Any, files: dict[str, Path]) -> None:
    for name in ("hostile", "several"):
        opened = visit(files[name])
        point_at(opened, 0, 0, len(opened.data["clouds"]) - 1)
        if name == "hostile":
            for place in (".bar-row", ".tiles .frame", "#confusion rect.right"):
                opened.page.locator(place).first.hover()
        assert opened.run("window.hacked === undefined")
        assert (
            opened.run("document.querySelectorAll('main img, main b:not(.pair-line b)').length")
            == 0
        )
        assert opened.complaints == []
        assert HOSTILE in opened.run("document.body.textContent")


def test_several_runs_can_be_sorted(visit: Any, files: dict[str, Path]) -> None:
    opened = visit(files["several"])
    opened.page.locator("#runs th[data-sort]").first.click()
    values = opened.run(
        "[...document.querySelectorAll('#runs td.with-track')].map(o => o.dataset.value)"
    )
    numbers = [float(value) if value else -math.inf for value in values]
    assert numbers == sorted(numbers, reverse=True)
    opened.page.locator("#runs tbody tr").first.hover()
    faint = opened.run("document.querySelectorAll('.chart .line.faint').length")
    every = opened.run("document.querySelectorAll('.chart .line').length")
    assert 0 < faint < every


@pytest.mark.parametrize("name", ["whole", "several"])
def test_on_paper_it_is_light_and_whole(visit: Any, files: dict[str, Path], name: str) -> None:
    opened = visit(files[name], scheme="dark")
    opened.page.emulate_media(media="print")
    assert brightness(opened.run("getComputedStyle(document.body).backgroundColor")) > 0.95
    assert not opened.page.locator(".screen").first.is_visible()
    pdf = opened.page.pdf(format="A4")
    assert pdf.startswith(b"%PDF")
    assert opened.run("[...document.querySelectorAll('details')].every(one => one.open)")


def test_a_watched_page_refreshes_and_stays_where_it_is(visit: Any, tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", Made(reached=20))
    with server_of(run, port=0, every=0.2, points=10) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        opened = visit(server.url)
        assert "step 20 of 40" in opened.page.locator(".meta").inner_text()
        opened.run("scrollTo(0, 700)")
        opened.page.locator("details").last.evaluate("one => { one.open = true; }")
        opened.page.select_option("#only", "2")
        with open(run / "metrics.jsonl", "a") as file:
            file.write("".join(f"{line}\n" for line in metrics_of(Made())[6:8]))  # 25 and 30
        opened.page.locator(".meta", has_text="step 30 of 40").wait_for()
        assert opened.run("scrollY") == 700
        assert opened.page.locator("details").last.evaluate("one => one.open")
        assert opened.page.locator("#only").input_value() == "2"
        opened.page.select_option("#only", "")
        point_at(opened, 0, 0)
        assert "sample" in opened.tip()  # the new page answers too
        assert opened.complaints == []
        assert all(url.startswith((server.url, "data:")) for url in opened.asked)
        server.shutdown()
        thread.join()
    opened.page.locator("#watch", has_text="the server has stopped").wait_for()


def brightness(colour_text: str) -> float:
    """Relative luminance of `rgb(r, g, b)`, as WCAG defines it."""
    parts = colour_text[colour_text.index("(") + 1 : -1].split(",")[:3]
    linear = []
    for part in parts:
        share = float(part) / 255
        linear.append(share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4)
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    light, dark = sorted((brightness(one), brightness(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)
