"""The rows of a stream, by name or from a csv file: checked, with facts from the catalogue."""

import difflib
from collections.abc import Mapping, Sequence
from pathlib import Path

from nevis_stream import catalogue
from nevis_stream.datasets import prepared
from nevis_stream.datasets.reading import HELP, Choices
from nevis_stream.errors import BadInput, unknown
from nevis_stream.storage.reading import explain_absence, resolve_path
from nevis_stream.storage.tables import Table, check_name, parse_whole, read_table, shorten
from nevis_stream.vocabulary import ADAPTIVE, META_SPLITS, MOST_CLASSES, TASK_KINDS, YEARS

COLUMNS = ("order", "year", "task_id", "dataset_id", "meta_split")
_FACTS = ("source", "kind", "domain", "num_classes")
_OPTIONAL = ("path", *_FACTS, *(name for name in HELP if name not in _FACTS), "note")
_NEAR = 0.85  # of `difflib`: a letter or two
_RANGES = {"order": (-(10**9), 10**9), "year": YEARS, "num_classes": (2, MOST_CLASSES)}
PARTIAL, DISJOINT, SINGLE_HEAD = SUFFIXES = "+partial", "+disjoint", "+single_head"
"""Suffixes of a stream's name: without the tasks whose data are missing; without the images of
later tasks that earlier tasks have; and with one set of classes, those of all tasks so far."""


def stream_names() -> tuple[str, ...]:
    """Returns the names of all streams: those in csv files and those made from tables."""
    return (*catalogue.list_carried_streams(), *catalogue.list_computed_streams())


def strip_suffixes(name: str) -> str:
    """Returns a stream's name without its suffixes.

    >>> strip_suffixes("full+disjoint+partial")
    'full'
    """
    suffix = next((suffix for suffix in SUFFIXES if name.endswith(suffix)), None)
    return strip_suffixes(name.removesuffix(suffix)) if suffix else name


def has_suffix(name: str, suffix: str) -> bool:
    """Returns whether a stream's name has a suffix, in any place."""
    return suffix in name[len(strip_suffixes(name)) :]


def is_adaptive(name: str) -> bool:
    """Returns whether a name is that of an adaptive stream, "adaptive:…"."""
    return name.startswith(ADAPTIVE)


def is_stream(name: str) -> bool:
    """Returns whether a name is that of a stream or of a csv file, and not of data sets.

    Raises:
      BadInput: as `catalogue.compute_stream_rows`.
    """
    name = strip_suffixes(name)
    return (
        name.endswith(".csv")
        or name in catalogue.list_carried_streams()
        or catalogue.compute_stream_rows(name) is not None
    )


def read_fixed_rows(name_or_csv: str) -> tuple[str, list[dict[str, str]]]:
    """Returns the origin of a stream's rows, for messages, and the rows with their facts.

    Args:
      name_or_csv: as `named_streams.load_stream` takes it, but not "adaptive:…".

    Returns:
      Dicts with order, year, task_id, dataset_id, meta_split, source, kind, domain, num_classes
      (kind and number of classes may be empty: then the data decide), and the choices of a reading
      (`datasets.choices`).

    Raises:
      BadInput: unknown name, missing file or column, or a row that cannot be used; the message
        names the line.
    """
    name = strip_suffixes(name_or_csv)
    rows = catalogue.compute_stream_rows(name)
    if rows is None:
        path = _csv_file(name)
        table = read_table(path, str(path), dict.fromkeys(COLUMNS, ""), _OPTIONAL)
        _check_columns(table)
        return str(path), [_check(str(path), line, row) for line, row in table.records()]
    return name, [_check(name, line, row) for line, row in enumerate(rows, start=2)]


def _check_columns(table: Table) -> None:
    """Refuses a column that would be left out, but whose name is nearly one that is read."""
    known = (*COLUMNS, *_OPTIONAL)
    for column in table.columns:
        near = difflib.get_close_matches(column.lower().replace(" ", "_"), known, 1, _NEAR)
        if column not in known and near:
            raise BadInput(
                f"{table.place(1)}: column {column!r} is not one that is read. Did you mean"
                f" {near[0]!r}? Valid: {', '.join(known)}."
            )


def list_dataset_rows(names: Sequence[str]) -> tuple[str, list[dict[str, str]]]:
    """Returns the rows of a stream of data sets of the catalogue, each a judged task, as
    `read_fixed_rows` does.

    Raises:
      BadInput: an unknown data set.
    """
    years: dict[str, str] = {}
    carried = map(catalogue.find_stream_path, catalogue.list_carried_streams())
    tables = map(catalogue.read_csv, carried)
    for table in (catalogue.read_carried_table("nevis22_tasks"), *tables):
        for row in table:
            years.setdefault(row["dataset_id"], row["year"])
    rows = [
        {"order": str(place), "year": years.get(name, "0"), "task_id": name}
        | {"dataset_id": name, "meta_split": "test"}
        for place, name in enumerate(names, start=1)
    ]
    origin = "+".join(names)
    return origin, [_check(origin, line, row) for line, row in enumerate(rows, start=1)]


def _csv_file(name: str) -> Path:
    if name in catalogue.list_carried_streams():
        return catalogue.find_stream_path(name)
    path, names = Path(name), stream_names()
    if path.suffix != ".csv":
        raise BadInput(
            f"{unknown('stream', name, names)} Or {catalogue.SPLIT_HELP}; or the path of a csv"
            " file."
        )
    if not path.is_file():
        raise BadInput(
            f"{path}: {explain_absence(path)}. Give a csv file or the name of a stream:"
            f" {', '.join(names)}."
        )
    return path


def _check(origin: str, line: int, row: Mapping[str, str]) -> dict[str, str]:
    """Returns a row with its facts; an error names the line."""
    place = f"{origin}, line {line}"
    _check_word(place, "meta_split", row["meta_split"], META_SPLITS)
    facts = _facts(origin, place, row)
    _check_word(place, "kind", facts["kind"], ("", *TASK_KINDS))
    chosen = {column: row.get(column) or "" for column in HELP if column not in facts}
    values = {column: row[column] for column in COLUMNS} | facts | chosen
    for column, (low, high) in _RANGES.items():
        number = parse_whole(values[column])
        if number is None and (values[column] or column in COLUMNS):
            raise BadInput(f"{place}: {column} is {shorten(values[column])!r}, not a whole number.")
        if number is not None and not low <= number <= high:
            raise BadInput(
                f"{place}: {column} is {shorten(values[column])}; valid: {low} to {high}."
            )
    for column in ("task_id", "dataset_id"):
        check_name(values[column], f"{place}: {column}")
    _check_choices(place, values, chosen)
    return values


def _check_choices(place: str, values: Mapping[str, str], chosen: Mapping[str, str]) -> None:
    try:
        Choices.of_row(values)
    except BadInput as error:
        raise BadInput(f"{place}: {error}") from None
    given = [column for column, value in chosen.items() if value]
    if given and not values["source"].startswith(("file:", "shared:")):
        raise BadInput(
            f"{place}: {given[0]} is chosen where a file is read, and {values['dataset_id']!r} is"
            " prepared already: leave the cell empty, or give the file in the column `path`."
        )


def _check_word(place: str, column: str, value: str, valid: Sequence[str]) -> None:
    if value not in valid:
        raise BadInput(f"{place}: {unknown(column, value, filter(None, valid))}")


def _facts(origin: str, place: str, row: Mapping[str, str]) -> dict[str, str]:
    """Returns the source of a row's data, and facts from the row and the catalogue."""
    dataset_id = row["dataset_id"]
    own = {column: row.get(column, "") for column in _FACTS}
    if row.get("path"):
        return own | {"source": f"file:{resolve_path(Path(origin).parent / row['path'])}"}
    known = catalogue.read_datasets().get(dataset_id)
    if row.get("source"):
        shared = {f"shared:{each['file']}": each for each in catalogue.read_shared_files().values()}
        about = shared.get(row["source"]) or {"domain": (known or {}).get("domain", "")}
        return {column: own[column] or about.get(column, "") for column in _FACTS}
    if known:
        return {column: known[column] for column in _FACTS}
    if prepared.is_ready(dataset_id, "local"):
        domain = own["domain"] or prepared.read_about(dataset_id, "local").get("domain", "")
        return {"source": f"local:{dataset_id}", "kind": "", "domain": domain, "num_classes": ""}
    valid = unknown("dataset_id", dataset_id, catalogue.read_datasets())
    raise BadInput(f"{place}: {valid} Or give its file in a column `path`.")
