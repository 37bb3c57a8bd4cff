"""The parts of the page, in its order. A new part: a module here with the names of `Part`, and its place in PARTS."""

from nevis_stream.report.parts import (
    costs,
    curves,
    finetuning_graph,
    per_task,
    points,
    regret,
    runs,
    samples,
    slices,
    summary,
)
from nevis_stream.report.parts.part import Part

PARTS: tuple[Part, ...] = (
    summary,
    points,
    regret,
    slices,
    per_task,
    costs,
    finetuning_graph,
    curves,
    samples,
    runs,
)
