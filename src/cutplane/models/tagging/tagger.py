"""Labels for the tokens of sequences: linear chains with a certificate."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from copy import copy
from dataclasses import field
from itertools import pairwise
from numbers import Integral
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from sklearn.feature_extraction import DictVectorizer
from sklearn.utils import check_scalar
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from cutplane.compute.arrays import Vector, is_dask, require_in_memory
from cutplane.data import as_rows, ordered_scores
from cutplane.estimators.callbacks import Attributes
from cutplane.estimators.cautions import rows_are_equal, warn_of_unused
from cutplane.estimators.description import (
    Description,
    Measures,
    Reads,
    Targets,
    check_parameters,
    is_crf,
    lam_of,
    look_up,
    threads_of,
    weights_of,
)
from cutplane.estimators.estimator import Estimator, estimator, for_collections
from cutplane.estimators.fit import Examples, Plan, ScaledRegularizer, fit_plan, fitting
from cutplane.estimators.linear import (
    PENALTIES,
    densify,
    penalty_regularizer,
    sparsify,
    why_unused,
    without_zeros,
)
from cutplane.models.sequences.chain import Chains, ChainScores, n_best
from cutplane.models.structured import ChainCRF, ChainLoss, ChainMargin
from cutplane.models.tagging.templates import TemplateVectorizer, parse_templates
from cutplane.models.tagging.tokens import Tokens, numbered, read_labels, read_tokens
from cutplane.risks import ChainRisk
from cutplane.solvers.registry import STRUCTURED_METHODS

if TYPE_CHECKING:
    from cutplane.models.networks.neural_features import Begun


@for_collections
def by_sequences(model: Any, method: str, X: Any, n: Any = None, *, lengths: Any = None) -> Any:
    """Let a method of predictions return a bag for a bag of sequences, part by part."""
    if lengths is not None:
        raise ValueError("a bag has sequences of its own: it takes no lengths")
    from cutplane.cluster.collections import predicted_sequences

    return predicted_sequences(model, method, X, () if n is None else (n,))


def _places(names: Sequence[Hashable], known: Sequence[Hashable]) -> NDArray[np.int64]:
    """Return the place of each name among those that are known, -1 if it is not."""
    place_of = {name: place for place, name in enumerate(known)}
    return np.array([place_of.get(name, -1) for name in names], dtype=np.int64)


class RankedLabels(NamedTuple):
    """Labels of a sequence, and how good they are.

    Attributes
    ----------
    labels : ndarray of shape (n_tokens,)
    score : float
    log_probability : float or None
        The logarithm of the probability of these labels given the sequence, if the loss is "crf".
    """

    labels: NDArray[Any]
    score: float
    log_probability: float | None


LOSSES: dict[str, type[ChainLoss]] = {"crf": ChainCRF, "margin": ChainMargin}
"""From a name to the loss of a sequence."""

PAIRS = {"auto": None, "all": False, "observed": True}
"""From a name to whether only pairs of feature and label that occur together have a weight; None
if that depends on whether features have names."""

MEANS = {"sequence": False, "token": True}
"""From a name to whether the mean loss is that of a token."""


@estimator
class SequenceTagger(Estimator):
    """Linear chain that labels the tokens of sequences, and proves how good the fit is.

    It minimizes ``lam/2 |w|^2 + mean loss of a sequence``, or with another penalty a sparse model's
    objective (CRFsuite's ``c1`` and ``c2``). A sequence of labels scores the sum of
    its labels' scores (linear in the tokens' features, or in what a network makes of them), of its
    transitions from label to label and, if wanted, of the weights of its first and its last label.

    Parameters
    ----------
    loss : {"crf", "margin"}, default="crf"
        "crf" is a conditional random field, which also knows probabilities. "margin" is a
        max-margin Markov network, also known as structural support vector machine: right labels
        shall score more than others, by one for each mistake of these.
    C : float, optional
        In place of ``lam``: ``lam = 1 / (C * n_sequences)``, or with weights ``1 / (C * (their
        sum))``.
    penalty : {"l2", "l1", "elasticnet"}, default="l2"
        What ``lam`` is the strength of: ``|w|^2 / 2``; ``|w|_1``, which makes most weights exactly
        zero; or "elasticnet", ``l1_ratio * |w|_1 + (1 - l1_ratio) * |w|^2 / 2``. CRFsuite's ``c1``
        and ``c2`` are ``lam = (c1 + 2 c2) / n_sequences`` and ``l1_ratio = c1 / (c1 + 2 c2)``.
    l1_ratio : float, default=0.5
        Share of the absolute values in "elasticnet", from 0 to 1.
    fit_ends : bool, default=True
        Whether labels have weights at the start and at the end of a sequence.
    pairs : {"auto", "all", "observed"}, default="auto"
        Which pairs of feature and label have a weight: all, or those that occur together in the
        data of a fit. The latter takes a fraction of the memory where features are many and rare,
        such as words. "auto" is "observed" where features have names (tokens that are
        dictionaries, strings, or columns with templates), and "all" for matrices.
    templates : str, optional
        For tokens that are lists of columns (such as word and part of speech): templates that make
        features of them, as a text in the format of CRF++, or "words" or "chunking", which come
        with cutplane. See `cutplane.models.tagging.templates`.
    min_count : int, default=1
        Features with names that fewer tokens have are left out.
    mean : {"sequence", "token"}, default="sequence"
        Whether the loss of all sequences is divided by their number, or by that of their tokens
        (both weighted).
    features : NeuralFeatures or torch.nn.Module, optional
        A network that makes features of tokens, fitted together with the chain: see
        `cutplane.NeuralFeatures` and docs/your-own-network.md. The regularizer is then
        ``lam/2 |w - w0|^2``, with the network's own weights for w0, and nothing is proven: a fit
        ends as "stationary". A module of your own maps a matrix of tokens to one with as many
        rows; it is copied, and the copy is fitted.
    method : str or Method, default="auto"
        How to minimize. "auto" is "quasi-newton" for the crf, and for the margin "block-ascent",
        or "grouped" if the data are few; with sparse weights "sparse-quasi-newton" for the crf and
        "bmrm-line-search" for the margin. Each of the first two is for its loss only; "bmrm",
        "level" and others are for both. With a network, "auto" is "quasi-newton" for the crf and
        "nrbm" for the margin; ``cp.nbm()`` is another method for what is not convex.
    warm_start : bool, default=False
        Start at the weights of the last fit, as far as labels and features are the same.

    Attributes
    ----------
    classes_ : ndarray of shape (n_labels,)
        The labels.
    coef_ : ndarray of shape (n_labels, n_features)
        A sparse array for observed pairs. On a network, one column for each of its outputs.
    transitions_ : ndarray of shape (n_labels, n_labels)
        From a label (row) to the next one (column).
    start_, end_ : ndarray of shape (n_labels,)
        Of the first and the last label; zero if ``fit_ends`` is false.
    vectorizer_ : DictVectorizer, TemplateVectorizer or None
        What made a matrix of tokens with named features, or with columns. It knows their names:
        ``feature_names_``.
    state_features_, transition_features_ : dict
        Weights by name, from feature and label (those that are not zero), and from label and next
        label. Computed when asked for.
    network_ : torch.nn.Module or None
        The fitted network below ``coef_``.
    pretraining_ : list of lists of Epoch
        For each layer of `NeuralFeatures`, what was seen after each epoch of pre-training:
        ``reconstruction_error``, ``free_energy`` and ``noise_free_energy``.
    inferences_ : int
        Dynamic programs on a sequence.
    n_features_in_ : int

    Examples
    --------
    >>> import cutplane as cp
    >>> X = [[["the"], ["cat"], ["sleeps"]], [["the"], ["dog"], ["barks"]], [["dogs"], ["sleep"]]]
    >>> y = [["article", "noun", "verb"], ["article", "noun", "verb"], ["noun", "verb"]]
    >>> tagger = cp.SequenceTagger(lam=0.01).fit(X, y)
    >>> [labels.tolist() for labels in tagger.predict([[["the"], ["horse"], ["barks"]]])]
    [['article', 'noun', 'verb']]
    """

    description = Description(
        task="sequences",
        reads=Reads.SEQUENCES,
        targets=Targets.TAGS,
        losses=LOSSES,
        methods=STRUCTURED_METHODS,
        measures=Measures.CHUNKS,
        saved={},
        defaults={"templates": "chunking"},  # a file in columns is nothing without
    )

    loss: str = field(default="crf", kw_only=False)
    penalty: str = "l2"
    l1_ratio: float = 0.5
    fit_ends: bool = True
    pairs: str = "auto"
    templates: str | None = None
    min_count: int = 1
    mean: str = "sequence"
    features: Any = None
    sparsify, densify = sparsify, densify

    @fitting
    def fit(self, X: Any, y: Any, *, lengths: Any = None, sample_weight: Any = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : list of sequences, or a matrix
            A sequence is a matrix with one row per token (array-like or CSR), or a list of tokens,
            each a dictionary of features as for scikit-learn's DictVectorizer or a list of strings:
            names of features, or columns if there are templates.
            A matrix holds the tokens of all sequences, concatenated. A Dask bag of sequences is
            fitted where it is, and so must ``y`` be a bag: see docs/cluster.md.
        y : list of lists of labels, or one label for each row of a matrix
        lengths : list of int, optional
            The number of tokens of each sequence, if ``X`` is one matrix or list of tokens.
        sample_weight : array-like of shape (n_sequences,), optional
            A weight of k counts as k copies of a sequence, a weight of 0 as none.

        Returns
        -------
        SequenceTagger
            Itself, fitted.
        """
        check_parameters(self)
        registries: dict[str, Mapping[str, object]]
        registries = {"loss": LOSSES, "pairs": PAIRS, "mean": MEANS, "penalty": PENALTIES}
        for name, known in registries.items():
            look_up(name, getattr(self, name), known)
        warn_of_unused(self, why_unused(self.penalty))
        if self.features is not None:
            from cutplane.models.networks.network import vector_of
            from cutplane.models.networks.neural_features import require_features

            require_features(self.features)
            if self.penalty != "l2":
                raise ValueError(f"a network goes with penalty='l2', not with {self.penalty!r}")
            warn_of_unused(self, {"pairs": "with a network"})
        if is_dask(X):
            from cutplane.models.tagging.sharded import fit_bag

            if self.features is not None:
                raise ValueError("a tagger on a network needs one machine")
            if lengths is not None:
                raise ValueError("a bag has sequences of its own: it takes no lengths")
            fit_bag(self, X, y, sample_weight)
            self.__dict__.pop("pretraining_", None)
            return self
        tokens = read_tokens(X, lengths)
        if not tokens.named:
            warn_of_unused(self, {"min_count": "on matrices of features"})
        previous = copy(self) if self.warm_start and hasattr(self, "coef_") else None
        vectorizer = self.new_vectorizer() if tokens.named else None
        tokens = self._as_matrix(tokens, vectorizer, reset=True)
        weights = np.array(weights_of(sample_weight, len(tokens.lengths)))
        metadata = {"lengths": lengths, "sample_weight": sample_weight}
        examples = Examples(X, y, weights, metadata)
        risk, classes, begun = self._risk(tokens, y, weights, named=vectorizer is not None)
        start = center = None if begun is None else begun.start
        if previous is not None and begun is None:
            start = previous.start_for(risk, classes, self._names_of_features(vectorizer))
        elif previous is not None and previous.network_ is not None:
            ends = [previous.start_, previous.end_] if self.fit_ends else []
            chain = [np.ravel(part) for part in (previous.coef_, previous.transitions_, *ends)]
            tuned = np.concatenate([vector_of(previous.network_), *chain])
            if np.array_equal(previous.classes_, classes) and len(tuned) == risk.n_parameters:
                start = tuned
        plan = Plan(
            examples=examples,
            risks=[risk],
            regularizer=self.regularizer(float(weights.sum()), center=center),
            model=lambda w, _: self.fitted(risk, w[0], classes, vectorizer, begun),
            starts=[start],
            symptom=lambda seen, result: self._symptom(tokens),
        )
        fit_plan(self, plan)
        self.inferences_ = risk.inferences
        self.__dict__.pop("pretraining_", None)
        if begun is not None:
            self.pretraining_ = begun.pretraining
        return self

    def start_for(
        self, risk: ChainRisk, classes: NDArray[Any], names: Sequence[Hashable] | None
    ) -> Vector | None:
        """Return the fitted weights as parameters of a risk with other labels and features.

        They are zero where these are new. None if it is not known which features are the same.
        """
        own_names, n_features = self._names_of_features(self.vectorizer_), self.coef_.shape[1]
        columns = np.arange(n_features)
        if names is not None and own_names is not None:
            columns = _places(names, own_names)
        elif names is not own_names or n_features != risk.n_features or self.network_ is not None:
            return None
        rows = _places(classes.tolist(), self.classes_.tolist())
        w = np.zeros(risk.n_parameters)
        # Which pair a weight belongs to, the risk tells of weights that are their own numbers.
        numbers = np.arange(1.0, risk.pairs.n_parameters + 1.0)
        pairs = scipy.sparse.coo_array(risk.pairs.as_matrix(numbers))
        row, column = rows[pairs.row], columns[pairs.col]
        known = (row >= 0) & (column >= 0)
        places = pairs.data[known].astype(np.int64) - 1
        w[places] = np.ravel(self.coef_[row[known], column[known]])
        _, transitions, start, end = risk.parts(w)  # views of w
        new = np.flatnonzero(rows >= 0)
        transitions[np.ix_(new, new)] = self.transitions_[np.ix_(rows[new], rows[new])]
        start[new], end[new] = self.start_[rows[new]], self.end_[rows[new]]
        return w

    @staticmethod
    def fitted(
        risk: ChainRisk, w: Vector, classes: NDArray[Any], vectorizer: Any, begun: Begun | None
    ) -> Attributes:
        """Return what a fit to a risk with these parameters leaves behind."""
        coef, transitions, start, end = risk.parts(w)
        if begun is None:
            network, coef = None, without_zeros(risk.pairs.as_matrix(coef))
        else:
            network, coef = begun.fitted(w)
        return {
            "classes_": classes,
            "coef_": coef,
            "transitions_": transitions,
            "start_": start,
            "end_": end,
            "vectorizer_": vectorizer,
            "network_": network,
        }

    def regularizer(
        self, total_weight: float, *, center: Vector | None = None
    ) -> ScaledRegularizer:
        """Return the regularizer that the parameters describe."""
        lam = lam_of(self.lam, self.C, total_weight)
        return penalty_regularizer(self.penalty, self.l1_ratio, lam, center=center)

    def _symptom(self, tokens: Tokens) -> str | None:
        """Return in which way the model is constant, as far as some of the sequences tell."""
        some = tokens.some(200)
        if len(self.classes_) < 2 or some.lengths.sum() < 2:
            return None
        chains, scores = self._scores(some)
        said = np.unique(chains.best(scores))
        if len(said) > 1 or rows_are_equal(as_rows(some.X)):
            return None
        label = self.classes_[said[0]]
        of = f"{len(some.lengths)} training sequences"
        return f"the best model gives all tokens of {of} the label {label!s}"

    def _risk(
        self, tokens: Tokens, y: Any, weights: Vector, *, named: bool
    ) -> tuple[ChainRisk, NDArray[Any], Begun | None]:
        """Return the risk, the labels that its numbers stand for, and the network to be fitted."""
        counted = np.repeat(weights > 0.0, tokens.lengths)
        classes, numbers = numbered(read_labels(y, tokens), counted)
        if len(classes) == 0:
            raise ValueError("there is no token that counts: all sequences are empty or weigh 0")
        n_threads = threads_of(self.n_jobs)
        begun = None
        if self.features is not None:
            from cutplane.models.networks.neural_features import begin

            n_rest = len(classes) * (len(classes) + 2 * self.fit_ends)
            begun = begin(self.features, tokens.X, len(classes), n_rest, n_threads)
        observed = PAIRS[self.pairs]
        risk = ChainRisk(
            tokens.X if begun is None else begun.scores,
            numbers,
            tokens.offsets,
            LOSSES[self.loss](),
            n_labels=len(classes),
            ends=self.fit_ends,
            observed_only=named if observed is None else observed,
            weights=weights,
            per_token=MEANS[self.mean],
            n_threads=n_threads,
        )
        return risk, classes, begun

    def new_vectorizer(self) -> DictVectorizer | TemplateVectorizer:
        """Return what will make a matrix of tokens with named features, or with columns."""
        if self.templates is None:
            return DictVectorizer()
        return TemplateVectorizer(parse_templates(self.templates), min_count=self.min_count)

    @by_sequences
    def predict(self, X: Any, *, lengths: Any = None) -> Any:
        """Return the best labels of each sequence; a Dask bag for a bag of sequences.

        Returns
        -------
        list of ndarray, or one ndarray if ``X`` came as one matrix with ``lengths``
        """
        tokens, chains, scores = self._scored(X, lengths)
        return tokens.like_input(self.classes_[chains.best(scores)])

    @by_sequences
    def predict_n_best(self, X: Any, n: int, *, lengths: Any = None) -> list[list[RankedLabels]]:
        """Return the ``n`` best sequences of labels of each sequence, the best first.

        There are fewer if there are no more; an empty sequence has one. Of those that score the
        same, the one comes first whose label is the earlier one of ``classes_`` where they differ
        last.

        Returns
        -------
        list of lists of RankedLabels
            With the attributes ``labels``, ``score`` and, for the loss "crf", ``log_probability``.
        """
        check_scalar(n, "n", Integral, min_val=1)
        _, chains, scores = self._scored(X, lengths)
        found = n_best(chains, scores, int(n))
        if not (np.isfinite(scores.emissions).all() and np.isfinite(found.top_scores).all()):
            raise ValueError("the scores overflow: are the features on the scale of the fit?")
        logs: list[Any] = [None] * chains.n_sequences
        if self.loss == "crf":
            logs = ChainCRF().log_probabilities(chains, scores, found.labels[0]).tolist()
        return [
            [
                RankedLabels(
                    self.classes_[found.labels[k, begin:end]],
                    top - less,
                    None if log is None else log - less,
                )
                for k, less in enumerate(found.behind[i, : found.counts[i]].tolist())
            ]
            for i, ((begin, end), top, log) in enumerate(
                zip(pairwise(chains.offsets), found.top_scores.tolist(), logs, strict=True)
            )
        ]

    @available_if(is_crf)
    @by_sequences
    def predict_marginals(self, X: Any, *, lengths: Any = None) -> Any:
        """Return the probability of each label of each token, given all of the sequence.

        Returns
        -------
        list of ndarray of shape (n_tokens, n_labels), or one ndarray if ``X`` came as one matrix
        """
        tokens, chains, scores = self._scored(X, lengths)
        return tokens.like_input(ChainCRF().marginals(chains, scores))

    def score(self, X: Any, y: Any, *, lengths: Any = None, sample_weight: Any = None) -> float:
        """Return the share of tokens whose label is right, with the weights of their sequences."""
        require_in_memory("SequenceTagger.score", X, "cp.evaluate takes bags")
        tokens, chains, scores = self._scored(X, lengths)
        labels = read_labels(y, tokens)
        if len(labels) == 0:
            raise ValueError("there is no token to score")
        return tokens.share_of(self.classes_[chains.best(scores)] == labels, sample_weight)

    @property
    def state_features_(self) -> dict[tuple[Any, Any], float]:
        """The weights other than zero, from feature (its number if it has no name) and label.

        On a network, features are its outputs, by their numbers.
        """
        coef, labels = scipy.sparse.coo_array(self.coef_), self.classes_.tolist()
        names = self._names_of_features(self.vectorizer_) if self.network_ is None else None
        names = range(coef.shape[1]) if names is None else names
        entries = zip(coef.row.tolist(), coef.col.tolist(), coef.data.tolist(), strict=True)
        return {(names[j], labels[k]): weight for k, j, weight in entries if weight}

    @property
    def transition_features_(self) -> dict[tuple[Any, Any], float]:
        """The weights of transitions, from label and next label."""
        labels = self.classes_.tolist()
        return {
            (before, after): weight
            for before, row in zip(labels, self.transitions_.tolist(), strict=True)
            for after, weight in zip(labels, row, strict=True)
        }

    def _names_of_features(self, vectorizer: Any) -> Any:
        if vectorizer is not None:
            return vectorizer.feature_names_
        return getattr(self, "feature_names_in_", None)

    def _scored(self, X: Any, lengths: Any) -> tuple[Tokens, Chains, ChainScores]:
        """Return the tokens of a user's sequences, and their scores."""
        check_is_fitted(self)
        tokens = self._as_matrix(read_tokens(X, lengths), self.vectorizer_, reset=False)
        return tokens, *self._scores(tokens)

    def _as_matrix(self, tokens: Tokens, vectorizer: Any, *, reset: bool) -> Tokens:
        """Return tokens as rows of a matrix that was found to be fit for use."""
        if len(tokens.X if tokens.named else tokens.lengths) == 0 or tokens.lengths.sum() == 0:
            if reset:
                raise ValueError("there is no token to learn from: all sequences are empty")
            return tokens._replace(X=np.empty((0, self.n_features_in_)))
        if tokens.named:
            if vectorizer is None:
                raise ValueError("the model was fitted to matrices, these tokens have names")
            tokens = tokens.vectorized(vectorizer, fit=reset, min_count=self.min_count)
        elif self.templates is not None and reset:
            raise ValueError("templates need tokens that are lists of columns, these are matrices")
        elif vectorizer is not None and not scipy.sparse.issparse(tokens.X):
            # Sparse ones may come from the vectorizer itself.
            raise ValueError("the model was fitted to tokens with names, these are matrices")
        X = validate_data(
            self, tokens.X, accept_sparse="csr", dtype=(np.float64, np.float32), reset=reset
        )
        return tokens._replace(X=X)

    def _scores(self, tokens: Tokens) -> tuple[Chains, ChainScores]:
        n_threads = threads_of(self.n_jobs)
        chains = Chains(tokens.offsets, len(self.classes_), n_threads=n_threads)
        coef: Any = self.coef_
        if self.network_ is not None:
            from cutplane.models.networks.neural_features import scores_of

            dense = coef.toarray() if scipy.sparse.issparse(coef) else coef
            emissions = scores_of(self.features, self.network_, dense, tokens.X, n_threads)
        elif isinstance(coef, np.ndarray):
            emissions = ordered_scores(tokens.X, coef, n_threads=n_threads)
        else:
            emissions = scipy.sparse.csr_array(tokens.X).dot(coef.T).toarray()
        return chains, ChainScores(emissions, self.transitions_, self.start_, self.end_)
