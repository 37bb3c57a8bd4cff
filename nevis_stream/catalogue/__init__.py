"""The tables that the package carries, as csv files next to this module, and the streams that are
filters, orders and joins of their rows; and the folders of data on this machine.

Reading them loads neither NumPy nor JAX.

| file                   | rows                                                                          |
|------------------------|-------------------------------------------------------------------------------|
| `nevis22_tasks.csv`    | the 106 tasks of NEVIS'22 in stream order (Table L), contradictions decided and noted |
| `nevis22_datasets.csv` | their 97 data sets: where each is, how it is laid out, what is wrong with it   |
| `nevis22_lists.csv`    | published streams that are lists of tasks: SHORT, TINY, DEBUG, …                |
| `published.csv`        | published results of four learners on 104 of the tasks, percent (Appendix N)   |
| `published_variants.csv` | published errors of FT-d on variants of the stream (Table 5)                    |
| `layouts.toml`         | how each data set is read from its files (see nevis_stream.datasets.raw_formats)   |
| `embedded.csv`         | data sets made of images that installed packages carry                         |
| `shared.csv`           | small files of real data sets in the folder of shared data sets, and what they were made from |
| `streams/*.csv`        | streams of these                                                               |

Source of the streams: NEVIS'22, Appendices B and F, Table 5. A name may carry a seed,
`random_40@3`; without one the seed is 0. Draws depend on sha256 of names alone, so they are the
same with every version of every library.
"""  # noqa: E501

import functools
import hashlib
import os
import re
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from nevis_stream.errors import BadInput, unknown
from nevis_stream.storage.tables import read_table

_DIRECTORY = Path(__file__).parent


def read_csv(path: Path) -> list[dict[str, str]]:
    """Returns the rows of a csv file as dicts of stripped strings.

    Raises:
      BadInput: the file cannot be read as such a table; the message names the line.
    """
    return [row for _, row in read_table(path, str(path), {}).records()]


@functools.cache
def read_carried_table(name: str) -> tuple[dict[str, str], ...]:
    """Returns the rows of a carried table by its file's name without suffix."""
    return tuple(read_csv(_DIRECTORY / f"{name}.csv"))


@functools.cache
def read_nevis22_datasets() -> dict[str, dict[str, str]]:
    """Returns the rows of the 97 data sets by dataset_id."""
    return {row["dataset_id"]: row for row in read_carried_table("nevis22_datasets")}


@functools.cache
def read_shared_files() -> dict[str, dict[str, str]]:
    """Returns the rows of the shared files by dataset_id."""
    return {row["dataset_id"]: row for row in read_carried_table("shared")}


@functools.cache
def read_file_layouts() -> dict[str, dict[str, Any]]:
    """Returns by dataset_id how its files are read.

    A layout with `like` is joined with the one that it changes.
    """
    rows = tomllib.loads((_DIRECTORY / "layouts.toml").read_text(encoding="utf-8"))
    return {name: rows[row["like"]] | row if "like" in row else row for name, row in rows.items()}


@functools.cache
def read_datasets() -> dict[str, dict[str, str]]:
    """Returns every known data set by dataset_id: name, kind, domain, num_classes, source.

    num_classes is empty where the files decide it.
    """
    rows = {row["dataset_id"]: row for row in read_carried_table("embedded")}
    domains = {
        row["dataset_id"]: row["domain"] for row in reversed(read_carried_table("nevis22_tasks"))
    }
    for name, row in read_nevis22_datasets().items():
        rows[name] = {
            "name": row["paper_name"], "kind": "", "domain": domains[name], "num_classes": "", "source": f"nevis22:{name}",  # noqa: E501
        }  # fmt: skip
    for name, row in read_file_layouts().items():
        if "like" in row:
            rows[name] = rows[row["like"]] | {"source": f"nevis22:{name}"}
    for name, row in read_shared_files().items():
        rows.setdefault(name, row | {"kind": "", "num_classes": "", "source": f"local:{name}"})
    return rows


def list_carried_streams() -> tuple[str, ...]:
    """Returns the names of the streams that are csv files."""
    return tuple(sorted(path.stem for path in (_DIRECTORY / "streams").glob("*.csv")))


def find_stream_path(name: str) -> Path:
    """Returns the csv file of a carried stream."""
    return _DIRECTORY / "streams" / f"{name}.csv"


Row = dict[str, str]
REMOVED = 30
META_TEST_DIVISOR = 5  # of a split stream, the last fifth of the tasks is judged


def _full() -> list[Row]:
    columns = {"order": "index", "year": "year", "task_id": "canonical_id"}
    same = ("dataset_id", "meta_split", "domain")
    return [
        {new: row[old] for new, old in columns.items()} | {name: row[name] for name in same}
        for row in read_carried_table("nevis22_tasks")
    ]


def _split(part: str) -> list[Row]:
    return [row for row in _full() if row["meta_split"] == part]


def _only(keep: Callable[[Row], bool]) -> list[Row]:
    """The full stream without the meta-train tasks that `keep` refuses; meta-test tasks stay."""
    return [row for row in _full() if row["meta_split"] == "test" or keep(row)]


def _list(name: str) -> list[Row]:
    domains = {row["dataset_id"]: row["domain"] for row in reversed(_full())}
    lists = [row for row in read_carried_table("nevis22_lists") if row["stream"] == name]
    return [
        {key: value for key, value in row.items() if key != "stream"}
        | {"domain": domains[row["dataset_id"]]}
        for row in lists
    ]


def _large() -> list[Row]:
    listed = {row["task_id"] for row in _list("large_dataset_only")}
    return _only(lambda row: row["task_id"] in listed)


def _hash_task(name: str, seed: int, row: Row) -> bytes:
    """Returns a key that sorts rows in an order drawn anew for each name and seed."""
    return hashlib.sha256(f"{name}/{seed}/{row['task_id']}".encode()).digest()


def _random(count: int, seed: int) -> list[Row]:
    """`count` meta-train tasks drawn without replacement, and all meta-test tasks."""
    drawn = sorted(_split("train"), key=lambda row: _hash_task("random", seed, row))[:count]
    task_ids = {row["task_id"] for row in drawn}
    return _only(lambda row: row["task_id"] in task_ids)


COMPUTED: Mapping[str, tuple[str, Callable[[int], list[Row]]]] = {
    "full": ("all 106 tasks", lambda seed: _full()),
    "short": (
        "29 tasks for development, with years of their own (Table M)",
        lambda seed: _list("short"),
    ),
    "tiny": ("7 tasks", lambda seed: _list("tiny")),
    "debug": ("2 tasks, none of them meta-test", lambda seed: _list("debug")),
    "imagenet_only": ("ImageNet, meta-train only", lambda seed: _list("imagenet_only")),
    "major_domain_only": (
        "meta-train: objects and scenes (43)",
        lambda seed: _only(
            lambda row: row["domain"] in ("object", "scene") and row["task_id"] != "extended_yaleb"
        ),
    ),
    "large_dataset_only": (
        "meta-train: 40 tasks with about 10,000 samples or more",
        lambda seed: _large(),
    ),
    "no_imagenet": (
        "meta-train without ImageNet (78)",
        lambda seed: _only(lambda row: row["dataset_id"] != "imagenet"),
    ),
    "remove_first_30": (
        "without the first 30 meta-train tasks",
        lambda seed: _split("train")[REMOVED:] + _split("test"),
    ),
    "remove_last_30": (
        "without the last 30 meta-train tasks",
        lambda seed: _split("train")[:-REMOVED] + _split("test"),
    ),
    "remove_random_30": (
        "without 30 random meta-train tasks; @SEED",
        lambda seed: _random(len(_split("train")) - REMOVED, seed),
    ),
    "random_40": ("40 random meta-train tasks; @SEED", lambda seed: _random(40, seed)),
    "random_43": ("43 random meta-train tasks; @SEED", lambda seed: _random(43, seed)),
    "shuffled_within_year": (
        "all tasks, the order inside each year drawn; @SEED",
        lambda seed: sorted(
            _full(), key=lambda row: (int(row["year"]), _hash_task("order", seed, row))
        ),
    ),
    "shuffled": (
        "all tasks in a drawn order; years are mixed; @SEED",
        lambda seed: sorted(_full(), key=lambda row: _hash_task("order", seed, row)),
    ),
}
"""By name: what it is, and its rows for a seed."""

SEEDED = ("remove_random_30", "random_40", "random_43", "shuffled_within_year", "shuffled")
SPLIT_HELP = (
    "split_DATASET[_by_N][@SEED]: the classes of a data set, N per task (default: 10, or 2 if"
    " it has at most 10), for example split_cifar100"
)


def list_computed_streams() -> tuple[str, ...]:
    """Returns the names of the streams that are made from the tables, without the split ones."""
    return tuple(COMPUTED)


def is_chronological(name: str) -> bool:
    """Whether the years of the stream never fall."""
    return not name.startswith("shuffled@") and name != "shuffled"


def compute_stream_rows(name: str) -> list[Row] | None:
    """Returns the rows of a computed stream, or None if none has this name.

    Args:
      name: lower case, with an optional `@SEED`.

    Returns:
      Dicts with order, year, task_id, dataset_id, meta_split, domain and, for split streams,
      source.

    Raises:
      BadInput: a seed that is not a whole number, or one for a stream that is not random; a split
        of an unknown data set.
    """
    base, at, seed = name.partition("@")
    if at and not seed.isdigit():
        raise BadInput(f"stream {name!r}: the seed after @ is {seed!r}, not a whole number.")
    if base.startswith("split_"):
        return _split_stream(name, base, int(seed) if at else None)
    if base not in COMPUTED:
        return None
    if at and base not in SEEDED:
        raise BadInput(
            f"stream {name!r}: {base} is not random, so it takes no seed; streams that do:"
            f" {', '.join(SEEDED)}."
        )
    return [
        row | {"order": str(order)}
        for order, row in enumerate(COMPUTED[base][1](int(seed or 0)), start=1)
    ]


def _split_stream(name: str, base: str, seed: int | None) -> list[Row]:
    match = re.fullmatch(r"split_(?P<dataset>.+?)(?:_by_(?P<by>\d+))?", base)
    about = read_nevis22_datasets()
    if match is None or match["dataset"] not in about:
        wrong = base.removeprefix("split_")
        raise BadInput(f"stream {name!r}: {unknown('data set', wrong, about)} Use {SPLIT_HELP}.")
    dataset_id = match["dataset"]
    first = next(row for row in _full() if row["dataset_id"] == dataset_id)
    if about[dataset_id]["kind"] != "single_label":
        raise BadInput(
            f"stream {name!r}: {dataset_id} is multi-label; only single-label data sets can be"
            " split by class."
        )
    classes = int(about[dataset_id]["num_classes"])
    by = int(match["by"] or (10 if classes > 10 else 2))
    if not 1 < by <= classes // 2:
        raise BadInput(
            f"stream {name!r}: {by} classes per task; {dataset_id} has {classes}, so valid are"
            f" 2..{classes // 2}."
        )
    starts = range(0, classes - by + 1, by)  # a remainder of fewer than N classes is left out
    judged = -(-len(starts) // META_TEST_DIVISOR)
    seed_prefix = "" if seed is None else f"s{seed}."
    result = []
    for number, start in enumerate(starts):
        subset = f"{dataset_id}.{seed_prefix}{start}-{start + by - 1}"
        result.append(
            {
                "order": str(number + 1),
                "year": first["year"],
                "task_id": subset,
                "dataset_id": subset,
                "meta_split": "test" if number >= len(starts) - judged else "train",
                "domain": first["domain"],
                "source": f"classes:{subset}",
            }
        )
    return result


def find_shared_directory() -> Path:
    """Returns the folder of shared data sets; it need not exist."""
    named = os.environ.get("NEVIS_STREAM_SHARED")
    return Path(named) if named else Path(__file__).resolve().parents[3] / "shared"


def find_data_root() -> Path:
    """Returns the root of prepared data.

    It is the environment variable NEVIS_STREAM_DATA, else `nevis_stream/data` in the user's cache.
    """
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(os.environ.get("NEVIS_STREAM_DATA") or caches / "nevis_stream" / "data")


def find_derived_directory() -> Path:
    """Returns the folder of files that are derived from data and may be deleted at any time."""
    return find_data_root() / "derived"
