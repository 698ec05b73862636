"""Handwritten words, whose letters are a chain: the objectives of paper 004, Tables 4 and 5."""

import numpy as np
import pytest

import cutplane as cp

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def words(data_folder):
    """The training words of the paper, folds 0 to 7: pixels, letters, where words begin."""
    with np.load(f"{data_folder}/ocr_letters/ocr_letters.npz") as file:
        pixels, letters = np.unpackbits(file["X"], axis=1), file["y"]
        lengths, train = np.diff(file["offsets"].astype(int)), file["fold"] < 8
    tokens = np.repeat(train, lengths)
    offsets = np.concatenate([[0], np.cumsum(lengths[train])])
    assert len(offsets) == 5513
    return pixels[tokens].astype(np.float64), letters[tokens], offsets


@pytest.mark.parametrize(
    ("loss", "lam", "published"),
    [
        (cp.ChainMargin(), 1e-3, 2.92),
        (cp.ChainMargin(), 1e-4, 2.41),
        (cp.ChainCRF(), 1e-4, 2.71),
        (cp.ChainCRF(), 1e-5, 2.29),
    ],
)
def test_objectives_of_the_paper(words, loss, lam, published):
    risk = cp.ChainRisk(*words, loss)
    assert risk.n_parameters == 4004
    result = cp.minimize(
        risk, cp.L2(lam), method=cp.bmrm(groups="auto"), stop=cp.Gap(relative=0.01)
    )
    assert result.status is cp.Status.OPTIMAL
    assert round(result.objective, 2) == published
    assert result.certificate.lower_bound <= published
    # One dynamic program at the candidate, one where the plane is taken, and 1 to 3 by the search.
    assert risk.inferences <= 5 * risk.n_examples * (result.iterations + 1)
