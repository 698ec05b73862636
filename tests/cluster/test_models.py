"""Models beyond rows with targets on a cluster of processes: the bits of one machine."""

from contextlib import contextmanager

import numpy as np
import pytest

import cutplane as cp

da = pytest.importorskip("dask.array", reason="needs the extra cutplane[dask]")
db = pytest.importorskip("dask.bag", reason="needs the extra cutplane[dask]")

from cutplane.cluster import collections  # noqa: E402


@contextmanager
def fewer_workers(client, n_workers):
    """Let fits use the first of the workers only."""
    everyone = sorted(client.scheduler_info(n_workers=-1)["workers"])
    made = collections.DaskWorkers
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            collections,
            "DaskWorkers",
            lambda client, **options: made(client, **options | {"workers": everyone[:n_workers]}),
        )
        yield


def test_a_ranker_has_the_same_bits_and_lazy_predictions(client):
    rng = np.random.default_rng(0)
    m = 131_072 + 55  # four shards
    X = rng.normal(size=(m, 2)).astype(np.float32)
    y = np.clip(np.round(X[:, 0] - 0.5 * X[:, 1] + rng.normal(size=m)), 0, 3)
    words = np.char.add("q", (np.arange(m) // 37).astype(str))
    plain = cp.LinearRanker(lam=1e-2, method="bmrm-line-search").fit(X, y, qid=words)
    lazy = [da.from_array(a, chunks=(40_001, *a.shape[1:])) for a in (X, y, words)]
    for n_workers in (1, 2, 5):
        with fewer_workers(client, n_workers):
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


def named_sequences(n=700, seed=1):
    rng = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(n):
        states = rng.integers(0, 3, rng.integers(1, 9))
        noisy = np.where(rng.random(len(states)) < 0.2, 0, states)
        X.append([{"word": f"w{k}", "size": float(k)} for k in noisy])
        y.append([f"L{k}" for k in states])
    return X, y


@pytest.mark.parametrize("loss", ["margin", "crf"])
def test_a_tagger_of_bags_has_the_same_bits_for_any_workers(client, loss):
    X, y = named_sequences()
    settings = {"lam": 1e-2, "pairs": "observed", "min_count": 2}
    plain = cp.SequenceTagger(loss, **settings).fit(X, y)
    bags = [db.from_sequence(each, npartitions=3) for each in (X, y)]
    models = [cp.SequenceTagger(loss, **settings).fit(*bags)]
    for n_workers in (1, 2):
        with fewer_workers(client, n_workers):
            models.append(cp.SequenceTagger(loss, **settings).fit(*bags))
    for other in models[1:]:
        assert np.array_equal(models[0].coef_.toarray(), other.coef_.toarray())
        assert np.array_equal(models[0].transitions_, other.transitions_)
    model = models[0]
    assert model.vectorizer_.feature_names_ == plain.vectorizer_.feature_names_
    assert list(model.classes_) == ["L0", "L1", "L2"]
    # Two proofs for one problem: neither lower bound is above the other's objective.
    for one, other in ((model, plain), (plain, model)):
        assert one.certificate_.lower_bound <= other.certificate_.objective
    predicted = model.predict(bags[0])
    assert isinstance(predicted, db.Bag)
    here = model.predict(X)
    assert all(np.array_equal(a, b) for a, b in zip(predicted.compute(), here, strict=True))
    assert len(model.predict_n_best(bags[0], 2).take(1)[0]) == 2


@pytest.mark.parametrize("options", [{"penalty": "l1"}, {"penalty": "elasticnet"}])
def test_a_tagger_of_bags_may_be_sparse(client, options):
    X, y = named_sequences(200)
    settings = {"lam": 5e-2, "tol": 1e-3} | options
    plain = cp.SequenceTagger("crf", **settings).fit(X, y)
    model = cp.SequenceTagger("crf", **settings)
    model.fit(*(db.from_sequence(each, npartitions=3) for each in (X, y)))
    assert model.method_ == plain.method_ == "sparse-quasi-newton"
    for one, other in ((model, plain), (plain, model)):
        assert one.certificate_.relative_gap <= settings["tol"]
        assert one.certificate_.lower_bound <= other.certificate_.objective
    assert np.count_nonzero(model.transitions_) < model.transitions_.size


def test_what_a_tagger_of_bags_cannot_do_is_said(client):
    X, y = named_sequences(10)
    bag = db.from_sequence(X, npartitions=2)
    with pytest.raises(TypeError, match="y must be a Dask collection"):
        cp.SequenceTagger().fit(bag, y)
    with pytest.raises(ValueError, match="sequence 0 has"):
        cp.SequenceTagger().fit(bag, db.from_sequence([[*labels, "L0"] for labels in y]))
    with pytest.raises(ValueError, match="network needs one machine"):
        cp.SequenceTagger(features=cp.NeuralFeatures([3])).fit(bag, bag)
