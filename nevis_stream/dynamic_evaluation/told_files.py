"""Files of answers for a session of live evaluation: csv, json, and logs of evaluations."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from nevis_stream.errors import BadInput, plural, unknown
from nevis_stream.evaluation_cache.files import get_file_kind
from nevis_stream.evaluation_cache.importers import is_log
from nevis_stream.queries.board import Board
from nevis_stream.queries.samples import is_observed
from nevis_stream.storage.reading import explain_absence, read_written_json
from nevis_stream.storage.tables import read_rows, read_table, shorten

_NO_ANSWER = frozenset({"?", "unknown", "nan", "none", "null", "na", "n/a"})
_TRUTHS = {"true": "1", "false": "0"}  # outcomes, as pandas writes them
_COLUMNS = {"sample": "the id of a sample", "value": "the model's value on it; ? if it gave none"}
_OTHER_CONTENT = "it is another question"
_NUMBERED_ANEW = (
    "If it is a log of lm-evaluation-harness whose --samples did not ascend: the harness numbers"
    " them anew; run it with what `ask --format=lm_eval` prints."
)


@dataclass(frozen=True)
class ToldAnswers:
    """The answers of a file.

    Attributes:
      answers: by model, and sample; None where the model gave none.
      places: where each sample's answer stands, for messages.
      remarks: lines for people on how the file was understood.
    """

    answers: Mapping[str, Mapping[str, Any]]
    places: Mapping[str, str] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()


def read_told_answers(
    board: Board,
    names: Sequence[str],
    path: Path,
    model: str | None = None,
    reading: Mapping[str, Any] | None = None,
) -> ToldAnswers:
    """Reads a file of answers, in the units of a board.

    A csv with the columns `sample` and `value`, and `model` where there are several; a json object
    of values by sample, or of such objects by model; or anything that `read_board` reads, such as
    logs: then what identifies a sample (its content, metric and direction) must be as in the board.

    Args:
      board: of the samples.
      names: of the models of the session.
      path: of the file, or a folder of logs.
      model: whose answers are read: those that the file has under this name, or all of a file with
        one model that it calls otherwise; None: the file says it, or there is only one.
      reading: how values are read, arguments of `evaluation_cache.exchange.read_for_cache`.

    Raises:
      BadInput: the file cannot be read, or it is not clear whose answers these are.
    """
    if not (path.is_file() or path.is_dir()):
        raise BadInput(f"{path}: {explain_absence(path)}.")
    found: dict[str | None, dict[str, Any]]
    places: dict[str, str] = {}
    remarks: list[str] = []
    lists_answers = path.is_file() and not is_log(path)
    if lists_answers and path.suffix == ".json":
        found = _read_json_answers(board, path)
    elif lists_answers and _has_answer_columns(path):
        found, places = _read_csv_answers(board, path)
    else:
        found, remarks = _read_table_answers(board, path, reading or {})
    answers, lines = _choose_models(found, board, names, model, path)
    if not any(answers.values()):
        raise BadInput(f"{path}: has no answers.")
    return ToldAnswers(answers, places, (*remarks, *lines))


def read_if_file(given: Any, board: Board, model: str) -> Any:
    """Returns a model's values by sample where the path of a file, or of a folder of logs, is
    given; else what is given.
    """
    if not isinstance(given, str | Path):
        return given
    return read_told_answers(board, [model], Path(given), model).answers[model]


def _choose_models(
    found: Mapping[str | None, Mapping[str, Any]],
    board: Board,
    names: Sequence[str],
    model: str | None,
    path: Path,
) -> tuple[dict[str, Mapping[str, Any]], list[str]]:
    """Returns the answers by model of the session, and lines for people on how it was found.

    Args:
      found: the answers by the name that the file gives a model; None if it gives none.
      board, names, model, path: as of `read_told_answers`.
    """
    only = model or (names[0] if len(names) == 1 else None)
    if None in found:
        if only is None:
            raise BadInput(f"{path}: does not say whose answers these are: give --model=NAME.")
        return {only: found[None]}, []
    named = [str(name) for name in found]
    if model in found:
        others = plural(len(named) - 1, "other model")
        lines = [f"left out: the answers of {others}"] if named[1:] else []
        return {model: found[model]}, lines
    if len(named) == 1 and named[0] not in names and only is not None:
        if model is None and named[0] in board.models:
            raise BadInput(
                f"{path}: has answers of {named[0]!r}, a known model of the board; if they are"
                f" those of {only!r}, give --model={only}."
            )
        return {only: found[named[0]]}, [f"the answers of {named[0]!r} are taken for {only!r}"]
    if model is not None and len(named) == 1:
        raise BadInput(f"{path}: has answers of {named[0]!r}, another model of this session.")
    if model is not None:
        raise BadInput(f"{path}: {unknown('model', model, named)}")
    if strange := [name for name in named if name not in names]:
        advice = " Or give --model=NAME." if len(named) == 1 else ""
        raise BadInput(f"{path}: {unknown('model', strange[0], names)}{advice}")
    return {name: found[name] for name in named}, []


def _read_table_answers(
    board: Board, path: Path, reading: Mapping[str, Any]
) -> tuple[dict[str | None, dict[str, Any]], list[str]]:
    """Returns the answers by model in what `read_board` reads, and lines for people."""
    try:
        # each round of a session leaves a log
        table = board.read_answers(path, **{"every_log": True, **reading})
    except BadInput as error:
        if _OTHER_CONTENT in str(error):
            raise BadInput(f"{error} {_NUMBERED_ANEW}") from None
        raise
    low, high = board.facts.ends
    columns = {sample: column for column, sample in enumerate(board.ids)}
    found: dict[str | None, dict[str, Any]] = {}
    for name, values in zip(table.models, table.values, strict=True):
        of_model = found[name] = {}
        for place in np.flatnonzero(is_observed(values)).tolist():
            sample, value = table.samples[place], float(values[place])
            if (column := columns.get(sample)) is not None:
                value = low[column] + value * (high[column] - low[column])
            of_model[sample] = value
    return found, [*table.remarks, *(each.line() for each in table.left_out)]


def _has_answer_columns(path: Path) -> bool:
    """Returns whether a file is a table that has the columns of answers, or lacks a column `model`,
    which every leaderboard has.
    """
    if get_file_kind(path) not in (".csv", ".tsv", ".txt"):
        return False
    rows = read_rows(path, str(path), _COLUMNS)
    header = {cell.strip().casefold() for cell in rows[0][1]} if rows else set()
    return set(_COLUMNS) <= header or bool(header) and "model" not in header


def _read_csv_answers(
    board: Board, path: Path
) -> tuple[dict[str | None, dict[str, Any]], dict[str, str]]:
    """Returns the answers by model, and where the answer to each sample stands."""
    table = read_table(path, str(path), _COLUMNS, ["model"])
    truths = {} if board.matrix.scores else _TRUTHS
    found: dict[str | None, dict[str, Any]] = {}
    places: dict[str, str] = {}
    for line, cells in table.records():
        where, text, sample = table.place(line), cells["value"], cells["sample"]
        if not text:
            continue
        name = cells.get("model") or None
        try:
            value = (
                None if text.casefold() in _NO_ANSWER else float(truths.get(text.casefold(), text))
            )
            if value is not None and math.isinf(value):
                raise ValueError
        except ValueError:
            raise BadInput(
                f"{where}: {shorten(text)!r} is no number; where the model gave no answer, ? is"
                " expected. Nothing of this file was recorded."
            ) from None
        if found and (name is None) != (None in found):
            raise BadInput(
                f"{where}: some lines name their model and others do not. Nothing of this file was"
                " recorded."
            )
        of_model = found.setdefault(name, {})
        if of_model.setdefault(sample, value) != value:
            raise BadInput(
                f"{where}: sample {shorten(sample)!r} has another value on an earlier line. Nothing"
                " of this file was recorded."
            )
        places.setdefault(sample, where)
    return found or {None: {}}, places


def _read_json_answers(board: Board, path: Path) -> dict[str | None, dict[str, Any]]:
    """Returns the answers by model."""
    try:
        content = read_written_json(path)
    except (OSError, ValueError) as error:
        raise BadInput(f"{path}: cannot be read as JSON ({error}).") from None
    if not isinstance(content, dict):
        raise BadInput(f"{path}: an object is expected, of values by sample.")
    named = bool(content) and all(isinstance(each, dict) for each in content.values())
    found: dict[str | None, dict[str, Any]] = {**content} if named else {None: content}
    numbers = (int, float) if board.matrix.scores else (bool, int, float)
    for answers in found.values():
        for sample, value in answers.items():
            if value is not None and (type(value) not in numbers or math.isinf(value)):
                raise BadInput(
                    f"{path}: the value of {sample!r} is no number; where the model gave no answer,"
                    " null is expected."
                )
    return found
