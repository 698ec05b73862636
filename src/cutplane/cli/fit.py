"""``cutplane fit``: its options; what they ask for is done in `cutplane.cli.fitting`.

Their names, types, defaults and descriptions are those of the constructors, and which of them go
with which task and loss is what the descriptions say. So a new estimator, or a new parameter of
one, is an option without further code. Here are only the names that differ on the command line, and
the checks that deserve a message before any file is read.
"""

from __future__ import annotations

import inspect
import math
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, get_args, get_type_hints

import typer

from cutplane.cli.options import require_at_least_one, require_known
from cutplane.cli.process import compile_notes
from cutplane.estimators import ESTIMATORS, CrossValidation, estimators_by_task
from cutplane.estimators.classifier import MULTI_CLASS
from cutplane.estimators.description import (
    RULES,
    Description,
    Parameter,
    Reads,
    Targets,
    loss_parameters,
    parameters_of,
)
from cutplane.estimators.lams import RULES as SEARCH_RULES
from cutplane.estimators.linear import PENALTIES
from cutplane.io import InputError
from cutplane.io.files import name_of, read_text
from cutplane.io.tables import RARE, SCALES, TableOptions, looks_like_a_table, read_table
from cutplane.models.columns.estimators import MULTI_LABEL
from cutplane.models.speech.estimator import COVARIANCES, TOPOLOGIES
from cutplane.models.tagging.tagger import MEANS, PAIRS
from cutplane.models.tagging.templates import BUILT_IN, parse_templates

if TYPE_CHECKING:
    from cutplane.io.examples import Examples

_NOT_OPTIONS = {
    *("loss", "warm_start", "verbose", "callbacks", "checkpoint", "features", "bounds"),
    "constraints",
}
_SOLVER = ("tol", "max_iter", "time_limit", "method", "n_jobs")
_FLAGS = {"C": "--C", "n_jobs": "--threads", "pos_label": "--positive", "positive": "--nonnegative"}

# Read as text, or with a message of their own, further below.
_IN_WORDS = {"k", "quantiles", "costs"}

_NAMES = {
    "multi_class": [*MULTI_CLASS],
    "multi_label": [*MULTI_LABEL],
    "class_weight": ["balanced"],
    "penalty": [*PENALTIES],
    "mean": [*MEANS],
    "pairs": [*PAIRS],
    "topology": [*TOPOLOGIES],
    "covariance": [*COVARIANCES],
}
_AT_ONCE = [name for name, joint in MULTI_CLASS.items() if joint is not None]
_PANELS = {Reads.SEQUENCES: "Sequences", Reads.FRAMES: "Sequences of vectors"}


class Choice(NamedTuple):
    """What is fitted: the task, its estimator, and the name of the loss."""

    task: str
    estimator: type[Any]
    loss: str
    certain: bool = True  # whether the task was given
    chosen: bool = True  # whether the task or the loss was

    @property
    def description(self) -> Description:
        """The description of the estimator."""
        described: Description = self.estimator.description
        return described

    def read(
        self,
        path: str,
        named: dict[str, Any],
        *,
        features: int | None = None,
        table: TableOptions | None = None,
    ) -> Examples:
        """Read a training file; options that name labels become labels."""
        from cutplane.io.examples import read_examples

        how: dict[str, Any] = {"task": self.task, "certain": self.certain, "chosen": self.chosen}
        return read_examples(
            path, self.estimator, features=features, named=named, table=table, **how
        )

    def make(
        self,
        parameters: Mapping[str, Any],
        search: CrossValidation | None = None,
        certified: float | None = None,
    ) -> Any:
        """Return the estimator, with the command line's defaults and these parameters.

        With a ``search`` it chooses lam: there may be an estimator for that, which can be
        ``certified``.
        """
        loss = {"loss": self.loss} if self.description.losses else {}
        given = {**self.description.defaults, **loss, **parameters}
        if search is None:
            return self.estimator(**given)
        sure = {} if certified is None else {"certified": certified}
        for of in ESTIMATORS.values():
            if of.description.becomes == self.estimator.__name__:
                known = parameters_of(of)
                if "gammas" in known and "gamma" in given:
                    given["gammas"] = [given.pop("gamma")]  # there is nothing to choose
                if set(given) <= set(known):  # all but landmarks, say
                    return of(**given, cv=search.cv, rule=search.rule, **sure)
        return self.estimator(**given, lam=search)


def choose(task: str | None, loss: str | None) -> Choice:
    """Return what is fitted if one or none of task and loss is given; by default the first task."""
    known: dict[str, Any] = estimators_by_task()
    certain = task is not None
    losses = {name: of.description.loss_names for name, of in known.items()}
    if task is not None:
        require_known("--task", task, known)
    if loss is None:
        task = task or next(iter(known))
        described = known[task].description
        first = parameters_of(known[task])["loss"].default if described.losses else ""
        loss = described.only_loss or described.defaults.get("loss", first)
        return Choice(task, known[task], loss, certain, certain)
    require_known("--loss", loss, dict.fromkeys(name for each in losses.values() for name in each))
    meant = next(name for name, names in losses.items() if loss in names)
    if task is not None and loss not in losses[task]:
        raise InputError(
            f"--loss {loss} is for {meant}; losses for {task} are {', '.join(losses[task])}"
        )
    return Choice(task or meant, known[task or meant], loss, certain)


@dataclass(frozen=True)
class FitOption:
    """A parameter of some estimators as an option."""

    name: str
    owners: dict[str, Parameter]  # by the tasks whose estimators have it
    losses: tuple[str, ...]  # those that have it; empty if it is no parameter of losses

    @property
    def type(self) -> Any:
        """The type of its values: text unless they are numbers."""
        kinds = {kind for of in self.owners.values() for kind in (of.type, *get_args(of.type))}
        return next((kind for kind in (float, int, bool) if kind in kinds), str)

    @property
    def flag(self) -> str:
        """Its name on the command line."""
        name = self.name.removeprefix("fit_") if self.type is bool else self.name
        return _FLAGS.get(self.name, f"--{name.replace('_', '-')}")

    def check(self, choice: Choice, value: Any) -> None:
        """Refuse a value that cannot be meant, and one that would silently do nothing."""
        flag = self.flag.replace("--", "--no-", 1) if value is False else self.flag
        # Where there is one loss only, the parameter is the estimator's own, such as nu of novelty.
        own = choice.description.only_loss and choice.task in self.owners
        if self.losses and not own and choice.loss not in self.losses:
            only = " or ".join(self.losses)
            raise InputError(f"{flag} has no effect with --loss {choice.loss}, only with {only}")
        if choice.task not in self.owners:
            (owner, *others) = self.owners
            if not others:
                raise InputError(f"{flag} is for --task {owner}")
            few = f", but for {' and '.join(self.owners)}" if len(self.owners) <= 3 else ""
            raise InputError(f"{flag} is not for --task {choice.task}{few}")
        if wrong := self._what_is_wrong(choice, value):
            shown = f"{value:g}" if isinstance(value, int | float) else repr(value)
            raise InputError(f"{flag}{wrong}, not {shown}")
        if known := self._names([choice.description]):
            require_known(flag, value, known)

    def _what_is_wrong(self, choice: Choice, value: Any) -> str:
        """Return what the rules of estimators and losses say against a value, if anything."""
        if self.name in _IN_WORDS:
            return ""
        is_right, words = RULES.get(self.name, (lambda value: True, ""))
        if not is_right(value):
            # What is None is not given here, and how lam is chosen is an option of its own.
            words = words.removeprefix("None").lstrip(", ").removeprefix("or ")
            return f" must be {words.partition(', or ')[0]}"
        make = choice.description.losses.get(choice.loss)
        if make is None or self.name not in loss_parameters(make):
            return ""
        try:
            make(**{self.name: value})
        except ValueError as error:
            said = str(error).partition(", got")[0]
            return said.removeprefix(self.name) if said.startswith(self.name) else f": {said}"
        return ""

    def _names(self, descriptions: Iterable[Description]) -> list[str]:
        """Return the names that its values must be among; an empty list for other values."""
        if self.name == "method":
            return list(dict.fromkeys(name for of in descriptions for name in of.methods))
        return _NAMES.get(self.name, [])

    def _default(self, known: Mapping[str, Any]) -> str:
        """Return the defaults in words; those of some tasks only, with the names of these."""
        values = {
            task: known[task].description.defaults.get(self.name, owner.default)
            for task, owner in self.owners.items()
        }
        some, shown = None in values.values(), list[str]()
        for task, value in values.items():
            if value is not None:
                text = f"{value:g}" if isinstance(value, float) else str(value)
                shown.append(f"{text} for {task}" if some else text)
        return " or ".join(dict.fromkeys(shown))

    def as_signature(self) -> inspect.Parameter:
        """Return what Typer makes the option of."""
        known = estimators_by_task()
        descriptions = [known[task].description for task in self.owners]
        reads = {of.reads for of in descriptions}
        (only,) = reads if len(reads) == 1 else (Reads.ROWS,)
        panel = "Solver" if self.name in _SOLVER else _PANELS.get(only, "Model")
        if panel == "Model" and all("kernel" in parameters_of(known[task]) for task in self.owners):
            panel = "Kernels"
        elif panel == "Model" and len(self.owners) == 1 and not self.losses:
            panel = f"Task {next(iter(self.owners))}"
        # The first sentences.
        texts = [of.text.replace("``", "").partition(". ")[0] for of in self.owners.values()]
        texts = [f"{text.rstrip('.')}." for text in dict.fromkeys(texts)]
        said = " ".join(texts if self.losses else texts[:1])
        if names := self._names(descriptions):
            said = f"{said} One of {', '.join(names)}."
        if not self.losses and len(self.owners) < len(known):
            said = f"{said} For {', '.join(self.owners)}."
        flag = f"{self.flag}/--no-{self.flag[2:]}" if self.type is bool else self.flag
        default = self._default(known) or False
        option = typer.Option(flag, help=said, rich_help_panel=panel, show_default=default)
        return keyword(self.name, Annotated[self.type | None, option])


def keyword(name: str, hint: Any, default: Any = None) -> inspect.Parameter:
    """Return a parameter of a signature."""
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hint)


def fit_options() -> dict[str, FitOption]:
    """Return the options that the registered estimators have, by their parameters' names."""
    owners: dict[str, dict[str, Parameter]] = {}
    losses: dict[str, dict[str, None]] = {}
    known: dict[str, Any] = estimators_by_task()
    for task, of in known.items():
        for name, parameter in parameters_of(of).items():
            if name not in _NOT_OPTIONS:
                owners.setdefault(name, {})[task] = parameter
                losses.setdefault(name, {}).update(dict.fromkeys(of.description.losses_with(name)))
    return {name: FitOption(name, owners[name], tuple(losses[name])) for name in owners}


def check_parameters(choice: Choice, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of an estimator that were given as options."""
    options = fit_options()
    given = {name: value for name, value in given.items() if value is not None}
    if "lam" in given and "C" in given:
        raise InputError("give --lam or --C, not both")
    for name, value in given.items():
        options[name].check(choice, value)
    joint = MULTI_CLASS.get(given.get("multi_class", ""))
    if joint is not None and choice.loss != joint.extended_name:
        raise InputError(
            f"--multi-class {given['multi_class']} needs --loss {joint.extended_name}, "
            f"not {choice.loss}"
        )
    if "quantiles" in given:
        text = given["quantiles"]
        try:
            quantiles = [float(part) for part in text.split(",")]
        except ValueError:
            quantiles = []
        if not all(0 < quantile < 1 for quantile in quantiles) or not quantiles:
            raise InputError(
                f"--quantiles must be numbers between 0 and 1: 0.1,0.5,0.9; not {text!r}"
            )
        if sorted(set(quantiles)) != quantiles:
            raise InputError(f"--quantiles {text}: they must ascend")
        given["quantiles"] = quantiles
    if "k" in given:
        k, only_count = given["k"], options["k"].owners[choice.task].type is int
        if not 0 < k < 1 and not (k >= 1 and k.is_integer()):
            raise InputError(f"--k must be a whole number from 1 on, or a share below 1, not {k:g}")
        if only_count and k < 1:
            raise InputError(
                f"--k must be a whole number from 1 on for --loss {choice.loss}, not {k:g}"
            )
        given["k"] = k if k < 1 else int(k)
    if "costs" in given:
        if joint is None:
            raise InputError(f"--costs is for --multi-class {' or '.join(_AT_ONCE)}")
        from cutplane.io.examples import read_costs

        given["costs"] = read_costs(given["costs"])
    if "templates" in given:
        given["templates"] = read_templates(given["templates"])
    return given


def check_search(choice: Choice, own: Options, given: Mapping[str, Any]) -> CrossValidation | None:
    """Return how lam is to be chosen, if it is."""
    cv, rule, certified = own.cv, own.rule, own.certified
    if certified is not None and not 0.0 < certified < math.inf:
        raise InputError(f"--certified must be a positive number, not {certified:g}")
    if cv is None:
        if certified is not None:
            raise InputError("--certified is for --cv: it says how sure the choice of lam is")
        if rule is not None:
            raise InputError("--rule is for --cv: it says how lam is chosen")
        return None
    if cv < 2:
        raise InputError(f"--cv must be a number of folds from 2 on, not {cv}")
    if "lam" not in parameters_of(choice.estimator):
        raise InputError(f"--cv chooses lam, which --task {choice.task} does not have")
    for name in ("lam", "C"):
        if name in given:
            raise InputError(f"give --{name} or --cv, not both: --cv chooses lam")
    searching = [
        of.description.becomes for of in ESTIMATORS.values() if "certified" in parameters_of(of)
    ]
    if certified is not None and choice.estimator.__name__ not in searching:
        raise InputError(f"--certified is not for --task {choice.task}")
    names = {name.replace("_", "-"): name for name in SEARCH_RULES}
    if rule is not None:
        require_known("--rule", rule, names)
    return CrossValidation(cv, rule=names[rule or "best"])


def read_templates(name: str) -> str:
    """Return a name of templates that are there, or the text of a file of templates."""
    if name in BUILT_IN and not os.path.exists(name):
        return name
    try:
        text = read_text(name) + "\n"  # so that it is not taken for a name
        parse_templates(text, name_of(name))
    except InputError as error:
        raise InputError(f"--templates {error} (known names: {', '.join(BUILT_IN)})") from None
    except ValueError as error:
        raise InputError(str(error)) from None
    return text


def is_table(options: TableOptions, train: str, description: Description, task: str) -> bool:
    """Return whether the training file is a table; refuse options that do not fit together."""
    if description.reads not in (Reads.ROWS, Reads.QUERIES):
        if options.given:
            raise InputError(f"{options.given[0]} is for tables, which --task {task} does not read")
        return False
    if not options.given and not looks_like_a_table(train):
        return False
    if options.scale is not None:
        require_known("--scale", options.scale, SCALES)
    require_at_least_one("--rare", options.rare)
    if description.reads is Reads.QUERIES and options.query is None:
        raise InputError("--query is missing: the column that says which query a row is of")
    if description.reads is Reads.ROWS and options.query is not None:
        raise InputError(f"--query is for --task ranking, not {task}")
    if description.targets is Targets.NOTHING:
        if options.target:
            raise InputError(f"--task {task} predicts no column: --drop leaves one out")
    elif not options.target:
        there = read_table(train, header=options.header).frame.columns if train != "-" else ()
        columns = f" (columns: {', '.join(there[:8])}{', ...' * (len(there) > 8)})"
        raise InputError(
            f"{name_of(train)} is a table: say which column to predict by --target"
            f"{columns if len(there) else ''}"
        )
    elif len(options.target) > 1 and description.targets is not Targets.LABEL_SETS:
        raise InputError(f"--target: --task {task} predicts one column, not {len(options.target)}")
    return True


def _option(
    panel: str,
    metavar: str | None,
    help: str,
    *flags: str,
    shown: str | bool = True,
    value: Any = None,
) -> Any:
    """Return a field of `Options`: an option, its default, and what is shown in place of that."""
    option = typer.Option(
        *flags, metavar=metavar, help=help, show_default=shown, rich_help_panel=panel
    )
    return field(default=value, metadata={"option": option})


_of_model, _of_tables = partial(_option, "Model"), partial(_option, "Tables")
_of_solver, _of_output = partial(_option, "Solver"), partial(_option, "Output")


def make_fit() -> Callable[..., None]:
    """Return the command, with the options of the estimators that are registered now."""
    known = estimators_by_task()
    tasks = f"{', '.join(known)}; by default as the loss and --kernel."
    losses = [f"For {task}: {', '.join(of.description.loss_names)}." for task, of in known.items()]
    asked = [("task", "TASK", tasks), ("loss", "NAME", " ".join(losses))]
    hints = get_type_hints(Options)

    def fit(train: Train, task: str | None, loss: str | None, **given: Any) -> None:
        """Train a model, and prove how close to optimal it is.

        Exit codes: 0 tolerance met, 1 not met, 2 bad input, 70 a defect of cutplane,
        130 stopped by Ctrl-C (the best model so far is kept).
        """
        from cutplane.cli.fitting import run_fit

        options = Options(**{name: given.pop(name) for name in hints})
        with compile_notes(quiet=options.quiet):
            run_fit(train, task, loss, options, given)

    parameters = [
        inspect.signature(fit, eval_str=True).parameters["train"],
        *(
            keyword(name, Annotated[str | None, _of_model(metavar, said).metadata["option"]])
            for name, metavar, said in asked
        ),
        *(option.as_signature() for option in fit_options().values()),
        *(
            keyword(of.name, Annotated[hints[of.name], of.metadata["option"]], of.default)
            for of in fields(Options)
        ),
    ]
    fit.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return fit


Train = Annotated[
    str,
    typer.Argument(
        metavar="TRAIN",
        help="Data in svmlight format, a table (CSV, TSV, Parquet; give --target), for sequences "
        "in columns; also compressed; - is stdin; or a folder made by convert.",
    ),
]


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options of ``cutplane fit`` besides task, loss, and the parameters of estimators."""

    features: int | None = _of_model(None, "Number of features.", shown="largest index in TRAIN")
    target: list[str] | None = _of_tables(  # noqa: RUF009
        "COLUMN", "Predict this column, a name or a number from 1 on."
    )
    query: str | None = _of_tables("COLUMN", "For ranking: the column that names the query.")
    drop: list[str] | None = _of_tables("COLUMN", "Leave this column out; may be repeated.")  # noqa: RUF009
    text: list[str] | None = _of_tables("COLUMN", "Read this column as words: codes, say.")  # noqa: RUF009
    scale: str | None = _of_tables(
        "NAME", f"How numbers are scaled: {', '.join(SCALES)}.", shown="standard; for novelty none"
    )
    rare: int | None = _of_tables(
        "ROWS", "Group words that occur in fewer than ROWS rows.", shown=str(RARE)
    )
    header: bool = _of_tables(
        None, "Whether the first line names the columns.", "--header/--no-header", value=True
    )
    cv: int | None = _of_solver(
        "FOLDS", "Choose lam by cross-validation with so many folds.", "--cv"
    )
    rule: str | None = _of_solver(
        "NAME",
        "With --cv: take the best lam, or the largest within one-standard-error of it.",
        shown="best",
    )
    certified: float | None = _of_solver(
        "AMOUNT", "With --cv: prove that no lam has an error lower by more than this."
    )
    checkpoint: str | None = _of_solver(
        "DIR", "Keep the state of the fit in this folder; the same command resumes it."
    )
    every: float | None = _of_solver(
        "SECONDS",
        "With --checkpoint: time between two writes.",
        shown="60, or more where writing takes long",
    )
    scheduler: str | None = _of_solver(
        "ADDRESS",
        "Fit on the workers of this Dask scheduler; TRAIN is a folder that they can read.",
    )
    workers: int | None = _of_solver("N", "Fit on this many Dask workers, started here.")
    out: str | None = _of_output("MODEL", "Write the model to this file.")
    trace: str | None = _of_output("JSONL", "Write every iteration to this file.")
    plot: str | None = _of_output(
        "PICTURE",
        "Draw the bounds closing in, or with --cv bounds and scores against lam; PNG, or SVG or "
        "PDF if its name ends so.",
    )
    as_json: bool = _of_output(None, "Print one JSON object.", "--json", value=False)
    quiet: bool = _of_output(None, "Show no progress and no summary.", "--quiet", "-q", value=False)
