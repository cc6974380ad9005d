"""The site: the pages of docs/, a gallery of examples/ and a reference of the package.

python docs/website.py      build/site, by Sphinx: a warning, a broken example or a dead link fails

The pages are copied to build/source first. There their links are turned to where each page lies in
the site, or to the repository, and what is made is written beside them: the order of the pages
(docs/pages.toml), a page for each room of the package, and the examples with a heading each.
"""

from __future__ import annotations

import ast
import inspect
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from importlib import import_module
from pathlib import Path
from types import GenericAlias
from typing import Any
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
SOURCE, SITE = ROOT / "build" / "source", ROOT / "build" / "site"
URLS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["urls"]
#: Where a file that is no page of the site is shown.
REPOSITORY = f"{URLS['Source']}/blob/main"
#: Single-file rooms that users import from, beside the packages.
ROOMS_OF_ONE_FILE = ("adapter", "errors", "evaluation", "exporting", "recipes")


# -- pages -----------------------------------------------------------------------------------------


def pages() -> dict[Path, str]:
    """File of the repository → its page in the site."""
    found = {
        path: path.relative_to(DOCS).with_suffix("").as_posix()
        for path in sorted(DOCS.rglob("*.md"))
    }
    for study in sorted((ROOT / "studies").glob("*/README.md")):
        found[study] = f"studies/{study.parent.name}"
    for name in ("CHANGELOG", "CONTRIBUTING", "CODE_OF_CONDUCT", "SECURITY"):
        if (ROOT / f"{name}.md").exists():
            found[ROOT / f"{name}.md"] = name.lower().replace("_", "-")
    return found


def with_links_of_the_site(text: str, file: Path, known: dict[Path, str]) -> str:
    """The page's text, each relative link turned to the page it leads to, or to the repository."""
    here = Path(known[file]).parent

    def turned(link: re.Match[str]) -> str:
        address = link["address"]
        path, _, anchor = address.partition("#")
        if not path or "://" in path or path.startswith("mailto:"):
            return link[0]
        target = (file.parent / path).resolve()
        anchor = f"#{anchor}" if anchor else ""
        if target in known:
            page = Path(os.path.relpath(known[target], here)).as_posix()
            return f"]({page}.md{anchor})"
        if target == ROOT / "README.md":
            return f"]({Path(os.path.relpath('index', here)).as_posix()}.md)"
        if target.is_relative_to(DOCS / "images"):
            return f"]({Path(os.path.relpath(target.relative_to(DOCS), here)).as_posix()})"
        if ROOT / "examples" in (target, target.parent):
            return f"]({os.path.relpath('gallery/index', here)}.rst)"
        if target == ROOT / "src" / "revgrad":
            return f"]({os.path.relpath('api/index', here)}.rst)"
        if not target.exists():
            raise SystemExit(f"{file.relative_to(ROOT)}: dead link {address}")
        return f"]({REPOSITORY}/{target.relative_to(ROOT).as_posix()}{anchor})"

    text = re.sub(r"^(!\[.*?\]\(\S+)-light\.svg\)$", in_both_modes, text, flags=re.M)
    kept = re.split(r"(^```.*?^```|`[^`\n]+`)", text, flags=re.S | re.M)
    return "".join(
        part if part.startswith("`") else re.sub(r"\]\((?P<address>[^)\s]+)\)", turned, part)
        for part in kept
    )


def in_both_modes(image: re.Match[str]) -> str:
    """A picture that is there in light and dark: the reader sees the one that fits."""
    modes = (f"{image[1]}-{mode}.svg){{.only-{mode}}}" for mode in ("light", "dark"))
    return "\n".join(modes)


def toctree(names: list[str], here: str, hidden: bool = True) -> str:
    """A list of pages below another one, by paths from it; some have short names there."""
    folder, short = Path(here).parent, page_order()["short"]
    paths = {name: Path(os.path.relpath(name, folder)).as_posix() for name in names}
    lines = [f"{short[n]} <{path}>" if n in short else path for n, path in paths.items()]
    options = [":hidden:"] if hidden else []
    return "\n".join(["", "```{toctree}", *options, "", *lines, "```", ""])


@cache
def page_order() -> dict[str, Any]:
    """What docs/pages.toml says."""
    return tomllib.loads((DOCS / "pages.toml").read_text(encoding="utf-8"))


def below(known: dict[Path, str]) -> dict[str, list[str]]:
    """Page → the pages below it; a page that docs/pages.toml does not name is a how-to."""
    order = page_order()
    tree = {"index": order["top"], **order["below"]}
    made = {"index", "gallery/index", "api/index"}
    missing = {name for names in tree.values() for name in names} - {*known.values(), *made}
    if missing:
        raise SystemExit(f"docs/pages.toml names pages that are not there: {sorted(missing)}")
    named = {"index"}.union(*tree.values())
    for name in known.values():
        if name not in named:
            tree["studies" if name.startswith("studies/") else "how-to"].append(name)
    return tree


def copy_pages() -> None:
    known = pages()
    tree = below(known)
    for file, page in known.items():
        text = with_links_of_the_site(file.read_text(encoding="utf-8"), file, known)
        if page in tree:
            text += toctree(tree[page], page)
        to = SOURCE / f"{page}.md"
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_text(text, encoding="utf-8")
    shutil.copytree(DOCS / "images", SOURCE / "images")


# -- the gallery -----------------------------------------------------------------------------------


#: Examples that need data or an encoder that are not on every machine that builds the site.
NOT_RUN = ("photographs", "sentiment", "signs")


def copy_examples() -> None:
    """The examples; the first sentence of each one's docstring becomes its heading."""
    to = SOURCE / "examples"
    to.mkdir(parents=True)
    (to / "GALLERY_HEADER.rst").write_text(
        "Gallery\n=======\n\n"
        "Programs that run as they are, in minutes on two cores. Output and pictures are of the\n"
        "short form (``--short``, few steps), which ran when this site was built; whole they gain\n"
        "more. ``make examples`` runs them whole; examples whose data or encoder may not be there\n"
        "show the picture of a whole run.\n\n",
        encoding="utf-8",
    )
    for path in sorted((ROOT / "examples").glob("*.py")):
        text = path.read_text(encoding="utf-8")
        shown = ast.get_docstring(ast.parse(text))
        if shown is None:
            raise SystemExit(
                f"examples/{path.name} needs a docstring: its heading and what it shows"
            )
        rest = text.split('"""', 2)[2]
        picture = f"images/{path.stem.replace('_', '-')}.png"
        if path.stem in NOT_RUN and (DOCS / picture).exists():
            rest += f"\n# sphinx_gallery_thumbnail_path = '{picture}'\n"
            rest += f"\n# %%\n# .. image:: /{picture}\n#    :alt: The picture it draws\n"
        (to / path.name).write_text(f'r"""\n{heading(shown)}\n"""{rest}', encoding="utf-8")


def heading(docstring: str) -> str:
    """A docstring with its first sentence as a heading, and its command lines as they are."""
    first, _, rest = docstring.partition("\n\n")
    if re.search(r"\n[=\-~#*]{3,}$", first):
        return docstring
    sentence = " ".join(first.split())
    title, colon, more = sentence.partition(": ")
    title = title.rstrip(".")
    body = f"{more[0].upper()}{more[1:]}\n\n" if colon else ""
    rest = re.sub(r"^((?:python|revgrad) .*(?:\n +.*)*)", r"::\n\n    \1", rest, flags=re.M)
    return f"{title}\n{'=' * len(title)}\n\n{body}{rest}"


def short_form(config: object, script: dict[str, object]) -> list[str]:
    """The arguments that an example gets at build: --short, where it knows that."""
    text = Path(str(script["src_file"])).read_text(encoding="utf-8")
    return ["--short"] if '"--short"' in text else []


# -- the reference ---------------------------------------------------------------------------------


def public_names(room: str) -> list[str]:
    """What a room shows: its `__all__`, or what its file defines."""
    module = import_module(f"revgrad.{room}")
    names = getattr(module, "__all__", None) or [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
    ]
    return [name for name in names if not isinstance(getattr(module, name), GenericAlias)]


def write_reference() -> None:
    """A page for the front door and one for each room, with a table of their public names."""
    import revgrad

    to = SOURCE / "api"
    to.mkdir(parents=True)
    at_the_door = {id(getattr(revgrad, name)) for name in revgrad.__all__}
    rooms = sorted(revgrad._ROOMS)
    front = sorted(name for name in revgrad.__all__ if not name.startswith("_"))
    functions = [name for name in front if name[0].islower()]
    rest = [name for name in front if not name[0].islower()]
    lines = [
        "API",
        "===",
        "",
        "The front door: all of it is in ``revgrad`` itself.",
        "",
        *listing("revgrad", functions),
        *listing("revgrad", rest),
        "The rooms, by name:",
        "",
        ".. toctree::",
        "   :maxdepth: 1",
        "",
        *(f"   {room}" for room in rooms),
        "",
    ]
    (to / "index.rst").write_text("\n".join(lines), encoding="utf-8")
    for room in rooms:
        module = import_module(f"revgrad.{room}")
        own = [n for n in public_names(room) if id(getattr(module, n)) not in at_the_door]
        shown = [n for n in public_names(room) if id(getattr(module, n)) in at_the_door]
        title = f"revgrad.{room}"
        shown_doc = inspect.getdoc(module) or ""
        text = [title, "=" * len(title), "", f".. py:module:: {title}", "", shown_doc, ""]
        if shown:
            links = ", ".join(f":py:obj:`revgrad.{name}`" for name in shown)
            text += [f"At the front door: {links}.", ""]
        (to / f"{room}.rst").write_text("\n".join([*text, *listing(title, own)]), encoding="utf-8")


def listing(module: str, names: list[str]) -> list[str]:
    if not names:
        return []
    return [
        f".. currentmodule:: {module}",
        "",
        ".. autosummary::",
        "   :toctree: generated",
        "",
        *(f"   {name}" for name in names),
        "",
    ]


# -- the check of what was built -------------------------------------------------------------------


class Page(HTMLParser):
    """The addresses that a built page leads to, and the names that lead into it."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.names: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value for name, value in attrs if value}
        self.names.update(given[name] for name in ("id", "name") if name in given)
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif tag in ("script", "img", "source", "iframe") and "src" in given:
            self.loaded.append(given["src"])
        elif tag == "link" and given.get("rel") in ("stylesheet", "preload", "icon"):
            self.loaded.append(given.get("href", ""))


def faults(site: Path) -> Iterator[str]:
    """Links of the built site that lead nowhere, and what it would load from elsewhere."""
    found = (path for path in sorted(site.rglob("*.html")) if "_static" not in path.parts)
    built = {path: Page(path) for path in found}
    for path, page in built.items():
        here = path.relative_to(site)
        for address in (*page.links, *page.loaded):
            parts = urlsplit(address)
            if parts.scheme or parts.netloc:
                if address in page.loaded and parts.scheme != "data":
                    yield f"{here} loads {address}"
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            if not target.exists():
                yield f"{here} leads to {address}"
            elif target in built and unquote(parts.fragment) not in {"", *built[target].names}:
                yield f"{here} leads to {address}, a part that is not there"


def main() -> None:
    shutil.rmtree(SOURCE, ignore_errors=True)
    copy_pages()
    copy_examples()
    write_reference()
    options = ["-W", "--keep-going", "-q", "-c", str(DOCS), "-d", str(ROOT / "build" / "doctrees")]
    command = [sys.executable, "-m", "sphinx", *options, *sys.argv[1:], str(SOURCE), str(SITE)]
    subprocess.run(command, check=True)
    found = list(faults(SITE))
    if found:
        raise SystemExit("\n".join(found))
    print(f"see {SITE.relative_to(ROOT) / 'index.html'}")


if __name__ == "__main__":
    main()
