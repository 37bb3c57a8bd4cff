"""`launch.data list`, `verify`, `show` and `overlap`: tasks and their states, whether data are
intact, and what they contain.
"""

import dataclasses
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from rich.table import Table

from nevis_stream import catalogue
from nevis_stream.datasets import prepared, prepared_images, sources
from nevis_stream.datasets.prepared import MEANINGS
from nevis_stream.datasets.splits import divide, format_overlaps
from nevis_stream.errors import BadInput, unknown
from nevis_stream.launch.command_line import make_console
from nevis_stream.launch.entry import INCOMPLETE, as_typed
from nevis_stream.storage.tables import format_csv
from nevis_stream.streams.named_streams import list_stream_rows, load_stream
from nevis_stream.terminal import TerminalProgress

LISTED = (
    "index", "order", "year", "canonical_id", "dataset_id", "name", "kind", "num_classes", "domain", "size", "meta_split",  # noqa: E501
    "source", "homepage", "licence", "state", "origin", "advice", "uses", "note",
)  # fmt: skip
SHOWN = (
    "index", "year", "canonical_id", "kind", "num_classes", "domain", "size", "meta_split", "source", "licence", "state",  # noqa: E501
    "origin",
)  # fmt: skip


def find_dataset(task: str) -> str:
    """Returns the data set of a task (`mnist_2`: `mnist`), or the word itself if it is no task."""
    tasks = {
        row["canonical_id"]: row["dataset_id"]
        for row in catalogue.read_carried_table("nevis22_tasks")
    }
    return tasks.get(task, task)


def list_rows(stream: str) -> list[dict[str, str]]:
    """Returns the rows that `list` prints, one for each task of a stream."""
    tasks = {row["canonical_id"]: row for row in catalogue.read_carried_table("nevis22_tasks")}
    states: dict[str, sources.DataState] = {}
    rows = []
    for row in list_stream_rows(stream)[1]:
        dataset_id = row["dataset_id"]
        task = tasks.get(row["task_id"]) or tasks.get(dataset_id, {})
        about = catalogue.read_nevis22_datasets().get(dataset_id, {})
        state = states.setdefault(row["source"], sources.find_state(row["source"]))
        known = catalogue.read_datasets().get(dataset_id, {})
        published = about or catalogue.read_shared_files().get(dataset_id, {})
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


def _state_text(state: sources.DataState, published_classes: str) -> str:
    """Returns a state, with the number of classes if it is not the published one."""
    classes = str(state.num_classes or published_classes)
    if not published_classes or classes == published_classes:
        return state.name
    return f"{state.name}, with {classes} classes instead of {published_classes}"


def _place(dataset_id: str, about: dict[str, str]) -> str:
    """Returns where the files are published: the host of the first address, or Kaggle."""
    urls = catalogue.read_file_layouts().get(dataset_id, {}).get("urls") or about.get(
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
        print(format_csv(LISTED, ([row[name] for name in LISTED] for row in rows)), end="")
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
    terminal = make_console()
    terminal.print(table)
    states = {row["dataset_id"]: row["state"] for row in rows}.values()
    counts = Counter(state.partition(",")[0] for state in states)
    differing = sum(" instead of " in state for state in states)
    terminal.print(
        "Data sets: "
        + ", ".join(f"{n} {state}" for state, n in sorted(counts.items()))
        + (
            f"; {differing} with a number of classes other than the published one"
            if differing
            else ""
        ),
        highlight=False,
    )
    for state in counts:
        if state in MEANINGS:
            terminal.print(f"  {state}: {MEANINGS[state]}", highlight=False)
    command = as_typed(f"python -m launch.data prepare --stream={stream}")
    terminal.print(
        f"Prepared data are in {catalogue.find_data_root()}. Next: {command}", highlight=False
    )


def verify(tasks: Sequence[str]) -> None:
    """Verifies prepared data and prints which files have changed."""
    tasks = [find_dataset(task) for task in tasks]
    ready = [
        (name, origin) for name, origin in prepared.list_prepared() if not tasks or name in tasks
    ]
    missing = set(tasks) - {name for name, _ in ready}
    if missing:
        raise BadInput(
            unknown(
                "prepared data set",
                sorted(missing)[0],
                [name for name, _ in prepared.list_prepared()],
            )
        )
    if not ready:
        print(f"no data set is prepared in {catalogue.find_data_root()}")
    wrong = 0
    for name, origin in ready:
        problems = prepared.verify(name, origin)
        print(f"{name} ({origin}): {'DAMAGED' if problems else 'intact'}")
        for problem in problems:
            print(f"  {problem}")
        wrong += bool(problems)
    derived = prepared_images.find_array_problems(catalogue.find_derived_directory())
    for problem in derived:
        print(problem)
    if wrong:
        print(
            f"{wrong} of {len(ready)} data sets are damaged: prepare them again with --force, or"
            " import them again"
        )
    if wrong or derived:
        sys.exit(INCOMPLETE)


def show(task: str, out: Path) -> None:
    """Prints counts and histograms of a data set and writes its contact sheet."""
    from nevis_stream.datasets import show as showing

    dataset_id = find_dataset(task)
    if dataset_id in catalogue.read_datasets():
        source = catalogue.read_datasets()[dataset_id]["source"]
    elif prepared.is_ready(dataset_id, "local"):
        source = f"local:{dataset_id}"
    else:
        raise BadInput(unknown("task", task, catalogue.read_datasets()))
    dataset = sources.load(dataset_id, source)
    splits = divide(dataset)
    terminal = make_console()
    imported = " (imported, not the published data)" if dataset.local else ""
    terminal.print(
        f"{task}: {dataset.kind}, {dataset.num_classes} classes{imported}", highlight=False
    )
    counts = showing.count_classes(splits, dataset.kind, dataset.num_classes)
    origin = "local" if dataset.local else "published"
    names = (
        prepared.read_about(dataset_id, origin)["class_names"]
        if prepared.is_ready(dataset_id, origin)
        else []
    )
    table = Table("class", *splits, "share", title="samples by class")
    total = sum(counts.values())
    most = max(int(total.max()), 1)
    for number in range(dataset.num_classes):
        bar = "█" * round(30 * int(total[number]) / most)
        name = f"{number} {names[number]}" if len(names) == dataset.num_classes else str(number)
        table.add_row(name, *(str(int(counts[name][number])) for name in splits), bar)
    table.add_section()
    table.add_row("all", *(str(len(samples)) for samples in splits.values()), "")
    terminal.print(table)
    sizes = Table("longer side, pixels", "images", title="resolutions")
    for name, count in showing.count_resolutions(splits):
        sizes.add_row(name, f"{count:,}")
    terminal.print(sizes)
    path = out / f"{task}.png"
    showing.write_contact_sheet(splits, dataset.kind, dataset.num_classes, path)
    print(
        f"contact sheet: {path} (images of the train split; one row for each of the first"
        f" {showing.MOST_CLASSES} classes)"
    )


def print_overlap(stream: str, form: str) -> None:
    """Prints how many test images of each task earlier tasks of a stream train on."""
    with TerminalProgress("overlap") as progress:
        overlaps = load_stream(stream).overlaps(progress)
    if form == "csv":
        print(format_overlaps(overlaps), end="")
        return
    if not overlaps:
        print(
            f"{stream}: no image of a dev_test or test split is in the train or dev split of an"
            " earlier task."
        )
        return
    columns = [field.name for field in dataclasses.fields(overlaps[0])]
    table = Table(
        *columns,
        title=f"{stream}: tested images that are in the train or dev split of an earlier task",
    )
    for row in overlaps:
        table.add_row(*map(str, dataclasses.astuple(row)))
    terminal = make_console()
    terminal.print(table)
    terminal.print(
        "exact: images with the same pixels; near: other images with the same perceptual hash,"
        " which may look alike."
    )
