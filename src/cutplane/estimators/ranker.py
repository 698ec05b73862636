"""Linear ranking with a certificate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple, Self, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_array, check_consistent_length, check_is_fitted

from cutplane.compute.arrays import Matrix, Vector
from cutplane.estimators.description import Description, Measures, Reads, Targets
from cutplane.estimators.linear import STRENGTH, Examples, LinearModel
from cutplane.estimators.sklearn_callbacks import Attributes, with_callbacks
from cutplane.losses import RANKING, RankingLoss
from cutplane.losses.ranking.queries import Queries
from cutplane.maps import as_rows
from cutplane.metrics.ranking import Rankings, mean_of_defined
from cutplane.risks import LinearRisk


class _Judgements(NamedTuple):
    """The relevance of documents, and the query that each belongs to."""

    y: Any
    qid: Any


class _RankingProblem(NamedTuple):
    """The one problem of a ranker."""

    weights: Vector
    targets: Matrix
    queries: Queries


class LinearRanker(LinearModel):
    """Linear ranking that minimizes ``lam/2 |w|^2 + mean loss``, and proves how close it came.

    Documents compete within queries: scores of different queries are never compared.

    Parameters
    ----------
    loss : str or RankingLoss, default="pairwise"
        "pairwise", the hinge loss of pairs of documents; "ndcg", a bound on 1 - NDCG@k by pairs
        with larger margins at the top; or "ndcg_list", one by whole rankings, which is useless
        (``w = 0``) where relevant documents are hard to tell from many others.
    lam : float, optional
        Strength of the regularizer; 1e-4 unless ``C`` is given.
    C : float, optional
        The same in scikit-learn's terms: ``lam = 1 / (C * n_documents)``.
    k : int, default=10
        How many positions count for the losses "ndcg" and "ndcg_list", and for `score`.
    per : {"query", "pair"}, default="query"
        What the loss "pairwise" is a mean over: queries, or all pairs.
    pair_weights : {"equal", "grades", "gains"}, default="equal"
        What a pair counts in the loss "pairwise": 1, the difference of relevance, or of
        ``2^relevance``.
    tol : float, default=1e-3
        The relative gap between objective and lower bound that is promised.
    max_iter : int or None, default=1000
        Limit on iterations.
    time_limit : float, optional
        Limit on seconds for the whole fit.
    method : str or Method, default="auto"
        How to minimize. "auto" takes a bundle method with a line search; "bmrm",
        "bmrm-line-search", "limited-memory", "proximal", "trust-region" and "level" choose by name.
    warm_start : bool, default=False
        Start from the coefficients of the previous fit.
    verbose : int, default=0
        Print the progress if positive.
    n_jobs : int, optional
        Number of threads; all cores by default (results do not depend on it).
    callbacks : sequence of callables, default=()
        Each is called with the solver's `State` after every iteration; one that returns true ends
        the fit with the best model so far.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
    certificate_ : Certificate
        Objective, lower bound, gap and status.
    history_ : list of Record
        The bounds after every iteration.
    n_queries_ : int
        Number of queries in the training data.
    n_iter_ : int
    evaluations_ : int
        Evaluations of the risk.
    fit_seconds_ : float
    lam_ : float
        The strength that was used.
    n_features_in_ : int
    feature_names_in_ : ndarray
        Only if the training data had feature names.

    Examples
    --------
    >>> import numpy as np
    >>> import cutplane as cp
    >>> X = np.array([[3.0], [1.0], [2.0], [5.0], [4.0]])
    >>> y = np.array([2, 0, 1, 1, 0])
    >>> qid = np.array([1, 1, 1, 2, 2])
    >>> model = cp.LinearRanker(lam=0.01).fit(X, y, qid=qid)
    >>> model.score(X, y, qid=qid)
    1.0
    """

    _task = "ranking"
    description = Description(
        task="ranking",
        reads=Reads.QUERIES,
        targets=Targets.RELEVANCE,
        losses=RANKING,
        measures=Measures.RANKING,
        saved=STRENGTH,
    )
    # Asked for by default: a search or a cross-validation that routes metadata passes them on.
    __metadata_request__fit: ClassVar[dict[str, bool]] = {"qid": True}
    __metadata_request__score: ClassVar[dict[str, bool]] = {"qid": True}

    def __init__(
        self,
        loss: Any = "pairwise",
        *,
        lam: float | None = None,
        C: float | None = None,
        k: int = 10,
        per: str = "query",
        pair_weights: str = "equal",
        tol: float = 1e-3,
        max_iter: int | None = 1000,
        time_limit: float | None = None,
        method: Any = "auto",
        warm_start: bool = False,
        verbose: int = 0,
        n_jobs: int | None = None,
        callbacks: Any = (),
    ) -> None:
        self.loss = loss
        self.lam = lam
        self.C = C
        self.k = k
        self.per = per
        self.pair_weights = pair_weights
        self.tol = tol
        self.max_iter = max_iter
        self.time_limit = time_limit
        self.method = method
        self.warm_start = warm_start
        self.verbose = verbose
        self.n_jobs = n_jobs
        self.callbacks = callbacks

    @with_callbacks
    def fit(self, X: Any, y: Any, *, qid: Any = None, sample_weight: Any = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_documents, n_features)
            Dense data in C or F order and CSR matrices, in float32 or float64, are used as they
            are.
        y : array-like of shape (n_documents,)
            Relevance: the larger, the better. Only its order matters within a query, unless gains
            are computed from it.
        qid : array-like of shape (n_documents,), optional
            The query of each document, numbers or words in any order. Without it, all documents
            are of one query.
        sample_weight : array-like of shape (n_documents,), optional
            Weights of the queries: all documents of a query must have the same. A query of weight
            k counts as k queries.

        Returns
        -------
        LinearRanker
            The fitted estimator.
        """
        return self._solve(X, _Judgements(y, qid), sample_weight)

    def predict(self, X: Any) -> Any:
        """Return the score of each document; those of a query are ranked by it, highest first."""
        check_is_fitted(self)
        return self._scores(X)[:, 0]

    def score(self, X: Any, y: Any, *, qid: Any = None, sample_weight: Any = None) -> float:
        """Return the mean of NDCG@k over queries that have a relevant document.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_documents, n_features)
            Features.
        y : array-like of shape (n_documents,)
            Relevance, not negative; the gain is ``2^relevance - 1``.
        qid : array-like of shape (n_documents,)
            The query of each document. It may be left out only if it was for `fit`.
        sample_weight : array-like of shape (n_documents,), optional
            Weights of the queries, as for `fit`.

        Returns
        -------
        float
            NDCG with ``k`` as the estimator has it.
        """
        scores = self.predict(X)
        if qid is None and getattr(self, "n_queries_", None) != 1:  # unknown in a loaded model
            raise ValueError(
                "score needs qid, as the fit had it; in a search or a cross-validation, "
                "sklearn.set_config(enable_metadata_routing=True) passes it on"
            )
        y = check_array(y, ensure_2d=False, dtype=np.float64, input_name="y")
        check_consistent_length(scores, y, sample_weight)
        queries = _queries(qid, len(y))
        weights = None if sample_weight is None else queries.weights_of(np.asarray(sample_weight))
        mean = mean_of_defined(Rankings(y, scores, queries).ndcg(self.k), weights)
        if mean is None:
            raise ValueError("NDCG is not defined: no query has a relevant document")
        return mean

    def _unused(self) -> dict[str, str]:
        unused = super()._unused()
        unused.pop("k", None)  # `score` has a use for it
        return unused

    def _advice(self) -> str:
        return "try loss='pairwise'" if self.loss == "ndcg" else "try a smaller lam"

    def _examples(self, X: Any, y: _Judgements, sample_weight: Any) -> Examples:
        if self.k < 1 or self.k != int(self.k):
            raise ValueError(f"k must be a positive whole number, got {self.k}")
        X, relevance, weights = super()._examples(X, y.y, sample_weight)
        if X.shape[0] == 1:
            raise ValueError("nothing to rank: there is only 1 sample")
        queries = _queries(y.qid, X.shape[0])
        return Examples(X, _Judgements(np.asarray(relevance, dtype=np.float64), queries), weights)

    def _problems(self, y: _Judgements, weights: Vector) -> _RankingProblem:  # type: ignore[override]
        return _RankingProblem(weights, y.y[None, :], y.qid)

    def _risks(self, X: Any, problems: _RankingProblem) -> Sequence[LinearRisk]:  # type: ignore[override]
        self.n_queries_ = len(problems.queries)
        loss = cast(RankingLoss, self.loss_function()).for_queries(problems.queries)
        rows, y = as_rows(X, n_threads=self._n_threads()), problems.targets[0]
        risk = LinearRisk(rows, y, loss, weights=problems.weights, intercept=False)
        loss.check_judgements(risk.y, risk.weights)
        return [risk]

    def _seen_by_callbacks(self, y: _Judgements, sample_weight: Any) -> dict[str, Any]:
        metadata = {"qid": y.qid.names[y.qid.numbers], "sample_weight": sample_weight}
        return {"y": y.y, "metadata": metadata}

    def _model(self, coef: Matrix, intercept: Vector) -> Attributes:
        return {"coef_": coef[0], "intercept_": 0.0, "n_queries_": self.n_queries_}


def _queries(qid: Any, n_documents: int) -> Queries:
    """Validate the queries of documents; None is one query for all."""
    if qid is None:
        return Queries.one(n_documents)
    qid = np.asarray(qid)
    if (missing := _is_missing(qid)).any():
        raise ValueError(f"qid has a missing value in row {int(missing.ravel().argmax())}")
    queries = Queries(qid)
    if len(queries.numbers) != n_documents:
        raise ValueError(f"qid has {len(queries.numbers)} entries, X has {n_documents} rows")
    return queries


def _is_missing(qid: NDArray[Any]) -> NDArray[np.bool_]:
    """Say which values are NaN, None or pandas' NA."""
    if qid.dtype.kind != "O":
        return np.asarray(qid != qid)
    return np.array(
        [name is None or type(name).__name__ == "NAType" or name != name for name in qid.ravel()],
        dtype=bool,
    )
