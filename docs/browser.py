"""Every page of the built site in Chromium: wide and narrow, light and dark.

python docs/browser.py                 after `make docs`
python docs/browser.py --shots FOLDER  pictures of the pages too, to be looked at

Exit 1 where a page is wider than its window, shows a broken picture, complains, or asks for what
is not in the site.
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

SITE = Path(__file__).resolve().parent.parent / "build" / "site"
WIDTHS, MODES = (1400, 400), ("light", "dark")
#: Quiet: nothing of the browser's own goes to the network.
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"]
FLAGS += ["--disable-background-networking", "--disable-component-update"]
#: The theme says this where no mode has been chosen yet.
HARMLESS = "Got invalid theme mode"
MEASURE = """() => {
    const wide = document.documentElement.clientWidth;
    const beyond = document.documentElement.scrollWidth - wide;
    const seen = image => getComputedStyle(image).display != "none";
    const broken = [...document.images].filter(seen).filter(i => i.complete && !i.naturalWidth);
    return [beyond, broken.map(image => image.src)];
}"""


def complaint(message: Any) -> str:
    """What an error or a warning in the console says; nothing of what a page merely tells."""
    return str(message.text) if message.type in ("error", "warning") else ""


def faults(page: Any) -> Iterator[str]:
    """What is wrong with a page that was just opened."""
    beyond, broken = page.evaluate(MEASURE)
    if beyond > 0:
        yield f"is {beyond} pixels wider than the window"
    for source in broken:
        yield f"shows a broken picture: {source}"


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--shots", type=Path)
    given = options.parse_args()
    from playwright.sync_api import sync_playwright

    paths = [one for one in sorted(SITE.rglob("*.html")) if "_static" not in one.parts]
    if not paths:
        raise SystemExit("there is no site yet: make docs")
    found: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        for width, mode in product(WIDTHS, MODES):
            size = {"width": width, "height": 900}
            page = browser.new_context(viewport=size, color_scheme=mode).new_page()
            said: list[str] = []
            page.on("console", lambda one, said=said: said.append(complaint(one)))
            page.on("pageerror", lambda one, said=said: said.append(str(one)))
            page.on("request", lambda one, said=said: said.append(one.url))
            for path in paths:
                said.clear()
                page.goto(path.as_uri())
                name = path.relative_to(SITE).as_posix()
                local = (HARMLESS, "file:", "data:", "blob:")
                wrong = [f"says {one}" for one in said if one and not one.startswith(local)]
                wrong += faults(page)
                found += [f"{name}, {width} px, {mode}: {one}" for one in wrong]
                if given.shots:
                    to = given.shots / f"{width}-{mode}" / f"{name.replace('/', '_')}.png"
                    to.parent.mkdir(parents=True, exist_ok=True)
                    page.screenshot(path=to, full_page=True, animations="disabled")
        browser.close()
    if found:
        raise SystemExit("\n".join(found))
    print(f"{len(paths)} pages, {len(WIDTHS)} widths, {len(MODES)} modes: nothing found")


if __name__ == "__main__":
    main()
