"""Torch modules as risks: derivatives, batches, parts, the module itself, bad modules."""

import builtins
import subprocess
import sys

import numpy as np
import pytest

import cutplane as cp
from cutplane.core.fingerprint import fingerprints_of_parts
from cutplane.models.networks.network import TorchUnavailable
from cutplane.testing import check_risk

torch = pytest.importorskip("torch", reason="torch is not installed: the extra cutplane[torch]")

rng = np.random.default_rng(0)
X, Y = rng.normal(size=(41, 5)), rng.integers(0, 3, size=41)


def network(seed=0):
    torch.manual_seed(seed)
    return torch.nn.Sequential(
        torch.nn.Linear(5, 4), torch.nn.Sigmoid(), torch.nn.Dropout(), torch.nn.Linear(4, 3)
    )


def risk_of(module=None, loss=torch.nn.functional.cross_entropy, **options):
    module = network() if module is None else module
    return cp.TorchRisk(module, (X, Y), loss, **{"convex": False, "lower_bound": 0.0} | options)


def absolute(w, x):
    return (x @ w).abs()


@pytest.mark.parametrize("batch", [1, 7, 1000])
@pytest.mark.parametrize(
    "loss",
    [torch.nn.functional.cross_entropy, torch.nn.CrossEntropyLoss(reduction="none")],
    ids=["mean", "each"],
)
def test_passes_the_checks(loss, batch):
    risk = risk_of(loss=loss, batch=batch)
    assert "subgradients agree" in str(check_risk(risk, around=risk.start, n_points=4))


def test_single_precision_passes_with_its_rounding():
    risk = risk_of(dtype=torch.float32, batch=10)
    check_risk(risk, around=risk.start, n_points=4, rounding=1e-5)
    assert risk.at(risk.start).value == pytest.approx(risk_of().at(risk.start).value, rel=1e-6)


def test_agrees_with_torch():
    module = network().double().eval()
    value = torch.nn.functional.cross_entropy(module(torch.tensor(X)), torch.tensor(Y))
    value.backward()
    slope = np.concatenate([each.grad.numpy().ravel() for each in module.parameters()])
    risk = risk_of(batch=6)
    point = risk.at(risk.start)
    assert point.value == pytest.approx(value.item(), rel=1e-12)
    np.testing.assert_allclose(point.plane().slope, slope, atol=1e-14)


def test_a_function_may_be_convex():
    risk = cp.TorchRisk(absolute, (X, None), n_parameters=5, convex=True, lower_bound=0.0)
    assert "convex: chords above" in str(check_risk(risk, n_points=5))
    result = cp.minimize(risk, cp.L2(0.1, center=np.ones(5)))
    assert result.certificate.valid
    assert result.status == "optimal"


@pytest.mark.parametrize(("convex", "method"), [(None, cp.bmrm), (None, cp.nrbm), (False, None)])
def test_what_is_claimed_is_what_was_said(convex, method):
    risk = risk_of(convex=convex)
    result = cp.minimize(
        risk, cp.L2(1.0, center=risk.start), method=method and method(), start=risk.start
    )
    assumed = convex is None and method is cp.bmrm
    assert result.certificate.valid is assumed
    assert ("as was assumed" in result.certificate.reason) is assumed
    if not assumed:
        assert result.status == "stationary"


def test_threads_and_repeated_evaluations_give_the_same_bits():
    points = []
    for n_threads in (1, 2, 3, 1):
        risk = risk_of(batch=4, n_threads=n_threads)
        points.append(risk.at(risk.start + 0.1))
    assert len({point.value.hex() for point in points}) == 1
    assert len({point.plane().slope.tobytes() for point in points}) == 1


def test_torch_keeps_its_number_of_threads():
    before = torch.get_num_threads()
    risk_of(batch=4).at(risk_of().start)
    assert torch.get_num_threads() == before


def test_the_module_stays_as_it_is_until_it_is_written():
    module = network()
    before = [each.detach().clone() for each in module.parameters()]
    risk = risk_of(module)
    risk.at(risk.start + 1.0)
    assert module.training
    assert all((a == b).all() for a, b in zip(before, module.parameters(), strict=True))
    assert all(each.grad is None for each in module.parameters())
    w = np.arange(risk.n_parameters) / 7.0
    assert risk.write_back(w) is module
    written = np.concatenate([each.detach().numpy().ravel() for each in module.parameters()])
    np.testing.assert_allclose(written, w, rtol=1e-6)
    with pytest.raises(ValueError, match="w must have length 39, got shape"):
        risk.write_back(w[:3])


def test_frozen_parameters_and_buffers_are_constants():
    module = torch.nn.Sequential(
        torch.nn.Linear(5, 4), torch.nn.BatchNorm1d(4), torch.nn.Tanh(), torch.nn.Linear(4, 3)
    )
    module[0].requires_grad_(False)
    risk = risk_of(module)
    assert risk.n_parameters == 4 + 4 + 12 + 3
    statistics = module[1].running_mean.clone()
    check_risk(risk, around=risk.start, n_points=3)
    assert (module[1].running_mean == statistics).all()


def test_parts_add_up():
    risk = risk_of(loss=torch.nn.CrossEntropyLoss(reduction="none"), weights=1.0 + rng.random(41))
    w = risk.start + 0.3
    halves = [np.arange(0, 20), np.arange(20, 41)]
    whole = sum(risk.weights[half].sum() * risk.part(half).at(w).value for half in halves)
    assert whole == pytest.approx(risk.at(w).value, rel=1e-12)
    assert risk.part(slice(0, 1)).n_examples == 1
    assert risk.part(halves[0]).evaluations == 0
    with pytest.raises(ValueError, match="at least one example"):
        risk.part(slice(0, 0))


def test_several_inputs():
    def product(w, left, right):
        return ((left * right) @ w - 1.0) ** 2

    risk = cp.TorchRisk(product, ((X, X[::-1]), None), n_parameters=5, convex=True)
    value = np.mean(((X * X[::-1]) @ np.ones(5) - 1.0) ** 2)
    assert risk.at(np.ones(5)).value == pytest.approx(value, rel=1e-12)


def test_the_same_risk_is_recognized_and_another_is_not():
    def parts(**options):
        return fingerprints_of_parts(risk_of(**options), portable=True)

    assert parts() == parts()
    assert parts(module=network(1)) == parts()  # where it starts is no part of the problem
    other = torch.nn.Sequential(torch.nn.Linear(5, 4), torch.nn.Tanh(), torch.nn.Linear(4, 3))
    assert parts(module=other)["module"] != parts()["module"]
    smoothed = torch.nn.CrossEntropyLoss(label_smoothing=0.1)
    assert parts(loss=smoothed)["loss"] != parts(loss=torch.nn.CrossEntropyLoss())["loss"]


class Broken(torch.nn.Module):
    def __init__(self, value):
        super().__init__()
        self.w = torch.nn.Parameter(torch.zeros(2))
        self.value = value

    def forward(self, x):
        return x[:, :2] @ self.w + self.value


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (float("nan"), "the loss of Broken is nan at evaluation 1, at a point of norm 0"),
        (-float("inf"), "the loss of Broken is -inf at evaluation 1"),
    ],
)
def test_what_is_not_finite_is_said_in_one_line(value, said):
    risk = cp.TorchRisk(Broken(value), (X, None), lower_bound=-np.inf)
    with pytest.raises(cp.NonFiniteRisk, match=said) as raised:
        risk.at(np.zeros(2))
    assert "\n" not in str(raised.value)


def test_a_gradient_that_is_not_finite():
    def root(w, x):
        return w.abs().sum().sqrt() + 0.0 * x

    risk = cp.TorchRisk(root, (X[:, 0], None), n_parameters=2)
    with pytest.raises(cp.NonFiniteRisk, match=r"gradient of root\(\) has 2 of 2 entries"):
        risk.at(np.zeros(2))


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: risk_of(torch.nn.ReLU()), "ReLU has no parameters to learn"),
        (lambda: cp.TorchRisk(3, (X, Y)), "must be a torch.nn.Module or a function, got 3"),
        (lambda: cp.TorchRisk(absolute, (X, None)), r"absolute\(\) needs n_parameters"),
        (lambda: cp.TorchRisk(network(), X), "data must be a pair"),
        (lambda: cp.TorchRisk(network(), (X, Y[:3])), "must have the same rows"),
        (lambda: cp.TorchRisk(network(), (["a"], [1])), "inputs must be numbers"),
        (lambda: risk_of(n_parameters=3), "a module knows its own"),
        (lambda: risk_of(batch=0), "batch must be at least 1"),
        (lambda: risk_of(dtype=torch.int32), "dtype must be torch.float32 or torch.float64"),
        (lambda: risk_of().at(np.zeros(3)), "w must have length 39, as many as Sequential has"),
        (lambda: risk_of(loss=lambda z, y: z).at(risk_of().start), "must be a number, or one for"),
        (lambda: risk_of(weights=np.ones(41)).at(risk_of().start), 'reduction="none"'),
        (
            lambda: cp.TorchRisk(absolute, (X, None), n_parameters=5).write_back(np.ones(5)),
            "is a function",
        ),
    ],
)
def test_bad_input(make, said):
    with pytest.raises((TypeError, ValueError), match=said):
        make()


def test_errors_of_the_module_tell_where():
    def fails(w, x):
        raise RuntimeError("no luck")

    risk = cp.TorchRisk(fails, (X, None), n_parameters=2)
    with pytest.raises(RuntimeError, match="no luck") as raised:
        risk.at(np.zeros(2))
    assert "raised by fails() at evaluation 1" in raised.value.__notes__[0]


def test_without_torch_there_is_a_hint(monkeypatch):
    real = builtins.__import__

    def without(name, *arguments, **options):
        if name == "torch":
            raise ImportError("no module named torch")
        return real(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(TorchUnavailable, match=r'pip install "cutplane\[torch\]"'):
        cp.TorchRisk(absolute, (X, None), n_parameters=5)


def test_torch_is_imported_only_when_it_is_used():
    code = (
        "import sys, cutplane as cp; cp.TorchRisk, cp.TorchScores, cp.NeuralFeatures(); "
        "cp.SequenceTagger().fit([[[0.0], [1.0]]], [[0, 1]]); assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_stochastic_steps_find_it_too():
    risk = risk_of()
    run = cp.solvers.sgd(risk, cp.L2(0.1, center=risk.start), passes=3, batch_size=4)
    assert run.objective < risk.at(risk.start).value
