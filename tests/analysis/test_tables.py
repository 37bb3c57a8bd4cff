"""Tables, learning curves, and what the analysis may import."""

import ast
import json
import math
from pathlib import Path

import pytest

import nevis_stream
from nevis_stream.analysis import tables
from nevis_stream.analysis.methods import list_method_points
from nevis_stream.analysis.points import list_learning_curves
from nevis_stream.analysis.runs import read_runs
from nevis_stream.analysis.seeds import group_by_seed
from nevis_stream.run_directory.ledger import Ledger
from tests.report.synthetic import SyntheticRun

RUN = SyntheticRun(errors=(("task_001", 0.125), ("task_003", None)))


def runs_of(tmp_path, *runs):
    return read_runs([run.write(tmp_path / str(i)) for i, run in enumerate(runs)])[0]


def test_per_task_has_a_row_for_every_run_and_task_also_where_a_result_is_missing(tmp_path):
    frame = tables.tabulate_tasks(runs_of(tmp_path, RUN, RUN.but(seed=1, events=3)))
    assert len(frame) == 8
    assert frame["status"].value_counts().to_dict() == {"ok": 4, "partial": 3, "undefined": 1}
    first = frame[(frame["run"] == "0") & (frame["task_id"] == "task_001")].iloc[0]
    assert (first["error"], first["n"], first["year"], first["judged"]) == (0.125, 51, 1992, False)
    undefined = frame[frame["status"] == "undefined"].iloc[0]
    assert math.isnan(undefined["error"])
    assert undefined["reason"] == "no positive <label>"
    assert undefined["judged"]
    partial = frame[frame["status"] == "partial"]
    assert partial["error"].isna().all()
    assert partial["reason"].str.contains("2 of 4 tasks trained").all()


def test_a_result_that_a_finished_run_lacks_is_missing(tmp_path):
    path = RUN.write(tmp_path / "run") / "ledger.jsonl"
    text = path.read_text().replace('"split":"test"', '"split":"dev_test"', 1)
    path.write_text(text)
    frame = tables.tabulate_tasks(read_runs([path.parent])[0])
    missing = frame[frame["status"] == "missing"].iloc[0]
    assert (missing["task_id"], missing["split"], missing["n"]) == ("task_001", "test", 0)
    assert list(frame[frame["task_id"] == "task_001"]["split"]) == ["dev_test", "test"]


def test_points_have_a_row_a_method_and_a_row_a_run(tmp_path):
    whole = SyntheticRun()
    runs = runs_of(tmp_path, whole, whole.but(seed=1), whole.but(seed=2, events=2))
    frame = tables.tabulate_points(list_method_points(group_by_seed(runs)))
    assert list(frame["row"]) == ["method", "run", "run", "run"]
    assert list(frame["n"]) == [2, 1, 1, 0]
    assert frame["error"][0] == pytest.approx(frame["error"][1:3].mean())
    assert frame["error_std"][0] == pytest.approx(frame["error"][1:3].std())
    assert math.isnan(frame["paper_total"][3])
    assert "unfinished" in frame["reason"][3]
    assert isinstance(frame["full_total"][1], int)


def test_regret_says_why_a_run_has_none(tmp_path):
    frame = tables.tabulate_regrets(runs_of(tmp_path, RUN, RUN.but(learner="mt", seed=4)))
    indep, other = frame[frame["run"] == "0"], frame[frame["run"] == "1"]
    assert list(indep[indep["part"] == "whole"]["position"]) == [1, 2, 3, 4]
    assert list(other["part"]) == ["judged", "whole"]
    assert other["regret"].isna().all()
    assert other["reason"].str.contains("no indep run with budget small and seed 4").all()


def test_curves_are_the_chosen_trials_and_trust_nothing(tmp_path):
    path = RUN.write(tmp_path / "run") / "ledger.jsonl"
    records = [json.loads(line) for line in path.read_text().splitlines()]
    records[1]["trials"][1]["info"]["curve"] = [[0, None, 0.9], [10, 1.0, None], [20, 1, 0.5], 3]
    records[3]["trials"][0]["info"] = {"curve": "no list"}
    records[5]["trials"] = []
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    curves = list_learning_curves(Ledger(path.parent))
    assert curves["task_001"] == [(0, 0.9), (20, 0.5)]
    assert curves["task_002"] == []
    assert curves["task_003"] == []
    assert len(curves["task_004"]) == RUN.curve_points


@pytest.mark.parametrize("package", ["analysis", "report"])
def test_no_framework_is_imported(package):
    banned = {"jax", "flax", "optax"} | ({"matplotlib"} if package == "analysis" else set())
    for file in (Path(nevis_stream.__file__).parent / package).rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module] if isinstance(node, ast.ImportFrom) else []
            assert not banned & {name.partition(".")[0] for name in names}, file
