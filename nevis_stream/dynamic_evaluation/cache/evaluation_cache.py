"""The evaluation cache: the growing, partly known matrix of models × samples, on disk.

    cache = EvaluationCache("caches/mnist", create=True)
    cache.append("model-a", ["mnist/test/0", "mnist/test/1"], [1, 0],
                 provenance={"flops_per_sample": 3.0e6})
    cache.matrix()                                                # uint8[1, 2]; 255 = unknown

A row is a model, a column a sample; both carry ids and provenance. A sample has outcomes (0 or 1)
or, where its provenance says `low` and `high`, real-valued scores, scaled from this range to
[0, 1]. A cell is unknown, observed or predicted: predictions are tiles of their own and are read
only on request. Observed values are never changed, so repeating a call changes nothing. What a call
has written counts when it returns: several processes may write at a time, and be killed.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nevis_stream.dynamic_evaluation.cache import (
    entries,
    facts,
    index,
    integrity,
    merge,
    packing,
    repair,
    writing,
)
from nevis_stream.dynamic_evaluation.cache.packing import (
    CONFIDENCE,
    CORRECT,
    OBSERVED,
    PREDICTED,
    PROBABILITIES,
)
from nevis_stream.dynamic_evaluation.cache.reading import Snapshot, Which
from nevis_stream.dynamic_evaluation.matrix import observed
from nevis_stream.dynamic_evaluation.samples import SampleFacts, checked_weights
from nevis_stream.errors import BadInput, DamagedCache
from nevis_stream.storage import clear_when_full, sync_directory

INDEX, CELLS = "index.sqlite", "cells.bin"


class EvaluationCache:
    """One cache on disk; the object holds its path only, so any number of processes may have
    one.
    """

    def __init__(
        self, directory: str | Path, create: bool = False, about: dict[str, Any] | None = None
    ):
        """Opens a cache.

        Args:
          directory: where it is.
          create: make it if there is none.
          about: what a new cache is about (data set, label space); caches that differ here are not
            merged.

        Raises:
          BadInput: there is no cache and `create` is false, or it is of another kind or version.
        """
        self.directory = Path(directory)
        self.index = index.Index(self.directory / INDEX)
        self.cells = packing.Cells(self.directory / CELLS)
        if create and not self.index.path.exists():
            if self.directory.exists() and not self.directory.is_dir():
                raise BadInput(f"{self.directory}: is a file; a cache is a directory.")
            self._check_index()
            with clear_when_full(self.directory):
                self.directory.mkdir(parents=True, exist_ok=True)
                self.cells.path.touch()
                sync_directory(self.directory)
                index.Index.create(self.index.path, about or {})
        self._check_index()
        with self.index.reading():
            pass

    def _check_index(self) -> None:
        """Cells without an index never become a cache."""
        # in this order: another process may just have made both
        if self.cells.size() and not self.index.path.exists():
            raise DamagedCache(
                f"{self.directory}: has {CELLS}, but its {INDEX} is gone. {index.BEYOND_REPAIR}"
            )

    # Writing

    def append(
        self,
        model: str,
        samples: Sequence[str] | np.ndarray,
        values: np.ndarray | Sequence[float],
        confidence: np.ndarray | None = None,
        probabilities: np.ndarray | None = None,
        provenance: dict[str, Any] | None = None,
        sample_provenance: dict[str, Any] | None = None,
    ) -> None:
        """Adds what was observed of one model.

        Args:
          model: its id; a known model gains cells.
          samples: k ids (new ones become columns), or int columns.
          values: [k]: outcomes of 0 and 1, or, of samples with scores, float scores in [0, 1]; 255
            or NaN where unknown.
          confidence: probability of the true class, float[k] in [0, 1]; NaN where unknown.
          probabilities: float[k, classes].
          provenance: of the model: run, learner, task, trial, step, flops_per_sample, …
          sample_provenance: of the samples that are new: dataset, split, …; with `low` and `high`
            they have scores.

        Raises:
          BadInput: values of the wrong kind, or one that contradicts an observed one. Nothing is
            written.
        """
        planes = {CORRECT: values, CONFIDENCE: confidence, PROBABILITIES: probabilities}
        rows = {
            plane: None if given is None else np.asarray(given)[None]
            for plane, given in planes.items()
        }
        self._add(OBSERVED, [model], samples, rows, [provenance], sample_provenance)

    def append_rows(
        self,
        models: Sequence[str],
        samples: Sequence[str] | np.ndarray,
        values: np.ndarray,
        confidence: np.ndarray | None = None,
        provenances: Sequence[dict[str, Any] | None] | None = None,
        sample_provenance: dict[str, Any] | None = None,
    ) -> None:
        """Adds what was observed of m models on the same k samples, all or nothing; arguments as of
        `append`, but [m, k].
        """
        planes = {CORRECT: values, CONFIDENCE: confidence}
        self._add(OBSERVED, models, samples, planes, provenances, sample_provenance)

    def append_predictions(
        self,
        models: Sequence[str],
        samples: Sequence[str] | np.ndarray,
        values: np.ndarray,
        made_by: dict[str, Any] | None = None,
    ) -> None:
        """Adds predicted cells, apart from the observed ones; a later prediction of a cell replaces
        an earlier one.

        Args:
          models: m ids.
          samples: k ids, or int columns.
          values: uint8[m, k] of outcomes, 255 = not predicted; or float[m, k] in [0, 1], NaN = not
            predicted: expected scores, or probabilities of being right.
          made_by: method, budget, seed, …

        Raises:
          BadInput: values of the wrong kind. Nothing is written.
        """
        self._add(PREDICTED, models, samples, {CORRECT: values}, made_by=made_by)

    def _add(
        self,
        state: str,
        models: Sequence[str],
        samples: Sequence[str] | np.ndarray,
        given: Mapping[str, Any],
        provenances: Sequence[dict[str, Any] | None] | None = None,
        sample_provenance: dict[str, Any] | None = None,
        made_by: dict[str, Any] | None = None,
    ) -> None:
        planes = writing.arrays(models, samples, given)
        with self.index.writing() as db:
            if len(samples) and not isinstance(samples, str) and not isinstance(samples[0], str):
                columns = entries.chosen(db, "samples", samples)
            else:
                columns = entries.add_samples(db, samples, [sample_provenance] * len(samples))
            provenances = provenances or [None] * len(models)
            if len(provenances) != len(models):
                raise BadInput(f"provenances: {len(provenances)} for {len(models)} models.")
            rows = [
                (model, entries.add_model(db, model, provenance))
                for model, provenance in zip(models, provenances, strict=True)
            ]
            writing.write(db, self.cells, state, rows, columns, planes, made_by)

    def add_samples(
        self, samples: Sequence[str], provenances: Sequence[dict[str, Any] | None]
    ) -> None:
        """Adds k samples of which no value is known yet, each with its provenance.

        Raises:
          BadInput: an id that cannot be, or a range other than that of a sample in the cache.
        """
        with self.index.writing() as db:
            entries.add_samples(db, samples, provenances)

    def add_features(self, samples: Sequence[str] | np.ndarray, features: np.ndarray) -> None:
        """Adds features, float[k, d], of k samples, ids or int columns; those of a sample never
        change.

        Raises:
          BadInput: an unknown sample, other features than before, or features of another length.
            Nothing is written.
        """
        with self.index.writing() as db:
            columns = entries.chosen(db, "samples", samples)
            writing.write_features(db, self.cells, columns, features)

    def set_dataset_weights(self, weights: dict[str, float] | str) -> None:
        """Records each data set's share of the overall mean, or "equal" shares; see
        `samples.checked_weights`.
        """
        with self.index.writing() as db:
            datasets = {facts.dataset(each) for _, each in entries.batches(db)}
            about = entries.about(db) | {"dataset_weights": checked_weights(weights, datasets)}
            entries.write_about(db, about)

    def merge(
        self,
        other: "EvaluationCache",
        progress: Callable[[str, int, int], None] = lambda model, done, total: None,
    ) -> None:
        """Adds all that another cache has; into an empty cache, this leaves out what replaced
        predictions take up.

        Args:
          other: another cache of the same things.
          progress: called with each model's id, the number of models done and of all.

        Raises:
          BadInput: the caches are of different things, or contradict each other; what comes before
            that has been added.
          DamagedCache: `verify` finds damage in `other`; nothing has been added.
        """
        merge.merge(self, other, progress)

    def repair(
        self,
        directory: str | Path,
        progress: Callable[[str, int, int], None] = lambda stage, done, total: None,
    ) -> integrity.Damage:
        """Copies all that is sound in this cache into a new one; see `repair.repair`."""
        return repair.repair(self, Path(directory), progress)

    # Reading

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of models and of samples."""
        with self.index.reading() as db:
            return entries.count(db, "models"), entries.count(db, "samples")

    @property
    def about(self) -> dict[str, Any]:
        """What the cache is about, as it was created; and `dataset_weights`."""
        with self.index.reading() as db:
            return entries.about(db)

    def models(self) -> dict[str, dict[str, Any]]:
        """Returns provenance by model id, in the order of the rows."""
        with self.index.reading() as db:
            return entries.models(db)

    def samples(self, columns: np.ndarray | None = None) -> list[str]:
        """Returns the samples' ids, in the order of the columns; or of some int columns alone, in
        their order.
        """
        with self.index.reading() as db:
            return entries.samples(db, columns)

    def sample_provenance(self) -> list[tuple[slice, dict[str, Any]]]:
        """Returns columns and provenance of the samples that came together."""
        with self.index.reading() as db:
            return entries.batches(db)

    def stats(self) -> dict[str, Any]:
        """Returns counts of models, samples, cells by state and bytes, and the mean of the observed
        values.
        """
        return integrity.stats(self)

    def verify(self) -> list[str]:
        """Returns what is damaged, a line each that names the tile; nothing where all is well."""
        return integrity.verify(self)

    @property
    def scores(self) -> bool:
        """Whether some samples have scores, so that `matrix` is one of floats."""
        with self.index.reading() as db:
            return entries.has_scores(db)

    def facts(self) -> SampleFacts:
        """Returns what is known of the samples; features only if every sample has them."""
        with self.index.reading() as db:
            batches, weights = entries.batches(db), entries.about(db).get("dataset_weights")
        each = entries.of_each(batches)
        features = self.features()
        return facts.facts(each, features if features is None else features[: len(each)], weights)

    def features(self) -> np.ndarray | None:
        """Returns float32[n, d], NaN where a sample has no features; None where none has."""
        return self._snapshot(np.zeros(0, np.int64)).features()

    def matrix(
        self, models: Which = None, samples: Which = None, predicted: bool = False
    ) -> np.ndarray:
        """Returns uint8[m, n] of outcomes, 0, 1 and 255 = unknown; of a cache with `scores`
        float32[m, n] in [0, 1], outcomes and scores, NaN = unknown.

        Args:
          models: ids or int rows, none twice; None for all.
          samples: ids or int columns, none twice; None for all.
          predicted: where nothing was observed, gives what was predicted.
        """
        snapshot = self._snapshot(models, samples)
        values = snapshot.values(OBSERVED)
        if predicted:
            np.copyto(values, snapshot.values(PREDICTED), where=~observed(values))
        return values

    def predictions(self, models: Which = None, samples: Which = None) -> np.ndarray:
        """Returns what was predicted, also where something has been observed since; as `matrix`."""
        return self._snapshot(models, samples).values(PREDICTED)

    def states(self, models: Which = None, samples: Which = None) -> np.ndarray:
        """Returns uint8[m, n]: 0 unknown, 1 observed, 2 predicted and not observed; arguments as of
        `matrix`.
        """
        snapshot = self._snapshot(models, samples)
        known, predicted = (observed(snapshot.values(state)) for state in (OBSERVED, PREDICTED))
        return np.where(known, 1, np.where(predicted, 2, 0)).astype(np.uint8)

    def confidence(
        self, models: Which = None, samples: Which = None, predicted: bool = False
    ) -> np.ndarray:
        """Returns float16[m, n], the probability of the true class, NaN where unknown.

        With `predicted`, the predicted probability of being correct instead (of cells that were
        observed, too).
        """
        state = PREDICTED if predicted else OBSERVED
        return self._snapshot(models, samples).plane(CONFIDENCE, state)

    def probabilities(self, model: str, samples: Which = None) -> np.ndarray:
        """Returns float16[n, classes] of one model, NaN where unknown; of no class where it has
        none.
        """
        return self._snapshot([model], samples).plane(PROBABILITIES, OBSERVED)[0]

    def packed_rows(self, models: Which = None) -> Iterator[tuple[np.ndarray, np.ndarray | None]]:
        """Reads outcomes row by row, 64 cells a word, without memory of their own where one tile
        has a whole row; of a cache without `scores`.

        Args:
          models: ids or int rows, none twice; None for all.

        Yields:
          uint64[⌈n / 64⌉], whose bytes are the observed correct outcomes as `numpy.packbits` packs
          them, unknown cells 0; and the same of the cells that are known, or None where all are.
        """
        return self._snapshot(models).packed_rows()

    def column_sums(self, models: Which = None) -> tuple[np.ndarray, np.ndarray]:
        """Returns, for each sample, [n] the sum of its values and int32[n] how many are known;
        observed cells only.

        Sums are int32 (how many models are right), or float64 of a cache with `scores`. Outcomes
        are read from the file, eight cells a byte, and need no memory.

        Args:
          models: ids or int rows, none twice; None for all.
        """
        return self._snapshot(models).column_sums()

    def confidence_sums(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns, for each sample, float64[n] the sum of the observed confidences, and int32[n]
        how many there are.
        """
        return self._snapshot().confidence_sums()

    def row_sums(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns [m], the sum of each model's observed values (int64, or float64 of a cache with
        `scores`), and int64[m], how many there are.
        """
        return self._snapshot().row_sums()

    def _snapshot(self, models: Which = None, samples: Which = None) -> Snapshot:
        return Snapshot(self.index, self.cells, models, samples)
