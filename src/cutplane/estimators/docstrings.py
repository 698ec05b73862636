"""The docstrings of estimators: what several have in common is written once, and shown in each.

A class describes what is its own. Of every other parameter, and of fitted attributes, the text
stands in the docstring of the class that it comes from, and is added to this one.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Container
from typing import Any

_TITLES = ("Parameters", "Attributes")


def entries_of(doc: str, title: str) -> dict[str, str]:
    """Return the entries of a section by their names; one that is for several names, for each."""
    text = _sections(doc).get(title, "")
    found: dict[str, str] = {}
    for entry in re.split(r"\n(?=\S)", text) if text else []:
        names = re.split(" ?: ?", entry.partition("\n")[0], maxsplit=1)[0]
        found |= dict.fromkeys(names.split(", "), entry)
    return found


def text_of(entry: str) -> str:
    """Return what an entry says after its name and type, in one line."""
    return " ".join(entry.partition("\n")[2].split())


def complete_docstring(of: type[Any], parameters: Container[str]) -> None:
    """Add to the docstring of a class what it inherits: entries of these parameters, attributes."""
    of._own_doc = inspect.cleandoc(of.__doc__ or "")
    sections = _sections(of._own_doc)
    for title in _TITLES:
        entries: dict[str, str] = {}
        for base in of.__mro__:
            for name, entry in entries_of(vars(base).get("_own_doc", ""), title).items():
                if title == "Attributes" or name in parameters:
                    entries.setdefault(name, entry)
        if entries:
            sections[title] = "\n".join(dict.fromkeys(entries.values()))
    order = ["", *_TITLES, *(title for title in sections if title not in ("", *_TITLES))]
    parts = [
        f"{title}\n{'-' * len(title)}\n{sections[title]}" if title else sections[title]
        for title in order
        if title in sections
    ]
    of.__doc__ = "\n\n".join(parts) + "\n"


def _sections(doc: str) -> dict[str, str]:
    """Return the sections of a docstring in NumPy's style by their titles; the first has none."""
    parts = re.split(r"(?:^|\n\n?)(\w+)\n-{3,}\n", doc)
    titles = ["", *parts[1::2]]
    return {title: text.strip("\n") for title, text in zip(titles, parts[::2], strict=True)}
