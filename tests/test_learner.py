"""The context: trials, costs, seeds."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from nevis_stream.errors import BadInput, CostUnknown, LearnerFault
from nevis_stream.learner import Context
from nevis_stream.runner import run
from nevis_stream.storage.checkpoint import EventWorkspace
from tests import toy


def square(x):
    return x @ x


def repeated(x, times):
    for _ in range(times):
        x = x @ x
    return x


def context(**options):
    return Context(path=("seed 0", "task"), phase="train", **options)


def test_a_second_map_numbers_its_trials_on(tmp_path):
    def trial(ctx, item):
        ctx.charge(item)
        return {"item": item, "trial": ctx.trial, "seed": ctx.seed}

    def search(ctx):
        first = ctx.map(trial, [10, 20])
        return [*first, *ctx.map(trial, [first[0]["item"] + 1])]

    ctx = context(workspace=EventWorkspace(tmp_path / "x", 0))
    results = search(ctx)
    assert [(r["item"], r["trial"]) for r in results] == [(10, 0), (20, 1), (11, 2)]
    assert len({r["seed"] for r in results}) == 3
    assert ctx.meter.counts() == {"train": {"0": 10, "1": 20, "2": 11}}
    again = context(workspace=EventWorkspace(tmp_path / "x", 0))  # after a kill: read back
    assert search(again) == results and again.meter.counts() == ctx.meter.counts()


def test_a_map_inside_a_trial_is_refused():
    with pytest.raises(LearnerFault, match="inside trial 0"):
        context().map(lambda ctx, item: ctx.map(lambda c, i: i, [1]), [1])


def test_jit_charges_every_call_by_its_signature_and_static_values():
    ctx, x = context(), jnp.ones((8, 8))
    for _ in range(3):
        ctx.jit(square)(x)
    assert ctx.meter.counts() == {"train": {"-": 3 * 2 * 8**3}}
    static = context()
    for times in (1, 4, 1):
        static.jit(repeated, static_argnums=1)(x, times)
    assert static.meter.counts() == {"train": {"-": 6 * 2 * 8**3}}


@pytest.mark.parametrize("around", [jax.jit, jax.vmap, lambda f: jax.grad(lambda x: f(x).sum())])
def test_jit_inside_another_program_is_refused(around):
    ctx = context()
    inner = ctx.jit(square)
    inner(jnp.ones((4, 4)))
    with pytest.raises(CostUnknown, match="inside another compiled or differentiated function"):
        around(lambda x: inner(x))(jnp.ones((1, 4, 4) if around is jax.vmap else (4, 4)))


def test_phases_nest_and_are_checked():
    ctx = context()
    with ctx.phase("select"):
        ctx.charge(1)
        with ctx.phase("validate"):
            ctx.charge(2)
        ctx.charge(4)
    assert ctx.meter.counts() == {"select": {"-": 5}, "validate": {"-": 2}}
    with (
        pytest.raises(LearnerFault, match="'rest'.*predict"),
        ctx.phase("rest"),
    ):
        ctx.charge(1)
    before = ctx.meter.counts()
    for wrong in (-1, 0.5, math.nan, math.inf, None, "7", [1, 2], np.array([1, 2])):
        with pytest.raises(LearnerFault, match=r"ctx\.charge\(.*a whole number from 0 upwards"):
            ctx.charge(wrong)
    assert ctx.meter.counts() == before


def test_keys_follow_seeds():
    assert context().seed == context().seed
    assert (jax.random.key_data(context().key) == jax.random.key_data(context().key)).all()
    assert Context(path=("seed 1", "task"), phase="train").seed != context().seed


def test_a_learner_that_cannot_be_described_needs_a_config(tmp_path):
    class Plain:
        def __init__(self, thing):
            self.thing = thing
            self.init, self.train, self.predict = None, None, None

    with pytest.raises(
        BadInput, match="attribute of type object cannot be written as JSON.*config="
    ):
        run(Plain(object()), toy.stream(), tmp_path / "a")
    for seed, name in ((0, "b"), (1, "c")):
        learner = toy.ToyLearner()
        object.__setattr__(learner, "steps", np.random.RandomState(seed).uniform(size=5000))
        # an array is no number of steps; the description is what is looked at
        with pytest.raises(TypeError):
            run(learner, toy.stream(), tmp_path / name)
    described = [(tmp_path / name / "config.json").read_text() for name in ("b", "c")]
    assert described[0] != described[1]


def test_another_directorys_config_is_told_by_a_value(tmp_path):
    run(toy.ToyLearner(), toy.stream(), tmp_path)
    with pytest.raises(BadInput, match="steps: there 4, now 5"):
        run(toy.ToyLearner(steps=5), toy.stream(), tmp_path)


def test_uses_have_streams_of_their_own():
    """Names are not joined into one another, and a number is not its text."""
    names = [(), ("a",), ("b",), ("a", "b"), ("a/b",), ("ab",), ("a", 1), ("a", "1"), ("a", 11)]
    first = {tuple(context().generator(*name).integers(2**63, size=2)) for name in names} | {
        tuple(np.random.Generator(np.random.PCG64(context().seed)).integers(2**63, size=2))
    }
    assert len(first) == len(names) + 1
    draws = [context().generator("a", 1).uniform(size=3) for _ in range(2)]
    assert np.array_equal(*draws)
    keys = {tuple(np.asarray(jax.random.key_data(context().key_for(*name)))) for name in names}
    assert len(keys | {tuple(np.asarray(jax.random.key_data(context().key)))}) == len(names) + 1


def test_a_context_without_a_run_counts_draws_and_maps():
    ctx = Context.standalone(seed=3, phase="select")
    ctx.jit(square)(jnp.ones((8, 8)))
    assert ctx.map(lambda trial, item: trial.trial + item, [5, 6]) == [5, 7]
    assert ctx.meter.counts() == {"select": {"-": 2 * 8**3}}
    assert ctx.restore() is None and ctx.past_tasks == ()
    assert Context.standalone(seed=3, path=("fit",)).seed != ctx.seed
