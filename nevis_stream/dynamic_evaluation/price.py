"""What a method will compute, known before it does: from shapes alone, nothing is learned."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from nevis_stream.cost.counted import counted
from nevis_stream.cost.meter import total
from nevis_stream.dynamic_evaluation import methods
from nevis_stream.dynamic_evaluation.asking import blank
from nevis_stream.dynamic_evaluation.known import Known
from nevis_stream.dynamic_evaluation.method import Evaluator, Method
from nevis_stream.dynamic_evaluation.samples import SampleFacts
from nevis_stream.learner import Context
from nevis_stream.run_directory.checkpoint import Tree

CHEAP = ("sort_and_search", "stratified_mean", "random_mean")


class Rehearsal(Context):
    """A context whose programs are charged and not run: they return zeros."""

    def jit(self, function: Callable, **options: Any) -> Callable:
        """As `Context.jit`."""
        program, jitted = counted(function, **options), jax.jit(function, **options)

        def call(*args):
            self.charge(program.flops(*args))
            return jax.tree.map(lambda s: np.zeros(s.shape, s.dtype), jitted.eval_shape(*args))

        return call


class Blank:
    """Known models (`known.Known`) of a shape, wrong on every sample; nothing is read.

    Args:
      known: those that they stand for.
    """

    def __init__(self, known: Known):
        self.shape, self.groups, self.scores = known.shape, known.groups, known.scores
        self.facts = SampleFacts(known.shape[1])

    def column_sums(self, models=None):
        """See `known.Known`."""
        models, n = self.shape[0] if models is None else len(models), self.shape[1]
        return np.zeros(n), np.full(n, models)

    def row_sums(self):
        """See `known.Known`."""
        return np.zeros(self.shape[0]), np.full(self.shape[0], self.shape[1])

    def matrix(self, models=None, samples=None):
        """See `known.Known`."""
        rows, columns = (
            size if chosen is None else len(chosen)
            for size, chosen in zip(self.shape, (models, samples), strict=True)
        )
        return np.zeros((rows, columns), np.float32 if self.scores else np.uint8)


def price(method: Method, known: Known, models: int, budget: int, tree: Tree | None = None) -> int:
    """Returns the FLOPs that a method computes itself to evaluate m new models.

    Args:
      method: the method.
      known: the known models; their values are not read.
      models: m.
      budget: samples asked of each.
      tree: a stored fit, whose cost is not counted again.
    """
    ctx, key, shape = Rehearsal.standalone(), jax.random.key(0), Blank(known)
    method = method.fitting(known)
    evaluator = (
        method.fit(shape, None, key, ctx)
        if tree is None
        else Evaluator(method, shape, jax.tree.map(lambda leaf: leaf, tree), key, ctx)
    )

    with np.errstate(all="ignore"):
        evaluator.evaluate(blank, models, budget, key)
    return total(ctx.meter.counts())


def warning(
    method: Method, known: Known, each: Sequence[float], budget: int, tree: Tree | None, kind: str
) -> str:
    """Returns what to tell a user whose method will cost more than it saves, else nothing.

    Args:
      method: the method.
      known: the known models.
      each: what one answer costs, FLOPs, for each new model (or sample).
      budget: samples asked of each.
      tree: a stored fit.
      kind: what is added: "model" or "sample".
    """
    saved, models = sum(each) * (known.shape[1] - budget), len(each)
    own = price(method, known, models, budget, tree)
    if own <= saved:
        return ""
    cheap = [methods.get(name) for name in CHEAP]
    usable = [other for other in cheap if other.takes_scores or not known.scores]
    costs = {other.name: price(other, known, models, budget) for other in usable}
    paying = [name for name, cost in costs.items() if cost < saved]
    advice = (
        f"--method={paying[0]} computes {costs[paying[0]]:.2g}."
        if paying
        else "No method pays here: observing every sample is cheaper."
    )
    return (
        f"{method.name} computes about {own:.2g} FLOPs itself, more than the {saved:.2g} FLOPs that"
        f" {known.shape[1] - budget:,} unasked {'models' if kind == 'sample' else 'samples'} of"
        f" {models} new {kind}{'s'[: models != 1]} would cost. {advice}"
    )
