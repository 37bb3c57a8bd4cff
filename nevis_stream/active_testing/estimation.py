"""The estimate of a model's loss from few labels, given its probabilities and a labeller."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from nevis_stream import extensions
from nevis_stream.active_testing.estimators import ESTIMATORS
from nevis_stream.active_testing.pool import LabelledDraws, Pool
from nevis_stream.active_testing.surrogate import Schedule, SurrogateData
from nevis_stream.active_testing.surrogates import build_surrogate
from nevis_stream.active_testing.testing import run_active_test
from nevis_stream.errors import BadInput, look_up
from nevis_stream.queries.answering import UserFunction
from nevis_stream.queries.oracle import Cost, Estimate, Query, Responses
from nevis_stream.seeds import generator

Label = (
    Callable[[list[int]], "Sequence[int] | np.ndarray"]
    | Mapping[int, Any]
    | Sequence[int]
    | np.ndarray
)
"""Takes rows of the probabilities, returns the class of each, from 0; or the classes by row."""


def estimate(
    probabilities: np.ndarray,
    label: Label,
    budget: int,
    *,
    loss: str = "zero_one",
    estimator: str = "tuned_difference",
    rule: str = "rms_loss",
    images: np.ndarray | None = None,
    features: np.ndarray | str = "patches",
    batch: int = 1,
    seed: int = 0,
) -> Estimate:
    """Estimates a model's mean loss over a pool of samples from the labels of a few of them.

    The samples are drawn at random, with more probability where the loss may be large, so the
    estimate holds for any model.

    Args:
      probabilities: float[n, c], the model's, on every sample.
      label: takes a list of rows and returns the class of each. Where there is none (None, NaN, a
        text or an exception) the sample is left out, and the interval allows for any class. Or the
        classes that are known: by row, or an array of all.
      budget: number of samples to ask.
      loss: "zero_one", whose mean is the error rate, or another name (`nevis-stream label simulate
        --help` lists all).
      estimator: how the loss is estimated.
      rule: a name of `acquisition_functions.RULES`, which scores what a sample's label is worth.
      images: uint8[n, side, side, channels], of the samples: a model that is trained on the labels
        so far then predicts the others'.
      features: of the samples, float32[n, d] whose mean square is about 1, in place of images; or
        the name of the function that computes them from images.
      batch: number of labels that are asked at a time.
      seed: of all random numbers.

    Returns: the estimate with its 95% interval, or the reason why there is none.

    Raises:
      BadInput: an argument cannot be used, or an answer is not a class.
      AnsweringFailed: later than in its first call, `label` raised a NameError or an ImportError,
        or failed ten times in a row alike. Whatever its first call raises is raised as it is.
    """
    estimate_loss = look_up(ESTIMATORS, "estimator", estimator)
    *_, last = _run_test(probabilities, label, budget, loss, rule, images, features, batch, seed)
    return estimate_loss(last)


def estimates(
    probabilities: np.ndarray,
    label: Label,
    budget: int,
    *,
    loss: str = "zero_one",
    estimator: str = "tuned_difference",
    rule: str = "rms_loss",
    images: np.ndarray | None = None,
    features: np.ndarray | str = "patches",
    batch: int = 1,
    seed: int = 0,
) -> Iterator[Estimate]:
    """Yields the estimate after each batch of labels, for example to stop when its interval is
    short enough; arguments as of `estimate`, which is the last of these.
    """
    estimate_loss = look_up(ESTIMATORS, "estimator", estimator)
    steps = _run_test(probabilities, label, budget, loss, rule, images, features, batch, seed)
    return map(estimate_loss, steps)


def _run_test(
    probabilities: np.ndarray,
    label: Label,
    budget: int,
    loss: str,
    rule: str,
    images: np.ndarray | None,
    features: np.ndarray | str,
    batch: int,
    seed: int,
) -> Iterator[LabelledDraws]:
    """Yields the labelled draws after each batch of labels. The surrogate is retrained after the
    numbers of labels of `Schedule`.
    """
    pool = Pool.of(probabilities, loss)
    vectors = _features(pool.n, images, features, seed)
    data = SurrogateData(pool.predictions, features=vectors)
    name = "tested_model" if vectors is None else "heads"
    surrogate = Schedule().applied(build_surrogate(name, data, seed))

    function = UserFunction(label, range(pool.n), "the labeller")

    def oracle(query: Query) -> Responses:
        rows = query.samples[0].tolist()
        found = function(rows)
        labels = np.array([found[row] for row in rows], np.float64)  # NaN in place of None
        return Responses(query, labels[None], Cost(labels=len(rows)))

    random = generator(seed, "draws")
    return run_active_test(pool, surrogate, oracle, budget, random, rule, batch=batch)


def _features(
    n: int, images: np.ndarray | None, features: np.ndarray | str, seed: int
) -> np.ndarray | None:
    if isinstance(features, str):
        if images is None:
            return None
        describe = extensions.load(extensions.FEATURES, features)
        features = np.asarray(describe(np.asarray(images), seed), np.float32)
    elif images is not None:
        raise BadInput("give images or features, not both.")
    vectors = np.asarray(features, np.float32)
    if vectors.ndim != 2 or len(vectors) != n:
        raise BadInput(
            f"features of shape {list(vectors.shape)}; [{n}, d] is expected, a row for each sample."
        )
    return vectors
