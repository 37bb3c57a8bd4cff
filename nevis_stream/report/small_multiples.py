"""Learning curves as one small SVG a task: many and light, so drawn without matplotlib."""

import math
from collections.abc import Sequence

from markupsafe import Markup

from nevis_stream.report.notation import engineering
from nevis_stream.report.styles import Style

WIDTH, HEIGHT = 220, 130
_LEFT, _RIGHT, _TOP, _BOTTOM = 40, 8, 9, 22
_MOST_POINTS = 60

Curve = Sequence[tuple[float, float]]


def small_multiple(title: str, curves: Sequence[tuple[Style, Curve]]) -> Markup:
    """Returns an `<svg>` element with dev error against steps, one line a run.

    Args:
      title: the task, for screen readers.
      curves: style and (step, dev error) pairs of each run; a curve of one pair is drawn as a dot.
    """
    drawn = [(style, _thinned(curve)) for style, curve in curves if curve]
    steps = max((step for _, curve in drawn for step, _ in curve), default=0) or 1
    errors = _ceiling(max((error for _, curve in drawn for _, error in curve), default=0))
    parts = [_axes(steps, errors)]
    parts += [_line(style, curve, steps, errors) for style, curve in drawn]
    head = Markup('<svg class="curve" viewBox="0 0 {} {}" role="img" aria-label="{}">')
    return head.format(WIDTH, HEIGHT, title) + Markup("").join(parts) + Markup("</svg>")


def _thinned(curve: Curve) -> Curve:
    if len(curve) <= _MOST_POINTS:
        return curve
    last = len(curve) - 1
    return [curve[round(i * last / (_MOST_POINTS - 1))] for i in range(_MOST_POINTS)]


def _ceiling(value: float) -> float:
    """The next of 1, 2 and 5 times a power of ten, so that half of it is a short number too."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(m * power for m in (1, 2, 5, 10) if m * power >= value * (1 - 1e-9))


def _axes(steps: float, errors: float) -> Markup:
    bottom, right = HEIGHT - _BOTTOM, WIDTH - _RIGHT
    middle = (_TOP + bottom) / 2
    return Markup(
        '<path class="grid" d="M{left} {top}H{right}M{left} {middle}H{right}"/>'
        '<path class="axis" d="M{left} {bottom}H{right}"/>'
        '<g class="left"><text x="{label}" y="{top_text}">{high}</text>'
        '<text x="{label}" y="{middle_text}">{half}</text>'
        '<text x="{label}" y="{bottom_text}">0</text></g>'
        '<text x="{left}" y="{under}">0</text>'
        '<text class="right" x="{right}" y="{under}">{steps}</text>'
    ).format(
        left=_LEFT,
        right=right,
        top=_TOP,
        middle=f"{middle:g}",
        bottom=bottom,
        label=_LEFT - 5,
        top_text=_TOP + 4,
        middle_text=f"{middle + 4:g}",
        bottom_text=bottom + 1,
        under=HEIGHT - 6,
        high=f"{errors:.2g}",
        half=f"{errors / 2:.2g}",
        steps=_steps(steps),
    )


def _steps(steps: float) -> str:
    return f"{steps:g} steps" if steps < 10_000 else f"{engineering(steps)} steps"


def _line(style: Style, curve: Curve, steps: float, errors: float) -> Markup:
    across, down = WIDTH - _LEFT - _RIGHT, HEIGHT - _TOP - _BOTTOM
    scaled = [(step / steps, 1 - error / errors) for step, error in curve]
    places = [(_LEFT + x * across, _TOP + y * down) for x, y in scaled]
    if len(places) == 1:
        x, y = places[0]
        dot = Markup('<circle cx="{}" cy="{}" r="2.5" style="fill:var(--s{})"/>')
        return dot.format(f"{x:.1f}", f"{y:.1f}", style.colour)
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    line = Markup('<polyline points="{}" style="stroke:var(--s{})" stroke-dasharray="{}"/>')
    return line.format(path, style.colour, style.dash_array)
