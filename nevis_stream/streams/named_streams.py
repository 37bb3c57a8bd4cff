"""Streams by name: fixed ones, and adaptive ones ("adaptive:…")."""

from collections.abc import Sequence

from nevis_stream.datasets import sources
from nevis_stream.streams.rows import is_adaptive, read_fixed_rows
from nevis_stream.streams.stream import Stream, load_fixed


def load_stream(name_or_csv: str, trust: Sequence[str] | None = None) -> Stream:
    """Returns a stream by its lower-case name, or from a csv file of rows.

    Args:
      name_or_csv: "pico", "local25", "full", "random_40@3", "split_cifar100", … (`stream_names`),
        or the path of a csv with the columns order, year, task_id, dataset_id, meta_split and,
        where the data set is not in the catalogue, path (relative to the csv), with kind, domain
        and num_classes optional. With `+partial` appended, tasks whose data are not on this machine
        are left out, and the stream's digest is marked; with `+disjoint`, images of later tasks
        that earlier tasks have; with `+single_head`, the classes of all tasks so far are one set,
        from which a task is answered. Or "adaptive:POOL,rule=…", a stream that
        answers back (docs/dynamic-benchmarks.md).
      trust: modules whose rules may be imported, if the name was read from a file; None if the user
        wrote it.

    Raises:
      Untrusted: a name that was read from a file names code that is not trusted.
      BadInput: as `list_stream_rows`; or data sets are not on this machine: the message says how to
        get them.
    """
    if is_adaptive(name_or_csv):
        from nevis_stream.streams.adaptive.stream import load_adaptive

        return load_adaptive(name_or_csv, trust)
    return load_fixed(name_or_csv)


def list_stream_rows(name_or_csv: str) -> tuple[str, list[dict[str, str]]]:
    """Returns the origin of a stream's rows, for messages, and the rows with their facts.

    Args:
      name_or_csv: as `load_stream` takes it.

    Returns:
      Dicts with order, year, task_id, dataset_id, meta_split, source, kind, domain, num_classes
      (kind and number of classes may be empty: then the data decide), and the choices of a reading
      (`datasets.choices`).

    Raises:
      BadInput: unknown name, missing file or column, or a row that cannot be used; the message
        names the line.
    """
    if is_adaptive(name_or_csv):
        from nevis_stream.streams.adaptive.specification import list_pool_rows, read_specification

        return list_pool_rows(read_specification(name_or_csv))
    return read_fixed_rows(name_or_csv)


def list_unprepared(name_or_csv: str) -> list[str]:
    """Returns the data sets of a stream that are read from shared files, not as prepared.

    Their splits are others, and duplicates are not removed, so errors differ from those of prepared
    ones.

    Raises:
      BadInput: as `list_stream_rows`.
    """
    by_id = {row["dataset_id"]: row["source"] for row in list_stream_rows(name_or_csv)[1]}
    return [
        name for name, source in by_id.items() if sources.find_state(source).origin == "shared file"
    ]
