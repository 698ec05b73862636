"""Every public name has an entry in the reference, with an example that runs."""

import doctest
import importlib.util
import inspect
from pathlib import Path

import pytest

import cutplane as cp

DOCS = Path(__file__).parents[2] / "docs"
SPEC = importlib.util.spec_from_file_location("reference_pages", DOCS / "reference_pages.py")
reference = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(reference)

EXAMPLES = reference.examples()
SETUP = EXAMPLES.pop("setup")
NEEDS = {
    "TorchRisk": "torch",
    "export_onnx": "onnx",
    "ShardedRisk": "distributed",
    "sharded_sample": "distributed",
}


@pytest.mark.parametrize("name", reference.public_names())
def test_every_name_has_a_docstring_and_an_example(name):
    said = inspect.getdoc(getattr(cp, name))
    assert said
    assert ">>>" in said or name in EXAMPLES


@pytest.mark.parametrize("name", EXAMPLES)
def test_example(name, tmp_path, monkeypatch):
    assert name in reference.public_names()
    if name in NEEDS:
        pytest.importorskip(NEEDS[name], reason=f"{NEEDS[name]} is not installed")
    monkeypatch.chdir(tmp_path)
    source = f"{SETUP}\n{EXAMPLES[name]}\n"
    example = doctest.DocTestParser().get_doctest(source, {}, name, "reference_examples.txt", 0)
    failed, tried = doctest.DocTestRunner(verbose=False).run(example)
    assert tried > SETUP.count(">>>")
    assert failed == 0


def test_every_name_has_a_status():
    names, special = set(reference.public_names()), reference.PROVISIONAL | reference.OF_THE_PAPERS
    assert special <= names
    assert not reference.PROVISIONAL & reference.OF_THE_PAPERS
    page = (DOCS / "stability.md").read_text(encoding="utf-8")
    assert all(f"\n| {reference.status_of(name)} |" in page for name in names)


def test_every_name_has_an_entry(tmp_path):
    reference.write_reference(tmp_path / "reference")
    pages = "".join(page.read_text() for page in (tmp_path / "reference").glob("*.rst"))
    for name, value in reference.public_names().items():
        directive = "autoclass" if inspect.isclass(value) else "autofunction"
        assert f".. {directive}:: cutplane.{name}\n" in pages
