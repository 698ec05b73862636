"""What the options of ``cutplane fit`` mean together, and which combinations are refused."""

from __future__ import annotations

from enum import StrEnum

from cutplane.cli.options import require_at_least_one, require_known, require_positive
from cutplane.estimators.methods import METHODS, TAGGER_METHODS
from cutplane.estimators.multi_class import MULTI_CLASS
from cutplane.estimators.tagger import LOSSES
from cutplane.io import InputError
from cutplane.losses import CLASSIFICATION, MEASURES, RANKING, REGRESSION

ONE_CLASS = "one_class"
"""The only loss for novelty; the detector itself has no choice of losses."""


class Task(StrEnum):
    """What is to be predicted."""

    CLASSIFICATION = "classification"
    REGRESSION = "regression"
    ORDINAL = "ordinal"
    NOVELTY = "novelty"
    RANKING = "ranking"
    SEQUENCES = "sequences"


class ClassWeight(StrEnum):
    """How much the classes count."""

    BALANCED = "balanced"


_LOSSES = {
    Task.CLASSIFICATION: [*CLASSIFICATION, *MEASURES],
    Task.REGRESSION: [*REGRESSION],
    Task.ORDINAL: [*CLASSIFICATION],
    Task.NOVELTY: [ONE_CLASS],
    Task.RANKING: [*RANKING],
    Task.SEQUENCES: [*LOSSES],
}
_DEFAULT_LOSSES = {
    Task.CLASSIFICATION: "hinge",
    Task.REGRESSION: "squared",
    Task.ORDINAL: "hinge",
    Task.NOVELTY: ONE_CLASS,
    Task.RANKING: "pairwise",
    Task.SEQUENCES: "crf",
}

# With another loss than these, the option would silently do nothing.
_LOSSES_WITH = {
    "--quantile": ("quantile",),
    "--epsilon": ("epsilon_insensitive", "squared_epsilon_insensitive"),
    "--delta": ("huber",),
    "--smoothing": ("smooth_hinge",),
    "--beta": ("f_beta",),
    "--k": ("precision_at_k", "recall_at_k", "ndcg", "ndcg_list"),
    "--nu": (ONE_CLASS,),
}


def task_and_loss(task: Task | None, loss: str | None) -> tuple[Task, str]:
    """Return both when one or none is given; classification with the hinge loss by default."""
    if loss is None:
        task = task or Task.CLASSIFICATION
        return task, _DEFAULT_LOSSES[task]
    require_known("--loss", loss, [name for names in _LOSSES.values() for name in names])
    if task is not None and loss in _LOSSES[task]:
        return task, loss
    meant = next(task for task, names in _LOSSES.items() if loss in names)
    if task is not None:
        choices = ", ".join(_LOSSES[task])
        raise InputError(f"--loss {loss} is for {meant}; losses for {task} are {choices}")
    return meant, loss


def check_class_options(
    task: Task,
    loss: str,
    *,
    class_weight: ClassWeight | None,
    multi_class: str | None,
    positive: str | None,
) -> None:
    """Refuse options for classes where there are none, or that do not go with the loss."""
    given = {
        "--class-weight": class_weight,
        "--multi-class": multi_class,
        "--positive": positive,
    }
    for option, value in given.items():
        if value is not None and task is not Task.CLASSIFICATION:
            raise InputError(f"{option} is for classification")
    if multi_class is not None:
        require_known("--multi-class", multi_class, MULTI_CLASS)
        joint = MULTI_CLASS[multi_class]
        if joint is not None and loss != joint.extended_name:
            raise InputError(
                f"--multi-class {multi_class} needs --loss {joint.extended_name}, not {loss}"
            )


def check_method(task: Task, method: str | None) -> None:
    """Refuse a method that is not there for the task."""
    if method is not None:
        require_known("--method", method, TAGGER_METHODS if task is Task.SEQUENCES else METHODS)


def check_row_options(
    task: Task, *, intercept: bool, features: int | None, lam: float | None, c: float | None
) -> None:
    """Refuse options that mean nothing for the task, and would silently do nothing."""
    require_at_least_one("--features", features)
    given = {
        "--features": (features is not None, {Task.SEQUENCES}),
        "--no-intercept": (
            not intercept,
            {Task.SEQUENCES, Task.ORDINAL, Task.NOVELTY, Task.RANKING},
        ),
        "--lam": (lam is not None, {Task.NOVELTY}),
        "--C": (c is not None, {Task.NOVELTY}),
    }
    for option, (is_given, meaningless) in given.items():
        if is_given and task in meaningless:
            raise InputError(f"{option} is not for --task {task}")


def check_solver_options(
    *,
    lam: float | None,
    c: float | None,
    tol: float,
    max_iter: int,
    time_limit: float | None,
) -> None:
    """Refuse numbers with which no run can start."""
    if lam is not None and c is not None:
        raise InputError("give --lam or --C, not both")
    require_positive("--lam", lam)
    require_positive("--C", c)
    require_positive("--tol", tol)
    require_positive("--time-limit", time_limit)
    require_at_least_one("--max-iter", max_iter)


def check_loss_options(
    loss: str,
    *,
    quantile: float | None,
    epsilon: float | None,
    delta: float | None,
    smoothing: float | None,
    beta: float | None,
    k: float | None,
    nu: float | None,
) -> None:
    """Refuse parameters of a loss that are out of range, or that belong to another loss."""
    given = {
        "--quantile": quantile,
        "--epsilon": epsilon,
        "--delta": delta,
        "--smoothing": smoothing,
        "--beta": beta,
        "--k": k,
        "--nu": nu,
    }
    for option, value in given.items():
        losses = _LOSSES_WITH[option]
        if value is not None and loss not in losses:
            only = " or ".join(losses)
            raise InputError(f"{option} has no effect with --loss {loss}, only with {only}")
    for option, share in {"--quantile": quantile, "--nu": nu}.items():
        if share is not None and not 0 < share < 1:
            raise InputError(f"{option} must be between 0 and 1, not {share:g}")
    if epsilon != 0:
        require_positive("--epsilon", epsilon)
    require_positive("--delta", delta)
    require_positive("--smoothing", smoothing)
    require_positive("--beta", beta)
    if k is not None and not 0 < k < 1 and not (k >= 1 and k.is_integer()):
        raise InputError(f"--k must be a whole number from 1 on, or a share below 1, not {k:g}")
    if loss in ("ndcg", "ndcg_list") and k is not None and k < 1:
        raise InputError(f"--k must be a whole number from 1 on for --loss {loss}, not {k:g}")
