"""Descriptions of samples, the input of the neural process in place of embeddings of prompts.

A sample is described by the known models' values on it: their mean, their variance, and their
principal components. What describes samples must not contain the values that are to be predicted:
a network that is trained on them would learn to read them off, and fail with new models. So the
known models are divided into parts, and a part's tasks are trained with descriptions from the
others, turned so that the components agree (orthogonal Procrustes). Where samples have features,
their principal components are added.

The sizes of the network follow from the number of known models.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from nevis_stream.array_types import Bool, Float
from nevis_stream.cost.compute import Compute
from nevis_stream.dynamic_evaluation.known_models import divide_models, draw_models
from nevis_stream.dynamic_evaluation.policy import Key
from nevis_stream.dynamic_evaluation.predictors.linear_gaussian import MODELS
from nevis_stream.queries.matrix import Matrix
from nevis_stream.queries.samples import fill_unknown, is_observed

PerSample = Float[np.ndarray, " samples"]

COMPONENTS = 14  # of the values
FEATURES = 16  # components of the features, at most
PARTS = 8
CERTAIN = 0.01  # means are kept this far from 0 and 1


@dataclass(frozen=True)
class Descriptions:
    """Descriptions of n samples by m known models.

    Attributes:
      values: float32[m, n] with 0 for unknown cells.
      mask: bool[m, n], the known cells.
      part: int64[m], of each model.
      without: float32[parts, n, d], descriptions without the models of each part.
      base_without: float32[parts, n], logits of the samples' means without these.
      all: float32[n, d], descriptions by all known models.
      base: float32[n], logits of their means.
      kinds: int32[n], 1 for samples with scores and 0 for those with outcomes.
    """

    values: np.ndarray
    mask: np.ndarray
    part: np.ndarray
    without: np.ndarray
    base_without: np.ndarray
    all: np.ndarray
    base: np.ndarray
    kinds: np.ndarray


def describe(known: Matrix, key: Key, ctx: Compute) -> Descriptions:
    """Returns the descriptions of the samples of known models.

    Args:
      known: the known models.
      key: a JAX key, which draws models where there are too many.
      ctx: charges the decompositions, as `linear_gaussian.fit` does.
    """
    rows, groups = draw_models(known, MODELS, key), known.groups
    if rows is not None and groups is not None:
        groups = [groups[row] for row in rows]
    matrix = known.matrix(rows)
    values, mask = fill_unknown(matrix), is_observed(matrix)
    features = _compress_features(known, ctx)
    mean, variance, components = _compute_statistics(values, mask, ctx)
    scale = max(float(np.sqrt((components**2).mean(axis=1).max())), 1e-6)

    def join(
        mean: PerSample, variance: PerSample, components: Float[np.ndarray, "components samples"]
    ) -> tuple[Float[np.ndarray, "samples descriptions"], PerSample]:
        base = np.log(mean / (1 - mean))
        rows = [base[None], np.sqrt(variance)[None], components / scale, features]
        return np.concatenate(rows).T.astype(np.float32), base.astype(np.float32)

    whole, base = join(mean, variance, components)
    part, without, bases = np.zeros(len(values), np.int64), [], []
    for number, left_out in enumerate(divide_models(len(values), groups, PARTS)):
        part[left_out] = number
        rest = np.delete(np.arange(len(values)), left_out)
        mean, variance, turned = _compute_statistics(values[rest], mask[rest], ctx)
        left, _, right = np.linalg.svd(components @ turned.T)
        described, logits = join(mean, variance, left @ right @ turned)
        without.append(described)
        bases.append(logits)
    return Descriptions(
        values,
        mask,
        part,
        np.stack(without or [whole]),
        np.stack(bases or [base]),
        whole,
        base,
        _find_kinds(known, values, mask),
    )


def _compute_statistics(
    values: Float[np.ndarray, "models samples"],
    mask: Bool[np.ndarray, "models samples"],
    ctx: Compute,
) -> tuple[PerSample, PerSample, Float[np.ndarray, "components samples"]]:
    """Returns means and variances, float64[n], and components, float64[COMPONENTS, n]; one more
    model has the overall mean everywhere, so that few models cannot make a sample certain.
    """
    models, n = values.shape
    count = mask.sum(axis=0)
    overall = values.sum() / max(mask.sum(), 1)
    mean = (values.sum(axis=0) + overall) / (count + 1)
    centred = np.where(mask, values - mean, 0).astype(np.float32)
    _, sizes, basis = np.linalg.svd(centred, full_matrices=False)
    small, large = sorted((models, n))
    ctx.charge(2 * large * small**2 + 11 * small**3 + 5 * models * n)
    components = np.zeros((COMPONENTS, n))
    rank = min(COMPONENTS, small)
    components[:rank] = (sizes[:rank] / np.sqrt(models))[:, None] * basis[:rank]
    variance = (centred**2).sum(axis=0) / (count + 1)
    return np.clip(mean, CERTAIN, 1 - CERTAIN).astype(np.float64), variance, components


def _compress_features(known: Matrix, ctx: Compute) -> np.ndarray:
    """Returns principal components of the samples' features, float32[d, n], the first of unit
    variance; d is 0 without features.
    """
    features = known.facts.features
    if features is None:
        return np.empty((0, known.shape[1]), np.float32)
    from sklearn.decomposition import PCA

    count = min(FEATURES, *features.shape)
    components = PCA(count, svd_solver="randomized", random_state=0).fit_transform(features)
    ctx.charge(4 * features.size * (count + 10))  # the products of a randomised decomposition
    return (components / max(float(components[:, 0].std()), 1e-6)).T


def _find_kinds(known: Matrix, values: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Returns the kind of each sample; a data set has outcomes if all its values are 0 or 1.

    A data set that no known model has met may have any values, so it counts as one of scores: as
    outcomes, its scores would be rounded.
    """
    n = known.shape[1]
    if not known.scores:
        return np.zeros(n, np.int32)
    real = (mask & (values != 0) & (values != 1)).any(axis=0)
    dataset = known.facts.dataset
    if dataset is None:
        return np.full(n, int(real.any()), np.int32)
    met = np.unique(dataset[mask.any(axis=0)])
    outcomes = np.isin(dataset, met) & ~np.isin(dataset, np.unique(dataset[real]))
    return (~outcomes).astype(np.int32)


FEW, SOME = 40, 500  # numbers of known models up to which a network is small


class Sizes(NamedTuple):
    """Sizes of a network, from table A.1.

    Attributes:
      width: of the layers.
      layers: of encoder and decoder each.
      points: induced points; 0: layers treat each element alone.
      latent: of the latent variable.
    """

    width: int
    layers: int
    points: int
    latent: int


def choose_sizes(models: int) -> Sizes:
    """Returns the sizes for a number of known models: those of HELM-Lite (23 known models in the
    paper), AlpacaEval (91) and MMLU (1,000).
    """
    if models < FEW:
        return Sizes(32, 1, 0, 16)
    return Sizes(32, 1, 16, 16) if models < SOME else Sizes(32, 2, 16, 32)
