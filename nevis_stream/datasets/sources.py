"""Sources: strings that state where the samples of a data set come from.

| source            | meaning                                                                                             |
|-------------------|-----------------------------------------------------------------------------------------------------|
| `embedded:NAME`   | made from images that installed packages contain                                                    |
| `nevis22:ID`      | a data set of NEVIS'22: prepared from the published files, else `local:ID`                          |
| `local:ID`        | prepared from the user's file, else read directly from the folder of shared data sets                |
| `classes:ID.0-9`  | some classes of a data set; `ID.s3.0-9` in the order drawn with seed 3                              |
| `shared:PATH`     | a file below the folder of shared data sets (NEVIS_STREAM_SHARED, else `shared` next to the project) |
| `file:PATH`       | a file or directory of the user                                                                     |
"""  # noqa: E501

import dataclasses
import functools
import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

from nevis_stream import catalogue
from nevis_stream.datasets import prepared
from nevis_stream.datasets.choices import Choices
from nevis_stream.datasets.dataset import DataSet
from nevis_stream.datasets.shared_files import shared_directory
from nevis_stream.datasets.states import (
    CLASSES_MISSING,
    DOWNLOADABLE,
    FILE_MISSING,
    OUTDATED,
    READY,
)
from nevis_stream.errors import BadInput, unknown

SCHEMES = ("embedded", "nevis22", "local", "classes", "shared", "file")


@dataclass(frozen=True)
class DataState:
    """Whether a data set can be used on this machine.

    Attributes:
      name: "ready", or a key of `states.MEANINGS`.
      advice: what to do if it is not ready.
      origin: if it is ready: "published", "local" (imported), "shared file", "embedded" or "file".
      kind, num_classes: those of the data on this machine, if known without reading them; they may
        differ from those of the published data set.
    """

    name: str
    advice: str = ""
    origin: str = ""
    kind: str = ""
    num_classes: int | None = None

    @property
    def ready(self) -> bool:
        """Whether it can be learned from now."""
        return self.name == READY


def state(source: str) -> DataState:
    """Returns whether a data set can be used on this machine; reads no sample."""
    scheme, _, rest = source.partition(":")
    if scheme == "embedded":
        return DataState(READY, origin=scheme)
    if scheme == "classes":
        return _state_of_classes(*_subset(rest))
    if scheme == "nevis22" and prepared.is_ready(rest, "published"):
        return _state_of_prepared(rest, "published")
    if scheme in ("nevis22", "local"):
        if prepared.is_ready(rest, "local"):
            return _state_of_prepared(rest, "local")
        shared_row = catalogue.shared().get(rest)
        if shared_row and (shared_directory() / shared_row["file"]).exists():
            return DataState(
                READY,
                origin="shared file",
                kind=shared_row["kind"],
                num_classes=int(shared_row["num_classes"]),
            )
        if scheme == "local" or rest not in catalogue.file_layouts():
            return DataState(FILE_MISSING, f"python -m launch.data import FILE --task={rest}")
        from nevis_stream.datasets.preparation import fetch

        plan = fetch.fetch_plan(rest)
        if plan.state == DOWNLOADABLE:
            return DataState(plan.state, f"python -m launch.data prepare --task={rest}")
        return DataState(plan.state, plan.advice)
    path = shared_directory() / rest if scheme == "shared" else Path(rest)
    return (
        DataState(READY, origin=scheme)
        if path.exists()
        else DataState(FILE_MISSING, f"put the file at {path}")
    )


def _state_of_prepared(dataset_id: str, origin: str) -> DataState:
    about = prepared.about(dataset_id, origin)
    if command := prepared.outdated(dataset_id, origin):
        return DataState(OUTDATED, command)
    return DataState(READY, origin=origin, kind=about["kind"], num_classes=about["num_classes"])


def _state_of_classes(dataset_id: str, classes: list[int]) -> DataState:
    """Returns the state of a task that has some of the classes of a data set."""
    whole = state(f"nevis22:{dataset_id}")
    if whole.ready and whole.num_classes is not None and max(classes) >= whole.num_classes:
        present = f"{dataset_id} on this machine ({whole.origin}) has {whole.num_classes} classes"
        return DataState(CLASSES_MISSING, f"{present}; this task needs class {max(classes)} too")
    return DataState(whole.name, whole.advice, whole.origin)


def load(dataset_id: str, source: str, choices: Choices | None = None) -> DataSet:
    """Loads a data set.

    Args:
      dataset_id: the name that the sample ids start with.
      source: one of the forms in the module's table.
      choices: what was chosen for the reading of a file; None: nothing.

    Raises:
      BadInput: unknown scheme, missing file (the message says how to get it), or wrong content.
    """
    scheme, _, rest = source.partition(":")
    if scheme == "embedded":
        from nevis_stream.datasets import embedded

        return embedded.build(rest)
    if scheme == "classes":
        base, classes = _subset(rest)
        return _whole(base).with_classes(dataset_id, classes)
    if scheme == "nevis22" and prepared.is_ready(rest, "published"):
        return prepared.load(rest, "published")
    if scheme in ("nevis22", "local"):
        if prepared.is_ready(rest, "local"):
            return prepared.load(rest, "local")
        shared_row = catalogue.shared().get(rest)
        if shared_row is None or not (shared_directory() / shared_row["file"]).exists():
            raise BadInput(
                f"data set {dataset_id!r} is not on this machine: {state(source).advice}"
            )
        read = load(
            dataset_id,
            f"shared:{shared_row['file']}",
            Choices.of_row(shared_row),
        )
        return dataclasses.replace(read, local=True)
    from nevis_stream.datasets.readers import read as read_file

    if scheme == "shared":
        path = shared_directory() / rest
        if not path.exists():
            raise BadInput(
                f"data set {dataset_id!r}: {path} does not exist. Put the file there, or name the"
                " folder of shared data sets in the environment variable NEVIS_STREAM_SHARED."
            )
        return read_file(path, dataset_id, choices)
    if scheme == "file":
        return read_file(Path(rest), dataset_id, choices)
    raise BadInput(f"data set {dataset_id!r}: {unknown('source scheme', scheme, SCHEMES)}")


@functools.lru_cache(maxsize=1)
def _whole(dataset_id: str) -> DataSet:
    """Loads the data set whose classes are divided among several tasks."""
    return load(dataset_id, f"nevis22:{dataset_id}")


def _subset(text: str) -> tuple[str, list[int]]:
    """Parses `cifar100.0-9` or `cifar100.s3.0-9`: data set and class ids."""
    match = re.fullmatch(
        r"(?P<dataset>[^.]+)(?:\.s(?P<seed>\d+))?\.(?P<first>\d+)-(?P<last>\d+)", text
    )
    if match is None or match["dataset"] not in catalogue.nevis22_datasets():
        raise BadInput(
            f"source classes:{text}: expected DATASET.FIRST-LAST or DATASET.sSEED.FIRST-LAST."
        )
    classes = list(range(int(catalogue.nevis22_datasets()[match["dataset"]]["num_classes"])))
    if match["seed"] is not None:
        classes.sort(key=lambda c: hashlib.sha256(f"classes/{match['seed']}/{c}".encode()).digest())
    return match["dataset"], classes[int(match["first"]) : int(match["last"]) + 1]
