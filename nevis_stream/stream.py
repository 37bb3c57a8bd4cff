"""Streams: tasks in the order of their years, and the events that they make."""

import csv
import functools
import hashlib
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path

from nevis_stream import catalogue
from nevis_stream.datasets import sources
from nevis_stream.datasets.dataset import KINDS, DataSet, Samples
from nevis_stream.datasets.splits import divide
from nevis_stream.errors import BadInput, unknown
from nevis_stream.task import SPLITS, Task

PROTOCOLS = ("meta_test", "meta_train")
META_SPLITS = ("train", "test")
COLUMNS = ("order", "year", "task_id", "dataset_id", "meta_split")
OPTIONAL_COLUMNS = ("path", "kind", "domain", "num_classes")


@dataclass(frozen=True)
class Event:
    """One step of a run: train on a task, or predict one of its splits.

    Attributes:
      index: position among the events, from 0.
      kind: "train" or "predict".
      task: the task.
      split: the split to predict, None for a train event.
    """

    index: int
    kind: str
    task: Task
    split: str | None


class Stream:
    """Named tasks in chronological order, with their data.

    Args:
      name: shown in ledgers and reports.
      tasks: rows by ascending `order`, years not descending.
      load: returns a task's data set; called once for each dataset_id.

    Raises:
      BadInput: no task, a repeated task_id, or orders or years that go back.
    """

    def __init__(self, name: str, tasks: Sequence[Task], load: Callable[[str], DataSet]):
        self.name = name
        self.tasks = tuple(tasks)
        self._load = functools.cache(load)
        self._divide = functools.cache(lambda dataset_id: divide(self._load(dataset_id)))
        if not self.tasks:
            raise BadInput(f"stream {name!r} has no task.")
        seen: set[str] = set()
        for before, task in zip((None, *self.tasks), self.tasks, strict=False):
            if task.task_id in seen:
                raise BadInput(f"stream {name!r}: task_id {task.task_id!r} stands twice; a repeat needs its own.")
            if before and (task.order <= before.order or task.year < before.year):
                raise BadInput(
                    f"stream {name!r}: task {task.task_id!r} (order {task.order}, year {task.year}) stands behind "
                    f"{before.task_id!r} (order {before.order}, year {before.year}); orders rise, years never fall."
                )
            seen.add(task.task_id)

    @classmethod
    def from_datasets(
        cls, name: str, datasets: Sequence[DataSet], years: Sequence[int], meta_test: int = 0
    ) -> "Stream":
        """Makes a stream of data sets in memory, one task each; the last `meta_test` of them are the meta-test part."""
        by_id = {dataset.dataset_id: dataset for dataset in datasets}
        tasks = []
        for position, (dataset, year) in enumerate(zip(datasets, years, strict=True)):
            earlier = sum(task.dataset_id == dataset.dataset_id for task in tasks)
            tasks.append(
                Task(
                    order=position + 1,
                    year=year,
                    task_id=dataset.dataset_id + (f"_{earlier + 1}" if earlier else ""),
                    dataset_id=dataset.dataset_id,
                    meta_split="test" if position >= len(datasets) - meta_test else "train",
                    kind=dataset.kind,
                    domain="unstated",
                    num_classes=dataset.num_classes,
                )
            )
        return cls(name, tasks, by_id.__getitem__)

    def dataset(self, task: Task) -> DataSet:
        """Returns the task's data set."""
        return self._load(task.dataset_id)

    def splits(self, task: Task) -> Mapping[str, Samples]:
        """Returns the task's train, dev, dev_test and test samples, with labels and ids: for the runner's eyes."""
        return self._divide(task.dataset_id)

    def events(self, protocol: str) -> tuple[Event, ...]:
        """Returns the events of Algorithm 1 (NEVIS'22, section 3).

        Args:
          protocol: "meta_test": every task is trained on and its test split predicted; "meta_train": only tasks of
            S_Tr, and their dev_test split is predicted.

        Raises:
          BadInput: unknown protocol, or no task to judge under it.
        """
        if protocol not in PROTOCOLS:
            raise BadInput(unknown("protocol", protocol, PROTOCOLS))
        judged = "test" if protocol == "meta_test" else "train"
        tasks = [t for t in self.tasks if protocol == "meta_test" or t.meta_split == "train"]
        if not any(task.meta_split == judged for task in tasks):
            raise BadInput(
                f"stream {self.name!r} has no task with meta_split {judged!r}, so protocol {protocol!r} judges nothing."
            )
        split = "test" if protocol == "meta_test" else "dev_test"
        events: list[Event] = []
        for task in tasks:
            events.append(Event(len(events), "train", task, None))
            events.append(Event(len(events), "predict", task, split))
        return tuple(events)

    @functools.cached_property
    def csv(self) -> str:
        """The tasks as csv text, with the sizes of their splits and the fingerprint of their data."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow([f.name for f in fields(Task)] + [f"n_{split}" for split in SPLITS] + ["fingerprint"])
        for task in self.tasks:
            sizes = [len(self.splits(task)[split]) for split in SPLITS]
            writer.writerow([*astuple(task), *sizes, self._fingerprint(task.dataset_id)])
        return out.getvalue()

    @functools.cached_property
    def _fingerprint(self) -> Callable[[str], str]:
        return functools.cache(lambda dataset_id: self._load(dataset_id).fingerprint())

    @property
    def digest(self) -> str:
        """16 hex digits that change with any row, pixel, label or split of the stream."""
        return hashlib.sha256(self.csv.encode()).hexdigest()[:16]


def load_stream(name_or_csv: str) -> Stream:
    """Returns a stream by the lower-case name under which the package carries it, or from a csv file of rows.

    Args:
      name_or_csv: "pico", … or the path of a csv with the columns order, year, task_id, dataset_id, meta_split and,
        where the data set is not in the catalogue, path (relative to the csv), with kind, domain and num_classes
        optional.

    Raises:
      BadInput: unknown name, missing file or column, or a row that cannot be used; the message names the line.
    """
    if name_or_csv in catalogue.stream_names():
        path = catalogue.stream_path(name_or_csv)
    else:
        path = Path(name_or_csv)
        if path.suffix != ".csv":
            raise BadInput(f"{unknown('stream', name_or_csv, catalogue.stream_names())} Or give the path of a .csv.")
        if not path.is_file():
            raise BadInput(f"{path}: no such file; a stream is a name ({', '.join(catalogue.stream_names())}) or a csv.")
    rows = catalogue.read_csv(path)
    missing = [column for column in COLUMNS if rows and column not in rows[0]]
    if missing:
        raise BadInput(f"{path}: lacks the columns {', '.join(missing)}; a stream needs {', '.join(COLUMNS)}.")
    loaders: dict[str, Callable[[], DataSet]] = {}
    described = [_describe(path, line, row) for line, row in enumerate(rows, start=2)]
    first: dict[str, tuple[int, str]] = {}
    for line, (row, about) in enumerate(zip(rows, described, strict=True), start=2):
        dataset_id, source = row["dataset_id"], about["source"]
        line_before, source_before = first.setdefault(dataset_id, (line, source))
        if source != source_before:
            raise BadInput(
                f"{path}, line {line}: data set {dataset_id!r} is {source} here but {source_before} in line {line_before}; "
                "a repeat has the same source, another file another dataset_id."
            )
        loaders.setdefault(dataset_id, functools.cache(_loader(dataset_id, about)))
    tasks = []
    for line, (row, about) in enumerate(zip(rows, described, strict=True), start=2):
        kind, classes = about["kind"], about["num_classes"]
        if not (kind and classes):
            dataset = loaders[row["dataset_id"]]()
            kind, classes = dataset.kind, dataset.num_classes
        tasks.append(
            Task(
                order=_integer(path, line, row, "order"),
                year=_integer(path, line, row, "year"),
                task_id=_name(path, line, row, "task_id"),
                dataset_id=_name(path, line, row, "dataset_id"),
                meta_split=row["meta_split"],
                kind=kind,
                domain=about["domain"] or "unstated",
                num_classes=int(classes),
            )
        )
    return Stream(path.stem, tasks, lambda dataset_id: loaders[dataset_id]())


def _describe(path: Path, line: int, row: Mapping[str, str]) -> dict[str, str]:
    """Joins a stream's row with the catalogue's: where its data are and what is known of them."""
    if row["meta_split"] not in META_SPLITS:
        raise BadInput(f"{path}, line {line}: {unknown('meta_split', row['meta_split'], META_SPLITS)}")
    if row.get("path"):
        about = {column: row.get(column, "") for column in OPTIONAL_COLUMNS}
        about["source"] = f"file:{(path.parent / row['path']).resolve()}"
    elif row["dataset_id"] in catalogue.datasets():
        about = dict(catalogue.datasets()[row["dataset_id"]])
    else:
        known = unknown("dataset_id", row["dataset_id"], catalogue.datasets())
        raise BadInput(f"{path}, line {line}: {known} Or name its file in a column `path`.")
    if about["kind"] not in ("", *KINDS):
        raise BadInput(f"{path}, line {line}: {unknown('kind', about['kind'], KINDS)}")
    if about["num_classes"] and not about["num_classes"].isdigit():
        raise BadInput(f"{path}, line {line}: num_classes is {about['num_classes']!r}, not a whole number.")
    return about


def _loader(dataset_id: str, about: Mapping[str, str]) -> Callable[[], DataSet]:
    classes = int(about["num_classes"]) if about["num_classes"] else None
    return lambda: sources.load(dataset_id, about["source"], about["kind"] or None, classes)


def _integer(path: Path, line: int, row: Mapping[str, str], column: str) -> int:
    try:
        return int(row[column])
    except ValueError:
        raise BadInput(f"{path}, line {line}: {column} is {row[column]!r}, not a whole number.") from None


def _name(path: Path, line: int, row: Mapping[str, str], column: str) -> str:
    name = row[column]
    if not name or not all(char.isalnum() or char in "_-." for char in name) or name.startswith("."):
        raise BadInput(f"{path}, line {line}: {column} is {name!r}; use letters, digits, '_', '-' and '.'.")
    return name
