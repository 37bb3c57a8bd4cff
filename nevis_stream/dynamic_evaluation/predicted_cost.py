"""The FLOPs that a method will compute, predicted from shapes alone before anything is learned, and
the warning of a method that costs more than it saves.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from nevis_stream.cost.compute import Compute
from nevis_stream.cost.counted import make_counted
from nevis_stream.cost.meter import format_engineering, total
from nevis_stream.dynamic_evaluation import methods
from nevis_stream.dynamic_evaluation.method import Evaluator, Method
from nevis_stream.queries.matrix import Matrix
from nevis_stream.queries.oracle import answer_zeros
from nevis_stream.queries.samples import SampleFacts
from nevis_stream.storage.checkpoint import Tree

UNASKED = {"model": "samples", "sample": "models"}  # of a new model, and of a new sample
CHEAP_METHODS = ("sort_and_search", "stratified_mean", "random_mean")  # the best first


class Rehearsal(Compute):
    """A context that counts the FLOPs of programs without running them: they return zeros. Whole
    numbers are taken for samples to ask: the first ones that are not in the arguments.
    """

    counts_only = True

    def jit(self, function: Callable, **options: Any) -> Callable:
        """As `Compute.jit`, but what it returns runs nothing."""
        program = make_counted(function, **options)

        @functools.wraps(function, updated=())
        def call(*args: Any, **named: Any) -> Any:
            self.charge(program.flops(*args, **named))
            leaves = jax.tree.leaves((args, named))
            integers = [np.ravel(leaf) for leaf in leaves if _get_dtype_kind(leaf) in ("i", "u")]
            asked = np.unique(np.concatenate([np.empty(0, np.int64), *integers]))
            shapes = program.shapes(*args, **named)
            return jax.tree.map(lambda shape: _make_result(shape, asked), shapes)

        return call


def _get_dtype_kind(leaf: Any) -> str:
    return np.dtype(leaf.dtype).kind if getattr(leaf, "ndim", 0) else ""


def _make_result(shaped: jax.ShapeDtypeStruct, asked: np.ndarray) -> np.ndarray:
    """Returns zeros of a shape; or, for integers, the first ones that were not asked."""
    if not shaped.ndim or _get_dtype_kind(shaped) not in ("i", "u"):
        return np.zeros(shaped.shape, shaped.dtype)
    count = shaped.shape[-1]
    free = np.setdiff1d(np.arange(count + len(asked)), asked)[:count]
    return np.broadcast_to(free, shaped.shape).astype(shaped.dtype)


class Blank:
    """`Matrix` that are wrong on every sample, so that no values are read.

    Args:
      known: the models whose shape, groups and kind of values they have.
    """

    def __init__(self, known: Matrix):
        self.shape, self.groups, self.scores = known.shape, known.groups, known.scores
        self.facts = SampleFacts(known.shape[1])

    def column_sums(self, models: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """See `Matrix`."""
        models, n = self.shape[0] if models is None else len(models), self.shape[1]
        return np.zeros(n), np.full(n, models)

    def row_sums(self) -> tuple[np.ndarray, np.ndarray]:
        """See `Matrix`."""
        return np.zeros(self.shape[0]), np.full(self.shape[0], self.shape[1])

    def matrix(
        self, models: np.ndarray | None = None, samples: np.ndarray | None = None
    ) -> np.ndarray:
        """See `Matrix`."""
        rows, columns = (
            size if chosen is None else len(chosen)
            for size, chosen in zip(self.shape, (models, samples), strict=True)
        )
        return np.zeros((rows, columns), np.float32 if self.scores else np.uint8)


def predict_cost(
    method: Method,
    known: Matrix,
    models: int,
    budget: int,
    tree: Tree | None = None,
    errors: bool = False,
) -> int:
    """Returns the FLOPs that a method itself computes to evaluate m new models, without theirs.

    Args:
      method: the method.
      known: the known models; their values are not read.
      models: m.
      budget: number of samples asked of each.
      tree: a stored fit, whose FLOPs are not counted again; None: it is fitted.
      errors: whether its cross-validation errors are computed as well, to compare it with others.
    """
    ctx, key, zeros = Rehearsal.standalone(), jax.random.key(0), Blank(known)
    method = method.choose_for_known(known)
    if tree is None:
        evaluator = method.fit(zeros, None, key, ctx)
    else:
        evaluator = Evaluator(method, zeros, jax.tree.map(lambda leaf: leaf, tree), key, ctx)
    with np.errstate(all="ignore"):
        evaluator.evaluate(answer_zeros, models, budget, key)
        if errors:
            evaluator.compute_errors(budget)
    return total(ctx.meter.counts())


def choose_cheap(most_flops: float, known: Matrix, models: int, budget: int) -> str:
    """Returns the name of the best of a few cheap methods that computes fewer FLOPs than a limit;
    "" if none does. Other arguments as of `predict_cost`.
    """
    for name in CHEAP_METHODS:
        method = methods.get(name)
        usable = method.takes_scores or not known.scores
        if usable and predict_cost(method, known, models, budget) < most_flops:
            return name
    return ""


def describe_cost_warning(
    method: Method,
    known: Matrix,
    flops_each: Sequence[float],
    budget: int,
    tree: Tree | None,
    kind: str,
) -> str:
    """Returns a message for a user whose method will cost more than it saves, "" if it will not.

    Args:
      method: the method.
      known: the known models; if a sample is added, the known samples.
      flops_each: of one answer of each new model (or to each new sample).
      budget: number of samples asked of each (or of models asked of each).
      tree: a stored fit, or None.
      kind: what is added: "model" or "sample".
    """
    asked = budget * (known.shape[1] // known.facts.points)
    unasked, models = known.shape[1] - asked, len(flops_each)
    saved = sum(flops_each) * unasked
    own = predict_cost(method, known, models, budget, tree)
    if own <= saved:
        return ""
    if cheap := choose_cheap(saved, known, models, budget):
        cost = predict_cost(methods.get(cheap), known, models, budget)
        advice = f"--method={cheap} computes {format_engineering(cost)} FLOPs."
    else:
        advice = "No method pays here: observing every sample is cheaper."
    return (
        f"{method.name} itself computes about {format_engineering(own)} FLOPs, more than the"
        f" {format_engineering(saved)} FLOPs of the {unasked:,} {UNASKED[kind]} that will not be"
        f" asked for {models} new {kind}{'s'[: models != 1]}. {advice}"
    )
