"""How numbers are written in the page."""

import math

from nevis_stream.analysis.seeds import Spread
from nevis_stream.cost.meter import format_cost, format_engineering

NONE = "–"


def format_error(value: float) -> str:
    """Returns an error with four decimals, as the paper's tables resolve it."""
    return NONE if math.isnan(value) else f"{value:.4f}"


def format_difference(value: float) -> str:
    """Returns a difference of errors with its sign and four decimals.

    >>> format_difference(-0.01234), format_difference(0.5), format_difference(float("nan"))
    ('−0.0123', '+0.5000', '–')
    """
    return NONE if math.isnan(value) else f"{value:+.4f}".replace("-", "−")


def format_error_spread(value: Spread) -> str:
    """Returns "mean ± std" of an error; the mean alone for a single seed."""
    return format_error(value.mean) + ("" if math.isnan(value.std) else f" ± {value.std:.4f}")


def format_cost_spread(value: Spread) -> str:
    """Returns "mean ± std" of FLOPs; the mean alone for a single seed or equal costs."""
    spread = (
        "" if math.isnan(value.std) or value.std == 0 else f" ± {format_engineering(value.std)}"
    )
    return format_cost(value.mean) + spread


def format_tick(flops: float) -> str:
    """Returns FLOPs for an axis: as in tables, without zeros at the end.

    >>> format_tick(20e12), format_tick(1500), format_tick(0)
    ('20e12', '1.5e3', '0')
    """
    mantissa, _, power = format_engineering(flops).partition("e")
    digits = mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa
    return f"{digits}e{power}" if power else digits
