"""Writes the published results of NEVIS'22 (Appendix N) as run directories, one for each learner.

A report that includes them compares your own runs with them.

  python -m experiments.published --out=runs/published
  python -m launch.report runs/mine/* runs/published/* --out=report

They contain 104 of the 106 tasks: IAPRTC-12 and Pascal 2012 have no published results. The FLOPs of
each learner are not published, so these runs are lines in the plane of error against FLOPs, and are
neither on a Pareto front nor in a table of costs.
"""

import hashlib
import itertools
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

from nevis_stream.catalogue import published
from nevis_stream.errors import BadInput
from nevis_stream.experiments import engine
from nevis_stream.run_directory.config import FILE_NAME as CONFIG_FILE
from nevis_stream.run_directory.config import make_config
from nevis_stream.run_directory.ledger import FILE_NAME
from nevis_stream.run_directory.records import SCHEMA, EndRecord, Header, PredictRecord, TrainRecord
from nevis_stream.storage import write_file
from nevis_stream.storage.reading import read_bytes
from nevis_stream.storage.record import Record, encode
from nevis_stream.storage.tables import format_csv
from nevis_stream.streams.task import Task
from nevis_stream.vocabulary import SPLITS

FLOPS_REASON = "FLOPs are not published for each learner"
NO_VALUE = f"no value in {published.SOURCE}"


def write(out: Path) -> list[Path]:
    """Writes the run directories and returns their paths; an existing one must be the same.

    Args:
      out: folder of the run directories OUT/indep, OUT/ft_prev, OUT/ft_dynamic and OUT/mt.

    Raises:
      BadInput: one of these directories contains another run.
    """
    stream = format_stream()
    digest = f"{hashlib.sha256(stream.encode()).hexdigest()[:16]}-published-partial"
    paths = []
    for learner in published.LEARNERS:
        config: dict[str, Any] = {
            "learner": learner,
            "budget": published.BUDGET,
            "stream": "full",
            "stream_digest": digest,
        }
        config |= {"protocol": "meta_test", "seed": 0, "source": published.SOURCE}
        recorded = make_config(config)
        ledger = "".join(
            encode(record.to_json()) + "\n" for record in make_records(config, recorded.config_hash)
        )
        texts = {
            CONFIG_FILE: recorded.to_text(),
            "stream.csv": stream,
            FILE_NAME: ledger,
        }
        path = out / learner
        for name, text in texts.items():
            if (path / name).exists() and read_bytes(path / name) != text.encode():
                raise BadInput(
                    f"{path / name}: this directory contains another run. Choose another --out."
                )
        for name, text in texts.items():  # the ledger last, since it makes a directory a run
            write_file(path / name, text.encode())
        paths.append(path)
    return paths


def list_tasks() -> list[Task]:
    """Returns the 104 tasks with published results; `order` is their position among the 106."""
    return [
        Task(
            order=int(row["index"]),
            year=int(row["year"]),
            task_id=task_id,
            dataset_id=row["dataset_id"],
            meta_split=row["meta_split"],
            kind=row["kind"],
            domain=row["domain"],
            num_classes=int(row["num_classes"]),
        )
        for task_id, row in published.read_facts().items()
        if task_id in published.read_errors()
    ]


def format_stream() -> str:
    """Returns `list_tasks` in the form of a run's stream.csv; split sizes and fingerprints are
    empty.
    """
    columns = [field.name for field in fields(Task)]
    unknown = [f"n_{split}" for split in SPLITS] + ["fingerprint"]
    rows = (
        [*(getattr(task, name) for name in columns), *("" for _ in unknown)]
        for task in list_tasks()
    )
    return format_csv(columns + unknown, rows)


def make_records(config: dict[str, Any], config_hash: str) -> Iterator[Record]:
    """Yields the ledger of a learner's published results.

    Unpublished values are None (docs/run-directory.md).
    """
    stream = list_tasks()
    names = ("learner", "budget", "stream", "stream_digest", "protocol", "seed", "source")
    yield Header(
        schema=SCHEMA,
        **{name: config[name] for name in names},
        config_hash=config_hash,
        tasks=len(stream),
        events=2 * len(stream),
        flops=None,
        flops_reason=FLOPS_REASON,
        left_out={
            task_id: NO_VALUE
            for task_id in published.read_facts()
            if task_id not in published.read_errors()
        },
    )
    for event, task in zip(itertools.count(step=2), stream, strict=False):
        facts = published.read_facts()[task.task_id]
        yield TrainRecord(
            event=event,
            **task.to_record(),
            n_train=None,
            n_dev=None,
            size=int(facts["size"]),
            mean_height=float(facts["height"]),
            mean_width=float(facts["width"]),
            flops=None,
            chosen=None,
            trials=(),
        )
        error = published.read_errors()[task.task_id][config["learner"]]
        yield PredictRecord(
            event=event + 1,
            train_event=event,
            order=task.order,
            task_id=task.task_id,
            split="test",
            n=None,
            metric=facts["metric"],
            value=error if facts["metric"] == "error_rate" else round(1 - error, 4),
            error=error,
            predictor_id=None,
            trial=None,
            outcomes=None,
            flops=None,
            others=(),
        )
    yield EndRecord(events=2 * len(stream))


def main(out: Path) -> None:
    """Writes the run directories and prints their paths."""
    for path in write(out):
        print(path)


if __name__ == "__main__":
    engine.start(main, keep_programs=False)
