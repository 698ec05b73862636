"""scikit-learn's own checks, without a single expected failure."""

from sklearn.utils.estimator_checks import parametrize_with_checks

from cutplane import LinearClassifier, LinearClassifierCV, LinearRegressor, LinearRegressorCV
from cutplane.losses import CLASSIFICATION, REGRESSION

# The defaults pass as they are. For the other losses one check (weights against repeated examples)
# compares predictions to 1e-7, while an objective within `gap` of the optimum fixes the parameters
# only to sqrt(2 * gap / lam): so they are fitted tightly, and with more regularization.
TIGHT = {"lam": 0.1, "tol": 1e-9}

QUICK = {"lams": [1.0, 0.1], "cv": 2, "tol": 1e-9}


@parametrize_with_checks(
    [
        LinearClassifier(),
        *(LinearClassifier(loss, **TIGHT) for loss in CLASSIFICATION if loss != "hinge"),
        LinearClassifier(multi_class="crammer_singer", **TIGHT),
        LinearClassifier("logistic", multi_class="softmax", **TIGHT),
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
    ]
)
def test_estimator_checks(estimator, check):
    check(estimator)
