"""No two uses of randomness draw the same numbers."""

import sys
from pathlib import Path

import numpy as np
import pytest

from nevis_stream.learner import Context
from nevis_stream.learners.parts.baseline import AuxiliaryTasks, Baseline
from nevis_stream.learners.parts.initialisation import FromRandom
from nevis_stream.learners.parts.model import Network
from nevis_stream.learners.parts.multi_task_pretraining import fit_jointly
from nevis_stream.learners.parts.recipe import Recipe
from nevis_stream.learners.parts.search import BayesianSearch, Halving, RandomSearch
from tests.learners.test_loop import TASK

ROOT = Path(__file__).resolve().parents[2]
NETWORK = Network("mlp", (("hidden", (16,)),), resolution=8)
SPACE = {"learning_rate": (0.02, 0.2), "label_smoothing": (0.0, 0.1), "auxiliary_weight": (0, 1)}


def site():
    """File and line of the code in learners/ that asks for numbers, or None."""
    frame = sys._getframe(2)
    while frame is not None:
        path = Path(frame.f_code.co_filename).resolve()  # behind nevis_stream/learners
        if ROOT / "learners" in path.parents:
            return f"{path.name}:{frame.f_lineno}"
        frame = frame.f_back
    return None


def context():
    past = {"trees": {"b": dict}, "views": {"b": lambda: TASK}}
    return Context(
        path=("seed 0", "a"), phase="train", past=past["trees"], past_views=past["views"]
    )


def jointly(task, state, ctx):
    def trial(ctx, hyper):
        return fit_jointly(ctx, hyper, tasks=[task], recipe=RECIPE)

    ctx.map(trial, RandomSearch(1, SPACE).draw(ctx.seed))


RECIPE = Recipe(NETWORK, steps=40, validate_every=40)  # 16 epochs
TRAINING = {
    "random auxiliary tasks, halving": Baseline(
        FromRandom(),
        RandomSearch(8, SPACE),
        Recipe(NETWORK, steps=4, validate_every=2),
        AuxiliaryTasks("random"),
        halving=Halving(4, 1),
    ).train,
    "bayesian": Baseline(FromRandom(), BayesianSearch(4, SPACE), RECIPE).train,
    "frozen": Baseline(FromRandom(), RandomSearch(2, SPACE), RECIPE, frozen=True).train,
    "joint": jointly,
}


@pytest.mark.parametrize("name", TRAINING)
def test_no_two_uses_draw_from_one_stream(monkeypatch, name):
    """Training notes which line starts a generator where; no two lines start one at one place.

    One line may start a stream again: halving goes on with a trial's batches in a later piece.
    """
    lines: dict[bytes, set[str]] = {}

    def noting(plain, numbers):
        class Noting(plain):
            def __init__(self, *args):
                super().__init__(*args)
                if line := site():
                    lines.setdefault(bytes(numbers(plain(*args))), set()).add(line)

        return Noting

    legacy = noting(np.random.RandomState, lambda random: random.bytes(16))
    monkeypatch.setattr(np.random, "RandomState", legacy)
    named = noting(np.random.PCG64, lambda bits: bits.random_raw(2))
    monkeypatch.setattr(np.random, "PCG64", named)
    TRAINING[name](TASK, {}, context())
    assert len(lines) > 16 and len(set().union(*lines.values())) >= 3
    assert not [shared for shared in lines.values() if len(shared) > 1]
