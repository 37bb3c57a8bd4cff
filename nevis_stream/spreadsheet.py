"""Tables as csv files that people open in a spreadsheet."""

import io
from typing import Any

from nevis_stream.terminal import printable

# a spreadsheet takes a cell that begins with one of these for a formula (OWASP, CSV Injection)
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


def quote(value: Any) -> Any:
    """Returns a text that a spreadsheet would run as a formula with a quote in front.

    >>> quote("=1+1"), quote("-5"), quote(-5), quote("ft_prev")
    ("'=1+1", "'-5", -5, 'ft_prev')
    """
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value


def _safe(value: Any) -> Any:
    return quote(printable(value) if isinstance(value, str) else value)


def unquote(text: str) -> str:
    """Returns the text that `quote` was given.

    >>> unquote("'=1+1"), unquote("'tis"), unquote("ft_prev")
    ('=1+1', "'tis", 'ft_prev')
    """
    return text[1:] if text[:1] == "'" and quote(text[1:]) == text else text


def csv_bytes(frame) -> bytes:
    """Returns a pandas DataFrame as csv: full precision, NaN spelled out, texts quoted and without
    control characters.
    """
    frame = frame.rename(columns=_safe)
    texts = {
        name: frame[name].map(_safe) for name in frame if frame[name].dtype.kind not in "biufc"
    }
    text = io.StringIO()
    frame.assign(**texts).to_csv(text, index=False, na_rep="NaN", lineterminator="\n")
    return text.getvalue().encode()
