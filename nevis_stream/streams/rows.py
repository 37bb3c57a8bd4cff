"""The rows of a stream: found by the stream's name or in a csv file, checked, and joined with what
the catalogue knows.
"""

from collections.abc import Mapping
from pathlib import Path

from nevis_stream import catalogue
from nevis_stream.catalogue import variants
from nevis_stream.datasets import prepared
from nevis_stream.errors import BadInput, unknown
from nevis_stream.storage.names import check_name
from nevis_stream.vocabulary import META_SPLITS, TASK_KINDS

COLUMNS = ("order", "year", "task_id", "dataset_id", "meta_split")
OPTIONAL_COLUMNS = ("path", "kind", "domain", "num_classes")
PARTIAL = "+partial"


def stream_names() -> tuple[str, ...]:
    """Returns the names of all streams: carried ones and those that rules make."""
    return (*catalogue.carried_streams(), *variants.names())


def stream_rows(name_or_csv: str) -> tuple[str, list[dict[str, str]]]:
    """Returns where a stream's rows come from (for messages) and the rows, joined with what the
    catalogue knows.

    Args:
      name_or_csv: as `load_stream` takes it.

    Returns:
      Dicts with order, year, task_id, dataset_id, meta_split, source, kind, domain, num_classes
      (kind and number of classes may be empty: as the data say).

    Raises:
      BadInput: unknown name, missing file or column, or a row that cannot be used; the message
        names the line.
    """
    name = name_or_csv.removesuffix(PARTIAL)
    rows = variants.rows(name)
    if rows is not None:
        origin = name
    else:
        if name in catalogue.carried_streams():
            path = catalogue.stream_path(name)
        else:
            path = Path(name)
            if path.suffix != ".csv":
                raise BadInput(
                    f"{unknown('stream', name, stream_names())} Or {variants.SPLIT_HELP}; or the"
                    " path of a .csv."
                )
            if not path.is_file():
                raise BadInput(
                    f"{path}: no such file; a stream is a name ({', '.join(stream_names())}) or a"
                    " csv."
                )
        rows, origin = catalogue.read_csv(path), str(path)
        missing = [column for column in COLUMNS if rows and column not in rows[0]]
        if missing:
            raise BadInput(
                f"{path}: lacks the columns {', '.join(missing)}; a stream needs"
                f" {', '.join(COLUMNS)}."
            )
    return origin, [_describe(origin, line, row) for line, row in enumerate(rows, start=2)]


def _describe(origin: str, line: int, row: Mapping[str, str]) -> dict[str, str]:
    """Joins a stream's row with the catalogue's: where its data are and what is known of them."""
    if row["meta_split"] not in META_SPLITS:
        raise BadInput(
            f"{origin}, line {line}: {unknown('meta_split', row['meta_split'], META_SPLITS)}"
        )
    if row.get("path"):
        about = {column: row.get(column, "") for column in OPTIONAL_COLUMNS}
        about["source"] = f"file:{(Path(origin).parent / row['path']).resolve()}"
    elif row.get("source"):
        about = {column: row.get(column, "") for column in OPTIONAL_COLUMNS} | {
            "source": row["source"]
        }
        files = {f"shared:{known['file']}": known for known in catalogue.shared().values()}
        there = files.get(row["source"]) or {
            "domain": catalogue.datasets().get(row["dataset_id"], {}).get("domain", "")
        }
        about |= {
            column: there.get(column, "")
            for column in ("kind", "domain", "num_classes")
            if not about[column]
        }
    elif row["dataset_id"] in catalogue.datasets():
        about = dict(catalogue.datasets()[row["dataset_id"]])
    elif prepared.is_ready(row["dataset_id"], "local"):
        domain = prepared.about(row["dataset_id"], "local").get("domain", "")
        about = {
            "source": f"local:{row['dataset_id']}",
            "kind": "",
            "domain": row.get("domain") or domain,
            "num_classes": "",
        }
    else:
        known = unknown("dataset_id", row["dataset_id"], catalogue.datasets())
        raise BadInput(f"{origin}, line {line}: {known} Or name its file in a column `path`.")
    if about["kind"] not in ("", *TASK_KINDS):
        raise BadInput(f"{origin}, line {line}: {unknown('kind', about['kind'], TASK_KINDS)}")
    if about["num_classes"] and not about["num_classes"].isdigit():
        raise BadInput(
            f"{origin}, line {line}: num_classes is {about['num_classes']!r}, not a whole number."
        )
    return {column: row[column] for column in COLUMNS} | {
        column: about[column] for column in ("source", "kind", "domain", "num_classes")
    }


def integer(origin: str, line: int, row: Mapping[str, str], column: str) -> int:
    """Returns a whole number of a row; an error names the line."""
    try:
        return int(row[column])
    except ValueError:
        raise BadInput(
            f"{origin}, line {line}: {column} is {row[column]!r}, not a whole number."
        ) from None


def name_in(origin: str, line: int, row: Mapping[str, str], column: str) -> str:
    """Returns an id of a row, checked; an error names the line."""
    check_name(row[column], f"{origin}, line {line}: {column}")
    return row[column]
