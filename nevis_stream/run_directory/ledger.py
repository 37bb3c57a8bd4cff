"""The ledger: the append-only record of what a run trained and predicted, at what cost. See
docs/run-directory.md.
"""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nevis_stream.cost.meter import total
from nevis_stream.errors import BadInput
from nevis_stream.storage import append_line

SCHEMA = 2
FILE_NAME = "ledger.jsonl"
KINDS = ("run", "train", "predict", "end")


def encode(record: Mapping[str, Any]) -> str:
    """Returns the one line that stands for `record`: sorted keys, no spaces, no NaN."""
    return json.dumps(record, sort_keys=True, separators=(",", ":"), allow_nan=False)


class Ledger:
    """The records of one run directory, read once at construction.

    Args:
      run_dir: a run directory; a missing ledger reads as empty.

    Raises:
      BadInput: a line other than a cut last one is not a record, or the schema is newer than this
        version.
    """

    def __init__(self, run_dir: str | Path):
        self.run_dir = Path(run_dir)
        self.path = self.run_dir / FILE_NAME
        self.records: list[dict[str, Any]] = self._read()

    def _read(self) -> list[dict[str, Any]]:
        if not self.path.exists():
            return []
        data = self.path.read_bytes()
        records = []
        for number, line in enumerate(data[: data.rfind(b"\n") + 1].splitlines(), start=1):
            try:
                record = json.loads(line)
                if record["kind"] not in KINDS:
                    raise ValueError(f"kind {record['kind']!r}; valid: {', '.join(KINDS)}")
            except (ValueError, KeyError, TypeError, RecursionError) as error:
                raise BadInput(
                    f"{self.path}, line {number}: not a ledger record ({error})."
                ) from None
            records.append(record)
        if records and records[0]["kind"] != "run":
            raise BadInput(f"{self.path}: the first record is {records[0]['kind']!r}, not 'run'.")
        schema = records[0].get("schema") if records else SCHEMA
        if not isinstance(schema, int) or schema < 1:
            raise BadInput(
                f"{self.path}: schema of the run record is {schema!r}, not 1 to {SCHEMA}."
            )
        if schema > SCHEMA:
            raise BadInput(
                f"{self.path}: written with schema {schema}; this version reads up to {SCHEMA}. "
                "Install a newer nevis_stream."
            )
        return records

    def append(self, record: Mapping[str, Any]) -> None:
        """Writes one more record durably, or raises and leaves the file as it was."""
        line = encode(record)
        append_line(self.path, line)
        self.records.append(json.loads(line))

    @property
    def header(self) -> dict[str, Any]:
        """The `run` record.

        Raises:
          BadInput: the ledger is empty.
        """
        if not self.records:
            raise BadInput(
                f"{self.path}: no record yet; the run has not begun or this is not a run directory."
            )
        return self.records[0]

    @property
    def complete(self) -> bool:
        """Whether the run reached its end."""
        return bool(self.records) and self.records[-1]["kind"] == "end"

    def of_kind(self, kind: str) -> list[dict[str, Any]]:
        """Returns the records of one kind, in order."""
        return [record for record in self.records if record["kind"] == kind]

    def event(self, index: int) -> dict[str, Any] | None:
        """Returns the record of event `index`, or None where it has not been reached."""
        position = index + 1  # the header comes first, then one record an event
        if position < len(self.records) and self.records[position]["kind"] != "end":
            return self.records[position]
        return None

    def to_pandas(self):
        """Returns a pandas DataFrame with one row a `predict` record, joined with its task's
        `train` record.

        Columns: order, task_id, year, domain, task_kind, meta_split, num_classes, split, n, metric,
          value, error,
        trial, dev_error, steps, trials, train_flops (all trials), total_flops (all phases of both
        events); FLOPs are NaN where costs are not known.
        """
        import pandas as pd

        trained = {record["task_id"]: record for record in self.of_kind("train")}
        rows = []
        for predicted in self.of_kind("predict"):
            train = trained[predicted["task_id"]]
            chosen = next(
                (t for t in train["trials"] if t["trial"] == train["chosen"]), {"info": {}}
            )
            known = train["flops"] is not None
            rows.append(
                {
                    key: train[key]
                    for key in ("order", "task_id", "year", "domain", "task_kind", "meta_split")
                }
                | {"num_classes": train["num_classes"]}
                | {
                    key: predicted[key]
                    for key in ("split", "n", "metric", "value", "error", "trial")
                }
                | {key: chosen["info"].get(key) for key in ("dev_error", "steps")}
                | {
                    "trials": len(train["trials"]),
                    "train_flops": total(train["flops"], "train") if known else math.nan,
                    "total_flops": total(train["flops"]) + total(predicted["flops"])
                    if known
                    else math.nan,
                }
            )
        return pd.DataFrame(rows)
