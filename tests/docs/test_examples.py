"""The scripts in examples run, are short, and are in the gallery."""

import ast
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
MOST_LINES = 45


def test_there_are_ten():
    assert len(EXAMPLES) == 10


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example(path, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(path), run_name="__main__")
    assert capsys.readouterr().out
    assert len(path.read_text(encoding="utf-8").splitlines()) <= MOST_LINES


def test_the_gallery_shows_every_script():
    made = runpy.run_path(str(ROOT / "docs" / "gallery_page.py"))["scripts"](ROOT / "examples")
    for path in EXAMPLES:
        title = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))).splitlines()[0]
        assert f"## {title.rstrip('.')}" in made
