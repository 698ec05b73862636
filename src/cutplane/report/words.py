"""HTML elements whose text is always escaped, and what a certificate says in words.

`element` returns `Html`, which goes into other elements as it is. Every other child is text: it is
escaped, wherever it comes from. So names and labels of a user's data cannot become markup.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

import numpy as np

from cutplane.core.certificate import NO_BOUND, Certificate, Status, percent


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


def shortened(text: Any, longest: int = 80) -> str:
    """Return a text with its end cut off, if it is long."""
    text = str(text)
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def table(
    titles: Sequence[Any], rows: Iterable[Sequence[Any]], *, words: Iterable[int] = (0,)
) -> Html:
    """Return a table in a box that can be scrolled; the columns ``words`` are to the left."""
    left = set(words)

    def line(kind: str, cells: Sequence[Any]) -> Html:
        drawn = []
        for place, cell in enumerate(cells):
            text = cell if isinstance(cell, Html) else shortened(cell)
            drawn.append(element(kind, text, class_=None if place in left else "number"))
        return element("tr", *drawn)

    head = element("thead", line("th", titles)) if titles else Html("")
    body = element("tbody", *(line("td", row) for row in rows))
    return element("div", element("table", head, body), class_="scroll")


# From best to worst. An interruption comes last because it matters most to the user.
_SEVERITY = [
    Status.OPTIMAL,
    Status.STATIONARY,
    Status.ITERATION_LIMIT,
    Status.TIME_LIMIT,
    Status.STOPPED,
    Status.STALLED,
    Status.INCONSISTENT,
    Status.INTERRUPTED,
]

_ENDINGS = {
    Status.ITERATION_LIMIT: "stopped at the iteration limit",
    Status.TIME_LIMIT: "stopped at the time limit",
    Status.INTERRUPTED: "interrupted",
    Status.STOPPED: "stopped by a callback",
    Status.STALLED: "stalled: rounding allows no further progress",
    Status.INCONSISTENT: "inconsistent: the bounds contradict each other",
}


def certificate_in_words(certificate: Certificate) -> str:
    """Return what is proven about a fit, as sentences."""
    if certificate.status is Status.STATIONARY:
        return (
            "Stationary: no small step that was tried lowers the objective by a tenth of the "
            "tolerance.\nThe risk is not convex, so that there may be better models: nothing is "
            "proven."
        )
    if certificate.status is Status.INCONSISTENT and certificate.reason:
        return f"Not proven: inconsistent: {certificate.reason}."
    if certificate.reason.startswith(NO_BOUND):
        return f"Nothing is proven yet: {_ENDINGS[certificate.status]} before there was a bound."
    if not certificate.valid:
        return f"Not proven: {_ENDINGS.get(certificate.status, certificate.status)}."
    share = percent(certificate.relative_gap)
    if certificate.status.success:
        return (
            f"Certificate: no weights can bring the objective below "
            f"{certificate.lower_bound:.6g}.\nThis model has {certificate.objective:.6g}: "
            f"it is within {share} of the best possible."
        )
    return (
        f"Tolerance not reached: {_ENDINGS[certificate.status]}.\nWhat is proven: no weights can "
        f"bring the objective below {certificate.lower_bound:.6g};\nthis model has "
        f"{certificate.objective:.6g} and could be better by {share} at most."
    )


def mean_certificate(certificates: Sequence[Certificate]) -> Certificate:
    """Return the mean of the bounds of one or more problems, with the worst status.

    The mean of lower bounds bounds the mean of the objectives from below.
    """
    if len(certificates) == 1:
        return certificates[0]
    worst = max(certificates, key=lambda each: _SEVERITY.index(each.status))
    return Certificate(
        objective=float(np.mean([each.objective for each in certificates])),
        lower_bound=float(np.mean([each.lower_bound for each in certificates])),
        status=worst.status,
        valid=all(each.valid for each in certificates),
        reason=worst.reason,
    )
