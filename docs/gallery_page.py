"""The gallery: the pictures of all pages, each leading to its page."""

from __future__ import annotations

import re
from pathlib import Path

_PICTURE = re.compile(r"^!\[([^\]]+)\]\((images/[^)]+)\)$", re.MULTILINE)
_COLUMNS = 3


def pictures(folder: Path) -> dict[str, tuple[str, str]]:
    """Return for each picture what it shows, and the first page that has it."""
    found: dict[str, tuple[str, str]] = {}
    for page in sorted(folder.glob("*.md")):
        for words, picture in _PICTURE.findall(page.read_text(encoding="utf-8")):
            found.setdefault(picture, (words, page.name))
    return found


def gallery(folder: Path) -> str:
    """Return a table of all pictures, with the titles of their pages below them."""
    cells = []
    for picture, (words, page) in pictures(folder).items():
        title = (folder / page).read_text(encoding="utf-8").splitlines()[0].removeprefix("# ")
        cells.append(f"[![{words}]({picture})]({page}) [{title}]({page})")
    cells += [""] * (-len(cells) % _COLUMNS)
    rows = [cells[k : k + _COLUMNS] for k in range(0, len(cells), _COLUMNS)]
    lines = ["|" + " |" * _COLUMNS, "|" + "---|" * _COLUMNS]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([":::{container} gallery", "", *lines, "", ":::"])


def scripts(folder: Path) -> str:
    """Return the scripts of a folder, each below the first line of its docstring."""
    parts = []
    for path in sorted(folder.glob("*.py")):
        _, doc, code = path.read_text(encoding="utf-8").split('"""', 2)
        title, _, rest = doc.partition("\n")
        text = [f"## {title.rstrip('.')}", rest.strip(), f"```python\n{code.strip()}\n```"]
        parts.append("\n\n".join(filter(None, text)))
    return "\n\n".join(parts)
