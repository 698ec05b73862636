"""Collections given to what is no fit: rows stay where they are, or a line says what to do."""

import dask
import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tests.estimators.registered import data_for, fitted

import cutplane as cp
from cutplane.estimators import ESTIMATORS
from cutplane.estimators.linear import LinearModel

da = pytest.importorskip("dask.array", reason="needs the extra cutplane[dask]")
db = pytest.importorskip("dask.bag")

RNG = np.random.default_rng(0)
X = RNG.normal(size=(400, 3))
SCORES = X @ [2.0, -1.0, 0.5] + RNG.normal(size=400)
TWO = np.where(SCORES > 0.5, "yes", "no")
GRADES = np.digitize(SCORES, [-1.0, 1.0])
QID = np.arange(400) // 10


def lazily(array, rows=150):
    return da.from_array(np.asarray(array), chunks=(rows, *np.shape(array)[1:]))


def guarded(array, rows=150):
    """Return a collection of rows that may be used part by part, but never fetched as a whole."""

    class Guarded(da.Array):
        def __array__(self, *args, **kwargs):
            raise AssertionError("all rows were fetched")

        compute = __array__

    plain = lazily(array, rows)
    return Guarded(plain.dask, plain.name, plain.chunks, dtype=plain.dtype)


@pytest.fixture(autouse=True)
def here():
    with dask.config.set(scheduler="synchronous"):
        yield


def refused(who, then):
    return pytest.raises(TypeError, match=rf"^{who} wants rows in memory: X is a Dask \w+; {then}$")


def test_a_path_is_refused():
    with refused("path", "fit an estimator to it for each lam, or give path X.compute\\(\\)"):
        cp.path(guarded(X), lazily(TWO))


@pytest.mark.parametrize("of", [cp.LinearClassifier, cp.LinearRegressor])
def test_a_stream_is_refused_and_nothing_is_learned(of):
    model = of(lam=0.01)
    with refused("partial_fit", "call it for each partition"):
        model.partial_fit(guarded(X), lazily(SCORES))
    assert not hasattr(model, "coef_")


def test_risks_and_models_that_need_rows_here_are_refused():
    y = np.sign(SCORES)
    with refused("as_rows", "sharded_sample and ShardedRisk take it as it is"):
        cp.ScoredRisk(guarded(X), lazily(y), cp.Hinge())
    with refused("StructuredRisk", ".*"):
        cp.StructuredRisk(cp.MulticlassModel(), guarded(X), lazily(GRADES))
    with refused("StructuredPredictor", ".*"):
        cp.StructuredPredictor(cp.MulticlassModel()).fit(guarded(X), lazily(GRADES))
    with refused("HMMClassifier", ".*"):
        cp.HMMClassifier().fit(guarded(X), lazily(GRADES))
    with refused("HMMTagger", ".*"):
        cp.HMMTagger().fit(guarded(X), lazily(GRADES), lengths=[400])
    with refused(r"compare\(peers=True\)", ".*"):
        cp.compare(cp.LinearClassifier(), ["bmrm"], guarded(X), lazily(TWO), peers=True)


LINEAR = [of for of in ESTIMATORS.values() if issubclass(of, LinearModel)]
LINEAR = [of for of in LINEAR if not of.description.spans_examples]


@pytest.mark.parametrize("of", LINEAR, ids=lambda of: of.__name__)
def test_predictions_are_collections(of):
    rows, _, _ = data_for(of)
    model = fitted(of)
    for name in ("predict", "decision_function", "score_samples", "predict_proba"):
        if not hasattr(model, name):
            continue
        found = getattr(model, name)(guarded(rows, 25))
        assert isinstance(found, da.Array)
        np.testing.assert_array_equal(found.compute(), getattr(model, name)(rows))


@pytest.mark.parametrize("of", [cp.KernelClassifier, cp.KernelRegressor])
def test_predictions_of_kernel_machines_are_collections(of):
    model = of(lam=0.01).fit(X, np.sign(SCORES))
    found = model.predict(guarded(X))
    assert isinstance(found, da.Array)
    np.testing.assert_allclose(found.compute(), model.predict(X))


@pytest.mark.parametrize("of", LINEAR, ids=lambda of: of.__name__)
def test_evaluations_and_reports_fetch_predictions_alone(of):
    if of.description.measures is None:
        return
    rows, y, more = data_for(of)
    model = fitted(of)
    apart = {name: lazily(value, 25) for name, value in more.items()}
    found = cp.evaluate(model, guarded(rows, 25), lazily(y, 25), **apart)
    assert found.measures == cp.evaluate(model, rows, y, **more).measures
    page = model.report(guarded(rows, 25), lazily(y, 25), **apart).html
    assert "<tr><td>samples</td><td>60</td></tr><tr><td>features</td><td>3</td></tr>" in page


def test_the_loss_of_counts_is_that_of_scores():
    counts = np.random.default_rng(1).poisson(np.exp(0.3 * X[:, 0]))
    model = cp.LinearRegressor("poisson", lam=0.01).fit(X, counts)
    found = cp.evaluate(model, guarded(X), lazily(counts))
    assert found.measures == cp.evaluate(model, X, counts).measures


def test_taggers_are_evaluated_on_bags():
    words = [["the", "cat"], ["a", "dog", "barks"]] * 20
    tags = [["article", "noun"], ["article", "noun", "verb"]] * 20
    sentences = [[[word] for word in sentence] for sentence in words]
    tagger = cp.SequenceTagger("crf", lam=0.01).fit(sentences, tags)
    bags = db.from_sequence(sentences, npartitions=3), db.from_sequence(tags, npartitions=4)
    found = cp.evaluate(tagger, *bags)
    assert found.measures == cp.evaluate(tagger, sentences, tags).measures
    with refused("SequenceTagger.score", "cp.evaluate takes bags"):
        tagger.score(*bags)


def test_what_a_pipeline_prepares_must_be_here():
    model = make_pipeline(StandardScaler(), cp.LinearClassifier(lam=0.01)).fit(X, TWO)
    with refused("a pipeline", ".*"):
        cp.evaluate(model, guarded(X), lazily(TWO))


def test_scores_fetch_predictions_alone():
    model = cp.LinearClassifier(lam=0.01).fit(X, TWO)
    assert model.score(guarded(X), lazily(TWO)) == model.score(X, TWO)
    ranker = cp.LinearRanker(lam=0.01).fit(X, GRADES, qid=QID)
    apart = {"qid": lazily(QID)}
    assert ranker.score(guarded(X), lazily(GRADES), **apart) == ranker.score(X, GRADES, qid=QID)
