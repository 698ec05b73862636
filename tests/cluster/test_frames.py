"""Data frames on a cluster: the bits of a fit on one machine, and lazy predictions."""

import numpy as np
import pandas as pd
import pytest

import cutplane as cp

da = pytest.importorskip("dask.array", reason="needs the extra cutplane[dask]")
dd = pytest.importorskip("dask.dataframe", reason="needs pandas and pyarrow")


def test_a_frame_is_fitted_where_its_rows_are(client):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(4000, 3)), columns=list("abc"))
    words = pd.Series(np.where(frame["a"] + 0.3 * rng.normal(size=4000) > 0.0, "yes", "no"))
    lazy, labels = dd.from_pandas(frame, npartitions=3), dd.from_pandas(words, npartitions=2)
    model = cp.LinearClassifier("logistic", lam=0.01, method=cp.bmrm())
    X = np.ascontiguousarray(frame.to_numpy())
    here = model.fit(X, words.to_numpy()).coef_
    there = model.fit(lazy, labels)
    np.testing.assert_array_equal(there.coef_, here)
    assert list(there.classes_) == ["no", "yes"]
    for predict in (there.predict, there.predict_proba, there.decision_function):
        assert isinstance(predict(lazy), da.Array)
        np.testing.assert_array_equal(predict(lazy).compute(), predict(frame))
