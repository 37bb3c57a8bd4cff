"""The alternative of Appendix A: the model itself is updated with what it errs on.

Labels are ±1. A model is its margins h f, float64[..., n], which an update raises where the new
classifier is right and lowers where it errs. It errs where its margin is 0 or less.
"""

from dataclasses import dataclass

import numpy as np

from nevis_stream.experiments.theory.designs import Minimiser
from nevis_stream.experiments.theory.populations import Population, collect, compute_risk


@dataclass(frozen=True)
class Boosted:
    """Risks after each update.

    Attributes:
      risks: float64[rounds + 1, ...], the 0-1 risk, before any update first.
      losses: the same of the loss that is minimised, an upper bound of the risk.
    """

    risks: np.ndarray
    losses: np.ndarray


def boost_by_hinge(
    population: Population, minimiser: Minimiser, rounds: int, step: float = 1.0
) -> Boosted:
    """Minimises the hinge loss: h += step × R_hinge(h) × A(D | h f < 1).

    Source: Appendix A.1. No normalisation over the domain is needed; the bound is O(n / t²).
    """
    target = population.target
    margins = np.zeros_like(target)
    risks, losses = (
        [compute_risk(margins <= 0, target)],
        [compute_risk(np.maximum(1 - margins, 0), target)],
    )
    for number in range(rounds):
        errors = minimiser((number,), collect(margins < 1, target), {})
        margins = margins + step * losses[-1][..., None] * _agreement(errors)
        risks.append(compute_risk(margins <= 0, target))
        losses.append(compute_risk(np.maximum(1 - margins, 0), target))
    return Boosted(np.stack(risks), np.stack(losses))


def boost_by_exponential(population: Population, minimiser: Minimiser, rounds: int) -> Boosted:
    """Minimises the exponential loss, as AdaBoost: dh = A(D_h) with D_h proportional to
    D exp(-h f), and h += 0.5 log(1 / R_{D_h}(dh) - 1) dh.

    Source: Appendix A.2, with R(h_t) ≤ exp(-(1 - 2 eps)² t / 2). D_h must be normalised over the
    whole domain.
    """
    target = population.target
    margins = np.zeros_like(target)
    risks, losses = [compute_risk(margins <= 0, target)], [compute_risk(np.exp(-margins), target)]
    for number in range(rounds):
        weighted = target * np.exp(-margins)
        weighted = weighted / weighted.sum(axis=-1, keepdims=True)
        errors = minimiser((number,), weighted, {})
        risk = np.clip(compute_risk(errors, weighted), 1e-12, 0.5)[..., None]
        margins = margins + 0.5 * np.log(1 / risk - 1) * _agreement(errors)
        risks.append(compute_risk(margins <= 0, target))
        losses.append(compute_risk(np.exp(-margins), target))
    return Boosted(np.stack(risks), np.stack(losses))


def _agreement(errors: np.ndarray) -> np.ndarray:
    return np.where(errors, -1.0, 1.0)
