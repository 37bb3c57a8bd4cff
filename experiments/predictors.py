"""The predictors that a run keeps, loaded from its checkpoints to answer any samples of their
task's data set.
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from experiments.recorded import load_learner, read_config
from nevis_stream import metrics
from nevis_stream.cost.meter import total
from nevis_stream.datasets.dataset import MULTI_LABEL, Samples
from nevis_stream.errors import BadInput, LearnerFault, unknown
from nevis_stream.learner import Context
from nevis_stream.run_directory import outcomes
from nevis_stream.run_directory.checkpoint import Checkpoint
from nevis_stream.run_directory.ledger import Ledger
from nevis_stream.streams.stream import Stream, load_stream
from nevis_stream.streams.task import Task

TREE = "predictor-"


@dataclass(frozen=True)
class KeptPredictor:
    """One predictor of a run.

    Attributes:
      predictor_id: 16 hex digits; see docs/run-directory.md.
      task: what it was trained for.
      trial, step: where in the search and in training it comes from.
      chosen: whether the search chose it.
      checkpoint: the directory that holds it.
    """

    predictor_id: str
    task: Task
    trial: int
    step: int
    chosen: bool
    checkpoint: Path


@dataclass(frozen=True)
class Answers:
    """What a predictor said of n samples, cell by cell.

    A cell is a sample; of a multi-label task a (sample, label) pair, with the id `SAMPLE#LABEL`.

    Attributes:
      ids: of the cells.
      correct: uint8[cells].
      confidence: float32[cells], the probability given to the truth.
      probabilities: float32[n, classes].
      flops: what the answers cost.
    """

    ids: Sequence[str]
    correct: np.ndarray
    confidence: np.ndarray
    probabilities: np.ndarray
    flops: int


class KeptRun:
    """A run directory whose predictors can be used again.

    Args:
      run_dir: directory of a run that launch.run made, finished or not.
      stream: its stream by name or csv; None: by the name that the run has.
      trust: modules outside this project whose learners may be used.

    Raises:
      BadInput: it is no such directory, has trained nothing yet, or its data have changed.
    """

    def __init__(self, run_dir: Path, stream: str | None = None, trust: Sequence[str] = ()):
        self.path, self._trust = run_dir, trust
        self.config = read_config(run_dir)
        self.ledger = Ledger(run_dir)
        if not self.ledger.of_kind("train"):
            raise BadInput(
                f"{run_dir}: this run has not finished a task yet, so it has no predictor."
            )
        try:
            self.stream: Stream = load_stream(stream or self.config["stream"])
        except BadInput as error:
            raise BadInput(
                f"{run_dir}: {error} Where the run's stream was a csv, name it:"
                " --stream=my_stream.csv."
            ) from None
        if self.stream.digest != self.ledger.header["stream_digest"]:
            raise BadInput(
                f"{run_dir}: stream {self.stream.name} is another than this run's, or its data have"
                " changed. Where the run's stream was a csv, name it: --stream=my_stream.csv."
            )
        self._tasks = {task.task_id: task for task in self.stream.tasks}

    @functools.cached_property
    def learner(self):
        """The learner, built from the run's config."""
        return load_learner(self.config, self._trust)

    @functools.cached_property
    def predictors(self) -> list[KeptPredictor]:
        """Every predictor whose checkpoint is there, in the order in which they were trained."""
        found = []
        for record in self.ledger.of_kind("train"):
            path = self.path / "checkpoints" / f"{record['event']:04d}-{record['task_id']}"
            kept = set(Checkpoint(path).names) if path.is_dir() else set()
            for trial in record["trials"]:
                if f"{TREE}{trial['trial']:03d}" in kept:
                    chosen = trial["trial"] == record["chosen"]
                    task = self._tasks[record["task_id"]]
                    found.append(
                        KeptPredictor(
                            trial["predictor_id"], task, trial["trial"], trial["step"], chosen, path
                        )
                    )
        return found

    def samples(self, task: Task, splits: Sequence[str]) -> list[Samples]:
        """Returns the samples of some splits of a task, one split after the other; BadInput where
        there is no such split.
        """
        have = self.stream.splits(task)
        for split in splits:
            if split not in have:
                raise BadInput(f"data set {task.dataset_id!r}: {unknown('split', split, have)}")
        return [have[split] for split in splits]

    def find(self, task: Task, cells: Sequence[str]) -> list[Samples]:
        """Returns the samples that some cells belong to, each once, by split.

        Raises:
          BadInput: an id is not one of the data set's.
        """
        wanted = {cell.rpartition("#")[0] if task.kind == MULTI_LABEL else cell for cell in cells}
        found = []
        for samples in self.stream.splits(task).values():
            indices = np.asarray(
                [i for i, sample in enumerate(samples.ids) if sample in wanted], np.int64
            )
            if len(indices):
                found.append(samples.take(indices))
        missing = wanted - {sample for samples in found for sample in samples.ids}
        if missing:
            some = f"{min(missing)!r} ({len(missing)} of {len(wanted)} are not)"
            raise BadInput(f"data set {task.dataset_id!r} of {self.path}: no sample {some}.")
        return found

    def answer(
        self, predictor: KeptPredictor, parts: Sequence[Samples], sparing: bool = False
    ) -> Answers:
        """Asks a predictor; on the accelerator where there is one, with the same key as in the run.

        Args:
          predictor: which.
          parts: what it is asked, all in one go.
          sparing: few samples are asked at a time: batches are filled up as little as pays.

        Raises:
          DamagedCheckpoint: its file is missing or altered.
          LearnerFault: the answer is not one.
        """
        task, trial, samples = predictor.task, predictor.trial, Samples.joined(parts)
        path = (f"seed {self.config['seed']}", task.task_id, "predict", f"trial {trial}")
        ctx = Context(path=path, phase="predict", trial=trial, sparing=sparing)
        tree = Checkpoint(predictor.checkpoint).load(f"{TREE}{trial:03d}")
        probabilities = self.learner.predict(tree, samples.images, ctx)
        complaint = outcomes.complaint(probabilities, len(samples), task.kind, task.num_classes)
        if complaint:
            raise LearnerFault(f"{predictor.checkpoint}: predict {complaint}.")
        metric, told = metrics.for_kind(task.kind), np.asarray(probabilities, np.float32)
        return Answers(
            cell_ids(task, samples),
            metric.per_sample(samples.labels, told).reshape(-1),
            metric.confidence(samples.labels, told).reshape(-1),
            told,
            total(ctx.meter.counts()),
        )

    def flops_each(self, predictor: KeptPredictor) -> float | None:
        """Returns the FLOPs of a cell where a whole split is predicted, as the run recorded them;
        None where it has not yet.
        """
        for record in self.ledger.of_kind("predict"):
            for of in (record, *record.get("others", ())):
                if of["predictor_id"] == predictor.predictor_id:
                    return total(of["flops"]) / record["n"] / cells_each(predictor.task)
        return None


def kept_model(run: KeptRun, checkpoint: Path, trial: int | None) -> KeptPredictor:
    """Returns one predictor of a run by the path of its checkpoint, RUN/checkpoints/EVENT-TASK, and
    trial (None: the chosen).

    Raises:
      BadInput: no such checkpoint or trial; the valid ones are named.
    """
    here = [p for p in run.predictors if p.checkpoint.name == checkpoint.name]
    if not here:
        raise BadInput(
            unknown("checkpoint", checkpoint.name, {p.checkpoint.name for p in run.predictors})
        )
    wanted = [p for p in here if (p.chosen if trial is None else p.trial == trial)]
    if not wanted:
        raise BadInput(f"{checkpoint}: {unknown('trial', trial, [p.trial for p in here])}")
    return wanted[0]


def cells_each(task: Task) -> int:
    """Returns how many cells a sample has."""
    return task.num_classes if task.kind == MULTI_LABEL else 1


def cell_ids(task: Task, samples: Samples) -> list[str]:
    """Returns the ids of the cells of some samples: the samples' own, or one for each label of
    each.
    """
    if task.kind != MULTI_LABEL:
        return list(samples.ids)
    return [f"{sample}#{label}" for sample in samples.ids for label in range(task.num_classes)]


def provenance(run: KeptRun, predictor: KeptPredictor) -> dict[str, Any]:
    """Returns what a cache records of a predictor besides the cost of an answer: JSON facts."""
    return {
        "run": str(run.path.absolute()),
        "learner": run.ledger.header["learner"],
        "seed": run.config["seed"],
        "task": predictor.task.task_id,
        "trial": predictor.trial,
        "step": predictor.step,
        "chosen": predictor.chosen,
        "checkpoint": str(predictor.checkpoint.absolute()),
    }
