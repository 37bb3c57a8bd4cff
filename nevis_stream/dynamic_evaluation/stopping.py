"""When a session ends by its interval: one that holds at every number of answers at once, so that
looking often, or stopping when it is short, does not spoil it.
"""

import numpy as np

from nevis_stream.dynamic_evaluation import methods
from nevis_stream.dynamic_evaluation.policies.representative import Random
from nevis_stream.dynamic_evaluation.session_track import Track
from nevis_stream.errors import BadInput, unknown
from nevis_stream.estimation.betting import CANDIDATES, confidence_sequence
from nevis_stream.evaluation_cache import EvaluationCache
from nevis_stream.queries.matrix import is_observed
from nevis_stream.queries.samples import SampleFacts

METHOD = "random_mean"


def anytime_interval(track: Track, facts: SampleFacts, scores: bool) -> tuple[float, float] | None:
    """Returns the last of the `anytime_intervals`, None if there is none."""
    low, high = anytime_intervals(track, facts, scores)
    return (float(low[-1]), float(high[-1])) if len(low) else None


def anytime_intervals(
    track: Track, facts: SampleFacts, scores: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the 95% intervals of a model's mean, from 0 to 1, after each of its drawn samples, by
    `estimation.betting`; they hold all together.

    Only samples before the first one that has not been told count, so that which answers come late
    does not matter. A sample that gave no answer may have had any: the ends are those with 0 and
    with 1 in its place.

    Args:
      track: of the model.
      facts: about the samples.
      scores: whether the board has scores, not outcomes.

    Returns: low and high, float64[k], of the k samples that were drawn one by one with equal
      probabilities; k is 0 if the method chooses them otherwise.
    """
    if not track.drawn:
        return np.empty(0), np.empty(0)
    columns, values, n = np.array(track.drawn), track.drawn_values, facts.n
    exact = not scores and facts.dataset_weights is None and n < CANDIDATES
    weights = residuals = None
    if facts.dataset_weights is not None:
        weights = facts.weights[columns]
        left = n - np.arange(len(columns))
        residuals = np.zeros(len(columns)), left * facts.weights.max()
    missing = np.isnan(values)
    instead = np.array([[0.0], [1.0]]) if missing.any() else np.zeros((1, 1))
    low, high = confidence_sequence(
        np.where(missing, instead, values),
        n,
        outcomes=exact,
        weights=weights,
        residuals=residuals,
    )
    return low[0], high[-1]


def check_rule(
    cache: EvaluationCache, method: str | None, until: float | None, better_than: str | None
) -> str | None:
    """Returns the method of a session, None if it is to be chosen.

    Raises:
      BadInput: there is no such method or known model, or they do not fit the rule.
    """
    if until is None and better_than is None:
        if method is not None:
            methods.within_budget(method)
        return method
    if until is not None and better_than is not None:
        raise BadInput("until and until_better_than: give one of them.")
    if until is not None and not 0 < until < np.inf:
        raise BadInput(f"until={until:g}: the width of an interval is expected, above 0.")
    method = METHOD if method is None else method
    methods.within_budget(method)
    check_draws(method)
    if better_than is not None:
        known_mean(cache, better_than)
    return method


def check_draws(method: str) -> None:
    """Refuses a method that does not draw its samples one by one with equal probabilities."""
    if not isinstance(methods.get(method).policy, Random):
        raise BadInput(
            f"method {method!r} does not draw its samples one by one with equal probabilities, so"
            " there is no interval by which a session may end: use random_mean, or"
            " random+PREDICTOR, or give a budget only."
        )


def known_mean(cache: EvaluationCache, model: str) -> float:
    """Returns the mean of a known model over all samples, in the units of the board.

    Raises:
      BadInput: there is no such model, or it has no value on some sample.
    """
    if model not in cache.models():
        raise BadInput(f"until_better_than: {unknown('model', model, cache.models())}")
    values, facts = cache.matrix([model]), cache.facts()
    if lacking := int((~is_observed(values)).sum()):
        raise BadInput(
            f"until_better_than: model {model!r} has no value on {lacking:,} of the"
            f" {values.shape[1]:,} samples, so its mean over all is not known."
        )
    return facts.parts[0].unscale(float(facts.mean(values)[0]))
