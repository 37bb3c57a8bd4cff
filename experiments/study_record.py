"""The record of a study: what it is about, and the result of each of its cells.

FILE.json has the settings that all cells share; each line of FILE.jsonl is a finished cell: a key,
which is any JSON object, and its result, any JSON value. A line is synced before the next cell
begins, so a study that is killed at any instant continues with the first cell that has no line.
Cells that are kept for long may be packed into FILE.jsonl.xz; those of FILE.jsonl come after them.
"""

import json
import lzma
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nevis_stream.errors import BadInput
from nevis_stream.storage import write_file
from nevis_stream.storage.checkpoint import EventWorkspace, Tree
from nevis_stream.storage.reading import parse_json, read_bytes
from nevis_stream.storage.record import (
    append_checked,
    as_lines,
    check_content,
    encode,
    read_checked,
    refuse_other,
)

Cell = Mapping[str, Any]
_CELL, _RESULT = "cell", "result"
_OTHER = (
    "this directory already contains another study ({difference}). Choose another --out, or give"
    " the flags with which that study was started."
)


class StudyRecord:
    """The cells of one study. Several processes may add to it, each other cells: what another one
    adds is seen when the record is opened anew, and of a cell that is there twice the first counts.

    Args:
      file: OUT/study.jsonl, which may be missing. Its settings are in OUT/study.json.
      settings: JSON of what all cells share; None: nothing is kept or compared. Inner objects may
        grow: a call may name keys that an earlier one did not.
      former_settings: those of studies by versions that did not record them.
      former: called if there is no file; returns the cells and results in files of an earlier
        version, which become the first lines.

    Raises:
      BadInput: the settings differ from those of the study that is there; or a line has changed
        since it was written.
    """

    def __init__(
        self,
        file: Path,
        settings: Mapping[str, Any] | None = None,
        *,
        former_settings: Mapping[str, Any] | None = None,
        former: Callable[[], Iterable[tuple[Cell, Any]]] | None = None,
    ):
        self._file = file
        if settings is not None:
            keep_settings(file.with_suffix(".json"), settings, former_settings)
        packed = _packed(file)
        if not (file.exists() or packed.exists()) and former and (cells := list(former())):
            write_file(file, check_content(_line(*each) for each in cells))
        self._results: dict[str, tuple[Cell, Any]] = {}
        if packed.exists():
            for values in _unpack(packed):
                self._keep(values)
        for line in read_checked(file):
            if line.problem or not isinstance(line.values, dict) or _CELL not in line.values:
                raise BadInput(
                    f"{file}, line {line.number}: {line.problem or 'not the result of a cell'}."
                    " Delete it and the lines after it: their cells are then computed again."
                )
            self._keep(line.values)

    def _keep(self, line: Mapping[str, Any]) -> None:
        cell = line[_CELL]
        self._results.setdefault(_name(cell), (cell, _with_nan(line.get(_RESULT))))

    def __contains__(self, cell: Cell) -> bool:
        return _name(cell) in self._results

    def __getitem__(self, cell: Cell) -> Any:
        return self._results[_name(cell)][1]

    def __len__(self) -> int:
        return len(self._results)

    def items(self) -> Iterator[tuple[Cell, Any]]:
        """Yields each cell with its result, in the order in which they were added."""
        return iter(self._results.values())

    def missing(self, cells: Iterable[Cell]) -> list[Cell]:
        """Returns those of the cells that have no result."""
        return [cell for cell in cells if cell not in self]

    def add(self, cell: Cell, result: Any) -> None:
        """Adds a finished cell.

        Args:
          cell: its key, a JSON object.
          result: JSON, also of NumPy values; NaN is kept as null, and null is read as NaN.

        Raises:
          StorageFull: the line could not be written; the file is as before.
        """
        line = _line(cell, result)
        append_checked(self._file, line)
        self._keep(json.loads(encode(line)))  # as it will be read

    def rows(self) -> list[dict[str, Any]]:
        """Returns the results as rows of a table: the values of the key, then those of the result,
        which is an object or a list of objects, one for each row.
        """
        return [
            {**cell, **row}
            for cell, result in self.items()
            for row in (result if isinstance(result, list) else [result])
        ]


class RecordWorkspace(EventWorkspace):
    """Finished trials as cells of a study's record; positions in files, as of an event.

    Args:
      record: of the study.
      cells: the key of each trial, by its number.
      path: directory of the positions. Finished trials of earlier versions are there too.
    """

    def __init__(self, record: StudyRecord, cells: Sequence[Cell], path: Path):
        super().__init__(path, 0.0)
        self._record, self._cells = record, cells

    def load_finished(self, trial: int) -> tuple[Tree, dict] | None:
        """Returns a finished trial's result, arrays as lists, and FLOPs; None if it must be run."""
        if (cell := self._cells[trial]) in self._record:
            kept = self._record[cell]
            return kept["result"], kept["flops"]
        return super().load_finished(trial)

    def finish(self, trial: int, result: Tree, counts: dict) -> None:
        """Adds a finished trial's result and FLOPs to the record."""
        self._record.add(self._cells[trial], {"result": result, "flops": counts})


def pack(file: Path) -> Path:
    """Puts all cells of FILE.jsonl into FILE.jsonl.xz, removes FILE.jsonl, and returns the other.
    Equal cells in equal order give equal bytes.
    """
    lines = [f"{encode(_line(*each))}\n" for each in StudyRecord(file).items()]
    packed = _packed(file)
    write_file(packed, lzma.compress("".join(lines).encode(), preset=9 | lzma.PRESET_EXTREME))
    file.unlink(missing_ok=True)
    return packed


def _packed(file: Path) -> Path:
    return file.with_name(f"{file.name}.xz")


def _unpack(packed: Path) -> list[dict[str, Any]]:
    try:
        return [parse_json(line) for line in lzma.decompress(read_bytes(packed)).splitlines()]
    except (lzma.LZMAError, ValueError) as error:
        raise BadInput(f"{packed}: damaged ({error}). Restore it, or delete it.") from None


def keep_settings(
    file: Path, settings: Mapping[str, Any], former: Mapping[str, Any] | None = None
) -> None:
    """Writes the settings of a study, or compares them with those that are there; see
    `StudyRecord`.

    Raises:
      BadInput: they differ; the message names the first value that does.
    """
    now = json.loads(encode(settings))
    if not file.exists():
        write_file(file, as_lines(now).encode())
        return
    content = read_bytes(file).decode(errors="replace")
    try:
        there = {**(former or {}), **parse_json(content)}
    except (ValueError, TypeError) as error:
        raise BadInput(
            f"{file}: cannot be read ({error}), so it does not say what was studied in this"
            " directory. Choose another --out, or delete the directory."
        ) from None
    common = now.keys() & there.keys()
    kept = as_lines({**there, **{key: _join(now[key], there[key]) for key in common}})
    wanted = as_lines({**now, **{key: _join(there[key], now[key]) for key in common}})
    refuse_other(file, kept, wanted, _OTHER)
    if kept != content:
        write_file(file, kept.encode())


def _join(under: Any, over: Any) -> Any:
    """Returns two JSON values joined: objects by key, and of two other values the second."""
    if not (isinstance(under, dict) and isinstance(over, dict)):
        return over
    common = under.keys() & over.keys()
    return {**under, **over, **{key: _join(under[key], over[key]) for key in common}}


def _name(cell: Cell) -> str:
    return encode(_plain(cell))


def _line(cell: Cell, result: Any) -> dict[str, Any]:
    return {_CELL: _plain(cell), _RESULT: _plain(result)}


def _plain(value: Any) -> Any:
    """Returns JSON for a value that may contain NumPy values and NaN."""
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist())
    return None if isinstance(value, float) and math.isnan(value) else value


def _with_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _with_nan(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_with_nan(each) for each in value]
    return math.nan if value is None else value
