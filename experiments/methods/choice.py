"""Chooses a method for a cache and a budget: the one with the smallest cross-validation errors on
the known models.

Cross-validation on few known models is noisy. So there is a default, and another method takes its
place only if its errors are clearly smaller: on average over the known models by `MARGIN`, and by
more than two standard errors. The default is the method that was best over all matrices that were
measured (see `choose_default`). A method that would compute too much is not tried. Of very many
samples the methods are compared on some, drawn at random: which of them is better is seen there
too.

What is chosen is used guarded (see `guarded`): the cross-validation says how good a method is for
models like the known ones, and nothing of others. It was the default until `informed_mean`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import jax
import numpy as np

from nevis_stream.cost.meter import format_engineering
from nevis_stream.dynamic_evaluation import methods, predicted_cost
from nevis_stream.dynamic_evaluation.fits import read_for_method
from nevis_stream.dynamic_evaluation.known_models import count_groups
from nevis_stream.dynamic_evaluation.method import Method
from nevis_stream.dynamic_evaluation.methods import choose_stratified
from nevis_stream.errors import BadInput
from nevis_stream.estimation.intervals import FEWEST
from nevis_stream.queries.matrix import ArrayMatrix, Matrix
from nevis_stream.seeds import generator

# the stratified mean is always one more
CANDIDATES = ("recommended", "adaptive_testing", "quadrature", "linear_gaussian")
FEW_OUTCOMES = 50  # up to this budget `adaptive_testing` is the default for outcomes
FEW_SCORES = 20  # up to this budget `quadrature` is the default for scores
FEW_GROUPS, FEW_WITH_FEW_GROUPS = 20, 20  # with fewer known groups: instead of FEW_OUTCOMES
MARGIN = 0.05  # least relative improvement over the default
CLEARLY = 2.0  # least improvement in standard errors
MOST_FLOPS = 1e14  # of a choice, if the price of an answer is unknown
MOST_SAMPLES = 1 << 13  # on which methods are compared; more for a large budget


def choose_default(budget: int, known: Matrix) -> str:
    """Returns the method that is used unless another one is clearly better.

    Of outcomes, a few answers tell most if they are asked near the model's ability; of scores, an
    item response model knows less. Above a few samples it is `recommended`, which never lost to the
    stratified mean; with few known groups already from 20 samples on, as the answers that tell most
    by a model of few others tell little, and cross-validation on so few cannot see it. The samples
    that these two choose do not depend on the weights of data sets; those of `quadrature` do, so it
    is the default where there are any.
    """
    if known.facts.dataset_weights is not None:
        return "quadrature"
    if known.scores:
        return "quadrature" if budget <= FEW_SCORES else "recommended"
    few = FEW_OUTCOMES if count_groups(known) >= FEW_GROUPS else FEW_WITH_FEW_GROUPS
    return "adaptive_testing" if budget <= few else "recommended"


@dataclass(frozen=True)
class Choice:
    """A chosen method.

    Attributes:
      method: its name.
      reason: why it was chosen, in one sentence.
    """

    method: str
    reason: str


def choose(
    known: Matrix, models: int, budget: int, seed: int, most_flops: float = MOST_FLOPS
) -> Choice:
    """Chooses a method.

    Args:
      known: the known models.
      models: number of new models.
      budget: number of samples asked of each.
      seed: of the fits.
      most_flops: candidates are left out whose fit would exceed this with those of the cheaper
        ones.
    """
    columns = _draw_columns(known, budget, seed)
    baseline = choose_stratified(known).name
    reason = _explain_too_few(known) or _explain_too_large(known, models)
    if reason:
        return Choice(baseline, reason)
    names = [*CANDIDATES, baseline]
    affordable, left_out = _select_affordable(names, known, models, budget, most_flops)
    too_dear = f"too many FLOPs for {', '.join(left_out)}"
    if not affordable:
        cheap = predicted_cost.choose_cheap(most_flops, known, models, budget)
        return Choice(cheap or baseline, too_dear)
    if len(affordable) == 1:  # nothing to compare it with
        return Choice(guard_name(affordable[0]), too_dear)
    errors, compared = {}, known
    if columns is not None:
        facts = known.facts.take(columns)
        compared = ArrayMatrix(known.matrix(None, columns), known.groups, facts)
    for name in affordable:
        errors[name] = _cross_validate(methods.get(name), compared, budget, seed)
    chosen, reason = choose_best(errors, choose_default(budget, known), count_groups(known))
    if columns is not None:
        reason += f" (on {len(columns):,} of the {known.shape[1]:,} samples)"
    if left_out:
        reason += f"; {too_dear}"
    return Choice(guard_name(chosen), reason)


def guard_name(name: str) -> str:
    """Returns the name of the method to use where this one was chosen: guarded, unless its
    intervals hold for any model already.
    """
    return f"guarded_{name}" if name in CANDIDATES else name


def _draw_columns(known: Matrix, budget: int, seed: int) -> np.ndarray | None:
    """Returns the samples on which methods are compared, int64 ascending; None: on all."""
    n, most = known.shape[1], max(MOST_SAMPLES, 8 * budget)
    if n <= 2 * most or known.facts.image is not None:
        return None
    return np.sort(generator(seed, "choice").choice(n, most, replace=False))


def choose_best(errors: Mapping[str, np.ndarray], default: str, groups: int) -> tuple[str, str]:
    """Returns the method to use, and the reason.

    Args:
      errors: float64[k] by method, of known models' means.
      default: the method that is used unless another one is clearly better.
      groups: number of groups of known models; errors within a group are not independent.
    """
    sizes = {name: np.abs(each) for name, each in errors.items()}
    means = {name: float(each.mean()) for name, each in sizes.items()}
    lowest = min(means, key=lambda name: means[name])
    shown = ", ".join(f"{name} {mean:.4f}" for name, mean in means.items())
    by = f"mean absolute errors of known models that are left out in turn: {shown}"
    if default not in errors or lowest == default:
        return lowest, f"it has the smallest of the {by}"
    noise = np.sqrt(
        sum(each.var() / min(len(each), groups) for each in (sizes[default], sizes[lowest]))
    )
    gain = means[default] - means[lowest]
    if gain > max(CLEARLY * noise, MARGIN * means[default]):
        return lowest, f"it has clearly the smallest of the {by}"
    why = "it is the default for this budget, and no other method is clearly better"
    return default, f"{why}; {by}"


def _explain_too_few(known: Matrix) -> str:
    few = count_groups(known) < FEWEST
    return f"fewer than {FEWEST} known models or runs to compare methods on" if few else ""


def _explain_too_large(known: Matrix, models: int) -> str:
    try:
        read_for_method(methods.get(CANDIDATES[0]), known, models)
    except BadInput as error:
        return str(error).partition(". ")[0]
    return ""


def _select_affordable(
    names: Sequence[str], known: Matrix, models: int, budget: int, most_flops: float
) -> tuple[list[str], list[str]]:
    """Returns the methods, in their order, of which the cheapest ones together cost at most the
    limit; and the others with their prices.
    """
    prices = {
        name: predicted_cost.predict_cost(methods.get(name), known, models, budget, errors=True)
        for name in names
    }
    cheapest = sorted(names, key=lambda name: prices[name])
    totals = np.cumsum([prices[name] for name in cheapest])
    cheap = {name for name, total in zip(cheapest, totals, strict=True) if total <= most_flops}
    left_out = [
        f"{name} ({format_engineering(prices[name])} FLOPs)" for name in names if name not in cheap
    ]
    return [name for name in names if name in cheap], left_out


def _cross_validate(method: Method, known: Matrix, budget: int, seed: int) -> np.ndarray:
    """Returns a method's cross-validation errors, float64[k]."""
    readable, key = read_for_method(method, known, 0), jax.random.split(jax.random.key(seed))[0]
    return method.fit(readable, None, key).compute_errors(budget)
