"""Recorded paths: the estimates of every simulated active test of a study, in its record.

A study takes hours, so each finished path is added to the record, and the tables are printed from
that: an interrupted study continues where it stopped, on any machine.
"""

import functools
import time
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from nevis_stream.active_testing.acquisition_functions import ProportionalSampling
from nevis_stream.active_testing.estimators import ESTIMATORS
from nevis_stream.active_testing.pool import Pool
from nevis_stream.active_testing.surrogate import SurrogateData
from nevis_stream.active_testing.surrogates import build_surrogate
from nevis_stream.experiments.labelling_studies.simulation import Acquisition, simulate
from nevis_stream.experiments.study_record import StudyRecord
from nevis_stream.seeds import seed_for

FACTS = ("n", "risk", "variance")
ActiveTest = tuple[Sequence[str], int, Hashable, Sequence[int]]
"""An active test: its id, which has a value for each of `RecordedPaths.fields`; number of the
repetition, also the seed; key of its data; and the numbers of labels after which the surrogate is
retrained. The test ends at the last of these numbers, or the last that is shown.
"""
_PUBLISHED_SAMPLING = ProportionalSampling(uniform=0.1)  # of all acquisitions but `rms_loss`


@dataclass(frozen=True)
class RecordedPaths:
    """The finished paths of one study.

    Attributes:
      file: its record, which need not exist.
      fields: names of the parts of a test's id. The last three are surrogate, loss and
        acquisition.
      shown: numbers of labels whose estimates are kept.
      counted: a class whose fraction of the labels is kept too; None: no class.
    """

    file: Path
    fields: Sequence[str]
    shown: Sequence[int]
    counted: int | None = None

    def read(self) -> dict[tuple[str, ...], dict[int, Mapping[str, float]]]:
        """Returns by id and repetition: n, risk and variance of the pool; share_LABELS of the
        counted class; and ESTIMATOR_LABELS, NaN where there is none.
        """
        paths: dict[tuple[str, ...], dict[int, Mapping[str, float]]] = {}
        for cell, result in StudyRecord(self.file).items():
            test_id = tuple(cell[name] for name in self.fields)
            series = {"share": result["shares"], **result["estimates"]}
            values = {name: result[name] for name in FACTS} | {
                f"{name}_{asked}": value
                for name, each in series.items()
                for asked, value in zip(self.shown, each, strict=False)
            }
            paths.setdefault(test_id, {})[cell["repetition"]] = values
        return paths

    def add_missing(
        self,
        tests: Iterable[ActiveTest],
        load: Callable[[Hashable], tuple[SurrogateData, np.ndarray]],
        seconds: float,
    ) -> None:
        """Simulates the active tests that are not on record, and adds each.

        Args:
          tests: those of one key in a row.
          load: returns, by key, what is known of the tested model, and the labels of the pool,
            int64[n].
          seconds: wall-clock time after which nothing is begun.
        """
        end, record = time.monotonic() + seconds, StudyRecord(self.file)
        load = functools.lru_cache(maxsize=1)(load)
        for test_id, number, key, steps in tests:
            cell = dict(zip(self.fields, test_id, strict=True)) | {"repetition": number}
            if cell in record:
                continue
            if time.monotonic() > end:
                return
            record.add(cell, self._simulate(test_id, number, *load(key), steps))
            left = end - time.monotonic()
            print(f"{' '.join(test_id)}, repetition {number}: {left:.0f} s left", flush=True)

    def _simulate(
        self,
        test_id: Sequence[str],
        number: int,
        data: SurrogateData,
        truth: np.ndarray,
        steps: Sequence[int],
    ) -> dict[str, Any]:
        """Returns the result of one test."""
        surrogate, loss, acquisition = test_id[-3:]
        pool = Pool.of(data.predictions, loss)
        path = simulate(
            pool,
            truth,
            build_surrogate(surrogate, data, seed_for(number, surrogate)),
            Acquisition.named(
                acquisition,
                ProportionalSampling() if acquisition == "rms_loss" else _PUBLISHED_SAMPLING,
            ),
            min(max(self.shown), max(steps)),
            seed_for(number, "path", surrogate, loss, acquisition),
            steps=steps,
        )
        labels, place = truth[path.samples], {asked: i for i, asked in enumerate(path.steps)}
        shares = [] if self.counted is None else self.shown
        numbers = np.full((len(path.estimates), len(self.shown)), np.nan)
        for column, asked in enumerate(self.shown):
            if asked in place:
                numbers[:, column] = path.estimates[:, place[asked], 0]
        variance = pool.losses[np.arange(pool.n), truth].var(ddof=1)
        return {
            **dict(zip(FACTS, (pool.n, pool.risk(truth), variance), strict=True)),
            "shares": [(labels[:asked] == self.counted).mean() for asked in shares],
            "estimates": dict(zip(ESTIMATORS, numbers, strict=True)),
        }
