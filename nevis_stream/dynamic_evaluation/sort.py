"""Sort: ranks samples from easy to hard by the known models' values on them (see `rank.Rank`)."""

import dataclasses

import numpy as np

from nevis_stream.cost.compute import Compute
from nevis_stream.dynamic_evaluation.known_models import KnownModels
from nevis_stream.dynamic_evaluation.rank import Rank, sums
from nevis_stream.dynamic_evaluation.search import thresholds
from nevis_stream.errors import BadInput, unknown
from nevis_stream.evaluation_cache.evaluation_cache import EvaluationCache
from nevis_stream.queries.matrix import UNKNOWN

BY = ("sum", "confidence", "recursive")


def sort(
    known: EvaluationCache | KnownModels | np.ndarray,
    by: str = "sum",
    depth: int = 2,
    ties: np.ndarray | None = None,
) -> Rank:
    """Ranks samples from easy to hard.

    Args:
      known: an `EvaluationCache` (its observed cells), or a `KnownModels`; or
        uint8[m0, n] of 0, 1 and 255, or, for "confidence", float[m0, n], confidences of the true
        class with NaN.
      by: "sum" of the outcomes, "confidence" sum, or "recursive" sum.
      depth: for "recursive" only: 1 is the plain sum, 2 the paper's two stages; more stages refine
        the order further.
      ties: int64[n], the order of samples with equal scores (for example of an older rank); None:
        that of the columns.

    Raises:
      BadInput: `by` is unknown, the matrix does not fit it, the depth is below 1, or ties are not
        an order of the samples.

    Source: Sort & Search, section 3.
    """
    if by not in BY:
        raise BadInput(unknown("order", by, BY))
    if depth < 1:
        raise BadInput(f"a recursive sum of depth {depth}: at least 1, the plain sum, is expected.")
    if ties is not None and not np.array_equal(np.sort(ties), np.arange(known.shape[1])):
        raise BadInput(
            f"ties must be an order of the {known.shape[1]} samples, with every column once."
        )
    if hasattr(known, "column_sums"):
        if by != "recursive":
            total, seen = known.column_sums() if by == "sum" else known.confidence_sums()
            return Rank(total.astype(np.float64), seen.astype(np.int64), ties)
        known = known.matrix()
    if (by == "confidence") != np.issubdtype(np.asarray(known).dtype, np.floating):
        raise BadInput(
            f'by="{by}" needs'
            f" {'confidences (floats)' if by == 'confidence' else 'outcomes (uint8)'}."
        )
    rank = Rank(*sums(known), ties)
    return refine(known, rank, depth) if by == "recursive" else rank


def rank_samples(known: KnownModels, ctx: Compute, by: str = "sum") -> Rank:
    """Returns the rank of known models (a `KnownModels`), and counts the FLOPs of `sort`."""
    models, n = known.shape
    ctx.charge((2 if by == "sum" else 6) * models * n + n * max(n - 1, 1).bit_length())
    return sort(known, by)


def refine(known: np.ndarray, rank: Rank, depth: int) -> Rank:
    """Returns the rank with ties ordered by the models whose threshold is among them (recursive
    sum).

    A group of tied samples has the positions lo … hi. Only models whose best threshold is in this
    range distinguish its samples, so the group is ordered by the mean over these models. Groups
    that remain are treated in the same way, `depth` - 1 times in all.

    Source: Sort & Search, section 3, "recursive sum".
    """
    order, levels = rank.order.copy(), [rank.scores]
    for _ in range(depth - 1):
        columns = known[:, order]
        cuts = thresholds(columns)
        changes = np.any([level[order][1:] != level[order][:-1] for level in levels], axis=0)
        bounds = np.concatenate([[0], np.flatnonzero(changes) + 1, [len(order)]])
        level = np.zeros(len(order))
        for lo, hi in zip(bounds[:-1], bounds[1:], strict=True):
            deciding = (
                columns[(cuts >= lo) & (cuts <= hi), lo:hi] if hi - lo > 1 else columns[:0, lo:hi]
            )
            seen = (deciding != UNKNOWN).sum(axis=0)
            mean = (deciding == 1).sum() / max(seen.sum(), 1)
            level[order[lo:hi]] = np.divide(
                (deciding == 1).sum(axis=0), seen, out=np.full(hi - lo, mean), where=seen > 0
            )
            order[lo:hi] = order[lo:hi][np.argsort(-level[order[lo:hi]], kind="stable")]
        levels.append(level)
    return dataclasses.replace(rank, ties=order)
