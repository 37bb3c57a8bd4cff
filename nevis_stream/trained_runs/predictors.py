"""The predictors that a run kept, loaded from its checkpoints."""

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from nevis_stream import metrics, user_code
from nevis_stream.cost.meter import total
from nevis_stream.datasets.dataset import MULTI_LABEL, Samples
from nevis_stream.errors import BadInput, LearnerFault, NevisStreamError, unknown
from nevis_stream.evaluation_cache.entries import CHECKPOINT
from nevis_stream.evaluation_cache.facts import RUN, name_run
from nevis_stream.learner import Context, Learner, call
from nevis_stream.run_directory import outcomes
from nevis_stream.run_directory.config import read_values
from nevis_stream.run_directory.ledger import Ledger
from nevis_stream.run_directory.records import (
    AnswerRecord,
    PredictRecord,
    TrainRecord,
    check_outcomes,
    make_tree_name,
)
from nevis_stream.storage.checkpoint import Checkpoint, Tree, to_host
from nevis_stream.storage.reading import make_relative, read_npz, resolve_path
from nevis_stream.storage.tables import read_table
from nevis_stream.streams.named_streams import load_stream
from nevis_stream.streams.stream import Stream, replay
from nevis_stream.streams.task import Event, Task

# what a learner may raise if it is given another learner's arrays
_MISFITS = (IndexError, KeyError, TypeError, ValueError)


@dataclass(frozen=True)
class KeptPredictor:
    """One predictor of a run.

    Attributes:
      predictor_id: 16 hex digits; see docs/run-directory.md.
      task: the task that it was trained on.
      trial: number of its trial.
      step: step of the training from which its parameters are.
      chosen: whether it has the lowest dev error of its task.
      checkpoint: the directory that contains it; None if only its answers were recorded.
    """

    predictor_id: str
    task: Task
    trial: int
    step: int
    chosen: bool
    checkpoint: Path | None


@dataclass(frozen=True)
class SplitAnswers:
    """A predictor's answers on n samples.

    A cell is a sample, or in a multi-label task a (sample, label) pair with the id `SAMPLE#LABEL`.

    Attributes:
      ids: ids of the cells.
      correct: uint8[cells].
      confidence: float32[cells], the probability of the true answer.
      probabilities: float32[n, classes]; None if they were not recorded.
      flops: FLOPs of computing the answers now; 0 if the run had recorded them.
    """

    ids: Sequence[str]
    correct: np.ndarray
    confidence: np.ndarray
    probabilities: np.ndarray | None
    flops: int


class KeptRun:
    """A run directory whose predictors can be used again.

    Args:
      run_dir: directory of a run of launch.run, finished or not.
      load_learner: builds the learner, given the config's values and `trust`; called when a
        predictor computes.
      stream: name or csv of its stream; None uses the name that the run recorded.
      trust: modules outside this project whose learners and rules may be imported.

    Raises:
      BadInput: it is not such a directory, or no task has been trained yet.
    """

    def __init__(
        self,
        run_dir: Path,
        load_learner: Callable[[Mapping[str, Any], Sequence[str]], Learner],
        stream: str | None = None,
        trust: Sequence[str] = (),
    ):
        self.path, self._load_learner, self._trust = run_dir, load_learner, trust
        self.config = read_values(run_dir)
        self.ledger = Ledger(run_dir)
        if not self.ledger.of_kind(TrainRecord):
            raise BadInput(
                f"{run_dir}: this run has no predictor yet, since it has not finished a task."
            )
        try:
            self.stream: Stream = load_stream(
                stream or self.config["stream"], None if stream else trust
            )
        except user_code.Untrusted as error:
            raise user_code.Untrusted(f"{run_dir}: {error}") from None
        except BadInput as error:
            raise BadInput(
                f"{run_dir}: {error} If the run's stream was a csv, give its path with"
                " --stream=my_stream.csv."
            ) from None
        events: Iterable[Event | None] = map(Event, self.stream.tasks)
        if self.stream.schedule.rule is not None:
            events = [event for _, _, event in replay(self.stream, self.ledger)]
        self._events = {event.task.task_id: event for event in events if event}
        for record in self.ledger.of_kind(TrainRecord):
            if record.task_id not in self._events:
                problem = unknown("task", record.task_id, self._events)
                raise BadInput(f"{self.ledger.path}: its stream has {problem}")
        table = read_table(run_dir / "stream.csv", f"{run_dir}/stream.csv", {"dataset_id": ""})
        self._recorded = {row["dataset_id"]: row for _, row in table.records()}
        self._places: dict[str, dict[str, tuple[str, int]]] = {}

    @functools.cached_property
    def learner(self):
        """The learner, built from the run's config."""
        return self._load_learner(self.config, self._trust)

    @functools.cached_property
    def predictors(self) -> list[KeptPredictor]:
        """All predictors with a checkpoint or recorded answers, in the order of training."""
        predictors, recorded = [], {predictor_id for predictor_id, _ in self._answers}
        for record in self.ledger.of_kind(TrainRecord):
            path = self.path / "checkpoints" / record.name
            names = set(Checkpoint(path).names) if path.is_dir() else set()
            predictors += [
                KeptPredictor(
                    trial.predictor_id,
                    self._events[record.task_id].task,
                    trial.trial,
                    trial.step,
                    trial is record.chosen_trial,
                    path if make_tree_name(trial.trial) in names else None,
                )
                for trial in record.trials
                if make_tree_name(trial.trial) in names or trial.predictor_id in recorded
            ]
        return predictors

    def splits(self, task: Task) -> Mapping[str, Samples]:
        """Returns the samples of a task by split.

        Raises:
          BadInput: the data have changed since the run.
        """
        recorded = self._recorded.get(task.dataset_id, {}).get("fingerprint")
        if self.fingerprint(task.dataset_id) != recorded:
            raise BadInput(
                f"{self.path}: the data of task {task.task_id!r} in stream {self.stream.name} are"
                " not those of the run. Either they have changed, or the run's stream was a csv,"
                " whose path is missing: --stream=my_stream.csv."
            )
        return self.stream.splits_of(self._events[task.task_id])

    @functools.cached_property
    def fingerprint(self) -> Callable[[str], str]:
        """Returns what identifies the data of a dataset_id of its stream."""
        tasks = {task.dataset_id: task for task in self.stream.tasks}
        return functools.cache(lambda name: self.stream.dataset(tasks[name]).fingerprint())

    def samples(self, task: Task, splits: Sequence[str]) -> list[Samples]:
        """Returns the samples of some splits of a task, one split after the other.

        Raises:
          BadInput: there is no such split.
        """
        samples = self.splits(task)
        for split in splits:
            if split not in samples:
                raise BadInput(f"data set {task.dataset_id!r}: {unknown('split', split, samples)}")
        return [samples[split] for split in splits]

    def samples_of(self, task: Task, cells: Sequence[str]) -> list[Samples]:
        """Returns the samples of some cells, each once, grouped by split.

        Raises:
          BadInput: the data set has no sample of this id.
        """
        splits = self.splits(task)
        if task.dataset_id not in self._places:
            self._places[task.dataset_id] = {
                sample: (split, i)
                for split, samples in splits.items()
                for i, sample in enumerate(samples.ids)
            }
        places = self._places[task.dataset_id]
        wanted = {sample_id(task, cell) for cell in cells}
        if missing := wanted - places.keys():
            raise BadInput(
                f"data set {task.dataset_id!r} of {self.path}: {len(missing)} of {len(wanted)}"
                f" samples are unknown, for example {min(missing)!r}."
            )
        rows: dict[str, list[int]] = {split: [] for split in splits}
        for split, row in sorted(places[sample] for sample in wanted):
            rows[split].append(row)
        return [splits[split].take(np.array(chosen)) for split, chosen in rows.items() if chosen]

    def tree(self, predictor: KeptPredictor) -> Tree:
        """Returns a predictor's tree of arrays, read from its checkpoint.

        Raises:
          DamagedCheckpoint: its file is missing or altered.
        """
        return Checkpoint(predictor.checkpoint).load(make_tree_name(predictor.trial))

    def answer(
        self,
        predictor: KeptPredictor,
        parts: Sequence[Samples],
        tree: Tree | None = None,
        small_batches: bool = False,
    ) -> SplitAnswers:
        """Computes a predictor's answers, with the same random key as in the run.

        Args:
          predictor: the predictor.
          parts: the samples, which are answered in a single call.
          tree: the predictor's `tree`, if it was read before.
          small_batches: whether the last batch is padded to a power of two instead of to a full
            batch.

        Raises:
          DamagedCheckpoint: its file is missing or altered.
          LearnerFault: the learner's answer is not valid.
        """
        task, trial, samples = predictor.task, predictor.trial, Samples.join(parts)
        path = (f"seed {self.config['seed']}", task.task_id, "predict", f"trial {trial}")
        ctx = Context(path=path, phase="predict", trial=trial, small_batches=small_batches)
        tree = self.tree(predictor) if tree is None else to_host(tree, copy=True)
        try:
            probabilities = call(
                str(predictor.checkpoint), self.learner, "predict", tree, samples.images, ctx
            )
        except _MISFITS as error:
            if isinstance(error, NevisStreamError):
                raise
            raise LearnerFault(
                f"{predictor.checkpoint}: predict ends with {type(error).__name__}: {error}. Are"
                " its arrays those of this learner, and its config that of the run?"
            ) from error
        complaint = outcomes.find_fault(probabilities, len(samples), task.kind, task.num_classes)
        if complaint:
            raise LearnerFault(f"{predictor.checkpoint}: predict {complaint}.")
        metric = metrics.find_metric(task.kind)
        probabilities = np.asarray(probabilities, np.float32)
        return SplitAnswers(
            list_cell_ids(task, samples),
            metric.per_sample(samples.labels, probabilities).reshape(-1),
            metric.confidence(samples.labels, probabilities).reshape(-1),
            probabilities,
            total(ctx.meter.counts()),
        )

    def features(self, predictor: KeptPredictor, samples: Samples) -> tuple[np.ndarray, int]:
        """Computes features of images, which may be those of any data set.

        Returns: float32[n, d], the output of the predictor's backbone, and its FLOPs.

        Raises:
          BadInput: the learner has no backbone.
          DamagedCheckpoint: the predictor's file is missing or altered.
        """
        if not hasattr(self.learner, "features"):
            raise BadInput(
                f"{predictor.checkpoint}: the learner {self.ledger.header.learner} has no backbone"
                " whose output could describe images (no method `features`)."
            )
        ctx = Context(path=("features",), phase="predict", trial=predictor.trial)
        features = call(
            *(str(predictor.checkpoint), self.learner, "features"),
            *(self.tree(predictor), samples.images, ctx),
        )
        return features, total(ctx.meter.counts())

    def has_recorded(self, predictor: KeptPredictor, split: str) -> bool:
        """Returns whether the ledger names recorded answers on a split."""
        return (predictor.predictor_id, split) in self._answers

    def recorded(self, predictor: KeptPredictor, split: str) -> SplitAnswers | None:
        """Returns the answers on a split that the run recorded.

        None if it recorded none, or their file is missing, cannot be read or is of other samples.

        Raises:
          BadInput: they contradict the error in the ledger.
        """
        if not self.has_recorded(predictor, split):
            return None
        task, (record, answer) = predictor.task, self._answers[predictor.predictor_id, split]
        file = self.path / answer.outcomes
        if not resolve_path(file).is_relative_to(resolve_path(self.path / "outcomes")):
            return None
        try:
            arrays = read_npz(file, ("sample_id", "correct", "confidence"))
        except BadInput:
            return None
        (samples,) = self.samples(task, [split])
        if len(arrays) < 3 or arrays["sample_id"].tolist() != list(samples.ids):
            return None
        check_outcomes(file, arrays, record, answer)
        correct, confidence = (arrays[name].reshape(-1) for name in ("correct", "confidence"))
        return SplitAnswers(list_cell_ids(task, samples), correct, confidence, None, 0)

    def flops_each(self, predictor: KeptPredictor) -> float | None:
        """Returns the FLOPs per cell of predicting a whole split; None if they are not recorded."""
        for (predictor_id, _), (record, answer) in self._answers.items():
            if predictor_id == predictor.predictor_id:
                return total(answer.flops) / record.n / count_cells(predictor.task)
        return None

    @functools.cached_property
    def _answers(self) -> dict[tuple[str, str], tuple[PredictRecord, AnswerRecord]]:
        """The records of a split and of the answers, by predictor id and split."""
        return {
            (answer.predictor_id, record.split): (record, answer)
            for record in self.ledger.of_kind(PredictRecord)
            for answer in record.answers
        }


def find_predictor(run: KeptRun, checkpoint: Path, trial: int | None) -> KeptPredictor:
    """Returns the predictor of a trial in a checkpoint, RUN/checkpoints/EVENT-TASK.

    The trial None is the chosen one.

    Raises:
      BadInput: no such checkpoint or trial; the message lists the valid ones.
    """
    names = {p.checkpoint.name for p in run.predictors if p.checkpoint}
    if checkpoint.name not in names:
        raise BadInput(unknown("checkpoint", checkpoint.name, names))
    predictors = [
        p for p in run.predictors if p.checkpoint and p.checkpoint.name == checkpoint.name
    ]
    matches = [p for p in predictors if (p.chosen if trial is None else p.trial == trial)]
    if not matches:
        raise BadInput(f"{checkpoint}: {unknown('trial', trial, [p.trial for p in predictors])}")
    return matches[0]


def count_cells(task: Task) -> int:
    """Returns the number of cells of a sample."""
    return task.num_classes if task.kind == MULTI_LABEL else 1


def list_cell_ids(task: Task, samples: Samples) -> list[str]:
    """Returns the ids of the cells of some samples."""
    if task.kind != MULTI_LABEL:
        return list(samples.ids)
    return [f"{sample}#{label}" for sample in samples.ids for label in range(task.num_classes)]


def sample_id(task: Task, cell: str) -> str:
    """Returns the id of a cell's sample."""
    return cell.rpartition("#")[0] if task.kind == MULTI_LABEL else cell


def sample_facts(task: Task, split: str, samples: Samples) -> list[dict[str, Any]]:
    """Returns the facts of each cell's sample in a cache: data set, split, and a single class."""
    facts = {"dataset_id": task.dataset_id, "split": split}
    if task.kind == MULTI_LABEL:
        return [facts] * (len(samples) * count_cells(task))
    return [facts | {"class": int(label)} for label in samples.labels]


def describe_predictor(run: KeptRun, predictor: KeptPredictor, cache: Path) -> dict[str, Any]:
    """Returns the facts of a predictor in a cache, without the cost of an answer, as JSON; `cache`
    is its directory.
    """
    checkpoint = predictor.checkpoint
    return {
        RUN: name_run(str(run.path.absolute())),
        "learner": run.ledger.header.learner,
        "seed": run.config["seed"],
        "task": predictor.task.task_id,
        "trial": predictor.trial,
        "step": predictor.step,
        "chosen": predictor.chosen,
    } | ({CHECKPOINT: make_relative(checkpoint, cache)} if checkpoint else {})
