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
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from nevis_stream import catalogue
from nevis_stream.catalogue import find_shared_directory
from nevis_stream.datasets import prepared
from nevis_stream.datasets.dataset import DataSet
from nevis_stream.datasets.embedded import DATASETS
from nevis_stream.datasets.prepared import (
    CLASSES_MISSING,
    DOWNLOADABLE,
    FILE_MISSING,
    OUTDATED,
    READY,
)
from nevis_stream.datasets.reading import Choices, silence_readings
from nevis_stream.errors import BadInput, look_up, unknown


@dataclass(frozen=True)
class DataState:
    """Whether a data set can be used on this machine.

    Attributes:
      name: "ready", or a key of `prepared.MEANINGS`.
      advice: what to do if it is not ready.
      origin: if it is ready: "published", "local" (imported), "shared file" (of `local:`),
        "shared" (of `shared:`), "embedded" or "file".
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


Load = Callable[[str, Choices | None], DataSet]
"""Loads a data set, given its name and what was chosen for the reading of a file."""


def find_state(source: str) -> DataState:
    """Returns whether a data set can be used on this machine; reads no sample.

    Raises:
      BadInput: unknown scheme.
    """
    return _find(source)[0]


def load(dataset_id: str, source: str, choices: Choices | None = None) -> DataSet:
    """Loads a data set.

    Args:
      dataset_id: the name that the sample ids start with.
      source: one of the forms in the module's table.
      choices: what was chosen for the reading of a file; None: nothing.

    Raises:
      BadInput: unknown scheme, missing file (the message says how to get it), or wrong content.
    """
    state, read = _find(source)
    if read is None:
        raise BadInput(f"data set {dataset_id!r} is not on this machine: {state.advice}")
    return read(dataset_id, choices)


def _find(source: str) -> tuple[DataState, Load | None]:
    """Returns the state of a data set, and what loads it; None if that is not possible."""
    scheme, _, rest = source.partition(":")
    if scheme not in _SCHEMES:
        raise BadInput(f"source {source!r}: {unknown('scheme', scheme, _SCHEMES)}")
    return _SCHEMES[scheme](rest)


def _embedded(name: str) -> tuple[DataState, Load]:
    return DataState(READY, origin="embedded"), lambda dataset_id, choices: build_embedded(name)


def build_embedded(name: str) -> DataSet:
    """Returns one of `embedded.DATASETS`, the same at every call.

    Raises:
      BadInput: the name is not known, or a package does not carry an image that is needed.
    """
    build = look_up(DATASETS, "embedded data set", name)
    with silence_readings():
        return dataclasses.replace(build(), reading=None)  # of no files


def _nevis22(name: str) -> tuple[DataState, Load | None]:
    if prepared.is_ready(name, "published"):
        return _prepared(name, "published")
    state, read = _local(name)
    if read or name not in catalogue.read_file_layouts():
        return state, read
    from nevis_stream.datasets.preparation import fetch

    plan = fetch.fetch_plan(name)
    download = f"python -m launch.data prepare --task={name}"
    return DataState(plan.state, download if plan.state == DOWNLOADABLE else plan.advice), None


def _local(name: str) -> tuple[DataState, Load | None]:
    if prepared.is_ready(name, "local"):
        return _prepared(name, "local")
    row = catalogue.read_shared_files().get(name)
    if row is None or not (find_shared_directory() / row["file"]).exists():
        return DataState(FILE_MISSING, f"python -m launch.data import FILE --task={name}"), None

    def read(dataset_id: str, choices: Choices | None) -> DataSet:
        dataset = load(dataset_id, f"shared:{row['file']}", Choices.of_row(row))
        return dataclasses.replace(dataset, local=True)

    classes = int(row["num_classes"])
    return DataState(READY, "", "shared file", row["kind"], classes), read


def _prepared(name: str, origin: str) -> tuple[DataState, Load]:
    about = prepared.read_about(name, origin)
    state = DataState(READY, "", origin, about["kind"], about["num_classes"])
    if command := prepared.suggest_preparing(name, origin):
        state = DataState(OUTDATED, command)
    return state, lambda dataset_id, choices: prepared.load(name, origin)


def _classes(text: str) -> tuple[DataState, Load]:
    """As `_find`, for a task that has some of the classes of a data set."""
    name, classes = _parse_classes(text)
    whole = find_state(f"nevis22:{name}")
    state = DataState(whole.name, whole.advice, whole.origin)
    if whole.ready and whole.num_classes is not None and max(classes) >= whole.num_classes:
        present = f"{name} on this machine ({whole.origin}) has {whole.num_classes} classes"
        lacks = f"{present}; this task needs class {max(classes)} too"
        state = DataState(CLASSES_MISSING, lacks)
    return state, lambda dataset_id, choices: _load_whole(name).with_classes(dataset_id, classes)


def _shared(path: str) -> tuple[DataState, Load | None]:
    state, read = _file(str(find_shared_directory() / path))
    if state.ready:
        return DataState(READY, origin="shared"), read
    named = "or name the folder of shared data sets in the environment variable NEVIS_STREAM_SHARED"
    return DataState(FILE_MISSING, f"{state.advice}, {named}."), None


def _file(path: str) -> tuple[DataState, Load]:
    def read(dataset_id: str, choices: Choices | None) -> DataSet:
        from nevis_stream.datasets import readers

        return readers.read(Path(path), dataset_id, choices)

    if Path(path).exists():
        return DataState(READY, origin="file"), read
    return DataState(FILE_MISSING, f"put the file at {path}"), read


_SCHEMES: Mapping[str, Callable[[str], tuple[DataState, Load | None]]] = {
    "embedded": _embedded,
    "nevis22": _nevis22,
    "local": _local,
    "classes": _classes,
    "shared": _shared,
    "file": _file,
}


@functools.lru_cache(maxsize=1)
def _load_whole(dataset_id: str) -> DataSet:
    """Loads the data set whose classes are divided among several tasks."""
    return load(dataset_id, f"nevis22:{dataset_id}")


def _parse_classes(text: str) -> tuple[str, list[int]]:
    """Parses `cifar100.0-9` or `cifar100.s3.0-9`: data set and class ids."""
    match = re.fullmatch(
        r"(?P<dataset>[^.]+)(?:\.s(?P<seed>\d+))?\.(?P<first>\d+)-(?P<last>\d+)", text
    )
    if match is None or match["dataset"] not in catalogue.read_nevis22_datasets():
        raise BadInput(
            f"source classes:{text}: expected DATASET.FIRST-LAST or DATASET.sSEED.FIRST-LAST."
        )
    classes = list(range(int(catalogue.read_nevis22_datasets()[match["dataset"]]["num_classes"])))
    if match["seed"] is not None:
        classes.sort(key=lambda c: hashlib.sha256(f"classes/{match['seed']}/{c}".encode()).digest())
    return match["dataset"], classes[int(match["first"]) : int(match["last"]) + 1]
