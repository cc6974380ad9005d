"""Sphinx's settings for the site that docs/website.py builds; nothing is loaded from elsewhere."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from website import NOT_RUN  # noqa: E402

from revgrad import __version__  # noqa: E402

project = "revgrad"
author = copyright = "The revgrad developers"
version = release = __version__
extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "myst_parser",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["examples", "**sg_execution_times.rst"]
default_role = "autolink"
smartquotes = False  # they would make one dash of an option's two

myst_heading_anchors = 4
myst_enable_extensions = ["attrs_block", "attrs_inline", "deflist"]

autosummary_generate = True
autodoc_default_options = {
    "no-value": True,
    # methods of a base of ours are shown with the class; of others' bases none are
    "inherited-members": "Module, BaseEstimator, ClassifierMixin, RegressorMixin, Callback, "
    "tuple, dict, Exception, object",
    # made by scikit-learn, in words that link into its own documentation
    "exclude-members": "set_fit_request, set_predict_request, set_score_request, "
    "set_partial_fit_request, set_transform_request",
}
templates_path = [str(HERE / "sphinx")]
autodoc_typehints = "none"
autodoc_member_order = "bysource"
numpydoc_show_class_members = False

sphinx_gallery_conf = {
    "examples_dirs": "examples",
    "gallery_dirs": "gallery",
    "filename_pattern": rf"/(?!({'|'.join(NOT_RUN)})\.py)\w+\.py$",
    "reset_argv": "website.short_form",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_signature": False,
    "thumbnail_size": (320, 224),
    "write_computation_times": False,
}

ORDER = tomllib.loads((HERE / "pages.toml").read_text(encoding="utf-8"))
#: A page with none below it has no list of them at its side.
html_sidebars = {name: [] for name in ORDER["top"] if name not in {*ORDER["below"], "how-to"}}
html_sidebars |= {"api/index": ["sidebar-nav-bs"], "gallery/index": []}

html_theme = "pydata_sphinx_theme"
html_title = "revgrad"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "navbar_end": ["theme-switcher"],
    "show_prev_next": True,
    "header_links_before_dropdown": 7,
    "navbar_align": "left",
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}


def leave_out(_: object, kind: str, name: str, value: object, skip: bool, options: object) -> bool:
    """Fields of named tuples, which the docstring lists in words; methods that are not ours."""
    written_in = getattr(getattr(value, "fget", None) or value, "__module__", None) or "revgrad"
    ours = written_in.startswith("revgrad")
    return skip or not ours or type(value).__name__ == "_tuplegetter"


def setup(app: object) -> None:
    app.connect("autodoc-skip-member", leave_out)
