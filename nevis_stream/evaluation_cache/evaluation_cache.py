"""The evaluation cache: the growing, partly known matrix of models × samples, on disk::

    cache = EvaluationCache("caches/mnist", create=True)
    cache.append("model-a", ["mnist/test/0", "mnist/test/1"], [1, 0],
                 provenance={"flops_per_sample": 3.0e6})
    cache.matrix()                                                # uint8[1, 2]; 255 = unknown

A row is a model, a column a sample; both have ids and provenance. A sample has outcomes (0 or 1)
or, if its provenance has `low` and `high`, real-valued scores, scaled from this range to [0, 1]. A
cell is unknown, observed or predicted: predictions are stored apart and are read only on request.
Observed values never change, so repeating a call changes nothing. When a call returns, everything
it wrote is safe on disk: several processes may write at a time, and any of them may be killed.
"""

import dataclasses
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nevis_stream.errors import BadInput, DamagedCache
from nevis_stream.evaluation_cache import (
    cells,
    entries,
    facts,
    index,
    integrity,
    merge,
    packing,
    records,
)
from nevis_stream.evaluation_cache.cells import Snapshot, Which
from nevis_stream.evaluation_cache.packing import (
    CONFIDENCE,
    CORRECT,
    OBSERVED,
    PREDICTED,
    PROBABILITIES,
)
from nevis_stream.evaluation_cache.records import Erratum, Imported
from nevis_stream.progress import SILENT, Progress
from nevis_stream.queries.samples import SampleFacts, check_weights, is_observed, number_images
from nevis_stream.storage import make_directory, remove_abandoned, sync_directory
from nevis_stream.storage.reading import clear_faults
from nevis_stream.vocabulary import MULTI_LABEL

INDEX, CELLS = index.INDEX, index.CELLS


class EvaluationCache:
    """One cache on disk. The object holds only its path, so any number of processes may have
    one.
    """

    def __init__(
        self, directory: str | Path, create: bool = False, about: dict[str, Any] | None = None
    ):
        """Opens a cache.

        Args:
          directory: of the cache.
          create: make the cache if there is none.
          about: what a new cache is about (data set, label space); caches that differ here cannot
            be merged.

        Raises:
          BadInput: there is no cache and `create` is false, or it has another format or version.
        """
        self.directory = Path(directory)
        self.index = index.Index(self.directory / INDEX)
        self.cells = packing.TileFile(self.directory / CELLS)
        if create:
            remove_abandoned(self.directory)  # also if there is nothing to write then
        if create and not self.index.path.exists():
            if self.directory.exists() and not self.directory.is_dir():
                raise BadInput(f"{self.directory}: is a file; a cache is a directory.")
            self._check_index()
            with clear_faults(self.directory):
                make_directory(self.directory)
                self.cells.path.touch()
                sync_directory(self.directory)
                index.Index.create(self.index.path, about or {})
        self._check_index()
        with self.index.reading():
            pass

    def __repr__(self) -> str:
        with self.index.reading() as db:
            models, samples = entries.count(db, "models"), entries.count(db, "samples")
        return f"EvaluationCache {self.directory}: {models:,} models × {samples:,} samples"

    def _check_index(self) -> None:
        """Refuses a file of cells without an index, for which no new index is made."""
        # in this order: another process may just have made both files
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
        """Adds observed values of one model.

        Args:
          model: its id; a known model gains cells.
          samples: k ids (new ones become columns), or int columns.
          values: [k]: outcomes 0 and 1, or, for samples with scores, float scores in [0, 1]; 255
            or NaN where unknown.
          confidence: probability of the true class, float[k] in [0, 1]; NaN where unknown.
          probabilities: float[k, classes].
          provenance: of the model: run, learner, task, trial, step, flops_per_sample, …; `tasks`
            has facts by data set, such as number of shots, which must agree with the cache.
          sample_provenance: of the new samples: dataset, split, …; with `low` and `high` they have
            scores. What identifies samples of the cache (dataset, metric, higher_is_better, low,
            high, hash) must agree with it.

        Raises:
          BadInput: values are not valid, or contradict observed ones. Nothing is written.
        """
        planes = {CORRECT: values, CONFIDENCE: confidence, PROBABILITIES: probabilities}
        rows = {
            plane: None if row is None else np.asarray(row)[None] for plane, row in planes.items()
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
        """Adds observed values of m models on the same k samples, all or nothing; arguments as of
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
        """Adds predicted cells, which are stored apart from observed ones; a later prediction of a
        cell replaces an earlier one.

        Args:
          models: m ids.
          samples: k ids, or int columns.
          values: uint8[m, k] of outcomes, 255 = not predicted; or float[m, k] in [0, 1], NaN = not
            predicted: expected scores, or probabilities of being right.
          made_by: method, budget, seed, …

        Raises:
          BadInput: values are not valid. Nothing is written.
        """
        self._add(PREDICTED, models, samples, {CORRECT: values}, made_by=made_by)

    def _add(
        self,
        state: str,
        models: Sequence[str],
        samples: Sequence[str] | np.ndarray,
        values_by_plane: Mapping[str, Any],
        provenances: Sequence[dict[str, Any] | None] | None = None,
        sample_provenance: dict[str, Any] | None = None,
        made_by: dict[str, Any] | None = None,
    ) -> None:
        planes = cells.convert_arrays(models, samples, values_by_plane)
        with self.index.writing() as db:
            if len(samples) and not isinstance(samples, str) and not isinstance(samples[0], str):
                columns = entries.choose(db, "samples", samples)
            else:
                columns = entries.add_samples(db, samples, [sample_provenance] * len(samples))
            provenances = provenances or [None] * len(models)
            if len(provenances) != len(models):
                raise BadInput(f"provenances: {len(provenances)} for {len(models)} models.")
            rows = [
                (model, entries.add_model(db, model, provenance))
                for model, provenance in zip(models, provenances, strict=True)
            ]
            cells.write(db, self.cells, state, rows, columns, planes, made_by)

    def add_samples(
        self, samples: Sequence[str], provenances: Sequence[dict[str, Any] | None]
    ) -> None:
        """Adds k samples without values, each with its provenance.

        Raises:
          BadInput: an id is not valid, or a range differs from that of the sample in the cache.
        """
        with self.index.writing() as db:
            entries.add_samples(db, samples, provenances)

    def add_features(self, samples: Sequence[str] | np.ndarray, features: np.ndarray) -> None:
        """Adds features, float[k, d], of k samples, ids or int columns; a sample's features never
        change.

        Raises:
          BadInput: a sample is unknown or has other features, or the length differs. Nothing is
            written.
        """
        with self.index.writing() as db:
            columns = entries.choose(db, "samples", samples)
            cells.write_features(db, self.cells, columns, features)

    def set_dataset_weights(self, weights: Mapping[str, float] | str | None) -> None:
        """Records the weight of each data set in the overall mean, or "equal" for equal weights
        (see `samples.check_weights`); None: every sample counts the same.
        """
        with self.index.writing() as db:
            sizes, about = Counter[str](), records.read_about(db)
            about.pop("dataset_weights", None)
            for columns, provenance in entries.read_batches(db):
                sizes[facts.get_dataset(provenance)] += columns.stop - columns.start
            if weights is not None:
                about["dataset_weights"] = check_weights(weights, sizes)
            records.write_about(db, about)

    def remove(
        self,
        models: Sequence[str] | None,
        samples: Sequence[str] | None,
        reason: str,
    ) -> Erratum:
        """Removes observed cells, and records it. Cells that come later are left out as well.

        Args:
          models: ids, whose cells are removed; None: of all models.
          samples: ids, on which they are removed; None: on all samples.
          reason: for people.

        Raises:
          BadInput: both are None, or the cache does not have one of them.
        """
        with self.index.writing() as db:
            records.check_names(db, models, samples)
            rows, columns = (None if e is None else tuple(e) for e in (models, samples))
            record = Erratum(records.get_current_time(), reason, rows, columns)
            return cells.add_errata_once(db, self.cells, record)

    def amend(self, values: Mapping[str, Mapping[str, float]], reason: str) -> Erratum:
        """Gives observed or removed cells other values, and records it.

        Args:
          values: by model and sample, outcomes 0 and 1, or scores in [0, 1].
          reason: for people.

        Raises:
          BadInput: the cache does not have a model or sample, or a value is not valid.
        """
        plain = {m: {s: float(v) for s, v in each.items()} for m, each in values.items() if each}
        with self.index.writing() as db:
            records.check_names(
                db, list(plain), sorted({s for each in plain.values() for s in each})
            )
            record = Erratum(records.get_current_time(), reason, values=plain)
            return cells.add_errata_once(db, self.cells, record)

    def errata(self) -> list[Erratum]:
        """Returns what was removed and amended, by time; about a cell the last record counts."""
        with self.index.reading() as db:
            return records.read_errata(db)

    def merge(
        self,
        other: "EvaluationCache",
        progress: Progress = SILENT,
    ) -> merge.MergeResult:
        """Adds everything in another cache; see `merge.merge`. Into an empty cache this makes a
        smaller copy, without replaced predictions.
        """
        return merge.merge(self, other, progress)

    def repair(
        self,
        directory: str | Path,
        progress: Progress = SILENT,
    ) -> integrity.Damage:
        """Copies the undamaged parts of this cache to a new one; see `integrity.repair`."""
        return integrity.repair(self, Path(directory), progress)

    # Reading

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of models and of samples."""
        with self.index.reading() as db:
            return entries.count(db, "models"), entries.count(db, "samples")

    @property
    def about(self) -> dict[str, Any]:
        """What the cache is about, as given when it was created, and `dataset_weights`."""
        with self.index.reading() as db:
            return records.read_about(db)

    def models(self) -> dict[str, dict[str, Any]]:
        """Returns provenance by model id, in the order of the rows."""
        with self.index.reading() as db:
            return entries.read_models(db)

    def samples(self, columns: np.ndarray | None = None) -> list[str]:
        """Returns the samples' ids, in the order of the columns; or the ids of some int columns, in
        their order.
        """
        with self.index.reading() as db:
            return entries.list_samples(db, columns)

    def sample_provenance(self) -> list[tuple[slice, dict[str, Any]]]:
        """Returns the columns and the provenance of each group of neighbouring samples that were
        added with equal provenance.
        """
        with self.index.reading() as db:
            return entries.read_batches(db)

    def hashes(self) -> dict[str, str]:
        """Returns the hash of the content of samples, by id, where it is known."""
        with self.index.reading() as db:
            hashes = entries.read_hashes(db)
            return dict(
                zip(entries.list_samples(db, np.array([*hashes])), hashes.values(), strict=True)
            )

    def imports(self) -> list[Imported]:
        """Returns what the imports into this cache understood and left out, in their order."""
        with self.index.reading() as db:
            return records.read_imports(db)

    def stats(self) -> dict[str, Any]:
        """Returns the numbers of models, samples, cells by state and bytes, and the mean of the
        observed values; see `integrity.count_cells`.
        """
        return integrity.count_cells(self)

    def verify(self) -> list[str]:
        """Returns a line for each damaged part, [] if there is none; see `integrity.verify`."""
        return integrity.verify(self)

    @property
    def scores(self) -> bool:
        """Whether some samples have scores, so that `matrix` is one of floats."""
        with self.index.reading() as db:
            return entries.has_scores(db)

    def facts(self) -> SampleFacts:
        """Returns facts about the samples; features only if every sample has them."""
        with self.index.reading() as db:
            batches, about = entries.read_batches(db), records.read_about(db)
        provenances, features = entries.spread_provenance(batches), self.features()
        if features is not None:
            features = features[: len(provenances)]  # others may have added samples since
        weights = facts.select_used_weights(about.get("dataset_weights"), [p for _, p in batches])
        found = facts.collect_facts(provenances, features, weights)
        if not found.n:
            return found
        if about.get("kind") == MULTI_LABEL:
            return dataclasses.replace(found, image=number_images(self.samples(np.arange(found.n))))
        return facts.add_prompts(found, provenances, lambda: self.samples(np.arange(found.n)))

    def has_one_mean(self) -> bool:
        """Returns whether all samples agree in direction and range and have one metric each."""
        with self.index.reading() as db:
            batches = [each for _, each in entries.read_batches(db)]
        return facts.have_one_mean(batches)

    def features(self) -> np.ndarray | None:
        """Returns float32[n, d], NaN for a sample without features; None if no sample has any."""
        return self._take_snapshot(np.zeros(0, np.int64)).features()

    def matrix(
        self, models: Which = None, samples: Which = None, predicted: bool = False
    ) -> np.ndarray:
        """Returns uint8[m, n] of outcomes, 0, 1 and 255 = unknown; for a cache with `scores`
        float32[m, n] in [0, 1], outcomes and scores, NaN = unknown.

        Args:
          models: ids or int rows, none twice; None for all.
          samples: ids or int columns, none twice; None for all.
          predicted: gives predicted values for cells that were not observed.
        """
        snapshot = self._take_snapshot(models, samples)
        values = snapshot.read_values(OBSERVED)
        if predicted:
            np.copyto(values, snapshot.read_values(PREDICTED), where=~is_observed(values))
        return values

    def predictions(self, models: Which = None, samples: Which = None) -> np.ndarray:
        """Returns predicted values, also of cells that were observed later; as `matrix`."""
        return self._take_snapshot(models, samples).read_values(PREDICTED)

    def states(self, models: Which = None, samples: Which = None) -> np.ndarray:
        """Returns uint8[m, n]: 0 unknown, 1 observed, 2 predicted and not observed; arguments as of
        `matrix`.
        """
        snapshot = self._take_snapshot(models, samples)
        known, predicted = (
            is_observed(snapshot.read_values(state)) for state in (OBSERVED, PREDICTED)
        )
        return np.where(known, 1, np.where(predicted, 2, 0)).astype(np.uint8)

    def confidence(
        self, models: Which = None, samples: Which = None, predicted: bool = False
    ) -> np.ndarray:
        """Returns float16[m, n], the probability of the true class, NaN where unknown.

        With `predicted`, the predicted probability of being correct instead, also of cells that
        were observed later.
        """
        state = PREDICTED if predicted else OBSERVED
        return self._take_snapshot(models, samples).read_plane(CONFIDENCE, state)

    def probabilities(self, model: str, samples: Which = None) -> np.ndarray:
        """Returns float16[n, classes] of one model, NaN where unknown; float16[n, 0] if the model
        has no probabilities.
        """
        return self._take_snapshot([model], samples).read_plane(PROBABILITIES, OBSERVED)[0]

    def packed_rows(self, models: Which = None) -> Iterator[tuple[np.ndarray, np.ndarray | None]]:
        """Reads outcomes row by row, 64 cells in a word; for caches without `scores`. A row that is
        in one tile is not copied.

        Args:
          models: ids or int rows, none twice; None for all.

        Yields:
          uint64[⌈n / 64⌉], whose bytes are the observed correct outcomes as `numpy.packbits` packs
          them, unknown cells 0; and the same of the cells that are known, or None if all are.
        """
        return self._take_snapshot(models).packed_rows()

    def column_sums(self, models: Which = None) -> tuple[np.ndarray, np.ndarray]:
        """Returns, for each sample, the sum of its observed values, [n], and their number,
        int32[n].

        Sums are int32 (the number of models that are right), or float64 for a cache with `scores`.
        Outcomes are added up in the mapped file, eight cells in a byte.

        Args:
          models: ids or int rows, none twice; None for all.
        """
        return self._take_snapshot(models).column_sums()

    def row_sums(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns, for each model, the sum of its observed values, [m] (int64, or float64 for a
        cache with `scores`), and their number, int64[m].
        """
        return self._take_snapshot().row_sums()

    def _take_snapshot(self, models: Which = None, samples: Which = None) -> Snapshot:
        return Snapshot(self.index, self.cells, models, samples)
