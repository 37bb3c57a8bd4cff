"""Draws at unequal prices: how many samples of which price are drawn for a budget.

Samples are divided into classes of similar prices. Of k_g draws from class g, each of which may
cost its highest price c_g, the variance of a stratified mean is Σ S_g² / k_g, with S_g the sum over
the class of weight times spread; under Σ k_g c_g ≤ budget it is smallest for k_g ∝ S_g / √c_g
(Neyman 1934; Cochran, Sampling Techniques, section 5.5). Every class has a draw, so that every
sample has a chance, and the probabilities depend on prices and known models alone.
"""

import functools
import heapq
from dataclasses import dataclass

import numpy as np

from nevis_stream.errors import BadInput
from nevis_stream.queries.prices import Prices, format_amount

# of the highest to the lowest price of a class: narrow classes leave less of the budget unspent,
# but each takes a draw
RATIOS = (4.0, 2.0, 2**0.5, 2**0.25)


@dataclass(frozen=True)
class Allotment:
    """How many samples are drawn of each class of prices.

    Attributes:
      group: int64[n], the class of each sample, from the cheapest.
      counts: int64[s, g], the draws of each stage from each class.
    """

    group: np.ndarray
    counts: np.ndarray


@functools.lru_cache(maxsize=4)
def allot(prices: Prices, stages: int) -> Allotment:
    """Returns the draws for a budget, which they never exceed.

    Args:
      prices: of the samples, with their `stakes`, and the budget.
      stages: most stages; each takes the same part of the budget. Where that does not buy a sample
        of each price, all is drawn in one stage.

    Raises:
      BadInput: the budget is below the highest price.
    """
    each, budget = prices.each, prices.budget
    if (highest := float(each.max())) > budget:
        raise BadInput(
            f"a budget of {format_amount(budget, prices.unit)}: there are samples that cost"
            f" {format_amount(highest, prices.unit)}, and each must have a chance to be drawn."
        )
    if each.sum() <= budget:
        return Allotment(np.zeros(len(each), np.int64), np.array([[len(each)]]))
    if highest > budget / stages:
        stages = 1
    allotments = [_allot_by_ratio(prices.stakes, each, budget, stages, ratio) for ratio in RATIOS]
    return min(allotments, key=lambda allotment: _compute_variance(allotment, prices.stakes))


def _allot_by_ratio(
    stakes: np.ndarray, prices: np.ndarray, budget: float, stages: int, ratio: float
) -> Allotment:
    group = np.floor(np.log(prices / prices.min()) / np.log(ratio) + 1e-9).astype(np.int64)
    group = np.unique(group, return_inverse=True)[1]
    while True:
        highest = np.array([prices[group == g].max() for g in range(group.max() + 1)])
        if highest.sum() <= budget / stages:
            break
        group = np.minimum(group, group.max() - 1)  # the two dearest classes become one
    left, total = np.bincount(group), np.bincount(group, stakes)
    counts, money = [], budget
    for stage in range(stages):
        counts.append(_count_draws(total, highest, left, money / (stages - stage)))
        money -= float(counts[-1] @ highest)
        left = left - counts[-1]
    return Allotment(group, np.array(counts))


def _count_draws(
    total: np.ndarray, price: np.ndarray, left: np.ndarray, money: float
) -> np.ndarray:
    """Returns the number of draws of each class, int64[g]: one of each in which samples are left,
    and then always one where it reduces the variance most for its price.
    """
    counts = (left > 0).astype(np.int64)
    money -= float(counts @ price)
    gain = total**2 / price
    heap = [(-gain[g] / 2, g) for g in range(len(left)) if left[g] > 1]
    heapq.heapify(heap)
    while heap:
        _, g = heapq.heappop(heap)
        if price[g] > money:
            continue
        money -= price[g]
        counts[g] += 1
        if counts[g] < left[g]:
            heapq.heappush(heap, (-gain[g] / (counts[g] * (counts[g] + 1)), g))
    return counts


def _compute_variance(allotment: Allotment, stakes: np.ndarray) -> float:
    counts, sizes = allotment.counts.sum(axis=0), np.bincount(allotment.group)
    total = np.bincount(allotment.group, stakes)
    return float((total**2 * (1 / counts - 1 / sizes)).sum())
