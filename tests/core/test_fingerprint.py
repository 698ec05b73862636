"""Fingerprints: the same for what is the same, different for what differs anywhere."""

import importlib
from collections import deque
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from tests.regularizers.registry import CASES
from tests.structured.problems import PROBLEMS

import cutplane as cp
from cutplane.core.fingerprint import fingerprint
from cutplane.losses import CLASSIFICATION, MEASURES, RANKING, REGRESSION

RNG = np.random.default_rng(0)
ARRAY = RNG.normal(size=(7, 5))


def closure(numbers, factor=1.0):
    def function(w):
        return factor * float(numbers @ w), factor * numbers

    return function


@dataclass
class Keeps:
    name: str
    numbers: np.ndarray
    evaluations: int = 0

    @cached_property
    def total(self):
        return float(self.numbers.sum())


class Slotted:
    __slots__ = ("a", "b")

    def __init__(self, a, b):
        self.a, self.b = a, b


class ListOfItsOwn(list):
    pass


class ArrayOfItsOwn(np.ndarray):
    pass


def keeps(numbers, *, evaluations=0):
    made = Keeps("x", numbers, evaluations)
    assert made.total == numbers.sum()  # kept from now on
    return made


# Each is built twice: the two must be the same, and all different from each other.
DIFFERENT = {
    "none": lambda: None,
    "true": lambda: True,
    "one": lambda: 1,
    "one as a float": lambda: 1.0,
    "one as a word": lambda: "1",
    "nothing": lambda: "",
    "no list": list,
    "no tuple": tuple,
    "list in a list": lambda: [[]],
    "two lists": lambda: [[1], [2]],
    "one list": lambda: [[1, 2]],
    "split words": lambda: ["ab", "c"],
    "other split": lambda: ["a", "bc"],
    "mapping": lambda: {"a": 1, "b": 2},
    "swapped": lambda: {"a": 2, "b": 1},
    "set": lambda: {1, 2, 3},
    "array": lambda: ARRAY.copy(),
    "one entry": lambda: np.where(np.arange(35).reshape(7, 5) == 17, 1.0, ARRAY),
    "last bit": lambda: np.nextafter(ARRAY, np.inf),
    "other shape": lambda: ARRAY.reshape(5, 7),
    "transposed": lambda: ARRAY.T.copy(),
    "float32": lambda: ARRAY.astype(np.float32),
    "of a class": lambda: ARRAY.view(ArrayOfItsOwn),
    "empty": lambda: np.zeros((0, 3)),
    "empty too": lambda: np.zeros((3, 0)),
    "scalar": lambda: np.float64(3.0),
    "words": lambda: np.array(["a", "b"]),
    "objects": lambda: np.array(["a", None, 1], dtype=object),
    "sparse": lambda: scipy.sparse.csr_array(np.eye(3)),
    "sparse, other": lambda: scipy.sparse.csr_array(2.0 * np.eye(3)),
    "fraction": lambda: Fraction(1, 3),
    "deque": lambda: deque([1, 2]),
    "deque, other": lambda: deque([1, 3]),
    "list of its own": lambda: ListOfItsOwn([1, 2]),
    "list of its own, other": lambda: ListOfItsOwn([1, 3]),
    "object": lambda: keeps(np.ones(2)),
    "object, other": lambda: keeps(2.0 * np.ones(2)),
    "slots": lambda: Slotted(1, 2),
    "slots, other": lambda: Slotted(2, 1),
    "closure": lambda: closure(np.ones(3)),
    "closure, other numbers": lambda: closure(2.0 * np.ones(3)),
    "closure, other factor": lambda: closure(np.ones(3), 2.0),
    "class": lambda: Keeps,
    "hinge": cp.Hinge,
    "squared hinge": cp.SquaredHinge,
    "quantile": lambda: cp.Quantile(0.3),
    "quantile, other": lambda: cp.Quantile(0.7),
}


@pytest.mark.parametrize("name", DIFFERENT)
def test_made_twice_is_the_same(name):
    assert fingerprint(DIFFERENT[name]()) == fingerprint(DIFFERENT[name]())


def test_different_things_differ():
    made = {name: fingerprint(make()) for name, make in DIFFERENT.items()}
    assert len(set(made.values())) == len(made)


@given(st.integers(1, 400), st.integers(0, 3), st.integers(0, 10**6))
def test_one_changed_number_of_a_long_matrix_is_noticed(n_rows, column, seed):
    # Wide enough for several blocks.
    matrix = np.arange(n_rows * 4000.0).reshape(n_rows, -1)
    before = fingerprint(matrix)
    assert fingerprint(np.asfortranarray(matrix)) == before
    row = seed % n_rows
    matrix[row, column] = np.nextafter(matrix[row, column], -1.0)
    assert fingerprint(matrix) != before


def test_counts_and_computed_attributes_do_not_matter():
    fresh = Keeps("x", np.ones(2))
    assert fingerprint(fresh) == fingerprint(keeps(np.ones(2), evaluations=7))


def test_what_contains_itself_has_an_end():
    inner: list = [1]
    inner.append(inner)
    assert fingerprint(inner) != fingerprint([1])


def test_a_global_variable_of_a_function_counts():
    namespace = {"offset": 1.0}
    exec("def f(w): return offset + w", namespace)
    before = fingerprint(namespace["f"])
    assert fingerprint(namespace["f"]) == before
    namespace["offset"] = 2.0
    assert fingerprint(namespace["f"]) != before


def test_a_class_that_was_defined_again_is_another_one():
    def defined(sign):
        class Loss:
            def value(self):
                return sign

        return Loss()

    assert fingerprint(defined(1)) != fingerprint(defined(2))


def test_what_cannot_be_looked_into_is_the_same_as_itself_only():
    generators = [(i for i in range(3)) for _ in range(2)]
    assert fingerprint(generators[0]) == fingerprint(generators[0])
    assert fingerprint(generators[0]) != fingerprint(generators[1])


LOSSES = CLASSIFICATION | MEASURES | REGRESSION | RANKING


@pytest.mark.parametrize("name", LOSSES)
def test_a_loss_is_the_same_after_use(name):
    make = LOSSES[name]
    used, y = make(), np.array([-1.0, 1.0, 1.0, -1.0])
    if name == "poisson":
        y = np.abs(y)
    used(y, np.array([0.3, -0.2, 1.4, 2.0]), np.full(4, 0.25))
    assert fingerprint(used) == fingerprint(make())


@pytest.mark.parametrize("case", CASES)
def test_every_detail_of_a_regularizer_counts(case):
    assert fingerprint(CASES[case].regularizer) == fingerprint(CASES[case].regularizer)
    others = [fingerprint(CASES[name].regularizer) for name in CASES if name != case]
    assert fingerprint(CASES[case].regularizer) not in others


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_structured_risk_is_the_same_after_use(name):
    used, fresh = (cp.StructuredRisk(*PROBLEMS[name](np.random.default_rng(1))) for _ in range(2))
    used.at(np.zeros(used.n_parameters)).plane()
    assert fingerprint(used) == fingerprint(fresh)


@pytest.mark.parametrize("record", ["installed_here/{}.py,sha256=,0\n", ""])
def test_a_class_of_an_installed_package_is_its_name(tmp_path, monkeypatch, record):
    # `pip install --target` and `--user` put packages outside of the interpreter's own folder.
    module = "recorded" if record else "of_the_users_own"
    package, metadata = tmp_path / "installed_here", tmp_path / "installed_here-1.0.dist-info"
    for folder in (package, metadata):
        folder.mkdir()
    (package / f"{module}.py").write_text("class Counting:\n    counted = 0\n")
    (metadata / "RECORD").write_text(record.format(module))
    monkeypatch.syspath_prepend(tmp_path)
    kind = importlib.import_module(f"installed_here.{module}").Counting
    before = fingerprint(kind(), portable=True)
    kind.counted += 1
    assert (fingerprint(kind(), portable=True) == before) == bool(record)
