"""Table 8 of paper 004: complete, and computed on small data as on the real ones."""

import numpy as np
import pytest
import scipy.sparse

import cutplane as cp
from cutplane.papers import EXPERIMENTS
from cutplane.papers.experiment import Words, load_words
from cutplane.papers.neural import METHODS, PUBLISHED, NeuroCRF, compare
from cutplane.papers.ocr import TABLE_4, error_of

torch = pytest.importorskip("torch", reason="torch is not installed: the extra cutplane[torch]")


def small_words(n_words, seed):
    rng = np.random.default_rng(seed)
    shapes = np.random.default_rng(0).random((4, 12)) < 0.4
    lengths = rng.integers(2, 6, size=n_words)
    firsts = rng.integers(4, size=n_words)
    y = np.concatenate([np.arange(k, k + n) % 4 for k, n in zip(firsts, lengths, strict=True)])
    pixels = shapes[y] ^ (rng.random((len(y), 12)) < 0.15)
    return Words(
        scipy.sparse.csr_array(pixels.astype(np.float64)),
        y,
        np.concatenate([[0], np.cumsum(lengths)]),
    )


@pytest.fixture(scope="module")
def model():
    return NeuroCRF(small_words(60, 1), small_words(30, 2), hidden=(6, 5), epochs=3)


def test_every_method_has_its_row_beside_the_paper(model):
    rows = list(compare(lambda share, what: None, lams=(1e-3, 1e-4), model=model))
    assert [row["method"] for row in rows] == 2 * ["NRBMLS (paper)", *METHODS]
    assert {row["lam"] for row in rows} == {1e-3, 1e-4}
    for lam in (1e-3, 1e-4):
        paper, first, *others = (row for row in rows if row["lam"] == lam)
        assert paper["objective"] == PUBLISHED[lam][1]
        for row in (first, *others):
            # The others get as many evaluations as the first has needed.
            assert 1 <= row["evaluations"] <= first["evaluations"]
            assert 0.0 <= row["test error"] <= 1.0
            assert 0.0 < row["objective"] < model.risk.at(model.start).value
    assert {"table8", "table8-tokens"} <= EXPERIMENTS.keys()


def test_the_model_is_that_of_the_formula(model):
    # The loss of all words is the logarithm of a probability, by words or by letters.
    letters = NeuroCRF(model.train, model.test, hidden=(6, 5), epochs=3, per_token=True)
    np.testing.assert_array_equal(letters.start, model.start)
    ratio = len(model.train.y) / (len(model.train.offsets) - 1)
    assert letters.risk.at(model.start).value * ratio == pytest.approx(
        model.risk.at(model.start).value, rel=1e-6
    )
    assert model.risk.n_parameters == 6 * 12 + 6 + 5 * 6 + 5 + 4 * 5 + 4 * 4


def test_without_layers_it_is_the_random_field_of_table_4():
    # After rescaling: lam times letters a word, the objective divided by them.
    train, test = small_words(60, 1), small_words(30, 2)
    plain = NeuroCRF(train, test, hidden=(), per_token=True, scale=0.0)
    length = len(train.y) / (len(train.offsets) - 1)
    linear = cp.ChainRisk(train.X, train.y, train.offsets, TABLE_4.loss)
    one = cp.minimize(plain.risk, cp.L2(1e-2, center=plain.start), tol=1e-4, max_iter=None)
    other = cp.minimize(linear, cp.L2(1e-2 * length), method=cp.quasi_newton(), tol=1e-4)
    assert one.objective * length == pytest.approx(other.objective, rel=2e-4)
    assert plain.error(one.w) == pytest.approx(error_of(linear, other.w, test), abs=0.02)


@pytest.mark.slow
@pytest.mark.usefixtures("data_folder")
def test_without_layers_values_are_those_of_table_4_on_the_letters():
    train, test = load_words()
    plain = NeuroCRF(train, test, hidden=(), per_token=False, scale=0.0)
    linear = cp.ChainRisk(train.X, train.y, train.offsets, TABLE_4.loss)
    result = cp.minimize(linear, cp.L2(1e-4), method=cp.quasi_newton(), tol=0.01)
    there = plain.risk.at(result.w)
    assert there.value == pytest.approx(result.point.value, rel=1e-5)
    np.testing.assert_allclose(there.plane().slope, result.point.plane().slope, atol=1e-5)
    assert plain.error(result.w) == pytest.approx(0.145, abs=0.005)
