"""The ledger: the append-only record of what a run trained and predicted, and at what cost.

See docs/run-directory.md.
"""

import html
import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from nevis_stream.cost.meter import total
from nevis_stream.errors import BadInput
from nevis_stream.run_directory.records import (
    RECORDS,
    SCHEMA,
    EndRecord,
    Header,
    PredictRecord,
    RecallRecord,
    TrainRecord,
    check_events,
    check_outcomes,
    parse,
)
from nevis_stream.storage import append_line
from nevis_stream.storage.reading import parse_json, read_bytes, read_npz
from nevis_stream.storage.record import Record, check_unicode, encode

if TYPE_CHECKING:
    import pandas as pd


def find_run_dirs(path: Path, marker: str = "ledger.jsonl") -> list[Path]:
    """Returns the run directories that a path stands for.

    Args:
      path: a run directory, or a folder of several seeds (FOLDER/seed-0), of a sweep
        (FOLDER/VALUE), or of a sweep of several seeds (FOLDER/VALUE/seed-0).
      marker: the file that makes a directory a run directory.

    Returns:
      The path itself if it is a run directory or contains none; else those in it, sorted.
    """
    if (path / marker).exists():
        return [path]
    inside = [file.parent for pattern in ("*", "*/*") for file in path.glob(f"{pattern}/{marker}")]
    return sorted(inside) or [path]


FILE_NAME = "ledger.jsonl"
_TRAIN_COLUMNS = ("order", "task_id", "year", "domain", "task_kind", "meta_split", "num_classes")
_FLOPS = ("train_flops", "total_flops")
_PREDICT_COLUMNS = ("split", "n", "metric", "value", "error", "trial")
R = TypeVar("R", bound=Record)


class History:
    """Records of a run, in order, from the first one on.

    Args:
      run_dir: the run directory, which holds the files that the records name.
      records: of its ledger, all or the first ones.
    """

    def __init__(self, run_dir: Path, records: Sequence[Record]):
        self.run_dir = run_dir
        self.records = list(records)

    @property
    def header(self) -> Header:
        """The first record.

        Raises:
          BadInput: there is no record.
        """
        if not self.records:
            raise BadInput(
                f"{self.run_dir / FILE_NAME}: no record yet; the run has not begun, or this is not"
                " a run directory."
            )
        header = self.records[0]
        assert isinstance(header, Header)  # checked when the record was read
        return header

    @property
    def complete(self) -> bool:
        """Whether the run reached its end."""
        return bool(self.records) and isinstance(self.records[-1], EndRecord)

    def of_kind(self, record: type[R]) -> list[R]:
        """Returns the records of one type, in order."""
        return [each for each in self.records if isinstance(each, record)]

    @property
    def events(self) -> list[TrainRecord | PredictRecord | RecallRecord]:
        """The records of events, in order."""
        kinds = TrainRecord | PredictRecord | RecallRecord
        return [each for each in self.records if isinstance(each, kinds)]

    @property
    def uncounted(self) -> list[str]:
        """The phases, of "train" and "predict", in whose events nothing was ever charged, not even
        0: what nobody counted is unknown, not nothing.
        """
        kinds: dict[str, type[TrainRecord] | type[PredictRecord]]
        kinds = {"train": TrainRecord, "predict": PredictRecord}
        records = {phase: self.of_kind(kind) for phase, kind in kinds.items()}
        return [p for p, rows in records.items() if rows and not any(row.flops for row in rows)]

    def training_of(self, predicted: PredictRecord) -> TrainRecord:
        """Returns the record of the train event whose predictor answered.

        Raises:
          BadInput: there is no such record.
        """
        for record in self.of_kind(TrainRecord):
            same_event = predicted.train_event in (None, record.event)
            if same_event and record.task_id == predicted.task_id:
                return record
        raise BadInput(
            f"{self.run_dir / FILE_NAME}: event {predicted.event} predicts task"
            f" {predicted.task_id!r}, which was not trained before."
        )

    def outcomes(self, predicted: PredictRecord) -> dict[str, np.ndarray]:
        """Returns the chosen predictor's outcomes (arrays sample_id, target, correct, confidence).

        Raises:
          BadInput: none were recorded, the file is missing or damaged, or it contradicts the
            ledger's error.
        """
        if predicted.outcomes is None:
            raise BadInput(
                f"{self.run_dir / FILE_NAME}: event {predicted.event} has no recorded outcomes."
            )
        file = self.run_dir / predicted.outcomes
        arrays = read_npz(file)
        check_outcomes(file, arrays, predicted, predicted.answers[0])
        return arrays


class Ledger(History):
    """The ledger of a run directory, read and checked once, at construction.

    Args:
      run_dir: a run directory; a missing ledger reads as empty.

    Raises:
      BadInput: a line other than a cut last one is not a record, the schema is newer than this
        version, or an event is missing or repeated (see `records.check_events`).
    """

    def __init__(self, run_dir: str | Path):
        self.path = Path(run_dir) / FILE_NAME
        super().__init__(Path(run_dir), list(self._read()))
        check_events(self.path, self.records)

    def _read(self) -> Iterator[Record]:
        data = read_bytes(self.path) if self.path.exists() else b""
        for place, line in enumerate(data[: data.rfind(b"\n") + 1].splitlines(), start=1):
            try:
                values = parse_json(line)
                if place == 1:
                    self._check_first(values)
                check_unicode(values)
                yield parse(values)
            except BadInput:
                raise
            except json.JSONDecodeError:
                raise BadInput(f"{self.path}, line {place}: not JSON, so not a ledger.") from None
            except ValueError as error:
                raise BadInput(
                    f"{self.path}, line {place}: not a ledger record ({error})."
                ) from None

    def _check_first(self, values: object) -> None:
        if isinstance(values, dict) and values.get("kind") in tuple(RECORDS):
            kind, schema = values["kind"], values.get("schema")
            if kind != Header.kind:
                raise BadInput(f"{self.path}: the first record is {kind!r}, not {Header.kind!r}.")
            if isinstance(schema, int) and schema > SCHEMA:
                raise BadInput(
                    f"{self.path}: written with schema {schema}; this version reads up to"
                    f" {SCHEMA}. Install a newer nevis_stream."
                )

    def __repr__(self) -> str:
        if not self.records:
            return f"Ledger of {self.run_dir}: no record yet"
        header, trained = self.header, len(self.of_kind(TrainRecord))
        tasks = f"{trained} tasks" if header.tasks is None else f"{trained} of {header.tasks} tasks"
        run = f"{header.learner} on {header.stream}, seed {header.seed}"
        return f"Ledger of {self.run_dir}: {run}, {tasks}"

    def _repr_html_(self) -> str:
        """Shows each predicted task's error and FLOPs in a notebook."""
        columns = ["year", "task_id", "split", "n", "metric", "error", *_FLOPS]
        table = self.to_pandas()
        rows = table[columns].to_html(index=False) if len(table) else ""
        return f"<p>{html.escape(repr(self))}</p>{rows}"

    def append(self, record: Record) -> None:
        """Writes one more record durably, or raises and leaves the file as it was."""
        append_line(self.path, encode(record.to_json()))
        self.records.append(record)

    def to_pandas(self) -> "pd.DataFrame":
        """Returns a pandas DataFrame with a row for each predict record.

        Columns: order, task_id, year, domain, task_kind, meta_split, num_classes, split, n, metric,
        value, error, trial, dev_error, steps, trials, train_flops (all trials), total_flops (all
        phases of both events); FLOPs are NaN if they are unknown, and exact integers else (of dtype
        object if 64 bits cannot hold their sum).
        """
        import pandas as pd

        rows = [self._row(predicted) for predicted in self.of_kind(PredictRecord)]
        large = [name for name in _FLOPS if sum(row[name] for row in rows) >= 2**63]
        return pd.DataFrame(rows).astype(dict.fromkeys(large, object))

    def accuracy_matrix(self) -> "pd.DataFrame":
        """Returns a pandas DataFrame of a run under the protocol all_seen.

        A row is the task that was trained on last, a column the task that was predicted: 1 - error
        on its test split, NaN for tasks that had not been met, and where an error is undefined.

        Source: Lopez-Paz and Ranzato (2017), section 2, R.
        """
        import pandas as pd

        tasks = [record.task_id for record in self.of_kind(TrainRecord)]
        matrix = pd.DataFrame(math.nan, index=tasks, columns=tasks)
        for record in self.events:
            if not isinstance(record, TrainRecord) and record.error is not None:
                after = getattr(record, "after", record.task_id)
                matrix.loc[after, record.task_id] = 1 - record.error
        return matrix

    def _row(self, predicted: PredictRecord) -> dict[str, Any]:
        train = self.training_of(predicted)
        info = train.chosen_trial.info if train.chosen_trial else {}
        training = everything = math.nan
        if train.flops and predicted.flops:  # what nobody charged is unknown
            everything = total(train.flops) + total(predicted.flops)
        if train.flops:
            training = total(train.flops, "train")
        return {
            **{name: getattr(train, name) for name in _TRAIN_COLUMNS},
            **{name: getattr(predicted, name) for name in _PREDICT_COLUMNS},
            "dev_error": info.get("dev_error"),
            "steps": info.get("steps"),
            "trials": len(train.trials),
            **dict(zip(_FLOPS, (training, everything), strict=True)),
        }
