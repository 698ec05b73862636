"""Charts as SVG: what is drawn, and where."""

import math
import re
import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutplane.report.charts import Chart, Curve

NUMBERS = st.floats(allow_nan=True, allow_infinity=True, width=32)
NAMESPACE = "{http://www.w3.org/2000/svg}"


def parsed(chart):
    return ET.fromstring(f"<div>{chart}</div>")


def drawn(xs, ys, *, label="a", titles=("x", "y"), log_x=False, **how):
    """Return the picture of a chart with one curve."""
    chart = Chart("", titles[1], [("x", titles[0])], [Curve(0, "y", label)], **how)
    return chart.picture([{"x": xs, "y": ys}], log_x=log_x)


def paths(chart):
    return [e.get("d") for e in parsed(chart).iter() if e.tag.endswith("path")]


@given(
    ys=st.lists(NUMBERS, max_size=12),
    log_x=st.booleans(),
    log_y=st.booleans(),
    steps=st.booleans(),
)
def test_any_numbers_make_a_picture(ys, log_x, log_y, steps):
    chart = drawn(range(len(ys)), ys, log_x=log_x, log=log_y, steps=steps)
    assert "nan" not in chart
    assert "inf" not in chart
    for path in paths(chart):
        numbers = [float(number) for number in re.findall(r"-?[\d.]+", path)]
        assert all(-1 <= number <= 700 for number in numbers)  # inside the axes


def test_points_go_where_they_belong():
    chart = drawn([0, 1, 2], [0, 2, 1])
    (path,) = paths(chart)
    (x0, y0), (x1, y1), (x2, y2) = (
        (float(x), float(y)) for x, y in re.findall(r"[ML]([\d.]+) ([\d.]+)", path)
    )
    assert x0 == 0
    assert x1 - x0 == pytest.approx(x2 - x1, abs=0.2)
    assert y0 - y2 == pytest.approx(y2 - y1, abs=0.2)  # downwards on a screen
    assert y1 < y2 < y0


def test_a_logarithmic_scale_has_equal_decades():
    chart = drawn([1, 2, 3], [1, 10, 100], log=True)
    (path,) = paths(chart)
    ys = [float(y) for y in re.findall(r"[ML][\d.]+ ([\d.]+)", path)]
    assert ys[0] - ys[1] == pytest.approx(ys[1] - ys[2], abs=0.2)
    texts = [e.text for e in parsed(chart).iter() if e.tag.endswith("text")]
    assert {"1", "10", "100"} <= set(texts)


def test_what_is_not_finite_is_left_out():
    (path,) = paths(drawn([1, 2, 3, 4], [math.inf, None, 1.0, 0.5]))
    assert path.count("L") == 1


def test_long_lines_keep_their_ends():
    (path,) = paths(drawn(range(10_000), range(10_000)))
    points = re.findall(r"[ML]([\d.]+) ([\d.]+)", path)
    assert len(points) < 300
    assert float(points[0][0]) == 0
    (path,) = paths(drawn([0, 9999], [0, 9999]))
    assert re.findall(r"L([\d.]+) ([\d.]+)", path)[-1] == points[-1]


def test_labels_are_text():
    chart = drawn([1, 2], [1, 2], label="<b>&", titles=("<i>", '"y"'))
    texts = " ".join(parsed(chart).itertext())
    assert "<b>&" in texts
    assert "<i>" in texts


def test_one_point_is_a_dot():
    chart = drawn([1], [1])
    assert "<circle" in chart
