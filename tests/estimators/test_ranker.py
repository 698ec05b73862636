"""LinearRanker: queries in any form, scikit-learn's tools, awkward input."""

import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy.sparse import csr_array
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

import cutplane as cp
from cutplane.losses import RANKING

PER_QUERY = "weights belong to queries: documents of one query, as here, must share theirs"
EXPECTED = dict.fromkeys(
    (
        "check_sample_weights_not_overwritten",
        "check_sample_weight_equivalence_on_dense_data",
        "check_sample_weight_equivalence_on_sparse_data",
    ),
    PER_QUERY,
)


# Some checks have labels at random.
@pytest.mark.filterwarnings("ignore::cutplane.ConstantModelWarning")
@parametrize_with_checks(
    [
        cp.LinearRanker(),
        cp.LinearRanker("ndcg"),
        cp.LinearRanker("ndcg_list"),
        cp.LinearRanker(per="pair", pair_weights="gains", method="level"),
    ],
    expected_failed_checks=lambda estimator: EXPECTED,
)
def test_estimator_checks(estimator, check):
    check(estimator)


def search_results(seed=0, *, n_queries=40, n_each=12):
    """Return documents of queries whose relevance is a noisy function of the features."""
    rng = np.random.default_rng(seed)
    qid = np.repeat(np.arange(n_queries), n_each)
    X = rng.normal(size=(len(qid), 6))
    quality = X @ [2.0, -1.0, 1.0, 0.0, 0.0, 0.0] + rng.normal(size=len(qid))
    y = np.digitize(quality, [1.0, 3.0])
    # Features of the query itself do not help, and scores of different queries do not compare.
    X += 5.0 * rng.normal(size=(n_queries, 1))[qid]
    return X, y, qid


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


@pytest.mark.filterwarnings("ignore::cutplane.ConstantModelWarning")  # nothing to learn at random
@pytest.mark.parametrize("loss", RANKING)
def test_ranks_documents_it_has_not_seen(loss):
    X, y, qid = search_results(0)
    unseen = search_results(1)
    model = cp.LinearRanker(loss, lam=1e-3).fit(X, y, qid=qid)
    assert model.certificate_.status is cp.Status.OPTIMAL
    assert model.certificate_.relative_gap <= model.tol
    assert len(model.history_) == model.n_iter_
    assert model.n_queries_ == 40
    assert model.score(*unseen[:2], qid=unseen[2]) > 0.8
    rng = np.random.default_rng(0)
    shuffled = cp.LinearRanker(loss, lam=1e-3).fit(X, rng.permutation(y), qid=qid)
    assert shuffled.score(*unseen[:2], qid=unseen[2]) < 0.65


@pytest.mark.parametrize("n_grades", [2, 3])
@pytest.mark.parametrize("n_documents", [20, 150])
def test_ndcg_is_of_use_where_noise_is_strong(n_documents, n_grades):
    # Some irrelevant documents are always above the mean relevant one.
    rng = np.random.default_rng(0)
    w = np.array([1.0, -1.0, 0.5, 0.0, 0.0])
    qid = np.repeat(np.arange(200), n_documents)
    X = rng.normal(size=(len(qid), 5))
    quality = X @ w + 6.0 * rng.normal(size=len(qid))
    y = np.digitize(quality, np.quantile(quality, [0.8, 0.95][: n_grades - 1]))
    train, test = qid < 106, qid >= 106
    for lam in (1e-1, 1e-3, 1e-5):
        pairwise, ndcg = (
            cp.LinearRanker(loss, lam=lam)
            .fit(X[train], y[train], qid=qid[train])
            .score(X[test], y[test], qid=qid[test])
            for loss in ("pairwise", "ndcg")
        )
        assert ndcg > pairwise - 0.01


@pytest.mark.parametrize("loss", RANKING)
def test_order_and_names_of_queries_do_not_matter(loss):
    X, y, qid = search_results()
    model = cp.LinearRanker(loss, lam=0.01, tol=1e-6).fit(X, y, qid=qid)
    mixed = np.random.default_rng(0).permutation(len(y))
    words = [f"query {number % 7}-{number}" for number in qid[mixed]]
    again = cp.LinearRanker(loss, lam=0.01, tol=1e-6).fit(X[mixed], y[mixed], qid=words)
    assert again.certificate_.objective == pytest.approx(model.certificate_.objective, rel=1e-6)
    assert model.predict(X) == pytest.approx(again.predict(X), abs=0.05)
    score = model.score(X, y, qid=qid)
    assert model.score(X[mixed], y[mixed], qid=words) == pytest.approx(score)


@pytest.mark.parametrize("convert", [np.asfortranarray, csr_array, np.float32])
def test_layouts(convert):
    X, y, qid = search_results()
    dense = cp.LinearRanker(lam=0.1, tol=1e-6).fit(X, y, qid=qid)
    other = cp.LinearRanker(lam=0.1, tol=1e-6).fit(convert(X), y, qid=qid)
    assert other.certificate_.objective == pytest.approx(dense.certificate_.objective, rel=2e-6)


def test_pairs_as_a_support_vector_machine_sees_them():
    X, y, qid = search_results(n_queries=8, n_each=6)
    i, j = np.array(
        [(i, j) for i in range(len(y)) for j in range(len(y)) if qid[i] == qid[j] and y[i] > y[j]]
    ).T
    signs = np.where(np.arange(len(i)) % 2, 1, -1)
    lam = 0.01
    peer = LinearSVC(
        loss="hinge",
        C=1.0 / (lam * len(i)),
        fit_intercept=False,
        tol=1e-10,
        max_iter=10**6,
        random_state=0,
    ).fit(signs[:, None] * (X[i] - X[j]), signs)
    w = peer.coef_[0]
    theirs = lam / 2 * w @ w + np.maximum(0.0, 1.0 - (X[i] - X[j]) @ w).mean()
    certificate = cp.LinearRanker(lam=lam, per="pair", tol=1e-7).fit(X, y, qid=qid).certificate_
    assert certificate.lower_bound <= theirs
    assert certificate.objective == pytest.approx(theirs, rel=1e-5)


def test_weights_of_queries():
    X, y, qid = search_results(n_queries=10)
    twice = qid < 3
    weighted = cp.LinearRanker(lam=0.1, tol=1e-7).fit(X, y, qid=qid, sample_weight=1.0 + twice)
    copied = cp.LinearRanker(lam=0.1, tol=1e-7).fit(
        np.vstack([X, X[twice]]), np.append(y, y[twice]), qid=np.append(qid, qid[twice] + 100)
    )
    assert weighted.certificate_.objective == pytest.approx(copied.certificate_.objective, rel=1e-6)
    assert weighted.score(X, y, qid=qid, sample_weight=1.0 + twice) == pytest.approx(
        weighted.score(
            np.vstack([X, X[twice]]), np.append(y, y[twice]), qid=np.append(qid, qid[twice] + 100)
        )
    )
    with pytest.raises(ValueError, match="all documents of a query must have the same weight"):
        cp.LinearRanker().fit(X, y, qid=qid, sample_weight=np.arange(len(y)))


def test_cross_validation_by_query(routing):
    X, y, qid = search_results()
    found = cross_validate(
        cp.LinearRanker(lam=1e-3), X, y, cv=GroupKFold(4), params={"qid": qid, "groups": qid}
    )
    assert (found["test_score"] > 0.75).all()
    train, test = next(GroupKFold(4).split(X, y, qid))
    model = cp.LinearRanker(lam=1e-3).fit(X[train], y[train], qid=qid[train])
    assert found["test_score"][0] == model.score(X[test], y[test], qid=qid[test])


def test_search_in_a_pipeline(routing):
    X, y, qid = search_results()
    pipeline = make_pipeline(StandardScaler(), cp.LinearRanker())
    search = GridSearchCV(pipeline, {"linearranker__lam": [10.0, 1e-3]}, cv=GroupKFold(3))
    search.fit(X, y, qid=qid, groups=qid)
    assert search.best_params_ == {"linearranker__lam": 1e-3}
    assert search.score(X, y, qid=qid) > 0.8


def test_score_needs_the_queries():
    X, y, qid = search_results()
    model = cp.LinearRanker(lam=0.1).fit(X, y, qid=qid)
    with pytest.raises(ValueError, match="score needs qid, as the fit had it"):
        model.score(X, y)
    with pytest.raises(ValueError, match="no query has a relevant document"):
        model.score(X, 0 * y, qid=qid)
    with pytest.raises(ValueError, match="relevance must not be negative"):
        model.score(X, y - 5, qid=qid)


def test_k_of_the_score():
    X, y, qid = search_results()
    model = cp.LinearRanker(lam=0.1, k=1).fit(X, y, qid=qid)
    queries = [qid == query for query in np.unique(qid)]
    first = np.array([y[own][model.predict(X[own]).argmax()] for own in queries])
    best = np.array([y[own].max() for own in queries])
    gains = (2.0 ** first[best > 0] - 1.0) / (2.0 ** best[best > 0] - 1.0)
    assert model.score(X, y, qid=qid) == pytest.approx(gains.mean())


def test_without_queries_all_documents_compete():
    X, y, _ = search_results(n_queries=1, n_each=50)
    alone = cp.LinearRanker(lam=0.1).fit(X, y)
    named = cp.LinearRanker(lam=0.1).fit(X, y, qid=["only"] * 50)
    assert np.array_equal(alone.coef_, named.coef_)
    assert alone.score(X, y) == named.score(X, y, qid=["only"] * 50)


@pytest.mark.parametrize(
    ("y", "qid", "message"),
    [
        ([0, 1, 2, 3], [1, 2, 3, 4], "nothing to rank: no query has two documents"),
        ([1, 1, 0, 0], [1, 1, 2, 2], "nothing to rank: no query has two documents"),
        ([0, 1, 2, 3], [1, 1, 2], "qid has 3 entries, X has 4 rows"),
        ([0, 1, 2, 3], [[1, 1], [2, 2]], "one query a document"),
        ([0, 1, 2, np.nan], [1, 1, 2, 2], "contains NaN"),
    ],
)
@pytest.mark.parametrize("loss", RANKING)
def test_complaints(loss, y, qid, message):
    with pytest.raises(ValueError, match=message):
        cp.LinearRanker(loss).fit(np.eye(4), y, qid=qid)


def test_complaints_about_the_loss():
    X, y, qid = search_results(n_queries=2)
    with pytest.raises(ValueError, match="is a loss for classification, not ranking"):
        cp.LinearRanker(cp.Hinge()).fit(X, y, qid=qid)
    with pytest.raises(ValueError, match="unknown loss 'pairwize': did you mean 'pairwise'"):
        cp.LinearRanker("pairwize").fit(X, y, qid=qid)
    with pytest.raises(ValueError, match="must not be negative for NDCG, got -1"):
        cp.LinearRanker("ndcg").fit(X, y - 1, qid=qid)
    with pytest.raises(ValueError, match="is a loss for ranking, not regression"):
        cp.LinearRegressor(cp.PairwiseHinge()).fit(X, y)


def test_queries_that_do_not_count_are_welcome():
    # One document, or all of the same relevance: no pairs, and no harm.
    X, y, qid = search_results(n_queries=5)
    more = np.vstack([X, np.ones((4, 6))])
    objective = cp.LinearRanker(lam=0.1, tol=1e-7).fit(X, y, qid=qid).certificate_.objective
    with_more = cp.LinearRanker(lam=0.1, tol=1e-7).fit(
        more, np.append(y, [1, 2, 2, 2]), qid=np.append(qid, [90, 91, 91, 91])
    )
    assert with_more.certificate_.objective == pytest.approx(objective, rel=1e-6)


def test_threads_leave_no_trace():
    X, y, qid = search_results(n_queries=2000, n_each=40)
    coefs = [cp.LinearRanker(lam=1e-3, n_jobs=n).fit(X, y, qid=qid).coef_ for n in (1, 3)]
    assert np.array_equal(*coefs)


def test_scikit_learn_callbacks_get_the_queries():
    pytest.importorskip("sklearn.callback", reason="scikit-learn has callbacks from version 1.9 on")

    class Watch:
        def __init__(self):
            self.scores = []

        def setup(self, estimator, context):
            pass

        def teardown(self, estimator, context):
            pass

        def on_fit_task_begin(self, estimator, context):
            pass

        def on_fit_task_end(self, estimator, context, *, X, y, metadata, fitted_estimator):
            self.scores.append(fitted_estimator.score(X, y, **metadata))

    X, y, qid = search_results(n_queries=3)
    watch = Watch()
    model = cp.LinearRanker(lam=0.1).set_callbacks(watch).fit(X, y, qid=qid)
    assert len(watch.scores) == model.n_iter_ + 1
    assert watch.scores[-1] == model.score(X, y, qid=qid)


@pytest.mark.parametrize("missing", [np.nan, None, pd.NA, pd.NaT])
def test_documents_without_a_query_are_refused(missing):
    X, y, qid = search_results()
    names = qid.astype(object)
    names[5] = missing
    for given in (names, list(names), pd.Series(names)):
        with pytest.raises(ValueError, match="qid has a missing value in row 5"):
            cp.LinearRanker(lam=0.1).fit(X, y, qid=given)
    model = cp.LinearRanker(lam=0.1).fit(X, y, qid=qid)
    numbers = qid.astype(float)
    numbers[7] = np.nan
    with pytest.raises(ValueError, match="qid has a missing value in row 7"):
        model.score(X, y, qid=numbers)
