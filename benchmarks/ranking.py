"""Ranking: how good on LETOR's MQ2008 beside others, and what an evaluation costs.

Run as ``CUTPLANE_DATA=FOLDER python benchmarks/ranking.py``. Three tables:

mq2008
    The five folds of MQ2008, means over the test parts. `LinearRanker` with all its losses,
    scikit-learn's `LinearSVC` on all differences of documents of a query (the loss of
    ``per="pair"``), and LightGBM's lambdarank (optional: ``pip install lightgbm``) with its
    defaults, on one thread. What is chosen (lam; for LightGBM the number of trees, by early
    stopping after 50 without progress) is chosen by NDCG@10 on the validation part. As in LETOR's
    own evaluation, queries without a relevant document count as zero. Documents of equal score,
    which trees give often, are in random order. Seconds are those of one fit with what was chosen.
    Then NDCG@10 of each fold, of its test part.
generated
    Generated queries with 5 to 320 documents, of which up to 10 or 60 % are relevant (a share drawn
    for each query), in two grades or three (the better third), with little to much noise. 106
    queries to train, 106 to choose lam by NDCG@10, 300 to test. NDCG@10 as `LinearRanker.score` has
    it: queries without a relevant document do not count, equal scores are ranked worst first.
growth
    Generated data of 46 features, 100 documents a query, relevance 0, 1 and 2, at three sizes. An
    evaluation of the risk with its plane beside the two passes over the features that are part of
    it, each at coefficients it has not seen, in processor time of all threads; and fits to a gap
    of 1e-3, in seconds.

The whole run takes some fifteen minutes.
"""

import argparse
import itertools
import sys
import time
from functools import partial

import numpy as np
from datasets import DataError, data_folder
from sklearn.svm import LinearSVC
from timing import best_of_few, describe_machine, machine_load, stopwatch

import cutplane as cp
from cutplane.io import read_svmlight
from cutplane.losses import RANKING
from cutplane.models.ranking.loss import Queries
from cutplane.models.ranking.quality import Rankings

LAMS = (1.0, 1e-1, 1e-2, 1e-3, 1e-4, 1e-5)
QUERIES = (106, 106, 300)
SIZES = (10_000, 100_000, 1_000_000)
N_FEATURES, PER_QUERY = 46, 100
MEASURES = ("NDCG@1", "NDCG@3", "NDCG@5", "NDCG@10", "MAP")


def read_parts():
    folder = data_folder() / "letor_mq2008"
    if not folder.exists():
        raise DataError(f"letor_mq2008 is not in CUTPLANE_DATA: no folder {folder}.")
    parts = []
    for number in range(1, 6):
        data = read_svmlight(folder / f"S{number}.txt.xz", n_features=N_FEATURES, queries=True)
        parts.append((data.X.toarray(), data.y, data.qid))
    return parts


def join(parts):
    return tuple(np.concatenate(column) for column in zip(*parts, strict=True))


def measure(data, scores):
    """Return the measures as means over all queries; nothing relevant is zero, as in LETOR."""
    _, y, qid = data
    by_score = np.lexsort((np.random.default_rng(0).random(len(y)), scores))
    places = np.empty(len(y))
    places[by_score] = np.arange(len(y))
    rankings = Rankings(y, places, Queries(qid))
    values = [rankings.ndcg(k) for k in (1, 3, 5, 10)] + [rankings.average_precision()]
    return [float(np.nan_to_num(value).mean()) for value in values]


def differences(data):
    """Return ``x_i - x_j`` of all pairs of a query with i more relevant than j."""
    X, y, qid = data
    pairs = []
    for query in np.unique(qid):
        own = np.flatnonzero(qid == query)
        i, j = np.nonzero(y[own][:, None] > y[own])
        pairs.append(X[own[i]] - X[own[j]])
    return np.concatenate(pairs)


class Linear:
    """A linear model for each lam; the best on the validation part is kept."""

    def fit(self, train, validation):
        """Fit for each lam."""
        best = -1.0
        for lam in LAMS:
            seconds, coef = stopwatch(partial(self.coefficients, train, lam))
            score = measure(validation, validation[0] @ coef)[MEASURES.index("NDCG@10")]
            if score > best:
                best, self.chosen, self.seconds, self.coef = score, lam, seconds, coef
        return self

    def predict(self, X):
        """Return scores."""
        return X @ self.coef


class Ours(Linear):
    """`LinearRanker` with these parameters."""

    def __init__(self, **parameters):
        self.parameters = parameters

    def coefficients(self, train, lam):
        """Fit for one lam."""
        X, y, qid = train
        return cp.LinearRanker(lam=lam, **self.parameters).fit(X, y, qid=qid).coef_


class SvmOnPairs(Linear):
    """`LinearSVC` on all pairs."""

    def coefficients(self, train, lam):
        """Fit for one lam."""
        pairs = differences(train)
        # The hinge has to see both classes: every second pair is turned around.
        signs = np.where(np.arange(len(pairs)) % 2, 1.0, -1.0)
        C = 1.0 / (lam * len(pairs))
        model = LinearSVC(loss="hinge", C=C, fit_intercept=False, max_iter=100_000, random_state=0)
        return model.fit(signs[:, None] * pairs, signs).coef_[0]


class LambdaRank:
    """LightGBM's defaults with early stopping."""

    def fit(self, train, validation):
        """Fit until the validation part sees no progress."""
        import lightgbm

        model = lightgbm.LGBMRanker(n_estimators=1000, random_state=0, verbose=-1, n_jobs=1)

        def group(data):
            return np.unique(data[2], return_counts=True)[1]

        train, validation = sorted_by_query(train), sorted_by_query(validation)
        self.seconds, self.model = stopwatch(
            lambda: model.fit(
                *train[:2],
                group=group(train),
                eval_X=validation[0],
                eval_y=validation[1],
                eval_group=[group(validation)],
                eval_at=10,
                callbacks=[lightgbm.early_stopping(50, verbose=False)],
            )
        )
        self.chosen = self.model.best_iteration_
        return self

    def predict(self, X):
        """Return scores."""
        return self.model.predict(X)


def sorted_by_query(data):
    order = np.argsort(data[2], kind="stable")
    return tuple(column[order] for column in data)


LEARNERS = {
    "LinearRanker, pairwise": lambda: Ours(loss="pairwise"),
    "LinearRanker, pairwise, per pair": lambda: Ours(loss="pairwise", per="pair"),
    "LinearRanker, ndcg": lambda: Ours(loss="ndcg"),
    "LinearRanker, ndcg_list": lambda: Ours(loss="ndcg_list"),
    "LinearSVC on pairs": SvmOnPairs,
    "LightGBM lambdarank": LambdaRank,
}


def folds_of_mq2008():
    parts, folds = read_parts(), {}
    print(f"{'':<34}" + "".join(f"{name:>9}" for name in (*MEASURES, "seconds")) + "  chosen")
    for name, learner in LEARNERS.items():
        rows, seconds, chosen = [], [], []
        try:
            for fold in range(5):
                train, validation, test = (
                    join([parts[(fold + shift) % 5] for shift in shifts])
                    for shifts in ((0, 1, 2), (3,), (4,))
                )
                fitted = learner().fit(train, validation)
                rows.append(measure(test, fitted.predict(test[0])))
                seconds.append(fitted.seconds)
                chosen.append(f"{fitted.chosen:g}")
        except ImportError as error:
            print(f"{name:<34}{error}")
            continue
        means = "".join(f"{value:>9.4f}" for value in np.mean(rows, axis=0))
        print(f"{name:<34}{means}{np.mean(seconds):>9.2f}  {' '.join(chosen)}", flush=True)
        folds[name] = [row[MEASURES.index("NDCG@10")] for row in rows]
    print(f"\n{'NDCG@10':<34}" + "".join(f"{f'fold {fold + 1}':>9}" for fold in range(5)))
    for name, values in folds.items():
        print(f"{name:<34}" + "".join(f"{value:>9.4f}" for value in values))


def generate_queries(n_documents, share, n_grades, noise, *, seed=0):
    """Return documents of queries; relevance is a noisy function of 20 features, cut by query."""
    rng = np.random.default_rng(seed)
    w = rng.standard_normal(20)
    w /= np.linalg.norm(w)
    X, y = [], []
    for _ in range(sum(QUERIES)):
        own = rng.standard_normal((n_documents, len(w)))
        quality = own @ w + noise * rng.standard_normal(n_documents)
        n_relevant = round(rng.uniform(0.0, share) * n_documents)
        worse = n_documents - np.argsort(np.argsort(quality))  # how many are as good, or better
        y.append((worse <= n_relevant).astype(float) + (worse <= n_relevant // 3) * (n_grades - 2))
        X.append(own + rng.standard_normal(len(w)))
    return np.concatenate(X), np.concatenate(y), np.repeat(np.arange(len(y)), n_documents)


def generated():
    settings = itertools.product((5, 20, 80, 320), (0.1, 0.6), (2, 3), (0.5, 2.0, 6.0))
    titles = ("documents", "relevant", "grades", "noise", *RANKING)
    print("".join(f"{title:>10}" for title in titles))
    for n_documents, share, n_grades, noise in settings:
        if round(share * n_documents) < n_grades:
            continue
        X, y, qid = generate_queries(n_documents, share, n_grades, noise)
        bounds = np.cumsum([0, *QUERIES])
        train, validation, test = (
            (qid >= low) & (qid < high) for low, high in itertools.pairwise(bounds)
        )
        cells = [f"{n_documents}", f"{share:.0%}", f"{n_grades}", f"{noise:g}"]
        for loss in RANKING:
            models = [
                cp.LinearRanker(loss, lam=lam).fit(X[train], y[train], qid=qid[train])
                for lam in LAMS[1:-1]
            ]
            best = max(
                models, key=lambda one: one.score(X[validation], y[validation], qid=qid[validation])
            )
            cells.append(f"{best.score(X[test], y[test], qid=qid[test]):.4f}")
        print("".join(f"{cell:>10}" for cell in cells), flush=True)


def generate(n_documents):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_documents, N_FEATURES))
    quality = X @ rng.standard_normal(N_FEATURES) + 5.0 * rng.standard_normal(n_documents)
    y = np.digitize(quality, np.quantile(quality, [0.7, 0.9])).astype(np.float64)
    return X, y, np.arange(n_documents) // PER_QUERY


def growth():
    titles = ("documents", "loss", "passes ms", "evaluation ms", "ratio", "fit s", "iterations")
    widths = (10, 11, 11, 15, 7, 9, 12)
    print("".join(f"{title:>{width}}" for title, width in zip(titles, widths, strict=True)))
    for n_documents in SIZES:
        X, y, qid = generate(n_documents)
        for loss in RANKING:
            cells = [f"{n_documents:,}", loss, *evaluation(loss, X, y, qid), *fit(loss, X, y, qid)]
            print("".join(f"{cell:>{w}}" for cell, w in zip(cells, widths, strict=True)))
            sys.stdout.flush()


def evaluation(loss, X, y, qid):
    """Return processor time (ms) of two passes over X, of an evaluation, and their ratio."""
    bound = cp.LinearRanker(loss).loss_function().for_queries(qid)
    risk = cp.ScoredRisk(X, y, bound, intercept=False)
    rng = np.random.default_rng(1)
    slopes = rng.standard_normal(len(y))

    def passes(w):
        risk.rows.scores(w)
        risk.rows.pullback(slopes)

    def evaluate(w):
        point = risk.at(w)
        return point.value, point.plane()

    times = {passes: [], evaluate: []}
    for run in range(8):
        for work, seconds in times.items():
            w = rng.standard_normal(N_FEATURES)  # its own, or the scores would be sorted already
            begin = time.process_time()
            work(w)
            if run:
                seconds.append(1e3 * (time.process_time() - begin))
    alone, whole = (min(seconds) for seconds in times.values())
    return f"{alone:.2f}", f"{whole:.2f}", f"{whole / alone:.2f}"


def fit(loss, X, y, qid):
    model = cp.LinearRanker(loss, lam=1e-3)
    seconds, model = best_of_few(lambda: model.fit(X, y, qid=qid))
    return f"{seconds:.2f}", model.n_iter_


TABLES = {"mq2008": folds_of_mq2008, "generated": generated, "growth": growth}


def main():
    parser = argparse.ArgumentParser(description="Ranking beside others, and its costs.")
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=list(TABLES))
    options = parser.parse_args()
    for what, value in describe_machine().items():
        print(f"{what + ':':<10}{value}")
    for table in options.tables:
        print(f"\n{table}")
        TABLES[table]()
    print(f"\nload: {machine_load()}")


if __name__ == "__main__":
    try:
        main()
    except DataError as error:
        sys.exit(f"ranking.py: {error}")
