"""HTML elements whose text is always escaped.

`element` returns `Html`, which goes into other elements as it is. Every other child is text: it is
escaped, wherever it comes from. So names and labels of a user's data cannot become markup.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

_LONGEST = 80  # letters of a cell that may be a label of any length


class Html(str):
    """Text that is markup already."""

    __slots__ = ()


def element(name: str, *children: Any, **attributes: Any) -> Html:
    """Return an element; attributes that are None are left out, and ``class_`` is ``class``.

    Examples
    --------
    >>> element("p", "a < b", element("b", 1), class_="note")
    '<p class="note">a &lt; b<b>1</b></p>'
    """
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(str(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Html(f"<{name}{given}>{join(children)}</{name}>")


def join(children: Iterable[Any]) -> Html:
    """Return children one after another: markup as it is, everything else escaped."""
    return Html(
        "".join(child if isinstance(child, Html) else escape(str(child)) for child in children)
    )


def shortened(text: Any, longest: int = _LONGEST) -> str:
    """Return a text with its end cut off, if it is long."""
    text = str(text)
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def table(
    titles: Sequence[Any], rows: Iterable[Sequence[Any]], *, words: Iterable[int] = (0,)
) -> Html:
    """Return a table in a box that can be scrolled; the columns ``words`` are to the left."""
    left = set(words)

    def line(kind: str, cells: Sequence[Any]) -> Html:
        return element(
            "tr",
            *(
                element(
                    kind,
                    cell if isinstance(cell, Html) else shortened(cell),
                    class_=None if place in left else "number",
                )
                for place, cell in enumerate(cells)
            ),
        )

    head = element("thead", line("th", titles)) if titles else Html("")
    body = element("tbody", *(line("td", row) for row in rows))
    return element("div", element("table", head, body), class_="scroll")
