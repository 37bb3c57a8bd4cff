"""`launch.data list`: a stream as a table, with what the catalogue knows and the state of each data
set here.
"""

import csv
import sys
from collections import Counter

from rich.table import Table

from launch.entry import as_typed
from launch.terminal import console
from nevis_stream import catalogue
from nevis_stream.datasets import prepared, sources
from nevis_stream.errors import BadInput, unknown
from nevis_stream.streams.rows import stream_rows

LISTED = (
    "index", "order", "year", "canonical_id", "dataset_id", "name", "kind", "num_classes", "domain", "size", "meta_split",  # noqa: E501
    "source", "homepage", "licence", "state", "origin", "advice", "uses", "note",
)  # fmt: skip
SHOWN = (
    "index", "year", "canonical_id", "kind", "num_classes", "domain", "size", "meta_split", "source", "licence", "state",  # noqa: E501
    "origin",
)  # fmt: skip


def dataset_of(task: str) -> str:
    """Returns the data set of a task's canonical id (`mnist_2`: `mnist`); any other word as
    it is.
    """
    tasks = {row["canonical_id"]: row["dataset_id"] for row in catalogue.table("nevis22_tasks")}
    return tasks.get(task, task)


def list_rows(stream: str) -> list[dict[str, str]]:
    """Returns the rows that `list` prints: a task of a stream each, with what the catalogue knows
    and its state here.
    """
    tasks = {row["canonical_id"]: row for row in catalogue.table("nevis22_tasks")}
    states: dict[str, sources.State] = {}
    rows = []
    for row in stream_rows(stream.removesuffix("+partial"))[1]:
        dataset_id = row["dataset_id"]
        task = tasks.get(row["task_id"]) or tasks.get(dataset_id, {})
        about = catalogue.nevis22_datasets().get(dataset_id, {})
        state = states.setdefault(row["source"], sources.state(row["source"]))
        known = catalogue.datasets().get(dataset_id, {})
        published = about or catalogue.shared().get(dataset_id, {})
        rows.append(
            {
                "index": task.get("index", ""),
                "order": row["order"],
                "year": row["year"],
                "canonical_id": row["task_id"],
                "dataset_id": dataset_id,
                "name": task.get("name") or known.get("name", ""),
                "kind": state.kind or row["kind"] or published.get("kind", ""),
                "num_classes": (
                    str(state.num_classes or "")
                    or row["num_classes"]
                    or published.get("num_classes", "")
                ),
                "domain": row["domain"],
                "size": task.get("size", ""),
                "meta_split": row["meta_split"],
                "source": _place(dataset_id, about),
                "homepage": about.get("homepage", ""),
                "licence": about.get("licence") or "unknown",
                "state": _state_text(state, about.get("num_classes", "")),
                "origin": state.origin,
                "uses": row["source"],
                "advice": as_typed(state.advice),
                "note": task.get("note", ""),
            }
        )
    return rows


def _state_text(state: sources.State, published_classes: str) -> str:
    """Names a state, and other numbers of classes than the published one."""
    classes = str(state.num_classes or published_classes)
    if not published_classes or classes == published_classes:
        return state.name
    return f"{state.name}, with {classes} classes instead of {published_classes}"


def _place(dataset_id: str, about: dict[str, str]) -> str:
    """Who holds the files: the host of the first address, or Kaggle."""
    urls = catalogue.layouts().get(dataset_id, {}).get("urls") or about.get(
        "download_urls", ""
    ).split(" ; ")
    first = urls[0]
    if first.startswith("kaggle:"):
        return "kaggle"
    return first.partition("://")[2].partition("/")[0] or first


def show_list(stream: str, form: str, only: dict[str, str | None]) -> None:
    """Prints a stream's tasks as a table or as csv."""
    rows = list_rows(stream)
    for column, value in only.items():
        if value is None:
            continue
        valid = {row[column] for row in rows}
        if not any(row[column].startswith(value) for row in rows):
            raise BadInput(unknown(column, value, valid))
        rows = [row for row in rows if row[column].startswith(value)]
    if form == "csv":
        writer = csv.DictWriter(sys.stdout, LISTED, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        return
    table = Table(
        title=f"{stream}: {len(rows)} tasks, {len({row['dataset_id'] for row in rows})} data sets"
    )
    for column in SHOWN:
        table.add_column(
            column,
            justify="right" if column in ("index", "year", "num_classes", "size") else "left",
        )
    for row in rows:
        table.add_row(*(row[column] for column in SHOWN))
    terminal = console()
    terminal.print(table)
    states = {row["dataset_id"]: row["state"] for row in rows}.values()
    counts = Counter(state.partition(",")[0] for state in states)
    other = sum(" instead of " in state for state in states)
    terminal.print(
        "Data sets: "
        + ", ".join(f"{n} {state}" for state, n in sorted(counts.items()))
        + (f"; {other} with another number of classes than published" if other else ""),
        highlight=False,
    )
    following = as_typed(f"python -m launch.data prepare --stream={stream}")
    terminal.print(f"Under {prepared.data_root()}. Next: {following}", highlight=False)
