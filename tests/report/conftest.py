import numpy as np
import pytest

from cutplane.core.certificate import Record


@pytest.fixture
def make_run():
    """Return a maker of records like those of a fit: bounds that close in geometrically."""

    def make(n, *, start=(1.0, 0.0), optimum=0.05):
        shares = 0.8 ** np.arange(1, n + 1)
        return [
            Record(
                iteration=i,
                objective=float(optimum + (start[0] - optimum) * share),
                lower_bound=float(optimum + (start[1] - optimum) * share),
                evaluations=i + 1,
                planes=i,
                seconds=0.01 * i,
            )
            for i, share in enumerate(shares, start=1)
        ]

    return make
