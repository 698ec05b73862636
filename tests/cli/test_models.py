"""Models that the command line reads, and cannot use."""

import numpy as np
import pytest

import cutplane as cp


@pytest.mark.parametrize("command", ["predict", "evaluate"])
def test_structured_predictors_are_for_python(tmp_path, complaint, command):
    predictor = cp.StructuredPredictor(cp.MulticlassModel(), tol=0.1).fit(np.eye(2), [0, 1])
    cp.save_model(predictor, tmp_path / "model")
    (tmp_path / "data").write_text("1 1:1\n")
    said = complaint(command, tmp_path / "model", tmp_path / "data")
    assert said == (
        f"{tmp_path / 'model'}: a StructuredPredictor predicts in Python only, its inputs are no "
        "lines of a file"
    )
