"""A network below a tagger: features that are learned with the chain (paper 004, section 5.6).

    scores of a token's labels = coef features(x),     features: sigmoid layers, or a user's module

The fit minimizes ``lam/2 |w - w0|^2 + mean loss`` over the weights of the network and of the chain
together; w0 is where it begins.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import field
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from cutplane.compute.arrays import Matrix, Vector
from cutplane.data import TorchScores
from cutplane.estimators.estimator import estimator
from cutplane.models.networks.boltzmann import Epoch, train_cascade
from cutplane.models.networks.network import (
    import_torch,
    layers_with,
    trained,
    with_scores,
    write_vector,
)

_DTYPES = ("float64", "float32")


@estimator
class NeuralFeatures(BaseEstimator):
    """Sigmoid layers below a `SequenceTagger`, pre-trained without labels: a NeuroCRF.

    Each layer is trained as a restricted Boltzmann machine on the outputs of the one below, by
    contrastive divergence; for that, features must be between 0 and 1. Then the tagger's fit tunes
    all weights together.

    Parameters
    ----------
    hidden : sequence of int, default=(200, 200)
        The sizes of the layers, from the features on; with none, the chain is linear.
    epochs : int, default=10
        Passes over the tokens for each layer. With 0 there is no pre-training: layers are drawn at
        random, and features may be any numbers.
    learning_rate, momentum, weight_decay : float, default=0.05, 0.9, 2e-4
        Of the pre-training.
    batch_size : int, default=100
        Tokens for a step of it.
    scale : float, default=0.01
        Standard deviation of the weights on top, of labels and transitions, which are drawn at
        random.
    dtype : {"float64", "float32"}, default="float64"
        In which precision the network is evaluated. Single precision takes half the time or less,
        and is enough for tolerances down to 1e-3 or so.
    random_state : int or None, default=0
        Of everything that is drawn; the same number gives the same model.

    Examples
    --------
    >>> NeuralFeatures((50,), epochs=5)
    NeuralFeatures(epochs=5, hidden=(50,))
    """

    hidden: Any = field(default=(200, 200), kw_only=False)
    epochs: int = 10
    learning_rate: float = 0.05
    momentum: float = 0.9
    weight_decay: float = 2e-4
    batch_size: int = 100
    scale: float = 0.01
    dtype: str = "float64"
    random_state: int | None = 0

    def check(self) -> None:
        """Refuse parameters that make no sense."""
        sizes = self.hidden
        if isinstance(sizes, str) or not isinstance(sizes, Sequence | np.ndarray):
            raise ValueError(f"hidden must be a sequence of sizes of layers, got {sizes!r}")
        counts: list[tuple[str, Any, int]] = [("hidden", size, 1) for size in sizes]
        counts += [("epochs", self.epochs, 0), ("batch_size", self.batch_size, 1)]
        for name, value, least in counts:
            if not isinstance(value, Integral) or int(value) < least:
                raise ValueError(f"{name} must be whole numbers from {least} on, got {value!r}")
        for name in ("learning_rate", "momentum", "weight_decay", "scale"):
            value = getattr(self, name)
            if not isinstance(value, Real) or not 0.0 <= float(value) < np.inf:
                raise ValueError(f"{name} must be a number, not negative, got {value!r}")
        if self.dtype not in _DTYPES:
            raise ValueError(f"dtype must be one of {', '.join(_DTYPES)}, got {self.dtype!r}")


class Begun(NamedTuple):
    """A network before its fit.

    Attributes
    ----------
    scores : TorchScores
        From all parameters of network and labels to the scores of tokens.
    start : ndarray
        Where the fit begins, and what the regularizer pulls towards: w0.
    features : torch.nn.Module
        The network below the weights of labels.
    pretraining : list of lists of Epoch
        What was seen of each layer after each epoch.
    """

    scores: TorchScores
    start: Vector
    features: Any
    pretraining: list[list[Epoch]]

    def fitted(self, w: Vector) -> tuple[Any, Matrix]:
        """Return the network with the first of these parameters, and the weights of labels."""
        features = deepcopy(self.features)
        n_labels = int(np.prod(self.scores.score_shape))
        n_inner = sum(each.numel() for each in trained(features))
        write_vector(trained(features), w[:n_inner])
        coef = w[n_inner : self.scores.n_parameters].reshape(n_labels, -1)
        return features, coef.copy()


def begin(features: Any, X: Any, n_labels: int, n_rest: int, n_threads: int | None) -> Begun:
    """Return the network that `features` asks for, ready to be fitted to tokens.

    Parameters
    ----------
    features : NeuralFeatures or torch.nn.Module
        The weights on top of a user's module begin at zero.
    X : ndarray or CSR matrix of shape (n_tokens, n_features)
    n_labels, n_rest : int
        How many labels there are, and parameters of the chain besides.
    n_threads : int or None
    """
    import_torch()  # first of all: it may be missing
    pretraining: list[list[Epoch]] = []
    if isinstance(features, NeuralFeatures):
        features.check()
        module, pretraining = _pretrained(features, X)
        n_units = int(features.hidden[-1]) if len(features.hidden) else X.shape[1]
        rng = np.random.default_rng(features.random_state)
        drawn = features.scale * rng.normal(size=n_labels * n_units + n_rest)
        coef, rest = drawn[: n_labels * n_units].reshape(n_labels, -1), drawn[n_labels * n_units :]
    else:
        module = deepcopy(features)
        coef = np.zeros((n_labels, _width(module, X[:1])))
        rest = np.zeros(n_rest)
    scores = _scorer(features, module, coef, X, n_threads)
    return Begun(scores, np.concatenate([scores.start, rest]), module, pretraining)


def require_features(features: Any) -> None:
    """Raise TypeError unless something can be the parameter `features` of a tagger."""
    if isinstance(features, NeuralFeatures) or hasattr(features, "state_dict"):
        return
    raise TypeError(
        f"features must be None, cp.NeuralFeatures(...) or a torch.nn.Module, got {features!r}"
    )


def _scorer(features: Any, module: Any, coef: Matrix, X: Any, n_threads: int | None) -> TorchScores:
    """Return the scores of labels by the weights on top of a network, in its precision."""
    dtype = features.dtype if isinstance(features, NeuralFeatures) else "float64"
    dtype = getattr(import_torch(), dtype)
    return TorchScores(with_scores(module, coef), X, dtype=dtype, n_threads=n_threads)


def scores_of(
    features: Any, network: Any, coef: Matrix, X: Any, n_threads: int | None
) -> NDArray[np.float64]:
    """Return the scores of labels, by a fitted network and the weights on top."""
    if X.shape[0] == 0:
        return np.empty((0, len(coef)))
    scores = _scorer(features, network, coef, X, n_threads)
    found = scores.scores(scores.start)
    return found.reshape(len(found), -1)


def _pretrained(features: NeuralFeatures, X: Any) -> tuple[Any, list[list[Epoch]]]:
    if not features.epochs:
        return layers_with(_drawn(features, X.shape[1])), []
    machines = train_cascade(
        X,
        [int(size) for size in features.hidden],
        seed=features.random_state,
        epochs=int(features.epochs),
        rate=float(features.learning_rate),
        momentum=float(features.momentum),
        decay=float(features.weight_decay),
        batch=int(features.batch_size),
    )
    module = layers_with([(machine.weights, machine.hidden) for machine in machines])
    return module, [machine.history for machine in machines]


def _drawn(features: NeuralFeatures, n_features: int) -> list[tuple[Matrix, Vector]]:
    """Return weights at random, of sums that are about as large as one input."""
    rng = np.random.default_rng(features.random_state)
    sizes = [n_features, *(int(size) for size in features.hidden)]
    return [
        (rng.normal(size=(sizes[k + 1], sizes[k])) / np.sqrt(sizes[k]), np.zeros(sizes[k + 1]))
        for k in range(len(sizes) - 1)
    ]


def _width(module: Any, X: Any) -> int:
    """Return how many features a module makes of a token."""
    torch = import_torch()
    row = X.toarray() if hasattr(X, "toarray") else np.asarray(X)
    with torch.no_grad():
        made = deepcopy(module).to(torch.float64).eval()(torch.tensor(row, dtype=torch.float64))
    if not isinstance(made, torch.Tensor) or made.ndim != 2 or len(made) != 1:
        shape = tuple(made.shape) if isinstance(made, torch.Tensor) else type(made).__name__
        raise ValueError(f"features must make one row for each token, made {shape} of one")
    return int(made.shape[1])
