"""Streams: tasks with their data in a fixed order; and schedules, which say what event follows."""

import functools
import hashlib
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import astuple, fields, replace
from pathlib import Path
from typing import Any

from nevis_stream import catalogue
from nevis_stream.datasets import sources, splits
from nevis_stream.datasets.dataset import SINGLE_LABEL, DataSet, Samples, make_dataset
from nevis_stream.datasets.reading import Choices, Reading
from nevis_stream.datasets.splits import Overlap, divide
from nevis_stream.datasets.splits import remove_overlaps as without_copies
from nevis_stream.errors import BadInput, DataWarning, plural, unknown
from nevis_stream.progress import SILENT, Progress
from nevis_stream.run_directory.ledger import History
from nevis_stream.run_directory.records import EventRecord, TrainRecord
from nevis_stream.storage.tables import check_marker, check_name, format_csv, quote
from nevis_stream.streams.rows import (
    DISJOINT,
    PARTIAL,
    SINGLE_HEAD,
    has_suffix,
    is_stream,
    read_fixed_rows,
    strip_suffixes,
)
from nevis_stream.streams.task import Event, Task
from nevis_stream.vocabulary import (
    ALL_SEEN,
    META_TRAIN,
    PROTOCOLS,
    SPLITS,
    TASK_MARKERS,
    YEARS,
)

_SHOWN = 8  # missing data sets in an error message


class Schedule:
    """Says which event of a run follows: here each task of the stream is trained on, then
    predicted, in order.

    A schedule whose next event depends on the results so far is a subclass with a `rule` and its
    own `next`; the tasks of its stream are the pool from which it draws
    (docs/adding-a-stream.md).

    Attributes:
      rule: names what determines the next event, with all its parameters, if that is not the order
        of the tasks; part of the stream's digest.
      probes: splits that are predicted for the rule, besides the one that the protocol judges.
      protocols: those under which a run is possible.
    """

    rule: str | None = None
    probes: tuple[str, ...] = ()
    protocols: Collection[str] = tuple(PROTOCOLS)

    def next(self, stream: "Stream", history: History) -> Event | None:
        """Returns the event that follows these records, or None at the end of the run.

        It must depend on the stream and the records alone, so that a killed run continues with the
        same events.

        Args:
          stream: whose schedule this is.
          history: the records of a run, from the header on.
        """
        done = {record.key for record in history.events}
        events = stream.events(history.header.protocol)
        return next((event for event in events if event.key not in done), None)


class Stream:
    """Tasks with their data, in the order in which a learner gets them.

    Args:
      name: shown in ledgers and reports.
      tasks: rows with rising `order`, and years that do not fall.
      load: returns a task's data set; called once for each dataset_id.
      chronological: whether years must not fall; False for a stream whose order was drawn.
      partial: whether tasks of the named stream are left out because their data are not on this
        machine.
      disjoint: whether images that an earlier task has are left out (`datasets.disjoint`).
      schedule: says which event of a run follows, and may draw the tasks' training sets.
      single_head: whether the tasks' classes are one set (`TaskView`).

    Raises:
      BadInput: no task, a repeated task_id, or orders or years that fall.
    """

    def __init__(
        self,
        name: str,
        tasks: Sequence[Task],
        load: Callable[[str], DataSet],
        *,
        chronological: bool = True,
        partial: bool = False,
        disjoint: bool = False,
        schedule: Schedule | None = None,
        single_head: bool = False,
    ):
        self.name, self.schedule = name, schedule or Schedule()
        self.single_head = single_head
        self._events = functools.cache(self._list_events)
        self._partial, self._disjoint = partial, disjoint
        self.tasks = tuple(tasks)
        self._load = functools.cache(load)
        self._whole = functools.cache(lambda dataset_id: divide(self._load(dataset_id)))
        self._divide = functools.cache(
            lambda dataset_id: (
                self._without_copies[dataset_id] if disjoint else self._whole(dataset_id)
            )
        )
        self._fingerprint = functools.cache(lambda dataset_id: self._load(dataset_id).fingerprint())
        if not self.tasks:
            raise BadInput(f"stream {name!r} has no task.")
        self._leaked = functools.cache(
            lambda dataset_id, split: splits.count_leaks(self._divide(dataset_id), split)
        )
        seen: set[str] = set()
        for before, task in zip((None, *self.tasks), self.tasks, strict=False):
            for column in ("task_id", "dataset_id"):
                check_name(getattr(task, column), f"stream {name!r}: {column}")
            check_marker(task.task_id, f"stream {name!r}: task_id", TASK_MARKERS)
            if not YEARS[0] <= task.year <= YEARS[1]:
                raise BadInput(
                    f"stream {name!r}: the year of task {task.task_id!r} is {task.year}; valid:"
                    f" {YEARS[0]} to {YEARS[1]}."
                )
            if task.task_id in seen:
                raise BadInput(
                    f"stream {name!r}: task_id {task.task_id!r} occurs twice; a repeat needs its"
                    " own id."
                )
            if before and (
                task.order <= before.order or (chronological and task.year < before.year)
            ):
                raise BadInput(
                    f"stream {name!r}: task {task.task_id!r} (order {task.order}, year {task.year})"
                    f" follows {before.task_id!r} (order {before.order}, year {before.year});"
                    " orders must rise and years must not fall."
                )
            seen.add(task.task_id)

    def __repr__(self) -> str:
        years = f"{self.tasks[0].year} to {self.tasks[-1].year}"
        return f"Stream {self.name}: {plural(len(self.tasks), 'task')}, {years}"

    @classmethod
    def from_datasets(
        cls, name: str, datasets: Sequence[DataSet], years: Sequence[int], meta_test: int = 0
    ) -> "Stream":
        """Returns a stream of data sets in memory.

        Args:
          name: shown in ledgers and reports.
          datasets: in order; a repeat is a task of its own.
          years: one for each.
          meta_test: how many of the last tasks are judged.

        Raises:
          BadInput: another number of years than of data sets, more judged tasks than there are, or
            a data set of one class.
        """
        if len(years) != len(datasets):
            raise BadInput(
                f"stream {name!r}: has {plural(len(datasets), 'data set')} but"
                f" {plural(len(years), 'year')}; give one for each."
            )
        if not 0 <= meta_test <= len(datasets):
            raise BadInput(
                f"stream {name!r}: meta_test is {meta_test}: how many of its"
                f" {plural(len(datasets), 'task')} are judged, from the last; valid: 0 to"
                f" {len(datasets)}."
            )
        for dataset in datasets:
            if dataset.kind == SINGLE_LABEL and dataset.num_classes < 2:
                raise BadInput(
                    f"{dataset.dataset_id}: all its images are of one class; a task needs two"
                    " classes or more."
                )
        by_id = {dataset.dataset_id: dataset for dataset in datasets}
        tasks: list[Task] = []
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

    @classmethod
    def from_arrays(
        cls, name: str, tasks: Mapping[str, Any], years: Sequence[int], meta_test: int = 0
    ) -> "Stream":
        """Returns a stream of single-label tasks in memory.

        Args:
          name: shown in ledgers and reports.
          tasks: by name, in order: (images, labels), what yields pairs of an image and its label,
            or a dict of such by part, {"train": …, "test": …}, as `make_dataset` takes them.
          years: one for each.
          meta_test: how many of the last tasks are judged.

        Raises:
          BadInput: as `make_dataset` and `from_datasets`.
        """
        datasets = [
            make_dataset(
                task_id, SINGLE_LABEL, parts if isinstance(parts, Mapping) else {"all": parts}
            )
            for task_id, parts in tasks.items()
        ]
        return cls.from_datasets(name, datasets, years, meta_test)

    def with_schedule(
        self, schedule: Schedule, name: str | None = None, tasks: Sequence[Task] | None = None
    ) -> "Stream":
        """Returns a stream of the same data under another schedule, and, if they are given, another
        name and other tasks, which the schedule may order as it likes.
        """
        return Stream(
            name or self.name,
            self.tasks if tasks is None else tasks,
            self._load,
            chronological=False,
            partial=self._partial,
            disjoint=self._disjoint,
            schedule=schedule,
            single_head=self.single_head,
        )

    def dataset(self, task: Task) -> DataSet:
        """Returns the task's data set."""
        return self._load(task.dataset_id)

    def splits(self, task: Task) -> Mapping[str, Samples]:
        """Returns the task's four splits with labels and ids; for the runner only."""
        return self._divide(task.dataset_id)

    @functools.cached_property
    def _without_copies(self) -> Mapping[str, Mapping[str, Samples]]:
        """The splits of all data sets of a disjoint stream."""
        tasks = [(task.task_id, task.dataset_id) for task in self.tasks]
        try:
            kept, lines = without_copies(tasks, self._whole)
        except BadInput as error:
            raise BadInput(f"stream {self.name!r}: {error}") from None
        if lines:
            text = "; ".join(lines)
            warnings.warn(f"stream {self.name!r}: {text}.", DataWarning, stacklevel=2)
        return kept

    def splits_of(self, event: Event) -> Mapping[str, Samples]:
        """Returns the splits of an event's task, with what its schedule has drawn for it."""
        splits = self.splits(event.task)
        return {**splits, **event.draw.splits} if event.draw else splits

    def count_leaks(self, event: Event, split: str) -> int:
        """Returns how many images of a split have exact copies in the train or dev split."""
        if event.draw:
            return splits.count_leaks(self.splits_of(event), split)
        return self._leaked(event.task.dataset_id, split)

    def overlaps(self, progress: Progress = SILENT) -> list[Overlap]:
        """Returns how many images of later tasks earlier tasks train on; cached on disk."""
        tasks = [(task.task_id, task.dataset_id) for task in self.tasks]
        return splits.find_cached_overlaps(self.digest, tasks, self._divide, progress)

    def check(self, protocol: str) -> None:
        """Checks that the stream can be run under a protocol.

        Raises:
          BadInput: a protocol that is unknown or that the schedule does not have, or no task that
            it judges.
        """
        if protocol not in PROTOCOLS:
            raise BadInput(unknown("protocol", protocol, PROTOCOLS))
        if protocol == ALL_SEEN and self.schedule.rule:
            raise BadInput(
                f"stream {self.name!r}: protocol {protocol!r} needs a fixed order of tasks, and"
                f" here results decide on the next one ({self.schedule.rule})."
            )
        if protocol not in self.schedule.protocols:
            valid = ", ".join(map(repr, self.schedule.protocols))
            raise BadInput(
                f"stream {self.name!r}: it cannot be run under protocol {protocol!r}, since its"
                f" schedule has {valid} only."
            )
        judged = PROTOCOLS[protocol].meta_split
        if not any(task.meta_split == judged for task in self.tasks):
            raise BadInput(
                f"stream {self.name!r} has no task with meta_split {judged!r}, which protocol"
                f" {protocol!r} needs."
            )

    def events(self, protocol: str) -> tuple[Event, ...]:
        """Returns all events of a run, in order: each task is trained on, then predicted.

        Args:
          protocol: "meta_test": the test split of every task is predicted; "meta_train": only the
            tasks of S_Tr are used, and their dev_test split is predicted; "all_seen": as
            "meta_test", and after each task the earlier ones are predicted again.

        Raises:
          BadInput: as `check`; or the events depend on results.

        Source: NEVIS'22, Algorithm 1.
        """
        self.check(protocol)
        if rule := self.schedule.rule:
            raise BadInput(
                f"stream {self.name!r}: its events depend on the results of a run ({rule}), so they"
                " are not known beforehand; start the run without --dry_run."
            )
        return self._events(protocol)

    def _list_events(self, protocol: str) -> tuple[Event, ...]:
        split = PROTOCOLS[protocol].split
        events: list[Event] = []
        met: list[Task] = []
        for task in self.tasks:
            if protocol == META_TRAIN and task.meta_split != "train":
                continue
            events += Event(task), Event(task, split)
            if protocol == ALL_SEEN:
                events += [Event(earlier, split, after=task.task_id) for earlier in met]
            met.append(task)
        return tuple(events)

    def length(self, protocol: str) -> tuple[int | None, int | None]:
        """Returns how many tasks and how many events a run has; None if that depends on results."""
        if self.schedule.rule:
            return None, None
        events = self.events(protocol)
        return sum(event.split is None for event in events), len(events)

    @functools.cached_property
    def csv(self) -> str:
        """The tasks as csv text, with the sizes of their splits and fingerprints of their data, and
        what was chosen for the reading of their files.
        """
        return self._format(quote)

    def _format(self, mark: Callable[[Any], Any]) -> str:
        columns = [f.name for f in fields(Task)]
        chosen, rows = self._chosen, list[list]()
        for task in self.tasks:
            sizes = [len(self.splits(task)[split]) for split in SPLITS]
            choices = [values.get(task.dataset_id, "") for values in chosen.values()]
            rows.append([*astuple(task), *sizes, self._fingerprint(task.dataset_id), *choices])
        columns += [*(f"n_{split}" for split in SPLITS), "fingerprint", *chosen]
        return format_csv(columns, rows, mark)

    @property
    def _chosen(self) -> dict[str, dict[str, str]]:
        """What was chosen for the reading of data sets, by choice and dataset_id."""
        chosen: dict[str, dict[str, str]] = {}
        for dataset_id, reading in self.readings.items():
            # those of prepared data are kept with these
            if self._load(dataset_id).known_fingerprint is None:
                for name, value in reading.choices.items():
                    if name != "kind":  # a column of its own
                        chosen.setdefault(name, {})[dataset_id] = value
        return chosen

    @property
    def readings(self) -> dict[str, Reading]:
        """What the files of data sets were understood as, by dataset_id, where they are known."""
        datasets = {task.dataset_id: self._load(task.dataset_id) for task in self.tasks}
        return {name: each.reading for name, each in datasets.items() if each.reading}

    @functools.cached_property
    def digest(self) -> str:
        """16 hex digits that change with any row, pixel, label or split, and with the rule.

        `-local` is appended if a data set of the catalogue was imported from the user's own file,
        `-partial` if tasks are left out, and `-disjoint` if images are that earlier tasks have.
        """
        local = any(self._load(task.dataset_id).local for task in self.tasks)
        marks = "-local" * local + "-disjoint" * self._disjoint + "-partial" * self._partial
        # without quotes, as earlier versions wrote the table: their digests hold
        content = self._format(lambda cell: cell) + (self.schedule.rule or "")
        return hashlib.sha256(content.encode()).hexdigest()[:16] + marks


def replay(stream: Stream, history: History) -> Iterator[tuple[int, EventRecord, Event | None]]:
    """Yields the place of each event's record in a run, the record, and the event that the stream
    gives there now.

    Raises:
      BadInput: a training set is not drawn again as the run recorded it.
    """
    for place, record in enumerate(history.records):
        if not isinstance(record, EventRecord):
            continue
        event = stream.schedule.next(stream, History(history.run_dir, history.records[:place]))
        if event and event.key == record.key and isinstance(record, TrainRecord):
            drawn = event.draw and event.draw.digest
            if record.drawn not in (None, drawn):  # earlier versions recorded nothing
                raise BadInput(
                    f"stream {stream.name!r}: the training set of {event.task.task_id!r} is not"
                    " drawn again as it was. What a rule draws must depend on the candidates alone:"
                    " not on the process, the time or other files. If these have changed since, put"
                    " them back as they were, or begin a new run."
                )
        yield place, record, event


def load_fixed(name_or_csv: str) -> Stream:
    """Returns a stream whose rows are known before any result.

    Args:
      name_or_csv: as `named_streams.load_stream` takes it, but not "adaptive:…".

    Raises:
      BadInput: as `read_fixed_rows`; or data sets are not on this machine: the message says how to
        get them.
    """
    origin, rows = read_fixed_rows(name_or_csv)
    chronological = catalogue.is_chronological(strip_suffixes(name_or_csv))
    return build_stream(name_or_csv, origin, rows, chronological)


def build_stream(
    name_or_csv: str, origin: str, rows: Sequence[Mapping[str, str]], chronological: bool
) -> Stream:
    """Returns the stream of some rows (`read_fixed_rows`), whose data must be on this machine.

    Args:
      name_or_csv: of the stream.
      origin: of the rows, for messages.
      rows: as `read_fixed_rows` returns them.
      chronological: whether years must not fall.

    Raises:
      BadInput: rows that contradict each other, or data sets that are not on this machine.
    """
    first: dict[str, tuple[int, str]] = {}
    for line, row in enumerate(rows, start=2):
        line_before, source_before = first.setdefault(row["dataset_id"], (line, row["source"]))
        if row["source"] != source_before:
            raise BadInput(
                f"{origin}, line {line}: the source of data set {row['dataset_id']!r} is"
                f" {row['source']}, but in line {line_before} it is {source_before}. A repeat must"
                " have the same source; for another file choose another dataset_id."
            )
    missing = {
        row["dataset_id"]: state
        for row in rows
        if row["source"].partition(":")[0] in ("nevis22", "local", "classes")
        and not (state := sources.find_state(row["source"])).ready
    }
    if missing and not has_suffix(name_or_csv, PARTIAL):
        raise BadInput(_missing(name_or_csv, missing))
    present = {row["dataset_id"]: row for row in rows if row["dataset_id"] not in missing}
    if missing and not present:
        raise BadInput(
            f"stream {name_or_csv!r}: the data of all its {len(rows)} tasks are missing on this"
            " machine."
        )

    @functools.cache
    def load(dataset_id: str) -> DataSet:
        row = present[dataset_id]
        return sources.load(dataset_id, row["source"], Choices.of_row(row))

    base, disjoint = strip_suffixes(name_or_csv), has_suffix(name_or_csv, DISJOINT)
    single_head = has_suffix(name_or_csv, SINGLE_HEAD)
    name = Path(base).stem if base.endswith(".csv") else base
    tasks = [_task(row, load) for row in rows if row["dataset_id"] in present]
    offsets: dict[str, int] = {}
    if single_head:
        tasks, offsets = _share_head(name_or_csv, tasks)

    def load_numbered(dataset_id: str) -> DataSet:
        dataset = load(dataset_id)
        return dataset.with_offset(offsets[dataset_id]) if single_head else dataset

    return Stream(
        name + DISJOINT * disjoint + SINGLE_HEAD * single_head,
        tasks,
        load_numbered,
        chronological=chronological,
        partial=bool(missing),
        disjoint=disjoint,
        single_head=single_head,
    )


def _share_head(name: str, tasks: Sequence[Task]) -> tuple[list[Task], dict[str, int]]:
    """Returns tasks whose classes are those of all tasks so far, and by data set how many come
    before its own; a repeat has the classes of its first task.

    Raises:
      BadInput: a task is multi-label.
    """
    offsets: dict[str, int] = {}
    shared, classes = [], 0
    for task in tasks:
        if task.kind != SINGLE_LABEL:
            raise BadInput(
                f"stream {name!r}: task {task.task_id!r} is {task.kind}; with {SINGLE_HEAD} all"
                " tasks are single_label, since each image is of one class of one set."
            )
        if task.dataset_id not in offsets:
            offsets[task.dataset_id] = classes
            classes += task.num_classes
        shared.append(replace(task, num_classes=classes))
    return shared, offsets


def _task(row: Mapping[str, str], load: Callable[[str], DataSet]) -> Task:
    """Returns a row's task; the data set is loaded only if the row lacks kind or classes."""
    kind, classes = row["kind"], int(row["num_classes"] or 0)
    if not (kind and row["num_classes"]):
        dataset = load(row["dataset_id"])
        kind, classes = dataset.kind, dataset.num_classes
    return Task(
        order=int(row["order"]),
        year=int(row["year"]),
        task_id=row["task_id"],
        dataset_id=row["dataset_id"],
        meta_split=row["meta_split"],
        kind=kind,
        domain=row["domain"] or "unstated",
        num_classes=classes,
    )


def _missing(name: str, missing: Mapping[str, sources.DataState]) -> str:
    verb = "is" if len(missing) == 1 else "are"
    lines = [f"stream {name!r}: {plural(len(missing), 'data set')} {verb} not on this machine:"]
    lines += [
        f"  {dataset_id} ({state.name}): {state.advice}"
        for dataset_id, state in list(missing.items())[:_SHOWN]
    ]
    stream = is_stream(name)  # a pool of data sets has no commands of its own
    if len(missing) > _SHOWN:
        command = f": python -m launch.data list --stream={name}" if stream else ""
        lines.append(f"  … and {len(missing) - _SHOWN} more{command}")
    if stream:
        lines += [
            f"To prepare all that can be downloaded: python -m launch.data prepare --stream={name}",
            f"To run only the tasks whose data are there, marked as partial, write {name}{PARTIAL}"
            f" instead of {name}.",
        ]
    return "\n".join(lines)
