"""The loop over a run's events: which is next, and what is written once it is done."""

from nevis_stream.errors import BadInput, DamagedCheckpoint
from nevis_stream.run_directory import checkpoint, timing
from nevis_stream.run_directory.checkpoint import Checkpoint
from nevis_stream.run_directory.environment import append_environment
from nevis_stream.run_directory.ledger import History
from nevis_stream.run_directory.records import (
    SCHEMA,
    EndRecord,
    EventRecord,
    Header,
    PredictRecord,
    TrainRecord,
    parse,
)
from nevis_stream.runner.copies import write_overlaps
from nevis_stream.runner.predicting import predict
from nevis_stream.runner.training import Training
from nevis_stream.runner.work import Work
from nevis_stream.streams.stream import Stream
from nevis_stream.streams.task import Event
from nevis_stream.vocabulary import PROTOCOLS


class EventLoop:
    """Does the events of a run that its ledger does not have yet."""

    def __init__(self, work: Work):
        self.work = work
        self.training = Training(work)

    def run(self) -> None:
        """Does them all, from the header to the end record."""
        work = self.work
        append_environment(
            work.path / "environment.jsonl",
            executor=repr(work.executor),
            devices_a_batch=work.devices,
        )
        if not work.ledger.records:
            work.ledger.append(self._initialise())
        self._replay()
        work.scalars.show(work.ledger.records)
        write_overlaps(work)
        while (event := next_event(work.stream, work.ledger)) is not None:
            self._do(len(work.ledger.events), event)
        work.ledger.append(EndRecord(events=len(work.ledger.events)))

    def _replay(self) -> None:
        """Asks the stream again for the events of the ledger: their tasks are needed as the past.

        Raises:
          BadInput: its events differ from the ledger's.
        """
        ledger, stream = self.work.ledger, self.work.stream
        for line, record in enumerate(ledger.records, start=1):
            if not isinstance(record, EventRecord):
                continue
            event = next_event(stream, History(ledger.run_dir, ledger.records[: line - 1]))
            if event is None or event.key != record.key:
                raise BadInput(
                    f"{ledger.path}, line {line}: the run has event {record.event},"
                    f" {describe(record.key)}; now stream {stream.name!r} gives"
                    f" {describe(event.key) if event else 'no event'} there. What `next` returns"
                    " must depend on the records alone."
                )
            if event.kind == TrainRecord.kind:
                self.training.tasks[record.event] = event.task
            self.work.workspace(record.name).remove()  # a kill may have come just before that

    def _do(self, number: int, event: Event) -> None:
        work, task = self.work, event.task
        work.progress.event(number, work.ledger.header.events, describe(event.key))
        start = timing.clocks()
        if event.kind == TrainRecord.kind:
            self.training.tasks[number] = task
            record: EventRecord = self.training.record(number)
        else:
            record = predict(work, self.training, number, event)
        work.ledger.append(record)
        work.scalars.show(work.ledger.records)
        work.workspace(record.name).remove()
        self.training.delete_old()
        timing.append(work.path, number, event.kind, task.task_id, start)
        if isinstance(record, PredictRecord):
            work.progress.result(f"{task.year} {task.task_id}: {_error(record)}")

    def _initialise(self) -> Header:
        """Returns the header: of a checkpoint from before a kill, or after calling `init`."""
        work, values = self.work, self.work.config.values
        path = work.checkpoint("init")
        try:
            return parse(Checkpoint(path).record)
        except DamagedCheckpoint:
            pass
        events = work.stream.length(values["protocol"])
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
            tasks=None if events is None else events // 2,
            events=events,
            rule=work.stream.rule,
            flops=flops,
        )
        checkpoint.write(path, {"state": state}, header.to_json())
        return header


def next_event(stream: Stream, records: History) -> Event | None:
    """Returns the event that a stream gives after some records, checked.

    Raises:
      BadInput: it repeats an event, goes back, or predicts what the protocol does not.
    """
    event = stream.next(records)
    if event is not None:
        reason = _refusal(event, records)
        if reason:
            raise BadInput(f"stream {stream.name!r}: the next event is not valid: {reason}.")
    return event


def _refusal(event: Event, records: History) -> str:
    """Returns why an event cannot follow some records; empty where it can."""
    if event.key in {record.key for record in records.events}:
        return f"{describe(event.key)} was done before"
    protocol, task = records.header.protocol, event.task
    trained = records.of_kind(TrainRecord)
    if event.kind == TrainRecord.kind:
        latest = max(trained, key=lambda record: record.order, default=None)
        if latest is not None and task.order <= latest.order:
            return (
                f"task {task.task_id!r} has order {task.order}, but {latest.task_id!r} with order"
                f" {latest.order} was trained on before; orders must rise"
            )
        if protocol == "meta_train" and task.meta_split != "train":
            return f"task {task.task_id!r} belongs to S_Ts, which protocol {protocol!r} never meets"
        return ""
    if task.task_id not in {record.task_id for record in trained}:
        return f"task {task.task_id!r} is predicted before it is trained on"
    split = PROTOCOLS[protocol].split
    return "" if event.split == split else f"protocol {protocol!r} predicts the {split} split"


def describe(key: tuple[str, str | None]) -> str:
    """Returns an event's key in words."""
    task_id, split = key
    return f"train on {task_id}" if split is None else f"predict {split} of {task_id}"


def _error(record: PredictRecord) -> str:
    if record.error is None:
        return f"error undefined ({record.reason})"
    return f"error {record.error:.4f} (n = {record.n})"
