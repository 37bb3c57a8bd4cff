"""How numbers are written, and the examples in docstrings."""

import doctest
import math

import pytest

from nevis_stream.analysis import pareto, seeds
from nevis_stream.analysis.seeds import Spread
from nevis_stream.cost import meter
from nevis_stream.report import notation


@pytest.mark.parametrize("module", [pareto, seeds, meter], ids=lambda m: m.__name__)
def test_examples_are_true(module):
    results = doctest.testmod(module)
    assert results.attempted
    assert not results.failed


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (999, "999"),
        (1000, "1.00e3"),
        (999.6, "1.00e3"),
        (10**21 + 1, "1.00e21"),
        (0.5, "500e-3"),
        (-12_345_678, "−12.3e6"),
    ],
)
def test_engineering(value, text):
    assert meter.format_engineering(value) == text


def test_spreads():
    assert notation.format_error_spread(Spread(0.25, 0.01, 3)) == "0.2500 ± 0.0100"
    assert notation.format_error_spread(Spread(0.25, math.nan, 1)) == "0.2500"
    assert notation.format_error_spread(Spread(math.nan, math.nan, 0)) == "–"
    assert notation.format_cost_spread(Spread(2e15, 0.0, 3)) == "2.00e15"
    assert notation.format_cost_spread(Spread(2e15, 1e12, 3)) == "2.00e15 ± 1.00e12"
