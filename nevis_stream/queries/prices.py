"""Prices: what it costs to ask each sample, and a budget in the same unit.

A budget is a number of samples, 64, or an amount with its unit, "20000 tokens". A budget in a unit
is never exceeded by the samples that give an answer: draws are planned for the dearest sample that
each could hit (see `estimation.allotment`), and other policies see to it that what is left of the
budget buys the samples that are left to be asked.
"""

import contextlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from nevis_stream.errors import BadInput, unknown

UNITS = ("tokens", "dollars", "seconds")


def parse_budget(budget: Any) -> tuple[float, str]:
    """Returns the amount and the unit of a budget that is not a number of samples.

    >>> parse_budget("20000 tokens")
    (20000.0, 'tokens')

    Raises:
      BadInput: it is not an amount above 0 with a unit.
    """
    words = budget.split() if isinstance(budget, str) else []
    amount = math.nan
    if len(words) == 2 and words[1] not in UNITS:
        raise BadInput(f"budget {budget!r}: {unknown('unit', words[1], UNITS)}")
    with contextlib.suppress(ValueError):
        amount = float(words[0]) if len(words) == 2 else math.nan
    if not 0 < amount < math.inf:
        raise BadInput(
            f"budget {budget!r}: a number of samples is expected, or an amount above 0 with its"
            ' unit, such as "20000 tokens", "2.5 dollars" or "600 seconds".'
        )
    return amount, words[1]


@dataclass(frozen=True, eq=False)
class Prices:
    """What it costs to ask each of n samples, and how much may be spent on each model.

    Attributes:
      unit: one of `UNITS`.
      each: float64[n], above 0.
      budget: what may be spent on each model, in this unit.
      stakes: float64[n], each sample's weight in the mean times the standard deviation of its
        values among the known models; empty if it is not known yet.
    """

    unit: str
    each: np.ndarray
    budget: float
    stakes: np.ndarray = field(default_factory=lambda: np.empty(0))

    def make_tree(self) -> dict[str, Any]:
        """Returns the attributes by name, arrays and JSON scalars: `Prices(**tree)` reads them."""
        return {
            "unit": self.unit,
            "each": self.each,
            "budget": self.budget,
            "stakes": self.stakes,
        }

    def take(self, columns: np.ndarray) -> "Prices":
        """Returns the prices of some samples, int64 columns."""
        stakes = self.stakes[columns] if len(self.stakes) else self.stakes
        return replace(self, each=self.each[columns], stakes=stakes)

    def count_best(self) -> int:
        """Returns how many samples the budget buys, those of the greatest stake for their price
        first.

        Raises:
          BadInput: it does not buy one.
        """
        order = np.argsort(-self.stakes / self.each, kind="stable")
        count = int(np.searchsorted(np.cumsum(self.each[order]), self.budget, side="right"))
        if not count:
            raise BadInput(
                f"a budget of {format_amount(self.budget, self.unit)} does not buy the sample that"
                f" tells most for its price, {format_amount(self.each[order[0]], self.unit)}."
            )
        return count

    def compute_spending(self, asked: np.ndarray) -> "Spending":
        """Returns what the samples that gave an answer, int64[k] columns, cost together."""
        spent = float(self.each[asked].sum())
        return Spending(self.unit, self.budget, spent, float(self.each.sum()) - spent)


@dataclass(frozen=True)
class Spending:
    """What the answers of a model have cost.

    Attributes:
      unit: of the amounts.
      budget: what may be spent.
      spent: the prices of the samples that gave an answer.
      saved: the prices of all others.
    """

    unit: str
    budget: float
    spent: float
    saved: float

    def __str__(self) -> str:
        """Returns it for people.

        >>> print(Spending("tokens", 20000, 18500, 981500))
        spent 18,500 of 20,000 tokens, saved 981,500
        """
        spent, budget, saved = map(_format_number, (self.spent, self.budget, self.saved))
        return f"spent {spent} of {budget} {self.unit}, saved {saved}"


def format_amount(amount: float, unit: str) -> str:
    """Returns an amount with its unit, for people."""
    return f"{_format_number(amount)} {unit}"


def _format_number(value: float) -> str:
    return f"{value:,.0f}" if float(value).is_integer() or value >= 1000 else f"{value:,.4g}"


def parse_prices(
    prices: Mapping[Any, Any] | Sequence[float] | np.ndarray, samples: Sequence[Any], unit: str
) -> np.ndarray:
    """Returns the price of each sample, float64[n].

    Args:
      prices: by sample id, or in the order of the samples.
      samples: n ids.
      unit: of the prices, for messages.

    Raises:
      BadInput: a sample has no price, or one that is not a number above 0.
    """
    if isinstance(prices, Mapping):
        values = [prices.get(each, prices.get(str(each))) for each in samples]
    else:
        values = list(prices)
        if len(values) != len(samples):
            raise BadInput(
                f"prices in {unit}: {len(values):,} of them; the board has {len(samples):,}"
                " samples."
            )
    for sample, value in zip(samples, values, strict=True):
        if value is None:
            raise BadInput(f"prices in {unit}: sample {sample!r} has none.")
    try:
        numbers = np.array(values, np.float64)
    except (TypeError, ValueError):
        raise BadInput(f"prices in {unit}: numbers are expected.") from None
    valid = np.isfinite(numbers) & (numbers > 0)
    if not valid.all():
        place = int(np.argmin(valid))
        found = "no price" if np.isnan(numbers[place]) else f"the price {numbers[place]:g}"
        raise BadInput(
            f"prices in {unit}: sample {samples[place]!r} has {found}; a number above 0 is"
            " expected for each sample."
        )
    return numbers
