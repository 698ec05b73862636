"""Data folders on a cluster: the bits of a fit on one machine."""

import numpy as np
import pytest

import cutplane as cp

pytest.importorskip("dask.array", reason="needs the extra cutplane[dask]")

from cutplane.io.folders import dask_arrays


def test_a_folder_is_fitted_where_its_rows_are_read(client, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 5)).round(3)
    words = np.where(X @ rng.normal(size=5) + rng.normal(size=2000) > 0.0, "yes", "no")
    lines = [
        f"{word} " + " ".join(f"{j}:{v}" for j, v in enumerate(row, start=1) if v > -0.5)
        for word, row in zip(words.tolist(), X.tolist(), strict=True)
    ]
    (tmp_path / "data.svm").write_text("\n".join(lines))
    folder = cp.convert(tmp_path / "data.svm", tmp_path / "d")
    arrays = dask_arrays(folder, 3)
    assert sorted(arrays) == ["X", "y"]
    model = cp.LinearClassifier(lam=1e-2, method="bmrm-line-search")
    here = model.fit(folder.X, folder.y).coef_
    there = model.fit(arrays["X"], arrays["y"])
    np.testing.assert_array_equal(there.coef_, here)
    predicted = there.predict(arrays["X"]).compute()
    np.testing.assert_array_equal(predicted, there.predict(folder.X))
