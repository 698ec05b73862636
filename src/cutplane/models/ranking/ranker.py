"""Linear ranking with a certificate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

import numpy as np
from sklearn.utils.validation import check_array, check_consistent_length

from cutplane.compute.arrays import Matrix, Vector, is_dask
from cutplane.estimators.callbacks import Attributes
from cutplane.estimators.description import Description, Reads, Targets
from cutplane.estimators.estimator import by_parts, estimator
from cutplane.estimators.fit import Examples, Plan, fit_plan, fitting
from cutplane.estimators.linear import Penalized
from cutplane.losses import RANKING, RankingLoss
from cutplane.models.ranking.loss import Queries, is_missing
from cutplane.models.ranking.quality import Rankings, mean_of_defined
from cutplane.risks import ScoredRisk

if TYPE_CHECKING:
    from cutplane.cluster.risk import ShardedRisk


@estimator
class LinearRanker(Penalized):
    """Linear ranking that minimizes ``lam/2 |w|^2 + mean loss``, and proves how close it came.

    Documents compete within queries: scores of different queries are never compared.

    Parameters
    ----------
    loss : str or RankingLoss, default="pairwise"
        "pairwise", the hinge loss of pairs of documents; "ndcg", a bound on 1 - NDCG@k by pairs
        with larger margins at the top; or "ndcg_list", one by whole rankings, which is useless
        (``w = 0``) where relevant documents are hard to tell from many others.
    k : int, default=10
        How many positions count for the losses "ndcg" and "ndcg_list", and for `score`.
    per : {"query", "pair"}, default="query"
        What the loss "pairwise" is a mean over: queries, or all pairs.
    pair_weights : {"equal", "grades", "gains"}, default="equal"
        What a pair counts in the loss "pairwise": 1, the difference of relevance, or of
        ``2^relevance``.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
    n_queries_ : int
        Number of queries in the training data.

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

    description = Description(
        task="ranking",
        reads=Reads.QUERIES,
        targets=Targets.RELEVANCE,
        losses=RANKING,
    )
    # Asked for by default: a search or a cross-validation that routes metadata passes them on.
    __metadata_request__fit: ClassVar[dict[str, bool]] = {"qid": True}
    __metadata_request__score: ClassVar[dict[str, bool]] = {"qid": True}

    loss: str | RankingLoss = field(default="pairwise", kw_only=False)
    k: int = 10
    per: str = "query"
    pair_weights: str = "equal"
    no_stream = "learns from whole queries"
    positive: ClassVar[bool] = False  # type: ignore[misc]
    bounds: ClassVar[None] = None  # type: ignore[misc]
    constraints: ClassVar[None] = None  # type: ignore[misc]
    array_names = ()

    @fitting
    def fit(
        self, X: Any, y: Any, *, qid: Any = None, group: Any = None, sample_weight: Any = None
    ) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_documents, n_features)
            As for the other linear models. With a Dask array or data frame, ``y``, ``qid`` and
            ``sample_weight`` must be Dask collections too: see docs/cluster.md.
        y : array-like of shape (n_documents,)
            Relevance: the larger, the better. Only its order matters within a query, unless gains
            are computed from it.
        qid : array-like of shape (n_documents,), optional
            The query of each document, numbers or words in any order. Without it, all documents
            are of one query.
        group : array-like of shape (n_queries,), optional
            In place of ``qid``, as LightGBM has it: how many documents each query has, which
            follow each other.
        sample_weight : array-like of shape (n_documents,), optional
            Weights of the queries: all documents of a query must have the same. A query of weight
            k counts as k queries.

        Returns
        -------
        LinearRanker
            Itself, fitted.
        """
        self._check_parameters()
        if self.k < 1 or self.k != int(self.k):
            raise ValueError(f"k must be a positive whole number, got {self.k}")
        if is_dask(X):
            self._fit_queries(X, y, qid, group, sample_weight)
            return self
        examples = self._examples(X, y, sample_weight)
        n_documents = examples.X.shape[0]
        if n_documents == 1:
            raise ValueError("nothing to rank: there is only 1 sample")
        queries = _queries(_qid_of(qid, group, n_documents), n_documents)
        examples.metadata["qid"] = queries.names[queries.numbers]
        fit_plan(self, self._plan_for(examples, queries))
        return self

    def _fit_queries(self, X: Any, y: Any, qid: Any, group: Any, sample_weight: Any) -> None:
        """Fit the model to Dask collections, where their rows are."""
        if group is not None or qid is None:
            raise ValueError("Dask collections need qid, the query of each document, not group")
        from cutplane.cluster.collections import fit_collection
        from cutplane.cluster.risk import ShardedRisk, count_queries

        def risks(sample: Any, masses: Any) -> Sequence[ShardedRisk]:
            self.n_queries_ = sample.ask(count_queries)
            return [ShardedRisk(sample, self.loss_function(), intercept=False)]

        fit_collection(self, X, y, sample_weight, risks, qid=qid)

    @by_parts
    def predict(self, X: Any) -> Any:
        """Return the score of each document; those of a query are ranked by it, highest first."""
        return self._scores(X)[:, 0]

    def score(
        self, X: Any, y: Any, *, qid: Any = None, group: Any = None, sample_weight: Any = None
    ) -> float:
        """Return the mean of NDCG@k over queries that have a relevant document.

        Parameters
        ----------
        X, sample_weight
            As for `fit`.
        y : array-like of shape (n_documents,)
            Relevance, not negative; the gain is ``2^relevance - 1``.
        qid : array-like of shape (n_documents,)
            The query of each document. It may be left out only if it was for `fit`.
        group : array-like of shape (n_queries,), optional
            In place of ``qid``, as for `fit`.
        """
        scores = np.asarray(self.predict(X))
        qid = _qid_of(qid, group, len(scores))
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

    def _plan_for(self, examples: Examples, queries: Queries) -> Plan:
        rows, weights = self._rows(examples.X), examples.weights
        loss = cast(RankingLoss, self.loss_function()).for_queries(queries)
        risk = ScoredRisk(rows, examples.y, loss, weights=weights, intercept=False)
        loss.check_judgements(risk.y, risk.weights)
        self.n_queries_ = len(queries)
        return replace(
            self._plan_of(examples, [risk]),
            advice="try loss='pairwise'" if self.loss == "ndcg" else "try a smaller lam",
        )

    def _model(self, coef: Matrix, intercept: Vector) -> Attributes:
        return {"coef_": coef[0], "intercept_": 0.0, "n_queries_": self.n_queries_}


def _qid_of(qid: Any, group: Any, n_documents: int) -> Any:
    """Return the query of each document, which sizes of queries may tell."""
    if group is None:
        return qid
    if qid is not None:
        raise ValueError("give qid or group, not both: each says which query a document is of")
    sizes = np.asarray(group)
    if sizes.ndim != 1 or sizes.dtype.kind not in "iu" or (sizes < 1).any():
        raise ValueError("group must have the number of documents of each query, at least 1")
    if sizes.sum() != n_documents:
        raise ValueError(f"group has {sizes.sum()} documents in all, X has {n_documents} rows")
    return np.repeat(np.arange(len(sizes)), sizes)


def _queries(qid: Any, n_documents: int) -> Queries:
    """Validate the queries of documents; None is one query for all."""
    if qid is None:
        return Queries.one(n_documents)
    qid = np.asarray(qid)
    if (missing := is_missing(qid)).any():
        raise ValueError(f"qid has a missing value in row {int(missing.ravel().argmax())}")
    queries = Queries(qid)
    if len(queries.numbers) != n_documents:
        raise ValueError(f"qid has {len(queries.numbers)} entries, X has {n_documents} rows")
    return queries
