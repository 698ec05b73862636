"""``cutplane compare``: tables and a page of methods on the same data."""

import json


def test_a_table_and_a_page(run, two_classes, tmp_path):
    page = tmp_path / "page.html"
    options = ["--lam", 0.01, "--methods", "bmrm, level,newton", "--peers", "-o", page]
    result = run("compare", two_classes, *options, "--format", "json")
    assert result.exit_code == 0
    rows = json.loads(result.stdout)["rows"]
    names = ["bmrm", "level", "newton", "LinearSVC", "SGDClassifier"]
    assert [row["method"] for row in rows] == names
    assert all(row["gap"] <= 1e-3 for row in rows[:3])
    assert all(row["gap"] is None for row in rows[3:])
    assert 'id="chart-above"' in page.read_text()
    words = run("compare", two_classes, *options[:4]).stdout.splitlines()
    assert [line.split()[0] for line in words] == ["method", "bmrm", "level", "newton"]


def test_other_tasks(run, numbers, tmp_path):
    columns = tmp_path / "columns.txt"
    columns.write_text("the DT B-NP\ncat NN I-NP\n\nit PRP B-NP\n")
    options = ["--task", "sequences", "--methods", "bmrm,level", "--lam", 0.1, "--format", "csv"]
    result = run("compare", columns, *options)
    assert result.stdout.count("optimal") == 2
    result = run("compare", numbers, "--loss", "quantile", "--quantile", 0.9, "--peers")
    assert result.exit_code == 0
    assert "peers: there are none for the quantile loss" in result.stdout


def test_tables(run, tmp_path):
    table = tmp_path / "people.csv"
    rows = [f"{i},{'ab'[i % 2]},{'yes' if i > 20 + i % 3 else 'no'}" for i in range(40)]
    table.write_text("\n".join(["age,kind,buys", *rows]) + "\n")
    result = run("compare", table, "--target", "buys", "--methods", "auto", "--format", "json")
    (row,) = json.loads(result.stdout)["rows"]
    assert row["status"] == "optimal"


def test_wrong_options(complaint, two_classes, numbers, tmp_path):
    said = complaint("compare", two_classes, "--methods", "bmrm,levle")
    assert said == "--methods: unknown name 'levle'; did you mean 'level'?"
    assert complaint("compare", two_classes, "--format", "xml").startswith("--format: unknown name")
    assert complaint("compare", two_classes, "--lam", -1).startswith("--lam must be")
    assert "look like numbers" in complaint("compare", numbers)
    assert "the same file" in complaint("compare", two_classes, "-o", two_classes)
