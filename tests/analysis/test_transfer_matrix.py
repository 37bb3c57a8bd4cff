"""Transfer matrices read from files: order, gaps, best sources, and what can't be read."""

import json
import math

import pandas as pd
import pytest

from nevis_stream.analysis.transfer_matrix import (
    is_matrix,
    make_pair_row,
    read_matrix,
    tabulate_best_sources,
    tabulate_sources,
)
from nevis_stream.errors import BadInput

TASKS = (("a", "ocr"), ("b", "face"), ("c", "ocr"), ("d", "scene"))
# c has not been run
ERRORS = {("a", "b"): 0.2, ("a", "c"): 0.5, ("a", "d"): None, ("b", "c"): 0.3, ("b", "d"): 0.1}
ALONE = {"b": 0.3, "c": 0.4, "d": 0.1}


def write(path, errors=ERRORS, facts=True):
    path.mkdir(parents=True, exist_ok=True)
    rows = [
        make_pair_row(source, target, ALONE[target], error)
        for (source, target), error in errors.items()
    ]
    pd.DataFrame(rows).to_csv(path / "matrix.csv", index=False)
    if facts:
        tasks = [
            {"order": order, "task_id": task, "domain": domain}
            for order, (task, domain) in enumerate(TASKS, start=1)
        ]
        run = {
            "learner": "indep",
            "budget": "tiny",
            "stream": "four",
            "stream_digest": "0" * 16,
            "seed": 3,
        }
        (path / "matrix.json").write_text(json.dumps(run | {"tasks": tasks}))
    return path


def test_a_pair_is_the_difference_to_indep():
    assert make_pair_row("a", "b", 0.5, 0.25) == {
        "source": "a", "target": "b", "error": 0.25, "indep_error": 0.5, "gain": 0.25, "ratio": 1.5,
    }  # fmt: skip
    assert (
        math.isnan(make_pair_row("a", "b", 1.0, 0.25)["ratio"])
        and make_pair_row("a", "b", 1.0, 0.25)["gain"] == 0.75
    )
    assert all(
        math.isnan(make_pair_row("a", "b", *errors)["gain"])
        for errors in ((None, 0.1), (0.1, None))
    )


@pytest.mark.parametrize("facts", [True, False])
def test_gains_stand_in_stream_order_with_gaps(tmp_path, facts):
    shuffled = (
        dict(sorted(ERRORS.items(), key=lambda item: item[0][1], reverse=True)) if facts else ERRORS
    )
    gains = read_matrix(write(tmp_path, shuffled, facts)).gains
    assert (list(gains.index), list(gains.columns)) == (["a", "b"], ["b", "c", "d"])
    assert gains.loc["a", "b"] == pytest.approx(0.1) and gains.loc["a", "c"] == pytest.approx(-0.1)
    assert math.isnan(gains.loc["b", "b"]) and math.isnan(gains.loc["a", "d"])


def test_best_sources_and_targets(tmp_path):
    matrix = read_matrix(write(tmp_path))
    result = tabulate_best_sources(matrix).set_index("target")
    assert list(result.index) == ["b", "c", "d"]
    assert result.loc["c", ["best_source", "source_domain", "sources", "helped"]].tolist() == [
        "b",
        "face",
        2,
        1,
    ]
    assert result.loc["c", "best_gain"] == pytest.approx(0.1) and result.loc[
        "c", "mean_gain"
    ] == pytest.approx(0.0)
    assert result.loc["d", ["best_source", "sources", "helped"]].tolist() == ["b", 1, 0]
    ours = tabulate_sources(matrix).set_index("source")
    assert ours.loc["a", ["targets", "helped", "best_target"]].tolist() == [2, 1, "b"]


def test_a_target_without_any_defined_gain_has_no_best_source(tmp_path):
    result = tabulate_best_sources(read_matrix(write(tmp_path, {("a", "d"): None}))).iloc[0]
    assert (
        result["best_source"] == "" and math.isnan(result["best_gain"]) and result["sources"] == 0
    )


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", r"matrix\.csv: .*No columns"),
        ("source,target\na,b\n", "has no column error or indep_error or gain"),
        ("source,target,error,indep_error,gain\n", "has no pair"),
        ("source,target,error,indep_error,gain\na,b,1,1,0\na,b,1,1,0\n", "contains a pair twice"),
        ("source,target,error,indep_error,gain\na,b,much,1,0\n", "could not convert"),
    ],
)
def test_what_is_no_matrix_is_refused(tmp_path, text, why):
    (tmp_path / "matrix.csv").write_text(text)
    assert is_matrix(tmp_path) and not is_matrix(tmp_path / "nothing")
    with pytest.raises(BadInput, match=why):
        read_matrix(tmp_path)


def test_damaged_facts_are_refused(tmp_path):
    (write(tmp_path) / "matrix.json").write_text('{"tasks": [{}]}')
    with pytest.raises(BadInput, match=r"matrix\.json: "):
        read_matrix(tmp_path)
