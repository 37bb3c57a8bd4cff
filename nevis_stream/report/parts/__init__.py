"""The parts of the page, in its order. A new part: a module here with the names of `Part`, and its
place in PARTS.
"""

from nevis_stream.report.parts import (
    ablations,
    compare,
    costs,
    curves,
    evaluation,
    finetuning_graph,
    forward_transfer,
    matched,
    per_task,
    points,
    regret,
    runs,
    samples,
    slices,
    summary,
    transfer_matrix,
)
from nevis_stream.report.parts.part import Part

PARTS: tuple[Part, ...] = (
    summary,
    points,
    regret,
    matched,
    slices,
    per_task,
    compare,
    costs,
    forward_transfer,
    finetuning_graph,
    curves,
    samples,
    runs,
)

PARTS_ACROSS: tuple[Part, ...] = (ablations, transfer_matrix, evaluation)
"""Parts whose functions take all sections together, as `across.Across`; they stand last."""
