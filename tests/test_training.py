"""What all trainings share: the loop, positions after a kill, and the update of a step."""

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from nevis_stream.cost.compute import Compute
from nevis_stream.cost.meter import total
from nevis_stream.training import loop
from nevis_stream.training.descent import (
    apply_momentum,
    begin,
    make_optimiser,
    make_step,
    make_steps,
)

START = {"kernel": np.ones((2, 3), np.float32), "bias": np.zeros(3, np.float32)}
BATCHES = np.random.default_rng(0).normal(size=(6, 5, 2)).astype(np.float32)


def loss(parameters, batch, target=1.0):
    answers = batch @ parameters["kernel"] + parameters["bias"]
    return ((answers - target) ** 2).mean()


def equal(a, b):
    return all(
        np.array_equal(x, y) for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
    )


@pytest.mark.parametrize(
    ("start", "stop", "every", "pieces"),
    [
        (0, 7, 3, [(0, 3), (3, 6), (6, 7)]),
        (4, 7, 3, [(4, 6), (6, 7)]),  # positions of another `every`
        (0, 3, 1, [(0, 1), (1, 2), (2, 3)]),
        (3, 3, 1, []),
        (0, 0, 5, []),
    ],
)
def test_steps_are_taken_up_to_the_multiples_and_the_end(start, stop, every, pieces):
    taken = loop.take_steps((), start, stop, lambda state, a, b: (*state, (a, b)), every=every)
    states = list(taken)
    assert [step for step, _ in states] == [end for _, end in pieces]
    assert not pieces or states[-1][1] == tuple(pieces)


def test_no_step_is_taken_once_the_training_has_ended():
    going = [True, True]
    states = loop.take_steps(0, 0, 9, lambda state, *_: state + 1, goes_on=lambda: going)
    assert [going.pop() and state for _, state in states] == [1, 2]


def test_several_steps_in_one_program_are_those_steps():
    optimiser = make_optimiser(0.1, steps=6, decay=0.01, largest_gradient=0.5)
    state = begin(optimiser, START)
    step, steps = (make(loss, optimiser.update) for make in (make_step, make_steps))
    together = jax.jit(steps)(state, BATCHES, 2.0)
    alone, by_optax = state, (START, state[1])
    rule = optax.chain(
        optax.clip_by_global_norm(0.5),
        optax.adamw(optax.cosine_decay_schedule(0.1, 6), weight_decay=0.01),
    )
    for batch in BATCHES:
        alone = jax.jit(step)(alone, batch, 2.0)
        gradients = jax.grad(loss)(by_optax[0], batch, 2.0)
        updates, moments = rule.update(gradients, by_optax[1], by_optax[0])
        by_optax = optax.apply_updates(by_optax[0], updates), moments
    for other in (alone, by_optax):
        assert jax.tree.all(
            jax.tree.map(lambda a, b: np.allclose(a, b, atol=1e-6), together, other)
        )
    assert loss(together[0], BATCHES, 2.0) < loss(START, BATCHES, 2.0)
    plain = begin(make_optimiser(0.1), START)  # without options no other arrays are remembered
    assert len(jax.tree.leaves(plain[1])) == 1 + 2 * len(START)


def test_momentum_is_nesterovs_and_its_decay_leaves_biases():
    gradients = jax.tree.map(np.ones_like, START)
    momenta = jax.tree.map(lambda leaf: np.full_like(leaf, 2), START)
    moved, after = apply_momentum(gradients, momenta, START, jnp.float32(0.1), 0.5, 0.25)
    assert np.allclose(after["bias"], 1 + 0.5 * 2) and np.allclose(after["kernel"], 1.25 + 0.5 * 2)
    assert np.allclose(moved["bias"], -0.1 * (1 + 0.5 * 2))
    assert np.allclose(moved["kernel"], 1 - 0.1 * (1.25 + 0.5 * 2.25))


class Killed(Exception):
    """Ends a training."""


def train(killed_at=None):
    ctx = Compute.standalone(phase="train")
    optimiser, taken = make_optimiser(0.1), []
    steps = ctx.jit(make_steps(loss, optimiser.update))

    def advance(state, part, _):
        if part == killed_at:
            raise Killed
        taken.append(part)
        return steps(state, BATCHES[2 * part : 2 * part + 2])

    start = begin(optimiser, START)
    state = loop.train_in_parts(ctx, lambda: "name", start, 3, advance)
    return state, total(ctx.meter.counts()), taken


def test_a_killed_training_goes_on_and_costs_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr(loop, "SECONDS", 0.0)
    whole, flops, taken = train()
    assert taken == [0, 1, 2] and flops > 0
    with loop.keep_positions(tmp_path):
        with pytest.raises(Killed):
            train(killed_at=2)
        again, charged, taken = train()
        assert taken == [2] and charged == flops and equal(again, whole)
        again, charged, taken = train()  # a fit's other trainings may have been killed
        assert taken == [] and charged == flops and equal(again, whole)
        (damaged,) = (tmp_path / "name").glob("*.safetensors")
        damaged.write_bytes(damaged.read_bytes()[:-1] + b"?")
        again, charged, taken = train()
        assert taken == [0, 1, 2] and charged == flops and equal(again, whole)
    assert train()[2] == [0, 1, 2]  # outside the block


def test_optax_is_imported_when_it_is_used():
    program = (
        "import sys\n"
        "from nevis_stream.training import descent, loop\n"
        "assert 'optax' not in sys.modules\n"
        "descent.make_optimiser(0.1)\n"
        "assert 'optax' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
