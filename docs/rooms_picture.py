"""Draw docs/images/rooms.svg, the rooms of the source: ``python docs/rooms_picture.py``.

A room may import those below it. Wings, the folders of `models` and three others, import the
foundation, and other wings only where `tests/test_architecture.py` says so.
"""

from __future__ import annotations

from pathlib import Path

# From top to bottom; those of one line import nothing of each other.
FOUNDATION = [
    (["cli"], "commands"),
    (["io"], "data files, model files"),
    (["estimators", "testing"], "the scikit-learn layer; checks for users"),
    (["solvers"], "methods by name, minimize"),
    (["risks", "metrics"], "a loss and rows make a risk; measures of quality"),
    (["losses", "regularizers", "data"], "functions, and rows with their products"),
    (["checkpoints", "report"], "the state of a run in files, in pictures"),
    (["core"], "problem, loop, bundle, certificate"),
    (["compute"], "threads, blocks, compiled loops"),
]
MODELS = Path(__file__).parents[1] / "src" / "cutplane" / "models"
WINGS = sorted(file.parent.name for file in MODELS.glob("*/__init__.py"))
OTHER_WINGS = ["lam_proof", "cluster", "papers"]

LEFT, WIDTH, HEIGHT, GAP = 20, 420, 46, 14
WING_LEFT, WING_WIDTH, WING_HEIGHT = 520, 130, 34


def box(x: float, y: float, width: float, height: float, text: str, kind: str) -> str:
    """Return a rectangle with a name in it."""
    return (
        f'<rect class="{kind}" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="5"/>'
        f'<text x="{x + width / 2:g}" y="{y + height / 2 + 5:g}">{text}</text>'
    )


def picture() -> str:
    """Return the drawing."""
    parts, y = [], 50.0
    for rooms, words in FOUNDATION:
        width = (WIDTH - 10 * (len(rooms) - 1)) / len(rooms)
        for k, room in enumerate(rooms):
            parts.append(box(LEFT + k * (width + 10), y, width, HEIGHT - 16, f"{room}/", "room"))
        parts.append(
            f'<text class="small" x="{LEFT + WIDTH / 2}" y="{y + HEIGHT - 3}">{words}</text>'
        )
        y += HEIGHT + GAP
    rows = [WINGS[k : k + 2] for k in range(0, len(WINGS), 2)]
    at = 78.0
    parts.append(f'<rect class="frame" x="{WING_LEFT - 12}" y="50" width="{2 * WING_WIDTH + 34}" '
                 f'height="{len(rows) * (WING_HEIGHT + 8) + 32}" rx="5"/>')  # fmt: skip
    parts.append(f'<text x="{WING_LEFT + WING_WIDTH + 5}" y="69">models/</text>')
    for row in rows:
        for k, wing in enumerate(row):
            x = WING_LEFT + k * (WING_WIDTH + 10)
            parts.append(box(x, at, WING_WIDTH, WING_HEIGHT - 4, f"{wing}/", "wing"))
        at += WING_HEIGHT + 8
    at += 22
    third = (2 * WING_WIDTH + 34 - 20) / 3
    for k, wing in enumerate(OTHER_WINGS):
        x = WING_LEFT - 12 + k * (third + 10)
        parts.append(box(x, at, third, WING_HEIGHT - 4, f"{wing}/", "wing"))
    middle = 50 + len(rows) * (WING_HEIGHT + 8) / 2
    line = f"M {WING_LEFT - 14} {middle} L {LEFT + WIDTH + 12} {middle}"
    parts.append(f'<path class="arrow" d="{line}" marker-end="url(#tip)"/>')
    parts.append(f'<text class="small" x="{(WING_LEFT + LEFT + WIDTH) / 2}" y="{middle - 8}">'
                 "import</text>")  # fmt: skip
    parts.append(f'<path class="arrow" d="M 10 60 L 10 {y - 30}" marker-end="url(#tip)"/>')
    body = "\n".join(parts)
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 820 {y:g}" width="820">
<style>
text {{ font: 14px sans-serif; text-anchor: middle; fill: #222 }}
.small {{ font-size: 11px; fill: #666 }} .title {{ font-weight: bold }}
.room {{ fill: #dbe9f6; stroke: #4a7fb0 }} .wing {{ fill: #e8f3dc; stroke: #6f9c3d }}
.frame {{ fill: none; stroke: #6f9c3d }} .arrow {{ stroke: #666; stroke-width: 1.5; fill: none }}
</style>
<defs><marker id="tip" markerWidth="8" markerHeight="8" refX="6" refY="3" orient="auto">
<path d="M 0 0 L 6 3 L 0 6 z" fill="#666"/></marker></defs>
<rect width="820" height="{y:g}" fill="#fff"/>
<text class="title" x="{LEFT + WIDTH / 2}" y="28">foundation: imports point down</text>
<text class="title" x="{WING_LEFT + WING_WIDTH + 5}" y="28">wings: one family of models each</text>
{body}
</svg>
"""


if __name__ == "__main__":
    target = Path(__file__).parent / "images" / "rooms.svg"
    target.write_text(picture(), encoding="utf-8")
