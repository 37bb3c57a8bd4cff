"""Reads what samples cost: from a table, from logs with counts of tokens, or as given in Python."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nevis_stream.dynamic_evaluation.board import Board
from nevis_stream.errors import BadInput
from nevis_stream.evaluation_cache import EvaluationCache
from nevis_stream.evaluation_cache.exchange import read_for
from nevis_stream.evaluation_cache.files import kind_of_file
from nevis_stream.evaluation_cache.importers import is_log
from nevis_stream.queries.prices import Prices, check_prices, parse_budget
from nevis_stream.storage.tables import read_rows, read_table

PricesGiven = Mapping[Any, float] | Sequence[float] | np.ndarray | str | Path | None
"""Prices by sample id, in the order of the samples, or a file of them."""


def priced_budget(board: Board, budget: int | str, prices: PricesGiven) -> int | Prices:
    """Returns a budget as a method takes it: a number of samples as it is; or, for an amount with a
    unit, the prices of the samples with it.

    Args:
      board: has the samples, and prices if its file has.
      budget: for example 64 or "20000 tokens".
      prices: of the samples, in the unit of the budget; None: those of the board's file.

    Raises:
      BadInput: the budget or a price is not valid, or there are none.
    """
    if not isinstance(budget, str):
        if prices is not None:
            raise BadInput('prices need a budget in their unit, for example "20000 tokens".')
        return budget
    amount, unit = parse_budget(budget)
    if isinstance(prices, str | Path):
        prices = read_prices(Path(prices), board.cache, unit)
    if prices is None:
        if unit not in board.prices:
            raise BadInput(
                f"a budget in {unit}, but the board has no prices in {unit}: give a file of them"
                f" as `prices` (--prices), with the columns sample and {unit}, or logs with counts"
                f" of {unit}; or a column {unit} in a table with one row per cell."
            )
        prices = board.prices[unit]
    return Prices(unit, check_prices(prices, board.samples, unit), amount)


def read_prices(path: Path, cache: EvaluationCache, unit: str) -> dict[str, float]:
    """Returns prices by sample id.

    Args:
      path: a csv with the columns `sample` and the unit, one line for each sample; or what
        `read_board` reads: a table with one row per cell and a column of the unit, or logs that
        count tokens and seconds. Of several models the mean counts.
      cache: has the samples.
      unit: of the prices.

    Raises:
      BadInput: the file cannot be read, or has no such prices.
    """
    if not path.exists():
        raise BadInput(f"--prices={path}: no such file.")
    columns = {"sample": "the id of a sample", unit: "its price"}
    if path.is_file() and not is_log(path) and kind_of_file(path) in (".csv", ".tsv", ".txt"):
        rows = read_rows(path, str(path), columns)
        if rows and "model" not in {cell.strip().casefold() for cell in rows[0][1]}:
            return _of_table(path, columns, unit)
    table = read_for(cache, path)
    if unit not in table.prices:
        raise BadInput(f"--prices={path}: has no prices in {unit}.")
    return dict(zip(table.samples, table.prices[unit].tolist(), strict=True))


def _of_table(path: Path, columns: Mapping[str, str], unit: str) -> dict[str, float]:
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
