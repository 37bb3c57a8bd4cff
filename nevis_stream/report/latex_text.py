"""Values and names as LaTeX sets them, and about how wide they are."""

import math
import re
import unicodedata
from collections.abc import Sequence
from functools import cache
from numbers import Integral, Real

import pandas as pd

from nevis_stream.report.notation import engineering

_SPECIAL = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"} | {
    c: "\\" + c for c in "&%$#_{}"
}
_SPECIAL |= {
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedblright{}",
}
# after a row's end they would be its argument; two hyphens become a dash
_SPECIAL |= {"[": "{[}", "*": "{*}", "-": "-{}"}
_SPECIAL |= {"≥": r"$\geq$", "≤": r"$\leq$", "−": "$-$"}
# letters of pdfLaTeX without a package
_BEYOND_ASCII = frozenset("¡¿£§©®°±²³¹¬¶·×÷µ–—‘’“”…•†€→←™ ßæøåÆØÅœŒłŁ")
_ACCENTS = frozenset("\u0300\u0301\u0302\u0303\u0304\u0306\u0307\u0308\u030a\u030b\u030c\u0327")
_LARGE = 1_000_000
_COMMAND = re.compile(r"\\(?:text\w+\{\}|[a-zA-Z]+)")
_WIDE, _NARROW = frozenset("mwMW%"), frozenset("ijlt.,:;'|()[]/ ")


def escape(text: str) -> str:
    """Returns a text that LaTeX sets as it is; of letters that pdfLaTeX lacks it gives the code,
    for unprintable ones a space.

    >>> print(escape("ft_d & 50%, 中"))
    ft\\_d \\& 50\\%, (U+4E2D)
    """
    shown = "".join(letter if letter.isprintable() else " " for letter in text)
    return "".join(map(_letter, " ".join(shown.split())))


def cell(value: object) -> str:
    """Returns a value for print: four decimals, large numbers in engineering notation, nothing for
    NaN.

    >>> cell(0.123456), cell(12_300_000), cell(float("nan")), cell(True)
    ('0.1235', '$12.3 \\\\times 10^{6}$', '', 'yes')
    """
    if isinstance(value, str):
        return escape(value)
    if undefined(value):
        return ""
    if isinstance(value, bool) or type(value).__name__ == "bool":
        return "yes" if value else "no"
    if not isinstance(value, Real):
        return escape(str(value))
    if math.isinf(value):
        return r"$\infty$" if value > 0 else r"$-\infty$"
    if abs(value) >= _LARGE:
        mantissa, _, power = engineering(abs(float(value))).partition("e")
        return f"${'-' if value < 0 else ''}{mantissa} \\times 10^{{{power}}}$"
    if isinstance(value, Integral) or (float(value).is_integer() and abs(value) >= 1000):
        return f"${int(value)}$" if value < 0 else str(int(value))
    rounded = f"{value:.4f}" if abs(value) < 1000 else f"{value:.1f}"
    return f"${rounded}$" if value < 0 else rounded


def mean_and_std(mean: object, std: object) -> str:
    """Returns both with ± between them, in one power of ten; the mean alone where there is no
    deviation.

    >>> print(mean_and_std(0.26748, 0.02036), mean_and_std(12.3e12, 4e10), mean_and_std(5, None))
    $0.2675 \\pm 0.0204$ $(12.3 \\pm 0.0) \\times 10^{12}$ 5
    """
    first = cell(mean)
    if undefined(std) or not first or not isinstance(std, Real):
        return first
    mantissa, times, power = first.strip("$").partition(r" \times ")
    if not times:
        return f"${mantissa} \\pm {cell(float(std)).strip('$')}$"
    decimals = len(mantissa.partition(".")[2])
    return f"$({mantissa} \\pm {float(std) / 10 ** int(power[4:-1]):.{decimals}f}) \\times {power}$"


def undefined(value: object) -> bool:
    """Whether a value is none: None, NaN, NA."""
    return (
        value is None
        or value is pd.NA
        or value is pd.NaT
        or (isinstance(value, Real) and math.isnan(value))
    )


def breakable(printed: str, most: float) -> str:
    """Returns a printed text that may be broken behind / _ - = and, in a word that is wider than so
    many em, anywhere.

    >>> print(breakable("runs/ft\\\\_d", 20))
    runs/\\allowbreak{}ft\\_\\allowbreak{}d
    """
    if printed.startswith("$"):
        return printed
    pieces, since = [], 0.0
    for match in re.finditer(r"\{.\}|\$[^$]*\$|\\text\w+\{\}|\\.|-\{\}|[^\\$]", printed):
        piece = match[0]
        pieces.append(piece)
        since = 0.0 if piece == " " else since + width(piece)
        if piece in ("/", r"\_", "-{}", "=") or since > most - 2:
            pieces.append(r"\allowbreak{}")
            since = 0.0
    return "".join(pieces)


def width(printed: str) -> float:
    """Returns about how wide a printed text is, in em: rather more than less."""
    total = 0.0
    for letter in re.sub(r"[\\${}^]", "", _COMMAND.sub("m", printed)):
        wide = letter in _WIDE or not letter.isascii()
        total += 0.3 if letter in _NARROW else 0.9 if wide else 0.75 if letter.isupper() else 0.53
    return total


def stacked(words: Sequence[str], most: float) -> list[str]:
    """Returns lines of words, each at most so wide, in em, where its words allow it."""
    lines: list[str] = []
    for word in words:
        if lines and width(f"{lines[-1]} {word}") <= most:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines


@cache
def _letter(letter: str) -> str:
    if letter in _SPECIAL or letter.isascii():
        return _SPECIAL.get(letter, letter)
    if letter in _BEYOND_ASCII:
        return letter
    base, *marks = unicodedata.normalize("NFD", letter)
    if (
        ord(letter) < 0x180
        and base.isascii()
        and base.isalpha()
        and len(marks) == 1
        and marks[0] in _ACCENTS
    ):
        return letter
    return f"(U+{ord(letter):04X})"
