"""Plain functions as risks: what they return is checked, and an error keeps what was found."""

import numpy as np
import pytest

import cutplane as cp


def largest(w):
    """The largest of the entries and of 1: known by hand."""
    top = int(np.argmax(w))
    return (w[top], np.eye(len(w))[top]) if w[top] > 1.0 else (1.0, np.zeros(len(w)))


center = np.array([3.0, 2.0, -1.0])


def fail_at(call, error):
    """Return the function above, which raises an error in its n-th call."""
    calls = []

    def function(w):
        calls.append(w)
        if len(calls) == call:
            raise error
        return largest(w)

    return function


def test_bare_function():
    # J(w) = |w - c|^2/2 + max(w): lower the largest entries by one in total.
    result = cp.minimize(largest, cp.L2(1.0), start=np.zeros(3), tol=1e-9)
    assert result.status is cp.Status.OPTIMAL
    assert result.objective == pytest.approx(1.0, rel=1e-8)
    result = cp.minimize(largest, cp.L2(1.0, center=center), tol=1e-9)
    assert result.w == pytest.approx([2.0, 2.0, -1.0], abs=1e-4)
    assert result.objective == pytest.approx(2.5, rel=1e-8)


@pytest.mark.parametrize(
    ("regularizer", "options"),
    [
        (cp.L2(1.0), {"start": np.zeros(3)}),
        (cp.L2(1.0), {"start": [0.0, 0.0, 0.0]}),
        (cp.L2(1.0, center=center), {}),
        (cp.L2(1.0, weights=np.ones(3)), {}),
    ],
)
def test_number_of_parameters_is_known_from(regularizer, options):
    assert cp.minimize(largest, regularizer, **options).w.shape == (3,)


def test_number_of_parameters_is_not_known():
    with pytest.raises(ValueError, match=r"largest\(\) does not tell .* start=np\.zeros\(d\)"):
        cp.minimize(largest, cp.L2(1.0))


def test_neither_risk_nor_function():
    with pytest.raises(TypeError, match=r"risk must be a risk .* got 'hinge'"):
        cp.minimize("hinge", cp.L2(1.0))


def test_function_equals_its_risk():
    bare = cp.minimize(largest, cp.L2(0.1, center=center), tol=1e-6)
    risk = cp.FunctionRisk(largest, 3)
    wrapped = cp.minimize(risk, cp.L2(0.1, center=center), tol=1e-6)
    assert np.array_equal(bare.w, wrapped.w)
    assert bare.certificate == wrapped.certificate
    assert bare.evaluations == wrapped.evaluations == risk.evaluations - 1  # the final check


def test_resume_and_planes_from():
    centered = cp.L2(0.1, center=center)
    first = cp.minimize(largest, centered, max_iter=2)
    whole = cp.minimize(largest, centered, tol=1e-6)
    resumed = cp.minimize(largest, centered, tol=1e-6, resume=first.state)
    assert np.array_equal(resumed.w, whole.w)
    again = cp.minimize(largest, cp.L2(0.1), planes_from=whole.state)
    assert again.status is cp.Status.OPTIMAL


def test_lower_bound_and_convexity_are_used():
    risk = cp.FunctionRisk(largest, 3, lower_bound=1.0)
    assert cp.minimize(risk, cp.L2(1.0)).certificate.lower_bound == pytest.approx(1.0)
    bent = cp.FunctionRisk(largest, 3, convex=False)
    assert not cp.minimize(bent, cp.L2(1.0)).certificate.valid


def test_function_may_write_to_its_argument_and_reuse_its_answer():
    answer = np.zeros(3)

    def careless(w):
        value, answer[:] = largest(w)
        w[:] = np.nan
        return value, answer

    result = cp.minimize(careless, cp.L2(1.0, center=center), tol=1e-9)
    assert result.objective == pytest.approx(2.5, rel=1e-8)


@pytest.mark.parametrize(
    ("answer", "error", "message"),
    [
        (None, TypeError, r"must return \(value, subgradient\), returned None"),
        (1.0, TypeError, r"must return \(value, subgradient\), returned 1.0"),
        ((1.0, np.zeros(3), 0), TypeError, r"must return \(value, subgradient\)"),
        (("a", np.zeros(3)), TypeError, "must return a number first, returned 'a'"),
        ((1j, np.zeros(3)), TypeError, "must return a number first, returned 1j"),
        ((np.ones(3), np.zeros(3)), TypeError, r"first, returned an array of shape \(3,\)"),
        ((1.0, np.zeros(2)), ValueError, r"a subgradient of shape \(2,\), w has \(3,\)"),
        ((1.0, np.zeros((1, 3))), ValueError, r"a subgradient of shape \(1, 3\)"),
        ((1.0, np.zeros(3, dtype=complex)), TypeError, "dtype complex128"),
        ((1.0, ["a", "b", "c"]), TypeError, "real numbers second"),
        ((np.nan, np.zeros(3)), cp.NonFiniteRisk, "is nan"),
        ((-np.inf, np.zeros(3)), cp.NonFiniteRisk, "is -inf"),
        ((1.0, [0.0, np.nan, np.inf]), cp.NonFiniteRisk, r"2 of 3 entries .*entry 1 is nan"),
    ],
)
def test_wrong_answers_are_named(answer, error, message):
    def oracle(w):
        return answer

    with pytest.raises(error, match=rf"^oracle\(\) .*{message}.* at evaluation 1, at a point of"):
        cp.minimize(oracle, cp.L2(1.0), start=np.zeros(3))


def test_lists_and_integers_will_do():
    result = cp.minimize(lambda w: (np.int64(2), [0, 0]), cp.L2(1.0), start=[1, 1])
    assert result.objective == 2.0


def test_error_in_the_function_keeps_the_result():
    problem, plain = ZeroDivisionError("mine"), cp.bmrm(line_search=False)
    function = fail_at(4, problem)
    with pytest.raises(ZeroDivisionError, match="mine") as caught:
        cp.minimize(function, cp.L2(0.1, center=center), method=plain, tol=1e-9)
    assert caught.value is problem
    notes = "\n".join(problem.__notes__)
    assert "raised by function() at evaluation 4, at a point of norm" in notes
    assert "iteration 2 of minimize" in notes
    result = problem.result
    assert result.status is cp.Status.FAILED
    assert not result.status.success
    assert result.iterations == 2
    assert result.evaluations == 4
    # The bounds hold, and the run can go on.
    whole = cp.minimize(largest, cp.L2(0.1, center=center), method=plain, tol=1e-9)
    certificate = result.certificate
    assert certificate.valid
    assert certificate.lower_bound <= whole.objective <= certificate.objective
    value = cp.L2(0.1, center=center).value(result.w) + largest(result.w)[0]
    assert certificate.objective == value
    options = {"method": plain, "tol": 1e-9, "resume": result.state}
    again = cp.minimize(function, cp.L2(0.1, center=center), **options)
    assert np.array_equal(again.w, whole.w)
    assert again.evaluations == whole.evaluations + 1
    # Nobody knows whether another function has the same values.
    with pytest.raises(ValueError, match=r"on another risk \(not the same: function"):
        cp.minimize(largest, cp.L2(0.1, center=center), **options)


def test_error_in_the_final_check_keeps_the_result():
    whole = cp.minimize(largest, cp.L2(0.1, center=center))
    problem = OSError("gone")
    with pytest.raises(OSError, match="gone"):
        cp.minimize(fail_at(whole.evaluations + 1, problem), cp.L2(0.1, center=center))
    assert np.array_equal(problem.result.w, whole.w)
    assert problem.result.status is cp.Status.FAILED


def test_error_at_the_first_point_is_only_raised():
    problem = ZeroDivisionError("mine")
    with pytest.raises(ZeroDivisionError, match=r"^mine"):
        cp.minimize(fail_at(1, problem), cp.L2(1.0), start=np.zeros(3))
    assert not hasattr(problem, "result")


def test_nan_later_on_keeps_the_result():
    calls = []

    def oracle(w):
        calls.append(w)
        return (np.nan, w) if len(calls) == 3 else largest(w)

    with pytest.raises(cp.NonFiniteRisk, match="at evaluation 3") as caught:
        cp.minimize(oracle, cp.L2(0.1, center=center), tol=1e-9)
    assert caught.value.result.evaluations == 3
    assert caught.value.result.certificate.valid


def test_infinite_values_are_refused_where_a_plane_is_needed():
    def logarithm(w):
        return (-np.log(w[0]), -1.0 / w) if w[0] > 0 else (np.inf, np.full(1, np.nan))

    with pytest.raises(cp.NonFiniteRisk, match="the risk is inf"):
        cp.minimize(logarithm, cp.L2(1.0), start=np.zeros(1))


@pytest.mark.parametrize(
    ("arguments", "options", "error", "message"),
    [
        ((3, 3), {}, TypeError, "function must be callable"),
        ((largest, 0), {}, ValueError, "at least 1 parameter"),
        ((largest, 3), {"lower_bound": np.nan}, ValueError, "lower_bound must be"),
        ((largest, 3), {"lower_bound": np.inf}, ValueError, "lower_bound must be"),
    ],
)
def test_wrong_arguments(arguments, options, error, message):
    with pytest.raises(error, match=message):
        cp.FunctionRisk(*arguments, **options)


def test_words():
    assert repr(cp.FunctionRisk(largest, 3)) == "FunctionRisk(largest(), 3 parameters)"
    assert (
        repr(cp.FunctionRisk(lambda w: (0.0, w), 2)) == "FunctionRisk(the function, 2 parameters)"
    )
