"""Colours of figures: the page's CSS variables, or the light ones themselves where a figure is
printed.

Matplotlib knows colours, not CSS variables: in a figure for the page each variable has a stand-in,
which `svg.render_inline` replaces.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from importlib.resources import files

SERIES = 7
_NAMES = ("ink", "muted", "line", "card", *(f"s{number}" for number in range(1, SERIES + 1)))
_STAND_IN = re.compile(r"#0101(\d\d)")
_printed: ContextVar[bool] = ContextVar("printed", default=False)


def ink() -> str:
    """Returns the colour of text and of lines that matter."""
    return _colour("ink")


def muted() -> str:
    """Returns the colour of secondary text: tick labels, remarks."""
    return _colour("muted")


def line() -> str:
    """Returns the colour of grids and frames."""
    return _colour("line")


def card() -> str:
    """Returns the background colour of a figure."""
    return _colour("card")


def series(number: int) -> str:
    """Returns the colour of a series, from 1 to `SERIES`."""
    return _colour(f"s{number}")


@contextmanager
def use_print_colours() -> Iterator[None]:
    """Gives figures that the `with` block draws the light colours of the page, for files of their
    own.
    """
    token = _printed.set(True)
    try:
        yield
    finally:
        _printed.reset(token)


def to_variables(text: str) -> str:
    """Replaces the stand-ins in a piece of SVG by the page's variables."""
    return _STAND_IN.sub(lambda match: f"var(--{_NAMES[int(match[1]) - 1]})", text)


@cache
def list_variables(dark: bool = False) -> dict[str, str]:
    """Returns the page's colours (`#rrggbb`) by name, as style.css has them."""
    style = (files("nevis_stream.report") / "style.css").read_text(encoding="utf-8")
    light, night = re.findall(r":root \{(.*?)\}", style, flags=re.S)[:2]
    return dict(re.findall(r"--(\w+): (#[0-9a-f]{6})", night if dark else light))


def _colour(name: str) -> str:
    return list_variables()[name] if _printed.get() else f"#0101{_NAMES.index(name) + 1:02d}"
