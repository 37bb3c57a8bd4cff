"""The loop over a run's events: which is next, and what is written once it is done."""

from nevis_stream.errors import BadInput, DamagedCheckpoint
from nevis_stream.run_directory import checkpoint, timing
from nevis_stream.run_directory.checkpoint import Checkpoint
from nevis_stream.run_directory.environment import append_environment
from nevis_stream.run_directory.ledger import History
from nevis_stream.run_directory.records import (
    SCHEMA,
    EndRecord,
    Header,
    PredictRecord,
    TrainRecord,
    parse,
)
from nevis_stream.runner.copies import write_overlaps
from nevis_stream.runner.predicting import predict
from nevis_stream.runner.training import Training
from nevis_stream.runner.work import RunEvent, Work, last_kept
from nevis_stream.streams.stream import Stream
from nevis_stream.streams.task import Event
from nevis_stream.vocabulary import PROTOCOLS


class EventLoop:
    """Does the events of a run that its ledger does not have yet."""

    def __init__(self, work: Work):
        self.work = work
        self.training = Training(work, last_kept(work.config.values["keep"]))

    def run(self) -> None:
        """Does them all, from the header to the end record."""
        work, options = self.work, self.work.options
        append_environment(
            work.path / "environment.jsonl",
            executor=repr(options.executor),
            devices_a_batch=options.devices,
        )
        if not work.ledger.records:
            work.ledger.append(self._initialise())
        self._take_up()
        work.scalars.show(work.ledger.records)
        write_overlaps(work)
        while (event := next_event(work.stream, work.ledger[:])) is not None:
            self._do(len(work.ledger.events), event)
        work.ledger.append(EndRecord(events=len(work.ledger.events)))

    def _take_up(self) -> None:
        """Asks the stream again for the events of the ledger: their tasks are needed as the past.

        Raises:
          BadInput: it gives other events than the ledger has.
        """
        ledger = self.work.ledger
        for place, record in enumerate(ledger.records):
            if record.kind not in (TrainRecord.kind, PredictRecord.kind):
                continue
            event = next_event(self.work.stream, ledger[:place])
            if event is None or event.key != record.key:
                raise BadInput(
                    f"{ledger.path}, line {place + 1}: the run has event {record.event},"
                    f" {describe(record.key)}; now stream {self.work.stream.name!r} gives"
                    f" {describe(event.key) if event else 'no event'} there. What `next` returns"
                    " must depend on the records alone."
                )
            if event.kind == TrainRecord.kind:
                self.training.add(RunEvent(record.event, event.task))
            self.work.workspace(record.name).remove()  # a kill may have come just before that

    def _do(self, number: int, event: Event) -> None:
        work, task = self.work, event.task
        work.options.progress.event(number, work.ledger.header.events, describe(event.key))
        begun = timing.clocks()
        if event.kind == TrainRecord.kind:
            record: TrainRecord | PredictRecord = self.training.record(RunEvent(number, task))
        else:
            record = predict(work, self.training, number, event)
        work.ledger.append(record)
        work.scalars.show(work.ledger.records)
        work.workspace(record.name).remove()
        self.training.forget()
        timing.append(work.path / "timing.jsonl", number, event.kind, task.task_id, begun)
        if isinstance(record, PredictRecord):
            work.options.progress.result(f"{task.year} {task.task_id}: {_error(record)}")

    def _initialise(self) -> Header:
        """Calls `init` and saves its state, unless that was done before a kill; returns the
        header.
        """
        work, config = self.work, self.work.config
        path = work.checkpoint("init")
        try:
            return parse(Checkpoint(path).record)
        except DamagedCheckpoint:
            pass
        events = work.stream.length(config.values["protocol"])
        work.options.progress.event(-1, events, "initialise")
        state, flops = self.training.initialise()
        header = Header(
            schema=SCHEMA,
            learner=work.name,
            budget=config.values.get("budget"),
            **{
                name: config.values[name]
                for name in ("stream", "stream_digest", "protocol", "seed")
            },
            config_hash=config.config_hash,
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
    """Says why an event cannot follow some records; empty where it can."""
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
