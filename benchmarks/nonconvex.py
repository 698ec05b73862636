"""What `nrbm` costs beside the evaluations of a risk with 925,000 parameters and 200 planes.

Run as ``python benchmarks/nonconvex.py [N_PARAMETERS]``. The size is that of the hidden Markov
models of paper 004, section 5.5, an evaluation of which takes seconds. The risk here is smooth, not
convex and cheap: a mean of ``log(1 + v^2)`` of differences of neighbors. From where the memory is
full on, everything but the evaluations is measured, in seconds of all cores (CPU time, which other
work on the machine disturbs less) and in passes over the slopes: products of all of them with one
vector, measured in turn.
"""

import sys
import time

import numpy as np

import cutplane as cp
from cutplane.compute.products import inner_products

N_PARAMETERS = 925_000
PLANES = 200
ITERATIONS = 20  # that are measured


class Differences:
    """The mean of ``log(1 + v_i^2)``, ``v_i = u_i - u_{i-1} / 2``, ``u = scale * (w - middle)``."""

    convex = False
    lower_bound = 0.0

    def __init__(self, n_parameters):
        rng = np.random.default_rng(0)
        self.n_parameters, self.evaluations, self.seconds = n_parameters, 0, 0.0
        self.scale = np.exp(rng.normal(size=n_parameters))
        self.middle = 3.0 * rng.normal(size=n_parameters)

    def at(self, w):
        """Evaluate the risk, and note how long it took."""
        begin = time.process_time()
        self.evaluations += 1
        u = self.scale * (w - self.middle)
        v = u[1:] - 0.5 * u[:-1]
        push = 2.0 * v / (1.0 + v * v) / len(v)
        slope = np.zeros_like(w)
        slope[1:] += push
        slope[:-1] -= 0.5 * push
        point = Evaluated(w, float(np.mean(np.log1p(v * v))), slope * self.scale)
        self.seconds += time.process_time() - begin
        return point


class Evaluated:
    """The risk at a point."""

    def __init__(self, w, value, slope):
        self.w, self.value = w, value
        self._plane = cp.Plane(slope, value - float(slope @ w))

    def plane(self):
        """Return the tangent plane."""
        return self._plane


class Watch:
    """Notes time and evaluations while the memory is full, and ends the run."""

    def __init__(self, risk):
        self.risk, self.marks = risk, []

    def __call__(self, state):
        """Note an iteration; say whether there were enough."""
        self.state = state
        if state.bundle.n_planes >= PLANES - 2:
            own = time.process_time() - self.risk.seconds
            self.marks.append((own, self.risk.evaluations))
        return len(self.marks) > ITERATIONS

    def one_pass(self):
        """Return the seconds of a product with all slopes, the best of five."""
        bundle = self.state.bundle
        slopes, w = bundle.matrices[0], np.ones(bundle.n_parameters)
        seconds = []
        for _ in range(5):
            begin = time.process_time()
            inner_products(slopes, bundle.slots, w)
            seconds.append(time.process_time() - begin)
        return min(seconds)


def main():
    n_parameters = int(sys.argv[1]) if sys.argv[1:] else N_PARAMETERS
    print("| method | planes | own seconds an evaluation | of them with one of 3 s | passes |")
    print("|---|---|---|---|---|")
    for name, method in (
        ("nrbm()", cp.nrbm(planes=PLANES)),
        ('nrbm(line_search="greedy")', cp.nrbm(planes=PLANES, line_search="greedy")),
        ("nbm()", cp.nbm(planes=PLANES)),
    ):
        risk = Differences(n_parameters)
        watch = Watch(risk)
        # Without a tolerance: the memory fills up, whatever the gap.
        cp.minimize(
            risk, cp.L2(1e-6), method=method, stop=cp.Iterations(10 * PLANES), callbacks=[watch]
        )
        if not watch.marks:
            print(f"| {name} | {watch.state.bundle.n_planes} | - | - | - |", flush=True)
            continue
        (begin, before), (end, after) = watch.marks[0], watch.marks[-1]
        own = (end - begin) / (after - before)
        planes = watch.state.bundle.n_planes
        passes = own / watch.one_pass()
        print(
            f"| {name} | {planes} | {own:.3f} | {own / (own + 3.0):.0%} | {passes:.1f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
