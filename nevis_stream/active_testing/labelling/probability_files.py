"""Files of a model's probabilities on a pool, joined to its samples by their ids."""

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from nevis_stream.active_testing.labelling.pools import PoolImages
from nevis_stream.active_testing.pool import check_probabilities
from nevis_stream.errors import BadInput
from nevis_stream.evaluation_cache.facts_files import natural_sort_key
from nevis_stream.storage.reading import nfc, read_npz, read_rows, shorten

SUFFIXES = (".npz", ".csv")
SAMPLE = "sample"
"""The column of ids of a csv."""


def read(file: Path, pool: PoolImages) -> tuple[np.ndarray, Sequence[str], str]:
    """Returns float64[n, c] in the order of the pool, names of the classes, and a remark.

    Args:
      file: an .npz with `probabilities` [samples, classes], and possibly `samples`, their ids, and
        `classes`, names; or a csv with a column `sample` and one for each class.
      pool: n images.

    Raises:
      BadInput: it is not such a file, lacks samples of the pool, or has no ids where the order of
        its rows is uncertain.
    """
    values, ids, classes = _csv(file) if file.suffix == ".csv" else _npz(file)
    values = check_probabilities(values, f"{file}: the probabilities", 2)
    classes = [nfc(name) for name in classes]
    if len(classes) not in (0, values.shape[1]):
        raise BadInput(
            f"{file}: 'classes' has {len(classes)} names; the probabilities have"
            f" {values.shape[1]} classes."
        )
    if ids is not None:
        return values[_rows(file, ids, len(values), pool)], classes, ""
    return values, classes, _remark(file, len(values), pool)


def _npz(file: Path) -> tuple[np.ndarray, list[str] | None, list[str]]:
    arrays = read_npz(file)
    if "probabilities" not in arrays:
        has = ", ".join(arrays) or "nothing"
        raise BadInput(f"{file}: contains {has}; expected 'probabilities' [samples, classes].")
    ids, classes = (
        [str(each) for each in arrays[name].ravel().tolist()] if name in arrays else None
        for name in ("samples", "classes")
    )
    return arrays["probabilities"], ids, classes or []


def _csv(file: Path) -> tuple[np.ndarray, list[str], list[str]]:
    (_, head), *body = read_rows(file, str(file), (SAMPLE,)) or [(1, [])]
    if head.count(SAMPLE) != 1:
        raise BadInput(
            f"{file}: its columns are {', '.join(head) or 'none'}; expected one {SAMPLE!r} and one"
            " for each class."
        )
    place = head.index(SAMPLE)
    classes, ids, values = [*head[:place], *head[place + 1 :]], [], []
    if twice := [name for name in classes if classes.count(name) > 1]:
        raise BadInput(f"{file}: the column {twice[0]!r} is there twice.")
    for line, row in body:
        try:
            values.append([float(cell) for i, cell in enumerate(row) if i != place])
            ids.append(row[place])
        except (ValueError, IndexError):
            values.append([])
        if len(values[-1]) != len(classes):
            raise BadInput(
                f"{file}, line {line}: expected a sample and {len(classes)} numbers, not"
                f" {shorten(','.join(row))!r}{_comma(row)}."
            )
    return np.array(values).reshape(len(ids), len(classes)), ids, classes


def _comma(row: Sequence[str]) -> str:
    decimal = any(re.fullmatch(r"[0-9]+,[0-9]+", cell.strip()) for cell in row)
    return "; write decimal points, not commas" * decimal


def _rows(file: Path, ids: Sequence[str], n: int, pool: PoolImages) -> np.ndarray:
    """Returns int64[n], the file's row of each sample."""
    if len(ids) != n:
        raise BadInput(f"{file}: 'samples' has {len(ids)} ids; there are {n} rows.")
    ids = [nfc(sample) for sample in ids]
    places = {sample: row for row, sample in enumerate(ids)}
    if len(places) < n:
        twice = next(sample for row, sample in enumerate(ids) if places[sample] != row)
        raise BadInput(f"{file}: sample {twice!r} is there twice.")
    if missing := [sample for sample in pool.ids if nfc(sample) not in places]:
        raise BadInput(
            f"{file}: has no sample {missing[0]!r}; {len(missing)} of {len(pool.ids)} samples of"
            f" the pool are missing. Its first sample is {ids[0]!r}."
            if ids
            else f"{file}: has no samples."
        )
    return np.array([places[nfc(sample)] for sample in pool.ids])


def _remark(file: Path, n: int, pool: PoolImages) -> str:
    """Says in which order rows without ids are taken, or refuses them."""
    if n != len(pool.ids):
        raise BadInput(f"{file}: has probabilities of {n} samples; the pool has {len(pool.ids)}.")
    if pool.from_paths:
        by_number = sorted(pool.ids, key=natural_sort_key)
        for here, there in zip(pool.ids, by_number, strict=True):
            if here != there:
                raise BadInput(
                    f"{file}: has no ids, and the pool's files have two orders: {here!r} or"
                    f" {there!r} may come first, so a row could be another file's. Add an array"
                    f" 'samples' with the path of each row below the pool's folder, or give a csv"
                    f" with a column {SAMPLE!r} and one for each class."
                )
    return (
        f"{file} has no ids: its rows are taken in the order {pool.ids[0]}, "
        + (f"{pool.ids[1]}, …, " if n > 2 else "")
        + f"{pool.ids[-1]}"
    )
