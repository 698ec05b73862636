"""Labels of grids with loops: what exact and relaxed search cost, and what they gain.

Images are made by a seeded generator: each label has a field of smoothed noise, a pixel has the
label whose field is highest there, and is seen as the indicator of its label plus noise of standard
deviation 1. A model is fitted to half of the images, once with exact and once with relaxed search,
in one thread, lam = 1, relative gap 1e-2. Times are processor times: the mean over all inferences
of the fit, the longest of them, and the whole fit. "integral" is the share of relaxed searches that
ended at labels proper. Accuracy is the share of right pixels of the other images; "alone" that of
the same model without edges. "same" is the share of the other images for which the fitted model
predicts the same with exact and with relaxed search.

With ``--programs``, that many exact searches of the fit, evenly spaced, are done again, in turns
with linear and integer programs by HiGHS alone: "HiGHS" is its mean time, then come its longest
one, and the ratio of its time for all of them to ours. Scores are compared too.

    python benchmarks/graphs.py
    python benchmarks/graphs.py --sides 20 --labels 2 3 4 5 6 --images 8 --programs 24
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
from scipy.ndimage import gaussian_filter

import cutplane as cp
from cutplane.models.graphs.local_polytope import best_integral
from cutplane.models.graphs.search import best_exact
from cutplane.models.structured import RelaxedLabels


class TimedModel(cp.GraphModel):
    """Keeps the seconds of each inference of a fit, and whether it ended at labels proper."""

    seconds: list[float]
    integral: list[bool]
    asked: list[tuple[Any, Any, Any]]

    def initialize(self, X: list[Any], Y: list[Any]) -> None:
        """Begin to count."""
        super().initialize(X, Y)
        self.seconds, self.integral, self.asked = [], [], []

    def loss_augmented_inference(self, x: Any, y: Any, w: Any) -> Any:
        """Search, and note how long it took."""
        begin = time.process_time()
        found = super().loss_augmented_inference(x, y, w)
        self.seconds.append(time.process_time() - begin)
        self.integral.append(not isinstance(found, RelaxedLabels))
        self.asked.append((x, y, np.array(w)))
        return found

    def beside_programs(self, n_searches: int) -> str:
        """Do some searches again, in turns with HiGHS alone, and say how long both took."""
        ours, theirs = [], []
        some = np.linspace(0, len(self.asked) - 1, n_searches).astype(int)
        for x, y, w in (self.asked[i] for i in some):
            x = self._checked(x)
            problem = (*self._of_nodes_and_edges(x, w, y), x.edges)
            scores = []
            for search, seconds in ((best_exact, ours), (best_integral, theirs)):
                begin = time.process_time()
                found = search(*problem)
                seconds.append(time.process_time() - begin)
                scores.append(w @ self.joint_feature(x, found) + self.loss(y, found))
            if not np.isclose(*scores, rtol=1e-9):
                raise RuntimeError(f"scores of the best labels differ: {scores}")
        ratio = sum(theirs) / sum(ours)
        return f"{1e3 * np.mean(theirs):7.0f} {1e3 * max(theirs):7.0f} {ratio:5.0f}"


def grid(side: int) -> Any:
    i = np.arange(side * side).reshape(side, side)
    right, down = np.dstack([i[:, :-1], i[:, 1:]]), np.dstack([i[:-1], i[1:]])
    return np.concatenate([right.reshape(-1, 2), down.reshape(-1, 2)])


def images(n_images: int, side: int, n_labels: int) -> tuple[list[cp.Graph], list[Any]]:
    rng = np.random.default_rng(0)
    X, Y = [], []
    for _ in range(n_images):
        fields = [gaussian_filter(rng.normal(size=(side, side)), 1.5) for _ in range(n_labels)]
        y = np.argmax(fields, axis=0).ravel()
        seen = np.eye(n_labels)[y] + rng.normal(size=(side * side, n_labels))
        X.append(cp.Graph(np.column_stack([seen, np.ones(len(y))]), grid(side)))
        Y.append(y)
    return X, Y


def accuracy(predictor: cp.StructuredPredictor, X: list[cp.Graph], Y: list[Any]) -> float:
    return 1.0 + predictor.score(X, Y) / len(Y[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sides", type=int, nargs="+", default=[10])
    parser.add_argument("--labels", type=int, nargs="+", default=[2, 3, 4, 5])
    parser.add_argument("--images", type=int, default=12)
    parser.add_argument("--programs", type=int, default=0)
    options = parser.parse_args()
    print(
        "side labels search   ms/inference longest  integral  fit s  accuracy  alone  same"
        "   HiGHS longest ratio"
    )
    for side in options.sides:
        for n_labels in options.labels:
            compare(side, n_labels, options.images, options.programs)


def compare(side: int, n_labels: int, n_images: int, n_programs: int) -> None:
    X, Y = images(n_images, side, n_labels)
    half = len(X) // 2
    single = [x._replace(edges=[]) for x in X]
    alone = cp.StructuredPredictor(cp.GraphModel(), lam=1.0, tol=1e-2).fit(single[:half], Y[:half])
    for search in ("exact", "relaxed"):
        begin = time.process_time()
        predictor = cp.StructuredPredictor(TimedModel(search=search), lam=1.0, tol=1e-2, n_jobs=1)
        predictor.fit(X[:half], Y[:half])
        seconds = time.process_time() - begin
        model = predictor.model_
        right = accuracy(predictor, X[half:], Y[half:])
        said = []
        for model.search in ("exact", "relaxed"):
            said.append(predictor.predict(X[half:]))
        same = np.mean([np.array_equal(*pair) for pair in zip(*said, strict=True)])
        integral = f"{np.mean(model.integral):9.2f}" if search == "relaxed" else f"{'-':>9}"
        programs = model.beside_programs(n_programs) if n_programs and search == "exact" else ""
        print(
            f"{side:4} {n_labels:6} {search:8} {1e3 * np.mean(model.seconds):12.1f} "
            f"{1e3 * max(model.seconds):7.0f} {integral} {seconds:6.1f} {right:9.3f}  "
            f"{accuracy(alone, single[half:], Y[half:]):.3f} {same:5.2f} {programs}",
            flush=True,
        )


if __name__ == "__main__":
    main()
