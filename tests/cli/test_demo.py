"""``cutplane demo``: runs without any data of the user's, and says what it did."""

import sys


def test_demo(run, tmp_path):
    result = run("demo", "--out", tmp_path / "new" / "folder")
    assert result.exit_code == 0
    assert result.stderr == ""
    *_, bound, last = result.stdout.splitlines()
    assert bound.startswith("Certificate: no weights can bring the objective below 0.")
    assert last.endswith("of the best possible.")
    assert "objective  " in result.stdout
    picture = tmp_path / "new" / "folder" / "bounds.png"
    assert f"The same as a picture: {picture}" in result.stdout
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert max(map(len, result.stdout.replace(str(tmp_path), "").splitlines())) <= 80


def test_quantiles_hold_what_they_promise(run, tmp_path):
    lines = run("demo", "--out", tmp_path).stdout.splitlines()
    rows = [line.split() for line in lines if line.strip().startswith("0.") and "%" in line]
    shares = {float(row[0]): float(row[1]) for row in rows}
    assert set(shares) == {0.1, 0.5, 0.9}
    assert all(abs(share - 100 * quantile) < 3 for quantile, share in shares.items())


def test_demo_without_matplotlib_and_folder(run, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    result = run("demo")
    assert result.exit_code == 0
    assert list(tmp_path.iterdir()) == []
    assert 'No picture: plots need matplotlib: pip install "cutplane[plot]"' in result.stdout


def test_without_a_folder_the_picture_goes_to_a_new_one(run, monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    output = run("demo").stdout
    (picture,) = tmp_path.glob("*/bounds.png")
    assert f"The same as a picture: {picture}" in output


def test_folder_that_cannot_be_made(complaint, tmp_path):
    (tmp_path / "file").touch()
    said = complaint("demo", "--out", tmp_path / "file" / "folder")
    assert said.endswith("cannot make this folder: not a directory")
