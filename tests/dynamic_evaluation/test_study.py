"""Studies: honest splits, scores as defined, rows that are not computed twice."""

import numpy as np
import pytest

from nevis_stream.dynamic_evaluation import methods, study
from nevis_stream.dynamic_evaluation.asking import Answers, Cells
from nevis_stream.dynamic_evaluation.estimates import Estimates
from nevis_stream.errors import BadInput
from tests.dynamic_evaluation.making import one_order

MATRIX = study.Matrix("simulated", one_order(20, 60), np.repeat(list("abcdefghij"), 2))
PROTOCOL = study.Protocol(["sort_and_search", "stratified_mean"], budgets=(8, 16, 61), seeds=2)


def test_groups_are_known_or_new_as_a_whole():
    known, new = study.split(20, MATRIX.groups, 0.6, seed=0)
    assert sorted([*known, *new]) == list(range(20)) and len(known) == 12
    assert not set(MATRIX.groups[known]) & set(MATRIX.groups[new])
    assert any(
        (study.split(20, MATRIX.groups, 0.6, seed)[0] != known).any() for seed in range(1, 4)
    )
    for share in (0.0, 1.0):
        with pytest.raises(BadInput, match="leaves no known or no new"):
            study.split(20, None, share, seed=0)


def test_scores_by_hand():
    truth = np.array([[1, 1, 0, 0], [1, 0, 0, 0]], np.uint8)
    outcomes = np.array([[1, 1, 1, 0], [1, 0, 0, 0]], np.uint8)
    accuracy, low, high = np.array([0.75, 0.5]), np.array([0.6, 0.2]), np.array([0.8, 0.6])
    asked = Answers(Cells.none(2), np.empty((2, 0), np.uint8))
    estimate = Estimates(outcomes.astype(np.float32), asked, accuracy, low, high)
    scores = study.scored(estimate, truth)
    assert scores["mae"] == 0.125 and scores["accuracy_error"] == 0.25
    assert scores["spearman"] == pytest.approx(1) and scores["coverage95"] == 0.5


def test_a_study_goes_on_where_its_file_ends(tmp_path, monkeypatch):
    path = tmp_path / "study.csv"
    found = list(study.run([MATRIX], PROTOCOL, path))
    assert len(found) == 2 * 2 * 2  # the budget above n is left out
    assert path.read_text().splitlines()[0] == ",".join(study.COLUMNS)
    whole = path.read_text()
    lines = whole.splitlines(keepends=True)
    path.write_text("".join(lines[:4]) + lines[4][:20])  # killed within a row
    again = list(study.run([MATRIX], PROTOCOL, path))
    assert len(again) == len(found) - 3

    def scores(rows):
        return sorted(
            (row["method"], row["budget"], row["seed"], f"{row['mae']:.5g}") for row in rows
        )

    assert scores(study.read(path)) == scores(found)
    monkeypatch.setattr(methods, "get", lambda name: pytest.fail("computed again"))
    assert not list(study.run([MATRIX], PROTOCOL, path))


def test_new_models_are_asked_what_all_of_them_know():
    outcomes = MATRIX.outcomes.copy()
    known, new = study.split(20, None, 0.6, seed=0)
    # more is lost with these samples than with this model
    outcomes[new[0], 3:40] = outcomes[known[0], 5] = 255
    models, columns = study.answerable(outcomes[new])
    assert models.tolist() == list(range(1, len(new))) and len(columns) == 60
    outcomes[new[1:], 3 + np.arange(len(new) - 1)] = 255  # no model is complete
    models, columns = study.answerable(outcomes[new])
    assert models.tolist() == list(range(1, len(new))) and len(columns) == 60 - (len(new) - 1)
    assert (outcomes[np.ix_(new[models], columns)] != 255).all()
    what = study.Protocol(["sort_and_search"], [8, 58], seeds=1)
    rows = list(study.rows(study.Matrix("holes", outcomes), what))
    assert [row["budget"] for row in rows] == [8] and np.isfinite(rows[0]["mae"])
    outcomes[new] = 255
    with pytest.raises(BadInput, match="nothing is known of the new models"):
        list(study.rows(study.Matrix("holes", outcomes), what))


def test_files(tmp_path):
    np.savez(tmp_path / "m.npz", correct=MATRIX.outcomes, group=MATRIX.groups)
    matrix = study.load(tmp_path / "m.npz")
    assert (
        matrix.name == "m"
        and (matrix.outcomes == MATRIX.outcomes).all()
        and (matrix.groups == MATRIX.groups).all()
    )
    (tmp_path / "bad.npz").write_bytes(b"nothing")
    np.savez(tmp_path / "other.npz", wrong=MATRIX.outcomes)
    for name in ("bad.npz", "other.npz", "none.npz"):
        with pytest.raises(BadInput, match=name):
            study.load(tmp_path / name)


def test_a_matrix_of_other_values_is_named_with_its_file(tmp_path):
    np.savez(tmp_path / "odd.npz", correct=np.full((2, 3), 7, np.uint8))
    with pytest.raises(BadInput, match=r"odd\.npz: outcomes are 0 \(wrong\).*also holds \[7\]"):
        study.load(tmp_path / "odd.npz")
