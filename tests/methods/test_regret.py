"""The regret bounds of paper 002, in games against chance and against an adversary.

A round of a game is an example: ``f_t(w) = lam/2 |w|^2 + max(0, 1 - y_t x_t.w)``. The rounds are
played by the compiled steps themselves, one example at a time.
"""

import math

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

import cutplane as cp
from cutplane.core.state import Problem
from cutplane.solvers.stochastic import Rule
from cutplane.solvers.stochastic import loops as kernels
from cutplane.solvers.stochastic.passes import CompiledSteps, Settings, first_walk

ROUNDS = 400
FEATURES = 4
HINGE = cp.Hinge().slope_form


def random_rows(rng, w):
    """Examples that have nothing to do with the iterate."""
    x = rng.normal(size=FEATURES)
    return x / max(1.0, np.linalg.norm(x)), rng.choice([-1.0, 1.0])


def against(rng, w):
    """The example of unit length that the iterate gets most wrong."""
    length = np.linalg.norm(w)
    x = rng.normal(size=FEATURES) if length == 0.0 else w
    return x / np.linalg.norm(x), -1.0


def back_and_forth(rng, w):
    """A label that turns with the sign of the first weight: the hinge is never flat."""
    return np.eye(FEATURES)[0], -1.0 if w[0] >= 0.0 else 1.0


def noise_then_signal(rng, w):
    """Long noise in one direction; then the true one."""
    k = int(rng.integers(FEATURES))
    return np.eye(FEATURES)[k], 1.0 if rng.random() < 0.5 + 0.1 * k else -1.0


GAMES = [random_rows, against, back_and_forth, noise_then_signal]
every_game = pytest.mark.parametrize("adversary", GAMES, ids=lambda game: game.__name__)
every_lam = pytest.mark.parametrize("lam", [1.0, 1e-1, 1e-2, 1e-4, 1e-8])


class Played:
    """A game that was played: what it cost, and the best that one choice could have done."""

    def __init__(self, rule, lam, adversary, *, radius=None, steepness=None, seed=0):
        rng = np.random.default_rng(seed)
        self.lam = lam
        self.R = 1.0 / math.sqrt(lam) if radius is None else radius
        self.G = lam * self.R + 1.0 if steepness is None else steepness
        facts = np.ones((ROUNDS, 4))
        walk = first_walk(Settings(rule), FEATURES, facts, self.R)
        X, y = np.zeros((ROUNDS, FEATURES)), np.zeros(ROUNDS)
        self.suffered, self.lengths, self.taus = [], [], []
        for t in range(ROUNDS):
            w = walk.w
            X[t], y[t] = adversary(rng, w)
            hinge = max(0.0, 1.0 - y[t] * (X[t] @ w))
            self.suffered.append(lam / 2 * w @ w + hinge)
            self.lengths.append(np.linalg.norm(lam * w - (hinge > 0.0) * y[t] * X[t]))
            facts[t, kernels.TARGET], facts[t, kernels.LENGTH] = y[t], X[t] @ X[t]
            before = walk.numbers[kernels.TAU]
            assert np.linalg.norm(w) <= self.R * (1 + 1e-9)
            game = kernels.Game(lam, self.R, self.R, self.G, 0.0, 1.0)
            kernels.epoch(
                X.reshape(-1), np.empty(0, np.int32), np.zeros(1, np.int32), walk.facts, *HINGE,
                np.array([t]), 1, int(rule), game, 0.0, math.inf, walk.v,
                walk.summed, walk.chosen, walk.numbers, walk.seed,
            )  # fmt: skip
            self.taus.append(walk.numbers[kernels.TAU] - before)
        risk = cp.ScoredRisk(X, y, cp.Hinge(), intercept=False)
        best = cp.minimize(risk, cp.L2(lam), tol=1e-7, max_iter=5000)
        # What is proven of the best choice, within the ball or not, and rounding. The bound of
        # Lemma 1 is attained where no hinge is ever flat: there is nothing to spare.
        least, gap = best.certificate.lower_bound, best.certificate.gap
        if radius is not None:
            ball = cp.minimize(risk, cp.Ball(radius), method=cp.kelley(), tol=1e-7, max_iter=5000)
            least = max(least, ball.certificate.lower_bound)
        self.regret = sum(self.suffered) - ROUNDS * (least + gap)
        self.regret *= 1.0 - 1e-12
        assert max(self.lengths) <= self.G * (1 + 1e-12)


def corollary_1(lams, taus, lengths, R):
    """Return the bound (5) for given tau."""
    grown = np.cumsum(lams) + np.cumsum(taus)
    return 0.5 * float(np.sum(4.0 * np.asarray(taus) * R**2 + np.square(lengths) / grown))


def least_bound(lams, lengths, R, weights=(2.0, 0.5)):
    """Return the least of such bounds over all tau: only the first is positive (Proposition 1)."""
    grown, squares = np.cumsum(lams), np.square(lengths)

    def bound(power):
        tau = math.exp(power)
        return weights[0] * tau * R**2 + weights[1] * float(np.sum(squares / (grown + tau)))

    found = minimize_scalar(bound, bounds=(-60.0, 60.0), method="bounded")
    return min(found.fun, weights[1] * float(np.sum(squares / grown)))


@every_game
@every_lam
def test_lemma_1(adversary, lam):
    game = Played(Rule.PEGASOS, lam, adversary)
    rounds = lam * np.arange(1, ROUNDS + 1)
    assert game.regret <= 0.5 * np.sum(np.square(game.lengths) / rounds)
    assert game.regret <= game.G**2 / (2 * lam) * (1 + math.log(ROUNDS))


@every_game
@every_lam
@pytest.mark.parametrize("radius", [None, 1.0], ids=["whole ball", "small ball"])
def test_corollary_1_and_theorem_1(adversary, lam, radius):
    game = Played(Rule.BALANCED, lam, adversary, radius=radius)
    lams, lengths = np.full(ROUNDS, lam), np.full(ROUNDS, game.G)
    own = corollary_1(lams, game.taus, lengths, game.R)
    assert game.regret <= own
    # Theorem 1: the balanced tau are at most twice as bad as the best ones.
    assert own <= 2.0 * least_bound(lams, lengths, game.R) * (1 + 1e-9)


@every_game
@every_lam
@pytest.mark.parametrize("radius", [None, 1.0], ids=["whole ball", "small ball"])
def test_theorem_2_and_its_corollaries(adversary, lam, radius):
    game = Played(Rule.BALANCED, lam, adversary, radius=radius)
    R, G, T = game.R, game.G, ROUNDS

    def bound(tau):
        share = tau / lam
        inner = 1.0 / (1.0 + share) + math.log((T + share) / (1.0 + share))
        return 4.0 * tau * R**2 + G**2 / lam * inner

    for tau in (0.0, *np.logspace(-9, 4, 14)):
        assert game.regret <= bound(tau)
    # Corollary 2
    assert bound(0.0) == pytest.approx(G**2 / lam * (1 + math.log(T)))
    # Corollary 3: without curvature, the limit of B at G sqrt(T)/(2 R)
    root = G * math.sqrt(T) / (2.0 * R)
    if lam * T <= 1e-3 * root:
        assert bound(root) == pytest.approx(4.0 * R * G * math.sqrt(T), rel=1e-2)
        assert game.regret <= 4.0 * R * G * math.sqrt(T)


@every_game
@every_lam
def test_the_bound_of_adaptive_steps(adversary, lam):
    # Bartlett, Hazan and Rakhlin (2008), as in footnote 3 of the paper.
    game = Played(Rule.ADAPTIVE, lam, adversary)
    lams, lengths = np.full(ROUNDS, lam), np.full(ROUNDS, game.G)
    assert game.regret <= least_bound(lams, lengths, game.R, weights=(3.0, 2.0))


@pytest.mark.parametrize("seed", range(20))
def test_balanced_tau_are_at_most_twice_as_bad_whatever_the_rounds(seed):
    # Theorem 1 again, for curvatures and lengths of subgradients that change from round to round.
    rng = np.random.default_rng(seed)
    lams = 10.0 ** rng.uniform(-6, 0, ROUNDS) * (rng.random(ROUNDS) < 0.7)
    lams[0] = 1e-6
    lengths = 10.0 ** rng.uniform(-1, 1, ROUNDS)
    R, tau, taus = 10.0 ** rng.uniform(-1, 2), 0.0, []
    for grown, length in zip(np.cumsum(lams), lengths, strict=True):
        taus.append(kernels.tau_of(kernels.BALANCED, grown + tau, length, R))
        # the two terms of the bound are equal
        assert 2 * taus[-1] * R**2 == pytest.approx(length**2 / (2 * (grown + tau + taus[-1])))
        tau += taus[-1]
    own = corollary_1(lams, taus, lengths, R)
    assert own <= 2.0 * least_bound(lams, lengths, R) * (1 + 1e-9)


# -- Algorithm 3 with an end -----------------------------------------------------------------------


def blobs(m=60, seed=0):
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(m) < 0.5, 1.0, -1.0)
    X = rng.normal(size=(m, 3)) + 0.8 * y[:, None]
    return cp.ScoredRisk(X / np.linalg.norm(X, axis=1).max(), y, cp.Hinge(), intercept=False)


@pytest.mark.parametrize(("lam", "epsilon"), [(0.1, 0.2), (1e-3, 0.3), (0.01, 0.05)])
def test_so_many_steps_are_needed_and_not_one_less(lam, epsilon):
    delta, G, R = 0.1, 1.0 + math.sqrt(lam), 2.0

    def enough(T):
        by_log = G**2 * (1 + math.log(T)) / (delta * lam * T)
        return min(by_log, 4 * R * G / (delta * math.sqrt(T))) <= epsilon

    T = kernels.steps_needed(epsilon, delta, lam, G, R)
    assert enough(T)
    assert not enough(T - 1)


@pytest.mark.parametrize(
    ("delta", "m"), [(0.5, 60), pytest.param(0.1, 2000, marks=pytest.mark.slow)]
)
def test_theorem_4_epsilon_is_met_with_the_promised_probability(delta, m):
    risk, lam, epsilon = blobs(m), 0.1, 0.1
    best = cp.minimize(risk, cp.L2(lam), tol=1e-8)
    G = 1.0 + math.sqrt(lam)
    phases = 3.0 - math.log2(lam)
    most = kernels.steps_needed(epsilon, delta / phases, lam, G, math.inf)
    met = 0
    for seed in range(100):
        settings = Settings(
            Rule.OPTIMISTIC, seed=seed, sampling=cp.Sampling.DRAWN, epsilon=epsilon, delta=delta
        )
        passes = CompiledSteps(Problem(risk, cp.L2(lam)), settings)
        walk, steps = passes.initial(), 0
        while not walk.confident:
            passes.taken(walk)
            steps += risk.n_examples
            assert steps <= phases * most + risk.n_examples  # Theorem 4's termination
        w = walk.chosen
        met += lam / 2 * w @ w + risk.at(w).value - best.objective <= epsilon
    assert met >= (1.0 - delta) * 100
