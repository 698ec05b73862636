"""Progress: few lines, the right ones, and a live table on terminals."""

import io
import re
from types import SimpleNamespace

import pytest

from cutplane.report.progress import LiveProgress, Progress, is_milestone, progress_on


class Terminal(io.StringIO):
    def isatty(self):
        return True


def iterations_shown(text):
    rows = (line.split() for line in text.splitlines())
    return [int(row[0]) for row in rows if row and row[0].isdigit()]


def test_milestones():
    assert [i for i in range(1001) if is_milestone(i)] == [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000]


def test_log_lines_show_milestones_and_the_last(make_run):
    stream = io.StringIO()
    with Progress(stream) as progress:
        for record in make_run(23):
            state = SimpleNamespace(history=[record], convex=True)
            assert progress(state) is None  # true would end the run
    title, *rows = stream.getvalue().splitlines()
    assert title.split() == [
        "iteration", "objective", "lower", "bound", "gap", "evaluations", "planes", "seconds",
    ]  # fmt: skip
    assert iterations_shown(stream.getvalue()) == [1, 2, 5, 10, 20, 23]
    assert {len(row) for row in rows} == {len(title)}
    assert rows[0].split() == ["1", "0.81", "0.01", "9.88e-01", "2", "1", "0.01"]


@pytest.mark.parametrize("stream", [io.StringIO(), Terminal()], ids=["file", "terminal"])
def test_what_is_not_convex_has_no_lower_bound(make_run, stream):
    with progress_on(stream) as progress:
        for record in make_run(2):
            progress(SimpleNamespace(history=[record], convex=False))
    assert "model, no bound" in stream.getvalue()
    assert "lower bound" not in stream.getvalue()


def test_the_last_line_is_not_repeated(make_run):
    stream = io.StringIO()
    with Progress(stream) as progress:
        for record in make_run(10):
            progress.show(record)
    assert iterations_shown(stream.getvalue()) == [1, 2, 5, 10]


def test_every_run_has_its_title_and_its_last_line(make_run):
    stream = io.StringIO()
    with Progress(stream) as progress:
        for record in make_run(3) + make_run(4):
            progress.show(record)
    assert iterations_shown(stream.getvalue()) == [1, 2, 3, 1, 2, 4]
    assert stream.getvalue().count("objective") == 2


def test_a_run_that_goes_on_has_its_title_and_the_one_before_its_last_line(make_run):
    stream = io.StringIO()
    with Progress(stream) as progress:
        for record in make_run(3) + make_run(8)[5:]:
            progress.show(record)
    assert iterations_shown(stream.getvalue()) == [1, 2, 3, 8]
    assert stream.getvalue().count("objective") == 2


def test_no_records_no_lines():
    stream = io.StringIO()
    with Progress(stream):
        pass
    assert stream.getvalue() == ""


def test_the_display_suits_the_stream():
    assert isinstance(progress_on(io.StringIO()), Progress)
    assert isinstance(progress_on(Terminal()), LiveProgress)


def test_live_table_ends_with_the_last_record(make_run, monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    stream = Terminal()
    with LiveProgress(stream) as progress:
        for record in make_run(33):
            progress.show(record)
    last_drawing = stream.getvalue().split("iteration")[-1]
    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", last_drawing)
    assert iterations_shown(plain) == [1, 2, 5, 10, 20, 33]


def test_live_table_redraws_no_more_often_than_eyes_need(make_run, monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    stream = Terminal()
    with LiveProgress(stream) as progress:
        for record in make_run(500):
            progress.show(record)
    assert stream.getvalue().count("iteration") < 20
