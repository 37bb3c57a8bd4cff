"""How numbers are written in the page."""

import math

from nevis_stream.analysis.seeds import Spread

NONE = "–"


def engineering(value: float) -> str:
    """Returns three significant digits with an exponent that is a multiple of three.

    >>> engineering(12_345_678), engineering(-999_999), engineering(84), engineering(float("nan"))
    ('12.3e6', '−1.00e6', '84', '–')
    """
    if value < 0:
        return f"−{engineering(-value)}"
    if math.isnan(value):
        return NONE
    if abs(value) < 1000 and value == int(value):
        return str(int(value))
    mantissa, _, exponent = f"{value:.2e}".partition("e")
    shift = int(exponent) % 3
    digits = f"{float(mantissa) * 10**shift:.{2 - shift}f}"
    power = int(exponent) - shift
    return f"{digits}e{power}" if power else digits


def error(value: float) -> str:
    """Returns an error with four decimals, as the paper's tables resolve it."""
    return NONE if math.isnan(value) else f"{value:.4f}"


def difference(value: float) -> str:
    """Returns a difference of errors with its sign and four decimals.

    >>> difference(-0.01234), difference(0.5), difference(float("nan"))
    ('−0.0123', '+0.5000', '–')
    """
    return NONE if math.isnan(value) else f"{value:+.4f}".replace("-", "−")


def error_spread(value: Spread) -> str:
    """Returns "mean ± std" of an error; the mean alone for a single seed."""
    return error(value.mean) + ("" if math.isnan(value.std) else f" ± {value.std:.4f}")


def cost_spread(value: Spread) -> str:
    """Returns "mean ± std" of FLOPs; the mean alone for a single seed or equal costs."""
    spread = "" if math.isnan(value.std) or value.std == 0 else f" ± {engineering(value.std)}"
    return engineering(value.mean) + spread
