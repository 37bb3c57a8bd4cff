"""The notation of FLOPs, the same everywhere."""

import math


def engineering(value: float) -> str:
    """Returns three significant digits with an exponent that is a multiple of three.

    >>> engineering(12_345_678), engineering(-999_999), engineering(84), engineering(float("nan"))
    ('12.3e6', '−1.00e6', '84', '–')
    """
    if value < 0:
        return f"−{engineering(-value)}"
    if math.isnan(value):
        return "–"
    if abs(value) < 1000 and value == int(value):
        return str(int(value))
    mantissa, _, exponent = f"{value:.2e}".partition("e")
    shift = int(exponent) % 3
    digits = f"{float(mantissa) * 10**shift:.{2 - shift}f}"
    power = int(exponent) - shift
    return f"{digits}e{power}" if power else digits


def cost_text(value: float) -> str:
    """Returns FLOPs as `engineering`, and words for what nobody counted.

    >>> cost_text(12_345_678), cost_text(float("nan"))
    ('12.3e6', 'cost unknown')
    """
    return "cost unknown" if math.isnan(value) else engineering(value)


def ratio(value: float) -> str:
    """Returns a ratio of FLOPs with three significant digits; one that is very small or very large
    is written as FLOPs are.

    >>> ratio(0.25), ratio(78.71), ratio(208_900.0), ratio(1.92e-5), ratio(float("nan"))
    ('0.25', '78.7', '209e3', '19.2e-6', '–')
    """
    return f"{value:.3g}" if value == 0 or 0.001 <= abs(value) < 999.5 else engineering(value)


def times(value: float) -> str:
    """Returns how many times the training FLOPs of another method one used, in words; the text
    continues with " training FLOPs of" and the other method.

    Args:
      value: the first method's FLOPs divided by the second's, 0 or more.

    >>> times(2.5), times(1 / 52_083), times(208_900.0), times(0.0), times(1.001)
    ('2.5 times the', '1/52,100 of the', '209,000 times the', 'no', 'the same')
    """
    if value == 0:
        return "no"
    if abs(value - 1) < 0.005:
        return "the same"
    factor = max(value, 1 / value)
    text = f"{float(f'{factor:.3g}'):,.0f}" if 999.5 <= factor < 1e9 else ratio(factor)
    return f"{text} times the" if value > 1 else f"1/{text} of the"
