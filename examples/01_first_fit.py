"""A first fit: a support vector machine, and the proof of how good it is.

The certificate has the objective of the model and a bound below which no model can be. The fit ends
when the two are closer than ``tol``, relative to the objective.
"""

from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import cutplane as cp

X, y = load_breast_cancer(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)

model = make_pipeline(StandardScaler(), cp.LinearClassifier("hinge", lam=1e-3, tol=1e-4))
model.fit(X_train, y_train)

certificate = model[-1].certificate_
print(certificate)
print(f"test accuracy: {model.score(X_test, y_test):.3f}")

assert certificate.lower_bound <= certificate.objective
assert certificate.relative_gap <= 1e-4
