"""Notebooks as pages: cells and their stored outputs, as Markdown. Nothing is run."""

from __future__ import annotations

import json
from typing import Any


def as_markdown(text: str) -> str:
    """Return a notebook file as a page; of each output, the richest form that is there."""
    cells = json.loads(text)["cells"]
    return "\n\n".join(part for cell in cells for part in _parts(cell))


def _parts(cell: dict[str, Any]) -> list[str]:
    source = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        return [source]
    return [f"```python\n{source}\n```", *map(_shown, cell["outputs"])]


def _shown(output: dict[str, Any]) -> str:
    if output["output_type"] == "stream":
        return "```text\n" + "".join(output["text"]) + "```"
    forms = {kind: "".join(value) for kind, value in output["data"].items()}
    if "image/png" in forms:
        data = forms["image/png"].replace("\n", "")
        return f"![{output['metadata'].get('alt', '')}](data:image/png;base64,{data})"
    if "text/html" in forms:
        return f"```{{raw}} html\n<div class='output'>\n{forms['text/html']}\n</div>\n```"
    return f"```text\n{forms['text/plain']}\n```"
