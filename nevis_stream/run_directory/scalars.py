"""Times and numbers of a running run, for people to watch; nothing else depends on these files.

timing.jsonl has the wall clock, CPU time and compilations of each event. TensorBoard's events files
have the scalars of each trial and of the stream: a process that continues a trial writes its file
again from the first point on, so that no point occurs twice. Each point is appended at once, in one
write, by the process that computed it: no thread or queue is involved that a full disk could block.
If they cannot be written, one warning says so and the run continues.
"""

import functools
import os
import socket
import struct
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from nevis_stream.cost.meter import total
from nevis_stream.errors import RunWarning, describe_installation
from nevis_stream.run_directory.records import Header, PredictRecord, TrainRecord
from nevis_stream.storage import append_line
from nevis_stream.storage.reading import parse_json, read_bytes
from nevis_stream.storage.record import Record, check_object, encode, number
from nevis_stream.vocabulary import POOL

TIMING_FILE = "timing.jsonl"
Seconds = Annotated[float, number(0, 1e12)]


@dataclass(frozen=True, kw_only=True)
class TimingRecord(Record):
    """The time of an event; after a kill and a restart, only that of the last process."""

    event: int
    kind: str
    task_id: str
    pid: int
    seconds: Seconds
    cpu_seconds: Seconds
    compilations: int | None = None
    compilation_seconds: Seconds | None = None


def read_clocks() -> dict[str, float]:
    """Returns the current values of all clocks and counters."""
    from nevis_stream.cost import counted  # not with this module: readers of runs load no JAX

    count, seconds = counted.count_compilations()
    return {
        "seconds": time.perf_counter(),
        "cpu_seconds": time.process_time(),
        "compilations": count,
        "compilation_seconds": seconds,
    }


def append_timing(
    run_dir: Path, event: int, kind: str, task_id: str, start: Mapping[str, float]
) -> None:
    """Adds the line of an event that started when `read_clocks` returned `start`."""
    passed = {name: max(round(now - start[name], 4), 0) for name, now in read_clocks().items()}
    record = TimingRecord(event=event, kind=kind, task_id=task_id, pid=os.getpid(), **passed)
    append_line(run_dir / TIMING_FILE, encode(record.to_json()))


def read_timing(run_dir: Path) -> list[TimingRecord]:
    """Returns the timing of a run's events; lines that are cut or damaged are left out."""
    records = []
    try:
        lines = read_bytes(run_dir / TIMING_FILE).splitlines()
    except OSError:
        return []
    for line in lines:
        try:
            records.append(TimingRecord.from_json(check_object(parse_json(line))))
        except ValueError:
            continue
    return records


FOLDER = "tensorboard"
# TensorBoard groups charts by the part of the tag before the slash
TRIAL, STREAM = "trial", "stream"


class Scalars:
    """Writes the points of one trial, or of a whole stream, as TensorBoard reads them.

    Args:
      root: the run's `tensorboard/`; if it does not exist (as on a machine without access to the
        run), nothing is written.
      name: of the directory below it, which TensorBoard calls a run.
    """

    def __init__(self, root: Path, name: str):
        self._root, self._name = root, name
        self._file: Path | None = None
        self._ended = False

    def part(self, name: str) -> "Scalars":
        """Returns the scalars of a part, in a directory inside this one."""
        return Scalars(self._root, f"{self._name}/{name}")

    def write(self, step: int, values: Mapping[str, float | None]) -> None:
        """Appends the values at a step, by tag; those that are None are left out."""
        if self._ended or _library() is None:
            return
        shown = [
            {"tag": tag, "simple_value": float(value)}
            for tag, value in values.items()
            if value is not None
        ]
        record = _frame(step=step, summary={"value": shown})
        try:
            if self._file is None:
                self._file = self._begin()
            # "r+" does not create the file: another process may have taken over the trial
            with open(self._file, "r+b", buffering=0) as file:
                file.seek(0, os.SEEK_END)
                _write(file, record)
        except FileNotFoundError:
            self._ended = True
        except OSError as error:
            self._ended = True
            _warn(self._root, error)

    def _begin(self) -> Path:
        """Deletes the files in the directory and starts a new one."""
        directory = self._root / self._name
        if not self._root.is_dir():
            raise FileNotFoundError(self._root)
        directory.mkdir(parents=True, exist_ok=True)
        for old in directory.glob("events.*"):
            old.unlink(missing_ok=True)
        name = f"events.out.tfevents.{time.time():.6f}.{socket.gethostname()}.{os.getpid()}"
        path = directory / name
        with open(path, "xb", buffering=0) as file:
            # START: a running TensorBoard discards what it has read from an older file
            _write(file, _frame(file_version="brain.Event:2"))
            _write(file, _frame(step=0, session_log={"status": "START"}))
        return path


class RunScalars:
    """Writes the points of a ledger, and provides the scalars of each event.

    Args:
      run_dir: the run directory.
      wanted: whether anything is to be written.
    """

    def __init__(self, run_dir: Path, wanted: bool):
        self._root = run_dir.absolute() / FOLDER
        self._shown = 0
        self._stream: Scalars | None = None
        if wanted and _library() is not None:
            try:
                self._root.mkdir(exist_ok=True)
                self._stream = Scalars(self._root, STREAM)
            except OSError as error:
                _warn(self._root, error)

    def part(self, name: str) -> Scalars | None:
        """Returns the scalars of an event, or None if nothing is written."""
        return Scalars(self._root, name) if self._stream else None

    def show(self, records: Sequence[Record]) -> None:
        """Writes the points of a ledger's records that are not written yet."""
        if self._stream:
            points = list_stream_points(records)
            for step, values in points[self._shown :]:
                self._stream.write(step, values)
            self._shown = len(points)


def list_stream_points(records: Sequence[Record]) -> list[tuple[int, dict[str, float | None]]]:
    """Returns (order of the task, values by tag) for each event of a ledger.

    After training: the chosen trial's dev error. After predicting: the task's error, the means of
    the errors so far (over all tasks, and over those of the meta-test part) and the FLOPs so far
    (training of all trials, and all phases).
    """
    points: list[tuple[int, dict[str, float | None]]] = []
    errors: dict[str, list[float]] = {"mean_error_all_tasks": [], "mean_error_meta_test": []}
    meta_splits: dict[str, str] = {}
    training, everything = 0, 0
    for record in records:
        if not isinstance(record, Header | TrainRecord | PredictRecord):
            continue
        training += total(record.flops, "train")
        everything += total(record.flops)
        if isinstance(record, TrainRecord):
            meta_splits[record.task_id] = record.meta_split
            error = record.chosen_trial.info.get("dev_error")
            known = isinstance(error, int | float)
            points.append((record.order, {f"{STREAM}/dev_error": error if known else None}))
        elif isinstance(record, PredictRecord):
            if record.split == POOL:
                continue
            if record.error is not None:
                errors["mean_error_all_tasks"].append(record.error)
                if meta_splits[record.task_id] == "test":
                    errors["mean_error_meta_test"].append(record.error)
            values = {"error": record.error, "flops_train": training, "flops_total": everything}
            values |= {name: sum(each) / len(each) for name, each in errors.items() if each}
            points.append((record.order, {f"{STREAM}/{tag}": v for tag, v in values.items()}))
    return points


def read(directory: Path) -> dict[str, list[tuple[int, float]]]:
    """Returns (step, value) pairs by tag, in the order of writing, up to the first cut record."""
    points: dict[str, list[tuple[int, float]]] = {}
    for file in sorted(directory.glob("events.*")) if _library() else ():
        try:
            data = read_bytes(file)
        except OSError:
            continue
        for step, tag, value in _parse(data):
            points.setdefault(tag, []).append((step, value))
    return points


def _frame(**fields: Any) -> bytes:
    """Returns an event of TensorBoard as a TFRecord."""
    event, checksum = _library()
    data = event(wall_time=time.time(), **fields).SerializeToString()
    length = struct.pack("<Q", len(data))
    sums = [struct.pack("<I", checksum(part)) for part in (length, data)]
    return length + sums[0] + data + sums[1]


def _parse(data: bytes) -> Iterator[tuple[int, str, float]]:
    """Yields step, tag and value of each whole record."""
    event, checksum = _library()
    start = 0
    while start + 12 <= len(data):
        (length,) = struct.unpack_from("<Q", data, start)
        end = start + 16 + length
        body = data[start + 12 : end - 4]
        if end > len(data) or struct.unpack_from("<I", data, end - 4)[0] != checksum(body):
            return
        read_event = event.FromString(body)
        for value in read_event.summary.value:
            yield read_event.step, value.tag, value.simple_value
        start = end


@functools.cache
def _library() -> tuple[Any, Any] | None:
    """TensorBoard's event class and checksum; None if tensorboardX cannot be imported."""
    try:
        from tensorboardX.proto import event_pb2
        from tensorboardX.record_writer import masked_crc32c
    except Exception as error:  # an unsuitable protobuf may raise anything
        warnings.warn(
            "curves for TensorBoard are not written, because tensorboardX cannot be imported"
            f" ({error}). To install it: {describe_installation('data')}. The run continues.",
            RunWarning,
            stacklevel=4,
        )
        return None
    return event_pb2.Event, masked_crc32c


def _warn(root: Path, error: OSError) -> None:
    warnings.warn(
        f"{root}: curves for TensorBoard cannot be written ({os.strerror(error.errno or 0)}); the"
        " run continues.",
        RunWarning,
        stacklevel=3,
    )


def _write(file: Any, record: bytes) -> None:
    left = memoryview(record)
    while left:
        left = left[file.write(left) :]
