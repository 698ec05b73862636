"""Run the code blocks of the Markdown pages, and compare what they print with what the pages show.

The blocks of a page run in order, in one namespace and one temporary folder:

- ``python`` blocks are executed.
- ``sh`` blocks may hold commands that start with ``cutplane`` and files written by ``cat > NAME
  <<'END'``. The commands run in this process and must end with exit code 0.
- ``text`` directly below is what the block prints on standard output. Words are compared exactly,
  numbers to 1 %, because other machines round otherwise. Where a run ends is no fact of the method:
  a gap need only be within the default tolerance, a number of iterations or evaluations between
  half and twice the one shown. Durations ("0.2 s") are not compared.
- ``python needs PACKAGE`` is run by a test of its own, with the rest of the page, which is skipped
  where the package is not installed.
- A second word in the first line of a block takes it out: ``sh not-run`` (make, pip, git),
  ``python not-run``, ``text example`` (output that depends on the machine, or of another kind).

``python tests/docs/test_code_blocks.py`` writes the true outputs into the pages.
"""

import contextlib
import io
import os
import re
import shlex
import sys
import tempfile
from dataclasses import dataclass
from decimal import Decimal
from importlib.util import find_spec
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cutplane.cli.app import app

ROOT = Path(__file__).parents[2]
SKETCHES = {"design.md"}  # its code shows contracts, and is not meant to run
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md"] + [
    page for page in sorted((ROOT / "docs").glob("*.md")) if page.name not in SKETCHES
]
NEEDS = {
    "your-own-network.md": "torch",
    "tables.md": "pandas",
    "model-files.md": "pandas",
    "large-data.md": "pyarrow",
    "serve.md": "onnxruntime",
    "from-quantile-regression.md": "statsmodels",
    "from-rankers.md": "lightgbm",
    "cluster.md": "distributed",
}  # extras that a page is about
KINDS = {"python", "python not-run", "sh", "sh not-run", "text", "text example"}

_FENCE = re.compile(r"^```(?P<kind>[^\n`]*)\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)
_HEREDOC = re.compile(r"^cat > (\S+) <<'END'\n(.*?)^END\n", re.MULTILINE | re.DOTALL)
_DURATION = re.compile(r"[\d.e+-]+ s\b")
_NUMBER = re.compile(r"[-+]?(?:\d[\d,]*\.?\d*|\.\d+)(?:e[-+]?\d+)?", re.IGNORECASE)

# What says where a run happened to end. The number is the group in the middle.
_GAP = re.compile(r"(\bgap )([\d.e+-]+\d)()")
_PER_CENT_OFF = re.compile(r"(\b(?:more than|within) )([\d.e+-]+)( %)")
_COUNT = re.compile(r"()(\b[\d,]+)( (?:iterations|evaluations)\b)")
_ITERATION = re.compile(r"(\biteration )(\d+)()")
TOLERANCE = 1e-3  # the default of all estimators, which the pages use where they show a gap


def is_within(tolerance):
    return lambda shown, printed: shown <= tolerance and printed <= tolerance


def is_about(shown, printed):
    return shown <= 2 * printed and printed <= 2 * shown


LOOSE = [
    (_GAP, is_within(TOLERANCE)),
    (_PER_CENT_OFF, is_within(100 * TOLERANCE)),
    (_COUNT, is_about),
    (_ITERATION, is_about),
]


@dataclass
class Block:
    """A fenced block: its first line, its content, and where it stands."""

    kind: str
    code: str
    start: int
    end: int
    line: int


def blocks_of(text):
    return [
        Block(
            match["kind"].strip(),
            match["code"],
            match.start("code"),
            match.end("code"),
            text[: match.start("code")].count("\n"),
        )
        for match in _FENCE.finditer(text)
    ]


def run_python(block, page, namespace):
    """Execute the block, so that a traceback names the page and the line."""
    code = compile("\n" * block.line + block.code, str(page), "exec")
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(code, namespace)
    return printed.getvalue()


def run_commands(block, page, namespace):
    """Write the files and run the commands of a block of shell lines."""
    for name, content in _HEREDOC.findall(block.code):
        Path(name).write_text(content)
    printed = ""
    for line in _HEREDOC.sub("", block.code).replace("\\\n", " ").splitlines():
        program, *arguments = shlex.split(line, comments=True) or [None]
        if program is None:
            continue
        assert program == "cutplane", f"{page.name}: only cutplane commands can be run, not {line}"
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == 0, f"{page.name}: {line}\n{result.output}\n{result.exception!r}"
        printed += result.stdout
    return printed


RUNNERS = {"python": run_python, "sh": run_commands}


def needed_by(block):
    """Return the package that a block needs, or the empty string."""
    return block.kind.partition(" needs ")[2]


OPTIONAL = [
    (page, package)
    for page in PAGES
    for package in sorted({needed_by(block) for block in blocks_of(page.read_text())} - {""})
]


def outputs_of(page, packages=()):
    """Run a page; yield each block that shows an output, with what was really printed.

    Of blocks that need a package, those of ``packages`` are run.
    """
    namespace = {"__name__": "__main__"}
    printed = None
    skipped = False
    for block in blocks_of(page.read_text()):
        if needed_by(block):
            skipped = needed_by(block) not in packages
            printed = None if skipped else run_python(block, page, namespace)
        elif block.kind in RUNNERS:
            skipped = False
            printed = RUNNERS[block.kind](block, page, namespace)
        elif block.kind == "text" and skipped:
            continue
        elif block.kind == "text":
            assert printed is not None, f"{page.name}:{block.line}: output without a block above"
            yield block, printed
            printed = None
        elif block.kind == "text example":
            printed = None


def assert_same_output(shown, printed, where):
    shown, printed = (" ".join(_DURATION.sub("? s", text).split()) for text in (shown, printed))
    differ = f"{where}: the page shows\n{shown}\nbut it is\n{printed}"
    for pattern, agree in LOOSE:
        ours, theirs = (
            [float(found[1].replace(",", "")) for found in pattern.findall(text)]
            for text in (shown, printed)
        )
        assert len(ours) == len(theirs), differ
        assert all(map(agree, ours, theirs)), differ
        shown, printed = (pattern.sub(r"\1?\3", text) for text in (shown, printed))
    assert _NUMBER.sub("0", shown) == _NUMBER.sub("0", printed), differ
    for ours, theirs in zip(_numbers(shown), _numbers(printed), strict=True):
        # 1 %, or one unit of the last digit of a number shown with fewer.
        unit = Decimal(1).scaleb(ours.as_tuple().exponent)
        assert float(ours) == pytest.approx(
            float(theirs), rel=0.01, abs=max(1.01 * float(unit) * ("." in str(ours)), 1e-12)
        ), differ


def _numbers(text):
    return [Decimal(number.replace(",", "")) for number in _NUMBER.findall(text)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_page(page, tmp_path, monkeypatch):
    if page.name in NEEDS:
        needed = NEEDS[page.name]
        pytest.importorskip(needed, reason=f"the page is about {needed}, which is not installed")
    monkeypatch.chdir(tmp_path)
    for block, printed in outputs_of(page):
        assert_same_output(block.code, printed, f"{page.name}:{block.line}")


@pytest.mark.parametrize(
    ("page", "package"), OPTIONAL, ids=[f"{page.name}-{package}" for page, package in OPTIONAL]
)
def test_blocks_that_need_a_package(page, package, tmp_path, monkeypatch):
    pytest.importorskip(package, reason=f"blocks about {package}, which is not installed")
    monkeypatch.chdir(tmp_path)
    for block, printed in outputs_of(page, {package}):
        assert_same_output(block.code, printed, f"{page.name}:{block.line}")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_block_says_what_it_is(page):
    text = page.read_text()
    assert text.count("\n```") == 2 * len(blocks_of(text)), "a block is not closed"
    for block in blocks_of(text):
        known = block.kind in KINDS or (needed_by(block) and block.kind.startswith("python needs "))
        assert known, f"{page.name}:{block.line}: {block.kind!r}"


SHOWN = "work 40 evaluations, 0.1 s objective 0.5123 relative gap 2.00e-04 (within 0.02 % of it)"


@pytest.mark.parametrize(
    ("part", "same", "wrong"),
    [
        ("objective", ["objective", "  objective"], ["objectives", "objective of"]),
        ("0.1 s", ["7 s", "1e-3 s"], ["0.1", "soon"]),
        ("0.5123", ["0.5124", "0.5100"], ["0.5200", "-0.5123", "", "0.5123 0.5123"]),
        ("40 eval", ["20 eval", "80 eval"], ["19 eval", "81 eval", "eval", "40 or 41 eval"]),
        ("gap 2.00e-04", ["gap 9.9e-04", "gap 1e-16"], ["gap 1.1e-03", "gap of 2.00e-04", "gap"]),
        ("0.02 %", ["0.09 %", "0.0001 %"], ["0.11 %", "0.02", "some %"]),
    ],
)
def test_outputs_are_compared(part, same, wrong):
    assert part in SHOWN
    for other in same:
        assert_same_output(SHOWN, SHOWN.replace(part, other), "here")
    for other in wrong:
        with pytest.raises(AssertionError, match="here: the page shows"):
            assert_same_output(SHOWN, SHOWN.replace(part, other), "here")


def write_outputs(page):
    """Put what the blocks of a page print into the page."""
    text = page.read_text()
    packages = {package for other, package in OPTIONAL if other == page and find_spec(package)}
    for block, printed in reversed(list(outputs_of(page, packages))):
        lines = "".join(f"{line.rstrip()}\n" for line in printed.splitlines())
        text = text[: block.start] + lines + text[block.end :]
    page.write_text(text)


if __name__ == "__main__":
    chosen = [page for page in PAGES if not sys.argv[1:] or page.name in sys.argv[1:]]
    for page in chosen:
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            write_outputs(page)
            os.chdir(ROOT)
