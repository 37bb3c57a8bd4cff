"""The tables that the package carries, as csv files next to this module.

Reading them loads only the standard library.

| file                   | rows                                                                          |
|------------------------|-------------------------------------------------------------------------------|
| `nevis22_tasks.csv`    | the 106 tasks of NEVIS'22 in stream order (Table L), contradictions decided and noted |
| `nevis22_datasets.csv` | their 97 data sets: where each is, how it is laid out, what is wrong with it   |
| `nevis22_lists.csv`    | published lists that no rule gives: SHORT, TINY, DEBUG, …                      |
| `published.csv`        | published results of four learners on 104 of the tasks, percent (Appendix N)   |
| `published_variants.csv` | published errors of FT-d on variants of the stream (Table 5)                    |
| `layouts.toml`         | how each data set is read from its files (see nevis_stream.datasets.raw_formats)   |
| `embedded.csv`         | data sets made of images that installed packages carry                         |
| `shared.csv`           | small files of real data sets in the folder of shared data sets                |
| `streams/*.csv`        | streams of these                                                               |
"""  # noqa: E501

import functools
import tomllib
from pathlib import Path
from typing import Any

from nevis_stream.storage.reading import read_table

_DIRECTORY = Path(__file__).parent


def read_csv(path: Path) -> list[dict[str, str]]:
    """Returns the rows of a csv file as dicts of stripped strings.

    Raises:
      BadInput: the file cannot be read as such a table; the message names the line.
    """
    return [row for _, row in read_table(path, str(path), {}).records()]


@functools.cache
def table(name: str) -> tuple[dict[str, str], ...]:
    """Returns the rows of a carried table by its file's name without suffix."""
    return tuple(read_csv(_DIRECTORY / f"{name}.csv"))


@functools.cache
def nevis22_datasets() -> dict[str, dict[str, str]]:
    """Returns the rows of the 97 data sets by dataset_id."""
    return {row["dataset_id"]: row for row in table("nevis22_datasets")}


@functools.cache
def shared() -> dict[str, dict[str, str]]:
    """Returns the rows of the shared files by dataset_id."""
    return {row["dataset_id"]: row for row in table("shared")}


@functools.cache
def file_layouts() -> dict[str, dict[str, Any]]:
    """Returns by dataset_id how its files are read.

    A variant (`like`) is joined with the layout that it changes.
    """
    rows = tomllib.loads((_DIRECTORY / "layouts.toml").read_text(encoding="utf-8"))
    return {name: rows[row["like"]] | row if "like" in row else row for name, row in rows.items()}


@functools.cache
def datasets() -> dict[str, dict[str, str]]:
    """Returns every known data set by dataset_id: name, kind, domain, num_classes, source.

    num_classes is empty where the files decide it.
    """
    rows = {row["dataset_id"]: row for row in table("embedded")}
    domains = {row["dataset_id"]: row["domain"] for row in reversed(table("nevis22_tasks"))}
    for name, row in nevis22_datasets().items():
        rows[name] = {
            "name": row["paper_name"], "kind": "", "domain": domains[name], "num_classes": "", "source": f"nevis22:{name}",  # noqa: E501
        }  # fmt: skip
    for name, row in file_layouts().items():
        if "like" in row:
            rows[name] = rows[row["like"]] | {"source": f"nevis22:{name}"}
    for name, row in shared().items():
        rows.setdefault(name, row | {"kind": "", "num_classes": "", "source": f"local:{name}"})
    return rows


def carried_streams() -> tuple[str, ...]:
    """Returns the names of the streams that are csv files."""
    return tuple(sorted(path.stem for path in (_DIRECTORY / "streams").glob("*.csv")))


def stream_path(name: str) -> Path:
    """Returns the csv file of a carried stream."""
    return _DIRECTORY / "streams" / f"{name}.csv"
