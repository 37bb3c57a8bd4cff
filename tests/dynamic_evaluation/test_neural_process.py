"""The neural process: what it learns, its posterior, and that a killed training goes on."""

import signal
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from nevis_stream.cost.meter import total
from nevis_stream.dynamic_evaluation import fits, methods
from nevis_stream.dynamic_evaluation.method import make_context
from nevis_stream.errors import BadInput
from nevis_stream.experiments.methods.neural_process import network as training
from nevis_stream.experiments.methods.neural_process import prediction
from nevis_stream.experiments.methods.neural_process.descriptions import (
    Sizes,
    choose_sizes,
    describe,
)
from nevis_stream.experiments.methods.neural_process.network import (
    NeuralProcessNetwork,
)
from nevis_stream.queries.matrix import ArrayMatrix
from nevis_stream.queries.oracle import MatrixOracle, Query, Responses
from nevis_stream.queries.samples import SampleFacts
from nevis_stream.training import loop
from tests.dynamic_evaluation.making import one_order, simulated

KEY, PREDICTOR = jax.random.key(0), methods.PREDICTORS["neural_process"]
SMALL = one_order(12, 60, noise=0.7)


def train_long(monkeypatch, steps=300):
    """Trains long enough to learn something, on small tasks."""
    for name, value in {"STEPS": steps, "ASKED": 64, "PREDICTED": 32, "TASKS": 8}.items():
        monkeypatch.setattr(training, name, value)


def answered(values, columns):
    samples = np.broadcast_to(np.array(columns, np.int64), (len(values), len(columns)))
    return Responses(Query(samples), np.take_along_axis(values, samples, axis=1))


def fitted(known, ctx=None):
    ctx = ctx or make_context()
    tree = PREDICTOR.fit(known, KEY, ctx)
    return tree, PREDICTOR.make_posterior(tree, known, ctx)


def probabilities(models, samples, seed=0):
    """Scores of low rank: two abilities, logistic."""
    random = np.random.default_rng(seed)
    ability, ease = random.normal(size=(models, 1)), random.normal(size=samples)
    side = random.normal(size=(models, 1)) * np.where(np.arange(samples) % 2, 1.5, -1.5)
    return (1 / (1 + np.exp(-(1.5 * ability + ease + side)))).astype(np.float32)


CHANCES = probabilities(70, 200)
OUTCOMES = (np.random.default_rng(1).random(CHANCES.shape) < CHANCES).astype(np.uint8)


@pytest.fixture(scope="module")
def learned():
    """A process that has learned outcomes of two abilities."""
    with pytest.MonkeyPatch.context() as patch:
        train_long(patch)
        return fitted(ArrayMatrix(OUTCOMES[:60]))


@pytest.mark.slow
def test_it_predicts_better_than_the_samples_and_the_models_means(learned):
    """Neither mean says which half of the samples a model is good at."""
    chances, known, new = CHANCES, ArrayMatrix(OUTCOMES[:60]), OUTCOMES[60:]
    columns = np.random.default_rng(2).choice(200, 40, replace=False)
    tree, _ = learned
    seen = answered(new, columns)
    values = PREDICTOR.predict(tree, {}, known, seen, make_context()).values
    free = np.setdiff1d(np.arange(200), columns)

    def error(guess):
        return float(((guess - new)[:, free] ** 2).mean())

    by_sample = known.values.mean(axis=0) + np.zeros(new.shape)
    by_both = np.clip(by_sample + (new - by_sample)[:, columns].mean(axis=1)[:, None], 0, 1)
    best, other = error(chances[60:]), min(error(by_sample), error(by_both))
    assert error(values) - best < 0.8 * (other - best)


@pytest.mark.slow
def test_scores_are_learned_with_their_noise(monkeypatch):
    train_long(monkeypatch, steps=150)
    chances = probabilities(44, 100)
    known, new = ArrayMatrix(chances[:36]), chances[36:]
    columns = np.random.default_rng(3).choice(100, 40, replace=False)
    free = np.setdiff1d(np.arange(100), columns)
    _, posterior = fitted(known)
    mean, variance = posterior.moments(answered(new, columns))
    away = (mean - new)[:, free]
    assert np.abs(away).mean() < 0.8 * np.abs(new - known.values.mean(axis=0)).mean()
    assert 0.4 < np.sqrt((away**2).mean() / variance[:, free].mean()) < 2


def test_descriptions_of_a_part_do_not_depend_on_its_models():
    values = SMALL.copy()
    known = ArrayMatrix(values)
    before = describe(known, KEY, make_context())
    part = before.part == before.part[3]
    values[part] = 1 - values[part]
    after = describe(known, KEY, make_context())
    turned = [each.without[before.part[3]] for each in (before, after)]
    # components may be turned otherwise, but span the same; mean and variance are the same
    assert np.allclose(turned[0][:, :2], turned[1][:, :2])
    grams = [each[:, 2:] @ each[:, 2:].T for each in turned]
    assert np.allclose(grams[0] / np.trace(grams[0]), grams[1] / np.trace(grams[1]), atol=1e-5)
    assert not np.allclose(before.all[:, 0], after.all[:, 0])


@pytest.mark.slow
def test_components_of_parts_are_turned_to_those_of_all_models():
    matrix, *_ = simulated(200, 80, factors=2)
    samples = describe(ArrayMatrix(matrix), KEY, make_context())
    for without in samples.without:
        for component in (2, 3):  # the first two; later ones are noise
            assert np.corrcoef(without[:, component], samples.all[:, component])[0, 1] > 0.9


def test_groups_are_in_one_part():
    groups = np.repeat([f"run {i}" for i in range(6)], 2).tolist()
    part = describe(ArrayMatrix(SMALL, groups), KEY, make_context()).part.reshape(6, 2)
    assert (part[:, 0] == part[:, 1]).all() and len(np.unique(part)) == 6


def test_features_enter_and_kinds_are_those_of_data_sets():
    random, scores = np.random.default_rng(0), one_order(8, 30).astype(np.float32)
    scores[:, 20:] = random.random((8, 10))
    facts = SampleFacts(
        30,
        features=random.normal(size=(30, 5)).astype(np.float32),
        dataset=np.repeat(["exam", "essay"], [20, 10]),
    )
    samples = describe(ArrayMatrix(scores, facts=facts), KEY, make_context())
    assert samples.kinds.tolist() == [0] * 20 + [1] * 10
    plain = describe(ArrayMatrix(scores), KEY, make_context())
    assert samples.all.shape[1] == plain.all.shape[1] + 5 and (plain.kinds == 1).all()


@pytest.mark.slow
def test_the_order_of_answers_and_padding_do_not_matter():
    network, random = NeuralProcessNetwork(Sizes(16, 1, 4, 4)), np.random.default_rng(0)
    x, y, base = random.normal(size=(6, 3)), random.random(6), np.zeros(6)
    kinds, mask = np.array([0, 1, 0, 1, 0, 1]), np.array([1, 1, 1, 1, 0, 0], bool)
    arrays = [np.float32(x), np.float32(y), kinds, mask, np.float32(base)]
    parameters = jax.jit(network.init)(KEY, *arrays)

    @jax.jit
    def read(*arrays):
        def both(network, x, *rest):
            samples = network.samples(x)
            memory = network.encode(samples, *rest)
            return memory.mean, memory.scale, network.attend(samples[:1], memory)

        return network.apply(parameters, *arrays, method=both)

    first = read(*arrays)
    for order in ([0, 2, 1, 3, 5, 4], [0, 3, 1, 2, 4, 5], [0, 1, 2, 3]):
        for result, expected in zip(read(*(each[order] for each in arrays)), first, strict=True):
            assert np.allclose(result, expected, atol=1e-5)
    fewer = read(*arrays[:3], np.array([1, 1, 1, 0, 0, 0], bool), arrays[4])
    assert not np.allclose(fewer[0], first[0], atol=1e-3)
    nothing = read(*arrays[:3], np.zeros(6, bool), arrays[4])
    assert all(np.isfinite(each).all() for each in nothing)


def test_sizes_are_those_of_the_table():
    assert choose_sizes(23) == Sizes(32, 1, 0, 16)
    assert choose_sizes(91) == Sizes(32, 1, 16, 16)
    assert choose_sizes(1000) == Sizes(32, 2, 16, 32)


def test_the_posterior_has_the_moments_of_the_sampled_latent_variable():
    random = np.random.default_rng(0)
    expected, noise = random.random((5000, 4)), np.full((5000, 4), 0.1)
    expected[:, 1] = expected[:, 0]  # two cells that go together
    kinds, weights, asked = np.array([0, 0, 1, 1]), np.full(4, 0.25), np.array([0, 0, 0, 1.0])
    got = prediction._quantities(*map(jnp.asarray, (expected, noise, kinds, weights, asked)))
    assert np.allclose(got.mean, 0.5, atol=0.02)
    # a coin of unknown bias, and a uniform score with noise
    assert np.allclose(got.variance, [0.25, 0.25, 1 / 12 + 0.01, 1 / 12 + 0.01], atol=0.005)
    p = np.linspace(0.0005, 0.9995, 1000)
    entropy = -(p * np.log(p) + (1 - p) * np.log(1 - p)).mean()
    assert np.allclose(got.information[:2], np.log(2) - entropy, atol=0.01)
    assert np.allclose(got.information[2], 0.5 * np.log1p(1 / 12 / 0.01), atol=0.03)
    own = 0.25 * np.array([0.25 - 1 / 12, 0.25 - 1 / 12, 0.01])  # a cell's own noise in the mean
    shared = 0.25 / 12 * np.array([2, 2, 1])
    assert np.allclose(got.reduction[:3], (own + shared) ** 2 / got.variance[:3], rtol=0.1)


@pytest.mark.slow
def test_with_answers_the_posterior_narrows(learned):
    _, posterior = learned
    few, many = (posterior.all(answered(OUTCOMES[60:], range(count))) for count in (2, 60))
    assert many.deviation.mean() < 0.9 * few.deviation.mean()


def test_a_bad_matrix_is_refused():
    with pytest.raises(BadInput, match="a score is between 0 and 1"):
        methods.get("uniform+neural_process").fit(np.full((6, 9), 2.0, np.float32), None, KEY)


@pytest.mark.slow
def test_holes_and_a_single_group_are_no_obstacle():
    values = np.where(np.random.default_rng(0).random(SMALL.shape) < 0.3, 255, SMALL)
    values[:, 7] = 255  # a sample without any value: a new one
    known = ArrayMatrix(values.astype(np.uint8), ["one run"] * len(values))
    evaluator = methods.get("random+neural_process").fit(known, None, KEY)
    estimates = evaluator.evaluate(MatrixOracle(SMALL[:2]), 2, 10, KEY)
    assert np.isfinite(estimates.values).all() and "fewer than 5" in estimates.reason


KILLED = """
import os
import signal
import sys
from pathlib import Path

import jax

from nevis_stream.dynamic_evaluation import fits, methods
from nevis_stream.queries.matrix import ArrayMatrix
from nevis_stream.dynamic_evaluation.method import make_context
from nevis_stream.experiments.methods.neural_process import network as training
from nevis_stream.storage import checkpoint
from nevis_stream.training import loop
from tests.dynamic_evaluation.conftest import SHORT
from tests.dynamic_evaluation.making import one_order

for name, value in SHORT.items():
    setattr(training, name, value)
training.STEPS, loop.SECONDS = 50, 0.0
known, method = ArrayMatrix(one_order(12, 60, noise=0.7)), methods.get("uniform+neural_process")
stored = fits.find_fit(fits.Fits(Path(sys.argv[1])), method, known, 0)
write, count = checkpoint.write, int(sys.argv[2])

def written(*arguments):
    global count
    count -= 1
    if not count:
        os.kill(os.getpid(), signal.SIGKILL)
    write(*arguments)

checkpoint.write = written
stored.make_evaluator(known, 8, jax.random.key(0), make_context())
"""


@pytest.mark.slow
@pytest.mark.parametrize("fatal", [2, 5])
def test_a_killed_fit_goes_on_where_it_was(tmp_path, monkeypatch, fatal):
    """In its training, and in its cross-validation, whose fits are trainings too."""
    monkeypatch.setattr(loop, "SECONDS", 0.0)
    monkeypatch.setattr(training, "STEPS", 50)
    method, known, parts = methods.get("uniform+neural_process"), ArrayMatrix(SMALL), []
    draw = training.draw

    def counted(*arguments):
        parts.append(arguments)
        return draw(*arguments)

    monkeypatch.setattr(training, "draw", counted)

    def fit(folder):
        ctx = make_context()
        stored = fits.find_fit(fits.Fits(tmp_path / folder), method, known, 0)
        evaluator = stored.make_evaluator(known, 8, KEY, ctx)
        return evaluator.tree, total(ctx.meter.counts())

    whole, flops = fit("whole")
    everything, parts[:] = len(parts), []
    command = [sys.executable, "-c", KILLED, str(tmp_path / "killed"), str(fatal)]
    assert subprocess.run(command).returncode == -signal.SIGKILL
    again, charged = fit("killed")
    assert 0 < len(parts) < everything  # some were not computed again
    assert charged == flops
    leaves, others = jax.tree.leaves(whole), jax.tree.leaves(again)
    assert all(np.array_equal(a, b) for a, b in zip(leaves, others, strict=True))
    assert [each.name for each in (tmp_path / "killed" / fits.FOLDER).iterdir()] == [method.name]
