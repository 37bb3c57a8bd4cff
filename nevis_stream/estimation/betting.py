"""Confidence sequences for a mean: intervals that hold at every number of draws at once, so that
one may stop when an interval is short enough.

Each draw gives an unbiased estimate of the mean, given all draws before it, with known bounds. A
gambler who bets against a candidate mean m that this estimate is higher (or lower) than m gains
nothing on average if m is true, so a capital of 1 reaches 1 / α with a probability of at most α
(Ville 1939): the candidates against which no such capital was won are the interval.

Source: Waudby-Smith and Ramdas 2024, Estimating means of bounded random variables by betting,
sections 4 and 5: hedged capital, diversified Kelly bets (the mean of several gamblers, each of whom
bets one fraction of the greatest bet that cannot ruin), draws without replacement.
"""

from dataclasses import dataclass, field

import numpy as np

from nevis_stream.array_types import Float

Draws = Float[np.ndarray, "*runs draws"]
Shared = Float[np.ndarray, "*#runs draws"]  # of each run, or the same for all

# of the greatest bet that cannot ruin; large ones for small variances, small ones for many draws
# (three to seven fractions from .02 to .95 gave the same widths within 3%)
FRACTIONS = (0.05, 0.1, 0.2, 0.4, 0.8)
GREATEST_FRACTION = 0.9  # fraction of the greatest bet that a bet for a target never exceeds
PRIOR_DRAWS = 10  # draws of variance 1/4 that the variance of the draws so far is mixed with
CANDIDATES = 1001


def compute_confidence_sequence(
    values: Draws,
    n: int,
    *,
    outcomes: bool = False,
    weights: Shared | None = None,
    probabilities: Shared | None = None,
    predicted: Shared | float = 0.0,
    remaining: Shared | float = 0.0,
    residuals: tuple[np.ndarray, np.ndarray] | None = None,
    level: float = 0.95,
    target: float | None = None,
    stakes: "Stakes | None" = None,
) -> tuple[Draws, Draws]:
    """Returns the interval of the mean of n values after each of M draws without replacement: with
    a probability of at least `level`, all M intervals contain the mean.

    >>> low, high = compute_confidence_sequence(np.array([1.0] * 40), n=100, outcomes=True)
    >>> round(float(low[9]), 2), round(float(low[39]), 2), float(high[39])
    (0.57, 0.89, 1.0)

    Draw m may prefer samples, with probabilities that depend on the values before it, and may use
    predictions of the values that are left, made before it: its estimate is
    Σ_{before} w z + Σ_{left} w g + w_i (z_i - g_i) / q_i (`active_testing.estimators` has the same
    steps). Leading axes are independent repetitions. Predictions, and draws of small probability,
    widen the range of these estimates, which limits the bets, so with few draws even good
    predictions may lengthen the interval.

    Args:
      values: float64[..., M], the drawn values z in [0, 1], in the order of the draws.
      n: number of values.
      outcomes: whether all n values are 0 or 1 and equally weighted, so that only k / n is
        possible.
      weights: float64[..., M], the weights w of the drawn values in the mean; all n of them add up
        to 1. None: 1 / n.
      probabilities: float64[..., M], the probability q with which each was drawn from those left.
        None: all that are left were equally probable.
      predicted: float64[..., M], g of the drawn values, made before the draw.
      remaining: float64[..., M], Σ w g over the values that were left before each draw.
      residuals: float64[..., M] twice, the least and the greatest value that w (z - g) / q could
        have taken in each draw, over all that were left and any value in [0, 1]. None is possible
        for equally probable draws of equal weight without predictions: 0 and the number left / n.
      level: the probability.
      target: the half-width of the interval at which one stops. All bets are then those that win
        fastest against means this far away (the distance over the variance of a draw, which is
        Kelly's bet for a small advantage). None: bets for any distance.
      stakes: of a call with the first of these draws and else the same arguments, which this one
        goes on from and changes; new ones where there was none.

    Returns: low and high, float64[..., M]; they never widen, unless the draws so far
      refute every mean.
    """
    known, weight, steps, floors, ceilings = _bound_steps(
        values, n, weights, probabilities, predicted, remaining, residuals
    )
    candidates = np.arange(n + 1) / n if outcomes else np.linspace(0, 1, CANDIDATES)
    bets = None
    if target is not None:
        left = (n - np.arange(steps.shape[-1])) / n
        bets = target / (_estimate_variances((steps - floors) / left) * left**2)
    low, high = _compute_ends(
        *(steps, floors, ceilings, candidates, not outcomes, 1 - level, bets),
        Stakes() if stakes is None else stakes,
    )
    greatest = known + np.maximum(1 - np.cumsum(weight, axis=-1), 0)
    return np.clip(low, known, greatest), np.clip(high, known, greatest)


@dataclass
class Stakes:
    """What a confidence sequence has come to after some draws.

    Attributes:
      draws: their number.
      higher, lower: the capitals of gamblers for a higher and for a lower mean.
      plausible: which candidates are not refuted.
      low, high: the ends after each draw.
    """

    draws: int = 0
    higher: np.ndarray = field(default_factory=lambda: np.empty(0))
    lower: np.ndarray = field(default_factory=lambda: np.empty(0))
    plausible: np.ndarray = field(default_factory=lambda: np.empty(0))
    low: np.ndarray = field(default_factory=lambda: np.empty(0))
    high: np.ndarray = field(default_factory=lambda: np.empty(0))


def compute_capital(
    values: np.ndarray,
    n: int,
    mean: float,
    *,
    weights: np.ndarray | None = None,
    greatest_weight: float = 0.0,
) -> np.ndarray:
    """Returns the greatest capital so far, after each of M draws with equal probabilities and
    without replacement, of one who bets that the mean of n values is above `mean`; infinite where
    the draws leave no other possibility. If the mean is not above it, the capital ever reaches
    1 / α with a probability of at most α.

    Args:
      values: float64[..., M], drawn values in [0, 1], in the order of the draws.
      n: number of values.
      mean: the mean to bet against.
      weights: float64[..., M], of the drawn values in the mean; all n add up to 1. None: 1 / n.
      greatest_weight: of all n; not used without weights.
    """
    shape, draws = values.shape, values.shape[-1]
    residuals = None if weights is None else (0.0, (n - np.arange(draws)) * greatest_weight)
    known, _, steps, least, greatest = _bound_steps(values, n, weights, None, 0.0, 0.0, residuals)
    fractions = np.array(FRACTIONS)[:, None]
    up = np.maximum((steps - mean) / np.maximum(mean - least, 1e-12), -1)[..., None, :]
    with np.errstate(over="ignore"):
        grown = np.cumprod(
            1 + fractions * np.broadcast_to(up, (*shape[:-1], len(fractions), draws)), -1
        )
    certain = (known > mean + 1e-12) | (least > mean + 1e-9 * (greatest - least) + 1e-12)
    return np.maximum.accumulate(np.where(certain, np.inf, grown.mean(axis=-2)), axis=-1)


def _bound_steps(
    values: np.ndarray,
    n: int,
    weights: np.ndarray | None,
    probabilities: np.ndarray | None,
    predicted: np.ndarray | float,
    remaining: np.ndarray | float,
    residuals: tuple[np.ndarray | float, np.ndarray] | None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Returns what is known of the mean after each draw, the weights, and the draws' estimates with
    their lower and upper bounds; arguments as of `compute_confidence_sequence`.
    """
    values = np.asarray(values, np.float64)
    shape, draws = values.shape, values.shape[-1]
    left = n - np.arange(draws)
    weight = np.broadcast_to(1 / n if weights is None else weights, shape)
    chance = np.broadcast_to(1 / left if probabilities is None else probabilities, shape)
    if residuals is None and not (weights is None and probabilities is None):
        raise ValueError("draws that are not equally probable need the bounds of their residuals")
    least, most = (0.0, left / n) if residuals is None else residuals
    known = np.cumsum(weight * values, axis=-1)
    before = known - weight * values + remaining
    steps = before + weight * (values - predicted) / chance
    low, high = (np.broadcast_to(end, shape) for end in (before + least, before + most))
    return known, weight, np.broadcast_to(steps, shape), low, high


def _estimate_variances(draws: Draws) -> Draws:
    """Returns the variance of the draws before each one, mixed with a first guess of 1/4."""
    count = np.arange(draws.shape[-1])
    sums, squares = (np.cumsum(each, axis=-1) - each for each in (draws, draws**2))
    around = squares - sums**2 / np.maximum(count, 1)
    return (np.maximum(around, 0) + PRIOR_DRAWS / 4) / (count + PRIOR_DRAWS)


def _compute_ends(
    steps: Draws,
    least: Draws,
    most: Draws,
    candidates: Float[np.ndarray, " candidates"],
    between: bool,
    alpha: float,
    bets: Shared | None,
    stakes: Stakes,
) -> tuple[Draws, Draws]:
    """Returns the lower and the upper end of the interval after each step, float64[..., M] each.

    Args:
      steps, least, most: float64[..., M], unbiased estimates given the steps before, their bounds.
      candidates: float64[G], ascending, from 0 to 1.
      between: whether the mean may lie between two candidates: then the interval reaches to the
        next one that is refuted.
      alpha: the probability of error.
      bets: float64[..., M], the fraction of the capital for each unit of what a step is away from
        the candidate; None: the `FRACTIONS` of the greatest possible one.
      stakes: after the first of these steps, or none; they are changed.
    """
    *shape, draws = steps.shape
    fractions = np.array(FRACTIONS if bets is None else [GREATEST_FRACTION])[:, None]
    if not stakes.draws:
        stakes.higher = np.ones((*shape, len(fractions), len(candidates)))
        stakes.lower = np.ones_like(stakes.higher)
        stakes.plausible = np.ones((*shape, len(candidates)), bool)
    higher, lower, plausible = stakes.higher, stakes.lower, stakes.plausible
    low, high = np.zeros(steps.shape), np.ones(steps.shape)
    if stakes.draws:
        low[..., : stakes.draws], high[..., : stakes.draws] = stakes.low, stakes.high
    for draw in range(stakes.draws, draws):
        step, floor, ceiling = (each[..., draw, None] for each in (steps, least, most))
        slack = 1e-9 * (ceiling - floor)
        plausible &= (candidates >= floor - slack) & (candidates <= ceiling + slack)
        above_floor, below_ceiling = (
            np.maximum(each, 1e-12) for each in (candidates - floor, ceiling - candidates)
        )
        # what the greatest bet gains for each unit of the capital: -1 at the floor (or ceiling)
        up, down = (
            np.maximum(each, -1)[..., None, :]
            for each in ((step - candidates) / above_floor, (candidates - step) / below_ceiling)
        )
        up_fractions = down_fractions = fractions
        if bets is not None:
            up_fractions, down_fractions = (
                np.minimum(bets[..., draw, None] * each, GREATEST_FRACTION)[..., None, :]
                for each in (above_floor, below_ceiling)
            )
        with np.errstate(over="ignore"):  # a candidate that was refuted long ago
            higher *= 1 + up_fractions * up
            lower *= 1 + down_fractions * down
            capital = (higher.mean(axis=-2) + lower.mean(axis=-2)) / 2
        plausible &= capital < 1 / alpha
        first = plausible.argmax(axis=-1)
        last = len(candidates) - 1 - plausible[..., ::-1].argmax(axis=-1)
        if between:
            first, last = np.maximum(first - 1, 0), np.minimum(last + 1, len(candidates) - 1)
        some = plausible.any(axis=-1)  # if all are refuted, the interval before stays
        earlier = max(draw - 1, 0)
        low[..., draw] = np.where(some, candidates[first], low[..., earlier])
        high[..., draw] = np.where(some, candidates[last], high[..., earlier])
    stakes.draws, stakes.low, stakes.high = draws, low, high
    return low, high
