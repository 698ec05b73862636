"""`check_model` finds what is wrong with a model, and says so in one sentence."""

import numpy as np
import pytest

import cutplane as cp
from cutplane.testing import check_model

X, Y = np.array([[1.0, 2.0], [0.5, -1.0], [-1.0, 0.0]]), [0, 1, 2]


class LeavesTheLossOut(cp.MulticlassModel):
    def loss_augmented_inference(self, x, y, w):
        return self.inference(x, w)


class Minimizes(cp.MulticlassModel):
    def inference(self, x, w):
        return super().inference(x, -w)


class SubtractsTheLoss(cp.MulticlassModel):
    def loss_augmented_inference(self, x, y, w):
        return self.classes[np.argmax(self._scores(x, w) - (self.classes != y))]


class ForgetsTheSlack(cp.MulticlassModel):
    def slack_augmented_inference(self, x, y, w):
        return self.classes[np.argmin(self._scores(x, w) * (self.classes != y))]


class LossOfTruth(cp.MulticlassModel):
    def loss(self, y, y_hat):
        return 0.5 + (y != y_hat)


class NegativeLoss(cp.MulticlassModel):
    def loss(self, y, y_hat):
        return 0.0 - (y != y_hat)


class WrongShape(cp.MulticlassModel):
    def joint_feature(self, x, y):
        return np.zeros(2)


class Restless(cp.MulticlassModel):
    calls = 0

    def joint_feature(self, x, y):
        self.calls += 1
        return np.full(self.n_parameters, float(self.calls))


class WritesToWeights(cp.MulticlassModel):
    def inference(self, x, w):
        w *= 2.0
        return super().inference(x, w)


class Invents(cp.MulticlassModel):
    """Finds a class that it does not list."""

    def outputs(self, x):
        return [0, 1]


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (
            LeavesTheLossOut,
            r"has \S+, and what it finds has the best score: does it leave the loss",
        ),
        (Minimizes, "^Minimizes, example 0: inference finds .* with score .*, but .* has .*"),
        (SubtractsTheLoss, r"loss_augmented_inference finds .* with score \+ loss"),
        (ForgetsTheSlack, r"slack_augmented_inference finds .* with loss \* \(1 \+ score"),
        (LossOfTruth, "the loss of the true output is 0.5, not 0"),
        (NegativeLoss, r"the loss of \S+ is -1.0, it must be finite and not negative"),
        (
            WrongShape,
            r"WrongShape, example 0: joint_feature gave shape \(2,\), the model has 6 parameters",
        ),
        (Restless, "is not the same the second time"),
        (WritesToWeights, "inference changes w"),
        (Invents, "which is better than all outputs that were listed"),
    ],
)
def test_wrong_models_are_found(model, message):
    with pytest.raises(AssertionError, match=message) as caught:
        check_model(model(), X, Y)
    assert "\n" not in str(caught.value)


class Unlisted(cp.MulticlassModel):
    outputs = None


class UnlistedLeavesTheLossOut(LeavesTheLossOut):
    outputs = None


def test_without_a_list_of_outputs():
    passed = check_model(Unlisted(), X, Y).passed
    assert "inference finds no worse output than others that are known" in passed
    with pytest.raises(AssertionError, match="loss_augmented_inference finds"):
        check_model(UnlistedLeavesTheLossOut(), X, Y)


def test_a_list_of_outputs_can_be_given():
    passed = check_model(Unlisted(), X, Y, outputs=lambda x: [0, 1, 2]).passed
    assert "inference finds the best of all outputs" in passed


class Inexact(Minimizes):
    exact = False


def test_inexact_inference_is_counted():
    passed = check_model(Inexact(), X, Y, n_trials=10).passed
    assert "inference missed the best 30 times in 30" in passed
    assert "loss_augmented_inference missed the best 0 times in 30" in passed
