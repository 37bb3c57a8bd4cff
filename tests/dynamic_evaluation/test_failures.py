"""The samples on which a new model most likely fails."""

import numpy as np

from nevis_stream import dynamic_evaluation as de
from nevis_stream.dynamic_evaluation.session_view import find_likely_failures, rank_failures


def test_the_most_probable_failures_come_first_and_answers_are_left_out():
    table = rank_failures(["a", "b", "c", "d"], np.array([0.9, 0.2, 0.5, 0.0]), np.arange(4) == 3)
    assert table["sample"].tolist() == ["b", "c", "a"]
    assert table["probability"].tolist() == [0.8, 0.5, 0.1]


def test_a_session_names_samples_that_most_models_fail(tmp_path):
    random = np.random.default_rng(0)
    easy = np.concatenate([np.full(60, 0.95), np.full(30, 0.1)])
    outcomes = (random.random((20, 90)) < easy).astype(np.uint8)
    board = de.read_board(outcomes[1:])
    session = de.Session.start(tmp_path / "s", board, 20, method="uniform+irt_1pl")
    assert find_likely_failures(session).empty
    for ids in session:
        session.tell({i: int(outcomes[0, i]) for i in ids})
    table = find_likely_failures(session)
    assert len(table) == 70 and table["probability"].is_monotonic_decreasing
    assert (table["sample"][:15] >= 60).all()
    assert 1 - outcomes[0, table["sample"][:15].to_numpy()].mean() > 0.7
