"""The parts of the page, in its order. A new part: a module here with the names of `Part`, and its place in PARTS."""

from nevis_stream.report.parts import (
    compare,
    costs,
    curves,
    forward_transfer,
    per_task,
    points,
    regret,
    runs,
    samples,
    summary,
)
from nevis_stream.report.parts.part import Part

PARTS: tuple[Part, ...] = (
    summary,
    points,
    regret,
    per_task,
    compare,
    costs,
    forward_transfer,
    curves,
    samples,
    runs,
)
