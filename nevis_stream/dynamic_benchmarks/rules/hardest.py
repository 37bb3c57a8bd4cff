"""Samples that most known models of an evaluation cache miss."""

from pathlib import Path

import numpy as np

from nevis_stream.dynamic_benchmarks.rule import UNMISSED, PoolState
from nevis_stream.dynamic_evaluation.cache import INDEX, EvaluationCache
from nevis_stream.dynamic_evaluation.matrix import numbers, observed
from nevis_stream.errors import BadInput


class Hardest:
    """Weights a sample by the fourth power of the share of known models that miss it.

    The caches are CACHE/DATASET_ID, as `launch.evaluate import RUN --splits=pool` fills them from
    runs on such a stream. A sample without a known answer gets the mean share of its data set.
    """

    about = "by how many known models of an evaluation cache miss a sample (cache=FOLDER)"
    sees_labels = False

    def weights(self, candidates: PoolState) -> np.ndarray:
        """Returns the shares to the fourth power."""
        if not candidates.cache:
            raise BadInput("rule 'hardest': it needs a folder of evaluation caches: cache=FOLDER.")
        weights = np.empty(len(candidates))
        for dataset_id in np.unique(candidates.dataset_ids):
            here = candidates.dataset_ids == dataset_id
            path = Path(candidates.cache) / str(dataset_id)
            weights[here] = _missed(path, candidates.ids[here].tolist()) ** 4
        return np.maximum(weights, UNMISSED)


def _missed(path: Path, ids: list[str]) -> np.ndarray:
    """Returns the share of known models that miss each sample, float64[n]."""
    if not (path / INDEX).is_file():
        raise BadInput(f"rule 'hardest': {path}: no evaluation cache there.")
    cache = EvaluationCache(path)
    present = set(cache.samples())
    columns = [sample for sample in ids if sample in present]
    if not columns:
        raise BadInput(
            f"rule 'hardest': {path} has none of the candidates. Fill it from a run on such a"
            " stream: python -m launch.evaluate import RUN --splits=pool --cache=FOLDER."
        )
    values = cache.matrix(samples=columns)
    known = observed(values)
    wrong = np.where(known, 1 - numbers(values), 0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
    shares_by_sample = dict(zip(columns, np.where(known.any(axis=0), wrong, np.nan), strict=True))
    shares = np.array([shares_by_sample.get(sample, np.nan) for sample in ids])
    return np.where(np.isnan(shares), np.nanmean(shares), shares)


RULE = Hardest()
