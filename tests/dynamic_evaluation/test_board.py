"""A board and a function are enough to evaluate a model; the result is that of the cache."""

import numpy as np
import pytest

from nevis_stream import dynamic_evaluation as de
from nevis_stream.additions.models import add_models
from nevis_stream.errors import BadInput, DamagedCache, RunWarning
from nevis_stream.evaluation_cache import EvaluationCache
from nevis_stream.evaluation_cache.exchange import import_file
from nevis_stream.queries.oracle import Responses

METHOD = "stratified_mean"


@pytest.fixture(scope="module")
def outcomes():
    random = np.random.default_rng(3)
    ability, ease = random.normal(size=(12, 1)), random.normal(size=(1, 80))
    return (random.random((12, 80)) < 1 / (1 + np.exp(-ability - ease))).astype(np.uint8)


def write(path, values):
    head = ",".join(["model", *(f"s{k}" for k in range(values.shape[1]))])
    rows = [",".join([f"m{i}", *map(str, row)]) for i, row in enumerate(values.tolist())]
    path.write_text("\n".join([head, *rows]) + "\n")
    return path


def test_a_file_an_array_and_a_cache_give_the_estimate_of_the_command(tmp_path, outcomes):
    known, new = outcomes[1:], outcomes[0]
    file = write(tmp_path / "board.csv", known)
    import_file(tmp_path / "cache", file)
    (tmp_path / "before").write_bytes((tmp_path / "cache" / "index.sqlite").read_bytes())

    def by_name(ids):
        return [new[int(each.removeprefix("s"))] for each in ids]

    boards = [de.read_board(file), de.read_board(tmp_path / "cache")]
    found = [de.evaluate(board, by_name, 20, METHOD) for board in boards]
    found.append(de.evaluate(de.read_board(known), lambda ids: new[ids], 20, METHOD))
    cache = EvaluationCache(tmp_path / "cache")
    assert (tmp_path / "before").read_bytes() == cache.index.path.read_bytes()
    assert not (tmp_path / "cache" / "additions.jsonl").exists()

    def oracle(cells):
        return Responses(cells, new[cells.samples])

    (account,) = add_models(cache, {"new": oracle}, 20, METHOD)
    for each in found:
        assert (each.value, each.low, each.high) == (account.accuracy, account.low, account.high)
        assert each.observed == 20 and each.low < each.value < each.high
    assert str(found[0]) == f"{account.accuracy:.4f} (mean over these samples; 95%: " + (
        f"{account.low:.4f} to {account.high:.4f} for any model; 20 asked)"
    )


def test_a_board_shows_itself(outcomes):
    board = de.read_board(outcomes, models=[f"<{row}>" for row in range(12)])
    assert repr(board).startswith("Board: 12 models × 80 samples, outcomes, means 0.")
    np.testing.assert_array_equal(board.values(), outcomes)
    np.testing.assert_allclose(board.means(), outcomes.mean(axis=1))
    best = board.models[int(board.means().argmax())]
    assert f"<td>&lt;{best[1:-1]}&gt;</td>" in board._repr_html_().split("</tr>")[1]


def test_scores_are_in_the_units_of_the_board(outcomes):
    scores = 10 * (0.2 + 0.6 * outcomes + 0.1 * np.linspace(0, 1, 80))
    board = de.read_board(scores[1:], value_range=(0, 10))
    estimate = de.evaluate(board, lambda ids: scores[0][ids], 40, "strata+mean")
    assert estimate.low < scores[0].mean() < estimate.high and 2 < estimate.value < 9
    whole = de.evaluate(board, lambda ids: scores[0][ids], 80, "strata+mean")
    assert whole.value == pytest.approx(scores[0].mean(), abs=1e-5)
    with pytest.raises(BadInput, match="is 11; .*0 to 10"):
        de.evaluate(board, lambda ids: [11] * len(ids), 4, "strata+mean")


def test_a_missing_answer_is_no_number(outcomes):
    board = de.read_board(outcomes[1:])
    whole = de.evaluate(board, lambda ids: outcomes[0][ids], 40, METHOD)

    def refuses(ids):
        return [None if each in (3, 7) else outcomes[0][each] for each in ids]

    with pytest.warns(RunWarning, match="answer"):
        estimate = de.evaluate(board, refuses, 79, METHOD)
    assert abs(estimate.value - whole.value) < 0.2


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda ids: [2] * len(ids), "it must be 0 or 1, since the board has outcomes"),
        (lambda ids: [1], "one for each"),
    ],
)
def test_a_wrong_answer_is_refused(outcomes, answer, message):
    with pytest.raises(BadInput, match=message):
        de.evaluate(de.read_board(outcomes), answer, 8, METHOD)


@pytest.mark.parametrize(
    ("source", "options", "message"),
    [
        ("none.csv", {}, "none.csv: "),
        (np.zeros(3), {}, "an array of numbers"),
        (np.zeros((2, 3)), {"models": ["a"]}, "1 names; the array has 2 rows"),
        (np.array([["a"]]), {}, "an array of numbers"),
    ],
)
def test_what_is_no_board_is_refused(source, options, message):
    with pytest.raises(BadInput, match=message):
        de.read_board(source, **options)


def test_names_of_an_array_are_texts_and_checked(outcomes):
    assert de.read_board(outcomes, models=range(12)).models[:2] == ["0", "1"]
    for names in (["a"] * 12, ["", *"bcdefghijkl"], ["\ud800", *"bcdefghijkl"]):
        with pytest.raises(BadInput, match="twice|empty|not an id"):
            de.read_board(outcomes, models=names)


def test_a_damaged_cache_is_no_board(tmp_path, outcomes):
    import_file(tmp_path / "cache", write(tmp_path / "board.csv", outcomes))
    cells = tmp_path / "cache" / "cells.bin"
    content = bytearray(cells.read_bytes())
    content[-1] ^= 255
    cells.write_bytes(content)
    for source in (tmp_path / "cache", EvaluationCache(tmp_path / "cache")):
        with pytest.raises(DamagedCache):
            de.evaluate(de.read_board(source), lambda ids: [1] * len(ids), 8, METHOD)
    with pytest.raises(DamagedCache):
        de.evaluate(EvaluationCache(tmp_path / "cache"), lambda ids: [1] * len(ids), 8, METHOD)


def test_a_file_is_read_on_the_scale_of_a_board_without_bounds(tmp_path):
    """Both files have a scale of their own; what is read beside the board has the board's."""
    head = "model,sample,metric,score\n"
    values = {"m0": [2.0, 8.0], "m1": [4.0, 6.0]}
    rows = [f"{name},s{k},m,{v}\n" for name, row in values.items() for k, v in enumerate(row)]
    (tmp_path / "board.csv").write_text(head + "".join(rows))
    (tmp_path / "new.csv").write_text(head + "new,s0,m,1\nnew,s1,m,3\n")
    board = de.read_board(tmp_path / "board.csv", value_range="none")
    table = board.read_answers(tmp_path / "new.csv", value_range="none")
    (part,) = board.facts.parts
    assert [part.unscale(each) for each in table.values[0]] == pytest.approx([1, 3])
    (tmp_path / "far.csv").write_text(head + "new,s0,m,1\nnew,s1,m,300\n")
    with pytest.raises(BadInput, match="far.csv: .*outside of the scale"):
        board.read_answers(tmp_path / "far.csv", value_range="none")


def test_a_wrong_method_is_refused_where_nothing_is_left_to_ask(tmp_path, outcomes):
    import_file(tmp_path / "cache", write(tmp_path / "board.csv", outcomes))
    with pytest.raises(BadInput, match="method"):
        add_models(EvaluationCache(tmp_path / "cache"), {"m0": None}, 8, "no such method")
