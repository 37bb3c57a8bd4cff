"""The predictors that a run keeps, loaded from its checkpoints to answer samples."""

import csv
import functools
from collections.abc import Callable, Mapping, Sequence
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
from nevis_stream.run_directory.checkpoint import Checkpoint, Tree
from nevis_stream.run_directory.ledger import Ledger
from nevis_stream.run_directory.records import AnswerRecord, PredictRecord, TrainRecord, tree_name
from nevis_stream.storage.npz import read_npz
from nevis_stream.streams.stream import Stream, load_stream
from nevis_stream.streams.task import Task


@dataclass(frozen=True)
class KeptPredictor:
    """One predictor of a run.

    Attributes:
      predictor_id: 16 hex digits; see docs/run-directory.md.
      task: what it was trained for.
      trial, step: where in the search and in training it comes from.
      chosen: whether the search chose it.
      checkpoint: the directory that holds it; None where only its recorded answers are kept.
    """

    predictor_id: str
    task: Task
    trial: int
    step: int
    chosen: bool
    checkpoint: Path | None


@dataclass(frozen=True)
class SplitAnswers:
    """What a predictor answered on n samples, cell by cell.

    A cell is a sample; of a multi-label task a (sample, label) pair, with the id `SAMPLE#LABEL`.

    Attributes:
      ids: of the cells.
      correct: uint8[cells].
      confidence: float32[cells], the probability given to the truth.
      probabilities: float32[n, classes]; None where they were not recorded.
      flops: what the answers cost now: 0 where the run had recorded them.
    """

    ids: Sequence[str]
    correct: np.ndarray
    confidence: np.ndarray
    probabilities: np.ndarray | None
    flops: int


class KeptRun:
    """A run directory whose predictors can be used again.

    Args:
      run_dir: directory of a run that launch.run made, finished or not.
      stream: its stream by name or csv; None: by the name that the run has.
      trust: modules outside this project whose learners may be used.

    Raises:
      BadInput: it is no such directory, or has trained nothing yet.
    """

    def __init__(self, run_dir: Path, stream: str | None = None, trust: Sequence[str] = ()):
        self.path, self._trust = run_dir, trust
        self.config = read_config(run_dir)
        self.ledger = Ledger(run_dir)
        if not self.ledger.of_kind(TrainRecord):
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
        self._tasks = {task.task_id: task for task in self.stream.tasks}
        with open(run_dir / "stream.csv", newline="", encoding="utf-8") as file:
            self._recorded = {row["task_id"]: row for row in csv.DictReader(file)}
        self._places: dict[str, dict[str, tuple[str, int]]] = {}

    @functools.cached_property
    def learner(self):
        """The learner, built from the run's config."""
        return load_learner(self.config, self._trust)

    @functools.cached_property
    def predictors(self) -> list[KeptPredictor]:
        """Every predictor with a checkpoint or recorded answers, in the order of training."""
        predictors, recorded = [], {predictor_id for predictor_id, _ in self._answers}
        for record in self.ledger.of_kind(TrainRecord):
            path = self.path / "checkpoints" / record.name
            names = set(Checkpoint(path).names) if path.is_dir() else set()
            predictors += [
                KeptPredictor(
                    trial.predictor_id,
                    self._tasks[record.task_id],
                    trial.trial,
                    trial.step,
                    trial is record.chosen_trial,
                    path if tree_name(trial.trial) in names else None,
                )
                for trial in record.trials
                if tree_name(trial.trial) in names or trial.predictor_id in recorded
            ]
        return predictors

    def splits(self, task: Task) -> Mapping[str, Samples]:
        """Returns the samples of a task by split.

        Raises:
          BadInput: its data are not the run's.
        """
        recorded = self._recorded.get(task.task_id, {}).get("fingerprint")
        if self._fingerprint(task.dataset_id) != recorded:
            raise BadInput(
                f"{self.path}: the data of task {task.task_id!r} in stream {self.stream.name} are"
                " not this run's: they have changed, or the run's stream was a csv, which"
                " --stream=my_stream.csv names."
            )
        return self.stream.splits(task)

    @functools.cached_property
    def _fingerprint(self) -> Callable[[str], str]:
        tasks = {task.dataset_id: task for task in self.stream.tasks}
        return functools.cache(lambda name: self.stream.dataset(tasks[name]).fingerprint())

    def samples(self, task: Task, splits: Sequence[str]) -> list[Samples]:
        """Returns the samples of some splits of a task, one split after the other.

        Raises:
          BadInput: there is no such split.
        """
        have = self.splits(task)
        for split in splits:
            if split not in have:
                raise BadInput(f"data set {task.dataset_id!r}: {unknown('split', split, have)}")
        return [have[split] for split in splits]

    def samples_of(self, task: Task, cells: Sequence[str]) -> list[Samples]:
        """Returns the samples that some cells belong to, each once, by split.

        Raises:
          BadInput: an id is not one of the data set's.
        """
        have = self.splits(task)
        if task.dataset_id not in self._places:
            self._places[task.dataset_id] = {
                sample: (split, i)
                for split, samples in have.items()
                for i, sample in enumerate(samples.ids)
            }
        places = self._places[task.dataset_id]
        wanted = {cell.rpartition("#")[0] if task.kind == MULTI_LABEL else cell for cell in cells}
        if missing := wanted - places.keys():
            some = f"{min(missing)!r} ({len(missing)} of {len(wanted)} are not)"
            raise BadInput(f"data set {task.dataset_id!r} of {self.path}: no sample {some}.")
        rows: dict[str, list[int]] = {split: [] for split in have}
        for split, row in sorted(places[sample] for sample in wanted):
            rows[split].append(row)
        return [have[split].take(np.array(chosen)) for split, chosen in rows.items() if chosen]

    def tree(self, predictor: KeptPredictor) -> Tree:
        """Returns what a predictor is made of, read from its checkpoint.

        Raises:
          DamagedCheckpoint: its file is missing or altered.
        """
        return Checkpoint(predictor.checkpoint).load(tree_name(predictor.trial))

    def answer(
        self,
        predictor: KeptPredictor,
        parts: Sequence[Samples],
        tree: Tree | None = None,
        sparing: bool = False,
    ) -> SplitAnswers:
        """Asks a predictor; on the accelerator where there is one, with the same key as in the run.

        Args:
          predictor: which.
          parts: what it is asked, all in one go.
          tree: its `tree`, where that was read before.
          sparing: few samples are asked at a time: batches are filled up as little as pays.

        Raises:
          DamagedCheckpoint: its file is missing or altered.
          LearnerFault: the answer is not one.
        """
        task, trial, samples = predictor.task, predictor.trial, Samples.joined(parts)
        path = (f"seed {self.config['seed']}", task.task_id, "predict", f"trial {trial}")
        ctx = Context(path=path, phase="predict", trial=trial, sparing=sparing)
        tree = self.tree(predictor) if tree is None else tree
        probabilities = self.learner.predict(tree, samples.images, ctx)
        complaint = outcomes.complaint(probabilities, len(samples), task.kind, task.num_classes)
        if complaint:
            raise LearnerFault(f"{predictor.checkpoint}: predict {complaint}.")
        metric = metrics.for_kind(task.kind)
        probabilities = np.asarray(probabilities, np.float32)
        return SplitAnswers(
            cell_ids(task, samples),
            metric.per_sample(samples.labels, probabilities).reshape(-1),
            metric.confidence(samples.labels, probabilities).reshape(-1),
            probabilities,
            total(ctx.meter.counts()),
        )

    def recorded(self, predictor: KeptPredictor, split: str) -> SplitAnswers | None:
        """Returns what a predictor answered on a split when the run judged it, or None.

        It is read from the run's outcomes; None where that was not recorded, or where its file is
        missing or of other samples.
        """
        if (predictor.predictor_id, split) not in self._answers:
            return None
        task, (_, answer) = predictor.task, self._answers[predictor.predictor_id, split]
        file = self.path / answer.outcomes
        if not file.resolve().is_relative_to((self.path / "outcomes").resolve()):
            return None
        try:
            arrays = read_npz(file, ("sample_id", "correct", "confidence"))
        except BadInput:
            return None
        (samples,) = self.samples(task, [split])
        if arrays["sample_id"].tolist() != list(samples.ids):
            return None
        correct, confidence = (arrays[name].reshape(-1) for name in ("correct", "confidence"))
        return SplitAnswers(cell_ids(task, samples), correct, confidence, None, 0)

    def flops_each(self, predictor: KeptPredictor) -> float | None:
        """Returns the FLOPs of a cell where a whole split is predicted, or None if unrecorded."""
        for (predictor_id, _), (record, answer) in self._answers.items():
            if predictor_id == predictor.predictor_id:
                return total(answer.flops) / record.n / cells_each(predictor.task)
        return None

    @functools.cached_property
    def _answers(self) -> dict[tuple[str, str], tuple[PredictRecord, PredictRecord | AnswerRecord]]:
        """By predictor id and split, the record of the split and that of the answers."""
        return {
            (answer.predictor_id, record.split): (record, answer)
            for record in self.ledger.of_kind(PredictRecord)
            for answer in (record, *record.others)
        }


def kept_model(run: KeptRun, checkpoint: Path, trial: int | None) -> KeptPredictor:
    """Returns the predictor of a checkpoint, RUN/checkpoints/EVENT-TASK, and a trial.

    The trial None is the chosen one.

    Raises:
      BadInput: no such checkpoint or trial; the valid ones are named.
    """
    kept = [(p.checkpoint.name, p) for p in run.predictors if p.checkpoint]
    here = [predictor for name, predictor in kept if name == checkpoint.name]
    if not here:
        raise BadInput(unknown("checkpoint", checkpoint.name, {name for name, _ in kept}))
    matches = [p for p in here if (p.chosen if trial is None else p.trial == trial)]
    if not matches:
        raise BadInput(f"{checkpoint}: {unknown('trial', trial, [p.trial for p in here])}")
    return matches[0]


def cells_each(task: Task) -> int:
    """Returns how many cells a sample has."""
    return task.num_classes if task.kind == MULTI_LABEL else 1


def cell_ids(task: Task, samples: Samples) -> list[str]:
    """Returns the ids of the cells of some samples: the samples' own, or one for each label."""
    if task.kind != MULTI_LABEL:
        return list(samples.ids)
    return [f"{sample}#{label}" for sample in samples.ids for label in range(task.num_classes)]


def sample_facts(task: Task, split: str, samples: Samples) -> list[dict[str, Any]]:
    """Returns what a cache records of each cell's sample: data set, split, and a single class."""
    facts = {"dataset_id": task.dataset_id, "split": split}
    if task.kind == MULTI_LABEL:
        return [facts] * (len(samples) * cells_each(task))
    return [facts | {"class": int(label)} for label in samples.labels]


def provenance(run: KeptRun, predictor: KeptPredictor) -> dict[str, Any]:
    """Returns what a cache records of a predictor besides the cost of an answer: JSON facts."""
    return {
        "run": str(run.path.absolute()),
        "learner": run.ledger.header.learner,
        "seed": run.config["seed"],
        "task": predictor.task.task_id,
        "trial": predictor.trial,
        "step": predictor.step,
        "chosen": predictor.chosen,
    } | ({"checkpoint": str(predictor.checkpoint.absolute())} if predictor.checkpoint else {})
