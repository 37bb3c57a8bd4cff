"""The evaluation cache: the growing, partly known matrix of models × samples, on disk.

    cache = EvaluationCache("caches/mnist", create=True)
    cache.append("model-a", ["mnist/test/0", "mnist/test/1"], [1, 0],
    provenance={"flops_per_sample": 3.0e6}) cache.matrix()                      # uint8[1, 2]; 255 =
    nobody knows

A row is a model, a column a sample; both carry ids and provenance. A cell is unknown, observed or
predicted: predictions lie in tiles of their own and are read only where they are asked for.
Observed outcomes are never changed, so the same call again changes nothing. What a call has written
counts when it returns: several processes may write at a time, and be killed.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nevis_stream.dynamic_evaluation.cache import (
    index,
    integrity,
    merge,
    packing,
    records,
    repair,
    sums,
    writing,
)
from nevis_stream.dynamic_evaluation.cache.packing import (
    ALL,
    CONFIDENCE,
    CORRECT,
    OBSERVED,
    PREDICTED,
    PROBABILITIES,
    Tile,
)
from nevis_stream.dynamic_evaluation.matrix import UNKNOWN
from nevis_stream.errors import BadInput, DamagedCache
from nevis_stream.storage import clear_when_full, sync_directory

INDEX, CELLS = "index.sqlite", "cells.bin"
# of models or samples: ids, or integer numbers, or None for all
Which = Sequence[str] | np.ndarray | None


class EvaluationCache:
    """One cache on disk; the object holds nothing but the place, so that any number of processes
    may have one.
    """

    def __init__(
        self, directory: str | Path, create: bool = False, about: dict[str, Any] | None = None
    ):
        """Opens a cache.

        Args:
          directory: where it is.
          create: makes it where there is none.
          about: what a new cache is of (data set, label space); caches that differ here are not
            merged.

        Raises:
          BadInput: there is no cache and none is to be made, or it is of another kind or version.
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
        """Cells without an index are no cache, and never become one."""
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
        correct: np.ndarray | Sequence[float],
        confidence: np.ndarray | None = None,
        probabilities: np.ndarray | None = None,
        provenance: dict[str, Any] | None = None,
        sample_provenance: dict[str, Any] | None = None,
    ) -> None:
        """Adds what was observed of one model.

        Args:
          model: its id; a known model gains cells.
          samples: k ids (new ones become columns), or int columns.
          correct: [k] of 0 and 1; 255 or NaN where nobody knows.
          confidence: probability of the true class, float[k] in [0, 1]; NaN where nobody knows.
          probabilities: float[k, classes].
          provenance: of the model: run, learner, task, trial, step, flops_per_sample, …
          sample_provenance: of those samples that are new: dataset, split, …

        Raises:
          BadInput: values of the wrong kind, or an outcome that contradicts an observed one.
            Nothing is written.
        """
        planes = {CORRECT: correct, CONFIDENCE: confidence, PROBABILITIES: probabilities}
        rows = {
            plane: None if given is None else np.asarray(given)[None]
            for plane, given in planes.items()
        }
        self._add(OBSERVED, [model], samples, rows, [provenance], sample_provenance)

    def append_rows(
        self,
        models: Sequence[str],
        samples: Sequence[str] | np.ndarray,
        correct: np.ndarray,
        confidence: np.ndarray | None = None,
        provenances: Sequence[dict[str, Any] | None] | None = None,
        sample_provenance: dict[str, Any] | None = None,
    ) -> None:
        """Adds what was observed of m models on the same k samples, all or nothing; arguments as of
        `append`, but [m, k].
        """
        self._add(
            OBSERVED,
            models,
            samples,
            {CORRECT: correct, CONFIDENCE: confidence},
            provenances,
            sample_provenance,
        )

    def append_predictions(
        self,
        models: Sequence[str],
        samples: Sequence[str] | np.ndarray,
        outcomes: np.ndarray,
        probabilities: np.ndarray | None = None,
        made_by: dict[str, Any] | None = None,
    ) -> None:
        """Adds predicted cells, apart from the observed ones; a later prediction of a cell replaces
        an earlier one.

        Args:
          models: m ids.
          samples: k ids, or int columns.
          outcomes: uint8[m, k] of 0 and 1; 255 = not predicted.
          probabilities: float[m, k], of being correct.
          made_by: method, budget, seed, …

        Raises:
          BadInput: values of the wrong kind. Nothing is written.
        """
        self._add(
            PREDICTED,
            models,
            samples,
            {CORRECT: outcomes, CONFIDENCE: probabilities},
            made_by=made_by,
        )

    def _add(
        self, state, models, samples, given, provenances=None, sample_provenance=None, made_by=None
    ) -> None:
        planes = writing.checked(models, samples, given)
        with self.index.writing() as db:
            columns = records.columns(db, samples, sample_provenance)
            provenances = provenances or [None] * len(models)
            if len(provenances) != len(models):
                raise BadInput(f"provenances: {len(provenances)} for {len(models)} models.")
            rows = [
                (model, records.add_model(db, model, of))
                for model, of in zip(models, provenances, strict=True)
            ]
            writing.write(db, self.cells, state, rows, columns, planes, made_by)

    def merge(
        self,
        other: "EvaluationCache",
        told: Callable[[str, int, int], None] = lambda model, done, of: None,
    ) -> None:
        """Adds all that another cache has; into an empty cache, this leaves out what replaced
        predictions take up.

        Args:
          other: another cache of the same things.
          told: called with each model's id, the number of models done and of how many.

        Raises:
          BadInput: the caches are of different things, or contradict each other; what comes before
            that has been added.
          DamagedCache: `verify` finds damage in `other`; nothing has been added.
        """
        merge.merge(self, other, told)

    def repair(
        self,
        directory: str | Path,
        told: Callable[[str, int, int], None] = lambda stage, done, of: None,
    ) -> integrity.Damage:
        """Makes another cache of all that is sound in this one, which stays as it is; see
        `repair.repair`.
        """
        return repair.repair(self, Path(directory), told)

    # Reading

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of models and of samples."""
        with self.index.reading() as db:
            return records.count(db, "models"), records.count(db, "samples")

    @property
    def about(self) -> dict[str, Any]:
        """What the cache is of, as it was made."""
        with self.index.reading() as db:
            return records.about(db)

    def models(self) -> dict[str, dict[str, Any]]:
        """Returns provenance by model id, in the order of the rows."""
        with self.index.reading() as db:
            return records.models(db)

    def samples(self, columns: np.ndarray | None = None) -> list[str]:
        """Returns the samples' ids, in the order of the columns; or of some int columns alone, in
        their order.
        """
        with self.index.reading() as db:
            return records.samples(db, columns)

    def sample_provenance(self) -> list[tuple[slice, dict[str, Any]]]:
        """Returns columns and provenance of the samples that came together."""
        with self.index.reading() as db:
            return records.batches(db)

    def predictions_of(self, model: str) -> list[dict[str, Any]]:
        """Returns what made a model's predictions, the latest last."""
        with self.index.reading() as db:
            return records.made_by(db, int(records.chosen(db, "models", [model])[0]))

    def stats(self) -> dict[str, Any]:
        """Returns counts of models, samples, cells by state, bytes, and the share of the observed
        outcomes that is correct.
        """
        return integrity.stats(self)

    def verify(self) -> list[str]:
        """Returns what is damaged, a line each that names the tile; nothing where all is well."""
        return integrity.verify(self)

    def matrix(
        self, models: Which = None, samples: Which = None, predicted: bool = False
    ) -> np.ndarray:
        """Returns uint8[m, n] of outcomes: 0, 1, and 255 where nobody knows.

        Args:
          models: ids or int rows, none twice; None for all.
          samples: ids or int columns, none twice; None for all.
          predicted: where nothing was observed, gives what was predicted.
        """
        found = self._gather(CORRECT, OBSERVED, models, samples)
        if predicted:
            guessed = self._gather(CORRECT, PREDICTED, models, samples)
            np.copyto(found, guessed, where=found == UNKNOWN)
        return found

    def predictions(self, models: Which = None, samples: Which = None) -> np.ndarray:
        """Returns uint8[m, n], what was predicted, also where something has been observed since;
        255 where nothing was.
        """
        return self._gather(CORRECT, PREDICTED, models, samples)

    def states(self, models: Which = None, samples: Which = None) -> np.ndarray:
        """Returns uint8[m, n]: 0 unknown, 1 observed, 2 predicted and not observed; arguments as of
        `matrix`.
        """
        observed = self._gather(CORRECT, OBSERVED, models, samples) != UNKNOWN
        guessed = self._gather(CORRECT, PREDICTED, models, samples) != UNKNOWN
        return np.where(observed, 1, np.where(guessed, 2, 0)).astype(np.uint8)

    def confidence(
        self, models: Which = None, samples: Which = None, predicted: bool = False
    ) -> np.ndarray:
        """Returns float16[m, n], the probability of the true class, NaN where nobody knows.

        With `predicted`, the predicted probability of being correct instead (of cells that were
        observed, too).
        """
        return self._gather(CONFIDENCE, PREDICTED if predicted else OBSERVED, models, samples)

    def probabilities(self, model: str, samples: Which = None) -> np.ndarray:
        """Returns float16[n, classes] of one model, NaN where nobody knows; of no class where it
        has none.
        """
        return self._gather(PROBABILITIES, OBSERVED, [model], samples)[0]

    def packed_rows(self, models: Which = None) -> Iterator[tuple[np.ndarray, np.ndarray | None]]:
        """Reads rows one after the other, 64 cells a word, without memory of their own where one
        tile has a whole row.

        Args:
          models: ids or int rows, none twice; None for all.

        Yields:
          uint64[⌈n / 64⌉], whose bytes are the observed correct outcomes as `numpy.packbits` packs
          them, unknown cells 0; and the same of the cells that are known, or None where all are.
        """
        rows, columns, view, tiles = self._found(CORRECT, OBSERVED, models, None)
        n, words = len(columns), view.view(np.uint64)
        of_row: dict[int, list[Tile]] = {}
        for tile in tiles:
            of_row.setdefault(tile.shape.model, []).append(tile)
        for row in rows.tolist():
            mine = of_row.get(row, [])
            if len(mine) == 1 and mine[0].shape.form == ALL and mine[0].shape.span == n:
                yield words[mine[0].offset // 8 :][: -(-n // 64)], None
                continue
            line = np.full(-(-n // 64) * 64, UNKNOWN, np.uint8)
            for tile in mine:
                at, values = packing.decode(
                    tile.shape, view[tile.offset : tile.offset + tile.shape.length]
                )
                line[at] = values
            known = line != UNKNOWN
            yield (
                np.packbits(line == 1).view(np.uint64),
                None if known[:n].all() else np.packbits(known).view(np.uint64),
            )

    def mark(self) -> int:
        """Returns a mark of what the cache has now, for sums of what comes later."""
        with self.index.reading() as db:
            return records.mark(db)

    def column_sums(
        self, since: int = 0, upto: int | None = None, models: Which = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Returns, of each sample, int32[n] how many models are right and int32[n] how many are
        known; observed cells only.

        The rows are read from the file, eight cells a byte, and need no memory.

        Args:
          since: a mark: counts only what came after it, so that earlier sums can be brought up to
            date.
          upto: a mark: counts only what came before it.
          models: ids or int rows, none twice; None for all.
        """
        with self.index.reading() as db:
            n, view = records.count(db, "samples"), self.cells.view(records.end(db))
            upto = records.mark(db) if upto is None else upto
            chosen = "state = ? AND plane = ? AND number > ? AND number <= ?"
            rows = records.chosen(db, "models", models)
            tiles = records.tiles(db, chosen, [OBSERVED, CORRECT, since, upto], rows)
        return sums.column_sums(view, tiles, n)

    def confidence_sums(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns, of each sample, float64[n] the sum of the observed confidences, and int32[n] how
        many there are.
        """
        _, columns, view, tiles = self._found(CONFIDENCE, OBSERVED, None, None)
        return sums.confidence_sums(view, tiles, len(columns))

    def row_sums(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns int64[m], on how many samples each model is right, and int64[m], on how many it
        was observed.
        """
        with self.index.reading() as db:
            return records.row_sums(db)

    def _found(self, plane: str, state: str, models: Which, samples: Which):
        """Returns rows and columns, int64, that are meant; the file's map; the tiles that may have
        such cells.
        """
        with self.index.reading() as db:
            rows, columns = (
                records.chosen(db, "models", models),
                records.chosen(db, "samples", samples),
            )
            tiles = records.tiles(db, "state = ? AND plane = ?", [state, plane], rows)
            return rows, columns, self.cells.view(records.end(db)), tiles

    def _gather(self, plane: str, state: str, models: Which, samples: Which) -> np.ndarray:
        rows, columns, view, tiles = self._found(plane, state, models, samples)
        classes = (
            [max((tile.shape.classes for tile in tiles), default=0)]
            if plane == PROBABILITIES
            else []
        )
        missing, kind = (UNKNOWN, np.uint8) if plane == CORRECT else (np.nan, np.float16)
        found = np.full([len(rows), len(columns), *classes], missing, kind)
        line = dict(zip(rows.tolist(), range(len(rows)), strict=True))
        order = np.argsort(columns, kind="stable")
        for tile in tiles:
            data, out = (
                view[tile.offset : tile.offset + tile.shape.length],
                found[line[tile.shape.model]],
            )
            if samples is None:
                at, values = packing.decode(tile.shape, data)
            else:
                at, values = packing.pick(tile.shape, data, columns[order])
                at = order[at]
            out[at] = values
        return found
