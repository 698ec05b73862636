"""Options of fits to collections: honored as on one machine, or refused in one line."""

import numpy as np
import pytest
from tests.estimators.registered import data_for, made

import cutplane as cp
from cutplane.estimators import ESTIMATORS
from cutplane.estimators.description import defaults_of
from cutplane.estimators.linear import LinearModel, takes_collections

da = pytest.importorskip("dask.array", reason="needs the extra cutplane[dask]")
db = pytest.importorskip("dask.bag")

RNG = np.random.default_rng(0)
X = RNG.normal(size=(400, 3))
SCORES = X @ [2.0, -1.0, 0.5] + RNG.normal(size=400)
WEIGHTS = RNG.integers(1, 4, 400).astype(float)
QID = np.arange(400) // 10
TWO = np.where(SCORES > 0.5, "yes", "no")
THREE = np.digitize(SCORES, [-1.0, 1.0])
TARGETS = {cp.LinearClassifier: TWO, cp.LinearRegressor: SCORES, cp.LinearRanker: THREE}

# What each parameter of an estimator that takes collections is set to; several at once where one
# needs another. None: it says how to work, not what to fit.
HOW = dict.fromkeys(
    ("tol", "max_iter", "time_limit", "method", "warm_start", "verbose", "n_jobs", "callbacks",
     "checkpoint")
)  # fmt: skip
STARTS = {"n_starts": None, "random_state": None}
SHARED = {
    "lam": [{"lam": 0.1}, {"lam": cp.CrossValidation(cv=2, lams=[1.0, 0.01])}],
    "C": [{"C": 0.01}],
    "penalty": [{"penalty": "l1", "lam": 0.05}],
    "l1_ratio": [{"penalty": "elasticnet", "lam": 0.1, "l1_ratio": 0.2}],
}
BOUNDED = {
    "fit_intercept": [{"fit_intercept": False}],
    "positive": [{"positive": True}],
    "bounds": [{"bounds": (-0.5, 1.0)}],
    "constraints": [{"constraints": (np.ones((1, 3)), 0.0, 0.0)}],
}
SETTINGS = {
    cp.LinearClassifier: {
        **HOW, **STARTS, **SHARED, **BOUNDED,
        "loss": [{"loss": "logistic"}],
        "multi_class": [{"multi_class": "softmax", "loss": "logistic"}],
        "class_weight": [
            {"class_weight": "balanced", "C": 0.01},
            {"class_weight": {"yes": 5.0}},
            {"class_weight": {"yes": 5.0}, "C": 0.01},
        ],
        "costs": [{"multi_class": "crammer_singer", "costs": [[0.0, 1.0], [3.0, 0.0]]}],
        "pos_label": [{"pos_label": "no"}],
        "smoothing": [{"loss": "smooth_hinge", "smoothing": 2.0}],
        "nu": [{"loss": "nu_hinge", "nu": 0.3}],
        "clip": [{"loss": "ramp", "clip": 1.5}],
        "beta": [{"loss": "f_beta", "beta": 2.0}],
        "k": [{"loss": "precision_at_k", "k": 10}],
    },
    cp.LinearRegressor: {
        **HOW, **STARTS, **SHARED, **BOUNDED,
        "loss": [{"loss": "absolute"}],
        "quantile": [{"loss": "quantile", "quantile": 0.9}],
        "epsilon": [{"loss": "epsilon_insensitive", "epsilon": 1.0}],
        "nu": [{"loss": "nu_insensitive", "nu": 0.3}],
        "delta": [{"loss": "huber", "delta": 0.2}],
        "clip": [{"loss": "clipped_absolute", "clip": 1.0}],
        "width": [{"loss": "tukey", "width": 2.0}],
    },
    cp.LinearRanker: {
        **HOW, **SHARED,
        "loss": [{"loss": "ndcg"}],
        "k": [{"loss": "ndcg", "k": 2}],
        "per": [{"per": "pair"}],
        "pair_weights": [{"pair_weights": "gains"}],
    },
}  # fmt: skip
ONE_MACHINE = "one machine"


def lazily(array, rows=150):
    return da.from_array(np.asarray(array), chunks=(rows, *np.shape(array)[1:]))


def both(of, options, y, **more):
    """Return what a fit here and one on the cluster end with: a model, or an error."""
    found = []
    for form in (np.asarray, lazily):
        data = {name: form(value) for name, value in {"X": X, "y": y, **more}.items()}
        try:
            found.append(of(**{"tol": 1e-7, "lam": 0.01} | options).fit(**data))
        except Exception as error:
            found.append(error)
    return found


def assert_alike(here, there):
    if isinstance(there, Exception) and ONE_MACHINE in str(there):
        return
    if isinstance(here, Exception) or isinstance(there, Exception):
        assert (type(here), str(here)) == (type(there), str(there))
        return
    assert there.lam_ == pytest.approx(here.lam_, rel=1e-12)
    if hasattr(here, "classes_"):
        assert there.classes_.tolist() == here.classes_.tolist()
    assert hasattr(there, "scores_") == hasattr(here, "scores_")
    certificates = [model.certificate_ for model in (here, there)]
    if not isinstance(certificates[0], list):
        certificates = [[one] for one in certificates]
    for one, other in zip(*certificates, strict=True):
        # Both intervals have the optimum of one and the same problem.
        assert one.lower_bound <= other.objective
        assert other.lower_bound <= one.objective


@pytest.mark.slow  # some fifty fits on a cluster: minutes where others work too
@pytest.mark.parametrize("of", SETTINGS)
def test_every_parameter_is_honored_or_refused(client, of):
    assert set(SETTINGS[of]) == set(defaults_of(of))
    more = {"qid": QID} if of is cp.LinearRanker else {}
    weights = np.ceil((QID % 3) + 1.0) if of is cp.LinearRanker else WEIGHTS
    for settings in filter(None, SETTINGS[of].values()):
        for options in settings:
            strength = {"lam": None} if "C" in options else {}
            assert_alike(*both(of, strength | options, TARGETS[of], sample_weight=weights, **more))


@pytest.mark.parametrize(
    "class_weight", ["ballanced", [1.0, 2.0], {7: 2.0}, {0: -1.0}, {0: 3.0}, "balanced"], ids=str
)
def test_weights_of_classes_are_the_same_everywhere(client, class_weight):
    weights = np.where(THREE == 2, 0.0, WEIGHTS)  # a class without any weight
    options = {"class_weight": class_weight, "C": 0.01, "lam": None}
    assert_alike(*both(cp.LinearClassifier, options, THREE, sample_weight=weights))


@pytest.mark.parametrize("options", [{}, {"pos_label": 1}, {"costs": np.ones((3, 3)) - np.eye(3)}])
def test_a_class_without_weight_is_no_class(client, options):
    if "costs" in options:
        options = options | {"multi_class": "crammer_singer"}
    weights = np.where(THREE == 2, 0.0, WEIGHTS)
    assert_alike(*both(cp.LinearClassifier, options, THREE, sample_weight=weights))


@pytest.mark.parametrize(
    "of",
    [of for of in ESTIMATORS.values() if issubclass(of, LinearModel)],
    ids=lambda of: of.__name__,
)
def test_estimators_without_collections_say_what_to_do(of):
    if takes_collections(of):
        assert of in SETTINGS
        return
    examples, y, _ = data_for(of)
    with pytest.raises(TypeError, match=f"^{of.__name__} takes no Dask collections: .*") as raised:
        made(of).fit(lazily(examples), y if y is None else lazily(y))
    like = of.description.becomes
    if like in {taking.__name__ for taking in SETTINGS}:
        assert f"{like}(lam='cv')" in str(raised.value)
    else:
        assert "X.compute()" in str(raised.value)


def test_collections_that_cannot_be_cut_into_folds_are_refused():
    dd = pytest.importorskip("dask.dataframe")
    frame = dd.from_dask_array(lazily(X))
    model = cp.LinearClassifier(lam="cv")
    with pytest.raises(TypeError, match=r"X, a DataFrame, into folds; give X.to_dask_array"):
        model.fit(frame, lazily(TWO))
    with pytest.raises(TypeError, match=r"y, a Series, into folds; give y.to_dask_array"):
        model.fit(lazily(X), dd.from_dask_array(lazily(TWO)))
    unknown = lazily(X)[lazily(SCORES) > 0.0]
    with pytest.raises(TypeError, match=r"lengths of the chunks: X.compute_chunk_sizes"):
        model.fit(unknown, unknown[:, 0])
    bag = db.from_sequence([[["a"], ["b"]]] * 10, npartitions=2)
    with pytest.raises(TypeError, match="X, a Bag, into folds; give a list of sequences"):
        cp.SequenceTagger(lam="cv").fit(bag, bag)
