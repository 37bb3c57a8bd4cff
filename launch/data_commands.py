"""The commands of `python -m launch.data`; each prints what a person reads, and stops with status 1 if something is amiss."""

import csv
import multiprocessing
import os
import re
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from nevis_stream import catalogue
from nevis_stream.datasets import prepared, sources
from nevis_stream.errors import BadInput, NevisStreamError, unknown
from nevis_stream.stream import stream_rows

LISTED = (
    "index", "order", "year", "canonical_id", "dataset_id", "name", "kind", "num_classes", "domain", "size", "meta_split",
    "source", "licence", "state", "advice", "note",
)  # fmt: skip
SHOWN = ("index", "year", "canonical_id", "kind", "num_classes", "domain", "size", "meta_split", "licence", "state")
_INCOMPLETE = 1


def _console() -> Console:
    return Console(width=None if Console().is_terminal else 180)


def list_rows(stream: str) -> list[dict[str, str]]:
    """Returns the rows that `list` prints: a task of a stream each, with what the catalogue knows and its state here."""
    tasks = {row["canonical_id"]: row for row in catalogue.table("nevis22_tasks")}
    states: dict[str, sources.State] = {}
    rows = []
    for row in stream_rows(stream.removesuffix("+partial"))[1]:
        dataset_id = row["dataset_id"]
        task = tasks.get(row["task_id"]) or tasks.get(dataset_id, {})
        about = catalogue.nevis22_datasets().get(dataset_id, {})
        state = states.setdefault(row["source"], sources.state(row["source"]))
        known = catalogue.datasets().get(dataset_id, {})
        if row["source"].startswith("local:"):  # an import brings its own kind and classes
            ready = prepared.is_ready(dataset_id, "local")
            mine = prepared.about(dataset_id, "local") if ready else catalogue.shared().get(dataset_id, {})
            row |= {column: str(mine.get(column, "")) for column in ("kind", "num_classes")}
        rows.append(
            {
                "index": task.get("index", ""),
                "order": row["order"],
                "year": row["year"],
                "canonical_id": row["task_id"],
                "dataset_id": dataset_id,
                "name": task.get("name") or known.get("name", ""),
                "kind": row["kind"] or about.get("kind") or catalogue.shared().get(dataset_id, {}).get("kind", ""),
                "num_classes": row["num_classes"] or about.get("num_classes", ""),
                "domain": row["domain"],
                "size": task.get("size", ""),
                "meta_split": row["meta_split"],
                "source": row["source"],
                "licence": about.get("licence", ""),
                "state": state.name,
                "advice": state.advice,
                "note": task.get("note", ""),
            }
        )
    return rows


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
    table = Table(title=f"{stream}: {len(rows)} tasks, {len({row['dataset_id'] for row in rows})} data sets")
    for column in SHOWN:
        table.add_column(column, justify="right" if column in ("index", "year", "num_classes", "size") else "left")
    for row in rows:
        table.add_row(*(row[column] for column in SHOWN))
    console = _console()
    console.print(table)
    counts = Counter({row["dataset_id"]: row["state"] for row in rows}.values())
    console.print("Data sets: " + ", ".join(f"{n} {state}" for state, n in sorted(counts.items())), highlight=False)
    console.print(f"Under {prepared.data_root()}. Next: python -m launch.data prepare --stream={stream}", highlight=False)


def _prepare_one(source: str, options: dict[str, Any], told: Any) -> str:
    """Prepares one data set in a process of its own; returns "" or the message of a user's error."""
    from nevis_stream.datasets.preparation import prepare as preparation

    scheme, _, dataset_id = source.partition(":")

    def progress(stage: str, done: int, total: int) -> None:
        told.put((source, stage, done, total))

    warnings.simplefilter("ignore")
    try:
        if scheme == "local":
            if options["force"] or not prepared.is_ready(dataset_id, "local"):
                known = catalogue.shared().get(dataset_id)
                path = sources.shared_directory() / known["file"] if known else None
                if path is None or not path.exists():
                    return sources.state(source).advice
                preparation.import_file(path, dataset_id, kind=known["kind"], form=options["form"], progress=progress)
        else:
            preparation.prepare(dataset_id, progress=progress, **options)
    except NevisStreamError as error:
        return str(error)
    except OSError as error:
        return f"{error.filename or dataset_id}: {error.strerror or error}"
    except Exception as error:  # one data set must not stop the others, and the message must name it
        return f"{dataset_id}: unexpected {type(error).__name__}: {error}. Please report this."
    return ""


def prepare(stream: str | None, tasks: Sequence[str], options: dict[str, Any], jobs: int | None) -> None:
    """Prepares the data sets of a stream or some by name, several at a time; one that fails does not stop the others."""
    wanted = _wanted(stream, tasks)
    jobs = min(jobs or os.cpu_count() or 1, len(wanted))
    outcome: dict[str, str] = {}
    console = Console(file=sys.stderr)
    bars = Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    context = multiprocessing.get_context("spawn")
    with context.Manager() as manager, bars, ProcessPoolExecutor(jobs, mp_context=context) as pool:
        told = manager.Queue()
        all_bar = bars.add_task("data sets", total=len(wanted))
        own: dict[str, Any] = {}
        pending = {pool.submit(_prepare_one, source, options, told): source for source in wanted}
        for future in _finishing(pending, told, bars, own):
            source = pending[future]
            try:
                outcome[source] = future.result()
            except BrokenProcessPool:
                outcome[source] = "its process was killed (out of memory?); start the same command again with --jobs=1"
            if source in own:
                bars.remove_task(own.pop(source))
            bars.advance(all_bar)
            name = source.partition(":")[2]
            line = outcome[source].removeprefix(f"{name}: ") or "ready"
            console.print(f"{name}: {line}", highlight=False, markup=False, soft_wrap=True)
    _print_outcome(wanted, outcome)


def _finishing(pending: dict, told: Any, bars: Progress, own: dict[str, Any]):
    """Yields futures as they end, and shows on the way what the processes tell."""
    left = set(pending)
    while left:
        try:
            for future in as_completed(left, timeout=0.2):
                left.discard(future)
                yield future
                break
        except TimeoutError:
            pass
        while not told.empty():
            source, stage, done, total = told.get()
            if source not in own:
                own[source] = bars.add_task(source.partition(":")[2], total=None)
            bars.update(own[source], description=f"{source.partition(':')[2]}: {stage}", completed=done, total=total)


def _wanted(stream: str | None, tasks: Sequence[str]) -> list[str]:
    if not stream and not tasks:
        raise BadInput("name what to prepare: --stream=short, or --task=mnist,usps.")
    found = [row["source"] for row in stream_rows(stream.removesuffix("+partial"))[1]] if stream else []
    for task in tasks:
        valid = [*catalogue.layouts(), *catalogue.shared()]
        if task not in valid:
            raise BadInput(unknown("data set", task, valid))
        found.append(f"nevis22:{task}" if task in catalogue.layouts() else f"local:{task}")
    whole = (re.sub(r"^classes:([^.]+).*", r"nevis22:\1", source) for source in found)
    return [source for source in dict.fromkeys(whole) if source.startswith(("nevis22:", "local:"))]


def _print_outcome(wanted: Sequence[str], outcome: dict[str, str]) -> None:
    failed = {source: message for source, message in outcome.items() if message}
    print(f"{len(wanted) - len(failed)} of {len(wanted)} data sets are ready under {prepared.data_root()}")
    if failed:
        print("To do:")
        for source, message in failed.items():
            dataset_id = source.partition(":")[2]
            print(f"  {dataset_id}: {message.removeprefix(f'{dataset_id}: ')}")
        sys.exit(_INCOMPLETE)


def import_file(path: Path, task: str, kind: str | None, year: int | None, domain: str | None, form: str) -> None:
    """Imports a file as a task of the catalogue or as a new one, and says how to run it."""
    from nevis_stream.datasets.preparation import prepare as preparation

    new = task not in catalogue.datasets()
    if new and year is None:
        near = unknown("task", task, catalogue.nevis22_datasets()).partition(" Valid")[0]
        raise BadInput(f"{near} For a new task give its year too: --year=2024 (and --domain=object).")
    if not all(char.isalnum() or char in "_-" for char in task):
        raise BadInput(f"--task={task}: use letters, digits, '_' and '-'.")
    with _bar(task) as progress:
        folder = preparation.import_file(path, task, kind=kind, year=year, domain=domain, form=form, progress=progress)
    about = prepared.about(task, "local")
    print(f"{task}: {about['kind']}, {about['num_classes']} classes, {_counts(about)}")
    _print_duplicates(about)
    print(f"ready: {folder}")
    print(f"next: python -m launch.data show {task}")


def _bar(title: str):
    console = Console(file=sys.stderr)
    bars = Progress(
        TextColumn("{task.description}"), BarColumn(bar_width=24), MofNCompleteColumn(), console=console, transient=True,
        disable=not console.is_terminal,
    )  # fmt: skip

    class Bar:
        def __enter__(self) -> Callable[[str, int, int], None]:
            bars.start()
            task = bars.add_task(title, total=None)
            return lambda stage, done, total: bars.update(task, description=f"{title}: {stage}", completed=done, total=total)

        def __exit__(self, *exception) -> None:
            bars.stop()

    return Bar()


def _counts(about: dict[str, Any]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in about["splits"].items())


def _print_duplicates(about: dict[str, Any]) -> None:
    removed, near = about["exact_duplicates_removed"], about["near_duplicates_of_train"]
    print(
        f"exact duplicates removed: {removed['within_parts']} within a part, {removed['across_parts']} across parts "
        f"({removed['other_label']} of them with another label); near duplicates of train pictures (perceptual hash): "
        + ", ".join(f"{count} in {split}" for split, count in near.items())
    )
    if about["unreadable"]:
        print(f"left out because unreadable: {', '.join(about['unreadable'])}")


def verify(tasks: Sequence[str]) -> None:
    """Verifies prepared data; names what has changed."""
    ready = [(name, origin) for name, origin in prepared.all_ready() if not tasks or name in tasks]
    missing = set(tasks) - {name for name, _ in ready}
    if missing:
        raise BadInput(unknown("prepared data set", sorted(missing)[0], [name for name, _ in prepared.all_ready()]))
    if not ready:
        print(f"nothing is prepared under {prepared.data_root()}")
    wrong = 0
    for name, origin in ready:
        problems = prepared.verify(name, origin)
        print(f"{name} ({origin}): {'sound' if not problems else 'DAMAGED'}")
        for problem in problems:
            print(f"  {problem}")
        wrong += bool(problems)
    if wrong:
        print(f"{wrong} of {len(ready)} are damaged: prepare or import them again with --force")
        sys.exit(_INCOMPLETE)


def show(task: str, out: Path) -> None:
    """Prints counts and histograms of a data set and writes its contact sheet."""
    from nevis_stream.datasets import show as showing
    from nevis_stream.datasets.splits import divide

    tasks = {row["canonical_id"]: row["dataset_id"] for row in catalogue.table("nevis22_tasks")}
    dataset_id = tasks.get(task, task)
    if dataset_id in catalogue.datasets():
        source = catalogue.datasets()[dataset_id]["source"]
    elif prepared.is_ready(dataset_id, "local"):
        source = f"local:{dataset_id}"
    else:
        raise BadInput(unknown("task", task, [*tasks, *catalogue.datasets()]))
    dataset = sources.load(dataset_id, source)
    splits = divide(dataset)
    console = _console()
    origin = " (imported: does not stand for the published task)" if dataset.local else ""
    console.print(f"{task}: {dataset.kind}, {dataset.num_classes} classes{origin}", highlight=False)
    counts = showing.class_counts(splits, dataset.kind, dataset.num_classes)
    table = Table("class", *splits, "share", title="samples by class id")
    total = sum(counts.values())
    most = max(int(total.max()), 1)
    for number in range(dataset.num_classes):
        bar = "█" * round(30 * int(total[number]) / most)
        table.add_row(str(number), *(str(int(counts[name][number])) for name in splits), bar)
    table.add_section()
    table.add_row("all", *(str(len(samples)) for samples in splits.values()), "")
    console.print(table)
    sizes = Table("longer side, pixels", "pictures", title="resolutions")
    for name, count in showing.resolutions(splits):
        sizes.add_row(name, f"{count:,}")
    console.print(sizes)
    path = out / f"{task}.png"
    showing.contact_sheet(splits, dataset.kind, dataset.num_classes, path)
    print(f"contact sheet: {path} (a row for each of the first {showing.MOST_CLASSES} classes, train split)")


def overlap(stream: str, form: str) -> None:
    """Prints which later test pictures earlier tasks of a stream train on."""
    from nevis_stream.datasets import overlap as finding
    from nevis_stream.stream import load_stream

    loaded = load_stream(stream)
    by_dataset = {task.dataset_id: task for task in reversed(loaded.tasks)}

    def hashes_of(dataset_id: str, split: str):
        samples = loaded.splits(by_dataset[dataset_id])[split]
        for origin in prepared.ORIGINS:
            if prepared.is_ready(dataset_id, origin) and prepared.about(dataset_id, origin)["fingerprint"] == loaded.dataset(
                by_dataset[dataset_id]
            ).known_fingerprint:
                tensors = prepared.index(dataset_id, origin, split)
                return tensors["sha256"].copy().view("S32").ravel(), tensors["dhash"]
        return finding.hashes(samples)

    with _bar("overlap") as progress:
        found = finding.find([(task.task_id, task.dataset_id) for task in loaded.tasks], hashes_of, progress)
    columns = ("task_id", "split", "earlier", "exact", "near", "samples")
    if form == "csv":
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows([getattr(row, column) for column in columns] for row in found)
        return
    table = Table(*columns, title=f"{stream}: pictures of later splits that stand in an earlier task's train or dev split")
    for row in found:
        table.add_row(*(str(getattr(row, column)) for column in columns))
    console = _console()
    if found:
        console.print(table)
        console.print("exact: the same pixels; near: another picture with the same perceptual hash, only a hint.")
    else:
        print(f"{stream}: no picture of a later dev_test or test split stands in an earlier task's train or dev split.")


