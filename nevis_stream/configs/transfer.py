"""The transfer matrix (NEVIS'22, Appendix J): each task is trained from each earlier predictor.

The entry in row i and column j > i compares two predictors of task j: the one that a run of indep
chose, and the one that the same search chooses if every trial starts from that run's predictor of
task i. Each row is a run directory over the tasks after i, so an interrupted matrix can be
continued.
"""

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from nevis_stream.analysis.transfer_matrix import FACTS, PAIRS, make_pair_row
from nevis_stream.configs import recorded, run_config
from nevis_stream.cost.meter import total
from nevis_stream.errors import BadInput, DamagedCheckpoint, unknown
from nevis_stream.learners.parts import weights
from nevis_stream.run_directory.config import read_values
from nevis_stream.run_directory.ledger import FILE_NAME, Ledger
from nevis_stream.run_directory.records import PredictRecord, TrainRecord, make_tree_name
from nevis_stream.storage import write_file
from nevis_stream.storage.checkpoint import Checkpoint
from nevis_stream.storage.reading import resolve_path
from nevis_stream.storage.record import as_lines, write_once
from nevis_stream.storage.tables import encode_csv, name_files
from nevis_stream.streams.named_streams import load_stream
from nevis_stream.streams.stream import Stream

RunOnce = Callable[[run_config.RunConfig, Stream, Path], Ledger]
"""Runs a resolved config over a stream in a directory, or continues that run."""

_ANOTHER_MATRIX = (
    "this directory contains the matrix of another run ({difference}). Choose another --out."
)


class TransferMatrixRun:
    """The transfer matrix of a complete run of indep.

    Args:
      indep: its run directory.
      out: directory of the matrix, with a run directory per row, weights/, matrix.csv and
        matrix.json.
      sources: ids of the tasks that have a row; None means all but the last task.
      stream: name or csv of the run's stream; None uses the name that the run recorded.

    Raises:
      BadInput: the run is unfinished or of another learner, its data have changed, or a source is
        not one of its tasks.
    """

    def __init__(
        self,
        indep: Path,
        out: Path,
        sources: Sequence[str] | None = None,
        stream: str | None = None,
    ):
        self._values = values = read_values(indep)
        self.out, self._indep = out, indep
        self.ledger = Ledger(indep)
        initialisation = values.get("initialisation") or "random"
        if (values["learner"], initialisation) != ("indep", "random"):
            raise BadInput(
                f"{indep}: a transfer matrix needs a run of indep; this is one of"
                f" {values.get('label') or values['learner']}."
            )
        if not self.ledger.complete:
            raise BadInput(
                f"{indep}: this run is unfinished. Start its command again to complete it."
            )
        self.config = recorded.to_config(values)
        self.stream = load_stream(stream or self.config.stream, None if stream else ())
        if stream:  # the run recorded a name, by which a csv is not found
            self.config.stream = stream
        if self.stream.digest != self.ledger.header.stream_digest:
            raise BadInput(
                f"{indep}: stream {self.stream.name} is not the run's stream, or its data have"
                " changed since the run."
            )
        self.errors = {
            record.task_id: record.error for record in self.ledger.of_kind(PredictRecord)
        }
        self.trained = {record.task_id: record for record in self.ledger.of_kind(TrainRecord)}
        self._files, tasks = name_files(self.trained), list(self.trained)
        for source in sources or ():
            if source not in tasks[:-1]:
                raise BadInput(unknown("source", source, tasks[:-1]))
        self.sources = [task for task in tasks[:-1] if not sources or task in sources]

    def targets(self, source: str) -> Stream:
        """Returns the stream of the tasks after `source`, all of which are judged."""
        trained = [task for task in self.stream.tasks if task.task_id in self.trained]
        place = [task.task_id for task in trained].index(source)
        tasks = [dataclasses.replace(task, meta_split="test") for task in trained[place + 1 :]]
        loaded = {task.dataset_id: self.stream.dataset(task) for task in tasks}
        return Stream(
            f"{self.stream.name}_from_{source}", tasks, loaded.__getitem__, chronological=False
        )

    def write_row_config(self, source: str) -> run_config.RunConfig:
        """Writes the source's predictor to a file of weights, and returns the config of its row."""
        record = self.trained[source]
        path = self.out / "weights" / f"{self._files[source]}.safetensors"
        if not path.exists():
            checkpoint = self._indep / "checkpoints" / record.name
            try:
                tree = Checkpoint(checkpoint).load(make_tree_name(record.chosen))
            except DamagedCheckpoint as error:
                raise BadInput(
                    f"{error} The run of indep must keep its checkpoints (config.keep chosen or"
                    " all)."
                ) from None
            learner: Any = recorded.load_learner(read_values(self._indep))
            network = learner.recipe.network
            facts = weights.Facts(
                weights.describe_network(network), f"{source} alone", total(record.flops)
            )
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

    def run(self, run_one: RunOnce) -> pd.DataFrame:
        """Runs the missing rows and returns the matrix; matrix.csv is written after each row.

        Columns: those of `nevis_stream.analysis.transfer_matrix.make_pair_row`.
        """
        for folder in (out := resolve_path(self.out), *out.parents):
            if (folder / FILE_NAME).exists():
                raise BadInput(
                    f"{self.out}: is inside the run directory {folder}. Choose another --out."
                )
        write_once(self.out / FACTS, as_lines(self._facts()), _ANOTHER_MATRIX)
        rows: list[dict[str, Any]] = []
        for source in self.sources:
            ledger = run_one(
                self.write_row_config(source),
                self.targets(source),
                self.out / f"from-{self._files[source]}",
            )
            for record in ledger.of_kind(PredictRecord):
                rows.append(
                    make_pair_row(source, record.task_id, self.errors[record.task_id], record.error)
                )
            frame = pd.DataFrame(rows)
            write_file(self.out / PAIRS, encode_csv(frame.round(6)))
        return frame

    def _facts(self) -> dict[str, Any]:
        """Returns the facts about the run and its tasks that a report needs besides the pairs."""
        names = ("learner", "budget", "stream", "stream_digest", "seed", "config_hash")
        tasks = [
            {name: getattr(r, name) for name in ("order", "task_id", "domain", "meta_split")}
            for r in self.trained.values()
        ]
        return {name: getattr(self.ledger.header, name) for name in names} | {"tasks": tasks}
