"""Pages: one file, small, nothing from elsewhere, all text escaped, values as they are."""

import base64
import hashlib
import html
import json
import math
import re

import pytest

from cutplane.core.certificate import Record
from cutplane.report.charts import charts_of_runs, table_of_run, thinned
from cutplane.report.page import MOST_BYTES, Report, Section, report_of_runs
from cutplane.report.words import element

WICKED = "</script><script>alert(1)</script>\"'&<!--"


def run(n, *, first_lower=-math.inf):
    lowers = [first_lower, *(1.0 - 0.5**i for i in range(1, n))]
    return [
        Record(i + 1, 1.0 + 0.5**i, lower, 2 * i + 1, i + 2, 0.01 * i)
        for i, lower in enumerate(lowers)
    ]


def data_of(page):
    return json.loads(re.search(r'id="data">(.*?)</script>', page, re.DOTALL)[1])


def test_values_are_those_of_the_records():
    records = run(9)
    data = data_of(report_of_runs("a", [("a", records)]).html)
    (table,) = data["tables"]
    assert table["objective"] == [record.objective for record in records]
    assert table["lower_bound"] == [None] + [record.lower_bound for record in records[1:]]
    assert table["relative_gap"][1:] == [record.relative_gap for record in records[1:]]
    assert [chart["id"] for chart in data["charts"]] == ["chart-bounds", "chart-gap", "chart-work"]
    assert data["charts"][0]["xs"] == [["iteration", "iterations"], ["seconds", "seconds"]]


def test_long_runs_stay_small_and_keep_their_ends():
    records = run(50_000, first_lower=0.0)
    page = report_of_runs("a", [(str(i), records) for i in range(12)]).html
    assert len(page.encode()) < MOST_BYTES
    for table in data_of(page)["tables"]:
        assert (table["iteration"][0], table["iteration"][-1]) == (1, 50_000)
        kept = records[table["iteration"][5] - 1]
        assert table["objective"][5] == kept.objective


def test_names_are_text_everywhere():
    page = report_of_runs(WICKED, [(WICKED, run(5)), ("b", run(4))]).html
    assert page.count("<script") == 3  # the data, uPlot and the page's own
    assert "alert(1)</script>" not in page
    assert html.escape(WICKED) in page
    labels = [line["label"] for line in data_of(page)["charts"][1]["lines"]]
    assert labels == [WICKED, "b"]


def test_nothing_comes_from_elsewhere():
    page = report_of_runs("a", [("a", run(5))]).html
    markup = re.sub(r"<script>.*?</script>", "", page, flags=re.DOTALL)
    assert not re.search(r"""(src|href)\s*=|@import|url\(""", markup)
    assert "default-src &#x27;none&#x27;" in page


def test_only_its_own_scripts_may_run():
    page = report_of_runs("a", [("a", run(5))]).html
    policy = html.unescape(re.search(r'Security-Policy" content="(.*?)"', page)[1])
    scripts = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    digests = [base64.b64encode(hashlib.sha256(s.encode()).digest()).decode() for s in scripts]
    assert re.findall(r"'sha256-(.*?)'", policy) == digests
    assert "unsafe-inline" not in policy.partition("script-src")[2]


def test_a_page_without_charts_has_no_scripts():
    page = Report("a", "b", [Section("c", [element("p", "d")])]).html
    assert "<script>" not in page
    assert "script-src &#x27;none&#x27;" in page


def test_a_trace_without_times_is_drawn_against_iterations_alone():
    records = [Record(i + 1, 1.0, 0.5, i, i, math.nan) for i in range(3)]
    (chart, *_) = charts_of_runs([("a", records)], proven=True)
    assert list(chart.xs) == [("iteration", "iterations")]
    assert table_of_run(records)["seconds"] == [None] * 3


def test_bounds_that_do_not_hold_are_not_called_so():
    (chart, *_) = charts_of_runs([("a", run(4))], proven=False)
    assert chart.curves[1].label == "lowest point of the model: no bound"


def test_thinned_tables():
    table = {"x": list(range(100))}
    assert thinned(table, 100) is table
    assert thinned(table, 12)["x"][::11] == [0, 99]
    assert len(thinned(table, 12)["x"]) == 12


def test_files_and_notebooks(tmp_path):
    report = report_of_runs('a "b"', [("a", run(5))])
    report.save(tmp_path / "a.html")
    assert (tmp_path / "a.html").read_text() == report.html
    frame = report._repr_html_()
    assert html.unescape(re.search(r'srcdoc="(.*?)"', frame, re.DOTALL)[1]) == report.html
    assert repr(report) == """Report('a "b"', 3 sections)"""


@pytest.mark.parametrize("records", [run(1), run(2), [Record(1, 0.0, 0.0, 1, 1, 0.0)]])
def test_short_runs(records):
    page = report_of_runs("a", [("a", records)]).html
    assert page.count("<figure") == 3
