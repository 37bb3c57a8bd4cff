"""Numbers for TensorBoard while a run runs: one directory a trial, one for the stream, each with
one events file.

A file is written anew by whoever takes up its trial, from the first point on, so that no point
stands in it twice. Points are appended at once, in one write, by the process that has them: no
thread and no queue that a full disk could block. Nothing else depends on these files: what cannot
be written is told once and left out.
"""

import functools
import itertools
import os
import socket
import struct
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from nevis_stream.cost.meter import total
from nevis_stream.errors import RunWarning
from nevis_stream.run_directory.records import EndRecord, PredictRecord, Record, TrainRecord

FOLDER = "tensorboard"
# TensorBoard shows charts of tags with the same word before the slash together
TRIAL, STREAM = "trial", "stream"


class Scalars:
    """Writes the points of one trial, or of a whole stream, as TensorBoard reads them.

    Args:
      root: the run's `tensorboard/`; where it is not there (a machine that does not see the run)
        nothing is written.
      name: of the directory below it, which TensorBoard calls a run.
    """

    def __init__(self, root: Path, name: str):
        self._root, self._name = root, name
        self._file: Path | None = None
        self._ended = False

    def of(self, name: str) -> "Scalars":
        """Returns the scalars of a part: a directory inside this one."""
        return Scalars(self._root, f"{self._name}/{name}")

    def write(self, step: int, values: Mapping[str, float | None]) -> None:
        """Appends the values at a step, by tag; those that are None are left out."""
        if self._ended or _events() is None:
            return
        record = _events().scalars(
            step, {tag: value for tag, value in values.items() if value is not None}
        )
        try:
            if self._file is None:
                self._file = self._begin()
            # not made again: another process may have taken the trial up
            with open(self._file, "r+b", buffering=0) as file:
                file.seek(0, os.SEEK_END)
                _write(file, record)
        except FileNotFoundError:
            self._ended = True
        except OSError as error:
            self._ended = True
            _warn(self._root, error)

    def _begin(self) -> Path:
        """Takes up the directory: what stood in it is deleted, a new file begins."""
        directory = self._root / self._name
        if not self._root.is_dir():
            raise FileNotFoundError(self._root)
        directory.mkdir(parents=True, exist_ok=True)
        for old in directory.glob("events.*"):
            old.unlink(missing_ok=True)
        path = (
            directory
            / f"events.out.tfevents.{time.time():.6f}.{socket.gethostname()}.{os.getpid()}"
        )
        with open(path, "xb", buffering=0) as file:
            _write(file, _events().beginning())
        return path


class RunScalars:
    """Writes what a ledger tells, and hands out the scalars of its parts.

    Args:
      run_dir: the run directory.
      wanted: whether anything is written.
    """

    def __init__(self, run_dir: Path, wanted: bool):
        self._root = run_dir.absolute() / FOLDER
        self._shown = 0
        self._stream: Scalars | None = None
        if wanted and _events() is not None:
            try:
                self._root.mkdir(exist_ok=True)
                self._stream = Scalars(self._root, STREAM)
            except OSError as error:
                _warn(self._root, error)

    def of(self, name: str) -> Scalars | None:
        """Returns the scalars of an event, or None where nothing is written."""
        return Scalars(self._root, name) if self._stream else None

    def show(self, records: Sequence[Record]) -> None:
        """Writes the points of a ledger's records that are not written yet."""
        if self._stream:
            for step, values in itertools.islice(points(records), self._shown, None):
                self._stream.write(step, values)
                self._shown += 1


def points(records: Sequence[Record]) -> Iterator[tuple[int, dict[str, float | None]]]:
    """Yields (order of the task, values by tag) for each event of a ledger.

    After training: the chosen trial's dev error. After predicting: the task's error, the means of
    the errors so far (over all tasks, and over those of the meta-test part) and the FLOPs so far
    (training of all trials, and all phases).
    """
    errors: dict[str, list[float]] = {"mean_error": [], "mean_error_meta_test": []}
    meta_splits: dict[str, str] = {}
    training, everything = 0, 0
    for record in records:
        if isinstance(record, EndRecord):
            continue
        training += total(record.flops, "train")
        everything += total(record.flops)
        if isinstance(record, TrainRecord):
            meta_splits[record.task_id] = record.meta_split
            info = record.chosen_trial.info
            yield record.order, {f"{STREAM}/dev_error": _number(info.get("dev_error"))}
        elif isinstance(record, PredictRecord):
            if record.error is not None:
                errors["mean_error"].append(record.error)
                if meta_splits[record.task_id] == "test":
                    errors["mean_error_meta_test"].append(record.error)
            means = {
                f"{STREAM}/{name}": sum(so_far) / len(so_far)
                for name, so_far in errors.items()
                if so_far
            }
            flops = {f"{STREAM}/flops_train": training, f"{STREAM}/flops_total": everything}
            yield record.order, {f"{STREAM}/error": record.error} | means | flops


def read(directory: Path) -> dict[str, list[tuple[int, float]]]:
    """Returns (step, value) pairs by tag, in the order of their writing, up to where the files are
    whole.
    """
    found: dict[str, list[tuple[int, float]]] = {}
    for file in sorted(directory.glob("events.*")) if _events() else ():
        try:
            data = file.read_bytes()
        except OSError:
            continue
        for step, tag, value in _events().parsed(data):
            found.setdefault(tag, []).append((step, value))
    return found


class _Events:
    """TensorBoard's records: protocol buffers of tensorboardX in the frames of TFRecord."""

    def __init__(self):
        from tensorboardX.proto import event_pb2, summary_pb2
        from tensorboardX.record_writer import masked_crc32c

        self._event, self._session = event_pb2.Event, event_pb2.SessionLog
        self._summary = summary_pb2.Summary
        self._checksum: Callable[[bytes], int] = masked_crc32c

    def _framed(self, **fields: Any) -> bytes:
        data = self._event(wall_time=time.time(), **fields).SerializeToString()
        length = struct.pack("<Q", len(data))
        return b"".join(
            (
                length,
                struct.pack("<I", self._checksum(length)),
                data,
                struct.pack("<I", self._checksum(data)),
            )
        )

    def beginning(self) -> bytes:
        """The head of a file: the format, and that a TensorBoard at work forgets what it has read
        of an older file.
        """
        started = self._session(status=self._session.START)
        return self._framed(file_version="brain.Event:2") + self._framed(
            step=0, session_log=started
        )

    def scalars(self, step: int, values: Mapping[str, float]) -> bytes:
        """One record with several values."""
        summary = self._summary(
            value=[
                self._summary.Value(tag=tag, simple_value=float(value))
                for tag, value in values.items()
            ]
        )
        return self._framed(step=step, summary=summary)

    def parsed(self, data: bytes) -> Iterator[tuple[int, str, float]]:
        """Yields step, tag and value of each whole record."""
        at = 0
        while at + 12 <= len(data):
            length = struct.unpack_from("<Q", data, at)[0]
            body = data[at + 12 : at + 12 + length]
            end = at + 16 + length
            if end > len(data) or struct.unpack_from("<I", data, end - 4)[0] != self._checksum(
                body
            ):
                return
            event = self._event.FromString(body)
            for value in event.summary.value:
                yield event.step, value.tag, value.simple_value
            at = end


@functools.cache
def _events() -> _Events | None:
    try:
        return _Events()
    except (
        Exception
    ) as error:  # a protobuf that does not fit raises what it likes; a run must not end by that
        warnings.warn(
            f"TensorBoard's scalars are not written: tensorboardX cannot be imported ({error}). pip"
            " install tensorboardX brings it; the run goes on.",
            RunWarning,
            stacklevel=4,
        )
        return None


def _warn(root: Path, error: OSError) -> None:
    warnings.warn(
        f"{root}: TensorBoard's scalars cannot be written ({os.strerror(error.errno or 0)}); the"
        " run goes on.",
        RunWarning,
        stacklevel=3,
    )


def _write(file: Any, record: bytes) -> None:
    left = memoryview(record)
    while left:
        left = left[file.write(left) :]


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) else None
