"""The policy that is trained by reinforcement learning."""

import jax
import numpy as np
import pytest
from scipy.special import softmax

from nevis_stream.cost.meter import total
from nevis_stream.dynamic_evaluation import methods
from nevis_stream.dynamic_evaluation.method import make_context
from nevis_stream.dynamic_evaluation.policy import Plan
from nevis_stream.dynamic_evaluation.response import ResponsePosterior
from nevis_stream.experiments.methods import reinforcement_training as training
from nevis_stream.experiments.methods.reinforcement_training import (
    NEVER,
    ActorCritic,
    State,
)
from nevis_stream.queries.matrix import ArrayMatrix
from nevis_stream.queries.oracle import MatrixOracle, Query, Responses
from nevis_stream.training import loop
from tests.dynamic_evaluation.making import one_order

KEY, SAMPLES = jax.random.key(0), 24
POLICY = methods.POLICIES["reinforcement"]


class Noisy(ResponsePosterior):
    """A posterior by which one sample in four is uncertain, until it is asked; answers to others
    change nothing.
    """

    def moments(self, answers):
        mean = np.full((len(answers.samples), self.n), 0.5, np.float32)
        variance = np.broadcast_to(np.where(np.arange(self.n) % 4 == 0, 0.25, 0.001), mean.shape)
        return mean, variance.astype(np.float32)


def descriptions(n):
    """What the policy may learn: which samples are uncertain."""
    columns = [np.arange(n) % 4 == 0, np.arange(n) % 4 == 1, np.ones(n)]
    return np.stack(columns, axis=1).astype(np.float32)


@pytest.mark.slow
def test_it_learns_to_ask_what_lowers_the_expected_error(monkeypatch):
    """By then almost all its samples are the uncertain ones; without training one in four."""
    for name, value in {"ITERATIONS": 25, "EPISODES": 8, "HORIZON": 5, "ASKED_BEFORE": 0}.items():
        monkeypatch.setattr(training, name, value)
    known = ArrayMatrix(np.full((8, SAMPLES), 0.5, np.float32))
    posterior, texts = Noisy(SAMPLES), descriptions(SAMPLES)
    parameters = training.train(known, posterior, texts, False, KEY, make_context())
    tree = {"parameters": parameters, "descriptions": texts, "cold": False}
    answers = POLICY.ask(
        Plan(tree, {}, posterior, 5), MatrixOracle(known.values[:2]), 2, KEY, make_context()
    )
    assert (answers.samples % 4 == 0).mean() >= 0.8
    act = make_context().jit(training.make_acting_program(False))
    random = np.random.default_rng(0)
    steps, _ = training.play_episodes(parameters, act, texts, known.values, posterior, random, 5)
    assert (steps.actions % 4 == 0).mean() > 0.6


def test_advantages_are_discounted_sums_of_surprises():
    rewards, values = np.array([[1.0], [0.0], [2.0]]), np.array([[0.5], [1.0], [0.2]])
    surprise = [1 + 0.99 * 1.0 - 0.5, 0 + 0.99 * 0.2 - 1.0, 2 - 0.2]
    expected = [
        sum((0.99 * 0.95) ** (later - step) * surprise[later] for later in range(step, 3))
        for step in range(3)
    ]
    assert np.allclose(training.compute_advantages(rewards, values)[:, 0], expected)


def test_the_rewards_of_an_episode_add_up_to_the_fall_of_the_error_and_the_accuracy():
    """Eq. 8 is a difference of potentials: what lies between does not matter."""
    truth, posterior, random = np.full((2, 8), 0.5, np.float32), Noisy(8), np.random.default_rng(0)
    parameters = jax.jit(ActorCritic().init)(
        KEY, descriptions(8), State(*np.zeros((4, 1, 8), np.float32))
    )
    act = make_context().jit(training.make_acting_program(False))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training, "DISCOUNT", 1.0)
        patch.setattr(training, "LAMBDA", 1.0)
        patch.setattr(training, "ASKED_BEFORE", 0)
        steps, _ = training.play_episodes(
            parameters, act, descriptions(8), truth, posterior, random, horizon=4
        )
    state = State(*(each[:2] for each in steps.states))
    asked = np.zeros((2, 8), np.float32)
    np.put_along_axis(asked, steps.actions.reshape(4, 2).T, 1.0, axis=1)
    last = training.compute_expected_error(state._replace(asked=asked), truth)
    first = training.compute_expected_error(state, truth)
    assert np.allclose(steps.returns[:2], first - last + 1, atol=1e-5)  # accuracy 1


def test_asked_samples_have_probability_0_and_unknown_ones_a_representation_of_their_own():
    random, network = np.random.default_rng(0), ActorCritic()
    asked = np.array([[1, 0, 0, 1, 0]], np.float32)
    values = np.array([[1, 0, 0, 0, 0]], np.float32)
    state = State(asked, values, np.full((1, 5), 0.5), np.full((1, 5), 0.5))
    texts = random.normal(size=(5, 3))
    parameters = jax.jit(network.init)(KEY, texts, state)
    read = jax.jit(network.apply)
    logits = np.asarray(read(parameters, texts, state)[0])
    assert (logits[asked > 0] == NEVER).all()
    assert (softmax(logits)[asked > 0] == 0).all()
    order = np.array([4, 2, 0, 1, 3])
    turned, _ = read(parameters, texts[order], State(*(each[:, order] for each in state)))
    assert np.allclose(turned, logits[:, order], atol=1e-5)


def test_frozen_representations_are_not_learned():
    state = State(*np.zeros((4, 1, 5), np.float32))
    texts = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    parameters = jax.jit(ActorCritic().init)(KEY, texts, state)
    for frozen in (True, False):
        network = ActorCritic(frozen)
        slope = jax.jit(jax.grad(lambda p, n=network: n.apply(p, texts, state)[0].std()))(
            parameters
        )
        assert bool(np.abs(slope["params"]["Dense_0"]["kernel"]).max() > 0) != frozen


@pytest.mark.slow
def test_cold_start_takes_the_representations_of_the_process():
    values = one_order(10, 40)
    values[:, 30:] = 255
    known = ArrayMatrix(values)
    tree = methods.get("reinforcement+neural_process").fit(known, None, KEY).tree["policy"]
    assert tree["cold"] and tree["descriptions"].shape == (40, 16)


@pytest.mark.slow
def test_a_killed_training_goes_on_with_the_same_account(tmp_path, monkeypatch):
    monkeypatch.setattr(loop, "SECONDS", 0.0)
    known, method = ArrayMatrix(one_order(8, 40)), methods.get("reinforcement+linear_gaussian")

    def fit():
        ctx = make_context()
        tree = method.fit(known, None, KEY, ctx).tree["policy"]
        return jax.tree.leaves(tree["parameters"]), total(ctx.meter.counts())

    whole, flops = fit()
    play = training.play_episodes
    with loop.keep_positions(tmp_path), monkeypatch.context() as patch:
        parts = [play]
        patch.setattr(training, "play_episodes", lambda *arguments: parts.pop()(*arguments))
        with pytest.raises(IndexError):  # the second part
            fit()
        parts = [play]
        again, charged = fit()
    assert charged == flops
    assert all(np.array_equal(a, b) for a, b in zip(whole, again, strict=True))


def test_it_asks_within_the_budget_in_batches(monkeypatch):
    for name, value in {"ITERATIONS": 2, "EPISODES": 4, "HORIZON": 5}.items():
        monkeypatch.setattr(training, name, value)
    matrix = one_order(12, 90)
    evaluator = methods.get("reinforcement+linear_gaussian").fit(matrix[:10], None, KEY)
    plan, calls = evaluator.plan(40), []

    def oracle(query):
        calls.append(query.samples.shape[1])
        return MatrixOracle(matrix[10:])(query)

    answers = POLICY.ask(plan, oracle, 2, KEY, make_context())
    assert calls == [2] * 20
    assert all(len(set(row)) == 40 for row in answers.samples.tolist())
    empty = Responses(Query.none(2), np.empty((2, 0), np.uint8))
    state = training.make_state(empty, plan.posterior.moments(empty))
    assert (state.asked == 0).all() and (state.deviation > 0).all()
