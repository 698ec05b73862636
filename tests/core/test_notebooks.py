"""What notebooks show of certificates, results and paths: tables and pictures of their numbers."""

import xml.etree.ElementTree as ET

import numpy as np
import pytest

import cutplane as cp


def texts(shown):
    return " ".join(ET.fromstring(shown._repr_html_()).itertext())


@pytest.fixture(scope="module")
def result():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(50, 4)), rng.choice([-1.0, 1.0], size=50)
    risk = cp.ScoredRisk(cp.as_rows(X), y, cp.Hinge())
    return cp.minimize(risk, cp.L2(0.01), method=cp.bmrm())


def test_a_certificate(result):
    shown, own = texts(result.certificate), result.certificate
    for number in (f"{own.objective:.8g}", f"{own.lower_bound:.8g}", f"{own.relative_gap:.2e}"):
        assert number in shown
    assert "no model is better by more than" in shown


def test_a_reason_is_text():
    wicked = cp.Certificate(1.0, 0.5, cp.Status.STALLED, False, "<script>alert(1)</script>")
    assert "<script>" not in wicked._repr_html_()
    assert "<script>alert(1)</script>" in texts(wicked)


def test_a_result(result):
    assert f"{result.evaluations:,} evaluations" in texts(result)
    assert "<path" in result._repr_html_()
    first = cp.minimize(lambda w: (float(w @ w), 2 * w), cp.L2(1.0), start=np.zeros(2))
    assert "evaluations" in texts(first)


def test_a_path():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    path = cp.path(X, X[:, 0], "absolute", [1e-1, 1e-2, 1e-3])
    shown = texts(path)
    assert all(f"{own.objective:.6g}" in shown for own in path.certificates)
    assert path._repr_html_().count("<path") == 2
