"""The line search when the regularizer is no quadratic on the ray.

A segment knows the exact minimum of the risk plus a quadratic. So the regularizer ``r`` on the ray
is replaced, at a step ``k``, by its slope there and a curvature, and the minimizer of that is the
next ``k``. It also says on which side of ``k`` the true minimum lies, whatever the curvature, which
gives a bracket. At a corner of ``r`` the slopes of both sides are tried: corners are frequent at
``k = 1``, where a sparse candidate has its zeros.

Slopes are differences of values: nothing but ``r.value`` is asked for.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from cutplane.core.protocols import Quadratic, Segment

_MOST_TRIALS = 30

# Steps that differ by a smaller share are the same: the search need not be exact.
_CLOSE = 1e-5
# Width of the differences.
_WIDTH = 1e-6


def minimize_on_segment(
    segment: Segment, on_ray: Callable[[float], float], *, farthest: float
) -> float:
    """Return a step from 0 to ``farthest`` that nearly minimizes the risk plus ``on_ray``.

    ``on_ray(k)`` is convex, finite at 0 and 1, and may be infinite beyond 1.
    """
    low, high = 0.0, farthest
    at_zero = on_ray(0.0)
    first = (on_ray(_WIDTH) - at_zero) / _WIDTH
    step, last_step, last_slope = 1.0, 0.0, first
    for trial in range(_MOST_TRIALS):
        here = on_ray(step)
        proposed = step
        if not np.isfinite(here):
            high = step
        else:
            width = _WIDTH * max(step, 1.0)
            left = (here - on_ray(step - width)) / width if step > width else first
            right = (on_ray(step + width) - here) / width
            curvature = max((left - last_slope) / (step - last_step), 0.0)
            last_step, last_slope = step, left
            proposed = segment.minimize(Quadratic(left - curvature * step, curvature))
            if not proposed < step * (1.0 - _CLOSE) and right > left:
                proposed = step
                if np.isfinite(right):
                    proposed = segment.minimize(Quadratic(right - curvature * step, curvature))
                    proposed = max(proposed, step)  # left of it is ruled out already
            if abs(proposed - step) <= _CLOSE * step:
                return step
            if proposed <= 0.0 and segment.minimize(Quadratic(first, curvature)) == 0.0:
                return 0.0
            if proposed < step:
                high = step
            else:
                low = step
        if high - low <= _CLOSE * high or high <= _CLOSE or low >= farthest:
            break
        # Every third step bisects, so that a wrong curvature cannot hold the search up.
        step = proposed if low < proposed < high and trial % 3 != 2 else 0.5 * (low + high)
    return low
