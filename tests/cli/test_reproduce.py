"""``cutplane reproduce``: tables of the papers, also when interrupted."""

import json
import sys
from dataclasses import replace

import pytest

from cutplane.papers import EXPERIMENTS, Experiment


def small(name="small", *, interrupted=False, picture=None):
    def run(progress):
        for i in range(3):
            progress(i / 3, f"row {i}")
            yield {"i": i, "value": i / 7, "who": "us", "nothing": None, "curve": [float("inf")]}
            if interrupted and i == 1:
                raise KeyboardInterrupt

    return Experiment(
        name=name,
        title="A small table",
        paper="The paper has 0.14.",
        run=run,
        columns={"i": "row", "value": "value", "who": "who", "nothing": "missing"},
        picture=picture,
    )


@pytest.fixture
def add(monkeypatch):
    def add(experiment):
        monkeypatch.setitem(EXPERIMENTS, experiment.name, experiment)

    return add


def test_list(run):
    lines = run("reproduce").stdout.splitlines()
    assert [line.split()[0] for line in lines] == list(EXPERIMENTS)
    assert json.loads(run("reproduce", "--json").stdout).keys() == EXPERIMENTS.keys()


def test_table(run, add):
    add(small())
    result = run("reproduce", "small")
    assert result.exit_code == 0
    assert result.stdout == (
        "A small table\n"
        "-------------\n"
        "The paper has 0.14.\n"
        "\n"
        "row   value  who  missing\n"
        "  0       0  us         -\n"
        "  1  0.1429  us         -\n"
        "  2  0.2857  us         -\n"
    )
    assert result.stderr.splitlines() == ["  0 %  row 0", " 33 %  row 1", " 67 %  row 2"]


def test_columns_without_titles(run, add):
    add(replace(small(), columns={"i": "i", "who": "who"}))
    assert run("reproduce", "small").stdout.splitlines()[-4:] == [
        "i  who",
        "0  us",
        "1  us",
        "2  us",
    ]


def test_json(run, add):
    add(small())
    report = json.loads(run("reproduce", "small", "--json").stdout)["small"]
    assert report["complete"] is True
    assert [row["i"] for row in report["rows"]] == [0, 1, 2]
    assert report["rows"][0]["curve"] == [None]


def test_several(run, add):
    add(small("one"))
    add(small("two"))
    report = json.loads(run("reproduce", "two", "one", "two", "--json").stdout)
    assert list(report) == ["two", "one"]


def test_interruption_keeps_finished_rows(run, add):
    add(small("one", interrupted=True))
    add(small("two"))
    result = run("reproduce", "one", "two")
    assert result.exit_code == 130
    assert [line.split()[0] for line in result.stdout.splitlines() if "us" in line] == ["0", "1"]
    assert "interrupted" in result.stderr
    report = json.loads(run("reproduce", "one", "two", "--json").stdout)
    assert list(report) == ["one"]
    assert report["one"]["complete"] is False
    assert len(report["one"]["rows"]) == 2


def test_interruption_inside_a_fit_is_passed_on(monkeypatch):
    import cutplane as cp
    from cutplane.papers.experiment import minimize

    def stop(state):
        raise KeyboardInterrupt

    risk = cp.FunctionRisk(lambda w: (float(abs(w).max()), w / max(abs(w).max(), 1.0)), 2)
    problem = (risk, cp.L2(1.0))
    result = cp.minimize(*problem, start=[3.0, 1.0], callbacks=[stop])
    assert result.status is cp.Status.INTERRUPTED
    with pytest.raises(KeyboardInterrupt):
        minimize(*problem, start=[3.0, 1.0], callbacks=[stop])


def test_picture(run, add, tmp_path):
    drawn = []

    def picture(rows):
        from matplotlib.figure import Figure

        drawn.append(len(rows))
        return Figure()

    add(small(picture=picture))
    out = tmp_path / "new"
    assert run("reproduce", "small", "--out", out).exit_code == 0
    assert (out / "small.png").read_bytes().startswith(b"\x89PNG")
    assert run("reproduce", "small").exit_code == 0
    assert drawn == [3]


def test_picture_without_matplotlib(complaint, add, monkeypatch, tmp_path):
    add(small(picture=lambda rows: None))
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert "plots need matplotlib" in complaint("reproduce", "small", "--out", tmp_path)


def test_typing_errors(complaint):
    assert complaint("reproduce", "lower-bond").endswith("did you mean 'lower-bound'?")
    assert "choose from fig2-000" in complaint("reproduce", "xyz")


def test_missing_data(run, monkeypatch):
    monkeypatch.delenv("CUTPLANE_DATA", raising=False)
    result = run("reproduce", "fig2-000")
    assert result.exit_code == 2
    *_, line = result.stderr.splitlines()
    assert line.startswith("cutplane: CUTPLANE_DATA is not set")


def test_without_torch_there_is_a_hint(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    result = run("reproduce", "table8")
    assert result.exit_code == 2
    assert result.stderr.splitlines()[-1] == (
        'cutplane: networks need torch: pip install "cutplane[torch]"'
    )
