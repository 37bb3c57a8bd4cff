"""Boards are read from files, logs, arrays and evaluation caches; and what their samples cost."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from nevis_stream.errors import BadInput
from nevis_stream.evaluation_cache.cache_matrix import CacheMatrix
from nevis_stream.evaluation_cache.entries import check_ids, spread_provenance
from nevis_stream.evaluation_cache.evaluation_cache import INDEX, EvaluationCache
from nevis_stream.evaluation_cache.exchange import (
    match_rows,
    read_beside,
    read_for_cache,
    write_table,
)
from nevis_stream.evaluation_cache.facts import add_prompts, collect_facts, list_groups
from nevis_stream.evaluation_cache.files import (
    ValueTable,
    format_source,
    get_file_kind,
    interpret_array,
    read_values,
)
from nevis_stream.evaluation_cache.importers import is_log
from nevis_stream.evaluation_cache.integrity import refuse_damage
from nevis_stream.evaluation_cache.values import ValueRange
from nevis_stream.queries.board import Board, check_board
from nevis_stream.queries.matrix import ArrayMatrix
from nevis_stream.storage.tables import read_rows, read_table


def read_board(
    source: str | Path | EvaluationCache | np.ndarray,
    *,
    models: Sequence[str] | None = None,
    value_range: ValueRange | Mapping[str, ValueRange] | None = None,
    metrics: Sequence[str] = (),
    lower_is_better: Sequence[str] = (),
    **how: Any,
) -> Board:
    """Reads the values of known models.

    Args:
      source: a file (csv, parquet, npz), a log of an evaluation or a folder of logs, an evaluation
        cache or its directory, or an array: [m, n] of 0, 1 and 255 or NaN (unknown), or of scores;
        of a DataFrame of pandas, the index names the models and the columns name the samples.
      models: the names of an array's models; default: model-0, model-1, ….
      value_range: (low, high) of values whose range the source does not state; default: 0 to 1.
      metrics: of logs, the metric to read of each task; default: the one that most models have.
      lower_is_better: metrics or data sets of which lower values are better, or ["all"].
      **how: grades, ignored, tasks and errors, as of `evaluation_cache.files.read_values`.

    Raises:
      BadInput: the source cannot be read, or a value is not valid; the message names its place.
    """
    if isinstance(source, str | Path) and (Path(source) / INDEX).is_file():
        source = EvaluationCache(source)
    if isinstance(source, EvaluationCache):
        if models is not None or value_range or metrics or lower_is_better or how:
            raise BadInput(f"{source.directory}: a cache states its names, ranges and metrics.")
        return read_cache_board(source)
    how |= {"metrics": metrics, "lower_is_better": lower_is_better}
    if isinstance(source, str | Path):
        if models is not None:
            raise BadInput("models: a file has names of its own; names are for an array.")
        table = read_values(source, None, value_range, **how)
        try:
            table, lines = match_rows(table, {})
        except BadInput as error:
            raise BadInput(f"{source}: {error}") from None
        table = dataclasses.replace(table, remarks=(*table.remarks, *lines))
        return _make_board(table, Path(format_source(source)).name)
    values, names, ids, numbered = _name_array(source, models)
    table = interpret_array(values, names, ids, value_range, **how)
    return _make_board(table, "array", range(len(ids)) if numbered else None)


def _make_board(table: ValueTable, file: str, samples: Sequence[int] | None = None) -> Board:
    """Returns the board of a table; `samples` as of `Board`."""
    check_ids("models", table.models)
    check_ids("samples", table.samples)
    provenances = table.sample_provenance or [{}] * len(table.samples)
    stated = table.model_provenance or [{}] * len(table.models)
    groups = list_groups(stated)
    facts = add_prompts(
        collect_facts(provenances, table.features), provenances, lambda: table.samples
    )
    matrix = ArrayMatrix(table.values, groups if any(groups) else None, facts, table.models)
    return Board(
        matrix,
        table.samples,
        samples=samples,
        understood=[*table.remarks, *(each.line() for each in table.left_out)],
        prices=table.prices,
        describe_samples=lambda: provenances,
        read_prices=read_prices,
        read_answers=partial(read_beside, table),
        write=lambda directory: write_table(directory, table, file),
    )


def _name_array(
    array: Any, models: Sequence[str] | None
) -> tuple[np.ndarray, list[str], list[str], bool]:
    """Returns an array's values, the names of its models and samples, and whether the samples are
    numbers of columns.
    """
    values = np.asarray(array)
    if values.ndim != 2 or not values.size or values.dtype.kind not in "biuf":
        raise BadInput(
            f"a board is an array of numbers [models, samples], not {values.dtype}"
            f"{list(values.shape)}."
        )
    columns = list(getattr(array, "columns", ()))
    named = bool(columns) and columns != list(range(values.shape[1]))  # a table of pandas
    if models is None and named:
        models = [str(each) for each in array.index]
    names = [f"model-{row}" for row in range(len(values))]
    if models is not None:
        names = [str(name) for name in models]
    if len(names) != len(values):
        raise BadInput(f"models: {len(names)} names; the array has {len(values)} rows.")
    ids = [str(column) for column in (columns if named else range(values.shape[1]))]
    return values, names, ids, not named


@check_board.register
def read_cache_board(cache: EvaluationCache) -> Board:
    """Returns a cache as a board; a damaged one is refused."""
    refuse_damage(cache)
    return make_cache_board(cache)


def make_cache_board(cache: EvaluationCache) -> Board:
    """Returns a cache as a board; its values are read when they are needed."""

    def write(directory: Path) -> None:
        EvaluationCache(directory, create=True, about=cache.about).merge(cache)

    return Board(
        CacheMatrix(cache),
        cache.samples(),
        describe_samples=lambda: spread_provenance(cache.sample_provenance()),
        read_prices=read_prices,
        read_answers=partial(read_for_cache, cache),
        write=write,
        directory=cache.directory,
    )


def read_prices(path: Path, read_answers: Callable[..., ValueTable], unit: str) -> dict[str, float]:
    """Returns prices by sample id.

    Args:
      path: a csv with the columns `sample` and the unit, one line for each sample; or what
        `read_board` reads: a table with one row per cell and a column of the unit, or logs that
        count tokens and seconds. Of several models the mean counts.
      read_answers: reads values on the samples of a board.
      unit: of the prices.

    Raises:
      BadInput: the file cannot be read, or has no such prices.
    """
    if not path.exists():
        raise BadInput(f"--prices={path}: no such file.")
    columns = {"sample": "the id of a sample", unit: "its price"}
    if path.is_file() and not is_log(path) and get_file_kind(path) in (".csv", ".tsv", ".txt"):
        rows = read_rows(path, str(path), columns)
        if rows and "model" not in {cell.strip().casefold() for cell in rows[0][1]}:
            return _read_price_table(path, columns, unit)
    table = read_answers(path)
    if unit not in table.prices:
        raise BadInput(f"--prices={path}: has no prices in {unit}.")
    return dict(zip(table.samples, table.prices[unit].tolist(), strict=True))


def _read_price_table(path: Path, columns: Mapping[str, str], unit: str) -> dict[str, float]:
    table, prices = read_table(path, str(path), columns), dict[str, float]()
    for line, cells in table.records():
        sample, text = cells["sample"], cells[unit]
        try:
            price = float(text)
        except ValueError:
            raise BadInput(f"{table.place(line)}: the price {text!r} is no number.") from None
        if prices.setdefault(sample, price) != price:
            raise BadInput(f"{table.place(line)}: sample {sample!r} has another price above.")
    return prices
