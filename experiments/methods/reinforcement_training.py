"""The training of the policy of `reinforcement`, and its network.

An episode is a known model of which some random samples were asked already; the policy asks
`HORIZON` more. The reward of a sample is the fall of the expected squared error of the cells that
were not asked, bias² plus variance (active evaluation acquisition, equation 8); at the end comes
the accuracy of the predictions. Advantages are generalised advantage advantages.

The network is that of equation 9 and table B.1. In equation 9 the logit of a sample is the product
of its representation with the actor's output. Ours differs: a projection of the sample's element
after the set layer, which has seen the answers, is added to the representation, and the product is
divided by the root of its length.
"""

import hashlib
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn

from nevis_stream.array_types import Float
from nevis_stream.cost.compute import Compute
from nevis_stream.cost.counted import make_once
from nevis_stream.dynamic_evaluation import known_models
from nevis_stream.dynamic_evaluation.known_models import digest
from nevis_stream.dynamic_evaluation.predictors.linear_gaussian import MODELS
from nevis_stream.dynamic_evaluation.response import ResponsePosterior
from nevis_stream.experiments.methods.neural_process.network import DIMENSION, SetLayer
from nevis_stream.queries.matrix import Matrix
from nevis_stream.queries.oracle import Query, Responses
from nevis_stream.queries.samples import make_numpy_generator
from nevis_stream.storage.checkpoint import Tree
from nevis_stream.training.descent import begin, make_optimiser, make_steps
from nevis_stream.training.loop import train_in_parts

WIDTH = 32
NEVER = -1e9  # the logit of a sample that was asked; -inf has no gradient
POINTS = 16  # inducing points of the set layer


class State(NamedTuple):
    """What the policy sees of n samples, of one or several models: float32[…, n] each.

    Attributes:
      asked: 1 for the samples that were asked.
      values: their values, 0 for the others.
      mean, deviation: expected values by the predictor, and their standard deviations.
    """

    asked: jax.Array
    values: jax.Array
    mean: jax.Array
    deviation: jax.Array


class ActorCritic(nn.Module):
    """Actor and critic on one layer of a Set Transformer.

    Args:
      frozen: whether representations of samples are not learned here: they are those of the neural
        process where there is one, else a fixed projection.
    """

    frozen: bool = False

    @nn.compact
    def __call__(
        self, descriptions: Float[jax.Array, "... samples descriptions"], state: State
    ) -> tuple[Float[jax.Array, "... samples"], Float[jax.Array, "..."]]:
        """Returns the logit of asking each sample, float32[…, n], and the value of the state,
        float32[…].

        Args:
          descriptions: float32[n, d], of the samples.
          state: of one or several models.
        """
        samples = nn.Dense(DIMENSION)(descriptions)
        if self.frozen:
            given = descriptions.shape[-1] == DIMENSION
            samples = descriptions if given else jax.lax.stop_gradient(samples)
        samples = jnp.broadcast_to(samples, (*state.asked.shape, DIMENSION))
        unknown = self.param("unknown", nn.initializers.normal(1.0), (DIMENSION,))
        known = nn.Dense(DIMENSION)(state.values[..., None])
        values = jnp.where(state.asked[..., None] > 0, known, unknown)
        posterior = jnp.stack([state.mean, state.deviation], axis=-1)
        elements = nn.Dense(WIDTH)(jnp.concatenate([samples, values, posterior], axis=-1))
        elements = SetLayer(WIDTH, POINTS)(elements, jnp.ones(state.asked.shape, bool))
        pooled = elements.mean(axis=-2)
        candidates = nn.Dense(DIMENSION)(elements) + samples
        wanted = nn.Dense(DIMENSION)(pooled)
        logits = jnp.einsum("...nd,...d->...n", candidates, wanted) / DIMENSION**0.5
        logits = jnp.where(state.asked > 0, NEVER, logits)
        return logits, nn.Dense(1)(pooled)[..., 0]


PerStep = Float[np.ndarray, "steps episodes"]

VERSION = 1  # of a training, in the name under which `train_in_parts` keeps its state
ITERATIONS = 30
EPISODES = 8  # in each iteration
HORIZON = 16  # steps of an episode, at most
EPOCHS = 4  # in each iteration
BATCHES = 4  # of an epoch
VISIBLE = 1024  # samples that the policy sees in an episode, at most
ASKED_BEFORE = 128  # samples that were asked before an episode, at most
OPTIMISER = {"rate": 1e-3, "largest_gradient": 0.5}
DISCOUNT, LAMBDA, CLIP = 0.99, 0.95, 0.2  # table B.1
ENTROPY_WEIGHT_COLD = 0.001  # with samples that no known model has met; otherwise 0
VALUE_WEIGHT = 0.5  # of the critic's loss


class Transitions(NamedTuple):
    """b steps of episodes.

    Attributes:
      states: before each step, float32[b, n] each.
      actions: int32[b], the sample that was asked.
      log_probability: float32[b], the logarithm of its probability then.
      advantages, returns: float32[b].
    """

    states: State
    actions: np.ndarray
    log_probability: np.ndarray
    advantages: np.ndarray
    returns: np.ndarray


def compute_advantages(rewards: PerStep, values: PerStep) -> PerStep:
    """Returns generalised advantage estimates (Schulman et al. 2016), [t, episodes].

    Args:
      rewards, values: of each step and the state before it, [t, episodes]; the value after the last
        step is 0.
    """
    after = np.concatenate([values[1:], np.zeros_like(values[:1])])
    differences, result = rewards + DISCOUNT * after - values, np.zeros_like(rewards)
    running = np.zeros_like(rewards[0])
    for step in reversed(range(len(rewards))):
        running = differences[step] + DISCOUNT * LAMBDA * running
        result[step] = running
    return result


def compute_loss(
    network: ActorCritic,
    parameters: Tree,
    descriptions: jax.Array,
    steps: Transitions,
    entropy_weight: float,
) -> jax.Array:
    """Returns the clipped loss of proximal policy optimisation for the actor, with the loss of the
    critic and the weighted entropy, float32.

    Args:
      network, parameters: the policy.
      descriptions: float32[n, d], of the samples.
      steps: b steps.
      entropy_weight: of the mean entropy of the actor's choices, which is subtracted.
    """
    logits, values = network.apply(parameters, descriptions, steps.states)
    log_probabilities = jax.nn.log_softmax(logits)
    log_probability = jnp.take_along_axis(log_probabilities, steps.actions[:, None], axis=1)[:, 0]
    ratio = jnp.exp(log_probability - steps.log_probability)
    clipped = jnp.clip(ratio, 1 - CLIP, 1 + CLIP)
    gain = jnp.minimum(ratio * steps.advantages, clipped * steps.advantages).mean()
    entropy = -(jnp.exp(log_probabilities) * log_probabilities).sum(axis=1).mean()
    error = ((values - steps.returns) ** 2).mean()
    return VALUE_WEIGHT * error - gain - entropy_weight * entropy


@make_once
def make_update_program(frozen: bool, entropy_weight: float) -> Callable[..., Tree]:
    """Returns the program that takes (parameters, state of the optimiser), batches of steps,
    [batches, b, …], and descriptions, and returns the first of these after an update on each batch.
    """
    network = ActorCritic(frozen)
    return make_steps(
        lambda parameters, batch, descriptions: compute_loss(
            network, parameters, descriptions, batch, entropy_weight
        ),
        make_optimiser(**OPTIMISER).update,
    )


@make_once
def make_acting_program(frozen: bool) -> Callable[..., tuple[jax.Array, jax.Array]]:
    """Returns the program that takes parameters, descriptions and a state, and returns logits and
    values as `ActorCritic` does.
    """
    return lambda parameters, descriptions, state: ActorCritic(frozen).apply(
        parameters, descriptions, state
    )


def make_state(answers: Responses, moments: tuple[np.ndarray, np.ndarray]) -> State:
    """Returns what the policy sees of m models after some answers, float32[m, n] each; `moments`
    are the predictor's.
    """
    mean, variance = moments
    asked, values = np.zeros(mean.shape, np.float32), np.zeros(mean.shape, np.float32)
    np.put_along_axis(asked, answers.samples, 1.0, axis=1)
    np.put_along_axis(values, answers.samples, answers.values.astype(np.float32), axis=1)
    deviation = np.sqrt(np.maximum(variance, 0))
    return State(asked, values, np.float32(mean), np.float32(deviation))


def compute_expected_error(
    state: State, truth: Float[np.ndarray, "models samples"]
) -> Float[np.ndarray, " models"]:
    """Returns the mean of the expected squared errors of cells that were not asked, float64[m]."""
    free = 1 - state.asked
    error = ((state.mean - truth) ** 2 + state.deviation**2) * free
    return error.sum(axis=1, dtype=np.float64) / np.maximum(free.sum(axis=1), 1)


def play_episodes(
    parameters: Tree,
    act: Callable[..., Any],
    descriptions: np.ndarray,
    truth: np.ndarray,
    posterior: ResponsePosterior,
    random: np.random.Generator,
    horizon: int,
    shaped: bool = True,
) -> tuple[Transitions, np.ndarray]:
    """Plays an episode of each of m models; returns their steps, b = `horizon` · m, and the samples
    that the policy saw, int64.

    Args:
      parameters: of the network.
      act: the compiled program of `make_acting_program`.
      descriptions: float32[n, d].
      truth: float32[m, n], the values of the models, without holes.
      posterior: of the predictor.
      random: draws samples and actions.
      horizon: number of steps of each episode.
      shaped: whether each step has a reward, and not only the last.
    """
    models, n = truth.shape
    columns = np.sort(random.choice(n, min(VISIBLE, n), replace=False))
    most = min(ASKED_BEFORE, len(columns) - horizon)
    before = int((most + 1) ** random.random()) - 1
    start = random.random((models, len(columns))).argsort(axis=1)[:, :before]
    answers = _answer(columns[start], truth)
    states, actions, log_probability, values, rewards = [], [], [], [], []
    state = make_state(answers, posterior.moments(answers))
    error = compute_expected_error(state, truth)
    for _ in range(horizon):
        visible = State(*(each[:, columns] for each in state))
        logits, value = (
            np.asarray(each) for each in act(parameters, descriptions[columns], visible)
        )
        noisy = logits + random.gumbel(size=logits.shape)
        noisy[visible.asked > 0] = -np.inf
        action = noisy.argmax(axis=1)
        # in float64, and only over the candidates
        shifted = np.where(visible.asked > 0, -np.inf, logits.astype(np.float64))
        shifted = shifted - shifted.max(axis=1, keepdims=True)
        log_sum = np.log(np.exp(shifted).sum(axis=1))
        log_chosen = np.take_along_axis(shifted, action[:, None], axis=1)[:, 0] - log_sum
        answers = answers.then(_answer(columns[action][:, None], truth))
        state = make_state(answers, posterior.moments(answers))
        after = compute_expected_error(state, truth)
        for kept, item in zip(
            (states, actions, log_probability, values, rewards),
            (visible, action, log_chosen, value, (error - after) * shaped),
            strict=True,
        ):
            kept.append(item)
        error = after
    free = 1 - state.asked
    away = (np.abs(state.mean - truth) * free).sum(axis=1) / np.maximum(free.sum(axis=1), 1)
    rewards[-1] = rewards[-1] + 1 - away
    advantages = compute_advantages(np.stack(rewards), np.stack(values).astype(np.float64))
    returns = advantages + np.stack(values)
    normalised = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
    taken, *rest = (
        np.concatenate(list(each)) for each in (actions, log_probability, normalised, returns)
    )
    joined = State(*(np.concatenate(parts) for parts in zip(*states, strict=True)))
    return Transitions(
        joined, taken.astype(np.int32), *(np.float32(each) for each in rest)
    ), columns


def _answer(samples: np.ndarray, truth: np.ndarray) -> Responses:
    return Responses(Query(samples), np.take_along_axis(truth, samples, axis=1))


def train(
    known: Matrix,
    posterior: ResponsePosterior,
    descriptions: np.ndarray,
    cold: bool,
    key: jax.Array,
    ctx: Compute,
    shaped: bool = True,
) -> Tree:
    """Returns the parameters of a policy that was trained on the known models.

    Args:
      known: the known models; holes are filled as `known_models.fill_holes` does.
      posterior: of the predictor, fitted to them.
      descriptions: float32[n, d], of the samples.
      cold: whether there are samples that no known model has met.
      key: a JAX key.
      ctx: counts FLOPs.
      shaped: as of `play_episodes`.
    """
    network, entropy_weight = ActorCritic(cold), ENTROPY_WEIGHT_COLD if cold else 0.0
    random, (models, n) = make_numpy_generator(key), known.shape
    rows = None
    if models > MODELS:
        rows = np.sort(random.choice(models, MODELS, replace=False))
    truth = known_models.fill_holes(known.matrix(rows), random).astype(np.float32)
    horizon = min(HORIZON, n)
    blank = State(*np.zeros((4, 1, n), np.float32))
    parameters = jax.jit(network.init)(key, descriptions, blank)
    start = begin(make_optimiser(**OPTIMISER), parameters)
    act, update = (
        ctx.jit(make_acting_program(cold)),
        ctx.jit(make_update_program(cold, entropy_weight)),
    )
    number = random.integers(2**63)

    def advance(training: Tree, part: int, _: int) -> Tree:
        random = np.random.default_rng([number, part])
        drawn = truth[random.choice(len(truth), EPISODES, replace=len(truth) < EPISODES)]
        steps, columns = play_episodes(
            training[0], act, descriptions, drawn, posterior, random, horizon, shaped
        )
        ctx.charge(horizon * drawn.size * 6)  # the rewards
        size = len(steps.actions) // BATCHES
        orders = [random.permutation(len(steps.actions)) for _ in range(EPOCHS)]
        chosen = np.concatenate(
            [order[: BATCHES * size].reshape(BATCHES, size) for order in orders]
        )
        return update(
            training, jax.tree.map(lambda leaf: leaf[chosen], steps), descriptions[columns]
        )

    def make_name() -> str:
        about = repr((VERSION, ITERATIONS, cold, shaped, int(number), digest(known)))
        return "policy-" + hashlib.sha256(about.encode()).hexdigest()[:16]

    return train_in_parts(ctx, make_name, start, ITERATIONS, advance)[0]
