"""A board: the models whose values are known, on the samples that a new model may be asked."""

import functools
import html
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nevis_stream.errors import BadInput, plural
from nevis_stream.queries.matrix import Matrix
from nevis_stream.queries.prices import Prices, parse_budget, parse_prices
from nevis_stream.queries.samples import SampleFacts
from nevis_stream.user_calls import ReadOnlyList

_SHOWN = 10  # models of a table in a notebook

PricesGiven = Mapping[Any, float] | Sequence[float] | np.ndarray | str | Path | None
"""Prices by sample id, in the order of the samples, or a file of them."""


class Board:
    """Known models on samples. It is read-only; `read_board` makes it.

    Attributes:
      matrix: the values.
      models: m names.
      samples: n ids, which an evaluated model is asked by; of an array, the numbers of its columns.
      ids: n ids, as texts.
      understood: lines on what was read and what was left out.
      prices: by unit, what each sample costs, float64[n], NaN where that is not known, as the file
        has it.
      fits: what methods learned from these models, by method, for the next evaluation.
      directory: of the cache that the values are read from, if they are in one.

    Args:
      describe_samples: returns what is stated about each sample, n mappings.
      read_answers: reads a file of values on these samples, as of `read_values`; what identifies
        a sample must agree.
      read_prices: reads a file of prices, given `read_answers` and a unit.
      write: writes the values to a new cache in a directory.
    """

    def __init__(
        self,
        matrix: Matrix,
        ids: Sequence[str],
        *,
        write: Callable[[Path], None],
        describe_samples: Callable[[], Sequence[Mapping[str, Any]]],
        read_answers: Callable[..., Any],
        read_prices: Callable[[Path, Callable[..., Any], str], Mapping[str, float]],
        samples: Sequence[int] | None = None,
        understood: Sequence[str] = (),
        prices: Mapping[str, np.ndarray] | None = None,
        directory: Path | None = None,
    ):
        self.matrix, self.understood = matrix, tuple(understood)
        self.ids: list[str] = ReadOnlyList(ids)
        self.models: list[str] = ReadOnlyList(matrix.models)
        self.samples: list[Any] = ReadOnlyList(self.ids if samples is None else samples)
        self.prices, self.directory = dict(prices or {}), directory
        self.fits: dict[str, Any] = {}
        self.describe_samples, self.write = describe_samples, write
        self.read_answers, self._read_prices = read_answers, read_prices

    @property
    def facts(self) -> SampleFacts:
        """Facts about the samples."""
        return self.matrix.facts

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of models and samples, m and n."""
        return self.matrix.shape

    def read_prices(self, path: Path, unit: str) -> Mapping[str, float]:
        """Returns the prices that a file gives, by sample id."""
        return self._read_prices(path, self.read_answers, unit)

    def values(self) -> np.ndarray:
        """Returns uint8[m, n] of 0, 1 and 255 (unknown), or float32[m, n] of scores, NaN unknown;
        scores are scaled from their range to [0, 1].
        """
        return self.matrix.matrix()

    def means(self) -> np.ndarray:
        """Returns each model's mean over the samples on which it is known, float64[m], in the range
        of the samples if all have the same one, else scaled to 0 to 1; NaN if it is known on none.
        """
        total, count = (np.asarray(each, np.float64) for each in self.matrix.row_sums())
        means = np.divide(total, count, out=np.full(len(total), np.nan), where=count > 0)
        parts = self.facts.parts
        return parts[0].low + means * (parts[0].high - parts[0].low) if len(parts) == 1 else means

    def __repr__(self) -> str:
        models, samples = self.shape
        kind = "scores" if self.matrix.scores else "outcomes"
        means = self.means()
        span = ""
        if np.isfinite(means).any():
            span = f", means {np.nanmin(means):.3f} to {np.nanmax(means):.3f}"
        return f"Board: {plural(models, 'model')} × {plural(samples, 'sample')}, {kind}{span}"

    def _repr_html_(self) -> str:
        """Shows the best models, by mean, in a notebook."""
        means, parts = self.means(), self.facts.parts
        sign = 1 if all(part.lower for part in parts) else -1
        order = np.argsort(sign * means, kind="stable")[:_SHOWN]
        rows = "".join(
            f"<tr><td>{html.escape(self.models[row])}</td><td>{means[row]:.4f}</td></tr>"
            for row in order.tolist()
        )
        head = "<tr><th>model</th><th>mean</th></tr>"
        return f"<p>{html.escape(repr(self))}</p><table>{head}{rows}</table>"


@functools.singledispatch
def check_board(board: Any) -> Board:
    """Returns a board; or that of what can be read as one, which registers itself here.

    Raises:
      BadInput: it is something else, such as an array.
    """
    if not isinstance(board, Board):
        raise BadInput(
            f"a board is expected, not {type(board).__name__}: `read_board` makes one of a file, a"
            " folder of logs, a cache or an array."
        )
    return board


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
        prices = board.read_prices(Path(prices), unit)
    if prices is None:
        if unit not in board.prices:
            raise BadInput(
                f"a budget in {unit}, but the board has no prices in {unit}: give a file of them"
                f" as `prices` (--prices), with the columns sample and {unit}, or logs with counts"
                f" of {unit}; or a column {unit} in a table with one row per cell."
            )
        prices = board.prices[unit]
    return Prices(unit, parse_prices(prices, board.samples, unit), amount)
