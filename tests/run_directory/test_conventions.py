"""Conventions and their versions: what a config states, what goes on, and what opens."""

from dataclasses import dataclass

import pytest

from nevis_stream import run
from nevis_stream.configs import run_config
from nevis_stream.errors import BadInput
from nevis_stream.learners.table import TABLE
from nevis_stream.progress import Silent
from nevis_stream.run_directory import environment
from nevis_stream.run_directory.config import make_config, read_config
from nevis_stream.run_directory.environment import Convention
from tests import toy


class Interrupted(Exception):
    pass


@dataclass(frozen=True)
class Measuring(toy.ToyLearner):
    """A learner whose results follow two conventions; it may end in its third task."""

    conventions = ("far", "near")

    def train(self, task, state, ctx):
        if stop and len(ctx.past_tasks) == 2:
            raise Interrupted
        return super().train(task, state, ctx)


stop = False


def start(run_dir, learner=None, interrupted=False, **options):
    global stop
    stop = interrupted
    learner = Measuring() if learner is None else learner
    return run(learner, toy.stream(), run_dir, progress=Silent(), tensorboard=False, **options)


@pytest.fixture
def at(monkeypatch):
    """Sets the versions."""

    def versions(near=1, far=1, cost=1):
        values = {
            "near": Convention(near, "it is measured from the middle"),
            "far": Convention(far, "it is measured twice"),
            "cost": Convention(cost, "roots are counted", everywhere=True),
        }
        monkeypatch.setattr(environment, "CONVENTIONS", values)

    versions()
    return versions


def test_a_version_above_1_is_in_the_config_of_those_who_use_it(at, tmp_path):
    assert environment.CONVENTIONS_KEY not in read_config(start(tmp_path / "a").run_dir).values
    at(near=2, cost=3)
    theirs = read_config(start(tmp_path / "b").run_dir)
    assert theirs.values[environment.CONVENTIONS_KEY] == {"near": 2, "cost": 3}
    others = read_config(start(tmp_path / "c", toy.ToyLearner()).run_dir)
    assert others.values[environment.CONVENTIONS_KEY] == {"cost": 3}
    assert start(tmp_path / "b").complete


def test_what_decides_costs_alone_leaves_the_hash(at):
    values = {"learner": "a", "seed": 1}
    plain = make_config(values).config_hash
    assert make_config(values | {environment.CONVENTIONS_KEY: {"cost": 2}}).config_hash == plain
    assert make_config(values | {environment.CONVENTIONS_KEY: {"near": 2}}).config_hash != plain


def test_an_unfinished_run_of_another_version_is_refused_and_a_finished_one_opens(at, tmp_path):
    with pytest.raises(Interrupted):
        start(tmp_path / "half", interrupted=True)
    before = {path: path.read_bytes() for path in (tmp_path / "half").glob("*.json*")}
    done = start(tmp_path / "done")
    at(near=2)
    message = "version 1 of 'near', which is at version 2 now .since version 2 it is measured from"
    with pytest.raises(BadInput, match=message):
        start(tmp_path / "half")
    assert {path: path.read_bytes() for path in (tmp_path / "half").glob("*.json*")} == before
    assert start(tmp_path / "done").records == done.records
    with pytest.raises(BadInput, match="contains another run .seed: there 0, now 1"):
        start(tmp_path / "done", seed=1)
    at(far=2, cost=2)
    for learner, words in ((None, "'cost'"), (toy.ToyLearner(), "contains another run")):
        with pytest.raises(BadInput, match=words):
            start(tmp_path / "half", learner)
    at()
    assert start(tmp_path / "half").complete


def test_a_newer_version_is_refused_too(at, tmp_path):
    at(near=3)
    with pytest.raises(Interrupted):
        start(tmp_path, interrupted=True)
    at(near=2)
    with pytest.raises(BadInput, match="version 3 of 'near', which is at version 2 now, so"):
        start(tmp_path)


def test_a_config_of_python_cannot_name_them(tmp_path):
    with pytest.raises(BadInput, match="'conventions' is written by the run"):
        start(tmp_path, config={"learner": "mine", "conventions": {}})


def test_learners_that_compare_tasks_follow_relatedness():
    following = {
        name
        for name in TABLE
        if not name.startswith("pt_")  # they need weights
        and name != "bhpo"  # it warns of few trials
        and "relatedness"
        in environment.list_conventions(run_config.resolve(run_config.make_default(name)).build())
    }
    assert following == {"ft_dynamic", "ft_static", "mt"}
