"""`launch.data verify`, `show` and `overlap`: whether data are intact, and what they contain."""

import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.table import Table

from nevis_stream import catalogue
from nevis_stream.datasets import prepared, prepared_images, sources
from nevis_stream.errors import BadInput, unknown
from nevis_stream.launch.data_commands.list import dataset_of
from nevis_stream.launch.entry import INCOMPLETE
from nevis_stream.launch.terminal import console
from nevis_stream.storage.tables import quote
from nevis_stream.terminal import TerminalProgress


def verify(tasks: Sequence[str]) -> None:
    """Verifies prepared data and prints which files have changed."""
    tasks = [dataset_of(task) for task in tasks]
    ready = [(name, origin) for name, origin in prepared.all_ready() if not tasks or name in tasks]
    missing = set(tasks) - {name for name, _ in ready}
    if missing:
        raise BadInput(
            unknown(
                "prepared data set", sorted(missing)[0], [name for name, _ in prepared.all_ready()]
            )
        )
    if not ready:
        print(f"no data set is prepared in {catalogue.data_root()}")
    wrong = 0
    for name, origin in ready:
        problems = prepared.verify(name, origin)
        print(f"{name} ({origin}): {'DAMAGED' if problems else 'intact'}")
        for problem in problems:
            print(f"  {problem}")
        wrong += bool(problems)
    derived = prepared_images.array_problems(catalogue.derived_directory())
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
    from nevis_stream.datasets.splits import divide

    dataset_id = dataset_of(task)
    if dataset_id in catalogue.datasets():
        source = catalogue.datasets()[dataset_id]["source"]
    elif prepared.is_ready(dataset_id, "local"):
        source = f"local:{dataset_id}"
    else:
        raise BadInput(unknown("task", task, catalogue.datasets()))
    dataset = sources.load(dataset_id, source)
    splits = divide(dataset)
    terminal = console()
    imported = " (imported, not the published data)" if dataset.local else ""
    terminal.print(
        f"{task}: {dataset.kind}, {dataset.num_classes} classes{imported}", highlight=False
    )
    counts = showing.class_counts(splits, dataset.kind, dataset.num_classes)
    origin = "local" if dataset.local else "published"
    names = (
        prepared.about(dataset_id, origin)["class_names"]
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
    for name, count in showing.resolutions(splits):
        sizes.add_row(name, f"{count:,}")
    terminal.print(sizes)
    path = out / f"{task}.png"
    showing.contact_sheet(splits, dataset.kind, dataset.num_classes, path)
    print(
        f"contact sheet: {path} (images of the train split; one row for each of the first"
        f" {showing.MOST_CLASSES} classes)"
    )


def overlap(stream: str, form: str) -> None:
    """Prints how many test images of each task earlier tasks of a stream train on."""
    from nevis_stream.datasets.splits import to_csv
    from nevis_stream.streams.named_streams import load_stream

    with TerminalProgress("overlap") as progress:
        overlaps = load_stream(stream).overlaps(progress)
    if form == "csv":
        rows = [
            dataclasses.replace(row, task_id=quote(row.task_id), earlier=quote(row.earlier))
            for row in overlaps
        ]
        print(to_csv(rows), end="")
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
    terminal = console()
    terminal.print(table)
    terminal.print(
        "exact: images with the same pixels; near: other images with the same perceptual hash,"
        " which may look alike."
    )
