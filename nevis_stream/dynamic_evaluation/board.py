"""A board: the models whose values are known, read from whatever holds them; and what its samples
cost, read from a table, from logs with counts of tokens, or as given in Python.
"""

import html
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nevis_stream.errors import BadInput, plural
from nevis_stream.evaluation_cache.evaluation_cache import INDEX, EvaluationCache
from nevis_stream.evaluation_cache.exchange import import_file, read_for_cache
from nevis_stream.evaluation_cache.files import get_file_kind
from nevis_stream.evaluation_cache.importers import is_log
from nevis_stream.evaluation_cache.values import ValueRange
from nevis_stream.queries.prices import Prices, parse_budget, parse_prices
from nevis_stream.queries.samples import SampleFacts
from nevis_stream.storage.tables import read_rows, read_table
from nevis_stream.user_calls import ReadOnlyList

_SHOWN = 10  # models of a table in a notebook


class Board:
    """Known models on samples. It is read-only; `read_board` makes it.

    Attributes:
      cache: what holds the values: the user's cache, or a temporary one that lives as long as the
        board.
      models: m names.
      samples: n ids, which an evaluated model is asked by; of an array, the numbers of its columns.
      understood: lines on what was read and what was left out.
      prices: by unit, what each sample costs, float64[n], NaN where that is not known, as the file
        has it.
    """

    def __init__(
        self,
        cache: EvaluationCache,
        samples: Sequence[str] | Sequence[int] | None = None,
        understood: Sequence[str] = (),
        folder: tempfile.TemporaryDirectory[str] | None = None,
        prices: Mapping[str, np.ndarray] | None = None,
    ):
        self.cache, self.understood = cache, tuple(understood)
        self.models: list[str] = list(cache.models())
        self.samples = ReadOnlyList(cache.samples() if samples is None else samples)
        self.prices = dict(prices or {})
        self._folder = folder  # is removed with the board

    @property
    def temporary(self) -> bool:
        """Whether the values were read from a file or an array, not from the user's cache."""
        return self._folder is not None

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of models and samples, m and n."""
        return len(self.models), len(self.samples)

    def values(self) -> np.ndarray:
        """Returns uint8[m, n] of 0, 1 and 255 (unknown), or float32[m, n] of scores, NaN unknown;
        scores are scaled from their range to [0, 1].
        """
        return self.cache.matrix()

    def means(self) -> np.ndarray:
        """Returns each model's mean over the samples on which it is known, float64[m], in the range
        of the samples if all have the same one, else scaled to 0 to 1; NaN if it is known on none.
        """
        total, count = (np.asarray(each, np.float64) for each in self.cache.row_sums())
        means = np.divide(total, count, out=np.full(len(total), np.nan), where=count > 0)
        parts = self.cache.facts().parts
        return parts[0].low + means * (parts[0].high - parts[0].low) if len(parts) == 1 else means

    def __repr__(self) -> str:
        models, samples = self.shape
        kind = "scores" if self.cache.scores else "outcomes"
        means = self.means()
        span = ""
        if np.isfinite(means).any():
            span = f", means {np.nanmin(means):.3f} to {np.nanmax(means):.3f}"
        return f"Board: {plural(models, 'model')} × {plural(samples, 'sample')}, {kind}{span}"

    def _repr_html_(self) -> str:
        """Shows the best models, by mean, in a notebook."""
        means, parts = self.means(), self.cache.facts().parts
        sign = 1 if all(part.lower for part in parts) else -1
        order = np.argsort(sign * means, kind="stable")[:_SHOWN]
        rows = "".join(
            f"<tr><td>{html.escape(self.models[row])}</td><td>{means[row]:.4f}</td></tr>"
            for row in order.tolist()
        )
        head = "<tr><th>model</th><th>mean</th></tr>"
        return f"<p>{html.escape(repr(self))}</p><table>{head}{rows}</table>"


def check_board(board: Any) -> Board:
    """Returns a board, or that of an evaluation cache.

    Raises:
      BadInput: it is something else, such as an array.
    """
    if isinstance(board, EvaluationCache):
        return Board(board)
    if not isinstance(board, Board):
        raise BadInput(
            f"a board is expected, not {type(board).__name__}: `read_board` makes one of a file, a"
            " folder of logs, a cache or an array."
        )
    return board


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
        return Board(source)
    folder = tempfile.TemporaryDirectory(prefix="nevis-stream-board-")
    directory = Path(folder.name)
    ids: range | None = None
    is_array = not isinstance(source, str | Path)
    if isinstance(source, str | Path):
        path = Path(source)
    else:
        path, ids = directory / "array.npz", _write_array(directory / "array.npz", source, models)
    if models is not None and not is_array:
        raise BadInput("models: a file has names of its own; names are for an array.")
    target = directory / "board"
    how |= {"metrics": metrics, "lower_is_better": lower_is_better}
    table = import_file(target, path, None, value_range, **how)
    lines = [*table.remarks, *(each.line() for each in table.left_out)]
    return Board(EvaluationCache(target), ids, lines, folder, table.prices)


def _write_array(path: Path, array: np.ndarray, models: Sequence[str] | None) -> range | None:
    """Writes an array as a file of values; returns the numbers of its columns, None if they have
    names.
    """
    values = np.asarray(array)
    if values.ndim != 2 or not values.size or values.dtype.kind not in "biuf":
        raise BadInput(
            f"a board is an array of numbers [models, samples], not {values.dtype}"
            f"{list(values.shape)}."
        )
    samples, columns = range(values.shape[1]), list(getattr(array, "columns", ()))
    named = bool(columns) and columns != list(samples)  # a table of pandas
    if models is None and named:
        models = [str(each) for each in array.index]  # type: ignore[attr-defined]
    names = [f"model-{row}" for row in range(len(values))] if models is None else list(models)
    if len(names) != len(values):
        raise BadInput(f"models: {len(names)} names; the array has {len(values)} rows.")
    ids = [str(column) for column in (columns if named else samples)]
    np.savez(path, models=np.array(names), samples=np.array(ids), score=values)
    return None if named else samples


PricesGiven = Mapping[Any, float] | Sequence[float] | np.ndarray | str | Path | None
"""Prices by sample id, in the order of the samples, or a file of them."""


def check_common_mean(facts: SampleFacts, remedy: str) -> None:
    """Refuses samples that have several metrics, or no common mean.

    Args:
      facts: about the samples.
      remedy: what to do if there are several metrics, for the message.

    Raises:
      BadInput: there are several.
    """
    names = ", ".join(part.name for part in facts.parts)
    if facts.prompt is not None:
        raise BadInput(f"this board has several metrics of one prompt, {names}: {remedy}")
    if len(facts.parts) > 1:
        raise BadInput(
            "the data sets of this board differ in direction or range, so there is no common mean:"
            f" {names}. Read each into a board of its own."
        )


def convert_budget(board: Board, budget: int | str, prices: PricesGiven) -> int | Prices:
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
    return Prices(unit, parse_prices(prices, board.samples, unit), amount)


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
    if path.is_file() and not is_log(path) and get_file_kind(path) in (".csv", ".tsv", ".txt"):
        rows = read_rows(path, str(path), columns)
        if rows and "model" not in {cell.strip().casefold() for cell in rows[0][1]}:
            return _read_price_table(path, columns, unit)
    table = read_for_cache(cache, path)
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
