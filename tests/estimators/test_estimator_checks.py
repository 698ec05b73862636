"""scikit-learn's own checks. Only measures that count examples have expected failures."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from cutplane import LinearClassifier, LinearClassifierCV, LinearRegressor, LinearRegressorCV
from cutplane.losses import CLASSIFICATION, MEASURES, REGRESSION, NuHinge
from cutplane.models.measures.measures import CountingMeasure

# The defaults pass as they are. For the other losses one check (weights against repeated examples)
# compares predictions to 1e-7, while an objective within `gap` of the optimum fixes the parameters
# only to sqrt(2 * gap / lam): so they are fitted tightly, and with more regularization.
TIGHT = {"lam": 0.1, "tol": 1e-9}

# Half of the examples at the top: the checks ask for a good accuracy on balanced classes.
HALF = {"k": 0.5}

QUICK = {"lams": [1.0, 0.1], "cv": 2, "tol": 1e-9}

WITH_WEIGHTS = (
    "check_sample_weight_equivalence_on_dense_data",
    "check_sample_weight_equivalence_on_sparse_data",
    "check_sample_weights_not_overwritten",
    "check_class_weight_classifiers",
)


def expected_failures(estimator):
    """Return the checks that fail, with the reason."""
    if isinstance(estimator.loss_function(), NuHinge):
        reason = "a class with next to no weight: no nu is feasible"
        return {"check_class_weight_classifiers": reason}
    if not isinstance(estimator.loss_function(), CountingMeasure):
        return {}
    reason = "precision and recall count examples: unequal weights are refused"
    return dict.fromkeys(WITH_WEIGHTS, reason)


# Some checks have labels at random, or words for labels.
@pytest.mark.filterwarnings("ignore::cutplane.ConstantModelWarning")
@pytest.mark.filterwarnings("ignore::cutplane.LabelOrderWarning")
@parametrize_with_checks(
    [
        LinearClassifier(),
        *(LinearClassifier(loss, **TIGHT) for loss in CLASSIFICATION if loss != "hinge"),
        *(
            LinearClassifier(loss, **TIGHT, **(HALF if "_at_k" in loss else {}))
            for loss in MEASURES
        ),
        LinearClassifier("nu_hinge", nu=0.2, **TIGHT),
        LinearRegressor("nu_insensitive", **TIGHT),
        LinearClassifier(multi_class="crammer_singer", **TIGHT),
        LinearClassifier("logistic", multi_class="softmax", **TIGHT),
        LinearClassifier("logistic", penalty="l1", lam=0.01, tol=1e-9),
        LinearClassifier(penalty="elasticnet", bounds=(-5.0, 5.0), lam=0.01, tol=1e-9),
        LinearRegressor(penalty="l1", lam=0.01, tol=1e-9),
        LinearRegressor("huber", penalty="elasticnet", bounds=(-5.0, 5.0), **TIGHT),
        LinearClassifier(method="limited-memory"),
        LinearClassifier(method="bmrm"),
        LinearRegressor(),
        *(
            LinearRegressor(loss, **TIGHT)
            for loss in REGRESSION
            if loss not in ("squared", "poisson")  # the checks have negative targets
        ),
        LinearRegressor("absolute", fit_intercept=False, **TIGHT),
        LinearClassifierCV("squared_hinge", **QUICK),
        LinearRegressorCV("huber", **QUICK),
    ],
    expected_failed_checks=expected_failures,
)
def test_estimator_checks(estimator, check):
    check(estimator)
