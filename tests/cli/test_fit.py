"""``cutplane fit``: results, files, exit codes."""

import json
import sys
import warnings

import numpy as np
import pytest

import cutplane as cp
from cutplane.core.certificate import percent
from cutplane.io import load_model, read_svmlight, read_trace, split_runs
from cutplane.losses import CLASSIFICATION, REGRESSION
from cutplane.report.words import certificate_in_words

FIELDS = {
    "objective", "lower_bound", "gap", "relative_gap", "status", "evaluations", "iterations",
    "seconds", "n_samples", "n_features", "loss", "lam", "tol", "planes",
}  # fmt: skip


def strict_json(text):
    """Parse what must be exactly one JSON object in one line, without NaN and Infinity."""
    (line,) = text.splitlines()
    return json.loads(line, parse_constant=pytest.fail)


def test_json_holds_the_certificate(run, two_classes):
    result = run("fit", two_classes, "--lam", 0.01, "--tol", 1e-4, "--json")
    assert result.exit_code == 0
    report = strict_json(result.stdout)
    assert set(report) >= FIELDS
    assert report["status"] == "optimal"
    assert report["relative_gap"] <= 1e-4
    assert report["gap"] == pytest.approx(report["objective"] - report["lower_bound"])
    assert (report["n_samples"], report["n_features"]) == (60, 4)
    assert (report["loss"], report["lam"], report["tol"]) == ("hinge", 0.01, 1e-4)
    assert report["evaluations"] >= report["iterations"] >= 1
    assert report["planes"] >= 1


def test_json_agrees_with_the_estimator(run, two_classes):
    report = strict_json(run("fit", two_classes, "--lam", 0.01, "--json", "-q").stdout)
    X, y, _ = read_svmlight(two_classes)
    fitted = cp.LinearClassifier(lam=0.01).fit(X, y)
    assert report["objective"] == fitted.certificate_.objective
    assert report["lower_bound"] == fitted.certificate_.lower_bound


def test_words_end_with_the_certificate(run, two_classes):
    result = run("fit", two_classes, "--lam", 0.01)
    assert result.exit_code == 0
    assert "60 samples, 4 features, 2 classes (-1, 1)" in result.stdout
    *_, bound, last = result.stdout.splitlines()
    assert bound.startswith("Certificate: no weights can bring the objective below 0.")
    assert last.endswith("of the best possible.")


def test_progress_goes_to_standard_error_and_quiet_silences_it(run, two_classes):
    loud = run("fit", two_classes, "--lam", 0.01, "--json")
    assert loud.stderr.split()[:2] == ["iteration", "objective"]
    quiet = run("fit", two_classes, "--lam", 0.01, "--quiet")
    assert quiet.exit_code == 0
    assert quiet.output == ""


def test_more_than_two_classes(run, three_classes):
    result = run("fit", three_classes, "--lam", 0.01, "--json", "-q")
    report = strict_json(result.stdout)
    assert result.exit_code == 0
    parts = report["classes"]
    assert [part["label"] for part in parts] == [0, 1, 2]
    for bound in ("objective", "lower_bound"):
        assert report[bound] == pytest.approx(np.mean([part[bound] for part in parts]))
    for count in ("iterations", "planes"):
        assert report[count] == sum(part[count] for part in parts)
    assert {part["status"] for part in parts} == {report["status"]} == {"optimal"}
    words = run("fit", three_classes, "--lam", 0.01).stdout
    assert "means over 3 classes, each against the rest" in words


@pytest.mark.parametrize("arguments", [["--task", "regression"], ["--loss", "squared"]])
def test_regression(run, numbers, tmp_path, arguments):
    model = tmp_path / "model"
    result = run("fit", numbers, *arguments, "--out", model, "--json", "-q")
    assert result.exit_code == 0
    assert strict_json(result.stdout)["estimator"] == "LinearRegressor"
    X, y, _ = read_svmlight(numbers)
    assert load_model(model).score(X, y) > 0.5


@pytest.mark.parametrize("loss", [*CLASSIFICATION, *REGRESSION])
def test_every_loss_can_be_named(run, tmp_path, loss):
    path = tmp_path / "data.svm"
    path.write_text("".join(f"{1 + i % 2} 1:{i % 2 + 0.1 * (i % 5)} 2:1\n" for i in range(40)))
    report = strict_json(run("fit", path, "--loss", loss, "--lam", 0.1, "--json", "-q").stdout)
    assert (report["loss"], report["status"]) == (loss, "optimal")


@pytest.mark.parametrize(
    ("option", "name", "value", "loss"),
    [
        ("--quantile", "quantile", 0.9, "quantile"),
        ("--epsilon", "epsilon", 0.5, "epsilon_insensitive"),
        ("--epsilon", "epsilon", 0.0, "squared_epsilon_insensitive"),
        ("--delta", "delta", 2.0, "huber"),
        ("--C", "C", 3.0, "absolute"),
        ("--max-iter", "max_iter", 77, "absolute"),
        ("--time-limit", "time_limit", 50.0, "absolute"),
        ("--method", "method", "bmrm", "absolute"),
        ("--threads", "n_jobs", 1, "absolute"),
        ("--tol", "tol", 0.01, "absolute"),
    ],
)
def test_options_reach_the_estimator(run, numbers, tmp_path, option, name, value, loss):
    model = tmp_path / "model"
    result = run("fit", numbers, "--loss", loss, option, value, "--out", model, "-q")
    assert result.exit_code == 0
    assert load_model(model).get_params()[name] == value


def test_classification_options_reach_the_estimator(run, two_classes, tmp_path):
    model = tmp_path / "model"
    run("fit", two_classes, "--no-intercept", "--class-weight", "balanced", "--features", 9,
        "--lam", 0.1, "--out", model, "-q")  # fmt: skip
    loaded = load_model(model)
    assert loaded.intercept_ == 0.0
    assert loaded.class_weight == "balanced"
    assert loaded.n_features_in_ == 9


@pytest.mark.parametrize(
    ("loss", "multi_class"), [("hinge", "crammer_singer"), ("logistic", "softmax")]
)
def test_all_classes_at_once_have_one_certificate(run, three_classes, tmp_path, loss, multi_class):
    arguments = ["--loss", loss, "--multi-class", multi_class, "--lam", 0.01]
    model = tmp_path / "model"
    report = strict_json(
        run("fit", three_classes, *arguments, "--out", model, "--json", "-q").stdout
    )
    assert report["status"] == "optimal"
    assert report["multi_class"] == multi_class
    assert "classes" not in report
    assert load_model(model).multi_class == multi_class
    words = run("fit", three_classes, *arguments).stdout
    assert f"{loss} loss, {multi_class}" in words
    assert "against the rest" not in words


def test_standard_input(run, two_classes):
    arguments = ["--lam", 0.01, "--json", "-q"]
    from_file = strict_json(run("fit", two_classes, *arguments).stdout)
    from_stdin = strict_json(run("fit", "-", *arguments, stdin=two_classes.read_bytes()).stdout)
    assert from_stdin["objective"] == from_file["objective"]


# -- missing the tolerance -------------------------------------------------------------------------


def test_iteration_limit_is_one_line_and_exit_code_1(run, two_classes, tmp_path):
    model = tmp_path / "model"
    result = run("fit", two_classes, "--lam", 1e-6, "--tol", 1e-9, "--max-iter", 2,
                 "--out", model, "--json", "-q")  # fmt: skip
    assert result.exit_code == 1
    (line,) = result.stderr.splitlines()
    assert line.startswith("cutplane: ")
    assert "iteration_limit" in line
    report = strict_json(result.stdout)
    assert report["status"] == "iteration_limit"
    assert report["relative_gap"] > 1e-9
    assert load_model(model).certificate_.status == "iteration_limit"


def test_words_say_what_is_proven_all_the_same(run, two_classes):
    result = run("fit", two_classes, "--lam", 1e-6, "--tol", 1e-9, "--max-iter", 5)
    assert result.exit_code == 1
    assert "Tolerance not reached: stopped at the iteration limit." in result.stdout
    assert "What is proven: no weights can bring the objective below" in result.stdout


@pytest.mark.parametrize(
    ("certificate", "said"),
    [
        (cp.Certificate(1.0, 0.0, cp.Status.STALLED, True), "could be better by 100 % at most"),
        (cp.Certificate(1.0, 0.985, cp.Status.TIME_LIMIT, True), "better by 1.5 % at most"),
        (cp.Certificate(1.0, -np.inf, cp.Status.INTERRUPTED, True),
         "Nothing is proven yet: interrupted before there was a bound."),
        (cp.Certificate(1.0, 1.0, cp.Status.OPTIMAL, True), "within 0.0001 % of"),
        (cp.Certificate(1.0, 2.0, cp.Status.INCONSISTENT, False), "Not proven: inconsistent"),
        (cp.Certificate(1.0, 0.9, cp.Status.STATIONARY, False), "nothing is proven"),
    ],
)  # fmt: skip
def test_every_ending_has_its_words(certificate, said):
    assert said in certificate_in_words(certificate)


@pytest.mark.parametrize(
    ("share", "said"),
    [
        (0.0, "0.0001 %"),
        (2.4e-4, "0.024 %"),
        (2.41e-4, "0.025 %"),
        (0.999, "100 %"),
        (3.51, "360 %"),
    ],
)
def test_shares_are_rounded_up(share, said):
    assert percent(share) == said


def test_a_repeated_warning_is_told_once(run, two_classes, monkeypatch):
    def warn_often(self, X, y):
        for _ in range(3):
            warnings.warn("it\noverflows", RuntimeWarning, stacklevel=2)
        return fit(self, X, y)

    fit = cp.LinearClassifier.fit
    monkeypatch.setattr(cp.LinearClassifier, "fit", warn_often)
    result = run("fit", two_classes, "--lam", 0.01, "-q")
    assert result.stderr == "cutplane: it overflows\n"


# -- files -----------------------------------------------------------------------------------------


def test_trace_is_the_history(run, three_classes, tmp_path):
    trace = tmp_path / "run.jsonl"
    report = strict_json(
        run("fit", three_classes, "--lam", 0.01, "--trace", trace, "--json", "-q").stdout
    )
    runs = split_runs(read_trace(trace))
    assert [len(run) for run in runs] == [part["iterations"] for part in report["classes"]]
    assert runs[0][-1].objective == pytest.approx(report["classes"][0]["objective"])


def test_plot(run, two_classes, tmp_path):
    plot = tmp_path / "gap.png"
    assert run("fit", two_classes, "--lam", 0.01, "--plot", plot, "-q").exit_code == 0
    assert plot.read_bytes().startswith(b"\x89PNG")


def test_plot_without_matplotlib_is_refused_before_the_fit(complaint, two_classes, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    said = complaint("fit", two_classes, "--plot", "gap.png")
    assert said == 'plots need matplotlib: pip install "cutplane[plot]"'


@pytest.mark.parametrize("option", ["--out", "--trace", "--plot"])
def test_impossible_outputs_are_found_before_the_data_is_read(complaint, tmp_path, option):
    target = tmp_path / "no" / "file"
    said = complaint("fit", tmp_path / "not even there", option, target)
    assert said == f"{target}: cannot write: no such file or directory"
    assert complaint("fit", "gone", option, tmp_path).endswith("is a directory")
    assert complaint("fit", "gone", option, "-") == f"{option}: needs the name of a file, not -"


def test_files_are_not_written_over(complaint, two_classes, tmp_path):
    before = two_classes.read_bytes()
    link = tmp_path / "link"
    link.symlink_to(two_classes)
    said = complaint("fit", two_classes, "--out", link)
    assert said == f"--out {link}: the same file as {two_classes}"
    other = tmp_path / "other"
    assert complaint("fit", two_classes, "--out", other, "--trace", other).endswith("as --out")
    assert two_classes.read_bytes() == before


def test_bad_data_leaves_no_files(complaint, tmp_path):
    data = tmp_path / "bad.svm"
    data.write_text("1 1:1\n-1 1:x\n")
    said = complaint("fit", data, "--out", tmp_path / "m", "--trace", tmp_path / "t",
                     "--plot", tmp_path / "p")  # fmt: skip
    assert said == f"{data}:2: value 'x' of feature 1 is not a number"
    assert list(tmp_path.iterdir()) == [data]


# -- bad options and labels ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--loss", "hing"], "--loss: unknown name 'hing'; did you mean 'hinge'?"),
        (["--loss", "Squared-Hinge"],
         "--loss: unknown name 'Squared-Hinge'; did you mean 'squared_hinge'?"),
        (["--loss", "zzz"], "--loss: unknown name 'zzz'; choose from hinge, squared_hinge"),
        (["--method", "bmmr"], "--method: unknown name 'bmmr'; did you mean 'bmrm'?"),
        (["--task", "regression", "--loss", "hinge"],
         "--loss hinge is for classification; losses for regression are squared, absolute"),
        (["--lam", 0], "--lam must be positive and finite, not 0"),
        (["--lam", -1], "--lam must be positive and finite, not -1"),
        (["--lam", "nan"], "--lam must be positive and finite, not nan"),
        (["--lam", "inf"], "--lam must be positive and finite, not inf"),
        (["--C", 0], "--C must be positive and finite, not 0"),
        (["--lam", 1, "--C", 1], "give --lam or --C, not both"),
        (["--tol", 0], "--tol must be positive, not 0"),
        (["--tol", -1e-3], "--tol must be positive, not -0.001"),
        (["--max-iter", 0], "--max-iter must be a whole number above 0, not 0"),
        (["--time-limit", 0], "--time-limit must be positive, not 0"),
        (["--threads", 0], "--threads must be -1 or a whole number above 0, not 0"),
        (["--features", 0], "--features must be at least 1, not 0"),
        (["--loss", "quantile", "--quantile", 0],
         "--quantile: a quantile lies strictly between 0 and 1, not 0"),
        (["--loss", "quantile", "--quantile", 1],
         "--quantile: a quantile lies strictly between 0 and 1, not 1"),
        (["--quantile", 0.9], "--quantile has no effect with --loss hinge, only with quantile"),
        (["--loss", "epsilon_insensitive", "--epsilon", -1],
         "--epsilon must be finite and not negative, not -1"),
        (["--loss", "huber", "--delta", 0], "--delta must be positive and finite, not 0"),
        (["--loss", "squared", "--class-weight", "balanced"],
         "--class-weight is not for --task regression"),
        (["--loss", "squared", "--multi-class", "softmax"],
         "--multi-class is for --task classification"),
        (["--multi-class", "softmax"], "--multi-class softmax needs --loss logistic, not hinge"),
        (["--multi-class", "crammer-singer"],
         "--multi-class: unknown name 'crammer-singer'; did you mean 'crammer_singer'?"),
    ],
    ids=lambda value: " ".join(map(str, value)) if isinstance(value, list) else "",
)  # fmt: skip
def test_bad_options(complaint, arguments, said):
    assert complaint("fit", "no such file", *arguments).startswith(said)


@pytest.mark.parametrize("arguments", [["--lamm", 1], ["--lam", "x"], ["--task", "y"], []])
def test_wrong_usage_is_one_line(run, arguments):
    result = run("fit", *(["gone", *arguments] if arguments else []))
    assert result.exit_code == 2
    assert result.stderr.startswith("cutplane: ")
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("content", "arguments", "said"),
    [
        ("3 1:1\n3 1:2\n", [], "all labels are 3; classification needs two classes"),
        ("spam 1:1\n", [], "all labels are spam; classification needs two classes"),
        ("1:1 2:1\n", [], "1: the label is missing (the line starts with '1:1')"),
        ("spam 1:1\nham 1:2\n", ["--task", "regression"],
         "regression needs numbers as labels, not 'spam'"),
        ("1 3:1\n-1 2:1\n", ["--features", 2],
         "1: feature index 3 is beyond the 2 features expected"),
        ("-1 1:1\n2 1:1\n", ["--loss", "poisson"], ""),
    ],
)  # fmt: skip
def test_bad_labels(complaint, tmp_path, content, arguments, said):
    data = tmp_path / "data.svm"
    data.write_text(content)
    complained = complaint("fit", data, *arguments, "-q")
    assert complained.removeprefix(f"{data}:").strip().startswith(said)


@pytest.mark.parametrize("scale", [0.37, 1.0])
def test_measurements_are_not_taken_for_classes(complaint, tmp_path, scale):
    data = tmp_path / "data.svm"
    data.write_text("".join(f"{i * scale} 1:{i}\n" for i in range(1, 41)))
    assert complaint("fit", data) == (
        f"{data}: 40 different labels in 40 lines look like numbers to predict, not classes; "
        "try --task regression (or --task classification if they are)"
    )


def lines_with(labels, *, width=2):
    """Return a file whose labels depend a little on its features."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(len(labels), width))
    return "".join(
        f"{label} " + " ".join(f"{j}:{x:.3f}" for j, x in enumerate(row, 1)) + "\n"
        for label, row in zip(labels, rows, strict=True)
    )


def distinct_labels(n_labels, n_lines):
    return [3 * (k % n_labels) + 25 for k in range(n_lines)]


@pytest.mark.parametrize(
    ("n_labels", "n_lines"),
    [(214, 442), (21, 209), (6, 11), (28, 100), (1000, 5000)],
)
def test_many_whole_numbers_are_not_taken_for_classes(complaint, tmp_path, n_labels, n_lines):
    data = tmp_path / "data.svm"
    data.write_text(lines_with(distinct_labels(n_labels, n_lines)))
    assert complaint("fit", data).startswith(
        f"{data}: {n_labels} different labels in {n_lines} lines look like numbers to predict"
    )
    # A loss for classes is no answer to the question.
    assert "look like numbers" in complaint("fit", data, "--loss", "logistic")


@pytest.mark.parametrize(
    ("n_labels", "n_lines"),
    [(2, 4), (5, 5), (6, 12), (10, 100), (20, 40), (21, 210), (26, 300), (40, 400)],
)
def test_classes_that_repeat_are_classes(run, tmp_path, n_labels, n_lines):
    data = tmp_path / "data.svm"
    data.write_text(lines_with(distinct_labels(n_labels, n_lines)))
    result = run("fit", data, "--lam", 1, "--tol", 0.1, "--json", "-q")
    assert result.exit_code == 0
    if n_labels > 2:
        assert len(json.loads(result.stdout)["classes"]) == n_labels


def test_one_can_insist_on_classes(run, tmp_path):
    data, model = tmp_path / "data.svm", tmp_path / "model"
    data.write_text(lines_with(distinct_labels(30, 60)))
    insist = ["--task", "classification", "--lam", 1, "--tol", 0.1, "-q", "--out", model]
    assert run("fit", data, *insist).exit_code == 0
    assert run("evaluate", model, data).exit_code == 0
    data.write_text(lines_with([k + 0.5 for k in range(30)]))
    assert run("fit", data, *insist).exit_code == 0
    assert run("evaluate", model, data).exit_code == 0
    data.write_text(lines_with(distinct_labels(30, 60)))
    assert run("fit", data, "--task", "regression", "--lam", 1, "-q").exit_code == 0
    assert run("fit", data, "--task", "ordinal", "--lam", 1, "--tol", 0.1, "-q").exit_code == 0


def test_words_that_hardly_repeat(complaint, run, tmp_path):
    data = tmp_path / "data.svm"
    data.write_text(lines_with([f"name{k}" for k in range(30)]))
    assert complaint("fit", data) == (
        f"{data}: 30 different words as labels in 30 lines; "
        "give --task classification if they are classes"
    )
    insist = ["--task", "classification", "--lam", 1, "--tol", 0.1, "-q"]
    assert run("fit", data, *insist).exit_code == 0


def test_labels_that_are_equal_as_numbers_are_not_merged(complaint, tmp_path):
    data = tmp_path / "data.svm"
    data.write_text("9007199254740993 1:1\n9007199254740992 1:2\n" * 2)
    for task in ([], ["--task", "classification"]):
        assert complaint("fit", data, *task) == (
            f"{data}: label 9007199254740992 is too large to tell it from its neighbors; "
            "put a letter before the numbers, so that they are words"
        )


def test_help_names_every_loss(run):
    result = run("fit", "--help")
    assert result.exit_code == 0
    for name in [*CLASSIFICATION, *REGRESSION]:
        assert name in result.stdout


@pytest.mark.parametrize(
    ("options", "loss"),
    [
        (["f1"], cp.FBeta(1.0)),
        (["f_beta", "--beta", 2], cp.FBeta(2.0)),
        (["precision_at_k", "--k", 7], cp.PrecisionAtK(7)),
        (["recall_at_k", "--k", 0.2], cp.RecallAtK(0.2)),
        (["roc_area"], cp.ROCArea()),
    ],
)
def test_measures(run, two_classes, options, loss):
    result = run("fit", two_classes, "--lam", 0.01, "--json", "-q", "--loss", *options)
    assert result.exit_code == 0
    X, y, _ = read_svmlight(two_classes)
    fitted = cp.LinearClassifier(loss, lam=0.01).fit(X, y)
    assert strict_json(result.stdout)["objective"] == fitted.certificate_.objective


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["f1", "--beta", 2], "--beta has no effect with --loss f1, only with f_beta"),
        (["precision_at_k", "--k", 2.5], "--k must be a whole number from 1 on, or a share"),
        (["precision_at_k", "--k", 61], "k is 61, but there are only 60 examples"),
        (["f1", "--class-weight", "balanced"], "FBeta(1) counts examples"),
    ],
)
def test_bad_options_of_measures(run, two_classes, options, message):
    result = run("fit", two_classes, "--loss", *options)
    assert result.exit_code == 2
    assert message in result.stderr


def test_grades(run, three_classes, tmp_path):
    path = tmp_path / "model"
    options = ["--task", "ordinal", "--loss", "logistic", "--lam", 0.01]
    result = run("fit", three_classes, *options, "--out", path, "--json", "-q")
    assert result.exit_code == 0
    X, y, _ = read_svmlight(three_classes)
    model = cp.OrdinalClassifier("logistic", lam=0.01).fit(X, y)
    report = json.loads(result.stdout)
    assert (report["estimator"], report["loss"]) == ("OrdinalClassifier", "logistic")
    assert report["objective"] == model.certificate_.objective
    assert np.array_equal(cp.load_model(path).thresholds_, model.thresholds_)


def test_outliers(run, tmp_path):
    X = np.random.default_rng(0).normal(5.0, 1.0, size=(200, 3))
    data, path = tmp_path / "data.svm", tmp_path / "model"
    lines = [" ".join(f"{j + 1}:{value!r}" for j, value in enumerate(row)) for row in X.tolist()]
    data.write_text("".join(f"0 {line}\n" for line in lines))
    result = run("fit", data, "--task", "novelty", "--nu", 0.1, "--out", path)
    assert result.exit_code == 0
    assert "one_class loss" in result.stdout
    assert np.array_equal(cp.load_model(path).predict(X), cp.NoveltyDetector(0.1).fit(X).predict(X))


@pytest.mark.parametrize(
    ("labels", "options", "said"),
    [
        (["a", "b"], ["--task", "ordinal"], ": ordinal needs numbers as labels, not 'a'"),
        ([1, 1.5], ["--task", "ordinal"], ": grades are whole numbers, not 1.5"),
        ([1, 2], ["--task", "ordinal", "--no-intercept"],
         "--no-intercept is not for --task ordinal"),
        ([1, 2], ["--task", "ranking", "--no-intercept"],
         "--no-intercept is not for --task ranking"),
        ([1, 2], ["--task", "ordinal", "--loss", "f1"],
         "--loss f1 is for classification; losses for ordinal are"),
        ([1, 2], ["--task", "novelty", "--lam", 1], "--lam is not for --task novelty"),
        ([1, 2], ["--task", "novelty", "--nu", 1], "nu lies strictly between 0 and 1, got 1"),
        ([1, 2], ["--nu", 0.5], "--nu has no effect with --loss hinge"),
    ],
)  # fmt: skip
def test_grades_and_outliers_are_refused(complaint, tmp_path, labels, options, said):
    data = tmp_path / "data.svm"
    data.write_text("".join(f"{label} 1:{i + 1}\n" for i, label in enumerate(labels)))
    assert said in complaint("fit", data, *options, "-q")


@pytest.mark.parametrize("task", ["classification", "kernel-classification"])
def test_a_margin_by_share(run, complaint, two_classes, tmp_path, task):
    fit = ["fit", two_classes, "--task", task, "--loss", "nu_hinge", "--out", tmp_path / "model"]
    assert run(*fit, "--nu", 0.4).exit_code == 0
    model = cp.load_model(tmp_path / "model")
    assert (model.nu, model.certificate_.status) == (0.4, "optimal")
    assert "nu=0.7 is infeasible: it can be at most 0.6667" in complaint(*fit, "--nu", 0.7)


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ([], cp.KernelClassifier),
        (["--loss", "logistic"], cp.KernelClassifier),
        (["--loss", "squared"], cp.KernelRegressor),
    ],
    ids=repr,
)
def test_a_kernel_asks_for_a_kernel_machine(run, two_classes, tmp_path, options, kind):
    out = tmp_path / "model"
    assert run("fit", two_classes, "--kernel", "rbf", *options, "--out", out, "-q").exit_code == 0
    assert type(cp.load_model(out)) is kind


def test_options_of_kernels_say_what_they_are_for(complaint, two_classes):
    told = "is not for --task classification, but for kernel-classification and kernel-regression"
    assert f"--landmarks {told}" in complaint("fit", two_classes, "--landmarks", 5)
    # No kernel machine has this loss.
    assert f"--kernel {told}" in complaint("fit", two_classes, "--loss", "f1", "--kernel", "rbf")
