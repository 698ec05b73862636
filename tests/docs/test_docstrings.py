"""Run the examples in the docstrings of every module."""

import doctest
import importlib
import pkgutil

import pytest

import cutplane

MODULES = ["cutplane"] + [
    module.name for module in pkgutil.walk_packages(cutplane.__path__, "cutplane.")
]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    failed, _ = doctest.testmod(importlib.import_module(name))
    assert failed == 0


def test_there_are_examples():
    finder = doctest.DocTestFinder(exclude_empty=True)
    examples = [
        example
        for name in MODULES
        for test in finder.find(importlib.import_module(name))
        for example in test.examples
    ]
    assert len(examples) > 5
