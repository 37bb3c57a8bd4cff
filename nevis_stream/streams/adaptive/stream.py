"""The schedule of an adaptive stream: a task's training set is drawn from where the learner
was wrong so far.

Each data set of the pool is trained on in several rounds. The first training set of a data set is
drawn at random from its candidates, a part of its train split; after each round but the last the
learner also predicts all candidates (split "pool"), and a rule says from which of them the next
round adds samples. dev, dev_test and test are those of the data set, so errors are on the untouched
target distribution. The last round is judged.

Training sets follow the design (`designs`): on a path, round t trains on the first set and all that
was collected at the errors of models 0 … t - 1. In a hierarchy of depth 2 and width w, each block
of w rounds is such a path; it starts from the first set and what was collected at the errors of
the votes of the blocks before.

No round draws a sample again that an earlier one drew, so the labels are equal for all rules.
"""

from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from nevis_stream import user_code
from nevis_stream.datasets.dataset import Samples
from nevis_stream.errors import BadInput
from nevis_stream.run_directory.ledger import History
from nevis_stream.run_directory.records import PredictRecord
from nevis_stream.seeds import generator
from nevis_stream.streams.adaptive import rules
from nevis_stream.streams.adaptive.rules import KnownMisses, PoolState, draw
from nevis_stream.streams.adaptive.specification import (
    Specification,
    list_pool_rows,
    read_specification,
)
from nevis_stream.streams.stream import Schedule, Stream, build_stream
from nevis_stream.streams.task import Draw, Event, Task
from nevis_stream.vocabulary import POOL

Source = tuple[int, ...]
"""The rounds on whose errors something is collected: one model's, or those of a vote's members."""


def list_sources(specification: Specification, number: int) -> list[Source]:
    """Returns whose errors the training set of a round was collected at, in order (section 4).

    Args:
      specification: its design and width.
      number: of the round, from 0.

    >>> list_sources(Specification("mnist", design="hierarchical", width=2), 3)
    [(0, 1), (2,)]
    """
    if specification.design == "path":
        return [(earlier,) for earlier in range(number)]
    width = specification.width
    begin = number - number % width
    votes = [tuple(range(start, start + width)) for start in range(0, begin, width)]
    return [*votes, *((earlier,) for earlier in range(begin, number))]


class _Run:
    """What one run has drawn so far.

    Attributes:
      candidates: of each data set, by its id; fixed for the run.
      collected: int64 indices of candidates, by data set and source; the first set's source is ().
      draws: of each task, by its id.
    """

    def __init__(self, history: History):
        self.directory, self.seed = history.run_dir, history.header.seed
        self.candidates: dict[str, Samples] = {}
        self.collected: dict[tuple[str, Source], np.ndarray] = {}
        self.draws: dict[str, Draw] = {}


class AdaptiveSchedule(Schedule):
    """Draws the training set of each task from where the learner was wrong so far.

    Args:
      specification: of the stream, each of whose tasks is a data set of the pool.
      dataset_ids: of the pool.

    Raises:
      BadInput: an unknown rule, or one that needs caches and has none, or has some and needs none.
    """

    probes = (POOL,)
    protocols = ("meta_test",)  # another would judge every round

    def __init__(self, specification: Specification, dataset_ids: Sequence[str]):
        self.specification = specification
        self._rule = rules.get(specification.rule)
        identity = rules.identify(specification.rule)
        cache = specification.cache
        if getattr(self._rule, "needs_cache", False) != bool(cache):
            reason = "needs no cache" if cache else "needs a folder of caches: cache=FOLDER"
            raise BadInput(f"stream {specification.name!r}: rule {specification.rule!r} {reason}.")
        self._known_misses = KnownMisses(Path(cache), dataset_ids) if cache else None
        if self._known_misses:  # a cache that has grown makes another stream
            identity += f" (caches {self._known_misses.digest})"
        self.rule = replace(specification, rule=identity).rule_text
        self._run: _Run | None = None

    def next(self, stream: Stream, history: History) -> Event | None:
        """Returns the next event; before a training it draws the training set."""
        run = self._of(stream, history)
        number, row, stage = self._place(stream, len(history.events))
        if number == self.specification.rounds:
            return None
        task = self._task(stream, number, row)
        if task.task_id not in run.draws:
            if row == 0:
                self._collect(run, history, number)
            run.draws[task.task_id] = self._draw(run, number, task.dataset_id)
        return Event(task, None if stage == "train" else stage, run.draws[task.task_id])

    def _of(self, stream: Stream, history: History) -> _Run:
        """Returns what this run has drawn; another run, or one that begins again, draws anew."""
        run, own = self._run, (history.run_dir, history.header.seed)
        if run is None or (run.directory, run.seed) != own or not history.events:
            self._run = run = _Run(history)
            for row in stream.tasks:
                run.candidates[row.dataset_id] = self._candidates(stream, run.seed, row)
                self._missed(run, row.dataset_id)  # an error before anything is trained
        return run

    def _place(self, stream: Stream, done: int) -> tuple[int, int, str]:
        """Returns round, index of the data set and stage of the event after `done` events."""
        stages: tuple[str, ...] = ("train", POOL, "test")
        whole = len(stream.tasks) * len(stages)
        last = self.specification.rounds - 1
        number = min(done // whole, last)
        if number == last:
            stages = ("train", "test")
        row, stage = divmod(done - number * whole, len(stages))
        return (last + 1, 0, "") if row == len(stream.tasks) else (number, row, stages[stage])

    def _task(self, stream: Stream, number: int, row: int) -> Task:
        base = stream.tasks[row]
        return replace(
            base,
            order=number * len(stream.tasks) + row + 1,
            task_id=f"{base.dataset_id}.round{number + 1}",
            meta_split="test" if number == self.specification.rounds - 1 else "train",
        )

    def _candidates(self, stream: Stream, seed: int, row: Task) -> Samples:
        """Returns a data set's candidates, in random order; the first `samples` begin round 0."""
        train = stream.splits(row)["train"]
        owner = f"data set {row.dataset_id!r}"
        self.specification.check_room(owner, len(train), "training images")
        order = generator(seed, "candidates", row.dataset_id).permutation(len(train))
        return train.take(order[: self.specification.candidates])

    def _collect(self, run: _Run, history: History, number: int) -> None:
        """Draws what a round adds to the training set of every data set."""
        own, samples = self.specification, self.specification.samples
        if number == 0:
            for name in run.candidates:
                run.collected[name, ()] = np.arange(samples)
            return
        names = list(run.candidates)
        for group in [names] if own.across else [[name] for name in names]:
            known = [self._known(run, history, name, number) for name in group]
            title = f"stream {own.name!r}, rule {own.rule!r}, round {number + 1}"
            title += "" if own.across else f", data set {group[0]!r}"
            draws = generator(run.seed, "collect", number, *group)
            chosen = draw(title, self._rule, _join(known), samples * len(group), draws)
            begin, source = 0, list_sources(own, number)[-1]
            for name, candidates in zip(group, known, strict=True):
                end = begin + len(candidates)
                inside = chosen[(chosen >= begin) & (chosen < end)]
                run.collected[name, source], begin = inside - begin, end

    def _known(self, run: _Run, history: History, name: str, number: int) -> PoolState:
        """Returns what the rule may know of a data set's candidates before a round."""
        answers = [_answers(history, f"{name}.round{earlier + 1}") for earlier in range(number)]
        chain = list_sources(self.specification, number)
        members = [np.stack([answers[i] for i in source]) for source in chain]
        candidates = run.candidates[name]
        collected = np.zeros(len(candidates), bool)
        for (dataset, _), indices in run.collected.items():
            if dataset == name:
                collected[indices] = True
        sees = self._rule.sees_labels
        wrong = [each[0, 0] if len(each) == 1 else _vote(each[:, 0]) for each in members]
        return PoolState(
            ids=np.asarray(candidates.ids),
            dataset_ids=np.full(len(candidates), name),
            wrong=np.stack(wrong).astype(np.float32) if sees else None,
            confidence=np.stack([each[:, 1].mean(axis=0) for each in members]) if sees else None,
            collected=collected,
            missed=self._missed(run, name),
        )

    def _missed(self, run: _Run, name: str) -> np.ndarray | None:
        """Returns the share of known models that miss each candidate of a data set."""
        misses = self._known_misses
        return misses.of(name, run.candidates[name].ids) if misses else None

    def _draw(self, run: _Run, number: int, name: str) -> Draw:
        """Returns what a round trains a data set's model on, and how many labels it used so far."""
        parts = [(), *list_sources(self.specification, number)]
        indices = np.unique(np.concatenate([run.collected[name, source] for source in parts]))
        candidates = run.candidates[name]
        return Draw({"train": candidates.take(indices), POOL: candidates}, *self._count_labels(run))

    def _count_labels(self, run: _Run) -> tuple[int, int]:
        """Returns the labels used so far: of samples in training sets, none of which is drawn
        twice; and with those that the rule looked at. Labels of dev splits, which no rule draws,
        are not among them."""
        used = sum(map(len, run.collected.values()))
        looked = self._rule.sees_labels and any(source for _, source in run.collected)
        return used, sum(map(len, run.candidates.values())) if looked else used


def _vote(wrong: np.ndarray) -> np.ndarray:
    """Returns where half or more of the members are wrong, bool[n], of bool[members, n]."""
    return wrong.mean(axis=0) >= 0.5 * (1 - 1e-12)  # a mean may be rounded


def _answers(records: History, task_id: str) -> np.ndarray:
    """Returns float64[2, n] of a model on the candidates: share of wrong answers, confidence."""
    predicted = next(
        record
        for record in records.of_kind(PredictRecord)
        if record.task_id == task_id and record.split == POOL
    )
    arrays = records.outcomes(predicted)
    correct, confidence = arrays["correct"], arrays["confidence"]
    if correct.ndim == 2:  # multi-label
        correct, confidence = correct.mean(axis=1), confidence.mean(axis=1)
    return np.stack([1.0 - correct, confidence.astype(np.float64)])


def _join(parts: Sequence[PoolState]) -> PoolState:
    """Returns the candidates of several data sets as one."""
    if len(parts) == 1:
        return parts[0]
    names = [each.name for each in fields(PoolState) if getattr(parts[0], each.name) is not None]
    joined = {
        name: np.concatenate([getattr(part, name) for part in parts], axis=-1) for name in names
    }
    unknown: dict[str, Any] = {"wrong": None, "confidence": None}
    return PoolState(**unknown | joined)


def load_adaptive(name: str, trust: Sequence[str] | None = None) -> Stream:
    """Returns the stream of a name, "adaptive:POOL,…".

    Args:
      name: of the stream.
      trust: as of `load_stream`.

    Raises:
      BadInput: an invalid name, an unknown data set or rule, or data that are not on this machine.
      Untrusted: its rule is code that is not trusted.
    """
    specification = read_specification(name)
    if ":" in specification.rule:
        user_code.check_trusted(specification.rule, trust, "rule")
        if trust is None:
            own = user_code.resolve_written_name(specification.rule)
            specification = replace(specification, rule=own)
    rules.get(specification.rule)
    origin, rows = list_pool_rows(specification)
    base = build_stream(specification.pool, origin, rows, chronological=False)
    tasks = [
        replace(task, order=place, task_id=task.dataset_id, meta_split="test")
        for place, task in enumerate(base.tasks, start=1)
    ]
    schedule = AdaptiveSchedule(specification, [task.dataset_id for task in tasks])
    return base.with_schedule(schedule, specification.name, tasks)
