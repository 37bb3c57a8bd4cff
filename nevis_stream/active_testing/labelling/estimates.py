"""What a session's labels say: estimates, with intervals, of each model and of differences."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import stdtrit

from nevis_stream.active_testing.estimators import (
    ESTIMATORS,
    FEWEST,
    compute_lure_weights,
    step_estimates,
)
from nevis_stream.active_testing.labelling.files import Draw
from nevis_stream.active_testing.labelling.session import Session
from nevis_stream.active_testing.pool import LabelledDraws, subtract_pools
from nevis_stream.errors import BadInput, look_up
from nevis_stream.queries.oracle import NO_LABEL, Cost, Estimate, Query, Responses


@dataclass(frozen=True)
class ModelEstimate:
    """An estimate of one quantity.

    Attributes:
      name: of the model, or "A minus B".
      estimate: of its mean loss over all samples, or of the difference.
    """

    name: str
    estimate: Estimate

    @property
    def width(self) -> float:
        """The width of the interval; NaN if there is none."""
        return self.estimate.high - self.estimate.low


def estimate_models(session: Session, estimator: str) -> list[ModelEstimate]:
    """Returns the estimates of all models, then of the differences of all pairs.

    Args:
      session: a session.
      estimator: a name of `estimators.ESTIMATORS` that needs no surrogate now.
    """
    estimate = look_up(ESTIMATORS, "estimator", estimator)
    if estimator == "ase":
        raise BadInput(
            "--estimator=ase: has no interval. The page of `report` shows it beside any other"
            " estimator, as the surrogate's expectation. Choose another one."
        )
    models = session.model_names
    singles = [
        ModelEstimate(
            name, combine([estimate(each) for each in gather_draws(session, number)], session)
        )
        for number, name in enumerate(models)
    ]
    pairs = [
        ModelEstimate(
            f"{models[first]} minus {models[second]}",
            combine([estimate(each) for each in gather_draws(session, first, second)], session),
        )
        for first, second in itertools.combinations(range(len(models)), 2)
    ]
    return singles + pairs


def gather_draws(session: Session, model: int, other: int | None = None) -> list[LabelledDraws]:
    """Returns the labelled draws of each pool part, for a model or its difference to another one.

    They end before the first drawn sample that has no label, so that which labels are missing
    cannot bias it.
    """
    past = session.history()
    rounds, labels = past.rounds, past.answers
    result = []
    for place, pool_part in enumerate(session.pool_parts):
        mine = [draw for draw in rounds if draw.pool_part == place]
        pool = session.pools[place][model]
        if other is not None:
            pool = subtract_pools(pool, session.pools[place][other])

        def join(name: str, shape: tuple[int, ...] = (), mine: Sequence[Draw] = mine) -> np.ndarray:
            """Returns what all draws of the pool part have under a name."""
            return np.concatenate([np.empty((*shape, 0)), *(getattr(d, name) for d in mine)], -1)

        asked = join("samples").astype(np.int64).tolist()
        usable = next((k for k, sample in enumerate(asked) if sample not in labels), len(asked))
        values = np.array([labels[sample] for sample in asked[:usable]], np.int32)
        samples = np.array(asked[:usable], np.int64) - pool_part.first
        both = [join(name, (len(session.model_names),)) for name in ("predicted", "remaining")]
        predicted, remaining = (
            (each[model] - (0 if other is None else each[other]))[:usable] for each in both
        )
        query = Query(samples[None], join("probabilities")[None, :usable])
        answers = Responses(query, values[None])
        cost = Cost(labels=int((values != NO_LABEL).sum()))
        none = np.zeros(pool.n)
        result.append(LabelledDraws(pool, answers, predicted, remaining, none, cost))
    return result


def combine(estimates: Sequence[Estimate], session: Session) -> Estimate:
    """Returns the estimate over all pool parts, each weighted by its number of samples.

    They are drawn independently of each other, so the squares of half widths add up.
    """
    if len(estimates) == 1:
        return estimates[0]
    fractions = np.array([len(pool_part.ids) for pool_part in session.pool_parts])
    fractions = fractions / fractions.sum()
    observed = sum(each.observed for each in estimates)
    failed = sum(each.failed for each in estimates)
    cost = sum((each.cost for each in estimates), Cost())
    value = float(sum(s * each.value for s, each in zip(fractions, estimates, strict=True)))
    parts = [f"samples added later (part {number})" for number in range(1, len(estimates))]
    reasons = [
        f"the {part}: {each.reason}"
        for part, each in zip(("first samples", *parts), estimates, strict=True)
        if each.reason
    ]
    if reasons:
        return Estimate(value, reason=reasons[0], observed=observed, cost=cost, failed=failed)
    below = float(np.hypot.reduce(fractions * [each.value - each.low for each in estimates]))
    above = float(np.hypot.reduce(fractions * [each.high - each.value for each in estimates]))
    return Estimate(
        value, value - below, value + above, observed=observed, cost=cost, failed=failed
    )


def estimate_along(
    session: Session, model: int, estimator: str, points: int = 40
) -> list[tuple[int, Estimate]]:
    """Returns the estimate after several numbers of labels, at most `points` of them."""
    parts = gather_draws(session, model)
    total = sum(part.asked for part in parts)
    counts = np.unique(np.linspace(min(total, FEWEST), total, points).astype(int))
    estimate = ESTIMATORS[estimator]
    # labels of several pool parts are interleaved in proportion to their numbers
    return [
        (
            int(count),
            combine(
                [estimate(shorten(part, round(count * part.asked / total))) for part in parts],
                session,
            ),
        )
        for count in counts
        if count
    ]


def shorten(draws: LabelledDraws, asked: int) -> LabelledDraws:
    """Returns the draws up to a number of labels."""
    query = replace(
        draws.answers.query,
        samples=draws.answers.query.samples[:, :asked],
        probabilities=None
        if draws.probabilities is None
        else draws.answers.query.probabilities[:, :asked],
    )
    answers = replace(draws.answers, query=query, values=draws.answers.values[:, :asked])
    return replace(
        draws,
        answers=answers,
        predicted=draws.predicted[:asked],
        remaining=draws.remaining[:asked],
        cost=Cost(labels=int((answers.values != NO_LABEL).sum())),
    )


def count_plain_labels(draws: Sequence[LabelledDraws], half_width: float) -> float:
    """Returns how many labels plain random testing would have needed for an interval of this half
    width: the smallest M with t σ √(1/M − 1/n) at most that.

    σ² is estimated from the weighted draws: the mean of squares minus the square of the mean. A
    sample that nobody can label counts as one without a loss.

    Args:
      draws: of each pool part.
      half_width: in units of the loss; NaN without an interval, and then the result is NaN.
    """
    if np.isnan(half_width):
        return np.nan
    sizes = np.array([part.pool.n for part in draws], float)
    moments = []
    for part in (replace(each, assumed=0.0) for each in draws):
        if not part.asked:
            return np.nan
        squares = replace(part, pool=replace(part.pool, losses=part.pool.losses**2))
        weights = compute_lure_weights(part.pool.n, part.asked)
        moments.append([weights @ step_estimates(each, 0.0, 0.0) for each in (part, squares)])
    mean, square = sizes / sizes.sum() @ np.array(moments)
    variance, n = max(square - mean**2, 0.0), sizes.sum()
    quantile = stdtrit(max(sum(part.asked for part in draws) - 1, 1), 0.975)
    if not half_width > 0:
        return n
    return float(np.ceil(1 / ((half_width / quantile) ** 2 / max(variance, 1e-300) + 1 / n)))
