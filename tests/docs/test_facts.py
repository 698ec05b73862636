"""The pages agree with the program on options, losses, statuses and methods; links resolve."""

import inspect
import json
import math
import re
import runpy
from pathlib import Path

import numpy as np
import pytest
import typer.main
from sklearn.datasets import dump_svmlight_file
from typer.testing import CliRunner

import cutplane as cp
from cutplane.cli.app import app
from cutplane.cli.process import ExitCode
from cutplane.losses import (
    CLASSIFICATION,
    REGRESSION,
    ROBUST_CLASSIFICATION,
    ROBUST_REGRESSION,
)
from cutplane.solvers.registry import METHODS

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.glob("*.md"), *DOCS.glob("decisions/*.md")])
UNDATED = [page for page in PAGES if page.parent.name != "decisions" and page.stem != "CHANGELOG"]
LOSSES = CLASSIFICATION | ROBUST_CLASSIFICATION | REGRESSION | ROBUST_REGRESSION
COMMANDS = typer.main.get_command(app).commands

_LINK = re.compile(r"\]\(([^)\s]+)\)")
_CODE = re.compile(r"`([^`]+)`")


def section(page, title):
    """Return the text from a heading to the next one of its level or above."""
    heading = re.search(rf"^(#+) {re.escape(title)}$", page, re.MULTILINE)
    assert heading, f"no heading {title!r}"
    rest = page[heading.end() :]
    end = re.search(rf"^#{{1,{len(heading[1])}}} ", rest, re.MULTILINE)
    return rest[: end.start()] if end else rest


def table(text):
    """Return the rows of the first table of a text, without the title row, as lists of cells."""
    lines = re.search(r"(?:^\|.*\|\n)+", text, re.MULTILINE)[0].splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def anchors(page):
    """Return the names that headings of a page can be linked by."""
    titles = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for link in _LINK.findall(page.read_text()):
        if link.startswith(("https://", "http://", "mailto:")):
            continue
        name, _, anchor = link.partition("#")
        target = page.parent / name if name else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


def test_every_page_is_in_the_index():
    linked = set(_LINK.findall((DOCS / "index.md").read_text()))
    pages = {page.relative_to(DOCS).as_posix() for page in PAGES if DOCS in page.parents}
    assert pages - {"index.md"} <= linked


def test_figures_of_the_benchmarks_are_measured():
    run = runpy.run_path(str(ROOT / "benchmarks" / "run.py"))
    assert (DOCS / "benchmarks.md").read_text() == run["page"](ROOT / "benchmarks" / "results")


def options_of(command):
    return {
        option
        for parameter in COMMANDS[command].load().params
        if parameter.param_type_name == "option"
        for option in (*parameter.opts, *parameter.secondary_opts)
    }


@pytest.mark.parametrize("command", COMMANDS)
def test_options(command):
    text = section((DOCS / "command-line.md").read_text(), f"cutplane {command}")
    described = {option for row in table(text) for option in _CODE.findall(row[0])}
    existing = options_of(command)
    if command == "compare":  # takes those of fit, which are described there
        assert "--lam" in existing
        existing -= options_of("fit") - described
    assert described == existing - {"-h", "--help"}


def test_commands_are_listed_by_their_own_first_lines():
    for command in COMMANDS.values():
        assert command.help == command.load().help.split("\n\n")[0].replace("\n", " ")


def test_commands():
    titles = re.findall(
        r"^## cutplane ([\w-]+)$", (DOCS / "command-line.md").read_text(), re.MULTILINE
    )
    assert set(titles) == set(COMMANDS)


def test_exit_codes():
    rows = table(section((DOCS / "command-line.md").read_text(), "Exit codes"))
    assert [int(row[0]) for row in rows] == [code.value for code in ExitCode]


@pytest.fixture
def print_json(tmp_path):
    """Return a function that runs a command with --json on labels, and gives what it prints."""

    def run(labels, loss, *options, qid=None):
        X = np.random.default_rng(0).normal(size=(len(labels), 2))
        data, model = str(tmp_path / "data.svm"), str(tmp_path / "model")
        dump_svmlight_file(X, labels, data, zero_based=False, query_id=qid)
        fit = ["fit", data, "--lam", "1", "--loss", loss, "--out", model, "--json", *options]
        evaluate = ["evaluate", model, data, "--json"]
        return [json.loads(CliRunner().invoke(app, command).stdout) for command in (fit, evaluate)]

    return run


def print_table_json(folder):
    pytest.importorskip("pandas")
    path = folder / "table.csv"
    path.write_text("x,y\n" + "".join(f"{k},{'ab'[k % 2]}\n" for k in range(10)))
    run = CliRunner().invoke(
        app, ["fit", str(path), "--target", "y", "--cv", "2", "--quiet", "--json"]
    )
    return json.loads(run.stdout), {}


def print_sequences_json(folder):
    data, model = folder / "data.txt", str(folder / "model")
    data.write_text("the DT B-NP\ncat NN I-NP\n")
    fit = ["fit", str(data), "--lam", "1", "--loss", "crf", "--out", model, "--json"]
    evaluate = ["evaluate", model, str(data), "--json"]
    return [json.loads(CliRunner().invoke(app, command).stdout) for command in (fit, evaluate)]


def print_frames_json(folder):
    data, model = folder / "frames.txt", str(folder / "model")
    data.write_text("a 1\na 2\nb 8\nb 7\n")
    fit = ["fit", str(data), "--task", "hmm-tagging", "--n-states", "1", "--out", model, "--json"]
    evaluate = ["evaluate", model, str(data), "--json"]
    return [json.loads(CliRunner().invoke(app, command).stdout) for command in (fit, evaluate)]


def test_json_fields(print_json, tmp_path):
    page = (DOCS / "command-line.md").read_text()
    fit_fields, evaluate_fields = (
        {name for row in table(section(page, title)) for name in _CODE.findall(row[0])}
        for title in ("Fields of fit --json", "Fields of evaluate --json")
    )
    runs = [
        print_json([0, 1] * 5, "hinge"),
        print_json([0, 1, 2] * 4, "hinge"),
        print_json([0, 1, 2] * 4, "logistic", "--multi-class", "softmax"),
        print_json([0.5, 1.5, 7.0], "quantile"),
        print_json([0, 1, 2], "pairwise", qid=[1, 1, 1]),
        print_sequences_json(tmp_path),
        print_frames_json(tmp_path),
        print_table_json(tmp_path),
    ]
    assert fit_fields == {name for fit, _ in runs for name in fit}
    assert evaluate_fields == {name for _, evaluate in runs for name in evaluate}


def test_statuses():
    rows = table(section((DOCS / "certificate.md").read_text(), "Statuses"))
    described = [row[0].strip("`") for row in rows]
    assert described == [status for status in cp.Status if status is not cp.Status.RUNNING]


def test_methods():
    text = (DOCS / "choose-a-method.md").read_text()
    assert [row[0].strip("`") for row in table(text)] == list(METHODS)


LOSS_ROWS = table(section((DOCS / "regression.md").read_text(), "All losses"))


def test_losses():
    assert [row[0].strip("`") for row in LOSS_ROWS] == list(LOSSES)


@pytest.mark.parametrize("row", LOSS_ROWS, ids=lambda row: row[0])
def test_loss_is_as_described(row):
    name, formula, parameters, kinks, probability = (cell.replace("`", "") for cell in row)
    loss = LOSSES[name]()
    expected = ", ".join(
        f"{parameter.name}={parameter.default:g}"
        for parameter in inspect.signature(LOSSES[name]).parameters.values()
    )
    assert parameters == (expected or "none")
    values = {key: getattr(loss, key) for key in re.findall(r"(\w+)=", parameters)}
    places = np.linspace(-3.0, 3.0, 25)
    if loss.task == "classification":
        pairs = [(y, z) for y in (-1.0, 1.0) for z in places]
    else:
        pairs = [(y, z) for y in (0.5, 2.0) for z in places]
    one = np.ones(1)
    for y, z in pairs:
        scope = {"exp": math.exp, "log": math.log, "max": max, "min": min, "abs": abs}
        scope |= values
        described = eval(formula, {"__builtins__": {}}, {**scope, "y": y, "z": z, "u": z - y})
        assert loss(np.array([y]), np.array([z]), one)[0] == pytest.approx(described, abs=1e-12)
    assert (probability != "none") == (loss.probability(np.zeros(1)) is not None)
    if probability != "none":
        for z in places:
            described = eval(probability, {"__builtins__": {}}, {"exp": math.exp, "z": z})
            assert loss.probability(np.array([z]))[0] == pytest.approx(described)
    assert (kinks != "smooth") == _has_kink(loss)


def _has_kink(loss):
    """Whether the slope jumps anywhere on a fine grid of scores."""
    y = np.ones(1)
    slopes = [loss(y, np.array([z]), y)[1][0] for z in np.arange(-3.0, 3.0, 1e-3)]
    return bool(np.max(np.abs(np.diff(slopes))) > 0.2)


@pytest.mark.parametrize("page", UNDATED, ids=lambda page: page.name)
def test_files_of_the_source_are_where_a_page_says(page):
    named = set(re.findall(r"`((?:[a-z_]+/)+[a-z_]+\.py)`", page.read_text(encoding="utf-8")))
    roots = (ROOT / "src/cutplane", ROOT / "src", ROOT)
    assert not {name for name in named if not any((root / name).is_file() for root in roots)}


@pytest.mark.parametrize("page", [ROOT / "docs" / "design.md", ROOT / "CONTRIBUTING.md"], ids=str)
def test_rooms_and_files_of_the_design_are_there(page):
    text = page.read_text(encoding="utf-8")
    source = ROOT / "src/cutplane"
    files = {path.name for path in source.rglob("*.py")}
    missing = {
        name
        for name in re.findall(r"(?<![\w`])`([a-z_]+\.py|(?:[a-z_]+/)+)`", text)
        if name not in files
        and not any((root / name).is_dir() for root in (source, source / "models", ROOT))
    }
    assert not missing
