"""Studies: honest splits, scores as defined, rows that are not computed twice."""

from types import SimpleNamespace

import numpy as np
import pytest

from nevis_stream.dynamic_evaluation import methods
from nevis_stream.dynamic_evaluation.estimates import Estimates
from nevis_stream.dynamic_evaluation.method import Evaluator
from nevis_stream.errors import BadInput
from nevis_stream.experiments.evaluation_studies import method_study, model_splits
from nevis_stream.queries.samples import SampleFacts
from tests.dynamic_evaluation.making import one_order

MATRIX = method_study.StudiedMatrix(
    "simulated", one_order(20, 60), np.repeat(list("abcdefghij"), 2)
)
DESIGN = method_study.StudyDesign(
    ["sort_and_search", "stratified_mean"], budgets=(8, 16, 61), seeds=2
)


def test_groups_are_known_or_new_as_a_whole():
    known, new = model_splits.split(20, MATRIX.groups, 0.6, seed=0)
    assert sorted([*known, *new]) == list(range(20)) and len(known) == 12
    assert not set(MATRIX.groups[known]) & set(MATRIX.groups[new])
    assert any(
        (model_splits.split(20, MATRIX.groups, 0.6, seed)[0] != known).any() for seed in range(1, 4)
    )
    for fraction in (0.0, 1.0):
        with pytest.raises(BadInput, match="leaves none known or none new"):
            model_splits.split(20, None, fraction, seed=0)


def test_measures_by_hand():
    truth = np.array([[1, 1, 0, 0], [1, 0, 0, 0]], np.uint8)
    values = np.array([[1, 1, 0.75, 0], [1, 0, 0, 0]], np.float32)
    accuracy, low, high = np.array([0.75, 0.5]), np.array([0.6, 0.2]), np.array([0.8, 0.6])
    estimates = Estimates(values, None, accuracy, low, high)
    result = method_study.measure_errors(estimates, truth, SampleFacts(4))
    assert result["mae"] == 0.125 and result["accuracy_error"] == 0.25
    assert result["spearman"] == pytest.approx(1) and result["coverage95"] == 0.5
    scores = method_study.measure_errors(estimates, truth.astype(np.float32), SampleFacts(4))
    assert scores["mae"] == 0.75 / 8
    facts = SampleFacts(
        4,
        dataset=np.array(["a", "b", "b", "b"]),
        low=np.zeros(4),
        high=np.array([10, 1, 1, 1]),
        dataset_weights={"a": 1, "b": 1},
    )
    weighted = method_study.measure_errors(estimates, truth, facts)  # true means: 2 / 3 and 1 / 2
    assert weighted["accuracy_error"] == pytest.approx((0.75 - 2 / 3) / 2)
    assert method_study.measure_dataset_errors(estimates, truth, facts) == pytest.approx(
        {"a": 0, "b": 0.125}
    )
    assert method_study.measure_dataset_errors(estimates, truth, SampleFacts(4)) == {}


@pytest.fixture(scope="module")
def studied(tmp_path_factory):
    """The record of a study, and its results."""
    path = tmp_path_factory.mktemp("studied") / "study.jsonl"
    results = list(method_study.run([MATRIX], DESIGN, method_study.open_record(path)))
    return SimpleNamespace(path=path, results=results)


def write_table(path, studied):
    method_study.write_table(path, method_study.open_record(studied.path))
    return path.read_text().splitlines(keepends=True)


def scores(rows):
    return sorted((row["method"], row["budget"], row["seed"], f"{row['mae']:.5g}") for row in rows)


@pytest.fixture
def continued(studied, tmp_path):
    """A study that went on from the table of an earlier version, which had nothing else, cut short
    in its fourth row; its record, and the results that were computed.
    """
    path, table = tmp_path / "study.jsonl", tmp_path / "study.csv"
    lines = write_table(table, studied)
    table.write_text("".join(lines[:4]) + lines[4][:20])
    results = list(method_study.run([MATRIX], DESIGN, method_study.open_record(path)))
    return SimpleNamespace(path=path, results=results)


def test_a_study_has_a_result_for_each_method_budget_and_seed(studied):
    assert len(studied.results) == 2 * 2 * 2  # the budget above n is left out


def test_results_of_a_study_are_read_from_its_record(studied):
    kept = [{name: row[name] for name in method_study.COLUMNS} for row in studied.results]
    assert str(method_study.read(method_study.open_record(studied.path))) == str(kept)


def test_the_table_of_a_study_has_its_columns(studied, tmp_path):
    lines = write_table(tmp_path / "study.csv", studied)
    assert lines[0] == ",".join(method_study.COLUMNS) + "\n"


def test_a_study_goes_on_where_its_record_ends(studied, continued):
    assert len(continued.results) == len(studied.results) - 3
    record = method_study.open_record(continued.path)
    assert scores(method_study.read(record)) == scores(studied.results)


def test_a_complete_study_is_not_computed_again(continued, monkeypatch):
    monkeypatch.setattr(methods, "get", lambda name: pytest.fail("computed again"))
    record = method_study.open_record(continued.path)
    assert not list(method_study.run([MATRIX], DESIGN, record))


def test_a_study_that_is_killed_between_two_budgets_has_the_same_costs(tmp_path, monkeypatch):
    design = method_study.StudyDesign(["stratified_mean", "sort_and_search"], (8, 16), seeds=1)

    def results(name):
        record = method_study.open_record(tmp_path / name)
        return [
            {name: value for name, value in row.items() if name != "seconds"}
            for row in method_study.run([MATRIX], design, record)
        ]

    whole, evaluate = results("whole.jsonl"), Evaluator.evaluate

    def killed(evaluator, ask, models, budget, key):
        if evaluator.method.name == "sort_and_search" and budget == 16:
            raise KeyboardInterrupt
        return evaluate(evaluator, ask, models, budget, key)

    monkeypatch.setattr(Evaluator, "evaluate", killed)
    with pytest.raises(KeyboardInterrupt):
        results("killed.jsonl")
    assert len(method_study.open_record(tmp_path / "killed.jsonl").rows()) == 2
    monkeypatch.undo()
    assert results("killed.jsonl") == whole[2:] and all(row["flops"] > 0 for row in whole[2:])


def test_new_models_are_asked_what_all_of_them_know():
    outcomes = MATRIX.values.copy()
    known, new = model_splits.split(20, None, 0.6, seed=0)
    # more is lost with these samples than with this model
    outcomes[new[0], 3:40] = outcomes[known[0], 5] = 255
    models, columns = method_study.choose_answerable(outcomes[new])
    assert models.tolist() == list(range(1, len(new))) and len(columns) == 60
    outcomes[new[1:], 3 + np.arange(len(new) - 1)] = 255  # no model is complete
    models, columns = method_study.choose_answerable(outcomes[new])
    assert models.tolist() == list(range(1, len(new))) and len(columns) == 60 - (len(new) - 1)
    assert (outcomes[np.ix_(new[models], columns)] != 255).all()
    options = method_study.StudyDesign(["sort_and_search"], [8, 58], seeds=1)
    (row,) = method_study.run_rows(method_study.StudiedMatrix("holes", outcomes), options)
    assert row["budget"] == 8 and np.isfinite(row["mae"])
    several = method_study.StudyDesign(["random_mean"], [8, 53, 54], seeds=3)
    holes = method_study.StudiedMatrix("holes", outcomes)
    least = min(samples for _, samples in method_study.count_evaluated(holes, several))
    used = {(row["budget"], row["seed"]) for row in method_study.run_rows(holes, several)}
    # a budget is used for all splits or for none
    assert used == {(each, seed) for each in (8, 53, 54) if each <= least for seed in range(3)}
    outcomes[new] = 255
    with pytest.raises(BadInput, match="nothing is observed of the new models"):
        list(method_study.run_rows(method_study.StudiedMatrix("holes", outcomes), options))


def test_scores_with_holes_of_several_data_sets_are_studied(tmp_path):
    random = np.random.default_rng(0)
    values = np.clip(random.normal(0.5, 0.2, (12, 1)) + random.normal(0, 0.2, (12, 90)), 0, 1)
    values = values.astype(np.float32)
    values[random.random(values.shape) < 0.1] = np.nan
    facts = SampleFacts(
        90, dataset=np.repeat(["a", "b", "c"], 30), dataset_weights={"a": 1, "b": 1, "c": 4}
    )
    matrix = method_study.StudiedMatrix("scores", values, None, facts)
    design = method_study.StudyDesign(["random_mean"], [4, 16], seeds=2)
    path, table = tmp_path / "study.jsonl", tmp_path / "study.csv"
    record = method_study.open_record(path)
    results = list(method_study.run([matrix], design, record))
    assert len(results) == 4 and all(
        row["dataset_errors"].keys() == {"a", "b", "c"} for row in results
    )
    assert all(0 < row["mae"] < 0.5 and row["accuracy_error"] < 0.5 for row in results)
    method_study.write_table(table, record)
    text = table.read_text()
    table.write_text(text[: text.rindex('"a"') + 20])  # cut short in the last column
    path.unlink()
    record = method_study.open_record(path)
    assert len(record.rows()) == 3
    assert len(list(method_study.run([matrix], design, record))) == 1
    assert method_study.read(record)[0]["dataset_errors"] == pytest.approx(
        results[0]["dataset_errors"], rel=1e-5
    )
    with pytest.raises(BadInput, match="published takes outcomes"):
        list(method_study.run_rows(matrix, method_study.StudyDesign(["published"], [4], seeds=1)))


def test_names_that_a_spreadsheet_would_run_are_quoted_in_the_table_alone(tmp_path):
    path, name = tmp_path / "study.csv", "=cmd|'/c calc'!A0"
    matrix = method_study.StudiedMatrix(name, one_order(20, 60))
    design = method_study.StudyDesign(["sort_and_search"], [8], seeds=1)
    record = method_study.open_record(path.with_suffix(".jsonl"))
    assert len(list(method_study.run([matrix], design, record))) == 1
    method_study.write_table(path, record)
    assert path.read_text().splitlines()[1].startswith("'=cmd|")
    path.with_suffix(".jsonl").unlink()
    record = method_study.open_record(path.with_suffix(".jsonl"))
    assert [row["matrix"] for row in method_study.read(record)] == [name]
    assert not list(method_study.run([matrix], design, record))


def test_a_table_of_an_earlier_version_is_read(tmp_path):
    (tmp_path / "study.csv").write_text(
        "matrix,method,budget,seed,mae,accuracy_error,spearman,kendall,coverage95,seconds\n"
        "m,random_mean,16,0,0.25,0.01,0.9,0.8,nan,0.5\n"
    )
    (row,) = method_study.read(method_study.open_record(tmp_path / "study.jsonl"))
    assert row["budget"] == 16 and row["mae"] == 0.25 and row["dataset_errors"] == {}
    assert np.isnan(row["coverage95"])
