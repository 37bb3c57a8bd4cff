"""Writes the published results of NEVIS'22 (Appendix N) as run directories, one a learner, for
reports beside one's own runs.

  python -m experiments.published --out=runs/published
  python -m launch.report runs/mine/* runs/published/* --out=report

They hold 104 of the 106 tasks: IAPRTC-12 and Pascal 2012 have no published value. Costs are not
published for each learner, so these runs are lines in the plane of error against FLOPs, on no front
and in no table of costs.
"""

import argparse
import csv
import hashlib
import io
import json
import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

from nevis_stream.catalogue import published
from nevis_stream.errors import BadInput, NevisStreamError
from nevis_stream.run_directory.ledger import FILE_NAME, SCHEMA, encode
from nevis_stream.storage import write_file
from nevis_stream.streams.task import SPLITS, Task

FLOPS_REASON = "FLOPs are not published for each learner"
NO_VALUE = f"no value in {published.SOURCE}"


def write(out: Path) -> list[Path]:
    """Writes one run directory a published learner and returns their paths; what is already there
    must be the same.

    Args:
      out: folder of the run directories OUT/indep, OUT/ft_prev, OUT/ft_dynamic and OUT/mt.

    Raises:
      BadInput: one of these directories holds another run.
    """
    stream = stream_csv()
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
        config_hash = hashlib.sha256(encode(config).encode()).hexdigest()[:16]
        ledger = "".join(encode(record) + "\n" for record in records(config, config_hash))
        texts = {"config.json": json.dumps(config | {"config_hash": config_hash}, indent=1)}
        texts |= {"stream.csv": stream, FILE_NAME: ledger}
        path = out / learner
        for name, text in texts.items():
            if (path / name).exists() and (path / name).read_bytes() != text.encode():
                raise BadInput(
                    f"{path / name}: this directory holds another run. Choose another --out."
                )
        for name, text in texts.items():  # the ledger last: with it a directory becomes a run
            write_file(path / name, text.encode())
        paths.append(path)
    return paths


def tasks() -> list[Task]:
    """Returns the 104 tasks that have published values; `order` is their place among the 106."""
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
        for task_id, row in published.facts().items()
        if task_id in published.errors()
    ]


def stream_csv() -> str:
    """Returns the rows of `tasks` with the columns of a run's stream.csv; sizes of splits and
    fingerprints are empty.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    columns = [field.name for field in fields(Task)]
    unknown = [f"n_{split}" for split in SPLITS] + ["fingerprint"]
    writer.writerow(columns + unknown)
    writer.writerows(
        [*(getattr(task, name) for name in columns), *("" for _ in unknown)] for task in tasks()
    )
    return out.getvalue()


def records(config: dict[str, Any], config_hash: str) -> Iterator[dict[str, Any]]:
    """Yields the ledger of a learner's published results; what is not published is null
    (docs/run-directory.md).
    """
    stream = tasks()
    kept = ("learner", "budget", "stream", "stream_digest", "protocol", "seed", "source")
    yield {name: config[name] for name in kept} | {
        "kind": "run",
        "schema": SCHEMA,
        "config_hash": config_hash,
        "tasks": len(stream),
        "events": 2 * len(stream),
        "flops": None,
        "flops_reason": FLOPS_REASON,
        "left_out": {
            task_id: NO_VALUE for task_id in published.facts() if task_id not in published.errors()
        },
    }
    for place, task in enumerate(stream):
        facts = published.facts()[task.task_id]
        known = {"order": task.order, "task_id": task.task_id, "flops": None}
        yield known | {
            "kind": "train",
            "event": 2 * place,
            **{
                name: getattr(task, name)
                for name in ("dataset_id", "year", "domain", "meta_split", "num_classes")
            },
            "task_kind": task.kind,
            "n_train": None,
            "n_dev": None,
            "size": int(facts["size"]),
            "mean_height": float(facts["height"]),
            "mean_width": float(facts["width"]),
            "chosen": None,
            "trials": [],
        }
        error = published.errors()[task.task_id][config["learner"]]
        yield known | {
            "kind": "predict",
            "event": 2 * place + 1,
            "split": "test",
            "metric": facts["metric"],
            "value": error if facts["metric"] == "error_rate" else round(1 - error, 4),
            "error": error,
            **dict.fromkeys(("n", "predictor_id", "trial", "outcomes")),
            "others": [],
        }
    yield {"kind": "end", "events": 2 * len(stream)}


def main() -> None:
    """Writes the run directories and prints their paths."""
    parser = argparse.ArgumentParser(
        prog="python -m experiments.published",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--out",
        type=Path,
        required=True,
        help="folder of the four run directories, runs/published say",
    )
    try:
        for path in write(parser.parse_args().out):
            print(path)
    except (NevisStreamError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
