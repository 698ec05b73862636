"""Pictures of a run, in characters and as PNG."""

import io
import math
import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutplane.core.certificate import Record
from cutplane.report.charts import curves_of, mean_run
from cutplane.report.figures import PlottingUnavailable, draw_run, picture_of
from cutplane.report.text import draw_text

# -- characters ------------------------------------------------------------------------------------


def test_text_shows_the_bounds_closing_in(make_run):
    lines = draw_text(make_run(40), tol=1e-3).splitlines()
    picture = [line[12:].ljust(59) for line in lines[1:11]]
    first, last = ("".join(row[column] for row in picture) for column in (0, 58))
    assert first == "▀" + "░" * 8 + "▄"  # the band reaches from top to bottom at first
    assert last.strip() == "█"  # and is one cell high at the end
    assert len(last.strip()) == 1
    assert lines[0].startswith("▀ objective  ▄ lower bound  (logarithmic)")


def test_gap_bars_only_shrink(make_run):
    lines = draw_text(make_run(40), tol=1e-3).splitlines()
    start = lines.index("relative gap  (logarithmic)") + 1
    lengths = [len(line[12:].rstrip(" ┈")) for line in lines[start : start + 7]]
    assert lengths == sorted(lengths)
    assert lengths[0] < lengths[-1]


def test_tolerance_is_marked_where_the_gap_is_below_it(make_run):
    text = draw_text(make_run(60), tol=0.05)
    (marked,) = [line for line in text.splitlines() if "┈" in line]
    assert marked.split()[0] == "0.05"


def test_width_and_ascii(make_run):
    text = draw_text(make_run(40), tol=1e-3, width=50, ascii_only=True)
    assert text.isascii()
    assert max(map(len, text.splitlines())) == 50 - 1


def test_no_records():
    assert draw_text([]) == "(no iterations to draw)"


bounds = st.floats(-1e6, 1e6)


@given(
    pairs=st.lists(st.tuples(bounds, bounds | st.just(-math.inf)), min_size=1, max_size=90),
    tol=st.none() | st.floats(1e-12, 0.5),
)
def test_any_run_can_be_drawn(pairs, tol):
    objectives = sorted((objective for objective, _ in pairs), reverse=True)
    records = [
        Record(i + 1, objective, min(objective, pairs[i][1]), i, i, 0.0)
        for i, objective in enumerate(objectives)
    ]
    lines = draw_text(records, tol=tol).splitlines()
    assert len(lines) == 1 + 10 + 2 + 1 + 7 + 2
    assert all(len(line) <= 72 for line in lines)


# -- the range that is shown -----------------------------------------------------------------------


def test_early_bounds_far_below_do_not_flatten_the_picture(make_run):
    curves = curves_of(make_run(120, start=(1.0, -1e6)))
    assert curves.bottom > -4.0


def test_missing_bounds_have_no_place_in_the_picture(make_run):
    records = [replace(record, lower_bound=-math.inf) for record in make_run(3)]
    curves = curves_of(records)
    assert np.isfinite([curves.bottom, curves.top]).all()
    assert "▄" not in "".join(draw_text(records).splitlines()[1:11])


def test_scale_is_logarithmic_only_where_it_helps(make_run):
    assert curves_of(make_run(50)).logarithmic
    assert not curves_of(make_run(50, optimum=0.9)).logarithmic
    assert not curves_of(make_run(50, start=(1.0, -2.0), optimum=-1.0)).logarithmic


# -- several runs as one ---------------------------------------------------------------------------


def test_mean_run_keeps_the_last_bounds_of_shorter_runs(make_run):
    short, long = make_run(2, optimum=0.2), make_run(5, optimum=0.4)
    mean = mean_run([short, long, []])
    assert [record.iteration for record in mean] == [1, 2, 3, 4, 5]
    assert mean[4].objective == pytest.approx((short[1].objective + long[4].objective) / 2)
    assert mean[4].lower_bound == pytest.approx((short[1].lower_bound + long[4].lower_bound) / 2)
    assert mean[4].evaluations == short[1].evaluations + long[4].evaluations
    assert mean_run([]) == []
    assert mean_run([long]) == long


# -- PNG -------------------------------------------------------------------------------------------


def pixels(content):
    return pytest.importorskip("matplotlib.image").imread(io.BytesIO(content), format="png")


def test_png_shows_both_bounds(make_run):
    image = pixels(picture_of(draw_run(make_run(30), title="Hinge", subtitle="optimal", tol=1e-3)))
    assert image.shape[:2] == (960, 1200)
    for color in ((0xD5, 0x5E, 0x00), (0x00, 0x72, 0xB2)):
        near = np.abs(image[:, :, :3] * 255 - color).max(axis=2) < 3
        assert near.sum() > 500


@pytest.mark.parametrize("proven", [True, False])
def test_legends_claim_no_more_than_is_proven(make_run, proven):
    figure = draw_run(make_run(5), title="Ramp", proven=proven)
    (legend,) = [axes.get_legend() for axes in figure.axes if axes.get_legend()]
    said = " ".join(text.get_text() for text in legend.get_texts())
    assert ("the optimum is in between" in said) == proven
    assert ("lower bound" in said) == proven


@pytest.mark.parametrize("kind", ["empty", "one", "flat", "unbounded", "zero gap"])
def test_png_of_unusual_runs(make_run, kind):
    one = make_run(1)
    records = {
        "empty": [],
        "one": one,
        "flat": [replace(one[0], iteration=i, lower_bound=one[0].objective) for i in (1, 2)],
        "unbounded": [replace(one[0], lower_bound=-math.inf)],
        "zero gap": [*one, replace(one[0], iteration=2, lower_bound=one[0].objective)],
    }[kind]
    assert pixels(picture_of(draw_run(records, title=kind, tol=1e-3))).std() > 0


def test_hint_without_matplotlib(make_run, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(PlottingUnavailable, match=r'pip install "cutplane\[plot\]"'):
        draw_run(make_run(3), title="x")
