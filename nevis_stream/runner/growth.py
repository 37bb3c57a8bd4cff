"""A complete run grows: the csv of its stream has more rows at its end, and the run goes on."""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

from nevis_stream.errors import BadInput, plural
from nevis_stream.run_directory import config as config_file
from nevis_stream.run_directory.config import RecordedConfig
from nevis_stream.run_directory.ledger import Ledger
from nevis_stream.run_directory.records import (
    PredictRecord,
    TrainRecord,
    TrialRecord,
    make_predictor_id,
)
from nevis_stream.storage import write_file
from nevis_stream.storage.reading import read_bytes, read_json
from nevis_stream.storage.record import encode
from nevis_stream.storage.tables import parse_csv
from nevis_stream.streams.stream import Stream

TASKS, OVERLAP = "stream.csv", "overlap.csv"
_DIGEST = "stream_digest"


def grow(path: Path, config: RecordedConfig, stream: Stream, check: Callable[[], None]) -> None:
    """Makes a complete run of the first tasks of a stream one that has still to do the others.

    Its ledger is then the one that a run of the longer stream would have at this place: the ids of
    its predictors follow from the config, of which the stream is a part. The files are replaced in
    an order that a kill does not disturb: `stream.csv`, which says that there is something to do,
    comes last.

    Args:
      path: a directory, of any run or of none; of another run it is left as it is.
      config: of the run of all tasks.
      stream: with all tasks.
      check: raises what forbids the run to go on; called before a file changes.

    Raises:
      BadInput: the run of the first tasks is not complete.
    """
    if (done := _count_earlier(path, config, stream)) is None:
        return
    ledger = Ledger(path)
    if not ledger.records or ledger.header.config_hash != config.config_hash:
        if not ledger.complete:
            raise BadInput(
                f"{path}: the csv of stream {stream.name!r} has"
                f" {plural(len(stream.tasks) - done, 'task')} more than when this run was begun,"
                f" and the run of its first {plural(done, 'task')} is not complete. Complete that"
                " run first, without the new rows."
            )
        check()
        _rename_predictors(ledger, config.config_hash)
        tasks, events = stream.length(config.values["protocol"])
        header = dataclasses.replace(
            ledger.header,
            stream_digest=config.values[_DIGEST],
            config_hash=config.config_hash,
            tasks=tasks,
            events=events,
        )
        lines = [encode(each.to_json()) + "\n" for each in (header, *ledger.records[1:-1])]
        write_file(ledger.path, "".join(lines).encode())
    (path / OVERLAP).unlink(missing_ok=True)
    write_file(path / config_file.FILE_NAME, config.to_text().encode())
    write_file(path / TASKS, stream.csv.encode())


def _count_earlier(path: Path, config: RecordedConfig, stream: Stream) -> int | None:
    """Returns how many tasks the stream had when this run was begun; None if not fewer, or if the
    directory has not a run of these tasks.
    """
    file = path / TASKS
    if not file.exists() or stream.schedule.rule is not None:
        return None
    texts = read_bytes(file).decode(), stream.csv
    # a choice of a later task gives all rows a column
    earlier, now = (
        [{name: cell for name, cell in row.items() if cell} for row in parse_csv(text)]
        for text in texts
    )
    if len(earlier) >= len(now) or now[: len(earlier)] != earlier:
        return None
    try:
        recorded = config_file.read_config(path).values
    except BadInput:
        return None
    same = dict(recorded) | {_DIGEST: ""} == json.loads(encode(config.values)) | {_DIGEST: ""}
    return len(earlier) if same else None


def _rename_predictors(ledger: Ledger, config_hash: str) -> None:
    """Gives the predictors in the records, and in the files of mistakes, the ids that they have in
    a run of this config.
    """
    new: dict[str, str] = {}

    def rename(record: TrialRecord) -> TrialRecord:
        made = make_predictor_id(config_hash, train.task_id, record.trial, record.step)
        new[record.predictor_id] = made
        return dataclasses.replace(record, predictor_id=made)

    for place, record in enumerate(ledger.records):
        if isinstance(record, TrainRecord):
            train = record
            trials = tuple(map(rename, record.trials))
            ledger.records[place] = dataclasses.replace(record, trials=trials)
        elif isinstance(record, PredictRecord):
            others = tuple(
                dataclasses.replace(each, predictor_id=new[each.predictor_id])
                for each in record.others
            )
            own = new[record.predictor_id] if record.predictor_id else None
            ledger.records[place] = dataclasses.replace(record, others=others, predictor_id=own)
    for file in (ledger.run_dir / "thumbnails").glob("*-mistakes.json"):
        values = read_json(file)
        values["predictor_id"] = new.get(values["predictor_id"], values["predictor_id"])
        write_file(file, json.dumps(values, indent=1, sort_keys=True).encode())
