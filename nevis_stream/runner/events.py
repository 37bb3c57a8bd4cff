"""The loop over a run's events: it asks for the next one, does it and records it. Answers to a
split are checked and scored; train events are in `training`.
"""

import warnings
from collections.abc import Collection

import numpy as np

from nevis_stream.datasets.dataset import Samples
from nevis_stream.datasets.images import to_images
from nevis_stream.datasets.splits import format_overlaps
from nevis_stream.errors import BadInput, DamagedCheckpoint, RunWarning
from nevis_stream.learner import Context, Predictor
from nevis_stream.progress import Progress
from nevis_stream.run_directory import environment, outcomes, scalars
from nevis_stream.run_directory.ledger import History
from nevis_stream.run_directory.records import (
    SCHEMA,
    AnswerRecord,
    EndRecord,
    EventRecord,
    Header,
    PredictRecord,
    RecallRecord,
    TrainRecord,
    TrialRecord,
    make_event_name,
    make_tree_name,
)
from nevis_stream.runner.training import TrainEvents, Work
from nevis_stream.storage import checkpoint, write_file
from nevis_stream.storage.checkpoint import Checkpoint, Tree
from nevis_stream.streams.stream import Stream, replay
from nevis_stream.streams.task import Event, LabelledImages, Task, TaskView
from nevis_stream.vocabulary import POOL, PROTOCOLS


class EventLoop:
    """Does the events of a run that its ledger does not have yet."""

    def __init__(self, work: Work):
        self.work = work
        self.training = TrainEvents(work)

    def run(self) -> None:
        """Does them all, from the header to the end record."""
        work = self.work
        environment.append(
            work.path,
            executor=repr(work.executor),
            devices_a_batch=work.devices,
            code=work.code,
            conventions=work.config.values.get(environment.CONVENTIONS_KEY, {}),
        )
        if not work.ledger.records:
            work.ledger.append(self._initialise())
        self._replay()
        work.scalars.show(work.ledger.records)
        _write_overlaps(work)
        while (event := next_event(work.stream, work.ledger)) is not None:
            self._do(len(work.ledger.events), event)
        work.ledger.append(EndRecord(events=len(work.ledger.events)))

    def _replay(self) -> None:
        """Asks the stream again for the events in the ledger, whose tasks are the learner's past.

        Raises:
          BadInput: its events differ from the ledger's.
        """
        ledger, stream = self.work.ledger, self.work.stream
        for place, record, event in replay(stream, ledger):
            if event is None or event.key != record.key:
                raise BadInput(
                    f"{ledger.path}, line {place + 1}: event {record.event} of the run is"
                    f" {describe_event(record.key)!r}, but stream {stream.name!r} now gives"
                    f" {describe_event(event.key) if event else 'no event'!r}. What `next`"
                    " returns must"
                    " depend on the records alone."
                )
            if isinstance(record, TrainRecord):
                self.training.events[record.event] = event
            self.work.workspace(record.name).remove()  # it may remain after a kill

    def _do(self, number: int, event: Event) -> None:
        work, task = self.work, event.task
        work.progress.event(number, work.ledger.header.events, describe_event(event.key))
        start = scalars.read_clocks()
        if event.split is None:
            self.training.events[number] = event
            record: EventRecord = self.training.record(number)
        else:
            answer = recall if event.after else predict
            record = answer(work, self.training, number, event, event.split)
        work.ledger.append(record)
        work.scalars.show(work.ledger.records)
        work.workspace(record.name).remove()
        self.training.delete_old()
        scalars.append_timing(work.path, number, event.kind, task.task_id, start)
        if isinstance(record, PredictRecord) and record.split != POOL:
            self._warn_of_unknown_cost()
            work.progress.result(_result(task.year, record))

    def _warn_of_unknown_cost(self) -> None:
        """Warns after the first task if nothing was charged."""
        ledger = self.work.ledger
        missing = " and ".join(ledger.uncounted)
        if missing and len(ledger.of_kind(PredictRecord)) == 1:
            warnings.warn(
                f"learner {self.work.name}: nothing was charged to {missing}, so its cost is"
                " unknown, and it has no place on the front. Compile with ctx.jit instead of"
                " jax.jit, or charge with ctx.charge; ctx.charge(0) says that it costs nothing.",
                RunWarning,
                stacklevel=2,
            )

    def _initialise(self) -> Header:
        """Returns the header, after calling `init` or, after a kill, from its checkpoint."""
        work, values = self.work, self.work.config.values
        path = work.checkpoint("init")
        try:
            return Header.from_json(Checkpoint(path).record)
        except (DamagedCheckpoint, ValueError):
            pass
        tasks, events = work.stream.length(values["protocol"])
        work.progress.event(-1, events, "initialise")
        state, flops = self.training.initialise()
        header = Header(
            schema=SCHEMA,
            learner=work.name,
            budget=values.get("budget"),
            stream=values["stream"],
            stream_digest=values["stream_digest"],
            protocol=values["protocol"],
            seed=values["seed"],
            config_hash=work.config.config_hash,
            tasks=tasks,
            events=events,
            rule=work.stream.schedule.rule,
            flops=flops,
        )
        checkpoint.write(path, {"state": state}, header.to_json())
        return header


def _write_overlaps(work: Work) -> None:
    """Writes overlap.csv: how many images of each task earlier tasks train on."""
    file = work.path / "overlap.csv"
    if not file.exists():
        events = work.ledger.header.events
        work.progress.event(-1, events, "compare the images of the tasks")
        write_file(file, format_overlaps(work.stream.overlaps()).encode())


def next_event(stream: Stream, records: History) -> Event | None:
    """Returns the event that a stream gives after these records, checked.

    Raises:
      BadInput: it repeats an event, trains on a task earlier in order than one already trained on,
        or predicts something that the protocol does not.
    """
    event = stream.schedule.next(stream, records)
    if event is not None:
        reason = _refusal(event, records, stream.schedule.probes)
        if reason:
            raise BadInput(f"stream {stream.name!r}: the next event is not valid: {reason}.")
    return event


def _refusal(event: Event, records: History, probes: Collection[str]) -> str:
    """Returns why an event cannot follow these records; empty if it can."""
    if event.key in {record.key for record in records.events}:
        return f"{describe_event(event.key)!r} was already done"
    protocol, task = records.header.protocol, event.task
    trained = records.of_kind(TrainRecord)
    if event.split is None:
        latest = max(trained, key=lambda record: record.order, default=None)
        if latest is not None and task.order <= latest.order:
            return (
                f"task {task.task_id!r} has order {task.order}, but {latest.task_id!r} with order"
                f" {latest.order} was trained on before it; orders must rise"
            )
        if protocol == "meta_train" and task.meta_split != "train":
            return f"task {task.task_id!r} belongs to S_Ts, which protocol {protocol!r} never meets"
        return ""
    if task.task_id not in {record.task_id for record in trained}:
        return f"task {task.task_id!r} is predicted before it is trained on"
    split = PROTOCOLS[protocol].split
    valid = event.split in (split, *probes)
    return "" if valid else f"protocol {protocol!r} predicts the {split} split"


def describe_event(key: tuple[str, str | None, str | None]) -> str:
    """Returns an event's key in words."""
    task_id, split, after = key
    later = f" after {after}" if after else ""
    return f"train on {task_id}" if split is None else f"predict {split} of {task_id}{later}"


def show_results(ledger: History, progress: Progress) -> None:
    """Shows the results of a run again."""
    for record in ledger.of_kind(PredictRecord):
        if record.split != POOL:
            progress.result(_result(ledger.training_of(record).year, record))


def _result(year: int | None, record: PredictRecord) -> str:
    return f"{year} {record.task_id}: {_error(record)}"


def _error(record: PredictRecord) -> str:
    if record.error is None:
        return f"error undefined ({record.reason})"
    return f"error {record.error:.4f} (n = {record.n})"


def predict(
    work: Work, training: TrainEvents, number: int, event: Event, split: str
) -> PredictRecord:
    """Answers one split with every kept predictor and returns the record.

    Args:
      work: the run.
      training: loads the predictors.
      number: of the event in the run.
      event, split: what is predicted.
    """
    task, samples = event.task, work.stream.splits_of(event)[split]
    trained = next(r for r in work.ledger.of_kind(TrainRecord) if r.task_id == task.task_id)
    trials = sorted(trained.trials, key=lambda trial: trial.trial != trained.chosen)
    if work.config.values["keep"] != "all":
        trials = trials[:1]  # the chosen one
    name = f"outcomes/{make_event_name(number, task.task_id)}-{split}"
    answers = []
    for trial in trials:
        file = f"{name}-trial-{trial.trial:03d}.npz"
        answer, probabilities = _answer(work, training, trained, trial, task, samples, file)
        answers.append(answer)
        if trial is trials[0] and split != POOL:
            outcomes.write_mistakes(
                work.thumbnails(task),
                task.task_id,
                split,
                trial.predictor_id,
                samples,
                task.kind,
                probabilities,
                work.stream.dataset(task).class_names,
            )
    return PredictRecord(
        event=number,
        train_event=trained.event,
        order=task.order,
        task_id=task.task_id,
        split=split,
        n=len(samples),
        others=tuple(answers[1:]),
        **vars(answers[0]),
    )


def recall(
    work: Work, training: TrainEvents, number: int, event: Event, split: str
) -> RecallRecord:
    """Asks the model, as it is after the last task, for an earlier one; arguments as of `predict`.

    What it gets of that task are facts and test images.
    """
    task, after = event.task, work.ledger.of_kind(TrainRecord)[-1]
    samples = work.stream.splits_of(event)[split]
    single_head = work.stream.single_head
    classes = after.num_classes if single_head else task.num_classes
    ctx = work.context(task.task_id, f"after {after.task_id}", phase="predict")
    nothing = LabelledImages(to_images([]), samples.labels[:0])
    facts = task.task_id, task.year, task.kind, task.domain, classes, nothing, nothing, single_head
    state = training.load(after.event, "state")
    predictor = work.call("predictor_for", task, TaskView(*facts), state, ctx)
    if not isinstance(predictor, Predictor):
        kind = type(predictor).__name__
        raise work.fault(task, f"predictor_for must return a Predictor; it returned {kind}")
    tree = checkpoint.to_host(predictor.tree, copy=True)
    probabilities = _ask(work, task, tree, samples, classes, ctx)
    return RecallRecord(
        event=number,
        train_event=after.event,
        after=after.task_id,
        order=task.order,
        task_id=task.task_id,
        split=split,
        n=len(samples),
        flops=ctx.meter.counts(),
        **outcomes.score(samples, task.kind, probabilities),
    )


def _ask(
    work: Work, task: Task, tree: Tree, samples: Samples, classes: int, ctx: Context
) -> np.ndarray:
    """Returns what a predictor answers to samples, checked: float32[n, classes]."""
    answered = work.call("predict", task, tree, samples.images, ctx)
    complaint = outcomes.find_fault(answered, len(samples), task.kind, classes)
    if complaint:
        raise work.fault(task, f"predict {complaint}")
    return np.asarray(answered, np.float32)


def _answer(
    work: Work,
    training: TrainEvents,
    trained: TrainRecord,
    trial: TrialRecord,
    task: Task,
    samples: Samples,
    file: str,
) -> tuple[AnswerRecord, np.ndarray]:
    """Asks one predictor and writes its outcomes; returns its record and float32[n, classes]."""
    ctx = work.context(
        task.task_id, "predict", f"trial {trial.trial}", phase="predict", trial=trial.trial
    )
    tree = training.load(trained.event, make_tree_name(trial.trial))
    probabilities = _ask(work, task, tree, samples, task.num_classes, ctx)
    scores = outcomes.write(work.path / file, samples, task.kind, probabilities)
    record = AnswerRecord(
        trial=trial.trial,
        predictor_id=trial.predictor_id,
        outcomes=file,
        flops=ctx.meter.counts(),
        **scores,
    )
    return record, probabilities
