"""The documentation as a site: ``make docs``."""

import os
import re
import sys
from pathlib import Path

import cutplane

HERE = Path(__file__).parent
sys.path.insert(0, os.fspath(HERE))
from gallery_page import gallery, scripts  # noqa: E402
from notebook_pages import as_markdown  # noqa: E402
from reference_pages import write_reference  # noqa: E402

project = "cutplane"
author = "The cutplane developers"
copyright = author
version = release = cutplane.__version__.partition("+")[0]

extensions = ["myst_parser", "sphinx.ext.autodoc", "numpydoc"]
exclude_patterns = ["_build", "_templates", "reference_examples.txt"]
# Notebooks become Markdown when they are read.
source_suffix = {".md": "markdown", ".ipynb": "markdown", ".rst": "restructuredtext"}
html_theme = "pydata_sphinx_theme"
html_title = "cutplane"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_theme_options = {"show_toc_level": 2, "navigation_with_keys": False, "navbar_center": []}
# All pages by chapter, on every page: they are too many for the bar at the top.
templates_path = ["_templates"]
html_sidebars = {"**": ["chapters.html"]}
html_copy_source = False

# Headings can be linked by their words, as on the pages of the repository.
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence"]
autodoc_typehints = "none"
numpydoc_show_class_members = False

SOURCE = "https://github.com/cutplane/cutplane/blob/main/"
# The pages, by what people come for; on the repository, the table of index.md leads to them.
CHAPTERS = {
    "Start": [
        "certificate", "classify", "regression", "command-line", "tables", "speed", "gallery",
        "notebooks/first-fit", "notebooks/quantiles",
    ],
    "Tasks": [],  # what is in no other chapter
    "Work with models": [
        "scikit-learn", "regularization-path", "proven-lam", "evaluate", "report", "model-files",
        "serve", "checkpoints", "large-data", "cluster", "troubleshooting",
    ],
    "Extend": [
        "choose-a-method", "how-methods-work", "regularizers", "add-a-loss",
        "bring-your-own-oracle", "structured-model", "your-own-network", "non-convex",
    ],
    "Come from": [],  # pages whose names begin with "from-"
    "Background": ["architecture", "design", "why-it-is-fast", "reproduce", "benchmarks"],
    "Decisions": [],  # dated pages
    "Reference": ["reference/index", "stability"],
}  # fmt: skip


def chapters() -> str:
    pages = {page.stem for page in HERE.glob("*.md")} - {"index"}
    decisions = sorted(f"decisions/{page.stem}" for page in HERE.glob("decisions/*.md"))
    come_from = sorted(page for page in pages if page.startswith("from-"))
    placed = {page for of in CHAPTERS.values() for page in of} | set(come_from)
    trees = []
    for caption, listed in CHAPTERS.items():
        found = [page for page in listed if page in pages or "/" in page]
        found = sorted(pages - placed) if caption == "Tasks" else found
        found = come_from if caption == "Come from" else found
        found = decisions if caption == "Decisions" else found
        lines = "\n".join(found)
        trees.append(f"```{{toctree}}\n:hidden:\n:caption: {caption}\n\n{lines}\n```\n")
    return "\n" + "\n".join(trees)


def prepare(app, name, source):
    """Add the chapters to the first page; lead out of the folder to the repository."""
    if name.startswith("notebooks/"):
        source[0] = as_markdown(source[0])
        return
    out = re.escape("../" * (1 + name.count("/")))
    source[0] = re.sub(rf"\]\({out}([^)]+)\)", rf"]({SOURCE}\1)", source[0])
    if name == "gallery":
        source[0] += f"\n{gallery(HERE)}\n\n{scripts(HERE.parent / 'examples')}\n"
    if name == "index":
        source[0] += chapters()


def leave_out(app, kind, name, value, skip, options):
    """Leave out what scikit-learn makes for its routing: its docstrings lead to its own pages."""
    return True if re.fullmatch(r"set_\w+_request", name) else None


def setup(app):
    write_reference(HERE / "reference")
    app.connect("source-read", prepare)
    app.connect("autodoc-skip-member", leave_out)
