"""The parts of the page, in its order. A new part: a module here with the names of `Part`, and its
place in PARTS.
"""

from nevis_stream.report.parts import (
    ablations,
    answer,
    answering,
    costs,
    differences,
    dynamic_evaluation,
    evaluation_study,
    finetuning_graph,
    forward_transfer,
    learning_curves,
    per_task,
    points,
    regret,
    runs,
    samples,
    slices,
    transfer_matrix,
)
from nevis_stream.report.parts.part import Part

PARTS: tuple[Part, ...] = (
    answer,
    differences,
    points,
    regret,
    slices,
    per_task,
    costs,
    forward_transfer,
    finetuning_graph,
    learning_curves,
    samples,
    runs,
)

PARTS_ACROSS: tuple[Part, ...] = (
    ablations,
    answering,
    transfer_matrix,
    dynamic_evaluation,
    evaluation_study,
)
"""Parts whose functions take all sections together, as `across.Across`; they come last."""
