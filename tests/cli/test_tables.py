"""Tables on the command line: from a file with words and gaps to a model and its predictions."""

import builtins
import gzip
import json

import numpy as np
import pytest

import cutplane as cp
from cutplane.estimators import estimators_by_task
from cutplane.estimators.description import Reads, Targets

pd = pytest.importorskip("pandas")
N = 120


def make_people(seed=0):
    """Return a table of numbers, words and gaps, whose income has to do with them."""
    rng = np.random.default_rng(seed)
    age, hours = rng.normal(40, 10, N), rng.normal(35, 5, N)
    job = rng.choice(["cook", "nurse", "pilot", "diver"], N, p=[0.5, 0.4, 0.08, 0.02])
    score = (age - 40) / 10 + (job == "nurse") + 0.2 * rng.normal(size=N)
    frame = pd.DataFrame({"age": age.round(1), "job": job, "hours": hours.round(2)})
    frame["town"] = rng.choice(["Rome", "Oslo", None], N)
    frame["income"] = np.where(score > 0.4, "high", "low")
    frame["pay"] = (1000 + 200 * score).round(2)
    frame["grade"] = np.digitize(score, [0.0, 1.0]) + 1
    frame["query"] = np.arange(N) // 10
    frame.loc[::9, "age"] = np.nan
    return frame


@pytest.fixture
def people(tmp_path):
    path = tmp_path / "people.csv"
    make_people()[["age", "job", "hours", "town", "income"]].to_csv(path, index=False)
    return path


@pytest.fixture
def model(run, people, tmp_path):
    path = tmp_path / "people.model"
    result = run("fit", people, "--target", "income", "--lam", 0.01, "--out", path, "-q")
    assert result.exit_code == 0, result.stderr
    return path


def test_fit_predict_evaluate(run, people, model):
    predicted = run("predict", model, people).stdout.split()
    frame = pd.read_csv(people)
    assert np.mean(np.array(predicted) == frame["income"]) > 0.85
    report = json.loads(run("evaluate", model, people, "--json").stdout)
    assert report["accuracy"] == pytest.approx(np.mean(np.array(predicted) == frame["income"]))
    fitted = json.loads(
        run("fit", people, "--target", "income", "--lam", 0.01, "--json", "-q").stdout
    )
    assert (fitted["n_columns"], fitted["status"]) == (4, "optimal")


def test_the_same_in_python_to_the_last_bit(run, people, model):
    frame = pd.read_csv(people, na_values=["?"]).astype({"town": object})
    loaded = cp.load_model(model)
    scores = [*map(float, run("predict", model, people, "--scores").stdout.split())]
    np.testing.assert_array_equal(loaded.decision_function(frame), scores)


def test_the_summary_counts_columns(run, people):
    said = run("fit", people, "--target", "income", "--lam", 0.1).stdout
    assert "120 samples, 4 columns, 9 features, 2 classes (high, low)" in said


def test_other_formats_say_the_same(run, people, model, tmp_path):
    pytest.importorskip("pyarrow")
    expected = run("predict", model, people).stdout
    frame = pd.read_csv(people)
    frame.to_csv(tmp_path / "people.tsv", sep="\t", index=False)
    frame.to_parquet(tmp_path / "people.parquet")
    (tmp_path / "people.csv.gz").write_bytes(gzip.compress(people.read_bytes()))
    for name in ("people.tsv", "people.parquet", "people.csv.gz"):
        assert run("predict", model, tmp_path / name).stdout == expected
        again = tmp_path / "again.model"
        how = ("--target", "income", "--lam", 0.01, "-q", "--out", again)
        assert run("fit", tmp_path / name, *how).exit_code == 0
        assert run("predict", again, people).stdout == expected


def test_standard_input_without_a_header(run, people, tmp_path):
    header, _, rows = people.read_text().partition("\n")
    path = tmp_path / "by-number.model"
    how = ("--no-header", "--target", 5, "--lam", 0.01, "--out", path, "-q")
    assert run("fit", "-", *how, stdin=rows).exit_code == 0
    expected = run("predict", path, "-", stdin=rows).stdout
    assert len(expected.split()) == N
    unlabeled = "\n".join(line.rpartition(",")[0] for line in rows.splitlines())
    assert run("predict", path, "-", stdin=unlabeled).stdout == expected
    assert header.split(",")[4] == "income"


def test_predictions_need_no_target_and_any_order(run, people, model, tmp_path):
    expected = run("predict", model, people).stdout
    frame = pd.read_csv(people)[["town", "hours", "job", "age"]].assign(shoe="2021-03-04")
    frame.to_csv(tmp_path / "other.csv", index=False)
    assert run("predict", model, tmp_path / "other.csv").stdout == expected


def test_new_words_and_gaps(run, model, tmp_path):
    text = "age,job,hours,town\n?,astronaut,,Paris\n41.5,cook,35,Rome\n"
    (tmp_path / "new.csv").write_text(text)
    assert len(run("predict", model, tmp_path / "new.csv").stdout.split()) == 2


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "age,job,hours\n1,cook,3\n",
            "no column 'town', which the model was fitted to; there are ",
        ),
        ("age,job,hours,town\n1,cook,x,Rome\n", ":2: column 'hours' has numbers, and 'x' is none"),
        ("age,job,hours,town\n1,cook,3\n", ":2: 3 fields, the first line has 4"),
    ],
)
def test_what_does_not_suit_the_model(complaint, model, tmp_path, text, said):
    (tmp_path / "new.csv").write_text(text)
    assert said in complaint("predict", model, tmp_path / "new.csv")


def test_labels_that_are_missing_or_unknown(complaint, model, tmp_path):
    (tmp_path / "new.csv").write_text("age,job,hours,town\n1,cook,3,Rome\n")
    assert "no column 'income'" in complaint("evaluate", model, tmp_path / "new.csv")
    (tmp_path / "new.csv").write_text("age,job,hours,town,income\n1,cook,3,Rome,\n")
    assert ":2: column 'income' is empty here" in complaint("evaluate", model, tmp_path / "new.csv")


def test_which_column_is_asked_for(complaint, people):
    said = complaint("fit", people)
    assert said.endswith(
        "say which column to predict by --target (columns: age, job, hours, town, income)"
    )
    assert "no column 'incom'; there are age" in complaint("fit", people, "--target", "incom")
    said = complaint("fit", people, "--target", "income", "--target", "job")
    assert said == "--target: --task classification predicts one column, not 2"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--scale", "standrad"], "--scale: unknown name 'standrad'; did you mean 'standard'?"),
        (["--rare", 0], "--rare must be at least 1, not 0"),
        (["--features", 3], "--features is for the svmlight format"),
        (["--query", "job"], "--query is for --task ranking, not classification"),
        (["--task", "ranking"], "--query is missing"),
        (["--task", "novelty"], "--task novelty predicts no column"),
        (["--task", "sequences"], "--target is for tables, which --task sequences does not read"),
        (["--drop", "shoe"], "no column 'shoe'"),
    ],
)
def test_options_that_do_not_fit(complaint, people, options, said):
    assert said in complaint("fit", people, "--target", "income", *options)


def test_notes_on_columns(run, people, tmp_path):
    frame = pd.read_csv(people).assign(name=[f"n{k}" for k in range(N)], nothing="")
    frame.to_csv(people, index=False)
    result = run("fit", people, "--target", "income", "--lam", 0.1)
    assert (
        "column 'name' says nothing: each of its 120 levels is in fewer than 5 rows"
        in result.stderr
    )
    assert "column 'nothing' is left out: it is empty" in result.stderr
    result = run("fit", people, "--target", "income", "--lam", 0.1, "--drop", "name", "--json")
    assert json.loads(result.stdout)["n_columns"] == 5
    assert "'name'" not in result.stderr


@pytest.mark.parametrize("scale", ["standard", "robust", "none"])
def test_scales(run, people, tmp_path, scale):
    path = tmp_path / "m"
    how = ("--target", "income", "--lam", 0.01, "--tol", 0.01, "--out", path, "-q")
    assert run("fit", people, *how, "--scale", scale).exit_code == 0
    report = json.loads(run("info", path, "--json").stdout)
    age = report["columns"][0]
    values = pd.read_csv(people)["age"]
    assert age["gaps"] == values.median()
    filled = values.fillna(values.median())
    expected = {
        "standard": (filled.mean(), filled.std(ddof=0)),
        "robust": (filled.median(), filled.quantile(0.75) - filled.quantile(0.25)),
        "none": (None, None),
    }[scale]
    found = age.get("subtract"), age.get("divide_by")
    assert found == expected if scale == "none" else found == pytest.approx(expected)


def test_info(run, model):
    said = run("info", model).stdout
    assert "model      LinearClassifier, hinge loss, lam = 0.01" in said
    assert "predicts   income" in said
    assert "features   9, from 4 columns" in said
    assert "3 levels: Oslo, Rome, (empty)" in said
    assert "1 rare, taken as one" in said
    assert "it is within" in said
    report = json.loads(run("info", model, "--json").stdout)
    words = {entry["column"]: entry for entry in report["columns"] if entry["kind"] == "words"}
    assert words["town"]["levels"] == ["Oslo", "Rome", None]
    assert words["job"]["rare"] == ["diver"]
    largest = report["coefficients"]
    assert {each["feature"] for each in largest} == {
        *("age", "hours", "job=cook", "job=nurse", "job=pilot", "job=(rare)"),
        *("town=Oslo", "town=Rome", "town=(empty)"),
    }
    sizes = [abs(each["coefficient"]) for each in largest]
    assert sizes == sorted(sizes, reverse=True)


def test_info_of_other_models(run, two_classes, three_classes, tmp_path):
    path = tmp_path / "m"
    for data in (two_classes, three_classes):
        assert run("fit", data, "--out", path, "-q").exit_code == 0
        assert "features   4\n" in run("info", path).stdout
    report = json.loads(run("info", path, "--json").stdout)
    assert report["classes"] == [0, 1, 2]


def test_info_says_what_coefficients_must_satisfy(run, tmp_path):
    X = np.random.default_rng(0).normal(size=(40, 3))
    cases = [
        ({"positive": True, "penalty": "l1"}, "penalty l1, none negative"),
        ({"bounds": (None, 0.5)}, "at most 0.5"),
        ({"bounds": ([0.0, -np.inf, 0.0], 1.0)}, "2 lower bounds, at most 1"),
        ({"constraints": (np.ones((1, 3)), 1.0, 1.0)}, "1 linear constraint"),
    ]
    for options, said in cases:
        cp.save_model(cp.LinearRegressor(lam=0.1, **options).fit(X, X.sum(axis=1)), tmp_path / "m")
        assert f"coefs      {said}\n" in run("info", tmp_path / "m").stdout
        report = json.loads(run("info", tmp_path / "m", "--json").stdout)
        assert report.get("constraints") == (1 if "constraints" in options else None)
    assert "lower_bounds" not in report


TABLE_TASKS = [
    task
    for task, of in estimators_by_task().items()
    if of.description.reads in (Reads.ROWS, Reads.QUERIES)
]


@pytest.mark.parametrize("task", TABLE_TASKS)
def test_every_task_of_rows_reads_tables(run, tmp_path, task):
    """No estimator is known by name: what it reads and predicts is in its description."""
    description = estimators_by_task()[task].description
    frame = make_people()
    column = {
        Targets.CLASSES: ["income"],
        Targets.GRADES: ["grade"],
        Targets.NUMBERS: ["pay"],
        Targets.RELEVANCE: ["grade"],
        Targets.LABEL_SETS: ["rich", "old"],
        Targets.NOTHING: [],
    }[description.targets]
    frame["rich"] = (frame["pay"] > 1100).astype(int)
    frame["old"] = (frame["hours"] > 35).astype(int)
    queries = ["query"] if description.reads is Reads.QUERIES else []
    frame = frame[["age", "job", "hours", "town", *column, *queries]]
    if task == "transductive":
        frame.loc[::2, "income"] = "?"
    path, model = tmp_path / "t.csv", tmp_path / "m"
    frame.to_csv(path, index=False)
    how = [part for each in column for part in ("--target", each)]
    how += ["--query", "query"] if queries else []
    result = run("fit", path, "--task", task, *how, "--tol", 0.05, "--out", model, "-q")
    assert result.exit_code == 0, result.stderr
    lines = run("predict", model, path).stdout.splitlines()
    assert len(lines) == N
    without = tmp_path / "w.csv"
    frame[["age", "job", "hours", "town"]].to_csv(without, index=False)
    assert run("predict", model, without).stdout.splitlines() == lines
    if task == "multilabel":
        assert {name for line in lines for name in line.split(",")} <= {"", "rich", "old"}


def test_a_pipeline_from_python_predicts_tables(run, complaint, people, tmp_path):
    from sklearn.compose import make_column_transformer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder

    frame = pd.read_csv(people)
    columns = make_column_transformer(
        (SimpleImputer(), ["age", "hours"]), (OneHotEncoder(), ["job"])
    )
    pipeline = make_pipeline(columns, cp.LinearClassifier(lam=0.01)).fit(frame, frame["income"])
    cp.save_model(pipeline, tmp_path / "m")
    predicted = run("predict", tmp_path / "m", people).stdout.split()
    assert predicted == pipeline.predict(frame).tolist()
    assert "evaluate it there" in complaint("evaluate", tmp_path / "m", people)
    assert "steps      ColumnTransformer" in run("info", tmp_path / "m").stdout


def test_a_pipeline_of_arrays_reads_svmlight(run, numbers, tmp_path):
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import MaxAbsScaler, StandardScaler

    from cutplane.io import read_svmlight

    X, y, _ = read_svmlight(numbers)
    for scaler in (StandardScaler(), MaxAbsScaler()):
        pipeline = make_pipeline(scaler, cp.LinearRegressor(lam=0.1)).fit(X.toarray(), y)
        cp.save_model(pipeline, tmp_path / "m")
        predicted = [*map(float, run("predict", tmp_path / "m", numbers).stdout.split())]
        np.testing.assert_allclose(predicted, pipeline.predict(X.toarray()), rtol=1e-12)
        assert json.loads(run("evaluate", tmp_path / "m", numbers, "--json").stdout)["r2"] > 0.5


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("age,job,income\n31,cook,low\n45,nurse,high\n", "table (age, job, income): say which"),
        ("age\tincome\n31\tlow\n45\thigh\n", "looks like a table (age, income): say which"),
        ("the DT B\ncat NN I\n\ndogs NNS B\nbark VBP I\n", "give --task sequences"),
        ("the\tDT\tB\ncat\tNN\tI\n\na\tDT\tB\n\nb\tc\td\n", "give --task sequences"),
        ("1 qid:1 1:2\n0 qid:1 1:1\n1 qid:2 1:2\n0 qid:2 1:1\n", "--task ranking ranks within"),
    ],
)
def test_files_that_need_an_option_say_which(complaint, tmp_path, text, said):
    (tmp_path / "data.txt").write_text(text)
    assert said in complaint("fit", tmp_path / "data.txt")


def test_other_mistakes_get_no_such_advice(complaint, tmp_path):
    (tmp_path / "data.svm").write_text("1 1:2\n0 1:x\n")
    said = complaint("fit", tmp_path / "data.svm")
    assert said.endswith("data.svm:2: value 'x' of feature 1 is not a number")


def test_queries_are_ignored_if_another_task_is_meant(run, tmp_path):
    path = tmp_path / "data.svm"
    path.write_text("1 qid:1 1:2\n0 qid:1 1:1\n1 qid:2 1:2\n0 qid:2 1:1\n")
    for choice in (["--task", "classification"], ["--loss", "logistic"]):
        assert run("fit", path, *choice, "-q").exit_code == 0


def test_without_pandas(complaint, people, monkeypatch):
    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name == "pandas":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    said = complaint("fit", people, "--target", "income")
    assert said == 'tables need pandas: pip install "cutplane[tables]"'


def test_real_numbers_in_a_table_of_rankings(run, tmp_path):
    frame = make_people()[["hours", "age", "grade", "query"]]
    path, model = tmp_path / "t.csv", tmp_path / "m"
    frame.to_csv(path, index=False)
    how = ("--task", "ranking", "--target", "grade", "--query", "query", "--out", model, "-q")
    assert run("fit", path, *how).exit_code == 0
    report = json.loads(run("evaluate", model, path, "--json").stdout)
    assert report["n_queries"] == 12


def test_lam_by_cross_validation(run, people, tmp_path):
    pytest.importorskip("matplotlib")
    path, picture = tmp_path / "m", tmp_path / "path.svg"
    how = ("--target", "income", "--cv", 3, "--out", path, "--plot", picture)
    result = run("fit", people, *how)
    assert result.exit_code == 0, result.stderr
    assert "lam        of 20, by 3 folds: score " in result.stdout
    assert picture.read_bytes().startswith(b"<?xml")
    report = json.loads(run("info", path, "--json").stdout)
    assert f"lam = {report['lam']:.6g}" in result.stdout


def test_a_proven_lam(run, people, tmp_path):
    pytest.importorskip("matplotlib")
    picture = tmp_path / "proof.svg"
    how = ("--target", "income", "--cv", 3, "--loss", "logistic", "--certified", 0.2)
    result = run("fit", people, *how, "--plot", picture)
    assert result.exit_code == 0, result.stderr
    assert "has one lower by more than 0.2" in result.stdout
    assert picture.read_bytes().startswith(b"<?xml")
    proof = json.loads(run("fit", people, *how, "--json").stdout)["cross_validation"]["proof"]
    assert proof["proven"] <= proof["wanted"] == 0.2


@pytest.mark.parametrize(
    ("how", "message"),
    [
        (("--certified", 0.1), "--certified is for --cv"),
        (("--cv", 3, "--certified", -1), "must be a positive number"),
        (("--cv", 3, "--certified", 0.1, "--task", "ordinal"), "not for --task ordinal"),
    ],
)
def test_a_proof_that_is_refused(run, people, how, message):
    result = run("fit", people, "--target", "income", *how)
    assert result.exit_code == 2
    assert message in result.stderr


def test_kernels_by_cross_validation(run, tmp_path):
    path = tmp_path / "people.csv"
    make_people().to_csv(path, index=False)
    how = (path, "--target", "income", "--task", "kernel-classification", "--cv", 3)
    model = tmp_path / "m"
    for more, kind in (((), "rbf"), (("--kernel", "linear"), "linear")):
        assert run("fit", *how, *more, "--out", model, "-q").exit_code == 0
        assert cp.load_model(model)[-1].kernel == kind
    assert run("fit", *how, "--gamma", 0.5, "--out", model, "-q").exit_code == 0
    assert cp.load_model(model)[-1].gamma == 0.5
    # Landmarks have no matrix: lam alone is chosen.
    assert run("fit", *how, "--landmarks", 10, "--out", model, "-q").exit_code == 0
    assert cp.load_model(model)[-1].landmarks == 10
    refused = run("fit", *how, "--certified", 0.1)
    assert (refused.exit_code, "not for --task kernel-cl" in refused.stderr) == (2, True)
