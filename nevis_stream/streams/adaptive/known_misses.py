"""How many known models of evaluation caches miss each sample, read once for a stream."""

import hashlib
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from nevis_stream.datasets.dataset import MULTI_LABEL
from nevis_stream.errors import BadInput, RunWarning
from nevis_stream.evaluation_cache import INDEX, EvaluationCache
from nevis_stream.queries.matrix import is_observed, numbers

_FILL = (
    "Fill it from a run on such a stream: python -m launch.evaluate import RUN --splits=pool"
    " --cache=FOLDER."
)


class KnownMisses:
    """Shares of known models that miss samples, and a digest of all that was read.

    Args:
      folder: of evaluation caches, FOLDER/DATASET_ID, as `launch.evaluate import RUN --splits=pool`
        fills them.
      datasets: ids of the data sets.

    Raises:
      BadInput: a data set has no cache there.
    """

    def __init__(self, folder: Path, datasets: Iterable[str]):
        digest = hashlib.sha256()
        self._folder = folder
        self._shares: dict[str, Mapping[str, float]] = {}
        for name in datasets:
            path = folder / name
            if not (path / INDEX).is_file():
                raise BadInput(f"{path}: no evaluation cache there. {_FILL}")
            cache = EvaluationCache(path)
            values, samples = cache.matrix(), list(cache.samples())
            digest.update("\n".join([*cache.models(), *samples]).encode())
            digest.update(values.tobytes())
            if cache.about.get("kind") == MULTI_LABEL:  # a cell for each label of a sample
                samples = [cell.rpartition("#")[0] for cell in samples]
            self._shares[name] = _shares(values, samples)
        self.digest = digest.hexdigest()[:8]

    def of(self, dataset_id: str, ids: Iterable[str]) -> np.ndarray:
        """Returns the share of known models that miss each sample, float64[n]; a sample without a
        known answer has the mean share, with a warning that says how many there are.

        Raises:
          BadInput: the cache has none of the samples.
        """
        known = self._shares[dataset_id]
        shares = np.array([known.get(sample, np.nan) for sample in ids])
        if np.isnan(shares).all():
            raise BadInput(f"{self._folder / dataset_id}: has none of the candidates. {_FILL}")
        if missing := int(np.isnan(shares).sum()):
            message = (
                f"{self._folder / dataset_id}: has {len(shares) - missing:,} of the"
                f" {len(shares):,} candidates; for the others the mean share of misses is taken."
                " Candidates depend on the seed: import runs of this seed and pool."
            )
            warnings.warn(message, RunWarning, stacklevel=2)
        return np.where(np.isnan(shares), np.nanmean(shares), shares)


def _shares(values: np.ndarray, samples: list[str]) -> dict[str, float]:
    """Returns the mean share of wrong cells, over known models and labels, of each sample that has
    a known cell."""
    there = is_observed(values)
    names, place = np.unique(np.array(samples), return_inverse=True)
    wrong = np.bincount(place, np.where(there, 1 - numbers(values), 0).sum(axis=0))
    count = np.bincount(place, there.sum(axis=0))
    return {
        str(name): float(wrong[number] / count[number])
        for number, name in enumerate(names)
        if count[number]
    }
