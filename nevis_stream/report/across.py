"""What the page shows across streams: all sections together, and transfer matrices and evaluation
caches, which belong to no section.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from nevis_stream.analysis.transfer_matrix import TransferMatrix
from nevis_stream.report.cache_summaries import Evaluation
from nevis_stream.report.section import Section


@dataclass(frozen=True)
class Across:
    """What parts across streams show; `number` and `title` are used as a section's."""

    sections: Sequence[Section]
    matrices: Sequence[TransferMatrix]
    evaluations: Sequence[Evaluation] = ()
    number: str = "all"
    title: str = "Across streams"
