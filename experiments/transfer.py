"""The transfer matrix (NEVIS'22, Appendix J): each task trained from each earlier task's predictor.

The earlier predictors are independent ones.

Row i, column j > i: the usual search on task j with every trial started from the chosen predictor
of the Indep run on i, against the Indep run on j. Each row is a run directory of its own over the
tasks after i, so a stopped matrix continues where it was.
"""

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import ml_collections
import pandas as pd

from experiments import recorded, run_config
from learners.parts import weights
from nevis_stream.analysis.transfer_matrix import FACTS, PAIRS, pair
from nevis_stream.cost.meter import total
from nevis_stream.errors import BadInput, DamagedCheckpoint, unknown
from nevis_stream.run_directory.checkpoint import Checkpoint
from nevis_stream.run_directory.ledger import FILE_NAME, Ledger
from nevis_stream.run_directory.records import PredictRecord, TrainRecord, tree_name
from nevis_stream.storage import write_file
from nevis_stream.storage.identity import text, write_once
from nevis_stream.streams.stream import Stream, load_stream

Run = Callable[[ml_collections.ConfigDict, Stream, Path], Ledger]
"""Runs a resolved config over a stream into a directory, or continues it."""

_ANOTHER_MATRIX = (
    "this directory holds the matrix of another run of indep ({difference}). Choose another --out."
)


class TransferMatrix:
    """The matrix that belongs to a complete Indep run.

    Args:
      indep: its run directory.
      out: directory of the matrix: one run directory a row, weights/, matrix.csv, matrix.json.
      sources: ids of the tasks whose rows are wanted; None: all but the last.
      stream: the run's stream by name or csv; None: by the name that the run has.

    Raises:
      BadInput: the run is not a complete one of Indep, its data have changed, or a source is not a
        task of it.
    """

    def __init__(
        self,
        indep: Path,
        out: Path,
        sources: Sequence[str] | None = None,
        stream: str | None = None,
    ):
        values, self.out, self._indep = recorded.read_config(indep), out, indep
        self.ledger = Ledger(indep)
        alone = (values["learner"], values.get("initialisation") or "random") == ("indep", "random")
        if not (alone and self.ledger.complete):
            state = "unfinished" if alone else f"of {values.get('label') or values['learner']}"
            raise BadInput(
                f"{indep}: a transfer matrix starts from a complete run of indep; this one is"
                f" {state}."
            )
        self.config = recorded.to_config(values)
        self.stream = load_stream(stream or self.config.stream)
        if self.stream.digest != self.ledger.header.stream_digest:
            raise BadInput(
                f"{indep}: stream {self.stream.name} is another than this run's, or its data have"
                " changed."
            )
        self.errors = {
            record.task_id: record.error for record in self.ledger.of_kind(PredictRecord)
        }
        self.trained = {record.task_id: record for record in self.ledger.of_kind(TrainRecord)}
        tasks = list(self.trained)
        for source in sources or ():
            if source not in tasks[:-1]:
                raise BadInput(unknown("source", source, tasks[:-1]))
        self.sources = [task for task in tasks[:-1] if not sources or task in sources]

    def targets(self, source: str) -> Stream:
        """Returns the stream of the tasks after `source`, all of them judged."""
        trained = [task for task in self.stream.tasks if task.task_id in self.trained]
        place = [task.task_id for task in trained].index(source)
        tasks = [dataclasses.replace(task, meta_split="test") for task in trained[place + 1 :]]
        loaded = {task.dataset_id: self.stream.dataset(task) for task in tasks}
        return Stream(
            f"{self.stream.name}_from_{source}", tasks, loaded.__getitem__, chronological=False
        )

    def row_config(self, source: str) -> ml_collections.ConfigDict:
        """Writes the source's predictor as a file of weights and returns the config of its row."""
        record = self.trained[source]
        path = self.out / "weights" / f"{source}.safetensors"
        if not path.exists():
            checkpoint = self._indep / "checkpoints" / record.name
            try:
                tree = Checkpoint(checkpoint).load(tree_name(record.chosen))
            except DamagedCheckpoint as error:
                raise BadInput(
                    f"{error} The Indep run must have its checkpoints (config.keep chosen or all)."
                ) from None
            network = run_config.build(self.config).recipe.network
            facts = weights.Facts(weights.describe(network), f"{source} alone", total(record.flops))
            write_file(path, weights.encode(tree["variables"], facts))
        config = self.config.copy_and_resolve_references()
        config.update(
            initialisation="pretrained",
            label=f"indep from {source}",
            protocol="meta_test",
            keep="chosen",
        )
        config.pretrained.path = str(path)
        return run_config.resolve(config)

    def run(self, run_one: Run) -> pd.DataFrame:
        """Runs the missing rows and returns the matrix; matrix.csv is written after each row.

        Columns: those of `nevis_stream.analysis.transfer_matrix.pair`.
        """
        for folder in (self.out.resolve(), *self.out.resolve().parents):
            if (folder / FILE_NAME).exists():
                raise BadInput(
                    f"{self.out}: this is inside the run directory {folder}; a matrix needs a"
                    " directory of its own."
                )
        write_once(self.out / FACTS, text(self._facts()), _ANOTHER_MATRIX)
        rows: list[dict[str, Any]] = []
        for source in self.sources:
            ledger = run_one(
                self.row_config(source), self.targets(source), self.out / f"from-{source}"
            )
            for record in ledger.of_kind(PredictRecord):
                rows.append(pair(source, record.task_id, self.errors[record.task_id], record.error))
            frame = pd.DataFrame(rows)
            write_file(self.out / PAIRS, frame.to_csv(index=False, float_format="%.6f").encode())
        return frame

    def _facts(self) -> dict[str, Any]:
        """What a report needs besides the pairs: which run it is, and its tasks in stream order."""
        names = ("learner", "budget", "stream", "stream_digest", "seed", "config_hash")
        tasks = [
            {name: getattr(r, name) for name in ("order", "task_id", "domain", "meta_split")}
            for r in self.trained.values()
        ]
        return {name: getattr(self.ledger.header, name) for name in names} | {"tasks": tasks}
