"""What the page shows across streams: all sections together, and transfer matrices, evaluation
caches and studies of evaluation methods, which belong to no section.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from nevis_stream.analysis.answering import is_answering
from nevis_stream.analysis.transfer_matrix import TransferMatrix
from nevis_stream.report.cache_summaries import Evaluation
from nevis_stream.report.section import Section
from nevis_stream.report.study_summaries import Study


@dataclass(frozen=True)
class Across:
    """What parts across streams show; `number` and `title` are used as a section's."""

    sections: Sequence[Section]
    matrices: Sequence[TransferMatrix]
    evaluations: Sequence[Evaluation] = ()
    studies: Sequence[Study] = ()
    number: str = "all"

    @property
    def answering(self) -> bool:
        """Whether all runs are of adaptive streams, whose rules are then compared."""
        runs = [run for section in self.sections for run in section.runs]
        return bool(runs) and all(is_answering(run) for run in runs)

    @property
    def title(self) -> str:
        """The heading; without runs and transfer matrices, of caches and studies alone."""
        if self.answering:
            return "Rules compared"
        return "Across streams" if self.sections or self.matrices else "Dynamic evaluation"
