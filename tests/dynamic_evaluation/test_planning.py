"""How many answers a new model needs, measured on the models of a board."""

import numpy as np
import pytest

from nevis_stream import dynamic_evaluation as de
from nevis_stream.errors import BadInput
from tests.dynamic_evaluation.test_informed_mean import make_values


@pytest.fixture(scope="module")
def world():
    return make_values(64, 300, seed=3)


@pytest.fixture(scope="module")
def plan(world):
    return de.plan(de.read_board(world[:24]), [20, 60, 150, 300])


def test_more_answers_give_less_error_and_shorter_intervals(plan):
    assert (plan.models, plan.samples, plan.method) == (24, 300, "informed_mean")
    assert [each.answers for each in plan.budgets] == [20, 60, 150, 300]
    for name in ("error", "width"):
        values = [getattr(each, name) for each in plan.budgets]
        assert values == sorted(values, reverse=True) and values[-1] == 0 < values[-2]
    assert list(plan.to_pandas().columns) == ["answers", "error", "width"]


def test_what_is_planned_is_what_new_models_get(world, plan):
    board, new = de.read_board(world[:24]), world[24:44]
    for each in plan.budgets[:3]:
        found = [
            de.evaluate(board, row, each.answers, seed=seed) for row in new for seed in range(3)
        ]
        width = np.mean([one.high - one.low for one in found])
        assert each.width == pytest.approx(width, rel=0.2)
        errors = [
            abs(one.value - row.mean())
            for one, row in zip(found, new.repeat(3, axis=0), strict=True)
        ]
        assert each.error == pytest.approx(np.mean(errors), rel=0.6)


def test_small_differences_need_more_answers_and_two_new_models_most(plan):
    known, new = (
        [getattr(each, name) for each in plan.differences] for name in ("from_known", "from_new")
    )
    assert known == sorted(known, reverse=True) and new == sorted(new, reverse=True)
    assert all(a < b <= 300 for a, b in zip(known, new, strict=True))
    assert "5 points apart, seen in 4 of 5 cases" in str(plan)


def test_a_difference_is_seen_in_four_of_five_cases(world):
    """The interval of a model excludes a mean that is as far away as was planned."""
    board, new, seen = de.read_board(world[:24]), world[24:], []
    (planned,) = de.plan(board, [30, 100], [8]).differences
    for row in new:
        found = de.evaluate(board, row, planned.from_known)
        seen += [not found.low <= row.mean() + gap <= found.high for gap in (-0.08, 0.08)]
    assert 0.65 <= np.mean(seen) <= 0.95


def test_scores_prices_and_directions(tmp_path):
    random = np.random.default_rng(0)
    rows = ["model,sample,score,tokens"]
    for model in range(8):
        for sample in range(40):
            score = 10 * random.beta(2, 1 + model / 4)
            rows.append(f"m{model},s{sample},{score:.3f},{100 + sample}")
    (tmp_path / "scores.csv").write_text("\n".join(rows))
    board = de.read_board(tmp_path / "scores.csv", value_range=(0, 10), lower_is_better=["all"])
    plan = de.plan(board)
    (each,) = plan.budgets
    assert each.answers == 20 and each.prices == {"tokens": pytest.approx(20 * 119.5)}
    assert 0 < each.error < each.width < 10
    assert "tokens" in plan.to_pandas() and "tokens" in str(plan)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"budgets": [0]}, "between 1 and 300"),
        ({"points": [-1]}, "above 0"),
        ({"method": "nothing"}, "'nothing'"),
    ],
)
def test_what_cannot_be_planned_is_refused(world, arguments, message):
    with pytest.raises(BadInput, match=message):
        de.plan(de.read_board(world[:6]), **arguments)
    with pytest.raises(BadInput, match="at least two"):
        de.plan(de.read_board(world[:1]))
