"""Recorded paths: a CSV file with the estimates of every simulated active test of a study.

A study takes hours, so each finished path is added to a file beside the benchmark, and the tables
are printed from that file: an interrupted study continues where it stopped, on any machine.
"""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from nevis_stream.active_testing.choosing import ProportionalSampling
from nevis_stream.active_testing.estimators import ESTIMATORS
from nevis_stream.active_testing.pool import Pool
from nevis_stream.active_testing.schedule import PUBLISHED
from nevis_stream.active_testing.simulation import Acquisition, simulate
from nevis_stream.active_testing.surrogate_data import SurrogateData
from nevis_stream.active_testing.surrogates import build_surrogate
from nevis_stream.seeds import seed_for
from nevis_stream.storage import append_line

FACTS = ("n", "risk", "variance")
_PUBLISHED_RULES = ProportionalSampling(uniform=0.1)  # nearer to the papers than the default


@dataclass(frozen=True)
class RecordedPaths:
    """The finished paths in one file.

    Attributes:
      file: the CSV file; it need not exist.
      words: names of the columns that say which test it was. The last three are surrogate, loss and
        acquisition.
      shown: numbers of labels whose estimates are kept.
      counted: a class whose share among the labels is kept too; None for none.
    """

    file: Path
    words: Sequence[str]
    shown: Sequence[int]
    counted: int | None = None

    @property
    def _shares(self) -> Sequence[int]:
        return () if self.counted is None else self.shown

    @property
    def _columns(self) -> tuple[str, ...]:
        shares = [f"share_{asked}" for asked in self._shares]
        values = [f"{name}_{asked}" for name in ESTIMATORS for asked in self.shown]
        return (*self.words, "repetition", *FACTS, *shares, *values)

    def read(self) -> dict[tuple[str, ...], dict[int, Mapping[str, float]]]:
        """Returns by words and repetition: the numbers of all other columns, NaN where empty."""
        paths: dict[tuple[str, ...], dict[int, Mapping[str, float]]] = {}
        if self.file.is_file():
            with open(self.file, newline="") as file:
                for row in csv.DictReader(file):
                    words = tuple(row.pop(name) for name in self.words)
                    number = int(row.pop("repetition"))
                    values = {name: float(value or "nan") for name, value in row.items()}
                    paths.setdefault(words, {})[number] = values
        return paths

    def measure(
        self,
        words: Sequence[str],
        number: int,
        material: SurrogateData,
        truth: np.ndarray,
        steps: Sequence[int] = PUBLISHED,
        budget: int | None = None,
    ) -> None:
        """Simulates one active test, and adds it.

        Args:
          words: values of the columns `words`.
          number: of the repetition; also the seed.
          material: of the tested model.
          truth: int64[n], the labels of the pool.
          steps: numbers of labels after which the surrogate is retrained; `shown` among them.
          budget: number of labels; None: the last that is shown. Cells beyond it are empty.
        """
        surrogate, loss, rule = words[-3:]
        pool = Pool.of(material.predictions, loss)
        path = simulate(
            pool,
            truth,
            build_surrogate(surrogate, material, seed_for(number, surrogate)),
            Acquisition.named(
                rule, ProportionalSampling() if rule == "rms_loss" else _PUBLISHED_RULES
            ),
            budget or max(self.shown),
            seed_for(number, "path", surrogate, loss, rule),
            steps=steps,
        )
        variance = pool.losses[np.arange(pool.n), truth].var(ddof=1)
        labels, place = truth[path.samples], {asked: i for i, asked in enumerate(path.steps)}
        shares = [(labels[:asked] == self.counted).mean() for asked in self._shares]
        values = np.full((len(path.estimates), len(self.shown)), np.nan)
        for column, asked in enumerate(self.shown):
            if asked in place:
                values[:, column] = path.estimates[:, place[asked], 0]
        numbers = (pool.risk(truth), variance, *shares, *values.ravel())
        cells = [f"{value:.7g}" if np.isfinite(value) else "" for value in numbers]
        self._add([*words, str(number), str(pool.n), *cells])

    def _add(self, row: Sequence[str]) -> None:
        for line in [row] if self.file.is_file() else [self._columns, row]:
            append_line(self.file, ",".join(line))
