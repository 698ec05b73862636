"""Models beyond rows with targets on a cluster of processes: the bits of one machine."""

import numpy as np
import pytest

import cutplane as cp

da = pytest.importorskip("dask.array", reason="needs the extra cutplane[dask]")


def test_a_ranker_has_the_same_bits_and_lazy_predictions(client):
    rng = np.random.default_rng(0)
    m = 131_072 + 55  # four shards
    X = rng.normal(size=(m, 2)).astype(np.float32)
    y = np.clip(np.round(X[:, 0] - 0.5 * X[:, 1] + rng.normal(size=m)), 0, 3)
    words = np.char.add("q", (np.arange(m) // 37).astype(str))
    plain = cp.LinearRanker(lam=1e-2, method="bmrm-line-search").fit(X, y, qid=words)
    lazy = [da.from_array(a, chunks=(40_001, *a.shape[1:])) for a in (X, y, words)]
    model = cp.LinearRanker(lam=1e-2, method="bmrm-line-search")
    model.fit(lazy[0], lazy[1], qid=lazy[2])
    assert np.array_equal(model.coef_, plain.coef_)
    assert model.certificate_ == plain.certificate_
    assert model.n_queries_ == plain.n_queries_ == len(np.unique(words))
    predicted = model.predict(lazy[0])
    assert isinstance(predicted, da.Array)
    assert np.array_equal(predicted.compute(), plain.predict(X))
    with pytest.raises(ValueError, match="need qid"):
        cp.LinearRanker().fit(lazy[0], lazy[1])
